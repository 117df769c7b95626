//! Taking a request's body from its connection.
//!
//! The engine ([`Incoming`]) decides what the bytes are; here they are received, waited for, and `100 Continue` is
//! sent. What becomes of the body it must not know.

use crate::connection::Connection;
use crate::failure::body as failure;
use crate::limits::{BODY_PIECE_BYTES, READ_CHUNK_BYTES};
use crate::request::head::Head;
use brisk_http::h1::{Incoming, IncomingError};
use brisk_net::{Deadline, Failure, timeout};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

fn failed(error: IncomingError) -> Failure {
    match error {
        IncomingError::Chunk(error) => failure::malformed(&error),
        IncomingError::TooLarge { received, chunk } => failure::too_large(received, chunk),
    }
}

/// The body of the request that a connection is at.
pub struct BodyReader {
    conn: Rc<Connection>,
    /// Bytes behind the body stay in the connection's input: they are the next request.
    incoming: Incoming,
    /// What has not left of a `100 Continue`.
    unsent: Vec<u8>,
    /// `client_body_timeout`, from the last byte that came. Kept between polls, so that being woken for other reasons
    /// does not renew it.
    deadline: Deadline,
}

impl BodyReader {
    /// The body behind a head, from its start. `limit`: `client_max_body_size`.
    /// The limit is asked for chunked bodies only: a length was checked by `check_length` before anything was
    /// read.
    pub fn new(conn: Rc<Connection>, head: &Head, limit: u64) -> BodyReader {
        BodyReader::of(conn, Incoming::new(&head.buf, &head.parsed, head.framing, limit))
    }

    /// The reader of a body that was read already.
    pub fn spent(conn: Rc<Connection>) -> BodyReader {
        BodyReader::of(conn, Incoming::spent())
    }

    fn of(conn: Rc<Connection>, incoming: Incoming) -> BodyReader {
        // The deadline begins with the first wait, not with the reader.
        BodyReader { conn, incoming, unsent: Vec::new(), deadline: Deadline::default() }
    }

    /// Whether the whole body has been read.
    pub fn is_done(&self) -> bool {
        self.incoming.is_done()
    }

    /// True if the connection cannot be used for another request.
    pub fn is_broken(&self) -> bool {
        // Chunks that are wrong leave the place of the next request unknown.
        self.incoming.is_broken()
    }

    /// True if the client waits for a `100 Continue`: if it does not get it, it may never send the body.
    pub fn expects(&self) -> bool {
        self.incoming.expects() && !self.is_done()
    }

    /// Bytes taken from the connection, framing included.
    pub fn received(&self) -> u64 {
        self.incoming.received()
    }

    /// Appends the next bytes to `out`; false at the end. Waits at most `pause` for the client.
    pub async fn read(&mut self, out: &mut Vec<u8>, pause: Duration) -> Result<bool, Failure> {
        std::future::poll_fn(|cx| self.poll_read(cx, out, pause)).await
    }

    /// The same for those who wait for other things too. After `Pending` it is asked again with the same `pause`.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
        pause: Duration,
    ) -> Poll<Result<bool, Failure>> {
        let before = out.len();
        let result = ready!(self.try_read(cx, out, pause));
        // A read that has got bytes renews the time; one that waits keeps it.
        self.deadline.clear();
        // Only what came by this poll is taken back on an error: what was handed out before is the reader's.
        if result.is_err() {
            out.truncate(before);
            self.incoming.abandon();
        }
        Poll::Ready(result)
    }

    fn try_read(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
        pause: Duration,
    ) -> Poll<Result<bool, Failure>> {
        let before = out.len();
        loop {
            // What came with the head, or behind a chunk, stands in the connection's input and before anything in the
            // socket.
            self.take_input(out)?;
            // What is there is handed on at once. A handler that passes a body on must not wait for a full
            // buffer.
            if out.len() > before {
                return Poll::Ready(Ok(true));
            }
            if self.incoming.is_done() || self.incoming.is_broken() {
                // nginx answers the expectation of an empty body too.
                if self.incoming.expects() || !self.unsent.is_empty() {
                    self.deadline.set(pause);
                    ready!(self.say_continue(cx))?;
                }
                return Poll::Ready(Ok(false));
            }
            if !self.deadline.is_set() {
                self.deadline.set(pause);
            }
            // Before the first read: a client that waits for leave sends nothing until it has it.
            ready!(self.say_continue(cx))?;
            match self.receive(out) {
                // The client has closed its side in the middle of the body: what was announced will not come.
                Ok(0) => return Poll::Ready(Err(failure::gone())),
                // `client_body_timeout` is between two reads, as in nginx.
                Ok(_) => self.deadline.set(pause),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.deadline.poll_over(cx) {
                        return Poll::Ready(Err(failure::timed_out()));
                    }
                    // Only now, since the read clears the readiness that this waits for.
                    ready!(self.conn.io.poll_readable(cx));
                }
                // A reset, or a TLS error. Nothing can be told to such a client.
                Err(_) => return Poll::Ready(Err(failure::gone())),
            }
        }
    }

    /// RFC 9110 §10.1.1: when reading begins, unless some of the body has come already.
    fn say_continue(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        if self.incoming.take_expectation() {
            // Behind an interim response that has not left yet.
            self.unsent = self.conn.take_unsent();
            self.unsent.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        while !self.unsent.is_empty() {
            match self.conn.io.try_write(&self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.deadline.poll_over(cx) {
                        return Poll::Ready(Err(failure::timed_out()));
                    }
                    ready!(self.conn.io.poll_writable(cx));
                }
                Err(_) => return Poll::Ready(Err(failure::gone())),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// What the client sends behind a head that has made the connection a tunnel; false when it has closed its side.
    pub fn poll_raw(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<io::Result<bool>> {
        // Bytes that came with the head of the request for the tunnel.
        // Bytes of the tunnel may have come together with the request; they are the first ones.
        let mut input = self.conn.input.borrow_mut();
        if !input.is_empty() {
            out.append(&mut input);
            return Poll::Ready(Ok(true));
        }
        drop(input);
        loop {
            match read_behind(&self.conn, out, READ_CHUNK_BYTES) {
                Ok(count) => return Poll::Ready(Ok(count > 0)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.conn.io.poll_readable(cx));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Tells the client of a tunnel that nothing more comes; what it sends is still heard.
    pub fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.conn.io.poll_shutdown_write(cx)
    }

    /// Reads once from the socket: data of known length straight to `out`, chunks to the connection's input.
    fn receive(&mut self, out: &mut Vec<u8>) -> io::Result<usize> {
        // Chunks must be parsed, so they go where the parser looks. Data of known length is read no further than its
        // end, so the next request stays in the socket.
        let Some(left) = self.incoming.plain_room() else {
            let mut input = self.conn.input.borrow_mut();
            return read_behind(&self.conn, &mut input, READ_CHUNK_BYTES);
        };
        let room = BODY_PIECE_BYTES.min(usize::try_from(left).unwrap_or(usize::MAX));
        let count = read_behind(&self.conn, out, room)?;
        self.incoming.receive_plain(count as u64);
        Ok(count)
    }

    /// Moves what has arrived from the connection's input to `out`.
    fn take_input(&mut self, out: &mut Vec<u8>) -> Result<(), Failure> {
        let mut input = self.conn.input.borrow_mut();
        let used = self.incoming.take(&input, out).map_err(failed)?;
        // The parser may stop inside of a chunk's head: the rest of it waits here for what follows.
        input.drain(..used);
        Ok(())
    }

    /// Drops what has arrived of it already, so that bad framing is known before the response (nginx:
    /// `ngx_http_discard_request_body`).
    /// Where the framing is wrong, the request gets 400 and not the handler's answer: behind it nobody knows
    /// where the next request begins.
    pub fn discard_received(&mut self) -> Result<(), Failure> {
        // With bytes of it there the client has not waited for leave, so none is needed for the rest.
        self.incoming.ignore(!self.conn.input.borrow().is_empty());
        self.take_input(&mut Vec::new())
    }

    /// Reads and drops the rest, for at most `time`; true if the connection may be used again.
    pub async fn discard(&mut self, pause: Duration, time: Duration) -> bool {
        // Who was never told to go on will not send.
        // A client that waits for a 100 would send its body into a connection that is about to be used for a
        // response.
        if self.expects() {
            return false;
        }
        self.incoming.ignore(true);
        // `lingering_timeout` is between two reads; `lingering_time`, around all of this, bounds a client that sends
        // single bytes.
        let work = async {
            let mut sink = Vec::new();
            loop {
                sink.clear();
                match self.read(&mut sink, pause).await {
                    Ok(true) => {}
                    Ok(false) => return self.is_done(),
                    Err(_) => return false,
                }
            }
        };
        timeout(time, work).await.unwrap_or(false)
    }
}

fn read_behind(conn: &Connection, buf: &mut Vec<u8>, room: usize) -> io::Result<usize> {
    let start = buf.len();
    buf.resize(start + room, 0);
    let result = conn.io.try_read(&mut buf[start..]);
    buf.truncate(start + *result.as_ref().unwrap_or(&0));
    result
}
