//! What a thread has of QUIC.

use super::parcel::Parcel;
use crate::connection::Connection;
use crate::table::Thread;
use brisk_host::thread::Listener;
use brisk_net::Io;
use brisk_net::listen::Address;
use brisk_net::udp::{Outbox, Receiver};
use brisk_quic::{Counters, Endpoint, Event, Key};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

/// What is spoken on one connection: HTTP/3.
/// Calls go one way at a time: the endpoint's cell is not borrowed while an application is told, so it may
/// use it at once.
pub(crate) trait App {
    /// What the server knows of the client.
    fn connection(&self) -> &Rc<Connection>;

    /// Something has happened to the connection. The endpoint may be used, but not while another use of it is under way.
    fn event(self: Rc<Self>, event: Event);
}

/// A socket of the thread.
pub(crate) struct Socket {
    /// Its number for the endpoint.
    pub number: u32,
    pub listener: Rc<Listener>,
    /// Kept beside the listener's: connections send by it after nothing more is received.
    /// A copy of the descriptor: the listener may close its own with a reload.
    pub io: Io,
    pub outbox: RefCell<Outbox>,
    /// Datagrams that the kernel has dropped because none took them.
    pub dropped: Cell<u32>,
    /// The configuration does not have it any more: connections that it carries are served to their end.
    pub is_gone: Cell<bool>,
}

impl Socket {
    /// The address that it listens on.
    pub fn listening(&self) -> Option<SocketAddr> {
        match self.listener.address {
            Address::Quic(ip, _) => Some(ip),
            _ => None,
        }
    }
}

/// Packets that belong to others, collected in one look at a socket.
/// Sent when the socket has been looked at: one message to a thread takes many packets.
#[derive(Default)]
pub(crate) struct Astray {
    /// By thread.
    pub threads: BTreeMap<usize, Parcel>,
    /// By the generation of the worker.
    pub workers: BTreeMap<u8, Parcel>,
    /// Those that would begin connections, of a worker that takes none any more, since then: until it knows who does.
    pub held: Option<(Instant, Parcel)>,
}

/// Who speaks on which connection.
pub(crate) type Apps = HashMap<Key, (Rc<dyn App>, Counted)>;

/// See the module's head.
#[derive(Default)]
pub struct Quic {
    /// Made with the first socket.
    pub(crate) endpoint: RefCell<Option<Endpoint>>,
    pub(crate) sockets: RefCell<Vec<Rc<Socket>>>,
    pub(crate) receiver: RefCell<Receiver>,
    pub(crate) apps: RefCell<Apps>,
    /// Connections whose handshake is under way, by the number that the endpoint keeps for them.
    pub(crate) openings: RefCell<HashMap<u64, Opening>>,
    pub(crate) next_socket: Cell<u32>,
    pub(crate) astray: RefCell<Astray>,
    /// What endpoints of this thread have counted.
    pub(crate) counters: Cell<Counters>,
}

/// A connection before it can be used.
pub(crate) struct Opening {
    pub conn: Rc<Connection>,
    /// What must be read before its handshake goes on.
    pub load: Option<crate::tls::opening::QuicLoad>,
    /// It counts among the thread's connections.
    pub counted: Counted,
}

/// A connection among those of its thread, for as long as this lives.
/// By its life and not by calls: every way in which a connection ends counts it out.
pub(crate) struct Counted(Rc<Thread>);

impl Counted {
    pub fn new(thread: &Rc<Thread>) -> Counted {
        thread.count();
        Counted(thread.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.uncount();
    }
}

impl Quic {
    /// Works on a connection; `None` if it is over.
    pub(crate) fn with<T>(&self, key: Key, work: impl FnOnce(&mut brisk_quic::Connection) -> T) -> Option<T> {
        let mut endpoint = self.endpoint.borrow_mut();
        endpoint.as_mut()?.connection(key).map(work)
    }

    /// A socket by its number.
    /// Few sockets, so a list is searched.
    pub(crate) fn socket(&self, number: u32) -> Option<Rc<Socket>> {
        self.sockets.borrow().iter().find(|socket| socket.number == number).cloned()
    }
}
