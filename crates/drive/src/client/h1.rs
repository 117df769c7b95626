//! One HTTP/1.1 connection (RFC 9112).

use super::common::Options;
use super::failure::{Failure, Fault};
use super::message::{Exchange, Fields, Note, Phases, Request, TlsFacts, Watcher};
use brisk_http::h1::{Client, ClientError, Event, Known, Rules};
use brisk_http::head::{Header, Version};
use brisk_http::limits::INTERIM_RESPONSES_MAX;
use brisk_http::response::{RequestKind, ResponseFraming, ResponseHead};
use brisk_load::proxy::Proxy;
use brisk_load::response::{RESPONSE_HEAD_BYTES_MAX, ResponseError, check_head};
use brisk_net::Stream;
use std::fmt::Write as _;
use std::io;
use std::rc::Rc;

/// Bytes read at a time.
const READ_BYTES: usize = 64 << 10;

pub(crate) struct Conn {
    stream: Stream,
    facts: Option<Rc<TlsFacts>>,
    peer: Rc<str>,
    /// Has come, and was not used.
    left: Vec<u8>,
    reusable: bool,
}

/// A body on its way.
struct Taken {
    kept: Vec<u8>,
    bytes: u64,
    max: usize,
}

impl Taken {
    fn take(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        let room = self.max.saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&piece[..piece.len().min(room)]);
    }
}

impl Conn {
    pub(crate) fn new(stream: Stream, facts: Option<Rc<TlsFacts>>, peer: Rc<str>) -> Self {
        Self { stream, facts, peer, left: Vec::new(), reusable: true }
    }

    /// Another exchange may follow.
    pub(crate) fn is_reusable(&self) -> bool {
        self.reusable && self.left.is_empty() && !self.stream.is_closed()
    }

    pub(crate) async fn exchange(
        &mut self,
        request: &Request,
        mut phases: Phases,
        reused: bool,
        options: &Options,
        watcher: Option<&Watcher>,
    ) -> Result<Exchange, Failure> {
        let head = head_of(request, options)?;
        if let Some(watch) = watcher {
            watch(Note::RequestHead(&head));
        }
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&request.body);
        // A server may answer and close before it has the whole request: the answer counts, not the failed write.
        let written = self.stream.write_all(&bytes).await;
        phases.sent = phases.now();
        let kind = if request.method == "HEAD" { RequestKind::Head } else { RequestKind::Other };
        let mut client = Client::new(Rules::Tolerant, kind);
        let mut interim = Vec::new();
        let (known, head, text) = loop {
            let text = match self.head(&mut client, &mut phases).await {
                Ok(text) => text,
                Err(failure) => return Err(written.err().map_or(failure, |error| Failure::io(&error, true))),
            };
            let head = client.take_head();
            if let Some(known) = client.known() {
                break (known, head, text);
            }
            interim.push((head.status, fields_of(&head.headers, &text)));
            if interim.len() > INTERIM_RESPONSES_MAX {
                return Err(Failure::new(Fault::Malformed, "too many interim responses"));
            }
            phases.first_byte = None;
        };
        let mut body = Taken { kept: Vec::new(), bytes: 0, max: options.body_max };
        let trailers = self.body(&mut client, &mut body, watcher).await?;
        phases.done = phases.now();
        self.reusable = written.is_ok() && known.persists;
        Ok(Exchange {
            version: if head.version == Version::Http10 { "HTTP/1.0" } else { "HTTP/1.1" },
            status: known.status,
            reason: reason_of(&head, &text),
            fields: fields_of(&head.headers, &text),
            trailers,
            interim,
            body: body.kept,
            body_bytes: body.bytes,
            head_bytes: text.len() as u64,
            phases,
            reused,
            asked_again: false,
            tls: self.facts.clone(),
            peer: Rc::clone(&self.peer),
        })
    }

    /// Reads more; false at the end.
    async fn fill(&mut self) -> io::Result<bool> {
        let before = self.left.len();
        self.left.resize(before + READ_BYTES, 0);
        let read = self.stream.read(&mut self.left[before..]).await;
        self.left.truncate(before + *read.as_ref().unwrap_or(&0));
        Ok(read? > 0)
    }

    /// Receives a head, interim or final; gives its bytes, blank line included.
    async fn head(&mut self, client: &mut Client, phases: &mut Phases) -> Result<Vec<u8>, Failure> {
        loop {
            if !self.left.is_empty() && phases.first_byte.is_none() {
                phases.first_byte = phases.now();
            }
            let received = client.receive(&self.left).map_err(malformed)?;
            if received.event != Event::NeedMore {
                check_head(&self.left, &client.head().headers)
                    .map_err(|error| Failure::new(Fault::Malformed, error.to_string()))?;
                let rest = self.left.split_off(received.used);
                return Ok(std::mem::replace(&mut self.left, rest));
            }
            if self.left.len() > RESPONSE_HEAD_BYTES_MAX {
                return Err(Failure::new(Fault::Malformed, "the response head is too long"));
            }
            let nothing = self.left.is_empty();
            match self.fill().await {
                Ok(true) => {}
                Ok(false) if nothing => {
                    let mut failure =
                        Failure::new(Fault::Truncated, "the server closed the connection without a response");
                    failure.before_response = true;
                    return Err(failure);
                }
                Ok(false) => return Err(cut_short("in a response head")),
                Err(error) => return Err(Failure::io(&error, nothing)),
            }
        }
    }

    /// Receives the body; gives its trailers.
    async fn body(
        &mut self,
        client: &mut Client,
        body: &mut Taken,
        watcher: Option<&Watcher>,
    ) -> Result<Fields, Failure> {
        let mut trailers = Fields::default();
        let mut before = 0;
        let is_chunked = client.known().is_some_and(|known| known.framing == ResponseFraming::Chunked);
        if client.is_tunnel() {
            return Ok(trailers);
        }
        loop {
            let mut at = 0;
            loop {
                let received = client.receive(&self.left[at..]).map_err(malformed)?;
                let from = at;
                at += received.used;
                match received.event {
                    Event::Data(range) => {
                        // What came, and what is still to come, are the chunk, if none of it had come before.
                        if let Some(watch) = watcher.filter(|_| is_chunked && before == 0) {
                            watch(Note::Chunk(range.len() as u64 + client.chunk_left()));
                        }
                        before = client.chunk_left();
                        body.take(&self.left[from..][range]);
                    }
                    Event::Trailers => {
                        let (fields, text) = client.trailers();
                        trailers = fields_of(fields, text);
                    }
                    Event::End => {
                        self.left.drain(..at);
                        return Ok(trailers);
                    }
                    Event::NeedMore | Event::Interim | Event::Head => break,
                }
            }
            self.left.drain(..at);
            if !self.fill().await.map_err(|error| Failure::io(&error, false))? {
                return if client.closed() { Ok(trailers) } else { Err(short(client.known(), body.bytes)) };
            }
        }
    }
}

fn malformed(error: ClientError) -> Failure {
    let text = match error {
        ClientError::Chunk(error) => error.to_string(),
        ClientError::Head(_) => ResponseError::from(error).to_string(),
    };
    Failure::new(Fault::Malformed, text)
}

/// The connection was closed when so many bytes of the body had come.
fn short(known: Option<Known>, bytes: u64) -> Failure {
    match known.map(|known| known.framing) {
        Some(ResponseFraming::Length(length)) => {
            cut_short(&format!("{} bytes before the end of a body", length.saturating_sub(bytes)))
        }
        _ => cut_short("inside a chunked body"),
    }
}

fn cut_short(at: &str) -> Failure {
    Failure::new(Fault::Truncated, format!("the connection was closed {at}"))
}

/// The request's head as text.
fn head_of(request: &Request, options: &Options) -> Result<String, Failure> {
    // Through a tunnel requests are as they are without a proxy.
    let proxy = options.proxy.as_ref().filter(|_| !request.url.origin.secure);
    let target = match proxy {
        Some(proxy) => proxy.target(&request.url).map_err(|why| Failure::new(Fault::Connect, why))?,
        None => request.url.path.clone(),
    };
    let mut head = format!("{} {target} HTTP/1.1\r\n", request.method);
    if request.fields.get("host").is_none() {
        let _ = write!(head, "Host: {}\r\n", request.url.origin.authority());
    }
    for (name, value) in &request.fields.0 {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    if let Some(length) = request.content_length() {
        let _ = write!(head, "Content-Length: {length}\r\n");
    }
    if let Some(login) = proxy.and_then(Proxy::login) {
        let _ = write!(head, "Proxy-Authorization: {login}\r\n");
    }
    if !options.keep_alive && request.fields.get("connection").is_none() {
        head += "Connection: close\r\n";
    }
    head += "\r\n";
    Ok(head)
}

fn fields_of(fields: &[Header], text: &[u8]) -> Fields {
    let own = |span: brisk_http::Span| String::from_utf8_lossy(span.of(text)).into_owned();
    Fields(fields.iter().map(|field| (own(field.name), own(field.value))).collect())
}

/// The reason phrase: what stands behind the code.
fn reason_of(head: &ResponseHead, text: &[u8]) -> String {
    let status = String::from_utf8_lossy(head.status_text.of(text));
    status.split_once(' ').map(|(_, reason)| reason.to_owned()).unwrap_or_default()
}
