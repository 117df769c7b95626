//! A client's connection of HTTP/3 (RFC 9114), without sockets and without a clock: QUIC's client and HTTP/3's engine put together. The
//! load engine and the clients that take one exchange at a time use the same.
//!
//! One turn of its owner is one of [`brisk_quic::Client`]: datagrams and times go in, then [`Client::poll`] until there is nothing more,
//! then requests, then [`Client::poll_transmit`] until there is nothing more.

use crate::limits::H3_READ_BYTES;
use brisk_h2::flood::FloodLimits;
use brisk_h3::{
    Config, Connection, ConnectionError, ErrorCode, Event, HeadSink, LimitError, Own, Role, Settings,
};
pub use brisk_quic::{ClientSettings, Closed, Ecn, Fresh, Traffic};
use brisk_quic::{Dir, Event as Told, Read, Written};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What has happened to the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happened {
    /// The handshake is complete; who the server is has not been looked at.
    Established {
        /// Requests had been made before, and the server has taken them (true) or they were sent once more (false).
        early: Option<bool>,
    },
    /// The server takes no new requests, and has not looked at those from this stream on.
    GoneAway(u64),
    /// It is over.
    Closed(Closed),
}

/// What has come on a request's stream, or of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<'a> {
    /// The final response's head; its fields are in the sink.
    Head {
        /// There is no body.
        end: bool,
        /// Bytes of its field section.
        bytes: usize,
    },
    /// An interim response's head.
    Interim,
    /// Fields behind the body: its end.
    Trailers,
    /// A piece of the body.
    Data {
        /// The piece.
        data: &'a [u8],
        /// It is the last one.
        end: bool,
    },
    /// The whole request has been given to QUIC.
    Sent,
    /// There is no whole answer. Nothing more comes of it.
    Broken(Broken),
}

/// Why an answer is not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The body is not as long as `Content-Length` says.
    Length,
    /// The head is larger than is taken.
    TooLarge(LimitError),
    /// The server has reset the stream.
    Reset(ErrorCode),
    /// What came broke a rule.
    Malformed(ErrorCode),
    /// It was sent before the handshake, the server has not taken that, and allows fewer requests now: it may be made again.
    Refused,
}

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing may be asked.
    Opening,
    /// Requests may be made before the handshake is complete. Each is kept until it is known whether the server has taken them.
    Early,
    Open,
}

/// A request of which not everything was sent, or that may have to be sent again.
#[derive(Debug)]
struct Sending {
    /// The head's frame and the begin of the body's.
    head: Vec<u8>,
    body: Arc<[u8]>,
    at: usize,
}

impl Sending {
    fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    fn rest(&self) -> &[u8] {
        match self.head.get(self.at..) {
            Some(rest) if !rest.is_empty() => rest,
            _ => self.body.get(self.at - self.head.len()..).unwrap_or_default(),
        }
    }
}

/// See the module's head.
pub struct Client {
    quic: brisk_quic::Client,
    engine: Connection<()>,
    limits: FloodLimits,
    own: [Option<u64>; 2],
    sending: BTreeMap<u64, Sending>,
    stage: Stage,
    happened: VecDeque<Happened>,
    /// Room to put frames together, and to read into.
    frames: Vec<u8>,
    room: Vec<u8>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

fn engine(limits: FloodLimits) -> Connection<()> {
    // Without a table of its own a client never has to wait for QPACK's insertions.
    let settings = Settings { qpack_max_table_capacity: 0, qpack_blocked_streams: 0, ..Settings::default() };
    Connection::new(Role::Client, Config { settings, flood: limits, ..Config::default() }, 0)
}

impl Client {
    /// A connection to the server called `name` at `remote`; nothing has been sent yet. `limits`: how much of what is of no use is borne of
    /// it. The error says what the TLS library has against it.
    pub fn begin(
        now: Instant,
        settings: &ClientSettings,
        remote: SocketAddr,
        name: &str,
        limits: FloodLimits,
    ) -> Result<Self, String> {
        let quic = brisk_quic::Client::begin(now, settings, remote, name)?;
        let stage = if quic.may_be_early() { Stage::Early } else { Stage::Opening };
        Ok(Self {
            quic,
            engine: engine(limits),
            limits,
            own: [None, None],
            sending: BTreeMap::new(),
            stage,
            happened: VecDeque::new(),
            frames: Vec::new(),
            room: Vec::new(),
        })
    }

    /// QUIC's side of it: certificates, round trips, traffic.
    pub fn quic(&self) -> &brisk_quic::Client {
        &self.quic
    }

    /// A datagram of the server's has come.
    pub fn receive(&mut self, now: Instant, ecn: Option<Ecn>, bytes: &[u8]) {
        self.quic.receive(now, ecn, bytes);
    }

    /// When [`Client::handle_timeout`] is to be called.
    pub fn next_timeout(&mut self) -> Option<Instant> {
        self.quic.next_timeout()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.quic.handle_timeout(now);
    }

    /// Whether requests may be made: before the handshake is complete, too, where a session allows it.
    pub fn can_ask(&self) -> bool {
        self.stage != Stage::Opening && self.engine.can_open()
    }

    /// Whether the handshake is complete.
    pub fn is_established(&self) -> bool {
        self.stage == Stage::Open
    }

    /// Begins a request: its field section and its body. Gives its stream; `None`: the server allows no other one at present.
    pub fn ask(&mut self, section: &[u8], body: &Arc<[u8]>) -> Option<u64> {
        let stream = self.quic.open(Dir::Bi)?;
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        self.engine.open(stream, ());
        let _ = self.engine.send_head(stream, section, &mut frames);
        if !body.is_empty() {
            let _ = self.engine.begin_data(stream, body.len() as u64, &mut frames);
        }
        let _ = self.engine.end_send(stream);
        let mut at = 0;
        if body.is_empty() && self.stage == Stage::Open {
            // What is small mostly leaves at once, and nothing need be kept of it.
            if let Written::Some(count) = self.quic.write(stream, &frames) {
                at = count;
            }
            if at == frames.len() {
                self.quic.finish(stream);
                self.frames = frames;
                return Some(stream);
            }
        }
        self.sending.insert(stream, Sending { head: frames, body: Arc::clone(body), at });
        self.push(stream);
        Some(stream)
    }

    /// Goes on with a request, as far as QUIC takes it. True if it has been given as a whole, or the server wants no more of it.
    fn push(&mut self, stream: u64) -> bool {
        let Some(sending) = self.sending.get_mut(&stream) else { return true };
        if sending.at == sending.len() {
            return true;
        }
        while sending.at < sending.len() {
            match self.quic.write(stream, sending.rest()) {
                Written::Some(count) => sending.at += count,
                Written::Blocked => return false,
                // The server has answered already, or says in another way what it wants.
                Written::Stopped(_) | Written::Gone => {
                    self.sending.remove(&stream);
                    return true;
                }
            }
        }
        self.quic.finish(stream);
        if self.stage == Stage::Open {
            self.sending.remove(&stream);
        }
        true
    }

    /// Whether part of a request is still to be sent.
    pub fn is_sending(&self, stream: u64) -> bool {
        self.sending.get(&stream).is_some_and(|sending| sending.at < sending.len())
    }

    /// Nobody waits for an answer on this stream any more; the server is told.
    pub fn give_up(&mut self, stream: u64) {
        self.drop_stream(stream, ErrorCode::REQUEST_CANCELLED);
        self.engine.reset(stream);
    }

    fn drop_stream(&mut self, stream: u64, code: ErrorCode) {
        self.sending.remove(&stream);
        self.quic.give_up(stream, code.0);
    }

    /// Packets come from another address from now on.
    pub fn moved(&mut self) {
        self.quic.moved();
    }

    /// Ends the connection; the server is told.
    pub fn close(&mut self, now: Instant) {
        self.quic.close(now, ErrorCode::NO_ERROR.0);
    }

    /// The smoothed round-trip time.
    pub fn rtt(&self) -> Duration {
        self.quic.rtt()
    }

    /// Takes what has happened; `None`: nothing more. What has come on requests' streams is given to `each`, with fields of heads in the
    /// sink; for a head it gives the length that the body is to have, if that was announced. The error ends the connection.
    pub fn poll<S: HeadSink>(
        &mut self,
        sink: &mut S,
        each: &mut impl FnMut(&mut S, u64, Answer<'_>) -> Option<u64>,
    ) -> Result<Option<Happened>, ConnectionError> {
        loop {
            if let Some(happened) = self.happened.pop_front() {
                return Ok(Some(happened));
            }
            let Some(told) = self.quic.poll_event() else { return Ok(None) };
            match told {
                Told::Established => self.established(sink, each),
                Told::Opened(dir) => {
                    while let Some(stream) = self.quic.accept(dir) {
                        self.engine.begin(stream)?;
                        self.read(stream, sink, each)?;
                    }
                }
                Told::Readable(stream) => self.read(stream, sink, each)?,
                Told::Writable(stream) | Told::Stopped(stream, _) => {
                    if self.sending.contains_key(&stream) && self.push(stream) {
                        each(sink, stream, Answer::Sent);
                    }
                }
                Told::Closed(why) => self.happened.push_back(Happened::Closed(why)),
                Told::Finished(_) | Told::Ready | Told::Undecided | Told::Moved => {}
            }
        }
    }

    fn established<S: HeadSink>(
        &mut self,
        sink: &mut S,
        each: &mut impl FnMut(&mut S, u64, Answer<'_>) -> Option<u64>,
    ) {
        let was_early = self.stage == Stage::Early;
        self.stage = Stage::Open;
        let early = was_early.then(|| self.quic.early_accepted());
        match early {
            None => {}
            Some(true) => self.sending.retain(|_, sending| sending.at < sending.len()),
            Some(false) => self.ask_again(sink, each),
        }
        self.happened.push_back(Happened::Established { early });
    }

    /// The server has not taken what was sent early: all streams are gone (RFC 9001 §4.6.2). Requests are sent again, on streams of the same
    /// numbers.
    fn ask_again<S: HeadSink>(
        &mut self,
        sink: &mut S,
        each: &mut impl FnMut(&mut S, u64, Answer<'_>) -> Option<u64>,
    ) {
        self.engine = engine(self.limits);
        self.own = [None, None];
        for (stream, sending) in std::mem::take(&mut self.sending) {
            let opened = self.quic.open(Dir::Bi);
            if opened != Some(stream) {
                // Fewer are allowed than before, or one between was given up.
                if let Some(opened) = opened {
                    self.quic.give_up(opened, ErrorCode::REQUEST_CANCELLED.0);
                }
                each(sink, stream, Answer::Broken(Broken::Refused));
                continue;
            }
            self.engine.open(stream, ());
            let _ = self.engine.end_send(stream);
            self.sending.insert(stream, Sending { at: 0, ..sending });
            if self.push(stream) {
                each(sink, stream, Answer::Sent);
            }
        }
    }

    fn read<S: HeadSink>(
        &mut self,
        stream: u64,
        sink: &mut S,
        each: &mut impl FnMut(&mut S, u64, Answer<'_>) -> Option<u64>,
    ) -> Result<(), ConnectionError> {
        let mut room = std::mem::take(&mut self.room);
        let result = loop {
            room.clear();
            let (is_end, taken) = match self.quic.read(stream, H3_READ_BYTES, &mut room) {
                Read::Some(_) => (false, self.take(stream, &room, false, sink, each)),
                Read::End(_) => (true, self.take(stream, &room, true, sink, each)),
                Read::Reset(code) => (true, self.peer_reset(stream, ErrorCode(code), sink, each)),
                Read::Blocked | Read::Gone => (true, Ok(())),
            };
            if is_end || taken.is_err() {
                break taken;
            }
        };
        self.room = room;
        result
    }

    fn peer_reset<S: HeadSink>(
        &mut self,
        stream: u64,
        code: ErrorCode,
        sink: &mut S,
        each: &mut impl FnMut(&mut S, u64, Answer<'_>) -> Option<u64>,
    ) -> Result<(), ConnectionError> {
        let is_asked = self.engine.has(stream);
        self.engine.peer_reset(stream, code)?;
        if is_asked {
            self.drop_stream(stream, code);
            each(sink, stream, Answer::Broken(Broken::Reset(code)));
        }
        Ok(())
    }

    fn take<S: HeadSink>(
        &mut self,
        stream: u64,
        mut input: &[u8],
        fin: bool,
        sink: &mut S,
        each: &mut impl FnMut(&mut S, u64, Answer<'_>) -> Option<u64>,
    ) -> Result<(), ConnectionError> {
        while let Some(event) = self.engine.receive(stream, &mut input, fin, sink)? {
            let (answer, code) = match event {
                Event::Head { end, bytes, .. } => (Answer::Head { end, bytes }, None),
                Event::Interim { .. } => (Answer::Interim, None),
                Event::Trailers { .. } => (Answer::Trailers, None),
                Event::Data { data, end, .. } => (Answer::Data { data, end }, None),
                Event::Mismatch { .. } => (Answer::Broken(Broken::Length), Some(ErrorCode::MESSAGE_ERROR)),
                Event::TooLarge { limit, .. } => {
                    (Answer::Broken(Broken::TooLarge(limit)), Some(ErrorCode::EXCESSIVE_LOAD))
                }
                Event::Reset { code, by_peer, .. } => {
                    let broken = if by_peer { Broken::Reset(code) } else { Broken::Malformed(code) };
                    (Answer::Broken(broken), Some(code))
                }
                Event::GoAway { id } => {
                    self.happened.push_back(Happened::GoneAway(id));
                    continue;
                }
                Event::Unknown { stream } => {
                    self.quic.give_up(stream, ErrorCode::STREAM_CREATION_ERROR.0);
                    continue;
                }
                Event::Settings | Event::Priority { .. } => continue,
            };
            if let Some(code) = code {
                self.drop_stream(stream, code);
            }
            if let Some(length) = each(sink, stream, answer) {
                self.engine.expect(stream, Some(length));
            }
        }
        Ok(())
    }

    /// What is to be sent; `None`: nothing more at present. The buffer is to be given back ([`Client::recycle`]).
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Fresh> {
        if self.stage != Stage::Opening {
            self.send_own();
        }
        self.quic.poll_transmit(now)
    }

    /// Takes a buffer back whose bytes were sent.
    pub fn recycle(&mut self, bytes: Vec<u8>) {
        self.quic.recycle(bytes);
    }

    /// Sends what our unidirectional streams have to say.
    fn send_own(&mut self) {
        for (own, id) in [Own::Control, Own::Decoder].into_iter().zip(&mut self.own) {
            let out = self.engine.own_output(own);
            if out.is_empty() {
                continue;
            }
            if id.is_none() {
                *id = self.quic.open(Dir::Uni);
            }
            let Some(stream) = *id else { continue };
            while !out.is_empty()
                && let Written::Some(count) = self.quic.write(stream, out)
            {
                out.drain(..count);
            }
        }
    }
}
