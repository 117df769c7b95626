//! The worker process: its control thread obeys the master ([`obey`]), its other threads serve.

use crate::channel::Channel;
use crate::config::Paths;
use crate::control::Control;
use crate::limits::{SETTLE_TIME_MAX, SPANS_STOP_TIME_MAX, SPANS_TIME_MAX};
use crate::orders::{Reply, START};
use crate::takeover::Token;
use crate::{host, title};
use brisk_net::{fault, sys};
use brisk_server::conf::Snapshot;
use brisk_server::core::LogLevel;
use brisk_server::log::{self, Entry, LogFile};
use brisk_server::news::News;
use brisk_server::worker::{Socket, Worker};
use rustix::event::Timespec;
use rustix::fd::OwnedFd;
use rustix::process::Uid;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

mod obey;

/// What a worker starts with.
pub struct Start {
    pub paths: Paths,
    pub snap: Arc<Snapshot>,
    pub logs: Vec<Arc<LogFile>>,
    pub sockets: Vec<Socket>,
    pub generation: u64,
    /// What the master knows at this moment.
    pub news: News,
}

/// What a worker needs to go on without its master, until another one takes it over.
pub struct Heir {
    /// The socket on which a new master asks for the worker. `None`: no master can take it over.
    pub control: Option<Control>,
    pub token: Token,
    /// The master, for messages.
    pub master: i32,
    /// The master's user. Besides root only that one may give orders.
    pub owner: Uid,
}

/// Writes to the logs of the main level.
pub fn report(snap: &Snapshot, logs: &[Arc<LogFile>], level: LogLevel, message: &str) {
    log::write_all(&snap.core.error_log, logs, &Entry::new(level, None, format_args!("{message}")));
}

/// Starts the threads.
pub fn start(start: Start) -> Result<Worker, String> {
    let main = start.snap.main.clone();
    let count = host::threads(&main);
    if !main.thread_pools.is_empty() {
        let pools = main.thread_pools.iter();
        let (threads, queue) = pools.fold((0, 0), |(t, q), (_, threads, queue)| (t + threads, q + queue));
        brisk_net::blocking::configure(threads, queue);
    }
    let affinity = main.affinity.clone();
    let pin = move |index| host::pin(&affinity, index);
    Worker::start(start.snap, start.logs, &start.sockets, count, start.generation, start.news, pin)
        .map_err(|error| format!("starting threads failed ({error}){}", host::memory_hint()))
}

/// The body of a worker process; gives its exit code.
pub fn main(initial: Start, channel: Channel, heir: Heir) -> i32 {
    title::worker();
    let snap = initial.snap.clone();
    let paths = initial.paths.clone();
    sys::ignore_signal(libc::SIGPIPE);
    // The master logs it.
    let fail = |message: &str| {
        let _ = channel.send(Reply::Failed { reason: message.to_string() }.into_parcel(START));
        2
    };
    let identity = match host::identity(&snap.main) {
        Ok(identity) => identity,
        Err(diag) => return fail(&diag.message),
    };
    if let Err(message) = host::become_worker(&snap, identity.as_ref()) {
        return fail(&message);
    }
    // A worker gets its orders from the master; what a terminal sends to the whole group is for the master to hear.
    let Ok(signals) = sys::signal_fd(&[
        libc::SIGTERM,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGHUP,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGWINCH,
        libc::SIGCHLD,
    ]) else {
        return fail("signalfd() failed");
    };
    // Whoever holds the first configuration on this stack keeps it until the process ends, reloads or not.
    drop(snap);
    let generation = initial.generation;
    let copies = initial
        .sockets
        .iter()
        .map(|(address, fd)| Ok::<_, io::Error>((address.clone(), rustix::io::fcntl_dupfd_cloexec(fd, 3)?)));
    let sockets = match copies.collect::<Result<Vec<Socket>, _>>() {
        Ok(sockets) => sockets,
        Err(error) => return fail(&format!("dup() failed ({})", brisk_conf::os_text(&error))),
    };
    let worker = match start(initial) {
        Ok(worker) => worker,
        Err(message) => return fail(&message),
    };
    fault::step(&format!("worker-ready-{generation}"));
    // A master that is gone is noticed with the first read: connections may have been accepted by now.
    let _ = channel.send(Reply::Done.into_parcel(START));
    obey::run(worker, channel, signals, paths, heir, sockets)
}

/// A graceful stop under way.
pub struct Drain {
    /// `worker_shutdown_timeout`.
    deadline: Option<Instant>,
    is_cut: bool,
}

/// The last words of a worker process: spans of OpenTelemetry, which have so much time, and log lines.
pub fn finish(worker: &Worker, limit: Duration) {
    let lost = brisk_modules::otel::settle(limit);
    if lost > 0 {
        brisk_net::clock::refresh();
        let text =
            format!("{lost} spans are lost: the collector has not taken them before the end of the process");
        report(worker.snapshot(), worker.logs(), LogLevel::Error, &text);
    }
    worker.finish_logs();
}

/// What was cut off gets this long to write its log lines.
const CUT_TIME: Duration = Duration::from_secs(1);

impl Drain {
    pub fn begin(worker: &Worker) -> Drain {
        title::ending();
        worker.drain();
        let limit = worker.snapshot().main.shutdown_timeout;
        Drain { deadline: (!limit.is_zero()).then(|| Instant::now() + limit), is_cut: false }
    }

    /// When to look again at the latest.
    pub fn timeout(&self) -> Option<Timespec> {
        let left = self.deadline?.saturating_duration_since(Instant::now());
        Some(Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) })
    }

    /// Does what is due; true when everything has ended or was given its time, and is logged.
    pub fn is_over(&mut self, worker: &Worker) -> bool {
        if worker.is_empty() {
            finish(worker, SPANS_TIME_MAX);
            return true;
        }
        let is_due = self.deadline.is_some_and(|at| Instant::now() >= at);
        if is_due && !self.is_cut {
            worker.cut();
            self.is_cut = true;
            self.deadline = Some(Instant::now() + CUT_TIME);
            return false;
        }
        if is_due {
            finish(worker, SPANS_STOP_TIME_MAX);
        }
        is_due
    }
}

/// A log that is open already goes on under its number, so that requests on older configurations follow it.
pub fn adopt_logs(
    have: &[Arc<LogFile>],
    snap: &Snapshot,
    fds: impl Iterator<Item = OwnedFd>,
) -> Vec<Arc<LogFile>> {
    let one = |(target, fd): (&brisk_server::conf::LogTarget, OwnedFd)| match have
        .iter()
        .find(|log| log.target == *target)
    {
        Some(log) => {
            let _ = log.replace(&fd);
            log.clone()
        }
        None => Arc::new(LogFile::new(target.clone(), fd)),
    };
    snap.logs.iter().zip(fds).map(one).collect()
}
