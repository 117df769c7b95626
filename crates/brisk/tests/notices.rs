//! What a server says of itself: its log at level notice, its processes' titles, what a reload waits for.

use brisk_testkit::server::text;
use brisk_testkit::{Builder, Client, Server, process, wait};
use rustix::process::Signal;
use std::time::{Duration, Instant};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

const SITE: &str = "server { listen 127.0.0.1:{{PORT}}; location /who { return 200 one; } }";

fn site() -> Builder {
    Builder::new(BIN)
        .http(SITE)
        .main("error_log {{DIR}}/error.log notice;")
        .file("html/large", vec![b'x'; 12 << 20])
}

fn title(pid: u32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    text(&line).trim_end_matches('\0').to_string()
}

fn user() -> u32 {
    rustix::process::getuid().as_raw()
}

#[test]
fn what_happens_to_it_is_in_the_log_with_its_sender() {
    let mut server = site().start();
    let (me, uid) = (std::process::id(), user());
    let worker = server.worker();
    server.wait_for_log(&format!(
        r"\[notice\] .*: brisk/\S+, process {}, serves with generation 1 of .*/brisk\.conf$",
        server.pid()
    ));
    server.wait_for_log(&format!(r"\[notice\] .*: start worker process {worker}$"));
    server.signal(Signal::HUP);
    server.wait_for_log(&format!(
        r"\[notice\] .*: signal 1 \(SIGHUP\) received from {me}, reconfiguring \(user {uid}\)$"
    ));
    server.wait_for_log("generation 2 is live");
    server.signal(Signal::USR1);
    server
        .wait_for_log(&format!(r"signal 10 \(SIGUSR1\) received from {me}, reopening logs \(user {uid}\)$"));
    server.reload();
    server.wait_for_log(&format!(
        r"\[notice\] .*: reload is ordered by process \d+, reconfiguring \(user {uid}\)$"
    ));
    assert!(server.run(&["-s", "reopen"]).status.success());
    server.wait_for_log(&format!(
        r"\[notice\] .*: reopen is ordered by process \d+, reopening logs \(user {uid}\)$"
    ));
    // A worker that is replaced.
    server.configure_http("worker_processes 1; error_log {{DIR}}/error.log notice;", SITE);
    server.reload();
    process::wait_gone(worker);
    server.wait_for_log(&format!(r"\[notice\] .*: worker process {worker} exited with code 0$"));
    assert!(server.end(Signal::QUIT).success());
    server.wait_for_log(&format!(r"signal 3 \(SIGQUIT\) received from {me}, shutting down \(user {uid}\)$"));
    server.wait_for_log(r"\[notice\] .*: exit$");
    let mut other = site().start();
    assert!(other.end(Signal::TERM).success());
    other.wait_for_log(r"signal 15 \(SIGTERM\) received from \d+, exiting \(user \d+\)$");
}

/// A server without a master says the same.
#[test]
fn one_process_alone_says_it_too() {
    let mut server = site().main("master_process off; error_log {{DIR}}/error.log notice;").start();
    let me = std::process::id();
    server.signal(Signal::HUP);
    server.wait_for_log(&format!(r"signal 1 \(SIGHUP\) received from {me}, reconfiguring \(user \d+\)$"));
    server.wait_for_log("generation 2 is live");
    assert!(server.end(Signal::TERM).success());
    server.wait_for_log(&format!(r"signal 15 \(SIGTERM\) received from {me}, exiting \(user \d+\)$"));
}

#[test]
fn an_upgrade_is_in_the_log() {
    let server = site().start();
    let me = std::process::id();
    let old = server.pid();
    server.signal(Signal::USR2);
    server.wait_for_log(&format!(r"signal 12 \(SIGUSR2\) received from {me}, changing binary \(user \d+\)$"));
    let new = wait::until("the new pid file", || {
        server.read("brisk.pid").trim().parse().ok().filter(|&pid: &u32| pid != old)
    });
    server.wait_for_log(&format!("start new binary process {new}$"));
    process::signal(old, Signal::QUIT);
    process::wait_gone(old);
}

#[test]
fn processes_are_called_what_they_are() {
    let server = site().start();
    let conf = server.dir().join("brisk.conf");
    assert_eq!(title(server.pid()), format!("brisk: master {}", conf.display()));
    let worker = server.worker();
    assert_eq!(title(worker), "brisk: worker");
    // The new binary is started with the old one's arguments, and knows its environment.
    let mut client = Client::connect_narrow(server.port());
    client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(!client.some(100).unwrap().is_empty());
    let old = server.pid();
    server.signal(Signal::USR2);
    wait::holds("the new pid file", || {
        server.read("brisk.pid").trim().parse().is_ok_and(|pid: u32| pid != old)
    });
    assert_eq!(title(server.pid()), format!("brisk: master {}", conf.display()));
    process::signal(old, Signal::QUIT);
    wait::holds("the title of a worker that ends", || title(worker) == "brisk: worker is shutting down");
    drop(client);
    process::wait_gone(old);
}

fn timed_reload(server: &Server, wanted: &str) {
    let begin = Instant::now();
    let output = server.run(&["-s", "reload", "--timeout", "1"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(begin.elapsed() < Duration::from_secs(20) && begin.elapsed() >= Duration::from_secs(1), "{said}");
    assert!(said.contains(wanted), "{said}");
    assert!(said.contains("[error] reload has not ended within 1 s"), "{said}");
}

#[test]
fn a_reload_that_takes_too_long_says_what_it_waits_for() {
    let server = site().start();
    let (master, worker) = (server.pid(), server.worker());
    process::signal(worker, Signal::STOP);
    timed_reload(&server, &format!("waiting for worker process {worker} to serve the configuration"));
    process::signal(worker, Signal::CONT);
    server.wait_for_log("generation 2 is live");
    process::signal(master, Signal::STOP);
    timed_reload(&server, &format!("waiting for the master process {master} to take the order"));
    process::signal(master, Signal::CONT);
    server.wait_for_log("generation 3 is live");
    server.reload();
    for (args, wanted) in [
        (&["-s", "reload", "--timeout", "soon"][..], "invalid option: \"--timeout soon\""),
        (&["-s", "reload", "--timeout"], "option \"--timeout\" requires a time"),
        (&["--timeout", "3"], "\"--timeout\" belongs to \"-s reload\" and \"-s reopen\""),
    ] {
        let output = server.run(args);
        assert!(output.status.code() == Some(1) && text(&output.stderr).contains(wanted), "{output:?}");
    }
}
