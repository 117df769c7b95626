//! The pace of both sides: slow back ends, limits of rate, sides that end before the other.

use crate::{PASS_UPGRADE, UPGRADE, proxy};
use brisk_testkit::Backend;
use brisk_testkit::backend::Peer;
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

/// The back end may end its side first: what the client sends then still reaches it.
#[test]
fn a_back_end_that_has_said_all_still_listens() {
    let (told, hears) = mpsc::channel();
    let told = Mutex::new(told);
    let backend = Backend::start(move |mut peer: Peer| {
        peer.head();
        peer.send(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nlast words",
        );
        peer.half_close();
        let said = peer.body(5);
        let _ = told.lock().unwrap().send(said);
    });
    let server = proxy(backend.port(), "", PASS_UPGRADE);
    let mut client = server.client();
    client.send(UPGRADE);
    client.wait_for("last words");
    client.send("mine!");
    assert_eq!(hears.recv_timeout(Duration::from_secs(30)).expect("it arrives"), b"mine!");
}
