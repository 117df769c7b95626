//! SCGI and uwsgi as the engine's codec: a head, a body, and an answer as CGI has it that ends with the connection.
//!
//! Without framing of its own an answer ends with its length or the connection, whose end is the only sign that
//! it is whole. Connections serve one request each.

use super::records::TOO_MUCH;
use brisk_http::head::Parsed;
use brisk_http::response::{CgiStart, RequestKind, ResponseFraming, ResponseHead, cgi_framing, parse_cgi};
use brisk_net::Failure;
use brisk_server::core::LogLevel;
use brisk_upstream::codec::{Codec, Event, Step};
use brisk_upstream::head::BackendHead;

/// What a codec is made of.
pub struct Question {
    /// Everything up to the request's body.
    pub head: Vec<u8>,
    /// HEAD: the answer's body is not wanted.
    pub is_head: bool,
    /// The answer may be stored: to HEAD too it is read to its end.
    pub cacheable: bool,
    /// The client would change the protocol.
    pub upgrade: bool,
}

/// One request and its answer.
pub struct Plain {
    question: Question,
    stage: Stage,
    length: Option<u64>,
}

/// How far the answer is.
enum Stage {
    Head(Box<ResponseHead>),
    /// Bytes to come; `None`: until the connection ends. `any`: whether some have come.
    Body {
        left: Option<u64>,
        any: bool,
    },
    TooMuch,
    Tunnel,
    Done,
}

impl Default for Stage {
    fn default() -> Stage {
        Stage::Head(Box::default())
    }
}

impl Plain {
    pub fn new(question: Question) -> Plain {
        Plain { question, stage: Stage::default(), length: None }
    }

    fn head(&mut self, input: &[u8]) -> Result<Step, Failure> {
        let Stage::Head(parser) = &mut self.stage else {
            // (The engine reads the head once, and before all else.)
            unreachable!("asked for the head only before it is there")
        };
        // Either a status line or CGI's `Status:` (RFC 3875 §6.3.3), as nginx reads both.
        let parsed = parse_cgi(input, parser, CgiStart::StatusLine)
            .map_err(|error| Failure::protocol(error.to_string()))?;
        if parsed == Parsed::Partial {
            return Ok(Step { used: 0, event: Event::NeedMore });
        }
        // Of HEAD, too: whether there is a body is up to the application, which may send it.
        let framing = cgi_framing(input, parser, RequestKind::Other)
            .map_err(|error| Failure::protocol(error.to_string()))?;
        let used = parser.len;
        let head = BackendHead::from_response(input, std::mem::take(parser));
        self.length = match framing {
            // Without a length the end of the connection is the end of the answer.
            ResponseFraming::Length(length) => Some(length),
            _ => None,
        };
        self.stage = match framing {
            // Only if the client asked: else the application would talk to the client past the server's
            // framing.
            _ if head.status == 101 && self.question.upgrade => Stage::Tunnel,
            // Bytes that come all the same are told of and dropped.
            ResponseFraming::None => Stage::Body { left: Some(0), any: false },
            // The connection is closed without reading a body that nobody gets.
            _ if self.question.is_head && !self.question.cacheable => Stage::Done,
            _ => Stage::Body { left: self.length, any: false },
        };
        Ok(Step { used, event: Event::Head(head) })
    }

    /// An answer to HEAD without its body is fine for the client, and nothing to be stored.
    fn may_lack_body(&self, any: bool) -> bool {
        self.question.is_head && !any
    }
}

impl Codec for Plain {
    fn begin(&mut self, out: &mut Vec<u8>) {
        // An attempt begins anew with the same question.
        (self.stage, self.length) = (Stage::default(), None);
        out.extend_from_slice(&self.question.head);
    }

    fn body(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(piece);
    }

    // Nothing marks the end of a request's body: its length was said.
    fn end(&mut self, _: &mut Vec<u8>) {}

    fn read(&mut self, input: &[u8], _: &mut Vec<u8>) -> Result<Step, Failure> {
        match &mut self.stage {
            Stage::Head(_) => self.head(input),
            Stage::TooMuch => {
                self.stage = Stage::Done;
                Ok(Step { used: 0, event: Event::Log(LogLevel::Warn, TOO_MUCH.into()) })
            }
            Stage::Done | Stage::Tunnel => Ok(Step { used: 0, event: Event::End }),
            // Nothing lies behind it: the body is as long as was announced.
            Stage::Body { left: Some(0), .. } if input.is_empty() => {
                self.stage = Stage::Done;
                Ok(Step { used: 0, event: Event::End })
            }
            Stage::Body { .. } if input.is_empty() => Ok(Step { used: 0, event: Event::NeedMore }),
            Stage::Body { left, any } => {
                *any = true;
                let fits = left
                    .map_or(input.len(), |left| usize::try_from(left).unwrap_or(usize::MAX).min(input.len()));
                if let Some(left) = left {
                    *left -= fits as u64;
                }
                let event = if fits == 0 {
                    self.stage = Stage::Done;
                    Event::Log(LogLevel::Warn, TOO_MUCH.into())
                } else {
                    if fits < input.len() {
                        self.stage = Stage::TooMuch;
                    }
                    Event::Data(0..fits)
                };
                // All of the input, what is too much included: it is not read again as something else.
                Ok(Step { used: input.len(), event })
            }
        }
    }

    fn eof(&mut self) -> Result<Event, Failure> {
        // What is missing is told by the engine, which knows what has been sent already.
        match self.stage {
            // The connection ended before the length that was announced: the answer is cut off, and told so.
            Stage::Body { left: Some(left), any } if left > 0 => {
                if self.may_lack_body(any) {
                    // The client has its whole answer, but a cache must not store an object without its body.
                    Err(Failure::silent())
                } else {
                    Ok(Event::NeedMore)
                }
            }
            Stage::Head(_) => Ok(Event::NeedMore),
            _ => {
                self.stage = Stage::Done;
                Ok(Event::End)
            }
        }
    }

    fn persists(&self) -> bool {
        false
    }

    fn length(&self) -> Option<u64> {
        self.length
    }

    fn is_tunnel(&self) -> bool {
        matches!(self.stage, Stage::Tunnel)
    }
}
