//! A connection's engine with what is to be sent, and who sends next.

use super::life;
use super::stream::{Exchange, Outgoing, Stuck};
use crate::connection::Connection;
use crate::limits::{H2_OUT_BYTES_LOW, H2_OUT_BYTES_MAX, H2_TURN_BYTES_MAX};
use crate::response::Piece;
use crate::thread::Thread;
use brisk_h2::{Connection as Engine, ErrorCode, frame};
use brisk_net::{clock, file, sleep};
use std::cell::{Cell, RefCell};
use std::future::{Future as _, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
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
pub type Value = Option<Rc<Exchange>>;

/// See the module's head.
pub struct Session {
    pub thread: Rc<Thread>,
    pub index: u32,
    pub engine: RefCell<Engine<Value>>,
    /// Whole frames that have not left; nothing but appended to in between.
    pub out: RefCell<Vec<u8>>,
    pub stage: Cell<Stage>,
    /// Tasks of streams.
    pub running: Cell<u32>,
    /// Tasks whose streams are gone.
    pub orphans: Cell<u32>,
    /// The connection's input is being worked through: what is to be sent is sent at the end of that.
    pub busy: Cell<bool>,
    /// It stands in the thread's list of those that have something to send.
    pub dirty: Cell<bool>,
    /// A task waits until the socket takes more.
    pub flushing: Cell<bool>,
    flush_waker: RefCell<Option<Waker>>,
    /// When the rest of a head must be there (monotonic), if one has begun.
    pub head_deadline_ms: Cell<u64>,
    /// The last time that a stream was active.
    pub active_ms: Cell<u64>,
}

impl Session {
    pub fn new(thread: &Rc<Thread>, index: u32, engine: Engine<Value>, out: Vec<u8>) -> Session {
        Session {
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
            head_deadline_ms: Cell::new(0),
            active_ms: Cell::new(clock::mono_ms()),
        }
    }

    /// Nobody waits for anything here.
    pub fn is_idle(&self) -> bool {
        self.running.get() == 0 && self.engine.borrow().is_empty() && self.out.borrow().is_empty()
    }

    /// Bytes of memory: the engine's, bodies that have come, and what is to be sent. What requests hold is counted elsewhere.
    pub fn memory(&self) -> usize {
        let engine = self.engine.borrow();
        let exchanges = engine.values().flatten().map(|exchange| exchange.memory());
        size_of::<Session>() + engine.memory() + self.out.borrow().capacity() + exchanges.sum::<usize>()
    }

    /// The peer does not take what we say: nothing more is heard until it does.
    pub fn is_paused(&self) -> bool {
        self.flushing.get() && self.out.borrow().len() >= H2_OUT_BYTES_MAX
    }

    pub fn is_dead(&self) -> bool {
        self.stage.get() == Stage::Dead
    }

    /// Appends a head's frames; false if the stream is gone.
    pub fn send_head(&self, stream: u32, block: &[u8], end: bool) -> bool {
        let sent = self.engine.borrow_mut().send_head(stream, block, end, &mut self.out.borrow_mut());
        self.touch();
        sent.is_ok()
    }

    /// The stream's exchange has a piece to send.
    pub fn set_ready(&self, stream: u32) {
        self.engine.borrow_mut().set_ready(stream, true);
        self.touch();
    }

    /// DATA frames of the stream are to hold no more than this.
    pub fn set_chunk(&self, stream: u32, bytes: u32) {
        self.engine.borrow_mut().set_chunk(stream, bytes);
    }

    /// Ends a stream's body without another byte of it.
    pub fn end_body(&self, stream: u32) -> bool {
        let ended = self.engine.borrow_mut().begin_data(stream, 0, true, &mut self.out.borrow_mut());
        self.touch();
        ended.is_ok()
    }

    /// Resets a stream, if it is still there.
    pub fn reset(&self, stream: u32, code: ErrorCode) {
        let value = self.engine.borrow_mut().reset(stream, code, &mut self.out.borrow_mut());
        if let Some(Some(exchange)) = value {
            self.count_orphans(1);
            exchange.end(code);
        }
        self.touch();
    }

    /// A stream's body is being read: more of it may come ahead.
    pub fn widen(&self, stream: u32, size: u32) {
        let mut engine = self.engine.borrow_mut();
        if engine.window(stream) < size {
            engine.set_window(stream, size, &mut self.out.borrow_mut());
        }
        drop(engine);
        self.touch();
    }

    /// Bytes of a stream's body were taken.
    pub fn consume(&self, stream: u32, count: u32) {
        self.engine.borrow_mut().consume(stream, count, &mut self.out.borrow_mut());
        self.touch();
    }

    /// Bytes of a stream's body are of no use to anyone: no more of them are asked for.
    pub fn drop_body(&self, stream: u32, count: u32) {
        self.engine.borrow_mut().forget(stream, count, &mut self.out.borrow_mut());
        self.touch();
    }

    /// A stream's request was malformed (RFC 9113 §8.1.1): it was answered, and is an error all the same.
    pub fn break_stream(&self, stream: u32) {
        if self.engine.borrow().has(stream) {
            return self.reset(stream, ErrorCode::PROTOCOL_ERROR);
        }
        if !self.is_dead() {
            frame::write_rst_stream(stream, ErrorCode::PROTOCOL_ERROR, &mut self.out.borrow_mut());
            self.touch();
        }
    }

    /// A stream's task has ended: so does the stream.
    pub fn finish(&self, stream: u32) {
        let (can_send, can_receive) = {
            let engine = self.engine.borrow();
            (engine.can_send(stream), engine.can_receive(stream))
        };
        if can_send {
            self.close_stream(stream, ErrorCode::INTERNAL_ERROR);
        } else if can_receive {
            // RFC 9113 §8.1: the answer does not need the rest.
            self.close_stream(stream, ErrorCode::NO_ERROR);
        }
    }

    fn close_stream(&self, stream: u32, code: ErrorCode) {
        let _ = self.engine.borrow_mut().reset(stream, code, &mut self.out.borrow_mut());
        self.touch();
    }

    /// Something is to be sent: at the end of this turn of the loop.
    pub fn touch(&self) {
        if !self.busy.get() && !self.flushing.get() && !self.dirty.replace(true) {
            self.thread.dirty.borrow_mut().push(self.index);
        }
    }

    /// A stream's task has ended, or its stream before it.
    pub fn count_orphans(&self, by: i32) {
        self.orphans.set(self.orphans.get().saturating_add_signed(by));
        self.engine.borrow_mut().set_busy(self.orphans.get());
    }

    /// Writes as much as the socket takes now and streams have, by their priorities.
    pub fn flush(&self, conn: &Rc<Connection>) {
        if self.is_dead() {
            return;
        }
        let mut left = H2_TURN_BYTES_MAX;
        loop {
            self.fill();
            let mut out = self.out.borrow_mut();
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
            left = left.saturating_sub(H2_OUT_BYTES_LOW);
            if left == 0 {
                drop(out);
                // Others have their turn first.
                return self.touch();
            }
        }
        if self.out.borrow().capacity() > 4 * H2_OUT_BYTES_LOW {
            self.out.take();
        }
        life::settle(self, conn);
    }

    /// Lets the streams in turn append their next frames, as long as the buffer is short.
    fn fill(&self) {
        if matches!(self.stage.get(), Stage::Failed | Stage::Dead) {
            return;
        }
        let (mut engine, mut out) = (self.engine.borrow_mut(), self.out.borrow_mut());
        while out.len() < H2_OUT_BYTES_LOW {
            let Some(stream) = engine.next_sender() else { return };
            let exchange = engine.value(stream).cloned().flatten();
            match exchange {
                Some(exchange) => fill_from(&exchange, &mut engine, &mut out),
                None => engine.set_ready(stream, false),
            }
        }
    }

    /// Starts the task that goes on when the socket takes more.
    fn wait_for_room(&self, conn: &Rc<Connection>) {
        if self.flushing.replace(true) {
            return;
        }
        let conn = conn.clone();
        brisk_net::spawn(async move {
            let Some(session) = conn.session.get() else { return };
            while !session.is_dead() && session.flushing.get() {
                let live = session.thread.live();
                let Some(pause) = live.default_core(&conn.listener).map(|core| core.send_timeout) else {
                    break;
                };
                let mut timer = pin!(sleep(pause));
                let timed_out = poll_fn(|cx| {
                    if session.is_dead() || conn.io.poll_writable(cx).is_ready() {
                        return Poll::Ready(false);
                    }
                    *session.flush_waker.borrow_mut() = Some(cx.waker().clone());
                    timer.as_mut().poll(cx).map(|()| true)
                });
                if timed_out.await {
                    life::send_timed_out(session, &conn);
                    return;
                }
                session.flushing.set(false);
                let was_paused = session.out.borrow().len() >= H2_OUT_BYTES_MAX;
                session.flush_here(&conn);
                if was_paused && !session.flushing.get() && !session.is_dead() {
                    super::hot::resume(session, &conn);
                }
            }
        });
    }

    /// As [`Session::flush`] for the task that waits: it goes on waiting itself.
    fn flush_here(&self, conn: &Rc<Connection>) {
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
        }
        life::settle(self, conn);
    }

    /// Ends everything: nobody will hear or say anything here.
    pub fn kill(&self) {
        self.stage.set(Stage::Dead);
        let all: Vec<Rc<Exchange>> = {
            let engine = self.engine.borrow();
            engine.ids().into_iter().filter_map(|id| engine.value(id).cloned().flatten()).collect()
        };
        {
            let mut engine = self.engine.borrow_mut();
            let mut nowhere = Vec::new();
            for id in engine.ids() {
                engine.reset(id, ErrorCode::CANCEL, &mut nowhere);
            }
        }
        self.out.take();
        for exchange in all {
            self.count_orphans(1);
            exchange.end(ErrorCode::CANCEL);
        }
        if let Some(waker) = self.flush_waker.take() {
            waker.wake();
        }
    }
}

/// Appends one DATA frame of what an exchange has to send.
fn fill_from(exchange: &Exchange, engine: &mut Engine<Value>, out: &mut Vec<u8>) {
    let mut outgoing = exchange.outgoing.borrow_mut();
    let Some(Outgoing { piece, at, last }) = &mut *outgoing else {
        return engine.set_ready(exchange.id, false);
    };
    let left = piece.len() - *at;
    let room = engine.room(exchange.id).min(engine.chunk(exchange.id)) as u64;
    let want = left.min(room) as usize;
    let count = match piece.in_memory() {
        Some(bytes) => {
            let bytes = &bytes[*at as usize..][..want];
            let end = *last && want as u64 == left;
            if engine.begin_data(exchange.id, want, end, out).is_err() {
                return;
            }
            out.extend_from_slice(bytes);
            want
        }
        None => match fill_from_file(exchange, piece, *at, want, *last, left, engine, out) {
            Ok(count) => count,
            Err(stuck) => {
                exchange.stuck.set(Some(stuck));
                engine.set_ready(exchange.id, false);
                return exchange.wakers.wake();
            }
        },
    };
    *at += count as u64;
    exchange.sent.set(exchange.sent.get() + count as u64);
    exchange.framing.set(exchange.framing.get() + frame::HEAD_BYTES as u64);
    if *at == piece.len() {
        *outgoing = None;
        engine.set_ready(exchange.id, false);
        exchange.wakers.wake();
    }
}

/// The same from a file: straight behind the frame's head, which is known once the bytes are.
#[allow(clippy::too_many_arguments)]
fn fill_from_file(
    exchange: &Exchange,
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
    let (start, offset) = (out.len(), range.start + at);
    out.resize(start + frame::HEAD_BYTES + want, 0);
    let read = file::read_warm(fd, &mut out[start + frame::HEAD_BYTES..], offset);
    let count = *read.as_ref().unwrap_or(&0);
    out.truncate(start + frame::HEAD_BYTES + count);
    if count == 0 {
        out.truncate(start);
        let is_cold = read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        return Err(if is_cold { Stuck::Cold { offset, len: want } } else { Stuck::Truncated });
    }
    let mut head = Vec::with_capacity(frame::HEAD_BYTES);
    let end = last && count as u64 == left;
    if engine.begin_data(exchange.id, count, end, &mut head).is_err() {
        out.truncate(start);
        return Err(Stuck::Truncated);
    }
    out[start..start + frame::HEAD_BYTES].copy_from_slice(&head);
    Ok(count)
}

/// Keeps the loop from sleeping.
async fn one_turn() {
    let mut turned = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut turned, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Flushes every connection that has got something to send since the last turn.
pub(crate) fn flush_dirty(thread: &Rc<Thread>) {
    loop {
        let list = thread.dirty.take();
        if list.is_empty() {
            return;
        }
        for index in list {
            let conn = thread
                .slots
                .borrow()
                .get(index as usize)
                .and_then(|(_, slot)| slot.as_ref().map(|slot| slot.conn.clone()));
            let Some(conn) = conn else { continue };
            if let Some(session) = conn.session.get().filter(|session| session.dirty.replace(false)) {
                session.flush(&conn);
                if session.dirty.get() {
                    // It has used up its turn: it goes on after the others.
                    brisk_net::spawn(one_turn());
                }
            }
        }
        if !thread.dirty.borrow().is_empty() {
            return;
        }
    }
}
