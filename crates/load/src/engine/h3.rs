//! HTTP/3 on one connection: as many streams as the plan says, over a UDP socket of its own.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use brisk_h2::flood::FloodLimits;
use brisk_h3::qpack::write_literal;
use brisk_net::udp::{Message, Outbox, Receiver};
use rustix::io::Errno;
use rustix::net::sockopt;

use super::context::{Context, Due, InFlight, Made, Ns};
use super::h1::Budget;
use super::streams::{Coding, Head, Streams};
use super::wire::End;
use crate::h3::{Answer, Broken, Client, Closed, Ecn, Happened, Traffic};
use crate::limits::READS_PER_TURN_MAX;
use crate::plan::{Endpoint, Target};
use crate::stats::ErrorKind;

/// What a turn came to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Heard {
    /// A response was completed, or failed: others may be asked for.
    pub answered: bool,
    /// Requests may be made from here on.
    pub opened: bool,
    /// There is more to read.
    pub has_more: bool,
}

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The handshake is under way, since then, and nothing may be asked.
    Opening(Ns),
    /// Requests may be made, though the handshake that began then is not complete (0-RTT).
    Early(Ns),
    Open,
    /// The server takes no new streams.
    Leaving,
}

/// See the module's head.
pub struct H3 {
    client: Client,
    remote: SocketAddr,
    outbox: Outbox,
    head: Head,
    streams: Streams<u64>,
    stage: Stage,
    /// The server allowed no other stream when one was wanted; it is asked again when something has come.
    is_full: bool,
    /// What has gone over it and is counted.
    counted: Traffic,
    /// When it moves to another port.
    moves_at: Option<Instant>,
    /// Whose cookies are sent.
    user: u32,
}

impl std::fmt::Debug for H3 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("H3").field("stage", &self.stage).finish_non_exhaustive()
    }
}

impl H3 {
    /// A connection to a site's server; nothing has been sent yet.
    pub fn begin(site: usize, user: u32, now: Ns, ctx: &mut Context<'_>) -> Result<Box<Self>, End> {
        let (Some(quic), Some(tls)) = (&ctx.plan.quic, &ctx.plan.tls) else {
            return Err(End::Lost(ErrorKind::Connect));
        };
        let Endpoint::Tcp(remote) = ctx.plan.sites[site].endpoint else {
            return Err(End::Lost(ErrorKind::Connect));
        };
        let at = ctx.instant(now);
        let name = tls.name.trim_start_matches('[').trim_end_matches(']');
        // A benchmark's server is not an attacker.
        let client = Client::begin(at, quic, remote, name, FloodLimits::NONE);
        let client = client.map_err(|why| ctx.tls_failed(&why))?;
        let stage = if client.can_ask() { Stage::Early(now) } else { Stage::Opening(now) };
        Ok(Box::new(Self {
            client,
            remote,
            outbox: Outbox::default(),
            head: Head::new(Coding::Qpack, ctx.has_jars()),
            streams: Streams::default(),
            stage,
            is_full: false,
            counted: Traffic::default(),
            moves_at: ctx.plan.migrate.map(|after| at + after),
            user,
        }))
    }

    /// The requests that wait for a response.
    pub fn streams(&self) -> &Streams<u64> {
        &self.streams
    }

    /// Takes the requests in flight away.
    pub fn take_in_flight(&mut self) -> impl Iterator<Item = InFlight> + use<> {
        self.streams.take()
    }

    /// Since when its handshake is under way, if nothing may be asked before it is complete.
    pub fn opens_since(&self) -> Option<Ns> {
        if let Stage::Opening(begun) = self.stage { Some(begun) } else { None }
    }

    /// Starts the connection's clock: moments count from here on.
    pub fn start(&mut self) {
        if let Stage::Opening(begun) | Stage::Early(begun) = &mut self.stage {
            *begun = 0;
        }
    }

    /// When it is to have a turn, whatever comes.
    pub fn alarm(&mut self) -> Option<Instant> {
        [self.client.next_timeout(), self.moves_at].into_iter().flatten().min()
    }

    /// Whether it is to get another socket: true once.
    pub fn must_move(&mut self, now: Instant, every: Option<Duration>) -> bool {
        let is_due = self.moves_at.is_some_and(|at| at <= now);
        if is_due {
            self.moves_at = every.map(|every| now + every);
        }
        // RFC 9000 §9: not before the handshake is confirmed.
        is_due && self.client.is_established()
    }

    /// Packets come from another socket from now on.
    pub fn moved(&mut self) {
        self.client.moved();
    }

    /// Takes what has come and does what is due.
    pub fn hear(
        &mut self,
        socket: &OwnedFd,
        now: Ns,
        made: &mut Made,
        ctx: &mut Context<'_>,
    ) -> Result<Heard, End> {
        if matches!(self.stage, Stage::Opening(_) | Stage::Early(_))
            && let Ok(Err(Errno::CONNREFUSED)) = sockopt::socket_error(socket)
        {
            return Err(End::Lost(ErrorKind::Refused));
        }
        let at = ctx.instant(now);
        let mut receiver = std::mem::take(&mut ctx.receiver);
        let received = self.receive(socket, at, &mut receiver, ctx);
        ctx.receiver = receiver;
        let has_more = received.map_err(|_| End::Lost(ErrorKind::Read))?;
        self.client.handle_timeout(at);
        self.is_full = false;
        let mut heard = Heard { has_more, ..Heard::default() };
        loop {
            let happened = self.poll(now, made, &mut heard.answered, ctx)?;
            match happened {
                None => break,
                Some(Happened::Established { early }) => {
                    self.established(early, now, made, &mut heard, ctx);
                }
                Some(Happened::GoneAway(first)) => {
                    self.stage = Stage::Leaving;
                    self.streams.turn_away_from(first);
                }
                Some(Happened::Closed(why)) => return Err(self.closed(why, ctx)),
            }
        }
        if self.stage == Stage::Leaving && self.streams.is_empty() {
            return Err(End::Closed { by_peer: true });
        }
        Ok(heard)
    }

    /// Gives QUIC what is in the socket; true if there may be more.
    fn receive(
        &mut self,
        socket: &OwnedFd,
        at: Instant,
        receiver: &mut Receiver,
        ctx: &mut Context<'_>,
    ) -> io::Result<bool> {
        for _ in 0..READS_PER_TURN_MAX {
            let looked = receiver.receive(socket.as_fd(), |one| {
                ctx.stats.bytes += one.bytes.len() as u64;
                ctx.bytes += one.bytes.len() as u64;
                self.client.receive(at, Ecn::from_bits(one.ecn), one.bytes);
            })?;
            if !looked.has_more {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes answers, up to what happens to the connection as a whole.
    fn poll(
        &mut self,
        now: Ns,
        made: &mut Made,
        answered: &mut bool,
        ctx: &mut Context<'_>,
    ) -> Result<Option<Happened>, End> {
        let Self { client, streams, head, user, .. } = self;
        let mut half_sent = Vec::new();
        let mut each = |head: &mut Head, stream: u64, answer: Answer<'_>| {
            let mut length = None;
            let is_over = match answer {
                Answer::Head { end, bytes } => {
                    length = streams.head(stream, head, (*user, bytes), now, ctx);
                    end
                }
                Answer::Data { data, end } => {
                    if let Some(request) = streams.find(stream) {
                        request.bytes += data.len() as u64;
                    }
                    end
                }
                Answer::Trailers => true,
                Answer::Interim | Answer::Sent => false,
                Answer::Broken(broken) => {
                    streams.failed(stream, kind_of(broken), now, made, ctx);
                    *answered = true;
                    false
                }
            };
            if is_over && streams.answered(stream, now, made, ctx) {
                *answered = true;
                half_sent.push(stream);
            }
            length.filter(|_| !is_over)
        };
        let happened = client.poll(head, &mut each);
        // Answered before it was asked as a whole (RFC 9114 §4.1).
        for stream in half_sent {
            if client.is_sending(stream) {
                client.give_up(stream);
            }
        }
        happened.map_err(|error| ctx.quic_failed(ErrorKind::Protocol, &error.to_string()))
    }

    fn established(
        &mut self,
        early: Option<bool>,
        now: Ns,
        made: &mut Made,
        heard: &mut Heard,
        ctx: &mut Context<'_>,
    ) {
        if let Stage::Opening(begun) | Stage::Early(begun) = self.stage {
            made.tls_ns = now - begun;
            ctx.stats.handshake.record(now - begun);
            heard.opened |= matches!(self.stage, Stage::Opening(_));
            self.stage = Stage::Open;
        }
        match early {
            Some(true) => ctx.stats.quic.early += 1,
            Some(false) => ctx.stats.quic.early_refused += 1,
            None => {}
        }
    }

    /// Why the connection is over, as errors are counted.
    fn closed(&self, why: Closed, ctx: &mut Context<'_>) -> End {
        /// RFC 9001 §4.8 with the alert no_application_protocol (RFC 7301 §3.2).
        const NO_ALPN: u64 = 0x178;
        /// The codes of TLS's alerts.
        const ALERTS: std::ops::RangeInclusive<u64> = 0x100..=0x1ff;
        let text = why.to_string().replace("client", "server");
        match why {
            Closed::ByTransport(NO_ALPN, _) => {
                ctx.tls_failed("the server speaks QUIC, but not HTTP/3 for this name")
            }
            Closed::ByTransport(code, _) | Closed::Violation(code, _) if ALERTS.contains(&code) => {
                ctx.tls_failed(&text)
            }
            Closed::TimedOut if self.opens_since().is_some() => End::Lost(ErrorKind::ConnectTimeout),
            Closed::TimedOut => End::Lost(ErrorKind::Timeout),
            Closed::Reset => End::Lost(ErrorKind::Reset),
            Closed::ByApplication(..) if self.streams.is_empty() => End::Closed { by_peer: true },
            Closed::ByApplication(..) => ctx.quic_failed(ErrorKind::Closed, &text),
            Closed::ByTransport(..) | Closed::Violation(..) | Closed::Fault => {
                ctx.quic_failed(ErrorKind::Protocol, &text)
            }
        }
    }

    /// How many streams may be begun now, as far as the plan goes.
    fn room(&self, depth: usize) -> usize {
        match self.stage {
            Stage::Early(_) | Stage::Open if !self.is_full => depth.saturating_sub(self.streams.len()),
            _ => 0,
        }
    }

    /// Whether the server allowed no other stream when one was wanted.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// In an open loop: whether it can take a request now.
    pub fn is_free(&self, depth: usize) -> bool {
        self.room(depth) > 0
    }

    /// In a closed loop: begins as many streams as there is room for.
    pub fn fill(&mut self, site: usize, now: Ns, budget: &mut Budget, ctx: &mut Context<'_>) {
        for _ in 0..self.room(ctx.depth()) {
            if budget.take(1, ctx) == 0 {
                break;
            }
            if !self.send(site, Due::now(now), now, ctx) {
                budget.give_back(1, ctx);
                break;
            }
        }
    }

    /// Sends one request; false: the server allows no other stream at present.
    pub fn send(&mut self, site: usize, due: Due, now: Ns, ctx: &mut Context<'_>) -> bool {
        let target = ctx.next_target(site);
        let Target { section, body, .. } = ctx.targets[target];
        let stream = match ctx.cookies(self.user, target) {
            None => self.client.ask(section, body),
            Some(cookies) => {
                let mut section = section.to_vec();
                write_literal(b"cookie", cookies.as_bytes(), &mut section);
                self.client.ask(&section, body)
            }
        };
        match stream {
            Some(stream) => self.streams.push(stream, InFlight::new(target, due, now)),
            None => self.is_full = true,
        }
        stream.is_some()
    }

    /// Sends what is to be sent, as far as the socket takes it, and counts what has gone over the connection.
    pub fn flush(&mut self, socket: &OwnedFd, now: Instant, ctx: &mut Context<'_>) {
        let Self { client, outbox, remote, .. } = self;
        loop {
            while let Some(fresh) = client.poll_transmit(now) {
                let ecn = fresh.ecn.map_or(0, |ecn| ecn as u8);
                let (segment, bytes) = (fresh.segment, fresh.bytes);
                outbox.push(Message { to: *remote, from: None, ecn, segment, bytes });
            }
            if outbox.is_empty() {
                break;
            }
            outbox.flush(socket.as_fd(), |bytes| client.recycle(bytes));
            if !outbox.is_empty() {
                // The socket is full: it tells when it is not.
                break;
            }
        }
        let traffic = client.quic().traffic();
        let quic = &mut ctx.stats.quic;
        quic.sent += traffic.sent - self.counted.sent;
        quic.lost += traffic.lost.saturating_sub(self.counted.lost);
        quic.received += traffic.received - self.counted.received;
        self.counted = traffic;
    }

    /// Ends the connection, and tells the server.
    pub fn close(&mut self, socket: &OwnedFd) {
        let now = Instant::now();
        self.client.close(now);
        while let Some(fresh) = self.client.poll_transmit(now) {
            let bytes = fresh.bytes;
            self.outbox.push(Message { to: self.remote, from: None, ecn: 0, segment: fresh.segment, bytes });
        }
        self.outbox.flush(socket.as_fd(), drop);
    }
}

fn kind_of(broken: Broken) -> ErrorKind {
    match broken {
        Broken::Length => ErrorKind::Truncated,
        Broken::Reset(_) | Broken::Refused => ErrorKind::Stream,
        Broken::TooLarge(_) | Broken::Malformed(_) => ErrorKind::Protocol,
    }
}
