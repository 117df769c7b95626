//! Every limit of this crate that is not a directive, in one place. Units are in the names.

/// Looks at a socket for datagrams of clients before others have their turn: 16 each, so that a session has room for all of them.
pub const LOOKS_PER_TURN_MAX: usize = DATAGRAMS_WAITING_MAX / 16;
/// Datagrams of one session before others have their turn; the last look at its peer may find more.
pub const DATAGRAMS_PER_TURN_MAX: usize = 64;
/// A ClientHello may be looked at as far as this, whatever `preread_buffer_size` says: less has no room for its fixed part.
pub const HELLO_PEEK_BYTES_MIN: usize = 64;
/// Datagrams of one session that wait for its back end; more are dropped, as a network drops them.
pub const DATAGRAMS_WAITING_MAX: usize = 64;
/// Bytes of them: a client may send 64 KB in each.
pub const DATAGRAMS_WAITING_BYTES_MAX: usize = 256 * 1024;
/// Buffers of datagrams that a session keeps for the next ones.
pub const DATAGRAMS_SPARE_MAX: usize = 2;
/// Larger ones are given back.
pub const DATAGRAM_SPARE_BYTES_MAX: usize = 2048;
/// Room for the first look at a ClientHello that is answered here; it grows to what the message needs.
pub const HELLO_FIRST_BYTES: usize = 4096;
/// How often a connection may be passed from one server to another (`pass`): more is a circle.
pub const PASSES_MAX: u32 = 10;
/// Reads of one direction of a session before others have their turn.
pub const READS_PER_TURN_MAX: usize = 16;
/// What passing bytes on without a copy costs of them: it takes 16 times as many bytes at a quarter of the CPU of each.
pub const READS_PER_SPLICE: usize = 4;
/// Connections of one session to peers that its log line tells of; a session that is served here may make more.
pub const ATTEMPTS_SHOWN_MAX: usize = 64;
