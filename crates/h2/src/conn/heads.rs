//! Header blocks: HEADERS and CONTINUATION (RFC 9113 §4.3, §6.2, §6.10).

use super::{Connection, Event, HeadKind, HeadSink, Role};
use crate::error::{ConnectionError, ErrorCode};
use crate::frame::{self, FrameHead, WINDOW_DEFAULT, flag};
use crate::hpack::{Discard, FieldSink, HpackError};
use crate::limits::PARTS_MAX;
use crate::priority::Dependency;
use crate::streams::Half;
use brisk_mux::flood::Nuisance;

/// A block that has not come as a whole yet.
#[derive(Debug)]
pub(super) struct Block {
    pub stream: u32,
    end_stream: bool,
    dependency: Option<Dependency>,
    pub bytes: Vec<u8>,
    parts: u32,
}

impl<T: Default> Connection<T> {
    pub(super) fn headers<'a, S: HeadSink>(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        sink: &mut S,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'a, T>>, ConnectionError> {
        let Some(mut fragment) = frame::unpadded(head, payload) else {
            return Err(if payload.is_empty() {
                ConnectionError::size("HEADERS frame with incorrect length 0")
            } else {
                ConnectionError::protocol(format!(
                    "padded HEADERS frame with incorrect length: {}, padding: {}",
                    payload.len(),
                    payload[0]
                ))
            });
        };
        let mut dependency = None;
        if head.has(flag::PRIORITY) {
            let Some((bytes, rest)) = fragment.split_first_chunk::<5>() else {
                let text = format!("HEADERS frame with incorrect length {}", payload.len());
                return Err(ConnectionError::size(text));
            };
            dependency = Some(Dependency::parse(bytes));
            fragment = rest;
        }
        // RFC 9113 §5.1.1: clients begin streams of odd numbers, and we allow no others.
        if head.stream.is_multiple_of(2) {
            return Err(incorrect_identifier(head.stream, self.peer_last));
        }
        let end_stream = head.has(flag::END_STREAM);
        if head.has(flag::END_HEADERS) {
            return self.block(head.stream, end_stream, dependency, fragment, sink, out);
        }
        let (stream, bytes) = (head.stream, fragment.to_vec());
        self.block = Some(Box::new(Block { stream, end_stream, dependency, bytes, parts: 0 }));
        Ok(None)
    }

    pub(super) fn continuation<'a, S: HeadSink>(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        sink: &mut S,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'a, T>>, ConnectionError> {
        let Some(block) = &mut self.block else {
            return Err(ConnectionError::protocol("unexpected CONTINUATION frame"));
        };
        block.parts += 1;
        let bytes_max = self.config.head_limits.block_bytes_max();
        if block.parts > PARTS_MAX || block.bytes.len() + payload.len() > bytes_max {
            return Err(ConnectionError::new(
                ErrorCode::ENHANCE_YOUR_CALM,
                "too large header: http2 flood detected",
            ));
        }
        block.bytes.extend_from_slice(payload);
        if payload.is_empty() {
            self.count(Nuisance::Empty)?;
        }
        match self.block.take_if(|_| head.has(flag::END_HEADERS)) {
            Some(block) => {
                let Block { stream, end_stream, dependency, bytes, .. } = *block;
                self.block(stream, end_stream, dependency, &bytes, sink, out)
            }
            None => Ok(None),
        }
    }

    /// A whole block.
    fn block<'a, S: HeadSink>(
        &mut self,
        id: u32,
        end_stream: bool,
        dependency: Option<Dependency>,
        bytes: &[u8],
        sink: &mut S,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'a, T>>, ConnectionError> {
        if let Some(dependency) = dependency {
            self.depend(id, dependency, "HEADERS")?;
        }
        match self.streams.get(id).map(|stream| stream.receive) {
            Some(Half::Open) => self.trailers(id, end_stream, bytes, sink, out),
            Some(Half::Head) => self.response(id, end_stream, bytes, sink, out),
            Some(Half::Tunnel) => {
                self.decode(bytes, &mut Discard(sink))?;
                self.break_stream(id, ErrorCode::PROTOCOL_ERROR, out)
            }
            Some(Half::Closed) if self.reset_by_us.has(id) => {
                self.decode(bytes, &mut Discard(sink))?;
                self.count(Nuisance::Stray).map(|()| None)
            }
            Some(Half::Closed) => {
                // RFC 9113 §5.1, half-closed (remote).
                self.decode(bytes, &mut Discard(sink))?;
                self.break_stream(id, ErrorCode::STREAM_CLOSED, out)
            }
            None if self.role == Role::Client || id <= self.peer_last => self.stray(id, bytes, sink),
            None => self.request(id, end_stream, bytes, sink, out),
        }
    }

    /// A block for a stream that is no more.
    fn stray<'a, S: HeadSink>(
        &mut self,
        id: u32,
        bytes: &[u8],
        sink: &mut S,
    ) -> Result<Option<Event<'a, T>>, ConnectionError> {
        let is_reset = self.reset_by_us.has(id) || self.given_up == Some(id);
        if is_reset || (self.role == Role::Client && id < self.next_id) {
            self.decode(bytes, &mut Discard(sink))?;
            self.count(Nuisance::Stray)?;
            return Ok(None);
        }
        if self.closed.has(id) {
            let text = format!("HEADERS frame for closed stream {id}");
            return Err(ConnectionError::new(ErrorCode::STREAM_CLOSED, text));
        }
        Err(incorrect_identifier(id, self.peer_last))
    }

    fn request<'a, S: HeadSink>(
        &mut self,
        id: u32,
        end_stream: bool,
        bytes: &[u8],
        sink: &mut S,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'a, T>>, ConnectionError> {
        if self.goaway.is_some_and(|last| id > last) {
            // RFC 9113 §6.8: the peer knows that it is not looked at. Its fields still change the tables.
            self.peer_last = id;
            self.decode(bytes, &mut Discard(sink))?;
            self.reset_by_us.push(id);
            return self.count(Nuisance::Stray).map(|()| None);
        }
        self.peer_last = id;
        let max = self.config.settings.max_concurrent_streams.unwrap_or(u32::MAX);
        if self.streams.len() as u32 + self.busy >= max {
            self.decode(bytes, &mut Discard(sink))?;
            self.count(Nuisance::Stray)?;
            frame::write_rst_stream(id, ErrorCode::REFUSED_STREAM, out);
            self.reset_by_us.push(id);
            return Ok(None);
        }
        if self.settings_unacked > 0
            && !end_stream
            && self.config.settings.initial_window_size < WINDOW_DEFAULT
        {
            // The peer cannot know yet how little of a body we want: it may send all that the RFC allows (§6.9.2).
            self.decode(bytes, &mut Discard(sink))?;
            self.count(Nuisance::Stray)?;
            frame::write_rst_stream(id, ErrorCode::REFUSED_STREAM, out);
            self.reset_by_us.push(id);
            return Ok(None);
        }
        sink.begin(id.into(), HeadKind::Request);
        self.decode(bytes, sink)?;
        let receive = if end_stream { Half::Closed } else { Half::Open };
        self.insert(id, receive, Half::Open, T::default());
        Ok(Some(Event::Head { stream: id, end: end_stream, bytes: bytes.len() }))
    }

    fn response<'a, S: HeadSink>(
        &mut self,
        id: u32,
        end_stream: bool,
        bytes: &[u8],
        sink: &mut S,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'a, T>>, ConnectionError> {
        sink.begin(id.into(), HeadKind::Response);
        self.decode(bytes, sink)?;
        if sink.is_interim() {
            // RFC 9113 §8.1: an interim response does not end the stream.
            if end_stream {
                return self.break_stream(id, ErrorCode::PROTOCOL_ERROR, out);
            }
            return Ok(Some(Event::Interim { stream: id }));
        }
        if let Some(stream) = self.streams.get_mut(id) {
            stream.receive = Half::Open;
        }
        if end_stream {
            self.end_receive(id);
        }
        Ok(Some(Event::Head { stream: id, end: end_stream, bytes: bytes.len() }))
    }

    fn trailers<'a, S: HeadSink>(
        &mut self,
        id: u32,
        end_stream: bool,
        bytes: &[u8],
        sink: &mut S,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'a, T>>, ConnectionError> {
        sink.begin(id.into(), HeadKind::Trailers);
        self.decode(bytes, sink)?;
        let expected = self.streams.get(id).and_then(|stream| stream.expected);
        // RFC 9113 §8.1: a second block is the end.
        if !end_stream {
            return self.break_stream(id, ErrorCode::PROTOCOL_ERROR, out);
        }
        if expected.is_some_and(|left| left > 0) {
            self.count(Nuisance::Reset)?;
            return Ok(Some(self.mismatch(id)));
        }
        let value = self.end_receive(id);
        Ok(Some(Event::Trailers { stream: id, value }))
    }

    fn decode<S: FieldSink>(&mut self, block: &[u8], sink: &mut S) -> Result<(), ConnectionError> {
        self.decoder.decode(block, self.config.head_limits, sink).map_err(|error| {
            let code = match error {
                HpackError::EmptyName => ErrorCode::PROTOCOL_ERROR,
                error if error.is_limit() => ErrorCode::ENHANCE_YOUR_CALM,
                _ => ErrorCode::COMPRESSION_ERROR,
            };
            ConnectionError::new(code, error.to_string())
        })
    }
}

#[cold]
fn incorrect_identifier(id: u32, last: u32) -> ConnectionError {
    ConnectionError::protocol(format!("HEADERS frame with incorrect identifier {id}, the last was {last}"))
}
