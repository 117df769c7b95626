//! HTTP/2 on one connection: as many streams as the plan says, in one read and one write per turn.

use std::collections::VecDeque;

use brisk_h2::flood::FloodLimits;
use brisk_h2::hpack::write_literal;
use brisk_h2::{Config, Connection, ErrorCode, Event, Role, Settings};

use super::context::{Context, Due, InFlight, Made, Ns};
use super::h1::Budget;
use super::streams::{Coding, Head, Streams};
use super::wire::{End, Wire};
use crate::plan::Target;
use crate::stats::ErrorKind;

/// What may come in without being asked for again: flow control is not what is measured.
const WINDOW_BYTES: u32 = 1 << 30;
/// Streams that are begun before the server has said how many it allows (RFC 9113 §6.5.2 asks for 100 at least).
const STREAMS_UNTOLD: usize = 100;
/// Bodies are given to the socket in steps of this size.
const PIECE_BYTES: usize = 64 * 1024;

/// A body that is not sent yet.
#[derive(Debug)]
struct Upload {
    stream: u32,
    target: usize,
    at: usize,
}

/// See the module's head.
#[derive(Debug)]
pub struct H2 {
    conn: Connection<()>,
    head: Head,
    streams: Streams<u32>,
    uploads: VecDeque<Upload>,
    /// The start of a frame.
    left: Vec<u8>,
    /// The server's SETTINGS have come.
    told: bool,
    /// The server takes no new streams.
    leaving: bool,
    /// Whose cookies are sent.
    user: u32,
}

impl H2 {
    /// A connection; sends what its client's side begins with (RFC 9113 §3.4) with the first requests.
    pub fn new(user: u32, wants_cookies: bool, out: &mut Vec<u8>) -> Box<Self> {
        let settings = Settings {
            enable_push: false,
            initial_window_size: WINDOW_BYTES,
            max_concurrent_streams: None,
            ..Settings::default()
        };
        // A benchmark's server is not an attacker: it may do all it likes, as long as it answers.
        let flood = FloodLimits::NONE;
        let config = Config { settings, connection_window: WINDOW_BYTES, flood, ..Config::default() };
        Box::new(Self {
            conn: Connection::new(Role::Client, config, 0, out),
            head: Head::new(Coding::Hpack, wants_cookies),
            streams: Streams::default(),
            uploads: VecDeque::new(),
            left: Vec::new(),
            told: false,
            leaving: false,
            user,
        })
    }

    /// The requests that wait for a response.
    pub fn streams(&self) -> &Streams<u32> {
        &self.streams
    }

    /// Takes the requests in flight away.
    pub fn take_in_flight(&mut self) -> impl Iterator<Item = InFlight> + use<> {
        self.streams.take()
    }

    /// Takes bytes; true if a response was completed. Answers of the protocol's are put into `out`.
    pub fn receive(
        &mut self,
        input: &[u8],
        now: Ns,
        made: &mut Made,
        out: &mut Vec<u8>,
        ctx: &mut Context<'_>,
    ) -> Result<bool, End> {
        if self.left.is_empty() {
            let (used, result) = self.frames(input, now, made, out, ctx);
            self.left.extend_from_slice(&input[used..]);
            return result;
        }
        let mut joined = std::mem::take(&mut self.left);
        joined.extend_from_slice(input);
        let (used, result) = self.frames(&joined, now, made, out, ctx);
        joined.drain(..used);
        self.left = joined;
        result
    }

    /// All frames that are whole; gives how many bytes they were.
    fn frames(
        &mut self,
        input: &[u8],
        now: Ns,
        made: &mut Made,
        out: &mut Vec<u8>,
        ctx: &mut Context<'_>,
    ) -> (usize, Result<bool, End>) {
        let (mut at, mut answered) = (0, false);
        loop {
            let received = match self.conn.receive(&input[at..], &mut self.head, out) {
                Ok(received) => received,
                Err(error) => {
                    self.conn.fail(&error, out);
                    return (input.len(), Err(End::Lost(ErrorKind::Protocol)));
                }
            };
            let used = received.used;
            at += used;
            let done = match received.event {
                None if used == 0 => break,
                None => continue,
                Some(Event::Head { stream, end, bytes }) => self.head_of(stream, end, bytes, now, ctx),
                Some(Event::Data { stream, data, end, .. }) => {
                    let count = data.len() as u64;
                    self.conn.consume(stream, count as u32, out);
                    if let Some(request) = self.streams.find(stream) {
                        request.bytes += used as u64;
                    }
                    end.then_some(stream)
                }
                Some(Event::Trailers { stream, .. }) => Some(stream),
                Some(Event::Mismatch { stream }) => {
                    self.conn.reset(stream, ErrorCode::PROTOCOL_ERROR, out);
                    self.lose(stream, ErrorKind::Truncated, now, made, ctx);
                    answered = true;
                    None
                }
                Some(Event::Reset { stream, by_peer, .. }) => {
                    let kind = if by_peer { ErrorKind::Stream } else { ErrorKind::Protocol };
                    self.lose(stream, kind, now, made, ctx);
                    answered = true;
                    None
                }
                Some(Event::Settings) => {
                    self.told = true;
                    // The first are not the requests' answer, but more may be sent now.
                    answered = true;
                    None
                }
                Some(Event::GoAway { last, .. }) => {
                    self.go(last);
                    None
                }
                Some(Event::Window | Event::Interim { .. } | Event::SettingsAck | Event::Pong(_)) => None,
            };
            if let Some(stream) = done {
                answered |= self.done(stream, now, made, out, ctx);
            }
        }
        if self.leaving && self.streams.is_empty() {
            return (at, Err(End::Closed { by_peer: true }));
        }
        (at, Ok(answered))
    }

    /// A response's head has come; gives the stream if that was all.
    fn head_of(
        &mut self,
        stream: u32,
        end: bool,
        bytes: usize,
        now: Ns,
        ctx: &mut Context<'_>,
    ) -> Option<u32> {
        let head_bytes = bytes + brisk_h2::frame::HEAD_BYTES;
        let length = self.streams.head(stream, &mut self.head, (self.user, head_bytes), now, ctx);
        if end {
            return Some(stream);
        }
        if length.is_some() {
            self.conn.expect(stream, length);
        }
        None
    }

    fn done(
        &mut self,
        stream: u32,
        now: Ns,
        made: &mut Made,
        out: &mut Vec<u8>,
        ctx: &mut Context<'_>,
    ) -> bool {
        if !self.streams.has(stream) {
            return false;
        }
        if !self.uploads.is_empty() && self.conn.has(stream) {
            // Answered before it was asked as a whole (RFC 9113 §8.1).
            self.uploads.retain(|upload| upload.stream != stream);
            self.conn.reset(stream, ErrorCode::NO_ERROR, out);
        }
        self.streams.answered(stream, now, made, ctx)
    }

    fn lose(&mut self, stream: u32, kind: ErrorKind, now: Ns, made: &mut Made, ctx: &mut Context<'_>) {
        self.uploads.retain(|upload| upload.stream != stream);
        self.streams.failed(stream, kind, now, made, ctx);
    }

    /// GOAWAY: streams above `last` were not looked at (RFC 9113 §6.8) and are asked again elsewhere.
    fn go(&mut self, last: u32) {
        self.leaving = true;
        self.streams.turn_away_from(last.saturating_add(1));
        self.uploads.retain(|upload| upload.stream <= last);
    }

    /// How many streams may be begun now.
    fn room(&self, depth: usize) -> usize {
        let allowed = if self.told { depth } else { depth.min(STREAMS_UNTOLD) };
        if self.leaving { 0 } else { allowed.saturating_sub(self.streams.len()) }
    }

    /// In a closed loop: begins as many streams as there is room for.
    pub fn fill(
        &mut self,
        site: usize,
        now: Ns,
        budget: &mut Budget,
        out: &mut Vec<u8>,
        ctx: &mut Context<'_>,
    ) {
        for _ in 0..self.room(ctx.depth()) {
            if !self.can_open() || budget.take(1, ctx) == 0 {
                break;
            }
            self.send(site, Due::now(now), now, out, ctx);
        }
    }

    /// Whether another stream may be begun on this connection.
    fn can_open(&self) -> bool {
        let max = self.conn.peer_settings().max_concurrent_streams.unwrap_or(u32::MAX);
        (self.conn.len() as u64) < u64::from(max)
    }

    /// In an open loop: whether it can take a request now.
    pub fn is_free(&self, depth: usize) -> bool {
        self.room(depth) > 0 && self.can_open()
    }

    /// Sends one request; `None`: no stream can be begun.
    pub fn send(&mut self, site: usize, due: Due, now: Ns, out: &mut Vec<u8>, ctx: &mut Context<'_>) {
        let Some(stream) = self.conn.open(()) else {
            // The numbers are used up, after a billion requests.
            self.leaving = true;
            return ctx.failures(ErrorKind::Protocol, 1);
        };
        let target = ctx.next_target(site);
        let Target { block, body, .. } = ctx.targets[target];
        let sent = match ctx.cookies(self.user, target) {
            None => self.conn.send_head(stream, block, body.is_empty(), out),
            Some(cookies) => {
                let mut block = block.to_vec();
                write_literal(b"cookie", cookies.as_bytes(), &mut block);
                self.conn.send_head(stream, &block, body.is_empty(), out)
            }
        };
        debug_assert!(sent.is_ok(), "a stream that was just begun is open");
        self.streams.push(stream, InFlight::new(target, due, now));
        if !body.is_empty() {
            self.uploads.push_back(Upload { stream, target, at: 0 });
        }
    }

    /// Goes on with bodies, as far as windows and socket allow: each in turn.
    pub fn push(&mut self, wire: &Wire, out: &mut Vec<u8>, ctx: &Context<'_>) {
        if wire.is_full() {
            return;
        }
        for _ in 0..self.uploads.len() {
            if out.len() >= PIECE_BYTES {
                return;
            }
            let Some(mut upload) = self.uploads.pop_front() else { return };
            let body = &ctx.targets[upload.target].body;
            let count = self.conn.room(upload.stream).min(body.len() - upload.at).min(PIECE_BYTES);
            if count > 0 {
                let end = upload.at + count;
                let is_last = end == body.len();
                if self.conn.send_body(upload.stream, &body[upload.at..end], is_last, out).is_err() || is_last
                {
                    continue;
                }
                upload.at = end;
            }
            self.uploads.push_back(upload);
        }
    }

    /// Whether bodies wait to be sent.
    pub fn has_uploads(&self) -> bool {
        !self.uploads.is_empty()
    }
}
