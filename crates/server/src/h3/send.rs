//! Giving streams what they have to send, as long as QUIC takes it.
//!
//! It orders streams and hands bytes over. When packets leave, and how large they are, is QUIC's business.

use super::session::Session;
use super::transport::Written;
use crate::limits::{H3_STEP_BYTES, H3_TURN_BYTES_MAX};
use crate::response::Piece;
use crate::stream::StreamId;
use crate::stream::answer::Answering as _;
use crate::stream::exchange::{Exchange, Outgoing, Stuck};
use brisk_net::{clock, file};
use std::io;

/// How far a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    /// It has nothing more for now, or is told when QUIC takes more.
    Done,
    /// It has used up its turn.
    More,
}

/// Lets the streams in line send, the most urgent ones first; true if some have used up their turn.
pub fn send_queued(session: &Session) -> bool {
    // Settings, QPACK and GOAWAY come before any request: answers may depend on them.
    session.send_own();
    let mut line = session.sending.take();
    if line.is_empty() {
        return false;
    }
    // The engine is borrowed for the sorting alone.
    {
        let engine = session.engine.borrow();
        // Stable: streams of one urgency go in the order in which they came.
        line.sort_by_key(|&stream| engine.priority(stream).urgency);
    }
    // One connection must not fill QUIC's memory in one turn, however fast its client is.
    let mut budget = H3_TURN_BYTES_MAX;
    for stream in line {
        if let Some(state) = session.states.borrow_mut().get_mut(&stream) {
            state.is_queued = false;
        }
        if budget == 0 || send(session, stream, &mut budget) == Sent::More {
            session.queue(stream);
        }
    }
    !session.sending.borrow().is_empty()
}

fn send(session: &Session, stream: StreamId, budget: &mut usize) -> Sent {
    // Taken from the thread and given back: reads of files need a buffer.
    let mut scratch = session.thread.scratch.take();
    let sent = loop {
        if *budget == 0 {
            break Sent::More;
        }
        if !send_tail(session, stream, budget) {
            break Sent::Done;
        }
        let Some(exchange) = session.exchange(stream) else {
            break Sent::Done;
        };
        if !send_piece(session, &exchange, &mut scratch, budget) {
            break Sent::Done;
        }
    };
    session.thread.scratch.replace(scratch);
    sent
}

/// Sends what has been put together; false if some of it is left, or the stream has ended.
fn send_tail(session: &Session, stream: StreamId, budget: &mut usize) -> bool {
    let mut states = session.states.borrow_mut();
    let Some(state) = states.get_mut(&stream) else { return false };
    let mut at = 0;
    while at < state.tail.len() {
        match session.quic.write(stream, &state.tail[at..]) {
            Written::Some(count) => at += count,
            Written::Blocked => {
                // What is left is told to go on by `Writable`.
                if at > 0 || state.stuck_since_ms == 0 {
                    state.stuck_since_ms = clock::mono_ms();
                }
                state.tail.drain(..at);
                *budget = budget.saturating_sub(at);
                return false;
            }
            // The end is told by itself where the engine knows the stream. An answer that was whole is known here only.
            Written::Gone => {
                if !session.engine.borrow().can_receive(stream) {
                    states.remove(&stream);
                }
                return false;
            }
        }
    }
    state.stuck_since_ms = 0;
    *budget = budget.saturating_sub(at);
    // A large answer's memory goes back at once; the stream may stay open for long.
    if at > H3_STEP_BYTES {
        state.tail = Vec::new();
    } else {
        state.tail.clear();
    }
    if state.ends {
        session.quic.finish(stream);
        (state.ends, state.is_finished) = (false, true);
        // What the client still sends is read on.
        // A body that nobody has read yet may still be coming.
        if !session.engine.borrow().can_receive(stream) {
            states.remove(&stream);
        }
        return false;
    }
    !state.is_finished
}

/// Sends of an exchange's piece; false if there is none, or QUIC takes no more of it.
fn send_piece(session: &Session, exchange: &Exchange, scratch: &mut Vec<u8>, budget: &mut usize) -> bool {
    let mut outgoing = exchange.outgoing.borrow_mut();
    let Some(Outgoing { piece, at, last }) = &mut *outgoing else { return false };
    let stream = exchange.id;
    let left = piece.len() - *at;
    match begin_frame(session, exchange, left) {
        Frame::Open => {}
        Frame::Begun => return true,
        Frame::Gone => return false,
    }
    // The frame's head has used it up. Nothing is asked of a file or of QUIC: no bytes would look like its end, and like no room.
    if *budget == 0 {
        return true;
    }
    // A step at a time, so that a budget that is nearly used up is not overdrawn by a whole piece.
    let want = left.min(H3_STEP_BYTES as u64).min(*budget as u64) as usize;
    let bytes = match bytes_of(piece, *at, want, scratch) {
        Ok(bytes) => bytes,
        Err(stuck) => {
            // Nothing may wait here: the stream's task has the pool read the file.
            // The cell is left before the task is woken, which looks into it.
            exchange.stuck.set(Some(stuck));
            drop(outgoing);
            exchange.wakers.wake();
            return false;
        }
    };
    let Written::Some(count) = session.quic.write(stream, bytes) else { return false };
    *at += count as u64;
    *budget -= count;
    exchange.sent.set(exchange.sent.get() + count as u64);
    if let Some(state) = session.states.borrow_mut().get_mut(&stream) {
        state.frame_left -= count as u64;
    }
    if *at < piece.len() {
        return true;
    }
    let is_last = *last;
    // The piece is dropped before its task is told to make the next one.
    *outgoing = None;
    drop(outgoing);
    if is_last {
        end(session, stream);
    }
    exchange.wakers.wake();
    true
}

/// Whether a piece may leave.
enum Frame {
    /// A DATA frame has begun, and its head has left.
    Open,
    /// Its head was put together and leaves first.
    Begun,
    /// The stream takes nothing any more.
    Gone,
}

/// Begins a DATA frame for what is left of a piece, if none has.
fn begin_frame(session: &Session, exchange: &Exchange, left: u64) -> Frame {
    let mut states = session.states.borrow_mut();
    let Some(state) = states.get_mut(&exchange.id) else { return Frame::Gone };
    if state.frame_left > 0 {
        return Frame::Open;
    }
    // Its frame's head goes through the tail, so that it cannot overtake what is still there.
    let start = state.tail.len();
    if session.engine.borrow_mut().begin_data(exchange.id, left, &mut state.tail).is_err() {
        return Frame::Gone;
    }
    state.frame_left = left;
    let bytes = (state.tail.len() - start) as u64;
    exchange.framing.set(exchange.framing.get() + bytes);
    Frame::Begun
}

/// The stream's last piece has been given to QUIC.
fn end(session: &Session, stream: StreamId) {
    if let Some(state) = session.states.borrow_mut().get_mut(&stream) {
        // Without a content length the engine takes any end; with one it must be met.
        state.ends = session.engine.borrow_mut().end_send(stream).is_ok();
    }
}

/// Bytes of a piece from `at`, at most `want` of them: a file's are read, if they are in the kernel's memory.
fn bytes_of<'a>(piece: &'a Piece, at: u64, want: usize, scratch: &'a mut Vec<u8>) -> Result<&'a [u8], Stuck> {
    if let Some(bytes) = piece.in_memory() {
        return Ok(&bytes[at as usize..][..want]);
    }
    let Piece::File { file, range } = piece else { return Err(Stuck::Truncated) };
    let fd = file.fd.as_ref().ok_or(Stuck::Truncated)?;
    scratch.resize(want, 0);
    let offset = range.start + at;
    // The event loop never waits for a disk.
    match file::read_warm(fd, scratch, offset) {
        Ok(0) => Err(Stuck::Truncated),
        Ok(count) => Ok(&scratch[..count]),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Stuck::Cold { offset, len: want }),
        Err(_) => Err(Stuck::Truncated),
    }
}
