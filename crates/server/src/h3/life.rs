//! How a connection ends: idle for too long, asked to leave, broken, or cut off.
//!
//! What a request is doing when its connection ends is not known here: exchanges are ended, and their tasks notice.

use super::session::{Session, Stage, Unacknowledged};
use super::transport;
use crate::connection::Connection;
use crate::limits::{H2_LEAVE_MS, H3_LAST_WORD_MS, H3_SEND_TIMEOUT_MS, IDLE_TABLES_BYTES_MAX, QUIC_PING_MS};
use crate::stream::{Session as _, answer, idle_until};
use brisk_h3::{ConnectionError, ErrorCode};
use brisk_host::log::LogLevel;
use brisk_http::Version;
use brisk_net::clock;
use std::rc::Rc;

/// Closes the connection: the client is told the code.
pub fn close(session: &Session, code: ErrorCode, why: &str) {
    if session.is_dead() {
        return;
    }
    // QUIC tells the client, and drops what was not acknowledged.
    session.quic.close(code.0, why);
    closed(session);
}

/// The connection is over, whatever has ended it.
pub fn closed(session: &Session) {
    if session.is_dead() {
        return;
    }
    session.kill();
    session.thread.release(session.index);
}

/// Everything was said for now: is there anything left to be done?
pub fn settle(session: &Session, conn: &Rc<Connection>) {
    if session.is_dead() {
        return;
    }
    // Finished streams would keep it from being idle.
    session.forget_finished();
    if !session.is_idle() {
        return look_in_time(session, conn);
    }
    session.unacknowledged.set(None);
    if session.stage.get() == Stage::Leaving && session.engine.borrow().is_going_away() {
        return close(session, ErrorCode::NO_ERROR, "");
    }
    {
        // A connection that does nothing keeps no tables beyond a bound: idle ones are many.
        let mut engine = session.engine.borrow_mut();
        if engine.memory() > IDLE_TABLES_BYTES_MAX {
            engine.trim();
        }
    }
    let live = session.thread.live();
    // Its socket is no longer listened on.
    let Some(core) = live.default_core(&conn.listener) else {
        return leave(session);
    };
    if session.stage.get() == Stage::Open {
        session.active_ms.set(clock::mono_ms());
        session.thread.extend(session.index, idle_until(session.active_ms.get(), conn, core));
    }
}

/// A busy connection's timer comes when what is held up has had its time, or the client is to be asked for a sign of life.
fn look_in_time(session: &Session, conn: &Connection) {
    // The timer of a connection that has been asked to leave is for the last word.
    if session.stage.get() == Stage::Leaving && !session.engine.borrow().is_going_away() {
        return;
    }
    let live = session.thread.live();
    let Some(core) = live.default_core(&conn.listener) else { return };
    let due_ms = session.stuck_since_ms().map(|since_ms| since_ms + core.send_timeout.as_millis() as u64);
    let ping_ms = clock::mono_ms() + QUIC_PING_MS;
    let due_ms = [due_ms, session.head_deadline_ms()].into_iter().flatten().fold(ping_ms, u64::min);
    session.thread.extend(session.index, due_ms);
}

/// Whether all answers are with QUIC, and the client has acknowledged nothing of them for `send_timeout`: such a client would hold the
/// connection and its answers for as long as it gives signs of life.
pub fn is_never_acknowledged(
    session: &Session,
    conn: &Connection,
    now_ms: u64,
    send_timeout_ms: u64,
) -> bool {
    if session.is_idle() || !session.is_done() {
        session.unacknowledged.set(None);
        return false;
    }
    let now = Unacknowledged { since_ms: now_ms, held: session.quic.memory(), requests: conn.requests.get() };
    match session.unacknowledged.get() {
        // Another answer adds to what is held.
        Some(before) if now.held >= before.held && now.requests == before.requests => {
            now_ms.saturating_sub(before.since_ms) >= send_timeout_ms
        }
        _ => {
            session.unacknowledged.set(Some(now));
            false
        }
    }
}

/// The slot's timer has come. Gives the next time to look, or nothing if the connection is closed.
pub fn expired(session: &Session, conn: &Rc<Connection>) -> Option<u64> {
    let now = clock::mono_ms();
    if session.is_dead() {
        return None;
    }
    // A client has had the time of several round trips to hear that it is to begin no more.
    // GOAWAY with a number that is too high was sent by `leave`; this one has the true number.
    if session.stage.get() == Stage::Leaving {
        if !session.engine.borrow().is_going_away() {
            session.engine.borrow_mut().go_away();
            session.send_own();
            // Not closed in the same turn: a close drops what was not acknowledged, and a client whose request meets it must have heard
            // whether that was taken.
            return Some(now + H3_LAST_WORD_MS);
        }
        if session.is_idle() {
            close(session, ErrorCode::NO_ERROR, "");
            return None;
        }
    }
    give_up_late_heads(session, conn, now);
    if session.stage.get() == Stage::Leaving && !session.engine.borrow().is_going_away() {
        // It was asked to leave just now.
        return Some(now + H2_LEAVE_MS);
    }
    let live = session.thread.live();
    let Some(core) = live.default_core(&conn.listener) else {
        // Its socket is no longer listened on. What has begun is finished.
        give_up_stuck(session, conn, now, H3_SEND_TIMEOUT_MS);
        if !session.is_idle() && !is_never_acknowledged(session, conn, now, H3_SEND_TIMEOUT_MS) {
            session.quic.ping();
            // A look per second is enough: nobody waits for it.
            return Some(now + 1000);
        }
        close(session, ErrorCode::NO_ERROR, "");
        return None;
    };
    let send_timeout_ms = core.send_timeout.as_millis() as u64;
    give_up_stuck(session, conn, now, send_timeout_ms);
    if is_never_acknowledged(session, conn, now, send_timeout_ms) {
        let text = format_args!("client timed out (110: Connection timed out) while sending to client");
        crate::log::connection(&live, conn, LogLevel::Info, text);
        close(session, ErrorCode::NO_ERROR, "");
        return None;
    }
    let until = idle_until(session.active_ms.get(), conn, core);
    // While it is busy the timer only looks from time to time: `settle` sets the deadline when all is done.
    if !session.is_idle() || now < until {
        let pause_ms =
            (core.keepalive_timeout.as_millis() as u64).min(send_timeout_ms).clamp(1000, QUIC_PING_MS);
        let next = if session.is_idle() {
            until
        } else {
            session.quic.ping();
            now + pause_ms
        };
        return Some(session.head_deadline_ms().map_or(next, |deadline| next.min(deadline)));
    }
    close(session, ErrorCode::NO_ERROR, "");
    None
}

/// Gives up requests whose heads have not come as a whole in time.
fn give_up_late_heads(session: &Session, conn: &Rc<Connection>, now_ms: u64) {
    for stream in session.late_heads(now_ms) {
        answer::head_timed_out(session, &session.thread.live(), conn, Version::Http3);
        session.reset(stream, ErrorCode::REQUEST_INCOMPLETE);
        session.active_ms.set(now_ms);
    }
}

/// Gives up answers of which the client has taken nothing for so long.
fn give_up_stuck(session: &Session, conn: &Rc<Connection>, now_ms: u64, timeout_ms: u64) {
    for stream in session.stuck(now_ms, timeout_ms) {
        let text =
            format_args!("client timed out (110: Connection timed out) while sending to stream {stream}");
        crate::log::connection(&session.thread.live(), conn, LogLevel::Info, text);
        session.states.borrow_mut().remove(&stream);
        // Of a request whose body was still coming.
        drop(session.engine.borrow_mut().reset(stream));
        transport::give_up(&*session.quic, stream, ErrorCode::REQUEST_CANCELLED.0);
    }
}

/// The client has broken the rules: it is told which.
pub fn fail(session: &Session, conn: &Rc<Connection>, error: &ConnectionError) {
    if session.is_dead() {
        return;
    }
    let text = format_args!("client sent {error} while processing HTTP/3 connection");
    crate::log::connection(&session.thread.live(), conn, LogLevel::Info, text);
    close(session, error.code, &error.text);
}

/// Serves no request but those that have begun (`keepalive_requests`, `keepalive_time`).
pub fn leave_now(session: &Session) {
    if session.stage.get() == Stage::Open {
        // RFC 9114 §5.2: requests with higher stream numbers were not and will not be processed.
        session.stage.set(Stage::Leaving);
        session.engine.borrow_mut().go_away();
        session.touch();
    }
}

/// Asks the client to go elsewhere; what it has sent before it hears of that is still served (RFC 9114 §5.2).
pub fn leave(session: &Session) {
    if session.stage.get() != Stage::Open {
        return;
    }
    session.stage.set(Stage::Leaving);
    // The highest number there is, so that requests on their way are still served. The true one follows.
    session.engine.borrow_mut().announce_end();
    session.thread.extend(session.index, clock::mono_ms() + H2_LEAVE_MS);
    session.send_own();
}
