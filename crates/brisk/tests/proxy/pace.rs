//! The pace of both sides: slow back ends, limits of rate, sides that end before the other.

use crate::{BIN, builder, firehose, is_cut, proxy};
use brisk_testkit::backend::Peer;
use brisk_testkit::tls::{TlsClient, stranger};
use brisk_testkit::{Backend, Builder, Client, wait};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

#[test]
fn a_back_end_that_sends_byte_by_byte_is_waited_for() {
    let backend = Backend::start(|mut peer: Peer| {
        while peer.head().is_some() {
            for byte in
                b"HTTP/1.1 200 OK\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
            {
                peer.send([*byte]);
                std::thread::yield_now();
            }
        }
    });
    for directives in ["", "proxy_buffering off;"] {
        let server = proxy(backend.port(), "", directives);
        for _ in 0..3 {
            let answer = server.get("/");
            assert_eq!((answer.header("X-A"), answer.text().as_str()), (Some("b"), "hello"));
        }
    }
}

/// A buffered answer's first bytes leave at once; what follows them in small parts waits for more, but not until the end.
#[test]
fn little_of_an_answer_waits_for_more_but_not_for_the_end() {
    let (go, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let backend = Backend::start(move |mut peer: Peer| {
        while peer.head().is_some() {
            peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
            for parts in [["second", "third"], ["fourth", "fifth"]] {
                let _ = gate.lock().unwrap().recv();
                for part in parts {
                    peer.send(format!("{:x}\r\n{part}\r\n", part.len()));
                }
            }
            let _ = gate.lock().unwrap().recv();
            peer.send("0\r\n\r\n");
        }
    });
    for directives in ["", "proxy_max_temp_file_size 0;", "proxy_buffering off;"] {
        let server = proxy(backend.port(), "", directives);
        let mut client = server.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        for last in ["first", "third", "fifth"] {
            client.wait_for(last);
            go.send(()).unwrap();
        }
        assert_eq!(client.response().text(), "firstsecondthirdfourthfifth");
    }
}

/// A second's worth leaves at once, so three of them take two seconds.
#[test]
fn answers_leave_and_come_at_the_rate_that_is_set() {
    let check = |fields: &'static str, directives: &str, slow: bool| {
        let backend = Backend::start(move |mut peer: Peer| {
            while peer.head().is_some() {
                let body = "x".repeat(30_000);
                peer.send(format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 30000\r\n\r\n{body}"));
            }
        });
        let server = proxy(backend.port(), "", directives);
        let begun = Instant::now();
        assert_eq!(server.get("/").body.len(), 30_000);
        let took = begun.elapsed();
        assert!(!slow || took > Duration::from_millis(1500), "{fields} {directives}: {took:?}");
    };
    check("", "proxy_limit_rate 10k;", true);
    check("X-Accel-Limit-Rate: 10000\r\n", "", true);
    check("X-Accel-Limit-Rate: 10000\r\n", "proxy_ignore_headers X-Accel-Limit-Rate;", false);
    check("X-Rate: 10000\r\n", "proxy_limit_rate $upstream_http_x_rate;", true);
    check("", "limit_rate 10k;", true);
}

/// What the back end says of its answer, besides where it goes.
#[test]
fn the_back_end_may_ask_for_a_charset_and_for_no_buffering() {
    let (go, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let backend = Backend::start(move |mut peer: Peer| {
        peer.head();
        peer.send("HTTP/1.1 200 OK\r\nX-Accel-Charset: koi8-r\r\nX-Accel-Buffering: no\r\nContent-Type: text/html\r\nContent-Length: 9\r\n\r\nfirst");
        let _ = gate.lock().unwrap().recv();
        peer.send("last");
    });
    let server = proxy(backend.port(), "charset utf-8; override_charset on;", "");
    let mut client = server.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.wait_for("first");
    assert!(
        head.contains("Content-Type: text/html; charset=koi8-r\r\n") && !head.contains("X-Accel"),
        "{head}"
    );
    go.send(()).unwrap();
    assert_eq!(client.response().text(), "firstlast");
}

/// An answer that waits for its client in a file, and a disk without room for it: what comes is no whole answer.
#[test]
fn an_answer_for_which_there_is_no_room_is_cut_short() {
    const TOTAL: usize = 40 << 20;
    let (backend, _) = firehose(TOTAL);
    let builder = builder(backend.port(), "", "proxy_temp_path {{DIR}}/spool;").main("env BRISK_FAULTS;");
    let faults = format!("full={}", builder.dir().join("spool").display());
    let server = builder.env("BRISK_FAULTS", &faults).start();
    let mut client = server.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    server.wait_for_log("\\[crit\\] .*pwrite\\(\\) .* failed \\(28: No space left on device\\)");
    assert!(is_cut(client.try_response("GET")));
}

#[test]
fn who_must_not_be_left_is_asked_to_the_end() {
    let (told, hears) = mpsc::channel();
    let told = Mutex::new(told);
    let backend = Backend::start(move |mut peer: Peer| {
        peer.head();
        let left = peer.is_closed_within(Duration::from_millis(300));
        peer.answer("done");
        let _ = told.lock().unwrap().send(left);
    });
    let server = proxy(backend.port(), "", "proxy_ignore_client_abort on;");
    let mut client = server.client();
    client.send("GET /left HTTP/1.1\r\nHost: a\r\n\r\n");
    brisk_testkit::wait::holds("the request to arrive", || backend.connections() == 1);
    drop(client);
    assert!(!hears.recv().unwrap());
    server.wait_for_line("up.log", "/left 200 .* 200");
}

/// Room in a unix socket is reported only to who waits for it: on either side of one somebody does.
#[test]
fn unix_sockets_that_are_full_are_waited_for() {
    const BYTES: usize = 8 << 20;
    let backend = Backend::start(|mut peer: Peer| {
        while peer.head().is_some() {
            let got = peer.body(BYTES).len();
            peer.answer(got.to_string());
        }
    });
    let server = Builder::new(BIN)
        .file("html/big", vec![b'x'; BYTES])
        .http(&format!(
            "client_max_body_size 0; proxy_request_buffering off;
             server {{ listen unix:{{{{DIR}}}}/back.sock; sendfile off;
                 location /big {{ root {{{{DIR}}}}/html; }}
                 location /up {{ proxy_pass http://127.0.0.1:{}; }} }}
             server {{ listen 127.0.0.1:{{{{PORT}}}};
                 location / {{ proxy_pass http://unix:{{{{DIR}}}}/back.sock; }}
                 location /slow {{ proxy_pass http://unix:{{{{DIR}}}}/back.sock:/big; proxy_max_temp_file_size 0; }} }}",
            backend.port()
        ))
        .start();
    let mut client = server.client();
    for target in ["/big", "/slow"] {
        assert_eq!(client.get(target).body.len(), BYTES);
    }
    let mut request = format!("POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: {BYTES}\r\n\r\n").into_bytes();
    request.resize(request.len() + BYTES, b'y');
    assert_eq!(client.request(request).text(), BYTES.to_string());
}

/// An answer that is all there leaves in one piece, whether or not its length was known before.
#[test]
fn answers_of_unknown_length_have_their_end_with_them() {
    let backend = Backend::start(|mut peer: Peer| {
        while peer.head().is_some() {
            peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
        }
    });
    let server =
        proxy(backend.port(), "log_format sent $body_bytes_sent;", "access_log {{DIR}}/sent.log sent;");
    for (version, end) in [("1.1", "\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), ("1.0", "\r\n\r\nhello")] {
        let mut client = server.client();
        client.send(format!("GET / HTTP/{version}\r\nHost: a\r\nConnection: close\r\n\r\n"));
        let answer = String::from_utf8(client.rest().unwrap()).unwrap();
        assert!(answer.ends_with(end), "{answer}");
        assert_eq!(answer.contains("Transfer-Encoding: chunked"), version == "1.1");
    }
    wait::until("two lines", || {
        let log = server.read("sent.log");
        (log.lines().count() == 2).then(|| assert_eq!(log, "15\n5\n"))
    });
}

/// `proxy_read_timeout` counts from the moment at which a request has been sent, on a connection that has served one before, too.
#[test]
fn a_kept_connection_brings_no_time_limit_along() {
    let backend = Backend::start(|mut peer: Peer| {
        while let Some(head) = peer.head() {
            if head.starts_with("GET /silent") {
                peer.drain();
                return;
            }
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let body = peer.body(length.map_or(0, |length| length.trim().parse().unwrap()));
            peer.answer(body);
        }
    });
    let server = Builder::new(BIN)
        .http(&format!(
            "upstream u {{ server 127.0.0.1:{0}; keepalive 8; }}
             server {{
                 listen 127.0.0.1:{{{{PORT}}}};
                 proxy_read_timeout 1s; proxy_http_version 1.1; proxy_set_header Connection \"\";
                 location / {{ proxy_pass http://u; proxy_request_buffering off; }}
                 location /silent {{ proxy_pass http://127.0.0.1:{0}; }}
             }}",
            backend.port()
        ))
        .start();
    let mut client = server.client();
    assert_eq!(client.request("GET /a HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
    client.send("POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc");
    // More than that second goes by while the client has not sent the rest.
    assert_eq!(server.get("/silent").status, 504);
    client.send("def");
    let answer = client.response();
    assert_eq!((answer.status, answer.text().as_str()), (200, "abcdef"), "{}", server.error_log());
    assert_eq!(backend.connections(), 2);
}

/// Large bodies that are there at once leave from where they are, whatever comes behind them and however slowly they are taken.
#[test]
fn large_bodies_that_are_there_at_once_arrive_whole() {
    let body = |length: usize| (0..length).map(|at| b'a' + (at % 23) as u8).collect::<Vec<u8>>();
    let backend = Backend::start(move |mut peer: Peer| {
        while let Some(head) = peer.head() {
            let length: usize = head.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
            if head.starts_with("HEAD") {
                peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"));
            } else {
                peer.answer(body(length));
            }
        }
    });
    let server = Builder::new(BIN)
        .http(&format!(
            "log_format sizes \"$request_method $uri $body_bytes_sent\"; proxy_buffer_size 64k; proxy_buffers 4 64k;
             ssl_certificate {{{{DIR}}}}/a.crt; ssl_certificate_key {{{{DIR}}}}/a.key;
             upstream u {{ server 127.0.0.1:{}; keepalive 8; }}
             server {{
                 listen 127.0.0.1:{{{{PORT}}}}; listen 127.0.0.1:{{{{PORT2}}}} ssl;
                 access_log {{{{DIR}}}}/sizes.log sizes;
                 location / {{ proxy_pass http://u; }}
             }}",
            backend.port()
        ))
        .certificate("a")
        .start();
    let request = |method: &str, length: usize, fields: &str| {
        format!("{method} /{length} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
    };
    let mut client = server.client();
    for length in [100, 16_383, 16_384, 50_000, 60_000] {
        // Two at a time: the second waits in the connection's input meanwhile.
        client.send(request("GET", length, "") + &request("GET", length + 1, ""));
        assert!(
            client.response().body == body(length) && client.response().body == body(length + 1),
            "{length}"
        );
        let head = client.request(request("HEAD", length, ""));
        assert_eq!(head.header("Content-Length"), Some(length.to_string().as_str()));
    }
    let mut client = server.client();
    assert!(client.request(request("GET", 50_000, "Connection: close\r\n")).body == body(50_000));
    client.expect_closed();
    assert!(server.request("GET /40000 HTTP/1.0\r\nHost: a\r\n\r\n").body == body(40_000));
    // Its socket takes a part at a time.
    let mut narrow = Client::connect_narrow(server.port());
    for _ in 0..3 {
        narrow.send(request("GET", 60_000, "") + &request("GET", 30_000, ""));
        assert!(narrow.response().body == body(60_000) && narrow.response().body == body(30_000));
    }
    let text = TlsClient::get(server.port_of(2), &stranger(), "a", "/50000").unwrap();
    assert!(text.as_bytes().ends_with(&body(50_000)));
    let log =
        wait::until("all lines", || Some(server.read("sizes.log")).filter(|log| log.lines().count() >= 24));
    for line in
        ["GET /16384 16384", "GET /60001 60001", "HEAD /60000 0", "GET /30000 30000", "GET /40000 40000"]
    {
        assert!(log.lines().any(|have| have == line), "{line}: {log}");
    }
}
