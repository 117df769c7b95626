//! Compressed certificates (RFC 8879).

use rustls::CertificateCompressionAlgorithm as Algorithm;
use rustls::compress::{CertCompressor, CompressionFailed, CompressionLevel, ZLIB_COMPRESSOR};

/// What is offered, the best first.
pub(crate) const COMPRESSORS: &[&dyn CertCompressor] = &[&Brotli, ZLIB_COMPRESSOR];

/// The crate that the server compresses pages with, in place of the library's own.
#[derive(Debug)]
struct Brotli;

impl CertCompressor for Brotli {
    fn compress(&self, input: Vec<u8>, level: CompressionLevel) -> Result<Vec<u8>, CompressionFailed> {
        let quality = match level {
            CompressionLevel::Interactive => 4,
            CompressionLevel::Amortized => 11,
        };
        let params = brotli::enc::BrotliEncoderParams { quality, lgwin: 17, ..Default::default() };
        let mut out = Vec::with_capacity(input.len());
        brotli::BrotliCompress(&mut &input[..], &mut out, &params).map_err(|_| CompressionFailed)?;
        Ok(out)
    }

    fn algorithm(&self) -> Algorithm {
        Algorithm::Brotli
    }
}
