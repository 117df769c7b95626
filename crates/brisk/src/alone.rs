//! `master_process off`: everything in one process, for debugging. Its main thread obeys the signals.

use crate::background::{self, Caller};
use crate::claim::{claim, write_pid};
use crate::config::{self, Loaded, Paths};
use crate::limits::SPANS_STOP_TIME_MAX;
use crate::orders::{self, Order};
use crate::process::{self, Drain, Start, report};
use crate::sockets::Sockets;
use crate::takeover::Taken;
use crate::{control, host, notice, systemd};
use brisk_conf::Diag;
use brisk_net::sys;
use brisk_server::conf::Snapshot;
use brisk_server::core::LogLevel;
use brisk_server::log::LogFile;
use brisk_server::news::News;
use brisk_server::worker::Worker;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

const SIGNALS: &[i32] =
    &[libc::SIGTERM, libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2, libc::SIGWINCH];

/// An order to end that a worker takes later is no longer one.
const QUIT_TIME: Duration = Duration::from_mins(1);

struct Alone {
    paths: Paths,
    worker: Worker,
    sockets: Sockets,
    pid_path: String,
}

/// Serves until a signal ends it; gives the exit code. The error says why it does not serve; then nothing is left of it.
pub fn run(
    paths: &Paths,
    snap: Snapshot,
    logs: Vec<Arc<LogFile>>,
    mut sockets: Sockets,
    caller: &Caller,
    orphan: Option<Taken>,
) -> Result<i32, String> {
    let pid_path = snap.main.pid.clone();
    let snap = Arc::new(snap);
    match begin(paths, &snap, &logs, &sockets, &pid_path) {
        Ok((signals, worker)) => {
            // The last order to the adopted worker: it finishes the requests that it has begun, and ends.
            if let Some(Taken { channel, .. }) = orphan {
                let quit = Order::Quit { server_ends: false };
                let _ = channel.try_send(quit.into_parcel(1, orders::now() + QUIT_TIME));
            }
            systemd::ready(1);
            caller.serving();
            let alone = Alone { paths: paths.clone(), worker, sockets, pid_path };
            alone.log(LogLevel::Notice, &notice::serves(paths, 1));
            Ok(alone.obey(&signals))
        }
        Err(message) => {
            report(&snap, &logs, LogLevel::Emerg, &message);
            // One that is still there goes on listening.
            sockets.close(orphan.is_none());
            Err(message)
        }
    }
}

fn begin(
    paths: &Paths,
    snap: &Arc<Snapshot>,
    logs: &[Arc<LogFile>],
    sockets: &Sockets,
    pid_path: &str,
) -> Result<(OwnedFd, Worker), String> {
    let failed = |call: &'static str| {
        move |e: std::io::Error| format!("{call}() failed ({})", brisk_conf::os_text(&e))
    };
    let signals = sys::signal_fd(SIGNALS).map_err(failed("signalfd"))?;
    let copies = sockets.all().map_err(failed("dup"))?;
    let start = Start {
        news: News::default(),
        paths: paths.clone(),
        snap: snap.clone(),
        logs: logs.to_vec(),
        sockets: copies,
        generation: 1,
    };
    let worker = process::start(start)?;
    write_pid(pid_path)?;
    Ok((signals, worker))
}

impl Alone {
    fn obey(mut self, signals: &OwnedFd) -> i32 {
        let mut drain: Option<Drain> = None;
        while !drain.as_mut().is_some_and(|drain| drain.is_over(&self.worker)) {
            let mut waits = [
                PollFd::new(signals, PollFlags::IN),
                PollFd::from_borrowed_fd(self.worker.empty(), PollFlags::IN),
            ];
            let timeout = drain.as_ref().and_then(Drain::timeout);
            if poll(&mut waits, timeout.as_ref()).is_err() {
                continue;
            }
            let signal = sys::read_signal(signals.as_fd());
            if let Some(text) = signal.as_ref().and_then(notice::signal) {
                self.log(LogLevel::Notice, &text);
            }
            match signal.map(|signal| signal.number) {
                Some(libc::SIGTERM | libc::SIGINT) => {
                    process::finish(&self.worker, SPANS_STOP_TIME_MAX);
                    break;
                }
                Some(libc::SIGQUIT) if drain.is_none() => {
                    systemd::stopping();
                    self.sockets.close(true);
                    drain = Some(Drain::begin(&self.worker));
                }
                Some(libc::SIGHUP) if drain.is_none() => {
                    systemd::reloading();
                    if let Err(message) = self.reload() {
                        config::headlines(&message)
                            .into_iter()
                            .for_each(|line| self.log(LogLevel::Emerg, line));
                    }
                    systemd::ready(self.worker.generation());
                }
                Some(libc::SIGUSR1) => self.reopen(),
                _ => {}
            }
        }
        self.log(LogLevel::Notice, "exit");
        let _ = std::fs::remove_file(&self.pid_path);
        let _ = std::fs::remove_file(control::socket_path(&self.pid_path));
        self.sockets.close(true);
        0
    }

    fn log(&self, level: LogLevel, message: &str) {
        brisk_net::clock::refresh();
        report(self.worker.snapshot(), self.worker.logs(), level, message);
    }

    fn reload(&mut self) -> Result<(), String> {
        let Loaded { snap, sources, .. } =
            config::reload(&self.paths, |level, message| self.log(level, message))?;
        let told = |diag: Diag| diag.render(&sources);
        host::make_own_folders(&snap).map_err(told)?;
        let (files, fresh) = claim(&self.paths, &snap, &self.sockets).map_err(told)?;
        let copy =
            |fd: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(fd, 3).map_err(|e| format!("dup() failed ({e})"));
        let files = files.iter().map(|log| copy(log.fd())).collect::<Result<Vec<_>, _>>()?;
        let copies = fresh.iter().map(|(address, fd)| Ok((address.clone(), copy(fd)?)));
        let copies = copies.collect::<Result<Vec<_>, String>>()?;
        let logs = process::adopt_logs(self.worker.logs(), &snap, files.into_iter());
        let snap = Arc::new(snap);
        let generation = self.worker.generation() + 1;
        self.worker
            .switch(snap.clone(), logs, &copies, generation)
            .map_err(|error| format!("switching failed ({error})"))?;
        let wanted: Vec<_> = snap.sockets.iter().map(|l| l.address.clone()).collect();
        self.sockets.commit(&wanted, fresh);
        self.lead_errors();
        self.log(LogLevel::Notice, &format!("configuration generation {generation} is live"));
        Ok(())
    }

    fn reopen(&self) {
        self.log(LogLevel::Notice, "reopening logs");
        for log in self.worker.logs().iter() {
            match LogFile::open(&log.target) {
                Ok(fd) => {
                    let _ = log.replace(&fd);
                }
                Err(error) => {
                    let why = brisk_conf::os_text(&error);
                    self.log(LogLevel::Emerg, &format!("open() \"{}\" failed ({why})", log.target));
                }
            }
        }
        self.worker.flush_logs();
        self.lead_errors();
    }

    fn lead_errors(&self) {
        if self.paths.detached {
            background::lead_errors(&self.worker.snapshot().core, self.worker.logs());
        }
    }
}
