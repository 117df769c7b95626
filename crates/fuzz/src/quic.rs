//! Connections of QUIC with a client that says anything: the client and the certificates of `quic`'s own tests.

#[path = "../../quic/tests/hostile/mod.rs"]
mod hostile;
#[path = "../../quic/tests/pair/mod.rs"]
mod pair;

use brisk_quic::limits::{CONNECTION_BYTES, RECEIVE_WINDOW_BYTES_MAX, SEND_WINDOW_BYTES_MAX, STREAM_BYTES};
use brisk_quic::{Dir, Endpoint, Place, Read, Settings};
use brisk_tls::ServerContext;
use hostile::{Hostile, Space};
use pair::{Hosts, Rule};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// Longer than any time-out of the server's.
const LONG: Duration = Duration::from_secs(200);
/// What a client's reassembly may cost beside the bytes of its windows: pieces have entries, which the library merges when they
/// are more than it likes.
const PIECES_BYTES_MAX: u64 = 4 << 20;

fn client(change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Hostile {
    static CONTEXT: OnceLock<(ServerContext, Vec<u8>)> = OnceLock::new();
    let (context, certificate) = CONTEXT.get_or_init(|| pair::context("a.test", false));
    let rules = Mutex::new(vec![("a.test", Rule::Begin(context.clone()))]);
    let hosts = Arc::new(Hosts { rules, asked: Mutex::default() });
    let place = Place { thread: 0, threads: 1, generation: 0 };
    let mut server = Endpoint::new(place, pair::keys(), hosts);
    server.listen(pair::SOCKET, Settings::default());
    Hostile::new(server, certificate, "a.test", change)
}

/// What holds at any time.
fn check(client: &mut Hostile) {
    assert_eq!(client.server.counters().panics, 0);
    for key in client.server.keys() {
        let Some(connection) = client.server.connection(key) else { continue };
        let bound = CONNECTION_BYTES
            + 256 * STREAM_BYTES
            + u64::from(RECEIVE_WINDOW_BYTES_MAX)
            + SEND_WINDOW_BYTES_MAX
            + PIECES_BYTES_MAX;
        assert!(connection.held_bytes() <= bound, "{} bytes", connection.held_bytes());
        if !connection.is_validated() {
            assert!(client.received <= 3 * client.sent, "{} of {}", client.received, client.sent);
        }
    }
}

/// In the end nothing is left.
fn end(client: &mut Hostile) {
    client.pass(LONG);
    check(client);
    assert_eq!(client.server.connections(), 0);
}

/// Any transport parameters (RFC 9000 §18): they cost one handshake at most.
pub fn fuzz_parameters(data: &[u8]) {
    let mut client = client(|_| data.to_vec());
    client.shake();
    check(&mut client);
    end(&mut client);
}

/// Any frames, in packets of any kind, after a handshake: pieces of input, each with a byte for what it is and its length in front. What
/// a server does meanwhile, a server does here: streams are read, answered, stopped.
pub fn fuzz_connection(data: &[u8]) {
    let mut client = client(|usual| usual);
    assert!(client.shake(), "{:?}", client.seen);
    let mut rest = data;
    while let Some((&[what, len], tail)) = rest.split_first_chunk::<2>() {
        let (piece, tail) = tail.split_at(tail.len().min(usize::from(len)));
        rest = tail;
        match what % 8 {
            0 => client.frames(Space::Initial, piece),
            1 => client.frames(Space::Handshake, piece),
            2 => client.pass(Duration::from_millis(piece.len() as u64 * 10)),
            3 => client.give(piece),
            4 => client.from.set_port(5555 + u16::from(what / 8)),
            _ => client.frames(Space::Data, piece),
        }
        serve(&mut client, what);
        client.take();
        check(&mut client);
    }
    end(&mut client);
}

/// What an application may do with its streams.
fn serve(client: &mut Hostile, what: u8) {
    for key in client.server.keys() {
        let Some(connection) = client.server.connection(key) else { continue };
        for dir in [Dir::Uni, Dir::Bi] {
            while let Some(stream) = connection.accept(dir) {
                match what / 8 % 4 {
                    0 => connection.stop(stream, 1),
                    1 => connection.reset(stream, 2),
                    2 => drop(connection.write(stream, b"an answer")),
                    _ => drop(connection.finish(stream)),
                }
            }
        }
        let mut read = Vec::new();
        for stream in 0..16 {
            let before = read.len();
            match connection.read(stream, 100, &mut read) {
                Read::Some(count) | Read::End(count) => assert_eq!(read.len(), before + count),
                Read::Blocked | Read::Reset(_) | Read::Gone => assert_eq!(read.len(), before),
            }
        }
    }
}
