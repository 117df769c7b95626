//! HTTP/2 (RFC 9113): what is translated for back ends, and streams that are not what they say.

use super::{Site, recording, site};
use brisk_h2::frame::{flag, kind, write_head};
use brisk_h2::{ErrorCode, Settings};
use brisk_testkit::h2::Answer;
use brisk_testkit::{Backend, Builder, H2Client, H2Peer};
use std::time::Duration;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_head(payload.len(), kind, flags, stream, &mut out);
    out.extend_from_slice(payload);
    out
}

fn h2() -> Site {
    site("http2 on;")
}

/// One request with these fields on a connection of its own.
fn ask(site: &Site, fields: &[(&str, &str)], body: &[u8]) -> Answer {
    let mut client = H2Client::connect(site.server.port());
    let stream = client.begin(fields, body.is_empty());
    if !body.is_empty() {
        client.send(stream, body, true);
    }
    client.until(|client| {
        client.closed
            || client.goaway.is_some()
            || client.answers[&stream].ended
            || client.answers[&stream].reset.is_some()
    });
    client.answers[&stream].clone()
}

/// It is refused, and the back end hears nothing of it.
fn refused(site: &Site, fields: &[(&str, &str)], body: &[u8]) {
    let answer = ask(site, fields, body);
    assert!(answer.status == 400 || answer.status == 0, "{} for {fields:?}", answer.status);
    assert!(site.seen().is_empty(), "{:?} for {fields:?}", site.seen());
}

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/api/a")];

fn get_with<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    GET.iter().chain(more).copied().collect()
}

#[test]
fn line_ends_in_fields() {
    let site = h2();
    for (name, value) in [
        ("x", "a\r\nx-injected: 1"),
        ("x", "a\nb"),
        ("x", "a\0b"),
        ("x", "a\rb"),
        ("x\r\ny", "a"),
        ("x: y", "a"),
        ("x y", "a"),
        ("", "a"),
        ("X-Upper", "a"),
    ] {
        refused(&site, &get_with(&[(name, value)]), b"");
    }
    for method in ["GET /admin HTTP/1.1\r\nx:", "G ET", "", "GET\r\n"] {
        let mut fields = GET;
        fields[0].1 = method;
        refused(&site, &fields, b"");
    }
    for path in ["/api/a HTTP/1.1\r\nx: y", "/api/ b", "", "api/a", "/api/a\r\n", "*"] {
        let mut fields = GET;
        fields[3].1 = path;
        refused(&site, &fields, b"");
    }
    for authority in ["a\r\nx: y", "a/b", "a b", "user@a", "a?b"] {
        let mut fields = GET;
        fields[2].1 = authority;
        refused(&site, &fields, b"");
    }
    for scheme in ["http://evil/?", "ht tp", ""] {
        let mut fields = GET;
        fields[1].1 = scheme;
        let answer = ask(&site, &fields, b"");
        assert!(matches!(answer.status, 0 | 200 | 400), "{scheme}: {}", answer.status);
    }
    assert!(site.seen().iter().all(|request| !request.contains("evil")), "{:?}", site.seen());
}

#[test]
fn fields_of_a_connection() {
    let site = h2();
    for field in [
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("keep-alive", "1"),
        ("proxy-connection", "x"),
        ("upgrade", "h2c"),
        ("te", "gzip"),
    ] {
        refused(&site, &get_with(&[field]), b"");
    }
}

#[test]
fn bodies_that_are_not_as_long_as_they_say() {
    let site = h2();
    let mut post = GET;
    post[0].1 = "POST";
    for (length, body) in [
        ("0", &b"GET /admin HTTP/1.1\r\n\r\n"[..]),
        ("100", b"short"),
        ("x", b"12345"),
        ("+5", b"12345"),
        ("5, 5", b"12345"),
    ] {
        let mut fields = post.to_vec();
        fields.push(("content-length", length));
        let answer = ask(&site, &fields, body);
        assert!(answer.status >= 400 || answer.status == 0, "{length}: {}", answer.status);
    }
    let mut fields = post.to_vec();
    fields.extend([("content-length", "5"), ("content-length", "6")]);
    let answer = ask(&site, &fields, b"12345");
    assert!(answer.status >= 400 || answer.status == 0);
    assert!(site.seen().iter().all(|request| !request.contains("/admin")), "{:?}", site.seen());
}

#[test]
fn an_authority_against_the_host_field() {
    let site = h2();
    let answer = ask(&site, &get_with(&[("host", "evil.example")]), b"");
    assert!(matches!(answer.status, 0 | 200 | 400), "{}", answer.status);
    assert!(site.seen().iter().all(|request| !request.contains("evil")), "{:?}", site.seen());
}

#[test]
fn pseudo_fields_that_are_doubled_missing_or_late() {
    let site = h2();
    refused(&site, &get_with(&[(":path", "/admin")]), b"");
    refused(&site, &get_with(&[("x", "y"), (":path", "/admin")]), b"");
    refused(&site, &get_with(&[(":status", "200")]), b"");
    refused(&site, &get_with(&[(":unknown", "x")]), b"");
    refused(&site, &GET[1..], b"");
    refused(&site, &GET[..3], b"");
    refused(&site, &[GET[0], GET[2], GET[3]], b"");
}

#[test]
fn anything_but_a_websocket_answers_an_extended_connect() {
    let site = site(
        "http2 on; location /ws/ { proxy_pass http://back; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }",
    );
    for path in ["/files/a.txt", "/who", "/api/a", "/ws/a", "/missing", "/closed", "/files/"] {
        let fields = [
            (":method", "CONNECT"),
            (":protocol", "websocket"),
            (":scheme", "http"),
            (":authority", "a"),
            (":path", path),
            ("sec-websocket-version", "13"),
            ("origin", "http://a"),
        ];
        let mut client = H2Client::connect(site.server.port());
        // The server must have said that it knows extended CONNECT.
        client.get("/who");
        let stream = client.begin(&fields, false);
        client.until(|client| {
            client.answers[&stream].status > 0 || client.answers[&stream].reset.is_some() || client.closed
        });
        let status = client.answers[&stream].status;
        assert!(status == 0 || status >= 400, "{path}: {status}");
    }
}

#[test]
fn a_stream_that_is_used_again() {
    let site = h2();
    let mut client = H2Client::connect(site.server.port());
    client.careless = true;
    let head = |stream: u32| {
        frame(
            kind::HEADERS,
            flag::END_STREAM | flag::END_HEADERS,
            stream,
            &[&[0x82, 0x86, 0x04, 4][..], b"/who", &[0x01, 1, b'a']].concat(),
        )
    };
    client.raw(&[head(3), head(3)].concat());
    assert!(matches!(client.ending(), Some(ErrorCode::STREAM_CLOSED | ErrorCode::PROTOCOL_ERROR)));
    for stream in [1, 2, 0] {
        let mut client = H2Client::connect(site.server.port());
        client.careless = true;
        client.raw(&[head(5), head(stream)].concat());
        assert!(
            matches!(client.ending(), Some(ErrorCode::STREAM_CLOSED | ErrorCode::PROTOCOL_ERROR)),
            "{stream}"
        );
    }
    site.still_serves();
}

#[test]
fn a_stream_that_is_reset_as_it_begins() {
    let site = h2();
    // Apache freed the stream of these two frames twice.
    for code in [1u32, 8, 0xffff_ffff] {
        let mut client = H2Client::connect(site.server.port());
        let block = [&[0x82, 0x86, 0x04, 6][..], b"/api/a", &[0x01, 1, b'a']].concat();
        for n in 0..20 {
            let stream = 2 * n + 1;
            client.raw(
                &[
                    frame(kind::HEADERS, flag::END_HEADERS, stream, &block),
                    frame(kind::RST_STREAM, 0, stream, &code.to_be_bytes()),
                ]
                .concat(),
            );
        }
    }
    site.still_serves();
}

#[test]
fn frames_shorter_than_their_flags() {
    let site = h2();
    for bytes in [
        frame(kind::HEADERS, flag::PRIORITY | flag::END_HEADERS, 1, &[0, 0, 0]),
        frame(kind::HEADERS, flag::PADDED | flag::END_HEADERS, 1, &[200, 0x82]),
        frame(kind::HEADERS, flag::PADDED | flag::END_HEADERS, 1, &[]),
        frame(kind::DATA, flag::PADDED, 1, &[9, 1]),
        frame(kind::RST_STREAM, 0, 1, &[0]),
        frame(kind::SETTINGS, 0, 0, &[0; 5]),
        frame(kind::SETTINGS, 1, 0, &[0; 6]),
        frame(kind::PING, 0, 0, &[0; 7]),
        frame(kind::WINDOW_UPDATE, 0, 0, &[0; 3]),
        frame(kind::PRIORITY, 0, 1, &[0; 4]),
        frame(kind::GOAWAY, 0, 0, &[0; 7]),
    ] {
        let mut client = H2Client::connect(site.server.port());
        client.careless = true;
        client.raw(&bytes);
        assert!(client.ending().is_some(), "{bytes:?}");
    }
    site.still_serves();
}

#[test]
fn settings_that_no_peer_may_have() {
    let site = h2();
    for (setting, value) in [(5u16, 0u32), (5, 16_383), (5, 1 << 24), (4, 1 << 31), (2, 2), (8, 2)] {
        let mut client = H2Client::connect(site.server.port());
        client.careless = true;
        let payload = [&setting.to_be_bytes()[..], &value.to_be_bytes()].concat();
        client.raw(&frame(kind::SETTINGS, 0, 0, &payload));
        assert!(client.ending().is_some(), "{setting}={value}");
    }
    site.still_serves();
}

/// A request to this back end of HTTP/2 is answered with 502, and others are served as ever.
fn is_a_bad_gateway(backend: &Backend) {
    let conf = format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; location / {{ proxy_pass http://127.0.0.1:{}; proxy_http_version 2; }} location = /who {{ return 200 who; }} }}",
        backend.port()
    );
    let server = Builder::new(super::BIN).http(&conf).start();
    assert_eq!(server.get("/").status, 502);
    assert_eq!(server.get("/who").text(), "who");
}

#[test]
fn settings_of_a_back_end_that_no_peer_may_have() {
    // Go's client looped for ever over a largest frame of 0.
    let backend = Backend::start(|mut peer| {
        peer.some();
        peer.send(frame(kind::SETTINGS, 0, 0, &[0, 5, 0, 0, 0, 0]));
        peer.drain();
    });
    is_a_bad_gateway(&backend);
}

#[test]
fn an_interim_answer_that_ends_the_stream() {
    let backend = Backend::start(|peer| {
        let mut peer = H2Peer::new(peer, Settings::default());
        while let Some(request) = peer.request() {
            peer.fields(request.stream, &[(":status", "103")], true);
        }
    });
    is_a_bad_gateway(&backend);
}

#[test]
fn a_body_that_breaks_out_of_its_frames() {
    // A body that proxy_set_body makes was written where frames were expected.
    let backend = Backend::start(|peer| {
        let mut peer = H2Peer::new(peer, Settings::default());
        while let Some(request) = peer.request() {
            let body = if request.ended { Vec::new() } else { peer.rest() };
            let count = body.len().to_string();
            peer.fields(request.stream, &[(":status", "200"), ("x-body", &count)], true);
        }
    });
    let conf = format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; client_body_buffer_size 64k; large_client_header_buffers 4 128k; ignore_invalid_headers off;
             location / {{ proxy_pass http://127.0.0.1:{}; proxy_http_version 2; proxy_set_body $request_body; }} }}",
        backend.port()
    );
    let server = Builder::new(super::BIN).http(&conf).start();
    // What would be the head of a frame, at a length that needs several frames.
    let body = [&b"\0\0\x04\x08\0\0\0\0\0"[..], &vec![b'x'; 40_000]].concat();
    let head =
        format!("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    let response = server.request([head.as_bytes(), &body].concat());
    assert_eq!((response.status, response.header("x-body")), (200, Some("40009")));
    // Fields near the limits of a frame.
    for size in [16_300, 16_384, 40_000, 65_000] {
        let long = "v".repeat(size);
        let response = server.request(format!(
            "GET / HTTP/1.1\r\nHost: a\r\nX-Long: {long}\r\nX-Other: {long}\r\nConnection: close\r\n\r\n"
        ));
        assert!(matches!(response.status, 200 | 502), "{size}: {}", response.status);
    }
}

#[test]
fn many_small_fields() {
    let site = h2();
    let fields: Vec<(String, String)> = (0..4000).map(|n| (format!("x{n}"), String::new())).collect();
    let fields: Vec<(&str, &str)> =
        fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let start = std::time::Instant::now();
    for _ in 0..20 {
        let answer = ask(&site, &get_with(&fields[..900]), b"");
        assert!(matches!(answer.status, 0 | 200 | 400 | 431), "{}", answer.status);
    }
    assert!(start.elapsed() < Duration::from_secs(10));
    site.still_serves();
}

#[test]
fn an_upgrade_with_frames_behind_it() {
    let site = h2();
    let mut bytes = b"GET /who HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n".to_vec();
    bytes.extend_from_slice(brisk_h2::PREFACE);
    bytes.extend(frame(kind::SETTINGS, 0, 0, &[]));
    bytes.extend(frame(kind::DATA, 0, 1, &[0; 16_000]));
    let statuses = site.statuses(bytes);
    assert_eq!(statuses.first(), Some(&200));
    site.still_serves();
}

#[test]
fn what_h2_hides_from_a_back_end_of_http_1() {
    let (backend, seen) = recording();
    let conf = format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; http2 on; location / {{ proxy_pass http://127.0.0.1:{}; proxy_request_buffering off; }} }}",
        backend.port()
    );
    let server = Builder::new(super::BIN).http(&conf).start();
    let mut client = H2Client::connect(server.port());
    let stream = client
        .begin(&[(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/x")], false);
    client.send(stream, b"0\r\n\r\nGET /admin HTTP/1.1\r\nHost: a\r\n\r\n", false);
    client.trailers(stream, &[("content-length", "9"), ("x-forwarded-for", "6.6.6.6")]);
    let answer = client.wait(stream);
    assert!(matches!(answer.status, 200 | 400), "{}", answer.status);
    for request in seen.lock().unwrap().iter() {
        assert!(request.starts_with("POST /x ") && !request.contains("6.6.6.6"), "{request}");
    }
}

#[test]
fn frames_of_types_that_are_not_known() {
    let site = h2();
    // 0x10 is PRIORITY_UPDATE (RFC 9218 §7.1).
    for unknown in (0x0a..=0x1f).filter(|kind| *kind != 0x10) {
        for stream in [0, 1, 7] {
            let mut client = H2Client::connect(site.server.port());
            client.raw(&frame(unknown, 0xff, stream, &[0; 20]));
            // RFC 9113 §5.5: they are ignored.
            assert_eq!(client.get("/who").text(), "who", "{unknown:#x} {stream}");
        }
    }
}

#[test]
fn frames_after_the_end_of_a_connection() {
    let site = h2();
    for first in [
        frame(kind::PING, 0, 1, &[0; 8]),
        frame(kind::WINDOW_UPDATE, 0, 0, &[0; 4]),
        frame(kind::DATA, 0, 0, b"x"),
    ] {
        let mut client = H2Client::connect(site.server.port());
        client.careless = true;
        // The first ends the connection; what follows in the same read must not be taken up again.
        let more = [
            frame(kind::SETTINGS, 0, 0, &[0; 5]),
            frame(0x10, 0, 0, &[0; 3]),
            frame(kind::HEADERS, 4, 1, &[0xff; 9]),
        ];
        client.raw(&[&[first][..], &more].concat().concat());
        assert!(client.ending().is_some());
    }
    site.still_serves();
}
