//! Access and error logs: what a line says, that no stranger's byte breaks it, where it goes, and that none is lost
//! when files are renamed, disks are full or readers are gone.

use brisk_testkit::load::{Connections, Load, Plan};
use brisk_testkit::server::text;
use brisk_testkit::{Builder, Server, process, wait};
use regex::Regex;
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// The program; another one of nginx's make can be asked the same questions.
fn bin() -> String {
    std::env::var("BRISK_TEST_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_brisk").into())
}

fn site(http: &str) -> Builder {
    Builder::new(&bin()).http(http).file("html/a.txt", "hello\n")
}

#[track_caller]
fn assert_line(line: &str, pattern: &str) {
    assert!(Regex::new(&format!("^{pattern}$")).unwrap().is_match(line), "{line:?} is not like {pattern}");
}

/// Waits until a log has `count` lines, and gives them.
fn lines(server: &Server, log: &str, count: usize) -> Vec<String> {
    wait::holds(&format!("{count} lines in {log}:\n{}", server.read(log)), || {
        server.read(log).lines().count() >= count
    });
    let lines: Vec<String> = server.read(log).lines().map(str::to_string).collect();
    assert_eq!(lines.len(), count, "{lines:#?}");
    lines
}

const TIME: &str =
    r"\[\d\d/(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\]";

#[test]
fn combined() {
    let server = site("server { listen 127.0.0.1:{{PORT}}; }").start();
    let mut client = server.client();
    client.get("/a.txt?x=%20y");
    client.request(
        "GET /missing HTTP/1.1\r\nHost: localhost\r\nReferer: http://from.example/\r\nUser-Agent: Some/1.0 (thing)\r\n\
         Authorization: Basic dXNlcjpzZWNyZXQ=\r\n\r\n",
    );
    client.request("HEAD /a.txt HTTP/1.0\r\n\r\n");
    let lines = server.access_lines(3);
    assert_line(
        &lines[0],
        &format!(r#"127\.0\.0\.1 - - {TIME} "GET /a\.txt\?x=%20y HTTP/1\.1" 200 6 "-" "-""#),
    );
    let wanted = r#""GET /missing HTTP/1\.1" 404 \d+ "http://from\.example/" "Some/1\.0 \(thing\)""#;
    assert_line(&lines[1], &format!(r"127\.0\.0\.1 - user {TIME} {wanted}"));
    assert_line(&lines[2], &format!(r#"127\.0\.0\.1 - - {TIME} "HEAD /a\.txt HTTP/1\.0" 200 0 "-" "-""#));
}

/// An answer that is given again has bytes and no fields: a `map` of its fields must not tell that there are none.
#[test]
fn fields_of_an_answer_are_told_by_maps_each_time() {
    let server = site(
        "map $sent_http_content_type $kind { ~^text/plain plain; default none; }
         map $kind $outer { default other; }
         log_format kinds '$kind'; access_log {{DIR}}/kinds.log kinds; access_log {{DIR}}/others.log kinds if=$outer;
         server { listen 127.0.0.1:{{PORT}}; default_type text/plain; }",
    )
    .start();
    for _ in 0..5 {
        server.get("/a.txt");
    }
    assert_eq!(lines(&server, "kinds.log", 5), ["plain"; 5]);
    assert_eq!(lines(&server, "others.log", 5), ["plain"; 5]);
}

#[test]
fn no_byte_of_a_stranger_ends_a_line() {
    let server = site(
        r#"log_format plain '"$http_user_agent" $arg_missing $uri';
           log_format json escape=json '{"agent":"$http_user_agent","none":"$arg_missing","uri":"$uri"}';
           log_format none escape=none '"$http_user_agent" $arg_missing $uri';
           server { listen 127.0.0.1:{{PORT}}; error_log {{DIR}}/error.log info;
               access_log {{DIR}}/plain.log plain; access_log {{DIR}}/json.log json; access_log {{DIR}}/none.log none;
               access_log {{DIR}}/access.log; }"#,
    )
    .start();
    let mut client = server.client();
    // Of control bytes only a tab can stand in a field; a path can hold them all.
    client.send(b"GET /%0aevil%22%5c%01%1b[31m%7f%c3%a9 HTTP/1.1\r\nHost: localhost\r\nUser-Agent: a\"b\\c\t\xc3\xa9\r\n\r\n");
    assert_eq!(client.response().status, 404);
    let access = lines(&server, "access.log", 1);
    assert!(
        access[0].ends_with(r#" "-" "a\x22b\x5Cc\x09\xC3\xA9""#)
            && access[0].contains(r#""GET /%0aevil%22%5c%01%1b[31m%7f%c3%a9 HTTP/1.1" 404 "#),
        "{access:?}"
    );
    assert_eq!(
        lines(&server, "plain.log", 1)[0],
        r#""a\x22b\x5Cc\x09\xC3\xA9" - /\x0Aevil\x22\x5C\x01\x1B[31m\x7F\xC3\xA9"#
    );
    let json =
        r#"{"agent":"a\"b\\c\té","none":"","uri":"/\nevil\"\\\u0001\u001B[31m"#.to_string() + "\x7fé\"}";
    assert_eq!(lines(&server, "json.log", 1)[0], json);
    // That is what it says; the newline of the path ends a line.
    wait::holds("the unescaped line", || {
        server.read("none.log") == "\"a\"b\\c\té\"  /\nevil\"\\\x01\x1b[31m\x7fé\n"
    });
    // The error log shows the path, too: on one line.
    let error = server.wait_for_log("evil");
    assert!(error.contains("No such file") && error.contains("host: \"localhost\""), "{error:?}");
    assert!(!server.error_log().lines().any(|line| line.starts_with("evil")), "{}", server.error_log());
    assert!(server.error_log().bytes().all(|b| b == b'\n' || b >= b' '), "{:?}", server.error_log());
}

#[test]
fn which_requests_go_where() {
    let server = site(
        r#"log_format short '$uri';
           map $arg_log $wanted { default 1; no 0; }
           access_log {{DIR}}/http.log short;
           server { listen 127.0.0.1:{{PORT}};
               location / { }
               location /two { access_log {{DIR}}/one.log short; access_log {{DIR}}/two.log combined if=$wanted; }
               location /off { access_log off; }
               location /off/on { access_log {{DIR}}/on.log short; }
               location /if { access_log {{DIR}}/if.log short if=$wanted; }
               location /never { access_log {{DIR}}/never.log short if=$nothing; set $nothing ""; } }
           server { listen 127.0.0.1:{{PORT}}; server_name own.example; access_log {{DIR}}/own.log short; }"#,
    )
    .start();
    let mut client = server.client();
    for _ in 0..2 {
        for target in ["/a.txt", "/two", "/two?log=no", "/off", "/off/on", "/if", "/if?log=no", "/never"] {
            client.get(target);
        }
        client.request("GET /a.txt HTTP/1.1\r\nHost: own.example\r\n\r\n");
    }
    lines(&server, "own.log", 2);
    assert_eq!(lines(&server, "http.log", 2), ["/a.txt", "/a.txt"]);
    assert_eq!(lines(&server, "one.log", 4), ["/two"; 4]);
    lines(&server, "two.log", 2);
    assert_eq!(lines(&server, "on.log", 2), ["/off/on"; 2]);
    assert_eq!(lines(&server, "if.log", 2), ["/if"; 2]);
    assert_eq!(server.read("never.log"), "");
    // The usual one stands beside it in http.
    lines(&server, "access.log", 2);
}

/// What nginx writes about requests that are none.
#[test]
fn broken_and_aborted_requests() {
    let server = site(
        r#"log_format short '"$request" $status $body_bytes_sent $request_length "$host"';
           client_header_timeout 1s;
           limit_req_zone $server_name zone=slow:1m rate=1r/m;
           server { listen 127.0.0.1:{{PORT}}; server_name first; access_log {{DIR}}/first.log short;
               location /bye { return 444; }
               location /delayed { limit_req zone=slow burst=5; try_files /a.txt =404; } }
           server { listen 127.0.0.1:{{PORT}}; server_name second; access_log {{DIR}}/second.log short; }"#,
    )
    .start();
    let mut count = 0;
    let mut check = |sent: &str, log: &str, pattern: &str| {
        let mut client = server.client();
        client.send(sent);
        client.half_close();
        let _ = client.rest();
        if log == "second.log" {
            assert_line(lines(&server, log, 1).last().unwrap(), pattern);
        } else {
            count += 1;
            assert_line(lines(&server, log, count).last().unwrap(), pattern);
        }
    };
    check("\x16\x03\x01garbage\r\n\r\n", "first.log", r#""\\x16\\x03\\x01garbage" 400 \d+ \d+ "first""#);
    check("GET /a b HTTP/1.1\r\n\r\n", "first.log", r#""GET /a b HTTP/1\.1" 400 \d+ \d+ "first""#);
    check("GET / HTTP/3.0\r\n\r\n", "first.log", r#""GET / HTTP/3\.0" 505 \d+ \d+ "first""#);
    check("GET / HTTP/1.1\r\n\r\n", "first.log", r#""GET / HTTP/1\.1" 400 \d+ 18 "first""#);
    check("GET / HT", "first.log", r#""GET / HT" 400 0 \d+ "first""#);
    check("GET / HTTP/1.1\r\nHost: fir", "first.log", r#""GET / HTTP/1\.1" 400 0 \d+ "first""#);
    check(
        "GET / HTTP/1.1\r\nHost: second\r\nX : y\r\n\r\n",
        "second.log",
        r#""GET / HTTP/1\.1" 400 \d+ \d+ "second""#,
    );
    check(
        "GET /bye HTTP/1.1\r\nHost: first\r\n\r\n",
        "first.log",
        r#""GET /bye HTTP/1\.1" 444 0 34 "first""#,
    );

    let mut client = server.client();
    client.send("GET /late HTTP/1.1\r\nX: ");
    client.expect_closed();
    count += 1;
    assert_line(
        lines(&server, "first.log", count).last().unwrap(),
        r#""GET /late HTTP/1\.1" 408 0 \d+ "first""#,
    );

    assert_eq!(server.request("GET /delayed HTTP/1.1\r\nHost: first\r\n\r\n").status, 200);
    let mut client = server.client();
    client.send("GET /delayed HTTP/1.1\r\nHost: first\r\n\r\n");
    server.wait_for_log("delaying request");
    drop(client);
    count += 2;
    assert_line(
        lines(&server, "first.log", count).last().unwrap(),
        r#""GET /delayed HTTP/1\.1" 499 0 38 "first""#,
    );
}

/// `$bytes_sent` and its like against what really went over the wire.
#[test]
fn sizes_are_exact() {
    let server = site(
        r#"log_format sizes '$request_length $bytes_sent $body_bytes_sent';
           server { listen 127.0.0.1:{{PORT}}; allow_http09 on; access_log {{DIR}}/sizes.log sizes;
               location / { }
               location /chunked { add_trailer X-End end; return 200 "some text"; }
               location /chunked-file { add_trailer X-End end; alias {{DIR}}/html/big.txt; }
               location /none { return 204; } }"#,
    )
    .file("html/big.txt", vec![b'x'; 1_000_000])
    .start();
    let end = "Host: localhost\r\nConnection: close\r\n\r\n";
    let requests = [
        format!("GET /a.txt HTTP/1.1\r\n{end}"),
        format!("GET /a.txt?{} HTTP/1.1\r\n{end}", "x".repeat(3000)),
        format!("HEAD /a.txt HTTP/1.1\r\n{end}"),
        format!("GET /big.txt HTTP/1.1\r\n{end}"),
        format!("GET /big.txt HTTP/1.1\r\nRange: bytes=10-99\r\n{end}"),
        format!("GET /big.txt HTTP/1.1\r\nRange: bytes=10-99,200-299\r\n{end}"),
        format!("GET /big.txt HTTP/1.1\r\nIf-None-Match: *\r\n{end}"),
        format!("GET /missing HTTP/1.1\r\n{end}"),
        format!("GET /chunked HTTP/1.1\r\n{end}"),
        format!("GET /chunked-file HTTP/1.1\r\n{end}"),
        format!("GET /none HTTP/1.1\r\n{end}"),
        "GET /a.txt\r\n".to_string(),
        "GET /a.txt HTTP/1.1\nHost: localhost\nConnection: close\n\n".to_string(),
    ];
    for (index, request) in requests.iter().enumerate() {
        let mut client = server.client();
        client.send(request);
        let sent = client.rest().unwrap();
        let head = sent.windows(4).position(|w| w == b"\r\n\r\n").map_or(0, |at| at + 4);
        let wanted = format!("{} {} {}", request.len(), sent.len(), sent.len() - head);
        let seen = lines(&server, "sizes.log", index + 1);
        assert_eq!(seen[index], wanted, "{request:?}");
    }
    // Pipelined requests each have their own.
    let mut client = server.client();
    let get = "GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";
    client.send(get.repeat(3));
    client.half_close();
    let total = client.rest().unwrap().len();
    let seen = lines(&server, "sizes.log", requests.len() + 3);
    for line in &seen[requests.len()..] {
        assert_eq!(*line, format!("{} {} 6", get.len(), total / 3));
    }
}

#[test]
fn error_logs_have_levels_and_places() {
    let server = site(
        "error_log {{DIR}}/http.log error;
         server { listen 127.0.0.1:{{PORT}};
             location / { }
             location /own { error_log {{DIR}}/own.log info; }
             location /crit { error_log {{DIR}}/crit.log crit; }
             location /both { error_log {{DIR}}/own.log; error_log {{DIR}}/second.log; }
             location /quiet { log_not_found off; } }",
    )
    .start();
    let mut client = server.client();
    for target in ["/x", "/own/x", "/crit/x", "/both/x", "/quiet/x"] {
        assert_eq!(client.get(target).status, 404);
    }
    server.request("BAD\r\n\r\n");
    let http = lines(&server, "http.log", 1);
    let (stamp, process) = (r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d", r"\d+#\d+: \*\d+");
    assert_line(
        &http[0],
        &format!(
            r#"{stamp} \[error\] {process} open\(\) "{}/html/x" failed \(2: No such file or directory\), client: 127\.0\.0\.1, server: .*, request: "GET /x HTTP/1\.1", host: "localhost""#,
            regex::escape(&server.dir().display().to_string())
        ),
    );
    let own = lines(&server, "own.log", 2);
    assert!(own[0].contains("/own/x") && own[1].contains("/both/x"), "{own:#?}");
    assert!(lines(&server, "second.log", 1)[0].contains("/both/x"));
    assert_eq!(server.read("crit.log"), "");
}

#[test]
fn time_is_local() {
    for (zone, offset, iso) in
        [("XYZ-5:30", r"\+0530", r"\+05:30"), ("ABC+3", "-0300", "-03:00"), ("UTC", r"\+0000", r"\+00:00")]
    {
        let server = site(
            "log_format times '$time_local|$time_iso8601|$msec';
             server { listen 127.0.0.1:{{PORT}}; access_log {{DIR}}/times.log times; }",
        )
        .env("TZ", zone)
        .start();
        let before = unix_now();
        server.get("/a.txt");
        let line = lines(&server, "times.log", 1).remove(0);
        assert_line(
            &line,
            &format!(
                r"\d\d/\w{{3}}/\d{{4}}:\d\d:\d\d:\d\d {offset}\|\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d{iso}\|\d+\.\d{{3}}"
            ),
        );
        // The hour is that of the zone.
        let msec: f64 = line.rsplit('|').next().unwrap().parse().unwrap();
        assert!(msec as u64 >= before - 1 && msec as u64 <= unix_now() + 1, "{line}");
        let mut date = Command::new("date");
        date.args(["-d", &format!("@{}", msec as u64), "+%d/%b/%Y:%H:%M:%S %z"])
            .env("TZ", zone)
            .env("LC_ALL", "C");
        let local = text(&date.output().unwrap().stdout);
        assert!(line.starts_with(local.trim_end()), "{line} {local}");
    }
}

fn unix_now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

/// As root the worker is somebody who may not write to the logs' folder.
fn unprivileged() -> &'static str {
    if process::is_root() { "user nobody nogroup;" } else { "" }
}

fn load(server: &Server) -> Load {
    Load::start(&Plan {
        port: server.port(),
        threads: 2,
        connections: Connections::Kept,
        target: "/a.txt".into(),
        accept: |r| r.status == 200 && r.body == b"hello\n",
    })
}

const WHOLE: &str = r#"^127\.0\.0\.1 - - \[[^]]+\] "GET /a\.txt HTTP/1\.1" 200 6 "-" "-"$"#;

/// Asserts that the logs together have a whole line for each request.
fn assert_complete(server: &Server, logs: &[String], requests: u64) {
    let count = || -> u64 { logs.iter().map(|log| server.read(log).lines().count() as u64).sum() };
    wait::holds("all lines", || count() >= requests);
    assert_eq!(count(), requests, "lines of {logs:?}");
    let whole = Regex::new(WHOLE).unwrap();
    for log in logs {
        let text = server.read(log);
        assert!(text.is_empty() || text.ends_with('\n'), "{log} ends within a line");
        let torn = text.lines().find(|line| !whole.is_match(line));
        assert_eq!(torn, None, "in {log}");
    }
}

#[test]
fn reopening_under_load_loses_nothing() {
    let server = site("keepalive_requests 1000000; server { listen 127.0.0.1:{{PORT}}; }")
        .main(unprivileged())
        .start();
    let load = load(&server);
    let mut logs = vec!["access.log".to_string()];
    for round in 0..6 {
        load.more(100);
        let old = format!("access.log.{round}");
        fs::rename(server.dir().join("access.log"), server.dir().join(&old)).unwrap();
        if round % 2 == 0 {
            let output = server.run(&["-s", "reopen"]);
            assert!(output.status.success(), "{}", text(&output.stderr));
            // From here on nothing may come into the old file.
            let size = fs::metadata(server.dir().join(&old)).unwrap().len();
            load.more(100);
            assert_eq!(
                fs::metadata(server.dir().join(&old)).unwrap().len(),
                size,
                "a line came after -s reopen"
            );
        } else {
            server.signal(Signal::USR1);
            wait::holds("the new file", || server.dir().join("access.log").exists());
            load.more(100);
        }
        logs.push(old);
    }
    let totals = load.stop();
    totals.assert_clean();
    assert_complete(&server, &logs, totals.requests);
}

/// Debian's rule for nginx with our command: <https://sources.debian.org/src/nginx/>, `debian/nginx-common.nginx.logrotate`.
#[test]
fn logrotate_under_load_loses_nothing() {
    let server = site("keepalive_requests 1000000; server { listen 127.0.0.1:{{PORT}}; access_log {{DIR}}/log/access.log; }")
        .main(unprivileged())
        .file("log/access.log", "")
        .start();
    let dir = server.dir().display().to_string();
    let create = if process::is_root() { "create 0640 www-data adm" } else { "create 0640" };
    let rule = format!(
        "{dir}/log/*.log {{\n\tdaily\n\tmissingok\n\trotate 14\n\tcompress\n\tdelaycompress\n\tnotifempty\n\t{create}\n\
         \tsharedscripts\n\tpostrotate\n\t\t{} -p {dir} -c {dir}/brisk.conf -s reopen >/dev/null 2>&1\n\tendscript\n}}\n",
        bin()
    );
    let rule = server.write("rotate.conf", rule);
    fs::set_permissions(&rule, fs::Permissions::from_mode(0o644)).unwrap();
    let load = load(&server);
    for _ in 0..3 {
        load.more(200);
        // Ordinary users do not search sbin.
        let output = Command::new("logrotate")
            .env("PATH", format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default()))
            .args(["--force", "--state"])
            .arg(server.dir().join("rotate.state"))
            .arg(&rule)
            .output()
            .expect("logrotate is installed (scripts/setup.sh test)");
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
        let old = server.dir().join("log/access.log.1");
        let size = fs::metadata(&old).unwrap().len();
        load.more(100);
        assert_eq!(fs::metadata(&old).unwrap().len(), size, "a line came after logrotate");
    }
    let totals = load.stop();
    totals.assert_clean();
    let meta = fs::metadata(server.dir().join("log/access.log")).unwrap();
    assert_eq!(meta.mode() & 0o777, 0o640);
    if process::is_root() {
        assert_eq!(meta.uid(), 33, "www-data keeps its file");
    }
    for entry in fs::read_dir(server.dir().join("log")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "gz") {
            assert!(Command::new("gzip").arg("-d").arg(&path).status().unwrap().success());
        }
    }
    let logs: Vec<String> = fs::read_dir(server.dir().join("log"))
        .unwrap()
        .map(|entry| format!("log/{}", entry.unwrap().file_name().to_str().unwrap()))
        .collect();
    assert_eq!(logs.len(), 4, "{logs:?}");
    assert_complete(&server, &logs, totals.requests);
}

/// `/dev/stdout` as a container, a supervisor and a shell hand it over.
#[test]
fn logs_to_standard_output() {
    let whole = Regex::new(WHOLE).unwrap();
    for kind in ["pipe", "socket", "file"] {
        let prepared = Builder::new(&bin())
            .main("error_log /dev/stderr info;")
            .http("access_log /dev/stdout; server { listen 127.0.0.1:{{PORT}}; }")
            .file("html/a.txt", "hello\n")
            .prepare();
        let mut command = prepared.command(&["-e", "/dev/stderr"]);
        command.stdin(Stdio::null()).stderr(File::create(prepared.dir().join("error.log")).unwrap());
        let mut reader: Box<dyn std::io::Read> = match kind {
            "pipe" => {
                let (reader, writer) = std::io::pipe().unwrap();
                command.stdout(writer);
                Box::new(reader)
            }
            "socket" => {
                let (reader, writer) = UnixStream::pair().unwrap();
                command.stdout(Stdio::from(std::os::fd::OwnedFd::from(writer)));
                Box::new(reader)
            }
            _ => {
                let path = prepared.dir().join("out.log");
                command.stdout(File::create(&path).unwrap());
                Box::new(File::open(&path).unwrap())
            }
        };
        let mut server = prepared.start_with(command);
        for _ in 0..3 {
            assert_eq!(server.get("/a.txt").text(), "hello\n");
        }
        let output = server.run(&["-s", "reopen"]);
        assert!(output.status.success(), "{kind}: {}", text(&output.stderr));
        assert_eq!(server.get("/a.txt").text(), "hello\n");
        server.wait_for_log("reopening logs");
        assert!(server.end(Signal::QUIT).success());
        let mut all = String::new();
        reader.read_to_string(&mut all).unwrap();
        assert_eq!(all.lines().filter(|line| whole.is_match(line)).count(), 4, "{kind}: {all}");
    }
}

/// Nobody reads the pipe any more: nothing stops.
#[test]
fn a_reader_that_goes_stops_nothing() {
    let prepared = Builder::new(&bin())
        .http("access_log /dev/stdout; server { listen 127.0.0.1:{{PORT}}; }")
        .file("html/a.txt", "hello\n")
        .prepare();
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = prepared.command(&["-e", "error.log"]);
    command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::null());
    let server = prepared.start_with(command);
    server.get("/a.txt");
    drop(reader);
    let mut client = server.client();
    // More than a pipe holds.
    for _ in 0..900 {
        assert_eq!(client.get("/a.txt").text(), "hello\n");
    }
}

#[test]
fn a_full_disk_stops_nothing() {
    let server = site(
        "server { listen 127.0.0.1:{{PORT}}; access_log /dev/full; error_log /dev/full; access_log {{DIR}}/access.log; }",
    )
    .start();
    let mut client = server.client();
    for _ in 0..50 {
        assert_eq!(client.get("/a.txt").text(), "hello\n");
        assert_eq!(client.get("/missing").status, 404);
    }
    assert_eq!(server.access_lines(100).len(), 100);
}

#[test]
fn a_disk_that_was_full_is_used_again() {
    if !process::is_root() {
        return;
    }
    let server = site("server { listen 127.0.0.1:{{PORT}}; }").prepare();
    let mount = Mount::new(server.dir());
    let Some(mount) = mount else {
        eprintln!("no mounts here: not tested");
        return;
    };
    fs::write(
        server.dir().join("brisk.conf"),
        fs::read_to_string(server.dir().join("brisk.conf"))
            .unwrap()
            .replace("/access.log", "/disk/access.log"),
    )
    .unwrap();
    let mut server = server.start();
    fs::write(server.dir().join("disk/filler"), vec![0; 60 << 10]).unwrap();
    let mut client = server.client();
    let log = server.dir().join("disk/access.log");
    let size = || fs::metadata(&log).unwrap().len();
    let mut last = 0;
    wait::holds("a full disk", || {
        (0..50).for_each(|_| assert_eq!(client.get("/a.txt").text(), "hello\n"));
        std::mem::replace(&mut last, size()) == size() && last > 0
    });
    fs::remove_file(server.dir().join("disk/filler")).unwrap();
    assert_eq!(client.get("/a.txt").text(), "hello\n");
    wait::holds("the next line", || size() > last);
    let text = fs::read_to_string(&log).unwrap();
    let whole = Regex::new(WHOLE).unwrap();
    let torn = text.lines().filter(|line| !whole.is_match(line)).count();
    assert!(torn <= 1 && text.ends_with('\n'), "{torn} torn lines");
    // The folder goes with the server, and can only go without the mount.
    server.end(Signal::QUIT);
    drop(mount);
}

/// A file system of 64 KiB.
struct Mount(std::path::PathBuf);

impl Mount {
    fn new(dir: &Path) -> Option<Mount> {
        let path = dir.join("disk");
        fs::create_dir(&path).unwrap();
        let done =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(&path).output().ok()?;
        done.status.success().then_some(Mount(path))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// `rate=` and `filter=`: other logs of the same place get everything.
#[test]
fn error_logs_with_a_rate_and_filters() {
    let conf = "server { listen 127.0.0.1:{{PORT}}; root {{DIR}}/html;
        error_log {{DIR}}/all.log; error_log {{DIR}}/few.log rate=2m/s;
        error_log {{DIR}}/some.log filter=message:/b filter=request:~HEAD; }";
    let server = Builder::new(&bin()).http(conf).start();
    for n in 0..20 {
        assert_eq!(server.get(&format!("/a{n}")).status, 404);
    }
    server.request("HEAD /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    server.get("/b");
    server.wait_for_line("all.log", "GET /b ");
    assert_eq!(server.read("all.log").lines().count(), 22);
    let some = server.read("some.log");
    assert!(some.lines().count() == 1 && some.contains("HEAD /b "), "{some}");
    let few = server.read("few.log");
    assert!(few.contains("too many log messages, limiting") && few.lines().count() < 22, "{few}");
}
