//! A connection's engine with what is to be sent, and who sends next.
//!
//! It does not know what a request is: streams belong to exchanges, and what leaves is their pieces in the order of
//! priorities.

use super::{hot, life};
use crate::connection::Connection;
use crate::limits::{H2_OUT_BYTES_LOW, H2_OUT_BYTES_MAX, H2_TURN_BYTES_MAX};
use crate::live::Live;
use crate::prepared::Prepared;
use crate::response::Piece;
use crate::stream;
use crate::stream::answer::{Answering, Whole};
use crate::stream::exchange::{Exchange, Outgoing, Stuck};
use crate::stream::{Reset, StreamId, Streams, encode};
use crate::table::Thread;
use crate::text::Text;
use brisk_h2::hpack::Hpack;
use brisk_h2::{Connection as Engine, ErrorCode, frame};
use brisk_mux::Priority;
use brisk_net::{clock, file, sleep};
use std::cell::{Cell, RefCell};
use std::future::{Future as _, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};

/// How a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Open,
    /// No new streams; closed when those that have begun are done.
    Leaving,
    /// Closed when what was written has left.
    Failed,
    /// Nothing more is sent or heard.
    Dead,
}

/// What a stream of the engine belongs to, if anybody waits for it.
/// `None`: the answer was whole at once, and only the engine knows the stream until it has left.
pub type Value = Option<Rc<Exchange>>;

/// See the module's head.
pub struct Session {
    /// For tasks that outlive the call in which they begin.
    this: Weak<Session>,
    pub thread: Rc<Thread>,
    pub index: u32,
    pub engine: RefCell<Engine<Value>>,
    /// Whole frames that have not left; nothing but appended to in between.
    /// Bounded by [`H2_OUT_BYTES_MAX`]: from there on nothing is read, and streams add nothing from
    /// [`H2_OUT_BYTES_LOW`] on.
    pub out: RefCell<Vec<u8>>,
    pub stage: Cell<Stage>,
    /// Tasks of streams.
    pub running: Cell<u32>,
    /// Tasks whose streams are gone.
    /// They count against the client's streams: resetting a request does not end its work at once (CVE-2023-44487).
    pub orphans: Cell<u32>,
    /// The connection's input is being worked through: what is to be sent is sent at the end of that.
    pub busy: Cell<bool>,
    /// It stands in the thread's list of those that have something to send.
    pub dirty: Cell<bool>,
    /// A task waits until the socket takes more.
    /// Only one at a time: it holds the one waker for writing.
    pub flushing: Cell<bool>,
    flush_waker: RefCell<Option<Waker>>,
    /// Input waits: the client did not take what was said. No event tells of it again.
    is_unheard: Cell<bool>,
    /// When the rest of a head must be there (monotonic), if one has begun.
    pub head_deadline_ms: Cell<u64>,
    /// The stream of that head; 0: of another frame.
    pub head_stream: Cell<u32>,
    /// The last time that a stream was active.
    pub active_ms: Cell<u64>,
}

impl Session {
    pub fn new(thread: &Rc<Thread>, index: u32, engine: Engine<Value>, out: Vec<u8>) -> Rc<Session> {
        Rc::new_cyclic(|this| Session {
            this: this.clone(),
            thread: thread.clone(),
            index,
            engine: RefCell::new(engine),
            out: RefCell::new(out),
            stage: Cell::new(Stage::Open),
            running: Cell::new(0),
            orphans: Cell::new(0),
            busy: Cell::new(false),
            dirty: Cell::new(false),
            flushing: Cell::new(false),
            flush_waker: RefCell::default(),
            is_unheard: Cell::new(false),
            head_deadline_ms: Cell::new(0),
            head_stream: Cell::new(0),
            active_ms: Cell::new(clock::mono_ms()),
        })
    }

    /// The peer does not take what we say: nothing more is heard until it does. The caller leaves its input where it is then, so it is noted that
    /// there is some.
    pub fn is_paused(&self) -> bool {
        let is_paused = self.has_no_room();
        if is_paused {
            self.is_unheard.set(true);
        }
        is_paused
    }

    /// The same, for callers that leave no input behind.
    pub fn has_no_room(&self) -> bool {
        self.flushing.get() && self.out.borrow().len() >= H2_OUT_BYTES_MAX
    }

    /// Goes on with input that had to wait, once the peer has taken enough, in a turn of its own: this one may be in the middle of the input.
    fn hear_again(&self, conn: &Rc<Connection>) {
        let hears = matches!(self.stage.get(), Stage::Open | Stage::Leaving);
        if !self.is_unheard.get() || self.has_no_room() || !hears {
            return;
        }
        self.is_unheard.set(false);
        if let Some(session) = self.this.upgrade() {
            let conn = conn.clone();
            brisk_net::spawn(async move { hot::resume(&session, &conn) });
        }
    }

    /// Something is to be sent: at the end of this turn of the loop.
    pub fn touch(&self) {
        // Once per turn for all streams that have something: their frames leave in one write.
        if !self.busy.get() && !self.flushing.get() && !self.dirty.replace(true) {
            self.thread.dirty.borrow_mut().push(self.index);
        }
    }

    pub fn is_dead(&self) -> bool {
        self.stage.get() == Stage::Dead
    }

    /// Nobody waits for anything here.
    pub fn is_idle(&self) -> bool {
        // Streams that still receive are no reason to stay: their tasks count as running.
        self.running.get() == 0 && self.engine.borrow().is_empty() && self.out.borrow().is_empty()
    }

    /// Resets a stream, if it is still there.
    pub fn reset(&self, stream: u32, code: ErrorCode) {
        // Out of the engine first: the exchange's end wakes a task, which may ask the engine about it.
        let value = self.engine.borrow_mut().reset(stream, code, &mut self.out.borrow_mut());
        if let Some(Some(exchange)) = value {
            self.count_orphans(1);
            exchange.end(reset_of(code));
        }
        self.touch();
    }

    fn close_stream(&self, stream: u32, code: ErrorCode) {
        let _ = self.engine.borrow_mut().reset(stream, code, &mut self.out.borrow_mut());
        self.touch();
    }

    /// A stream's task has ended, or its stream before it.
    pub fn count_orphans(&self, by: i32) {
        // Saturating: an order that comes twice must not make a connection count as busy for ever.
        self.orphans.set(self.orphans.get().saturating_add_signed(by));
        // The engine counts them among the open streams that SETTINGS_MAX_CONCURRENT_STREAMS bounds.
        self.engine.borrow_mut().set_busy(self.orphans.get());
    }

    /// Writes as much as the socket takes now and streams have, by their priorities.
    pub fn flush(&self, conn: &Rc<Connection>) {
        self.flush_now(conn);
        self.hear_again(conn);
    }

    fn flush_now(&self, conn: &Rc<Connection>) {
        if self.is_dead() {
            return;
        }
        // A client that takes everything would be served alone: others have their turn after so much.
        let mut left = H2_TURN_BYTES_MAX;
        loop {
            // Filled again after each write: priorities count late, when there is room.
            self.fill();
            let mut out = self.out.borrow_mut();
            // What streams had is in the buffer now, and the buffer has left.
            if out.is_empty() {
                break;
            }
            match conn.io.try_write(&out) {
                Ok(count) if count == out.len() => out.clear(),
                Ok(count) => drop(out.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    drop(out);
                    return self.wait_for_room(conn);
                }
                Err(_) => {
                    drop(out);
                    return life::close(self, conn, life::How::Broken);
                }
            }
            // Counted by fill and not by byte, which is exact enough for a bound.
            left = left.saturating_sub(H2_OUT_BYTES_LOW);
            if left == 0 {
                drop(out);
                // Others have their turn first.
                return self.touch();
            }
        }
        // A burst must not keep its memory for ever.
        if self.out.borrow().capacity() > 4 * H2_OUT_BYTES_LOW {
            self.out.take();
        }
        life::settle(self, conn);
    }

    /// Lets the streams in turn append their next frames, as long as the buffer is short.
    fn fill(&self) {
        // GOAWAY is the last frame of a connection that has failed.
        if matches!(self.stage.get(), Stage::Failed | Stage::Dead) {
            return;
        }
        let (mut engine, mut out) = (self.engine.borrow_mut(), self.out.borrow_mut());
        while out.len() < H2_OUT_BYTES_LOW {
            let Some(stream) = engine.next_sender() else { return };
            // Cloned out, so that the exchange may be asked while the engine is borrowed.
            let exchange = engine.value(stream).cloned().flatten();
            match exchange {
                Some(exchange) => fill_from(&exchange, &mut engine, &mut out),
                // The stream is not ready any more, or its task has ended in between.
                None => engine.set_ready(stream, false),
            }
        }
    }

    /// Starts the task that goes on when the socket takes more.
    fn wait_for_room(&self, conn: &Rc<Connection>) {
        // One task waits for all.
        if self.flushing.replace(true) {
            return;
        }
        // The session is going; nobody has anything to send.
        let (Some(session), conn) = (self.this.upgrade(), conn.clone()) else { return };
        brisk_net::spawn(async move {
            while !session.is_dead() && session.flushing.get() {
                // Only the number is kept: a client that takes nothing must not hold a configuration that a reload has replaced.
                let pause = session.thread.live().default_core(&conn.listener).map(|core| core.send_timeout);
                let Some(pause) = pause else { break };
                let mut timer = pin!(sleep(pause));
                let timed_out = poll_fn(|cx| {
                    if session.is_dead() || conn.io.poll_writable(cx).is_ready() {
                        return Poll::Ready(false);
                    }
                    // Kept so that closing the connection ends the wait.
                    // A session that is killed must not leave a task until its time-out.
                    *session.flush_waker.borrow_mut() = Some(cx.waker().clone());
                    timer.as_mut().poll(cx).map(|()| true)
                });
                if timed_out.await {
                    life::send_timed_out(&session, &conn);
                    return;
                }
                // Before flushing, which sets it again if there is no room.
                session.flushing.set(false);
                session.flush_here(&conn);
                // Also while some of it has not left: a client that takes little at a time would wait until the next event else.
                session.hear_again(&conn);
            }
        });
    }

    /// As [`Session::flush`] for the task that waits: it goes on waiting itself.
    fn flush_here(&self, conn: &Rc<Connection>) {
        let mut left = H2_TURN_BYTES_MAX;
        loop {
            self.fill();
            let mut out = self.out.borrow_mut();
            if out.is_empty() {
                break;
            }
            match conn.io.try_write(&out) {
                Ok(count) => drop(out.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.flushing.set(true);
                    return;
                }
                Err(_) => {
                    drop(out);
                    return life::close(self, conn, life::How::Broken);
                }
            }
            left = left.saturating_sub(H2_OUT_BYTES_LOW);
            if left == 0 {
                drop(out);
                // As in `flush`: the rest leaves in a later turn, and this task is done.
                return self.touch();
            }
        }
        life::settle(self, conn);
    }
}

/// Appends one DATA frame of what an exchange has to send.
fn fill_from(exchange: &Exchange, engine: &mut Engine<Value>, out: &mut Vec<u8>) {
    let id = exchange.id as u32;
    let mut outgoing = exchange.outgoing.borrow_mut();
    // It was marked as ready before its task gave anything.
    let Some(Outgoing { piece, at, last }) = &mut *outgoing else {
        return engine.set_ready(id, false);
    };
    let left = piece.len() - *at;
    // RFC 9113 §5.2.1: never more than both windows allow; frames are small so that others get in between.
    let room = engine.room(id).min(engine.chunk(id)) as u64;
    let want = left.min(room) as usize;
    let count = match piece.in_memory() {
        Some(bytes) => {
            let bytes = &bytes[*at as usize..][..want];
            // END_STREAM only in the frame with the last byte.
            // The engine writes the frame's head and moves both windows.
            let end = *last && want as u64 == left;
            // The stream has ended meanwhile; its task hears of that by itself.
            if engine.begin_data(id, want, end, out).is_err() {
                return;
            }
            out.extend_from_slice(bytes);
            want
        }
        None => match fill_from_file(id, piece, *at, want, *last, left, engine, out) {
            Ok(count) => count,
            Err(stuck) => {
                // Nothing may wait here: the stream stops being ready, and its task has the pool read the file.
                exchange.stuck.set(Some(stuck));
                engine.set_ready(id, false);
                return exchange.wakers.wake();
            }
        },
    };
    *at += count as u64;
    exchange.sent.set(exchange.sent.get() + count as u64);
    exchange.framing.set(exchange.framing.get() + frame::HEAD_BYTES as u64);
    // The task makes the next piece while others send.
    if *at == piece.len() {
        *outgoing = None;
        engine.set_ready(id, false);
        exchange.wakers.wake();
    }
}

/// The same from a file: straight behind the frame's head, which is known once the bytes are.
#[allow(clippy::too_many_arguments)]
fn fill_from_file(
    id: u32,
    // The bytes are read to where they leave from, so a file is copied once.
    piece: &Piece,
    at: u64,
    want: usize,
    last: bool,
    left: u64,
    engine: &mut Engine<Value>,
    out: &mut Vec<u8>,
) -> Result<usize, Stuck> {
    let Piece::File { file, range } = piece else { return Err(Stuck::Truncated) };
    let fd = file.fd.as_ref().ok_or(Stuck::Truncated)?;
    // The head's place is kept free: how many bytes are warm is known after the read.
    // Reads only what is in the page cache; a frame must not wait for a disk in the middle of others.
    let (start, offset) = (out.len(), range.start + at);
    out.resize(start + frame::HEAD_BYTES + want, 0);
    let read = file::read_warm(fd, &mut out[start + frame::HEAD_BYTES..], offset);
    // A short read is a short frame: what is cold is asked for by the next one.
    let count = *read.as_ref().unwrap_or(&0);
    out.truncate(start + frame::HEAD_BYTES + count);
    if count == 0 {
        out.truncate(start);
        let is_cold = read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        return Err(if is_cold { Stuck::Cold { offset, len: want } } else { Stuck::Truncated });
    }
    let mut head = Vec::with_capacity(frame::HEAD_BYTES);
    let end = last && count as u64 == left;
    if engine.begin_data(id, count, end, &mut head).is_err() {
        out.truncate(start);
        return Err(Stuck::Truncated);
    }
    // No copy of the body: it was read straight behind the place that was kept.
    out[start..start + frame::HEAD_BYTES].copy_from_slice(&head);
    Ok(count)
}

/// What a stream's end means to its request.
pub fn reset_of(code: ErrorCode) -> Reset {
    match code {
        ErrorCode::CANCEL => Reset::Cancel,
        ErrorCode::PROTOCOL_ERROR => Reset::Protocol,
        _ => Reset::Internal,
    }
}

impl Streams for Session {
    fn head_overhead(&self) -> u64 {
        frame::HEAD_BYTES as u64
    }

    fn encode_interim(&self, status: u16, fields: &[(Text, Text)], out: &mut Vec<u8>) {
        encode::interim::<Hpack>(status, fields, out);
    }

    fn encode_trailers(&self, fields: &[(Text, Text)], out: &mut Vec<u8>) {
        encode::trailers::<Hpack>(fields, out);
    }

    fn has_room(&self) -> bool {
        self.out.borrow().len() < H2_OUT_BYTES_LOW
    }

    fn open_tunnel(&self, stream: StreamId) {
        self.engine.borrow_mut().open_tunnel(stream as u32);
    }

    fn send_head(&self, stream: StreamId, block: &[u8], end: bool) -> bool {
        // An error means that the stream is gone: there is nobody to be told.
        let sent = self.engine.borrow_mut().send_head(stream as u32, block, end, &mut self.out.borrow_mut());
        self.touch();
        sent.is_ok()
    }

    fn set_ready(&self, stream: StreamId) {
        self.engine.borrow_mut().set_ready(stream as u32, true);
        self.touch();
    }

    fn set_chunk(&self, stream: StreamId, bytes: u32) {
        self.engine.borrow_mut().set_chunk(stream as u32, bytes);
    }

    fn end_body(&self, stream: StreamId) -> bool {
        let ended = self.engine.borrow_mut().begin_data(stream as u32, 0, true, &mut self.out.borrow_mut());
        self.touch();
        ended.is_ok()
    }

    fn reset(&self, stream: StreamId, why: Reset) {
        let code = match why {
            Reset::Cancel => ErrorCode::CANCEL,
            Reset::Protocol => ErrorCode::PROTOCOL_ERROR,
            Reset::Internal => ErrorCode::INTERNAL_ERROR,
        };
        Session::reset(self, stream as u32, code);
    }

    /// RFC 9113 §8.1.1.
    fn break_stream(&self, stream: StreamId) {
        let stream = stream as u32;
        if self.engine.borrow().has(stream) {
            return Session::reset(self, stream, ErrorCode::PROTOCOL_ERROR);
        }
        // The answer has closed the stream: the client is told all the same that its request was malformed.
        // RFC 9113 §6.4: RST_STREAM may be sent in any state but idle.
        if !self.is_dead() {
            frame::write_rst_stream(stream, ErrorCode::PROTOCOL_ERROR, &mut self.out.borrow_mut());
            self.touch();
        }
    }

    fn widen(&self, stream: StreamId, bytes: u32) {
        let (stream, mut engine) = (stream as u32, self.engine.borrow_mut());
        // Only larger: a WINDOW_UPDATE can only add (RFC 9113 §6.9).
        if engine.window(stream) < bytes {
            engine.set_window(stream, bytes, &mut self.out.borrow_mut());
        }
        drop(engine);
        self.touch();
    }

    fn consume(&self, stream: StreamId, count: u32) {
        self.engine.borrow_mut().consume(stream as u32, count, &mut self.out.borrow_mut());
        self.touch();
    }

    fn drop_body(&self, stream: StreamId, count: u32) {
        self.engine.borrow_mut().forget(stream as u32, count, &mut self.out.borrow_mut());
        self.touch();
    }

    fn begun(&self) {
        self.running.set(self.running.get() + 1);
    }

    fn ended(&self, stream: StreamId, was_gone: bool) {
        let stream = stream as u32;
        if was_gone {
            // It became an orphan when its stream went.
            self.count_orphans(-1);
        } else {
            // Nothing is left of it if all has been said.
            let (can_send, can_receive) = {
                let engine = self.engine.borrow();
                (engine.can_send(stream), engine.can_receive(stream))
            };
            // A task that ends without its last frame has failed.
            if can_send {
                self.close_stream(stream, ErrorCode::INTERNAL_ERROR);
            } else if can_receive {
                // RFC 9113 §8.1: the answer does not need the rest.
                // With NO_ERROR the client knows that the answer is whole (RFC 9113 §8.1).
                self.close_stream(stream, ErrorCode::NO_ERROR);
            }
        }
        self.running.set(self.running.get() - 1);
        self.touch();
    }
}

impl Answering for Session {
    type Coding = Hpack;

    fn thread(&self) -> &Rc<Thread> {
        &self.thread
    }

    fn prepared(live: &Live) -> &RefCell<Prepared> {
        &live.prepared_h2
    }

    fn is_kept(head_bytes: usize) -> bool {
        // A larger head is split into CONTINUATION frames, and the place of the date would depend on where.
        head_bytes <= frame::PAYLOAD_BYTES_DEFAULT as usize
    }

    fn room(&self, stream: StreamId) -> usize {
        self.engine.borrow().room(stream as u32)
    }

    #[inline]
    fn send_whole(&self, stream: StreamId, answer: &Whole<'_>) -> Option<u64> {
        let (stream, mut engine, mut out) = (stream as u32, self.engine.borrow_mut(), self.out.borrow_mut());
        // Also where the answer is copied: other streams get in between.
        engine.set_chunk(stream, answer.chunk_bytes);
        let start = out.len();
        engine.send_head(stream, answer.head, answer.body.is_empty(), &mut out).ok()?;
        if let Some((at, date)) = answer.date {
            let at = start + frame::HEAD_BYTES + at;
            out[at..at + date.len()].copy_from_slice(&date);
        }
        if !answer.body.is_empty() {
            engine.send_body(stream, answer.body, true, &mut out).ok()?;
        }
        Some((out.len() - start - answer.body.len()) as u64)
    }

    fn give_to(&self, stream: StreamId, exchange: &Rc<Exchange>) {
        if let Some(value) = self.engine.borrow_mut().value_mut(stream as u32) {
            *value = Some(exchange.clone());
        }
    }

    fn exchange(&self, stream: StreamId) -> Option<Rc<Exchange>> {
        self.engine.borrow().value(stream as u32).cloned().flatten()
    }

    fn set_priority(&self, stream: StreamId, priority: Priority) {
        self.engine.borrow_mut().set_priority(stream as u32, priority);
    }

    fn expect(&self, stream: StreamId, length: u64) {
        self.engine.borrow_mut().expect(stream as u32, Some(length));
    }

    fn leave_now(&self) {
        life::leave_now(self);
    }
}

impl stream::Session for Session {
    fn input(&self, conn: &Rc<Connection>, data: &[u8], full: bool, out: &mut Vec<u8>) {
        hot::input(self, conn, data, full, out);
    }

    fn closed(&self, conn: &Rc<Connection>) {
        hot::closed(self, conn);
    }

    fn is_deaf(&self) -> bool {
        self.is_paused() || matches!(self.stage.get(), Stage::Failed | Stage::Dead)
    }

    fn is_dead(&self) -> bool {
        self.is_dead()
    }

    fn is_idle(&self) -> bool {
        self.is_idle()
    }

    fn memory(&self) -> usize {
        let engine = self.engine.borrow();
        let exchanges = engine.values().flatten().map(|exchange| exchange.memory());
        size_of::<Session>() + engine.memory() + self.out.borrow().capacity() + exchanges.sum::<usize>()
    }

    fn flush_touched(&self, conn: &Rc<Connection>) -> bool {
        if self.dirty.replace(false) {
            self.flush(conn);
        }
        self.dirty.get()
    }

    fn expired(&self, conn: &Rc<Connection>) -> Option<u64> {
        life::expired(self, conn)
    }

    fn leave(&self, conn: &Rc<Connection>) {
        life::leave(self, conn);
    }

    fn drain(&self, conn: &Rc<Connection>) {
        // As for HTTP/1.1, a connection that has not brought its first request yet is still served; if the process ends it is told to leave with that.
        if conn.requests.get() > 0 {
            life::leave(self, conn);
        }
    }

    fn cut(&self, generation: u64) {
        let old: Vec<_> = {
            // Only what was begun under an older configuration: `worker_shutdown_timeout` is about those.
            let engine = self.engine.borrow();
            // Collected first: an order may end an exchange, which asks the engine.
            let all = engine.ids().into_iter().filter_map(|id| engine.value(id).cloned().flatten());
            all.filter(|exchange| exchange.generation < generation).collect()
        };
        old.iter().for_each(|exchange| exchange.cut.order());
    }

    fn give_up(&self, conn: &Rc<Connection>) {
        life::give_up(self, conn);
    }

    fn kill(&self) {
        self.stage.set(Stage::Dead);
        let all: Vec<Rc<Exchange>> = {
            let engine = self.engine.borrow();
            engine.ids().into_iter().filter_map(|id| engine.value(id).cloned().flatten()).collect()
        };
        {
            let mut engine = self.engine.borrow_mut();
            // Frames for a connection that is gone.
            let mut nowhere = Vec::new();
            // The engine's counts of streams must come out even.
            for id in engine.ids() {
                engine.reset(id, ErrorCode::CANCEL, &mut nowhere);
            }
        }
        self.out.take();
        // Each counts as an orphan until its task has noticed: what they hold is still held.
        for exchange in all {
            self.count_orphans(1);
            exchange.end(Reset::Cancel);
        }
        if let Some(waker) = self.flush_waker.take() {
            waker.wake();
        }
    }
}
