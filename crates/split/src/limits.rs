//! Every limit of this crate that is not a directive, in one place. Units are in the names.

/// Accounts in a file of `mysql_accounts`.
pub const ACCOUNTS_MAX: usize = 10_000;
/// No server cuts names of accounts to fewer characters than this (MySQL before 5.7.8) …
pub const NAME_CHARS_MIN: usize = 16;
/// … or keeps longer ones (MariaDB).
pub const NAME_CHARS_MAX: usize = 128;
/// A connection's buffer that has grown beyond this is given back when it is empty.
pub const BUFFER_KEPT_BYTES_MAX: usize = 64 << 10;
/// So long a session asks the primary after no replica could be used.
pub const REPLICA_PAUSE_MS: u64 = 1000;
/// Connections to one server that wait so on one thread, whosever they were, unless `mysql_pool` allows more of one account.
pub const POOL_OF_SERVER_MAX: usize = 128;
/// So long a connection waits for another session of its account.
pub const POOL_IDLE_MS: u64 = 10_000;
/// So long sessions of a login may follow each other on a connection until the server judges the account again.
pub const LOGIN_AGE_MS_MAX: u64 = 10_000;
/// So long a server's handshake that nobody wants any more may take to its end.
pub const HANDSHAKE_END_MS: u64 = 5000;
/// What is read at a time of it.
pub const HANDSHAKE_PIECE_BYTES: usize = 512;
/// Messages of a server within that.
pub const HANDSHAKE_STEPS_MAX: usize = 8;
/// Reads of one side of a session before other sessions have their turn.
pub const READS_PER_TURN_MAX: usize = 16;
/// Deflating so many bytes takes as long as a few reads and counts as one.
pub const DEFLATED_PER_READ_BYTES: usize = 4 << 10;
