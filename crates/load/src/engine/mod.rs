//! Carries out a plan: threads, each with its own epoll loop and its own connections.
//!
//! A thread shares nothing with the others but the plan, the stop flag and its progress counters.

mod conn;
mod context;
mod course;
mod dial;
mod gather;
mod h1;
mod h2;
mod h3;
mod nap;
mod secure;
mod streams;
mod wire;
mod worker;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use crate::limits::{HOPELESS_ERRORS_MIN, HOPELESS_TIME_MAX};
use crate::plan::{Plan, Stop};
use crate::stats::{Part, Record, Slice, Stats, join_slices};
use crate::system;
use context::{Ns, Share};
use worker::{Work, Worker};

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
    /// Before the clock of a closed loop starts: users who wait for it.
    pub users: u64,
}

impl Progress {
    /// Whether nothing but errors has come for so long that nothing else is to be expected.
    pub fn is_hopeless(&self, elapsed: Duration) -> bool {
        self.responses == 0 && self.errors >= HOPELESS_ERRORS_MIN && elapsed > HOPELESS_TIME_MAX
    }
}

/// The users of a closed loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Users {
    /// As many as were asked for, or as requests, if those are fewer.
    pub wanted: u64,
    /// Those who had a connection when the clock started; with a ramp, at its end.
    pub there: u64,
}

/// One thread's progress: written by that thread alone, once per wake-up.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counters {
    responses: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    settled: AtomicU64,
    users: AtomicU64,
}

/// What the threads share.
#[derive(Debug)]
struct Shared {
    plan: Plan,
    stop: AtomicBool,
    /// When the threads were started.
    made_at: Instant,
    /// When the run began, with all users there: moments count from here.
    origin: OnceLock<Instant>,
    /// Threads whose users are still coming.
    gathering: AtomicUsize,
    counters: Vec<Counters>,
    /// Each thread's finished slices.
    slices: Vec<Mutex<Vec<Slice>>>,
}

/// A run under way. Dropping it stops the threads and waits for them.
#[derive(Debug)]
pub struct Run {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<io::Result<Work>>>,
}

/// What came of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The counters of all threads.
    pub stats: Stats,
    /// How long the counted part took: from the end of the warm-up, or from the start of the clock, to the last response or to
    /// the end of the plan's time. What came after that is in [`Stats::tail`].
    pub elapsed: Duration,
    /// When the run began, warm-up included.
    pub started_at: SystemTime,
    /// Its course, with warm-up and what came after the end, if the plan wants it.
    pub series: Vec<Slice>,
    /// The raw log of the counted part, if the plan wants it, in the order in which requests ended.
    pub records: Vec<Record>,
    /// Requests that found no room in it.
    pub records_dropped: u64,
    /// The last head seen on each target, as HTTP/1.1 writes it; empty where none was.
    pub heads: Vec<Vec<u8>>,
    /// The users of a closed loop; `None`: it has none.
    pub users: Option<Users>,
    /// Whether a server was on this machine, where it and the generator share the CPUs.
    pub is_local: bool,
}

impl Outcome {
    /// The slices of the counted part. Its last one is left out if it is shorter than the others: its rate is an accident.
    pub fn whole_slices(&self) -> impl Iterator<Item = &Slice> {
        let counted = || self.series.iter().filter(|slice| slice.part == Part::Counted);
        let width = counted().next().map_or(Duration::ZERO, |first| first.width);
        counted().filter(move |slice| slice.width >= width)
    }
}

/// Starts a plan's threads.
pub fn start(plan: Plan) -> io::Result<Run> {
    if let Some(why) = plan.fault() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    dial::enough_ports(&plan)?;
    let raised = system::raise_open_files(plan.connections as u64 + 256);
    // Connections that come one after another and close are not all there at a time.
    let come_and_go = plan.dial_rate.is_some() && matches!(plan.stop, Stop::RequestsPerConnection(_));
    if come_and_go && !plan.hold && raised.is_err() {
        system::raise_open_files_to_the_limit()?;
    } else {
        raised?;
    }
    let threads = plan.threads.min(plan.connections);
    let counters = (0..threads).map(|_| Counters::default()).collect();
    let slices = (0..threads).map(|_| Mutex::default()).collect();
    let (made_at, origin) = (Instant::now(), OnceLock::new());
    let gathering = AtomicUsize::new(threads);
    if !plan.gathers() {
        let _ = origin.set(made_at);
    }
    let stop = AtomicBool::new(false);
    let shared = Arc::new(Shared { plan, stop, made_at, origin, gathering, counters, slices });
    let mut run = Run { shared: Arc::clone(&shared), threads: Vec::new() };
    for index in 0..threads {
        let shared = Arc::clone(&shared);
        let work = move || {
            let failed = StopsAll(&shared);
            let work = Worker::new(&shared, Share { index, of: threads })?.run()?;
            std::mem::forget(failed);
            Ok(work)
        };
        run.threads.push(std::thread::Builder::new().name(format!("load-{index}")).spawn(work)?);
    }
    Ok(run)
}

/// A thread that fails ends the others: they may be waiting for its users.
struct StopsAll<'a>(&'a Shared);

impl Drop for StopsAll<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
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
            users: sum.users + counters.users.load(Ordering::Relaxed),
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

    /// Ends the run early; responses under way are not waited for.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// How long it has been under way since its clock started, warm-up included; zero before that.
    pub fn elapsed(&self) -> Duration {
        self.shared.origin.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    /// Whether its clock has started: in a closed loop, all users are there or are waited for no longer.
    pub fn has_started(&self) -> bool {
        self.shared.origin.get().is_some()
    }

    /// Waits until its clock starts; false when `limit` came first, or the end.
    pub fn wait_started(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while !self.has_started() {
            if Instant::now() >= end || self.is_over() {
                return self.has_started();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Whether all threads have come to their end.
    pub fn is_over(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// The slices that all threads have finished, if the plan wants a series.
    pub fn slices(&self) -> Vec<Slice> {
        let lock = |slices: &Mutex<Vec<Slice>>| slices.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let threads: Vec<Vec<Slice>> = self.shared.slices.iter().map(lock).collect();
        let whole = threads.iter().map(Vec::len).min().unwrap_or(0);
        join_slices(threads.into_iter().map(|mut slices| {
            slices.truncate(whole);
            slices
        }))
    }

    /// Waits for the end and sums up.
    pub fn join(mut self) -> io::Result<Outcome> {
        let mut sum = Work::default();
        let mut failure = None;
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(Ok(mut more)) => {
                    let join = |one: (Ns, Ns), other: (Ns, Ns)| (one.0.min(other.0), one.1.max(other.1));
                    sum.span = sum.span.zip(more.span).map(|(one, other)| join(one, other)).or(more.span);
                    sum.stats.merge(&more.stats);
                    sum.records.append(&mut more.records);
                    sum.records_dropped += more.records_dropped;
                    sum.users.wanted += more.users.wanted;
                    sum.users.there += more.users.there;
                    sum.heads.resize_with(more.heads.len(), Vec::new);
                    for (have, new) in sum.heads.iter_mut().zip(more.heads) {
                        if have.is_empty() {
                            *have = new;
                        }
                    }
                }
                Ok(Err(error)) => failure = Some(error),
                Err(_) => failure = Some(io::Error::other("a load thread panicked")),
            }
        }
        // The threads' own clock: whoever waits for them notices their end later.
        let (begun, ended) = sum.span.unwrap_or_default();
        let counted_from = begun.max(self.shared.plan.warmup.as_nanos() as Ns);
        let elapsed = Duration::from_nanos(ended.saturating_sub(counted_from));
        if let Some(error) = failure {
            return Err(error);
        }
        let take = |slices: &Mutex<Vec<Slice>>| {
            std::mem::take(&mut *slices.lock().unwrap_or_else(PoisonError::into_inner))
        };
        sum.records.sort_by_key(|record| record.done_ns);
        // The wall clock of the moment from which all others count.
        let since = self.shared.origin.get().map_or(Duration::ZERO, Instant::elapsed);
        let plan = &self.shared.plan;
        Ok(Outcome {
            is_local: plan.sites.iter().any(|site| dial::is_local(&site.endpoint)),
            users: (plan.rate.is_none() && !plan.hold).then_some(sum.users),
            stats: sum.stats,
            elapsed,
            started_at: SystemTime::now() - since,
            series: join_slices(self.shared.slices.iter().map(take)),
            records: sum.records,
            records_dropped: sum.records_dropped,
            heads: sum.heads,
        })
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
