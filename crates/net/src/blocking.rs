//! A bounded pool of threads for what may block: cold files, slow hashes, name look-ups.

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
    jobs: VecDeque<Job>,
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

/// Runs `job` on the pool. A panic in it resumes in the task that awaits the result.
pub fn run<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> Result<Job1<T>, QueueFull> {
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
    let mut state = lock(&STATE);
    if state.jobs.len() >= QUEUE_MAX.load(Ordering::Relaxed) {
        return Err(QueueFull);
    }
    state.jobs.push_back(job);
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
    Ok(Job1(cell))
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
        if let Some(job) = state.jobs.pop_front() {
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
