//! Every limit of this crate that is not a directive, with its unit in its name.

// head/error.rs

/// The longest text of a header line that goes into an error (nginx: `NGX_MAX_ERROR_STR - 300`).
pub const TEXT_BYTES_MAX: usize = 1748;

// range.rs

/// `max_ranges` where it is not configured.
pub const MAX_RANGES_UNSET: usize = i32::MAX as usize;
/// Interim responses (RFC 9110 §15.2) that a client takes before the final one: real servers send one or two, and one that
/// sends nothing else would keep its client busy for ever.
pub const INTERIM_RESPONSES_MAX: usize = 32;
