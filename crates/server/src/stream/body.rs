//! Taking a request's body from its stream.
//!
//! Flow control is what bounds it: the client has a small window until a handler reads (`http2_body_preread_size`),
//! then a large one.

use super::exchange::Exchange;
use crate::failure::body as failure;
use crate::limits::{BODY_PIECE_BYTES, H2_BODY_WINDOW_BYTES};
use brisk_net::{Failure, sleep};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// The body of a stream's request.
pub struct BodyReader {
    exchange: Rc<Exchange>,
    /// `client_max_body_size`, for a body of unknown length; 0: no limit.
    limit: u64,
    /// As it came on the stream: there is no framing in it that would count.
    received: u64,
    /// The client waits for leave to send (`Expect: 100-continue`).
    expects: bool,
    /// All was taken.
    done: bool,
    broken: bool,
    /// The body is being read: the client may send more than `http2_body_preread_size` ahead.
    reading: bool,
    /// `client_body_timeout`. It begins with a wait and ends with it, so it is between two arrivals.
    timer: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl BodyReader {
    /// The body of a stream's request, from its start. `limit`: most bytes, if it is of unknown length; 0: any number.
    /// `expects`: the client waits for leave to send it.
    pub fn new(exchange: &Rc<Exchange>, limit: u64, expects: bool) -> BodyReader {
        // A body that was malformed is not done, whatever has come of it: its reader is told.
        // What has come is all there is.
        let done = exchange.ended.get() && exchange.input.borrow().is_empty() && !exchange.malformed.get();
        BodyReader {
            exchange: exchange.clone(),
            limit,
            received: 0,
            expects,
            done,
            broken: false,
            reading: false,
            timer: None,
        }
    }

    pub fn is_done(&self) -> bool {
        self.done
    }

    pub fn is_broken(&self) -> bool {
        self.broken
    }

    pub fn expects(&self) -> bool {
        self.expects && !self.done
    }

    pub fn received(&self) -> u64 {
        self.received
    }

    /// Appends the next bytes to `out`; false at the end. Waits at most `pause` for the client. After `Pending` it is
    /// asked again with the same `pause`.
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
        pause: Duration,
    ) -> Poll<Result<bool, Failure>> {
        // Asked once more after its end, it says so again.
        if self.done || self.broken {
            return Poll::Ready(Ok(false));
        }
        self.begin();
        if self.exchange.poll_input(cx).is_pending() {
            // Boxed and made only when it must wait: most bodies are there already.
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(pause)));
            ready!(timer.as_mut().poll(cx));
            self.timer = None;
            self.broken = true;
            return Poll::Ready(Err(failure::timed_out()));
        }
        self.timer = None;
        // A reader that has failed once gives nothing more: what follows would have a hole before it.
        let taken = self.take(out);
        self.broken |= taken.is_err();
        Poll::Ready(taken)
    }

    /// The same for those who wait for nothing else.
    pub async fn read(&mut self, out: &mut Vec<u8>, pause: Duration) -> Result<bool, Failure> {
        poll_fn(|cx| self.poll_read(cx, out, pause)).await
    }

    /// What the client sends once the stream is a tunnel (RFC 8441); false when it has closed its side.
    pub fn poll_raw(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<io::Result<bool>> {
        self.begin();
        // A tunnel has no length to be limited.
        // `client_max_body_size` is about requests; a tunnel lasts as long as both sides want.
        self.limit = 0;
        ready!(self.exchange.poll_input(cx));
        Poll::Ready(self.take(out).map_err(|_| io::ErrorKind::ConnectionReset.into()))
    }

    /// Tells the client of a tunnel that nothing more comes (RFC 8441 §5); what it sends is still heard.
    pub fn end(&mut self) -> io::Result<()> {
        if self.exchange.gone.get().is_some() || !self.exchange.session().end_body(self.exchange.id) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        self.exchange.said_all.set(true);
        Ok(())
    }

    /// The body is being read: the client is told to go on.
    fn begin(&mut self) {
        // Once. Before it is read, a body is not worth more memory than its preread size.
        if !std::mem::replace(&mut self.reading, true) && !self.exchange.ended.get() {
            self.exchange.session().widen(self.exchange.id, H2_BODY_WINDOW_BYTES);
        }
        // RFC 9110 §10.1.1.
        // Not if some of it has come: then the client has not waited for leave.
        if std::mem::take(&mut self.expects) && self.exchange.input.borrow().is_empty() {
            let mut block = Vec::new();
            self.exchange.session().encode_interim(100, &[], &mut block);
            self.exchange.send_head(&block, false);
        }
    }

    fn take(&mut self, out: &mut Vec<u8>) -> Result<bool, Failure> {
        let mut input = self.exchange.input.borrow_mut();
        if self.exchange.malformed.get() {
            return Err(failure::other_length());
        }
        if input.is_empty() {
            if self.exchange.ended.get() {
                self.done = true;
                return Ok(false);
            }
            // Woken without a byte and without an end: the stream is gone.
            return Err(failure::gone());
        }
        let count = input.len().min(BODY_PIECE_BYTES);
        // Before the bytes are handed out: a body that is too large must not reach a back end beyond its limit.
        if self.limit > 0 && count as u64 > self.limit.saturating_sub(self.received) {
            return Err(failure::too_large(self.received, count as u64));
        }
        out.extend_from_slice(&input[..count]);
        if count == input.len() {
            // A reader that waits holds no buffer.
            *input = Vec::new();
        } else {
            input.drain(..count);
        }
        drop(input);
        self.received += count as u64;
        // What was taken is given back to the windows only now, so that bytes nobody takes hold the client up.
        self.exchange.session().consume(self.exchange.id, count as u32);
        Ok(true)
    }

    /// Nothing about a frame that has come is unknown.
    pub fn discard_received(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}
