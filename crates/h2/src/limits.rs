//! Every limit of this crate that is not a directive, with its unit in its name.

// conn.rs

/// Streams of one connection that have a place in the order of RFC 7540 §5.3, beside those that only wait: finding one takes time with their
/// number.
pub const STREAMS_MAX: u32 = 4096;

// conn/heads.rs

/// CONTINUATION frames of one block. Browsers send at most a few; more are an attack (CVE-2024-27316).
pub const PARTS_MAX: u32 = 64;

// conn/receive.rs

/// Priorities that are kept for streams that have not begun.
pub const EARLY_MAX: usize = 16;

// conn/send.rs

/// What the answer to an upgrade (RFC 7540 §3.2) may be before the client's preface has come. There are clients that have
/// room for little behind the 101.
pub const UPGRADED_BYTES_MAX: usize = 8 * 1024;

// frame.rs

/// The largest.
pub const PAYLOAD_BYTES_MAX: u32 = (1 << 24) - 1;
/// Windows and stream ids have 31 bits.
pub const WINDOW_MAX: u32 = (1 << 31) - 1;
