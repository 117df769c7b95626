//! Every limit of this crate that is not a directive, in one place. Units are in the names.

/// Servers whose sessions are kept.
pub const SESSIONS_MAX: usize = 256;
/// Bytes of a ClientHello, at most: with post-quantum keys and long lists they have some 2 KiB.
pub const HELLO_BYTES_MAX: usize = 64 * 1024;
/// Rounds of key derivation: a file that asks for more would stop the server for minutes.
pub const PBKDF2_ROUNDS_MAX: u64 = 10_000_000;
/// Records in a row that bring no data, at most: OpenSSL's number.
pub const IDLE_RECORDS_MAX: u32 = 32;
/// Records that AES-GCM may seal with one key (RFC 8446 §5.5: 2^24.5).
pub const GCM_RECORDS_MAX: u64 = 1 << 24;
/// RFC 8446 §4.6.1: seven days.
pub const TICKET_LIFETIME_SECS_MAX: u32 = 604_800;
/// Most plaintext in a record (RFC 8446 §5.1).
pub const RECORD_PLAIN_MAX: usize = 16_384;
/// Most bytes of a record: header, plaintext, and what protects it (RFC 5246 §6.2.3 allows 2048 more).
pub const RECORD_BYTES_MAX: usize = 5 + RECORD_PLAIN_MAX + 2048;
/// Input that is kept because it is not whole, at most: a handshake message may span records, but not without end.
pub const LEFT_BYTES_MAX: usize = 96 * 1024;
/// What the library has not given out yet when a handshake fails is asked for so often, at most.
pub const QUEUED_MAX: usize = 8;
/// Smaller pieces cost the same, whoever seals them.
pub const OWN_PIECE_BYTES_MIN: usize = 8192;
/// A session that has sealed so much seals its records without the library. The change of hands takes 4.7 µs, which are won
/// back with 130 KiB (examples/records.rs): what is sent less never pays more than twice the best price.
pub const OWN_RECORDS_BYTES_MIN: usize = 128 * 1024;
/// Early data that a client may send: nginx's limit.
pub const EARLY_DATA_BYTES_MAX: u32 = 16_384;
