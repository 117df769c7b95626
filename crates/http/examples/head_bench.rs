//! Nanoseconds per parse on this machine: `cargo run --release -p brisk-http --example head_bench`.

use std::hint::black_box;
use std::time::Instant;

use brisk_http::uri::{Target, UriOptions, parse_target};
use brisk_http::{HeadOptions, RequestHead, parse_request};

const SMALL: &[u8] =
    b"GET /index.html HTTP/1.1\r\nHost: localhost:8080\r\nUser-Agent: wrk/4.2\r\nAccept: */*\r\n\r\n";
const BROWSER: &[u8] = b"GET /assets/app.7f3a.js?v=12 HTTP/1.1\r\n\
Host: www.example.com\r\n\
Connection: keep-alive\r\n\
sec-ch-ua: \"Chromium\";v=\"126\", \"Not.A/Brand\";v=\"24\"\r\n\
sec-ch-ua-mobile: ?0\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36\r\n\
sec-ch-ua-platform: \"Linux\"\r\n\
Accept: */*\r\n\
Sec-Fetch-Site: same-origin\r\n\
Sec-Fetch-Mode: no-cors\r\n\
Referer: https://www.example.com/\r\n\
Accept-Encoding: gzip, deflate, br, zstd\r\n\
Accept-Language: en-GB,en;q=0.9\r\n\
Cookie: session=0123456789abcdef0123456789abcdef; theme=dark\r\n\r\n";

fn main() {
    let opts = HeadOptions::default();
    let mut head = RequestHead::default();
    for (name, bytes) in [("3 fields", SMALL), ("browser, 13 fields", BROWSER)] {
        measure(name, bytes.len(), || {
            parse_request(black_box(bytes), &opts, &mut head).expect("a valid head");
            black_box(&head);
        });
    }
    let mut target = Target::default();
    for bytes in [&b"/index.html"[..], b"/assets/app.7f3a.js?v=12", b"/a%20b/./c//d/../e.html?x=y"] {
        measure(std::str::from_utf8(bytes).unwrap_or(""), bytes.len(), || {
            parse_target(black_box(bytes), UriOptions::default(), &mut target).expect("a valid target");
            black_box(&target);
        });
    }
}

/// The best of many short rounds, since other programs disturb the rest.
fn measure(name: &str, bytes: usize, mut run: impl FnMut()) {
    const ROUNDS: u32 = 200;
    const RUNS: u32 = 5000;
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..RUNS {
            run();
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(RUNS));
    }
    println!("{name}: {best:.1} ns, {:.2} GB/s", bytes as f64 / best);
}
