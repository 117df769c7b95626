//! HTTP/1.0 and 1.1 to a back end (RFC 9112).

use crate::codec::{Codec, CodecError, Event, Step};
use crate::head::BackendHead;
use brisk_http::chunked::{CHUNK_END, ChunkEvent, ChunkLimits, ChunkedDecoder, LAST_CHUNK, write_chunk_head};
use brisk_http::framing::parse_length;
use brisk_http::response::{
    RequestKind, ResponseFraming, ResponseHead, parse_response, response_framing, response_persists,
};
use brisk_http::{HeaderId, Parsed, Version};
use brisk_server::core::LogLevel;

/// Fields that there is room for from the start.
const FIELDS: usize = 16;

/// What is to come next.
enum State {
    Head,
    /// No body, or all of it was there.
    Over,
    Length(u64),
    Chunked(Box<ChunkedDecoder>),
    UntilClose,
    Tunnel,
    /// [`Event::End`] was given.
    Ended,
}

/// How a request is sent.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub kind: RequestKind,
    /// The body is sent in chunks.
    pub chunked: bool,
    /// The client has asked for an upgrade, and that was passed on.
    pub upgrade: bool,
}

/// See the module's head.
pub struct Http1 {
    head: Vec<u8>,
    shape: Shape,
    parsed: ResponseHead,
    state: State,
    persists: bool,
    length: Option<u64>,
    /// More came than belongs to the answer.
    excess: bool,
}

impl Http1 {
    /// `head` is the request's, complete.
    pub fn new(head: Vec<u8>, shape: Shape) -> Http1 {
        let mut parsed = ResponseHead::default();
        parsed.headers.reserve(FIELDS);
        Http1 { head, shape, parsed, state: State::Head, persists: false, length: None, excess: false }
    }

    fn read_head(&mut self, input: &[u8]) -> Result<Step, CodecError> {
        let invalid = |error: brisk_http::response::ResponseError| CodecError::new(error.to_string());
        match parse_response(input, &mut self.parsed).map_err(invalid)? {
            Parsed::Partial => return Ok(Step { used: 0, event: Event::NeedMore }),
            Parsed::Complete => {}
        }
        let used = self.parsed.len;
        let status = self.parsed.status;
        if status < 100 {
            return Err(CodecError::new("upstream sent invalid status"));
        }
        if status < 200 && status != 101 {
            if self.parsed.version < Version::Http11 {
                return Err(CodecError::new("upstream sent HTTP/1.0 response with early hints"));
            }
            let head = BackendHead::from_response(input, std::mem::take(&mut self.parsed));
            return Ok(Step { used, event: Event::Interim(head) });
        }
        let framing = response_framing(input, &self.parsed, self.shape.kind).map_err(invalid)?;
        // RFC 9112 §9.3: HTTP/1.0 keeps a connection only if it says so; nginx never keeps it.
        self.persists =
            self.parsed.version >= Version::Http11 && response_persists(input, &self.parsed, framing);
        self.length = match framing {
            ResponseFraming::Length(length) => Some(length),
            // What a HEAD or a 304 says of a body that does not follow.
            ResponseFraming::None => self
                .parsed
                .find(HeaderId::ContentLength)
                .and_then(|field| parse_length(field.value.of(input))),
            _ => None,
        };
        self.state = match framing {
            ResponseFraming::None | ResponseFraming::Length(0) => State::Over,
            ResponseFraming::Length(length) => State::Length(length),
            ResponseFraming::Chunked => {
                State::Chunked(Box::new(ChunkedDecoder::new(ChunkLimits::of_answers())))
            }
            ResponseFraming::UntilClose => State::UntilClose,
            ResponseFraming::Tunnel if self.shape.upgrade => State::Tunnel,
            // Nobody has asked for it: there is nothing to be read.
            ResponseFraming::Tunnel => State::UntilClose,
        };
        let head = BackendHead::from_response(input, std::mem::take(&mut self.parsed));
        Ok(Step { used, event: Event::Head(head) })
    }

    /// Nothing more belongs to the answer.
    fn over(&mut self, input: &[u8]) -> Step {
        if input.is_empty() || std::mem::replace(&mut self.excess, true) {
            self.state = State::Ended;
            return Step { used: 0, event: Event::End };
        }
        self.persists = false;
        let text = b"upstream sent more data than specified in \"Content-Length\" header";
        Step { used: input.len(), event: Event::Log(LogLevel::Warn, text.to_vec()) }
    }
}

impl Codec for Http1 {
    fn begin(&mut self, out: &mut Vec<u8>) {
        self.parsed.clear();
        self.state = State::Head;
        (self.persists, self.length, self.excess) = (false, None, false);
        if out.is_empty() {
            *out = std::mem::take(&mut self.head);
        } else {
            out.append(&mut self.head);
        }
    }

    fn body(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        if !self.shape.chunked {
            out.extend_from_slice(piece);
        } else if !piece.is_empty() {
            write_chunk_head(piece.len() as u64, out);
            out.extend_from_slice(piece);
            out.extend_from_slice(CHUNK_END);
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if self.shape.chunked {
            out.extend_from_slice(LAST_CHUNK);
        }
    }

    fn read(&mut self, input: &[u8], _: &mut Vec<u8>) -> Result<Step, CodecError> {
        match &mut self.state {
            State::Head => self.read_head(input),
            State::Over => Ok(self.over(input)),
            State::Tunnel | State::Ended => Ok(Step { used: 0, event: Event::NeedMore }),
            State::UntilClose | State::Length(_) if input.is_empty() => {
                Ok(Step { used: 0, event: Event::NeedMore })
            }
            State::UntilClose => Ok(Step { used: input.len(), event: Event::Data(0..input.len()) }),
            State::Length(left) => {
                let count = input.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= count as u64;
                if *left == 0 {
                    self.state = State::Over;
                }
                Ok(Step { used: count, event: Event::Data(0..count) })
            }
            State::Chunked(decoder) => {
                if decoder.is_done() {
                    self.state = State::Over;
                    return Ok(self.over(input));
                }
                let wrong = |error: brisk_http::chunked::ChunkError| {
                    CodecError::new(format!("upstream sent invalid chunked response: {error}"))
                };
                let (event, used) = decoder.next(input).map_err(wrong)?;
                let event = match event {
                    ChunkEvent::NeedMore => Event::NeedMore,
                    ChunkEvent::Data(range) => Event::Data(range),
                    ChunkEvent::End => {
                        let (fields, bytes) = decoder.trailers();
                        let own = |field: &brisk_http::Header| {
                            (field.name.of(bytes).to_vec(), field.value.of(bytes).to_vec())
                        };
                        Event::Trailers(fields.iter().map(own).collect())
                    }
                };
                Ok(Step { used, event })
            }
        }
    }

    fn eof(&mut self) -> Result<Event, CodecError> {
        Ok(match &self.state {
            State::UntilClose | State::Over => Event::End,
            State::Chunked(decoder) if decoder.is_done() => Event::End,
            _ => Event::NeedMore,
        })
    }

    fn persists(&self) -> bool {
        self.persists
    }

    fn length(&self) -> Option<u64> {
        self.length
    }

    fn is_tunnel(&self) -> bool {
        matches!(self.state, State::Tunnel)
    }
}
