//! The master process: keeps sockets, logs and the last accepted configuration; starts workers and restarts those
//! that die; obeys signals and the control socket. It has one thread and serves nobody itself.

use crate::bundle::Bundle;
use crate::channel::{Channel, Message};
use crate::config::{self, Paths};
use crate::control::{Control, Order};
use crate::launch::{logs_of, pid_file, write_pid};
use crate::process::{self, Start};
use crate::sockets::Sockets;
use crate::{host, systemd, upgrade};
use brisk_net::listen::Address;
use brisk_net::sys;
use brisk_server::conf::{LogTarget, Snapshot};
use brisk_server::core::{CoreConf, LogLevel, MainConf};
use brisk_server::log::LogFile;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Pid, Signal, WaitOptions, kill_process};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SIGNALS: &[i32] = &[
    libc::SIGHUP, libc::SIGQUIT, libc::SIGTERM, libc::SIGINT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGWINCH,
    libc::SIGCHLD,
];

/// A worker that dies sooner than this after its start is started again only after a pause.
const HEALTHY_AFTER: Duration = Duration::from_secs(1);
const RESTART_PAUSE: Duration = Duration::from_millis(200);
/// How long the master waits for a worker to carry out an order.
const ORDER_TIMEOUT: Duration = Duration::from_secs(60);

struct WorkerProcess {
    pid: Pid,
    channel: Channel,
    started: Instant,
    draining: bool,
}

/// What of the configuration concerns the process as a whole, kept when the rest is dropped.
struct Current {
    main: Arc<MainConf>,
    core: Arc<CoreConf>,
    logs: Vec<Arc<LogFile>>,
    /// Addresses in the order of the snapshot.
    addresses: Vec<Address>,
    bundle: Bundle,
}

struct Master {
    paths: Paths,
    current: Current,
    sockets: Sockets,
    workers: Vec<WorkerProcess>,
    generation: u64,
    pid_path: String,
    control: Option<Control>,
    signals: OwnedFd,
    /// Ends when the last worker has.
    ending: bool,
    /// WINCH: no workers are wanted (an upgrade is being tried).
    idle: bool,
    restart_at: Option<Instant>,
    /// The new binary's master during an upgrade.
    successor: Option<Pid>,
}

/// Runs the master until it is told to end; gives the exit code.
pub fn run(
    paths: &Paths,
    snap: Snapshot,
    bundle: Bundle,
    logs: Vec<Arc<LogFile>>,
    sockets: Sockets,
) -> Result<i32, String> {
    let signals = sys::signal_fd(SIGNALS).map_err(|e| format!("signalfd() failed ({e})"))?;
    let pid_path = pid_file(paths, &snap);
    let current = Current {
        main: snap.main.clone(),
        core: snap.core.clone(),
        logs,
        addresses: snap.listens.iter().map(|l| l.address.clone()).collect(),
        bundle,
    };
    let mut master = Master {
        paths: paths.clone(),
        current,
        sockets,
        workers: Vec::new(),
        generation: 1,
        control: None,
        pid_path,
        signals,
        ending: false,
        idle: false,
        restart_at: None,
        successor: None,
    };
    if !master.start_worker(Some(snap))? {
        return Ok(0);
    }
    sys::release_free_memory();
    master.await_worker()?;
    if paths.inline.is_none() {
        write_pid(&master.pid_path)?;
        master.control = Control::open(&master.pid_path);
    }
    upgrade::announce();
    systemd::ready(master.generation);
    Ok(master.supervise())
}

impl Master {
    fn log(&self, level: LogLevel, message: &str) {
        brisk_net::clock::refresh();
        let line = brisk_server::log::line(level, None, format_args!("{message}"));
        for to in self.current.core.error_log.iter().filter(|to| to.level >= level) {
            self.current.logs[to.log.0 as usize].write(line.as_bytes());
        }
    }

    /// Forks a worker. In the child it never comes back; `Ok(true)` in the parent. The configuration is the one just
    /// built, or is built anew, in the child, from the last accepted bundle.
    fn start_worker(&mut self, snap: Option<Snapshot>) -> Result<bool, String> {
        let (mine, theirs) = Channel::pair().map_err(|e| format!("socketpair() failed ({e})"))?;
        match sys::fork().map_err(|e| format!("fork() failed ({e})"))? {
            sys::Fork::Parent(pid) => {
                let pid = Pid::from_raw(pid).ok_or("fork() gave no pid")?;
                self.workers.push(WorkerProcess { pid, channel: mine, started: Instant::now(), draining: false });
                Ok(true)
            }
            sys::Fork::Child => {
                drop(mine);
                let code = self.child(snap, &theirs);
                sys::exit_now(code)
            }
        }
    }

    fn child(&mut self, snap: Option<Snapshot>, channel: &Channel) -> i32 {
        // What belongs to the master alone must not live on here.
        self.control = None;
        self.workers.clear();
        sys::unblock_signals();
        let snap = match snap {
            Some(snap) => snap,
            None => match config::load_bundle(&self.paths, &self.current.bundle) {
                Some(snap) => snap,
                None => return 2,
            },
        };
        let Ok(sockets) = self.sockets.all() else { return 2 };
        let start = Start {
            paths: self.paths.clone(),
            snap: Arc::new(snap),
            logs: self.current.logs.clone(),
            sockets,
            generation: self.generation,
        };
        process::main(start, channel)
    }

    /// Waits until the newest worker serves.
    fn await_worker(&mut self) -> Result<(), String> {
        let worker = self.workers.last().ok_or("no worker")?;
        match wait_reply(&worker.channel) {
            Some(Message::Done { .. }) => Ok(()),
            Some(Message::Failed { reason }) => Err(reason),
            _ => Err("the worker process ended while starting; see the error log".into()),
        }
    }

    fn supervise(&mut self) -> i32 {
        loop {
            if self.ending && self.workers.is_empty() {
                self.leave();
                return 0;
            }
            let (signal, control) = self.wait();
            if signal {
                while let Some(signal) = sys::read_signal(self.signals.as_fd()) {
                    self.signal(signal);
                }
            }
            if control {
                self.serve_control();
            }
            if self.restart_at.is_some_and(|at| Instant::now() >= at) {
                self.restart_at = None;
                self.restart();
            }
        }
    }

    fn wait(&self) -> (bool, bool) {
        let mut waits = vec![PollFd::new(&self.signals, PollFlags::IN)];
        if let Some(control) = &self.control {
            waits.push(PollFd::new(control, PollFlags::IN));
        }
        let timeout = self.restart_at.map(|at| {
            let left = at.saturating_duration_since(Instant::now());
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
        });
        if poll(&mut waits, timeout.as_ref()).is_err() {
            return (false, false);
        }
        (!waits[0].revents().is_empty(), waits.get(1).is_some_and(|w| !w.revents().is_empty()))
    }

    fn signal(&mut self, signal: i32) {
        match signal {
            libc::SIGCHLD => self.reap(),
            libc::SIGHUP => {
                if self.idle {
                    // The upgrade is rolled back: serve again with what we have.
                    self.idle = false;
                    self.restart();
                } else if let Err(message) = self.reload() {
                    self.log(LogLevel::Emerg, &message);
                }
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
                    self.tell_all(&Message::Quit);
                }
            }
            libc::SIGQUIT => self.end(&Message::Quit),
            _ => self.end(&Message::Stop),
        }
    }

    fn end(&mut self, how: &Message) {
        if !self.ending {
            systemd::stopping();
        }
        self.ending = true;
        self.restart_at = None;
        self.tell_all(how);
    }

    fn tell_all(&mut self, message: &Message) {
        for worker in &mut self.workers {
            worker.draining = true;
            if worker.channel.send(message).is_err() {
                let _ = kill_process(worker.pid, Signal::TERM);
            }
        }
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
            if worker.draining {
                continue;
            }
            let how = match (status.terminating_signal(), status.exit_status()) {
                (Some(signal), _) => format!("exited on signal {signal}"),
                (None, code) => format!("exited with code {}", code.unwrap_or(0)),
            };
            self.log(LogLevel::Alert, &format!("worker process {} {how}", pid.as_raw_nonzero()));
            if self.ending || self.idle {
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
        let started = self.start_worker(None).and_then(|_| self.await_worker());
        if let Err(message) = started {
            self.log(LogLevel::Emerg, &message);
            self.restart_at = Some(Instant::now() + RESTART_PAUSE);
        }
    }

    fn serve_control(&mut self) {
        let Some(control) = &self.control else { return };
        let Some(mut call) = control.accept() else { return };
        let answer = match call.order() {
            Some(Order::Reload) => self.reload().map(|()| format!("generation {}", self.generation)),
            Some(Order::Reopen) => self.reopen().map(|()| "reopened".to_string()),
            Some(Order::Generation) => Ok(self.generation.to_string()),
            None => Err("unknown order".into()),
        };
        call.answer(&answer);
    }

    /// Reads the configuration anew and hands it to the worker. An error leaves everything as it was.
    fn reload(&mut self) -> Result<(), String> {
        systemd::reloading();
        let result = self.try_reload();
        sys::release_free_memory();
        systemd::ready(self.generation);
        match &result {
            Ok(()) => self.log(LogLevel::Notice, &format!("configuration generation {} is live", self.generation)),
            Err(_) => self.log(LogLevel::Error, "the new configuration is refused; the old one stays live"),
        }
        result
    }

    fn try_reload(&mut self) -> Result<(), String> {
        let outcome = config::load(&self.paths);
        for (level, text) in outcome.messages().filter(|(level, _)| *level <= brisk_conf::Level::Warn) {
            let level = if level <= brisk_conf::Level::Error { LogLevel::Emerg } else { LogLevel::Warn };
            let first = text.lines().next().unwrap_or_default();
            self.log(level, first.split_once("] ").map_or(first, |(_, rest)| rest));
        }
        let Some(loaded) = outcome.loaded else {
            let texts: Vec<String> = outcome
                .diags
                .iter()
                .filter(|d| d.is_error())
                .map(|d| d.render(&outcome.sources))
                .collect();
            return Err(texts.join("\n"));
        };
        let (snap, bundle) = (loaded.snap, loaded.bundle);
        host::check_user(&snap)?;
        let logs = logs_of(&snap)?;
        let fresh = self.sockets.prepare(&snap)?;
        let next = Current {
            main: snap.main.clone(),
            core: snap.core.clone(),
            logs,
            addresses: snap.listens.iter().map(|l| l.address.clone()).collect(),
            bundle,
        };
        let generation = self.generation + 1;
        if same_process(&self.current.main, &next.main) && self.workers.iter().any(|w| !w.draining) {
            self.hand_over(&snap, &next, &fresh, generation)?;
            self.adopt(&snap, next, fresh, generation);
            return Ok(());
        }
        // Threads, user or limits differ: another process takes over, and this one's requests are finished by it.
        let old: Vec<Pid> = self.workers.iter().map(|w| w.pid).collect();
        self.adopt(&snap, next, fresh, generation);
        self.start_worker(Some(snap))?;
        self.await_worker()?;
        for worker in self.workers.iter_mut().filter(|w| old.contains(&w.pid)) {
            worker.draining = true;
            let _ = worker.channel.send(&Message::Quit);
        }
        Ok(())
    }

    /// Gives the worker the bundle, its new sockets and all its logs; waits until it serves them.
    fn hand_over(&self, snap: &Snapshot, next: &Current, fresh: &[(Address, OwnedFd)], generation: u64) -> Result<(), String> {
        let copy = |fd: &OwnedFd| {
            rustix::io::fcntl_dupfd_cloexec(fd, 3).map_err(|e| format!("dup() failed ({e})"))
        };
        let mut fds = Vec::new();
        for address in snap.listens.iter().map(|l| &l.address).filter(|a| !self.current.addresses.contains(a)) {
            let fd = fresh.iter().find(|(have, _)| have == address).map(|(_, fd)| fd);
            fds.push(copy(fd.ok_or_else(|| format!("no socket for {address}"))?)?);
        }
        for log in &next.logs {
            fds.push(copy(log.fd())?);
        }
        let payload = next.bundle.encode();
        let worker = self.workers.iter().find(|w| !w.draining).ok_or("no worker")?;
        worker
            .channel
            .send(&Message::Configure { generation, payload, fds })
            .map_err(|e| format!("handing the configuration to the worker failed ({e})"))?;
        match wait_reply(&worker.channel) {
            Some(Message::Done { .. }) => Ok(()),
            Some(Message::Failed { reason }) => Err(reason),
            _ => Err("the worker process ended while taking the configuration".into()),
        }
    }

    fn adopt(&mut self, snap: &Snapshot, next: Current, fresh: Vec<(Address, OwnedFd)>, generation: u64) {
        self.sockets.commit(snap, fresh);
        self.current = next;
        self.generation = generation;
        let pid_path = pid_file(&self.paths, snap);
        if pid_path != self.pid_path && write_pid(&pid_path).is_ok() {
            let _ = std::fs::remove_file(&self.pid_path);
            self.control = Control::open(&pid_path);
            self.pid_path = pid_path;
        }
    }

    /// Opens all logs again by name. When it returns nothing is written to the old files any more.
    fn reopen(&mut self) -> Result<(), String> {
        let mut fds = Vec::new();
        let mut problem = None;
        for log in &self.current.logs {
            let opened = LogFile::open(&log.target);
            match (opened, &log.target) {
                (Ok(fd), LogTarget::File(_)) => {
                    let _ = log.replace(&fd);
                    fds.push(fd);
                }
                (Ok(fd), LogTarget::Stderr) => fds.push(fd),
                (Err(error), target) => {
                    // The old file stays in use: lines are better in the wrong place than nowhere.
                    problem = Some(format!("reopening {target:?} failed ({})", brisk_conf::os_text(&error)));
                    fds.push(rustix::io::fcntl_dupfd_cloexec(log.fd(), 3).map_err(|e| e.to_string())?);
                }
            }
        }
        for worker in self.workers.iter().filter(|w| !w.draining) {
            let copies = fds.iter().map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, 3)).collect::<Result<_, _>>();
            let message = Message::Reopen { fds: copies.map_err(|e| format!("dup() failed ({e})"))? };
            if worker.channel.send(&message).is_ok() {
                wait_reply(&worker.channel);
            }
        }
        problem.map_or(Ok(()), Err)
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

    fn leave(&self) {
        // After an upgrade the pid file and the sockets' names belong to the new binary.
        if self.successor.is_some() {
            upgrade::retire(&self.pid_path);
            return;
        }
        if self.paths.inline.is_none() {
            let _ = std::fs::remove_file(&self.pid_path);
            let _ = std::fs::remove_file(crate::control::socket_path(&self.pid_path));
        }
        self.sockets.unlink();
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
