//! Taking connections from listening sockets and spreading them evenly over the threads.

use crate::limits::{ACCEPT_ALL_MAX, ACCEPT_BATCH_MAX, ACCEPT_PAUSE_MS, KEPT_MORE, MEMORY_LOOK_MS};
use crate::live::{Live, log_error};
use crate::log::LogLevel;
use crate::memory::ACCEPT_PAUSES;
use crate::peer::Peer;
use crate::protocol::{Listener, Passed};
use crate::thread::Thread;
use brisk_net::listen::Address;
use brisk_net::{Io, sleep};
use rustix::fd::OwnedFd;
use std::cell::{Cell, RefCell};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Thread {
    /// Starts accepting on sockets of the present configuration.
    pub fn listen(&self, sockets: Vec<(Address, OwnedFd)>) -> std::io::Result<()> {
        for (address, fd) in sockets {
            if self.is_anothers(&address) {
                continue;
            }
            let io = RefCell::new(Some(Io::listener(fd)?));
            let listener =
                Rc::new(Listener { address, io, id: Cell::new(None), protocol: RefCell::default() });
            self.locate(&listener);
            let mut listeners = self.listeners.borrow_mut();
            listener.watch(listeners.len());
            listeners.push(listener);
        }
        Ok(())
    }

    /// Whether another thread takes what comes to a socket: all datagrams of a client must come to one thread.
    fn is_anothers(&self, address: &Address) -> bool {
        let ip = match address {
            Address::Udp(ip) => ip,
            // Each thread has a socket of its own, to which the kernel routes its connections.
            Address::Quic(_, place) => return usize::from(*place) != self.index,
            Address::Ip(_) | Address::Unix(_) => return false,
        };
        let mut hasher = DefaultHasher::new();
        ip.hash(&mut hasher);
        hasher.finish() % self.shared.loads.len() as u64 != self.index as u64
    }

    /// Finds what serves a socket in the present configuration.
    pub(crate) fn locate(&self, listener: &Listener) {
        let protocols = self.protocols.borrow();
        let found = protocols.iter().find_map(|one| Some((one.clone(), one.find(&listener.address)?)));
        listener.id.set(found.as_ref().map(|(_, id)| *id));
        if let Some((protocol, _)) = found {
            listener.protocol.replace(Some(protocol));
        }
    }

    /// Takes the connections that wait, up to a limit.
    pub fn accept(self: &Rc<Self>, index: usize) {
        let Some(listener) = self.listeners.borrow().get(index).cloned() else { return };
        // What comes there belongs to connections that are accepted already, too.
        if let Address::Quic(..) = listener.address {
            return self.take_datagrams(&listener, index);
        }
        if self.accept_paused.get() {
            return;
        }
        if self.shared.budget.is_full() {
            return self.wait_for_memory();
        }
        if let Address::Udp(_) = listener.address {
            return self.take_datagrams(&listener, index);
        }
        let live = self.live();
        // Connections in the kernel's queue wait as well, unseen by what measures the lag.
        let batch = if live.snap.main.multi_accept || live.snap.measures_lag {
            ACCEPT_ALL_MAX
        } else {
            ACCEPT_BATCH_MAX
        };
        for _ in 0..batch {
            match listener.accept() {
                Ok(Some((fd, peer))) => {
                    self.arrivals().accepted.up();
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

    fn take_datagrams(&self, listener: &Rc<Listener>, index: usize) {
        if listener.protocol().is_some_and(|protocol| protocol.datagrams(listener)) {
            // More may be waiting, and the edge will not come again.
            listener.with_io(Io::mark_readable);
            listener.watch(index);
        }
    }

    /// Ends accepting. A connection wakes one of all who listen: those that woke us are ours to take, so we leave the
    /// circle first and look a last time then.
    pub(crate) fn stop_accepting(self: &Rc<Self>) {
        let live = self.live();
        for listener in self.listeners.borrow().clone() {
            // What comes there belongs to connections that are accepted already, too: the protocol takes no new ones.
            if let Address::Quic(..) = listener.address {
                continue;
            }
            if let Some(io) = &*listener.io.borrow() {
                io.mute();
            }
            while !matches!(listener.address, Address::Udp(_))
                && let Ok(Some((fd, peer))) = listener.accept()
            {
                self.place(fd, peer, &listener, &live);
            }
            listener.close();
        }
    }

    /// Out of descriptors (or memory): stop accepting for a moment; the connections wait in the kernel.
    fn accept_failed(self: &Rc<Self>, live: &Live, error: &std::io::Error) {
        let why = brisk_conf::os_text(error);
        log_error(live, LogLevel::Crit, format_args!("accept4() failed ({why})"));
        self.accept_paused.set(true);
        let this = self.clone();
        brisk_net::spawn(async move {
            brisk_net::sleep(Duration::from_millis(ACCEPT_PAUSE_MS)).await;
            this.resume_accepting();
        });
    }

    /// Goes on accepting after a pause, with the connections that have come meanwhile.
    pub fn resume_accepting(self: &Rc<Self>) {
        self.accept_paused.set(false);
        let count = self.listeners.borrow().len();
        (0..count).for_each(|index| self.accept(index));
    }

    /// What this thread listens on at an address, be it by the wildcard of its port.
    pub fn listener_of(&self, address: &Address) -> Option<Rc<Listener>> {
        let listeners = self.listeners.borrow();
        let exact = listeners.iter().find(|listener| listener.address == *address);
        let wide = || listeners.iter().find(|listener| listener.address.covers(address));
        exact.or_else(wide).cloned()
    }

    /// Gives a connection to what serves a listener, as if it had come there. It stays with this thread.
    pub fn hand_over(&self, passed: Passed, listener: &Rc<Listener>) {
        let Some(protocol) = listener.protocol() else { return };
        self.count();
        protocol.take_over(passed, listener.clone());
    }

    /// Gives a new connection to a thread. Most connections of some clients bring one request and end; handing those over costs
    /// more than serving them, so a thread keeps them unless it has clearly more than another. Those that stay are placed when
    /// they have been answered; what cannot be moved then goes to the fewest now.
    fn place(self: &Rc<Self>, fd: OwnedFd, peer: Peer, listener: &Rc<Listener>, live: &Rc<Live>) {
        let Some(protocol) = listener.protocol() else { return };
        let loads = &self.shared.loads;
        let limit = live.snap.main.connections as usize;
        let load = |index: usize| loads[index].load(Ordering::Relaxed);
        let is_moved_later = protocol.moves_later(listener);
        let (least, fewest) = self.least();
        let spare = if is_moved_later && load(self.index) < limit { KEPT_MORE + fewest / 8 } else { 0 };
        let target = if fewest + spare < load(self.index) { least } else { self.index };
        if load(target) >= limit {
            log_error(live, LogLevel::Alert, format_args!("{limit} worker_connections are not enough"));
            return;
        }
        // Counted here, so that a thread that drains knows of it before it comes.
        loads[target].fetch_add(1, Ordering::Relaxed);
        if target == self.index {
            return protocol.adopt(fd, peer, listener.clone());
        }
        self.send_to(target, listener, move |thread, listener| match listener.protocol() {
            Some(protocol) => protocol.adopt(fd, peer, listener),
            None => thread.uncount(),
        });
    }

    /// The thread with the fewest connections, and their number; this one, if no other has fewer.
    pub fn least(&self) -> (usize, usize) {
        let loads = self.shared.loads.iter().map(|load| load.load(Ordering::Relaxed)).enumerate();
        // A thread that has not come up yet takes no mail.
        loads
            .filter(|&(index, _)| index == self.index || self.shared.mailboxes[index].get().is_some())
            .min_by_key(|&(index, load)| (load, index != self.index))
            .unwrap_or((self.index, 0))
    }

    /// Hands a connection that is counted already to another thread, which is given its own view of the listening socket.
    pub fn send_to(
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

    /// Accepts nothing until there is memory again; connections wait in the kernel.
    fn wait_for_memory(self: &Rc<Self>) {
        ACCEPT_PAUSES.add(1);
        self.accept_paused.set(true);
        let this = self.clone();
        brisk_net::spawn(async move {
            while this.shared.budget.is_full() && !this.is_draining() {
                sleep(Duration::from_millis(MEMORY_LOOK_MS)).await;
                this.each_protocol(|protocol| protocol.look_at_memory());
            }
            this.resume_accepting();
        });
    }
}
