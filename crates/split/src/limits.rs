//! Every limit of this crate that is not a directive, in one place. Units are in the names.

/// Accounts in a file of `mysql_accounts`.
pub const ACCOUNTS_MAX: usize = 10_000;
/// A connection's buffer that has grown beyond this is given back when it is empty.
pub const BUFFER_KEPT_BYTES_MAX: usize = 64 << 10;
/// So long a session asks the primary after no replica could be used.
pub const REPLICA_PAUSE_MS: u64 = 1000;
/// So long a connection waits for another session of its account.
pub const POOL_IDLE_MS: u64 = 10_000;
/// Reads of one side of a session before other sessions have their turn.
pub const READS_PER_TURN_MAX: usize = 16;
/// Deflating so many bytes takes as long as a few reads and counts as one.
pub const DEFLATED_PER_READ_BYTES: usize = 4 << 10;
