//! Every limit of this crate that is not a directive, with its unit in its name.

use std::time::Duration;

// api/mod.rs

/// Bytes of a request's document.
pub const API_BODY_BYTES_MAX: usize = 64 * 1024;

// api/servers.rs

/// Servers that one upstream may have.
pub const SERVERS_MAX: usize = 4096;
/// The longest route= of a server that the API takes, in bytes, as in nginx.
pub const SERVERS_ROUTE_BYTES_MAX: usize = 32;
/// The longest `fail_timeout` and `slow_start` of a server that the API takes: 136 years.
pub const SERVERS_TIME_SECS_MAX: u64 = u32::MAX as u64;

// auth_basic/password.rs

/// Longer passwords are refused: the work for some of these schemes grows with the square of the length.
pub const PASSWORD_BYTES_MAX: usize = 1024;
/// Passwords that wait until their hash is computed.
pub const PASSWORDS_WAITING_MAX: usize = 512;
/// The highest cost of a bcrypt hash that is computed: 65,536 rounds, some seconds. Folders' own files may name any.
pub const BCRYPT_COST_MAX: u32 = 16;
/// The same of `$5$` and `$6$`.
pub const SHA_CRYPT_ROUNDS_MAX: u32 = 10_000_000;

// auth_jwt/json.rs

/// Objects and lists within each other.
pub const JSON_DEPTH_MAX: u8 = 16;

// auth_jwt/keys.rs

/// Keys of one set.
pub const KEYS_MAX: usize = 1024;

// auth_jwt/source.rs

/// Bytes of a key set.
pub const KEY_SET_BYTES_MAX: usize = 1024 * 1024;
/// Files or answers that one thread keeps the keys of; their names may follow from requests.
pub const KEPT_TOKENS_MAX: usize = 1024;

// auth_jwt/token.rs

/// Bytes of a token; longer ones are refused unseen.
pub const TOKEN_BYTES_MAX: usize = 32 * 1024;
/// Bytes of its first part.
pub const HEADER_BYTES_MAX: usize = 4 * 1024;
/// Keys that a signature is tried with: each costs a public-key operation that a stranger may ask for at will.
pub const KEYS_TRIED_MAX: usize = 8;

// auth_request.rs

/// Bytes of an answer's body that are worth being read.
pub const DRAINED_BYTES_MAX: u64 = 1024 * 1024;

// cache/path.rs

/// nginx's smallest zone: two pages.
pub const PATH_ZONE_BYTES_MIN: u64 = 2 * 4096;

// coding/encoder.rs

/// Zstandard windows of more than 8 MiB are refused by browsers (RFC 9659 §3).
pub const ENCODER_ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// Finished encoders that a thread keeps: making one costs as much as compressing some kilobytes.
pub const IDLE_ENCODERS_MAX: usize = 4;

// coding/filter.rs

/// Bodies in memory up to this size are compressed at once, in the time that a few requests take. They keep a
/// Content-Length and may become prepared answers, compressed once and sent often.
pub const CODING_INLINE_BODY_BYTES_MAX: u64 = 64 * 1024;
/// The same where a level takes about twice the time of the others.
pub const INLINE_USUAL_BYTES_MAX: u64 = 32 * 1024;
/// The same where a level is chosen that takes its time.
pub const INLINE_SLOW_BYTES_MAX: u64 = 16 * 1024;

// coding/gunzip.rs

/// Bodies in memory whose plain text is no longer than this are decompressed at once.
pub const INLINE_PLAIN_BYTES_MAX: usize = 128 * 1024;

// coding/kept.rs

/// Compressed bodies that a thread keeps for the next requests of their files.
pub const KEPT_BODIES_MAX: usize = 256;
/// Their bytes.
pub const KEPT_BODIES_BYTES_MAX: usize = 4 * 1024 * 1024;

// coding/stream.rs

/// A piece up to this size is compressed on the event loop; sending it to the pool would cost about as much.
pub const INLINE_PIECE_BYTES_MAX: usize = 8 * 1024;
/// Less output than this waits for more.
pub const OUTPUT_BYTES_MIN: usize = 4096;

// compress_static/mod.rs

/// Files shorter than this fit into one packet anyway.
pub const SOURCE_BYTES_MIN: u64 = 512;
/// `max_size` where none is given.
pub const FOLDER_BYTES_MAX: u64 = 256 << 20;

// compress_static/store.rs

/// Larger files are served as they are.
pub const SOURCE_BYTES_MAX: u64 = 32 << 20;
/// Files up to this size get the highest level; beyond it that would take minutes.
pub const BEST_LEVEL_BYTES_MAX: u64 = 2 << 20;
/// Variants that are asked for and not made yet.
pub const PENDING_FILES_MAX: usize = 256;

// directory_overrides/files.rs

/// Bytes of one file with directives for its folder; no more than of a text that is read as a whole.
pub const OVERRIDES_BYTES_MAX: usize = 512 * 1024;
/// Folders from a root to a file of it.
pub const OVERRIDES_DEPTH_MAX: usize = 64;
/// A file that was written less than so many milliseconds ago may not be whole.
pub const OVERRIDES_QUIET_MS_MIN: i64 = 50;
/// The same of an `.htaccess` without a byte: editors and uploads truncate a file, and write it when its text has come.
pub const OVERRIDES_EMPTY_QUIET_MS_MIN: i64 = 1000;
/// Who writes to a file and keeps it open is believed to have ended so many seconds after the last write: what is written by truncate(2) is
/// not open at all.
pub const OVERRIDES_OPEN_SECS_MAX: i64 = 60;
/// How often a request waits for files to be left alone for that long.
pub const OVERRIDES_WAITS_MAX: u8 = 10;

// htaccess/plan.rs

/// Different combinations of sections whose settings are kept for one folder.
pub const HTACCESS_VARIANTS_MAX: usize = 64;
/// Bytes that they may take together, each about as many as the files that lead to the folder. One is always kept.
pub const HTACCESS_VARIANT_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of compiled patterns that the files that lead to a folder may come to: some 10,000 usual rules.
pub const HTACCESS_PATTERN_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The same of a whole site in Apache's own files.
pub const HTACCESS_SITE_PATTERN_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// Sections of all files that lead to a folder. Those that hold for a request are merged one after the other.
pub const HTACCESS_SECTIONS_MAX: usize = 1024;
/// The matches of larger patterns are metered, as are those of all that the linear-time engine does not run.
pub const HTACCESS_LARGE_PATTERN_BYTES: usize = 256 * 1024;
/// A microsecond of the processor in such a match counts as so much work of rules: half a second of them is all that one request may have.
pub const HTACCESS_WORK_BYTES_PER_US: usize = 8;
/// Bytes of all files that one `directory_overrides` has read, and of what was compiled of them.
pub const HTACCESS_STORE_BYTES_MAX: usize = 96 * 1024 * 1024;
/// What settings take of memory beside their patterns, for each byte of text.
pub const HTACCESS_SETTINGS_BYTES_PER_BYTE: usize = 4;

// htaccess/negotiate.rs, htaccess/spelling.rs

/// Names of one folder that are compared with one that is not there; what is more is not looked at.
pub const FOLDER_NAMES_MAX: usize = 10_000;

// htaccess/login.rs

/// How long the nonce of a challenge holds, as `AuthDigestNonceLifetime` has it without a line.
pub const DIGEST_NONCE_SECS_MAX: i64 = 300;
/// Passwords that are checked for one request. It has one, and more are files that are replaced while it is judged.
pub const HTACCESS_PASSWORDS_MAX: usize = 16;

// htaccess/trail.rs

/// How often a request is judged anew because what it was judged by was replaced or moved meanwhile.
pub const HTACCESS_JUDGED_ANEW_MAX: u8 = 50;

// htaccess/access.rs

/// Texts that one request has compiled: more are files that change faster than that.
pub const HTACCESS_COMPILED_MAX: u8 = 64;

// htaccess/facts.rs

/// Files that the rules of `.htaccess` look at for one request.
pub const HTACCESS_LOOKS_MAX: usize = 256;
/// Look-ups (`-U`, `-F`, `LA-U`, `LA-F`) inside of each other, as Apache's `LimitInternalRecursion`.
pub const HTACCESS_LOOK_UP_DEPTH_MAX: u8 = 10;
/// What a look-up counts as work of rules: 32 are all that one request may have, those of its look-ups included.
pub const HTACCESS_LOOK_UP_WORK_BYTES: usize = 128 * 1024;
/// Bytes of a `RewriteMap` that are looked through at the cost of one byte of rules' work.
pub const MAP_BYTES_PER_WORK: usize = 64;

// dictionary/encode.rs

/// The fastest level of Brotli that looks into a dictionary.
pub const BROTLI_LEVEL_MIN: u8 = 2;
/// Zstandard windows of more than 8 MiB need not be accepted (RFC 9842 §5).
pub const ENCODE_ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// Up to this, all levels remember all of the dictionary.
pub const ZSTD_SHORT_BYTES_MAX: usize = 128 * 1024;

// dictionary/mod.rs

/// Bytes of a dictionary, and of a body that is compressed with one: together they fit into the windows that clients
/// must have.
pub const DICTIONARY_BODY_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Bodies that are gathered or compressed by a dictionary at a time, and as many that are taken along to become one: 128 MiB of each.
pub const DICTIONARY_BODIES_MAX: usize = 32;

// gateway/records.rs

/// A message of the application that is longer than this goes to the log in pieces.
pub const MESSAGE_BYTES_MAX: usize = 2048;

// limit_conn.rs

/// The longest key that limit_conn counts under, in bytes, as in nginx.
pub const LIMIT_CONN_KEY_BYTES_MAX: usize = 255;

// limit_req/mod.rs

/// The longest key that limit_req counts under, in bytes, as in nginx.
pub const LIMIT_REQ_KEY_BYTES_MAX: usize = 65_535;

// memcached/mod.rs

/// memcached's own limit (`KEY_MAX_LENGTH`): it holds no longer ones, and takes a question for one as a mistake.
pub const MEMCACHED_KEY_BYTES_MAX: usize = 250;

// referer.rs

/// A longer host name is valid nowhere.
pub const HOST_BYTES_MAX: usize = 256;

// ssi/commands.rs

/// Levels of `if` within each other; nginx has one.
pub const LEVELS_MAX: usize = 32;

// ssi/mod.rs

/// Bytes of a parameter of a command in Apache's dialect.
pub const APACHE_VALUE_BYTES_MAX: usize = 8192;

// ssi/expression.rs

/// Bytes that a value may come to. Variables can hold variables' values: without a limit a page of some lines could
/// fill the memory.
pub const VALUE_BYTES_MAX: usize = 256 * 1024;
/// Compiled expressions that a thread keeps.
pub const REGEXES_MAX: usize = 64;

// ssi/parser.rs

/// Bytes of a command's name, and of a parameter's (nginx: `NGX_HTTP_SSI_COMMAND_LEN`).
pub const NAME_BYTES_MAX: usize = 32;
/// Parameters of a command (nginx: `NGX_HTTP_SSI_MAX_PARAMS`).
pub const PARAMS_MAX: usize = 16;

// ssi/time.rs

/// Bytes that a time may come to, as in nginx.
pub const TIME_BYTES_MAX: usize = 2048;

// ssl/rows.rs

/// nginx's smallest cache: eight pages.
pub const CACHE_BYTES_MIN: u64 = 8 * 4096;

// sub_filter/mod.rs

/// As in nginx.
pub const PATTERNS_MAX: usize = 255;
/// Bodies in memory up to this size are worked on at once and keep a Content-Length.
pub const SUB_FILTER_INLINE_BODY_BYTES_MAX: u64 = 64 * 1024;

// supervise/settings.rs

/// A program that has not been ready by then is given up.
pub const PROGRAM_START_TIME_DEFAULT: Duration = Duration::from_mins(1);
/// A program that was told to end is killed after this.
pub const PROGRAM_STOP_TIME_DEFAULT: Duration = Duration::from_secs(10);
/// The longest time of any kind that a program may be given.
pub const PROGRAM_TIME_MAX: Duration = Duration::from_hours(24);
/// Between two looks at a program.
pub const HEALTH_INTERVAL_DEFAULT: Duration = Duration::from_secs(5);
/// An answer that comes later is none.
pub const HEALTH_TIMEOUT_DEFAULT: Duration = Duration::from_secs(2);
/// So many failures in a row are one of the program.
pub const HEALTH_FAILS_DEFAULT: u32 = 3;

// upstream/draft.rs

/// nginx's smallest zone: eight pages.
pub const DRAFT_ZONE_BYTES_MIN: u64 = 8 * 4096;

// upstream/health/probe.rs

/// An answer's head and as much of its body as `match` looks at.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024;

// otel/

/// Bytes of a collector's answer.
pub const OTEL_ANSWER_BYTES_MAX: usize = 256 * 1024;
/// How long a connection to a collector, and a call of it, may take.
pub const OTEL_CALL_TIME_MAX: Duration = Duration::from_secs(10);
/// Bytes of a batch. Collectors take messages of up to 4 MiB, as gRPC's libraries do unless they are told otherwise.
pub const OTEL_BATCH_BYTES_MAX: usize = 3 << 20;
/// Bytes of an attribute's value, and of a span's name; what is longer is cut.
pub const OTEL_VALUE_BYTES_MAX: usize = 8 << 10;
/// Bytes of `tracestate`, of which at least 512 are to be passed on (W3C Trace Context §3.3.1.5); more is dropped as a whole.
pub const OTEL_TRACESTATE_BYTES_MAX: usize = 2 << 10;
/// How often a batch is sent until it is given up.
pub const OTEL_TRIES_MAX: u32 = 3;
/// Between two complaints about a collector.
pub const OTEL_LOG_TIME_MIN: Duration = Duration::from_secs(10);

// upstream/resolve.rs

/// A lookup that failed for another reason than that there is no such name is tried again no sooner.
pub const RETRY_TIME_MIN: Duration = Duration::from_secs(1);

// upstream/server.rs

/// What a session's number may be at most.
pub const SERVER_ROUTE_BYTES_MAX: usize = 32;
/// `sun_path`, with its end.
pub const UNIX_PATH_BYTES_MAX: usize = 107;

// upstream/sticky.rs

/// `expires=max`, as nginx counts it.
pub const EXPIRES_SECS_MAX: u64 = 2_145_916_555;
/// Folders in each other, at most: each that is open costs a descriptor and a place on the stack.
pub const DAV_DEPTH_MAX: usize = 100;
/// A part has at least this much memory; smaller zones have fewer parts.
pub const ZONE_PART_BYTES_MIN: u64 = 64 << 10;
/// And a zone at most this many.
pub const ZONE_PARTS_MAX: u64 = 16;
/// Atoms at the top of a file. Real ones have few, but for fragmented ones, which cannot be cut.
pub const MP4_TOP_ATOMS_MAX: usize = 1000;
/// A file's brands (`ftyp`) are a few names.
pub const MP4_BRANDS_BYTES_MAX: u64 = 1024;
/// However large `mp4_max_buffer_size` is, lengths that are written have 32 bits.
pub const MP4_TABLES_BYTES_MAX: u64 = 1 << 30;

// waiting.rs

/// Who waits for a server looks again after this long: that the time is over for which one was out of service (`fail_timeout`) is told by nobody.
pub const WAITING_LOOK_MS: u64 = 1000;
