//! HTTP/1.1 on one connection: requests out, one behind the other if the plan says so, and responses in.

use std::collections::VecDeque;

use memchr::memmem;

use super::context::{Context, Due, InFlight, Made, Ns};
use super::wire::{End, Wire};
use crate::response::{ResponseError, ResponseReader};
use crate::stats::ErrorKind;

/// A request up to this size is sent at once; of a larger one, so much at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// Requests that may be sent on a connection, over all reconnects, and what the plan says of this one.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Over all reconnects.
    pub allowance: u64,
    /// On this connection.
    pub here: u64,
}

impl Budget {
    /// Takes at most `count`, as the thread's own budget allows.
    #[inline]
    pub fn take(&mut self, count: usize, ctx: &mut Context<'_>) -> u64 {
        let count = (count as u64).min(self.allowance).min(self.here).min(ctx.allowance);
        self.allowance -= count;
        self.here -= count;
        ctx.allowance -= count;
        count
    }

    /// Takes them back that were not sent.
    pub fn give_back(&mut self, count: u64, ctx: &mut Context<'_>) {
        for left in [&mut self.allowance, &mut self.here, &mut ctx.allowance] {
            *left = left.saturating_add(count);
        }
    }
}

/// See the module's head.
#[derive(Debug, Default)]
pub struct H1 {
    reader: ResponseReader,
    /// What waits for a response, in the order in which it was sent.
    pub in_flight: VecDeque<InFlight>,
    /// A large request that is not sent yet: its target, and how far it is.
    upload: Option<(usize, usize)>,
    /// Whose cookies are sent.
    user: u32,
    /// Whether those of the present response have been taken.
    has_cookies: bool,
    /// A response has come on it.
    has_answered: bool,
}

fn end_of(error: ResponseError) -> End {
    End::Lost(match error {
        ResponseError::Truncated => ErrorKind::Truncated,
        _ => ErrorKind::Protocol,
    })
}

impl H1 {
    /// A connection of this user.
    pub fn new(user: u32) -> Self {
        Self { user, ..Self::default() }
    }

    /// Takes bytes; true if a response was completed.
    #[inline]
    pub fn receive(
        &mut self,
        mut input: &[u8],
        now: Ns,
        made: &mut Made,
        budget: &Budget,
        ctx: &mut Context<'_>,
    ) -> Result<bool, End> {
        let mut answered = false;
        while !input.is_empty() {
            let Some(waiting) = self.in_flight.front_mut() else {
                // Bytes that nobody asked for. What was asked for has been counted: they cost nothing but the connection.
                let quietly = End::Closed { by_peer: true };
                return Err(if self.has_answered { quietly } else { End::Lost(ErrorKind::Protocol) });
            };
            if waiting.first_byte == 0 {
                waiting.first_byte = now;
            }
            let target = waiting.target as usize;
            let before = input.len();
            let head = self.reader.read(&mut input, ctx.targets[target].is_head, &mut ctx.caches[target]);
            let head = head.map_err(end_of)?;
            waiting.bytes += (before - input.len()) as u64;
            if ctx.has_jars() {
                self.take_cookies(target, head.is_some(), ctx);
            }
            let Some(head) = head else { break };
            if !input.is_empty() && self.in_flight.len() == 1 && !head.close {
                // More than was announced: this is no response, and the next would begin with its rest.
                return Err(End::Lost(ErrorKind::Protocol));
            }
            let Some(mut request) = self.in_flight.pop_front() else { break };
            request.head_bytes = head.bytes;
            ctx.answered(&request, head.status, now, made);
            answered = true;
            self.has_answered = true;
            if head.close {
                return Err(End::Closed { by_peer: true });
            }
            // Answered before it was asked as a whole: what is left of the request cannot be taken back.
            let is_cut_short = self.in_flight.is_empty() && self.upload.is_some();
            if is_cut_short || (budget.here == 0 && self.in_flight.is_empty()) {
                return Err(End::Closed { by_peer: false });
            }
        }
        Ok(answered)
    }

    /// Takes the cookies of a head that has just been read: the target's last, until another connection reads one.
    #[cold]
    fn take_cookies(&mut self, target: usize, is_whole: bool, ctx: &mut Context<'_>) {
        if !self.has_cookies && (is_whole || self.reader.is_in_body()) {
            self.has_cookies = true;
            let head = String::from_utf8_lossy(ctx.caches[target].text()).into_owned();
            for line in head.lines() {
                if let Some((name, value)) = line.split_once(':')
                    && name.eq_ignore_ascii_case("set-cookie")
                {
                    ctx.set_cookie(self.user, target as u32, value.trim());
                }
            }
        }
        self.has_cookies &= !is_whole;
    }

    /// Appends a target's request with the user's cookies; of one that is too large to be sent at once, its head: gives
    /// where the rest begins.
    #[cold]
    fn write_with_cookies(&self, target: usize, out: &mut Vec<u8>, ctx: &Context<'_>) -> usize {
        let request = &ctx.targets[target].request;
        // In front of the empty line.
        let end = memmem::find(request, b"\r\n\r\n").map_or(request.len(), |at| at + 2);
        out.extend_from_slice(&request[..end]);
        if let Some(cookies) = ctx.cookies(self.user, target) {
            out.extend([b"Cookie: ", cookies.as_bytes(), b"\r\n"].concat());
        }
        let rest = if request.len() > PIECE_BYTES { (end + 2).min(request.len()) } else { request.len() };
        out.extend_from_slice(&request[end..rest]);
        rest
    }

    /// The peer has closed: that may end a response, follow one, or break one off.
    pub fn closed(&mut self, made: &mut Made, ctx: &mut Context<'_>) -> End {
        match std::mem::take(&mut self.reader).end() {
            Ok(Some(head)) => {
                if let Some(mut waiting) = self.in_flight.pop_front() {
                    waiting.head_bytes = head.bytes;
                    ctx.answered(&waiting, head.status, ctx.now(), made);
                }
                End::Closed { by_peer: true }
            }
            Ok(None) if self.in_flight.is_empty() => End::Closed { by_peer: true },
            Ok(None) => End::Lost(ErrorKind::Closed),
            Err(error) => end_of(error),
        }
    }

    /// In a closed loop: sends as many requests as there is room for.
    #[inline]
    pub fn fill(
        &mut self,
        wire: &mut Wire,
        site: usize,
        now: Ns,
        budget: &mut Budget,
        ctx: &mut Context<'_>,
    ) -> Result<(), End> {
        if self.upload.is_some() {
            return self.push(wire, ctx);
        }
        let count = budget.take(ctx.depth() - self.in_flight.len(), ctx);
        match count {
            0 => Ok(()),
            1 => {
                let owed = if ctx.owed.is_empty() { None } else { ctx.owed.remove(&self.user) };
                self.send(wire, site, owed.unwrap_or(Due::now(now)), now, ctx)
            }
            _ => self.send_many(wire, site, count, now, ctx),
        }
    }

    /// Sends one request.
    #[inline]
    pub fn send(
        &mut self,
        wire: &mut Wire,
        site: usize,
        due: Due,
        now: Ns,
        ctx: &mut Context<'_>,
    ) -> Result<(), End> {
        let target = due.again.map_or_else(|| ctx.next_target(site), |target| target as usize);
        self.in_flight.push_back(InFlight::new(target, due, now));
        if ctx.has_jars() {
            let mut batch = std::mem::take(&mut ctx.batch);
            batch.clear();
            let at = self.write_with_cookies(target, &mut batch, ctx);
            let sent = wire.send(&batch, &mut ctx.sealed);
            ctx.batch = batch;
            self.upload = (at < ctx.targets[target].request.len()).then_some((target, at));
            return sent.and_then(|()| self.push(wire, ctx));
        }
        let request = &ctx.targets[target].request;
        if request.len() > PIECE_BYTES {
            self.upload = Some((target, 0));
            return self.push(wire, ctx);
        }
        wire.send(request, &mut ctx.sealed)
    }

    fn send_many(
        &mut self,
        wire: &mut Wire,
        site: usize,
        count: u64,
        now: Ns,
        ctx: &mut Context<'_>,
    ) -> Result<(), End> {
        let mut batch = std::mem::take(&mut ctx.batch);
        batch.clear();
        for _ in 0..count {
            let target = ctx.next_target(site);
            self.in_flight.push_back(InFlight::new(target, Due::now(now), now));
            let at = if ctx.has_jars() { self.write_with_cookies(target, &mut batch, ctx) } else { 0 };
            batch.extend_from_slice(&ctx.targets[target].request[at..]);
        }
        let sent = wire.send(&batch, &mut ctx.sealed);
        ctx.batch = batch;
        sent
    }

    /// Goes on with a large request, as far as the socket takes it.
    pub fn push(&mut self, wire: &mut Wire, ctx: &mut Context<'_>) -> Result<(), End> {
        while let Some((target, at)) = self.upload
            && !wire.is_full()
        {
            let request = &ctx.targets[target].request;
            let end = request.len().min(at + PIECE_BYTES);
            wire.send(&request[at..end], &mut ctx.sealed)?;
            self.upload = (end < request.len()).then_some((target, end));
        }
        Ok(())
    }
}
