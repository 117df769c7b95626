//! Integers with a prefix (RFC 7541 §5.1, RFC 9204 §4.1.1).

pub use crate::limits::{INTEGER_MAX, LONG_INTEGER_MAX};

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
    if value < mask {
        return Ok((value, rest));
    }
    decode_rest(u64::from(mask), rest, u64::from(INTEGER_MAX)).map(|(value, rest)| (value as u32, rest))
}

/// The same for a stream's number, of up to 62 bits.
pub fn decode_long(src: &[u8], prefix: u32) -> Result<(u64, &[u8]), IntegerError> {
    let (&first, rest) = src.split_first().ok_or(IntegerError::Truncated)?;
    let mask = (1u64 << prefix) - 1;
    let value = u64::from(first) & mask;
    if value < mask { Ok((value, rest)) } else { decode_rest(mask, rest, LONG_INTEGER_MAX) }
}

/// No more bytes are read than the largest value needs: longer encodings of small values are refused.
fn decode_rest(start: u64, mut src: &[u8], max: u64) -> Result<(u64, &[u8]), IntegerError> {
    let mut value = start;
    let bits = u64::BITS - max.leading_zeros();
    for shift in (0..bits).step_by(7) {
        let (&byte, rest) = src.split_first().ok_or(IntegerError::Truncated)?;
        src = rest;
        value += u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return if value <= max { Ok((value, src)) } else { Err(IntegerError::TooLarge) };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(value: usize, prefix: u32) -> Vec<u8> {
        let mut out = Vec::new();
        encode(value, prefix, 0, &mut out);
        out
    }

    #[test]
    fn integers() {
        // RFC 7541 C.1.
        assert_eq!(encoded(10, 5), [10]);
        assert_eq!(encoded(1337, 5), [31, 154, 10]);
        assert_eq!(encoded(42, 8), [42]);
        for value in [0, 30, 31, 32, 127, 128, 255, 16_383, 65_535, INTEGER_MAX as usize] {
            for prefix in 3..=8 {
                let bytes = encoded(value, prefix);
                assert_eq!(decode(&bytes, prefix), Ok((value as u32, &[][..])), "{value} {prefix}");
                assert_eq!(decode_long(&bytes, prefix), Ok((value as u64, &[][..])), "{value} {prefix}");
                assert_eq!(decode(&bytes[..bytes.len() - 1], prefix), Err(IntegerError::Truncated));
            }
        }
    }

    /// RFC 9204 §4.1.1: integers of up to 62 bits.
    #[test]
    fn long_integers() {
        let largest = encoded(LONG_INTEGER_MAX as usize, 7);
        assert_eq!(decode_long(&largest, 7), Ok((LONG_INTEGER_MAX, &[][..])));
        assert_eq!(decode(&largest, 7), Err(IntegerError::TooLarge));
        let beyond = encoded(LONG_INTEGER_MAX as usize + 1, 7);
        assert_eq!(decode_long(&beyond, 7), Err(IntegerError::TooLarge));
        let endless = [0xff; 20];
        assert_eq!(decode_long(&endless, 7), Err(IntegerError::TooLarge));
        assert_eq!(decode(&[0x7f, 0x80, 0x80, 0x80, 0x80, 0], 7), Err(IntegerError::TooLarge));
    }
}
