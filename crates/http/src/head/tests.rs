//! Request heads: what is read, what is refused with which status.

use super::*;
use crate::testing::cases;
use proptest::prelude::*;

fn parse_with(text: &str, opts: &HeadOptions) -> (Result<Parsed, HeadError>, RequestHead) {
    let mut head = RequestHead::default();
    let result = parse_request(text.as_bytes(), opts, &mut head);
    (result, head)
}

/// `METHOD|target|version|name=value,…|len`, or the status and message, or `partial`.
fn show(text: &str, opts: &HeadOptions) -> String {
    let (result, head) = parse_with(text, opts);
    let str_of = |span: Span| String::from_utf8_lossy(span.of(text.as_bytes())).into_owned();
    match result {
        Ok(Parsed::Partial) => "partial".into(),
        Err(error) => format!("{}: {error}", error.status()),
        Ok(Parsed::Complete) => {
            let fields: Vec<_> =
                head.headers.iter().map(|h| format!("{}={}", str_of(h.name), str_of(h.value))).collect();
            format!(
                "{}|{}|{:?}|{}|{}",
                str_of(head.method_name),
                str_of(head.target),
                head.version,
                fields.join(","),
                text.len() - head.len
            )
        }
    }
}

fn check(text: &str, want: &str) {
    assert_eq!(show(text, &HeadOptions::default()), want, "{text:?}");
}

#[test]
fn requests() {
    check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET|/|Http11|Host=a|0");
    check("GET / HTTP/1.1\r\nHost: a\r\n\r\nrest", "GET|/|Http11|Host=a|4");
    check("GET / HTTP/1.0\nHost: a\n\n", "GET|/|Http10|Host=a|0");
    check("\r\n\n\r\nGET / HTTP/1.0\r\n\r\n", "GET|/|Http10||0");
    check("POST /a?b=c HTTP/1.1\r\nA:b\r\nC: \t d e \t\r\nE:\r\n\r\n", "POST|/a?b=c|Http11|A=b,C=d e,E=|0");
    check("OPTIONS * HTTP/1.1\r\n\r\n", "OPTIONS|*|Http11||0");
    // RFC 9110 §5.5: a tab may stand before and within a value, and so may bytes outside ASCII.
    check("GET / HTTP/1.1\r\nA:\tb\tc\u{e9}\r\n\r\n", "GET|/|Http11|A=b\tc\u{e9}|0");
    check("MY-METHOD_X http://a/ HTTP/1.1\r\n\r\n", "MY-METHOD_X|http://a/|Http11||0");
    check("CONNECT [::1]:80 HTTP/1.1\r\n\r\n", "CONNECT|[::1]:80|Http11||0");
    // Like nginx: any number of spaces between the parts.
    check("GET   /   HTTP/1.1  \r\n\r\n", "GET|/|Http11||0");
    check("GET / HTTP/1.00\r\n\r\n", "GET|/|Http10||0");
    check("GET / HTTP/1.15 \r\n\r\n", "GET|/|Http11||0");
    // HTTP/0.9 has no header.
    check("GET /a\r\nHost: a\r\n\r\n", "GET|/a|Http09||11");
    check("GET /a \n", "GET|/a|Http09||0");
}

#[test]
fn bad_request_lines() {
    let bad = "400: client sent invalid request";
    let method = "400: client sent invalid method";
    check("get / HTTP/1.1\r\n\r\n", method);
    check(" GET / HTTP/1.1\r\n\r\n", method);
    check("GET\r\n\r\n", method);
    check("GET\t/ HTTP/1.1\r\n\r\n", method);
    check("G\0T / HTTP/1.1\r\n\r\n", method);
    check("\u{16}\u{3}\u{1}", method);
    check("POST /\r\n", "400: client sent invalid method in HTTP/0.9 request");
    check("GET \r\n", bad);
    check("GET * HTTP/1.1\r\n\r\n", bad);
    check("OPTIONS ** HTTP/1.1\r\n\r\n", bad);
    check("PRI * HTTP/2.0\r\n\r\n", bad);
    check("GET / / HTTP/1.1\r\n\r\n", bad);
    check("GET / HTTP/1.1 x\r\n\r\n", bad);
    check("GET / http/1.1\r\n\r\n", bad);
    check("GET / HTTP/1.\r\n\r\n", bad);
    check("GET / HTTP/1\r\n\r\n", bad);
    check("GET / HTTP/1.1234\r\n\r\n", bad);
    check("GET / HTTP/0.9\r\n\r\n", bad);
    check("GET / HTTP/1.1\t\r\n\r\n", bad);
    check("GET /\rHTTP/1.1\r\n\r\n", bad);
    check("GET /\0 HTTP/1.1\r\n\r\n", bad);
    check("\rGET / HTTP/1.1\r\n\r\n", bad);
    check("GET / HTTP/1.1\r\r\n", bad);
    check("GET / HTTP/2.0\r\n\r\n", "505: client sent invalid version");
    check("GET / HTTP/10.0\r\n\r\n", "505: client sent invalid version");
}

#[test]
fn bad_fields() {
    let check = |field: &str, want: &str| {
        check(
            &format!("GET / HTTP/1.1\r\nA: b\r\n{field}\r\n\r\n"),
            &format!("400: client sent invalid header line: \"{want}...\""),
        );
    };
    check(" folded", "\\x20");
    check("\tfolded", "\\x09");
    check(":foo: x", "\\x3a");
    check("A b: x", "A\\x20");
    check("Content-Length : 5", "Content-Length\\x20");
    check("A\u{2}: x", "A\\x02");
    check("Bad[Name: x", "Bad\\x5b");
    check("[: x", "\\x5b");
    for delimiter in ["\"", "(", ")", ",", "/", ";", "<", "=", ">", "?", "@", "\\", "]", "{", "}"] {
        check(&format!("A{delimiter}: x"), &format!("A\\x{:02x}", delimiter.as_bytes()[0]));
    }
    check("X-T\u{eb}st: x", "X-T\\xc3");
    check("A: b\u{7}c", "A: b\\x07");
    check("A: \u{b}", "A: \\x0b");
    check("A: b\u{c}", "A: b\\x0c");
    check("A: b\u{7f}", "A: b\\x7f");
    check("A: x\0y", "A: x\\x00");
    check("A: x\ry", "A: x\\x0d");
    check("A: x\r", "A: x\\x0d");
    check("\rA: x", "\\x0d");
}

/// nginx takes such a line for a field with an empty value; no other server in a chain need agree.
#[test]
fn a_line_without_colon_is_refused() {
    check("GET / HTTP/1.1\r\nA\r\n\r\n", "400: client sent invalid header line: \"A\"");
}

#[test]
fn invalid_names_are_ignored_or_taken() {
    let text = "GET / HTTP/1.1\r\nx_a: 1\r\n.b: 2\r\nC: 3\r\nHo_st: 4\r\n\r\n";
    check(text, "GET|/|Http11|C=3|0");
    let (_, head) = parse_with(text, &HeadOptions::default());
    let ignored: Vec<_> = head.ignored.iter().map(|line| line.of(text.as_bytes())).collect();
    assert_eq!(ignored, [&b"x_a: 1"[..], b".b: 2", b"Ho_st: 4"]);
    let with = |ignore_invalid_headers, underscores_in_headers| {
        show(text, &HeadOptions { ignore_invalid_headers, underscores_in_headers, ..HeadOptions::default() })
    };
    assert_eq!(with(true, true), "GET|/|Http11|x_a=1,C=3,Ho_st=4|0");
    assert_eq!(with(false, false), "GET|/|Http11|x_a=1,.b=2,C=3,Ho_st=4|0");
}

#[test]
fn errors_come_early() {
    check("GE", "partial");
    check("GET / HTTP/1.1\r\nA: b\r\n", "partial");
    check("GET / HTTP/1.1\r\nA: b\r\n\r", "partial");
    check("\r", "partial");
    check("gE", "400: client sent invalid method");
    check("GET / HTTP/1.1\r\n A", "400: client sent invalid header line: \"\\x20...\"");
    check("GET / HTTP/1.1\r\nA: \0", "400: client sent invalid header line: \"A: \\x00...\"");
}

#[test]
fn the_first_of_two_fields_is_found() {
    let text = "GET / HTTP/1.1\r\nhOST: a\r\nHost: b\r\nX: 1\r\n\r\n";
    let (_, head) = parse_with(text, &HeadOptions::default());
    let buf = text.as_bytes();
    assert_eq!(head.find(HeaderId::Host).unwrap().value.of(buf), b"a");
    assert_eq!(head.all(HeaderId::Host).count(), 2);
    assert_eq!(head.all(HeaderId::Via).count(), 0);
    assert_eq!(head.named(buf, b"x").count(), 1);
    assert_eq!(head.present, HeaderId::Host.bit() | HeaderId::Other.bit());
    assert_eq!(head.repeated, HeaderId::Host.bit());
    assert!(head.find(HeaderId::Via).is_none());
}

#[test]
fn a_head_can_be_used_again() {
    let mut head = RequestHead::default();
    let opts = HeadOptions::default();
    let buf = b"POST /a HTTP/1.0\r\nHost: a\r\nx_y: 1\r\n\r\nGET /b HTTP/1.1\r\n\r\n";
    assert_eq!(parse_request(buf, &opts, &mut head), Ok(Parsed::Complete));
    let rest = &buf[head.len..];
    assert_eq!(parse_request(rest, &opts, &mut head), Ok(Parsed::Complete));
    assert_eq!((head.method, head.target.of(rest), head.headers.len()), (Method::Get, &b"/b"[..], 0));
    assert!(head.ignored.is_empty() && head.present == 0);
}

/// The buffers of nginx: `client_header_buffer_size 128; large_client_header_buffers 2 256`.
#[test]
fn limits_are_those_of_the_buffers() {
    let opts = HeadOptions { first_buffer: 128, line_max: 256, buffers_max: 2, ..HeadOptions::default() };
    // A line of exactly `len` bytes with its CRLF.
    let request_line = |len: usize| format!("GET /{} HTTP/1.1\r\n", "a".repeat(len - 16));
    let field = |len: usize| format!("A: {}\r\n", "b".repeat(len - 5));
    let complete = |text: String| show(&text, &opts).contains("Http11");
    let error = |text: String| show(&text, &opts).chars().take(36).collect::<String>();

    assert!(complete(request_line(128) + "\r\n"));
    assert!(complete(request_line(256) + "\r\n"));
    assert_eq!(error(request_line(257)), "414: client sent too long URI");
    assert_eq!(error(request_line(257)[..256].into()), "414: client sent too long URI");
    assert_eq!(error(request_line(256)[..255].into()), "partial");
    assert_eq!(error("A".repeat(300)), "400: client sent invalid method");

    // One field per large buffer after the request line filled the first.
    let long = "494: client sent too long header lin";
    assert!(complete(request_line(126) + &field(256) + &field(254) + "\r\n"));
    assert_eq!(error(request_line(126) + &field(256) + &field(255) + "\r\n"), long);
    assert_eq!(
        error(request_line(126) + &field(256) + &field(256) + &field(6)),
        "494: client sent too large request"
    );
    assert_eq!(error(request_line(126) + &field(257)), long);
    // The first buffer is large enough for fields that no large buffer could hold.
    let big_first = HeadOptions { first_buffer: 600, ..opts };
    assert!(show(&(request_line(30) + &field(500) + "\r\n"), &big_first).contains("Http11"));
}

#[test]
fn empty_lines_in_front_have_a_limit() {
    let opts = HeadOptions { first_buffer: 32, ..HeadOptions::default() };
    assert_eq!(show(&"\r\n".repeat(16), &opts), "partial");
    assert_eq!(show(&"\r\n".repeat(17), &opts), "400: client sent invalid request");
    assert!(show(&("\r\n".repeat(16) + "GET / HTTP/1.1\r\n\r\n"), &opts).contains("Http11"));
}

#[test]
fn max_headers_counts_what_is_kept() {
    let opts = HeadOptions { headers_max: 2, ..HeadOptions::default() };
    let check = |fields: &str, want: &str| {
        assert_eq!(show(&format!("GET / HTTP/1.0\r\n{fields}\r\n"), &opts), want);
    };
    check("A: 1\r\nB: 2\r\nc_d: 3\r\n", "GET|/|Http10|A=1,B=2|0");
    check("A: 1\r\nB: 2\r\nC: 3\r\n", "494: client sent too many header lines");
}

#[test]
fn errors_cannot_forge_log_lines() {
    let text = "GET / HTTP/1.1\r\nA\u{1b}[2J\u{7f}é\u{1}: x\r\n\r\n";
    let (result, _) = parse_with(text, &HeadOptions::default());
    assert!(result.unwrap_err().to_string().chars().all(|c| (' '..='~').contains(&c)));
}

#[test]
fn every_known_name_is_found() {
    for &id in HeaderId::known() {
        assert_eq!(HeaderId::from_name(id.name().as_bytes()), id);
        assert_eq!(HeaderId::from_name(id.name().to_ascii_uppercase().as_bytes()), id);
        assert_eq!(HeaderId::from_name(format!("{}x", id.name()).as_bytes()), HeaderId::Other);
    }
    assert_eq!(HeaderId::from_name(b"X-Unknown"), HeaderId::Other);
    assert_eq!(HeaderId::from_name(b""), HeaderId::Other);
}

#[test]
fn every_method_has_its_name() {
    let names = [
        "GET",
        "HEAD",
        "POST",
        "PUT",
        "DELETE",
        "OPTIONS",
        "TRACE",
        "PATCH",
        "CONNECT",
        "PROPFIND",
        "PROPPATCH",
        "MKCOL",
        "COPY",
        "MOVE",
        "LOCK",
        "UNLOCK",
    ];
    for name in names {
        assert_eq!(Method::from_name(name.as_bytes()).as_str(), name);
    }
    assert_eq!(Method::from_name(b"get"), Method::Other);
}

proptest! {
    #![proptest_config(cases(300))]
    #[test]
    fn any_split_gives_the_same(
        text in "(\r\n)?(GET|POST|X) /[a ?]{0,4} HTTP/1\\.[01]\r?\n((Host|A_b|Content-Length|Transfer-Encoding):[ \t]?[a5, \0\r]{0,4}\r?\n){0,4}(\r\n)?",
        cut in 0usize..100,
    ) {
        let data = text.as_bytes();
        let opts = HeadOptions::default();
        let cut = cut.min(data.len());
        let (whole, mut once, mut twice) = {
            let mut once = RequestHead::default();
            (parse_request(data, &opts, &mut once), once, RequestHead::default())
        };
        let first = parse_request(&data[..cut], &opts, &mut twice);
        let result = if first == Ok(Parsed::Partial) { parse_request(data, &opts, &mut twice) } else { first };
        prop_assert_eq!(&result, &whole);
        if whole == Ok(Parsed::Complete) {
            prop_assert_eq!(format!("{once:?}"), format!("{twice:?}"));
        }
        once.clear();
        prop_assert_eq!(format!("{once:?}"), format!("{:?}", RequestHead::default()));
    }

    #[test]
    fn invariants_hold_for_any_bytes(data in prop::collection::vec(any::<u8>(), 0..80)) {
        crate::fuzz::fuzz_head(&data);
    }
}

/// What is used again for the next request has nothing of this one, as a new one has nothing.
#[test]
fn a_cleared_head_is_as_a_new_one() {
    let text = b"POST http://a/b+%41//c.d?e HTTP/1.0\r\nHost: a\r\nHost: b\r\nX_Y: z\r\n\r\n";
    let mut head = RequestHead::default();
    assert_eq!(parse_request(text, &HeadOptions::default(), &mut head), Ok(Parsed::Complete));
    assert!(!head.ignored.is_empty() && head.repeated != 0);
    head.clear();
    assert_eq!(format!("{head:?}"), format!("{:?}", RequestHead::default()));
}
