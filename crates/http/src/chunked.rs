//! The chunked transfer coding (RFC 9112 §7.1), strict: line ends are CRLF and nothing else, sizes fit into 63 bits,
//! extensions and trailers have limits. Shared by request bodies and upstream answers.

mod encode;
#[cfg(test)]
mod tests;

pub use encode::{CHUNK_END, LAST_CHUNK, write_chunk_head, write_last_chunk};

use crate::head::line::{Name, is_token_byte, parse_field, stray_control};
use crate::head::{Header, Span};
use std::fmt;
use std::ops::Range;

/// Limits of a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkLimits {
    /// Bytes of chunk extensions beyond what the chunk data pays for (one byte of extension per byte of data).
    pub extension_bytes_max: usize,
    /// Bytes of the trailer section.
    pub trailer_bytes_max: usize,
    /// Fields in the trailer section.
    pub trailers_max: usize,
    /// White space may follow a size. RFC 9112 §7.1 has none there, but old servers pad their sizes with spaces.
    pub padded_sizes: bool,
}

impl Default for ChunkLimits {
    fn default() -> Self {
        ChunkLimits {
            extension_bytes_max: 4096,
            trailer_bytes_max: 8192,
            trailers_max: 100,
            padded_sizes: false,
        }
    }
}

impl ChunkLimits {
    /// For answers, where sizes may be padded: what is passed on is framed anew.
    pub fn of_answers() -> Self {
        ChunkLimits { padded_sizes: true, ..ChunkLimits::default() }
    }
}

/// What [`ChunkedDecoder::next`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChunkEvent {
    /// Everything given was consumed; give more.
    NeedMore,
    /// Body data: this range of the given buffer.
    Data(Range<usize>),
    /// The body is over; [`ChunkedDecoder::trailers`] are complete.
    End,
}

/// Why a chunked body was refused: a 400 to clients, a 502 for upstreams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkError {
    /// The size is no hexadecimal number or above 2^63-1.
    BadSize,
    /// An extension that is not as RFC 9112 §7.1.1 has it.
    BadExtension,
    /// Too many bytes of extensions.
    ExtensionTooLong,
    /// Something else than CRLF.
    BadLineEnd,
    /// A malformed trailer field.
    BadTrailer,
    /// The trailer section is too long.
    TrailersTooLong,
}

impl fmt::Display for ChunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ChunkError::BadSize => "invalid chunk size",
            ChunkError::BadExtension => "invalid chunk extension",
            ChunkError::ExtensionTooLong => "too long chunk extensions",
            ChunkError::BadLineEnd => "invalid line end in chunked body",
            ChunkError::BadTrailer => "invalid trailer",
            ChunkError::TrailersTooLong => "too long trailers",
        })
    }
}

impl std::error::Error for ChunkError {}

/// What the next byte must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The first digit of a size.
    Start,
    Size,
    /// White space after the size (RFC 9112 §7.1.1: "bad" white space).
    SizeSpace,
    Extension(Extension),
    /// LF after a size line.
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// The beginning of a trailer line.
    TrailerStart,
    Trailer,
    TrailerLf,
    /// LF of the blank line.
    EndLf,
    Done,
}

/// Where in a chunk extension (RFC 9112 §7.1.1):
/// `*( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extension {
    /// Behind `;`.
    BeforeName,
    Name,
    /// White space has followed the name.
    AfterName,
    /// Behind `=`.
    BeforeValue,
    /// A token.
    Value,
    /// Within a quoted string.
    Quoted,
    /// Behind the `\` of a quoted pair.
    QuotedPair,
    /// Behind a quoted string.
    Closed,
    /// White space has followed the value.
    AfterValue,
}

impl Extension {
    /// What follows a byte other than CR.
    fn after(self, b: u8) -> Option<Extension> {
        use Extension::{
            AfterName, AfterValue, BeforeName, BeforeValue, Closed, Name, Quoted, QuotedPair, Value,
        };
        let is_space = matches!(b, b' ' | b'\t');
        let is_text = is_space || b > b' ' && b != 0x7f;
        Some(match (self, b) {
            (BeforeName | BeforeValue | AfterName | AfterValue, _) if is_space => self,
            (BeforeName | Name, _) if is_token_byte(b) => Name,
            (BeforeValue | Value, _) if is_token_byte(b) => Value,
            (Name, _) if is_space => AfterName,
            (Value | Closed, _) if is_space => AfterValue,
            (Name | AfterName, b'=') => BeforeValue,
            (Name | AfterName | Value | Closed | AfterValue, b';') => BeforeName,
            (BeforeValue, b'"') => Quoted,
            (Quoted, b'"') => Closed,
            (Quoted, b'\\') => QuotedPair,
            (Quoted | QuotedPair, _) if is_text => Quoted,
            _ => return None,
        })
    }

    /// Whether the line may end here.
    fn may_end(self) -> bool {
        matches!(self, Extension::Name | Extension::Value | Extension::Closed)
    }
}

/// A push parser for one chunked body.
#[derive(Clone, Debug)]
pub struct ChunkedDecoder {
    state: State,
    limits: ChunkLimits,
    /// The size being read, then the bytes of data that are missing.
    left: u64,
    /// Bytes of size lines that no data has paid for yet.
    overhead: usize,
    trailer_bytes: Vec<u8>,
    line_start: usize,
    trailers: Vec<Header>,
}

impl Default for ChunkedDecoder {
    fn default() -> Self {
        ChunkedDecoder::new(ChunkLimits::default())
    }
}

impl ChunkedDecoder {
    /// A decoder at the beginning of a body.
    pub fn new(limits: ChunkLimits) -> Self {
        ChunkedDecoder {
            state: State::Start,
            limits,
            left: 0,
            overhead: 0,
            trailer_bytes: Vec::new(),
            line_start: 0,
            trailers: Vec::new(),
        }
    }

    /// Whether the whole body was seen.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// The bytes of data of the current chunk that have not come yet.
    pub fn chunk_left(&self) -> u64 {
        if matches!(self.state, State::Data | State::SizeLf) { self.left } else { 0 }
    }

    /// The trailer fields and the bytes their spans point into. They are untrusted like any header, and must not be
    /// merged into it (RFC 9110 §6.5.1).
    pub fn trailers(&self) -> (&[Header], &[u8]) {
        (&self.trailers, &self.trailer_bytes)
    }

    /// Reads on. Gives an event and how many bytes of `buf` are done with; the next call gets the bytes behind them.
    /// After an error or `End` nothing more may be given.
    pub fn next(&mut self, buf: &[u8]) -> Result<(ChunkEvent, usize), ChunkError> {
        let mut at = 0;
        while at < buf.len() {
            match self.state {
                State::Data => {
                    let len = self.left.min((buf.len() - at) as u64) as usize;
                    self.left -= len as u64;
                    self.overhead = self.overhead.saturating_sub(len);
                    if self.left == 0 {
                        self.state = State::DataCr;
                    }
                    return Ok((ChunkEvent::Data(at..at + len), at + len));
                }
                State::Trailer => at += self.trailer_run(&buf[at..])?,
                State::Done => break,
                _ => {
                    self.step(buf[at])?;
                    at += 1;
                    if self.state == State::Done {
                        return Ok((ChunkEvent::End, at));
                    }
                }
            }
        }
        let event = if self.state == State::Done { ChunkEvent::End } else { ChunkEvent::NeedMore };
        Ok((event, at))
    }

    /// One byte of framing.
    fn step(&mut self, b: u8) -> Result<(), ChunkError> {
        self.state = match self.state {
            State::Start => {
                self.left = hex(b).ok_or(ChunkError::BadSize)?;
                State::Size
            }
            State::Size => match hex(b) {
                Some(digit) => {
                    self.pay_overhead()?;
                    self.add_digit(digit)?;
                    State::Size
                }
                None => self.after_size(b)?,
            },
            State::SizeSpace => self.after_size(b)?,
            State::Extension(at) if b == b'\r' && at.may_end() => State::SizeLf,
            State::Extension(at) => {
                self.pay_overhead()?;
                State::Extension(at.after(b).ok_or(ChunkError::BadExtension)?)
            }
            State::SizeLf => {
                expect(b, b'\n')?;
                if self.left == 0 { State::TrailerStart } else { State::Data }
            }
            State::DataCr => {
                expect(b, b'\r')?;
                State::DataLf
            }
            State::DataLf => {
                expect(b, b'\n')?;
                State::Start
            }
            State::TrailerStart => match b {
                b'\r' => State::EndLf,
                b'\n' => return Err(ChunkError::BadLineEnd),
                _ => {
                    self.line_start = self.trailer_bytes.len();
                    self.push_trailer(&[b])?;
                    State::Trailer
                }
            },
            State::TrailerLf => {
                expect(b, b'\n')?;
                self.end_trailer()?;
                State::TrailerStart
            }
            State::EndLf => {
                expect(b, b'\n')?;
                State::Done
            }
            State::Data | State::Trailer | State::Done => unreachable!("handled by next()"),
        };
        Ok(())
    }

    /// What may follow the size, with or without white space between.
    fn after_size(&mut self, b: u8) -> Result<State, ChunkError> {
        match b {
            b'\r' if self.state == State::Size || self.limits.padded_sizes => Ok(State::SizeLf),
            b';' => Ok(State::Extension(Extension::BeforeName)),
            b' ' | b'\t' => {
                self.pay_overhead()?;
                Ok(State::SizeSpace)
            }
            _ if self.state == State::Size => Err(ChunkError::BadSize),
            _ => Err(ChunkError::BadExtension),
        }
    }

    fn add_digit(&mut self, digit: u64) -> Result<(), ChunkError> {
        if self.left > i64::MAX as u64 / 16 {
            return Err(ChunkError::BadSize);
        }
        self.left = self.left * 16 + digit;
        Ok(())
    }

    /// Counts a byte of a size line beyond the first digit, so that a body cannot consist of extensions.
    fn pay_overhead(&mut self) -> Result<(), ChunkError> {
        self.overhead += 1;
        if self.overhead > self.limits.extension_bytes_max {
            return Err(ChunkError::ExtensionTooLong);
        }
        Ok(())
    }

    /// Takes trailer bytes up to the CR.
    fn trailer_run(&mut self, buf: &[u8]) -> Result<usize, ChunkError> {
        let end = memchr::memchr3(b'\r', b'\n', 0, buf);
        self.push_trailer(&buf[..end.unwrap_or(buf.len())])?;
        match end {
            None => Ok(buf.len()),
            Some(at) if buf[at] == b'\r' => {
                self.state = State::TrailerLf;
                Ok(at + 1)
            }
            Some(_) => Err(ChunkError::BadTrailer),
        }
    }

    fn push_trailer(&mut self, bytes: &[u8]) -> Result<(), ChunkError> {
        if self.trailer_bytes.len() + bytes.len() > self.limits.trailer_bytes_max {
            return Err(ChunkError::TrailersTooLong);
        }
        self.trailer_bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn end_trailer(&mut self) -> Result<(), ChunkError> {
        if self.trailers.len() >= self.limits.trailers_max {
            return Err(ChunkError::TrailersTooLong);
        }
        if stray_control(&self.trailer_bytes[self.line_start..]).is_some() {
            return Err(ChunkError::BadTrailer);
        }
        match parse_field(&self.trailer_bytes, self.line_start, self.trailer_bytes.len()) {
            Ok((_, Name::NoColon)) | Err(_) => Err(ChunkError::BadTrailer),
            Ok((field, _)) => {
                debug_assert!(field.name != Span::default());
                self.trailers.push(field);
                Ok(())
            }
        }
    }
}

fn expect(b: u8, wanted: u8) -> Result<(), ChunkError> {
    if b == wanted { Ok(()) } else { Err(ChunkError::BadLineEnd) }
}

/// The value of a hexadecimal digit.
fn hex(b: u8) -> Option<u64> {
    char::from(b).to_digit(16).map(u64::from)
}
