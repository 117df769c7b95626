//! The directives of the cache, each with what it changes.

use crate::{BIN, conf, files, gate, server, status, until_status};
use brisk_testkit::backend::Peer;
use brisk_testkit::{Backend, Builder, Response, Server, process, wait};
use rustix::process::Signal;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a back end was asked.
pub type Heads = Arc<Mutex<Vec<String>>>;

/// A back end whose answers are made by `answer` from the request's head and its number. An empty answer ends the connection.
pub fn scripted(answer: impl Fn(&str, usize) -> String + Send + Sync + 'static) -> (Backend, Heads) {
    let heads = Heads::default();
    let seen = heads.clone();
    let backend = Backend::start(move |mut peer: Peer| {
        while let Some(head) = peer.head() {
            let number = {
                let mut seen = seen.lock().unwrap();
                seen.push(head.clone());
                seen.len()
            };
            let bytes = answer(&head, number);
            if bytes.is_empty() || !peer.send(bytes) {
                return;
            }
        }
    });
    (backend, heads)
}

/// What of `all` a request's head has asked for by one range of bytes, as a 206; `None` if it names none.
pub fn part_of(all: &[u8], head: &str) -> Option<String> {
    let range = head.lines().find_map(|line| line.strip_prefix("Range: bytes="))?;
    let (first, last) = range.split_once('-').unwrap();
    let (first, last): (usize, usize) = (first.parse().unwrap(), last.trim().parse().unwrap());
    let last = last.min(all.len() - 1);
    let piece = std::str::from_utf8(&all[first..=last]).unwrap();
    Some(format!(
        "HTTP/1.1 206 Partial\r\nETag: \"v\"\r\nContent-Range: bytes {first}-{last}/{}\r\nContent-Length: {}\r\n\r\n{piece}",
        all.len(),
        piece.len()
    ))
}

/// An answer with these fields whose body is its number.
pub fn number(fields: &str, number: usize) -> String {
    let body = number.to_string();
    format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len())
}

pub fn ask(server: &Server, method: &str, target: &str, more: &str) -> Response {
    server.request(format!("{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{more}\r\n"))
}

/// What `$upstream_cache_status` says of requests in turn.
fn statuses(server: &Server, target: &str, more: &str, count: usize) -> Vec<String> {
    (0..count).map(|_| status(&ask(server, "GET", target, more)).to_string()).collect()
}

#[test]
fn what_is_stored_and_for_how_long() {
    let check = |directives: &str, fields: &'static str, want: &[&str]| {
        let (backend, _) = scripted(move |_, n| number(fields, n));
        let server = server(backend.port(), directives);
        let (last, before) = want.split_last().unwrap();
        assert_eq!(statuses(&server, "/", "", before.len()), before, "{directives} {fields}");
        // A client may have its answer a moment before the answer is stored.
        let found = || (statuses(&server, "/", "", 1) == [*last]).then_some(());
        let is_right = if *last == "HIT" { wait::within(wait::DEADLINE, found) } else { found() };
        assert!(is_right.is_some(), "{directives} {fields}: not {last}");
    };
    let fresh = "Cache-Control: max-age=600\r\n";
    check("", "", &["MISS", "MISS"]);
    check("proxy_cache_valid 1m;", "", &["MISS", "HIT"]);
    check("proxy_cache_valid 404 1m;", "", &["MISS", "MISS"]);
    check("proxy_cache_valid any 1m;", "", &["MISS", "HIT"]);
    check("proxy_cache_min_uses 3;", fresh, &["MISS", "MISS", "MISS", "HIT"]);
    check("", "Expires: Thu, 31 Dec 2037 23:55:55 GMT\r\n", &["MISS", "HIT"]);
    check("proxy_cache_valid 1m;", "Expires: Thu, 01 Jan 1970 00:00:00 GMT\r\n", &["MISS", "MISS"]);
    check("", "X-Accel-Expires: 600\r\nCache-Control: no-store\r\n", &["MISS", "HIT"]);
    check("", "X-Accel-Expires: 0\r\nCache-Control: max-age=9\r\n", &["MISS", "MISS"]);
    check("", "X-Accel-Expires: @2147483647\r\n", &["MISS", "HIT"]);
    check("proxy_ignore_headers Cache-Control;", fresh, &["MISS", "MISS"]);
    check(
        "proxy_ignore_headers Set-Cookie;",
        "Set-Cookie: a=b\r\nCache-Control: max-age=9\r\n",
        &["MISS", "HIT"],
    );
    check("proxy_cache_bypass $arg_none 0;", fresh, &["MISS", "HIT"]);
    check("proxy_cache_bypass 1; proxy_no_cache 1;", fresh, &["BYPASS", "BYPASS"]);
    check("proxy_no_cache $http_host;", fresh, &["MISS", "MISS"]);
    check("", "Vary: *\r\nCache-Control: max-age=9\r\n", &["MISS", "MISS"]);
}

/// A bypass brings what is stored up to date.
#[test]
fn methods_variants_and_bypasses() {
    let (backend, heads) = scripted(|_, n| number("Cache-Control: max-age=600\r\nVary: X-Kind\r\n", n));
    let server = server(
        backend.port(),
        "proxy_cache_methods POST; proxy_cache_bypass $arg_new; proxy_cache_key $uri$request_method;",
    );
    let text = |method: &str, target: &str, more: &str| ask(&server, method, target, more).text();
    assert_eq!([text("GET", "/a", ""), text("GET", "/a", "")], ["1", "1"]);
    assert_eq!([text("GET", "/a", "X-Kind: b\r\n"), text("GET", "/a", "X-Kind: b\r\n")], ["2", "2"]);
    assert_eq!(text("GET", "/a", ""), "1");
    assert_eq!([text("GET", "/a?new=1", ""), text("GET", "/a", "")], ["3", "3"]);
    let post = "Content-Length: 0\r\n";
    assert_eq!([text("POST", "/a", post), text("POST", "/a", post)], ["4", "4"]);
    assert_eq!([text("PUT", "/a", post), text("PUT", "/a", post)], ["5", "6"]);
    assert_eq!(heads.lock().unwrap().len(), 6);
}

/// The two forms of ngx_cache_purge.
#[test]
fn a_location_or_a_method_purges() {
    let (backend, _) = scripted(|_, n| number("Cache-Control: max-age=600\r\n", n));
    let text = conf(backend.port(), "", "proxy_cache_purge PURGE from 127.0.0.1;");
    let locations = format!(
        "location ~ ^/purge(/.*) {{ proxy_cache_purge one \"$1$is_args$args\"; }}
         location /far {{ proxy_pass http://127.0.0.1:{}; proxy_cache one; proxy_cache_purge PURGE from 10.0.0.0/8 ::1; }}
         location / {{",
        backend.port()
    );
    let text = text.replacen("location / {", &locations, 1);
    let server = Builder::new(BIN).main("user root;").http(&text).start();
    let got = |method: &str, target: &str| {
        let answer = server
            .request(format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
        (answer.status, answer.text())
    };
    let number = |n: usize| (200, n.to_string());
    assert_eq!([got("GET", "/a?b"), got("GET", "/a?b")], [number(1), number(1)]);
    let (status, page) = got("GET", "/purge/a?b");
    assert!(status == 200 && page.contains("Successful purge") && page.contains("/a?b"), "{page}");
    assert_eq!(got("GET", "/purge/a?b").0, 404);
    assert_eq!(got("GET", "/a?b"), number(2));
    assert_eq!((got("PURGE", "/a?b").0, got("PURGE", "/a?b").0), (200, 404));
    assert_eq!([got("GET", "/a?b"), got("GET", "/a?c")], [number(3), number(4)]);
    assert_eq!(got("GET", "/purge/a*").0, 200);
    assert_eq!([got("GET", "/a?b"), got("GET", "/a?c")], [number(5), number(6)]);
    assert_eq!(got("GET", "/far"), number(7));
    assert_eq!(got("PURGE", "/far").0, 403);
    // Pages of other sites, whose browsers stand where purges are allowed; one has its own name resolved to this server.
    for (method, target) in [("PURGE", "/far"), ("PURGE", "/a?b"), ("GET", "/purge/a?b")] {
        for (host, origin) in
            [("127.0.0.1", "http://evil.example"), ("rebound.example", "http://rebound.example")]
        {
            let request = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\n\r\n");
            assert_eq!(server.request(request).status, 403, "{method} {target} {origin}");
        }
    }
    // What a page merely shows, such as a picture, is asked for without `Origin`.
    for (fields, want) in [
        ("Host: 127.0.0.1\r\nSec-Fetch-Site: cross-site\r\n", 403),
        ("Host: 127.0.0.1\r\nSec-Fetch-Site: same-site\r\n", 403),
        ("Host: 127.0.0.1\r\nReferer: http://evil.example/http://127.0.0.1/\r\n", 403),
        ("Host: rebound.example\r\n", 403),
        ("Host: 127.0.0.1\r\nSec-Fetch-Site: same-origin\r\nReferer: http://127.0.0.1/admin\r\n", 404),
        ("Host: 127.0.0.1\r\nSec-Fetch-Site: none\r\n", 404),
    ] {
        for method in ["GET", "HEAD"] {
            let target = if want == 403 { "/purge/a?b" } else { "/purge/nothing" };
            let answer =
                server.request(format!("{method} {target} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n"));
            assert_eq!(answer.status, want, "{method} {fields}");
        }
    }
    assert_eq!(got("GET", "/a?b"), number(5));
    let request = "PURGE /a?b HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://127.0.0.1\r\n\r\n";
    assert_eq!(server.request(request).status, 200);
    assert_eq!(got("GET", "/far"), number(7));
}

/// The body is read before the key is made and the conditions are held against it.
#[test]
fn bodies_tell_answers_apart() {
    let (backend, _) = scripted(|_, n| number("Cache-Control: max-age=600\r\n", n));
    let server = server(
        backend.port(),
        "proxy_cache_methods GET POST; proxy_cache_key \"$uri|$request_body\";
         proxy_cache_bypass $request_body; proxy_pass_request_body off;",
    );
    let post = |body: &str| {
        let answer = server.request(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        (answer.text(), status(&answer).to_string())
    };
    let said = |text: &str, status: &str| (text.to_string(), status.to_string());
    assert_eq!(post(""), said("1", "MISS"));
    assert_eq!(post(""), said("1", "HIT"));
    assert_eq!(post("abc"), said("2", "BYPASS"));
    assert_eq!(post("0"), said("3", "MISS"));
    assert_eq!(post("0"), said("3", "HIT"));
    assert_eq!(post(""), said("1", "HIT"));
}

#[test]
fn heads_are_asked_for_as_gets_unless_told_otherwise() {
    let (backend, heads) = scripted(|head, n| {
        let answer = number("Cache-Control: max-age=600\r\n", n);
        if head.starts_with("HEAD") { answer[..answer.len() - 1].into() } else { answer }
    });
    let converting = server(backend.port(), "");
    assert_eq!(status(&ask(&converting, "HEAD", "/", "")), "MISS");
    assert!(heads.lock().unwrap()[0].starts_with("GET / "));
    let page = ask(&converting, "GET", "/", "");
    assert_eq!((status(&page), page.text().as_str()), ("HIT", "1"));
    let plain = server(backend.port(), "proxy_cache_convert_head off; proxy_cache_key $uri$request_method;");
    assert_eq!(status(&ask(&plain, "HEAD", "/", "")), "MISS");
    assert!(heads.lock().unwrap()[1].starts_with("HEAD / "));
    assert_eq!(status(&ask(&plain, "HEAD", "/", "")), "HIT");
    assert_eq!(status(&ask(&plain, "GET", "/", "")), "MISS");
}

/// The answer to a HEAD has no body: it is none to a GET, whatever the key says.
#[test]
fn a_head_that_is_not_converted_shares_nothing_with_a_get() {
    let (backend, _) = scripted(|head, n| {
        let answer = number("Cache-Control: max-age=600\r\n", n);
        if head.starts_with("HEAD") { answer[..answer.len() - 1].into() } else { answer }
    });
    for key in ["proxy_cache_key $request_uri;", ""] {
        let server = server(
            backend.port(),
            &format!("proxy_cache_convert_head off; proxy_cache_purge PURGE from all; {key}"),
        );
        let head = ask(&server, "HEAD", "/", "");
        assert_eq!((head.status, status(&head)), (200, "MISS"));
        let page = ask(&server, "GET", "/", "");
        assert_eq!((status(&page), page.body.len()), ("MISS", 1));
        assert_eq!(status(&ask(&server, "HEAD", "/", "")), "HIT");
        assert_eq!(ask(&server, "GET", "/", "").text(), page.text());
        // A purge is for both.
        assert_eq!(ask(&server, "PURGE", "/", "").status, 200);
        assert_eq!(status(&ask(&server, "HEAD", "/", "")), "MISS");
        assert_eq!(status(&ask(&server, "GET", "/", "")), "MISS");
        assert_eq!(ask(&server, "PURGE", "/*", "").status, 200);
        assert_eq!(status(&ask(&server, "GET", "/", "")), "MISS");
        assert_eq!(status(&ask(&server, "HEAD", "/", "")), "MISS");
    }
}

/// RFC 9110 §9.3.1: a back end may answer by the body of a GET; one client's answer is not another's then.
#[test]
fn a_get_with_a_body_is_left_alone_unless_the_key_has_the_body() {
    let backend = Backend::start(|mut peer: Peer| {
        while let Some(head) = peer.head() {
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let body = peer.body(length.map_or(0, |text| text.trim().parse().expect("a number")));
            let text = format!("<{}>", String::from_utf8_lossy(&body));
            let length = text.len();
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {length}\r\n\r\n{text}"
            ));
        }
    });
    let with = |body: &str| format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let get = |server: &Server, method: &str, body: &str| {
        let more = if body.is_empty() { "\r\n".to_string() } else { with(body) };
        let answer = server.request(format!("{method} / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{more}"));
        (status(&answer).to_string(), answer.text())
    };
    let is = |status: &str, text: &str| (status.to_string(), text.to_string());
    for directives in ["", "proxy_request_buffering off;", "proxy_cache_mode rfc9111;"] {
        let plain = server(backend.port(), directives);
        assert_eq!(get(&plain, "GET", "poison"), is("", "<poison>"), "{directives}");
        assert_eq!(get(&plain, "GET", ""), is("MISS", "<>"));
        assert_eq!(get(&plain, "GET", ""), is("HIT", "<>"));
        assert_eq!(get(&plain, "GET", "other"), is("", "<other>"));
        assert_eq!(get(&plain, "HEAD", "head").0, "");
        assert_eq!(get(&plain, "GET", ""), is("HIT", "<>"));
    }
    let keyed = server(backend.port(), "proxy_cache_key $uri|$request_body;");
    assert_eq!(get(&keyed, "GET", "a"), is("MISS", "<a>"));
    assert_eq!(get(&keyed, "GET", "a"), is("HIT", "<a>"));
    assert_eq!(get(&keyed, "GET", "b"), is("MISS", "<b>"));
    assert_eq!(get(&keyed, "GET", ""), is("MISS", "<>"));
}

#[test]
fn an_expired_answer_is_confirmed() {
    let (backend, heads) = scripted(|head, n| {
        if head.contains("If-None-Match: \"v\"\r\n") && head.contains("If-Modified-Since: Sun, 06 Nov 1994") {
            return "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=600\r\n\r\n".into();
        }
        let fields =
            "Cache-Control: max-age=1\r\nETag: \"v\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        number(fields, n)
    });
    let server = server(backend.port(), "proxy_cache_revalidate on;");
    until_status(&server, "/", "REVALIDATED");
    let kept = server.get("/");
    assert_eq!((status(&kept), kept.text().as_str()), ("HIT", "1"));
    assert_eq!(heads.lock().unwrap().len(), 2);
}

/// While one request brings an answer up to date the others get the old one, and so does that one if the work is done behind
/// its back.
#[test]
fn who_may_have_a_stale_answer_does_not_wait() {
    for (directives, fields) in [
        ("proxy_cache_use_stale updating; proxy_cache_background_update on;", "Cache-Control: max-age=1\r\n"),
        ("proxy_cache_background_update on;", "Cache-Control: max-age=1, stale-while-revalidate=600\r\n"),
    ] {
        let (go, wait_to_go) = gate();
        let (backend, heads) = scripted(move |_, n| {
            if n > 1 {
                wait_to_go();
            }
            number(if n > 1 { "Cache-Control: max-age=600\r\n" } else { fields }, n)
        });
        let server = server(backend.port(), directives);
        assert_eq!(server.get("/").text(), "1");
        wait::holds("it has expired", || status(&server.get("/")) == "STALE");
        for _ in 0..5 {
            let page = server.get("/");
            assert_eq!((status(&page), page.text().as_str()), ("UPDATING", "1"), "{directives}");
        }
        go.send(()).unwrap();
        until_status(&server, "/", "HIT");
        assert_eq!(server.get("/").text(), "2");
        assert_eq!(heads.lock().unwrap().len(), 2);
    }
}

#[test]
fn errors_are_covered_by_what_is_stored() {
    type Answer = fn() -> String;
    let failed: Answer = || "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".into();
    let garbage: Answer = || "what?\r\n\r\n".into();
    let closed: Answer = String::new;
    let check = |directives: &str, fields: &'static str, answer: Answer, stale: bool| {
        let (backend, _) = scripted(move |_, n| if n > 1 { answer() } else { number(fields, n) });
        let server = server(backend.port(), directives);
        assert_eq!(server.get("/").text(), "1");
        wait::holds("it has expired", || status(&server.get("/")) != "HIT");
        let page = server.get("/");
        let seen = (status(&page).to_string(), page.status);
        let want = if stale { seen == ("STALE".into(), 200) } else { seen.0 != "STALE" && seen.1 >= 502 };
        assert!(want, "{directives} {fields}: {seen:?}");
    };
    let short = "Cache-Control: max-age=1\r\n";
    check("proxy_cache_use_stale http_503;", short, failed, true);
    check("proxy_cache_use_stale http_502;", short, failed, false);
    check("proxy_cache_use_stale invalid_header;", short, garbage, true);
    check("proxy_cache_use_stale error;", short, closed, true);
    check("", short, closed, false);
    check("", "Cache-Control: max-age=1, stale-if-error=600\r\n", closed, true);
    // An answer is an error only if the configuration says so.
    check("", "Cache-Control: max-age=1, stale-if-error=600\r\n", failed, false);
}

/// Others wait for the one that asks, as long as they are told to.
#[test]
fn a_lock_has_an_end() {
    let (go, wait_to_go) = gate();
    let (backend, heads) = scripted(move |_, n| {
        if n == 1 {
            wait_to_go();
        }
        number("Cache-Control: max-age=600\r\n", n)
    });
    let server = server(backend.port(), "proxy_cache_lock on; proxy_cache_lock_timeout 100ms;");
    let mut first = server.client();
    first.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait::holds("the first to ask", || heads.lock().unwrap().len() == 1);
    let second = server.get("/");
    assert_eq!((status(&second), second.text().as_str()), ("MISS", "2"));
    go.send(()).unwrap();
    assert_eq!(first.response().text(), "1");
    let third = server.get("/");
    assert_eq!(
        (status(&third), third.text().as_str()),
        ("HIT", "1"),
        "what the lock did not cover is not stored"
    );
}

/// A worker that is killed while it brings an answer up to date leaves nothing behind that waits for it.
#[test]
fn nothing_is_left_updating_by_a_worker_that_dies() {
    let (backend, heads) = scripted(|_, n| {
        if n == 2 {
            std::thread::sleep(Duration::from_secs(30));
        }
        number(if n > 1 { "Cache-Control: max-age=600\r\n" } else { "Cache-Control: max-age=1\r\n" }, n)
    });
    let server = server(
        backend.port(),
        "proxy_cache_use_stale updating; proxy_cache_background_update on; proxy_cache_lock on;",
    );
    assert_eq!(server.get("/").text(), "1");
    wait::holds("it has expired", || status(&server.get("/")) != "HIT");
    wait::holds("the update to begin", || heads.lock().unwrap().len() == 2);
    let worker = server.worker();
    process::signal(worker, Signal::KILL);
    wait::holds("another worker", || server.workers().first().is_some_and(|pid| *pid != worker));
    wait::holds("a new answer", || server.get("/").text() == "3");
    assert_eq!(status(&server.get("/")), "HIT");
}

#[test]
fn what_nobody_asks_for_is_removed() {
    let (backend, _) = scripted(|_, n| number("Cache-Control: max-age=600\r\n", n));
    let text = conf(backend.port(), "inactive=1s manager_sleep=50ms", "");
    let server = Builder::new(BIN).main("user root;").http(&text).start();
    server.get("/a");
    wait::holds("the file", || files(&server).len() == 1);
    wait::holds("it to be removed", || files(&server).is_empty());
    assert_eq!(status(&server.get("/a")), "MISS");
}

#[test]
fn a_cache_keeps_to_its_size() {
    let body = "x".repeat(100_000);
    let answer =
        format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 100000\r\n\r\n{body}");
    let (backend, _) = scripted(move |_, _| answer.clone());
    let text =
        conf(backend.port(), "max_size=1m memory=300k manager_sleep=50ms", "location = /m { metrics; }");
    let server = Builder::new(BIN).main("user root;").http(&text).start();
    for page in 0..40 {
        assert_eq!(server.get(&format!("/{page}")).body.len(), 100_000);
    }
    let bytes =
        || files(&server).iter().filter_map(|path| path.metadata().ok()).map(|m| m.len()).sum::<u64>();
    wait::holds("the oldest to go", || bytes() <= 1 << 20);
    assert!(bytes() > 500_000);
    let metrics = server.get("/m").text();
    let memory =
        metrics.lines().find_map(|line| line.strip_prefix("brisk_cache_memory_bytes{zone=\"one\"} "));
    assert!(memory.is_some_and(|n| n.parse::<u64>().unwrap() <= 300 << 10), "{metrics}");
    assert_eq!(status(&server.get("/39")), "HIT");
    assert_eq!(status(&server.get("/0")), "MISS");
}

/// Large answers in pieces: only those that are needed are asked for, each once.
#[test]
fn slices_are_asked_for_and_kept_one_by_one() {
    let body: Arc<Vec<u8>> = Arc::new((0..10_000u32).map(|n| b'a' + (n / 100 % 26) as u8).collect());
    let all = body.clone();
    let (backend, heads) = scripted(move |head, _| part_of(&all, head).expect("a range"));
    let server = server(
        backend.port(),
        "slice 1k; proxy_cache_key $uri$slice_range; proxy_set_header Range $slice_range; proxy_cache_valid 200 206 1h;",
    );
    let part = ask(&server, "GET", "/big", "Range: bytes=2500-4200\r\n");
    assert_eq!((part.status, part.header("Content-Range")), (206, Some("bytes 2500-4200/10000")));
    assert!(part.body == body[2500..=4200]);
    assert_eq!(heads.lock().unwrap().len(), 3);
    let whole = server.get("/big");
    assert_eq!(whole.status, 200);
    assert!(whole.body == **body);
    assert_eq!(heads.lock().unwrap().len(), 10);
    assert!(server.get("/big").body == **body);
    assert_eq!(heads.lock().unwrap().len(), 10);
}

/// What is beyond the limits is told: a purge by it would leave the answer.
#[test]
fn tags_beyond_the_limit_are_told() {
    let (backend, _) = scripted(|head, n| {
        let tags = if head.starts_with("GET /few") { 5 } else { 130 };
        let tags: Vec<String> = (1..=tags).map(|tag| format!("t{tag}")).collect();
        number(&format!("Cache-Control: max-age=600\r\nSurrogate-Key: {}\r\n", tags.join(" ")), n)
    });
    let server = server(backend.port(), "proxy_cache_purge $http_x_purge; location = /m { metrics; }");
    let metric = |name: &str| {
        let text = server.get("/m").text();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}{{zone=\"one\"}} ")));
        line.map(|number| number.parse::<u64>().unwrap())
    };
    for page in ["/few", "/1", "/2"] {
        until_status(&server, page, "HIT");
    }
    assert_eq!(metric("brisk_cache_tags_dropped_total"), Some(4));
    // Line feeds stand between them.
    let kept: usize = (1..=128).map(|tag| format!("t{tag}").len() + 1).sum::<usize>() - 1;
    assert_eq!(metric("brisk_cache_tag_bytes"), Some(2 * kept as u64 + 14));
    let log = std::fs::read_to_string(server.dir().join("error.log")).unwrap();
    assert_eq!(log.matches("more than 128 tags").count(), 1, "{log}");
    let purge =
        |tags: &str| ask(&server, "PURGE", "/", &format!("X-Purge: 1\r\nSurrogate-Key: {tags}\r\n")).status;
    assert_eq!(purge("t130"), 204);
    assert_eq!(status(&server.get("/1")), "HIT");
    assert_eq!(purge("t128"), 204);
    assert_eq!(["/1", "/2", "/few"].map(|page| status(&server.get(page)) == "HIT"), [false, false, true]);
    let many: Vec<String> = (1..=129).map(|tag| format!("t{tag}")).collect();
    assert_eq!(purge(&many.join(" ")), 400);
    assert_eq!(status(&server.get("/few")), "HIT");
}

/// Tags of all spellings, and a purge of everything.
#[test]
fn purges_by_litespeeds_tags_and_of_all() {
    let (backend, _) = scripted(|_, n| {
        number(&format!("Cache-Control: max-age=600\r\nX-LiteSpeed-Tag: all,page{n}\r\n"), n)
    });
    let server = server(backend.port(), "proxy_cache_purge $http_x_purge;");
    for page in ["/1", "/2", "/3"] {
        until_status(&server, page, "HIT");
    }
    let purge = |more: &str| ask(&server, "PURGE", "/", &format!("X-Purge: 1\r\n{more}")).status;
    assert_eq!(purge("X-LiteSpeed-Tag: page2\r\n"), 204);
    assert_eq!(["/1", "/3"].map(|page| status(&server.get(page)) == "HIT"), [true; 2]);
    assert_eq!(status(&server.get("/2")), "MISS");
    assert_eq!(ask(&server, "PURGE", "/*", "X-Purge: 1\r\n").status, 204);
    assert_eq!(["/1", "/2", "/3"].map(|page| status(&server.get(page)) == "MISS"), [true; 3]);
    wait::holds("the files", || files(&server).len() == 3);
    let conf = server.dir().join("brisk.conf").display().to_string();
    let output =
        std::process::Command::new(BIN).args(["cache", "-c", &conf, "purge", "--all"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "3 removed\n");
    assert!(files(&server).is_empty());
}
