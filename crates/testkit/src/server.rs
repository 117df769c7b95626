//! A server under test: its folder, its configuration, its processes and logs.

use crate::children;
use crate::client::Client;
use crate::ports::{self, Port};
use crate::process;
use crate::response::Response;
use crate::temp::TempDir;
use crate::wait;
use regex::Regex;
use rustix::process::Signal;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

/// Of a log, when a test fails.
const LINES_SHOWN: usize = 40;

/// What a configuration is made from.
enum Conf {
    /// Inside `http`, with the usual rest around it.
    Http {
        main: String,
        http: String,
    },
    Whole(String),
}

/// Describes a server; [`Builder::start`] runs it.
///
/// In configurations `{{DIR}}` stands for the server's folder, `{{PORT}}`, `{{PORT2}}`, … for ports of its own.
/// Files are served from `{{DIR}}/html`.
pub struct Builder {
    binary: PathBuf,
    dir: TempDir,
    ports: Vec<Port>,
    conf: Conf,
    args: Vec<String>,
    env: Vec<(String, String)>,
    alerts: Option<Regex>,
}

impl Builder {
    /// `binary`: `env!("CARGO_BIN_EXE_brisk")`.
    pub fn new(binary: &str) -> Builder {
        Builder {
            binary: binary.into(),
            dir: TempDir::new(),
            ports: Vec::new(),
            conf: Conf::Http { main: String::new(), http: String::new() },
            args: Vec::new(),
            env: Vec::new(),
            alerts: None,
        }
    }

    /// What stands in `http`: two threads serve it, logs go to `error.log` (level info) and `access.log`.
    #[must_use]
    pub fn http(mut self, text: &str) -> Builder {
        match &mut self.conf {
            Conf::Http { http, .. } => *http = text.to_string(),
            Conf::Whole(_) => panic!("the configuration is given as a whole"),
        }
        self
    }

    /// The same text with changes.
    pub(crate) fn edit_http(mut self, edit: impl FnOnce(&str) -> String) -> Builder {
        match &mut self.conf {
            Conf::Http { http, .. } => *http = edit(http),
            Conf::Whole(_) => panic!("the configuration is given as a whole"),
        }
        self
    }

    /// Directives of the main level, beside the usual ones; a directive here replaces the usual one of its name.
    #[must_use]
    pub fn main(mut self, text: &str) -> Builder {
        match &mut self.conf {
            Conf::Http { main, .. } => *main = text.to_string(),
            Conf::Whole(_) => panic!("the configuration is given as a whole"),
        }
        self
    }

    /// The whole configuration. It must say `daemon off` and `pid {{DIR}}/brisk.pid`.
    #[must_use]
    pub fn conf(mut self, text: &str) -> Builder {
        self.conf = Conf::Whole(text.to_string());
        self
    }

    /// A file in the server's folder.
    #[must_use]
    pub fn file(self, name: &str, content: impl AsRef<[u8]>) -> Builder {
        self.dir.write(name, content);
        self
    }

    /// A certificate of the server's own for `name` in `a.crt`, and its key in `a.key`.
    #[must_use]
    pub fn certificate(self, name: &str) -> Builder {
        let issued = crate::tls::issue(name, false, None);
        self.file("a.crt", issued.certificate_pem()).file("a.key", issued.key_pem())
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, arg: &str) -> Builder {
        self.args.push(arg.to_string());
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Builder {
        self.env.push((name.to_string(), value.to_string()));
        self
    }

    /// `[alert]` and `[emerg]` lines that match are part of the test; any other fails it.
    #[must_use]
    pub fn allow_alerts(mut self, pattern: &str) -> Builder {
        self.alerts = Some(Regex::new(pattern).expect("a valid pattern"));
        self
    }

    /// The folder that it gets.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The text with its placeholders filled in.
    pub fn fill(&mut self, text: &str) -> String {
        fill(text, self.dir.path(), &mut self.ports)
    }

    fn conf_text(&mut self) -> String {
        let text = match &self.conf {
            Conf::Whole(text) => text.clone(),
            Conf::Http { main, http } => usual(main, http),
        };
        self.fill(&text)
    }

    /// Writes the configuration but starts nothing: for tests of the command line.
    pub fn prepare(mut self) -> Prepared {
        let text = self.conf_text();
        self.dir.write("brisk.conf", text);
        let _ = fs::create_dir_all(self.dir.path().join("html"));
        let Builder { binary, dir, ports, args, env, alerts, .. } = self;
        Prepared { binary, dir, ports, args, env, alerts }
    }

    /// Starts it and waits until it serves.
    ///
    /// # Panics
    /// If it ends instead.
    pub fn start(self) -> Server {
        self.prepare().start()
    }
}

/// A server's folder with its configuration.
pub struct Prepared {
    binary: PathBuf,
    dir: TempDir,
    ports: Vec<Port>,
    args: Vec<String>,
    env: Vec<(String, String)>,
    alerts: Option<Regex>,
}

impl Prepared {
    /// The folder that it gets.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The first of its ports.
    pub fn port(&self) -> u16 {
        self.ports[0].number
    }

    /// Writes a file of its folder.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        self.dir.write(name, content)
    }

    /// The program with `-p` and `-c` for this folder, and further arguments.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.arg("-p").arg(self.dir()).arg("-c").arg(self.dir().join("brisk.conf")).args(args);
        command.envs(self.env.iter().map(|(n, v)| (n, v)));
        command
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn run(&self, args: &[&str]) -> Output {
        children::output(&mut self.command(args)).expect("the program starts")
    }

    /// Starts the server in the foreground, its terminal output in `terminal.log`.
    ///
    /// # Panics
    /// If it ends instead of serving.
    pub fn start(self) -> Server {
        let terminal = File::create(self.dir().join("terminal.log")).expect("a file in our own folder");
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        let mut command = self.command(&["-e", "error.log"]);
        command
            .args(args)
            .stdin(Stdio::null())
            .stdout(terminal.try_clone().expect("a copy"))
            .stderr(terminal);
        self.start_with(command)
    }

    /// As [`Prepared::start`] with a command of the caller's.
    ///
    /// # Panics
    /// If it ends instead of serving.
    pub fn start_with(self, mut command: Command) -> Server {
        let child = children::spawn(&mut command).expect("the program starts");
        let Prepared { binary, dir, ports, args, env, alerts } = self;
        let prepared = Prepared { binary, dir, ports, args, env, alerts };
        let mut server = Server { prepared, child: Some(child), status: None };
        wait::until("the pid file, or the server's end", || {
            if let Some(status) = server.child.as_mut().and_then(|c| c.try_wait().ok().flatten()) {
                server.child = None;
                panic!("the server ended: {status}\n{}", server.outputs());
            }
            server.pid_in_file()
        });
        server
    }
}

/// A running server. Dropped, it is stopped, and its logs must be free of alerts.
pub struct Server {
    prepared: Prepared,
    child: Option<Child>,
    status: Option<ExitStatus>,
}

impl Server {
    /// A server of this program.
    #[allow(clippy::new_ret_no_self)]
    pub fn new(binary: &str) -> Builder {
        Builder::new(binary)
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        self.prepared.dir()
    }

    /// The port that `{{PORT}}` became.
    pub fn port(&self) -> u16 {
        self.prepared.port()
    }

    /// The port that `{{PORTn}}` became.
    pub fn port_of(&self, n: usize) -> u16 {
        self.prepared.ports[n - 1].number
    }

    /// Writes a file of its folder.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        self.prepared.write(name, content)
    }

    /// A file below its folder as text; empty if there is none.
    pub fn read(&self, name: &str) -> String {
        fs::read(self.dir().join(name)).map_or(String::new(), |b| String::from_utf8_lossy(&b).into_owned())
    }

    /// What stands in its error log.
    pub fn error_log(&self) -> String {
        self.read("error.log")
    }

    /// What stands in its access log.
    pub fn access_log(&self) -> String {
        self.read("access.log")
    }

    fn outputs(&self) -> String {
        let tail = |name: &str| {
            let text = self.read(name);
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
        };
        format!("--- terminal\n{}\n--- error.log\n{}", tail("terminal.log"), tail("error.log"))
    }

    fn pid_in_file(&self) -> Option<u32> {
        let text = self.read("brisk.pid");
        text.strip_suffix('\n')?.parse().ok()
    }

    /// The master's process id, from its pid file.
    ///
    /// # Panics
    /// If there is none.
    pub fn pid(&self) -> u32 {
        self.pid_in_file().expect("a pid file")
    }

    /// The process that was started here.
    ///
    /// # Panics
    /// If it has been waited for.
    pub fn child_pid(&self) -> u32 {
        self.child.as_ref().expect("not waited for").id()
    }

    /// The processes that serve.
    pub fn workers(&self) -> Vec<u32> {
        process::children(self.pid())
    }

    /// The one process that serves, once there is exactly one.
    pub fn worker(&self) -> u32 {
        wait::until("a single worker", || match self.workers()[..] {
            [one] => Some(one),
            _ => None,
        })
    }

    /// Sends a signal to the master.
    pub fn signal(&self, signal: Signal) {
        process::signal(self.pid(), signal);
    }

    /// Connects to its first port.
    pub fn client(&self) -> Client {
        Client::connect(self.port())
    }

    /// GET on a connection of its own.
    pub fn get(&self, target: &str) -> Response {
        self.client().get(target)
    }

    /// Any request, on a connection of its own.
    pub fn request(&self, bytes: impl AsRef<[u8]>) -> Response {
        self.client().request(bytes)
    }

    /// Runs the program with `-p` and `-c` of this server, such as `-s reload`.
    pub fn run(&self, args: &[&str]) -> Output {
        self.prepared.run(args)
    }

    /// Replaces the configuration file, placeholders filled in.
    pub fn configure(&mut self, text: &str) {
        let text = fill(text, self.prepared.dir.path(), &mut self.prepared.ports);
        self.write("brisk.conf", text);
    }

    /// Replaces what stands in `http`, with the usual rest around it.
    pub fn configure_http(&mut self, main: &str, http: &str) {
        self.configure(&usual(main, http));
    }

    /// `-s reload`.
    ///
    /// # Panics
    /// If it fails.
    pub fn reload(&self) {
        let output = self.run(&["-s", "reload"]);
        assert!(output.status.success(), "reload: {}\n{}", text(&output.stderr), self.error_log());
    }

    /// Waits until a line of a log matches; gives it.
    ///
    /// # Panics
    /// If none does in time.
    pub fn wait_for_line(&self, log: &str, pattern: &str) -> String {
        let regex = Regex::new(pattern).expect("a valid pattern");
        let found = wait::within(wait::DEADLINE, || {
            self.read(log).lines().find(|line| regex.is_match(line)).map(str::to_string)
        });
        found.unwrap_or_else(|| panic!("no line like {pattern:?} in {log}:\n{}", self.read(log)))
    }

    /// Waits for a line in the error log.
    pub fn wait_for_log(&self, pattern: &str) -> String {
        self.wait_for_line("error.log", pattern)
    }

    /// Waits until the access log has so many lines; gives them.
    pub fn access_lines(&self, count: usize) -> Vec<String> {
        wait::until(&format!("{count} access log lines"), || {
            let lines: Vec<String> = self.access_log().lines().map(str::to_string).collect();
            (lines.len() >= count).then_some(lines)
        })
    }

    /// Waits for the end of the process that was started here.
    ///
    /// # Panics
    /// If it does not end in time.
    pub fn wait(&mut self) -> ExitStatus {
        if let Some(status) = self.status {
            return status;
        }
        let child = self.child.as_mut().expect("not waited for");
        let status = wait::until("the server's end", || child.try_wait().ok().flatten());
        self.child = None;
        self.status = Some(status);
        status
    }

    /// Sends a signal and waits for the end.
    pub fn end(&mut self, how: Signal) -> ExitStatus {
        process::signal(self.child_pid(), how);
        self.wait()
    }

    /// Waits until the process that was started here was killed. Its worker stays behind.
    ///
    /// # Panics
    /// If it does not end, or not so.
    pub fn wait_for_kill(&mut self) {
        use std::os::unix::process::ExitStatusExt as _;
        let status = self.wait();
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "{status}");
    }

    /// Sends SIGKILL to the process that was started here.
    pub fn kill_master(&mut self) {
        process::signal(self.child_pid(), Signal::KILL);
        self.wait_for_kill();
    }

    /// Starts it once more after its end, as systemd does; without the faults that were ordered (`BRISK_FAULTS`).
    ///
    /// # Panics
    /// If it ends instead of serving.
    pub fn start_again(&mut self) {
        self.prepared.env.retain(|(name, _)| name != "BRISK_FAULTS");
        let terminal = File::options().append(true).open(self.dir().join("terminal.log"));
        let terminal = terminal.expect("a file in our own folder");
        let args: Vec<&str> = self.prepared.args.iter().map(String::as_str).collect();
        let mut command = self.prepared.command(&["-e", "error.log"]);
        command
            .args(args)
            .stdin(Stdio::null())
            .stdout(terminal.try_clone().expect("a copy"))
            .stderr(terminal);
        let child = children::spawn(&mut command).expect("the program starts");
        let pid = child.id();
        (self.child, self.status) = (Some(child), None);
        wait::until("the pid file, or the server's end", || {
            if let Some(status) = self.child.as_mut().and_then(|c| c.try_wait().ok().flatten()) {
                self.child = None;
                panic!("the server ended: {status}\n{}", self.outputs());
            }
            self.pid_in_file().filter(|have| *have == pid)
        });
    }

    /// Lines of the error log that no server should write.
    fn alarms(&self) -> Vec<String> {
        let is_alarm = |line: &&str| {
            ["[alert]", "[emerg]"].iter().any(|level| line.contains(level))
                && self.prepared.alerts.as_ref().is_none_or(|allowed| !allowed.is_match(line))
        };
        let log = self.error_log();
        let mut found: Vec<String> = log.lines().filter(is_alarm).map(str::to_string).collect();
        let terminal = self.read("terminal.log");
        if self.prepared.alerts.is_none() {
            found.extend(terminal.lines().filter(|line| line.contains("panicked at")).map(str::to_string));
        }
        found
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Whoever is master now: a test may have upgraded the binary.
        let master = self.pid_in_file();
        let ours = self.child.as_ref().map(Child::id);
        if master.is_some_and(|pid| !process::is_alive(pid)) {
            // A worker whose master was killed is below nobody.
            let _ = self.prepared.run(&["-s", "stop"]);
        }
        let all: Vec<u32> = master.into_iter().chain(ours).flat_map(process::tree).collect();
        for pid in master.into_iter().chain(ours) {
            process::signal(pid, Signal::TERM);
        }
        let reap =
            |child: &mut Option<Child>| child.as_mut().is_some_and(|c| c.try_wait().ok().flatten().is_none());
        let ended = wait::within(wait::DEADLINE, || {
            let running = reap(&mut self.child) || all.iter().any(|&pid| process::is_alive(pid));
            (!running).then_some(())
        });
        if ended.is_none() {
            all.iter().for_each(|&pid| process::signal(pid, Signal::KILL));
        }
        if std::thread::panicking() {
            eprintln!("{}", self.outputs());
            return;
        }
        assert!(ended.is_some(), "the server did not end on SIGTERM\n{}", self.outputs());
        let alarms = self.alarms();
        assert!(alarms.is_empty(), "alarming lines: {alarms:#?}\n{}", self.outputs());
    }
}

fn usual(main: &str, http: &str) -> String {
    let mut head = String::new();
    for line in [
        "daemon off;",
        "pid {{DIR}}/brisk.pid;",
        "error_log {{DIR}}/error.log info;",
        "worker_processes 2;",
        "events { worker_connections 4096; }",
    ] {
        let name = line.split([' ', ';']).next().unwrap_or_default();
        if !main.split([';', '\n', '}']).any(|text| text.split_whitespace().next() == Some(name)) {
            head.push_str(line);
            head.push('\n');
        }
    }
    format!(
        "{head}{main}\nhttp {{\n    access_log {{{{DIR}}}}/access.log;\n    root {{{{DIR}}}}/html;\n{http}\n}}\n"
    )
}

fn fill(text: &str, dir: &Path, ports: &mut Vec<Port>) -> String {
    let mut text = text.replace("{{DIR}}", &dir.display().to_string());
    for number in 1..=16 {
        let name = if number == 1 { "{{PORT}}".to_string() } else { format!("{{{{PORT{number}}}}}") };
        if text.contains(&name) {
            while ports.len() < number {
                ports.push(ports::claim());
            }
            text = text.replace(&name, &ports[number - 1].number.to_string());
        }
    }
    text
}

/// Asserts on exit code and output (stdout, then stderr); patterns are regular expressions, `!` before one forbids it.
#[track_caller]
pub fn check(output: &Output, code: i32, patterns: &[&str]) {
    let all = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{all}");
    for pattern in patterns {
        let (wanted, pattern) = match pattern.strip_prefix('!') {
            Some(pattern) => (false, pattern),
            None => (true, *pattern),
        };
        let found = Regex::new(&format!("(?m){pattern}")).expect("a valid pattern").is_match(&all);
        assert_eq!(found, wanted, "{pattern:?} in:\n{all}");
    }
}

/// Bytes that a program wrote, as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
