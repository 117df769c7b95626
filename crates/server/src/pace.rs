//! A limit of bytes per second: how much may pass now, and how long to wait if it is nothing.
//!
//! It counts in whole seconds from its beginning, as nginx does: what one second allows may pass at once, and what was not
//! used stays. It reads no clock and moves no bytes: senders of responses and readers of back ends ask it alike.

/// See the module's head.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// 0: no limit.
    bytes_per_sec: u64,
    /// So many bytes are not counted (`limit_rate_after`).
    free_bytes: u64,
    started_ms: u64,
}

impl Pace {
    /// Begins at `now_ms`, a monotonic time.
    pub fn new(bytes_per_sec: u64, free_bytes: u64, now_ms: u64) -> Pace {
        Pace { bytes_per_sec, free_bytes, started_ms: now_ms }
    }

    /// Whether nothing is limited.
    pub fn is_unlimited(&self) -> bool {
        self.bytes_per_sec == 0
    }

    /// How many bytes may pass when `passed` have; the error is how many milliseconds from now some may.
    pub fn allowance(&self, passed: u64, now_ms: u64) -> Result<u64, u64> {
        if self.is_unlimited() {
            return Ok(u64::MAX);
        }
        let elapsed_ms = now_ms.saturating_sub(self.started_ms);
        // The first second's share is there from the start, or a small response would be late by a second.
        let seconds = elapsed_ms / 1000 + 1;
        let allowed = self.bytes_per_sec.saturating_mul(seconds).saturating_add(self.free_bytes);
        if allowed > passed {
            return Ok(allowed - passed);
        }
        // To the second that allows more, and no sooner. nginx's formula gives a millisecond where the share was used up
        // exactly, which is the rule: a limited response would wake its thread a thousand times a second.
        let due_ms = ((passed - self.free_bytes) / self.bytes_per_sec).saturating_mul(1000);
        Err(due_ms.saturating_sub(elapsed_ms).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_that_is_used_up_is_waited_for_once() {
        let pace = Pace::new(100, 0, 5000);
        assert_eq!(pace.allowance(0, 5000), Ok(100));
        assert_eq!(pace.allowance(60, 5999), Ok(40));
        // Not a millisecond: to the next second.
        assert_eq!(pace.allowance(100, 5001), Err(999));
        assert_eq!(pace.allowance(100, 6000), Ok(100));
        // What was not used stays.
        assert_eq!(pace.allowance(100, 8500), Ok(300));
        // More has passed than was allowed: what was read before the rate was known.
        assert_eq!(pace.allowance(350, 5200), Err(2800));
        assert_eq!(pace.allowance(350, 8000), Ok(50));
    }

    #[test]
    fn free_bytes_come_on_top() {
        let pace = Pace::new(10, 1000, 0);
        assert_eq!(pace.allowance(0, 0), Ok(1010));
        assert_eq!(pace.allowance(1010, 0), Err(1000));
        assert_eq!(pace.allowance(1015, 500), Err(500));
    }

    #[test]
    fn extremes_do_not_overflow() {
        assert_eq!(Pace::new(0, 0, 0).allowance(u64::MAX, 0), Ok(u64::MAX));
        assert_eq!(Pace::new(1, 0, 0).allowance(u64::MAX, 0), Err(u64::MAX));
        assert!(Pace::new(u64::MAX, u64::MAX, 0).allowance(0, u64::MAX).is_ok());
    }
}
