//! One request on one connection: bytes out, events in. Both directions move by themselves, so that a back end may answer
//! before it has the whole request.

use crate::codec::{Codec, CodecError, Event, give_back};
use crate::head::BackendHead;
use crate::link::Link;
use crate::source::Source;
use crate::state::State;
use brisk_http::response::INTERIM_RESPONSES_MAX;
use brisk_server::body::BodyError;
use brisk_server::core::LogLevel;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Bytes taken from a back end in one read.
pub(crate) const READ_BYTES: usize = 64 * 1024;
/// Bytes of a request that are put together before they leave.
const GATHERED_BYTES_MAX: usize = 64 * 1024;

thread_local! {
    /// Reads go here first: nobody who waits holds a buffer.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// A queue that is empty.
    static QUEUE: Cell<VecDeque<Got>> = const { Cell::new(VecDeque::new()) };
}

/// Lends out the thread's buffer of [`READ_BYTES`].
pub(crate) fn scratch<R>(work: impl FnOnce(&mut [u8]) -> R) -> R {
    let mut buf = SCRATCH.take();
    buf.resize(READ_BYTES, 0);
    let result = work(&mut buf);
    SCRATCH.set(buf);
    result
}

/// What a back end's bytes meant.
#[derive(Debug)]
pub enum Got {
    Interim(BackendHead),
    Head(BackendHead),
    Data(Vec<u8>),
    Log(LogLevel, Vec<u8>),
    Trailers(Vec<(Vec<u8>, Vec<u8>)>),
    End,
}

/// What has come and nobody has taken; the next exchange takes over its memory.
#[derive(Default)]
struct Queue(VecDeque<Got>);

impl Queue {
    fn push(&mut self, got: Got) {
        if self.0.capacity() == 0 {
            self.0 = QUEUE.take();
        }
        self.0.push_back(got);
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if self.0.capacity() > 0 {
            self.0.clear();
            // The thread may be over.
            let _ = QUEUE.try_with(|spare| spare.set(std::mem::take(&mut self.0)));
        }
    }
}

/// Why an exchange ended early.
#[derive(Debug)]
pub enum Fault {
    /// The back end closed its side too early.
    Closed,
    /// A read failed.
    Read(io::Error),
    /// A write failed, and there is no answer to be read.
    Write(io::Error),
    ReadTimeout,
    WriteTimeout,
    Invalid(CodecError),
    HeadTooBig,
    /// The client's body could not be had.
    Body(BodyError),
}

/// Time-outs and limits of an exchange.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub head_bytes_max: usize,
    /// How much may be read at once before anybody knows more.
    pub read_bytes_max: usize,
    pub read_timeout: Duration,
    pub send_timeout: Duration,
}

/// See the module's head.
pub struct Exchange {
    pub link: Box<Link>,
    pub codec: Box<dyn Codec>,
    limits: Limits,
    out: Vec<u8>,
    out_at: usize,
    pub source: Source,
    /// The codec was told that the body is complete.
    ended: bool,
    /// The whole request has left.
    sent: bool,
    /// The back end takes no more of the body for now.
    is_held_up: bool,
    write_error: Option<io::Error>,
    /// What the codec has left unused.
    rest: Vec<u8>,
    queue: Queue,
    fault: Option<Fault>,
    has_head: bool,
    /// Interim responses that have come.
    interim_responses: usize,
    is_over: bool,
    is_eof: bool,
    /// The most that is to be read at once.
    pub read_max: usize,
    state: Rc<State>,
}

impl Exchange {
    /// Begins: the head, and as much of the body as is at hand, are ready to leave.
    pub fn new(
        link: Box<Link>,
        codec: Box<dyn Codec>,
        source: Source,
        limits: Limits,
        state: Rc<State>,
    ) -> Exchange {
        let mut this = Exchange {
            link,
            codec,
            limits,
            out: Vec::new(),
            out_at: 0,
            source,
            ended: false,
            sent: false,
            is_held_up: false,
            write_error: None,
            rest: Vec::new(),
            queue: Queue::default(),
            fault: None,
            has_head: false,
            interim_responses: 0,
            is_over: false,
            is_eof: false,
            read_max: limits.read_bytes_max,
            state,
        };
        this.link.requests += 1;
        this.codec.adopt(this.link.session.take());
        this.codec.begin(&mut this.out);
        this
    }

    /// Bytes of the request that are ready and have not left.
    pub fn unsent(&self) -> usize {
        self.out.len() - self.out_at
    }

    /// Sends what can be sent; ready when the whole request has left.
    pub fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        self.is_held_up = false;
        loop {
            // What is at hand leaves together.
            let is_waiting = ready!(self.poll_gather(cx))?;
            ready!(self.poll_flush(cx))?;
            if self.ended || self.write_error.is_some() {
                self.link.write_limit.clear();
                if !std::mem::replace(&mut self.sent, true) {
                    self.link.read_limit.set(self.limits.read_timeout);
                    give_back(std::mem::take(&mut self.out));
                }
                return Poll::Ready(Ok(()));
            }
            if is_waiting {
                return self.poll_held_up(cx);
            }
        }
    }

    /// The rest of the body cannot be sent now: the client has not sent it, or the back end gives no leave to.
    fn poll_held_up(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        self.is_held_up = self.codec.room() == 0;
        if !self.is_held_up {
            self.link.write_limit.clear();
            return Poll::Pending;
        }
        if !self.link.write_limit.is_set() {
            self.link.write_limit.set(self.limits.send_timeout);
        }
        if self.link.write_limit.poll_over(cx) {
            return Poll::Ready(Err(Fault::WriteTimeout));
        }
        Poll::Pending
    }

    /// Takes what there is of the body; true if more is to come, but not now.
    fn poll_gather(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Fault>> {
        while !self.ended && self.out.len() - self.out_at < GATHERED_BYTES_MAX {
            let room = self.codec.room();
            let next = if room > 0 { self.source.poll(cx, room) } else { self.source.poll_end(cx) };
            match next {
                Poll::Ready(Ok(Some([]))) if room == 0 => return Poll::Ready(Ok(true)),
                Poll::Ready(Ok(Some(piece))) => self.codec.body(piece, &mut self.out),
                Poll::Ready(Ok(None)) => self.end(),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Fault::Body(error))),
                Poll::Pending => return Poll::Ready(Ok(true)),
            }
        }
        Poll::Ready(Ok(false))
    }

    /// The body is complete.
    fn end(&mut self) {
        self.ended = true;
        if self.out_at == 0 {
            return self.codec.end(&mut self.out);
        }
        // What has left in part is not to be changed.
        let mut tail = Vec::new();
        self.codec.end(&mut tail);
        self.out.append(&mut tail);
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        while self.out_at < self.out.len() && self.write_error.is_none() {
            match self.link.stream.try_write(&self.out[self.out_at..]) {
                Ok(count) => {
                    self.out_at += count;
                    self.state.note(|attempt| attempt.sent += count as u64);
                    self.link.write_limit.clear();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.link.write_limit.is_set() {
                        self.link.write_limit.set(self.limits.send_timeout);
                    }
                    if self.link.write_limit.poll_over(cx) {
                        return Poll::Ready(Err(Fault::WriteTimeout));
                    }
                    ready!(self.link.stream.poll_writable(cx));
                }
                // The back end may have answered before it closed: what it said is worth more than this.
                Err(error) => self.write_error = Some(error),
            }
        }
        self.out.clear();
        self.out_at = 0;
        Poll::Ready(Ok(()))
    }

    /// The next thing that the back end says. After an error, or [`Got::End`], it is not to be asked again.
    pub fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<Got, Fault>> {
        loop {
            if let Some(got) = self.queue.0.pop_front() {
                return Poll::Ready(Ok(got));
            }
            if let Some(fault) = self.fault.take() {
                return Poll::Ready(Err(fault));
            }
            if self.is_eof || self.is_over {
                return Poll::Ready(Err(Fault::Closed));
            }
            if self.poll_read(cx).is_pending() {
                // What was read may have to be answered, or give leave to send more.
                if (self.out_at < self.out.len() || self.is_held_up)
                    && let Poll::Ready(Err(fault)) = self.poll_send(cx)
                {
                    return Poll::Ready(Err(fault));
                }
                return Poll::Pending;
            }
        }
    }

    /// What has come already, without asking for more.
    pub fn ready_event(&mut self) -> Option<Got> {
        self.queue.0.pop_front()
    }

    /// Reads once and puts what it means into the queue, or the fault.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.head_room() == 0 {
            self.fault = Some(Fault::HeadTooBig);
            return Poll::Ready(());
        }
        // Head and body mostly come together: one read takes both.
        let room = READ_BYTES.min(self.read_max);
        scratch(|buf| {
            self.poll_stream(cx, &mut buf[..room]).map(|result| match result {
                Ok(0) => self.eof(),
                Ok(count) => {
                    self.state.note(|attempt| attempt.received += count as u64);
                    self.link.wait = None;
                    self.link.read_limit.set(self.limits.read_timeout);
                    self.take(&buf[..count]);
                }
                Err(fault) => self.fault = Some(fault),
            })
        })
    }

    fn poll_stream(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<Result<usize, Fault>> {
        loop {
            // Who has just been asked has not answered yet: the read would only say so.
            if self.link.stream.poll_readable(cx).is_pending() {
                if self.link.read_limit.poll_over(cx) {
                    return Poll::Ready(Err(Fault::ReadTimeout));
                }
                return Poll::Pending;
            }
            match self.link.stream.try_read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Some(error) = self.write_error.take_if(|_| self.link.stream.is_closed()) {
                        return Poll::Ready(Err(Fault::Write(error)));
                    }
                }
                Err(error) => {
                    let fault = match self.write_error.take() {
                        Some(error) => Fault::Write(error),
                        None => Fault::Read(error),
                    };
                    return Poll::Ready(Err(fault));
                }
                Ok(count) => return Poll::Ready(Ok(count)),
            }
        }
    }

    fn eof(&mut self) {
        self.is_eof = true;
        match self.codec.eof() {
            Ok(Event::End) => {
                self.is_over = true;
                self.queue.push(Got::End);
            }
            Ok(_) => {
                self.fault = Some(match self.write_error.take() {
                    Some(error) => Fault::Write(error),
                    None => Fault::Closed,
                });
            }
            Err(error) => self.fault = Some(Fault::Invalid(error)),
        }
    }

    /// Gives what was read to the codec; before there is a head, no more at a time than one may be long.
    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.fault.is_none() {
            let (part, behind) = bytes.split_at(bytes.len().min(self.head_room()));
            if part.is_empty() {
                self.fault = Some(Fault::HeadTooBig);
                return;
            }
            self.digest(part);
            bytes = behind;
        }
    }

    /// Bytes that may still come before there is a head.
    fn head_room(&self) -> usize {
        if self.has_head { usize::MAX } else { self.limits.head_bytes_max.saturating_sub(self.rest.len()) }
    }

    /// Gives `bytes`, behind what was left, to the codec.
    fn digest(&mut self, bytes: &[u8]) {
        if self.rest.is_empty() {
            let used = self.feed(bytes);
            self.rest.extend_from_slice(&bytes[used..]);
            return;
        }
        let mut rest = std::mem::take(&mut self.rest);
        rest.extend_from_slice(bytes);
        let used = self.feed(&rest);
        rest.drain(..used);
        self.rest = rest;
    }

    /// Gives how much was used.
    fn feed(&mut self, input: &[u8]) -> usize {
        let mut at = 0;
        while !self.is_over {
            let step = match self.codec.read(&input[at..], &mut self.out) {
                Ok(step) => step,
                Err(error) => {
                    self.fault = Some(Fault::Invalid(error));
                    break;
                }
            };
            let from = at;
            at += step.used;
            match step.event {
                Event::NeedMore => break,
                Event::Interim(head) => {
                    self.interim_responses += 1;
                    if self.interim_responses > INTERIM_RESPONSES_MAX {
                        let error = CodecError::new("upstream sent too many interim responses");
                        self.fault = Some(Fault::Invalid(error));
                        break;
                    }
                    self.queue.push(Got::Interim(head));
                }
                Event::Head(head) => {
                    self.has_head = true;
                    self.queue.push(Got::Head(head));
                    if self.codec.is_tunnel() {
                        break;
                    }
                }
                Event::Data(range) => self.data(&input[from..][range]),
                Event::Log(level, text) => self.queue.push(Got::Log(level, text)),
                Event::Trailers(fields) => self.queue.push(Got::Trailers(fields)),
                Event::End => {
                    self.is_over = true;
                    self.queue.push(Got::End);
                }
            }
        }
        at
    }

    fn data(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.state.note(|attempt| attempt.length += bytes.len() as u64);
        match self.queue.0.back_mut() {
            Some(Got::Data(have)) => have.extend_from_slice(bytes),
            _ => self.queue.push(Got::Data(bytes.to_vec())),
        }
    }

    /// Whether more came than belongs to the answer.
    pub fn has_excess(&self) -> bool {
        !self.rest.is_empty()
    }

    /// What came behind a head that opens a tunnel.
    pub fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.rest)
    }

    /// After [`Got::End`]: the connection, if it may be used again.
    pub fn into_link(mut self: Box<Self>) -> Option<Box<Link>> {
        if self.out_at < self.out.len()
            && self.link.stream.try_write(&self.out[self.out_at..]).ok() == Some(self.out.len() - self.out_at)
        {
            self.out_at = self.out.len();
        }
        if !self.persists() {
            return None;
        }
        self.link.session = self.codec.release();
        Some(self.link)
    }

    fn persists(&self) -> bool {
        self.is_over
            && self.sent
            && !self.is_eof
            && self.write_error.is_none()
            && self.rest.is_empty()
            && self.out_at == self.out.len()
            && self.codec.persists()
    }
}

impl Fault {
    /// Reports it in nginx's words; `action` is what was being done.
    pub fn log(&self, action: &str, log: impl FnOnce(LogLevel, std::fmt::Arguments<'_>)) {
        let os = brisk_conf::os_text;
        match self {
            Fault::Closed => {
                log(LogLevel::Error, format_args!("upstream prematurely closed connection while {action}"));
            }
            Fault::Read(error) => {
                log(LogLevel::Error, format_args!("recv() failed ({}) while {action}", os(error)));
            }
            Fault::Write(error) => {
                let text = format_args!("send() failed ({}) while sending request to upstream", os(error));
                log(LogLevel::Error, text);
            }
            Fault::ReadTimeout => {
                let text = format_args!("upstream timed out (110: Connection timed out) while {action}");
                log(LogLevel::Error, text);
            }
            Fault::WriteTimeout => {
                let text = "upstream timed out (110: Connection timed out) while sending request to upstream";
                log(LogLevel::Error, format_args!("{text}"));
            }
            Fault::Invalid(error) if error.0.is_empty() => {}
            Fault::Invalid(error) => log(LogLevel::Error, format_args!("{error} while {action}")),
            Fault::HeadTooBig => {
                log(LogLevel::Error, format_args!("upstream sent too big header while {action}"));
            }
            // Whoever ends the request for it says so.
            Fault::Body(_) => {}
        }
    }
}
