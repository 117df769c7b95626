//! The master process: keeps sockets, logs and the last accepted configuration; starts workers and restarts those
//! that die; obeys signals and the control socket. It has one thread and serves nobody itself.

use crate::background::{self, Caller};
use crate::bundle::Bundle;
use crate::certificates::{self, Certificates};
use crate::channel::{Channel, Message};
use crate::config::{self, Loaded, Paths};
use crate::control::{Call, Control};
use crate::keeper::{self, Keeper};
use crate::launch::{claim, pid_file, write_pid};
use crate::process::{self, Start};
use crate::sockets::{self, Sockets};
use crate::{host, notice, systemd, upgrade};
use brisk_conf::Diag;
use brisk_load::output;
use brisk_net::listen::Address;
use brisk_net::sys;
use brisk_server::conf::{LogTarget, Snapshot};
use brisk_server::core::{CoreConf, LogLevel, MainConf};
use brisk_server::log::{self, Entry, LogFile};
use brisk_server::tls::Allowed;
use brisk_server::worker::Socket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Pid, Signal, WaitOptions, kill_process};
use std::sync::Arc;
use std::time::{Duration, Instant};

mod orders;

const SIGNALS: &[i32] = &[
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
    libc::SIGCHLD,
];

/// A worker that dies sooner than this after its start is started again only after a pause.
const HEALTHY_AFTER: Duration = Duration::from_secs(1);
const RESTART_PAUSE: Duration = Duration::from_millis(200);
/// A worker that was told to stop and has not ended by then is killed.
const STOP_TIME: Duration = Duration::from_secs(10);
/// How long the master waits for a worker to carry out an order.
const ORDER_TIMEOUT: Duration = Duration::from_mins(1);

struct WorkerProcess {
    pid: Pid,
    channel: Channel,
    /// Reads for it what it may not; until it closes its end.
    keeper: Option<Keeper>,
    started: Instant,
    draining: bool,
    /// In its order: a worker that drains still has those of its configuration.
    logs: Vec<LogTarget>,
}

impl WorkerProcess {
    /// Tells it to end, by `Quit` or `Stop`. After `Quit` it accepts nothing more when this returns.
    fn tell(&mut self, message: &Message) {
        self.draining = true;
        match self.channel.send(message) {
            Ok(()) if matches!(message, Message::Quit) => {
                wait_reply(&self.channel);
            }
            Ok(()) => {}
            Err(_) => {
                let _ = kill_process(self.pid, Signal::TERM);
            }
        }
    }
}

/// What a worker is started with where that is not what is live.
struct Fresh {
    snap: Snapshot,
    logs: Vec<Arc<LogFile>>,
    sockets: Vec<Socket>,
    generation: u64,
}

/// What of the configuration concerns the process as a whole, kept when the rest is dropped.
struct Current {
    main: Arc<MainConf>,
    core: Arc<CoreConf>,
    logs: Vec<Arc<LogFile>>,
    /// Addresses in the order of the snapshot.
    addresses: Vec<Address>,
    bundle: Bundle,
    /// What workers may have read for them.
    allowed: Arc<Allowed>,
    uses_raw_sockets: bool,
}

struct Master {
    paths: Paths,
    current: Current,
    sockets: Sockets,
    workers: Vec<WorkerProcess>,
    certificates: Certificates,
    generation: u64,
    pid_path: String,
    control: Option<Control>,
    /// Whoever waits for an answer on the control socket. Kept here so that a worker forked meanwhile can close it:
    /// the caller reads to the end.
    call: Option<Call>,
    signals: OwnedFd,
    /// Ends when the last worker has.
    ending: bool,
    /// WINCH: no workers are wanted (an upgrade is being tried).
    idle: bool,
    restart_at: Option<Instant>,
    kill_at: Option<Instant>,
    /// The new binary's master during an upgrade.
    successor: Option<Pid>,
    /// The old binary's master, if this one was started by it.
    predecessor: Option<Pid>,
    /// The process that waits until this one serves.
    caller: Caller,
}

/// Runs the master until it is told to end; gives the exit code. The error says why it does not serve; then nothing is left of
/// it.
pub fn run(
    paths: &Paths,
    snap: Snapshot,
    bundle: Bundle,
    logs: Vec<Arc<LogFile>>,
    mut sockets: Sockets,
    caller: Caller,
) -> Result<i32, String> {
    let signals = sys::signal_fd(SIGNALS).map_err(|error| {
        sockets.close(upgrade::predecessor().is_none());
        format!("signalfd() failed ({})", brisk_conf::os_text(&error))
    })?;
    let mut master = Master {
        paths: paths.clone(),
        current: Current::new(&snap, bundle, logs),
        sockets,
        workers: Vec::new(),
        certificates: Certificates::new(Vec::new()),
        generation: 1,
        control: None,
        call: None,
        pid_path: pid_file(paths, &snap.main),
        signals,
        ending: false,
        idle: false,
        restart_at: None,
        kill_at: None,
        successor: None,
        predecessor: upgrade::predecessor(),
        caller,
    };
    if let Err(message) = master.begin(snap) {
        master.log(LogLevel::Emerg, &message);
        master.abandon();
        return Err(message);
    }
    Ok(master.supervise())
}

impl Current {
    fn new(snap: &Snapshot, bundle: Bundle, logs: Vec<Arc<LogFile>>) -> Current {
        Current {
            main: snap.main.clone(),
            core: snap.core.clone(),
            logs,
            addresses: snap.listens.iter().map(|l| l.address.clone()).collect(),
            bundle,
            allowed: snap.allowed.clone(),
            uses_raw_sockets: snap.uses_raw_sockets,
        }
    }
}

impl Master {
    /// Starts the first worker, waits until it serves, and says so.
    fn begin(&mut self, snap: Snapshot) -> Result<(), String> {
        let logs = self.current.logs.clone();
        let sources = certificates::sources(&snap);
        let sockets =
            self.sockets.all().map_err(|e| format!("dup() failed ({})", brisk_conf::os_text(&e)))?;
        self.start_worker(Some(Fresh { snap, logs, sockets, generation: 1 }))?;
        sys::release_free_memory();
        self.await_worker()?;
        sys::forget_code();
        if let Some(inline) = &self.paths.inline {
            output::hint(&inline.welcome);
        } else {
            // The socket is there before the pid file: commands look for the pid file first.
            self.control = Control::open(&self.pid_path);
            write_pid(&self.pid_path)?;
        }
        upgrade::announce();
        self.certificates = Certificates::new(sources);
        self.log(LogLevel::Notice, &notice::serves(&self.paths, self.generation));
        systemd::ready(self.generation);
        self.caller.serving();
        Ok(())
    }

    /// Ends what [`Master::begin`] has started before it failed.
    fn abandon(&mut self) {
        for worker in self.workers.drain(..) {
            let _ = kill_process(worker.pid, Signal::KILL);
            let _ = rustix::process::waitpid(Some(worker.pid), WaitOptions::empty());
        }
        if self.control.take().is_some() {
            let _ = std::fs::remove_file(crate::control::socket_path(&self.pid_path));
        }
        self.close_sockets();
    }

    fn log(&self, level: LogLevel, message: &str) {
        brisk_net::clock::refresh();
        let current = &self.current;
        let message = format_args!("{message}");
        log::write_all(&current.core.error_log, &current.logs, &Entry::new(level, None, message));
    }

    /// Forks a worker. Without anything fresh it serves what is live, built anew from the last accepted bundle.
    fn start_worker(&mut self, fresh: Option<Fresh>) -> Result<(), String> {
        let (mine, theirs) = Channel::pair().map_err(|e| format!("socketpair() failed ({e})"))?;
        let allowed = fresh.as_ref().map_or(&self.current.allowed, |fresh| &fresh.snap.allowed).clone();
        let (keeper, asker) = keeper::pair(allowed).map_err(|e| format!("socketpair() failed ({e})"))?;
        let logs = targets(fresh.as_ref().map_or(&self.current.logs, |fresh| &fresh.logs));
        match sys::fork().map_err(|e| format!("fork() failed ({e})"))? {
            sys::Fork::Parent(pid) => {
                let pid = Pid::from_raw(pid).ok_or("fork() gave no pid")?;
                let started = Instant::now();
                let (channel, keeper) = (mine, Some(keeper));
                self.log(LogLevel::Notice, &format!("start worker process {}", pid.as_raw_nonzero()));
                self.workers.push(WorkerProcess { pid, channel, keeper, started, draining: false, logs });
                Ok(())
            }
            sys::Fork::Child => {
                drop((mine, keeper));
                asker.install();
                let code = self.child(fresh, &theirs);
                sys::exit_now(code)
            }
        }
    }

    fn child(&mut self, fresh: Option<Fresh>, channel: &Channel) -> i32 {
        // What belongs to the master alone must not live on here. Signals stay blocked: the worker reads its own.
        self.caller.forget();
        self.control = None;
        self.call = None;
        self.workers.clear();
        self.certificates = Certificates::new(Vec::new());
        let fresh = match fresh {
            Some(fresh) => fresh,
            None => {
                let snap = config::load_bundle(&self.paths, &self.current.bundle);
                let (Some(snap), Ok(sockets)) = (snap, self.sockets.all()) else { return 2 };
                Fresh { snap, logs: self.current.logs.clone(), sockets, generation: self.generation }
            }
        };
        // A socket that is closed later must not stay open in a corner of this process.
        self.sockets.close(false);
        let Fresh { snap, logs, sockets, generation } = fresh;
        process::main(
            Start { paths: self.paths.clone(), snap: Arc::new(snap), logs, sockets, generation },
            channel,
        )
    }

    /// Waits until the newest worker serves. One that does not is given up.
    fn await_worker(&mut self) -> Result<(), String> {
        let worker = self.workers.last_mut().ok_or("no worker")?;
        let problem = match wait_reply(&worker.channel) {
            Some(Message::Done { .. }) => return Ok(()),
            Some(Message::Failed { reason }) => reason,
            _ => "the worker process ended while starting; see the error log".into(),
        };
        worker.draining = true;
        let _ = kill_process(worker.pid, Signal::KILL);
        Err(problem)
    }

    fn supervise(&mut self) -> i32 {
        loop {
            if self.ending && self.workers.is_empty() {
                self.log(LogLevel::Notice, "exit");
                self.leave();
                return 0;
            }
            let (signal, control) = self.wait();
            if signal {
                while let Some(signal) = sys::read_signal(self.signals.as_fd()) {
                    if let Some(text) = notice::signal(&signal) {
                        self.log(LogLevel::Notice, &text);
                    }
                    self.signal(signal.number);
                }
            }
            if control {
                self.serve_control();
            }
            if self.certificates.is_due() {
                self.replace_certificates();
            }
            if self.restart_at.is_some_and(|at| Instant::now() >= at) {
                self.restart_at = None;
                self.restart();
            }
            if self.kill_at.is_some_and(|at| Instant::now() >= at) {
                self.kill_at = None;
                self.kill_all();
            }
        }
    }

    fn wait(&mut self) -> (bool, bool) {
        let mut waits = vec![PollFd::new(&self.signals, PollFlags::IN)];
        let control = self.control.as_ref().map(|control| {
            waits.push(PollFd::new(control, PollFlags::IN));
            waits.len() - 1
        });
        let changes = self.certificates.fd().map(|fd| {
            waits.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
            waits.len() - 1
        });
        let keepers = waits.len();
        waits.extend(self.keepers().map(|keeper| PollFd::from_borrowed_fd(keeper.fd(), PollFlags::IN)));
        let times = self.restart_at.into_iter().chain(self.kill_at).chain(self.certificates.next());
        let timeout = times.min().map(|at| {
            let left = at.saturating_duration_since(Instant::now());
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
        });
        if poll(&mut waits, timeout.as_ref()).is_err() {
            return (false, false);
        }
        let told = |index: usize| !waits[index].revents().is_empty();
        let (signal, control, changed) = (told(0), control.is_some_and(told), changes.is_some_and(told));
        let is_asked = (keepers..waits.len()).any(told);
        if changed {
            self.certificates.notice();
        }
        if is_asked {
            self.serve_files();
        }
        (signal, control)
    }

    fn keepers(&self) -> impl Iterator<Item = &Keeper> {
        self.workers.iter().filter_map(|worker| worker.keeper.as_ref())
    }

    /// Workers want files that they may not read.
    fn serve_files(&mut self) {
        for worker in &mut self.workers {
            worker.keeper.take_if(|keeper| !keeper.serve());
        }
    }

    /// Certificates may have been replaced on disk: those that have are handed to the workers.
    fn replace_certificates(&mut self) {
        let mut complaints = Vec::new();
        let fresh =
            self.certificates.changed(&mut self.current.bundle, |why| complaints.push(why.to_string()));
        complaints.iter().for_each(|why| self.log(LogLevel::Error, why));
        if fresh.files.is_empty() {
            return;
        }
        for path in fresh.files.keys() {
            self.log(LogLevel::Notice, &format!("\"{path}\" has changed and is used from now on"));
        }
        let payload = fresh.encode();
        for worker in self.workers.iter().filter(|worker| !worker.draining) {
            if worker.channel.send(&Message::Certificates { payload: payload.clone() }).is_ok() {
                wait_reply(&worker.channel);
            }
        }
    }

    fn signal(&mut self, signal: i32) {
        match signal {
            libc::SIGCHLD => self.reap(),
            // Who is ending starts nothing any more.
            libc::SIGHUP | libc::SIGUSR2 | libc::SIGWINCH if self.ending => {}
            libc::SIGHUP if self.successor.is_some() => self.roll_back(),
            libc::SIGHUP => {
                // A refusal is in the log.
                let _ = self.reload();
            }
            libc::SIGUSR1 => {
                if let Err(message) = self.reopen() {
                    self.log(LogLevel::Emerg, &message);
                }
            }
            libc::SIGUSR2 => self.upgrade(),
            libc::SIGWINCH => {
                // nginx obeys it only as a daemon: a terminal sends it with every change of its size.
                if self.current.main.daemon || self.successor.is_some() {
                    self.idle = true;
                    self.restart_at = None;
                    self.tell_all(&Message::Quit);
                }
            }
            libc::SIGQUIT => self.end(&Message::Quit),
            _ => {
                self.kill_at = Some(Instant::now() + STOP_TIME);
                self.end(&Message::Stop);
            }
        }
    }

    fn end(&mut self, how: &Message) {
        if !self.ending {
            systemd::stopping();
        }
        self.ending = true;
        self.restart_at = None;
        // Whoever comes now is refused, or served by the new binary.
        self.close_sockets();
        self.tell_all(how);
    }

    /// The files of unix sockets go too, unless another binary's master still listens there.
    fn close_sockets(&mut self) {
        let is_old_there = self.predecessor.is_some() && rustix::process::getppid() == self.predecessor;
        self.sockets.close(self.successor.is_none() && !is_old_there);
    }

    fn kill_all(&mut self) {
        for worker in &self.workers {
            self.log(
                LogLevel::Alert,
                &format!("worker process {} does not stop and is killed", worker.pid.as_raw_nonzero()),
            );
            let _ = kill_process(worker.pid, Signal::KILL);
        }
    }

    /// HUP during an upgrade: serve again with what we have, whatever the new binary does.
    fn roll_back(&mut self) {
        self.idle = false;
        if self.workers.iter().all(|worker| worker.draining) {
            self.restart();
        }
    }

    fn tell_all(&mut self, message: &Message) {
        self.workers.iter_mut().for_each(|worker| worker.tell(message));
    }

    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if self.successor == Some(pid) {
                self.successor = None;
                upgrade::failed(&self.pid_path);
                self.log(LogLevel::Notice, "the new binary's process has ended; this one goes on");
                continue;
            }
            // As PID 1 of a container, children of others end here too.
            let Some(at) = self.workers.iter().position(|w| w.pid == pid) else { continue };
            let worker = self.workers.remove(at);
            let how = match (status.terminating_signal(), status.exit_status()) {
                (Some(signal), _) => format!("exited on signal {signal}"),
                (None, code) => format!("exited with code {}", code.unwrap_or(0)),
            };
            let level = if worker.draining { LogLevel::Notice } else { LogLevel::Alert };
            self.log(level, &format!("worker process {} {how}", pid.as_raw_nonzero()));
            if worker.draining {
                continue;
            }
            if self.ending || self.idle || self.workers.iter().any(|worker| !worker.draining) {
                continue;
            }
            // The sockets are open: connections wait in the kernel until the next worker takes them.
            if worker.started.elapsed() < HEALTHY_AFTER {
                self.restart_at = Some(Instant::now() + RESTART_PAUSE);
            } else {
                self.restart();
            }
        }
    }

    fn restart(&mut self) {
        let started = self.start_worker(None).and_then(|()| self.await_worker());
        if let Err(message) = started {
            self.log(LogLevel::Emerg, &message);
            self.restart_at = Some(Instant::now() + RESTART_PAUSE);
        }
    }

    /// Reads the configuration anew and hands it to the worker. An error leaves everything as it was.
    fn reload(&mut self) -> Result<(), String> {
        systemd::reloading();
        let result = self.try_reload();
        sys::release_free_memory();
        systemd::ready(self.generation);
        match &result {
            Ok(()) => {
                self.log(LogLevel::Notice, &format!("configuration generation {} is live", self.generation));
            }
            Err(message) => {
                config::headlines(message).into_iter().for_each(|line| self.log(LogLevel::Emerg, line));
                self.log(LogLevel::Error, "the new configuration is refused; the old one stays live");
            }
        }
        result
    }

    fn try_reload(&mut self) -> Result<(), String> {
        self.waits_for("the configuration to be read");
        let Loaded { snap, bundle, sources: texts } =
            config::reload(&self.paths, |level, message| self.log(level, message))?;
        let told = |diag: Diag| diag.render(&texts);
        self.waits_for("folders, logs and sockets to be opened");
        let warnings = host::make_folders(&snap).map_err(told)?;
        warnings.iter().for_each(|warning| self.log(LogLevel::Warn, warning));
        let (logs, fresh) = claim(&self.paths, &snap, &self.sockets).map_err(told)?;
        let next = Current::new(&snap, bundle, logs);
        let sources = certificates::sources(&snap);
        let same_rights = self.current.uses_raw_sockets == next.uses_raw_sockets;
        if same_rights
            && same_process(&self.current.main, &next.main)
            && self.workers.iter().any(|w| !w.draining)
        {
            // The worker builds its own: two at a time are enough.
            drop((snap, texts));
            sys::release_free_memory();
            self.hand_over(&next, &fresh)?;
        } else {
            self.replace_worker(snap, &next, &fresh)?;
        }
        self.adopt(next, fresh);
        self.certificates = Certificates::new(sources);
        Ok(())
    }

    /// Gives the worker the bundle, its new sockets and all its logs; waits until it serves them.
    fn hand_over(&mut self, next: &Current, fresh: &[Socket]) -> Result<(), String> {
        let mut fds = Vec::new();
        for address in next.addresses.iter().filter(|a| !self.current.addresses.contains(a)) {
            let fd = fresh.iter().find(|(have, _)| have == address).map(|(_, fd)| fd);
            fds.push(copy(fd.ok_or_else(|| format!("no socket for {address}"))?)?);
        }
        for log in &next.logs {
            fds.push(copy(log.fd())?);
        }
        let (generation, payload) = (self.generation + 1, next.bundle.encode());
        let pid = self.workers.iter().find(|w| !w.draining).map_or(0, |w| w.pid.as_raw_nonzero().get());
        self.waits_for(&format!("worker process {pid} to serve the configuration"));
        let worker = self.workers.iter_mut().find(|w| !w.draining).ok_or("no worker")?;
        worker
            .channel
            .send(&Message::Configure { generation, payload, fds })
            .map_err(|e| format!("handing the configuration to the worker failed ({e})"))?;
        match wait_reply(&worker.channel) {
            Some(Message::Done { .. }) => {
                worker.logs = targets(&next.logs);
                if let Some(keeper) = &mut worker.keeper {
                    keeper.allow(next.allowed.clone());
                }
                Ok(())
            }
            Some(Message::Failed { reason }) => Err(reason),
            _ => Err("the worker process ended while taking the configuration".into()),
        }
    }

    /// Threads, user or limits differ: another process takes over, and what the present one has begun is finished
    /// by it.
    fn replace_worker(&mut self, snap: Snapshot, next: &Current, fresh: &[Socket]) -> Result<(), String> {
        let sockets =
            self.sockets.copies(&next.addresses, fresh).map_err(|e| format!("dup() failed ({e})"))?;
        let old: Vec<Pid> = self.workers.iter().map(|w| w.pid).collect();
        let fresh = Fresh { snap, logs: next.logs.clone(), sockets, generation: self.generation + 1 };
        self.waits_for("another worker process to start");
        self.start_worker(Some(fresh))?;
        self.await_worker()?;
        for worker in self.workers.iter_mut().filter(|w| old.contains(&w.pid)) {
            worker.tell(&Message::Quit);
        }
        self.restart_at = None;
        self.idle = false;
        Ok(())
    }

    /// The new configuration is being served: makes it the one that counts.
    fn adopt(&mut self, next: Current, fresh: sockets::Fresh) {
        self.sockets.commit(&next.addresses, fresh);
        self.current = next;
        self.lead_errors();
        self.generation += 1;
        let pid_path = pid_file(&self.paths, &self.current.main);
        if pid_path != self.pid_path && write_pid(&pid_path).is_ok() {
            let _ = std::fs::remove_file(&self.pid_path);
            let _ = std::fs::remove_file(crate::control::socket_path(&self.pid_path));
            self.control = Control::open(&pid_path);
            self.pid_path = pid_path;
        }
    }

    fn lead_errors(&self) {
        if self.paths.detached {
            background::lead_errors(&self.current.core, &self.current.logs);
        }
    }

    fn upgrade(&mut self) {
        if self.successor.is_some() {
            self.log(LogLevel::Error, "the changing binary signal is ignored: an upgrade is under way");
            return;
        }
        // The new master binds its own control socket beside its own pid file.
        match upgrade::start(&self.pid_path, self.sockets.fds()) {
            Ok(pid) => {
                self.successor = Pid::from_raw(pid);
                self.log(LogLevel::Notice, &format!("start new binary process {pid}"));
            }
            Err(error) => {
                upgrade::failed(&self.pid_path);
                self.log(LogLevel::Alert, &format!("starting the new binary failed ({error})"));
            }
        }
    }

    fn leave(&mut self) {
        // After an upgrade the pid file and the sockets' names belong to the new binary.
        if self.successor.is_some() {
            upgrade::retire(&self.pid_path);
            return;
        }
        if self.paths.inline.is_none() {
            let _ = std::fs::remove_file(&self.pid_path);
            let _ = std::fs::remove_file(crate::control::socket_path(&self.pid_path));
        }
        self.close_sockets();
    }
}

/// Whether a worker can take the new configuration without being another process.
fn same_process(a: &MainConf, b: &MainConf) -> bool {
    host::threads(a) == host::threads(b)
        && a.affinity == b.affinity
        && a.user == b.user
        && a.priority == b.priority
        && a.rlimit_nofile == b.rlimit_nofile
        && a.rlimit_core == b.rlimit_core
        && a.working_directory == b.working_directory
        && a.env == b.env
        && a.thread_pools == b.thread_pools
}

fn targets(logs: &[Arc<LogFile>]) -> Vec<LogTarget> {
    logs.iter().map(|log| log.target.clone()).collect()
}

fn copy(fd: &OwnedFd) -> Result<OwnedFd, String> {
    rustix::io::fcntl_dupfd_cloexec(fd, 3).map_err(|e| format!("dup() failed ({e})"))
}

/// The next message of a worker, or nothing if it ends or takes too long.
fn wait_reply(channel: &Channel) -> Option<Message> {
    let deadline = Instant::now() + ORDER_TIMEOUT;
    loop {
        let fd = channel.fd();
        let mut waits = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut waits, Some(&timeout)) {
            Ok(0) => return None,
            Ok(_) => return channel.receive().ok().flatten(),
            Err(_) => {}
        }
    }
}
