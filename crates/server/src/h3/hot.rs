//! Working through what QUIC tells of a connection: what its streams bring becomes requests and bodies, and what can be
//! answered at once is.

use super::life;
use super::send::send_queued;
use super::session::{Session, State, Value, reset_of};
use super::transport::{self, Read, Transport};
use crate::connection::Connection;
use crate::h1::intake;
use crate::limits::{H2_FIELDS_MAX, H3_BLOCKED_STREAMS, H3_READ_BYTES, H3_READS_MAX, H3_TABLE_BYTES};
use crate::live::Live;
use crate::memory;
use crate::stream::answer::{self, Answering as _, Arrival, Head};
use crate::stream::head::{Fault, Intake, Taken};
use crate::stream::{StreamId, Streams as _};
use crate::table::Thread;
use brisk_h3::{
    Begun, Config, Connection as Engine, ConnectionError, ErrorCode, Event, FieldLimits, Role, Settings,
};
use brisk_host::log::LogLevel;
use brisk_http::Version;
use brisk_net::clock;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// What a client may do at a time.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Requests in work.
    pub streams_max: usize,
    /// Bytes of a stream before anybody reads them.
    pub stream_buffer_bytes: u32,
}

/// Makes a connection one of HTTP/3. What QUIC tells of it goes to the other functions here.
pub fn begin(
    thread: &Rc<Thread>,
    live: &Live,
    index: u32,
    conn: &Rc<Connection>,
    quic: Transport,
    bounds: Bounds,
) -> Option<Rc<Session>> {
    let core = live.default_core(&conn.listener)?;
    let (count, size) = core.large_client_header_buffers;
    let list_bytes_max = count.saturating_mul(size) as usize;
    let settings = Settings {
        // RFC 9114 §4.2.2: the client is told how large a head may be. It may disregard that, so the decoder
        // has the limit, too.
        max_field_section_size: Some(list_bytes_max as u64),
        qpack_max_table_capacity: H3_TABLE_BYTES,
        qpack_blocked_streams: H3_BLOCKED_STREAMS,
        // RFC 9220: WebSockets over HTTP/3 are asked for by extended CONNECT, which has to be allowed first.
        enable_connect_protocol: true,
        // Datagrams of HTTP (RFC 9297) have no use here.
        datagram: false,
    };
    let config = Config {
        settings,
        streams_max: bounds.streams_max,
        // As for HTTP/1.1, `large_client_header_buffers` bounds a field and the head as a whole.
        head_limits: FieldLimits {
            string_bytes_max: size as usize,
            list_bytes_max,
            fields_max: H2_FIELDS_MAX,
            long_padding: false,
        },
        ..Config::default()
    };
    let engine = Engine::new(Role::Server, config, clock::mono_ms() / 1000);
    let session = Session::new(thread, index, quic, engine, bounds.stream_buffer_bytes);
    conn.become_session(session.clone());
    // Our SETTINGS are to leave even if the client says nothing.
    session.touch();
    Some(session)
}

/// Does something to the connection whose fault or panic is its end; what is to be sent then leaves at once.
fn guarded(session: &Session, conn: &Rc<Connection>, work: impl FnOnce() -> Result<(), ConnectionError>) {
    if session.is_dead() {
        return;
    }
    // The engine reads no clock; its limits on rates count in seconds.
    session.engine.borrow_mut().tick(clock::mono_ms() / 1000);
    session.busy.set(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    session.busy.set(false);
    match result {
        Ok(Ok(())) => session.touch(),
        Ok(Err(error)) => life::fail(session, conn, &error),
        // A panic may have left the engine between two states. Only this connection depends on it.
        Err(_) => {
            crate::hand_over::panicked(&session.thread, conn.id);
            life::close(session, ErrorCode::INTERNAL_ERROR, "");
        }
    }
}

/// The client has begun a stream.
pub fn opened(session: &Session, conn: &Rc<Connection>, stream: StreamId) {
    guarded(session, conn, || {
        let begun = session.engine.borrow_mut().begin(stream)?;
        match begun {
            // More requests than allowed, or a stream that only servers may begin.
            Begun::Refused(code) => transport::give_up(&*session.quic, stream, code.0),
            Begun::Taken => {
                if is_request(stream) {
                    let state = State { allowance: session.preread_bytes, ..State::default() };
                    session.states.borrow_mut().insert(stream, state);
                }
                // Its first bytes often come with its beginning.
                read(session, conn, stream)?;
                note_partial_head(session, conn, stream);
            }
        }
        Ok(())
    });
}

/// A head that has begun must be there as a whole in time (`client_header_timeout`).
fn note_partial_head(session: &Session, conn: &Connection, stream: StreamId) {
    if !session.engine.borrow().awaits_head(stream) {
        return;
    }
    let timeout = session.thread.live().header_timeout(&conn.listener);
    let deadline_ms = clock::mono_ms() + timeout.as_millis() as u64;
    if let Some(state) = session.states.borrow_mut().get_mut(&stream) {
        state.head_deadline_ms = deadline_ms;
    }
    // The slot's deadline may be later, and must not be moved behind that of another stream.
    session.thread.extend(session.index, session.head_deadline_ms().unwrap_or(deadline_ms));
}

/// There is something to be read on a stream.
pub fn readable(session: &Session, conn: &Rc<Connection>, stream: StreamId) {
    guarded(session, conn, || read(session, conn, stream));
}

/// A stream takes more.
pub fn writable(session: &Session, stream: StreamId) {
    session.queue(stream);
}

/// The client wants no more of a stream.
pub fn stopped(session: &Session, conn: &Rc<Connection>, stream: StreamId, code: u64) {
    guarded(session, conn, || {
        // The answer is not wanted. The request goes on until its task notices.
        let event = session.engine.borrow_mut().peer_stopped(stream, ErrorCode(code))?;
        // A request that is answered is known to the engine no more, and what is left of its answer is not wanted either.
        if event.is_none() && session.states.borrow_mut().remove(&stream).is_some() {
            session.quic.reset(stream, code);
            session.touch();
        }
        over(session, conn, event);
        Ok(())
    });
}

/// What has waited for its turn: streams that may be read again, and what is to be sent.
pub fn work_off(session: &Session, conn: &Rc<Connection>) {
    let again = session.reading.take();
    if !again.is_empty() {
        // Time has passed since these were put off.
        session.thread.files.must_confirm();
        guarded(session, conn, || again.into_iter().try_for_each(|stream| read(session, conn, stream)));
    }
    if session.is_dead() {
        return;
    }
    if send_queued(session) {
        // Others have their turn first.
        return session.touch();
    }
    life::settle(session, conn);
}

/// Both sides send on requests; the others are the client's alone (RFC 9000 §2.1).
fn is_request(stream: StreamId) -> bool {
    stream & 2 == 0
}

/// Reads a stream as far as its body is taken, up to a limit: then others have their turn.
fn read(session: &Session, conn: &Rc<Connection>, stream: StreamId) -> Result<(), ConnectionError> {
    for _ in 0..H3_READS_MAX {
        if session.is_dead() {
            return Ok(());
        }
        if !may_read(session, stream) {
            // What holds a body back, a back end or a limit, is not for a client that has given up.
            let is_here = session.states.borrow().contains_key(&stream);
            let code = is_here.then(|| session.quic.take_reset(stream)).flatten();
            return code.map_or(Ok(()), |code| reset_by_peer(session, conn, stream, code));
        }
        // One buffer of the thread's, taken out while engine and exchanges are called.
        let mut buf = session.thread.block_in.take();
        buf.clear();
        let got = session.quic.read(stream, H3_READ_BYTES, &mut buf);
        let result = match got {
            Read::Some => take(session, conn, stream, &buf, false),
            Read::End => take(session, conn, stream, &buf, true),
            Read::Reset(code) => reset_by_peer(session, conn, stream, code),
            Read::Blocked | Read::Gone => Ok(()),
        };
        session.thread.block_in.replace(buf);
        result?;
        if got != Read::Some {
            return Ok(());
        }
    }
    // The socket is QUIC's, so no event tells of what is left: the session remembers it.
    session.reading.borrow_mut().push(stream);
    Ok(())
}

/// Whether more of a stream may be read now; if not, it is read again when its body was taken or its head can be decoded.
fn may_read(session: &Session, stream: StreamId) -> bool {
    if !is_request(stream) {
        return true;
    }
    // The engine keeps the rules for control streams, and has bounds of its own for them.
    let exchange = session.exchange(stream);
    let mut states = session.states.borrow_mut();
    let Some(state) = states.get_mut(&stream) else {
        // What is answered and gone from here has nothing to bring.
        return false;
    };
    // Not read means not acknowledged as consumed, so QUIC's window holds the client back (RFC 9000 §4.1).
    let waits = exchange.is_some_and(|exchange| exchange.input.borrow().len() >= state.allowance as usize);
    state.is_paused |= waits;
    !waits && state.held.is_none()
}

fn reset_by_peer(
    session: &Session,
    conn: &Rc<Connection>,
    stream: StreamId,
    code: u64,
) -> Result<(), ConnectionError> {
    let event = session.engine.borrow_mut().peer_reset(stream, ErrorCode(code))?;
    over(session, conn, event);
    Ok(())
}

/// A request that the client has given up, or that has broken a rule.
fn over(session: &Session, conn: &Rc<Connection>, event: Option<Event<'_, Value>>) {
    let Some(Event::Reset { stream, code, by_peer, value }) = event else { return };
    let live = session.thread.live();
    let text = match (by_peer, code) {
        (true, ErrorCode::REQUEST_CANCELLED) => format!("client canceled stream {stream}"),
        (true, code) => format!("client terminated stream {stream} with status {:#x}", code.0),
        (false, code) => format!("client broke stream {stream}: {code:?}"),
    };
    crate::log::connection(&live, conn, LogLevel::Info, format_args!("{text}"));
    let state = session.states.borrow_mut().remove(&stream);
    if !by_peer && state.is_none_or(|state| state.is_finished) {
        // As in `break_stream`: an answer is not overtaken by a reset.
        session.quic.stop(stream, code.0);
    } else {
        // Both directions: without it the client would go on sending a body that nobody reads.
        transport::give_up(&*session.quic, stream, code.0);
    }
    if let Some(exchange) = value {
        // The task goes on until it notices, so it counts against new streams.
        session.count_orphans(1);
        exchange.end(reset_of(code));
    }
}

/// Takes what was read of a stream, and what streams go on with it.
fn take(
    session: &Session,
    conn: &Rc<Connection>,
    stream: StreamId,
    data: &[u8],
    fin: bool,
) -> Result<(), ConnectionError> {
    work_through(session, conn, stream, data, fin)?;
    // The encoder stream of QPACK is one of the others: what it brings may unblock requests.
    if is_request(stream) {
        return Ok(());
    }
    loop {
        let Some(stream) = session.engine.borrow_mut().next_unblocked() else { return Ok(()) };
        let held = session.states.borrow_mut().get_mut(&stream).and_then(|state| state.held.take());
        if let Some((rest, fin)) = held {
            work_through(session, conn, stream, &rest, fin)?;
            // What is left of it in QUIC was not read while it waited.
            session.reading.borrow_mut().push(stream);
        }
    }
}

fn work_through(
    session: &Session,
    conn: &Rc<Connection>,
    stream: StreamId,
    mut data: &[u8],
    fin: bool,
) -> Result<(), ConnectionError> {
    let live = session.thread.live();
    if conn.listener.id.get().is_none() {
        // A reload has taken the socket away. What has begun is finished.
        life::leave_now(session);
    }
    let mut sink = Intake::new(&session.thread, conn, Version::Http3);
    loop {
        let received = session.engine.borrow_mut().receive(stream, &mut data, fin, &mut sink);
        let event = received.inspect_err(|_| log_broken_head(session, conn, stream, &mut sink))?;
        let Some(event) = event else { break };
        handle(session, &live, conn, event, &mut sink);
        if session.is_dead() {
            return Ok(());
        }
    }
    // RFC 9204 §2.1.2: its head refers to entries of the table that have not come. The engine has taken no
    // more than it could.
    if session.engine.borrow().is_blocked(stream)
        && let Some(state) = session.states.borrow_mut().get_mut(&stream)
    {
        state.held = Some((data.to_vec(), fin));
    }
    Ok(())
}

fn handle(
    session: &Session,
    live: &Rc<Live>,
    conn: &Rc<Connection>,
    event: Event<'_, Value>,
    sink: &mut Intake<'_>,
) {
    match event {
        Event::Head { stream, end, bytes } => {
            if let Some(taken) = sink.finish(bytes) {
                head(session, live, conn, stream, taken, end, sink.has_odd_names());
            }
        }
        Event::Data { stream, data, end, value } => answer::body(session, stream, value.flatten(), data, end),
        // RFC 9114 §4.1.2: malformed trailers make the request malformed.
        Event::Trailers { stream } => match sink.trailer_fault() {
            Some(_) => session.break_stream(stream),
            None => answer::body(session, stream, None, b"", true),
        },
        Event::Mismatch { stream } => answer::mismatch(session, stream),
        Event::TooLarge { stream, limit, is_head: true } => {
            let fault = Some(Fault::TooLarge(limit));
            let taken = sink.cut_off().map_or(Taken::Refused, |r| Taken::Request(r, fault));
            // RFC 9114 §4.1: the answer does not need the rest, of which nothing is read.
            session.quic.stop(stream, ErrorCode::NO_ERROR.0);
            head(session, live, conn, stream, taken, true, false);
        }
        Event::TooLarge { stream, limit, is_head: false } => {
            let text = format_args!("client sent {limit} of trailers: stream {stream} is reset");
            crate::log::connection(live, conn, LogLevel::Info, text);
            session.reset(stream, ErrorCode::EXCESSIVE_LOAD);
        }
        event @ Event::Reset { .. } => over(session, conn, Some(event)),
        Event::Unknown { stream } => {
            // RFC 9114 §6.2 allows to read streams of unknown types no further.
            session.quic.stop(stream, ErrorCode::STREAM_CREATION_ERROR.0);
        }
        Event::Priority { stream } => session.apply_priority(stream),
        // The engine acts on them by itself.
        Event::Settings | Event::GoAway { .. } | Event::Interim { .. } => {}
    }
}

/// A request, or what there is of one.
fn head(
    session: &Session,
    live: &Rc<Live>,
    conn: &Rc<Connection>,
    stream: StreamId,
    taken: Taken,
    end: bool,
    odd: bool,
) {
    match (taken, conn.listener.id.get()) {
        (Taken::Request(r, fault), Some(listen)) => {
            session.apply_priority(stream);
            answer::request(session, Arrival { live, conn, listen, stream }, r, Head { end, odd, fault });
        }
        (Taken::Request(r, _), None) => {
            session.thread.put_request(r);
            // RFC 9114 §4.1.1: nothing was done for it, so the client may ask elsewhere.
            session.reset(stream, ErrorCode::REQUEST_REJECTED);
        }
        (Taken::Refused, _) => {
            memory::HEADS_REFUSED.add(1);
            let text = format_args!("client has too large requests waiting: stream {stream} is refused");
            crate::log::connection(live, conn, LogLevel::Info, text);
            // RFC 9114 §8.1: nothing was done, so the client may send the request again.
            session.reset(stream, ErrorCode::REQUEST_REJECTED);
        }
    }
}

/// A head may have broken the connection.
#[cold]
fn log_broken_head(session: &Session, conn: &Rc<Connection>, stream: StreamId, sink: &mut Intake<'_>) {
    let is_head = is_request(stream) && session.engine.borrow().awaits_head(stream);
    if let Some(r) = is_head.then(|| sink.cut_off()).flatten() {
        intake::broken(r, conn);
    }
}
