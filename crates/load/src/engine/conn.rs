//! One open connection: TLS's handshake, then HTTP/1.1 or HTTP/2; or HTTP/3.

mod quic;

use crate::limits::READS_PER_TURN_MAX;
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::context::{Context, Due, InFlight, Made, Ns};
use super::h1::{Budget, H1};
use super::h2::H2;
use super::h3::H3;
use super::secure::{Failed, Secure};
use super::wire::{End, Read, Wire};
use crate::plan::{Think, Version};
use crate::proxy::{Answer, Tunnel};
use crate::stats::ErrorKind;

/// What is spoken.
#[derive(Debug)]
enum Talk {
    /// A proxy's answer, or TLS's handshake, since then.
    Handshake(Ns),
    H1(Box<H1>),
    H2(Box<H2>),
    /// With its own handshake.
    H3(Box<H3>),
}

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It counts among the thread's opening connections: its handshake is under way.
    Opening,
    /// Its user is there and waits for the clock to start.
    Waiting,
    /// Requests may be sent; none was answered yet.
    Made,
    /// A response has come on it.
    Answered,
}

/// An open connection.
#[derive(Debug)]
pub struct Open {
    wire: Wire,
    talk: Talk,
    /// Asked of a proxy and not answered yet: it precedes TLS and requests.
    tunnel: Option<Box<Tunnel>>,
    /// The site whose targets are asked for.
    site: usize,
    budget: Budget,
    made: Made,
    /// In a pause between two requests, until then.
    pause: Option<Ns>,
    stage: Stage,
}

/// What a turn came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Everything that was there is read; the next event says when to go on.
    Wait,
    /// There is more to read, but others have their turn first.
    More,
    /// It is to be given another socket ([`Open::move_to`]), and then another turn.
    Move,
    /// The user thinks, until then.
    Pause(Ns),
    /// Nothing in flight and nothing left to send.
    Settled,
    /// In an open loop, ready for the next request that is due.
    Free,
    /// The connection is over.
    Over {
        /// No response came on it.
        early: bool,
        /// The user thinks until then, and needs no other connection before; `None`: the next is made at once.
        until: Option<Ns>,
    },
}

impl Open {
    /// A connection that has just been made.
    pub fn new(socket: OwnedFd, site: usize, allowance: u64, made: Made, ctx: &Context<'_>) -> Self {
        Self {
            wire: Wire::new(socket),
            talk: Talk::H1(Box::new(H1::new(made.user))),
            tunnel: None,
            site,
            budget: Budget { allowance, here: ctx.plan.per_connection.unwrap_or(u64::MAX) },
            made,
            pause: None,
            stage: Stage::Opening,
        }
    }

    /// Requests that may still be sent, for the connection that follows this one.
    pub fn allowance(&self) -> u64 {
        self.budget.allowance
    }

    /// It no longer counts as opening.
    pub fn opened(&mut self, ctx: &mut Context<'_>) {
        if self.stage == Stage::Opening {
            self.stage = Stage::Made;
            ctx.opening -= 1;
        }
    }

    /// Starts the connection's clock: moments count from here on, and an open connection sends its first requests.
    pub fn start(&mut self, ctx: &mut Context<'_>) -> Turn {
        match &mut self.talk {
            Talk::Handshake(begun) => *begun = 0,
            Talk::H3(h3) => h3.start(),
            Talk::H1(_) | Talk::H2(_) => {}
        }
        if self.stage != Stage::Waiting {
            return Turn::Wait;
        }
        self.stage = Stage::Made;
        ctx.ready -= 1;
        let sent = self.fill(ctx.now(), ctx);
        self.conclude(sent, ctx)
    }

    /// Whether something was begun before `limit` and is not done.
    pub fn overdue(&self, limit: Ns) -> bool {
        match &self.talk {
            Talk::Handshake(begun) => *begun < limit,
            Talk::H1(h1) => h1.in_flight.front().is_some_and(|oldest| oldest.sent < limit),
            Talk::H2(h2) => h2.streams().oldest().is_some_and(|oldest| oldest.sent < limit),
            Talk::H3(h3) => {
                let oldest = h3.streams().oldest().map(|oldest| oldest.sent);
                h3.opens_since().or(oldest).is_some_and(|since| since < limit)
            }
        }
    }

    /// The requests in flight are lost.
    pub fn give_up(&mut self, kind: ErrorKind, ctx: &mut Context<'_>) -> Turn {
        self.finish(End::Lost(kind), ctx)
    }

    /// Sends the first requests, or begins a handshake.
    pub fn begin(&mut self, ctx: &mut Context<'_>) -> Turn {
        if ctx.is_open_loop {
            // It may be long until it is needed.
            self.opened(ctx);
        }
        let now = ctx.now();
        let plan = ctx.plan;
        let begun = match &plan.sites[self.site].tunnel {
            Some(connect) => {
                self.talk = Talk::Handshake(now);
                self.tunnel = Some(Box::new(Tunnel::default()));
                self.wire.put(connect)
            }
            None if ctx.version() == Version::H3 => self.begin_h3(now, ctx),
            None => self.greet(now, ctx),
        };
        self.conclude(begun, ctx)
    }

    /// The server is reached: begins TLS's handshake, or sends the first requests.
    fn greet(&mut self, now: Ns, ctx: &mut Context<'_>) -> Result<(), End> {
        let Some(tls) = &ctx.plan.tls else { return self.speak(now, ctx) };
        self.talk = Talk::Handshake(now);
        let begun = Secure::begin(tls).map_err(|Failed(why)| ctx.tls_failed(&why));
        let (secure, hello) = begun?;
        self.wire.start_tls(secure, &hello)
    }

    /// What a proxy answers.
    fn take_tunnel(&mut self, input: &[u8], now: Ns, ctx: &mut Context<'_>) -> Result<(), End> {
        let Some(tunnel) = &mut self.tunnel else { return Err(End::Lost(ErrorKind::Protocol)) };
        match tunnel.receive(input) {
            Answer::More => Ok(()),
            Answer::Refused(why) => Err(ctx.proxy_failed(&why)),
            Answer::Open(rest) => {
                self.tunnel = None;
                self.greet(now, ctx)?;
                match rest.is_empty() {
                    true => Ok(()),
                    // TLS's client speaks first.
                    false if self.wire.secure().is_some() => Err(End::Lost(ErrorKind::Protocol)),
                    false => self.take(&rest, now, ctx),
                }
            }
        }
    }

    /// The connection is made, its handshake included: requests may be sent from here on, or from when the clock starts.
    fn speak(&mut self, now: Ns, ctx: &mut Context<'_>) -> Result<(), End> {
        self.may_ask(ctx);
        if ctx.version() != Version::H2 {
            self.talk = Talk::H1(Box::new(H1::new(self.made.user)));
            return self.fill(now, ctx);
        }
        let mut out = std::mem::take(&mut ctx.batch);
        out.clear();
        self.talk = Talk::H2(H2::new(self.made.user, ctx.has_jars(), &mut out));
        let filled = self.fill_h2(now, &mut out, ctx);
        ctx.batch = out;
        filled
    }

    /// Its user is there.
    fn may_ask(&mut self, ctx: &mut Context<'_>) {
        self.opened(ctx);
        if ctx.is_gathering {
            self.stage = Stage::Waiting;
            ctx.ready += 1;
        }
    }

    /// In an open loop: sends what waits, on a connection that is free.
    pub fn serve(&mut self, now: Ns, ctx: &mut Context<'_>) -> Turn {
        let sent = self.fill(now, ctx);
        self.conclude(sent, ctx)
    }

    /// The pause that ends at `due` is over.
    pub fn resume(&mut self, due: Ns, now: Ns, ctx: &mut Context<'_>) -> Turn {
        if self.pause != Some(due) {
            return Turn::Wait;
        }
        self.pause = None;
        let sent = self.fill(now, ctx);
        self.conclude(sent, ctx)
    }

    /// In an open loop: whether it can take a request now.
    pub fn is_free(&self, ctx: &Context<'_>) -> bool {
        match &self.talk {
            Talk::Handshake(_) => false,
            Talk::H1(h1) => h1.in_flight.is_empty(),
            Talk::H2(h2) => h2.is_free(ctx.depth()),
            Talk::H3(h3) => h3.is_free(ctx.depth()),
        }
    }

    /// Whether TLS's handshake is under way.
    pub fn is_shaking_hands(&self) -> bool {
        match &self.talk {
            Talk::Handshake(_) => true,
            Talk::H1(_) | Talk::H2(_) => false,
            Talk::H3(h3) => h3.opens_since().is_some(),
        }
    }

    /// Requests that still wait for a response.
    pub fn in_flight(&self) -> u64 {
        match &self.talk {
            Talk::Handshake(_) => 0,
            Talk::H1(h1) => h1.in_flight.len() as u64,
            Talk::H2(h2) => h2.streams().len() as u64,
            Talk::H3(h3) => h3.streams().len() as u64,
        }
    }

    /// What still waits for something in a closed loop, a handshake among it: how many, and how long since, together.
    pub fn under_way(&self, now: Ns) -> (u64, Ns) {
        match &self.talk {
            Talk::Handshake(begun) => (1, now - begun),
            Talk::H1(h1) => sum_of(h1.in_flight.iter(), now),
            Talk::H2(h2) => sum_of(h2.streams().waiting(), now),
            Talk::H3(h3) => match h3.opens_since() {
                Some(begun) => (1, now - begun),
                None => sum_of(h3.streams().waiting(), now),
            },
        }
    }

    /// Takes a turn after an event; `hung_up` says that the peer's end is in sight.
    pub fn ready(&mut self, writable: bool, hung_up: bool, ctx: &mut Context<'_>) -> Turn {
        if let Talk::H3(_) = self.talk {
            return self.ready_h3(ctx);
        }
        if writable && let Err(end) = self.writable(ctx) {
            return self.finish(end, ctx);
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

    fn writable(&mut self, ctx: &mut Context<'_>) -> Result<(), End> {
        if self.wire.is_full() {
            self.wire.writable()?;
        }
        match &mut self.talk {
            Talk::Handshake(_) => Ok(()),
            Talk::H1(h1) => h1.push(&mut self.wire, ctx),
            Talk::H2(h2) if h2.has_uploads() => {
                let mut out = std::mem::take(&mut ctx.batch);
                out.clear();
                let sent = push_all(h2, &mut self.wire, &mut out, ctx);
                ctx.batch = out;
                sent
            }
            Talk::H2(_) | Talk::H3(_) => Ok(()),
        }
    }

    /// One read, the responses in it, and the requests that follow them. `None`: nothing there.
    #[inline]
    fn read_once(&mut self, ctx: &mut Context<'_>) -> Result<Option<usize>, End> {
        let count = match self.wire.read(&mut ctx.buffer)? {
            Read::Some(count) => count,
            Read::None => return Ok(None),
            Read::Closed => return Err(self.peer_closed(ctx)),
        };
        let now = ctx.now();
        ctx.stats.bytes += count as u64;
        ctx.bytes += count as u64;
        // Taken out, so that what is read can be worked on with the rest of the context.
        let mut buffer = std::mem::take(&mut ctx.buffer);
        let result = if self.wire.secure().is_some() {
            self.open_records(&mut buffer[..count], now, ctx)
        } else {
            self.take(&buffer[..count], now, ctx)
        };
        ctx.buffer = buffer;
        result.map(|()| Some(count))
    }

    /// Opens the records just read, answers what the protocol wants, and speaks once the handshake is done.
    fn open_records(&mut self, bytes: &mut [u8], now: Ns, ctx: &mut Context<'_>) -> Result<(), End> {
        let Some(secure) = self.wire.secure() else { return Ok(()) };
        let mut out = std::mem::take(&mut ctx.sealed);
        let mut plain = std::mem::take(&mut ctx.plain);
        out.clear();
        plain.clear();
        let opened = secure.receive(bytes, &mut plain, &mut out);
        let is_established = secure.is_established();
        let (resumed, is_h2) = (secure.is_resumed(), secure.speaks_h2());
        let sent = if out.is_empty() { Ok(()) } else { self.wire.put(&out) };
        ctx.sealed = out;
        let result = opened.map_err(|Failed(why)| ctx.tls_failed(&why)).and(sent);
        let result = result.and_then(|()| match self.talk {
            Talk::Handshake(_) if !is_established => Ok(()),
            // The server does not offer what the plan is about.
            Talk::Handshake(_) if ctx.version() == Version::H2 && !is_h2 => {
                Err(ctx.tls_failed("the server does not offer HTTP/2"))
            }
            Talk::Handshake(begun) => {
                self.made.tls_ns = now - begun;
                ctx.stats.handshake.record(now - begun);
                ctx.stats.resumed += u64::from(resumed);
                self.speak(now, ctx)
            }
            _ => Ok(()),
        });
        let result =
            result.and_then(|()| if plain.is_empty() { Ok(()) } else { self.take(&plain, now, ctx) });
        ctx.plain = plain;
        result
    }

    /// The responses in what was read, and the requests that follow them.
    #[inline]
    fn take(&mut self, input: &[u8], now: Ns, ctx: &mut Context<'_>) -> Result<(), End> {
        match &mut self.talk {
            Talk::Handshake(_) => self.take_tunnel(input, now, ctx),
            Talk::H1(h1) => {
                let before = ctx.responses;
                let received = h1.receive(input, now, &mut self.made, &self.budget, ctx);
                self.was_answered(before, ctx);
                if received? { self.next(now, ctx) } else { Ok(()) }
            }
            Talk::H2(_) => {
                let mut out = std::mem::take(&mut ctx.batch);
                out.clear();
                let result = self.take_h2(input, now, &mut out, ctx);
                ctx.batch = out;
                result
            }
            // It reads by itself.
            Talk::H3(_) => Ok(()),
        }
    }

    fn take_h2(
        &mut self,
        input: &[u8],
        now: Ns,
        out: &mut Vec<u8>,
        ctx: &mut Context<'_>,
    ) -> Result<(), End> {
        let Talk::H2(h2) = &mut self.talk else { return Ok(()) };
        let before = ctx.responses;
        let received = h2.receive(input, now, &mut self.made, out, ctx);
        self.was_answered(before, ctx);
        let Talk::H2(h2) = &mut self.talk else { return Ok(()) };
        let Ok(answered) = received else {
            // The last words; whether they arrive is of no importance.
            let _ = self.wire.send(out, &mut ctx.sealed);
            return received.map(drop);
        };
        // Settings may come before the clock starts.
        if !answered || self.stage == Stage::Waiting {
            return push_all(h2, &mut self.wire, out, ctx);
        }
        let is_used_up = self.budget.here == 0 && h2.streams().is_empty();
        self.stage = Stage::Answered;
        if is_used_up {
            return Err(End::Closed { by_peer: false });
        }
        if ctx.plan.think.is_some() {
            self.next(now, ctx)?;
        }
        self.fill_h2(now, out, ctx)
    }

    /// Notes that a response has come since there were so many, also one that has ended the connection.
    #[inline]
    fn was_answered(&mut self, before: u64, ctx: &Context<'_>) {
        if ctx.responses > before {
            self.stage = Stage::Answered;
        }
    }

    /// After a response: the next request, or a pause before it.
    #[inline]
    fn next(&mut self, now: Ns, ctx: &mut Context<'_>) -> Result<(), End> {
        if let Some(think) = ctx.plan.think {
            if self.pause.is_none() {
                self.pause = Some(end_of_pause(think, now, ctx));
            }
            return Ok(());
        }
        self.fill(now, ctx)
    }

    /// Sends as many requests as depth and budgets leave room for.
    #[inline]
    fn fill(&mut self, now: Ns, ctx: &mut Context<'_>) -> Result<(), End> {
        match &mut self.talk {
            Talk::Handshake(_) => Ok(()),
            Talk::H1(_) if self.stage == Stage::Waiting => Ok(()),
            Talk::H1(h1) if !ctx.is_open_loop => {
                h1.fill(&mut self.wire, self.site, now, &mut self.budget, ctx)
            }
            Talk::H1(h1) => {
                if !h1.in_flight.is_empty() {
                    return Ok(());
                }
                let Some(due) = ctx.waiting.pop_front() else { return Ok(()) };
                self.budget.here = self.budget.here.saturating_sub(1);
                h1.send(&mut self.wire, self.site, due, now, ctx)
            }
            Talk::H2(_) => {
                let mut out = std::mem::take(&mut ctx.batch);
                out.clear();
                let result = self.fill_h2(now, &mut out, ctx);
                ctx.batch = out;
                result
            }
            Talk::H3(_) => {
                self.fill_h3(now, ctx);
                Ok(())
            }
        }
    }

    /// The same for HTTP/2, behind what is in `out` already.
    fn fill_h2(&mut self, now: Ns, out: &mut Vec<u8>, ctx: &mut Context<'_>) -> Result<(), End> {
        let Talk::H2(h2) = &mut self.talk else { return Ok(()) };
        if ctx.is_open_loop {
            while self.budget.here > 0 && h2.is_free(ctx.depth()) {
                let Some(due) = ctx.waiting.pop_front() else { break };
                self.budget.here -= 1;
                h2.send(self.site, due, now, out, ctx);
            }
        } else if self.pause.is_none() && self.stage != Stage::Waiting {
            h2.fill(self.site, now, &mut self.budget, out, ctx);
        }
        push_all(h2, &mut self.wire, out, ctx)
    }

    /// The peer has closed.
    fn peer_closed(&mut self, ctx: &mut Context<'_>) -> End {
        let before = ctx.responses;
        let end = match &mut self.talk {
            Talk::Handshake(_) if self.tunnel.is_some() => {
                ctx.proxy_failed("the proxy closed the connection without an answer")
            }
            Talk::Handshake(_) => ctx.tls_failed("the server closed the connection in the handshake"),
            Talk::H1(h1) => h1.closed(&mut self.made, ctx),
            Talk::H2(h2) if h2.streams().is_empty() => End::Closed { by_peer: true },
            Talk::H2(_) | Talk::H3(_) => End::Lost(ErrorKind::Closed),
        };
        self.was_answered(before, ctx);
        end
    }

    fn conclude(&mut self, result: Result<(), End>, ctx: &mut Context<'_>) -> Turn {
        if let Err(end) = result {
            return self.finish(end, ctx);
        }
        if let Some(until) = self.pause {
            return Turn::Pause(until);
        }
        let is_idle = match &self.talk {
            Talk::Handshake(_) => return Turn::Wait,
            Talk::H1(h1) => h1.in_flight.is_empty(),
            Talk::H2(h2) => h2.streams().is_empty(),
            Talk::H3(h3) if h3.opens_since().is_some() => return Turn::Wait,
            // The server may have answered everything, and allow another stream a moment later.
            Talk::H3(h3) => h3.streams().is_empty() && !h3.is_full(),
        };
        if ctx.is_open_loop {
            return if self.is_free(ctx) { Turn::Free } else { Turn::Wait };
        }
        if is_idle && self.stage != Stage::Waiting { Turn::Settled } else { Turn::Wait }
    }

    /// A server may close a kept connection at any time, and a request may be on its way then: it is asked once again on another one
    /// (RFC 9112 §9.3.1), as browsers do. It must not have begun to answer, and its methods must allow that.
    fn may_ask_again(&self, kind: ErrorKind, lost: &[InFlight], ctx: &Context<'_>) -> bool {
        let [request] = lost else { return false };
        self.stage == Stage::Answered
            && matches!(self.talk, Talk::H1(_))
            && matches!(kind, ErrorKind::Closed | ErrorKind::Reset | ErrorKind::Write)
            && request.first_byte == 0
            && !request.is_again
            && ctx.is_repeatable(request.target)
            && (ctx.is_open_loop || ctx.ended_at.is_none())
    }

    /// Counts the end. Requests that were pipelined behind a closing response get another chance.
    fn finish(&mut self, end: End, ctx: &mut Context<'_>) -> Turn {
        let now = ctx.now();
        let handshake = match &self.talk {
            Talk::Handshake(begun) => Some(*begun),
            Talk::H1(_) | Talk::H2(_) => None,
            Talk::H3(h3) => h3.opens_since(),
        };
        let lost: Vec<_> = match &mut self.talk {
            Talk::Handshake(_) => Vec::new(),
            Talk::H1(h1) => std::mem::take(&mut h1.in_flight).into(),
            Talk::H2(h2) => h2.take_in_flight().collect(),
            Talk::H3(h3) => h3.take_in_flight().collect(),
        };
        let asks_at_once = match end {
            // A server that goes has not looked at these. Behind an answer that closes the connection, the user pauses as behind others.
            End::Closed { .. } => !lost.is_empty() && !matches!(self.talk, Talk::H1(_)),
            End::Lost(kind) => self.may_ask_again(kind, &lost, ctx),
        };
        let until = self.pause_without_connection(now, !lost.is_empty(), asks_at_once, ctx);
        ctx.ready -= usize::from(self.stage == Stage::Waiting);
        // A connection that was answered once and closed was not refused: the next is opened at once.
        let early = self.stage != Stage::Answered && matches!(end, End::Lost(_));
        match end {
            End::Closed { by_peer } => {
                ctx.stats.closes += u64::from(by_peer);
                if ctx.is_open_loop {
                    // They were due and are not forgotten: they wait for another connection.
                    let due = |request: &InFlight| Due { at: request.due, late: request.late, again: None };
                    lost.iter().rev().for_each(|request| ctx.waiting.push_front(due(request)));
                } else if ctx.ended_at.is_none() {
                    self.budget.allowance = self.budget.allowance.saturating_add(lost.len() as u64);
                    ctx.allowance = ctx.allowance.saturating_add(lost.len() as u64);
                }
            }
            End::Lost(_) if asks_at_once => {
                ctx.stats.closes += 1;
                ctx.stats.asked_again += lost.len() as u64;
                for request in &lost {
                    let due = Due { at: request.due, late: request.late, again: Some(request.target) };
                    if ctx.is_open_loop {
                        ctx.waiting.push_front(due);
                    } else {
                        self.budget.allowance = self.budget.allowance.saturating_add(1);
                        ctx.allowance = ctx.allowance.saturating_add(1);
                        ctx.owed.insert(self.made.user, due);
                    }
                }
            }
            End::Lost(kind) => {
                lost.iter().for_each(|request| ctx.failed(request, kind, now, &mut self.made));
                if lost.is_empty() {
                    ctx.failures(kind, 1);
                    // With a bounded number of requests, one that cannot be sent is one that failed.
                    // A server may also break HTTP/2 before the clock starts.
                    let unasked = (self.stage == Stage::Waiting).then_some(now);
                    if let Some(begun) = handshake.or(unasked) {
                        ctx.waited_in_vain(begun, now);
                        self.budget.take(1, ctx);
                        if ctx.is_open_loop {
                            ctx.waiting.pop_front();
                        }
                    }
                }
            }
        }
        self.opened(ctx);
        Turn::Over { early, until }
    }

    /// The connection ends: when the pause of its user does. It is the one that has begun, or begins now, with the answer or the failure
    /// that ended the connection. Nobody pauses before a request that is asked again at once.
    fn pause_without_connection(
        &mut self,
        now: Ns,
        has_lost: bool,
        asks_at_once: bool,
        ctx: &mut Context<'_>,
    ) -> Option<Ns> {
        let pause = self.pause.take();
        let has_asked = self.stage == Stage::Answered || has_lost;
        let think = ctx.plan.think.filter(|_| has_asked && !asks_at_once && ctx.ended_at.is_none())?;
        Some(pause.unwrap_or_else(|| end_of_pause(think, now, ctx)))
    }
}

/// When a pause that begins now is over. It takes some time at least: 0 would be no pause.
fn end_of_pause(think: Think, now: Ns, ctx: &mut Context<'_>) -> Ns {
    now + think.draw(&mut ctx.rng).max(Duration::from_nanos(1)).as_nanos() as Ns
}

fn sum_of<'r>(requests: impl Iterator<Item = &'r InFlight>, now: Ns) -> (u64, Ns) {
    requests.fold((0, 0), |(count, waited), request| (count + 1, waited + (now - request.due)))
}

/// Sends what is in `out`, and bodies as far as they may go.
fn push_all(h2: &mut H2, wire: &mut Wire, out: &mut Vec<u8>, ctx: &mut Context<'_>) -> Result<(), End> {
    loop {
        if h2.has_uploads() {
            h2.push(wire, out, ctx);
        }
        if out.is_empty() {
            return Ok(());
        }
        wire.send(out, &mut ctx.sealed)?;
        out.clear();
        if !h2.has_uploads() {
            return Ok(());
        }
    }
}
