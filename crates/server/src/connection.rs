//! What is known of a client's connection, whatever protocol it speaks.

use crate::thread::Listener;
use brisk_net::Io;
use brisk_net::clock::Now;
use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;

/// The other side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    Ip(SocketAddr),
    Unix,
}

impl Peer {
    /// An IPv4 address in IPv6 clothes is shown as nginx shows it: as it is.
    pub fn ip(&self) -> Option<std::net::IpAddr> {
        match self {
            Peer::Ip(addr) => Some(addr.ip()),
            Peer::Unix => None,
        }
    }
}

/// `$remote_addr`: the address without port, or `unix:`.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Ip(addr) => write!(f, "{}", addr.ip()),
            Peer::Unix => f.write_str("unix:"),
        }
    }
}

/// A client's connection.
pub struct Connection {
    pub io: Io,
    /// Bytes read but not used: the start of the next request, or a body.
    pub input: RefCell<Vec<u8>>,
    /// `$connection`: unique in the process.
    pub id: u64,
    pub peer: Peer,
    /// `$remote_addr` as text: it is in every log line.
    pub peer_text: Box<[u8]>,
    pub listener: Rc<Listener>,
    pub started: Now,
    /// Requests so far, the present one included.
    pub requests: Cell<u64>,
    /// The present request came in together with the one before it.
    pub pipelined: Cell<bool>,
    local: OnceCell<Option<SocketAddr>>,
    delays: Cell<bool>,
}

impl Connection {
    pub fn new(io: Io, id: u64, peer: Peer, listener: Rc<Listener>, started: Now) -> Connection {
        Connection {
            io,
            input: RefCell::default(),
            id,
            peer,
            peer_text: peer.to_string().into_bytes().into(),
            listener,
            started,
            requests: Cell::new(0),
            pipelined: Cell::new(false),
            local: OnceCell::new(),
            delays: Cell::new(false),
        }
    }

    /// `tcp_nodelay off`. Listening sockets have it on, and connections inherit it.
    pub fn delay_small_packets(&self) {
        if !self.delays.replace(true) && matches!(self.peer, Peer::Ip(_)) {
            let _ = rustix::net::sockopt::set_tcp_nodelay(self.io.fd(), false);
        }
    }

    /// Our side's address; asked from the kernel on first use. `None` for a unix socket.
    pub fn local(&self) -> Option<SocketAddr> {
        *self.local.get_or_init(|| brisk_net::listen::local_ip(self.io.fd()))
    }
}
