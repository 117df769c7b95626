//! One thread's loop: its slots, their events, its share of the plan.

use crate::limits::{EVENTS_MAX, WAITING_REQUESTS_MAX};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, epoll, poll};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::thread::set_current_timer_slack;

use super::conn::{Open, Turn};
use super::context::{Context, Due, Made, Ns, Share};
use super::course::Course;
use super::dial::{Dialled, dial, kind_of};
use super::nap::{Nap, timespec};
use super::{Shared, Users};
use crate::arrivals::Arrivals;
use crate::plan::{Stop, Version};
use crate::stats::{ErrorKind, Record, Stats};
use crate::system;

/// How much later than asked for the kernel may end a wait.
const TIMER_SLACK_NS: u64 = 1000;
/// How often a loop without events looks at the stop flag.
const TICK: Ns = 20_000_000;
/// How often connections are checked for overdue responses.
const OVERDUE_TICK: Ns = 250_000_000;
/// How long to wait after a connection could not be made.
pub(super) const RETRY_DELAY: Ns = 10_000_000;

/// A place for one connection after another.
pub(super) enum Slot {
    /// No connection; so many requests left to send on the next.
    Down(u64),
    /// No connection until then, when the user's pause is over; with what is left to send.
    Away { allowance: u64, until: Ns },
    /// A connect is under way.
    Connecting { socket: OwnedFd, allowance: u64, begun: Ns },
    /// A connection at work, or one whose user waits for the clock.
    Open(Open),
    /// Nothing left to do; the connection is kept if the plan says so.
    Settled(Option<Open>),
}

impl Slot {
    fn in_flight(&self) -> u64 {
        match self {
            Slot::Open(open) => open.in_flight(),
            _ => 0,
        }
    }
}

/// What a thread has to show in the end.
#[derive(Debug, Default)]
pub struct Work {
    /// The counted part.
    pub stats: Stats,
    /// When the thread began to connect, and when it was done.
    pub span: Option<(Ns, Ns)>,
    /// The raw log.
    pub records: Vec<Record>,
    /// Requests that found no room in it.
    pub records_dropped: u64,
    /// The last head seen on each target, as HTTP/1.1 writes it; empty where none was.
    pub heads: Vec<Vec<u8>>,
    /// In a closed loop.
    pub users: Users,
}

/// One thread of a run.
pub struct Worker<'a> {
    pub(super) shared: &'a Shared,
    share: Share,
    epoll: OwnedFd,
    pub(super) slots: Vec<Slot>,
    /// Slots that have not been connected yet begin here.
    pub(super) fresh: usize,
    /// When they are to be, if the plan says so.
    pub(super) dials: Option<Arrivals>,
    /// Slots that have had a connection.
    pub(super) has_come: Vec<bool>,
    /// Who was there when that was asked.
    pub(super) users: Option<Users>,
    /// Slots to connect again.
    pub(super) down: Vec<usize>,
    /// Slots that had more to read than one turn allows.
    again: Vec<usize>,
    /// In an open loop, slots whose connection could take a request when they were put here; the last one first.
    free: Vec<usize>,
    /// Whether a slot stands there.
    is_listed: Vec<bool>,
    /// When connections are to have a turn whatever comes, the first first. Of those that were put off the old times are in it, too.
    alarms: BinaryHeap<Reverse<(Instant, usize)>>,
    /// By slot, the one that counts.
    armed: Vec<Option<Instant>>,
    /// Pauses, the first to end first.
    pauses: BinaryHeap<Reverse<(Ns, usize)>>,
    pub(super) retry_at: Option<Ns>,
    settled: u64,
    arrivals: Option<Arrivals>,
    pub(super) ctx: Context<'a>,
}

impl<'a> Worker<'a> {
    /// Pins the thread and makes its slots; connections are made by [`Self::run`].
    pub fn new(shared: &'a Shared, share: Share) -> io::Result<Self> {
        let plan = &shared.plan;
        if !plan.cpus.is_empty() {
            system::pin_to_cpu(plan.cpus[share.index % plan.cpus.len()])?;
        }
        // Usually the kernel may be 50 µs late. Where it does not let itself be told, it stays so.
        let _ = set_current_timer_slack(NonZeroU64::new(TIMER_SLACK_NS));
        let slots = share.part(plan.connections as u64) as usize;
        let allowance = match plan.stop {
            Stop::RequestsPerConnection(count) => count,
            _ => u64::MAX,
        };
        let arrivals = |rate| Arrivals::new(rate, share.index, share.of);
        Ok(Self {
            shared,
            share,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            slots: (0..slots).map(|_| Slot::Down(allowance)).collect(),
            fresh: 0,
            dials: plan.dial_rate.map(arrivals),
            has_come: vec![false; slots],
            users: None,
            down: Vec::new(),
            again: Vec::new(),
            free: Vec::new(),
            is_listed: vec![false; slots],
            alarms: BinaryHeap::new(),
            armed: vec![None; slots],
            pauses: BinaryHeap::new(),
            retry_at: None,
            settled: 0,
            arrivals: plan.rate.map(|rate| Arrivals::spread(rate, plan.distribution, share.index, share.of)),
            ctx: Context::new(plan, share, shared.made_at),
        })
    }

    /// Works until the plan's end.
    pub fn run(mut self) -> io::Result<Work> {
        let plan = &self.shared.plan;
        let mut events = Vec::with_capacity(EVENTS_MAX);
        self.gather(&mut events)?;
        let count_from = plan.warmup.as_nanos() as Ns;
        let end = plan.stop.time().map(|time| count_from + time.as_nanos() as Ns);
        // The clock of users who came before it starts at 0, before the first of them asks.
        let begun = if plan.gathers() { 0 } else { self.ctx.now() };
        let mut course = Course::new(plan, end, &self.shared.slices[self.share.index]);
        let mut overdue_at = OVERDUE_TICK;
        let mut nap = Nap::new(plan);
        loop {
            let now = self.ctx.now();
            course.tick(now, &mut self.ctx);
            if end.is_some_and(|end| now >= end) || self.shared.stop.load(Ordering::Relaxed) || self.done() {
                break;
            }
            let mut wait = self.until_next(now);
            if self.ctx.is_open_loop {
                let next = self.arrive(now, now);
                self.dispatch(now);
                wait = wait.min(next.saturating_sub(self.ctx.now()));
            }
            if now >= overdue_at {
                overdue_at = now + OVERDUE_TICK;
                self.drop_overdue(now);
                self.count_ramp(now);
            }
            self.resume(now);
            self.connect_some(now);
            if !self.again.is_empty() {
                wait = 0;
            }
            if nap.is_due(now) {
                let in_flight = self.slots.iter().map(Slot::in_flight).sum();
                nap.measure(now, self.ctx.responses, in_flight);
            }
            nap.take(wait);
            self.turns(&mut events, wait)?;
            self.publish();
        }
        let mut ended = self.ctx.now();
        self.end_ramp();
        let is_timed = end.is_some_and(|end| ended >= end);
        if self.ctx.is_open_loop {
            // What was due before the end counts, noticed or not.
            if let Some(end) = end {
                self.arrive(end.min(ended), ended);
            }
        }
        if is_timed {
            course.tick(ended, &mut self.ctx);
            self.end_of_time(ended);
        }
        if self.ctx.is_open_loop || is_timed {
            self.drain(&mut events, &mut course)?;
        } else {
            self.ctx.stats.tail.left = self.unfinished();
        }
        let now = self.ctx.now();
        if !is_timed {
            ended = now;
        }
        let stats = course.end(now, &mut self.ctx);
        self.publish();
        let heads = self.ctx.caches.iter().map(|cache| cache.text().to_vec()).collect();
        let Context { records, records_dropped, .. } = self.ctx;
        let users = self.users.unwrap_or_default();
        Ok(Work { stats, span: Some((begun, ended)), records, records_dropped, heads, users })
    }

    /// How long there is nothing to do but to wait for events.
    fn until_next(&self, now: Ns) -> Ns {
        let pause = self.pauses.peek().map_or(Ns::MAX, |&Reverse((at, _))| at);
        let dial = match &self.dials {
            Some(dials) if self.fresh < self.slots.len() => dials.next_due().as_nanos() as Ns,
            _ => Ns::MAX,
        };
        TICK.min(pause.saturating_sub(now)).min(dial.saturating_sub(now))
    }

    /// Puts every request that is due by `until` into the line; gives when the next one is.
    fn arrive(&mut self, until: Ns, now: Ns) -> Ns {
        let Some(arrivals) = &mut self.arrivals else { return now };
        while self.ctx.allowance > 0 {
            let due = u64::try_from(arrivals.next_due().as_nanos()).unwrap_or(Ns::MAX);
            if due > until {
                return due;
            }
            arrivals.advance();
            self.ctx.stats.lateness.record(now - due);
            if self.ctx.waiting.len() < WAITING_REQUESTS_MAX {
                self.ctx.waiting.push_back(Due { at: due, late: now - due, again: None });
            } else {
                self.ctx.stats.unsent += 1;
            }
            if self.ctx.allowance != u64::MAX {
                self.ctx.allowance -= 1;
            }
        }
        now + TICK
    }

    /// Gives the requests that wait to connections that are free.
    fn dispatch(&mut self, now: Ns) {
        while !self.ctx.waiting.is_empty() {
            let Some(slot) = self.free.pop() else { return };
            self.is_listed[slot] = false;
            // It may have been closed or used since.
            let Slot::Open(open) = &mut self.slots[slot] else { continue };
            if open.is_free(&self.ctx) {
                let turn = open.serve(now, &mut self.ctx);
                self.after(slot, turn);
            }
        }
    }

    /// Wakes the users whose pauses are over.
    fn resume(&mut self, now: Ns) {
        while let Some(&Reverse((at, slot))) = self.pauses.peek()
            && at <= now
        {
            self.pauses.pop();
            match &mut self.slots[slot] {
                Slot::Open(open) => {
                    let turn = open.resume(at, now, &mut self.ctx);
                    self.after(slot, turn);
                }
                // Pauses that were given up stand here, too.
                &mut Slot::Away { allowance, until } if until == at => {
                    self.slots[slot] = Slot::Down(allowance);
                    self.down.push(slot);
                }
                _ => {}
            }
        }
    }

    /// The time of the run is over: notes what is under way, and in a closed loop lets nothing follow it.
    fn end_of_time(&mut self, now: Ns) {
        self.ctx.ended_at = Some(now);
        if !self.ctx.is_open_loop {
            self.ctx.allowance = 0;
        }
        let sums = self.slots.iter().map(|slot| match slot {
            Slot::Open(open) => open.under_way(now),
            Slot::Connecting { begun, .. } if !self.ctx.is_open_loop => (1, now - begun),
            _ => (0, 0),
        });
        let (count, waited) = sums.fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1));
        let lined_up: Ns = self.ctx.waiting.iter().map(|due| now - due.at).sum();
        self.ctx.stats.tail.under_way = count + self.ctx.waiting.len() as u64;
        self.ctx.stats.tail.waited_ns = waited + lined_up;
    }

    /// What is still to be waited for. In an open loop connections that nobody uses are not.
    fn unfinished(&self) -> u64 {
        let is_open_loop = self.ctx.is_open_loop;
        let of = |slot: &Slot| match slot {
            Slot::Open(open) if is_open_loop => open.in_flight(),
            Slot::Open(open) => open.in_flight() + u64::from(open.is_shaking_hands()),
            Slot::Connecting { .. } if !is_open_loop => 1,
            _ => 0,
        };
        self.slots.iter().map(of).sum::<u64>() + self.ctx.waiting.len() as u64
    }

    /// The end of an open loop, and of every run for a time: what is under way is waited for, because leaving out the slow ones
    /// would flatter the server. In an open loop what waits for a connection is still sent.
    fn drain(&mut self, events: &mut Vec<epoll::Event>, course: &mut Course<'_>) -> io::Result<()> {
        let until = self.ctx.now() + self.shared.plan.timeout.as_nanos() as Ns;
        loop {
            let now = self.ctx.now();
            course.tick(now, &mut self.ctx);
            let unfinished = self.unfinished();
            if unfinished == 0 {
                return Ok(());
            }
            if self.shared.stop.load(Ordering::Relaxed) {
                self.ctx.stats.tail.left += unfinished;
                return Ok(());
            }
            if now >= until {
                self.ctx.stats.unsent += self.ctx.waiting.len() as u64;
                self.ctx.waiting.clear();
                self.give_up();
                return Ok(());
            }
            self.dispatch(now);
            self.drop_overdue(now);
            self.connect_some(now);
            let wait = if self.again.is_empty() { TICK } else { 0 };
            self.turns(events, wait)?;
            self.publish();
        }
    }

    /// Nothing left to do, and nobody asked to keep connections.
    fn done(&self) -> bool {
        if self.ctx.is_open_loop {
            return self.ctx.allowance == 0;
        }
        self.settled == self.slots.len() as u64 && !self.shared.plan.hold
    }

    /// One wake-up: a turn for each connection with an event, then for those that had more.
    pub(super) fn turns(&mut self, events: &mut Vec<epoll::Event>, wait: Ns) -> io::Result<()> {
        events.clear();
        let wait = self.ring(wait);
        match self.take_events(events, wait) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let again = std::mem::take(&mut self.again);
        for event in &*events {
            let (slot, flags) = (event.data.u64() as usize, event.flags);
            self.turn(slot, flags);
        }
        for slot in again {
            self.turn(slot, epoll::EventFlags::IN);
        }
        Ok(())
    }

    /// Turns for connections whose time has come; gives how long the next ones have still, `wait` at most.
    fn ring(&mut self, wait: Ns) -> Ns {
        if self.alarms.is_empty() {
            return wait;
        }
        let now = Instant::now();
        while let Some(&Reverse((at, slot))) = self.alarms.peek() {
            if at > now {
                return wait.min((at - now).as_nanos() as Ns);
            }
            self.alarms.pop();
            if self.armed[slot] == Some(at) {
                self.armed[slot] = None;
                self.turn(slot, epoll::EventFlags::empty());
            }
        }
        wait
    }

    /// Remembers when a slot's connection is to have a turn. An earlier time that is known already is good enough: it is asked again then.
    fn arm(&mut self, slot: usize) {
        let (Slot::Open(open) | Slot::Settled(Some(open))) = &mut self.slots[slot] else { return };
        if let Some(at) = open.alarm()
            && self.armed[slot].is_none_or(|known| at < known)
        {
            self.armed[slot] = Some(at);
            self.alarms.push(Reverse((at, slot)));
        }
    }

    /// Gives a slot's connection another socket, if there is one to be had.
    fn give_socket(&mut self, slot: usize) {
        let (plan, number) = (&self.shared.plan, self.number(slot));
        let made = dial(plan, &plan.sites[number % plan.sites.len()].endpoint, number);
        let Slot::Open(open) = &mut self.slots[slot] else { return };
        if let Ok(Dialled::Connected(socket)) = made
            && register(&self.epoll, &socket, slot)
        {
            open.move_to(socket, &mut self.ctx);
        }
        let turn = open.ready(false, false, &mut self.ctx);
        self.after(slot, turn);
    }

    /// Waits for events, and takes them. Before Linux 5.11 epoll waits for whole milliseconds; what is due sooner is waited for
    /// with poll, so that it is not late on that account.
    fn take_events(&self, events: &mut Vec<epoll::Event>, wait: Ns) -> Result<usize, Errno> {
        let mut left = wait;
        if !wait.is_multiple_of(1_000_000) {
            poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&timespec(wait)))?;
            left = 0;
        }
        epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), Some(&timespec(left)))
    }

    #[inline]
    fn turn(&mut self, slot: usize, flags: epoll::EventFlags) {
        const HUNG_UP: epoll::EventFlags =
            epoll::EventFlags::RDHUP.union(epoll::EventFlags::HUP).union(epoll::EventFlags::ERR);
        let turn = match &mut self.slots[slot] {
            Slot::Open(open) => {
                let writable = flags.contains(epoll::EventFlags::OUT);
                open.ready(writable, flags.intersects(HUNG_UP), &mut self.ctx)
            }
            Slot::Connecting { .. } => return self.connected(slot),
            Slot::Settled(Some(open)) => match open.ready(false, true, &mut self.ctx) {
                Turn::Over { .. } => {
                    self.slots[slot] = Slot::Settled(None);
                    return;
                }
                _ => return self.arm(slot),
            },
            Slot::Down(_) | Slot::Away { .. } | Slot::Settled(None) => return,
        };
        self.after(slot, turn);
    }

    /// Moves a slot on to what its connection's turn led to.
    #[inline]
    pub(super) fn after(&mut self, slot: usize, turn: Turn) {
        match turn {
            Turn::Wait => {}
            Turn::Move => return self.give_socket(slot),
            Turn::Free => {
                if !std::mem::replace(&mut self.is_listed[slot], true) {
                    self.free.push(slot);
                }
            }
            Turn::More => self.again.push(slot),
            Turn::Pause(until) => self.pauses.push(Reverse((until, slot))),
            Turn::Settled => {
                let state = std::mem::replace(&mut self.slots[slot], Slot::Settled(None));
                if let Slot::Open(open) = state {
                    self.settle(slot, open);
                }
            }
            Turn::Over { early, until } => {
                let state = std::mem::replace(&mut self.slots[slot], Slot::Settled(None));
                if let Slot::Open(open) = state {
                    self.reopen(slot, open.allowance(), !early, until);
                }
            }
        }
        self.arm(slot);
    }

    fn settle(&mut self, slot: usize, mut open: Open) {
        open.opened(&mut self.ctx);
        self.settled += 1;
        self.slots[slot] = Slot::Settled(self.shared.plan.hold.then_some(open));
    }

    /// A slot has lost its connection: connect again if there is more to send, behind the user's pause if it makes one.
    fn reopen(&mut self, slot: usize, allowance: u64, at_once: bool, until: Option<Ns>) {
        if !self.ctx.is_open_loop && (allowance == 0 || self.ctx.allowance == 0) {
            self.settled += 1;
            return;
        }
        if let Some(until) = until {
            self.slots[slot] = Slot::Away { allowance, until };
            self.pauses.push(Reverse((until, slot)));
        } else {
            self.slots[slot] = Slot::Down(allowance);
            self.down.push(slot);
        }
        // Before the clock starts there is no second attempt to wait for.
        if !at_once && !self.ctx.is_gathering {
            self.retry_at = Some(self.ctx.now() + RETRY_DELAY);
        }
    }

    /// The next slot to connect: one that had a connection before those that never had one.
    fn next_down(&mut self, now: Ns) -> Option<usize> {
        // Before the clock starts, each user comes once, and no more than there are requests.
        let is_one_more = self.ctx.ready + self.ctx.opening < self.wanted_users();
        if self.ctx.is_gathering && !is_one_more {
            return None;
        }
        if !self.ctx.is_gathering
            && let Some(slot) = self.down.pop()
        {
            return Some(slot);
        }
        if self.fresh == self.slots.len() {
            return None;
        }
        if let Some(dials) = &mut self.dials {
            if dials.next_due().as_nanos() as Ns > now {
                return None;
            }
            dials.advance();
        }
        self.fresh += 1;
        Some(self.fresh - 1)
    }

    /// Connects slots that are down, as far as the opening limit allows.
    pub(super) fn connect_some(&mut self, now: Ns) {
        if (self.down.is_empty() && self.fresh == self.slots.len())
            || self.retry_at.is_some_and(|at| now < at)
        {
            return;
        }
        self.retry_at = None;
        let plan = &self.shared.plan;
        while self.ctx.opening < plan.opening_max && self.retry_at.is_none() {
            let Some(slot) = self.next_down(now) else { return };
            let Slot::Down(allowance) = self.slots[slot] else { continue };
            if !self.ctx.is_open_loop && self.ctx.allowance == 0 {
                self.slots[slot] = Slot::Settled(None);
                self.settled += 1;
                continue;
            }
            let index = self.number(slot);
            self.ctx.opening += 1;
            let begun = self.ctx.now();
            match dial(plan, &plan.sites[index % plan.sites.len()].endpoint, index) {
                Ok(Dialled::Connected(socket)) => {
                    self.slots[slot] = Slot::Connecting { socket, allowance, begun };
                    if self.watch(slot) {
                        self.open(slot);
                    }
                }
                Ok(Dialled::Connecting(socket)) => {
                    self.slots[slot] = Slot::Connecting { socket, allowance, begun };
                    self.watch(slot);
                }
                // A unix socket whose backlog is full; it is not refused.
                Err(Errno::AGAIN) => {
                    self.ctx.opening -= 1;
                    self.down.push(slot);
                    self.retry_at = Some(now + RETRY_DELAY);
                }
                Err(error) => self.not_connected(slot, allowance, begun, kind_of(error)),
            }
        }
    }

    /// A slot's number over all threads.
    fn number(&self, slot: usize) -> usize {
        slot * self.share.of + self.share.index
    }

    /// Registers a slot's socket.
    fn watch(&mut self, slot: usize) -> bool {
        let Slot::Connecting { socket, allowance, begun } = &self.slots[slot] else { return false };
        if register(&self.epoll, socket, slot) {
            return true;
        }
        let (allowance, begun) = (*allowance, *begun);
        self.not_connected(slot, allowance, begun, ErrorKind::Connect);
        false
    }

    /// A connect under way has come to something.
    fn connected(&mut self, slot: usize) {
        let Slot::Connecting { socket, allowance, begun } = &self.slots[slot] else { return };
        let error = match sockopt::socket_error(socket) {
            Ok(Ok(())) => return self.open(slot),
            Ok(Err(error)) | Err(error) => error,
        };
        let (allowance, begun) = (*allowance, *begun);
        self.not_connected(slot, allowance, begun, kind_of(error));
    }

    fn open(&mut self, slot: usize) {
        let state = std::mem::replace(&mut self.slots[slot], Slot::Settled(None));
        let Slot::Connecting { socket, allowance, begun } = state else { return };
        let number = self.number(slot);
        let connect_ns = self.ctx.now() - begun;
        self.has_come[slot] = true;
        self.ctx.stats.connects += 1;
        if self.shared.plan.version != Version::H3 {
            self.ctx.stats.connect.record(connect_ns);
        }
        let made = Made { number: number as u32, user: slot as u32, connect_ns, tls_ns: 0 };
        let site = number % self.shared.plan.sites.len();
        let mut open = Open::new(socket, site, allowance, made, &self.ctx);
        let turn = open.begin(&mut self.ctx);
        self.slots[slot] = Slot::Open(open);
        self.after(slot, turn);
    }

    fn not_connected(&mut self, slot: usize, allowance: u64, begun: Ns, kind: ErrorKind) {
        self.ctx.opening -= 1;
        // In an open loop a connection that nobody needs yet costs no request; one that waits for it fails with it: a
        // line that nobody serves must not grow until the end.
        // Nor does one that comes when all requests have been sent or have failed.
        let is_wanted = if self.ctx.is_open_loop {
            self.ctx.waiting.pop_front().is_some()
        } else {
            self.ctx.allowance > 0 || self.ctx.ended_at.is_some()
        };
        if is_wanted {
            let made = Made { number: self.number(slot) as u32, ..Made::default() };
            self.ctx.not_connected(kind, begun, made);
        }
        // With a bounded number of requests, one that cannot be sent is one that failed.
        let allowance = if allowance == u64::MAX { allowance } else { allowance - 1 };
        if !self.ctx.is_open_loop && self.ctx.allowance != u64::MAX {
            self.ctx.allowance = self.ctx.allowance.saturating_sub(1);
        }
        self.slots[slot] = Slot::Settled(None);
        self.reopen(slot, allowance, false, None);
    }

    fn drop_overdue(&mut self, now: Ns) {
        let Some(limit) = now.checked_sub(self.shared.plan.timeout.as_nanos() as Ns) else { return };
        for slot in 0..self.slots.len() {
            let turn = match &mut self.slots[slot] {
                Slot::Open(open) if open.overdue(limit) => open.give_up(ErrorKind::Timeout, &mut self.ctx),
                Slot::Connecting { allowance, begun, .. } if *begun < limit => {
                    let (allowance, begun) = (*allowance, *begun);
                    self.not_connected(slot, allowance, begun, ErrorKind::ConnectTimeout);
                    continue;
                }
                _ => continue,
            };
            self.after(slot, turn);
        }
    }

    /// Nothing is waited for any longer.
    fn give_up(&mut self) {
        let is_open_loop = self.ctx.is_open_loop;
        for slot in 0..self.slots.len() {
            let turn = match &mut self.slots[slot] {
                Slot::Open(open) if open.in_flight() > 0 || (!is_open_loop && open.is_shaking_hands()) => {
                    open.give_up(ErrorKind::Timeout, &mut self.ctx)
                }
                Slot::Connecting { allowance, begun, .. } if !is_open_loop => {
                    let (allowance, begun) = (*allowance, *begun);
                    self.not_connected(slot, allowance, begun, ErrorKind::ConnectTimeout);
                    continue;
                }
                _ => continue,
            };
            self.after(slot, turn);
        }
    }

    /// Shows the counters to whoever watches the run.
    pub(super) fn publish(&self) {
        let counters = &self.shared.counters[self.share.index];
        counters.responses.store(self.ctx.responses, Ordering::Relaxed);
        counters.bytes.store(self.ctx.bytes, Ordering::Relaxed);
        counters.errors.store(self.ctx.errors, Ordering::Relaxed);
        counters.settled.store(self.settled, Ordering::Relaxed);
        if self.ctx.is_gathering {
            counters.users.store(self.ctx.ready as u64, Ordering::Relaxed);
        }
    }
}

/// Has events of a slot's socket told, once and for all: they come as edges.
fn register(epoll: &OwnedFd, socket: &OwnedFd, slot: usize) -> bool {
    let flags =
        epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
    epoll::add(epoll, socket, epoll::EventData::new_u64(slot as u64), flags).is_ok()
}
