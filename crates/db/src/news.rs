//! How a session reads a view without a lock, and learns of another one.

use crate::cluster::Cluster;
use crate::view::{NoPrimary, View};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A session's own view of a cluster. While nothing has changed, looking at it costs one atomic load.
pub struct News {
    cluster: Arc<Cluster>,
    version: u64,
    view: Arc<View>,
    /// The number of the changes of roles that this session knows of.
    roles: u64,
    place: Option<Place>,
}

/// Where this session waits.
struct Place {
    number: u64,
    /// The waker that is there, until roles change the next time.
    waker: Waker,
}

/// Who is to be woken when roles change.
#[derive(Default)]
pub(crate) struct Waiters(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    next: u64,
    wakers: HashMap<u64, Waker>,
}

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes everybody, outside of the lock.
    pub fn wake(&self) {
        let woken = std::mem::take(&mut self.lock().wakers);
        woken.into_values().for_each(Waker::wake);
    }

    fn put(&self, number: Option<u64>, waker: &Waker) -> u64 {
        let mut waiting = self.lock();
        let number = number.unwrap_or_else(|| {
            waiting.next += 1;
            waiting.next
        });
        waiting.wakers.insert(number, waker.clone());
        number
    }
}

impl News {
    pub(crate) fn new(cluster: Arc<Cluster>) -> News {
        let roles = cluster.roles();
        let (version, view) = cluster.versioned();
        News { cluster, version, view, roles, place: None }
    }

    /// The cluster that it is about.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// How things are now.
    pub fn view(&mut self) -> &Arc<View> {
        if self.cluster.version() != self.version {
            (self.version, self.view) = self.cluster.versioned();
        }
        &self.view
    }

    /// Ready when roles have changed, or who may be read from, since this was ready the last time. The task is woken then.
    pub fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = self.cluster.roles();
        if now != self.roles {
            return self.changed(now);
        }
        if self.place.as_ref().is_some_and(|place| place.waker.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        let number = self.cluster.waiters.put(self.place.as_ref().map(|place| place.number), cx.waker());
        self.place = Some(Place { number, waker: cx.waker().clone() });
        // It may have changed before the waker was in its place.
        let now = self.cluster.roles();
        if now == self.roles { Poll::Pending } else { self.changed(now) }
    }

    /// Ready when every server was asked once, so that a primary could be known. The task is woken then.
    pub fn poll_asked(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.view().primary().is_err_and(|why| why == NoPrimary::NotAsked) {
            if self.poll_changed(cx).is_pending() {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }

    fn changed(&mut self, now: u64) -> Poll<()> {
        self.roles = now;
        self.leave();
        Poll::Ready(())
    }

    fn leave(&mut self) {
        if let Some(place) = self.place.take() {
            self.cluster.waiters.lock().wakers.remove(&place.number);
        }
    }
}

impl Drop for News {
    fn drop(&mut self) {
        self.leave();
    }
}
