//! The end of a request, whichever protocol it came by.
//!
//! Each request is logged once, wherever it ends: it is in a [`Logged`] from the moment on in which it may be dropped
//! half-way.

use crate::metrics;
use crate::request::Request;
use brisk_net::sleep;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// The log phase.
#[inline]
pub fn finish(r: &Request) {
    // Before the log handlers: a slow log must not count to the request's time.
    metrics::requests::record(r);
    crate::dlog!(r, "http log handler");
    let live = &r.live;
    for handler in &live.snap.location(r.route.loc).plan.log {
        // All of them, in the order of modules. None can stop another one.
        handler.log(r);
    }
}

/// The end of a subrequest that is to be logged (`log_subrequest`). What clients have asked for is counted without it.
pub(crate) fn finish_subrequest(r: &Request) {
    crate::dlog!(r, "http log handler");
    let handlers = &r.snap().location(r.route.loc).plan.log;
    handlers.iter().filter(|handler| handler.logs_subrequests()).for_each(|handler| handler.log(r));
}

/// `auth_delay`: how long the answer to a guess at a password is held back.
pub(crate) fn refusal_delay(r: &Request) -> Duration {
    // The time to check a password does not show in the answer, if the delay is longer than the check.
    if r.resp.status == 401 { r.core().auth_delay } else { Duration::ZERO }
}

/// Holds it back.
pub(crate) async fn delay_refusal(r: &Request) {
    let delay = refusal_delay(r);
    if !delay.is_zero() {
        sleep(delay).await;
    }
}

/// A request that is logged even if its task is dropped half-way, because the time to finish was over.
pub(crate) struct Logged(Option<Box<Request>>);

impl Logged {
    /// The request is logged when this is dropped.
    pub fn new(r: Box<Request>) -> Logged {
        // From here on every way out leads through `finish`, or through `drop`.
        Logged(Some(r))
    }

    /// Logs it and gives it back; `None` the second time.
    pub fn finish(&mut self) -> Option<Box<Request>> {
        let r = self.0.take()?;
        finish(&r);
        Some(r)
    }

    /// Gives it back to whoever logs it then; `None` after [`Logged::finish`].
    pub fn release(mut self) -> Option<Box<Request>> {
        self.0.take()
    }
}

impl Deref for Logged {
    type Target = Request;

    fn deref(&self) -> &Request {
        self.0.as_deref().expect("taken only by `finish`")
    }
}

impl DerefMut for Logged {
    fn deref_mut(&mut self) -> &mut Request {
        self.0.as_deref_mut().expect("taken only by `finish`")
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        // After a panic its state cannot be trusted; the panic itself is logged.
        if !std::thread::panicking() {
            self.finish();
        }
    }
}
