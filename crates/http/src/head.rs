//! Request heads: the request line and the header fields (RFC 9112 §2–§5), read the way nginx reads them.
//!
//! [`parse_request`] is the hottest function of the server. It allocates nothing while its vectors have capacity,
//! looks at every byte about twice (once by `memchr`, once by a table) and stores offsets, never copies.
//! The limits are those of `client_header_buffer_size` and `large_client_header_buffers`, see `limits`.

mod error;
mod id;
mod limits;
pub(crate) mod line;
mod method;
mod parse;
#[cfg(test)]
mod tests;

pub use error::HeadError;
pub(crate) use error::{fault_text, printable};
pub use id::HeaderId;
pub use method::Method;
pub use parse::parse_request;

use parse::Progress;

/// A range of the buffer that holds a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset after the last byte.
    pub end: u32,
}

impl Span {
    /// The span `start..end`.
    #[inline]
    pub fn new(start: usize, end: usize) -> Self {
        debug_assert!(start <= end && u32::try_from(end).is_ok());
        Span { start: start as u32, end: end as u32 }
    }

    /// The bytes of the span; `buf` must be the buffer (or a longer one with the same beginning) it was made for.
    #[inline]
    pub fn of(self, buf: &[u8]) -> &[u8] {
        &buf[self.start as usize..self.end as usize]
    }

    /// Number of bytes.
    #[inline]
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether the span has no bytes.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// The protocol version of a message (RFC 9110 §2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Version {
    /// A simple request, `GET /path`, which has no header and is answered by a bare body.
    Http09,
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1 and every later 1.x.
    #[default]
    Http11,
    /// HTTP/2; never produced by [`parse_request`].
    Http2,
    /// HTTP/3; never produced by [`parse_request`].
    Http3,
}

impl Version {
    /// The value of `$server_protocol` for a request of this version.
    pub fn as_str(self) -> &'static str {
        match self {
            Version::Http09 => "",
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
            Version::Http3 => "HTTP/3.0",
        }
    }
}

/// One header field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The name as it was sent.
    pub name: Span,
    /// The value without leading and trailing white space (RFC 9110 §5.5).
    pub value: Span,
    /// Which known header it is.
    pub id: HeaderId,
}

/// A parsed request head. All spans point into the buffer given to [`parse_request`].
#[derive(Clone, Debug, Default)]
pub struct RequestHead {
    /// The method, [`Method::Other`] if unknown.
    pub method: Method,
    /// The method as it was sent.
    pub method_name: Span,
    /// The request target, neither checked nor decoded: see [`crate::uri::parse_target`].
    pub target: Span,
    /// The request line without its line end.
    pub request_line: Span,
    /// `HTTP/1.1` as it was sent; empty for HTTP/0.9.
    pub protocol: Span,
    /// The version.
    pub version: Version,
    /// The fields in the order they were sent, without those in `ignored`.
    pub headers: Vec<Header>,
    /// Lines that nginx calls invalid and `ignore_invalid_headers` drops; the caller logs them.
    pub ignored: Vec<Span>,
    /// A bit ([`HeaderId::bit`]) for every id in `headers`.
    pub present: u64,
    /// A bit for every id that is more than once in `headers`.
    pub repeated: u64,
    /// Bytes consumed, with leading empty lines and the blank line at the end.
    pub len: usize,
    pub(crate) progress: Progress,
}

impl RequestHead {
    /// Makes it ready for the next request and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        // All fields are named, so one that is added and not cleared does not compile.
        let RequestHead {
            method,
            method_name,
            target,
            request_line,
            protocol,
            version,
            headers,
            ignored,
            present,
            repeated,
            len,
            progress,
        } = self;
        *method = Method::default();
        for span in [method_name, target, request_line, protocol] {
            *span = Span::default();
        }
        *version = Version::default();
        headers.clear();
        ignored.clear();
        (*present, *repeated, *len) = (0, 0, 0);
        *progress = Progress::default();
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

    /// Every field with this name, known or not; compared without regard to case (RFC 9110 §5.1).
    pub fn named<'a>(&'a self, buf: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = &'a Header> {
        self.headers.iter().filter(move |h| h.name.of(buf).eq_ignore_ascii_case(name))
    }

    /// Whether the request line has been read: until then a peer that goes away has sent no request.
    pub fn has_request_line(&self) -> bool {
        !self.request_line.is_empty()
    }
}

/// What nginx's directives say about heads. The defaults are nginx's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadOptions {
    /// `ignore_invalid_headers`: drop fields with odd names; otherwise they are ordinary fields.
    pub ignore_invalid_headers: bool,
    /// `underscores_in_headers`: whether `_` in a name is valid.
    pub underscores_in_headers: bool,
    /// `client_header_buffer_size` in bytes.
    pub first_buffer: usize,
    /// The size of a buffer in `large_client_header_buffers`.
    pub line_max: usize,
    /// The number of buffers in `large_client_header_buffers`.
    pub buffers_max: usize,
    /// `max_headers`.
    pub headers_max: usize,
}

impl Default for HeadOptions {
    fn default() -> Self {
        HeadOptions {
            ignore_invalid_headers: true,
            underscores_in_headers: false,
            first_buffer: 1024,
            line_max: 8192,
            buffers_max: 4,
            headers_max: 1000,
        }
    }
}

/// How far [`parse_request`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The head is complete; its `len` says where the body begins.
    Complete,
    /// Call again with the same bytes and more.
    Partial,
}
