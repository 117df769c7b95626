//! Connections of which a part of something has come: they wait for the rest, which may be their end.

use crate::connection::{Connection, PartialHead, Stage};
use crate::h1::serve;
use crate::hand_over::Arrived;
use crate::proxy_protocol;
use crate::table::Thread;
use crate::tls::opening;
use brisk_http::RequestHead;
use brisk_net::clock;
use std::rc::Rc;

/// Keeps what has come, and waits for more of it.
pub(crate) fn wait(thread: &Rc<Thread>, at: &Arrived, input: &[u8]) {
    at.conn.input.borrow_mut().extend_from_slice(input);
    if at.full {
        // No event tells again of what was left in the socket.
        thread.tell_again(at.index, &at.conn);
    } else if at.conn.io.is_closed() {
        // The end was reported together with the last data.
        closed(thread, at.index, &at.conn);
    }
}

/// Waits for the rest of a request's head, for `client_header_timeout` from its beginning on.
pub(crate) fn wait_for_head(thread: &Rc<Thread>, at: &Arrived, input: &[u8], partial: Box<PartialHead>) {
    at.conn.stage.replace(Stage::Head(partial));
    wait(thread, at, input);
}

impl PartialHead {
    /// The beginning of a head has come just now.
    pub fn begin(thread: &Rc<Thread>, index: u32, conn: &Connection, head: RequestHead) -> Box<PartialHead> {
        let timeout = thread.live().header_timeout(&conn.listener);
        thread.extend(index, clock::mono_ms() + timeout.as_millis() as u64);
        Box::new(PartialHead::new(&thread.seat, head))
    }
}

/// The client has closed its side.
pub(crate) fn closed(thread: &Rc<Thread>, index: u32, conn: &Rc<Connection>) {
    if let Some(session) = conn.session() {
        return session.closed(conn);
    }
    let live = thread.live();
    proxy_protocol::closed(&live, conn);
    opening::closed(&live, conn);
    serve::gone(thread, conn);
    thread.release(index);
}
