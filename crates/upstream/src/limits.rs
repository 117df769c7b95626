//! Every limit of this crate that is not a directive, in one place. Units are in the names.

/// The largest buffer that is kept for the next request.
pub const KEPT_BYTES_MAX: usize = 16 * 1024;
/// Bytes of a request that are put together before they leave.
pub const GATHERED_BYTES_MAX: usize = 64 * 1024;
/// Answers to the back end's frames that may wait to leave, the request's body included: who makes us answer and does not
/// read is given up.
pub const HTTP2_OUT_BYTES_MAX: usize = 1 << 20;
/// Reads from a back end in a row before others have their turn.
pub const READS_IN_A_ROW_MAX: u32 = 16;
/// Events of one read that count as another read.
pub const EVENTS_PER_TURN: u32 = 64;
/// Fields of a head.
pub const HTTP2_FIELDS_MAX: usize = 2048;
/// Threads that are asked for one request.
pub const LENT_ASKED_MAX: usize = 2;
/// Less than this of a buffered answer's body waits for more, for at most [`HELD_MS`]: a TLS record's worth.
pub const HELD_BYTES: usize = 16 * 1024;
/// How long so little waits, in milliseconds.
pub const HELD_MS: u64 = 20;
/// Parts of an answer that wait in memory are put together up to so many bytes.
pub const TOGETHER_BYTES_MAX: usize = 32 * 1024;
