//! Floods over real sockets: the others are served, and memory stays where it is. `BRISK_FLOOD_SECONDS` makes them longer; what is
//! printed are figures, since times depend on the machine.

use super::{CONTROL, site};
use brisk_testkit::quic::{Dir, ReadError, Visitor};
use brisk_testkit::{H3Client, Server, process};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Handshakes that are begun, over and over, from as many addresses.
const HELLOS: usize = 400;
const DATAGRAMS_PER_SECOND: u64 = 50_000;
/// What the server may hold more than before.
const MEMORY_KIB_MAX: u64 = 48 * 1024;

fn time() -> Duration {
    let given = std::env::var("BRISK_FLOOD_SECONDS").ok().and_then(|text| text.parse().ok());
    given.map_or(Duration::from_millis(700), Duration::from_secs)
}

/// The first datagrams of handshakes that nobody goes on with.
fn hellos(visitor: &Visitor, address: SocketAddr) -> Vec<Vec<u8>> {
    let first = |_| {
        let mut client = visitor.begin(address, "a.test");
        let mut bytes = Vec::new();
        let sent = client.conn.poll_transmit(Instant::now(), 1, &mut bytes).expect("a ClientHello");
        bytes.truncate(sent.size);
        bytes
    };
    (0..HELLOS).map(first).collect()
}

/// How long requests of somebody else take, one after the other, for a while.
fn others(client: &mut H3Client, time: Duration) -> Vec<Duration> {
    let begun = Instant::now();
    let mut all = Vec::new();
    while begun.elapsed() < time {
        let asked = Instant::now();
        assert_eq!(client.get("/").text(), "ok");
        all.push(asked.elapsed());
    }
    all.sort();
    all
}

fn p99(sorted: &[Duration]) -> Duration {
    sorted[sorted.len() * 99 / 100]
}

/// Runs a flood beside somebody who is served; `send` sends once and gives how many datagrams that were.
fn beside(what: &str, server: &Server, client: &mut H3Client, send: impl FnMut() -> u64 + Send) {
    let before = others(client, time());
    let memory = process::rss_kib(server.worker());
    let (is_over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = Instant::now();
    let during = std::thread::scope(|scope| {
        let (is_over, sent, mut send) = (&is_over, &sent, send);
        scope.spawn(move || {
            // As many as are due in the time, however long the others take: a slow build must come to its end, too.
            let most = DATAGRAMS_PER_SECOND * time().as_millis() as u64 / 1000;
            while !is_over.load(Ordering::Relaxed) && sent.load(Ordering::Relaxed) < most {
                // In time, as far as the machine goes along.
                let due = begun.elapsed().as_micros() as u64 * DATAGRAMS_PER_SECOND / 1_000_000;
                if sent.load(Ordering::Relaxed) < due {
                    sent.fetch_add(send(), Ordering::Relaxed);
                } else {
                    std::thread::yield_now();
                }
            }
        });
        let during = others(client, time());
        is_over.store(true, Ordering::Relaxed);
        during
    });
    let rate = sent.into_inner() as f64 / begun.elapsed().as_secs_f64();
    let more = process::rss_kib(server.worker()).saturating_sub(memory);
    println!(
        "{what}: {rate:.0} datagrams/s; others' p99 {:?} before, {:?} during ({} and {} requests); {more} KiB more",
        p99(&before),
        p99(&during),
        before.len(),
        during.len()
    );
    assert!(more < MEMORY_KIB_MAX, "{more} KiB");
    assert_eq!(client.quic.end(), None);
}

fn sockets() -> Vec<UdpSocket> {
    (1..=32)
        .map(|at| UdpSocket::bind(SocketAddr::from(([127, 0, 2, at], 0))).expect("a port is free"))
        .collect()
}

#[test]
fn handshakes_that_nobody_goes_on_with() {
    let (server, visitor, address) = site();
    let mut client = H3Client::connect(&visitor, address, "a.test");
    let (hellos, sockets) = (hellos(&visitor, address), sockets());
    let mut at = 0;
    beside("Initial packets", &server, &mut client, || {
        for _ in 0..16 {
            at += 1;
            // A full buffer loses what does not fit, as a network does.
            let _ = sockets[at % sockets.len()].send_to(&hellos[at % hellos.len()], address);
        }
        16
    });
}

#[test]
fn garbage_of_all_sizes() {
    let (server, visitor, address) = site();
    let mut client = H3Client::connect(&visitor, address, "a.test");
    let (sockets, mut at) = (sockets(), 0u32);
    beside("garbage", &server, &mut client, || {
        for _ in 0..16 {
            at = at.wrapping_mul(1_103_515_245).wrapping_add(12345);
            let bytes = vec![(at >> 16) as u8; (at >> 8) as usize % 1400];
            let _ = sockets[at as usize % sockets.len()].send_to(&bytes, address);
        }
        16
    });
}

/// An entry of the table that stands in a head ten thousand times: 10 KB that would be 39 MB.
#[test]
fn heads_that_are_large_when_they_are_unpacked() {
    let (server, visitor, address) = site();
    let memory = process::rss_kib(server.worker());
    for _ in 0..10 {
        let mut client = visitor.connect(address, "a.test");
        let control = client.conn.streams().open(Dir::Uni).unwrap();
        client.write(control, CONTROL);
        let encoder = client.conn.streams().open(Dir::Uni).unwrap();
        // Set Dynamic Table Capacity 4096; Insert with Literal Name: "x" and 3,900 bytes.
        client.write(encoder, b"\x02\x3f\xe1\x1f\x41x\x7f\xbd\x1d");
        client.write(encoder, &[b'y'; 3900]);
        let mut section = b"\x02\x00\xd1\xd7\xc1\x50\x06a.test".to_vec();
        section.extend_from_slice(&[0x80; 10_000]);
        let stream = client.conn.streams().open(Dir::Bi).unwrap();
        let length = (section.len() as u16 | 0x4000).to_be_bytes();
        client.write(stream, &[&[1][..], &length, &section].concat());
        let _ = client.conn.send_stream(stream).finish();
        client.wait("refusal", |client| {
            let is_answered = client
                .conn
                .recv_stream(stream)
                .read(true)
                .is_ok_and(|mut chunks| !matches!(chunks.next(usize::MAX), Err(ReadError::Blocked)));
            is_answered || client.end().is_some()
        });
    }
    let more = process::rss_kib(server.worker()).saturating_sub(memory);
    println!("heads of 39 MB: {more} KiB more");
    assert!(more < 16 * 1024, "{more} KiB");
    assert_eq!(H3Client::connect(&visitor, address, "a.test").get("/").text(), "ok");
}
