//! Request bodies that are read: in memory and in files, slow, broken, too large, abandoned.

use brisk_testkit::client::{Ending, Failure};
use brisk_testkit::versions::everywhere;
use brisk_testkit::{Builder, Client, Server, process, scenario, wait};
use rustix::process::Signal;
use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// Bodies of requests with an `Early` header are read early. `/file` shows the file that the body went to.
const CONF: &str = r#"
    log_format body "$uri $status $request_length [$request_body] $content_length $request_completion";
    client_body_early_read $http_early;
    client_body_buffer_size 1k;
    client_max_body_size 200k;
    client_body_temp_path {{DIR}}/spool 1 2;
    server {
        listen 127.0.0.1:{{PORT}};
        access_log {{DIR}}/body.log body;
        location / { return 200 "[$request_body][$request_body_file] $content_length\n"; }
        location /file { alias $request_body_file; }
        location /small { client_max_body_size 10; error_page 413 =413 /refused; return 200 "[$request_body]"; }
        error_page 400 =400 /refused;
        location = /refused { return 200 "refused [$request_body]\n"; }
        location /kept { error_page 404 = @missing; }
        location @missing { return 200 "missing [$request_body]\n"; }
    }
    server {
        listen 127.0.0.1:{{PORT2}};
        client_body_in_file_only on;
        location / { return 200 "[$request_body]$request_body_file"; }
    }
    server {
        listen 127.0.0.1:{{PORT3}};
        client_body_in_file_only clean;
        location / { return 200 "[$request_body]$request_body_file"; }
        location /file { alias $request_body_file; }
    }
    server {
        listen 127.0.0.1:{{PORT4}};
        access_log {{DIR}}/body.log body;
        client_body_timeout 2s;
        lingering_timeout 1s;
        location / { return 200 "[$request_body]"; }
    }
"#;

fn server() -> Server {
    Builder::new(BIN).http(CONF).start()
}

/// A request whose body is read early.
fn early(target: &str, body: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: a\r\nEarly: 1\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn early_chunked(target: &str, chunks: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: a\r\nEarly: 1\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}")
}

/// `body` in chunks of `size` bytes.
fn chunks(body: &str, size: usize) -> String {
    let mut out = String::new();
    for chunk in body.as_bytes().chunks(size) {
        let _ = write!(out, "{:x};x=y\r\n{}\r\n", chunk.len(), String::from_utf8_lossy(chunk));
    }
    out + "0\r\nTrailer: t\r\n\r\n"
}

fn digits(len: usize) -> String {
    "0123456789".chars().cycle().take(len).collect()
}

#[test]
fn scenarios() {
    scenario::run(&server(), include_str!("request_body/cases.txt"));
}

#[test]
fn scenarios_over_other_versions() {
    let (builder, versions) = everywhere(Builder::new(BIN).http(CONF));
    assert!(scenario::run_over(&builder.start(), include_str!("request_body/cases.txt"), &versions) > 4);
}

#[test]
fn in_any_pieces() {
    let server = server();
    let body = digits(40);
    let want = format!("[{body}][] 40\n");
    for request in [early("/", &body), early_chunked("/", &chunks(&body, 7))] {
        // At once, twice, with a request behind that has none.
        let mut client = server.client();
        client.send(format!("{request}{request}GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(client.response().text(), want);
        assert_eq!(client.response().text(), want);
        assert_eq!(client.response().text(), "[][] \n");

        let mut client = server.client();
        for byte in request.bytes() {
            client.send([byte]);
            std::thread::sleep(Duration::from_micros(200));
        }
        assert_eq!(client.response().text(), want);
        let head = request.find("\r\n\r\n").expect("a head") + 4;
        for split in [head, head + 1, request.len() - 1] {
            client.send(&request[..split]);
            assert_eq!(client.ending(Duration::from_millis(20)), Ending::Open);
            client.send(&request[split..]);
            assert_eq!(client.response().text(), want, "cut at {split} of {}", request.len());
        }
    }
}

#[test]
fn large_bodies_go_to_a_file_without_a_name() {
    let server = server();
    let mut client = server.client();
    for len in [1281, 5000, 100_000, 200 << 10] {
        let body = digits(len);
        for request in [early("/file", &body), early_chunked("/file", &chunks(&body, 3000))] {
            // The file is gone from its folder before the request is handled.
            let get = request.replacen("POST", "GET", 1);
            assert_eq!(client.request(get).status, 404);
        }
        let response = client.request(early("/", &body));
        let text = response.text();
        let spool = server.dir().join("spool");
        let (path, rest) = text.strip_prefix("[][").and_then(|t| t.split_once(']')).expect("no body, a file");
        assert!(
            rest.ends_with(&format!(" {len}\n")) && path.starts_with(spool.to_str().expect("text")),
            "{text}"
        );
        let name = path.rsplit_once('/').expect("a folder").1;
        assert!(path.ends_with(&format!("/{}/{}/{name}", &name[9..], &name[7..9])), "{path}");
    }
    // nginx's rule: a quarter more than the buffer is still little.
    assert!(client.request(early("/", &digits(1279))).text().starts_with("[0123"));
    assert_eq!(files(&server), Vec::<PathBuf>::new());
    server.wait_for_log("\\[warn\\] .* a client request body is buffered to a temporary file .*/spool/./../");
    let info = server.dir().join("spool").metadata().expect("the folder");
    assert_eq!(info.mode() & 0o777, 0o700);
}

/// What there is in the spool.
fn files(server: &Server) -> Vec<PathBuf> {
    fn walk(dir: PathBuf, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            match entry.file_type().expect("an entry of ours") {
                kind if kind.is_dir() => walk(entry.path(), found),
                _ => found.push(entry.path()),
            }
        }
    }
    let mut found = Vec::new();
    walk(server.dir().join("spool"), &mut found);
    found
}

#[test]
fn in_file_only() {
    let server = server();
    let mut client = Client::connect(server.port_of(2));
    for body in ["", "x", &digits(5000)] {
        for request in [early("/", body), early_chunked("/", &chunks(body, 100))] {
            let text = client.request(request).text();
            let path = text.strip_prefix("[]").expect("not in memory");
            assert_eq!(std::fs::read_to_string(path).expect("the file stays"), body);
            assert_eq!(std::fs::metadata(path).expect("the file stays").mode() & 0o7777, 0o600);
        }
    }
    assert_eq!(client.get("/").text(), "[]", "no body, no file");
    assert_eq!(files(&server).len(), 6);
    server.wait_for_log("\\[notice\\] .* a client request body is buffered to a temporary file");

    let mut client = Client::connect(server.port_of(3));
    for len in [1, 5000] {
        let body = digits(len);
        let get = early("/file", &body).replacen("POST", "GET", 1);
        assert_eq!(client.request(get).text(), body, "there while the request is handled");
    }
    wait::holds("removed files", || files(&server).len() == 6);
}

#[test]
fn files_of_abandoned_requests_are_removed() {
    let server = server();
    let mut client = Client::connect(server.port_of(3));
    let request = early("/", &digits(50_000));
    client.send(&request[..40_000]);
    wait::holds("a file", || files(&server).len() == 1);
    drop(client);
    wait::holds("no file", || files(&server).is_empty());
    server.wait_for_log("client prematurely closed connection, client: 127.0.0.1");
}

/// A server that is killed leaves a file behind. The next one removes it, but neither what was to stay nor what is in use.
#[test]
fn files_of_a_killed_server_are_removed_at_start() {
    let mut killed = server();
    let mut client = Client::connect(killed.port_of(2));
    let kept = client.request(early("/", &digits(50))).text();
    let kept = PathBuf::from(kept.strip_prefix("[]").expect("not in memory"));
    let begin = |server: &Server| {
        let mut client = Client::connect(server.port_of(3));
        client.send(&early("/", &digits(50_000))[..40_000]);
        client
    };
    let _half = begin(&killed);
    wait::holds("a file", || files(&killed).len() == 2);
    let worker = killed.worker();
    process::signal(killed.child_pid(), Signal::KILL);
    process::signal(worker, Signal::KILL);
    killed.wait();
    process::wait_gone(worker);
    assert_eq!(files(&killed).len(), 2);

    let folder = killed.dir().join("spool").display().to_string();
    let conf = CONF.replace("{{DIR}}/spool", &folder);
    let start = || Builder::new(BIN).http(&conf).start();
    let next = start();
    assert_eq!(files(&killed), [kept.as_path()]);
    let _half = begin(&next);
    wait::holds("a file", || files(&killed).len() == 2);
    let _beside = start();
    assert_eq!(files(&killed).len(), 2, "what is in use stays");
    assert!(kept.exists());
}

#[test]
fn slow_clients() {
    let server = server();
    for request in [early("/slow", &digits(20)), early_chunked("/slow", &chunks(&digits(20), 9))] {
        let mut client = Client::connect(server.port_of(4));
        client.send(&request[..request.len() - 1]);
        client.expect_closed();
        // The time-out is between two reads, not for the whole.
        let mut client = Client::connect(server.port_of(4));
        let (head, body) = request.split_at(request.find("\r\n\r\n").expect("a head") + 4);
        client.send(head);
        for piece in body.as_bytes().chunks(body.len().div_ceil(5)) {
            std::thread::sleep(Duration::from_millis(450));
            client.send(piece);
        }
        assert_eq!(client.response().text(), format!("[{}]", digits(20)));
    }
    let lines = server.wait_for_line("body.log", "/slow 408");
    assert!(lines.ends_with(" 20 ") || lines.ends_with("  "), "{lines:?}");
    server.wait_for_log(
        "\\[info\\] .* client timed out \\(110: Connection timed out\\) while reading client request body",
    );
}

#[test]
fn disconnects() {
    let server = server();
    for (at, request) in
        [early("/gone", &digits(20)), early_chunked("/gone", &chunks(&digits(20), 9))].iter().enumerate()
    {
        let mut client = server.client();
        client.send(&request[..request.len() - 1]);
        client.half_close();
        client.expect_closed();
        wait::holds("a line", || server.read("body.log").matches("/gone 400").count() == at + 1);
    }
    server.wait_for_log("\\[info\\] .* client prematurely closed connection, client: 127.0.0.1");
}

#[test]
fn too_large() {
    let server = server();
    // Told by the length: nothing of the body need come.
    let mut client = server.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nEarly: 1\r\nContent-Length: 204801\r\n\r\n");
    assert_eq!(client.response().status, 413);
    server.wait_for_log("\\[error\\] .* client intended to send too large body: 204801 bytes");
    // Told by a chunk's size.
    let mut client = server.client();
    client.send(early_chunked("/", "5\r\nhello\r\n31ffc\r\n"));
    assert_eq!(client.response().status, 413);
    server.wait_for_log("\\[error\\] .* client intended to send too large chunked body: 5\\+204796 bytes");
    // Who goes on sending still gets the answer.
    for request in [early("/", &digits(5 << 20)), early_chunked("/", &chunks(&digits(5 << 20), 100_000))] {
        let mut client = server.client();
        client.send(request);
        let response = client.response();
        assert_eq!((response.status, response.header("Connection")), (413, Some("close")));
    }
    assert_eq!(files(&server), Vec::<PathBuf>::new());
}

#[test]
fn expectations() {
    let server = server();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nEarly: 1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    let mut client = server.client();
    client.send(head);
    assert_eq!(client.some(1000).expect("leave to send"), b"HTTP/1.1 100 Continue\r\n\r\n");
    client.send("hello");
    assert_eq!(client.response().text(), "[hello][] 5\n");
    // The value is compared without regard to case; who does not wait is not told.
    let response = client.request(format!("{}hello", head.replace("100-c", "100-C")));
    assert_eq!((response.text().as_str(), response.interim.len()), ("[hello][] 5\n", 0));
    let mut client = server.client();
    client.send(head.replace("HTTP/1.1", "HTTP/1.0"));
    assert!(
        matches!(client.ending(Duration::from_millis(50)), Ending::Open),
        "HTTP/1.0 knows no interim answers"
    );
    client.send("hello");
    assert_eq!(client.response().interim, []);
    // Nobody reads: the answer comes at once, and the connection, on which a body may or may not follow, is closed.
    for request in [head.replace("Early: 1\r\n", ""), head.replace("Length: 5", "Length: 500000")] {
        let mut client = server.client();
        client.send(request);
        let response = client.response();
        assert!(matches!(response.status, 200 | 413) && response.interim.is_empty());
        assert!(matches!(client.ending(wait::DEADLINE), Ending::Closed | Ending::Reset));
    }
}

#[test]
fn no_place_for_the_file() {
    let server = server();
    let spool = server.dir().join("spool");
    std::fs::remove_dir(&spool).expect("an empty folder");
    std::fs::write(&spool, "").expect("our own folder");
    let mut client = server.client();
    let response = client.request(early("/", &digits(5000)));
    assert_eq!((response.status, response.header("Connection")), (500, Some("close")));
    server.wait_for_log(
        "\\[crit\\] .* (open|mkdir)\\(\\) \"[^\"]*/spool/[^\"]*\" failed \\(20: Not a directory\\), client: ",
    );
    assert_eq!(server.request(early("/", "small")).text(), "[small][] 5\n");
}

/// A spool whose disk misbehaves as ordered.
#[cfg(debug_assertions)]
fn faulty(kind: &str) -> Server {
    let builder = Builder::new(BIN).http(CONF);
    let order = format!("{kind}={}/spool", builder.dir().display());
    builder.main("worker_processes 1; env BRISK_FAULTS;").env("BRISK_FAULTS", &order).start()
}

#[cfg(debug_assertions)]
#[test]
fn a_full_disk() {
    let server = faulty("full");
    for request in [early("/", &digits(50_000)), early_chunked("/", &chunks(&digits(50_000), 3000))] {
        let mut client = server.client();
        let response = client.request(request);
        assert_eq!((response.status, response.header("Connection")), (500, Some("close")));
    }
    server.wait_for_log(
        "\\[crit\\] .* pwrite\\(\\) \"[^\"]*/spool/[^\"]*\" failed \\(28: No space left on device\\), client: ",
    );
    assert_eq!(server.request(early("/", "small")).text(), "[small][] 5\n");
    assert_eq!(files(&server), Vec::<PathBuf>::new());
}

#[cfg(debug_assertions)]
#[test]
fn a_disk_that_stalls_delays_its_own_body_only() {
    let server = faulty("stall:1500");
    let (mut slow, mut other) = (server.client(), server.client());
    let begin = Instant::now();
    slow.send(early("/", &digits(5000)));
    let mut answers = 0;
    while begin.elapsed() < Duration::from_millis(1200) {
        assert_eq!(other.request(early("/", "small")).text(), "[small][] 5\n");
        answers += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    // One that waited for the disk would be the only one.
    assert!(answers > 8, "there were {answers} answers");
    assert!(slow.response().text().starts_with("[]["));
    assert!(begin.elapsed() >= Duration::from_millis(1500));
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error() {
    let prepared = Builder::new(BIN)
        .http("client_body_temp_path /dev/null/folder; server { listen 127.0.0.1:{{PORT}}; }")
        .prepare();
    let output = prepared.run(&[]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("mkdir() \"/dev/null/folder\" failed ("), "{text}");
}

#[test]
fn the_default_folder_is_made_when_somebody_reads_bodies() {
    let conf = "client_body_early_read 1; client_body_buffer_size 1k;
        server { listen 127.0.0.1:{{PORT}}; location / { return 200 $request_body_file; } }";
    let server = Builder::new(BIN).http(conf).start();
    let path = server.request(early("/", &digits(5000))).text();
    assert!(
        path.starts_with(server.dir().join("client_body_temp/0").to_str().expect("text"))
            || path.contains("/client_body_temp/"),
        "{path}"
    );
    let plain = Builder::new(BIN).http("server { listen 127.0.0.1:{{PORT}}; }").start();
    assert!(!plain.dir().join("client_body_temp").exists());
}

#[test]
fn many_at_once() {
    let server = server();
    let body = digits(30_000);
    let (small, large) = (early("/", &digits(500)), early("/", &body));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut client = server.client();
                for _ in 0..20 {
                    assert!(client.request(&small).text().starts_with("[0123"));
                    assert!(client.request(&large).text().starts_with("[]["));
                }
            });
        }
    });
    let mut client = server.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nEarly: 1\r\nContent-Length: 5\r\n\r\n");
    client.half_close();
    assert!(matches!(client.try_response("POST"), Err(Failure::Closed)));
    assert_eq!(files(&server), Vec::<PathBuf>::new());
}
