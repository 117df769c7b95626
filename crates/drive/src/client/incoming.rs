//! A response as it comes on a stream, of HTTP/2 or HTTP/3, and a request's head as both have it.

use super::failure::{Failure, Fault};
use super::message::{Exchange, Fields, Phases, Request, TlsFacts};
use brisk_h2::conn::{HeadKind, HeadSink};
use brisk_h2::hpack::{Field, FieldSink};
use brisk_h2::message::{HeadRules, Malformed};
use brisk_http::framing::parse_length;
use brisk_http::limits::INTERIM_RESPONSES_MAX;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// What has come on a stream and was not taken by the exchange that waits for it.
#[derive(Default)]
pub(super) struct Incoming {
    heads: VecDeque<(Fields, u64)>,
    trailers: Fields,
    body: Vec<u8>,
    body_bytes: u64,
    body_max: usize,
    first_byte: bool,
    over: Option<Result<(), Failure>>,
    waker: Option<Waker>,
}

impl Incoming {
    /// `body_max`: bytes of the body that are kept.
    pub fn new(body_max: usize) -> Self {
        Self { body_max, ..Self::default() }
    }

    /// Wakes the exchange.
    pub fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// The exchange is woken when something has come.
    pub fn wait(&mut self, cx: &Context<'_>) {
        self.waker = Some(cx.waker().clone());
    }

    /// Nothing more comes.
    pub fn end(&mut self, over: Result<(), Failure>) {
        self.over = Some(over);
        self.wake();
    }

    /// The connection has failed: that ends what is not over.
    pub fn fail(&mut self, failure: Failure) {
        if self.over.is_none() {
            self.over = Some(Err(failure));
        }
        self.wake();
    }

    /// A head is in the sink. Gives the length of the body that it announces.
    pub fn head(&mut self, sink: &mut Sink, end: bool, bytes: u64) -> Option<u64> {
        let malformed = sink.malformed.take();
        let fields = std::mem::take(&mut sink.fields);
        if malformed.is_some() || status_of(&fields).is_none() {
            let why = malformed
                .map_or("no :status".to_owned(), |error| error.to_string().replace("client", "server"));
            self.end(Err(Failure::new(Fault::Malformed, why)));
            return None;
        }
        let length = fields.get("content-length").and_then(|length| parse_length(length.as_bytes()));
        self.first_byte = true;
        self.heads.push_back((fields, bytes));
        if end {
            self.over = Some(Ok(()));
        }
        self.wake();
        length.filter(|_| !end)
    }

    /// A piece of the body.
    pub fn data(&mut self, data: &[u8], end: bool) {
        self.body_bytes += data.len() as u64;
        let room = self.body_max.saturating_sub(self.body.len());
        self.body.extend_from_slice(&data[..data.len().min(room)]);
        if end {
            self.end(Ok(()));
        }
    }

    /// Trailers are in the sink.
    pub fn trailers(&mut self, sink: &mut Sink) {
        self.trailers = std::mem::take(&mut sink.fields);
        self.end(Ok(()));
    }

    /// Takes heads; ready when the response is over.
    pub fn poll(
        &mut self,
        cx: &Context<'_>,
        phases: &mut Phases,
        heads: &mut Heads,
    ) -> Poll<Result<(), Failure>> {
        if self.first_byte && phases.first_byte.is_none() {
            phases.first_byte = phases.now();
        }
        while let Some((fields, bytes)) = self.heads.pop_front() {
            let status = status_of(&fields).unwrap_or(0);
            let plain = Fields(fields.0.into_iter().filter(|(name, _)| !name.starts_with(':')).collect());
            if status / 100 == 1 {
                heads.interim.push((status, plain));
                if heads.interim.len() > INTERIM_RESPONSES_MAX {
                    let text = "too many interim responses";
                    return Poll::Ready(Err(Failure::new(Fault::Malformed, text)));
                }
            } else {
                heads.last = Some((status, plain, bytes));
            }
        }
        match self.over.take() {
            Some(over) => Poll::Ready(over),
            None => {
                self.wait(cx);
                Poll::Pending
            }
        }
    }
}

/// The heads of a response.
#[derive(Default)]
pub(super) struct Heads {
    interim: Vec<(u16, Fields)>,
    last: Option<(u16, Fields, u64)>,
}

/// What an exchange tells of its connection.
pub(super) struct LinkFacts {
    pub version: &'static str,
    pub reused: bool,
    pub tls: Option<Rc<TlsFacts>>,
    pub peer: Rc<str>,
}

impl Heads {
    /// The exchange, of which all has come.
    pub fn exchange(self, incoming: Incoming, phases: Phases, link: LinkFacts) -> Result<Exchange, Failure> {
        let (status, fields, head_bytes) =
            self.last.ok_or_else(|| Failure::new(Fault::Malformed, "the stream ended without a response"))?;
        Ok(Exchange {
            version: link.version,
            status,
            reason: String::new(),
            fields,
            trailers: incoming.trailers,
            interim: self.interim,
            body: incoming.body,
            body_bytes: incoming.body_bytes,
            head_bytes,
            phases,
            reused: link.reused,
            asked_again: false,
            tls: link.tls,
            peer: link.peer,
        })
    }
}

/// Takes the fields of one head.
#[derive(Default)]
pub(super) struct Sink {
    fields: Fields,
    rules: HeadRules,
    trailers: bool,
    malformed: Option<Malformed>,
}

impl FieldSink for Sink {
    fn tag(&mut self, _: &[u8]) -> u8 {
        0
    }

    fn field(&mut self, field: Field<'_>) {
        let judged = if self.trailers { self.rules.trailer(&field) } else { self.rules.response(&field) };
        if let Err(error) = judged {
            self.malformed.get_or_insert(error);
        }
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        self.fields.push(text(field.name), text(field.value));
    }
}

impl HeadSink for Sink {
    fn begin(&mut self, _: u64, kind: HeadKind) {
        *self = Self { trailers: kind == HeadKind::Trailers, ..Self::default() };
    }

    fn is_interim(&self) -> bool {
        status_of(&self.fields).is_some_and(|status| status / 100 == 1)
    }
}

fn status_of(fields: &Fields) -> Option<u16> {
    fields.get(":status").filter(|status| status.len() == 3).and_then(|status| status.parse().ok())
}

/// For people, in the order in which it is sent.
pub(super) fn text_of(request: &Request) -> String {
    fields_of(request).iter().fold(String::new(), |text, (name, value)| text + name + ": " + value + "\r\n")
}

/// RFC 9113 §8.3.1, RFC 9114 §4.3.1; what is the connection's business has no place there (RFC 9113 §8.2.2).
pub(super) fn fields_of(request: &Request) -> Vec<(String, String)> {
    const LEFT_OUT: [&str; 6] =
        ["host", "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
    let origin = &request.url.origin;
    let authority = request.fields.get("host").map_or_else(|| origin.authority(), str::to_owned);
    let mut fields = vec![
        (":method".to_owned(), request.method.clone()),
        (":scheme".to_owned(), origin.scheme().to_owned()),
        (":authority".to_owned(), authority),
        (":path".to_owned(), request.url.path.clone()),
    ];
    for (name, value) in &request.fields.0 {
        let name = name.to_ascii_lowercase();
        if !LEFT_OUT.contains(&name.as_str()) {
            fields.push((name, value.clone()));
        }
    }
    if let Some(length) = request.content_length() {
        fields.push(("content-length".to_owned(), length.to_string()));
    }
    fields
}
