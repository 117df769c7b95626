//! Regular expressions mean what they mean to PCRE2, and what cannot be decided is an error: never a request that slips
//! past a rule.

use brisk_testkit::backend::Peer;
use brisk_testkit::{Backend, Builder, Server};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// Each use of an expression refuses what matches.
const RULES: &str = r#"
map $request_uri $of_map { default open; "~^/map/[^/]*\x2d$" closed; }
map $uri $by_uri { default open; ~^/mapped$ closed; }
server {
    listen 127.0.0.1:{{PORT}};
    server_name example.com;
    location ~ ^/admin$ { deny all; }
    location ~* \.SECRET$ { deny all; }
    location ~ ^/(a*)*x$ { return 200 "[$1]"; }
    location ~ "^/c/a{,3}b$" { return 200 "counted"; }
    location ~ ^/class/[a&&b]+$ { return 200 "class"; }
    location ~ ^/file/(?<name>.*)$ { return 200 "[$name]"; }
    location /if/ { if ($uri ~ ^/if/[a-z]+$) { return 403; } return 200 open; }
    location /rewrite/ { rewrite ^/rewrite/x$ /closed last; return 200 open; }
    location = /closed { return 403; }
    location = /mapped { return 200 $by_uri; }
    location / { if ($by_uri = closed) { return 403; } return 200 open; }
}
server {
    listen 127.0.0.1:{{PORT}};
    server_name many.example.com;
    location ~ ^/0$ { return 403; }  location ~ ^/1$ { return 403; }  location ~ ^/2$ { return 403; }
    location ~ ^/3$ { return 403; }  location ~ ^/4$ { return 403; }  location ~ ^/5$ { return 403; }
    location ~ ^/6$ { return 403; }  location ~ ^/7$ { return 403; }  location ~ ^/8$ { return 403; }
    location / { return 200 open; }
}
"#;

fn ask(server: &Server, host: &str, target: &str) -> (u16, String) {
    let answer = server.client().request(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    (answer.status, answer.text())
}

#[test]
fn a_newline_at_the_end_passes_no_rule() {
    let server = Builder::new(BIN).http(RULES).start();
    for target in [
        "/admin",
        "/admin%0a",
        "/admin%0A",
        "/x.secret",
        "/x.secret%0a",
        "/if/a%0a",
        "/rewrite/x%0a",
        "/mapped%0a",
    ] {
        // Twice: the second may be a prepared answer.
        for _ in 0..2 {
            assert_eq!(ask(&server, "example.com", target).0, 403, "{target}");
        }
    }
    for target in ["/admin%0a%0a", "/admin%0ax", "/admin%0d", "/x.secretx", "/if/1%0a"] {
        assert_eq!(ask(&server, "example.com", target), (200, "open".into()), "{target}");
    }
    for number in 0..9 {
        assert_eq!(ask(&server, "many.example.com", &format!("/{number}%0a")).0, 403);
        assert_eq!(ask(&server, "many.example.com", &format!("/{number}")).0, 403);
    }
    assert_eq!(ask(&server, "many.example.com", "/9%0a"), (200, "open".into()));
}

#[test]
fn groups_counters_and_classes_are_those_of_pcre() {
    let server = Builder::new(BIN).http(RULES).start();
    let check =
        |target: &str, want: &str| assert_eq!(ask(&server, "example.com", target), (200, want.into()));
    check("/aax", "[]");
    check("/c/aab", "counted");
    check("/c/a%7B,3%7Db", "open");
    check("/class/a&b", "class");
    check("/file/a%0a", "[a]");
    check("/file/a%0ab", "open");
    check("/file/a%FFb", "[a\u{fffd}b]");
}

/// No limit is high enough for it.
const RUNAWAY: &str = "(?=a)(a+)+[bc]";

fn long() -> String {
    "a".repeat(60)
}

/// The heads that reach it are counted; the answer has what rules rewrite.
fn backend() -> (Backend, Arc<AtomicUsize>) {
    let count = Arc::<AtomicUsize>::default();
    let heads = count.clone();
    let backend = Backend::start(move |mut peer: Peer| {
        while peer.head().is_some() {
            heads.fetch_add(1, Ordering::SeqCst);
            let long = long();
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nLocation: http://{long}/\r\nSet-Cookie: {long}=1; path=/{long}; domain={long}\r\nContent-Length: 4\r\n\r\nopen"
            ));
        }
    });
    (backend, count)
}

/// Servers whose name, location or first rewrite cannot be decided.
fn others() -> String {
    format!(
        r#"
server {{
    listen 127.0.0.1:{{{{PORT}}}};
    server_name "~^{RUNAWAY}";
    return 200 named;
}}
server {{
    listen 127.0.0.1:{{{{PORT}}}};
    server_name paths.example.com;
    location ~ "{RUNAWAY}" {{ deny all; }}
    location / {{ return 200 open; }}
}}
server {{
    listen 127.0.0.1:{{{{PORT}}}};
    server_name rewritten.example.com;
    rewrite "{RUNAWAY}" /closed;
    location / {{ return 200 open; }}
    location /closed {{ return 403; }}
}}
"#
    )
}

fn undecided(port: u16) -> Server {
    let text = format!(
        r#"
log_format line "$uri $status";
map $arg_a $mapped {{ default open; "~{RUNAWAY}" closed; }}
map $arg_a $logged {{ default 0; "~{RUNAWAY}" 1; }}
server {{
    listen 127.0.0.1:{{{{PORT}}}};
    server_name example.com;
    access_log {{{{DIR}}}}/if.log line if=$logged;
    location /if {{ if ($arg_a ~ "{RUNAWAY}") {{ return 403; }} return 200 open; }}
    location /not {{ if ($arg_a !~ "{RUNAWAY}") {{ return 200 open; }} return 403; }}
    location /map {{ if ($mapped = closed) {{ return 403; }} return 200 open; }}
    location /text {{ return 200 $mapped; }}
    location /header {{ add_header X-Mapped $mapped always; return 200 open; }}
    location /page {{ error_page 500 = /told; add_header X-Mapped $mapped; return 200 open; }}
    location /told {{ return 200 told; }}
    location /referer {{
        valid_referers "~{RUNAWAY}" example.com;
        if ($invalid_referer) {{ return 403; }}
        return 200 open;
    }}
    location /sent {{ proxy_pass http://127.0.0.1:{port}; proxy_set_header X-Mapped $mapped; }}
    location /body {{ proxy_pass http://127.0.0.1:{port}; proxy_set_body $mapped; }}
    location /fastcgi {{
        fastcgi_split_path_info "^(/fastcgi/(?=a)(?:a+)+[bc])(.*)$";
        fastcgi_param PATH_INFO $fastcgi_path_info;
        fastcgi_pass 127.0.0.1:{port};
    }}
    location /redirect {{ proxy_pass http://127.0.0.1:{port}; proxy_redirect "~{RUNAWAY}" /; }}
    location /path {{ proxy_pass http://127.0.0.1:{port}; proxy_cookie_path "~{RUNAWAY}" /; }}
    location /domain {{ proxy_pass http://127.0.0.1:{port}; proxy_cookie_domain "~{RUNAWAY}" a.b; }}
    location /flags {{ proxy_pass http://127.0.0.1:{port}; proxy_cookie_flags "~{RUNAWAY}" secure; }}
    location /ssi {{ ssi on; default_type text/html; root {{{{DIR}}}}/html; }}
    location /quiet {{ gzip on; gzip_types text/plain; gzip_min_length 1; gzip_disable "{RUNAWAY}"; return 200 open; }}
    location / {{ return 200 open; }}
}}
{}
"#,
        others()
    );
    Builder::new(BIN)
        .http(&text)
        .file(
            "html/ssi/if.html",
            format!("<!--# if expr=\"$arg_a = /{RUNAWAY}/\" -->closed<!--# else -->open<!--# endif -->"),
        )
        .file(
            "html/ssi/map.html",
            "<!--# if expr=\"$mapped = closed\" -->closed<!--# else -->open<!--# endif -->",
        )
        .file(
            "html/ssi/bytes.html",
            "<!--# if expr=\"$arg_a = /\u{e9}$arg_b/\" -->closed<!--# else -->open<!--# endif -->",
        )
        .allow_alerts("pcre2_match\\(\\) failed: .*match limit")
        .start()
}

#[test]
fn what_cannot_be_decided_is_an_error() {
    let (backend, heads) = backend();
    let server = undecided(backend.port());
    let long = long();
    let status = |host: &str, target: &str, fields: &str| {
        let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n");
        server.client().request(head).status
    };
    for place in ["if", "not", "map", "text", "header", "sent", "body", "ssi/if.html", "ssi/map.html"] {
        assert_eq!(status("example.com", &format!("/{place}?a={long}"), ""), 500, "{place}");
    }
    assert_eq!(status("example.com", &format!("/fastcgi/{long}"), ""), 500);
    assert_eq!(heads.load(Ordering::SeqCst), 0, "nothing is sent that could not be found out");
    for place in ["redirect", "path", "domain", "flags"] {
        assert_eq!(status("example.com", &format!("/{place}"), ""), 500, "{place}");
    }
    assert_eq!(status("example.com", "/referer", &format!("Referer: http://{long}/\r\n")), 500);
    assert_eq!(status(&long, "/", ""), 500);
    assert_eq!(status("paths.example.com", &format!("/{long}"), ""), 500);
    assert_eq!(status("rewritten.example.com", &format!("/{long}"), ""), 500);
    assert_eq!(ask(&server, "example.com", &format!("/page?a={long}")), (200, "told".into()));
}

#[test]
fn what_can_be_decided_is_as_before() {
    let (backend, _) = backend();
    let server = undecided(backend.port());
    for target in [
        "/if?a=x",
        "/map?a=x",
        "/text?a=x",
        "/header?a=x",
        "/ssi/if.html?a=x",
        "/ssi/map.html?a=x",
        "/sent?a=x",
    ] {
        assert_eq!(ask(&server, "example.com", target), (200, "open".into()), "{target}");
    }
    for target in ["/if?a=ab", "/map?a=ab"] {
        assert_eq!(ask(&server, "example.com", target).0, 403, "{target}");
    }
    assert_eq!(ask(&server, "ab", "/"), (200, "named".into()));
    assert_eq!(ask(&server, "example.com", "/ssi/if.html?a=ab"), (200, "closed".into()));
}

#[test]
fn where_no_error_can_be_answered_the_safe_side_is_taken() {
    let (backend, _) = backend();
    let mut server = undecided(backend.port());
    let long = long();
    // The condition of a log.
    assert_eq!(ask(&server, "example.com", "/other?a=x").0, 200);
    assert_eq!(ask(&server, "example.com", &format!("/other?a={long}")).0, 200);
    // An agent that may be one of those gets no coding.
    let head = format!(
        "GET /quiet HTTP/1.1\r\nHost: example.com\r\nAccept-Encoding: gzip\r\nUser-Agent: {long}\r\n\r\n"
    );
    let answer = server.client().request(head);
    assert_eq!((answer.status, answer.header("Content-Encoding")), (200, None));
    server.end(rustix::process::Signal::QUIT);
    assert_eq!(server.read("if.log"), "/other 200\n");
}
