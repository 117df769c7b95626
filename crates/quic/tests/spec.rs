//! What h3spec asks of a server's QUIC and TLS, by clients that break one rule each. HTTP/3's part of it is in the tests of the
//! whole server (`http3_attacks.rs`), and so is what `attacks.rs` beside this has already.

mod hostile;
mod pair;

use brisk_quic::{Dir, Endpoint, Event, Place, Read, Settings};
use hostile::{Hostile, Seen, Space, crypto, integers, parameters, stream};
use pair::{Hosts, Rule, context, keys};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const STREAM_STATE: u64 = 0x5;
const FRAME_ENCODING: u64 = 0x7;
const TRANSPORT_PARAMETER: u64 = 0x8;
const PROTOCOL_VIOLATION: u64 = 0xa;
/// RFC 9001 §4.8: alerts of TLS.
const UNEXPECTED_MESSAGE: u64 = 0x10a;
const MISSING_EXTENSION: u64 = 0x16d;
const NO_APPLICATION_PROTOCOL: u64 = 0x178;

fn server(early_data: bool) -> (Endpoint, Vec<u8>) {
    let (context, certificate) = context("a.test", early_data);
    let rules = Mutex::new(vec![("a.test", Rule::Begin(context))]);
    let hosts = Arc::new(Hosts { rules, asked: Mutex::default() });
    let mut server = Endpoint::new(Place { thread: 0, threads: 1, generation: 0 }, keys(), hosts);
    server.listen(3, Settings::default());
    (server, certificate)
}

fn client(alpn: &[&str], change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Hostile {
    let (server, certificate) = server(false);
    Hostile::with_alpn(server, &certificate, "a.test", alpn, change)
}

/// Sends a ClientHello, and hears what comes.
fn begin(client: &mut Hostile, hello: &[u8]) {
    let (first, second) = hello.split_at(hello.len().min(1000));
    client.frames(Space::Initial, &crypto(0, first));
    client.frames(Space::Initial, &crypto(first.len() as u64, second));
    client.take();
}

/// With the keys of the handshake, which is not complete.
fn in_handshake() -> Hostile {
    let mut client = client(&["h3"], |usual| usual);
    let hello = client.hello();
    begin(&mut client, &hello);
    client
}

fn ready() -> Hostile {
    let mut client = client(&["h3"], |usual| usual);
    assert!(client.shake(), "{:?}", client.seen);
    client
}

fn is_closed_with(mut client: Hostile, what: &str, code: u64) {
    client.take();
    client.pass(Duration::from_secs(1));
    assert_eq!(client.closed(), Some(code), "{what}: {:?}", client.seen);
    assert_eq!(client.server.counters().panics, 0);
}

/// RFC 9000 §7.4, §18.2.
#[test]
fn parameters_that_no_client_may_send() {
    let own = *b"hostile!";
    let usual = parameters(&own);
    let number = |id: u64, value: u64| {
        let value = integers(&[value]);
        [usual.clone(), integers(&[id, value.len() as u64]), value].concat()
    };
    let bytes = |id: u64, len: usize| [usual.clone(), integers(&[id, len as u64]), vec![1; len]].concat();
    let without_own = usual[..usual.len() - own.len() - 2].to_vec();
    let cases = [
        ("no initial_source_connection_id", without_own.clone()),
        ("another initial_source_connection_id", [&without_own[..], &[0x0f, 3, 1, 2, 3]].concat()),
        ("original_destination_connection_id", bytes(0x00, 8)),
        ("preferred_address", bytes(0x0d, 4 + 2 + 16 + 2 + 1 + 4 + 16)),
        ("retry_source_connection_id", bytes(0x10, 8)),
        ("stateless_reset_token", bytes(0x02, 16)),
        ("max_udp_payload_size below 1200", number(0x03, 1199)),
        ("ack_delay_exponent above 20", number(0x0a, 21)),
        ("max_ack_delay of 2^14", number(0x0b, 1 << 14)),
        ("active_connection_id_limit of 1", number(0x0e, 1)),
        ("one parameter twice", number(0x01, 30_000)),
    ];
    for (what, parameters) in cases {
        let mut client = client(&["h3"], |_| parameters);
        assert!(!client.shake(), "{what}");
        is_closed_with(client, what, TRANSPORT_PARAMETER);
    }
}

/// RFC 9000 §17.2, §17.3.1, §12.4.
#[test]
fn packets_that_nobody_may_send() {
    for bits in [0x04, 0x08, 0x0c] {
        let mut client = in_handshake();
        let packet = client.sealed(Space::Handshake, bits, vec![1, 0, 0, 0]);
        client.give(&packet);
        is_closed_with(client, "reserved bits of a long header", PROTOCOL_VIOLATION);
    }
    for bits in [0x08, 0x10, 0x18] {
        let mut client = ready();
        let packet = client.sealed(Space::Data, bits, vec![1, 0, 0, 0]);
        client.give(&packet);
        is_closed_with(client, "reserved bits of a short header", PROTOCOL_VIOLATION);
    }
    let mut client = in_handshake();
    let packet = client.sealed(Space::Handshake, 0, Vec::new());
    client.give(&packet);
    is_closed_with(client, "no frame in a Handshake packet", PROTOCOL_VIOLATION);
    let mut client = ready();
    let packet = client.sealed(Space::Data, 0, Vec::new());
    client.give(&packet);
    is_closed_with(client, "no frame", PROTOCOL_VIOLATION);
    let mut client = in_handshake();
    client.frames(Space::Handshake, &[&[0x1a][..], &[9; 8]].concat());
    is_closed_with(client, "PATH_CHALLENGE in a Handshake packet", PROTOCOL_VIOLATION);
}

/// RFC 9000 §19.
#[test]
fn frames_about_streams_and_ids_that_are_none() {
    let id = |len: u8| [integers(&[0x18, 1, 0]), vec![len], vec![1; usize::from(len)], vec![2; 16]].concat();
    let cases: [(&str, Vec<u8>, u64); 10] = [
        ("STOP_SENDING of a stream that the server has not opened", integers(&[0x05, 1, 0]), STREAM_STATE),
        ("MAX_STREAM_DATA of one that it has not opened", integers(&[0x11, 1, 9]), STREAM_STATE),
        ("MAX_STREAM_DATA of one that only it receives", integers(&[0x11, 2, 9]), STREAM_STATE),
        ("STREAM_DATA_BLOCKED of one that only it sends", integers(&[0x15, 3, 9]), STREAM_STATE),
        ("RESET_STREAM of one that only it sends", integers(&[0x04, 3, 0, 0]), STREAM_STATE),
        ("MAX_STREAMS beyond 2^60", integers(&[0x13, (1 << 60) + 1]), FRAME_ENCODING),
        ("STREAMS_BLOCKED beyond 2^60", integers(&[0x16, (1 << 60) + 1]), FRAME_ENCODING),
        ("an ID without a byte", id(0), FRAME_ENCODING),
        ("an ID of 21 bytes", id(21), FRAME_ENCODING),
        ("an acknowledgement below zero", integers(&[2, 1, 0, 0, 5]), FRAME_ENCODING),
    ];
    for (what, frame, code) in cases {
        let mut client = ready();
        client.frames(Space::Data, &frame);
        is_closed_with(client, what, code);
    }
}

/// A ClientHello without one of its extensions.
fn without_extension(hello: &[u8], kind: u16) -> Vec<u8> {
    let number =
        |at: usize, len: usize| hello[at..at + len].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    // The message's type and length, version, random; then session, suites and compressions, each with its length.
    let mut at = 4 + 2 + 32;
    at += 1 + number(at, 1);
    at += 2 + number(at, 2);
    at += 1 + number(at, 1);
    let (before, mut rest) = (at, at + 2);
    let mut extensions = Vec::new();
    while rest < hello.len() {
        let end = rest + 4 + number(rest + 2, 2);
        if number(rest, 2) != usize::from(kind) {
            extensions.extend_from_slice(&hello[rest..end]);
        }
        rest = end;
    }
    let length = (extensions.len() as u16).to_be_bytes();
    let body = [&hello[4..before], &length, &extensions].concat();
    [&[1, 0][..], &(body.len() as u16).to_be_bytes(), &body].concat()
}

/// RFC 9001 §4.4, §6, §8.
#[test]
fn handshakes_that_are_none() {
    let key_update = [24, 0, 0, 1, 0];
    let mut early = in_handshake();
    early.frames(Space::Handshake, &crypto(0, &key_update));
    is_closed_with(early, "KeyUpdate in the handshake", UNEXPECTED_MESSAGE);
    let mut late = ready();
    late.frames(Space::Data, &crypto(0, &key_update));
    is_closed_with(late, "KeyUpdate behind the handshake", UNEXPECTED_MESSAGE);
    let mut end = in_handshake();
    end.frames(Space::Handshake, &crypto(0, &[5, 0, 0, 0]));
    is_closed_with(end, "EndOfEarlyData", UNEXPECTED_MESSAGE);
    for alpn in [&[][..], &["h2"][..]] {
        let mut other = client(alpn, |usual| usual);
        let hello = other.hello();
        begin(&mut other, &hello);
        is_closed_with(other, "no protocol in common", NO_APPLICATION_PROTOCOL);
    }
    let mut without = client(&["h3"], |usual| usual);
    let hello = without_extension(&without.hello(), 57);
    begin(&mut without, &hello);
    is_closed_with(without, "no quic_transport_parameters", MISSING_EXTENSION);
}

/// RFC 9000 §12.4, §12.5: nothing of the handshake, and no close of an application's, goes with 0-RTT packets.
#[test]
fn frames_that_may_not_be_early() {
    let visit = || {
        let (server, certificate) = server(true);
        let mut first = Hostile::new(server, &certificate, "a.test", |usual| usual);
        assert!(first.shake(), "{:?}", first.seen);
        // The session's ticket.
        first.take();
        let mut again = first.again("a.test");
        again.set_cid(&[9; 8]);
        let hello = again.hello();
        let (one, two) = hello.split_at(hello.len().min(1000));
        again.frames(Space::Initial, &crypto(0, one));
        again.frames(Space::Initial, &crypto(one.len() as u64, two));
        again
    };
    let mut allowed = visit();
    let ping = allowed.early(&[1]).expect("the session allows it");
    allowed.give(&ping);
    assert!(allowed.goes_on(), "{:?}", allowed.seen);
    for (what, frames) in [
        ("CRYPTO", crypto(0, &[5, 0, 0, 0])),
        ("CONNECTION_CLOSE of an application's", integers(&[0x1d, 0x100, 0])),
    ] {
        let mut client = visit();
        let packet = client.early(&frames).expect("the session allows it");
        client.give(&packet);
        is_closed_with(client, what, PROTOCOL_VIOLATION);
    }
}

/// RFC 9000 §12.2: a client may say much in the datagram that completes its handshake, QPACK's stream in pieces among it. A stream is read when
/// it was accepted, so nothing is told of it before.
#[test]
fn streams_are_opened_before_they_are_readable() {
    let mut client = in_handshake();
    let pieces =
        [stream(2, 0, b"\x02", false), stream(2, 1, b"more", false), stream(0, 0, b"ask", true)].concat();
    client.goes_on_with(&pieces);
    client.take();
    let at = |wanted: Event| client.events.iter().position(|(_, event)| *event == wanted);
    let opened = at(Event::Opened(Dir::Uni)).expect("the handshake is complete");
    assert!(at(Event::Readable(2)).is_none_or(|readable| readable > opened), "{:?}", client.events);
    let key = client.key();
    let connection = client.server.connection(key).unwrap();
    let mut bytes = Vec::new();
    assert_eq!(connection.accept(Dir::Uni), Some(2));
    assert_eq!(connection.read(2, 100, &mut bytes), Read::Some(5));
    assert_eq!(bytes, b"\x02more");
}

/// RFC 9001 §6.6: keys are good for millions of packets. A client that knows nothing of updates, such as this one, reads all of a thousand.
#[test]
fn keys_are_not_updated_before_they_are_worn() {
    let mut client = ready();
    for _ in 0..1200 {
        client.frames(Space::Data, &[1]);
        client.frames(Space::Data, &[1]);
        client.take();
    }
    client.frames(Space::Data, &[&[0x1a][..], b"the-last"].concat());
    client.take();
    assert!(client.seen.contains(&Seen::PathResponse(*b"the-last")), "{:?}", client.seen);
}
