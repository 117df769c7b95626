//! One HTTP/3 connection (RFC 9114), shared by any number of exchanges.
//!
//! What its exchanges share is in [`shared`](super::shared), the protocol's client in [`brisk_load::h3`]. There is no falling back to TCP:
//! what stands in the way of HTTP/3 is what the failure says.

use super::common::Common;
use super::dial;
use super::failure::{Failure, Fault};
use super::incoming::{Heads, Incoming, LinkFacts, Sink, fields_of, text_of};
use super::message::{Exchange, Note, Phases, Request, TlsFacts, Watcher};
use super::shared::{Shared, Stage};
use crate::limits::{H3_FIRST_TIME_MAX, H3_HANDSHAKE_MAX};
use brisk_h2::flood::FloodLimits;
use brisk_h3::qpack::{begin, write_literal};
use brisk_load::h3::{Answer, Broken, Client, Closed, Ecn, Happened};
use brisk_load::url::{Origin, Place};
use brisk_net::udp::{Message, Outbox, Receiver, prepare_client};
use brisk_net::{Io, clock, sleep, spawn, timeout};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::cell::RefCell;
use std::future::{Future as _, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

struct State {
    io: Rc<Io>,
    client: Client,
    remote: SocketAddr,
    shared: Shared<u64>,
    outbox: Outbox,
    receiver: Receiver,
    sink: Sink,
    /// Of what was asked before the handshake was complete: whether the server has taken it.
    early: Option<bool>,
}

/// See the module's head.
#[derive(Clone)]
pub(crate) struct Conn {
    state: Rc<RefCell<State>>,
    peer: Rc<str>,
    watcher: Option<Watcher>,
}

impl Conn {
    /// Connects, and checks the certificate.
    pub(crate) async fn dial(
        common: &Common,
        origin: &Origin,
        phases: &mut Phases,
        watcher: Option<Watcher>,
    ) -> Result<Self, Failure> {
        let Place::Name(host, port) = &origin.place else {
            return Err(Failure::new(Fault::Connect, "HTTP/3 is not spoken over unix sockets"));
        };
        if !origin.secure {
            return Err(Failure::new(Fault::Connect, "HTTP/3 needs https"));
        }
        if common.options.proxy.is_some() || common.options.network.is_some() {
            let text = "HTTP/3 goes through no HTTP proxy and no slow line of this client's";
            return Err(Failure::new(Fault::Connect, text));
        }
        let addresses = dial::look_up(common, host, *port).await?;
        phases.dns = phases.now();
        let mut failure = Failure::new(Fault::Dns, "the name has no address");
        for remote in addresses {
            // Anybody on the way can make a Retry that is taken (RFC 9000 §17.2.5, §21.2): the server then ignores what comes, or
            // cannot prove that it was its own. A connection with other IDs is not bound by it.
            for time in [H3_FIRST_TIME_MAX, H3_HANDSHAKE_MAX.saturating_sub(H3_FIRST_TIME_MAX)] {
                match open(common, origin.host(), remote, time).await {
                    Ok(state) => {
                        phases.tls = phases.now();
                        return Ok(Self { state, peer: Rc::from(remote.to_string()), watcher });
                    }
                    Err(error) => failure = error,
                }
                if !matches!(failure.fault, Fault::Timeout | Fault::Connect) {
                    break;
                }
            }
        }
        Err(failure)
    }

    /// New streams may be begun.
    pub(crate) fn is_usable(&self) -> bool {
        self.state.borrow().shared.is_usable()
    }

    pub(crate) async fn exchange(
        &self,
        request: &Request,
        mut phases: Phases,
        reused: bool,
        body_max: usize,
    ) -> Result<Exchange, Failure> {
        let guard = self.begin(request, body_max).await?;
        let mut heads = Heads::default();
        let state = &self.state;
        poll_fn(|cx| {
            let mut state = state.borrow_mut();
            if phases.sent.is_none() && !state.client.is_sending(guard.stream) {
                phases.sent = phases.now();
            }
            state.shared.poll_response(guard.stream, cx, &mut phases, &mut heads)
        })
        .await?;
        phases.done = phases.now();
        let incoming = self.state.borrow_mut().shared.incoming.remove(&guard.stream).unwrap_or_default();
        let (tls, peer) = (Some(Rc::new(facts(&self.state.borrow()))), Rc::clone(&self.peer));
        heads.exchange(incoming, phases, LinkFacts { version: "HTTP/3", reused, tls, peer })
    }

    /// Begins a request, waiting while the server allows no more of them.
    async fn begin(&self, request: &Request, body_max: usize) -> Result<Guard, Failure> {
        let mut section = Vec::new();
        begin(&mut section);
        for (name, value) in fields_of(request) {
            write_literal(name.as_bytes(), value.as_bytes(), &mut section);
        }
        let body = request.body.clone().into();
        let stream = poll_fn(|cx| {
            let mut state = self.state.borrow_mut();
            if let Err(failure) = state.shared.check() {
                return Poll::Ready(Err(failure));
            }
            let must_wait = !request.may_be_early() && !state.client.is_established();
            let begun = if must_wait { None } else { state.client.ask(&section, &body) };
            state.shared.poll_begun(begun, cx)
        })
        .await?;
        if let Some(watch) = &self.watcher {
            watch(Note::RequestHead(&text_of(request)));
        }
        let mut state = self.state.borrow_mut();
        state.shared.incoming.insert(stream, Incoming::new(body_max));
        state.shared.kick();
        Ok(Guard { state: Rc::clone(&self.state), stream })
    }
}

/// An exchange that is given up ends its stream.
struct Guard {
    state: Rc<RefCell<State>>,
    stream: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut state = self.state.borrow_mut();
        if state.shared.incoming.remove(&self.stream).is_some() {
            state.client.give_up(self.stream);
            state.shared.kick();
        }
        state.shared.admit();
    }
}

fn facts(state: &State) -> TlsFacts {
    let quic = state.client.quic();
    TlsFacts {
        version: "TLSv1.3",
        // The library does not tell them.
        cipher: "",
        group: "",
        alpn: quic.alpn().map(|name| String::from_utf8_lossy(&name).into_owned()),
        resumed: false,
        early: state.early,
        chain: quic.chain().iter().map(Vec::len).collect(),
    }
}

fn socket(remote: SocketAddr) -> io::Result<Io> {
    let family = if remote.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
    // So that an ICMP message about a closed port is heard.
    rustix::net::connect(&fd, &remote)?;
    prepare_client(fd.as_fd(), remote.is_ipv6(), true);
    Io::new(fd)
}

/// A connection whose handshake is complete, and whose server is the right one.
async fn open(
    common: &Common,
    name: &str,
    remote: SocketAddr,
    time: Duration,
) -> Result<Rc<RefCell<State>>, Failure> {
    let failed = |error: io::Error| Failure::new(Fault::Connect, format!("HTTP/3: {error}"));
    let io = socket(remote).map_err(failed)?;
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let settings = common.quic().map_err(|why| Failure::new(Fault::Tls, why))?;
    let client = Client::begin(Instant::now(), settings, remote, name, FloodLimits::default())
        .map_err(|why| Failure::new(Fault::Tls, why))?;
    let io = Rc::new(io);
    let state = Rc::new(RefCell::new(State {
        io: Rc::clone(&io),
        remote,
        shared: Shared::new(if client.can_ask() { Stage::Open } else { Stage::Opening(Vec::new()) }),
        client,
        outbox: Outbox::default(),
        receiver: Receiver::default(),
        sink: Sink::default(),
        early: None,
    }));
    spawn(drive(io, Rc::downgrade(&state)));
    let opened = poll_fn(|cx| state.borrow_mut().shared.poll_opened(cx));
    match timeout(time, opened).await {
        Ok(done) => done.map(|()| state),
        Err(_) => Err(Failure::new(Fault::Timeout, silent(remote))),
    }
}

fn silent(remote: SocketAddr) -> String {
    format!(
        "HTTP/3 was not used: nothing came back from UDP {remote} within {} s. A firewall may drop it, or nothing listens there",
        H3_HANDSHAKE_MAX.as_secs()
    )
}

/// Why there is no connection, or none any more.
fn ended(remote: SocketAddr, is_open: bool, why: &Closed) -> Failure {
    /// RFC 9001 §4.8 with the alert no_application_protocol (RFC 7301 §3.2).
    const NO_ALPN: u64 = 0x178;
    match (why, is_open) {
        (Closed::ByTransport(NO_ALPN, _), false) => {
            let text = format!("HTTP/3 was not used: {remote} speaks QUIC, but not HTTP/3 for this name");
            Failure::new(Fault::Tls, text)
        }
        (Closed::TimedOut, false) => Failure::new(Fault::Timeout, silent(remote)),
        (why, false) => Failure::new(Fault::Connect, format!("HTTP/3 was not used: the handshake was {why}")),
        (why, true) => Failure::new(Fault::Reset, format!("the connection was {why}")),
    }
}

impl State {
    /// The handshake is complete.
    fn established(&mut self) -> Result<(), Failure> {
        let now = clock::now().unix_secs;
        let distrusted = |why| Failure::tls(&brisk_net::TlsError::Distrust(why));
        if let Err(failure) = self.client.quic().check(now).map_err(distrusted) {
            self.client.close(Instant::now());
            return Err(failure);
        }
        self.shared.enter(Stage::Open);
        Ok(())
    }

    /// Takes what has come.
    fn take(&mut self) -> Result<(), Failure> {
        loop {
            let Self { client, shared, sink, .. } = self;
            let mut each = |sink: &mut Sink, stream: u64, answer: Answer<'_>| {
                let incoming = shared.incoming.get_mut(&stream)?;
                match answer {
                    Answer::Head { end, bytes } => return incoming.head(sink, end, bytes as u64),
                    Answer::Interim => drop(incoming.head(sink, false, 0)),
                    Answer::Trailers => incoming.trailers(sink),
                    Answer::Data { data, end } => incoming.data(data, end),
                    Answer::Sent => incoming.wake(),
                    Answer::Broken(broken) => incoming.end(Err(why_broken(broken))),
                }
                None
            };
            let happened = client.poll(sink, &mut each);
            match happened.map_err(|error| Failure::new(Fault::Malformed, error.to_string()))? {
                None => return Ok(()),
                Some(Happened::Established { early }) => {
                    self.early = early;
                    self.established()?;
                }
                Some(Happened::GoneAway(first)) => {
                    let failure = Failure::new(Fault::Reset, "the server goes away");
                    self.shared.go_away(&failure, |stream| stream >= first);
                }
                Some(Happened::Closed(why)) => {
                    let is_open = self.client.is_established();
                    return Err(ended(self.remote, is_open, &why));
                }
            }
        }
    }
}

fn why_broken(broken: Broken) -> Failure {
    match broken {
        Broken::Length => Failure::new(Fault::Malformed, "the body is not as long as Content-Length says"),
        Broken::TooLarge(limit) => Failure::new(Fault::Malformed, format!("the server sent {limit}")),
        Broken::Reset(code) | Broken::Malformed(code) => {
            Failure::new(Fault::Reset, format!("the stream was reset: {}", code.name()))
        }
        Broken::Refused => Failure::new(Fault::Reset, "the server did not take what was sent early"),
    }
}

/// The server is told; what it says of it nobody hears.
impl Drop for State {
    fn drop(&mut self) {
        self.client.close(Instant::now());
        flush(self);
        self.shared.kick();
    }
}

/// Receives and sends until the connection ends or nobody has it any more; then the server is told.
async fn drive(io: Rc<Io>, state: Weak<RefCell<State>>) {
    let mut alarm = pin!(None);
    poll_fn(|cx| {
        let Some(state) = state.upgrade() else { return Poll::Ready(()) };
        let mut state = state.borrow_mut();
        state.shared.drive(cx);
        loop {
            match turn(&io, &mut state, cx) {
                Ok(()) => {}
                Err(failure) => {
                    flush(&mut state);
                    state.shared.fail(failure);
                    return Poll::Ready(());
                }
            }
            let Some(at) = state.client.next_timeout() else { return Poll::Pending };
            alarm.set(Some(sleep(at.saturating_duration_since(Instant::now()))));
            let due = alarm.as_mut().as_pin_mut().is_some_and(|alarm| alarm.poll(cx).is_ready());
            if !due {
                return Poll::Pending;
            }
        }
    })
    .await;
}

fn turn(io: &Io, state: &mut State, cx: &mut Context<'_>) -> Result<(), Failure> {
    loop {
        if !state.client.is_established()
            && let Ok(Err(Errno::CONNREFUSED)) = sockopt::socket_error(io.fd())
        {
            let text = format!("HTTP/3 was not used: nothing listens on UDP {}", state.remote);
            return Err(Failure::new(Fault::Refused, text));
        }
        let now = Instant::now();
        let State { client, receiver, .. } = &mut *state;
        let looked = receiver.receive(io.fd(), |one| client.receive(now, Ecn::from_bits(one.ecn), one.bytes));
        let has_more = looked.map_err(|error| Failure::io(&error, false))?.has_more;
        state.client.handle_timeout(now);
        state.take()?;
        // Streams may have ended, or the server may have allowed more.
        state.shared.admit();
        flush(state);
        if has_more {
            continue;
        }
        io.mark_drained();
        // An ICMP message was taken with the datagrams. QUIC finds out by itself whether anybody is there still.
        io.mark_sound();
        if io.poll_readable(cx).is_pending() {
            return Ok(());
        }
    }
}

fn flush(state: &mut State) {
    let State { io, client, remote, outbox, .. } = state;
    let now = Instant::now();
    while let Some(fresh) = client.poll_transmit(now) {
        let ecn = fresh.ecn.map_or(0, |ecn| ecn as u8);
        let (segment, bytes) = (fresh.segment, fresh.bytes);
        outbox.push(Message { to: *remote, from: None, ecn, segment, bytes });
    }
    outbox.flush(io.fd(), |bytes| client.recycle(bytes));
}
