//! One event-loop thread as far as no protocol is concerned: its listening sockets, logs and present configuration.

use crate::counters::Count;
pub use crate::live::Live;
use crate::log::{LogBuffers, present};
use crate::memory::Budget;
use crate::news::News;
pub use crate::protocol::{Begun, LISTENER_KEY, Listener, Passed, Protocol, Secure};
use crate::service::Work;
use brisk_net::listen::Address;
use brisk_net::watch::Watcher;
use brisk_net::{Loop, Mailbox, sleep};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Waker;

/// What one thread counts of connections, in a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
pub struct Arrivals {
    /// Connections taken from listening sockets.
    pub accepted: Count,
    /// Those that a thread serves or has served.
    pub handled: Count,
}

/// What the threads of a worker share. Nothing here is locked while connections are served.
pub struct Shared {
    /// Connections per thread: a new one goes to the thread with the fewest, if that has clearly fewer.
    pub loads: Vec<AtomicUsize>,
    /// How to reach each thread; not set until it has come up.
    pub mailboxes: Vec<OnceLock<Arc<Mailbox>>>,
    /// The next connection's number.
    pub connection_ids: AtomicU64,
    /// What each thread counts.
    pub arrivals: Vec<Arrivals>,
    /// Tells of changed files; `None` where the kernel cannot.
    pub watcher: Option<Arc<Watcher>>,
    /// `memory_limit`.
    pub budget: Budget,
    /// What the master has told last.
    news: Mutex<Arc<News>>,
    /// Readable when a thread that drains has no connection left.
    empty: OwnedFd,
}

impl Shared {
    /// For so many threads.
    pub fn new(threads: usize, watcher: Option<Arc<Watcher>>) -> std::io::Result<Shared> {
        Ok(Shared {
            loads: (0..threads).map(|_| AtomicUsize::new(0)).collect(),
            mailboxes: (0..threads).map(|_| OnceLock::new()).collect(),
            connection_ids: AtomicU64::new(1),
            arrivals: (0..threads).map(|_| Arrivals::default()).collect(),
            watcher,
            budget: Budget::default(),
            news: Mutex::default(),
            empty: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
        })
    }

    /// What the master has told last.
    pub fn news(&self) -> Arc<News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The master tells something new.
    pub fn tell(&self, news: News) {
        *self.news.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(news);
    }

    fn tell_empty(&self) {
        // Cannot block: the counter is far from full.
        let _ = rustix::io::write(&self.empty, &1u64.to_ne_bytes());
    }

    /// Readable when [`Shared::is_empty`] may have become true.
    pub fn empty(&self) -> BorrowedFd<'_> {
        self.empty.as_fd()
    }

    /// Whether no thread has a connection.
    pub fn is_empty(&self) -> bool {
        let _ = rustix::io::read(&self.empty, &mut [0u8; 8]);
        self.loads.iter().all(|load| load.load(Ordering::Acquire) == 0)
    }
}

/// See the module's head.
pub struct Thread {
    /// Its number in the process, from 0.
    pub index: usize,
    /// What it has in common with the others.
    pub shared: Arc<Shared>,
    /// Its lines for log files.
    pub logs: LogBuffers,
    live: RefCell<Rc<Live>>,
    /// What it listens on.
    pub listeners: RefCell<Vec<Rc<Listener>>>,
    pub(crate) protocols: RefCell<Vec<Rc<dyn Protocol>>>,
    pub(crate) accept_paused: Cell<bool>,
    /// Accepts nothing new.
    draining: Cell<bool>,
    /// What the services of the present configuration do, in the thread that they run in.
    work: RefCell<Option<Work>>,
    /// Tasks to be woken when the configuration has changed.
    at_switch: RefCell<Vec<Waker>>,
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Thread>>> = const { RefCell::new(None) };
}

/// Writes the log lines of this thread that are due.
fn flush_due() {
    if let Some(thread) = Thread::current() {
        thread.logs.flush_due();
    }
}

impl Thread {
    /// Makes this thread a worker thread. Its loop must be installed.
    pub fn install(index: usize, shared: Arc<Shared>, live: Live) -> Rc<Thread> {
        if let Some(home) = Loop::try_current() {
            home.measure_lag(live.snap.measures_lag);
        }
        present::set(live.snap.error_log.clone(), live.logs.clone());
        let thread = Rc::new(Thread {
            index,
            shared,
            logs: LogBuffers::new(flush_due),
            live: RefCell::new(Rc::new(live)),
            listeners: RefCell::default(),
            protocols: RefCell::default(),
            accept_paused: Cell::new(false),
            draining: Cell::new(false),
            work: RefCell::default(),
            at_switch: RefCell::default(),
        });
        CURRENT.set(Some(thread.clone()));
        thread
    }

    /// This thread, for work that comes from other threads.
    pub fn current() -> Option<Rc<Thread>> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Adds what serves connections. Before [`Thread::listen`].
    pub fn add_protocol(&self, protocol: Rc<dyn Protocol>) {
        self.protocols.borrow_mut().push(protocol);
    }

    /// Asks each protocol of the thread.
    pub fn each_protocol(&self, mut what: impl FnMut(&dyn Protocol)) {
        let all = self.protocols.borrow().clone();
        all.iter().for_each(|protocol| what(&**protocol));
    }

    /// The present configuration.
    pub fn live(&self) -> Rc<Live> {
        self.live.borrow().clone()
    }

    /// Takes another configuration, after the protocols have taken their parts. What is served keeps its own, for
    /// `worker_shutdown_timeout` at most.
    pub fn switch(self: &Rc<Self>, live: Live, sockets: Vec<(Address, OwnedFd)>) -> std::io::Result<()> {
        let generation = live.generation;
        if let Some(home) = Loop::try_current() {
            home.measure_lag(live.snap.measures_lag);
        }
        present::set(live.snap.error_log.clone(), live.logs.clone());
        let old = self.live.replace(Rc::new(live));
        let limit = old.snap.main.shutdown_timeout;
        drop(old);
        self.at_switch.take().into_iter().for_each(Waker::wake);
        self.start_services();
        let mut gone = Vec::new();
        {
            let mut listeners = self.listeners.borrow_mut();
            for listener in listeners.iter() {
                self.locate(listener);
                if listener.id.get().is_none() {
                    gone.push(listener.clone());
                }
            }
            listeners.retain(|l| l.id.get().is_some());
            listeners.iter().enumerate().for_each(|(index, listener)| listener.watch(index));
        }
        gone.iter().for_each(|listener| listener.close());
        self.each_protocol(|protocol| protocol.switched(&gone));
        if !limit.is_zero() {
            let this = self.clone();
            brisk_net::spawn(async move {
                sleep(limit).await;
                this.cut(generation);
            });
        }
        self.listen(sockets)
    }

    /// Begins what goes on beside connections; what did so for another configuration ends. One thread does it for all.
    pub fn start_services(self: &Rc<Self>) {
        self.end_services();
        let live = self.live();
        if self.index != 0 || live.snap.services.is_empty() {
            return;
        }
        let work = Work::new(live.clone());
        live.snap.services.iter().for_each(|service| service.clone().start(&work));
        self.work.replace(Some(work));
    }

    fn end_services(&self) {
        if let Some(work) = self.work.take() {
            work.end();
        }
    }

    /// The number of the configuration that this thread serves; each reload counts one up.
    pub fn generation(&self) -> u64 {
        self.live.borrow().generation
    }

    /// Wakes a task once, when this thread takes another configuration.
    pub fn wake_at_switch(&self, waker: Waker) {
        self.at_switch.borrow_mut().push(waker);
    }

    /// Addresses listened on.
    pub fn addresses(&self) -> Vec<Address> {
        self.listeners.borrow().iter().map(|l| l.address.clone()).collect()
    }

    /// Graceful stop: nothing new is taken, and what is idle ends.
    pub fn drain(self: &Rc<Self>) {
        self.draining.set(true);
        self.end_services();
        self.stop_accepting();
        self.each_protocol(|protocol| protocol.drain());
    }

    /// Whether it accepts nothing new.
    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Ends what is served by a configuration before `generation`.
    pub fn cut(&self, generation: u64) {
        self.each_protocol(|protocol| protocol.cut(generation));
    }

    /// Work that a thread which drains finishes, as if it were a connection; [`Thread::uncount`] ends it.
    pub fn count(&self) {
        self.shared.loads[self.index].fetch_add(1, Ordering::AcqRel);
    }

    /// A connection less. When the last one of a draining thread has gone, the worker is told.
    pub fn uncount(&self) {
        let before = self.shared.loads[self.index].fetch_sub(1, Ordering::AcqRel);
        if before == 1 && self.draining.get() {
            self.shared.tell_empty();
        }
    }

    /// Connections of this thread.
    pub fn connections(&self) -> usize {
        self.shared.loads[self.index].load(Ordering::Relaxed)
    }

    /// What this thread counts of connections.
    #[inline]
    pub fn arrivals(&self) -> &Arrivals {
        &self.shared.arrivals[self.index]
    }
}
