//! How much of what a program writes is logged: so many lines in a second. The rest is read, so that the program goes on, and counted.

use crate::limits::PROGRAM_LINES_PER_SECOND_MAX;
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

/// What is left of the present second.
#[derive(Debug, Default)]
pub struct Budget {
    /// When the present second began; `None` before the first line.
    began: Option<Instant>,
    taken: u32,
    /// Lines that were left out and are to be told.
    lost: u64,
    /// When they are: a second after the first of them, though the flood goes on.
    tell_at: Option<Instant>,
    lost_in_all: u64,
}

impl Budget {
    /// Whether one more line is logged.
    pub fn takes(&mut self, now: Instant) -> bool {
        if self.began.is_none_or(|began| now.saturating_duration_since(began) >= SECOND) {
            (self.began, self.taken) = (Some(now), 0);
        }
        if self.taken < PROGRAM_LINES_PER_SECOND_MAX {
            self.taken += 1;
            return true;
        }
        self.lost += 1;
        self.lost_in_all += 1;
        self.tell_at.get_or_insert(now + SECOND);
        false
    }

    /// Lines that were left out and not told, once per second.
    pub fn lost(&mut self, now: Instant) -> Option<u64> {
        self.tell_at.take_if(|at| *at <= now).map(|_| std::mem::take(&mut self.lost))
    }

    /// When lost lines are to be told.
    pub fn next(&self) -> Option<Instant> {
        self.tell_at
    }

    /// Lines that were ever left out.
    pub fn lost_in_all(&self) -> u64 {
        self.lost_in_all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_told_once_per_second() {
        let (mut budget, begin) = (Budget::default(), Instant::now());
        let taken = (0..2000).filter(|_| budget.takes(begin)).count();
        assert_eq!(taken, PROGRAM_LINES_PER_SECOND_MAX as usize);
        assert_eq!((budget.lost(begin), budget.next()), (None, Some(begin + SECOND)));
        let lost = 2000 - u64::from(PROGRAM_LINES_PER_SECOND_MAX);
        // It goes on into the next second.
        assert!(budget.takes(begin + SECOND));
        assert_eq!(budget.lost(begin + SECOND), Some(lost));
        assert_eq!((budget.lost(begin + SECOND), budget.next()), (None, None));
        assert_eq!(budget.lost_in_all(), lost);
    }
}
