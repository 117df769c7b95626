//! Every limit of this crate that is not a directive, with its unit in its name.

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

// hpack/huffman.rs

/// The longest code of a symbol, in bits (RFC 7541 appendix B).
pub const CODE_BITS_MAX: usize = 30;

// hpack/integer.rs

/// No larger one is meant by anybody: lengths and indexes are far smaller, table sizes too.
pub const INTEGER_MAX: u32 = (1 << 28) - 1;
