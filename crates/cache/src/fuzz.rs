//! Invariants of the file format over arbitrary bytes.

use crate::format::{self, PREFIX_BYTES};

/// A header that is read is written again as the same; a wrong one is an error. So that inputs get past the checksum,
/// it is also put right.
pub fn fuzz_cache_file(data: &[u8]) {
    check(data);
    if data.len() >= PREFIX_BYTES
        && let Ok(bytes) = format::header_bytes(data)
        && let Some(covered) = data.get(12..bytes)
    {
        let mut mended = data.to_vec();
        mended[8..12].copy_from_slice(&crc32fast::hash(covered).to_le_bytes());
        check(&mended);
    }
}

fn check(data: &[u8]) {
    let Ok(header) = format::decode(data) else { return };
    let again = format::encode_in(&header.meta, header.body_bytes, header.body_crc, header.bytes as usize)
        .expect("it came out of as many bytes");
    assert_eq!(format::decode(&again), Ok(header));
}
