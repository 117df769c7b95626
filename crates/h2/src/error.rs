//! Error codes and what ends a connection.

use brisk_mux::flood::Flooded;
use std::borrow::Cow;
use std::fmt;

/// An error code (RFC 9113 §7). Unknown ones are kept as they came.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// Not an error: the connection or stream just ends.
    pub const NO_ERROR: ErrorCode = ErrorCode(0);
    /// The peer breaks the protocol.
    pub const PROTOCOL_ERROR: ErrorCode = ErrorCode(1);
    /// Something has failed here.
    pub const INTERNAL_ERROR: ErrorCode = ErrorCode(2);
    /// A window was exceeded.
    pub const FLOW_CONTROL_ERROR: ErrorCode = ErrorCode(3);
    /// SETTINGS were not acknowledged in time.
    pub const SETTINGS_TIMEOUT: ErrorCode = ErrorCode(4);
    /// A frame came for a stream that is closed.
    pub const STREAM_CLOSED: ErrorCode = ErrorCode(5);
    /// A frame has a length that its type does not allow.
    pub const FRAME_SIZE_ERROR: ErrorCode = ErrorCode(6);
    /// The stream was refused before anything was done for it (RFC 9113 §8.7): it may be tried again.
    pub const REFUSED_STREAM: ErrorCode = ErrorCode(7);
    /// The stream is not wanted any more.
    pub const CANCEL: ErrorCode = ErrorCode(8);
    /// The state of header compression is lost.
    pub const COMPRESSION_ERROR: ErrorCode = ErrorCode(9);
    /// A tunnel's connection has failed.
    pub const CONNECT_ERROR: ErrorCode = ErrorCode(10);
    /// The peer causes too much work.
    pub const ENHANCE_YOUR_CALM: ErrorCode = ErrorCode(11);
    /// The transport is not secure enough.
    pub const INADEQUATE_SECURITY: ErrorCode = ErrorCode(12);
    /// The request needs HTTP/1.1.
    pub const HTTP_1_1_REQUIRED: ErrorCode = ErrorCode(13);

    /// The RFC's name; nothing for unknown codes.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 14] = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        NAMES.get(self.0 as usize).copied().unwrap_or("")
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            "" => write!(f, "{}", self.0),
            name => f.write_str(name),
        }
    }
}

/// The peer has broken the rules in a way that ends the connection (RFC 9113 §5.4.1): the caller sends
/// [`Connection::fail`](crate::Connection::fail) and closes. `Display` is the text for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionError {
    /// What GOAWAY says.
    pub code: ErrorCode,
    /// What the peer has done: `client sent …` without its subject.
    pub text: Cow<'static, str>,
}

impl ConnectionError {
    #[cold]
    pub(crate) fn new(code: ErrorCode, text: impl Into<Cow<'static, str>>) -> ConnectionError {
        ConnectionError { code, text: text.into() }
    }

    #[cold]
    pub(crate) fn protocol(text: impl Into<Cow<'static, str>>) -> ConnectionError {
        ConnectionError::new(ErrorCode::PROTOCOL_ERROR, text)
    }

    #[cold]
    pub(crate) fn size(text: impl Into<Cow<'static, str>>) -> ConnectionError {
        ConnectionError::new(ErrorCode::FRAME_SIZE_ERROR, text)
    }
}

impl From<Flooded> for ConnectionError {
    #[cold]
    fn from(flooded: Flooded) -> ConnectionError {
        ConnectionError::new(ErrorCode::ENHANCE_YOUR_CALM, format!("{flooded}: http2 flood detected"))
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for ConnectionError {}
