//! Every limit of this crate that is not a directive, in one place. Units are in the names.

use std::time::Duration;

/// Workers of a pool: what the pool master's board has room for.
pub const WORKERS_MAX: u32 = 4096;
/// Requests that may wait for a worker, by `queue`.
pub const QUEUE_REQUESTS_MAX: u32 = 1_000_000;
/// Requests that may wait if no `queue` is written: so many per worker.
pub const QUEUE_REQUESTS_PER_WORKER: u32 = 4;
/// How long a request may wait if no `queue` is written.
pub const QUEUE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
/// A pool whose requests wait longer than this answers the newest first, and turns those away that have waited longer.
pub const QUEUE_TARGET: Duration = Duration::from_millis(100);
/// The most workers of a pool that does not say.
pub const CHILDREN_DEFAULT_MAX: u32 = 32;
/// A request may take so long if nothing is written.
pub const TERMINATE_TIMEOUT_DEFAULT: Duration = Duration::from_mins(5);
/// A time in a pool's settings.
pub const TIME_MAX: Duration = Duration::from_hours(24 * 365);
