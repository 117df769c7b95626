//! One HTTP/2 connection (RFC 9113), shared by any number of exchanges.
//!
//! What its exchanges share is in [`shared`](super::shared).

use super::failure::{Failure, Fault};
use super::incoming::{Heads, Incoming, LinkFacts, Sink, fields_of, text_of};
use super::message::{Exchange, Note, Phases, Request, TlsFacts, Watcher};
use super::shared::{Shared, Stage};
use brisk_h2::frame::{FrameHead, HEAD_BYTES};
use brisk_h2::hpack::write_literal;
use brisk_h2::{Config, Connection, ErrorCode, Event, Role, Settings};
use brisk_net::{Stream, spawn};
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

const READ_BYTES: usize = 64 << 10;
/// What may come of one body before it was looked at.
const WINDOW_BYTES: u32 = 1 << 20;

struct State {
    conn: Connection<()>,
    out: Vec<u8>,
    shared: Shared<u32>,
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
        let state =
            State { conn, out, shared: Shared::new(Stage::Open), watcher, shown: brisk_h2::PREFACE.len() };
        let state = Rc::new(RefCell::new(state));
        spawn(drive(stream, Rc::downgrade(&state)));
        Self { state, facts, peer }
    }

    /// New streams may be begun.
    pub(crate) fn is_usable(&self) -> bool {
        self.state.borrow().shared.is_usable()
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
        let mut heads = Heads::default();
        let state = &self.state;
        poll_fn(|cx| state.borrow_mut().shared.poll_response(guard.stream, cx, &mut phases, &mut heads))
            .await?;
        phases.done = phases.now();
        let incoming = self.state.borrow_mut().shared.incoming.remove(&guard.stream).unwrap_or_default();
        let link =
            LinkFacts { version: "HTTP/2", reused, tls: self.facts.clone(), peer: Rc::clone(&self.peer) };
        heads.exchange(incoming, phases, link)
    }

    /// Begins a stream and sends the head, waiting while the server allows no more streams.
    async fn open(&self, request: &Request, body_max: usize) -> Result<Guard, Failure> {
        let stream = poll_fn(|cx| {
            let mut state = self.state.borrow_mut();
            if let Err(failure) = state.shared.check() {
                return Poll::Ready(Err(failure));
            }
            let begun = state.conn.open(());
            state.shared.poll_begun(begun, cx)
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
        state.shared.incoming.insert(stream, Incoming::new(body_max));
        state.shared.kick();
        Ok(Guard { state: Rc::clone(&self.state), stream })
    }

    async fn send_body(&self, guard: &Guard, body: &[u8]) -> Result<(), Failure> {
        let mut sent = 0;
        while sent < body.len() {
            let done = poll_fn(|cx| {
                let mut state = self.state.borrow_mut();
                let state = &mut *state;
                if let Stage::Failed(failure) = &state.shared.stage {
                    return Poll::Ready(Err(failure.clone()));
                }
                // The server has answered already and wants no more.
                if !state.conn.can_send(guard.stream) {
                    return Poll::Ready(Ok(None));
                }
                let room = state.conn.room(guard.stream).min(body.len() - sent).min(64 << 10);
                if room == 0 {
                    if let Some(incoming) = state.shared.incoming.get_mut(&guard.stream) {
                        incoming.wait(cx);
                    }
                    return Poll::Pending;
                }
                let end = sent + room == body.len();
                let _ = state.conn.send_body(guard.stream, &body[sent..sent + room], end, &mut state.out);
                state.shared.kick();
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
        if state.shared.incoming.remove(&self.stream).is_some() || state.conn.has(self.stream) {
            state.conn.reset(self.stream, ErrorCode::CANCEL, &mut state.out);
            state.shared.kick();
        }
        state.shared.admit();
    }
}

impl State {
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
                    if let Some(incoming) = self.shared.incoming.get_mut(&stream) {
                        incoming.trailers(sink);
                    }
                }
                Some(Event::Data { stream, data, end, .. }) => {
                    consumed = Some((stream, data.len() as u32));
                    if let Some(incoming) = self.shared.incoming.get_mut(&stream) {
                        incoming.data(data, end);
                    }
                }
                Some(Event::Mismatch { stream }) => {
                    let text = "the body is not as long as Content-Length says";
                    self.shared.end(stream, Failure::new(Fault::Malformed, text));
                }
                Some(Event::Reset { stream, code, .. }) => {
                    let text = format!("the stream was reset: {}", code.name());
                    self.shared.end(stream, Failure::new(Fault::Reset, text));
                }
                Some(Event::GoAway { last, code }) => {
                    let text = format!("the server goes away: {}", code.name());
                    self.shared.go_away(&Failure::new(Fault::Reset, text), |stream| stream > last);
                }
                Some(Event::Window | Event::Settings) => {
                    self.shared.incoming.values_mut().for_each(Incoming::wake);
                    self.shared.admit();
                }
                Some(Event::SettingsAck | Event::Pong(_)) | None => {}
            }
            if let Some((stream, count)) = consumed {
                self.conn.consume(stream, count, &mut self.out);
            }
        }
    }

    fn head(&mut self, stream: u32, end: bool, bytes: usize, sink: &mut Sink) {
        let Some(incoming) = self.shared.incoming.get_mut(&stream) else { return };
        if let Some(length) = incoming.head(sink, end, bytes as u64) {
            self.conn.expect(stream, Some(length));
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

/// Reads and writes until the connection ends or nobody has it any more.
async fn drive(stream: Stream, state: std::rc::Weak<RefCell<State>>) {
    let mut input: Vec<u8> = Vec::new();
    let mut shown = 0;
    let mut sink = Sink::default();
    poll_fn(|cx| {
        let Some(state) = state.upgrade() else { return Poll::Ready(()) };
        let mut state = state.borrow_mut();
        state.shared.drive(cx);
        let result = turn(&stream, &mut state, &mut input, &mut shown, &mut sink, cx);
        match result {
            Ok(()) => Poll::Pending,
            Err(failure) => {
                state.shared.fail(failure);
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
    for (name, value) in fields_of(request) {
        put(&name, &value);
    }
    block
}
