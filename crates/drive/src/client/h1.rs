//! One HTTP/1.1 connection (RFC 9112).

use super::Options;
use super::dial::TlsFacts;
use super::failure::{Failure, Fault};
use super::message::{Exchange, Fields, Note, Phases, Request, Watcher};
use brisk_http::chunked::{ChunkEvent, ChunkLimits, ChunkedDecoder};
use brisk_http::response::INTERIM_RESPONSES_MAX;
use brisk_load::response::{Body, HEAD_BYTES_MAX, Head, parse_head};
use brisk_net::Stream;
use memchr::memmem;
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
        let head = head_of(request, options.keep_alive);
        if let Some(watch) = watcher {
            watch(Note::RequestHead(&head));
        }
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&request.body);
        // A server may answer and close before it has the whole request: the answer counts, not the failed write.
        let written = self.stream.write_all(&bytes).await;
        phases.sent = phases.now();
        let mut interim = Vec::new();
        let (head, fields, reason, version, head_bytes) = loop {
            let text = match self.head(&mut phases).await {
                Ok(text) => text,
                Err(failure) => return Err(written.err().map_or(failure, |error| Failure::io(&error, true))),
            };
            let head = parse_head(&text, request.method == "HEAD")
                .map_err(|error| Failure::new(Fault::Malformed, error.to_string()))?;
            let (fields, reason) = fields_of(&text);
            if head.status / 100 == 1 && head.status != 101 {
                interim.push((head.status, fields));
                if interim.len() > INTERIM_RESPONSES_MAX {
                    return Err(Failure::new(Fault::Malformed, "too many interim responses"));
                }
                phases.first_byte = None;
                continue;
            }
            let version = if text.starts_with(b"HTTP/1.0") { "HTTP/1.0" } else { "HTTP/1.1" };
            break (head, fields, reason, version, text.len() as u64);
        };
        let mut body = Taken { kept: Vec::new(), bytes: 0, max: options.body_max };
        let trailers = self.body(head, &mut body, watcher).await?;
        phases.done = phases.now();
        self.reusable = written.is_ok() && !head.close && head.body != Body::UntilClose && head.status != 101;
        Ok(Exchange {
            version,
            status: head.status,
            reason,
            fields,
            trailers,
            interim,
            body: body.kept,
            body_bytes: body.bytes,
            head_bytes,
            phases,
            reused,
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

    /// A whole head, blank line included.
    async fn head(&mut self, phases: &mut Phases) -> Result<Vec<u8>, Failure> {
        loop {
            if !self.left.is_empty() && phases.first_byte.is_none() {
                phases.first_byte = phases.now();
            }
            if let Some(at) = memmem::find(&self.left, b"\r\n\r\n") {
                let rest = self.left.split_off(at + 4);
                return Ok(std::mem::replace(&mut self.left, rest));
            }
            if self.left.len() > HEAD_BYTES_MAX {
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

    async fn body(
        &mut self,
        head: Head,
        body: &mut Taken,
        watcher: Option<&Watcher>,
    ) -> Result<Fields, Failure> {
        match head.body {
            Body::Length(length) => {
                let mut missing = length;
                loop {
                    let count = missing.min(self.left.len() as u64) as usize;
                    body.take(&self.left[..count]);
                    self.left.drain(..count);
                    missing -= count as u64;
                    if missing == 0 {
                        return Ok(Fields::default());
                    }
                    if !self.fill().await.map_err(|error| Failure::io(&error, false))? {
                        return Err(cut_short(&format!("{missing} bytes before the end of a body")));
                    }
                }
            }
            Body::UntilClose => loop {
                body.take(&self.left);
                self.left.clear();
                match self.fill().await {
                    Ok(true) => {}
                    Ok(false) => return Ok(Fields::default()),
                    Err(error) => return Err(Failure::io(&error, false)),
                }
            },
            Body::Chunked => self.chunks(body, watcher).await,
        }
    }

    async fn chunks(&mut self, body: &mut Taken, watcher: Option<&Watcher>) -> Result<Fields, Failure> {
        let mut decoder = ChunkedDecoder::new(ChunkLimits::of_answers());
        let mut before = 0;
        loop {
            let mut at = 0;
            loop {
                let (event, used) = decoder
                    .next(&self.left[at..])
                    .map_err(|error| Failure::new(Fault::Malformed, error.to_string()))?;
                let data = match &event {
                    ChunkEvent::Data(range) => Some(at + range.start..at + range.end),
                    _ => None,
                };
                at += used;
                if let Some(range) = data {
                    // What came, and what is still to come, are the chunk, if none of it had come before.
                    if before == 0
                        && let Some(watch) = watcher
                    {
                        watch(Note::Chunk(range.len() as u64 + decoder.chunk_left()));
                    }
                    before = decoder.chunk_left();
                    body.take(&self.left[range]);
                } else if event == ChunkEvent::End {
                    let (headers, text) = decoder.trailers();
                    let text_of =
                        |span: brisk_http::head::Span| String::from_utf8_lossy(span.of(text)).into_owned();
                    let fields = headers.iter().map(|h| (text_of(h.name), text_of(h.value))).collect();
                    self.left.drain(..at);
                    return Ok(Fields(fields));
                } else {
                    break;
                }
            }
            self.left.drain(..at);
            if !self.fill().await.map_err(|error| Failure::io(&error, false))? {
                return Err(cut_short("inside a chunked body"));
            }
        }
    }
}

fn cut_short(at: &str) -> Failure {
    Failure::new(Fault::Truncated, format!("the connection was closed {at}"))
}

/// The request's head as text.
fn head_of(request: &Request, keep_alive: bool) -> String {
    let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.url.path);
    if request.fields.get("host").is_none() {
        let _ = write!(head, "Host: {}\r\n", request.url.origin.authority());
    }
    for (name, value) in &request.fields.0 {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    if let Some(length) = request.content_length() {
        let _ = write!(head, "Content-Length: {length}\r\n");
    }
    if !keep_alive && request.fields.get("connection").is_none() {
        head += "Connection: close\r\n";
    }
    head + "\r\n"
}

/// Fields and reason phrase of a head that was parsed before.
fn fields_of(head: &[u8]) -> (Fields, String) {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let reason = status_line.splitn(3, ' ').nth(2).unwrap_or_default().to_owned();
    let fields = lines.filter_map(|line| line.split_once(':'));
    (Fields(fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()), reason)
}
