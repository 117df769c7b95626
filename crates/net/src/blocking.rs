//! A bounded pool of threads for what may block: cold files, slow hashes, name look-ups.

use crate::clock;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// nginx's `thread_pool default threads=32 max_queue=65536`.
static THREADS_MAX: AtomicUsize = AtomicUsize::new(32);
static QUEUE_MAX: AtomicUsize = AtomicUsize::new(65_536);

/// Sets the most threads and the most waiting jobs. Threads that run already are kept.
pub fn configure(threads: usize, queue: usize) {
    THREADS_MAX.store(threads, Ordering::Relaxed);
    QUEUE_MAX.store(queue, Ordering::Relaxed);
}

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    /// With the time (monotonic, in microseconds) at which they began to wait.
    jobs: VecDeque<(u64, Job)>,
    threads: usize,
    idle: usize,
}

static STATE: Mutex<State> = Mutex::new(State { jobs: VecDeque::new(), threads: 0, idle: 0 });
static WORK: Condvar = Condvar::new();

/// The queue is full: the disk does not keep up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

struct Cell<T> {
    value: Option<std::thread::Result<T>>,
    waker: Option<Waker>,
}

/// The result of [`run`]; dropping it does not stop the job.
pub struct Job1<T>(Arc<Mutex<Cell<T>>>);

impl<T> Future for Job1<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let mut cell = lock(&self.0);
        match cell.value.take() {
            Some(Ok(value)) => Poll::Ready(value),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => {
                cell.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Where [`run_or_here`] has run a job.
pub enum Ran<T> {
    /// The pool runs it.
    Away(Job1<T>),
    /// It is done: the pool had no place for it.
    Here(T),
}

/// The job with a place for its result.
fn with_result<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> (Job, Job1<T>) {
    let cell = Arc::new(Mutex::new(Cell { value: None, waker: None }));
    let reply = cell.clone();
    let job: Job = Box::new(move || {
        let value = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
        let mut cell = lock(&reply);
        cell.value = Some(value);
        if let Some(waker) = cell.waker.take() {
            waker.wake();
        }
    });
    (job, Job1(cell))
}

/// Runs `job` on the pool. A panic in it resumes in the task that awaits the result.
pub fn run<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> Result<Job1<T>, QueueFull> {
    offer(job, QUEUE_MAX.load(Ordering::Relaxed)).map_err(|_| QueueFull)
}

/// As [`run`], but a full queue takes the job all the same: for work that must be done, and of which so much at a time is bounded otherwise.
pub fn run_in_any_case<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> Job1<T> {
    push(lock(&STATE), job)
}

/// As [`run`], but where the queue is full the job is run at once, on the caller's thread: for work that needs a processor and
/// waits for nothing. Others must have their turn before the next one.
pub fn run_or_here<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> Ran<T> {
    match offer(job, QUEUE_MAX.load(Ordering::Relaxed)) {
        Ok(result) => Ran::Away(result),
        Err(job) => Ran::Here(job()),
    }
}

/// Gives a job to the pool, or back if so many wait.
fn offer<T: Send + 'static, J: FnOnce() -> T + Send + 'static>(job: J, most: usize) -> Result<Job1<T>, J> {
    let state = lock(&STATE);
    if state.jobs.len() >= most { Err(job) } else { Ok(push(state, job)) }
}

fn push<T: Send + 'static>(
    mut state: MutexGuard<'_, State>,
    job: impl FnOnce() -> T + Send + 'static,
) -> Job1<T> {
    let (job, result) = with_result(job);
    state.jobs.push_back((clock::precise_us(), job));
    // A thread that was notified counts as idle until it runs: as many jobs as idle threads are taken care of.
    if state.jobs.len() > state.idle && state.threads < THREADS_MAX.load(Ordering::Relaxed) {
        state.threads += 1;
        drop(state);
        let started = std::thread::Builder::new().name("brisk-pool".into()).stack_size(512 << 10).spawn(work);
        if started.is_err() {
            // Those that run will get to it; with none at all the process is out of threads and says so elsewhere.
            lock(&STATE).threads -= 1;
        }
    } else {
        drop(state);
        WORK.notify_one();
    }
    result
}

/// Jobs that the pool runs one after another, in the order in which they are given.
#[derive(Clone, Default)]
pub struct Serial(Arc<Mutex<Line>>);

#[derive(Default)]
struct Line {
    jobs: VecDeque<Job>,
    /// Begun and not finished, and those that wait.
    unfinished: usize,
    running: bool,
}

/// Of all [`Serial`]s together.
static UNFINISHED: AtomicUsize = AtomicUsize::new(0);

impl Serial {
    /// Runs `job` after those that were given before. A job that panics is given up.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) -> Result<(), QueueFull> {
        let mut line = lock(&self.0);
        line.jobs.push_back(Box::new(job));
        if !line.running {
            let this = self.clone();
            if run(move || this.work()).is_err() {
                line.jobs.pop_back();
                return Err(QueueFull);
            }
            line.running = true;
        }
        line.unfinished += 1;
        UNFINISHED.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// As [`Serial::run`], with a result. A panic resumes in the task that awaits it.
    pub fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Job1<T>, QueueFull> {
        let (job, result) = with_result(job);
        self.run(job).map(|()| result)
    }

    /// Jobs that are not finished.
    pub fn waiting(&self) -> usize {
        lock(&self.0).unfinished
    }

    /// Waits until all jobs of all queues of this kind are finished, but not longer than `limit`.
    pub fn settle_all(limit: Duration) {
        let end = Instant::now() + limit;
        while UNFINISHED.load(Ordering::Relaxed) > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn work(&self) {
        loop {
            let job = {
                let mut line = lock(&self.0);
                match line.jobs.pop_front() {
                    Some(job) => job,
                    None => {
                        line.running = false;
                        return;
                    }
                }
            };
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
            lock(&self.0).unfinished -= 1;
            UNFINISHED.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// What the pool is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Threads that there are.
    pub threads: usize,
    /// Threads that wait for a job.
    pub idle: usize,
    /// Jobs that no thread has begun yet.
    pub waiting: usize,
}

/// What the pool is doing at this moment.
pub fn stats() -> Stats {
    let state = lock(&STATE);
    Stats { threads: state.threads, idle: state.idle, waiting: state.jobs.len() }
}

/// How long the oldest job has been waiting, in microseconds; 0 if no others wait behind it.
pub fn delay_us() -> u64 {
    let state = lock(&STATE);
    let since = state.jobs.front().filter(|_| state.jobs.len() > 1).map(|(since, _)| *since);
    drop(state);
    since.map_or(0, |since| clock::precise_us().saturating_sub(since))
}

/// Waits until no job is waiting or running, but not longer than `limit`: for a process that is about to end.
pub fn settle(limit: Duration) {
    let end = Instant::now() + limit;
    let is_busy = || {
        let state = lock(&STATE);
        !state.jobs.is_empty() || state.idle < state.threads
    };
    while is_busy() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn work() {
    let mut state = lock(&STATE);
    loop {
        if let Some((_, job)) = state.jobs.pop_front() {
            drop(state);
            job();
            state = lock(&STATE);
        } else {
            state.idle += 1;
            state = WORK.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

/// No job runs under these locks, so a poisoned one is still consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn what_finds_no_place_comes_back() {
        let Err(job) = offer(|| 5, 0) else { panic!("there is no place") };
        assert_eq!(job(), 5);
    }

    #[test]
    fn a_queue_of_its_own_keeps_the_order() {
        let (send, receive) = mpsc::channel();
        let serial = Serial::default();
        for at in 0..200 {
            let send = send.clone();
            let job = move || {
                send.send(at).unwrap();
                assert!(at % 50 != 3, "this job panics, and that harms no other");
            };
            serial.run(job).unwrap();
        }
        for at in 0..200 {
            assert_eq!(receive.recv().unwrap(), at);
        }
        while serial.waiting() > 0 {
            std::thread::yield_now();
        }
    }
}
