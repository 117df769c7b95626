//! Static files: what is sent of which file, and that it is always the file as it is now.
//!
//! `files/*.txt` are cases for `files/http.conf`; `files/*.rs` are the tests that need more than a request.

#[path = "files/coherence.rs"]
mod coherence;
#[path = "files/concurrent.rs"]
mod concurrent;
#[path = "files/refused.rs"]
mod refused;
#[path = "files/sending.rs"]
mod sending;
#[path = "files/unreported.rs"]
mod unreported;
#[path = "files/unwatched.rs"]
mod unwatched;

use brisk_testkit::process::is_root;
use brisk_testkit::versions::everywhere;
use brisk_testkit::{Builder, Response, Server, scenario};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// Sun, 06 Nov 1994 08:49:37 GMT: the example of RFC 9110 §5.6.7.
const EXAMPLE_TIME: u64 = 784_111_777;

fn set_time(path: &Path, secs: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(secs);
    File::options().write(true).open(path).and_then(|f| f.set_modified(time)).expect("our own file");
}

fn site() -> Server {
    start(files())
}

/// `files/http.conf` with the files that its cases speak of.
fn files() -> Builder {
    Builder::new(BIN)
        .http(include_str!("files/http.conf"))
        .file("html/ten.txt", "0123456789")
        .file("html/empty.txt", "")
        .file("html/several/both/first.html", "first")
        .file("html/several/both/second.html", "second")
        .file("html/several/second/second.html", "second")
        .file("html/several/none/other.html", "other")
        .file("html/missing-index/other.html", "other")
        .file("html/absolute/other.html", "other")
        .file("html/pub/file.txt", "public")
        .file("html/pub/index.html", "public index")
        .file("html/with space?/a b.txt", "space")
        .file("html/ü.txt", "umlaut")
        .file("html/100%.txt", "percent")
        .file("html/what?.txt", "question")
        .file("html/a+b.txt", "plus")
        .file("html/tries/plain", "plain")
        .file("html/tries/named.txt", "named with ending")
        .file("html/tries/folder/index.html", "folder index")
        .file("html/listed/a b?.txt", "")
        .file("html/listed/<x>", "")
        .file("html/listed/.hidden", "")
        .file("html/listed/json/x.txt", "x")
        .file("html/links/real.txt", "linked")
        .file("html/elsewhere/file.txt", "inside")
}

fn start(builder: Builder) -> Server {
    let prepared = builder.prepare();
    let html = prepared.dir().join("html");
    set_time(&html.join("ten.txt"), EXAMPLE_TIME);
    for (name, target) in
        [("to-file", "real.txt"), ("broken", "none"), ("loop", "loop"), ("directory", "../elsewhere")]
    {
        symlink(target, html.join("links").join(name)).expect("a link in our own folder");
    }
    prepared.start()
}

#[test]
fn ranges() {
    scenario::run(&site(), include_str!("files/ranges.txt"));
}

#[test]
fn conditions() {
    scenario::run(&site(), include_str!("files/conditions.txt"));
}

#[test]
fn mapping() {
    let server = site();
    // The second time everything is answered from memory.
    scenario::run(&server, include_str!("files/mapping.txt"));
    scenario::run(&server, include_str!("files/mapping.txt"));
    let listing = server.get("/listed/").text();
    assert!(!listing.contains("hidden"), "{listing}");
}

#[test]
fn files_over_other_versions() {
    let (builder, versions) = everywhere(files());
    let server = start(builder);
    // The second time everything is answered from memory.
    for _ in 0..2 {
        assert!(scenario::run_over(&server, include_str!("files/mapping.txt"), &versions) > 40);
        assert!(scenario::run_over(&server, include_str!("files/ranges.txt"), &versions) > 20);
        assert!(scenario::run_over(&server, include_str!("files/conditions.txt"), &versions) > 20);
    }
}

/// A link of another owner than its target is refused by `if_not_owner`, and taken again when the owners agree.
#[test]
fn links_of_another_owner() {
    assert!(is_root(), "only root can give files away: run the tests as root");
    let server = site();
    let links = server.dir().join("html/links");
    let mut client = server.client();
    for _ in 0..20 {
        assert_eq!(client.get("/links/owner/to-file").status, 200);
        std::os::unix::fs::lchown(links.join("to-file"), Some(12_345), None).expect("root may");
        assert_eq!(client.get("/links/owner/to-file").status, 403);
        std::os::unix::fs::chown(links.join("real.txt"), Some(12_345), None).expect("root may");
        assert_eq!(client.get("/links/owner/to-file").status, 200);
        std::os::unix::fs::lchown(links.join("to-file"), Some(0), None).expect("root may");
        assert_eq!(client.get("/links/owner/to-file").status, 403);
        std::os::unix::fs::chown(links.join("real.txt"), Some(0), None).expect("root may");
    }
}

/// The parts of a `multipart/byteranges` body (RFC 9110 §14.6): content range and bytes of each.
fn parts(response: &Response) -> Vec<(String, Vec<u8>)> {
    let media = response.header("Content-Type").expect("a media type");
    let boundary = media.strip_prefix("multipart/byteranges; boundary=").unwrap_or_else(|| panic!("{media}"));
    let mut rest = &response.body[..];
    let mut skip = |text: &str| {
        let found = rest.strip_prefix(text.as_bytes());
        rest = found.unwrap_or_else(|| panic!("no {text:?} in {:?}", String::from_utf8_lossy(rest)));
        rest
    };
    let mut out = Vec::new();
    loop {
        skip(&format!("\r\n--{boundary}"));
        if skip("").starts_with(b"--") {
            assert_eq!(skip("--"), b"\r\n");
            return out;
        }
        let after = skip("\r\nContent-Type: text/plain\r\nContent-Range: bytes ");
        let end = after.windows(4).position(|w| w == b"\r\n\r\n").expect("the end of a part's head");
        let range = String::from_utf8_lossy(&after[..end]).into_owned();
        let (first, last) = range.split('/').next().and_then(|r| r.split_once('-')).expect("two positions");
        let length = last.parse::<usize>().expect("a number") + 1 - first.parse::<usize>().expect("a number");
        let body = &skip(&format!("{range}\r\n\r\n"))[..length];
        out.push((range, body.to_vec()));
        skip(&String::from_utf8_lossy(body));
    }
}

#[test]
fn several_ranges() {
    let server = site();
    let mut client = server.client();
    let mut check = |ranges: &str, want: &[(&str, &str)]| {
        let request = format!("GET /ten.txt HTTP/1.1\r\nHost: localhost\r\nRange: bytes={ranges}\r\n\r\n");
        let response = client.request(request);
        assert_eq!(response.status, 206, "{ranges}");
        assert!(response.header("Content-Range").is_none(), "{ranges}: {}", response.head);
        let want: Vec<_> =
            want.iter().map(|(range, text)| (range.to_string(), text.as_bytes().to_vec())).collect();
        assert_eq!(parts(&response), want, "{ranges}");
    };
    check("0-0,2-3", &[("0-0/10", "0"), ("2-3/10", "23")]);
    // In the order that was asked for.
    check("5-5, -2 ,0-1", &[("5-5/10", "5"), ("8-9/10", "89"), ("0-1/10", "01")]);
    check("0-2,1-3", &[("0-2/10", "012"), ("1-3/10", "123")]);
    check("0-1,70-,4-5", &[("0-1/10", "01"), ("4-5/10", "45")]);
    check("9-,0-0", &[("9-9/10", "9"), ("0-0/10", "0")]);
}

/// What is not there, as the browser's cache sees it: a tag that changes with the file.
#[test]
fn validators_follow_the_file() {
    let server = site();
    let path = server.dir().join("html/ten.txt");
    let mut client = server.client();
    let first = client.get("/ten.txt").header("ETag").expect("a tag").to_string();
    for step in 1..20 {
        set_time(&path, EXAMPLE_TIME + step);
        let request = format!("GET /ten.txt HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: {first}\r\n\r\n");
        let changed = client.request(&request);
        assert_eq!(changed.status, 200);
        assert_eq!(changed.header("ETag"), Some(&*format!("\"{:x}-a\"", EXAMPLE_TIME + step)));
        assert_eq!(client.get("/ten.txt").header("ETag"), changed.header("ETag"));
        set_time(&path, EXAMPLE_TIME);
        assert_eq!(client.request(&request).status, 304);
    }
    fs::remove_file(&path).expect("our own file");
    assert_eq!(client.get("/ten.txt").status, 404);
}
