//! FastCGI as the engine's codec.
//!
//! Records are taken apart by `brisk_gateway`; what is decided here is what they mean for an answer: when it is
//! whole, and whether the connection may be used again.

use crate::limits::MESSAGE_BYTES_MAX;
use brisk_gateway::fastcgi::{Demux, EndRequest, Event as Record, ProtocolStatus, stdin_end, stdin_head};
use brisk_http::head::Parsed;
use brisk_http::response::{CgiStart, RequestKind, ResponseFraming, ResponseHead, cgi_framing, parse_cgi};
use brisk_net::{Failure, Retry};
use brisk_server::core::LogLevel;
use brisk_upstream::codec::{Codec, Event, Step};
use brisk_upstream::head::BackendHead;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of the request's body that go into one record.
/// Small enough that an application reads while more is written.
const STDIN_BYTES: usize = 32 * 1024;

/// What is said of an answer that is longer than its head says.
pub const TOO_MUCH: &str = "upstream sent more data than specified in \"Content-Length\" header";

/// What a codec is made of.
pub struct Question {
    /// Everything up to the request's body.
    pub head: Vec<u8>,
    pub keep_conn: bool,
    /// HEAD: the answer's body is not wanted.
    pub is_head: bool,
    /// The answer may be stored: to HEAD too it is read to its end.
    pub cacheable: bool,
    /// Bytes of the answer's head.
    pub head_bytes_max: usize,
    /// `fastcgi_catch_stderr`.
    pub catch: Arc<Vec<Box<[u8]>>>,
}

/// One request and its answer.
pub struct FastCgi {
    question: Question,
    answer: Answer,
}

/// What is known of an answer.
#[derive(Default)]
struct Answer {
    demux: Demux,
    stage: Stage,
    /// Bytes at the beginning of the next input that are the application's output, as the records have told already.
    body_next: usize,
    /// What the body may still have, if the head says.
    left: Option<u64>,
    length: Option<u64>,
    /// An application answers HEAD with a body or without.
    may_lack_body: bool,
    message: Vec<u8>,
}

/// How far the answer is.
enum Stage {
    /// The bytes of the head so far.
    Head {
        bytes: Vec<u8>,
        parser: Box<ResponseHead>,
    },
    Body,
    /// The application has closed the stream, and not yet ended the request.
    StreamEnded,
    /// `fastcgi_catch_stderr` has found something.
    Caught,
    /// There is more body than the head says.
    TooMuch,
    Done {
        persists: bool,
    },
    /// Nothing more is wanted of the process, which is at work still.
    GoesOn,
}

impl Default for Stage {
    fn default() -> Stage {
        Stage::Head { bytes: Vec::new(), parser: Box::default() }
    }
}

impl FastCgi {
    pub fn new(question: Question) -> FastCgi {
        FastCgi { question, answer: Answer::default() }
    }
}

impl Codec for FastCgi {
    fn begin(&mut self, out: &mut Vec<u8>) {
        let mut head = std::mem::take(&mut self.question.head);
        // The buffer itself goes on its way, without a copy.
        if out.is_empty() {
            *out = head;
        } else {
            out.append(&mut head);
        }
    }

    fn body(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        for piece in piece.chunks(STDIN_BYTES) {
            let (head, padding) = stdin_head(piece.len() as u16);
            out.extend_from_slice(&head);
            out.extend_from_slice(piece);
            // To a multiple of eight, as FastCGI's specification recommends (3.3).
            out.resize(out.len() + padding, 0);
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&stdin_end());
    }

    fn read(&mut self, input: &[u8], _: &mut Vec<u8>) -> Result<Step, Failure> {
        let (question, answer) = (&self.question, &mut self.answer);
        // What was found in the last input comes before what is new.
        if let Some(event) = answer.due()? {
            return Ok(Step { used: 0, event });
        }
        // The record's end was found before: the rest of it is body, or the head behind an interim one, without a look at records.
        let mut used = 0;
        if answer.body_next > 0 && !input.is_empty() {
            used = answer.body_next.min(input.len());
            answer.body_next -= used;
            if let Some(step) = answer.stdout(question, input, 0..used)? {
                return Ok(step);
            }
        }
        while used < input.len() {
            let (record, count) =
                answer.demux.next(&input[used..]).map_err(|error| Failure::protocol(error.to_string()))?;
            let start = used;
            used += count;
            let range = |range: Range<usize>| start + range.start..start + range.end;
            match record {
                // A head of a record that is cut in two: the rest comes with the next bytes.
                Record::NeedMore => {}
                Record::Stdout(text) => {
                    if let Some(step) = answer.stdout(question, input, range(text))? {
                        return Ok(step);
                    }
                }
                Record::Stderr { text, complete } => {
                    if let Some(event) = answer.stderr(question, &input[range(text)], complete) {
                        return Ok(Step { used, event });
                    }
                }
                Record::StdoutEnd => answer.stdout_end()?,
                Record::End(end) => {
                    answer.check_end(end)?;
                    return Ok(Step { used, event: answer.end(question, end.goes_on)? });
                }
            }
        }
        Ok(Step { used, event: Event::NeedMore })
    }

    fn eof(&mut self) -> Result<Event, Failure> {
        // An application that is done says so: without that it was killed, and something may be missing.
        Ok(match self.answer.stage {
            Stage::StreamEnded | Stage::Done { .. } | Stage::GoesOn => {
                self.answer.stage = Stage::Done { persists: false };
                Event::End
            }
            // The body is whole; that the application has not said goodbye costs its connection alone.
            _ if self.answer.left == Some(0) => Event::End,
            _ => Event::NeedMore,
        })
    }

    fn persists(&self) -> bool {
        matches!(self.answer.stage, Stage::Done { persists: true })
    }

    fn goes_on(&self) -> bool {
        matches!(self.answer.stage, Stage::GoesOn)
    }

    fn length(&self) -> Option<u64> {
        self.answer.length
    }
}

impl Answer {
    /// What must be told before more is read.
    fn due(&mut self) -> Result<Option<Event>, Failure> {
        Ok(match self.stage {
            Stage::Caught => return Err(Failure::silent()),
            Stage::TooMuch => {
                self.stage = Stage::GoesOn;
                Some(Event::Log(LogLevel::Warn, TOO_MUCH.into()))
            }
            Stage::Done { .. } | Stage::GoesOn => Some(Event::End),
            Stage::Head { .. } | Stage::Body | Stage::StreamEnded => None,
        })
    }

    fn stdout(
        &mut self,
        question: &Question,
        input: &[u8],
        range: Range<usize>,
    ) -> Result<Option<Step>, Failure> {
        // A copy of the head's bytes: records cut it anywhere.
        let Stage::Head { bytes, parser } = &mut self.stage else {
            let used = range.end;
            return Ok(Some(self.body(range, used)));
        };
        let before = bytes.len();
        bytes.extend_from_slice(&input[range.clone()]);
        let parsed = parse_cgi(bytes, parser, CgiStart::Fields)
            .map_err(|error| Failure::protocol(error.to_string()))?;
        if parsed == Parsed::Partial {
            // Counted over all records: an application may send its head in many.
            if bytes.len() > question.head_bytes_max {
                return Err(Failure::protocol("upstream sent too big header"));
            }
            return Ok(None);
        }
        let used = range.start + parser.len - before;
        self.body_next += range.end - used;
        // Early hints (RFC 8297): the final head follows.
        if parser.status == 103 {
            let head = BackendHead::from_response(bytes, std::mem::take(parser));
            bytes.clear();
            return Ok(Some(Step { used, event: Event::Interim(head) }));
        }
        let kind = if question.is_head { RequestKind::Head } else { RequestKind::Other };
        // The length that the head gives is checked for HEAD too, if there is a body.
        let framing = cgi_framing(bytes, parser, RequestKind::Other)
            .map_err(|error| Failure::protocol(error.to_string()))?;
        let head = BackendHead::from_response(bytes, std::mem::take(parser));
        self.length = match framing {
            ResponseFraming::Length(length) => Some(length),
            _ => None,
        };
        self.left = if framing == ResponseFraming::None { Some(0) } else { self.length };
        self.may_lack_body = kind == RequestKind::Head;
        // The body is not needed: the end of the connection tells the application.
        self.stage =
            if kind == RequestKind::Head && !question.cacheable { Stage::GoesOn } else { Stage::Body };
        Ok(Some(Step { used, event: Event::Head(head) }))
    }

    /// A part of the body.
    fn body(&mut self, range: Range<usize>, used: usize) -> Step {
        self.may_lack_body = false;
        let Some(left) = &mut self.left else { return Step { used, event: Event::Data(range) } };
        let fits = usize::try_from(*left).unwrap_or(usize::MAX).min(range.len());
        *left -= fits as u64;
        // More than was announced is not passed on: the client would take it for the next answer.
        if fits == 0 {
            self.stage = Stage::GoesOn;
            return Step { used, event: Event::Log(LogLevel::Warn, TOO_MUCH.into()) };
        }
        if fits < range.len() {
            self.stage = Stage::TooMuch;
        }
        Step { used, event: Event::Data(range.start..range.start + fits) }
    }

    /// A part of a message; what is complete goes to the log.
    fn stderr(&mut self, question: &Question, text: &[u8], complete: bool) -> Option<Event> {
        self.message.extend_from_slice(text);
        // One that does not end is told in parts: what is kept of it is bounded.
        if !complete && self.message.len() < MESSAGE_BYTES_MAX {
            return None;
        }
        let message = std::mem::take(&mut self.message);
        let is_found = |pattern: &[u8]| memchr::memmem::find(&message, pattern).is_some();
        // Only before the head: afterwards the answer is on its way.
        if matches!(self.stage, Stage::Head { .. }) && question.catch.iter().any(|pattern| is_found(pattern))
        {
            self.stage = Stage::Caught;
        }
        // Line ends and full stops at its end are cut as nginx cuts them.
        let end = message.iter().rposition(|b| !b"\n\r. ".contains(b)).map_or(0, |at| at + 1);
        let mut line = b"FastCGI sent in stderr: \"".to_vec();
        line.extend_from_slice(&message[..end]);
        line.push(b'"');
        Some(Event::Log(LogLevel::Error, line))
    }

    fn stdout_end(&mut self) -> Result<(), Failure> {
        let is_head = matches!(self.stage, Stage::Head { .. });
        if is_head || self.is_short() {
            return Err(Failure::protocol("upstream prematurely closed FastCGI stdout"));
        }
        // The end of the request follows: an application is not cut off while it says so.
        self.stage = Stage::StreamEnded;
        self.check_body()
    }

    /// An application that says so has not looked at the request (FastCGI 1.0, 5.5).
    fn check_end(&self, end: EndRequest) -> Result<(), Failure> {
        let refuses =
            matches!(end.protocol_status, ProtocolStatus::Overloaded | ProtocolStatus::CannotMultiplex);
        match &self.stage {
            // Only if nothing has come: an application that has begun has looked at the request.
            Stage::Head { bytes, .. } if refuses && bytes.is_empty() => {
                Err(Failure::protocol("upstream refused the FastCGI request").retry_is(Retry::Safe))
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self, question: &Question, goes_on: bool) -> Result<Event, Failure> {
        if matches!(self.stage, Stage::Head { .. }) {
            return Err(Failure::protocol("upstream sent unexpected FastCGI record: 3"));
        }
        if self.is_short() {
            return Err(Failure::protocol("upstream prematurely closed FastCGI request"));
        }
        self.stage = if goes_on { Stage::GoesOn } else { Stage::Done { persists: question.keep_conn } };
        self.check_body().map(|()| Event::End)
    }

    /// True if the head promised more.
    fn is_short(&self) -> bool {
        self.left.is_some_and(|left| left > 0) && !self.may_lack_body
    }

    /// An answer to HEAD without its body is fine for the client, and nothing to be stored.
    fn check_body(&self) -> Result<(), Failure> {
        let lacks = self.may_lack_body && self.left.is_some_and(|left| left > 0);
        if lacks { Err(Failure::silent()) } else { Ok(()) }
    }
}
