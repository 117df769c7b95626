//! What the worker process does as a whole: start threads, switch configurations, drain.

use crate::conf::ids::ListenId;
use crate::conf::snapshot::Snapshot;
use crate::limits::{LOG_READER_MS_MAX, LOG_SETTLE_MS_MAX};
use crate::live::Live;
use crate::news::News;
use crate::quic::between;
use crate::shared::Shared;
use crate::table::Thread;
use crate::thread::ThreadDriver;
use crate::{log, memory};
use brisk_host::log::LogFile;
use brisk_net::Loop;
use brisk_net::blocking::Serial;
use brisk_net::listen::Address;
use brisk_net::watch::Watcher;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Barrier, mpsc};
use std::time::{Duration, Instant};

/// A listening socket with its address.
pub type Socket = (Address, OwnedFd);

pub use crate::log::log_error;

/// The running threads of a worker process.
pub struct Worker {
    shared: Arc<Shared>,
    generation: u64,
    logs: Arc<Vec<Arc<LogFile>>>,
    snap: Arc<Snapshot>,
}

/// Waits for all threads. All of them are heard before the first failure is told: one whose failure is not heard aborts.
fn all_started(started: &mpsc::Receiver<io::Result<()>>, count: usize) -> io::Result<()> {
    let results: Vec<io::Result<()>> = started.iter().take(count).collect();
    results.into_iter().collect()
}

impl Worker {
    /// Starts `count` threads that serve `snap` on `sockets`; `news`: what the master knows at this moment.
    pub fn start(
        snap: Arc<Snapshot>,
        logs: Vec<Arc<LogFile>>,
        sockets: &[Socket],
        count: usize,
        generation: u64,
        news: News,
        pin: impl Fn(usize) + Send + Sync + 'static,
    ) -> io::Result<Worker> {
        // Without inotify every request looks at its files itself: slower, never wrong.
        let watcher = Watcher::new().ok().map(Arc::new);
        let shared = Arc::new(Shared::new(count, watcher)?);
        shared.tell(news);
        let has_quic = between::begin(&shared, &snap);
        log::set_debugs(snap.debugs);
        // Before any thread runs: messages ask it without a lock.
        let logs = Arc::new(logs);
        let pin = Arc::new(pin);
        let barrier = Arc::new(Barrier::new(count));
        let (ready, started) = mpsc::channel();
        for index in 0..count {
            let (shared, snap, logs, pin) = (shared.clone(), snap.clone(), logs.clone(), pin.clone());
            let sockets = duplicate(sockets)?;
            let (ready, barrier) = (ready.clone(), barrier.clone());
            let body = move || {
                // First: memory that the thread makes is then near its core.
                pin(index);
                let run = || -> io::Result<()> {
                    // Its failure waits behind the barrier: a thread that returned before would leave the
                    // others waiting for ever.
                    let home = Loop::install();
                    if let Ok(home) = &home {
                        let _ = shared.mailboxes[index].set(home.mailbox().clone());
                    }
                    // Whoever accepts first may give a connection to any of the others.
                    barrier.wait();
                    let home = home?;
                    let thread = Thread::install(index, shared, Live::new(snap, logs, generation));
                    for beside in thread.live().snap.modules.iter().filter_map(|module| module.beside) {
                        (beside.install)(&thread.host);
                    }
                    thread.listen(sockets)?;
                    thread.start_services();
                    let _ = ready.send(Ok(()));
                    let result = home.run(&ThreadDriver(thread.clone()));
                    thread.logs.flush();
                    result
                };
                let is_told = match catch_unwind(AssertUnwindSafe(run)) {
                    Ok(Ok(())) => true,
                    // Until all threads have started, `start` tells its caller.
                    Ok(Err(error)) => ready.send(Err(error)).is_ok(),
                    Err(_) => false,
                };
                // The loop has failed, or there was a panic outside any connection: the thread's state cannot be
                // trusted. The master starts a new worker.
                if !is_told {
                    std::process::abort();
                }
            };
            std::thread::Builder::new().name(format!("brisk-{index}")).spawn(body)?;
        }
        all_started(&started, count)?;
        if has_quic {
            between::open(&shared);
        }
        // Now that the threads have what they need.
        shared.budget.set_limit(memory::limit::of(snap.main.memory_limit));
        Ok(Worker { shared, generation, logs, snap })
    }

    /// Gives the first thread one end of a pair of sockets as a connection, as if `client` had connected to `local` on the listening
    /// socket `listen`. Everything about it is noted, if this process [traces](crate::trace).
    pub fn bring(&self, fd: OwnedFd, client: SocketAddr, local: SocketAddr, listen: ListenId) {
        let Some(mailbox) = self.shared.mailboxes.first().and_then(|mailbox| mailbox.get()) else { return };
        mailbox.call(move || {
            if let Some(thread) = Thread::current() {
                thread.bring(fd, client, local, listen);
            }
        });
    }

    /// The present configuration's number: it counts reloads, from 1.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The present configuration.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snap
    }

    /// Open logs, by their number in the configuration.
    pub fn logs(&self) -> &Arc<Vec<Arc<LogFile>>> {
        &self.logs
    }

    /// What the threads have in common.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Switches all threads to another configuration; `sockets` are those that are new. Returns when every thread
    /// has switched.
    pub fn switch(
        &mut self,
        snap: Arc<Snapshot>,
        logs: Vec<Arc<LogFile>>,
        sockets: &[Socket],
        generation: u64,
    ) -> io::Result<()> {
        // First, since it may fail: the configuration that is refused must leave nothing behind.
        let copies = self.shared.mailboxes.iter().map(|_| duplicate(sockets));
        let copies = copies.collect::<io::Result<Vec<_>>>()?;
        self.generation = generation;
        log::set_debugs(snap.debugs);
        // Before any thread has the new configuration: its first request must find the counters of the old one.
        crate::zone::inherit(&snap.zones, &self.snap.zones);
        let old = std::mem::replace(&mut self.snap, snap.clone());
        brisk_host::log::retire(&self.logs, &logs);
        self.logs = Arc::new(logs);
        let has_quic = between::begin(&self.shared, &snap);
        self.shared.budget.set_limit(memory::limit::of(snap.main.memory_limit));
        if let Some(watcher) = &self.shared.watcher {
            // A mount over a watched path is told by no event: after a reload all files are looked at anew.
            watcher.distrust();
        }
        let logs = self.logs.clone();
        let mut copies = copies.into_iter();
        let results = self.on_each(move || {
            let (snap, logs, sockets) = (snap.clone(), logs.clone(), copies.next().unwrap_or_default());
            move |thread: &Rc<Thread>| thread.switch(Live::new(snap, logs, generation), sockets)
        });
        if has_quic {
            between::open(&self.shared);
        }
        // Dropped by the thread that made it: cheaper than by whichever of the others lets go of it last.
        drop(old);
        results.into_iter().collect()
    }

    /// Writes out all buffered log lines; when it returns none is left that was made before.
    pub fn flush_logs(&self) {
        self.on_each(|| |thread: &Rc<Thread>| thread.logs.flush());
        Serial::settle_all(Duration::from_millis(LOG_SETTLE_MS_MAX));
    }

    /// The same before the process ends. Slow readers have a moment to take what was kept for them: nobody goes on with that afterwards.
    pub fn finish_logs(&self) {
        self.flush_logs();
        let until = Instant::now() + Duration::from_millis(LOG_READER_MS_MAX);
        self.logs.iter().for_each(|log| log.settle(until));
    }

    /// Runs something on every thread and waits for all.
    fn on_each<T, F, M>(&self, mut make: M) -> Vec<T>
    where
        T: Send + 'static,
        F: FnOnce(&Rc<Thread>) -> T + Send + 'static,
        M: FnMut() -> F,
    {
        let (done, results) = mpsc::channel();
        let mut expected = 0;
        for mailbox in self.shared.mailboxes.iter().filter_map(|m| m.get()) {
            let (work, done) = (make(), done.clone());
            expected += 1;
            mailbox.call(move || {
                if let Some(thread) = Thread::current() {
                    let _ = done.send(work(&thread));
                }
            });
        }
        drop(done);
        // A thread that hangs must not hang the worker's control: the caller sees fewer results than threads.
        let take = |_| results.recv_timeout(Duration::from_secs(30)).ok();
        (0..expected).filter_map(take).collect()
    }

    /// No new connections: when this returns clients are refused, or taken by whoever else listens.
    pub fn drain(&self) {
        if let Some(passage) = self.shared.quic.passage() {
            passage.retire();
        }
        self.on_each(|| |thread: &Rc<Thread>| thread.drain());
    }

    /// Ends whatever is still being served.
    pub fn cut(&self) {
        self.on_each(|| |thread: &Rc<Thread>| thread.cut(u64::MAX));
    }

    /// Readable when [`Worker::is_empty`] may have become true while draining.
    pub fn empty(&self) -> BorrowedFd<'_> {
        self.shared.empty()
    }

    /// Whether no connection is left.
    pub fn is_empty(&self) -> bool {
        self.shared.is_empty()
    }
}

fn duplicate(sockets: &[Socket]) -> io::Result<Vec<Socket>> {
    sockets
        .iter()
        // From 3 on: where a standard stream is closed a copy must not take its place.
        .map(|(address, fd)| Ok((address.clone(), rustix::io::fcntl_dupfd_cloexec(fd.as_fd(), 3)?)))
        .collect()
}
