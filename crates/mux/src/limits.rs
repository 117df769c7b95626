//! Every limit of this crate that is not a directive, with its unit in its name.

// huffman.rs

/// The longest code of a symbol, in bits (RFC 7541 appendix B).
pub const CODE_BITS_MAX: usize = 30;

// integer.rs

/// No larger one is meant by anybody: lengths and indexes are far smaller, table sizes too.
pub const INTEGER_MAX: u32 = (1 << 28) - 1;
/// The largest number of a stream (RFC 9000 §16), which RFC 9204 §4.1.1 has decoders read.
pub const LONG_INTEGER_MAX: u64 = (1 << 62) - 1;
