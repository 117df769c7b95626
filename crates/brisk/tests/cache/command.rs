//! `brisk cache`.

use crate::rules::{ask, number, scripted};
use crate::{BIN, conf, files, numbered, server, status, until_status};
use brisk_testkit::{Builder, Server, process, wait};
use rustix::process::Signal;
use std::process::Command;

/// Runs a command: exit code, what it printed, and what it complained of.
fn run(args: &[&str]) -> (i32, String, String) {
    let output = Command::new(BIN).arg("cache").args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// With the server's configuration.
pub fn run_for(server: &Server, args: &[&str]) -> (i32, String, String) {
    let conf = server.dir().join("brisk.conf").display().to_string();
    run(&[&["-c", conf.as_str()], args].concat())
}

fn url(server: &Server, target: &str) -> String {
    format!("http://127.0.0.1:{}{target}", server.port())
}

#[test]
fn the_command_line_knows_the_cache() {
    let (backend, _) = numbered("Cache-Control: max-age=600\r\nSurrogate-Key: red\r\n");
    let server = server(backend.port(), "proxy_no_cache $arg_no;");
    let (a, b) = (url(&server, "/a"), url(&server, "/b"));
    assert_eq!(run(&["warm", &a, &b]), (0, format!("200 {a}\n200 {b}\n"), String::new()));
    wait::holds("the files", || files(&server).len() == 2);
    let (code, text, _) = run_for(&server, &["list", "/a*"]);
    assert!(code == 0 && text.starts_with("one\t200\t") && text.ends_with("\t/a\n"), "{text}");
    assert!(run_for(&server, &["stats"]).1.contains("one\t2\t2\t"));
    // For programs; options may stand behind the order, too.
    let json = |args: &[&str]| -> serde_json::Value {
        let (code, text, _) = run_for(&server, args);
        assert_eq!(code, 0, "{args:?}: {text}");
        serde_json::from_str(&text).unwrap()
    };
    let conf = server.dir().join("brisk.conf").display().to_string();
    // But for the seconds that it is fresh for, which pass.
    let without_time = |text: &str| {
        let mut fields: Vec<String> = text.split('\t').map(str::to_owned).collect();
        assert!(matches!(fields.remove(2).parse(), Ok(0..=600)), "{text}");
        fields
    };
    assert_eq!(without_time(&run(&["list", "/a*", "-c", &conf]).1), without_time(&text));
    let listed = json(&["list", "--json", "/a*"]);
    assert_eq!(
        (&listed[0]["cache"], &listed[0]["key"], &listed[0]["status"]),
        (&"one".into(), &"/a".into(), &200.into())
    );
    assert_eq!(json(&["--json", "stats"])[0]["entries"], 2);
    let why = json(&["why", "--json", &a]);
    assert_eq!((&why["status"], &why["url"]), (&200.into(), &a.as_str().into()));
    assert!(
        why["explained"].as_array().unwrap().iter().any(|line| line == "it was answered from the cache"),
        "{why}"
    );
    let warm = json(&["warm", "--json", &a]);
    assert_eq!((&warm["status"], &warm["url"]), (&200.into(), &a.as_str().into()));
    assert_eq!(json(&["purge", "/b", "--json"])["removed"], 1);
    assert_eq!(run_for(&server, &["--zone", "two", "list"]).0, 1);
}

/// Hot pages too: what is in memory, and answers that are prepared.
#[test]
fn a_purge_by_the_command_line_is_one_at_once() {
    let (backend, _) = numbered("Cache-Control: max-age=600\r\nSurrogate-Key: red\r\n");
    let server = server(backend.port(), "");
    for (order, others_stay) in
        [(&["/a"][..], true), (&["/a*"], true), (&["--tag", "red"], false), (&["--all"], false)]
    {
        for target in ["/a", "/b"] {
            until_status(&server, target, "HIT");
        }
        wait::holds("the files", || files(&server).len() == 2);
        (0..50).for_each(|_| drop(server.get("/a")));
        let removed = if others_stay { "1 removed\n" } else { "2 removed\n" };
        let purged = run_for(&server, &[&["purge"], order].concat());
        assert_eq!(purged, (0, removed.into(), String::new()), "{order:?}");
        assert_eq!(status(&server.get("/a")), "MISS", "{order:?}");
        assert_eq!(status(&server.get("/b")) == "HIT", others_stay, "{order:?}");
    }
}

/// All variants go.
#[test]
fn a_purge_by_key_is_one_of_all_variants() {
    let (backend, _) = scripted(|_, n| number("Cache-Control: max-age=600\r\nVary: X-Kind\r\n", n));
    let server = server(backend.port(), "");
    let kinds = ["X-Kind: a\r\n", "X-Kind: b\r\n"];
    for kind in kinds {
        wait::holds("it is stored", || status(&ask(&server, "GET", "/", kind)) == "HIT");
    }
    wait::holds("the files", || files(&server).len() == 2);
    assert_eq!(run_for(&server, &["purge", "/"]).1, "2 removed\n");
    for kind in kinds {
        assert_eq!(status(&ask(&server, "GET", "/", kind)), "MISS", "{kind}");
    }
}

/// With `proxy_cache_convert_head off` what a HEAD has stored has a key of its own; it is the same page.
#[test]
fn a_purge_takes_along_what_a_head_has_stored() {
    let (backend, _) = scripted(|_, n| number("Cache-Control: max-age=600\r\n", n));
    let server = server(backend.port(), "proxy_cache_convert_head off;");
    let is_stored = |method: &str| wait::holds(method, || status(&ask(&server, method, "/a", "")) == "HIT");
    for order in ["/a", "/a*"] {
        is_stored("HEAD");
        is_stored("GET");
        wait::holds("the files", || files(&server).len() == 2);
        assert_eq!(run_for(&server, &["purge", order]).1, "2 removed\n", "{order}");
        assert_eq!(status(&ask(&server, "HEAD", "/a", "")), "MISS", "{order}");
        assert_eq!(status(&ask(&server, "GET", "/a", "")), "MISS", "{order}");
    }
}

#[test]
fn a_purge_of_nothing_fails() {
    let (backend, _) = numbered("Cache-Control: max-age=600\r\n");
    let mut server = server(backend.port(), "");
    for order in [&["/a"][..], &["/a*"], &["--tag", "red"], &["--all"]] {
        let purged = run_for(&server, &[&["purge"], order].concat());
        assert_eq!(purged, (1, "0 removed\n".into(), String::new()), "{order:?}");
    }
    server.get("/a");
    wait::holds("the file", || files(&server).len() == 1);
    server.end(Signal::QUIT);
    // Without a server the files are all there is.
    assert_eq!(run_for(&server, &["purge", "/a"]), (0, "1 removed\n".into(), String::new()));
    assert!(files(&server).is_empty());
}

/// A server that cannot be told notices by itself, and the command says so.
#[test]
fn a_server_that_cannot_be_told_is_named() {
    let (backend, _) = numbered("Cache-Control: max-age=600\r\n");
    let builder = Builder::new(BIN).main("user root; master_process off;");
    let server = builder.http(&conf(backend.port(), "", "")).start();
    server.get("/a");
    wait::holds("the file", || files(&server).len() == 1);
    let (code, text, complaint) = run_for(&server, &["purge", "/a"]);
    assert_eq!((code, text.as_str()), (0, "1 removed\n"));
    assert!(complaint.contains("up to a second"), "{complaint}");
    wait::holds("it to be noticed", || server.get("/a").text() != "answer 1");
}

#[test]
fn why_names_cache_key_and_reason() {
    let (backend, _) = scripted(|head, n| {
        let is_old = head.starts_with("GET /old");
        number(
            if is_old {
                "X-Accel-Expires: @1\r\nCache-Control: stale-while-revalidate=9999999999\r\n"
            } else {
                "Cache-Control: max-age=600\r\n"
            },
            n,
        )
    });
    let server = server(
        backend.port(),
        "proxy_no_cache $arg_no; proxy_cache_bypass $cookie_user; proxy_cache_use_stale updating; proxy_cache_background_update on;",
    );
    let check = |target: &str, more: &[&str], want: &str| {
        let (code, text, _) = run(&[&["why"], more, &[url(&server, target).as_str()]].concat());
        assert!(code == 0 && text.contains(want), "{target} {more:?}: {text}");
        assert!(text.contains(&format!("cache: one\nkey: {target}\n")), "{text}");
    };
    check("/a", &[], "it was not in the cache, and is stored now\nfresh for 600 more seconds\n");
    check("/a", &[], "it was answered from the cache\nfresh for");
    check("/a", &["-H", "Cookie: user=1"], "the cache was bypassed: a condition of proxy_cache_bypass");
    check("/x?no=1", &[], "not stored: a condition of proxy_no_cache");
    server.get("/old");
    check("/old", &[], "it was answered from the cache\nexpired ");
    // Only who asks is told the key.
    assert_eq!(server.get("/a").header("Cache-Status"), None);
}

/// With a certificate that nobody has signed, and a `Host` that is not the address.
#[test]
fn pages_are_warmed_over_tls() {
    let (backend, _) = scripted(|_, n| number("Cache-Control: max-age=600\r\n", n));
    let text = format!(
        "proxy_cache_path {{{{DIR}}}}/cache keys_zone=one:1m;
        ssl_certificate a.crt; ssl_certificate_key a.key;
        server {{
            listen 127.0.0.1:{{{{PORT}}}} ssl;
            proxy_cache_key $scheme://$host$uri;
            location / {{ proxy_pass http://127.0.0.1:{}; proxy_cache one; }}
        }}",
        backend.port()
    );
    let server = Builder::new(BIN).main("user root;").certificate("a.test").http(&text).start();
    let page = format!("https://127.0.0.1:{}/a", server.port());
    let (code, text, complaint) = run(&["warm", &page]);
    assert_eq!((code, text.as_str()), (1, ""));
    assert!(complaint.contains("-k takes any") && complaint.contains("1 of 1 pages failed"), "{complaint}");
    let warmed = run(&["warm", "-k", "-H", "Host: a.test", &page]);
    assert_eq!(warmed, (0, format!("200 {page}\n"), String::new()));
    let (_, text, _) = run(&["why", "-k", "-H", "Host: a.test", &page]);
    assert!(text.contains("key: https://a.test/a\nit was answered from the cache"), "{text}");
}

/// What fails does not keep the others from being warmed.
#[test]
fn warming_goes_on_after_a_failure() {
    let (backend, _) = scripted(|head, n| {
        if head.starts_with("GET /gone") {
            return "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n".into();
        }
        number("Cache-Control: max-age=600\r\n", n)
    });
    let server = server(backend.port(), "");
    let (a, gone, b) = (url(&server, "/a"), url(&server, "/gone"), url(&server, "/b"));
    let list = server.dir().join("pages");
    std::fs::write(&list, format!("# all of them\n{a}\n\nftp://a/\nhttp://127.0.0.1:1/\n{gone}\n{b}\n"))
        .unwrap();
    let (code, text, complaint) = run(&["warm", "-f", &list.display().to_string()]);
    assert_eq!((code, text), (1, format!("200 {a}\n404 {gone}\n200 {b}\n")));
    assert!(complaint.contains("ftp://a/: ") && complaint.contains("http://127.0.0.1:1/: "), "{complaint}");
    assert!(complaint.ends_with("3 of 5 pages failed\n"), "{complaint}");
    until_status(&server, "/b", "HIT");
}

/// A worker that is killed has its caches from the disk again, and is told of purges as the one before.
#[test]
fn a_new_worker_is_told_too() {
    let (backend, _) = numbered("Cache-Control: max-age=600\r\n");
    let server = server(backend.port(), "");
    until_status(&server, "/a", "HIT");
    wait::holds("the file", || files(&server).len() == 1);
    let worker = server.worker();
    process::signal(worker, Signal::KILL);
    wait::holds("another worker", || server.workers().first().is_some_and(|pid| *pid != worker));
    until_status(&server, "/a", "HIT");
    assert_eq!(run_for(&server, &["purge", "/a"]).0, 0);
    assert_eq!(status(&server.get("/a")), "MISS");
}
