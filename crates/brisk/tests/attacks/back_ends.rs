//! Back ends that are hostile, or that an attacker speaks through.

use super::{BIN, recording};
use brisk_testkit::client::Failure;
use brisk_testkit::{Backend, Builder, Server};
use flate2::write::GzEncoder;
use std::io::Write as _;

/// A server whose `/` asks this back end; `/who` is answered here.
fn before(backend: &Backend, directives: &str) -> Server {
    let conf = format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; location / {{ proxy_pass http://127.0.0.1:{}; {directives} }}
         location = /who {{ return 200 who; }} location /secret {{ internal; return 200 secret; }} }}",
        backend.port()
    );
    Builder::new(BIN).http(&conf).start()
}

/// A back end that answers every request with these bytes and keeps the connection.
fn saying(bytes: impl Into<Vec<u8>>) -> Backend {
    let bytes = bytes.into();
    Backend::start(move |mut peer| while peer.head().is_some() && peer.send(&bytes) {})
}

/// What a client of a server before such a back end gets.
fn answer_to(bytes: impl Into<Vec<u8>>) -> Result<(u16, String, String), Failure> {
    let backend = saying(bytes);
    let server = before(&backend, "");
    let mut client = server.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let got =
        client.try_response("GET").map(|response| (response.status, response.head.clone(), response.text()));
    assert_eq!(server.get("/who").text(), "who");
    got
}

#[test]
fn interim_answers_without_end() {
    let backend = Backend::start(|mut peer| {
        peer.head();
        while peer.send("HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n".repeat(100)) {}
    });
    let server = before(&backend, "");
    assert_eq!(server.get("/").status, 502);
    assert_eq!(server.get("/who").text(), "who");
}

#[test]
fn a_switch_of_protocols_that_was_not_asked_for() {
    let (status, head, _) = answer_to("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nHTTP/1.1 200 OK\r\n\r\n").unwrap();
    assert_eq!(status, 502, "{head}");
}

#[test]
fn answers_that_contradict_themselves() {
    for bytes in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nhello",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "200 OK\r\n\r\n",
        "\0\0\0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: x\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n",
    ] {
        match answer_to(bytes) {
            Ok((status, head, _)) => {
                assert!(
                    status == 502 || !head.contains('\0') && !head.contains("\r\n: "),
                    "{bytes:?}: {head}"
                );
                let both = head.to_lowercase();
                assert!(
                    !(both.contains("content-length") && both.contains("transfer-encoding")),
                    "{bytes:?}: {head}"
                );
                assert!(both.matches("content-length").count() < 2, "{bytes:?}: {head}");
            }
            Err(Failure::TimedOut) => panic!("no answer to {bytes:?}"),
            Err(_) => {}
        }
    }
}

#[test]
fn a_second_answer_waits_for_the_next_client() {
    // Bytes behind an answer would be taken for the answer to the next request on a kept connection.
    let backend = saying(
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmineHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen",
    );
    let server = before(&backend, "");
    for _ in 0..10 {
        assert_eq!(server.get("/").text(), "mine");
    }
    // Nor may bytes that come while the connection is idle.
    let backend = Backend::start(|mut peer| {
        while peer.head().is_some() {
            peer.answer("mine");
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen");
        }
    });
    let server = before(&backend, "");
    for _ in 0..10 {
        assert_eq!(server.get("/").text(), "mine");
    }
}

#[test]
fn an_answer_is_split_by_its_fields() {
    let (status, head, text) = answer_to(
        "HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b=c\r\nContent-Length: 2\r\n\r\nok",
    )
    .unwrap_or((502, String::new(), String::new()));
    assert!(status == 502 || !head.contains('\r') || !head.contains("a\rSet-Cookie"), "{head} {text}");
    let (status, head, _) = answer_to(
        "HTTP/1.1 200 OK\r\nConnection: X-Internal\r\nX-Internal: 1\r\nContent-Length: 2\r\n\r\nok",
    )
    .unwrap();
    assert!(status == 200 && !head.contains("X-Internal"), "{head}");
}

#[test]
fn a_head_without_end() {
    for line in ["X: y\r\n", "X", "X: \r\n"] {
        let backend = Backend::start(move |mut peer| {
            peer.head();
            peer.send("HTTP/1.1 200 OK\r\n");
            while peer.send(line.repeat(1000)) {}
        });
        let server = before(&backend, "");
        let memory = super::resident(&server);
        assert_eq!(server.get("/").status, 502, "{line:?}");
        assert!(super::resident(&server) < memory + (16 << 20));
    }
}

#[test]
fn plain_text_before_the_handshake() {
    let backend = Backend::start(|mut peer| {
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\ninjected");
        peer.some();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\ninjected");
    });
    let conf = format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; location / {{ proxy_pass https://127.0.0.1:{}; }} }}",
        backend.port()
    );
    let server = Builder::new(BIN).http(&conf).start();
    let response = server.get("/");
    assert!(response.status == 502 && !response.text().contains("injected"), "{}", response.text());
}

#[test]
fn a_redirect_by_the_back_end_reaches_no_file() {
    for to in ["/../../etc/passwd", "/%2e%2e/etc/passwd", "//evil", "secret", "/secret\0", ""] {
        let backend =
            saying(format!("HTTP/1.1 200 OK\r\nX-Accel-Redirect: {to}\r\nContent-Length: 0\r\n\r\n"));
        let server = before(&backend, "");
        let response = server.get("/");
        assert!(!response.text().contains("root:"), "{to:?}");
        assert_eq!(server.get("/who").text(), "who", "{to:?}");
    }
}

#[test]
fn compressed_answers_that_grow() {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::best());
    let zeros = vec![0; 1 << 20];
    (0..200).for_each(|_| encoder.write_all(&zeros).unwrap());
    let packed = encoder.finish().unwrap();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n",
        packed.len()
    );
    let backend = saying([head.into_bytes(), packed].concat());
    let server = before(&backend, "gunzip on;");
    let memory = super::resident(&server);
    let mut clients: Vec<_> = (0..8).map(|_| brisk_testkit::Client::connect_narrow(server.port())).collect();
    clients.iter_mut().for_each(|client| client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    clients.iter_mut().for_each(|client| _ = client.wait_for("\r\n\r\n"));
    assert_eq!(server.get("/who").text(), "who");
    let grown = super::resident(&server).saturating_sub(memory);
    assert!(grown < 64 << 20, "{grown} bytes for 1600 MiB");
}

#[test]
fn text_that_ends_within_a_character() {
    let tails: [&[u8]; 8] = [
        b"\xe2",
        b"\xe2\x82",
        b"\xf0\x9f",
        b"\xf0\x9f\x98",
        b"\xff",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xf8\x88\x80\x80\x80",
    ];
    for tail in tails {
        let body = [b"abc", tail].concat();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let backend = saying([head.into_bytes(), body].concat());
        let conf = format!(
            "charset_map koi8-r utf-8 {{ C0 D18E; C1 D0B0; }}
             server {{ listen 127.0.0.1:{{{{PORT}}}}; location / {{ proxy_pass http://127.0.0.1:{}; charset koi8-r; override_charset on; }} }}",
            backend.port()
        );
        let server = Builder::new(BIN).http(&conf).start();
        let response = server.get("/");
        let text = &response.body;
        assert!(response.status == 200 && text.starts_with(b"abc") && text.len() < 64, "{tail:?}: {text:?}");
    }
}

#[test]
fn commands_in_pages_of_the_back_end() {
    for page in [
        "<!--# include virtual=\"/\" -->",
        "<!--# include virtual=\"/secret\" -->".repeat(50).as_str(),
        "<!--# if expr=\"",
        "<!--#",
        "<!--# set var=\"x\" value=\"$x$x$x\" --><!--# echo var=\"x\" -->",
        "<!--# include file=\"/etc/passwd\" -->",
        "<!--# block name=\"a\" --><!--# include virtual=\"/\" stub=\"a\" --><!--# endblock -->",
        "<!--# include virtual=\"/who\" set=\"x\" --><!--# include virtual=\"/who\" wait=\"yes\" -->",
        "<!--# config errmsg=\"x\" timefmt=\"%99999999d%%%\" --><!--# echo var=\"date_local\" -->",
        "<!--# endif --><!--# else -->",
        "<!--# if expr=\"$uri = /((((((((((/\" --><!--# endif -->",
    ] {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{page}",
            page.len()
        );
        let backend = saying(head);
        let server = before(&backend, "ssi on;");
        let mut client = server.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        if let Ok(response) = client.try_response("GET") {
            assert!(!response.text().contains("root:"), "{page}");
        }
        assert_eq!(server.get("/who").text(), "who", "{page}");
    }
}

#[test]
fn addresses_that_strangers_claim() {
    let (backend, seen) = recording();
    let conf = format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; set_real_ip_from 10.0.0.0/8; real_ip_header X-Forwarded-For;
             location / {{ proxy_pass http://127.0.0.1:{}; proxy_set_header X-Real-IP $remote_addr; }} }}
         server {{ listen 127.0.0.1:{{{{PORT2}}}} proxy_protocol; set_real_ip_from 10.0.0.0/8; real_ip_header proxy_protocol;
             return 200 \"$remote_addr\"; }}",
        backend.port()
    );
    let server = Builder::new(BIN).http(&conf).start();
    server.request("GET /x HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\nConnection: close\r\n\r\n");
    assert!(seen.lock().unwrap()[0].contains("\r\nX-Real-IP: 127.0.0.1\r\n"));
    let claim = |header: &[u8]| {
        let mut client = brisk_testkit::Client::connect(server.port_of(2));
        client.send([header, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"].concat());
        client.try_response("GET").map(|response| response.text()).unwrap_or_default()
    };
    assert_eq!(claim(b"PROXY TCP4 6.6.6.6 127.0.0.1 1 2\r\n"), "127.0.0.1");
    let v2 =
        |len: u16, rest: &[u8]| [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11"[..], &len.to_be_bytes(), rest].concat();
    let addresses = [6, 6, 6, 6, 127, 0, 0, 1, 0, 1, 0, 2];
    assert_eq!(claim(&v2(12, &addresses)), "127.0.0.1");
    // Lengths that run over, addresses cut short, an unknown version: the connection ends.
    for bad in [
        v2(11, &addresses[..11]),
        v2(65535, &addresses),
        b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\x0c............".to_vec(),
        b"PROXY TCP4 6.6.6.6\r\n".to_vec(),
        b"PROXY TCP4 999.6.6.6 1.1.1.1 1 2\r\n".to_vec(),
        vec![b'P'; 2000],
    ] {
        assert_eq!(claim(&bad), "", "{bad:?}");
    }
}
