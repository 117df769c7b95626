//! One connection and the calls by which its owner works on it.

use crate::burst::{self, Burst};
use crate::event::{Closed, Dir, Event};
use crate::limits::{
    AMPLIFICATION_MAX, CONNECTION_BYTES, SEND_WINDOW_BYTES_MAX, SEND_WINDOW_BYTES_MIN, STREAM_BYTES,
    UNVALIDATED_ADDRESSES_MAX,
};
use crate::streams::{self, Read, Written};
use brisk_tls::Agreed;
use brisk_tls::quic::{Handshake, Kept, Origin};
use quinn_proto::{ConnectionError, ConnectionHandle, StreamEvent, VarInt};
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
    /// It is not decided yet who answers the ClientHello.
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
    burst: Burst,
    send_window: u64,
    strangers: Vec<Stranger>,
    /// Bytes that have come, and bytes that went to addresses that were not validated.
    received: usize,
    strayed: usize,
}

/// An address that packets of a connection have come from, and that is not validated.
struct Stranger {
    address: SocketAddr,
    received: usize,
    sent: usize,
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
            burst: Burst::default(),
            send_window: SEND_WINDOW_BYTES_MIN,
            strangers: Vec::new(),
            received: 0,
            strayed: 0,
        }
    }

    /// A datagram of so many bytes has come from there.
    pub(crate) fn note_received(&mut self, from: SocketAddr, bytes: usize) {
        self.received += bytes;
        if from == self.remote {
            return;
        }
        let known = self.strangers.iter_mut().find(|one| one.address == from);
        if let Some(known) = known {
            known.received += bytes;
            return;
        }
        if self.strangers.len() == UNVALIDATED_ADDRESSES_MAX {
            self.strangers.remove(0);
        }
        self.strangers.push(Stranger { address: from, received: bytes, sent: 0 });
    }

    /// Whether a datagram may be sent there, which is counted then (RFC 9000 §8): the library counts for the path that it has
    /// switched to, and not for the answers to challenges from elsewhere. As there, what is left of an address's budget lets one whole
    /// datagram leave: a challenge has 1,200 bytes (§8.2.1), and what made a client's move known may be small. So that many addresses
    /// are no way round the limit, all of them together get no more than three times what the client has sent.
    pub(crate) fn may_send(&mut self, to: SocketAddr, bytes: usize) -> bool {
        if to == self.remote || !self.is_validated {
            return true;
        }
        let Some(known) = self.strangers.iter_mut().find(|one| one.address == to) else { return false };
        let is_spent = known.sent >= AMPLIFICATION_MAX * known.received;
        if is_spent || self.strayed + bytes > AMPLIFICATION_MAX * self.received {
            return false;
        }
        known.sent += bytes;
        self.strayed += bytes;
        true
    }

    /// Takes what the library has to say.
    pub(crate) fn update(&mut self) -> Update {
        if self.handshake.waits() != self.is_undecided {
            self.is_undecided = !self.is_undecided;
            if self.is_undecided {
                self.events.push_back(Event::Undecided);
            }
        }
        // Before events are asked for: streams that waited for room are told of it.
        self.fit_send_window();
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
                    // Ahead of what was not told yet: whoever looks at streams then finds what came behind it, too, and that is no replay.
                    let ready = self.events.iter().position(|event| *event == Event::Ready);
                    self.events.insert(ready.map_or(0, |at| at + 1), Event::Established);
                }
                quinn_proto::Event::ConnectionLost { reason } => {
                    update.timed_out = reason == ConnectionError::TimedOut;
                    self.over(reason.into());
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
            // It may have moved since its first packet, whose address was never validated.
            if std::mem::replace(&mut self.remote, remote) != remote {
                self.events.push_back(Event::Moved);
            }
            for dir in [Dir::Uni, Dir::Bi] {
                self.events.push_back(Event::Opened(dir));
            }
            return false;
        }
        if remote == self.remote {
            return false;
        }
        self.remote = remote;
        self.strangers.retain(|one| one.address != remote);
        self.events.push_back(Event::Moved);
        true
    }

    fn stream(&mut self, event: StreamEvent) {
        let event = match event {
            // Reported when the address is validated: until then a request could claim any. The owner reads a stream from when it accepts it,
            // so earlier events of a stream would be lost.
            StreamEvent::Opened { .. } | StreamEvent::Readable { .. } if !self.is_validated => return,
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

    /// Makes packets; the error is when to ask again.
    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        bytes: &mut Vec<u8>,
    ) -> Result<Option<quinn_proto::Transmit>, Instant> {
        burst::poll_transmit(&mut self.inner, &mut self.burst, now, bytes)
    }

    /// What may wait to be sent, or to be acknowledged, follows the congestion window, as a TCP socket's buffer does: a client that
    /// takes little has little kept for it.
    fn fit_send_window(&mut self) {
        let fitting = self.inner.congestion_state().window().saturating_mul(2);
        let window = fitting.clamp(SEND_WINDOW_BYTES_MIN, SEND_WINDOW_BYTES_MAX);
        if window != std::mem::replace(&mut self.send_window, window) {
            self.inner.set_send_window(window);
        }
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
        streams::read(&mut self.inner, stream, max, into)
    }

    /// The code with which the client has reset a stream, without reading it; what has come of it is given up. Told once.
    pub fn take_reset(&mut self, stream: u64) -> Option<u64> {
        streams::take_reset(&mut self.inner, stream)
    }

    /// Has the client acknowledge something (PING): an idle time-out begins anew with that (RFC 9000 §10.1.2).
    pub fn ping(&mut self) {
        self.inner.ping();
    }

    /// Has a stream send these bytes, or some of them.
    pub fn write(&mut self, stream: u64, bytes: &[u8]) -> Written {
        streams::write(&mut self.inner, stream, bytes)
    }

    /// Nothing more is written to this stream; what was leaves. False if the stream is gone or was stopped.
    pub fn finish(&mut self, stream: u64) -> bool {
        streams::finish(&mut self.inner, stream)
    }

    /// What was written to this stream and has not arrived is given up; the client is told `code`.
    pub fn reset(&mut self, stream: u64, code: u64) {
        streams::reset(&mut self.inner, stream, code);
    }

    /// Nothing more is read from this stream; the client is told `code` (STOP_SENDING).
    pub fn stop(&mut self, stream: u64, code: u64) {
        streams::stop(&mut self.inner, stream, code);
    }

    /// Streams of higher numbers leave first; those of one number in turns.
    pub fn set_priority(&mut self, stream: u64, priority: i32) {
        if let Some(id) = streams::sending(&self.inner, stream) {
            let _ = self.inner.send_stream(id).set_priority(priority);
        }
    }

    /// Ends the connection; the client is told `code` of the application's and `reason`. No event comes after it.
    pub fn close(&mut self, now: Instant, code: u64, reason: &str) {
        self.inner.close(now, streams::number(code), reason.as_bytes().to_vec().into());
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

    /// Streams that may have something that is not acknowledged, those included that are open and silent. Closing the connection gives
    /// it up.
    pub fn sending_streams(&mut self) -> usize {
        self.inner.streams().send_streams()
    }

    /// Its memory in bytes.
    pub fn held_bytes(&mut self) -> u64 {
        let streams = self.inner.streams().send_streams() as u64;
        CONNECTION_BYTES + streams * STREAM_BYTES + self.inner.buffered_bytes()
    }
}
