//! Response heads, for everything that is a client: the proxy, health checks, the load generator (RFC 9112 §4, §6.3).

mod cgi;
mod parse;
#[cfg(test)]
mod tests;

pub use cgi::{CgiStart, cgi_framing, parse_cgi};
pub use parse::{ResponseError, parse_response, parse_response_tolerantly};

use crate::framing::{ConnectionOptions, connection_options, parse_length};
use crate::head::{Header, HeaderId, Span, Version, printable};
use crate::status::is_bodiless;

/// A parsed response head. All spans point into the buffer given to [`parse_response`].
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    /// The version; 1.2 and later, and any later major version, count as 1.1.
    pub version: Version,
    /// The status code, three digits.
    pub status: u16,
    /// Code and reason phrase as they were sent: `200 OK`.
    pub status_text: Span,
    /// The fields in the order they were sent.
    pub headers: Vec<Header>,
    /// A bit ([`HeaderId::bit`]) for every id in `headers`.
    pub present: u64,
    /// A bit for every id that is more than once in `headers`.
    pub repeated: u64,
    /// Bytes consumed, with the blank line.
    pub len: usize,
    progress: parse::Progress,
}

impl ResponseHead {
    /// Makes it ready for the next response and keeps the memory.
    pub fn clear(&mut self) {
        let mut headers = std::mem::take(&mut self.headers);
        headers.clear();
        *self = ResponseHead { headers, ..ResponseHead::default() };
    }

    /// Whether a field with this id was sent.
    #[inline]
    pub fn has(&self, id: HeaderId) -> bool {
        self.present & id.bit() != 0
    }

    /// The first field with this id.
    #[inline]
    pub fn find(&self, id: HeaderId) -> Option<&Header> {
        if !self.has(id) {
            return None;
        }
        self.headers.iter().find(|h| h.id == id)
    }

    /// Every field with this id.
    pub fn all(&self, id: HeaderId) -> impl Iterator<Item = &Header> {
        let fields: &[Header] = if self.has(id) { &self.headers } else { &[] };
        fields.iter().filter(move |h| h.id == id)
    }

    /// What all `Connection` fields say together.
    pub fn connection(&self, buf: &[u8]) -> ConnectionOptions {
        self.all(HeaderId::Connection)
            .map(|h| connection_options(h.value.of(buf)))
            .fold(ConnectionOptions::default(), ConnectionOptions::merge)
    }
}

/// The body of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFraming {
    /// No body.
    None,
    /// `Content-Length`.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// Everything until the connection closes.
    UntilClose,
    /// 101, or a 2xx to CONNECT: from here on the connection is a tunnel.
    Tunnel,
}

/// What the rules need to know of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// HEAD: the answer has no body.
    Head,
    /// CONNECT: a 2xx opens a tunnel.
    Connect,
    /// Anything else.
    Other,
}

/// How a response's body ends (RFC 9112 §6.3). Like nginx, refuses an upstream that sends `Content-Length` twice or
/// beside `Transfer-Encoding`, or a coding other than `chunked`.
pub fn response_framing(
    buf: &[u8],
    head: &ResponseHead,
    request: RequestKind,
) -> Result<ResponseFraming, ResponseError> {
    let (coding, length) = lengths(buf, head)?;
    let opens_tunnel = request == RequestKind::Connect && (200..300).contains(&head.status);
    Ok(match (coding, length) {
        _ if head.status == 101 || opens_tunnel => ResponseFraming::Tunnel,
        _ if request == RequestKind::Head || is_bodiless(head.status) => ResponseFraming::None,
        (true, _) => ResponseFraming::Chunked,
        (false, Some(length)) => ResponseFraming::Length(length),
        (false, None) => ResponseFraming::UntilClose,
    })
}

/// Whether the body is chunked, and its `Content-Length`.
fn lengths(buf: &[u8], head: &ResponseHead) -> Result<(bool, Option<u64>), ResponseError> {
    let length = HeaderId::ContentLength;
    let coding = HeaderId::TransferEncoding;
    if head.repeated & (length.bit() | coding.bit()) != 0 {
        return Err(ResponseError::Duplicate);
    }
    if head.has(length) && head.has(coding) {
        return Err(ResponseError::LengthAndTransferEncoding);
    }
    let length = match head.find(length) {
        Some(field) => Some(parse_length(field.value.of(buf)).ok_or(ResponseError::InvalidContentLength)?),
        None => None,
    };
    let Some(coding) = head.find(coding).map(|field| field.value.of(buf)) else { return Ok((false, length)) };
    if !coding.eq_ignore_ascii_case(b"chunked") {
        return Err(ResponseError::UnknownTransferEncoding(printable(coding).into()));
    }
    Ok((true, length))
}

/// Whether the connection can serve another request once the body was read (RFC 9112 §9.3).
///
/// `Transfer-Encoding` in an HTTP/1.0 response is faulty framing (RFC 9112 §6.1): such a connection is closed.
pub fn response_persists(buf: &[u8], head: &ResponseHead, framing: ResponseFraming) -> bool {
    let faulty = head.version < Version::Http11 && head.has(HeaderId::TransferEncoding);
    let open_ended = matches!(framing, ResponseFraming::UntilClose | ResponseFraming::Tunnel);
    !faulty && !open_ended && head.connection(buf).is_persistent(head.version)
}
