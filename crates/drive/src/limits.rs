//! Every limit of this crate that is not a directive, with its unit in its name.

use std::time::Duration;

// client/h3.rs

/// How long a handshake of QUIC may take: where UDP is dropped nothing says so.
pub const H3_HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// After this part of it another one is begun.
pub const H3_FIRST_TIME_MAX: Duration = Duration::from_secs(3);

// client/line.rs

/// Bytes on their way in one direction of one connection at most.
pub const LINE_BYTES_MAX: usize = 4 << 20;
/// Bytes that pass a slow line at a time: connections take turns in such pieces.
pub const LINE_STEP_BYTES: usize = 1400;
/// The slowest line, in bytes per second.
pub const LINE_RATE_MIN: f64 = 125.0;
/// The longest round trip.
pub const LINE_ROUND_TRIP_MAX: Duration = Duration::from_secs(30);

// get/cli.rs

/// Redirects followed at most.
pub const GET_REDIRECTS_MAX: usize = 10;
/// How long a session's ticket is waited for behind the first answer.
pub const TICKET_TIME_MAX: Duration = Duration::from_millis(100);

// get/show.rs

/// Lines that are kept of frames and chunks: a long body has millions.
pub const SHOW_LINES_MAX: usize = 2000;
/// Characters of a body shown at most when it is pretty.
pub const PRETTY_CHARS_MAX: usize = 4000;

// old/ab/options.rs

/// Each is kept for the report.
pub const REQUESTS_MAX: u64 = 20_000_000;
/// The most requests at a time that ab's options may ask for.
pub const CONCURRENCY_MAX: u64 = 20_000;

// old/httperf.rs

/// Each request is kept for the report.
pub const CALLS_MAX: u64 = 20_000_000;

// old/siege/options.rs

/// The most users that siege's options may ask for.
pub const SIEGE_USERS_MAX: u64 = 10_000;

// old/siege/urls.rs

/// A file of more lines than this is a mistake.
pub const URLS_LINES_MAX: usize = 1_000_000;

// old/siege/user.rs

/// Redirects that a user of siege follows for one URL.
pub const USER_REDIRECTS_MAX: usize = 10;

// page/css.rs

/// A style sheet refers to no more than this many things.
pub const REFERENCES_MAX: usize = 1000;

// page/html.rs

/// A page refers to no more than this many things.
pub const RESOURCES_MAX: usize = 2000;

// page/load.rs

/// Things fetched at most.
pub const ENTRIES_MAX: usize = 3000;
/// Frames in frames, the page itself among them.
pub const FRAMES_MAX: usize = 3;
/// Redirects that the load of one part of a page follows.
pub const PAGE_REDIRECTS_MAX: usize = 10;
/// A body larger than this, its codings undone, is not looked into.
pub const TEXT_BYTES_MAX: u64 = 32 << 20;

// scenario/course.rs

/// A slice is no narrower than this.
pub const WIDTH_TIME_MIN: Duration = Duration::from_millis(100);
/// Kinds of failures that are told apart.
pub const KINDS_MAX: usize = 60;
/// Requests that the raw log keeps: about 200 bytes of memory each.
pub const RAW_RECORDS_MAX: usize = 10_000_000;

// scenario/import/jmx/values.rs

/// Variables of a test plan in variables, so deep.
pub const DEPTH_MAX: usize = 10;

// scenario/keys.rs

/// Users at most.
pub const KEYS_USERS_MAX: u64 = 20_000;
/// Users that arrive at a time, unless a scenario says otherwise: each has a connection.
pub const ARRIVED_USERS_MAX: u64 = 4000;
/// Times that a step is taken in a row, at most.
pub const REPEAT_MAX: u64 = 1_000_000;
/// Users that arrive per second at most.
pub const RATE_MAX: u64 = 1_000_000;
/// The largest weight of one member of a group with weights.
pub const WEIGHT_MAX: u64 = 1_000_000;
/// A run ends after this many seconds.
pub const LENGTH_SECS_MAX: u64 = 7 * 24 * 3600;

// scenario/read/parts.rs

/// Files that are sent are kept in memory.
pub const FILE_BYTES_MAX: u64 = 1 << 30;

// scenario/replay.rs

/// Paths that a report tells apart.
pub const STEPS_MAX: usize = 50;

// scenario/report.rs

/// A generator that had less than a tenth of its time to spare may be what users waited for.
pub const BUSY_SHARE_MAX: f64 = 0.9;

// scenario/run.rs

/// Redirects that a step of a scenario follows.
pub const SCENARIO_REDIRECTS_MAX: usize = 10;
/// Of an answer, what is kept to look for values and to check.
pub const BODY_BYTES_MAX: usize = 4 << 20;

// scenario/run/ask.rs

/// Of an answer's beginning, what is looked at when its coding is undone.
pub const PLAIN_BYTES_MAX: u64 = 64 << 20;
