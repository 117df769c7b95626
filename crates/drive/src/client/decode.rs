//! Content codings undone (RFC 9110 §8.4), within a limit: a small body may hold a huge one.

use std::io::{self, Read};

/// What is asked for by who can undo it.
pub const ACCEPT_ENCODING: &str = "gzip, br";

/// Undoes one coding. `None` in the result: it is not known here.
pub fn decode(body: &[u8], coding: &str, max: u64) -> Result<Option<Vec<u8>>, String> {
    let Some((out, read)) = undo(body, coding, max + 1) else { return Ok(None) };
    read.map_err(|error| broken(coding, &error))?;
    if out.len() as u64 > max {
        return Err(format!("the {coding} coding expands to more than {max} bytes"));
    }
    Ok(Some(out))
}

/// The same of the beginning of a body: as far as it goes, `max` bytes at most.
pub fn decode_beginning(body: &[u8], coding: &str, max: u64) -> Result<Option<Vec<u8>>, String> {
    match undo(body, coding, max) {
        None => Ok(None),
        // The end that is missing is an error of the coding, too.
        Some((out, Err(error))) if out.is_empty() => Err(broken(coding, &error)),
        Some((out, _)) => Ok(Some(out)),
    }
}

/// What a coding holds, `limit` bytes at most, and whether it could be read so far.
fn undo(body: &[u8], coding: &str, limit: u64) -> Option<(Vec<u8>, io::Result<usize>)> {
    let mut out = Vec::new();
    let read = match coding.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => body.take(limit).read_to_end(&mut out),
        "gzip" | "x-gzip" => flate2::read::MultiGzDecoder::new(body).take(limit).read_to_end(&mut out),
        "deflate" => flate2::read::ZlibDecoder::new(body).take(limit).read_to_end(&mut out),
        "br" => brotli::Decompressor::new(body, 4096).take(limit).read_to_end(&mut out),
        _ => return None,
    };
    Some((out, read))
}

fn broken(coding: &str, error: &io::Error) -> String {
    format!("the {coding} coding is broken: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn codings_are_undone_within_a_limit() {
        let text = b"abc".repeat(1000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&text).unwrap();
        let gzip = gzip.finish().unwrap();
        assert_eq!(decode(&gzip, "GZIP", 3000), Ok(Some(text.clone())));
        assert!(decode(&gzip, "gzip", 2999).is_err());
        assert!(decode(&gzip[..10], "gzip", 3000).is_err());
        assert!(decode(b"xx", "br", 3000).is_err());
        assert_eq!(decode(b"xx", "zstd", 3000), Ok(None));
        assert_eq!(decode(b"xx", "identity", 3000), Ok(Some(b"xx".to_vec())));
    }

    #[test]
    fn a_beginning_is_undone_as_far_as_it_goes() {
        // Of text that cannot be packed there is something in each part.
        let mut rng = brisk_load::rng::Rng::new(8);
        let text: Vec<u8> = (0..100_000).map(|_| rng.next_u64() as u8).collect();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        let gzip = gzip.finish().unwrap();
        let mut brotli = brotli::CompressorWriter::new(Vec::new(), 4096, 1, 18);
        brotli.write_all(&text).unwrap();
        let brotli = brotli.into_inner();
        for (coding, body) in [("gzip", gzip), ("br", brotli)] {
            let cut = &body[..60_000];
            assert!(decode(cut, coding, 1 << 20).is_err(), "{coding}");
            let found = decode_beginning(cut, coding, 1 << 20).unwrap().unwrap();
            assert!((20_000..60_000).contains(&found.len()) && text.starts_with(&found), "{coding}");
            assert_eq!(decode_beginning(cut, coding, 500).unwrap().unwrap(), &text[..500]);
        }
        assert!(decode_beginning(b"xx", "gzip", 3000).is_err());
        assert_eq!(decode_beginning(b"xx", "zstd", 3000), Ok(None));
    }
}
