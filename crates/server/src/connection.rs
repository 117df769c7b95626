//! What is known of a client's connection, whatever protocol it speaks.
//!
//! It is one thread's, so its state is in cells without locks. It knows no requests: those hold it, and a parked one
//! stands in the table beside it.

use crate::limits::CLIENT_ADDRESSES_MAX;
use crate::shared::{Ongoing, Seat};
use crate::stream::Session;
use crate::tls::facts::Facts;
use brisk_host::memory::Account;
pub use brisk_host::peer::{Cut, Peer};
use brisk_host::thread::Listener;
use brisk_http::RequestHead;
use brisk_net::Stream;
use brisk_net::clock;
use brisk_proxy_protocol::ProxyHeader;
use std::cell::{Cell, OnceCell, RefCell, RefMut};
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// What the next bytes of a connection are, until it is a [`Session`].
/// Each stage leads to another one or to a session; none of them goes back but from `Head` to `Request`.
pub(crate) enum Stage {
    /// A PROXY header (`listen … proxy_protocol`); then TLS, if `tls`.
    ProxyHeader { tls: bool },
    /// A ClientHello (`listen … ssl`).
    Hello,
    /// A request, or the first of HTTP/2's.
    Request,
    /// The rest of a request's head. What has come of it is the connection's input.
    Head(Box<PartialHead>),
}

/// A head that has not come as a whole.
pub(crate) struct PartialHead {
    /// How far it is parsed.
    pub head: RequestHead,
    /// When its first part was read (monotonic, in microseconds).
    pub since_us: u64,
    // Counted while it exists, so that the figure cannot drift whichever way the head ends.
    _reading: Ongoing,
}

impl PartialHead {
    /// Counted among those that are being read from now on.
    pub fn new(seat: &Rc<Seat>, head: RequestHead) -> PartialHead {
        PartialHead {
            head,
            since_us: clock::now().mono_us,
            _reading: Ongoing::new(seat, |counters| &counters.reading),
        }
    }
}

/// An address that a client has had, without the port, and the one after it. Texts are only added, so that references to them stay
/// good.
struct AddressText {
    text: Box<[u8]>,
    next: OnceCell<Box<AddressText>>,
}

impl AddressText {
    fn of(peer: Peer) -> AddressText {
        AddressText { text: peer.to_string().into_bytes().into(), next: OnceCell::new() }
    }
}

/// A client's connection. Idle ones have little besides, so what few of them need is in boxes.
pub struct Connection {
    /// The socket, with the TLS session if there is one.
    pub io: Stream,
    /// Bytes read but not used: the start of the next request, or a body.
    pub input: RefCell<Vec<u8>>,
    /// When (monotonic, in microseconds) nothing was left to be answered the last time, where that is asked for.
    pub(crate) caught_up_us: Cell<u64>,
    /// `$connection`: unique in the process.
    /// It stays the same when the connection moves to another thread: log lines of one connection have one number.
    pub id: u64,
    /// See [`Connection::peer`].
    peer: Cell<Peer>,
    /// `$remote_addr` as text: it is in every log line.
    texts: AddressText,
    /// Which of the texts is the present one's.
    text_at: Cell<u8>,
    /// The listening socket that it came by.
    /// A reload changes what its `id` means, or takes it away; the connection keeps the listener.
    pub listener: Rc<Listener>,
    /// What the connection makes the process hold.
    pub account: Rc<Account>,
    /// When it was accepted (monotonic, in milliseconds).
    pub started_ms: u64,
    /// `debug_connection`: everything about it is logged.
    pub debug: Cell<bool>,
    /// Requests so far, the present one included.
    pub requests: Cell<u64>,
    /// The present request came in together with the one before it.
    pub pipelined: Cell<bool>,
    /// What its next bytes are.
    pub(crate) stage: RefCell<Stage>,
    /// Plain HTTP came where TLS was expected.
    pub plain_on_tls: Cell<bool>,
    /// Another server of the process has answered its handshake: requests of the same socket may come without TLS, too.
    pub is_passed: Cell<bool>,
    /// What the TLS handshake has told.
    pub secure: OnceCell<Box<Facts>>,
    /// Work that no client waits for holds the connection beyond its end: closing it takes more than dropping it.
    /// A subrequest in the background, say. The driver must not give the descriptor to somebody else.
    pub(crate) outlived: Cell<bool>,
    /// The client has not sent all of its request: it may still be sending while the connection is closed.
    /// Closing with unread bytes would have the kernel send RST, which may take the answer from the client
    /// (RFC 9112 §9.6).
    pub sends: Cell<bool>,
    /// The configuration (by its count of reloads) that the present request, or else the last one, is served by.
    pub generation: Cell<u64>,
    /// What wakes a request that waits without a task.
    waker: OnceCell<Waker>,
    /// What few of the connections that rest have.
    rare: OnceCell<Box<Rare>>,
    delays: Cell<bool>,
}

/// See [`Connection`]; made when the first of it is needed.
#[derive(Default)]
struct Rare {
    /// Interim responses that the socket has not taken yet: they leave before anything else.
    /// Two writers of one socket would mix a 103 into the head behind it.
    unsent: RefCell<Vec<u8>>,
    /// What a PROXY header has told; empty without one, and if it told nothing.
    proxy: OnceCell<ProxyHeader>,
    /// What carries several requests at a time, if the protocol does.
    session: OnceCell<Rc<dyn Session>>,
    /// `None` inside: the kernel was asked, and there is none (a unix socket).
    local: OnceCell<Option<SocketAddr>>,
}

// With its counts of references it fits into what the allocator gives for 256 bytes; the next size is 320.
const _: () = assert!(size_of::<Connection>() <= 240);

impl Connection {
    /// One that was accepted at `started_ms` (monotonic) and has brought nothing yet. `id` is unique in the process.
    pub fn new(io: Stream, id: u64, peer: Peer, listener: Rc<Listener>, started_ms: u64) -> Connection {
        Connection {
            io,
            input: RefCell::default(),
            caught_up_us: Cell::new(0),
            id,
            peer: Cell::new(peer),
            texts: AddressText::of(peer),
            text_at: Cell::new(0),
            listener,
            account: Rc::default(),
            started_ms,
            debug: Cell::new(false),
            requests: Cell::new(0),
            pipelined: Cell::new(false),
            stage: RefCell::new(Stage::Request),
            plain_on_tls: Cell::new(false),
            is_passed: Cell::new(false),
            secure: OnceCell::new(),
            outlived: Cell::new(false),
            sends: Cell::new(false),
            generation: Cell::new(0),
            waker: OnceCell::new(),
            rare: OnceCell::new(),
            delays: Cell::new(false),
        }
    }

    /// `tcp_nodelay off`. Listening sockets have it on, and connections inherit it.
    pub fn delay_small_packets(&self) {
        if !self.delays.replace(true) && matches!(self.peer.get(), Peer::Ip(_)) {
            self.io.delay_small_packets();
        }
    }

    /// Who has connected, before any header tells of another client. Over QUIC a client may move: then it is the address that was
    /// validated last.
    #[inline]
    pub fn peer(&self) -> Peer {
        self.peer.get()
    }

    /// [`Connection::peer`] as text, without the port.
    #[inline]
    pub fn peer_text(&self) -> &[u8] {
        let mut node = &self.texts;
        // The list has one entry for all but QUIC's clients that have moved.
        for _ in 0..self.text_at.get() {
            match node.next.get() {
                Some(next) => node = next,
                None => break,
            }
        }
        &node.text
    }

    /// The client has shown that it receives at another address (RFC 9000 §9). False: it has had too many of them, and the
    /// connection is to be closed.
    pub(crate) fn move_to(&self, address: SocketAddr) -> bool {
        let peer = Peer::Ip(address);
        let wanted = AddressText::of(peer);
        let (mut node, mut at) = (&self.texts, 0);
        while node.text != wanted.text {
            at += 1;
            // A peer that claims ever new addresses would make the list grow.
            if at == CLIENT_ADDRESSES_MAX {
                return false;
            }
            node = node.next.get_or_init(|| Box::new(AddressText::of(peer)));
        }
        self.peer.set(peer);
        self.text_at.set(at);
        true
    }

    /// Whether the client goes away before `wait` is over. For those who have the connection for themselves; others ask
    /// [`Request::gone_before`](crate::request::Request::gone_before).
    pub async fn closed_before(&self, wait: impl Future<Output = ()>) -> bool {
        let mut wait = pin!(wait);
        poll_fn(|cx| {
            // The end of `wait` is looked at first: a client that goes in the same moment has been served.
            if wait.as_mut().poll(cx).is_ready() {
                return Poll::Ready(false);
            }
            if self.io.is_closed() {
                return Poll::Ready(true);
            }
            // Data that comes meanwhile is a next request: it wakes us once and waits in the socket.
            let _ = self.io.poll_readable(cx);
            Poll::Pending
        })
        .await
    }

    /// What has the driver look at the connection, made on first use.
    pub(crate) fn waker(&self, make: impl FnOnce() -> Waker) -> &Waker {
        self.waker.get_or_init(make)
    }

    fn rare(&self) -> &Rare {
        self.rare.get_or_init(Box::default)
    }

    /// The session of a protocol that carries several requests at a time. `None`: HTTP/1.1, or nothing was agreed on yet.
    #[inline]
    pub(crate) fn session(&self) -> Option<&dyn Session> {
        self.rare.get()?.session.get().map(|session| &**session)
    }

    /// From now on the connection is such a session.
    pub(crate) fn become_session(&self, session: Rc<dyn Session>) {
        let _ = self.rare().session.set(session);
    }

    /// What a PROXY header has told; `None` without one, and if it told nothing.
    pub fn proxy(&self) -> Option<&ProxyHeader> {
        self.rare.get()?.proxy.get()
    }

    /// The header came first. One that came before stands.
    pub(crate) fn set_proxy(&self, header: ProxyHeader) {
        let _ = self.rare().proxy.set(header);
    }

    /// Our side's address; asked from the kernel on first use. `None` for a unix socket.
    pub fn local(&self) -> Option<SocketAddr> {
        *self.rare().local.get_or_init(|| self.io.local_ip())
    }

    /// Our side's address, of a connection that has no socket of its own.
    pub(crate) fn stand_for(&self, local: SocketAddr) {
        let _ = self.rare().local.set(Some(local));
    }

    /// Interim responses that the socket has not taken yet, to be changed. Few connections ever have one.
    pub(crate) fn unsent_mut(&self) -> RefMut<'_, Vec<u8>> {
        self.rare().unsent.borrow_mut()
    }

    /// They are another's to send now.
    pub(crate) fn take_unsent(&self) -> Vec<u8> {
        self.rare.get().map(|rare| rare.unsent.take()).unwrap_or_default()
    }

    /// How much more request heads may occupy on this connection.
    #[inline]
    /// What has come is subtracted: many streams with half a head each must not hold more than one connection
    /// may.
    pub fn head_room(&self) -> usize {
        self.account.head_room(self.io.received())
    }

    /// Bytes of memory, as far as they are counted.
    pub fn memory(&self) -> usize {
        size_of::<Connection>()
            + self.input.borrow().capacity()
            + self.rare.get().map_or(0, |rare| size_of::<Rare>() + rare.unsent.borrow().capacity())
            + self.io.memory()
            + self.account.bytes()
            + self.session().map_or(0, Session::memory)
    }

    /// Takes what is known of a head that has not come as a whole: its rest is there, or will not come.
    #[inline]
    /// Taken and not looked at: whoever gets it must end it, in one way or the other.
    pub(crate) fn take_partial_head(&self) -> Option<Box<PartialHead>> {
        let mut stage = self.stage.borrow_mut();
        if !matches!(*stage, Stage::Head(_)) {
            return None;
        }
        match std::mem::replace(&mut *stage, Stage::Request) {
            Stage::Head(partial) => Some(partial),
            _ => None,
        }
    }

    /// Whether there is input behind a request that was answered.
    #[inline]
    pub(crate) fn has_backlog(&self) -> bool {
        !self.input.borrow().is_empty()
            && self.session().is_none()
            && matches!(*self.stage.borrow(), Stage::Request)
    }

    /// Whether the client has sent something that was not looked at yet.
    pub fn has_unread(&self) -> bool {
        !self.input.borrow().is_empty() || self.io.has_unread()
    }
}
