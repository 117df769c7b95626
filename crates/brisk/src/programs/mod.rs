//! Programs that the configuration has the master run (`supervise`): started, asked whether they are well, started again, ended.
//!
//! Each is a family of `supervise` with one process at a time: what listens by itself cannot stand beside its successor. A program begins with
//! the configuration that names it, when that is live, and is told to end when one without it is. It has the user of the workers unless the
//! configuration names one, and never root. When the master is killed the kernel tells its programs to end, and the next master starts them.

mod account;
mod output;
mod probe;

use brisk_conf::Diag;
use brisk_modules::supervise::{Health, Limit, Output, ProgramSpec, Programs as Wanted, Restart};
use brisk_net::clock;
use brisk_net::sys::{Account, Confinement};
use brisk_server::conf::Snapshot;
use brisk_server::core::LogLevel;
use brisk_server::news::{self, ProgramState};
use brisk_supervise::{Child, Due, Family, Pid, Policy, State};
use output::Budget;
use probe::Probe;
use rustix::event::PollFlags;
use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::process::{Resource, Rlimit, Signal};
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::limits::PROGRAM_START_LOOK_TIME;
pub use account::unknown as unknown_accounts;

/// All programs.
#[derive(Default)]
pub struct Programs {
    list: Vec<Program>,
    /// What the log is to be told.
    notes: Vec<(LogLevel, String)>,
    /// Another server's master still runs the programs of this configuration.
    is_held: bool,
}

/// What is wanted of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    Runs,
    /// It has ended and is not started again.
    HasEnded,
    /// It is not in the configuration any more: it goes when its process has ended.
    Leaves,
}

struct Program {
    launch: Launch,
    family: Family<Child>,
    goal: Goal,
    looks: Looks,
    budget: Budget,
    starts: u64,
    failures: u64,
    /// As it was told last, and since when in seconds since 1970.
    state: (ProgramState, i64),
}

/// All that a start needs. A program whose launch has changed is started anew.
#[derive(Clone, PartialEq, Eq)]
struct Launch {
    spec: Arc<ProgramSpec>,
    path: PathBuf,
    account: Option<Account>,
}

/// Where the questions to a program stand.
#[derive(Default)]
struct Looks {
    /// Failures in a row.
    fails: u32,
    stage: Look,
}

#[derive(Default)]
enum Look {
    /// There is nobody to ask.
    #[default]
    None,
    /// The next question is asked then.
    Next(Instant),
    Asking(Probe),
}

/// What a configuration wants, with everything that could fail done.
#[derive(Default)]
pub struct Next(Vec<Launch>);

impl Programs {
    /// Looks for the programs and users of a configuration.
    ///
    /// # Errors
    /// What is missing on this machine.
    pub fn prepare(snap: &Snapshot) -> Result<Next, Diag> {
        let wanted = snap.data::<Wanted>().map(|wanted| wanted.0.as_slice()).unwrap_or_default();
        if let (Some(spec), false) = (wanted.first(), snap.main.master_process) {
            let text = format!("supervise \"{}\" needs the master process, which starts it", spec.name);
            return Err(Diag::global(text).help("leave \"master_process off\" out"));
        }
        let launch = |spec: &Arc<ProgramSpec>| {
            let path = account::program(spec)?;
            Ok(Launch { spec: spec.clone(), path, account: account::of(spec, &snap.main)? })
        };
        Ok(Next(wanted.iter().map(launch).collect::<Result<_, Diag>>()?))
    }

    /// From now on these programs are wanted.
    pub fn commit(&mut self, next: Next) {
        let now = Instant::now();
        for program in &mut self.list {
            if !next.0.iter().any(|launch| launch.spec.name == program.launch.spec.name) {
                program.leave(now);
            }
        }
        for launch in next.0 {
            match self.list.iter_mut().find(|program| program.launch.spec.name == launch.spec.name) {
                Some(program) => program.change(launch, now, self.is_held),
                None => self.list.push(Program::new(launch, self.is_held)),
            }
        }
    }

    /// Another master runs the same programs: none is started until it has ended.
    pub fn hold(&mut self) {
        self.is_held = true;
    }

    /// The other master has ended.
    pub fn release(&mut self) {
        if std::mem::take(&mut self.is_held) {
            self.list
                .iter_mut()
                .filter(|program| program.goal == Goal::Runs)
                .for_each(|p| p.family.want(true));
        }
    }

    /// The server ends.
    pub fn end(&mut self) {
        let now = Instant::now();
        self.list.iter_mut().for_each(|program| program.leave(now));
    }

    /// Whether no process is left.
    pub fn is_empty(&self) -> bool {
        self.list.iter().all(|program| program.family.is_empty())
    }

    /// In a process that was forked: lets go of everything.
    pub fn forget(&mut self) {
        self.list.iter_mut().for_each(|program| program.family.clear());
        self.list.clear();
        self.notes.clear();
    }

    /// What is to be waited for.
    pub fn waits(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let outputs = self.list.iter().flat_map(|program| program.family.iter());
        let outputs = outputs.filter(|process| !process.link.output.is_closed());
        let outputs = outputs.map(|process| (process.link.output.as_fd(), PollFlags::IN));
        let looks = self.list.iter().filter_map(|program| match &program.looks.stage {
            Look::Asking(probe) => Some(probe.interest()),
            Look::None | Look::Next(_) => None,
        });
        outputs.chain(looks)
    }

    /// When [`Programs::turn`] is to be called at the latest.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        let times = self.list.iter().flat_map(|program| {
            let look = match &program.looks.stage {
                Look::None => None,
                Look::Next(at) => Some(*at),
                Look::Asking(probe) => Some(probe.until),
            };
            [program.family.next(now), look, program.budget.next()]
        });
        times.flatten().min()
    }

    /// Reads what programs say, asks those whose time has come, and does what is due.
    pub fn turn(&mut self, now: Instant) {
        for program in &mut self.list {
            program.read(now, &mut self.notes);
            program.look(now, &mut self.notes);
            while let Some(due) = program.family.due(now) {
                program.carry_out(due, now, &mut self.notes);
            }
            program.keep_state();
        }
        self.list.retain(|program| program.goal != Goal::Leaves || !program.family.is_empty());
    }

    /// A child has ended, `how`; `is_good`: by itself, with code 0. False if it is none of these.
    pub fn gone(&mut self, pid: Pid, how: &str, is_good: bool, now: Instant) -> bool {
        let Some(program) = self.list.iter_mut().find(|program| program.family.get(pid).is_some()) else {
            return false;
        };
        program.read(now, &mut self.notes);
        program.gone(pid, how, is_good, now, &mut self.notes);
        program.keep_state();
        true
    }

    /// What is to be logged since the last call.
    pub fn notes(&mut self) -> Vec<(LogLevel, String)> {
        std::mem::take(&mut self.notes)
    }

    /// How they stand.
    pub fn news(&self) -> Vec<news::Program> {
        self.list.iter().map(Program::news).collect()
    }
}

type Notes = Vec<(LogLevel, String)>;

impl Program {
    fn new(launch: Launch, is_held: bool) -> Program {
        let mut family = Family::new(policy(&launch.spec));
        family.want(!is_held);
        Program {
            launch,
            family,
            goal: Goal::Runs,
            looks: Looks::default(),
            budget: Budget::default(),
            starts: 0,
            failures: 0,
            state: (ProgramState::Waiting, clock::refresh().unix_secs),
        }
    }

    fn name(&self) -> &str {
        &self.launch.spec.name
    }

    /// What a reload makes of it. A program that has ended on purpose stays so until it is changed.
    fn change(&mut self, launch: Launch, now: Instant, is_held: bool) {
        if self.launch == launch && self.goal != Goal::Leaves {
            return;
        }
        self.stop(now);
        self.family.set_policy(policy(&launch.spec));
        (self.launch, self.goal) = (launch, Goal::Runs);
        self.family.want(!is_held);
    }

    fn leave(&mut self, now: Instant) {
        self.goal = Goal::Leaves;
        self.family.want(false);
        self.stop(now);
    }

    /// Tells its process to end.
    fn stop(&mut self, now: Instant) {
        let until = now + self.launch.spec.stop_timeout;
        self.looks = Looks::default();
        for pid in self.family.pids() {
            if let Some(process) = self.family.get(pid)
                && matches!(process.state, State::Starting { .. } | State::Ready { .. })
            {
                process.link.signal(self.launch.spec.stop_signal);
                self.family.draining(pid, Some(until));
            }
        }
    }

    fn read(&mut self, now: Instant, notes: &mut Notes) {
        let level = match self.launch.spec.output {
            Output::At(level) => Some(level),
            Output::Off => None,
        };
        let name = self.launch.spec.name.clone();
        for process in self.family.iter_mut() {
            let (output, budget) = (&mut process.link.output, &mut self.budget);
            output.lines(|line| {
                if let Some(level) = level
                    && budget.takes(now)
                {
                    notes.push((level, format!("{name}: {line}")));
                }
            });
        }
        if let Some(lost) = self.budget.lost(now) {
            let text =
                format!("{name}: {lost} lines of its output were left out: there were too many in a second");
            notes.push((LogLevel::Error, text));
        }
    }

    /// Asks the program that is starting or ready, and acts on what it answers.
    fn look(&mut self, now: Instant, notes: &mut Notes) {
        let Some(health) = self.launch.spec.health.clone() else { return };
        let asked = match &mut self.looks.stage {
            Look::Next(at) if *at <= now => match Probe::begin(&health.check, now + health.timeout) {
                Ok(mut probe) => match probe.proceed(&health.check, now) {
                    Some(result) => result,
                    None => return self.looks.stage = Look::Asking(probe),
                },
                Err(why) => Err(why),
            },
            Look::Asking(probe) => match probe.proceed(&health.check, now) {
                Some(result) => result,
                None => return,
            },
            Look::None | Look::Next(_) => return,
        };
        self.answered(asked, &health, now, notes);
    }

    fn answered(&mut self, asked: Result<(), String>, health: &Health, now: Instant, notes: &mut Notes) {
        let process = self
            .family
            .iter()
            .find(|process| matches!(process.state, State::Starting { .. } | State::Ready { .. }));
        let Some((pid, state)) = process.map(|process| (process.pid, process.state)) else {
            return self.looks = Looks::default();
        };
        let is_starting = matches!(state, State::Starting { .. });
        let pause = match &asked {
            Err(_) if is_starting => PROGRAM_START_LOOK_TIME,
            _ => health.interval,
        };
        self.looks.stage = Look::Next(now + pause);
        match asked {
            Ok(()) => {
                self.looks.fails = 0;
                if is_starting {
                    self.family.ready(pid);
                    notes.push((LogLevel::Notice, format!("program \"{}\" ({pid}) is ready", self.name())));
                }
            }
            // Its start has a time of its own.
            Err(_) if is_starting => {}
            Err(why) => {
                self.looks.fails += 1;
                if self.looks.fails < health.fails {
                    return;
                }
                let count = self.looks.fails;
                let text = format!(
                    "program \"{}\" ({pid}) is not well ({count} times in a row: {why}) and is started again",
                    self.name()
                );
                notes.push((LogLevel::Alert, text));
                self.failures += 1;
                self.family.failed(pid, now);
                self.stop(now);
            }
        }
    }

    fn carry_out(&mut self, due: Due, now: Instant, notes: &mut Notes) {
        match due {
            Due::Start => self.start(now, notes),
            Due::StartOverdue(pid) => {
                let seconds = self.launch.spec.start_timeout.as_secs_f64();
                let text = format!("program \"{}\" ({pid}) was not ready within {seconds} s", self.name());
                notes.push((LogLevel::Alert, text));
                self.kill(pid);
                self.failures += 1;
                self.looks = Looks::default();
                self.family.gave_up_start(pid, now);
            }
            Due::EndOverdue(pid) => {
                let seconds = self.launch.spec.stop_timeout.as_secs_f64();
                let text = format!(
                    "program \"{}\" ({pid}) did not end within {seconds} s and is killed",
                    self.name()
                );
                notes.push((LogLevel::Alert, text));
                self.kill(pid);
                self.family.killed(pid);
            }
        }
    }

    fn kill(&self, pid: Pid) {
        if let Some(process) = self.family.get(pid) {
            process.link.signal(Signal::KILL);
            process.link.kill_group();
        }
    }

    fn start(&mut self, now: Instant, notes: &mut Notes) {
        match self.launch.start() {
            Ok(child) => {
                let pid = child.pid;
                self.starts += 1;
                self.family.started(pid, child, now);
                self.looks = Looks { fails: 0, stage: Look::Next(now) };
                notes.push((LogLevel::Notice, format!("start program \"{}\" ({pid})", self.name())));
                if self.launch.spec.health.is_none() {
                    self.looks = Looks::default();
                    self.family.ready(pid);
                }
            }
            Err(error) => {
                self.failures += 1;
                self.family.start_failed(now);
                let why = brisk_conf::os_text(&error);
                let path = self.launch.path.display();
                let text = format!("starting \"{path}\" for program \"{}\" failed ({why})", self.name());
                notes.push((LogLevel::Alert, text));
            }
        }
    }

    fn gone(&mut self, pid: Pid, how: &str, is_good: bool, now: Instant, notes: &mut Notes) {
        let Some(gone) = self.family.gone(pid, now) else { return };
        gone.link.kill_group();
        let was_told = matches!(gone.state, State::Draining { .. } | State::Killed);
        let text = format!("program \"{}\" ({pid}) {how}", self.name());
        if was_told {
            notes.push((LogLevel::Notice, text));
            return;
        }
        self.looks = Looks::default();
        let is_last = match self.launch.spec.restart {
            Restart::Always => false,
            Restart::OnFailure => is_good,
            Restart::Never => true,
        };
        if is_last {
            self.family.want(false);
            self.goal = Goal::HasEnded;
        }
        let is_failure = !(is_last && is_good);
        self.failures += u64::from(is_failure);
        let level = if is_failure { LogLevel::Alert } else { LogLevel::Notice };
        let then = if is_last { "and is not started again" } else { "and is started again" };
        notes.push((level, format!("{text} {then}")));
    }

    /// Notes when its state has changed.
    fn keep_state(&mut self) {
        let mut state = match self.goal {
            Goal::HasEnded => ProgramState::Ended,
            Goal::Runs | Goal::Leaves => ProgramState::Waiting,
        };
        for process in self.family.iter() {
            state = match process.state {
                State::Starting { .. } => ProgramState::Starting,
                State::Ready { .. } => ProgramState::Ready,
                State::Stuck | State::Draining { .. } | State::Killed => ProgramState::Ending,
            };
        }
        if state != self.state.0 {
            self.state = (state, clock::refresh().unix_secs);
        }
    }

    fn news(&self) -> news::Program {
        news::Program {
            name: self.name().to_string(),
            state: self.state.0,
            pid: self.family.iter().last().map_or(0, |process| process.pid),
            since_unix_secs: self.state.1,
            starts: self.starts,
            failures: self.failures,
            lost_lines: self.budget.lost_in_all(),
        }
    }
}

fn policy(spec: &ProgramSpec) -> Policy {
    Policy {
        start_time_max: spec.start_timeout,
        healthy_after: Duration::from_secs(10),
        pause_min: Duration::from_millis(500),
        pause_max: Duration::from_secs(30),
        is_alone: true,
    }
}

impl Launch {
    fn start(&self) -> io::Result<Child> {
        let mut command = Command::new(&self.path);
        command.args(&self.spec.command[1..]).current_dir(self.spec.directory.as_deref().unwrap_or("/"));
        command.env_clear();
        let kept = ["LANG", "LC_ALL", "TZ"];
        command.env("PATH", account::PLACES);
        command.envs(kept.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.env("HOME", self.spec.directory.as_deref().unwrap_or("/"));
        if let Some(user) = &self.spec.user {
            command.env("USER", user).env("LOGNAME", user);
        }
        command.envs(self.spec.environment.iter().map(|(name, value)| (name, value)));
        let limit = |(limit, value): &(Limit, u64)| {
            let resource = match limit {
                Limit::Files => Resource::Nofile,
                Limit::Memory => Resource::As,
                Limit::Processes => Resource::Nproc,
                Limit::Core => Resource::Core,
                Limit::Cpu => Resource::Cpu,
            };
            (resource, Rlimit { current: Some(*value), maximum: Some(*value) })
        };
        let confinement = Confinement {
            account: self.account.clone(),
            limits: self.spec.limits.iter().map(limit).collect(),
            death_signal: Some(self.spec.stop_signal),
            descriptors: Vec::new(),
        };
        Child::start(command, confinement)
    }
}
