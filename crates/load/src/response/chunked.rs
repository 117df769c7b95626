//! The chunked transfer coding (RFC 9112 §7.1), skipped over.

use memchr::memchr;

use super::ResponseError;

/// A chunk of 2⁵² bytes is more than anyone sends.
const SIZE_DIGITS_MAX: u8 = 13;

/// What comes next in a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunked {
    /// The size line: the value so far and how many digits it had.
    Size { value: u64, digits: u8 },
    /// The rest of the size line: a chunk extension, which is ignored.
    Extension { value: u64 },
    /// The LF that ends the size line.
    SizeLf { value: u64 },
    /// So many bytes of data.
    Data(u64),
    /// The CR after the data.
    DataCr,
    /// The LF after the data.
    DataLf,
    /// The start of a trailer line, or of the blank line that ends the body.
    TrailerStart,
    /// Inside a trailer line.
    Trailer,
    /// The LF of the blank line.
    LastLf,
}

impl Default for Chunked {
    fn default() -> Self {
        Self::Size { value: 0, digits: 0 }
    }
}

impl Chunked {
    /// Takes what belongs to the body off `input`; true when the body has ended.
    pub fn skip(&mut self, input: &mut &[u8]) -> Result<bool, ResponseError> {
        while let Some((&byte, rest)) = input.split_first() {
            *self = match (*self, byte) {
                (Self::Data(left), _) => {
                    let taken = left.min(input.len() as u64);
                    *input = &input[taken as usize..];
                    *self = if left == taken { Self::DataCr } else { Self::Data(left - taken) };
                    continue;
                }
                (Self::Extension { value }, _) if skip_line(input) => after_size(value),
                (Self::Trailer, _) if skip_line(input) => Self::TrailerStart,
                (Self::Extension { .. } | Self::Trailer, _) => return Ok(false),
                (Self::Size { value, digits }, _) if byte.is_ascii_hexdigit() && digits < SIZE_DIGITS_MAX => {
                    *input = rest;
                    Self::Size { value: value << 4 | hex(byte), digits: digits + 1 }
                }
                (Self::Size { value, digits: 1.. }, b';' | b' ' | b'\t') => Self::Extension { value },
                (Self::Size { value, digits: 1.. }, b'\r') => step(input, rest, Self::SizeLf { value }),
                (Self::SizeLf { value }, b'\n') => step(input, rest, after_size(value)),
                (Self::DataCr, b'\r') => step(input, rest, Self::DataLf),
                (Self::DataLf, b'\n') => step(input, rest, Self::default()),
                (Self::TrailerStart, b'\r') => step(input, rest, Self::LastLf),
                (Self::TrailerStart, _) => Self::Trailer,
                (Self::LastLf, b'\n') => {
                    *input = rest;
                    return Ok(true);
                }
                _ => return Err(ResponseError::BadChunk),
            };
        }
        Ok(false)
    }
}

/// Moves past one byte of framing.
fn step<'a>(input: &mut &'a [u8], rest: &'a [u8], next: Chunked) -> Chunked {
    *input = rest;
    next
}

/// A chunk of size zero is the last one.
fn after_size(value: u64) -> Chunked {
    if value == 0 { Chunked::TrailerStart } else { Chunked::Data(value) }
}

/// Moves past the next LF; false when the input has none, and is then used up.
fn skip_line(input: &mut &[u8]) -> bool {
    match memchr(b'\n', input) {
        Some(at) => {
            *input = &input[at + 1..];
            true
        }
        None => {
            *input = &[];
            false
        }
    }
}

fn hex(digit: u8) -> u64 {
    u64::from(match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    })
}
