//! One thread's loop: its slots, their events, its share of the plan.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::sockopt;

use super::Shared;
use super::conn::{Open, Turn};
use super::dial::{Dialled, dial};
use crate::arrivals::Arrivals;
use crate::plan::{Order, Plan, Stop, Target};
use crate::response::HeadCache;
use crate::rng::Rng;
use crate::stats::{ErrorKind, Stats};
use crate::system;

/// Events taken per wake-up.
const EVENTS_MAX: usize = 512;
/// The read buffer, shared by a thread's connections.
const BUFFER_BYTES: usize = 128 * 1024;
/// How often a loop without events looks at the stop flag.
const TICK: Duration = Duration::from_millis(20);
/// How often connections are checked for overdue responses.
const OVERDUE_TICK: Duration = Duration::from_millis(250);
/// Requests of an open loop that wait for a connection, per thread; beyond it they count as not sent at once.
const WAITING_MAX: usize = 1 << 20;
/// How long to wait after a connection could not be made.
const RETRY_DELAY: Duration = Duration::from_millis(10);

/// Which thread of how many.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    /// This thread, from 0.
    pub index: usize,
    /// All threads.
    pub of: usize,
}

impl Share {
    /// This thread's part of `total`, so that all parts add up to it.
    fn part(self, total: u64) -> u64 {
        total / self.of as u64 + u64::from((self.index as u64) < total % self.of as u64)
    }
}

/// What a connection borrows from its thread while it has its turn.
pub struct Context<'a> {
    /// All targets, site after site.
    pub targets: Vec<&'a Target>,
    /// The last head seen on each target.
    pub caches: Vec<HeadCache>,
    /// The read buffer.
    pub buffer: Box<[u8]>,
    /// Responses as they come out of records.
    pub plain: Vec<u8>,
    /// Room to seal requests in.
    pub sealed: Vec<u8>,
    /// Room to put pipelined requests together.
    pub batch: Vec<u8>,
    /// The counted part.
    pub stats: Stats,
    /// Responses since the start.
    pub responses: u64,
    /// Bytes since the start.
    pub bytes: u64,
    /// Errors since the start.
    pub errors: u64,
    /// Connections between connect and first response.
    pub opening: usize,
    /// Requests that this thread may still send.
    pub allowance: u64,
    /// Requests in flight per connection.
    pub pipeline: usize,
    /// In an open loop, when the requests were due that wait for a connection; the first has waited longest.
    pub waiting: VecDeque<Instant>,
    arrivals: Option<Arrivals>,
    order: Order,
    picks: Vec<Pick>,
    rng: Rng,
}

/// Where a site's targets lie in the flat list, and which is next.
struct Pick {
    first: usize,
    count: usize,
    next: usize,
}

impl<'a> Context<'a> {
    fn new(plan: &'a Plan, share: Share) -> Self {
        let mut picks = Vec::new();
        let mut first = 0;
        for site in &plan.sites {
            let count = site.targets.len();
            // Threads start at different targets, as far as there are any.
            picks.push(Pick { first, count, next: share.index * count / share.of });
            first += count;
        }
        Self {
            targets: plan.sites.iter().flat_map(|site| &site.targets).collect(),
            caches: (0..first).map(|_| HeadCache::default()).collect(),
            buffer: vec![0; BUFFER_BYTES].into(),
            plain: Vec::new(),
            sealed: Vec::new(),
            batch: Vec::new(),
            stats: Stats::default(),
            responses: 0,
            bytes: 0,
            errors: 0,
            opening: 0,
            allowance: match plan.stop {
                Stop::Requests(total) => share.part(total),
                _ => u64::MAX,
            },
            pipeline: plan.pipeline,
            waiting: VecDeque::new(),
            arrivals: plan.rate.map(|rate| Arrivals::new(rate, share.index, share.of)),
            order: plan.order,
            picks,
            rng: Rng::new(share.index as u64),
        }
    }

    /// Whether requests come when they are due, and not when others were answered.
    #[inline]
    pub fn is_open_loop(&self) -> bool {
        self.arrivals.is_some()
    }

    /// The next target of a site, as an index into [`Self::targets`].
    #[inline]
    pub fn next_target(&mut self, site: usize) -> usize {
        let pick = &mut self.picks[site];
        if pick.count == 1 {
            return pick.first;
        }
        match self.order {
            Order::RoundRobin => {
                let target = pick.first + pick.next;
                pick.next = (pick.next + 1) % pick.count;
                target
            }
            Order::Random => pick.first + self.rng.below(pick.count),
        }
    }
}

/// A place for one connection after another.
enum Slot {
    /// No connection; so many requests left to send on the next.
    Down(u64),
    /// A connect is under way.
    Connecting(OwnedFd, u64),
    /// A connection at work.
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

/// One thread of a run.
pub struct Worker<'a> {
    shared: &'a Shared,
    share: Share,
    epoll: OwnedFd,
    slots: Vec<Slot>,
    /// Slots to connect.
    down: Vec<usize>,
    /// Slots that had more to read than one turn allows.
    again: Vec<usize>,
    /// In an open loop, slots whose connection had nothing in flight when they were put here; the last one first.
    free: Vec<usize>,
    retry_at: Option<Instant>,
    settled: u64,
    ctx: Context<'a>,
}

impl<'a> Worker<'a> {
    /// Pins the thread and makes its slots; connections are made by [`Self::run`].
    pub fn new(shared: &'a Shared, share: Share) -> io::Result<Self> {
        let plan = &shared.plan;
        if !plan.cpus.is_empty() {
            system::pin_to_cpu(plan.cpus[share.index % plan.cpus.len()])?;
        }
        let slots = share.part(plan.connections as u64) as usize;
        let allowance = match plan.stop {
            Stop::RequestsPerConnection(count) => count,
            _ => u64::MAX,
        };
        Ok(Self {
            shared,
            share,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            slots: (0..slots).map(|_| Slot::Down(allowance)).collect(),
            down: (0..slots).rev().collect(),
            again: Vec::new(),
            free: Vec::new(),
            retry_at: None,
            settled: 0,
            ctx: Context::new(plan, share),
        })
    }

    /// Works until the plan's end.
    pub fn run(mut self) -> io::Result<Stats> {
        let plan = &self.shared.plan;
        let started = Instant::now();
        let count_from = started + plan.warmup;
        let end = match plan.stop {
            Stop::After(duration) => Some(count_from + duration),
            _ => None,
        };
        let mut warm = plan.warmup > Duration::ZERO;
        let mut cpu_before = system::thread_cpu_ns();
        let mut overdue_at = started + OVERDUE_TICK;
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS_MAX];
        loop {
            let now = Instant::now();
            if warm && now >= count_from {
                warm = false;
                self.ctx.stats = Stats::default();
                cpu_before = system::thread_cpu_ns();
            }
            if end.is_some_and(|end| now >= end) || self.shared.stop.load(Ordering::Relaxed) || self.done() {
                break;
            }
            let mut wait = TICK;
            if self.ctx.is_open_loop() {
                let next = self.arrive(started, now);
                self.dispatch(now);
                wait = wait.min(next.saturating_duration_since(Instant::now()));
            }
            if now >= overdue_at {
                overdue_at = now + OVERDUE_TICK;
                self.drop_overdue(now);
            }
            self.connect_some(now);
            if !self.again.is_empty() {
                wait = Duration::ZERO;
            }
            self.turns(&mut events, wait)?;
            self.publish();
        }
        if self.ctx.is_open_loop() {
            self.drain(&mut events)?;
        }
        self.ctx.stats.generator_cpu_ns = system::thread_cpu_ns().saturating_sub(cpu_before);
        self.publish();
        Ok(self.ctx.stats)
    }

    /// Puts every request that is due into the line; gives when the next one is.
    fn arrive(&mut self, started: Instant, now: Instant) -> Instant {
        let Some(arrivals) = &mut self.ctx.arrivals else { return now };
        while self.ctx.allowance > 0 {
            let Some(due) = started.checked_add(arrivals.next_due()) else { break };
            if due > now {
                return due;
            }
            arrivals.advance();
            self.ctx.stats.lateness.record((now - due).as_nanos() as u64);
            if self.ctx.waiting.len() < WAITING_MAX {
                self.ctx.waiting.push_back(due);
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
    fn dispatch(&mut self, now: Instant) {
        while !self.ctx.waiting.is_empty() {
            let Some(slot) = self.free.pop() else { return };
            // It may have been closed or used since.
            let Slot::Open(open) = &mut self.slots[slot] else { continue };
            if open.is_free() {
                let turn = open.serve(now, &mut self.ctx);
                self.after(slot, turn);
            }
        }
    }

    /// The end of an open loop: what is under way is waited for, because leaving out the slow ones would flatter the
    /// server. What waits for a connection is still sent.
    fn drain(&mut self, events: &mut [MaybeUninit<epoll::Event>]) -> io::Result<()> {
        let until = Instant::now() + self.shared.plan.timeout;
        loop {
            let now = Instant::now();
            let in_flight: u64 = self.slots.iter().map(Slot::in_flight).sum();
            if in_flight == 0 && self.ctx.waiting.is_empty() {
                return Ok(());
            }
            if now >= until || self.shared.stop.load(Ordering::Relaxed) {
                self.ctx.stats.unsent += self.ctx.waiting.len() as u64;
                self.ctx.stats.error(ErrorKind::Timeout, in_flight);
                self.ctx.errors += in_flight;
                return Ok(());
            }
            self.dispatch(now);
            self.drop_overdue(now);
            self.connect_some(now);
            let wait = if self.again.is_empty() { TICK } else { Duration::ZERO };
            self.turns(events, wait)?;
            self.publish();
        }
    }

    /// Nothing left to do, and nobody asked to keep connections.
    fn done(&self) -> bool {
        if self.ctx.is_open_loop() {
            return self.ctx.allowance == 0;
        }
        self.settled == self.slots.len() as u64 && !self.shared.plan.hold
    }

    /// One wake-up: a turn for each connection with an event, then for those that had more.
    fn turns(&mut self, events: &mut [MaybeUninit<epoll::Event>], wait: Duration) -> io::Result<()> {
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        let events = match epoll::wait(&self.epoll, events, Some(&wait)) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
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

    #[inline]
    fn turn(&mut self, slot: usize, flags: epoll::EventFlags) {
        const HUNG_UP: epoll::EventFlags =
            epoll::EventFlags::RDHUP.union(epoll::EventFlags::HUP).union(epoll::EventFlags::ERR);
        let turn = match &mut self.slots[slot] {
            Slot::Open(open) => {
                let writable = flags.contains(epoll::EventFlags::OUT);
                open.ready(writable, flags.intersects(HUNG_UP), &mut self.ctx)
            }
            Slot::Connecting(..) => return self.connected(slot),
            Slot::Settled(Some(open)) => match open.ready(false, true, &mut self.ctx) {
                Turn::Over { .. } => {
                    self.slots[slot] = Slot::Settled(None);
                    return;
                }
                _ => return,
            },
            Slot::Down(_) | Slot::Settled(None) => return,
        };
        self.after(slot, turn);
    }

    /// Moves a slot on to what its connection's turn led to.
    #[inline]
    fn after(&mut self, slot: usize, turn: Turn) {
        match turn {
            Turn::Wait => {}
            Turn::Free => self.free.push(slot),
            Turn::More => self.again.push(slot),
            Turn::Settled => {
                let state = std::mem::replace(&mut self.slots[slot], Slot::Settled(None));
                if let Slot::Open(open) = state {
                    self.settle(slot, open);
                }
            }
            Turn::Over { early } => {
                let state = std::mem::replace(&mut self.slots[slot], Slot::Settled(None));
                if let Slot::Open(open) = state {
                    self.reopen(slot, open.allowance(), !early);
                }
            }
        }
    }

    fn settle(&mut self, slot: usize, mut open: Open) {
        open.opened(&mut self.ctx);
        self.settled += 1;
        self.slots[slot] = Slot::Settled(self.shared.plan.hold.then_some(open));
    }

    /// A slot has lost its connection: connect again if there is more to send.
    fn reopen(&mut self, slot: usize, allowance: u64, at_once: bool) {
        if !self.ctx.is_open_loop() && (allowance == 0 || self.ctx.allowance == 0) {
            self.settled += 1;
            return;
        }
        self.slots[slot] = Slot::Down(allowance);
        self.down.push(slot);
        if !at_once {
            self.retry_at = Some(Instant::now() + RETRY_DELAY);
        }
    }

    /// Connects slots that are down, as far as the opening limit allows.
    fn connect_some(&mut self, now: Instant) {
        if self.down.is_empty() || self.retry_at.is_some_and(|at| now < at) {
            return;
        }
        self.retry_at = None;
        let plan = &self.shared.plan;
        while self.ctx.opening < plan.opening_max && self.retry_at.is_none() {
            let Some(slot) = self.down.pop() else { return };
            let Slot::Down(allowance) = self.slots[slot] else { continue };
            let index = slot * self.share.of + self.share.index;
            let site = index % plan.sites.len();
            self.ctx.opening += 1;
            match dial(&plan.sites[site].endpoint, index) {
                Ok(Dialled::Connected(socket)) => {
                    self.slots[slot] = Slot::Connecting(socket, allowance);
                    if self.watch(slot) {
                        self.open(slot);
                    }
                }
                Ok(Dialled::Connecting(socket)) => {
                    self.slots[slot] = Slot::Connecting(socket, allowance);
                    self.watch(slot);
                }
                // A unix socket whose backlog is full; it is not refused.
                Err(Errno::AGAIN) => {
                    self.ctx.opening -= 1;
                    self.down.push(slot);
                    self.retry_at = Some(now + RETRY_DELAY);
                }
                Err(_) => self.not_connected(slot, allowance),
            }
        }
    }

    /// Registers a slot's socket, once and for all events: they come as edges.
    fn watch(&mut self, slot: usize) -> bool {
        let Slot::Connecting(socket, allowance) = &self.slots[slot] else { return false };
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        if epoll::add(&self.epoll, socket, epoll::EventData::new_u64(slot as u64), flags).is_ok() {
            return true;
        }
        let allowance = *allowance;
        self.not_connected(slot, allowance);
        false
    }

    /// A connect under way has come to something.
    fn connected(&mut self, slot: usize) {
        let Slot::Connecting(socket, allowance) = &self.slots[slot] else { return };
        match sockopt::socket_error(socket) {
            Ok(Ok(())) => self.open(slot),
            _ => {
                let allowance = *allowance;
                self.not_connected(slot, allowance);
            }
        }
    }

    fn open(&mut self, slot: usize) {
        let state = std::mem::replace(&mut self.slots[slot], Slot::Settled(None));
        let Slot::Connecting(socket, allowance) = state else { return };
        self.ctx.stats.connects += 1;
        let index = slot * self.share.of + self.share.index;
        let mut open = Open::new(socket, index % self.shared.plan.sites.len(), allowance);
        let turn = open.begin(self.shared.plan.tls.as_ref(), &mut self.ctx);
        self.slots[slot] = Slot::Open(open);
        self.after(slot, turn);
    }

    fn not_connected(&mut self, slot: usize, allowance: u64) {
        self.ctx.opening -= 1;
        // In an open loop a connection that nobody needs yet costs no request; one that waits for it fails with it: a
        // line that nobody serves must not grow until the end.
        if !self.ctx.is_open_loop() || self.ctx.waiting.pop_front().is_some() {
            self.ctx.stats.error(ErrorKind::Connect, 1);
            self.ctx.errors += 1;
        }
        // With a bounded number of requests, one that cannot be sent is one that failed.
        let allowance = if allowance == u64::MAX { allowance } else { allowance - 1 };
        if !self.ctx.is_open_loop() && self.ctx.allowance != u64::MAX {
            self.ctx.allowance = self.ctx.allowance.saturating_sub(1);
        }
        self.slots[slot] = Slot::Settled(None);
        self.reopen(slot, allowance, false);
    }

    fn drop_overdue(&mut self, now: Instant) {
        let Some(limit) = now.checked_sub(self.shared.plan.timeout) else { return };
        for slot in 0..self.slots.len() {
            let turn = match &mut self.slots[slot] {
                Slot::Open(open) if open.overdue(limit) => open.give_up(ErrorKind::Timeout, &mut self.ctx),
                _ => continue,
            };
            self.after(slot, turn);
        }
    }

    /// Shows the counters to whoever watches the run.
    fn publish(&self) {
        let counters = &self.shared.counters[self.share.index];
        counters.responses.store(self.ctx.responses, Ordering::Relaxed);
        counters.bytes.store(self.ctx.bytes, Ordering::Relaxed);
        counters.errors.store(self.ctx.errors, Ordering::Relaxed);
        counters.settled.store(self.settled, Ordering::Relaxed);
    }
}
