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
/// So long after a worker has begun with a configuration, code that only the beginning and the first requests needed is given back.
pub const CODE_KEPT_TIME: Duration = Duration::from_millis(500);
/// A worker that has not answered an order by then is replaced.
pub const ORDER_TIME_MAX: Duration = Duration::from_secs(20);
/// Counters of programs that go on rising are told to workers no more often.
pub const NEWS_INTERVAL: Duration = Duration::from_secs(1);
/// Lines of one supervised program that are logged in a second; the others are counted.
pub const PROGRAM_LINES_PER_SECOND_MAX: u32 = 500;
/// Between two looks at a program that is starting.
pub const PROGRAM_START_LOOK_TIME: Duration = Duration::from_millis(100);
/// An answer to such a look that has a longer head is none.
pub const PROGRAM_ANSWER_BYTES_MAX: usize = 16 << 10;
/// What is told of a reload that was refused.
pub const REASON_LETTERS_MAX: usize = 500;
/// Findings of the audit that a dashboard is told of.
pub const FINDINGS_TOLD_MAX: usize = 40;
/// A worker that was told to stop at once and has not ended by then is killed.
pub const STOP_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a worker that has drained waits for a collector to take the last spans.
pub const SPANS_TIME_MAX: Duration = Duration::from_secs(4);
/// The same of one that is to end at once.
pub const SPANS_STOP_TIME_MAX: Duration = Duration::from_secs(1);
/// How long a worker that has drained waits for its pool.
pub const SETTLE_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a new master waits for the answer: a worker may be in the middle of an order when its master is killed.
pub const TAKEOVER_ANSWER_TIME_MAX: Duration = Duration::from_secs(30);
/// The longest answer that is no descriptor.
pub const TAKEOVER_ANSWER_BYTES_MAX: usize = 1024;
/// Option files include each other; a circle of them ends here.
pub const INCLUDES_MAX: usize = 10;
/// A pool master that is killed while it starts may have had bad luck, or have served already without having said so; after so many in a row
/// the pool's requests are refused.
pub const POOL_CRASHED_STARTS_MAX: u32 = 3;
/// Folders that one pool watches.
pub const WATCHED_FOLDERS_MAX: usize = 10_000;
/// Changes of code that come within this time are one.
pub const WATCH_SETTLE_TIME: Duration = Duration::from_millis(200);
/// So many settings the tuner tries at most, as its search has it.
pub const TUNE_DIALS_MAX: usize = 8;
/// A program of the copy that does not answer by then does not run.
pub const TUNE_START_TIME_MAX: Duration = Duration::from_secs(15);
/// A copy that answers with errors of the server until then does so always.
pub const TUNE_ERRORS_TIME_MAX: Duration = Duration::from_secs(3);
/// A program of the copy that was told to end has this long.
pub const TUNE_END_TIME_MAX: Duration = Duration::from_secs(5);
/// A database of the copy that does not answer by then does not run: it may have to recover.
pub const TUNE_DATABASE_START_TIME_MAX: Duration = Duration::from_mins(2);
/// A database of the copy that was told to end has this long: it writes what it has in memory.
pub const TUNE_DATABASE_END_TIME_MAX: Duration = Duration::from_secs(30);
/// The folder of a database's copy is removed in so many tries at most, a tenth of a second apart: its server may be ending.
pub const TUNE_REMOVE_TRIES_MAX: usize = 300;
/// A reload of a site's program is waited for no longer; one that keeps its processes is given this time.
pub const TUNE_RELOAD_TIME_MAX: Duration = Duration::from_secs(2);
/// Bytes of a file's extended attribute, and of all their names, that are given to the file in its place: all that the kernel allows.
pub const TUNE_ATTRIBUTE_BYTES_MAX: usize = 64 << 10;
/// What of a slice is warm-up: a quarter of its counted part, and at least this.
pub const TUNE_WARMUP_TIME_MIN: Duration = Duration::from_millis(150);
/// The tuner's look at what limits.
pub const TUNE_LOOK_TIME_MIN: Duration = Duration::from_secs(1);
/// The same, at most.
pub const TUNE_LOOK_TIME_MAX: Duration = Duration::from_secs(10);
/// The counted part of a slice.
pub const TUNE_SLICE_TIME_MIN: Duration = Duration::from_millis(200);
/// The same, at most.
pub const TUNE_SLICE_TIME_MAX: Duration = Duration::from_secs(6);
/// A side of a pair under real traffic is so many seconds.
pub const TUNE_LIVE_SLICE_SECS_MIN: usize = 3;
/// The same, at most.
pub const TUNE_LIVE_SLICE_SECS_MAX: usize = 15;
/// A load whose rate changes by more than this share between two sides with the same configuration is not stationary.
pub const TUNE_LIVE_DRIFT_MAX: f64 = 0.10;
/// A pair under real traffic that is not stationary is measured again so many times.
pub const TUNE_LIVE_TRIES_MAX: usize = 20;
/// A configuration that has not been read by then is refused: a file or a name server of it does not answer.
pub const READ_TIME_MAX: Duration = Duration::from_mins(5);
/// `brisk why` does not wait longer for the answer that it explains.
pub const WHY_ANSWER_TIME_MAX: Duration = Duration::from_mins(1);
/// The longest head of such an answer, in bytes.
pub const WHY_HEAD_BYTES_MAX: usize = 1 << 20;
/// So many lines of the configuration are shown for one decision.
pub const WHY_PLACES_MAX: usize = 6;
/// What is shorter is no secret by itself, and could be a part of any word.
pub const SECRET_BYTES_MIN: usize = 6;
/// Queries that the doctor has explained, those that run most first.
pub const DOCTOR_QUERIES_MAX: usize = 3;
/// So much of a query is shown, in bytes.
pub const DOCTOR_QUERY_BYTES_MAX: usize = 400;
