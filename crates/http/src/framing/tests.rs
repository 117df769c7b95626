//! Where a body ends, who must close, which Host is valid: the RFCs' cases and smuggling.

use super::*;
use crate::head::{HeadOptions, parse_request};

fn framing(request: &str) -> Result<BodyFraming, FramingError> {
    let mut head = RequestHead::default();
    parse_request(request.as_bytes(), &HeadOptions::default(), &mut head).unwrap();
    request_framing(request.as_bytes(), &head)
}

#[test]
fn bodies_of_requests() {
    use BodyFraming::*;
    let check = |version: &str, fields: &str, want: BodyFraming| {
        let request = format!("POST / HTTP/{version}\r\nHost: a\r\n{fields}\r\n");
        assert_eq!(framing(&request), Ok(want), "{fields}");
    };
    check("1.1", "", None);
    check("1.1", "Content-Length: 0\r\n", Length(0));
    check("1.1", "Content-Length: \t5 \r\n", Length(5));
    check("1.0", "Content-Length: 9223372036854775807\r\n", Length(i64::MAX as u64));
    check("1.1", "Transfer-Encoding: chunked\r\n", Chunked);
    check("1.1", "transfer-encoding: CHUNKED\r\n", Chunked);
    // Ignored by name: `ignore_invalid_headers` keeps it from everybody.
    check("1.1", "Content_Length: 5\r\n", None);
}

#[test]
fn smuggling_is_refused() {
    let check = |version: &str, fields: &str, status: u16, message: &str| {
        let error = framing(&format!("POST / HTTP/{version}\r\nHost: a\r\n{fields}\r\n")).unwrap_err();
        assert_eq!((error.status(), error.to_string().as_str()), (status, message), "{fields}");
    };
    let invalid = "client sent invalid \"Content-Length\" header";
    check("1.1", "Content-Length: +5\r\n", 400, invalid);
    check("1.1", "Content-Length: -5\r\n", 400, invalid);
    check("1.1", "Content-Length: 5, 5\r\n", 400, invalid);
    check("1.1", "Content-Length: 0x5\r\n", 400, invalid);
    check("1.1", "Content-Length:\r\n", 400, invalid);
    check("1.1", "Content-Length: 9223372036854775808\r\n", 400, invalid);
    check("1.1", "Content-Length: 99999999999999999999999\r\n", 400, invalid);
    let both = "client sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time";
    check("1.1", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400, both);
    check("1.1", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", 400, both);
    let in_10 = "client sent HTTP/1.0 request with \"Transfer-Encoding\" header";
    check("1.0", "Transfer-Encoding: chunked\r\n", 400, in_10);
    let coding = |value: &str, status: u16, word: &str| {
        let message = format!("client sent {word} \"Transfer-Encoding\": \"{value}\"");
        check("1.1", &format!("Transfer-Encoding: {value}\r\n"), status, &message);
    };
    for value in
        ["identity", "chunked, identity", "gzip, chunked", "gzip;q=1, chunked", "xchunked", "x, chunked"]
    {
        coding(value, 501, "unknown");
    }
    let malformed = [
        "",
        ",",
        "chunked,",
        ", chunked",
        "chunked,,chunked",
        "chunked, chunked",
        "chunked, gzip",
        "gzip",
        "gzip, deflate",
        "chunked;q=1",
        "chunked;",
        "chunked chunked",
        "\"chunked\"",
        "[chunked]",
    ];
    for value in malformed {
        coding(value, 400, "invalid");
    }
    let duplicate = |kind, name, a, b| {
        format!("client sent duplicate {kind}: \"{name}: {b}\", previous value: \"{name}: {a}\"")
    };
    check(
        "1.1",
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        400,
        &duplicate("header line", "Content-Length", "5", "5"),
    );
    let coding = "Transfer-Encoding";
    check(
        "1.1",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\u{e9}\r\n",
        400,
        &duplicate("header line", coding, "chunked", "x\\xc3\\xa9"),
    );
    check("1.0", "Host: b\r\n", 400, &duplicate("host header", "Host", "a", "b"));
}

#[test]
fn fields_that_may_come_once() {
    let unique = [
        "If-Modified-Since",
        "If-Unmodified-Since",
        "If-Match",
        "If-None-Match",
        "Content-Range",
        "If-Range",
        "Expect",
        "Authorization",
        "Proxy-Authorization",
    ];
    for name in unique {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{name}: foo\r\n{name}: bar\r\n\r\n");
        assert_eq!(framing(&request).unwrap_err().status(), 400, "{name}");
    }
    for name in ["Cookie", "X-Forwarded-For", "Referer", "User-Agent", "Range", "Content-Type", "X"] {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{name}: foo\r\n{name}: bar\r\n\r\n");
        assert_eq!(framing(&request), Ok(BodyFraming::None), "{name}");
    }
}

#[test]
fn host_is_needed_from_1_1_on() {
    assert_eq!(framing("GET / HTTP/1.1\r\n\r\n"), Err(FramingError::NoHost));
    assert_eq!(framing("GET / HTTP/1.0\r\n\r\n"), Ok(BodyFraming::None));
    assert_eq!(framing("GET /\r\n"), Ok(BodyFraming::None));
}

#[test]
fn hosts() {
    let check = |value: &str, name: &str, port: Option<u16>| {
        let host = validate_host(value.as_bytes()).unwrap_or_else(|_| panic!("{value}"));
        assert_eq!((String::from_utf8_lossy(&host.name).as_ref(), host.port), (name, port), "{value}");
    };
    check("l", "l", None);
    check("L", "l", None);
    check("abcd-ef.g02.xyz:", "abcd-ef.g02.xyz", None);
    check("www.abcd-ef.g02.xyz:10", "www.abcd-ef.g02.xyz", Some(10));
    check("www.example.com.", "www.example.com", None);
    check("example.com.:88", "example.com", Some(88));
    check("AbC-d93.0.34ZhGt-s.nk.Ru:88", "abc-d93.0.34zhgt-s.nk.ru", Some(88));
    check("123.49.0.78:65535", "123.49.0.78", Some(65535));
    check("a:0", "a", None);
    check("a:00080", "a", Some(80));
    check("[abcd::ef98:0:7654:321]:80", "[abcd::ef98:0:7654:321]", Some(80));
    check("[::ffff:12.30.67.89]", "[::ffff:12.30.67.89]", None);
    check("[vF.!$&'()*+,;=-._~Az09:]", "[vf.!$&'()*+,;=-._~az09:]", None);
    check(".a", ".a", None);
    check("a_b~%41!$&'()*+,;=", "a_b~%41!$&'()*+,;=", None);
    let bad = [
        "",
        ".",
        ":80",
        ".:80",
        "example.com.:1.2",
        "a:98777",
        "a:65536",
        "a:9000:80",
        "a/b",
        "a\\b",
        "..a.com",
        "com..:",
        "[::1",
        "[a/b]",
        "[::1].",
        "[::1].:98",
        "[ab..cd]",
        "extra[::1]:98",
        "localhost\u{2}",
        "a b",
        "a@b",
        "a\"",
        "é",
        "a<",
        "a:b",
        "a:+1",
        "a?b",
        "a#b",
    ];
    for value in bad {
        assert_eq!(validate_host(value.as_bytes()), Err(HostError), "{value}");
    }
}

#[test]
fn connection_fields() {
    let check = |values: &[&str], close: bool, keep_alive: bool, upgrade: bool| {
        let options = values
            .iter()
            .map(|value| connection_options(value.as_bytes()))
            .fold(ConnectionOptions::default(), ConnectionOptions::merge);
        assert_eq!(options, ConnectionOptions { close, keep_alive, upgrade }, "{values:?}");
    };
    check(&[], false, false, false);
    check(&["close"], true, false, false);
    check(&["Keep-Alive, Upgrade"], false, true, true);
    check(&["te ,\tCLOSE ,"], true, false, false);
    check(&["keep-alive", "close"], true, true, false);
    check(&["closed"], false, false, false);
    check(&["x close"], false, false, false);
    let tokens: Vec<_> = connection_tokens(b" te, , X-Foo,").collect();
    assert_eq!(tokens, [&b"te"[..], b"X-Foo"]);
}

#[test]
fn persistence() {
    let check = |version: Version, value: &str, want: bool| {
        assert_eq!(connection_options(value.as_bytes()).is_persistent(version), want, "{version:?} {value}");
    };
    check(Version::Http11, "", true);
    check(Version::Http11, "close", false);
    check(Version::Http11, "close, keep-alive", false);
    check(Version::Http10, "", false);
    check(Version::Http10, "keep-alive", true);
    check(Version::Http10, "keep-alive, close", false);
    check(Version::Http09, "keep-alive", false);
}
