//! What `proxy_pass` and its companions make of a configuration.

use super::pass::Url;
use crate::check::{http, refused};

#[test]
fn urls() {
    let check = |text: &str, want: (&str, &str, &str, &str)| {
        let url = Url::parse(text.as_bytes()).unwrap();
        let uri = std::str::from_utf8(&url.uri).unwrap();
        assert_eq!((&*url.address, &*url.host_header, &*url.port, uri), want, "{text}");
    };
    check("http://a", ("a", "a", "80", ""));
    check("http://a:80/", ("a:80", "a", "80", "/"));
    check("http://a:8080/x?y", ("a:8080", "a:8080", "8080", "/x?y"));
    check("http://a?y", ("a", "a", "80", "/?y"));
    check("HTTP://[::1]:81", ("[::1]:81", "[::1]:81", "81", ""));
    check("http://[::1]/", ("[::1]", "[::1]", "80", "/"));
    check("http://unix:/s", ("unix:/s", "localhost", "", ""));
    check("http://unix:/s:/u", ("unix:/s", "localhost", "", "/u"));
    for text in ["ftp://a", "http://", "http://:80", "http://a:0", "http://a:99999", "http://unix:"] {
        assert!(Url::parse(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn what_proxy_pass_may_not_say_is_refused() {
    refused(&[
        ("server { location / { proxy_pass ftp://127.0.0.1; } }", "invalid URL prefix"),
        (
            "server { location ~ /a { proxy_pass http://127.0.0.1/b; } }",
            "\"proxy_pass\" cannot have URI part in location given by regular expression, or inside named location, or inside \"if\" statement, or inside \"limit_except\" block",
        ),
        ("proxy_buffers 1 4k;", "there must be at least 2 \"proxy_buffers\""),
        ("proxy_cookie_flags a bad;", "invalid parameter \"bad\""),
    ]);
}

#[test]
fn an_inner_location_does_not_inherit_the_pass() {
    let text =
        "server { location / { proxy_pass http://127.0.0.1:1; location /b { } if ($args) { set $a 1; } } }";
    let handlers: Vec<_> = http(text).unwrap().locations.iter().map(|l| l.plan.content.is_some()).collect();
    assert_eq!(handlers, [false, true, false, true]);
}
