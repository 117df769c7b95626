//! Writing chunks.

use crate::field::write_field;

/// What follows the data of a chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// The end of a body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Appends the size line of a chunk. A chunk of 0 bytes would end the body: that is a bug of the caller.
pub fn write_chunk_head(len: u64, out: &mut Vec<u8>) {
    assert!(len > 0, "an empty chunk ends the body");
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let digits = (u64::BITS - len.leading_zeros()).div_ceil(4);
    for i in (0..digits).rev() {
        out.push(HEX[(len >> (4 * i) & 0xf) as usize]);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the last chunk and the trailer section.
pub fn write_last_chunk<'a>(trailers: impl IntoIterator<Item = (&'a [u8], &'a [u8])>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n");
    for (name, value) in trailers {
        write_field(name, value, out);
    }
    out.extend_from_slice(b"\r\n");
}
