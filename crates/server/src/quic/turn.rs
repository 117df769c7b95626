//! One turn of a thread's endpoint: datagrams in, events to those who speak on connections, datagrams out.

use super::choose::{Chooser, Ticket};
use super::secret;
use super::state::{Opening, Socket};
use crate::limits::DATAGRAM_READS_PER_TURN_MAX;
use crate::live::Live;
use crate::table::Thread;
use crate::tls::opening;
use brisk_host::live::log_error;
use brisk_host::log::LogLevel;
use brisk_host::thread::Listener;
use brisk_net::listen;
use brisk_net::udp::Message;
use brisk_net::{Io, Loop};
use brisk_quic::{Choice, Datagram, Ecn, Endpoint, Event, Key, Keys, Place, Settings};
use brisk_tls::Session;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// RFC 9114 §8.1: H3_NO_ERROR.
const NO_ERROR: u64 = 0x100;
/// How long to wait for a socket that takes nothing more.
const FULL_PAUSE: Duration = Duration::from_millis(1);

/// Takes what waits on a socket; true if there is more.
pub(crate) fn receive(thread: &Rc<Thread>, listener: &Rc<Listener>) -> bool {
    let Some(socket) = socket_of(thread, listener) else { return false };
    let mut receiver = thread.quic.receiver.take();
    let mut has_more = true;
    for _ in 0..DATAGRAM_READS_PER_TURN_MAX {
        let now = Instant::now();
        let port = listen::local_ip(socket.io.fd()).map_or(0, |local| local.port());
        let each = |one: brisk_net::udp::Received<'_>| {
            let datagram = Datagram {
                socket: socket.number,
                remote: one.from,
                local: one.to.map(|ip| SocketAddr::new(ip, port)),
                ecn: Ecn::from_bits(one.ecn),
                bytes: one.bytes,
            };
            if let Some(endpoint) = &mut *thread.quic.endpoint.borrow_mut() {
                endpoint.receive(now, datagram);
            }
        };
        match receiver.receive(socket.io.fd(), each) {
            Ok(looked) => {
                if let Some(dropped) = looked.dropped {
                    socket.dropped.set(dropped);
                }
                has_more = looked.has_more;
            }
            Err(error) => {
                let why = brisk_conf::os_text(&error);
                let text = format_args!("recvmmsg() on {} failed ({why})", listener.address);
                log_error(&thread.live().base, LogLevel::Crit, text);
                has_more = false;
            }
        }
        if !has_more {
            break;
        }
    }
    thread.quic.receiver.replace(receiver);
    has_more
}

/// The thread's own view of a listening socket, made when the first datagram comes.
fn socket_of(thread: &Rc<Thread>, listener: &Rc<Listener>) -> Option<Rc<Socket>> {
    let found = thread.quic.sockets.borrow().iter().find(|one| Rc::ptr_eq(&one.listener, listener)).cloned();
    if found.is_some() {
        return found;
    }
    let fd = listener.with_io(|io| rustix::io::fcntl_dupfd_cloexec(io.fd(), 3)).and_then(Result::ok)?;
    let number = thread.quic.next_socket.get();
    thread.quic.next_socket.set(number + 1);
    let socket = Rc::new(Socket {
        number,
        listener: listener.clone(),
        io: Io::local(fd),
        outbox: RefCell::default(),
        dropped: Cell::new(0),
    });
    thread.quic.sockets.borrow_mut().push(socket.clone());
    let mut endpoint = thread.quic.endpoint.borrow_mut();
    let endpoint = endpoint.get_or_insert_with(|| {
        let place = Place {
            thread: thread.index,
            threads: thread.shared.loads.len(),
            generation: thread.live().generation as u8,
        };
        Endpoint::new(place, Keys::new(secret::drawn()), Arc::new(Chooser))
    });
    endpoint.listen(number, settings(&thread.live(), listener));
    Some(socket)
}

/// What the default server of a socket says.
fn settings(live: &Live, listener: &Listener) -> Settings {
    let mut settings = Settings::default();
    if let Some(core) = live.default_core(listener) {
        // None would be without end in QUIC.
        settings.idle = core.keepalive_timeout.max(Duration::from_secs(1));
    }
    settings
}

/// Another configuration is live: new connections follow it.
pub(crate) fn switched(thread: &Rc<Thread>, gone: &[Rc<Listener>]) {
    let live = thread.live();
    let mut endpoint = thread.quic.endpoint.borrow_mut();
    let Some(endpoint) = endpoint.as_mut() else { return };
    for socket in &*thread.quic.sockets.borrow() {
        if gone.iter().any(|listener| Rc::ptr_eq(listener, &socket.listener)) {
            endpoint.unlisten(socket.number);
        } else {
            endpoint.listen(socket.number, settings(&live, &socket.listener));
        }
    }
}

/// Nothing is received any more, so connections end: clients come back to the process that has the sockets now.
pub(crate) fn drain(thread: &Thread) {
    let keys: Vec<Key> = thread.quic.apps.borrow().keys().copied().collect();
    keys.into_iter().for_each(|key| close(thread, key, NO_ERROR, "the server is restarting"));
}

/// Does what is due, and passes events on.
pub(crate) fn events(thread: &Rc<Thread>) {
    let is_used = {
        let mut endpoint = thread.quic.endpoint.borrow_mut();
        let Some(endpoint) = endpoint.as_mut() else { return };
        if endpoint.next_timeout().is_some() {
            endpoint.handle_timeouts(Instant::now());
        }
        endpoint.has_events()
    };
    if is_used {
        // All that was received is in the events that follow, so file events that are drained now cover it.
        thread.files.must_confirm();
    }
    loop {
        let next = thread.quic.endpoint.borrow_mut().as_mut().and_then(Endpoint::poll_event);
        let Some((key, event)) = next else { return };
        if catch_unwind(AssertUnwindSafe(|| event_of(thread, key, event))).is_err() {
            log_error(
                &thread.live().base,
                LogLevel::Alert,
                format_args!("a connection of QUIC has panicked"),
            );
            if let Some(endpoint) = &mut *thread.quic.endpoint.borrow_mut() {
                endpoint.kill(key);
            }
        }
    }
}

fn event_of(thread: &Rc<Thread>, key: Key, event: Event) {
    match event {
        Event::Undecided => load(thread, key),
        Event::Ready => ready(thread, key),
        Event::Closed(_) => {
            let app = thread.quic.apps.borrow_mut().remove(&key);
            if let Some(app) = app {
                app.event(event);
                thread.uncount();
            }
        }
        event => {
            if event == Event::Established {
                complete(thread, key);
            }
            let app = thread.quic.apps.borrow().get(&key).cloned();
            if let Some(app) = app {
                app.event(event);
            }
        }
    }
}

/// Requests that come from now on are no replays.
fn complete(thread: &Thread, key: Key) {
    let apps = thread.quic.apps.borrow();
    if let Some(app) = apps.get(&key) {
        app.connection().io.complete_handshake();
    }
}

/// What the chooser has left for a connection.
fn opening(thread: &Thread, key: Key) -> Option<Opening> {
    let kept = thread.quic.with(key, brisk_quic::Connection::take_kept)??;
    let ticket = kept.downcast::<Ticket>().ok()?;
    thread.quic.openings.borrow_mut().remove(&ticket.0)
}

/// A handshake waits for certificates.
fn load(thread: &Rc<Thread>, key: Key) {
    let Some(Opening { conn, load: Some(load) }) = opening(thread, key) else { return };
    let thread = thread.clone();
    brisk_net::spawn(async move {
        let live = thread.live();
        let choice = match opening::finish_quic(&live, &conn, load).await {
            Ok(context) => {
                let id = conn.id;
                thread.quic.openings.borrow_mut().insert(id, Opening { conn, load: None });
                Choice::Begin(context, Box::new(Ticket(id)))
            }
            Err(wrong) => Choice::Refuse(wrong),
        };
        if let Some(endpoint) = &mut *thread.quic.endpoint.borrow_mut() {
            endpoint.decide(Instant::now(), key, choice);
        }
    });
}

/// A connection may be used from now on.
fn ready(thread: &Rc<Thread>, key: Key) {
    let Some(Opening { conn, .. }) = opening(thread, key) else { return };
    let known = thread.quic.with(key, |quic| (quic.agreed(), quic.is_early()));
    let Some((Some(agreed), is_early)) = known else { return };
    let alpn = agreed.alpn.clone().unwrap_or_default();
    conn.io.start_tls(Session::of_quic(agreed, is_early), Vec::new());
    let Some(app) = super::begin(thread, key, &conn, &alpn) else {
        close(thread, key, 0, "no such protocol");
        return;
    };
    thread.count();
    thread.arrivals().accepted.up();
    thread.arrivals().handled.up();
    thread.quic.apps.borrow_mut().insert(key, app);
}

/// Ends a connection; its application is told nothing.
pub(crate) fn close(thread: &Thread, key: Key, code: u64, reason: &str) {
    let app = thread.quic.apps.borrow_mut().remove(&key);
    if app.is_some() {
        thread.uncount();
    }
    thread.quic.with(key, |quic| quic.close(Instant::now(), code, reason));
}

/// Sends what connections have to say, and says when to come back.
pub(crate) fn transmit(thread: &Rc<Thread>) {
    let mut endpoint = thread.quic.endpoint.borrow_mut();
    let Some(endpoint) = endpoint.as_mut() else { return };
    let sockets = thread.quic.sockets.borrow();
    let now = Instant::now();
    let is_full = |socket: &&Rc<Socket>| !socket.outbox.borrow().is_empty();
    if !sockets.iter().any(|socket| is_full(&socket)) {
        while let Some(transmit) = endpoint.poll_transmit(now) {
            let Some(socket) = sockets.iter().find(|socket| socket.number == transmit.socket) else {
                continue;
            };
            socket.outbox.borrow_mut().push(Message {
                to: transmit.to,
                from: transmit.from,
                ecn: transmit.ecn.map_or(0, |ecn| ecn as u8),
                segment: transmit.segment,
                bytes: transmit.bytes,
            });
        }
    }
    for socket in &*sockets {
        socket.outbox.borrow_mut().flush(socket.io.fd(), |bytes| endpoint.recycle(bytes));
    }
    let home = Loop::current();
    let wait = if sockets.iter().any(|socket| is_full(&socket)) {
        Some(FULL_PAUSE)
    } else if endpoint.has_more() {
        Some(Duration::ZERO)
    } else {
        endpoint.next_timeout().map(|at| at.saturating_duration_since(now))
    };
    home.wake_within(wait);
}
