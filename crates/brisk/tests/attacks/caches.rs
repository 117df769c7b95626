//! Caches: one client's answer given to another, and answers that an attacker leaves for others.

use super::{BIN, Seen, recording_with};
use brisk_testkit::{Backend, Builder, Response, Server};

/// A cache before a back end whose answers are made from the request line; all successes are kept a minute.
fn cached(
    directives: &str,
    answer: impl Fn(&str) -> String + Send + Sync + 'static,
) -> (Server, Backend, Seen) {
    let (backend, seen) = recording_with(answer);
    let conf = format!(
        "proxy_cache_path {{{{DIR}}}}/cache keys_zone=z:1m;
         server {{ listen 127.0.0.1:{{{{PORT}}}}; http2 on; location / {{ proxy_pass http://127.0.0.1:{}; proxy_cache z; proxy_cache_valid 200 206 404 1m;
             add_header X-Cache $upstream_cache_status; {directives} }} }}",
        backend.port()
    );
    (Builder::new(BIN).http(&conf).start(), backend, seen)
}

fn ask(server: &Server, line: &str, fields: &str) -> Response {
    server.request(format!("{line} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n"))
}

fn ok(body: &str, fields: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn pages_of_one_user_kept_for_another() {
    for fields in [
        "Set-Cookie: session=1\r\n",
        "Cache-Control: private\r\n",
        "Cache-Control: no-store\r\n",
        "Vary: *\r\n",
    ] {
        let (server, _backend, seen) = cached("", move |line| ok(line, fields));
        for _ in 0..3 {
            assert_ne!(
                ask(&server, "GET /account/x.css", "Cookie: session=1\r\n").header("x-cache"),
                Some("HIT"),
                "{fields}"
            );
        }
        assert_eq!(seen.lock().unwrap().len(), 3, "{fields}");
    }
    let (server, _backend, seen) = cached("", |line| ok(line, ""));
    for _ in 0..2 {
        ask(&server, "GET /mine", "Authorization: Basic eDp5\r\n");
    }
    assert_eq!(seen.lock().unwrap().len(), 2);
}

#[test]
fn a_body_that_is_not_in_the_key() {
    let (server, _backend, seen) = cached("", |line| ok(line, ""));
    server.request("GET /fat HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 6\r\n\r\npoison");
    assert_eq!(ask(&server, "GET /fat", "").header("x-cache"), Some("MISS"));
    assert_eq!(ask(&server, "GET /fat", "").header("x-cache"), Some("HIT"));
    let response = server
        .request("GET /fat HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 6\r\n\r\npoison");
    assert_ne!(response.header("x-cache"), Some("HIT"));
    assert_eq!(seen.lock().unwrap().len(), 3);
}

#[test]
fn a_method_that_is_not_in_the_key() {
    let (server, _backend, _seen) = cached("proxy_cache_convert_head off; proxy_cache_key $uri;", |line| {
        if line.starts_with("HEAD") {
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n".into()
        } else {
            ok("page", "")
        }
    });
    let mut client = server.client();
    client.send("HEAD /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let _ = client.try_response("HEAD");
    assert_eq!(ask(&server, "GET /x", "").text(), "page");
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let response = ask(&server, &format!("{method} /x"), "Content-Length: 0\r\n");
        assert_ne!(response.header("x-cache"), Some("HIT"), "{method}");
    }
}

#[test]
fn errors_that_an_attacker_provokes() {
    // CPDoS: a field that only the back end refuses must not leave its error for others.
    let (server, _backend, _seen) = cached("proxy_cache_valid any 1m;", |_| ok("page", ""));
    for fields in [
        format!("X-Oversized: {}\r\n", "x".repeat(40_000)),
        "X-Meta: \x01\r\n".into(),
        "X-HTTP-Method-Override: POST\r\n".into(),
        "Range: bytes=9-1\r\n".into(),
    ] {
        let _ = ask(&server, "GET /page", &fields);
        let response = ask(&server, "GET /page", "");
        assert_eq!((response.status, response.text().as_str()), (200, "page"));
    }
}

#[test]
fn a_part_that_replaces_the_whole() {
    let (server, _backend, _seen) = cached("", |_| ok("whole page", ""));
    let part = ask(&server, "GET /page", "Range: bytes=0-0\r\n");
    assert!(matches!(part.status, 200 | 206));
    let response = ask(&server, "GET /page", "");
    assert_eq!((response.status, response.text().as_str()), (200, "whole page"));
}

#[test]
fn hosts_that_share_an_answer() {
    let (backend, _seen) = recording_with(|line| ok(line, ""));
    let conf = format!(
        "proxy_cache_path {{{{DIR}}}}/cache keys_zone=z:1m; proxy_cache z; proxy_cache_valid 1m; proxy_cache_key $scheme$host$uri$is_args$args;
         server {{ listen 127.0.0.1:{{{{PORT}}}}; server_name a b; location / {{ proxy_pass http://127.0.0.1:{}/$host$uri; }} }}",
        backend.port()
    );
    let server = Builder::new(BIN).http(&conf).start();
    for host in ["a", "b"] {
        for target in ["/x", "http://a/x"] {
            let response =
                server.request(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
            if response.status == 200 {
                let wanted = if target.starts_with("http") { "a" } else { host };
                assert_eq!(response.text(), format!("GET /{wanted}/x HTTP/1.1"), "{host} {target}");
            }
        }
    }
}

#[test]
fn a_purge_by_a_stranger() {
    let (server, _backend, _seen) = cached("proxy_cache_purge PURGE from 10.0.0.1;", |line| ok(line, ""));
    ask(&server, "GET /x", "");
    assert_eq!(ask(&server, "GET /x", "").header("x-cache"), Some("HIT"));
    assert!(ask(&server, "PURGE /x", "").status >= 400);
    assert_eq!(ask(&server, "GET /x", "").header("x-cache"), Some("HIT"));
}

#[test]
fn slices_and_captures_together() {
    let (backend, seen) = recording_with(|_| {
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-3/4\r\nETag: \"x\"\r\nContent-Length: 4\r\n\r\nbody".into()
    });
    let conf = format!(
        r#"proxy_cache_path {{{{DIR}}}}/cache keys_zone=z:1m;
         server {{ listen 127.0.0.1:{{{{PORT}}}}; location ~ ^/(s)(.*)$ {{ slice 4; proxy_cache z; proxy_cache_key $1$2$slice_range; proxy_set_header Range $slice_range;
             proxy_set_header X-Captured "$1|$2|$3"; proxy_cache_valid 206 1s; proxy_cache_use_stale updating; proxy_cache_background_update on;
             add_header X-Cap "$1|$2|$3"; proxy_pass http://127.0.0.1:{}; }} }}"#,
        backend.port()
    );
    let server = Builder::new(BIN).http(&conf).start();
    for _ in 0..3 {
        let response = server.get("/sabc");
        assert_eq!((response.status, response.text().as_str()), (200, "body"));
        assert_eq!(response.header("x-cap"), Some("s|abc|"));
    }
    assert!(seen.lock().unwrap().iter().all(|request| request.contains("X-Captured: s|abc|\r\n")));
}
