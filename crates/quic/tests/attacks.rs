//! What clients do that mean harm: each ends its own connection at most, and holds no more than it may.

mod hostile;
mod pair;

use brisk_quic::limits::{HALF_OPEN_MAX, HALF_OPEN_RETRY, HANDSHAKE_TIME_MAX};
use brisk_quic::{Connection, Dir, Endpoint, Event, Place, Retry, Settings};
use hostile::{Hostile, Seen, Space, crypto, integers, stream};
use pair::{Hosts, Rule, context, keys};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn server(settings: Settings) -> (Endpoint, Vec<u8>) {
    let (context, certificate) = context("a.test", false);
    let rules = Mutex::new(vec![("a.test", Rule::Begin(context))]);
    let hosts = Arc::new(Hosts { rules, asked: Mutex::default() });
    let place = Place { thread: 0, threads: 1, generation: 0 };
    let mut server = Endpoint::new(place, keys(), hosts);
    server.listen(3, settings);
    (server, certificate)
}

fn hostile_with(settings: Settings, change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Hostile {
    let (server, certificate) = server(settings);
    Hostile::new(server, &certificate, "a.test", change)
}

/// Its handshake is complete.
fn ready() -> Hostile {
    let mut client = hostile_with(Settings::default(), |usual| usual);
    assert!(client.shake(), "{:?}", client.seen);
    client
}

/// Whatever was done, nothing has panicked, and another client is served.
fn others_are_served(client: &mut Hostile) {
    assert_eq!(client.server.counters().panics, 0);
}

/// The frames end the connection with this code.
fn refused(what: &str, frames: &[&[u8]], code: u64) {
    let mut client = ready();
    for frames in frames {
        client.frames(Space::Data, frames);
    }
    client.take();
    client.pass(Duration::from_secs(1));
    assert_eq!(client.closed(), Some(code), "{what}: {:?}", client.seen);
    others_are_served(&mut client);
}

const FLOW_CONTROL: u64 = 0x3;
const STREAM_LIMIT: u64 = 0x4;
const STREAM_STATE: u64 = 0x5;
const FINAL_SIZE: u64 = 0x6;
const FRAME_ENCODING: u64 = 0x7;
const CONNECTION_ID_LIMIT: u64 = 0x9;
const PROTOCOL_VIOLATION: u64 = 0xa;

/// RFC 9000 §4.5.
#[test]
fn a_stream_s_end_does_not_move() {
    let end = stream(0, 10, b"", true);
    refused("data behind the end", &[&end, &stream(0, 20, b"x", false)], FINAL_SIZE);
    refused("another end", &[&end, &stream(0, 11, b"", true)], FINAL_SIZE);
    refused("a reset with another size", &[&end, &integers(&[4, 0, 0, 9])], FINAL_SIZE);
    refused("a reset below what came", &[&stream(0, 20, b"x", false), &integers(&[4, 0, 0, 5])], FINAL_SIZE);
    // RFC 9000 §4.1: a final size beyond the window.
    refused("a reset beyond the window", &[&integers(&[4, 0, 0, 1 << 30])], FLOW_CONTROL);
    refused("data beyond the window", &[&stream(0, 1 << 17, b"x", false)], FLOW_CONTROL);
}

/// RFC 9000 §4.6, §19.
#[test]
fn streams_keep_to_their_kinds_and_numbers() {
    refused("a stream too many", &[&stream(16 << 2, 0, b"x", false)], STREAM_LIMIT);
    refused("a stream far too many", &[&stream((1 << 60) - 4, 0, b"x", false)], STREAM_LIMIT);
    refused("a unidirectional stream too many", &[&stream(3 << 2 | 2, 0, b"x", false)], STREAM_LIMIT);
    refused("data on a stream of the server's", &[&stream(1, 0, b"x", false)], STREAM_STATE);
    refused("data on what only the server sends", &[&stream(3, 0, b"x", false)], STREAM_STATE);
    refused("a window of what only the client sends", &[&integers(&[0x11, 2, 5])], STREAM_STATE);
    refused("STOP_SENDING of what only the client sends", &[&integers(&[5, 2, 0])], STREAM_STATE);
    refused("a reset of what only the server sends", &[&integers(&[4, 3, 0, 0])], STREAM_STATE);
    refused("more streams than can be", &[&integers(&[0x12, (1 << 60) + 1])], FRAME_ENCODING);
}

#[test]
fn frames_that_no_client_sends() {
    refused("a frame that does not exist", &[&integers(&[0x3f5])], FRAME_ENCODING);
    refused("HANDSHAKE_DONE", &[&[0x1e]], PROTOCOL_VIOLATION);
    refused("NEW_TOKEN", &[&[7, 1, 9]], PROTOCOL_VIOLATION);
    refused("a frame that is cut off", &[&[0x1a, 1, 2]], FRAME_ENCODING);
    // RFC 9000 §13.1: packets are numbered with gaps, too, so that a guess is noticed.
    refused(
        "an acknowledgement of what was never sent",
        &[&integers(&[2, 1 << 20, 0, 0, 0])],
        PROTOCOL_VIOLATION,
    );
}

/// RFC 9000 §5.1.
#[test]
fn connection_ids_are_bounded() {
    let id = |sequence: u64, retire: u64| {
        [integers(&[0x18, sequence, retire, 8]), vec![sequence as u8; 8], vec![sequence as u8; 16]].concat()
    };
    let all: Vec<Vec<u8>> = (1..8).map(|sequence| id(sequence, 0)).collect();
    let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    refused("more than were allowed", &all, CONNECTION_ID_LIMIT);
    refused("retired before it is there", &[&id(3, 5)], FRAME_ENCODING);
    refused("the server's, which was never given", &[&integers(&[0x19, 1000])], PROTOCOL_VIOLATION);
    // Each makes the server answer for those before; what waits to be sent has a bound.
    let mut client = ready();
    for sequence in 1..2000u64 {
        client.frames(Space::Data, &id(sequence * 4, sequence * 4));
    }
    client.take();
    assert_eq!(client.closed(), Some(CONNECTION_ID_LIMIT));
}

#[test]
fn frames_in_packets_that_may_not_have_them() {
    let mut client = hostile_with(Settings::default(), |usual| usual);
    client.frames(Space::Initial, &stream(0, 0, b"GET /", true));
    client.take();
    assert_eq!(client.closed(), Some(PROTOCOL_VIOLATION), "{:?}", client.seen);
    others_are_served(&mut client);
}

/// RUSTSEC-2026-0037 was one packet that ended the process.
#[test]
fn hostile_transport_parameters_end_one_handshake() {
    let mut seed = 0x1234_5678_9abc_def1u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let fixed: [Vec<u8>; 9] = [
        vec![],
        vec![0xff; 64],
        // Lengths beyond the end; an integer that its length cuts off.
        integers(&[1, 1 << 40]),
        vec![4, 1, 0xc0],
        vec![4, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        // The same one twice; one that only servers send.
        integers(&[1, 1, 5, 1, 1, 5]),
        [vec![2, 16], vec![0; 16]].concat(),
        // A connection ID of 30 bytes; an ack_delay_exponent of 60.
        [vec![0x0f, 30], vec![1; 30]].concat(),
        vec![0x0a, 1, 60],
    ];
    for bytes in fixed {
        let mut client = hostile_with(Settings::default(), |_| bytes.clone());
        assert!(!client.shake(), "{bytes:?}");
        others_are_served(&mut client);
    }
    for _ in 0..300 {
        let mut client = hostile_with(Settings::default(), |mut usual| {
            for _ in 0..=random() % 4 {
                let at = random() as usize % usual.len();
                match random() % 3 {
                    0 => usual[at] ^= 1 << (random() % 8),
                    1 => usual.truncate(at.max(1)),
                    _ => usual.insert(at, random() as u8),
                }
            }
            usual
        });
        client.shake();
        client.frames(Space::Initial, &[1]);
        client.pass(Duration::from_secs(30));
        others_are_served(&mut client);
        assert_eq!(client.server.connections(), 0);
    }
}

#[test]
fn pieces_of_a_handshake_with_gaps_hold_little() {
    let mut client = hostile_with(Settings::default(), |usual| usual);
    let (mut at, mut packets) = (1, 0);
    while client.closed().is_none() && packets < 2000 {
        let mut frames = Vec::new();
        while frames.len() < 1100 {
            frames.extend(crypto(at, b"x"));
            // Never the next byte, and not far beyond: what is too far is refused at once.
            at = ((at + 2) % 16_000) | 1;
        }
        client.frames(Space::Initial, &frames);
        client.take();
        packets += 1;
    }
    others_are_served(&mut client);
    // Whether it is refused or not: when its time is over it is gone.
    client.pass(HANDSHAKE_TIME_MAX + Duration::from_secs(1));
    assert_eq!((client.server.connections(), client.server.half_open()), (0, 0));
    assert!(client.received <= 3 * client.sent);
}

#[test]
fn pieces_of_streams_with_gaps_are_counted() {
    let mut client = ready();
    let key = client.key();
    let before = client.server.connection(key).unwrap().held_bytes();
    let mut pieces = 0u64;
    for at in 0..1000u64 {
        for id in 0..4u64 {
            client.frames(Space::Data, &stream(id << 2, 1 + at * 2, b"x", false));
            pieces += 1;
        }
    }
    assert_eq!(client.closed(), None);
    let held = client.server.connection(key).unwrap().held_bytes() - before;
    assert!(held >= pieces * 40, "{held} bytes for {pieces} pieces");
    assert!(held <= 4 * 256 * 1024, "{held} bytes");
    // More of them end the connection.
    for at in 1000..5000u64 {
        client.frames(Space::Data, &stream(0, 1 + at * 2, b"x", false));
    }
    client.take();
    assert!(client.closed().is_some());
    others_are_served(&mut client);
}

#[test]
fn requests_that_are_reset_at_once_hold_nothing() {
    let mut client = ready();
    let key = client.key();
    let mut id = 0;
    for _ in 0..200 {
        for _ in 0..8 {
            client.frames(Space::Data, &[stream(id, 0, b"x", false), integers(&[4, id, 0, 1])].concat());
            id += 4;
        }
        let Some(connection) = client.server.connection(key) else { break };
        while let Some(stream) = connection.accept(Dir::Bi) {
            let mut bytes = Vec::new();
            connection.read(stream, 1000, &mut bytes);
            connection.reset(stream, 0x10c);
            connection.stop(stream, 0x10c);
        }
        client.take();
    }
    others_are_served(&mut client);
    // Nothing is acknowledged, so what the server has to say of them is kept; no more than the streams that were allowed.
    let held = client.server.connection(key).map_or(0, Connection::held_bytes);
    assert!(held < 256 * 1024, "{held} bytes");
}

#[test]
fn challenges_are_answered_within_bounds() {
    let mut client = ready();
    let before = client.received;
    let challenge = [&[0x1a][..], &[9; 8]].concat();
    for _ in 0..1000 {
        client.frames(Space::Data, &challenge.repeat(100));
    }
    client.take();
    let answers = client.seen.iter().filter(|seen| matches!(seen, Seen::PathResponse(_))).count();
    assert!(answers <= 16, "{answers} answers to what came before any left");
    assert!(client.received - before <= 16 * 1500);
    // To an address that is not validated no more than three times as much, and a datagram.
    client.from = "127.0.0.9:1".parse().unwrap();
    let (received, sent) = (client.received, client.sent);
    for _ in 0..50 {
        client.frames(Space::Data, &challenge);
        client.take();
    }
    client.pass(Duration::from_secs(5));
    let (received, sent) = (client.received - received, client.sent - sent);
    assert!(received <= 3 * sent + 1200, "{received} bytes for {sent}");
    others_are_served(&mut client);
}

#[test]
fn many_addresses_are_no_way_round_the_limit() {
    let mut client = ready();
    let home = client.from;
    let mut astray = 0;
    for at in 0..2000u16 {
        client.from = SocketAddr::from(([198, 51, (at >> 8) as u8, at as u8], 443));
        let probe = if at % 2 == 0 { [&[0x1a][..], &[9; 8]].concat() } else { vec![1] };
        client.frames(Space::Data, &probe);
        client.from = home;
        astray += client.take().iter().map(|(_, len)| len).sum::<usize>();
        client.pass(Duration::from_millis(50));
    }
    assert!(astray > 0);
    assert!(astray <= 3 * client.sent, "{astray} bytes for {}", client.sent);
    assert!(!client.events.iter().any(|(_, event)| *event == Event::Moved));
    others_are_served(&mut client);
}

/// A packet of the client's that somebody else sends first, from another address.
#[test]
fn a_spoofed_migration_changes_no_address() {
    let mut client = ready();
    let key = client.key();
    let home = client.from;
    let packet = client.packet(Space::Data, &stream(0, 0, b"GET /", false));
    let spoofed: SocketAddr = "203.0.113.7:9999".parse().unwrap();
    client.from = spoofed;
    client.give(&packet);
    let asked = packet.len();
    assert_eq!(client.server.connection(key).unwrap().remote(), home);
    client.from = home;
    let mut astray: usize = client.take().iter().map(|(_, len)| len).sum();
    for _ in 0..20 {
        client.pass(Duration::from_millis(500));
        astray += client.take().iter().map(|(_, len)| len).sum::<usize>();
    }
    assert!(astray <= 3 * asked.max(1200), "{astray} bytes to an address that has sent {asked}");
    assert!(!client.events.iter().any(|(_, event)| *event == Event::Moved));
    client.frames(Space::Data, &stream(0, 5, b" ", false));
    assert_eq!(client.server.connection(key).unwrap().remote(), home);
    others_are_served(&mut client);
}

/// Begins handshakes from many addresses that answer nothing; gives bytes sent and received, and the server.
fn flood(settings: Settings, count: u32) -> (usize, usize, Endpoint) {
    let (mut server, certificate) = server(settings);
    let (mut sent, mut received) = (0, 0);
    for at in 0..count {
        let mut client = Hostile::new(server, &certificate, "a.test", |usual| usual);
        client.from = SocketAddr::from(([10, (at >> 16) as u8, (at >> 8) as u8, at as u8], 4000));
        client.set_cid(&[&at.to_be_bytes()[..], &[1; 4]].concat());
        let hello = client.hello();
        for (offset, part) in [(0, &hello[..1000]), (1000, &hello[1000..])] {
            client.frames(Space::Initial, &crypto(offset, part));
        }
        client.take();
        sent += client.sent;
        received += client.received;
        assert!(client.received <= 3 * client.sent, "{} bytes for {}", client.received, client.sent);
        server = client.server;
    }
    (sent, received, server)
}

#[test]
fn a_flood_of_handshakes_is_put_off_by_retries() {
    let count = HALF_OPEN_RETRY as u32 + 200;
    let (sent, received, server) = flood(Settings::default(), count);
    assert_eq!((server.connections(), server.half_open()), (HALF_OPEN_RETRY, HALF_OPEN_RETRY));
    assert_eq!(server.counters().retries, 2 * 200);
    assert!(received <= 3 * sent);
}

#[test]
fn without_retries_a_flood_has_a_bound_and_an_end() {
    let settings = Settings { retry: Retry::Off, ..Settings::default() };
    let (_, _, mut server) = flood(settings, HALF_OPEN_MAX as u32 + 50);
    assert_eq!(server.half_open(), HALF_OPEN_MAX);
    let end = std::time::Instant::now() + HANDSHAKE_TIME_MAX + Duration::from_secs(1);
    server.handle_timeouts(end);
    assert_eq!((server.connections(), server.half_open()), (0, 0));
    assert_eq!(server.counters().stalled, HALF_OPEN_MAX as u64);
}

#[test]
fn nothing_is_let_in_while_memory_is_short() {
    let (mut server, certificate) = server(Settings::default());
    server.set_room(false);
    let mut client = Hostile::new(server, &certificate, "a.test", |usual| usual);
    assert!(!client.shake());
    assert_eq!((client.server.connections(), client.received), (0, 0));
}

/// RFC 9000 §14.1.
#[test]
fn small_first_packets_are_answered_by_nothing() {
    let mut client = hostile_with(Settings::default(), |usual| usual);
    let packet = client.packet(Space::Initial, &crypto(0, b"\x01"));
    for len in (0..1200).step_by(37) {
        client.give(&packet[..len]);
        client.take();
    }
    assert_eq!((client.received, client.server.connections()), (0, 0));
}

/// RFC 9000 §5.2: what nothing authenticates ends no connection.
fn bare_packets(client: &Hostile) -> Vec<(&'static str, Vec<u8>)> {
    // Would be CONNECTION_CLOSE if it were frames.
    let close = [&[0x1c, 0, 0, 0][..], &[0; 20]].concat();
    vec![
        ("a Retry", client.bare(0xf0, 1, &[9; 40])),
        ("a Retry with nothing in it", client.bare(0xff, 1, &[])),
        ("a Retry like a frame", client.bare(0xf0, 1, &close)),
        ("a Version Negotiation", client.bare(0xc0, 0, &[0x6b, 0x33, 0x43, 0xcf])),
        ("a Version Negotiation of nothing", client.bare(0x80, 0, &[])),
        ("a Version Negotiation like a frame", client.bare(0xc0, 0, &close)),
        ("an unknown version", client.bare(0xc0, 0x5a5a_5a5a, &[0; 1200])),
        (
            "an Initial that nobody has sealed",
            client.bare(0xc3, 1, &[&[0, 0x44, 0xb0][..], &[3; 1200]].concat()),
        ),
        (
            "an Initial with a token",
            client.bare(0xc3, 1, &[&[4, 1, 2, 3, 4, 0x44, 0xb0][..], &[3; 1200]].concat()),
        ),
        ("a 0-RTT packet", client.bare(0xd3, 1, &[&[0x40, 64][..], &[3; 64]].concat())),
        ("a Handshake packet", client.bare(0xe3, 1, &[&[0x40, 64][..], &[3; 64]].concat())),
        ("a short packet", [&[0x43][..], &client.bare(0, 0, &[])[6..14], &[5; 60]].concat()),
    ]
}

/// Gives each of them alone and behind a packet of the client's, from its address and from another one.
fn forge(client: &mut Hostile, space: Space) {
    let home = client.from;
    for (_, packet) in bare_packets(client) {
        for from in [home, "203.0.113.7:9999".parse().unwrap()] {
            client.from = from;
            client.give(&packet);
            client.from = home;
        }
        let sealed = client.packet(space, &[1]);
        client.give(&[sealed, packet].concat());
    }
}

#[test]
fn forged_packets_end_no_handshake() {
    let mut client = hostile_with(Settings::default(), |usual| usual);
    let hello = client.hello();
    client.frames(Space::Initial, &crypto(0, &hello[..1000]));
    // The client knows the ID that the server has chosen from its first acknowledgement on, and so may others.
    client.take();
    forge(&mut client, Space::Initial);
    client.frames(Space::Initial, &crypto(1000, &hello[1000..]));
    assert!(client.goes_on(), "{:?}", client.seen);
    forge(&mut client, Space::Data);
    client.pass(Duration::from_secs(1));
    assert_eq!(client.closed(), None);
    assert_eq!((client.server.connections(), client.server.half_open()), (1, 0));
    client.frames(Space::Data, &stream(0, 0, b"GET /", true));
    let key = client.key();
    assert_eq!(client.server.connection(key).unwrap().accept(Dir::Bi), Some(0));
    others_are_served(&mut client);
}

#[test]
fn damaged_packets_end_no_handshake() {
    let mut client = hostile_with(Settings::default(), |usual| usual);
    client.is_damaged_first = true;
    assert!(client.shake(), "{:?}", client.seen);
    client.frames(Space::Data, &stream(0, 0, b"GET /", true));
    client.take();
    assert_eq!(client.closed(), None);
    assert_eq!(client.server.connections(), 1);
    others_are_served(&mut client);
}

/// RFC 9000 §10.1, §10.2: nor do they hold a connection that is silent, or change how one ends.
#[test]
fn forged_packets_hold_no_connection() {
    let mut client = ready();
    let mut silent = Duration::ZERO;
    while client.server.connections() > 0 && silent < Duration::from_mins(10) {
        for (_, packet) in bare_packets(&client) {
            client.give(&packet);
        }
        client.pass(Duration::from_secs(5));
        silent += Duration::from_secs(5);
    }
    assert_eq!(client.server.connections(), 0, "after {silent:?}");
    let mut client = ready();
    client.frames(Space::Data, &[0x1e]);
    for (_, packet) in bare_packets(&client) {
        client.give(&packet);
    }
    client.take();
    assert_eq!(client.closed(), Some(PROTOCOL_VIOLATION), "{:?}", client.seen);
    // It still answers what the client sends, since the client has not said that it knows of the end.
    client.seen.clear();
    client.frames(Space::Data, &[1]);
    client.take();
    assert_eq!(client.closed(), Some(PROTOCOL_VIOLATION), "{:?}", client.seen);
}
