//! HTTP/3 on a connection of the thread's QUIC.

use super::hot::{self, Bounds};
use super::life;
use super::session::Session;
use super::transport::{self, Read, Written};
use crate::connection::Connection;
use crate::quic::{App, turn};
use crate::table::{Slot, State, Thread};
use brisk_net::{Loop, clock};
use brisk_quic::{Dir, Event, Key};
use std::rc::Rc;

/// One connection of the thread's endpoint.
/// By key and not by reference: the endpoint owns its connections, and one may be gone when it is asked.
struct Carrier {
    thread: Rc<Thread>,
    key: Key,
}

impl Carrier {
    fn with<R>(&self, work: impl FnOnce(&mut brisk_quic::Connection) -> R) -> Option<R> {
        self.thread.quic.with(self.key, work)
    }
}

impl transport::Quic for Carrier {
    fn read(&self, stream: u64, max: usize, into: &mut Vec<u8>) -> Read {
        match self.with(|quic| quic.read(stream, max, into)) {
            // Gone, for whatever reason, is the same to the session: nothing comes any more.
            Some(brisk_quic::Read::Some(_)) => Read::Some,
            Some(brisk_quic::Read::Blocked) => Read::Blocked,
            Some(brisk_quic::Read::End(_)) => Read::End,
            Some(brisk_quic::Read::Reset(code)) => Read::Reset(code),
            Some(brisk_quic::Read::Gone) | None => Read::Gone,
        }
    }

    fn take_reset(&self, stream: u64) -> Option<u64> {
        self.with(|quic| quic.take_reset(stream)).flatten()
    }

    fn write(&self, stream: u64, bytes: &[u8]) -> Written {
        match self.with(|quic| quic.write(stream, bytes)) {
            Some(brisk_quic::Written::Some(count)) => Written::Some(count),
            Some(brisk_quic::Written::Blocked) => Written::Blocked,
            // STOP_SENDING, too: whatever is written then goes nowhere.
            Some(brisk_quic::Written::Stopped(_) | brisk_quic::Written::Gone) | None => Written::Gone,
        }
    }

    fn finish(&self, stream: u64) {
        self.with(|quic| quic.finish(stream));
    }

    fn reset(&self, stream: u64, code: u64) {
        self.with(|quic| quic.reset(stream, code));
    }

    fn stop(&self, stream: u64, code: u64) {
        self.with(|quic| quic.stop(stream, code));
    }

    fn set_priority(&self, stream: u64, priority: i32) {
        self.with(|quic| quic.set_priority(stream, priority));
    }

    fn open_uni(&self) -> Option<u64> {
        self.with(|quic| quic.open(Dir::Uni)).flatten()
    }

    fn ping(&self) {
        self.with(brisk_quic::Connection::ping);
    }

    fn close(&self, code: u64, why: &str) {
        // The endpoint sends CONNECTION_CLOSE at the end of this turn.
        turn::close(&self.thread, self.key, code, why);
    }

    fn sending_streams(&self) -> usize {
        self.with(brisk_quic::Connection::sending_streams).unwrap_or(0)
    }

    fn memory(&self) -> usize {
        self.with(|quic| quic.held_bytes() as usize).unwrap_or(0)
    }
}

/// What QUIC tells of a connection of HTTP/3.
struct Http3 {
    carrier: Carrier,
    conn: Rc<Connection>,
    session: Rc<Session>,
}

/// Makes a connection that has agreed on `h3` one of HTTP/3; `None`: nothing listens there any more.
/// QUIC has done its handshake, so the deadline is for the first request.
pub(crate) fn begin(thread: &Rc<Thread>, key: Key, conn: &Rc<Connection>) -> Option<Rc<dyn App>> {
    let live = thread.live();
    let core = live.default_core(&conn.listener)?;
    let bounds = Bounds {
        streams_max: core.http3.max_concurrent_streams as usize,
        stream_buffer_bytes: core.http3.stream_buffer_size,
    };
    let deadline_ms = clock::mono_ms() + core.client_header_timeout.as_millis() as u64;
    // A place in the table like any other connection's, so that reloads, drains and the memory limit find it.
    let slot = Slot { conn: conn.clone(), state: State::Idle, deadline_ms, timer_ms: deadline_ms, turn: 0 };
    let place = thread.insert(slot);
    Loop::current().hot_timer(deadline_ms, place);
    let carrier = Rc::new(Carrier { thread: thread.clone(), key });
    let session = hot::begin(thread, &live, place as u32, conn, carrier, bounds)?;
    let carrier = Carrier { thread: thread.clone(), key };
    Some(Rc::new(Http3 { carrier, conn: conn.clone(), session }))
}

impl App for Http3 {
    fn connection(&self) -> &Rc<Connection> {
        &self.conn
    }

    fn event(self: Rc<Self>, event: Event) {
        let (session, conn) = (&*self.session, &self.conn);
        match event {
            Event::Opened(dir) => {
                // All that have begun: the event is told once for any number of them.
                while let Some(stream) = self.carrier.with(|quic| quic.accept(dir)).flatten() {
                    hot::opened(session, conn, stream);
                }
            }
            Event::Readable(stream) => hot::readable(session, conn, stream),
            Event::Writable(stream) => hot::writable(session, stream),
            Event::Stopped(stream, code) => hot::stopped(session, conn, stream, code),
            Event::Closed(_) => life::closed(session),
            // It may have been the last thing that the connection waits for.
            // The session is idle only when its last bytes were acknowledged.
            Event::Finished(_) => session.touch(),
            // Of the connection itself; the endpoint has acted on them.
            Event::Undecided | Event::Ready | Event::Established | Event::Moved => {}
        }
    }
}
