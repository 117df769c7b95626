//! Writers and readers at the same time: a reader never sees a version that is older than the last one whose write had
//! returned before its request was sent.

use crate::BIN;
use crate::coherence::{CONF, LARGE, SMALL, put, replace, retarget, version};
use brisk_testkit::{Builder, Server};
use std::fs::{self, File};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const VERSIONS: u64 = 600;
const READERS: usize = 4;

/// One writer, several readers on kept connections; `write` makes a version, `read` tells which one a body is.
fn race(server: &Server, target: &str, write: impl Fn(u64) + Sync, read: impl Fn(u16, &[u8]) -> u64 + Sync) {
    write(0);
    let (done, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    let reads = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                let mut client = server.client();
                let mut last = 0;
                while !ended.load(Ordering::SeqCst) {
                    let before = done.load(Ordering::SeqCst);
                    let response = client.get(target);
                    let seen = read(response.status, &response.body);
                    assert!(seen >= before, "{target}: version {seen}, though {before} was complete before");
                    assert!(seen >= last, "{target}: version {seen} after {last}");
                    last = seen;
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // If a reader fails, the others need not wait for long: the writer's work is bounded.
        for number in 1..=VERSIONS {
            write(number);
            done.store(number, Ordering::SeqCst);
            if number.is_multiple_of(4) {
                // Lets readers see the same version several times, from the cache.
                let goal = reads.load(Ordering::Relaxed) + READERS as u64;
                for _ in 0..10_000 {
                    if reads.load(Ordering::Relaxed) >= goal {
                        break;
                    }
                    thread::yield_now();
                }
            }
        }
        ended.store(true, Ordering::SeqCst);
    });
    assert!(reads.into_inner() > 0);
}

fn start() -> Server {
    Builder::new(BIN).http(CONF).file("html/fallback.txt", "fallback").start()
}

/// The version that a whole body tells of itself.
fn number(size: usize) -> impl Fn(u16, &[u8]) -> u64 {
    move |status, body| {
        assert_eq!((status, body.len()), (200, size));
        let text = std::str::from_utf8(&body[..8]).expect("digits");
        let number = text.parse().expect("digits");
        assert!(version(number, size) == body, "a mixture of versions");
        u64::from(number)
    }
}

#[test]
fn replacing() {
    let server = start();
    for size in [SMALL, LARGE] {
        let path = server.write(&format!("html/replaced{size}"), "");
        race(&server, &format!("/replaced{size}"), |n| replace(&path, version(n as u32, size)), number(size));
    }
}

/// The length is the version; it grows over the size up to which contents are kept in memory.
#[test]
fn appending() {
    let server = start();
    let start = (64 << 10) - VERSIONS as usize / 2;
    let path = server.write("html/log", "");
    let write = |n: u64| {
        if n == 0 {
            put(&path, vec![b'x'; start]);
        } else {
            File::options()
                .append(true)
                .open(&path)
                .and_then(|mut f| f.write_all(b"x"))
                .expect("our own file");
        }
    };
    race(&server, "/log", write, |status, body| {
        assert_eq!(status, 200);
        (body.len() - start) as u64
    });
}

#[test]
fn retargeting() {
    let server = start();
    let releases = server.dir().join("releases");
    let write = |n: u64| {
        let release = releases.join(n.to_string());
        fs::create_dir_all(&release).expect("our own folder");
        put(&release.join("file"), version(n as u32, SMALL));
        retarget(&server.dir().join("html/current"), release);
        if n > 2 {
            // What a request in flight resolved before may be gone by now, so the old ones stay for a while.
            let _ = fs::remove_dir_all(releases.join((n - 3).to_string()));
        }
    };
    race(&server, "/current/file", write, number(SMALL));
}

/// An index file beside another that is preferred: odd versions in one, even in the other.
#[test]
fn indexing() {
    let server = start();
    let folder = server.dir().join("html/indexes");
    fs::create_dir(&folder).expect("our own folder");
    let write = |n: u64| {
        if n.is_multiple_of(2) {
            replace(&folder.join("index.htm"), version(n as u32, SMALL));
            let _ = fs::remove_file(folder.join("index.html"));
        } else {
            replace(&folder.join("index.html"), version(n as u32, SMALL));
        }
    };
    write(0);
    let seen = |status: u16, body: &[u8]| {
        // The file may go between being found and being opened.
        if status == 404 { u64::MAX } else { number(SMALL)(status, body) }
    };
    let done = AtomicU64::new(0);
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                let mut client = server.client();
                while !ended.load(Ordering::SeqCst) {
                    let before = done.load(Ordering::SeqCst);
                    let response = client.get("/indexes/");
                    let seen = seen(response.status, &response.body);
                    assert!(seen >= before, "version {seen}, though {before} was complete before");
                }
            });
        }
        for number in 1..=VERSIONS {
            write(number);
            done.store(number, Ordering::SeqCst);
            thread::yield_now();
        }
        ended.store(true, Ordering::SeqCst);
    });
}
