//! What encoders of both codings do: strings, and fields of HTTP/1.1 that are made fit for a head.

use crate::{huffman, integer};

/// Appends a string: Huffman coded where that is shorter. Its length has `prefix` bits of the first byte, and the bit above
/// them says that it is coded; `bits` are those above that one.
pub fn write_string(text: &[u8], prefix: u32, bits: u8, out: &mut Vec<u8>) {
    let coded = huffman::encoded_len(text);
    if coded < text.len() {
        integer::encode(coded, prefix, bits | 1 << prefix, out);
        huffman::encode(text, out);
    } else {
        integer::encode(text.len(), prefix, bits, out);
        out.extend_from_slice(text);
    }
}

/// Gives a field of HTTP/1.1 to `write` as it may stand in a head, whatever is in it: its name in lower case, CR, LF and NUL in its value
/// as spaces. What cannot be a name is left out, and what is of a connection's business (RFC 9113 §8.2.2, RFC 9114 §4.2).
pub fn foreign(name: &[u8], value: &[u8], write: impl FnOnce(&[u8], &[u8])) {
    if name.is_empty() || name.iter().any(|&b| b <= b' ' || b == b':' || b == 0x7f) {
        return;
    }
    let mut lower = [0; 64];
    let owned;
    let name = match lower.get_mut(..name.len()) {
        Some(lower) => {
            lower.copy_from_slice(name);
            lower.make_ascii_lowercase();
            &*lower
        }
        None => {
            owned = name.to_ascii_lowercase();
            &owned
        }
    };
    if !crate::message::is_connection_specific(name) {
        clean(value, |value| write(name, value));
    }
}

/// Gives a value to `write` with CR, LF and NUL as spaces.
pub fn clean(value: &[u8], write: impl FnOnce(&[u8])) {
    let is_bad = |b: u8| matches!(b, b'\r' | b'\n' | 0);
    // Without an early exit this becomes SIMD.
    if value.iter().filter(|&&b| is_bad(b)).count() == 0 {
        return write(value);
    }
    let clean: Vec<u8> = value.iter().map(|&b| if is_bad(b) { b' ' } else { b }).collect();
    write(&clean);
}

/// The three digits of a status.
pub fn status_digits(status: u16) -> [u8; 3] {
    [status / 100 % 10, status / 10 % 10, status % 10].map(|digit| b'0' + digit as u8)
}

/// A coding of heads without state: what is written is right on each connection, so that answers can be kept and copied.
pub trait HeadCoding {
    /// Appends what a head begins with, and its `:status`.
    fn status(status: u16, out: &mut Vec<u8>);

    /// Appends what trailers begin with.
    fn trailers(out: &mut Vec<u8>);

    /// Appends a field. The name must be in lower case, the value without CR, LF and NUL.
    fn literal(name: &[u8], value: &[u8], out: &mut Vec<u8>);

    /// Appends `date`, whose value stands in the head as it is: it can be replaced later by another one of the same length. Gives
    /// its offset.
    fn date(value: &[u8], out: &mut Vec<u8>) -> usize;
}
