//! New connections to back ends.

use crate::conf::Settings;
use crate::link::{Link, Stream};
use crate::pool::Key;
use crate::tls::Tls;
use brisk_balance::Endpoint;
use brisk_net::connect::{ConnectError, Destination, Options, finish, start};
use brisk_net::{TlsError, timeout};
use brisk_server::request::Request;
use std::net::{IpAddr, SocketAddr};

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

/// Connects.
pub async fn connect(settings: &Settings, key: Key, tls: Option<&Tls>) -> Result<Link, NoLink> {
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
    let io = start(to, &options).map_err(|error| NoLink::Failed { error, at_once: true })?;
    timeout(settings.connect_timeout, io.writable()).await.map_err(|_| NoLink::TimedOut)?;
    finish(&io).map_err(|error| NoLink::Failed { error, at_once: false })?;
    let stream = match tls {
        None => Stream::from(io),
        Some(tls) => {
            let context = tls.ready().await.map_err(NoLink::Certificate)?;
            let session = Stream::connect_tls(io, &context, &tls.name, tls.send_name);
            let made = timeout(settings.connect_timeout, session).await;
            made.map_err(|_| NoLink::HandshakeTimedOut)?.map_err(NoLink::Tls)?
        }
    };
    Ok(Link::new(stream, key))
}
