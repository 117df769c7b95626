//! New connections to back ends.
//!
//! It chooses nothing: address, bind and TLS come with the [`Key`], so that a kept connection and a new one mean the
//! same.

use crate::conf::Settings;
use crate::link::{Key, Link, Stream};
use crate::tls::Tls;
use brisk_balance::Endpoint;
use brisk_net::connect::{ConnectError, Destination, Options, Started, begin, finish};
use brisk_net::{Activity, Cause, Deadline, Failure, Io, Origin, Retry, timeout};
use brisk_server::request::Request;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// The address that `*_bind` names: with or without a port.
pub fn local_address(text: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    // nginx writes IPv6 addresses in brackets, with a port or without one.
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, 0))
}

/// `*_bind` for a request; `None` for the kernel's choice.
pub fn bind_of(settings: &Settings, r: &Request) -> Option<SocketAddr> {
    let text = settings.bind.as_ref()?.address.eval(r);
    // An empty variable is "off", as in nginx.
    if text.is_empty() {
        return None;
    }
    let address = local_address(&text);
    if address.is_none() {
        // The request goes on from the kernel's address, as in nginx (ngx_http_upstream_set_local).
        let text = String::from_utf8_lossy(&text);
        brisk_server::rlog!(r, Error, "invalid local address \"{text}\"");
    }
    address
}

/// A connection, or the beginning of one.
pub enum Dialed {
    /// As unix sockets are at once.
    Made(Box<Link>),
    /// [`Dialing::poll`] tells when it is there.
    Begun(Dialing),
}

/// A connection that is being made.
pub enum Dialing {
    /// Without TLS; `None` once it was given.
    /// No boxed future: with plain connections the wait for the handshake of TCP is one event.
    Plain(Option<(Io, Key)>, Deadline),
    /// With a handshake to follow.
    Secured(Pin<Box<dyn Future<Output = Result<Box<Link>, Failure>>>>),
}

/// Begins to connect to `peer`, which is named so in messages.
pub fn dial(settings: &Settings, key: Key, tls: Option<&Tls>, peer: &str) -> Result<Dialed, Failure> {
    let started = start(settings, &key).map_err(|error| not_begun(error, peer))?;
    Ok(match (started, tls) {
        (Started::Made(io), None) => Dialed::Made(Box::new(Link::new(Stream::from(io), key))),
        (Started::Begun(io), None) => {
            let mut limit = Deadline::default();
            limit.set(settings.connect_timeout);
            Dialed::Begun(Dialing::Plain(Some((io, key)), limit))
        }
        // A handshake takes several turns, so it is a future. It is boxed since plain connections are the
        // rule and should not carry its size.
        (Started::Made(io) | Started::Begun(io), Some(tls)) => {
            let secured = secure(io, key, tls.clone(), settings.connect_timeout);
            Dialed::Begun(Dialing::Secured(Box::pin(secured)))
        }
    })
}

fn start(settings: &Settings, key: &Key) -> Result<Started, ConnectError> {
    let to = match &key.endpoint {
        Endpoint::Ip(address) => Destination::Ip(*address),
        Endpoint::Unix(path) => Destination::Unix(path),
    };
    // All before connect(2): the receive buffer decides on the window scale, which is told in the SYN
    // (tcp(7)).
    let options = Options {
        bind: key.bind,
        // Needs CAP_NET_RAW, which the worker keeps only if some directive says so (`uses_raw_sockets`).
        transparent: settings.bind.as_ref().is_some_and(|bind| bind.transparent),
        keepalive: settings.socket_keepalive,
        rcvbuf: settings.socket_rcvbuf as usize,
        sndbuf: settings.socket_sndbuf as usize,
    };
    begin(to, &options)
}

/// A call that failed at once. Either the peer has refused (a unix socket says so without waiting, also that its queue is
/// full), or the kernel has not asked it.
fn not_begun(failed: ConnectError, peer: &str) -> Failure {
    let ConnectError { call, error } = failed;
    let refusals = [io::ErrorKind::ConnectionRefused, io::ErrorKind::WouldBlock];
    let is_refused = call == "connect" && refusals.contains(&error.kind());
    let origin = if is_refused { Origin::Upstream } else { Origin::Local };
    let call = if call == "connect" { format!("connect() to {peer}") } else { format!("{call}()") };
    let cause = Cause::Call { call: call.into(), error };
    // Nothing was sent, so another peer may be asked whatever the method.
    Failure::new(origin, Activity::Connecting, cause).retry_is(Retry::Safe)
}

/// The peer was not asked anything yet.
fn unasked(activity: Activity, cause: Cause) -> Failure {
    Failure::upstream(activity, cause).retry_is(Retry::Safe)
}

fn finished(io: &Io) -> Result<(), Failure> {
    finish(io).map_err(|ConnectError { error, .. }| {
        unasked(Activity::Connecting, Cause::Call { call: "connect()".into(), error })
    })
}

impl Dialing {
    /// The connection; after it was given there is none.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Box<Link>, Failure>> {
        let (begun, limit) = match self {
            Dialing::Secured(work) => return work.as_mut().poll(cx),
            Dialing::Plain(begun, limit) => (begun, limit),
        };
        let Some((io, _)) = begun else { return Poll::Pending };
        // A socket becomes writable when the handshake of TCP is over, in either way: `finish` asks which.
        if io.poll_writable(cx).is_pending() {
            let late = limit.poll_over(cx).then(|| unasked(Activity::Connecting, Cause::TimedOut));
            return late.map_or(Poll::Pending, |late| Poll::Ready(Err(late)));
        }
        let Some((io, key)) = begun.take() else { return Poll::Pending };
        Poll::Ready(finished(&io).map(|()| Box::new(Link::new(Stream::from(io), key))))
    }
}

/// A connection with a TLS session: connecting and the handshake may each take `limit`.
async fn secure(io: Io, key: Key, tls: Tls, limit: Duration) -> Result<Box<Link>, Failure> {
    let late = |activity| unasked(activity, Cause::TimedOut);
    // Two limits of the same length, as nginx uses `proxy_connect_timeout` for both handshakes.
    timeout(limit, io.writable()).await.map_err(|_| late(Activity::Connecting))?;
    finished(&io)?;
    // After TCP's handshake: a peer that is down costs no look at certificates on a disk.
    let context = tls.ready().await.map_err(|why| {
        Failure::new(Origin::Configuration, Activity::Handshaking, Cause::Unavailable(why.into()))
    })?;
    let session = Stream::connect_tls(io, &context, &tls.identity.name, tls.identity.send_name);
    let made = timeout(limit, session).await.map_err(|_| late(Activity::Handshaking))?;
    let stream = made.map_err(|error| unasked(Activity::Handshaking, Cause::Tls(error)))?;
    Ok(Box::new(Link::new(stream, key)))
}
