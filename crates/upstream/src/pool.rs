//! Idle connections to back ends. Each thread keeps its own; how many there are is counted over all threads. Who has none
//! takes another thread's ([`lend`](crate::lend)).
//!
//! A connection here belongs to no request: it has no lease at its peer, and no codec. What is not known to be clean is
//! closed.

use crate::backend::{Backend, Keepalive};
use crate::lend::Lender;
use crate::link::{Alarm, Key, Link};
use crate::occupancy::Stay;
use brisk_net::{Sleep, clock, sleep_until};
use brisk_server::thread::Thread;
use std::cell::{Cell, OnceCell, RefCell};
use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

struct Idle {
    /// Taken by whoever uses it next.
    link: Option<Box<Link>>,
    /// Counted by its `idle` over all threads: `keepalive` is a number for the process.
    group: Arc<dyn Backend>,
    /// On the monotonic clock: an idle connection does not live longer because somebody set the clock.
    until_ms: u64,
    /// Where connections occupy processes: ends when another connection waits for one.
    stay: Option<Stay>,
    /// When it is asked once more whether it may stay. A connection that waited when this one became idle may have
    /// seen no idle one, and nobody else would close this one for it.
    asked_again_ms: u64,
}

impl Idle {
    fn has_ended(&self) -> bool {
        // An alarm that is missing is one that cannot ring: the end would go unnoticed.
        let alarm = self.link.as_ref().and_then(|link| link.alarm.as_ref());
        alarm.is_none_or(|alarm| alarm.rung.load(Ordering::Relaxed))
            || self.stay.as_ref().is_some_and(Stay::is_over)
    }
}

impl Idle {
    /// Whether it is in the way of a connection that has waited since before this one was idle.
    fn is_in_the_way(&mut self, now_ms: u64) -> bool {
        if self.asked_again_ms > now_ms {
            return false;
        }
        // Once: a connection that began to wait later has seen this one, and has it closed by itself.
        self.asked_again_ms = u64::MAX;
        self.stay.as_ref().is_some_and(|stay| !stay.may_stay(now_ms))
    }

    /// When the keeper has to look at it.
    fn next_ms(&self) -> u64 {
        self.until_ms.min(self.asked_again_ms)
    }

    /// Whether what has happened was not the end, but frames that an HTTP/2 server sends between exchanges.
    fn settles(&mut self) -> bool {
        let Some(link) = &mut self.link else { return false };
        if self.stay.as_ref().is_some_and(Stay::is_over) || !link.is_settled() {
            return false;
        }
        let Some(alarm) = &link.alarm else { return false };
        // Before looking: what comes afterwards rings again.
        alarm.rung.store(false, Ordering::Relaxed);
        let waker = Waker::from(alarm.clone());
        link.stream.poll_readable(&mut Context::from_waker(&waker)).is_pending()
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        // With the value, whatever takes it out: taken, closed for its age, or with the thread.
        self.group.idle().fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Pool {
    /// A stack: the last one was used last. Connections that are rarely needed grow old at its bottom and are closed.
    idle: RefCell<Vec<Idle>>,
    keeper: RefCell<Option<Waker>>,
    /// When the keeper wakes by itself.
    wakes_ms: Cell<u64>,
    /// The configuration that the keeper has last swept for.
    generation: Cell<Option<u64>>,
    /// What others know of it; made with the first connection that is kept.
    lender: OnceCell<Arc<Lender>>,
}

thread_local! {
    static POOL: Pool = Pool::default();
}

/// Takes the connection that was used last, if there is one that is still open.
pub(crate) fn take(key: &Key) -> Option<Box<Link>> {
    POOL.with(|pool| {
        loop {
            // Linear: a thread has few idle connections, and the one that fits is mostly the last.
            let mut idle = pool.idle.borrow_mut();
            let fits = |have: &Idle| have.link.as_ref().is_some_and(|link| link.key == *key);
            // From the end, where the one that was used last is.
            let at = idle.iter().rposition(fits)?;
            let mut found = idle.remove(at);
            pool.tell(idle.len());
            // Not borrowed while a link is dropped, whose destructor may lead here.
            drop(idle);
            // A peer may have closed it, or said something unasked, since the keeper last looked.
            if let Some(mut link) = found.link.take()
                // A connection that has ended is dropped here, and the next one is looked at.
                && link.is_quiet()
            {
                return Some(link);
            }
        }
    })
}

/// The same, if connections are kept at all; it is marked as used before.
pub fn take_if_kept(key: &Key, keepalive: &Keepalive) -> Option<Box<Link>> {
    if keepalive.idle_max == 0 {
        return None;
    }
    let mut link = take(key)?;
    link.is_reused = true;
    Some(link)
}

/// Keeps a connection that has done its work, if it may be kept.
pub fn put(mut link: Box<Link>, group: &Arc<dyn Backend>, keepalive: &Keepalive) {
    let now = clock::mono_ms();
    if keepalive.idle_max == 0
        || link.requests >= keepalive.requests_max
        || now.saturating_sub(link.started_ms) > keepalive.time_ms
        // Connections of an earlier configuration are not kept: its TLS settings and groups may be other ones.
        // Draining threads keep nothing: they will not ask a back end again.
        || Thread::current()
            .is_none_or(|thread| thread.is_draining() || thread.generation() != link.generation)
        || link.occupancy.as_ref().is_some_and(|occupancy| !occupancy.is_free(now))
        // Bytes that came behind the answer would be taken for the answer of the next request.
        || !link.is_quiet()
    {
        return;
    }
    POOL.with(|pool| {
        // Counted first, so that two threads cannot both find room for the last one.
        if group.idle().fetch_add(1, Ordering::Relaxed) >= keepalive.idle_max {
            // The oldest of ours makes room; if there is none, others keep theirs.
            let mut idle = pool.idle.borrow_mut();
            let oldest = idle.iter().position(|have| have.group.id() == group.id());
            let removed = oldest.map(|at| idle.remove(at));
            drop(idle);
            // Taken back: nothing of ours was replaced.
            if removed.is_none() {
                group.idle().fetch_sub(1, Ordering::Relaxed);
                return;
            }
        }
        let until_ms = now + keepalive.timeout_ms;
        let keeper = pool.keeper(until_ms);
        let stay = link.occupancy.as_ref().map(|occupancy| Stay::begin(occupancy, &keeper));
        // Made once per connection and used again: an idle turn costs no allocation.
        let alarm =
            link.alarm.get_or_insert_with(|| Arc::new(Alarm { rung: AtomicBool::new(false), keeper }));
        alarm.rung.store(false, Ordering::Relaxed);
        let waker = Waker::from(alarm.clone());
        // Registers the alarm; what it finds is looked at by the next `take`.
        let _ = link.stream.poll_readable(&mut Context::from_waker(&waker));
        // Behind `Stay::begin`: who begins to wait from here on sees this one.
        let asked_again_ms = stay.as_ref().map_or(u64::MAX, |stay| stay.judged_ms(now));
        if asked_again_ms < until_ms {
            pool.keeper(asked_again_ms);
        }
        let idle = Idle { link: Some(link), group: group.clone(), until_ms, stay, asked_again_ms };
        // Another connection may have begun to wait meanwhile, and have seen no idle one.
        if idle.stay.as_ref().is_none_or(|stay| stay.may_stay(now)) {
            let mut all = pool.idle.borrow_mut();
            all.push(idle);
            pool.tell(all.len());
        }
    });
}

impl Pool {
    /// Tells other threads how many idle connections there are.
    fn tell(&self, count: usize) {
        self.lender.get_or_init(Lender::register).idle.store(count, Ordering::Relaxed);
    }

    /// The task that closes what has ended or has been idle for too long; it is told of a new end.
    fn keeper(&self, until_ms: u64) -> Waker {
        // Begun with the first connection that is kept, and never ended: it is one task per thread.
        if self.keeper.borrow().is_none() {
            // It is polled by this call, so its waker is there afterwards.
            brisk_net::spawn(keep());
        }
        let keeper = self.keeper.borrow().clone().unwrap_or_else(|| Waker::noop().clone());
        if self.wakes_ms.get() > until_ms {
            keeper.wake_by_ref();
        }
        keeper
    }

    /// Closes what has ended, and what belongs to an earlier configuration: keys name groups of one configuration, so
    /// no request could use it any more. Gives the time of the next end.
    fn sweep(&self) -> u64 {
        let now = clock::mono_ms();
        let generation = self.generation.get();
        let is_old = |one: &Idle| one.link.as_ref().is_none_or(|link| Some(link.generation) != generation);
        // Dropped when the borrow has ended: the destructor of a connection may lead back into the pool.
        // Declared before `idle`: locals are dropped in the reverse order.
        let mut gone = Vec::new();
        let mut idle = self.idle.borrow_mut();
        let mut at = 0;
        while at < idle.len() {
            let one = &mut idle[at];
            if (one.has_ended() && !one.settles())
                || one.until_ms <= now
                || one.is_in_the_way(now)
                || is_old(one)
            {
                gone.push(idle.remove(at));
            } else {
                at += 1;
            }
        }
        self.tell(idle.len());
        idle.iter().map(Idle::next_ms).min().unwrap_or(u64::MAX)
    }
}

async fn keep() {
    let mut sleep: Option<(u64, Sleep)> = None;
    poll_fn(move |cx| {
        POOL.with(|pool| {
            *pool.keeper.borrow_mut() = Some(cx.waker().clone());
            // Woken by each reload, so that connections of the old configuration do not stay until they age.
            if let Some(thread) = Thread::current()
                // A switch wakes the keeper once; it asks to be woken again by the next one.
                && pool.generation.replace(Some(thread.generation())) != Some(thread.generation())
            {
                thread.wake_at_switch(cx.waker().clone());
            }
            let next = pool.sweep();
            pool.wakes_ms.set(next);
            if next == u64::MAX {
                sleep = None;
                return Poll::<()>::Pending;
            }
            // The timer is kept while its time stays the same: the keeper is woken by every connection that comes.
            if sleep.as_ref().is_none_or(|(at, _)| *at != next) {
                sleep = Some((next, sleep_until(next)));
            }
            if let Some((_, sleep)) = &mut sleep
                && Pin::new(sleep).poll(cx).is_ready()
            {
                // The time has come within this poll: swept again at once.
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        })
    })
    .await;
}
