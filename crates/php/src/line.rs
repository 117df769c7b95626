//! The line of requests that wait for a worker of a pool.
//!
//! They are served in order. While more of them wait than usually do, those that have waited longer than the target are turned away, the oldest
//! first. Newest first would be no better: in a pool that always has a few more requests than workers some would wait until their time is over.
//!
//! When one was turned away for want of a place, or for having waited too long among many, the line is pressed: more come than can be served.
//! It then takes no more than can be served soon: who comes is refused at once, or served in time. That ends when nobody was turned away for a
//! second.
//!
//! Hosts of one pool take turns: the next request is of the host that was served longest ago, and where the line is full, a host with
//! more than its share of the places gives one up. One site's rush thereby delays the others by one request each.
//!
//! Workers are connected to the server's threads. One that becomes free [calls](Line::call) the first request of its own thread, unless
//! that of another one has waited far longer: which one it calls is the only thing that threads change about the order.

use crate::limits::{
    QUEUE_DEFAULT_REQUESTS_MAX, QUEUE_NEAR_MS, QUEUE_PRESSED_MS, QUEUE_REQUESTS_PER_WORKER, QUEUE_SOON_MS,
    QUEUE_USUAL_MS,
};
use crate::settings::Queue;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

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

/// How fast a pool serves.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Requests that got a worker in the last full second; at least 1.
    pub per_second: u64,
    /// That is all that the pool can do: somebody has waited for the whole of that second. Else nobody knows how much it could.
    pub is_capacity: bool,
}

impl Room {
    /// The room of a pool with `workers` now and `workers_max` at most.
    ///
    /// What decides is how long a request would wait, not how many are before it: a hundred before a script of 100 µs wait for less than two
    /// before one of 10 ms. Four per worker may always wait, since one that takes seconds serves too few to count.
    pub fn new(queue: Queue, workers: usize, workers_max: usize, pace: Pace) -> Room {
        let served_in = |ms: u64| (u128::from(pace.per_second) * u128::from(ms) / 1000) as usize;
        let least = workers_max.saturating_mul(QUEUE_REQUESTS_PER_WORKER as usize);
        let usual = if pace.is_capacity { served_in(QUEUE_USUAL_MS) } else { QUEUE_DEFAULT_REQUESTS_MAX };
        let soon = served_in(QUEUE_SOON_MS).max(workers);
        let timeout_ms = queue.timeout.as_millis().min(u128::from(u64::MAX)) as u64;
        Room {
            most: queue.max.unwrap_or(usual.min(QUEUE_DEFAULT_REQUESTS_MAX).max(least)),
            // None that would not be served before its time in the line is over.
            soon: soon.min(served_in(timeout_ms)).max(1),
            usual: usual.max(least),
        }
    }
}

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

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct From {
    /// The virtual host, as a number that the caller likes.
    pub host: u32,
    /// The thread that has it, likewise.
    pub thread: u64,
}

/// A request that waits. `W` is what wakes it.
#[derive(Debug)]
struct Waiter<W> {
    ticket: u64,
    since_ms: u64,
    from: From,
    waker: W,
    /// A worker has become free for it.
    is_called: bool,
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
            target_ms: target.as_millis() as u64,
            waiters: VecDeque::new(),
            next_ticket: 0,
            turns: HashMap::new(),
            turn: 0,
            shed: 0,
            pressed_until_ms: 0,
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
        let has_one = || self.waiters.iter().any(|waiter| waiter.from.host == host && !waiter.is_shed);
        if self.is_pressed(now_ms) && has_one() { room.soon.min(room.most) } else { room.most }
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
        let mut counts = HashMap::from([(host, 0)]);
        for waiter in self.waiters.iter().filter(|waiter| !waiter.is_shed) {
            *counts.entry(waiter.from.host).or_insert(0) += 1;
        }
        let share = max / counts.len();
        let (most, count) =
            counts.iter().map(|(host, count)| (*host, *count)).max_by_key(|(_, count)| *count)?;
        if counts[&host] >= share || count <= share {
            return None;
        }
        let waiter =
            self.waiters.iter_mut().rev().find(|waiter| waiter.from.host == most && !waiter.is_shed)?;
        waiter.is_shed = true;
        self.shed += 1;
        Some(&waiter.waker)
    }

    /// A request begins to wait; gives its ticket. `None`: there is no place.
    pub fn join(&mut self, room: Room, from: From, now_ms: u64, waker: W) -> Option<u64> {
        if self.len() >= self.limit(room, from.host, now_ms) {
            self.pressed_until_ms = now_ms + QUEUE_PRESSED_MS;
            return None;
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waits_since_ms.get_or_insert(now_ms);
        self.waiters.push_back(Waiter {
            ticket,
            since_ms: now_ms,
            from,
            waker,
            is_called: false,
            is_shed: false,
        });
        Some(ticket)
    }

    /// What becomes of this request now; its waker is renewed by `renew`.
    pub fn ask(&mut self, ticket: u64, renew: impl FnOnce(&mut W)) -> Verdict {
        let Some(waiter) = self.waiters.iter_mut().find(|waiter| waiter.ticket == ticket) else {
            return Verdict::Shed;
        };
        renew(&mut waiter.waker);
        if waiter.is_shed {
            return Verdict::Shed;
        }
        if self.is_next(ticket) { Verdict::First } else { Verdict::Waits }
    }

    /// Whose turn it is: the oldest of the host that was served longest ago. Those that were called have had theirs.
    fn next(&self) -> Option<&Waiter<W>> {
        let waiting = self.waiters.iter().filter(|waiter| !waiter.is_shed && !waiter.is_called);
        waiting.min_by_key(|waiter| self.turns.get(&waiter.from.host).copied().unwrap_or(0))
    }

    /// A worker has become free in this thread: gives what wakes the request that is to have it.
    pub fn call(&mut self, thread: u64, now_ms: u64) -> Option<&W> {
        let next = self.next()?;
        let (host, waits_ms) = (next.from.host, now_ms.saturating_sub(next.since_ms));
        let mut ticket = next.ticket;
        let near = From { host, thread };
        let is_near = |waiter: &&Waiter<W>| waiter.from == near && !waiter.is_shed && !waiter.is_called;
        if let Some(near) = self.waiters.iter().find(is_near)
            && waits_ms <= 2 * now_ms.saturating_sub(near.since_ms) + QUEUE_NEAR_MS
        {
            ticket = near.ticket;
        }
        let waiter = self.waiters.iter_mut().find(|waiter| waiter.ticket == ticket)?;
        waiter.is_called = true;
        Some(&waiter.waker)
    }

    /// Whether one was called that has not come yet.
    pub fn is_calling(&self) -> bool {
        self.waiters.iter().any(|waiter| waiter.is_called && !waiter.is_shed)
    }

    /// One that was called has found no worker: it waits for its turn again.
    pub fn recall(&mut self, ticket: u64) {
        if let Some(waiter) = self.waiters.iter_mut().find(|waiter| waiter.ticket == ticket) {
            waiter.is_called = false;
        }
    }

    /// The request has got a worker: its host has had its turn. To be called before it leaves.
    pub fn served(&mut self, ticket: u64) {
        if let Some(waiter) = self.waiters.iter().find(|waiter| waiter.ticket == ticket) {
            self.turn += 1;
            self.turns.insert(waiter.from.host, self.turn);
        }
    }

    /// Whether it is this request's turn: it was called, or is the next one.
    pub fn is_next(&self, ticket: u64) -> bool {
        let is_called = |waiter: &Waiter<W>| waiter.ticket == ticket && waiter.is_called && !waiter.is_shed;
        self.waiters.iter().any(is_called) || self.next().is_some_and(|next| next.ticket == ticket)
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
            self.pressed_until_ms = now_ms + QUEUE_PRESSED_MS;
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

    /// A request of this host.
    fn of(host: u32) -> From {
        From { host, thread: 1 }
    }

    /// Room for so many, pressed or not.
    fn room(most: usize) -> Room {
        Room { most, soon: most, usual: most }
    }

    #[test]
    fn in_order() {
        let mut line = line();
        let (a, b) =
            (line.join(room(9), of(1), 0, "a").unwrap(), line.join(room(9), of(1), 10, "b").unwrap());
        assert_eq!((line.ask(a, |_| ()), line.ask(b, |_| ())), (Verdict::First, Verdict::Waits));
        assert!(line.leave(a, 100) && !line.leave(a, 100));
        assert_eq!(line.ask(b, |_| ()), Verdict::First);
    }

    /// Some would wait for ever if the newest were served first.
    #[test]
    fn nobody_is_passed_in_a_pool_that_always_has_a_few_more_than_workers() {
        let mut line: Line<()> = Line::new(Duration::from_millis(100));
        let mut waiting: VecDeque<u64> =
            (0..12).map(|_| line.join(room(200), of(1), 0, ()).unwrap()).collect();
        for now in (50..5_000).step_by(50) {
            assert!(line.shed_late(24, now).is_empty());
            let first = waiting.pop_front().unwrap();
            assert!(line.is_next(first) && line.leave(first, now));
            waiting.push_back(line.join(room(200), of(1), now, ()).unwrap());
        }
    }

    #[test]
    fn a_full_line_takes_nobody() {
        let mut line = line();
        assert!(line.join(room(0), of(1), 0, "").is_none());
        let a = line.join(room(1), of(1), 0, "a").unwrap();
        assert!(line.join(room(1), of(1), 0, "b").is_none());
        line.leave(a, 0);
        assert!(line.join(room(1), of(1), 0, "b").is_some());
    }

    #[test]
    fn how_long_somebody_has_waited() {
        let mut line = line();
        let (a, b) =
            (line.join(room(9), of(1), 10, "a").unwrap(), line.join(room(9), of(1), 20, "b").unwrap());
        line.leave(a, 30);
        assert_eq!(line.waited_ms(40), 30);
        line.leave(b, 50);
        assert_eq!((line.waited_ms(50), line.waited_ms(90)), (40, 40));
        line.join(room(9), of(1), 100, "c").unwrap();
        assert_eq!(line.waited_ms(105), 45);
    }

    #[test]
    fn who_waits_too_long_is_turned_away_while_more_wait_than_can_be_served() {
        let mut line = line();
        let tickets: Vec<u64> = (0..5).map(|at| line.join(room(9), of(1), at * 30, "w").unwrap()).collect();
        assert_eq!(line.shed_late(2, 100).len(), 0);
        // At 161 ms the first three have waited for more than 100.
        assert_eq!(line.shed_late(3, 161).len(), 2);
        assert_eq!((line.len(), line.shed()), (3, 2));
        assert_eq!(line.shed_late(1, 161).len(), 1);
        assert_eq!(line.ask(tickets[0], |_| ()), Verdict::Shed);
        assert_eq!(line.ask(tickets[3], |_| ()), Verdict::First);
        // One that is not known any more is not let in.
        line.leave(tickets[0], 161);
        assert_eq!(line.ask(tickets[0], |_| ()), Verdict::Shed);
    }

    /// Ten times as much as can be served: what is served has not waited longer than about the target.
    #[test]
    fn what_is_served_in_an_overload_is_served_in_time() {
        let mut line: Line<()> = Line::new(Duration::from_millis(100));
        let mut waiting: Vec<(u64, u64)> = Vec::new();
        let (mut waits, mut served) = (Vec::new(), 0);
        for now in 0..3_000_u64 {
            // One comes per millisecond, one is served in ten.
            if let Some(ticket) = line.join(room(200), of(1), now, ()) {
                waiting.push((ticket, now));
            }
            line.shed_late(8, now);
            waiting.retain(|(ticket, _)| {
                line.ask(*ticket, |()| ()) != Verdict::Shed || !line.leave(*ticket, now)
            });
            if now % 10 == 0
                && let Some(at) =
                    waiting.iter().position(|(ticket, _)| line.ask(*ticket, |()| ()) == Verdict::First)
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

    /// Requests come one per millisecond to a pool that serves one in `serves_ms`, for so long; each waits for a second at most. Gives how
    /// long those waited that were served, and those that were refused.
    fn run(
        room: Room,
        keep: usize,
        serves_ms: u64,
        times_ms: std::ops::Range<u64>,
    ) -> (Vec<(u64, u64)>, Vec<u64>) {
        let mut line: Line<()> = Line::new(Duration::from_millis(100));
        let (mut waiting, mut served, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for now in times_ms {
            match line.join(room, of(1), now, ()) {
                Some(ticket) => waiting.push((ticket, now)),
                None => refused.push(0),
            }
            line.shed_late(keep, now);
            waiting.retain(|(ticket, since)| {
                let is_refused = line.ask(*ticket, |()| ()) == Verdict::Shed || now - since >= 1000;
                if is_refused {
                    line.leave(*ticket, now);
                    refused.push(now - since);
                }
                !is_refused
            });
            if now % serves_ms == 0
                && let Some(at) = waiting.iter().position(|(ticket, _)| line.is_next(*ticket))
            {
                let (ticket, since) = waiting.remove(at);
                line.leave(ticket, now);
                served.push((now, now - since));
            }
        }
        (served, refused)
    }

    #[test]
    fn in_an_overload_who_is_refused_is_refused_at_once() {
        let (served, refused) = run(Room { most: 40, soon: 5, usual: 40 }, 128, 10, 0..10_000);
        assert!(served.len() >= 990 && refused.len() >= 8900, "{} {}", served.len(), refused.len());
        assert!(refused.iter().all(|waited_ms| *waited_ms <= 50), "{:?}", refused.iter().max());
        assert!(
            served.iter().all(|(_, waited_ms)| *waited_ms <= 400),
            "the line as it was when it became full"
        );
        let later = served.iter().filter(|(at_ms, _)| *at_ms > 1000).map(|(_, waited_ms)| *waited_ms);
        assert!(later.max().unwrap() <= 50);
    }

    /// Also where the line is too long to become full.
    #[test]
    fn a_long_line_is_shortened_when_many_wait_too_long() {
        let (served, refused) = run(Room { most: 1000, soon: 25, usual: 1000 }, 80, 1, 0..3_000);
        assert!(served.len() >= 2990 && refused.is_empty(), "as many as come are served");
        let (served, mut refused) = run(Room { most: 1000, soon: 25, usual: 1000 }, 80, 2, 0..10_000);
        refused.sort_unstable();
        assert!(served.len() >= 4990, "{}", served.len());
        assert!(refused[refused.len() * 97 / 100] == 0, "{:?}", refused.last());
    }

    #[test]
    fn a_pressed_line_is_short_until_nobody_was_refused_for_a_second() {
        let room = Room { most: 3, soon: 1, usual: 3 };
        let mut line = line();
        let tickets: Vec<u64> = (0..3).map(|at| line.join(room, of(1), at, "w").unwrap()).collect();
        assert!(!line.is_pressed(3));
        assert!(line.join(room, of(1), 3, "w").is_none() && line.is_pressed(3));
        assert!(line.is_next(tickets[0]));
        assert!(line.leave(tickets[0], 500) && line.leave(tickets[1], 500));
        assert!(line.join(room, of(1), 500, "w").is_none(), "one waits");
        line.leave(tickets[2], 600);
        assert!(line.join(room, of(1), 600, "w").is_some());
        assert!(line.is_pressed(500 + QUEUE_PRESSED_MS - 1) && !line.is_pressed(500 + QUEUE_PRESSED_MS));
        assert!(line.join(room, of(1), 500 + QUEUE_PRESSED_MS, "w").is_some());
    }

    fn of_pool(queue: Option<usize>, per_second: u64, is_capacity: bool) -> (usize, usize, usize) {
        let queue = Queue { max: queue, timeout: Duration::from_secs(5) };
        let room = Room::new(queue, 3, 5, Pace { per_second, is_capacity });
        (room.most, room.soon, room.usual)
    }

    #[test]
    fn as_many_may_wait_as_are_served_in_a_second() {
        assert_eq!(of_pool(None, 1, false), (511, 3, 511), "nobody knows yet what it can do");
        assert_eq!(of_pool(None, 100, true), (100, 5, 100));
        assert_eq!(of_pool(None, 2, true), (20, 3, 20), "four per worker");
        assert_eq!(of_pool(None, 20_000, true), (511, 1000, 20_000));
        assert_eq!(of_pool(Some(7), 20_000, true), (7, 1000, 20_000));
        assert_eq!(of_pool(Some(0), 1, false), (0, 3, 511));
    }

    #[test]
    fn a_free_worker_calls_the_first_of_its_thread() {
        let mut line = line();
        let mut join = |thread, at, name| line.join(room(9), From { host: 1, thread }, at, name).unwrap();
        let (a, b, c) = (join(1, 0, "a"), join(2, 5, "b"), join(2, 6, "c"));
        assert_eq!(line.call(2, 8), Some(&"b"), "a has waited for hardly longer");
        assert!(line.is_next(a) && line.is_next(b) && !line.is_next(c));
        // It finds another one at the worker.
        line.recall(b);
        assert!(line.is_next(a) && !line.is_next(b));
        assert_eq!(line.call(2, 9), Some(&"b"));
        assert_eq!(line.call(2, 100), Some(&"c"));
        assert_eq!(line.call(2, 100), Some(&"a"), "nobody else is there");
        assert_eq!(line.call(1, 100), None, "all are called");
    }

    #[test]
    fn one_of_another_thread_that_has_waited_far_longer_goes_first() {
        let mut line = line();
        line.join(room(9), From { host: 1, thread: 1 }, 0, "a").unwrap();
        line.join(room(9), From { host: 1, thread: 2 }, 50, "b").unwrap();
        line.join(room(9), From { host: 2, thread: 2 }, 50, "of another host").unwrap();
        assert_eq!(line.call(2, 61), Some(&"a"), "61 ms and 11 ms");
        line.served(0);
        line.leave(0, 61);
        assert_eq!(line.call(1, 61), Some(&"of another host"), "it is its host's turn");
        assert_eq!(line.call(1, 61), Some(&"b"));
    }

    #[test]
    fn busy_is_where_somebody_always_waits() {
        let mut line = line();
        let a = line.join(room(9), of(1), 0, "a").unwrap();
        assert!(!line.is_busy(999) && line.is_busy(1000));
        line.leave(a, 1500);
        assert!(!line.is_busy(1500));
        line.join(room(9), of(1), 1600, "b").unwrap();
        assert!(!line.is_busy(2000));
    }

    #[test]
    fn hosts_take_turns() {
        let mut line = line();
        let many: Vec<u64> = (0..5).map(|at| line.join(room(99), of(1), at, "one").unwrap()).collect();
        let other =
            [line.join(room(99), of(2), 6, "two").unwrap(), line.join(room(99), of(2), 7, "two").unwrap()];
        let mut order = Vec::new();
        let mut left: Vec<u64> = many.iter().chain(&other).copied().collect();
        while !left.is_empty() {
            let first = |line: &mut Line<_>, ticket: u64| line.ask(ticket, |_| ()) == Verdict::First;
            let at = left.iter().position(|ticket| first(&mut line, *ticket)).unwrap();
            let ticket = left.remove(at);
            line.served(ticket);
            line.leave(ticket, 10);
            order.push(ticket);
        }
        assert_eq!(order, [many[0], other[0], many[1], other[1], many[2], many[3], many[4]]);
    }

    #[test]
    fn one_of_each_host_may_wait_for_its_turn() {
        let room = Room { most: 5, soon: 1, usual: 5 };
        let mut line = line();
        (0..5).for_each(|at| assert!(line.join(room, of(1), at, "one").is_some()));
        assert!(line.join(room, of(1), 5, "one").is_none() && line.is_pressed(5));
        assert_eq!(line.make_room(room, 2, 5), Some(&"one"));
        assert!(line.join(room, of(2), 5, "two").is_some());
        assert!(line.join(room, of(2), 6, "two").is_none(), "its second one");
        assert_eq!(line.make_room(room, 3, 5), Some(&"one"));
        assert!(line.join(room, of(3), 5, "three").is_some());
    }

    #[test]
    fn a_host_with_more_than_its_share_makes_room() {
        let mut line = line();
        let many: Vec<u64> = (0..4).map(|at| line.join(room(4), of(1), at, "one").unwrap()).collect();
        assert_eq!(line.make_room(room(4), 1, 5), None, "there is nobody else");
        assert_eq!(line.make_room(room(4), 2, 5), Some(&"one"));
        assert_eq!(line.ask(many[3], |_| ()), Verdict::Shed, "the newest");
        line.join(room(4), of(2), 5, "two").unwrap();
        assert_eq!(line.make_room(room(4), 2, 5), Some(&"one"));
        line.join(room(4), of(2), 5, "two").unwrap();
        assert_eq!(line.make_room(room(4), 2, 5), None, "it has its share");
        assert_eq!(line.join(room(4), of(2), 5, "two"), None);
        assert_eq!(line.make_room(room(5), 3, 5), None, "there is room");
    }
}
