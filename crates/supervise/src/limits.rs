//! Every limit of this crate that is not a directive, in one place. Units are in the names.

/// A line of output that is longer is cut into several.
pub const LINE_BYTES_MAX: usize = 16 << 10;
/// Read at once: a program that writes without end does not keep its supervisor.
pub const LINE_READ_BYTES_MAX: usize = 64 << 10;
