//! What one event-loop thread does with its connections, caches and present configuration.
//!
//! How a request is answered it must not know: it says whose turn it is, moves connections between their states, and
//! ends them when a configuration, the process or the memory does.

use crate::conf::ids::{ListenId, LocationId, ServerId};
use crate::conf::late::Ground;
use crate::connection::Connection;
use crate::counters::Counters;
use crate::driver;
use crate::files::Files;
use crate::h1::parked::{Burst, Parked};
use crate::interim::learned::Learned;
use crate::late::Store;
use crate::limits::ARENA_BYTES;
pub use crate::live::Live;
use crate::module::Module;
use crate::plan::{Plan, Trailers};
use crate::prepared::Prepared;
use crate::quic::{Quic, turn};
use crate::request::Request;
use crate::serving::{Http, Served};
use crate::shared::Seat;
pub use crate::shared::Shared;
use crate::stream::Session;
pub use crate::table::Thread;
use crate::table::{Awake, Slot, State};
use crate::vars::Table;
use brisk_host::log::{LogFile, LogTarget};
use brisk_host::peer::{Cut, Peer};
pub(crate) use brisk_host::thread::LISTENER_KEY;
pub use brisk_host::thread::Listener;
use brisk_host::thread::{Passed, Protocol};
use brisk_net::listen::Address;
use brisk_net::{Driver, Loop, clock};
use rustix::fd::OwnedFd;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

impl Served for Http {
    type Plan = Plan;
    type Vars = Table;
    type Module = Module;
    type Request = Request;
    type Parked = Parked;
    type Burst = Burst;
    type Learned = Learned;
    type Prepared = Prepared;
    type Trailers = dyn Trailers;
    type Ground = Ground;
    type Late = Arc<Store>;
    type Quic = Quic;
}

impl Live {
    /// `keepalive_min_timeout`: a client that has just got an answer may be sending its next request, so until then its
    /// connection is not closed without need.
    fn kept_until(&self, slot: &Slot) -> u64 {
        self.default_core(&slot.conn.listener).map_or(0, |core| {
            // The deadline says when the last answer was: nothing else is kept of that.
            let idle_since = slot.deadline_ms.saturating_sub(core.keepalive_timeout.as_millis() as u64);
            // Never longer than it would have been kept anyway.
            let least = core.keepalive_min_timeout.min(core.keepalive_timeout);
            idle_since + least.as_millis() as u64
        })
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Thread>>> = const { RefCell::new(None) };
}

impl Thread {
    /// Makes this thread a worker thread. Its loop must be installed.
    pub fn install(index: usize, shared: Arc<Shared>, live: Live) -> Rc<Thread> {
        let host = brisk_host::thread::Thread::install(index, shared.base.clone(), live.base.clone());
        let thread = Rc::new(Thread {
            host,
            seat: Rc::new(Seat { shared: shared.clone(), index }),
            files: Files::new(shared.clone(), index),
            shared,
            live: RefCell::new(Rc::new(live)),
            slots: RefCell::default(),
            free: RefCell::default(),
            requests: RefCell::default(),
            flights: RefCell::default(),
            learned: RefCell::default(),
            arena: RefCell::new(vec![0; ARENA_BYTES]),
            turn: Cell::new(0),
            out: RefCell::new(Vec::with_capacity(64 << 10)),
            burst: RefCell::default(),
            block: RefCell::default(),
            scratch: RefCell::default(),
            block_in: RefCell::default(),
            dirty: RefCell::default(),
            quic: Quic::default(),
            date: Cell::new((0, [0; 29])),
            aside: Cell::new(0),
        });
        // The host accepts for all protocols; which one a socket has it asks them.
        thread.host.add_protocol(Rc::new(Serves(thread.clone())));
        // Last: work from other threads finds a thread that is complete, or none.
        CURRENT.set(Some(thread.clone()));
        thread
    }

    /// This thread, for work that comes from other threads.
    pub fn current() -> Option<Rc<Thread>> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// This thread's own counters.
    #[inline]
    pub(crate) fn counters(&self) -> &Counters {
        &self.seat
    }

    /// The present configuration, for requests that come now.
    pub fn live(&self) -> Rc<Live> {
        self.live.borrow().clone()
    }

    /// The `Date` header's value, formatted once per second.
    #[inline]
    pub fn date(&self) -> [u8; 29] {
        let secs = clock::now().unix_secs;
        let (at, text) = self.date.get();
        if at == secs {
            return text;
        }
        let text = brisk_http::date::format_imf(secs);
        self.date.set((secs, text));
        text
    }

    /// An empty request, used before or new.
    pub(crate) fn take_request(self: &Rc<Self>) -> Box<Request> {
        let live = self.live();
        match self.requests.borrow_mut().pop() {
            Some(mut r) => {
                r.live = live;
                r
            }
            None => Box::new(Request::new(self.clone(), live)),
        }
    }

    pub(crate) fn put_request(&self, mut r: Box<Request>) {
        r.renew();
        let mut pool = self.requests.borrow_mut();
        // A pooled request must not keep an old configuration alive, nor what was compiled late.
        let is_current = Rc::ptr_eq(&r.live, &self.live.borrow()) || self.comes_back(&mut r);
        // A request whose head was large gives its buffer back, so that the pool holds usual ones only.
        if is_current && pool.len() < crate::limits::POOLED_REQUESTS_MAX && r.head.buf.capacity() <= 64 << 10
        {
            pool.push(r);
        }
    }

    /// Leads a request out of what was compiled late; whether its configuration is the present one then.
    #[cold]
    fn comes_back(&self, r: &mut Request) -> bool {
        r.leave_late();
        Rc::ptr_eq(&r.live, &self.live.borrow())
    }

    /// Frees the requests that are kept for later ones.
    pub(crate) fn drop_spare_requests(&self) {
        self.requests.borrow_mut().clear();
    }

    /// Lets go of all of the configuration but what the end of a response needs.
    pub(crate) fn reduce(&self, r: &mut Request) {
        // What is kept of the configuration is renumbered: server and location are the first of theirs.
        r.live = Rc::new(r.live.reduced(r.route.server, r.route.loc));
        (r.route.server, r.route.loc) = (ServerId(0), LocationId(0));
    }

    pub(crate) fn find_listen(&self, address: &Address) -> Option<ListenId> {
        let live = self.live();
        let group = address.group();
        // By address and not by number: numbers are the configuration's, and a reload may order them anew.
        let at = live.snap.listens.iter().position(|l| l.address == group)?;
        Some(ListenId(at as u32))
    }

    /// Takes another configuration. Requests that run keep theirs, for `worker_shutdown_timeout` at most; connections
    /// take the new one with their next request, if their socket is still listened on.
    pub fn switch(self: &Rc<Self>, live: Live, sockets: Vec<(Address, OwnedFd)>) -> std::io::Result<()> {
        let base = live.base.clone();
        // Before the host switches: sockets that it accepts from then on are looked up in the new one.
        let old = self.live.replace(Rc::new(live));
        // Kept requests hold the old configuration.
        self.requests.borrow_mut().clear();
        drop(old);
        self.host.switch(base, sockets)
    }

    fn drain_idle(&self) {
        self.sessions(|_| true, |session, conn| session.drain(conn));
        let count = self.slots.borrow().len() as u32;
        (0..count).for_each(|index| self.end_idle(index));
    }

    /// Nothing new comes: ends a connection that waits for its next request. As in nginx, one that has not brought its first request yet is still
    /// served.
    pub(crate) fn end_idle(&self, index: u32) {
        let until = {
            let slots = self.slots.borrow();
            let Some(slot) = slots[index as usize].1.as_ref() else { return };
            let waits = matches!(slot.state, State::Idle) && slot.conn.requests.get() > 0;
            // A request that has come and was not read is served, too: closing now would answer it by a reset.
            if !waits || slot.conn.session().is_some() || slot.conn.has_unread() {
                return;
            }
            self.live().kept_until(slot)
        };
        if clock::mono_ms() < until { self.look_again(index, until) } else { self.release(index) }
    }

    /// Ends what is served by a configuration before `generation`, and connections that were accepted under one and
    /// have brought nothing yet.
    fn cut_old(&self, generation: u64) {
        let is_old = |conn: &Connection| conn.generation.get() < generation;
        self.close_idle(|conn| is_old(conn) && conn.requests.get() == 0);
        self.sessions(|_| true, |session, _| session.cut(generation));
        let tasks: Vec<Rc<Cut>> = {
            let slots = self.slots.borrow();
            let busy = slots.iter().filter_map(|(_, slot)| slot.as_ref()).filter(|slot| is_old(&slot.conn));
            busy.filter_map(|slot| if let State::Busy(cut) = &slot.state { Some(cut.clone()) } else { None })
                .collect()
        };
        // Outside of the borrow: an order wakes a task, which may look into the table.
        tasks.iter().for_each(|cut| cut.order());
        // Parked requests have no task that could be ordered to end: their connection is closed.
        self.close_if(|slot| matches!(slot.state, State::Parked(_)) && is_old(&slot.conn));
    }

    /// Does something to connections that carry several requests at a time.
    fn sessions(&self, which: impl Fn(&Connection) -> bool, what: impl Fn(&dyn Session, &Rc<Connection>)) {
        // Collected first: what is done to a session may close it, which changes the table.
        let all: Vec<Rc<Connection>> = {
            let slots = self.slots.borrow();
            let conns = slots.iter().filter_map(|(_, slot)| slot.as_ref()).map(|slot| &slot.conn);
            conns.filter(|conn| conn.session().is_some() && which(conn)).cloned().collect()
        };
        for conn in all {
            if let Some(session) = conn.session() {
                what(session, &conn);
            }
        }
    }

    /// Has the driver look at a connection again, if there is more to be read from it.
    pub(crate) fn tell_again(&self, index: u32, conn: &Connection) {
        let key = self.key_of(index);
        if self.connection(key).is_some() {
            conn.io.set_hot(key);
        }
    }

    fn close_idle(&self, which: impl Fn(&Connection) -> bool) {
        let is_idle = |slot: &Slot| matches!(slot.state, State::Idle);
        self.close_if(|slot| is_idle(slot) && slot.conn.session().is_none() && which(&slot.conn));
    }

    fn close_if(&self, which: impl Fn(&Slot) -> bool) {
        let found: Vec<u32> = {
            let slots = self.slots.borrow();
            let all = slots.iter().zip(0..).filter_map(|((_, slot), index)| Some((slot.as_ref()?, index)));
            all.filter(|(slot, _)| which(slot)).map(|(_, index)| index).collect()
        };
        found.into_iter().for_each(|index| self.release(index));
    }

    /// Gives a connection a place in the table; returns its key.
    pub(crate) fn insert(&self, slot: Slot) -> u64 {
        let mut slots = self.slots.borrow_mut();
        let index = self.free.borrow_mut().pop().unwrap_or_else(|| {
            // The table never shrinks: places are used again, and a key needs its place to stay.
            slots.push((0, None));
            slots.len() as u32 - 1
        });
        let entry = &mut slots[index as usize];
        // One bit less than the key has room for: the highest one marks listening sockets.
        entry.0 = entry.0.wrapping_add(1) & 0x7fff_ffff;
        entry.1 = Some(slot);
        u64::from(entry.0) << 32 | u64::from(index)
    }

    /// The key of a slot, if it is in use.
    pub(crate) fn key_of(&self, index: u32) -> u64 {
        u64::from(self.slots.borrow()[index as usize].0) << 32 | u64::from(index)
    }

    pub(crate) fn connection(&self, key: u64) -> Option<(u32, Rc<Connection>)> {
        let index = key as u32;
        let slots = self.slots.borrow();
        let (generation, slot) = slots.get(index as usize)?;
        // An event of a connection that has had this place before.
        if u64::from(*generation) != key >> 32 {
            return None;
        }
        slot.as_ref().map(|s| (index, s.conn.clone()))
    }

    /// Whom a key means.
    #[inline]
    pub(crate) fn awake(&self, key: u64) -> Awake {
        let index = key as u32;
        match self.slots.borrow_mut().get_mut(index as usize) {
            Some((generation, Some(slot))) if u64::from(*generation) == key >> 32 => match &mut slot.state {
                // What was there for the first telling was read then: reading again would find the end before that is answered.
                State::Idle if slot.turn == self.turn.get() => Awake::Nobody,
                State::Idle => {
                    slot.turn = self.turn.get();
                    Awake::Idle(index, slot.conn.clone())
                }
                // Taken out while it is asked: what it does may lead here again, and then finds nothing to ask.
                State::Parked(parked) => match parked.take() {
                    Some(parked) => Awake::Parked(index, slot.conn.clone(), parked),
                    None => Awake::Nobody,
                },
                // Its task is woken by the socket itself.
                State::Busy(_) => Awake::Nobody,
            },
            _ => Awake::Nobody,
        }
    }

    /// Whether the driver has the connection of this slot, and no request of it waits.
    #[inline]
    pub(crate) fn is_idle(&self, index: u32, conn: &Rc<Connection>) -> bool {
        let slots = self.slots.borrow();
        let slot = slots[index as usize].1.as_ref();
        slot.is_some_and(|slot| matches!(slot.state, State::Idle) && Rc::ptr_eq(&slot.conn, conn))
    }

    /// A request of the connection is being asked: whatever happens is seen afterwards.
    pub(crate) fn set_asked(&self, index: u32) {
        if let Some(slot) = &mut self.slots.borrow_mut()[index as usize].1 {
            slot.state = State::Parked(None);
        }
    }

    /// A request waits from now on; the connection stays with the driver.
    pub(crate) fn set_parked(&self, index: u32, parked: Box<Parked>) {
        if let Some(slot) = &mut self.slots.borrow_mut()[index as usize].1 {
            slot.state = State::Parked(Some(parked));
        }
    }

    /// From now on a task owns the connection; it must heed what is returned.
    pub(crate) fn set_busy(&self, index: u32) -> Rc<Cut> {
        // A new one for each task: an order to an earlier task must not end this one.
        let cut = Rc::<Cut>::default();
        if let Some(slot) = &mut self.slots.borrow_mut()[index as usize].1 {
            slot.state = State::Busy(cut.clone());
            // Events wake the task from here on, and not the driver.
            slot.conn.io.set_task();
        }
        cut
    }

    /// The connection waits for its next request until `deadline_ms`.
    pub(crate) fn set_idle(&self, index: u32, deadline_ms: u64) {
        let key = self.key_of(index);
        let conn = {
            let mut slots = self.slots.borrow_mut();
            let Some(slot) = &mut slots[index as usize].1 else { return };
            slot.state = State::Idle;
            slot.deadline_ms = deadline_ms;
            // A timer that fires too early looks at the deadline and sets itself again; only one too late is a fault.
            if deadline_ms < slot.timer_ms || slot.timer_ms == 0 {
                slot.timer_ms = deadline_ms;
                Loop::current().hot_timer(deadline_ms, key);
            }
            slot.conn.clone()
        };
        // Outside of the borrow: if there is readiness left, the loop is told at once.
        conn.io.set_hot(key);
    }

    /// Moves the deadline of a connection that stays idle: a store, nothing more.
    #[inline]
    pub(crate) fn extend(&self, index: u32, deadline_ms: u64) {
        let mut slots = self.slots.borrow_mut();
        let (generation, slot) = &mut slots[index as usize];
        let Some(slot) = slot else { return };
        slot.deadline_ms = deadline_ms;
        if deadline_ms < slot.timer_ms || slot.timer_ms == 0 {
            slot.timer_ms = deadline_ms;
            Loop::current().hot_timer(deadline_ms, u64::from(*generation) << 32 | u64::from(index));
        }
    }

    /// A connection's timer was early: it comes again.
    fn look_again(&self, index: u32, deadline_ms: u64) {
        let key = self.key_of(index);
        if let Some(slot) = &mut self.slots.borrow_mut()[index as usize].1 {
            (slot.deadline_ms, slot.timer_ms) = (deadline_ms, deadline_ms);
            Loop::current().hot_timer(deadline_ms, key);
        }
    }

    /// Closes a connection.
    pub(crate) fn release(&self, index: u32) {
        // Taken out first, and dropped without a borrow of the table: destructors of requests and streams come back
        // here.
        let slot = {
            let mut slots = self.slots.borrow_mut();
            let entry = &mut slots[index as usize];
            let slot = entry.1.take();
            if slot.is_some() {
                self.free.borrow_mut().push(index);
            }
            slot
        };
        if let Some(Slot { conn, state, .. }) = slot {
            // A request that waited is logged before its connection is given back.
            drop(state);
            if let Some(session) = conn.session() {
                session.kill();
            }
            // Work aside (`mirror`) holds the connection, so dropping it does not close the socket.
            let is_counted = !conn.session().is_some_and(Session::is_counted_elsewhere);
            // The socket of a connection over datagrams is others', too.
            if conn.outlived.get() && is_counted {
                conn.io.shutdown();
            }
            if is_counted {
                self.uncount();
            }
        }
    }
}

/// HTTP as the protocol of a socket.
struct Serves(Rc<Thread>);

impl Protocol for Serves {
    fn find(&self, address: &Address) -> Option<ListenId> {
        self.0.find_listen(address)
    }

    fn moves_later(&self, listener: &Listener) -> bool {
        listener.id.get().is_some_and(|id| self.0.live.borrow().snap.listen(id).is_plain())
    }

    fn adopt(&self, fd: OwnedFd, peer: Peer, listener: Rc<Listener>) {
        self.0.adopt(fd, peer, listener);
    }

    fn take_over(&self, passed: Passed, listener: Rc<Listener>) {
        self.0.take_over(passed, listener);
    }

    fn datagrams(&self, listener: &Rc<Listener>) -> bool {
        turn::receive(&self.0, listener)
    }

    fn switched(&self, gone: &[Rc<Listener>]) {
        turn::switched(&self.0, gone);
        // What a connection of HTTP/2 has agreed on at its beginning belongs to the configuration before. HTTP/3's goes on: its requests
        // follow the new one.
        let is_over_tcp = |conn: &Connection| !conn.session().is_some_and(Session::is_counted_elsewhere);
        self.0.sessions(is_over_tcp, |session, conn| session.drain(conn));
        for listener in gone {
            self.0.sessions(|conn| Rc::ptr_eq(&conn.listener, listener), |session, conn| session.leave(conn));
            // HTTP/1.1's take the new configuration with their next request, but on this socket there is none.
            self.0.close_idle(|conn| Rc::ptr_eq(&conn.listener, listener));
        }
    }

    fn drain(&self) {
        turn::drain(&self.0);
        self.0.drain_idle();
    }

    fn cut(&self, generation: u64) {
        self.0.cut_old(generation);
    }

    fn look_at_memory(&self) {
        self.0.look_at_memory();
    }
}

/// The driver of a thread's loop.
pub struct ThreadDriver(pub Rc<Thread>);

impl Driver for ThreadDriver {
    fn ready(&self, keys: &[u64]) {
        for &key in keys.iter().filter(|&&key| key & LISTENER_KEY != 0) {
            self.0.host.accept((key & !LISTENER_KEY) as usize);
        }
        driver::ready(&self.0, keys.iter().copied().filter(|&key| key & LISTENER_KEY == 0));
    }

    fn timer(&self, key: u64) {
        let index = key as u32;
        let expired = {
            let mut slots = self.0.slots.borrow_mut();
            let Some((generation, Some(slot))) = slots.get_mut(index as usize) else { return };
            if u64::from(*generation) != key >> 32 {
                return;
            }
            let now = clock::mono_ms();
            match slot.state {
                State::Idle if now >= slot.deadline_ms => true,
                // Deadlines move by a store (`extend`); the timer that was set before fires early and is set again
                // here.
                State::Idle => {
                    slot.timer_ms = slot.deadline_ms;
                    Loop::current().hot_timer(slot.deadline_ms, key);
                    false
                }
                State::Busy(_) | State::Parked(_) => {
                    // None is set any more: `set_idle` sets one when the connection comes back.
                    slot.timer_ms = 0;
                    false
                }
            }
        };
        if expired {
            let Some((_, conn)) = self.0.connection(key) else { return };
            if let Some(session) = conn.session() {
                if let Some(next_ms) = session.expired(&conn) {
                    self.0.look_again(index, next_ms);
                }
                return;
            }
            driver::expired(&self.0, index, &conn);
        }
    }

    fn end_turn(&self) {
        turn::events(&self.0);
        flush_touched(&self.0);
        turn::transmit(&self.0);
        self.0.look_at_memory();
    }

    fn has_deferred(&self) -> bool {
        self.0.logs.is_due()
    }

    fn do_deferred(&self) {
        self.0.logs.flush_due();
    }
}

/// Flushes every connection that has got something to send since the last turn.
fn flush_touched(thread: &Rc<Thread>) {
    loop {
        let list = thread.dirty.take();
        if list.is_empty() {
            return;
        }
        // By index, not by key: a place that another connection has taken meanwhile is flushed without need, which
        // does no harm.
        for index in list {
            let conn = thread
                .slots
                .borrow()
                .get(index as usize)
                .and_then(|(_, slot)| slot.as_ref().map(|slot| slot.conn.clone()));
            let Some(conn) = conn else { continue };
            if conn.session().is_some_and(|session| session.flush_touched(&conn)) {
                // It has used up its turn: it goes on after the others.
                brisk_net::spawn(brisk_net::one_turn());
            }
        }
        // Those that were touched again have used up their turn: the loop looks at its events first.
        if !thread.dirty.borrow().is_empty() {
            return;
        }
    }
}

/// Opens every log of a configuration that is not open yet.
pub fn open_logs(
    targets: &[LogTarget],
    mut open: impl FnMut(&LogTarget) -> std::io::Result<OwnedFd>,
) -> Result<Vec<Arc<LogFile>>, (LogTarget, std::io::Error)> {
    let one = |target: &LogTarget| match open(target) {
        Ok(fd) => Ok(Arc::new(LogFile::new(target.clone(), fd))),
        Err(error) => Err((target.clone(), error)),
    };
    targets.iter().map(one).collect()
}
