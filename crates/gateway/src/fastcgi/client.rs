//! The web server's side: a request is written, the answer's streams are told apart.

use super::pairs::{pair_len, write_pair};
use super::record::{Eight, HEAD_BYTES, Kind, Part, RecordError, RecordHead, Records};
use super::request::{EndRequest, KEEP_CONN, ProtocolStatus, RESPONDER};
use crate::limits::RECORD_BYTES_MAX;
use crate::{Params, total};
use std::ops::Range;

/// Writes a request up to its body: `BEGIN_REQUEST` and all parameters.
///
/// Parameters go into several records if one cannot hold them. No pair is cut in two: PHP reads each record by itself.
pub struct RequestWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Where the open record begins.
    record: usize,
    too_long: Option<usize>,
}

impl<'a> RequestWriter<'a> {
    /// Begins a request at the end of `out`.
    pub fn new(keep_conn: bool, out: &'a mut Vec<u8>) -> RequestWriter<'a> {
        let [role_high, role_low] = RESPONDER.to_be_bytes();
        let flags = if keep_conn { KEEP_CONN } else { 0 };
        out.extend_from_slice(&RecordHead::new(Kind::BeginRequest, 8).bytes());
        out.extend_from_slice(&[role_high, role_low, flags, 0, 0, 0, 0, 0]);
        let mut writer = RequestWriter { out, record: 0, too_long: None };
        writer.open();
        writer
    }

    /// Adds pairs that [`write_pair`] made before.
    pub fn encoded(&mut self, pairs: &[u8]) {
        self.make_room(pairs.len());
        self.out.extend_from_slice(pairs);
    }

    /// Ends the parameters; the body follows. The error is the size of a parameter that no record can hold.
    pub fn finish(mut self) -> Result<(), usize> {
        self.close();
        self.out.extend_from_slice(&RecordHead::new(Kind::Params, 0).bytes());
        self.too_long.map_or(Ok(()), Err)
    }

    fn open(&mut self) {
        self.record = self.out.len();
        self.out.extend_from_slice(&[0; HEAD_BYTES]);
    }

    /// Ends the open record; one without parameters would end them all, so it is taken back.
    fn close(&mut self) {
        let content = self.out.len() - self.record - HEAD_BYTES;
        if content == 0 {
            self.out.truncate(self.record);
            return;
        }
        let head = RecordHead::new(Kind::Params, content as u16);
        self.out[self.record..self.record + HEAD_BYTES].copy_from_slice(&head.bytes());
        self.out.resize(self.record + HEAD_BYTES + head.rest(), 0);
    }

    fn make_room(&mut self, len: usize) {
        if len > RECORD_BYTES_MAX {
            self.too_long = Some(len);
        }
        if self.out.len() - self.record - HEAD_BYTES + len > RECORD_BYTES_MAX {
            self.close();
            self.open();
        }
    }
}

impl Params for RequestWriter<'_> {
    fn pair(&mut self, name: &[u8], pieces: &[&[u8]]) {
        let len = pair_len(name.len(), total(pieces));
        self.make_room(len);
        // What is too long is not sent at all.
        if len <= RECORD_BYTES_MAX {
            write_pair(name, pieces, self.out);
        }
    }
}

/// The head of the next piece of the body, which is not empty and has at most 65,535 bytes, and how many zero bytes
/// must follow it.
pub fn stdin_head(len: u16) -> ([u8; HEAD_BYTES], usize) {
    debug_assert!(len > 0, "an empty piece is the end");
    let head = RecordHead::new(Kind::Stdin, len);
    (head.bytes(), usize::from(head.padding))
}

/// The end of the body.
pub fn stdin_end() -> [u8; HEAD_BYTES] {
    RecordHead::new(Kind::Stdin, 0).bytes()
}

/// What the application sent. Ranges are of the bytes given to [`Demux::next`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// All bytes are done with.
    NeedMore,
    /// A part of the answer.
    Stdout(Range<usize>),
    /// The answer is complete.
    StdoutEnd,
    /// A part of what it has to say to the log; `complete` if the record ends with it.
    Stderr {
        /// Where it is in the bytes.
        text: Range<usize>,
        /// The record's content ends with it.
        complete: bool,
    },
    /// The request is done, and nothing more belongs to it.
    End(EndRequest),
}

/// A push parser for the answer to one request.
#[derive(Clone, Debug)]
pub struct Demux {
    records: Records,
    /// The content of an `END_REQUEST`.
    end: Eight,
    is_done: bool,
}

impl Default for Demux {
    fn default() -> Demux {
        Demux { records: Records::new(is_answer), end: Eight::default(), is_done: false }
    }
}

/// What applications send.
fn is_answer(kind: Kind) -> bool {
    matches!(kind, Kind::Stdout | Kind::Stderr | Kind::EndRequest)
}

impl Demux {
    /// Whether the request is done. What came behind it in the same bytes is not the request's.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Reads on. Gives an event and how many bytes of `buf` are done with; the next call gets the bytes behind them.
    /// After an error nothing more may be given.
    pub fn next(&mut self, buf: &[u8]) -> Result<(Event, usize), RecordError> {
        let mut at = 0;
        while !self.is_done {
            match self.records.next(buf, &mut at)? {
                Part::NeedMore => break,
                Part::Head(head) if head.kind == Kind::Stdout && head.content == 0 => {
                    return Ok((Event::StdoutEnd, at));
                }
                Part::Content { head, range, complete } => match head.kind {
                    Kind::EndRequest => {
                        self.end.take(&buf[range]);
                    }
                    Kind::Stdout => return Ok((Event::Stdout(range), at)),
                    _ => return Ok((Event::Stderr { text: range, complete }, at)),
                },
                Part::End(head) if head.kind == Kind::EndRequest => {
                    self.is_done = true;
                    return Ok((Event::End(self.end()), at));
                }
                Part::Head(_) | Part::End(_) => {}
            }
        }
        Ok((Event::NeedMore, at))
    }

    /// Eight bytes are specified. What is shorter ends the request all the same, as in nginx.
    fn end(&self) -> EndRequest {
        let [a, b, c, d, status, goes_on, ..] = self.end.padded();
        EndRequest {
            app_status: u32::from_be_bytes([a, b, c, d]),
            protocol_status: ProtocolStatus::from_number(status),
            goes_on: goes_on == 1,
        }
    }
}
