//! Requests on connections that carry several at a time: HTTP/2 and HTTP/3.
//!
//! A protocol implements [`Session`] for its connections. What a request's task does with its stream is here and the same for
//! all protocols: an [`Exchange`] has the body that has come and the piece that is to leave, [`serve`] answers the request,
//! [`BodyReader`] takes the body. None of them knows frames.

pub(crate) mod answer;
pub(crate) mod body;
pub(crate) mod encode;
pub(crate) mod exchange;
pub(crate) mod head;
pub mod serve;

use crate::connection::Connection;
use crate::core::http_conf::CoreConf;
use crate::text::Text;
use std::rc::Rc;

/// A stream's number; as wide as HTTP/3's (RFC 9000 §2.1).
pub type StreamId = u64;

/// Why a stream ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// The request is of no interest any more.
    Cancel,
    /// The client has broken the protocol, or was too slow.
    Protocol,
    /// The response cannot be completed.
    Internal,
}

/// A connection that carries several requests, as the driver and the thread see it.
pub trait Session: Streams {
    /// Takes what was read. `full`: there may be more in the socket. `out` is memory for what is to be sent.
    /// It is called by the driver with bytes of a socket; HTTP/3 gets its bytes from QUIC and leaves it
    /// empty.
    fn input(&self, conn: &Rc<Connection>, data: &[u8], full: bool, out: &mut Vec<u8>);

    /// The client has closed its side.
    fn closed(&self, conn: &Rc<Connection>);

    /// Whether nothing is to be read for now.
    fn is_deaf(&self) -> bool;

    /// Whether it is closed but for the name.
    fn is_dead(&self) -> bool;

    /// Whether no request is under way and nothing is to be sent.
    fn is_idle(&self) -> bool;

    /// Bytes of memory, without what requests hold.
    fn memory(&self) -> usize;

    /// Sends what was put together since the last turn, if anything was; true if it has used up its turn.
    /// It must not loop until all has left: a fast client would keep the thread.
    fn flush_touched(&self, conn: &Rc<Connection>) -> bool;

    /// The slot's timer has come. Gives the next time to look (monotonic, in milliseconds), or `None` if the connection is closed.
    fn expired(&self, conn: &Rc<Connection>) -> Option<u64>;

    /// Asks the client to go elsewhere; what it has sent before it hears of that is still served.
    fn leave(&self, conn: &Rc<Connection>);

    /// Graceful stop: the same, if it has brought a request.
    fn drain(&self, conn: &Rc<Connection>);

    /// Ends requests that are served by a configuration before `generation`.
    fn cut(&self, generation: u64);

    /// Closes for want of memory.
    fn give_up(&self, conn: &Rc<Connection>);

    /// Whether what carries the connection counts it.
    /// The memory limit adds up connections, and QUIC's datagrams are in the endpoint's count.
    fn is_counted_elsewhere(&self) -> bool {
        false
    }

    /// Ends all requests and sends nothing more.
    fn kill(&self);
}

/// The streams of such a connection, as the tasks of requests see them. A stream that is gone takes no harm.
/// Calls of a task, so none of them may wake another task that calls back.
pub trait Streams {
    /// Bytes of framing around a head.
    fn head_overhead(&self) -> u64;

    /// Appends the head of an interim response.
    fn encode_interim(&self, status: u16, fields: &[(Text, Text)], out: &mut Vec<u8>);

    /// Appends trailers.
    fn encode_trailers(&self, fields: &[(Text, Text)], out: &mut Vec<u8>);

    /// Whether there is room for what may be left out.
    fn has_room(&self) -> bool;

    /// The stream becomes a tunnel with the head that is sent next: nothing but DATA may come on it (RFC 9113 §8.5, RFC 9114 §4.4).
    fn open_tunnel(&self, stream: StreamId);

    /// Sends a head or trailers; false if the stream is gone.
    /// One block at a time and in order: the coding's state is the connection's.
    fn send_head(&self, stream: StreamId, block: &[u8], end: bool) -> bool;

    /// Pieces of the body are to leave in frames of at most so many bytes.
    fn set_chunk(&self, stream: StreamId, bytes: u32);

    /// The stream's [`Exchange`] has a piece to send.
    fn set_ready(&self, stream: StreamId);

    /// Ends a stream's body without another byte of it; false if the stream is gone.
    fn end_body(&self, stream: StreamId) -> bool;

    /// Resets a stream.
    fn reset(&self, stream: StreamId, why: Reset);

    /// A stream's request was malformed: it was answered, and is an error all the same.
    fn break_stream(&self, stream: StreamId);

    /// The stream's body is being read: so many bytes of it may come ahead.
    /// A body that nobody reads keeps the small window, so that a client cannot fill memory by uploads to a
    /// page that takes none.
    fn widen(&self, stream: StreamId, bytes: u32);

    /// Bytes of the body were taken: as many may follow.
    fn consume(&self, stream: StreamId, count: u32);

    /// Bytes of the body are of no use to anyone: no more are asked for.
    fn drop_body(&self, stream: StreamId, count: u32);

    /// A task for a stream has begun.
    fn begun(&self);

    /// It has ended, and its stream with it; `was_gone`: that had ended before.
    fn ended(&self, stream: StreamId, was_gone: bool);
}

/// Until when a connection may do nothing, in monotonic milliseconds; `active_ms`: when it did something last.
pub(crate) fn idle_until(active_ms: u64, conn: &Connection, core: &CoreConf) -> u64 {
    // One that has brought no request has the time of its accept, as with HTTP/1.1.
    if conn.requests.get() == 0 {
        return conn.started_ms + core.client_header_timeout.as_millis() as u64;
    }
    active_ms + core.keepalive_timeout.as_millis() as u64
}
