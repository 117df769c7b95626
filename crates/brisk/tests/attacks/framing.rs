//! Where a request of HTTP/1.1 ends (RFC 9112 §6): request smuggling and desynchronised connections.

use super::{SMUGGLED, answers, site};
use brisk_testkit::client::Ending;
use std::time::Duration;

/// A request under `/api/` with these fields and this body.
fn post(fields: &str, body: &str) -> String {
    format!("POST /api/a HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{body}")
}

/// A chunked request with this body.
fn chunked(body: &str) -> String {
    post("Transfer-Encoding: chunked", body)
}

#[test]
fn content_length_beside_transfer_encoding() {
    let site = site("");
    for fields in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 4",
        "Content-Length: 0\r\nTransfer-Encoding: chunked",
    ] {
        site.refuses(&[400], post(fields, &format!("0\r\n\r\n{SMUGGLED}")));
    }
}

#[test]
fn lengths_that_contradict_each_other() {
    let site = site("");
    for fields in ["Content-Length: 5\r\nContent-Length: 0", "Content-Length: 5, 0", "Content-Length: 5, 5"] {
        site.refuses(&[400], post(fields, &format!("12345{SMUGGLED}")));
    }
}

#[test]
fn lengths_that_are_no_numbers() {
    let site = site("");
    for length in [
        "",
        "+5",
        "-5",
        "0x5",
        "5 5",
        "5;",
        "5\x0b",
        "18446744073709551621",
        "99999999999999999999999",
        "1e1",
    ] {
        site.refuses(&[400, 413], post(&format!("Content-Length: {length}"), &format!("12345{SMUGGLED}")));
    }
}

#[test]
fn transfer_encodings_in_disguise() {
    let site = site("");
    for value in [
        "xchunked",
        "\x0bchunked",
        "chunked\x0b",
        "\"chunked\"",
        "chunked, identity",
        "identity, chunked",
        "chunked, chunked",
        ", chunked",
        "chunked;q=1",
        "gzip, chunked",
        "identity",
        "",
    ] {
        let fields = format!("Transfer-Encoding: {value}\r\nContent-Length: 5");
        site.refuses(&[400, 501], post(&fields, &format!("0\r\n\r\n{SMUGGLED}")));
        let fields = format!("Transfer-Encoding: {value}");
        site.refuses(&[400, 501], post(&fields, &format!("0\r\n\r\n{SMUGGLED}")));
    }
    for name in ["Transfer-Encoding ", " Transfer-Encoding", "Transfer-Encoding\0", "Transfer-Encoding:"] {
        let fields = format!("{name}: chunked\r\nContent-Length: 5");
        site.refuses(&[400, 501], post(&fields, &format!("0\r\n\r\n{SMUGGLED}")));
    }
}

#[test]
fn transfer_encoding_twice() {
    let site = site("");
    for fields in [
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: x\r\nTransfer-Encoding: chunked",
    ] {
        site.refuses(&[400, 501], post(fields, &format!("0\r\n\r\n{SMUGGLED}")));
    }
}

#[test]
fn transfer_encoding_in_http_1_0() {
    let site = site("");
    let request = format!(
        "POST /api/a HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}"
    );
    site.refuses(&[400, 501], request);
}

#[test]
fn chunk_extensions_that_hide_the_end_of_a_line() {
    let site = site("");
    for chunk in
        ["1;a\nb\r\nX\r\n0\r\n\r\n", "1;a\r\r\nX\r\n0\r\n\r\n", "1;\n\r\nX\r\n0\r\n\r\n", "1\nX\n0\n\n"]
    {
        site.refuses(&[400], chunked(&format!("{chunk}{SMUGGLED}")));
    }
    // What is legal is understood, and not passed on.
    site.keeps_apart(1, chunked("1;name=value;other=\"a;b\"\r\nX\r\n0\r\n\r\n"));
    assert!(site.seen().iter().all(|request| !request.contains("value")));
}

#[test]
fn chunk_sizes_that_overflow_or_are_no_numbers() {
    let site = site("");
    for size in [
        "10000000000000001",
        "ffffffffffffffff",
        "fffffffffffffffff1",
        "-1",
        "+1",
        "0x1",
        "1_0",
        " 1",
        "1 ",
        "",
        "g",
        "1\t",
        "1,",
        "\u{ff11}",
    ] {
        site.refuses(&[400, 413], chunked(&format!("{size}\r\nX\r\n0\r\n\r\n{SMUGGLED}")));
    }
}

#[test]
fn chunks_longer_than_they_say() {
    let site = site("");
    for body in ["1\r\nXY0\r\n\r\n", "1\r\nX0\r\n\r\n", "1\r\nX\n0\r\n\r\n", "1\r\nX\rY0\r\n\r\n"] {
        site.refuses(&[400], chunked(&format!("{body}{SMUGGLED}")));
    }
}

#[test]
fn trailers_that_pose_as_fields() {
    let site = site("");
    let trailers = "Content-Length: 50\r\nX-Forwarded-For: 6.6.6.6\r\nHost: evil\r\nAuthorization: x\r\n";
    site.keeps_apart(
        2,
        chunked(&format!("1\r\nX\r\n0\r\n{trailers}\r\nGET /who HTTP/1.1\r\nHost: a\r\n\r\n")),
    );
    let seen = site.seen();
    assert_eq!(seen.len(), 1);
    for word in ["6.6.6.6", "evil", "Authorization", "50"] {
        assert!(!seen[0].contains(word), "{}", seen[0]);
    }
}

#[test]
fn field_names_that_are_no_tokens() {
    let site = site("");
    for line in [
        ": value",
        "Content-Length : 5",
        "Content Length: 5",
        "X[1]: a",
        "X\u{e9}: a",
        "X\x01: a",
        "X",
        "\x0bX: a",
    ] {
        site.refuses(&[400], format!("GET /api/a HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n{SMUGGLED}"));
    }
}

#[test]
fn lines_that_are_folded() {
    let site = site("");
    for line in ["X: a\r\n b", "X: a\r\n\tTransfer-Encoding: chunked", "Transfer-Encoding:\r\n chunked"] {
        site.refuses(&[400], post(line, &format!("0\r\n\r\n{SMUGGLED}")));
    }
    site.refuses(&[400], format!("GET /api/a HTTP/1.1\r\n Host: a\r\n\r\n{SMUGGLED}"));
}

#[test]
fn controls_within_fields() {
    let site = site("");
    for value in ["a\rb", "a\0b", "a\rContent-Length: 5", "\x01", "a\x7fb"] {
        site.refuses(&[400], format!("GET /api/a HTTP/1.1\r\nHost: a\r\nX: {value}\r\n\r\n{SMUGGLED}"));
    }
}

#[test]
fn field_names_of_absurd_length() {
    let site = site("");
    // HAProxy took the length modulo 256 and so made a Content-Length of it.
    let name = format!("Content-Length0{}", "a".repeat(255));
    let count = SMUGGLED.len();
    site.keeps_apart(2, format!("POST /api/a HTTP/1.1\r\nHost: a\r\n{name}: \r\nContent-Length: {count}\r\n\r\n{SMUGGLED}GET /who HTTP/1.1\r\nHost: a\r\n\r\n"));
    let name = "a".repeat(70_000);
    let statuses = site.statuses(format!("GET /api/a HTTP/1.1\r\nHost: a\r\n{name}: x\r\n\r\n{SMUGGLED}"));
    assert_eq!(statuses, [400]);
    assert_eq!(site.seen().len(), 1);
}

#[test]
fn connection_names_a_framing_field() {
    let site = site("");
    for named in ["Transfer-Encoding", "Content-Length", "Host"] {
        let framing = match named {
            "Content-Length" => format!("Content-Length: {}", SMUGGLED.len()),
            _ => "Transfer-Encoding: chunked".into(),
        };
        let body = match named {
            "Content-Length" => SMUGGLED.to_string(),
            _ => format!("{:x}\r\n{SMUGGLED}\r\n0\r\n\r\n", SMUGGLED.len()),
        };
        site.keeps_apart(1, post(&format!("Connection: close, {named}\r\n{framing}"), &body));
    }
    assert!(site.seen().iter().all(|request| request.contains("\r\nHost: ") && request.ends_with(SMUGGLED)));
}

#[test]
fn connection_hides_where_a_request_comes_from() {
    let site = site("");
    site.keeps_apart(1, "GET /api/a HTTP/1.1\r\nHost: a\r\nConnection: close, X-Forwarded-For\r\n\r\n");
    assert!(site.seen()[0].contains("\r\nX-Forwarded-For: 127.0.0.1\r\n"), "{}", site.seen()[0]);
}

#[test]
fn an_expectation_in_disguise() {
    let site = site("");
    for expect in ["100-continue", "100-Continue", "y 100-continue", "100-continue, x", " 100-continue", "x"]
    {
        for target in ["/api/a", "/files/a.txt", "/who"] {
            let request = format!(
                "GET {target} HTTP/1.1\r\nHost: a\r\nExpect: {expect}\r\nContent-Length: {}\r\n\r\n{SMUGGLED}GET /who HTTP/1.1\r\nHost: a\r\n\r\n",
                SMUGGLED.len()
            );
            let bodies = site.bodies(request);
            assert!(
                bodies.iter().all(|(_, body)| !body.contains("smuggled")),
                "{expect} {target}: {bodies:?}"
            );
            assert!(
                bodies.len() <= 2 && bodies.iter().all(|(status, _)| *status != 403),
                "{expect}: {bodies:?}"
            );
        }
    }
    assert!(site.seen().iter().all(|request| !request.starts_with("GET /admin")));
}

#[test]
fn a_body_that_nobody_has_read_is_no_request() {
    let site = site("location = /moved { return 301 /who; }");
    for target in ["/files/a.txt", "/who", "/missing", "/closed", "/moved", "/files/none", "/api/a", "/files"]
    {
        let request = format!(
            "POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{SMUGGLED}GET /who HTTP/1.1\r\nHost: a\r\n\r\n",
            SMUGGLED.len()
        );
        let bodies = site.bodies(request);
        assert!(bodies.len() <= 2, "{target}: {bodies:?}");
        if let Some((status, body)) = bodies.get(1) {
            assert_eq!((*status, body.as_str()), (200, "who"), "{target}");
        }
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{SMUGGLED}\r\n0\r\n\r\nGET /who HTTP/1.1\r\nHost: a\r\n\r\n",
            SMUGGLED.len()
        );
        let bodies = site.bodies(request);
        assert!(bodies.len() <= 2, "{target}: {bodies:?}");
        if let Some((status, body)) = bodies.get(1) {
            assert_eq!((*status, body.as_str()), (200, "who"), "{target}");
        }
    }
    assert!(site.seen().iter().all(|request| !request.starts_with("GET /admin")));
}

#[test]
fn a_body_that_comes_after_a_pause_is_no_request() {
    let site = site("location /slow/ { client_body_timeout 300ms; proxy_pass http://back; }");
    for target in ["/slow/a", "/slow/b"] {
        let mut client = site.server.client();
        client
            .send(format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", SMUGGLED.len()));
        // The time-out answers 408 or simply closes; the connection must not be used for anything after it.
        let first = client.try_response("POST").map(|response| response.status);
        assert!(first.is_err() || matches!(first, Ok(408 | 504)), "{first:?}");
        let _ = client.try_send(SMUGGLED);
        assert_eq!(answers(&mut client), []);
        assert_ne!(client.ending(Duration::from_secs(10)), Ending::Open);
    }
    assert!(site.seen().iter().all(|request| !request.starts_with("GET /admin")));
    site.still_serves();
}

#[test]
fn an_upgrade_that_the_back_end_has_not_agreed_to() {
    let site = site(
        "location /ws/ { proxy_pass http://back; proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }",
    );
    for upgrade in ["websocket", "foo", "websocket\r\nSec-WebSocket-Version: 777"] {
        let request = format!(
            "GET /ws/a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: {upgrade}\r\n\r\n{SMUGGLED}"
        );
        let bodies = site.bodies(request);
        // The second request is one of its own, and denied as such.
        assert_eq!(bodies.iter().map(|(status, _)| *status).collect::<Vec<_>>(), [200, 403], "{upgrade}");
    }
    assert!(site.seen().iter().all(|request| request.starts_with("GET /ws/a")));
}

#[test]
fn an_upgrade_to_h2c_is_not_passed_on() {
    let site = site(
        "location /ws/ { proxy_pass http://back; proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }",
    );
    for target in ["/api/a", "/ws/a"] {
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
        );
        assert_eq!(site.statuses(request), [200], "{target}");
    }
    for request in site.seen() {
        let lower = request.to_ascii_lowercase();
        assert!(!lower.contains("h2c") && !lower.contains("http2-settings"), "{request}");
    }
}

#[test]
fn an_upgrade_to_h2c_is_not_done_uninvited() {
    let site = site("http2 on;");
    let request = format!(
        "GET /who HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n{SMUGGLED}"
    );
    assert_eq!(site.statuses(request), [200, 403]);
}

#[test]
fn pipelined_requests_after_a_pause_are_taken_apart() {
    let site = site("keepalive_timeout 20s;");
    let mut client = site.server.client();
    assert_eq!(client.get("/who").text(), "who");
    // One byte of the next request, then many requests at once.
    client.send("G");
    let rest = format!(
        "ET /who HTTP/1.1\r\nHost: a\r\n\r\n{}",
        "GET /api/a HTTP/1.1\r\nHost: a\r\n\r\n".repeat(200)
    );
    client.send([rest.as_bytes(), super::END].concat());
    assert_eq!(answers(&mut client).len(), 202);
    site.still_serves();
}

#[test]
fn request_lines_that_are_none() {
    let site = site("");
    for line in [
        "GET /api/a",
        "GET  /api/a HTTP/1.1",
        "GET /api/a  HTTP/1.1",
        "GET /api/a HTTP/1.1 ",
        "GET /api/ b HTTP/1.1",
        "GET\t/api/a\tHTTP/1.1",
        "GET /api/a HTTP/1.2x",
        "GET /api/a HTTP/11",
        "GET /api/a HTTP/2.0",
        "GET /api/a http/1.1",
        "G\0T /api/a HTTP/1.1",
        "G[T /api/a HTTP/1.1",
        "GET /api/a\0 HTTP/1.1",
        "GET /api/a\rHTTP/1.1",
        " GET /api/a HTTP/1.1",
    ] {
        let bodies = site.bodies(format!("{line}\r\nHost: a\r\n\r\n{SMUGGLED}"));
        assert!(bodies.len() <= 2, "{line:?}: {bodies:?}");
        assert!(bodies.iter().all(|(_, body)| !body.contains("smuggled")), "{line:?}: {bodies:?}");
    }
    assert!(site.seen().iter().all(|request| request.starts_with("GET /api/")), "{:?}", site.seen());
    site.still_serves();
}
