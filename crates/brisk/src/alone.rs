//! `master_process off`: everything in one process, for debugging. Its main thread obeys the signals.

use crate::config::{self, Loaded, Paths};
use crate::launch::{logs_of, pid_file, write_pid};
use crate::process::{self, Drain, Start, report};
use crate::sockets::Sockets;
use crate::{control, systemd};
use brisk_load::output;
use brisk_net::sys;
use brisk_server::conf::Snapshot;
use brisk_server::core::LogLevel;
use brisk_server::log::LogFile;
use brisk_server::worker::Worker;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::sync::Arc;

const SIGNALS: &[i32] =
    &[libc::SIGTERM, libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2, libc::SIGWINCH];

struct Alone {
    paths: Paths,
    worker: Worker,
    sockets: Sockets,
    pid_path: String,
}

/// Serves until a signal ends it; gives the exit code.
pub fn run(paths: &Paths, snap: Snapshot, logs: Vec<Arc<LogFile>>, sockets: Sockets) -> i32 {
    let pid_path = pid_file(paths, &snap.main);
    let snap = Arc::new(snap);
    let fail = |message: &str| {
        report(&snap, &logs, LogLevel::Emerg, message);
        output::note(format_args!("brisk: [emerg] {message}"));
        1
    };
    let Ok(signals) = sys::signal_fd(SIGNALS) else { return fail("signalfd() failed") };
    let copies = match sockets.all() {
        Ok(copies) => copies,
        Err(error) => return fail(&format!("dup() failed ({error})")),
    };
    let start = Start {
        paths: paths.clone(),
        snap: snap.clone(),
        logs: logs.clone(),
        sockets: copies,
        generation: 1,
    };
    let worker = match process::start(start) {
        Ok(worker) => worker,
        Err(message) => return fail(&message),
    };
    if let Err(message) = write_pid(&pid_path) {
        return fail(&message);
    }
    systemd::ready(1);
    Alone { paths: paths.clone(), worker, sockets, pid_path }.obey(&signals)
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
            match sys::read_signal(signals.as_fd()) {
                Some(libc::SIGTERM | libc::SIGINT) => {
                    self.worker.flush_logs();
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
        let Loaded { snap, .. } = config::reload(&self.paths, |level, message| self.log(level, message))?;
        let files = logs_of(&snap)?;
        let fresh = self.sockets.prepare(&snap)?;
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
        let wanted: Vec<_> = snap.listens.iter().map(|l| l.address.clone()).collect();
        self.sockets.commit(&wanted, fresh);
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
    }
}
