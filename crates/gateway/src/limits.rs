//! Every limit of this crate that is not a directive, with its unit in its name.

// fastcgi/client.rs

/// Parameters that one record can hold.
pub const RECORD_BYTES_MAX: usize = u16::MAX as usize;

// fastcgi/pairs.rs

/// Lengths up to this need one byte.
pub const SHORT_MAX: usize = 127;

// headers.rs

/// Fields of unknown names that are compared with each other, each with all before it: up to so many that takes less time
/// than sorting them, and no memory.
pub const COMPARED_MAX: usize = 32;

// scgi.rs

/// Room for the netstring's length, which is known last.
pub const LENGTH_BYTES_MAX: usize = 20;
