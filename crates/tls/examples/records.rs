//! What sealing an answer costs with records of our own and with the library's:
//! `cargo run --release -p brisk-tls --example records`.
//!
//! The first answer of a connection, which pays for the change of hands, and one after it. TLS 1.3, AES-128-GCM.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use brisk_tls::issue::{Issued, Wish};
use brisk_tls::{
    Certified, ClientContext, ClientOptions, Fixed, Offered, PrivateKey, Sealing, ServerContext,
    ServerOptions, Session,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROUNDS: usize = 200;

fn context(sealing: Sealing) -> ServerContext {
    let wish =
        Wish { common_name: "a", names: &["a"], authority: false, not_before: 0, not_after: 4_000_000_000 };
    let issued = Issued::new(&wish, None).expect("there is randomness");
    let key = PrivateKey::from_pem(issued.key_pem().as_bytes(), &[]).expect("a key");
    let certified = Certified::new(vec![issued.certificate], &key, None).expect("a pair");
    let options = ServerOptions { sealing, ..ServerOptions::default() };
    ServerContext::new(&options, Arc::new(Fixed([certified].into()))).expect("a context")
}

fn turn(session: &mut Session, mut bytes: Vec<u8>) -> Vec<u8> {
    let mut out = Vec::new();
    session.receive(&mut bytes, &mut |_| (), &mut out).expect("a handshake");
    out
}

fn established(server: &ServerContext, client: &ClientContext) -> Session {
    let mut client = client.session("a", true).expect("a session");
    let mut server = server.session(Offered::default()).expect("a session");
    let mut bytes = Vec::new();
    while !server.is_established() {
        bytes = turn(&mut client, bytes);
        bytes = turn(&mut server, bytes);
    }
    server
}

/// The median of the times that the first and the second answer of a connection take.
fn times(server: &ServerContext, client: &ClientContext, plain: &[u8]) -> [Duration; 2] {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        let mut session = established(server, client);
        let mut out = Vec::with_capacity(plain.len() * 2);
        for times in &mut times {
            let start = Instant::now();
            session.seal(plain, &mut out).expect("room");
            times.push(start.elapsed());
            out.clear();
        }
    }
    times.map(|mut times| {
        times.sort_unstable();
        times[ROUNDS / 2]
    })
}

fn main() {
    let client = ClientOptions { no_resumption: true, ..ClientOptions::unverified() };
    let client = ClientContext::new(&client).expect("a context");
    let (own, library) = (context(Sealing::Own), context(Sealing::Library));
    println!("bytes: own first, library first; own next, library next (µs)");
    for len in [8 << 10, 16 << 10, 32 << 10, 64 << 10, 256 << 10, 1 << 20] {
        let plain = vec![7; len];
        let ([first, next], [first_library, next_library]) =
            (times(&own, &client, &plain), times(&library, &client, &plain));
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        println!(
            "{len}: {:.1}, {:.1}; {:.1}, {:.1}",
            micros(first),
            micros(first_library),
            micros(next),
            micros(next_library)
        );
    }
}
