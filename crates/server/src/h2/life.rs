//! How a connection ends: idle for too long, asked to leave, broken, or cut off.
//!
//! What a request is doing when its connection ends is not known here: exchanges are ended, and their tasks notice.

use super::hot;
use super::session::{Session, Stage};
use crate::connection::Connection;
use crate::h1::serve;
use crate::limits::{H2_LEAVE_MS, IDLE_TABLES_BYTES_MAX};
use crate::stream::{Session as _, answer, idle_until};
use brisk_h2::{ConnectionError, ErrorCode};
use brisk_host::log::LogLevel;
use brisk_http::Version;
use brisk_net::clock;
use std::rc::Rc;

/// What a graceful end asks back: once it comes, all that the client had sent before it knew has come too.
const LAST_PING: [u8; 8] = *b"leaving.";

/// In what way a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The socket has failed, or nobody is to be spared.
    Broken,
    /// The client may be sending still: it gets time to hear what was said.
    /// With data of the client in the socket, close(2) would send a reset and lose GOAWAY.
    Patient,
}

/// Closes.
pub fn close(session: &Session, conn: &Rc<Connection>, how: How) {
    if session.is_dead() {
        return;
    }
    // First: what is released below must not send any more.
    session.kill();
    let (thread, index) = (session.thread.clone(), session.index);
    match how {
        How::Broken => {
            // Nothing that is in the socket's buffer matters any more.
            conn.io.abort();
            thread.release(index);
        }
        How::Patient => {
            // Data in the socket would have close(2) send a reset, which may overtake GOAWAY.
            conn.sends.set(true);
            serve::close_patiently(&thread, index, conn.clone());
        }
    }
}

/// Everything was said for now: is there anything left to be done?
pub fn settle(session: &Session, conn: &Rc<Connection>) {
    if session.is_dead() {
        return;
    }
    // All has left, GOAWAY included.
    if session.stage.get() == Stage::Failed {
        return close(session, conn, How::Patient);
    }
    if !session.is_idle() {
        return;
    }
    // Read to its end: requests may lie before the close.
    if conn.io.is_closed() && !conn.io.has_unread() {
        return hot::closed(session, conn);
    }
    // The last request is done, and the client knows that there is no other.
    if session.stage.get() == Stage::Leaving && session.engine.borrow().is_going_away() {
        return close(session, conn, How::Patient);
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
        return leave(session, conn);
    };
    if session.stage.get() == Stage::Open {
        session.active_ms.set(clock::mono_ms());
        let deadline = match session.head_deadline_ms.get() {
            0 => idle_until(session.active_ms.get(), conn, core),
            deadline => deadline,
        };
        session.thread.extend(session.index, deadline);
    }
}

/// The slot's timer has come. Gives the next time to look, or nothing if the connection is closed.
/// One timer per connection: it stands for a head that is late, for leaving and for being idle.
pub fn expired(session: &Session, conn: &Rc<Connection>) -> Option<u64> {
    let now = clock::mono_ms();
    if session.is_dead() {
        return None;
    }
    let head_deadline = session.head_deadline_ms.get();
    if head_deadline != 0 && now >= head_deadline {
        return late(session, conn, now);
    }
    // The client has not answered the PING in time: streams that it begins from here on are not heard.
    if session.stage.get() == Stage::Leaving && !session.engine.borrow().is_going_away() {
        go_away(session, ErrorCode::NO_ERROR);
        session.flush(conn);
        return (!session.is_dead()).then_some(now + 1000);
    }
    // The socket was taken away by a reload, and no configuration says how long to wait.
    let live = session.thread.live();
    let Some(core) = live.default_core(&conn.listener) else {
        close(session, conn, How::Broken);
        return None;
    };
    let until = idle_until(session.active_ms.get(), conn, core);
    // While it is busy the timer only looks from time to time: `settle` sets the deadline when all is done.
    if !session.is_idle() || now < until {
        // At least a second: `keepalive_timeout 0` must not make the timer spin.
        let pause_ms = (core.keepalive_timeout.as_millis() as u64).max(1000);
        let next = if session.is_idle() { until } else { now + pause_ms };
        return Some(if head_deadline == 0 { next } else { next.min(head_deadline) });
    }
    go_away(session, ErrorCode::NO_ERROR);
    // `Failed` and not `Dead`: GOAWAY has to leave first.
    session.stage.set(Stage::Failed);
    session.flush(conn);
    None
}

/// A head, or another frame, has not come as a whole in time. A request whose head it is ends alone, as in nginx: others may be in work, though
/// nothing more of them can come before the rest of the head. Gives the next time to look, or nothing if the connection is closed.
fn late(session: &Session, conn: &Rc<Connection>, now_ms: u64) -> Option<u64> {
    let live = session.thread.live();
    let Some(core) = live.default_core(&conn.listener) else {
        close(session, conn, How::Broken);
        return None;
    };
    // At least a second: `client_header_timeout 0` must not make the timer spin.
    let deadline_ms = now_ms + (core.client_header_timeout.as_millis() as u64).max(1000);
    session.head_deadline_ms.set(deadline_ms);
    if session.has_no_room() {
        // It may have come, and was not read, since the client does not take its answers: `send_timeout` counts.
        return Some(deadline_ms);
    }
    let given_up = {
        let (mut engine, input) = (session.engine.borrow_mut(), conn.input.borrow());
        engine.give_up_head(&input, &mut session.out.borrow_mut())
    };
    if given_up.is_some() {
        session.head_stream.set(0);
        answer::head_timed_out(session, &live, conn, Version::Http2);
        // The rest of it may come as long as an idle connection is kept.
        session.head_deadline_ms.set(deadline_ms.max(idle_until(now_ms, conn, core)));
    } else if session.is_idle() {
        let text = format_args!("client timed out (110: Connection timed out)");
        crate::log::connection(&live, conn, LogLevel::Info, text);
        // Without a text there is no second line in the log.
        fail(session, conn, &ConnectionError { code: ErrorCode::PROTOCOL_ERROR, text: "".into() });
        return None;
    }
    session.flush(conn);
    // One that is asked to leave has less time.
    let is_asked = session.stage.get() == Stage::Leaving && !session.engine.borrow().is_going_away();
    let deadline_ms = session.head_deadline_ms.get();
    let next_ms = if is_asked { deadline_ms.min(now_ms + H2_LEAVE_MS) } else { deadline_ms };
    (!session.is_dead()).then_some(next_ms)
}

fn go_away(session: &Session, code: ErrorCode) {
    session.engine.borrow_mut().go_away(code, &mut session.out.borrow_mut());
}

/// The client has broken the rules: says so, and closes when that has left.
pub fn fail(session: &Session, conn: &Rc<Connection>, error: &ConnectionError) {
    if matches!(session.stage.get(), Stage::Failed | Stage::Dead) {
        return;
    }
    if !error.text.is_empty() {
        let verb = if error.text.starts_with("violated") { "" } else { "sent " };
        crate::log::connection(
            &session.thread.live(),
            conn,
            LogLevel::Info,
            format_args!("client {verb}{error} while processing HTTP/2 connection"),
        );
    }
    // GOAWAY with the last stream that was heard: what is above it may be sent again elsewhere (RFC 9113 §6.8).
    session.engine.borrow_mut().fail(error, &mut session.out.borrow_mut());
    session.stage.set(Stage::Failed);
    // No head is waited for any more.
    session.head_deadline_ms.set(0);
    session.flush(conn);
}

/// The connection holds more than there is memory for: the client is told if its socket takes it now, and is closed in any case.
pub fn give_up(session: &Session, conn: &Rc<Connection>) {
    let text = "more than there is memory for".into();
    session
        .engine
        .borrow_mut()
        .fail(&ConnectionError { code: ErrorCode::ENHANCE_YOUR_CALM, text }, &mut session.out.borrow_mut());
    session.stage.set(Stage::Failed);
    // One attempt: waiting for the client would hold the memory that is wanted back.
    session.flush(conn);
    close(session, conn, How::Broken);
}

/// `send_timeout` is over.
pub fn send_timed_out(session: &Session, conn: &Rc<Connection>) {
    let live = session.thread.live();
    crate::log::connection(
        &live,
        conn,
        LogLevel::Info,
        format_args!("client timed out (110: Connection timed out) while sending to client"),
    );
    // Frees what the kernel still holds for a client that takes nothing.
    if live.default_core(&conn.listener).is_some_and(|core| core.reset_timedout_connection) {
        conn.io.reset_when_dropped();
    }
    close(session, conn, How::Broken);
}

/// Serves no stream but those that have begun (`keepalive_requests`, `keepalive_time`).
/// Without the round trip that `leave` makes: the client has had as many requests as it may.
pub fn leave_now(session: &Session) {
    if session.stage.get() == Stage::Open {
        session.stage.set(Stage::Leaving);
        go_away(session, ErrorCode::NO_ERROR);
        session.touch();
    }
}

/// Asks the client to go elsewhere; what it has sent before it hears of that is still served.
pub fn leave(session: &Session, conn: &Rc<Connection>) {
    if session.stage.get() != Stage::Open {
        return;
    }
    session.stage.set(Stage::Leaving);
    {
        // Without any stream, too: a first one may be on its way, and clients need not ask again for those above the last number
        // that a GOAWAY names. RFC 9113 §6.8 has the number 2^31-1 announced, and the true one sent a round trip later.
        let (mut engine, mut out) = (session.engine.borrow_mut(), session.out.borrow_mut());
        engine.announce_end(&mut out);
        // Its answer comes behind all that the client had sent before it read the announcement.
        engine.ping(LAST_PING, &mut out);
    }
    // A client that does not answer pings is not waited for longer.
    session.thread.extend(session.index, clock::mono_ms() + H2_LEAVE_MS);
    // While input is worked through it leaves at the end of that: a socket that is broken would end the session under a request.
    if !session.busy.get() {
        session.flush(conn);
    }
}

/// A PING of ours came back.
pub fn pong(session: &Session, payload: [u8; 8]) {
    // A PING's answer comes behind everything that was sent before it, so nothing is lost now (RFC 9113
    // §6.7).
    if payload == LAST_PING && session.stage.get() == Stage::Leaving {
        go_away(session, ErrorCode::NO_ERROR);
    }
}
