//! Bodies of requests on their way to a back end.

use crate::proxy;
use brisk_testkit::backend::Peer;
use brisk_testkit::{Backend, Server, process};
use std::sync::{Mutex, mpsc};

/// Sends `total` bytes as a body.
fn upload(server: &Server, total: u64, chunked: bool) -> brisk_testkit::Response {
    let mut client = server.client();
    let piece = vec![0; 1 << 20];
    if chunked {
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    } else {
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {total}\r\n\r\n"));
    }
    let mut left = total;
    while left > 0 {
        let some = left.min(piece.len() as u64);
        if chunked {
            client.send(format!("{some:x}\r\n"));
        }
        client.send(&piece[..some as usize]);
        if chunked {
            client.send("\r\n");
        }
        left -= some;
    }
    if chunked {
        client.send("0\r\n\r\n");
    }
    client.response()
}

/// A back end that counts what bodies come to.
fn counting() -> Backend {
    Backend::start(|mut peer| {
        while let Some(head) = peer.head() {
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let mut count = 0u64;
            if let Some(total) = length.and_then(|text| text.trim().parse::<u64>().ok()) {
                while count < total {
                    count += peer.body((total - count).min(1 << 16) as usize).len() as u64;
                }
            } else {
                loop {
                    let size = u64::from_str_radix(peer.line().trim(), 16).expect("a chunk");
                    peer.body(size as usize + 2);
                    if size == 0 {
                        break;
                    }
                    count += size;
                }
            }
            peer.answer(count.to_string());
        }
    })
}

#[test]
fn large_uploads_need_no_memory() {
    const TOTAL: u64 = 200 << 20;
    let backend = counting();
    for directives in ["proxy_request_buffering off;", "proxy_request_buffering on;"] {
        let server = proxy(backend.port(), "client_max_body_size 0;", directives);
        for chunked in [false, true] {
            assert_eq!(upload(&server, TOTAL, chunked).text(), TOTAL.to_string());
            let rss = process::rss_kib(server.worker());
            assert!(rss < 100 << 10, "{rss} KiB ({directives})");
        }
    }
}

#[test]
fn a_body_is_passed_on_as_it_comes() {
    let (go, may_go) = mpsc::channel();
    let may_go = Mutex::new(may_go);
    let backend = Backend::start(move |mut peer| {
        peer.head();
        let mut got = Vec::new();
        while got.len() < 10 {
            let some = peer.some();
            got.extend_from_slice(&some);
            peer.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
        }
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\n");
        let (first, rest) = got.split_at(5);
        peer.send(first);
        may_go.lock().unwrap().recv().unwrap();
        peer.send(rest);
    });
    let server = proxy(backend.port(), "early_hints 1;", "proxy_request_buffering off;");
    let mut client = server.client();
    // All of the body has been read when the answer's head comes: the connection is good for another request.
    for _ in 0..2 {
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nfirst");
        // The hint answers what was sent so far.
        client.wait_for("103 Early Hints");
        client.send("after");
        client.wait_for("\r\n\r\nfirst");
        go.send(()).unwrap();
        let response = client.response();
        assert_eq!(
            (response.text(), response.header("Connection")),
            ("firstafter".into(), Some("keep-alive"))
        );
    }
}

#[test]
fn who_sends_too_much_hears_of_it() {
    // It answers nothing: an early answer would come in time where the body comes slowly.
    let backend = Backend::start(|mut peer: Peer| {
        peer.head();
        peer.drain();
    });
    for directives in ["proxy_request_buffering off;", "proxy_request_buffering on;"] {
        let server = proxy(backend.port(), "client_max_body_size 1m;", directives);
        let mut client = server.client();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
        for _ in 0..40 {
            if client.try_send(&chunk).is_err() {
                break;
            }
        }
        assert_eq!(client.response().status, 413, "{directives}");
    }
}
