//! Every limit of this crate that is not a directive, with its unit in its name.

// terminal.rs

/// Fewer cannot hold an option and its text.
pub const COLUMNS_MIN: usize = 40;
/// Longer lines are hard to read.
pub const COLUMNS_MAX: usize = 120;
