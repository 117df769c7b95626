//! The byte account of one connection.
//!
//! Request heads have a limit of their own: header compression lets a peer name a large field with one byte, so what heads occupy
//! is bounded by what the peer has sent. Everything else is bounded where it is stored; here it is only added up, so that the
//! process knows which connections are dear. There is no I/O and no clock in this file: every protocol can use it.

use crate::limits::{HEAD_BYTES_PER_RECEIVED, HEADS_BYTES_MIN};
use std::cell::Cell;
use std::rc::Rc;

thread_local! {
    /// Bytes that were charged on this thread since [`take_grown`] was called.
    static GROWN: Cell<usize> = const { Cell::new(0) };
}

/// Bytes that were charged on this thread since the last call.
pub fn take_grown() -> usize {
    GROWN.take()
}

/// Bytes that were charged on this thread since the last call of [`take_grown`].
#[inline]
pub fn grown() -> usize {
    GROWN.get()
}

/// See the module's head.
#[derive(Debug, Default)]
pub struct Account {
    heads: Cell<usize>,
    other: Cell<usize>,
    /// Bytes that had moved, and the time (monotonic), when the connection was last judged.
    judged: Cell<(u64, u64)>,
}

impl Account {
    /// How much more the heads of the connection may occupy after `received` bytes have come on it.
    #[inline]
    pub fn head_room(&self, received: u64) -> usize {
        let most = received.saturating_mul(HEAD_BYTES_PER_RECEIVED);
        let most = usize::try_from(most).unwrap_or(usize::MAX).max(HEADS_BYTES_MIN);
        most.saturating_sub(self.heads.get())
    }

    /// Bytes that are held.
    pub fn bytes(&self) -> usize {
        self.heads.get() + self.other.get()
    }

    /// Counts a head of this size until the charge is dropped. The head must be within [`Account::head_room`].
    pub fn hold_head(self: &Rc<Self>, bytes: usize) -> Charge {
        Charge::new(self, Kind::Head, bytes)
    }

    /// Counts anything else.
    pub fn hold(self: &Rc<Self>, bytes: usize) -> Charge {
        Charge::new(self, Kind::Other, bytes)
    }

    /// Bytes per second that have moved since the last call; since the beginning, `started_ms`, at the first. `moved` is the sum up to
    /// now.
    pub fn rate(&self, moved: u64, started_ms: u64, now_ms: u64) -> u64 {
        let (before, since_ms) = match self.judged.replace((moved, now_ms)) {
            (0, 0) => (0, started_ms),
            judged => judged,
        };
        moved.saturating_sub(before).saturating_mul(1000) / now_ms.saturating_sub(since_ms).max(1)
    }

    fn cell(&self, kind: Kind) -> &Cell<usize> {
        match kind {
            Kind::Head => &self.heads,
            Kind::Other => &self.other,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Head,
    Other,
}

/// What one connection of a protocol holds, as the protocol tells it when memory is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The connection's number, of no other one in the process.
    pub connection: u64,
    /// Bytes.
    pub bytes: usize,
    /// Bytes per second that have moved on it since it was asked the last time.
    pub bytes_per_sec: u64,
}

/// A part of what a connection holds; dropping it gives the bytes back.
#[derive(Debug)]
pub struct Charge {
    account: Rc<Account>,
    kind: Kind,
    bytes: Cell<usize>,
}

impl Charge {
    fn new(account: &Rc<Account>, kind: Kind, bytes: usize) -> Charge {
        let charge = Charge { account: account.clone(), kind, bytes: Cell::new(0) };
        charge.set(bytes);
        charge
    }

    /// Counts so many bytes in place of those before.
    pub fn set(&self, bytes: usize) {
        let before = self.bytes.replace(bytes);
        let cell = self.account.cell(self.kind);
        cell.set(cell.get() - before + bytes);
        GROWN.set(GROWN.get().saturating_add(bytes.saturating_sub(before)));
    }

    /// The account that it is charged to.
    pub fn account(&self) -> &Rc<Account> {
        &self.account
    }

    /// What is charged at present.
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Counts more.
    pub fn add(&self, bytes: usize) {
        self.set(self.bytes.get() + bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_hold_no_more_than_a_multiple_of_what_was_sent() {
        let account = Rc::<Account>::default();
        assert_eq!(account.head_room(0), HEADS_BYTES_MIN);
        let first = account.hold_head(HEADS_BYTES_MIN - 100);
        assert_eq!(account.head_room(40_000), 100);
        assert_eq!(account.head_room(100_000), 2_000_000 - HEADS_BYTES_MIN + 100);
        // Other memory is counted and has no part in this limit.
        let other = account.hold(1 << 30);
        assert_eq!((account.head_room(0), account.bytes()), (100, HEADS_BYTES_MIN - 100 + (1 << 30)));
        other.set(10);
        other.add(5);
        drop(first);
        assert_eq!((account.head_room(0), account.bytes()), (HEADS_BYTES_MIN, 15));
        drop(other);
        assert_eq!(account.bytes(), 0);
        assert_eq!(account.head_room(u64::MAX), usize::MAX);
    }

    #[test]
    fn progress_is_that_since_the_last_judgement() {
        let account = Account::default();
        assert_eq!(account.rate(5000, 1000, 6000), 1000);
        assert_eq!(account.rate(5010, 1000, 7000), 10);
        assert_eq!(account.rate(5010, 1000, 7000), 0);
    }

    #[test]
    fn growth_of_a_thread_is_told_once() {
        let account = Rc::<Account>::default();
        take_grown();
        let charge = account.hold_head(100);
        charge.set(60);
        charge.add(5);
        drop(charge);
        assert_eq!((grown(), take_grown(), take_grown()), (105, 105, 0));
    }
}
