//! A kind of child processes besides the server's workers: programs that are kept running, as another user, with their output
//! taken line by line.

use brisk_net::sys::{self, Account, Confinement};
use brisk_supervise::{Child, Due, Family, Pid, Policy, State};
use rustix::process::{Resource, Rlimit, Signal, WaitOptions, waitpid};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// After this a test has failed.
const DEADLINE: Duration = Duration::from_mins(1);

const POLICY: Policy = Policy {
    start_time_max: Duration::from_secs(10),
    healthy_after: Duration::from_secs(10),
    pause_min: Duration::from_millis(10),
    pause_max: Duration::from_millis(40),
    is_alone: false,
};

/// One command that is kept running: what a server does with a family, as far as it concerns one.
struct Service {
    script: &'static str,
    account: Option<Account>,
    family: Family<Child>,
    lines: Vec<String>,
    starts: usize,
    ends: Vec<State>,
}

impl Service {
    fn new(script: &'static str, account: Option<Account>) -> Service {
        let mut family = Family::new(POLICY);
        family.want(true);
        Service { script, account, family, lines: Vec::new(), starts: 0, ends: Vec::new() }
    }

    fn start(&mut self) {
        let mut command = Command::new("sh");
        command.args(["-c", self.script]);
        let files = Rlimit { current: Some(64), maximum: Some(64) };
        let confinement = Confinement {
            account: self.account.clone(),
            limits: vec![(Resource::Nofile, files)],
            death_signal: Some(Signal::KILL),
            descriptors: Vec::new(),
        };
        let now = Instant::now();
        match Child::start(command, confinement) {
            Ok(child) => {
                let pid = child.pid;
                self.family.started(pid, child, now);
                // A program says nothing of itself: it is ready when it runs.
                self.family.ready(pid);
                self.starts += 1;
            }
            Err(error) => {
                self.lines.push(format!("start: {error}"));
                self.family.start_failed(now);
            }
        }
    }

    /// Everything that is to be done now.
    fn turn(&mut self) {
        for member in self.family.iter_mut() {
            member.link.output.lines(|line| self.lines.push(line.into()));
        }
        for pid in self.family.pids() {
            let number = rustix::process::Pid::from_raw(pid);
            if waitpid(number, WaitOptions::NOHANG).is_ok_and(|status| status.is_some()) {
                let mut gone = self.family.gone(pid, Instant::now()).expect("it is one of them");
                gone.link.output.lines(|line| self.lines.push(line.into()));
                self.ends.push(gone.state);
            }
        }
        match self.family.due(Instant::now()) {
            Some(Due::Start) => self.start(),
            Some(Due::StartOverdue(pid) | Due::EndOverdue(pid)) => {
                self.family.get(pid).expect("it is there").link.signal(Signal::KILL);
                self.family.killed(pid);
            }
            None => {}
        }
    }

    fn until(&mut self, what: &str, is_so: impl Fn(&Service) -> bool) {
        let end = Instant::now() + DEADLINE;
        while !is_so(self) {
            assert!(Instant::now() < end, "waited in vain for {what}: {:?}", self.lines);
            self.turn();
            std::thread::yield_now();
        }
    }

    /// Tells all to end, and kills those that have not by then.
    fn end(&mut self, kill_at: Option<Instant>) {
        self.family.want(false);
        for member in self.family.iter() {
            member.link.signal(Signal::TERM);
        }
        self.family.pids().into_iter().for_each(|pid| self.family.draining(pid, kill_at));
        self.until("the end", |service| service.family.is_empty());
    }
}

fn nobody() -> Option<Account> {
    let user = sys::user("nobody").expect("every machine has it");
    Some(Account { uid: user.uid, gid: user.gid, groups: sys::groups("nobody", user.gid) })
}

#[test]
fn a_command_runs_as_another_user_with_limits_and_its_output_is_lines() {
    assert!(rustix::process::geteuid().is_root(), "users are changed: run this as root");
    // The last line has no end: a file tells that it was written.
    let told = std::env::temp_dir().join(format!("brisk-supervise-{}", std::process::id()));
    let script = "id -u; id -g; id -G; ulimit -n; echo to the error stream >&2; printf 'a\\033b\\n'; \
                  grep SigBlk /proc/self/status; printf unfinished; : >";
    let script = format!("{script}{}; exec sleep 1000", told.display());
    let account = nobody();
    let (uid, gid) = account.as_ref().map(|account| (account.uid, account.gid)).unwrap();
    let mut service = Service::new(script.leak(), account);
    service.until("its lines", |service| service.lines.len() >= 7 && told.exists());
    service.end(None);
    std::fs::remove_file(&told).unwrap();
    let wanted = [
        uid.to_string(),
        gid.to_string(),
        gid.to_string(),
        "64".into(),
        "to the error stream".into(),
        "a\\u{1b}b".into(),
        "SigBlk:\t0000000000000000".into(),
        "unfinished".into(),
    ];
    assert_eq!(service.lines, wanted);
    assert_eq!((service.starts, service.ends.len()), (1, 1));
}

#[test]
fn a_command_that_dies_is_started_again_with_pauses() {
    let begin = Instant::now();
    let mut service = Service::new("echo run; exit 3", None);
    service.until("the lines of five runs", |service| service.lines.len() >= 5);
    // 10, 20, 40 and 40 ms lie between them.
    assert!(begin.elapsed() >= Duration::from_millis(110), "{:?}", begin.elapsed());
    service.end(None);
    assert_eq!(service.lines[..5], ["run"; 5]);
}

/// A program that cannot be started is tried again with pauses, too.
#[test]
fn a_start_that_fails_is_tried_again() {
    assert!(rustix::process::geteuid().is_root(), "users are changed: run this as root");
    let nobody = nobody().unwrap();
    // Of no use for setuid(2): it means "no change" elsewhere.
    let mut service = Service::new("true", Some(Account { uid: u32::MAX, ..nobody }));
    service.until("two failures", |service| service.lines.len() >= 2);
    assert!(service.lines.iter().all(|line| line.contains("Invalid argument")), "{:?}", service.lines);
    assert!(service.family.is_empty());
}

#[test]
fn a_long_line_is_cut() {
    let mut service = Service::new("head -c 40000 /dev/zero | tr '\\0' x; echo; exec sleep 1000", None);
    service.until("three lines", |service| service.lines.len() >= 3);
    service.end(None);
    let lengths: Vec<usize> = service.lines.iter().map(String::len).collect();
    assert_eq!(lengths, [16384, 16384, 7232]);
}

#[test]
fn a_command_that_does_not_end_is_killed() {
    let mut service = Service::new("trap '' TERM; echo ready; while :; do sleep 0.01; done", None);
    service.until("its line", |service| service.lines == ["ready"]);
    service.end(Some(Instant::now() + Duration::from_millis(50)));
    assert_eq!(service.ends, [State::Killed]);
    let mut service =
        Service::new("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done", None);
    service.until("its line", |service| service.lines == ["ready"]);
    service.end(None);
    assert_eq!(service.lines, ["ready", "bye"]);
    assert_eq!(service.ends, [State::Draining { kill_at: None }]);
}

/// What the process does that is killed in the next test.
const PARENT: &str = "BRISK_TEST_PARENT";

#[test]
fn a_command_ends_with_its_supervisor() {
    if std::env::var_os(PARENT).is_some() {
        let mut service = Service::new("exec sleep 1000", nobody());
        service.start();
        println!("\nchild {}", service.family.pids()[0]);
        loop {
            std::thread::park();
        }
    }
    assert!(rustix::process::geteuid().is_root(), "users are changed: run this as root");
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_command_ends_with_its_supervisor", "--nocapture"])
        .env(PARENT, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let child = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("child ")?.parse::<Pid>().ok());
    let child = child.expect("the child's number");
    let is_there = || {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    };
    assert!(is_there());
    parent.kill().unwrap();
    parent.wait().unwrap();
    let end = Instant::now() + DEADLINE;
    while is_there() {
        assert!(Instant::now() < end, "process {child} outlives its parent");
        std::thread::yield_now();
    }
}
