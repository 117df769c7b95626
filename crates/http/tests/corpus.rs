//! Replays the corpora: every input that ever broke an invariant stays broken-proof.

use std::path::Path;

fn replay(name: &str, target: fn(&[u8])) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut count = 0;
    for entry in std::fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        let data = std::fs::read(&path).unwrap();
        // Shown only if the invariant breaks.
        println!("{}", path.display());
        target(&data);
        for cut in 0..data.len() {
            target(&data[..cut]);
            target(&data[cut..]);
        }
        count += 1;
    }
    assert!(count >= 10, "the corpus of {name} is missing");
}

#[test]
fn head() {
    replay("head", brisk_http::fuzz::fuzz_head);
}

#[test]
fn chunked() {
    replay("chunked", brisk_http::fuzz::fuzz_chunked);
}

#[test]
fn uri() {
    replay("uri", brisk_http::fuzz::fuzz_uri);
}

#[test]
fn proxy_protocol() {
    replay("proxy_protocol", brisk_http::fuzz::fuzz_proxy_protocol);
}
