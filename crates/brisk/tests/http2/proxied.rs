//! HTTP/2 in front of a back end that speaks HTTP/1.1.

use super::bin;
use brisk_testkit::backend::Backend;
use brisk_testkit::{Builder, H2Client, Server};

fn server(backend: &Backend, location: &str) -> Server {
    let conf = format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; http2 on; location / {{ proxy_pass http://127.0.0.1:{}; {location} }} }}",
        backend.port()
    );
    Builder::new(bin()).http(&conf).start()
}

#[test]
fn header_fields_without_a_value_are_passed_on() {
    let backend = Backend::start(|mut peer| {
        while peer.head().is_some() {
            peer.send("HTTP/1.1 200 OK\r\nX-Empty: \r\nX-Full: 1\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let server = server(&backend, "");
    let answer = H2Client::connect(server.port()).get("/");
    assert_eq!((answer.field("x-empty"), answer.field("x-full")), (Some(""), Some("1")));
}

/// RFC 9113 §8.1: who announces a body of no bytes has still not said that the request is over.
#[test]
fn a_length_of_zero_does_not_end_a_request() {
    let backend = Backend::start(|mut peer| {
        while let Some(head) = peer.head() {
            let target = head.split(' ').nth(1).unwrap_or_default().to_string();
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{target}", target.len()));
        }
    });
    let server = server(&backend, "");
    let mut client = H2Client::connect(server.port());
    let mut fields = H2Client::get_fields("/first");
    fields[0].1 = "POST";
    fields.push(("content-length", "0"));
    let open = client.begin(&fields, false);
    for _ in 0..20 {
        assert_eq!(client.get("/second").text(), "/second");
    }
    assert_eq!(client.answers[&open].status, 0, "nothing before its end");
    client.send(open, b"", true);
    assert_eq!(client.wait(open).text(), "/first");
}

const UPGRADE: &str =
    "proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;";

/// RFC 8441 §5: what a client asks for by extended CONNECT is an upgrade to the back end.
#[test]
fn websockets_reach_a_back_end() {
    let backend = Backend::start(|mut peer| {
        let asked = peer.head().unwrap_or_default();
        let head = asked.to_ascii_lowercase();
        assert!(head.starts_with("get /chat?room=1 http/1.1\r\n"), "{head}");
        for field in ["upgrade: websocket\r\n", "connection: upgrade\r\n", "sec-websocket-version: 13\r\n"] {
            assert!(head.contains(field), "{head}");
        }
        assert!(head.contains("sec-websocket-key: ") && !head.contains("content-length"), "{head}");
        peer.switch(&asked, "websocket");
        peer.send("hi ");
        loop {
            let bytes = peer.some();
            if bytes.is_empty() {
                break;
            }
            peer.send(bytes.to_ascii_uppercase());
        }
        peer.send("bye");
    });
    let server = server(&backend, UPGRADE);
    let mut client = H2Client::connect(server.port());
    let fields = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":path", "/chat?room=1"),
        (":authority", "localhost"),
        ("sec-websocket-version", "13"),
    ];
    let stream = client.begin(&fields, false);
    client.until(|client| client.answers[&stream].body == b"hi ");
    let answer = &client.answers[&stream];
    assert_eq!((answer.status, answer.field("upgrade"), answer.field("connection")), (200, None, None));
    assert!(!answer.ended);
    for (sent, all) in [("one", "hi ONE"), ("two", "hi ONETWO")] {
        client.send(stream, sent.as_bytes(), false);
        client.until(|client| client.answers[&stream].text() == all);
    }
    // Other streams go on beside it.
    let large = vec![b'x'; 300_000];
    client.send(stream, &large, true);
    let answer = client.wait(stream);
    assert!(answer.ended && answer.reset.is_none());
    assert_eq!(answer.text(), format!("hi ONETWO{}bye", "X".repeat(large.len())));
}

#[test]
fn a_websocket_that_is_cancelled_frees_its_back_end() {
    let (told, hears) = std::sync::mpsc::channel();
    let told = std::sync::Mutex::new(told);
    let backend = Backend::start(move |mut peer| {
        let head = peer.head().unwrap_or_default();
        peer.switch(&head, "websocket");
        peer.send("hi");
        peer.drain();
        let _ = told.lock().unwrap().send(());
    });
    let server = server(&backend, UPGRADE);
    let mut client = H2Client::connect(server.port());
    let mut fields = H2Client::get_fields("/");
    fields[0].1 = "CONNECT";
    fields.insert(1, (":protocol", "websocket"));
    let stream = client.begin(&fields, false);
    client.until(|client| client.answers[&stream].body == b"hi");
    client.cancel(stream);
    hears.recv_timeout(brisk_testkit::wait::DEADLINE).expect("the back end's connection is closed");
}

/// RFC 8441 §5: the end of one side is END_STREAM; what the client sends on the stream still reaches the back end.
#[test]
fn a_back_end_that_has_said_all_still_listens() {
    let (told, hears) = std::sync::mpsc::channel();
    let told = std::sync::Mutex::new(told);
    let backend = Backend::start(move |mut peer| {
        let head = peer.head().unwrap_or_default();
        peer.switch(&head, "websocket");
        peer.send("bye");
        if head.starts_with("GET /closed ") {
            return;
        }
        peer.half_close();
        let _ = told.lock().unwrap().send(peer.drain());
    });
    let server = server(&backend, &format!("{UPGRADE} proxy_read_timeout 1h;"));
    let mut client = H2Client::connect(server.port());
    let begin = |client: &mut H2Client, path| {
        let mut fields = H2Client::get_fields(path);
        fields[0].1 = "CONNECT";
        fields.insert(1, (":protocol", "websocket"));
        let stream = client.begin(&fields, false);
        client.until(|client| client.answers[&stream].ended);
        let answer = &client.answers[&stream];
        assert_eq!((answer.status, answer.text().as_str(), answer.reset), (200, "bye", None));
        stream
    };
    let stream = begin(&mut client, "/");
    // More than fits into the stream's window at once.
    client.send(stream, &vec![b'x'; 300_000], false);
    client.send(stream, b"mine!", true);
    let patience = brisk_testkit::wait::DEADLINE;
    assert_eq!(hears.recv_timeout(patience).expect("the end arrives, too"), 300_005);

    // Nobody listens: the client is told to stop (RFC 9113 §8.1).
    let stream = begin(&mut client, "/closed");
    client.send(stream, b"is anybody there?", false);
    client.until(|client| client.answers[&stream].reset.is_some());
    assert_eq!(client.answers[&stream].reset, Some(brisk_h2::ErrorCode::NO_ERROR));

    // Nothing else was touched by that, and a client that goes frees the back end.
    begin(&mut client, "/");
    drop(client);
    assert_eq!(hears.recv_timeout(patience).expect("it is closed"), 0);
}

/// A WebSocket outlives the configuration it came with, and ends when both are silent for `proxy_read_timeout`.
#[test]
fn a_websocket_survives_a_reload_and_ends_when_it_is_silent() {
    let backend = Backend::start(|mut peer| {
        let head = peer.head().unwrap_or_default();
        peer.switch(&head, "websocket");
        peer.send("hi ");
        loop {
            let bytes = peer.some();
            if bytes.is_empty() {
                return;
            }
            peer.send(bytes.to_ascii_uppercase());
        }
    });
    let begin = |client: &mut H2Client| {
        let mut fields = H2Client::get_fields("/");
        fields[0].1 = "CONNECT";
        fields.insert(1, (":protocol", "websocket"));
        let stream = client.begin(&fields, false);
        client.until(|client| client.answers[&stream].body == b"hi ");
        stream
    };
    let lasting = server(&backend, UPGRADE);
    let mut client = H2Client::connect(lasting.port());
    let stream = begin(&mut client);
    lasting.reload();
    client.send(stream, b"still", false);
    client.until(|client| client.answers[&stream].text() == "hi STILL");

    let hasty = server(&backend, &format!("{UPGRADE} proxy_read_timeout 1s;"));
    let mut client = H2Client::connect(hasty.port());
    let stream = begin(&mut client);
    client.until(|client| client.answers[&stream].ended || client.answers[&stream].reset.is_some());
    hasty.wait_for_log(
        "upstream timed out \\(110: Connection timed out\\) while proxying upgraded connection",
    );
}

/// RFC 8297: what a back end hints at, and what is hinted at here.
#[test]
fn early_hints_come_before_the_answer() {
    let backend = Backend::start(|mut peer| {
        while peer.head().is_some() {
            peer.send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n");
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let server = server(&backend, "early_hints $http_x_hints;");
    let mut client = H2Client::connect(server.port());
    let mut fields = H2Client::get_fields("/");
    fields.push(("x-hints", "1"));
    let stream = client.begin(&fields, true);
    let answer = client.wait(stream);
    assert_eq!((answer.status, answer.text().as_str()), (200, "ok"));
    let link = ("link".to_string(), "</a.css>; rel=preload".to_string());
    assert!(matches!(&answer.interim[..], [(103, fields)] if fields.contains(&link)), "{:?}", answer.interim);
    // Who has not asked gets none.
    assert!(client.get("/").interim.is_empty());
}
