//! Idle connections of other threads. Each thread uses its own; only who has none asks another one, which passes a
//! descriptor on: cheaper for the back end than one connection more. Nobody waits for long: after [`PATIENCE`] a new
//! connection is made.
//!
//! TLS sessions and HTTP/2 connections stay where they are: more than a descriptor belongs to them.

use crate::backend::{Backend, Keepalive};
use crate::limits::LENT_ASKED_MAX;
use crate::link::{Key, Link, Process, Stream};
use crate::occupancy::Connected;
use crate::pool;
use brisk_balance::Endpoint;
use brisk_net::{Io, Loop, Mailbox, timeout};
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

/// How long a thread may take to answer: it may be busy.
/// Longer than most turns of a loop, and less than a connect over a network costs.
const PATIENCE: Duration = Duration::from_millis(5);

/// A thread that may have idle connections.
pub(crate) struct Lender {
    mailbox: Arc<Mailbox>,
    /// Its idle connections, to whatever server.
    pub idle: AtomicUsize,
}

static LENDERS: RwLock<Vec<Weak<Lender>>> = RwLock::new(Vec::new());

impl Lender {
    /// This thread, from now on known to the others.
    pub fn register() -> Arc<Lender> {
        let this = Arc::new(Lender { mailbox: Loop::current().mailbox().clone(), idle: AtomicUsize::new(0) });
        // A panic while it is held leaves a whole list.
        let mut all = LENDERS.write().unwrap_or_else(PoisonError::into_inner);
        // Threads that have ended: their pools, which hold the lenders, are gone.
        all.retain(|have| have.strong_count() > 0);
        all.push(Arc::downgrade(&this));
        this
    }
}

/// What passes from thread to thread.
/// A descriptor can be passed on, sockets registered with a loop cannot: the other thread registers it anew.
struct Passed {
    fd: OwnedFd,
    requests: u64,
    started_ms: u64,
    occupancy: Option<Connected>,
    process: Option<Process>,
}

/// One question and its answer.
enum Reply {
    Waiting(Waker),
    Passed(Passed),
    /// There is none; or there was, and it was taken.
    Nothing,
}

/// Whether it is worth asking: some thread has a connection to the group that can be passed on.
pub(crate) fn may_have(key: &Key, group: &Arc<dyn Backend>, keepalive: &Keepalive) -> bool {
    // A hint: the numbers are read without locks, and the other thread looks for itself.
    // A session of TLS or HTTP/2 is state of the thread's memory, which a descriptor does not carry.
    let stays = key.tls.is_some() || key.dialect == crate::http2::DIALECT;
    keepalive.idle_max > 0 && !stays && group.idle().load(Ordering::Relaxed) > 0 && others().next().is_some()
}

/// Takes a connection of another thread, if one has any that fits.
pub(crate) async fn take(key: Key) -> Option<Box<Link>> {
    // Bounded, since each costs a wake-up of another thread.
    for lender in others().take(LENT_ASKED_MAX).collect::<Vec<_>>() {
        if let Some(passed) = ask(&lender, &key).await {
            let io = match key.endpoint {
                // By the peer's address, since the descriptor does not say what it is.
                Endpoint::Unix(_) => Ok(Io::local(passed.fd)),
                Endpoint::Ip(_) => Io::new(passed.fd),
            };
            // It could not be registered here: it is closed, and the next thread is asked.
            let Ok(io) = io else { continue };
            let mut link = Box::new(Link::new(Stream::from(io), key.clone()));
            // Age and requests go with it, or lending would make it younger.
            (link.requests, link.started_ms) = (passed.requests, passed.started_ms);
            (link.occupancy, link.process, link.is_reused) = (passed.occupancy, passed.process, true);
            return Some(link);
        }
    }
    None
}

/// Who may be asked.
fn others() -> impl Iterator<Item = Arc<Lender>> {
    let own = Loop::current().mailbox().clone();
    let all: Vec<_> = {
        let all = LENDERS.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(Weak::upgrade).collect()
    };
    let may_have =
        move |one: &Arc<Lender>| one.idle.load(Ordering::Relaxed) > 0 && !Arc::ptr_eq(&one.mailbox, &own);
    all.into_iter().filter(may_have)
}

async fn ask(lender: &Lender, key: &Key) -> Option<Passed> {
    // No waker yet: the thread that is asked may answer before the first poll, which then finds the answer.
    let asked = Arc::new(Mutex::new(Reply::Waiting(Waker::noop().clone())));
    let (to, key) = (asked.clone(), key.clone());
    lender.mailbox.call(move || {
        // The asking request may be gone: then nothing is taken away here.
        let passed = if Arc::strong_count(&to) > 1 { pass(&key) } else { None };
        let answer = passed.map_or(Reply::Nothing, Reply::Passed);
        let before = std::mem::replace(&mut *to.lock().unwrap_or_else(PoisonError::into_inner), answer);
        if let Reply::Waiting(waker) = before {
            waker.wake();
        }
    });
    let answered = poll_fn(move |cx| {
        // Held for a moment only, and never while anything is awaited.
        let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *asked, Reply::Nothing) {
            Reply::Passed(passed) => Poll::Ready(Some(passed)),
            Reply::Nothing => Poll::Ready(None),
            Reply::Waiting(_) => {
                *asked = Reply::Waiting(cx.waker().clone());
                Poll::Pending
            }
        }
    });
    // What is passed on after that is closed with the answer that is not taken.
    timeout(PATIENCE, answered).await.ok().flatten()
}

/// On the thread that was asked.
fn pass(key: &Key) -> Option<Passed> {
    // Only this thread's pool is touched, on this thread.
    let mut link = pool::take(key)?;
    // The link is dropped, which takes it out of this thread's loop; the descriptor is a copy.
    let fd = link.stream.hand_over().ok()?;
    let (occupancy, process) = (link.occupancy.take(), link.process.take());
    Some(Passed { fd, requests: link.requests, started_ms: link.started_ms, occupancy, process })
}
