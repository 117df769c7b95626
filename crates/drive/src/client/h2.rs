//! One HTTP/2 connection (RFC 9113), shared by any number of exchanges.
//!
//! A task of its own reads and writes; an exchange is a stream that waits for its events. Whoever changes what is to be
//! sent wakes the task.

use super::failure::{Failure, Fault};
use super::message::{Exchange, Fields, Note, Phases, Request, TlsFacts, Watcher};
use brisk_h2::conn::{HeadKind, HeadSink};
use brisk_h2::frame::{FrameHead, HEAD_BYTES};
use brisk_h2::hpack::{Field, FieldSink, write_literal};
use brisk_h2::message::{HeadRules, Malformed};
use brisk_h2::{Config, Connection, ErrorCode, Event, Role, Settings};
use brisk_http::framing::parse_length;
use brisk_http::limits::INTERIM_RESPONSES_MAX;
use brisk_net::{Stream, spawn};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

const READ_BYTES: usize = 64 << 10;
/// What may come of one body before it was looked at.
const WINDOW_BYTES: u32 = 1 << 20;

/// A response as it comes.
#[derive(Default)]
struct Incoming {
    heads: VecDeque<(Fields, u64)>,
    trailers: Fields,
    body: Vec<u8>,
    body_bytes: u64,
    body_max: usize,
    first_byte: bool,
    over: Option<Result<(), Failure>>,
    waker: Option<Waker>,
}

struct State {
    conn: Connection<()>,
    out: Vec<u8>,
    streams: HashMap<u32, Incoming>,
    driver: Option<Waker>,
    /// Of those who wait for room for another stream.
    waiting: Vec<Waker>,
    failed: Option<Failure>,
    going_away: bool,
    watcher: Option<Watcher>,
    /// Of what was sent: how much was shown to the watcher.
    shown: usize,
}

/// See the module's head.
#[derive(Clone)]
pub(crate) struct Conn {
    state: Rc<RefCell<State>>,
    facts: Option<Rc<TlsFacts>>,
    peer: Rc<str>,
}

/// Takes the fields of one head.
#[derive(Default)]
struct Sink {
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

impl Conn {
    /// Begins to speak HTTP/2 over a connection.
    pub(crate) fn start(
        stream: Stream,
        facts: Option<Rc<TlsFacts>>,
        peer: Rc<str>,
        watcher: Option<Watcher>,
    ) -> Self {
        let mut out = Vec::new();
        let settings =
            Settings { initial_window_size: WINDOW_BYTES, enable_push: false, ..Settings::default() };
        let config = Config { settings, connection_window: 16 << 20, ..Config::default() };
        let conn = Connection::new(Role::Client, config, 0, &mut out);
        let state = State {
            conn,
            out,
            streams: HashMap::new(),
            driver: None,
            waiting: Vec::new(),
            failed: None,
            going_away: false,
            watcher,
            shown: brisk_h2::PREFACE.len(),
        };
        let state = Rc::new(RefCell::new(state));
        spawn(drive(stream, Rc::downgrade(&state)));
        Self { state, facts, peer }
    }

    /// New streams may be begun.
    pub(crate) fn is_usable(&self) -> bool {
        let state = self.state.borrow();
        state.failed.is_none() && !state.going_away
    }

    pub(crate) async fn exchange(
        &self,
        request: &Request,
        mut phases: Phases,
        reused: bool,
        body_max: usize,
    ) -> Result<Exchange, Failure> {
        let guard = self.open(request, body_max).await?;
        self.send_body(&guard, &request.body).await?;
        phases.sent = phases.now();
        let mut interim = Vec::new();
        let mut head: Option<(u16, Fields, u64)> = None;
        let state = &self.state;
        poll_fn(|cx| {
            let mut state = state.borrow_mut();
            let failed = state.failed.clone();
            let Some(incoming) = state.streams.get_mut(&guard.stream) else {
                return Poll::Ready(Err(
                    failed.unwrap_or_else(|| Failure::new(Fault::Reset, "the stream is gone"))
                ));
            };
            if incoming.first_byte && phases.first_byte.is_none() {
                phases.first_byte = phases.now();
            }
            while let Some((fields, bytes)) = incoming.heads.pop_front() {
                let status = status_of(&fields).unwrap_or(0);
                let plain = Fields(fields.0.into_iter().filter(|(name, _)| !name.starts_with(':')).collect());
                if status / 100 == 1 {
                    interim.push((status, plain));
                    if interim.len() > INTERIM_RESPONSES_MAX {
                        let text = "too many interim responses";
                        return Poll::Ready(Err(Failure::new(Fault::Malformed, text)));
                    }
                } else {
                    head = Some((status, plain, bytes));
                }
            }
            match incoming.over.take() {
                Some(over) => Poll::Ready(over),
                None => {
                    incoming.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await?;
        phases.done = phases.now();
        let incoming = self.state.borrow_mut().streams.remove(&guard.stream).unwrap_or_default();
        let (status, fields, head_bytes) =
            head.ok_or_else(|| Failure::new(Fault::Malformed, "the stream ended without a response"))?;
        Ok(Exchange {
            version: "HTTP/2",
            status,
            reason: String::new(),
            fields,
            trailers: incoming.trailers,
            interim,
            body: incoming.body,
            body_bytes: incoming.body_bytes,
            head_bytes,
            phases,
            reused,
            asked_again: false,
            tls: self.facts.clone(),
            peer: Rc::clone(&self.peer),
        })
    }

    /// Begins a stream and sends the head, waiting while the server allows no more streams.
    async fn open(&self, request: &Request, body_max: usize) -> Result<Guard, Failure> {
        let stream = poll_fn(|cx| {
            let mut state = self.state.borrow_mut();
            if let Some(failure) = &state.failed {
                return Poll::Ready(Err(failure.clone()));
            }
            match state.conn.open(()) {
                Some(stream) => Poll::Ready(Ok(stream)),
                None => {
                    state.waiting.push(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await?;
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let block = block_of(request);
        if let Some(watch) = &state.watcher {
            watch(Note::RequestHead(&text_of(request)));
        }
        let end = request.body.is_empty();
        let _ = state.conn.send_head(stream, &block, end, &mut state.out);
        state.streams.insert(stream, Incoming { body_max, ..Incoming::default() });
        state.kick();
        Ok(Guard { state: Rc::clone(&self.state), stream })
    }

    async fn send_body(&self, guard: &Guard, body: &[u8]) -> Result<(), Failure> {
        let mut sent = 0;
        while sent < body.len() {
            let done = poll_fn(|cx| {
                let mut state = self.state.borrow_mut();
                let state = &mut *state;
                if let Some(failure) = &state.failed {
                    return Poll::Ready(Err(failure.clone()));
                }
                // The server has answered already and wants no more.
                if !state.conn.can_send(guard.stream) {
                    return Poll::Ready(Ok(None));
                }
                let room = state.conn.room(guard.stream).min(body.len() - sent).min(64 << 10);
                if room == 0 {
                    if let Some(incoming) = state.streams.get_mut(&guard.stream) {
                        incoming.waker = Some(cx.waker().clone());
                    }
                    return Poll::Pending;
                }
                let end = sent + room == body.len();
                let _ = state.conn.send_body(guard.stream, &body[sent..sent + room], end, &mut state.out);
                state.kick();
                Poll::Ready(Ok(Some(room)))
            })
            .await?;
            match done {
                Some(count) => sent += count,
                None => break,
            }
        }
        Ok(())
    }
}

/// An exchange that is given up ends its stream.
struct Guard {
    state: Rc<RefCell<State>>,
    stream: u32,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if state.streams.remove(&self.stream).is_some() || state.conn.has(self.stream) {
            state.conn.reset(self.stream, ErrorCode::CANCEL, &mut state.out);
            state.kick();
        }
        state.admit();
    }
}

impl State {
    /// There may be room for another stream.
    fn admit(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }

    fn kick(&mut self) {
        if let Some(waker) = self.driver.take() {
            waker.wake();
        }
    }

    fn fail(&mut self, failure: Failure) {
        for incoming in self.streams.values_mut() {
            if incoming.over.is_none() {
                incoming.over = Some(Err(failure.clone()));
            }
            wake(incoming);
        }
        self.failed = Some(failure);
        self.admit();
    }

    /// Takes everything that `input` holds; gives what was used.
    fn receive(&mut self, input: &[u8], sink: &mut Sink) -> Result<usize, Failure> {
        let mut used = 0;
        loop {
            let rest = &input[used..];
            let received = self.conn.receive(rest, sink, &mut self.out);
            let received = received.map_err(|error| Failure::new(Fault::Malformed, error.to_string()))?;
            if received.used == 0 && received.event.is_none() {
                return Ok(used);
            }
            used += received.used;
            let mut consumed = None;
            match received.event {
                Some(Event::Head { stream, end, bytes }) => self.head(stream, end, bytes, sink),
                Some(Event::Interim { stream }) => self.head(stream, false, 0, sink),
                Some(Event::Trailers { stream, .. }) => {
                    if let Some(incoming) = self.streams.get_mut(&stream) {
                        incoming.trailers = std::mem::take(&mut sink.fields);
                        incoming.over = Some(Ok(()));
                        wake(incoming);
                    }
                }
                Some(Event::Data { stream, data, end, .. }) => {
                    consumed = Some((stream, data.len() as u32));
                    if let Some(incoming) = self.streams.get_mut(&stream) {
                        incoming.body_bytes += data.len() as u64;
                        let room = incoming.body_max.saturating_sub(incoming.body.len());
                        incoming.body.extend_from_slice(&data[..data.len().min(room)]);
                        if end {
                            incoming.over = Some(Ok(()));
                            wake(incoming);
                        }
                    }
                }
                Some(Event::Mismatch { stream }) => {
                    let text = "the body is not as long as Content-Length says";
                    self.end(stream, Failure::new(Fault::Malformed, text));
                }
                Some(Event::Reset { stream, code, .. }) => {
                    self.end(
                        stream,
                        Failure::new(Fault::Reset, format!("the stream was reset: {}", code.name())),
                    );
                }
                Some(Event::GoAway { last, code }) => self.go_away(last, code),
                Some(Event::Window | Event::Settings) => {
                    self.streams.values_mut().for_each(wake);
                    self.admit();
                }
                Some(Event::SettingsAck | Event::Pong(_)) | None => {}
            }
            if let Some((stream, count)) = consumed {
                self.conn.consume(stream, count, &mut self.out);
            }
        }
    }

    fn head(&mut self, stream: u32, end: bool, bytes: usize, sink: &mut Sink) {
        let malformed = sink.malformed.take();
        let fields = std::mem::take(&mut sink.fields);
        if malformed.is_some() || status_of(&fields).is_none() {
            let why = malformed
                .map_or("no :status".to_owned(), |error| error.to_string().replace("client", "server"));
            self.end(stream, Failure::new(Fault::Malformed, why));
            return;
        }
        let length = fields.get("content-length").and_then(|length| parse_length(length.as_bytes()));
        let Some(incoming) = self.streams.get_mut(&stream) else { return };
        incoming.first_byte = true;
        incoming.heads.push_back((fields, bytes as u64));
        if end {
            incoming.over = Some(Ok(()));
        } else if length.is_some() {
            self.conn.expect(stream, length);
        }
        wake(incoming);
    }

    fn go_away(&mut self, last: u32, code: ErrorCode) {
        self.going_away = true;
        let failure = Failure::new(Fault::Reset, format!("the server goes away: {}", code.name()));
        let lost: Vec<u32> = self.streams.keys().copied().filter(|&stream| stream > last).collect();
        lost.into_iter().for_each(|stream| self.end(stream, failure.clone()));
    }

    fn end(&mut self, stream: u32, failure: Failure) {
        if let Some(incoming) = self.streams.get_mut(&stream) {
            incoming.over = Some(Err(failure));
            wake(incoming);
        }
    }

    /// Shows the frames of `bytes` to the watcher; gives how many bytes they are.
    fn show(&self, bytes: &[u8], sent: bool) -> usize {
        let Some(watch) = &self.watcher else { return 0 };
        let mut at = 0;
        while let Some(head) = bytes.get(at..).and_then(FrameHead::parse) {
            let Some(payload) = bytes.get(at + HEAD_BYTES..at + HEAD_BYTES + head.len as usize) else {
                break;
            };
            watch(Note::Frame { sent, head, payload });
            at += HEAD_BYTES + payload.len();
        }
        at
    }
}

fn wake(incoming: &mut Incoming) {
    if let Some(waker) = incoming.waker.take() {
        waker.wake();
    }
}

/// Reads and writes until the connection ends or nobody has it any more.
async fn drive(stream: Stream, state: std::rc::Weak<RefCell<State>>) {
    let mut input: Vec<u8> = Vec::new();
    let mut shown = 0;
    let mut sink = Sink::default();
    poll_fn(|cx| {
        let Some(state) = state.upgrade() else { return Poll::Ready(()) };
        let mut state = state.borrow_mut();
        state.driver = Some(cx.waker().clone());
        let result = turn(&stream, &mut state, &mut input, &mut shown, &mut sink, cx);
        match result {
            Ok(()) => Poll::Pending,
            Err(failure) => {
                state.fail(failure);
                Poll::Ready(())
            }
        }
    })
    .await;
}

fn turn(
    stream: &Stream,
    state: &mut State,
    input: &mut Vec<u8>,
    shown: &mut usize,
    sink: &mut Sink,
    cx: &mut Context<'_>,
) -> Result<(), Failure> {
    let failed = |error: &std::io::Error| Failure::io(error, false);
    loop {
        while !state.out.is_empty() {
            let seen = state.shown;
            state.shown += state.show(&state.out[seen..], true);
            match stream.try_write(&state.out) {
                Ok(count) => {
                    state.out.drain(..count);
                    state.shown = state.shown.saturating_sub(count);
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    if stream.poll_writable(cx).is_pending() {
                        break;
                    }
                }
                Err(error) => return Err(failed(&error)),
            }
        }
        let before = input.len();
        input.resize(before + READ_BYTES, 0);
        let read = stream.try_read(&mut input[before..]);
        input.truncate(before + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => return Err(Failure::new(Fault::Truncated, "the server closed the connection")),
            Ok(_) => {
                *shown += state.show(&input[*shown..], false);
                let used = state.receive(input, sink)?;
                input.drain(..used);
                *shown = shown.saturating_sub(used);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                if stream.poll_readable(cx).is_pending() {
                    return Ok(());
                }
            }
            Err(error) => return Err(failed(&error)),
        }
    }
}

/// The request's head as HTTP/2 has it, without the dynamic table.
fn block_of(request: &Request) -> Vec<u8> {
    let mut block = Vec::new();
    let mut put = |name: &str, value: &str| write_literal(name.as_bytes(), value.as_bytes(), &mut block);
    for (name, value) in fields_for_h2(request) {
        put(&name, &value);
    }
    block
}

/// For people, in the order in which it is sent.
fn text_of(request: &Request) -> String {
    fields_for_h2(request)
        .iter()
        .fold(String::new(), |text, (name, value)| text + name + ": " + value + "\r\n")
}

/// RFC 9113 §8.3.1; what is the connection's business has no place there (§8.2.2).
fn fields_for_h2(request: &Request) -> Vec<(String, String)> {
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
