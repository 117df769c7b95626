//! Conditions, ranges and upgrades where answers may be stored: the back end is asked without them, so nginx applies them to
//! what can be stored and to nothing else.

use crate::rules::{ask, number, scripted};
use crate::{BIN, conf, server, status};
use brisk_testkit::backend::Peer;
use brisk_testkit::{Backend, Builder, Server, wait};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const VALIDATORS: &str =
    "ETag: \"v\"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nAccept-Ranges: bytes\r\n";

/// What requests with conditions get of a back end that says `fields` and knows nothing of conditions: their statuses.
fn answers(fields: &'static str, directives: &str, conditions: &[&str]) -> Vec<u16> {
    let (backend, _) = scripted(move |_, n| number(&format!("{VALIDATORS}{fields}"), n));
    let server = server(backend.port(), directives);
    conditions.iter().map(|condition| ask(&server, "GET", "/", &format!("{condition}\r\n")).status).collect()
}

const ALL: [&str; 5] = [
    "If-Match: \"w\"",
    "If-None-Match: \"v\"",
    "If-Unmodified-Since: Wed, 31 Dec 2025 00:00:00 GMT",
    "If-Modified-Since: Thu, 01 Jan 2026 00:00:00 GMT",
    "Range: bytes=0-0",
];

const APPLIED: [u16; 5] = [412, 304, 412, 304, 206];
const NOT_APPLIED: [u16; 5] = [200; 5];

#[test]
fn conditions_are_not_applied_to_answers_that_say_they_cannot_be_stored() {
    for fields in [
        "Cache-Control: no-store\r\n",
        "Cache-Control: private\r\n",
        "Cache-Control: max-age=0\r\n",
        "Set-Cookie: a=b\r\n",
        "X-Accel-Expires: 0\r\n",
        "Expires: Thu, 01 Jan 1970 00:00:00 GMT\r\n",
        "Vary: *\r\n",
    ] {
        assert_eq!(answers(fields, "proxy_cache_valid 1m;", &ALL), NOT_APPLIED, "{fields}");
    }
    // The field is not obeyed: the answer is stored.
    assert_eq!(
        answers("Set-Cookie: a=b\r\n", "proxy_cache_valid 1m; proxy_ignore_headers Set-Cookie;", &ALL),
        APPLIED
    );
}

#[test]
fn conditions_are_applied_to_what_could_be_stored() {
    assert_eq!(answers("", "proxy_cache_valid 1m;", &ALL), APPLIED);
    // It is the configuration that does not store these.
    assert_eq!(answers("", "", &ALL), APPLIED);
    assert_eq!(answers("", "proxy_cache_valid 1m; proxy_no_cache 1;", &ALL), APPLIED);
    assert_eq!(answers("", "proxy_cache_valid 1m; proxy_cache_bypass 1;", &ALL), APPLIED);
}

/// The back end has seen the conditions of these, and has judged.
#[test]
fn conditions_that_the_back_end_has_seen_are_not_applied_again() {
    assert_eq!(answers("", "proxy_cache_valid 1m; proxy_cache_min_uses 100;", &ALL), NOT_APPLIED);
    let (backend, _) = scripted(|_, n| number(VALIDATORS, n));
    let server = server(backend.port(), "proxy_cache_valid 1m;");
    for condition in ALL {
        let answer = ask(&server, "POST", "/", &format!("{condition}\r\nContent-Length: 0\r\n"));
        assert_eq!(answer.status, 200, "{condition}");
    }
    // Nor are they to answers with a body for a part that the client has, under If-Range.
    let answer = ask(&server, "GET", "/r", "Range: bytes=0-0\r\nIf-Range: \"w\"\r\n");
    assert_eq!(answer.status, 200);
    let answer = ask(&server, "GET", "/r", "Range: bytes=0-0\r\nIf-Range: \"v\"\r\n");
    assert_eq!(answer.status, 206);
}

const UPGRADE: &str =
    "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; proxy_http_version 1.1;";

/// Echoes after an upgrade; others get a page.
fn echo() -> (Backend, Arc<AtomicUsize>) {
    let upgraded = Arc::<AtomicUsize>::default();
    let count = upgraded.clone();
    let backend = Backend::start(move |mut peer: Peer| {
        while let Some(head) = peer.head() {
            if !head.contains("Upgrade: websocket") {
                peer.send(number("", 1));
                continue;
            }
            count.fetch_add(1, Ordering::SeqCst);
            peer.send(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhi ",
            );
            loop {
                let some = peer.some();
                if some.is_empty() || !peer.send(some) {
                    return;
                }
            }
        }
    });
    (backend, upgraded)
}

fn upgrade(server: &Server, target: &str) {
    let mut client = server.client();
    client.send(format!(
        "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    ));
    let head = client.wait_for("hi ");
    assert!(head.contains("101 Switching Protocols") && head.contains("Upgrade: websocket"), "{head}");
    client.send("one");
    client.wait_for("one");
    client.half_close();
    let _ = client.rest();
}

#[test]
fn a_websocket_passes_through_a_cached_location() {
    for more in ["", "proxy_cache_lock on;", "proxy_cache_mode rfc9111;", "proxy_cache_min_uses 3;"] {
        let (backend, upgraded) = echo();
        let server = server(backend.port(), &format!("{UPGRADE} proxy_cache_valid any 1m; {more}"));
        upgrade(&server, "/ws");
        upgrade(&server, "/ws");
        assert_eq!(upgraded.load(Ordering::SeqCst), 2, "{more}");
        // Nothing of it is stored, and others are not kept waiting for it.
        assert_eq!(server.get("/ws").text(), "1");
    }
}

/// A refresh that no client waits for has nobody to be connected with.
#[test]
fn an_upgrade_in_the_background_is_none() {
    let (backend, upgraded) = echo();
    let conf = conf(
        backend.port(),
        "",
        &format!(
            "{UPGRADE} proxy_cache_valid 200 1s; proxy_cache_use_stale updating; proxy_cache_background_update on;"
        ),
    );
    let server = Builder::new(BIN).main("user root;").http(&conf).start();
    assert_eq!(server.get("/").text(), "1");
    wait::holds("an expired answer", || {
        let answer = ask(&server, "GET", "/", "Upgrade: websocket\r\n");
        assert_eq!(answer.status, 200);
        status(&answer) == "STALE"
    });
    wait::holds("the question in the background", || upgraded.load(Ordering::SeqCst) > 0);
    server.wait_for_log("upstream sent unexpected 101");
    assert_eq!(server.get("/other").text(), "1");
}
