//! Early data (0-RTT): what is carried out of it, what back ends hear of it, and that nothing is carried out twice.

use super::{BIN, tool, with};
use brisk_testkit::backend::Backend;
use brisk_testkit::tls::{issue, stranger};
use brisk_testkit::{Builder, Server, TlsClient};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A session that may send early data, in a file of the server's folder.
fn session(server: &Server) -> String {
    let file = server.dir().join("session.pem").display().to_string();
    let connect = format!("127.0.0.1:{}", server.port());
    let request = "GET /first HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
    let shown = tool("openssl", &["s_client", "-connect", &connect, "-sess_out", &file, "-ign_eof"], request);
    assert!(shown.contains("200 OK"), "{shown}");
    file
}

/// The answer to a request in early data.
fn early(server: &Server, request: &str) -> String {
    let session = session(server);
    let connect = format!("127.0.0.1:{}", server.port());
    let file = server.write("early.txt", request).display().to_string();
    tool(
        "openssl",
        &["s_client", "-connect", &connect, "-sess_in", &session, "-early_data", &file, "-ign_eof"],
        "",
    )
}

#[test]
fn early_data_is_answered_and_marked() {
    let conf = "server { listen 127.0.0.1:{{PORT}} ssl; ssl_certificate a.crt; ssl_certificate_key a.key; ssl_early_data on;
        location / { return 200 \"early=$ssl_early_data reused=$ssl_session_reused\\n\"; } }";
    let server = with(Builder::new(BIN).http(conf), "a", &issue("a.test", false, None)).start();
    let connect = format!("127.0.0.1:{}", server.port());
    let session = server.dir().join("session.pem").display().to_string();
    let request = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
    let early = server.write("early.txt", request).display().to_string();
    let first =
        tool("openssl", &["s_client", "-connect", &connect, "-sess_out", &session, "-ign_eof"], request);
    assert!(first.contains("early= reused=."), "{first}");
    let args = ["s_client", "-connect", &connect, "-sess_in", &session, "-early_data", &early, "-ign_eof"];
    let second = tool("openssl", &args, "");
    assert!(second.contains("Early data was accepted") && second.contains("early=1 reused=r"), "{second}");
    // The same flight once more is no second request.
    let third = tool("openssl", &args, request);
    assert!(third.contains("Early data was rejected") && third.contains("early= reused=."), "{third}");
}

/// RFC 8470 §5: what may be a replay is passed on as such, and what would change something is not carried out.
#[test]
fn what_is_not_safe_to_repeat_is_not_carried_out_early() {
    let backend = Backend::start(|mut peer| {
        while let Some(head) = peer.head() {
            let marks = head.to_ascii_lowercase().matches("early-data: 1\r\n").count();
            peer.answer(format!("marks={marks}"));
        }
    });
    let conf = format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}} ssl; ssl_certificate a.crt; ssl_certificate_key a.key; ssl_early_data on;
         location / {{ proxy_pass http://127.0.0.1:{0}; }} location /own/ {{ proxy_pass http://127.0.0.1:{0}; proxy_set_header Early-Data $ssl_early_data; }} }}",
        backend.port()
    );
    let server = with(Builder::new(BIN).http(&conf), "a", &issue("a.test", false, None)).start();
    let request = |line: &str, more: &str| {
        format!("{line} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n{more}\r\n")
    };
    for (request, want) in [
        (request("GET /", ""), "marks=1"),
        (request("GET /", "Early-Data: 1\r\n"), "marks=1"),
        (request("GET /own/", ""), "marks=1"),
        (request("POST /", "Content-Length: 0\r\n"), "425 Too Early"),
        (request("DELETE /", ""), "425 Too Early"),
    ] {
        let shown = early(&server, &request);
        assert!(shown.contains("Early data was accepted") && shown.contains(want), "{request}: {shown}");
    }
    // After the handshake it is a request as any other.
    let late = TlsClient::get(server.port(), &stranger(), "a.test", "/").unwrap();
    assert!(late.ends_with("marks=0"), "{late}");
}

/// The first flight of a client, as it was on the wire.
fn first_flight(server: &Server) -> Vec<u8> {
    let session = session(server);
    let file = server.write("early.txt", "GET /early HTTP/1.1\r\nHost: a.test\r\n\r\n").display().to_string();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = listener.local_addr().unwrap().to_string();
    let mut client = Command::new("openssl")
        .args(["s_client", "-connect", &connect, "-sess_in", &session, "-early_data", &file])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut flight = Vec::new();
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).unwrap();
        let mut body = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
        stream.read_exact(&mut body).unwrap();
        flight.extend_from_slice(&head);
        flight.extend_from_slice(&body);
        // Application data: the request.
        if head[0] == 23 {
            break;
        }
    }
    client.kill().unwrap();
    client.wait().unwrap();
    flight
}

/// Somebody has recorded a first flight and sends it many times, at the same moment and to all threads.
#[test]
fn a_recorded_flight_is_carried_out_once() {
    const TIMES: usize = 24;
    let conf = "log_format early '$uri early=$ssl_early_data'; access_log access.log early;
        server { listen 127.0.0.1:{{PORT}} ssl; ssl_certificate a.crt; ssl_certificate_key a.key; ssl_early_data on; CACHE
        location / { return 200 ok; } }";
    for cache in ["", "ssl_session_cache shared:early:1m;"] {
        let builder = Builder::new(BIN).main("worker_processes 4;").http(&conf.replace("CACHE", cache));
        let server = with(builder, "a", &issue("a.test", false, None)).start();
        let flight = first_flight(&server);
        let port = server.port();
        let start = std::sync::Arc::new(std::sync::Barrier::new(TIMES));
        let replays: Vec<_> = (0..TIMES)
            .map(|_| {
                let (flight, start) = (flight.clone(), start.clone());
                std::thread::spawn(move || {
                    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
                    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                    start.wait();
                    stream.write_all(&flight).unwrap();
                    // The server has begun to answer: whatever it makes of the early data is decided.
                    let mut first = [0];
                    stream.read_exact(&mut first).unwrap();
                    assert_eq!(first[0], 22);
                    stream
                })
            })
            .collect();
        let open: Vec<TcpStream> = replays.into_iter().map(|replay| replay.join().unwrap()).collect();
        drop(open);
        // The lines of all threads are there when each has ended the connections it had.
        server.wait_for_line("access.log", "/early early=1");
        let mut server = server;
        server.end(rustix::process::Signal::QUIT);
        let log = server.access_log();
        assert_eq!(log.matches("/early early=").count(), 1, "{cache}: {log}");
    }
}

/// RFC 8446 §4.2.10: early data that is not taken is skipped up to the limit that was told to clients, in whatever pieces
/// it comes.
#[test]
fn early_data_that_is_not_taken_is_skipped() {
    let conf = "ssl_certificate a.crt; ssl_certificate_key a.key;
        server { listen 127.0.0.1:{{PORT}} ssl; ssl_early_data on; location / { return 200 \"early=$ssl_early_data\\n\"; } }
        # Known by no session; one asks for certificates, one for another group.
        server { listen 127.0.0.1:{{PORT2}} ssl; location / { return 200 \"early=$ssl_early_data\\n\"; } }
        server { listen 127.0.0.1:{{PORT3}} ssl; ssl_early_data on; ssl_verify_client optional_no_ca; location / { return 200 \"early=$ssl_early_data\\n\"; } }
        server { listen 127.0.0.1:{{PORT4}} ssl; ssl_early_data on; ssl_ecdh_curve secp384r1; location / { return 200 \"early=$ssl_early_data\\n\"; } }";
    let server = with(Builder::new(BIN).http(conf), "a", &issue("a.test", false, None)).start();
    let session = session(&server);
    let request = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
    let groups = ["-groups", "X25519:P-384"];
    let show = |port: u16, file: &str| {
        let connect = format!("127.0.0.1:{port}");
        let args = ["s_client", "-connect", &connect, "-sess_in", &session, "-early_data", file, "-ign_eof"];
        tool("openssl", &[&args[..], &groups].concat(), request)
    };
    // The first use of a session is the only one.
    let first = server.write("early.txt", request).display().to_string();
    assert!(show(server.port(), &first).contains("Early data was accepted"));
    for size in [1, 100, 6000, 8000, 10_000, 12_000, 15_000, 16_384] {
        let file = server.write(&format!("early{size}.txt"), "x".repeat(size)).display().to_string();
        for port in [server.port(), server.port_of(2), server.port_of(3), server.port_of(4)] {
            for _ in 0..2 {
                let shown = show(port, &file);
                assert!(shown.contains("Early data was rejected"), "{size} {port}: {shown}");
                assert!(shown.contains("200 OK") && shown.contains("early=\n"), "{size} {port}: {shown}");
            }
        }
    }
}
