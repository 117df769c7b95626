//! Parts that are stored (RFC 9111 §3.3, §3.4) in `proxy_cache_mode rfc9111`: nobody gets bytes that he did not ask for.

use crate::rules::{Heads, ask, part_of, scripted};
use crate::{BIN, conf, files, gate, server, status};
use brisk_testkit::{Backend, Builder, Response, Server, process, wait};
use rustix::process::Signal;
use std::sync::Arc;

const ALL: &str = "0123456789";
/// Another representation of the same length.
const OTHER: &str = "abcdefghij";

/// What is stale from the first moment on.
const STALE: &str = "Cache-Control: max-age=0\r\n";
const FRESH: &str = "Cache-Control: max-age=600\r\n";

fn strict(port: u16, more: &str) -> Server {
    server(port, &format!("proxy_cache_mode rfc9111; {more}"))
}

fn value<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::trim))
}

/// The first byte and the one behind the last of a `Range`.
fn bounds(range: &str, length: usize) -> Option<(usize, usize)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    match (first.parse::<usize>(), last.parse::<usize>()) {
        (Ok(first), Ok(last)) => Some((first, (last + 1).min(length))),
        (Ok(first), Err(_)) => Some((first, length)),
        (Err(_), Ok(last)) => Some((length.saturating_sub(last), length)),
        (Err(_), Err(_)) => None,
    }
}

fn partial(fields: &str, all: &str, (start, end): (usize, usize)) -> String {
    let part = &all[start..end];
    let (last, total, length) = (end - 1, all.len(), part.len());
    format!(
        "HTTP/1.1 206 Part\r\n{fields}Content-Range: bytes {start}-{last}/{total}\r\nContent-Length: {length}\r\n\r\n{part}"
    )
}

fn whole(head: &str, fields: &str, all: &str) -> String {
    let body = if head.starts_with("HEAD") { "" } else { all };
    format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{body}", all.len())
}

/// What a back end that knows its RFC says of `all`.
fn lawful(head: &str, fields: &str, etag: &str, all: &str) -> String {
    let fields = format!("{fields}ETag: {etag}\r\nX-Kind: text\r\n");
    if value(head, "If-None-Match") == Some(etag) {
        return format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n");
    }
    let range = value(head, "Range").filter(|_| value(head, "If-Range").is_none_or(|have| have == etag));
    match range.and_then(|range| bounds(range, all.len())) {
        Some((start, end)) if start < end && !head.starts_with("HEAD") => partial(&fields, all, (start, end)),
        _ => whole(head, &fields, all),
    }
}

fn back_end(fields: &'static str) -> (Backend, Heads) {
    scripted(move |head, _| lawful(head, fields, "\"v\"", ALL))
}

fn part(server: &Server, range: &str) -> Response {
    ask(server, "GET", "/", &format!("Range: bytes={range}\r\n"))
}

/// An answer must be what was asked for: the whole, or just these bytes, of one representation.
fn check(page: &Response, wanted: Option<&str>, why: &str) {
    let text = page.text();
    let why = format!("{why}, {wanted:?}: {} {text:?} {:?}", page.status, page.header("Content-Range"));
    match (page.status, wanted.map(|range| bounds(range, ALL.len()).unwrap())) {
        (200, _) => assert!(text == ALL || text == OTHER, "{why}"),
        (206, Some((start, end))) => {
            // A back end may give less than it is asked for, if it says so.
            let end = if text.len() < end - start { start + text.len() } else { end };
            let said = format!("bytes {start}-{}/10", end - 1);
            assert_eq!(page.header("Content-Range"), Some(&*said), "{why}");
            assert!(text == ALL[start..end] || text == OTHER[start..end], "{why}");
        }
        _ => panic!("{why}"),
    }
}

/// Everything that can be asked, by somebody who has not asked for what is stored.
fn probe(server: &Server, why: &str) {
    let get = |more: &str| ask(server, "GET", "/", more);
    for _ in 0..2 {
        check(&get(""), None, why);
        for range in ["bytes=0-4", "bytes=1-2", "bytes=3-7", "bytes=7-8", "bytes=-2", "bytes=2-", "bytes=0-"]
        {
            check(&get(&format!("Range: {range}\r\n")), Some(range), why);
            let old = get(&format!("Range: {range}\r\nIf-Range: \"old\"\r\n"));
            assert_eq!(old.status, 200, "{why}: {}", old.text());
            check(&old, None, why);
        }
        let head = ask(server, "HEAD", "/", "");
        assert_eq!((head.status, head.header("Content-Length")), (200, Some("10")), "{why}");
        check(&get("Cache-Control: no-cache\r\n"), None, why);
        check(&get("Cache-Control: max-stale\r\n"), None, why);
    }
}

#[test]
fn a_stored_part_is_for_those_who_ask_for_it() {
    for fields in [
        FRESH,
        STALE,
        "Cache-Control: max-age=0, stale-while-revalidate=600\r\n",
        "Cache-Control: max-age=0, stale-if-error=600\r\n",
        "Cache-Control: no-cache\r\n",
        "Cache-Control: max-age=0, must-revalidate\r\n",
    ] {
        for directives in
            ["", "proxy_cache_use_stale updating error http_500; proxy_cache_background_update on;"]
        {
            let why = format!("{fields}{directives}");
            for first in ["0-0", "0-4", "5-9", "3-6", "-1"] {
                let (backend, _) = back_end(fields);
                let server = strict(backend.port(), directives);
                check(&part(&server, first), Some(&format!("bytes={first}")), &why);
                probe(&server, &format!("{first} {why}"));
            }
        }
    }
}

#[test]
fn a_stored_part_is_for_those_who_ask_for_it_whatever_the_directives() {
    for directives in [
        "proxy_cache_lock on; proxy_cache_lock_timeout 0;",
        "proxy_cache_min_uses 2;",
        "proxy_cache_bypass $arg_none $http_cache_control;",
        "proxy_cache_revalidate on;",
        "proxy_cache_max_range_offset 6;",
        "proxy_cache_convert_head off;",
        "proxy_cache_convert_head off; proxy_cache_key $uri$request_method;",
        "slice 3; proxy_set_header Range $slice_range; proxy_cache_key $uri$slice_range;",
        "proxy_set_header Range $http_range; proxy_set_header If-Range $http_if_range; proxy_cache_key $uri$http_range;",
    ] {
        for fields in [FRESH, STALE] {
            let (backend, _) = back_end(fields);
            let server = strict(backend.port(), directives);
            part(&server, "0-4");
            ask(&server, "HEAD", "/", "Range: bytes=0-4\r\n");
            part(&server, "0-4");
            probe(&server, &format!("{fields} {directives}"));
        }
    }
}

/// The rest of what is stored comes from back ends that do as they like: whatever cannot be joined is dropped.
#[test]
fn a_part_that_cannot_be_completed_is_dropped() {
    type Answer = fn(&str, usize, &str) -> String;
    let chunked: Answer = |head, _, fields| {
        let answer = lawful(head, fields, "\"v\"", ALL);
        let Some((start, body)) = answer.split_once("\r\n\r\n").filter(|_| head.contains("If-Range")) else {
            return answer;
        };
        let start: Vec<&str> = start.lines().filter(|line| !line.starts_with("Content-Length")).collect();
        let (start, length) = (start.join("\r\n"), body.len());
        format!("{start}\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n")
    };
    let changes: Answer = |head, n, fields| {
        // It knows no If-Range.
        let head = head.replace("If-Range", "X-Not");
        lawful(&head, fields, &format!("\"v{n}\""), if n % 2 == 0 { ALL } else { OTHER })
    };
    let short: Answer = |head, _, fields| match value(head, "Range").and_then(|range| bounds(range, 10)) {
        Some((start, end)) if end - start > 1 => {
            partial(&format!("{fields}ETag: \"v\"\r\n"), ALL, (start, end - 1))
        }
        _ => lawful(head, fields, "\"v\"", ALL),
    };
    let all_of_it: Answer = |head, _, fields| match value(head, "If-Range") {
        Some(_) => partial(&format!("{fields}ETag: \"v\"\r\n"), ALL, (0, 10)),
        None => lawful(head, fields, "\"v\"", ALL),
    };
    let shrunk: Answer = |head, _, fields| match value(head, "If-Range") {
        Some(_) => "HTTP/1.1 416 No\r\nContent-Range: bytes */5\r\nContent-Length: 0\r\n\r\n".into(),
        None => lawful(head, fields, "\"v\"", ALL),
    };
    let garbled: Answer = |head, _, fields| {
        let answer = lawful(head, fields, "\"v\"", ALL);
        if head.contains("If-Range") {
            answer.replace("Content-Range: bytes ", "Content-Range: lines ")
        } else {
            answer
        }
    };
    for answer in [chunked, changes, short, all_of_it, shrunk, garbled] {
        for fields in [FRESH, STALE] {
            let (backend, heads) = scripted(move |head, n| answer(head, n, fields));
            let server = strict(backend.port(), "");
            part(&server, "0-4");
            let page = server.get("/");
            check(&page, None, &format!("{fields} {:?}", heads.lock().unwrap()));
            probe(&server, fields);
            server.wait_for_log("the stored part is dropped");
        }
    }
}

/// As long as the back end does not answer, strangers get an error and no part.
#[test]
fn a_stale_part_does_not_bridge_an_error_for_others() {
    for (directives, fields) in [
        ("proxy_cache_use_stale error http_500;", STALE),
        ("", "Cache-Control: max-age=0, stale-if-error=600\r\n"),
    ] {
        for failure in ["", "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"] {
            let (backend, _) =
                scripted(
                    move |head, n| {
                        if n > 1 { failure.into() } else { lawful(head, fields, "\"v\"", ALL) }
                    },
                );
            let server = strict(backend.port(), directives);
            assert_eq!(part(&server, "2-6").text(), "23456");
            for _ in 0..2 {
                for range in ["", "Range: bytes=0-3\r\n", "Range: bytes=7-8\r\n", "Range: bytes=3-4, 8-9\r\n"]
                {
                    assert!(ask(&server, "GET", "/", range).status >= 500, "{fields} {range}");
                }
                assert!(ask(&server, "HEAD", "/", "").status >= 500);
                let own = part(&server, "3-5");
                assert_eq!((status(&own), own.status, own.text().as_str()), ("STALE", 206, "345"));
            }
        }
    }
}

/// While one who may have the part brings it up to date, others ask for themselves.
#[test]
fn a_part_that_is_being_updated_is_for_those_who_ask_for_it() {
    for (directives, fields) in [
        ("proxy_cache_use_stale updating; proxy_cache_background_update on;", STALE),
        ("", "Cache-Control: max-age=0, stale-while-revalidate=600\r\n"),
    ] {
        let (go, wait_to_go) = gate();
        let (backend, heads) = scripted(move |head, _| {
            if head.contains("If-None-Match") {
                wait_to_go();
            }
            lawful(head, fields, "\"v\"", ALL)
        });
        let server = strict(backend.port(), directives);
        part(&server, "0-4");
        let own = part(&server, "1-2");
        assert_eq!((status(&own), own.text().as_str()), ("STALE", "12"));
        wait::holds("it is being updated", || heads.lock().unwrap().len() == 2);
        let own = part(&server, "3-4");
        assert_eq!((status(&own), own.text().as_str()), ("UPDATING", "34"));
        check(&part(&server, "6-7"), Some("bytes=6-7"), directives);
        check(&server.get("/"), None, directives);
        drop(go);
        probe(&server, directives);
    }
}

/// What is on disk is no less a part than what is in memory.
#[test]
fn a_part_is_still_one_after_a_restart() {
    for (path, fields) in [("", FRESH), ("", STALE), ("memory=0", FRESH), ("memory=0", STALE)] {
        let (backend, _) = back_end(fields);
        let text = conf(backend.port(), path, "proxy_cache_mode rfc9111;");
        let builder = Builder::new(BIN).main("user root;").allow_alerts("exited on signal 9");
        let server = builder.http(&text).start();
        part(&server, "0-4");
        wait::holds("the file", || files(&server).len() == 1);
        let worker = server.worker();
        process::signal(worker, Signal::KILL);
        wait::holds("another worker", || server.workers().first().is_some_and(|pid| *pid != worker));
        probe(&server, &format!("{path} {fields}"));
    }
}

/// What nginx's rules have stored as an answer like others is none by RFC 9111.
#[test]
fn a_206_that_was_stored_by_other_rules_is_no_answer() {
    let (backend, _) = back_end(FRESH);
    let port = backend.port();
    let nginx = format!(
        "proxy_cache_mode rfc9111; proxy_cache_key k; location /nginx {{
            proxy_pass http://127.0.0.1:{port}; proxy_cache_mode nginx; proxy_cache_valid 206 1h; proxy_set_header Range $http_range;
        }}"
    );
    let server = server(port, &nginx);
    let stored = ask(&server, "GET", "/nginx", "Range: bytes=0-4\r\n");
    assert_eq!((stored.status, stored.text().as_str()), (206, "01234"));
    probe(&server, "nginx");
}

/// A part that is all there is, is the whole: for everybody, and a 200.
#[test]
fn a_part_that_is_the_whole_is_stored_as_such() {
    let (backend, heads) = back_end(FRESH);
    let server = strict(backend.port(), "");
    assert_eq!((part(&server, "0-").status, part(&server, "3-4").text().as_str()), (206, "34"));
    let page = server.get("/");
    assert_eq!((status(&page), page.status, page.text().as_str()), ("HIT", 200, ALL));
    assert_eq!((page.header("Content-Range"), page.header("X-Kind")), (None, Some("text")));
    assert_eq!(heads.lock().unwrap().len(), 1);
}

/// RFC 9111 §5.2.1.7.
#[test]
fn who_takes_only_what_is_stored_gets_no_more() {
    let (backend, heads) = back_end(FRESH);
    let server = strict(backend.port(), "");
    part(&server, "0-4");
    let stored =
        |more: &str| ask(&server, "GET", "/", &format!("Cache-Control: only-if-cached\r\n{more}")).status;
    assert_eq!((stored("Range: bytes=1-2\r\n"), stored("Range: bytes=4-5\r\n"), stored("")), (206, 504, 504));
    assert_eq!(heads.lock().unwrap().len(), 1);
}

/// RFC 9110 §15.3.7: the answer to a range with a condition may leave out what the client knows already.
#[test]
fn the_rest_need_not_say_all_again() {
    let (backend, _) = scripted(|head, _| {
        let answer = lawful(head, FRESH, "\"v\"", ALL);
        if head.contains("If-Range") { answer.replace("X-Kind: text\r\n", "") } else { answer }
    });
    let server = strict(backend.port(), "");
    part(&server, "0-4");
    for _ in 0..2 {
        let page = server.get("/");
        assert_eq!((page.text().as_str(), page.header("X-Kind")), (ALL, Some("text")));
    }
}

/// Slices are parts that the key tells apart: each is stored once.
#[test]
fn slices_are_hits() {
    let (backend, heads) = back_end(FRESH);
    let server = strict(
        backend.port(),
        "slice 4; proxy_set_header Range $slice_range; proxy_cache_key $uri$slice_range;",
    );
    for _ in 0..3 {
        assert_eq!(server.get("/").text(), ALL);
        assert_eq!(part(&server, "5-8").text(), "5678");
    }
    assert_eq!(heads.lock().unwrap().len(), 3);
}

/// Parts that touch or overlap become one, until it is all there is (RFC 9111 §3.4).
#[test]
fn parts_are_put_together() {
    let check = |ranges: &[&str], probes: &[(&str, bool)]| {
        let (backend, heads) = back_end(FRESH);
        let server = strict(backend.port(), "");
        for range in ranges {
            check(&part(&server, range), Some(&format!("bytes={range}")), range);
        }
        for (range, is_hit) in probes {
            let before = heads.lock().unwrap().len();
            let page = if range.is_empty() { server.get("/") } else { part(&server, range) };
            let range = (!range.is_empty()).then(|| format!("bytes={range}"));
            check(&page, range.as_deref(), &format!("{ranges:?}"));
            assert_eq!(heads.lock().unwrap().len() == before, *is_hit, "{ranges:?} {range:?}");
            assert_eq!((status(&page) == "HIT", page.header("X-Kind")), (*is_hit, Some("text")));
        }
    };
    check(&["1-2", "3-4"], &[("1-4", true), ("2-3", true), ("2-5", false)]);
    check(&["3-4", "1-2"], &[("1-4", true), ("1-1", true), ("0-4", false)]);
    check(&["1-5", "3-8"], &[("1-8", true), ("1-9", false)]);
    check(&["3-8", "1-5"], &[("1-8", true)]);
    check(&["1-2", "7-8", "2-7"], &[("2-8", true), ("1-8", false)]);
    check(&["4-5", "2-8"], &[("2-8", true)]);
    check(&["0-3", "7-9"], &[("8-9", true), ("0-1", false), ("0-1", true)]);
    check(&["0-3", "4-9"], &[("", true), ("0-9", true), ("-1", true)]);
    check(&["6-9", "0-2", "3-5"], &[("", false)]);
    check(&["6-9", "3-5", "0-2"], &[("", true)]);
}

/// Only what is surely of the same representation is.
#[test]
fn parts_of_different_things_are_not_put_together() {
    for etags in [["\"a\"", "\"b\""], ["W/\"a\"", "W/\"a\""], ["", ""]] {
        let (backend, _) = scripted(move |head, n| {
            let (etag, all) = if n == 1 { (etags[0], ALL) } else { (etags[1], OTHER) };
            let answer = lawful(head, FRESH, etag, all);
            if etag.is_empty() { answer.replace("ETag: \r\n", "") } else { answer }
        });
        let server = strict(backend.port(), "");
        assert_eq!([part(&server, "0-4").text(), part(&server, "5-9").text()], ["01234", "fghij"]);
        assert_eq!(status(&part(&server, "4-5")), "MISS", "{etags:?}");
        probe(&server, etags[0]);
    }
}

/// The same through files: whatever is asked for in whatever order, the bytes are the right ones.
#[test]
fn large_parts_are_put_together_on_disk() {
    for (path, size) in [("", 300_000), ("", 40_000), ("memory=0", 40_000)] {
        let all: String = (0..size * 10 + 100).map(|n| char::from(b'a' + (n / 7 % 26) as u8)).collect();
        let given = all.clone();
        let (backend, heads) = scripted(move |head, _| lawful(head, FRESH, "\"v\"", &given));
        let text = conf(backend.port(), path, "proxy_cache_mode rfc9111;");
        let mut server = Builder::new(BIN).main("user root;").http(&text).start();
        // Each overlaps with the one before.
        for number in (0..10).rev() {
            let (first, last) = (number * size, (number + 1) * size + 99);
            let page = part(&server, &format!("{first}-{last}"));
            assert!(page.status == 206 && page.text() == all[first..=last], "{first}-{last}");
        }
        let asked = heads.lock().unwrap().len();
        let whole = part(&server, "5-350000");
        assert!(status(&whole) == "HIT" && whole.text() == all[5..350_001], "{path} {size}");
        wait::holds("the file", || files(&server).len() == 1);
        server.reload();
        let some = part(&server, "77-270000");
        assert!(some.text() == all[77..270_001] && heads.lock().unwrap().len() == asked);
        assert!(server.get("/").text() == all);
        server.end(Signal::QUIT);
    }
}

/// However many ask for what is missing, one asks the back end.
#[test]
fn who_wants_what_is_missing_waits_for_who_has_asked() {
    for range in ["", "Range: bytes=6-8\r\n"] {
        let (go, wait_to_go) = gate();
        let (backend, heads) = scripted(move |head, n| {
            if n > 1 {
                wait_to_go();
            }
            lawful(head, FRESH, "\"v\"", ALL)
        });
        let server = strict(backend.port(), "");
        part(&server, "0-4");
        let mut clients: Vec<_> = (0..20).map(|_| server.client()).collect();
        for client in &mut clients {
            client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{range}\r\n"));
        }
        wait::holds("the back end is asked", || heads.lock().unwrap().len() == 2);
        // Who wants something else is not held up: these bytes are there.
        check(&part(&server, "1-2"), Some("bytes=1-2"), "others");
        go.send(()).unwrap();
        for client in &mut clients {
            let wanted = (!range.is_empty()).then_some("bytes=6-8");
            check(&client.response(), wanted, range);
        }
        assert_eq!(heads.lock().unwrap().len(), 2, "{range}");
    }
}

/// A part that comes while the whole is there, or on its way, does not take its place.
#[test]
fn a_part_does_not_replace_the_whole() {
    let (go, wait_to_go) = gate();
    let (backend, heads) = scripted(move |head, _| {
        if head.contains("Range") {
            wait_to_go();
        }
        lawful(head, FRESH, "\"v\"", ALL)
    });
    let server = strict(backend.port(), "");
    let mut client = server.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=0-4\r\n\r\n");
    wait::holds("the part is asked for", || heads.lock().unwrap().len() == 1);
    assert_eq!(server.get("/").text(), ALL);
    go.send(()).unwrap();
    check(&client.response(), Some("bytes=0-4"), "the part");
    assert_eq!(status(&server.get("/")), "HIT");
}

/// A purge of the one is a purge of both.
#[test]
fn a_purge_does_not_leave_half() {
    let (backend, _) = scripted(|head, n| {
        let fields = if n == 1 { "Cache-Control: max-age=600\r\nCache-Tag: a\r\n" } else { FRESH };
        lawful(head, fields, "\"v\"", ALL)
    });
    let server = strict(backend.port(), "proxy_cache_purge $http_x_purge;");
    part(&server, "0-4");
    part(&server, "5-7");
    assert_eq!(status(&part(&server, "0-7")), "HIT");
    assert_eq!(ask(&server, "PURGE", "/", "X-Purge: 1\r\nCache-Tag: a\r\n").status, 204);
    assert_eq!(status(&part(&server, "5-6")), "MISS");
}

/// Many at once, while the page changes: each answer is of one representation, and what was asked for.
#[test]
fn answers_are_never_mixed() {
    for fields in [
        STALE,
        "Cache-Control: max-age=0, stale-while-revalidate=600\r\n",
        "Cache-Control: max-age=1, stale-if-error=600\r\n",
    ] {
        let (backend, _) = scripted(move |head, n| match n / 40 % 2 {
            0 => lawful(head, fields, "\"a\"", ALL),
            _ => lawful(head, fields, "\"b\"", OTHER),
        });
        let server = strict(backend.port(), "");
        std::thread::scope(|scope| {
            for thread in 0..6u32 {
                let server = &server;
                scope.spawn(move || {
                    let mut random = thread + 1;
                    for _ in 0..150 {
                        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        let (first, length) = (random >> 28, random >> 24 & 7);
                        let range = format!("bytes={}-{}", first.min(9), (first.min(9) + length).min(9));
                        match random >> 20 & 3 {
                            0 => check(&ask(server, "GET", "/", ""), None, fields),
                            _ => {
                                let page = ask(server, "GET", "/", &format!("Range: {range}\r\n"));
                                check(&page, Some(&range), fields);
                            }
                        }
                    }
                });
            }
        });
    }
}

/// What is renewed in the background is the slice, and not the whole under the slice's key.
#[test]
fn slices_are_renewed_one_by_one() {
    let body: Arc<Vec<u8>> = Arc::new((0..3000u32).map(|n| b'a' + (n / 100 % 26) as u8).collect());
    let all = body.clone();
    let (backend, heads) = scripted(move |head, _| {
        part_of(&all, head).unwrap_or_else(|| {
            let text = std::str::from_utf8(&all).unwrap();
            format!("HTTP/1.1 200 OK\r\nETag: \"v\"\r\nContent-Length: {}\r\n\r\n{text}", all.len())
        })
    });
    let server = server(
        backend.port(),
        "slice 1k; proxy_cache_key $uri$slice_range; proxy_set_header Range $slice_range; proxy_cache_valid 200 206 1s;
         proxy_cache_use_stale updating; proxy_cache_background_update on;",
    );
    // Three slices, each renewed twice.
    wait::holds("slices to be renewed", || {
        let answer = server.get("/big");
        assert!((answer.status, &answer.body) == (200, &*body), "{} bytes", answer.body.len());
        heads.lock().unwrap().len() >= 9
    });
    assert!(heads.lock().unwrap().iter().all(|head| head.contains("Range: bytes=")));
}
