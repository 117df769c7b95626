//! Requests that are passed on to HTTP back ends, and back ends that misbehave.

#[path = "proxy/hostile.rs"]
mod hostile;
#[path = "proxy/pace.rs"]
mod pace;
#[path = "proxy/targets.rs"]
mod targets;
#[path = "proxy/tunnel.rs"]
mod tunnel;
#[path = "proxy/uploads.rs"]
mod uploads;

use brisk_testkit::backend::Peer;
use brisk_testkit::client::Failure;
use brisk_testkit::{Backend, Builder, Server, process, wait};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// A server whose locations pass on to `port`.
fn proxy(port: u16, http: &str, directives: &str) -> Server {
    builder(port, http, directives).start()
}

/// The same with one thread, which has all kept connections.
fn kept(port: u16, main: &str) -> Server {
    builder(port, "", "").main(&format!("worker_processes 1; {main}")).start()
}

fn builder(port: u16, http: &str, directives: &str) -> Builder {
    let text = format!(
        "log_format up \"$uri $status $upstream_addr $upstream_status\"; {http}
        upstream u {{ server 127.0.0.1:{port}; }}
        server {{
            listen 127.0.0.1:{{{{PORT}}}};
            access_log {{{{DIR}}}}/up.log up;
            error_log {{{{DIR}}}}/error.log info;
            location / {{ proxy_pass http://u; {directives} }}
        }}"
    );
    Builder::new(BIN).http(&text)
}

/// Whether a connection ended without a whole answer.
fn is_cut(result: Result<brisk_testkit::Response, Failure>) -> bool {
    !matches!(result, Ok(_) | Err(Failure::TimedOut))
}

#[test]
fn a_connection_is_used_again_and_the_request_is_written_anew() {
    let (heads, seen) = mpsc::channel();
    let heads = Mutex::new(heads);
    let backend = Backend::start(move |mut peer: Peer| {
        while let Some(head) = peer.head() {
            let _ = heads.lock().unwrap().send(head);
            peer.answer("hello");
        }
    });
    let server = proxy(backend.port(), "", "proxy_set_header X-Real-IP $remote_addr;");
    let mut client = server.client();
    for _ in 0..3 {
        let request = "GET /a%20b?c HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Drop\r\nX-Drop: 1\r\nX-Keep: 2\r\nTE: trailers\r\n\r\n";
        assert_eq!(client.request(request).text(), "hello");
        let head = seen.recv().unwrap();
        assert_eq!(head, "GET /a%20b?c HTTP/1.1\r\nHost: u\r\nX-Real-IP: 127.0.0.1\r\nX-Keep: 2\r\n\r\n");
    }
    assert_eq!(backend.connections(), 1);
}

#[test]
fn a_connection_that_the_back_end_closes_is_replaced() {
    let backend = Backend::start(|mut peer| {
        peer.head();
        peer.answer("once");
    });
    let server = proxy(backend.port(), "", "");
    for count in 1..=3 {
        assert_eq!(server.get("/").text(), "once");
        assert_eq!(backend.connections(), count);
    }
}

#[test]
fn the_first_byte_leaves_when_it_came() {
    for directives in ["", "proxy_buffering off;"] {
        let (go, wait_to_go) = mpsc::channel::<()>();
        let wait_to_go = Mutex::new(wait_to_go);
        let backend = Backend::start(move |mut peer| {
            peer.head();
            peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
            let _ = wait_to_go.lock().unwrap().recv();
            peer.send("4\r\nlast\r\n0\r\n\r\n");
        });
        let server = proxy(backend.port(), "", directives);
        let mut client = server.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.wait_for("first");
        go.send(()).unwrap();
        client.wait_for("last");
    }
}

/// A back end that sends `total` bytes as fast as they are taken, and counts them.
fn firehose(total: usize) -> (Backend, Arc<AtomicUsize>) {
    let sent = Arc::<AtomicUsize>::default();
    let count = sent.clone();
    let backend = Backend::start(move |mut peer| {
        while peer.head().is_some() {
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {total}\r\n\r\n"));
            let piece = vec![b'x'; 64 << 10];
            let mut left = total;
            while left > 0 {
                let some = left.min(piece.len());
                if !peer.send(&piece[..some]) {
                    return;
                }
                left -= some;
                count.fetch_add(some, Ordering::SeqCst);
            }
        }
    });
    (backend, sent)
}

/// Waits until nothing moves any more.
fn settled(sent: &AtomicUsize) -> usize {
    let mut last = (0, Instant::now());
    wait::until("the back end to be held up", || {
        let now = sent.load(Ordering::SeqCst);
        if now != last.0 {
            last = (now, Instant::now());
        }
        (now > 0 && last.1.elapsed() > Duration::from_millis(400)).then_some(now)
    })
}

#[test]
fn a_slow_client_slows_the_back_end() {
    const TOTAL: usize = 256 << 20;
    for directives in ["proxy_buffering off;", "proxy_max_temp_file_size 0;"] {
        let (backend, sent) = firehose(TOTAL);
        let server = proxy(backend.port(), "", directives);
        let mut client = server.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.wait_for("200 OK");
        let held = settled(&sent);
        assert!(held < TOTAL / 4, "{held} bytes were taken of a client that takes none ({directives})");
        assert!(process::rss_kib(server.worker()) < 120 << 10);
    }
}

#[test]
fn an_answer_waits_in_a_file_for_its_client() {
    const TOTAL: usize = 40 << 20;
    let (backend, sent) = firehose(TOTAL);
    let server = proxy(backend.port(), "", "proxy_temp_path {{DIR}}/spool 1;");
    let mut client = server.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait::holds("the back end to be rid of it", || sent.load(Ordering::SeqCst) == TOTAL);
    server.wait_for_log(
        "an upstream response is buffered to a temporary file .*/spool/.* while reading upstream",
    );
    // It has no name by then.
    let names = |dir: &std::path::Path| {
        std::fs::read_dir(dir).map_or(0, |dir| dir.flatten().filter(|e| e.path().is_file()).count())
    };
    assert_eq!(names(&server.dir().join("spool/1")), 0);
    let response = client.response();
    assert_eq!(response.body.len(), TOTAL);
    assert!(response.body.iter().all(|&b| b == b'x'));
    assert_eq!(client.get("/").body.len(), TOTAL);
    assert_eq!(backend.connections(), 1, "the connection was used again");
}

#[test]
fn back_ends_that_misbehave_before_the_head() {
    type Script = fn(Peer);
    let check = |what: &str, script: Script, directives: &str, status: u16, log: &str| {
        let backend = Backend::start(script);
        let server = proxy(backend.port(), "", directives);
        assert_eq!(server.get("/").status, status, "{what}");
        server.wait_for_log(log);
        let line = server.wait_for_line("up.log", "/");
        let address = format!("127.0.0.1:{}", backend.port());
        assert_eq!(line.trim(), format!("/ {status} {address} {status}"), "{what}");
    };
    check(
        "closes early",
        |mut peer| drop(peer.head()),
        "",
        502,
        "upstream prematurely closed connection while reading response header from upstream, client: 127.0.0.1, server: .*, request: \"GET / HTTP/1.1\", upstream: \"http://127.0.0.1:\\d+/\", host: ",
    );
    check(
        "resets",
        |mut peer| {
            peer.head();
            peer.reset();
        },
        "",
        502,
        "recv\\(\\) failed \\(104: Connection reset by peer\\) while reading response header from upstream",
    );
    check(
        "hangs",
        |mut peer| drop((peer.head(), peer.drain())),
        "proxy_read_timeout 200ms;",
        504,
        "upstream timed out \\(110: Connection timed out\\) while reading response header from upstream",
    );
    check(
        "garbage",
        |mut peer| {
            peer.head();
            peer.send("SSH-2.0-OpenSSH\r\n\r\n");
            peer.drain();
        },
        "",
        502,
        "upstream sent no valid HTTP/1.0 header while reading response header from upstream",
    );
    check(
        "both lengths",
        |mut peer| {
            peer.head();
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
            peer.drain();
        },
        "",
        502,
        "upstream sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time",
    );
    check(
        "a head without end",
        |mut peer| {
            peer.head();
            peer.send("HTTP/1.1 200 OK\r\n");
            while peer.send(format!("X: {}\r\n", "y".repeat(900))) {}
        },
        "",
        502,
        "upstream sent too big header while reading response header from upstream",
    );
}

/// Head and body are read together, but the one has its limit (`proxy_buffer_size`), and hints have theirs.
#[test]
fn a_head_has_its_limit_whatever_comes_with_it() {
    let backend = Backend::start(|mut peer: Peer| {
        while let Some(head) = peer.head() {
            let is = |target: &str| head.starts_with(&format!("GET {target} "));
            let hint = format!("HTTP/1.1 103 Early Hints\r\nX: {}\r\n\r\n", "y".repeat(3900));
            let hints = if is("/hints") { hint.repeat(3) } else { String::new() };
            let field = "y".repeat(if is("/long") { 4096 } else { 3900 });
            let body = "b".repeat(20_000);
            let head = format!("HTTP/1.1 200 OK\r\nX: {field}\r\nContent-Length: 20000\r\n\r\n");
            peer.send([hints, head, body].concat());
        }
    });
    let server = proxy(backend.port(), "", "proxy_buffer_size 4k;");
    for (target, status) in [("/", 200), ("/hints", 200), ("/long", 502), ("/", 200)] {
        let answer = server.get(target);
        assert_eq!(answer.status, status, "{target}");
        assert!(status == 502 || answer.body == "b".repeat(20_000).into_bytes(), "{target}");
    }
    server.wait_for_log("upstream sent too big header while reading response header from upstream");
}

#[test]
fn answers_that_are_cut_short_do_not_look_whole() {
    type Script = fn(Peer);
    let check = |script: Script, directives: &str, log: &str| {
        let backend = Backend::start(script);
        let server = proxy(backend.port(), "", directives);
        let mut client = server.client();
        assert!(is_cut(client.try_get("/")), "{log}");
        server.wait_for_log(log);
    };
    let closed = "upstream prematurely closed connection while reading upstream";
    check(
        |mut peer| {
            peer.head();
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
        },
        "",
        closed,
    );
    check(
        |mut peer| {
            peer.head();
            peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
        },
        "proxy_buffering off;",
        closed,
    );
    check(
        |mut peer| {
            peer.head();
            peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nxx\r\n");
            peer.drain();
        },
        "",
        "upstream sent invalid chunked response: invalid chunk size while reading upstream",
    );
    check(
        |mut peer| {
            peer.head();
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
            peer.drain();
        },
        "proxy_read_timeout 1s;",
        "upstream timed out \\(110: Connection timed out\\) while reading upstream",
    );
}

#[test]
fn more_than_was_announced_reaches_nobody() {
    let backend = Backend::start(|mut peer| {
        peer.head();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
        peer.drain();
    });
    let server = proxy(backend.port(), "", "");
    let mut client = server.client();
    assert_eq!(client.get("/").text(), "hello");
    assert_eq!(client.get("/").text(), "hello");
    assert_eq!(backend.connections(), 2, "such a connection is not used again");
    server.wait_for_log("upstream sent more data than specified in \"Content-Length\" header");
}

#[test]
fn another_server_is_asked() {
    let good = Backend::answering("good");
    let bad = Backend::start(|mut peer| drop(peer.head()));
    let (good_port, bad_port) = (good.port(), bad.port());
    let text = format!(
        "upstream u {{ server 127.0.0.1:{bad_port} weight=100 max_fails=0; server 127.0.0.1:{good_port} max_fails=0; }}
        upstream dead {{ server 127.0.0.1:{bad_port}; server 127.0.0.1:{bad_port}; }}
        log_format up \"$uri $status $upstream_status\";
        server {{
            listen 127.0.0.1:{{{{PORT}}}};
            access_log {{{{DIR}}}}/up.log up;
            location / {{ proxy_pass http://u; }}
            location /off {{ proxy_pass http://u; proxy_next_upstream off; }}
            location /tries {{ proxy_pass http://u; proxy_next_upstream_tries 1; }}
            location /post {{ proxy_pass http://u; proxy_next_upstream error non_idempotent; }}
            location /dead {{ proxy_pass http://dead; }}
        }}"
    );
    let server = Builder::new(BIN).http(&text).start();
    assert_eq!(server.get("/a").text(), "good");
    assert_eq!(server.get("/off").status, 502);
    assert_eq!(server.get("/tries").status, 502);
    let post = |target: &str| {
        server.request(format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"))
    };
    assert_eq!(post("/a").status, 502, "a POST that may have been carried out is not sent again");
    assert_eq!(post("/post").status, 200);
    assert_eq!(server.get("/dead").status, 502);
    assert_eq!(server.get("/dead").status, 502);
    server.wait_for_log("no live upstreams while connecting to upstream");
    let lines = wait::until("all lines", || {
        let text = server.read("up.log");
        (text.lines().count() == 7).then_some(text)
    });
    assert!(lines.starts_with("/a 200 502, 200\n"), "{lines}");
}

#[test]
fn whoever_leaves_takes_his_request_along() {
    let (says, hears) = mpsc::channel();
    let says = Mutex::new(says);
    let backend = Backend::start(move |mut peer| {
        let has_body = peer.head().is_some_and(|head| head.starts_with("POST"));
        let says = says.lock().unwrap();
        let _ = says.send("head");
        peer.body(if has_body { 10 } else { 0 });
        let _ = says.send("all");
        let _ = says.send(if peer.is_closed_within(Duration::from_secs(30)) { "closed" } else { "open" });
    });
    let server = proxy(backend.port(), "", "proxy_request_buffering off;");
    // Also behind a body that was passed on as it came.
    for (begin, rest) in
        [("GET /left HTTP/1.1\r\n", ""), ("POST /left HTTP/1.1\r\nContent-Length: 10\r\n", "after")]
    {
        let mut client = server.client();
        let first = if rest.is_empty() { "" } else { "first" };
        client.send(format!("{begin}Host: a\r\n\r\n{first}"));
        assert_eq!(hears.recv().unwrap(), "head");
        client.send(rest);
        assert_eq!(hears.recv().unwrap(), "all");
        drop(client);
        assert_eq!(hears.recv().unwrap(), "closed");
    }
    wait::holds("both log lines", || server.read("up.log").matches("/left 499 ").count() == 2);
}

#[test]
fn a_full_disk_is_our_own_fault() {
    let backend = Backend::answering("never");
    let port = backend.port();
    let mut builder = Builder::new(BIN);
    let order = format!("full={}", builder.dir().join("spool").display());
    builder = builder.http(&format!(
        "upstream u {{ server 127.0.0.1:{port}; }}
        server {{
            listen 127.0.0.1:{{{{PORT}}}};
            client_body_temp_path {{{{DIR}}}}/spool;
            location / {{ proxy_pass http://u; }}
        }}"
    ));
    let server = builder.main("env BRISK_FAULTS;").env("BRISK_FAULTS", &order).start();
    let body = "x".repeat(100_000);
    let response =
        server.request(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    assert_eq!(response.status, 500);
    server.wait_for_log("\\[crit\\] .*pwrite\\(\\) .* failed \\(28: No space left on device\\)");
}

#[test]
fn a_thousand_slow_readers() {
    const READERS: usize = 1000;
    process::raise_descriptor_limit();
    const TOTAL: usize = 256 << 10;
    let (backend, sent) = firehose(TOTAL);
    let server = proxy(backend.port(), "", "");
    let mut clients: Vec<_> = (0..READERS)
        .map(|_| {
            let mut client = brisk_testkit::Client::connect_narrow(server.port());
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    wait::holds("the back end to be rid of all", || sent.load(Ordering::SeqCst) == READERS * TOTAL);
    for client in &mut clients {
        client.wait_for("200 OK");
    }
    // A KiB each, and again: whoever reads so gets what it reads, and others have their turn.
    for _ in 0..3 {
        for client in &mut clients {
            let mut left = 1024;
            while left > 0 {
                left -= client.some(left).unwrap().len();
            }
        }
        assert_eq!(server.get("/").body.len(), TOTAL, "others have their turn");
    }
    let rss = process::rss_kib(server.worker());
    assert!(rss < 300 << 10, "{rss} KiB");
}

/// A back end that answers at once, except that it waits for `go` before it answers what asks for `/wait`.
fn obedient() -> (Backend, mpsc::Sender<()>) {
    let (go, wait_to_go) = mpsc::channel::<()>();
    let wait_to_go = Mutex::new(wait_to_go);
    let backend = Backend::start(move |mut peer| {
        while let Some(head) = peer.head() {
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            if path == "/wait" {
                let _ = wait_to_go.lock().unwrap().recv();
            }
            if path == "/closed" || !peer.answer(&path) {
                break;
            }
        }
    });
    (backend, go)
}

#[test]
fn what_comes_while_a_kept_connection_is_asked_has_its_turn() {
    let (backend, go) = obedient();
    let server = kept(backend.port(), "");
    let mut client = server.client();
    assert_eq!(client.get("/one").text(), "/one");
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    // Behind the one that waits, in the same packet and in others.
    client.send([get("/two"), get("/wait"), get("/three")].concat());
    assert_eq!(client.response().text(), "/two");
    client.send(get("/four"));
    client.send(&get("/five")[..10]);
    go.send(()).unwrap();
    assert_eq!(client.response().text(), "/wait");
    assert_eq!(client.response().text(), "/three");
    assert_eq!(client.response().text(), "/four");
    client.send(&get("/five")[10..]);
    assert_eq!(client.response().text(), "/five");
    assert_eq!(backend.connections(), 1);
}

#[test]
fn whoever_leaves_a_kept_connection_is_noticed() {
    let (backend, go) = obedient();
    let server = kept(backend.port(), "");
    assert_eq!(server.get("/one").text(), "/one");
    let mut client = server.client();
    client.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
    // What comes after it has to look for another connection: this one is being asked.
    wait::holds("the request to be asked", || {
        server.get("/two");
        backend.connections() == 2
    });
    drop(client);
    let line = server.wait_for_line("up.log", "/wait");
    assert!(line.starts_with("/wait 499 "), "{line}");
    go.send(()).unwrap();
    assert_eq!(server.get("/three").text(), "/three");
}

#[test]
fn a_kept_connection_that_ends_while_it_is_asked_is_replaced() {
    let (backend, _go) = obedient();
    let server = kept(backend.port(), "");
    for _ in 0..2 {
        let mut client = server.client();
        assert_eq!(client.get("/one").text(), "/one");
        // It was not new, so the server is asked once more, and then no more.
        assert_eq!(client.get("/closed").status, 502);
        let line = server.wait_for_line("up.log", "/closed");
        let address = format!("127.0.0.1:{}", backend.port());
        assert_eq!(line, format!("/closed 502 {address}, {address} 502, 502"));
    }
    // A kept one and another for each.
    assert_eq!(backend.connections(), 4);
}

#[test]
fn a_request_that_waits_for_a_kept_connection_ends_with_its_configuration() {
    let (backend, _go) = obedient();
    let mut server = kept(backend.port(), "worker_shutdown_timeout 100ms;");
    assert_eq!(server.get("/one").text(), "/one");
    let mut client = server.client();
    client.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
    wait::holds("the request to be asked", || {
        server.get("/two");
        backend.connections() == 2
    });
    server.configure_http(
        "worker_processes 1; worker_shutdown_timeout 100ms;",
        "server { listen 127.0.0.1:{{PORT}}; location / { return 200 new; } }",
    );
    server.reload();
    client.expect_closed();
    assert_eq!(server.get("/").text(), "new");
}

/// What the first server has got of an upload cannot be sent again: the second one would get another request, with an empty body.
#[test]
fn a_body_that_was_passed_on_is_not_replaced_by_an_empty_one() {
    let (dead, other) = (Backend::start(Peer::reset), Backend::answering("taken"));
    let server = proxy(
        dead.port(),
        "client_max_body_size 0;",
        &format!(
            "proxy_request_buffering off; error_page 502 = @other; }}
             location @other {{ proxy_pass http://127.0.0.1:{0}; }}
             location /page {{ proxy_pass http://127.0.0.1:{1}; proxy_request_buffering off; error_page 502 /instead; }}
             location /instead {{ proxy_pass http://127.0.0.1:{0};",
            other.port(),
            dead.port()
        ),
    );
    let put = |target: &str| {
        let mut client = server.client();
        client.send(format!("PUT {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nfirst"));
        let answer = client.response();
        (answer.status, answer.text())
    };
    assert_eq!(put("/up").0, 502);
    server.wait_for_log("cannot be passed on once more");
    assert_eq!(other.connections(), 0);
    // A page is asked for with GET, and without the body.
    assert_eq!(put("/page"), (502, "taken".into()));
}

/// As in nginx, the redirect to the path with its slash is for exact locations, too, and comes behind the location's own refusals.
#[test]
fn a_path_without_the_slash_of_its_location() {
    let server = proxy(
        1,
        "",
        "} location = /exact/ { proxy_pass http://u; } location /prefix/ { proxy_pass http://u; }
         location /hidden/ { internal; proxy_pass http://u; }
         location /small/ { client_max_body_size 1; proxy_pass http://u;",
    );
    let statuses = ["/exact", "/prefix", "/hidden", "/small"].map(|target| server.get(target).status);
    assert_eq!(statuses, [301, 301, 404, 301]);
    let post = "POST /small HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\nxx";
    assert_eq!(server.request(post).status, 413);
}
