//! The Huffman code of RFC 7541 §5.2 and Appendix B.
//!
//! It is canonical: the codes follow from their lengths. All tables are made by the compiler.

use crate::limits::CODE_BITS_MAX;
/// Bits of each symbol's code; the last is EOS.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
    28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6,
    6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7,
    8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7,
    15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24,
    23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23,
    23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26,
    26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20,
    21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27,
    27, 27, 26, 30,
];

const EOS: usize = 256;
/// So many bits are looked up at a time. Most symbols of texts have codes of five or six bits: one look finds two of them.
const FAST_BITS: u32 = 12;

/// Symbols ordered by code; for each length where its codes begin in that order, and the first code.
struct Canonical {
    order: [u16; 257],
    first_index: [u16; CODE_BITS_MAX + 2],
    first_code: [u32; CODE_BITS_MAX + 2],
}

static CANONICAL: Canonical = canonical();

const fn canonical() -> Canonical {
    let mut all = Canonical {
        order: [0; 257],
        first_index: [0; CODE_BITS_MAX + 2],
        first_code: [0; CODE_BITS_MAX + 2],
    };
    let (mut length, mut index, mut code) = (1, 0, 0u32);
    while length <= CODE_BITS_MAX + 1 {
        all.first_index[length] = index;
        all.first_code[length] = code;
        let mut symbol = 0;
        while symbol < 257 {
            if LENGTHS[symbol] as usize == length {
                all.order[index as usize] = symbol as u16;
                index += 1;
                code += 1;
            }
            symbol += 1;
        }
        code <<= 1;
        length += 1;
    }
    all
}

/// Codes by symbol.
static CODES: [u32; 257] = {
    let canonical = canonical();
    let mut codes = [0; 257];
    let mut index = 0;
    while index < 257 {
        let symbol = canonical.order[index] as usize;
        let length = LENGTHS[symbol] as usize;
        codes[symbol] = canonical.first_code[length] + (index as u32 - canonical.first_index[length] as u32);
        index += 1;
    }
    codes
};

/// By the next [`FAST_BITS`] bits: symbol and length of its code; length 0: the code is longer.
const FIRST: [(u8, u8); 1 << FAST_BITS] = {
    let canonical = canonical();
    let mut table = [(0, 0); 1 << FAST_BITS];
    let mut index = 0;
    while index < 257 {
        let symbol = canonical.order[index] as usize;
        let length = LENGTHS[symbol] as u32;
        if length <= FAST_BITS {
            let code = canonical.first_code[length as usize]
                + (index as u32 - canonical.first_index[length as usize] as u32);
            let start = code << (FAST_BITS - length);
            let mut at = 0;
            while at < 1 << (FAST_BITS - length) {
                table[(start + at) as usize] = (symbol as u8, length as u8);
                at += 1;
            }
        }
        index += 1;
    }
    table
};

/// What the next [`FAST_BITS`] bits begin with.
#[derive(Clone, Copy)]
struct Fast {
    symbols: [u8; 2],
    /// Length of the first symbol's code; 0: it is longer than what was looked up.
    first: u8,
    /// Length of both codes; that of the first if the second is not there as a whole.
    both: u8,
}

static FAST: [Fast; 1 << FAST_BITS] = {
    let mut table = [Fast { symbols: [0; 2], first: 0, both: 0 }; 1 << FAST_BITS];
    let singles = FIRST;
    let mut at = 0;
    while at < 1 << FAST_BITS {
        let (symbol, first) = singles[at];
        let (next, second) = singles[(at << first) & ((1 << FAST_BITS) - 1)];
        let is_whole = first > 0 && second > 0 && (first + second) as u32 <= FAST_BITS;
        let both = if is_whole { first + second } else { first };
        table[at] = Fast { symbols: [symbol, next], first, both };
        at += 1;
    }
    table
};

/// Bytes that no Huffman code means, or padding that is not the beginning of EOS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid;

/// Appends what `src` means to `out`. At most 8/5 as many bytes are appended.
pub fn decode(src: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    decode_padded(src, false, out)
}

/// The same; `long`: padding may be a whole byte. After an error `out` is as it was.
pub fn decode_padded(src: &[u8], long: bool, out: &mut Vec<u8>) -> Result<(), Invalid> {
    let start = out.len();
    // No code is shorter than five bits, and symbols are written in pairs.
    out.resize(start + src.len() * 8 / 5 + 2, 0);
    let decoded = decode_to(src, long, &mut out[start..]);
    out.truncate(start + *decoded.as_ref().unwrap_or(&0));
    decoded.map(|_| ())
}

/// Writes the symbols to `out`, which has room for all and one more; gives their number.
fn decode_to(src: &[u8], long: bool, out: &mut [u8]) -> Result<usize, Invalid> {
    let mut at = 0;
    // The next bits, from the highest on: `count` of them, and maybe some of the byte that comes after those.
    let (mut bits, mut count) = (0u64, 0u32);
    let mut rest = src;
    loop {
        if let Some(&next) = rest.first_chunk() {
            bits |= u64::from_be_bytes(next) >> count;
            let whole = (63 - count) / 8;
            rest = &rest[whole as usize..];
            count += whole * 8;
        } else {
            while count <= 56
                && let Some((&byte, tail)) = rest.split_first()
            {
                bits |= u64::from(byte) << (56 - count);
                count += 8;
                rest = tail;
            }
        }
        loop {
            let fast = FAST[(bits >> (64 - FAST_BITS)) as usize];
            let (first, both) = (u32::from(fast.first), u32::from(fast.both));
            // Behind the last bit there are zeros, or bits that are counted later: what they seem to mean does not count.
            let used = if both <= count { both } else { first };
            if used > count || used == 0 {
                break;
            }
            out[at..at + 2].copy_from_slice(&fast.symbols);
            at += if used > first { 2 } else { 1 };
            bits <<= used;
            count -= used;
        }
        if count < CODE_BITS_MAX as u32 && !rest.is_empty() {
            continue;
        }
        if count < 8 && rest.is_empty() && is_padding(bits, count) {
            return Ok(at);
        }
        let Some((symbol, length)) = slow(bits, count) else { break };
        if symbol == EOS {
            return Err(Invalid);
        }
        out[at] = symbol as u8;
        at += 1;
        bits <<= length;
        count -= length;
    }
    let is_whole = count <= if long { 8 } else { 7 } && rest.is_empty() && is_padding(bits, count);
    if is_whole { Ok(at) } else { Err(Invalid) }
}

/// RFC 7541 §5.2: padding is shorter than a byte and made of EOS's first bits, which are ones.
#[inline]
fn is_padding(bits: u64, count: u32) -> bool {
    count == 0 || bits >> (64 - count) == (1 << count) - 1
}

/// A symbol by its code's length, if the `count` bits hold a whole one.
#[cold]
fn slow(bits: u64, count: u32) -> Option<(usize, u32)> {
    for length in 5..=(CODE_BITS_MAX as u32).min(count) {
        let code = (bits >> (64 - length)) as u32;
        let at = length as usize;
        let symbols = CANONICAL.first_index[at + 1] - CANONICAL.first_index[at];
        let offset = code.wrapping_sub(CANONICAL.first_code[at]);
        if offset < u32::from(symbols) {
            let index = usize::from(CANONICAL.first_index[at]) + offset as usize;
            return Some((usize::from(CANONICAL.order[index]), length));
        }
    }
    None
}

/// The length that [`encode`] will give.
pub fn encoded_len(src: &[u8]) -> usize {
    let bits: usize = src.iter().map(|&byte| usize::from(LENGTHS[usize::from(byte)])).sum();
    bits.div_ceil(8)
}

/// Appends the code of `src`.
pub fn encode(src: &[u8], out: &mut Vec<u8>) {
    // The last bits that were not written yet are the lowest `count`, fewer than 32.
    let (mut bits, mut count) = (0u64, 0u32);
    for &byte in src {
        let length = u32::from(LENGTHS[usize::from(byte)]);
        bits = bits << length | u64::from(CODES[usize::from(byte)]);
        count += length;
        if count >= 32 {
            count -= 32;
            out.extend_from_slice(&((bits >> count) as u32).to_be_bytes());
        }
    }
    while count >= 8 {
        count -= 8;
        out.push((bits >> count) as u8);
    }
    if count > 0 {
        out.push((bits << (8 - count)) as u8 | (0xff >> count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Bit by bit, by the tables of the RFC alone.
    fn by_bits(src: &[u8]) -> Result<Vec<u8>, Invalid> {
        let symbols: HashMap<_, _> =
            (0..257).map(|symbol| ((LENGTHS[symbol], CODES[symbol]), symbol)).collect();
        let (mut out, mut length, mut code) = (Vec::new(), 0, 0);
        for bit in src.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)) {
            (length, code) = (length + 1, code << 1 | u32::from(bit));
            match symbols.get(&(length, code)) {
                Some(&EOS) => return Err(Invalid),
                Some(&symbol) => {
                    out.push(symbol as u8);
                    (length, code) = (0, 0);
                }
                None if length > 30 => return Err(Invalid),
                None => {}
            }
        }
        if length < 8 && code == (1 << length) - 1 { Ok(out) } else { Err(Invalid) }
    }

    #[track_caller]
    fn check(src: &[u8]) {
        let mut out = b"before".to_vec();
        let result = decode(src, &mut out);
        let whole = |found: Vec<u8>| [b"before", &found[..]].concat();
        assert_eq!(result.map(|()| out.clone()), by_bits(src).map(whole), "{src:02x?}");
        assert!(result.is_ok() || out == b"before");
    }

    #[test]
    fn all_pairs_of_symbols_and_all_their_beginnings_are_decoded_as_bit_by_bit() {
        for pair in 0..=u16::MAX {
            let mut coded = Vec::new();
            let [a, b] = pair.to_be_bytes();
            encode(&[a, b], &mut coded);
            let mut out = Vec::new();
            assert_eq!((decode(&coded, &mut out), &out[..]), (Ok(()), &[a, b][..]));
            if pair % 61 == 0 {
                (0..coded.len()).for_each(|end| check(&coded[..end]));
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_as_bit_by_bit(src in prop::collection::vec(any::<u8>(), 0..40)) {
            check(&src);
        }

        #[test]
        fn ones_are_decoded_as_bit_by_bit(ones in 0usize..12, at in 0usize..96, flip in any::<u8>()) {
            let mut src = vec![0xff; ones];
            if let Some(byte) = src.get_mut(at / 8) {
                *byte ^= flip;
            }
            check(&src);
        }
    }
}
