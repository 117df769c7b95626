//! Looks for inputs that break the invariants in `brisk_http::fuzz`, by mutating the corpus at random.
//!
//! `cargo run --release -p brisk-http --example explore -- head|chunked|uri|proxy_protocol SECONDS [SEED]`
//!
//! An input that breaks one is written to the current directory: fix the bug, move the file into the corpus.

use std::panic::catch_unwind;
use std::path::Path;
use std::time::{Duration, Instant};

/// Pieces that matter to some parser.
const TOKENS: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\0",
    b" ",
    b"\t",
    b":",
    b": ",
    b"0\r\n",
    b"5\r\n",
    b";",
    b"//",
    b"/./",
    b"/../",
    b"%2e",
    b"%2F",
    b"%00",
    b"%",
    b"?",
    b"#",
    b"+",
    b"..",
    b"http://",
    b"[::1]",
    b"HTTP/1.1",
    b"HTTP/1.0",
    b"GET ",
    b"Host: a",
    b"Content-Length: 5",
    b"Transfer-Encoding: chunked",
    b"x_y: z",
    b"ffffffffffffffff",
    b"\x7f",
    b"\xff",
    b"PROXY ",
    b"TCP4 ",
    b"192.0.2.1 ",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0",
    b"\x20\0\x05",
];
const INPUT_BYTES_MAX: usize = 300;

/// Xorshift: enough for choosing bytes.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let target = match args.get(1).map(String::as_str) {
        Some("head") => brisk_http::fuzz::fuzz_head,
        Some("chunked") => brisk_http::fuzz::fuzz_chunked,
        Some("uri") => brisk_http::fuzz::fuzz_uri,
        Some("proxy_protocol") => brisk_http::fuzz::fuzz_proxy_protocol,
        _ => panic!("usage: explore head|chunked|uri|proxy_protocol SECONDS [SEED]"),
    };
    let number = |at: usize| args.get(at).and_then(|arg| arg.parse().ok());
    let seconds = number(2).unwrap_or(60);
    let mut random = Random(number(3).unwrap_or(0x9e37_79b9_7f4a_7c15).max(1));
    let corpus = read_corpus(&args[1]);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut runs = 0u64;
    while Instant::now() < end {
        for _ in 0..1000 {
            let input = mutate(&corpus, &mut random);
            if catch_unwind(|| target(&input)).is_err() {
                let file = format!("broken-{}-{runs}", args[1]);
                std::fs::write(&file, &input).expect("cannot write the input");
                eprintln!("{file}: {:?}", String::from_utf8_lossy(&input));
                std::process::exit(1);
            }
            runs += 1;
        }
    }
    println!("{runs} inputs, no invariant broken");
}

fn read_corpus(name: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut files: Vec<_> =
        std::fs::read_dir(dir).expect("no corpus").map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// A few random edits of a random seed.
fn mutate(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(6) {
        let at = random.below(input.len() + 1);
        let end = (at + random.below(12)).min(input.len());
        match random.below(6) {
            0 if at < input.len() => input[at] = random.below(256) as u8,
            1 if at < input.len() => input[at] ^= 1 << random.below(8),
            2 => drop(input.drain(at..end)),
            3 => {
                let copy = input[at..end].to_vec();
                let to = random.below(input.len() + 1);
                input.splice(to..to, copy);
            }
            4 => {
                let other = &corpus[random.below(corpus.len())];
                let from = random.below(other.len() + 1);
                input.splice(at..end, other[from..].iter().copied());
            }
            _ => {
                let token = TOKENS[random.below(TOKENS.len())];
                input.splice(at..at, token.iter().copied());
            }
        }
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}
