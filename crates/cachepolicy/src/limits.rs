//! Every limit of this crate that is not a directive, with its unit in its name.

// directives.rs

/// The longest time that counts, in seconds: 68 years (RFC 9111 §1.2.2 asks for at least 2^31).
pub const SECONDS_MAX: u64 = 1 << 31;

// nginx.rs

/// The longest `Vary` that nginx takes, in bytes.
pub const VARY_BYTES_MAX: usize = 128;

// rfc9111.rs

/// But no longer than this, in seconds.
pub const HEURISTIC_SECONDS_MAX: i64 = 24 * 3600;

// tags.rs

/// Tags of one answer that count, and the longest one in bytes: what a back end sends must not fill the memory.
pub const TAGS_MAX: usize = 128;
/// The longest tag that is kept, in bytes.
pub const TAG_BYTES_MAX: usize = 256;
