//! One request on one connection: bytes out, events in. Both directions move by themselves, so that a back end may answer
//! before it has the whole request.
//!
//! It owns the connection while it lasts, and gives it to the pool only at the end of [`Exchange::complete`]: dropped
//! before, it closes it. What the bytes mean the codec knows; whether another attempt follows is no business of this
//! file.

use crate::codec::{Codec, Event, give_back};
use crate::head::BackendHead;
use crate::limits::{EVENTS_PER_TURN, GATHERED_BYTES_MAX, READS_IN_A_ROW_MAX};
use crate::link::Link;
use crate::peer::ChosenPeer;
use crate::pool;
use crate::scratch::{READ_BYTES, scratch};
use crate::source::Source;
use brisk_balance::Outcome;
use brisk_http::limits::INTERIM_RESPONSES_MAX;
use brisk_net::{Activity, Cause, Failure, Retry};
use brisk_server::core::LogLevel;
use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

thread_local! {
    /// A queue that is empty.
    /// Kept between exchanges of the thread: making a queue was one allocation per request.
    static QUEUE: Cell<VecDeque<Got>> = const { Cell::new(VecDeque::new()) };
}

/// What a back end's bytes meant.
#[derive(Debug)]
pub enum Got {
    /// The head of an interim response.
    Interim(BackendHead),
    /// The final head.
    Head(BackendHead),
    /// Part of the body.
    Data(Vec<u8>),
    /// A message for the error log.
    Log(LogLevel, Vec<u8>),
    /// Fields behind the body: names and values.
    Trailers(Vec<(Vec<u8>, Vec<u8>)>),
    /// The response is complete.
    End,
}

/// What has come and was not taken; the next exchange takes over its memory.
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

/// Time-outs and limits of an exchange.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The size of a response head.
    pub head_bytes_max: usize,
    /// How much may be read at once until the head has come.
    /// With `*_limit_rate` the rate is known with the head only, and bytes read before count against it.
    pub read_bytes_max: usize,
    /// Between two reads.
    pub read_timeout: Duration,
    /// Between two writes.
    pub send_timeout: Duration,
}

/// How far the request is on its way out.
enum RequestSide {
    /// The head is out or about to leave, and more of the body is to come.
    Flowing,
    /// The same, but the back end takes no more of the body for now.
    /// Time runs against the back end now (`*_send_timeout`), while it does not for a client that sends slowly.
    HeldUp,
    /// The codec knows that the body is complete; the last bytes have not left.
    Ending,
    /// All has left. What the protocol makes us answer may still follow.
    Sent,
    /// A write failed: nothing more leaves. The back end may have answered before it closed, so the error is told only if
    /// there is nothing to be read.
    /// A server may refuse a body with an answer and close, so reading goes on (RFC 9112 §9.5).
    Abandoned(io::Error),
}

/// How far the response has come.
enum ResponseSide {
    /// The final head is awaited; so many interim responses came before.
    Head(usize),
    Body,
    /// The codec has seen the end, and the connection is still open.
    Complete,
    /// The end of the connection was the end of the response, or the failure was told: nothing more comes.
    Closed,
    /// It ended early, which is told when what came before has been taken.
    Failed(Failure),
}

/// See the module's head.
pub struct Exchange {
    /// The connection. It is dropped before the peer is given back: a process that it leaves at work keeps its place.
    pub link: Box<Link>,
    /// The peer that it is with.
    pub peer: Box<ChosenPeer>,
    /// What speaks the peer's protocol.
    pub codec: Box<dyn Codec>,
    limits: Limits,
    /// Bytes that are to leave, from `out_at` on.
    /// Freed as soon as the request has left: an exchange that waits for its answer holds no buffer.
    out: Vec<u8>,
    out_at: usize,
    /// The stream has seen bytes from `out_at` on and has not told how many it took: TLS has sealed some of them.
    is_offered: bool,
    source: Source,
    request: RequestSide,
    response: ResponseSide,
    /// What the codec has left unused.
    rest: Vec<u8>,
    queue: Queue,
    /// The most that is to be read at once, in bytes.
    /// Set for each read by a body that is read at a limited rate.
    pub read_max: usize,
    /// Reads since the back end was last waited for.
    in_a_row: u32,
}

impl Exchange {
    /// Begins: the head, and as much of the body as is at hand, are ready to leave.
    pub fn new(
        peer: Box<ChosenPeer>,
        link: Box<Link>,
        codec: Box<dyn Codec>,
        source: Source,
        limits: Limits,
    ) -> Exchange {
        let mut this = Exchange {
            peer,
            link,
            codec,
            limits,
            out: Vec::new(),
            out_at: 0,
            is_offered: false,
            source,
            request: RequestSide::Flowing,
            response: ResponseSide::Head(0),
            rest: Vec::new(),
            queue: Queue::default(),
            read_max: limits.read_bytes_max,
            in_a_row: 0,
        };
        // Counted when it begins, so that a connection is not used once more than `keepalive_requests` allows,
        // whatever its end.
        this.link.requests += 1;
        // A kept connection brings the times of the exchange before.
        this.link.read_limit.clear();
        this.link.write_limit.clear();
        // A process is busy from the first byte on, also if the request is given up: it may be carrying it out.
        if let Some(process) = &mut this.link.process {
            process.is_busy = true;
        }
        // The state of the connection (HTTP/2's tables and windows) is the codec's while the exchange lasts.
        this.codec.adopt(this.link.session.take());
        this.codec.begin(&mut this.out);
        this
    }

    /// Bytes of the request that are ready and have not left.
    pub fn unsent(&self) -> usize {
        self.out.len() - self.out_at
    }

    /// Whether a part of the body is still with the client, and wanted.
    pub fn reads_client(&self) -> bool {
        matches!(self.request, RequestSide::Flowing | RequestSide::HeldUp) && self.source.reads_client()
    }

    /// Sends what can be sent; ready when nothing more is to be sent, because all of the request has left or a write has
    /// failed.
    pub fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        if matches!(self.request, RequestSide::Sent) && self.unsent() == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            // What is at hand leaves together.
            // One write for head and body where the body is there: a back end that gets both at once is woken once.
            let is_waiting = ready!(self.poll_gather(cx))?;
            ready!(self.poll_flush(cx))?;
            match self.request {
                RequestSide::Ending => {
                    self.request = RequestSide::Sent;
                    self.all_sent();
                }
                RequestSide::Flowing | RequestSide::HeldUp if is_waiting => return self.poll_held_up(cx),
                RequestSide::Flowing | RequestSide::HeldUp => continue,
                RequestSide::Sent | RequestSide::Abandoned(_) => self.link.write_limit.clear(),
            }
            return Poll::Ready(Ok(()));
        }
    }

    /// From now on the back end is waited for.
    fn all_sent(&mut self) {
        self.link.write_limit.clear();
        // `*_read_timeout` counts from here: what the back end needs to take the request is not part of it.
        self.link.read_limit.set(self.limits.read_timeout);
        // The buffer goes back to the thread, where the next request is put together.
        give_back(std::mem::take(&mut self.out));
        self.out_at = 0;
    }

    /// The rest of the body cannot be sent now: the client has not sent it, or the back end gives no leave to.
    fn poll_held_up(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        // The client has not sent the rest: that is no fault of the back end, so its time does not run.
        if self.codec.room() > 0 {
            self.request = RequestSide::Flowing;
            self.link.write_limit.clear();
            return Poll::Pending;
        }
        self.request = RequestSide::HeldUp;
        self.poll_write_limit(cx)
    }

    /// Ready with a failure when the back end has taken nothing for too long.
    fn poll_write_limit(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        if !self.link.write_limit.is_set() {
            self.link.write_limit.set(self.limits.send_timeout);
        }
        if self.link.write_limit.poll_over(cx) {
            return Poll::Ready(Err(Failure::upstream(Activity::SendingRequest, Cause::TimedOut)));
        }
        Poll::Pending
    }

    /// Takes what there is of the body; true if more is to come, but not now.
    fn poll_gather(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Failure>> {
        // Bounded: a large body is not copied into memory before its first bytes have left.
        while matches!(self.request, RequestSide::Flowing | RequestSide::HeldUp)
            && self.unsent() < GATHERED_BYTES_MAX
        {
            let room = self.codec.room();
            // Without room only the end can be told.
            // HTTP/2 may have used up its window. An empty DATA frame with END_STREAM needs none (RFC 9113
            // §6.9.1), so the end is told all the same.
            let next = if room > 0 { self.source.poll(cx, room) } else { self.source.poll_end(cx) };
            match next {
                Poll::Ready(Ok(Some([]))) if room == 0 => return Poll::Ready(Ok(true)),
                Poll::Ready(Ok(Some(piece))) => self.codec.body(piece, &mut self.out),
                Poll::Ready(Ok(None)) => self.end(),
                Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
                Poll::Pending => return Poll::Ready(Ok(true)),
            }
        }
        Poll::Ready(Ok(false))
    }

    /// The body is complete.
    fn end(&mut self) {
        self.request = RequestSide::Ending;
        // Nothing has left yet, so the codec may mark the last frame in place as the last.
        if self.out_at == 0 && !self.is_offered {
            return self.codec.end(&mut self.out);
        }
        // What has left in part is not to be changed.
        let mut tail = Vec::new();
        self.codec.end(&mut tail);
        self.out.append(&mut tail);
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        while self.unsent() > 0 && !matches!(self.request, RequestSide::Abandoned(_)) {
            match self.link.stream.try_write(&self.out[self.out_at..]) {
                Ok(count) => {
                    self.out_at += count;
                    self.is_offered = false;
                    self.peer.state.note(|attempt| attempt.sent += count as u64);
                    // Between two writes that take something, as in nginx.
                    self.link.write_limit.clear();
                }
                // The time begins with the first write that was not taken.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_offered = true;
                    if let Poll::Ready(over) = self.poll_write_limit(cx) {
                        return Poll::Ready(over);
                    }
                    ready!(self.link.stream.poll_writable(cx));
                }
                // The error waits for the reader: an answer that came before the close counts more than a failed
                // write.
                Err(error) => {
                    self.request = RequestSide::Abandoned(error);
                    self.all_sent();
                }
            }
        }
        self.out.clear();
        self.out_at = 0;
        Poll::Ready(Ok(()))
    }

    /// The next thing that the back end says. After an error, or [`Got::End`], it is not to be asked again.
    pub fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<Got, Failure>> {
        loop {
            if let Some(got) = self.queue.0.pop_front() {
                return Poll::Ready(Ok(got));
            }
            // Closed in its place, so that a failure is given out once and a second question gets an end.
            match std::mem::replace(&mut self.response, ResponseSide::Closed) {
                ResponseSide::Failed(failure) => return Poll::Ready(Err(failure)),
                ResponseSide::Complete | ResponseSide::Closed => {
                    return Poll::Ready(Err(self.failure(Cause::Closed)));
                }
                open @ (ResponseSide::Head(_) | ResponseSide::Body) => self.response = open,
            }
            if self.poll_turn(cx).is_pending() {
                // What was read may have to be answered (SETTINGS, PING), or give leave to send more (WINDOW_UPDATE).
                // Only then: a request whose body waits for its client is not asked for more by each read.
                if (self.unsent() > 0 || matches!(self.request, RequestSide::HeldUp))
                    && let Poll::Ready(Err(failure)) = self.poll_send(cx)
                {
                    return Poll::Ready(Err(failure));
                }
                return Poll::Pending;
            }
        }
    }

    /// A failure of the back end while its response is read.
    fn failure(&self, cause: Cause) -> Failure {
        Failure::upstream(self.activity(), cause)
    }

    fn activity(&self) -> Activity {
        match self.response {
            ResponseSide::Head(_) => Activity::ReadingHead,
            _ => Activity::ReadingResponse,
        }
    }

    /// What has come already, without asking for more.
    pub fn ready_event(&mut self) -> Option<Got> {
        self.queue.0.pop_front()
    }

    /// Reads, if it is this exchange's turn. A back end that sends faster than it is read, were it only messages and frames that
    /// come to nothing, would keep the thread from all others.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.in_a_row < READS_IN_A_ROW_MAX && self.poll_read(cx).is_ready() {
            // One read may bring thousands of short messages, each of which costs a line in the log.
            let events = u32::try_from(self.queue.0.len()).unwrap_or(u32::MAX);
            self.in_a_row += 1 + events / EVENTS_PER_TURN;
            return Poll::Ready(());
        }
        if std::mem::take(&mut self.in_a_row) >= READS_IN_A_ROW_MAX {
            // The task stays ready and comes again when the loop has seen to others.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Reads once and puts what it means into the queue, or the failure.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Before reading: a head that is too long is refused by what there is of it.
        if self.head_room() == 0 {
            self.head_too_big();
            return Poll::Ready(());
        }
        // Head and body mostly come together: one read takes both.
        let room = READ_BYTES.min(self.read_max);
        scratch(|buf| {
            self.poll_stream(cx, &mut buf[..room]).map(|result| match result {
                Ok(0) => self.eof(),
                Ok(count) => {
                    self.peer.state.note(|attempt| attempt.received += count as u64);
                    // The first byte: the connection has its process, and others need not be closed for it.
                    self.link.wait = None;
                    self.take(&buf[..count]);
                    // Until all of the request has left, interim responses say nothing of when the back end is to answer.
                    let is_asked = matches!(self.request, RequestSide::Sent | RequestSide::Abandoned(_));
                    if is_asked || !matches!(self.response, ResponseSide::Head(_)) {
                        self.link.read_limit.set(self.limits.read_timeout);
                    }
                }
                Err(failure) => self.response = ResponseSide::Failed(failure),
            })
        })
    }

    fn poll_stream(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<Result<usize, Failure>> {
        loop {
            // A peer that has just been asked has not answered yet: the read would only say so.
            if self.link.stream.poll_readable(cx).is_pending() {
                if self.link.read_limit.poll_over(cx) {
                    return Poll::Ready(Err(self.failure(Cause::TimedOut)));
                }
                return Poll::Pending;
            }
            match self.link.stream.try_read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // The peer has closed after a failed write, and nothing is left to be read.
                    if self.link.stream.is_closed()
                        && let Some(failure) = self.write_failure()
                    {
                        return Poll::Ready(Err(failure));
                    }
                }
                Err(error) => {
                    let failure = self.write_failure();
                    let read = || self.failure(Cause::Call { call: "recv()".into(), error });
                    return Poll::Ready(Err(failure.unwrap_or_else(read)));
                }
                Ok(count) => return Poll::Ready(Ok(count)),
            }
        }
    }

    /// The error of the write that failed, if one has: it came before whatever reading finds now.
    fn write_failure(&mut self) -> Option<Failure> {
        match std::mem::replace(&mut self.request, RequestSide::Sent) {
            RequestSide::Abandoned(error) => {
                let cause = Cause::Call { call: "send()".into(), error };
                let failure = Failure::upstream(Activity::SendingRequest, cause);
                let mut sent = 0;
                self.peer.state.note(|attempt| sent = attempt.sent);
                // As in nginx, a server that has got no byte has not looked at the request, so it may be sent to
                // another one whatever its method. TLS tells of bytes only when all that it has sealed has left.
                let may_have_left = sent > 0 || (self.is_offered && self.link.stream.tls().is_some());
                Some(if may_have_left { failure } else { failure.retry_is(Retry::Safe) })
            }
            other => {
                self.request = other;
                None
            }
        }
    }

    fn eof(&mut self) {
        // Only the codec knows whether an end without a length is one (RFC 9112 §6.3).
        self.response = match self.codec.eof() {
            Ok(Event::End) => {
                self.queue.push(Got::End);
                ResponseSide::Closed
            }
            // The codec misses something. If a write had failed before, that is the reason which the log
            // should name.
            Ok(_) => {
                let failure = self.write_failure();
                ResponseSide::Failed(failure.unwrap_or_else(|| self.failure(Cause::Closed)))
            }
            Err(failure) => ResponseSide::Failed(failure.during(self.activity())),
        };
    }

    fn head_too_big(&mut self) {
        let cause = Cause::Protocol("upstream sent too big header".into());
        self.response = ResponseSide::Failed(self.failure(cause));
    }

    /// Gives what was read to the codec; before there is a head, no more at a time than one may be long.
    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !matches!(self.response, ResponseSide::Failed(_)) {
            // A head is parsed by parts, so that its length is bounded before there is one, even if a read brings
            // much more.
            let (part, behind) = bytes.split_at(bytes.len().min(self.head_room()));
            if part.is_empty() {
                return self.head_too_big();
            }
            self.digest(part);
            bytes = behind;
        }
    }

    /// Bytes that may still come before there is a head.
    fn head_room(&self) -> usize {
        match self.response {
            ResponseSide::Head(_) => self.limits.head_bytes_max.saturating_sub(self.rest.len()),
            _ => usize::MAX,
        }
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
        // What a codec leaves is a part of a head or frame, so moving the rest costs little.
        rest.drain(..used);
        self.rest = rest;
    }

    /// Has the codec read; gives how much it has used.
    fn feed(&mut self, input: &[u8]) -> usize {
        let mut at = 0;
        // Nothing behind the end is given to the codec: it is told of by `has_excess`, and the connection is not used
        // again.
        while matches!(self.response, ResponseSide::Head(_) | ResponseSide::Body) {
            let step = match self.codec.read(&input[at..], &mut self.out) {
                Ok(step) => step,
                Err(failure) => {
                    self.response = ResponseSide::Failed(failure.during(self.activity()));
                    break;
                }
            };
            let from = at;
            at += step.used;
            match step.event {
                Event::NeedMore => break,
                Event::Interim(head) => self.interim(head),
                Event::Head(head) => {
                    self.response = ResponseSide::Body;
                    self.queue.push(Got::Head(head));
                    // What follows is not HTTP: it belongs to the tunnel.
                    if self.codec.is_tunnel() {
                        break;
                    }
                }
                Event::Data(range) => self.data(&input[from..][range]),
                Event::Log(level, text) => self.queue.push(Got::Log(level, text)),
                Event::Trailers(fields) => self.queue.push(Got::Trailers(fields)),
                Event::End => {
                    self.response = ResponseSide::Complete;
                    self.queue.push(Got::End);
                }
            }
        }
        at
    }

    fn interim(&mut self, head: BackendHead) {
        let ResponseSide::Head(count) = &mut self.response else { return };
        *count += 1;
        // RFC 9110 §15.2 names no limit; without one a back end could hold the request for ever.
        if *count > INTERIM_RESPONSES_MAX {
            let cause = Cause::Protocol("upstream sent too many interim responses".into());
            self.response = ResponseSide::Failed(self.failure(cause));
        } else {
            self.queue.push(Got::Interim(head));
        }
    }

    fn data(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.peer.state.note(|attempt| attempt.length += bytes.len() as u64);
        // Pieces of one read become one, since the client gets each in a write of its own.
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

    /// It ends before the answer does: the connection is closed. Gives the peer, and whether the connection had served others.
    pub fn give_up(self: Box<Self>) -> (Box<ChosenPeer>, bool) {
        let Exchange { peer, link, .. } = *self;
        (peer, link.is_reused)
    }

    /// After [`Got::End`]: the attempt has succeeded, and the connection is kept if it may be used again.
    pub fn complete(mut self: Box<Self>) {
        // The application goes on behind its answer. The link is dropped as busy, and `abandoned` keeps the
        // process's place until it has closed.
        if self.codec.goes_on() {
            self.give_up().0.finish(Outcome::Ok);
            return;
        }
        if let Some(process) = &mut self.link.process {
            process.is_busy = false;
        }
        // Before the connection is put into the pool: the place is free when the next request of this turn
        // looks for one.
        self.peer.finish(Outcome::Ok);
        let last = &self.out[self.out_at..];
        // What the protocol makes us say last (a WINDOW_UPDATE, an ACK) must not be lost, or the next exchange would
        // begin behind it.
        let has_left = last.is_empty() || self.link.stream.try_write(last).ok() == Some(last.len());
        let is_whole = matches!((&self.request, &self.response), (RequestSide::Sent, ResponseSide::Complete));
        // All of it: a request that was not sent to its end, or bytes that nobody asked for, would become part of the
        // next exchange. The latter is how a back end could answer another client's request in advance.
        if is_whole && has_left && self.rest.is_empty() && self.codec.persists() {
            self.link.session = self.codec.release();
            pool::put(self.link, &self.peer.group, &self.peer.keepalive);
        }
    }
}
