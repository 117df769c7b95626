//! The peer's unidirectional streams: control, QPACK, and those of unknown types (RFC 9114 §6.2, §7.2).

use super::{Connection, Event, Role, closed_critical, qpack_error};
use crate::conn::Begun;
use crate::error::{ConnectionError, ErrorCode};
use crate::frame::{self, FrameHead, Gather, kind, stream_kind};
use crate::limits::{CONTROL_PAYLOAD_BYTES_MAX, UNI_STREAMS_MAX};
use crate::qpack::{Decoder, check_decoder_stream};
use crate::settings::Settings;
use crate::varint;
use brisk_mux::flood::Nuisance;
use brisk_mux::{FieldSink, Priority};

/// What a unidirectional stream is.
#[derive(Debug)]
enum Uni {
    /// Its type has not come.
    Unknown(Gather),
    Control(Control),
    Encoder,
    /// With an instruction that has not come as a whole.
    Decoder(Vec<u8>),
}

/// Where in its frames the control stream is.
#[derive(Debug)]
enum Control {
    Head(Gather),
    Payload { kind: u64, left: usize, bytes: Vec<u8> },
    Skip(u64),
}

#[derive(Debug)]
pub(super) struct UniStream {
    pub(super) id: u64,
    uni: Uni,
}

impl UniStream {
    pub(super) fn memory(&self) -> usize {
        match &self.uni {
            Uni::Control(Control::Payload { bytes, .. }) | Uni::Decoder(bytes) => bytes.capacity(),
            _ => 0,
        }
    }
}

impl<T: Default> Connection<T> {
    pub(super) fn begin_uni(&mut self, stream: u64) -> Result<Begun, ConnectionError> {
        if self.uni.len() == UNI_STREAMS_MAX {
            self.count(Nuisance::Stray)?;
            return Ok(Begun::Refused(ErrorCode::STREAM_CREATION_ERROR));
        }
        self.uni.push(UniStream { id: stream, uni: Uni::Unknown(Gather::default()) });
        Ok(Begun::Taken)
    }

    /// A unidirectional stream is over, by its end or by a reset.
    pub(super) fn end_uni(&mut self, stream: u64) -> Result<(), ConnectionError> {
        let Some(at) = self.uni.iter().position(|uni| uni.id == stream) else { return Ok(()) };
        match self.uni.swap_remove(at).uni {
            // RFC 9114 §6.2.1, RFC 9204 §4.2.
            Uni::Control(_) | Uni::Encoder | Uni::Decoder(_) => Err(closed_critical()),
            Uni::Unknown(_) => Ok(()),
        }
    }

    pub(super) fn receive_uni<'a, S: FieldSink>(
        &mut self,
        stream: u64,
        input: &mut &'a [u8],
        fin: bool,
        sink: &mut S,
    ) -> Result<Option<Event<'a, T>>, ConnectionError> {
        while let Some(at) = self.uni.iter().position(|uni| uni.id == stream) {
            if input.is_empty() {
                if fin {
                    self.end_uni(stream)?;
                }
                return Ok(None);
            }
            // Taken out while it is worked on; an error ends the connection.
            let mut uni = self.uni.swap_remove(at).uni;
            let event = self.take_uni(stream, &mut uni, input, sink)?;
            if matches!(event, Some(Event::Unknown { .. })) {
                // What else comes of it is dropped until the peer hears that it is not wanted.
                *input = &[];
                return Ok(event);
            }
            self.uni.push(UniStream { id: stream, uni });
            if event.is_some() {
                return Ok(event);
            }
        }
        *input = &[];
        Ok(None)
    }

    fn take_uni<S: FieldSink>(
        &mut self,
        stream: u64,
        uni: &mut Uni,
        input: &mut &[u8],
        sink: &mut S,
    ) -> Result<Option<Event<'static, T>>, ConnectionError> {
        match uni {
            Uni::Unknown(gather) => {
                let Some(kind) = gather.take(input, varint::decode) else { return Ok(None) };
                match self.uni_of(kind)? {
                    Some(known) => *uni = known,
                    None => return Ok(Some(Event::Unknown { stream })),
                }
                Ok(None)
            }
            Uni::Control(control) => self.control(control, input),
            Uni::Encoder => {
                let bytes = std::mem::take(input);
                self.qpack.instructions(bytes, sink).map_err(qpack_error)?;
                self.count_copied()?;
                self.write_decoder(Decoder::acknowledge_inserts);
                self.check_own_streams().map(|()| None)
            }
            Uni::Decoder(partial) => {
                let bytes = std::mem::take(input);
                if partial.is_empty() {
                    let rest = check_decoder_stream(bytes).map_err(qpack_error)?;
                    partial.extend_from_slice(rest);
                    return Ok(None);
                }
                partial.extend_from_slice(bytes);
                let rest = check_decoder_stream(partial).map_err(qpack_error)?.len();
                partial.drain(..partial.len() - rest);
                Ok(None)
            }
        }
    }

    /// What a stream is by its type (RFC 9114 §6.2); `None`: nothing that is known.
    fn uni_of(&mut self, kind: u64) -> Result<Option<Uni>, ConnectionError> {
        let uni = match kind {
            stream_kind::CONTROL => Uni::Control(Control::Head(Gather::default())),
            stream_kind::ENCODER => Uni::Encoder,
            stream_kind::DECODER => Uni::Decoder(Vec::new()),
            // §6.2.2: only servers push, and a server only what MAX_PUSH_ID, which we never send, allows (§4.6).
            stream_kind::PUSH if self.role == Role::Server => {
                return Err(ConnectionError::new(ErrorCode::STREAM_CREATION_ERROR, "push stream"));
            }
            stream_kind::PUSH => return Err(ConnectionError::id("push stream")),
            _ => {
                // Reserved types are harmless in the number that a connection has; more are a flood.
                self.count(Nuisance::Stray)?;
                return Ok(None);
            }
        };
        // §6.2.1, RFC 9204 §4.2: one of each.
        let bit = 1 << kind;
        if self.critical & bit != 0 {
            let text = format!("second stream of type {kind}");
            return Err(ConnectionError::new(ErrorCode::STREAM_CREATION_ERROR, text));
        }
        self.critical |= bit;
        Ok(Some(uni))
    }

    fn control(
        &mut self,
        control: &mut Control,
        input: &mut &[u8],
    ) -> Result<Option<Event<'static, T>>, ConnectionError> {
        match control {
            Control::Head(gather) => {
                let Some(head) = gather.take(input, FrameHead::parse) else { return Ok(None) };
                *control = self.control_frame(head)?;
                // A frame without payload is there as a whole.
                match control {
                    Control::Payload { kind, left: 0, .. } => {
                        let kind = *kind;
                        *control = Control::Head(Gather::default());
                        self.control_payload(kind, &[])
                    }
                    _ => Ok(None),
                }
            }
            Control::Payload { kind, left, bytes } => {
                let kind = *kind;
                let count = input.len().min(*left);
                let (part, rest) = input.split_at(count);
                *input = rest;
                *left -= count;
                if *left > 0 {
                    bytes.extend_from_slice(part);
                    return Ok(None);
                }
                let before = std::mem::take(bytes);
                *control = Control::Head(Gather::default());
                if before.is_empty() {
                    return self.control_payload(kind, part);
                }
                let payload = [&before, part].concat();
                self.control_payload(kind, &payload)
            }
            Control::Skip(left) => {
                skip(left, input);
                if *left == 0 {
                    *control = Control::Head(Gather::default());
                }
                Ok(None)
            }
        }
    }

    /// Which frames may come on the control stream (RFC 9114 §7.2, table 1).
    fn control_frame(&mut self, head: FrameHead) -> Result<Control, ConnectionError> {
        if self.peer.is_none() && head.kind != kind::SETTINGS {
            // §6.2.1.
            let text = "frames before SETTINGS";
            return Err(ConnectionError::new(ErrorCode::MISSING_SETTINGS, text));
        }
        match head.kind {
            kind::SETTINGS if self.peer.is_some() => {
                return Err(ConnectionError::unexpected("second SETTINGS frame"));
            }
            kind::MAX_PUSH_ID | kind::PRIORITY_UPDATE | kind::PRIORITY_UPDATE_PUSH
                if self.role == Role::Client =>
            {
                let text = format!("frame of type {:#x}, which is a client's", head.kind);
                return Err(ConnectionError::unexpected(text));
            }
            kind::SETTINGS
            | kind::GOAWAY
            | kind::MAX_PUSH_ID
            | kind::CANCEL_PUSH
            | kind::PRIORITY_UPDATE
            | kind::PRIORITY_UPDATE_PUSH => {}
            kind::DATA | kind::HEADERS | kind::PUSH_PROMISE => {
                let text = format!("frame of type {:#x} on the control stream", head.kind);
                return Err(ConnectionError::unexpected(text));
            }
            other if frame::is_of_http2(other) => {
                return Err(ConnectionError::unexpected(format!(
                    "frame of type {other:#x}, which is HTTP/2's"
                )));
            }
            _ => {
                self.count(Nuisance::Stray)?;
                return Ok(Control::Skip(head.len));
            }
        }
        if head.len > CONTROL_PAYLOAD_BYTES_MAX as u64 {
            return Err(ConnectionError::load(format!("frame of {} bytes on the control stream", head.len)));
        }
        Ok(Control::Payload { kind: head.kind, left: head.len as usize, bytes: Vec::new() })
    }

    fn control_payload(
        &mut self,
        kind: u64,
        payload: &[u8],
    ) -> Result<Option<Event<'static, T>>, ConnectionError> {
        let number = || {
            // §7.1: nothing may follow what the type asks for.
            varint::only(payload).ok_or_else(|| {
                ConnectionError::frame(format!("frame of type {kind:#x} with incorrect length"))
            })
        };
        match kind {
            kind::SETTINGS => {
                self.peer = Some(Settings::parse(payload)?);
                Ok(Some(Event::Settings))
            }
            kind::GOAWAY => self.goaway_frame(number()?).map(Some),
            kind::MAX_PUSH_ID => self.max_push_id(number()?).map(|()| None),
            // §7.2.3: nothing was ever promised, and a client's pushes are above what it allows.
            kind::CANCEL_PUSH => {
                let id = number()?;
                Err(ConnectionError::id(format!("CANCEL_PUSH frame for push {id}, which was not promised")))
            }
            _ => self.priority_update(kind, payload),
        }
    }

    /// RFC 9114 §5.2.
    fn goaway_frame(&mut self, id: u64) -> Result<Event<'static, T>, ConnectionError> {
        // A server names a client's request, a client a push.
        if self.role == Role::Client && !id.is_multiple_of(4) {
            return Err(ConnectionError::id(format!("GOAWAY frame with stream {id}")));
        }
        if self.peer_goaway.is_some_and(|before| id > before) {
            return Err(ConnectionError::id(format!("GOAWAY frame with a larger number {id} than before")));
        }
        self.peer_goaway = Some(id);
        Ok(Event::GoAway { id })
    }

    /// RFC 9114 §7.2.7.
    fn max_push_id(&mut self, id: u64) -> Result<(), ConnectionError> {
        self.count(Nuisance::Stray)?;
        if self.push_max.is_some_and(|before| id < before) {
            return Err(ConnectionError::id(format!(
                "MAX_PUSH_ID frame with a smaller number {id} than before"
            )));
        }
        self.push_max = Some(id);
        Ok(())
    }

    /// RFC 9218 §7.2.
    fn priority_update(
        &mut self,
        kind: u64,
        payload: &[u8],
    ) -> Result<Option<Event<'static, T>>, ConnectionError> {
        let Some((stream, used)) = varint::decode(payload) else {
            return Err(ConnectionError::frame("PRIORITY_UPDATE frame with incorrect length"));
        };
        self.count(Nuisance::Priority)?;
        if kind == kind::PRIORITY_UPDATE_PUSH {
            let text = format!("PRIORITY_UPDATE frame for push {stream}, which was not promised");
            return Err(ConnectionError::id(text));
        }
        if !stream.is_multiple_of(4) {
            return Err(ConnectionError::id(format!("PRIORITY_UPDATE frame for stream {stream}")));
        }
        let priority = Priority::parse(&payload[used..]);
        if let Some(state) = self.streams.get_mut(&stream) {
            (state.priority, state.is_updated) = (priority, true);
            return Ok(Some(Event::Priority { stream }));
        }
        // §7.2: it may come before its request. What QUIC does not allow to begin yet is kept all the same: it may be allowed soon.
        if stream >= self.next_request {
            self.keep_early(stream, priority);
        }
        Ok(None)
    }
}

/// Drops what belongs to a frame that means nothing.
pub(super) fn skip(left: &mut u64, input: &mut &[u8]) {
    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
    *input = &input[count..];
    *left -= count as u64;
}
