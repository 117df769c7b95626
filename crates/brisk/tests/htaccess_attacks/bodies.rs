//! `LimitRequestBody`: bodies come in more ways than fields say.

use super::super::{HTTP, site};
use brisk_testkit::h2::H2Client;

#[test]
fn a_body_without_a_length_is_refused_however_it_comes() {
    let http = format!("http2 on;{HTTP}");
    let server = site().http(&http).file("html/.htaccess", "LimitRequestBody 5\n").start();
    // (A file answers POST with 405.)
    for (length, body, status) in
        [(None, "", 405), (None, "12345", 411), (Some("5"), "12345", 405), (Some("6"), "123456", 413)]
    {
        let mut client = H2Client::connect(server.port());
        let mut fields =
            vec![(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/a.txt")];
        fields.extend(length.map(|length| ("content-length", length)));
        let stream = client.begin(&fields, body.is_empty());
        if !body.is_empty() {
            client.send(stream, body.as_bytes(), true);
        }
        let answer = client.wait(stream);
        assert_eq!(answer.status, status, "{length:?} {body}: {}", server.error_log());
    }
    for (fields, body, status) in [
        ("", "", 405),
        ("Transfer-Encoding: chunked\r\n", "1\r\nx\r\n0\r\n\r\n", 411),
        ("Content-Length: 5\r\n", "12345", 405),
        ("Content-Length: 6\r\n", "123456", 413),
    ] {
        let answer =
            server.client().request(format!("POST /a.txt HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}"));
        assert_eq!(answer.status, status, "{fields}");
    }
    // A file is there for who sends no body.
    assert_eq!(H2Client::connect(server.port()).get("/a.txt").text(), "a");
}
