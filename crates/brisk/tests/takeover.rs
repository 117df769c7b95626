//! A master that is killed loses no request: its worker serves on until another master takes it over.

use brisk_testkit::load::{Connections, Load, Plan};
use brisk_testkit::server::text;
use brisk_testkit::{Builder, Client, Server, process, wait};
use rustix::process::Signal;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

const SITE: &str =
    "server { listen 127.0.0.1:{{PORT}}; listen unix:{{DIR}}/s; location /who { return 200 one; } }";

fn site() -> Builder {
    Builder::new(BIN).http(SITE).allow_alerts("goes on serving without it|exited on signal 9")
}

fn who(server: &Server) -> String {
    server.get("/who").text()
}

/// Connections that are kept and connections for one request.
struct Loads([Load; 2]);

impl Loads {
    fn start(server: &Server) -> Loads {
        let plan = |connections| Plan {
            port: server.port(),
            threads: 2,
            connections,
            target: "/who".into(),
            accept: |r| r.status == 200,
        };
        Loads([Connections::Reused, Connections::Fresh].map(|connections| Load::start(&plan(connections))))
    }

    fn more(&self, count: u64) {
        self.0.iter().for_each(|load| load.more(count));
    }

    /// Not one request was lost.
    fn end(self) {
        for load in self.0 {
            let totals = load.stop();
            totals.assert_clean();
            println!("{} requests, {} lost", totals.requests, totals.error_count);
        }
    }
}

/// Starts it once more, and waits until nothing but the new master's worker serves.
fn start_again(server: &mut Server) {
    server.start_again();
    server.wait_for_log(&format!("process {}, serves with generation 1", server.pid()));
}

/// Waits until the server is its master and one worker, and nothing else.
fn settled(server: &Server) {
    wait::holds("one master and one worker", || {
        let mut all = process::with_files_in(server.dir());
        let mut wanted = process::tree(server.pid());
        all.sort_unstable();
        wanted.sort_unstable();
        all == wanted && wanted.len() == 2
    });
}

#[test]
fn a_killed_master_loses_no_request() {
    let mut server = site().start();
    let loads = Loads::start(&server);
    let worker = server.worker();
    for round in 0..3 {
        loads.more(100);
        let old = server.worker();
        server.kill_master();
        loads.more(100);
        assert!(process::is_alive(old));
        start_again(&mut server);
        process::wait_gone(old);
        loads.more(100);
        assert!(round > 0 || old == worker);
    }
    loads.end();
    settled(&server);
    server.wait_for_log(&format!(r"\[alert\] .*worker process {worker} goes on serving without it"));
    server.wait_for_log(&format!(
        r"\[notice\] .*taking over worker process {worker}, which serves generation 1"
    ));
    assert!(Client::connect_unix(&server.dir().join("s")).is_ok());
    server.reload();
    assert_eq!(who(&server), "one");
}

/// The master dies at each of its steps of a reload: requests go on, and the next master serves what is on the disk.
#[test]
fn a_master_that_is_killed_at_any_step_of_a_reload() {
    let in_place = ["reload", "reload-claimed", "reload-handed", "reload-live", "reload-done"];
    let replaced = ["reload-claimed", "reload-started", "reload-live", "retire", "reload-done"];
    let steps =
        in_place.map(|step| (step, "")).into_iter().chain(replaced.map(|step| (step, "worker_processes 3;")));
    for (step, main) in steps {
        let mut server = site().env("BRISK_FAULTS", &format!("kill={step}")).start();
        let loads = Loads::start(&server);
        loads.more(20);
        server.configure_http(main, &SITE.replace("one", "two"));
        server.signal(Signal::HUP);
        server.wait_for_kill();
        loads.more(50);
        start_again(&mut server);
        loads.more(50);
        assert_eq!(who(&server), "two", "{step} {main}");
        settled(&server);
        loads.end();
    }
}

/// The old binary's master dies at each step of an upgrade.
#[test]
fn a_master_that_is_killed_at_any_step_of_an_upgrade() {
    for step in ["upgrade", "upgrade-renamed", "upgrade-started"] {
        let mut server = site().env("BRISK_FAULTS", &format!("kill={step}")).start();
        let loads = Loads::start(&server);
        let (old, worker) = (server.pid(), server.worker());
        loads.more(20);
        server.signal(Signal::USR2);
        server.wait_for_kill();
        loads.more(50);
        if step == "upgrade-started" {
            // The new binary's master needs nobody's help.
            wait::holds("the new master", || {
                server.read("brisk.pid").trim().parse().is_ok_and(|pid: u32| pid != old)
            });
        } else {
            start_again(&mut server);
        }
        process::wait_gone(worker);
        loads.more(50);
        loads.end();
        settled(&server);
        wait::holds("the old files to go", || {
            !server.dir().join("brisk.pid.oldbin").exists()
                && !server.dir().join("brisk.pid.oldbin.sock").exists()
        });
        server.reload();
    }
}

/// The new binary's master dies at each step of an upgrade: the old one goes on, whatever the other had started.
#[test]
fn a_new_binary_that_is_killed_at_any_step() {
    for step in ["successor", "successor-serves"] {
        let server = site().env("BRISK_FAULTS", &format!("kill={step}")).start();
        let loads = Loads::start(&server);
        let (pid, worker) = (server.pid(), server.worker());
        loads.more(20);
        server.signal(Signal::USR2);
        server.wait_for_log("the new binary's process has ended; this one goes on");
        loads.more(50);
        wait::holds("the pid file", || server.read("brisk.pid") == format!("{pid}\n"));
        settled(&server);
        assert_eq!(server.worker(), worker);
        loads.more(50);
        loads.end();
        server.reload();
    }
}

/// Sends USR2 and waits until the new master serves; gives old and new.
fn upgrade(server: &Server) -> (u32, u32) {
    let old = server.pid();
    server.signal(Signal::USR2);
    let new = wait::until("the new pid file", || {
        server.read("brisk.pid").trim().parse().ok().filter(|&pid: &u32| pid != old)
    });
    (old, new)
}

/// Both masters serve, and either of them is killed.
#[test]
fn either_master_is_killed_when_both_serve() {
    let mut server = site().start();
    let loads = Loads::start(&server);
    let worker = server.worker();
    let (old, new) = upgrade(&server);
    loads.more(50);
    process::signal(old, Signal::KILL);
    server.wait_for_kill();
    process::wait_gone(worker);
    loads.more(50);
    settled(&server);
    assert_eq!(server.pid(), new);
    // The next one is killed itself; the one before has no workers any more.
    let (old, new) = upgrade(&server);
    process::signal(old, Signal::WINCH);
    wait::holds("the old worker to go", || process::children(old) == [new]);
    loads.more(50);
    process::signal(new, Signal::KILL);
    wait::holds("the pid file", || server.read("brisk.pid") == format!("{old}\n"));
    loads.more(50);
    settled(&server);
    loads.more(50);
    loads.end();
    server.reload();
}

#[test]
fn a_worker_without_a_master_takes_orders_to_end() {
    for how in ["stop", "quit"] {
        let mut server = site().start();
        let worker = server.worker();
        let mut idle = server.client();
        assert_eq!(idle.get("/who").text(), "one");
        server.kill_master();
        server.wait_for_log("goes on serving without it");
        let refused = server.run(&["-s", "reload"]);
        let said = text(&refused.stderr);
        assert!(refused.status.code() == Some(1) && said.contains("start the server again"), "{said}");
        assert_eq!(idle.get("/who").text(), "one");
        assert!(server.run(&["-s", how]).status.success());
        process::wait_gone(worker);
        assert!(!server.dir().join("brisk.pid").exists() && !server.dir().join("brisk.pid.sock").exists());
        assert!(Client::try_connect(server.port()).is_err());
    }
}

/// A new master that cannot start leaves the worker where it was.
#[test]
fn a_new_master_that_cannot_start_changes_nothing() {
    let mut server = site().allow_alerts("goes on serving without it|chdir|unknown directive|ulimit").start();
    let worker = server.worker();
    let loads = Loads::start(&server);
    server.kill_master();
    for (main, wanted) in [("nonsense;", "unknown directive"), ("working_directory /nonexistent;", "chdir")] {
        server.configure_http(main, SITE);
        let output = server.run(&["-e", "error.log"]);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(wanted), "{said}");
        loads.more(50);
        assert!(process::is_alive(worker));
        assert!(Client::connect_unix(&server.dir().join("s")).is_ok());
    }
    server.configure_http("", &SITE.replace("one", "two"));
    start_again(&mut server);
    assert_eq!(who(&server), "two");
    process::wait_gone(worker);
    loads.more(50);
    loads.end();
    settled(&server);
}

/// The second one used to take the control socket away from the first.
#[test]
fn a_second_server_with_the_same_pid_file_is_refused() {
    let server = Builder::new(BIN).http(SITE).start();
    let pid = server.pid();
    let conf = "daemon off; pid {{DIR}}/brisk.pid; events { } http { access_log off; server { listen unix:{{DIR}}/t; } }";
    let conf = conf.replace("{{DIR}}", &server.dir().display().to_string());
    server.write("other.conf", conf);
    let other = server.dir().join("other.conf").display().to_string();
    let output = server.run(&["-c", &other, "-e", "other.log"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("a server runs with the pid file")
            && said.contains(&format!("process {pid} is its master")),
        "{said}"
    );
    assert!(!server.dir().join("t").exists());
    assert_eq!(server.pid(), pid);
    server.reload();
}

/// Only root and the master's own user give orders, whatever the mode of the file.
#[test]
fn other_users_give_no_orders() {
    assert!(process::is_root(), "users are changed: run this as root");
    let mut server = site().start();
    let path = server.dir().join("brisk.pid.sock");
    fs::set_permissions(server.dir(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let ask_as_nobody = |order: &'static str| {
        let path = path.clone();
        let ask = move || {
            let nobody = rustix::process::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            let mut stream = UnixStream::connect(path).unwrap();
            stream.set_read_timeout(Some(wait::DEADLINE)).unwrap();
            let _ = stream.write_all(format!("{order}\n").as_bytes());
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            answer
        };
        std::thread::spawn(ask).join().unwrap()
    };
    assert_eq!(ask_as_nobody("stop"), b"");
    server.kill_master();
    server.wait_for_log("goes on serving without it");
    assert_eq!(ask_as_nobody("adopt"), b"");
    assert_eq!(ask_as_nobody("stop"), b"");
    assert_eq!(who(&server), "one");
    start_again(&mut server);
}

/// In the background, too, and a socket that is listened on no more is closed with the old worker.
#[test]
fn a_daemon_takes_over() {
    let prepared = site().main("daemon on;").prepare();
    let start = || {
        let terminal = fs::File::create(prepared.dir().join("terminal.log")).unwrap();
        prepared.command(&["-e", "error.log"]).stderr(terminal).status().unwrap().success()
    };
    let pid = || fs::read_to_string(prepared.dir().join("brisk.pid")).unwrap().trim().parse::<u32>().unwrap();
    assert!(start());
    let old = pid();
    let worker = process::children(old)[0];
    process::signal(old, Signal::KILL);
    process::wait_gone(old);
    assert!(process::is_alive(worker));
    assert!(start());
    process::wait_gone(worker);
    assert_ne!(pid(), old);
    assert_eq!(Client::connect(prepared.port()).get("/who").text(), "one");
    assert!(prepared.run(&["-s", "quit"]).status.success());
    wait::holds("the end", || process::with_files_in(prepared.dir()).is_empty());
}
