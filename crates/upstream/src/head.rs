//! A back end's response head, as it was sent.
//!
//! It decides nothing: what is hidden, passed on or obeyed is in [`respond`](crate::respond). Values are parts of one
//! shared buffer, so that a response's fields cost no copies.

use brisk_http::framing::connection_tokens;
use brisk_http::head::{Header, HeaderId, Span, Version};
use brisk_http::response::ResponseHead;
use brisk_server::text::{Part, Text};
use std::sync::Arc;

/// The head of a back end's answer: all fields in their order and spelling, hop-by-hop ones too. One buffer holds the
/// bytes.
#[derive(Clone, Debug, Default)]
pub struct BackendHead {
    /// Three digits.
    pub status: u16,
    /// HTTP/1.x: the version of the status line; other protocols leave 1.1.
    pub version: Version,
    buf: Vec<u8>,
    /// Code and reason phrase: `200 OK`; empty if the protocol has none.
    status_text: Span,
    fields: Vec<Header>,
    /// A bit for each known name, so that looking for what is not there costs nothing.
    /// `HeaderId::Other` has no bit: such names are found by comparing.
    present: u64,
    /// `Connection` says something else than [`USUAL_OPTIONS`].
    has_unusual_options: bool,
}

/// What `Connection` says of most answers. There are no fields of these names but `Keep-Alive`, which is never passed on.
const USUAL_OPTIONS: [&[u8]; 2] = [b"keep-alive", b"close"];

fn is_usual_option(option: &[u8]) -> bool {
    USUAL_OPTIONS.iter().any(|usual| usual.eq_ignore_ascii_case(option))
}

/// Whether there is another option in a value of `Connection`. Most values are one usual option.
fn has_unusual(value: &[u8]) -> bool {
    !is_usual_option(value) && connection_tokens(value).any(|option| !is_usual_option(option))
}

/// One field of a head.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// As it was sent.
    pub name: &'a [u8],
    /// As it was sent, without white space around it.
    pub value: &'a [u8],
    /// The name's id; [`HeaderId::Other`] for names that have none.
    pub id: HeaderId,
    at: &'a Header,
}

impl Field<'_> {
    /// Its name and value without a copy; `head` is the one that it is of.
    pub fn texts(&self, head: &Arc<BackendHead>) -> (Text, Text) {
        // A name in its usual spelling is a static text.
        let usual = self.id.name();
        let is_usual = usual.as_bytes() == self.name;
        let name = if is_usual { usual.into() } else { head.text(self.at.name).into() };
        (name, self.value_text(head))
    }

    /// Its value without a copy; `head` is the one that it is of.
    pub fn value_text(&self, head: &Arc<BackendHead>) -> Text {
        head.text(self.at.value).into()
    }
}

impl AsRef<[u8]> for BackendHead {
    fn as_ref(&self) -> &[u8] {
        &self.buf
    }
}

impl BackendHead {
    /// A head without fields.
    pub fn new(status: u16) -> BackendHead {
        BackendHead { status, ..BackendHead::default() }
    }

    /// Takes over a parsed head; `bytes` is what it was parsed from.
    pub fn from_response(bytes: &[u8], head: ResponseHead) -> BackendHead {
        let options = head.headers.iter().filter(|field| field.id == HeaderId::Connection);
        // Found out once: it bears on every field.
        let has_unusual_options = options.map(|field| field.value.of(bytes)).any(has_unusual);
        BackendHead {
            status: head.status,
            version: head.version,
            // The bytes of the head only: the buffer may hold much of the body.
            buf: bytes[..head.len].to_vec(),
            status_text: head.status_text,
            fields: head.headers,
            present: head.present,
            has_unusual_options,
        }
    }

    /// Adds a field. The name must not be empty.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        let id = HeaderId::from_name(name);
        if id == HeaderId::Connection {
            self.has_unusual_options |= has_unusual(value);
        }
        let (name, value) = (self.keep(name), self.keep(value));
        self.present |= id.bit();
        self.fields.push(Header { name, value, id });
    }

    fn keep(&mut self, text: &[u8]) -> Span {
        let start = self.buf.len();
        self.buf.extend_from_slice(text);
        Span::new(start, self.buf.len())
    }

    /// `200 OK`, if the back end sent such a thing.
    pub fn status_text(&self) -> &[u8] {
        self.status_text.of(&self.buf)
    }

    /// All fields, in their order.
    pub fn fields(&self) -> impl Iterator<Item = Field<'_>> {
        self.fields.iter().map(|field| self.field(field))
    }

    fn field<'a>(&'a self, field: &'a Header) -> Field<'a> {
        Field { name: field.name.of(&self.buf), value: field.value.of(&self.buf), id: field.id, at: field }
    }

    fn text(self: &Arc<Self>, span: Span) -> Part {
        Part::new(self.clone(), span.start as usize..span.end as usize)
    }

    /// Whether there is a field with this id.
    pub fn has(&self, id: HeaderId) -> bool {
        self.present & id.bit() != 0
    }

    /// The value of the first field with this id.
    pub fn get(&self, id: HeaderId) -> Option<&[u8]> {
        if !self.has(id) {
            return None;
        }
        self.fields().find(|field| field.id == id).map(|field| field.value)
    }

    /// The values of all fields with this id.
    pub fn all(&self, id: HeaderId) -> impl Iterator<Item = &[u8]> {
        self.fields().filter(move |field| field.id == id).map(|field| field.value)
    }

    /// The values of all fields with this name, in any case.
    pub fn named<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.fields().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    }

    /// Whether `Connection` says that the field is for the next hop alone, which is us (RFC 9110 §7.6.1).
    pub fn is_for_next_hop(&self, name: &[u8]) -> bool {
        if !self.has_unusual_options {
            return self.has(HeaderId::Connection) && is_usual_option(name);
        }
        self.all(HeaderId::Connection)
            .flat_map(connection_tokens)
            .any(|option| option.eq_ignore_ascii_case(name))
    }

    /// Bytes it takes.
    pub fn len(&self) -> usize {
        self.buf.len()
    }

    /// Whether nothing of it is kept.
    pub fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }
}

/// Fields about a single connection (RFC 9110 §7.6.1).
// `Content-Length` is among them: filters may change the body, so the length is told by what is sent in the
// end.
pub(crate) fn is_hop_by_hop(id: HeaderId) -> bool {
    matches!(
        id,
        HeaderId::Connection
            | HeaderId::KeepAlive
            | HeaderId::TransferEncoding
            | HeaderId::Upgrade
            | HeaderId::Te
            | HeaderId::Trailer
            | HeaderId::ProxyConnection
            | HeaderId::ContentLength
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_order_and_spelling() {
        let mut head = BackendHead::new(200);
        head.push(b"X-a", b"1");
        head.push(b"content-type", b"text/plain");
        head.push(b"x-A", b"");
        assert_eq!(head.get(HeaderId::ContentType), Some(&b"text/plain"[..]));
        assert_eq!(head.get(HeaderId::ETag), None);
        assert_eq!(head.named(b"X-A").collect::<Vec<_>>(), [&b"1"[..], b""]);
        assert_eq!(head.fields().map(|f| f.name.len()).collect::<Vec<_>>(), [3, 12, 3]);
    }

    fn head(options: &[&str]) -> BackendHead {
        let mut head = BackendHead::new(200);
        options.iter().for_each(|option| head.push(b"Connection", option.as_bytes()));
        head
    }

    /// RFC 9110 §7.6.1: what `Connection` names goes no further, however it is written.
    #[test]
    fn options_of_a_connection_name_fields_for_the_next_hop() {
        for (options, name, is_for_next_hop) in [
            (&[][..], "X-A", false),
            (&["keep-alive"], "X-A", false),
            (&["keep-alive"], "Keep-Alive", true),
            (&["Close"], "close", true),
            (&["close, X-a"], "x-A", true),
            (&["close", "x-a"], "X-A", true),
            (&["x-a, x-b"], "Keep-Alive", false),
            (&["x-a,,"], "x-b", false),
            (&["upgrade"], "Upgrade", true),
        ] {
            assert_eq!(head(options).is_for_next_hop(name.as_bytes()), is_for_next_hop, "{options:?} {name}");
        }
    }
}
