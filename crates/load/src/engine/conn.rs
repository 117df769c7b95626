//! One open connection: requests out, responses in.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::secure::{Failed, Secure};
use super::worker::Context;
use crate::plan::Tls;
use crate::response::{ResponseError, ResponseReader};
use crate::stats::{ErrorKind, Stats};

/// Full reads in one turn before others get theirs.
const READS_PER_TURN_MAX: usize = 16;

/// A request that waits for its response.
#[derive(Debug)]
struct InFlight {
    /// Index into the plan's flat list of targets.
    target: usize,
    /// When it was to be sent; in a closed loop that is when it was.
    due: Instant,
    sent: Instant,
}

impl InFlight {
    #[inline]
    fn answered(&self, status: u16, now: Instant, is_open_loop: bool, stats: &mut Stats) {
        let latency = (now - self.due).as_nanos() as u64;
        if is_open_loop {
            stats.open_response(status, latency, (now - self.sent).as_nanos() as u64);
        } else {
            stats.response(status, latency);
        }
    }
}

/// An open connection.
#[derive(Debug)]
pub struct Open {
    socket: OwnedFd,
    /// The site whose targets are asked for.
    site: usize,
    /// Requests that this connection may still send, over all reconnects.
    allowance: u64,
    reader: ResponseReader,
    in_flight: VecDeque<InFlight>,
    /// Request bytes that the socket did not take yet.
    unsent: Vec<u8>,
    /// TLS, if the plan has it.
    secure: Option<Box<Secure>>,
    /// Whether it counts among the thread's opening connections: no response has come yet.
    opening: bool,
}

/// What a turn came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Everything that was there is read; the next event says when to go on.
    Wait,
    /// There is more to read, but others have their turn first.
    More,
    /// Nothing in flight and nothing left to send.
    Settled,
    /// Nothing in flight; in an open loop, ready for the next request that is due.
    Free,
    /// The connection is over; `early` says that it never answered.
    Over { early: bool },
}

/// Why a connection ended.
enum End {
    /// The peer closed after a response.
    Closed,
    /// The requests in flight are lost.
    Lost(ErrorKind),
}

impl From<ResponseError> for End {
    fn from(error: ResponseError) -> Self {
        Self::Lost(match error {
            ResponseError::Truncated => ErrorKind::Truncated,
            _ => ErrorKind::Protocol,
        })
    }
}

impl From<Failed> for End {
    fn from(Failed: Failed) -> Self {
        Self::Lost(ErrorKind::Protocol)
    }
}

impl Open {
    /// A connection that has just been made.
    pub fn new(socket: OwnedFd, site: usize, allowance: u64) -> Self {
        Self {
            socket,
            site,
            allowance,
            reader: ResponseReader::default(),
            in_flight: VecDeque::new(),
            unsent: Vec::new(),
            secure: None,
            opening: true,
        }
    }

    /// Requests that may still be sent, for the connection that follows this one.
    pub fn allowance(&self) -> u64 {
        self.allowance
    }

    /// It no longer counts as opening.
    #[inline]
    pub fn opened(&mut self, ctx: &mut Context<'_>) {
        if self.opening {
            self.opening = false;
            ctx.opening -= 1;
        }
    }

    /// Whether a request was sent before `limit` and still waits.
    pub fn overdue(&self, limit: Instant) -> bool {
        self.in_flight.front().is_some_and(|oldest| oldest.sent < limit)
    }

    /// The requests in flight are lost.
    pub fn give_up(&mut self, kind: ErrorKind, ctx: &mut Context<'_>) -> Turn {
        self.finish(End::Lost(kind), ctx)
    }

    /// Sends the first requests, or begins a handshake.
    pub fn begin(&mut self, tls: Option<&Tls>, ctx: &mut Context<'_>) -> Turn {
        if let Some(tls) = tls {
            let hello = Secure::begin(tls).map(|(secure, hello)| {
                self.secure = Some(secure);
                hello
            });
            let sent = hello.map_err(End::from).and_then(|hello| self.send(&hello));
            return match sent {
                Ok(()) => Turn::Wait,
                Err(end) => self.finish(end, ctx),
            };
        }
        if ctx.is_open_loop() {
            // It may be long until it is needed.
            self.opened(ctx);
        }
        let sent = self.fill(Instant::now(), ctx);
        self.conclude(sent, ctx)
    }

    /// In an open loop: sends what waits, on a connection that is free.
    pub fn serve(&mut self, now: Instant, ctx: &mut Context<'_>) -> Turn {
        let sent = self.fill(now, ctx);
        self.conclude(sent, ctx)
    }

    /// Whether nothing is in flight.
    pub fn is_free(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Requests that still wait for a response.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.len() as u64
    }

    /// Takes a turn after an event; `hung_up` says that the peer's end is in sight.
    pub fn ready(&mut self, writable: bool, hung_up: bool, ctx: &mut Context<'_>) -> Turn {
        if writable && !self.unsent.is_empty() {
            let unsent = std::mem::take(&mut self.unsent);
            if let Err(end) = self.send(&unsent) {
                return self.finish(end, ctx);
            }
        }
        for _ in 0..READS_PER_TURN_MAX {
            match self.read_once(ctx) {
                // A short read has emptied the socket: the next byte makes a new edge.
                Ok(Some(count)) if count < ctx.buffer.len() && !hung_up => return self.conclude(Ok(()), ctx),
                Ok(Some(_)) => {}
                Ok(None) => return self.conclude(Ok(()), ctx),
                Err(end) => return self.finish(end, ctx),
            }
        }
        Turn::More
    }

    /// One read, the responses in it, and the requests that follow them. `None`: nothing there.
    #[inline]
    fn read_once(&mut self, ctx: &mut Context<'_>) -> Result<Option<usize>, End> {
        let count = match recv(&self.socket, &mut *ctx.buffer, RecvFlags::empty()) {
            Ok((0, _)) => return Err(self.peer_closed(ctx)),
            Ok((count, _)) => count,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(_) => return Err(End::Lost(ErrorKind::Read)),
        };
        let now = Instant::now();
        ctx.stats.bytes += count as u64;
        ctx.bytes += count as u64;
        let mut plain = std::mem::take(&mut ctx.plain);
        if self.secure.is_some() {
            self.open_records(count, &mut plain, now, ctx)?;
        }
        let result = self.responses(count, &plain, now, ctx);
        ctx.plain = plain;
        result.map(|()| Some(count))
    }

    /// Opens the records just read, answers what the protocol wants, and sends the first requests after the handshake.
    fn open_records(
        &mut self,
        count: usize,
        plain: &mut Vec<u8>,
        now: Instant,
        ctx: &mut Context<'_>,
    ) -> Result<(), End> {
        let Some(secure) = &mut self.secure else { return Ok(()) };
        plain.clear();
        let was_established = secure.is_established();
        let mut out = std::mem::take(&mut ctx.sealed);
        out.clear();
        let opened = secure.receive(&mut ctx.buffer[..count], plain, &mut out);
        let begins = secure.is_established() && !was_established;
        let sent = if out.is_empty() { Ok(()) } else { self.send(&out) };
        ctx.sealed = out;
        opened.map_err(End::from).and(sent)?;
        if begins { self.fill(now, ctx) } else { Ok(()) }
    }

    /// The responses in what was read, and the requests that follow them.
    #[inline]
    fn responses(
        &mut self,
        count: usize,
        plain: &[u8],
        now: Instant,
        ctx: &mut Context<'_>,
    ) -> Result<(), End> {
        let is_open_loop = ctx.is_open_loop();
        let mut input = if self.secure.is_some() { plain } else { &ctx.buffer[..count] };
        let mut answered = false;
        while !input.is_empty() {
            let Some(waiting) = self.in_flight.front() else {
                // Bytes that nobody asked for.
                return Err(End::Lost(ErrorKind::Protocol));
            };
            let is_head = ctx.targets[waiting.target].is_head;
            let Some(head) = self.reader.read(&mut input, is_head, &mut ctx.caches[waiting.target])? else {
                break;
            };
            waiting.answered(head.status, now, is_open_loop, &mut ctx.stats);
            ctx.responses += 1;
            self.in_flight.pop_front();
            answered = true;
            if head.close {
                return Err(End::Closed);
            }
        }
        if answered {
            self.opened(ctx);
            self.fill(now, ctx)?;
        }
        Ok(())
    }

    /// Sends as many requests as the pipeline depth and the allowances leave room for.
    #[inline]
    fn fill(&mut self, now: Instant, ctx: &mut Context<'_>) -> Result<(), End> {
        if ctx.is_open_loop() {
            return self.fill_open(now, ctx);
        }
        let room = (ctx.pipeline - self.in_flight.len()) as u64;
        let count = room.min(self.allowance).min(ctx.allowance);
        if count == 0 {
            return Ok(());
        }
        self.allowance -= count;
        ctx.allowance -= count;
        if count == 1 {
            let target = ctx.next_target(self.site);
            self.in_flight.push_back(InFlight { target, due: now, sent: now });
            let request = &ctx.targets[target].request;
            return match self.secure {
                None => self.send(request),
                Some(_) => self.seal(request, &mut ctx.sealed),
            };
        }
        let mut batch = std::mem::take(&mut ctx.batch);
        batch.clear();
        for _ in 0..count {
            let target = ctx.next_target(self.site);
            self.in_flight.push_back(InFlight { target, due: now, sent: now });
            batch.extend_from_slice(&ctx.targets[target].request);
        }
        let sent = match self.secure {
            None => self.send(&batch),
            Some(_) => self.seal(&batch, &mut ctx.sealed),
        };
        ctx.batch = batch;
        sent
    }

    fn seal(&mut self, bytes: &[u8], room: &mut Vec<u8>) -> Result<(), End> {
        let Some(secure) = &mut self.secure else { return Ok(()) };
        room.clear();
        secure.seal(bytes, room)?;
        self.send(room)
    }

    /// Sends the request that has waited longest, if this connection is free and there is one.
    fn fill_open(&mut self, now: Instant, ctx: &mut Context<'_>) -> Result<(), End> {
        if !self.in_flight.is_empty() {
            return Ok(());
        }
        let Some(due) = ctx.waiting.pop_front() else { return Ok(()) };
        let target = ctx.next_target(self.site);
        self.in_flight.push_back(InFlight { target, due, sent: now });
        let request = &ctx.targets[target].request;
        match self.secure {
            None => self.send(request),
            Some(_) => self.seal(request, &mut ctx.sealed),
        }
    }

    /// Sends bytes, or keeps what the socket does not take.
    #[inline]
    fn send(&mut self, mut bytes: &[u8]) -> Result<(), End> {
        if self.unsent.is_empty() {
            match send(&self.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(count) if count == bytes.len() => return Ok(()),
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return Err(End::Lost(ErrorKind::Write)),
            }
        }
        self.unsent.extend_from_slice(bytes);
        Ok(())
    }

    /// The peer has closed: that may end a response, follow one, or break one off.
    fn peer_closed(&mut self, ctx: &mut Context<'_>) -> End {
        match std::mem::take(&mut self.reader).end() {
            Ok(Some(head)) => {
                if let Some(waiting) = self.in_flight.pop_front() {
                    waiting.answered(head.status, Instant::now(), ctx.is_open_loop(), &mut ctx.stats);
                    ctx.responses += 1;
                }
                End::Closed
            }
            Ok(None) if self.in_flight.is_empty() => End::Closed,
            Ok(None) => End::Lost(ErrorKind::Closed),
            Err(error) => error.into(),
        }
    }

    fn conclude(&mut self, result: Result<(), End>, ctx: &mut Context<'_>) -> Turn {
        match result {
            Err(end) => self.finish(end, ctx),
            Ok(()) if self.secure.as_ref().is_some_and(|secure| !secure.is_established()) => Turn::Wait,
            Ok(()) if self.in_flight.is_empty() && ctx.is_open_loop() => Turn::Free,
            Ok(()) if self.in_flight.is_empty() => Turn::Settled,
            Ok(()) => Turn::Wait,
        }
    }

    /// Counts the end. Requests that were pipelined behind a closing response get another chance.
    fn finish(&mut self, end: End, ctx: &mut Context<'_>) -> Turn {
        let lost = self.in_flight.len() as u64;
        self.in_flight.clear();
        // A connection that was answered once and closed was not refused: the next is opened at once.
        let early = self.opening && matches!(end, End::Lost(_));
        match end {
            End::Closed if ctx.is_open_loop() => ctx.stats.closes += 1,
            End::Closed => {
                ctx.stats.closes += 1;
                self.allowance += lost;
                ctx.allowance += lost;
            }
            End::Lost(kind) => {
                ctx.stats.error(kind, lost.max(1));
                ctx.errors += lost.max(1);
            }
        }
        self.opened(ctx);
        Turn::Over { early }
    }
}
