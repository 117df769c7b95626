//! Every limit of this crate that is not a directive, with its unit in its name.

// background.rs

/// Jobs that wait at most.
pub const QUEUE_JOBS_MAX: usize = 1024;

// event_loop.rs

/// Events taken per wake-up: bounds the work before timers and other threads are heard again.
pub const EVENTS_MAX: usize = 512;

// tls.rs

/// Who sends less than this at a time does not have the kernel set up for it.
pub const KERNEL_BYTES_MIN: u64 = 64 * 1024;

// watch.rs

/// Symbolic links followed in one path, as the kernel's own limit.
pub const LINKS_MAX: usize = 40;
/// Events taken in one [`Watcher::sync`]: four times what the kernel queues by default.
pub const EVENTS_PER_SYNC_MAX: usize = 65_536;
