//! Floods: each ends its own connection with the right code; others see nothing, and memory stays where it is.

use super::{bin, frame_of, server};
use brisk_h2::frame::{flag, kind};
use brisk_h2::{ErrorCode, PREFACE, Settings};
use brisk_testkit::{Builder, Client, H2Client, Server, process};
use std::time::Duration;

/// What must end the connection with this code, while others see nothing of it.
fn flood(server: &Server, what: &str, want: ErrorCode, mut again: impl FnMut(u32) -> Vec<u8>) {
    let mut other = H2Client::connect(server.port());
    assert_eq!(other.get("/a.txt").status, 200);
    let before = memory(server);
    let mut client = H2Client::connect(server.port());
    client.careless = true;
    for n in 0..30_000 {
        if client.closed {
            break;
        }
        let bytes = again(n);
        client.raw(&bytes);
        if n % 64 == 0 {
            client.hear(Duration::from_millis(1));
        }
        if client.goaway.is_some() {
            break;
        }
    }
    assert_eq!(client.ending(), Some(want), "{what}");
    assert_eq!(other.get("/a.txt").status, 200, "{what}");
    let grown = memory(server).saturating_sub(before);
    assert!(grown < 16 << 20, "{what}: {grown} bytes more");
}

/// Bytes that the worker has in memory.
fn memory(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.worker())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// `GET /large`, which has to wait for windows.
fn get(stream: u32) -> Vec<u8> {
    let block = [&[0x82, 0x86, 0x04, 6][..], b"/large", &[0x01, 9], b"localhost"].concat();
    frame_of(kind::HEADERS, flag::END_STREAM | flag::END_HEADERS, stream, &block)
}

#[test]
fn floods_end_their_connection_only() {
    let server = server();
    let calm = ErrorCode::ENHANCE_YOUR_CALM;
    let f = frame_of;
    flood(&server, "rapid reset", calm, |n| {
        [get(2 * n + 1), f(kind::RST_STREAM, 0, 2 * n + 1, &[0, 0, 0, 8])].concat()
    });
    flood(&server, "made to reset", calm, |n| {
        [get(2 * n + 1), f(kind::WINDOW_UPDATE, 0, 2 * n + 1, &[0; 4])].concat()
    });
    flood(&server, "CONTINUATION", calm, |n| match n {
        0 => f(kind::HEADERS, 0, 1, &[0x82]),
        _ => f(kind::CONTINUATION, 0, 1, &[0x00, 1, b'a', 1, b'b']),
    });
    flood(&server, "header bomb", calm, |n| match n {
        0 => {
            let value = [&[0x82, 0x86, 0x84, 0x60, 0x7f, 0xa1, 0x1e][..], &[b'x'; 4000]].concat();
            f(kind::HEADERS, flag::END_STREAM | flag::END_HEADERS, 1, &value)
        }
        _ => f(kind::HEADERS, flag::END_STREAM | flag::END_HEADERS, 2 * n + 1, &[0xbe; 4000]),
    });
    flood(&server, "cookie crumbs", calm, |n| {
        f(kind::HEADERS, flag::END_STREAM | flag::END_HEADERS, 2 * n + 1, &[0xa0; 16_000])
    });
    flood(&server, "SETTINGS", calm, |_| f(kind::SETTINGS, 0, 0, &[]));
    flood(&server, "PING", calm, |_| f(kind::PING, 0, 0, &[0; 8]));
    flood(&server, "PRIORITY", calm, |n| f(kind::PRIORITY, 0, 2 * n + 1, &[0, 0, 0, 0, 9]));
    let post = |stream| {
        let block = [&[0x83, 0x86, 0x84, 0x01, 4][..], b"body"].concat();
        f(kind::HEADERS, flag::END_HEADERS, stream, &block)
    };
    flood(&server, "empty DATA", calm, |n| if n == 0 { post(1) } else { f(kind::DATA, 0, 1, &[]) });
    flood(&server, "window overflow", ErrorCode::FLOW_CONTROL_ERROR, |_| {
        f(kind::WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff])
    });
    flood(&server, "zero increments", ErrorCode::PROTOCOL_ERROR, |_| f(kind::WINDOW_UPDATE, 0, 0, &[0; 4]));
    flood(&server, "refused streams", calm, |n| get(2 * n + 1));
    // What a client makes the server reset: RFC 9113 §5.1, §6.9.1, and a dependency on itself (RFC 7540 §5.3.1).
    flood(&server, "streams that overflow", calm, |n| {
        [get(2 * n + 1), f(kind::WINDOW_UPDATE, 0, 2 * n + 1, &[0x7f, 0xff, 0xff, 0xff])].concat()
    });
    flood(&server, "streams with too much", calm, |n| {
        let block =
            [&[0x83, 0x86, 0x04, 6][..], b"/large", &[0x01, 4], b"body", &[0x0f, 13, 1], b"1"].concat();
        let stream = 2 * n + 1;
        [f(kind::HEADERS, flag::END_HEADERS, stream, &block), f(kind::DATA, 0, stream, b"two")].concat()
    });
    flood(&server, "streams on themselves", ErrorCode::PROTOCOL_ERROR, |n| {
        let stream = 2 * n + 1;
        [get(stream), f(kind::PRIORITY, 0, stream, &[&stream.to_be_bytes()[..], &[9]].concat())].concat()
    });
    flood(&server, "data behind the end", calm, |n| {
        [get(2 * n + 1), f(kind::DATA, 0, 2 * n + 1, b"more")].concat()
    });
    flood(&server, "unknown frames", calm, |_| f(0xbe, 0, 0, b"?"));
}

/// A client that opens streams and takes nothing: what it is owed stays bounded.
#[test]
fn a_client_that_reads_nothing() {
    let server = server();
    let mut hello = PREFACE.to_vec();
    Settings { initial_window_size: 1 << 30, ..Settings::default() }.write(&mut hello);
    brisk_h2::frame::write_window_update(0, 1 << 30, &mut hello);
    (0..20).for_each(|n| hello.extend(get(2 * n + 1)));
    let before = memory(&server);
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut client = Client::connect_narrow(server.port());
        client.send(&hello);
        clients.push(client);
    }
    let mut other = H2Client::connect(server.port());
    assert_eq!(other.get("/large").body.len(), 3_000_000);
    let grown = memory(&server).saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes more for 20 connections");
}

/// The header bomb with the window shut: heads whose fields are a byte each on the wire, of streams that cannot be answered
/// and so are held. Each field is counted before it is kept.
#[test]
fn heads_that_are_held_are_counted() {
    const CONNECTIONS: u64 = 20;
    // `large_client_header_buffers`, 4 of 8 KiB, for each of the streams, and what belongs to a stream besides.
    const HEADS_KIB: u64 = 20 * 48;
    let server = server();
    let shut = Settings { initial_window_size: 0, enable_push: false, ..Settings::default() };
    let cookie = [&[0x60, 0x7f, 0xd9, 0x1e][..], &[b'x'; 4000]].concat();
    let bombs: [(&str, Vec<u8>); 3] = [
        // 7 references to 4000 bytes are what the limit allows.
        ("references", [&cookie[..], &[0xbe; 6]].concat()),
        ("too many references", [&cookie[..], &[0xbe; 16_000 - 4004]].concat()),
        ("crumbs", vec![0xa0; 900]),
    ];
    let mut other = H2Client::connect(server.port());
    for (what, crumbs) in bombs {
        let before = process::rss_kib(server.worker());
        let mut held = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut client = H2Client::with(server.port(), shut);
            client.careless = true;
            for n in 0..20 {
                let head =
                    [&[0x82, 0x86, 0x04, 6][..], b"/large", &[0x01, 9], b"localhost", &crumbs].concat();
                let ended = flag::END_STREAM | flag::END_HEADERS;
                client.raw(&frame_of(kind::HEADERS, ended, 2 * n + 1, &head));
            }
            // Answered when all of that has been read.
            client.raw(&frame_of(kind::PING, 0, 0, &[7; 8]));
            held.push(client);
            assert_eq!(other.get("/a.txt").status, 200, "{what}");
        }
        for client in &mut held {
            client.hear(Duration::from_secs(20));
        }
        let grown = process::rss_kib(server.worker()).saturating_sub(before);
        assert!(grown < CONNECTIONS * HEADS_KIB, "{what}: {grown} KiB for {CONNECTIONS} connections");
    }
}

/// Streams that are opened and never ended: there is a most of them, those beyond are refused (RFC 9113 §5.1.2), and the
/// rest ends in its time.
#[test]
fn streams_that_are_held_open() {
    let server = Builder::new(bin())
        .http(
            "server { listen 127.0.0.1:{{PORT}}; http2 on; http2_max_concurrent_streams 10; client_body_timeout 2s; client_body_early_read 1;
             location / { return 200 $request_body; } }",
        )
        .start();
    let mut other = H2Client::connect(server.port());
    assert_eq!(other.get("/").status, 200);
    let before = process::rss_kib(server.worker());
    let mut held: Vec<(H2Client, Vec<u32>)> = Vec::new();
    let mut fields = H2Client::get_fields("/");
    fields[0].1 = "POST";
    for _ in 0..100 {
        let mut client = H2Client::connect(server.port());
        let ids = (0..10).map(|_| client.begin(&fields, false)).collect();
        held.push((client, ids));
        assert_eq!(other.get("/").status, 200);
    }
    let grown = process::rss_kib(server.worker()).saturating_sub(before);
    assert!(grown < 32 << 10, "{grown} KiB for 1000 streams");
    let (client, ids) = &mut held[0];
    client.until(|client| ids.iter().all(|id| client.answers[id].reset.is_some()));
    assert!(ids.iter().all(|id| client.answers[id].reset == Some(ErrorCode::PROTOCOL_ERROR)));
    // An eleventh stream, of a client that does not keep to what it was told.
    let mut raw = Client::connect(server.port());
    let mut bytes = PREFACE.to_vec();
    Settings::default().write(&mut bytes);
    (0..11).for_each(|n| bytes.extend(frame_of(kind::HEADERS, flag::END_HEADERS, 2 * n + 1, &plain_post())));
    raw.send(&bytes);
    let refused = [&[0, 0, 4, kind::RST_STREAM, 0][..], &21_u32.to_be_bytes(), &7_u32.to_be_bytes()].concat();
    let mut input = Vec::new();
    while !input.windows(refused.len()).any(|part| part == refused) {
        input.extend(raw.some(4096).expect("REFUSED_STREAM for stream 21"));
    }
}

fn plain_post() -> Vec<u8> {
    [&[0x83, 0x86, 0x84, 0x01, 9][..], b"localhost"].concat()
}
