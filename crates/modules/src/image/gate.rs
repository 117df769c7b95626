//! How many images are worked on at the same time: as many as there are cores. Each may take some hundred megabytes,
//! and the pool of threads has other things to do as well.
//!
//! First come, first served: a request that waits is not overtaken by those that come later. The lock is held
//! for a few instructions.

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

static STATE: Mutex<State> = Mutex::new(State { free: None, waiting: VecDeque::new(), next_ticket: 0 });

/// Nothing that can panic runs under this lock.
fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn wake_first(&self) {
        if let Some((_, waker)) = self.waiting.front() {
            waker.wake_by_ref();
        }
    }
}

/// Work may be done until this is dropped.
pub struct Permit(());

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = lock();
        state.free = state.free.map(|free| free + 1);
        state.wake_first();
    }
}

/// Waits for its turn.
pub struct Turn(Option<u64>);

impl Turn {
    pub fn new() -> Turn {
        Turn(None)
    }

    /// How many wait.
    pub fn waiting() -> usize {
        lock().waiting.len()
    }
}

impl Future for Turn {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Permit> {
        let mut state = lock();
        let free = *state
            .free
            .get_or_insert_with(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
        let is_first = match self.0 {
            Some(ticket) => state.waiting.front().is_none_or(|(first, _)| *first == ticket),
            None => state.waiting.is_empty(),
        };
        if free > 0 && is_first {
            state.free = Some(free - 1);
            if self.0.take().is_some() {
                state.waiting.pop_front();
            }
            if free > 1 {
                // More than one may have become free since the first was woken.
                state.wake_first();
            }
            return Poll::Ready(Permit(()));
        }
        match self.0 {
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
                self.0 = Some(ticket);
            }
        }
        Poll::Pending
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(ticket) = self.0 else { return };
        let mut state = lock();
        state.waiting.retain(|(have, _)| *have != ticket);
        // It may have been woken for a place that it will not take.
        state.wake_first();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_given_in_order_and_come_back() {
        let mut cx = Context::from_waker(Waker::noop());
        let mut poll = |turn: &mut Turn| Pin::new(turn).poll(&mut cx);
        let mut permits = Vec::new();
        loop {
            let mut turn = Turn::new();
            match poll(&mut turn) {
                Poll::Ready(permit) => permits.push(permit),
                Poll::Pending => break,
            }
        }
        assert!(!permits.is_empty());
        let (mut first, mut second, mut third) = (Turn::new(), Turn::new(), Turn::new());
        for turn in [&mut first, &mut second, &mut third] {
            assert!(poll(turn).is_pending());
        }
        assert_eq!(Turn::waiting(), 3);
        permits.pop();
        assert!(poll(&mut second).is_pending() && poll(&mut third).is_pending());
        drop(first);
        assert!(poll(&mut third).is_pending());
        assert!(poll(&mut second).is_ready());
        assert!(poll(&mut third).is_ready());
    }
}
