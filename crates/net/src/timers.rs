//! A loop's timers: a heap of deadlines. Cancelled ones stay in the heap until their time and are then skipped.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::task::Waker;

enum Target {
    Hot(u64),
    Task(Rc<Entry>),
}

/// A task's timer.
pub(crate) struct Entry {
    /// Taken when the time has come.
    pub waker: RefCell<Option<Waker>>,
    /// The task waits no more.
    pub cancelled: Cell<bool>,
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

/// See the module's head.
#[derive(Default)]
pub(crate) struct Timers {
    heap: RefCell<BinaryHeap<Reverse<Item>>>,
    serial: Cell<u64>,
    /// Entries of the heap that are cancelled.
    cancelled: Cell<usize>,
}

impl Timers {
    fn push(&self, at: u64, target: Target) {
        let serial = self.serial.get();
        self.serial.set(serial + 1);
        self.heap.borrow_mut().push(Reverse(Item { at, serial, target }));
    }

    /// Tells the driver of `key` at a monotonic time in milliseconds.
    pub fn add_hot(&self, at: u64, key: u64) {
        self.push(at, Target::Hot(key));
    }

    /// Wakes a task at a monotonic time in milliseconds.
    pub fn add(&self, at: u64, entry: Rc<Entry>) {
        self.push(at, Target::Task(entry));
    }

    /// One of the entries was cancelled.
    pub fn count_cancelled(&self) {
        self.cancelled.set(self.cancelled.get() + 1);
    }

    /// The time of the next timer, cancelled ones included.
    pub fn next_ms(&self) -> Option<u64> {
        self.heap.borrow().peek().map(|item| item.0.at)
    }

    /// Fires all that are due. Callbacks may add timers.
    pub fn fire(&self, now: u64, mut hot: impl FnMut(u64)) {
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
