//! How much work of one kind the pool of threads does at the same time: as much as there are cores. More would take no less time, a decoded
//! image has some hundred megabytes, and the pool has other things to do as well.
//!
//! First come, first served: a request that waits is not overtaken by those that come later. The lock is held
//! for a few instructions.

use brisk_net::blocking;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

struct State {
    /// `None`: not asked yet how many there may be.
    free: Option<usize>,
    /// By ticket: a request that is dropped while it waits takes its own place out.
    waiting: VecDeque<(u64, Waker)>,
    next_ticket: u64,
}

/// Why work is not done.
pub enum Busy {
    /// So many wait already.
    Line,
    /// The pool's queue is full.
    Pool,
}

/// Where work of one kind waits for its turn.
pub struct Gate(Mutex<State>);

impl Gate {
    /// Nobody waits.
    pub const fn new() -> Gate {
        Gate(Mutex::new(State { free: None, waiting: VecDeque::new(), next_ticket: 0 }))
    }

    /// How many wait.
    fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Carries out work on the pool when it is its turn. No more than `waiting_max` may wait.
    pub async fn run<T: Send + 'static>(
        &'static self,
        waiting_max: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Busy> {
        if self.waiting() >= waiting_max {
            return Err(Busy::Line);
        }
        let permit = self.turn().await;
        let job = blocking::run(move || {
            // Held by the job: it ends with the work, and a client that goes away does not make room for more.
            let _permit = permit;
            work()
        });
        match job {
            Ok(job) => Ok(job.await),
            Err(_) => Err(Busy::Pool),
        }
    }

    /// Waits for its turn.
    fn turn(&'static self) -> Turn {
        Turn { gate: self, ticket: None }
    }

    /// Nothing that can panic runs under this lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wake_first(&self) {
        if let Some((_, waker)) = self.waiting.front() {
            waker.wake_by_ref();
        }
    }
}

/// Work may be done until this is dropped.
struct Permit(&'static Gate);

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.free = state.free.map(|free| free + 1);
        state.wake_first();
    }
}

/// See [`Gate::turn`].
struct Turn {
    gate: &'static Gate,
    /// While it waits.
    ticket: Option<u64>,
}

impl Future for Turn {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Permit> {
        let gate = self.gate;
        let mut state = gate.lock();
        let free = *state
            .free
            .get_or_insert_with(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
        let is_first = match self.ticket {
            Some(ticket) => state.waiting.front().is_none_or(|(first, _)| *first == ticket),
            None => state.waiting.is_empty(),
        };
        if free > 0 && is_first {
            state.free = Some(free - 1);
            if self.ticket.take().is_some() {
                state.waiting.pop_front();
            }
            if free > 1 {
                // More than one may have become free since the first was woken.
                state.wake_first();
            }
            return Poll::Ready(Permit(gate));
        }
        match self.ticket {
            Some(ticket) => {
                if let Some(entry) = state.waiting.iter_mut().find(|(have, _)| *have == ticket) {
                    // A future may be polled by another task than before.
                    entry.1.clone_from(cx.waker());
                }
            }
            None => {
                let ticket = state.next_ticket;
                state.next_ticket += 1;
                state.waiting.push_back((ticket, cx.waker().clone()));
                self.ticket = Some(ticket);
            }
        }
        Poll::Pending
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = self.gate.lock();
        state.waiting.retain(|(have, _)| *have != ticket);
        // It may have been woken for a place that it will not take.
        state.wake_first();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static GATE: Gate = Gate::new();

    #[test]
    fn places_are_given_in_order_and_come_back() {
        let mut cx = Context::from_waker(Waker::noop());
        let mut poll = |turn: &mut Turn| Pin::new(turn).poll(&mut cx);
        let mut permits = Vec::new();
        loop {
            let mut turn = GATE.turn();
            match poll(&mut turn) {
                Poll::Ready(permit) => permits.push(permit),
                Poll::Pending => break,
            }
        }
        assert!(!permits.is_empty());
        let (mut first, mut second, mut third) = (GATE.turn(), GATE.turn(), GATE.turn());
        for turn in [&mut first, &mut second, &mut third] {
            assert!(poll(turn).is_pending());
        }
        assert_eq!(GATE.waiting(), 3);
        permits.pop();
        assert!(poll(&mut second).is_pending() && poll(&mut third).is_pending());
        drop(first);
        assert!(poll(&mut third).is_pending());
        assert!(poll(&mut second).is_ready());
        assert!(poll(&mut third).is_ready());
    }
}
