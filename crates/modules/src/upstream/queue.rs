//! `queue`: requests that no server can take now wait for one, first come, first served.

use super::vars;
use crate::waiting::{Waiting, place};
use brisk_balance::{Group, Room};
use brisk_server::request::Request;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Waiting for long is no reason to turn a request away: its own time is.
pub(super) const NO_TARGET: Duration = Duration::MAX;

/// The request got its server, or gives up.
pub(super) fn leave(r: &mut Request) {
    if place(r).take().is_some() {
        vars::left(r);
    }
}

/// Ready with true when a server may be free for this request, and with false if the queue is full or the request has
/// waited long enough.
pub(super) fn poll_place(
    waiting: &Arc<Waiting>,
    group: &Arc<Group>,
    (max, limit): (usize, Duration),
    r: &mut Request,
    cx: &mut Context<'_>,
) -> Poll<bool> {
    if place(r).is_none() {
        let joined = waiting.join(group, 0, limit, |_, _| Room::of(max), cx.waker());
        let Some(joined) = joined else { return Poll::Ready(false) };
        vars::queued(r);
        *place(r) = Some(joined);
    }
    let Some(place) = place(r) else { return Poll::Ready(false) };
    let polled = place.poll(cx, |_, _| usize::MAX);
    if polled == Poll::Ready(false) {
        leave(r);
    }
    polled
}
