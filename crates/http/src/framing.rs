//! Where a request ends and which connection it wants: the rules that keep two servers from reading one stream
//! differently (RFC 9112 §6, §3.2, §9; request smuggling).

mod connection;
mod host;
#[cfg(test)]
mod tests;

pub use connection::{ConnectionOptions, connection_options, connection_tokens};
pub use host::{Host, HostError, validate_host};

use crate::head::line::is_token_byte;
use crate::head::{HeaderId, RequestHead, Version, printable};
use std::fmt;

/// The body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BodyFraming {
    /// No body, and no header that says so.
    #[default]
    None,
    /// `Content-Length`; may be 0.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
}

/// Why a request's header cannot be trusted. `Display` is nginx's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FramingError {
    /// A field was sent twice that may be sent once. Holds the message.
    Duplicate(Box<str>),
    /// HTTP/1.1 without `Host`.
    NoHost,
    /// `Content-Length` is no decimal number below 2^63.
    InvalidContentLength,
    /// `Transfer-Encoding` before HTTP/1.1.
    TransferEncodingIn10,
    /// `Content-Length` and `Transfer-Encoding`.
    LengthAndTransferEncoding,
    /// A transfer coding other than `chunked`. Holds the value.
    UnknownTransferEncoding(Box<str>),
    /// No list of transfer codings, or one in which `chunked` is not the last, once. Holds the value.
    MalformedTransferEncoding(Box<str>),
}

impl FramingError {
    /// The status to answer with.
    pub fn status(&self) -> u16 {
        match self {
            FramingError::UnknownTransferEncoding(_) => 501,
            _ => 400,
        }
    }
}

impl fmt::Display for FramingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FramingError::Duplicate(message) => f.write_str(message),
            FramingError::NoHost => f.write_str("client sent HTTP/1.1 request without \"Host\" header"),
            FramingError::InvalidContentLength => {
                f.write_str("client sent invalid \"Content-Length\" header")
            }
            FramingError::TransferEncodingIn10 => {
                f.write_str("client sent HTTP/1.0 request with \"Transfer-Encoding\" header")
            }
            FramingError::LengthAndTransferEncoding => f.write_str(
                "client sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time",
            ),
            FramingError::UnknownTransferEncoding(value) => {
                write!(f, "client sent unknown \"Transfer-Encoding\": \"{value}\"")
            }
            FramingError::MalformedTransferEncoding(value) => {
                write!(f, "client sent invalid \"Transfer-Encoding\": \"{value}\"")
            }
        }
    }
}

impl std::error::Error for FramingError {}

/// Fields that a request may have once; nginx answers 400 to a second one, even with the same value.
const UNIQUE: u64 = HeaderId::Host.bit()
    | HeaderId::IfModifiedSince.bit()
    | HeaderId::IfUnmodifiedSince.bit()
    | HeaderId::IfMatch.bit()
    | HeaderId::IfNoneMatch.bit()
    | HeaderId::ContentLength.bit()
    | HeaderId::ContentRange.bit()
    | HeaderId::IfRange.bit()
    | HeaderId::TransferEncoding.bit()
    | HeaderId::Expect.bit()
    | HeaderId::Authorization.bit()
    | HeaderId::ProxyAuthorization.bit();

/// The body's framing, after the checks that nginx makes of a complete header, in its order. The `Host` value is
/// left to [`validate_host`].
pub fn request_framing(buf: &[u8], head: &RequestHead) -> Result<BodyFraming, FramingError> {
    if head.repeated & UNIQUE != 0 {
        return Err(duplicate(buf, head));
    }
    // RFC 9112 §3.2: a request without Host gets a 400. In HTTP/2 and 3 `:authority` may stand for it.
    if head.version == Version::Http11 && !head.has(HeaderId::Host) {
        return Err(FramingError::NoHost);
    }
    let length = match head.find(HeaderId::ContentLength) {
        Some(field) => Some(parse_length(field.value.of(buf)).ok_or(FramingError::InvalidContentLength)?),
        None => None,
    };
    let Some(coding) = head.find(HeaderId::TransferEncoding) else {
        return Ok(length.map_or(BodyFraming::None, BodyFraming::Length));
    };
    // RFC 9112 §6.1: such a message must be treated as if the framing is faulty.
    if head.version < Version::Http11 {
        return Err(FramingError::TransferEncodingIn10);
    }
    let coding = coding.value.of(buf);
    if !coding.eq_ignore_ascii_case(b"chunked") {
        return Err(not_chunked(coding));
    }
    // RFC 9112 §6.3: "ought to be handled as an error".
    if length.is_some() {
        return Err(FramingError::LengthAndTransferEncoding);
    }
    Ok(BodyFraming::Chunked)
}

/// Why a `Transfer-Encoding` other than `chunked` is refused: it is malformed, or well-formed and not understood.
///
/// RFC 9112 §6.1: codings that are not understood are a 501. §6.3: where `chunked` is not the last, and §7: where it comes twice
/// or has parameters, the end of the body cannot be known, which is a 400. nginx answers 501 to all of it, and its tests want
/// that for unknown names wherever they stand.
#[cold]
fn not_chunked(value: &[u8]) -> FramingError {
    let text = || printable(value).into();
    let mut unknown = false;
    let mut chunked_before = false;
    let mut misplaced = false;
    for element in value.split(|&b| b == b',') {
        let element = element.trim_ascii();
        let name_end = element.iter().position(|&b| b == b';').unwrap_or(element.len());
        let name = element[..name_end].trim_ascii_end();
        if name.is_empty() || !name.iter().all(|&b| is_token_byte(b)) {
            return FramingError::MalformedTransferEncoding(text());
        }
        misplaced |= chunked_before;
        let is_chunked = name.eq_ignore_ascii_case(b"chunked");
        chunked_before |= is_chunked;
        misplaced |= is_chunked && name_end < element.len();
        unknown |= !CODINGS.iter().any(|known| name.eq_ignore_ascii_case(known));
    }
    if !unknown && (misplaced || !chunked_before) {
        return FramingError::MalformedTransferEncoding(text());
    }
    FramingError::UnknownTransferEncoding(text())
}

/// The transfer codings of RFC 9112 §7.
const CODINGS: [&[u8]; 6] = [b"chunked", b"gzip", b"x-gzip", b"deflate", b"compress", b"x-compress"];

/// `1*DIGIT` below 2^63, nothing else: no sign, no list (RFC 9110 §8.6).
pub fn parse_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    let mut length: u64 = 0;
    for &b in value {
        let digit = char::from(b).to_digit(10)?;
        length = length.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    i64::try_from(length).is_ok().then_some(length)
}

#[cold]
fn duplicate(buf: &[u8], head: &RequestHead) -> FramingError {
    let mut seen = 0;
    for field in &head.headers {
        let bit = field.id.bit();
        if seen & bit & UNIQUE != 0 {
            let previous = head.find(field.id).unwrap_or(field);
            let kind = if field.id == HeaderId::Host { "host header" } else { "header line" };
            let text = |span: crate::head::Span| printable(span.of(buf));
            return FramingError::Duplicate(
                format!(
                    "client sent duplicate {kind}: \"{}: {}\", previous value: \"{}: {}\"",
                    text(field.name),
                    text(field.value),
                    text(previous.name),
                    text(previous.value)
                )
                .into(),
            );
        }
        seen |= bit;
    }
    FramingError::Duplicate("client sent duplicate header line".into())
}
