//! Handshakes, streams, addresses and ends of connections, without sockets.

mod pair;

use brisk_quic::limits::{
    FIRST_MAX, LOCAL_PAYLOAD_BYTES, RESET_INTERVAL, RESETS_AT_ONCE_MAX, SEND_WINDOW_BYTES_MAX,
    SEND_WINDOW_BYTES_MIN,
};
use brisk_quic::{Choice, Closed, Datagram, Dir, Endpoint, Event, Read, Retry, Settings, Written};
use pair::{Rule, client_address, context, pair, simple};
use quinn_proto::{EndpointConfig, VarInt};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Opens a stream of the client's and writes to it.
fn ask(pair: &mut pair::Pair, bytes: &[u8]) -> quinn_proto::StreamId {
    let id = pair.client().streams().open(quinn_proto::Dir::Bi).unwrap();
    pair.client().send_stream(id).write(bytes).unwrap();
    pair.client().send_stream(id).finish().unwrap();
    id
}

fn answer(pair: &mut pair::Pair, bytes: &[u8]) -> u64 {
    let key = pair.key();
    let conn = pair.server.connection(key).unwrap();
    let id = conn.accept(Dir::Bi).unwrap();
    let mut request = Vec::new();
    assert!(matches!(conn.read(id, 1000, &mut request), Read::End(_)));
    assert_eq!(conn.read(id, 1000, &mut request), Read::Gone);
    assert_eq!(conn.write(id, bytes), Written::Some(bytes.len()));
    assert!(conn.finish(id));
    id
}

fn received(pair: &mut pair::Pair, id: quinn_proto::StreamId) -> Vec<u8> {
    let mut out = Vec::new();
    let mut stream = pair.client().recv_stream(id);
    let mut chunks = stream.read(true).unwrap();
    while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
        out.extend_from_slice(&chunk.bytes);
    }
    let _ = chunks.finalize();
    out
}

#[test]
fn a_request_is_answered() {
    let mut pair = simple();
    pair.connect("a.test");
    pair.settle();
    assert!(pair.has(&Event::Ready) && pair.has(&Event::Established));
    let key = pair.key();
    let conn = pair.server.connection(key).unwrap();
    let agreed = conn.agreed().unwrap();
    assert_eq!(
        (agreed.alpn.as_deref(), agreed.version, agreed.is_resumed),
        (Some(&b"h3"[..]), "TLSv1.3", false)
    );
    assert_eq!(*conn.take_kept().unwrap().downcast::<&str>().unwrap(), "a.test");
    assert_eq!((conn.remote(), conn.is_validated(), conn.is_early()), (client_address(), true, false));
    let id = ask(&mut pair, b"GET /\r\n");
    pair.settle();
    assert_eq!(answer(&mut pair, b"hello"), 0);
    pair.settle();
    assert_eq!(received(&mut pair, id), b"hello");
    let counters = *pair.server.counters();
    assert_eq!((counters.begun, counters.completed, counters.panics), (1, 1, 0));
}

#[test]
fn the_host_is_chosen_by_the_name_in_two_packets() {
    let ((a, cert_a), (b, cert_b)) = (context("a.test", false), context("b.test", false));
    let rules = vec![("a.test", Rule::Begin(a)), ("b.test", Rule::Begin(b))];
    let mut pair = pair(Settings::default(), rules, &[cert_a, cert_b]);
    pair.connect("b.test");
    let first = pair.take_from_client();
    assert_eq!(first.len(), 2, "a ClientHello with keys of today needs two packets");
    pair.give_to_server(&first[0]);
    assert!(pair.hosts.asked.lock().unwrap().is_empty());
    pair.give_to_server(&first[1]);
    assert_eq!(pair.hosts.asked.lock().unwrap().len(), 1);
    let out = pair.take_from_server();
    out.iter().for_each(|(_, bytes)| pair.give_to_client(bytes));
    pair.settle();
    assert!(pair.has(&Event::Established));
}

#[test]
fn a_name_without_a_server_is_refused_by_an_alert() {
    let mut pair = simple();
    pair.connect("c.test");
    pair.settle();
    let lost = pair.client_events.iter().find_map(|event| match event {
        quinn_proto::Event::ConnectionLost { reason } => Some(reason.to_string()),
        _ => None,
    });
    assert!(lost.unwrap().contains("error 112"), "unrecognized_name");
    assert_eq!(pair.server.counters().completed, 0);
}

#[test]
fn a_handshake_waits_for_its_certificate() {
    let (context, certificate) = context("a.test", false);
    let mut pair = pair(Settings::default(), vec![("a.test", Rule::Wait)], &[certificate]);
    pair.connect("a.test");
    pair.settle();
    let key = pair.key();
    assert!(pair.has(&Event::Undecided) && !pair.has(&Event::Ready));
    let kept = pair.server.connection(key).unwrap().take_kept().unwrap();
    assert_eq!(*kept.downcast::<&str>().unwrap(), "a file");
    let now = pair.now;
    pair.server.decide(now, key, Choice::Begin(context, Box::new(())));
    pair.settle();
    assert!(pair.has(&Event::Ready) && pair.has(&Event::Established));
}

#[test]
fn a_handshake_that_has_waited_can_be_refused() {
    let mut pair = pair(Settings::default(), vec![("a.test", Rule::Wait)], &[]);
    pair.connect("a.test");
    pair.settle();
    let (key, now) = (pair.key(), pair.now);
    let wrong = brisk_tls::NoHello { alert: 80, reason: "no certificate" };
    pair.server.decide(now, key, Choice::Refuse(wrong));
    pair.settle();
    let closed =
        pair.events.iter().any(|(_, event)| matches!(event, Event::Closed(Closed::Violation(0x150, _))));
    assert!(closed, "{:?}", pair.events);
    let told = pair.client_events.iter().any(|event| format!("{event:?}").contains("50"));
    assert!(told, "{:?}", pair.client_events);
}

#[test]
fn retry_validates_the_address_first() {
    let (context, certificate) = context("a.test", false);
    let settings = Settings { retry: Retry::On, ..Settings::default() };
    let mut pair = pair(settings, vec![("a.test", Rule::Begin(context))], &[certificate]);
    pair.connect("a.test");
    pair.settle();
    assert!(pair.has(&Event::Established));
    // Nothing is kept before the address is validated, so each packet of the ClientHello is answered (RFC 9000 §17.2.5).
    assert_eq!((pair.server.counters().retries, pair.server.counters().begun), (2, 1));
}

#[test]
fn early_requests_are_held_until_the_address_is_validated() {
    let mut pair = simple();
    pair.connect("a.test");
    pair.settle();
    // The second visit, from an address that the token is not for: its first flight has a request.
    pair.events.clear();
    pair.from = "127.0.0.3:5555".parse().unwrap();
    pair.connect("a.test");
    assert!(pair.client().has_0rtt());
    ask(&mut pair, b"GET /early\r\n");
    for bytes in pair.take_from_client() {
        pair.give_to_server(&bytes);
    }
    let key = pair.key();
    assert!(pair.has(&Event::Ready) && !pair.has(&Event::Opened(Dir::Bi)), "{:?}", pair.events);
    let conn = pair.server.connection(key).unwrap();
    assert!(conn.is_early() && !conn.is_validated() && conn.accept(Dir::Bi).is_none());
    pair.settle();
    assert!(pair.client().accepted_0rtt());
    assert!(pair.has(&Event::Opened(Dir::Bi)));
    let conn = pair.server.connection(key).unwrap();
    assert!(!conn.is_early() && conn.is_validated() && conn.accept(Dir::Bi) == Some(0));
}

#[test]
fn a_token_lets_early_requests_through_at_once() {
    let mut pair = simple();
    let store = std::sync::Arc::new(quinn_proto::TokenMemoryCache::default());
    for visit in 0..2 {
        let mut config = quinn_proto::ClientConfig::new(pair.client_config.clone());
        config.token_store(store.clone());
        let (now, to) = (pair.now, pair::server_address());
        pair.client = Some(pair.client_endpoint.connect(now, config, to, "a.test").unwrap());
        if visit == 0 {
            pair.settle();
        }
    }
    pair.events.clear();
    ask(&mut pair, b"GET /early\r\n");
    for bytes in pair.take_from_client() {
        pair.give_to_server(&bytes);
    }
    let key = pair.key();
    let conn = pair.server.connection(key).unwrap();
    assert!(conn.is_early() && conn.is_validated() && conn.accept(Dir::Bi) == Some(0));
}

/// In one wake-up come a packet that validates the address, the end of the handshake, and a request behind it: who looks for streams
/// at the first of them finds the request, which is no replay.
#[test]
fn the_end_of_the_handshake_is_told_before_streams() {
    let mut pair = simple();
    pair.connect("a.test");
    pair.settle();
    // The second visit has a token, so its address is validated from its first packet on.
    pair.events.clear();
    pair.connect("a.test");
    for _ in 0..3 {
        let (now, remote) = (pair.now, pair.from);
        if !pair.client().is_handshaking() {
            ask(&mut pair, b"GET /\r\n");
        }
        for bytes in pair.take_from_client() {
            let local = Some(pair::server_address());
            let datagram = Datagram { socket: pair::SOCKET, remote, local, ecn: None, bytes: &bytes };
            pair.server.receive(now, datagram);
        }
        while pair.server.begin(now) {}
        while let Some(transmit) = pair.server.poll_transmit(now) {
            let size = transmit.segment.unwrap_or(transmit.bytes.len());
            transmit.bytes.chunks(size).for_each(|bytes| pair.give_to_client(bytes));
        }
    }
    pair.collect();
    let at = |wanted: &Event| pair.events.iter().position(|(_, event)| event == wanted);
    let (ready, established, opened) =
        (at(&Event::Ready), at(&Event::Established), at(&Event::Opened(Dir::Bi)));
    assert!(ready.is_some() && ready < established && established < opened, "{:?}", pair.events);
}

/// A client is served while others ask to begin: it neither waits for them, nor does what they send count before it is their turn.
#[test]
fn who_is_known_is_served_before_who_begins() {
    let mut pair = simple();
    pair.connect("a.test");
    pair.settle();
    let (known, now) = (pair.from, pair.now);
    let receive = |server: &mut Endpoint, remote, bytes: &[u8]| {
        let local = Some(pair::server_address());
        server.receive(now, Datagram { socket: pair::SOCKET, remote, local, ecn: None, bytes });
    };
    // As many first packets as may wait, and ten more.
    let mut stranger = simple();
    stranger.connect("a.test");
    let first = stranger.take_from_client().remove(0);
    let before = *pair.server.counters();
    for at in 0..FIRST_MAX as u16 + 10 {
        receive(&mut pair.server, SocketAddr::from(([127, 0, 1, 1], 1000 + at)), &first);
    }
    ask(&mut pair, b"GET /\r\n");
    for bytes in pair.take_from_client() {
        receive(&mut pair.server, known, &bytes);
    }
    pair.collect();
    assert!(pair.has(&Event::Opened(Dir::Bi)));
    answer(&mut pair, b"at once");
    let sent = pair.take_from_server();
    assert!(!sent.is_empty() && sent.iter().all(|(to, _)| *to == known), "{sent:?}");
    let counters = *pair.server.counters();
    assert_eq!((counters.begun - before.begun, counters.refused - before.refused), (0, 10));
    // Now those that have just come.
    assert!(pair.server.has_firsts());
    while pair.server.begin(now) {}
    assert!(!pair.server.has_firsts());
    assert_eq!(pair.server.counters().begun - before.begun, 1, "they have one connection ID");
    let sent = pair.take_from_server();
    assert!(sent.iter().any(|(to, _)| *to != known), "{sent:?}");
}

/// What waits belongs to another process when this one takes nothing new.
#[test]
fn what_has_not_begun_is_given_back() {
    let mut pair = simple();
    pair.connect("a.test");
    let packets = pair.take_from_client();
    let (now, remote) = (pair.now, pair.from);
    for bytes in &packets {
        pair.server.receive(now, Datagram { socket: pair::SOCKET, remote, local: None, ecn: None, bytes });
    }
    let mut given = Vec::new();
    pair.server.give_back(|datagram| {
        assert_eq!((datagram.socket, datagram.remote, datagram.local), (pair::SOCKET, remote, None));
        given.push(datagram.bytes.to_vec());
    });
    assert_eq!(given, packets);
    assert!(!pair.server.begin(now) && pair.server.connections() == 0);
}

/// What follows a Retry begins a connection, so it waits for its turn, in a line of its own: forged packets do not crowd it out, nor does it
/// keep open connections waiting. The packets of a handshake that goes on do not wait.
#[test]
fn what_follows_a_retry_waits_and_a_handshake_goes_on_at_once() {
    let settings = Settings { retry: Retry::On, ..Settings::default() };
    let (context, certificate) = context("a.test", true);
    let mut pair = pair::pair(settings, vec![("a.test", Rule::Begin(context))], &[certificate]);
    pair.connect("a.test");
    for bytes in pair.take_from_client() {
        pair.give_to_server(&bytes);
    }
    for (_, bytes) in pair.take_from_server() {
        pair.give_to_client(&bytes);
    }
    let (now, remote) = (pair.now, pair.from);
    let receive = |server: &mut Endpoint, remote, bytes: &[u8]| {
        let local = Some(pair::server_address());
        server.receive(now, Datagram { socket: pair::SOCKET, remote, local, ecn: None, bytes });
    };
    // As many forged packets as may wait.
    let mut stranger = simple();
    stranger.connect("a.test");
    let forged = stranger.take_from_client().remove(0);
    for at in 0..FIRST_MAX as u16 {
        receive(&mut pair.server, SocketAddr::from(([127, 0, 1, 1], 1000 + at)), &forged);
    }
    let before = *pair.server.counters();
    for bytes in pair.take_from_client() {
        receive(&mut pair.server, remote, &bytes);
    }
    assert_eq!((pair.server.counters().begun, pair.server.counters().refused), (0, before.refused));
    for _ in 0..4 {
        assert!(pair.server.begin(now));
    }
    assert_eq!(pair.server.counters().begun, 1, "it has every second turn");
    while pair.server.begin(now) {}
    pair.collect();
    for (to, bytes) in pair.take_from_server() {
        if to == remote {
            pair.give_to_client(&bytes);
        }
    }
    let goes_on = pair.take_from_client();
    assert!(!goes_on.is_empty());
    for bytes in goes_on {
        receive(&mut pair.server, remote, &bytes);
    }
    assert!(!pair.server.has_firsts());
}

#[test]
fn a_spoofed_address_never_counts() {
    let mut pair = simple();
    pair.connect("a.test");
    pair.settle();
    let key = pair.key();
    // A packet of the client's comes from elsewhere (RFC 9000 §9.3.2): the path there is not validated.
    let spoofed = "203.0.113.9:9".parse().unwrap();
    pair.from = spoofed;
    ask(&mut pair, b"GET /\r\n");
    for bytes in pair.take_from_client() {
        pair.give_to_server(&bytes);
    }
    let conn = pair.server.connection(key).unwrap();
    assert_eq!(conn.remote(), client_address());
    assert!(!pair.has(&Event::Moved));
    // What is sent there is at most three times what came from there, however long it lasts.
    let came: usize = pair.to_server.last().unwrap().len();
    let mut sent = 0;
    for _ in 0..20 {
        sent += pair
            .take_from_server()
            .iter()
            .filter(|(to, _)| *to == spoofed)
            .map(|(_, b)| b.len())
            .sum::<usize>();
        let Some(next) = pair.server.next_timeout() else { break };
        pair.now = pair.now.max(next);
        if pair.now.duration_since(next) > Duration::from_mins(1) {
            break;
        }
        let now = pair.now;
        pair.server.handle_timeouts(now);
    }
    assert!(sent <= 3 * came.max(1200), "{sent} bytes for {came}");
}

/// The timer of losses was set for what is in flight on the path before: on the new one nothing is.
#[test]
fn a_copied_packet_ends_no_connection_whose_answer_is_under_way() {
    let mut pair = simple();
    pair.connect("a.test");
    pair.settle();
    let id = ask(&mut pair, b"GET /\r\n");
    for bytes in pair.take_from_client() {
        pair.give_to_server(&bytes);
    }
    answer(&mut pair, b"hello");
    assert!(!pair.take_from_server().is_empty(), "it is lost");
    // Somebody else has a copy of what the client sends, and is faster.
    ask(&mut pair, b"GET /copied\r\n");
    let copied = pair.take_from_client();
    pair.from = "203.0.113.9:9".parse().unwrap();
    copied.iter().for_each(|bytes| pair.give_to_server(bytes));
    let end = pair.now + Duration::from_secs(2);
    while let Some(next) = pair.server.next_timeout().filter(|next| *next < end) {
        let _ = pair.take_from_server();
        pair.now = pair.now.max(next);
        let now = pair.now;
        pair.server.handle_timeouts(now);
        pair.collect();
    }
    assert_eq!(pair.server.counters().panics, 0);
    pair.from = client_address();
    pair.pass(Duration::from_secs(10));
    assert_eq!(received(&mut pair, id), b"hello");
    assert_eq!((pair.server.counters().migrations, pair.has(&Event::Moved)), (0, false));
}

/// A challenge may go to an address that is anybody's; what was asked for stays behind it.
#[test]
fn the_first_challenge_travels_alone() {
    let mut pair = simple();
    pair.connect("a.test");
    pair.settle();
    let id = ask(&mut pair, b"GET /\r\n");
    let asked = pair.take_from_client();
    pair.from = "127.0.0.7:7".parse().unwrap();
    asked.iter().for_each(|bytes| pair.give_to_server(bytes));
    answer(&mut pair, b"hello");
    let there: Vec<_> = pair.take_from_server().into_iter().filter(|(to, _)| *to == pair.from).collect();
    pair.give_to_client(&there[0].1);
    assert_eq!(received(&mut pair, id), b"");
    there[1..].iter().for_each(|(_, bytes)| pair.give_to_client(bytes));
    pair.settle();
    assert_eq!(received(&mut pair, id), b"hello");
    assert!(pair.has(&Event::Moved));
}

/// RFC 9002 §6.2.4: a client that is slow to acknowledge is asked whether tickets have come, and not sent them again.
#[test]
fn tickets_are_no_probes() {
    let mut pair = simple();
    pair.connect("a.test");
    // Until the handshake is complete, but for its last flight.
    let mut last = Vec::new();
    while !pair.has(&Event::Established) {
        pair.take_from_client().iter().for_each(|bytes| pair.give_to_server(bytes));
        last = pair.take_from_server();
        if !pair.has(&Event::Established) {
            last.iter().for_each(|(_, bytes)| pair.give_to_client(bytes));
        }
    }
    let largest = last.iter().map(|(_, bytes)| bytes.len()).max().unwrap_or_default();
    assert!(largest > 200, "tickets are in it: {largest}");
    for _ in 0..3 {
        let next = pair.server.next_timeout().unwrap();
        pair.now = pair.now.max(next);
        let now = pair.now;
        pair.server.handle_timeouts(now);
        for (_, bytes) in pair.take_from_server() {
            assert!(bytes.len() < 100, "{} bytes ask", bytes.len());
        }
    }
}

#[test]
fn a_client_that_moves_is_known_by_its_new_address() {
    let mut pair = simple();
    pair.connect("a.test");
    pair.settle();
    let key = pair.key();
    pair.from = "127.0.0.2:6666".parse().unwrap();
    ask(&mut pair, b"GET /\r\n");
    pair.settle();
    assert!(pair.has(&Event::Moved));
    assert_eq!(pair.server.connection(key).unwrap().remote(), pair.from);
    assert_eq!(pair.server.counters().migrations, 1);
}

#[test]
fn what_is_closed_is_told_and_forgotten() {
    let mut pair = simple();
    pair.connect("a.test");
    pair.settle();
    let (key, now) = (pair.key(), pair.now);
    pair.client().close(now, VarInt::from_u32(7), b"enough"[..].into());
    pair.settle();
    assert!(pair.has(&Event::Closed(Closed::ByApplication(7, "enough".into()))));
    assert!(pair.server.connection(key).is_none());
    pair.pass(Duration::from_mins(1));
    assert_eq!(pair.server.connections(), 0);
    assert!(pair.server.next_timeout().is_none());
    // Closed here: the client hears it, and no event comes back.
    pair.connect("a.test");
    pair.events.clear();
    pair.settle();
    let (key, now) = (pair.key(), pair.now);
    pair.events.clear();
    pair.server.connection(key).unwrap().close(now, 0x100, "bye");
    pair.settle();
    assert!(pair.client().is_closed() && pair.events.is_empty());
    pair.pass(Duration::from_mins(1));
    assert_eq!(pair.server.connections(), 0);
}

#[test]
fn a_silent_client_times_out() {
    let mut pair = simple();
    pair.connect("a.test");
    pair.settle();
    pair.client = None;
    pair.now += Duration::from_secs(80);
    let now = pair.now;
    pair.server.handle_timeouts(now);
    pair.collect();
    assert!(pair.has(&Event::Closed(Closed::TimedOut)), "{:?}", pair.events);
    assert_eq!((pair.server.connections(), pair.server.counters().timeouts), (0, 1));
}

#[test]
fn streams_are_allowed_as_they_are_used() {
    let mut pair = simple();
    pair.connect("a.test");
    pair.settle();
    let key = pair.key();
    let mut opened = 0;
    for _ in 0..20 {
        while let Some(id) = pair.client().streams().open(quinn_proto::Dir::Bi) {
            pair.client().send_stream(id).write(b"x").unwrap();
            opened += 1;
        }
        pair.settle();
        let conn = pair.server.connection(key).unwrap();
        while conn.accept(Dir::Bi).is_some() {}
        pair.settle();
    }
    assert_eq!(opened, 128);
}

#[test]
fn windows_bound_what_a_client_makes_us_hold() {
    let mut pair = simple();
    pair.connect("a.test");
    pair.settle();
    let key = pair.key();
    let mut written = 0;
    for _ in 0..40 {
        let Some(id) = pair.client().streams().open(quinn_proto::Dir::Bi) else { break };
        for _ in 0..200 {
            if let Ok(count) = pair.client().send_stream(id).write(&[1; 10_000]) {
                written += count;
            }
            pair.settle();
        }
        let conn = pair.server.connection(key).unwrap();
        while conn.accept(Dir::Bi).is_some() {}
        pair.settle();
    }
    let conn = pair.server.connection(key).unwrap();
    let held = conn.held_bytes();
    assert!((1 << 20..(1 << 20) + 256 * 1024).contains(&held), "{held} bytes held, {written} written");
}

#[test]
fn garbage_is_ignored_and_answered_by_no_reset() {
    let mut pair = simple();
    let mut seed = 1u64;
    for len in (0..1500).step_by(7) {
        let mut bytes = vec![0; len];
        for byte in &mut bytes {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (seed >> 33) as u8;
        }
        pair.give_to_server(&bytes);
    }
    let counters = *pair.server.counters();
    assert_eq!((counters.resets, counters.begun, counters.panics), (0, 0, 0));
    assert_eq!(pair.server.connections(), 0);
}

#[test]
fn a_connection_of_a_process_before_is_reset_in_one_round_trip() {
    let mut pair = simple();
    pair.connect("a.test");
    pair.settle();
    // The process is replaced by another one with the master's keys.
    let hosts = pair.hosts.clone();
    let place = brisk_quic::Place { thread: 1, threads: 3, generation: 2 };
    pair.server = brisk_quic::Endpoint::new(place, pair::keys(), hosts);
    pair.server.listen(pair::SOCKET, Settings::default());
    ask(&mut pair, &[b'x'; 600]);
    pair.settle();
    let reset = pair.client_events.iter().any(|event| {
        matches!(event, quinn_proto::Event::ConnectionLost { reason: quinn_proto::ConnectionError::Reset })
    });
    assert!(reset, "{:?}", pair.client_events);
    assert_eq!(pair.server.counters().resets, 1);
    // RFC 9000 §10.3.3: smaller than what it answers.
    let cause = pair.to_server.last().unwrap().clone();
    assert!(pair.to_client.last().unwrap().1.len() < cause.len());
    // All clients of the process may ask in one moment. From there on resets are rare.
    for _ in 0..2 * RESETS_AT_ONCE_MAX {
        pair.give_to_server(&cause);
        pair.take_from_server();
    }
    assert_eq!(pair.server.counters().resets, u64::from(RESETS_AT_ONCE_MAX));
    pair.now += RESET_INTERVAL;
    (0..5).for_each(|_| pair.give_to_server(&cause));
    assert_eq!(pair.take_from_server().len(), 1);
}

/// What waits to be sent follows what the path takes.
#[test]
fn the_send_window_grows_with_the_congestion_window() {
    let mut pair = simple();
    pair.connect("a.test");
    pair.settle();
    let id = ask(&mut pair, b"GET /\r\n");
    pair.settle();
    let key = pair.key();
    let conn = pair.server.connection(key).unwrap();
    let stream = conn.accept(Dir::Bi).unwrap();
    let piece = vec![b'x'; 4 * SEND_WINDOW_BYTES_MAX as usize];
    // Nothing has been acknowledged yet.
    assert_eq!(conn.write(stream, &piece), Written::Some(SEND_WINDOW_BYTES_MIN as usize));
    let mut most = 0;
    for _ in 0..40 {
        pair.settle();
        // What was read makes room for more.
        let _ = received(&mut pair, id);
        pair.pass(Duration::from_millis(20));
        if let Written::Some(count) = pair.server.connection(key).unwrap().write(stream, &piece) {
            most = most.max(count);
        }
    }
    let limit = SEND_WINDOW_BYTES_MAX as usize;
    assert!(most > SEND_WINDOW_BYTES_MIN as usize && most <= limit, "{most}");
}

/// RFC 9002 §7: the congestion window is for what is acknowledged itself. A client that sends while it takes a large answer would send again
/// what has come.
#[test]
fn acknowledgements_wait_for_no_window() {
    let mut pair = simple();
    pair.connect("a.test");
    pair.settle();
    ask(&mut pair, b"GET /\r\n");
    pair.settle();
    let key = pair.key();
    let conn = pair.server.connection(key).unwrap();
    let stream = conn.accept(Dir::Bi).unwrap();
    assert!(matches!(conn.write(stream, &vec![b'x'; SEND_WINDOW_BYTES_MIN as usize]), Written::Some(_)));
    // The client hears none of it.
    let mut sent = pair.take_from_server().len();
    while pair.server.has_more() {
        sent += pair.take_from_server().len();
    }
    assert!(sent > 1 && pair.take_from_server().is_empty(), "{sent}");
    let acknowledged = pair.client().stats().frame_rx.acks;
    for _ in 0..2 {
        pair.client().ping();
        let pings = pair.take_from_client();
        pings.iter().for_each(|bytes| pair.give_to_server(bytes));
    }
    let answers = pair.take_from_server();
    assert!(matches!(&*answers, [(_, bytes)] if bytes.len() < 100), "{} packets", answers.len());
    pair.give_to_client(&answers[0].1);
    assert_eq!(pair.client().stats().frame_rx.acks, acknowledged + 1);
    assert!(pair.take_from_server().is_empty());
}

/// A packet that tries whether a larger size arrives counts as data under way, and clients acknowledge it late.
#[test]
fn answers_leave_beside_a_large_packet() {
    let mut pair = simple();
    let mut config = EndpointConfig::default();
    config.max_udp_payload_size(u16::MAX - 8).unwrap();
    pair.client_endpoint = quinn_proto::Endpoint::new(Arc::new(config), None, true, None);
    pair.connect("a.test");
    let mut held = false;
    for _ in 0..100 {
        let from_client = pair.take_from_client();
        from_client.iter().for_each(|bytes| pair.give_to_server(bytes));
        let sent = pair.take_from_server();
        let is_large = |bytes: &Vec<u8>| bytes.len() == usize::from(LOCAL_PAYLOAD_BYTES);
        held |= sent.iter().any(|(_, bytes)| is_large(bytes));
        sent.iter().filter(|(_, bytes)| !is_large(bytes)).for_each(|(_, bytes)| pair.give_to_client(bytes));
        if held {
            break;
        }
        if from_client.is_empty() && sent.is_empty() {
            pair.now = pair.client().poll_timeout().expect("a connection").max(pair.now);
            let now = pair.now;
            pair.client().handle_timeout(now);
        }
    }
    assert!(held, "no large packet");
    // It is still on its way.
    let id = ask(&mut pair, b"GET /\r\n");
    let request = pair.take_from_client();
    request.iter().for_each(|bytes| pair.give_to_server(bytes));
    answer(&mut pair, b"hello");
    let sent = pair.take_from_server();
    sent.iter().for_each(|(_, bytes)| pair.give_to_client(bytes));
    assert_eq!(received(&mut pair, id), b"hello");
}
