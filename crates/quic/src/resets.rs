//! How many stateless resets may leave (RFC 9000 §10.3.3).
//!
//! After a crash all clients of a process ask at once, and each should hear of it with its next packet. So many may leave together;
//! from there on they are rare, so that nobody has a server send them to others for long.

use crate::limits::{RESET_INTERVAL, RESETS_AT_ONCE_MAX};
use std::time::Instant;

/// A bucket that one reset is added to in each interval.
pub(crate) struct Resets {
    left: u32,
    filled: Option<Instant>,
}

impl Default for Resets {
    fn default() -> Resets {
        Resets { left: RESETS_AT_ONCE_MAX, filled: None }
    }
}

impl Resets {
    /// Whether another one may leave, which is counted then.
    pub fn take(&mut self, now: Instant) -> bool {
        let since = now.saturating_duration_since(*self.filled.get_or_insert(now));
        let more = since.as_micros() / RESET_INTERVAL.as_micros();
        if more > 0 {
            self.left =
                RESETS_AT_ONCE_MAX.min(self.left.saturating_add(u32::try_from(more).unwrap_or(u32::MAX)));
            self.filled = Some(now);
        }
        let may_leave = self.left > 0;
        self.left -= u32::from(may_leave);
        may_leave
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_at_once_and_few_from_there_on() {
        let (mut resets, mut now) = (Resets::default(), Instant::now());
        let mut taken = |now| (0..2 * RESETS_AT_ONCE_MAX).filter(|_| resets.take(now)).count() as u32;
        assert_eq!(taken(now), RESETS_AT_ONCE_MAX);
        now += RESET_INTERVAL / 2;
        assert_eq!(taken(now), 0);
        now += RESET_INTERVAL / 2;
        assert_eq!(taken(now), 1);
        now += 3 * RESET_INTERVAL;
        assert_eq!(taken(now), 3);
        now += 2 * RESETS_AT_ONCE_MAX * RESET_INTERVAL;
        assert_eq!(taken(now), RESETS_AT_ONCE_MAX, "never more than at first");
    }
}
