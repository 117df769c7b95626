//! Integers with a prefix (RFC 7541 §5.1).

pub use crate::limits::INTEGER_MAX;
/// Why an integer could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntegerError {
    /// The input ends in it.
    Truncated,
    /// It is larger than any that is meant (see [`INTEGER_MAX`]).
    TooLarge,
}

/// Reads an integer whose first byte has `prefix` bits of it; gives it and what follows.
#[inline]
pub fn decode(src: &[u8], prefix: u32) -> Result<(u32, &[u8]), IntegerError> {
    let (&first, rest) = src.split_first().ok_or(IntegerError::Truncated)?;
    let mask = (1u32 << prefix) - 1;
    let value = u32::from(first) & mask;
    if value < mask { Ok((value, rest)) } else { decode_rest(mask, rest) }
}

fn decode_rest(start: u32, mut src: &[u8]) -> Result<(u32, &[u8]), IntegerError> {
    let mut value = start;
    for shift in [0, 7, 14, 21] {
        let (&byte, rest) = src.split_first().ok_or(IntegerError::Truncated)?;
        src = rest;
        value += u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return if value <= INTEGER_MAX { Ok((value, src)) } else { Err(IntegerError::TooLarge) };
        }
    }
    Err(IntegerError::TooLarge)
}

/// Appends `value`, its first byte with `bits` above the prefix.
#[inline]
pub fn encode(value: usize, prefix: u32, bits: u8, out: &mut Vec<u8>) {
    let mask = (1usize << prefix) - 1;
    if value < mask {
        out.push(bits | value as u8);
        return;
    }
    out.push(bits | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}
