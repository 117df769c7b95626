//! HTTP/1.1 as clients see it: framing, limits, time-outs, routing and error pages.
//!
//! What can be said as "these bytes, that answer" stands in `http1/*.txt`, asked of `http1/*.conf`; here is what
//! needs a pace, a clock or another socket.

use brisk_testkit::{Builder, scenario};

/// The program; another one of nginx's make can be asked the same questions.
fn bin() -> String {
    std::env::var("BRISK_TEST_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_brisk").into())
}

#[test]
fn framing() {
    let server =
        Builder::new(&bin()).http(include_str!("http1/framing.conf")).file("html/a.txt", "hello\n").start();
    scenario::run(&server, include_str!("http1/framing.txt"));
}

#[test]
fn routing() {
    let server = Builder::new(&bin())
        .http(include_str!("http1/routing.conf"))
        .file("html/404.html", "page 404\n")
        .file("html/413.html", "page 413\n")
        .file("html/400.html", "page 400\n")
        .file("html/dir/a.txt", "in dir\n")
        .file("html/files/a.txt", "file\n")
        .file("html/deny/a.txt", "secret\n")
        .file("html/denyfirst/a.txt", "secret\n")
        .file("html/allow/a.txt", "allowed\n")
        .file("html/any/a.txt", "any\n")
        .file("html/anynot/a.txt", "secret\n")
        .file("html/status/a.txt", "html\n")
        .start();
    scenario::run(&server, include_str!("http1/routing.txt"));
}
