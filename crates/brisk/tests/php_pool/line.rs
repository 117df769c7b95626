//! Requests that wait for a worker.

use crate::site::Site;
use brisk_testkit::wait;
use std::time::{Duration, Instant};

/// A script that waits until it is told to go on, and notes that it was run.
fn gated(pool: &str) -> Site {
    let site = Site::new(pool, "");
    let notes = site.notes().display().to_string();
    site.script(
        "gate.php",
        &format!("<?php touch('{notes}/ran-' . $_GET['n']); while (!file_exists('{notes}/go')) {{ usleep(1000); clearstatcache(); }} echo 'done';"),
    );
    site
}

fn ran(site: &Site, name: &str) -> bool {
    site.notes().join(format!("ran-{name}")).exists()
}

#[test]
fn who_finds_no_place_in_the_line_is_refused_at_once() {
    let site = gated("pm static; max_children 1; queue 1 timeout=30s;");
    let mut first = site.server.client();
    first.send("GET /gate.php?n=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    wait::holds("the first request in PHP", || ran(&site, "1"));
    let mut second = site.server.client();
    second.send("GET /gate.php?n=2 HTTP/1.1\r\nHost: a\r\n\r\n");
    // The second one waits as soon as a third one is refused.
    let began = Instant::now();
    let refused = wait::until("a refusal", || {
        let mut third = site.server.client();
        third.send("GET /gate.php?n=3 HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut text = [0; 2048];
        let count = third.read_some(&mut text, Duration::from_millis(200)).ok()?;
        Some(String::from_utf8_lossy(&text[..count]).into_owned())
    });
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("\r\nRetry-After: "), "{refused}");
    assert!(began.elapsed() < Duration::from_secs(10));
    site.server.wait_for_log("PHP pool \"www\" is overloaded");
    std::fs::write(site.notes().join("go"), "").unwrap();
    assert_eq!(first.response().text(), "done");
    assert_eq!(second.response().text(), "done");
}

#[test]
fn who_waits_too_long_is_refused() {
    let site = gated("pm static; max_children 1; queue 5 timeout=300ms;");
    let mut first = site.server.client();
    first.send("GET /gate.php?n=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    wait::holds("the first request in PHP", || ran(&site, "1"));
    let refused = site.get("/gate.php?n=2");
    assert_eq!(refused.status, 503);
    assert!(!ran(&site, "2"));
    std::fs::write(site.notes().join("go"), "").unwrap();
    assert_eq!(first.response().text(), "done");
}

#[test]
fn a_client_that_has_gone_never_reaches_php() {
    let site = gated("pm static; max_children 1; queue 5 timeout=30s;");
    let mut first = site.server.client();
    first.send("GET /gate.php?n=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    wait::holds("the first request in PHP", || ran(&site, "1"));
    let mut second = site.server.client();
    second.send("GET /gate.php?n=2 HTTP/1.1\r\nHost: a\r\n\r\n");
    drop(second);
    // Its line is written when it was given up.
    wait::holds("the end of the second request", || site.server.access_log().contains("n=2"));
    std::fs::write(site.notes().join("go"), "").unwrap();
    assert_eq!(first.response().text(), "done");
    assert_eq!(site.get("/gate.php?n=3").text(), "done");
    assert!(ran(&site, "3") && !ran(&site, "2"));
}
