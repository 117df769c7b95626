//! From a name to a connection: addresses, TCP, TLS.

use super::common::{Common, Version};
use super::failure::{Failure, Fault};
use super::line::{self, Line};
use super::message::{Phases, TlsFacts};
use brisk_load::proxy::{Answer, Proxy, Tunnel};
use brisk_load::url::{Origin, Place};
use brisk_net::connect::{self, Destination};
use brisk_net::{Io, Stream, blocking, sleep, timeout};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::time::Duration;

/// An address that does not answer is given up after this long if there is another one.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_secs(3);

/// A connection that is ready for its first request.
pub(crate) struct Link {
    pub stream: Stream,
    pub is_h2: bool,
    pub facts: Option<Rc<TlsFacts>>,
    pub peer: Rc<str>,
}

/// Connects.
pub(crate) async fn dial(
    common: &Common,
    line: Option<&Rc<Line>>,
    origin: &Origin,
    phases: &mut Phases,
) -> Result<Link, Failure> {
    let next = common.options.proxy.as_ref().map_or(origin, Proxy::origin);
    let (io, peer) = match &next.place {
        _ if common.options.proxy.is_some() && matches!(origin.place, Place::Unix(_)) => {
            return Err(Failure::new(Fault::Connect, "a unix socket is not asked through a proxy"));
        }
        Place::Unix(path) => {
            let io = connect(Destination::Unix(path)).await.map_err(|error| refused(&error))?;
            (io, format!("unix:{}", path.display()))
        }
        Place::Name(host, port) => {
            let addresses = look_up(common, host, *port).await?;
            phases.dns = phases.now();
            let (io, address) = first_that_answers(&addresses).await?;
            (io, address.to_string())
        }
    };
    let io = match line {
        Some(line) => {
            // TCP's handshake is a round trip.
            sleep(line.network.round_trip).await;
            line::through(line, io)?
        }
        None => io,
    };
    if let Some(proxy) = &common.options.proxy
        && (origin.secure || common.options.version == Version::H2)
    {
        let connect = proxy.connect(origin).map_err(|why| Failure::new(Fault::Connect, why))?;
        tunnel(&io, &connect).await?;
    }
    phases.connect = phases.now();
    let peer = Rc::from(peer);
    if !origin.secure {
        let is_h2 = common.options.version == Version::H2;
        return Ok(Link { stream: Stream::from(io), is_h2, facts: None, peer });
    }
    let name = origin.host();
    let send_name = name.parse::<IpAddr>().is_err();
    let stream =
        Stream::connect_tls(io, &common.tls, name, send_name).await.map_err(|error| Failure::tls(&error))?;
    phases.tls = phases.now();
    let facts = stream.tls().map(|tls| {
        Rc::new(tls.session(|session| TlsFacts {
            version: session.version(),
            cipher: session.cipher(),
            group: session.group(),
            alpn: session.alpn().map(|name| String::from_utf8_lossy(name).into_owned()),
            resumed: session.is_resumed(),
            early: None,
            chain: session.peer_certificates().iter().map(|cert| cert.len()).collect(),
        }))
    });
    let alpn = facts.as_ref().and_then(|facts| facts.alpn.clone());
    if common.options.version == Version::H2 && alpn.as_deref() != Some("h2") {
        return Err(Failure::new(Fault::Tls, "the server does not agree on HTTP/2 (ALPN)"));
    }
    Ok(Link { stream, is_h2: alpn.as_deref() == Some("h2"), facts, peer })
}

fn refused(error: &connect::ConnectError) -> Failure {
    let fault = match error.error.kind() {
        io::ErrorKind::ConnectionRefused => Fault::Refused,
        io::ErrorKind::TimedOut => Fault::Timeout,
        io::ErrorKind::ConnectionReset => Fault::Reset,
        _ => Fault::Connect,
    };
    Failure::new(fault, format!("{}: {}", error.call, error.error))
}

async fn connect(to: Destination<'_>) -> Result<Io, connect::ConnectError> {
    let io = connect::start(to, &connect::Options::default())?;
    poll_fn(|cx| io.poll_writable(cx)).await;
    connect::finish(&io)?;
    Ok(io)
}

/// Has a proxy make a tunnel. The server behind it speaks after its client: nothing comes through before that.
async fn tunnel(io: &Io, connect: &[u8]) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::io(&error, true);
    let mut left = connect;
    while !left.is_empty() {
        match io.try_write(left) {
            Ok(count) => left = &left[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll_fn(|cx| io.poll_writable(cx)).await;
            }
            Err(error) => return Err(failed(error)),
        }
    }
    let (mut tunnel, mut room) = (Tunnel::default(), [0; 4096]);
    loop {
        let count = match io.try_read(&mut room) {
            Ok(0) => {
                return Err(Failure::new(
                    Fault::Connect,
                    "the proxy closed the connection without an answer",
                ));
            }
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll_fn(|cx| io.poll_readable(cx)).await;
                continue;
            }
            Err(error) => return Err(failed(error)),
        };
        match tunnel.receive(&room[..count]) {
            Answer::More => {}
            Answer::Open(rest) if rest.is_empty() => return Ok(()),
            Answer::Open(_) => {
                return Err(Failure::new(Fault::Malformed, "the proxy speaks first in its tunnel"));
            }
            Answer::Refused(why) => return Err(Failure::new(Fault::Connect, why)),
        }
    }
}

async fn first_that_answers(addresses: &[SocketAddr]) -> Result<(Io, SocketAddr), Failure> {
    let mut failure = Failure::new(Fault::Dns, "the name has no address");
    for (at, &address) in addresses.iter().enumerate() {
        let is_last = at + 1 == addresses.len();
        let attempt = connect(Destination::Ip(address));
        let done = if is_last { Ok(attempt.await) } else { timeout(NEXT_ADDRESS_AFTER, attempt).await };
        match done {
            Ok(Ok(io)) => return Ok((io, address)),
            Ok(Err(error)) => failure = refused(&error),
            Err(_) => failure = Failure::new(Fault::Timeout, format!("{address} does not answer")),
        }
    }
    Err(failure)
}

/// The name's addresses, as the system's resolver gives them; asked for once.
pub(super) async fn look_up(common: &Common, host: &str, port: u16) -> Result<Vec<SocketAddr>, Failure> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let key = (host.to_owned(), port);
    if let Some(known) = common.names.borrow().get(&key) {
        return Ok(known.clone());
    }
    let asked = key.clone();
    let job = blocking::run(move || asked.to_socket_addrs().map(Iterator::collect::<Vec<_>>));
    let job = job.map_err(|_| Failure::new(Fault::Dns, "too many look-ups at once"))?;
    let addresses = job.await.map_err(|error| Failure::new(Fault::Dns, format!("{host}: {error}")))?;
    if addresses.is_empty() {
        return Err(Failure::new(Fault::Dns, format!("{host} has no address")));
    }
    common.names.borrow_mut().insert(key, addresses.clone());
    Ok(addresses)
}
