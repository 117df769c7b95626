//! The worker process: its control thread obeys the master, its other threads serve.

use crate::bundle::Bundle;
use crate::channel::{Channel, Message};
use crate::config::{self, Paths};
use crate::host;
use brisk_net::{listen::Address, sys};
use brisk_server::conf::Snapshot;
use brisk_server::core::LogLevel;
use brisk_server::log::{self, LogFile};
use brisk_server::worker::{Socket, Worker};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

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
    let line = log::line(level, None, format_args!("{message}"));
    for to in snap.core.error_log.iter().filter(|to| to.level >= level) {
        logs[to.log.0 as usize].write(line.as_bytes());
    }
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
    let (snap, logs) = (initial.snap.clone(), initial.logs.clone());
    let paths = initial.paths.clone();
    sys::ignore_signal(libc::SIGPIPE);
    let fail = |message: &str| {
        report(&snap, &logs, LogLevel::Emerg, message);
        2
    };
    let identity = match host::identity(&snap.main) {
        Ok(identity) => identity,
        Err(message) => return fail(&message),
    };
    if let Err(message) = host::become_worker(&snap.main, identity.as_ref()) {
        return fail(&message);
    }
    // A worker gets its orders from the master; what a terminal sends to the whole group is for the master to hear.
    let Ok(signals) = sys::signal_fd(&[libc::SIGTERM, libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2, libc::SIGWINCH, libc::SIGCHLD]) else {
        return fail("signalfd() failed");
    };
    let generation = initial.generation;
    let worker = match start(initial) {
        Ok(worker) => worker,
        Err(message) => return fail(&message),
    };
    if channel.send(&Message::Done { generation }).is_err() {
        return 0;
    }
    obey(worker, channel, &signals, &paths)
}

fn obey(mut worker: Worker, channel: &Channel, signals: &OwnedFd, paths: &Paths) -> i32 {
    let limit = |worker: &Worker| worker.snapshot().main.shutdown_timeout;
    loop {
        let mut waits = [PollFd::from_borrowed_fd(channel.fd(), PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
        if poll(&mut waits, None).is_err() {
            continue;
        }
        let (has_message, has_signal) = (!waits[0].revents().is_empty(), !waits[1].revents().is_empty());
        if has_signal {
            match sys::read_signal(signals.as_fd()) {
                Some(libc::SIGTERM) => return stop(&worker),
                Some(libc::SIGQUIT) => return quit(worker, limit),
                _ => {}
            }
        }
        if !has_message {
            continue;
        }
        let reply = match channel.receive() {
            Ok(Some(Message::Configure { generation, payload, fds })) => {
                match configure(&mut worker, paths, generation, &payload, fds) {
                    Ok(()) => Message::Done { generation },
                    Err(reason) => Message::Failed { reason },
                }
            }
            Ok(Some(Message::Reopen { fds })) => {
                reopen(&worker, &fds);
                Message::Done { generation: worker.generation() }
            }
            Ok(Some(Message::Quit)) => return quit(worker, limit),
            Ok(Some(Message::Stop)) => return stop(&worker),
            Ok(Some(Message::Done { .. } | Message::Failed { .. })) => continue,
            // The master is gone: what runs is finished, and whoever supervises the master starts both anew.
            Ok(None) | Err(_) => return quit(worker, limit),
        };
        if channel.send(&reply).is_err() {
            return quit(worker, limit);
        }
    }
}

fn quit(worker: Worker, limit: fn(&Worker) -> Duration) -> i32 {
    let limit = limit(&worker);
    worker.drain(limit);
    0
}

fn stop(worker: &Worker) -> i32 {
    worker.flush_logs();
    0
}

/// Builds the configuration from the bundle and switches to it.
fn configure(worker: &mut Worker, paths: &Paths, generation: u64, payload: &[u8], fds: Vec<OwnedFd>) -> Result<(), String> {
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
        .map_err(|error| format!("switching failed ({error})"))
}

/// A log that is open already goes on under its number, so that requests on older configurations follow it.
fn adopt_logs(
    have: &[Arc<LogFile>],
    snap: &Snapshot,
    fds: impl Iterator<Item = OwnedFd>,
) -> Vec<Arc<LogFile>> {
    let one = |(target, fd): (&brisk_server::conf::LogTarget, OwnedFd)| {
        match have.iter().find(|log| log.target == *target) {
            Some(log) => {
                let _ = log.replace(&fd);
                log.clone()
            }
            None => Arc::new(LogFile::new(target.clone(), fd)),
        }
    };
    snap.logs.iter().zip(fds).map(one).collect()
}

/// When this returns no line goes to an old file any more.
fn reopen(worker: &Worker, fds: &[OwnedFd]) {
    for (log, fd) in worker.logs().iter().zip(fds) {
        let _ = log.replace(fd);
    }
    // Threads that were inside a write have finished it when they answer.
    worker.flush_logs();
}
