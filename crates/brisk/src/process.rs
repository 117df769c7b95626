//! The worker process: its control thread obeys the master, its other threads serve.

use crate::background;
use crate::bundle::Bundle;
use crate::certificates;
use crate::channel::{Channel, Message};
use crate::config::{self, Paths};
use crate::{host, title};
use brisk_cache::Purge;
use brisk_cache::purge::unhex;
use brisk_net::{listen::Address, sys};
use brisk_server::conf::Snapshot;
use brisk_server::core::LogLevel;
use brisk_server::log::{self, Entry, LogFile};
use brisk_server::worker::{Socket, Worker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a worker starts with.
pub struct Start {
    pub paths: Paths,
    pub snap: Arc<Snapshot>,
    pub logs: Vec<Arc<LogFile>>,
    pub sockets: Vec<Socket>,
    pub generation: u64,
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
    Worker::start(start.snap, start.logs, &start.sockets, count, start.generation, pin)
        .map_err(|error| format!("starting threads failed ({error})"))
}

/// The body of a worker process; gives its exit code.
pub fn main(initial: Start, channel: &Channel) -> i32 {
    title::worker();
    let snap = initial.snap.clone();
    let paths = initial.paths.clone();
    sys::ignore_signal(libc::SIGPIPE);
    // The master logs it.
    let fail = |message: &str| {
        let _ = channel.send(&Message::Failed { reason: message.to_string() });
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
    let worker = match start(initial) {
        Ok(worker) => worker,
        Err(message) => return fail(&message),
    };
    if channel.send(&Message::Done { generation }).is_err() {
        return 0;
    }
    sys::forget_code();
    obey(worker, channel, &signals, &paths)
}

/// A graceful stop under way.
pub struct Drain {
    /// `worker_shutdown_timeout`.
    deadline: Option<Instant>,
    is_cut: bool,
}

/// How long a worker that has drained waits for its pool.
const SETTLE_TIME_MAX: Duration = Duration::from_secs(5);

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
            worker.flush_logs();
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
            worker.flush_logs();
        }
        is_due
    }
}

/// The control thread's life. A draining worker still takes orders: to reopen its logs, to stop at once.
fn obey(mut worker: Worker, channel: &Channel, signals: &OwnedFd, paths: &Paths) -> i32 {
    let mut drain: Option<Drain> = None;
    let mut has_master = true;
    loop {
        if drain.as_mut().is_some_and(|drain| drain.is_over(&worker)) {
            // Temporary files of the last requests are removed by the pool.
            brisk_net::blocking::settle(SETTLE_TIME_MAX);
            return 0;
        }
        let (signal, message) = wait(&worker, has_master.then_some(channel), signals, drain.as_ref());
        let reply = match message {
            _ if signal == Some(libc::SIGTERM) => return stop(&worker),
            None if signal == Some(libc::SIGQUIT) => {
                drain.get_or_insert_with(|| Drain::begin(&worker));
                continue;
            }
            None => continue,
            Some(Ok(Some(Message::Configure { .. }))) if drain.is_some() => {
                Message::Failed { reason: "the worker process is ending".into() }
            }
            Some(Ok(Some(Message::Configure { generation, payload, fds }))) => {
                let done = configure(&mut worker, paths, generation, &payload, fds);
                drop(payload);
                // The old configuration was made by this thread, and its memory is for this thread to give back.
                sys::release_free_memory();
                match done {
                    Ok(()) => Message::Done { generation },
                    Err(reason) => Message::Failed { reason },
                }
            }
            Some(Ok(Some(Message::Certificates { payload }))) => {
                if let Some(files) = Bundle::decode(&payload) {
                    certificates::replace(worker.snapshot(), &files);
                }
                Message::Done { generation: worker.generation() }
            }
            Some(Ok(Some(Message::Reopen { which, fds }))) => {
                reopen(&worker, &which, &fds);
                lead_errors(&worker, paths);
                Message::Done { generation: worker.generation() }
            }
            Some(Ok(Some(Message::Purge { order }))) => Message::Purged { count: purge(&worker, &order) },
            // Answered when nothing more is accepted here.
            Some(Ok(Some(Message::Quit))) => {
                drain.get_or_insert_with(|| Drain::begin(&worker));
                Message::Done { generation: worker.generation() }
            }
            Some(Ok(Some(Message::Stop))) => return stop(&worker),
            Some(Ok(Some(
                Message::Done { .. }
                | Message::Purged { .. }
                | Message::Failed { .. }
                | Message::File { .. }
                | Message::Refused { .. },
            ))) => continue,
            // The master is gone: what runs is finished, and whoever supervises the master starts both anew.
            Some(Ok(None) | Err(_)) => {
                has_master = false;
                drain.get_or_insert_with(|| Drain::begin(&worker));
                continue;
            }
        };
        // A master that is gone is noticed with the next read.
        let _ = channel.send(&reply);
    }
}

type Received = io::Result<Option<Message>>;

/// Waits for a signal, a message, the end of the last connection or the drain's time.
fn wait(
    worker: &Worker,
    channel: Option<&Channel>,
    signals: &OwnedFd,
    drain: Option<&Drain>,
) -> (Option<i32>, Option<Received>) {
    let mut waits =
        vec![PollFd::new(signals, PollFlags::IN), PollFd::from_borrowed_fd(worker.empty(), PollFlags::IN)];
    if let Some(channel) = channel {
        waits.push(PollFd::from_borrowed_fd(channel.fd(), PollFlags::IN));
    }
    let timeout = drain.and_then(Drain::timeout);
    if poll(&mut waits, timeout.as_ref()).is_err() {
        return (None, None);
    }
    let signal = sys::read_signal(signals.as_fd()).map(|signal| signal.number);
    let has_message = waits.get(2).is_some_and(|wait| !wait.revents().is_empty());
    (signal, channel.filter(|_| has_message).map(Channel::receive))
}

fn stop(worker: &Worker) -> i32 {
    worker.flush_logs();
    0
}

/// Builds the configuration from the bundle and switches to it.
fn configure(
    worker: &mut Worker,
    paths: &Paths,
    generation: u64,
    payload: &[u8],
    fds: Vec<OwnedFd>,
) -> Result<(), String> {
    let bundle = Bundle::decode(payload).ok_or("malformed bundle")?;
    let snap = config::load_bundle(paths, &bundle).ok_or("the worker refuses the configuration")?;
    let have: Vec<Address> = worker.snapshot().listens.iter().map(|l| l.address.clone()).collect();
    let fresh: Vec<Address> =
        snap.listens.iter().map(|l| l.address.clone()).filter(|a| !have.contains(a)).collect();
    if fds.len() != fresh.len() + snap.logs.len() {
        return Err(format!("{} descriptors came, {} are needed", fds.len(), fresh.len() + snap.logs.len()));
    }
    let mut fds = fds.into_iter();
    let sockets: Vec<Socket> = fresh.into_iter().zip(fds.by_ref()).collect();
    let logs = adopt_logs(worker.logs(), &snap, fds);
    worker
        .switch(Arc::new(snap), logs, &sockets, generation)
        .map_err(|error| format!("switching failed ({error})"))?;
    lead_errors(worker, paths);
    Ok(())
}

fn lead_errors(worker: &Worker, paths: &Paths) {
    if paths.detached {
        background::lead_errors(&worker.snapshot().core, worker.logs());
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

/// What [`crate::control::purge`] has put into words.
fn purge(worker: &Worker, order: &str) -> u64 {
    let order = order.split_once(' ').and_then(|(zone, order)| Some((unhex(zone)?, Purge::parse(order)?)));
    let Some((zone, order)) = order else { return 0 };
    brisk_modules::cache::by_order(&worker.snapshot().zones, &String::from_utf8_lossy(&zone), &order) as u64
}

/// When this returns no line goes to an old file any more.
fn reopen(worker: &Worker, which: &[u32], fds: &[OwnedFd]) {
    for (&place, fd) in which.iter().zip(fds) {
        if let Some(log) = worker.logs().get(place as usize) {
            let _ = log.replace(fd);
        }
    }
    // Threads that were inside a write have finished it when they answer.
    worker.flush_logs();
}
