//! `brisk bench -3`.

use super::{BIN, bench, figures};
use brisk_testkit::relay::{Relay, Weather};
use brisk_testkit::{Builder, Server, ports};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

fn conf(lines: &str) -> String {
    format!(
        "keepalive_requests 1000000;
        ssl_certificate {{{{DIR}}}}/a.crt;
        ssl_certificate_key {{{{DIR}}}}/a.key;
        server {{
            listen 127.0.0.1:{{{{PORT}}}} quic;
            listen 127.0.0.1:{{{{PORT}}}} ssl;
            {lines}
            location /upload {{ client_max_body_size 10m; return 200 $content_length; }}
            location /login {{ add_header Set-Cookie \"sid=s1; Path=/\"; return 200 hello; }}
            location /me {{ if ($http_cookie != \"sid=s1\") {{ return 403; }} return 200 hello; }}
            location / {{ }}
        }}"
    )
}

fn server(lines: &str) -> Server {
    let large = "0123456789abcdef".repeat(20_000);
    let files = Builder::new(BIN)
        .http(&conf(lines))
        .file("html/a.txt", "a".repeat(100))
        .file("html/large.bin", large);
    files.certificate("localhost").start()
}

fn url(port: u16, path: &str) -> String {
    format!("https://127.0.0.1:{port}{path}")
}

#[test]
fn loops_and_streams() {
    let server = server("");
    let (small, large) = (url(server.port(), "/a.txt"), url(server.port(), "/large.bin"));
    let check = |args: &[&str], connects: u64| {
        let all = figures(&[&["-3", "-n", "120", "-c", "6", "-t", "2"], args].concat());
        assert_eq!((&all["responses"], &all["non_2xx"]), (&120.into(), &0.into()), "{args:?}: {all}");
        assert!(all["errors"].as_object().unwrap().values().all(|count| *count == 0), "{args:?}: {all}");
        let made = all["connects"].as_u64().unwrap();
        assert!((connects..=connects + 6).contains(&made), "{args:?}: {made}");
        let sent = all["quic"]["packets_sent"].as_u64().unwrap();
        assert!(sent > 12 && all["quic"]["datagrams_received"].as_u64() > Some(12), "{args:?}: {all}");
        all
    };
    check(&[&small], 6);
    // More than the server allows at first.
    check(&["-m", "20", &small], 6);
    check(&["-m", "5", &large], 6);
    let resumed = check(&["--no-keepalive", &small], 120);
    assert!(resumed["handshake_us"]["p50"].as_f64() > Some(0.0), "{resumed}");
    check(&["--think", "1ms..2ms", &small], 6);
    // Two users ask twice each, and pause between.
    let paused = figures(&["-3", "-n", "4", "-c", "2", "--no-keepalive", "--think", "500ms", &small]);
    assert!(paused["connects"] == 4 && paused["seconds"].as_f64() >= Some(0.5), "{paused}");
    check(&["--rate", "500", "-m", "4", &small], 6);
    let promised = ["--slo", "errors<1%", &small];
    assert_eq!(check(&promised, 6)["verdict"], "holds");
}

#[test]
fn bodies_and_cookies() {
    let server = server("");
    let file = server.write("up.bin", vec![b'x'; 300_000]);
    let upload = url(server.port(), "/upload");
    let all = figures(&["-3", "-n", "12", "-c", "2", "-m", "3", "-T", file.to_str().unwrap(), &upload]);
    assert_eq!((&all["responses"], &all["non_2xx"]), (&12.into(), &0.into()), "{all}");
    assert!(server.access_log().lines().all(|line| line.contains("\"PUT /upload HTTP/3.0\" 200 6")));
    let (login, me) = (url(server.port(), "/login"), url(server.port(), "/me"));
    let all = figures(&["-3", "-n", "20", "-c", "1", "--jar", &login, &me]);
    assert_eq!((&all["responses"], &all["non_2xx"]), (&20.into(), &0.into()), "{all}");
}

/// RFC 9001 §4.6: the first visit brings the session; later ones ask with their first packets.
#[test]
fn requests_go_with_the_first_packets() {
    let server = server("ssl_early_data on;");
    let small = url(server.port(), "/a.txt");
    let all = figures(&["-3", "--0rtt", "--no-keepalive", "-n", "60", "-c", "2", &small]);
    assert_eq!((&all["responses"], &all["non_2xx"]), (&60.into(), &0.into()), "{all}");
    assert!(all["quic"]["early_accepted"].as_u64() > Some(10), "{all}");
    let without = figures(&["-3", "--no-keepalive", "-n", "20", "-c", "2", &small]);
    assert_eq!(without["quic"]["early_accepted"], 0, "{without}");
}

/// RFC 9001 §4.6.2: what the server does not take is sent again by the client's library.
#[test]
fn what_was_not_taken_early_is_sent_again() {
    let mut server = server("ssl_early_data on;");
    let small = url(server.port(), "/a.txt");
    let args =
        ["bench", "-q", "--json", "-3", "--0rtt", "--no-keepalive", "--rate", "50", "-d", "4s", "-c", "2"];
    let run =
        Command::new(BIN).args(args).arg(&small).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    server.access_lines(20);
    server.configure_http("", &conf("ssl_early_data off;"));
    server.reload();
    let output = run.wait_with_output().unwrap();
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(all["quic"]["early_refused"].as_u64() > Some(0), "{all}");
    assert!(all["errors"].as_object().unwrap().values().all(|count| *count == 0), "{all}");
    assert_eq!(all["non_2xx"], 0, "{all}");
}

#[test]
fn connections_move_to_other_ports() {
    let server = server("");
    let small = url(server.port(), "/a.txt");
    let all = figures(&["-3", "--migrate", "100ms", "-d", "1s", "-c", "2", "-m", "4", &small]);
    assert!(all["quic"]["moves"].as_u64() >= Some(4), "{all}");
    assert_eq!((&all["connects"], &all["non_2xx"]), (&2.into(), &0.into()), "{all}");
    assert!(all["errors"].as_object().unwrap().values().all(|count| *count == 0), "{all}");
}

#[test]
fn losses_are_counted_and_mended() {
    let server = server("");
    let weather = Weather { lost: 100, ..Weather::default() };
    let relay = Relay::new(SocketAddr::from(([127, 0, 0, 1], server.port())), 7, weather);
    let small = url(relay.address.port(), "/a.txt");
    let all = figures(&["-3", "-n", "200", "-c", "2", "-m", "4", "--timeout", "60s", &small]);
    assert_eq!((&all["responses"], &all["non_2xx"]), (&200.into(), &0.into()), "{all}");
    assert!(all["quic"]["packets_lost"].as_u64() > Some(0), "{all}");
    let output = bench(&["-q", "-3", "-n", "20", "-c", "2", "--timeout", "60s", &small]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("QUIC: packets sent ") && text.contains("lost and sent again "), "{text}");
}

#[test]
fn what_stands_in_the_way_is_named() {
    let server = server("http3 off;");
    let output = bench(&["-q", "-3", "-n", "3", "-c", "1", &url(server.port(), "/a.txt")]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.code() == Some(2) && text.contains("status 421: 3"), "{text}");
    let output = bench(&["-q", "-3", "-n", "3", "-c", "1", &url(ports::unused(), "/")]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.code() == Some(2) && text.contains("refused: "), "{text}");
    for (args, why) in [
        (vec!["-3", "http://127.0.0.1:1/"], "HTTP/3 needs https"),
        (vec!["-3", "-x", "127.0.0.1:1", "https://127.0.0.1:1/"], "neither unix sockets nor proxies"),
        (vec!["-3", "https://unix:/s.sock:/"], "neither unix sockets nor proxies"),
        (vec!["--0rtt", "https://127.0.0.1:1/"], "--http3"),
        (vec!["-2", "-3", "https://127.0.0.1:1/"], "cannot be used with"),
    ] {
        let output = bench(&args);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && text.contains(why), "{args:?}: {text}");
    }
}
