//! `queue`: requests that no server can take now wait for one, first come, first served.

use super::vars;
use brisk_balance::Group;
use brisk_net::clock;
use brisk_server::request::Request;
use brisk_upstream::backend::Wait;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// A request's place in the queue; dropping it gives the place up.
struct Place {
    group: Arc<Group>,
    ticket: u64,
    deadline_ms: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.group.dequeue(self.ticket);
    }
}

/// The request got its server.
pub(super) fn leave(r: &mut Request) {
    if r.slot::<Option<Place>>().take().is_some() {
        vars::left(r);
    }
}

/// Waits until a server may be free for this request; `None`: the queue is full, or it has waited long enough.
pub(super) fn wait<'a>(
    group: &Arc<Group>,
    max: usize,
    limit: Duration,
    r: &'a mut Request,
) -> Option<Wait<'a>> {
    if r.slot::<Option<Place>>().is_none() {
        let ticket = group.enqueue(max, Waker::noop())?;
        let deadline_ms = clock::mono_ms() + limit.as_millis() as u64;
        vars::queued(r);
        *r.slot::<Option<Place>>() = Some(Place { group: group.clone(), ticket, deadline_ms });
    }
    let is_over = |place: &Place| clock::mono_ms() >= place.deadline_ms;
    if r.slot::<Option<Place>>().as_ref().is_some_and(is_over) {
        leave(r);
        return None;
    }
    let place = r.slot::<Option<Place>>().as_ref()?;
    let left = Duration::from_millis(place.deadline_ms.saturating_sub(clock::mono_ms()));
    let turn = poll_fn(|cx| {
        let is_ours = place.group.is_first(place.ticket, cx.waker());
        if is_ours && place.group.has_place(clock::mono_ms()) { Poll::Ready(()) } else { Poll::Pending }
    });
    Some(Box::pin(async move {
        // Whoever comes too late finds that out by asking once more.
        let _ = brisk_net::timeout(left, turn).await;
    }))
}
