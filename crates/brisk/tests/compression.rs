//! Content codings end to end: what is chosen, that the bytes come back, and that no client gets another one's variant.

use brisk_testkit::{Builder, Client, Response, Server, wait};
use std::fs;
use std::io::{Read as _, Write as _};
use std::time::Duration;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// A page that compresses well, not too well.
fn page(length: usize) -> Vec<u8> {
    let mut text = Vec::new();
    for n in 0u32.. {
        writeln!(text, "<p class=\"c{}\">paragraph {}</p>", n % 7, n.wrapping_mul(2_654_435_761) >> 20)
            .unwrap();
        if text.len() >= length {
            break;
        }
    }
    text.truncate(length);
    text
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn decoded(response: &Response) -> Vec<u8> {
    let mut plain = Vec::new();
    let body = &response.body[..];
    match response.header("Content-Encoding") {
        None => std::io::Cursor::new(body).read_to_end(&mut plain).map(drop),
        Some("gzip") => flate2::read::GzDecoder::new(body).read_to_end(&mut plain).map(drop),
        Some("br") => brotli::Decompressor::new(body, 4096).read_to_end(&mut plain).map(drop),
        Some("zstd") => zstd::stream::read::Decoder::new(body).unwrap().read_to_end(&mut plain).map(drop),
        Some(other) => panic!("{other}"),
    }
    .unwrap();
    plain
}

fn get(server: &Server, target: &str, fields: &str) -> Response {
    server.request(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
}

fn accepting(server: &Server, target: &str, codings: &str) -> Response {
    get(server, target, &format!("Accept-Encoding: {codings}\r\n"))
}

/// What the head has announced is sent, also where the pool takes nothing more.
#[test]
fn a_full_pool_cuts_no_body_off() {
    let (part, times) = ("paragraphs of a page that is long; ".repeat(100), 100);
    let (text, parts) = (part.repeat(times), "$part".repeat(times));
    let server = Builder::new(BIN)
        .main("thread_pool default threads=1 max_queue=0;")
        .http(&format!(
            "server {{ listen 127.0.0.1:{{{{PORT}}}}; default_type text/html;
                gzip on; brotli on; zstd on; set $part '{part}'; return 200 {parts}; }}"
        ))
        .start();
    for coding in ["gzip", "br", "zstd"] {
        let response = accepting(&server, "/", coding);
        assert_eq!(response.header("Content-Encoding"), Some(coding));
        assert!(decoded(&response) == text.as_bytes(), "{coding}");
    }
}

#[test]
fn the_client_gets_the_coding_it_likes_best_however_often_it_asks() {
    let types = "gzip_types text/css; brotli_types text/css; zstd_types text/css;";
    let server = Builder::new(BIN)
        .http(&format!(
            "types {{ text/html html; text/css css; image/png png; }}
             server {{ listen 127.0.0.1:{{{{PORT}}}};
                gzip on; gzip_comp_level 6; gzip_window 16k; gzip_min_length 100;
                gzip_vary on; brotli on; brotli_comp_level 4; brotli_window 256k; brotli_min_length 100;
                zstd on; zstd_comp_level 3; zstd_min_length 100; {types}
                gzip_buffers 16 8k; gzip_hash 64k; gzip_no_buffer on; postpone_gzipping 1k;
                brotli_buffers 16 8k; zstd_buffers 16 8k; }}"
        ))
        .file("html/small.html", page(50))
        .file("html/page.html", page(20_000))
        .file("html/big.css", page(200_000))
        .file("html/pixel.png", page(5_000))
        .start();
    let check = |target: &str, codings: &str, want: Option<&str>| {
        let plain = fs::read(server.dir().join(format!("html{target}"))).unwrap();
        let mut client = Client::connect(server.port());
        for _ in 0..4 {
            let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {codings}\r\n\r\n");
            let response = client.request(request);
            assert_eq!(response.header("Content-Encoding"), want, "{target} {codings}");
            assert!(decoded(&response) == plain, "{target} {codings}");
            let tag = response.header("ETag").unwrap();
            assert_eq!(tag.starts_with("W/"), want.is_some(), "{tag}");
            assert_eq!(response.header("Accept-Ranges").is_some(), want.is_none());
            let could_be = matches!(target, "/page.html" | "/big.css");
            assert_eq!(response.header("Vary"), could_be.then_some("Accept-Encoding"), "{target}");
        }
    };
    // Twice, so that each meets what the others have left behind.
    for _ in 0..2 {
        for target in ["/page.html", "/big.css"] {
            check(target, "gzip", Some("gzip"));
            check(target, "br", Some("br"));
            check(target, "zstd", Some("zstd"));
            check(target, "gzip, deflate, br, zstd", Some("zstd"));
            check(target, "gzip, br", Some("br"));
            check(target, "gzip, br;q=0.9, zstd;q=0.8", Some("gzip"));
            check(target, "gzip;q=0, br;q=0", None);
            check(target, "identity", None);
        }
        check("/small.html", "gzip", None);
        check("/pixel.png", "gzip, br", None);
    }
    let head = server.request("HEAD /page.html HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    assert_eq!((head.header("Content-Encoding"), head.header("Content-Length")), (Some("gzip"), None));
    let error = accepting(&server, "/missing", "gzip");
    assert_eq!((error.status, error.header("Content-Encoding")), (404, Some("gzip")));
    let tag = accepting(&server, "/page.html", "gzip").header("ETag").unwrap().to_string();
    let again = get(&server, "/page.html", &format!("Accept-Encoding: gzip\r\nIf-None-Match: {tag}\r\n"));
    assert_eq!(again.status, 304);
    let part = get(&server, "/page.html", "Accept-Encoding: gzip\r\nRange: bytes=0-9\r\n");
    assert_eq!((part.status, decoded(&part).len()), (200, 20_000));
}

#[test]
fn a_changed_page_is_compressed_anew() {
    let http = "types { text/html html; } server { listen 127.0.0.1:{{PORT}}; gzip on; }";
    let server = Builder::new(BIN).http(http).start();
    for n in 1..6 {
        let plain = page(3000 + n);
        server.write("html/a.html", &plain);
        for _ in 0..4 {
            assert!(decoded(&accepting(&server, "/a.html", "gzip")) == plain);
        }
    }
}

/// A level that takes its time is the pool's, once per thread: what it made is an answer with a length, and a prepared one, to those who
/// ask at the same level, until the file changes.
#[test]
fn what_a_slow_level_has_made_is_kept() {
    let server = Builder::new(BIN)
        .http(
            "types { text/css css; }
             server { listen 127.0.0.1:{{PORT}}; gzip_types text/css; brotli_types text/css;
                location /nine/ { alias html/; gzip on; gzip_comp_level 9; }
                location /eight/ { alias html/; gzip on; gzip_comp_level 8; gzip_window 512; }
                location /br/ { alias html/; brotli on; brotli_comp_level 9; }
                location /stamped/ { alias html/; gzip on; gzip_comp_level 9; add_header X-Id $request_id; }
                location = /metrics { metrics; } }",
        )
        .file("html/a.css", page(50_000))
        .start();
    let prepared = || {
        let text = server.get("/metrics").text();
        let line = text.lines().find_map(|line| line.strip_prefix("brisk_prepared_answers_total "));
        line.unwrap().parse::<f64>().unwrap()
    };
    let kept = |target: &str, plain: &[u8]| {
        let coding = if target.starts_with("/br/") { "br" } else { "gzip" };
        wait::until("an answer with a length", || {
            let response = accepting(&server, target, coding);
            assert_eq!(response.header("Content-Encoding"), Some(coding), "{target}");
            assert!(decoded(&response) == plain, "{target}");
            response.header("Content-Length").is_some().then_some(response)
        })
    };
    for plain in [page(50_000), page(51_000)] {
        server.write("html/a.css", &plain);
        let lengths = ["/nine/a.css", "/eight/a.css", "/br/a.css"].map(|target| {
            let length = kept(target, &plain).body.len();
            let before = prepared();
            wait::holds("prepared answers", || {
                assert_eq!(kept(target, &plain).body.len(), length, "{target}");
                prepared() > before
            });
            length
        });
        // Each location has its own.
        assert!(lengths[0] != lengths[1] && lengths[2] < lengths[0].min(lengths[1]), "{lengths:?}");
        // An answer that is no other client's: its body is nevertheless made once.
        let ids = [(); 2].map(|()| {
            let response = kept("/stamped/a.css", &plain);
            response.header("X-Id").unwrap().to_owned()
        });
        assert_ne!(ids[0], ids[1]);
    }
}

#[test]
fn proxies_and_old_browsers_get_what_is_said() {
    let server = Builder::new(BIN)
        .http(
            r#"default_type text/html;
            server { listen 127.0.0.1:{{PORT}}; gzip on;
                location /any { gzip_proxied any; return 200 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"; }
                location /auth { gzip_proxied auth; add_header Cache-Control public; }
                location /no-store { gzip_proxied no-store private; add_header Cache-Control "public, no-store"; }
                location /no-cache { gzip_proxied no-cache; add_header Cache-Control public; }
                location /expired { gzip_proxied expired; expires -1; }
                location /fresh { gzip_proxied expired; expires 1h; }
                location /etag { gzip_proxied no_etag; }
                location /no-etag { gzip_proxied no_etag no_last_modified; etag off; add_header Last-Modified ""; }
                location /old { gzip_http_version 1.0; }
                location /disabled { gzip_disable msie6 "^bad/[12]"; }
            }"#,
        )
        .file("html/f", page(3000))
        .start();
    for name in ["auth", "no-store", "no-cache", "expired", "fresh", "etag", "no-etag", "old", "disabled"] {
        server.write(&format!("html/{name}"), page(2000));
    }
    let check = |target: &str, fields: &str, want: bool| {
        for _ in 0..3 {
            let response = get(&server, target, &format!("Accept-Encoding: gzip\r\n{fields}"));
            assert_eq!(response.status, 200);
            assert_eq!(response.header("Content-Encoding").is_some(), want, "{target} {fields}");
        }
    };
    let via = "Via: 1.1 proxy\r\n";
    for _ in 0..2 {
        check("/f", "", true);
        check("/f", via, false);
        check("/any", via, true);
        check("/auth", via, false);
        check("/auth", &format!("{via}Authorization: Basic eA==\r\n"), true);
        check("/no-store", via, true);
        check("/no-cache", via, false);
        check("/expired", via, true);
        check("/fresh", via, false);
        check("/etag", via, false);
        check("/no-etag", via, true);
        check("/disabled", "", true);
        check("/disabled", "User-Agent: BAD/2\r\n", false);
        check("/disabled", "User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows 98)\r\n", false);
        check("/disabled", "User-Agent: bad/3\r\n", true);
    }
    let old = |target: &str| {
        server.request(format!("GET {target} HTTP/1.0\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"))
    };
    assert_eq!(old("/f").header("Content-Encoding"), None);
    assert_eq!(decoded(&old("/old")), page(2000));
    assert_eq!(old("/old").header("Content-Encoding"), Some("gzip"));
}

#[test]
fn the_log_has_the_ratio_also_of_prepared_answers() {
    let server = Builder::new(BIN)
        .http(
            "log_format ratio '$gzip_ratio'; types { text/html html; }
             server { listen 127.0.0.1:{{PORT}}; access_log {{DIR}}/ratio.log ratio; gzip on; }",
        )
        .file("html/a.html", page(20_000))
        .start();
    let length = accepting(&server, "/a.html", "gzip").body.len();
    for _ in 0..5 {
        accepting(&server, "/a.html", "gzip");
    }
    accepting(&server, "/a.html", "br");
    let lines =
        wait::until("seven lines", || Some(server.read("ratio.log")).filter(|log| log.lines().count() == 7));
    let ratio = format!("{:.2}", 20_000.0 / length as f64);
    assert_eq!(lines.lines().filter(|line| **line == ratio).count(), 6, "{lines}");
    // In any order: each thread writes its own lines.
    assert_eq!(lines.lines().filter(|line| *line == "-").count(), 1, "{lines}");
}

#[test]
fn precompressed_files_are_served_to_those_who_accept_them() {
    let server = Builder::new(BIN)
        .http(
            "types { text/css css; }
             server { listen 127.0.0.1:{{PORT}}; gzip_vary on;
                gzip_static on; brotli_static on; zstd_static on;
                location /always/ { alias html/; gzip_static always; brotli_static off; zstd_static off; } }",
        )
        .file("html/a.css", "plain")
        .file("html/a.css.gz", "as gzip")
        .file("html/a.css.br", "as br")
        .file("html/a.css.zst", "as zstd")
        .file("html/b.css", "only plain")
        .start();
    let check = |target: &str, codings: &str, body: &str, coding: Option<&str>, varies: bool| {
        for _ in 0..4 {
            let response = accepting(&server, target, codings);
            assert_eq!(
                (response.text().as_str(), response.header("Content-Encoding")),
                (body, coding),
                "{codings}"
            );
            assert_eq!(response.header("Content-Type"), Some("text/css"));
            assert_eq!(response.header("Vary").is_some(), varies);
        }
    };
    check("/a.css", "gzip", "as gzip", Some("gzip"), true);
    check("/a.css", "gzip, zstd", "as zstd", Some("zstd"), true);
    check("/a.css", "gzip, br, zstd", "as br", Some("br"), true);
    check("/a.css", "gzip, br;q=0.5", "as gzip", Some("gzip"), true);
    check("/a.css", "deflate", "plain", None, true);
    check("/b.css", "gzip", "only plain", None, false);
    check("/always/a.css", "deflate", "as gzip", Some("gzip"), false);
    fs::remove_file(server.dir().join("html/a.css.br")).unwrap();
    check("/a.css", "gzip, br", "as gzip", Some("gzip"), true);
    let part = get(&server, "/a.css", "Accept-Encoding: gzip\r\nRange: bytes=3-\r\n");
    assert_eq!((part.status, part.text().as_str()), (206, "gzip"));
}

#[test]
fn gunzip_takes_apart_what_the_client_does_not_accept() {
    let bomb = gzip(&vec![0; 30_000_000]);
    assert!(bomb.len() < 40_000);
    let server = Builder::new(BIN)
        .http(
            "default_type text/plain;
             server { listen 127.0.0.1:{{PORT}}; gunzip on; gunzip_buffers 4 8k; gzip_static always; gzip_vary on; }",
        )
        .file("html/a.gz", gzip(&page(20_000)))
        .file("html/two.gz", [gzip(b"one, "), gzip(b"two")].concat())
        .file("html/empty.gz", gzip(b""))
        .file("html/large.gz", gzip(&page(2_000_000)))
        .file("html/short.gz", &gzip(&page(20_000))[..500])
        .file("html/garbage.gz", "this is not gzip")
        .file("html/bomb.gz", bomb)
        .start();
    for _ in 0..3 {
        let plain = server.get("/a");
        assert_eq!((plain.header("Content-Encoding"), plain.header("Vary")), (None, Some("Accept-Encoding")));
        assert!(plain.body == page(20_000));
        let coded = accepting(&server, "/a", "gzip");
        assert_eq!(coded.header("Content-Encoding"), Some("gzip"));
        assert!(decoded(&coded) == page(20_000));
    }
    assert_eq!(server.get("/two").text(), "one, two");
    assert_eq!(server.get("/empty").status, 200);
    assert!(server.get("/large").body == page(2_000_000));
    assert_eq!(server.get("/bomb").body.len(), 30_000_000);
    for target in ["/short", "/garbage"] {
        let mut client = Client::connect(server.port());
        assert!(client.try_get(target).is_err(), "{target}");
    }
    server.wait_for_log("inflate\\(\\) failed.*GET /garbage");
    server.wait_for_log("gzip data ended early.*GET /short");
    assert_eq!(server.get("/two").status, 200);
}

#[test]
fn static_files_are_compressed_in_the_background() {
    let server = Builder::new(BIN)
        .http(
            "types { text/html html; application/x-own own; image/png png; }
             server { listen 127.0.0.1:{{PORT}}; gzip on; gzip_vary on;
                compress_static auto; compress_static_path {{DIR}}/variants max_size=1m;
                compress_static_types application/x-own; }",
        )
        .file("html/a.html", page(20_000))
        .file("html/a.own", page(5_000))
        .file("html/a.png", page(5_000))
        .start();
    let becomes = |target: &str, codings: &str, want: &str| {
        wait::until("a variant", || {
            let response = accepting(&server, target, codings);
            let plain = fs::read(server.dir().join(format!("html{target}"))).unwrap();
            assert!(decoded(&response) == plain);
            let is_variant = response.header("Content-Encoding") == Some(want)
                && response.header("ETag").is_some_and(|tag| tag.ends_with(&format!("{want}\"")));
            is_variant.then_some(response)
        })
    };
    let all = "gzip, deflate, br, zstd";
    let before = becomes("/a.html", all, "br");
    assert_eq!(before.header("Vary"), Some("Accept-Encoding"));
    becomes("/a.html", "zstd", "zstd");
    becomes("/a.html", "gzip", "gzip");
    becomes("/a.own", all, "br");
    for _ in 0..4 {
        let plain = server.get("/a.html");
        assert_eq!((plain.header("Content-Encoding"), plain.body.len()), (None, 20_000));
    }
    // Its own types take the place of the usual ones, text/html stays.
    assert_eq!(accepting(&server, "/a.png", all).header("Content-Encoding"), None);
    let part = get(&server, "/a.html", "Accept-Encoding: br\r\nRange: bytes=0-9\r\n");
    assert_eq!((part.status, &part.body[..]), (206, &before.body[..10]));
    // The very next request after a change must not get the old variant.
    server.write("html/a.html", page(21_000));
    assert!(decoded(&accepting(&server, "/a.html", all)) == page(21_000));
    let after = becomes("/a.html", all, "br");
    assert_ne!(after.header("ETag"), before.header("ETag"));
    let variants = || {
        let folders = fs::read_dir(server.dir().join("variants")).unwrap();
        folders.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap()).count()
    };
    wait::holds("the old variants are dropped", || variants() == 2);
    std::thread::sleep(Duration::from_millis(10));
    assert_eq!(accepting(&server, "/a.html", "zstd").status, 200);
}

/// What is compressed beforehand is the file as it is.
#[test]
fn pages_that_change_while_they_are_sent_are_not_compressed_beforehand() {
    let filler = String::from_utf8(page(2_000)).unwrap();
    let command = format!("<!--#echo var=\"request_method\" -->{filler}");
    let folder = |directives: &str| {
        format!("{directives} compress_static auto; compress_static_path {{{{DIR}}}}/variants;")
    };
    let server = Server::new(BIN)
        .http(&format!(
            "types {{ text/html html; }}
             charset_map koi8-r utf-8 {{ C0 D18E; }}
             server {{ listen 127.0.0.1:{{{{PORT}}}};
                location /ssi/ {{ {} }}
                location /sub/ {{ {} }}
                location /around/ {{ {} }}
                location /recoded/ {{ {} }}
                location /plain/ {{ {} }} }}",
            folder("ssi on;"),
            folder("sub_filter NAME Brisk;"),
            folder("add_before_body /plain/before.html;"),
            folder("charset utf-8; source_charset koi8-r;"),
            folder("charset utf-8;"),
        ))
        .file("html/ssi/a.html", &command)
        .file("html/sub/a.html", format!("NAME{filler}"))
        .file("html/around/a.html", &filler)
        .file("html/recoded/a.html", [&b"\xc0"[..], filler.as_bytes()].concat())
        .file("html/plain/a.html", &filler)
        .file("html/plain/before.html", "before")
        .start();
    let check = || {
        for (target, want) in
            [("/ssi/", "GET"), ("/sub/", "Brisk"), ("/around/", "before"), ("/recoded/", "\u{44e}")]
        {
            let response = accepting(&server, &format!("{target}a.html"), "br");
            assert_eq!(response.header("Content-Encoding"), None, "{target}");
            assert_eq!(response.text(), format!("{want}{filler}"), "{target}");
        }
    };
    check();
    // What is not changed comes behind them in the line of the pool.
    wait::holds("a variant", || {
        accepting(&server, "/plain/a.html", "br").header("Content-Encoding") == Some("br")
    });
    check();
}

#[test]
fn a_cache_folder_that_cannot_be_written_harms_nothing() {
    let server = Builder::new(BIN)
        .http(
            "types { text/html html; }
             server { listen 127.0.0.1:{{PORT}}; compress_static auto; compress_static_path {{DIR}}/file; }",
        )
        .file("html/a.html", page(20_000))
        .file("file", "is no folder")
        .start();
    for _ in 0..4 {
        assert!(accepting(&server, "/a.html", "br").body == page(20_000));
    }
    server.wait_for_log("compress_static in .* failed");
}

#[test]
fn what_takes_long_keeps_nobody_waiting() {
    for coding in ["br", "gzip", "zstd"] {
        let server = Builder::new(BIN)
            .main("worker_processes 1;")
            .http(
                "types { text/html html; }
                 server { listen 127.0.0.1:{{PORT}}; location /metrics { metrics; }
                    brotli on; brotli_comp_level 11; gzip on; gzip_comp_level 9; zstd on; zstd_comp_level 19; }",
            )
            .file("html/large.html", page(8_000_000))
            .start();
        let busy = || {
            let text = server.get("/metrics").text();
            text.lines().any(|line| {
                // One of them is at work on these numbers.
                line.strip_prefix("brisk_pool_threads{state=\"busy\"} ").is_some_and(|count| count != "1")
            })
        };
        assert!(!busy());
        let mut client = server.client();
        client.send(format!("GET /large.html HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\r\n"));
        wait::holds("the pool compresses while the only event loop answers", busy);
        client.reset();
    }
}
