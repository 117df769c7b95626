//! How long one check of a chain takes: `cargo run --release -p brisk-tls --example verify`.
//!
//! A leaf and an intermediate certificate of P-256 keys, with one trusted certificate and with those of the machine besides.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use brisk_tls::issue::{Issued, Wish};
use brisk_tls::{Purpose, Trust};
use std::time::Instant;

const NOW: i64 = 1_800_000_000;
const ROUNDS: u32 = 2000;

fn main() {
    let make = |common_name, authority, by: Option<&Issued>| {
        let wish = Wish { common_name, authority, not_before: NOW - 1000, not_after: NOW + 1000, names: &[] };
        Issued::new(&wish, by).expect("there is randomness")
    };
    let root = make("root", true, None);
    let middle = make("middle", true, Some(&root));
    let leaf = make("leaf", false, Some(&middle));
    let extra = [&middle.certificate];
    let own = root.certificate_pem();
    let system = std::fs::read_to_string("/etc/ssl/certs/ca-certificates.crt").unwrap_or_default();
    for (what, text) in [("one trusted certificate", own.clone()), ("the machine's besides", own + &system)] {
        let mut trust = Trust::default();
        trust.add(text.as_bytes()).expect("certificates");
        // The fastest of several runs: others use this machine too.
        let run = || {
            let start = Instant::now();
            for _ in 0..ROUNDS {
                let verdict = trust.verify(&leaf.certificate, &extra, Purpose::Client, 1, NOW);
                assert!(verdict.is_ok());
            }
            start.elapsed() / ROUNDS
        };
        let fastest = (0..5).map(|_| run()).min().expect("there are runs");
        println!("{what}: {:.1} µs", fastest.as_secs_f64() * 1e6);
    }
}
