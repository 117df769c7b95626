//! Every limit that is not a directive, in one place. Units are in the names.
//! Those of threads, logs, memory and patterns are in `brisk_host`.

pub use brisk_host::limits::*;
use std::time::Duration;

/// Rewrites and internal redirects of one request before it is given up with 500 (nginx: 10).
pub const URI_CHANGES_MAX: u8 = 11;
/// Locations of which `brisk why` says why they do not serve a request.
pub const TRACED_LOCATIONS_MAX: usize = 50;
/// Bytes taken from a socket in one read of the hot path.
pub const READ_CHUNK_BYTES: usize = 16 * 1024;
/// Room for all requests that one wake-up reads before they are answered.
pub const ARENA_BYTES: usize = 256 * 1024;
/// Room for the answers that one turn sends together, which is kept for the next one; more is made for the turn only.
pub const BURST_BYTES_MAX: usize = 256 * 1024;
/// A body in memory from this size on is sent from where it is; copying a smaller one behind its head costs less than a call that gathers.
pub const APART_BODY_BYTES_MIN: usize = 16 * 1024;
/// Requests that are over and kept by a thread for later ones: as many as usually wait for back ends at once.
pub const POOLED_REQUESTS_MAX: usize = 128;
/// Requests answered for one connection before others have their turn.
pub const PIPELINE_MAX: usize = 64;
/// A file up to this size is kept in memory while it is cached.
pub const SMALL_FILE_BYTES_MAX: u64 = 64 * 1024;
/// A text that the server acts on, such as a `.htaccess`, is read as a whole up to this size.
pub const TEXT_FILE_BYTES_MAX: u64 = 512 * 1024;
/// All file contents that one thread keeps.
pub const FILE_MEMORY_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Files (or facts about files) that one thread keeps.
pub const FILE_ENTRIES_MAX: usize = 16_384;
/// Open descriptors among them.
pub const FILE_DESCRIPTORS_MAX: usize = 512;
/// Prepared answers that one thread keeps.
pub const PREPARED_ENTRIES_MAX: usize = 16_384;
/// Their bytes, heads included.
pub const PREPARED_BYTES_MAX: usize = 16 * 1024 * 1024;
/// An answer up to this size is prepared as a whole.
pub const PREPARED_ANSWER_BYTES_MAX: usize = 80 * 1024;
/// Variants of one prepared answer, by the codings that clients accept.
pub const PREPARED_ENCODINGS_MAX: usize = 8;
/// Prepared answers that are good for a second are looked through every so often.
pub const PREPARED_SWEEP_SECS: i64 = 5;
/// Bytes of a large file handed to the kernel at a time, so that others have their turn.
pub const SENDFILE_CHUNK_BYTES: usize = 2 * 1024 * 1024;
/// Bytes of a file read into memory at a time where sendfile is off.
pub const COPY_CHUNK_BYTES: usize = 64 * 1024;
/// Response heads; more headers than that are a broken configuration.
pub const RESPONSE_HEAD_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a request body read at a time.
pub const BODY_PIECE_BYTES: usize = 32 * 1024;
/// HTTP/2: bytes to be sent up to which streams may add to them; late, so that priorities count.
pub const H2_OUT_BYTES_LOW: usize = 64 * 1024;
/// HTTP/2: with this much to be sent to a client that does not take it, nothing more is read from it.
pub const H2_OUT_BYTES_MAX: usize = 128 * 1024;
/// HTTP/2: bytes that one connection sends before others have their turn.
pub const H2_TURN_BYTES_MAX: usize = 1024 * 1024;
/// HTTP/2: bytes taken from a socket that has more than fits into one read of the hot path.
pub const H2_READ_BYTES: usize = 64 * 1024;
/// HTTP/2: how often that is done before others have their turn.
pub const H2_READS_MAX: usize = 4;
/// HTTP/2: bytes of all bodies of a connection that may be here unread.
pub const H2_CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// HTTP/2: bytes of a body that may come ahead of whoever reads it.
pub const H2_BODY_WINDOW_BYTES: u32 = 256 * 1024;
/// HTTP/2: fields of one request, cookie crumbs too.
pub const H2_FIELDS_MAX: usize = 2048;
/// HTTP/2: how long a client that was asked to leave may take to answer before what it begins is not heard any more.
pub const H2_LEAVE_MS: u64 = 1000;
/// Between the last GOAWAY of an HTTP/3 connection and its close: some round trips.
pub const H3_LAST_WORD_MS: u64 = 250;
/// A client is asked for a sign of life so often while its requests take their time: browsers take a connection for lost after 30 s.
pub const QUIC_PING_MS: u64 = 10_000;
/// A connection over QUIC on which nothing moves is not taken for lost before this, whatever `keepalive_timeout` says: that is about
/// connections without a request.
pub const QUIC_IDLE_TIME_MIN: Duration = Duration::from_mins(1);
/// For how long an answer may be held up by a client whose connection has no listener any more, which would say `send_timeout`.
pub const H3_SEND_TIMEOUT_MS: u64 = 60_000;
/// HTTP/2 and HTTP/3: tables that a connection keeps while it does nothing.
pub const IDLE_TABLES_BYTES_MAX: usize = 16 * 1024;
/// Unused room that a request's buffers may keep while the request waits.
pub const WAITING_SLACK_BYTES_MAX: usize = 2 * 1024;
/// An estimate of what a request that waits on a stream takes besides its head: its own fields, its task, its response.
pub const WAITING_REQUEST_BYTES: usize = 8 * 1024;
/// A body made of several is made at once, as far as that needs no waiting, up to this size.
pub const GATHERED_BYTES_MAX: u64 = 64 * 1024;
/// Depth of subrequests.
pub const SUBREQUEST_DEPTH_MAX: u8 = 50;
/// Images that wait for their turn, each of them in memory.
pub const IMAGES_WAITING_MAX: usize = 512;
/// Bytes by which images are told.
pub const IMAGE_HEAD_BYTES: usize = 16;
/// Subrequests of one thread that nobody waits for (`mirror`): where they do not keep up, they are left out.
pub const ASIDE_MAX: u32 = 4096;
/// One of them is left out, too, where its connection has no room for so many further heads of its size.
pub const ASIDE_HEADS_LEFT_MIN: usize = 8;
/// Subrequests that SSI makes for one request, in all depths.
pub const SSI_INCLUDES_MAX: u32 = 10_000;
/// Subrequests of one page that run at the same time, ahead of what is sent.
pub const SSI_AHEAD_MAX: usize = 16;
/// Bytes and parts of one page that wait for an earlier part.
pub const SSI_QUEUE_BYTES_MAX: usize = 128 * 1024;
/// Parts of a page with SSI that wait to be sent.
pub const SSI_QUEUE_PARTS_MAX: usize = 64;
/// Values of variables and contents of blocks of one request.
pub const SSI_MEMORY_BYTES_MAX: usize = 1024 * 1024;
/// `Link` fields of one early hint.
pub const HINT_LINKS_MAX: usize = 32;
/// Interim responses that wait for a client to take them; more are dropped.
pub const INTERIM_UNSENT_BYTES_MAX: usize = 16 * 1024;
/// What one thread remembers for `early_hints_learn`.
pub const LEARNED_BYTES_MAX: usize = 1024 * 1024;
/// The same for one URI.
pub const LEARNED_ENTRY_BYTES_MAX: usize = 8 * 1024;
/// How long a connection that is to be closed waits for lines that are on the pool.
pub const LOG_WAIT_MS_MAX: u64 = 100;
/// Largest body that is copied behind its head; larger ones are sent by a task.
pub const INLINE_BODY_BYTES_MAX: u64 = 64 * 1024;
/// Bodies up to this size are copied behind their head.
pub const SMALL_BODY_BYTES_MAX: usize = 4096;
/// Locations that one file of directives may make after the start: its own, and those of `if` and `limit_except`.
pub const LATE_LOCATIONS_MAX: u32 = 64;
/// Names under which directives that were compiled after the start are kept, for one configuration.
pub const LATE_ENTRIES_MAX: usize = 4096;
/// Bytes of all their texts.
pub const LATE_TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Seconds that the dashboard's history has one by one.
pub const HISTORY_SECONDS: usize = 600;
/// Minutes that it has.
pub const HISTORY_MINUTES: usize = 24 * 60;
/// URLs, and clients, that one thread counts one by one while somebody looks.
pub const TOPS_ENTRIES_MAX: usize = 512;
/// Bytes of a URL's or a client's name there.
pub const TOPS_NAME_BYTES_MAX: usize = 160;
/// Names are counted for such a period and the one before.
pub const TOPS_PERIOD_SECS: i64 = 30;
/// Requests that a thread records in a second before it begins to pass over some.
pub const TOPS_RECORDED_PER_SECOND: u32 = 500;
/// However busy a thread is, it records one of so many requests.
pub const TOPS_STRIDE_MAX: u32 = 1 << 16;
/// Recording ends so long after the last look.
pub const TOPS_WATCHED_SECS: i64 = 10;
/// Requests that wait of which a dashboard tells one by one, the oldest ones.
pub const FLIGHTS_TOLD_MAX: usize = 50;
/// A thread that has not told of its requests after so long is told of itself.
pub const FLIGHTS_WAIT_MS: u64 = 200;

// h3/

/// Bytes of the dynamic table that clients may use (RFC 9204 §3.2.3).
pub const H3_TABLE_BYTES: u64 = 4096;
/// Streams of a connection that may wait for that table (RFC 9204 §2.1.2).
pub const H3_BLOCKED_STREAMS: u64 = 16;
/// Bytes of a stream that are read at once.
pub const H3_READ_BYTES: usize = 64 << 10;
/// Reads of a stream in a row; then others have their turn.
pub const H3_READS_MAX: usize = 8;
/// Bytes of a body that may have come and not been taken, while it is read.
pub const H3_WINDOW_BYTES: u32 = 256 << 10;
/// An answer up to this size is given to its stream without a task.
pub const H3_WHOLE_BYTES_MAX: usize = 64 << 10;
/// Bytes of a piece that are given to QUIC at once.
pub const H3_STEP_BYTES: usize = 16 << 10;
/// Bytes that a connection gives to QUIC in one turn.
pub const H3_TURN_BYTES_MAX: usize = 256 << 10;
/// Bytes of `quic_host_key` at least: fewer can be guessed.
pub const QUIC_HOST_KEY_BYTES_MIN: usize = 16;
/// IP addresses that a client of QUIC may have had; then its connection is closed, and it comes back with a new one.
pub const CLIENT_ADDRESSES_MAX: u8 = 32;
/// Bytes of packets that are handed to another thread or worker process at once, their addresses included; no parcel has more.
pub const PARCEL_BYTES_MAX: usize = 48 << 10;
/// How long a message of another worker process counts. A machine has one clock; what is older was kept by a third party.
pub const PARCEL_AGE_MS_MAX: u64 = 2000;
/// How long a worker that takes nothing new keeps the first packets of connections for the next one. Clients have given up by then.
pub const HELD_TIME_MAX: Duration = Duration::from_secs(10);
/// Parcels of other worker processes that are taken before other work has its turn.
pub const PARCELS_PER_TURN_MAX: usize = 16;
/// Looks at one socket for datagrams before other sockets and requests have their turn: 16 messages each.
pub const DATAGRAM_READS_PER_TURN_MAX: usize = 4;
/// How long a thread lets connections of QUIC begin before those that are there have their turn: a few dozen Retry packets, or one
/// handshake.
pub const BEGINNING_TIME_MAX: Duration = Duration::from_micros(200);
/// Threads of a `thread_pool`: each has a stack, and the kernel a limit of its own for all of them.
pub const POOL_THREADS_MAX: usize = 1024;
/// Modules of a program. Which of them have something to do in a block is a bit each.
pub const MODULES_MAX: usize = 256;
