//! The head of a request as it came. Nothing changes it once intake is over, but for trace contexts ([`Head::replace`]).

use crate::extended::ExtendedConnect;
use crate::limits::WAITING_SLACK_BYTES_MAX;
use brisk_http::framing::BodyFraming;
use brisk_http::head::{Header, Span};
use brisk_http::uri::Target;
use brisk_http::{HeaderId, RequestHead};

/// See the module's head.
pub struct Head {
    /// The bytes; spans of `parsed` point into it.
    /// One buffer for all: a field is two numbers, and a head costs no allocation per field.
    pub(crate) buf: Vec<u8>,
    /// What answers are made of reads it through the accessors in `reads.rs`.
    pub(crate) parsed: RequestHead,
    /// How the end of the body is told (RFC 9112 §6.3).
    pub framing: BodyFraming,
    /// Its stream was not over with the head, although no body was announced.
    /// Over HTTP/2 an empty body may still have trailers to come.
    pub(crate) awaits_end: bool,
    /// Scheme, arguments and flags of the target as sent. Its path is in [`Route::uri`](super::Route::uri).
    pub target: Target,
    /// Host without port, lower case: from the request line, else from `Host`.
    pub host: Vec<u8>,
    /// The port the client named.
    pub port: Option<u16>,
    /// It is an extended CONNECT; handlers see the upgrade that it stands for.
    pub extended: Option<Box<ExtendedConnect>>,
}

impl Head {
    /// Without a request. It is no `Default`: handlers cannot put another one in the place of what came.
    pub(crate) fn empty() -> Head {
        Head {
            buf: Vec::new(),
            parsed: RequestHead::default(),
            framing: BodyFraming::None,
            awaits_end: false,
            target: Target::default(),
            host: Vec::new(),
            port: None,
            extended: None,
        }
    }

    /// An empty one with room for what most requests bring.
    pub(super) fn roomy() -> Head {
        // A browser's head has some hundred bytes. A larger one grows the buffer once, and it stays with the
        // pooled request.
        Head { buf: Vec::with_capacity(1024), host: Vec::with_capacity(64), ..Head::empty() }
    }

    /// Makes it anew in its place.
    pub(super) fn renew(&mut self) {
        let Head { buf, parsed, framing, awaits_end, target, host, port, extended } = self;
        buf.clear();
        parsed.clear();
        *framing = BodyFraming::None;
        *awaits_end = false;
        target.clear();
        host.clear();
        *port = None;
        *extended = None;
    }

    /// Bytes that it occupies, with all its parts.
    pub(super) fn bytes(&self) -> usize {
        let spans = self.parsed.headers.capacity() * size_of::<Header>()
            + self.parsed.ignored.capacity() * size_of::<Span>();
        spans + self.buf.capacity() + self.target.path.capacity() + self.host.capacity()
    }

    /// Puts one field with another value in the place of those of this name, or none. It is for names without a number: nobody has looked
    /// for those before.
    pub(crate) fn replace(&mut self, name: &[u8], value: Option<&[u8]>) {
        let Head { buf, parsed, .. } = self;
        parsed.headers.retain(|field| !field.name.of(buf).eq_ignore_ascii_case(name));
        let Some(value) = value else { return };
        let start = buf.len();
        buf.extend_from_slice(name);
        let middle = buf.len();
        buf.extend_from_slice(value);
        let (name, value) = (Span::new(start, middle), Span::new(middle, buf.len()));
        parsed.headers.push(Header { name, value, id: HeaderId::Other });
    }

    /// The value of a field.
    pub(crate) fn field(&self, id: HeaderId) -> Option<&[u8]> {
        self.parsed.find(id).map(|field| field.value.of(&self.buf))
    }

    /// The values of all fields of one name, in their order.
    pub(crate) fn fields(&self, id: HeaderId) -> impl Iterator<Item = &[u8]> {
        self.parsed.all(id).map(|field| field.value.of(&self.buf))
    }

    /// Copies into an empty one what subrequests have of it: all but the body, and a tunnel that is asked for.
    /// No body: a part of a page is asked for with GET. No tunnel: nobody could use it.
    pub(crate) fn copy_to(&self, to: &mut Head) {
        to.buf.extend_from_slice(&self.buf);
        to.parsed = self.parsed.clone();
        to.target = self.target.clone();
        to.host.extend_from_slice(&self.host);
        to.port = self.port;
    }

    /// Gives back room that a request which waits does not need.
    pub(super) fn shrink(&mut self) {
        if self.buf.capacity() - self.buf.len() > WAITING_SLACK_BYTES_MAX {
            self.buf.shrink_to_fit();
        }
        let headers = &mut self.parsed.headers;
        if (headers.capacity() - headers.len()) * size_of::<Header>() > WAITING_SLACK_BYTES_MAX {
            headers.shrink_to_fit();
        }
    }
}
