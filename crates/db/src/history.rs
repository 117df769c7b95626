//! Where the primary was when: a replica that lacks what the primary had some time ago is at least that far behind, whatever it says.

use crate::limits::{HISTORY_BEYOND_LAG_MS, HISTORY_POSITIONS_MAX};
use crate::position::Position;
use std::collections::VecDeque;

/// Positions of one primary, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct History {
    seen: VecDeque<(u64, Position)>,
}

impl History {
    /// Another server is the primary: what the last one had may be lost with it.
    pub fn clear(&mut self) {
        self.seen.clear();
    }

    /// The primary was there at this time, in milliseconds. `lag_max_ms`: what older positions are needed for.
    pub fn note(&mut self, at_ms: u64, position: &Position, lag_max_ms: u64) {
        if self.seen.back().is_some_and(|(_, last)| last == position) {
            return;
        }
        self.seen.push_back((at_ms, position.clone()));
        let kept_ms = lag_max_ms.saturating_add(HISTORY_BEYOND_LAG_MS);
        let is_old = |(then_ms, _): &(u64, Position)| at_ms.saturating_sub(*then_ms) > kept_ms;
        while self.seen.len() > HISTORY_POSITIONS_MAX
            || self.seen.len() > 1 && self.seen.front().is_some_and(is_old)
        {
            self.seen.pop_front();
        }
    }

    /// How far behind a server is that had `position` at this time: the age of the oldest that it lacks.
    pub fn lag_ms(&self, at_ms: u64, position: &Position) -> u64 {
        let lacking = self.seen.iter().find(|(_, then)| !position.covers(then));
        lacking.map_or(0, |(then_ms, _)| at_ms.saturating_sub(*then_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_is_the_age_of_what_is_lacking() {
        let mut history = History::default();
        for (at_ms, wal) in [(0, 10), (1000, 20), (2000, 20), (3000, 30)] {
            history.note(at_ms, &Position::Wal(wal), 2000);
        }
        let lag = |at_ms, wal| history.lag_ms(at_ms, &Position::Wal(wal));
        assert_eq!(
            [lag(3500, 30), lag(3500, 29), lag(3500, 20), lag(3500, 19), lag(3500, 1)],
            [0, 500, 500, 2500, 3500]
        );
        // It was asked before the primary.
        assert_eq!(lag(2900, 20), 0);
    }

    #[test]
    fn old_positions_go_and_the_last_one_stays() {
        let mut history = History::default();
        for at_ms in 0..3000 {
            history.note(at_ms, &Position::Wal(at_ms), 10);
        }
        assert!(history.seen.len() <= HISTORY_POSITIONS_MAX);
        history.note(10_000_000, &Position::Wal(9999), 10);
        assert_eq!(history.seen.len(), 1);
        // Whoever lacks it is behind.
        assert_eq!(history.lag_ms(10_000_500, &Position::Wal(1)), 500);
    }
}
