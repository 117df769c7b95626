//! Every limit of this crate that is not a directive, with its unit in its name.

// least.rs

/// Beyond it all are equally slow, and only connections count.
pub const TIME_MS_MAX: u64 = 5_000;

// select.rs

/// Draws and rounds of a hash before the choice is left to round robin, as in nginx.
pub const ROUNDS_MAX: u32 = 20;
