//! Which server answers a handshake: as over TCP, when the ClientHello has come.

use super::state::{Counted, Opening};
use crate::connection::{Connection, Peer};
use crate::table::Thread;
use crate::tls::opening::{self, QuicAnswer};
use brisk_net::{Stream, clock};
use brisk_quic::{Choice, Choose, Origin};
use brisk_tls::{Hello, NoHello};
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// Leads from the endpoint's connection to the [`Opening`]; with the one the other goes.
/// The library keeps it with its connection, and drops it with that: an opening cannot be forgotten.
pub(crate) struct Ticket(pub u64);

impl Drop for Ticket {
    fn drop(&mut self) {
        let opening = Thread::current().and_then(|thread| thread.quic.openings.borrow_mut().remove(&self.0));
        // Outside of the borrow: it holds a connection.
        drop(opening);
    }
}

/// Asks the configuration of the thread that it is called on.
pub(crate) struct Chooser;

/// RFC 8446 §6.2: the server cannot go on, for reasons of its own.
const INTERNAL: NoHello = NoHello { alert: 80, reason: "no server for this socket" };

impl Choose for Chooser {
    fn choose(&self, origin: &Origin, hello: Hello) -> Choice {
        match Thread::current() {
            Some(thread) => choose(&thread, origin, hello),
            None => Choice::Refuse(INTERNAL),
        }
    }
}

fn choose(thread: &Rc<Thread>, origin: &Origin, hello: Hello) -> Choice {
    // A reload may have closed the socket while the ClientHello was on its way.
    let Some(socket) = thread.quic.socket(origin.socket) else { return Choice::Refuse(INTERNAL) };
    let live = thread.live();
    let limit = live.snap.main.connections as usize;
    // nginx counts connections of both kinds against `worker_connections`.
    if thread.connections() >= limit {
        let text = format_args!("{limit} worker_connections are not enough");
        brisk_host::live::log_error(&live.base, brisk_host::log::LogLevel::Alert, text);
        return Choice::Refuse(INTERNAL);
    }
    let id = thread.shared.connection_ids.fetch_add(1, Ordering::Relaxed);
    let stream = Stream::of_datagrams(&socket.io);
    let conn = Rc::new(Connection::new(
        stream,
        id,
        Peer::Ip(origin.remote),
        socket.listener.clone(),
        clock::mono_ms(),
    ));
    // The socket may be a wildcard's.
    origin.local.into_iter().for_each(|local| conn.stand_for(local));
    conn.generation.set(live.generation);
    crate::log::accepted(&live, &conn);
    // Paths of certificates and names of servers may have variables, which need a request to be computed for.
    // It is given back to the pool, with nothing of this handshake in it.
    let mut r = thread.take_request();
    let answer = opening::answer_quic(&live, &conn, hello, &mut r);
    thread.put_request(r);
    // From now on, so that a worker that drains waits for it.
    let counted = Counted::new(thread);
    let mut openings = thread.quic.openings.borrow_mut();
    // The opening is found again by its number when the endpoint says that the connection is ready.
    match answer {
        QuicAnswer::Begin(context) => {
            openings.insert(id, Opening { conn, load: None, counted });
            Choice::Begin(context, Box::new(Ticket(id)))
        }
        QuicAnswer::Load(load) => {
            openings.insert(id, Opening { conn, load: Some(load), counted });
            Choice::Wait(Box::new(Ticket(id)))
        }
        QuicAnswer::Refuse(wrong) => Choice::Refuse(wrong),
    }
}
