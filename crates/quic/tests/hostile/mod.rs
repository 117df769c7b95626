//! A client of QUIC that a test writes frame by frame: what no library would send. Packets are sealed as RFC 9001 has it; nothing is
//! sent again, and what the server sends is looked at, not judged.
#![allow(dead_code)] // each test file uses a part

use brisk_quic::{Datagram, Endpoint, Event, Key};
use rustls::pki_types::ServerName;
use rustls::quic::{ClientConnection, DirectionalKeys, KeyChange, Keys, Suite, Version};
use rustls::{CipherSuite, ClientConfig, Side};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Packet numbers are sent with four bytes, so that none is ambiguous.
const NUMBER_BYTES: usize = 4;
const TAG_BYTES: usize = 16;
/// The connection ID that the server is told.
const OWN: &[u8; 8] = b"hostile!";
/// The header, and what is behind it.
const DAMAGED_BYTES: usize = 48;

/// The three spaces of packet numbers (RFC 9000 §12.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    Initial,
    Handshake,
    Data,
}

/// A frame of the server's, as far as tests look at them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Close { code: u64, application: bool },
    Stream { id: u64, data: Vec<u8>, fin: bool },
    PathChallenge([u8; 8]),
    PathResponse([u8; 8]),
    Done,
    Other(u64),
}

pub struct Hostile {
    pub now: Instant,
    pub server: Endpoint,
    pub from: SocketAddr,
    pub events: Vec<(Key, Event)>,
    pub seen: Vec<Seen>,
    /// Bytes that have come to `from`, and bytes that were sent from there.
    pub received: usize,
    pub sent: usize,
    tls: ClientConnection,
    config: Arc<ClientConfig>,
    keys: [Option<Keys>; 3],
    next: [u64; 3],
    largest: [u64; 3],
    /// The handshake's bytes that have come and were not in order, per space.
    crypto: [Vec<(u64, Vec<u8>)>; 3],
    crypto_read: [u64; 3],
    crypto_sent: [u64; 3],
    /// Packets that wait for others, to leave in one datagram with them.
    held: Option<Vec<u8>>,
    cid: Vec<u8>,
    own: [u8; 8],
    /// Each packet comes after copies of it with one bit of its first bytes changed, as by a network or by somebody who has seen it.
    pub is_damaged_first: bool,
}

/// An integer (RFC 9000 §16).
pub fn integer(value: u64, out: &mut Vec<u8>) {
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

pub fn integers(values: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    values.iter().for_each(|value| integer(*value, &mut out));
    out
}

fn take(bytes: &mut &[u8]) -> u64 {
    let len = 1 << (bytes[0] >> 6);
    let mut value = u64::from(bytes[0] & 0x3f);
    for byte in &bytes[1..len] {
        value = value << 8 | u64::from(*byte);
    }
    *bytes = &bytes[len..];
    value
}

fn skip(bytes: &mut &[u8]) {
    take(bytes);
}

fn cut<'a>(bytes: &mut &'a [u8], len: u64) -> &'a [u8] {
    let (part, rest) = bytes.split_at(len as usize);
    *bytes = rest;
    part
}

/// A CRYPTO frame.
pub fn crypto(offset: u64, data: &[u8]) -> Vec<u8> {
    [integers(&[6, offset, data.len() as u64]), data.to_vec()].concat()
}

/// A STREAM frame.
pub fn stream(id: u64, offset: u64, data: &[u8], fin: bool) -> Vec<u8> {
    [integers(&[0x0e | u64::from(fin), id, offset, data.len() as u64]), data.to_vec()].concat()
}

/// The parameters that a usual client sends: large windows, many streams.
pub fn parameters(own: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for (id, value) in [
        (0x01, 30_000),
        (0x04, 1 << 24),
        (0x05, 1 << 20),
        (0x06, 1 << 20),
        (0x07, 1 << 20),
        (0x08, 100),
        (0x09, 100),
    ] {
        let mut bytes = Vec::new();
        integer(value, &mut bytes);
        out.extend(integers(&[id, bytes.len() as u64]));
        out.extend(bytes);
    }
    out.extend(integers(&[0x0f, own.len() as u64]));
    out.extend_from_slice(own);
    out
}

fn suite() -> Suite {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let found =
        provider.cipher_suites.iter().find(|one| one.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256);
    found.and_then(|one| one.tls13()?.quic_suite()).expect("the suite of Initial packets")
}

/// A packet of this header, whose number is still to come, and payload (RFC 9001 §5.3, §5.4).
fn seal(keys: &DirectionalKeys, number: u64, mut header: Vec<u8>, mut payload: Vec<u8>) -> Vec<u8> {
    let number_at = header.len();
    header.extend_from_slice(&(number as u32).to_be_bytes());
    let tag = keys.packet.encrypt_in_place(number, &header, &mut payload).unwrap();
    let mut packet = [header, payload, tag.as_ref().to_vec()].concat();
    let sample = packet[number_at + 4..number_at + 4 + keys.header.sample_len()].to_vec();
    let (first, rest) = packet.split_at_mut(1);
    let number = &mut rest[number_at - 1..number_at - 1 + NUMBER_BYTES];
    keys.header.encrypt_in_place(&sample, &mut first[0], number).unwrap();
    packet
}

impl Hostile {
    /// Nothing is sent yet. `root`: the server's certificate. `change`: what becomes of the usual parameters.
    pub fn new(
        server: Endpoint,
        root: &[u8],
        name: &str,
        change: impl FnOnce(Vec<u8>) -> Vec<u8>,
    ) -> Hostile {
        Hostile::with_alpn(server, root, name, &["h3"], change)
    }

    /// The same with another choice of protocols.
    pub fn with_alpn(
        server: Endpoint,
        root: &[u8],
        name: &str,
        alpn: &[&str],
        change: impl FnOnce(Vec<u8>) -> Vec<u8>,
    ) -> Hostile {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(root.to_vec().into()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        config.enable_early_data = true;
        Hostile::visit(server, Arc::new(config), name, change(parameters(OWN)))
    }

    /// Another connection to the same server, with the sessions that this one was given.
    pub fn again(self, name: &str) -> Hostile {
        Hostile::visit(self.server, self.config, name, parameters(OWN))
    }

    fn visit(server: Endpoint, config: Arc<ClientConfig>, name: &str, parameters: Vec<u8>) -> Hostile {
        let name = ServerName::try_from(name.to_string()).unwrap();
        let tls = ClientConnection::new(config.clone(), Version::V1, name, parameters).unwrap();
        let cid = vec![7; 8];
        let initial = suite().keys(&cid, Side::Client, Version::V1);
        Hostile {
            now: Instant::now(),
            server,
            from: "127.0.0.2:5555".parse().unwrap(),
            events: Vec::new(),
            seen: Vec::new(),
            received: 0,
            sent: 0,
            tls,
            config,
            keys: [Some(initial), None, None],
            next: [0; 3],
            largest: [0; 3],
            crypto: Default::default(),
            crypto_read: [0; 3],
            crypto_sent: [0; 3],
            held: None,
            cid,
            own: *OWN,
            is_damaged_first: false,
        }
    }

    /// Another ID that the server is addressed by at first.
    pub fn set_cid(&mut self, cid: &[u8]) {
        self.keys[0] = Some(suite().keys(cid, Side::Client, Version::V1));
        self.cid = cid.to_vec();
    }

    /// What TLS has to say now.
    pub fn hello(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(self.tls.write_hs(&mut out).is_none());
        out
    }

    /// A packet with these frames. Initial ones are filled up (RFC 9000 §14.1).
    pub fn packet(&mut self, space: Space, frames: &[u8]) -> Vec<u8> {
        let mut payload = frames.to_vec();
        // The sample of header protection begins four bytes behind the number.
        while payload.len() < 4 || space == Space::Initial && payload.len() < 1162 {
            payload.push(0);
        }
        self.sealed(space, 0, payload)
    }

    /// A packet with these bytes, and these bits in its first one beside the usual ones.
    pub fn sealed(&mut self, space: Space, bits: u8, payload: Vec<u8>) -> Vec<u8> {
        let at = space as usize;
        let number = self.next[at];
        self.next[at] += 1;
        let mut header = Vec::new();
        match space {
            Space::Data => {
                header.push(0x40 | (NUMBER_BYTES as u8 - 1));
                header.extend_from_slice(&self.cid);
            }
            Space::Initial | Space::Handshake => {
                let kind = if space == Space::Initial { 0xc0 } else { 0xe0 };
                header.push(kind | (NUMBER_BYTES as u8 - 1));
                header.extend_from_slice(&[0, 0, 0, 1, self.cid.len() as u8]);
                header.extend_from_slice(&self.cid);
                header.push(self.own.len() as u8);
                header.extend_from_slice(&self.own);
                if space == Space::Initial {
                    header.push(0);
                }
                let len = payload.len() + NUMBER_BYTES + TAG_BYTES;
                header.extend_from_slice(&(len as u16 | 0x4000).to_be_bytes());
            }
        }
        header[0] |= bits;
        seal(&self.keys[at].as_ref().expect("keys of this space").local, number, header, payload)
    }

    /// A 0-RTT packet with these frames; `None`: no session allows one.
    pub fn early(&mut self, frames: &[u8]) -> Option<Vec<u8>> {
        let keys = self.tls.zero_rtt_keys()?;
        let number = self.next[Space::Data as usize];
        self.next[Space::Data as usize] += 1;
        let mut header = vec![0xd0 | (NUMBER_BYTES as u8 - 1), 0, 0, 0, 1];
        for cid in [&self.cid[..], &self.own] {
            header.push(cid.len() as u8);
            header.extend_from_slice(cid);
        }
        let payload = [frames, &[0; 4]].concat();
        let len = payload.len() + NUMBER_BYTES + TAG_BYTES;
        header.extend_from_slice(&(len as u16 | 0x4000).to_be_bytes());
        Some(seal(&keys, number, header, payload))
    }

    /// Sends a datagram.
    pub fn give(&mut self, bytes: &[u8]) {
        self.sent += bytes.len();
        let local = Some("127.0.0.1:443".parse().unwrap());
        self.server.receive(self.now, Datagram { socket: 3, remote: self.from, local, ecn: None, bytes });
        while self.server.begin(self.now) {}
        self.collect();
    }

    /// The rest of the handshake and a packet with these frames behind it, in one datagram.
    pub fn goes_on_with(&mut self, frames: &[u8]) {
        self.take();
        self.held = Some(Vec::new());
        self.answer();
        let mut datagram = self.held.take().unwrap_or_default();
        datagram.extend(self.packet(Space::Data, frames));
        self.give(&datagram);
    }

    /// Sends frames in a packet of their own.
    pub fn frames(&mut self, space: Space, frames: &[u8]) {
        let packet = self.packet(space, frames);
        if let Some(held) = &mut self.held {
            return held.extend(packet);
        }
        let damaged = if self.is_damaged_first { packet.len().min(DAMAGED_BYTES) * 8 } else { 0 };
        for bit in 0..damaged {
            let mut copy = packet.clone();
            copy[bit / 8] ^= 1 << (bit % 8);
            self.give(&copy);
        }
        self.give(&packet);
    }

    /// A packet that nothing seals: a Retry with its token and tag, or a Version Negotiation with its versions.
    pub fn bare(&self, first: u8, version: u32, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![first];
        packet.extend_from_slice(&version.to_be_bytes());
        for cid in [&self.cid[..], &self.own] {
            packet.push(cid.len() as u8);
            packet.extend_from_slice(cid);
        }
        packet.extend_from_slice(rest);
        packet
    }

    pub fn collect(&mut self) {
        while let Some(event) = self.server.poll_event() {
            self.events.push(event);
        }
    }

    /// Takes what the server sends now. What goes to another address than `from` is given back.
    pub fn take(&mut self) -> Vec<(SocketAddr, usize)> {
        let mut astray = Vec::new();
        while let Some(transmit) = self.server.poll_transmit(self.now) {
            let size = transmit.segment.unwrap_or(transmit.bytes.len());
            for datagram in transmit.bytes.chunks(size) {
                if transmit.to == self.from {
                    self.received += datagram.len();
                    self.open(&mut datagram.to_vec());
                } else {
                    astray.push((transmit.to, datagram.len()));
                }
            }
        }
        self.collect();
        astray
    }

    /// Lets the server's timers run for this long.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(next) = self.server.next_timeout().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.server.handle_timeouts(self.now);
            self.collect();
            self.take();
        }
        self.now = end;
    }

    /// Brings the handshake to its end. False if the server has refused it.
    pub fn shake(&mut self) -> bool {
        let hello = self.hello();
        let middle = hello.len().min(1000);
        for (offset, part) in [(0, &hello[..middle]), (middle, &hello[middle..])] {
            self.frames(Space::Initial, &crypto(offset as u64, part));
        }
        self.goes_on()
    }

    /// The rest of the handshake, when the ClientHello was sent.
    pub fn goes_on(&mut self) -> bool {
        for _ in 0..4 {
            self.take();
            self.answer();
        }
        self.seen.contains(&Seen::Done)
    }

    /// Sends what TLS has to say.
    fn answer(&mut self) {
        loop {
            let mut out = Vec::new();
            let space = if self.keys[1].is_none() { Space::Initial } else { Space::Handshake };
            let change = self.tls.write_hs(&mut out);
            if !out.is_empty() {
                let offset = self.crypto_sent[space as usize];
                self.crypto_sent[space as usize] += out.len() as u64;
                self.frames(space, &crypto(offset, &out));
            }
            match change {
                Some(KeyChange::Handshake { keys }) => self.keys[1] = Some(keys),
                Some(KeyChange::OneRtt { keys, .. }) => self.keys[2] = Some(keys),
                None if out.is_empty() => return,
                None => {}
            }
        }
    }

    /// Opens all packets of a datagram.
    fn open(&mut self, mut rest: &mut [u8]) {
        while !rest.is_empty() {
            let is_long = rest[0] & 0x80 != 0;
            let mut chosen = None;
            if is_long && rest[1..5] == [0; 4] {
                // A Version Negotiation is no packet of a connection.
                return;
            }
            let (space, number_at, end) = if is_long {
                let space = match rest[0] >> 4 & 3 {
                    0 => Space::Initial,
                    2 => Space::Handshake,
                    // A Retry, or a version that is none.
                    _ => return,
                };
                let own = 6 + usize::from(rest[5]);
                let len = usize::from(rest[own]);
                // From its first packet on the server is known by the ID that it has chosen.
                chosen = Some(rest[own + 1..own + 1 + len].to_vec());
                let mut view = &rest[own + 1 + len..];
                if space == Space::Initial {
                    let token = take(&mut view);
                    cut(&mut view, token);
                }
                let len = take(&mut view) as usize;
                let at = rest.len() - view.len();
                (space, at, at + len)
            } else {
                (Space::Data, 1 + self.own.len(), rest.len())
            };
            let (packet, after) = rest.split_at_mut(end.min(rest.len()));
            rest = after;
            let at = space as usize;
            let Some(keys) = &self.keys[at] else { continue };
            let expected = self.largest[at];
            let Some((number, payload)) = unseal(&keys.remote, packet, number_at, expected) else { continue };
            self.cid = chosen.unwrap_or_else(|| self.cid.clone());
            self.largest[at] = self.largest[at].max(number + 1);
            self.look(space, &payload);
        }
    }

    fn look(&mut self, space: Space, mut frames: &[u8]) {
        while !frames.is_empty() {
            let bytes = &mut frames;
            let kind = take(bytes);
            match kind {
                0 | 1 => {}
                2 | 3 => {
                    take(bytes);
                    take(bytes);
                    let ranges = take(bytes);
                    (0..=ranges * 2).for_each(|_| skip(bytes));
                    if kind == 3 {
                        (0..3).for_each(|_| skip(bytes));
                    }
                }
                4 => (0..3).for_each(|_| skip(bytes)),
                5 | 0x11 | 0x15 => (0..2).for_each(|_| skip(bytes)),
                6 => {
                    let (offset, len) = (take(bytes), take(bytes));
                    let data = cut(bytes, len).to_vec();
                    self.hear(space, offset, data);
                }
                7 => {
                    let len = take(bytes);
                    cut(bytes, len);
                }
                0x08..=0x0f => {
                    let id = take(bytes);
                    if kind & 4 != 0 {
                        take(bytes);
                    }
                    let len = if kind & 2 != 0 { take(bytes) } else { bytes.len() as u64 };
                    let data = cut(bytes, len).to_vec();
                    self.seen.push(Seen::Stream { id, data, fin: kind & 1 != 0 });
                }
                0x10 | 0x12 | 0x13 | 0x14 | 0x16 | 0x17 | 0x19 => skip(bytes),
                0x18 => {
                    take(bytes);
                    take(bytes);
                    let len = take(bytes);
                    cut(bytes, len + 16);
                }
                0x1a => self.seen.push(Seen::PathChallenge(cut(bytes, 8).try_into().unwrap())),
                0x1b => self.seen.push(Seen::PathResponse(cut(bytes, 8).try_into().unwrap())),
                0x1c | 0x1d => {
                    let code = take(bytes);
                    if kind == 0x1c {
                        take(bytes);
                    }
                    let len = take(bytes);
                    cut(bytes, len);
                    self.seen.push(Seen::Close { code, application: kind == 0x1d });
                }
                0x1e => self.seen.push(Seen::Done),
                // Nothing is known of the rest of the packet.
                other => {
                    self.seen.push(Seen::Other(other));
                    return;
                }
            }
        }
    }

    /// Bytes of the server's handshake, which are given to TLS in order.
    fn hear(&mut self, space: Space, offset: u64, data: Vec<u8>) {
        let at = space as usize;
        self.crypto[at].push((offset, data));
        loop {
            let read = self.crypto_read[at];
            let covers =
                |(offset, data): &(u64, Vec<u8>)| *offset <= read && offset + data.len() as u64 > read;
            let Some(found) = self.crypto[at].iter().position(covers) else { break };
            let (offset, data) = self.crypto[at].swap_remove(found);
            let fresh = &data[(read - offset) as usize..];
            self.crypto_read[at] += fresh.len() as u64;
            if self.tls.read_hs(fresh).is_err() {
                return;
            }
            // Keys come between messages of one flight.
            if space == Space::Initial {
                self.answer();
            }
        }
    }

    /// The code of the server's CONNECTION_CLOSE, if there was one.
    pub fn closed(&self) -> Option<u64> {
        self.seen.iter().find_map(|seen| match seen {
            Seen::Close { code, .. } => Some(*code),
            _ => None,
        })
    }

    /// The only connection's key.
    pub fn key(&self) -> Key {
        self.events.first().expect("something has happened").0
    }
}

fn unseal(keys: &DirectionalKeys, packet: &[u8], number_at: usize, expected: u64) -> Option<(u64, Vec<u8>)> {
    let mut packet = packet.to_vec();
    let sample = packet.get(number_at + 4..number_at + 4 + keys.header.sample_len())?.to_vec();
    let (first, rest) = packet.split_at_mut(1);
    let masked = &mut rest[number_at - 1..number_at - 1 + 4];
    let mut number = masked.to_vec();
    keys.header.decrypt_in_place(&sample, &mut first[0], &mut number).ok()?;
    let len = usize::from(first[0] & 3) + 1;
    let masked = &mut rest[number_at - 1..number_at - 1 + len];
    masked.copy_from_slice(&number[..len]);
    let short = masked.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    // RFC 9000 A.3.
    let window = 1u64 << (8 * len);
    let mut full = expected & !(window - 1) | short;
    if full + window / 2 <= expected {
        full += window;
    } else if full > expected + window / 2 && full >= window {
        full -= window;
    }
    let (header, payload) = packet.split_at_mut(number_at + len);
    let plain = keys.packet.decrypt_in_place(full, header, payload).ok()?;
    Some((full, plain.to_vec()))
}
