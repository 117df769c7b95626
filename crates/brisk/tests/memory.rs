//! Memory: what strangers can make the server hold, and what it does when it holds too much.

use brisk_h2::frame::{flag, kind, write_head};
use brisk_h2::{PREFACE, Settings};
use brisk_testkit::{Builder, Client, H2Client, Server, process};

#[path = "memory/budget.rs"]
mod budget;

fn bin() -> &'static str {
    env!("CARGO_BIN_EXE_brisk")
}

/// Streams of one connection (`http2_max_concurrent_streams`).
const STREAMS: u32 = 128;

const CONF: &str = "
    access_log off;
    keepalive_requests 1000000;
    limit_req_zone $host zone=late:64k rate=1r/m;
    server {
        listen 127.0.0.1:{{PORT}};
        root {{DIR}}/html;
        http2 on;
        http2_max_concurrent_streams 128;
        location /metrics { metrics; }
        location /mirror { mirror /late; }
        location = /late { limit_req zone=late burst=100000; }
    }";

/// Ready to start: a small and a large file over HTTP/1.1 and HTTP/2.
fn builder() -> Builder {
    Builder::new(bin())
        .http(CONF)
        .file("html/a.txt", "hello\n")
        .file("html/large", vec![b'x'; 300_000])
        .file("html/mirror", "seen\n")
        .file("html/late", "")
}

fn frame_of(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_head(payload.len(), kind, flags, stream, &mut out);
    out.extend_from_slice(payload);
    out
}

/// A GET with `fields` behind the usual ones.
fn request(stream: u32, path: &str, fields: &[u8]) -> Vec<u8> {
    let path_len = path.len() as u8;
    let block =
        [&[0x82, 0x86, 0x04, path_len][..], path.as_bytes(), &[0x01, 9], b"localhost", fields].concat();
    frame_of(kind::HEADERS, flag::END_STREAM | flag::END_HEADERS, stream, &block)
}

/// A cookie that goes into the table, from where one byte brings it back.
fn cookie() -> Vec<u8> {
    [&[0x60, 0x7f, 0xbd, 0x1d][..], &[b'x'; 3900]].concat()
}

/// What a client begins with that lets the server send no body.
fn hello() -> Vec<u8> {
    let mut out = PREFACE.to_vec();
    Settings { initial_window_size: 0, enable_push: false, ..Settings::default() }.write(&mut out);
    out
}

/// Fills a connection with streams that cannot be answered, each with a large cookie and, behind it, empty crumbs with another field
/// between two of them.
fn attack() -> Vec<u8> {
    let mut bytes = hello();
    for n in 0..STREAMS {
        let first = if n == 0 { cookie() } else { vec![0xbe] };
        bytes.extend(request(2 * n + 1, "/large", &[first, [0xa0, 0x8f].repeat(330)].concat()));
    }
    bytes
}

/// A number of `/metrics`.
fn metric(server: &Server, name: &str) -> u64 {
    let text = server.get("/metrics").text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no {name} in\n{text}"))
}

/// Waits until a PING is answered: all that was sent before it has been read.
fn settle(client: &mut Client) {
    client.send(frame_of(kind::PING, 0, 0, b"settled?"));
    client.wait_for("settled?");
}

#[test]
fn crumbs_with_fields_between_them_are_joined_once() {
    let server = builder().start();
    assert_eq!(server.get("/a.txt").status, 200);
    let before = process::rss_kib(server.worker());
    let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(server.port())).collect();
    let attack = attack();
    clients.iter_mut().for_each(|client| client.send(&attack));
    clients.iter_mut().for_each(settle);
    let sent = clients.len() * attack.len();
    let grown = process::rss_kib(server.worker()).saturating_sub(before);
    // 20 times what was sent (more than 1 MiB for each connection), and what belongs to a stream besides.
    let allowed = ((sent as u64 * 20) >> 10) + clients.len() as u64 * u64::from(STREAMS) * 16;
    assert!(grown < allowed, "{grown} KiB for {} KiB that were sent", sent >> 10);
    assert_eq!(H2Client::connect(server.port()).get("/a.txt").status, 200);
}

/// Requests that are answered at once leave subrequests behind, each with a copy of the head: these count as heads of the connection.
#[test]
fn copies_for_mirrors_that_wait_are_counted() {
    const REQUESTS: u32 = 1500;
    let server = builder().start();
    assert_eq!(server.get("/mirror").text(), "seen\n");
    let before = process::rss_kib(server.worker());
    let mut client = Client::connect(server.port());
    let mut bytes = PREFACE.to_vec();
    Settings { enable_push: false, ..Settings::default() }.write(&mut bytes);
    for n in 0..REQUESTS {
        let first = if n == 0 { cookie() } else { vec![0xbe] };
        bytes.extend(request(2 * n + 1, "/mirror", &[first, vec![0xbe; 6]].concat()));
    }
    client.send(&bytes);
    settle(&mut client);
    let grown = process::rss_kib(server.worker()).saturating_sub(before);
    assert!(grown < 16 << 10, "{grown} KiB for {} KiB that were sent", bytes.len() >> 10);
    server.wait_for_log("too many copies are on their way");
    assert_eq!(server.get("/mirror").text(), "seen\n");
}
