//! Ctrl-C: whatever runs ends at once, with its report so far.

use super::*;
use brisk_testkit::wait;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs a command until `is_ready`, interrupts it, and gives its exit code and all that it has printed.
fn interrupted(args: &[&str], mut is_ready: impl FnMut() -> bool) -> (Option<i32>, String) {
    let dir = TempDir::new();
    let file = |name: &str| File::create(dir.path().join(name)).unwrap();
    let mut child = Command::new(BIN)
        .args(args)
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(file("out"))
        .stderr(file("err"))
        .spawn()
        .unwrap();
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    wait::holds("it is under way", || {
        assert_eq!(child.try_wait().unwrap(), None, "{args:?}: {}{}", read("out"), read("err"));
        is_ready()
    });
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = wait::within(wait::DEADLINE, || child.try_wait().unwrap());
    if ended.is_none() {
        child.kill().unwrap();
    }
    let text = read("out") + &read("err");
    (ended.unwrap_or_else(|| panic!("{args:?} goes on: {text}")).code(), text)
}

/// Takes connections and requests, and never answers. Counts the latter.
fn silent() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let count = Arc::clone(&count);
            std::thread::spawn(move || {
                while stream.read(&mut [0; 4096]).is_ok_and(|bytes| bytes > 0) {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    (port, asked)
}

#[test]
fn everything_ends_with_its_report_so_far() {
    let server = server();
    let dir = TempDir::new();
    let target = format!("http://127.0.0.1:{}", server.port());
    // Each asks for something of its own: the log may be behind.
    let url = |name: &str| format!("{target}/a.txt?{name}");
    let write = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).unwrap();
        dir.path().join(name).display().to_string()
    };
    let check = |name: &str, args: &[&str], requests: usize, wants: &[&str]| {
        let asked = format!("?{name} ");
        let (code, text) = interrupted(args, || server.access_log().matches(&asked).count() >= requests);
        // A machine that is busy with other tests makes a generator late, and it says so.
        let expected = if text.contains("INVALID") { 2 } else { 0 };
        assert_eq!(code, Some(expected), "{args:?}: {text}");
        for want in wants {
            assert!(text.contains(want), "{args:?}: {want}: {text}");
        }
    };
    let bench = |name: &str, args: &[&str], requests: usize, wants: &[&str]| {
        let (url, wants) = (url(name), [wants, &["ended early"]].concat());
        check(name, &[&["bench"], args, &[&url]].concat(), requests, &wants);
    };
    bench("closed", &["-d", "10m"], 100, &["responses in"]);
    bench("open", &["--rate", "50", "-d", "10m"], 10, &["could not be sent: 0"]);
    bench("users", &["--users", "2,4", "-d", "10m"], 100, &["2 users"]);
    bench("find", &["--find-max", "--slo", "p99<9s", "-d", "10m"], 100, &["responses in"]);
    bench("idle", &["--idle", "-c", "5"], 5, &["5 responses"]);
    let (a, b) = (url("compare"), url("with"));
    check("with", &["bench", "compare", "-d", "10s", &a, &b], 100, &["undecided", "ended early"]);

    let step = "duration = \"10m\"\n[[user]]\nthink = \"5ms\"\n[[user.step]]\nrequest = \"GET /a.txt?run\"\n";
    let scenario = write("s.toml", step);
    let args = ["bench", "run", "--target", &target, &scenario];
    check("run", &args, 10, &["ended by hand", "GET /a.txt?run"]);
    let line = |time: &str| format!("h - - [21/Nov/2026:{time} +0000] \"GET /a.txt?play HTTP/1.1\" 200 5\n");
    let log = write("a.log", &(line("05:00:00") + &line("05:00:01") + &line("06:00:00")));
    let replay = write("r.toml", &format!("target = \"{target}\"\n[replay]\nlog = \"{log}\"\n"));
    check("play", &["bench", "run", &replay], 2, &["ended by hand", "/a.txt"]);
    check("probe", &["probe", "--every", "100ms", "--for", "1h", &url("probe")], 3, &[" 200 "]);

    let ab = ["ab", "-t", "600", "-n", "20000000", &url("ab")];
    check("ab", &ab, 100, &["Complete requests:", "Requests per second:"]);
    check("wrk", &["wrk", "-c2", "-t1", "-d10m", &url("wrk")], 100, &["Requests/sec:", "Latency"]);
    check("siege", &["siege", "-b", "-c2", "-t10m", &url("siege")], 100, &["Transactions:", "Availability:"]);
    let port = server.port().to_string();
    let httperf = ["httperf", "--server", "127.0.0.1", "--port", &port, "--uri", "/a.txt?httperf"];
    let httperf = [&httperf[..], &["--rate", "20", "--num-conns", "20000"]].concat();
    check("httperf", &httperf, 5, &["Total: connections", "Reply rate"]);
}

/// Nobody waits for an answer that may never come.
#[test]
fn what_waits_for_an_answer_ends_as_well() {
    for (args, code, want) in [
        (&["bench", "page"][..], 1, "ended early"),
        (&["probe", "--count", "5", "--store", "-"], 2, ""),
        (&["bench", "-c", "2"], 2, "0 responses"),
        (&["bench", "--rate", "20"], 2, "0 responses"),
        (&["siege", "-c1", "-t10m"], 0, "Transactions:"),
    ] {
        let (port, asked) = silent();
        let url = format!("http://127.0.0.1:{port}/");
        let args = [args, &[&url]].concat();
        let (ended, text) = interrupted(&args, || asked.load(Ordering::Relaxed) > 0);
        assert!(ended == Some(code) && text.contains(want), "{args:?}: {ended:?} {text}");
    }
}
