//! What a thread listens on, and what serves what comes there.

use crate::memory::Holding;
use crate::peer::Peer;
use crate::snapshot::ListenId;
use crate::tls::Rules;
use brisk_net::listen::{self, Address};
use brisk_net::{Io, Stream};
use brisk_tls::Hello;
use rustix::fd::OwnedFd;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// Keys of hot sources: listeners have this bit.
pub const LISTENER_KEY: u64 = 1 << 63;

/// A listening socket as a thread sees it. Connections keep it to know where they came in.
pub struct Listener {
    /// What is listened on.
    pub address: Address,
    /// `None` once nothing more is taken from it: it must not stay open because a connection remembers where it
    /// came from, or the kernel would go on accepting connections that no thread takes.
    pub(crate) io: RefCell<Option<Io>>,
    /// Its place in the present configuration; `None` once the configuration no longer has it.
    pub id: Cell<Option<ListenId>>,
    /// What serves its connections.
    pub(crate) protocol: RefCell<Option<Rc<dyn Protocol>>>,
}

impl Listener {
    /// One that takes nothing by itself: others bring what comes to the address.
    pub fn without_socket(address: Address, id: Option<ListenId>) -> Listener {
        Listener { address, io: RefCell::default(), id: Cell::new(id), protocol: RefCell::default() }
    }

    /// Tells the driver about its connections under `index`.
    pub(crate) fn watch(&self, index: usize) {
        if let Some(io) = &*self.io.borrow() {
            io.set_hot(LISTENER_KEY | index as u64);
        }
    }

    /// Lends the socket, as long as something is taken from it.
    pub fn with_io<T>(&self, what: impl FnOnce(&Io) -> T) -> Option<T> {
        self.io.borrow().as_ref().map(what)
    }

    /// What serves its connections, if it was located.
    pub(crate) fn protocol(&self) -> Option<Rc<dyn Protocol>> {
        self.protocol.borrow().clone()
    }

    /// Takes nothing more.
    pub(crate) fn close(&self) {
        self.io.take();
    }

    /// Takes one connection; `None` if none waits.
    pub(crate) fn accept(&self) -> std::io::Result<Option<(OwnedFd, Peer)>> {
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

/// A connection that one server of the process passes to another.
pub struct Passed {
    /// What has it been until now.
    pub begun: Begun,
    /// Who the client is.
    pub peer: Peer,
    /// The address that it is passed to, if that is one: it takes the place of our side's.
    pub local: Option<SocketAddr>,
    /// How often it was passed, this time included.
    pub times: u32,
}

/// How far a connection is that is passed on.
pub enum Begun {
    /// Nothing of what is to be read was taken.
    Socket(OwnedFd),
    /// TLS was ended; what is inside of it is to be read.
    Secure(Box<Secure>),
}

/// A session of TLS that is complete, and whose client is let in.
pub struct Secure {
    /// The connection.
    pub stream: Stream,
    /// The name that the client has asked for, as it wrote it.
    pub name: Option<Box<str>>,
    /// The rules that the handshake has followed.
    pub rules: Arc<Rules>,
    /// What the client has offered, if a variable shows it.
    pub hello: Option<Box<Hello>>,
}

/// A protocol's part of a thread.
pub trait Protocol {
    /// Where the protocol's present configuration has this socket.
    fn find(&self, address: &Address) -> Option<ListenId>;

    /// Whether this socket's connections may go to another thread later, so that they need not be placed well now.
    fn moves_later(&self, listener: &Listener) -> bool;

    /// Takes a connection, which is counted already: [`Thread::uncount`](crate::thread::Thread::uncount) when it has ended.
    fn adopt(&self, fd: OwnedFd, peer: Peer, listener: Rc<Listener>);

    /// Takes a connection that another server of this thread has begun. It is counted already, as for [`Protocol::adopt`].
    fn take_over(&self, passed: Passed, listener: Rc<Listener>);

    /// Takes the datagrams that wait on a socket; true if it stopped before it had them all.
    fn datagrams(&self, listener: &Rc<Listener>) -> bool;

    /// Another configuration is live; `gone` are sockets that the thread does not listen on any more.
    fn switched(&self, gone: &[Rc<Listener>]);

    /// Nothing new comes: what is idle ends.
    fn drain(&self);

    /// Ends what is served by a configuration before `generation`.
    fn cut(&self, generation: u64);

    /// Looks at the memory, if it is time, and has done what follows.
    fn look_at_memory(&self) {}

    /// Tells what its connections hold, if that is nobody else's to tell.
    fn holdings(&self, _: &mut dyn FnMut(Holding)) {}

    /// Ends a connection that holds so much, if it is one of its own and still there; gives whether it is.
    fn give_up(&self, _: &Holding) -> bool {
        false
    }
}
