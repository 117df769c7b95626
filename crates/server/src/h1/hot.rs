//! Requests that have come, answered at once where that can be done: the hot path.
//!
//! Nothing here waits. A request that must wait is left to [`parked`], whatever else takes longer to a task of
//! [`serve`]: [`settle`] decides which.

use super::head::{self, Written};
use super::send::can_inline;
use super::{intake, parked, serve};
use crate::conf::ids::ListenId;
use crate::connection::{Connection, PartialHead};
use crate::core::http_conf::{CoreConf, LingeringClose};
use crate::h2::upgrade as h2;
use crate::hand_over::{self, Arrived};
use crate::limits::PIPELINE_MAX;
use crate::live::Live;
use crate::logged::finish;
use crate::phases::{self, Run};
use crate::prepared::{self, Answer};
use crate::request::Request;
use crate::request::reply::Persistence;
use crate::response::{Body, Piece};
use crate::table::Thread;
use crate::text::Text;
use crate::unfinished::wait_for_head;
use brisk_http::chunked::{CHUNK_END, LAST_CHUNK, write_chunk_head};
use brisk_http::h1::Delimiting;
use brisk_http::{HeaderId, Parsed, Version, parse_request};
use brisk_net::clock;
use std::io::{self, IoSlice};
use std::rc::Rc;

/// Where a connection stands after its input was worked through.
/// It owns what is needed to go on, so no caller has to remember it.
pub(super) enum Stand {
    /// All input answered; the next request is waited for.
    Idle { keepalive_ms: u64 },
    /// Part of a head.
    Partial(Box<PartialHead>),
    /// Too many requests in a row: others have their turn first.
    More { keepalive_ms: u64 },
    /// Close when what was written has left. `clean`: the client asked for it and has sent nothing else.
    Close { clean: bool },
    /// This request must wait, or its body is too large for here.
    Pending(Box<Request>, Run),
    /// From this request on it is HTTP/2, with these settings of the client's.
    Upgrade(Box<Request>, Vec<u8>),
}

/// A large body, which is sent behind what was written down: copying it would cost more than a call with two parts. Most answers have none, and
/// shall not pay for its size.
pub(super) type Apart = Option<Box<ApartBody>>;

/// See [`Apart`].
pub(super) struct ApartBody {
    pub(super) bytes: Text,
    /// From its file, as the location says.
    sendfile: bool,
}

/// Whether the kernel may send such a body with one call.
fn may_sendfile(core: &CoreConf, bytes: &[u8]) -> bool {
    core.sendfile && (core.sendfile_max_chunk == 0 || bytes.len() as u64 <= core.sendfile_max_chunk)
}

/// Answers the requests in `input`, and leaves the connection to the next or to a task.
pub(crate) fn requests(thread: &Rc<Thread>, live: &Rc<Live>, at: Arrived, input: &[u8], out: &mut Vec<u8>) {
    // A reload has closed the socket that it came by: there is no configuration for a further request.
    // Checked for each turn: the socket may have gone with a reload while the connection waited.
    let Some(listen) = at.conn.listener.id.get() else { return thread.release(at.index) };
    let mut used = 0;
    // Overwritten by the first request; the loop runs at least once.
    let mut stand = Stand::Idle { keepalive_ms: 0 };
    let mut apart = None;
    let mut partial = at.conn.take_partial_head();
    // Bounded: a client that pipelines without end would keep the thread for itself.
    for _ in 0..PIPELINE_MAX {
        // A head that came in parts was pipelined or not when its first bytes came; later reads do not change that.
        if partial.is_none() {
            at.conn.pipelined.set(used > 0 || at.is_backlog);
        }
        // `used` tells where the next request begins; all answers of the loop collect in `out` and leave in one write.
        (stand, apart) = request(thread, live, &at, listen, input, &mut used, partial.take(), out);
        // Behind a body that stands apart nothing can be written down before it has left.
        if used == input.len() || apart.is_some() || !matches!(stand, Stand::Idle { .. }) {
            break;
        }
    }
    // A part of a head, or requests behind the one that must wait.
    let unread = &input[used..];
    match stand {
        Stand::Idle { keepalive_ms } if !unread.is_empty() => stand = Stand::More { keepalive_ms },
        // Before anything is written: the answer to this request is stream 1's, and no HTTP/1.1 answer may stand
        // before it.
        Stand::Upgrade(r, settings) => {
            return upgrade(thread, at.index, &at.conn, r, &settings, (unread, at.full));
        }
        _ => {}
    }
    let mut written = 0;
    if !out.is_empty() {
        match write(thread, &at.conn, out, apart.as_deref(), &stand, unread.is_empty() && !at.full) {
            Ok(count) => written = count,
            // The socket takes nothing: `settle` starts a task with all of the output.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return thread.release(at.index),
        }
    }
    match &apart {
        None => settle(thread, at, stand, unread, &out[written..]),
        Some(apart) => settle_rest(thread, at, stand, unread, [out, &apart.bytes], written),
    }
}

/// Sends what has been answered, and the body that stands apart behind it; `is_read`: the client has sent nothing that was not looked at.
pub(super) fn write(
    thread: &Thread,
    conn: &Connection,
    out: &[u8],
    apart: Option<&ApartBody>,
    stand: &Stand,
    is_read: bool,
) -> io::Result<usize> {
    match (stand, apart) {
        // The last write may carry the end of the connection, so that the client sees both at once.
        (Stand::Close { .. }, None) => conn.io.try_write_last(out, is_closed_at_once(thread, stand, is_read)),
        (Stand::Close { .. }, Some(apart)) => {
            let all = [out, &apart.bytes].concat();
            conn.io.try_write_last(&all, is_closed_at_once(thread, stand, is_read))
        }
        (_, None) => conn.io.try_write(out),
        (_, Some(ApartBody { bytes: Text::Slice(slice), sendfile })) => {
            conn.io.try_write_slice(out, slice, *sendfile)
        }
        (_, Some(apart)) => conn.io.try_writev(&[IoSlice::new(out), IoSlice::new(&apart.bytes)]),
    }
}

/// Whether `settle` closes the connection at once when all has left: it must, if the kernel was told so.
fn is_closed_at_once(thread: &Thread, stand: &Stand, is_read: bool) -> bool {
    // Log lines of a named log may need the pool. Closing before they are written would show a client an end
    // that is not in the log.
    is_read && matches!(stand, Stand::Close { clean: true }) && thread.logs.named.is_idle()
}

/// As [`settle`], where of two parts so many bytes were written.
pub(super) fn settle_rest(
    thread: &Rc<Thread>,
    at: Arrived,
    stand: Stand,
    unread: &[u8],
    [out, apart]: [&[u8]; 2],
    written: usize,
) {
    let (of_out, of_apart) = (written.min(out.len()), written.saturating_sub(out.len()));
    // Two parts are left only where the socket has taken less than the first.
    match [&out[of_out..], &apart[of_apart..]] {
        [rest, []] | [[], rest] => settle(thread, at, stand, unread, rest),
        both => settle(thread, at, stand, unread, &both.concat()),
    }
}

/// Leaves a connection to its next request or to a task. `unread` and `unsent` are what is left of input and output.
pub(super) fn settle(thread: &Rc<Thread>, at: Arrived, stand: Stand, unread: &[u8], unsent: &[u8]) {
    let is_sent = unsent.is_empty();
    let until = |keepalive_ms| clock::mono_ms() + keepalive_ms;
    match stand {
        // A read that filled its room may have left something behind.
        // The deadline is set anew only when all has been answered: a client that sends one byte a minute
        // keeps the old one.
        Stand::Idle { keepalive_ms } if is_sent && at.full => {
            thread.extend(at.index, until(keepalive_ms));
            thread.tell_again(at.index, &at.conn);
        }
        // The end was reported together with the last data: no other event will come.
        Stand::Idle { .. } if is_sent && at.conn.io.is_closed() => thread.release(at.index),
        Stand::Idle { keepalive_ms } if is_sent && at.conn.requests.get() == 1 => {
            thread.rest(at.index, &at.conn, until(keepalive_ms));
        }
        Stand::Idle { keepalive_ms } if is_sent => thread.extend(at.index, until(keepalive_ms)),
        // All of the head is kept as the connection's input; the parser goes on where it stopped.
        Stand::Partial(partial) if is_sent => wait_for_head(thread, &at, unread, partial),
        Stand::More { keepalive_ms } if is_sent => {
            at.conn.input.borrow_mut().extend_from_slice(unread);
            thread.extend(at.index, until(keepalive_ms));
            hand_over::go_on(thread, at.index);
        }
        // Not with unread input: the kernel would answer close(2) by a reset, which may destroy the response on its
        // way to the client (RFC 9112 §9.6). Such a connection ends in a task that reads on for a while.
        stand if is_sent && !at.full && is_closed_at_once(thread, &stand, unread.is_empty()) => {
            // Who sees the end of the connection finds the line in the log, as with nginx.
            thread.logs.flush_due();
            thread.release(at.index);
        }
        // Parked only when all earlier output has left: the answer is written without looking at what stands before
        // it.
        // A task would be needed for the rest of the output.
        Stand::Pending(r, Run::Pending(pending)) if is_sent => {
            at.conn.input.borrow_mut().extend_from_slice(unread);
            parked::park(thread, at.index, at.conn, r, pending);
        }
        stand => {
            at.conn.input.borrow_mut().extend_from_slice(unread);
            let begin = match stand {
                Stand::Idle { .. } | Stand::More { .. } => serve::Begin::Flush,
                Stand::Partial(partial) => {
                    at.conn.stage.replace(crate::connection::Stage::Head(partial));
                    serve::Begin::Flush
                }
                Stand::Close { .. } => serve::Begin::Close,
                Stand::Pending(r, run) => serve::Begin::Request(r, run),
                Stand::Upgrade(..) => unreachable!("it has been begun above"),
            };
            serve::spawn(thread, at.index, at.conn, unsent.to_vec(), begin);
        }
    }
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
        // The socket buffer of a new connection takes these 71 bytes at once. One that does not is given up.
        Ok(count) if count == h2::SWITCHING.len() => h2::begin(thread, index, conn, r, settings, rest),
        _ => thread.release(index),
    }
}

/// Answers one request if that can be done at once. `partial`: how far its head was parsed before.
///
/// Its head is parsed by the rules of the socket's default server: which server is meant is in the head.
#[allow(clippy::too_many_arguments)]
fn request(
    thread: &Rc<Thread>,
    live: &Rc<Live>,
    arrived: &Arrived,
    listen: ListenId,
    input: &[u8],
    at: &mut usize,
    mut partial: Option<Box<PartialHead>>,
    out: &mut Vec<u8>,
) -> (Stand, Apart) {
    let later = |stand| (stand, None);
    let conn = &arrived.conn;
    let mut r = thread.take_request();
    if let Some(partial) = &mut partial {
        // The parser goes on in the head that it had begun, so that a head that trickles in is not parsed from its
        // start each time.
        std::mem::swap(&mut partial.head, &mut r.head.parsed);
    }
    let options = &live.head_options[listen.0 as usize];
    let parsed = parse_request(&input[*at..], options, &mut r.head.parsed);
    if let Ok(Parsed::Partial) = parsed {
        // The request goes back to the pool at once: a head that trickles in must not hold one.
        let head = std::mem::take(&mut r.head.parsed);
        thread.put_request(r);
        return later(Stand::Partial(match partial {
            Some(mut partial) => {
                partial.head = head;
                partial
            }
            None => PartialHead::begin(thread, arrived.index, conn, head),
        }));
    }
    drop(partial); // Its count among the heads that are being read ends with it.
    // Where a head at fault ends is not known, so all that has come is taken for it. The connection ends with the
    // answer.
    let len = if parsed.is_ok() { r.head.parsed.len } else { input.len() - *at };
    // Copied: the arena is the turn's, and the request may outlive that.
    r.head.buf.extend_from_slice(&input[*at..*at + len]);
    *at += len;
    intake::begin(&mut r, conn, listen);
    let status = match &parsed {
        Ok(_) => {
            // Before target and host are looked at: kept answers are found by their raw bytes.
            if let Some((keepalive_ms, apart)) = send_prepared(thread, live, &mut r, listen, out) {
                thread.put_request(r);
                return (Stand::Idle { keepalive_ms }, apart);
            }
            intake::complete(&mut r, listen)
        }
        Err(error) => Err(intake::refused(&mut r, listen, error)),
    };
    if r.head.parsed.has(HeaderId::Http2Settings)
        && status.is_ok()
        && let Some(settings) = h2::wanted(&r)
    {
        return later(Stand::Upgrade(r, settings));
    }
    let run = match status {
        Ok(()) => phases::run(&mut r),
        Err(status) => phases::fail(&mut r, status),
    };
    match run {
        Run::Respond if can_inline(&r) => respond(thread, r, Some(listen), out),
        run => {
            // From here on the connection's account counts what the request holds.
            r.hold();
            later(Stand::Pending(r, run))
        }
    }
}

/// Writes down a response that is complete in memory, but for a large body, and ends its request. With `listen` it may become a prepared
/// answer of that socket.
pub(super) fn respond(
    thread: &Rc<Thread>,
    mut r: Box<Request>,
    listen: Option<ListenId>,
    out: &mut Vec<u8>,
) -> (Stand, Apart) {
    let start = out.len();
    let written = head::write(&mut r, out);
    let is_chunked = written.delimiting == Delimiting::Chunked;
    let mut apart = None;
    if r.sends_body() {
        match (!is_chunked).then(|| r.resp.body.take_apart()).flatten() {
            Some(bytes) => {
                r.progress.sent.body_bytes = bytes.len() as u64;
                let sendfile = may_sendfile(r.core(), &bytes);
                apart = Some(Box::new(ApartBody { bytes, sendfile }));
            }
            None => append_body(&mut r, is_chunked, out),
        }
    }
    // Before the log phase: variables that it computes would look as if they had been set on the way
    // ([`Answer::of`]).
    if let Some(listen) = listen {
        // The head's bytes are in `out` alone; their place is remembered for a prepared answer.
        let body = apart.as_ref().map(|apart| &apart.bytes);
        keep(&r, listen, &out[start..], body, start, &written);
    }
    (conclude(thread, r), apart)
}

/// Ends a request whose response has been written down.
fn conclude(thread: &Rc<Thread>, mut r: Box<Request>) -> Stand {
    r.reply.completed = true;
    finish(&r);
    // Also if nothing was asked of the body: whoever waits for the end of the request hears of it.
    let keepalive_ms = r.core().keepalive_timeout.as_millis() as u64;
    let close = r.reply.persistence == Persistence::Close;
    // After a refusal the client may still be sending what was refused, so it gets time to read why (RFC 9112 §9.6).
    let clean = r.resp.status < 400 && r.core().lingering_close != LingeringClose::Always;
    thread.put_request(r);
    if close { Stand::Close { clean } } else { Stand::Idle { keepalive_ms } }
}

fn append_body(r: &mut Request, is_chunked: bool, out: &mut Vec<u8>) {
    let start = out.len();
    let len = if is_chunked { r.resp.body.len().unwrap_or(0) } else { 0 };
    // A chunk of length 0 would end the body (RFC 9112 §7.1).
    if len > 0 {
        write_chunk_head(len, out);
    }
    let append = |piece: &Piece, out: &mut Vec<u8>| match piece {
        Piece::Bytes(text) => out.extend_from_slice(text),
        Piece::File { file, range } => {
            // `can_inline` has seen to it that the file's bytes are in memory.
            let content = file.content.as_ref().map_or(&[][..], |content| content);
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
    r.progress.sent.body_bytes = (out.len() - start) as u64;
}

/// Sends a kept answer again; gives how long the connection waits then, or `None` if there is none.
#[inline]
fn send_prepared(
    thread: &Thread,
    live: &Rc<Live>,
    r: &mut Request,
    listen: ListenId,
    out: &mut Vec<u8>,
) -> Option<(u64, Apart)> {
    if !is_usual(r) {
        return None;
    }
    // Of the configuration that this turn began with: a reload has another store, which begins empty.
    let answer = live.prepared.borrow_mut().find(r, listen)?;
    let core = &live.snap.location(answer.location).core;
    let conn = r.conn();
    // Read from the clock of the turn, so it costs no system call.
    let age_ms = clock::mono_ms().saturating_sub(conn.started_ms);
    // The kept head says that the connection goes on. Where this request is the last one, the head must be written
    // anew.
    if conn.requests.get() >= core.keepalive_requests
        || u128::from(age_ms) >= core.keepalive_time.as_millis()
        // The connection goes on by the kept head. One that is to end needs a head that says so.
        || thread.is_draining()
    {
        return None;
    }
    let start = out.len();
    out.extend_from_slice(&answer.bytes);
    // An IMF-fixdate has 29 bytes (RFC 9110 §5.6.7), so nothing behind it moves.
    out[start + answer.date_at..start + answer.date_at + 29].copy_from_slice(&thread.date());
    let keepalive_ms = core.keepalive_timeout.as_millis() as u64;
    answer.conclude(thread, live, r, answer.head_len as u64);
    let apart = |bytes: &Text| {
        let sendfile = may_sendfile(core, bytes);
        Box::new(ApartBody { bytes: bytes.clone(), sendfile })
    };
    Some((keepalive_ms, answer.apart.as_ref().map(apart)))
}

/// A plain GET that wants to keep its connection.
#[inline]
fn is_usual(r: &Request) -> bool {
    prepared::is_usual(r)
        // HTTP/1.0 would close unless asked otherwise, and its answers may not be chunked: another head.
        && r.head.parsed.version == Version::Http11
        && (!r.head.parsed.has(HeaderId::Connection)
            || r.head
                .parsed
                .all(HeaderId::Connection)
                .all(|h| h.value.of(&r.head.buf).eq_ignore_ascii_case(b"keep-alive")))
}

/// Keeps an answer for the next request of the same target, if it depends on nothing else.
fn keep(r: &Request, listen: ListenId, bytes: &[u8], apart: Option<&Text>, start: usize, written: &Written) {
    let Some(date_at) = written.date_at else { return };
    // Only what `send_prepared` can give again by copying: a body delimited by its length, on a connection that goes
    // on, for a target whose host is in the header alone, since the key is made of the header's.
    let is_kept = written.delimiting == Delimiting::Length
        && r.reply.persistence == Persistence::KeepAlive
        && r.head.target.host.is_none()
        && is_usual(r);
    let answer = is_kept.then(|| {
        let head_len = r.progress.sent.head_bytes as usize;
        Answer::of(r, bytes, apart, head_len, date_at - start)
    });
    if let Some(answer) = answer.flatten() {
        r.live.root().prepared.borrow_mut().keep(r, listen, answer);
    }
}
