//! Requests, responses, and the moments between them.

use brisk_load::url::Url;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

/// What TLS has agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFacts {
    /// `TLSv1.3`.
    pub version: &'static str,
    /// OpenSSL's name of the suite.
    pub cipher: &'static str,
    /// OpenSSL's name of the group.
    pub group: &'static str,
    /// The protocol that ALPN has chosen.
    pub alpn: Option<String>,
    /// The session was resumed.
    pub resumed: bool,
    /// The first request went with the first packets (0-RTT), and whether the server has taken it so; `None`: it did not.
    pub early: Option<bool>,
    /// Bytes of the server's certificates.
    pub chain: Vec<usize>,
}

/// Header fields in the order in which they stand, names as they were written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(pub Vec<(String, String)>);

impl Fields {
    /// The first field of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// All fields of this name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(have, _)| have.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// Appends a field.
    pub fn push(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.push((name.into(), value.into()));
    }
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method.
    pub method: String,
    /// Of what.
    pub url: Url,
    /// Fields besides `Host` and `Content-Length`, which follow from the rest unless they are here.
    pub fields: Fields,
    /// The body; empty: none.
    pub body: Vec<u8>,
}

impl Request {
    /// A GET without fields.
    pub fn get(url: Url) -> Self {
        Self { method: "GET".to_owned(), url, fields: Fields::default(), body: Vec::new() }
    }

    /// May be carried out twice because somebody replays it (RFC 8470 §2.1: those methods that are safe).
    pub fn may_be_early(&self) -> bool {
        self.body.is_empty() && matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS")
    }

    /// May be sent again if nothing has come back (RFC 9110 §9.2.2).
    pub fn is_repeatable(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE" | "TRACE")
    }

    /// The length that must be announced (RFC 9110 §8.6).
    pub(crate) fn content_length(&self) -> Option<usize> {
        let due = !self.body.is_empty() || matches!(self.method.as_str(), "POST" | "PUT" | "PATCH");
        (due && self.fields.get("content-length").is_none()).then_some(self.body.len())
    }

    /// Why it cannot be sent, if it cannot: what would break the message apart.
    pub fn fault(&self) -> Option<String> {
        let token = |text: &str| {
            !text.is_empty()
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
        };
        if !token(&self.method) {
            return Some(format!("\"{}\" is not a method", self.method));
        }
        let bad = |(name, value): &&(String, String)| {
            !token(name) || value.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0))
        };
        self.fields.0.iter().find(bad).map(|(name, _)| format!("the header \"{name}\" cannot be sent"))
    }
}

/// Whether an answer of this status leads to another URL (RFC 9110 §15.4), if it names one.
pub fn is_redirect(status: u16) -> bool {
    matches!(status, 301..=303 | 307 | 308)
}

/// A point in time by both clocks.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// For differences.
    pub at: Instant,
    /// For people.
    pub date: SystemTime,
}

impl Moment {
    /// This one.
    pub fn now() -> Self {
        Self { at: Instant::now(), date: SystemTime::now() }
    }
}

/// When what was reached, counted from the beginning of the exchange; `None`: it did not happen (on a kept connection
/// there is no look-up, no connect, no handshake).
#[derive(Debug, Clone)]
pub struct Phases {
    /// The beginning.
    pub began: Moment,
    /// The name's addresses were known.
    pub dns: Option<Duration>,
    /// The connection was made.
    pub connect: Option<Duration>,
    /// The TLS session was complete.
    pub tls: Option<Duration>,
    /// The whole request was given to the kernel.
    pub sent: Option<Duration>,
    /// The first byte of the final response's head had come.
    pub first_byte: Option<Duration>,
    /// The whole response.
    pub done: Option<Duration>,
}

impl Phases {
    pub(crate) fn new(began: Moment) -> Self {
        Self { began, dns: None, connect: None, tls: None, sent: None, first_byte: None, done: None }
    }

    pub(crate) fn now(&self) -> Option<Duration> {
        Some(self.began.at.elapsed())
    }
}

/// A final response with what led to it.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// `HTTP/1.0`, `HTTP/1.1`, `HTTP/2` or `HTTP/3`.
    pub version: &'static str,
    /// The status code.
    pub status: u16,
    /// The reason phrase of HTTP/1.1.
    pub reason: String,
    /// The head.
    pub fields: Fields,
    /// Fields after the body.
    pub trailers: Fields,
    /// Statuses and heads of interim responses (RFC 9110 §15.2).
    pub interim: Vec<(u16, Fields)>,
    /// The body as it was transferred, its codings not undone; no longer than the client's limit.
    pub body: Vec<u8>,
    /// Its whole length.
    pub body_bytes: u64,
    /// Bytes of the response's head: HTTP/1.1's text, or the others' compressed block.
    pub head_bytes: u64,
    /// When what was reached.
    pub phases: Phases,
    /// The connection had been used before.
    pub reused: bool,
    /// It was asked once again: the server had closed a kept connection without notice.
    pub asked_again: bool,
    /// What TLS has agreed on.
    pub tls: Option<Rc<TlsFacts>>,
    /// The server's address.
    pub peer: Rc<str>,
}

/// Something that happened on the wire.
#[derive(Debug)]
pub enum Note<'a> {
    /// The head that was sent, as HTTP/1.1 writes it.
    RequestHead(&'a str),
    /// A chunk of a chunked body began.
    Chunk(u64),
    /// An HTTP/2 frame was sent or received: kind, flags, stream, payload as far as it is there.
    Frame { sent: bool, head: brisk_h2::frame::FrameHead, payload: &'a [u8] },
}

/// Who is told of everything on the wire.
pub type Watcher = Rc<dyn Fn(Note<'_>)>;
