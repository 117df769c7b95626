//! FastCGI, SCGI and uwsgi, against simulated applications.

#[path = "gateway/directives.rs"]
mod directives;
#[path = "gateway/kept.rs"]
mod kept;
#[path = "gateway/stored.rs"]
mod stored;

use brisk_testkit::application::{Asked, Exchange, Speaks};
use brisk_testkit::{Application, Backend, Builder, Server, wait};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

/// An application that answers with its parameters and body, one per line.
fn echo(speaks: Speaks) -> Application {
    Application::start(speaks, 4, |exchange| {
        let asked = exchange.asked.clone();
        let mut text = String::from("Content-Type: text/plain\r\n\r\n");
        for (name, value) in &asked.params {
            let _ = writeln!(text, "{name}={value}");
        }
        let _ = writeln!(text, "body={}", String::from_utf8_lossy(&asked.body));
        let _ = writeln!(text, "modifiers={:?}", asked.modifiers);
        exchange.stdout(text);
    })
}

/// A server with one location per pair.
fn server(http: &str, locations: &[(&str, String)]) -> Server {
    Builder::new(BIN).http(&text(http, locations)).start()
}

fn text(http: &str, locations: &[(&str, String)]) -> String {
    let mut text = format!("{http} server {{ listen 127.0.0.1:{{{{PORT}}}}; root /srv/app; ");
    for (name, directives) in locations {
        let _ = write!(text, "location {name} {{ {directives} }} ");
    }
    text + "}"
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

/// What an application takes apart at its `?` has none that was part of the path.
#[test]
fn a_request_uri_made_of_a_decoded_path_has_its_delimiters_encoded() {
    for (speaks, prefix) in [(Speaks::FastCgi, "fastcgi"), (Speaks::Scgi, "scgi"), (Speaks::Uwsgi, "uwsgi")] {
        let app = echo(speaks);
        let pass = format!(
            "{prefix}_pass {}; {prefix}_param DOCUMENT_URI $document_uri; {prefix}_param REQUEST_URI",
            app.address()
        );
        let locations =
            [("/raw", format!("{pass} $request_uri;")), ("/made", format!("{pass} $uri$is_args$args;"))];
        let server = server("", &locations);
        let check = |target: &str, uri: &str, document: &str| {
            let text = server.request(format!("GET {target} HTTP/1.0\r\n\r\n")).text();
            let lines = lines(&text);
            assert!(lines.contains(&&*format!("REQUEST_URI={uri}")), "{prefix} {target}: {text}");
            assert!(lines.contains(&&*format!("DOCUMENT_URI={document}")), "{prefix} {target}: {text}");
        };
        check("/raw/a%3fb?c", "/raw/a%3fb?c", "/raw/a?b");
        check("/made/a%3fb?c", "/made/a%3Fb?c", "/made/a?b");
        check("http://x/made?c#d", "/made?c", "/made");
    }
}

/// RFC 3875 §6.2: an application has one answer. What it says of the connection stays here, with what it names.
#[test]
fn interim_statuses_and_fields_of_the_connection_end_here() {
    for (speaks, prefix) in [(Speaks::FastCgi, "fastcgi"), (Speaks::Scgi, "scgi"), (Speaks::Uwsgi, "uwsgi")] {
        let app = Application::start(speaks, 4, |exchange| {
            let status = exchange.asked.params.iter().find(|(name, _)| name == "QUERY_STRING");
            let status = status.map_or("", |(_, value)| value.as_str()).to_string();
            exchange.stdout(format!(
                "Status: {status}\r\nConnection: X-Secret\r\nX-Secret: 1\r\nX-Kept: 1\r\nContent-Type: t/x\r\n\r\nok"
            ));
        });
        let pass = format!("{prefix}_pass {}; {prefix}_param QUERY_STRING $query_string;", app.address());
        let server = server("", &[("/", pass)]);
        let answer = server.get("/?200");
        assert_eq!(
            (answer.status, answer.header("x-kept"), answer.header("x-secret")),
            (200, Some("1"), None)
        );
        for status in ["100", "101", "103", "199"] {
            assert_eq!(server.get(&format!("/?{status}")).status, 502, "{prefix} {status}");
        }
    }
}

#[test]
fn applications_are_told_what_the_params_files_say() {
    for (speaks, prefix, file) in [
        (Speaks::FastCgi, "fastcgi", "fastcgi.conf"),
        (Speaks::FastCgi, "fastcgi", "fastcgi_params"),
        (Speaks::Scgi, "scgi", "scgi_params"),
        (Speaks::Uwsgi, "uwsgi", "uwsgi_params"),
    ] {
        let app = echo(speaks);
        let location = format!("{prefix}_pass {}; include {file};", app.address());
        let text =
            format!("server {{ listen 127.0.0.1:{{{{PORT}}}}; root /srv/app; location / {{ {location} }} }}");
        // Beside the configuration, where include looks.
        let server =
            Builder::new(BIN).file(file, std::fs::read(packaging(file)).unwrap()).http(&text).start();
        let response = server.request(
            "POST /a%20b.php?x=1 HTTP/1.1\r\nHost: site:99\r\nContent-Type: t/x\r\nContent-Length: 5\r\n\r\nhello",
        );
        assert_eq!(response.status, 200, "{}", server.error_log());
        let text = response.text();
        let lines = lines(&text);
        let port = server.port();
        let mut wanted = vec![
            "REQUEST_METHOD=POST".to_string(),
            "QUERY_STRING=x=1".into(),
            "CONTENT_TYPE=t/x".into(),
            "CONTENT_LENGTH=5".into(),
            "REQUEST_URI=/a%20b.php?x=1".into(),
            "DOCUMENT_ROOT=/srv/app".into(),
            "SERVER_PROTOCOL=HTTP/1.1".into(),
            "REQUEST_SCHEME=http".into(),
            "REMOTE_ADDR=127.0.0.1".into(),
            format!("SERVER_PORT={port}"),
            "HTTP_HOST=site:99".into(),
            "HTTP_CONTENT_LENGTH=5".into(),
            "body=hello".into(),
        ];
        if prefix == "fastcgi" {
            wanted.push("SCRIPT_NAME=/a b.php".into());
            wanted.push("REDIRECT_STATUS=200".into());
        }
        if file == "fastcgi.conf" {
            wanted.push("SCRIPT_FILENAME=/srv/app/a b.php".into());
        }
        for line in wanted {
            assert!(lines.contains(&line.as_str()), "{file} gives no {line}: {text}");
        }
        assert!(!text.contains("HTTPS="), "{text}");
        assert_eq!(lines.iter().filter(|line| line.starts_with("HTTP_HOST=")).count(), 1);
    }
}

#[test]
fn header_fields_are_parameters() {
    let app = echo(Speaks::FastCgi);
    let server = server(
        "fastcgi_param HTTP_X_SET outer;",
        &[
            ("/", format!("fastcgi_pass {};", app.address())),
            (
                "/own/",
                format!(
                    "fastcgi_pass {}; fastcgi_param HTTP_X_GONE ''; fastcgi_param EMPTY '' if_not_empty;
                     fastcgi_param KEPT ''; fastcgi_param A $arg_a if_not_empty;",
                    app.address()
                ),
            ),
            ("/bare/", format!("fastcgi_pass {}; fastcgi_pass_request_headers off;", app.address())),
        ],
    );
    let ask = |target: &str| {
        let fields = "X-Set: client\r\nX-Gone: client\r\nCookie: a=1\r\nX-Two: 1\r\nCookie: b=2\r\nx-two: 2\r\nProxy: evil\r\n";
        let text = format!("GET {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        server.request(text).text()
    };
    let all = ask("/");
    for line in ["HTTP_X_SET=outer", "HTTP_X_GONE=client", "HTTP_COOKIE=a=1; b=2", "HTTP_X_TWO=1, 2"] {
        assert!(lines(&all).contains(&line), "{line}: {all}");
    }
    assert!(!all.contains("PROXY"), "{all}");
    let own = ask("/own/?a=");
    assert!(lines(&own).contains(&"HTTP_X_SET=client") && lines(&own).contains(&"KEPT="), "{own}");
    assert!(!own.contains("X_GONE") && !own.contains("EMPTY") && !own.contains("\nA="), "{own}");
    let bare = ask("/bare/");
    assert!(lines(&bare).contains(&"HTTP_X_SET=outer") && lines(&bare).contains(&"HTTP_HOST=h"), "{bare}");
    assert!(!bare.contains("COOKIE"), "{bare}");
}

#[test]
fn scripts_are_split_from_the_path_behind_them() {
    let app = echo(Speaks::FastCgi);
    let names = "fastcgi_param NAME $fastcgi_script_name; fastcgi_param PATH $fastcgi_path_info;";
    let pass = format!("fastcgi_pass {}; {names}", app.address());
    let server = server(
        "",
        &[
            ("/", format!("{pass} fastcgi_index index.php;")),
            ("/split/", format!("{pass} fastcgi_split_path_info ^(.+\\.php)(/.*)$; fastcgi_index i.php;")),
            ("/none/", pass.clone()),
            ("/return/", "return 200 \"$fastcgi_script_name\";".into()),
        ],
    );
    let ask = |target: &str| {
        let text = server.get(target).text();
        let value = |name: &str| {
            lines(&text).iter().find_map(|line| line.strip_prefix(name)).unwrap_or("missing").to_string()
        };
        (value("NAME="), value("PATH="))
    };
    let pair = |name: &str, path: &str| (name.to_string(), path.to_string());
    assert_eq!(ask("/a/"), pair("/a/index.php", ""));
    assert_eq!(ask("/a.php"), pair("/a.php", ""));
    assert_eq!(ask("/split/a.php/b/c"), pair("/split/a.php", "/b/c"));
    assert_eq!(ask("/split/a.php"), pair("/split/a.php", ""));
    assert_eq!(ask("/split/"), pair("/split/i.php", ""));
    assert_eq!(ask("/none/a.php/b"), pair("/none/a.php/b", ""));
    assert_eq!(server.get("/return/x").text(), "/return/x");
}

#[test]
fn bodies_arrive_whole() {
    for speaks in [Speaks::FastCgi, Speaks::Scgi, Speaks::Uwsgi] {
        let app = Application::start(speaks, 2, |exchange| {
            let sum: u64 = exchange.asked.body.iter().map(|&b| u64::from(b)).sum();
            let text =
                format!("\n{} {sum} {}", exchange.asked.body.len(), exchange.asked.param("CONTENT_LENGTH"));
            exchange.stdout(text);
        });
        let prefix = prefix(speaks);
        let length = if speaks == Speaks::Scgi { "" } else { "CONTENT_LENGTH $content_length;" };
        let length = if length.is_empty() { String::new() } else { format!("{prefix}_param {length}") };
        let pass = format!("{prefix}_pass {}; {length} client_max_body_size 10m;", app.address());
        let server = server(
            "",
            &[
                ("/file", format!("{pass} client_body_buffer_size 1k;")),
                ("/memory", format!("{pass} client_body_buffer_size 10m;")),
                ("/stream", format!("{pass} {prefix}_request_buffering off;")),
                (
                    "/none",
                    format!(
                        "{prefix}_pass {}; {prefix}_pass_request_body off; {prefix}_param A b;",
                        app.address()
                    ),
                ),
            ],
        );
        let body: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
        let sum: u64 = body.iter().map(|&b| u64::from(b)).sum();
        let want = format!("300000 {sum} 300000");
        for target in ["/file", "/memory", "/stream"] {
            let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
            let response = server.request([head.as_bytes(), &body].concat());
            assert_eq!(response.text(), want, "{speaks:?} {target}\n{}", server.error_log());
        }
        // Chunked: SCGI and uwsgi must know the length first; FastCGI knows its own end.
        let mut chunked = b"POST /memory HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for piece in body.chunks(70_000) {
            chunked.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            chunked.extend_from_slice(piece);
            chunked.extend_from_slice(b"\r\n");
        }
        chunked.extend_from_slice(b"0\r\n\r\n");
        assert_eq!(server.request(&chunked).text(), want, "{speaks:?} chunked");
        let stream = String::from_utf8_lossy(&chunked[..20]).replace("/memory", "/stream");
        let chunked = [stream.as_bytes(), &chunked[20..]].concat();
        let text = server.request(&chunked).text();
        assert!(text.starts_with(&format!("300000 {sum} ")), "{speaks:?} chunked stream: {text}");
        let none = server.request("POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").text();
        assert!(none.starts_with("0 0 "), "{speaks:?} {none}");
    }
}

fn prefix(speaks: Speaks) -> &'static str {
    match speaks {
        Speaks::FastCgi => "fastcgi",
        Speaks::Scgi => "scgi",
        Speaks::Uwsgi => "uwsgi",
    }
}

#[test]
fn answers_are_passed_on_as_cgi_means_them() {
    for speaks in [Speaks::FastCgi, Speaks::Scgi, Speaks::Uwsgi] {
        let app = Application::start(speaks, 2, |exchange| {
            let text = match exchange.asked.param("URI") {
                "/location" => "Location: /there\r\n\r\n",
                "/status" => "Status: 404 Nothing here\r\nX-A: b\r\n\r\nsorry",
                "/bare" => "Status: 403\n\n",
                "/hidden" => "X-Accel-Charset: utf-8\nX-Powered-By: PHP\nX-Keep: 1\nStatus: 200 OK\n\n",
                "/redirect" => "X-Accel-Redirect: /inner\n\n",
                "/error" => "Status: 500 Oops\n\ndetails",
                "/long" => "Content-Length: 5\n\nhello and more",
                "/empty" => "Status: 204\n\n",
                "/cookies" => "Set-Cookie: a=1\nSet-Cookie: b=2\n\n",
                _ => "\nplain",
            };
            exchange.stdout(text);
        });
        let prefix = prefix(speaks);
        let pass = format!("{prefix}_pass {}; {prefix}_param URI $uri;", app.address());
        let server = server(
            &format!("{prefix}_hide_header X-Powered-By;"),
            &[
                ("/", pass.clone()),
                ("/error", format!("{pass} {prefix}_intercept_errors on; error_page 500 /page;")),
                ("/inner", "internal; return 200 inside;".into()),
                ("/page", "return 200 \"our page\";".into()),
            ],
        );
        let ask = |target: &str| server.get(target);
        assert_eq!((ask("/location").status, ask("/location").header("Location")), (302, Some("/there")));
        let status = ask("/status");
        assert_eq!((status.status, status.text().as_str(), status.header("X-A")), (404, "sorry", Some("b")));
        assert!(status.head.starts_with("HTTP/1.1 404 Nothing here"), "{}", status.head);
        assert!(ask("/bare").head.starts_with("HTTP/1.1 403 Forbidden"), "{}", ask("/bare").head);
        let hidden = ask("/hidden");
        assert_eq!((hidden.header("X-Keep"), hidden.header("Status")), (Some("1"), None));
        assert_eq!((hidden.header("X-Powered-By"), hidden.header("X-Accel-Charset")), (None, None));
        assert_eq!(ask("/redirect").text(), "inside");
        assert_eq!((ask("/error").status, ask("/error").text()), (500, "our page".into()));
        assert_eq!(ask("/long").text(), "hello");
        server.wait_for_log("upstream sent more data than specified in \"Content-Length\" header");
        assert_eq!(ask("/empty").status, 204);
        assert!(ask("/cookies").head.contains("a=1") && ask("/cookies").head.contains("b=2"));
        assert_eq!(ask("/plain").text(), "plain");
        let head = server.request("HEAD /status HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!((head.status, head.text().as_str()), (404, ""));
    }
}

/// Messages without end, before the head and in the body: the thread serves others meanwhile.
#[test]
fn an_application_that_never_stops_talking_holds_up_nobody_else() {
    const WANTED_BYTES: usize = 4 << 20;
    for head in [&b""[..], b"\x01\x06\x00\x01\x00\x02\x00\x00\n\n"] {
        let (sent, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let app = {
            let (sent, over) = (sent.clone(), over.clone());
            // FCGI_STDERR, one byte of content and as much padding as there can be.
            let record = [&b"\x01\x07\x00\x01\x00\x01\xff\x00x"[..], &[0; 255]].concat().repeat(250);
            Backend::start(move |mut peer| {
                peer.some();
                peer.send(head);
                while !over.load(Ordering::SeqCst) && peer.send(&record) {
                    sent.fetch_add(record.len(), Ordering::SeqCst);
                }
            })
        };
        let pass = format!("fastcgi_pass 127.0.0.1:{}; error_log stderr crit;", app.port());
        let locations = [("/endless", pass), ("/other", "return 200 other;".to_string())];
        let server = Builder::new(BIN).main("worker_processes 1;").http(&text("", &locations)).start();
        let mut endless = server.client();
        endless.send("GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
        wait::holds("much was said", || sent.load(Ordering::SeqCst) > WANTED_BYTES);
        assert_eq!(server.get("/other").text(), "other");
        over.store(true, Ordering::SeqCst);
    }
}

#[test]
fn messages_of_the_application_are_logged() {
    let app = Application::start(Speaks::FastCgi, 2, |exchange| {
        match exchange.asked.param("URI") {
            "/catch" => exchange.stderr("PHP Fatal error: it broke\n"),
            _ => exchange.stderr("PHP message: PHP Warning:  be warned in /a.php on line 3\n"),
        }
        exchange.stdout("\nthe page");
    });
    let pass = format!("fastcgi_pass {}; fastcgi_param URI $uri;", app.address());
    let server =
        server("", &[("/", pass.clone()), ("/catch", format!("{pass} fastcgi_catch_stderr 'PHP Fatal';"))]);
    assert_eq!(server.get("/").text(), "the page");
    let line = server.wait_for_log("FastCGI sent in stderr");
    assert!(
        line.contains(
            "[error]"
        ) && line.contains(
            "FastCGI sent in stderr: \"PHP message: PHP Warning:  be warned in /a.php on line 3\" while reading response header from upstream"
        ) && line.contains(&format!("upstream: \"fastcgi://{}\"", app.address())),
        "{line}"
    );
    assert_eq!(server.get("/catch").status, 502);
}

#[test]
fn where_applications_are() {
    let builder = Builder::new(BIN);
    let path = builder.dir().join("app.sock");
    let _unix = Application::start_unix(Speaks::FastCgi, &path, |exchange| exchange.stdout("\nunix"));
    let app = Application::start(Speaks::FastCgi, 2, |exchange| exchange.stdout("\ntcp"));
    let uwsgi = Application::start(Speaks::Uwsgi, 2, |exchange| exchange.stdout("\nuwsgi"));
    let path = path.display();
    let text = text(
        &format!("upstream u {{ server {}; }} upstream w {{ server unix:{path}; }}", app.address()),
        &[
            ("/unix", format!("fastcgi_pass unix:{path};")),
            ("/u", "fastcgi_pass u;".into()),
            ("/w", "fastcgi_pass w;".into()),
            ("/var", "fastcgi_pass $arg_to;".into()),
            ("/uwsgi", format!("uwsgi_pass uwsgi://{};", uwsgi.address())),
            ("/uvar", "uwsgi_pass $arg_to;".into()),
            ("/if", format!("set $a 1; if ($arg_a) {{ set $a 2; }} fastcgi_pass {};", app.address())),
            ("/slash/", format!("fastcgi_pass {};", app.address())),
        ],
    );
    let server = builder.http(&text).start();
    assert_eq!(server.get("/unix").text(), "unix");
    assert_eq!(server.get("/u").text(), "tcp");
    assert_eq!(server.get("/w").text(), "unix");
    assert_eq!(server.get("/var?to=u").text(), "tcp");
    assert_eq!(server.get(&format!("/var?to={}", app.address())).text(), "tcp");
    assert_eq!(server.get(&format!("/var?to=unix:{path}")).text(), "unix");
    assert_eq!(server.get("/uwsgi").text(), "uwsgi");
    assert_eq!(server.get(&format!("/uvar?to=uwsgi://{}", uwsgi.address())).text(), "uwsgi");
    assert_eq!(server.get(&format!("/uvar?to={}", uwsgi.address())).text(), "uwsgi");
    assert_eq!(server.get("/if?a=1").text(), "tcp");
    assert_eq!(server.get("/slash").status, 301);
    assert_eq!(server.get("/var?to=no%20name").status, 500);
}

/// An answer's first bytes leave when the application has written them, not when it is done.
#[test]
fn answers_are_streamed() {
    for buffering in ["on", "off"] {
        let (go, wait) = mpsc::channel::<()>();
        let wait = Mutex::new(wait);
        let app = Application::start(Speaks::FastCgi, 1, move |exchange: &mut Exchange<'_>| {
            exchange.stdout("X-First: 1\n\nfirst ");
            wait.lock().unwrap().recv().unwrap();
            exchange.stdout("second");
        });
        let server =
            server("", &[("/", format!("fastcgi_pass {}; fastcgi_buffering {buffering};", app.address()))]);
        let mut client = server.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let seen = client.wait_for("first ");
        assert!(seen.contains("X-First: 1"), "{seen}");
        go.send(()).unwrap();
        assert_eq!(client.response().text(), "first second");
    }
}

#[test]
fn broken_applications_give_502_and_the_next_server_is_asked() {
    let garbage =
        |bytes: &'static [u8]| Application::start(Speaks::FastCgi, 2, move |exchange| exchange.raw(bytes));
    let http = garbage(b"HTTP/1.1 200 OK\r\n\r\n");
    let other_id = garbage(b"\x01\x06\0\x09\0\0\0\0");
    let no_head = garbage(b"");
    let huge = Application::start(Speaks::FastCgi, 2, |exchange| {
        let text = format!("X-Long: {}\n\n", "x".repeat(20_000));
        exchange.stdout(text);
    });
    let good = Application::start(Speaks::FastCgi, 2, |exchange| exchange.stdout("\ngood"));
    let pass = |app: &Application| format!("fastcgi_pass {};", app.address());
    let server = server(
        &format!("upstream next {{ server {}; server {} backup; }}", http.address(), good.address()),
        &[
            ("/http", pass(&http)),
            ("/id", pass(&other_id)),
            ("/none", pass(&no_head)),
            ("/huge", pass(&huge)),
            ("/wide", format!("{} fastcgi_buffer_size 32k; fastcgi_buffers 4 32k;", pass(&huge))),
            ("/next", "fastcgi_pass next; fastcgi_next_upstream error invalid_header;".into()),
        ],
    );
    for (target, message) in [
        ("/http", "upstream sent unsupported FastCGI protocol version: 72 while reading response header"),
        ("/id", "upstream sent unexpected FastCGI request id low byte: 9 while reading response header"),
        ("/none", "upstream sent unexpected FastCGI record: 3 while reading response header"),
        ("/huge", "upstream sent too big header while reading response header"),
    ] {
        assert_eq!(server.get(target).status, 502, "{target}");
        server.wait_for_log(message);
    }
    assert_eq!(server.get("/wide").status, 200);
    assert_eq!(server.get("/next").text(), "good");
}

/// A process that dies in the middle of a page has not finished it.
#[test]
fn a_cut_off_answer_does_not_look_complete() {
    let app = Application::start(Speaks::FastCgi, 2, |exchange| {
        exchange.stdout("\nhalf a page");
        // Not the end of the request, but of the process.
        exchange.hang_up();
    });
    let server = server("", &[("/", format!("fastcgi_pass {};", app.address()))]);
    let mut client = server.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.try_response("GET").is_err());
    server.wait_for_log("upstream prematurely closed connection while reading upstream");
}

#[test]
fn uwsgi_packets_have_modifiers_and_a_string() {
    let app = echo(Speaks::Uwsgi);
    let server =
        server("", &[("/", format!("uwsgi_pass {}; uwsgi_modifier1 5; uwsgi_modifier2 7;", app.address()))]);
    assert!(server.get("/").text().contains("modifiers=(5, 7)"));
}

/// What many requests asked, in the order of their answers.
type Seen = Arc<Mutex<Vec<Asked>>>;

fn recorder(speaks: Speaks, processes: usize) -> (Application, Seen) {
    let seen = Seen::default();
    let keep = seen.clone();
    let app = Application::start(speaks, processes, move |exchange| {
        keep.lock().unwrap().push(exchange.asked.clone());
        exchange.stdout("\nok");
    });
    (app, seen)
}
