//! How the driver and tasks hand connections to each other.

use crate::connection::{Connection, Stage};
use crate::table::Thread;
use brisk_host::live::log_error;
use brisk_host::log::LogLevel;
use brisk_net::{Loop, clock};
use std::rc::Rc;
use std::time::Duration;

/// A connection whose bytes are being worked through.
pub(crate) struct Arrived {
    pub index: u32,
    pub conn: Rc<Connection>,
    /// There may be more in the socket.
    pub full: bool,
    /// The bytes came behind a request that was answered in the meantime.
    pub is_backlog: bool,
}

/// Reports a panic; the connection is closed by the caller.
pub fn panicked(thread: &Thread, connection: u64) {
    let text = format_args!("*{connection} a handler panicked; its connection is closed");
    log_error(&thread.live(), LogLevel::Alert, text);
}

/// A task gives a connection back, which waits for its next request for `keepalive` (zero: as its socket says). False if it is
/// to be closed instead.
pub fn resume(thread: &Rc<Thread>, index: u32, conn: &Rc<Connection>, keepalive: Duration) -> bool {
    let live = thread.live();
    let Some(core) = live.default_core(&conn.listener) else {
        thread.release(index);
        // A reload has closed the socket that it came by: true, since there is nothing left for the caller to close.
        return true;
    };
    let is_idle = conn.input.borrow().is_empty();
    // Not before the first request: as in nginx a connection that has brought none yet is still served.
    if is_idle && thread.is_draining() && conn.requests.get() > 0 && !conn.has_unread() {
        return false;
    }
    if is_idle && live.snap.measures_lag {
        // What comes from here on was not there when the loop woke up.
        conn.caught_up_us.set(clock::precise_us());
    }
    let is_head = matches!(*conn.stage.borrow(), Stage::Head(_));
    let deadline_ms = if is_head || conn.requests.get() > 0 {
        let keepalive = match () {
            () if is_head => core.client_header_timeout,
            () if keepalive.is_zero() => core.keepalive_timeout,
            () => keepalive,
        };
        clock::mono_ms() + keepalive.as_millis() as u64
    } else {
        // A connection that has brought no request yet has what is left of the time since its accept. Otherwise each
        // of its stages (PROXY header, handshake, head) would begin it anew.
        conn.started_ms + core.client_header_timeout.as_millis() as u64
    };
    if is_idle {
        // Who waits holds no buffer.
        conn.input.take();
        thread.rest(index, conn, deadline_ms);
    } else {
        thread.set_idle(index, deadline_ms);
        // The rest of a head is only waited for: the parser has seen all of the input.
        if !is_head {
            go_on(thread, index);
        }
    }
    true
}

/// Has the connection's input worked through in the next turn: others have theirs first.
pub fn go_on(thread: &Thread, index: u32) {
    // The key names this connection, not the slot: if the connection is gone by then, nothing happens.
    Loop::current().push_hot(thread.key_of(index));
}
