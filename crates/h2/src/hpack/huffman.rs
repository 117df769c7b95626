//! The Huffman code of RFC 7541 §5.2 and Appendix B.
//!
//! It is canonical: the codes follow from their lengths. All tables are made by the compiler.

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
const LENGTH_MAX: usize = 30;
/// Codes up to this length are found with one look; all of printable text's are, but for a few rare symbols.
const FAST_BITS: u32 = 11;

/// Symbols ordered by code; for each length where its codes begin in that order, and the first code.
struct Canonical {
    order: [u16; 257],
    first_index: [u16; LENGTH_MAX + 2],
    first_code: [u32; LENGTH_MAX + 2],
}

static CANONICAL: Canonical = canonical();

const fn canonical() -> Canonical {
    let mut all =
        Canonical { order: [0; 257], first_index: [0; LENGTH_MAX + 2], first_code: [0; LENGTH_MAX + 2] };
    let (mut length, mut index, mut code) = (1, 0, 0u32);
    while length <= LENGTH_MAX + 1 {
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
static FAST: [(u8, u8); 1 << FAST_BITS] = {
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

/// Bytes that no Huffman code means, or padding that is not the beginning of EOS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid;

/// Appends what `src` means to `out`. At most 8/5 as many bytes are appended.
pub fn decode(src: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    decode_padded(src, false, out)
}

/// The same; `long`: padding may be a whole byte.
pub fn decode_padded(src: &[u8], long: bool, out: &mut Vec<u8>) -> Result<(), Invalid> {
    out.reserve(src.len() + src.len() / 2 + 8);
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
            let (symbol, length) = FAST[(bits >> (64 - FAST_BITS)) as usize];
            if length == 0 || u32::from(length) > count {
                break;
            }
            out.push(symbol);
            bits <<= length;
            count -= u32::from(length);
        }
        if count < LENGTH_MAX as u32 && !rest.is_empty() {
            continue;
        }
        let Some((symbol, length)) = slow(bits, count) else { break };
        if symbol == EOS {
            return Err(Invalid);
        }
        out.push(symbol as u8);
        bits <<= length;
        count -= length;
    }
    // RFC 7541 §5.2: padding is shorter than a byte and made of EOS's first bits, which are ones.
    let max = if long { 8 } else { 7 };
    let is_padding =
        count <= max && rest.is_empty() && (count == 0 || bits >> (64 - count) == (1 << count) - 1);
    if is_padding { Ok(()) } else { Err(Invalid) }
}

/// A symbol by its code's length, if the `count` bits hold a whole one.
#[cold]
fn slow(bits: u64, count: u32) -> Option<(usize, u32)> {
    for length in 5..=(LENGTH_MAX as u32).min(count) {
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
