//! One connection, as its owner works on it.

use crate::event::{Closed, Dir, Event};
use crate::limits::{CONNECTION_BYTES, SEGMENTS_MAX, STREAM_BYTES};
use brisk_tls::Agreed;
use brisk_tls::quic::{Handshake, Kept, Origin};
use quinn_proto::{
    ConnectionError, ConnectionHandle, ReadError, ReadableError, Side, StreamEvent, StreamId, VarInt,
    WriteError,
};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

impl From<Dir> for quinn_proto::Dir {
    fn from(dir: Dir) -> quinn_proto::Dir {
        match dir {
            Dir::Bi => quinn_proto::Dir::Bi,
            Dir::Uni => quinn_proto::Dir::Uni,
        }
    }
}

/// What a read has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// So many bytes were appended, at least one; there may be more.
    Some(usize),
    /// Nothing at present; [`Event::Readable`] tells when there is.
    Blocked,
    /// So many bytes were appended, which may be none, and there is no other one. Told once.
    End(usize),
    /// The client has reset the stream with this code. Told once.
    Reset(u64),
    /// No such stream, or its end was told, or it was stopped.
    Gone,
}

/// What a write has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// So many bytes were taken, at least one.
    Some(usize),
    /// None: windows are full; [`Event::Writable`] tells when they are not.
    Blocked,
    /// The client wants no more (STOP_SENDING) and has given this code. The stream has been reset.
    Stopped(u64),
    /// No such stream, or it was finished or reset.
    Gone,
}

/// What an endpoint counts of what has happened to a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Update {
    pub completed: bool,
    pub moved: bool,
    pub timed_out: bool,
}

/// How far a connection is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// What answers the ClientHello is not known.
    Opening,
    /// It may be used; what comes may be a replay.
    Early,
    /// The handshake is complete.
    Established,
    /// [`Event::Closed`] was told.
    Over,
}

/// See the module's head.
pub struct Connection {
    pub(crate) inner: quinn_proto::Connection,
    pub(crate) handle: ConnectionHandle,
    /// The time that the endpoint has for it.
    pub(crate) timer: Option<Instant>,
    /// It is in the endpoint's list of those that may have something to send.
    pub(crate) is_touched: bool,
    /// It counts as half open.
    pub(crate) is_counted: bool,
    /// Sends in the present turn.
    pub(crate) sends: usize,
    pub(crate) socket: u32,
    pub(crate) events: VecDeque<Event>,
    handshake: Arc<Handshake>,
    stage: Stage,
    is_undecided: bool,
    /// The address that was validated last; before the first validation the one that the client came from.
    remote: SocketAddr,
    is_validated: bool,
    /// Streams that the client may have open.
    streams: u64,
    streams_max: u64,
    segments: usize,
    lost: u64,
}

impl Connection {
    pub(crate) fn new(
        inner: quinn_proto::Connection,
        handle: ConnectionHandle,
        handshake: Arc<Handshake>,
        origin: &Origin,
        streams: (u64, u64),
    ) -> Connection {
        Connection {
            inner,
            handle,
            timer: None,
            is_touched: false,
            is_counted: true,
            sends: 0,
            socket: origin.socket,
            events: VecDeque::new(),
            handshake,
            stage: Stage::Opening,
            is_undecided: false,
            remote: origin.remote,
            is_validated: false,
            streams: streams.0,
            streams_max: streams.1,
            segments: 1,
            lost: 0,
        }
    }

    /// Takes what the library has to say.
    pub(crate) fn update(&mut self) -> Update {
        if self.handshake.waits() != self.is_undecided {
            self.is_undecided = !self.is_undecided;
            if self.is_undecided {
                self.events.push_back(Event::Undecided);
            }
        }
        let mut update = Update::default();
        while let Some(event) = self.inner.poll() {
            match event {
                quinn_proto::Event::HandshakeDataReady => {
                    self.stage = Stage::Early;
                    self.events.push_back(Event::Ready);
                }
                quinn_proto::Event::Connected => {
                    update.completed = true;
                    self.stage = Stage::Established;
                    self.events.push_back(Event::Established);
                }
                quinn_proto::Event::ConnectionLost { reason } => {
                    update.timed_out = reason == ConnectionError::TimedOut;
                    self.over(closed(reason));
                }
                quinn_proto::Event::Stream(event) => self.stream(event),
                quinn_proto::Event::DatagramReceived | quinn_proto::Event::DatagramsUnblocked => {}
            }
        }
        update.moved = self.look_at_address();
        update
    }

    /// RFC 9000 §8: an address counts once the client has shown that it receives there.
    /// True if another address was validated.
    fn look_at_address(&mut self) -> bool {
        if self.is_over() || !self.inner.remote_address_is_validated() {
            return false;
        }
        let remote = self.inner.remote_address();
        if !std::mem::replace(&mut self.is_validated, true) {
            self.remote = remote;
            for dir in [Dir::Uni, Dir::Bi] {
                self.events.push_back(Event::Opened(dir));
            }
            return false;
        }
        if remote == self.remote {
            return false;
        }
        self.remote = remote;
        self.events.push_back(Event::Moved);
        true
    }

    fn stream(&mut self, event: StreamEvent) {
        let event = match event {
            // Told when the address is validated: until then a request could claim any.
            StreamEvent::Opened { .. } if !self.is_validated => return,
            StreamEvent::Opened { dir: quinn_proto::Dir::Bi } => Event::Opened(Dir::Bi),
            StreamEvent::Opened { dir: quinn_proto::Dir::Uni } => Event::Opened(Dir::Uni),
            StreamEvent::Readable { id } => Event::Readable(id.into()),
            StreamEvent::Writable { id } => Event::Writable(id.into()),
            StreamEvent::Stopped { id, error_code } => {
                // RFC 9000 §3.5: a STOP_SENDING is answered by a RESET_STREAM.
                let _ = self.inner.send_stream(id).reset(error_code);
                Event::Stopped(id.into(), error_code.into_inner())
            }
            StreamEvent::Finished { id } => Event::Finished(id.into()),
            StreamEvent::Available { .. } => return,
        };
        self.events.push_back(event);
    }

    pub(crate) fn over(&mut self, why: Closed) {
        if !matches!(self.stage, Stage::Over) {
            self.stage = Stage::Over;
            self.events.push_back(Event::Closed(why));
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// A handshake that is not complete counts as half open.
    pub(crate) fn is_half_open(&self) -> bool {
        matches!(self.stage, Stage::Opening | Stage::Early)
    }

    pub(crate) fn decide(&mut self, choice: brisk_tls::quic::Choice, now: Instant) {
        self.handshake.decide(choice);
        self.inner.resume_handshake(now);
    }

    pub(crate) fn lost(&self) -> u64 {
        self.inner.stats().path.lost_packets
    }

    /// Datagrams for the next send: more as long as none is lost, since bursts are what loses them.
    pub(crate) fn segments(&mut self) -> usize {
        let lost = self.lost();
        if lost > self.lost {
            self.lost = lost;
            self.segments = (self.segments / 2).max(1);
        } else {
            self.segments = (self.segments + 1).min(SEGMENTS_MAX);
        }
        self.segments
    }

    /// A stream that the client has opened, in their order; `None` if there is no other one.
    pub fn accept(&mut self, dir: Dir) -> Option<u64> {
        if !self.is_validated {
            return None;
        }
        let id = self.inner.streams().accept(dir.into())?;
        let open = self.inner.streams().remote_open_streams(quinn_proto::Dir::Bi);
        // The limit rises with use: a slot is made for every stream that a client may open.
        if dir == Dir::Bi && self.streams < self.streams_max && open * 2 > self.streams {
            self.streams = (self.streams * 2).min(self.streams_max);
            let streams = VarInt::from_u64(self.streams).unwrap_or(VarInt::MAX);
            self.inner.set_max_concurrent_streams(quinn_proto::Dir::Bi, streams);
        }
        Some(id.into())
    }

    /// Opens a stream; `None` if the client allows no other one at present, or the connection is over.
    pub fn open(&mut self, dir: Dir) -> Option<u64> {
        self.inner.streams().open(dir.into()).map(Into::into)
    }

    /// Appends at most `max` bytes of a stream to `into`.
    pub fn read(&mut self, stream: u64, max: usize, into: &mut Vec<u8>) -> Read {
        let Some(id) = self.receiving(stream).filter(|_| max > 0) else { return Read::Gone };
        let mut stream = self.inner.recv_stream(id);
        let mut chunks = match stream.read(true) {
            Ok(chunks) => chunks,
            Err(ReadableError::ClosedStream | ReadableError::IllegalOrderedRead) => return Read::Gone,
        };
        let before = into.len();
        let read = loop {
            let count = into.len() - before;
            match chunks.next(max - count) {
                Ok(Some(chunk)) => into.extend_from_slice(&chunk.bytes),
                Ok(None) => break Read::End(count),
                Err(ReadError::Reset(code)) => break Read::Reset(code.into_inner()),
                Err(ReadError::Blocked) if count > 0 => break Read::Some(count),
                Err(ReadError::Blocked) => break Read::Blocked,
            }
            if into.len() - before == max {
                break Read::Some(max);
            }
        };
        let _ = chunks.finalize();
        read
    }

    /// Has a stream send these bytes, or some of them.
    pub fn write(&mut self, stream: u64, bytes: &[u8]) -> Written {
        let Some(id) = self.sending(stream) else { return Written::Gone };
        if bytes.is_empty() {
            return Written::Blocked;
        }
        match self.inner.send_stream(id).write(bytes) {
            Ok(count) => Written::Some(count),
            Err(WriteError::Blocked) => Written::Blocked,
            Err(WriteError::Stopped(code)) => Written::Stopped(code.into_inner()),
            Err(WriteError::ClosedStream) => Written::Gone,
        }
    }

    /// Nothing more is written to this stream; what was leaves. False if the stream is gone or was stopped.
    pub fn finish(&mut self, stream: u64) -> bool {
        self.sending(stream).is_some_and(|id| self.inner.send_stream(id).finish().is_ok())
    }

    /// What was written to this stream and has not arrived is given up; the client is told `code`.
    pub fn reset(&mut self, stream: u64, code: u64) {
        if let Some(id) = self.sending(stream) {
            let _ = self.inner.send_stream(id).reset(number(code));
        }
    }

    /// Nothing more is read from this stream; the client is told `code` (STOP_SENDING).
    pub fn stop(&mut self, stream: u64, code: u64) {
        if let Some(id) = self.receiving(stream) {
            let _ = self.inner.recv_stream(id).stop(number(code));
        }
    }

    /// Streams of higher numbers leave first; those of one number in turns.
    pub fn set_priority(&mut self, stream: u64, priority: i32) {
        if let Some(id) = self.sending(stream) {
            let _ = self.inner.send_stream(id).set_priority(priority);
        }
    }

    /// Ends the connection; the client is told `code` of the application's and `reason`. No event comes after it.
    pub fn close(&mut self, now: Instant, code: u64, reason: &str) {
        self.inner.close(now, number(code), reason.as_bytes().to_vec().into());
        self.stage = Stage::Over;
        self.events.clear();
    }

    /// The client's address: the one that was validated last. Until one was, no stream is given out.
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Whether [`Connection::remote`] was validated.
    pub fn is_validated(&self) -> bool {
        self.is_validated
    }

    /// The address that the client has sent its first packet to, if the system tells it.
    pub fn local(&self) -> Option<IpAddr> {
        self.inner.local_ip()
    }

    /// The socket that it came in by, by the number that its owner has given it.
    pub fn socket(&self) -> u32 {
        self.socket
    }

    /// What the handshake has agreed on; `None` before [`Event::Ready`]. Collected anew by each call.
    pub fn agreed(&self) -> Option<Agreed> {
        let data = self.inner.crypto_session().handshake_data()?;
        data.downcast().ok().map(|agreed| *agreed)
    }

    /// What [`Choose`](crate::Choose) wanted kept, once.
    pub fn take_kept(&mut self) -> Option<Kept> {
        self.handshake.take_kept()
    }

    /// Whether what comes now may be a replay (RFC 9001 §9.2): the handshake is not complete.
    pub fn is_early(&self) -> bool {
        self.is_half_open()
    }

    /// The smoothed round-trip time.
    pub fn rtt(&self) -> Duration {
        self.inner.rtt()
    }

    /// Bytes that were received and sent, packets that were lost.
    pub fn traffic(&self) -> (u64, u64, u64) {
        let stats = self.inner.stats();
        (stats.udp_rx.bytes, stats.udp_tx.bytes, stats.path.lost_packets)
    }

    /// What it makes the process hold, in bytes.
    pub fn held_bytes(&mut self) -> u64 {
        let streams = self.inner.streams().send_streams() as u64;
        CONNECTION_BYTES + streams * STREAM_BYTES + self.inner.buffered_bytes()
    }

    /// A stream that something may come on, by its number.
    fn receiving(&self, stream: u64) -> Option<StreamId> {
        let id = id(stream)?;
        let has = id.dir() == quinn_proto::Dir::Bi || id.initiator() != self.inner.side();
        has.then_some(id)
    }

    fn sending(&self, stream: u64) -> Option<StreamId> {
        let id = id(stream)?;
        let has = id.dir() == quinn_proto::Dir::Bi || id.initiator() == self.inner.side();
        has.then_some(id)
    }
}

fn id(stream: u64) -> Option<StreamId> {
    let dir = if stream & 2 == 0 { quinn_proto::Dir::Bi } else { quinn_proto::Dir::Uni };
    let initiator = if stream & 1 == 0 { Side::Client } else { Side::Server };
    (stream < 1 << 62).then(|| StreamId::new(initiator, dir, stream >> 2))
}

/// A code as it can be sent (RFC 9000 §16).
fn number(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

fn closed(why: ConnectionError) -> Closed {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match why {
        ConnectionError::ApplicationClosed(close) => {
            Closed::ByApplication(close.error_code.into_inner(), text(&close.reason))
        }
        ConnectionError::ConnectionClosed(close) => {
            Closed::ByTransport(close.error_code.into(), text(&close.reason))
        }
        ConnectionError::TransportError(error) => Closed::Violation(error.code.into(), error.to_string()),
        ConnectionError::Reset => Closed::Reset,
        ConnectionError::TimedOut => Closed::TimedOut,
        other @ (ConnectionError::VersionMismatch
        | ConnectionError::CidsExhausted
        | ConnectionError::LocallyClosed) => Closed::Violation(0, other.to_string()),
    }
}
