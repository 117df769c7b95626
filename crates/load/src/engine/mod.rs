//! Carries out a plan: threads, each with its own epoll loop and its own connections.
//!
//! A thread shares nothing with the others but the plan, the stop flag and its progress counters.

mod conn;
mod dial;
mod secure;
mod worker;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::plan::Plan;
use crate::stats::Stats;
use crate::system;
use worker::{Share, Worker};

/// What a run has done so far; readable while it runs, warm-up included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Whole responses.
    pub responses: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Connections that have done all they had to do.
    pub settled: u64,
}

/// One thread's progress: written by that thread alone, once per wake-up.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counters {
    responses: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    settled: AtomicU64,
}

/// What the threads share.
#[derive(Debug)]
struct Shared {
    plan: Plan,
    stop: AtomicBool,
    counters: Vec<Counters>,
}

/// A run under way. Dropping it stops the threads and waits for them.
#[derive(Debug)]
pub struct Run {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<io::Result<Stats>>>,
    started: Instant,
}

/// What came of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The counters of all threads.
    pub stats: Stats,
    /// How long the counted part took, by the clock.
    pub elapsed: Duration,
}

/// Starts a plan's threads.
pub fn start(plan: Plan) -> io::Result<Run> {
    let invalid = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why.to_owned()));
    if plan.sites.is_empty() || plan.sites.iter().any(|site| site.targets.is_empty()) {
        return invalid("a plan needs at least one target per site");
    }
    if plan.connections == 0 || plan.threads == 0 || plan.pipeline == 0 || plan.opening_max == 0 {
        return invalid("connections, threads, pipeline depth and opening limit start at one");
    }
    system::raise_open_files(plan.connections as u64 + 256)?;
    let threads = plan.threads.min(plan.connections);
    let counters = (0..threads).map(|_| Counters::default()).collect();
    let shared = Arc::new(Shared { plan, stop: AtomicBool::new(false), counters });
    let mut run = Run { shared: Arc::clone(&shared), threads: Vec::new(), started: Instant::now() };
    for index in 0..threads {
        let shared = Arc::clone(&shared);
        let work = move || Worker::new(&shared, Share { index, of: threads })?.run();
        run.threads.push(std::thread::Builder::new().name(format!("load-{index}")).spawn(work)?);
    }
    Ok(run)
}

/// Runs a plan to its end.
pub fn run(plan: Plan) -> io::Result<Outcome> {
    start(plan)?.join()
}

impl Run {
    /// The sums of all threads' counters.
    pub fn progress(&self) -> Progress {
        self.shared.counters.iter().fold(Progress::default(), |sum, counters| Progress {
            responses: sum.responses + counters.responses.load(Ordering::Relaxed),
            bytes: sum.bytes + counters.bytes.load(Ordering::Relaxed),
            errors: sum.errors + counters.errors.load(Ordering::Relaxed),
            settled: sum.settled + counters.settled.load(Ordering::Relaxed),
        })
    }

    /// Waits until every connection has done all it had to do; false when `limit` came first.
    pub fn wait_settled(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while self.progress().settled < self.shared.plan.connections as u64 {
            if Instant::now() >= end || self.threads.iter().any(JoinHandle::is_finished) {
                return self.progress().settled >= self.shared.plan.connections as u64;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// Ends the run early; responses under way are not counted.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for the end and sums up.
    pub fn join(mut self) -> io::Result<Outcome> {
        let mut stats = Stats::default();
        let mut failure = None;
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(Ok(more)) => stats.merge(&more),
                Ok(Err(error)) => failure = Some(error),
                Err(_) => failure = Some(io::Error::other("a load thread panicked")),
            }
        }
        let elapsed = self.started.elapsed().saturating_sub(self.shared.plan.warmup);
        match failure {
            Some(error) => Err(error),
            None => Ok(Outcome { stats, elapsed }),
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.stop();
        for thread in self.threads.drain(..) {
            // A failure was the caller's to ask for with `join`; here only the end matters.
            drop(thread.join());
        }
    }
}
