//! Integers of variable length (RFC 9000 §16).

pub use crate::limits::INTEGER_MAX;

/// The longest encoding, in bytes.
pub const BYTES: usize = 8;

/// Reads one from the beginning; gives it and its length. `None`: there is not enough.
#[inline]
pub fn decode(src: &[u8]) -> Option<(u64, usize)> {
    let first = *src.first()?;
    let len = 1 << (first >> 6);
    let bytes = src.get(..len)?;
    let start = u64::from(first & 0x3f);
    Some((bytes[1..].iter().fold(start, |value, &byte| value << 8 | u64::from(byte)), len))
}

/// The bytes that [`encode`] needs.
#[inline]
pub fn len(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

/// Appends one, which must be at most [`INTEGER_MAX`], in as few bytes as it needs.
#[inline]
pub fn encode(value: u64, out: &mut Vec<u8>) {
    debug_assert!(value <= INTEGER_MAX);
    match len(value) {
        1 => out.push(value as u8),
        2 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        4 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// A single integer that is all of a payload.
pub fn only(payload: &[u8]) -> Option<u64> {
    decode(payload).filter(|&(_, used)| used == payload.len()).map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9000 appendix A.1.
    #[test]
    fn integers_of_the_rfc() {
        let check =
            |bytes: &[u8], value: u64| assert_eq!(decode(bytes), Some((value, bytes.len())), "{value}");
        check(&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c], 151_288_809_941_952_652);
        check(&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333);
        check(&[0x7b, 0xbd], 15_293);
        check(&[0x25], 37);
        // Longer than needed is allowed.
        check(&[0x40, 0x25], 37);
    }

    #[test]
    fn what_is_written_is_read() {
        for shift in 0..62 {
            for value in [(1u64 << shift) - 1, 1 << shift, (1 << shift) + 1] {
                let mut out = Vec::new();
                encode(value, &mut out);
                assert_eq!(out.len(), len(value));
                assert_eq!(decode(&out), Some((value, out.len())));
                assert_eq!(decode(&out[..out.len() - 1]), None);
                assert_eq!(only(&out), Some(value));
                out.push(0);
                assert_eq!(only(&out), None);
            }
        }
    }
}
