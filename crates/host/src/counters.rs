//! Numbers that one thread changes and all may read: counting is a load and a store, without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread changes and all may read.
#[derive(Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Counts one up.
    #[inline]
    pub fn up(&self) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Counts one down.
    #[inline]
    pub fn down(&self) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
    }

    /// Counts so many up.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// Sets it.
    pub fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }

    /// The present count, as of any thread.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
