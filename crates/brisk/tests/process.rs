//! Master and worker: pid file, signals, workers that die, reloads as seen from outside.

use brisk_testkit::client::Ending;
use brisk_testkit::load::{Connections, Load, Plan};
use brisk_testkit::server::text;
use brisk_testkit::{Builder, Client, Server, process, wait};
use rustix::process::Signal;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

const SITE: &str = "server { listen 127.0.0.1:{{PORT}}; location /who { return 200 one; } }";

/// Larger than what the sockets between a narrow client and a server hold.
const LARGE: usize = 12 << 20;

fn site() -> Builder {
    Builder::new(BIN).http(SITE).file("html/index.html", "hello").file("html/large", vec![b'x'; LARGE])
}

/// A response that is under way, and stays so as long as nobody reads on.
fn slow_response(server: &Server) -> Client {
    let mut client = Client::connect_narrow(server.port());
    client.send("GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(client.some(1000).unwrap().starts_with(b"HTTP/1.1 200 "));
    client
}

/// Reads the rest; gives the length of the whole.
fn finish(mut client: Client) -> usize {
    let mut count = 0;
    loop {
        match client.some(1 << 20) {
            Ok(bytes) if bytes.is_empty() => break,
            Ok(bytes) => count += bytes.len(),
            Err(_) => break,
        }
    }
    count
}

fn who(server: &Server) -> String {
    server.get("/who").text()
}

#[test]
fn the_pid_file_holds_the_master() {
    let mut server = site().start();
    assert_eq!(server.pid(), server.child_pid());
    assert_ne!(server.worker(), server.pid());
    let socket = server.dir().join("brisk.pid.sock");
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(server.end(Signal::QUIT).success());
    assert!(!server.dir().join("brisk.pid").exists() && !socket.exists());
}

#[test]
fn term_and_int_end_at_once() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = site().start();
        let client = slow_response(&server);
        let worker = server.worker();
        assert!(server.end(signal).success());
        assert!(!process::is_alive(worker));
        assert!(finish(client) < LARGE);
        assert!(!server.dir().join("brisk.pid").exists());
    }
}

#[test]
fn quit_finishes_what_was_begun_and_refuses_the_rest() {
    let mut server = site().start();
    let mut idle = server.client();
    idle.get("/who");
    let client = slow_response(&server);
    server.signal(Signal::QUIT);
    idle.expect_closed();
    wait::holds("connections to be refused", || Client::try_connect(server.port()).is_err());
    assert!(process::is_alive(server.child_pid()));
    assert!(finish(client) >= LARGE - 1000);
    assert!(server.wait().success());
}

/// A server that is ending takes no other turn.
#[test]
fn what_comes_after_quit_changes_nothing() {
    let mut server = site().start();
    let client = slow_response(&server);
    let worker = server.worker();
    server.signal(Signal::QUIT);
    wait::holds("connections to be refused", || Client::try_connect(server.port()).is_err());
    for signal in [Signal::HUP, Signal::WINCH, Signal::USR2, Signal::USR1, Signal::QUIT] {
        server.signal(signal);
    }
    let refused = server.run(&["-s", "reload"]);
    assert!(text(&refused.stderr).contains("the server is ending"), "{refused:?}");
    assert_eq!(server.workers(), [worker]);
    assert!(!server.dir().join("brisk.pid.oldbin").exists());
    assert!(finish(client) >= LARGE - 1000);
    assert!(server.wait().success());
}

#[test]
fn a_connection_without_a_request_yet_is_served_while_draining() {
    let mut server = site().start();
    let mut fresh = server.client();
    // The server has it once a later one was answered by each thread.
    (0..4).for_each(|_| drop(server.get("/who")));
    server.signal(Signal::QUIT);
    wait::holds("connections to be refused", || Client::try_connect(server.port()).is_err());
    let response = fresh.get("/who");
    assert_eq!((response.status, response.header("Connection")), (200, Some("close")));
    assert!(server.wait().success());
}

/// A client that has just been answered may be sending already.
#[test]
fn a_recent_connection_is_kept_for_a_while() {
    let mut server = site().http(&format!("keepalive_min_timeout 4s; {SITE}")).start();
    let (mut first, mut second) = (server.client(), server.client());
    first.get("/who");
    second.get("/who");
    let begin = Instant::now();
    server.signal(Signal::QUIT);
    wait::holds("connections to be refused", || Client::try_connect(server.port()).is_err());
    let response = first.get("/who");
    assert_eq!((response.status, response.header("Connection")), (200, Some("close")));
    second.expect_closed();
    assert!(begin.elapsed() >= Duration::from_millis(3900), "{:?}", begin.elapsed());
    assert!(server.wait().success());
}

#[test]
fn term_ends_a_quit_that_takes_too_long() {
    let mut server = site().start();
    let client = slow_response(&server);
    server.signal(Signal::QUIT);
    wait::holds("connections to be refused", || Client::try_connect(server.port()).is_err());
    assert!(server.end(Signal::TERM).success());
    drop(client);
}

#[test]
fn winch_is_not_for_the_foreground() {
    let server = site().start();
    let worker = server.worker();
    server.signal(Signal::WINCH);
    server.reload();
    assert_eq!(server.worker(), worker);
}

#[test]
fn a_worker_that_is_told_to_end_by_hand_is_replaced() {
    let server = site().start();
    let worker = server.worker();
    process::signal(worker, Signal::TERM);
    wait::holds("another worker", || server.workers().iter().any(|&pid| pid != worker));
    assert_eq!(who(&server), "one");
}

/// Both are told to end at the same moment: an order that a worker does not get, because it is ending, is no fault of its.
#[test]
fn a_worker_that_ends_by_itself_at_the_end_is_not_killed() {
    for _ in 0..5 {
        let mut server = site().start();
        process::signal(server.worker(), Signal::TERM);
        assert!(server.end(Signal::QUIT).success());
    }
}

/// A worker dies, and the configuration on disk is broken by now: the next worker serves the one that was accepted,
/// and no client is refused meanwhile.
#[test]
fn a_killed_worker_is_replaced_from_what_was_accepted() {
    let server = site().allow_alerts("exited on signal 9").start();
    server.reload();
    server.write("brisk.conf", "events { } http { nonsense");
    let plan = Plan {
        port: server.port(),
        threads: 2,
        connections: Connections::Fresh,
        target: "/who".into(),
        accept: |r| r.text() == "one",
    };
    let load = Load::start(&plan);
    for _ in 0..2 {
        load.more(50);
        let worker = server.worker();
        process::signal(worker, Signal::KILL);
        wait::holds("another worker", || server.workers().iter().any(|&pid| pid != worker));
        load.more(50);
    }
    let totals = load.stop();
    // Requests inside the killed worker are lost; nobody is turned away at the door.
    let refused: Vec<_> = totals.errors.iter().filter(|e| e.starts_with("connect:")).collect();
    assert!(refused.is_empty() && totals.error_count <= 8, "{totals:?}");
    let answer = server.run(&["-s", "reload"]);
    assert_eq!(answer.status.code(), Some(1), "it is still broken");
    assert_eq!(who(&server), "one");
}

/// Many deaths in a row do not make the master spin.
#[test]
fn a_worker_that_keeps_dying_is_restarted_with_pauses() {
    let server = site().allow_alerts("exited on signal 9|ended while starting").start();
    let mut last = 0;
    for _ in 0..4 {
        let worker = wait::until("a new worker", || server.workers().into_iter().find(|&pid| pid != last));
        process::signal(worker, Signal::KILL);
        last = worker;
    }
    assert_eq!(who(&server), "one");
}

#[test]
fn a_refused_reload_says_why_and_changes_nothing() {
    let mut server = site().allow_alerts("unknown directive|bind\\(\\)").start();
    let first = server.run(&["-s", "reload"]);
    assert!(text(&first.stderr).contains("(generation 2)"), "{first:?}");
    server.configure_http("bogus on;", SITE);
    let refused = server.run(&["-s", "reload"]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    for wanted in ["[emerg] unknown directive \"bogus\" in ", "^^^^^", "old configuration stays live"] {
        assert!(said.contains(wanted), "{said}");
    }
    server.wait_for_log(r#"\[emerg\] .*unknown directive "bogus" in .*brisk.conf:\d+$"#);
    server.wait_for_log(r"\[error\] .*the old one stays live$");
    assert_eq!(who(&server), "one");
    // By signal the log is the only place to say it.
    let before = server.error_log().lines().count();
    server.signal(Signal::HUP);
    wait::holds("the refusal", || server.error_log().lines().skip(before).any(|l| l.contains("stays live")));
    // An address that another process has: found only while binding.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    server.configure_http("", &format!("{SITE} server {{ listen 127.0.0.1:{port}; }}"));
    let refused = server.run(&["-s", "reload"]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(
        said.contains(&format!("bind() to 127.0.0.1:{port} failed (98: Address already in use)")),
        "{said}"
    );
    // With its place and the remedy, of which the log has the first line only.
    assert!(said.contains("brisk.conf:") && said.contains("= help: "), "{said}");
    server.wait_for_log(r"\[emerg\] .*bind\(\) to .*Address already in use\)$");
    assert_eq!(who(&server), "one");
    server.configure_http("", &SITE.replace("one", "two"));
    let accepted = server.run(&["-s", "reload"]);
    assert!(text(&accepted.stderr).contains("(generation 3)"), "{accepted:?}");
    assert_eq!(who(&server), "two");
}

#[test]
fn hup_reloads() {
    let mut server = site().start();
    server.configure_http("", &SITE.replace("one", "two"));
    server.signal(Signal::HUP);
    server.wait_for_log("configuration generation 2 is live");
    assert_eq!(who(&server), "two");
}

#[test]
fn the_number_of_threads_changes_with_a_reload() {
    let mut server = site().start();
    let threads = |pid| process::threads(pid).iter().filter(|t| t.name.starts_with("brisk-")).count();
    let old = server.worker();
    assert_eq!(threads(old), 2);
    let client = slow_response(&server);
    server.configure_http("worker_processes 3;", &SITE.replace("one", "three"));
    server.reload();
    // What was begun is finished by the old process.
    assert_eq!(who(&server), "three");
    let new = server.workers().into_iter().find(|&pid| pid != old).unwrap();
    assert_eq!(threads(new), 3);
    assert!(finish(client) >= LARGE - 1000);
    process::wait_gone(old);
    assert_eq!(server.worker(), new);
}

/// A configuration that is accepted but cannot be started with leaves everything as it was.
#[test]
fn a_worker_that_cannot_start_refuses_the_reload() {
    let mut server = site().allow_alerts("chdir").start();
    let old = server.worker();
    server.configure_http("working_directory /nowhere;", &SITE.replace("one", "two"));
    let refused = server.run(&["-s", "reload"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    assert!(said.contains("chdir(\"/nowhere\") failed (2: No such file or directory)"), "{said}");
    assert_eq!((who(&server).as_str(), server.worker()), ("one", old));
    server.configure_http("", &SITE.replace("one", "two"));
    server.reload();
    assert_eq!(who(&server), "two");
}

#[test]
fn listeners_come_and_go_with_reloads() {
    let two = "server { listen 127.0.0.1:{{PORT}}; listen 127.0.0.1:{{PORT2}}; listen unix:{{DIR}}/s; location /who { return 200 one; } }";
    let mut server = site().http(two).start();
    let unix = server.dir().join("s");
    let get = |port| Client::try_connect(port).map(|mut c| c.get("/who").text()).ok();
    assert_eq!((get(server.port()).unwrap(), get(server.port_of(2)).unwrap()), ("one".into(), "one".into()));
    assert_eq!(Client::connect_unix(&unix).unwrap().get("/who").text(), "one");
    let mut idle = Client::connect(server.port_of(2));
    idle.get("/who");
    let mut busy = Client::connect_narrow(server.port_of(2));
    busy.send("GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(!busy.some(100).unwrap().is_empty());
    server.configure_http("", SITE);
    server.reload();
    // Neither an idle connection nor one that is being served keeps the door open.
    assert!(get(server.port_of(2)).is_none(), "a removed address still takes connections");
    assert!(!unix.exists() && Client::connect_unix(&unix).is_err());
    idle.expect_closed();
    assert!(finish(busy) > LARGE - 1000);
    server.configure_http("", two);
    server.reload();
    assert_eq!((get(server.port()).unwrap(), get(server.port_of(2)).unwrap()), ("one".into(), "one".into()));
    assert_eq!(Client::connect_unix(&unix).unwrap().get("/who").text(), "one");
}

#[test]
fn a_reload_changes_how_many_connections_may_wait() {
    let http = |more: &str| SITE.replace("{{PORT}}", &format!("{{{{PORT}}}} {more}"));
    let mut server = site().http(&http("backlog=100")).start();
    let waiting_max = |server: &Server| {
        let listens = std::process::Command::new("ss").args(["-Hltn"]).output().unwrap();
        let text = String::from_utf8_lossy(&listens.stdout).into_owned();
        let own = format!("127.0.0.1:{}", server.port());
        let line =
            text.lines().find(|line| line.split_whitespace().nth(3) == Some(&own)).unwrap().to_string();
        line.split_whitespace().nth(2).unwrap().to_string()
    };
    assert_eq!(waiting_max(&server), "100");
    server.configure_http("", &http("backlog=70 deferred"));
    server.reload();
    assert_eq!(waiting_max(&server), "70");
    server.configure_http("", &http("backlog=80"));
    server.reload();
    assert_eq!((waiting_max(&server).as_str(), who(&server).as_str()), ("80", "one"));
}

#[test]
fn the_pid_file_moves_with_a_reload() {
    let mut server = site().start();
    let pid = server.pid();
    server.configure_http("pid {{DIR}}/other.pid;", SITE);
    // The running one is known by its old file.
    server.signal(Signal::HUP);
    wait::holds("the new pid file", || server.read("other.pid") == format!("{pid}\n"));
    wait::holds("the old one to go", || !server.dir().join("brisk.pid").exists());
    server.reload();
    server.configure_http("", SITE);
    process::signal(pid, Signal::HUP);
    wait::holds("the first pid file", || server.read("brisk.pid") == format!("{pid}\n"));
    assert_eq!(who(&server), "one");
}

#[test]
fn an_address_in_use_ends_the_start() {
    let prepared = site().prepare();
    let _taken = std::net::TcpListener::bind(("127.0.0.1", prepared.port())).unwrap();
    let output = prepared.run(&[]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let line = format!("[emerg] bind() to 127.0.0.1:{} failed (98: Address already in use)", prepared.port());
    assert!(said.contains(&line), "{said}");
    // It says where that is asked for, and who has it: the test itself.
    assert!(said.contains(&format!("--> {}:", prepared.dir().join("brisk.conf").display())), "{said}");
    let holder = format!("(process {}) listens there: end it, or choose another port\n", std::process::id());
    assert!(said.ends_with(&holder), "{said}");
}

#[test]
fn shutdown_timeout_ends_a_graceful_stop() {
    let mut server = site().main("worker_shutdown_timeout 200ms;").start();
    let client = slow_response(&server);
    let start = Instant::now();
    assert!(server.end(Signal::QUIT).success());
    assert!(start.elapsed() >= Duration::from_millis(200));
    assert!(finish(client) < LARGE - 1000, "the response was cut off");
    let lines = server.access_lines(1);
    assert!(lines[0].contains("\"GET /large HTTP/1.1\" 200 "), "what was cut off is logged: {lines:?}");
}

/// After a reload too; what is served by the new configuration lives on.
#[test]
fn shutdown_timeout_ends_what_runs_on_an_old_configuration() {
    let main = "worker_shutdown_timeout 200ms;";
    let server = site().main(main).start();
    let old = slow_response(&server);
    let mut idle = server.client();
    idle.get("/who");
    let mut unused = server.client();
    (0..4).for_each(|_| drop(server.get("/who")));
    server.reload();
    let new = slow_response(&server);
    // What was cut off is logged.
    server.wait_for_line("access.log", "GET /large");
    assert!(finish(old) < LARGE - 1000, "it ran on the old configuration");
    // As in nginx, what was accepted before and has brought nothing is of the old configuration too.
    unused.expect_closed();
    assert_eq!(idle.get("/who").text(), "one", "an idle connection has no configuration");
    assert!(finish(new) >= LARGE - 1000);
}

/// Without a limit nothing is cut off.
#[test]
fn a_reload_alone_ends_nothing() {
    let server = site().start();
    let old = slow_response(&server);
    let mut unused = server.client();
    (0..4).for_each(|_| drop(server.get("/who")));
    server.reload();
    server.reload();
    assert_eq!(unused.ending(Duration::from_millis(300)), Ending::Open);
    assert_eq!(unused.get("/who").text(), "one");
    assert!(finish(old) >= LARGE - 1000);
}

#[test]
fn everything_in_one_process() {
    let mut server = site().main("master_process off;").start();
    assert_eq!(server.workers(), []);
    assert_eq!(who(&server), "one");
    server.configure_http("master_process off;", &SITE.replace("one", "two"));
    server.signal(Signal::HUP);
    server.wait_for_log("configuration generation 2 is live");
    assert_eq!(who(&server), "two");
    std::fs::rename(server.dir().join("access.log"), server.dir().join("old.log")).unwrap();
    server.signal(Signal::USR1);
    wait::holds("a new log", || server.dir().join("access.log").exists());
    assert_eq!(who(&server), "two");
    assert_eq!(server.access_lines(1).len(), 1);
    let client = slow_response(&server);
    server.signal(Signal::QUIT);
    wait::holds("connections to be refused", || Client::try_connect(server.port()).is_err());
    assert!(finish(client) >= LARGE - 1000);
    assert!(server.wait().success());
    assert!(!server.dir().join("brisk.pid").exists());
}

#[test]
fn in_the_background() {
    let prepared = site().main("daemon on;").prepare();
    // The daemon keeps the terminal's error stream, as nginx does: reading that to its end would take for ever.
    let terminal = std::fs::File::create(prepared.dir().join("terminal.log")).unwrap();
    let status = prepared.command(&["-e", "error.log"]).stderr(terminal).status().unwrap();
    assert!(status.success());
    let pid_file = prepared.dir().join("brisk.pid");
    let pid = || std::fs::read_to_string(&pid_file).ok()?.trim().parse::<u32>().ok();
    let pid = wait::until("a pid file", pid);
    let mut client = Client::connect(prepared.port());
    assert_eq!(client.get("/who").text(), "one");
    // Sent to the background: its own session, no terminal; its worker is its child.
    assert_eq!(process::link(pid, "fd/0").unwrap().to_str(), Some("/dev/null"));
    assert_eq!(process::children(pid).len(), 1);
    // As a daemon it obeys WINCH: no more workers until HUP.
    process::signal(pid, Signal::WINCH);
    wait::holds("the worker to go", || process::children(pid).is_empty());
    process::signal(pid, Signal::HUP);
    wait::holds("another worker", || process::children(pid).len() == 1);
    assert_eq!(Client::connect(prepared.port()).get("/who").text(), "one");
    let stopped = prepared.run(&["-s", "quit"]);
    assert!(stopped.status.success(), "{stopped:?}");
    wait::holds("the end", || !process::is_alive(pid));
    assert!(!pid_file.exists());
}
