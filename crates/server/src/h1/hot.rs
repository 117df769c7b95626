//! The hot path: reads all readable connections, then answers what can be answered without waiting.
//!
//! First everything is read, then the file cache is confirmed once, then the answers are written: one look at the
//! kernel's file events covers all requests of a wake-up, because each of them was read before it.

use super::head::{self, Written};
use super::{intake, parked, serve};
use crate::conf::ListenId;
use crate::connection::Connection;
use crate::core::{LingeringClose, LogLevel};
use crate::h2;
use crate::limits::{ARENA_BYTES, PIPELINE_MAX, READ_CHUNK_BYTES};
use crate::metrics;
use crate::phases::{self, Run};
use crate::prepared::{self, Answer};
use crate::proxy_protocol::{self, Taken};
use crate::request::{Persistence, Request};
use crate::response::{Body, Piece};
use crate::stream::Session;
use crate::thread::{Awake, Live, Thread};
use crate::tls;
use brisk_http::chunked::{CHUNK_END, LAST_CHUNK, write_chunk_head};
use brisk_http::h1::Delimiting;
use brisk_http::{HeaderId, Parsed, Version, parse_request};
use brisk_net::clock;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// Largest body that is copied behind its head; larger ones are sent by a task.
const INLINE_BODY_BYTES_MAX: u64 = 64 * 1024;

struct Read {
    index: u32,
    conn: Rc<Connection>,
    start: usize,
    end: usize,
}

/// Handles readable connections.
pub fn ready(thread: &Rc<Thread>, keys: impl Iterator<Item = u64>) {
    let mut arena = thread.arena.take();
    if arena.len() < ARENA_BYTES {
        arena.resize(ARENA_BYTES, 0);
    }
    let mut reads: Vec<Read> = Vec::new();
    let mut used = 0;
    for key in keys {
        let (index, conn) = match thread.awake(key) {
            Awake::Idle(index, conn) => (index, conn),
            Awake::Parked(index, conn, parked) => {
                parked::wake(thread, index, conn, parked);
                continue;
            }
            Awake::Nobody => continue,
        };
        if conn.session().is_some_and(Session::is_deaf) {
            continue;
        }
        if arena.len() - used < READ_CHUNK_BYTES {
            answer(thread, &arena, &mut reads);
            used = 0;
        }
        match conn.io.try_read(&mut arena[used..used + READ_CHUNK_BYTES]) {
            Ok(0) => {
                if let Some(session) = conn.session() {
                    session.closed(&conn);
                    continue;
                }
                proxy_protocol::closed(&thread.live(), &conn);
                tls::closed(&thread.live(), &conn);
                thread.release(index);
            }
            Ok(count) => {
                reads.push(Read { index, conn, start: used, end: used + count });
                used += count;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                tls::failed(&thread.live(), &conn, &error);
                thread.release(index);
            }
        }
    }
    answer(thread, &arena, &mut reads);
    parked::send_all(thread);
    thread.arena.replace(arena);
}

/// Answers what was read. A panic costs the one connection.
fn answer(thread: &Rc<Thread>, arena: &[u8], reads: &mut Vec<Read>) {
    if reads.is_empty() {
        return;
    }
    thread.files.must_confirm();
    for read in reads.drain(..) {
        let mut out = thread.out.take();
        out.clear();
        let id = read.conn.id;
        let index = read.index;
        if thread.shared.budget.has_grown() {
            thread.look_at_memory();
        }
        let work = AssertUnwindSafe(|| connection(thread, read, arena, &mut out));
        if catch_unwind(work).is_err() {
            panicked(thread, id);
            thread.release(index);
        }
        thread.out.replace(out);
    }
}

/// Reports a panic; the connection is closed by the caller.
pub fn panicked(thread: &Thread, connection: u64) {
    let text = format_args!("*{connection} a handler panicked; its connection is closed");
    crate::worker::log_error(&thread.live(), LogLevel::Alert, text);
}

/// Where a connection stands after its input was worked through.
pub(super) enum Stand {
    /// All input answered.
    Idle,
    /// Part of a head, or too many requests in a row: go on in a task.
    More,
    /// Close when what was written has left. `clean`: the client asked for it and has sent nothing else.
    Close { clean: bool },
    /// This request must wait, or its body is too large for here.
    Pending(Box<Request>, Run),
    /// From this request on it is HTTP/2, with these settings of the client's.
    Upgrade(Box<Request>, Vec<u8>),
}

fn connection(thread: &Rc<Thread>, read: Read, arena: &[u8], out: &mut Vec<u8>) {
    let Read { index, conn, start, end } = read;
    if let Some(session) = conn.session() {
        return session.input(&conn, &arena[start..end], end - start == READ_CHUNK_BYTES, out);
    }
    let live = thread.live();
    let Some(listen) = conn.listener.id.get() else {
        thread.release(index);
        return;
    };
    let mut input = &arena[start..end];
    if conn.awaits_proxy_header.get() {
        match proxy_header(thread, &live, index, &conn, input) {
            Some(rest) => input = rest,
            None => return,
        }
    }
    if conn.awaits_hello.get() {
        tls::opening(thread, &live, index, &conn, input, end - start == READ_CHUNK_BYTES);
        return;
    }
    if conn.requests.get() == 0 && tls::must_ask(&conn) {
        conn.input.borrow_mut().extend_from_slice(input);
        return serve::spawn(thread, index, conn, Vec::new(), serve::Begin::Read);
    }
    if conn.requests.get() == 0
        && (input.first() == Some(&b'P') || conn.io.tls().is_some())
        && is_http2(thread, &live, index, &conn, input, end - start == READ_CHUNK_BYTES, out)
    {
        return;
    }
    let mut at = 0;
    let mut keepalive_ms = 0;
    let mut stand = Stand::Idle;
    for _ in 0..PIPELINE_MAX {
        if at == input.len() {
            break;
        }
        stand = request(thread, &live, &conn, listen, input, &mut at, out, &mut keepalive_ms);
        if !matches!(stand, Stand::Idle) {
            break;
        }
    }
    if at < input.len() && matches!(stand, Stand::Idle) {
        stand = Stand::More;
    }
    if let Stand::Upgrade(r, settings) = stand {
        let full = end - start == READ_CHUNK_BYTES;
        return upgrade(thread, index, &conn, r, &settings, (&input[at..], full));
    }
    let mut written = 0;
    if !out.is_empty() {
        let is_read = at == input.len() && end - start < READ_CHUNK_BYTES;
        match write(thread, &conn, out, &stand, is_read) {
            Ok(count) => written = count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => {
                thread.release(index);
                return;
            }
        }
    }
    // A read that filled its room may have left something behind.
    let settled = written == out.len() && end - start < READ_CHUNK_BYTES;
    settle(thread, (index, conn), stand, &input[at..], &out[written..], settled, keepalive_ms);
}

/// Sends what has been answered; `is_read`: the client has sent nothing that was not looked at.
pub(super) fn write(
    thread: &Thread,
    conn: &Connection,
    out: &[u8],
    stand: &Stand,
    is_read: bool,
) -> io::Result<usize> {
    match stand {
        Stand::Close { .. } => conn.io.try_write_last(out, is_closed_at_once(thread, stand, is_read)),
        _ => conn.io.try_write(out),
    }
}

/// Whether `settle` closes the connection at once when all has left: it must, if the kernel was told so.
fn is_closed_at_once(thread: &Thread, stand: &Stand, is_read: bool) -> bool {
    is_read && matches!(stand, Stand::Close { clean: true }) && thread.logs.named.is_idle()
}

/// Leaves a connection to its next request or to a task. `unread` and `unsent` are what is left of input and output.
pub(super) fn settle(
    thread: &Rc<Thread>,
    (index, conn): (u32, Rc<Connection>),
    stand: Stand,
    unread: &[u8],
    unsent: &[u8],
    settled: bool,
    keepalive_ms: u64,
) {
    match stand {
        // The end was reported together with the last data: no other event will come.
        Stand::Idle if settled && conn.io.is_closed() => thread.release(index),
        Stand::Idle if settled && conn.requests.get() == 1 => {
            thread.rest(index, &conn, clock::mono_ms() + keepalive_ms);
        }
        Stand::Idle if settled => thread.extend(index, clock::mono_ms() + keepalive_ms),
        stand if settled && is_closed_at_once(thread, &stand, unread.is_empty()) => {
            // Who sees the end of the connection finds the line in the log, as with nginx.
            thread.logs.flush_due();
            thread.release(index);
        }
        Stand::Pending(r, Run::Pending(pending)) if unsent.is_empty() => {
            conn.input.borrow_mut().extend_from_slice(unread);
            parked::park(thread, index, conn, r, pending);
        }
        stand => {
            conn.input.borrow_mut().extend_from_slice(unread);
            let begin = match stand {
                Stand::Idle | Stand::More => serve::Begin::Read,
                Stand::Close { .. } => serve::Begin::Close,
                Stand::Pending(r, run) => serve::Begin::Request(r, run),
                Stand::Upgrade(..) => unreachable!("it has been begun above"),
            };
            serve::spawn(thread, index, conn, unsent.to_vec(), begin);
        }
    }
}

/// Whether the connection begins with HTTP/2, or may: then it was taken over.
fn is_http2(
    thread: &Rc<Thread>,
    live: &Live,
    index: u32,
    conn: &Rc<Connection>,
    input: &[u8],
    full: bool,
    out: &mut Vec<u8>,
) -> bool {
    match h2::is_preface(live, conn, input) {
        Some(true) => {
            if let Some(session) = h2::begin(thread, live, index, conn) {
                session.input(conn, input, full, out);
            }
        }
        Some(false) => return false,
        None => {
            conn.input.borrow_mut().extend_from_slice(input);
            serve::spawn(thread, index, conn.clone(), Vec::new(), serve::Begin::Read);
        }
    }
    true
}

/// Switches to HTTP/2. It is the first request: nothing was said before. `rest`: what the client has sent behind it, and
/// whether there may be more in the socket.
fn upgrade(
    thread: &Rc<Thread>,
    index: u32,
    conn: &Rc<Connection>,
    r: Box<Request>,
    settings: &[u8],
    rest: (&[u8], bool),
) {
    match conn.io.try_write(h2::SWITCHING) {
        Ok(count) if count == h2::SWITCHING.len() => h2::upgrade(thread, index, conn, r, settings, rest),
        _ => thread.release(index),
    }
}

/// Takes the PROXY header; gives what stands behind it, if that is anything to work on now.
#[cold]
fn proxy_header<'a>(
    thread: &Rc<Thread>,
    live: &Rc<Live>,
    index: u32,
    conn: &Rc<Connection>,
    input: &'a [u8],
) -> Option<&'a [u8]> {
    match proxy_protocol::take(live, conn, input) {
        Taken::Whole(len) if len < input.len() => return Some(&input[len..]),
        // The deadline of a new connection goes on: it is for the header and the first request together.
        Taken::Whole(_) if !conn.io.is_closed() => {}
        Taken::Part => {
            conn.input.borrow_mut().extend_from_slice(input);
            serve::spawn(thread, index, conn.clone(), Vec::new(), serve::Begin::Read);
        }
        Taken::Whole(_) | Taken::Nothing => thread.release(index),
    }
    None
}

/// Answers one request if that can be done at once.
#[allow(clippy::too_many_arguments)]
fn request(
    thread: &Rc<Thread>,
    live: &Rc<Live>,
    conn: &Rc<Connection>,
    listen: ListenId,
    input: &[u8],
    at: &mut usize,
    out: &mut Vec<u8>,
    keepalive_ms: &mut u64,
) -> Stand {
    conn.pipelined.set(*at > 0);
    let mut r = thread.take_request();
    let options = &live.head_options[listen.0 as usize];
    let parsed = parse_request(&input[*at..], options, &mut r.head);
    if let Ok(Parsed::Partial) = parsed {
        thread.put_request(r);
        return Stand::More;
    }
    let len = if parsed.is_ok() { r.head.len } else { input.len() - *at };
    r.buf.extend_from_slice(&input[*at..*at + len]);
    *at += len;
    intake::begin(&mut r, conn, listen);
    let status = match &parsed {
        Ok(_) => {
            if send_prepared(thread, live, &mut r, listen, out, keepalive_ms) {
                thread.put_request(r);
                return Stand::Idle;
            }
            intake::complete(&mut r, listen)
        }
        Err(error) => Err(intake::refused(&mut r, listen, error)),
    };
    if r.head.has(HeaderId::Http2Settings)
        && status.is_ok()
        && let Some(settings) = h2::wants_upgrade(&r)
    {
        return Stand::Upgrade(r, settings);
    }
    let run = match status {
        Ok(()) => phases::run(&mut r),
        Err(status) => phases::fail(&mut r, status),
    };
    match run {
        Run::Respond if can_inline(&r) => respond(thread, r, Some(listen), out, keepalive_ms),
        run => {
            r.hold();
            Stand::Pending(r, run)
        }
    }
}

/// Appends a response that is complete in memory, and ends its request. With `listen` it may become a prepared answer of
/// that socket.
pub(super) fn respond(
    thread: &Rc<Thread>,
    mut r: Box<Request>,
    listen: Option<ListenId>,
    out: &mut Vec<u8>,
    keepalive_ms: &mut u64,
) -> Stand {
    let start = out.len();
    let written = head::write(&mut r, out);
    if !r.is_head() {
        append_body(&mut r, written.delimiting == Delimiting::Chunked, out);
    }
    if let Some(listen) = listen {
        keep(&r, listen, &out[start..], start, &written);
    }
    r.completed = true;
    finish(&r);
    *keepalive_ms = r.core().keepalive_timeout.as_millis() as u64;
    let close = r.persistence == Persistence::Close;
    let clean = r.resp.status < 400 && r.core().lingering_close != LingeringClose::Always;
    thread.put_request(r);
    if close { Stand::Close { clean } } else { Stand::Idle }
}

/// Whether the response is complete in memory and nothing of the request is left to be read.
pub fn can_inline(r: &Request) -> bool {
    let in_memory = match &r.resp.body {
        Body::Empty => true,
        Body::One(Piece::Bytes(text)) => text.len() as u64 <= INLINE_BODY_BYTES_MAX,
        Body::One(Piece::File { file, range }) => {
            file.content.is_some() && range.end - range.start <= INLINE_BODY_BYTES_MAX
        }
        Body::Many(pieces) => pieces.len() <= 16 && pieces.iter().all(|p| matches!(p, Piece::Bytes(_))),
        Body::Stream(_) => false,
    };
    in_memory
        && r.has_no_body()
        && r.resp.body.len().is_some_and(|len| len <= INLINE_BODY_BYTES_MAX)
        && r.resp.trailers.is_empty()
        && !serve::is_rate_limited(r)
        && r.core().post_action.is_none()
        || (matches!(r.resp.body, Body::Empty)
            && r.has_no_body()
            && r.core().post_action.is_none()
            && r.resp.trailers.is_empty())
}

fn append_body(r: &mut Request, is_chunked: bool, out: &mut Vec<u8>) {
    let start = out.len();
    let len = if is_chunked { r.resp.body.len().unwrap_or(0) } else { 0 };
    if len > 0 {
        write_chunk_head(len, out);
    }
    let append = |piece: &Piece, out: &mut Vec<u8>| match piece {
        Piece::Bytes(text) => out.extend_from_slice(text),
        Piece::File { file, range } => {
            let content = file.content.as_deref().unwrap_or_default();
            out.extend_from_slice(&content[range.start as usize..range.end as usize]);
        }
    };
    match &r.resp.body {
        Body::One(piece) => append(piece, out),
        Body::Many(pieces) => pieces.iter().for_each(|piece| append(piece, out)),
        Body::Empty | Body::Stream(_) => {}
    }
    if len > 0 {
        out.extend_from_slice(CHUNK_END);
    }
    if is_chunked {
        out.extend_from_slice(LAST_CHUNK);
    }
    r.sent.body_bytes = (out.len() - start) as u64;
}

/// Sends a kept answer again; false if there is none.
#[inline]
fn send_prepared(
    thread: &Thread,
    live: &Rc<Live>,
    r: &mut Request,
    listen: ListenId,
    out: &mut Vec<u8>,
    keepalive_ms: &mut u64,
) -> bool {
    if !is_usual(r) {
        return false;
    }
    let Some(answer) = live.prepared.borrow_mut().find(r, listen) else { return false };
    let core = &live.snap.location(answer.location).core;
    let conn = r.conn();
    let age_ms = clock::mono_ms().saturating_sub(conn.started.mono_ms);
    if conn.requests.get() >= core.keepalive_requests
        || u128::from(age_ms) >= core.keepalive_time.as_millis()
        || thread.is_draining()
    {
        return false;
    }
    let start = out.len();
    out.extend_from_slice(&answer.bytes);
    out[start + answer.date_at..start + answer.date_at + 29].copy_from_slice(&thread.date());
    *keepalive_ms = core.keepalive_timeout.as_millis() as u64;
    answer.conclude(thread, live, r, answer.head_len as u64);
    true
}

/// A plain GET that wants to keep its connection.
#[inline]
fn is_usual(r: &Request) -> bool {
    prepared::is_usual(r)
        && r.head.version == Version::Http11
        && (!r.head.has(HeaderId::Connection)
            || r.head
                .all(HeaderId::Connection)
                .all(|h| h.value.of(&r.buf).eq_ignore_ascii_case(b"keep-alive")))
}

/// Keeps an answer for the next request of the same target, if it depends on nothing else.
fn keep(r: &Request, listen: ListenId, bytes: &[u8], start: usize, written: &Written) {
    let Some(date_at) = written.date_at else { return };
    let is_kept = written.delimiting == Delimiting::Length
        && r.persistence == Persistence::KeepAlive
        && r.target.host.is_none()
        && is_usual(r);
    let answer = is_kept.then(|| Answer::of(r, bytes, r.sent.head_bytes as usize, date_at - start));
    if let Some(answer) = answer.flatten() {
        r.live.prepared.borrow_mut().keep(r, listen, answer);
    }
}

/// The log phase.
#[inline]
pub fn finish(r: &Request) {
    metrics::record(r);
    crate::dlog!(r, "http log handler");
    let live = &r.live;
    for handler in &live.snap.location(r.loc).plan.log {
        handler.log(r);
    }
}
