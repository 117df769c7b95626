//! Taking connections from listening sockets and spreading them evenly over the threads.

use crate::conf::ListenId;
use crate::connection::{Connection, Peer};
use crate::core::LogLevel;
use crate::limits::{ACCEPT_ALL_MAX, ACCEPT_BATCH_MAX, ACCEPT_PAUSE_MS, KEPT_MORE};
use crate::proxy_protocol;
use crate::thread::{LISTENER_KEY, Live, Slot, State, Thread};
use brisk_net::listen::{self, Address};
use brisk_net::{Io, Loop, Stream, clock};
use rustix::fd::OwnedFd;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A listening socket as a thread sees it. Connections keep it to know where they came in.
pub struct Listener {
    pub address: Address,
    /// `None` once nothing more is taken from it: it must not stay open because a connection remembers where it
    /// came from, or the kernel would go on accepting for nobody.
    io: RefCell<Option<Io>>,
    /// Its place in the present configuration; `None` once the configuration no longer has it.
    pub id: Cell<Option<ListenId>>,
}

impl Listener {
    /// Tells the driver about its connections under `index`.
    pub(crate) fn watch(&self, index: usize) {
        if let Some(io) = &*self.io.borrow() {
            io.set_hot(LISTENER_KEY | index as u64);
        }
    }

    /// Takes nothing more.
    pub(crate) fn close(&self) {
        self.io.take();
    }

    fn accept(&self) -> std::io::Result<Option<(OwnedFd, Peer)>> {
        let accepted = match &*self.io.borrow() {
            Some(io) => listen::accept(io.fd())?,
            None => None,
        };
        Ok(accepted.map(|(fd, peer)| match peer.as_ref().and_then(listen::ip_of) {
            Some(addr) => (fd, Peer::Ip(addr)),
            None => (fd, Peer::Unix),
        }))
    }
}

impl Thread {
    /// Starts accepting on sockets of the present configuration.
    pub fn listen(&self, sockets: Vec<(Address, OwnedFd)>) -> std::io::Result<()> {
        for (address, fd) in sockets {
            let io = RefCell::new(Some(Io::listener(fd)?));
            let id = Cell::new(self.find_listen(&address));
            let listener = Rc::new(Listener { address, io, id });
            let mut listeners = self.listeners.borrow_mut();
            listener.watch(listeners.len());
            listeners.push(listener);
        }
        Ok(())
    }

    /// Takes the connections that wait, up to a limit.
    pub(crate) fn accept(self: &Rc<Self>, index: usize) {
        let Some(listener) = self.listeners.borrow().get(index).cloned() else { return };
        if self.accept_paused.get() {
            return;
        }
        if self.shared.budget.is_full() {
            return self.wait_for_memory();
        }
        let live = self.live();
        // Whoever waits unseen in the kernel's queue is waiting, too.
        let batch = if live.snap.main.multi_accept || live.snap.measures_lag {
            ACCEPT_ALL_MAX
        } else {
            ACCEPT_BATCH_MAX
        };
        for _ in 0..batch {
            match listener.accept() {
                Ok(Some((fd, peer))) => {
                    self.counters().accepted.up();
                    self.place(fd, peer, &listener, &live);
                }
                Ok(None) => return,
                Err(error) => return self.accept_failed(&live, &error),
            }
        }
        // More may be waiting, and the edge will not come again.
        if let Some(io) = &*listener.io.borrow() {
            io.mark_readable();
        }
        listener.watch(index);
    }

    /// Ends accepting. A connection wakes one of all who listen: those that woke us are ours to take, so we leave the
    /// circle first and look a last time then.
    pub(crate) fn stop_accepting(self: &Rc<Self>) {
        let live = self.live();
        for listener in self.listeners.borrow().clone() {
            if let Some(io) = &*listener.io.borrow() {
                io.mute();
            }
            while let Ok(Some((fd, peer))) = listener.accept() {
                self.place(fd, peer, &listener, &live);
            }
            listener.close();
        }
    }

    /// Out of descriptors (or memory): stop accepting for a moment; the connections wait in the kernel.
    fn accept_failed(self: &Rc<Self>, live: &Live, error: &std::io::Error) {
        let why = brisk_conf::os_text(error);
        crate::worker::log_error(live, LogLevel::Crit, format_args!("accept4() failed ({why})"));
        self.accept_paused.set(true);
        let this = self.clone();
        brisk_net::spawn(async move {
            brisk_net::sleep(Duration::from_millis(ACCEPT_PAUSE_MS)).await;
            this.resume_accepting();
        });
    }

    /// Goes on accepting after a pause, with the connections that have come meanwhile.
    pub(crate) fn resume_accepting(self: &Rc<Self>) {
        self.accept_paused.set(false);
        let count = self.listeners.borrow().len();
        (0..count).for_each(|index| self.accept(index));
    }

    /// Gives a new connection to a thread. Most connections of some clients bring one request and end; handing those over costs
    /// more than serving them, so a thread keeps them unless it has clearly more than another. Those that stay are placed when
    /// they have been answered (see [`Thread::rest`]); what cannot be moved then goes to the fewest now.
    fn place(self: &Rc<Self>, fd: OwnedFd, peer: Peer, listener: &Rc<Listener>, live: &Rc<Live>) {
        let loads = &self.shared.loads;
        let limit = live.snap.main.connections as usize;
        let load = |index: usize| loads[index].load(Ordering::Relaxed);
        let is_moved_later = listener.id.get().is_some_and(|id| live.snap.listen(id).is_plain());
        let (least, fewest) = self.least();
        let spare = if is_moved_later && load(self.index) < limit { KEPT_MORE + fewest / 8 } else { 0 };
        let target = if fewest + spare < load(self.index) { least } else { self.index };
        if load(target) >= limit {
            crate::worker::log_error(
                live,
                LogLevel::Alert,
                format_args!("{limit} worker_connections are not enough"),
            );
            return;
        }
        // Counted here, so that a thread that drains knows of it before it comes.
        loads[target].fetch_add(1, Ordering::Relaxed);
        if target == self.index {
            return self.adopt(fd, peer, listener.clone());
        }
        self.send_to(target, listener, move |thread, listener| thread.adopt(fd, peer, listener));
    }

    /// The thread with the fewest connections, and their number; this one, if no other has fewer.
    fn least(&self) -> (usize, usize) {
        let loads = self.shared.loads.iter().map(|load| load.load(Ordering::Relaxed)).enumerate();
        // A thread that has not come up yet takes no mail.
        loads
            .filter(|&(index, _)| index == self.index || self.shared.mailboxes[index].get().is_some())
            .min_by_key(|&(index, load)| (load, index != self.index))
            .unwrap_or((self.index, 0))
    }

    /// Hands a connection that is counted already to another thread, which is given its own view of the listening socket.
    fn send_to(
        &self,
        target: usize,
        listener: &Rc<Listener>,
        take: impl FnOnce(&Rc<Thread>, Rc<Listener>) + Send + 'static,
    ) {
        let address = listener.address.clone();
        let mailbox = self.shared.mailboxes[target].get().expect("threads accept when all have a mailbox");
        mailbox.call(move || {
            let Some(thread) = Thread::current() else { return };
            let listener = thread.listeners.borrow().iter().find(|l| l.address == address).cloned();
            match listener {
                Some(listener) => take(&thread, listener),
                // A reload has removed the address meanwhile.
                None => thread.uncount(),
            }
        });
    }

    /// Makes a socket a connection of this thread; it is already counted.
    fn adopt(self: &Rc<Self>, fd: OwnedFd, peer: Peer, listener: Rc<Listener>) {
        let Some(io) = self.register(fd, peer) else { return };
        let id = self.shared.connection_ids.fetch_add(1, Ordering::Relaxed);
        self.counters().handled.up();
        let now = clock::now();
        let live = self.live();
        let timeout = live.header_timeout(&listener);
        let conn = Connection::new(io, id, peer, listener, now);
        conn.generation.set(live.generation);
        crate::log::accepted(&live, &conn);
        proxy_protocol::adopted(&live, &conn);
        let timeout = crate::tls::adopted(&live, &conn).unwrap_or(timeout);
        self.enter(conn, now.mono_ms + timeout.as_millis() as u64);
    }

    fn register(&self, fd: OwnedFd, peer: Peer) -> Option<Stream> {
        let io = match peer {
            Peer::Unix => Io::local(fd),
            Peer::Ip(_) => match Io::new(fd) {
                Ok(io) => io,
                Err(_) => {
                    self.uncount();
                    return None;
                }
            },
        };
        Some(Stream::from(io))
    }

    /// Gives a connection its place in the table, where it waits for a request.
    fn enter(&self, conn: Connection, deadline_ms: u64) {
        let conn = Rc::new(conn);
        let slot = Slot { conn: conn.clone(), state: State::Idle, deadline_ms, timer_ms: deadline_ms };
        let key = self.insert(slot);
        conn.io.set_hot(key);
        Loop::current().hot_timer(deadline_ms, key);
    }

    /// A connection has been answered and waits for its next request until `deadline_ms`. After the first answer it is clear that
    /// it stays: then it goes to the thread with the fewest.
    pub(crate) fn rest(self: &Rc<Self>, index: u32, conn: &Connection, deadline_ms: u64) {
        if conn.requests.get() != 1 || !self.give_away(index, conn, deadline_ms) {
            self.set_idle(index, deadline_ms);
        }
    }

    /// True if the connection has left this thread.
    fn give_away(self: &Rc<Self>, index: u32, conn: &Connection, deadline_ms: u64) -> bool {
        let (target, fewest) = self.least();
        let is_plain = conn.io.tls().is_none() && conn.session().is_none() && conn.proxy.get().is_none();
        if fewest + 1 >= self.connections() || !is_plain || self.is_draining() || conn.outlived.get() {
            return false;
        }
        let Ok(fd) = conn.io.hand_over() else { return false };
        let (id, peer, started) = (conn.id, conn.peer, conn.started);
        self.shared.loads[target].fetch_add(1, Ordering::Relaxed);
        self.send_to(target, &conn.listener, move |thread, listener| {
            // Whoever rests is closed when its thread begins to drain.
            if thread.is_draining() {
                return thread.uncount();
            }
            let Some(io) = thread.register(fd, peer) else { return };
            let conn = Connection::new(io, id, peer, listener, started);
            conn.requests.set(1);
            conn.generation.set(thread.live().generation);
            crate::log::accepted(&thread.live(), &conn);
            thread.enter(conn, deadline_ms);
        });
        self.release(index);
        true
    }
}
