//! Orders of the master to its worker: one that is not answered in time is never taken for done or refused, and what the log and
//! `-s reload` say is what is served.

use brisk_testkit::load::{Connections, Load, Plan};
use brisk_testkit::server::text;
use brisk_testkit::{Builder, Client, Server, process, wait};
use rustix::process::Signal;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Command, Output};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

const SITE: &str = "server { listen 127.0.0.1:{{PORT}}; location /who { return 200 one; } }";

const LARGE: usize = 12 << 20;

fn site(faults: &str) -> Builder {
    Builder::new(BIN).http(SITE).env("BRISK_FAULTS", faults).file("html/large", vec![b'x'; LARGE])
}

fn who(server: &Server) -> String {
    server.get("/who").text()
}

fn configure(server: &mut Server, main: &str, word: &str) {
    server.configure_http(main, &SITE.replace("one", word));
}

fn reload(server: &Server) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = server.run(&["-s", "reload"]);
    (status.code(), text(&stderr))
}

/// What `order` over the control socket is answered.
fn ask(server: &Server, order: &str) -> String {
    let mut stream = UnixStream::connect(server.dir().join("brisk.pid.sock")).unwrap();
    stream.set_read_timeout(Some(wait::DEADLINE)).unwrap();
    stream.write_all(format!("{order}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Found live: the log said that the old configuration stays, then the new one was served, and the late answer was taken for that
/// of the next order.
#[test]
fn a_worker_that_does_not_answer_is_replaced_with_what_was_asked_for() {
    let mut server = site("limit:300=order;limit:200=chance").allow_alerts("has not answered for").start();
    let old = server.worker();
    process::signal(old, Signal::STOP);
    configure(&mut server, "", "two");
    let (code, said) = reload(&server);
    assert!(code == Some(0) && said.contains("(generation 2)"), "{said}");
    assert_eq!(who(&server), "two");
    server.wait_for_log(&format!(
        r"\[alert\] .*worker process {old} has not answered for .*; another one takes its place$"
    ));
    server.wait_for_log(&format!(r"\[alert\] .*worker process {old} has not answered for .* and is killed$"));
    process::wait_gone(old);
    // The next order is answered for itself.
    for (word, generation) in [("three", 3), ("four", 4)] {
        configure(&mut server, "", word);
        let (code, said) = reload(&server);
        assert!(code == Some(0) && said.contains(&format!("(generation {generation})")), "{said}");
        assert_eq!(who(&server), word);
    }
    assert!(!server.error_log().contains("stays live"), "{}", server.error_log());
}

/// A worker that wakes up refuses the order that has come too late, and finishes what it has begun.
#[test]
fn a_worker_that_wakes_up_late_ends_in_order() {
    let mut server =
        site("limit:300=order;limit:60000=chance").allow_alerts("another one takes its place").start();
    let old = server.worker();
    let mut slow = Client::connect_narrow(server.port());
    slow.send("GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(slow.some(1000).unwrap().starts_with(b"HTTP/1.1 200 "));
    process::signal(old, Signal::STOP);
    configure(&mut server, "", "two");
    server.signal(Signal::HUP);
    wait::holds("another worker", || server.workers().len() == 2);
    wait::holds("the new configuration", || who(&server) == "two");
    process::signal(old, Signal::CONT);
    server.wait_for_log(&format!(r"worker process {old} has answered order \d+ too late"));
    server.wait_for_log("generation 2 is live");
    let mut length = 0;
    while let Ok(bytes) = slow.some(1 << 20) {
        if bytes.is_empty() {
            break;
        }
        length += bytes.len();
    }
    assert!(length >= LARGE - 1000, "{length}");
    server.wait_for_log(&format!("worker process {old} exited with code 0"));
}

/// Signals, the control socket and the death of children are noticed while a worker does not answer.
#[test]
fn the_master_is_not_deaf_while_it_waits() {
    let mut server =
        site("limit:60000=order;limit:300=stop").allow_alerts("does not stop and is killed").start();
    let old = server.worker();
    process::signal(old, Signal::STOP);
    configure(&mut server, "", "two");
    server.signal(Signal::HUP);
    server.wait_for_log("reconfiguring");
    assert_eq!(ask(&server, "generation"), "ok 1\n");
    server.signal(Signal::USR1);
    server.wait_for_log("reopening logs");
    let waiting = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| reload(&server));
        server.wait_for_log("reload is ordered by process");
        assert_eq!(ask(&server, "nonsense"), "error unknown order\n");
        assert!(server.run(&["-s", "stop"]).status.success());
        waiting.join().unwrap()
    });
    assert!(waiting.0 == Some(1) && waiting.1.contains("the server is ending"), "{}", waiting.1);
    assert!(server.wait().success());
    assert!(!process::is_alive(old));
}

/// SIGKILL or SIGSTOP at each step of the worker's part of a reload: what is said is what is served.
#[test]
fn a_worker_that_dies_or_stops_at_any_step_of_a_reload() {
    // A process that is well must keep to them on a busy machine, too.
    let limits = "limit:1000=order;limit:500=chance;limit:6000=start";
    let alerts = "has not answered|exited on signal|ended while|did not start";
    // The fault, whether another process is needed, whether the new configuration becomes live.
    let table = [
        ("kill=worker-configure", false, false),
        ("kill=worker-configured", false, false),
        ("stop=worker-configure", false, true),
        ("stop=worker-configured", false, true),
        ("kill=worker-ready-2", true, false),
        ("stop=worker-ready-2", true, false),
        ("kill=worker-quit", true, true),
        ("stop=worker-quit", true, true),
    ];
    for (fault, is_replaced, is_live) in table {
        let mut server = site(&format!("{fault};{limits}")).allow_alerts(alerts).start();
        let main = if is_replaced { "worker_processes 3;" } else { "" };
        configure(&mut server, main, "two");
        let (code, said) = reload(&server);
        let log = server.error_log();
        let wanted = if is_live { "two" } else { "one" };
        assert_eq!(code, Some(i32::from(!is_live)), "{fault}: {said}");
        assert_eq!(log.contains("generation 2 is live"), is_live, "{fault}: {log}");
        assert_eq!(log.contains("the old one stays live"), !is_live, "{fault}: {log}");
        // A worker that died may be on its way back: connections wait for it.
        assert_eq!(who(&server), wanted, "{fault}");
        wait::holds("one worker", || server.workers().len() == 1);
        assert_eq!(ask(&server, "generation"), if is_live { "ok 2\n" } else { "ok 1\n" }, "{fault}");
        assert_eq!(who(&server), wanted, "{fault}");
    }
}

/// Orders of other commands have an end, too.
#[test]
fn a_stopped_master_is_named_by_commands_that_wait_for_it() {
    let server = site("").start();
    let master = server.pid();
    process::signal(master, Signal::STOP);
    wait::holds("the master to stop", || process::is_stopped(master));
    let Output { status, stderr, .. } = Command::new(BIN)
        .args(["php", "reload", "www", "-c"])
        .arg(server.dir().join("brisk.conf"))
        .env("BRISK_FAULTS", "limit:300=answer")
        .output()
        .unwrap();
    let said = text(&stderr);
    process::signal(master, Signal::CONT);
    let wanted = format!("no answer within 0.3 s, waited for the master process {master} to take the order");
    assert!(!status.success() && said.contains(&wanted), "{said}");
}

/// SIGSTOP at each step of the master's part of a reload: requests go on, who asks is told that nobody answers, and the reload ends
/// as it would have when the master goes on.
#[test]
fn a_master_that_stops_at_any_step_of_a_reload() {
    let in_place = ["reload", "reload-claimed", "reload-handed", "reload-live", "reload-done"];
    let replaced = ["reload-claimed", "reload-started", "reload-live", "retire"];
    let steps =
        in_place.map(|step| (step, "")).into_iter().chain(replaced.map(|step| (step, "worker_processes 3;")));
    for (step, main) in steps {
        let mut server = site(&format!("stop={step}")).start();
        let master = server.pid();
        configure(&mut server, main, "two");
        let load = Load::start(&Plan {
            port: server.port(),
            threads: 2,
            connections: Connections::Fresh,
            target: "/who".into(),
            accept: |r| matches!(&*r.text(), "one" | "two"),
        });
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| reload(&server));
            wait::holds("the master to stop", || process::is_stopped(master));
            load.more(20);
            let Output { status, stderr, .. } = server.run(&["-s", "reopen", "--timeout", "1"]);
            let said = text(&stderr);
            assert!(status.code() == Some(1) && said.contains("has not ended within 1 s"), "{step}: {said}");
            process::signal(master, Signal::CONT);
            let (code, said) = waiting.join().unwrap();
            assert!(code == Some(0) && said.contains("(generation 2)"), "{step} {main}: {said}");
        });
        load.more(20);
        load.stop().assert_clean();
        // The second order goes on without its caller.
        wait::holds("one worker", || server.workers().len() == 1);
        assert_eq!(who(&server), "two", "{step} {main}");
    }
}

/// The same for orders that are no reload.
#[test]
fn logs_that_are_not_opened_again_in_time_fail_the_order() {
    let server =
        site("stop=worker-reopen;limit:300=order;limit:200=chance").allow_alerts("has not answered").start();
    let old = server.worker();
    let refused = server.run(&["-s", "reopen"]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("worker process {old} has not answered for")), "{said}");
    process::wait_gone(old);
    wait::holds("another worker", || !server.workers().is_empty());
    assert_eq!(who(&server), "one");
}

/// A worker that is stopped for a while loses no connection that comes meanwhile.
#[test]
fn connections_wait_while_a_stopped_worker_is_replaced() {
    let mut server = site("limit:300=order;limit:200=chance").allow_alerts("has not answered").start();
    let old = server.worker();
    process::signal(old, Signal::STOP);
    // What it has accepted before is lost with it.
    wait::holds("all its threads to stop", || {
        let mut tasks = std::fs::read_dir(format!("/proc/{old}/task")).unwrap().flatten();
        tasks.all(|task| std::fs::read_to_string(task.path().join("stat")).unwrap().contains(") T "))
    });
    let load = Load::start(&Plan {
        port: server.port(),
        threads: 2,
        connections: Connections::Fresh,
        target: "/who".into(),
        accept: |r| r.text() == "two",
    });
    configure(&mut server, "", "two");
    assert_eq!(reload(&server).0, Some(0));
    load.more(100);
    load.stop().assert_clean();
}

/// An error log on a full disk loses lines, and nothing else.
#[test]
fn a_full_disk_under_the_error_log_stops_nothing() {
    let mut server = site("").main("error_log /dev/full info;").start();
    configure(&mut server, "error_log /dev/full info;", "two");
    assert_eq!(reload(&server).0, Some(0));
    assert_eq!(who(&server), "two");
    let worker = server.worker();
    process::signal(worker, Signal::KILL);
    wait::holds("another worker", || server.workers().iter().any(|&pid| pid != worker));
    assert_eq!(who(&server), "two");
}

/// A pid file for which there is no room ends a start, and changes nothing for a server that runs.
#[test]
fn a_pid_file_without_room() {
    let prepared = site("full=/").prepare();
    let output = prepared.run(&[]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("brisk.pid\" failed (28: No space left on device)"), "{said}");
    assert_eq!(process::with_files_in(prepared.dir()), []);
    assert!(!prepared.dir().join("brisk.pid").exists() && !prepared.dir().join("brisk.pid.sock").exists());

    let builder = site("");
    let folder = builder.dir().join("other").display().to_string();
    let mut server = builder.env("BRISK_FAULTS", &format!("full={folder}")).file("other/x", "").start();
    configure(&mut server, "pid {{DIR}}/other/brisk.pid;", "two");
    server.signal(Signal::HUP);
    server.wait_for_log("No space left on device.*; the pid file stays");
    server.wait_for_log("generation 2 is live");
    assert_eq!((who(&server), server.pid()), ("two".to_string(), server.child_pid()));
    assert_eq!(ask(&server, "generation"), "ok 2\n");
}

/// What an answer over the control socket waits for, until it waits for `what`.
fn ask_until(server: &Server, order: &str, what: &str) -> BufReader<UnixStream> {
    let mut stream = UnixStream::connect(server.dir().join("brisk.pid.sock")).unwrap();
    stream.set_read_timeout(Some(wait::DEADLINE)).unwrap();
    stream.write_all(format!("{order}\n").as_bytes()).unwrap();
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while !line.contains(what) {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "no answer waits for {what}");
    }
    stream
}

fn rest(mut stream: BufReader<UnixStream>) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().last().unwrap_or_default().to_string()
}

/// Found by reading: while the master read a configuration no worker was replaced and no order was heard.
#[test]
fn a_file_that_cannot_be_read_holds_up_nothing_but_the_reload() {
    let mut server = site("").allow_alerts("exited on signal 9").start();
    let slow = server.dir().join("slow.conf");
    assert!(Command::new("mkfifo").arg(&slow).status().unwrap().success());
    let old = server.worker();
    server.configure_http("", &format!("include {{{{DIR}}}}/slow.conf; {}", SITE.replace("one", "two")));
    let reload = || ask_until(&server, "reload", "the configuration to be read");
    let waiting = reload();
    assert_eq!(ask(&server, "generation"), "ok 1\n");
    process::signal(old, Signal::KILL);
    server.wait_for_log(&format!("worker process {old} exited on signal 9"));
    assert_eq!(who(&server), "one");
    assert!(ask(&server, "reopen").ends_with("ok reopened\n"));
    // Ends when somebody has it open for reading.
    std::fs::write(&slow, "").unwrap();
    assert_eq!(rest(waiting), "ok generation 2");
    assert_eq!(who(&server), "two");

    let worker = server.worker();
    let waiting = reload();
    let reader = wait::until("the reader", || server.workers().into_iter().find(|&pid| pid != worker));
    assert_eq!(ask(&server, "stop"), "ok the server ends\n");
    assert_eq!(rest(waiting), "error the server is ending");
    assert!(server.wait().success());
    process::wait_gone(reader);
}

/// Whatever happens to the process that reads: the reload has failed, and says why.
#[test]
fn a_reader_that_dies_or_stops_refuses_the_configuration() {
    let table = [
        ("kill=reader", r"process \d+, which read the configuration, exited on signal 9$"),
        ("stop=reader;limit:300=read", r"the configuration could not be read within 0\.3 s$"),
    ];
    for (fault, why) in table {
        let mut server = site(fault).allow_alerts(why).start();
        configure(&mut server, "", "two");
        let (code, said) = reload(&server);
        assert!(code == Some(1) && said.contains("the old configuration stays live"), "{fault}: {said}");
        server.wait_for_log(&format!(r"\[emerg\] .*{why}"));
        assert_eq!((who(&server), ask(&server, "generation")), ("one".into(), "ok 1\n".into()), "{fault}");
        wait::holds("the reader to go", || server.workers().len() == 1);
    }
}

/// Found by reading: logs were named by their places in the list of the configuration before.
#[test]
fn logs_are_reopened_by_name_while_a_configuration_is_on_its_way() {
    let location = |name: &str| {
        format!("location /{name} {{ access_log {{{{DIR}}}}/{name}.log short; return 200 {name}; }}")
    };
    let http = |first: &str, second: &str| {
        let (first, second) = (location(first), location(second));
        format!("log_format short $uri; server {{ listen 127.0.0.1:{{{{PORT}}}}; {first} {second} }}")
    };
    let mut server = Builder::new(BIN).http(&http("a", "b")).start();
    let worker = server.worker();
    process::signal(worker, Signal::STOP);
    server.configure_http("", &http("b", "a"));
    let waiting = ask_until(&server, "reload", "to serve the configuration");
    for name in ["a", "b"] {
        let path = |end: &str| server.dir().join(format!("{name}.{end}"));
        std::fs::rename(path("log"), path("old")).unwrap();
    }
    server.signal(Signal::USR1);
    server.wait_for_log("reopening logs");
    process::signal(worker, Signal::CONT);
    assert_eq!(rest(waiting), "ok generation 2");
    // The worker comes to the order after the reload; until then lines go to the renamed files.
    for name in ["a", "b"] {
        let (file, line) = (format!("{name}.log"), format!("/{name}\n"));
        wait::holds("its own lines alone in its new file", || {
            server.get(&format!("/{name}"));
            let lines = server.read(&file);
            !lines.is_empty() && lines.replace(&line, "").is_empty()
        });
    }
}

/// Found by looking: the values of the master that a worker was forked from kept their logs open in it.
#[test]
fn a_worker_closes_logs_that_its_configuration_does_not_name() {
    let http = |name: &str| {
        SITE.replace("location", &format!("access_log {{{{DIR}}}}/{name}.log; location")).replace("one", name)
    };
    let mut server = Builder::new(BIN).http(&http("first")).start();
    let has_open = |server: &Server, name: &str| {
        let files = std::fs::read_dir(format!("/proc/{}/fd", server.worker())).unwrap().flatten();
        let mut paths = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        paths.any(|path| path.ends_with(format!("{name}.log")))
    };
    assert!(has_open(&server, "first"));
    assert_eq!(who(&server), "first", "its thread knows the log, too");
    // By the same worker, and by another one.
    for (main, before, name) in [("", "first", "second"), ("worker_processes 3;", "second", "third")] {
        server.configure_http(main, &http(name));
        server.reload();
        assert_eq!(who(&server), name);
        assert!(has_open(&server, name));
        wait::holds("the log before to be closed", || !has_open(&server, before));
    }
}

/// Lines that were kept back for a log are in it when its configuration is gone.
#[test]
fn lines_of_a_log_that_is_not_named_any_more_are_written() {
    let http = SITE.replace("location", "access_log {{DIR}}/kept.log combined buffer=1m; location");
    let mut server = Builder::new(BIN).http(&http).start();
    who(&server);
    assert_eq!(server.read("kept.log"), "");
    server.configure_http("", SITE);
    server.reload();
    wait::holds("the line", || server.read("kept.log").lines().count() == 1);
}
