//! Filters that change bodies: `sub_filter`, `addition`, SSI.

use brisk_testkit::client::Ending;
use brisk_testkit::versions::everywhere;
use brisk_testkit::{Backend, Builder, Client, Response, Server, scenario, wait};
use std::sync::{Arc, Barrier};
use std::time::Duration;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

fn get(server: &Server, target: &str) -> Response {
    server.request(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"))
}

/// `filters/sub.conf` with the files that its cases speak of.
fn substituted() -> Builder {
    Builder::new(BIN)
        .http(include_str!("filters/sub.conf"))
        .file("html/a.html", "foo Foo FOO bar")
        .file("html/a.css", "foo")
        .file("html/empty.html", "")
        .file("html/big.html", "0123456789".repeat(30_000))
        .file("html/part.html", "<p>part</p>")
}

#[test]
fn substitution_and_addition() {
    scenario::run(&substituted().start(), include_str!("filters/sub.txt"));
}

#[test]
fn a_large_file_is_substituted_across_its_pieces() {
    let mut text = "x".repeat(65_530);
    text.push_str("needle");
    text.push_str(&"y".repeat(100_000));
    text.push_str("NEEDLE");
    let server = Builder::new(BIN)
        .http("server { listen 127.0.0.1:{{PORT}}; sub_filter needle pin; sub_filter_once off; }")
        .file("html/a.html", &text)
        .start();
    let response = get(&server, "/a.html");
    assert!(response.text() == text.replace("needle", "pin").replace("NEEDLE", "pin"));
    assert_eq!(response.header("Content-Length"), None);
}

/// `filters/ssi.conf` with the pages that its cases speak of.
fn pages() -> Builder {
    Builder::new(BIN)
        .http(include_str!("filters/ssi.conf"))
        .file("html/part.html", "part")
        .file("html/sub/rel.html", "[<!--#include virtual=\"leaf.html\" -->]")
        .file("html/sub/leaf.html", "leaf<!--#set var=\"from\" value=\"leaf\" -->")
        .file("html/args.html", "<!--#echo var=\"arg_a\" -->")
        .file("html/empty.html", "")
        .file("html/none", "")
        .file("html/commands.html", include_str!("filters/commands.html"))
        .file("html/mistakes.html", include_str!("filters/mistakes.html"))
        .file("html/loop.html", "<!--#include virtual=\"/loop.html\" -->")
        .file("html/long.txt", "x".repeat(100))
        .file("html/toolong.html", "<!--#include virtual=\"/long.txt\" set=\"x\" -->never")
}

#[test]
fn bodies_that_change_over_other_versions() {
    let (builder, versions) = everywhere(substituted());
    assert!(scenario::run_over(&builder.start(), include_str!("filters/sub.txt"), &versions) > 10);
    let (builder, versions) = everywhere(pages());
    assert!(scenario::run_over(&builder.start(), include_str!("filters/ssi.txt"), &versions) > 4);
}

#[test]
fn commands_of_pages() {
    let server = pages().start();
    scenario::run(&server, include_str!("filters/ssi.txt"));
    server.wait_for_log("subrequests cycle while processing \"/loop.html\"");
    server.wait_for_log("too big subrequest response: 100");
    wait::holds("both lines", || server.read("sub.log") == "/part.html 4\n".repeat(2));
}

#[test]
fn a_page_that_includes_itself_twice_ends() {
    let server = Builder::new(BIN)
        .http("server { listen 127.0.0.1:{{PORT}}; ssi on; ssi_silent_errors on; error_log error.log crit; }")
        .file("html/a.html", "x<!--#include virtual=\"/a.html\" --><!--#include virtual=\"/a.html\" -->")
        .start();
    let text = get(&server, "/a.html").text();
    assert!(text.len() > 50 && text.bytes().all(|b| b == b'x'), "{}", text.len());
    assert!(text.len() <= 10_001, "{}", text.len());
    assert_eq!(get(&server, "/missing").status, 404);
}

#[test]
fn values_that_double_end() {
    let mut page = String::from("<!--#set var=\"a\" value=\"0123456789\" -->");
    for _ in 0..40 {
        page.push_str("<!--#set var=\"a\" value=\"$a$a\" -->");
    }
    page.push_str("<!--#set var=\"b\" value=\"$a\" -->end");
    let server = Builder::new(BIN)
        .http("server { listen 127.0.0.1:{{PORT}}; ssi on; }")
        .file("html/a.html", page)
        .start();
    assert!(
        get(&server, "/a.html").text().ends_with("[an error occurred while processing the directive]end")
    );
    server.wait_for_log("too long value of \"\\$a\\$a\"");
}

/// A page whose commands send nothing gives others their turn.
#[test]
fn a_long_page_keeps_nobody_waiting() {
    let mut page = "<!--#set var=\"a\" value=\"1\"-->".repeat(300_000);
    page.push_str("end");
    let server = Builder::new(BIN)
        .main("worker_processes 1;")
        .http("server { listen 127.0.0.1:{{PORT}}; location / { ssi on; } location /short { return 200 short; } }")
        .file("html/a.html", page)
        .start();
    assert_eq!(get(&server, "/short").text(), "short");
    let mut long = server.client();
    long.send("GET /a.html HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut between = 0;
    let mut short = server.client();
    while long.ending(Duration::from_millis(1)) == Ending::Open {
        assert_eq!(short.get("/short").text(), "short");
        between += 1;
    }
    assert!(between > 3, "{between}");
    assert_eq!(long.response().text(), "end");
}

/// The length of an answer to HEAD is that of the recoded text, or none.
#[test]
fn recoded_answers_to_head_have_the_right_length() {
    let server = Builder::new(BIN)
        .http(
            "charset_map koi8-r utf-8 { C0 D18E; }
             charset_map koi8-r windows-1251 { C0 FE; }
             server { listen 127.0.0.1:{{PORT}}; charset_types *; proxy_pass_request_body off;
                location /raw { default_type text/plain; return 200 0123456789; }
                location /wide { proxy_pass http://127.0.0.1:{{PORT}}/raw; charset utf-8; source_charset koi8-r; override_charset on; }
                location /same { proxy_pass http://127.0.0.1:{{PORT}}/raw; charset windows-1251; source_charset koi8-r; override_charset on; } }",
        )
        .start();
    let head = |target: &str| server.request(format!("HEAD {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!(head("/wide").header("Content-Length"), None);
    assert_eq!(head("/same").header("Content-Length"), Some("10"));
    assert_eq!(get(&server, "/same").text(), "0123456789");
}

/// What must wait: a page is sent as far as it is known, and its includes wait together.
#[test]
fn includes_of_one_page_run_at_the_same_time() {
    // None of them is answered before all three are asked for.
    let all = Arc::new(Barrier::new(3));
    let back = Backend::start(move |mut peer| {
        while let Some(head) = peer.head() {
            all.wait();
            let name = head.split(' ').nth(1).unwrap_or_default().trim_start_matches("/slow/");
            if !peer.answer(name) {
                return;
            }
        }
    });
    let server = Builder::new(BIN)
        .http(&format!(
            "server {{ listen 127.0.0.1:{{{{PORT}}}};
                location / {{ ssi on; }}
                location /slow/ {{ proxy_pass http://127.0.0.1:{}; }} }}",
            back.port()
        ))
        .file(
            "html/a.html",
            "a<!--#include virtual=\"/slow/1\" -->b<!--#include virtual=\"/slow/2\" -->c<!--#include virtual=\"/slow/3\" -->d",
        )
        .start();
    assert_eq!(get(&server, "/a.html").text(), "a1b2c3d");
}

#[test]
fn a_client_that_leaves_takes_its_includes_with_it() {
    let server = Builder::new(BIN)
        .http("server { listen 127.0.0.1:{{PORT}}; ssi on; }")
        .file("html/a.html", "<!--#include virtual=\"/b.html\" -->".repeat(100))
        .file("html/b.html", "0123456789".repeat(100_000))
        .start();
    for _ in 0..5 {
        let mut client = Client::connect(server.port());
        client.send("GET /a.html HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut some = [0; 100];
        assert!(client.read_some(&mut some, wait::DEADLINE).unwrap() > 0);
        client.reset();
    }
    assert_eq!(get(&server, "/b.html").body.len(), 1_000_000);
}

#[test]
fn copies_go_elsewhere_and_nobody_waits_for_them() {
    let server = Builder::new(BIN)
        .http(
            "log_format copy '$uri?$args $request_body'; limit_req_zone $binary_remote_addr zone=z:64k rate=20r/m;
             server { listen 127.0.0.1:{{PORT}};
                location / { mirror /copy/1; mirror /copy/2; }
                location /nobody/ { mirror /copy/3; mirror_request_body off; }
                location /none/ { mirror off; }
                location /slow/ { alias html/; mirror /late; }
                location /late { limit_req zone=z burst=10; log_subrequest on; access_log late.log copy; }
                location /copy/ { internal; log_subrequest on; access_log copy.log copy; return 200 x; } }",
        )
        .file("html/a.html", "page")
        .file("html/nobody/a.html", "page")
        .file("html/none/a.html", "page")
        .file("html/late", "late")
        .start();
    let post = |target: &str| {
        let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
        assert_eq!(server.request(head).status, 405);
    };
    post("/a.html?a=b");
    post("/nobody/a.html");
    post("/none/a.html");
    for line in ["^/copy/1\\?a=b body$", "^/copy/2\\?a=b body$", "^/copy/3\\?- -$"] {
        server.wait_for_line("copy.log", line);
    }
    assert_eq!(server.read("copy.log").lines().count(), 3);
    // The second copy must wait; the client must not, and its connection ends at once.
    for _ in 0..2 {
        let mut client = Client::connect(server.port());
        client.send("GET /slow/a.html HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert_eq!(client.response().text(), "page");
        client.expect_closed();
    }
    server.wait_for_line("late.log", "/late");
    assert_eq!(server.read("late.log").lines().count(), 1);
    // A server that ends finishes its copies.
    let mut server = server;
    server.end(rustix::process::Signal::QUIT);
    assert_eq!(server.read("late.log"), "/late?- -\n/late?- -\n");
}

/// A method that is none of HTTP's own is the client's in the copy, too.
#[test]
fn copies_keep_an_unusual_method() {
    let (told, hears) = std::sync::mpsc::channel();
    let told = std::sync::Mutex::new(told);
    let backend = Backend::start(move |mut peer| {
        let head = peer.head().unwrap_or_default();
        told.lock().unwrap().send(head.lines().next().unwrap_or_default().to_string()).unwrap();
        peer.answer("");
    });
    let http = "server { listen 127.0.0.1:{{PORT}}; location / { mirror /copy; }
                location = /copy { internal; proxy_pass http://127.0.0.1:BACK; } }";
    let server = Builder::new(BIN).http(&http.replace("BACK", &backend.port().to_string())).start();
    server.request("REPORT /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(hears.recv_timeout(wait::DEADLINE).unwrap(), "REPORT /copy HTTP/1.1");
}

#[test]
fn nothing_is_replaced_in_what_is_compressed() {
    let backend = Backend::start(|mut peer| {
        peer.head();
        let fields = "Content-Type: text/html\r\nContent-Encoding: gzip\r\nETag: \"v\"\r\nContent-Length: 4";
        peer.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\naaaa"));
    });
    let http = "server { listen 127.0.0.1:{{PORT}}; sub_filter a bb; sub_filter_once off;
                location / { proxy_pass http://127.0.0.1:BACK; } }";
    let server = Builder::new(BIN).http(&http.replace("BACK", &backend.port().to_string())).start();
    let answer = get(&server, "/");
    assert_eq!((answer.text().as_ref(), answer.header("ETag")), ("aaaa", Some("\"v\"")));
}
