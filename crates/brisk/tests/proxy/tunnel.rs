//! Upgraded connections: both sides send as they like, and each may end first.

use crate::{is_cut, proxy};
use brisk_testkit::Backend;

const UPGRADE: &str = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
const PASS_UPGRADE: &str = "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;";

/// Sends back what it gets, until the client has closed its side; then says so.
fn echo() -> Backend {
    Backend::start(|mut peer| {
        if peer.head().is_none() {
            return;
        }
        peer.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nhi ");
        loop {
            let some = peer.some();
            if some.is_empty() {
                peer.send("bye");
                return;
            }
            peer.send(some);
        }
    })
}

#[test]
fn a_tunnel_survives_a_reload_and_closes_one_side_at_a_time() {
    let backend = echo();
    let server = proxy(backend.port(), "", PASS_UPGRADE);
    let mut client = server.client();
    client.send(UPGRADE);
    let head = client.wait_for("hi ");
    assert!(head.contains("101 Switching Protocols") && head.contains("Upgrade: echo"), "{head}");
    client.send("one");
    client.wait_for("one");
    server.reload();
    client.send("two");
    client.wait_for("two");
    client.half_close();
    let all = client.rest().expect("a clean end");
    assert!(all.ends_with(b"hi onetwobye"), "{}", String::from_utf8_lossy(&all));
}

#[test]
fn a_silent_tunnel_ends() {
    let backend = echo();
    let server = proxy(backend.port(), "", &format!("{PASS_UPGRADE} proxy_read_timeout 300ms;"));
    let mut client = server.client();
    client.send(UPGRADE);
    client.wait_for("hi ");
    let _ = client.rest();
    server.wait_for_log(
        "upstream timed out \\(110: Connection timed out\\) while proxying upgraded connection",
    );
}

#[test]
fn an_upgrade_that_nobody_asked_for_is_none() {
    let backend = echo();
    let server = proxy(backend.port(), "", PASS_UPGRADE);
    assert!(is_cut(server.client().try_get("/")));
    server.wait_for_log("upstream sent unexpected 101");
}
