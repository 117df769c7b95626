//! What is stored, what is not, and what the disk, the back end or an operator can do to it.

#[path = "cache/command.rs"]
mod command;
#[path = "cache/conditions.rs"]
mod conditions;
#[path = "cache/others.rs"]
mod others;
#[path = "cache/parts.rs"]
mod parts;
#[path = "cache/rfc.rs"]
mod rfc;
#[path = "cache/rules.rs"]
mod rules;

use brisk_testkit::backend::Peer;
use brisk_testkit::calls::Calls;
use brisk_testkit::{Backend, Builder, Server, process, wait};
use rustix::process::Signal;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

fn conf(port: u16, path: &str, directives: &str) -> String {
    format!(
        "proxy_cache_path {{{{DIR}}}}/cache levels=1:2 keys_zone=one:1m {path};
        server {{
            listen 127.0.0.1:{{{{PORT}}}};
            error_log {{{{DIR}}}}/error.log info;
            proxy_cache_key $uri$is_args$args;
            location / {{
                proxy_pass http://127.0.0.1:{port};
                proxy_cache one;
                add_header X-Status $upstream_cache_status;
                {directives}
            }}
        }}"
    )
}

fn server(port: u16, directives: &str) -> Server {
    let builder = Builder::new(BIN).main("user root;").allow_alerts("exited on signal 9");
    builder.http(&conf(port, "", directives)).start()
}

/// Something to wait for: each call of the second waits for a message to the first.
fn gate() -> (mpsc::Sender<()>, impl Fn() + Send + Sync) {
    let (go, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    (go, move || _ = gate.lock().unwrap().recv())
}

/// A back end whose answers are numbered: `head` is what stands between status line and blank line.
fn numbered(head: &'static str) -> (Backend, Arc<AtomicUsize>) {
    let asked = Arc::<AtomicUsize>::default();
    let count = asked.clone();
    let backend = Backend::start(move |mut peer: Peer| {
        while peer.head().is_some() {
            let body = format!("answer {}", count.fetch_add(1, Ordering::SeqCst) + 1);
            let length = body.len();
            peer.send(format!("HTTP/1.1 200 OK\r\n{head}Content-Length: {length}\r\n\r\n{body}"));
        }
    });
    (backend, asked)
}

fn status(response: &brisk_testkit::Response) -> &str {
    response.header("X-Status").unwrap_or_default()
}

/// Asks until the answer is `want`: what a request leaves behind may take a moment.
fn until_status(server: &Server, target: &str, want: &str) {
    wait::holds(want, || status(&server.get(target)) == want);
}

/// The files of the cache.
fn files(server: &Server) -> Vec<PathBuf> {
    let mut out = Vec::new();
    let mut folders = vec![server.dir().join("cache")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { folders.push(path) } else { out.push(path) }
        }
    }
    out.retain(|path| path.extension().is_none() && path.file_name().is_some_and(|n| n.len() == 32));
    out
}

#[test]
fn an_answer_is_stored_under_nginxs_name_and_survives_a_restart() {
    let (backend, asked) = numbered("Cache-Control: max-age=600\r\n");
    let mut server = server(backend.port(), "");
    assert_eq!(status(&server.get("/a?b")), "MISS");
    for _ in 0..3 {
        let response = server.get("/a?b");
        assert_eq!((status(&response), response.text().as_str()), ("HIT", "answer 1"));
    }
    wait::holds("the file", || files(&server).len() == 1);
    let name = brisk_cache_name(b"/a?b");
    assert!(files(&server)[0].ends_with(&name), "{name}");
    let bytes = std::fs::read(&files(&server)[0]).unwrap();
    assert!(bytes.windows(11).any(|w| w == b"\nKEY: /a?b\n"));
    server.reload();
    assert_eq!(status(&server.get("/a?b")), "HIT");
    // A worker that dies takes nothing along.
    let worker = server.worker();
    process::signal(worker, Signal::KILL);
    wait::holds("another worker", || server.workers().first().is_some_and(|pid| *pid != worker));
    assert_eq!(server.get("/a?b").text(), "answer 1");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    server.end(Signal::QUIT);
}

/// Folders and name of a key's file.
fn brisk_cache_name(key: &[u8]) -> String {
    let path = brisk_cache::Digest::of(key).path(std::path::Path::new("cache"), &[1, 2]);
    path.display().to_string()
}

#[test]
fn five_hundred_clients_of_an_expired_answer_are_one_request() {
    let asked = Arc::<AtomicUsize>::default();
    let count = asked.clone();
    let (go, wait_to_go) = gate();
    let backend = Backend::start(move |mut peer: Peer| {
        while let Some(_head) = peer.head() {
            let number = count.fetch_add(1, Ordering::SeqCst);
            if number > 0 {
                wait_to_go();
            }
            // The second one lasts: the server may have read some of the five hundred only now.
            let age = if number > 0 { 600 } else { 1 };
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age={age}\r\nContent-Length: 2\r\n\r\nok"
            ));
        }
    });
    let server = server(
        backend.port(),
        "proxy_cache_lock on; proxy_cache_lock_timeout 30s; proxy_cache_lock_age 30s;",
    );
    server.get("/");
    std::thread::sleep(Duration::from_millis(2100));
    let mut clients: Vec<_> = (0..500).map(|_| server.client()).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    wait::holds("the back end is asked", || asked.load(Ordering::SeqCst) == 2);
    go.send(()).unwrap();
    for client in &mut clients {
        assert_eq!(client.response().text(), "ok");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[test]
fn removing_the_file_is_a_purge() {
    let (backend, asked) = numbered("Cache-Control: max-age=600\r\n");
    let server = server(backend.port(), "");
    server.get("/a");
    wait::holds("the file", || files(&server).len() == 1);
    // Hot, so that it is a prepared answer too.
    for _ in 0..100 {
        assert_eq!(server.get("/a").text(), "answer 1");
    }
    std::fs::remove_file(&files(&server)[0]).unwrap();
    // Long before the old one has expired; the tests of the cache itself say that it is a second.
    wait::holds("a new answer", || server.get("/a").text() == "answer 2");
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[test]
fn purges_by_url_prefix_and_tag() {
    let (backend, _) = numbered("Cache-Control: max-age=600\r\nCache-Tag: red, green\r\n");
    let server = server(backend.port(), "proxy_cache_purge $http_x_purge;");
    let purge = |target: &str, more: &str| {
        server.request(format!("PURGE {target} HTTP/1.1\r\nHost: a\r\nX-Purge: 1\r\n{more}\r\n")).status
    };
    let fill = || ["/a/1", "/a/2", "/b"].iter().for_each(|target| until_status(&server, target, "HIT"));
    let have = || ["/a/1", "/a/2", "/b"].map(|target| status(&server.get(target)) == "HIT");
    fill();
    assert_eq!((purge("/a/1", ""), purge("/nothing", "")), (204, 404));
    assert_eq!(have(), [false, true, true]);
    fill();
    assert_eq!(purge("/a/*", ""), 204);
    assert_eq!(have(), [false, false, true]);
    fill();
    assert_eq!(purge("/", "Surrogate-Key: blue\r\n"), 204);
    assert_eq!(have(), [true; 3]);
    assert_eq!(purge("/", "Surrogate-Key: green\r\n"), 204);
    assert_eq!(have(), [false; 3]);
}

#[test]
fn nothing_is_stored_without_leave() {
    let heads = Arc::new(Mutex::new(""));
    let given = heads.clone();
    let asked = Arc::<AtomicUsize>::default();
    let count = asked.clone();
    let backend = Backend::start(move |mut peer: Peer| {
        while peer.head().is_some() {
            count.fetch_add(1, Ordering::SeqCst);
            let head = *given.lock().unwrap();
            // A length of 9 with fewer bytes behind it is a truncated body.
            peer.send(format!("HTTP/1.1 200 OK\r\n{head}\r\nhello"));
            if head.contains('9') {
                return;
            }
        }
    });
    let server = server(backend.port(), "proxy_cache_valid 1m;");
    let check = |target: &str, head: &'static str, more: &str, stored: bool| {
        *heads.lock().unwrap() = head;
        let before = asked.load(Ordering::SeqCst);
        for _ in 0..2 {
            let mut client = server.client();
            client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{more}\r\n"));
            let _ = client.rest();
        }
        let requests = asked.load(Ordering::SeqCst) - before;
        assert_eq!(requests == 1, stored, "{head:?} {more:?}");
    };
    check("/plain", "Content-Length: 5\r\n", "", true);
    check("/cookie", "Content-Length: 5\r\nSet-Cookie: a=b\r\n", "", false);
    check("/auth", "Content-Length: 5\r\n", "Authorization: Basic eA==\r\n", false);
    check(
        "/public",
        "Content-Length: 5\r\nCache-Control: public, max-age=60\r\n",
        "Authorization: x\r\n",
        true,
    );
    check("/private", "Content-Length: 5\r\nCache-Control: private\r\n", "", false);
    check("/truncated", "Content-Length: 9\r\n", "", false);
    check("/chunks", "Transfer-Encoding: chunked\r\nX-9: 1\r\n", "", false);
}

#[test]
fn a_dead_back_end_is_bridged() {
    let dead = Arc::<AtomicBool>::default();
    let is_dead = dead.clone();
    let backend = Backend::start(move |mut peer: Peer| {
        while peer.head().is_some() && !is_dead.load(Ordering::SeqCst) {
            peer.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=1\r\nContent-Length: 8\r\n\r\nanswer 1");
        }
    });
    let server = server(backend.port(), "proxy_cache_use_stale error timeout;");
    server.get("/");
    dead.store(true, Ordering::SeqCst);
    drop(backend);
    std::thread::sleep(Duration::from_millis(2100));
    let response = server.get("/");
    assert_eq!((status(&response), response.text().as_str()), ("STALE", "answer 1"));
    assert_eq!(server.get("/other").status, 502);
}

#[test]
fn what_a_client_leaves_behind_is_stored() {
    let (go, wait_to_go) = gate();
    let backend = Backend::start(move |mut peer: Peer| {
        peer.head();
        peer.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 10\r\n\r\nfirst");
        wait_to_go();
        peer.send("-last");
    });
    let server = server(backend.port(), "");
    let mut client = server.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.wait_for("first");
    drop(client);
    go.send(()).unwrap();
    wait::holds("the file", || files(&server).len() == 1);
    let response = server.get("/");
    assert_eq!((status(&response), response.text().as_str()), ("HIT", "first-last"));
    let range = server.request("GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=6-\r\n\r\n");
    // nginx cuts ranges only if the back end says that it does.
    assert_eq!(range.status, 200);
    assert_eq!(backend.connections(), 1);
}

#[test]
fn large_answers_go_through_the_disk() {
    let body: Arc<Vec<u8>> = Arc::new((0..5_000_000u32).map(|n| (n / 251) as u8).collect());
    let given = body.clone();
    let backend = Backend::start(move |mut peer: Peer| {
        while peer.head().is_some() {
            let length = given.len();
            peer.send(format!("HTTP/1.1 200 OK\r\nAccept-Ranges: bytes\r\nCache-Control: max-age=60\r\nContent-Length: {length}\r\n\r\n"));
            peer.send(&given[..]);
        }
    });
    let server = server(backend.port(), "");
    assert!(server.get("/").body == *body);
    until_status(&server, "/", "HIT");
    assert!(server.get("/").body == *body);
    let range = server.request("GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=4000000-4000999\r\n\r\n");
    assert_eq!(range.status, 206);
    assert!(range.body == body[4_000_000..4_001_000]);
}

#[test]
fn no_half_entry_is_served_after_kill_9() {
    let backend = Backend::start(|mut peer: Peer| {
        while peer.head().is_some() {
            peer.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 1000000\r\n\r\n");
            for _ in 0..100 {
                if !peer.send(vec![b'x'; 10_000]) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    });
    let server = server(backend.port(), "proxy_cache_lock on;");
    for round in 0..3 {
        let mut client = server.client();
        client.send(format!("GET /{round} HTTP/1.1\r\nHost: a\r\n\r\n"));
        client.wait_for("xxxx");
        let worker = server.worker();
        process::signal(worker, Signal::KILL);
        wait::holds("another worker", || server.workers().first().is_some_and(|pid| *pid != worker));
        let response = server.get(&format!("/{round}"));
        assert_eq!((response.status, response.body.len()), (200, 1_000_000));
        assert_eq!(status(&response), "MISS");
    }
}

#[test]
fn a_deleted_folder_and_a_full_disk_harm_no_answer() {
    let (backend, asked) = numbered("Cache-Control: max-age=60\r\n");
    let server = server(backend.port(), "");
    until_status(&server, "/", "HIT");
    wait::holds("the file", || files(&server).len() == 1);
    std::fs::remove_dir_all(server.dir().join("cache")).unwrap();
    wait::holds("a new answer", || server.get("/").text() == "answer 2");
    wait::holds("a new file", || files(&server).len() == 1);
    assert_eq!(asked.load(Ordering::SeqCst), 2);

    let builder = Builder::new(BIN)
        .main("env BRISK_FAULTS; user root;")
        .allow_alerts("No space left")
        .http(&conf(backend.port(), "", ""));
    let faults = format!("full={}/cache", builder.dir().display());
    let server = builder.env("BRISK_FAULTS", &faults).start();
    for _ in 0..3 {
        assert_eq!(server.get("/").status, 200);
    }
    server.wait_for_log("No space left on device");
    assert!(files(&server).is_empty());
}

#[test]
fn rfc_9111_says_what_it_does() {
    let (backend, _) = numbered("Cache-Control: max-age=600\r\nETag: \"a\"\r\n");
    let server = server(backend.port(), "proxy_cache_mode rfc9111; add_header X-Own $cache_status;");
    let ask = |more: &str| server.request(format!("GET / HTTP/1.1\r\nHost: a\r\n{more}\r\n"));
    let first = ask("");
    let said = first.header("Cache-Status").unwrap_or_default();
    assert!(said.starts_with("brisk; fwd=uri-miss; fwd-status=200"), "{said}");
    let second = ask("");
    assert!(second.header("Cache-Status").is_some_and(|text| text.starts_with("brisk; hit; ttl=")));
    assert!(second.header("Age").is_some());
    assert_eq!(
        ask("If-None-Match: \"a\"\r\nIf-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n").status,
        304
    );
    assert_eq!(status(&ask("Cache-Control: no-cache\r\n")), "EXPIRED");
    let post = server.request("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(post.status, 200);
    assert_eq!(status(&ask("")), "MISS");
    let other = server.request("GET /other HTTP/1.1\r\nHost: a\r\nCache-Control: only-if-cached\r\n\r\n");
    assert_eq!(other.status, 504);
}

#[test]
fn numbers_of_caches() {
    let (backend, _) = numbered("Cache-Control: max-age=600\r\n");
    let server = server(backend.port(), "location = /metrics { metrics; }");
    until_status(&server, "/a", "HIT");
    let text = server.get("/metrics").text();
    assert!(text.contains("brisk_cache_entries{zone=\"one\"} 1\n"), "{text}");
    assert!(text.contains("brisk_cache_stored_total{zone=\"one\"} 1\n"), "{text}");
}

/// A body in the memory tier is sent from the entry's file, once that is there.
#[test]
fn the_kernel_sends_what_the_memory_tier_holds() {
    let body: Vec<u8> = (0..40_000u32).flat_map(|n| [(n >> 8) as u8, n as u8]).take(40_000).collect();
    let sent = body.clone();
    let backend = Backend::start(move |mut peer: Peer| {
        while peer.head().is_some() {
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", sent.len()));
            peer.send(&sent);
        }
    });
    for (directives, is_on) in [("sendfile on;", true), ("sendfile off;", false)] {
        let server = server(backend.port(), &format!("{directives} proxy_cache_valid 200 1h;"));
        let mut client = server.client();
        assert_eq!(status(&client.get("/a")), "MISS");
        wait::holds("the file is in its place", || files(&server).len() == 1);
        let calls = Calls::of(server.worker());
        for _ in 0..100 {
            let response = client.get("/a");
            assert_eq!(status(&response), "HIT");
            assert!(response.body == body, "other bytes");
        }
        // In each second the first few are copied.
        let count = calls.turns_with("sendfile");
        assert!(if is_on { count > 50 } else { count == 0 }, "{directives} {count}");
        client.send("GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert!(client.response().body == body, "other bytes before the end");
        client.expect_closed();
    }
}
