//! A client's connection, from its beginning to its end.

use crate::conf::{Action, Client, Handler, Proxy};
use crate::limits::PASSES_MAX;
use crate::proxy::{self, Connected, INTERNAL, OK, Status, header};
use crate::relay::{Direction, Failure, Moved, Side};
use crate::session::{Session, shown};
use crate::{handshake, opening};
use brisk_conf::os_text;
use brisk_host::log::LogLevel;
use brisk_host::peer::Peer;
use brisk_host::thread::{self, Passed};
use brisk_host::vars::{Context as _, Template};
use brisk_net::listen::Address;
use brisk_net::{Deadline, Io, Pipe, Stream, clock, sleep_until};
use std::cell::Cell;
use std::future::{Future as _, poll_fn};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

impl Side for Stream {
    fn poll_read(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            if self.poll_readable(cx).is_pending() {
                return Poll::Pending;
            }
            match self.try_read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            if self.poll_writable(cx).is_pending() {
                return Poll::Pending;
            }
            match self.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    fn poll_end(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_shutdown_write(cx)
    }

    fn can_splice(&self) -> bool {
        Stream::can_splice(self)
    }

    fn poll_fill(&self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_readable(cx));
            match self.try_fill(pipe) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    fn poll_drain(&self, cx: &mut Context<'_>, pipe: &mut Pipe) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_writable(cx));
            match self.try_drain(pipe) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }
}

/// Serves a connection; gives the status that it ends with.
pub async fn serve(session: &Session, begun: Begun) -> Status {
    session.info(format_args!(
        "client {} connected to {}",
        full(session),
        shown(&session.origin.listener.address)
    ));
    // Where TLS begins within a protocol, its handler begins it.
    let own = session.server().action.clone();
    if let Action::Serve(handler) = &*own {
        return serve_by(session, begun, &**handler).await.unwrap_or_else(|status| status);
    }
    let client = match open(session, begun).await {
        Ok(client) => client,
        Err(status) => return status,
    };
    let server = session.server();
    session.step(format_args!("its server is \"{}\"", String::from_utf8_lossy(&server.name)));
    match &*server.action {
        Action::Serve(_) => proxy::misled(session),
        Action::Return(text) => answer(session, &client, text).await,
        Action::HandOver(address) => {
            hand_over(session, client, address).map_or_else(|status| status, |()| OK)
        }
        Action::Pass(pass) => {
            let proxy = &server.proxy;
            let connected = match proxy::connect(session, pass, proxy).await {
                Ok(connected) => connected,
                Err(status) => return status,
            };
            let status = relay(session, &client, &connected).await;
            connected.finish(session);
            status
        }
    }
}

/// Has a handler serve the connection; the error is the status that the session ends with before.
async fn serve_by(session: &Session, begun: Begun, handler: &dyn Handler) -> Result<Status, Status> {
    let Begun::Plain(io) = begun else { return Err(proxy::misled(session)) };
    let place = &session.origin.place;
    if place.proxy_protocol {
        opening::take_header(session, &io).await?;
    }
    opening::begin(session)?;
    Ok(handler.serve(session, Client { io, wants_tls: place.tls }).await)
}

/// A connection as a session begins with it.
pub enum Begun {
    /// Nothing was read from it.
    Plain(Io),
    /// TLS was ended by the server that has passed it on.
    Secure(Rc<Stream>),
}

impl Begun {
    /// Our side's address; `None` for a unix socket.
    pub fn local(&self) -> Option<SocketAddr> {
        match self {
            Begun::Plain(io) => brisk_net::listen::local_ip(io.fd()),
            Begun::Secure(stream) => stream.local_ip(),
        }
    }

    /// `tcp_nodelay off`. Listening sockets have it on, and connections inherit it.
    pub fn delay_small_packets(&self) {
        match self {
            Begun::Plain(io) => drop(rustix::net::sockopt::set_tcp_nodelay(io.fd(), false)),
            Begun::Secure(stream) => stream.delay_small_packets(),
        }
    }
}

/// Goes through the phases before the last one; the error is the status that the session ends with.
async fn open(session: &Session, begun: Begun) -> Result<Rc<Stream>, Status> {
    let place = &session.origin.place;
    let io = match begun {
        Begun::Plain(io) => io,
        Begun::Secure(_) if place.tls || place.proxy_protocol => {
            let text = format_args!(
                "a connection whose TLS was ended was passed to where TLS or a PROXY header is to come"
            );
            session.log(LogLevel::Error, text);
            return Err(INTERNAL);
        }
        Begun::Secure(stream) => {
            opening::begin(session)?;
            preread_within(session, &stream).await?;
            return Ok(stream);
        }
    };
    if place.proxy_protocol {
        opening::take_header(session, &io).await?;
    }
    opening::begin(session)?;
    if place.tls {
        let stream = handshake::accept(session, io).await?;
        preread_within(session, &stream).await?;
        return Ok(stream);
    }
    let preread = session.server().preread;
    if let Some(preread) = preread {
        opening::preread(session, &io, preread).await?;
    }
    Ok(Rc::new(Stream::from(io)))
}

/// As in nginx, `ssl_preread` looks at what is inside of TLS that was ended here: it may be TLS again.
async fn preread_within(session: &Session, stream: &Stream) -> Result<(), Status> {
    match session.server().preread {
        Some(wanted) => opening::preread_within(session, stream, wanted).await,
        None => Ok(()),
    }
}

/// `pass`: gives the connection to what listens at another address of this process. The error is the status that the session ends with.
fn hand_over(session: &Session, client: Rc<Stream>, address: &Template) -> Result<(), Status> {
    let text = address.eval(session);
    let text = String::from_utf8_lossy(&text);
    let failed = |why: std::fmt::Arguments<'_>| {
        session.log(LogLevel::Error, why);
        Err(INTERNAL)
    };
    let Some(address) = listening(&text) else {
        return failed(format_args!("invalid address \"{text}\" in pass"));
    };
    if !session.looked_at.borrow().is_empty() {
        return failed(format_args!("cannot pass connection with preread data"));
    }
    if session.origin.passes >= PASSES_MAX {
        return failed(format_args!("stream pass cycle"));
    }
    let thread = &session.origin.thread;
    let Some(listener) = thread.listener_of(&address) else {
        return failed(format_args!("nothing listens at \"{text}\" in this configuration"));
    };
    let begun = match begun_of(session, client) {
        Ok(begun) => begun,
        Err(error) => {
            return failed(format_args!("the connection cannot be handed over ({})", os_text(&error)));
        }
    };
    let local = match address {
        Address::Ip(ip) if !ip.ip().is_unspecified() => Some(ip),
        _ => None,
    };
    session.step(format_args!("passed to {text}"));
    session.is_passed.set(true);
    let passed = Passed { begun, peer: session.client.get(), local, times: session.origin.passes + 1 };
    thread.hand_over(passed, &listener);
    Ok(())
}

/// The connection for another server.
fn begun_of(session: &Session, client: Rc<Stream>) -> io::Result<thread::Begun> {
    let Some(secure) = session.secure.get() else {
        return client.hand_over().map(thread::Begun::Socket);
    };
    secure.give_up();
    // Nobody else holds it: the session gave up its share just now.
    let stream = Rc::try_unwrap(client).map_err(|_| io::Error::from(io::ErrorKind::ResourceBusy))?;
    Ok(thread::Begun::Secure(Box::new(thread::Secure {
        stream,
        name: session.asked_name.get().cloned(),
        rules: secure.rules.clone(),
        hello: secure.hello.clone(),
    })))
}

/// An address as `listen` has it: with a port, a port of all IPv4 addresses, or a unix socket.
fn listening(text: &str) -> Option<Address> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Some(Address::Unix(path.into()));
    }
    let of_all = text.strip_prefix("*:").unwrap_or(text).parse::<u16>();
    let address = of_all.map(|port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
    address.or_else(|_| text.parse()).ok().map(Address::Ip)
}

/// The client with its port.
pub fn full(session: &Session) -> String {
    match session.client.get() {
        Peer::Ip(address) => address.to_string(),
        Peer::Unix => "unix:".to_string(),
    }
}

/// `return`: the client gets the text, as far as it takes it.
async fn answer(session: &Session, client: &Stream, text: &Template) -> Status {
    let text = text.eval(session);
    let mut at = 0;
    let mut limit = Deadline::default();
    limit.set(session.server().proxy.timeout);
    poll_fn(|cx| {
        while at < text.len() {
            match client.poll_write(cx, &text[at..]) {
                Poll::Pending if limit.poll_over(cx) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(count)) => {
                    at += count;
                    session.moved(0, count as u64);
                }
            }
        }
        Poll::Ready(())
    })
    .await;
    OK
}

/// How a relay ended.
enum End {
    /// A side has closed, and what it sent has been passed on.
    Closed {
        by_client: bool,
    },
    ClientFailed(Failure),
    PeerFailed(Failure),
    TimedOut,
    /// The peer is lost, or has another role than the one that it was chosen for.
    Unfit,
}

/// Passes bytes on in both directions until one side has ended, with `proxy_half_close` both.
async fn relay(session: &Session, client: &Stream, connected: &Connected) -> Status {
    let peer = &connected.stream;
    let server = session.server();
    let proxy = &server.proxy;
    let rate = |template: &Template| rate_of(session, template);
    let mut up = Direction::new(proxy.buffer_bytes, rate(&proxy.upload_rate), proxy.half_close)
        .preceded_by(&[header_within(session, proxy).as_bytes(), &session.looked_at.take()].concat());
    let mut down = Direction::new(proxy.buffer_bytes, rate(&proxy.download_rate), proxy.half_close);
    let began_ms = clock::mono_ms();
    let mut idle = Deadline::default();
    idle.set(proxy.timeout);
    let wait = Cell::new(None);
    // The peer takes nothing more.
    let mut is_deaf = false;
    let end = poll_fn(|cx| {
        if connected.poll_unfit(cx).is_ready() {
            return Poll::Ready(End::Unfit);
        }
        let (mut sent, mut got) = (Moved::default(), Moved::default());
        let upward = if is_deaf { Poll::Pending } else { up.poll(cx, client, peer, &mut sent) };
        let downward = down.poll(cx, peer, client, &mut got);
        if let Some(took_ms) = count(session, &sent, &got, began_ms) {
            connected.first_byte(took_ms);
        }
        connected.moved(sent.written_bytes, got.read_bytes);
        match upward {
            Poll::Ready(Err(failure @ Failure::Read(_))) => return Poll::Ready(End::ClientFailed(failure)),
            // It may have closed because it has said all that it had to say: that is still passed on.
            Poll::Ready(Err(Failure::Write(_))) => is_deaf = true,
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
        if let Poll::Ready(Err(failure)) = downward {
            return Poll::Ready(match failure {
                Failure::Read(_) => End::PeerFailed(failure),
                Failure::Write(_) => End::ClientFailed(failure),
            });
        }
        let is_closed = if is_deaf {
            down.is_over()
        } else if proxy.half_close {
            up.is_over() && down.is_over()
        } else {
            // What one side still holds of the other, which has not ended, is not waited for.
            up.is_over() || down.is_over()
        };
        if is_closed {
            return Poll::Ready(End::Closed { by_client: up.has_ended() });
        }
        if sent != Moved::default() || got != Moved::default() {
            idle.set(proxy.timeout);
        }
        if idle.poll_over(cx) {
            return Poll::Ready(End::TimedOut);
        }
        poll_rates(cx, &wait, [up.resumes_ms(), down.resumes_ms()]);
        Poll::Pending
    })
    .await;
    if let End::PeerFailed(_) | End::TimedOut | End::Unfit = end {
        // A client of TLS must not take what it has for all there was (RFC 8446 §6.1).
        client.abort();
    }
    if let End::ClientFailed(_) | End::TimedOut | End::Unfit = end {
        peer.abort();
    }
    conclude(session, &end)
}

/// The header where it goes with the first bytes: one that stands before a TLS session has left before.
fn header_within(session: &Session, proxy: &Proxy) -> String {
    if proxy.tls.is_some() { String::new() } else { header(session, proxy) }
}

/// Has the task woken when a rate lets reading go on.
pub fn poll_rates(cx: &mut Context<'_>, wait: &Cell<Option<(u64, brisk_net::Sleep)>>, at: [Option<u64>; 2]) {
    let Some(at_ms) = at.into_iter().flatten().min() else { return };
    let mut sleep = match wait.take() {
        Some((have_ms, sleep)) if have_ms == at_ms => sleep,
        _ => sleep_until(at_ms),
    };
    if Pin::new(&mut sleep).poll(cx).is_ready() {
        cx.waker().wake_by_ref();
    } else {
        wait.set(Some((at_ms, sleep)));
    }
}

/// A rate of bytes per second; 0: no limit.
pub fn rate_of(session: &Session, template: &Template) -> u64 {
    let text = template.eval(session);
    if text.is_empty() {
        return 0;
    }
    brisk_conf::value::parse_size(&text, false).unwrap_or_else(|| {
        let text = String::from_utf8_lossy(&text);
        session.log(LogLevel::Error, format_args!("invalid rate \"{text}\": there is no limit"));
        0
    })
}

/// Counts what has moved; gives the time of the peer's first byte if it was among that.
fn count(session: &Session, sent: &Moved, got: &Moved, began_ms: u64) -> Option<u64> {
    session.moved(sent.read_bytes, got.written_bytes);
    if sent.written_bytes == 0 && got.read_bytes == 0 {
        return None;
    }
    let mut first_byte_ms = None;
    session.attempt(|attempt| {
        attempt.sent_bytes += sent.written_bytes;
        attempt.received_bytes += got.read_bytes;
        if got.read_bytes > 0 && attempt.first_byte_ms.is_none() {
            let connect_ms = attempt.connect_ms.unwrap_or_default();
            first_byte_ms = Some(connect_ms + clock::mono_ms().saturating_sub(began_ms));
            attempt.first_byte_ms = first_byte_ms;
        }
    });
    first_byte_ms
}

/// What the log says of the end.
///
/// Whatever ends a session that a peer has taken, its status is 200, as in nginx.
fn conclude(session: &Session, end: &End) -> Status {
    match end {
        End::Closed { by_client } => {
            let side = if *by_client { "client" } else { "upstream" };
            session.log(LogLevel::Info, format_args!("{side} disconnected"));
        }
        End::TimedOut => {
            let limit = Duration::as_millis(&session.server().proxy.timeout);
            session.log(
                LogLevel::Info,
                format_args!(
                    "connection timed out (110: Connection timed out) after {limit}ms without a byte"
                ),
            );
        }
        End::Unfit => {
            let text = "the server is lost, or has another role now: the session ends";
            session.log(LogLevel::Warn, format_args!("{text}"));
        }
        End::ClientFailed(failure) => failed(session, LogLevel::Info, "client", failure),
        End::PeerFailed(failure) => failed(session, LogLevel::Error, "upstream", failure),
    }
    OK
}

fn failed(session: &Session, level: LogLevel, side: &str, failure: &Failure) {
    let (call, doing, error) = match failure {
        Failure::Read(error) => ("recv", "reading from", error),
        Failure::Write(error) => ("send", "writing to", error),
    };
    session.log(level, format_args!("{call}() failed ({}) while {doing} {side}", os_text(error)));
}
