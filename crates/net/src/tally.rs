//! A number that many threads raise often and few read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// More threads than this share parts: still right, only dearer.
const PARTS: usize = 16;

/// One thread's part of the number, in a cache line of its own: another thread that counts does not take it away.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Part(AtomicU64);

impl Part {
    /// Counts one up.
    #[inline]
    pub fn up(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The sum of its parts.
#[derive(Debug, Default)]
pub struct Tally([Arc<Part>; PARTS]);

impl Tally {
    /// The part of the thread with this number.
    pub fn part(&self, thread: usize) -> &Arc<Part> {
        &self.0[thread % PARTS]
    }

    /// What all have counted.
    pub fn sum(&self) -> u64 {
        self.0.iter().map(|part| part.0.load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_parts_where_there_are_many() {
        let tally = Tally::default();
        std::thread::scope(|scope| {
            for thread in 0..PARTS + 3 {
                let part = tally.part(thread);
                scope.spawn(move || (0..1000).for_each(|_| part.up()));
            }
        });
        assert_eq!(tally.sum(), 1000 * (PARTS as u64 + 3));
    }
}
