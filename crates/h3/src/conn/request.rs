//! Taking a request's stream apart: heads, bodies, trailers (RFC 9114 §4.1, §7.2).

use super::control::skip;
use super::{Connection, Event, Role, qpack_error};
use crate::error::{ConnectionError, ErrorCode};
use crate::frame::{self, FrameHead, kind};
use crate::qpack::{Prefix, QpackError};
use crate::streams::{Part, Receive, Stream};
use brisk_mux::flood::Nuisance;
use brisk_mux::{HeadKind, HeadSink, LimitError};

/// What came of a step.
enum Step<'a, T> {
    /// Go on.
    Next,
    /// All was taken that can be for now.
    Wait,
    Told(Event<'a, T>),
}

impl<T: Default> Connection<T> {
    pub(super) fn receive_request<'a, S: HeadSink>(
        &mut self,
        id: u64,
        input: &mut &'a [u8],
        fin: bool,
        sink: &mut S,
    ) -> Result<Option<Event<'a, T>>, ConnectionError> {
        loop {
            match self.step(id, input, fin, sink)? {
                Step::Next => {}
                Step::Wait => return Ok(None),
                Step::Told(event) => return Ok(Some(event)),
            }
        }
    }

    fn step<'a, S: HeadSink>(
        &mut self,
        id: u64,
        input: &mut &'a [u8],
        fin: bool,
        sink: &mut S,
    ) -> Result<Step<'a, T>, ConnectionError> {
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.receive != Receive::Closed)
        else {
            *input = &[];
            return Ok(Step::Wait);
        };
        if input.is_empty() && fin && stream.is_inside_frame() {
            // RFC 9114 §7.1: a frame that the stream's end cuts off.
            return Err(ConnectionError::frame(format!("end of stream {id} inside of a frame")));
        }
        match &mut stream.part {
            Part::Head if input.is_empty() => {
                if fin {
                    self.end_of(id)
                } else {
                    Ok(Step::Wait)
                }
            }
            Part::Head => match stream.head.take(input, FrameHead::parse) {
                Some(head) => self.frame(id, head),
                None if fin => Ok(Step::Next),
                None => Ok(Step::Wait),
            },
            Part::Data(_) if input.is_empty() => Ok(Step::Wait),
            Part::Data(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                let (data, rest) = input.split_at(count);
                *input = rest;
                *left -= count as u64;
                let is_whole = *left == 0;
                if is_whole {
                    stream.part = Part::Head;
                }
                Ok(Step::Told(self.body(id, data, is_whole && fin && rest.is_empty())?))
            }
            Part::Skip(left) => {
                skip(left, input);
                if *left > 0 {
                    return Ok(if fin { Step::Next } else { Step::Wait });
                }
                stream.part = Part::Head;
                Ok(Step::Next)
            }
            Part::Section(_) => self.section(id, input, fin, sink),
            Part::Blocked(prefix) => {
                let prefix = *prefix;
                if prefix.required > self.qpack.inserts() {
                    return Ok(Step::Wait);
                }
                let section = std::mem::take(&mut stream.section);
                stream.part = Part::Head;
                let end = fin && input.is_empty();
                self.head(id, &section, prefix, end, sink)
            }
        }
    }

    /// Which frames may come on a request's stream, and when (RFC 9114 §4.1, §7.2).
    fn frame<'a>(&mut self, id: u64, head: FrameHead) -> Result<Step<'a, T>, ConnectionError> {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(Step::Wait) };
        match (head.kind, stream.receive) {
            (kind::DATA, Receive::Body(_) | Receive::Tunnel) => self.data_frame(id, head.len),
            (kind::HEADERS, Receive::Head | Receive::Body(_)) => {
                let bytes_max = self.config.head_limits.block_bytes_max() as u64;
                if head.len > bytes_max {
                    return self.too_large(id, LimitError::List);
                }
                stream.part = Part::Section(head.len as usize);
                Ok(Step::Next)
            }
            (kind::PUSH_PROMISE, _) if self.role == Role::Client => {
                // §7.2.5: above what MAX_PUSH_ID, which we never send, allows.
                Err(ConnectionError::id("PUSH_PROMISE frame"))
            }
            (
                kind::DATA
                | kind::HEADERS
                | kind::CANCEL_PUSH
                | kind::SETTINGS
                | kind::PUSH_PROMISE
                | kind::GOAWAY
                | kind::MAX_PUSH_ID
                | kind::PRIORITY_UPDATE
                | kind::PRIORITY_UPDATE_PUSH,
                _,
            ) => Err(unexpected(head.kind, id)),
            (other, _) if frame::is_of_http2(other) => Err(unexpected(other, id)),
            _ => {
                stream.part = Part::Skip(head.len);
                self.count(Nuisance::Stray)?;
                Ok(Step::Next)
            }
        }
    }

    fn data_frame<'a>(&mut self, id: u64, len: u64) -> Result<Step<'a, T>, ConnectionError> {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(Step::Wait) };
        if len == 0 {
            self.count(Nuisance::Empty)?;
            return Ok(Step::Next);
        }
        if let Receive::Body(Some(expected)) = &mut stream.receive {
            // §4.1.2.
            match expected.checked_sub(len) {
                Some(left) => *expected = left,
                None => return self.mismatch(id),
            }
        }
        stream.part = Part::Data(len);
        Ok(Step::Next)
    }

    /// A piece of a body.
    fn body<'a>(&mut self, id: u64, data: &'a [u8], end: bool) -> Result<Event<'a, T>, ConnectionError> {
        if end && let Some(Stream { receive: Receive::Body(Some(1..)), .. }) = self.streams.get(&id) {
            // The bytes that came are told first: the end of the stream is seen by the next call.
            return Ok(Event::Data { stream: id, data, end: false, value: None });
        }
        let value = if end { self.end_receive(id) } else { None };
        Ok(Event::Data { stream: id, data, end, value })
    }

    /// The stream has ended behind a whole frame.
    fn end_of<'a>(&mut self, id: u64) -> Result<Step<'a, T>, ConnectionError> {
        match self.streams.get(&id).map(|stream| stream.receive) {
            // §4.1: no whole request, or no response.
            Some(Receive::Head) => {
                let is_server = self.role == Role::Server;
                let code = if is_server { ErrorCode::REQUEST_INCOMPLETE } else { ErrorCode::MESSAGE_ERROR };
                self.break_stream(id, code).map(Step::Told)
            }
            Some(Receive::Body(Some(1..))) => self.mismatch(id),
            Some(Receive::Body(_) | Receive::Tunnel) => {
                let value = self.end_receive(id);
                Ok(Step::Told(Event::Data { stream: id, data: &[], end: true, value }))
            }
            // The body's end was told with the trailers.
            Some(Receive::Ended | Receive::Closed) | None => {
                self.end_receive(id);
                Ok(Step::Wait)
            }
        }
    }

    /// Bytes of a field section. One that is in the input as a whole is not copied.
    fn section<'a, S: HeadSink>(
        &mut self,
        id: u64,
        input: &mut &'a [u8],
        fin: bool,
        sink: &mut S,
    ) -> Result<Step<'a, T>, ConnectionError> {
        let Some(Stream { part: Part::Section(left), section, .. }) = self.streams.get_mut(&id) else {
            return Ok(Step::Wait);
        };
        let count = input.len().min(*left);
        let (piece, rest) = input.split_at(count);
        *input = rest;
        *left -= count;
        if *left > 0 {
            section.extend_from_slice(piece);
            return Ok(if fin { Step::Next } else { Step::Wait });
        }
        let end = fin && rest.is_empty();
        if section.is_empty() {
            return self.whole_section(id, piece, end, sink);
        }
        let mut whole = std::mem::take(section);
        whole.extend_from_slice(piece);
        self.whole_section(id, &whole, end, sink)
    }

    /// A section that has come: decoded, or kept until the table has what it needs.
    fn whole_section<'a, S: HeadSink>(
        &mut self,
        id: u64,
        section: &[u8],
        end: bool,
        sink: &mut S,
    ) -> Result<Step<'a, T>, ConnectionError> {
        let prefix = self.qpack.prefix(section).map_err(qpack_error)?;
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(Step::Wait) };
        if prefix.required <= self.qpack.inserts() {
            stream.part = Part::Head;
            return self.head(id, section, prefix, end, sink);
        }
        // RFC 9204 §2.1.2.
        if self.blocked.len() as u64 >= self.config.settings.qpack_blocked_streams {
            return Err(qpack_error(QpackError::Section("entries that too many streams wait for")));
        }
        stream.part = Part::Blocked(prefix);
        stream.section = section.to_vec();
        self.blocked.push((id, prefix.required));
        Ok(Step::Wait)
    }

    /// Decodes a head or trailers. `end`: the stream ends behind them.
    fn head<'a, S: HeadSink>(
        &mut self,
        id: u64,
        section: &[u8],
        prefix: Prefix,
        end: bool,
        sink: &mut S,
    ) -> Result<Step<'a, T>, ConnectionError> {
        let Some(stream) = self.streams.get(&id) else { return Ok(Step::Wait) };
        let kind = match (stream.receive, self.role) {
            (Receive::Head, Role::Server) => HeadKind::Request,
            (Receive::Head, Role::Client) => HeadKind::Response,
            _ => HeadKind::Trailers,
        };
        sink.begin(id, kind);
        match self.qpack.decode(section, prefix, self.config.head_limits, sink) {
            Ok(()) => {}
            Err(QpackError::Limit(limit)) => return self.too_large(id, limit),
            Err(error) => return Err(qpack_error(error)),
        }
        self.write_decoder(|qpack, out| qpack.acknowledge_section(id, prefix.required, out));
        self.check_own_streams()?;
        if kind == HeadKind::Trailers {
            return self.trailers(id);
        }
        if kind == HeadKind::Response && sink.is_interim() {
            return Ok(Step::Told(Event::Interim { stream: id }));
        }
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.receive = if end { Receive::Closed } else { Receive::Body(None) };
        }
        Ok(Step::Told(Event::Head { stream: id, end, bytes: section.len() }))
    }

    fn trailers<'a>(&mut self, id: u64) -> Result<Step<'a, T>, ConnectionError> {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(Step::Wait) };
        if matches!(stream.receive, Receive::Body(Some(1..))) {
            return self.mismatch(id);
        }
        stream.receive = Receive::Ended;
        Ok(Step::Told(Event::Trailers { stream: id }))
    }

    /// A body is not what it was said to be; whatever else comes of it is not looked at.
    fn mismatch<'a>(&mut self, id: u64) -> Result<Step<'a, T>, ConnectionError> {
        self.count(Nuisance::Reset)?;
        self.drop_rest(id);
        Ok(Step::Told(Event::Mismatch { stream: id }))
    }

    /// A head is larger than it may be; whatever else comes of it is not looked at.
    fn too_large<'a>(&mut self, id: u64, limit: LimitError) -> Result<Step<'a, T>, ConnectionError> {
        self.count(Nuisance::Reset)?;
        let is_head = self.awaits_head(id);
        self.drop_rest(id);
        self.check_own_streams()?;
        Ok(Step::Told(Event::TooLarge { stream: id, limit, is_head }))
    }

    fn drop_rest(&mut self, id: u64) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.receive = Receive::Closed;
            stream.section = Vec::new();
            self.write_decoder(|qpack, out| qpack.cancel(id, out));
        }
    }

    /// The peer has said all on a stream. Gives what was kept with it if we have, too.
    fn end_receive(&mut self, id: u64) -> Option<T> {
        let stream = self.streams.get_mut(&id)?;
        stream.receive = Receive::Closed;
        if stream.sends { None } else { self.forget(id) }
    }

    /// A stream error (RFC 9114 §8).
    fn break_stream<'a>(&mut self, id: u64, code: ErrorCode) -> Result<Event<'a, T>, ConnectionError> {
        // Streams that the peer makes us reset count as those that it resets itself (CVE-2025-8671).
        self.count(Nuisance::Reset)?;
        let value = self.forget(id).unwrap_or_default();
        self.check_own_streams()?;
        Ok(Event::Reset { stream: id, code, by_peer: false, value })
    }
}

impl<T> Stream<T> {
    /// Whether a frame has begun that is not whole.
    fn is_inside_frame(&self) -> bool {
        match self.part {
            Part::Head => self.head.has_begun(),
            // An empty section is one that has come.
            Part::Section(left) => left > 0,
            Part::Data(left) | Part::Skip(left) => left > 0,
            Part::Blocked(_) => false,
        }
    }
}

#[cold]
fn unexpected(kind: u64, stream: u64) -> ConnectionError {
    ConnectionError::unexpected(format!("frame of type {kind:#x} out of place on stream {stream}"))
}
