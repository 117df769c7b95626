//! Flow control windows (RFC 9113 §5.2, §6.9).

use crate::frame::WINDOW_MAX;

/// What we may still send; below zero after the peer has made its initial window smaller (§6.9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SendWindow(i64);

/// The window would be larger than 2^31-1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow;

impl SendWindow {
    pub(crate) fn new(size: u32) -> SendWindow {
        SendWindow(i64::from(size))
    }

    /// Bytes that may be sent.
    #[inline]
    pub(crate) fn room(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    #[inline]
    pub(crate) fn take(&mut self, count: usize) {
        self.0 -= count as i64;
    }

    pub(crate) fn grow(&mut self, by: i64) -> Result<(), Overflow> {
        let size = self.0 + by;
        if size > i64::from(WINDOW_MAX) {
            return Err(Overflow);
        }
        self.0 = size;
        Ok(())
    }
}

/// What the peer may still send, and what we have used up and not given back yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceiveWindow {
    left: u32,
    /// How large it is to be when nothing is under way.
    target: u32,
    /// Received and not consumed: it stays taken.
    held: u32,
}

impl ReceiveWindow {
    pub(crate) fn new(left: u32, target: u32) -> ReceiveWindow {
        ReceiveWindow { left, target, held: 0 }
    }

    pub(crate) fn left(self) -> u32 {
        self.left
    }

    /// Received and not consumed.
    pub(crate) fn held(self) -> u32 {
        self.held
    }

    /// Bytes have come; false if they are more than was allowed.
    #[inline]
    pub(crate) fn receive(&mut self, count: u32) -> bool {
        if count > self.left {
            return false;
        }
        self.left -= count;
        self.held += count;
        true
    }

    /// Bytes were used.
    #[inline]
    pub(crate) fn consume(&mut self, count: u32) {
        debug_assert!(count <= self.held);
        self.held = self.held.saturating_sub(count);
    }

    /// Wants another size. A smaller one takes effect as data comes in.
    pub(crate) fn set_target(&mut self, target: u32) {
        self.target = target.min(WINDOW_MAX);
    }

    pub(crate) fn target(self) -> u32 {
        self.target
    }

    /// The increment to announce now: worth a frame once it is half of the window.
    #[inline]
    pub(crate) fn update(&mut self) -> Option<u32> {
        let missing = self.target.saturating_sub(self.held).saturating_sub(self.left);
        if missing == 0 || missing < self.target / 2 { None } else { self.announce(missing) }
    }

    /// The increment to announce however small it is.
    pub(crate) fn update_now(&mut self) -> Option<u32> {
        self.announce(self.target.saturating_sub(self.held).saturating_sub(self.left))
    }

    fn announce(&mut self, missing: u32) -> Option<u32> {
        self.left += missing;
        (missing > 0).then_some(missing)
    }
}
