//! Back ends that send what nobody has asked for.

use crate::{BIN, proxy};
use brisk_testkit::backend::Peer;
use brisk_testkit::{Backend, Builder, H2Client};

/// RFC 9110 §15.2 sets no limit to interim responses; we do.
#[test]
fn interim_responses_have_a_limit() {
    for (status, count) in [(100, 32), (102, 33), (103, 33), (100, usize::MAX)] {
        let backend = Backend::start(move |mut peer: Peer| {
            while peer.head().is_some() {
                for _ in 0..count {
                    if !peer.send(format!("HTTP/1.1 {status} X\r\nLink: </a>\r\n\r\n")) {
                        return;
                    }
                }
                peer.answer("final");
            }
        });
        let server = proxy(backend.port(), "", "");
        let answer = server.get("/");
        if count <= 32 {
            assert_eq!((answer.status, answer.text().as_str()), (200, "final"));
        } else {
            assert_eq!(answer.status, 502, "{status} {count}");
            server.wait_for_log("upstream sent too many interim responses");
        }
    }
}

/// Over HTTP/1.1, and over HTTP/2 in place of a plain request or an upgrade that the back end was not asked for.
#[test]
fn an_upgrade_that_nobody_asked_for_is_a_502() {
    let backend = Backend::start(|mut peer: Peer| {
        while peer.head().is_some() {
            peer.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nhi");
        }
    });
    let port = backend.port();
    let text = format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; http2 on; error_log {{{{DIR}}}}/error.log info;
            location / {{ proxy_pass http://127.0.0.1:{port}; }}
            location /pass {{ proxy_pass http://127.0.0.1:{port}; proxy_set_header Upgrade $http_upgrade; }}
            location /page {{ proxy_pass http://127.0.0.1:{port}; error_page 502 /sorry; }}
            location = /sorry {{ return 200 sorry; }} }}"
    );
    let server = Builder::new(BIN).http(&text).start();
    for target in ["/", "/pass"] {
        let mut client = server.client();
        assert_eq!(client.get(target).status, 502, "{target}");
        // The client's own connection goes on.
        assert_eq!(client.get("/sorry").text(), "sorry");
    }
    assert_eq!(server.get("/page").text(), "sorry");
    let asks = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
    assert_eq!(server.request(asks).status, 502, "what the client asks for was not passed on");
    let mut client = H2Client::connect(server.port());
    assert_eq!(client.get("/").status, 502);
    let mut fields = H2Client::get_fields("/");
    fields[0].1 = "CONNECT";
    fields.insert(1, (":protocol", "websocket"));
    let stream = client.begin(&fields, false);
    client.until(|client| client.answers[&stream].status != 0);
    assert_eq!(client.answers[&stream].status, 502);
    assert_eq!(client.get("/sorry").text(), "sorry");
    server.wait_for_log("upstream sent unexpected 101");
}

/// RFC 9110 §7.6.1: such fields are for the next hop, in heads, early hints and trailers alike.
#[test]
fn fields_that_connection_names_end_here() {
    let backend = Backend::start(|mut peer: Peer| {
        while peer.head().is_some() {
            peer.send(
                "HTTP/1.1 103 Early Hints\r\nConnection: x-hint\r\nX-Hint: 1\r\nLink: </a>\r\n\r\n\
                HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Secret,\tx-end\r\nConnection: Cache-Control\r\n\
                X-Secret: 1\r\nX-Kept: 2\r\nCache-Control: no-store\r\nTransfer-Encoding: chunked\r\nTrailer: X-End\r\n\r\n\
                2\r\nok\r\n0\r\nX-End: 3\r\nX-Last: 4\r\n\r\n",
            );
        }
    });
    let server = proxy(backend.port(), "early_hints 1;", "proxy_pass_trailers on;");
    let answer = server.request("GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: close, te\r\n\r\n");
    assert_eq!((answer.text().as_str(), answer.header("x-kept")), ("ok", Some("2")));
    assert_eq!((answer.header("x-secret"), answer.header("cache-control")), (None, None));
    assert!(answer.interim_heads.iter().all(|head| !head.contains("X-Hint")), "{:?}", answer.interim_heads);
    assert!(!format!("{answer:?}").contains("X-End"), "{answer:?}");
}

/// RFC 9110 §5: such heads cannot be passed on, and mean something else to each who reads them.
#[test]
fn malformed_fields_of_a_back_end_are_a_502() {
    for field in ["Bad[Name: x", "\u{e9}: x", "X: a\u{1}b", "X: a\u{7f}", "A/B: x"] {
        let backend = Backend::start(move |mut peer: Peer| {
            while peer.head().is_some() {
                peer.send(format!("HTTP/1.1 200 OK\r\n{field}\r\nContent-Length: 0\r\n\r\n"));
            }
        });
        let server = proxy(backend.port(), "", "");
        assert_eq!(server.get("/").status, 502, "{field:?}");
        server.wait_for_log("upstream sent invalid header: ");
    }
}
