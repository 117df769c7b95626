//! A connection: the bytes of its streams come in, events and frames go out (RFC 9114 §4, §5, §6).

mod control;
mod request;
mod send;
#[cfg(test)]
mod tests;

use crate::error::{ConnectionError, ErrorCode};
use crate::frame::{self, stream_kind};
use crate::limits::{COPIED_BYTES_MAX, EARLY_MAX, OWN_STREAM_BYTES_MAX};
use crate::qpack::{Decoder, QpackError};
use crate::settings::Settings;
use crate::streams::{Part, Receive, Stream, Streams};
use crate::varint;
pub use brisk_mux::Role;
use brisk_mux::flood::{Flood, FloodLimits, Nuisance};
use brisk_mux::{FieldLimits, HeadSink, LimitError, Priority};
use control::UniStream;
pub use send::Gone;

/// What holds for a connection from its beginning.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// What is announced. The capacity of QPACK's table and the number of blocked streams are obeyed as limits for the peer.
    pub settings: Settings,
    /// Requests that are served at a time: QUIC limits the peer's streams, this one those that are over and still worked on as well.
    pub streams_max: usize,
    /// Bounds of the peer's heads.
    pub head_limits: FieldLimits,
    /// How much of what costs work and brings nothing is borne.
    pub flood: FloodLimits,
    /// Which reserved setting is announced (RFC 9114 §7.2.4.1), if any.
    pub reserved: Option<u64>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            settings: Settings {
                qpack_max_table_capacity: 4096,
                qpack_blocked_streams: 16,
                enable_connect_protocol: true,
                ..Settings::default()
            },
            streams_max: 128,
            head_limits: FieldLimits::default(),
            flood: FloodLimits::default(),
            reserved: None,
        }
    }
}

/// What becomes of a stream that the peer has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Its bytes are to be given to [`Connection::receive`].
    Taken,
    /// Nothing is kept of it: the caller resets it and stops the peer's side with this code.
    Refused(ErrorCode),
}

/// Our own unidirectional streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// SETTINGS, GOAWAY. It has something to send from the beginning.
    Control,
    /// Instructions of our decoder; begun when there is one.
    Decoder,
}

/// What the peer has done.
#[derive(Debug)]
pub enum Event<'a, T> {
    /// A request (for a server) or response has begun; its fields went to the sink.
    Head {
        /// The stream.
        stream: u64,
        /// It has no body.
        end: bool,
        /// Bytes of its field section.
        bytes: usize,
    },
    /// An interim response (RFC 9110 §15.2).
    Interim {
        /// The stream.
        stream: u64,
    },
    /// Fields behind a body: its end.
    Trailers {
        /// The stream.
        stream: u64,
    },
    /// A piece of a body. Its last one may be empty.
    Data {
        /// The stream.
        stream: u64,
        /// The piece.
        data: &'a [u8],
        /// The body ends with it.
        end: bool,
        /// What was kept with the stream, if both sides have said all now and it is no more.
        value: Option<T>,
    },
    /// A body is not as long as its head has announced (RFC 9114 §4.1.2): it ends here. The caller may still answer, and then resets
    /// the stream with H3_MESSAGE_ERROR; what else comes is dropped.
    Mismatch {
        /// The stream.
        stream: u64,
    },
    /// A head, or trailers, are larger than they may be. The caller may answer; what else comes is dropped.
    TooLarge {
        /// The stream.
        stream: u64,
        /// The limit.
        limit: LimitError,
        /// It is the head of the request or response, of which nothing was told yet; otherwise trailers.
        is_head: bool,
    },
    /// A stream is over before its time.
    Reset {
        /// The stream.
        stream: u64,
        /// Why.
        code: ErrorCode,
        /// The peer has reset or stopped it; otherwise it broke a rule. In both cases the caller resets its side with the code, and stops
        /// the peer's.
        by_peer: bool,
        /// What was kept with the stream.
        value: T,
    },
    /// A stream of a type that is not known: the caller stops it with H3_STREAM_CREATION_ERROR (RFC 9114 §6.2).
    Unknown {
        /// The stream.
        stream: u64,
    },
    /// The peer has announced settings.
    Settings,
    /// A stream has another priority: see [`Connection::priority`].
    Priority {
        /// The stream.
        stream: u64,
    },
    /// The peer takes no new streams.
    GoAway {
        /// For a client: it has not looked at streams from this one on.
        id: u64,
    },
}

/// One side of a connection. `T` is what the caller keeps with each request's stream.
#[derive(Debug)]
pub struct Connection<T> {
    role: Role,
    config: Config,
    peer: Option<Settings>,
    qpack: Decoder,
    streams: Streams<T>,
    /// The peer's unidirectional streams that are open.
    uni: Vec<UniStream>,
    /// Which of the peer's critical streams have begun, as bits by type.
    critical: u8,
    /// Streams that wait for insertions, with how many.
    blocked: Vec<(u64, u64)>,
    /// What our unidirectional streams have not sent.
    control_out: Vec<u8>,
    decoder_out: Vec<u8>,
    decoder_begun: bool,
    /// The number of the next request that the peer begins.
    next_request: u64,
    /// Bytes that insertions have copied and that were not counted as useless.
    copied: u64,
    flood: Flood,
    /// Priorities of streams that have not begun (RFC 9218 §7).
    early: Vec<(u64, Priority)>,
    /// The first request that we do not serve, as told in GOAWAY.
    goaway: Option<u64>,
    /// The last number that the peer's GOAWAY has named.
    peer_goaway: Option<u64>,
    /// What MAX_PUSH_ID has said.
    push_max: Option<u64>,
    /// Streams that are over here but still being worked on: they count as open.
    busy: usize,
}

/// Bit 0 of a stream's number: the server has begun it. Bit 1: it is unidirectional (RFC 9000 §2.1).
const BY_SERVER: u64 = 1;
const UNI: u64 = 2;
/// What GOAWAY names when nothing is refused yet: the largest number of a client's request.
const ALL_REQUESTS: u64 = varint::INTEGER_MAX - 3;

impl<T> Connection<T> {
    /// A connection. `second`: see [`Connection::tick`].
    pub fn new(role: Role, config: Config, second: u64) -> Connection<T> {
        let mut control_out = Vec::with_capacity(32);
        varint::encode(stream_kind::CONTROL, &mut control_out);
        config.settings.write(config.reserved, &mut control_out);
        Connection {
            role,
            config,
            peer: None,
            qpack: Decoder::new(config.settings.qpack_max_table_capacity as usize),
            streams: Streams::default(),
            uni: Vec::new(),
            critical: 0,
            blocked: Vec::new(),
            control_out,
            decoder_out: Vec::new(),
            decoder_begun: false,
            next_request: 0,
            copied: 0,
            flood: Flood::new(second),
            early: Vec::new(),
            goaway: None,
            peer_goaway: None,
            push_max: None,
            busy: 0,
        }
    }

    /// It is this late, in seconds of any clock: the counters of useless work forget with time.
    #[inline]
    pub fn tick(&mut self, second: u64) {
        self.flood.tick(second, &self.config.flood);
    }

    /// What the peer has announced; `None` before its SETTINGS.
    pub fn peer_settings(&self) -> Option<&Settings> {
        self.peer.as_ref()
    }

    /// Requests that are open.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether no request is open.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Whether a stream has begun whose head has not come as a whole, or waits for QPACK's table: the peer is to send the rest.
    pub fn awaits_head(&self, stream: u64) -> bool {
        self.streams.get(&stream).is_some_and(|stream| stream.receive == Receive::Head)
    }

    /// Whether the request is there.
    pub fn has(&self, stream: u64) -> bool {
        self.streams.contains_key(&stream)
    }

    /// What the caller keeps with a request.
    pub fn value(&self, stream: u64) -> Option<&T> {
        self.streams.get(&stream).map(|stream| &stream.data)
    }

    /// The same, to be changed.
    pub fn value_mut(&mut self, stream: u64) -> Option<&mut T> {
        self.streams.get_mut(&stream).map(|stream| &mut stream.data)
    }

    /// What the caller keeps with each of the requests.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.streams.values().map(|stream| &stream.data)
    }

    /// Numbers of all requests.
    pub fn ids(&self) -> Vec<u64> {
        self.streams.keys().copied().collect()
    }

    /// How many requests that are over are still being worked on. They count as open: a client that cancels its
    /// requests has no more of them in work than one that waits for the answers (the rapid reset attack).
    pub fn set_busy(&mut self, count: usize) {
        self.busy = count;
    }

    /// What `Content-Length` has announced: DATA must come to exactly that (RFC 9114 §4.1.2).
    pub fn expect(&mut self, stream: u64, length: Option<u64>) {
        if let Some(Stream { receive: receive @ Receive::Body(_), .. }) = self.streams.get_mut(&stream) {
            *receive = Receive::Body(length);
        }
    }

    /// The stream is a tunnel now: nothing but DATA may come (RFC 9114 §4.4, RFC 9220 §3).
    pub fn open_tunnel(&mut self, stream: u64) {
        if let Some(Stream { receive: receive @ Receive::Body(_), .. }) = self.streams.get_mut(&stream) {
            *receive = Receive::Tunnel;
        }
    }

    /// A request's priority.
    pub fn priority(&self, stream: u64) -> Priority {
        self.streams.get(&stream).map(|stream| stream.priority).unwrap_or_default()
    }

    /// What the request's `Priority` field says; a PRIORITY_UPDATE frame stands above it (RFC 9218 §7).
    pub fn set_priority(&mut self, stream: u64, priority: Priority) {
        if let Some(stream) = self.streams.get_mut(&stream).filter(|stream| !stream.is_updated) {
            stream.priority = priority;
        }
    }

    /// Other limits for heads from now on.
    pub fn set_head_limits(&mut self, limits: FieldLimits) {
        self.config.head_limits = limits;
    }

    /// Bytes of memory besides its own.
    pub fn memory(&self) -> usize {
        let sections: usize = self.streams.values().map(|stream| stream.section.capacity()).sum();
        let payloads: usize = self.uni.iter().map(UniStream::memory).sum();
        self.qpack.memory()
            + self.streams.capacity() * size_of::<(u64, Stream<T>)>()
            + sections
            + payloads
            + self.uni.capacity() * size_of::<UniStream>()
            + self.blocked.capacity() * size_of::<(u64, u64)>()
            + self.early.capacity() * size_of::<(u64, Priority)>()
            + self.control_out.capacity()
            + self.decoder_out.capacity()
    }

    /// Gives back what is not needed while there are no requests.
    pub fn trim(&mut self) {
        self.qpack.trim();
        if self.streams.is_empty() {
            self.streams = Streams::default();
        }
        for out in [&mut self.control_out, &mut self.decoder_out] {
            if out.is_empty() {
                *out = Vec::new();
            }
        }
    }

    /// What one of our unidirectional streams has to send. The caller takes from the front what the stream has taken, and begins the
    /// stream when there is something for the first time.
    pub fn own_output(&mut self, own: Own) -> &mut Vec<u8> {
        match own {
            Own::Control => &mut self.control_out,
            Own::Decoder => &mut self.decoder_out,
        }
    }

    fn count(&mut self, kind: Nuisance) -> Result<(), ConnectionError> {
        Ok(self.flood.count(kind, &self.config.flood)?)
    }

    /// Whether the peer has begun the stream.
    fn is_by_peer(&self, stream: u64) -> bool {
        (stream & BY_SERVER == 0) == (self.role == Role::Server)
    }
}

impl<T: Default> Connection<T> {
    /// The peer has begun a stream. To be called for each in the order of their numbers, by kind; QUIC begins those below with it
    /// (RFC 9000 §3.2).
    pub fn begin(&mut self, stream: u64) -> Result<Begun, ConnectionError> {
        debug_assert!(self.is_by_peer(stream));
        if stream & UNI != 0 {
            return self.begin_uni(stream);
        }
        if self.role == Role::Client {
            // RFC 9114 §6.1: servers begin no bidirectional streams.
            let text = format!("bidirectional stream {stream}");
            return Err(ConnectionError::new(ErrorCode::STREAM_CREATION_ERROR, text));
        }
        self.next_request = self.next_request.max(stream + 4);
        if self.goaway.is_some_and(|first| stream >= first) {
            // RFC 9114 §5.2: the peer knows that it is not looked at.
            return self.refused(stream);
        }
        if self.streams.len() + self.busy >= self.config.streams_max {
            return self.refused(stream);
        }
        self.insert(stream, T::default());
        Ok(Begun::Taken)
    }

    fn refused(&mut self, stream: u64) -> Result<Begun, ConnectionError> {
        self.count(Nuisance::Stray)?;
        self.early.retain(|&(of, _)| of != stream);
        self.cancel_sections(stream)?;
        Ok(Begun::Refused(ErrorCode::REQUEST_REJECTED))
    }

    /// A client begins a request, on a stream that QUIC has given it. The caller asks [`Connection::can_open`] first.
    pub fn open(&mut self, stream: u64, value: T) {
        self.insert(stream, value);
    }

    /// Takes what has come on a stream from the front of `input`, up to the next event. `fin`: the stream ends behind it. To be called again
    /// until there is no event. What is left of the input then belongs to a stream that waits for QPACK's table: it is to be given again,
    /// and nothing more be read of the stream, when [`Connection::next_unblocked`] names it.
    pub fn receive<'a, S: HeadSink>(
        &mut self,
        stream: u64,
        input: &mut &'a [u8],
        fin: bool,
        sink: &mut S,
    ) -> Result<Option<Event<'a, T>>, ConnectionError> {
        if stream & UNI != 0 {
            return self.receive_uni(stream, input, fin, sink);
        }
        self.receive_request(stream, input, fin, sink)
    }

    /// A stream that waited for QPACK's table and goes on now. To be asked after each call of [`Connection::receive`] for a
    /// unidirectional stream, until there is none.
    pub fn next_unblocked(&mut self) -> Option<u64> {
        let inserts = self.qpack.inserts();
        let at = self.blocked.iter().position(|&(_, required)| required <= inserts)?;
        Some(self.blocked.swap_remove(at).0)
    }

    /// Whether a stream waits for QPACK's table: nothing more is to be read of it for now.
    pub fn is_blocked(&self, stream: u64) -> bool {
        self.blocked.iter().any(|&(of, _)| of == stream)
    }

    /// The peer has reset its side of a stream (RESET_STREAM).
    pub fn peer_reset(
        &mut self,
        stream: u64,
        code: ErrorCode,
    ) -> Result<Option<Event<'static, T>>, ConnectionError> {
        if stream & UNI != 0 {
            return self.end_uni(stream).map(|()| None);
        }
        // What both sides have said all on is no request any more; anything else was work for nothing.
        self.over(stream, code)
    }

    /// The peer does not want to hear more on a stream (STOP_SENDING).
    pub fn peer_stopped(
        &mut self,
        stream: u64,
        code: ErrorCode,
    ) -> Result<Option<Event<'static, T>>, ConnectionError> {
        if stream & UNI != 0 {
            // RFC 9114 §6.2.1, RFC 9204 §4.2: ours are critical.
            return Err(closed_critical());
        }
        // RFC 9114 §4.1: a server that has answered asks a client to stop without having failed.
        if self.role == Role::Client && code == ErrorCode::NO_ERROR {
            if let Some(stream) = self.streams.get_mut(&stream) {
                stream.sends = false;
            }
            return Ok(None);
        }
        self.over(stream, code)
    }

    /// A request that the peer has given up.
    fn over(&mut self, stream: u64, code: ErrorCode) -> Result<Option<Event<'static, T>>, ConnectionError> {
        if !self.has(stream) {
            return Ok(None);
        }
        self.count(Nuisance::Reset)?;
        let Some(value) = self.forget(stream) else { return Ok(None) };
        self.check_own_streams()?;
        Ok(Some(Event::Reset { stream, code, by_peer: true, value }))
    }

    fn insert(&mut self, stream: u64, data: T) {
        let early = self.early.iter().position(|&(of, _)| of == stream);
        let update = early.map(|at| self.early.swap_remove(at).1);
        let state = Stream {
            receive: Receive::Head,
            sends: true,
            part: Part::Head,
            head: frame::Gather::default(),
            section: Vec::new(),
            priority: update.unwrap_or_default(),
            is_updated: update.is_some(),
            data,
        };
        self.streams.insert(stream, state);
    }
}

impl<T> Connection<T> {
    /// Ends a request's life; what was to be decoded of it will not be.
    fn forget(&mut self, stream: u64) -> Option<T> {
        let state = self.streams.remove(&stream)?;
        self.blocked.retain(|&(of, _)| of != stream);
        if state.receive != Receive::Closed {
            // RFC 9204 §2.2.2.2: the peer's encoder may reuse what the stream referred to.
            self.write_decoder(|qpack, out| qpack.cancel(stream, out));
        }
        Some(state.data)
    }

    /// For a stream of which nothing is kept.
    fn cancel_sections(&mut self, stream: u64) -> Result<(), ConnectionError> {
        self.write_decoder(|qpack, out| qpack.cancel(stream, out));
        self.check_own_streams()
    }

    /// Has our decoder say something.
    fn write_decoder(&mut self, write: impl FnOnce(&mut Decoder, &mut Vec<u8>)) {
        let begin = self.decoder_out.len();
        if !self.decoder_begun {
            varint::encode(stream_kind::DECODER, &mut self.decoder_out);
        }
        let start = self.decoder_out.len();
        write(&mut self.qpack, &mut self.decoder_out);
        if self.decoder_out.len() == start {
            // A stream without an instruction need not begin (RFC 9204 §4.2).
            self.decoder_out.truncate(begin);
        } else {
            self.decoder_begun = true;
        }
    }

    /// A peer that gives our streams no room makes us keep what we have to tell it.
    fn check_own_streams(&self) -> Result<(), ConnectionError> {
        if self.control_out.len().max(self.decoder_out.len()) > OWN_STREAM_BYTES_MAX {
            return Err(ConnectionError::load("requests but takes nothing of unidirectional streams"));
        }
        Ok(())
    }

    /// Counts what insertions have made us copy.
    fn count_copied(&mut self) -> Result<(), ConnectionError> {
        self.copied += self.qpack.take_copied();
        while self.copied >= COPIED_BYTES_MAX {
            self.copied -= COPIED_BYTES_MAX;
            self.count(Nuisance::Stray)?;
        }
        Ok(())
    }

    /// Keeps the priority of a stream that has not begun. Of too many the oldest is forgotten: it is a hint (RFC 9218 §7).
    fn keep_early(&mut self, stream: u64, priority: Priority) {
        self.early.retain(|&(of, _)| of != stream);
        if self.early.len() == EARLY_MAX {
            self.early.remove(0);
        }
        self.early.push((stream, priority));
    }
}

#[cold]
fn closed_critical() -> ConnectionError {
    ConnectionError::new(ErrorCode::CLOSED_CRITICAL_STREAM, "end of a critical stream")
}

#[cold]
fn qpack_error(error: QpackError) -> ConnectionError {
    ConnectionError::new(error.code(), error.to_string())
}
