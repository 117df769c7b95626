//! From a session to a peer that has taken its connection.

use crate::conf::{Balanced, Pass, Proxy};
use crate::roles::Roles;
use crate::session::{Attempt, Session};
use brisk_balance::{Ask, Endpoint, Group, Lease, Outcome, Selection, Stats, Times, Until};
use brisk_db::Cluster;
use brisk_host::log::{self, Entry, LogLevel};
use brisk_host::peer::Peer;
use brisk_host::vars::{Context, Template};
use brisk_net::connect::{self, ConnectError, Destination, Options};
use brisk_net::{Io, Stream, clock, timeout};
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

/// A status that a session ends with.
pub type Status = u16;

/// The session has ended as it should.
pub const OK: Status = 200;
/// The client has not sent what it should.
pub const BAD_REQUEST: Status = 400;
/// The client is not let in.
pub const FORBIDDEN: Status = 403;
/// Something has failed here.
pub const INTERNAL: Status = 500;
/// No peer could be reached.
pub const BAD_GATEWAY: Status = 502;
/// A limit is reached.
pub const UNAVAILABLE: Status = 503;

/// A peer that has taken the session. Dropped, the peer is free again.
pub struct Connected {
    /// The connection.
    pub stream: Stream,
    selection: Selection,
    lease: RefCell<Option<Lease>>,
    began_ms: u64,
    roles: RefCell<Option<Roles>>,
}

impl Connected {
    /// The peer's first byte has come, so long after the attempt began: `least_time first_byte inflight`.
    pub fn first_byte(&self, took_ms: u64) {
        if let Some(lease) = &mut *self.lease.borrow_mut() {
            lease.reached(Until::FirstByte, took_ms, clock::mono_ms());
        }
    }

    /// Bytes have gone to the peer, and have come from it.
    pub fn moved(&self, sent: u64, received: u64) {
        let Some(lease) = &*self.lease.borrow() else { return };
        let stats = &lease.peer.stats;
        for (counter, bytes) in [(&stats.sent_bytes, sent), (&stats.received_bytes, received)] {
            if bytes > 0 {
                Stats::add(counter, bytes);
            }
        }
    }

    /// Ready when the peer has not the role any more for which it was chosen, or is lost.
    pub fn poll_unfit(&self, cx: &mut std::task::Context<'_>) -> Poll<()> {
        match &mut *self.roles.borrow_mut() {
            Some(roles) => roles.poll_unfit(cx),
            None => Poll::Pending,
        }
    }

    /// Notes what the attempt came to when the session ends.
    pub fn finish(mut self, session: &Session) {
        self.end(session, Outcome::Ok);
    }

    /// The peer did not answer.
    pub fn failed(mut self, session: &Session) {
        self.end(session, Outcome::Failed);
    }

    fn end(&mut self, session: &Session, outcome: Outcome) {
        let now_ms = clock::mono_ms();
        let took_ms = now_ms.saturating_sub(self.began_ms);
        session.attempt(|attempt| attempt.session_ms = Some(took_ms));
        let times = session.attempts.borrow().last().map(|attempt| Times {
            connect_ms: attempt.connect_ms,
            header_ms: attempt.first_byte_ms,
            response_ms: took_ms,
        });
        if let Some(lease) = self.lease.take() {
            self.selection.finish(lease, outcome, times.unwrap_or_default(), now_ms);
        }
    }
}

/// A group for one session, where a text with variables names an address.
struct Single {
    name: String,
    group: Arc<Group>,
}

impl Balanced for Single {
    fn name(&self) -> &str {
        &self.name
    }

    fn group(&self) -> &Arc<Group> {
        &self.group
    }

    fn key(&self) -> Option<&Template> {
        None
    }

    fn seed(&self) -> u64 {
        0
    }
}

/// The group that the session is for.
async fn group_of(session: &Session, pass: &Pass) -> Result<Arc<dyn Balanced>, Status> {
    let template = match pass {
        Pass::Group(group) => return Ok(group.clone()),
        Pass::Text(template) => template,
    };
    let text = template.eval(session);
    let text = String::from_utf8_lossy(&text);
    if let Some(group) = session.origin.conf.upstreams.get(&text.to_ascii_lowercase()) {
        return Ok(group.clone());
    }
    let endpoints = if let Some(path) = text.strip_prefix("unix:") {
        // A client may have a say in it (by the name in its ClientHello): it must not reach any socket of the machine.
        if !session.table().has_socket(path.as_bytes()) {
            let text = format_args!(
                "variables lead to the unix domain socket \"{path}\", which the configuration does not name"
            );
            session.log(LogLevel::Error, text);
            return Err(INTERNAL);
        }
        vec![Endpoint::Unix(path.into())]
    } else if let Ok(address) = text.parse() {
        vec![Endpoint::Ip(address)]
    } else {
        let named = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let Some((host, port)) = named.filter(|(host, _)| !host.is_empty()) else {
            session.log(LogLevel::Error, format_args!("no port in upstream \"{text}\""));
            return Err(INTERNAL);
        };
        addresses(session, host, port).await?
    };
    let group = Group::of_addresses(&text, endpoints);
    Ok(Arc::new(Single { name: text.into_owned(), group: Arc::new(group) }))
}

/// What a name stands for, by `resolver`.
async fn addresses(session: &Session, host: &str, port: u16) -> Result<Vec<Endpoint>, Status> {
    let server = session.server();
    let Some(resolver) = &server.resolver else {
        // The system's resolver would block the thread, so it is no way out.
        session.log(LogLevel::Error, format_args!("no resolver defined to resolve {host}"));
        return Err(INTERNAL);
    };
    let (logs, live, id) = (server.error_log.clone(), session.live.clone(), session.origin.id);
    let log: brisk_resolver::Log = Rc::new(move |text| {
        log::write_all(&logs, &live.logs, &Entry::new(LogLevel::Error, Some(id), text));
    });
    match resolver.lookup(host, server.resolver_timeout, &log).await {
        Ok(found) => {
            let endpoint = |ip: &IpAddr| Endpoint::Ip(SocketAddr::new(*ip, port));
            Ok(found.addresses.iter().map(endpoint).collect())
        }
        Err(error) => {
            session.log(LogLevel::Error, format_args!("{host} {error}"));
            Err(BAD_GATEWAY)
        }
    }
}

/// Connects to a peer of the group; those that do not answer are passed over.
pub async fn connect(session: &Session, pass: &Pass, proxy: &Proxy) -> Result<Connected, Status> {
    let backend = group_of(session, pass).await?;
    let began_ms = clock::mono_ms();
    let ask = Ask {
        key: backend.key().map(|key| key.eval(session)).unwrap_or_default(),
        client: session.client.get().ip(),
        own: None,
        seed: backend.seed(),
    };
    if session.store().have_failed() {
        return Err(INTERNAL);
    }
    let bind = bound(session, proxy);
    let mut selection = Selection::new(backend.group().clone(), ask, began_ms);
    if proxy.next_upstream_tries > 0 {
        selection.limit_tries(proxy.next_upstream_tries);
    }
    let mut roles = match backend.cluster() {
        Some(cluster) => Some(fitting(session, cluster, &mut selection, &*backend, proxy).await?),
        None => None,
    };
    loop {
        let attempt_ms = clock::mono_ms();
        let Some(mut lease) = selection.next(attempt_ms) else {
            session.attempts.borrow_mut().push(Attempt { peer: backend.name().into(), ..Attempt::default() });
            session.log(LogLevel::Error, format_args!("no live upstreams while connecting to upstream"));
            return Err(BAD_GATEWAY);
        };
        session.attempts.borrow_mut().push(Attempt { peer: lease.peer.name.clone(), ..Attempt::default() });
        let made = dial(session, &lease.peer.endpoint, proxy, bind).await;
        let made = match made {
            Ok(io) => secured(session, io, proxy, backend.name()).await,
            Err(message) => Err(message),
        };
        let took_ms = clock::mono_ms().saturating_sub(attempt_ms);
        let stream = match made {
            Ok(stream) => stream,
            Err(message) => {
                session.attempt(|attempt| attempt.session_ms = Some(took_ms));
                session.log(LogLevel::Error, format_args!("{message}"));
                let times = Times { response_ms: took_ms, ..Times::default() };
                let now_ms = clock::mono_ms();
                selection.finish(lease, Outcome::Failed, times, now_ms);
                roles.as_ref().inspect(|roles| roles.doubt());
                let limit_ms = proxy.next_upstream_timeout.as_millis() as u64;
                let is_late = limit_ms > 0 && now_ms.saturating_sub(began_ms) >= limit_ms;
                if !proxy.next_upstream || selection.tries() == 0 || is_late {
                    return Err(BAD_GATEWAY);
                }
                continue;
            }
        };
        if !session.origin.is_udp {
            lease.connected(clock::mono_ms());
        }
        lease.reached(Until::Connected, took_ms, clock::mono_ms());
        session.attempt(|attempt| attempt.connect_ms = Some(took_ms));
        let own = stream.local_ip();
        let own = own.map_or_else(|| "unix:".to_string(), |own| own.to_string());
        let udp = if session.origin.is_udp { "udp " } else { "" };
        session.info(format_args!("{udp}proxy {own} connected to {}", lease.peer.name));
        if let Some(roles) = &mut roles {
            roles.is_given_to(lease.peer.id);
        }
        let (lease, roles) = (RefCell::new(Some(lease)), RefCell::new(roles));
        return Ok(Connected { stream, selection, lease, began_ms: attempt_ms, roles });
    }
}

/// Has a peer chosen among those that have the role that is wanted.
async fn fitting(
    session: &Session,
    cluster: &Arc<Cluster>,
    selection: &mut Selection,
    backend: &dyn Balanced,
    proxy: &Proxy,
) -> Result<Roles, Status> {
    let mut roles = Roles::new(cluster, proxy.attrs);
    match roles.fitting(proxy.connect_timeout).await {
        Ok(ids) => {
            selection.restrict(&ids);
            Ok(roles)
        }
        Err(why) => {
            session.attempts.borrow_mut().push(Attempt { peer: backend.name().into(), ..Attempt::default() });
            session.log(LogLevel::Error, format_args!("{why} while connecting to upstream"));
            Err(BAD_GATEWAY)
        }
    }
}

/// What a peer is told of the client first: a PROXY header, or nothing.
pub fn header(session: &Session, proxy: &Proxy) -> String {
    if !proxy.proxy_protocol {
        return String::new();
    }
    let client = match session.client.get() {
        Peer::Ip(client) => Some(client),
        Peer::Unix => None,
    };
    brisk_proxy_protocol::write(client.zip(session.origin.local))
}

/// `proxy_ssl`: the connection with a session over it; without the directive, as it is. The error is a message for the log.
async fn secured(session: &Session, io: Io, proxy: &Proxy, host: &str) -> Result<Stream, String> {
    let Some(tls) = proxy.tls.as_ref().filter(|_| !session.origin.is_udp) else {
        return Ok(Stream::from(io));
    };
    let shake_hands = async {
        // Before TLS, as nginx sends it: who is told of the client by it need not be able to open the session.
        let io = introduced(session, io, proxy).await?;
        tls.begin(session, io, host).await
    };
    match timeout(proxy.connect_timeout, shake_hands).await {
        Ok(made) => made,
        Err(_) => {
            Err("upstream timed out (110: Connection timed out) while SSL handshaking to upstream"
                .to_string())
        }
    }
}

/// The connection of which the peer was told whose it is.
pub(crate) async fn introduced(session: &Session, io: Io, proxy: &Proxy) -> Result<Io, String> {
    write_all(io, header(session, proxy).as_bytes()).await.map_err(|error| {
        let why = brisk_conf::os_text(&error);
        format!("send() failed ({why}) while sending PROXY protocol to upstream")
    })
}

/// A name has led a client to another server than the one whose protocol has begun.
pub(crate) fn misled(session: &Session) -> Status {
    let text =
        format_args!("the name that the client asks for leads to a server that speaks another protocol");
    session.log(LogLevel::Error, text);
    INTERNAL
}

async fn write_all(io: Io, mut bytes: &[u8]) -> std::io::Result<Io> {
    while !bytes.is_empty() {
        match io.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => io.writable().await,
            Err(error) => return Err(error),
        }
    }
    Ok(io)
}

/// `proxy_bind`: the address that connections to peers come from.
///
/// With a mistake in it, which is logged, the kernel chooses, as in nginx.
pub(crate) fn bound(session: &Session, proxy: &Proxy) -> Option<SocketAddr> {
    let text = proxy.bind.as_ref()?.address.eval(session);
    let text = String::from_utf8_lossy(&text);
    if text.is_empty() {
        return None;
    }
    let address = text.parse().or_else(|_| text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 0)));
    if address.is_err() {
        session.log(LogLevel::Error, format_args!("invalid local address \"{text}\""));
    }
    address.ok()
}

/// Connects to one peer; the error is a message for the log.
pub(crate) async fn dial(
    session: &Session,
    endpoint: &Endpoint,
    proxy: &Proxy,
    bind: Option<SocketAddr>,
) -> Result<Io, String> {
    let options = Options {
        bind,
        transparent: proxy.bind.as_ref().is_some_and(|bind| bind.transparent),
        keepalive: proxy.socket_keepalive,
        rcvbuf: proxy.socket_rcvbuf,
        sndbuf: proxy.socket_sndbuf,
    };
    let failed = |error: ConnectError| {
        let why = brisk_conf::os_text(&error.error);
        format!("{}() failed ({why}) while connecting to upstream", error.call)
    };
    if session.origin.is_udp {
        return match endpoint {
            Endpoint::Ip(address) => connect::datagrams(*address, &options).map_err(failed),
            Endpoint::Unix(_) => Err("UDP is not passed to unix sockets".to_string()),
        };
    }
    let to = match endpoint {
        Endpoint::Ip(address) => Destination::Ip(*address),
        Endpoint::Unix(path) => Destination::Unix(path),
    };
    let io = match connect::begin(to, &options).map_err(failed)? {
        connect::Started::Made(io) => return Ok(io),
        connect::Started::Begun(io) => io,
    };
    match timeout(proxy.connect_timeout, io.writable()).await {
        Ok(()) => connect::finish(&io).map_err(failed).map(|()| io),
        Err(_) => {
            Err("upstream timed out (110: Connection timed out) while connecting to upstream".to_string())
        }
    }
}
