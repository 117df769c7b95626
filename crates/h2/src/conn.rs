//! A connection: frames come in, events and frames go out (RFC 9113 §5, §6).

mod heads;
mod receive;
mod send;
#[cfg(test)]
mod tests;

use crate::PREFACE;
use crate::error::{ConnectionError, ErrorCode};
use crate::flow::{ReceiveWindow, SendWindow};
use crate::frame::{self, FrameHead, WINDOW_DEFAULT, kind};
use crate::hpack::{Decoder, Limits};
use crate::limits::STREAMS_MAX;
use crate::priority::{Priority, Scheduler};
use crate::settings::Settings;
use crate::streams::{Half, Stream, Streams};
pub use brisk_mux::Role;
use brisk_mux::flood::{Flood, FloodLimits};
pub use brisk_mux::{HeadKind, HeadSink};
use heads::Block;
use receive::DataFrame;

/// What holds for a connection from its beginning.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// What is announced. `max_concurrent_streams` is obeyed as a limit for the peer's streams.
    pub settings: Settings,
    /// How much of all bodies together may come in without having been consumed.
    pub connection_window: u32,
    /// Bounds of the peer's heads.
    pub head_limits: Limits,
    /// How much of what costs work and brings nothing is borne.
    pub flood: FloodLimits,
    /// DATA frames have at most this much payload.
    pub chunk_bytes: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            settings: Settings { max_concurrent_streams: Some(128), ..Settings::default() },
            connection_window: 1 << 20,
            head_limits: Limits::default(),
            flood: FloodLimits::default(),
            chunk_bytes: frame::PAYLOAD_BYTES_DEFAULT,
        }
    }
}

/// What the peer has done.
#[derive(Debug)]
pub enum Event<'a, T> {
    /// A request (for a server) or response has begun; its fields went to the sink.
    Head {
        /// The stream.
        stream: u32,
        /// It has no body.
        end: bool,
        /// Bytes of its header block.
        bytes: usize,
    },
    /// An interim response (RFC 9110 §15.2).
    Interim {
        /// The stream.
        stream: u32,
    },
    /// Fields behind a body: its end.
    Trailers {
        /// The stream.
        stream: u32,
        /// As with [`Event::Data`].
        value: Option<T>,
    },
    /// A piece of a body. Its bytes stay taken from the windows until they are given to [`Connection::consume`].
    Data {
        /// The stream.
        stream: u32,
        /// The piece, without padding.
        data: &'a [u8],
        /// The body ends with it.
        end: bool,
        /// What was kept with the stream, if both sides have said all now and it is no more.
        value: Option<T>,
    },
    /// A body is not as long as its head has announced (RFC 9113 §8.1.1): it ends here. The caller may still answer, and
    /// then resets the stream with PROTOCOL_ERROR.
    Mismatch {
        /// The stream.
        stream: u32,
    },
    /// A stream is over before its time.
    Reset {
        /// The stream.
        stream: u32,
        /// Why.
        code: ErrorCode,
        /// The peer has reset it; otherwise it broke a rule, and was reset by this side.
        by_peer: bool,
        /// What was kept with the stream.
        value: T,
    },
    /// More may be sent than before.
    Window,
    /// The peer has announced settings.
    Settings,
    /// Our SETTINGS were acknowledged.
    SettingsAck,
    /// A PING of ours came back.
    Pong([u8; 8]),
    /// The peer takes no new streams.
    GoAway {
        /// It has not looked at streams above this one.
        last: u32,
        /// Why.
        code: ErrorCode,
    },
}

/// What came of a call of [`Connection::receive`].
#[derive(Debug)]
pub struct Received<'a, T> {
    /// Bytes of the input that are done with. 0 without an event: more is needed.
    pub used: usize,
    /// What has happened, if anything that the caller must know.
    pub event: Option<Event<'a, T>>,
}

/// Streams that we have reset: what is still under way for them is no fault of the peer's (RFC 9113 §5.4.2).
#[derive(Clone, Debug, Default)]
struct Remembered {
    ids: [u32; 32],
    at: usize,
}

impl Remembered {
    fn push(&mut self, id: u32) {
        self.ids[self.at] = id;
        self.at = (self.at + 1) % self.ids.len();
    }

    fn has(&self, id: u32) -> bool {
        self.ids.contains(&id)
    }
}

/// One side of a connection. `T` is what the caller keeps with each stream.
#[derive(Debug)]
pub struct Connection<T> {
    role: Role,
    config: Config,
    peer: Settings,
    /// Bytes of the client's preface that are still to come.
    preface_left: usize,
    /// Our SETTINGS that were not acknowledged.
    settings_unacked: u32,
    decoder: Decoder,
    streams: Streams<T>,
    scheduler: Scheduler,
    send_window: SendWindow,
    receive_window: ReceiveWindow,
    /// The highest stream that the peer has begun.
    peer_last: u32,
    /// Ours (a client's).
    next_id: u32,
    block: Option<Box<Block>>,
    data: Option<DataFrame>,
    flood: Flood,
    reset_by_us: Remembered,
    /// The last stream whose head was given up before it had come as a whole: what still comes of it is no fault, however many others were reset since.
    given_up: Option<u32>,
    closed: Remembered,
    /// Priorities of streams that have not begun (RFC 9218 §7.1).
    early: Vec<(u32, Priority)>,
    /// The last stream that we serve, as told in GOAWAY.
    goaway: Option<u32>,
    /// Streams that are over here but still being worked on: they count as open.
    busy: u32,
}

impl<T> Connection<T> {
    /// A connection; `out` gets what our side begins with. `second`: see [`Connection::tick`].
    pub fn new(role: Role, config: Config, second: u64, out: &mut Vec<u8>) -> Connection<T> {
        let settings = config.settings;
        if role == Role::Client {
            out.extend_from_slice(PREFACE);
        }
        settings.write(out);
        let connection_window = config.connection_window.max(WINDOW_DEFAULT);
        let mut receive_window = ReceiveWindow::new(WINDOW_DEFAULT, connection_window);
        if let Some(increment) = receive_window.update_now() {
            frame::write_window_update(0, increment, out);
        }
        let streams_max = settings.max_concurrent_streams.unwrap_or(100).clamp(100, STREAMS_MAX);
        Connection {
            role,
            config,
            peer: Settings::default(),
            preface_left: if role == Role::Server { PREFACE.len() } else { 0 },
            settings_unacked: 1,
            decoder: Decoder::new(settings.header_table_size as usize),
            streams: Streams::default(),
            scheduler: Scheduler::new(streams_max as usize + 28),
            send_window: SendWindow::new(WINDOW_DEFAULT),
            receive_window,
            peer_last: 0,
            next_id: 1,
            block: None,
            data: None,
            flood: Flood::new(second),
            reset_by_us: Remembered::default(),
            given_up: None,
            closed: Remembered::default(),
            early: Vec::new(),
            goaway: None,
            busy: 0,
        }
    }

    /// A server's side after `Upgrade: h2c` (RFC 7540 §3.2): `settings` is what `HTTP2-Settings` said, and the request
    /// that asked is stream 1.
    pub fn upgrade(&mut self, settings: &[u8], value: T) -> Result<(), ConnectionError> {
        self.peer.apply(settings)?;
        self.peer_last = 1;
        self.insert(1, Half::Closed, Half::Open, value);
        Ok(())
    }

    /// It is this late, in seconds of any clock: the counters of [`flood`](crate::flood) forget with time.
    #[inline]
    pub fn tick(&mut self, second: u64) {
        self.flood.tick(second, &self.config.flood);
    }

    /// What the peer has announced.
    pub fn peer_settings(&self) -> &Settings {
        &self.peer
    }

    /// Streams that are open.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether no stream is open.
    pub fn is_empty(&self) -> bool {
        self.streams.len() == 0
    }

    /// The highest stream that the peer has begun.
    pub fn last_stream(&self) -> u32 {
        self.peer_last
    }

    /// Whether part of a header block has come: the peer owes the rest.
    pub fn is_inside_head(&self) -> bool {
        self.block.is_some()
    }

    /// The stream of a request that has not begun, because its head has not come as a whole. `rest`: the input that was not used, which may be part
    /// of a frame.
    pub fn unfinished_head(&self, rest: &[u8]) -> Option<u32> {
        let stream = match (&self.block, FrameHead::parse(rest)) {
            (Some(block), _) => block.stream,
            (None, Some(head)) if head.kind == kind::HEADERS => head.stream,
            _ => return None,
        };
        (self.role == Role::Server && stream > self.peer_last && stream % 2 == 1).then_some(stream)
    }

    /// Gives such a request up: its stream is reset, and what still comes of its head changes the tables and nothing else. `None`: there is none.
    pub fn give_up_head(&mut self, rest: &[u8], out: &mut Vec<u8>) -> Option<u32> {
        let stream = self.unfinished_head(rest)?;
        self.peer_last = stream;
        self.given_up = Some(stream);
        self.reset_by_us.push(stream);
        frame::write_rst_stream(stream, ErrorCode::PROTOCOL_ERROR, out);
        Some(stream)
    }

    /// Whether the preface has come. That SETTINGS are the first frame (RFC 9113 §3.4) is not insisted on, as in nginx.
    pub fn has_begun(&self) -> bool {
        self.preface_left == 0
    }

    /// Whether the stream is there.
    pub fn has(&self, stream: u32) -> bool {
        self.streams.slot(stream).is_some()
    }

    /// What the caller keeps with a stream.
    pub fn value(&self, stream: u32) -> Option<&T> {
        self.streams.get(stream).map(|stream| &stream.data)
    }

    /// The same, to be changed.
    pub fn value_mut(&mut self, stream: u32) -> Option<&mut T> {
        self.streams.get_mut(stream).map(|stream| &mut stream.data)
    }

    /// What the caller keeps with each of the streams.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.streams.iter().map(|stream| &stream.data)
    }

    /// Ids of all streams.
    pub fn ids(&self) -> Vec<u32> {
        self.streams.iter().map(|stream| stream.id).collect()
    }

    /// How many streams that are over are still being worked on. They count as open: a client that cancels its
    /// streams has no more of them in work than one that waits for the answers (the rapid reset attack).
    pub fn set_busy(&mut self, count: u32) {
        self.busy = count;
    }

    /// What `Content-Length` has announced: DATA must come to exactly that (RFC 9113 §8.1.1).
    pub fn expect(&mut self, stream: u32, length: Option<u64>) {
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.expected = length;
        }
    }

    /// Other limits for heads from now on.
    pub fn set_head_limits(&mut self, limits: Limits) {
        self.config.head_limits = limits;
    }

    /// Bytes of memory besides its own.
    pub fn memory(&self) -> usize {
        self.decoder.memory()
            + self.streams.memory()
            + self.scheduler.memory()
            + self.block.as_ref().map_or(0, |block| size_of::<Block>() + block.bytes.capacity())
            + self.early.capacity() * size_of::<(u32, Priority)>()
    }

    /// Gives back what is not needed while there are no streams.
    pub fn trim(&mut self) {
        self.decoder.trim();
        self.streams.trim();
        self.scheduler.trim();
    }

    fn insert(&mut self, id: u32, receive: Half, send: Half, value: T) {
        let window = self.config.settings.initial_window_size;
        let early = self.early.iter().position(|&(have, _)| have == id);
        let priority = early.map(|at| self.early.swap_remove(at).1).unwrap_or_default();
        self.streams.insert(Stream {
            id,
            receive,
            send,
            send_window: SendWindow::new(self.peer.initial_window_size),
            receive_window: ReceiveWindow::new(window, window),
            expected: None,
            priority,
            chunk: self.config.chunk_bytes,
            ready: false,
            queued: false,
            data: value,
        });
        self.scheduler.open(id);
    }

    /// Ends a stream's life.
    fn remove(&mut self, id: u32) -> Option<Stream<T>> {
        let stream = self.streams.remove(id)?;
        self.scheduler.close(&stream);
        self.closed.push(id);
        // What came and was not consumed is of no use to anyone any more; what is still to come of a frame, which
        // counts as a whole, is consumed as it comes.
        let mut held = stream.receive_window.held();
        if let Some(data) = self.data.as_mut().filter(|data| data.stream == id) {
            held -= data.left.min(held);
            data.stream = 0;
        }
        self.receive_window.consume(held);
        Some(stream)
    }

    /// Whether a stream of this number cannot have been begun.
    fn is_idle(&self, id: u32) -> bool {
        let ours = self.role == Role::Client && id % 2 == 1;
        if ours { id >= self.next_id } else { id.is_multiple_of(2) || id > self.peer_last }
    }
}
