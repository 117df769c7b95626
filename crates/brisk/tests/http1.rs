//! HTTP/1.1 as clients see it: framing, limits, time-outs, routing and error pages.
//!
//! What can be said as "these bytes, that answer" stands in `http1/*.txt`, asked of `http1/*.conf`; here is what
//! needs a pace, a clock or another socket.

use brisk_testkit::client::{Client, Ending, Failure};
use brisk_testkit::versions::everywhere;
use brisk_testkit::{Builder, scenario, wait};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

#[path = "http1/mainline.rs"]
mod mainline;

/// The program; another one of nginx's make can be asked the same questions.
fn bin() -> String {
    std::env::var("BRISK_TEST_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_brisk").into())
}

#[test]
fn framing() {
    let server =
        Builder::new(&bin()).http(include_str!("http1/framing.conf")).file("html/a.txt", "hello\n").start();
    scenario::run(&server, include_str!("http1/framing.txt"));
}

/// `http1/routing.conf` with the files that its cases speak of.
fn routed() -> Builder {
    Builder::new(&bin())
        .http(include_str!("http1/routing.conf"))
        .file("html/404.html", "page 404\n")
        .file("html/413.html", "page 413\n")
        .file("html/400.html", "page 400\n")
        .file("html/dir/a.txt", "in dir\n")
        .file("html/files/a.txt", "file\n")
        .file("html/deny/a.txt", "secret\n")
        .file("html/denyfirst/a.txt", "secret\n")
        .file("html/allow/a.txt", "allowed\n")
        .file("html/any/a.txt", "any\n")
        .file("html/anynot/a.txt", "secret\n")
        .file("html/status/a.txt", "html\n")
}

#[test]
fn routing() {
    scenario::run(&routed().start(), include_str!("http1/routing.txt"));
}

#[test]
fn routing_over_other_versions() {
    let (builder, versions) = everywhere(routed());
    assert!(scenario::run_over(&builder.start(), include_str!("http1/routing.txt"), &versions) > 60);
}

/// Three megabytes: more than sockets hold.
fn large() -> Vec<u8> {
    (0..3_000_000u32).map(|n| b'a' + (n / 1000 % 26) as u8).collect()
}

const GET: &str = "GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn plain(http: &str) -> Builder {
    Builder::new(&bin()).http(http).file("html/a.txt", "hello\n")
}

#[test]
fn requests_split_at_every_byte() {
    let server = plain(include_str!("http1/framing.conf")).start();
    let get = "GET /host?q=1 HTTP/1.1\r\nHost: localhost\r\nX-Long: some value\r\n\r\n";
    let post = "POST /say HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n\
                5;x=y\r\n12345\r\na\r\n0123456789\r\n0\r\nT: v\r\n\r\n";
    for (bytes, body) in
        [(get, "localhost|localhost|localhost|HTTP/1.1|/host?q=1\n"), (post, "said POST /say\n")]
    {
        // On one connection: whatever is left of one request would spoil the next.
        let mut client = server.client();
        for at in 1..bytes.len() {
            let (head, tail) = bytes.split_at(at);
            client.send(head);
            let more = tail.len().min(1);
            client.send(&tail[..more]);
            client.send(&tail[more..]);
            let response = client.response();
            assert_eq!(
                (response.status, response.text().as_str()),
                (200, body),
                "split at {at} of {bytes:?}"
            );
        }
    }
    let mut client = server.client();
    for byte in get.bytes() {
        client.send([byte]);
    }
    assert_eq!(client.response().status, 200);
}

#[test]
fn many_requests_at_once() {
    let big = large();
    let server = plain(include_str!("http1/framing.conf")).file("html/big.txt", &big).start();
    let mut client = server.client();
    // More than is answered in one turn, and more than is read in one turn.
    client.send(GET.repeat(500));
    let long = format!("GET /say HTTP/1.1\r\nHost: localhost\r\nX-Long: {}\r\n\r\n", "x".repeat(3000));
    client.send(long.repeat(30));
    let post =
        format!("POST /say HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n{}", "y".repeat(5000));
    client.send(format!("{post}{GET}").repeat(20));
    for n in 0..500 {
        assert_eq!(client.response().text(), "hello\n", "request {n}");
    }
    for n in 0..30 {
        assert_eq!(client.response().text(), "said GET /say\n", "long request {n}");
    }
    for n in 0..20 {
        assert_eq!(client.response().text(), "said POST /say\n", "post {n}");
        assert_eq!(client.response().text(), "hello\n", "behind post {n}");
    }
    // Small and large answers in turn.
    let pair = format!("GET /big.txt HTTP/1.1\r\nHost: localhost\r\n\r\n{GET}");
    client.send(pair.repeat(5));
    for n in 0..5 {
        assert!(client.response().body == big, "large answer {n}");
        assert_eq!(client.response().text(), "hello\n", "behind large answer {n}");
    }
}

#[test]
fn what_was_asked_before_the_end_is_answered() {
    let server = plain(include_str!("http1/framing.conf")).start();
    for count in [1, 25, 500] {
        let mut client = server.client();
        client.send(GET.repeat(count));
        client.half_close();
        for n in 0..count {
            assert_eq!(client.response().text(), "hello\n", "request {n} of {count}");
        }
    }
    // The end in the middle of a head ends the connection behind what was complete.
    let mut client = server.client();
    client.send(GET.repeat(30) + "GET /a");
    client.half_close();
    (0..30).for_each(|n| assert_eq!(client.response().text(), "hello\n", "request {n}"));
    assert!(client.rest().is_ok_and(|rest| rest.is_empty()));
}

/// RFC 9110 §6.4.1: bytes behind the head of a 204 or 304 would be the beginning of the next answer.
#[test]
fn answers_without_content_have_no_bytes_behind_their_head() {
    let server = plain(
        r#"server {
            listen 127.0.0.1:{{PORT}};
            error_page 404 =204 /page.html;
            location = /page.html { return 200 "the page"; }
            location /none/ { return 204 "at=$msec"; }
            location /same/ { return 304 "same"; }
            location /many/ { addition_types *; add_after_body /page.html; return 204 "first"; }
            location /slow/ { limit_rate 1m; return 204 "slow"; }
            location /early/ { return 103 "early"; }
            location /text/ { return 200 "text"; }
            location / { return 404; }
        }"#,
    )
    .start();
    let ask = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    for (target, status) in
        [("/none/", 204), ("/same/", 304), ("/many/", 204), ("/slow/", 204), ("/missing", 204)]
    {
        let mut client = server.client();
        // Twice, for an answer that was kept; and once behind each other, as the second one shows what is too much.
        for _ in 0..3 {
            client.send(ask(target) + &ask("/text/"));
            assert_eq!(client.response().status, status, "{target}");
            assert_eq!(client.response().text(), "text", "{target}");
        }
    }
    // A client takes it for an interim answer: nothing may come that would be taken for the final one.
    let mut client = server.client();
    client.send(ask("/early/") + &ask("/text/"));
    let all = String::from_utf8(client.rest().unwrap()).unwrap();
    assert!(all.starts_with("HTTP/1.1 103 ") && all.ends_with("\r\n\r\n"), "{all}");
    assert_eq!(all.matches("HTTP/1.1 ").count(), 1, "{all}");
}

#[test]
fn http_0_9_has_no_head() {
    let server = plain(&format!("allow_http09 on; {}", include_str!("http1/framing.conf"))).start();
    for (request, answer) in
        [("GET /a.txt\r\n", "hello\n"), ("GET /say\n", "said GET /say\n"), ("GET /none\r\n", "")]
    {
        let mut client = server.client();
        client.send(request);
        assert_eq!(String::from_utf8(client.rest().unwrap()).unwrap(), answer, "{request:?}");
    }
}

/// What a client takes the bytes for cannot be known before its version is.
#[test]
fn what_was_not_understood_is_answered_with_a_status_line() {
    for (http09, requests) in [
        ("off", &["GET /a.txt\r\n", "GET /\n", "POST /a.txt\r\n", "GET /%\r\n"][..]),
        ("on", &["POST /a.txt\r\n", "get /\r\n", "\x16\x03\x01", "GET / HTTP/1.x\r\n", "G\r\n"][..]),
    ] {
        let server = plain(&format!("allow_http09 {http09}; {}", include_str!("http1/framing.conf"))).start();
        for request in requests {
            let mut client = server.client();
            client.send(request);
            let answer = String::from_utf8(client.rest().unwrap()).unwrap();
            assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{request:?}: {answer:?}");
            assert!(answer.contains("\r\nConnection: close\r\n"), "{answer:?}");
        }
    }
}

/// RFC 9110 §9.3.7. The server's own rules hold for it; no location has such a path.
#[test]
fn options_of_the_server_as_a_whole() {
    let text = "server { listen 127.0.0.1:{{PORT}}; listen 127.0.0.1:{{PORT2}}; http2 on;
            location ~ . { return 500; } location / { return 500; } }
        server { listen 127.0.0.1:{{PORT}}; server_name deny; deny all; }
        server { listen 127.0.0.1:{{PORT}}; server_name return; return 418 tea; }
        server { listen 127.0.0.1:{{PORT}}; server_name try; try_files $uri /x; location /x { return 500; } }";
    let server = Builder::new(&bin()).http(text).start();
    let ask = |host: &str| {
        server
            .request(format!(
                "OPTIONS * HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi"
            ))
            .status
    };
    assert_eq!((ask("a"), ask("deny"), ask("return"), ask("try")), (200, 403, 418, 200));
    let mut client = brisk_testkit::H2Client::connect(server.port_of(2));
    let mut fields = brisk_testkit::H2Client::get_fields("*");
    assert_eq!(client.request(&fields, b"").status, 400);
    fields[0].1 = "OPTIONS";
    let answer = client.request(&fields, b"");
    assert_eq!((answer.status, answer.body.len()), (200, 0));
    assert!(answer.field("allow").is_some_and(|allow| allow.contains("OPTIONS")));
    for (name, value) in [("a[b", "x"), ("a/b", "x"), ("x\u{e9}", "x"), ("x", "a\nb")] {
        let mut fields = brisk_testkit::H2Client::get_fields("/");
        fields.push((name, value));
        assert_eq!(client.request(&fields, b"").status, 400, "{name} {value:?}");
    }
}

#[test]
fn a_refused_client_that_still_sends_gets_the_answer() {
    let server = plain(include_str!("http1/framing.conf")).start();
    let cases = [
        (
            "POST /small HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n\r\n".to_string(),
            413,
            "too large body",
        ),
        (format!("GET /{} ", "x".repeat(9000)), 414, "too long URI"),
        (
            format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}", "x".repeat(9000)),
            400,
            "too long header line",
        ),
    ];
    let piece = vec![b'x'; 20_000];
    for (head, status, log) in cases {
        let mut client = server.client();
        client.send(head);
        server.wait_for_log(log);
        for _ in 0..100 {
            client.send(&piece);
        }
        let response = client.try_response("POST").unwrap_or_else(|f| panic!("{status}: {f}"));
        assert_eq!(response.status, status);
        assert_eq!(response.header("Connection"), Some("close"));
        client.half_close();
        client.expect_closed();
    }
}

#[test]
fn lingering_ends() {
    let server = plain(
        "lingering_timeout 200ms; lingering_time 600ms;
         server { listen 127.0.0.1:{{PORT}}; client_max_body_size 10; location / { } }
         server { listen 127.0.0.1:{{PORT2}}; client_max_body_size 10; lingering_close off; location / { } }",
    )
    .start();
    let post = "POST /a.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n\r\n";
    // Who sends nothing more is let go after lingering_timeout, who sends on and on after lingering_time.
    for sends in [false, true] {
        let mut client = server.client();
        client.send(post);
        assert_eq!(client.try_response("POST").unwrap().status, 413);
        client.expect_closed();
        let start = Instant::now();
        wait::holds("the end of lingering", || !sends || client.try_send("x").is_err());
        assert!(start.elapsed() < Duration::from_secs(20));
    }
    let mut client = Client::connect(server.port_of(2));
    client.send(post);
    assert_eq!(client.try_response("POST").unwrap().status, 413);
    client.expect_closed();
}

#[test]
fn time_outs_of_the_client() {
    let server = plain(
        "server { listen 127.0.0.1:{{PORT}}; client_header_timeout 1s; keepalive_timeout 10s; }
         server { listen 127.0.0.1:{{PORT2}}; keepalive_timeout 300ms 77s; }
         server { listen 127.0.0.1:{{PORT3}}; keepalive_timeout 0; }",
    )
    .start();
    // Nothing, or drop by drop: the time is for the whole head.
    let start = Instant::now();
    let mut silent = server.client();
    let mut slow = server.client();
    slow.send("GET /slow HTTP/1.1\r\nHost: localhost\r\nX-Slow: ");
    wait::holds("the end of a slow head", || {
        slow.try_send("x").is_err() || slow.ending(Duration::from_millis(10)) != Ending::Open
    });
    silent.expect_closed();
    assert!(start.elapsed() >= Duration::from_millis(250), "{:?}", start.elapsed());
    server.wait_for_line("access.log", "\"GET /slow HTTP/1.1\" 408 0 \"-\" \"-\"$");
    // After a request it is keepalive_timeout that counts, and client_header_timeout from the next one's first byte.
    let mut second = server.client();
    second.get("/a.txt");
    second.send("GET /a.t");
    second.expect_closed();

    let mut kept = Client::connect(server.port_of(2));
    let response = kept.get("/a.txt");
    assert_eq!(response.header("Keep-Alive"), Some("timeout=77"));
    assert_eq!(response.header("Connection"), Some("keep-alive"));
    let start = Instant::now();
    kept.expect_closed();
    assert!(start.elapsed() >= Duration::from_millis(250), "{:?}", start.elapsed());

    let mut never = Client::connect(server.port_of(3));
    assert_eq!(never.get("/a.txt").header("Connection"), Some("close"));
    never.expect_closed();
}

#[test]
fn connections_have_an_end() {
    let server = plain(
        "server { listen 127.0.0.1:{{PORT}}; keepalive_requests 3; location /one { keepalive_requests 1; return 200; } }
         server { listen 127.0.0.1:{{PORT2}}; keepalive_time 300ms; }",
    )
    .start();
    for pipelined in [false, true] {
        let mut client = server.client();
        if pipelined {
            client.send(GET.repeat(5));
        }
        for wanted in ["keep-alive", "keep-alive", "close"] {
            let response = if pipelined { client.response() } else { client.get("/a.txt") };
            assert_eq!(response.header("Connection"), Some(wanted));
        }
        client.expect_closed();
    }
    let mut client = server.client();
    assert_eq!(client.get("/one").header("Connection"), Some("close"));

    let mut client = Client::connect(server.port_of(2));
    let start = Instant::now();
    wait::holds("keepalive_time", || client.get("/a.txt").header("Connection") == Some("close"));
    assert!(start.elapsed() >= Duration::from_millis(250), "{:?}", start.elapsed());
    client.expect_closed();
}

/// `http1/headers.conf` with the files that its cases speak of.
fn with_headers() -> Builder {
    plain(include_str!("http1/headers.conf"))
        .file("html/a.txt", "x\n")
        .file("html/a.bin", "x\n")
        .file("html/types/a.txt", "x\n")
        .file("html/types/a.bin", "x\n")
        .file("html/charset/a.txt", "x\n")
        .file("html/charset/a.bin", "x\n")
}

#[test]
fn headers_over_other_versions() {
    let (builder, versions) = everywhere(with_headers());
    assert!(scenario::run_over(&builder.start(), include_str!("http1/headers.txt"), &versions) > 20);
}

#[test]
fn headers() {
    let server = with_headers().start();
    scenario::run(&server, include_str!("http1/headers.txt"));
    let response = server.get("/trailer?x=1");
    assert_eq!(response.trailers, [("X-End".to_string(), "end-1".to_string())]);
    let mut strict = Client::connect(server.port_of(2));
    let response = strict.request("GET /odd HTTP/1.1\r\nHost: localhost\r\nX-Odd: a\r\nX.!: b\r\n\r\n");
    assert_eq!(response.text(), "a||");
}

#[test]
fn listening() {
    let server = Builder::new(&bin())
        .http(
            "server { listen 127.0.0.1:{{PORT}}; server_name a; return 200 first; }
             server { listen 127.0.0.1:{{PORT}} default_server; server_name b; return 200 second; }
             server { listen {{PORT2}}; return 200 wildcard; }
             server { listen 127.0.0.2:{{PORT2}}; return 200 'two $server_addr'; }
             server { listen [::1]:{{PORT3}} ipv6only=on; listen 127.0.0.1:{{PORT3}}; listen unix:{{DIR}}/http.sock;
                      return 200 '$remote_addr $server_addr $server_port $binary_remote_addr'; }
             server { listen localhost:{{PORT4}}; return 200 'by name'; }",
        )
        .start();
    let ask = |client: &mut Client, host: &str| {
        client.request(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).text()
    };
    assert_eq!(ask(&mut server.client(), "a"), "first");
    assert_eq!(ask(&mut server.client(), "b"), "second");
    assert_eq!(ask(&mut server.client(), "x"), "second");
    let connect = |ip: &str, n: usize| {
        Client::connect_to(SocketAddr::new(ip.parse().unwrap(), server.port_of(n))).unwrap()
    };
    assert_eq!(ask(&mut connect("127.0.0.1", 2), "x"), "wildcard");
    assert_eq!(ask(&mut connect("127.0.0.2", 2), "x"), "two 127.0.0.2");
    assert_eq!(ask(&mut connect("127.0.0.3", 2), "x"), "wildcard");
    let port = server.port_of(3);
    let seen = ask(&mut connect("::1", 3), "x");
    assert!(seen.starts_with(&format!("::1 ::1 {port} ")), "{seen:?}");
    let seen = ask(&mut connect("127.0.0.1", 3), "x");
    assert!(seen.starts_with(&format!("127.0.0.1 127.0.0.1 {port} ")), "{seen:?}");
    let mut unix = Client::connect_unix(&server.dir().join("http.sock")).unwrap();
    let seen = ask(&mut unix, "x");
    assert!(seen.starts_with(&format!("unix: unix:{}/http.sock  unix:", server.dir().display())), "{seen:?}");
    assert_eq!(ask(&mut connect("127.0.0.1", 4), "x"), "by name");
}

#[test]
fn a_range_of_ports() {
    let mut builder = plain("");
    // Two that lie side by side.
    let mut ports = (1..=16).map(|n| {
        let name = if n == 1 { "{{PORT}}".to_string() } else { format!("{{{{PORT{n}}}}}") };
        (n, builder.fill(&name).parse::<u16>().unwrap())
    });
    let mut last = ports.next().unwrap();
    let (first, second) = loop {
        let next = ports.next().expect("neighbours among sixteen ports");
        if next.1 == last.1 + 1 {
            break (last.1, next.1);
        }
        last = next;
    };
    drop(ports);
    let conf = format!("server {{ listen 127.0.0.1:{first}-{second}; return 200 $server_port; }}");
    let server = builder.http(&conf).start();
    for port in [first, second] {
        assert_eq!(Client::connect(port).get("/").text(), port.to_string());
    }
    drop(server);
}

#[test]
fn clients_that_go() {
    let server = plain("server { listen 127.0.0.1:{{PORT}}; location / { } location /no-sendfile/ { sendfile off; alias {{DIR}}/html/; } }")
        .file("html/big.txt", large())
        .start();
    for target in ["/big.txt", "/no-sendfile/big.txt"] {
        for _ in 0..10 {
            let mut client = Client::connect_narrow(server.port());
            client.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            client.some(1000).unwrap();
            client.reset();
        }
        let mut client = server.client();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        client.half_close();
        assert_eq!(client.response().body.len(), 3_000_000);
        client.expect_closed();
    }
    assert_eq!(server.get("/a.txt").text(), "hello\n");
    let lines = server.access_lines(23);
    let aborted =
        lines.iter().filter(|line| line.contains("/big.txt") && !line.contains("\" 200 3000000 ")).count();
    assert_eq!(aborted, 20, "{lines:#?}");
}

#[test]
fn a_client_that_does_not_read() {
    let server = plain(
        "send_timeout 300ms;
         server { listen 127.0.0.1:{{PORT}}; location / { } location /no-sendfile/ { sendfile off; alias {{DIR}}/html/; } }
         server { listen 127.0.0.1:{{PORT2}}; reset_timedout_connection on; location / { } }",
    )
    .file("html/big.txt", large().repeat(4))
    .start();
    let ask = |port: u16, target: &str| {
        let mut client = Client::connect_narrow(port);
        client.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        client
    };
    let mut narrow = [ask(server.port(), "/big.txt"), ask(server.port(), "/no-sendfile/big.txt")];
    let mut reset = ask(server.port_of(2), "/big.txt");
    wait::holds("three time-outs", || server.error_log().matches("client timed out").count() == 3);
    server.access_lines(3);
    for client in &mut narrow {
        let failure = client.try_response("GET").map(|r| r.status);
        assert!(matches!(failure, Err(Failure::Fault(_))), "{failure:?}");
    }
    let failure = reset.try_response("GET").map(|r| r.status);
    assert!(matches!(failure, Err(Failure::Reset)), "{failure:?}");
    assert_eq!(server.get("/a.txt").text(), "hello\n");
}

#[test]
fn rates() {
    let server = plain(
        "server { listen 127.0.0.1:{{PORT}};
             location /limited/ { limit_rate 20k; alias {{DIR}}/html/; }
             location /after/ { limit_rate 20k; limit_rate_after 20k; alias {{DIR}}/html/; }
             location /set/ { set $limit_rate 20k; alias {{DIR}}/html/; }
             location /variable/ { limit_rate $arg_rate; alias {{DIR}}/html/; }
             location /slow { limit_rate 100; return 200 '0123456789abcdefghij'; } }",
    )
    .file("html/40k.txt", vec![b'x'; 40 << 10])
    .start();
    let cases = [
        ("/limited/40k.txt", true),
        ("/set/40k.txt", true),
        ("/variable/40k.txt?rate=20k", true),
        ("/slow", true),
        ("/after/40k.txt", false),
        ("/variable/40k.txt", false),
    ];
    std::thread::scope(|scope| {
        for (target, is_slow) in cases {
            let server = &server;
            scope.spawn(move || {
                let start = Instant::now();
                let response = server.get(target);
                let time = start.elapsed();
                assert_eq!(response.status, 200, "{target}");
                // The first second's share leaves at once, the second one's when a second is over.
                assert!(!is_slow || time >= Duration::from_millis(700), "{target}: {time:?}");
                assert!(time < Duration::from_secs(10), "{target}: {time:?}");
            });
        }
    });
}

#[test]
fn post_action_is_seen_by_nobody() {
    let server = plain(
        "log_format post '$uri $status $body_bytes_sent';
         server { listen 127.0.0.1:{{PORT}}; access_log {{DIR}}/post.log post;
             location / { post_action /after; }
             location = /after { internal; access_log {{DIR}}/after.log post; return 200 unseen; } }",
    )
    .start();
    let mut client = server.client();
    for _ in 0..2 {
        assert_eq!(client.get("/a.txt").text(), "hello\n");
    }
    assert_eq!(client.get("/missing").status, 404);
    server.wait_for_line("after.log", "404");
    let all = format!("{}{}", server.read("post.log"), server.read("after.log"));
    assert_eq!(all.lines().count(), 3, "{all}");
}
