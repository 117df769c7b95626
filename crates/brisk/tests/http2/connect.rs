//! Extended CONNECT (RFC 8441): a client takes any 2xx for an open WebSocket, so nothing but a back end's switch is one.

use super::bin;
use brisk_h2::ErrorCode;
use brisk_testkit::backend::{Backend, Peer};
use brisk_testkit::h2::Answer;
use brisk_testkit::{Builder, H2Client, Server};
use std::sync::{Arc, Mutex};

fn fields<'a>(path: &'a str, protocol: &'a str) -> Vec<(&'a str, &'a str)> {
    let mut fields = H2Client::get_fields(path);
    fields[0].1 = "CONNECT";
    fields.insert(1, (":protocol", protocol));
    fields
}

fn connect(client: &mut H2Client, path: &str) -> Answer {
    let stream = client.begin(&fields(path, "websocket"), false);
    client.until(|client| client.answers[&stream].status != 0 || client.answers[&stream].reset.is_some());
    let mut answer = client.answers[&stream].clone();
    // RFC 9113 §8.1: after the whole answer the client is told to stop.
    answer.reset = answer.reset.filter(|code| *code != ErrorCode::NO_ERROR);
    answer
}

/// Answers by the path that it is asked for.
fn back(mut peer: Peer) {
    while let Some(head) = peer.head() {
        let path = head.split(' ').nth(1).unwrap_or_default();
        match path {
            "/proxied/redirect" => {
                let more = "Location: /elsewhere\r\nContent-Length: 0";
                peer.send(format!("HTTP/1.1 302 Found\r\n{more}\r\n\r\n"));
            }
            "/proxied/empty" => {
                peer.send("HTTP/1.1 204 No Content\r\n\r\n");
            }
            "/proxied/unmodified" => {
                peer.send("HTTP/1.1 304 Not Modified\r\n\r\n");
            }
            "/proxied/denied" => {
                peer.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
            }
            "/proxied/internal" => {
                let more = "Connection: upgrade\r\nUpgrade: websocket\r\nX-Accel-Redirect: /index.html";
                let key = head.to_ascii_lowercase().contains("sec-websocket-key: ");
                assert!(key, "{head}");
                peer.switch_with(&head, more);
                return;
            }
            _ => {
                peer.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 5\r\n\r\nhello");
            }
        }
    }
}

const CONF: &str = r"
    proxy_cache_path {{DIR}}/cache keys_zone=c:1m;
    server {
        listen 127.0.0.1:{{PORT}}; http2 on; root {{DIR}}/html;
        location /return { return 200 fine; }
        location /created { return 201; }
        location /nothing { return 204; }
        location /switch { return 101; }
        location /moved { return 301 /elsewhere; }
        location /denied { deny all; }
        location /error { error_page 404 =200 /index.html; return 404; }
        location /status { stub_status; }
        location /gif { empty_gif; }
        location /proxied/ { proxy_pass http://127.0.0.1:BACK; UP }
        location /intercepted/ { proxy_pass http://127.0.0.1:BACK/proxied/; UP proxy_intercept_errors on; error_page 403 =200 /index.html; }
        location /cached { proxy_pass http://127.0.0.1:BACK; UP proxy_cache c; proxy_cache_valid 1m; }
        location /down { proxy_pass http://127.0.0.1:1; UP error_page 502 =200 /index.html; }
    }
";

const UPGRADE: &str =
    "proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;";

#[test]
fn what_is_no_tunnel_is_no_success() {
    let backend = Backend::start(back);
    let conf = CONF.replace("BACK", &backend.port().to_string()).replace("UP", UPGRADE);
    let server = Builder::new(bin()).http(&conf).file("html/index.html", "a page").start();
    let mut client = H2Client::connect(server.port());
    // What is kept ready from other requests is no answer, either.
    for path in ["/index.html", "/index.html", "/return", "/return", "/cached", "/cached"] {
        assert_eq!(client.get(path).status, 200, "{path}");
    }
    let cases = [
        ("/index.html", 405),
        ("/", 405),
        ("/return", 405),
        ("/created", 405),
        ("/nothing", 405),
        ("/switch", 405),
        ("/error", 405),
        ("/status", 405),
        ("/gif", 405),
        ("/down", 405),
        ("/moved", 301),
        ("/denied", 403),
        ("/missing", 404),
        ("/proxied/", 502),
        ("/proxied/empty", 502),
        ("/proxied/unmodified", 502),
        ("/proxied/redirect", 302),
        ("/proxied/denied", 403),
        ("/proxied/internal", 405),
        ("/intercepted/denied", 405),
        ("/cached", 405),
    ];
    for (path, status) in cases {
        let answer = connect(&mut client, path);
        assert_eq!((answer.status, answer.reset), (status, None), "{path}");
        assert!(!answer.text().contains("page") && !answer.text().contains("hello"), "{path}: {answer:?}");
    }
    // RFC 9110 §15.5.6
    assert_eq!(connect(&mut client, "/return").field("allow"), Some("GET, HEAD"));
    assert_eq!(client.get("/index.html").text(), "a page");
    // A final answer is none of those that are not final (RFC 9113 §8.1).
    assert_eq!(client.get("/switch").status, 500);
}

fn proxy(backend: &Backend) -> Server {
    let conf = format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; http2 on; location / {{ proxy_pass http://127.0.0.1:{}; {UPGRADE} }} }}",
        backend.port()
    );
    Builder::new(bin()).http(&conf).start()
}

/// RFC 6455 §4.1: the back end has to prove that it has understood, and no request is like another.
#[test]
fn a_back_end_has_to_answer_the_key() {
    let keys = Arc::<Mutex<Vec<String>>>::default();
    let seen = keys.clone();
    let backend = Backend::start(move |mut peer| {
        let Some(head) = peer.head() else { return };
        let key = head.lines().filter_map(|line| line.split_once(": "));
        let key = key.filter(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-key"));
        seen.lock().unwrap().extend(key.map(|(_, value)| value.to_string()));
        let switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n";
        match head.split(' ').nth(1).unwrap_or_default() {
            "/none" => peer.send(format!("{switched}Upgrade: websocket\r\n\r\n")),
            "/wrong" => peer.send(format!(
                "{switched}Upgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
            )),
            "/another" => peer.switch(&head, "chat"),
            "/h2c" => peer.switch(&head, "websocket, h2c"),
            "/unnamed" => peer.switch_with(&head, "Connection: upgrade"),
            _ => peer.switch(&head, "WebSocket"),
        };
        peer.drain();
    });
    let server = proxy(&backend);
    let mut client = H2Client::connect(server.port());
    for path in ["/none", "/wrong", "/another", "/h2c", "/unnamed"] {
        let answer = connect(&mut client, path);
        assert_eq!((answer.status, answer.reset), (502, None), "{path}");
    }
    server.wait_for_log("upstream sent invalid \"Sec-WebSocket-Accept\"");
    for _ in 0..3 {
        let answer = connect(&mut client, "/");
        assert_eq!(answer.status, 200);
        // RFC 8441 §5: of no meaning there.
        assert_eq!((answer.field("sec-websocket-accept"), answer.ended), (None, false));
    }
    // The client's own key is not for the back end: one that it has chosen proves nothing.
    let mut chosen = fields("/", "websocket");
    chosen.push(("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="));
    let stream = client.begin(&chosen, false);
    client.until(|client| client.answers[&stream].status != 0);
    assert_eq!(client.answers[&stream].status, 200);
    // RFC 9113 §8.5: a tunnel has no trailers.
    client.trailers(stream, &[("a", "b")]);
    client.until(|client| client.answers[&stream].reset.is_some());
    assert_eq!(client.answers[&stream].reset, Some(ErrorCode::PROTOCOL_ERROR));
    let mut keys = keys.lock().unwrap().clone();
    assert_eq!(keys.len(), 9);
    assert!(keys.iter().all(|key| key.len() == 24 && key != "dGhlIHNhbXBsZSBub25jZQ=="), "{keys:?}");
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 9, "each is another");
}

/// RFC 8441 §4: one upgrade token. Others would reach the back end beside it, HTTP/2 among them.
#[test]
fn the_protocol_is_one_token() {
    let backend = Backend::start(|mut peer| {
        while let Some(head) = peer.head() {
            assert!(!head.contains("h2c"), "{head}");
            peer.switch(&head, "a/1");
            peer.drain();
        }
    });
    let server = proxy(&backend);
    let mut client = H2Client::connect(server.port());
    for (protocol, status) in [
        ("websocket, h2c", 400),
        ("h2c", 400),
        ("a b", 400),
        ("a:b", 400),
        ("a/1/2", 400),
        ("a/", 400),
        ("a/1", 200),
    ] {
        let stream = client.begin(&fields("/", protocol), false);
        client.until(|client| client.answers[&stream].status != 0);
        assert_eq!(client.answers[&stream].status, status, "{protocol}");
    }
    // RFC 9110 §9.3.6: it has no content.
    let mut long = fields("/", "websocket");
    long.push(("content-length", "3"));
    let stream = client.begin(&long, false);
    client.until(|client| client.answers[&stream].status != 0);
    assert_eq!(client.answers[&stream].status, 400);
}

/// What decides about access, or is sent beside, is no tunnel: its back end cannot switch.
#[test]
fn parts_of_a_request_do_not_switch() {
    let backend = Backend::start(|mut peer| {
        let Some(head) = peer.head() else { return };
        peer.switch(&head, "websocket");
        peer.drain();
    });
    let conf = format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; http2 on; location / {{ auth_request /ask; empty_gif; }}
         location /ask {{ proxy_pass http://127.0.0.1:{}; {UPGRADE} }} }}",
        backend.port()
    );
    let server = Builder::new(bin()).http(&conf).start();
    let mut client = H2Client::connect(server.port());
    let answer = connect(&mut client, "/");
    assert!(answer.status >= 400 || answer.reset.is_some(), "{answer:?}");
    server.wait_for_log("upstream sent unexpected 101");
}
