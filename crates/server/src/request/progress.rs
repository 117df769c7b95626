//! How far a request has come: what logs and metrics tell of it.

use brisk_net::clock::Now;
use std::cell::Cell;

/// How many bytes went out, for logs and metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    /// Bytes of the response's head.
    pub head_bytes: u64,
    /// Bytes of the body with its framing.
    pub body_bytes: u64,
}

/// See the module's head.
#[derive(Default)]
pub struct Progress {
    /// When its first byte came.
    pub started: Now,
    /// Bytes of body that were received, framing included.
    pub body_received: Cell<u64>,
    /// What was sent of the response so far.
    pub sent: Sent,
}
