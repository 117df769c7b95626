//! Taking new connections over from their listening sockets, and giving them to other threads.

use crate::conf::ids::ListenId;
use crate::connection::Connection;
use crate::table::{Slot, State, Thread};
use crate::tls::Facts;
use brisk_host::log::LogLevel;
use brisk_host::peer::Peer;
use brisk_host::thread::{Begun, Listener, Passed, Secure};
use brisk_net::{Io, Loop, Stream, clock};
use rustix::fd::OwnedFd;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;

impl Thread {
    /// Makes a socket a connection of this thread; it is already counted.
    pub(crate) fn adopt(self: &Rc<Self>, fd: OwnedFd, peer: Peer, listener: Rc<Listener>) {
        // The kernel refuses only when memory for the registration is short. The connection is closed then,
        // as it is not served by anybody.
        let Some(io) = self.register(fd, peer) else { return };
        self.welcome(Connection::new(io, self.new_id(), peer, listener, clock::mono_ms()));
    }

    /// Makes a connection of this thread of one that `stream` passes on; it is already counted.
    pub(crate) fn take_over(self: &Rc<Self>, passed: Passed, listener: Rc<Listener>) {
        let (io, secure) = match passed.begun {
            Begun::Socket(fd) => match self.register(fd, passed.peer) {
                Some(io) => (io, None),
                None => return,
            },
            Begun::Secure(secure) => {
                let Secure { stream, name, rules, hello } = *secure;
                (stream, Some((name, rules, hello)))
            }
        };
        let conn = Connection::new(io, self.new_id(), passed.peer, listener, clock::mono_ms());
        passed.local.into_iter().for_each(|local| conn.stand_for(local));
        if let Some((name, rules, hello)) = secure {
            let live = self.live();
            let Some(id) = conn.listener.id.get() else { return self.uncount() };
            let listen = live.snap.listen(id);
            let (prefix, server) = match listen.local(|| conn.local()) {
                Some(local) => (local.prefix, local.default_server),
                None => (listen.prefix, listen.default_server),
            };
            if prefix.tls || prefix.proxy_protocol {
                let text = format_args!(
                    "a connection whose TLS was ended was passed to where TLS or a PROXY header is to come"
                );
                crate::log::connection(&live, &conn, LogLevel::Error, text);
                return self.uncount();
            }
            conn.is_passed.set(true);
            let _ = conn.secure.set(Box::new(Facts::passed(name, rules, hello, server, live.generation)));
        }
        self.welcome(conn);
    }

    fn new_id(&self) -> u64 {
        // One sequence for all threads: `$connection` is unique in the process, and a connection keeps it when it moves.
        self.shared.connection_ids.fetch_add(1, Ordering::Relaxed)
    }

    /// A connection has come: what its first bytes are is known now.
    fn welcome(&self, conn: Connection) {
        self.arrivals().handled.up();
        let live = self.live();
        let timeout = live.header_timeout(&conn.listener);
        // By it a reload knows which connections it must end when `worker_shutdown_timeout` is over.
        conn.generation.set(live.generation);
        crate::log::accepted(&live, &conn);
        let timeout = crate::tls::opening::adopted(&live, &conn).unwrap_or(timeout);
        let deadline_ms = conn.started_ms + timeout.as_millis() as u64;
        self.enter(conn, deadline_ms);
    }

    /// Makes one end of a pair of sockets a connection, as if `client` had connected to `local` on this listening socket. Everything
    /// about it is noted ([`trace`](crate::trace)).
    pub(crate) fn bring(
        self: &Rc<Self>,
        fd: OwnedFd,
        client: SocketAddr,
        local: SocketAddr,
        listen: ListenId,
    ) {
        let live = self.live();
        let peer = Peer::Ip(client);
        self.shared.loads[self.index].fetch_add(1, Ordering::Relaxed);
        let Some(io) = self.register(fd, peer) else { return };
        // There is no listening socket behind it: the descriptor is one end of a pair, and its id tells which
        // `listen` it stands for.
        let address = live.snap.listen(listen).address.clone();
        let listener = Rc::new(Listener::without_socket(address, Some(listen)));
        let id = self.new_id();
        let now_ms = clock::mono_ms();
        let timeout = live.header_timeout(&listener);
        let conn = Connection::new(io, id, peer, listener, now_ms);
        conn.stand_for(local);
        conn.generation.set(live.generation);
        // All messages are noted, whatever `error_log` says: this process does nothing but tell.
        conn.debug.set(true);
        let timeout = crate::tls::opening::adopted(&live, &conn).unwrap_or(timeout);
        self.enter(conn, now_ms + timeout.as_millis() as u64);
    }

    fn register(&self, fd: OwnedFd, peer: Peer) -> Option<Stream> {
        let io = match peer {
            // Without registration for writing: see docs/decisions.md.
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
    fn enter(&self, conn: Connection, deadline_ms: u64) -> u32 {
        let conn = Rc::new(conn);
        let slot =
            Slot { conn: conn.clone(), state: State::Idle, deadline_ms, timer_ms: deadline_ms, turn: 0 };
        let key = self.insert(slot);
        // The driver is told of what has come already, too: a request often comes with the connection.
        conn.io.set_hot(key);
        Loop::current().hot_timer(deadline_ms, key);
        key as u32
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
        // The number is read without a lock and may be old by a moment. Nothing depends on it: a wrong choice
        // costs an uneven thread, no connection.
        let (target, fewest) = self.least();
        // A session, frames that have begun or a PROXY header cannot be handed over with the descriptor.
        let is_plain = conn.io.tls().is_none() && conn.session().is_none() && conn.proxy().is_none();
        // One more here than there is no reason to move: it would only wander.
        if fewest + 1 >= self.connections() || !is_plain || self.is_draining() || conn.outlived.get() {
            return false;
        }
        let Ok(fd) = conn.io.hand_over() else { return false };
        let given = Given { fd, id: conn.id, peer: conn.peer(), started_ms: conn.started_ms, deadline_ms };
        // Before it is on its way, so that two threads do not both see the same empty one.
        self.shared.loads[target].fetch_add(1, Ordering::Relaxed);
        self.send_to(target, &conn.listener, move |host, listener| {
            // The mailbox runs this between two turns, when the other thread may be over: the place that was
            // counted for it is given back.
            let Some(thread) = Thread::current() else { return host.uncount() };
            thread.take_given(given, listener);
        });
        self.release(index);
        true
    }

    /// Takes a connection that another thread gives away; it is already counted.
    fn take_given(self: &Rc<Self>, given: Given, listener: Rc<Listener>) {
        let Given { fd, id, peer, started_ms, deadline_ms } = given;
        let Some(io) = self.register(fd, peer) else { return };
        let conn = Connection::new(io, id, peer, listener, started_ms);
        // It has been answered once: `keepalive_requests` goes on counting.
        conn.requests.set(1);
        // The other thread may be a switch ahead or behind. The connection belongs to the configuration
        // of the thread that serves it.
        let live = self.live();
        conn.generation.set(live.generation);
        crate::log::accepted(&live, &conn);
        let index = self.enter(conn, deadline_ms);
        // It comes too late for what the beginning of a drain does to those that wait, and is treated as they were: its next request may have come.
        if self.is_draining() {
            self.end_idle(index);
        }
    }
}

/// A connection that goes to another thread.
struct Given {
    fd: OwnedFd,
    id: u64,
    peer: Peer,
    started_ms: u64,
    deadline_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::Module;
    use crate::testing;
    use brisk_net::listen::Address;
    use std::io::{ErrorKind, Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    static MODULES: &[&Module] = &[&crate::core::MAIN, &crate::core::HTTP];

    /// A connection that was on its way to a thread when that began to drain is not thrown away: a request that has come with it is served, and without
    /// one it is closed as all that wait are.
    #[test]
    fn a_connection_that_is_given_to_a_thread_that_drains() {
        let check = |settings: &str, said: &[u8]| {
            let text = format!("events {{}} http {{ server {{ listen 127.0.0.1:8080; {settings} }} }}");
            let thread = testing::thread(MODULES, &text);
            let socket = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = socket.local_addr().unwrap();
            let mut client = TcpStream::connect(address).unwrap();
            let (server, peer) = socket.accept().unwrap();
            server.set_nonblocking(true).unwrap();
            client.write_all(said).unwrap();
            thread.host.count();
            thread.host.drain();
            let deadline_ms = clock::mono_ms() + 75_000;
            let (fd, peer) = (server.into(), Peer::Ip(peer));
            let given = Given { fd, id: 1, peer, started_ms: clock::mono_ms(), deadline_ms };
            let listener = Rc::new(Listener::without_socket(Address::Ip(address), Some(ListenId(0))));
            thread.take_given(given, listener);
            let is_kept = thread.connections() == 1;
            client.set_nonblocking(true).unwrap();
            match client.read(&mut [0]) {
                Ok(0) => assert!(!is_kept, "closed in order"),
                Err(error) => assert!(is_kept && error.kind() == ErrorKind::WouldBlock, "{error}"),
                Ok(_) => panic!("nothing is said"),
            }
            is_kept
        };
        assert!(!check("", b""));
        assert!(check("", b"GET / HTTP/1.1\r\n"));
        assert!(check("keepalive_min_timeout 60s;", b""));
    }
}
