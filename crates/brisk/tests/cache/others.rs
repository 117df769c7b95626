//! What a client may not get: answers that were made for another client or another question, and those that a purge was about.

use crate::command::run_for;
use crate::rules::{ask, number, scripted};
use crate::{BIN, conf, gate, server, status, until_status};
use brisk_testkit::backend::Peer;
use brisk_testkit::{Backend, Builder, wait};

/// `$remote_user` is what the client says of itself: it is empty for tokens, and right with a wrong password.
#[test]
fn a_user_name_tells_no_clients_apart() {
    let (backend, _) = scripted(|_, n| number("", n));
    let server = server(backend.port(), "proxy_cache_key \"$remote_user$uri\"; proxy_cache_valid 200 10m;");
    let text = |fields: &str| ask(&server, "GET", "/", fields).text();
    assert_eq!(text("Authorization: Bearer A\r\n"), "1");
    assert_eq!(text("Authorization: Bearer B\r\n"), "2");
    // alice:right, alice:wrong
    assert_eq!(text("Authorization: Basic YWxpY2U6cmlnaHQ=\r\n"), "3");
    assert_eq!(text("Authorization: Basic YWxpY2U6d3Jvbmc=\r\n"), "4");
    assert_eq!(text(""), "5");
}

/// An answer to a body is renewed by a request with this body.
#[test]
fn an_answer_to_a_body_is_never_renewed_without_it() {
    for more in
        ["proxy_cache_use_stale updating; proxy_cache_background_update on;", "proxy_cache_mode rfc9111;"]
    {
        let backend = Backend::start(|mut peer: Peer| {
            while let Some(head) = peer.head() {
                let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
                let body = peer.body(length.map_or(0, |length| length.trim().parse().unwrap()));
                let answer = [b"to ", &*body].concat();
                let fields = "Cache-Control: max-age=1, stale-while-revalidate=600\r\n";
                peer.send(format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n", answer.len()));
                peer.send(answer);
            }
        });
        let directives = format!("proxy_cache_methods POST; proxy_cache_key \"$uri|$request_body\"; {more}");
        let server = server(backend.port(), &directives);
        let post = || {
            server.request("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nfoo")
        };
        assert_eq!(post().text(), "to foo");
        let mut is_renewed = false;
        wait::holds("it is renewed", || {
            let answer = post();
            assert_eq!(answer.text(), "to foo", "{more}");
            is_renewed |= !matches!(status(&answer), "HIT" | "MISS");
            is_renewed && status(&answer) == "HIT"
        });
    }
}

/// RFC 9111 §3.2, §5.2.2.7: a 304 is stored as an answer is, without the fields that are one client's.
#[test]
fn what_a_304_says_to_one_client_is_not_stored() {
    let (backend, heads) = scripted(|head, _| {
        let fields = "ETag: \"v\"\r\nCache-Control: private=\"X-User\", max-age=";
        if head.contains("If-None-Match") {
            return format!(
                "HTTP/1.1 304 Not Modified\r\n{fields}600\r\nX-User: bob\r\nSurrogate-Key: new\r\n\r\n"
            );
        }
        format!("HTTP/1.1 200 OK\r\n{fields}1\r\nX-User: alice\r\nContent-Length: 2\r\n\r\nok")
    });
    let server = server(backend.port(), "proxy_cache_mode rfc9111;");
    assert_eq!(server.get("/").header("X-User"), Some("alice"));
    until_status(&server, "/", "REVALIDATED");
    let stored = server.get("/");
    assert_eq!((status(&stored), stored.header("X-User")), ("HIT", None));
    assert_eq!(heads.lock().unwrap().len(), 2);
    // It has the tags that the 304 gave it.
    assert_eq!(run_for(&server, &["purge", "--tag", "new"]).0, 0);
    assert_eq!(status(&server.get("/")), "MISS");
}

/// An answer is stored for the fields of requests that it named; once a 304 names others, it is given to no other client.
#[test]
fn a_304_that_varies_otherwise_ends_what_is_stored() {
    let (backend, _) = scripted(|head, n| {
        if head.contains("If-None-Match") {
            let fields = "ETag: \"v\"\r\nCache-Control: max-age=600\r\nVary: Cookie\r\n";
            return format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n");
        }
        number("ETag: \"v\"\r\nCache-Control: max-age=1\r\n", n)
    });
    let server = server(backend.port(), "proxy_cache_mode rfc9111;");
    server.get("/");
    until_status(&server, "/", "REVALIDATED");
    assert_eq!(status(&ask(&server, "GET", "/", "Cookie: sid=bob\r\n")), "MISS");
}

/// A purge between a question and the first byte of its answer is about that answer.
#[test]
fn a_purge_is_about_answers_that_are_on_their_way() {
    for order in [&["purge", "/"][..], &["purge", "/*"], &["purge", "--all"]] {
        let (go, wait_to_go) = gate();
        let (backend, heads) = scripted(move |_, n| {
            if n == 1 {
                wait_to_go();
            }
            number("Cache-Control: max-age=600\r\n", n)
        });
        let server = server(backend.port(), "");
        let mut client = server.client();
        client.send("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        wait::holds("the question", || heads.lock().unwrap().len() == 1);
        run_for(&server, order);
        go.send(()).unwrap();
        assert_eq!(client.response().text(), "1");
        assert_eq!(server.get("/").text(), "2", "{order:?}");
        until_status(&server, "/", "HIT");
    }
}

/// Where the server has a page of its own for an error, the status alone is stored, as in nginx: not if the answer depends on fields of requests,
/// and until a purge.
#[test]
fn a_stored_status_is_for_everybody_or_for_nobody() {
    let (backend, _) = scripted(|head, n| {
        let fields = if head.contains("/vary") { "Vary: Cookie\r\n" } else { "" };
        if n == 1 || head.contains("Cookie: a") {
            return number(fields, n);
        }
        format!("HTTP/1.1 403 No\r\n{fields}Content-Length: 0\r\n\r\n")
    });
    let text = conf(
        backend.port(),
        "",
        "proxy_cache_valid any 10m; proxy_intercept_errors on; error_page 403 /no; ",
    );
    let text = text.replacen("location / {", "location = /no { return 403 no; } location / {", 1);
    let server = Builder::new(BIN).main("user root;").http(&text).start();
    let got = |target: &str, fields: &str| ask(&server, "GET", target, fields).status;
    assert_eq!(got("/vary", "Cookie: a\r\n"), 200);
    wait::holds("it is stored", || status(&ask(&server, "GET", "/vary", "Cookie: a\r\n")) == "HIT");
    assert_eq!([got("/vary", "Cookie: b\r\n"), got("/vary", "Cookie: a\r\n")], [403, 200]);
    // Of an answer that depends on nothing it is known.
    assert_eq!([got("/plain", ""), got("/plain", "Cookie: a\r\n")], [403, 403]);
    for order in [&["purge", "/plain"][..], &["purge", "/p*"], &["purge", "--all"]] {
        run_for(&server, order);
        assert_eq!(got("/plain", "Cookie: a\r\n"), 200, "{order:?}");
        run_for(&server, &["purge", "--all"]);
        assert_eq!([got("/plain", ""), got("/plain", "Cookie: a\r\n")], [403, 403], "{order:?}");
    }
}
