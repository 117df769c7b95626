//! Content codings undone (RFC 9110 §8.4), within a limit: a small body may hold a huge one.

use std::io::Read;

/// What is asked for by who can undo it.
pub const ACCEPT_ENCODING: &str = "gzip, br";

/// Undoes one coding. `None` in the result: it is not known here.
pub fn decode(body: &[u8], coding: &str, max: u64) -> Result<Option<Vec<u8>>, String> {
    let mut out = Vec::new();
    let limit = max + 1;
    let read = match coding.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => return Ok(Some(body.to_vec())),
        "gzip" | "x-gzip" => flate2::read::MultiGzDecoder::new(body).take(limit).read_to_end(&mut out),
        "deflate" => flate2::read::ZlibDecoder::new(body).take(limit).read_to_end(&mut out),
        "br" => brotli::Decompressor::new(body, 4096).take(limit).read_to_end(&mut out),
        _ => return Ok(None),
    };
    read.map_err(|error| format!("the {coding} coding is broken: {error}"))?;
    if out.len() as u64 > max {
        return Err(format!("the {coding} coding expands to more than {max} bytes"));
    }
    Ok(Some(out))
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
}
