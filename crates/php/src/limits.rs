//! Every limit of this crate that is not a directive, in one place. Units are in the names.

use std::time::Duration;

/// Workers of a pool: what the pool master's board has room for.
pub const WORKERS_MAX: u32 = 4096;
/// Requests that may wait for a worker, by `queue`.
pub const QUEUE_REQUESTS_MAX: u32 = 1_000_000;
/// Requests that may wait if no `queue` is written: so many per worker at least.
pub const QUEUE_REQUESTS_PER_WORKER: u32 = 4;
/// As many as are served within this time may wait, too, if no `queue` is written; in milliseconds.
pub const QUEUE_USUAL_MS: u64 = 1000;
/// But no more than this, which is the backlog of PHP-FPM's sockets (`listen.backlog`): requests that come together to a pool that has
/// had nothing to do wait, as they would there.
pub const QUEUE_DEFAULT_REQUESTS_MAX: usize = 511;
/// How long a request may wait if no `queue` is written.
pub const QUEUE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
/// Requests that have waited for longer are turned away while more than the usual number wait.
pub const QUEUE_TARGET: Duration = Duration::from_millis(100);
/// What is served within this time is served soon, in milliseconds: whom an overloaded pool refuses it refuses at once.
pub const QUEUE_SOON_MS: u64 = 50;
/// The most workers of a pool that does not say.
pub const CHILDREN_DEFAULT_MAX: u32 = 32;
/// A request may take so long if nothing is written.
pub const TERMINATE_TIMEOUT_DEFAULT: Duration = Duration::from_mins(5);
/// Names, numbers and signs of a value that is made of PHP's names of errors; they are read recursively.
pub const EXPRESSION_PARTS_MAX: usize = 256;
/// A time in a pool's settings.
pub const TIME_MAX: Duration = Duration::from_hours(24 * 365);
/// Throughputs that differ by less are the same: the smaller number of workers is as good. What is seen scatters as much again: with 0.02 the number
/// that was found served less than 95 % of the most in 35 of 800 simulated pools, with this in 6. With 0.01 work that only runs gets a worker more.
pub const SIZE_LOSS: f64 = 0.012;
/// A step must serve so much more, or the climb ends.
pub const SIZE_GAIN_CLIMB: f64 = 0.05;
/// A step that serves so much more is not looked at twice.
pub const SIZE_GAIN_PLAIN: f64 = 0.2;
/// A step is followed by the next one early if it serves at least so much of what it would with all workers as good as those before.
pub const SIZE_EARLY_YIELD: f64 = 0.75;
/// And if workers are blocked for so much of their time.
pub const SIZE_EARLY_BLOCKED: f64 = 0.5;
/// Where workers are blocked for so much of their time, a few requests of each are enough to go on.
pub const SIZE_PLAINLY_BLOCKED: f64 = 0.9;
/// A pool that no request waits for keeps as many workers as were busy at once in this time.
pub const SIZE_IDLE_MS: u64 = 30_000;
/// At most a quarter of the workers is given up in this time.
pub const SIZE_SHRINK_MS: u64 = 1000;
/// While requests wait, a number that was found is looked at again after this time.
pub const SIZE_PROBE_MS: u64 = 60_000;
/// After a change it is waited for one and a half requests, but no longer than this, until its effect is measured.
pub const SIZE_SETTLE_MS_MAX: u64 = 2000;
/// While something waits for memory for more of the time than this, no pool grows.
pub const SIZE_MEMORY_PRESSURE_PERCENT: f64 = 10.0;
/// For so long, and at most twice as long, the worst moment of memory counts.
pub const SIZE_MEMORY_MS: u64 = 1000;
/// A control group's limit of memory is none from here on: v1 shows "no limit" as the greatest multiple of a page.
pub const NO_MEMORY_LIMIT_BYTES: u64 = 1 << 60;
/// The most by which the number of workers rises at once, as a part of it: what is tried stays below 1.5 times the best number, also where
/// the number before was a little above it.
pub const SIZE_STEP: f64 = 0.4;
/// While requests wait and none is answered for so long, workers are made without a comparison.
pub const SIZE_STALL_MS: u64 = 500;
/// Work whose blocked part has changed by so much is other work: the number of workers is looked for anew.
pub const SIZE_BLOCKED_CHANGE: f64 = 0.25;
/// A pool whose processes cannot be started is tried again after a pause, which doubles up to this.
pub const START_PAUSE_MAX: Duration = Duration::from_secs(5);
