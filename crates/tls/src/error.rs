//! Why a session has ended, in the words that log readers know.

use rustls::{AlertDescription, CertificateError, PeerIncompatible, PeerMisbehaved};
use std::fmt;

/// See the module's head.
#[derive(Clone, Debug)]
pub enum Error {
    /// The session had an error before.
    Over,
    /// Data cannot be sent yet.
    NotReady,
    /// The peer did not follow the protocol, or nothing could be agreed with it.
    Protocol(rustls::Error),
    /// The same, found without the library: OpenSSL's reason.
    Refused(&'static str),
    /// The library refused.
    Library(String),
}

impl From<rustls::Error> for Error {
    fn from(error: rustls::Error) -> Error {
        Error::Protocol(error)
    }
}

/// The reason as OpenSSL names it, where it has one: `no shared cipher`, `wrong version number`, …
fn reason(error: &rustls::Error) -> Option<&'static str> {
    Some(match error {
        rustls::Error::AlertReceived(alert) => return alert_text(*alert),
        rustls::Error::PeerIncompatible(what) => match what {
            PeerIncompatible::NoCipherSuitesInCommon => "no shared cipher",
            PeerIncompatible::NoKxGroupsInCommon => "no suitable key share",
            PeerIncompatible::NoSignatureSchemesInCommon
            | PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon => {
                "no suitable signature algorithm"
            }
            PeerIncompatible::SupportedVersionsExtensionRequired
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::Tls13RequiredForQuic
            | PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig => "unsupported protocol",
            _ => return None,
        },
        rustls::Error::NoApplicationProtocol => "no application protocol",
        rustls::Error::InvalidMessage(_) => "bad record type",
        rustls::Error::DecryptError => "decryption failed or bad record mac",
        rustls::Error::PeerSentOversizedRecord => "packet length too long",
        rustls::Error::PeerMisbehaved(PeerMisbehaved::RejectedEarlyDataInterleavedWithHandshakeMessage) => {
            "unexpected message"
        }
        rustls::Error::InappropriateMessage { .. } | rustls::Error::InappropriateHandshakeMessage { .. } => {
            "unexpected message"
        }
        rustls::Error::InvalidCertificate(CertificateError::BadSignature) => "bad signature",
        rustls::Error::General(text) if text == "no server certificate chain resolved" => "no certificate",
        _ => return None,
    })
}

/// OpenSSL's name of an alert that came from the peer.
fn alert_text(alert: AlertDescription) -> Option<&'static str> {
    Some(match alert {
        AlertDescription::UnexpectedMessage => "ssl/tls alert unexpected message",
        AlertDescription::RecordOverflow => "tlsv1 alert record overflow",
        AlertDescription::BadRecordMac => "ssl/tls alert bad record mac",
        AlertDescription::HandshakeFailure => "ssl/tls alert handshake failure",
        AlertDescription::BadCertificate => "ssl/tls alert bad certificate",
        AlertDescription::UnsupportedCertificate => "ssl/tls alert unsupported certificate",
        AlertDescription::CertificateRevoked => "ssl/tls alert certificate revoked",
        AlertDescription::CertificateExpired => "ssl/tls alert certificate expired",
        AlertDescription::CertificateUnknown => "ssl/tls alert certificate unknown",
        AlertDescription::IllegalParameter => "ssl/tls alert illegal parameter",
        AlertDescription::UnknownCA => "tlsv1 alert unknown ca",
        AlertDescription::AccessDenied => "tlsv1 alert access denied",
        AlertDescription::DecodeError => "tlsv1 alert decode error",
        AlertDescription::DecryptError => "tlsv1 alert decrypt error",
        AlertDescription::ProtocolVersion => "tlsv1 alert protocol version",
        AlertDescription::InternalError => "tlsv1 alert internal error",
        AlertDescription::UserCanceled => "tlsv1 alert user cancelled",
        AlertDescription::NoRenegotiation => "tlsv1 alert no renegotiation",
        AlertDescription::UnrecognisedName => "tlsv1 unrecognized name",
        AlertDescription::CertificateRequired => "tlsv13 alert certificate required",
        AlertDescription::NoApplicationProtocol => "tlsv1 alert no application protocol",
        _ => return None,
    })
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Over => f.write_str("the session has ended"),
            Error::NotReady => f.write_str("the handshake is not complete"),
            Error::Protocol(error) => match reason(error) {
                Some(reason) => write!(f, "SSL: error:{reason}"),
                None => write!(f, "SSL: error:{error}"),
            },
            Error::Refused(reason) => write!(f, "SSL: error:{reason}"),
            Error::Library(text) => write!(f, "SSL: {text}"),
        }
    }
}

impl std::error::Error for Error {}
