//! Follows a server's answer to a command, to know when it is complete and what it came to. Bytes pass by; only the beginning of each
//! message is looked at.

use crate::capability::Capabilities;
use crate::command::Kind;
use crate::error::ProtocolError;
use crate::limits::{ANSWER_PREFIX_BYTES_MAX, FRAME_BYTES_MAX};
use crate::packet::Frames;
use crate::reply::{self, ErrPacket, OkPacket, Tracked, parse_eof, status};
use crate::wire::Reader;

/// What the next message of an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// OK, ERR, the number of columns, or a request for a file.
    Result,
    /// The client sends a file; then the result goes on.
    File,
    Columns {
        left: u64,
    },
    /// EOF behind the columns.
    ColumnsEnd,
    /// Rows, to EOF or OK.
    Rows,
    /// OK, ERR or EOF.
    Short,
    /// One line.
    Line,
    /// The answer to COM_STMT_PREPARE.
    Prepared,
    /// Descriptions of parameters, and of columns behind them.
    Described {
        left: u16,
        then: u16,
    },
    /// EOF behind descriptions.
    DescribedEnd {
        then: u16,
    },
    Over,
}

/// A prepared statement as the server knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Its number on this connection.
    pub id: u32,
    /// How many parameters it has.
    pub parameters: u16,
}

/// What an answer came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The last status that it told.
    pub status: Option<u16>,
    /// The number of the error that it ended with.
    pub error: Option<u16>,
    /// What was written, of each result that told of something.
    pub written: Vec<Tracked>,
    /// Each result ended with an OK packet that would have told what was written.
    pub is_tracked: bool,
    /// Of COM_STMT_PREPARE.
    pub prepared: Option<Prepared>,
    /// A result told of a number of an AUTO_INCREMENT column.
    pub has_insert_id: bool,
}

/// What the owner does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Gives more of what comes.
    More,
    /// Passes a file on from the client, up to an empty message, and calls [`Follower::file_passed`].
    File,
    /// The answer is complete.
    Done,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub struct Follower {
    frames: Frames,
    capabilities: Capabilities,
    phase: Phase,
    /// The beginning of the message that is coming.
    prefix: Vec<u8>,
    length: u64,
    outcome: Outcome,
}

impl Follower {
    /// For the answer to a command whose last frame was followed by this number.
    pub fn new(kind: Kind, capabilities: Capabilities, sequence: u8) -> Follower {
        let phase = match kind {
            Kind::Query | Kind::Execute => Phase::Result,
            Kind::FieldList | Kind::Fetch => Phase::Rows,
            Kind::Statistics => Phase::Line,
            Kind::Prepare => Phase::Prepared,
            Kind::Quit | Kind::SendLongData | Kind::CloseStatement => Phase::Over,
            _ => Phase::Short,
        };
        let is_tracked = capabilities.has(Capabilities::SESSION_TRACK);
        let outcome = Outcome { is_tracked, ..Outcome::default() };
        Follower {
            frames: Frames::new(sequence),
            capabilities,
            phase,
            prefix: Vec::new(),
            length: 0,
            outcome,
        }
    }

    /// What the answer has come to so far.
    pub fn so_far(&self) -> &Outcome {
        &self.outcome
    }

    /// Takes bytes of the answer from `input`, and nothing behind it.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Next, ProtocolError> {
        loop {
            match self.phase {
                Phase::Over => return Ok(Next::Done),
                Phase::File => return Ok(Next::File),
                _ => {}
            }
            let Some(chunk) = self.frames.next(input)? else { return Ok(Next::More) };
            let room = ANSWER_PREFIX_BYTES_MAX - self.prefix.len();
            self.prefix.extend_from_slice(&chunk.bytes[..chunk.bytes.len().min(room)]);
            self.length += chunk.bytes.len() as u64;
            if chunk.is_last {
                let message = std::mem::take(&mut self.prefix);
                let length = std::mem::take(&mut self.length);
                self.phase = self.message(&message, length)?;
                // The room is used again.
                self.prefix = message;
                self.prefix.clear();
            }
        }
    }

    /// The number of the next frame, of either side.
    pub fn sequence(&self) -> u8 {
        self.frames.sequence()
    }

    /// The client has sent its file; the next frame has this number.
    pub fn file_passed(&mut self, sequence: u8) {
        self.frames.set_sequence(sequence);
        self.phase = Phase::Result;
    }

    /// Whether anything of the answer has come.
    pub fn outcome(self) -> Outcome {
        self.outcome
    }

    fn ends_with_ok(&self) -> bool {
        self.capabilities.has(Capabilities::DEPRECATE_EOF)
    }

    fn message(&mut self, message: &[u8], length: u64) -> Result<Phase, ProtocolError> {
        if message.first() == Some(&reply::ERR) && self.phase != Phase::Line {
            self.outcome.error = Some(ErrPacket::parse(message)?.code);
            self.outcome.is_tracked = false;
            return Ok(Phase::Over);
        }
        match self.phase {
            Phase::Result => self.result(message, length),
            Phase::Columns { left: 1 } if self.ends_with_ok() => Ok(Phase::Rows),
            Phase::Columns { left: 1 } => Ok(Phase::ColumnsEnd),
            Phase::Columns { left } => Ok(Phase::Columns { left: left - 1 }),
            Phase::ColumnsEnd => {
                let (_, status) = parse_eof(message)?;
                self.outcome.status = Some(status);
                self.outcome.is_tracked = false;
                let has_cursor = status & status::CURSOR_EXISTS != 0;
                Ok(if has_cursor { self.after(status) } else { Phase::Rows })
            }
            Phase::Rows if is_end(message, length, self.ends_with_ok()) => self.ended(message, length),
            Phase::Rows => Ok(Phase::Rows),
            Phase::Short => match message.first() {
                Some(&(reply::OK | reply::EOF)) => self.ended(message, length),
                _ => Err(ProtocolError::Unexpected("a message")),
            },
            Phase::Line => Ok(Phase::Over),
            Phase::Prepared => self.prepared(message),
            Phase::Described { left: 1, then } if self.ends_with_ok() => Ok(described(then, 0)),
            Phase::Described { left: 1, then } => Ok(Phase::DescribedEnd { then }),
            Phase::Described { left, then } => Ok(Phase::Described { left: left - 1, then }),
            Phase::DescribedEnd { then } => {
                self.outcome.status = Some(parse_eof(message)?.1);
                Ok(described(then, 0))
            }
            Phase::File | Phase::Over => Err(ProtocolError::Unexpected("a message")),
        }
    }

    /// A result's first message.
    fn result(&mut self, message: &[u8], length: u64) -> Result<Phase, ProtocolError> {
        match message.first() {
            Some(&reply::OK) => self.ended(message, length),
            Some(0xfb) => Ok(Phase::File),
            _ => {
                let mut from = Reader::new(message);
                let count = from.number().filter(|&count| count > 0 && from.is_empty() && length < 10);
                Ok(Phase::Columns { left: count.ok_or(ProtocolError::Malformed("number of columns"))? })
            }
        }
    }

    /// The last message of a result: OK, or EOF.
    fn ended(&mut self, message: &[u8], length: u64) -> Result<Phase, ProtocolError> {
        // One of five bytes has no room for an OK packet, whatever was agreed on (COM_FIELD_LIST).
        let is_eof = length == 5 || length < 9 && !self.ends_with_ok();
        if message.first() == Some(&reply::EOF) && is_eof {
            let (_, status) = parse_eof(message)?;
            self.outcome.status = Some(status);
            self.outcome.is_tracked = false;
            return Ok(self.after(status));
        }
        if length > ANSWER_PREFIX_BYTES_MAX as u64 {
            // Its beginning says what matters for the answer; what it tracks is not known.
            let ok = OkPacket::parse(message, self.capabilities.without(Capabilities::SESSION_TRACK))?;
            self.outcome.written.push(Tracked::Unknown);
            self.outcome.status = Some(ok.status);
            self.outcome.has_insert_id |= ok.insert_id > 0;
            return Ok(self.after(ok.status));
        }
        let ok = OkPacket::parse(message, self.capabilities)?;
        self.outcome.status = Some(ok.status);
        self.outcome.has_insert_id |= ok.insert_id > 0;
        if ok.written != Tracked::Nothing {
            self.outcome.written.push(ok.written);
        }
        Ok(self.after(ok.status))
    }

    fn after(&self, status: u16) -> Phase {
        if status & status::MORE_RESULTS != 0 { Phase::Result } else { Phase::Over }
    }

    fn prepared(&mut self, message: &[u8]) -> Result<Phase, ProtocolError> {
        let fields = || {
            let mut from = Reader::new(message);
            (from.u8()? == reply::OK).then_some(())?;
            let (id, columns, parameters) = (from.u32()?, from.u16()?, from.u16()?);
            Some((Prepared { id, parameters }, columns))
        };
        let (prepared, columns) = fields().ok_or(ProtocolError::Malformed("prepared statement"))?;
        self.outcome.prepared = Some(prepared);
        Ok(described(prepared.parameters, columns))
    }
}

/// So many descriptions, and then so many more.
fn described(left: u16, then: u16) -> Phase {
    match (left, then) {
        (0, 0) => Phase::Over,
        (0, left) => Phase::Described { left, then: 0 },
        (left, then) => Phase::Described { left, then },
    }
}

/// Whether a message in place of a row ends the rows. A row whose first value is longer than a frame begins with the same byte.
fn is_end(message: &[u8], length: u64, ends_with_ok: bool) -> bool {
    message.first() == Some(&reply::EOF) && length < if ends_with_ok { FRAME_BYTES_MAX as u64 } else { 9 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::put_message;

    const OLD: Capabilities = Capabilities::OWN;
    const NEW: Capabilities = Capabilities::FOLLOWED;
    const OK: &[u8] = b"\0\0\0\x02\0\0\0";
    const OK_MORE: &[u8] = b"\0\0\0\x0a\0\0\0";
    const EOF: &[u8] = b"\xfe\0\0\x02\0";
    const OK_END: &[u8] = b"\xfe\0\0\x03\0\0\0";
    const COLUMN: &[u8] = b"\x03def column";
    const ERR: &[u8] = b"\xff\x15\x04#42000no";

    fn check(kind: Kind, capabilities: Capabilities, messages: &[&[u8]]) -> Outcome {
        let (mut bytes, mut sequence) = (Vec::new(), 1);
        messages.iter().for_each(|message| put_message(&mut bytes, &mut sequence, message));
        let follow = |size: usize| {
            let mut follower = Follower::new(kind, capabilities, 1);
            for (at, piece) in bytes.chunks(size).enumerate() {
                let is_last = (at + 1) * size >= bytes.len();
                let mut rest = piece;
                let next = follower.next(&mut rest).unwrap();
                assert_eq!(
                    (next, rest.len()),
                    (if is_last { Next::Done } else { Next::More }, 0),
                    "{messages:?}"
                );
            }
            follower.outcome()
        };
        let outcome = follow(bytes.len());
        assert_eq!(outcome, follow(1));
        // What follows is left alone.
        let more = [&bytes[..], b"abc"].concat();
        let mut rest = &more[..];
        assert_eq!(Follower::new(kind, capabilities, 1).next(&mut rest), Ok(Next::Done));
        assert_eq!(rest, b"abc");
        outcome
    }

    #[test]
    fn answers_are_followed_to_their_end() {
        let status = |outcome: Outcome| (outcome.status, outcome.error, outcome.is_tracked);
        assert_eq!(status(check(Kind::Query, NEW, &[OK])), (Some(2), None, true));
        assert_eq!(status(check(Kind::Query, OLD, &[OK])), (Some(2), None, false));
        assert_eq!(status(check(Kind::Query, NEW, &[ERR])), (None, Some(1045), false));
        let rows = check(Kind::Query, OLD, &[b"\x02", COLUMN, COLUMN, EOF, b"\x011", b"\xfb", EOF]);
        assert_eq!(status(rows), (Some(2), None, false));
        assert_eq!(
            status(check(Kind::Query, NEW, &[b"\x01", COLUMN, b"\x011", OK_END])),
            (Some(3), None, true)
        );
        assert_eq!(status(check(Kind::Query, NEW, &[b"\x01", COLUMN, OK_END])), (Some(3), None, true));
        assert_eq!(
            status(check(Kind::Query, OLD, &[b"\x01", COLUMN, EOF, ERR])),
            (Some(2), Some(1045), false)
        );
        check(Kind::Query, NEW, &[OK_MORE, b"\x01", COLUMN, b"\xfe\0\0\x0b\0\0\0", OK]);
        check(Kind::Query, OLD, &[OK_MORE, OK_MORE, ERR]);
        check(Kind::Execute, OLD, &[b"\x01", COLUMN, b"\xfe\0\0\x42\0"]);
        check(Kind::Fetch, OLD, &[b"\0\0row", EOF]);
        check(Kind::FieldList, NEW, &[COLUMN, EOF]);
        check(Kind::Statistics, NEW, &[b"Uptime: 1"]);
        check(Kind::SetOption, OLD, &[EOF]);
        check(Kind::Ping, NEW, &[OK]);
    }

    #[test]
    fn preparations_are_followed() {
        let first = b"\0\x07\0\0\0\x01\0\x02\0\0\0\0";
        let old = check(Kind::Prepare, OLD, &[first, COLUMN, COLUMN, EOF, COLUMN, EOF]);
        assert_eq!(old.prepared, Some(Prepared { id: 7, parameters: 2 }));
        check(Kind::Prepare, NEW, &[first, COLUMN, COLUMN, COLUMN]);
        check(Kind::Prepare, OLD, &[b"\0\x07\0\0\0\x01\0\0\0\0\0\0", COLUMN, EOF]);
        check(Kind::Prepare, OLD, &[b"\0\x07\0\0\0\0\0\0\0\0\0\0"]);
        assert_eq!(check(Kind::Prepare, OLD, &[ERR]).prepared, None);
    }

    #[test]
    fn a_file_comes_in_between() {
        let mut bytes = Vec::new();
        put_message(&mut bytes, &mut 1, b"\xfbfile");
        let mut follower = Follower::new(Kind::Query, NEW, 1);
        assert_eq!(follower.next(&mut &bytes[..]), Ok(Next::File));
        assert_eq!(follower.sequence(), 2);
        follower.file_passed(4);
        bytes.clear();
        put_message(&mut bytes, &mut 4, OK);
        assert_eq!(follower.next(&mut &bytes[..]), Ok(Next::Done));
    }

    #[test]
    fn lies_are_refused() {
        let refuse = |kind: Kind, capabilities, messages: &[&[u8]]| {
            let (mut bytes, mut sequence) = (Vec::new(), 1);
            messages.iter().for_each(|message| put_message(&mut bytes, &mut sequence, message));
            let result = Follower::new(kind, capabilities, 1).next(&mut &bytes[..]);
            assert!(result.is_err(), "{messages:?} {result:?}");
        };
        refuse(Kind::Query, NEW, &[b""]);
        refuse(Kind::Query, NEW, &[b"\0"]);
        refuse(Kind::Query, NEW, &[b"\x01\x01"]);
        refuse(Kind::Query, NEW, &[b"\xfe"]);
        refuse(Kind::Query, OLD, &[b"\x01", COLUMN, COLUMN]);
        refuse(Kind::Prepare, OLD, &[b"\0\x07\0"]);
        refuse(Kind::Ping, OLD, &[b"\x01"]);
        let mut follower = Follower::new(Kind::Query, NEW, 1);
        assert!(follower.next(&mut &b"\x07\0\0\0"[..]).is_err());
    }
}
