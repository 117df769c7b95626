//! Requests that wait for a place at the servers of a group, in one [`Line`] of all threads: for a process of a PHP pool, or for one of the
//! connections that an upstream's servers may have (`queue`).
//!
//! A place that becomes free rings the group's bell, in the thread that has freed it, and the line says which request is called. A request
//! holds a [`Place`]: time-out, a client that goes away and success all end in dropping it.

use crate::limits::WAITING_LOOK_MS;
use brisk_balance::{Group, Line, Origin, Room, Verdict};
use brisk_net::{Sleep, clock, sleep_until};
use brisk_server::request::Request;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// The line of one group.
pub(crate) struct Waiting {
    line: Mutex<Line<Waker>>,
    /// How many wait, for those who need not lock the line to learn that none does.
    count: AtomicUsize,
    /// Requests that have waited for longer may be turned away for others.
    target: Duration,
}

impl Waiting {
    /// A line in which nobody waits. It is to be the group's bell ([`Group::ring`]).
    pub fn new(target: Duration) -> Arc<Waiting> {
        let line = Mutex::new(Line::new(target));
        Arc::new(Waiting { line, count: AtomicUsize::new(0), target })
    }

    /// The line itself. While it is locked the group is never asked: its bell is rung with the group locked.
    pub fn lock(&self) -> MutexGuard<'_, Line<Waker>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether a request may take a place if there is one. Where others wait, one that comes gets behind them, and one in the line waits for
    /// its turn.
    pub fn may_choose(&self, r: &mut Request) -> bool {
        if self.len() == 0 {
            return true;
        }
        let place = place(r);
        place.as_ref().is_some_and(|place| self.lock().is_next(place.ticket))
    }

    /// Begins to wait for a place at the group, for `limit` at most; `room` is asked how many may. `None`: there is no place in the line.
    pub fn join(
        self: &Arc<Self>,
        group: &Arc<Group>,
        host: u32,
        limit: Duration,
        room: impl FnOnce(&Line<Waker>, u64) -> Room,
        waker: &Waker,
    ) -> Option<Place> {
        let now_ms = clock::mono_ms();
        let mut line = self.lock();
        let room = room(&line, now_ms);
        let shed = line.make_room(room, host, now_ms).cloned();
        let ticket = line.join(room, Origin { host, thread: this_thread() }, now_ms, waker.clone());
        self.changed(line);
        if let Some(waker) = shed {
            waker.wake();
        }
        let after = |time: Duration| now_ms.saturating_add(time.as_millis().min(u128::from(u64::MAX)) as u64);
        let deadline_ms = after(limit);
        let sleep = sleep_until(deadline_ms.min(after(self.target).saturating_add(1)));
        Some(Place { waiting: self.clone(), group: group.clone(), ticket: ticket?, deadline_ms, sleep })
    }

    /// For a free place, which one that was called may be about to take.
    fn call_if_nobody_is(self: &Arc<Self>) {
        if !self.lock().is_calling() {
            self.wake_by_ref();
        }
    }

    /// Gives a locked line back in which somebody has come or gone.
    fn changed(&self, line: MutexGuard<'_, Line<Waker>>) {
        self.count.store(line.len(), Ordering::Relaxed);
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    /// Called with the group locked, or by who has just looked whether it has a place: who joins the line looks at that with the group locked,
    /// afterwards, so a number that is read too early misses nobody.
    fn wake_by_ref(self: &Arc<Self>) {
        if self.len() == 0 {
            return;
        }
        let called = self.lock().call(this_thread(), clock::mono_ms()).cloned();
        if let Some(waker) = called {
            waker.wake();
        }
    }
}

/// A number of this thread's own.
fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static OWN: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    OWN.with(|own| *own)
}

/// A request's place in the line; dropping it gives the place up.
pub(crate) struct Place {
    waiting: Arc<Waiting>,
    group: Arc<Group>,
    ticket: u64,
    deadline_ms: u64,
    /// Until it is to look again: at the target, and at the deadline.
    sleep: Sleep,
}

/// Where a request keeps its place.
pub(crate) fn place(r: &mut Request) -> &mut Option<Place> {
    r.state.visit.get_mut()
}

impl Place {
    /// Its host has had its turn: the request has got a server.
    pub fn served(&self) {
        self.waiting.lock().served(self.ticket);
    }

    /// Ready with true when it is the request's turn and a server has a place, and with false if it is turned away or has waited for as long
    /// as it may. `usual` says how many may wait for longer than the target.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        usual: impl FnOnce(&Line<Waker>, u64) -> usize,
    ) -> Poll<bool> {
        let now_ms = clock::mono_ms();
        let verdict = self.ask(now_ms, cx.waker(), usual);
        if verdict == Verdict::Shed || now_ms >= self.deadline_ms {
            return Poll::Ready(false);
        }
        match (verdict, self.group.has_place(now_ms)) {
            (Verdict::First, true) => return Poll::Ready(true),
            // One that has come since may be of a host whose turn is first: the one that was woken for the free place is not who takes it.
            (_, true) => self.waiting.call_if_nobody_is(),
            (Verdict::First, false) => {
                self.waiting.lock().recall(self.ticket);
                // One that has become free in between has called somebody else, or nobody.
                if self.group.has_place(now_ms) {
                    self.waiting.call_if_nobody_is();
                }
            }
            (_, false) => {}
        }
        while Pin::new(&mut self.sleep).poll(cx).is_ready() {
            if clock::mono_ms() >= self.deadline_ms {
                return Poll::Ready(false);
            }
            // That a server's time out of service is over is told by nobody.
            self.sleep = sleep_until(self.deadline_ms.min(clock::mono_ms() + WAITING_LOOK_MS));
        }
        Poll::Pending
    }

    /// What the request is to do now. Others whose time is over are told.
    fn ask(&self, now_ms: u64, waker: &Waker, usual: impl FnOnce(&Line<Waker>, u64) -> usize) -> Verdict {
        let mut line = self.waiting.lock();
        let usual = usual(&line, now_ms);
        let late: Vec<Waker> = line.shed_late(usual, now_ms).into_iter().cloned().collect();
        let verdict = line.ask(self.ticket, |have| have.clone_from(waker));
        self.waiting.changed(line);
        late.into_iter().for_each(Waker::wake);
        verdict
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let now_ms = clock::mono_ms();
        let mut line = self.waiting.lock();
        line.leave(self.ticket, now_ms);
        self.waiting.changed(line);
        // It may have been called for a place that it does not take.
        if self.group.has_place(now_ms) {
            self.waiting.wake_by_ref();
        }
    }
}
