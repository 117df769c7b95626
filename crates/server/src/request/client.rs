//! Who a request came from: its connection, or its stream there, and what it makes the process hold.

use crate::connection::Connection;
use crate::response::drop_held;
use crate::shared::Ongoing;
use crate::stream::exchange::Exchange;
use brisk_host::memory::Charge;
use std::cell::OnceCell;
use std::rc::Rc;
use std::task::{Context, Poll};

/// What a request came by.
#[derive(Clone)]
/// Whether it is one or the other, the connection is known.
pub(crate) enum Carrier {
    /// A connection of its own; or a stream whose request has not had to wait yet.
    Connection(Rc<Connection>),
    /// A stream of a connection that carries several.
    Stream(Rc<Exchange>),
}

impl Carrier {
    pub fn conn(&self) -> &Rc<Connection> {
        match self {
            Carrier::Connection(conn) => conn,
            Carrier::Stream(exchange) => &exchange.conn,
        }
    }

    /// Ready when the client has gone away.
    // Over HTTP/1.1 the end of the connection, over streams also a reset of this one.
    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Carrier::Connection(conn) => conn.io.poll_closed(cx),
            Carrier::Stream(exchange) => exchange.poll_gone(cx),
        }
    }
}

/// See [`Client::watch`].
pub struct ClientWatch(Option<Carrier>);

impl ClientWatch {
    /// Ready when the client has gone away.
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_ref().map_or(Poll::Pending, |carrier| carrier.poll_gone(cx))
    }
}

/// See the module's head.
pub struct Client {
    /// `None` between requests, and for templates of tests.
    /// Private: handlers ask by accessors, which record.
    pub(crate) carrier: Option<Carrier>,
    /// Counted among those that are being answered.
    pub(crate) ongoing: Option<Ongoing>,
    /// What its head occupies while it waits, as its connection counts it.
    pub(super) head_charge: Option<Charge>,
    /// What of its body is in memory, and what is kept for it besides.
    body_charge: OnceCell<Charge>,
    charge: OnceCell<Charge>,
}

impl Client {
    /// Before the request has come by anything. It is no `Default`: handlers cannot make a request forget its client.
    pub(super) fn none() -> Client {
        Client {
            carrier: None,
            ongoing: None,
            head_charge: None,
            body_charge: OnceCell::new(),
            charge: OnceCell::new(),
        }
    }

    /// Makes it anew in its place.
    #[inline]
    pub(super) fn renew(&mut self) {
        let Client { carrier, ongoing, head_charge, body_charge, charge } = self;
        drop_held(carrier);
        drop_held(ongoing);
        drop_held(head_charge);
        body_charge.take();
        charge.take();
    }

    /// The connection, if there is one.
    pub(crate) fn connection(&self) -> Option<&Rc<Connection>> {
        self.carrier.as_ref().map(Carrier::conn)
    }

    /// The stream, if the connection carries several requests and this one has had to wait.
    pub(crate) fn stream(&self) -> Option<&Rc<Exchange>> {
        match &self.carrier {
            Some(Carrier::Stream(exchange)) => Some(exchange),
            _ => None,
        }
    }

    /// So many bytes more are kept until the request ends.
    pub fn also_holds(&self, bytes: usize) {
        if let Some(conn) = self.connection() {
            // Made with the first byte: most requests hold nothing.
            self.charge.get_or_init(|| conn.account.hold(0)).add(bytes);
        }
    }

    /// So many bytes of the body are in memory.
    pub(crate) fn holds_body(&self, bytes: usize) {
        if let Some(conn) = self.connection() {
            self.body_charge.get_or_init(|| conn.account.hold(0)).set(bytes);
        }
    }

    /// Ready when the client has gone away, so that its request need not be answered.
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.carrier.as_ref().map_or(Poll::Pending, |carrier| carrier.poll_gone(cx))
    }

    /// The same for one who has no request at hand.
    pub fn watch(&self) -> ClientWatch {
        ClientWatch(self.carrier.clone())
    }
}
