//! Every limit of this crate that is not a directive, in one place. Units are in the names.

use std::time::Duration;

/// Descriptors in one packet: the kernel allows 253.
pub const PACKET_FDS_MAX: usize = 200;
/// A payload up to this size travels behind the head: a process without a free descriptor can still say so.
pub const PARCEL_INLINE_BYTES_MAX: usize = 1024;
/// A caller that has not said its order by then is hung up on.
pub const CALL_TIME_MAX: Duration = Duration::from_secs(2);
/// An answer is taken within this time, or not at all.
pub const ANSWER_WRITE_TIME_MAX: Duration = Duration::from_secs(2);
/// A purge or the reload of a pool is not waited for longer.
pub const ANSWER_TIME_MAX: Duration = Duration::from_mins(1);
/// A master that does not answer to `stop` or `quit` by then gets the signal.
pub const END_ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// The longest order, in bytes: one with the longest key that can be stored.
pub const ORDER_BYTES_MAX: usize = 1 << 20;
/// The longest path of a question, as Linux has it.
pub const KEEPER_PATH_BYTES_MAX: usize = 4096;
/// The longest file that is given out.
pub const KEEPER_FILE_BYTES_MAX: u64 = 1 << 20;
/// A certificate that ends sooner is replaced by a new one.
pub const LOCAL_CERTIFICATE_LEFT_DAYS_MIN: i64 = 7;
/// A worker that has not answered an order by then is replaced.
pub const ORDER_TIME_MAX: Duration = Duration::from_secs(20);
/// A worker that was told to stop at once and has not ended by then is killed.
pub const STOP_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a worker that has drained waits for its pool.
pub const SETTLE_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a new master waits for the answer: a worker may be in the middle of an order when its master is killed.
pub const TAKEOVER_ANSWER_TIME_MAX: Duration = Duration::from_secs(30);
/// The longest answer that is no descriptor.
pub const TAKEOVER_ANSWER_BYTES_MAX: usize = 1024;
/// Option files include each other; a circle of them ends here.
pub const INCLUDES_MAX: usize = 10;
/// Folders that one pool watches.
pub const WATCHED_FOLDERS_MAX: usize = 10_000;
/// Changes of code that come within this time are one.
pub const WATCH_SETTLE_TIME: Duration = Duration::from_millis(200);
