//! Back ends that speak HTTP/2: `proxy_http_version 2` and `grpc_pass`.

use brisk_h2::Settings;
use brisk_testkit::{Backend, Builder, H2Client, H2Peer, tls, wait};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// Answers each request with its own fields and body in lines, behind the number of its connection.
fn mirror() -> Backend {
    Backend::start(|peer| {
        let number = peer.number;
        let mut peer = H2Peer::new(peer, Settings::default());
        while let Some(request) = peer.request() {
            let body = peer.rest();
            let fields: Vec<String> =
                request.fields.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
            let fields = fields.concat();
            let text = format!("connection {number}\n{fields}body {}\n", String::from_utf8_lossy(&body));
            peer.fields(request.stream, &[(":status", "200"), ("x-empty", "")], false);
            peer.data(request.stream, text.as_bytes(), true);
        }
    })
}

#[test]
fn requests_are_sent_over_http2_and_connections_are_kept() {
    let backend = mirror();
    let server = Builder::new(BIN)
        .main("worker_processes 1;")
        .http(
            &r#"upstream u { server 127.0.0.1:BACK; keepalive 4; }
            server { listen 127.0.0.1:{{PORT}}; http2 on;
                location / { proxy_pass http://u; proxy_http_version 2; proxy_set_header X-Up "a$arg_none";
                    proxy_set_header Connection upgrade; proxy_set_header Upgrade x; proxy_set_header TE gzip; }
                location /host { proxy_pass http://u; proxy_http_version 2; proxy_set_header Host $http_x_host; }
                location /one { proxy_pass http://u; } }"#
                .replace("BACK", &backend.port().to_string()),
        )
        .start();
    let answer = server.request(
        "POST /a?b=%20c HTTP/1.1\r\nHost: front\r\nX-Client: Yes\r\nConnection: x-drop\r\nX-Drop: 1\r\nContent-Length: 5\r\n\r\nhello",
    );
    assert_eq!(
        answer.text(),
        "connection 1\n:method: POST\n:scheme: http\n:path: /a?b=%20c\n:authority: u\nx-up: a\ncontent-length: 5\nx-client: Yes\nbody hello\n"
    );
    assert_eq!(answer.header("x-empty"), Some(""));
    assert_eq!(answer.all("connection").count(), 1, "ours: {answer:?}");
    // One connection serves them one after the other, whoever asks.
    let answer = server.request("GET /host HTTP/1.0\r\nX-Host: other\r\n\r\n").text();
    assert!(answer.starts_with("connection 1\n:method: GET\n") && answer.contains(":authority: other\n"));
    let mut client = H2Client::connect(server.port());
    let fields = [
        (":method", "DELETE"),
        (":scheme", "http"),
        (":path", "/h2"),
        (":authority", "x"),
        ("te", "trailers"),
    ];
    let answer = client.request(&fields, b"body").text();
    assert!(
        answer.starts_with("connection 1\n:method: DELETE\n") && answer.ends_with("body body\n"),
        "{answer}"
    );
    // HTTP/1.1 is not spoken on it.
    let _ = server.request("GET /one HTTP/1.0\r\n\r\n");
    wait::holds("another connection", || backend.connections() == 2);
}

#[test]
fn an_http2_back_end_of_tls_is_asked_by_alpn() {
    let root = tls::issue("root", true, None);
    let issued = tls::issue("back.example", false, Some(&root));
    let server = Builder::new(BIN)
        .http(
            r#"server { listen 127.0.0.1:{{PORT}};
                location / { proxy_pass https://127.0.0.1:{{PORT2}}; proxy_http_version 2; }
                location /grpc { grpc_pass grpcs://127.0.0.1:{{PORT2}}; grpc_ssl_verify on;
                    grpc_ssl_trusted_certificate root.pem; grpc_ssl_name back.example; grpc_ssl_server_name on; }
                location /distrust { grpc_pass grpcs://127.0.0.1:{{PORT2}}; grpc_ssl_verify on;
                    grpc_ssl_trusted_certificate root.pem; grpc_ssl_name other.example; } }
            server { listen 127.0.0.1:{{PORT2}} ssl; http2 on; ssl_certificate back.pem; ssl_certificate_key back.key;
                return 200 "$server_protocol $ssl_alpn_protocol $ssl_server_name $scheme"; }"#,
        )
        .file("root.pem", root.certificate_pem())
        .file("back.pem", issued.certificate_pem())
        .file("back.key", issued.key_pem())
        .start();
    assert_eq!(server.get("/").text(), "HTTP/2.0 h2  https");
    assert_eq!(server.get("/grpc").text(), "HTTP/2.0 h2 back.example https");
    assert_eq!(server.get("/distrust").status, 502);
    server.wait_for_log("upstream SSL certificate does not match \"other.example\"");
}

#[test]
fn grpc_streams_both_ways() {
    let backend = Backend::start(|peer| {
        let mut peer = H2Peer::new(peer, Settings::default());
        while let Some(request) = peer.request() {
            assert!(!request.ended);
            assert_eq!(request.field("te"), Some("trailers"));
            peer.fields(request.stream, &[(":status", "200"), ("content-type", "application/grpc")], false);
            // Each piece is answered while the request goes on.
            loop {
                let piece = peer.body(1);
                if piece.is_empty() {
                    break;
                }
                peer.data(request.stream, &piece, false);
            }
            peer.fields(request.stream, &[("grpc-status", "0"), ("grpc-message", "")], true);
        }
    });
    let server = Builder::new(BIN)
        .main("worker_processes 1;")
        .http(
            &"upstream u { server 127.0.0.1:BACK; keepalive 1; }
            log_format g '$upstream_trailer_grpc_status $grpc_internal_trailers';
            server { listen 127.0.0.1:{{PORT}}; http2 on; access_log grpc.log g; location / { grpc_pass grpc://u; } }"
                .replace("BACK", &backend.port().to_string()),
        )
        .start();
    let mut client = H2Client::connect(server.port());
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/pkg.Service/Talk"),
        (":authority", "x"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    for _ in 0..2 {
        let stream = client.begin(&fields, false);
        for turn in 1..=3 {
            client.send(stream, b"ping", false);
            client.until(|client| client.answers.get(&stream).is_some_and(|a| a.body.len() == 4 * turn));
        }
        client.send(stream, b"", true);
        let answer = client.wait(stream);
        assert_eq!((answer.status, answer.text().as_str()), (200, "pingpingping"));
        let trailers: Vec<_> = answer.trailers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(trailers, [("grpc-status", "0"), ("grpc-message", "")]);
    }
    assert_eq!(backend.connections(), 1);
    wait::holds("two lines", || server.read("grpc.log") == "0 trailers\n0 trailers\n");
}

#[test]
fn a_grpc_error_without_a_body_stays_one_and_a_broken_answer_is_a_502() {
    let backend = Backend::start(|peer| {
        let mut peer = H2Peer::new(peer, Settings::default());
        while let Some(request) = peer.request() {
            let _ = peer.rest();
            match request.field(":path").unwrap_or_default() {
                "/error" => {
                    peer.fields(request.stream, &[(":status", "200"), ("grpc-status", "5")], true);
                }
                "/less" => {
                    peer.fields(request.stream, &[(":status", "200"), ("content-length", "9")], false);
                    peer.data(request.stream, b"less", true);
                }
                _ => peer.fields(request.stream, &[("no", "status")], true),
            }
        }
    });
    let server = Builder::new(BIN)
        .http(
            &"server { listen 127.0.0.1:{{PORT}}; http2 on; grpc_next_upstream off; grpc_intercept_errors on;
                location / { grpc_pass 127.0.0.1:BACK; error_page 502 = @grpc; }
                location @grpc { default_type application/grpc; add_header grpc-status 14; return 204; } }"
                .replace("BACK", &backend.port().to_string()),
        )
        .start();
    let mut client = H2Client::connect(server.port());
    let ask = |client: &mut H2Client, path: &str| {
        client
            .request(&[(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x")], b"x")
    };
    let answer = ask(&mut client, "/error");
    assert_eq!((answer.status, answer.field("grpc-status"), answer.trailers.len()), (200, Some("5"), 0));
    assert!(ask(&mut client, "/less").reset.is_some());
    server.wait_for_log("upstream prematurely closed stream while reading upstream");
    let answer = ask(&mut client, "/none");
    assert_eq!((answer.status, answer.field("grpc-status")), (204, Some("14")));
    server.wait_for_log("upstream sent no :status header while reading response header from upstream");
}

/// RFC 9113 §8.1.1, §8.2.2, §8.6: such answers are malformed, and no client gets any of them.
#[test]
fn a_malformed_answer_is_a_502() {
    const CASES: &[&[(&str, &str)]] = &[
        &[(":status", "200"), ("content-length", "+2")],
        &[(":status", "200"), ("content-length", " 2")],
        &[(":status", "200"), ("content-length", "2, 2")],
        &[(":status", "200"), ("content-length", "")],
        &[(":status", "200"), ("content-length", "2"), ("content-length", "2")],
        &[(":status", "200"), ("content-length", "2"), ("content-length", "3")],
        &[(":status", "200"), ("transfer-encoding", "chunked")],
        &[(":status", "200"), ("connection", "close")],
        &[(":status", "200"), ("keep-alive", "timeout=5")],
        &[(":status", "200"), ("proxy-connection", "close")],
        &[(":status", "200"), ("upgrade", "h2c")],
        &[(":status", "200"), ("X-Upper", "1")],
        &[(":status", "200"), ("x[y", "1")],
        &[(":status", "200"), ("x", "a\u{1}")],
        &[("x", "1"), (":status", "200")],
        &[(":status", "200"), (":status", "200")],
        &[(":status", "200"), (":path", "/")],
        &[(":status", "101")],
        &[(":status", "+20")],
    ];
    let backend = Backend::start(|peer| {
        let mut peer = H2Peer::new(peer, Settings::default());
        while let Some(request) = peer.request() {
            let number: usize = request.field(":path").unwrap_or_default()[1..].parse().unwrap();
            peer.fields(request.stream, CASES[number], false);
            peer.data(request.stream, b"ok", true);
        }
    });
    let server = Builder::new(BIN)
        .http(
            &"server { listen 127.0.0.1:{{PORT}}; proxy_next_upstream off;
                location / { proxy_pass http://127.0.0.1:BACK; proxy_http_version 2; } }
            server { listen 127.0.0.1:{{PORT2}}; http2 on; location / { grpc_pass 127.0.0.1:BACK; } }"
                .replace("BACK", &backend.port().to_string()),
        )
        .start();
    for (number, case) in CASES.iter().enumerate() {
        assert_eq!(server.get(&format!("/{number}")).status, 502, "{case:?}");
        assert_eq!(H2Client::connect(server.port_of(2)).get(&format!("/{number}")).status, 502, "{case:?}");
    }
}

#[test]
fn interim_responses_have_a_limit() {
    let backend = Backend::start(|peer| {
        let mut peer = H2Peer::new(peer, Settings::default());
        while let Some(request) = peer.request() {
            let count: usize = request.field(":path").unwrap_or_default()[1..].parse().unwrap();
            for _ in 0..count {
                peer.fields(request.stream, &[(":status", "103"), ("link", "</a>")], false);
            }
            peer.fields(request.stream, &[(":status", "200")], true);
        }
    });
    let server = Builder::new(BIN)
        .http(
            &"server { listen 127.0.0.1:{{PORT}}; error_log {{DIR}}/error.log info;
                location / { proxy_pass http://127.0.0.1:BACK; proxy_http_version 2; } }"
                .replace("BACK", &backend.port().to_string()),
        )
        .start();
    assert_eq!((server.get("/32").status, server.get("/33").status), (200, 502));
    server.wait_for_log("upstream sent too many interim responses");
}

#[test]
fn a_slow_back_end_holds_the_body_back() {
    let (told, hears) = mpsc::channel();
    let told = Mutex::new(told);
    let go_on = Arc::new(std::sync::Barrier::new(2));
    let waits = go_on.clone();
    let backend = Backend::start(move |peer| {
        let mut peer = H2Peer::new(peer, Settings::default());
        let Some(request) = peer.request() else { return };
        // Nothing is read, so no window opens, until the test says so.
        waits.wait();
        let body = peer.rest();
        told.lock().unwrap().send(body.len()).unwrap();
        peer.fields(request.stream, &[(":status", "200")], true);
    });
    let server = Builder::new(BIN)
        .http(
            &"server { listen 127.0.0.1:{{PORT}}; client_max_body_size 0; proxy_request_buffering off; proxy_http_version 2;
                location / { proxy_pass http://127.0.0.1:BACK; } }"
                .replace("BACK", &backend.port().to_string()),
        )
        .start();
    let mut client = server.client();
    const SIZE: usize = 3 << 20;
    client.send(format!("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: {SIZE}\r\n\r\n"));
    let body = vec![b'x'; SIZE];
    let sent = std::thread::scope(|scope| {
        let sending = scope.spawn(|| client.send(&body));
        go_on.wait();
        sending.join().unwrap();
        hears.recv().unwrap()
    });
    assert_eq!(sent, SIZE);
    assert_eq!(client.response().status, 200);
}

/// RFC 9113 §8.7: what was not looked at may be asked again, elsewhere.
#[test]
fn a_refused_request_goes_to_the_next_server() {
    let refusing = Backend::start(|peer| {
        let mut peer = H2Peer::new(peer, Settings { max_concurrent_streams: Some(0), ..Settings::default() });
        let _ = peer.request();
    });
    let backend = mirror();
    let server = Builder::new(BIN)
        .http(
            &"upstream u { server 127.0.0.1:ONE; server 127.0.0.1:TWO backup; }
            server { listen 127.0.0.1:{{PORT}}; location / { proxy_pass http://u; proxy_http_version 2; } }"
                .replace("ONE", &refusing.port().to_string())
                .replace("TWO", &backend.port().to_string()),
        )
        .start();
    let answer = server.request("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na");
    assert!(answer.text().ends_with("body a\n"), "{answer:?}");
    server.wait_for_log("upstream rejected request with error 7");
}

#[test]
fn what_a_server_says_between_requests_is_answered() {
    let (told, hears) = mpsc::channel();
    let told = Mutex::new(told);
    let backend = Backend::start(move |peer| {
        let number = peer.number;
        let mut peer = H2Peer::new(peer, Settings::default());
        while let Some(request) = peer.request() {
            peer.fields(request.stream, &[(":status", "200")], false);
            peer.data(request.stream, number.to_string().as_bytes(), true);
            told.lock().unwrap().send(peer.ping()).unwrap();
        }
    });
    let server = Builder::new(BIN)
        .main("worker_processes 1;")
        .http(
            &"upstream u { server 127.0.0.1:BACK; keepalive 1; }
            server { listen 127.0.0.1:{{PORT}}; location / { proxy_pass http://u; proxy_http_version 2; } }"
                .replace("BACK", &backend.port().to_string()),
        )
        .start();
    for _ in 0..3 {
        assert_eq!(server.get("/").text(), "1");
        assert!(hears.recv().unwrap());
    }
}

/// Answers health checks of gRPC with what the test says: a gRPC status, and whether the service serves.
fn checked(state: Arc<Mutex<(&'static str, u8)>>) -> Backend {
    Backend::start(move |peer| {
        let mut peer = H2Peer::new(peer, Settings::default());
        while let Some(request) = peer.request() {
            let body = peer.rest();
            let is_check = request.field(":path") == Some("/grpc.health.v1.Health/Check");
            if is_check {
                assert_eq!(body, b"\0\0\0\0\x05\x0a\x03a.B");
            }
            let (status, serving) = *state.lock().unwrap();
            peer.fields(request.stream, &[(":status", "200"), ("content-type", "application/grpc")], false);
            peer.data(request.stream, &[0, 0, 0, 0, 2, 8, serving], false);
            peer.fields(request.stream, &[("grpc-status", if is_check { status } else { "0" })], true);
        }
    })
}

#[test]
fn grpc_services_are_checked() {
    let state = Arc::new(Mutex::new(("0", 1)));
    let backend = checked(state.clone());
    let server = Builder::new(BIN)
        .http(
            &"upstream u { zone z 64k; server 127.0.0.1:BACK; }
            server { listen 127.0.0.1:{{PORT}}; http2 on;
                location / { grpc_pass u; health_check interval=20ms mandatory type=grpc grpc_service=a.B; } }"
                .replace("BACK", &backend.port().to_string()),
        )
        .start();
    let ask = || {
        let fields = [(":method", "POST"), (":scheme", "http"), (":path", "/x"), (":authority", "x")];
        H2Client::connect(server.port()).request(&fields, b"x").status
    };
    wait::holds("it is well", || ask() == 200);
    *state.lock().unwrap() = ("0", 2);
    server.wait_for_log(
        "peer is unhealthy while health checking, health check failed: the service is not serving",
    );
    assert_eq!(ask(), 502);
    *state.lock().unwrap() = ("0", 1);
    server.wait_for_log("peer is healthy while health checking");
    assert_eq!(ask(), 200);
    *state.lock().unwrap() = ("12", 1);
    server.wait_for_log("health check failed: gRPC status 12");
}

#[test]
fn servers_without_the_protocol_are_well_if_they_say_so_and_http2_is_checked_by_http2() {
    let state = Arc::new(Mutex::new(("12", 0)));
    let backend = checked(state);
    let server = Builder::new(BIN)
        .http(
            &"match odd { status 200; header content-type = application/grpc; }
            upstream u { zone z 64k; server 127.0.0.1:BACK; } upstream v { zone z2 64k; server 127.0.0.1:BACK; }
            server { listen 127.0.0.1:{{PORT}}; http2 on; location /api { api; }
                location / { grpc_pass u; health_check interval=20ms type=grpc grpc_service=a.B grpc_status=12; }
                location /v { proxy_pass http://v; proxy_http_version 2; health_check interval=20ms match=odd; } }"
                .replace("BACK", &backend.port().to_string()),
        )
        .start();
    for group in ["u", "v"] {
        wait::holds("a check has passed", || {
            server.get(&format!("/api/9/http/upstreams/{group}")).text().contains("\"last_passed\":true")
        });
    }
}

/// A server over TLS that tells who it was asked by; the second asks nobody.
const ASKING: &str = r#"
    server { listen 127.0.0.1:{{PORT2}} ssl; ssl_certificate back.pem; ssl_certificate_key back.key;
        ssl_verify_client optional; ssl_client_certificate root.pem;
        location / { return 200 "$ssl_client_verify $ssl_client_s_dn"; } }
"#;

#[test]
fn certificates_for_back_ends_are_chosen_by_variables() {
    let root = tls::issue("root", true, None);
    let back = tls::issue("back.example", false, Some(&root));
    let mut builder = Builder::new(BIN)
        .http(
            &r#"server { listen 127.0.0.1:{{PORT}};
                proxy_ssl_certificate $arg_c.pem; proxy_ssl_certificate_key $arg_c.key; proxy_ssl_certificate_cache max=4;
                location / { proxy_pass https://127.0.0.1:{{PORT2}}; }
                location /none { proxy_pass https://127.0.0.1:{{PORT2}}/; proxy_ssl_certificate ""; }
                location /uwsgi { uwsgi_pass suwsgi://127.0.0.1:{{PORT2}}; uwsgi_ssl_verify on;
                    uwsgi_ssl_trusted_certificate root.pem; uwsgi_ssl_name back.example; }
                location /other { uwsgi_pass suwsgi://127.0.0.1:{{PORT2}}; uwsgi_ssl_verify on;
                    uwsgi_ssl_trusted_certificate root.pem; uwsgi_ssl_name other.example; } }
            ASKING"#
                .replace("ASKING", ASKING),
        )
        .file("root.pem", root.certificate_pem())
        .file("back.pem", back.certificate_pem())
        .file("back.key", back.key_pem());
    for name in ["one", "two"] {
        let issued = tls::issue(name, false, Some(&root));
        builder = builder.file(&format!("{name}.pem"), issued.certificate_pem());
        builder = builder.file(&format!("{name}.key"), issued.key_pem());
    }
    let server = builder.start();
    for _ in 0..2 {
        assert_eq!(server.get("/?c=one").text(), "SUCCESS CN=one");
        assert_eq!(server.get("/?c=two").text(), "SUCCESS CN=two");
    }
    assert_eq!(server.get("/none").text(), "NONE ");
    assert_eq!(server.get("/?c=three").status, 500);
    server.wait_for_log("cannot load certificate .*three.pem.* while SSL handshaking to upstream");
    // What comes through TLS is no HTTP, and the server says so.
    assert_eq!(server.get("/uwsgi").status, 400);
    assert_eq!(server.get("/other").status, 502);
    server.wait_for_log("upstream SSL certificate does not match \"other.example\"");
}

/// RFC 8441: a WebSocket that came over HTTP/2 goes on over HTTP/1.1, and each side may end first.
#[test]
fn websockets_cross_from_http2_to_http1() {
    let backend = Backend::start(|mut peer| {
        let Some(head) = peer.head() else { return };
        assert!(
            head.starts_with("GET /chat HTTP/1.1\r\n") && head.contains("Upgrade: websocket\r\n"),
            "{head}"
        );
        peer.switch(&head, "websocket");
        peer.send("hello");
        let said = peer.body(4);
        peer.send([b"echo ", &said[..]].concat());
        // The client has ended its side; the last word is the back end's.
        assert!(peer.some().is_empty());
        peer.send("bye");
    });
    let server = Builder::new(BIN)
        .http(
            &"server { listen 127.0.0.1:{{PORT}}; http2 on; proxy_read_timeout 30s;
                location / { proxy_pass http://127.0.0.1:BACK; proxy_set_header Upgrade $http_upgrade;
                    proxy_set_header Connection upgrade; } }"
                .replace("BACK", &backend.port().to_string()),
        )
        .start();
    let mut client = H2Client::connect(server.port());
    let fields = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":path", "/chat"),
        (":authority", "x"),
        ("sec-websocket-version", "13"),
    ];
    let stream = client.begin(&fields, false);
    client.until(|client| client.answers.get(&stream).is_some_and(|answer| answer.body == b"hello"));
    client.send(stream, b"ping", false);
    client.until(|client| client.answers.get(&stream).is_some_and(|answer| answer.body == b"helloecho ping"));
    client.send(stream, b"", true);
    let answer = client.wait(stream);
    assert_eq!((answer.status, answer.text().as_str()), (200, "helloecho pingbye"));
}
