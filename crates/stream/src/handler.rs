//! Sessions whose protocol is spoken here, not only passed on: what a [`Handler`](crate::conf::Handler) needs of its client and its servers.
//!
//! `stream` opens such sessions (PROXY header, the client's address, limits, access) and knows nothing of their protocols.

use crate::conf::{Client, Proxy};
use crate::handshake;
use crate::limits::ATTEMPTS_SHOWN_MAX;
use crate::proxy::{self, Status};
use crate::relay::{Direction, Moved, Side};
use crate::session::{Attempt, Session};
use brisk_balance::Lease;
use brisk_net::{Deadline, Io, Pipe, Stream, clock};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// TLS with the client: the next byte is the first one of its handshake, behind which nothing may have been read. A name in it leads to no
/// other server: this one is speaking already.
pub async fn begin_tls(session: &Session, client: Client) -> Result<Rc<Stream>, Status> {
    let server = session.server();
    let stream = handshake::accept(session, client.io).await?;
    if !Arc::ptr_eq(&server, &session.server()) {
        return Err(proxy::misled(session));
    }
    Ok(stream)
}

/// Connects to a peer that was leased, and tells it of the client where `proxy_protocol` is on. The error is for the log.
pub async fn reach(session: &Session, proxy: &Proxy, lease: &Lease) -> Result<Io, String> {
    if session.attempts.borrow().len() < ATTEMPTS_SHOWN_MAX {
        let attempt = Attempt { peer: lease.peer.name.clone(), ..Attempt::default() };
        session.attempts.borrow_mut().push(attempt);
    }
    let began_ms = clock::mono_ms();
    let bind = proxy::bound(session, proxy);
    let io = proxy::dial(session, &lease.peer.endpoint, proxy, bind).await?;
    let io = proxy::introduced(session, io, proxy).await?;
    let now_ms = clock::mono_ms();
    lease.connected(now_ms);
    session.attempt(|attempt| attempt.connect_ms = Some(now_ms.saturating_sub(began_ms)));
    Ok(io)
}

/// `proxy_ssl`: TLS with a peer from the next byte on. `host`: what its group is called. The error is for the log.
pub async fn secure(session: &Session, proxy: &Proxy, io: Io, host: &str) -> Result<Stream, String> {
    match &proxy.tls {
        Some(tls) => tls.begin(session, io, host).await,
        None => Err("proxy_ssl is off".to_string()),
    }
}

/// One side of [`relay`]: its connection, and what has come on it already and was not passed on.
pub type Opened<'s> = (&'s Stream, &'s [u8]);

/// What somebody who looks at what a client sends says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It may go on.
    Fine,
    /// The same, and looking at it has taken long: others have their turn first.
    Long,
    /// It may not: the session ends.
    Forbidden,
}

/// A client whose bytes are looked at before they are passed on.
struct Watched<'s, W> {
    stream: &'s Stream,
    watch: RefCell<W>,
    last: Cell<Seen>,
}

impl<W: FnMut(&[u8]) -> Seen> Watched<'_, W> {
    fn look(&self, bytes: &[u8]) -> io::Result<()> {
        self.last.set((self.watch.borrow_mut())(bytes));
        if self.is_forbidden() { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    }

    fn is_forbidden(&self) -> bool {
        self.last.get() == Seen::Forbidden
    }
}

impl<W: FnMut(&[u8]) -> Seen> Side for Watched<'_, W> {
    fn poll_read(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.last.get() == Seen::Long {
            self.last.set(Seen::Fine);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let count = ready!(Side::poll_read(self.stream, cx, buf))?;
        Poll::Ready(self.look(&buf[..count]).map(|()| count))
    }

    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Side::poll_write(self.stream, cx, bytes)
    }

    fn poll_end(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Side::poll_end(self.stream, cx)
    }

    /// What comes from here must be seen; what goes there need not.
    fn can_splice(&self) -> bool {
        self.stream.can_splice()
    }

    fn poll_fill(&self, _: &mut Context<'_>, _: &mut Pipe) -> Poll<io::Result<usize>> {
        // The answer of systems that cannot do it: bytes are read then.
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    fn poll_drain(&self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
        self.stream.poll_drain(cx, pipe)
    }
}

/// Passes everything on between a client and a peer, until a side has ended, nothing has moved for `proxy_timeout`, `until` is ready, or
/// `watch`, which sees all that the client sends before it is passed on, forbids that: then, and only then, this is true, and the client's
/// connection is left open.
pub async fn relay(
    session: &Session,
    proxy: &Proxy,
    client: Opened<'_>,
    peer: Opened<'_>,
    watch: impl FnMut(&[u8]) -> Seen,
    until: impl Future<Output = ()>,
) -> bool {
    let mut up = Direction::new(proxy.buffer_bytes, 0, false).preceded_by(client.1);
    let mut down = Direction::new(proxy.buffer_bytes, 0, false).preceded_by(peer.1);
    let mut idle = Deadline::default();
    idle.set(proxy.timeout);
    let mut until = pin!(until);
    let from = Watched { stream: client.0, watch: RefCell::new(watch), last: Cell::new(Seen::Fine) };
    let is_begun = from.look(client.1).is_ok();
    let is_torn = poll_fn(|cx| {
        if !is_begun || until.as_mut().poll(cx).is_ready() {
            return Poll::Ready(true);
        }
        let (mut sent, mut got) = (Moved::default(), Moved::default());
        let upward = up.poll(cx, &from, peer.0, &mut sent);
        let downward = down.poll(cx, peer.0, &from, &mut got);
        session.moved(sent.read_bytes, got.written_bytes);
        if let (Poll::Ready(Err(_)), _) | (_, Poll::Ready(Err(_))) = (&upward, &downward) {
            return Poll::Ready(true);
        }
        if up.is_over() || down.is_over() {
            return Poll::Ready(false);
        }
        if sent != Moved::default() || got != Moved::default() {
            idle.set(proxy.timeout);
        }
        if idle.poll_over(cx) { Poll::Ready(true) } else { Poll::Pending }
    })
    .await;
    if is_torn {
        // A client of TLS must not take what it has for all there was (RFC 8446 §6.1).
        if !from.is_forbidden() {
            client.0.abort();
        }
        peer.0.abort();
    }
    from.is_forbidden()
}
