//! New connections to back ends.

use crate::conf::Settings;
use crate::link::{Link, Stream};
use crate::pool::Key;
use crate::tls::Tls;
use brisk_balance::Endpoint;
use brisk_net::connect::{ConnectError, Destination, Options, Started, begin, finish};
use brisk_net::{Deadline, Io, TlsError, timeout};
use brisk_server::request::Request;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};

/// Why there is no connection.
pub enum NoLink {
    Failed {
        error: ConnectError,
        /// The call itself failed; otherwise the connection was refused later.
        at_once: bool,
    },
    TimedOut,
    /// There is a connection, but no session.
    Tls(TlsError),
    HandshakeTimedOut,
    /// What we would present cannot be read.
    Certificate(String),
}

/// The address that `*_bind` names: with or without a port.
pub fn local_address(text: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, 0))
}

/// `*_bind` for a request; `None` for the kernel's choice.
pub fn bind_of(settings: &Settings, r: &Request) -> Option<SocketAddr> {
    let text = settings.bind.as_ref()?.address.eval(r);
    if text.is_empty() {
        return None;
    }
    let address = local_address(&text);
    if address.is_none() {
        let text = String::from_utf8_lossy(&text);
        brisk_server::rlog!(r, Error, "invalid local address \"{text}\"");
    }
    address
}

/// A plain connection, or the beginning of one.
pub enum Dialed {
    Made(Box<Link>),
    Begun(Dialing),
}

/// A plain connection that is being made.
pub struct Dialing {
    io: Option<(Io, Key)>,
    limit: Deadline,
}

fn start(settings: &Settings, key: &Key) -> Result<Started, NoLink> {
    let to = match &key.endpoint {
        Endpoint::Ip(address) => Destination::Ip(*address),
        Endpoint::Unix(path) => Destination::Unix(path),
    };
    let options = Options {
        bind: key.bind,
        transparent: settings.bind.as_ref().is_some_and(|bind| bind.transparent),
        keepalive: settings.socket_keepalive,
        rcvbuf: settings.socket_rcvbuf as usize,
        sndbuf: settings.socket_sndbuf as usize,
    };
    begin(to, &options).map_err(|error| NoLink::Failed { error, at_once: true })
}

/// Connects, without a future and without TLS.
pub fn dial(settings: &Settings, key: Key) -> Result<Dialed, NoLink> {
    Ok(match start(settings, &key)? {
        Started::Made(io) => Dialed::Made(Box::new(Link::new(Stream::from(io), key))),
        Started::Begun(io) => {
            let mut limit = Deadline::default();
            limit.set(settings.connect_timeout);
            Dialed::Begun(Dialing { io: Some((io, key)), limit })
        }
    })
}

impl Dialing {
    /// The connection; after it was given there is none.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Box<Link>, NoLink>> {
        let Some((io, _)) = &self.io else { return Poll::Pending };
        if io.poll_writable(cx).is_pending() {
            return if self.limit.poll_over(cx) { Poll::Ready(Err(NoLink::TimedOut)) } else { Poll::Pending };
        }
        let Some((io, key)) = self.io.take() else { return Poll::Pending };
        Poll::Ready(match finish(&io) {
            Ok(()) => Ok(Box::new(Link::new(Stream::from(io), key))),
            Err(error) => Err(NoLink::Failed { error, at_once: false }),
        })
    }
}

/// Connects.
pub async fn connect(settings: &Settings, key: Key, tls: Option<&Tls>) -> Result<Box<Link>, NoLink> {
    let Some(tls) = tls else {
        return match dial(settings, key)? {
            Dialed::Made(link) => Ok(link),
            Dialed::Begun(mut dialing) => poll_fn(|cx| dialing.poll(cx)).await,
        };
    };
    let io = match start(settings, &key)? {
        Started::Made(io) => io,
        Started::Begun(io) => {
            timeout(settings.connect_timeout, io.writable()).await.map_err(|_| NoLink::TimedOut)?;
            finish(&io).map_err(|error| NoLink::Failed { error, at_once: false })?;
            io
        }
    };
    let context = tls.ready().await.map_err(NoLink::Certificate)?;
    let session = Stream::connect_tls(io, &context, &tls.name, tls.send_name);
    let made = timeout(settings.connect_timeout, session).await;
    let stream = made.map_err(|_| NoLink::HandshakeTimedOut)?.map_err(NoLink::Tls)?;
    Ok(Box::new(Link::new(stream, key)))
}
