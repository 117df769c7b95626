//! The client's side of a connection: responses, one after the other.

use super::body::{Body, BodyEvent};
use crate::chunked::ChunkError;
use crate::framing::{connection_tokens, parse_length};
use crate::head::{Header, HeaderId, Parsed};
use crate::response::{
    RequestKind, ResponseError, ResponseFraming, ResponseHead, parse_response, parse_response_tolerantly,
    response_framing, response_persists,
};
use std::fmt;
use std::ops::Range;

/// What is made of a head that two readers could understand differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// It is refused, as by nginx: for answers that are passed on.
    Strict,
    /// It is read by the order of RFC 9112 §6.3 (a transfer coding before a length, equal lengths as one), and values
    /// may have control bytes: for answers that are only looked at.
    Tolerant,
}

/// Why what came is no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// The head.
    Head(ResponseError),
    /// The chunks of the body.
    Chunk(ChunkError),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Head(error) => error.fmt(f),
            ClientError::Chunk(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ClientError {}

/// What the next bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing until more bytes come. Those of a head that is not complete are not used up: they are to be given again.
    NeedMore,
    /// The head of an interim response (RFC 9110 §15.2), other than 101: [`Client::head`].
    Interim,
    /// The final head: [`Client::head`].
    Head,
    /// Data of the body: this range of the given bytes.
    Data(Range<usize>),
    /// There are fields behind the body: [`Client::trailers`].
    Trailers,
    /// The response is complete. What follows on the connection is not part of it.
    End,
}

/// What [`Client::receive`] has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes from the beginning of the input that are done with.
    pub used: usize,
    /// What they are.
    pub event: Event,
}

/// What a final head says of the rest. A head with the same bytes says the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The status.
    pub status: u16,
    /// How the body ends.
    pub framing: ResponseFraming,
    /// Whether the connection may serve another request.
    pub persists: bool,
    /// Bytes of the head.
    pub len: u32,
}

/// What comes next.
#[derive(Clone, Debug)]
enum State {
    Head,
    Body(Known, Body),
    /// A 101, or a 2xx to CONNECT: what follows is not HTTP.
    Tunnel(Known),
    /// [`Event::End`] was given.
    Ended(Known),
}

/// Receives the responses of one connection.
#[derive(Clone, Debug)]
pub struct Client {
    rules: Rules,
    kind: RequestKind,
    state: State,
    head: ResponseHead,
}

impl Client {
    /// Before the first response, to a request of this kind.
    pub fn new(rules: Rules, kind: RequestKind) -> Client {
        Client { rules, kind, state: State::Head, head: ResponseHead::default() }
    }

    /// Makes room for the fields of a usual head.
    pub fn reserve_fields(&mut self, count: usize) {
        self.head.headers.reserve(count);
    }

    /// A response to a request of this kind is to come, and nothing of it has come yet.
    pub fn begin(&mut self, kind: RequestKind) {
        self.kind = kind;
        self.state = State::Head;
        self.head.clear();
    }

    /// The same, where the response's head has come and equals one that was received before.
    pub fn begin_known(&mut self, known: Known) {
        self.state = state_of(known);
    }

    /// Whether a final head was received, and not all of its body.
    pub fn is_in_body(&self) -> bool {
        matches!(self.state, State::Body(..) | State::Tunnel(_))
    }

    /// Whether the connection is a tunnel from here on.
    pub fn is_tunnel(&self) -> bool {
        matches!(self.state, State::Tunnel(_))
    }

    /// What the final head has said; `None` before there is one.
    pub fn known(&self) -> Option<Known> {
        match &self.state {
            State::Head => None,
            State::Body(known, _) | State::Tunnel(known) | State::Ended(known) => Some(*known),
        }
    }

    /// The head that has just been received. Its spans are of the bytes that were given with it.
    pub fn head(&self) -> &ResponseHead {
        &self.head
    }

    /// The same, to be kept.
    pub fn take_head(&mut self) -> ResponseHead {
        std::mem::take(&mut self.head)
    }

    /// The fields behind the body, and the bytes that they point into.
    pub fn trailers(&self) -> (&[Header], &[u8]) {
        if let State::Body(_, body) = &self.state { body.trailers() } else { (&[], &[]) }
    }

    /// Bytes of the present chunk that are known to follow.
    pub fn chunk_left(&self) -> u64 {
        if let State::Body(_, body) = &self.state { body.chunk_left() } else { 0 }
    }

    /// Takes the next bytes. Called again with those behind, until it needs more. After an error nothing may follow.
    pub fn receive(&mut self, input: &[u8]) -> Result<Received, ClientError> {
        match &mut self.state {
            State::Head => self.receive_head(input),
            State::Tunnel(_) | State::Ended(_) => Ok(Received { used: 0, event: Event::NeedMore }),
            State::Body(known, body) => {
                let (event, used) = body.next(input).map_err(ClientError::Chunk)?;
                let event = match event {
                    BodyEvent::NeedMore => Event::NeedMore,
                    BodyEvent::Data(range) => Event::Data(range),
                    // The last chunk has just come; the next call finds the end again.
                    BodyEvent::End if used > 0 && !body.trailers().0.is_empty() => Event::Trailers,
                    BodyEvent::End => {
                        self.state = State::Ended(*known);
                        Event::End
                    }
                };
                Ok(Received { used, event })
            }
        }
    }

    /// The peer has closed its side; true if the response was complete, or is with that.
    pub fn closed(&mut self) -> bool {
        match &self.state {
            State::Body(known, body) if matches!(body, Body::UntilClose) || body.is_done() => {
                self.state = State::Ended(*known);
                true
            }
            State::Ended(_) => true,
            State::Head | State::Body(..) | State::Tunnel(_) => false,
        }
    }

    fn receive_head(&mut self, input: &[u8]) -> Result<Received, ClientError> {
        let parsed = match self.rules {
            Rules::Strict => parse_response(input, &mut self.head),
            Rules::Tolerant => parse_response_tolerantly(input, &mut self.head),
        };
        if parsed.map_err(ClientError::Head)? == Parsed::Partial {
            return Ok(Received { used: 0, event: Event::NeedMore });
        }
        let used = self.head.len;
        let status = self.head.status;
        if (100..200).contains(&status) && status != 101 {
            return Ok(Received { used, event: Event::Interim });
        }
        let framing = match self.rules {
            Rules::Strict => response_framing(input, &self.head, self.kind),
            Rules::Tolerant => tolerant_framing(input, &self.head, self.kind),
        };
        let framing = framing.map_err(ClientError::Head)?;
        let persists = response_persists(input, &self.head, framing);
        self.state = state_of(Known { status, framing, persists, len: used as u32 });
        Ok(Received { used, event: Event::Head })
    }
}

fn state_of(known: Known) -> State {
    match known.framing {
        ResponseFraming::Tunnel => State::Tunnel(known),
        framing => State::Body(known, Body::of_response(framing)),
    }
}

/// [`response_framing`] without what a proxy refuses.
fn tolerant_framing(
    input: &[u8],
    head: &ResponseHead,
    kind: RequestKind,
) -> Result<ResponseFraming, ResponseError> {
    let last_coding = head.all(HeaderId::TransferEncoding).last();
    let is_chunked = last_coding.map(|field| {
        connection_tokens(field.value.of(input)).last().is_some_and(|t| t.eq_ignore_ascii_case(b"chunked"))
    });
    let mut lengths = head.all(HeaderId::ContentLength).map(|field| parse_length(field.value.of(input)));
    let length = match lengths.next() {
        None => None,
        Some(first) if lengths.all(|other| other == first) => {
            Some(first.ok_or(ResponseError::InvalidContentLength)?)
        }
        Some(_) => return Err(ResponseError::Duplicate),
    };
    let opens_tunnel = kind == RequestKind::Connect && (200..300).contains(&head.status);
    Ok(match (is_chunked, length) {
        _ if head.status == 101 || opens_tunnel => ResponseFraming::Tunnel,
        _ if kind == RequestKind::Head || crate::status::is_bodiless(head.status) => ResponseFraming::None,
        (Some(true), _) => ResponseFraming::Chunked,
        (Some(false), _) | (None, None) => ResponseFraming::UntilClose,
        (None, Some(length)) => ResponseFraming::Length(length),
    })
}
