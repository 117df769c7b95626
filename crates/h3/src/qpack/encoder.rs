//! Encoding field sections without a dynamic table (RFC 9204 §4.5).

use super::QpackError;
use super::table::{STATIC, static_indexes};
use brisk_mux::encode::{self, HeadCoding};
use brisk_mux::integer::{self, IntegerError};

/// Appends what each field section begins with: it needs nothing of a dynamic table (RFC 9204 §4.5.1).
#[inline]
pub fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0]);
}

/// Appends a field. The name must be in lower case.
pub fn write_literal(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let indexes = static_indexes(name);
    if let Some(&index) = indexes.iter().find(|&&index| STATIC[usize::from(index)].1 == value) {
        // §4.5.2, of the static table.
        return integer::encode(index.into(), 6, 0xc0, out);
    }
    match indexes.first() {
        // §4.5.4, of the static table.
        Some(&index) => integer::encode(index.into(), 4, 0x50, out),
        // §4.5.6.
        None => encode::write_string(name, 3, 0x20, out),
    }
    encode::write_string(value, 7, 0, out);
}

/// Appends a field of HTTP/1.1, whatever is in it: see [`encode::foreign`].
pub fn write_foreign(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    encode::foreign(name, value, |name, value| write_literal(name, value, out));
}

/// Appends a field with CR, LF and NUL in its value as spaces. The name must be in lower case.
pub fn write_clean(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    encode::clean(value, |value| write_literal(name, value, out));
}

/// Appends `:status`.
pub fn write_status(status: u16, out: &mut Vec<u8>) {
    write_literal(b":status", &encode::status_digits(status), out);
}

/// Index of `date` in the static table.
const DATE: usize = 6;

/// The coding of heads that are kept.
#[derive(Clone, Copy, Debug)]
pub struct Qpack;

impl HeadCoding for Qpack {
    #[inline]
    fn status(status: u16, out: &mut Vec<u8>) {
        begin(out);
        write_status(status, out);
    }

    fn trailers(out: &mut Vec<u8>) {
        begin(out);
    }

    #[inline]
    fn literal(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        write_literal(name, value, out);
    }

    #[inline]
    fn date(value: &[u8], out: &mut Vec<u8>) -> usize {
        integer::encode(DATE, 4, 0x50, out);
        integer::encode(value.len(), 7, 0, out);
        let at = out.len();
        out.extend_from_slice(value);
        at
    }
}

/// Checks instructions of the peer's decoder (RFC 9204 §4.4); gives what is left of them, which is less than one. As nothing is ever
/// inserted, nothing may be acknowledged; streams may be cancelled all the same (§2.2.2.2).
pub fn check_decoder_stream(mut input: &[u8]) -> Result<&[u8], QpackError> {
    while let Some(&first) = input.first() {
        let (prefix, is_cancellation) = match first >> 6 {
            // §4.4.1, Section Acknowledgment.
            2 | 3 => (7, false),
            // §4.4.2, Stream Cancellation.
            1 => (6, true),
            // §4.4.3, Insert Count Increment.
            _ => (6, false),
        };
        match integer::decode_long(input, prefix) {
            Ok((_, rest)) if is_cancellation => input = rest,
            Ok(_) => return Err(QpackError::DecoderStream("acknowledgment of what was not inserted")),
            Err(IntegerError::Truncated) => return Ok(input),
            Err(IntegerError::TooLarge) => return Err(QpackError::DecoderStream("too long value")),
        }
    }
    Ok(input)
}
