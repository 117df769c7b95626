//! Where a request's body comes from, whatever protocol carries it.

use crate::h1::body as h1;
use crate::stream::body as stream;
use brisk_net::Failure;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

/// The body of one request, from the protocol that it came by. Protocols that carry one request at a time have an
/// arm of their own; those with streams share one.
/// Not a trait object: there are two, and a body is read on the hot path.
pub enum BodyReader {
    H1(h1::BodyReader),
    Stream(stream::BodyReader),
}

/// The same call, whichever arm it is.
/// A new protocol is one arm here.
macro_rules! each {
    ($reader:expr, $inner:ident => $call:expr) => {
        match $reader {
            BodyReader::H1($inner) => $call,
            BodyReader::Stream($inner) => $call,
        }
    };
}

impl BodyReader {
    pub fn is_done(&self) -> bool {
        each!(self, reader => reader.is_done())
    }

    /// True if the connection cannot be used for another request.
    pub fn is_broken(&self) -> bool {
        each!(self, reader => reader.is_broken())
    }

    /// True if the client waits for a `100 Continue`: if it does not get it, it may never send the body.
    pub fn expects(&self) -> bool {
        each!(self, reader => reader.expects())
    }

    /// Bytes taken from the client, framing included.
    pub fn received(&self) -> u64 {
        each!(self, reader => reader.received())
    }

    /// Appends the next bytes to `out`; false at the end. Waits at most `pause` for the client.
    pub async fn read(&mut self, out: &mut Vec<u8>, pause: Duration) -> Result<bool, Failure> {
        each!(self, reader => reader.read(out, pause).await)
    }

    /// The same for those who wait for other things too. After `Pending` it is asked again with the same `pause`.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
        pause: Duration,
    ) -> Poll<Result<bool, Failure>> {
        each!(self, reader => reader.poll_read(cx, out, pause))
    }

    /// What the client sends behind a head that has made the connection, or the stream, a tunnel; false when it has
    /// closed its side.
    pub fn poll_raw(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<io::Result<bool>> {
        each!(self, reader => reader.poll_raw(cx, out))
    }

    /// Tells the client of a tunnel that nothing more comes; what it sends is still heard. Only when all that it is to get
    /// has left.
    pub fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            BodyReader::H1(reader) => reader.poll_end(cx),
            // A stream's end is a frame, which the session sends when it can.
            BodyReader::Stream(reader) => Poll::Ready(reader.end()),
        }
    }

    /// Drops what has arrived of it already, so that bad framing is known before the response (nginx:
    /// `ngx_http_discard_request_body`).
    pub fn discard_received(&mut self) -> Result<(), Failure> {
        each!(self, reader => reader.discard_received())
    }

    /// Reads and drops the rest, for at most `time`; true if the connection may be used again.
    pub async fn discard(&mut self, pause: Duration, time: Duration) -> bool {
        match self {
            BodyReader::H1(reader) => reader.discard(pause, time).await,
            // The rest is none of the next request's business: streams end one by one.
            BodyReader::Stream(_) => true,
        }
    }
}
