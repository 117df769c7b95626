//! What an HTTP/2 connection to a back end keeps from one exchange to the next.
//!
//! One exchange at a time, as on connections of HTTP/1.1: pools, retries and limits are the same for both then.
//! What HTTP/2 gives is a protocol that back ends speak, not more requests per connection.

use super::head::Heads;
use crate::limits::{HTTP2_FIELDS_MAX, HTTP2_OUT_BYTES_MAX};
use brisk_h2::flood::FloodLimits;
use brisk_h2::frame::{FrameHead, HEAD_BYTES, WINDOW_MAX, kind};
use brisk_h2::hpack::Limits;
use brisk_h2::{Config, Connection, ErrorCode, Event, Role, Settings};
use brisk_net::Failure;

/// See the module's head.
pub struct Session {
    connection: Connection<()>,
    /// A frame, other than DATA, of which a part has come.
    part: Vec<u8>,
}

/// What a frame says.
#[derive(Debug)]
pub(super) enum Told<'a> {
    /// Nothing that matters to an exchange.
    Nothing,
    Interim,
    Head {
        end: bool,
    },
    Data {
        data: &'a [u8],
        end: bool,
    },
    Trailers,
    Reset {
        code: ErrorCode,
        by_peer: bool,
    },
    GoAway {
        last: u32,
        code: ErrorCode,
    },
}

impl Session {
    /// A new connection: `out` gets what it begins with.
    ///
    /// Windows are as large as can be: there is one stream, so that a socket that is not read holds the back end back. A
    /// dynamic table would be memory of every idle connection.
    pub(super) fn new(out: &mut Vec<u8>) -> Session {
        let settings = Settings {
            // The peer's encoder then uses none, so an idle connection holds no table here.
            header_table_size: 0,
            // RFC 9113 §8.4: a client that wants none says so before the first request.
            enable_push: false,
            initial_window_size: WINDOW_MAX,
            ..Settings::default()
        };
        let config =
            // Limits against clients: a back end is bounded by `HTTP2_OUT_BYTES_MAX`, and an answer may have many small frames.
            Config { settings, connection_window: WINDOW_MAX, flood: FloodLimits::NONE, ..Config::default() };
        Session { connection: Connection::new(Role::Client, config, 0, out), part: Vec::new() }
    }

    /// Whether another exchange can begin: nothing is left of an earlier one.
    // A stream that is still open would have its frames taken for those of the next exchange.
    pub(super) fn can_go_on(&self) -> bool {
        self.connection.is_empty() && self.part.is_empty() && self.connection.can_open()
    }

    /// Begins an exchange. 0: there can be none.
    pub(super) fn open(&mut self, block: &[u8], end: bool, head_bytes_max: usize, out: &mut Vec<u8>) -> u32 {
        let limits = Limits {
            string_bytes_max: head_bytes_max,
            list_bytes_max: head_bytes_max,
            fields_max: HTTP2_FIELDS_MAX,
            long_padding: true,
        };
        // Per exchange: locations with different `*_buffer_size` share a connection.
        self.connection.set_head_limits(limits);
        // Numbers of streams are used up, or the peer has said GOAWAY: another connection is needed.
        let Some(stream) = self.connection.open(()) else { return 0 };
        // It has just been opened.
        let _ = self.connection.send_head(stream, block, end, out);
        stream
    }

    pub(super) fn room(&self, stream: u32) -> usize {
        self.connection.room(stream)
    }

    /// Sends a piece of a body that fits into [`Session::room`]; gives where its last frame begins.
    pub(super) fn send(&mut self, stream: u32, piece: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let chunk = self.connection.chunk(stream);
        // A stream that is gone takes nothing: the back end has said so, or will be asked for its answer in vain.
        self.connection.send_body(stream, piece, false, out).ok()?;
        // Frames are as long as the peer allows but for the last: its place is needed to mark it as the end.
        let last = (piece.len() - 1) % chunk + 1;
        Some(out.len() - last - HEAD_BYTES)
    }

    /// Ends a body with an empty frame.
    pub(super) fn end(&mut self, stream: u32, out: &mut Vec<u8>) {
        let _ = self.connection.send_body(stream, b"", true, out);
    }

    /// Takes the next frame: gives how much of the input was used.
    pub(super) fn step<'a>(
        &mut self,
        input: &'a [u8],
        heads: &mut Heads,
        out: &mut Vec<u8>,
    ) -> Result<(usize, Told<'a>), Failure> {
        // Answers to PING and SETTINGS pile up if the peer does not read what it asks for (CVE-2019-9512,
        // CVE-2019-9515).
        if out.len() > HTTP2_OUT_BYTES_MAX {
            return Err(Failure::protocol("upstream sent too many http2 frames"));
        }
        if !self.part.is_empty() {
            return self.go_on(input, heads, out);
        }
        let received = self.connection.receive(input, heads, out).map_err(|error| wrong(&error))?;
        if received.used > 0 || received.event.is_some() {
            if let Some(Event::Data { stream, data, .. }) = &received.event {
                // Taken: the window stays as large as it is.
                // At once, whatever the client's pace: backpressure is the socket that is not read.
                self.connection.consume(*stream, data.len() as u32, out);
            }
            return Ok((received.used, told(received.event)));
        }
        // The frame's length was looked at if its head is there. What is not DATA is taken as a whole.
        match FrameHead::parse(input) {
            // The reader's buffer may be smaller than a frame; DATA needs no place of its own, since each part
            // of it is given on as it comes.
            Some(frame) if frame.kind != kind::DATA => {
                self.part.extend_from_slice(input);
                Ok((input.len(), Told::Nothing))
            }
            _ => Ok((0, Told::Nothing)),
        }
    }

    /// Goes on with a frame of which a part has come.
    fn go_on<'a>(
        &mut self,
        input: &[u8],
        heads: &mut Heads,
        out: &mut Vec<u8>,
    ) -> Result<(usize, Told<'a>), Failure> {
        let whole = FrameHead::parse(&self.part).map_or(0, |frame| HEAD_BYTES + frame.len as usize);
        // Not a byte of the next frame: that one may be DATA, which is read where it lies.
        let count = whole.saturating_sub(self.part.len()).min(input.len());
        self.part.extend_from_slice(&input[..count]);
        if self.part.len() < whole {
            return Ok((count, Told::Nothing));
        }
        let frame = std::mem::take(&mut self.part);
        let received = self.connection.receive(&frame, heads, out).map_err(|error| wrong(&error))?;
        // The same words without the borrow of the frame, which ends here.
        let told = match told(received.event) {
            // It is no DATA frame.
            Told::Data { .. } | Told::Nothing => Told::Nothing,
            Told::Interim => Told::Interim,
            Told::Head { end } => Told::Head { end },
            Told::Trailers => Told::Trailers,
            Told::Reset { code, by_peer } => Told::Reset { code, by_peer },
            Told::GoAway { last, code } => Told::GoAway { last, code },
        };
        Ok((count, told))
    }

    /// What comes while there is no exchange. False: the connection is of no further use.
    /// It is asked when a connection is put into the pool, when it is taken out, and when its socket has
    /// become readable meanwhile.
    pub(crate) fn idle(&mut self, mut input: &[u8], out: &mut Vec<u8>) -> bool {
        let mut heads = Heads::default();
        while !input.is_empty() {
            match self.step(input, &mut heads, out) {
                Ok((used, Told::Nothing)) if used > 0 => input = &input[used..],
                // Anything but housekeeping between exchanges (a GOAWAY, a stream that was not begun) ends the connection's use.
                _ => return false,
            }
        }
        self.part.is_empty() && self.connection.can_open()
    }
}

fn told(event: Option<Event<'_, ()>>) -> Told<'_> {
    match event {
        Some(Event::Head { end, .. }) => Told::Head { end },
        Some(Event::Interim { .. }) => Told::Interim,
        Some(Event::Trailers { .. }) => Told::Trailers,
        Some(Event::Data { data, end, .. }) => Told::Data { data, end },
        // Lengths are checked by the codec.
        Some(Event::Mismatch { .. }) => Told::Reset { code: ErrorCode::PROTOCOL_ERROR, by_peer: false },
        Some(Event::Reset { code, by_peer, .. }) => Told::Reset { code, by_peer },
        Some(Event::GoAway { last, code }) => Told::GoAway { last, code },
        Some(Event::Window | Event::Settings | Event::SettingsAck | Event::Pong(_)) | None => Told::Nothing,
    }
}

fn wrong(error: &brisk_h2::ConnectionError) -> Failure {
    Failure::protocol(format!("upstream sent {error}"))
}
