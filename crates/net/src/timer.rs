//! Timers: a heap of deadlines. Cancelled ones stay in the heap until their time and are then skipped.

use crate::clock;
use crate::event_loop::Loop;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

enum Target {
    Hot(u64),
    Task(Rc<Entry>),
}

struct Entry {
    waker: RefCell<Option<Waker>>,
    cancelled: Cell<bool>,
}

struct Item {
    at: u64,
    serial: u64,
    target: Target,
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.serial) == (other.at, other.serial)
    }
}
impl Eq for Item {}
impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Item {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

#[derive(Default)]
pub(crate) struct Timers {
    heap: RefCell<BinaryHeap<Reverse<Item>>>,
    serial: Cell<u64>,
    cancelled: Cell<usize>,
}

impl Timers {
    fn push(&self, at: u64, target: Target) {
        let serial = self.serial.get();
        self.serial.set(serial + 1);
        self.heap.borrow_mut().push(Reverse(Item { at, serial, target }));
    }

    pub(crate) fn add_hot(&self, at: u64, key: u64) {
        self.push(at, Target::Hot(key));
    }

    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.heap.borrow().peek().map(|item| item.0.at)
    }

    /// Fires all that are due. Callbacks may add timers.
    pub(crate) fn fire(&self, now: u64, mut hot: impl FnMut(u64)) {
        loop {
            let item = {
                let mut heap = self.heap.borrow_mut();
                match heap.peek() {
                    Some(item) if item.0.at <= now => heap.pop(),
                    _ => None,
                }
            };
            let Some(Reverse(item)) = item else { break };
            match item.target {
                Target::Hot(key) => hot(key),
                Target::Task(entry) if entry.cancelled.get() => {
                    self.cancelled.set(self.cancelled.get().saturating_sub(1));
                }
                Target::Task(entry) => {
                    if let Some(waker) = entry.waker.take() {
                        waker.wake();
                    }
                }
            }
        }
        self.sweep();
    }

    /// Drops cancelled timers once they are most of the heap: memory follows what is alive.
    fn sweep(&self) {
        let mut heap = self.heap.borrow_mut();
        if self.cancelled.get() < 64 || self.cancelled.get() * 2 < heap.len() {
            return;
        }
        heap.retain(|item| !matches!(&item.0.target, Target::Task(entry) if entry.cancelled.get()));
        self.cancelled.set(0);
    }
}

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
            Loop::current().timers.push(self.deadline_ms, Target::Task(entry.clone()));
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
                home.timers.cancelled.set(home.timers.cancelled.get() + 1);
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
