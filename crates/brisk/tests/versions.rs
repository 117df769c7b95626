//! The same questions over HTTP/1.1, HTTP/2 and HTTP/3: what a server says of requests holds for all of them.

use brisk_testkit::application::Speaks;
use brisk_testkit::versions::{Connected, Request, Version, over_each};
use brisk_testkit::{Application, Backend, Builder, Response, wait};
use rustix::process::Signal;
use std::time::Duration;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// One server with these lines in it.
fn site(lines: &str) -> Builder {
    Builder::new(BIN).http(&format!("server {{ listen 127.0.0.1:{{{{PORT}}}}; {lines} }}"))
}

fn ask(connected: &mut Connected, request: &Request) -> Response {
    connected.ask(request).unwrap_or_else(|why| panic!("{request:?}: {why}"))
}

/// Answers with what has come: the head, and the sum of the body.
fn echo() -> Backend {
    Backend::start(|mut peer| {
        while let Some(head) = peer.head() {
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
            let body = peer.body(length.unwrap_or(0));
            let sum: u64 = body.iter().map(|byte| u64::from(*byte)).sum();
            if !peer.answer(format!("{head}{}|{sum}", body.len())) {
                return;
            }
        }
    })
}

#[test]
fn requests_reach_back_ends_as_they_are() {
    let backend = echo();
    let lines = format!(
        "client_max_body_size 5m; client_body_buffer_size 16k;
         location / {{ proxy_pass http://127.0.0.1:{}; proxy_http_version 1.1; proxy_set_header Connection ''; }}",
        backend.port()
    );
    over_each(
        || site(&lines),
        |server, version| {
            let mut client = Connected::new(server, version);
            let request = Request { method: "OPTIONS".into(), ..Request::get("/a%20b?c=d&e=%2f") };
            let text = ask(&mut client, &request.with("x-one", "1").with("cookie", "a=b")).text();
            assert!(text.starts_with("OPTIONS /a%20b?c=d&e=%2f HTTP/1.1\r\n"), "{text}");
            let text = text.to_ascii_lowercase();
            assert!(text.contains("\r\nx-one: 1\r\n") && text.contains("\r\ncookie: a=b\r\n"), "{text}");
            for own in ["\r\nconnection:", "\r\n:", "\r\nkeep-alive:"] {
                assert!(!text.contains(own), "{text}");
            }
            for len in [0, 1, 16_384, 70_000, 1_000_000] {
                let body: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
                let sum: u64 = body.iter().map(|byte| u64::from(*byte)).sum();
                let text = ask(&mut client, &Request::post("/up", &body)).text();
                assert!(text.ends_with(&format!("\r\n\r\n{len}|{sum}")), "{text}");
            }
            let large = ask(&mut client, &Request::post("/large", &vec![b'x'; 5 * 1024 * 1024 + 1]));
            assert_eq!(large.status, 413);
            assert_eq!(Connected::new(server, version).get("/").status, 200);
        },
    );
}

#[test]
fn answers_come_back_as_they_are() {
    let backend = Backend::start(|mut peer| {
        while let Some(head) = peer.head() {
            let sent = match head.split(' ').nth(1).unwrap_or_default() {
                "/large" => peer.answer("0123456789".repeat(150_000)),
                "/chunks" => peer.send(
                    "HTTP/1.1 201 Fine\r\nTransfer-Encoding: chunked\r\nX-One: a\r\nX-One: b\r\n\r\n\
                     3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n",
                ),
                "/none" => peer.send("HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n"),
                "/moved" => peer.send(
                    "HTTP/1.1 302 Found\r\nLocation: http://inside/x\r\nSet-Cookie: a=b; path=/in/\r\nContent-Length: 0\r\n\r\n",
                ),
                _ => return,
            };
            if !sent {
                return;
            }
        }
    });
    let lines = format!(
        "location / {{
            proxy_pass http://127.0.0.1:{}; proxy_http_version 1.1; proxy_buffers 4 8k; proxy_buffer_size 8k;
            proxy_redirect http://inside/ /out/; proxy_cookie_path /in/ /out/;
            location /broken {{ proxy_pass http://127.0.0.1:{}; error_page 502 = @else; }}
        }}
        location @else {{ return 200 else; }}",
        backend.port(),
        backend.port()
    );
    over_each(
        || site(&lines),
        |server, version| {
            let mut client = Connected::new(server, version);
            let large = client.get("/large");
            assert_eq!((large.status, large.body.len()), (200, 1_500_000));
            let chunks = client.get("/chunks");
            assert_eq!((chunks.status, &*chunks.text()), (201, "abcdefg"));
            assert_eq!(chunks.all("x-one").collect::<Vec<_>>(), ["a", "b"]);
            let none = client.get("/none");
            assert_eq!((none.status, none.header("etag"), none.body.len()), (304, Some("\"x\""), 0));
            let moved = client.get("/moved");
            assert_eq!(moved.status, 302);
            assert!(moved.header("location").is_some_and(|to| to.ends_with("/out/x")), "{}", moved.head);
            assert_eq!(moved.header("set-cookie"), Some("a=b; path=/out/"));
            assert_eq!(client.get("/broken").text(), "else");
            assert_eq!(client.get("/other").status, 502);
        },
    );
}

#[test]
fn hints_and_trailers() {
    let backend = Backend::start(|mut peer| {
        while let Some(head) = peer.head() {
            if head.starts_with("GET /hints") {
                peer.send("HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n");
                peer.answer("hints");
            } else {
                peer.send(
                    "HTTP/1.1 200 OK\r\nTrailer: x-sum\r\nTransfer-Encoding: chunked\r\n\r\n\
                     4\r\nbody\r\n0\r\nX-Sum: 4\r\n\r\n",
                );
            }
        }
    });
    let lines = format!(
        "location / {{
            proxy_pass http://127.0.0.1:{}; proxy_http_version 1.1; proxy_pass_trailers on; early_hints $http_x_hints;
        }}",
        backend.port()
    );
    over_each(
        || site(&lines),
        |server, version| {
            let mut client = Connected::new(server, version);
            let hints = ask(&mut client, &Request::get("/hints").with("x-hints", "1"));
            assert_eq!((&*hints.text(), &hints.interim[..]), ("hints", &[103][..]));
            let head = hints.interim_heads[0].to_ascii_lowercase();
            assert!(head.contains("link: </style.css>; rel=preload"), "{head}");
            assert!(client.get("/hints").interim.is_empty(), "only who asks for them gets them");
            let request = Request::get("/trailers").with("te", "trailers");
            // RFC 9110 §10.1.4: over HTTP/1.1 TE is named in Connection.
            let request =
                if matches!(version, Version::One) { request.with("connection", "te") } else { request };
            let trailers = ask(&mut client, &request);
            assert_eq!(trailers.text(), "body");
            let (name, value) = &trailers.trailers[0];
            assert!(name.eq_ignore_ascii_case("x-sum") && value == "4", "{trailers:?}");
        },
    );
}

#[test]
fn limits_count_requests_and_not_connections() {
    let text = r"
        limit_req_zone $arg_k zone=req:1m rate=1r/m;
        limit_conn_zone $arg_k zone=conn:1m;
        server {
            listen 127.0.0.1:{{PORT}};
            location /req { limit_req zone=req burst=2 nodelay; limit_req_status 429; }
            location /conn { limit_conn conn 1; limit_rate 2k; }
            location /open { limit_except GET { deny all; } }
        }
    ";
    let builder = || {
        let builder = Builder::new(BIN).http(text).file("html/req", "r").file("html/open", "o");
        builder.file("html/conn", vec![b'x'; 100_000])
    };
    over_each(builder, |server, version| {
        let mut clients = [Connected::new(server, version), Connected::new(server, version)];
        let codes: Vec<u16> = (0..5).map(|at| clients[at % 2].get("/req?k=a").status).collect();
        assert_eq!(codes, [200, 200, 200, 429, 429]);
        assert_eq!(clients[0].get("/req?k=b").status, 200);
        // An answer that lasts holds its place until the client has gone.
        clients[0].begin("/conn?k=a");
        assert_eq!(clients[1].get("/conn?k=a").status, 503);
        let [first, mut second] = clients;
        first.leave();
        wait::holds("the place is free again", || {
            second
                .ask(&Request { method: "HEAD".into(), ..Request::get("/conn?k=a") })
                .is_ok_and(|it| it.status == 200)
        });
        assert_eq!(ask(&mut second, &Request::post("/open", b"")).status, 403);
        assert_eq!(second.get("/open").text(), "o");
    });
}

#[test]
fn who_may_come_in() {
    let lines = r"
        auth_basic_user_file {{DIR}}/users;
        location /basic { auth_basic door; }
        location /asked { auth_request /judge; auth_request_set $who $status; add_header X-Judged $who; }
        location = /judge { internal; if ($http_may = yes) { return 204; } return 403; }
        location /either { satisfy any; deny all; auth_basic x; }
        location /denied { deny 127.0.0.1; allow all; }
    ";
    let builder = || {
        let builder = site(lines).file("users", "plain:{PLAIN}secret\n");
        ["basic", "asked", "either", "denied"]
            .into_iter()
            .fold(builder, |builder, name| builder.file(&format!("html/{name}"), name))
    };
    const PLAIN: (&str, &str) = ("authorization", "Basic cGxhaW46c2VjcmV0");
    over_each(builder, |server, version| {
        let mut client = Connected::new(server, version);
        let refused = client.get("/basic");
        assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Basic realm=\"door\"")));
        assert_eq!(ask(&mut client, &Request::get("/basic").with(PLAIN.0, PLAIN.1)).text(), "basic");
        assert_eq!(client.get("/asked").status, 403);
        let asked = ask(&mut client, &Request::get("/asked").with("may", "yes"));
        assert_eq!((asked.status, asked.header("x-judged")), (200, Some("204")));
        assert_eq!(client.get("/either").status, 401);
        assert_eq!(ask(&mut client, &Request::get("/either").with(PLAIN.0, PLAIN.1)).status, 200);
        assert_eq!(client.get("/denied").status, 403);
        assert_eq!(client.get("/judge").status, 404);
    });
}

#[test]
fn applications_are_told_the_same() {
    let app = Application::start(Speaks::FastCgi, 4, |exchange| {
        let asked = exchange.asked.clone();
        let names =
            ["REQUEST_METHOD", "REQUEST_URI", "QUERY_STRING", "CONTENT_LENGTH", "HTTP_X_ONE", "HTTP_HOST"];
        let told: Vec<&str> = names.into_iter().map(|name| asked.param(name)).collect();
        exchange.stdout(format!(
            "Status: 202 Taken\r\nX-Body: {}\r\n\r\n{}",
            asked.body.len(),
            told.join("|")
        ));
    });
    let lines = format!(
        "location / {{
            fastcgi_pass {}; fastcgi_param REQUEST_METHOD $request_method; fastcgi_param REQUEST_URI $request_uri;
            fastcgi_param QUERY_STRING $query_string; fastcgi_param CONTENT_LENGTH $content_length;
        }}",
        app.address()
    );
    over_each(
        || site(&lines),
        |server, version| {
            let mut client = Connected::new(server, version);
            let answer =
                ask(&mut client, &Request::post("/a%20b.php?x=1", &vec![b'z'; 40_000]).with("x-one", "1"));
            assert_eq!((answer.status, answer.header("x-body")), (202, Some("40000")));
            assert_eq!(answer.text(), "POST|/a%20b.php?x=1|x=1|40000|1|localhost");
            assert_eq!(client.get("/b").text(), "GET|/b||||localhost");
        },
    );
}

#[test]
fn logs_say_the_same_of_each() {
    let text = r#"
        log_format own '$remote_addr "$request" $status $body_bytes_sent $http_x_one $connection_requests $uri';
        server {
            listen 127.0.0.1:{{PORT}};
            access_log {{DIR}}/own.log own;
            location / { }
            location /moved { return 301 /a; }
            location /quiet { access_log off; return 200 q; }
        }
    "#;
    let builder = || Builder::new(BIN).http(text).file("html/a", "12345");
    over_each(builder, |server, version| {
        let mut client = Connected::new(server, version);
        ask(&mut client, &Request::get("/a?b=%22").with("x-one", "o\"ne"));
        client.get("/quiet");
        ask(&mut client, &Request { method: "HEAD".into(), ..Request::get("/a") });
        client.get("/missing");
        let all =
            wait::until("lines", || Some(server.read("own.log")).filter(|log| log.lines().count() == 3));
        let lines: Vec<&str> = all.lines().collect();
        let name = version.name();
        assert_eq!(lines[0], format!(r#"127.0.0.1 "GET /a?b=%22 {name}" 200 5 o\x22ne 1 /a"#));
        assert_eq!(lines[1], format!(r#"127.0.0.1 "HEAD /a {name}" 200 0 - 3 /a"#));
        assert!(lines[2].starts_with(&format!(r#"127.0.0.1 "GET /missing {name}" 404 "#)), "{}", lines[2]);
    });
}

/// What a client is told before its connection ends, and what it has asked for by then is answered.
#[test]
fn ends_are_announced() {
    let builder = || {
        site("keepalive_requests 3; location / { } location /slow { alias html/big; limit_rate 200k; }")
            .main("worker_processes 2;")
            .file("html/a", "a")
            .file("html/big", vec![b'x'; 300_000])
    };
    over_each(builder, |server, version| {
        let mut client = Connected::new(server, version);
        for _ in 0..3 {
            assert_eq!(client.get("/a").text(), "a");
        }
        match &mut client {
            Connected::One(client) => client.expect_closed(),
            Connected::Two(client) => client.until(|client| client.goaway.is_some()),
            Connected::Three(client) => client.until("GOAWAY", |client| client.goaway.is_some()),
        }
        assert_eq!(Connected::new(server, version).get("/a").text(), "a");
        // A server that stops finishes what it has begun.
        let mut client = Connected::new(server, version);
        let slow = client.begin("/slow");
        server.signal(Signal::QUIT);
        assert_eq!(client.finish(slow).len(), 300_000);
    });
}

/// A request that nobody waits for any more ends at its back end, too.
#[test]
fn who_leaves_is_not_waited_for() {
    let (gone, is_gone) = std::sync::mpsc::channel();
    let gone = std::sync::Mutex::new(gone);
    let backend = Backend::start(move |mut peer| {
        if peer.head().is_some() && peer.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx") {
            let is_closed = peer.is_closed_within(Duration::from_secs(30));
            let _ = gone.lock().unwrap().send(is_closed);
        }
    });
    let lines = format!(
        "location / {{ proxy_pass http://127.0.0.1:{}; proxy_http_version 1.1; proxy_buffering off; }}",
        backend.port()
    );
    over_each(
        || site(&lines),
        |server, version| {
            let mut client = Connected::new(server, version);
            client.begin("/");
            client.leave();
            assert_eq!(is_gone.recv_timeout(Duration::from_secs(30)), Ok(true));
        },
    );
}
