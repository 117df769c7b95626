//! HTTP/3 over real sockets.

use brisk_h3::qpack::{begin, write_literal};
use brisk_h3::{Config, Connection, Event, Field, FieldSink, HeadKind, HeadSink, Role, frame};
use brisk_testkit::Server;
use brisk_testkit::quic::{QuicClient, Visitor};
use brisk_testkit::tls::issue;
use std::net::SocketAddr;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

const SITE: &str = r#"
    ssl_certificate a.crt;
    ssl_certificate_key a.key;
    http3_max_concurrent_streams 64;
    http3_stream_buffer_size 32k;
    server {
        listen 127.0.0.1:{{PORT}} quic;
        listen 127.0.0.1:{{PORT}} ssl;
        server_name a.test;
        location / { root html; }
        location /vars { return 200 "$server_protocol $http2|$http3|$scheme $remote_addr"; }
    }
    server {
        listen 127.0.0.1:{{PORT}} quic;
        server_name without.test;
        http3 off;
    }
"#;

fn site() -> (Server, Visitor, SocketAddr) {
    let issued = issue("a.test", false, None);
    let server = Server::new(BIN)
        .http(SITE)
        .file("a.crt", issued.certificate_pem())
        .file("a.key", issued.key_pem())
        .file("html/small.txt", "a small file\n")
        .file("html/large.bin", "0123456789abcdef".repeat(40_000))
        .start();
    let address = SocketAddr::from(([127, 0, 0, 1], server.port()));
    (server, Visitor::new(&issued.certificate, &["h3"]), address)
}

/// A response as a client hears it.
#[derive(Default)]
struct Answer {
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

impl FieldSink for Answer {
    fn tag(&mut self, _: &[u8]) -> u8 {
        0
    }

    fn field(&mut self, field: Field<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.fields.push((text(field.name), text(field.value)));
    }
}

impl HeadSink for Answer {
    fn begin(&mut self, _: u64, _: HeadKind) {}
}

impl Answer {
    fn field(&self, name: &str) -> &str {
        self.fields.iter().find(|(have, _)| have == name).map_or("", |(_, value)| value)
    }
}

fn get(client: &mut QuicClient, host: &str, path: &str) -> Answer {
    let mut section = Vec::new();
    begin(&mut section);
    for (name, value) in [(":method", "GET"), (":scheme", "https"), (":authority", host), (":path", path)] {
        write_literal(name.as_bytes(), value.as_bytes(), &mut section);
    }
    let mut request = Vec::new();
    frame::write(frame::kind::HEADERS, &section, &mut request);
    let stream = client.send(&request);
    let bytes = client.receive(stream);
    let mut engine = Connection::<()>::new(Role::Client, Config::default(), 0);
    engine.open(0, ());
    let (mut answer, mut input, mut ended) = (Answer::default(), bytes.as_slice(), false);
    while let Some(event) = engine.receive(0, &mut input, true, &mut answer).expect("valid frames") {
        match event {
            Event::Head { end, .. } => ended |= end,
            Event::Data { data, end, .. } => {
                answer.body.extend_from_slice(data);
                ended |= end;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(ended);
    answer
}

#[test]
fn files_and_answers() {
    let (_server, visitor, address) = site();
    let mut client = visitor.connect(address, "a.test");
    for _ in 0..3 {
        let small = get(&mut client, "a.test", "/small.txt");
        assert_eq!((small.field(":status"), small.body.as_slice()), ("200", &b"a small file\n"[..]));
        assert_eq!(small.field("content-length"), "13");
    }
    let large = get(&mut client, "a.test", "/large.bin");
    assert_eq!(large.body, "0123456789abcdef".repeat(40_000).as_bytes());
    assert_eq!(get(&mut client, "a.test", "/missing").field(":status"), "404");
    let vars = get(&mut client, "a.test", "/vars");
    assert_eq!(String::from_utf8_lossy(&vars.body), "HTTP/3.0 |h3|https 127.0.0.1");
    assert_eq!(client.end(), None);
}

#[test]
fn a_server_without_http3_is_not_reached() {
    let (_server, visitor, address) = site();
    let mut client = visitor.connect(address, "a.test");
    assert_eq!(get(&mut client, "without.test", "/").field(":status"), "421");
}
