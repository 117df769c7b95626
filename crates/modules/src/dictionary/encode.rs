//! The two codings of RFC 9842, `dcb` (§4) and `dcz` (§5): a head that names the dictionary, then Brotli or Zstandard.

use super::store::Hash;
use crate::limits::{BROTLI_LEVEL_MIN, ENCODE_ZSTD_WINDOW_LOG_MAX, ZSTD_SHORT_BYTES_MAX};
use brisk_http::negotiate::Coding;
use brotli::enc::{BrotliCompressCustomIoCustomDict, BrotliEncoderParams, StandardAlloc};
use brotli::{IoReaderWrapper, IoWriterWrapper};
use std::io;
use zstd::zstd_safe::{CCtx, CParameter, compress_bound, get_error_name};

const DCB_MAGIC: [u8; 4] = [0xff, b'D', b'C', b'B'];
/// A frame that decoders skip.
/// A skippable frame of 32 bytes (RFC 8878 §3.1.2): the hash.
const DCZ_MAGIC: [u8; 8] = [0x5e, 0x2a, 0x4d, 0x18, 0x20, 0, 0, 0];
const BUFFER_BYTES: usize = 64 * 1024;

/// The name of a coding with a dictionary; gzip has none.
pub fn name(coding: Coding) -> Option<&'static str> {
    match coding {
        Coding::Br => Some("dcb"),
        Coding::Zstd => Some("dcz"),
        Coding::Gzip => None,
    }
}

/// Base-two logarithm of a window from whose end all of its beginning can be seen.
/// Both lie in it one after the other: the text refers to the dictionary from its very end.
fn window_log(bytes: usize) -> u32 {
    usize::BITS - (bytes + 16).leading_zeros()
}

/// Compresses `plain`.
pub fn encode(
    coding: Coding,
    level: u8,
    dictionary: &[u8],
    hash: &Hash,
    plain: &[u8],
) -> io::Result<Vec<u8>> {
    let window = window_log(dictionary.len() + plain.len());
    match coding {
        Coding::Br => {
            let mut out = [&DCB_MAGIC[..], hash].concat();
            brotli(level, window.clamp(10, 24) as i32, dictionary, plain, &mut out)?;
            Ok(out)
        }
        Coding::Zstd => {
            let mut out = [&DCZ_MAGIC[..], hash].concat();
            zstandard(level, window.clamp(10, ENCODE_ZSTD_WINDOW_LOG_MAX), dictionary, plain, &mut out)?;
            Ok(out)
        }
        Coding::Gzip => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// In the Brotli of RFC 9842 a copy ends where the dictionary ends (RFC 9841 §9), while this encoder goes on with what
/// was written since. So it is shown a last byte that is nowhere in the text: then no copy comes to that end.
///
/// `None`: the text has all bytes there are.
fn fenced(dictionary: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
    let mut seen = [false; 256];
    plain.iter().for_each(|&byte| seen[usize::from(byte)] = true);
    // A text with every byte is rare, and is compressed without the dictionary.
    let fence = seen.iter().position(|seen| !seen)?;
    let mut dictionary = dictionary.to_vec();
    *dictionary.last_mut()? = fence as u8;
    Some(dictionary)
}

fn brotli(level: u8, window: i32, dictionary: &[u8], plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    // Without a fence an empty dictionary: longer, but right.
    let fenced = fenced(dictionary, plain).unwrap_or_default();
    let params = BrotliEncoderParams {
        quality: level.max(BROTLI_LEVEL_MIN).into(),
        lgwin: window,
        size_hint: plain.len(),
        ..BrotliEncoderParams::default()
    };
    let mut input = plain;
    BrotliCompressCustomIoCustomDict(
        &mut IoReaderWrapper(&mut input),
        &mut IoWriterWrapper(out),
        &mut vec![0; BUFFER_BYTES],
        &mut vec![0; BUFFER_BYTES],
        &params,
        StandardAlloc::default(),
        &mut |_, _, _, _| (),
        &fenced,
        io::ErrorKind::UnexpectedEof.into(),
    )
    .map(drop)
}

fn zstandard(level: u8, window: u32, dictionary: &[u8], plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    let failed = |code| io::Error::other(get_error_name(code));
    // Made anew: one with a prefix cannot be used for another body.
    let mut context = CCtx::create();
    context.set_parameter(CParameter::CompressionLevel(level.into())).map_err(failed)?;
    context.set_parameter(CParameter::WindowLog(window)).map_err(failed)?;
    if dictionary.len() + plain.len() > ZSTD_SHORT_BYTES_MAX {
        // The tables of the lower levels forget the beginning of what is longer.
        context.set_parameter(CParameter::EnableLongDistanceMatching(true)).map_err(failed)?;
    }
    // As it is, whatever it begins with (RFC 9842 §5).
    context.ref_prefix(dictionary).map_err(failed)?;
    let mut frame = Vec::with_capacity(compress_bound(plain.len()));
    context.compress2(&mut frame, plain).map_err(failed)?;
    out.append(&mut frame);
    Ok(())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::io::Read as _;
    use zstd::zstd_safe::DCtx;

    fn decode(coding: Coding, dictionary: &[u8], coded: &[u8]) -> Vec<u8> {
        match coding {
            Coding::Br => {
                assert_eq!(coded[..4], DCB_MAGIC);
                let mut plain = Vec::new();
                let dictionary = dictionary.to_vec().into();
                brotli::reader::Decompressor::new_with_custom_dict(&coded[36..], 4096, dictionary)
                    .read_to_end(&mut plain)
                    .unwrap();
                plain
            }
            _ => {
                assert_eq!(coded[..8], DCZ_MAGIC);
                let mut context = DCtx::create();
                context.ref_prefix(dictionary).unwrap();
                let mut plain = Vec::with_capacity(10 << 20);
                // The head is a frame of its own.
                context.decompress(&mut plain, &coded[40..]).unwrap();
                plain
            }
        }
    }

    fn text(seed: u32, len: usize) -> Vec<u8> {
        let mut random = seed;
        let mut next = || {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            b"abcdefghijklmnop etaoinshrdlu\n"[(random >> 16) as usize % 30]
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn what_is_alike_becomes_small() {
        let hash = [7; 32];
        let old = text(1, 200_000);
        let mut new = old.clone();
        new.splice(1000..1010, *b"something else");
        new.extend_from_slice(&text(2, 500));
        for coding in [Coding::Br, Coding::Zstd] {
            for level in [1, 5, 9] {
                let coded = encode(coding, level, &old, &hash, &new).unwrap();
                assert!(coded.len() < 2000, "{coding:?} {level}: {}", coded.len());
                assert!(coded.windows(32).take(9).any(|have| have == hash));
                assert!(decode(coding, &old, &coded) == new, "{coding:?} {level}");
            }
        }
    }

    #[test]
    fn sizes_at_the_edges() {
        for coding in [Coding::Br, Coding::Zstd] {
            for (dictionary, plain) in [(1, 1), (2, 0), (100, 1_000_000), (1_000_000, 10), (300_000, 300_000)]
            {
                let (dictionary, plain) = (text(3, dictionary), text(3, plain));
                let coded = encode(coding, 3, &dictionary, &[0; 32], &plain).unwrap();
                assert!(decode(coding, &dictionary, &coded) == plain, "{coding:?} {}", plain.len());
            }
        }
    }
}
