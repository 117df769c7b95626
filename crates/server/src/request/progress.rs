//! How far a request has come: what logs and metrics tell of it.

use brisk_net::clock::Now;
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

/// How many bytes went out, for logs and metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    pub head_bytes: u64,
    pub body_bytes: u64,
}

/// See the module's head.
#[derive(Default)]
pub struct Progress {
    pub started: Now,
    /// The back end that is being asked, as messages name it.
    pub upstream: Option<Rc<dyn fmt::Display>>,
    /// Bytes of body that were received, framing included.
    pub body_received: Cell<u64>,
    pub sent: Sent,
}
