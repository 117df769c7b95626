//! The eight bytes before each record's content.

use super::request::REQUEST_ID;
use std::fmt;
use std::ops::Range;

/// Bytes of a record's head.
pub const HEAD_BYTES: usize = 8;

/// Records end at multiples of this, as the specification recommends.
const ALIGN: usize = 8;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A request begins.
    BeginRequest = 1,
    /// The web server gives a request up.
    AbortRequest = 2,
    /// A request ends.
    EndRequest = 3,
    /// Part of the parameters; an empty one ends them.
    Params = 4,
    /// Part of the request's body; an empty one ends it.
    Stdin = 5,
    /// Part of the response; an empty one ends it.
    Stdout = 6,
    /// Part of what goes into the log.
    Stderr = 7,
    /// Part of a second body, for the role of a filter.
    Data = 8,
    /// A question about the application's limits.
    GetValues = 9,
    /// The answer to it.
    GetValuesResult = 10,
    /// The answer to a record of an unknown kind.
    UnknownType = 11,
}

impl Kind {
    fn from_number(number: u8) -> Option<Kind> {
        const KINDS: [Kind; 11] = [
            Kind::BeginRequest,
            Kind::AbortRequest,
            Kind::EndRequest,
            Kind::Params,
            Kind::Stdin,
            Kind::Stdout,
            Kind::Stderr,
            Kind::Data,
            Kind::GetValues,
            Kind::GetValuesResult,
            Kind::UnknownType,
        ];
        KINDS.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// A record's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHead {
    /// Its kind.
    pub kind: Kind,
    /// 0: the record is about the connection; [`REQUEST_ID`]: about the request.
    pub id: u16,
    /// Bytes that follow.
    pub content: u16,
    /// Bytes behind them that mean nothing.
    pub padding: u8,
}

/// How a peer broke the protocol. `Display` is what nginx logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// The first byte is not 1.
    Version(u8),
    /// A number of no kind, or of one that this side never gets.
    Kind(u8),
    /// The upper half of the id of another request.
    IdHigh(u8),
    /// Its lower half.
    IdLow(u8),
    /// A record that does not belong where it stands.
    Unexpected(Kind),
    /// A record whose content cannot have this size.
    Size(Kind),
    /// More parameters than the limit.
    TooLong,
    /// A pair that is longer than what holds it.
    Pairs,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Version(number) => {
                write!(f, "upstream sent unsupported FastCGI protocol version: {number}")
            }
            RecordError::Kind(number) => write!(f, "upstream sent invalid FastCGI record type: {number}"),
            RecordError::IdHigh(number) => {
                write!(f, "upstream sent unexpected FastCGI request id high byte: {number}")
            }
            RecordError::IdLow(number) => {
                write!(f, "upstream sent unexpected FastCGI request id low byte: {number}")
            }
            RecordError::Unexpected(kind) => {
                write!(f, "upstream sent unexpected FastCGI record: {}", *kind as u8)
            }
            RecordError::Size(kind) => {
                write!(f, "upstream sent FastCGI record of invalid size: {}", *kind as u8)
            }
            RecordError::TooLong => f.write_str("too long FastCGI parameters"),
            RecordError::Pairs => f.write_str("invalid FastCGI name-value pairs"),
        }
    }
}

impl std::error::Error for RecordError {}

impl RecordHead {
    /// The head of a record of the request with `content` bytes, padded as it should be.
    pub fn new(kind: Kind, content: u16) -> RecordHead {
        let padding = usize::from(content).next_multiple_of(ALIGN) - usize::from(content);
        RecordHead { kind, id: REQUEST_ID, content, padding: padding as u8 }
    }

    /// Bytes of the record behind its head.
    pub fn rest(self) -> usize {
        usize::from(self.content) + usize::from(self.padding)
    }

    /// As it is sent.
    pub fn bytes(self) -> [u8; HEAD_BYTES] {
        let [id_high, id_low] = self.id.to_be_bytes();
        let [content_high, content_low] = self.content.to_be_bytes();
        [1, self.kind as u8, id_high, id_low, content_high, content_low, self.padding, 0]
    }

    /// Reads a head; `takes` says which kinds this side gets. Each byte is judged by itself, in order, so that nonsense
    /// is seen in its first byte: see [`RecordHead::check`].
    pub fn parse(bytes: [u8; HEAD_BYTES], takes: fn(Kind) -> bool) -> Result<RecordHead, RecordError> {
        RecordHead::check(&bytes, takes)?;
        let kind = Kind::from_number(bytes[1]).ok_or(RecordError::Kind(bytes[1]))?;
        Ok(RecordHead {
            kind,
            id: u16::from_be_bytes([bytes[2], bytes[3]]),
            content: u16::from_be_bytes([bytes[4], bytes[5]]),
            padding: bytes[6],
        })
    }

    /// Whether a head may begin with `bytes`.
    pub fn check(bytes: &[u8], takes: fn(Kind) -> bool) -> Result<(), RecordError> {
        let mut about_request = true;
        for (at, &byte) in bytes.iter().enumerate() {
            match at {
                0 if byte != 1 => return Err(RecordError::Version(byte)),
                1 => {
                    let kind = Kind::from_number(byte).filter(|kind| takes(*kind));
                    let kind = kind.ok_or(RecordError::Kind(byte))?;
                    about_request =
                        !matches!(kind, Kind::GetValues | Kind::GetValuesResult | Kind::UnknownType);
                }
                2 if byte != 0 => return Err(RecordError::IdHigh(byte)),
                3 if byte != u8::from(about_request) => return Err(RecordError::IdLow(byte)),
                _ => {}
            }
        }
        Ok(())
    }
}

/// What bytes are in the sequence of records. Ranges are of the bytes given to [`Records::next`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All bytes are done with.
    NeedMore,
    /// A record begins.
    Head(RecordHead),
    /// A part of its content, not empty; `complete` if nothing of it follows.
    Content {
        /// The record's head.
        head: RecordHead,
        /// Where it is in the bytes.
        range: Range<usize>,
        /// The record's content ends with it.
        complete: bool,
    },
    /// It is over, padding and all.
    End(RecordHead),
}

/// Where in a record the bytes stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head(Eight),
    Content { head: RecordHead, left: usize },
    Padding { head: RecordHead, left: usize },
}

/// A push parser that tells heads, contents and padding apart, whatever they mean.
#[derive(Clone, Debug)]
pub struct Records {
    state: State,
    takes: fn(Kind) -> bool,
}

impl Records {
    /// `takes` says which kinds this side gets.
    pub fn new(takes: fn(Kind) -> bool) -> Records {
        Records { state: State::Head(Eight::default()), takes }
    }

    /// Reads on from `at`, and moves it behind what is done with. After an error nothing more may be given.
    pub fn next(&mut self, buf: &[u8], at: &mut usize) -> Result<Part, RecordError> {
        match &mut self.state {
            State::Head(held) => {
                *at += held.take(&buf[*at..]);
                RecordHead::check(held.get(), self.takes)?;
                let Some(bytes) = held.whole() else { return Ok(Part::NeedMore) };
                let head = RecordHead::parse(bytes, self.takes)?;
                self.state = State::Content { head, left: usize::from(head.content) };
                Ok(Part::Head(head))
            }
            State::Content { head, left } if *left > 0 => {
                let range = *at..buf.len().min(*at + *left);
                if range.is_empty() {
                    return Ok(Part::NeedMore);
                }
                *at = range.end;
                *left -= range.len();
                Ok(Part::Content { head: *head, range, complete: *left == 0 })
            }
            State::Content { head, .. } => {
                self.state = State::Padding { head: *head, left: usize::from(head.padding) };
                self.next(buf, at)
            }
            State::Padding { head, left } => {
                let count = (*left).min(buf.len() - *at);
                *at += count;
                *left -= count;
                if *left > 0 {
                    return Ok(Part::NeedMore);
                }
                let head = *head;
                self.state = State::Head(Eight::default());
                Ok(Part::End(head))
            }
        }
    }
}

/// Eight bytes that may come one by one: a head, and the content of some kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Eight {
    bytes: [u8; HEAD_BYTES],
    len: usize,
}

impl Eight {
    /// Keeps bytes until there are eight; gives how many it has taken.
    pub fn take(&mut self, buf: &[u8]) -> usize {
        let len = buf.len().min(HEAD_BYTES - self.len);
        self.bytes[self.len..self.len + len].copy_from_slice(&buf[..len]);
        self.len += len;
        len
    }

    /// Those that have come.
    pub fn get(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The bytes, if all of them have come.
    pub fn whole(self) -> Option<[u8; HEAD_BYTES]> {
        (self.len == HEAD_BYTES).then_some(self.bytes)
    }

    /// With zeros for those that have not come.
    pub fn padded(self) -> [u8; HEAD_BYTES] {
        self.bytes
    }
}
