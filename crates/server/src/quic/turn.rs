//! One turn of a thread's endpoint: datagrams in, events to those who speak on connections, datagrams out.

use super::choose::{Chooser, Ticket};
use super::common::Told;
use super::parcel::{Packet, Parcel};
use super::passage::Passage;
use super::state::{App, Astray, Counted, Opening, Socket};
use crate::limits::{BEGINNING_TIME_MAX, DATAGRAM_READS_PER_TURN_MAX, HELD_TIME_MAX, QUIC_IDLE_TIME_MIN};
use crate::live::Live;
use crate::table::Thread;
use crate::tls::opening;
use brisk_host::live::log_error;
use brisk_host::log::LogLevel;
use brisk_host::thread::Listener;
use brisk_net::listen::Address;
use brisk_net::udp::Message;
use brisk_net::{Io, Loop};
use brisk_quic::limits::HANDSHAKE_TIME_MAX;
use brisk_quic::{Choice, Closed, Counters, Datagram, Ecn, Endpoint, Event, Key, Settings, route};
use brisk_tls::Session;
use std::cell::{Cell, RefCell, RefMut};
use std::future::{Future as _, poll_fn};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

/// RFC 9114 §8.1: H3_NO_ERROR.
const NO_ERROR: u64 = 0x100;
/// How long to wait for a socket that takes nothing more.
/// The kernel tells nothing when a socket of UDP has room again that is worth a registration for each.
const FULL_PAUSE: Duration = Duration::from_millis(1);
/// How often to look whether a socket that is no longer listened on has connections still.
const GONE_PAUSE: Duration = Duration::from_secs(1);

/// A socket's number for packets that came by none of this thread.
const NOWHERE: u32 = u32::MAX;

/// Takes what waits on a listener's socket; true if there is more.
/// It is called by the driver of listening sockets, once per wake-up.
pub(crate) fn receive(thread: &Rc<Thread>, listener: &Rc<Listener>) -> bool {
    socket_of(thread, listener).is_some_and(|socket| receive_from(thread, &socket))
}

fn receive_from(thread: &Rc<Thread>, socket: &Socket) -> bool {
    let Some(listening) = socket.listening() else { return false };
    if let Some(endpoint) = &mut *thread.quic.endpoint.borrow_mut() {
        // Connections that are there go on when memory is short.
        // A new connection takes memory for its handshake, before anybody knows who it is.
        endpoint.set_room(!thread.shared.budget.is_full());
    }
    // Taken out: what is called for each datagram may use the thread.
    let mut receiver = thread.quic.receiver.take();
    let mut has_more = true;
    for _ in 0..DATAGRAM_READS_PER_TURN_MAX {
        let now = Instant::now();
        let each = |one: brisk_net::udp::Received<'_>| {
            let packet = Packet {
                listening,
                remote: one.from,
                // The address that the client has sent to: an answer from another one would be dropped by its
                // kernel.
                local: one.to.map(|ip| SocketAddr::new(ip, listening.port())),
                ecn: Ecn::from_bits(one.ecn),
                bytes: one.bytes,
            };
            sort(thread, now, Some(socket), &packet, Reach::Server);
        };
        match receiver.receive(socket.io.fd(), each) {
            Ok(looked) => {
                // The kernel's count since the socket was opened, so it is set and not added.
                if let Some(dropped) = looked.dropped {
                    socket.dropped.set(dropped);
                }
                has_more = looked.has_more;
            }
            Err(error) => {
                let why = brisk_conf::os_text(&error);
                let text = format_args!("recvmmsg() on {} failed ({why})", socket.listener.address);
                log_error(&thread.live().base, LogLevel::Crit, text);
                has_more = false;
            }
        }
        if !has_more {
            break;
        }
    }
    thread.quic.receiver.replace(receiver);
    // Others are woken with what belongs to them before this thread goes on.
    deliver(thread);
    has_more
}

/// How far a packet may be sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// It has come from the network.
    Server,
    /// It has come from another worker.
    Worker,
    /// It would have gone to another worker, which has ended.
    Ended,
    /// It has come from another thread.
    Thread,
}

/// Gives a packet to whom it belongs: this thread's endpoint, another thread, another worker. The kernel has routed most of
/// them rightly; those of one batch need not have the same connection.
fn sort(thread: &Rc<Thread>, now: Instant, socket: Option<&Socket>, packet: &Packet<'_>, reach: Reach) {
    // What is too short to have a destination is nothing.
    let Some(route) = route(packet.bytes) else { return };
    let common = &thread.shared.quic;
    // From another worker it has come this far because it is this one's; it is never sent back.
    if reach == Reach::Server
        && let (Some(passage), Some(keys)) = (common.passage(), common.keys())
        && let Some(worker) = passage.destination(&route, keys.cid())
    {
        return stray(thread, packet, |astray| astray.workers.entry(worker).or_default());
    }
    // A connection ID names its thread. A first packet has one that the client has drawn, and comes to where
    // the kernel has put it.
    let target = route.thread(thread.shared.loads.len());
    if reach != Reach::Thread && target != thread.index {
        return stray(thread, packet, |astray| astray.threads.entry(target).or_default());
    }
    // This worker takes nothing new. A client that it has sent a Retry answers to an ID of this worker: the next one has the keys of its token.
    if thread.is_draining() && begins(thread, packet.bytes) {
        return match common.passage().and_then(Passage::successor) {
            Some(worker) if reach != Reach::Ended => {
                stray(thread, packet, |astray| astray.workers.entry(worker).or_default());
            }
            // Not known yet: the next one has not begun, or has ended at once.
            _ => hold(thread, now, packet),
        };
    }
    // A configuration that listens on the address again has a socket of its own there. As long as connections hold the old one, the
    // kernel gives both the packets of new ones.
    // A connection keeps the socket that it began with, since its clients know that address.
    let number = match socket.filter(|socket| !socket.is_gone.get()) {
        Some(live) => live.number,
        None => socket_at(thread, packet.listening).as_deref().or(socket).map_or(NOWHERE, |one| one.number),
    };
    let Packet { remote, local, ecn, bytes, .. } = *packet;
    if let Some(endpoint) = endpoint(thread).as_mut() {
        endpoint.receive(now, Datagram { socket: number, remote, local, ecn, bytes });
    }
}

/// Whether a packet may begin a connection: none that this thread has is meant.
fn begins(thread: &Thread, bytes: &[u8]) -> bool {
    let endpoint = thread.quic.endpoint.borrow();
    endpoint
        .as_ref()
        .map_or_else(|| route(bytes).is_some_and(|route| route.is_long), |endpoint| endpoint.may_begin(bytes))
}

/// Puts a packet into a parcel; one that has no room for it leaves first.
fn stray(thread: &Rc<Thread>, packet: &Packet<'_>, parcel: impl Fn(&mut Astray) -> &mut Parcel) {
    let put = || parcel(&mut thread.quic.astray.borrow_mut()).push(packet);
    if !put() {
        deliver(thread);
        // What is more than a whole parcel is lost, as by a network: clients are told to send far less.
        let _ = put();
    }
}

/// Keeps a packet that would begin a connection until a successor tells that it is there. Otherwise it would be lost, and the client,
/// which knows no round-trip time yet, would send it again after a second. What is more than a parcel is lost.
fn hold(thread: &Rc<Thread>, now: Instant, packet: &Packet<'_>) {
    let mut astray = thread.quic.astray.borrow_mut();
    let is_old = |since: &Instant| now.saturating_duration_since(*since) > HELD_TIME_MAX;
    if astray.held.as_ref().is_some_and(|(since, _)| is_old(since)) {
        astray.held = None;
    }
    let (_, parcel) = astray.held.get_or_insert_with(|| (now, Parcel::default()));
    let _ = parcel.push(packet);
}

/// There is a successor: what was kept is its.
pub(super) fn hand_on(thread: &Rc<Thread>) {
    let held = thread.quic.astray.borrow_mut().held.take();
    let now = Instant::now();
    if let Some((_, parcel)) =
        held.filter(|(since, _)| now.saturating_duration_since(*since) <= HELD_TIME_MAX)
    {
        parcel.packets().for_each(|packet| sort(thread, now, None, &packet, Reach::Server));
        deliver(thread);
    }
}

/// Sends on what was found to be others'.
fn deliver(thread: &Rc<Thread>) {
    let (workers, common) =
        (std::mem::take(&mut thread.quic.astray.borrow_mut().workers), &thread.shared.quic);
    for (worker, parcel) in workers {
        if !common.passage().is_some_and(|passage| passage.pass(worker, &parcel)) {
            // It has ended: its clients get stateless resets, and new ones are served here.
            // Its key is the master's, so the resets are right (RFC 9000 §10.3).
            let now = Instant::now();
            parcel.packets().for_each(|packet| sort(thread, now, None, &packet, Reach::Ended));
        }
    }
    let threads = std::mem::take(&mut thread.quic.astray.borrow_mut().threads);
    for (target, parcel) in threads {
        let Some(mailbox) = thread.shared.mailboxes.get(target).and_then(|mailbox| mailbox.get()) else {
            // A thread that has ended: its packets are lost, as by a network.
            continue;
        };
        mailbox.call(move || {
            if let Some(thread) = Thread::current() {
                let now = Instant::now();
                parcel.packets().for_each(|packet| sort(&thread, now, None, &packet, Reach::Thread));
                deliver(&thread);
            }
        });
    }
}

/// Takes packets that another worker has sent on.
pub(super) fn take_parcel(thread: &Rc<Thread>, parcel: &Parcel) {
    let now = Instant::now();
    parcel.packets().for_each(|packet| sort(thread, now, None, &packet, Reach::Worker));
    deliver(thread);
}

/// The thread's endpoint, made when it is needed first.
/// Not every thread of every server speaks QUIC.
fn endpoint(thread: &Rc<Thread>) -> RefMut<'_, Option<Endpoint>> {
    let mut endpoint = thread.quic.endpoint.borrow_mut();
    if endpoint.is_none()
        && let Some(keys) = thread.shared.quic.keys()
    {
        let place = thread.shared.quic.place(thread.index, thread.shared.loads.len());
        *endpoint = Some(Endpoint::new(place, keys.clone(), Arc::new(Chooser)));
    }
    endpoint
}

/// The thread's socket that listens on an address; `None`: it has none there.
fn socket_at(thread: &Rc<Thread>, address: SocketAddr) -> Option<Rc<Socket>> {
    let is_there = |listener: &Listener| matches!(listener.address, Address::Quic(ip, _) if ip == address);
    let is_live = |socket: &&Rc<Socket>| !socket.is_gone.get() && is_there(&socket.listener);
    let found = thread.quic.sockets.borrow().iter().find(is_live).cloned();
    if found.is_some() {
        return found;
    }
    let listener = thread.host.listeners.borrow().iter().find(|one| is_there(one)).cloned()?;
    socket_of(thread, &listener)
}

/// The thread's own view of a listening socket, made when the first datagram comes.
fn socket_of(thread: &Rc<Thread>, listener: &Rc<Listener>) -> Option<Rc<Socket>> {
    let found = thread.quic.sockets.borrow().iter().find(|one| Rc::ptr_eq(&one.listener, listener)).cloned();
    if found.is_some() {
        return found;
    }
    // A copy, so that a connection can send when the listener has closed its own.
    let fd = listener.with_io(|io| rustix::io::fcntl_dupfd_cloexec(io.fd(), 3)).and_then(Result::ok)?;
    let number = thread.quic.next_socket.get();
    thread.quic.next_socket.set(number + 1);
    let socket = Rc::new(Socket {
        number,
        listener: listener.clone(),
        io: Io::local(fd),
        outbox: RefCell::default(),
        dropped: Cell::new(0),
        is_gone: Cell::new(false),
    });
    thread.quic.sockets.borrow_mut().push(socket.clone());
    if let Some(endpoint) = endpoint(thread).as_mut()
        // One that drains takes nothing new.
        && !thread.is_draining()
    {
        endpoint.listen(number, settings(&thread.live(), listener));
    }
    Some(socket)
}

/// What the default server of a socket says.
fn settings(live: &Live, listener: &Listener) -> Settings {
    let Some(core) = live.default_core(listener) else { return Settings::default() };
    Settings {
        streams: core.http3.max_concurrent_streams,
        stream_window: core.http3.stream_buffer_size,
        // Sessions end idle connections themselves; here it is about clients that are gone.
        idle: core.keepalive_timeout.max(QUIC_IDLE_TIME_MIN),
        handshake: core.client_header_timeout.min(HANDSHAKE_TIME_MAX),
        retry: core.http3.retry,
        gso: core.http3.gso,
    }
}

/// Another configuration is live: new connections follow it.
pub(crate) fn switched(thread: &Rc<Thread>, gone: &[Rc<Listener>]) {
    let live = thread.live();
    let sockets = thread.quic.sockets.borrow().clone();
    for socket in sockets.iter().filter(|socket| !socket.is_gone.get()) {
        let mut borrowed = thread.quic.endpoint.borrow_mut();
        // Nothing was ever received: there is no endpoint to be told.
        let Some(endpoint) = borrowed.as_mut() else { return };
        if gone.iter().any(|listener| Rc::ptr_eq(listener, &socket.listener)) {
            // Connections that it has go on, and those begin that have asked for it; only new ones are refused.
            let now = Instant::now();
            while endpoint.begin(now) {}
            endpoint.unlisten(socket.number);
            socket.is_gone.set(true);
            // A task's first turn is at once.
            drop(borrowed);
            brisk_net::spawn(read_on(thread.clone(), socket.clone()));
        } else {
            endpoint.listen(socket.number, settings(&live, &socket.listener));
        }
    }
}

/// Receives for the connections of a socket that is no longer listened on, until the last of them has ended.
async fn read_on(thread: Rc<Thread>, socket: Rc<Socket>) {
    loop {
        let mut pause = pin!(brisk_net::sleep(GONE_PAUSE));
        poll_fn(|cx| {
            let is_due = socket.io.poll_readable(cx).is_ready() || pause.as_mut().poll(cx).is_ready();
            if is_due { Poll::Ready(()) } else { Poll::Pending }
        })
        // A second at most, so that the end of the last connection is noticed.
        .await;
        if !receive_from(&thread, &socket) {
            socket.io.mark_drained();
        }
        let is_used =
            thread.quic.endpoint.borrow().as_ref().is_some_and(|endpoint| endpoint.uses(socket.number));
        if !is_used {
            // Closed with the last reference: a stale one would keep its place among those that the kernel routes to.
            thread.quic.sockets.borrow_mut().retain(|other| !Rc::ptr_eq(other, &socket));
            return;
        }
        brisk_net::one_turn().await;
    }
}

/// New connections are another process's, or nobody's. Those that are there are served to their end: what belongs to them comes by the
/// sockets still, or from the worker that has them now.
pub(crate) fn drain(thread: &Rc<Thread>) {
    // What has come and not begun yet is a successor's.
    let mut parcel = Parcel::default();
    if let Some(endpoint) = &mut *thread.quic.endpoint.borrow_mut() {
        let sockets = thread.quic.sockets.borrow();
        sockets.iter().for_each(|socket| endpoint.unlisten(socket.number));
        endpoint.give_back(|datagram| {
            let socket = sockets.iter().find(|socket| socket.number == datagram.socket);
            if let Some(listening) = socket.and_then(|socket| socket.listening()) {
                let Datagram { remote, local, ecn, bytes, .. } = datagram;
                // More than a parcel is lost, as by a network.
                let _ = parcel.push(&Packet { listening, remote, local, ecn, bytes });
            }
        });
    }
    let now = Instant::now();
    parcel.packets().for_each(|packet| sort(thread, now, None, &packet, Reach::Server));
    deliver(thread);
    // Those that never became a session have nothing that could be finished.
    let without_session = |(key, (app, _)): (&Key, &(Rc<dyn App>, Counted))| {
        app.connection().session().is_none().then_some(*key)
    };
    // Collected first: closing changes the list.
    let keys: Vec<Key> = thread.quic.apps.borrow().iter().filter_map(without_session).collect();
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
        // No open connection has work: new ones begin in this turn.
        if endpoint.has_firsts() && !endpoint.has_events() && !endpoint.has_more() {
            begin(endpoint);
        }
        endpoint.has_events()
    };
    if is_used {
        // All that was received is in the events that follow, so file events that are drained now cover it.
        thread.files.must_confirm();
    }
    let mut last = None;
    // Until there is none: what an application does in here makes more of them.
    loop {
        let next = thread.quic.endpoint.borrow_mut().as_mut().and_then(Endpoint::poll_event);
        let Some((key, event)) = next else { return };
        if last.replace(key) != Some(key) {
            note_traffic(thread, key);
        }
        // One client's connection must not end the thread.
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
            if let Some((app, _counted)) = app {
                app.event(event);
            }
        }
        event => {
            // What the server knows of the connection is brought up to date before its application hears of
            // it.
            match event {
                Event::Established => complete(thread, key),
                Event::Moved => moved(thread, key),
                _ => {}
            }
            if let Some(app) = app(thread, key) {
                app.event(event);
            }
        }
    }
}

/// Who speaks on a connection.
fn app(thread: &Thread, key: Key) -> Option<Rc<dyn App>> {
    thread.quic.apps.borrow().get(&key).map(|(app, _)| app.clone())
}

/// Heads may occupy a multiple of what has come, and connections on which little moves are closed first when memory is short.
// Once for all events of a connection that follow each other.
fn note_traffic(thread: &Thread, key: Key) {
    let apps = thread.quic.apps.borrow();
    let Some((app, _)) = apps.get(&key) else { return };
    if let Some((received, sent, _)) = thread.quic.with(key, |quic| quic.traffic()) {
        app.connection().io.set_moved(received, sent);
    }
}

/// The client has another address, which is validated: from now on requests come from there.
fn moved(thread: &Rc<Thread>, key: Key) {
    let Some(app) = app(thread, key) else { return };
    let Some(remote) = thread.quic.with(key, |quic| quic.remote()) else { return };
    let conn = app.connection();
    let text = format_args!("client has moved to {remote}");
    crate::log::connection(&thread.live(), conn, LogLevel::Info, text);
    if !conn.move_to(remote) {
        // The application is told: `close` drops it without a word.
        app.clone().event(Event::Closed(Closed::TimedOut));
        close(thread, key, NO_ERROR, "too many addresses");
    }
}

/// Requests that come from now on are no replays.
fn complete(thread: &Thread, key: Key) {
    if let Some(app) = app(thread, key) {
        // Early data (RFC 9001 §9.2) ends here; `early_data` is asked by requests until now.
        let agreed = thread.quic.with(key, |quic| quic.agreed()).flatten();
        app.connection().io.complete_handshake(agreed);
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
    let Some(Opening { conn, load: Some(load), counted }) = opening(thread, key) else { return };
    let thread = thread.clone();
    brisk_net::spawn(async move {
        let live = thread.live();
        let choice = match opening::finish_quic(&live, &conn, load).await {
            Ok(context) => {
                let id = conn.id;
                thread.quic.openings.borrow_mut().insert(id, Opening { conn, load: None, counted });
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
    let Some(Opening { conn, counted, .. }) = opening(thread, key) else { return };
    let known = thread.quic.with(key, |quic| (quic.agreed(), quic.is_early()));
    let Some((Some(agreed), is_early)) = known else { return };
    let alpn = agreed.alpn.clone().unwrap_or_default();
    // The session was made by QUIC; from here on it is asked as any other's.
    conn.io.start_tls(Session::of_quic(agreed, is_early), Vec::new());
    let Some(app) = super::begin(thread, key, &conn, &alpn) else {
        close(thread, key, 0, "no such protocol");
        return;
    };
    // Counted when it can be used: a handshake that fails is none of them.
    thread.arrivals().accepted.up();
    thread.arrivals().handled.up();
    thread.quic.apps.borrow_mut().insert(key, (app, counted));
}

/// Ends a connection; its application is told nothing.
pub(crate) fn close(thread: &Thread, key: Key, code: u64, reason: &str) {
    let app = thread.quic.apps.borrow_mut().remove(&key);
    drop(app);
    thread.quic.with(key, |quic| quic.close(Instant::now(), code, reason));
}

/// Sends what connections have to say, and says when to come back.
pub(crate) fn transmit(thread: &Rc<Thread>) {
    // Borrowed for all of it: nothing in here tells an application.
    let mut endpoint = thread.quic.endpoint.borrow_mut();
    let Some(endpoint) = endpoint.as_mut() else { return };
    let sockets = thread.quic.sockets.borrow();
    let now = Instant::now();
    let waits = |socket: &Rc<Socket>| !socket.outbox.borrow().is_empty();
    // What a socket has not taken leaves before anything is made: then it is as fresh as can be.
    let mut goes_on = !sockets.iter().any(waits);
    let mut has_begun = false;
    loop {
        goes_on = goes_on && fill(endpoint, &sockets, now);
        for socket in &*sockets {
            // Several datagrams per call, as far as sockets take them (`quic_gso`).
            socket.outbox.borrow_mut().flush(socket.io.fd(), |bytes| endpoint.recycle(bytes));
        }
        if sockets.iter().any(waits) {
            break;
        }
        if !goes_on {
            // All open connections have sent their packets.
            if has_begun || !begin(endpoint) {
                break;
            }
            (has_begun, goes_on) = (true, true);
        }
    }
    tell(thread, endpoint, &sockets);
    let home = Loop::current();
    let wait = if sockets.iter().any(waits) {
        Some(FULL_PAUSE)
    // A bound has ended the loop of the endpoint: others have their turn first. What has begun may want a certificate.
    } else if endpoint.has_more() || endpoint.has_firsts() || endpoint.has_events() {
        Some(Duration::ZERO)
    } else {
        // Sending has taken its time: batches would be late by that.
        endpoint.next_timeout().map(|at| at.saturating_duration_since(Instant::now()))
    };
    home.wake_within(wait);
}

/// Lets connections begin, for a bounded time. True if there was any that wanted to.
fn begin(endpoint: &mut Endpoint) -> bool {
    let begun = Instant::now();
    let mut now = begun;
    let mut has_any = false;
    while now.saturating_duration_since(begun) < BEGINNING_TIME_MAX && endpoint.begin(now) {
        has_any = true;
        now = Instant::now();
    }
    has_any
}

/// Takes from connections what they have to send. True if an outbox was full before all had been asked: thousands of connections
/// must not hold all their messages at the same time.
fn fill(endpoint: &mut Endpoint, sockets: &[Rc<Socket>], now: Instant) -> bool {
    while let Some(transmit) = endpoint.poll_transmit(now) {
        // The socket was closed: its connection ends by its time-out.
        let Some(socket) = sockets.iter().find(|socket| socket.number == transmit.socket) else {
            endpoint.recycle(transmit.bytes);
            continue;
        };
        let mut outbox = socket.outbox.borrow_mut();
        outbox.push(Message {
            to: transmit.to,
            from: transmit.from,
            ecn: transmit.ecn.map_or(0, |ecn| ecn as u8),
            segment: transmit.segment,
            bytes: transmit.bytes,
        });
        if outbox.is_full() {
            return true;
        }
    }
    false
}

/// Tells what was counted, for metrics.
fn tell(thread: &Thread, endpoint: &mut Endpoint, sockets: &[Rc<Socket>]) {
    // Most turns have nothing to tell, and take no lock then.
    let fresh = endpoint.take_counters();
    if fresh == Counters::default() {
        return;
    }
    let mut counters = thread.quic.counters.get();
    counters += fresh;
    thread.quic.counters.set(counters);
    let told = Told {
        counters,
        half_open: endpoint.half_open() as u64,
        dropped: sockets.iter().map(|socket| u64::from(socket.dropped.get())).sum(),
        unsent: sockets.iter().map(|socket| socket.outbox.borrow().dropped()).sum(),
    };
    thread.shared.quic.tell(thread.index, told);
}
