//! `error_log … debug` and `debug_connection`: a request's way in the log.

use brisk_testkit::{Backend, Builder, Server, ports, wait};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// The lines of a log at debug level, without time and process.
fn steps(server: &Server, log: &str) -> Vec<String> {
    let text = server.read(log);
    let lines = text.lines().filter_map(|line| line.split_once(" [debug] ")?.1.split_once(": "));
    lines.map(|(_, rest)| rest.split_once(' ').map_or(rest, |(_, step)| step).to_string()).collect()
}

/// Asserts that these lines are among the steps, in this order.
fn follow(steps: &[String], wanted: &[&str]) {
    let mut left = steps.iter();
    for line in wanted {
        assert!(left.any(|step| step == line), "{line:?} is missing or out of order in {steps:#?}");
    }
}

/// A server whose debug log tells of every step; its back end is at `port`.
fn chatty(port: u16) -> Server {
    let conf = format!(
        "proxy_cache_path {{{{DIR}}}}/pages keys_zone=pages:1m;
        upstream back {{ server 127.0.0.1:{port}; keepalive 4; }}
        server {{
            listen 127.0.0.1:{{{{PORT}}}}; error_log {{{{DIR}}}}/debug.log debug;
            rewrite ^/old/(.*)$ /new/$1 last;
            location /new/ {{ proxy_pass http://back; proxy_http_version 1.1; proxy_set_header Connection \"\"; }}
            location ~ \\.php$ {{ return 403; }}
            location /cached {{ proxy_pass http://127.0.0.1:{port}; proxy_cache pages; proxy_cache_valid 1h; }}
            location /files/ {{ try_files $uri /files/index.html =404; }}
            location /else {{ error_page 404 = @named; }}
            location @named {{ set $a b; return 200 named; }}
        }}"
    );
    Builder::new(BIN).main("worker_processes 1;").http(&conf).file("html/files/index.html", "index").start()
}

#[test]
fn a_requests_way_is_in_the_log() {
    let back = Backend::start(|mut peer| {
        while peer.head().is_some()
            && peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-Back: 1\r\n\r\nback")
        {}
    });
    let port = back.port();
    let server = chatty(port);
    let mut seen = 0;
    let mut follow_next = |target: &str, wanted: &[&str]| {
        let answer = server.get(target);
        assert_eq!(answer.status / 100, 2, "{target}: {}", answer.head);
        // The last of its lines is written when the answer has left.
        let all = wait::until("the end of the request's way", || {
            let all = steps(&server, "debug.log");
            all[seen..].iter().any(|step| step == "http log handler").then_some(all)
        });
        follow(&all[seen..], wanted);
        seen = all.len();
    };
    let peer = format!("connect to 127.0.0.1:{port}");
    let sent =
        format!("http upstream bytes sent: {}", "GET /new/page?a=1 HTTP/1.1\r\nHost: back\r\n\r\n".len());
    follow_next(
        "/old/page?a=1",
        &[
            "http request line: \"GET /old/page?a=1 HTTP/1.1\"",
            "http uri: \"/old/page\"",
            "http args: \"a=1\"",
            "http header: \"Host: localhost\"",
            "http header done",
            "rewrite phase: 0",
            "\"^/old/(.*)$\" matches \"/old/page\"",
            "rewritten data: \"/new/page\", args: \"a=1\"",
            "test location: \"/new/\"",
            "test location: ~ \"\\.php$\"",
            "using configuration \"/new/\"",
            "content phase: 0",
            &format!("get peer 127.0.0.1:{port}, try: 1"),
            &peer,
            "http upstream send request",
            &sent,
            "http upstream status 200",
            "http upstream header: \"X-Back: 1\"",
            "http finalize request: 200, \"/new/page?a=1\"",
            "http log handler",
        ],
    );
    follow_next("/new/again", &["get keepalive peer: using connection", "http upstream send request"]);
    follow_next("/cached", &["http upstream cache: MISS", "http upstream send request"]);
    follow_next("/cached", &["http upstream cache: HIT"]);
    follow_next(
        "/files/none",
        &[
            "trying to use file: \"/files/none\"",
            "trying to use file: \"/files/index.html\"",
            &format!("http filename: \"{}/html/files/index.html\"", server.dir().display()),
        ],
    );
    follow_next(
        "/else",
        &[
            "http special response: 404, \"/else\"",
            "test location: \"@named\"",
            "using configuration \"@named\"",
            "http script set $a: \"b\"",
        ],
    );
}

#[test]
fn the_log_says_why_the_next_server_is_asked() {
    let closed = format!("127.0.0.1:{}", ports::unused());
    let back = Backend::answering("back");
    let conf = format!(
        "upstream group {{ server {closed}; server 127.0.0.1:{}; }}
        server {{ listen 127.0.0.1:{{{{PORT}}}}; error_log {{{{DIR}}}}/debug.log debug; location / {{ proxy_pass http://group; }} }}",
        back.port()
    );
    let server = Builder::new(BIN).main("worker_processes 1;").http(&conf).start();
    assert_eq!(server.get("/").text(), "back");
    let first = format!("get peer {closed}, try: 2");
    follow(&steps(&server, "debug.log"), &[&first, "http next upstream, error", "http upstream status 200"]);
}

/// Who was let in or slowed down, and by what.
#[test]
fn limits_and_logins_are_in_the_log() {
    let conf = "limit_req_zone $binary_remote_addr zone=rate:1m rate=100r/s; limit_conn_zone $binary_remote_addr zone=many:1m;
        server {
            listen 127.0.0.1:{{PORT}}; error_log {{DIR}}/debug.log debug;
            location / { limit_req zone=rate; limit_conn many 3; }
            location = /secret { auth_basic in; auth_basic_user_file {{DIR}}/users; auth_request /ask; try_files /index.html =404; }
            location /ask { return 204; }
        }";
    let server = Builder::new(BIN)
        .main("worker_processes 1;")
        .http(conf)
        .file("html/index.html", "hello")
        .file("users", "joe:{PLAIN}secret\n")
        .start();
    assert_eq!(server.get("/").text(), "hello");
    let request = "GET /secret HTTP/1.1\r\nHost: a\r\nAuthorization: Basic am9lOnNlY3JldA==\r\nConnection: close\r\n\r\n";
    let mut client = server.client();
    client.send(request);
    assert_eq!(client.response().status, 200);
    follow(
        &steps(&server, "debug.log"),
        &[
            "limit_req: Pass { delay_ms: 0, excess: 0, limit: 0 }",
            "limit conn: zone \"many\", at most 3: Counted",
            "auth basic: user \"joe\" has the right password",
            "auth request done s:204",
        ],
    );
}

/// Only connections from these addresses are logged so, in every log, answers that are prepared included.
#[test]
fn connections_of_chosen_addresses_only() {
    let conf = "daemon off; pid {{DIR}}/brisk.pid; error_log {{DIR}}/error.log; worker_processes 1;
        events { debug_connection 127.0.0.3; debug_connection 127.7.0.0/16; }
        http { access_log off; root {{DIR}}/html; error_log {{DIR}}/one.log alert; error_log {{DIR}}/two.log alert;
            server { listen 127.0.0.1:{{PORT}}; } }";
    let server = Builder::new(BIN).conf(conf).file("html/index.html", "hello").start();
    let from = |address: &str| {
        let output = std::process::Command::new("curl")
            .args(["-s", "--interface", address])
            .arg(format!("http://127.0.0.1:{}/index.html", server.port()))
            .output()
            .expect("curl is installed");
        assert_eq!(output.stdout, b"hello", "{output:?}");
    };
    from("127.0.0.1");
    from("127.0.0.1");
    assert_eq!((server.read("one.log"), server.read("two.log")), (String::new(), String::new()));
    let mut before = String::new();
    for (at, address) in (1..).zip(["127.0.0.3", "127.7.8.9", "127.0.0.3"]) {
        from(address);
        // The last of its lines is written when the answer has left.
        let text = wait::until("the same lines in both logs", || {
            let (one, two) = (server.read("one.log"), server.read("two.log"));
            (one == two && one.matches("http log handler").count() == at).then_some(one)
        });
        let new = &text[before.len()..];
        assert!(new.contains("[debug]") && new.contains("http uri: \"/index.html\""), "{new}");
        before = text;
    }
    from("127.0.0.1");
    assert_eq!(server.read("one.log"), before);
}

#[test]
fn unix_sockets_may_be_chosen() {
    let conf =
        "daemon off; pid {{DIR}}/brisk.pid; error_log {{DIR}}/error.log; events { debug_connection unix:; }
        http { access_log off; server { listen unix:{{DIR}}/s; location / { return 200 one; } } }";
    let server = Builder::new(BIN).conf(conf).start();
    let mut client = brisk_testkit::Client::connect_unix(&server.dir().join("s")).unwrap();
    assert_eq!(client.get("/").text(), "one");
    follow(&steps(&server, "error.log"), &["http uri: \"/\"", "using configuration \"/\""]);
}
