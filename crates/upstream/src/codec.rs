//! What speaks a back end's protocol: bytes in, events out. No I/O and no clock.

use crate::head::BackendHead;
use crate::http2::Session;
use crate::limits::KEPT_BYTES_MAX;
use brisk_net::Failure;
use brisk_server::core::LogLevel;
use std::cell::Cell;
use std::ops::Range;

// A thread writes one request at a time, so one buffer serves all of its connections.
thread_local! {
    /// Where the last request was put together: the next one is begun when that has left.
    static REQUEST: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// An empty buffer for a request, with room for `capacity` bytes.
pub fn request_buffer(capacity: usize) -> Vec<u8> {
    let mut buf = REQUEST.take();
    buf.reserve(capacity);
    buf
}

/// The request has left.
pub(crate) fn give_back(mut buf: Vec<u8>) {
    buf.clear();
    // A single large request must not leave its memory with the thread for ever.
    if buf.capacity() <= KEPT_BYTES_MAX {
        REQUEST.set(buf);
    }
}

/// One exchange of a protocol: a request's bytes and the answer's meaning. It is made for an
/// attempt.
/// The order of calls: `adopt`, `begin`, `body` as often as there are pieces, `end`; `read` at any time after
/// `begin`, since a back end may answer before it has the whole request; `eof` at most once; `release` at the
/// end.
pub trait Codec {
    /// Before an attempt: what an earlier exchange has left with the connection.
    /// HTTP/2 keeps the connection's tables, windows and stream numbers there; other protocols keep nothing.
    fn adopt(&mut self, session: Option<Box<Session>>) {
        let _ = session;
    }

    /// After the last word: what is left with the connection for the next exchange.
    fn release(&mut self) -> Option<Box<Session>> {
        None
    }

    /// Begins: appends the request's head to `out`. Called once.
    fn begin(&mut self, out: &mut Vec<u8>);

    /// Appends a piece of the request's body in the protocol's framing; at most [`room`](Codec::room) bytes.
    fn body(&mut self, piece: &[u8], out: &mut Vec<u8>);

    /// The request's body is complete: appends what says so. Called once, also if there is no body.
    fn end(&mut self, out: &mut Vec<u8>);

    /// Body bytes that may be sent now; less than everything where the back end controls the flow.
    fn room(&self) -> usize {
        usize::MAX
    }

    /// Looks at what has come; called again with the rest until it needs more. It may append to `out` what the protocol
    /// wants to be answered.
    ///
    /// Before the head is complete a codec may leave bytes unused: they are shown again with what comes behind them. If
    /// nothing of a full buffer (`*_buffer_size`) is used, the head is too big. Codecs that take bytes before the head is
    /// complete bound it themselves.
    ///
    /// An error breaks the protocol ([`Failure::protocol`]); it says whether the back end has looked at the request.
    fn read(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Step, Failure>;

    /// The back end has closed its side: [`Event::End`] if that is an end as good as any, [`Event::NeedMore`] if
    /// something is missing.
    fn eof(&mut self) -> Result<Event, Failure>;

    /// After [`Event::End`]: whether the connection may serve another request.
    fn persists(&self) -> bool;

    /// After [`Event::End`]: the answer is complete, but the server's process is at work for the request until it closes the connection.
    fn goes_on(&self) -> bool {
        false
    }

    /// The length of the answer's body, if it is known once the head is there.
    fn length(&self) -> Option<u64>;

    /// After a head with status 101: the connection is a tunnel from here on, and this codec is asked no more.
    fn is_tunnel(&self) -> bool {
        false
    }
}

/// What [`Codec::read`] has done.
#[derive(Debug)]
pub struct Step {
    /// Bytes from the beginning of the input that will not be shown again.
    pub used: usize,
    /// What they are.
    pub event: Event,
}

/// What the back end's bytes mean.
#[derive(Debug)]
pub enum Event {
    /// Nothing (more) until further bytes come.
    NeedMore,
    /// An interim response (RFC 9110 §15.2) other than 101.
    Interim(BackendHead),
    /// The final head; once.
    /// From here on [`Codec::length`] and [`Codec::is_tunnel`] are true.
    Head(BackendHead),
    /// Body: this part of the input, within what was used.
    Data(Range<usize>),
    /// A message of the application for the error log.
    /// FastCGI's stderr, and what a codec has to say about a malformed answer that is used all the same.
    Log(LogLevel, Vec<u8>),
    /// Fields behind the body.
    Trailers(Vec<(Vec<u8>, Vec<u8>)>),
    /// The answer is complete.
    End,
}
