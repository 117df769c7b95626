//! QUIC over real sockets: threads, bad networks, reloads.

use brisk_testkit::Server;
use brisk_testkit::quic::Visitor;
use brisk_testkit::relay::{Relay, Weather};
use brisk_testkit::tls::issue;
use std::net::SocketAddr;
use std::time::Duration;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// Builds for development answer each request of hq-interop with its own bytes.
const SITE: &str = r"
    ssl_certificate a.crt;
    ssl_certificate_key a.key;
    server {
        listen 127.0.0.1:{{PORT}} quic;
        listen 127.0.0.1:{{PORT}} ssl;
        server_name a.test;
    }
";

fn site(main: &str) -> (Server, Visitor, SocketAddr) {
    let issued = issue("a.test", false, None);
    let server = Server::new(BIN)
        .main(main)
        .http(SITE)
        .file("a.crt", issued.certificate_pem())
        .file("a.key", issued.key_pem())
        .start();
    let address = SocketAddr::from(([127, 0, 0, 1], server.port()));
    (server, Visitor::new(&issued.certificate, &["hq-interop"]), address)
}

#[test]
fn every_thread_serves_its_connections() {
    let (_server, visitor, address) = site("worker_processes 4;");
    for visit in 0..12 {
        let mut client = visitor.connect(address, "a.test");
        let request = format!("GET /{visit}\r\n").repeat(1 + visit * 500);
        let id = client.send(request.as_bytes());
        assert_eq!(client.receive(id), request.as_bytes(), "visit {visit}");
        assert_eq!(client.end(), None);
    }
}

#[test]
fn a_bad_network_loses_nothing() {
    let (_server, visitor, address) = site("worker_processes 2;");
    let weather =
        Weather { lost: 30, changed: 20, late: 100, delay: Duration::from_millis(5), ..Weather::default() };
    let relay = Relay::new(address, 7, weather);
    let mut client = visitor.connect(relay.address, "a.test");
    let request = vec![b'x'; 200_000];
    let id = client.send(&request);
    assert_eq!(client.receive(id), request);
}

#[test]
fn a_client_whose_port_changes_goes_on() {
    let (_server, visitor, address) = site("worker_processes 2;");
    let mut client = visitor.connect(address, "a.test");
    for _ in 0..5 {
        client.rebind();
        let id = client.send(b"GET /\r\n");
        assert_eq!(client.receive(id), b"GET /\r\n");
    }
}

#[test]
fn reloads_end_no_connection() {
    let (server, visitor, address) = site("worker_processes 2;");
    let mut clients: Vec<_> = (0..6).map(|_| visitor.connect(address, "a.test")).collect();
    for _ in 0..5 {
        server.reload();
        for client in &mut clients {
            let id = client.send(b"GET /\r\n");
            assert_eq!(client.receive(id), b"GET /\r\n");
        }
    }
    assert!(clients.iter().all(|client| client.end().is_none()));
}

#[test]
fn early_data_is_taken_on_the_second_visit() {
    let (_server, visitor, address) = site("worker_processes 1;");
    let mut first = visitor.connect(address, "a.test");
    let id = first.send(b"GET /\r\n");
    first.receive(id);
    // Sessions are resumed early only where `ssl_early_data` says so.
    let mut second = visitor.begin(address, "a.test");
    assert!(!second.conn.has_0rtt());
    second.wait("a handshake", |client| !client.conn.is_handshaking());
    assert_eq!(second.end(), None);
}
