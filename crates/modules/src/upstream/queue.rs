//! `queue`: requests that no server can take now wait for one, first come, first served.
//!
//! The order is the group's; a request holds a ticket. Time-out, a client that goes away and success all end in
//! dropping the place.

use super::vars;
use brisk_balance::Group;
use brisk_net::{Sleep, clock, sleep_until};
use brisk_server::request::Request;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A request's place in the queue; dropping it gives the place up.
struct Place {
    group: Arc<Group>,
    ticket: u64,
    deadline_ms: u64,
    /// Until then.
    sleep: Sleep,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.group.dequeue(self.ticket);
    }
}

/// The request got its server.
pub(super) fn leave(r: &mut Request) {
    if r.state.visit.get_mut::<Option<Place>>().take().is_some() {
        vars::left(r);
    }
}

/// Ready with true when a server may be free for this request, and with false if the queue is full or the request has
/// waited long enough.
pub(super) fn poll_place(
    group: &Arc<Group>,
    max: usize,
    limit: Duration,
    r: &mut Request,
    cx: &mut Context<'_>,
) -> Poll<bool> {
    if r.state.visit.get_mut::<Option<Place>>().is_none() {
        // Its waker is left below, by `is_first`.
        let Some(ticket) = group.enqueue(max, Waker::noop()) else { return Poll::Ready(false) };
        let deadline_ms = clock::mono_ms() + limit.as_millis() as u64;
        vars::queued(r);
        let sleep = sleep_until(deadline_ms);
        *r.state.visit.get_mut::<Option<Place>>() =
            Some(Place { group: group.clone(), ticket, deadline_ms, sleep });
    }
    let Some(place) = r.state.visit.get_mut::<Option<Place>>() else { return Poll::Ready(false) };
    if clock::mono_ms() >= place.deadline_ms {
        leave(r);
        return Poll::Ready(false);
    }
    // Only the first looks for a server: the others would take what it waits for.
    let is_first = place.group.is_first(place.ticket, cx.waker());
    if is_first && place.group.has_place(clock::mono_ms()) {
        return Poll::Ready(true);
    }
    // A request whose time is over asks once more, and is refused then.
    Pin::new(&mut place.sleep).poll(cx).map(|()| true)
}
