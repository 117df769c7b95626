//! Limits that are not directives.

/// Domains of a MariaDB position, and servers of a MySQL one: a server that says more is not believed.
pub const POSITION_PARTS_MAX: usize = 4096;

/// Characters of a position as a server writes it.
pub const POSITION_BYTES_MAX: usize = 1 << 20;

/// Positions of the primary that replicas are compared with.
pub const HISTORY_POSITIONS_MAX: usize = 1024;

/// What they occupy together. The oldest and the last one are kept in any case.
pub const HISTORY_BYTES_MAX: usize = 16 << 20;

/// So long a position is kept beyond the lag that is allowed, in milliseconds.
pub const HISTORY_BEYOND_LAG_MS: u64 = 60_000;

/// Accounts whose password hashes are kept.
pub const ACCOUNTS_MAX: usize = 100_000;
