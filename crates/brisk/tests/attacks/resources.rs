//! Clients that take time, memory or places from others.

use super::{BIN, resident};
use brisk_testkit::client::Ending;
use brisk_testkit::{Builder, Client, H2Client, Server};
use std::time::{Duration, Instant};

/// Short times, so that tests need not wait.
fn impatient() -> Server {
    Builder::new(BIN)
        .http(
            "server { listen 127.0.0.1:{{PORT}}; http2 on; client_header_timeout 1s; client_body_timeout 1s; send_timeout 1s; keepalive_timeout 1s;
                 client_max_body_size 0; client_body_early_read 1; location = /who { return 200 who; } location /up { return 200 x; } }",
        )
        .file("html/large", vec![b'x'; 64 << 20])
        .start()
}

/// The connection ends by itself.
fn ends(client: &mut Client) {
    let mut sink = vec![0; 64 << 10];
    let until = Instant::now() + Duration::from_secs(30);
    while Instant::now() < until {
        match client.read_some(&mut sink, Duration::from_secs(30)) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
    panic!("still open");
}

#[test]
fn heads_that_come_a_byte_at_a_time() {
    let server = impatient();
    let mut slow: Vec<Client> = (0..200).map(|_| server.client()).collect();
    let begin = Instant::now();
    // A byte now and then does not prolong the time for a head.
    for byte in "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\r\nX-B: c\r\n".bytes().cycle() {
        if begin.elapsed() > Duration::from_millis(1500) {
            break;
        }
        slow.iter_mut().for_each(|client| _ = client.try_send([byte]));
        assert_eq!(server.get("/who").text(), "who");
    }
    slow.iter_mut().for_each(ends);
}

#[test]
fn bodies_that_do_not_come() {
    let server = impatient();
    let mut slow: Vec<Client> = (0..200).map(|_| server.client()).collect();
    slow.iter_mut()
        .for_each(|client| client.send("POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nx"));
    assert_eq!(server.get("/who").text(), "who");
    slow.iter_mut().for_each(ends);
}

#[test]
fn answers_that_nobody_takes() {
    let server = impatient();
    let memory = resident(&server);
    let mut slow: Vec<Client> = (0..100).map(|_| Client::connect_narrow(server.port())).collect();
    slow.iter_mut().for_each(|client| client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!(server.get("/who").text(), "who");
    assert!(resident(&server) < memory + (100 << 20));
    brisk_testkit::wait::holds("the connections are given up", || {
        brisk_testkit::process::descriptors(server.worker()) < 60
    });
}

#[test]
fn requests_without_end_and_no_answer_taken() {
    let server = impatient();
    let memory = resident(&server);
    let mut client = Client::connect_narrow(server.port());
    let many = "GET /who HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1000);
    for _ in 0..100 {
        if client.try_send(&many).is_err() {
            break;
        }
        if client.ending(Duration::from_millis(1)) == Ending::Closed {
            break;
        }
    }
    assert!(resident(&server) < memory + (32 << 20));
    assert_eq!(server.get("/who").text(), "who");
}

#[test]
fn fields_and_targets_of_any_length() {
    let server = impatient();
    for (bytes, wanted) in [
        (format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(1 << 20)), 414),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(1 << 20)), 400),
        (format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(100_000)), 400),
        (format!("{} / HTTP/1.1\r\nHost: a\r\n\r\n", "G".repeat(1 << 20)), 400),
    ] {
        let mut client = server.client();
        let _ = client.try_send(bytes);
        if let Ok(response) = client.try_response("GET") {
            assert!(
                response.status == wanted || response.status == 431 || response.status == 414,
                "{}",
                response.status
            );
        }
    }
    assert_eq!(server.get("/who").text(), "who");
}

#[test]
fn a_window_that_opens_byte_by_byte() {
    let server = impatient();
    let memory = resident(&server);
    let mut clients: Vec<H2Client> = (0..20)
        .map(|_| {
            let settings = brisk_h2::Settings {
                initial_window_size: 1,
                enable_push: false,
                ..brisk_h2::Settings::default()
            };
            let mut client = H2Client::with(server.port(), settings);
            client.reads = false;
            (0..20).for_each(|_| _ = client.begin(&H2Client::get_fields("/large"), true));
            client
        })
        .collect();
    for _ in 0..20 {
        for client in &mut clients {
            client.careless = true;
            client.raw(&[0, 0, 4, 8, 0, 0, 0, 0, 1, 0, 0, 0, 1]);
        }
    }
    assert_eq!(server.get("/who").text(), "who");
    assert!(resident(&server) < memory + (128 << 20));
}

#[test]
fn patterns_that_backtrack() {
    let server = Builder::new(BIN)
        .http(
            r"server { listen 127.0.0.1:{{PORT}}; location ~ ^/(a+)+$ { return 200 x; } location ~ ^/((a|aa)+)\1$ { return 200 y; }
                 location = /who { return 200 who; } location / { return 404; } }",
        )
        .allow_alerts("pcre2_match")
        .start();
    let start = Instant::now();
    for n in 0..20 {
        let response = server.get(&format!("/{}b", "a".repeat(2000 + n)));
        assert!(matches!(response.status, 404 | 500), "{}", response.status);
    }
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!(server.get("/who").text(), "who");
}
