//! The driver: reads all readable connections, then has what they sent worked through.
//!
//! First everything is read, then the file cache is confirmed once, then answers are written: one look at the kernel's file
//! events covers all requests of a wake-up, because each of them was read before it.
//!
//! All bytes of a connection come by here: what they are is its [`Stage`]. Bytes that are part of something (a PROXY header, a
//! ClientHello, a head) are kept with the connection, which waits for the rest without a task. A task has a connection only
//! while it answers a request, and gives it back with [`resume`](crate::hand_over::resume).

//!
//! It must not know how a request is answered, nor wait for anything: what cannot go on at once becomes a task or is
//! parked.
use crate::connection::{Connection, PartialHead, Stage};
use crate::h1::serve::{self, Begin};
use crate::h1::{self, parked};
use crate::hand_over::{Arrived, panicked};
use crate::limits::{ARENA_BYTES, READ_CHUNK_BYTES};
use crate::live::Live;
use crate::proxy_protocol::{self, Taken};
use crate::table::{Awake, Thread};
use crate::tls::opening::Begun;
use crate::unfinished::{closed, wait, wait_for_head};
use crate::{h2, stream::Session, tls};
use brisk_http::RequestHead;
use brisk_net::Tls;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// What one connection has brought in this turn: `start..end` of the arena. Empty if input of an earlier read is
/// left, which is worked through before more is taken from the socket.
struct Read {
    index: u32,
    conn: Rc<Connection>,
    start: usize,
    end: usize,
}

/// Handles connections that are readable, or have input left from an earlier turn.
pub fn ready(thread: &Rc<Thread>, keys: impl Iterator<Item = u64>) {
    // One buffer for all connections of the thread, so that an idle one holds none. It is taken out of its cell
    // because what is called from here may borrow the thread.
    let mut arena = thread.arena.take();
    // Grown at the first turn and kept: a thread that never serves has none.
    if arena.len() < ARENA_BYTES {
        arena.resize(ARENA_BYTES, 0);
    }
    // By its number entries know whether they were looked at in this turn.
    thread.turn.set(thread.turn.get() + 1);
    let mut reads: Vec<Read> = Vec::new();
    let mut used = 0;
    for key in keys {
        let (index, conn) = match thread.awake(key) {
            Awake::Idle(index, conn) => (index, conn),
            // Nothing is read: while a request waits, the next one stays in the socket, so that pipelining does not
            // fill memory.
            Awake::Parked(index, conn, parked) => {
                parked::wake(thread, index, conn, parked);
                continue;
            }
            Awake::Nobody => continue,
        };
        // The client does not take what was answered: its input waits in the socket until it does.
        if conn.session().is_some_and(Session::is_deaf) {
            continue;
        }
        // Each read has room for a whole chunk, since a read that fills less is taken as proof that the socket is
        // empty.
        if arena.len() - used < READ_CHUNK_BYTES {
            // The arena is full. What was read is answered now, and the room is used again.
            answer(thread, &arena, &mut reads);
            used = 0;
        }
        // Bytes from an earlier turn come first: what is read now stands behind them.
        if conn.has_backlog() {
            reads.push(Read { index, conn, start: used, end: used });
            continue;
        }
        match conn.io.try_read(&mut arena[used..used + READ_CHUNK_BYTES]) {
            // The client has closed its side. With a request under way that may be a half-close; between
            // requests it is the end.
            Ok(0) => closed(thread, index, &conn),
            Ok(count) => {
                reads.push(Read { index, conn, start: used, end: used + count });
                used += count;
            }
            // Nothing, or less than a TLS record. Events are edge-triggered, so the next bytes bring another.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                tls::failed(&thread.live(), &conn, &error);
                h1::gone(thread, &conn);
                thread.release(index);
            }
        }
    }
    // The rest of the turn, read into less than a full arena.
    answer(thread, &arena, &mut reads);
    // Behind everything else of the turn: what parked requests ask back ends and are answered leaves in one burst.
    parked::send_all(thread);
    thread.arena.replace(arena);
}

/// Answers what was read. A panic costs the one connection.
fn answer(thread: &Rc<Thread>, arena: &[u8], reads: &mut Vec<Read>) {
    if reads.is_empty() {
        return;
    }
    // From here on nothing is read, so file events that are drained now cover every change that came before these
    // requests.
    thread.files.must_confirm();
    for read in reads.drain(..) {
        let mut out = thread.out.take();
        out.clear();
        let id = read.conn.id;
        let index = read.index;
        // Asked per connection, since one turn of many uploads may take much.
        if thread.shared.budget.has_grown() {
            thread.look_at_memory();
        }
        // What a panic leaves half-done is the connection's own, and that is released here.
        let work = AssertUnwindSafe(|| connection(thread, read, arena, &mut out));
        // A worker that died of one client's request would take all others with it. The connection is given
        // up, and the log has the message.
        if catch_unwind(work).is_err() {
            panicked(thread, id);
            thread.release(index);
        }
        thread.out.replace(out);
    }
}

fn connection(thread: &Rc<Thread>, read: Read, arena: &[u8], out: &mut Vec<u8>) {
    let Read { index, conn, start, end } = read;
    // A slice of the arena: nothing is copied for a request that is answered at once.
    let data = &arena[start..end];
    // A read that filled its room may have left something behind; without one, nobody knows.
    let full = data.is_empty() || data.len() == READ_CHUNK_BYTES;
    if let Some(session) = conn.session() {
        return session.input(&conn, data, full, out);
    }
    if !thread.is_idle(index, &conn) {
        // It was closed in the meantime, or a task has it.
        return conn.input.borrow_mut().extend_from_slice(data);
    }
    let is_backlog = data.is_empty();
    // Taken, since what is left of it is put back through the same cell.
    let mut kept = conn.input.take();
    // Behind the first byte of a connection is its stage; the bytes alone do not tell.
    let at = Arrived { index, conn, full, is_backlog };
    let input = if kept.is_empty() {
        if is_backlog {
            return;
        }
        data
    } else {
        kept.extend_from_slice(data);
        &kept
    };
    advance(thread, at, input, out);
}

/// Works through what has come, from the stage that the connection is in.
fn advance(thread: &Rc<Thread>, at: Arrived, mut input: &[u8], out: &mut Vec<u8>) {
    let live = thread.live();
    // Copied out: the stage is replaced below, which a borrow would forbid.
    let (header, is_hello) = match *at.conn.stage.borrow() {
        Stage::Request | Stage::Head(_) => (None, false),
        Stage::ProxyHeader { tls } => (Some(tls), tls),
        Stage::Hello => (None, true),
    };
    // A header that is refused closes the connection without an answer: who sends wrong ones is no proxy that
    // is known here.
    if let Some(tls) = header {
        match proxy_protocol::take(&live, &at.conn, input) {
            Taken::Whole(len) => input = &input[len..],
            Taken::Part => return wait(thread, &at, input),
            Taken::Nothing => return thread.release(at.index),
        }
        // The stage goes on before the wait: bytes that come next are not to be taken for a second header.
        at.conn.stage.replace(if tls { Stage::Hello } else { Stage::Request });
        if input.is_empty() {
            // The deadline of a new connection goes on: it is for the header and the first request together.
            return wait(thread, &at, input);
        }
    }
    if is_hello { hello(thread, &live, at, input, out) } else { http(thread, &live, at, input, out) }
}

/// A ClientHello, or what stands in its place.
fn hello(thread: &Rc<Thread>, live: &Rc<Live>, at: Arrived, input: &[u8], out: &mut Vec<u8>) {
    // TLS reads its ClientHello from here, and the rest of it may still be in the socket.
    at.conn.input.borrow_mut().extend_from_slice(input);
    match tls::begin(thread, live, &at.conn) {
        Begun::Partial => return wait(thread, &at, b""),
        // Plain HTTP on a port of TLS. It is answered with 400, so that a browser shows why.
        Begun::Plain => {
            let input = at.conn.input.take();
            return http(thread, live, at, &input, out);
        }
        // A certificate whose name has variables is read from the disk first.
        Begun::Load(load) => {
            return serve::spawn(thread, at.index, at.conn, Vec::new(), Begin::Load(load));
        }
        Begun::Refused => return thread.release(at.index),
        Begun::Session => {}
    }
    // A session does its handshake inside of reads. One is tried at once: the ClientHello has been taken out of the
    // socket already, so no event will tell of it.
    let mut early = [0; 2048];
    match at.conn.io.try_read(&mut early) {
        Ok(0) => closed(thread, at.index, &at.conn),
        // `full`: the session may hold more than these 2 KiB, whatever this read has filled.
        Ok(count) => http(thread, live, Arrived { full: true, ..at }, &early[..count], out),
        // What the handshake has to send must leave before anything comes.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            if at.conn.io.tls().is_some_and(Tls::has_control) {
                serve::spawn(thread, at.index, at.conn, Vec::new(), Begin::Flush);
                // Nothing to send, and nothing to read: the next event goes on.
            }
        }
        Err(error) => {
            tls::failed(live, &at.conn, &error);
            thread.release(at.index);
        }
    }
}

/// Requests, of the version that the first bytes tell.
// Every turn of a connection comes by here: the call alone would cost 29 instructions.
#[inline(always)]
fn http(thread: &Rc<Thread>, live: &Rc<Live>, at: Arrived, input: &[u8], out: &mut Vec<u8>) {
    let conn = &at.conn;
    // Before the first request only; later ones have been judged with it.
    if conn.requests.get() == 0 {
        // Before any request: the verdict about the client's certificate decides what its first request may get.
        if tls::must_ask(conn) {
            conn.input.borrow_mut().extend_from_slice(input);
            return serve::spawn(thread, at.index, at.conn, Vec::new(), Begin::Ask);
        }
        // The preface begins with `P` (RFC 9113 §3.4), so most first requests are spared the comparison. With TLS it
        // is not the bytes that tell but ALPN.
        if input.first() == Some(&b'P') || conn.io.tls().is_some() {
            match h2::is_preface(live, conn, input) {
                Some(true) => {
                    // A preface that came in parts was kept as the beginning of a head. Its count among those being
                    // read ends here.
                    conn.take_partial_head();
                    return match h2::begin(thread, live, at.index, conn) {
                        Some(session) => session.input(conn, input, at.full, out),
                        None => thread.release(at.index),
                    };
                }
                Some(false) => {}
                // Too few bytes to tell a preface from a request. They have a head's deadline, so the client cannot
                // hold the connection.
                None => {
                    let begin = || PartialHead::begin(thread, at.index, conn, RequestHead::default());
                    let partial = conn.take_partial_head().unwrap_or_else(begin);
                    return wait_for_head(thread, &at, input, partial);
                }
            }
        }
    }
    h1::requests(thread, live, at, input, out);
}

/// What was waited for has not come in time.
/// The deadline belongs to what the bytes were to be; each of the three answers only where it is its own.
pub fn expired(thread: &Rc<Thread>, index: u32, conn: &Rc<Connection>) {
    let live = thread.live();
    proxy_protocol::timed_out(&live, conn);
    tls::timed_out(&live, conn);
    h1::timed_out(thread, conn);
    thread.release(index);
}
