//! Taking frames apart.

use super::{Connection, Event, HeadSink, Received, Role};
use crate::PREFACE;
use crate::error::{ConnectionError, ErrorCode};
use crate::frame::{self, FrameHead, HEAD_BYTES, WINDOW_MAX, flag, kind};
use crate::limits::EARLY_MAX;
use crate::priority::{Dependency, Priority};
use crate::streams::Half;
use brisk_mux::flood::Nuisance;

/// A DATA frame that is being taken as it comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataFrame {
    /// 0: nobody wants it.
    pub stream: u32,
    pub left: u32,
    padding: u32,
    end: bool,
}

/// Nothing but what was used up.
fn quiet<'a, T>(used: usize) -> Received<'a, T> {
    Received { used, event: None }
}

fn told<T>(used: usize, event: Event<'_, T>) -> Received<'_, T> {
    Received { used, event: Some(event) }
}

impl<T: Default> Connection<T> {
    /// Takes the next frame, or the next piece of a body, from the beginning of `input`. Answers that the protocol
    /// asks for are appended to `out`. To be called again with what is left, until nothing was used.
    pub fn receive<'a, S: HeadSink>(
        &mut self,
        input: &'a [u8],
        sink: &mut S,
        out: &mut Vec<u8>,
    ) -> Result<Received<'a, T>, ConnectionError> {
        match self.data {
            Some(DataFrame { left: 0, padding: 0, .. }) => self.data = None,
            Some(_) => return self.data_part(input, 0, out),
            None => {}
        }
        if self.preface_left > 0 {
            return self.preface(input);
        }
        let Some(head) = FrameHead::parse(input) else { return Ok(quiet(0)) };
        if head.len > self.payload_max(head.kind) {
            return Err(ConnectionError::size(format!("frame with incorrect length {}", head.len)));
        }
        if let Some(block) = &self.block
            && (head.kind != kind::CONTINUATION || head.stream != block.stream)
        {
            // RFC 9113 §6.10.
            return Err(ConnectionError::protocol("inappropriate frame while CONTINUATION was expected"));
        }
        if head.kind == kind::DATA {
            return self.data(head, input, out);
        }
        if head.kind == kind::PUSH_PROMISE {
            // A client may not push, and we never allow a server to (RFC 9113 §6.6, §8.4).
            return Err(ConnectionError::protocol("PUSH_PROMISE frame"));
        }
        let used = HEAD_BYTES + head.len as usize;
        let Some(payload) = input.get(HEAD_BYTES..used) else { return Ok(quiet(0)) };
        let event = match head.kind {
            kind::HEADERS => self.headers(head, payload, sink, out)?,
            kind::CONTINUATION => self.continuation(head, payload, sink, out)?,
            _ => self.control(head, payload, out)?,
        };
        Ok(Received { used, event })
    }

    /// What a frame may hold. DATA is taken as it comes; anything else waits in memory until it is there, and holds no more
    /// than two strings of the largest size, or what every frame may hold (RFC 9113 §4.2).
    fn payload_max(&self, kind: u8) -> u32 {
        let announced = self.config.settings.max_frame_size;
        if kind == kind::DATA {
            return announced;
        }
        let two_strings = self.config.head_limits.string_bytes_max.saturating_mul(2);
        announced.min(u32::try_from(two_strings).unwrap_or(u32::MAX).max(frame::PAYLOAD_BYTES_DEFAULT))
    }

    fn control(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static, T>>, ConnectionError> {
        match head.kind {
            kind::WINDOW_UPDATE => self.window_update(head, payload, out),
            kind::SETTINGS => self.settings(head, payload, out),
            kind::RST_STREAM => self.rst_stream(head, payload),
            kind::PING => self.ping_frame(head, payload, out),
            kind::PRIORITY => self.priority(head, payload).map(|()| None),
            kind::GOAWAY => self.goaway_frame(head, payload),
            kind::PRIORITY_UPDATE => self.priority_update(head, payload).map(|()| None),
            _ => self.count(Nuisance::Stray).map(|()| None),
        }
    }

    pub(super) fn count(&mut self, kind: Nuisance) -> Result<(), ConnectionError> {
        Ok(self.flood.count(kind, &self.config.flood)?)
    }

    fn preface<'a>(&mut self, input: &'a [u8]) -> Result<Received<'a, T>, ConnectionError> {
        let done = PREFACE.len() - self.preface_left;
        let count = input.len().min(self.preface_left);
        if input[..count] != PREFACE[done..done + count] {
            return Err(ConnectionError::protocol("invalid connection preface"));
        }
        self.preface_left -= count;
        Ok(quiet(count))
    }

    // DATA (RFC 9113 §6.1).

    fn data<'a>(
        &mut self,
        head: FrameHead,
        input: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<Received<'a, T>, ConnectionError> {
        if head.stream == 0 || self.is_idle(head.stream) {
            return Err(ConnectionError::protocol("DATA frame with incorrect identifier"));
        }
        let mut used = HEAD_BYTES;
        let mut padding = 0;
        if head.has(flag::PADDED) {
            if head.len == 0 {
                return Err(ConnectionError::size("padded DATA frame with incorrect length: 0"));
            }
            let Some(&byte) = input.get(HEAD_BYTES) else { return Ok(quiet(0)) };
            padding = u32::from(byte);
            used += 1;
            if padding >= head.len {
                let text =
                    format!("padded DATA frame with incorrect length: {}, padding: {padding}", head.len);
                return Err(ConnectionError::protocol(text));
            }
        }
        if !self.receive_window.receive(head.len) {
            let text = format!(
                "violated connection flow control: received DATA frame length {}, available window {}",
                head.len,
                self.receive_window.left()
            );
            return Err(ConnectionError::new(ErrorCode::FLOW_CONTROL_ERROR, text));
        }
        let fixed = (used - HEAD_BYTES) as u32;
        let left = head.len - fixed - padding;
        let end = head.has(flag::END_STREAM);
        if left == 0 && !end {
            self.count(Nuisance::Empty)?;
        }
        let mut mismatch = false;
        let reset = match self.judge_data(head, left, end)? {
            Judged::Wanted => {
                self.data = Some(DataFrame { stream: head.stream, left, padding, end });
                // Padding is no concern of the caller's.
                self.consume(head.stream, fixed + padding, out);
                None
            }
            Judged::Mismatch => {
                self.data = Some(DataFrame { stream: 0, left, padding, end: false });
                self.receive_window.consume(fixed + padding);
                mismatch = true;
                None
            }
            Judged::Unwanted(code) => {
                self.data = Some(DataFrame { stream: 0, left, padding, end: false });
                // The bytes of the payload are consumed as they come.
                self.receive_window.consume(fixed + padding);
                code
            }
        };
        if mismatch {
            return Ok(told(used, self.mismatch(head.stream)));
        }
        if let Some(code) = reset
            && let Some(event) = self.break_stream(head.stream, code, out)?
        {
            return Ok(told(used, event));
        }
        self.data_part(input, used, out)
    }

    /// Whether anybody wants the data; if not, perhaps the code to reset the stream with.
    fn judge_data(&mut self, head: FrameHead, left: u32, end: bool) -> Result<Judged, ConnectionError> {
        let given_up = self.reset_by_us.has(head.stream);
        let Some(stream) = self.streams.get_mut(head.stream) else {
            if given_up {
                // As much as its window was may be under way; sending it in crumbs is another matter.
                if left < 64 {
                    self.count(Nuisance::Stray)?;
                }
                return Ok(Judged::Unwanted(None));
            }
            self.count(Nuisance::Stray)?;
            return Ok(Judged::Unwanted(Some(ErrorCode::STREAM_CLOSED)));
        };
        // RFC 9113 §8.1.1.
        let left = u64::from(left);
        let mismatch = stream.expected.is_some_and(|expected| left > expected || (end && left < expected));
        let code = if stream.receive == Half::Closed {
            if given_up {
                return Ok(Judged::Unwanted(None));
            }
            ErrorCode::STREAM_CLOSED
        } else if stream.receive == Half::Head {
            ErrorCode::PROTOCOL_ERROR
        } else if mismatch {
            self.count(Nuisance::Reset)?;
            return Ok(Judged::Mismatch);
        } else if stream.receive_window.receive(head.len) {
            stream.expected = stream.expected.map(|expected| expected - left);
            return Ok(Judged::Wanted);
        } else {
            ErrorCode::FLOW_CONTROL_ERROR
        };
        Ok(Judged::Unwanted(Some(code)))
    }

    /// Gives what has come of a DATA frame; `used` bytes of `input` are done with.
    fn data_part<'a>(
        &mut self,
        input: &'a [u8],
        used: usize,
        out: &mut Vec<u8>,
    ) -> Result<Received<'a, T>, ConnectionError> {
        let Some(frame) = &mut self.data else { return Ok(quiet(used)) };
        let rest = &input[used..];
        let count = rest.len().min(frame.left as usize);
        let (data, behind) = rest.split_at(count);
        frame.left -= count as u32;
        let skipped = if frame.left == 0 { behind.len().min(frame.padding as usize) } else { 0 };
        frame.padding -= skipped as u32;
        let DataFrame { stream, left, padding, end } = *frame;
        if left == 0 && padding == 0 {
            self.data = None;
        }
        let used = used + count + skipped;
        if stream == 0 {
            self.receive_window.consume(count as u32);
            self.update_connection_window(out);
            return Ok(quiet(used));
        }
        let is_end = left == 0 && end;
        if left == 0
            && let Some(frame) = &mut self.data
        {
            // Only padding is left of it.
            frame.stream = 0;
        }
        let value = if is_end { self.end_receive(stream) } else { None };
        if count == 0 && !is_end {
            return Ok(quiet(used));
        }
        Ok(told(used, Event::Data { stream, data, end: is_end, value }))
    }

    /// A body is not what it was said to be; whatever else comes of it is not looked at.
    pub(super) fn mismatch<'a>(&mut self, id: u32) -> Event<'a, T> {
        self.reset_by_us.push(id);
        self.end_receive(id);
        Event::Mismatch { stream: id }
    }

    /// The peer has said all on a stream. Gives what was kept with it if we have, too.
    pub(super) fn end_receive(&mut self, id: u32) -> Option<T> {
        let stream = self.streams.get_mut(id)?;
        stream.receive = Half::Closed;
        if stream.send == Half::Closed { self.remove(id).map(|stream| stream.data) } else { None }
    }

    /// A stream error (RFC 9113 §5.4.2): resets it. An event, if the stream was there.
    pub(super) fn break_stream<'a>(
        &mut self,
        id: u32,
        code: ErrorCode,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'a, T>>, ConnectionError> {
        // Streams that the peer makes us reset count as those that it resets itself (CVE-2025-8671).
        self.count(Nuisance::Reset)?;
        frame::write_rst_stream(id, code, out);
        self.reset_by_us.push(id);
        let Some(stream) = self.remove(id) else { return Ok(None) };
        Ok(Some(Event::Reset { stream: id, code, by_peer: false, value: stream.data }))
    }

    // RST_STREAM (§6.4).

    fn rst_stream(
        &mut self,
        head: FrameHead,
        payload: &[u8],
    ) -> Result<Option<Event<'static, T>>, ConnectionError> {
        let code = match frame::u32_of(payload) {
            Some(code) if payload.len() == 4 => ErrorCode(code),
            _ => return Err(incorrect_length("RST_STREAM", payload)),
        };
        if head.stream == 0 || self.is_idle(head.stream) {
            return Err(ConnectionError::protocol("RST_STREAM frame with incorrect identifier"));
        }
        // Cancelling what was answered already costs nothing; anything else was work for nothing.
        self.count(Nuisance::Reset)?;
        let Some(stream) = self.remove(head.stream) else { return Ok(None) };
        Ok(Some(Event::Reset { stream: head.stream, code, by_peer: true, value: stream.data }))
    }

    // SETTINGS (§6.5).

    fn settings(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static, T>>, ConnectionError> {
        if head.stream != 0 {
            return Err(ConnectionError::protocol("SETTINGS frame with incorrect identifier"));
        }
        if head.has(flag::ACK) {
            if !payload.is_empty() {
                return Err(ConnectionError::size("SETTINGS frame with the ACK flag and nonzero length"));
            }
            if self.settings_unacked == 0 {
                return self.count(Nuisance::Stray).map(|()| None);
            }
            self.settings_unacked -= 1;
            return Ok(Some(Event::SettingsAck));
        }
        self.count(Nuisance::Echo)?;
        let before = self.peer.initial_window_size;
        self.peer.apply(payload)?;
        frame::write_settings_ack(out);
        self.change_windows(i64::from(self.peer.initial_window_size) - i64::from(before))?;
        if self.peer.no_rfc7540_priorities {
            self.scheduler.use_urgency(&mut self.streams);
        }
        Ok(Some(Event::Settings))
    }

    /// The peer's initial window changes those of all streams (§6.9.2).
    fn change_windows(&mut self, by: i64) -> Result<(), ConnectionError> {
        if by == 0 {
            return Ok(());
        }
        for stream in self.streams.iter_mut() {
            if stream.send_window.grow(by).is_err() {
                let text = "SETTINGS frame with an INITIAL_WINDOW_SIZE that overflows a stream's window";
                return Err(ConnectionError::new(ErrorCode::FLOW_CONTROL_ERROR, text));
            }
            self.scheduler.update(stream);
        }
        Ok(())
    }

    // PING (§6.7).

    fn ping_frame(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static, T>>, ConnectionError> {
        let Ok(bytes) = <[u8; 8]>::try_from(payload) else { return Err(incorrect_length("PING", payload)) };
        if head.stream != 0 {
            return Err(ConnectionError::protocol("PING frame with incorrect identifier"));
        }
        self.count(Nuisance::Echo)?;
        if head.has(flag::ACK) {
            return Ok(Some(Event::Pong(bytes)));
        }
        frame::write_ping(bytes, true, out);
        Ok(None)
    }

    // GOAWAY (§6.8).

    fn goaway_frame(
        &mut self,
        head: FrameHead,
        payload: &[u8],
    ) -> Result<Option<Event<'static, T>>, ConnectionError> {
        let (Some(last), Some(code)) = (frame::u32_of(payload), payload.get(4..).and_then(frame::u32_of))
        else {
            return Err(incorrect_length("GOAWAY", payload));
        };
        if head.stream != 0 {
            return Err(ConnectionError::protocol("GOAWAY frame with incorrect identifier"));
        }
        self.count(Nuisance::Stray)?;
        Ok(Some(Event::GoAway { last: last & WINDOW_MAX, code: ErrorCode(code) }))
    }

    // WINDOW_UPDATE (§6.9).

    fn window_update(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'static, T>>, ConnectionError> {
        let increment = match frame::u32_of(payload) {
            Some(increment) if payload.len() == 4 => increment & WINDOW_MAX,
            _ => return Err(incorrect_length("WINDOW_UPDATE", payload)),
        };
        self.count(Nuisance::Window)?;
        if head.stream == 0 {
            let text = if increment == 0 {
                "WINDOW_UPDATE frame with incorrect window increment 0".to_string()
            } else if self.send_window.grow(i64::from(increment)).is_ok() {
                return Ok(Some(Event::Window));
            } else {
                format!(
                    "violated connection flow control: received WINDOW_UPDATE frame with window increment {increment}"
                )
            };
            let code = if increment == 0 { ErrorCode::PROTOCOL_ERROR } else { ErrorCode::FLOW_CONTROL_ERROR };
            return Err(ConnectionError::new(code, text));
        }
        if self.is_idle(head.stream) {
            return Err(ConnectionError::protocol("WINDOW_UPDATE frame with incorrect identifier"));
        }
        let Some(stream) = self.streams.get_mut(head.stream) else { return Ok(None) };
        let code = if increment == 0 {
            ErrorCode::PROTOCOL_ERROR
        } else if stream.send_window.grow(i64::from(increment)).is_ok() {
            self.scheduler.update(stream);
            return Ok(Some(Event::Window));
        } else {
            ErrorCode::FLOW_CONTROL_ERROR
        };
        self.break_stream(head.stream, code, out)
    }

    // PRIORITY (§6.3, RFC 7540 §5.3) and PRIORITY_UPDATE (RFC 9218 §7.1).

    fn priority(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), ConnectionError> {
        let Ok(bytes) = <&[u8; 5]>::try_from(payload) else {
            return Err(incorrect_length("PRIORITY", payload));
        };
        if head.stream == 0 {
            return Err(ConnectionError::protocol("PRIORITY frame with incorrect identifier"));
        }
        self.count(Nuisance::Priority)?;
        let dependency = Dependency::parse(bytes);
        self.depend(head.stream, dependency, "PRIORITY")
    }

    /// RFC 7540 §5.3.1: a stream cannot depend on itself.
    pub(super) fn depend(
        &mut self,
        id: u32,
        dependency: Dependency,
        frame: &str,
    ) -> Result<(), ConnectionError> {
        if dependency.on == id {
            let text = format!("{frame} frame for stream {id} with incorrect dependency");
            return Err(ConnectionError::protocol(text));
        }
        if self.role == Role::Server {
            self.scheduler.depend(id, dependency, &mut self.streams);
        }
        Ok(())
    }

    fn priority_update(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), ConnectionError> {
        if head.stream != 0 || self.role == Role::Client {
            return Err(ConnectionError::protocol("PRIORITY_UPDATE frame with incorrect identifier"));
        }
        self.count(Nuisance::Priority)?;
        let Some((id, value)) = payload.split_first_chunk::<4>() else {
            return Err(incorrect_length("PRIORITY_UPDATE", payload));
        };
        let id = u32::from_be_bytes(*id) & WINDOW_MAX;
        if id == 0 {
            return Err(ConnectionError::protocol("PRIORITY_UPDATE frame for no stream"));
        }
        let priority = Priority::parse(value);
        if self.streams.slot(id).is_some() {
            self.set_priority(id, priority);
        } else if self.is_idle(id) && id % 2 == 1 {
            self.scheduler.use_urgency(&mut self.streams);
            self.early.retain(|&(have, _)| have != id && have > self.peer_last);
            if self.early.len() == EARLY_MAX {
                self.early.remove(0);
            }
            self.early.push((id, priority));
        }
        Ok(())
    }
}

/// What becomes of a DATA frame.
enum Judged {
    Wanted,
    /// Skipped: the body ends here.
    Mismatch,
    /// Skipped; with a code the stream is reset.
    Unwanted(Option<ErrorCode>),
}

#[cold]
fn incorrect_length(frame: &str, payload: &[u8]) -> ConnectionError {
    ConnectionError::size(format!("{frame} frame with incorrect length {}", payload.len()))
}
