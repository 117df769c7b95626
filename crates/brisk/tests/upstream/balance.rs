//! Which back end gets a request.

use crate::{BACKENDS, BIN};
use brisk_testkit::{Builder, Server};
use std::collections::HashMap;

fn server(http: &str) -> Server {
    Builder::new(BIN).http(&format!("{http} {BACKENDS}")).start()
}

/// How often each answer comes.
fn answers(server: &Server, target: &str, count: usize) -> HashMap<String, usize> {
    let mut seen = HashMap::new();
    for _ in 0..count {
        *seen.entry(server.get(target).text()).or_default() += 1;
    }
    seen
}

fn counts(pairs: &[(&str, usize)]) -> HashMap<String, usize> {
    pairs.iter().map(|(text, count)| ((*text).to_string(), *count)).collect()
}

#[test]
fn weights_are_exact_over_all_threads() {
    let server = server(
        "upstream u { server 127.0.0.1:{{PORT2}} weight=3; server 127.0.0.1:{{PORT3}}; }
         server { listen 127.0.0.1:{{PORT}}; location / { proxy_pass http://u; } }",
    );
    assert_eq!(answers(&server, "/", 40), counts(&[("one", 30), ("two", 10)]));
}

#[test]
fn who_fails_is_passed_over() {
    let server = server(
        "upstream u { server 127.0.0.1:1; server 127.0.0.1:{{PORT3}}; }
         upstream none { server 127.0.0.1:1; server 127.0.0.1:2; }
         server { listen 127.0.0.1:{{PORT}};
             location / { proxy_pass http://u; add_header X-Addr $upstream_addr; }
             location /none { proxy_pass http://none; } }",
    );
    assert_eq!(answers(&server, "/", 6), counts(&[("two", 6)]));
    server.wait_for_log("upstream server temporarily disabled");
    let alone = server.get("/");
    assert!(!alone.header("X-Addr").unwrap().contains(','), "{:?}", alone.header("X-Addr"));
    assert_eq!(server.get("/none").status, 502);
    assert_eq!(server.get("/none").status, 502);
    server.wait_for_log("no live upstreams while connecting to upstream");
}

#[test]
fn sessions_stay_with_their_back_end() {
    let server = server(
        "upstream cookie { server 127.0.0.1:{{PORT2}}; server 127.0.0.1:{{PORT3}}; sticky cookie srv path=/ expires=1h httponly; }
         upstream route { server 127.0.0.1:{{PORT2}} route=a; server 127.0.0.1:{{PORT3}} route=b; sticky route $arg_r; }
         upstream hashed { hash $arg_k consistent; server 127.0.0.1:{{PORT2}}; server 127.0.0.1:{{PORT3}}; }
         server { listen 127.0.0.1:{{PORT}};
             location /cookie { proxy_pass http://cookie; }
             location /route { proxy_pass http://route; }
             location /hashed { proxy_pass http://hashed; } }",
    );
    let first = server.get("/cookie");
    let cookie = first.header("Set-Cookie").unwrap().to_string();
    assert!(cookie.contains("; max-age=3600; httponly; path=/"), "{cookie}");
    let value = cookie.split(';').next().unwrap();
    for _ in 0..5 {
        let again = server.request(format!("GET /cookie HTTP/1.0\r\nCookie: {value}\r\n\r\n"));
        assert_eq!(again.text(), first.text());
    }
    assert_eq!(answers(&server, "/route?r=b", 4), counts(&[("two", 4)]));
    assert_eq!(answers(&server, "/route?r=a", 4), counts(&[("one", 4)]));
    for key in 0..10 {
        assert_eq!(answers(&server, &format!("/hashed?k={key}"), 3).len(), 1);
    }
}

#[test]
fn requests_wait_for_a_place_in_turn() {
    let server = Builder::new(BIN)
        .http(
            "upstream u { server 127.0.0.1:{{PORT2}} max_conns=1; queue 2 timeout=20s; }
             upstream hasty { server 127.0.0.1:{{PORT2}} max_conns=1; queue 1 timeout=50ms; }
             server { listen 127.0.0.1:{{PORT}}; proxy_buffering off;
                 add_header X-Queue \"in=$upstream_queue_time $upstream_last_server_name\";
                 location / { proxy_pass http://u; }
                 location /hasty/ { proxy_pass http://hasty/; } }
             server { listen 127.0.0.1:{{PORT2}}; location /slow { limit_rate 400; } }",
        )
        // It takes two seconds and more: whatever is to meet it does so on a busy machine, too.
        .file("html/slow/a", vec![b'x'; 1200])
        .file("html/b", "b")
        .start();
    let mut slow = server.client();
    slow.send("GET /slow/a HTTP/1.1\r\nHost: x\r\n\r\n");
    slow.wait_for("xxx");
    let mut waiting = server.client();
    waiting.send("GET /b HTTP/1.0\r\n\r\n");
    assert_eq!(slow.response().text().len(), 1200);
    let answer = waiting.response();
    assert_eq!(answer.text(), "b");
    let queued = answer.header("X-Queue").unwrap();
    assert!(
        queued.ends_with(" 127.0.0.1") && !queued.starts_with("in=0.000") && !queued.starts_with("in= "),
        "{queued}"
    );
    drop(slow);
    let mut slow = server.client();
    slow.send("GET /hasty/slow/a HTTP/1.1\r\nHost: x\r\n\r\n");
    slow.wait_for("xxx");
    assert_eq!(server.get("/hasty/b").status, 502);
    server.wait_for_log("no live upstreams while connecting to upstream");
}
