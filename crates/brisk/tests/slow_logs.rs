//! Logs whose readers, or whose disks, are slow: nobody waits for them, what is lost is told, and no line is cut. And
//! how error logs look that are not nginx's.

use brisk_testkit::{Builder, Client, Server, TempDir, ports, process, wait};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// Asks so often that lines of a kilobyte fill a pipe and all that is kept for its reader.
fn flood(server: &Server) {
    ask(server, 800);
}

fn ask(server: &Server, lines: usize) {
    let mut client = server.client();
    let padding = "x".repeat(950);
    for n in 0..lines {
        assert_eq!(client.get(&format!("/a?{n}-{padding}")).status, 204);
    }
}

/// Reads until a line with this text comes.
fn read_until(mut reader: impl std::io::Read, text: &str) -> String {
    let mut got = String::new();
    let mut buf = vec![0; 64 << 10];
    while !got.contains(text) {
        let count = reader.read(&mut buf).unwrap();
        assert!(count > 0, "the end came before {text:?}");
        got.push_str(std::str::from_utf8(&buf[..count]).unwrap());
    }
    got
}

#[track_caller]
fn are_whole(lines: &str) {
    let is_whole = |line: &str| line.starts_with("/a?") && (line.len() < 100 || line.len() > 950);
    let broken: Vec<_> = lines.lines().filter(|line| !is_whole(line)).collect();
    assert!(broken.is_empty(), "{broken:?}");
}

const CONF: &str = "log_format short $request_uri; access_log {{LOG}} short;
    server { listen 127.0.0.1:{{PORT}}; location /a { return 204; } location /metrics { metrics; access_log off; } }";

#[test]
fn a_named_pipe_whose_reader_sleeps() {
    let builder =
        Builder::new(BIN).main("worker_processes 1;").http(&CONF.replace("{{LOG}}", "{{DIR}}/fifo"));
    let path = builder.dir().join("fifo");
    mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    // It starts although nobody has opened the other end.
    let server = builder.start();
    let reader = std::fs::OpenOptions::new().read(true).open(&path).unwrap();
    flood(&server);
    server.wait_for_log(r"\[warn\].* \d+ lines for the log .*fifo. could not be written and are lost");
    let metrics =
        server.request("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").text();
    let lost =
        metrics.lines().find(|line| line.starts_with("brisk_log_lines_lost_total") && line.contains("fifo"));
    assert!(lost.is_some_and(|line| !line.ends_with(" 0")), "{metrics}");
    // When it wakes up, it gets what was kept, and then what comes.
    let reading = std::thread::spawn(move || read_until(reader, "/a?last"));
    wait::holds("the reader has caught up", || {
        server.get("/a?last");
        reading.is_finished()
    });
    are_whole(&reading.join().unwrap());
}

/// More than a pipe holds, and less than what is kept: a reader that is behind when the server ends gets all of it.
#[test]
fn lines_that_are_kept_outlive_the_server_s_end() {
    let builder =
        Builder::new(BIN).main("worker_processes 1;").http(&CONF.replace("{{LOG}}", "{{DIR}}/fifo"));
    let path = builder.dir().join("fifo");
    mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let mut server = builder.start();
    let mut reader = std::fs::OpenOptions::new().read(true).open(&path).unwrap();
    ask(&server, 200);
    server.signal(Signal::QUIT);
    let mut lines = String::new();
    std::io::Read::read_to_string(&mut reader, &mut lines).unwrap();
    server.end(Signal::QUIT);
    are_whole(&lines);
    assert_eq!(lines.lines().count(), 200);
}

#[test]
fn standard_output_that_nobody_reads() {
    let prepared =
        Builder::new(BIN).main("worker_processes 1;").http(&CONF.replace("{{LOG}}", "/dev/stdout")).prepare();
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = prepared.command(&["-e", "error.log"]);
    command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::null());
    let server = prepared.start_with(command);
    flood(&server);
    server.wait_for_log("lines for the log \"/dev/stdout\" could not be written and are lost");
    let reading = std::thread::spawn(move || read_until(reader, "/a?last"));
    wait::holds("the reader has caught up", || {
        server.get("/a?last");
        reading.is_finished()
    });
    are_whole(&reading.join().unwrap());
}

#[test]
fn a_syslog_server_that_does_not_read() {
    let conf = CONF.replace("{{LOG}}", "syslog:server=unix:{{DIR}}/log.sock");
    let builder = Builder::new(BIN).main("user root; worker_processes 1;").http(&conf);
    let _unread = UnixDatagram::bind(builder.dir().join("log.sock")).unwrap();
    let server = builder.start();
    flood(&server);
    server.wait_for_log("lines for the log \"syslog:server=unix:.*\" could not be written and are lost");
}

#[test]
fn a_disk_that_stalls_while_a_log_is_opened() {
    let builder =
        Builder::new(BIN).main("env BRISK_FAULTS; user root; worker_processes 1;").file("html/a", "").http(
            "log_format short $request_uri; server { listen 127.0.0.1:{{PORT}};
             access_log {{DIR}}/by_$arg_n.log short; location = /other { access_log off; return 204; } }",
        );
    let faults = format!("stall:3000={}/by_", builder.dir().display());
    let server = builder.env("BRISK_FAULTS", &faults).start();
    let mut client = server.client();
    let log = server.dir().join("by_x.log");
    for n in 0..3 {
        assert_eq!(client.get(&format!("/a?n=x&{n}")).status, 200);
    }
    assert_eq!(server.get("/other").status, 204);
    assert!(!Path::new(&log).exists(), "all of that while the log was being opened");
    wait::holds("the lines come in their order", || {
        server.read("by_x.log") == "/a?n=x&0\n/a?n=x&1\n/a?n=x&2\n"
    });
}

#[test]
fn error_logs_as_json() {
    let server = Builder::new(BIN)
        .http(
            "server { listen 127.0.0.1:{{PORT}}; server_name json.example;
             error_log {{DIR}}/json.log info format=json; error_log {{DIR}}/text.log error format=text; }",
        )
        .start();
    server.request(
        "GET /no\"file HTTP/1.1\r\nHost: json.example\r\nReferer: http://a/\r\nConnection: close\r\n\r\n",
    );
    let line = server.wait_for_line("json.log", "no.*file");
    let pattern = r#"^\{"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d","level":"error","pid":\d+,"connection":\d+,"message":"open\(\) \\"[^"]+/html/no\\"file\\" failed \(2: No such file or directory\)","client":"127\.0\.0\.1","server":"json\.example","request":"GET /no\\"file HTTP/1\.1","host":"json\.example","referrer":"http://a/"\}$"#;
    assert!(regex::Regex::new(pattern).unwrap().is_match(&line), "{line}");
    server.wait_for_line("text.log", r"\[error\] \d+#\d+: \*\d+ open\(\) ");
    let bad = Builder::new(BIN).main("error_log stderr format=xml;").prepare().run(&["-t"]);
    assert!(String::from_utf8_lossy(&bad.stderr).contains("invalid log format \"xml\""));
}

/// What `brisk serve` writes to a terminal, after a page that is there and one that is not.
fn on_a_terminal(environment: &[(&str, &str)]) -> String {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = std::fs::OpenOptions::new().write(true).open(name.to_str().unwrap()).unwrap();
    let dir = TempDir::new();
    dir.write("index.html", "hello");
    let port = ports::claim();
    let mut child = Command::new(BIN)
        .args(["serve", "--listen", &format!("127.0.0.1:{}", port.number)])
        .current_dir(dir.path())
        .env_remove("NO_COLOR")
        .env("TERM", "xterm")
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(theirs)
        .spawn()
        .unwrap();
    wait::holds("brisk serve to answer", || Client::try_connect(port.number).is_ok());
    let mut client = Client::connect(port.number);
    assert_eq!((client.get("/").status, client.get("/none").status), (200, 404));
    let text = read_until(std::fs::File::from(ours), "/none  ");
    process::signal(child.id(), Signal::INT);
    child.wait().unwrap();
    text
}

#[test]
fn colours_are_for_terminals() {
    let text = on_a_terminal(&[]);
    assert!(text.contains("  \x1b[32m200\x1b[0m  GET /  5 B"), "{text:?}");
    assert!(text.contains("  \x1b[33m404\x1b[0m  GET /none  "), "{text:?}");
    for environment in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let text = on_a_terminal(&[environment]);
        assert!(text.contains("  404  GET /none  ") && !text.contains('\x1b'), "{text:?}");
    }
}
