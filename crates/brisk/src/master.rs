//! The master process: keeps sockets, logs and the last accepted configuration; starts workers and replaces those that die or do
//! not answer; obeys signals and the control socket. It has one thread and answers no requests.
//!
//! It never waits for a worker: orders are given and their answers are taken when they come ([`workers`]), beside signals, callers
//! and everything else that [`turn`] looks at. What is under way is kept as a value: a reload is a [`change::Change`], an order to
//! all workers a [`rounds::Round`].

use crate::background::{self, Caller};
use crate::bundle::Bundle;
use crate::certificates::{self, Certificates};
use crate::claim::write_pid;
use crate::config::Paths;
use crate::control::{Control, socket_path};
use crate::orders::Order;
use crate::pools::{self, Pools};
use crate::programs::{self, Programs};
use crate::sockets::Sockets;
use crate::takeover::{Taken, Token};
use crate::{notice, systemd, upgrade};
use brisk_load::output;
use brisk_net::{fault, sys};
use brisk_server::conf::Snapshot;
use brisk_server::core::LogLevel;
use brisk_server::log::{self, Entry, LogFile};
use brisk_server::news::News;
use brisk_server::tls::Source;
use brisk_supervise::{Family, Pid};
use std::sync::Arc;
use std::time::Instant;

mod change;
mod reading;
mod rounds;
mod state;
mod succession;
mod telling;
mod turn;
mod workers;

use state::{Current, Master, Stage};

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

/// What a master starts with.
pub struct Start {
    pub snap: Snapshot,
    pub bundle: Bundle,
    pub logs: Vec<Arc<LogFile>>,
    pub sockets: Sockets,
    /// A worker whose master was killed.
    pub orphan: Option<Box<Taken>>,
    /// PHP pools of the configuration.
    pub pools: pools::Next,
    /// Programs that it supervises.
    pub programs: programs::Next,
}

/// Runs the master until it is told to end; gives the exit code. The error says why it does not serve; then nothing is left of
/// it.
pub fn run(paths: &Paths, start: Start, caller: Caller) -> Result<i32, String> {
    let Start { snap, bundle, logs, mut sockets, orphan, pools: wanted, programs } = start;
    let opened = sys::signal_fd(SIGNALS)
        .map_err(|error| format!("signalfd() failed ({})", brisk_conf::os_text(&error)))
        .and_then(|signals| Ok((signals, Token::new().map_err(|e| format!("pipe() failed ({e})"))?)));
    let (signals, token) = match opened {
        Ok(opened) => opened,
        Err(message) => {
            sockets.close(upgrade::predecessor().is_none() && orphan.is_none());
            return Err(message);
        }
    };
    let mut master = Master {
        paths: paths.clone(),
        current: Current::new(&snap, bundle, logs),
        sockets,
        workers: Family::new(workers::policy()),
        certificates: Certificates::new(Vec::new()),
        pools: Pools::default(),
        programs: Programs::default(),
        generation: 1,
        control: None,
        token,
        pid_path: snap.main.pid.clone(),
        signals,
        stage: Stage::Starting { certificates: certificates::sources(&snap) },
        change: None,
        callers: Vec::new(),
        again: None,
        calls: Vec::new(),
        rounds: Vec::new(),
        news: News::default(),
        orders_given: 0,
        adoptions: Vec::new(),
        successor: None,
        predecessor: upgrade::predecessor(),
        caller,
    };
    master.pools.commit(wanted);
    if master.predecessor_listens() {
        master.programs.hold();
    }
    master.programs.commit(programs);
    if let Err(message) = master.begin(snap, orphan) {
        master.stage = Stage::Failed(message);
    }
    master.supervise()
}

impl Master {
    /// Starts the first worker.
    fn begin(&mut self, snap: Snapshot, orphan: Option<Box<Taken>>) -> Result<(), String> {
        match orphan {
            Some(orphan) => {
                fault::step("takeover");
                self.take_over(*orphan, true);
            }
            // The socket is there before the pid file: commands look for the pid file first. Workers need a copy.
            None if self.paths.inline.is_none() => self.control = Control::open(&self.pid_path),
            None => {}
        }
        self.tend_children();
        self.start_worker(Some(snap), None)?;
        sys::release_free_memory();
        Ok(())
    }

    /// The first worker serves. If it is in the place of a worker without a master, that one is told to end now.
    fn relieve(&mut self, worker: Pid, certificates: Vec<Arc<Source>>) {
        // Before anything is done that cannot be taken back.
        if let Err(message) = self.claim_pid_file() {
            self.stage = Stage::Failed(message);
            return;
        }
        self.workers.want(true);
        let old = self.retire_others(worker);
        self.stage = Stage::Relieving { old, certificates };
        self.serve();
    }

    fn claim_pid_file(&self) -> Result<(), String> {
        if self.paths.inline.is_some() { Ok(()) } else { write_pid(&self.pid_path) }
    }

    /// Says that it serves, once nothing else does.
    fn serve(&mut self) {
        let Stage::Relieving { old, certificates } = &mut self.stage else { return };
        if !old.is_empty() {
            return;
        }
        self.certificates = Certificates::new(std::mem::take(certificates));
        self.stage = Stage::Serving;
        if let Some(inline) = &self.paths.inline {
            output::hint(&inline.welcome);
        }
        upgrade::announce();
        self.log(LogLevel::Notice, &notice::serves(&self.paths, self.generation));
        systemd::ready(self.generation);
        self.caller.serving();
        self.tell_findings();
        if upgrade::is_successor() {
            fault::step("successor-serves");
        }
        self.predecessor_may_have_ended();
        if let Some(callers) = self.again.take() {
            self.reload(callers);
        }
        // Last: what the steps above used is not needed again before the next reload, either.
        sys::release_free_memory();
        sys::forget_code();
    }

    /// A worker that was told to end accepts nothing more, or has ended.
    fn accepts_no_more(&mut self, pid: Pid) {
        if let Stage::Relieving { old, .. } = &mut self.stage {
            old.retain(|other| *other != pid);
            self.serve();
        }
        self.is_retired(pid);
    }

    fn supervise(&mut self) -> Result<i32, String> {
        loop {
            match &self.stage {
                // Requests that workers finish may need PHP and other programs to the end.
                Stage::Ending
                    if self.workers.is_empty() && !(self.pools.is_empty() && self.programs.is_empty()) =>
                {
                    if !self.pools.is_ending() {
                        self.pools.end(false);
                    }
                    self.programs.end();
                    self.turn();
                }
                Stage::Ending if self.workers.is_empty() => {
                    self.log(LogLevel::Notice, "exit");
                    self.leave();
                    return Ok(0);
                }
                Stage::Failed(message) => {
                    let message = message.clone();
                    self.log(LogLevel::Emerg, &message);
                    self.abandon();
                    return Err(message);
                }
                _ => self.turn(),
            }
        }
    }

    /// Ends what [`Master::begin`] has started before it failed. A worker that was taken over loses its master again, and
    /// goes on.
    fn abandon(&mut self) {
        let mut was_adopted = false;
        for worker in self.workers.iter() {
            was_adopted |= !worker.link.is_child();
            if worker.link.is_child() {
                worker.link.kill(worker.pid);
                if let Some(pid) = rustix::process::Pid::from_raw(worker.pid) {
                    let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
                }
            }
        }
        self.workers.clear();
        self.pools.end(true);
        self.programs.end();
        if self.control.take().is_some() && !was_adopted {
            let _ = std::fs::remove_file(socket_path(&self.pid_path));
        }
        self.sockets.close(!was_adopted && !self.predecessor_listens());
    }

    fn log(&self, level: LogLevel, message: &str) {
        brisk_net::clock::refresh();
        let current = &self.current;
        let message = format_args!("{message}");
        log::write_all(&current.core.error_log, &current.logs, &Entry::new(level, None, message));
    }

    fn signal(&mut self, signal: i32) {
        let is_ending = matches!(self.stage, Stage::Ending);
        match signal {
            libc::SIGCHLD => self.reap(),
            // A server that is ending starts nothing any more.
            libc::SIGHUP | libc::SIGUSR2 | libc::SIGWINCH if is_ending => {}
            // The terminal of `brisk serve` is closed: there is no file to read again, and its log is no longer seen.
            libc::SIGHUP if self.paths.inline.is_some() => {
                if !sys::ignores_hangup() {
                    self.end(&Order::Stop);
                }
            }
            libc::SIGHUP if self.successor.is_some() => self.roll_back(),
            // A refusal is in the log.
            libc::SIGHUP => self.reload(Vec::new()),
            libc::SIGUSR1 => self.reopen(None),
            libc::SIGUSR2 if self.is_starting() => {}
            libc::SIGUSR2 => self.upgrade(),
            libc::SIGWINCH => {
                // nginx obeys it only as a daemon: a terminal sends it with every change of its size.
                let may = self.current.main.daemon || self.successor.is_some();
                if may && !self.is_starting() {
                    self.stage = Stage::Idle;
                    self.workers.want(false);
                    self.give_up_change("worker processes are ended (SIGWINCH)");
                    self.quit_all(false);
                }
            }
            libc::SIGQUIT => self.end(&Order::Quit { server_ends: true }),
            _ => self.end(&Order::Stop),
        }
    }

    /// Whether it does not say yet that it serves.
    fn is_starting(&self) -> bool {
        matches!(self.stage, Stage::Starting { .. } | Stage::Relieving { .. })
    }

    fn end(&mut self, how: &Order) {
        if !matches!(self.stage, Stage::Ending) {
            systemd::stopping();
        }
        self.stage = Stage::Ending;
        self.workers.want(false);
        self.give_up_change("the server is ending");
        // Clients that come now are refused, or served by the new binary.
        self.close_sockets();
        match how {
            // The new binary's workers go on: what the old ones have begun may take its time without a master, too.
            Order::Quit { .. } => self.quit_all(self.successor.is_none()),
            _ => {
                self.stop_all();
                self.pools.end(true);
            }
        }
    }

    /// Does what is due for PHP pools and supervised programs, and logs what they say.
    fn tend_children(&mut self) {
        let now = Instant::now();
        self.pools.turn(now);
        self.programs.turn(now);
        for (level, text) in self.pools.notes().into_iter().chain(self.programs.notes()) {
            self.log(level, &text);
        }
        let programs = self.programs.news();
        if programs != self.news.programs {
            let haste = telling::haste(&self.news.programs, &programs);
            self.news.programs = programs;
            self.tell_news(haste);
        }
    }

    fn predecessor_listens(&self) -> bool {
        self.predecessor.as_ref().is_some_and(upgrade::Predecessor::is_alive)
    }

    /// The files of unix sockets go too, unless another binary's master still listens there.
    fn close_sockets(&mut self) {
        self.sockets.close(self.successor.is_none() && !self.predecessor_listens());
    }

    fn lead_errors(&self) {
        if self.paths.detached {
            background::lead_errors(&self.current.core, &self.current.logs);
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
            let _ = std::fs::remove_file(socket_path(&self.pid_path));
        }
        self.close_sockets();
    }
}
