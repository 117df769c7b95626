//! Shared dictionaries (RFC 9842): a page that the client has makes the next one small.

use brisk_testkit::{Builder, Response, Server};
use std::io::Read as _;
use zstd::zstd_safe::DCtx;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

const CONF: &str = r#"
    dictionary_store 4m;
    server {
        listen 127.0.0.1:{{PORT}};
        types { application/javascript js; text/plain txt; }
        use_as_dictionary /app/*.js "id=v 1" match-dest=script,document; shared_dictionaries on;
        brotli on; zstd on; gzip on; gzip_vary on;
        brotli_types application/javascript; zstd_types application/javascript; gzip_types application/javascript;
        location /app/br/ { zstd off; alias {{DIR}}/html/app/; }
        location /app/own/ { add_header Cache-Control private; alias {{DIR}}/html/app/; }
        location /plain/ { shared_dictionaries off; use_as_dictionary off; alias {{DIR}}/html/app/; }
        location /metrics { metrics; }
    }
    server { listen 127.0.0.1:{{PORT}}; server_name other.example; shared_dictionaries on; brotli on;
        brotli_types application/javascript; types { application/javascript js; } }"#;

/// Two versions of a script that differ little.
fn versions(lines: usize) -> (String, String) {
    let line = |n: usize| {
        format!("function f{n}(a, b) {{ return a * {} + b % {}; }}\n", n * n % 7919, n * 31 % 997 + 1)
    };
    let old: String = (0..lines).map(line).collect();
    let new = old.replace("function f7(", "function seven(") + "f8(1, 2);\n";
    (old, new)
}

fn server() -> Server {
    let (old, new) = versions(500);
    let (large_old, large_new) = versions(8000);
    Builder::new(BIN)
        .http(CONF)
        .file("html/app/1.js", &old)
        .file("html/app/2.js", &new)
        .file("html/app/large1.js", &large_old)
        .file("html/app/large2.js", &large_new)
        .file("html/app/3.js", new.repeat(2))
        .file("html/app/a.txt", &new)
        .start()
}

fn ask(server: &Server, target: &str, fields: &str) -> Response {
    let response = server.request(format!(
        "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept-Encoding: {fields}\r\n\r\n"
    ));
    assert_eq!(response.status, 200);
    response
}

/// `Available-Dictionary` for a text, by another implementation.
fn named(text: &str) -> String {
    use base64::Engine as _;
    use sha2::Digest as _;
    format!(
        "Available-Dictionary: :{}:",
        base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(text))
    )
}

fn dcb(dictionary: &str, coded: &[u8]) -> String {
    assert_eq!(coded[..4], *b"\xffDCB");
    let mut plain = String::new();
    let dictionary = dictionary.as_bytes().to_vec().into();
    let mut reader = brotli::reader::Decompressor::new_with_custom_dict(&coded[36..], 4096, dictionary);
    reader.read_to_string(&mut plain).unwrap();
    plain
}

fn dcz(dictionary: &str, coded: &[u8]) -> String {
    let mut context = DCtx::create();
    context.ref_prefix(dictionary.as_bytes()).unwrap();
    let mut plain = Vec::with_capacity(1 << 20);
    context.decompress(&mut plain, &coded[40..]).unwrap();
    String::from_utf8(plain).unwrap()
}

#[test]
fn the_next_version_is_small() {
    let server = server();
    for (one, two, lines) in [("1.js", "2.js", 500), ("large1.js", "large2.js", 8000)] {
        let (old, new) = versions(lines);
        let first = ask(&server, &format!("/app/{one}"), "identity");
        assert_eq!(
            first.header("Use-As-Dictionary"),
            Some(r#"match="/app/*.js", id="v 1", match-dest=("script" "document")"#)
        );
        assert_eq!(first.header("Vary"), Some("Accept-Encoding, Available-Dictionary"));
        let has = named(&old);
        // Large bodies are remembered when they have been sent.
        let second = brisk_testkit::wait::until("the dictionary is remembered", || {
            let response =
                ask(&server, &format!("/app/{two}"), &format!("gzip, br, zstd, dcb, dcz\r\n{has}"));
            (response.header("Content-Encoding") == Some("dcz")).then_some(response)
        });
        assert_eq!(dcz(&old, &second.body), new);
        assert!(second.body.len() < 1000, "{}", second.body.len());
        assert_eq!(second.header("Vary"), Some("Accept-Encoding, Available-Dictionary"));
        assert!(second.header("ETag").is_some_and(|etag| etag.starts_with("W/")));
        let second = ask(&server, &format!("/app/{two}"), &format!("gzip, br, dcb\r\n{has}"));
        assert_eq!(second.header("Content-Encoding"), Some("dcb"));
        assert_eq!(dcb(&old, &second.body), new);
        assert!(second.body.len() < 1000, "{}", second.body.len());
        let weighted = ask(&server, &format!("/app/{two}"), &format!("dcb, dcz;q=0.5\r\n{has}"));
        assert_eq!(weighted.header("Content-Encoding"), Some("dcb"));
    }
    assert_eq!(
        ask(&server, "/app/br/2.js", &format!("dcb, dcz\r\n{}", named(&versions(500).0)))
            .header("Content-Encoding"),
        Some("dcb")
    );
    assert!(server.get("/metrics").text().contains("brisk_dictionary_requests_total{outcome=\"used\"} "));
}

/// What the head has announced is sent, also where the pool takes nothing more.
#[test]
fn a_full_pool_cuts_no_body_off() {
    let (old, new) = versions(50);
    let server = Builder::new(BIN)
        .main("thread_pool default threads=1 max_queue=0;")
        .http(&format!(
            "server {{ listen 127.0.0.1:{{{{PORT}}}}; default_type application/javascript;
                use_as_dictionary /app/*; shared_dictionaries on; brotli on; zstd on;
                brotli_types application/javascript; zstd_types application/javascript;
                location /app/1 {{ return 200 '{old}'; }} location /app/2 {{ return 200 '{new}'; }} }}"
        ))
        .start();
    assert_eq!(ask(&server, "/app/1", "identity").text(), old);
    let response = ask(&server, "/app/2", &format!("dcb, dcz\r\n{}", named(&old)));
    assert_eq!(response.header("Content-Encoding"), Some("dcz"));
    assert_eq!(dcz(&old, &response.body), new);
    let response = ask(&server, "/app/2", &format!("dcb\r\n{}", named(&old)));
    assert_eq!(response.header("Content-Encoding"), Some("dcb"));
    assert_eq!(dcb(&old, &response.body), new);
}

#[test]
fn who_gets_the_usual_coding() {
    let server = server();
    let (old, new) = versions(500);
    ask(&server, "/app/1.js", "identity");
    let has = named(&old);
    let coding = |target: &str, fields: &str| {
        let response = ask(&server, target, fields);
        response.header("Content-Encoding").unwrap_or("identity").to_string()
    };
    // One that is not remembered, that is malformed, or not accepted.
    assert_eq!(coding("/app/2.js", &format!("br, dcb\r\n{}", named("something else"))), "br");
    assert_eq!(coding("/app/2.js", "br, dcb\r\nAvailable-Dictionary: x"), "br");
    assert_eq!(coding("/app/2.js", &format!("br\r\n{has}")), "br");
    assert_eq!(coding("/app/2.js", &format!("br, dcb;q=0\r\n{has}")), "br");
    // Media types and places that are not configured.
    assert_eq!(coding("/app/a.txt", &format!("br, dcb\r\n{has}")), "identity");
    assert_eq!(coding("/plain/2.js", &format!("br, dcb\r\n{has}")), "br");
    // Another host's dictionaries are its own.
    let other = server.request(format!(
        "GET /app/2.js HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\nAccept-Encoding: dcb\r\n{has}\r\n\r\n"
    ));
    assert_eq!((other.status, other.header("Content-Encoding")), (200, None));
    // What is private is nobody's dictionary.
    assert_eq!(ask(&server, "/app/own/3.js", "identity").header("Use-As-Dictionary"), None);
    assert_eq!(coding("/app/1.js", &format!("br, dcb\r\n{}", named(&new.repeat(2)))), "br");
    // An answer that is kept ready is for those without a dictionary.
    for _ in 0..3 {
        assert_eq!(coding("/app/2.js", "br"), "br");
        assert_eq!(coding("/app/2.js", &format!("br, dcb\r\n{has}")), "dcb");
    }
}
