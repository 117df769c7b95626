//! A connection's engine with its streams' state.
//!
//! QUIC is known only as the [`Transport`] beneath, and requests only as exchanges. [`hot`](super::hot)
//! reads, and [`send`](super::send) writes.

use super::life;
use super::transport::{self, Quic, Transport, Written};
use crate::connection::Connection;
use crate::limits::{H3_WHOLE_BYTES_MAX, H3_WINDOW_BYTES};
use crate::live::Live;
use crate::prepared::Prepared;
use crate::stream;
use crate::stream::answer::{Answering, Whole};
use crate::stream::exchange::Exchange;
use crate::stream::{Reset, StreamId, Streams, encode};
use crate::table::Thread;
use crate::text::Text;
use brisk_h3::qpack::Qpack;
use brisk_h3::{Connection as Engine, ErrorCode, Own, frame};
use brisk_mux::Priority;
use brisk_net::clock;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// How a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Requests are taken.
    Open,
    /// No new requests; closed when those that have begun are done.
    Leaving,
    /// Nothing more is sent or heard.
    Dead,
}

/// What a stream of the engine belongs to, if anybody waits for it.
pub type Value = Option<Rc<Exchange>>;

/// See [`Session::unacknowledged`].
#[derive(Clone, Copy, Debug)]
pub struct Unacknowledged {
    /// Monotonic.
    pub since_ms: u64,
    /// Bytes that QUIC held.
    pub held: usize,
    /// Requests of the connection so far.
    pub requests: u64,
}

/// What the session has of a request's stream besides the engine.
#[derive(Default)]
pub struct State {
    /// Heads of frames and whole answers that QUIC has not taken.
    /// Written before anything else of the stream.
    pub tail: Vec<u8>,
    /// When QUIC took something of it for the last time (monotonic); 0: it is not held up.
    pub stuck_since_ms: u64,
    /// Bytes that the DATA frame that has begun still lacks.
    pub frame_left: u64,
    /// All was said: the stream ends behind the tail.
    pub ends: bool,
    /// Its end was given to QUIC; the client may still be sending.
    pub is_finished: bool,
    /// It stands in the line of those that have something to send.
    pub is_queued: bool,
    /// So many bytes of the body may have come without being taken.
    pub allowance: u32,
    /// It is read again when they have been.
    pub is_paused: bool,
    /// Input of a stream that waits for QPACK's table, and whether the stream ends behind it.
    /// Bounded: a stream is read no further while it waits.
    pub held: Option<(Vec<u8>, bool)>,
    /// When the rest of its head must be there (monotonic); 0: all of it came at once.
    pub head_deadline_ms: u64,
}

/// See the module's head.
pub struct Session {
    /// The connection's thread.
    pub thread: Rc<Thread>,
    /// Its place in the thread's table.
    pub index: u32,
    /// What is beneath.
    pub quic: Transport,
    /// HTTP/3 as data.
    pub engine: RefCell<Engine<Value>>,
    /// How it goes on.
    pub stage: Cell<Stage>,
    /// Requests that are begun and not sent to their end.
    pub states: RefCell<HashMap<StreamId, State>>,
    /// Streams that may have something to send, and streams that are to be read again.
    pub sending: RefCell<Vec<StreamId>>,
    /// See [`Session::sending`].
    pub reading: RefCell<Vec<StreamId>>,
    /// Our unidirectional streams: control, and QPACK's decoder.
    /// Ours are begun once and stay open as long as the connection (RFC 9114 §6.2.1).
    own: [Cell<Option<StreamId>>; 2],
    /// Tasks of streams.
    pub running: Cell<u32>,
    /// Tasks whose streams are gone.
    /// They count against the client's streams: resetting a request does not end its work at once (CVE-2023-44487).
    pub orphans: Cell<u32>,
    /// The connection's input is being worked through: what is to be sent is sent at the end of that.
    pub busy: Cell<bool>,
    /// It stands in the thread's list of those that have something to send.
    dirty: Cell<bool>,
    /// Bytes that a client may send of a body before anybody reads it.
    pub preread_bytes: u32,
    /// The last time that a stream was active.
    pub active_ms: Cell<u64>,
    /// Nothing is missing but acknowledgements: how it stood when that was seen first.
    pub unacknowledged: Cell<Option<Unacknowledged>>,
}

impl Session {
    /// A session at the connection's place in the thread's table. `preread_bytes`: see [`Session::preread_bytes`].
    pub fn new(
        thread: &Rc<Thread>,
        index: u32,
        quic: Transport,
        engine: Engine<Value>,
        preread_bytes: u32,
    ) -> Rc<Session> {
        Rc::new(Session {
            thread: thread.clone(),
            index,
            quic,
            engine: RefCell::new(engine),
            stage: Cell::new(Stage::Open),
            states: RefCell::default(),
            sending: RefCell::default(),
            reading: RefCell::default(),
            own: Default::default(),
            running: Cell::new(0),
            orphans: Cell::new(0),
            busy: Cell::new(false),
            dirty: Cell::new(false),
            preread_bytes,
            active_ms: Cell::new(clock::mono_ms()),
            unacknowledged: Cell::new(None),
        })
    }

    /// Something is to be sent or read: at the end of this turn of the loop.
    pub fn touch(&self) {
        // Once per turn: what all streams have leaves in as few packets as it fits into.
        if !self.busy.get() && !self.dirty.replace(true) {
            self.thread.dirty.borrow_mut().push(self.index);
        }
    }

    /// Nothing more is sent or heard.
    pub fn is_dead(&self) -> bool {
        self.stage.get() == Stage::Dead
    }

    /// No request is under way, and all answers have arrived: QUIC forgets what is not acknowledged when a connection is closed.
    pub fn is_idle(&self) -> bool {
        self.is_done()
            // Our own streams are always open, and have something to be acknowledged only now and then.
            && self.quic.sending_streams() <= self.own.iter().filter(|own| own.get().is_some()).count()
    }

    /// No request is under way, and QUIC has all answers.
    pub fn is_done(&self) -> bool {
        self.running.get() == 0 && self.engine.borrow().is_empty() && self.states.borrow().is_empty()
    }

    /// Bytes of answers that QUIC has not taken, of all streams: many small answers are as much memory as a large one.
    fn tail_bytes(&self) -> usize {
        self.states.borrow().values().map(|state| state.tail.len()).sum()
    }

    /// Answers that were put together whole and are held up: their streams, and since when. The others have tasks, which notice by themselves.
    fn held_up(&self) -> Vec<(StreamId, u64)> {
        let states = self.states.borrow();
        let is_held_up = |stream: StreamId, state: &State| {
            state.stuck_since_ms != 0 && !state.tail.is_empty() && self.exchange(stream).is_none()
        };
        let held_up = states.iter().filter(|(stream, state)| is_held_up(**stream, state));
        held_up.map(|(stream, state)| (*stream, state.stuck_since_ms)).collect()
    }

    /// Since when the one of them is that has been so for longest.
    pub fn stuck_since_ms(&self) -> Option<u64> {
        self.held_up().iter().map(|(_, since_ms)| *since_ms).min()
    }

    /// Those of which the client has taken nothing for this long.
    pub fn stuck(&self, now_ms: u64, timeout_ms: u64) -> Vec<StreamId> {
        let mut held_up = self.held_up();
        held_up.retain(|(_, since_ms)| since_ms + timeout_ms <= now_ms);
        held_up.into_iter().map(|(stream, _)| stream).collect()
    }

    /// Requests whose heads are not there as a whole, and when (monotonic) they must be: one that never comes would hold its stream, and what has
    /// come of it, for ever.
    fn heads_due(&self) -> Vec<(StreamId, u64)> {
        let (states, engine) = (self.states.borrow(), self.engine.borrow());
        let due = states.iter().filter(|(id, state)| state.head_deadline_ms != 0 && engine.awaits_head(**id));
        due.map(|(stream, state)| (*stream, state.head_deadline_ms)).collect()
    }

    /// When the first of them must be there.
    pub fn head_deadline_ms(&self) -> Option<u64> {
        self.heads_due().iter().map(|(_, due_ms)| *due_ms).min()
    }

    /// Those that have had their time.
    pub fn late_heads(&self, now_ms: u64) -> Vec<StreamId> {
        let mut due = self.heads_due();
        due.retain(|(_, due_ms)| *due_ms <= now_ms);
        due.into_iter().map(|(stream, _)| stream).collect()
    }

    /// The stream may have something to send.
    pub fn queue(&self, stream: StreamId) {
        if let Some(state) = self.states.borrow_mut().get_mut(&stream)
            && !std::mem::replace(&mut state.is_queued, true)
        // A stream whose state is gone has nothing to send, but the turn may have other things to do.
        {
            self.sending.borrow_mut().push(stream);
        }
        self.touch();
    }

    /// Resets a stream, if it is still there, and ends its exchange.
    pub fn reset(&self, stream: StreamId, code: ErrorCode) {
        self.end(stream, code, transport::give_up);
    }

    /// Takes a stream out of the session, has QUIC told by `tell`, and ends its exchange.
    fn end(&self, stream: StreamId, code: ErrorCode, tell: impl FnOnce(&dyn Quic, StreamId, u64)) {
        // Out of the engine first: the exchange's end wakes a task, which may ask the engine about it.
        let value = self.engine.borrow_mut().reset(stream);
        self.states.borrow_mut().remove(&stream);
        tell(&*self.quic, stream, code.0);
        if let Some(Some(exchange)) = value {
            self.count_orphans(1);
            exchange.end(reset_of(code));
        }
        self.touch();
    }

    /// A stream's task has ended, or its stream before it.
    pub fn count_orphans(&self, by: i32) {
        self.orphans.set(self.orphans.get().saturating_add_signed(by));
        self.engine.borrow_mut().set_busy(self.orphans.get() as usize);
    }

    /// Sends what our unidirectional streams have to say, as far as QUIC takes it. They are begun with the first word.
    pub fn send_own(&self) {
        let mut engine = self.engine.borrow_mut();
        for (own, id) in [Own::Control, Own::Decoder].into_iter().zip(&self.own) {
            let out = engine.own_output(own);
            if out.is_empty() {
                continue;
            }
            if id.get().is_none() {
                // The client may allow none yet. Then it is asked again with the next turn.
                id.set(self.quic.open_uni());
            }
            let Some(stream) = id.get() else { continue };
            while !out.is_empty()
                && let Written::Some(count) = self.quic.write(stream, out)
            {
                out.drain(..count);
            }
        }
    }
}

/// What a stream's end means to its request.
pub fn reset_of(code: ErrorCode) -> Reset {
    match code {
        ErrorCode::REQUEST_CANCELLED => Reset::Cancel,
        ErrorCode::MESSAGE_ERROR => Reset::Protocol,
        _ => Reset::Internal,
    }
}

impl Streams for Session {
    fn head_overhead(&self) -> u64 {
        // Type and length of most heads.
        3
    }

    fn encode_interim(&self, status: u16, fields: &[(Text, Text)], out: &mut Vec<u8>) {
        encode::interim::<Qpack>(status, fields, out);
    }

    fn encode_trailers(&self, fields: &[(Text, Text)], out: &mut Vec<u8>) {
        encode::trailers::<Qpack>(fields, out);
    }

    fn has_room(&self) -> bool {
        // The sum and not one stream: many small answers are as much memory as a large one.
        self.tail_bytes() < H3_WHOLE_BYTES_MAX
    }

    fn open_tunnel(&self, stream: StreamId) {
        self.engine.borrow_mut().open_tunnel(stream);
    }

    fn send_head(&self, stream: StreamId, block: &[u8], end: bool) -> bool {
        let sent = {
            let mut states = self.states.borrow_mut();
            // The head goes to the tail and leaves with the next turn.
            let Some(state) = states.get_mut(&stream) else { return false };
            let mut engine = self.engine.borrow_mut();
            let sent = engine.send_head(stream, block, &mut state.tail).is_ok();
            if sent && end {
                state.ends = engine.end_send(stream).is_ok();
            }
            sent
        };
        self.queue(stream);
        sent
    }

    fn set_ready(&self, stream: StreamId) {
        self.queue(stream);
    }

    /// A frame holds a whole piece: QUIC cuts it into packets, and streams take turns there.
    fn set_chunk(&self, _: StreamId, _: u32) {}

    fn end_body(&self, stream: StreamId) -> bool {
        let ended = {
            let mut states = self.states.borrow_mut();
            let Some(state) = states.get_mut(&stream) else { return false };
            state.ends = self.engine.borrow_mut().end_send(stream).is_ok();
            state.ends
        };
        self.queue(stream);
        ended
    }

    fn reset(&self, stream: StreamId, why: Reset) {
        let code = match why {
            Reset::Cancel => ErrorCode::REQUEST_CANCELLED,
            Reset::Protocol => ErrorCode::MESSAGE_ERROR,
            Reset::Internal => ErrorCode::INTERNAL_ERROR,
        };
        Session::reset(self, stream, code);
    }

    /// RFC 9114 §4.1.2: a server may answer before it closes or resets the stream. With a reset QUIC drops what of the answer has not
    /// left yet, so an answer that QUIC has to its end is the stream's end, and only the rest of the request is refused.
    fn break_stream(&self, stream: StreamId) {
        let code = ErrorCode::MESSAGE_ERROR;
        if self.states.borrow().get(&stream).is_none_or(|state| state.is_finished) {
            self.end(stream, code, |quic, stream, code| quic.stop(stream, code));
        } else {
            Session::reset(self, stream, code);
        }
    }

    fn widen(&self, stream: StreamId, bytes: u32) {
        // Bounded by a limit of the connection, whatever `client_body_buffer_size` says.
        if let Some(state) = self.states.borrow_mut().get_mut(&stream) {
            state.allowance = state.allowance.max(bytes.min(H3_WINDOW_BYTES));
        }
        self.consume(stream, 0);
    }

    /// Reading a stream gives the client room: QUIC's windows follow what was read.
    fn consume(&self, stream: StreamId, _: u32) {
        let was_paused = {
            let mut states = self.states.borrow_mut();
            states.get_mut(&stream).is_some_and(|state| std::mem::take(&mut state.is_paused))
        };
        if was_paused {
            self.reading.borrow_mut().push(stream);
            self.touch();
        }
    }

    fn drop_body(&self, stream: StreamId, count: u32) {
        self.consume(stream, count);
    }

    fn begun(&self) {
        self.running.set(self.running.get() + 1);
    }

    fn ended(&self, stream: StreamId, was_gone: bool) {
        if was_gone {
            // It became an orphan when its stream went.
            self.count_orphans(-1);
        } else {
            let (can_send, can_receive) = {
                let engine = self.engine.borrow();
                (engine.can_send(stream), engine.can_receive(stream))
            };
            // A task that ends without its last frame has failed.
            if can_send {
                // A client that gets no end would wait for its time-out.
                drop(self.engine.borrow_mut().reset(stream));
                self.states.borrow_mut().remove(&stream);
                transport::give_up(&*self.quic, stream, ErrorCode::INTERNAL_ERROR.0);
            } else if can_receive {
                // RFC 9114 §4.1: the answer does not need the rest.
                // The engine first, so that what still comes is dropped.
                drop(self.engine.borrow_mut().stop(stream));
                self.quic.stop(stream, ErrorCode::NO_ERROR.0);
            }
        }
        self.running.set(self.running.get() - 1);
        self.touch();
    }
}

impl Answering for Session {
    type Coding = Qpack;

    fn thread(&self) -> &Rc<Thread> {
        &self.thread
    }

    fn prepared(live: &Live) -> &RefCell<Prepared> {
        &live.prepared_h3
    }

    fn is_kept(_: usize) -> bool {
        true
    }

    fn room(&self, _: StreamId) -> usize {
        H3_WHOLE_BYTES_MAX.saturating_sub(self.tail_bytes())
    }

    fn send_whole(&self, stream: StreamId, answer: &Whole<'_>) -> Option<u64> {
        let head_bytes = {
            let mut states = self.states.borrow_mut();
            let (state, mut engine) = (states.get_mut(&stream)?, self.engine.borrow_mut());
            let start = state.tail.len();
            engine.send_head(stream, answer.head, &mut state.tail).ok()?;
            if let Some((at, date)) = answer.date {
                // The date's place is counted within the block; the frame's head stands before it.
                let at = start + frame::head_len(frame::kind::HEADERS, answer.head.len() as u64) + at;
                state.tail[at..at + date.len()].copy_from_slice(&date);
            }
            if !answer.body.is_empty() {
                engine.begin_data(stream, answer.body.len() as u64, &mut state.tail).ok()?;
            }
            let head_bytes = state.tail.len() - start;
            // In one piece with its head: a small answer is one STREAM frame.
            state.tail.extend_from_slice(answer.body);
            state.ends = engine.end_send(stream).is_ok();
            head_bytes as u64
        };
        self.queue(stream);
        Some(head_bytes)
    }

    fn give_to(&self, stream: StreamId, exchange: &Rc<Exchange>) {
        if let Some(value) = self.engine.borrow_mut().value_mut(stream) {
            *value = Some(exchange.clone());
        }
    }

    fn exchange(&self, stream: StreamId) -> Option<Rc<Exchange>> {
        self.engine.borrow().value(stream).cloned().flatten()
    }

    fn set_priority(&self, stream: StreamId, priority: Priority) {
        self.engine.borrow_mut().set_priority(stream, priority);
        self.apply_priority(stream);
    }

    fn expect(&self, stream: StreamId, length: u64) {
        self.engine.borrow_mut().expect(stream, Some(length));
    }

    fn leave_now(&self) {
        life::leave_now(self);
    }
}

impl Session {
    /// Has QUIC send the stream's packets in its turn: the most urgent ones first (RFC 9218 §10).
    pub fn apply_priority(&self, stream: StreamId) {
        let urgency = self.engine.borrow().priority(stream).urgency;
        // RFC 9218 counts 0 as the most urgent, QUIC's library the highest number.
        self.quic.set_priority(stream, -i32::from(urgency));
    }

    /// Forgets requests on which both sides have said all.
    pub fn forget_finished(&self) {
        let engine = self.engine.borrow();
        self.states.borrow_mut().retain(|&stream, state| !state.is_finished || engine.can_receive(stream));
    }

    /// All exchanges.
    fn exchanges(&self) -> Vec<Rc<Exchange>> {
        self.engine.borrow().values().flatten().cloned().collect()
    }
}

impl stream::Session for Session {
    /// Nothing comes by a socket of the connection's own.
    fn input(&self, _: &Rc<Connection>, _: &[u8], _: bool, _: &mut Vec<u8>) {}

    fn closed(&self, _: &Rc<Connection>) {
        life::closed(self);
    }

    // Bytes come through QUIC, never through the driver.
    fn is_deaf(&self) -> bool {
        true
    }

    fn is_dead(&self) -> bool {
        self.is_dead()
    }

    fn is_idle(&self) -> bool {
        self.is_idle()
    }

    fn memory(&self) -> usize {
        let states = self.states.borrow();
        let held = |state: &State| state.held.as_ref().map_or(0, |(bytes, _)| bytes.capacity());
        let own: usize = states.values().map(|state| state.tail.capacity() + held(state)).sum();
        let quic = self.quic.memory();
        let exchanges: usize = self.exchanges().iter().map(|exchange| exchange.memory()).sum();
        size_of::<Session>()
            + self.engine.borrow().memory()
            + states.capacity() * size_of::<(StreamId, State)>()
            + own
            + quic
            + exchanges
    }

    fn flush_touched(&self, conn: &Rc<Connection>) -> bool {
        if self.dirty.replace(false) {
            super::hot::work_off(self, conn);
        }
        self.dirty.get()
    }

    fn expired(&self, conn: &Rc<Connection>) -> Option<u64> {
        life::expired(self, conn)
    }

    fn leave(&self, _: &Rc<Connection>) {
        life::leave(self);
    }

    fn drain(&self, conn: &Rc<Connection>) {
        // As for HTTP/1.1, a connection that has not brought its first request yet is still served; if the process ends it is told to leave with that.
        if conn.requests.get() > 0 {
            life::leave(self);
        }
    }

    fn cut(&self, generation: u64) {
        let all = self.exchanges();
        all.iter()
            .filter(|exchange| exchange.generation < generation)
            .for_each(|exchange| exchange.cut.order());
    }

    fn give_up(&self, _: &Rc<Connection>) {
        life::close(self, ErrorCode::EXCESSIVE_LOAD, "more than there is memory for");
    }

    /// The endpoint counts what QUIC holds, so the table must not count it again.
    fn is_counted_elsewhere(&self) -> bool {
        true
    }

    fn kill(&self) {
        if self.stage.replace(Stage::Dead) == Stage::Dead {
            return;
        }
        let all = self.exchanges();
        // Out of the engine before exchanges are told, since their tasks may ask it.
        {
            let mut engine = self.engine.borrow_mut();
            for id in engine.ids() {
                drop(engine.reset(id));
            }
        }
        self.states.take();
        self.quic.close(ErrorCode::NO_ERROR.0, "");
        for exchange in all {
            self.count_orphans(1);
            exchange.end(Reset::Cancel);
        }
    }
}
