//! Requests that wait without a task: the connection's table entry holds them. They are asked again when they have had
//! themselves woken, or when something happens on the connection.
//!
//! The connection stays with the driver meanwhile, so that nothing has to be registered, made or freed for the wait. What
//! turns out to need more than that goes on in a task.

use super::hot::{self, Apart, Stand};
use super::send::can_inline;
use super::serve::{self, Begin};
use crate::connection::Connection;
use crate::flow::Pending;
use crate::hand_over::{self, Arrived};
use crate::limits::BURST_BYTES_MAX;
use crate::logged::Logged;
use crate::phases::{self, Run};
use crate::request::Request;
use crate::table::Thread;
use brisk_net::{Loop, Mailbox, clock};
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// A request with what it waits for. Dropped half-way, it is logged.
/// It holds no task. The connection's entry has it, so a thousand of them cost a thousand entries.
pub struct Parked {
    r: Logged,
    pending: Box<dyn Pending>,
}

impl Parked {
    pub(crate) fn request(&self) -> &Request {
        &self.r
    }
}

/// Has the driver look at a connection.
struct Bell {
    key: u64,
    mailbox: Arc<Mailbox>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // The key and not the connection: a waker may outlive it, and then finds a place with another generation.
        // A connection that has gone leaves its place to another one with another key, which then is not
        // woken by mistake.
        let key = self.key;
        // On the loop's own thread, the usual case, no message is needed.
        match Loop::try_current() {
            Some(home) if Arc::ptr_eq(home.mailbox(), &self.mailbox) => home.push_hot(key),
            _ => self.mailbox.call(move || Loop::current().push_hot(key)),
        }
    }
}

/// What wakes whoever waits in the entry `key`.
pub(crate) fn waker(key: u64) -> Waker {
    Waker::from(Arc::new(Bell { key, mailbox: Loop::current().mailbox().clone() }))
}

/// What is to be sent when everybody has had its turn. Peers that get all they get at once are woken once, and a wake-up
/// costs more than what it takes to make an answer.
/// Also filled while the thread is in its turn: a request that asks a back end gets its answer in a later
/// one.
#[derive(Default)]
pub struct Burst {
    /// Requests that begin to wait: their first turn sends what they ask.
    begun: Vec<(u32, Rc<Connection>, Box<Parked>)>,
    answers: Vec<Answer>,
    /// The bytes of all answers.
    out: Vec<u8>,
}

/// A response that is complete, and what is to become of its connection.
struct Answer {
    index: u32,
    conn: Rc<Connection>,
    /// Where its bytes are.
    bytes: Range<usize>,
    /// A large body, which stands behind them.
    apart: Apart,
    stand: Stand,
}

/// Begins to wait, with the end of the turn. All that was written on the connection before has left.
pub fn park(
    thread: &Rc<Thread>,
    index: u32,
    conn: Rc<Connection>,
    mut r: Box<Request>,
    pending: Box<dyn Pending>,
) {
    // From here on the client waits, so hints are worth sending.
    // An interim response is worth its bytes only to somebody who waits.
    r.reply.interim = Some(conn.clone());
    r.before_waiting();
    thread.set_asked(index);
    let parked = Box::new(Parked { r: Logged::new(r), pending });
    // First asked at the end of the turn, so that what all of its requests ask back ends leaves together.
    thread.burst.borrow_mut().begun.push((index, conn, parked));
}

/// Something has happened. A panic costs the one connection.
pub fn wake(thread: &Rc<Thread>, index: u32, conn: Rc<Connection>, parked: Box<Parked>) {
    // As in the driver: one request must not end the thread.
    let id = conn.id;
    let work = AssertUnwindSafe(|| ask(thread, index, conn, parked));
    if catch_unwind(work).is_err() {
        hand_over::panicked(thread, id);
        thread.release(index);
    }
}

/// The end of a turn: sends what has come together.
pub fn send_all(thread: &Rc<Thread>) {
    send_answers(thread);
    // Taken out, since what is asked may lead back into the burst (`answer`).
    let mut begun = std::mem::take(&mut thread.burst.borrow_mut().begun);
    for (index, conn, parked) in begun.drain(..) {
        wake(thread, index, conn, parked);
    }
    // For its memory. Nothing was parked meanwhile: that happens while the driver reads, and this is the end of its turn.
    thread.burst.borrow_mut().begun = begun;
    // Whoever was answered at once.
    send_answers(thread);
}

fn send_answers(thread: &Rc<Thread>) {
    let (mut answers, mut out) = {
        let mut burst = thread.burst.borrow_mut();
        if burst.answers.is_empty() {
            return;
        }
        (std::mem::take(&mut burst.answers), std::mem::take(&mut burst.out))
    };
    for Answer { index, conn, bytes, apart, stand } in answers.drain(..) {
        send(thread, index, conn, &out[bytes], apart, stand);
    }
    out.clear();
    let mut burst = thread.burst.borrow_mut();
    burst.answers = answers;
    // One turn with large answers must not hold its memory from then on.
    if out.capacity() <= BURST_BYTES_MAX * 2 {
        burst.out = out;
    }
}

fn ask(thread: &Rc<Thread>, index: u32, conn: Rc<Connection>, mut parked: Box<Parked>) {
    // Made once per connection and kept there, so that waiting allocates nothing.
    // A waker that is cloned is a count and no memory.
    let waker = conn.waker(|| waker(thread.key_of(index)));
    loop {
        let turn = parked.pending.poll(&mut parked.r, &mut Context::from_waker(waker));
        // It waits on: the entry keeps it until the back end or the client moves.
        let Poll::Ready(flow) = turn else { return thread.set_parked(index, parked) };
        thread.files.must_confirm();
        let run = phases::resume(&mut parked.r, flow);
        if let Run::Pending(next) = run {
            parked.r.before_waiting();
            parked.pending = next;
            continue;
        }
        let Parked { r, pending } = *parked;
        // What it holds of the request goes before that.
        // A lease or a connection of a back end is free before the answer is written.
        drop(pending);
        let Some(r) = r.release() else { return thread.release(index) };
        return match run {
            Run::Respond if can_inline(&r) => answer(thread, index, conn, r),
            // A body that must be pulled, or that is too large for here, needs a task.
            run => serve::spawn(thread, index, conn, Vec::new(), Begin::Request(r, run)),
        };
    }
}

/// A response that is complete in memory: it leaves with the end of the turn.
fn answer(thread: &Rc<Thread>, index: u32, conn: Rc<Connection>, r: Box<Request>) {
    let mut burst = thread.burst.borrow_mut();
    // The lock of the cell is held for this function only; nothing that is called may come back to it.
    let burst = &mut *burst;
    let start = burst.out.len();
    // Interim responses that the socket has not taken stand before the answer.
    burst.out.append(&mut conn.take_unsent());
    let (stand, apart) = hot::respond(thread, r, None, &mut burst.out);
    let bytes = start..burst.out.len();
    burst.answers.push(Answer { index, conn, bytes, apart, stand });
}

/// Sends a response in two parts; then the connection is as it was before the request.
fn send(thread: &Rc<Thread>, index: u32, conn: Rc<Connection>, bytes: &[u8], apart: Apart, stand: Stand) {
    // The next request, or a part of it, had come before this one began to wait.
    // The client has sent more while it waited: the connection must not be given away or closed cleanly.
    let has_input = !conn.input.borrow().is_empty();
    let written = match hot::write(thread, &conn, bytes, apart.as_deref(), &stand, !has_input) {
        Ok(count) => count,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        Err(_) => return thread.release(index),
    };
    let apart = apart.as_ref().map_or(&[][..], |apart| &apart.bytes);
    let stand = match stand {
        Stand::Idle { keepalive_ms } if written == bytes.len() + apart.len() => {
            let until_ms = clock::mono_ms() + keepalive_ms;
            if !has_input {
                return thread.rest(index, &conn, until_ms);
            }
            thread.set_idle(index, until_ms);
            return hand_over::go_on(thread, index);
        }
        Stand::Close { clean } => Stand::Close { clean: clean && !has_input },
        stand => stand,
    };
    let at = Arrived { index, conn, full: false, is_backlog: false };
    hot::settle_rest(thread, at, stand, b"", [bytes, apart], written);
}
