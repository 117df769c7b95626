//! Work that nobody waits for: one thread of low priority, so that it takes only what others leave.

use crate::limits::QUEUE_JOBS_MAX;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The lowest priority but for what runs on an idle machine only.
const NICE: i32 = 19;

type Job = Box<dyn FnOnce() + Send>;

struct State {
    jobs: VecDeque<Job>,
    /// There is a thread, and it will look at the queue again.
    running: bool,
}

static STATE: Mutex<State> = Mutex::new(State { jobs: VecDeque::new(), running: false });

/// Runs `job` after those that wait already; false if there are too many or there can be no thread. A job that panics
/// is given up.
pub fn run(job: impl FnOnce() + Send + 'static) -> bool {
    let mut state = lock();
    if state.jobs.len() >= QUEUE_JOBS_MAX {
        return false;
    }
    state.jobs.push_back(Box::new(job));
    if !state.running {
        let started = std::thread::Builder::new().name("brisk-background".into()).spawn(work);
        if started.is_err() {
            state.jobs.pop_back();
            return false;
        }
        state.running = true;
    }
    true
}

fn work() {
    // On Linux the priority is the thread's own.
    let _ = rustix::process::nice(NICE);
    loop {
        let job = {
            let mut state = lock();
            match state.jobs.pop_front() {
                Some(job) => job,
                None => {
                    state.running = false;
                    return;
                }
            }
        };
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}

/// No job runs under this lock, so a poisoned one is still consistent.
fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn jobs_run_one_after_the_other_whatever_becomes_of_them() {
        let (send, receive) = mpsc::channel();
        for at in 0..50 {
            let send = send.clone();
            assert!(run(move || {
                send.send((at, std::thread::current().name().map(str::to_owned))).unwrap();
                assert!(at % 10 != 3, "this job panics, and that harms no other");
            }));
        }
        for at in 0..50 {
            let (got, thread) = receive.recv().unwrap();
            assert_eq!((got, thread.as_deref()), (at, Some("brisk-background")));
        }
    }
}
