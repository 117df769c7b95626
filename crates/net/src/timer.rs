//! Waiting for a time, on this thread's loop.

use crate::clock;
use crate::event_loop::Loop;
use crate::timers::Entry;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// A future that is ready at a point in time.
pub struct Sleep {
    deadline_ms: u64,
    entry: Option<Rc<Entry>>,
}

/// Sleeps for `duration`, counted from the last wake-up.
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(clock::mono_ms() + duration.as_millis() as u64)
}

/// Sleeps until a monotonic time in milliseconds.
pub fn sleep_until(deadline_ms: u64) -> Sleep {
    Sleep { deadline_ms, entry: None }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if clock::mono_ms() >= self.deadline_ms {
            return Poll::Ready(());
        }
        if let Some(entry) = &self.entry {
            *entry.waker.borrow_mut() = Some(cx.waker().clone());
        } else {
            let entry =
                Rc::new(Entry { waker: RefCell::new(Some(cx.waker().clone())), cancelled: Cell::new(false) });
            Loop::current().timers.add(self.deadline_ms, entry.clone());
            self.entry = Some(entry);
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(entry) = &self.entry
            && Rc::strong_count(entry) > 1
        {
            entry.cancelled.set(true);
            if let Some(home) = Loop::try_current() {
                home.timers.count_cancelled();
            }
        }
    }
}

/// The time was over first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOut;

/// See [`timeout`].
pub struct Timeout<F> {
    future: Pin<Box<F>>,
    sleep: Sleep,
}

/// `future`, or [`TimedOut`] if it takes longer than `duration`.
pub fn timeout<F: Future>(duration: Duration, future: F) -> Timeout<F> {
    Timeout { future: Box::pin(future), sleep: sleep(duration) }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, TimedOut>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(out) = self.future.as_mut().poll(cx) {
            return Poll::Ready(Ok(out));
        }
        Pin::new(&mut self.sleep).poll(cx).map(|()| Err(TimedOut))
    }
}

/// A time limit that is moved often: moving it costs a store, and one entry in the heap serves for long.
#[derive(Default)]
pub struct Deadline {
    /// 0: none.
    at_ms: u64,
    sleep: Option<Sleep>,
}

impl Deadline {
    /// From now on it is over after `duration`, counted from the last wake-up.
    pub fn set(&mut self, duration: Duration) {
        self.at_ms = clock::mono_ms() + duration.as_millis() as u64;
    }

    /// No limit.
    pub fn clear(&mut self) {
        self.at_ms = 0;
    }

    /// Whether there is a limit.
    pub fn is_set(&self) -> bool {
        self.at_ms != 0
    }

    /// True if the time is over; else the task is woken when it is (or before).
    pub fn poll_over(&mut self, cx: &mut Context<'_>) -> bool {
        if self.at_ms == 0 {
            return false;
        }
        let now = clock::mono_ms();
        if now >= self.at_ms {
            return true;
        }
        // A timer that fires too early is set again; only one too late would be a fault.
        let sleep = match &mut self.sleep {
            Some(sleep) if sleep.deadline_ms > now && sleep.deadline_ms <= self.at_ms => sleep,
            slot => slot.insert(sleep_until(self.at_ms)),
        };
        Pin::new(sleep).poll(cx).is_ready()
    }
}
