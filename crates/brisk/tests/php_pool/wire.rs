//! The pool's socket, as the server uses it: requests that come in parts, or whose client has gone.

use crate::bad::socket;
use crate::site::Site;
use brisk_testkit::{process, wait};
use rustix::process::Signal;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

/// Kinds of records.
const BEGIN: u8 = 1;
const END: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;

/// How a request ends.
const COMPLETE: u8 = 0;
const OVERLOADED: u8 = 2;

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[1, kind, 0, 1, high, low, 0, 0], content].concat()
}

/// The beginning of a request, up to its body.
fn head(site: &Site, script: &str, length: usize) -> Vec<u8> {
    let path = site.server.dir().join("html").join(script).display().to_string();
    let method = if length > 0 { "POST" } else { "GET" };
    let length = length.to_string();
    let params = [
        ("SCRIPT_FILENAME", &*path),
        ("REQUEST_METHOD", method),
        ("CONTENT_LENGTH", &length),
        ("CONTENT_TYPE", "text/plain"),
    ];
    let long = |text: &str| (u32::try_from(text.len()).unwrap() | 1 << 31).to_be_bytes();
    let pairs = params
        .map(|(name, value)| [&long(name)[..], &long(value), name.as_bytes(), value.as_bytes()].concat());
    // Role 1, and the connection is to be kept.
    [record(BEGIN, &[0, 1, 1, 0, 0, 0, 0, 0]), record(PARAMS, &pairs.concat()), record(PARAMS, b"")].concat()
}

fn body(content: &[u8]) -> Vec<u8> {
    let records: Vec<Vec<u8>> = content.chunks(30_000).map(|part| record(STDIN, part)).collect();
    [records.concat(), record(STDIN, b"")].concat()
}

fn connect(site: &Site) -> UnixStream {
    UnixStream::connect(socket(site, ".sock")).unwrap()
}

/// What stands behind the head of the answer, and how the request has ended.
fn answer(stream: &mut UnixStream) -> (String, u8) {
    let mut out = Vec::new();
    loop {
        let mut head = [0; 8];
        stream.read_exact(&mut head).expect("a record");
        let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
        let mut content = vec![0; length + usize::from(head[6])];
        stream.read_exact(&mut content).expect("its content");
        match head[1] {
            STDOUT => out.extend_from_slice(&content[..length]),
            END => {
                let text = String::from_utf8(out).unwrap();
                return (
                    text.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.into()),
                    content[4],
                );
            }
            _ => {}
        }
    }
}

/// What it is sent meanwhile, and that it is to end, it finds all at once.
fn drained_with(worker: u32, stream: &mut UnixStream, bytes: &[u8]) {
    process::signal(worker, Signal::STOP);
    wait::holds("a stop", || {
        let stat = std::fs::read_to_string(format!("/proc/{worker}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    });
    stream.write_all(bytes).unwrap();
    process::signal(worker, Signal::QUIT);
    process::signal(worker, Signal::CONT);
}

#[test]
fn a_worker_that_is_to_end_runs_no_script_with_a_part_of_a_body() {
    let site = Site::new("pm static; max_children 1;", "");
    let notes = site.notes().join("ran");
    let path = notes.display();
    site.script(
        "up.php",
        &format!("<?php $have = strlen(file_get_contents('php://input')); file_put_contents('{path}', \"$have \", FILE_APPEND); echo $have;"),
    );
    let whole = vec![b'x'; 100_000];
    let part = [head(&site, "up.php", 10), record(STDIN, b"xxxx")].concat();
    let no_end = [head(&site, "up.php", 4), record(STDIN, b"xxxx")].concat();
    let all = [head(&site, "up.php", whole.len()), body(&whole)].concat();
    let refused = (String::new(), OVERLOADED);
    for (bytes, want) in [(part, refused.clone()), (no_end, refused), (all, ("100000".to_string(), COMPLETE))]
    {
        let mut stream = connect(&site);
        stream.write_all(&[head(&site, "up.php", 3), body(b"abc")].concat()).unwrap();
        assert_eq!(answer(&mut stream), ("3".into(), COMPLETE));
        let worker = site.wait_for_workers(1)[0];
        drained_with(worker, &mut stream, &bytes);
        assert_eq!(answer(&mut stream), want);
        process::wait_gone(worker);
    }
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "3 3 3 100000 ");
    // The first request of a connection, of which the worker has read the beginning.
    let mut stream = connect(&site);
    let whole = [head(&site, "up.php", 3), body(b"abc")].concat();
    stream.write_all(&whole[..16]).unwrap();
    wait::holds("a worker that reads", || status(&site)["processes"][0]["state"] == "Reading headers");
    drained_with(site.wait_for_workers(1)[0], &mut stream, &whole[16..]);
    assert_eq!(answer(&mut stream), ("3".into(), COMPLETE));
}

fn status(site: &Site) -> serde_json::Value {
    let status = site.php(&["status", "www", "--json"]);
    let mut status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    status["www"].take()
}

#[test]
fn requests_that_were_given_up_in_the_socket_never_reach_php() {
    let site = Site::new("pm static; max_children 1;", "");
    let notes = site.notes().display().to_string();
    site.script(
        "gate.php",
        &format!("<?php touch('{notes}/begun'); while (!file_exists('{notes}/go')) {{ usleep(1000); clearstatcache(); }} echo 'done';"),
    );
    site.script("note.php", &format!("<?php touch('{notes}/ran'); echo 'noted';"));
    site.script("last.php", "<?php echo 'last';");
    let mut first = connect(&site);
    first.write_all(&[head(&site, "gate.php", 0), body(b"")].concat()).unwrap();
    wait::holds("the first request in PHP", || site.notes().join("begun").exists());
    // Behind it: one without a body, and one with.
    for content in [&b""[..], b"abc"] {
        let mut gone = connect(&site);
        gone.write_all(&[head(&site, "note.php", content.len()), body(content)].concat()).unwrap();
    }
    let mut last = connect(&site);
    last.write_all(&[head(&site, "last.php", 0), body(b"")].concat()).unwrap();
    std::fs::write(site.notes().join("go"), "").unwrap();
    assert_eq!(answer(&mut first), ("done".into(), COMPLETE));
    drop(first);
    assert_eq!(answer(&mut last), ("last".into(), COMPLETE));
    assert!(!site.notes().join("ran").exists());
    assert_eq!(status(&site)["gone clients"], 2);
}
