//! Every limit of this crate, in one place. Units are in the names.

/// The most that one frame carries; a message that has so much goes on in the next frame.
pub const FRAME_BYTES_MAX: usize = 0xff_ffff;
/// What one packet of the compressed protocol carries at most, and what it announces.
pub const PACKET_BYTES_MAX: usize = 0xff_ffff;
/// Frames of so many bytes are a packet. It is twice what zlib looks back, so that more would save nothing.
pub const PACKED_BYTES_MAX: usize = 64 << 10;
/// A longer frame is stored as it is, since it would have to be kept until it is whole.
pub const DEFLATED_FRAME_BYTES_MAX: usize = 256 << 10;
/// Less is not deflated, as servers do it.
pub const DEFLATED_BYTES_MIN: usize = 50;
/// zlib's level for what clients get. Servers have 6, which takes half as much time again for a twentieth less (rows, in pieces of 16 KB).
pub const DEFLATE_LEVEL: u32 = 2;
/// What an inflater takes: its window, and tables for its codes.
pub const INFLATER_BYTES: usize = 48 << 10;
/// Inflaters that a thread keeps for the next packet that needs one.
pub const INFLATERS_KEPT_MAX: usize = 4;
/// A message of a handshake: names, answers of plugins, attributes of the connection.
pub const HANDSHAKE_BYTES_MAX: usize = 128 << 10;
/// The same of a client, who is nobody yet: attributes of 64 KB, as many as servers keep of them, and names.
pub const LOGIN_BYTES_MAX: usize = 68 << 10;
/// What is kept of a message of a server's answer. A longer OK packet tells nothing of what it tracks.
pub const ANSWER_PREFIX_BYTES_MAX: usize = 8 << 10;
/// A longer statement is not looked at, and goes to the primary.
pub const STATEMENT_BYTES_MAX: usize = 1 << 20;
/// One message of an answer that [`Query`](crate::client::Query) collects.
pub const COLLECTED_MESSAGE_BYTES_MAX: usize = 1 << 20;
/// All rows of it, as they are kept.
pub const COLLECTED_BYTES_MAX: usize = 16 << 20;
/// Its columns.
pub const COLLECTED_COLUMNS_MAX: u64 = 4096;
/// A name, a value or a GTID list that is believed when a server tells of it.
pub const GTID_BYTES_MAX: usize = 1024;
/// GTID domains that a session's own writes are followed in.
pub const GTID_DOMAINS_MAX: usize = 8;
/// Prepared statements of a session; one more is refused.
pub const STATEMENTS_MAX: usize = 1 << 14;
/// Those whose text is kept, so that they can be prepared at another server, too; those beyond stay with the primary.
pub const STATEMENTS_KEPT_MAX: usize = 4096;
/// Bytes of their texts, and of the types of their parameters.
pub const STATEMENTS_BYTES_MAX: usize = 2 << 20;
/// What must be there of a command that is too long to be looked at: an execution's types, of as many parameters as there may be.
pub const LONG_COMMAND_PREFIX_BYTES: usize = 144 << 10;
/// Settings of a session that replicas are told of; with more it stays with the primary.
pub const SETTINGS_MAX: usize = 64;
/// Bytes that all of them occupy.
pub const SETTINGS_BYTES_MAX: usize = 64 << 10;
