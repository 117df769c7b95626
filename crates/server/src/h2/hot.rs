//! Working through what a connection has received: requests that can be answered at once are, and their answers leave
//! in one write.
//!
//! Requests take the same way as those of HTTP/1.1 from [`answer`] on; what is HTTP/2's own ends here and in
//! [`head`].

use super::encode;
use super::head::{self, Fault, Intake, Taken};
use super::life::{self, How};
use super::session::{Session, Value, reset_of};
use crate::conf::ids::ListenId;
use crate::connection::Connection;
use crate::core::http_conf::Http2Conf;
use crate::h1::intake;
use crate::h1::send::can_inline;
use crate::limits::{
    H2_CONNECTION_WINDOW_BYTES, H2_FIELDS_MAX, H2_OUT_BYTES_LOW, H2_READ_BYTES, H2_READS_MAX,
};
use crate::live::Live;
use crate::logged::finish;
use crate::memory;
use crate::phases::{self, Run};
use crate::prepared::{self, Answer};
use crate::request::Request;
use crate::response::{Body, Piece};
use crate::stream::exchange::Exchange;
use crate::stream::{Session as _, Streams as _, serve};
use crate::table::Thread;
use brisk_h2::conn::{Config, Role};
use brisk_h2::hpack::Limits;
use brisk_h2::priority::Priority;
use brisk_h2::{Connection as Engine, ConnectionError, ErrorCode, Event, PREFACE, Settings, frame};
use brisk_host::log::LogLevel;
use brisk_http::HeaderId;
use brisk_net::clock;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// Whether a connection's first bytes may be the beginning of HTTP/2; `None`: too few to tell.
pub fn is_preface(live: &Live, conn: &Connection, input: &[u8]) -> Option<bool> {
    if conn.plain_on_tls.get() {
        return Some(false);
    }
    if let Some(tls) = conn.io.tls() {
        // ALPN has settled it (RFC 9113 §3.2).
        return Some(tls.session(|session| session.alpn() == Some(b"h2")));
    }
    // RFC 9113 §3.3: without TLS the preface tells by itself (prior knowledge). It cannot come behind a request.
    let count = input.len().min(PREFACE.len());
    if conn.requests.get() > 0 || input[..count] != PREFACE[..count] || !is_allowed(live, conn) {
        return Some(false);
    }
    (count == PREFACE.len()).then_some(true)
}

/// Whether the default server of the socket speaks HTTP/2; with TLS, whether that was agreed on (RFC 9113 §3.2).
pub fn is_allowed(live: &Live, conn: &Connection) -> bool {
    if let Some(tls) = conn.io.tls() {
        return tls.session(|session| session.alpn() == Some(b"h2"));
    }
    by_default_server(live, conn).is_some_and(|(is_on, _)| is_on)
}

/// Whether the default server of a socket without TLS lets a request ask for HTTP/2.
pub fn may_upgrade(live: &Live, conn: &Connection) -> bool {
    conn.io.tls().is_none()
        && by_default_server(live, conn).is_some_and(|(is_on, conf)| is_on && conf.upgrade)
}

/// What the default server of the socket says, and whether it, or `listen`, allows HTTP/2.
fn by_default_server(live: &Live, conn: &Connection) -> Option<(bool, Http2Conf)> {
    let listen = live.snap.listen(conn.listener.id.get()?);
    let (prefix, server) = match listen.local(|| conn.local()) {
        Some(local) => (local.prefix, local.default_server),
        None => (listen.prefix, listen.default_server),
    };
    let conf = live.snap.location(live.snap.server(server).root).core.http2;
    Some((prefix.http2 || conf.enabled, conf))
}

/// Makes a connection one of HTTP/2. Its first bytes go to [`input`].
pub fn begin(thread: &Rc<Thread>, live: &Live, index: u32, conn: &Rc<Connection>) -> Option<Rc<Session>> {
    let core = live.default_core(&conn.listener)?;
    let (count, size) = core.large_client_header_buffers;
    // RFC 9113 §6.5.2: each of these is a promise to the client that the engine then holds it to.
    let settings = Settings {
        max_concurrent_streams: Some(core.http2.max_concurrent_streams),
        initial_window_size: core.http2.body_preread_size,
        // A body is taken as it comes, so its frames may be as large as the window.
        max_frame_size: H2_CONNECTION_WINDOW_BYTES,
        enable_connect_protocol: true,
        ..Settings::default()
    };
    let config = Config {
        settings,
        // Twice the window of a stream at least: one body that is not read must not stop all others.
        connection_window: H2_CONNECTION_WINDOW_BYTES.max(core.http2.body_preread_size.saturating_mul(2)),
        // As for HTTP/1.1, `large_client_header_buffers` bounds a field and the head as a whole.
        head_limits: Limits {
            string_bytes_max: size as usize,
            list_bytes_max: (count * size) as usize,
            fields_max: H2_FIELDS_MAX,
            long_padding: false,
        },
        chunk_bytes: core.http2.chunk_size,
        ..Config::default()
    };
    let mut out = Vec::new();
    let engine = Engine::new(Role::Server, config, clock::mono_ms() / 1000, &mut out);
    let session = Session::new(thread, index, engine, out);
    conn.become_session(session.clone());
    Some(session)
}

/// Takes what was read. `full`: there may be more in the socket. `out` is memory for what is to be sent.
pub fn input(session: &Session, conn: &Rc<Connection>, data: &[u8], full: bool, out: &mut Vec<u8>) {
    if session.is_dead() {
        return;
    }
    // All connections of the thread take turns with one buffer, as long as nothing of it stays behind.
    let borrowed = session.out.borrow().is_empty();
    if borrowed {
        out.clear();
        std::mem::swap(out, &mut session.out.borrow_mut());
    }
    // A panic may leave the engine between two states, so the connection is closed; the others do not know of it.
    let result = catch_unwind(AssertUnwindSafe(|| {
        session.busy.set(true);
        take(session, conn, data)?;
        if full { read_on(session, conn) } else { Ok(()) }
    }));
    session.busy.set(false);
    match result {
        Ok(Ok(())) => {
            note_partial_head(session, conn);
            // Also without a new answer: windows may have opened for what tasks have to send.
            session.flush(conn);
        }
        Ok(Err(error)) => life::fail(session, conn, &error),
        Err(_) => {
            crate::hand_over::panicked(&session.thread, conn.id);
            life::close(session, conn, How::Broken);
        }
    }
    if borrowed {
        let mut rest = session.out.borrow_mut();
        std::mem::swap(out, &mut rest);
        rest.extend_from_slice(out);
    }
    // The end of the connection was reported together with the last data; no other event will come.
    if conn.io.is_closed() && !session.is_dead() && !session.is_deaf() && !conn.io.has_unread() {
        closed(session, conn);
    }
}

/// Takes bytes; what is no whole frame yet is kept with the connection.
fn take(session: &Session, conn: &Rc<Connection>, data: &[u8]) -> Result<(), ConnectionError> {
    // The clock of the engine's limits on rates; it reads none itself.
    session.engine.borrow_mut().tick(clock::mono_ms() / 1000);
    if conn.input.borrow().is_empty() {
        let used = work_through(session, conn, data)?;
        conn.input.borrow_mut().extend_from_slice(&data[used..]);
    } else {
        // The copy is only for frames that came in parts.
        let mut all = conn.input.take();
        all.extend_from_slice(data);
        let used = work_through(session, conn, &all)?;
        if used < all.len() {
            all.drain(..used);
            conn.input.replace(all);
        }
    }
    Ok(())
}

/// Reads what is left in the socket, up to a limit: then others have their turn.
fn read_on(session: &Session, conn: &Rc<Connection>) -> Result<(), ConnectionError> {
    let mut buf = session.thread.scratch.take();
    buf.resize(H2_READ_BYTES, 0);
    let mut result = Ok(());
    for _ in 0..H2_READS_MAX {
        if session.is_deaf() {
            break;
        }
        match conn.io.try_read(&mut buf) {
            // The end is reported again.
            Ok(0) => break,
            Ok(count) => {
                // What was read after the first read of this turn may have come after a change of a file.
                session.thread.files.must_confirm();
                result = take(session, conn, &buf[..count]);
                if count < buf.len() || result.is_err() {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    session.thread.scratch.replace(buf);
    // If there is still more the driver is told at once.
    session.thread.tell_again(session.index, conn);
    result
}

/// The client has closed its side: nobody is there to be answered.
pub fn closed(session: &Session, conn: &Rc<Connection>) {
    if session.is_dead() {
        return;
    }
    if !session.is_idle() || session.engine.borrow().is_inside_head() {
        let live = session.thread.live();
        let text = format_args!("client prematurely closed connection");
        crate::log::connection(&live, conn, LogLevel::Info, text);
    }
    life::close(session, conn, How::Broken);
}

/// Goes on with input that had to wait until the client took what was said.
pub fn resume(session: &Session, conn: &Rc<Connection>) {
    session.thread.files.must_confirm();
    input(session, conn, &[], true, &mut Vec::new());
}

/// A head that has begun must be there as a whole in time.
fn note_partial_head(session: &Session, conn: &Connection) {
    let engine = session.engine.borrow();
    // Also a frame that has begun: otherwise a connection could be held open by one byte.
    let owes = engine.is_inside_head() || !engine.has_begun() || !conn.input.borrow().is_empty();
    if !owes {
        session.head_deadline_ms.set(0);
    } else if session.head_deadline_ms.get() == 0 {
        let timeout = session.thread.live().header_timeout(&conn.listener);
        let deadline = clock::mono_ms() + timeout.as_millis() as u64;
        session.head_deadline_ms.set(deadline);
        // The slot's deadline may be later than this one.
        session.thread.extend(session.index, deadline);
    }
}

/// Gives how much of the input is done with.
fn work_through(session: &Session, conn: &Rc<Connection>, data: &[u8]) -> Result<usize, ConnectionError> {
    let thread = &session.thread;
    let live = thread.live();
    let listen = conn.listener.id.get();
    if listen.is_none() {
        // A reload has taken the socket away. What has begun is finished, and its windows, bodies and resets are heard.
        life::leave_now(session);
    }
    let mut sink = Intake::new(thread, conn);
    let mut at = 0;
    loop {
        let received = {
            // `out` is borrowed for the frames that the engine answers by itself (SETTINGS, PING, WINDOW_UPDATE).
            let mut out = session.out.borrow_mut();
            session.engine.borrow_mut().receive(&data[at..], &mut sink, &mut out)?
        };
        at += received.used;
        match received.event {
            None if received.used == 0 => return Ok(at),
            None => {}
            Some(Event::Head { stream, end, bytes }) => match sink.finish(bytes) {
                Some(Taken::Request(r, fault)) => match listen {
                    Some(listen) => {
                        let odd = sink.has_odd_names();
                        request(session, &live, conn, listen, stream, r, Head { end, odd, fault });
                    }
                    None => {
                        thread.put_request(r);
                        session.engine.borrow_mut().refuse(stream, &mut session.out.borrow_mut())?;
                    }
                },
                Some(Taken::Refused) => refuse(session, &live, conn, stream)?,
                None => {}
            },
            Some(Event::Data { stream, data, end, value }) => body(session, stream, value, data, end),
            // RFC 9113 §8.1.1: malformed trailers make the request malformed.
            Some(Event::Trailers { stream, value }) => match sink.trailer_fault() {
                Some(_) if value.is_none() => session.reset(stream, ErrorCode::PROTOCOL_ERROR),
                // Where we have said all there is nothing left to be reset.
                _ => body(session, stream, value, b"", true),
            },
            Some(Event::Reset { stream, code, by_peer, value: Some(exchange) }) => {
                reset(&live, conn, stream, code, by_peer);
                // The task goes on until it notices, so it counts against new streams: a client that resets what it
                // has just begun (CVE-2023-44487) gains nothing.
                session.count_orphans(1);
                exchange.end(reset_of(code));
            }
            Some(Event::Reset { value: None, .. }) => {}
            Some(Event::Mismatch { stream }) => mismatch(session, stream),
            Some(Event::Pong(payload)) => life::pong(session, payload),
            Some(Event::Window | Event::Settings | Event::SettingsAck | Event::GoAway { .. }) => {}
            Some(Event::Interim { .. }) => {}
        }
        // Sent in between, so that a long input does not fill memory with answers.
        if session.out.borrow().len() >= H2_OUT_BYTES_LOW {
            session.flush(conn);
            // The client does not take its answers: the rest of its input waits with the connection.
            if session.is_paused() || session.is_dead() {
                return Ok(if session.is_dead() { data.len() } else { at });
            }
        }
    }
}

/// A body is not as long as it was said to be: whoever reads it answers with 400.
fn mismatch(session: &Session, stream: u32) {
    let exchange = session.engine.borrow().value(stream).cloned().flatten();
    // The stream stays until the reader has found out, so that the answer can still be sent.
    match exchange {
        Some(exchange) => {
            exchange.malformed.set(true);
            exchange.ended.set(true);
            exchange.wakers.wake();
        }
        None => session.break_stream(stream.into()),
    }
}

/// nginx's words.
fn reset(live: &Live, conn: &Connection, stream: u32, code: ErrorCode, by_peer: bool) {
    let text = match (by_peer, code) {
        (true, ErrorCode::CANCEL) => format!("client canceled stream {stream}"),
        (true, ErrorCode::INTERNAL_ERROR) => {
            format!("client terminated stream {stream} due to internal error")
        }
        (true, code) => format!("client terminated stream {stream} with status {}", code.0),
        (false, code) => format!("client broke stream {stream}: {code:?}"),
    };
    crate::log::connection(live, conn, LogLevel::Info, format_args!("{text}"));
}

/// A piece of a body. `over`: whose it is, if the stream has ended with it.
fn body(session: &Session, stream: u32, over: Option<Value>, data: &[u8], end: bool) {
    let exchange = over.or_else(|| session.engine.borrow().value(stream).cloned()).flatten();
    match exchange {
        Some(exchange) => {
            // Bounded by the stream's window, which is widened as the body is taken.
            exchange.input.borrow_mut().extend_from_slice(data);
            exchange.ended.set(end);
            exchange.wakers.wake();
        }
        // Without an exchange it is answered already: the bytes only give the connection's window back.
        None => session.drop_body(stream.into(), data.len() as u32),
    }
}

/// The connection's heads occupy as much as they may: the stream is given back, and the client may try again when others are over.
#[cold]
fn refuse(session: &Session, live: &Live, conn: &Connection, stream: u32) -> Result<(), ConnectionError> {
    memory::HEADS_REFUSED.add(1);
    let text = format_args!("client has too large requests waiting: stream {stream} is refused");
    crate::log::connection(live, conn, LogLevel::Info, text);
    // RFC 9113 §8.7: REFUSED_STREAM says that nothing was done, so the client may send the request again.
    session.engine.borrow_mut().refuse(stream, &mut session.out.borrow_mut())
}

/// What is known of a request besides its fields.
struct Head {
    end: bool,
    odd: bool,
    fault: Option<Fault>,
}

/// Answers one request if that can be done at once; otherwise it becomes a task.
fn request(
    session: &Session,
    live: &Rc<Live>,
    conn: &Rc<Connection>,
    listen: ListenId,
    stream: u32,
    mut r: Box<Request>,
    head: Head,
) {
    intake::begin(&mut r, conn, listen);
    limit_requests(session, live, conn);
    // It decides when the answer leaves, not what it is.
    if let Some(value) = r.head.field(HeaderId::Priority) {
        let priority = Priority::parse(value);
        session.engine.borrow_mut().set_priority(stream, priority);
    }
    let malformed = head.fault.is_some();
    let status = match head.fault {
        Some(fault) => {
            crate::rlog!(r, Info, "{fault}");
            Err(400)
        }
        None => {
            // With a body to come the answer could be there before it: only requests that are complete are answered
            // from memory.
            if head.end && send_prepared(session, live, &mut r, listen, stream) {
                session.thread.put_request(r);
                return;
            }
            head::complete(&mut r, listen, head.end, head.odd)
        }
    };
    if !head.end
        && let brisk_http::framing::BodyFraming::Length(length) = r.head.framing
    {
        // RFC 9113 §8.1.1: DATA must come to exactly the announced length.
        session.engine.borrow_mut().expect(stream, Some(length));
    }
    answer(session, live, conn, listen, stream, r, status, head.end, malformed);
}

/// Runs a request through the phases. `malformed`: whatever is answered, the stream ends with an error.
#[allow(clippy::too_many_arguments)]
pub fn answer(
    session: &Session,
    live: &Rc<Live>,
    conn: &Rc<Connection>,
    listen: ListenId,
    stream: u32,
    mut r: Box<Request>,
    status: Result<(), u16>,
    end: bool,
    malformed: bool,
) {
    let run = match status {
        Ok(()) => phases::run(&mut r),
        Err(status) => phases::fail(&mut r, status),
    };
    if matches!(run, Run::Respond) && end && can_inline(&r) && respond(session, &mut r, listen, stream) {
        if malformed {
            session.break_stream(stream.into());
        }
        session.thread.put_request(r);
        return;
    }
    r.hold();
    if session.thread.shared.budget.has_grown() {
        // One read may bring more heads than there is memory for.
        session.thread.look_at_memory();
    }
    let exchange = Rc::new(Exchange::new(conn.clone(), stream.into(), end, live.generation));
    // From here on frames of the stream go to the exchange.
    if let Some(value) = session.engine.borrow_mut().value_mut(stream) {
        *value = Some(exchange.clone());
    }
    serve::spawn(exchange, r, run, malformed, encode_head);
}

/// A final head that is sent once: where its date is does not matter.
fn encode_head(r: &Request, out: &mut Vec<u8>) {
    encode::head(r, out);
}

/// `keepalive_requests`, `keepalive_time`, `keepalive_timeout 0`: this one is the last.
fn limit_requests(session: &Session, live: &Live, conn: &Connection) {
    let Some(core) = live.default_core(&conn.listener) else { return };
    let age_ms = clock::mono_ms().saturating_sub(conn.started.mono_ms);
    if core.keepalive_timeout.is_zero()
        || conn.requests.get() >= core.keepalive_requests
        || u128::from(age_ms) > core.keepalive_time.as_millis()
    {
        // GOAWAY names the last stream that is served; those that have begun are finished.
        life::leave_now(session);
    }
}

/// Sends an answer that is complete in memory; false if it does not fit into the windows.
fn respond(session: &Session, r: &mut Request, listen: ListenId, stream: u32) -> bool {
    let len = r.resp.body.len().unwrap_or(0) as usize;
    let mut engine = session.engine.borrow_mut();
    // An answer that does not fit into the windows would have to wait, so a task sends it.
    if len > engine.room(stream) {
        return false;
    }
    engine.set_chunk(stream, r.core().http2.chunk_size);
    // Put together outside of the output: it is what may be kept for other connections.
    let mut block = session.thread.block.take();
    block.clear();
    let date_at = encode::head(r, &mut block);
    let head_len = block.len();
    if r.sends_body() {
        append_body(&r.resp.body, &mut block);
    }
    let (head, body) = block.split_at(head_len);
    let mut out = session.out.borrow_mut();
    let start = out.len();
    let mut sent = engine.send_head(stream, head, body.is_empty(), &mut out).is_ok();
    r.progress.sent.head_bytes = (out.len() - start) as u64;
    if sent && !body.is_empty() {
        let start = out.len();
        sent = engine.send_body(stream, body, true, &mut out).is_ok();
        r.progress.sent.body_bytes = body.len() as u64;
        r.progress.sent.head_bytes += (out.len() - start - body.len()) as u64;
    }
    drop((engine, out));
    // Before the log phase, as in `h1/hot.rs`.
    keep(r, listen, &block, head_len, date_at);
    session.thread.block.replace(block);
    r.reply.completed = sent;
    finish(r);
    true
}

fn append_body(body: &Body, out: &mut Vec<u8>) {
    let append = |piece: &Piece, out: &mut Vec<u8>| {
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
fn send_prepared(session: &Session, live: &Rc<Live>, r: &mut Request, listen: ListenId, stream: u32) -> bool {
    if !prepared::is_usual(r) {
        return false;
    }
    let thread = &session.thread;
    let Some(answer) = live.prepared_h2.borrow_mut().find(r, listen) else { return false };
    let (block, body) = answer.bytes.split_at(answer.head_len);
    let mut engine = session.engine.borrow_mut();
    // As in `respond`: what does not fit into the windows goes the full way to a task.
    if body.len() > engine.room(stream) {
        return false;
    }
    engine.set_chunk(stream, live.snap.location(answer.location).core.http2.chunk_size);
    let mut out = session.out.borrow_mut();
    let start = out.len();
    let _ = engine.send_head(stream, block, body.is_empty(), &mut out);
    // Heads are coded without the dynamic table, so the same bytes are right on each connection and the date stands
    // uncompressed.
    let date_at = start + frame::HEAD_BYTES + answer.date_at;
    out[date_at..date_at + 29].copy_from_slice(&thread.date());
    if !body.is_empty() {
        let _ = engine.send_body(stream, body, true, &mut out);
    }
    let written = out.len() - start;
    drop((engine, out));
    answer.conclude(thread, live, r, (written - body.len()) as u64);
    true
}

/// Keeps an answer for the next request of the same target, if it depends on nothing else.
fn keep(r: &Request, listen: ListenId, bytes: &[u8], head_len: usize, date_at: Option<usize>) {
    let Some(date_at) = date_at else { return };
    // A larger head is split into CONTINUATION frames, and the place of the date would depend on where.
    let is_kept = r.resp.content_length.is_some() && head_len <= frame::PAYLOAD_BYTES_DEFAULT as usize;
    if let Some(answer) = is_kept.then(|| Answer::of(r, bytes, head_len, date_at)).flatten() {
        r.live.root().prepared_h2.borrow_mut().keep(r, listen, answer);
    }
}
