//! One session: a client's connection or its datagrams, and how it ended.

use crate::conf::{Place, Server, Stream};
use crate::secure::Secure;
use brisk_host::log::{self, Entry, LogLevel};
use brisk_host::memory::Account;
use brisk_host::peer::Peer;
use brisk_host::regex::Captures;
use brisk_host::thread::{Listener, Live, Thread};
use brisk_host::vars::{Context, Store, Table};
use brisk_net::clock::{self, Now};
use brisk_proxy_protocol::ProxyHeader;
use brisk_tls::Hello;
use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// One attempt at a peer, as variables and messages show it.
#[derive(Clone, Debug, Default)]
pub struct Attempt {
    /// The peer's address; the group's name if no peer could be chosen.
    pub peer: Arc<str>,
    /// Milliseconds; `None`: it did not get so far.
    pub connect_ms: Option<u64>,
    /// Until the peer's first byte.
    pub first_byte_ms: Option<u64>,
    /// Until the end of the session.
    pub session_ms: Option<u64>,
    /// Bytes to the peer.
    pub sent_bytes: u64,
    /// Bytes from the peer.
    pub received_bytes: u64,
}

/// Where a session comes from, and what serves it: known when it begins, and the same until its end.
pub struct Origin {
    /// The thread that serves it.
    pub thread: Rc<Thread>,
    /// The part of `stream` in the configuration that it began with.
    pub conf: Arc<Stream>,
    /// The servers of the address that it came to.
    pub place: Arc<Place>,
    /// Where it came in.
    pub listener: Rc<Listener>,
    /// `$connection`: unique in the process.
    pub id: u64,
    /// The other side's address.
    pub peer: Peer,
    /// It is one of datagrams.
    pub is_udp: bool,
    /// Our side's address; `None` for a unix socket.
    pub local: Option<SocketAddr>,
    /// How often its connection was passed from one server of the process to another (`pass`).
    pub passes: u32,
}

/// See the module's head.
pub struct Session {
    /// Where it comes from.
    pub origin: Origin,
    /// The configuration that it began with: a reload changes nothing of it.
    pub live: Rc<Live>,
    /// When it began.
    pub started: Now,
    /// What it holds, as far as that is counted: what its protocol stores of its client and its servers.
    pub account: Rc<Account>,
    /// The client's address: the other side's, or the one that a trusted proxy has sent.
    pub client: Cell<Peer>,
    /// The PROXY header that the connection began with.
    pub header: OnceCell<ProxyHeader>,
    /// The name that the client asked for in a handshake that is answered here, as it wrote it.
    pub asked_name: OnceCell<Box<str>>,
    /// What is known from that handshake.
    pub secure: OnceCell<Box<Secure>>,
    /// What the client offers in its ClientHello, where that was looked at.
    pub hello: OnceCell<Box<Hello>>,
    server: RefCell<Arc<Server>>,
    kept: RefCell<Vec<Box<dyn Any>>>,
    /// Bytes that `ssl_preread` has taken from a TLS session: they go to the peer first.
    pub(crate) looked_at: RefCell<Vec<u8>>,
    /// Another server of the process has the connection, and logs it.
    pub(crate) is_passed: Cell<bool>,
    /// Bytes from the client.
    pub received_bytes: Cell<u64>,
    /// Bytes to the client.
    pub sent_bytes: Cell<u64>,
    /// 0 until the session ends.
    pub status: Cell<u16>,
    /// The peers that were tried, in order.
    pub attempts: RefCell<Vec<Attempt>>,
    store: Store,
    captures: RefCell<Captures>,
}

impl Session {
    pub(crate) fn new(origin: Origin) -> Session {
        origin.place.server.stats.begin();
        Session {
            live: origin.thread.live(),
            client: Cell::new(origin.peer),
            header: OnceCell::new(),
            asked_name: OnceCell::new(),
            secure: OnceCell::new(),
            hello: OnceCell::new(),
            server: RefCell::new(origin.place.server.clone()),
            kept: RefCell::default(),
            origin,
            started: clock::now(),
            account: Rc::default(),
            looked_at: RefCell::default(),
            is_passed: Cell::new(false),
            received_bytes: Cell::new(0),
            sent_bytes: Cell::new(0),
            status: Cell::new(0),
            attempts: RefCell::default(),
            store: Store::default(),
            captures: RefCell::default(),
        }
    }

    /// The server that it is of: that of its address, until a name leads to another one.
    pub fn server(&self) -> Arc<Server> {
        self.server.borrow().clone()
    }

    pub(crate) fn move_to(&self, server: &Arc<Server>) {
        let before = self.server.replace(server.clone());
        server.stats.take_over(&before.stats);
    }

    /// Keeps a value until the end of the session.
    pub fn keep(&self, value: impl Any) {
        self.kept.borrow_mut().push(Box::new(value));
    }

    /// Looks at the first value of this type that is [kept](Session::keep).
    pub fn kept<T: Any, R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        self.kept.borrow().iter().find_map(|value| value.downcast_ref::<T>()).map(look)
    }

    /// Milliseconds since the beginning.
    pub fn age_ms(&self) -> u64 {
        clock::mono_ms().saturating_sub(self.started.mono_ms)
    }

    /// The time, in Unix seconds.
    pub fn now_secs(&self) -> i64 {
        clock::now().unix_secs
    }

    /// Changes what is known of the present attempt.
    pub(crate) fn attempt(&self, change: impl FnOnce(&mut Attempt)) {
        if let Some(attempt) = self.attempts.borrow_mut().last_mut() {
            change(attempt);
        }
    }

    /// Bytes have come from the client, and have gone to it.
    pub fn moved(&self, received: u64, sent: u64) {
        self.received_bytes.set(self.received_bytes.get() + received);
        self.sent_bytes.set(self.sent_bytes.get() + sent);
        self.server.borrow().stats.moved(received, sent);
    }

    /// Counts the session, and writes the lines of the access logs.
    pub(crate) fn finish(&self) {
        let status = (!self.is_passed.get()).then(|| self.status.get());
        self.server.borrow().stats.end(status);
        if !self.is_passed.get() {
            self.server().logs.iter().for_each(|log| log.log(self));
        }
    }

    /// Whether a message of this level is wanted.
    pub(crate) fn logs(&self, level: LogLevel) -> bool {
        self.server.borrow().error_log.iter().any(|to| to.level >= level)
    }

    /// Tells of a step, for `error_log … debug`.
    pub(crate) fn step(&self, what: fmt::Arguments<'_>) {
        if log::may_debug() {
            self.log(LogLevel::Debug, what);
        }
    }

    /// Writes a message with nothing about a back end behind it.
    pub(crate) fn info(&self, message: fmt::Arguments<'_>) {
        if self.logs(LogLevel::Info) {
            let entry = Entry::new(LogLevel::Info, Some(self.origin.id), message);
            log::write_all(&self.server().error_log, &self.live.logs, &entry);
        }
    }
}

impl Context for Session {
    fn table(&self) -> &Table<Session> {
        &self.origin.conf.vars
    }

    fn store(&self) -> &Store {
        &self.store
    }

    fn captures(&self) -> &RefCell<Captures> {
        &self.captures
    }

    fn log(&self, level: LogLevel, message: fmt::Arguments<'_>) {
        if !self.logs(level) {
            return;
        }
        let mut entry = Entry::new(level, Some(self.origin.id), message);
        entry.about("client", self.client.get().to_string().as_bytes(), false);
        entry.about("server", shown(&self.origin.listener.address).as_bytes(), false);
        if let Some(attempt) = self.attempts.borrow().last() {
            entry.about("upstream", attempt.peer.as_bytes(), true);
            let (received, sent) = (self.received_bytes.get(), self.sent_bytes.get());
            entry.about("bytes from/to client", format!("{received}/{sent}").as_bytes(), false);
            let (received, sent) = (attempt.received_bytes, attempt.sent_bytes);
            entry.about("bytes from/to upstream", format!("{received}/{sent}").as_bytes(), false);
        }
        log::write_all(&self.server().error_log, &self.live.logs, &entry);
    }

    // Nothing of a session is kept for another one.
    fn note_anything(&self) {}

    fn warns_of_uninitialized(&self) -> bool {
        true
    }
}

/// An address as messages show it.
pub(crate) fn shown(address: &brisk_net::listen::Address) -> String {
    match address {
        brisk_net::listen::Address::Udp(ip) => ip.to_string(),
        address => address.to_string(),
    }
}
