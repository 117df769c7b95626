//! One HTTP/3 connection (RFC 9114), shared by any number of exchanges.
//!
//! As over HTTP/2 a task of its own moves what there is to move, and an exchange is a stream that waits for its events. There is
//! no falling back to TCP: what stands in the way of HTTP/3 is what the failure says.

use super::common::Common;
use super::dial;
use super::failure::{Failure, Fault};
use super::incoming::{Heads, Incoming, LinkFacts, Sink, fields_of, text_of};
use super::message::{Exchange, Note, Phases, Request, TlsFacts, Watcher};
use crate::limits::{H3_HANDSHAKE_MAX, H3_READ_BYTES};
use brisk_h3::qpack::{begin, write_literal};
use brisk_h3::{Config, Connection, ErrorCode, Event, Own, Role, Settings};
use brisk_load::url::{Origin, Place};
use brisk_net::udp::{Message, Outbox, Receiver};
use brisk_net::{Io, clock, sleep, spawn, timeout};
use brisk_quic::{Closed, Dir, Ecn, Event as Told, Read, Written};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::cell::RefCell;
use std::collections::HashMap;
use std::future::{Future as _, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// What a request has to send still.
struct Outgoing {
    bytes: Vec<u8>,
    at: usize,
}

/// How far the connection is.
enum Stage {
    /// The handshake is under way; who waits for its end.
    Opening(Vec<Waker>),
    /// Requests may be made.
    Open,
    /// The server takes no new ones.
    Leaving,
    Failed(Failure),
}

struct State {
    io: Rc<Io>,
    quic: brisk_quic::Client,
    remote: SocketAddr,
    engine: Connection<()>,
    own: [Option<u64>; 2],
    incoming: HashMap<u64, Incoming>,
    outgoing: HashMap<u64, Outgoing>,
    stage: Stage,
    driver: Option<Waker>,
    /// Of those who wait for room for another stream.
    waiting: Vec<Waker>,
    outbox: Outbox,
    receiver: Receiver,
    sink: Sink,
}

/// See the module's head.
#[derive(Clone)]
pub(crate) struct Conn {
    state: Rc<RefCell<State>>,
    facts: Rc<TlsFacts>,
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
            match open(common, origin.host(), remote).await {
                Ok(state) => {
                    phases.tls = phases.now();
                    let facts = Rc::new(facts(&state.borrow().quic));
                    return Ok(Self { state, facts, peer: Rc::from(remote.to_string()), watcher });
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// New streams may be begun.
    pub(crate) fn is_usable(&self) -> bool {
        matches!(self.state.borrow().stage, Stage::Open)
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
            let is_sent = !state.outgoing.contains_key(&guard.stream);
            if is_sent && phases.sent.is_none() {
                phases.sent = phases.now();
            }
            match state.incoming.get_mut(&guard.stream) {
                Some(incoming) => incoming.poll(cx, &mut phases, &mut heads),
                None => Poll::Ready(Err(Failure::new(Fault::Reset, "the stream is gone"))),
            }
        })
        .await?;
        phases.done = phases.now();
        let incoming = self.state.borrow_mut().incoming.remove(&guard.stream).unwrap_or_default();
        let (tls, peer) = (Some(Rc::clone(&self.facts)), Rc::clone(&self.peer));
        heads.exchange(incoming, phases, LinkFacts { version: "HTTP/3", reused, tls, peer })
    }

    /// Begins a stream, waiting while the server allows no more of them, and puts the whole request together for it.
    async fn begin(&self, request: &Request, body_max: usize) -> Result<Guard, Failure> {
        let stream = poll_fn(|cx| {
            let mut state = self.state.borrow_mut();
            match &state.stage {
                Stage::Failed(failure) => return Poll::Ready(Err(failure.clone())),
                Stage::Leaving => {
                    return Poll::Ready(Err(Failure::new(Fault::Reset, "the server goes away")));
                }
                Stage::Opening(_) | Stage::Open => {}
            }
            match state.quic.open(Dir::Bi) {
                Some(stream) => Poll::Ready(Ok(stream)),
                None => {
                    state.waiting.push(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await?;
        if let Some(watch) = &self.watcher {
            watch(Note::RequestHead(&text_of(request)));
        }
        let mut section = Vec::new();
        begin(&mut section);
        for (name, value) in fields_of(request) {
            write_literal(name.as_bytes(), value.as_bytes(), &mut section);
        }
        let mut state = self.state.borrow_mut();
        let (mut bytes, body) = (Vec::new(), &request.body);
        state.engine.open(stream, ());
        let _ = state.engine.send_head(stream, &section, &mut bytes);
        if !body.is_empty() {
            let _ = state.engine.begin_data(stream, body.len() as u64, &mut bytes);
            bytes.extend_from_slice(body);
        }
        let _ = state.engine.end_send(stream);
        state.outgoing.insert(stream, Outgoing { bytes, at: 0 });
        state.incoming.insert(stream, Incoming::new(body_max));
        state.send(stream);
        state.kick();
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
        if state.incoming.remove(&self.stream).is_some() {
            state.outgoing.remove(&self.stream);
            state.engine.reset(self.stream);
            state.quic.give_up(self.stream, ErrorCode::REQUEST_CANCELLED.0);
            state.kick();
        }
        state.admit();
    }
}

fn facts(quic: &brisk_quic::Client) -> TlsFacts {
    TlsFacts {
        version: "TLSv1.3",
        // The library does not tell them.
        cipher: "",
        group: "",
        alpn: quic.alpn().map(|name| String::from_utf8_lossy(&name).into_owned()),
        resumed: false,
        chain: quic.chain().iter().map(Vec::len).collect(),
    }
}

fn socket(remote: SocketAddr) -> io::Result<Io> {
    let family = if remote.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
    // So that an ICMP message about a closed port is heard.
    rustix::net::connect(&fd, &remote)?;
    // Megabytes may come at once; what the system refuses it refuses.
    let _ = sockopt::set_socket_recv_buffer_size(&fd, 4 << 20);
    Io::new(fd)
}

/// A connection whose handshake is complete, and whose server is the right one.
async fn open(common: &Common, name: &str, remote: SocketAddr) -> Result<Rc<RefCell<State>>, Failure> {
    let failed = |error: io::Error| Failure::new(Fault::Connect, format!("HTTP/3: {error}"));
    let io = socket(remote).map_err(failed)?;
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let quic = brisk_quic::Client::begin(Instant::now(), &common.tls, remote, name)
        .map_err(|why| Failure::new(Fault::Tls, why))?;
    let settings = Settings { qpack_max_table_capacity: 0, qpack_blocked_streams: 0, ..Settings::default() };
    let config = Config { settings, ..Config::default() };
    let io = Rc::new(io);
    let state = Rc::new(RefCell::new(State {
        io: Rc::clone(&io),
        quic,
        remote,
        engine: Connection::new(Role::Client, config, 0),
        own: [None, None],
        incoming: HashMap::new(),
        outgoing: HashMap::new(),
        stage: Stage::Opening(Vec::new()),
        driver: None,
        waiting: Vec::new(),
        outbox: Outbox::default(),
        receiver: Receiver::default(),
        sink: Sink::default(),
    }));
    spawn(drive(io, Rc::downgrade(&state)));
    let opened = poll_fn(|cx| {
        let mut state = state.borrow_mut();
        match &mut state.stage {
            Stage::Opening(wakers) => {
                wakers.push(cx.waker().clone());
                Poll::Pending
            }
            Stage::Failed(failure) => Poll::Ready(Err(failure.clone())),
            Stage::Open | Stage::Leaving => Poll::Ready(Ok(())),
        }
    });
    match timeout(H3_HANDSHAKE_MAX, opened).await {
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
    /// There may be room for another stream.
    fn admit(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }

    fn kick(&mut self) {
        if let Some(waker) = self.driver.take() {
            waker.wake();
        }
    }

    /// Goes on to another stage; who waits for the end of the handshake looks again.
    fn enter(&mut self, stage: Stage) {
        if let Stage::Opening(wakers) = std::mem::replace(&mut self.stage, stage) {
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    fn fail(&mut self, failure: Failure) {
        self.incoming.values_mut().for_each(|incoming| incoming.fail(failure.clone()));
        self.enter(Stage::Failed(failure));
        self.admit();
    }

    /// The handshake is complete.
    fn established(&mut self) -> Result<(), Failure> {
        let now = clock::now().unix_secs;
        let distrusted = |why| Failure::tls(&brisk_net::TlsError::Distrust(why));
        if let Err(failure) = self.quic.check(now).map_err(distrusted) {
            self.quic.close(Instant::now(), ErrorCode::NO_ERROR.0);
            return Err(failure);
        }
        self.enter(Stage::Open);
        Ok(())
    }

    /// Sends what a request has, as far as QUIC takes it.
    fn send(&mut self, stream: u64) {
        let Some(outgoing) = self.outgoing.get_mut(&stream) else { return };
        while outgoing.at < outgoing.bytes.len() {
            match self.quic.write(stream, &outgoing.bytes[outgoing.at..]) {
                Written::Some(count) => outgoing.at += count,
                Written::Blocked => return,
                // The server has answered already, or says in another way what it wants.
                Written::Stopped(_) | Written::Gone => break,
            }
        }
        if outgoing.at == outgoing.bytes.len() {
            self.quic.finish(stream);
        }
        self.outgoing.remove(&stream);
        if let Some(incoming) = self.incoming.get_mut(&stream) {
            incoming.wake();
        }
    }

    /// Sends what our unidirectional streams have to say.
    fn send_own(&mut self) {
        for (own, id) in [Own::Control, Own::Decoder].into_iter().zip(&mut self.own) {
            let out = self.engine.own_output(own);
            if out.is_empty() {
                continue;
            }
            if id.is_none() {
                *id = self.quic.open(Dir::Uni);
            }
            let Some(stream) = *id else { continue };
            while !out.is_empty()
                && let Written::Some(count) = self.quic.write(stream, out)
            {
                out.drain(..count);
            }
        }
    }

    fn told(&mut self, event: Told) -> Result<(), Failure> {
        match event {
            Told::Established => self.established()?,
            Told::Opened(dir) => {
                while let Some(stream) = self.quic.accept(dir) {
                    self.engine.begin(stream).map_err(|error| malformed(&error))?;
                    self.read(stream)?;
                }
            }
            Told::Readable(stream) => self.read(stream)?,
            Told::Writable(stream) => self.send(stream),
            Told::Stopped(stream, _) => self.send(stream),
            Told::Closed(why) => {
                let is_open = !matches!(self.stage, Stage::Opening(_));
                return Err(ended(self.remote, is_open, &why));
            }
            Told::Finished(_) | Told::Ready | Told::Undecided | Told::Moved => {}
        }
        Ok(())
    }

    fn read(&mut self, stream: u64) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            match self.quic.read(stream, H3_READ_BYTES, &mut bytes) {
                Read::Some(_) => self.take(stream, &bytes, false)?,
                Read::End(_) => return self.take(stream, &bytes, true),
                Read::Reset(code) => {
                    let event = self.engine.peer_reset(stream, ErrorCode(code));
                    event.map_err(|error| malformed(&error))?;
                    self.end(stream, ErrorCode(code));
                    return Ok(());
                }
                Read::Blocked | Read::Gone => return Ok(()),
            }
        }
    }

    fn take(&mut self, stream: u64, mut input: &[u8], fin: bool) -> Result<(), Failure> {
        let mut sink = std::mem::take(&mut self.sink);
        loop {
            let event = self.engine.receive(stream, &mut input, fin, &mut sink);
            let Some(event) = event.map_err(|error| malformed(&error))? else { break };
            let incoming = self.incoming.get_mut(&stream);
            match (event, incoming) {
                (Event::Head { end, bytes, .. }, Some(incoming)) => {
                    if let Some(length) = incoming.head(&mut sink, end, bytes as u64) {
                        self.engine.expect(stream, Some(length));
                    }
                }
                (Event::Interim { .. }, Some(incoming)) => {
                    incoming.head(&mut sink, false, 0);
                }
                (Event::Trailers { .. }, Some(incoming)) => incoming.trailers(&mut sink),
                (Event::Data { data, end, .. }, Some(incoming)) => incoming.data(data, end),
                (Event::Mismatch { .. }, Some(incoming)) => {
                    let text = "the body is not as long as Content-Length says";
                    incoming.end(Err(Failure::new(Fault::Malformed, text)));
                }
                (Event::TooLarge { limit, .. }, Some(incoming)) => {
                    incoming.end(Err(Failure::new(Fault::Malformed, format!("the server sent {limit}"))));
                }
                (Event::Reset { code, .. }, Some(_)) => self.end(stream, code),
                (Event::GoAway { id }, _) => self.go_away(id),
                (Event::Unknown { stream }, _) => {
                    self.quic.give_up(stream, ErrorCode::STREAM_CREATION_ERROR.0);
                }
                _ => {}
            }
        }
        self.sink = sink;
        Ok(())
    }

    fn end(&mut self, stream: u64, code: ErrorCode) {
        if let Some(incoming) = self.incoming.get_mut(&stream) {
            let text = format!("the stream was reset: {}", code.name());
            incoming.end(Err(Failure::new(Fault::Reset, text)));
        }
    }

    fn go_away(&mut self, first: u64) {
        if matches!(self.stage, Stage::Open) {
            self.enter(Stage::Leaving);
        }
        let failure = Failure::new(Fault::Reset, "the server goes away");
        let lost = self.incoming.iter_mut().filter(|(stream, _)| **stream >= first);
        lost.for_each(|(_, incoming)| incoming.end(Err(failure.clone())));
    }
}

/// The server is told; what it says of it nobody hears.
impl Drop for State {
    fn drop(&mut self) {
        self.quic.close(Instant::now(), ErrorCode::NO_ERROR.0);
        flush(self);
        self.kick();
    }
}

fn malformed(error: &brisk_h3::ConnectionError) -> Failure {
    Failure::new(Fault::Malformed, error.to_string())
}

/// Receives and sends until the connection ends or nobody has it any more; then the server is told.
async fn drive(io: Rc<Io>, state: Weak<RefCell<State>>) {
    let mut alarm = pin!(None);
    poll_fn(|cx| {
        let Some(state) = state.upgrade() else { return Poll::Ready(()) };
        let mut state = state.borrow_mut();
        state.driver = Some(cx.waker().clone());
        loop {
            match turn(&io, &mut state, cx) {
                Ok(()) => {}
                Err(failure) => {
                    flush(&mut state);
                    state.fail(failure);
                    return Poll::Ready(());
                }
            }
            let Some(at) = state.quic.next_timeout() else { return Poll::Pending };
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
        if matches!(state.stage, Stage::Opening(_))
            && let Ok(Err(Errno::CONNREFUSED)) = sockopt::socket_error(io.fd())
        {
            let text = format!("HTTP/3 was not used: nothing listens on UDP {}", state.remote);
            return Err(Failure::new(Fault::Refused, text));
        }
        let now = Instant::now();
        let State { quic, receiver, .. } = &mut *state;
        let looked = receiver.receive(io.fd(), |one| quic.receive(now, Ecn::from_bits(one.ecn), one.bytes));
        let has_more = looked.map_err(|error| Failure::io(&error, false))?.has_more;
        state.quic.handle_timeout(now);
        while let Some(event) = state.quic.poll_event() {
            state.told(event)?;
        }
        // Streams may have ended, or the server may have allowed more.
        state.admit();
        flush(state);
        if has_more {
            continue;
        }
        io.mark_drained();
        if io.poll_readable(cx).is_pending() {
            return Ok(());
        }
    }
}

fn flush(state: &mut State) {
    if matches!(state.stage, Stage::Open | Stage::Leaving) {
        state.send_own();
    }
    let now = Instant::now();
    while let Some(fresh) = state.quic.poll_transmit(now) {
        let ecn = fresh.ecn.map_or(0, |ecn| ecn as u8);
        state.outbox.push(Message {
            to: state.remote,
            from: None,
            ecn,
            segment: fresh.segment,
            bytes: fresh.bytes,
        });
    }
    state.outbox.flush(state.io.fd(), |_| ());
}
