//! `103 Early Hints`: to whom, when, and what is learned from whom.

use brisk_testkit::{Builder, Response, Server};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// The files below `slow` come from a disk that takes its time, so whoever asks for them waits.
const CONF: &str = r#"
    server {
        listen 127.0.0.1:{{PORT}};
        early_hints $http_x_hints;
        location / { early_hints_add "</style.css>; rel=preload; as=style" "<$arg_cdn>; rel=preconnect"; }
        location /slow/denied { deny all; early_hints_add "</secret.css>; rel=preload"; }
        location /slow/nobody { early_hints 0 ""; early_hints_add "</x>; rel=preload"; }
        location /slow/none { early_hints_add ""; }
        location /slow/learn {
            early_hints_learn on;
            add_header Link "</$arg_v.js>; rel=preload";
            add_header Link "</next>; rel=next";
        }
        location /slow/learn/own { early_hints_learn on; add_header Link "</own.js>; rel=preload"; add_header Cache-Control private; }
    }"#;

fn server() -> Server {
    let mut builder = Builder::new(BIN).main("env BRISK_FAULTS; user root;").http(CONF);
    for name in ["a", "denied/a", "nobody/a", "none/a", "learn/a", "learn/own/a"] {
        builder = builder.file(&format!("html/slow/{name}"), "ok").file(&format!("html/{name}"), "ok");
    }
    let faults = format!("stall:5={}/html/slow", builder.dir().display());
    builder.env("BRISK_FAULTS", &faults).start()
}

fn ask(server: &Server, target: &str, version: &str, hints: &str) -> Response {
    server.request(format!("GET {target} HTTP/{version}\r\nHost: localhost\r\nX-Hints: {hints}\r\n\r\n"))
}

/// The links of the only interim response, if there was one.
fn links(response: &Response) -> Vec<String> {
    assert!(response.status == 200 && response.interim_heads.len() <= 1, "{response:?}");
    let heads = response.interim_heads.iter();
    heads
        .flat_map(|head| head.lines().filter_map(|line| line.strip_prefix("Link: ")))
        .map(str::to_owned)
        .collect()
}

#[test]
fn who_waits_is_told_what_to_fetch_meanwhile() {
    let server = server();
    let response = ask(&server, "/slow/a?cdn=https://cdn.example", "1.1", "1");
    assert_eq!(response.interim, [103]);
    assert_eq!(
        links(&response),
        ["</style.css>; rel=preload; as=style", "<https://cdn.example>; rel=preconnect"]
    );
    assert_eq!(response.body, b"ok");
    // An answer that is there at once needs no hint.
    assert!(links(&ask(&server, "/a", "1.1", "1")).is_empty());
    // Nobody else gets any.
    assert!(links(&ask(&server, "/slow/a", "1.1", "0")).is_empty());
    assert!(links(&ask(&server, "/slow/a", "1.1", "")).is_empty());
    assert!(links(&ask(&server, "/slow/a", "1.0", "1")).is_empty());
    assert!(links(&ask(&server, "/slow/nobody/a", "1.1", "1")).is_empty());
    assert!(links(&ask(&server, "/slow/none/a", "1.1", "1")).is_empty());
    let denied = ask(&server, "/slow/denied/a", "1.1", "1");
    assert_eq!((denied.status, denied.interim.len()), (403, 0));
}

#[test]
fn responses_with_hints_keep_their_connection_in_step() {
    let server = server();
    let mut client = server.client();
    let text = "GET /slow/a HTTP/1.1\r\nHost: localhost\r\nX-Hints: 1\r\n\r\n".repeat(20);
    client.send(text);
    for _ in 0..20 {
        let response = client.response();
        assert_eq!((response.status, response.body.as_slice()), (200, &b"ok"[..]));
        assert_eq!(response.interim, [103]);
    }
}

#[test]
fn links_are_learned_from_what_everyone_may_see() {
    let server = server();
    // What was learned belongs to a thread, and a connection stays with its thread.
    let mut client = server.client();
    let mut ask = |target: &str, field: &str| {
        client.request(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nX-Hints: 1\r\n{field}\r\n"))
    };
    assert!(links(&ask("/slow/learn/a?v=1", "")).is_empty());
    assert_eq!(links(&ask("/slow/learn/a?v=1", "")), ["</1.js>; rel=preload"]);
    // Of another URI nothing is known yet.
    assert!(links(&ask("/slow/learn/a?v=2", "Authorization: x\r\n")).is_empty());
    assert!(links(&ask("/slow/learn/a?v=2", "")).is_empty());
    assert_eq!(links(&ask("/slow/learn/a?v=2", "")), ["</2.js>; rel=preload"]);
    for _ in 0..3 {
        assert!(links(&ask("/slow/learn/own/a", "")).is_empty());
    }
}
