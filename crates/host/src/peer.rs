//! The other side of a connection, and how a connection's task is ended from outside.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::SocketAddr;
use std::task::Waker;

/// The other side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// An IP address and port.
    Ip(SocketAddr),
    /// A unix socket, whose peers have no address.
    Unix,
}

impl Peer {
    /// The address; an IPv4-mapped one (RFC 4291 §2.5.5.2) as it is, as nginx shows it.
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

/// Ends a connection's task from outside, wherever it waits.
#[derive(Default)]
pub struct Cut {
    wanted: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Cut {
    /// The task ends at its next turn, which comes at once.
    pub fn order(&self) {
        self.wanted.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// For the task: whether to end; if not, it is woken when that changes.
    pub fn is_wanted(&self, waker: &Waker) -> bool {
        if !self.wanted.get() && self.waker.borrow().is_none() {
            *self.waker.borrow_mut() = Some(waker.clone());
        }
        self.wanted.get()
    }
}
