//! What a loop knows of a registered descriptor: its readiness, and what is told of events.

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::task::Waker;

/// Readiness bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready(pub u8);

impl Ready {
    /// There may be something to read.
    pub const READ: Ready = Ready(1);
    /// There may be room to write.
    pub const WRITE: Ready = Ready(2);
    /// The peer has closed its side, or the connection has failed.
    pub const CLOSED: Ready = Ready(4);
    /// Both sides are closed, or the connection has failed: what is written reaches no peer.
    pub const BROKEN: Ready = Ready(8);
}

/// The tasks that wait, one per direction.
#[derive(Default)]
pub(crate) struct Wakers {
    pub read: Option<Waker>,
    pub write: Option<Waker>,
}

/// See the module's head.
pub(crate) struct Source {
    pub fd: OwnedFd,
    /// Other descriptors refer to the same socket: closing this one does not take it out of the loop's set.
    pub shared: Cell<bool>,
    /// Bits of [`Ready`].
    pub ready: Cell<u8>,
    /// `Some`: hot, events go to the driver under this key.
    pub key: Cell<Option<u64>>,
    pub wakers: RefCell<Wakers>,
    /// What events are asked for.
    pub watched: Cell<u8>,
    /// Its place in the loop, or [`NOWHERE`].
    pub slot: Cell<u64>,
}

/// The slot of what is not registered.
pub(crate) const NOWHERE: u64 = u64::MAX;

impl Source {
    /// What the loop watches.
    pub fn descriptor(&self) -> &OwnedFd {
        &self.fd
    }

    /// Notes an event. Returns the key if the driver is to be told.
    pub fn event(&self, bits: u8) -> Option<u64> {
        self.ready.set(self.ready.get() | bits);
        let mut wakers = self.wakers.borrow_mut();
        // A task that waits for room to write is woken even where the driver reads.
        if bits & (Ready::WRITE.0 | Ready::CLOSED.0) != 0
            && let Some(waker) = wakers.write.take()
        {
            waker.wake();
        }
        if let Some(key) = self.key.get() {
            return (bits & (Ready::READ.0 | Ready::CLOSED.0) != 0).then_some(key);
        }
        if bits & (Ready::READ.0 | Ready::CLOSED.0) != 0
            && let Some(waker) = wakers.read.take()
        {
            waker.wake();
        }
        None
    }
}
