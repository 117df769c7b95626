//! A server that sends much goes on with records of its own: the library's client must not notice.
#![forbid(unsafe_code)]

mod ends;

use brisk_tls::{ClientContext, ClientOptions, Sealing};
use ends::{End, connect, pair, server, suites};

fn text(len: usize) -> Vec<u8> {
    (0..len as u32).map(|n| (n ^ (n >> 8)) as u8).collect()
}

/// A session whose server has sent much; of each version and suite.
fn each(check: impl Fn(End, End, bool)) {
    for (versions, suite) in suites() {
        let (mut client, mut server) = pair(versions, suite, false);
        server.give(b"small, before", &mut client).unwrap();
        server.give(&text(140_000), &mut client).unwrap();
        assert!(client.plain[..13] == *b"small, before" && client.plain[13..] == text(140_000));
        client.plain.clear();
        check(client, server, versions.tls13);
    }
}

#[test]
fn data_goes_both_ways() {
    each(|mut client, mut server, is_13| {
        for len in [0, 1, 100, 8191, 8192, 16_384, 16_385, 100_000] {
            server.give(&text(len), &mut client).unwrap();
            assert!(client.plain == text(len), "{len}");
            client.give(&text(len), &mut server).unwrap();
            assert!(server.plain == text(len), "{len}");
            client.plain.clear();
            server.plain.clear();
        }
        let (ours, theirs) = (&server.session, &client.session);
        assert_eq!((ours.version(), ours.cipher()), (theirs.version(), theirs.cipher()));
        assert_eq!(ours.version(), if is_13 { "TLSv1.3" } else { "TLSv1.2" });
        let mut records = Vec::new();
        client.session.close(&mut records).unwrap();
        // What comes behind the end is nobody's.
        records.extend_from_slice(b"more");
        server.take(&records).unwrap();
        assert!(server.session.is_peer_closed() && !client.session.is_peer_closed());
        let mut records = Vec::new();
        server.session.close(&mut records).unwrap();
        client.take(&records).unwrap();
        assert!(client.session.is_peer_closed());
    });
}

#[test]
fn records_in_pieces() {
    each(|mut client, mut server, _| {
        let mut records = Vec::new();
        client.session.seal(&text(300), &mut records).unwrap();
        client.session.seal(&text(20_000), &mut records).unwrap();
        for byte in records.chunks(7) {
            server.take(byte).unwrap();
        }
        assert!(server.plain[..300] == text(300) && server.plain[300..] == text(20_000));
        assert_eq!(server.session.left(), 0);
    });
}

#[test]
fn what_was_changed_on_the_way_ends_the_session() {
    each(|mut client, mut server, _| {
        let mut records = Vec::new();
        client.session.seal(b"a request", &mut records).unwrap();
        let last = records.len() - 1;
        records[last] ^= 1;
        let mut out = Vec::new();
        let error = server.session.receive(&mut records, &mut |_| panic!("taken"), &mut out).unwrap_err();
        assert_eq!(error.to_string(), "SSL: error:decryption failed or bad record mac");
        assert!(server.session.is_failed());
        // The alert is one that the client understands.
        let error = client.take(&out).unwrap_err();
        assert_eq!(error.to_string(), "SSL: error:ssl/tls alert bad record mac");
    });
}

#[test]
fn replayed_and_dropped_records_are_refused() {
    each(|mut client, mut server, _| {
        let mut records = Vec::new();
        client.session.seal(b"one", &mut records).unwrap();
        server.take(&records).unwrap();
        assert!(server.take(&records).is_err(), "a record again");
    });
    each(|mut client, mut server, _| {
        client.session.seal(b"lost", &mut Vec::new()).unwrap();
        let mut records = Vec::new();
        client.session.seal(b"next", &mut records).unwrap();
        assert!(server.take(&records).is_err(), "one is missing");
    });
}

#[test]
fn heads_that_no_record_has_are_refused_at_once() {
    each(|_, mut server, _| {
        assert!(server.take(&[23, 3, 3, 0x48, 1]).is_err(), "too large");
        assert!(server.take(&[23, 3, 3, 0, 0]).is_err(), "over");
    });
    for head in [[99, 3, 3, 0, 30], [23, 9, 3, 0, 30]] {
        each(|_, mut server, _| assert!(server.take(&head).is_err()));
    }
    each(|_, mut server, _| {
        for len in [0u8, 1, 15, 16, 17] {
            let mut record = vec![23, 3, 3, 0, len];
            record.resize(5 + usize::from(len), 0);
            assert!(server.take(&record).is_err(), "{len} bytes of record");
        }
    });
}

#[test]
fn a_fatal_alert_of_the_client_is_told() {
    each(|mut client, mut server, _| {
        // What is broken makes the client send one.
        let mut bad = Vec::new();
        server.session.seal(b"x", &mut bad).unwrap();
        let last = bad.len() - 1;
        bad[last] ^= 1;
        let mut alert = Vec::new();
        assert!(client.session.receive(&mut bad, &mut |_| (), &mut alert).is_err());
        let error = server.take(&alert).unwrap_err();
        assert_eq!(error.to_string(), "SSL: error:ssl/tls alert bad record mac");
    });
}

/// RFC 8446 §4.6.3: the client changes its keys, and asks for the server's to be changed.
#[test]
fn keys_are_changed_when_the_client_asks() {
    each(|mut client, mut server, is_13| {
        if !is_13 {
            return;
        }
        for round in 0..3 {
            let mut records = Vec::new();
            client.session.update_keys(&mut records).unwrap();
            assert!(!records.is_empty());
            let answer = server.take(&records).unwrap();
            client.take(&answer).unwrap();
            client.give(b"under new keys", &mut server).unwrap();
            server.give(&text(30_000), &mut client).unwrap();
            assert_eq!(server.plain.len(), (round + 1) * 14);
            assert!(client.plain == text(30_000));
            client.plain.clear();
        }
    });
    // Also before the server has sent much.
    let context = server(|_| ());
    let (mut client, mut server) =
        connect(&context, &ClientContext::new(&ClientOptions::unverified()).unwrap());
    let mut records = Vec::new();
    client.session.update_keys(&mut records).unwrap();
    let answer = server.take(&records).unwrap();
    client.take(&answer).unwrap();
    server.give(&text(140_000), &mut client).unwrap();
    assert!(client.plain == text(140_000));
    // Who does nothing else is told to go.
    each(|mut client, mut server, is_13| {
        if !is_13 {
            return;
        }
        let refused = (0..100).find_map(|_| {
            let mut records = Vec::new();
            client.session.update_keys(&mut records).unwrap();
            server.take(&records).err()
        });
        assert!(refused.is_some());
    });
}

/// With the library's records the session is the same to its client, and stays with the library.
#[test]
fn the_library_may_seal_everything() {
    let context = server(|options| options.sealing = Sealing::Library);
    let client = ClientContext::new(&ClientOptions::unverified()).unwrap();
    let (mut client, mut server) = connect(&context, &client);
    server.give(&text(200_000), &mut client).unwrap();
    assert!(client.plain == text(200_000));
    // Only the library takes this order.
    let mut records = Vec::new();
    server.session.update_keys(&mut records).unwrap();
    assert!(!records.is_empty());
    client.take(&records).unwrap();
    client.plain.clear();
    server.give(&text(200_000), &mut client).unwrap();
    assert!(client.plain == text(200_000));
}
