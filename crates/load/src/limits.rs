//! Every limit of this crate that is not a directive, with its unit in its name.

use std::time::Duration;

// cli/args.rs

/// Connections that a run may have.
pub const CONNECTIONS_MAX: usize = 1_000_000;

// cli/options.rs

/// Files that are sent are kept in memory.
pub const BODY_BYTES_MAX: u64 = 1 << 30;
/// Idle connections are not kept for longer, unless `-d` says so: no run is without an end.
pub const IDLE_TIME_MAX: Duration = Duration::from_hours(1);
/// Requests that the raw log keeps: 100 bytes of memory each.
pub const RAW_RECORDS_MAX: usize = 50_000_000;

// cli/run.rs

/// Idle connections are made within this time.
pub const SETTLED_TIME_MAX: Duration = Duration::from_mins(2);

// cli/server.rs

/// How long a command may take until its server answers.
pub const START_TIME_MAX: Duration = Duration::from_secs(20);
/// How long it may take to end, and to give its address back.
pub const END_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a look at an address may take.
pub const LOOK_TIME_MAX: Duration = Duration::from_secs(1);

// compare/mod.rs

/// So many pairs that others have disturbed, and more than were left in peace, tell that the machine is busy.
pub const DISTURBED_PAIRS_MIN: usize = 4;

// compare/side.rs

/// A side of a pair is spoilt if others took more than this of the CPU time that server and generator wanted.
pub const TAKEN_SHARE_MAX: f64 = 0.05;
/// Or if more than this share of its requests failed.
pub const ERROR_SHARE_MAX: f64 = 0.001;

// engine/conn.rs

/// Full reads in one turn before others get theirs.
pub const READS_PER_TURN_MAX: usize = 16;

// engine/course.rs

/// Slices that begin in one wake-up, at most: of a thread that was stopped for longer, one has the rest.
pub const MISSED_SLICES_MAX: usize = 1000;

// engine/gather.rs

/// The clock does not wait for users any longer when none has come for so long. It is more than the second after which the
/// kernel asks again for a connection that a full queue has dropped, and the two after that.
pub const GATHER_STALL_MAX: Duration = Duration::from_secs(4);
/// Nor does it wait for longer in all.
pub const GATHER_TIME_MAX: Duration = Duration::from_mins(2);
/// With a ramp, the last user may come so much later than it should.
pub const RAMP_GRACE_MAX: Duration = Duration::from_secs(1);

// engine/mod.rs

/// So many errors, and nothing else within the time below, end a run: a closed port has no answers later either.
pub const HOPELESS_ERRORS_MIN: u64 = 10;
/// See [`HOPELESS_ERRORS_MIN`].
pub const HOPELESS_TIME_MAX: Duration = Duration::from_secs(3);

// engine/worker.rs

/// Events taken per wake-up.
pub const EVENTS_MAX: usize = 512;
/// Requests of an open loop that wait for a connection, per thread; beyond it they count as not sent at once.
pub const WAITING_REQUESTS_MAX: usize = 1 << 20;

// h3.rs

/// Bytes that are read of one stream at a time.
pub const H3_READ_BYTES: usize = 64 << 10;

// jar.rs

/// Cookies kept at most.
pub const COOKIES_MAX: usize = 300;

// live/web.rs

/// A request line with its head is not longer.
pub const WEB_HEAD_BYTES_MAX: u64 = 16 * 1024;

// report/mod.rs

/// A generator whose thread is on a CPU for more than this share of the time may be what is measured.
pub const GENERATOR_SHARE_MAX: f64 = 0.97;

// response.rs

/// A head longer than this is refused.
pub const RESPONSE_HEAD_BYTES_MAX: usize = 64 * 1024;

// report/truth.rs

/// What the generator itself adds to a percentile may be this share of it.
pub const MOVED_SHARE_MAX: f64 = 0.05;
/// Or so much, in nanoseconds, if that is more: less is what reports promise of their percentiles.
pub const MOVED_NS_MAX: f64 = 200_000.0;
/// A percentile is judged if so many responses are above it; those of fewer are accidents of single requests.
pub const RESPONSES_ABOVE_MIN: f64 = 10.0;

// sweep/search.rs

/// Trials in all: a search ends.
pub const TRIALS_MAX: usize = 40;
/// No server that can be reached is faster.
pub const RATE_MAX: f64 = 5e6;

// sweep/shape.rs

/// A scalability law that explains less of the rates' variance has nothing to say.
pub const EXPLAINED_MIN: f64 = 0.9;
/// One run's rate differs from the next's by so much, whatever their own slices say: less is no difference.
pub const NOISE_MIN: f64 = 0.03;
/// Numbers of users whose rates can be called flat.
pub const FLAT_POINTS_MIN: usize = 3;
/// However uncertain a run is: what is further from the mean of the others by this share of it is not flat.
pub const FLAT_SHARE_MAX: f64 = 0.15;
/// So many times more users in the last of them than in the first: around a knee rates are flat, too, but not for long.
pub const FLAT_USERS_MIN: f64 = 2.0;

// sweep/usl.rs

/// Steps of a fit.
pub const FIT_STEPS_MAX: usize = 300;

// watch/inside.rs, watch/mysql.rs

/// A tier that is asked for its status has so much time to answer.
pub const ASK_TIME_MAX: Duration = Duration::from_secs(1);
/// What it answers is not longer, in bytes.
pub const STATUS_BYTES_MAX: usize = 4 << 20;

// watch/sockets.rs

/// Reading tables of so many lines costs less than a millisecond.
pub const SHORT_TABLE_LINES_MAX: usize = 500;

// watch/verdict.rs

/// Fewer queries that wait for locks are an accident of the moment.
pub const LOCKED_QUERIES_MIN: f64 = 1.0;

// report/html.rs

/// Characters of a table that a phone shows beside each other.
pub const PHONE_CHARS_MAX: usize = 44;
/// A page of so many sections begins with links to them.
pub const INDEX_SECTIONS_MIN: usize = 9;

// watch/waits.rs

/// Tasks of a tier whose waits are looked at.
pub const WAITING_TASKS_MAX: usize = 512;
/// Addresses that a tier's processes were seen to be connected to.
pub const PEERS_MAX: usize = 64;
/// Files of one `poll` that are looked at: those of PHP and its libraries have one or two.
pub const POLLED_FILES_MAX: usize = 16;
