//! One event-loop thread: its connections, caches and present configuration.

use crate::conf::{ListenId, LocationId, LogTarget, ServerId, Snapshot};
use crate::connection::{Connection, Cut};
use crate::core::CoreConf;
use crate::counters::Counters;
use crate::driver;
use crate::files::Files;
use crate::h1::{Burst, Parked};
use crate::interim::Learned;
use crate::limits::ARENA_BYTES;
use crate::log::LogFile;
use crate::metrics::{Places, PlacesOfThread};
use crate::prepared::Prepared;
use crate::request::Request;
use crate::stream::{self, Session};
use brisk_host::peer::Peer;
pub(crate) use brisk_host::thread::LISTENER_KEY;
pub use brisk_host::thread::Listener;
use brisk_host::thread::Protocol;
use brisk_http::HeadOptions;
use brisk_net::listen::Address;
use brisk_net::watch::Watcher;
use brisk_net::{Driver, Loop, clock};
use rustix::fd::OwnedFd;
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A thread's view of one configuration.
pub struct Live {
    pub snap: Arc<Snapshot>,
    base: brisk_host::thread::Live,
    pub(crate) prepared: RefCell<Prepared>,
    /// The same for HTTP/2: heads are blocks.
    pub(crate) prepared_h2: RefCell<Prepared>,
    /// Limits of request heads, by [`ListenId`].
    pub(crate) head_options: Vec<HeadOptions>,
    /// `None`: nobody asks for the numbers of requests.
    pub(crate) places: Option<Places>,
}

impl Deref for Live {
    type Target = brisk_host::thread::Live;

    fn deref(&self) -> &brisk_host::thread::Live {
        &self.base
    }
}

impl Live {
    pub fn new(snap: Arc<Snapshot>, logs: Arc<Vec<Arc<LogFile>>>, generation: u64) -> Live {
        let head_options = snap
            .listens
            .iter()
            .map(|listen| {
                let core = &snap.location(snap.server(listen.default_server).root).core;
                HeadOptions {
                    ignore_invalid_headers: core.ignore_invalid_headers,
                    underscores_in_headers: core.underscores_in_headers,
                    first_buffer: core.client_header_buffer_size as usize,
                    line_max: core.large_client_header_buffers.1 as usize,
                    buffers_max: core.large_client_header_buffers.0 as usize,
                    headers_max: core.max_headers as usize,
                }
            })
            .collect();
        let places = snap.records_requests.then(Places::default);
        Live {
            base: brisk_host::thread::Live { snap: snap.base.clone(), logs, generation },
            snap,
            prepared: RefCell::default(),
            prepared_h2: RefCell::default(),
            head_options,
            places,
        }
    }

    /// The configuration of the default server of a listening socket, if that is still there.
    pub fn default_core(&self, listener: &Listener) -> Option<&Arc<CoreConf>> {
        let server = self.snap.server(self.snap.listen(listener.id.get()?).default_server);
        Some(&self.snap.location(server.root).core)
    }

    /// The time in which a connection's first request must be there.
    pub fn header_timeout(&self, listener: &Listener) -> Duration {
        self.default_core(listener).map_or(Duration::ZERO, |core| core.client_header_timeout)
    }

    /// `keepalive_min_timeout`: a client that has just got an answer may be sending its next request, so until then its
    /// connection is not closed without need.
    fn kept_until(&self, slot: &Slot) -> u64 {
        self.default_core(&slot.conn.listener).map_or(0, |core| {
            let idle_since = slot.deadline_ms.saturating_sub(core.keepalive_timeout.as_millis() as u64);
            let least = core.keepalive_min_timeout.min(core.keepalive_timeout);
            idle_since + least.as_millis() as u64
        })
    }

    /// See [`Snapshot::reduced`].
    fn reduced(&self, server: ServerId, location: LocationId) -> Live {
        let snap = self.snap.reduced(server, location);
        Live {
            base: brisk_host::thread::Live { snap: snap.base.clone(), ..self.base.clone() },
            snap: Arc::new(snap),
            prepared: RefCell::default(),
            prepared_h2: RefCell::default(),
            head_options: Vec::new(),
            places: self.places.as_ref().map(|places| places.reduced(location)),
        }
    }
}

/// What the threads of a worker share. Nothing here is locked on the request path.
pub struct Shared {
    base: Arc<brisk_host::thread::Shared>,
    pub counters: Vec<Counters>,
    /// Numbers of requests, by thread.
    pub places: Vec<PlacesOfThread>,
}

impl Deref for Shared {
    type Target = brisk_host::thread::Shared;

    fn deref(&self) -> &brisk_host::thread::Shared {
        &self.base
    }
}

impl Shared {
    /// For so many threads.
    pub fn new(threads: usize, watcher: Option<Arc<Watcher>>) -> std::io::Result<Shared> {
        Ok(Shared {
            base: Arc::new(brisk_host::thread::Shared::new(threads, watcher)?),
            counters: (0..threads).map(|_| Counters::default()).collect(),
            places: (0..threads).map(|_| PlacesOfThread::default()).collect(),
        })
    }
}

/// What a connection is doing.
pub(crate) enum State {
    /// Between requests: nothing but this entry. Ends at the deadline.
    Idle,
    /// A task works on it; it can be ended from here.
    Busy(Rc<Cut>),
    /// A request waits; `None` while it is being asked.
    Parked(Option<Box<Parked>>),
}

/// What is to be done about a key that the loop has told of.
pub(crate) enum Awake {
    /// There is something to be read.
    Idle(u32, Rc<Connection>),
    /// The request that waits is to be asked again.
    Parked(u32, Rc<Connection>, Box<Parked>),
    /// The connection is gone, or a task's.
    Nobody,
}

pub(crate) struct Slot {
    pub conn: Rc<Connection>,
    pub state: State,
    pub deadline_ms: u64,
    /// The timer that is set fires at this time or earlier.
    pub timer_ms: u64,
    /// The driver's last turn that has read from it.
    pub turn: u64,
}

/// See the module's head.
pub struct Thread {
    /// What serves whatever is served.
    pub host: Rc<brisk_host::thread::Thread>,
    pub shared: Arc<Shared>,
    pub files: Files,
    pub(crate) live: RefCell<Rc<Live>>,
    pub(crate) slots: RefCell<Vec<(u32, Option<Slot>)>>,
    free: RefCell<Vec<u32>>,
    // Boxed: they are handed around between the table, tasks and subrequests.
    #[allow(clippy::vec_box)]
    requests: RefCell<Vec<Box<Request>>>,
    /// `early_hints_learn`.
    pub(crate) learned: RefCell<Learned>,
    pub(crate) arena: RefCell<Vec<u8>>,
    /// Counts the driver's turns, from 1.
    pub(crate) turn: Cell<u64>,
    pub(crate) out: RefCell<Vec<u8>>,
    pub(crate) burst: RefCell<Burst>,
    /// HTTP/2: a response as it is put together, room for large reads, and connections with something to send.
    pub(crate) block: RefCell<Vec<u8>>,
    pub(crate) scratch: RefCell<Vec<u8>>,
    pub(crate) dirty: RefCell<Vec<u32>>,
    pub(crate) date: Cell<(i64, [u8; 29])>,
    /// Subrequests that nobody waits for.
    pub(crate) aside: Cell<u32>,
}

impl Deref for Thread {
    type Target = Rc<brisk_host::thread::Thread>;

    fn deref(&self) -> &Rc<brisk_host::thread::Thread> {
        &self.host
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
            files: Files::new(shared.clone(), index),
            shared,
            live: RefCell::new(Rc::new(live)),
            slots: RefCell::default(),
            free: RefCell::default(),
            requests: RefCell::default(),
            learned: RefCell::default(),
            arena: RefCell::new(vec![0; ARENA_BYTES]),
            turn: Cell::new(0),
            out: RefCell::new(Vec::with_capacity(64 << 10)),
            burst: RefCell::default(),
            block: RefCell::default(),
            scratch: RefCell::default(),
            dirty: RefCell::default(),
            date: Cell::new((0, [0; 29])),
            aside: Cell::new(0),
        });
        thread.host.add_protocol(Rc::new(Serves(thread.clone())));
        CURRENT.set(Some(thread.clone()));
        thread
    }

    /// This thread, for work that comes from other threads.
    pub fn current() -> Option<Rc<Thread>> {
        CURRENT.with_borrow(Clone::clone)
    }

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
        // A pooled request must not keep an old configuration alive.
        let is_current = Rc::ptr_eq(&r.live, &self.live.borrow());
        if is_current && pool.len() < crate::limits::POOLED_REQUESTS_MAX && r.head.buf.capacity() <= 64 << 10
        {
            pool.push(r);
        }
    }

    /// Frees the requests that are kept for later ones.
    pub(crate) fn drop_spare_requests(&self) {
        self.requests.borrow_mut().clear();
    }

    /// Lets go of all of the configuration but what the end of a response needs.
    pub(crate) fn reduce(&self, r: &mut Request) {
        r.live = Rc::new(r.live.reduced(r.route.server, r.route.loc));
        (r.route.server, r.route.loc) = (ServerId(0), LocationId(0));
    }

    pub(crate) fn find_listen(&self, address: &Address) -> Option<ListenId> {
        let live = self.live();
        let at = live.snap.listens.iter().position(|l| l.address == *address)?;
        Some(ListenId(at as u32))
    }

    /// Takes another configuration. Requests that run keep theirs, for `worker_shutdown_timeout` at most; connections
    /// take the new one with their next request, if their socket is still listened on.
    pub fn switch(self: &Rc<Self>, live: Live, sockets: Vec<(Address, OwnedFd)>) -> std::io::Result<()> {
        let base = live.base.clone();
        let old = self.live.replace(Rc::new(live));
        self.requests.borrow_mut().clear();
        drop(old);
        self.host.switch(base, sockets)
    }

    /// As in nginx, a connection that has not brought its first request yet is still served.
    fn drain_idle(&self) {
        self.sessions(|_| true, |session, conn| session.drain(conn));
        let (live, now) = (self.live(), clock::mono_ms());
        let mut gone = Vec::new();
        for (index, (generation, slot)) in self.slots.borrow_mut().iter_mut().enumerate() {
            let Some(slot) = slot.as_mut().filter(|slot| slot.conn.session().is_none()) else { continue };
            let is_idle = matches!(slot.state, State::Idle) && slot.conn.requests.get() > 0;
            if !is_idle || slot.conn.has_unread() {
                continue;
            }
            let until = live.kept_until(slot);
            if now < until {
                (slot.deadline_ms, slot.timer_ms) = (until, until);
                Loop::current().hot_timer(until, u64::from(*generation) << 32 | index as u64);
            } else {
                gone.push(index as u32);
            }
        }
        gone.into_iter().for_each(|index| self.release(index));
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
        tasks.iter().for_each(|cut| cut.order());
        self.close_if(|slot| matches!(slot.state, State::Parked(_)) && is_old(&slot.conn));
    }

    /// Does something to connections that carry several requests at a time.
    fn sessions(&self, which: impl Fn(&Connection) -> bool, what: impl Fn(&dyn Session, &Rc<Connection>)) {
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
            slots.push((0, None));
            slots.len() as u32 - 1
        });
        let entry = &mut slots[index as usize];
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
                State::Parked(parked) => match parked.take() {
                    Some(parked) => Awake::Parked(index, slot.conn.clone(), parked),
                    None => Awake::Nobody,
                },
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
        let cut = Rc::<Cut>::default();
        if let Some(slot) = &mut self.slots.borrow_mut()[index as usize].1 {
            slot.state = State::Busy(cut.clone());
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
            if conn.outlived.get() {
                conn.io.shutdown();
            }
            self.uncount();
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

    fn datagrams(&self, listener: &Rc<Listener>) -> bool {
        unreachable!("HTTP listens for no datagrams on {}", listener.address);
    }

    fn switched(&self, gone: &[Rc<Listener>]) {
        // What a connection of HTTP/2 has agreed on at its beginning belongs to the configuration before.
        self.0.sessions(|_| true, |session, conn| session.drain(conn));
        for listener in gone {
            self.0.sessions(|conn| Rc::ptr_eq(&conn.listener, listener), |session, conn| session.leave(conn));
            self.0.close_idle(|conn| Rc::ptr_eq(&conn.listener, listener));
        }
    }

    fn drain(&self) {
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
                State::Idle => {
                    slot.timer_ms = slot.deadline_ms;
                    Loop::current().hot_timer(slot.deadline_ms, key);
                    false
                }
                State::Busy(_) | State::Parked(_) => {
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

    fn before_sleep(&self) {
        stream::flush_touched(&self.0);
        self.0.logs.flush_due();
        self.0.look_at_memory();
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
