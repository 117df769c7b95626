//! Every limit of this crate that is not a directive, with its unit in its name.

// cache.rs

/// Open files that the memory tier keeps.
pub const DESCRIPTORS_MAX: usize = 512;
/// A body up to this size is kept in memory.
pub const BODY_BYTES_MAX: u64 = 256 * 1024;

// disk.rs

/// Threads that look through a folder at once, at most.
pub const SCAN_THREADS_MAX: usize = 4;

// fill.rs

/// Bytes that wait in memory to be read or written, at most.
pub const WINDOW_BYTES_MAX: u64 = 256 * 1024;

// format.rs

/// Longer headers are not stored and not read.
pub const HEADER_BYTES_MAX: usize = 256 * 1024;

// housekeeping.rs

/// From so many rules on all files are looked through, whatever `purger` says.
pub const RULES_MAX: usize = 1000;

// index.rs

/// Statuses without a body per shard at most.
pub const ERRORS_MAX: usize = 4096;
/// Remembered ones per shard at most.
pub const UNSTORABLE_MAX: usize = 4096;
