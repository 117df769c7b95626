//! Variables end to end: what each is worth for one request, and in the log after its response.

use brisk_testkit::{Builder, wait};
use regex::Regex;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// A variable and the pattern of its whole value, for the request of [`in_the_response`].
const IN_THE_RESPONSE: &[(&str, &str)] = &[
    ("$arg_b", "2"),
    ("$args", r"a=1&b=2"),
    ("$query_string", r"a=1&b=2"),
    ("$is_args", r"\?"),
    ("$binary_remote_addr", r"\x7f\x00\x00\x01"),
    ("$connection", r"\d+"),
    ("$connection_requests", "1"),
    ("$connection_time", r"0\.\d{3}"),
    ("$connections_active", "[1-9]"),
    ("$content_length", "2"),
    ("$content_type", "text/x"),
    ("$cookie_taste", "sweet"),
    ("$date_gmt", r"\w+day, \d\d-\w{3}-\d{4} \d\d:\d\d:\d\d GMT"),
    ("$date_local", r"\w+day, \d\d-\w{3}-\d{4} \d\d:\d\d:\d\d \w+"),
    ("$document_root", r"/.*/html"),
    ("$realpath_root", r"/.*/html"),
    ("$document_uri", r"/document_uri"),
    ("$uri", "/uri"),
    ("$request_uri", r"/request_uri\?a=1&b=2"),
    ("$request_filename", r"/.*/html/request_filename"),
    ("$host", r"name\.test"),
    ("$hostname", r".+"),
    ("$http_host", r"Name\.test:\d+"),
    ("$http_x_test", "yes"),
    ("$https", ""),
    ("$is_request_port", ":"),
    ("$request_port", r"\d+"),
    ("$msec", r"\d{10}\.\d{3}"),
    ("$nginx_version", r"\d+\.\d+\.\d+"),
    ("$pid", r"\d+"),
    ("$pipe", r"\."),
    ("$remote_addr", r"127\.0\.0\.1"),
    ("$remote_port", r"\d+"),
    ("$remote_user", "me"),
    ("$request", r"POST /request\?a=1&b=2 HTTP/1\.1"),
    ("$request_id", "[0-9a-f]{32}"),
    ("$request_length", r"\d{3}"),
    ("$request_method", "POST"),
    ("$request_time", r"0\.\d{3}"),
    ("$scheme", "http"),
    ("$server_addr", r"127\.0\.0\.1"),
    ("$server_name", r"name\.test"),
    ("$server_port", r"\d+"),
    ("$server_protocol", r"HTTP/1\.1"),
    ("$status", "200"),
    ("$tcpinfo_rcv_space", r"[1-9]\d+"),
    ("$tcpinfo_rtt", r"\d+"),
    ("$tcpinfo_rttvar", r"\d+"),
    ("$tcpinfo_snd_cwnd", r"[1-9]\d*"),
    ("$time_iso8601", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d"),
    ("$time_local", r"\d\d/\w+/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}"),
];

/// The same for the log line of a response with 5 bytes and a trailer.
const IN_THE_LOG: &[(&str, &str)] = &[
    ("$body_bytes_sent", "28"),
    ("$bytes_sent", r"\d{3}"),
    ("$limit_rate", "0"),
    ("$request_completion", "OK"),
    ("$request_time", r"\d\.\d{3}"),
    ("$sent_http_content_type", "text/plain"),
    ("$sent_http_x_sent", "head"),
    ("$sent_trailer_x_end", "tail"),
    ("$status", "200"),
];

#[track_caller]
fn check(variable: &str, value: &[u8], pattern: &str) {
    let whole = Regex::new(&format!("(?s)^{pattern}$")).unwrap();
    let value = String::from_utf8_lossy(value);
    assert!(whole.is_match(&value), "{variable} is {value:?}, not {pattern:?}");
}

#[test]
fn in_the_response() {
    let location = |(variable, _): &(&str, &str)| {
        format!("location = /{} {{ return 200 \"{variable}\"; }}\n", &variable[1..])
    };
    let locations: String = IN_THE_RESPONSE.iter().map(location).collect();
    let http = format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}} default_server; return 404; }}
         server {{ listen 127.0.0.1:{{{{PORT}}}}; server_name name.test; {locations} }}"
    );
    let server = Builder::new(BIN).http(&http).start();
    for (variable, pattern) in IN_THE_RESPONSE {
        let response = server.request(format!(
            "POST /{}?a=1&b=2 HTTP/1.1\r\nHost: Name.test:{}\r\nX-Test: yes\r\nCookie: a=b; taste=sweet\r\n\
             Authorization: Basic bWU6cGFzcw==\r\nContent-Type: text/x\r\nContent-Length: 2\r\n\r\nhi",
            &variable[1..],
            server.port()
        ));
        assert_eq!(response.status, 200, "{variable}");
        check(variable, &response.body, pattern);
    }
}

#[test]
fn in_the_log() {
    let format: Vec<&str> = IN_THE_LOG.iter().map(|(variable, _)| *variable).collect();
    let http = format!(
        "log_format all '{}';
         server {{ listen 127.0.0.1:{{{{PORT}}}}; access_log {{{{DIR}}}}/all.log all;
         location / {{ default_type text/plain; add_header X-Sent head; add_trailer X-End tail; }} }}",
        format.join("|")
    );
    let server = Builder::new(BIN).http(&http).file("html/five", "12345").start();
    assert_eq!(server.get("/five").body, b"12345");
    let line =
        wait::until("a line in the log", || server.read("all.log").strip_suffix('\n').map(str::to_string));
    let values: Vec<&str> = line.split('|').collect();
    assert_eq!(values.len(), IN_THE_LOG.len(), "{line}");
    for ((variable, pattern), value) in IN_THE_LOG.iter().zip(values) {
        check(variable, value.as_bytes(), pattern);
    }
}

#[test]
fn secure_link_says_whether_the_hash_is_right_and_the_link_fresh() {
    let server = Builder::new(BIN)
        .http(
            r#"server { listen 127.0.0.1:{{PORT}};
                secure_link $arg_md5,$arg_expires;
                secure_link_md5 "$secure_link_expires$uri secret";
                location = /link { return 200 "$secure_link|$secure_link_expires"; } }"#,
        )
        .start();
    // base64url(md5("2147483647/link secret")), without padding.
    let right = "-t0hgaSJG3Pw7b1rjSC5fA";
    let body = |md5: &str, expires: &str| {
        String::from_utf8(server.get(&format!("/link?md5={md5}&expires={expires}")).body).unwrap()
    };
    assert_eq!(body(right, "2147483647"), "1|2147483647");
    assert_eq!(body("AAAAAAAAAAAAAAAAAAAAAA", "2147483647"), "|2147483647");
    assert_eq!(body(right, "100"), "|100");
}

#[test]
fn userid_gives_a_cookie_and_knows_it_again() {
    let server = Builder::new(BIN)
        .http(
            "server { listen 127.0.0.1:{{PORT}};
                userid on;
                userid_name who;
                userid_domain name.test;
                userid_path /shop;
                return 200 '$uid_got|$uid_set'; }",
        )
        .start();
    let first = server.get("/");
    let cookie = first.header("Set-Cookie").unwrap();
    let pattern = "^who=([^;]+); (expires=[^;]+; )?domain=name.test; path=/shop$";
    let value =
        Regex::new(pattern).unwrap().captures(cookie).unwrap_or_else(|| panic!("{cookie}"))[1].to_string();
    check("$uid_set", &first.body, r"\|who=[0-9A-F]{32}");
    let again = server.request(format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: who={value}\r\n\r\n"));
    check("$uid_got", &again.body, r"who=[0-9A-F]{32}\|");
    assert_eq!(again.header("Set-Cookie"), None);
}
