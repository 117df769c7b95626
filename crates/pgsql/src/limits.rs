//! Every limit of this crate. Units are in the names.

/// A message of a server.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Rows of an answer.
pub const ROWS_MAX: usize = 10_000;

/// All values of an answer.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Rounds of hashing that a server may ask for: PostgreSQL's own number is 4096, and they are done on the thread that serves.
pub const SCRAM_ROUNDS_MAX: u32 = 100_000;
