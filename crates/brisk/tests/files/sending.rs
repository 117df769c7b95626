//! Whole files and parts of them, byte for byte, also while they change.

use crate::BIN;
use brisk_testkit::calls::Calls;
use brisk_testkit::{Builder, Client, Server, process, wait};
use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::sync::OnceLock;

/// More than the kernel keeps between a server and a client that does not read.
const BIG: usize = 12 << 20;

/// Bytes in which each position can be told from its neighbours.
fn pattern(length: usize) -> Vec<u8> {
    static LONGEST: OnceLock<Vec<u8>> = OnceLock::new();
    let make =
        || (0..BIG as u64 / 8).flat_map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()).collect();
    LONGEST.get_or_init(make)[..length].to_vec()
}

const EDGE: usize = 64 << 10;
/// Larger files than this are not copied behind their head.
const APART: usize = 16 << 10;
const SIZES: [usize; 12] =
    [0, 1, 4095, APART - 1, APART, APART + 1, 70_000, EDGE - 1, EDGE, EDGE + 1, 2 << 20, 3_000_017];

fn server() -> Server {
    let mut builder = Builder::new(BIN).http(
        "server { listen 127.0.0.1:{{PORT}};
            location /sent/ { alias {{DIR}}/html/; sendfile on; }
            location /pushed/ { alias {{DIR}}/html/; sendfile on; tcp_nopush on; sendfile_max_chunk 10k; }
            location /copied/ { alias {{DIR}}/html/; sendfile off; }
            location /slow/ { alias {{DIR}}/html/; limit_rate 50m; }
        }",
    );
    for size in SIZES {
        builder = builder.file(&format!("html/{size}"), pattern(size));
    }
    builder.start()
}

const WAYS: [&str; 4] = ["sent", "pushed", "copied", "slow"];

#[test]
fn every_size_in_every_way() {
    let server = server();
    let mut client = server.client();
    for way in WAYS {
        for size in SIZES {
            let target = format!("/{way}/{size}");
            for _ in 0..3 {
                let response = client.get(&target);
                assert_eq!((response.status, response.body.len()), (200, size), "{target}");
                assert!(response.body == pattern(size), "{target}: other bytes");
            }
            let head = client.request(format!("HEAD {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            assert_eq!(head.header("Content-Length"), Some(&*size.to_string()), "{target}");
        }
    }
}

#[test]
fn every_part_in_every_way() {
    let server = server();
    let mut client = server.client();
    for way in WAYS {
        for size in [APART + 1, EDGE, EDGE + 1, 70_000, 3_000_017] {
            let want = pattern(size);
            for (first, last) in [
                (0, 0),
                (EDGE - 2, EDGE + 1),
                (EDGE - 1, EDGE),
                (size - 1, size),
                (1, size - 2),
                (4095, 4097),
                (0, size - 1),
            ] {
                let range = format!("bytes={first}-{last}");
                let last = last.min(size - 1);
                let request =
                    format!("GET /{way}/{size} HTTP/1.1\r\nHost: localhost\r\nRange: {range}\r\n\r\n");
                let response = client.request(request);
                if first >= size {
                    assert_eq!(response.status, 416, "{way} {size} {range}");
                    continue;
                }
                assert_eq!(response.status, 206, "{way} {size} {range}");
                assert_eq!(response.header("Content-Range"), Some(&*format!("bytes {first}-{last}/{size}")));
                assert!(response.body == want[first..=last], "{way} {size} {range}: other bytes");
            }
        }
    }
}

/// Bodies that stand apart keep their place among answers that are written down together.
#[test]
fn requests_that_come_together_are_answered_in_order() {
    let server = server();
    let sizes = [1, APART, 4095, EDGE, APART + 1, APART - 1, EDGE + 1, 1];
    for way in WAYS {
        // The third time they are prepared answers.
        for _ in 0..3 {
            let mut client = server.client();
            let ask = |size: &usize| format!("GET /{way}/{size} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            client.send(sizes.iter().map(ask).collect::<String>());
            for size in sizes {
                assert!(client.response().body == pattern(size), "{way} {size}: other bytes");
            }
            client.send(format!("{}GET /{way}/{APART} HTTP/1.0\r\n\r\n", ask(&EDGE)));
            assert!(client.response().body == pattern(EDGE), "{way}: other bytes");
            assert!(client.response().body == pattern(APART), "{way}: other bytes before the end");
            client.expect_closed();
        }
    }
}

/// What is in memory and in a file is sent without a copy where the configuration lets the kernel do that.
#[test]
fn the_kernel_sends_what_is_in_memory_and_in_a_file() {
    let server = server();
    let sends = |target: &str| {
        let mut client = server.client();
        // A file is watched from its second request on.
        (0..3).for_each(|_| _ = client.get(target));
        let calls = Calls::of(server.worker());
        (0..100).for_each(|_| _ = client.get(target));
        calls.turns_with("sendfile")
    };
    for size in [APART, EDGE] {
        // In each second the first few are copied.
        let count = sends(&format!("/sent/{size}"));
        assert!(count > 50, "{size}: {count}");
        assert_eq!(sends(&format!("/copied/{size}")), 0, "{size}");
    }
    assert_eq!(sends(&format!("/sent/{}", APART - 1)), 0);
}

/// Clients that read at their own pace do not disturb each other, and get every byte.
#[test]
fn slow_readers_get_every_byte() {
    let server = server();
    let size = 3_000_017;
    let mut clients: Vec<Client> = (0..8).map(|_| Client::connect_narrow(server.port())).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        client.send(format!("GET /{}/{size} HTTP/1.1\r\nHost: localhost\r\n\r\n", WAYS[at % WAYS.len()]));
    }
    let mut bodies = vec![Vec::new(); clients.len()];
    let complete = |bytes: &[u8]| {
        let head = bytes.windows(4).position(|w| w == b"\r\n\r\n");
        head.is_some_and(|head| bytes.len() == head + 4 + size)
    };
    while !bodies.iter().all(|body| complete(body)) {
        for (at, client) in clients.iter_mut().enumerate() {
            if !complete(&bodies[at]) {
                let some = client.some(1000 + 9000 * at).expect("more of the body");
                assert!(!some.is_empty(), "client {at}: ended after {} bytes", bodies[at].len());
                bodies[at].extend(some);
            }
        }
    }
    let want = pattern(size);
    for body in &bodies {
        assert!(body.ends_with(&want), "other bytes");
    }
    for client in &mut clients {
        assert_eq!(client.get("/copied/70000").body.len(), 70_000, "the connection goes on");
    }
}

/// A client that has begun to receive `/WAY/big` and reads no further.
fn begun(server: &Server, way: &str) -> (Client, Vec<u8>) {
    let mut client = Client::connect_narrow(server.port());
    client.send(format!("GET /{way}/big HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let mut got = Vec::new();
    while !got.windows(4).any(|w| w == b"\r\n\r\n") {
        got.extend(client.some(200).expect("a head"));
    }
    (client, got)
}

fn body_of(got: &[u8]) -> &[u8] {
    let head = got.windows(4).position(|w| w == b"\r\n\r\n").expect("a head");
    &got[head + 4..]
}

#[test]
fn a_file_that_shrinks_while_it_is_sent_ends_its_connection() {
    let server = Builder::new(BIN)
        .http(
            "server { listen 127.0.0.1:{{PORT}};
                location /sent/ { alias {{DIR}}/html/; sendfile on; }
                location /copied/ { alias {{DIR}}/html/; sendfile off; }
            }",
        )
        .file("html/other", pattern(70_000))
        .allow_alerts("was truncated while it was sent")
        .start();
    let worker = server.worker();
    let path = server.dir().join("html/big");
    let mut others: Vec<Client> = (0..2).map(|_| server.client()).collect();
    for way in ["sent", "copied"] {
        for length in [0, 1 << 20] {
            fs::write(&path, pattern(BIG)).expect("our own file");
            let (mut client, mut got) = begun(&server, way);
            File::options().write(true).open(&path).and_then(|f| f.set_len(length)).expect("our own file");
            got.extend(client.rest().unwrap_or_default());
            let body = body_of(&got);
            assert!(body.len() < BIG, "{way}: all of it was sent");
            // What sendfile has handed over are the file's own pages: the kernel clears them when the file is cut.
            let whole = pattern(BIG);
            let is_right =
                body.iter().zip(&whole).all(|(have, want)| have == want || (*have == 0 && way == "sent"));
            assert!(is_right, "{way}: other bytes");
            for other in &mut others {
                assert!(other.get(&format!("/{way}/other")).body == pattern(70_000));
                assert_eq!(other.get(&format!("/{way}/big")).body.len() as u64, length, "{way}");
            }
        }
    }
    let lines =
        || server.error_log().lines().filter(|l| l.contains("was truncated while it was sent")).count();
    wait::holds("a line for each", || lines() == 4);
    assert_eq!(server.worker(), worker, "the worker lives");
}

/// The length was told: what is added later is for the next request.
#[test]
fn a_file_that_grows_while_it_is_sent() {
    let server = server();
    let path = server.dir().join("html/big");
    for way in ["sent", "copied"] {
        fs::write(&path, pattern(BIG)).expect("our own file");
        let (mut client, mut got) = begun(&server, way);
        let mut file = File::options().write(true).open(&path).expect("our own file");
        file.seek(SeekFrom::End(0)).and_then(|_| file.write_all(b"more")).expect("our own file");
        while body_of(&got).len() < BIG {
            got.extend(client.some(1 << 20).expect("more of the body"));
        }
        assert!(body_of(&got) == pattern(BIG), "{way}: other bytes");
        let tail =
            client.request(format!("GET /{way}/big HTTP/1.1\r\nHost: localhost\r\nRange: bytes=-4\r\n\r\n"));
        assert_eq!(tail.text(), "more", "{way}");
    }
}

/// Whoever has begun gets the file that it was; the next request gets what is there now.
#[test]
fn a_file_that_is_deleted_or_replaced_while_it_is_sent() {
    let server = server();
    let path = server.dir().join("html/big");
    for way in ["sent", "copied"] {
        for replace in [false, true] {
            fs::write(&path, pattern(BIG)).expect("our own file");
            let (mut client, mut got) = begun(&server, way);
            if replace {
                fs::rename(server.write("html/new", "new"), &path).expect("our own file");
            } else {
                fs::remove_file(&path).expect("our own file");
            }
            let next = server.get(&format!("/{way}/big"));
            assert_eq!(next.status, if replace { 200 } else { 404 }, "{way}");
            while body_of(&got).len() < BIG {
                got.extend(client.some(1 << 20).expect("more of the body"));
            }
            assert!(body_of(&got) == pattern(BIG), "{way}: other bytes");
            assert_eq!(client.get(&format!("/{way}/big")).status, next.status, "{way}");
        }
    }
}

/// Descriptors of files that are gone are given back: a disk must not fill with deleted files.
#[test]
fn descriptors_of_changed_files_are_closed() {
    let server = server();
    let worker = server.worker();
    let path = server.dir().join("html/changing");
    let mut client = server.client();
    for round in 0..300 {
        fs::write(server.dir().join("html/next"), pattern(EDGE + 1 + round)).expect("our own file");
        fs::rename(server.dir().join("html/next"), &path).expect("our own file");
        assert_eq!(client.get("/sent/changing").body.len(), EDGE + 1 + round);
        assert_eq!(client.get("/sent/changing").body.len(), EDGE + 1 + round);
    }
    wait::holds("descriptors are closed", || process::descriptors(worker) < 100);
}
