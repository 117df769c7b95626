//! Why an exchange came to nothing.

use brisk_net::TlsError;
use std::fmt;
use std::io;

/// What failed, for counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The name has no address.
    Dns,
    /// Nobody listens there.
    Refused,
    /// Another reason for having no connection.
    Connect,
    /// No TLS session, or a certificate that is not trusted.
    Tls,
    /// It took too long.
    Timeout,
    /// The connection was reset, or the stream.
    Reset,
    /// The response ended before its end.
    Truncated,
    /// What came is not HTTP.
    Malformed,
}

impl Fault {
    /// A short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Refused => "refused",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Reset => "reset",
            Self::Truncated => "truncated",
            Self::Malformed => "malformed",
        }
    }
}

/// A failed exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What failed.
    pub fault: Fault,
    /// For people.
    pub text: String,
    /// Not a byte of a response had come.
    pub before_response: bool,
}

impl Failure {
    pub(crate) fn new(fault: Fault, text: impl Into<String>) -> Self {
        Self { fault, text: text.into(), before_response: false }
    }

    /// Reading or writing has failed.
    pub(crate) fn io(error: &io::Error, before_response: bool) -> Self {
        let fault = match error.kind() {
            io::ErrorKind::TimedOut => Fault::Timeout,
            io::ErrorKind::UnexpectedEof => Fault::Truncated,
            io::ErrorKind::InvalidData => Fault::Tls,
            _ => Fault::Reset,
        };
        Self { fault, text: error.to_string(), before_response }
    }

    pub(crate) fn tls(error: &TlsError) -> Self {
        let text = match error {
            TlsError::Io(error) => format!("TLS handshake: {error}"),
            TlsError::Handshake(error) => format!("TLS handshake: {error}"),
            TlsError::Distrust(brisk_tls::Distrust::Refused(refusal)) => {
                format!("the certificate is not trusted: {refusal} (-k takes any)")
            }
            TlsError::Distrust(brisk_tls::Distrust::OtherName(name)) => {
                format!("the certificate is not for \"{name}\" (-k takes any)")
            }
            TlsError::Closed => "the server closed the connection in the TLS handshake".to_owned(),
        };
        Self::new(Fault::Tls, text)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.fault.name(), self.text)
    }
}

impl std::error::Error for Failure {}
