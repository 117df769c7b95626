//! `supervise`: programs that the master process runs, and what goes wrong with them.

use brisk_testkit::server::check;
use brisk_testkit::{Builder, Server, process, wait};
use rustix::process::Signal;
use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::chown;
use std::process::Command;
use std::time::{Duration, Instant};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// Answers with what it knows of itself; `/health` says 503 while there is a file "ill" beside it.
const APP: &str = "import http.server, os, resource, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        ill = self.path == '/health' and os.path.exists(os.path.join(os.path.dirname(sys.argv[0]), 'ill'))
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        text = f\"{os.getpid()} {os.getuid()} {os.environ.get('GREETING')} {os.getcwd()} {files} {os.environ.get('SECRET')}\"
        self.send_response(503 if ill else 200)
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
    def log_message(self, *args): pass
print('listening soon', flush=True)
http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
";

const SITE: &str = "server { listen 127.0.0.1:{{PORT}}; location / { proxy_pass http://127.0.0.1:{{PORT2}}; }
    location = /status { status; } location = /own { return 200 own; } }";

const SHOP: &str = "supervise shop { command python3 -u {{DIR}}/app.py {{PORT2}}; directory {{DIR}}; env GREETING=hello; limit nofile=77;
    health http://127.0.0.1:{{PORT2}}/health interval=100ms fails=2; output notice; }";

fn builder(main: &str) -> Builder {
    Builder::new(BIN)
        .main(main)
        .http(SITE)
        .file("app.py", APP)
        .env("SECRET", "of the master")
        .allow_alerts("program \"|master process")
}

fn ready(server: &Server) -> Vec<String> {
    server.wait_for_log("program \"shop\" .* is ready");
    words(server)
}

fn words(server: &Server) -> Vec<String> {
    wait::until("an answer of the program", || {
        let answer = server.get("/");
        (answer.status == 200).then(|| answer.text().split(' ').map(str::to_string).collect())
    })
}

/// What `status` says of the program: a family's value, of a state if one is given.
fn told(server: &Server, name: &str, state: Option<&str>) -> i64 {
    let status: Value = serde_json::from_str(&server.get("/status").text()).unwrap();
    let values = status[name]["values"].as_array().cloned().unwrap_or_default();
    let fits = |value: &&Value| state.is_none_or(|state| value["labels"]["state"] == state);
    values.iter().find(fits).and_then(|value| value["value"].as_f64()).map_or(-1, |value| value as i64)
}

fn is_in(server: &Server, state: &str) {
    wait::holds(state, || told(server, "brisk_program_state", Some(state)) == 1);
}

#[test]
fn a_program_runs_as_it_is_told_and_is_started_again() {
    let server = builder(SHOP).start();
    let first = ready(&server);
    let [pid, uid, greeting, folder, files, secret] = &first[..] else { panic!("{first:?}") };
    let pid: u32 = pid.parse().unwrap();
    assert!(uid != "0", "never as root");
    assert_eq!((greeting.as_str(), files.as_str(), secret.as_str()), ("hello", "77", "None"));
    assert_eq!(folder, &server.dir().display().to_string());
    server.wait_for_log("shop: listening soon");
    is_in(&server, "ready");
    assert_eq!(told(&server, "brisk_program_process", None), i64::from(pid));
    assert_eq!(told(&server, "brisk_program_starts_total", None), 1);
    process::signal(pid, Signal::KILL);
    wait::holds("another process answers", || {
        let answer = server.get("/");
        answer.status == 200 && !answer.text().starts_with(&format!("{pid} "))
    });
    server.wait_for_log(&format!("program \"shop\" \\({pid}\\) exited on signal 9 and is started again"));
    is_in(&server, "ready");
    assert_eq!(told(&server, "brisk_program_starts_total", None), 2);
    assert_eq!(told(&server, "brisk_program_failures_total", None), 1);
}

#[test]
fn one_that_is_not_well_is_started_again() {
    let server = builder(SHOP).start();
    let before = ready(&server);
    server.write("ill", "");
    server.wait_for_log("is not well \\(2 times in a row: status 503\\) and is started again");
    // It does not become ready either while the file is there.
    wait::holds("another start", || told(&server, "brisk_program_starts_total", None) >= 2);
    assert_eq!(told(&server, "brisk_program_state", Some("ready")), 0);
    std::fs::remove_file(server.dir().join("ill")).unwrap();
    is_in(&server, "ready");
    assert_ne!(words(&server)[0], before[0]);
}

/// Pauses grow, and the server serves.
#[test]
fn a_crash_loop_is_slow() {
    let begun = Instant::now();
    let mut server = builder("supervise shop { command sh -c 'echo dying; exit 3'; }").start();
    wait::holds("three starts", || told(&server, "brisk_program_starts_total", None) >= 3);
    // 0.5 s and 1 s.
    assert!(begun.elapsed() >= Duration::from_millis(1400), "{:?}", begun.elapsed());
    server.wait_for_log("shop: dying");
    server.wait_for_log("program \"shop\" .* exited with code 3 and is started again");
    assert_eq!(server.get("/own").text(), "own");
    assert!(told(&server, "brisk_program_starts_total", None) <= 5);
    server.configure_http(SHOP, SITE);
    server.reload();
    ready(&server);
}

#[test]
fn one_that_is_never_ready_is_given_up() {
    let main =
        "supervise shop { command sleep 1000; health tcp://127.0.0.1:{{PORT3}}; start_timeout 300ms; }";
    let server = builder(main).start();
    server.wait_for_log("program \"shop\" .* was not ready within 0.3 s");
    wait::holds("another start", || told(&server, "brisk_program_starts_total", None) >= 2);
    assert_eq!(server.get("/own").text(), "own");
}

#[test]
fn a_flood_of_output_is_cut_and_counted() {
    let server = builder("supervise shop { command yes flood; output warn; }").start();
    server.wait_for_log("shop: \\d+ lines of its output were left out");
    assert_eq!(server.get("/own").text(), "own");
    wait::holds("lost lines are told", || told(&server, "brisk_program_lost_lines_total", None) > 0);
    // The master does all else meanwhile.
    server.reload();
    let lines = server.error_log().lines().filter(|line| line.contains("shop: flood")).count();
    assert!(lines >= 500, "{lines}");
}

/// Found by reading: each turn of the master told the worker how many lines were lost, and a worker that was busy with a reload, and had no room
/// for more of that, was taken for stuck.
#[test]
fn a_flood_of_output_costs_no_worker() {
    let mut server = builder("supervise shop { command yes flood; output warn; }")
        .env("BRISK_FAULTS", "stop=worker-configure")
        .start();
    let left_out = |server: &Server| server.error_log().matches("lines of its output were left out").count();
    wait::holds("a flood", || left_out(&server) > 0);
    let started = |server: &Server| -> Vec<u32> {
        let log = server.error_log();
        log.lines().filter_map(|line| line.split_once("start worker process ")?.1.parse().ok()).collect()
    };
    let worker = started(&server)[0];
    server.configure_http("supervise shop { command yes flood; output warn; }", &SITE.replace("own", "new"));
    server.signal(Signal::HUP);
    wait::holds("the worker is at it", || process::is_stopped(worker));
    let before = left_out(&server);
    wait::holds("seconds of the flood", || left_out(&server) >= before + 3);
    process::signal(worker, Signal::CONT);
    server.wait_for_log("generation 2 is live");
    assert_eq!(server.get("/new").text(), "new");
    assert_eq!(started(&server), [worker]);
    let log = server.error_log();
    assert!(!log.contains("has not answered"), "{log}");
}

/// Its whole group goes with it, and one that does not obey is killed.
#[test]
fn a_reload_without_it_ends_it() {
    let stubborn = "supervise stubborn { command sh -c \"trap '' TERM; echo deaf; while :; do sleep 1; done\"; stop_timeout 300ms; }";
    let main =
        format!("{SHOP} supervise two {{ command sh -c 'sleep 1000 & echo child $!; wait'; }} {stubborn}");
    let mut server = builder(&main).start();
    let pid: u32 = ready(&server)[0].parse().unwrap();
    let line = server.wait_for_log("two: child \\d+");
    let child: u32 = line.rsplit(' ').next().unwrap().trim().parse().unwrap();
    server.wait_for_log("stubborn: deaf");
    // What is not changed goes on.
    server.reload();
    assert_eq!(words(&server)[0], pid.to_string());
    server.configure_http("", SITE);
    server.reload();
    process::wait_gone(pid);
    process::wait_gone(child);
    server.wait_for_log("program \"stubborn\" .* did not end within 0.3 s and is killed");
    wait::holds("nothing is told of them", || told(&server, "brisk_program_state", None) < 0);
    // A configuration that is refused starts nothing.
    server.configure_http("supervise shop { command /no/such/program; }", SITE);
    let output = server.run(&["-s", "reload"]);
    check(&output, 1, &["there is no program \"/no/such/program\" for supervise \"shop\""]);
}

/// The kernel ends them with their master, and the next one starts them.
#[test]
fn they_end_with_a_master_that_is_killed() {
    let mut server = builder(SHOP).start();
    let pid: u32 = ready(&server)[0].parse().unwrap();
    server.kill_master();
    process::wait_gone(pid);
    assert_eq!(server.get("/own").text(), "own");
    server.start_again();
    wait::holds("another process answers", || {
        let answer = server.get("/");
        answer.status == 200 && !answer.text().starts_with(&format!("{pid} "))
    });
}

#[test]
fn ends_that_are_meant_are_the_last() {
    let main = "supervise shop { command sh -c 'exit 0'; restart on_failure; }";
    let mut server = builder(main).start();
    server.wait_for_log("program \"shop\" .* exited with code 0 and is not started again");
    is_in(&server, "ended");
    assert_eq!(told(&server, "brisk_program_failures_total", None), 0);
    // A reload that changes nothing of it starts nothing.
    server.reload();
    assert_eq!(told(&server, "brisk_program_starts_total", None), 1);
    server.configure_http("supervise shop { command sh -c 'exit 1'; restart never; }", SITE);
    server.reload();
    server.wait_for_log("program \"shop\" .* exited with code 1 and is not started again");
    wait::holds("both starts", || told(&server, "brisk_program_starts_total", None) == 2);
    assert_eq!(told(&server, "brisk_program_failures_total", None), 1);
}

/// The same command as the user `nobody`, with a capability that its children inherit. The program comes by its standard input: that user
/// cannot enter each folder above it.
fn as_nobody(command: &Command) -> Command {
    let mut out = Command::new("setpriv");
    out.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    out.args(["--inh-caps=-all,+net_bind_service", "--ambient-caps=-all,+net_bind_service"]);
    out.args(["--", "/proc/self/fd/0"]).args(command.get_args()).stdin(File::open(BIN).unwrap());
    out
}

/// Found by reading: without root's rights the user of a program was passed over, and its name told to the program all the same.
#[test]
fn a_master_that_is_not_root_starts_programs_as_itself_alone() {
    assert!(process::is_root(), "users are changed: run this as root");
    let prepared = |user: &str| {
        let main = format!(
            "supervise shop {{ command grep Cap /proc/self/status; restart never; {user} output notice; }}"
        );
        let prepared = builder(&main).prepare();
        chown(prepared.dir(), Some(65534), Some(65534)).unwrap();
        prepared
    };
    for (user, want) in [
        (
            "user www-data;",
            "supervise \"shop\" names the user \"www-data\", and a master process that is not root",
        ),
        ("user nobody www-data;", "supervise \"shop\" names the group \"www-data\""),
        ("user no-such-user;", "there is no user \"no-such-user\", whom supervise \"shop\" names"),
        ("user nobody no-such-group;", "there is no group \"no-such-group\""),
    ] {
        let prepared = prepared(user);
        for args in [&["-e", "error.log", "-t"][..], &["-e", "error.log"]] {
            check(&as_nobody(&prepared.command(args)).output().unwrap(), 1, &[want]);
        }
    }
    for user in ["", "user nobody nogroup;"] {
        let prepared = prepared(user);
        let mut command = as_nobody(&prepared.command(&["-e", "error.log"]));
        let terminal = File::create(prepared.dir().join("terminal.log")).unwrap();
        command.stdout(terminal.try_clone().unwrap()).stderr(terminal);
        let server = prepared.start_with(command);
        assert_ne!(process::number(server.pid(), "status", "Uid:"), Some(0));
        for set in ["CapEff", "CapPrm", "CapAmb"] {
            server.wait_for_log(&format!("shop: {set}:\\\\x090{{16}}$"));
        }
    }
}

#[test]
fn what_cannot_run_is_refused_before() {
    for (main, want) in [
        ("supervise a { command no-such-program; }", "there is no program \"no-such-program\" in "),
        ("supervise a { command sh; user root; }", "supervise \"a\" would run as root"),
        ("master_process off; supervise a { command sh; }", "supervise \"a\" needs the master process"),
    ] {
        let prepared = Builder::new(BIN).main(main).http(SITE).prepare();
        check(&prepared.run(&[]), 1, &[want]);
    }
    if process::is_root() {
        for (main, want) in [
            (
                "supervise a { command sh; user no-such-user; }",
                "there is no user \"no-such-user\", whom supervise \"a\" names",
            ),
            ("user root; supervise a { command sh; }", "supervise \"a\" would run as root"),
        ] {
            let prepared = Builder::new(BIN).main(main).http(SITE).prepare();
            check(&prepared.run(&["-t"]), 1, &[want]);
        }
    }
}
