//! Every limit of this crate that is not a directive, with its unit in its name.

// decode.rs

/// Bytes of an ICC profile that are carried over; a usual one has 500 to 4000.
pub const ICC_BYTES_MAX: usize = 64 * 1024;
/// Scans of a progressive JPEG: each is a pass over the whole picture, and a small file could ask for thousands.
pub const JPEG_SCANS_MAX: usize = 64;
