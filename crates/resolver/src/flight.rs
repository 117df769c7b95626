//! A question that is being asked: all that ask the same wait for its answer, on any thread.

use crate::cache::Fact;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A fact and the second until which it holds, or an error's number.
pub(crate) type Told = Result<(Fact, u64), u32>;

#[derive(Default)]
pub(crate) struct Flight {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    told: Option<Told>,
    waiting: Vec<(u64, Option<Waker>)>,
    next: u64,
}

impl Flight {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the answer, too.
    pub fn join(self: &Arc<Self>) -> Waiting {
        let mut state = self.lock();
        let ticket = state.next;
        state.next += 1;
        state.waiting.push((ticket, None));
        drop(state);
        Waiting { flight: self.clone(), ticket }
    }

    /// Whether the answer is still waited for.
    pub fn is_wanted(&self) -> bool {
        !self.lock().waiting.is_empty()
    }

    /// The answer is there: all that wait get it.
    pub fn finish(&self, told: Told) {
        let wakers = {
            let mut state = self.lock();
            state.told = Some(told);
            state.waiting.iter_mut().filter_map(|(_, waker)| waker.take()).collect::<Vec<_>>()
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Waits for the answer; dropping it gives up.
pub(crate) struct Waiting {
    flight: Arc<Flight>,
    ticket: u64,
}

impl Future for Waiting {
    type Output = Told;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Told> {
        let mut state = self.flight.lock();
        if let Some(told) = &state.told {
            return Poll::Ready(told.clone());
        }
        if let Some(entry) = state.waiting.iter_mut().find(|(ticket, _)| *ticket == self.ticket) {
            entry.1 = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.flight.lock().waiting.retain(|(ticket, _)| *ticket != self.ticket);
    }
}
