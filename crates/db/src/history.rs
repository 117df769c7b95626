//! Where the primary was when: a replica that lacks what the primary had some time ago is at least that far behind, whatever it says.
//! How far exactly is known only of one that has the oldest position that is kept.

use crate::limits::{HISTORY_BEYOND_LAG_MS, HISTORY_BYTES_MAX, HISTORY_POSITIONS_MAX};
use crate::position::Position;
use std::collections::VecDeque;

/// How far behind a server is, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// The age of the oldest position that it lacks.
    By(u64),
    /// It lacks all that is kept, and may lack any amount of what was before.
    AtLeast(u64),
}

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
        // One old position stays: of a server that has it, it is known how far behind it is.
        while self.seen.get(1).is_some_and(is_old) {
            self.seen.pop_front();
        }
        while self.seen.len() > HISTORY_POSITIONS_MAX || self.seen.len() > 2 && self.is_large() {
            self.thin();
        }
    }

    fn is_large(&self) -> bool {
        self.seen.iter().map(|(_, position)| position.bytes()).sum::<usize>() > HISTORY_BYTES_MAX
    }

    /// Every second position goes, but for the oldest and the last one: the window stays as long as it was.
    fn thin(&mut self) {
        let last = self.seen.len() - 1;
        let mut at = 0;
        self.seen.retain(|_| {
            at += 1;
            (at - 1) % 2 == 0 || at - 1 == last
        });
    }

    /// How far behind a server is that had `position` at this time.
    pub fn behind(&self, at_ms: u64, position: &Position) -> Behind {
        let lacking = self.seen.iter().position(|(_, then)| !position.covers(then));
        let age_ms = |at: usize| at_ms.saturating_sub(self.seen[at].0);
        match lacking {
            None => Behind::By(0),
            Some(0) => Behind::AtLeast(age_ms(0)),
            Some(at) => Behind::By(age_ms(at)),
        }
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
        let behind = |at_ms, wal| history.behind(at_ms, &Position::Wal(wal));
        assert_eq!(
            [behind(3500, 30), behind(3500, 29), behind(3500, 20), behind(3500, 19), behind(3500, 10)],
            [0, 500, 500, 2500, 2500].map(Behind::By)
        );
        assert_eq!(behind(3500, 9), Behind::AtLeast(3500));
        // It was asked before the primary.
        assert_eq!(behind(2900, 20), Behind::By(0));
    }

    #[test]
    fn old_positions_go_but_for_one() {
        let mut history = History::default();
        for at_ms in 0..30_000 {
            history.note(at_ms, &Position::Wal(at_ms), 10);
            assert!(history.seen.len() <= HISTORY_POSITIONS_MAX);
        }
        // Thinned out, not cut off: the whole time is there.
        assert_eq!((history.seen[0].0, history.seen.back().map(|(at_ms, _)| *at_ms)), (0, Some(29_999)));
        history.note(10_000_000, &Position::Wal(99_999), 10);
        assert_eq!(history.seen.len(), 2);
        let behind = |wal| history.behind(10_000_500, &Position::Wal(wal));
        // After hours without writes one that has all but the first of them is hardly behind.
        assert_eq!([behind(99_999), behind(29_999)], [0, 500].map(Behind::By));
        assert_eq!(behind(1), Behind::AtLeast(10_000_500 - 29_999));
    }

    #[test]
    fn large_positions_are_few() {
        let uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        let apart: Vec<String> = (1..20_000).map(|number| (2 * number).to_string()).collect();
        let apart = apart.join(":");
        let mut history = History::default();
        for at_ms in 0..60 {
            let position = Position::mysql(&format!("{uuid}:{apart}:{}", 1_000_000 + at_ms)).unwrap();
            history.note(at_ms, &position, 1000);
        }
        assert!(!history.is_large() && history.seen.len() > 2, "{}", history.seen.len());
        assert_eq!((history.seen[0].0, history.seen.back().map(|(at_ms, _)| *at_ms)), (0, Some(59)));
    }

    /// The primary has just been found: nothing tells how long a server has lacked what it lacks.
    #[test]
    fn a_first_position_tells_nothing_of_those_that_lack_it() {
        let mut history = History::default();
        history.note(1000, &Position::Wal(10), 2000);
        assert_eq!(history.behind(1000, &Position::Wal(9)), Behind::AtLeast(0));
        assert_eq!(history.behind(1000, &Position::Wal(10)), Behind::By(0));
    }
}
