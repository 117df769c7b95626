//! PHP pools, as the master process keeps them: a pool master per pool, its sockets, and what becomes of both at a reload.
//!
//! The listening socket is the server's: it stays open while a pool master is replaced, so that connections wait in the kernel
//! meanwhile. Another pool master is started beside the old one and takes its place when it serves; the old one finishes what it has
//! begun. What a pool is told and says is in the folder `php` of the repository.

mod accounts;
mod door;
mod folders;
mod notes;
mod program;

use crate::channel::{self, memory_file};
use crate::control::Call;
use crate::limits::POOL_CRASHED_STARTS_MAX;
pub use accounts::unknown as unknown_accounts;
use brisk_conf::Diag;
use brisk_modules::php::PoolSpec;
use brisk_net::connect;
use brisk_net::sys::{Account, Confinement};
use brisk_php::limits::START_PAUSE_MAX;
use brisk_server::conf::Snapshot;
use brisk_server::core::LogLevel;
use brisk_supervise::{Child, Due, Family, Member, Pid, Policy, State};
use door::{Door, Kept, NamedAgain};
use folders::Folders;
use notes::{Reason, note, refusal};
use program::{Hosts, Kind, SaysReady};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::Signal;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use program::{Program, available, missing_programs};

/// A pool master that was told to end with the server has so long.
const END_TIME: Duration = Duration::from_secs(12);

const POLICY: Policy = Policy {
    start_time_max: Duration::from_mins(1),
    healthy_after: Duration::from_secs(1),
    pause_min: Duration::from_millis(200),
    pause_max: START_PAUSE_MAX,
    is_alone: false,
};

/// All pools.
#[derive(Default)]
pub struct Pools {
    list: Vec<Pool>,
    /// It ends with the server: the master and its workers have the end that is written to. Made with the first pool.
    lifeline: Option<(PipeReader, PipeWriter)>,
    /// What the log is to be told.
    notes: Vec<(LogLevel, String)>,
}

struct Pool {
    spec: Arc<PoolSpec>,
    user: Option<String>,
    workers_at_start: u32,
    program: Program,
    door: Door,
    family: Family<Process>,
    /// Code that is watched; `None`: nothing is to be, or can be.
    folders: Option<Folders>,
    /// They wait for other processes to serve.
    callers: Vec<Call>,
    /// Starts in a row that ended by a signal.
    crashed_starts: u32,
    /// It is not in the configuration any more: it goes when its processes have ended.
    is_leaving: bool,
    /// A configuration that is being loaded names it, and opens no socket for it: it stays until that is decided.
    is_named_again: NamedAgain,
}

/// A pool master.
struct Process {
    child: Child,
    /// Until it has said that it serves.
    ready: Option<PipeReader>,
    says_ready: SaysReady,
    reason: Reason,
}

/// What a configuration wants, with everything that could fail done. Dropped, it leaves nothing behind.
pub struct Next {
    pools: Vec<NextPool>,
}

impl Next {
    /// In a worker that was forked: lets go of sockets.
    pub fn forget(&mut self) {
        self.pools.clear();
    }
}

struct NextPool {
    spec: Arc<PoolSpec>,
    user: Option<String>,
    workers_at_start: u32,
    program: Program,
    /// `None`: it is open already.
    door: Option<Door>,
    kept: Option<Kept>,
}

impl Pools {
    /// Looks for what the configuration's pools need, and binds their sockets.
    pub fn prepare(&self, snap: &Snapshot) -> Result<Next, Diag> {
        let wanted = program::specs(snap);
        if let (Some(spec), false) = (wanted.first(), snap.main.master_process) {
            let text = format!(
                "php_pool \"{}\" needs the master process, which starts its workers",
                spec.settings.pool
            );
            return Err(
                Diag::global(text).help("leave \"master_process off\" out, or use PHP-FPM with fastcgi_pass")
            );
        }
        let owner = crate::host::identity(&snap.main)?;
        // Who is not root becomes no other user, and the names have no effect.
        if let (Some(_), Some(problem)) = (&owner, unknown_accounts(snap).into_iter().next()) {
            return Err(problem);
        }
        let user = owner.as_ref().map(|owner| owner.name().to_string());
        let workers_at_start = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let mut hosts = Hosts::default();
        let pools = wanted.iter().map(|spec| {
            let have = self.list.iter().find(|pool| pool.spec.socket == spec.socket);
            let program = Program::find(&spec.settings)?.hosted(&mut hosts);
            let kept = have.map(|pool| Kept::of(&pool.is_named_again));
            let door = match have {
                Some(_) => None,
                None => {
                    let ids = owner.as_ref().map(crate::host::Identity::ids);
                    Some(Door::open(spec, ids, program.takes_orders())?)
                }
            };
            Ok(NextPool { spec: spec.clone(), user: user.clone(), workers_at_start, program, door, kept })
        });
        Ok(Next { pools: pools.collect::<Result<_, Diag>>()? })
    }

    /// From now on these pools are wanted.
    pub fn commit(&mut self, next: Next) {
        for pool in &mut self.list {
            if !next.pools.iter().any(|want| want.spec.socket == pool.spec.socket) {
                pool.leave();
            }
        }
        for want in next.pools {
            let NextPool { spec, user, workers_at_start, program, door, kept: _kept } = want;
            if let Some(pool) = self.list.iter_mut().find(|pool| pool.spec.socket == spec.socket) {
                let is_same = pool.spec.settings == spec.settings
                    && pool.program == program
                    && pool.user == user
                    && !pool.is_leaving;
                (pool.spec, pool.program, pool.user, pool.is_leaving) = (spec, program, user, false);
                if !is_same {
                    if let Err(error) = pool.door.set_orders(&pool.spec.control, pool.program.takes_orders())
                    {
                        let text = format!("PHP pool \"{}\" has no socket for orders ({error})", pool.name());
                        self.notes.push((LogLevel::Alert, text));
                    }
                    pool.replace();
                    self.notes.extend(pool.watch());
                }
                continue;
            }
            let Some(door) = door else { continue };
            let mut family = Family::new(POLICY);
            family.want(true);
            let mut pool = Pool {
                spec,
                user,
                workers_at_start,
                program,
                door,
                family,
                folders: None,
                callers: Vec::new(),
                crashed_starts: 0,
                is_leaving: false,
                is_named_again: Rc::default(),
            };
            self.notes.extend(pool.watch());
            self.list.push(pool);
        }
    }

    /// Has other processes take the place of a pool's, as after a change of its code. The caller is answered when they serve, or why
    /// they do not.
    pub fn reload(&mut self, name: &str, call: Call) {
        let known: Vec<&str> = self.list.iter().map(Pool::name).collect();
        let known = known.join(", ");
        match self.list.iter_mut().find(|pool| pool.name() == name && !pool.is_leaving) {
            Some(pool) => {
                // Somebody has removed the names of its sockets.
                if !pool.door.is_named()
                    && let Ok(door) = pool.door.again()
                {
                    pool.door = door;
                }
                call.waits_for("the pool's new processes to serve");
                pool.callers.push(call);
                pool.replace();
            }
            None if known.is_empty() => call.answer(&Err("the configuration has no php_pool".into())),
            None => call.answer(&Err(format!("there is no php_pool \"{name}\"; there is {known}"))),
        }
    }

    /// The server ends: no pool is wanted any more.
    pub fn end(&mut self, at_once: bool) {
        let signal = if at_once { Signal::TERM } else { Signal::QUIT };
        for pool in &mut self.list {
            pool.is_leaving = true;
            pool.family.want(false);
            let until = Instant::now() + END_TIME;
            for pid in pool.family.pids() {
                pool.signal(pid, signal);
                pool.family.draining(pid, Some(until));
            }
        }
    }

    /// Whether [`Pools::end`] was called.
    pub fn is_ending(&self) -> bool {
        self.list.iter().all(|pool| pool.is_leaving)
    }

    /// Whether no process is left.
    pub fn is_empty(&self) -> bool {
        self.list.iter().all(|pool| pool.family.is_empty())
    }

    /// Their logs are opened again, here: pool masters may not write where root may. PHP-FPM is root as we are, and does so itself;
    /// php-cgi has none.
    pub fn reopen(&mut self) {
        for pool in &self.list {
            match pool.program.kind {
                // The one that is tried next opens them.
                Kind::Master if pool.door.is_closed() => continue,
                Kind::Master => {}
                Kind::Fpm => {
                    pool.family.pids().into_iter().for_each(|pid| pool.signal(pid, Signal::USR1));
                    continue;
                }
                Kind::Cgi => continue,
            }
            for (name, path) in pool.spec.settings.logs() {
                let problem = match open_log(path).map(|file| pool.send_log(name, &file)) {
                    Ok(Ok(())) => continue,
                    Ok(Err(error)) => format!("PHP pool \"{}\" could not be given it ({error})", pool.name()),
                    Err(error) => format!("open() failed ({})", brisk_conf::os_text(&error)),
                };
                self.notes.push((LogLevel::Error, format!("\"{path}\" was not opened again: {problem}")));
            }
        }
    }

    /// Another server has taken the names of sockets, and has ended: they are taken back.
    pub fn rebind(&mut self) {
        for pool in &mut self.list {
            if pool.is_leaving {
                continue;
            }
            if pool.door.is_named() {
                // The other server had the names when this pool began to serve.
                if pool.door.is_closed() && pool.serves() {
                    self.notes.extend(pool.open_door());
                }
                continue;
            }
            match pool.door.again() {
                Ok(door) => {
                    pool.door = door;
                    pool.replace();
                }
                Err(error) => {
                    let text =
                        format!("binding the socket of PHP pool \"{}\" again failed ({error})", pool.name());
                    self.notes.push((LogLevel::Alert, text));
                }
            }
        }
    }

    /// In a worker that was forked: lets go of everything but the sign that the server lives.
    pub fn forget(&mut self) {
        for pool in &mut self.list {
            pool.family.clear();
        }
        self.list.clear();
        self.notes.clear();
    }

    /// What becomes readable when there is something to be done.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let processes = self.list.iter().flat_map(|pool| pool.family.iter());
        let processes = processes.flat_map(|process| {
            let output = (!process.link.child.output.is_closed()).then(|| process.link.child.output.as_fd());
            process.link.ready.as_ref().map(AsFd::as_fd).into_iter().chain(output)
        });
        processes.chain(self.list.iter().filter_map(|pool| pool.folders.as_ref().map(Folders::fd)))
    }

    /// When [`Pools::turn`] is to be called at the latest.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        let folders = self.list.iter().filter_map(|pool| pool.folders.as_ref()?.next());
        let lasting = self.list.iter().flat_map(|pool| pool.family.iter()).filter_map(serves_from);
        self.list.iter().filter_map(|pool| pool.family.next(now)).chain(folders).chain(lasting).min()
    }

    /// Reads what processes say, and does what is due.
    pub fn turn(&mut self, now: Instant) {
        for at in 0..self.list.len() {
            self.read(at, Some(now));
            let pool = &mut self.list[at];
            if pool.folders.as_mut().is_some_and(|folders| folders.take_change(now)) && !pool.is_leaving {
                let text =
                    format!("code of PHP pool \"{}\" has changed: new processes take over", pool.name());
                self.notes.push((LogLevel::Notice, text));
                pool.replace();
            }
            while let Some(due) = self.list[at].family.due(now) {
                match due {
                    Due::Start => self.start(at, now),
                    Due::StartOverdue(pid) => {
                        let pool = &mut self.list[at];
                        pool.signal(pid, Signal::KILL);
                        pool.family.gave_up_start(pid, now);
                        let text =
                            format!("the master {pid} of PHP pool \"{}\" did not start in time", pool.name());
                        self.notes.push((LogLevel::Alert, text));
                        self.cannot_be_started(at, "it did not start in time");
                    }
                    Due::EndOverdue(pid) => {
                        let pool = &mut self.list[at];
                        pool.signal(pid, Signal::KILL);
                        pool.family.killed(pid);
                    }
                }
            }
        }
        self.list.retain(|pool| !pool.is_leaving || !pool.family.is_empty() || pool.is_named_again.get());
    }

    /// A child has ended; `with_error`: by itself, since it could not go on. False if it is no pool's.
    pub fn gone(&mut self, pid: Pid, how: &str, with_error: bool, now: Instant) -> bool {
        let Some(at) = self.list.iter().position(|pool| pool.family.get(pid).is_some()) else {
            return false;
        };
        // It serves no more, however long it has lasted.
        self.read(at, None);
        let pool = &mut self.list[at];
        let Some(gone) = pool.family.gone(pid, now) else { return false };
        let was_told = matches!(gone.state, State::Draining { .. } | State::Killed);
        let level = if was_told { LogLevel::Notice } else { LogLevel::Alert };
        let text = format!("the master {pid} of PHP pool \"{}\" {how}", pool.name());
        let is_awaited = match gone.state {
            State::Starting { .. } => true,
            // Another start may be under way by now, which the callers wait for.
            State::Killed => !pool.is_starting(),
            State::Ready { .. } | State::Stuck | State::Draining { .. } => false,
        };
        if is_awaited {
            let rest = if pool.serves() { ", and the processes before go on" } else { "" };
            pool.answer(&Err(format!("{text}; the error log says why{rest}")));
        }
        self.notes.push((level, text));
        let gave_up = match gone.state {
            State::Starting { .. } if with_error => true,
            State::Starting { .. } => {
                pool.crashed_starts += 1;
                pool.crashed_starts >= POOL_CRASHED_STARTS_MAX
            }
            // For one that was killed another is started, and connections wait for that.
            State::Ready { .. } | State::Stuck => with_error,
            State::Draining { .. } | State::Killed => false,
        };
        if gave_up {
            self.cannot_be_started(at, gone.link.reason.or(how));
        }
        true
    }

    /// Where none of a pool's processes serves, or is about to, nobody is to wait until others do: requests are refused until then.
    fn cannot_be_started(&mut self, at: usize, why: &str) {
        let pool = &mut self.list[at];
        let has_sockets = |state: State| !matches!(state, State::Draining { .. } | State::Killed);
        if pool.is_leaving || pool.family.iter().any(|process| has_sockets(process.state)) {
            return;
        }
        let text = match pool.door.close() {
            Ok(true) => refusal(pool.name(), why),
            Ok(false) => return,
            Err(error) => format!(
                "PHP pool \"{}\" cannot be started ({why}), and its sockets could not be closed ({error}): its requests wait",
                pool.name()
            ),
        };
        self.notes.push((LogLevel::Alert, text));
    }

    /// What is to be logged since the last call.
    pub fn notes(&mut self) -> Vec<(LogLevel, String)> {
        std::mem::take(&mut self.notes)
    }

    /// `now`: those that have lasted for long enough by then are taken to serve.
    fn read(&mut self, at: usize, now: Option<Instant>) {
        let pool = &mut self.list[at];
        let (mut ready, mut notes) = (Vec::new(), Vec::new());
        for process in pool.family.iter_mut() {
            let mut serves = serves_from(process).is_some_and(|from| now.is_some_and(|now| from <= now));
            let (pid, process) = (process.pid, &mut process.link);
            let says_ready = process.says_ready;
            process.child.output.lines(|line| {
                serves |= says_ready == SaysReady::InOutput && line.ends_with("ready to handle connections");
                let note = note(line);
                process.reason.note(&note);
                notes.push(note);
            });
            if serves {
                process.says_ready = SaysReady::Done;
                ready.push(pid);
            }
            let mut text = [0; 64];
            match process.ready.as_mut().map(|pipe| pipe.read(&mut text)) {
                Some(Ok(0)) => process.ready = None,
                Some(Ok(count)) if text[..count].starts_with(b"ready") => {
                    process.ready = None;
                    ready.push(pid);
                }
                _ => {}
            }
        }
        let name = pool.name().to_string();
        for pid in ready {
            // One that is to end has said it in the same moment.
            if !pool.family.ready(pid) {
                continue;
            }
            pool.crashed_starts = 0;
            if let Some(process) = pool.family.get_mut(pid) {
                process.link.reason.serves();
            }
            notes.extend(pool.open_door());
            notes.push((LogLevel::Notice, format!("the master {pid} of PHP pool \"{name}\" serves")));
            pool.retire_others(pid);
            pool.answer(&Ok(format!("process {pid}")));
        }
        self.notes.append(&mut notes);
    }

    fn start(&mut self, at: usize, now: Instant) {
        let started = self.lifeline().and_then(|lifeline| self.list[at].start(lifeline));
        let pool = &mut self.list[at];
        let name = pool.name().to_string();
        match started {
            Ok(process) => {
                let pid = process.child.pid;
                pool.family.started(pid, process, now);
                let by = match pool.program.kind {
                    Kind::Master => String::new(),
                    Kind::Fpm | Kind::Cgi => format!(": {}", pool.program),
                };
                self.notes
                    .push((LogLevel::Notice, format!("start the master {pid} of PHP pool \"{name}\"{by}")));
                if let Some(user) =
                    pool.spec.settings.user().filter(|user| crate::host::is_out_of_reach(user))
                {
                    let text = format!(
                        "PHP pool \"{name}\" runs as the server's user and not as \"{user}\", since the server is not root"
                    );
                    self.notes.push((LogLevel::Warn, text));
                }
            }
            Err(error) => {
                pool.family.start_failed(now);
                pool.answer(&Err(format!("starting the pool's processes failed ({error})")));
                let program = pool.program.path.display();
                let text = format!("starting \"{program}\" for PHP pool \"{name}\" failed ({error})");
                self.notes.push((LogLevel::Alert, text));
                self.cannot_be_started(at, &error.to_string());
            }
        }
    }

    fn lifeline(&mut self) -> io::Result<OwnedFd> {
        if self.lifeline.is_none() {
            self.lifeline = Some(io::pipe()?);
        }
        match &self.lifeline {
            Some((reader, _)) => Ok(reader.try_clone()?.into()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

/// From when on a process that does not say that it serves is taken to do so.
fn serves_from(process: &Member<Process>) -> Option<Instant> {
    match process.state {
        State::Starting { since, .. } if process.link.says_ready == SaysReady::ByLasting => {
            Some(since + POLICY.healthy_after)
        }
        _ => None,
    }
}

fn open_log(path: &str) -> io::Result<File> {
    // A named pipe that nobody reads is an error, and nothing to wait for.
    File::options().append(true).create(true).mode(0o640).custom_flags(libc::O_NONBLOCK).open(path)
}

impl Pool {
    fn name(&self) -> &str {
        &self.spec.settings.pool
    }

    fn signal(&self, pid: Pid, signal: Signal) {
        if let Some(process) = self.family.get(pid) {
            process.link.child.signal(signal);
        }
    }

    /// Gives its processes another file to write a log to.
    fn send_log(&self, name: &str, file: &File) -> io::Result<()> {
        // The master process never waits for one that takes no callers.
        let stream = connect::unix_at_once(&self.spec.control)?;
        channel::send_with_fd(&stream, format!("log {name}\n").as_bytes(), file.as_fd())
    }

    /// It serves: who asks can connect. Gives what the log is to be told.
    fn open_door(&mut self) -> Option<(LogLevel, String)> {
        let error = self.door.reopen().err()?;
        let text = format!("the sockets of PHP pool \"{}\" could not be opened again ({error})", self.name());
        Some((LogLevel::Alert, text))
    }

    fn answer(&mut self, answer: &Result<String, String>) {
        std::mem::take(&mut self.callers).into_iter().for_each(|call| call.answer(answer));
    }

    /// Watches what is to be watched now; gives what the log is to be told.
    fn watch(&mut self) -> Option<(LogLevel, String)> {
        let roots = &self.spec.settings.watched;
        self.folders = None;
        if roots.is_empty() {
            return None;
        }
        match Folders::watch(roots.iter().map(String::as_str)) {
            Ok(folders) => {
                self.folders = Some(folders);
                None
            }
            Err(error) => {
                let name = self.name();
                let text = format!(
                    "PHP pool \"{name}\" watches nothing: {error}; \"brisk php reload {name}\" tells it of changes"
                );
                Some((LogLevel::Error, text))
            }
        }
    }

    /// Another process is to be started; those that serve go on until it does. One that does not serve yet begins with what was before, or
    /// hangs: nobody waits for it any more. It may have answered requests all the same, so it finishes what it has begun.
    fn replace(&mut self) {
        self.family.want(true);
        let is_starting = |state: State| matches!(state, State::Starting { .. });
        let all: Vec<_> = self.family.iter().map(|one| (one.pid, is_starting(one.state))).collect();
        for (pid, is_starting) in all {
            if is_starting {
                self.signal(pid, Signal::QUIT);
                self.family.draining(pid, Some(Instant::now() + END_TIME));
            } else {
                self.family.stuck(pid);
            }
        }
    }

    /// Whether any of its processes takes requests.
    fn serves(&self) -> bool {
        let serves = |state: State| matches!(state, State::Ready { .. } | State::Stuck);
        self.family.iter().any(|process| serves(process.state))
    }

    fn is_starting(&self) -> bool {
        self.family.iter().any(|process| matches!(process.state, State::Starting { .. }))
    }

    fn retire_others(&mut self, pid: Pid) {
        for other in self.family.pids().into_iter().filter(|other| *other != pid) {
            self.signal(other, Signal::QUIT);
            self.family.draining(other, None);
        }
    }

    /// No request comes any more.
    fn leave(&mut self) {
        self.is_leaving = true;
        self.family.want(false);
        for pid in self.family.pids() {
            self.signal(pid, Signal::QUIT);
            self.family.draining(pid, None);
        }
    }

    fn start(&self, lifeline: OwnedFd) -> io::Result<Process> {
        match self.program.kind {
            Kind::Master => self.start_master(lifeline),
            Kind::Fpm => self.start_fpm(),
            Kind::Cgi => self.start_cgi(),
        }
    }

    fn start_master(&self, lifeline: OwnedFd) -> io::Result<Process> {
        let (reader, writer) = io::pipe()?;
        rustix::io::ioctl_fionbio(&reader, true)?;
        let ini = self.program.ini(&self.spec.settings);
        let ini = (ini.0.as_deref(), ini.1.as_deref());
        let settings = self.spec.settings.encode(self.user.as_deref(), ini, self.workers_at_start);
        let settings = memory_file(settings.as_bytes())?;
        let (listener, control) = (self.door.requests()?, self.door.orders()?);
        let mut command = self.program.command();
        // The name is for ps until the pool master has a title, and makes room for that.
        command.args(["--pool", &format!("{:32}", self.name())]);
        // Logs may go where the server's own output goes.
        let out = io::stdout().as_fd().try_clone_to_owned()?;
        let error = io::stderr().as_fd().try_clone_to_owned()?;
        let descriptors = vec![listener, control, lifeline, writer.into(), settings, out, error];
        let confinement = Confinement { account: None, limits: Vec::new(), death_signal: None, descriptors };
        let child = Child::start(command, confinement)?;
        Ok(Process { child, ready: Some(reader), says_ready: SaysReady::Pipe, reason: Reason::default() })
    }

    /// PHP-FPM takes a socket that is open already, as from itself when it is reloaded. It is told another name of it: when it ends it removes
    /// that, while the next one serves.
    fn start_fpm(&self) -> io::Result<Process> {
        let socket = self.spec.socket.with_extension("fpm").display().to_string();
        let file = memory_file(self.spec.settings.fpm_file(self.user.as_deref(), &socket).as_bytes())?;
        let listener = self.door.requests()?;
        let mut command = Command::new(&self.program.path);
        command.args(["-F", "-y", "/proc/self/fd/4"]).env("FPM_SOCKETS", format!("{socket}=3"));
        if let Some(ini) = self.spec.settings.php_ini() {
            command.args(["-c", ini]);
        }
        let confinement = Confinement {
            account: None,
            limits: Vec::new(),
            death_signal: Some(Signal::QUIT),
            descriptors: vec![listener, file],
        };
        let child = Child::start(command, confinement)?;
        Ok(Process { child, ready: None, says_ready: SaysReady::InOutput, reason: Reason::default() })
    }

    /// php-cgi takes the socket as its input, and makes its children by itself.
    fn start_cgi(&self) -> io::Result<Process> {
        let listener = self.door.requests()?;
        let settings = &self.spec.settings;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "exec \"$0\" \"$@\" 0<&3 3<&-"]).arg(&self.program.path);
        command.args(settings.php_arguments());
        command
            .env("PHP_FCGI_CHILDREN", settings.children_max().to_string())
            .env("PHP_FCGI_MAX_REQUESTS", "500");
        let confinement = Confinement {
            account: self.account()?,
            limits: Vec::new(),
            death_signal: Some(Signal::TERM),
            descriptors: vec![listener],
        };
        let child = Child::start(command, confinement)?;
        Ok(Process { child, ready: None, says_ready: SaysReady::ByLasting, reason: Reason::default() })
    }

    /// The user that a program without a way of its own to become one is started as.
    fn account(&self) -> io::Result<Option<Account>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let name = self.spec.settings.user().or(self.user.as_deref()).unwrap_or("nobody");
        let unknown = || io::Error::new(io::ErrorKind::NotFound, format!("there is no user \"{name}\""));
        let user = brisk_net::sys::user(name).filter(|user| user.uid != 0).ok_or_else(unknown)?;
        Ok(Some(Account { uid: user.uid, gid: user.gid, groups: brisk_net::sys::groups(name, user.gid) }))
    }
}
