//! Every limit of this crate that is not a directive, with its unit in its name.

// least.rs

/// Beyond it all are equally slow, and only connections count.
pub const TIME_MS_MAX: u64 = 5_000;

// select.rs

/// Draws and rounds of a hash before the choice is left to round robin, as in nginx.
pub const ROUNDS_MAX: u32 = 20;

// line.rs

/// A line that has turned a request away lets no more wait for this time than are served soon; in milliseconds.
pub const LINE_PRESSED_MS: u64 = 1000;
/// A place that has become free goes to a request of the thread that has it, while the one whose turn it is has waited no longer
/// than twice as long as that one and this time; in milliseconds. To hand a connection to another thread takes three wake-ups, which cost
/// more than a short script.
pub const LINE_NEAR_MS: u64 = 10;
