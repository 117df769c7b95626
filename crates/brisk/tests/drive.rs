//! The tools beside plain load: old names, `get`, scenarios, pages, probes; from their command lines, against servers.

use brisk_testkit::forger::Forger;
use brisk_testkit::relay::{Relay, Weather};
use brisk_testkit::{Backend, Builder, Server, TempDir, browser, wait};
use regex::Regex;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;

#[path = "drive/agree.rs"]
mod agree;
#[path = "drive/codes.rs"]
mod codes;
#[path = "drive/formats.rs"]
mod formats;
#[path = "drive/interrupt.rs"]
mod interrupt;
#[path = "drive/old.rs"]
mod old;
#[path = "drive/output.rs"]
mod output;
#[path = "drive/pages.rs"]
mod pages;
#[path = "drive/scenario.rs"]
mod scenario;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

fn server() -> Server {
    let page = "<!doctype html><head><link rel=stylesheet href=s.css><script src=a.js></script></head><body><img src=i.png><img src=no.png>";
    Builder::new(BIN)
        .http(
            r#"
            ssl_certificate {{DIR}}/a.crt;
            ssl_certificate_key {{DIR}}/a.key;
            server {
                listen 127.0.0.1:{{PORT}};
                listen 127.0.0.1:{{PORT2}} ssl;
                http2 on;
                types { text/html html; text/css css; text/javascript js; image/png png; text/plain txt; }
                location = /enter { add_header Set-Cookie "sid=s1; Path=/" always; return 302 /a.txt; }
                location = /need { add_header Set-Cookie "sid=s1; Path=/" always; return 302 /me; }
                location = /login.json { default_type application/json; return 200 '{"token":"t0k","ok":true}'; }
                location = /old { return 301 /a.txt; }
                location = /zip.txt { gzip on; gzip_types text/plain; gzip_min_length 1; alias {{DIR}}/html/a.txt; }
                location /login { add_header Set-Cookie "sid=s1; Path=/"; add_header X-Id 42; return 200 '{"token":"t0k","ok":true}'; }
                location /me { if ($http_authorization != "Bearer t0k") { return 401; } if ($cookie_sid != s1) { return 403; } return 200 "hello $arg_who"; }
                location /down { return 503; }
                location / { }
            }"#,
        )
        .file("html/a.txt", "a".repeat(100))
        .file("html/index.html", page)
        .file("html/s.css", format!("@import 't.css'; body {{ background: url(bg.png) }} {}", " /* */ ".repeat(200)))
        .file("html/t.css", "b { }")
        .file("html/a.js", "x = 1;".repeat(300))
        .file("html/i.png", "png".repeat(100))
        .file("html/bg.png", "png")
        .certificate("localhost")
        .start()
}

fn run(args: &[&str]) -> Output {
    Command::new(BIN).args(args).stdin(Stdio::null()).output().unwrap()
}

/// What a command prints; its exit code must be this.
fn printed(args: &[&str], code: i32) -> String {
    let output = run(args);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Answers one connection after another with these bytes, then closes each.
fn broken_server(answer: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut buf = [0; 4096];
            let _ = stream.read(&mut buf);
            let _ = stream.write_all(answer);
        }
    });
    port
}

#[test]
fn get_lays_an_exchange_bare() {
    let server = server();
    let plain = |path: &str| format!("http://127.0.0.1:{}{path}", server.port());
    let text = printed(&["get", &plain("/a.txt")], 0);
    for part in [
        "* connect ",
        "> GET /a.txt HTTP/1.1",
        "< HTTP/1.1 200 OK",
        "* body: 100 bytes",
        "confirmed by ETag",
        "* times: ready",
        "aaaa",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = printed(&["get", "--http2", "--frames", &plain("/a.txt")], 0);
    for part in [
        "> :path: /a.txt",
        "< HTTP/2 200",
        "* > SETTINGS stream 0",
        "* < DATA stream 1 length 100 END_STREAM",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let secure = format!("https://localhost:{}/a.txt", server.port_of(2));
    let text = printed(&["get", "-k", &secure], 0);
    for part in [
        "* DNS ",
        "* TLS ",
        "TLSv1.3",
        "the server chose h2",
        "HTTP/3: not used, the server does not offer it",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(printed(&["get", "-k", "--http1.1", &secure], 0).contains("< HTTP/1.1 200 OK"));
    let text = printed(&["get", "-L", &plain("/old")], 0);
    assert!(text.contains("301") && text.contains("< HTTP/1.1 200 OK"), "{text}");
    let text = printed(&["get", &plain("/zip.txt")], 0);
    assert!(text.contains("gzip of 100 bytes"), "{text}");
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\nabc\r\n0\r\nX-End: 1\r\n\r\n";
    let text = printed(&["get", &format!("http://127.0.0.1:{}/", broken_server(chunked))], 0);
    assert!(text.contains("* 2 chunks: 5 3") && text.contains("< X-End: 1"), "{text}");
    assert_eq!(printed(&["get", "--only-body", &plain("/zip.txt")], 0), "a".repeat(100));
    assert_eq!(
        printed(&["get", "--only-body", "--body", "x=1", &plain("/login")], 0),
        "{\"token\":\"t0k\",\"ok\":true}"
    );
    let pretty = printed(&["get", "--pretty", &plain("/login.json")], 0);
    assert!(pretty.contains("\"token\": \"t0k\"") && pretty.lines().count() >= 4, "{pretty}");
    let raw = run(&["get", "--only-body", "--raw", &plain("/zip.txt")]).stdout;
    assert!(raw.starts_with(&[0x1f, 0x8b]) && raw.len() < 100, "{raw:?}");
    let file = server.dir().join("body");
    let text = printed(&["get", "-o", file.to_str().unwrap(), &plain("/zip.txt")], 0);
    assert!(!text.contains("aaaa") && std::fs::read(&file).unwrap() == "a".repeat(100).as_bytes(), "{text}");
    let text = printed(&["get", "-I", &plain("/a.txt")], 0);
    assert!(text.contains("> HEAD /a.txt") && !text.contains("aaaa"), "{text}");
    // Cookies go along redirects once there are any, and not without being asked to.
    let enter = plain("/enter");
    assert!(printed(&["get", "-L", "-b", "a=1", &enter], 0).contains("> Cookie: a=1; sid=s1"));
    assert!(!printed(&["get", "-L", &enter], 0).contains("> Cookie"));
    // What a server says cannot drive the terminal.
    let hostile = b"HTTP/1.1 200 OK\r\nX: \x1b[2J\r\nContent-Length: 4\r\n\r\n\x1b[2J";
    let text = printed(&["get", "--pretty", &format!("http://127.0.0.1:{}/", broken_server(hostile))], 0);
    assert!(!text.contains('\x1b'), "{text:?}");
}

/// Unreachable, malformed, half: named, and none of it counts as an answer.
/// Over QUIC, and what is said where it cannot be had.
#[test]
fn get_over_http3() {
    let lines = r#"
        ssl_certificate {{DIR}}/a.crt;
        ssl_certificate_key {{DIR}}/a.key;
        add_header Alt-Svc 'h3=":{{PORT}}"';
        server {
            listen 127.0.0.1:{{PORT}} ssl;
            listen 127.0.0.1:{{PORT}} quic;
            server_name localhost;
            client_body_early_read 1;
            client_max_body_size 2m;
            location = /echo { return 200 $content_length; }
        }
        server { listen 127.0.0.1:{{PORT2}} ssl; }
    "#;
    let large = "0123456789".repeat(100_000);
    let server = Builder::new(BIN)
        .http(lines)
        .certificate("localhost")
        .file("html/a.txt", "a".repeat(100))
        .file("html/large.txt", &large)
        .file("body", &large)
        .start();
    let of = |port: u16, path: &str| format!("https://127.0.0.1:{port}{path}");
    let (url, body) = (of(server.port(), "/a.txt"), format!("@{}", server.dir().join("body").display()));
    let text = printed(&["get", "-k", "--http3", &url], 0);
    for line in [
        "< HTTP/3 200",
        "* QUIC ",
        "the server chose h3",
        "* body: 100 bytes",
        "* HTTP/3: used",
        "> :path: /a.txt",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(printed(&["get", "-k", "--only-body", "-3", &of(server.port(), "/large.txt")], 0) == large);
    let echo = of(server.port(), "/echo");
    assert_eq!(printed(&["get", "-k", "--only-body", "-3", "--body", &body, &echo], 0), "1000000");
    let over_tcp = printed(&["get", "-k", &url], 0);
    assert!(over_tcp.contains("HTTP/3: offered (Alt-Svc:") && over_tcp.contains("(--http3)"), "{over_tcp}");
    for (args, why) in [
        (vec!["get", "-k", "-3", &*of(server.port_of(2), "/")], "nothing listens on UDP"),
        (vec!["get", "-3", &*url], "the certificate is not trusted"),
        (vec!["get", "-3", "http://127.0.0.1/"], "HTTP/3 needs https"),
    ] {
        let output = run(&args);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && text.contains(why), "{args:?}: {text}");
    }
}

/// ICMP tells that a server's port was closed: the client looked at its socket without end then, and kept no time-out.
#[test]
fn get_over_http3_from_a_server_that_goes_away() {
    let (begun, told) = mpsc::channel();
    let backend = Backend::start(move |mut peer| {
        if peer.head().is_some() {
            let _ = begun.send(());
            while !peer.some().is_empty() {}
        }
    });
    let lines = format!(
        "ssl_certificate {{{{DIR}}}}/a.crt;
        ssl_certificate_key {{{{DIR}}}}/a.key;
        client_max_body_size 100m;
        server {{
            listen 127.0.0.1:{{{{PORT}}}} quic;
            location / {{ proxy_request_buffering off; proxy_http_version 1.1; proxy_pass http://127.0.0.1:{}; }}
        }}",
        backend.port()
    );
    let body = "x".repeat(8 << 20);
    let server = Builder::new(BIN).http(&lines).certificate("localhost").file("body", &body).start();
    // So slow that it ends within the body.
    let weather = Weather { rate: Some((400_000, 30_000)), ..Weather::default() };
    let relay = Relay::new(([127, 0, 0, 1], server.port()).into(), 1, weather);
    let (url, body) =
        (format!("https://{}/", relay.address), format!("@{}", server.dir().join("body").display()));
    let mut client = Command::new(BIN)
        .args(["get", "-k", "-3", "--timeout", "5s", "--body", &body, &url])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let is_under_way = told.recv_timeout(wait::DEADLINE);
    drop(relay);
    let ended = wait::within(wait::DEADLINE, || client.try_wait().unwrap());
    let _ = client.kill();
    let _ = client.wait();
    is_under_way.expect("the request came to the back end");
    assert_eq!(ended.expect("the time-out is kept").code(), Some(1));
}

/// RFC 9001 §4.6: the second visit asks with its first packets.
#[test]
fn get_with_the_first_packets() {
    let lines = |early: &str| {
        format!(
            "ssl_certificate {{{{DIR}}}}/a.crt;
            ssl_certificate_key {{{{DIR}}}}/a.key;
            server {{
                listen 127.0.0.1:{{{{PORT}}}} quic;
                ssl_early_data {early};
                location / {{ return 200 \"early $ssl_early_data\"; }}
            }}"
        )
    };
    for (early, want, body) in [
        // Where the client is quick, its handshake is complete before the server reads the request: no replay any more.
        ("on", "the request went with the first packets (0-RTT) and was taken", ["early 1", "early "]),
        ("off", "no 0-RTT: the server has given no session that allows it", ["early "; 2]),
    ] {
        let server = Builder::new(BIN).http(&lines(early)).certificate("localhost").start();
        let url = format!("https://127.0.0.1:{}/", server.port());
        let text = printed(&["get", "-k", "-3", "--0rtt", &url], 0);
        assert!(text.contains(want) && text.lines().any(|line| body.contains(&line)), "{early}: {text}");
    }
    let output = run(&["get", "-k", "-3", "--0rtt", "--data", "a=b", "https://127.0.0.1:1/"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("could be carried out twice"), "{output:?}");
}

/// RFC 9000 §17.2.5: a Retry proves only that somebody has seen the client's packet. The forged one names an ID that no server takes.
#[test]
fn a_forged_retry_costs_get_a_moment() {
    let lines = r#"
        ssl_certificate {{DIR}}/a.crt;
        ssl_certificate_key {{DIR}}/a.key;
        server { listen 127.0.0.1:{{PORT}} quic; location / { return 200 "reached"; } }
    "#;
    let server = Builder::new(BIN).http(lines).certificate("localhost").start();
    for id in [&b"abc"[..], b"a whole id"] {
        let forger = Forger::before(([127, 0, 0, 1], server.port()).into(), id);
        let url = format!("https://127.0.0.1:{}/", forger.address.port());
        assert_eq!(printed(&["get", "-k", "-3", "--only-body", &url], 0), "reached");
        assert_eq!(forger.forged(), 1);
    }
}

#[test]
fn what_is_no_answer_is_named() {
    let server = server();
    let secure = format!("https://127.0.0.1:{}/", server.port_of(2));
    for (answer, want) in [
        (&b""[..], "truncated: "),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "truncated: "),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "malformed: "),
        (b"nonsense\r\n\r\n", "malformed: "),
        (b"HTTP/1.1 200 OK\r\nContent-Len", "truncated: "),
    ] {
        let url = format!("http://127.0.0.1:{}/", broken_server(answer));
        let output = run(&["get", &url]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && error.contains(want), "{answer:?}: {error}");
        let siege = run(&["siege", "-b", "-c1", "-r2", "-j", &url]);
        let json: Value = serde_json::from_slice(&siege.stdout).unwrap();
        assert_eq!(
            (&json["transactions"], &json["failed_transactions"]),
            (&0.into(), &2.into()),
            "{answer:?}"
        );
    }
    for (url, want) in [
        ("http://127.0.0.1:1/", "refused: "),
        ("http://nobody.invalid/", "dns: "),
        (secure.as_str(), "tls: "),
    ] {
        let error = run(&["get", url]).stderr;
        assert!(String::from_utf8_lossy(&error).contains(want), "{url}: {}", String::from_utf8_lossy(&error));
    }
    let h2 = format!("http://127.0.0.1:{}/", broken_server(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    assert_eq!(run(&["get", "--http2", &h2]).status.code(), Some(1));
}

#[test]
fn a_page_is_fetched_as_a_browser_does() {
    let server = server();
    let dir = TempDir::new();
    let (har, svg, html) = (dir.path().join("p.har"), dir.path().join("p.svg"), dir.path().join("p.html"));
    let (har, svg) = (har.to_str().unwrap(), svg.to_str().unwrap());
    let url = format!("http://127.0.0.1:{}/", server.port());
    let text =
        printed(&["bench", "page", "--har", har, "--svg", svg, "--html", html.to_str().unwrap(), &url], 0);
    browser::look_at_report(&html, &dir.path().join("profile"), 1);
    let report = std::fs::read_to_string(html).unwrap();
    for part in ["Waterfall", "render-blocking", "can paint after", "t.css", "processor", "--svg"] {
        assert!(report.contains(part), "{part}");
    }
    for part in [
        "7 requests",
        "!200 s.css",
        " 404 no.png",
        "failures: 1 of 7",
        "render-blocking: ",
        "compression: 2 texts",
        "caching: ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let file: Value = serde_json::from_str(&std::fs::read_to_string(har).unwrap()).unwrap();
    let entries = file["log"]["entries"].as_array().unwrap();
    assert_eq!((&file["log"]["version"], entries.len()), (&"1.2".into(), 7));
    for entry in entries {
        let sum: f64 = entry["timings"]
            .as_object()
            .unwrap()
            .iter()
            .filter(|(name, _)| *name != "ssl" && *name != "blocked")
            .map(|(_, ms)| ms.as_f64().unwrap().max(0.0))
            .sum();
        assert!(sum <= entry["time"].as_f64().unwrap() + 1.0, "{entry}");
        assert!(entry["startedDateTime"].as_str().unwrap().ends_with('Z'));
    }
    let picture = std::fs::read_to_string(svg).unwrap();
    assert!(
        picture.starts_with("<svg ") && picture.trim_end().ends_with("</svg>") && picture.contains("s.css")
    );
    let drawn = browser::document(&format!("file://{svg}"), &dir.path().join("profile"));
    assert!(drawn.contains("<title>Waterfall</title>") && drawn.contains("url(#wait)"), "{drawn}");
    assert!(!drawn.contains("parsererror"), "{drawn}");
    let secure = format!("https://127.0.0.1:{}/", server.port_of(2));
    let json: Value = serde_json::from_str(&printed(&["bench", "page", "-k", "--json", &secure], 0)).unwrap();
    let fresh = json["entries"].as_array().unwrap().iter().filter(|entry| entry["reused"] == false).count();
    assert_eq!(
        (fresh, &json["entries"][0]["version"]),
        (1, &"HTTP/2".into()),
        "one connection for all: {json}"
    );
    printed(&["bench", "page", &format!("{url}down")], 1);
    // Cookies of the page go with what it refers to.
    let bearer = "Authorization: Bearer t0k";
    assert!(printed(&["bench", "page", "-H", bearer, &format!("{url}need")], 0).contains("!200 me "));
}

#[test]
fn a_slow_line_is_waited_for() {
    let server = Builder::new(BIN)
        .file("html/index.html", "<!doctype html><link rel=icon href='data:,'><img src=a.bin><img src=b.bin>")
        .file("html/a.bin", "a".repeat(50_000))
        .file("html/b.bin", "b".repeat(50_000))
        .http("server { listen 127.0.0.1:{{PORT}}; location / { } }")
        .start();
    let url = format!("http://127.0.0.1:{}/", server.port());
    let loaded = |network: &str| {
        let words = ["bench", "page", "--json", "--network", network, &url];
        let page: Value = serde_json::from_str(&printed(&words, 0)).unwrap();
        assert_eq!(
            (&page["requests"], page["entries"][1]["bytes"].as_f64() > Some(50_000.0)),
            (&3.into(), true)
        );
        page["loaded_ms"].as_f64().unwrap()
    };
    // Connecting, the page and what is on it: three round trips.
    let slow = loaded("100ms");
    assert!(slow >= 300.0, "{slow}");
    // Both files share the line: 100 kB at 8 Mbit/s are 100 ms.
    let narrow = loaded("8mbit");
    assert!(narrow >= 100.0, "{narrow}");
    let both = loaded("8mbit,100ms");
    assert!(both >= 400.0, "{both}");
    let error = run(&["bench", "page", "--network", "fast", &url]);
    assert_eq!(error.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&error.stderr).contains("e.g. 10mbit,40ms"), "{error:?}");
    // Over TLS with HTTP/2, and by users of a scenario.
    let scenario = server.dir().join("users.toml");
    std::fs::write(&scenario, "[[user]]\n[[user.step]]\nrequest = \"GET /\"\n").unwrap();
    let words = ["bench", "run", "-u", "1", "-d", "1s", "--json", "--network", "100ms", "--target", &url];
    let report: Value =
        serde_json::from_str(&printed(&[&words[..], &[scenario.to_str().unwrap()]].concat(), 0)).unwrap();
    let p50 = report["all"]["latency_ms"]["p50"].as_f64().unwrap();
    assert!(p50 >= 99.0, "{report}");
}

#[test]
fn probes_remember_and_tell() {
    let server = server();
    let dir = TempDir::new();
    let store = dir.path().join("h.jsonl");
    let store = store.to_str().unwrap();
    let (well, down) = (
        format!("http://127.0.0.1:{}/a.txt", server.port()),
        format!("http://127.0.0.1:{}/down", server.port()),
    );
    let hook = format!("http://127.0.0.1:{}/login?hook", server.port());
    let often = ["probe", "--count", "3", "--every", "100ms", "--store", store];
    printed(&[&often[..], &["--contains", "aaa", &well]].concat(), 0);
    let text = printed(&[&often[..], &["--fails", "2", "--webhook", &hook, &well, &down]].concat(), 3);
    assert_eq!(text.matches("WRONG: status 503").count(), 3, "{text}");
    let told = server.access_lines(1).iter().filter(|line| line.contains("POST /login?hook")).count();
    assert_eq!(told, 1, "one alert, when it began: {:?}", server.access_log());
    let chart = printed(&["probe", "--show", "--store", store], 0);
    assert!(
        chart.contains("6 looks, 100.00 % good") && chart.contains("×××  3 looks, 0.00 % good"),
        "{chart}"
    );
    printed(&["probe", "--store", "-", "--slower", "1ms", "--contains", "nowhere", &well], 3);
}

/// Each page has its own clock: one that never answers is given up after its time, and the other is looked at meanwhile.
#[test]
fn a_page_that_hangs_delays_no_other() {
    let server = server();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (hangs, well) = (
        format!("http://{}/", silent.local_addr().unwrap()),
        format!("http://127.0.0.1:{}/a.txt", server.port()),
    );
    let args =
        ["probe", "--store", "-", "--every", "50ms", "--count", "2", "--max-time", "4s", &hangs, &well];
    let text = printed(&args, 3);
    let pages: Vec<bool> = text.lines().map(|line| line.contains("WRONG")).collect();
    assert_eq!(pages, [false, false, true, true], "{text}");
}

/// An alert has a beginning and an end, and both are told.
#[test]
fn a_webhook_hears_when_it_is_over() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (told, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut looks = 0;
        for mut stream in listener.incoming().flatten() {
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                request.extend_from_slice(&buffer[..count]);
                // A post is whole when its JSON is.
                if request.starts_with(b"GET") || request.ends_with(b"}") {
                    break;
                }
            }
            let text = String::from_utf8_lossy(&request).into_owned();
            looks += usize::from(text.starts_with("GET"));
            let is_down = text.starts_with("GET") && looks <= 2;
            let status = if is_down { "503 Down" } else { "200 OK" };
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            // The probe may have ended as soon as it has its answer.
            if text.starts_with("POST") {
                let _ = told.send(text);
            }
            let _ = stream.write_all(head.as_bytes());
        }
    });
    let args = ["probe", "--store", "-", "--every", "100ms", "--count", "4", "--webhook", &url, &url];
    printed(&args, 3);
    let posts: Vec<Value> = heard
        .try_iter()
        .map(|post| serde_json::from_str(post.split_once("\r\n\r\n").unwrap().1).unwrap())
        .collect();
    let states: Vec<_> = posts.iter().map(|post| post["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["wrong", "well"], "{posts:?}");
    assert!(
        posts[0]["text"].as_str().unwrap().contains("503") && posts[0]["url"] == url.as_str(),
        "{posts:?}"
    );
}
