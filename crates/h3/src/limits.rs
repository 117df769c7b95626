//! Every limit of this crate that is not a directive, with its unit in its name.

// conn/control.rs

/// The payload of a frame of the control stream that is understood. SETTINGS of browsers have less than 50 bytes.
pub const CONTROL_PAYLOAD_BYTES_MAX: usize = 4096;
/// Priorities that are kept for streams that have not begun.
pub const EARLY_MAX: usize = 16;
/// Unidirectional streams of the peer that are open at a time: the critical ones, and as many of unknown types.
pub const UNI_STREAMS_MAX: usize = 8;

// conn.rs

/// What waits to be sent on one of our unidirectional streams: more has a peer that gives them no room.
pub const OWN_STREAM_BYTES_MAX: usize = 64 * 1024;
/// Bytes that insertions may copy for one mark of useless work: a byte of the encoder stream may duplicate a whole entry.
pub const COPIED_BYTES_MAX: u64 = 16 * 1024;

// settings.rs

/// Settings of one frame.
pub const SETTINGS_MAX: usize = 64;

// varint.rs

/// The largest integer (RFC 9000 §16).
pub const INTEGER_MAX: u64 = (1 << 62) - 1;
