//! Independent clients: curl, nghttp, a browser, and h2spec, which knows what a server must not put up with.

use super::{bin, large, server};
use brisk_testkit::{Builder, Server, wait};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a command has said; it must succeed.
fn run(command: &str, args: &[&str]) -> Vec<u8> {
    let output = Command::new(command).args(args).output();
    let output = output.unwrap_or_else(|error| panic!("{command}: {error}; see scripts/setup.sh"));
    assert!(output.status.success(), "{command} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The same site over cleartext and over TLS.
fn both() -> Server {
    let prepared = Builder::new(bin())
        .http(
            "http2_upgrade on;
             server { listen 127.0.0.1:{{PORT}}; listen 127.0.0.1:{{PORT2}} ssl; http2 on; root {{DIR}}/html; client_max_body_size 10m;
             ssl_certificate {{DIR}}/cert.pem; ssl_certificate_key {{DIR}}/key.pem;
             location /vars { return 200 $http2|$server_protocol|$ssl_alpn_protocol; }
             }
             server { listen 127.0.0.1:{{PORT}}; listen 127.0.0.1:{{PORT2}} ssl; http2 on; server_name body; client_max_body_size 10m;
             ssl_certificate {{DIR}}/cert.pem; ssl_certificate_key {{DIR}}/key.pem; client_body_early_read 1;
             location / { return 200 $content_length; } }",
        )
        .file("html/a.txt", "hello\n")
        // More than a window: some cases of h2spec need an answer that has to wait.
        .file("html/index.html", vec![b'x'; 200_000])
        .file("html/large", large())
        .prepare();
    let path = |name: &str| prepared.dir().join(name).display().to_string();
    let subject = ["req", "-x509", "-subj", "/CN=localhost", "-days", "2", "-nodes", "-newkey", "rsa:2048"];
    run("openssl", &[&subject[..], &["-keyout", &path("key.pem"), "-out", &path("cert.pem")]].concat());
    prepared.start()
}

/// Where `scripts/setup.sh` puts it, unless it was there.
fn h2spec() -> PathBuf {
    let own = Path::new(bin()).ancestors().nth(2).expect("the folder of builds").join("tools/bin/h2spec");
    if own.exists() { own } else { "h2spec".into() }
}

#[test]
fn h2spec_finds_no_fault() {
    let server = both();
    let strict = |port: u16, more: &[&str]| {
        let port = port.to_string();
        let output =
            Command::new(h2spec()).args(["--strict", "-h", "127.0.0.1", "-p", &port]).args(more).output();
        let output = output.unwrap_or_else(|error| panic!("h2spec: {error}; see scripts/setup.sh"));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let shown = strict(server.port_of(2), &["-t", "-k"]);
    assert!(shown.contains("146 tests, 146 passed"), "{shown}");
    // A port that speaks HTTP/1.1 too answers an invalid preface in that.
    let shown = strict(server.port(), &[]);
    assert!(
        shown.contains("146 tests, 145 passed") && shown.contains("× 2: Sends invalid connection preface"),
        "{shown}"
    );
}

/// ALPN decides over TLS, and `Upgrade: h2c` is taken where a client has no prior knowledge.
#[test]
fn curl_and_nghttp_by_alpn_and_by_upgrade() {
    let server = both();
    let tls = |path: &str| format!("https://127.0.0.1:{}{path}", server.port_of(2));
    let plain = |path: &str| format!("http://127.0.0.1:{}{path}", server.port());
    let text = |args: &[&str]| String::from_utf8(run("curl", &[&["-sk"], args].concat())).unwrap();
    assert_eq!(text(&["--http2", &tls("/vars")]), "h2|HTTP/2.0|h2");
    assert_eq!(text(&["--http1.1", &tls("/vars")]), "|HTTP/1.1|http/1.1");
    assert_eq!(text(&["--no-alpn", &tls("/vars")]), "|HTTP/1.1|");
    assert_eq!(text(&["--http2", &plain("/vars")]), "h2c|HTTP/2.0|");
    assert_eq!(text(&["--http2", &plain("/vars"), &plain("/vars")]), "h2c|HTTP/2.0|".repeat(2));
    assert!(run("curl", &["-sk", "--http2", &tls("/large")]) == large());
    assert!(run("curl", &["-sk", "--http2", &plain("/large")]) == large());
    let upload = server.dir().join("html/large").display().to_string();
    assert_eq!(text(&["--http2", "-H", "Host: body", "-X", "POST", "-T", &upload, &tls("/")]), "3000000");
    for url in [tls("/a.txt"), plain("/a.txt")] {
        let shown = String::from_utf8(run("nghttp", &["-s", "-m", "20", &url])).unwrap();
        assert_eq!(shown.lines().filter(|line| line.contains(" 200 ")).count(), 20, "{shown}");
    }
    let shown = String::from_utf8(run("nghttp", &["-s", "-u", &plain("/a.txt")])).unwrap();
    assert!(shown.contains(" 200 "), "{shown}");
}

#[test]
fn curl_and_nghttp() {
    let server = server();
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", server.port());
    assert_eq!(run("curl", &["-s", "--http2-prior-knowledge", &url("/a.txt")]), b"hello\n");
    assert!(run("curl", &["-s", "--http2-prior-knowledge", &url("/large")]) == large());
    let upload = server.dir().join("html/large").display().to_string();
    let echo = run("curl", &["-s", "--http2-prior-knowledge", "-H", "Host: body", "-T", &upload, &url("/")]);
    assert!(echo.starts_with(b"3000000|"), "{}", String::from_utf8_lossy(&echo));
    let urls: Vec<String> = (0..50).map(|n| url(&format!("/a.txt?{n}"))).collect();
    let mut args = vec!["--no-dep", "-s"];
    args.extend(urls.iter().map(String::as_str));
    let statistics = String::from_utf8_lossy(&run("nghttp", &args)).into_owned();
    assert_eq!(statistics.lines().filter(|line| line.contains(" 200 ")).count(), 50, "{statistics}");
}

/// A browser loads a page with a hundred pictures over one connection.
#[test]
fn a_browser_loads_a_page_over_one_connection() {
    const PAGE: &str = r#"<body><script>
        for (let n = 0; n < 100; n++) {
            const image = document.createElement("img");
            image.src = "picture.svg?" + n;
            document.body.append(image);
        }
        const wait = setInterval(() => {
            const images = [...document.images];
            if (!images.every(image => image.complete)) return;
            clearInterval(wait);
            const loaded = images.filter(image => image.naturalWidth > 0).length;
            const protocols = performance.getEntriesByType("resource").map(entry => entry.nextHopProtocol);
            document.title = `loaded ${loaded} by ${[...new Set(protocols)]}`;
        }, 20);
    </script></body>"#;
    const PICTURE: &str = r#"<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"></svg>"#;
    let prepared = Builder::new(bin())
        .http(
            "log_format by '$connection $http2 $request_uri'; access_log access.log by;
             types { text/html html; image/svg+xml svg; }
             server { listen 127.0.0.1:{{PORT}} ssl; http2 on; root {{DIR}}/html;
             ssl_certificate {{DIR}}/cert.pem; ssl_certificate_key {{DIR}}/key.pem; }",
        )
        .file("html/index.html", PAGE)
        .file("html/picture.svg", PICTURE)
        .prepare();
    let path = |name: &str| prepared.dir().join(name).display().to_string();
    let run = |command: &str, args: &[&str]| {
        let output = Command::new(command).args(args).output();
        output.unwrap_or_else(|error| panic!("{command}: {error}; see scripts/setup.sh")).stdout
    };
    let subject = ["-subj", "/CN=localhost", "-days", "2", "-nodes", "-newkey", "rsa:2048"];
    let (key, cert) = (path("key.pem"), path("cert.pem"));
    run("openssl", &[&["req", "-x509", "-keyout", &key, "-out", &cert], &subject[..]].concat());
    let profile = format!("--user-data-dir={}", path("profile"));
    let server = prepared.start();
    let url = format!("https://localhost:{}/", server.port());
    let page = run(
        "chromium",
        &[
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--ignore-certificate-errors",
            "--virtual-time-budget=30000",
            &profile,
            "--dump-dom",
            &url,
        ],
    );
    let page = String::from_utf8_lossy(&page);
    assert!(page.contains("<title>loaded 100 by h2</title>"), "{page}");
    // The last lines may be written when the browser has gone.
    let log = wait::until("the line of each picture", || {
        let log = server.access_log();
        (log.matches(" h2 /picture.svg").count() >= 100).then_some(log)
    });
    let connections: Vec<&str> = log
        .lines()
        .filter(|line| line.contains(" h2 /picture.svg"))
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(connections.len() == 100 && connections.iter().all(|id| *id == connections[0]), "{log}");
}

/// A front proxy that passes `Upgrade` on without knowing what it means would be passed by: HTTP/2 is taken by upgrade only
/// where the configuration says so. nginx never takes it.
#[test]
fn an_upgrade_to_http2_is_taken_only_where_it_is_wanted() {
    let ask = "GET /a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
        HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n";
    for (http, server, status) in [
        ("http2 on;", "", "200 OK"),
        ("http2 on; http2_upgrade off;", "", "200 OK"),
        ("http2 on;", "http2_upgrade on;", "101 Switching Protocols"),
        ("http2 on; http2_upgrade on;", "", "101 Switching Protocols"),
        ("http2 on; http2_upgrade on;", "http2_upgrade off;", "200 OK"),
        ("http2_upgrade on;", "", "200 OK"),
    ] {
        let conf =
            "HTTP server { listen 127.0.0.1:{{PORT}}; SERVER location / { return 200 $server_protocol; } }";
        let conf = conf.replacen("HTTP", http, 1).replace("SERVER", server);
        let server = Builder::new(bin()).http(&conf).start();
        let mut client = server.client();
        client.send(ask);
        let head = client.wait_for("\r\n\r\n");
        assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{conf}: {head}");
    }
}

/// What comes behind the request in one burst is read to its end, also where it fills the buffer of the first read.
#[test]
fn frames_behind_an_upgrade_in_one_burst() {
    use brisk_h2::frame::{flag, kind, write_head};
    let server = both();
    for frames in [1, 14, 16, 17, 18, 30] {
        let mut burst =
            b"GET /vars HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
            HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
                .to_vec();
        burst.extend_from_slice(brisk_h2::PREFACE);
        write_head(0, kind::SETTINGS, 0, 0, &mut burst);
        // Frames that are nothing to anybody (RFC 9113 §5.5), then one that is answered.
        for _ in 0..frames {
            write_head(1000, 0xbb, 0, 0, &mut burst);
            burst.extend_from_slice(&[7; 1000]);
        }
        write_head(8, kind::PING, 0, 0, &mut burst);
        burst.extend_from_slice(b"the last");
        let mut client = server.client();
        client.send(&burst);
        let mut pong = Vec::new();
        write_head(8, kind::PING, flag::ACK, 0, &mut pong);
        pong.extend_from_slice(b"the last");
        let mut got = Vec::new();
        while !got.windows(pong.len()).any(|part| part == pong) {
            let some = client.some(1 << 16).expect("the server answers");
            assert!(!some.is_empty(), "{frames}: closed");
            got.extend_from_slice(&some);
        }
    }
}
