//! What can be wrong with a request head, in nginx's words.

use crate::limits::TEXT_BYTES_MAX;
use std::fmt::{self, Write};

/// Why a request head was refused. `Display` is the message nginx logs at level `info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// The method has a byte that is no capital letter, `_` or `-`.
    BadMethod,
    /// A request without a version whose method is not GET.
    BadMethod09,
    /// The request line is malformed; the text says how, for debugging (nginx does not tell).
    BadRequest(&'static str),
    /// The request line does not fit into a buffer.
    UriTooLong,
    /// A header line does not fit into a buffer, or there are not enough buffers. Holds the line's beginning.
    HeaderTooLarge(Box<str>),
    /// More fields than `max_headers`.
    TooManyHeaders,
    /// HTTP/2.0 and later.
    UnsupportedVersion,
    /// A header line is malformed. Holds the line up to the byte at fault, escaped.
    InvalidHeader(Box<str>),
}

impl HeadError {
    /// The line `line` is malformed at its byte `at`.
    #[cold]
    pub(crate) fn invalid_header(line: &[u8], at: usize) -> Self {
        HeadError::InvalidHeader(fault_text(line, at))
    }

    /// The line that begins with `line` is too long.
    #[cold]
    pub(crate) fn too_large(line: &[u8]) -> Self {
        HeadError::HeaderTooLarge(printable(&line[..line.len().min(TEXT_BYTES_MAX)]).into())
    }

    /// The status to answer with. 494 is nginx's own and leaves the server as 400.
    pub fn status(&self) -> u16 {
        match self {
            HeadError::BadMethod
            | HeadError::BadMethod09
            | HeadError::BadRequest(_)
            | HeadError::InvalidHeader(_) => 400,
            HeadError::UriTooLong => 414,
            HeadError::HeaderTooLarge(_) | HeadError::TooManyHeaders => 494,
            HeadError::UnsupportedVersion => 505,
        }
    }

    /// What the server was doing, for the log line's `while …`.
    pub fn action(&self) -> &'static str {
        match self {
            HeadError::HeaderTooLarge(_) | HeadError::TooManyHeaders | HeadError::InvalidHeader(_) => {
                "reading client request headers"
            }
            _ => "reading client request line",
        }
    }
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeadError::BadMethod => f.write_str("client sent invalid method"),
            HeadError::BadMethod09 => f.write_str("client sent invalid method in HTTP/0.9 request"),
            HeadError::BadRequest(_) => f.write_str("client sent invalid request"),
            HeadError::UriTooLong => f.write_str("client sent too long URI"),
            HeadError::HeaderTooLarge(line) if line.is_empty() => {
                f.write_str("client sent too large request")
            }
            HeadError::HeaderTooLarge(line) => write!(f, "client sent too long header line: \"{line}...\""),
            HeadError::TooManyHeaders => f.write_str("client sent too many header lines"),
            HeadError::UnsupportedVersion => f.write_str("client sent invalid version"),
            HeadError::InvalidHeader(line) => write!(f, "client sent invalid header line: \"{line}\""),
        }
    }
}

impl std::error::Error for HeadError {}

/// A header line up to the byte at fault, and that byte, as nginx logs it.
pub(crate) fn fault_text(line: &[u8], at: usize) -> Box<str> {
    let mut text = printable(&line[..at.min(TEXT_BYTES_MAX)]);
    if let Some(byte) = line.get(at) {
        let _ = write!(text, "\\x{byte:02x}...");
    }
    text.into()
}

/// Bytes as text that cannot forge a log line: controls and bytes outside ASCII become `\xHH`.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &b in bytes {
        match b {
            0x20..=0x7e => text.push(char::from(b)),
            _ => {
                let _ = write!(text, "\\x{b:02x}");
            }
        }
    }
    text
}
