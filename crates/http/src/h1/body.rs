//! The body of a message that is being received, on either side (RFC 9112 §6).

use crate::chunked::{ChunkError, ChunkEvent, ChunkLimits, ChunkedDecoder};
use crate::framing::BodyFraming;
use crate::head::Header;
use crate::response::ResponseFraming;
use std::ops::Range;

/// How much of a body is still to come.
#[derive(Clone, Debug, Default)]
pub enum Body {
    /// All of it was received, or there is none.
    #[default]
    Done,
    /// So many bytes; not 0.
    Length(u64),
    /// In chunks. It stays here when it is complete: the decoder has the trailers.
    Chunked(Box<ChunkedDecoder>),
    /// All that comes until the peer closes. Only responses have such bodies.
    UntilClose,
    /// Its framing is wrong: nothing that follows on the connection can be understood.
    Broken,
}

/// What the next bytes of a body are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyEvent {
    /// Nothing until more bytes come.
    NeedMore,
    /// Data: this range of the given bytes.
    Data(Range<usize>),
    /// The body is complete.
    End,
}

impl Body {
    /// The body of a request.
    pub fn of_request(framing: BodyFraming) -> Body {
        match framing {
            BodyFraming::None | BodyFraming::Length(0) => Body::Done,
            BodyFraming::Length(length) => Body::Length(length),
            BodyFraming::Chunked => Body::chunked(ChunkLimits::default()),
        }
    }

    /// The body of a response. A tunnel has none.
    pub fn of_response(framing: ResponseFraming) -> Body {
        match framing {
            ResponseFraming::None | ResponseFraming::Length(0) | ResponseFraming::Tunnel => Body::Done,
            ResponseFraming::Length(length) => Body::Length(length),
            ResponseFraming::Chunked => Body::chunked(ChunkLimits::of_answers()),
            ResponseFraming::UntilClose => Body::UntilClose,
        }
    }

    fn chunked(limits: ChunkLimits) -> Body {
        Body::Chunked(Box::new(ChunkedDecoder::new(limits)))
    }

    /// Whether all of it was received.
    pub fn is_done(&self) -> bool {
        match self {
            Body::Done => true,
            Body::Chunked(decoder) => decoder.is_done(),
            Body::Length(_) | Body::UntilClose | Body::Broken => false,
        }
    }

    /// Whether its framing was wrong.
    pub fn is_broken(&self) -> bool {
        matches!(self, Body::Broken)
    }

    /// Bytes of the present chunk that are known to follow.
    pub fn chunk_left(&self) -> u64 {
        if let Body::Chunked(decoder) = self { decoder.chunk_left() } else { 0 }
    }

    /// Fields behind a chunked body, and the bytes that they point into.
    pub fn trailers(&self) -> (&[Header], &[u8]) {
        if let Body::Chunked(decoder) = self { decoder.trailers() } else { (&[], &[]) }
    }

    /// Takes the next bytes; gives an event and how many of them are done with. Called again with those behind.
    pub fn next(&mut self, input: &[u8]) -> Result<(BodyEvent, usize), ChunkError> {
        let count = match self {
            Body::Done => return Ok((BodyEvent::End, 0)),
            Body::Broken => return Ok((BodyEvent::NeedMore, 0)),
            Body::Length(left) => input.len().min(usize::try_from(*left).unwrap_or(usize::MAX)),
            Body::UntilClose => input.len(),
            Body::Chunked(decoder) => {
                return match decoder.next(input) {
                    Ok((ChunkEvent::NeedMore, used)) => Ok((BodyEvent::NeedMore, used)),
                    Ok((ChunkEvent::Data(range), used)) => Ok((BodyEvent::Data(range), used)),
                    Ok((ChunkEvent::End, used)) => Ok((BodyEvent::End, used)),
                    Err(error) => {
                        *self = Body::Broken;
                        Err(error)
                    }
                };
            }
        };
        if count == 0 {
            return Ok((BodyEvent::NeedMore, 0));
        }
        self.received(count as u64);
        Ok((BodyEvent::Data(0..count), count))
    }

    /// How much may be read straight into the body's own memory: there is nothing but data. `None`: framing is among it.
    pub fn plain_room(&self) -> Option<u64> {
        if let Body::Length(left) = self { Some(*left) } else { None }
    }

    /// So many bytes of data were received, at most [`Body::plain_room`].
    pub fn received(&mut self, count: u64) {
        if let Body::Length(left) = self {
            *left = left.saturating_sub(count);
            if *left == 0 {
                *self = Body::Done;
            }
        }
    }
}
