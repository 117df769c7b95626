//! What becomes of a request that has come on a stream: answered from memory, answered at once, or by a task.
//!
//! It is the same for all protocols that have streams. They differ in how a whole answer is written ([`Answering`]).

use crate::conf::ids::ListenId;
use crate::connection::Connection;
use crate::h1::intake;
use crate::h1::send::can_inline;
use crate::live::Live;
use crate::logged::finish;
use crate::phases::{self, Run};
use crate::prepared::{self, Answer, Prepared};
use crate::request::Request;
use crate::response::{Body, Piece};
use crate::stream::exchange::Exchange;
use crate::stream::head::{self, Fault};
use crate::stream::{Session, StreamId, encode, serve};
use crate::table::Thread;
use crate::text::Text;
use brisk_http::framing::BodyFraming;
use brisk_http::{HeaderId, Version};
use brisk_mux::Priority;
use brisk_mux::encode::HeadCoding;
use brisk_net::clock;
use std::cell::RefCell;
use std::rc::Rc;

/// A whole answer, as it is sent and perhaps kept.
pub struct Whole<'a> {
    /// The coded head.
    pub head: &'a [u8],
    /// Where its date is to be set, if it is a kept one.
    pub date: Option<(usize, [u8; 29])>,
    /// The body, which may be empty.
    pub body: &'a [u8],
    /// Most bytes of the body in one frame (`http2_chunk_size`).
    pub chunk_bytes: u32,
}

/// A session that answers requests.
/// It is generic and not a trait object: whole answers are the hot path.
pub trait Answering: Session {
    /// How heads are coded.
    type Coding: HeadCoding;

    /// The connection's thread.
    fn thread(&self) -> &Rc<Thread>;

    /// Where answers of this coding are kept.
    fn prepared(live: &Live) -> &RefCell<Prepared>;

    /// Whether a coded head of so many bytes may be kept.
    fn is_kept(head_bytes: usize) -> bool;

    /// How much of a body could leave now.
    fn room(&self, stream: StreamId) -> usize;

    /// Sends an answer whose body fits into [`Answering::room`], and ends the stream. Gives the bytes of head and framing; `None` if the
    /// stream is gone.
    fn send_whole(&self, stream: StreamId, answer: &Whole<'_>) -> Option<u64>;

    /// From now on the stream is this exchange's.
    fn give_to(&self, stream: StreamId, exchange: &Rc<Exchange>);

    /// The exchange of a stream.
    fn exchange(&self, stream: StreamId) -> Option<Rc<Exchange>>;

    /// What the client says of the stream's priority.
    fn set_priority(&self, stream: StreamId, priority: Priority);

    /// The body must come to exactly this length.
    fn expect(&self, stream: StreamId, length: u64);

    /// No request but those that have begun is served.
    fn leave_now(&self);
}

/// What is known of a request besides its fields.
pub struct Head {
    /// There is no body.
    pub end: bool,
    /// There are names of which a server may want to know nothing.
    pub odd: bool,
    /// What makes it one to be refused.
    pub fault: Option<Fault>,
}

/// Where a request has come in.
#[derive(Clone, Copy)]
pub struct Arrival<'a> {
    pub live: &'a Rc<Live>,
    pub conn: &'a Rc<Connection>,
    pub listen: ListenId,
    pub stream: StreamId,
}

/// Answers one request if that can be done at once; otherwise it becomes a task.
pub fn request<S: Answering>(session: &S, at: Arrival<'_>, mut r: Box<Request>, head: Head) {
    intake::begin(&mut r, at.conn, at.listen);
    // Before the request is answered: GOAWAY may have to name it as the last one.
    limit_requests(session, at.live, at.conn);
    // It decides when the answer leaves, not what it is.
    if let Some(value) = r.head.field(HeaderId::Priority) {
        session.set_priority(at.stream, Priority::parse(value));
    }
    let malformed = head.fault.as_ref().is_some_and(Fault::is_malformed);
    let status = match head.fault {
        Some(fault) => Err(head::refused(&mut r, at.listen, &fault)),
        None => {
            // With a body to come the answer could be there before it: only requests that are complete are answered
            // from memory.
            if head.end && send_prepared(session, at, &mut r) {
                session.thread().put_request(r);
                return;
            }
            head::complete(&mut r, at.listen, head.end, head.odd)
        }
    };
    if !head.end
        && let BodyFraming::Length(length) = r.head.framing
    {
        // RFC 9113 §8.1.1, RFC 9114 §4.1.2: DATA must come to exactly the announced length.
        session.expect(at.stream, length);
    }
    answer(session, at, r, status, head.end, malformed);
}

/// Runs a request through the phases. `malformed`: whatever is answered, the stream ends with an error.
pub fn answer<S: Answering>(
    session: &S,
    at: Arrival<'_>,
    mut r: Box<Request>,
    status: Result<(), u16>,
    end: bool,
    malformed: bool,
) {
    let run = match status {
        Ok(()) => phases::run(&mut r),
        Err(status) => phases::fail(&mut r, status),
    };
    // With a body still to come the answer could overtake the end of the request, so a task waits for that.
    if matches!(run, Run::Respond) && end && can_inline(&r) && respond(session, &mut r, at) {
        if malformed {
            session.break_stream(at.stream);
        }
        session.thread().put_request(r);
        return;
    }
    r.hold();
    if session.thread().shared.budget.has_grown() {
        // One read may bring more heads than there is memory for.
        session.thread().look_at_memory();
    }
    let exchange = Rc::new(Exchange::new(at.conn.clone(), at.stream, end, at.live.generation));
    // From here on frames of the stream go to the exchange.
    // The head that the phases have made is written by the task, when it is known that the response is sent.
    session.give_to(at.stream, &exchange);
    serve::spawn(exchange, r, run, malformed, encode_head::<S::Coding>);
}

/// A final head that is sent once: where its date is does not matter.
fn encode_head<C: HeadCoding>(r: &Request, out: &mut Vec<u8>) {
    encode::head::<C>(r, out);
}

/// `client_header_timeout`: a request whose head has not come as a whole is over, and its stream is for the caller to end. As in nginx the connection
/// goes on: it may have other requests.
pub fn head_timed_out<S: Answering>(session: &S, live: &Live, conn: &Rc<Connection>, version: Version) {
    drop(intake::timed_out(head::unknown(session.thread(), version), conn));
    // It counts as a request: heads without an end hold a connection for no longer than requests do.
    limit_requests(session, live, conn);
}

/// `keepalive_requests`, `keepalive_time`, `keepalive_timeout 0`: this one is the last. A connection that brings its first request to a process
/// that ends is asked to go elsewhere; requests on their way are still served.
fn limit_requests<S: Answering>(session: &S, live: &Live, conn: &Rc<Connection>) {
    if session.thread().is_draining() {
        session.leave(conn);
    }
    let Some(core) = live.default_core(&conn.listener) else { return };
    let age_ms = clock::mono_ms().saturating_sub(conn.started_ms);
    if core.keepalive_timeout.is_zero()
        || conn.requests.get() >= core.keepalive_requests
        || u128::from(age_ms) > core.keepalive_time.as_millis()
    {
        // GOAWAY names the last stream that is served; those that have begun are finished.
        session.leave_now();
    }
}

/// Sends an answer that is complete in memory; false if it does not fit into the windows.
fn respond<S: Answering>(session: &S, r: &mut Request, at: Arrival<'_>) -> bool {
    let len = r.resp.body.len().unwrap_or(0) as usize;
    // An answer that does not fit into the windows would have to wait, so a task sends it.
    if len > session.room(at.stream) {
        // The task gets it as it is; nothing was written yet.
        return false;
    }
    // Put together outside of the output: it is what may be kept for other connections.
    let mut block = session.thread().block.take();
    block.clear();
    let date_at = encode::head::<S::Coding>(r, &mut block);
    let head_len = block.len();
    let apart = if r.sends_body() { r.resp.body.take_apart() } else { None };
    if r.sends_body() && apart.is_none() {
        append_body(&r.resp.body, &mut block);
    }
    let (head, small) = block.split_at(head_len);
    let body = apart.as_deref().unwrap_or(small);
    let chunk_bytes = r.core().http2.chunk_size;
    // `None`: the client has reset the stream. The request is logged all the same.
    let sent = session.send_whole(at.stream, &Whole { head, date: None, body, chunk_bytes });
    if let Some(head_bytes) = sent {
        (r.progress.sent.head_bytes, r.progress.sent.body_bytes) = (head_bytes, body.len() as u64);
    }
    // Before the log phase, as in `h1/hot.rs`.
    keep::<S>(r, at.listen, &block, apart.as_ref(), head_len, date_at);
    session.thread().block.replace(block);
    r.reply.completed = sent.is_some();
    finish(r);
    true
}

fn append_body(body: &Body, out: &mut Vec<u8>) {
    let append = |piece: &Piece, out: &mut Vec<u8>| {
        // `can_inline` has seen to it that they are in memory.
        out.extend_from_slice(piece.in_memory().unwrap_or_default());
    };
    match body {
        Body::One(piece) => append(piece, out),
        Body::Many(pieces) => pieces.iter().for_each(|piece| append(piece, out)),
        Body::Empty | Body::Stream(_) => {}
    }
}

/// Sends a kept answer again; false if there is none, or no room for it.
#[inline]
fn send_prepared<S: Answering>(session: &S, at: Arrival<'_>, r: &mut Request) -> bool {
    if !prepared::is_usual(r) {
        return false;
    }
    let thread = session.thread();
    // Not borrowed while it is sent.
    let Some(answer) = S::prepared(at.live).borrow_mut().find(r, at.listen) else { return false };
    let (head, small) = answer.bytes.split_at(answer.head_len);
    let body = answer.apart.as_deref().unwrap_or(small);
    // As in `respond`: what does not fit into the windows goes the full way to a task.
    if body.len() > session.room(at.stream) {
        return false;
    }
    let chunk_bytes = at.live.snap.location(answer.location).core.http2.chunk_size;
    // Heads are coded without a dynamic table, so the same bytes are right on each connection and the date stands uncompressed.
    let date = Some((answer.date_at, thread.date()));
    let sent = session.send_whole(at.stream, &Whole { head, date, body, chunk_bytes });
    answer.conclude(thread, at.live, r, sent.unwrap_or(0));
    true
}

/// Keeps an answer for the next request of the same target, if it depends on nothing else.
fn keep<S: Answering>(
    r: &Request,
    listen: ListenId,
    bytes: &[u8],
    apart: Option<&Text>,
    head_len: usize,
    date_at: Option<usize>,
) {
    let Some(date_at) = date_at else { return };
    let is_kept = r.resp.content_length.is_some() && S::is_kept(head_len);
    if let Some(answer) = is_kept.then(|| Answer::of(r, bytes, apart, head_len, date_at)).flatten() {
        S::prepared(r.live.root()).borrow_mut().keep(r, listen, answer);
    }
}

/// A piece of a body. `over`: whose it is, if the stream has ended with it.
pub fn body<S: Answering>(session: &S, stream: StreamId, over: Option<Rc<Exchange>>, data: &[u8], end: bool) {
    match over.or_else(|| session.exchange(stream)) {
        // The task is woken, and not called: it may be the one that is running.
        Some(exchange) => {
            // Bounded by the stream's window, which is widened as the body is taken.
            exchange.input.borrow_mut().extend_from_slice(data);
            exchange.ended.set(end);
            exchange.wakers.wake();
        }
        // Without an exchange it is answered already: the bytes only give the connection's window back.
        None => session.drop_body(stream, data.len() as u32),
    }
}

/// A body is not as long as it was said to be: whoever reads it answers with 400.
pub fn mismatch<S: Answering>(session: &S, stream: StreamId) {
    // The stream stays until the reader has found out, so that the answer can still be sent.
    match session.exchange(stream) {
        Some(exchange) => {
            exchange.malformed.set(true);
            exchange.ended.set(true);
            exchange.wakers.wake();
        }
        None => session.break_stream(stream),
    }
}
