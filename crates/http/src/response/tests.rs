//! Response heads, as peers send them.

use super::*;
use crate::head::Parsed;

fn parse(text: &str) -> (Result<Parsed, ResponseError>, ResponseHead) {
    let mut head = ResponseHead::default();
    let result = parse_response(text.as_bytes(), &mut head);
    (result, head)
}

#[test]
fn status_lines() {
    let check = |line: &str, want: Option<(Version, u16, &str)>| {
        let text = format!("{line}\r\n\r\n");
        let (result, head) = parse(&text);
        let got = result.ok().map(|_| {
            (head.version, head.status, std::str::from_utf8(head.status_text.of(text.as_bytes())).unwrap())
        });
        assert_eq!(got, want, "{line}");
    };
    check("HTTP/1.1 200 OK", Some((Version::Http11, 200, "200 OK")));
    check("HTTP/1.0 404 Not Found", Some((Version::Http10, 404, "404 Not Found")));
    check("HTTP/1.1 200", Some((Version::Http11, 200, "200")));
    check("HTTP/1.1 200 ", Some((Version::Http11, 200, "200 ")));
    check("HTTP/1.1  403.1 No", Some((Version::Http11, 403, "403.1 No")));
    check("HTTP/2.0 200 OK", Some((Version::Http11, 200, "200 OK")));
    check("HTTP/1.00 200 OK", Some((Version::Http10, 200, "200 OK")));
    for bad in [
        "HTTP/1.1 20",
        "HTTP/1.1 2000",
        "HTTP/1.1 2x0",
        "HTTP/0.9 200",
        "HTTP/1 200",
        "hello",
        "",
        "HTTP/1.1",
    ] {
        check(bad, None);
    }
}

#[test]
fn pieces_and_errors() {
    let check = |text: &str, want: Result<Parsed, ResponseError>| assert_eq!(parse(text).0, want, "{text:?}");
    let invalid = |line: &str| Err(ResponseError::InvalidHeader(line.into()));
    check("HTT", Ok(Parsed::Partial));
    check("HTTP/1.1 200 OK\r\nA: b", Ok(Parsed::Partial));
    check("hello", Err(ResponseError::NoStatusLine));
    check("HTTP/1.1 200 O\0K\r\n\r\n", Err(ResponseError::NoStatusLine));
    check("HTTP/1.1 200 O\u{1b}K\r\nA:\tb\tc\u{e9}\r\n\r\n", Ok(Parsed::Complete));
    check("HTTP/1.1 200 OK\r\nA[: b\r\n\r\n", invalid("A\\x5b..."));
    check("HTTP/1.1 200 OK\r\nA: b\r\nC: d\u{1}\r\n\r\n", invalid("C: d\\x01..."));
    check("HTTP/1.1 200 OK\r\nA b: c\r\n\r\n", invalid("A\\x20..."));
    check("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", invalid("\\x20..."));
    check("HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n", invalid("A: b\\x00..."));
}

/// As in nginx: odd names, names without a colon and a second status line are no errors of an upstream.
#[test]
fn upstreams_may_be_odd() {
    let text =
        "HTTP/1.1 200 OK\r\nHTTP/1.1 200 OK\r\nx_y: 1\r\nSet-Cookie:a\r\nset-cookie: b\r\nEmpty\r\n\r\nbody";
    let (result, head) = parse(text);
    assert_eq!(result, Ok(Parsed::Complete));
    let names: Vec<_> =
        head.headers.iter().map(|h| std::str::from_utf8(h.name.of(text.as_bytes())).unwrap()).collect();
    assert_eq!(names, ["x_y", "Set-Cookie", "set-cookie", "Empty"]);
    assert_eq!(head.all(HeaderId::SetCookie).count(), 2);
    assert_eq!(head.repeated & HeaderId::SetCookie.bit(), HeaderId::SetCookie.bit());
    assert_eq!(&text[head.len..], "body");
}

#[test]
fn bodies() {
    use ResponseFraming::*;
    let check = |status: u16, fields: &str, request: RequestKind, want: Option<ResponseFraming>| {
        let text = format!("HTTP/1.1 {status} X\r\n{fields}\r\n");
        let (_, head) = parse(&text);
        assert_eq!(response_framing(text.as_bytes(), &head, request).ok(), want, "{status} {fields}");
    };
    let (length, chunked) = ("Content-Length: 5\r\n", "Transfer-Encoding: Chunked\r\n");
    check(200, length, RequestKind::Other, Some(Length(5)));
    check(200, length, RequestKind::Head, Some(None));
    check(200, chunked, RequestKind::Other, Some(Chunked));
    check(200, chunked, RequestKind::Head, Some(None));
    check(200, "", RequestKind::Other, Some(UntilClose));
    check(204, length, RequestKind::Other, Some(None));
    check(304, length, RequestKind::Other, Some(None));
    check(100, "", RequestKind::Other, Some(None));
    check(101, "", RequestKind::Other, Some(Tunnel));
    check(200, length, RequestKind::Connect, Some(Tunnel));
    check(404, length, RequestKind::Connect, Some(Length(5)));
    check(200, "Content-Length: foo\r\n", RequestKind::Other, Option::None);
    check(200, "Content-Length: 0\r\nContent-Length: 0\r\n", RequestKind::Other, Option::None);
    check(200, &format!("{length}{chunked}"), RequestKind::Other, Option::None);
    check(200, &format!("{chunked}{chunked}"), RequestKind::Other, Option::None);
    check(200, "Transfer-Encoding: gzip\r\n", RequestKind::Other, Option::None);
    check(304, &format!("{length}{chunked}"), RequestKind::Other, Option::None);
}

#[test]
fn persistence() {
    let check = |version: &str, fields: &str, want: bool| {
        let text = format!("HTTP/{version} 200 OK\r\n{fields}\r\n");
        let (_, head) = parse(&text);
        let framing = response_framing(text.as_bytes(), &head, RequestKind::Other).unwrap();
        assert_eq!(response_persists(text.as_bytes(), &head, framing), want, "{version} {fields}");
    };
    check("1.1", "Content-Length: 0\r\n", true);
    check("1.1", "", false);
    check("1.1", "Content-Length: 0\r\nConnection: close\r\n", false);
    check("1.0", "Content-Length: 0\r\n", false);
    check("1.0", "Content-Length: 0\r\nConnection: keep-alive\r\n", true);
    check("1.0", "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n", false);
}
