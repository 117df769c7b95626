//! Going into the background: what the caller is told, what is left behind, what a server that was killed has left.

use brisk_testkit::server::{Prepared, text};
use brisk_testkit::{Builder, Client, process, wait};
use rustix::process::Signal;
use std::fs;
use std::io::Read as _;
use std::ops::Deref;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixListener;
use std::process::{Command, Output, Stdio};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

const SITE: &str =
    "server { listen 127.0.0.1:{{PORT}}; listen unix:{{DIR}}/s; location /who { return 200 one; } }";

/// A server's folder; what runs in it ends with the test.
struct Site(Prepared);

impl Deref for Site {
    type Target = Prepared;

    fn deref(&self) -> &Prepared {
        &self.0
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        processes(&self.0).into_iter().for_each(|pid| process::signal(pid, Signal::KILL));
    }
}

fn site(main: &str) -> Site {
    Site(Builder::new(BIN).main(&format!("daemon on; {main}")).http(SITE).prepare())
}

/// Runs a command to its end, and until all have closed its output: `brisk … 2>&1 | cat`.
fn piped(mut command: Command) -> Output {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut error = child.stderr.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        error.read_to_end(&mut bytes).map(|_| bytes)
    });
    wait::holds("the end of the output", || reader.is_finished());
    let status = child.wait().unwrap();
    Output { status, stdout: Vec::new(), stderr: reader.join().unwrap().unwrap() }
}

fn pid_of(prepared: &Prepared) -> Option<u32> {
    fs::read_to_string(prepared.dir().join("brisk.pid")).ok()?.trim().parse().ok()
}

/// Processes that have files of the server's folder open.
fn processes(prepared: &Prepared) -> Vec<u32> {
    process::with_files_in(prepared.dir())
}

fn end(prepared: &Prepared) {
    let pid = pid_of(prepared).expect("a pid file");
    let all = process::tree(pid);
    assert!(prepared.run(&["-s", "stop"]).status.success());
    all.into_iter().for_each(process::wait_gone);
}

/// When the command returns the server serves, its pid file is there, and nothing holds the caller's output.
#[test]
fn a_daemon_lets_go_of_its_caller() {
    let prepared = site("");
    let output = piped(prepared.command(&[]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    let pid = pid_of(&prepared).expect("a pid file");
    assert_eq!(Client::connect(prepared.port()).get("/who").text(), "one");
    // What a library writes to the error stream belongs into the log, also after that was rotated.
    let worker = process::children(pid)[0];
    let log = prepared.dir().join("error.log");
    let holds_log = |pid| process::link(pid, "fd/2").as_ref() == Some(&log);
    assert!(holds_log(pid) && holds_log(worker));
    fs::rename(&log, prepared.dir().join("old.log")).unwrap();
    assert!(prepared.run(&["-s", "reopen"]).status.success());
    assert!(holds_log(pid) && holds_log(worker));
    end(&prepared);
}

/// The directive that says where messages go is missing: the terminal is no place for a daemon's.
#[test]
fn without_an_error_log_there_is_the_usual_one() {
    let conf = "daemon on; pid {{DIR}}/brisk.pid; events { } http { access_log off;
        server { listen 127.0.0.1:{{PORT}}; root {{DIR}}/html; } }";
    let prepared = Site(Builder::new(BIN).conf(conf).file("logs/x", "").prepare());
    let output = piped(prepared.command(&[]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(Client::connect(prepared.port()).get("/none").status, 404);
    let log = prepared.dir().join("logs/error.log");
    wait::holds("the message", || {
        fs::read_to_string(&log).unwrap().contains("/none\" failed (2: No such file")
    });
    end(&prepared);
}

/// The usual log cannot be written: that is said, and the server serves.
#[test]
fn the_usual_error_log_may_be_missing() {
    let conf = "daemon on; pid {{DIR}}/brisk.pid; events { } http { access_log {{DIR}}/access.log;
        server { listen 127.0.0.1:{{PORT}}; root {{DIR}}/html; } }";
    let prepared = Site(Builder::new(BIN).conf(conf).prepare());
    let output = piped(prepared.command(&[]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = "brisk: [alert] could not open error log file: open() \"";
    assert!(text(&output.stderr).starts_with(said), "{}", text(&output.stderr));
    assert_eq!(Client::connect(prepared.port()).get("/none").status, 404);
    end(&prepared);
}

/// Asked for by name the terminal is kept, as in nginx.
#[test]
fn a_log_on_the_terminal_stays_there() {
    let prepared = site("error_log stderr notice;");
    let terminal = fs::File::create(prepared.dir().join("terminal.log")).unwrap();
    assert!(prepared.command(&[]).stderr(terminal).status().unwrap().success());
    let pid = pid_of(&prepared).unwrap();
    assert_eq!(process::link(pid, "fd/2"), Some(prepared.dir().join("terminal.log")));
    end(&prepared);
}

#[test]
fn a_start_that_fails_says_so_and_leaves_nothing() {
    let check = |main: &str, shell: &str, wanted: &str| {
        for mode in ["on", "off"] {
            let prepared = site(&format!("master_process {mode}; {main}"));
            if main.contains("working_directory") && mode == "off" {
                continue;
            }
            let inner = prepared.command(&[]);
            let mut command = Command::new("sh");
            command.args(["-c", &format!("{shell} exec \"$0\" \"$@\"")]).arg(inner.get_program());
            command.args(inner.get_args());
            let output = piped(command);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{main}{shell} {mode}: {said}");
            assert!(said.contains("[emerg] ") && said.contains(wanted), "{main}{shell} {mode}: {said}");
            wait::holds("the end of its processes", || processes(&prepared).is_empty());
            for name in ["brisk.pid", "brisk.pid.sock", "s"] {
                assert!(!prepared.dir().join(name).exists(), "{main}{shell} {mode}: {name}");
            }
        }
    };
    check(
        "working_directory /nonexistent;",
        "",
        "chdir(\"/nonexistent\") failed (2: No such file or directory)",
    );
    check("pid /nonexistent/brisk.pid;", "", "open() \"/nonexistent/brisk.pid\" failed (2:");
    check("error_log /nonexistent/error.log;", "", "open() \"/nonexistent/error.log\" failed (2:");
}

/// Wherever on its way a start runs out of descriptors, it says so. Which step that is depends on how many the caller has
/// left open, so all limits are tried.
#[test]
fn a_start_without_descriptors_says_so() {
    for mode in ["on", "off"] {
        let prepared = site(&format!("master_process {mode};"));
        let refused = (8..64).take_while(|limit| {
            let inner = prepared.command(&[]);
            let mut command = Command::new("sh");
            command.args(["-c", &format!("ulimit -n {limit}; exec \"$0\" \"$@\"")]);
            command.arg(inner.get_program()).args(inner.get_args());
            let output = piped(command);
            let said = text(&output.stderr);
            if output.status.success() {
                return false;
            }
            assert!(
                said.contains("[emerg] ") && said.contains("Too many open files"),
                "{limit} {mode}: {said}"
            );
            // The master has told why before it is gone itself.
            wait::holds("the end of its processes", || processes(&prepared).is_empty());
            for name in ["brisk.pid", "brisk.pid.sock", "s"] {
                assert!(!prepared.dir().join(name).exists(), "{limit} {mode}: {name}");
            }
            true
        });
        assert!((6..56).contains(&refused.count()), "{mode}");
        end(&prepared);
    }
}

/// Threads that find no memory abort the worker: what limits it is named.
#[test]
fn a_limit_of_memory_that_ends_a_start_is_named() {
    let prepared = site("worker_processes 64;");
    let inner = prepared.command(&[]);
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -v 250000; exec \"$0\" \"$@\""])
        .arg(inner.get_program())
        .args(inner.get_args());
    let output = piped(command);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("limited to 244 MiB (ulimit -v)"), "{said}");
    wait::holds("the end of its processes", || processes(&prepared).is_empty());
}

/// The second of two addresses is taken: the first one's file goes again.
#[test]
fn an_address_in_use_leaves_no_socket_behind() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let conf = format!(
        "server {{ listen unix:{{{{DIR}}}}/a; listen unix:{{{{DIR}}}}/b; listen 127.0.0.1:{port}; }}"
    );
    let prepared = Builder::new(BIN).http(&conf).prepare();
    assert_eq!(prepared.run(&[]).status.code(), Some(1));
    assert!(!prepared.dir().join("a").exists() && !prepared.dir().join("b").exists());
}

/// A configuration that is refused after its sockets were bound.
#[test]
fn a_refused_reload_leaves_no_socket_behind() {
    let mut server = Builder::new(BIN).http(SITE).allow_alerts("chdir").start();
    let more = SITE.replace("listen unix:{{DIR}}/s;", "listen unix:{{DIR}}/s; listen unix:{{DIR}}/t;");
    server.configure_http("working_directory /nonexistent;", &more);
    assert_eq!(server.run(&["-s", "reload"]).status.code(), Some(1));
    assert!(!server.dir().join("t").exists() && server.dir().join("s").exists());
    server.configure_http("", &more);
    server.reload();
    assert_eq!(Client::connect_unix(&server.dir().join("t")).unwrap().get("/who").text(), "one");
}

#[test]
fn the_socket_of_a_killed_server_is_replaced() {
    let prepared = site("");
    assert!(piped(prepared.command(&[])).status.success());
    let master = pid_of(&prepared).unwrap();
    let all = process::tree(master);
    all.iter().for_each(|&pid| process::signal(pid, Signal::KILL));
    all.into_iter().for_each(process::wait_gone);
    assert!(prepared.dir().join("s").exists());
    let output = piped(prepared.command(&[]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    assert_eq!(Client::connect_unix(&prepared.dir().join("s")).unwrap().get("/who").text(), "one");
    assert_ne!(pid_of(&prepared), Some(master));
    end(&prepared);
}

#[test]
fn a_socket_that_somebody_listens_on_is_left_alone() {
    let prepared = site("");
    let path = prepared.dir().join("s");
    let _taken = UnixListener::bind(&path).unwrap();
    let output = piped(prepared.command(&[]));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let wanted = format!("bind() to unix:{} failed (98: Address already in use)\n", path.display());
    let holder = format!("(process {}) listens there: end it, or choose another path\n", std::process::id());
    assert!(said.contains(&wanted) && said.ends_with(&holder), "{said}");
    assert!(fs::metadata(&path).unwrap().file_type().is_socket());
}

#[test]
fn a_file_in_a_sockets_place_is_left_alone() {
    let prepared = site("");
    fs::write(prepared.dir().join("s"), "precious").unwrap();
    let output = piped(prepared.command(&[]));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.ends_with("= help: the file there is no socket\n"), "{said}");
    assert_eq!(fs::read_to_string(prepared.dir().join("s")).unwrap(), "precious");
}
