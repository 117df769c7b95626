//! The task of a connection that has to wait: it ends when the driver can have the connection again, or closes it.
//!
//! While it runs, the driver does not read from the connection: what comes is taken by the part that waits for it.
//! The order of answers is kept here; how their bytes leave is the business of [`send`].

use super::{head, intake, send};
use crate::body::RequestBody;
use crate::connection::Connection;
use crate::core::http_conf::{CoreConf, LingeringClose};
use crate::limits::{LOG_WAIT_MS_MAX, SMALL_BODY_BYTES_MAX};
use crate::logged::{Logged, delay_refusal};
use crate::phases::{self, Run};
use crate::request::Request;
use crate::request::flight::Waits;
use crate::request::reply::Persistence;
use crate::response::{Body, Piece};
use crate::table::Thread;
use crate::tls::{ocsp, opening};
use crate::{failure, hand_over};
use brisk_host::peer::Cut;
use brisk_net::{clock, timeout};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Where the task begins, when what was written before has left.
pub enum Begin {
    /// There is nothing else to do.
    Flush,
    /// With the question whether the client's certificate was revoked.
    Ask,
    /// With certificates that a handshake needs.
    Load(Box<opening::Load>),
    /// With a request that has to wait.
    Request(Box<Request>, Run),
    /// With the end.
    Close,
}

/// What the connection is to do next.
enum Next {
    /// Wait for a request, for so long; zero: as long as its socket says.
    Read(Duration),
    /// Close; if the client has sent more, with patience.
    Close,
    /// Close at once: the connection is of no use to anyone.
    Drop,
}

/// Starts the task; `out` is what was written before and has not left.
/// The task is the one owner of the connection from here on: two readers of one socket would each miss a
/// part.
pub fn spawn(thread: &Rc<Thread>, index: u32, conn: Rc<Connection>, out: Vec<u8>, begin: Begin) {
    if let Begin::Request(r, _) = &begin {
        r.enters_task();
    }
    // The table says that a task owns the connection before the task runs, or the driver would read what it waits
    // for.
    let task = Guard {
        thread: thread.clone(),
        index,
        id: conn.id,
        cut: thread.set_busy(index),
        future: Some(Box::pin(run(thread.clone(), index, conn, out, begin))),
    };
    brisk_net::spawn(task);
}

/// Catches a panic of the connection's future, and ends it when that is ordered.
/// A panic in a task would otherwise leave its connection in the table for ever, busy and never closed.
struct Guard<F> {
    thread: Rc<Thread>,
    index: u32,
    id: u64,
    cut: Rc<Cut>,
    future: Option<Pin<Box<F>>>,
}

impl<F: Future<Output = ()>> Future for Guard<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let turn = AssertUnwindSafe(|| match &mut this.future {
            // The waker is left with `cut` before the future is polled, so an order that comes while it waits is not
            // lost.
            Some(future) if !this.cut.is_wanted(cx.waker()) => (future.as_mut().poll(cx), false),
            // What it owns (a request with its log line) goes before the connection is given back.
            _ => (
                {
                    drop(this.future.take());
                    Poll::Ready(())
                },
                true,
            ),
        });
        match catch_unwind(turn) {
            Ok((poll, false)) => return poll,
            Ok((_, true)) => {}
            Err(_) => hand_over::panicked(&self.thread, self.id),
        }
        self.thread.release(self.index);
        Poll::Ready(())
    }
}

async fn run(thread: Rc<Thread>, index: u32, conn: Rc<Connection>, out: Vec<u8>, begin: Begin) {
    // Answers leave in the order of their requests (RFC 9112 §9.3.2), so earlier output goes first.
    if !out.is_empty() && !flush(&thread, &conn, &out).await {
        thread.release(index);
        return;
    }
    // A request may last for hours, as tunnels do: it does not keep the buffer.
    // The answers before this request have left.
    drop(out);
    let next = match begin {
        Begin::Flush => {
            flush_handshake(&thread, &conn).await;
            Next::Read(Duration::ZERO)
        }
        Begin::Ask => {
            ocsp::ask_about_client(&thread.live(), &conn).await;
            Next::Read(Duration::ZERO)
        }
        Begin::Load(load) => {
            let has_session = opening::finish(&thread.live(), &conn, *load).await;
            // The session has bytes to begin with.
            // They came with the ClientHello, before there was a session that could have told of them.
            conn.io.mark_readable();
            if has_session { Next::Read(Duration::ZERO) } else { Next::Drop }
        }
        Begin::Close => Next::Close,
        Begin::Request(r, run) => handle(&thread, &conn, r, run).await,
    };
    match next {
        // The driver has it again. `resume` says no where the connection is to be closed instead.
        Next::Read(keepalive) if hand_over::resume(&thread, index, &conn, keepalive) => {}
        next => close(&thread, index, &conn, next).await,
    }
}

/// What a handshake has to send must leave before anything comes.
async fn flush_handshake(thread: &Thread, conn: &Connection) {
    let has_control = || conn.io.tls().is_some_and(brisk_net::Tls::has_control);
    let left = poll_fn(|cx| if has_control() { conn.io.poll_readable(cx) } else { Poll::Ready(()) });
    // No configuration is held while it waits.
    let limit = thread.live().header_timeout(&conn.listener);
    // Whether it was in time does not matter: the driver's deadline, which counts from the accept, ends a handshake
    // that does not go on.
    // The result is thrown away.
    let _ = timeout(limit, left).await;
}

fn default_core(thread: &Thread, conn: &Connection) -> Option<std::sync::Arc<CoreConf>> {
    thread.live().default_core(&conn.listener).cloned()
}

async fn flush(thread: &Thread, conn: &Connection, out: &[u8]) -> bool {
    // The socket's configuration is gone: nothing says how long to wait.
    let Some(core) = default_core(thread, conn) else { return false };
    let mut rest = out;
    while !rest.is_empty() {
        // The time-out is between two writes.
        match timeout(core.send_timeout, conn.io.write(rest)).await {
            Ok(Ok(count)) => rest = &rest[count..],
            _ => return false,
        }
    }
    true
}

/// What has come of a head that will not come as a whole.
fn partial(thread: &Rc<Thread>, conn: &Rc<Connection>) -> Option<Box<Request>> {
    let partial = conn.take_partial_head()?;
    let mut r = thread.take_request();
    r.head.parsed = partial.head;
    r.head.buf.extend_from_slice(&conn.input.borrow());
    Some(r)
}

/// `client_header_timeout` is over.
pub fn timed_out(thread: &Rc<Thread>, conn: &Rc<Connection>) {
    if let Some(r) = partial(thread, conn).and_then(|r| intake::timed_out(r, conn)) {
        reset_if_wanted(&r, conn);
    }
}

/// The client has gone, perhaps in the middle of a head.
pub fn gone(thread: &Rc<Thread>, conn: &Rc<Connection>) {
    if let Some(r) = partial(thread, conn) {
        intake::gone(r, conn);
    }
}

fn reset_if_wanted(r: &Request, conn: &Connection) {
    if r.core().reset_timedout_connection {
        conn.io.reset_when_dropped();
    }
}

/// Drives a request to its end.
/// The request is in a `Logged` all the way, so it has its line however this ends: by an answer, an error, a
/// panic or an order to end.
async fn handle(thread: &Rc<Thread>, conn: &Rc<Connection>, r: Box<Request>, mut run: Run) -> Next {
    let mut r = Logged::new(r);
    // Hints are for clients that would otherwise wait, so only requests in tasks and parked ones have a way to send
    // them.
    // From here on the client waits.
    r.reply.interim = Some(conn.clone());
    run = phases::drive(&mut r, run).await;
    // Framing at fault in what has come already is answered with 400 while the head can still say so.
    if matches!(run, Run::Respond) && !r.is_body_lent() && r.has_unread_body() && !discard_received(&mut r) {
        run = phases::fail(&mut r, 400);
        run = phases::drive(&mut r, run).await;
    }
    let next = match run {
        Run::Respond => respond(conn, &mut r).await,
        _ => {
            // nginx counts `return 444` as a time-out here.
            if matches!(r.resp.status, 408 | 444) {
                reset_if_wanted(&r, conn);
            }
            Next::Drop
        }
    };
    // After the response, so that the client does not wait for it; before the log line, which tells of the whole
    // request.
    // It must not run before the answer has left: its location may take as long as it likes.
    post_action(&mut r).await;
    if let Some(r) = r.finish() {
        thread.put_request(r);
    }
    next
}

/// Drops what has come of a body that nobody wanted; false if that must be answered with 400.
fn discard_received(r: &mut Request) -> bool {
    let mut rest = r.take_body_reader();
    // A reader that has found an error is put back as well: whoever closes the connection asks it whether the
    // client still sends.
    let result = rest.discard_received();
    // The reader goes back to the request: after the response the rest is dropped from where this has stopped.
    r.body = RequestBody::Partial(rest);
    let Err(error) = result else { return true };
    crate::failure::report(&error, r);
    // A refusal stands, but is the last answer on this connection.
    r.reply.persistence = Persistence::Close;
    r.resp.status >= 400
}

/// `post_action`: another location's work after the response, unseen by the client and by the log's figures.
pub async fn post_action(r: &mut Request) {
    let Some(target) = r.core().post_action.clone() else { return };
    let (status, sent) = (r.resp.status, r.progress.sent);
    // The location makes a response in the same place, which is thrown away.
    // Only the figures of the real answer are told in the log.
    r.resp.clear();
    let run = phases::post_action(r, &target);
    phases::drive(r, run).await;
    r.resp.clear();
    (r.resp.status, r.progress.sent) = (status, sent);
}

/// Sends the response.
async fn respond(conn: &Rc<Connection>, r: &mut Request) -> Next {
    delay_refusal(r).await;
    r.reply.interim = None;
    r.flight.waits_for(if r.resp.tunnel { Waits::Tunnel } else { Waits::Sending });
    // Hints that the socket has not taken leave before the final head.
    let mut bytes = conn.take_unsent();
    bytes.reserve(512);
    let written = head::write(r, &mut bytes);
    let mut sender = send::Sender::new(r);
    // What is small is with the kernel at once; the rest may take as long as the client likes, and a configuration must not
    // live for that.
    // The answer is complete and its location known; nothing is looked up any more.
    let is_small = match &r.resp.body {
        Body::Empty => true,
        Body::One(Piece::Bytes(text)) => text.len() <= SMALL_BODY_BYTES_MAX,
        _ => false,
    };
    // `post_action` needs the whole configuration after the response.
    if r.core().post_action.is_none() && !is_small {
        r.thread.clone().reduce(r);
    }
    let result = sender.response(r, &bytes, written.delimiting).await;
    // Also after an error: the log tells what has left.
    r.progress.sent.body_bytes = sender.sent();
    r.reply.completed = result.is_ok();
    let mut next = match &result {
        Ok(()) if r.reply.persistence == Persistence::KeepAlive => Next::Read(r.core().keepalive_timeout),
        Ok(()) => Next::Close,
        Err(error) => {
            send_failed(r, conn, error);
            Next::Drop
        }
    };
    // A stream that took the body has been dropped with the response by now, which gave its reader back.
    r.take_back_body();
    if r.has_unread_body() {
        let mut rest = r.take_body_reader();
        let (pause, time) = (r.core().lingering_timeout, r.core().lingering_time);
        // What is left of the body stands before the next request: without reading it the connection has none.
        if matches!(next, Next::Read(_)) && !rest.discard(pause, time).await {
            next = Next::Close;
        }
        // Remembered for `close`: a client that still sends is read from, or the reset would overtake the answer (RFC
        // 9112 §9.6).
        conn.sends.set(!rest.is_done());
    }
    next
}

fn send_failed(r: &Request, conn: &Connection, error: &send::SendError) {
    match error {
        send::SendError::Body(failure) => failure::report(failure, r),
        send::SendError::Io(error) => {
            crate::rlog!(r, Info, "send() failed ({}) while sending to client", brisk_conf::os_text(error));
        }
        send::SendError::TimedOut => {
            crate::rlog!(r, Info, "client timed out ({}: Connection timed out) while sending to client", 110);
            reset_if_wanted(r, conn);
        }
        send::SendError::Truncated => {
            crate::rlog!(
                r,
                Alert,
                "file \"{}\" was truncated while it was sent",
                String::from_utf8_lossy(&r.route.uri)
            );
        }
    }
}

/// Closes, in a task of its own, when the client has had time to hear what was said.
pub fn close_patiently(thread: &Rc<Thread>, index: u32, conn: Rc<Connection>) {
    spawn(thread, index, conn, Vec::new(), Begin::Close);
}

/// Closes. With patience the client's data is read for a while, so that it gets the response before a reset.
/// The three ends: told and waited for, told and closed, or dropped.
async fn close(thread: &Rc<Thread>, index: u32, conn: &Rc<Connection>, how: Next) {
    // Who sees the end of the connection finds the line in the log, as with nginx, unless a disk is very slow.
    thread.logs.flush_due();
    // By polling, since the pool has no word for this connection alone. It is bounded by LOG_WAIT_MS_MAX, and
    // only where lines are on the pool.
    let end_ms = clock::mono_ms() + LOG_WAIT_MS_MAX;
    while !thread.logs.named.is_idle() && clock::mono_ms() < end_ms {
        brisk_net::sleep(Duration::from_millis(1)).await;
    }
    if matches!(how, Next::Drop) {
        conn.io.abort();
    } else if let Some(core) = default_core(thread, conn) {
        // A client that does not keep up is told of the end as it was sent the rest.
        // In order: what was written, then TLS' close_notify, then the end of the socket.
        let _ = timeout(core.send_timeout, conn.io.finish()).await;
        let wanted = match core.lingering_close {
            LingeringClose::Off => false,
            LingeringClose::Always => true,
            // Data may be on its way if some lies here unread already.
            LingeringClose::On => conn.sends.get() || conn.has_unread(),
        };
        // The write side is closed first, so that the client sees the end of the answer while it is still sending.
        if wanted && conn.io.shutdown_write().is_ok() {
            let work = async {
                let mut sink = vec![0; 4096];
                while let Ok(Ok(count)) = timeout(core.lingering_timeout, conn.io.read(&mut sink)).await {
                    if count == 0 {
                        return;
                    }
                }
            };
            // Both limits are needed: single bytes could renew `lingering_timeout`, which is between two reads, for
            // ever.
            let _ = timeout(core.lingering_time, work).await;
        }
    }
    thread.release(index);
}
