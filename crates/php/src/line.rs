//! The line of requests that wait for a worker of a pool.
//!
//! While the one that has waited longest has not waited longer than the target, it is served next. Beyond that the pool is overloaded:
//! serving in order would make every answer late, so the newest is served first, and those that have waited longer than the target are
//! turned away as soon as there are more of them than workers, the oldest first. What is served is thereby served in time.
//!
//! Hosts of one pool take turns: the next request is of the host that was served longest ago, and where the line is full, a host with
//! more than its share of the places gives one up. One site's rush thereby delays the others by one request each.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// What becomes of a request that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is its turn, if a worker is free.
    First,
    /// It waits on.
    Waits,
    /// It is turned away.
    Shed,
}

/// A request that waits. `W` is what wakes it.
#[derive(Debug)]
struct Waiter<W> {
    ticket: u64,
    since_ms: u64,
    host: u32,
    waker: W,
    /// It was turned away, and has not been told yet.
    is_shed: bool,
}

/// See the module's head. Times are milliseconds of one monotonic clock.
#[derive(Debug)]
pub struct Line<W> {
    target_ms: u64,
    /// The oldest first.
    waiters: VecDeque<Waiter<W>>,
    next_ticket: u64,
    /// The turn in which each host was served last.
    turns: HashMap<u32, u64>,
    turn: u64,
    /// Requests that were turned away.
    shed: u64,
    /// Since when somebody waits.
    waits_since_ms: Option<u64>,
    /// For how long somebody has waited before that.
    waited_ms: u64,
}

impl<W> Line<W> {
    /// A line in which nobody waits.
    pub fn new(target: Duration) -> Line<W> {
        Line {
            target_ms: target.as_millis() as u64,
            waiters: VecDeque::new(),
            next_ticket: 0,
            turns: HashMap::new(),
            turn: 0,
            shed: 0,
            waits_since_ms: None,
            waited_ms: 0,
        }
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiters.iter().filter(|waiter| !waiter.is_shed).count()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Requests that were turned away for having waited too long while others came.
    pub fn shed(&self) -> u64 {
        self.shed
    }

    /// Whether the one that has waited longest has waited longer than the target.
    pub fn is_overloaded(&self, now_ms: u64) -> bool {
        self.oldest().is_some_and(|waiter| now_ms.saturating_sub(waiter.since_ms) > self.target_ms)
    }

    /// For how long at least one request has waited, from the first one on.
    pub fn waited_ms(&self, now_ms: u64) -> u64 {
        self.waited_ms + self.waits_since_ms.map_or(0, |since_ms| now_ms.saturating_sub(since_ms))
    }

    fn oldest(&self) -> Option<&Waiter<W>> {
        self.waiters.iter().find(|waiter| !waiter.is_shed)
    }

    /// For a request of `host` that finds `max` waiting: where its host has less than its share of them, the host with the most gives up
    /// its newest. Gives what wakes that one.
    pub fn make_room(&mut self, max: usize, host: u32) -> Option<&W> {
        if self.len() < max {
            return None;
        }
        let mut counts = HashMap::from([(host, 0)]);
        for waiter in self.waiters.iter().filter(|waiter| !waiter.is_shed) {
            *counts.entry(waiter.host).or_insert(0) += 1;
        }
        let share = max / counts.len();
        let (most, count) =
            counts.iter().map(|(host, count)| (*host, *count)).max_by_key(|(_, count)| *count)?;
        if counts[&host] >= share || count <= share {
            return None;
        }
        let waiter = self.waiters.iter_mut().rev().find(|waiter| waiter.host == most && !waiter.is_shed)?;
        waiter.is_shed = true;
        self.shed += 1;
        Some(&waiter.waker)
    }

    /// A request of a host, which is a number as the caller likes, begins to wait; gives its ticket. `None`: `max` wait already.
    pub fn join(&mut self, max: usize, host: u32, now_ms: u64, waker: W) -> Option<u64> {
        if self.len() >= max {
            return None;
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waits_since_ms.get_or_insert(now_ms);
        self.waiters.push_back(Waiter { ticket, since_ms: now_ms, host, waker, is_shed: false });
        Some(ticket)
    }

    /// What becomes of this request now; its waker is renewed by `renew`.
    pub fn ask(&mut self, ticket: u64, now_ms: u64, renew: impl FnOnce(&mut W)) -> Verdict {
        let Some(waiter) = self.waiters.iter_mut().find(|waiter| waiter.ticket == ticket) else {
            return Verdict::Shed;
        };
        renew(&mut waiter.waker);
        if waiter.is_shed {
            return Verdict::Shed;
        }
        if self.next(now_ms).is_some_and(|next| next.ticket == ticket) {
            Verdict::First
        } else {
            Verdict::Waits
        }
    }

    /// Whose turn it is.
    fn next(&self, now_ms: u64) -> Option<&Waiter<W>> {
        let waiting = || self.waiters.iter().filter(|waiter| !waiter.is_shed);
        let turn = |waiter: &Waiter<W>| self.turns.get(&waiter.host).copied().unwrap_or(0);
        let host = waiting().min_by_key(|waiter| turn(waiter))?.host;
        let mut of_host = waiting().filter(|waiter| waiter.host == host);
        if self.is_overloaded(now_ms) { of_host.next_back() } else { of_host.next() }
    }

    /// The request has got a worker: its host has had its turn. To be called before it leaves.
    pub fn served(&mut self, ticket: u64) {
        if let Some(waiter) = self.waiters.iter().find(|waiter| waiter.ticket == ticket) {
            self.turn += 1;
            self.turns.insert(waiter.host, self.turn);
        }
    }

    /// What wakes the request whose turn it is.
    pub fn next_waker(&self, now_ms: u64) -> Option<&W> {
        self.next(now_ms).map(|waiter| &waiter.waker)
    }

    /// Turns those away that have waited longer than the target while more than `keep` wait, the oldest first; gives what wakes them.
    pub fn shed_late(&mut self, keep: usize, now_ms: u64) -> Vec<&W> {
        let mut left = self.len();
        let mut late = Vec::new();
        for waiter in self.waiters.iter_mut().filter(|waiter| !waiter.is_shed) {
            if left <= keep || now_ms.saturating_sub(waiter.since_ms) <= self.target_ms {
                break;
            }
            waiter.is_shed = true;
            self.shed += 1;
            left -= 1;
            late.push(&waiter.waker);
        }
        late
    }

    /// A request leaves: it was served, turned away, or its client has gone. False if it was not there.
    pub fn leave(&mut self, ticket: u64, now_ms: u64) -> bool {
        let before = self.waiters.len();
        self.waiters.retain(|waiter| waiter.ticket != ticket);
        if self.waiters.is_empty() {
            self.waited_ms = self.waited_ms(now_ms);
            self.waits_since_ms = None;
        }
        self.waiters.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Line<&'static str> {
        Line::new(Duration::from_millis(100))
    }

    #[test]
    fn in_order_below_the_target() {
        let mut line = line();
        let (a, b) = (line.join(9, 1, 0, "a").unwrap(), line.join(9, 1, 10, "b").unwrap());
        assert_eq!((line.ask(a, 100, |_| ()), line.ask(b, 100, |_| ())), (Verdict::First, Verdict::Waits));
        assert_eq!(line.next_waker(100), Some(&"a"));
        assert!(line.leave(a, 100) && !line.leave(a, 100));
        assert_eq!(line.ask(b, 100, |_| ()), Verdict::First);
    }

    #[test]
    fn the_newest_first_above_it() {
        let mut line = line();
        let (a, b) = (line.join(9, 1, 0, "a").unwrap(), line.join(9, 1, 90, "b").unwrap());
        assert!(line.is_overloaded(101));
        assert_eq!((line.ask(a, 101, |_| ()), line.ask(b, 101, |_| ())), (Verdict::Waits, Verdict::First));
        line.leave(a, 101);
        assert!(!line.is_overloaded(101), "who waits longest now has come later");
    }

    #[test]
    fn a_full_line_takes_nobody() {
        let mut line = line();
        assert!(line.join(0, 1, 0, "").is_none());
        let a = line.join(1, 1, 0, "a").unwrap();
        assert!(line.join(1, 1, 0, "b").is_none());
        line.leave(a, 0);
        assert!(line.join(1, 1, 0, "b").is_some());
    }

    #[test]
    fn how_long_somebody_has_waited() {
        let mut line = line();
        let (a, b) = (line.join(9, 1, 10, "a").unwrap(), line.join(9, 1, 20, "b").unwrap());
        line.leave(a, 30);
        assert_eq!(line.waited_ms(40), 30);
        line.leave(b, 50);
        assert_eq!((line.waited_ms(50), line.waited_ms(90)), (40, 40));
        line.join(9, 1, 100, "c").unwrap();
        assert_eq!(line.waited_ms(105), 45);
    }

    #[test]
    fn who_waits_too_long_is_turned_away_while_more_wait_than_can_be_served() {
        let mut line = line();
        let tickets: Vec<u64> = (0..5).map(|at| line.join(9, 1, at * 30, "w").unwrap()).collect();
        assert_eq!(line.shed_late(2, 100).len(), 0);
        // At 161 ms the first three have waited for more than 100.
        assert_eq!(line.shed_late(3, 161).len(), 2);
        assert_eq!((line.len(), line.shed()), (3, 2));
        assert_eq!(line.shed_late(1, 161).len(), 1);
        assert_eq!(line.ask(tickets[0], 161, |_| ()), Verdict::Shed);
        assert_eq!(line.ask(tickets[3], 161, |_| ()), Verdict::First);
        // One that is not known any more is not let in.
        line.leave(tickets[0], 161);
        assert_eq!(line.ask(tickets[0], 161, |_| ()), Verdict::Shed);
    }

    /// Ten times as much as can be served: what is served has not waited longer than about the target.
    #[test]
    fn what_is_served_in_an_overload_is_served_in_time() {
        let mut line: Line<()> = Line::new(Duration::from_millis(100));
        let mut waiting: Vec<(u64, u64)> = Vec::new();
        let (mut waits, mut served) = (Vec::new(), 0);
        for now in 0..3_000_u64 {
            // One comes per millisecond, one is served in ten.
            if let Some(ticket) = line.join(200, 1, now, ()) {
                waiting.push((ticket, now));
            }
            line.shed_late(8, now);
            waiting.retain(|(ticket, _)| {
                line.ask(*ticket, now, |()| ()) != Verdict::Shed || !line.leave(*ticket, now)
            });
            if now % 10 == 0
                && let Some(at) =
                    waiting.iter().position(|(ticket, _)| line.ask(*ticket, now, |()| ()) == Verdict::First)
            {
                let (ticket, since) = waiting.remove(at);
                line.leave(ticket, now);
                waits.push(now - since);
                served += 1;
            }
        }
        waits.sort_unstable();
        assert!(served >= 290, "{served}");
        assert!(waits[waits.len() * 99 / 100] <= 101, "{:?}", waits.last());
    }

    #[test]
    fn hosts_take_turns() {
        let mut line = line();
        let many: Vec<u64> = (0..5).map(|at| line.join(99, 1, at, "one").unwrap()).collect();
        let other = [line.join(99, 2, 6, "two").unwrap(), line.join(99, 2, 7, "two").unwrap()];
        let mut order = Vec::new();
        let mut left: Vec<u64> = many.iter().chain(&other).copied().collect();
        while !left.is_empty() {
            let first = |line: &mut Line<_>, ticket: u64| line.ask(ticket, 10, |_| ()) == Verdict::First;
            let at = left.iter().position(|ticket| first(&mut line, *ticket)).unwrap();
            let ticket = left.remove(at);
            line.served(ticket);
            line.leave(ticket, 10);
            order.push(ticket);
        }
        assert_eq!(order, [many[0], other[0], many[1], other[1], many[2], many[3], many[4]]);
    }

    #[test]
    fn a_host_with_more_than_its_share_makes_room() {
        let mut line = line();
        let many: Vec<u64> = (0..4).map(|at| line.join(4, 1, at, "one").unwrap()).collect();
        assert_eq!(line.make_room(4, 1), None, "there is nobody else");
        assert_eq!(line.make_room(4, 2), Some(&"one"));
        assert_eq!(line.ask(many[3], 5, |_| ()), Verdict::Shed, "the newest");
        line.join(4, 2, 5, "two").unwrap();
        assert_eq!(line.make_room(4, 2), Some(&"one"));
        line.join(4, 2, 5, "two").unwrap();
        assert_eq!(line.make_room(4, 2), None, "it has its share");
        assert_eq!(line.join(4, 2, 5, "two"), None);
        assert_eq!(line.make_room(5, 3), None, "there is room");
    }
}
