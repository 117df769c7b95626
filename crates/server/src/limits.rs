//! Every limit that is not a directive, in one place. Units are in the names.

/// Rewrites and internal redirects of one request before it is given up with 500 (nginx: 10).
pub const URI_CHANGES_MAX: u8 = 11;
/// Bytes taken from a socket in one read of the hot path.
pub const READ_CHUNK_BYTES: usize = 16 * 1024;
/// Room for all requests that one wake-up reads before they are answered.
pub const ARENA_BYTES: usize = 256 * 1024;
/// Room for the answers that one turn sends together, which is kept for the next one; more is made for the turn only.
pub const BURST_BYTES_MAX: usize = 256 * 1024;
/// Requests that are over and kept by a thread for later ones: as many as usually wait for back ends at once.
pub const POOLED_REQUESTS_MAX: usize = 128;
/// Requests answered for one connection before others have their turn.
pub const PIPELINE_MAX: usize = 64;
/// A file up to this size is kept in memory while it is cached.
pub const SMALL_FILE_BYTES_MAX: u64 = 64 * 1024;
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
/// Bytes that the request heads of one connection may occupy, copies included, however little has come on it.
pub const HEADS_BYTES_MIN: usize = 1024 * 1024;
/// Where more has come: bytes of heads per byte that was received. Heads that are not compressed stay far below.
pub const HEAD_BYTES_PER_RECEIVED: u64 = 20;
/// `memory_limit`: from this part of it on nothing is accepted and connections are closed; below the second, all is well again.
pub const MEMORY_FULL_PERCENT: u64 = 90;
pub const MEMORY_RESUME_PERCENT: u64 = 85;
/// What connections may hold together of it in any case.
pub const MEMORY_SHARE_PERCENT: u64 = 10;
pub const MEMORY_SHARE_BYTES_MIN: u64 = 1024 * 1024;
/// `memory_limit auto`: what it is of the machine's memory or the control group's, and of what the process's own limits leave room for:
/// stacks of threads that start later and gaps between allocations need the rest.
pub const MEMORY_AUTO_PERCENT: u64 = 80;
pub const MEMORY_ADDRESS_SPACE_PERCENT: u64 = 50;
/// An anonymous mapping from this size on is the allocator's, not a stack.
pub const MEMORY_AREA_BYTES_MIN: u64 = 16 * 1024 * 1024;
/// How often the memory is looked at while there is work, and how often connections are surveyed while it is full.
pub const MEMORY_LOOK_MS: u64 = 50;
pub const MEMORY_SURVEY_MS: u64 = 200;
/// Messages about it are this far apart.
pub const MEMORY_LOG_MS: u64 = 10_000;
/// It is also looked at when the connections of a thread have grown by so much, between these bounds a 64th of the limit.
pub const MEMORY_STEP_BYTES_MIN: usize = 256 * 1024;
pub const MEMORY_STEP_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// While it is full, a connection of several streams that holds so much begins no more of them.
pub const MEMORY_FULL_HELD_BYTES: usize = 64 * 1024;
/// A busy connection on which so many bytes move in a second is half as dear as one on which nothing does.
pub const MEMORY_RATE_BYTES: u64 = 16 * 1024;
/// Unused room that a request's buffers may keep while the request waits.
pub const WAITING_SLACK_BYTES_MAX: usize = 2 * 1024;
/// An estimate of what a request that waits on a stream takes besides its head: its own fields, its task, its response.
pub const WAITING_REQUEST_BYTES: usize = 8 * 1024;
/// An estimate of what a TLS session takes besides its buffers.
pub const TLS_SESSION_BYTES: usize = 8 * 1024;
/// Connections taken from one listening socket per wake-up.
pub const ACCEPT_BATCH_MAX: usize = 64;
/// The same with `multi_accept on`.
pub const ACCEPT_ALL_MAX: usize = 1024;
/// A thread keeps a new connection that may be moved later unless it has so many more than another (and an eighth besides).
pub const KEPT_MORE: usize = 8;
/// How long nothing is accepted after that has failed for want of descriptors or memory.
pub const ACCEPT_PAUSE_MS: u64 = 500;
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
pub const SSI_QUEUE_PARTS_MAX: usize = 64;
/// Values of variables and contents of blocks of one request.
pub const SSI_MEMORY_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of log lines buffered per file and thread before they are written early.
pub const LOG_BUFFER_BYTES: usize = 64 * 1024;
/// Regular expression match attempts (PCRE): stops runaway backtracking. The request is answered with 500.
pub const PCRE_MATCH_LIMIT: u32 = 1_000_000;
/// Memory for backtracking of one match in PCRE's interpreter, in KiB.
pub const PCRE_HEAP_KIB_MAX: u32 = 16 * 1024;
/// Longer subjects get memory of their own for that, which is given back: what is kept is kept for each pattern and thread.
pub const PCRE_KEPT_SUBJECT_BYTES_MAX: usize = 1024;
/// Compiled size of a pattern on the linear-time engine; PCRE runs what would be larger.
pub const LINEAR_REGEX_BYTES_MAX: usize = 4 * 1024 * 1024;
/// From this many regular expression locations in a block on, one pass over the URI tells whether any can match.
pub const REGEX_SET_MIN: usize = 8;
/// Compiled size of such a set; larger ones are not built.
pub const REGEX_SET_BYTES_MAX: usize = 16 * 1024 * 1024;
/// `Link` fields of one early hint.
pub const HINT_LINKS_MAX: usize = 32;
/// Interim responses that wait for a client to take them; more are dropped.
pub const INTERIM_UNSENT_BYTES_MAX: usize = 16 * 1024;
/// What one thread remembers for `early_hints_learn`.
pub const LEARNED_BYTES_MAX: usize = 1024 * 1024;
/// The same for one URI.
pub const LEARNED_ENTRY_BYTES_MAX: usize = 8 * 1024;
/// Bytes of log lines kept for a reader (a pipe, a terminal) or a disk that does not keep up; more are dropped.
pub const LOG_UNREAD_BYTES_MAX: usize = 256 * 1024;
/// Bytes of an error log in memory: less would hold too few lines.
pub const LOG_MEMORY_BYTES_MIN: u64 = 8 * 1024;
/// Buffers of one log that wait to be compressed on the pool; the next is compressed where it was filled.
pub const LOG_PACKS_WAITING_MAX: usize = 8;
/// How long the end of a process, or of a file that is rotated, waits for lines that are on the pool.
pub const LOG_SETTLE_MS_MAX: u64 = 5_000;
/// How long a connection that is to be closed waits for lines that are on the pool.
pub const LOG_WAIT_MS_MAX: u64 = 100;
