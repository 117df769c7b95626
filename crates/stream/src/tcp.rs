//! A client's connection, from its beginning to its end.

use crate::conf::{Action, Proxy};
use crate::proxy::{self, Connected, INTERNAL, OK, Status, header};
use crate::relay::{Direction, Failure, Moved, Side};
use crate::session::{Session, shown};
use crate::{handshake, opening};
use brisk_conf::os_text;
use brisk_host::log::LogLevel;
use brisk_host::peer::Peer;
use brisk_host::vars::{Context as _, Template};
use brisk_net::listen::Address;
use brisk_net::{Deadline, Io, Stream, clock, sleep_until};
use std::cell::Cell;
use std::future::{Future as _, poll_fn};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
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
}

/// Serves a connection; gives the status that it ends with.
pub async fn serve(session: &Session, io: Io) -> Status {
    session.info(format_args!(
        "client {} connected to {}",
        full(session),
        shown(&session.origin.listener.address)
    ));
    let client = match open(session, io).await {
        Ok(client) => client,
        Err(status) => return status,
    };
    let client = &*client;
    let server = session.server();
    match &*server.action {
        Action::Return(text) => answer(session, client, text).await,
        Action::HandOver(address) => hand_over(session, client, address),
        Action::Pass(pass) => {
            let proxy = &server.proxy;
            let connected = match proxy::connect(session, pass, proxy).await {
                Ok(connected) => connected,
                Err(status) => return status,
            };
            let status = relay(session, client, &connected).await;
            connected.finish(session);
            status
        }
    }
}

/// Goes through the phases before the last one; the error is the status that the session ends with.
async fn open(session: &Session, io: Io) -> Result<Rc<Stream>, Status> {
    let place = &session.origin.place;
    if place.proxy_protocol {
        opening::take_header(session, &io).await?;
    }
    opening::begin(session)?;
    if place.tls {
        // What is inside of it is not looked at: `ssl_preread` is for connections that are passed on as they are.
        return handshake::accept(session, io).await;
    }
    let preread = session.server().preread;
    if let Some(preread) = preread {
        opening::preread(session, &io, preread).await?;
    }
    Ok(Rc::new(Stream::from(io)))
}

/// `pass`: gives the connection to what listens at another address of this process.
fn hand_over(session: &Session, client: &Stream, address: &Template) -> Status {
    let text = address.eval(session);
    let text = String::from_utf8_lossy(&text);
    let Some(address) = listening(&text) else {
        session.log(LogLevel::Error, format_args!("invalid address \"{text}\" in pass"));
        return INTERNAL;
    };
    let thread = &session.origin.thread;
    let Some(listener) = thread.listener_of(&address) else {
        session.log(LogLevel::Error, format_args!("nothing listens at \"{text}\" in this configuration"));
        return INTERNAL;
    };
    match client.hand_over() {
        Ok(fd) => {
            thread.hand_over(fd, session.client.get(), &listener);
            OK
        }
        Err(error) => {
            let why = os_text(&error);
            session.log(LogLevel::Error, format_args!("the connection cannot be handed over ({why})"));
            INTERNAL
        }
    }
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
                    session.sent_bytes.set(session.sent_bytes.get() + count as u64);
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
}

/// Passes bytes on in both directions until one side has ended, with `proxy_half_close` both.
async fn relay(session: &Session, client: &Stream, connected: &Connected) -> Status {
    let peer = &connected.stream;
    let server = session.server();
    let proxy = &server.proxy;
    let rate = |template: &Template| rate_of(session, template);
    let mut up = Direction::new(proxy.buffer_bytes, rate(&proxy.upload_rate), proxy.half_close)
        .preceded_by(header_within(session, proxy).as_bytes());
    let mut down = Direction::new(proxy.buffer_bytes, rate(&proxy.download_rate), proxy.half_close);
    let began_ms = clock::mono_ms();
    let mut idle = Deadline::default();
    idle.set(proxy.timeout);
    let wait = Cell::new(None);
    let end = poll_fn(|cx| {
        let (mut sent, mut got) = (Moved::default(), Moved::default());
        let upward = up.poll(cx, client, peer, &mut sent);
        let downward = down.poll(cx, peer, client, &mut got);
        if let Some(took_ms) = count(session, &sent, &got, began_ms) {
            connected.first_byte(took_ms);
        }
        if let Poll::Ready(Err(failure)) = upward {
            return Poll::Ready(match failure {
                Failure::Read(_) => End::ClientFailed(failure),
                Failure::Write(_) => End::PeerFailed(failure),
            });
        }
        if let Poll::Ready(Err(failure)) = downward {
            return Poll::Ready(match failure {
                Failure::Read(_) => End::PeerFailed(failure),
                Failure::Write(_) => End::ClientFailed(failure),
            });
        }
        let is_closed = if proxy.half_close {
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
    if let End::PeerFailed(_) | End::TimedOut = end {
        // A client of TLS must not take what it has for all there was (RFC 8446 §6.1).
        client.abort();
    }
    if let End::ClientFailed(_) | End::TimedOut = end {
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
    let add = |cell: &Cell<u64>, bytes: u64| cell.set(cell.get() + bytes);
    add(&session.received_bytes, sent.read_bytes);
    add(&session.sent_bytes, got.written_bytes);
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
