//! Every limit of this crate that is not a directive, in one place. Units are in the names.

/// A frame's head gives the length of its first partition in 19 bits (RFC 6386 §9.1).
pub const MODES_BYTES_MAX: usize = (1 << 19) - 1;
/// The longest side of a picture, in pixels (RFC 6386 §9.1: 14 bits, and 0 is none).
pub const SIDE_MAX: u32 = 16_383;
/// The highest quality. It is lossy all the same.
pub const QUALITY_MAX: u8 = 100;
/// What is above this cannot be written.
pub const COEFFICIENT_MAX: i16 = 2047;
