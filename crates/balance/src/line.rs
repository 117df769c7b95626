//! The line of requests that wait for a place: for a worker of a pool of processes, or one of a server's `max_conns`.
//!
//! They are served in order. While more of them wait than usually do, those that have waited longer than the target are turned away, the oldest
//! first. Newest first would be no better: in a pool that always has a few more requests than workers some would wait until their time is over.
//!
//! When one was turned away for want of a place, or for having waited too long among many, the line is pressed: more come than can be served.
//! It then takes no more than can be served soon: who comes is refused at once, or served in time. That ends when nobody was turned away for a
//! second.
//!
//! Hosts that share a line take turns: the next request is of the host that was served longest ago, and where the line is full, a host with
//! more than its share of the places gives one up. One site's rush thereby delays the others by one request each.
//!
//! Connections belong to the server's threads. A place that becomes free [calls](Line::call) the first request of its own thread, unless
//! that of another one has waited far longer: which one it calls is the only thing that threads change about the order.
//!
//! Each step takes time with the logarithm of how many wait, not with how many wait.

mod crowds;
#[cfg(test)]
mod simple;
#[cfg(test)]
mod tests;
mod turns;

use crate::limits::{LINE_NEAR_MS, LINE_PRESSED_MS};
use crowds::Crowds;
use std::collections::{BTreeSet, HashMap};
use std::mem;
use std::time::Duration;
use turns::Turns;

/// How many requests may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// At any time (`queue`).
    pub most: usize,
    /// While the line is pressed: those that are served soon.
    pub soon: usize,
    /// While more than these wait, those that have waited for longer than the target are turned away.
    pub usual: usize,
}

impl Room {
    /// So many may wait, for as long as each of them likes.
    pub const fn of(most: usize) -> Room {
        Room { most, soon: most, usual: usize::MAX }
    }
}

/// What becomes of a request that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is its turn, if a place is free.
    First,
    /// It waits on.
    Waits,
    /// It is turned away.
    Shed,
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The virtual host, as a number that the caller likes.
    pub host: u32,
    /// The thread that has it, likewise.
    pub thread: u64,
}

/// How far a request in the line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Its turn will come.
    Waits,
    /// A place has become free for it.
    Called,
    /// It was turned away, and has not been told yet.
    Shed,
}

/// A request that waits. `W` is what wakes it.
#[derive(Debug)]
struct Waiter<W> {
    since_ms: u64,
    origin: Origin,
    waker: W,
    standing: Standing,
}

/// See the module's head. Times are milliseconds of one monotonic clock.
#[derive(Debug)]
pub struct Line<W> {
    target_ms: u64,
    /// By their tickets, which are given out in order.
    waiters: HashMap<u64, Waiter<W>>,
    /// Those that were not turned away, the oldest first.
    staying: BTreeSet<u64>,
    /// The same by their hosts.
    crowds: Crowds,
    /// Those of them that were not called.
    turns: Turns,
    /// How many were called that have not come yet.
    called: usize,
    next_ticket: u64,
    /// Requests that were turned away.
    shed: u64,
    /// Until then it is pressed.
    pressed_until_ms: u64,
    /// Since when somebody waits.
    waits_since_ms: Option<u64>,
    /// For how long somebody has waited before that.
    waited_ms: u64,
}

impl<W> Line<W> {
    /// A line in which nobody waits.
    pub fn new(target: Duration) -> Line<W> {
        Line {
            target_ms: target.as_millis().min(u128::from(u64::MAX)) as u64,
            waiters: HashMap::new(),
            staying: BTreeSet::new(),
            crowds: Crowds::default(),
            turns: Turns::default(),
            called: 0,
            next_ticket: 0,
            shed: 0,
            pressed_until_ms: 0,
            waits_since_ms: None,
            waited_ms: 0,
        }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.staying.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.staying.is_empty()
    }

    /// Requests that were turned away for having waited too long while others came.
    pub fn shed(&self) -> u64 {
        self.shed
    }

    /// Whether somebody was turned away lately: more come than can be served.
    pub fn is_pressed(&self, now_ms: u64) -> bool {
        now_ms < self.pressed_until_ms
    }

    /// Whether somebody has waited for all of the last second.
    pub fn is_busy(&self, now_ms: u64) -> bool {
        self.waits_since_ms.is_some_and(|since_ms| now_ms.saturating_sub(since_ms) >= 1000)
    }

    /// How many may wait now for one of this host to join them. One of each host may always wait, for its host's turn.
    fn limit(&self, room: Room, host: u32, now_ms: u64) -> usize {
        let has_one = self.crowds.count(host) > 0;
        if self.is_pressed(now_ms) && has_one { room.soon.min(room.most) } else { room.most }
    }

    /// For how long at least one request has waited, from the first one on.
    pub fn waited_ms(&self, now_ms: u64) -> u64 {
        self.waited_ms + self.waits_since_ms.map_or(0, |since_ms| now_ms.saturating_sub(since_ms))
    }

    /// For a request of `host` that finds no place: where its host has less than its share of the places, the host with the most gives up
    /// its newest. Gives what wakes that one.
    pub fn make_room(&mut self, room: Room, host: u32, now_ms: u64) -> Option<&W> {
        let max = self.limit(room, host, now_ms);
        if self.len() < max {
            return None;
        }
        let own = self.crowds.count(host);
        let share = max / (self.crowds.hosts() + usize::from(own == 0));
        let (count, most) = self.crowds.largest()?;
        if own >= share || count <= share {
            return None;
        }
        let newest = self.crowds.newest(most)?;
        self.turn_away(newest);
        self.waiters.get(&newest).map(|waiter| &waiter.waker)
    }

    /// A request begins to wait; gives its ticket. `None`: there is no place.
    pub fn join(&mut self, room: Room, origin: Origin, now_ms: u64, waker: W) -> Option<u64> {
        if self.len() >= self.limit(room, origin.host, now_ms) {
            self.pressed_until_ms = now_ms + LINE_PRESSED_MS;
            return None;
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waits_since_ms.get_or_insert(now_ms);
        self.staying.insert(ticket);
        self.crowds.add(origin.host, ticket);
        self.turns.add(origin, ticket);
        self.waiters.insert(ticket, Waiter { since_ms: now_ms, origin, waker, standing: Standing::Waits });
        Some(ticket)
    }

    /// What becomes of this request now; its waker is renewed by `renew`.
    pub fn ask(&mut self, ticket: u64, renew: impl FnOnce(&mut W)) -> Verdict {
        let Some(waiter) = self.waiters.get_mut(&ticket) else { return Verdict::Shed };
        renew(&mut waiter.waker);
        let standing = waiter.standing;
        match standing {
            Standing::Shed => Verdict::Shed,
            _ if self.is_next(ticket) => Verdict::First,
            _ => Verdict::Waits,
        }
    }

    /// A place has become free in this thread: gives what wakes the request that is to have it.
    pub fn call(&mut self, thread: u64, now_ms: u64) -> Option<&W> {
        let waits_ms = |waiter: &Waiter<W>| now_ms.saturating_sub(waiter.since_ms);
        let next = self.turns.next()?;
        let first = self.waiters.get(&next)?;
        let near = self.turns.first_of(Origin { thread, ..first.origin });
        let near = near.filter(|near| {
            let near_ms = self.waiters.get(near).map_or(0, waits_ms);
            waits_ms(first) <= near_ms.saturating_mul(2).saturating_add(LINE_NEAR_MS)
        });
        let ticket = near.unwrap_or(next);
        let waiter = self.waiters.get_mut(&ticket)?;
        waiter.standing = Standing::Called;
        self.called += 1;
        self.turns.remove(waiter.origin, ticket);
        Some(&waiter.waker)
    }

    /// Whether one was called that has not come yet.
    pub fn is_calling(&self) -> bool {
        self.called > 0
    }

    /// One that was called has found no place: it waits for its turn again.
    pub fn recall(&mut self, ticket: u64) {
        if let Some(waiter) = self.waiters.get_mut(&ticket)
            && waiter.standing == Standing::Called
        {
            waiter.standing = Standing::Waits;
            self.called -= 1;
            self.turns.add(waiter.origin, ticket);
        }
    }

    /// The request has got a place: its host has had its turn. To be called before it leaves.
    pub fn served(&mut self, ticket: u64) {
        if let Some(waiter) = self.waiters.get(&ticket) {
            self.turns.served(waiter.origin.host);
        }
    }

    /// Whether it is this request's turn: it was called, or is the next one.
    pub fn is_next(&self, ticket: u64) -> bool {
        let is_called = |waiter: &Waiter<W>| waiter.standing == Standing::Called;
        self.waiters.get(&ticket).is_some_and(is_called) || self.turns.next() == Some(ticket)
    }

    /// Turns those away that have waited longer than the target while more than `keep` wait, the oldest first; gives what wakes them.
    pub fn shed_late(&mut self, keep: usize, now_ms: u64) -> Vec<&W> {
        let mut late = Vec::new();
        while self.len() > keep
            && let Some(oldest) = self.staying.first().copied()
            && let Some(waiter) = self.waiters.get(&oldest)
            && now_ms.saturating_sub(waiter.since_ms) > self.target_ms
        {
            self.turn_away(oldest);
            self.pressed_until_ms = now_ms + LINE_PRESSED_MS;
            late.push(oldest);
        }
        late.iter().filter_map(|ticket| self.waiters.get(ticket).map(|waiter| &waiter.waker)).collect()
    }

    /// A request leaves: it was served, turned away, or its client has gone. False if it was not there.
    pub fn leave(&mut self, ticket: u64, now_ms: u64) -> bool {
        let Some(waiter) = self.waiters.remove(&ticket) else { return false };
        self.withdraw(ticket, waiter.origin, waiter.standing);
        if self.waiters.is_empty() {
            self.waited_ms = self.waited_ms(now_ms);
            self.waits_since_ms = None;
        }
        true
    }

    /// It stays in the line until it has been told.
    fn turn_away(&mut self, ticket: u64) {
        let Some(waiter) = self.waiters.get_mut(&ticket) else { return };
        let (origin, before) = (waiter.origin, mem::replace(&mut waiter.standing, Standing::Shed));
        self.withdraw(ticket, origin, before);
        self.shed += 1;
    }

    /// A request that stood so does not count any more.
    fn withdraw(&mut self, ticket: u64, origin: Origin, standing: Standing) {
        match standing {
            Standing::Shed => return,
            Standing::Called => self.called -= 1,
            Standing::Waits => self.turns.remove(origin, ticket),
        }
        self.staying.remove(&ticket);
        self.crowds.remove(origin.host, ticket);
    }
}
