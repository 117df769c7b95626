//! Working through what a connection has received: requests that can be answered at once are, and their answers leave
//! in one write.
//!
//! Requests take the same way as those of other protocols with streams from [`answer`] on; what is HTTP/2's own ends here.

use super::life::{self, How};
use super::session::{Session, Stage, reset_of};
use crate::connection::Connection;
use crate::core::http_conf::Http2Conf;
use crate::h1::intake;
use crate::limits::{
    H2_CONNECTION_WINDOW_BYTES, H2_FIELDS_MAX, H2_OUT_BYTES_LOW, H2_READ_BYTES, H2_READS_MAX,
};
use crate::live::Live;
use crate::memory;
use crate::stream::Session as _;
use crate::stream::answer::{self, Arrival, Head};
use crate::stream::head::{self, Intake, Taken};
use crate::table::Thread;
use brisk_h2::conn::{Config, Role};
use brisk_h2::hpack::Limits;
use brisk_h2::{Connection as Engine, ConnectionError, ErrorCode, Event, PREFACE, Settings};
use brisk_host::log::LogLevel;
use brisk_http::Version;
use brisk_net::clock;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// Whether a connection's first bytes may be the beginning of HTTP/2; `None`: too few to tell.
/// It is asked with each piece of the first bytes until it is known.
pub fn is_preface(live: &Live, conn: &Connection, input: &[u8]) -> Option<bool> {
    // It gets a 400 in HTTP/1.1, whatever it has sent.
    if conn.plain_on_tls.get() {
        return Some(false);
    }
    if let Some(tls) = conn.io.tls() {
        // ALPN has settled it (RFC 9113 §3.2).
        return Some(tls.session(|session| session.alpn() == Some(b"h2")));
    }
    // RFC 9113 §3.3: without TLS the preface tells by itself (prior knowledge). It cannot come behind a request.
    // Compared as far as it has come: a preface may be cut anywhere by the network.
    let count = input.len().min(PREFACE.len());
    // Behind a request of HTTP/1.1 the same bytes are a request for the method PRI.
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
/// Before a request there is no host, so the default server of the address decides, as nginx has it.
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
        // RFC 8441 §3: clients may ask for WebSockets on a stream only if they were told so.
        enable_connect_protocol: true,
        ..Settings::default()
    };
    // The engine's own defaults are RFC 9113's, §6.5.2.
    let config = Config {
        settings,
        // Twice the window of a stream at least: one body that is not read must not stop all others.
        connection_window: H2_CONNECTION_WINDOW_BYTES.max(core.http2.body_preread_size.saturating_mul(2)),
        // As for HTTP/1.1, `large_client_header_buffers` bounds a field and the head as a whole.
        head_limits: Limits {
            string_bytes_max: size as usize,
            list_bytes_max: count.saturating_mul(size) as usize,
            // Cookie crumbs count, too (RFC 9113 §8.2.3).
            fields_max: H2_FIELDS_MAX,
            long_padding: false,
        },
        chunk_bytes: core.http2.chunk_size,
        ..Config::default()
    };
    let mut out = Vec::new();
    // Seconds are enough: the limits on rates count per second.
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
    // What another turn has left unsent must stay before what is said now.
    let borrowed = session.out.borrow().is_empty();
    if borrowed {
        out.clear();
        std::mem::swap(out, &mut session.out.borrow_mut());
    }
    // A panic may leave the engine between two states, so the connection is closed; the others do not know of it.
    let result = catch_unwind(AssertUnwindSafe(|| {
        // What is touched meanwhile is flushed below, once.
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
    // `conn.io` knows of the end only by its last read.
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
        // Frames that came in parts are rare, and short but for bodies.
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
    // The thread's buffer and not the turn's arena, which holds what other connections have sent.
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
    // Given back on every way out, or each read of the thread would allocate a new one.
    session.thread.scratch.replace(buf);
    // If there is still more the driver is told at once.
    session.thread.tell_again(session.index, conn);
    result
}

/// The client has closed its side: nobody is there to be answered.
pub fn closed(session: &Session, conn: &Rc<Connection>) {
    // It may have been closed by what was just worked through.
    if session.is_dead() {
        return;
    }
    // Of one that has failed there is a line already.
    if session.stage.get() != Stage::Failed && has_unfinished_head(session, &conn.input.borrow()) {
        intake::gone(head::unknown(&session.thread, Version::Http2), conn);
    } else if !session.is_idle() || session.engine.borrow().is_inside_head() {
        let live = session.thread.live();
        let text = format_args!("client prematurely closed connection");
        crate::log::connection(&live, conn, LogLevel::Info, text);
    }
    life::close(session, conn, How::Broken);
}

/// Whether a request has begun of which a part of the head has come; `rest`: the input that was not used.
fn has_unfinished_head(session: &Session, rest: &[u8]) -> bool {
    session.engine.borrow().unfinished_head(rest).is_some()
}

/// Goes on with input that had to wait until the client took what was said.
pub fn resume(session: &Session, conn: &Rc<Connection>) {
    session.thread.files.must_confirm();
    input(session, conn, &[], true, &mut Vec::new());
}

/// A head that has begun must be there as a whole in time.
fn note_partial_head(session: &Session, conn: &Connection) {
    let engine = session.engine.borrow();
    // Also a frame that has begun: otherwise a connection could be held open by one byte. What was not looked at, because the client does not
    // take its answers, may be whole: `send_timeout` counts then.
    let is_begun = engine.is_inside_head() || !engine.has_begun() || !conn.input.borrow().is_empty();
    let owes = is_begun && !session.has_no_room();
    // The preface counts as a head that is owed: a connection that never sends one is closed in time.
    if !owes {
        return session.head_deadline_ms.set(0);
    }
    let stream = engine.unfinished_head(&conn.input.borrow()).unwrap_or_default();
    if session.head_deadline_ms.get() == 0 || session.head_stream.get() != stream {
        // Each has its own time, also where one ends in the read in which the next begins.
        session.head_stream.set(stream);
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
    let mut sink = Intake::new(thread, conn, Version::Http2);
    let mut at = 0;
    loop {
        // `out` is borrowed for the frames that the engine answers by itself (SETTINGS, PING, WINDOW_UPDATE).
        let received =
            session.engine.borrow_mut().receive(&data[at..], &mut sink, &mut session.out.borrow_mut());
        let received = received.inspect_err(|_| log_broken_head(session, conn, &data[at..], &mut sink))?;
        at += received.used;
        match received.event {
            None if received.used == 0 => return Ok(at),
            None => {}
            Some(Event::Head { stream, end, bytes }) => match sink.finish(bytes) {
                Some(Taken::Request(r, fault)) => match listen {
                    Some(listen) => {
                        let odd = sink.has_odd_names();
                        let at = Arrival { live: &live, conn, listen, stream: stream.into() };
                        answer::request(session, at, r, Head { end, odd, fault });
                    }
                    None => {
                        // What the client began before it could know. It may ask again on another connection
                        // (RFC 9113 §8.7).
                        thread.put_request(r);
                        session.engine.borrow_mut().refuse(stream, &mut session.out.borrow_mut())?;
                    }
                },
                Some(Taken::Refused) => refuse(session, &live, conn, stream)?,
                None => {}
            },
            Some(Event::Data { stream, data, end, value }) => {
                answer::body(session, stream.into(), value.flatten(), data, end);
            }
            // RFC 9113 §8.1.1: malformed trailers make the request malformed.
            Some(Event::Trailers { stream, value }) => match sink.trailer_fault() {
                Some(_) if value.is_none() => session.reset(stream, ErrorCode::PROTOCOL_ERROR),
                // Where we have said all there is nothing left to be reset.
                _ => answer::body(session, stream.into(), value.flatten(), b"", true),
            },
            Some(Event::Reset { stream, code, by_peer, value: Some(exchange) }) => {
                reset(&live, conn, stream, code, by_peer);
                // The task goes on until it notices, so it counts against new streams: a client that resets what it
                // has just begun (CVE-2023-44487) gains nothing.
                session.count_orphans(1);
                exchange.end(reset_of(code));
            }
            Some(Event::Reset { value: None, .. }) => {}
            Some(Event::Mismatch { stream }) => answer::mismatch(session, stream.into()),
            Some(Event::Pong(payload)) => life::pong(session, payload),
            Some(Event::Window | Event::Settings | Event::SettingsAck | Event::GoAway { .. }) => {}
            Some(Event::Interim { .. }) => {}
        }
        // Sent in between, so that a long input does not fill memory with answers.
        if session.out.borrow().len() >= H2_OUT_BYTES_LOW {
            session.flush(conn);
            // The client does not take its answers: the rest of its input waits with the connection.
            if session.is_paused() || session.is_dead() {
                // The rest is kept by the caller, and goes on when the client has taken its answers.
                return Ok(if session.is_dead() { data.len() } else { at });
            }
        }
    }
}

/// A head may have broken the connection, by its fields or its frames.
#[cold]
fn log_broken_head(session: &Session, conn: &Rc<Connection>, rest: &[u8], sink: &mut Intake<'_>) {
    let is_head = sink.has_begun() || has_unfinished_head(session, rest);
    if let Some(r) = is_head.then(|| sink.cut_off()).flatten() {
        intake::broken(r, conn);
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

/// The connection's heads occupy as much as they may: the stream is given back, and the client may try again when others are over.
#[cold]
fn refuse(session: &Session, live: &Live, conn: &Connection, stream: u32) -> Result<(), ConnectionError> {
    memory::HEADS_REFUSED.add(1);
    let text = format_args!("client has too large requests waiting: stream {stream} is refused");
    crate::log::connection(live, conn, LogLevel::Info, text);
    // RFC 9113 §8.7: REFUSED_STREAM says that nothing was done, so the client may send the request again.
    session.engine.borrow_mut().refuse(stream, &mut session.out.borrow_mut())
}
