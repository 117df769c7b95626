//! The traditional crypt(3): DES (FIPS 46-3), 25 times over, with an expansion that the salt disturbs. No crate that is
//! kept up has it, and old password files do.
//!
//! Written for clearness, not for speed: it runs for passwords that are not remembered, on the pool of threads.

/// Positions count from 1, as in the standard.
/// The tables are the standard's own, so that they can be compared with it line by line.
const INITIAL: [u8; 64] = [
    58, 50, 42, 34, 26, 18, 10, 2, 60, 52, 44, 36, 28, 20, 12, 4, 62, 54, 46, 38, 30, 22, 14, 6, 64, 56, 48,
    40, 32, 24, 16, 8, 57, 49, 41, 33, 25, 17, 9, 1, 59, 51, 43, 35, 27, 19, 11, 3, 61, 53, 45, 37, 29, 21,
    13, 5, 63, 55, 47, 39, 31, 23, 15, 7,
];
const FINAL: [u8; 64] = [
    40, 8, 48, 16, 56, 24, 64, 32, 39, 7, 47, 15, 55, 23, 63, 31, 38, 6, 46, 14, 54, 22, 62, 30, 37, 5, 45,
    13, 53, 21, 61, 29, 36, 4, 44, 12, 52, 20, 60, 28, 35, 3, 43, 11, 51, 19, 59, 27, 34, 2, 42, 10, 50, 18,
    58, 26, 33, 1, 41, 9, 49, 17, 57, 25,
];
const EXPANSION: [u8; 48] = [
    32, 1, 2, 3, 4, 5, 4, 5, 6, 7, 8, 9, 8, 9, 10, 11, 12, 13, 12, 13, 14, 15, 16, 17, 16, 17, 18, 19, 20,
    21, 20, 21, 22, 23, 24, 25, 24, 25, 26, 27, 28, 29, 28, 29, 30, 31, 32, 1,
];
const PERMUTATION: [u8; 32] = [
    16, 7, 20, 21, 29, 12, 28, 17, 1, 15, 23, 26, 5, 18, 31, 10, 2, 8, 24, 14, 32, 27, 3, 9, 19, 13, 30, 6,
    22, 11, 4, 25,
];
/// Leaves out every eighth bit, which was for parity.
const CHOICE_1: [u8; 56] = [
    57, 49, 41, 33, 25, 17, 9, 1, 58, 50, 42, 34, 26, 18, 10, 2, 59, 51, 43, 35, 27, 19, 11, 3, 60, 52, 44,
    36, 63, 55, 47, 39, 31, 23, 15, 7, 62, 54, 46, 38, 30, 22, 14, 6, 61, 53, 45, 37, 29, 21, 13, 5, 28, 20,
    12, 4,
];
const CHOICE_2: [u8; 48] = [
    14, 17, 11, 24, 1, 5, 3, 28, 15, 6, 21, 10, 23, 19, 12, 4, 26, 8, 16, 7, 27, 20, 13, 2, 41, 52, 31, 37,
    47, 55, 30, 40, 51, 45, 33, 48, 44, 49, 39, 56, 34, 53, 46, 42, 50, 36, 29, 32,
];
/// In all 28, so that after sixteen rounds the halves are as at first.
const SHIFTS: [u32; 16] = [1, 1, 2, 2, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 1];
const BOXES: [[u8; 64]; 8] = [
    [
        14, 4, 13, 1, 2, 15, 11, 8, 3, 10, 6, 12, 5, 9, 0, 7, 0, 15, 7, 4, 14, 2, 13, 1, 10, 6, 12, 11, 9, 5,
        3, 8, 4, 1, 14, 8, 13, 6, 2, 11, 15, 12, 9, 7, 3, 10, 5, 0, 15, 12, 8, 2, 4, 9, 1, 7, 5, 11, 3, 14,
        10, 0, 6, 13,
    ],
    [
        15, 1, 8, 14, 6, 11, 3, 4, 9, 7, 2, 13, 12, 0, 5, 10, 3, 13, 4, 7, 15, 2, 8, 14, 12, 0, 1, 10, 6, 9,
        11, 5, 0, 14, 7, 11, 10, 4, 13, 1, 5, 8, 12, 6, 9, 3, 2, 15, 13, 8, 10, 1, 3, 15, 4, 2, 11, 6, 7, 12,
        0, 5, 14, 9,
    ],
    [
        10, 0, 9, 14, 6, 3, 15, 5, 1, 13, 12, 7, 11, 4, 2, 8, 13, 7, 0, 9, 3, 4, 6, 10, 2, 8, 5, 14, 12, 11,
        15, 1, 13, 6, 4, 9, 8, 15, 3, 0, 11, 1, 2, 12, 5, 10, 14, 7, 1, 10, 13, 0, 6, 9, 8, 7, 4, 15, 14, 3,
        11, 5, 2, 12,
    ],
    [
        7, 13, 14, 3, 0, 6, 9, 10, 1, 2, 8, 5, 11, 12, 4, 15, 13, 8, 11, 5, 6, 15, 0, 3, 4, 7, 2, 12, 1, 10,
        14, 9, 10, 6, 9, 0, 12, 11, 7, 13, 15, 1, 3, 14, 5, 2, 8, 4, 3, 15, 0, 6, 10, 1, 13, 8, 9, 4, 5, 11,
        12, 7, 2, 14,
    ],
    [
        2, 12, 4, 1, 7, 10, 11, 6, 8, 5, 3, 15, 13, 0, 14, 9, 14, 11, 2, 12, 4, 7, 13, 1, 5, 0, 15, 10, 3, 9,
        8, 6, 4, 2, 1, 11, 10, 13, 7, 8, 15, 9, 12, 5, 6, 3, 0, 14, 11, 8, 12, 7, 1, 14, 2, 13, 6, 15, 0, 9,
        10, 4, 5, 3,
    ],
    [
        12, 1, 10, 15, 9, 2, 6, 8, 0, 13, 3, 4, 14, 7, 5, 11, 10, 15, 4, 2, 7, 12, 9, 5, 6, 1, 13, 14, 0, 11,
        3, 8, 9, 14, 15, 5, 2, 8, 12, 3, 7, 0, 4, 10, 1, 13, 11, 6, 4, 3, 2, 12, 9, 5, 15, 10, 11, 14, 1, 7,
        6, 0, 8, 13,
    ],
    [
        4, 11, 2, 14, 15, 0, 8, 13, 3, 12, 9, 7, 5, 10, 6, 1, 13, 0, 11, 7, 4, 9, 1, 10, 14, 3, 5, 12, 2, 15,
        8, 6, 1, 4, 11, 13, 12, 3, 7, 14, 10, 15, 6, 8, 0, 5, 9, 2, 6, 11, 13, 8, 1, 4, 10, 7, 9, 5, 0, 15,
        14, 2, 3, 12,
    ],
    [
        13, 2, 8, 4, 6, 15, 11, 1, 10, 9, 3, 14, 5, 0, 12, 7, 1, 15, 13, 8, 10, 3, 7, 4, 12, 5, 6, 11, 0, 14,
        9, 2, 7, 11, 4, 1, 9, 12, 14, 2, 0, 6, 10, 13, 15, 3, 5, 8, 2, 1, 14, 7, 4, 10, 8, 13, 15, 12, 9, 0,
        3, 5, 6, 11,
    ],
];

/// Rearranges the lowest `width` bits of `value`; position 1 is the highest of them.
/// Slow on purpose of reading: 25 encryptions take far less than the hashes of today.
fn permute(value: u64, width: u32, table: &[u8]) -> u64 {
    table.iter().fold(0, |out, &at| out << 1 | (value >> (width - u32::from(at)) & 1))
}

/// The sixteen keys of the rounds.
fn schedule(key: u64) -> [u64; 16] {
    const HALF: u64 = (1 << 28) - 1;
    let chosen = permute(key, 64, &CHOICE_1);
    let (mut left, mut right) = (chosen >> 28, chosen & HALF);
    SHIFTS.map(|shift| {
        left = (left << shift | left >> (28 - shift)) & HALF;
        right = (right << shift | right >> (28 - shift)) & HALF;
        permute(left << 28 | right, 56, &CHOICE_2)
    })
}

/// One encryption. Bits of `salt` swap bits of the expansion's halves.
fn encrypt(block: u64, keys: &[u64; 16], salt: u64) -> u64 {
    let block = permute(block, 64, &INITIAL);
    let (mut left, mut right) = (block >> 32, block & 0xffff_ffff);
    for key in keys {
        let wide = permute(right, 32, &EXPANSION);
        // The xor swap: where a bit of the salt is set, the bits of both halves change places.
        let swapped = (wide >> 24 ^ wide) & salt;
        let mixed = (wide ^ (swapped << 24 | swapped)) ^ key;
        let boxed = BOXES.iter().enumerate().fold(0, |out, (at, table)| {
            let six = mixed >> (42 - 6 * at) & 0x3f;
            // The outer bits choose the row, the four within the column.
            let row = six >> 4 & 2 | six & 1;
            out << 4 | u64::from(table[(row << 4 | six >> 1 & 0xf) as usize])
        });
        (left, right) = (right, left ^ permute(boxed, 32, &PERMUTATION));
    }
    // The halves the other way round: the last round does not swap.
    permute(right << 32 | left, 64, &FINAL)
}

const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The eleven characters behind the salt; `None` if that is none. Only eight characters of a password count.
pub fn crypt(password: &[u8], salt: [u8; 2]) -> Option<[u8; 11]> {
    let digit = |byte| DIGITS.iter().position(|&have| have == byte).map(|value| value as u64);
    let salt = digit(salt[0])? | digit(salt[1])? << 6;
    // The lowest bit of the salt is for the highest of the expansion's halves.
    let salt = (0..12).fold(0, |out, at| out | (salt >> at & 1) << (23 - at));
    // Longer ones are cut off and shorter ones filled with zeros, as everywhere.
    let bytes = (0..8).map(|at| password.get(at).copied().unwrap_or(0));
    // Seven bits of each character; the lowest of each byte is the one for parity.
    let key = bytes.fold(0u64, |key, byte| key << 8 | u64::from(byte << 1));
    let keys = schedule(key);
    // A block of zeros, encrypted 25 times with the password as the key, is what crypt(3) keeps.
    let block = (0..25).fold(0, |block, _| encrypt(block, &keys, salt));
    let mut out = [0; 11];
    for (at, place) in out.iter_mut().enumerate() {
        // The last character has four bits only.
        let six = if at < 10 { block >> (58 - 6 * at) } else { block << 2 };
        *place = DIGITS[(six & 0x3f) as usize];
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_encrypted_as_the_standard_has_it() {
        let keys = schedule(0x1334_5779_9bbc_dff1);
        assert_eq!(encrypt(0x0123_4567_89ab_cdef, &keys, 0), 0x85e8_1354_0f0a_b405);
    }

    #[test]
    fn as_crypt_makes_it() {
        let check = |password: &str, want: &[u8; 13]| {
            let got = crypt(password.as_bytes(), [want[0], want[1]]).unwrap();
            assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(&want[2..]), "{password}");
        };
        check("password", b"sa3tHJ3/KuYvI");
        check("password", b"xOAFZqRz5RduI");
        check("passwordlonger", b"xOAFZqRz5RduI");
        assert_eq!(crypt(b"x", *b"!a"), None);
    }
}
