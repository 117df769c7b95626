//! `proxy_cache_mode rfc9111`, as a client sees it.

use crate::rules::{ask, number, scripted};
use crate::{server, status};
use brisk_testkit::{Server, wait};

fn strict(port: u16, more: &str) -> Server {
    server(port, &format!("proxy_cache_mode rfc9111; {more}"))
}

/// RFC 9213 §2: a cache that knows the targeted field overlooks the general one, and so does who comes after not see it kept.
#[test]
fn a_targeted_field_outranks_cache_control() {
    let check = |fields: &'static str, want: &str| {
        let (backend, _) = scripted(move |_, n| number(fields, n));
        let server = strict(backend.port(), "");
        server.get("/");
        assert_eq!(status(&server.get("/")), want, "{fields}");
    };
    check("Cache-Control: no-store\r\nCDN-Cache-Control: max-age=600\r\n", "HIT");
    check("Cache-Control: max-age=600\r\nCDN-Cache-Control: no-store\r\n", "MISS");
    check("CDN-Cache-Control: private\r\nCache-Control: max-age=600\r\n", "MISS");
}

/// RFC 5861 §3, §4.
#[test]
fn stale_answers_are_given_out_only_with_leave() {
    let check = |fields: &'static str, stale: bool| {
        let (backend, _) = scripted(move |_, n| {
            if n > 1 { "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n".into() } else { number(fields, n) }
        });
        let server = strict(backend.port(), "");
        server.get("/");
        wait::holds("it has expired", || status(&server.get("/")) != "HIT");
        let page = server.get("/");
        assert_eq!(page.status == 200, stale, "{fields}");
        let said = page.header("Cache-Status").unwrap_or_default().to_string();
        assert!(said.starts_with("brisk; "), "{said}");
    };
    check("Cache-Control: max-age=1\r\n", false);
    check("Cache-Control: max-age=1, stale-if-error=600\r\n", true);
    check("Cache-Control: max-age=1, stale-if-error=600, must-revalidate\r\n", false);
}

/// RFC 8246 §2: what never changes is not asked for again because a client reloads.
#[test]
fn what_is_immutable_is_not_confirmed() {
    let (backend, heads) = scripted(|head, n| {
        let fields = if head.starts_with("GET /never") { ", immutable" } else { "" };
        number(&format!("Cache-Control: max-age=600{fields}\r\nETag: \"v\"\r\n"), n)
    });
    let server = strict(backend.port(), "");
    for target in ["/never", "/changes"] {
        wait::holds("it has an age", || {
            ask(&server, "GET", target, "").header("Age").is_some_and(|age| age.trim() != "0")
        });
        ask(&server, "GET", target, "Cache-Control: max-age=0\r\n");
    }
    let asked = heads.lock().unwrap().iter().map(|head| head[..9].to_string()).collect::<Vec<_>>();
    assert_eq!(asked, ["GET /neve", "GET /chan", "GET /chan"]);
}

/// RFC 9111 §4.2.2: without a lifetime a share of its age is assumed.
#[test]
fn old_answers_stay_fresh_without_being_told_to() {
    let (backend, _) = scripted(|head, n| {
        let fields = if head.starts_with("GET /old") {
            "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
        } else {
            ""
        };
        number(fields, n)
    });
    let server = strict(backend.port(), "");
    for (target, want) in [("/old", "HIT"), ("/new", "MISS")] {
        server.get(target);
        assert_eq!(status(&server.get(target)), want, "{target}");
    }
}

/// RFC 9111 §3.4, §4.4: parts are put together, and what changes a thing drops what is stored of it.
#[test]
fn parts_are_combined_and_unsafe_methods_invalidate() {
    const ALL: &str = "0123456789";
    let (backend, heads) = scripted(|head, _| {
        let fields = "Cache-Control: max-age=600\r\nETag: \"v\"\r\nLocation: /other\r\n";
        let range = head.lines().find_map(|line| line.strip_prefix("Range: bytes="));
        let Some((first, last)) = range.and_then(|range| range.trim().split_once('-')) else {
            return format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 10\r\n\r\n{ALL}");
        };
        let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap_or(9));
        let part = &ALL[first..=last];
        format!(
            "HTTP/1.1 206 Part\r\n{fields}Content-Range: bytes {first}-{last}/10\r\nContent-Length: {}\r\n\r\n{part}",
            part.len()
        )
    });
    let server = strict(backend.port(), "");
    let part = |range: &str| ask(&server, "GET", "/", &format!("Range: bytes={range}\r\n"));
    assert_eq!(part("0-4").text(), "01234");
    assert_eq!((part("1-3").text(), heads.lock().unwrap().len()), ("123".into(), 1));
    let whole = server.get("/");
    assert_eq!((whole.status, whole.text().as_str()), (200, ALL));
    assert!(heads.lock().unwrap()[1].contains("Range: bytes=5-\r\nIf-Range: \"v\"\r\n"));
    assert_eq!((part("3-8").text(), heads.lock().unwrap().len()), ("345678".into(), 2));
    server.get("/other");
    assert_eq!(ask(&server, "POST", "/", "Content-Length: 0\r\n").status, 200);
    for target in ["/", "/other"] {
        assert_eq!(status(&server.get(target)), "MISS", "{target}");
    }
}

/// RFC 9110 §9.3.2: the answer to a HEAD has no body, and is none to a GET.
#[test]
fn the_answer_to_a_head_is_not_stored_for_a_get() {
    let (backend, _) = scripted(|head, n| {
        let answer = number("Cache-Control: max-age=600\r\n", n);
        if head.starts_with("HEAD") { answer[..answer.len() - 1].into() } else { answer }
    });
    let server = strict(backend.port(), "proxy_cache_convert_head off;");
    ask(&server, "HEAD", "/", "");
    assert_eq!(server.get("/").text(), "2");
    let head = ask(&server, "HEAD", "/", "");
    assert_eq!((status(&head), head.header("Content-Length")), ("HIT", Some("1")));
}

/// RFC 9111 §5.2.1.
#[test]
fn requests_have_their_say() {
    let (backend, _) = scripted(|_, n| number("Cache-Control: max-age=600\r\n", n));
    let server = strict(backend.port(), "");
    server.get("/");
    for (said, hit) in [
        ("Cache-Control: max-age=100", true),
        ("Cache-Control: min-fresh=700", false),
        ("Cache-Control: no-cache", false),
        ("Pragma: no-cache", false),
        ("Cache-Control: max-stale=5", true),
        ("Cache-Control: only-if-cached", true),
    ] {
        assert_eq!(status(&ask(&server, "GET", "/", &format!("{said}\r\n"))) == "HIT", hit, "{said}");
    }
    assert_eq!(ask(&server, "GET", "/kept", "Cache-Control: no-store\r\n").status, 200);
    assert_eq!(status(&server.get("/kept")), "MISS");
}
