//! HTTP/3 over real sockets.

use brisk_testkit::h3::Answer;
use brisk_testkit::quic::{Dir, Side, StreamId, VarInt, Visitor};
use brisk_testkit::relay::{Relay, Weather};
use brisk_testkit::tls::issue;
use brisk_testkit::{Backend, H3Client, Server};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

const HEAD: &str = r"
    ssl_certificate a.crt;
    ssl_certificate_key a.key;
    http3_max_concurrent_streams 64;
    http3_stream_buffer_size 32k;
";

fn start(main: &str, site: &str, files: &[(&str, &str)]) -> (Server, Visitor, SocketAddr) {
    let issued = issue("a.test", false, None);
    let mut builder = Server::new(BIN)
        .main(main)
        .http(&format!("{HEAD}{site}"))
        .file("a.crt", issued.certificate_pem())
        .file("a.key", issued.key_pem());
    for (name, content) in files {
        builder = builder.file(name, content);
    }
    let server = builder.start();
    let address = SocketAddr::from(([127, 0, 0, 1], server.port()));
    (server, Visitor::new(&issued.certificate, &["h3"]), address)
}

/// A server on both kinds of sockets, with these lines in it.
fn site(lines: &str) -> (Server, Visitor, SocketAddr) {
    let text = format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}} quic; listen 127.0.0.1:{{{{PORT}}}} ssl; server_name a.test; {lines} }}"
    );
    start("", &text, &[])
}

fn connect(visitor: &Visitor, address: SocketAddr) -> H3Client {
    H3Client::connect(visitor, address, "a.test")
}

#[test]
fn files_and_answers() {
    let large = "0123456789abcdef".repeat(40_000);
    let text = r#"
        server {
            listen 127.0.0.1:{{PORT}} quic;
            listen 127.0.0.1:{{PORT}} ssl;
            server_name a.test;
            location / { root html; }
            location /vars { return 200 "$server_protocol $http2|$http3|$quic|$scheme $remote_addr"; }
        }
    "#;
    let files = [("html/small.txt", "a small file\n"), ("html/large.bin", &large)];
    let (server, visitor, address) = start("", text, &files);
    let mut client = connect(&visitor, address);
    for _ in 0..3 {
        let small = client.get("/small.txt");
        assert_eq!((small.status, small.text()), (200, "a small file\n".to_string()));
        assert_eq!(small.field("content-length"), "13");
    }
    assert_eq!(client.get("/large.bin").text(), large);
    assert_eq!(client.get("/missing").status, 404);
    assert_eq!(client.get("/vars").text(), "HTTP/3.0 |h3|quic|https 127.0.0.1");
    let head = client.begin(&client.fields("HEAD", "a.test", "/small.txt"), true);
    let head = client.wait(head);
    assert_eq!((head.status, head.field("content-length"), head.body.len()), (200, "13", 0));
    let mut fields = client.fields("GET", "a.test", "/large.bin");
    fields.push(("range", "bytes=16-19"));
    let part = client.begin(&fields, true);
    let part = client.wait(part);
    assert_eq!((part.status, part.text()), (206, "0123".to_string()));
    assert_eq!(client.quic.end(), None);
    let lines = server.access_lines(7);
    assert!(lines[0].contains("\"GET /small.txt HTTP/3.0\" 200 13"), "{lines:?}");
}

#[test]
fn many_requests_at_once() {
    let (_server, visitor, address) = site("location / { return 200 $uri$uri$uri; }");
    let mut client = connect(&visitor, address);
    let ask = |client: &mut H3Client, at: usize| {
        let path = format!("/{at}");
        client.begin(
            &[(":method", "GET"), (":scheme", "https"), (":authority", "a.test"), (":path", &path)],
            true,
        )
    };
    let streams: Vec<u64> = (0..200).map(|at| ask(&mut client, at)).collect();
    for (at, stream) in streams.into_iter().enumerate() {
        assert_eq!(client.wait(stream).text(), format!("/{at}").repeat(3));
    }
}

#[test]
fn a_server_without_http3_is_not_reached() {
    let text = r"
        server { listen 127.0.0.1:{{PORT}} quic; listen 127.0.0.1:{{PORT}} ssl; server_name a.test; location / { return 200 a; } }
        server { listen 127.0.0.1:{{PORT}} quic; server_name without.test; http3 off; }
        server { listen 127.0.0.1:{{PORT}} quic; server_name strict.test; ssl_verify_client on; ssl_client_certificate a.crt; }
    ";
    let (_server, visitor, address) = start("", text, &[]);
    let mut client = connect(&visitor, address);
    for (host, status) in [("a.test", 200), ("without.test", 421), ("strict.test", 421), ("a.test", 200)] {
        let stream = client.begin(&client.fields("GET", host, "/"), true);
        assert_eq!(client.wait(stream).status, status, "{host}");
    }
}

/// A client's certificate opens what it opens over TCP; where an authority must be asked about it, it opens nothing, since over QUIC nobody
/// asks.
#[test]
fn clients_have_certificates() {
    let authority = issue("authority", true, None);
    let (own, server_own) = (issue("client", false, Some(&authority)), issue("a.test", false, None));
    let ask = "listen 127.0.0.1:{{PORT}} quic; ssl_verify_client optional; ssl_client_certificate ca.crt;";
    let ocsp = "ssl_ocsp leaf; ssl_ocsp_responder http://127.0.0.1:1/;";
    let text = format!(
        "{HEAD} server {{ {ask} server_name a.test; location / {{ return 200 $ssl_client_verify; }} }}
         server {{ {} {ocsp} server_name b.test; location / {{ return 200 $ssl_client_verify; }} }}",
        ask.replace("{{PORT}}", "{{PORT2}}")
    );
    let server = Server::new(BIN)
        .http(&text)
        .file("a.crt", server_own.certificate_pem())
        .file("a.key", server_own.key_pem())
        .file("ca.crt", authority.certificate_pem())
        .start();
    let (chain, key) = (own.certificate_pem(), own.key_pem());
    let root = &server_own.certificate;
    let with = Visitor::with_certificate(root, &["h3"], Some((&chain, &key)));
    let without = Visitor::new(root, &["h3"]);
    let ask = |visitor: &Visitor, place: usize| {
        let address = SocketAddr::from(([127, 0, 0, 1], server.port_of(place)));
        let answer = connect(visitor, address).get("/");
        (answer.status, if answer.status == 200 { answer.text() } else { String::new() })
    };
    assert_eq!(ask(&with, 1), (200, "SUCCESS".into()));
    assert_eq!(ask(&without, 1), (200, "NONE".into()));
    assert_eq!(ask(&without, 2), (200, "NONE".into()));
    assert_eq!(ask(&with, 2), (400, String::new()));
}

fn proxy(lines: &str, backend: &Backend) -> (Server, Visitor, SocketAddr) {
    site(&format!("location / {{ proxy_pass http://127.0.0.1:{}; {lines} }}", backend.port()))
}

/// Says what has come: method, target and the sum of the body.
fn echo() -> Backend {
    Backend::start(|mut peer| {
        while let Some(head) = peer.head() {
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
            let body = peer.body(length.unwrap_or(0));
            let sum: u64 = body.iter().map(|byte| u64::from(*byte)).sum();
            let first = head.lines().next().unwrap_or_default();
            if !peer.answer(format!("{first}|{}|{sum}", body.len())) {
                return;
            }
        }
    })
}

#[test]
fn bodies_go_both_ways() {
    let backend = echo();
    let (_server, visitor, address) =
        proxy("client_max_body_size 10m; client_body_buffer_size 16k;", &backend);
    let mut client = connect(&visitor, address);
    for len in [0, 1, 1000, 16_384, 100_000, 1_500_000] {
        let body: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        let sum: u64 = body.iter().map(|byte| u64::from(*byte)).sum();
        let answer = client.post("/upload", &body);
        assert_eq!(answer.text(), format!("POST /upload HTTP/1.1|{len}|{sum}"), "{answer:?}");
    }
    // Piece by piece, with pauses, without a length.
    let stream = client.begin(&client.fields("PUT", "a.test", "/pieces"), false);
    for _ in 0..5 {
        client.send(stream, b"12345", false);
        client.turn(Duration::from_millis(20));
    }
    client.send(stream, b"", true);
    assert!(client.wait(stream).text().starts_with("PUT /pieces HTTP/1.1|25|"));
    assert_eq!(client.quic.end(), None);
}

#[test]
fn bodies_that_are_refused() {
    let backend = echo();
    let (_server, visitor, address) = proxy("client_max_body_size 1k;", &backend);
    let mut client = connect(&visitor, address);
    assert_eq!(client.post("/", &[b'x'; 5000]).status, 413);
    // RFC 9114 §4.1.2: a body that is not as long as its head says. It never reaches the back end as a request of its own.
    for (told, sent) in [("5", &b"123456789"[..]), ("50", b"1234")] {
        let mut fields = client.fields("POST", "a.test", "/length");
        fields.push(("content-length", told));
        let stream = client.begin(&fields, false);
        client.send(stream, sent, true);
        let answer = client.wait(stream);
        assert!(answer.reset.is_some() || answer.status == 400, "{answer:?}");
    }
    assert!(client.post("/", b"fine").text().ends_with("|4|418"));
}

/// Request smuggling from HTTP/3 to HTTP/1.1, and heads that RFC 9114 §4.2 and §4.3 forbid.
#[test]
fn heads_that_are_refused() {
    let backend = echo();
    let (_server, visitor, address) = proxy("", &backend);
    let mut client = connect(&visitor, address);
    let usual = [(":method", "GET"), (":scheme", "https"), (":authority", "a.test"), (":path", "/")];
    let with = |more: &[(&'static str, &'static str)]| [&usual[..], more].concat();
    let cases = [
        with(&[("transfer-encoding", "chunked")]),
        with(&[("connection", "close")]),
        with(&[("upgrade", "websocket")]),
        with(&[("Upper", "x")]),
        with(&[("x", "a\r\ny: b")]),
        with(&[("x y", "a")]),
        with(&[("content-length", "1"), ("content-length", "2")]),
        with(&[("te", "gzip")]),
        with(&[(":method", "POST")]),
        with(&[(":unknown", "x")]),
        with(&[("host", "b.test")]),
        usual[..3].to_vec(),
        usual[1..].to_vec(),
        vec![("x", "first"), usual[0], usual[1], usual[2], usual[3]],
        vec![usual[0], usual[1], usual[2], (":path", "/ HTTP/1.1\r\nx: y")],
        vec![usual[0], usual[1], usual[2], (":path", "")],
        vec![("GET / HTTP/1.1\r\n", "x"), usual[1], usual[2], usual[3]],
    ];
    for fields in cases {
        let stream = client.begin(&fields, true);
        let answer = client.wait(stream);
        assert!(answer.reset == Some(0x10e) || answer.status == 400, "{fields:?}: {answer:?}");
    }
    assert_eq!(client.get("/").text(), "GET / HTTP/1.1|0|0");
    assert_eq!(backend.connections(), 1);
}

#[test]
fn trailers_and_early_hints() {
    let backend = Backend::start(|mut peer| {
        while let Some(head) = peer.head() {
            if head.starts_with("GET /hints") {
                peer.send("HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n");
                peer.answer("hints");
            } else {
                peer.send("HTTP/1.1 200 OK\r\nTrailer: x-sum\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nX-Sum: 4\r\n\r\n");
            }
        }
    });
    let (_server, visitor, address) =
        proxy("proxy_http_version 1.1; proxy_pass_trailers on; early_hints 1;", &backend);
    let mut client = connect(&visitor, address);
    let hints = client.get("/hints");
    assert_eq!(hints.text(), "hints");
    assert_eq!(hints.interim.len(), 1, "{hints:?}");
    assert!(hints.interim[0].0 == 103 && hints.interim[0].1.iter().any(|(name, _)| name == "link"));
    let mut fields = client.fields("GET", "a.test", "/trailers");
    fields.push(("te", "trailers"));
    let stream = client.begin(&fields, true);
    let answer = client.wait(stream);
    assert_eq!(answer.text(), "body");
    assert_eq!(answer.trailers, [("x-sum".to_string(), "4".to_string())]);
    // Trailers of a request end it.
    let stream = client.begin(&client.fields("POST", "a.test", "/hints-not"), false);
    client.send(stream, b"1234", false);
    client.trailers(stream, &[("x-check", "1")]);
    assert_eq!(client.wait(stream).status, 200);
}

/// RFC 9114 §5.2, `keepalive_requests`.
#[test]
fn goaway_comes_before_the_end() {
    let (_server, visitor, address) = site("keepalive_requests 3; location / { return 200 ok; }");
    let mut client = connect(&visitor, address);
    for _ in 0..3 {
        assert_eq!(client.get("/").text(), "ok");
    }
    client.until("GOAWAY", |client| client.goaway.is_some());
    client.until("end", |client| client.quic.end().is_some());
    assert!(
        client.quic.end().unwrap_or_default().contains("closed by peer: 256") || client.goaway == Some(12)
    );
}

/// `keepalive_timeout` is about connections without a request.
#[test]
fn an_answer_that_takes_its_time_keeps_its_connection() {
    let (release, may_answer) = std::sync::mpsc::channel();
    let may_answer = std::sync::Mutex::new(may_answer);
    let backend = Backend::start(move |mut peer| {
        if peer.head().is_some() && may_answer.lock().unwrap().recv().is_ok() {
            peer.answer("at last");
        }
    });
    for keepalive in ["0", "1s"] {
        let back = backend.port();
        let (_server, visitor, address) = site(&format!(
            "keepalive_timeout {keepalive}; location / {{ proxy_pass http://127.0.0.1:{back}; }}"
        ));
        let mut client = connect(&visitor.silent(), address);
        let stream = client.begin(&client.fields("GET", "a.test", "/"), true);
        let until = Instant::now() + Duration::from_millis(2500);
        while Instant::now() < until {
            client.turn(Duration::from_millis(100));
        }
        release.send(()).unwrap();
        assert_eq!(client.wait(stream).text(), "at last", "keepalive_timeout {keepalive}");
    }
}

/// RESET_STREAM ends a request also while its body is not read.
#[test]
fn a_body_that_waits_is_given_up_with_its_request() {
    let main = "limit_req_zone $server_name zone=one:1m rate=1r/m;";
    let text = format!(
        "{main} server {{ listen 127.0.0.1:{{{{PORT}}}} quic; listen 127.0.0.1:{{{{PORT}}}} ssl; server_name a.test;
            location /wait {{ limit_req zone=one burst=5; client_max_body_size 0; root html; }} }}"
    );
    let (server, visitor, address) = start("", &text, &[]);
    let mut client = connect(&visitor, address);
    assert_eq!(client.get("/wait").status, 404);
    let stream = client.begin(&client.fields("POST", "a.test", "/wait"), false);
    // Until the server takes no more of it.
    let id = StreamId::new(Side::Client, Dir::Bi, stream >> 2);
    let mut refusals = 0;
    while refusals < 20 {
        if client.quic.conn.send_stream(id).write(&[0; 4096]).is_err() {
            refusals += 1;
        }
        client.turn(Duration::from_millis(20));
    }
    client.quic.conn.send_stream(id).reset(VarInt::from_u32(0x10c)).unwrap();
    client.turn(Duration::from_millis(20));
    assert!(server.access_lines(2)[1].contains("\"POST /wait HTTP/3.0\" 499 "));
}

#[test]
fn what_is_cancelled_frees_its_back_end() {
    let ((begun, has_begun), (gone, is_gone)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
    let backend = Backend::start(move |mut peer| {
        if peer.head().is_some() {
            let _ = begun.send(());
            let _ = gone.send(peer.is_closed_within(Duration::from_secs(30)));
        }
    });
    let (server, visitor, address) = proxy("", &backend);
    let mut client = connect(&visitor, address);
    let stream = client.begin(&client.fields("GET", "a.test", "/slow"), true);
    client.until("request at the back end", |_| has_begun.try_recv().is_ok());
    client.cancel(stream);
    client.turn(Duration::from_millis(100));
    assert_eq!(is_gone.recv_timeout(Duration::from_secs(30)), Ok(true));
    assert!(server.access_lines(1)[0].contains(" 499 "));
}

/// What is asked in early data is a request that may be a replay (RFC 8470).
#[test]
fn early_data_is_answered_as_over_tcp() {
    let (_server, visitor, address) =
        site("ssl_early_data on; location / { return 200 \"$ssl_early_data|$request_method\"; }");
    let mut first = connect(&visitor, address);
    assert_eq!(first.get("/").text(), "|GET");
    let quic = visitor.begin(address, "a.test");
    assert!(quic.conn.has_0rtt());
    let mut second = H3Client::over(quic, "a.test");
    let get = second.begin(&second.fields("GET", "a.test", "/"), true);
    let answer = second.wait(get);
    assert!(answer.status == 200 && answer.text().ends_with("|GET"), "{answer:?}");
    let mut third = H3Client::over(visitor.begin(address, "a.test"), "a.test");
    if third.quic.conn.has_0rtt() {
        let post = third.begin(&third.fields("POST", "a.test", "/"), true);
        let answer = third.wait(post);
        assert!(answer.status == 425 || answer.status == 200, "{answer:?}");
    }
}

#[test]
fn limits_and_rules_hold_for_the_address_that_is_validated() {
    let lines = r#"
        location / { return 200 "$remote_addr"; }
        location /local { allow 127.0.0.1; deny all; root html; }
    "#;
    let (server, visitor, address) = site(lines);
    let mut client = connect(&visitor, address);
    assert_eq!(client.get("/").text(), "127.0.0.1");
    assert_eq!(client.get("/local").status, 404);
    client.quic.move_to(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 7)));
    // The first request of the new address may be answered before that is validated; then it counts for the old one.
    let mut seen = Vec::new();
    for _ in 0..20 {
        seen.push(client.get("/").text());
        if seen.last().is_some_and(|last| last == "127.0.0.7") {
            break;
        }
    }
    assert_eq!(seen.last().map(String::as_str), Some("127.0.0.7"), "{seen:?}");
    assert_eq!(client.get("/local").status, 403);
    assert!(server.access_lines(3 + seen.len()).last().is_some_and(|line| line.starts_with("127.0.0.7 ")));
}

fn status(answers: &[Answer]) -> Vec<u16> {
    answers.iter().map(|answer| answer.status).collect()
}

/// An attacker on the path copies packets and sends them from another address (RFC 9000 §9.3): some of them arrive before the client's.
/// That address gets a challenge. Variables, limits and access rules never see it, and no connection ends.
#[test]
fn copied_packets_are_nobodys_requests() {
    let text = r"
        limit_req_zone $binary_remote_addr zone=r:1m rate=1r/m;
        server {
            listen 127.0.0.1:{{PORT}} quic;
            listen 127.0.0.1:{{PORT}} ssl;
            server_name a.test;
            add_header x-address $remote_addr always;
            root html;
            location / { allow 127.0.0.1; deny all; }
            location /limited { limit_req zone=r burst=4 nodelay; }
        }
    ";
    let large = "x".repeat(300_000);
    let files = [("html/a", "a"), ("html/large", &large), ("html/limited", "l")];
    let (server, visitor, address) = start("worker_processes 2;", text, &files);
    for seed in [1, 2, 3] {
        let relay = Relay::new(address, seed, Weather::default());
        let mut client = connect(&visitor, relay.address);
        assert_eq!(client.get("/a").status, 200);
        relay.set(Weather { copied: 300, delay: Duration::from_millis(2), ..Weather::default() });
        for _ in 0..30 {
            let answer = client.get("/a");
            assert_eq!((answer.status, answer.field("x-address")), (200, "127.0.0.1"), "{answer:?}");
        }
        assert_eq!(client.get("/large").body.len(), large.len());
        let passed = (0..8).filter(|_| client.get("/limited").status == 200).count();
        assert_eq!(passed, if seed == 1 { 5 } else { 0 }, "seed {seed}");
        assert_eq!(client.quic.end(), None);
    }
    let lines = server.access_lines(3 * 40);
    assert!(lines.iter().all(|line| line.starts_with("127.0.0.1 ")), "{lines:?}");
}

#[test]
fn limits_of_requests_count_over_http3() {
    let text = r"
        limit_req_zone $binary_remote_addr zone=r:1m rate=1r/m;
        server {
            listen 127.0.0.1:{{PORT}} quic;
            listen 127.0.0.1:{{PORT}} ssl;
            server_name a.test;
            location / { limit_req zone=r burst=2 nodelay; root html; }
        }
    ";
    let (_server, visitor, address) = start("", text, &[("html/a", "x")]);
    let mut client = connect(&visitor, address);
    let answers: Vec<Answer> = (0..5).map(|_| client.get("/a")).collect();
    assert_eq!(status(&answers), [200, 200, 200, 503, 503]);
}

/// With Retry a client comes back with a token; the secret of tokens and resets may stand in a file.
#[test]
fn directives_about_quic() {
    let text = r"
        quic_host_key quic.key;
        quic_retry on;
        quic_gso off;
        http3_hq off;
        quic_active_connection_id_limit 5;
        server {
            listen 127.0.0.1:{{PORT}} quic;
            listen 127.0.0.1:{{PORT}} ssl;
            server_name a.test;
            location / { return 200 ok; }
            location /metrics { metrics; }
        }
    ";
    let files = [("quic.key", "0123456789abcdef0123456789abcdef")];
    let (server, visitor, address) = start("quic_bpf on;", text, &files);
    let mut client = connect(&visitor, address);
    assert_eq!(client.get("/").text(), "ok");
    assert!(client.get("/metrics").text().contains("brisk_quic_answers_total{kind=\"retry\"} "));
    // Secrets that can be guessed, and a second one, are refused.
    server.write("quic.key", "short");
    let refused = server.run(&["-t"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("too short for a secret"), "{said}");
}
