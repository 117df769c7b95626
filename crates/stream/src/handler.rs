//! Sessions whose protocol is spoken here, not only passed on: what a [`Handler`](crate::conf::Handler) needs of its client and its servers.
//!
//! `stream` opens such sessions (PROXY header, the client's address, limits, access) and knows nothing of their protocols.

use crate::conf::{Client, Proxy};
use crate::handshake;
use crate::limits::ATTEMPTS_SHOWN_MAX;
use crate::proxy::{self, Status};
use crate::relay::{Direction, Moved};
use crate::session::{Attempt, Session};
use brisk_balance::Lease;
use brisk_net::{Deadline, Io, Stream, clock};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

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

/// Passes everything on between a client and a peer, until a side has ended, nothing has moved for `proxy_timeout`, or `until` is ready.
pub async fn relay(
    session: &Session,
    proxy: &Proxy,
    client: Opened<'_>,
    peer: Opened<'_>,
    until: impl Future<Output = ()>,
) {
    let mut up = Direction::new(proxy.buffer_bytes, 0, false).preceded_by(client.1);
    let mut down = Direction::new(proxy.buffer_bytes, 0, false).preceded_by(peer.1);
    let mut idle = Deadline::default();
    idle.set(proxy.timeout);
    let mut until = pin!(until);
    let is_torn = poll_fn(|cx| {
        if until.as_mut().poll(cx).is_ready() {
            return Poll::Ready(true);
        }
        let (mut sent, mut got) = (Moved::default(), Moved::default());
        let upward = up.poll(cx, client.0, peer.0, &mut sent);
        let downward = down.poll(cx, peer.0, client.0, &mut got);
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
        client.0.abort();
        peer.0.abort();
    }
}
