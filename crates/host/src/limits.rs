//! Every limit of this crate that is not a directive, in one place. Units are in the names.

/// Bytes that the request heads of one connection may occupy, copies included, however little has come on it.
pub const HEADS_BYTES_MIN: usize = 1024 * 1024;
/// Where more has come: bytes of heads per byte that was received. Heads that are not compressed stay far below.
pub const HEAD_BYTES_PER_RECEIVED: u64 = 20;
/// `memory_limit`: from this part of it on nothing is accepted and connections are closed; below the second, all is well again.
pub const MEMORY_FULL_PERCENT: u64 = 90;
/// See [`MEMORY_FULL_PERCENT`].
pub const MEMORY_RESUME_PERCENT: u64 = 85;
/// What connections may hold together of it in any case.
pub const MEMORY_SHARE_PERCENT: u64 = 10;
/// See [`MEMORY_SHARE_PERCENT`]: at least so many bytes.
pub const MEMORY_SHARE_BYTES_MIN: u64 = 1024 * 1024;
/// `memory_limit auto`: what it is of the machine's memory or the control group's, and of what the process's own limits leave room for:
/// stacks of threads that start later and gaps between allocations need the rest.
pub const MEMORY_AUTO_PERCENT: u64 = 80;
/// See [`MEMORY_AUTO_PERCENT`].
pub const MEMORY_ADDRESS_SPACE_PERCENT: u64 = 50;
/// An anonymous mapping from this size on is the allocator's, not a stack.
pub const MEMORY_AREA_BYTES_MIN: u64 = 16 * 1024 * 1024;
/// How often the memory is looked at while there is work, and how often connections are surveyed while it is full.
pub const MEMORY_LOOK_MS: u64 = 50;
/// See [`MEMORY_LOOK_MS`].
pub const MEMORY_SURVEY_MS: u64 = 200;
/// Messages about it are this far apart.
pub const MEMORY_LOG_MS: u64 = 10_000;
/// It is also looked at when the connections of a thread have grown by so much, between these bounds a 64th of the limit.
pub const MEMORY_STEP_BYTES_MIN: usize = 256 * 1024;
/// See [`MEMORY_STEP_BYTES_MIN`].
pub const MEMORY_STEP_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// While it is full, a connection of several streams that holds so much begins no more of them.
pub const MEMORY_FULL_HELD_BYTES: usize = 64 * 1024;
/// A busy connection on which so many bytes move in a second is half as dear as one on which nothing does.
pub const MEMORY_RATE_BYTES: u64 = 16 * 1024;
/// Connections taken from one listening socket per wake-up.
pub const ACCEPT_BATCH_MAX: usize = 64;
/// The same with `multi_accept on`.
pub const ACCEPT_ALL_MAX: usize = 1024;
/// A thread keeps a new connection that may be moved later unless it has so many more than another (and an eighth besides).
pub const KEPT_MORE: usize = 8;
/// How long nothing is accepted after that has failed for want of descriptors or memory.
pub const ACCEPT_PAUSE_MS: u64 = 500;
/// Bytes of log lines buffered per file and thread before they are written early.
pub const LOG_BUFFER_BYTES: usize = 64 * 1024;
/// Logs that a thread keeps a buffer for between lines: with more (one per host) only those in use are kept.
pub const LOGS_KEPT_MAX: usize = 64;
/// Regular expression match attempts (PCRE): stops runaway backtracking. The request is answered with 500.
pub const PCRE_MATCH_LIMIT: u32 = 1_000_000;
/// The same from each place of a subject of more than so many bytes, for patterns that may begin anywhere: PCRE2 counts anew at each place,
/// so all of them together are what a match may cost.
pub const PCRE_STEPS_BY_LENGTH: [(usize, u32); 3] = [(16, 80_000), (128, 10_000), (4096, 16_000)];
/// Memory for backtracking of one match in PCRE's interpreter, in KiB.
pub const PCRE_HEAP_KIB_MAX: u32 = 16 * 1024;
/// Longer subjects get memory of their own for that, which is given back: what is kept is kept for each pattern and thread.
pub const PCRE_KEPT_SUBJECT_BYTES_MAX: usize = 1024;
/// Compiled size of a pattern on the linear-time engine; PCRE runs what would be larger.
pub const LINEAR_REGEX_BYTES_MAX: usize = 4 * 1024 * 1024;
/// What a thread keeps to run one pattern on the linear-time engine, for each direction.
pub const LINEAR_CACHE_BYTES_MAX: usize = 2 * 1024 * 1024;
/// The same for patterns of people who share the server (`.htaccess`): a file may have thousands.
pub const LINEAR_STRANGERS_CACHE_BYTES_MAX: usize = 64 * 1024;
/// Compiled size of a pattern on PCRE2, whose links have two bytes.
pub const PCRE_BYTES_MAX: usize = 64 * 1024;
/// From this many regular expression locations in a block on, one pass over the URI tells whether any can match.
pub const REGEX_SET_MIN: usize = 8;
/// Compiled size of such a set; larger ones are not built.
pub const REGEX_SET_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of log lines kept for a reader (a pipe, a terminal) or a disk that does not keep up; more are dropped.
pub const LOG_UNREAD_BYTES_MAX: usize = 256 * 1024;
/// Bytes of an error log in memory: less would hold too few lines.
pub const LOG_MEMORY_BYTES_MIN: u64 = 8 * 1024;
/// Buffers of one log that wait to be compressed on the pool; the next is compressed where it was filled.
pub const LOG_PACKS_WAITING_MAX: usize = 8;
/// How long the end of a process, or of a file that is rotated, waits for lines that are on the pool.
pub const LOG_SETTLE_MS_MAX: u64 = 5_000;
/// How long a slow reader of a log has at the end of a worker to take what was kept for it.
pub const LOG_READER_MS_MAX: u64 = 1_000;
/// The longest `tag=` of a `syslog:` destination, as in nginx.
pub const SYSLOG_TAG_LEN_MAX: usize = 32;
/// Repetitions above this are left to PCRE2: the linear engine writes them out.
pub const REGEX_REPEAT_MAX: u32 = 1000;
/// Groups inside each other.
pub const REGEX_DEPTH_MAX: usize = 50;
/// Names that are tried before giving up: each is one that exists already.
pub const TEMP_NAMES_MAX: u32 = 10_000;
/// Levels of folders, at most.
pub const TEMP_LEVELS_MAX: usize = 3;
/// nginx's smallest zone: eight pages.
pub const ZONE_BYTES_MIN: u64 = 8 * 4096;
/// Names of variables that may come up after the start of a configuration, in what is compiled late.
pub const LATE_VARIABLES_MAX: usize = 4096;
/// Variables within variables are followed this far; beyond, they count as values of clients.
pub const VERIFY_DEPTH_MAX: usize = 8;
/// Kinds of TLS connections that one server may have: HTTP over TCP without and with HTTP/2, and over QUIC.
pub const TLS_KINDS_MAX: usize = 3;
/// The longest OCSP response that is read.
pub const OCSP_RESPONSE_BYTES_MAX: usize = 64 * 1024;
