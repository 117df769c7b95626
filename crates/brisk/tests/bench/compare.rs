//! `brisk bench compare`.

use super::{BIN, bench, server};
use serde_json::Value;

/// Pairs count however busy the machine is with other tests: what is compared differs by more than they disturb.
fn compared(args: &[&str]) -> Value {
    let common = ["compare", "--json", "--others", "100", "-d", "100ms", "-w", "20ms", "-c", "4"];
    let output = bench(&[&common[..], args].concat());
    let all: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{args:?}: {output:?}"));
    assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
    assert_eq!(all["pairs"].as_u64().unwrap(), all["costs"].as_array().unwrap().len() as u64, "{all}");
    all
}

/// By each figure, and the other way round: a file of 100 bytes and one of 1 MB are told apart as soon as may be.
#[test]
fn which_of_two_is_faster() {
    let server = server();
    server.write("html/big.bin", vec![b'x'; 1 << 20]);
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", server.port());
    let (small, big) = (url("/a.txt"), url("/big.bin"));
    let (cpu, latency, rate) = ("server CPU per response", "median latency", "time per response");
    for (by, unit, a, b, verdict) in [
        ("cpu", cpu, &big, &small, "faster"),
        ("cpu", cpu, &small, &big, "slower"),
        ("latency", latency, &big, &small, "faster"),
        ("rate", rate, &small, &big, "slower"),
    ] {
        let all = compared(&["--by", by, a, b]);
        assert_eq!((&all["verdict"], &all["by"]), (&verdict.into(), &unit.into()), "{all}");
        let ratio = all["ratio"].as_f64().unwrap();
        assert!(if verdict == "faster" { ratio < 0.8 } else { ratio > 1.25 }, "{all}");
        assert!(all["pairs"].as_u64() <= Some(20), "{all}");
    }
    // With pauses, as plain runs have them; and at a rate, with which a generator on a busy machine may be late.
    let watch = server.pid().to_string();
    let all = compared(&["--by", "cpu", "--watch-a", &watch, "--think", "1ms", &big, &small]);
    assert_eq!(all["verdict"], "faster", "{all}");
    let at_a_rate =
        ["compare", "--json", "--by", "cpu", "--others", "100", "-d", "100ms", "-w", "20ms", "--rate", "100"];
    let output = bench(&[&at_a_rate[..], &[&big, &small]].concat());
    let all: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let was_late = all["verdict"] == "undecided" && all["disturbed_pairs"].as_u64() > Some(0);
    assert!(all["verdict"] == "faster" || was_late, "{output:?}");
    let text =
        bench(&["compare", "--others", "100", "-d", "50ms", "-w", "0", "--by", "latency", &big, &small])
            .stdout;
    let text = String::from_utf8_lossy(&text);
    assert!(text.starts_with("median latency, B over A: 0.") && text.ends_with("B is faster\n"), "{text}");
}

/// A promise ends a comparison like a broken one of a load; the page shows both sides pair by pair.
#[test]
fn a_comparison_keeps_a_promise_or_breaks_it() {
    let server = server();
    server.write("html/big.bin", vec![b'x'; 1 << 20]);
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", server.port());
    let (small, big, page) = (url("/a.txt"), url("/big.bin"), server.dir().join("compared.html"));
    let args = ["compare", "--by", "cpu", "--others", "100", "-d", "100ms", "-w", "20ms", "-c", "4"];
    let html = format!("--html={}", page.display());
    for (a, b, code, said) in
        [(&small, &big, 3, "DOES NOT HOLD: slower<10%"), (&big, &small, 0, "holds: slower<10%")]
    {
        let output = bench(&[&args[..], &["--slo", "slower<10%", &html, a, b]].concat());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(text.contains(said), "{text}");
        let page = std::fs::read_to_string(&page).unwrap();
        for part in
            ["At a glance", "promise: slower by less than 10 %", "Both, pair by pair", "Difference", said]
        {
            assert!(page.contains(part) || page.contains(&part.replace('<', "&lt;")), "{part}: {page}");
        }
    }
    let wrong = bench(&["compare", "--slo", "p99<5ms", &small, &big]);
    assert_eq!(wrong.status.code(), Some(1), "{wrong:?}");
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("slower<5%"), "{wrong:?}");
}

/// Another server for each run, ended behind it; and one of many processes, which wait for each other most of the time.
#[test]
fn servers_are_brought_up_for_a_comparison() {
    let server = server();
    let port = brisk_testkit::ports::claim();
    let url = format!("http://127.0.0.1:{}/", port.number);
    let many = server.write("many.py", format!("{MANY}serve({})", port.number));
    let many = format!("exec python3 {}", many.display());
    let python = format!("exec python3 -m http.server --bind 127.0.0.1 {} 2>/dev/null", port.number);
    for command in [&python, &many] {
        let all = compared(&["--pairs", "6", "--url", &url, command, command]);
        assert_eq!((&all["by"], &all["pairs"]), (&"server CPU per response".into(), &6.into()), "{all}");
        for pair in all["costs"].as_array().unwrap() {
            let costs = [&pair[0], &pair[1]].map(|cost| cost.as_f64().unwrap());
            assert!(costs.iter().all(|cost| (20.0..100_000.0).contains(cost)), "µs in Python: {all}");
        }
        assert!(std::net::TcpStream::connect(("127.0.0.1", port.number)).is_err(), "nothing is left");
    }
}

/// Ten processes that take a millisecond of CPU for each answer.
const MANY: &str = r"
import os, socket, sys, threading, time
def answer(connection):
    try:
        while connection.recv(4096):
            end = time.thread_time() + 0.001
            while time.thread_time() < end: pass
            connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    except OSError: pass
def serve(port):
    listener = socket.create_server(('127.0.0.1', port), backlog=128)
    for _ in range(9):
        if os.fork() == 0: break
    while True:
        threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()
";

/// Nobody is measured in another's place, and nothing but errors is no measurement.
#[test]
fn what_cannot_be_compared_is_said() {
    let server = server();
    let url = format!("http://127.0.0.1:{}/a.txt", server.port());
    let nobody = "http://127.0.0.1:1/";
    let check = |args: &[&str], code: i32, want: &str| {
        let output =
            bench(&[&["compare", "-d", "50ms", "-w", "0", "-c", "2", "--others", "100"], args].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && text.contains(want), "{args:?}: {output:?}");
        assert!(output.stdout.is_empty(), "{args:?}: {output:?}");
    };
    // What answers is none of the commands'.
    for by in ["latency", "rate", "cpu"] {
        check(&["--by", by, "--url", &url, "sleep 100", "sleep 100"], 1, "listens at");
        check(&["--by", by, "--url", &url, "true", "true"], 1, "listens at");
    }
    check(&["--url", nobody, "true", "true"], 1, "must stay in the foreground");
    let command = format!("exec {BIN} -p {} -c none.conf", server.dir().display());
    check(&["--url", nobody, &command, &command], 1, "must stay in the foreground");
    // A server that its command only asks another to start: another's CPU.
    let port = brisk_testkit::ports::claim();
    let far = format!("http://127.0.0.1:{}/", port.number);
    let python = format!("python3 -m http.server --bind 127.0.0.1 {} 2>/dev/null", port.number);
    let apart =
        format!("(setsid {python} & echo $! > {0}/pid) & wait; exec sleep 100", server.dir().display());
    check(&["--by", "cpu", "--url", &far, &apart, &apart], 1, "is no process of");
    let pid: i32 = server.read("pid").trim().parse().unwrap();
    let _ = rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid).unwrap(),
        rustix::process::Signal::KILL,
    );
    // Refused, and nothing but refusals.
    for by in ["latency", "rate", "cpu"] {
        let watch = server.pid().to_string();
        let watch = ["--watch-a", &watch, "--watch-b", &watch];
        check(
            &[&["--by", by, &url, nobody], &watch[..]].concat(),
            2,
            "B (http://127.0.0.1:1/) gives nothing but errors: refused",
        );
        check(
            &[&["--by", by, nobody, &url], &watch[..]].concat(),
            2,
            "A (http://127.0.0.1:1/) gives nothing but errors: refused",
        );
    }
    let missing = format!("{url}.missing");
    check(&[&url, &missing], 2, "gives nothing but errors: status 404");
    check(&[&url], 1, "two targets are needed");
    check(&["--rate", "5", "--think", "1s", &url, &url], 1, "--rate");
    check(&["--others", "101", &url, &url], 1, "not between 0 and 100");
}

/// Six processes that want all CPUs: times are given up after a few pairs, CPU per response is not, and both say who disturbs.
#[test]
fn a_busy_machine_is_named_and_lived_with() {
    let mut hogs: Vec<std::process::Child> = (0..6)
        .map(|_| std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
        .collect();
    let server = server();
    let url = format!("http://127.0.0.1:{}/a.txt", server.port());
    let compare = |by: &str| {
        bench(&["compare", "--json", "--by", by, "-d", "200ms", "-w", "20ms", "-c", "16", &url, &url])
    };
    let [times, cpu] = ["rate", "cpu"].map(compare);
    for hog in &mut hogs {
        hog.kill().unwrap();
        hog.wait().unwrap();
    }
    let read = |output: &std::process::Output| -> Value {
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    };
    let text = String::from_utf8_lossy(&times.stderr);
    let all = read(&times);
    assert_eq!((times.status.code(), &all["verdict"]), (Some(2), &"undecided".into()), "{text}");
    assert_eq!(all["pairs"].as_u64().unwrap() + all["spoilt_pairs"].as_u64().unwrap(), 4, "{all}");
    assert!(
        text.contains("the machine is busy: others took ") && text.contains("--by cpu works here"),
        "{text}"
    );
    let text = String::from_utf8_lossy(&cpu.stderr);
    let all = read(&cpu);
    assert!(cpu.status.success() && text.contains("disturbed pairs count from now on"), "{text}");
    assert!(all["busy_machine"] == true && all["pairs"].as_u64() >= Some(10), "{all}");
    assert!(
        all["others_cpus"]["sh"].as_f64() > Some(0.1) && all["others_share"].as_f64() > Some(0.05),
        "{all}"
    );
}
