//! What is counted of connections and requests, for `stub_status` and metrics.
//!
//! Each thread has its own counters and is the only one that changes them: counting is a load and a store, without a
//! lock. Whoever wants a total adds them up.

pub use brisk_host::counters::Count;

/// One thread's counters, in a cache line of their own.
#[derive(Default)]
// Otherwise two threads would write to one line, and each count would take it from the other core.
#[repr(align(64))]
pub struct Counters {
    /// Requests that have come.
    pub requests: Count,
    /// Connections of which part of a request's head was read.
    pub reading: Count,
    /// Requests that are being answered.
    pub writing: Count,
    /// Requests answered by a prepared answer.
    pub prepared: Count,
    /// Look-ups in the file cache.
    pub file_hits: Count,
    /// Looks for files that were not in the cache.
    pub file_misses: Count,
    /// Looks for files whose changes the kernel does not report, so that nothing of them is kept.
    pub file_unwatched: Count,
    /// What the file cache holds.
    pub file_entries: Count,
    /// Bytes of files that are kept in memory.
    pub file_bytes: Count,
    /// Descriptors of files that are kept open.
    pub file_descriptors: Count,
}

/// Sums over all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Connections at present.
    pub active: u64,
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that were served.
    pub handled: u64,
    /// Requests that have come.
    pub requests: u64,
    /// Connections of which part of a request's head was read.
    pub reading: u64,
    /// Requests that are being answered.
    pub writing: u64,
}

impl Totals {
    /// Connections between requests. The numbers were not read at one moment: there is no less than nothing.
    /// Connections may come between two reads.
    pub fn waiting(&self) -> u64 {
        self.active.saturating_sub(self.reading + self.writing)
    }
}
