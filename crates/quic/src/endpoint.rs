//! All connections of one thread.

use crate::cid::{Generator, Place, route};
use crate::connection::Connection;
use crate::counters::Counters;
use crate::event::{Closed, Event, Key};
use crate::firsts::Firsts;
use crate::keys::Keys;
use crate::limits::{
    HALF_OPEN_MAX, HALF_OPEN_RETRY, INCOMING_BYTES_MAX, INCOMING_MAX, PAYLOAD_BYTES_MAX, SENDS_PER_TURN_MAX,
    SPARE_BUFFERS_MAX, STREAMS_AT_FIRST,
};
use crate::resets::Resets;
use crate::settings::{Retry, Settings};
use crate::timers::Timers;
use brisk_tls::quic::{Choice, Choose, Handshake, Origin};
use bytes::BytesMut;
use quinn_proto::{
    ConnectionEvent, ConnectionHandle, DatagramEvent, EcnCodepoint, EndpointConfig, EndpointEvent, Incoming,
    ServerConfig, TransportConfig, ValidationTokenConfig,
};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A datagram that has come.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The socket, as in [`Endpoint::listen`].
    pub socket: u32,
    /// The sender.
    pub remote: SocketAddr,
    /// The address that it was sent to, if the system tells it.
    pub local: Option<SocketAddr>,
    /// The packet's congestion mark.
    pub ecn: Option<EcnCodepoint>,
    /// UDP's payload.
    pub bytes: &'a [u8],
}

/// Datagrams to be sent, all to one address.
#[derive(Debug)]
pub struct Transmit {
    /// The socket, as in [`Endpoint::listen`].
    pub socket: u32,
    /// Where to.
    pub to: SocketAddr,
    /// The address to send from; `None`: the system's choice.
    pub from: Option<IpAddr>,
    /// The congestion mark that it is to bear.
    pub ecn: Option<EcnCodepoint>,
    /// The bytes are several datagrams of this size, of which the last may be smaller; `None`: one.
    pub segment: Option<usize>,
    /// UDP's payload. To be given back with [`Endpoint::recycle`].
    pub bytes: Vec<u8>,
}

struct Slot {
    serial: u32,
    connection: Option<Box<Connection>>,
}

/// What is configured for a socket, and what the library makes of it.
struct Listener {
    settings: Settings,
    transport: Arc<TransportConfig>,
    /// For clients on this machine.
    local: Arc<TransportConfig>,
}

/// See the module's head.
pub struct Endpoint {
    inner: quinn_proto::Endpoint,
    keys: Keys,
    place: Place,
    choose: Arc<dyn Choose>,
    listeners: BTreeMap<u32, Listener>,
    /// By the library's handles, which it gives again.
    slots: Vec<Slot>,
    timers: Timers,
    /// Connections that may have something to send.
    touched: VecDeque<Key>,
    /// Those of them that have used up their turn.
    later: VecDeque<Key>,
    /// Connections with events.
    eventful: VecDeque<Key>,
    /// Events of connections that are gone.
    last: VecDeque<(Key, Event)>,
    responses: VecDeque<Transmit>,
    firsts: Firsts,
    resets: Resets,
    half_open: usize,
    /// Handshakes in the order in which they began, with the time when they are given up. Of those that are over or complete
    /// the front is cleared.
    handshakes: VecDeque<(Instant, Key)>,
    /// Whether there is memory for new connections.
    has_room: bool,
    spare: Vec<Vec<u8>>,
    counters: Counters,
}

impl Endpoint {
    /// Without connections. `choose` decides about their handshakes.
    pub fn new(place: Place, keys: Keys, choose: Arc<dyn Choose>) -> Endpoint {
        Endpoint {
            inner: inner(place, &keys, &choose),
            keys,
            place,
            choose,
            listeners: BTreeMap::new(),
            slots: Vec::new(),
            timers: Timers::default(),
            touched: VecDeque::new(),
            later: VecDeque::new(),
            eventful: VecDeque::new(),
            last: VecDeque::new(),
            responses: VecDeque::new(),
            firsts: Firsts::default(),
            resets: Resets::default(),
            half_open: 0,
            handshakes: VecDeque::new(),
            has_room: true,
            spare: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// From now on connections are accepted on this socket, by these settings. Those that are there keep theirs.
    pub fn listen(&mut self, socket: u32, settings: Settings) {
        let [transport, local] = [false, true].map(|is_local| settings.transport(is_local));
        self.listeners.insert(socket, Listener { settings, transport, local });
    }

    /// No connection is accepted on this socket any more.
    pub fn unlisten(&mut self, socket: u32) {
        self.listeners.remove(&socket);
    }

    /// Whether new connections are let in: not while memory is short. Clients try again.
    pub fn set_room(&mut self, has_room: bool) {
        self.has_room = has_room;
    }

    /// Handshakes under way.
    pub fn half_open(&self) -> usize {
        self.half_open
    }

    /// Connections, those included that are closed and wait for late packets (RFC 9000 §10.2).
    pub fn connections(&self) -> usize {
        self.inner.open_connections()
    }

    /// Whether a connection has come by this socket. It looks at all of them.
    pub fn uses(&self, socket: u32) -> bool {
        self.slots.iter().filter_map(|slot| slot.connection.as_ref()).any(|one| one.socket == socket)
    }

    /// See [`Counters`].
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes what was counted since the last call.
    pub fn take_counters(&mut self) -> Counters {
        std::mem::take(&mut self.counters)
    }

    /// A connection to be worked on; `None` if it is over.
    pub fn connection(&mut self, key: Key) -> Option<&mut Connection> {
        self.touch(key);
        self.find(key).filter(|connection| !connection.is_over())
    }

    /// All connections that are not over.
    pub fn keys(&self) -> Vec<Key> {
        let slots = self.slots.iter().zip(0..);
        let key = |(slot, index): (&Slot, u32)| {
            let connection = slot.connection.as_ref()?;
            (!connection.is_over()).then_some(Key { index, serial: slot.serial })
        };
        slots.filter_map(key).collect()
    }

    /// Ends a wait for a choice.
    pub fn decide(&mut self, now: Instant, key: Key, choice: Choice) {
        self.guarded(key, |connection| connection.decide(choice, now));
        self.look_after(key);
    }

    /// Takes a datagram. One that may begin a connection waits for [`Endpoint::begin`]; where too many wait it is dropped, and
    /// its client sends it again (RFC 9002 §6.2).
    pub fn receive(&mut self, now: Instant, datagram: Datagram<'_>) {
        self.counters.received += 1;
        let Some(is_ours) = self.first(datagram.bytes) else { return self.take(now, datagram) };
        if self.firsts.has_room(is_ours, datagram.bytes.len()) {
            let buffer = self.buffer();
            self.firsts.push(is_ours, datagram, buffer);
        } else {
            self.counters.refused += 1;
        }
    }

    /// Whether a datagram may begin a connection, as far as its header tells.
    pub fn may_begin(&self, bytes: &[u8]) -> bool {
        self.first(bytes).is_some()
    }

    /// Whether a datagram may begin a connection: its header is long and no connection has the ID that it is for. The packets of a handshake that
    /// goes on have one of ours. What follows a Retry has one, too, and anybody can send one of a connection that is over: it must be in use.
    /// Gives whether the ID is one of ours; `None`: it begins none.
    fn first(&self, bytes: &[u8]) -> Option<bool> {
        let route = route(bytes).filter(|route| route.is_long)?;
        let is_ours = route.generation(&self.keys.cid).is_some();
        let is_used = || route.cid().is_some_and(|cid| self.inner.has_connection(&cid));
        (!is_ours || !is_used()).then_some(is_ours)
    }

    /// Takes one of the datagrams that may begin a connection; false: none waits. A handshake costs a hundred times what an answer
    /// costs, and a forged address can ask for one. So the owner calls this after open connections have sent their packets, and for a
    /// bounded time.
    pub fn begin(&mut self, now: Instant) -> bool {
        let Some(first) = self.firsts.pop() else { return false };
        self.take(now, first.datagram());
        self.recycle(first.bytes);
        true
    }

    /// Gives back the datagrams that wait for [`Endpoint::begin`]: another process is to have them.
    pub fn give_back(&mut self, mut each: impl FnMut(Datagram<'_>)) {
        while let Some(first) = self.firsts.pop() {
            each(first.datagram());
            self.recycle(first.bytes);
        }
    }

    /// Whether datagrams wait for [`Endpoint::begin`].
    pub fn has_firsts(&self) -> bool {
        !self.firsts.is_empty()
    }

    fn take(&mut self, now: Instant, datagram: Datagram<'_>) {
        let Datagram { socket, remote, local, ecn, bytes } = datagram;
        self.inner.set_retries(self.asks_for_validation(socket));
        let mut out = self.buffer();
        let data = BytesMut::from(bytes);
        let local_ip = local.map(|local| local.ip());
        let work = AssertUnwindSafe(|| self.inner.handle(now, remote, local_ip, ecn, data, &mut out));
        match catch_unwind(work) {
            Err(_) => self.rebuild(),
            Ok(None) => {
                self.counters.ignored += 1;
                self.recycle(out);
            }
            Ok(Some(DatagramEvent::Response(_))) if is_reset(&out) && !self.resets.take(now) => {
                self.counters.ignored += 1;
                self.recycle(out);
            }
            Ok(Some(DatagramEvent::Response(transmit))) => {
                self.count_response(&out);
                self.respond(socket, transmit, out);
            }
            Ok(Some(DatagramEvent::ConnectionEvent(handle, event))) => {
                self.recycle(out);
                self.deliver(handle, event, remote, bytes.len());
            }
            Ok(Some(DatagramEvent::NewConnection(incoming))) => {
                self.admit(now, Origin { socket, remote, local }, incoming, out);
            }
        }
    }

    /// What an answer without a connection is, by its first bytes (RFC 9000 §17).
    fn count_response(&mut self, bytes: &[u8]) {
        match bytes {
            _ if is_reset(bytes) => self.counters.resets += 1,
            [_, 0, 0, 0, 0, ..] => self.counters.negotiations += 1,
            // RFC 9000 §17.2.5: the first four bits of a Retry.
            [first, ..] if first & 0xf0 == 0xf0 => self.counters.retries += 1,
            _ => self.counters.refused += 1,
        }
    }

    fn deliver(&mut self, handle: ConnectionHandle, event: ConnectionEvent, from: SocketAddr, len: usize) {
        let Some(key) = self.key(handle) else { return };
        self.guarded(key, |connection| {
            connection.note_received(from, len);
            connection.inner.handle_event(event);
        });
        self.look_after(key);
    }

    /// Whether clients have to show by a Retry that they are where they say before a socket's connections begin (`quic_retry`).
    fn asks_for_validation(&self, socket: u32) -> bool {
        self.listeners.get(&socket).is_some_and(|listener| match listener.settings.retry {
            Retry::On => true,
            Retry::Off => false,
            Retry::Auto => self.half_open >= HALF_OPEN_RETRY,
        })
    }

    /// A client that is not known yet.
    fn admit(&mut self, now: Instant, origin: Origin, incoming: Incoming, mut out: Vec<u8>) {
        let may_begin = self.has_room && self.half_open < HALF_OPEN_MAX;
        let Some(listener) = self.listeners.get(&origin.socket).filter(|_| may_begin) else {
            self.counters.refused += 1;
            self.inner.ignore(incoming);
            return self.recycle(out);
        };
        // Most were asked before they were decrypted: this one has a token, and it is none of ours.
        if self.asks_for_validation(origin.socket) && !incoming.remote_address_validated() {
            match self.inner.retry(incoming, &mut out) {
                Ok(transmit) => {
                    self.counters.retries += 1;
                    self.respond(origin.socket, transmit, out);
                }
                Err(refused) => {
                    self.inner.ignore(refused.into_incoming());
                    self.recycle(out);
                }
            }
            return;
        }
        self.counters.begun += 1;
        let handshake = Handshake::new(self.choose.clone(), origin);
        let mut config = server(handshake.clone(), &self.keys);
        let is_local = origin.remote.ip().to_canonical().is_loopback();
        config.transport = if is_local { listener.local.clone() } else { listener.transport.clone() };
        let until = now + listener.settings.handshake;
        let streams_max = u64::from(listener.settings.streams);
        let streams = (streams_max.min(STREAMS_AT_FIRST), streams_max);
        let config = Some(Arc::new(config));
        let accept = || self.inner.accept(incoming, now, &mut out, config).map_err(Box::new);
        let work = AssertUnwindSafe(accept);
        match catch_unwind(work) {
            Err(_) => self.rebuild(),
            Ok(Err(error)) => {
                self.counters.refused += 1;
                match error.response {
                    Some(transmit) => self.respond(origin.socket, transmit, out),
                    None => self.recycle(out),
                }
            }
            Ok(Ok((handle, inner))) => {
                self.recycle(out);
                let key = self.insert(Connection::new(inner, handle, handshake, &origin, streams));
                self.half_open += 1;
                self.handshakes.push_back((until, key));
                self.look_after(key);
            }
        }
    }

    fn insert(&mut self, connection: Connection) -> Key {
        let index = connection.handle.0;
        while self.slots.len() <= index {
            self.slots.push(Slot { serial: 0, connection: None });
        }
        let slot = &mut self.slots[index];
        slot.serial = slot.serial.wrapping_add(1);
        slot.connection = Some(Box::new(connection));
        Key { index: index as u32, serial: slot.serial }
    }

    fn key(&self, handle: ConnectionHandle) -> Option<Key> {
        let slot = self.slots.get(handle.0)?;
        slot.connection.as_ref()?;
        Some(Key { index: handle.0 as u32, serial: slot.serial })
    }

    fn find(&mut self, key: Key) -> Option<&mut Connection> {
        let slot = self.slots.get_mut(key.index as usize).filter(|slot| slot.serial == key.serial)?;
        slot.connection.as_deref_mut()
    }

    fn touch(&mut self, key: Key) {
        if let Some(connection) = self.find(key)
            && !std::mem::replace(&mut connection.is_touched, true)
        {
            self.touched.push_back(key);
        }
    }

    /// Works on a connection. A panic costs this one.
    fn guarded<T>(&mut self, key: Key, work: impl FnOnce(&mut Connection) -> T) -> Option<T> {
        let connection = self.find(key)?;
        let done = catch_unwind(AssertUnwindSafe(|| work(connection)));
        if done.is_err() {
            self.kill(key);
        }
        done.ok()
    }

    /// Drops a connection after a fault, without telling the client: its state cannot be trusted.
    pub fn kill(&mut self, key: Key) {
        self.counters.panics += 1;
        self.remove(key, Some(Closed::Fault));
    }

    fn remove(&mut self, key: Key, why: Option<Closed>) {
        let Some(slot) = self.slots.get_mut(key.index as usize).filter(|slot| slot.serial == key.serial)
        else {
            return;
        };
        let Some(mut connection) = slot.connection.take() else { return };
        self.timers.set(key, connection.timer, None);
        if connection.is_counted {
            self.half_open -= 1;
        }
        if let Some(why) = why {
            connection.over(why);
            self.inner.handle_event(connection.handle, EndpointEvent::drained());
        }
        // Asking a broken connection is guarded, too.
        let sums = catch_unwind(AssertUnwindSafe(|| (connection.lost(), connection.rtt())));
        let (lost, rtt) = sums.unwrap_or_default();
        self.counters.lost += lost;
        if !connection.is_counted {
            self.counters.ended += 1;
            self.counters.rtt_us += rtt.as_micros() as u64;
        }
        let events = std::mem::take(&mut connection.events);
        self.last.extend(events.into_iter().map(|event| (key, event)));
    }

    /// Collects a connection's events and sends after it was worked on.
    fn look_after(&mut self, key: Key) {
        self.touch(key);
        let Some(update) = self.guarded(key, Connection::update) else { return };
        self.counters.completed += u64::from(update.completed);
        self.counters.migrations += u64::from(update.moved);
        self.counters.timeouts += u64::from(update.timed_out);
        self.settle(key);
        if self.find(key).is_some_and(|connection| !connection.events.is_empty()) {
            self.eventful.push_back(key);
        }
        self.exchange(key);
    }

    /// A handshake that is over or complete is half open no more.
    fn settle(&mut self, key: Key) {
        let Some(connection) = self.find(key) else { return };
        if connection.is_counted && !connection.is_half_open() {
            connection.is_counted = false;
            self.half_open -= 1;
        }
    }

    /// Carries what the library's two halves have for each other.
    fn exchange(&mut self, key: Key) {
        loop {
            let Some(Some(event)) = self.guarded(key, |connection| connection.inner.poll_endpoint_events())
            else {
                return;
            };
            let is_over = event.is_drained();
            let handle = ConnectionHandle(key.index as usize);
            let work = AssertUnwindSafe(|| self.inner.handle_event(handle, event));
            match catch_unwind(work) {
                Err(_) => return self.rebuild(),
                Ok(Some(answer)) => {
                    self.guarded(key, |connection| connection.inner.handle_event(answer));
                }
                Ok(None) => {}
            }
            if is_over {
                return self.remove(key, None);
            }
        }
    }

    /// After a panic in the library's table of connections, it is made anew. Its clients get stateless resets.
    fn rebuild(&mut self) {
        self.counters.panics += 1;
        self.inner = inner(self.place, &self.keys, &self.choose);
        for index in 0..self.slots.len() {
            let key = Key { index: index as u32, serial: self.slots[index].serial };
            if let Some(connection) = self.find(key) {
                connection.over(Closed::Fault);
            }
            self.remove(key, None);
        }
        self.half_open = 0;
        self.handshakes.clear();
    }

    /// When [`Endpoint::handle_timeouts`] is to be called.
    pub fn next_timeout(&self) -> Option<Instant> {
        let stalled = self.handshakes.front().map(|(until, _)| *until);
        [self.timers.next(), stalled].into_iter().flatten().min()
    }

    /// Gives up handshakes that have taken too long, without an answer: their address may be forged. What is due later than one
    /// behind it (another socket's setting) waits for it.
    fn give_up_stalled(&mut self, now: Instant) {
        while let Some(&(until, key)) = self.handshakes.front() {
            if self.find(key).is_some_and(|connection| connection.is_counted) {
                if until > now {
                    return;
                }
                self.counters.stalled += 1;
                self.remove(key, Some(Closed::TimedOut));
            }
            self.handshakes.pop_front();
        }
    }

    /// Whether [`Endpoint::poll_event`] has something to tell.
    pub fn has_events(&self) -> bool {
        !self.eventful.is_empty() || !self.last.is_empty()
    }

    /// Does what is due.
    pub fn handle_timeouts(&mut self, now: Instant) {
        self.give_up_stalled(now);
        while let Some(key) = self.timers.take_due(now) {
            if let Some(connection) = self.find(key) {
                connection.timer = None;
            }
            self.guarded(key, |connection| connection.inner.handle_timeout(now));
            self.look_after(key);
        }
    }

    /// What has happened. Of each connection in order.
    pub fn poll_event(&mut self) -> Option<(Key, Event)> {
        loop {
            if let Some(event) = self.last.pop_front() {
                return Some(event);
            }
            let key = *self.eventful.front()?;
            if let Some(event) = self.find(key).and_then(|connection| connection.events.pop_front()) {
                return Some((key, event));
            }
            self.eventful.pop_front();
        }
    }

    /// What is to be sent; `None` when there is nothing more in this turn. Connections that have used up their turn want another
    /// one at once: [`Endpoint::has_more`].
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        while let Some(&key) = self.touched.front() {
            if let Some(transmit) = self.next_send(now, key) {
                return Some(transmit);
            }
        }
        // Retry packets and resets, behind the packets of open connections.
        if let Some(transmit) = self.responses.pop_front() {
            self.counters.sent += 1;
            return Some(transmit);
        }
        std::mem::swap(&mut self.touched, &mut self.later);
        None
    }

    /// Whether something is to be sent still after [`Endpoint::poll_transmit`] has given nothing more.
    pub fn has_more(&self) -> bool {
        !self.touched.is_empty()
    }

    /// The next send of the first connection in the list; without one it leaves the list.
    fn next_send(&mut self, now: Instant, key: Key) -> Option<Transmit> {
        let mut bytes = self.buffer();
        let sent = self.guarded(key, |connection| {
            if connection.sends == SENDS_PER_TURN_MAX {
                return Sent::Enough;
            }
            match connection.poll_transmit(now, &mut bytes) {
                Ok(Some(transmit)) if !connection.may_send(transmit.destination, transmit.size) => Sent::Kept,
                Ok(Some(transmit)) => Sent::Some(transmit, connection.socket),
                Ok(None) => Sent::Nothing,
                Err(at) => Sent::Later(at),
            }
        });
        match sent {
            Some(Sent::Some(transmit, socket)) => {
                if let Some(connection) = self.find(key) {
                    connection.sends += 1;
                }
                let segments = transmit.segment_size.map_or(1, |size| transmit.size.div_ceil(size));
                self.counters.sent += segments as u64;
                return Some(outgoing(socket, transmit, bytes));
            }
            // Lost, as far as the library knows; it may have something for others.
            Some(Sent::Kept) => {
                if let Some(connection) = self.find(key) {
                    connection.sends += 1;
                }
            }
            Some(Sent::Enough) => {
                self.touched.pop_front();
                self.later.push_back(key);
                if let Some(connection) = self.find(key) {
                    connection.sends = 0;
                }
            }
            Some(Sent::Later(at)) => {
                self.touched.pop_front();
                self.rest(key, Some(at));
            }
            Some(Sent::Nothing) | None => {
                self.touched.pop_front();
                self.rest(key, None);
            }
        }
        self.recycle(bytes);
        None
    }

    /// A connection has nothing to send, or nothing before `until`: it waits for its time, or for packets.
    fn rest(&mut self, key: Key, until: Option<Instant>) {
        self.settle(key);
        self.exchange(key);
        let Some(connection) = self.find(key) else { return };
        (connection.is_touched, connection.sends) = (false, 0);
        let new = [connection.inner.poll_timeout(), until].into_iter().flatten().min();
        let old = std::mem::replace(&mut connection.timer, new);
        self.timers.set(key, old, new);
    }

    fn respond(&mut self, socket: u32, transmit: quinn_proto::Transmit, bytes: Vec<u8>) {
        self.responses.push_back(outgoing(socket, transmit, bytes));
    }

    fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes a buffer back whose bytes were sent.
    pub fn recycle(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS_MAX {
            bytes.clear();
            self.spare.push(bytes);
        }
    }
}

enum Sent {
    Some(quinn_proto::Transmit, u32),
    /// It would have been too much for an address that is not validated.
    Kept,
    /// Others have their turn.
    Enough,
    /// Not before this time.
    Later(Instant),
    Nothing,
}

/// Of the answers without a connection only a stateless reset has a short header (RFC 9000 §10.3).
fn is_reset(answer: &[u8]) -> bool {
    answer.first().is_some_and(|first| first & 0x80 == 0)
}

fn outgoing(socket: u32, transmit: quinn_proto::Transmit, mut bytes: Vec<u8>) -> Transmit {
    bytes.truncate(transmit.size);
    Transmit {
        socket,
        to: transmit.destination,
        from: transmit.src_ip,
        ecn: transmit.ecn,
        segment: transmit.segment_size,
        bytes,
    }
}

/// What every connection of the keys' server has in common.
fn server(handshake: Arc<Handshake>, keys: &Keys) -> ServerConfig {
    let mut tokens = ValidationTokenConfig::default();
    tokens.log(keys.used.clone());
    let mut config = ServerConfig::new(handshake, keys.token.clone());
    config
        .validation_token_config(tokens)
        .max_incoming(INCOMING_MAX)
        .incoming_buffer_size(INCOMING_BYTES_MAX)
        .incoming_buffer_size_total(INCOMING_BYTES_MAX * INCOMING_MAX as u64);
    config
}

fn inner(place: Place, keys: &Keys, choose: &Arc<dyn Choose>) -> quinn_proto::Endpoint {
    let cid = keys.cid;
    let mut config = EndpointConfig::new(keys.reset.clone());
    config
        .cid_generator(move || Box::new(Generator::new(place, cid)))
        .supported_versions(vec![VERSION])
        // How many may leave is decided here.
        .min_reset_interval(Duration::ZERO)
        .max_udp_payload_size(PAYLOAD_BYTES_MAX)
        .expect("the size of Ethernet's payload is allowed");
    // Before a connection is accepted only what answers its first packet is needed: keys and tokens.
    let nowhere = Origin { socket: 0, remote: (Ipv4Addr::UNSPECIFIED, 0).into(), local: None };
    let server = server(Handshake::new(choose.clone(), nowhere), keys);
    quinn_proto::Endpoint::new(Arc::new(config), Some(Arc::new(server)), true, None)
}

/// RFC 9000.
const VERSION: u32 = 1;
