//! Clients of HTTP/3 that break rules: each ends its own connection at most, with the code that RFC 9114 and RFC 9204 name.

#[path = "http3_attacks/floods.rs"]
mod floods;

use brisk_testkit::quic::{Dir, QuicClient, VarInt, Visitor};
use brisk_testkit::tls::issue;
use brisk_testkit::{H3Client, Server, wait};

use std::net::SocketAddr;
use std::time::Duration;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

const SITE: &str = r"
    ssl_certificate a.crt;
    ssl_certificate_key a.key;
    keepalive_requests 1000000;
    server {
        listen 127.0.0.1:{{PORT}} quic;
        listen 127.0.0.1:{{PORT}} ssl;
        server_name a.test;
        location / { return 200 ok; }
        location /metrics { metrics; }
    }
";

fn site() -> (Server, Visitor, SocketAddr) {
    start(SITE)
}

fn start(http: &str) -> (Server, Visitor, SocketAddr) {
    let issued = issue("a.test", false, None);
    let server = Server::new(BIN)
        .main("worker_processes 1;")
        .http(http)
        .file("a.crt", issued.certificate_pem())
        .file("a.key", issued.key_pem())
        .start();
    let address = SocketAddr::from(([127, 0, 0, 1], server.port()));
    (server, Visitor::new(&issued.certificate, &["h3"]), address)
}

/// What a client sends on a stream of its own, and whether the stream ends behind it.
struct Said {
    dir: Dir,
    bytes: &'static [u8],
    ends: bool,
}

fn uni(bytes: &'static [u8]) -> Said {
    Said { dir: Dir::Uni, bytes, ends: false }
}

fn request(bytes: &'static [u8]) -> Said {
    Said { dir: Dir::Bi, bytes, ends: true }
}

fn ending(said: Said) -> Said {
    Said { ends: true, ..said }
}

/// The type of a control stream, and empty SETTINGS.
const CONTROL: &[u8] = b"\x00\x04\x00";

/// The code with which the server ends the connection.
fn code_of(mut client: QuicClient, what: &str, said: &[Said]) -> u64 {
    for Said { dir, bytes, ends } in said {
        let id = client.conn.streams().open(*dir).expect("a stream may be opened");
        client.write(id, bytes);
        if *ends {
            let _ = client.conn.send_stream(id).finish();
        }
        client.flush();
    }
    client.wait(what, |client| client.end().is_some());
    client.end_code().unwrap_or_else(|| panic!("{what}: {:?}", client.end()))
}

#[test]
fn each_broken_rule_has_its_code() {
    let (_server, visitor, address) = site();
    // RFC 9114 §8.1.
    let (general, creation, critical, unexpected, frame) = (0x101, 0x103, 0x104, 0x105, 0x106);
    let (id, settings, missing) = (0x108, 0x109, 0x10a);
    // RFC 9204 §6.
    let (decompression, encoder, decoder) = (0x200, 0x201, 0x202);
    let cases: &[(&str, &[Said], u64)] = &[
        ("a control stream that ends", &[ending(uni(CONTROL))], critical),
        ("two control streams", &[uni(CONTROL), uni(CONTROL)], creation),
        ("two encoder streams", &[uni(b"\x02"), uni(b"\x02")], creation),
        ("two decoder streams", &[uni(b"\x03"), uni(b"\x03")], creation),
        ("an encoder stream that ends", &[ending(uni(b"\x02"))], critical),
        ("a push stream of a client", &[uni(b"\x01\x00")], creation),
        ("no SETTINGS first", &[uni(b"\x00\x07\x01\x00")], missing),
        ("SETTINGS twice", &[uni(b"\x00\x04\x00\x04\x00")], unexpected),
        ("one setting twice", &[uni(b"\x00\x04\x04\x06\x05\x06\x05")], settings),
        ("a setting of HTTP/2", &[uni(b"\x00\x04\x02\x03\x05")], settings),
        ("a frame of HTTP/2", &[uni(b"\x00\x04\x00\x06\x01\x00")], unexpected),
        ("DATA on the control stream", &[uni(b"\x00\x04\x00\x00\x01x")], unexpected),
        ("HEADERS on the control stream", &[uni(b"\x00\x04\x00\x01\x01x")], unexpected),
        ("a smaller MAX_PUSH_ID", &[uni(b"\x00\x04\x00\x0d\x01\x05\x0d\x01\x04")], id),
        ("CANCEL_PUSH of what was not pushed", &[uni(b"\x00\x04\x00\x03\x01\x05")], id),
        ("GOAWAY that is too short", &[uni(b"\x00\x04\x00\x07\x00")], frame),
        ("SETTINGS of a request", &[uni(CONTROL), request(b"\x04\x00")], unexpected),
        ("PUSH_PROMISE of a client", &[uni(CONTROL), request(b"\x05\x01\x00")], unexpected),
        ("CANCEL_PUSH of a request", &[uni(CONTROL), request(b"\x03\x01\x00")], unexpected),
        ("GOAWAY of a request", &[uni(CONTROL), request(b"\x07\x01\x00")], unexpected),
        ("MAX_PUSH_ID of a request", &[uni(CONTROL), request(b"\x0d\x01\x00")], unexpected),
        ("a frame of HTTP/2 of a request", &[uni(CONTROL), request(b"\x06\x01\x00")], unexpected),
        ("a decoder stream that ends", &[ending(uni(b"\x03"))], critical),
        ("DATA before HEADERS", &[uni(CONTROL), request(b"\x00\x01x")], unexpected),
        ("a frame that is cut off", &[uni(CONTROL), request(b"\x01\x05\x00\x00")], frame),
        ("a static entry that is none", &[uni(CONTROL), request(b"\x01\x04\x00\x00\xff\x7f")], decompression),
        (
            "an entry that was never inserted",
            &[uni(CONTROL), request(b"\x01\x03\x00\x00\x80")],
            decompression,
        ),
        ("a table that is too large", &[uni(b"\x02\x3f\xff\xff\x7f")], encoder),
        ("a duplicate of nothing", &[uni(b"\x02\x3f\x11\x00")], encoder),
        ("an increment of nothing", &[uni(b"\x03\x00")], decoder),
        ("an acknowledgement of nothing", &[uni(b"\x03\x84")], decoder),
    ];
    let mut wrong = Vec::new();
    for (what, said, want) in cases {
        let code = code_of(visitor.connect(address, "a.test"), what, said);
        // RFC 9114 §8: a general code may stand for a specific one.
        if code != *want && code != general {
            wrong.push(format!("{what}: {code:#x}, not {want:#x}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(H3Client::connect(&visitor, address, "a.test").get("/").text(), "ok");
}

/// CVE-2023-44487 over HTTP/3.
#[test]
fn requests_that_are_given_up_at_once_end_the_connection() {
    let (_server, visitor, address) = site();
    let mut client = H3Client::connect(&visitor, address, "a.test");
    let mut asked = 0;
    while client.quic.end().is_none() {
        assert!(asked < 100_000, "{asked} requests were given up");
        for _ in 0..10 {
            let Some(id) = client.quic.conn.streams().open(Dir::Bi) else { break };
            client.quic.write(id, b"\x01\x20\x00\x00");
            let _ = client.quic.conn.send_stream(id).reset(VarInt::from_u32(0x10c));
            asked += 1;
        }
        client.quic.turn(Duration::from_millis(1));
    }
    assert_eq!(client.quic.end_code(), Some(0x107), "{:?}", client.quic.end());
    assert_eq!(H3Client::connect(&visitor, address, "a.test").get("/").text(), "ok");
}

/// RFC 9204 §2.1.2: heads that wait for entries of the table which never come.
#[test]
fn heads_that_wait_are_bounded() {
    let (_server, visitor, address) = site();
    let mut client = visitor.connect(address, "a.test");
    let own = client.conn.streams().open(Dir::Uni).unwrap();
    client.write(own, CONTROL);
    let encoder = client.conn.streams().open(Dir::Uni).unwrap();
    // Set Dynamic Table Capacity 4096.
    client.write(encoder, b"\x02\x3f\xe1\x1f");
    let mut asked = 0;
    while client.end().is_none() && asked < 1000 {
        if let Some(id) = client.conn.streams().open(Dir::Bi) {
            // Required Insert Count 1: encoded as 2.
            client.write(id, b"\x01\x03\x02\x00\x80");
            asked += 1;
        }
        client.turn(Duration::from_millis(1));
    }
    assert_eq!(client.end_code(), Some(0x200), "{asked}: {:?}", client.end());
    assert!(asked <= 64, "{asked}");
}

/// `client_header_timeout`: a head that does not come to its end ends its own stream, as in nginx, and holds nothing.
#[test]
fn a_head_that_does_not_come_to_its_end_ends_its_stream_alone() {
    let lines = "client_header_timeout 1s; keepalive_timeout 1s; location / {";
    let (server, visitor, address) = start(&SITE.replace("location / {", lines));
    let mut client = H3Client::connect(&visitor, address, "a.test");
    let late = client.begin_with(b"\x01\x40\x80part");
    wait::holds("the end of the stream", || {
        assert_eq!(client.get("/").text(), "ok", "others are served meanwhile");
        client.answers[&late].reset.is_some()
    });
    assert_eq!(client.answers[&late].reset, Some(0x10d));
    assert_eq!(client.get("/").text(), "ok");
    let is_late = |line: &str| line.contains(r#""-" 408 0 "#);
    wait::holds("its line in the log", || server.access_log().lines().any(is_late));
    // A byte is the beginning of one, too. Such a connection ends like any that has nothing to do.
    let mut client = H3Client::connect(&visitor, address, "a.test");
    let late = client.begin_with(b"\x01");
    assert_eq!(client.wait(late).reset, Some(0x10d));
    client.until("the end of the connection", |client| client.quic.end_code() == Some(0x100));
}

/// Large fields that header compression makes small, and heads beyond `large_client_header_buffers`: answered and logged as over HTTP/1.1.
#[test]
fn large_heads_are_refused() {
    let (server, visitor, address) = site();
    let mut client = H3Client::connect(&visitor, address, "a.test");
    let long = "x".repeat(20_000);
    let mut fields = client.fields("GET", "a.test", "/");
    fields.push(("x", &long));
    for end in [true, false] {
        let stream = client.begin(&fields, end);
        let answer = client.wait(stream);
        assert_eq!((answer.status, answer.ended, answer.reset), (400, true, None), "{answer:?}");
        assert!(answer.text().contains("Request Header Or Cookie Too Large"), "{answer:?}");
    }
    // What is announced is too much: nothing is waited for, and nothing known of the request.
    let stream = client.begin_with(b"\x01\xc0\0\0\x01\0\0\0\0");
    assert_eq!(client.wait(stream).status, 400);
    assert_eq!(client.get("/").text(), "ok");
    // A rule that is broken within a head is the end of the connection.
    let stream = client.begin_with(b"\0\x01x");
    assert_eq!(client.wait(stream).status, 0);
    assert_eq!(client.quic.end_code(), Some(0x105));
    let lines = server.access_lines(5);
    let get = "\"GET / HTTP/3.0\"";
    let wanted = [(get, 400), (get, 400), ("\"-\"", 400), (get, 200), ("\"-\"", 400)];
    for (line, (request, status)) in lines.iter().zip(wanted) {
        assert!(line.contains(&format!("] {request} {status} ")), "{lines:#?}");
    }
}

#[test]
fn garbage_and_floods_are_counted() {
    let (server, visitor, address) = site();
    let mut client = H3Client::connect(&visitor, address, "a.test");
    assert_eq!(client.get("/").text(), "ok");
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for at in 0..500u32 {
        let bytes: Vec<u8> = (0..at % 1400).map(|byte| (byte * 7 + at) as u8).collect();
        socket.send_to(&bytes, address).unwrap();
    }
    assert_eq!(client.get("/").text(), "ok");
    let metrics = client.get("/metrics").text();
    let value = |name: &str| {
        let line = metrics
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("{name}: {metrics}"));
        line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()).unwrap_or(-1.0)
    };
    assert!(value("brisk_quic_handshakes_total{outcome=\"completed\"}") >= 1.0);
    assert!(value("brisk_quic_datagrams_total{kind=\"received\"}") >= 100.0);
    assert!(value("brisk_quic_panics_total") == 0.0);
    drop(server);
}
