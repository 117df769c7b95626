//! Error codes and what ends a connection.

use brisk_mux::flood::Flooded;
use std::borrow::Cow;
use std::fmt;

/// An error code of HTTP/3 (RFC 9114 §8.1) or QPACK (RFC 9204 §6). Unknown ones are kept as they came.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u64);

impl ErrorCode {
    /// Not an error: the connection or stream just ends.
    pub const NO_ERROR: ErrorCode = ErrorCode(0x100);
    /// The peer breaks the protocol in a way that has no code of its own.
    pub const GENERAL_PROTOCOL_ERROR: ErrorCode = ErrorCode(0x101);
    /// Something has failed here.
    pub const INTERNAL_ERROR: ErrorCode = ErrorCode(0x102);
    /// The peer has begun a stream that is not accepted.
    pub const STREAM_CREATION_ERROR: ErrorCode = ErrorCode(0x103);
    /// A stream that the connection needs was closed.
    pub const CLOSED_CRITICAL_STREAM: ErrorCode = ErrorCode(0x104);
    /// A frame that may not come in this state or on this stream.
    pub const FRAME_UNEXPECTED: ErrorCode = ErrorCode(0x105);
    /// A frame is not laid out as its type asks, or has an invalid size.
    pub const FRAME_ERROR: ErrorCode = ErrorCode(0x106);
    /// The peer causes too much work.
    pub const EXCESSIVE_LOAD: ErrorCode = ErrorCode(0x107);
    /// A number of a stream or push was used wrongly.
    pub const ID_ERROR: ErrorCode = ErrorCode(0x108);
    /// Something is wrong in the payload of SETTINGS.
    pub const SETTINGS_ERROR: ErrorCode = ErrorCode(0x109);
    /// The control stream does not begin with SETTINGS.
    pub const MISSING_SETTINGS: ErrorCode = ErrorCode(0x10a);
    /// The request was refused before anything was done for it: it may be tried again.
    pub const REQUEST_REJECTED: ErrorCode = ErrorCode(0x10b);
    /// The request or its answer is not wanted any more.
    pub const REQUEST_CANCELLED: ErrorCode = ErrorCode(0x10c);
    /// The client's stream has ended without a whole request.
    pub const REQUEST_INCOMPLETE: ErrorCode = ErrorCode(0x10d);
    /// A message is malformed.
    pub const MESSAGE_ERROR: ErrorCode = ErrorCode(0x10e);
    /// A tunnel's connection has failed.
    pub const CONNECT_ERROR: ErrorCode = ErrorCode(0x10f);
    /// The request needs HTTP/1.1.
    pub const VERSION_FALLBACK: ErrorCode = ErrorCode(0x110);
    /// A field section cannot be decoded.
    pub const QPACK_DECOMPRESSION_FAILED: ErrorCode = ErrorCode(0x200);
    /// An instruction of the peer's encoder is wrong.
    pub const QPACK_ENCODER_STREAM_ERROR: ErrorCode = ErrorCode(0x201);
    /// An instruction of the peer's decoder is wrong.
    pub const QPACK_DECODER_STREAM_ERROR: ErrorCode = ErrorCode(0x202);

    /// The RFC's name; nothing for unknown codes.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 17] = [
            "H3_NO_ERROR",
            "H3_GENERAL_PROTOCOL_ERROR",
            "H3_INTERNAL_ERROR",
            "H3_STREAM_CREATION_ERROR",
            "H3_CLOSED_CRITICAL_STREAM",
            "H3_FRAME_UNEXPECTED",
            "H3_FRAME_ERROR",
            "H3_EXCESSIVE_LOAD",
            "H3_ID_ERROR",
            "H3_SETTINGS_ERROR",
            "H3_MISSING_SETTINGS",
            "H3_REQUEST_REJECTED",
            "H3_REQUEST_CANCELLED",
            "H3_REQUEST_INCOMPLETE",
            "H3_MESSAGE_ERROR",
            "H3_CONNECT_ERROR",
            "H3_VERSION_FALLBACK",
        ];
        match self {
            ErrorCode::QPACK_DECOMPRESSION_FAILED => "QPACK_DECOMPRESSION_FAILED",
            ErrorCode::QPACK_ENCODER_STREAM_ERROR => "QPACK_ENCODER_STREAM_ERROR",
            ErrorCode::QPACK_DECODER_STREAM_ERROR => "QPACK_DECODER_STREAM_ERROR",
            ErrorCode(code) => {
                let at = code.checked_sub(ErrorCode::NO_ERROR.0).and_then(|at| usize::try_from(at).ok());
                at.and_then(|at| NAMES.get(at)).copied().unwrap_or("")
            }
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            "" => write!(f, "{:#x}", self.0),
            name => f.write_str(name),
        }
    }
}

/// The peer has broken the rules in a way that ends the connection (RFC 9114 §8): the caller closes the QUIC connection with
/// the code. `Display` is the text for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionError {
    /// What CONNECTION_CLOSE says.
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
    pub(crate) fn unexpected(text: impl Into<Cow<'static, str>>) -> ConnectionError {
        ConnectionError::new(ErrorCode::FRAME_UNEXPECTED, text)
    }

    #[cold]
    pub(crate) fn frame(text: impl Into<Cow<'static, str>>) -> ConnectionError {
        ConnectionError::new(ErrorCode::FRAME_ERROR, text)
    }

    #[cold]
    pub(crate) fn id(text: impl Into<Cow<'static, str>>) -> ConnectionError {
        ConnectionError::new(ErrorCode::ID_ERROR, text)
    }

    #[cold]
    pub(crate) fn load(text: impl Into<Cow<'static, str>>) -> ConnectionError {
        ConnectionError::new(ErrorCode::EXCESSIVE_LOAD, text)
    }
}

impl From<Flooded> for ConnectionError {
    #[cold]
    fn from(flooded: Flooded) -> ConnectionError {
        ConnectionError::load(format!("{flooded}: http3 flood detected"))
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for ConnectionError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_codes() {
        assert_eq!(ErrorCode::VERSION_FALLBACK.name(), "H3_VERSION_FALLBACK");
        assert_eq!(ErrorCode::MISSING_SETTINGS.name(), "H3_MISSING_SETTINGS");
        assert_eq!(ErrorCode(0x201).name(), "QPACK_ENCODER_STREAM_ERROR");
        assert_eq!(format!("{:?} {:?}", ErrorCode(0x111), ErrorCode(3)), "0x111 0x3");
    }
}
