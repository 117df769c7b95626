//! What happened in each second of the last minutes and in each minute of the last day, for pages that draw it.
//!
//! A [`History`] is told the sums so far about once a second and keeps the differences. It reads no clock and counts nothing
//! itself: percentiles come from the same buckets as the metrics, so both show the same numbers.

use super::places::{BOUNDS_US, CLASSES};
use crate::limits::{HISTORY_MINUTES, HISTORY_SECONDS};
use std::collections::VecDeque;

/// Buckets of times, the last one without a bound.
pub const BUCKETS: usize = BOUNDS_US.len() + 1;

/// What was counted since the worker started, and what it holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Requests that have ended, by class of status.
    pub classes: [u64; CLASSES.len()],
    /// The same requests by how long they took.
    pub buckets: [u64; BUCKETS],
    /// Heads and bodies of responses, in bytes.
    pub sent_bytes: u64,
    /// Heads and bodies of requests, in bytes.
    pub received_bytes: u64,
    /// Connections taken.
    pub accepted: u64,
    /// CPU time of the worker process, in microseconds.
    pub cpu_us: u64,
    /// Connections that are open now.
    pub connections: u64,
    /// Resident memory of the worker process now, in bytes.
    pub memory_bytes: u64,
}

/// What happened within one period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// When it ended, in seconds since 1970.
    pub unix_secs: i64,
    /// How long it was.
    /// Seconds are about a second: a busy pool makes one longer, so rates must be computed from this.
    pub length_ms: u64,
    /// Differences of what rises; what the worker held at the period's end.
    pub sums: Sums,
}

impl Period {
    /// Requests that ended.
    pub fn requests(&self) -> u64 {
        self.sums.classes.iter().sum()
    }

    /// The time within which this share of the requests was answered, in microseconds, interpolated within its bucket;
    /// `None` without requests. Beyond the last bound it is that bound.
    /// As Prometheus' `histogram_quantile` does it, so that a page and a board agree.
    pub fn quantile_us(&self, share: f64) -> Option<u64> {
        let total = self.sums.buckets.iter().sum::<u64>();
        if total == 0 {
            return None;
        }
        let rank = share * total as f64;
        let (mut before, mut lower) = (0u64, 0u32);
        for (&count, &upper) in self.sums.buckets.iter().zip(&BOUNDS_US) {
            if count > 0 && (before + count) as f64 >= rank {
                // Requests are taken to lie evenly within their bucket; nothing more is known of them.
                let within = (rank - before as f64).max(0.0) / count as f64;
                return Some(u64::from(lower) + (within * f64::from(upper - lower)) as u64);
            }
            before += count;
            lower = upper;
        }
        Some(u64::from(lower))
    }

    /// This one and the one after it.
    /// Times and bytes add up; what is held at a moment does not.
    fn extended(self, next: Period) -> Period {
        let add = |mut a: Sums, b: Sums| {
            a.classes.iter_mut().zip(b.classes).for_each(|(a, b)| *a += b);
            a.buckets.iter_mut().zip(b.buckets).for_each(|(a, b)| *a += b);
            a.sent_bytes += b.sent_bytes;
            a.received_bytes += b.received_bytes;
            a.accepted += b.accepted;
            a.cpu_us += b.cpu_us;
            // The most that was held: the end of a minute says little about it.
            a.connections = a.connections.max(b.connections);
            a.memory_bytes = a.memory_bytes.max(b.memory_bytes);
            a
        };
        Period {
            unix_secs: next.unix_secs,
            length_ms: self.length_ms + next.length_ms,
            sums: add(self.sums, next.sums),
        }
    }
}

/// The periods of a worker.
#[derive(Debug, Default)]
pub struct History {
    seconds: VecDeque<Period>,
    minutes: VecDeque<Period>,
    /// The minute that has not ended.
    minute: Option<Period>,
    last: Option<(u64, Sums)>,
}

impl History {
    /// Takes the sums as they are at `mono_ms`; what came since the call before is a period that ends at `unix_secs`. The first
    /// call only sets where counting begins.
    pub fn take(&mut self, unix_secs: i64, mono_ms: u64, now: Sums) {
        // Another sampler begins with a reload. Who has seen this second would never ask for another period of it: it becomes part of the next.
        if self.seconds.back().is_some_and(|last| last.unix_secs == unix_secs) {
            return;
        }
        let Some((then_ms, then)) = self.last.replace((mono_ms, now)) else { return };
        let period =
            Period { unix_secs, length_ms: mono_ms.saturating_sub(then_ms), sums: difference(now, then) };
        if period.length_ms == 0 {
            // Two calls within a millisecond would make a period without a length, and infinite rates.
            return;
        }
        keep(&mut self.seconds, period, HISTORY_SECONDS);
        // By the wall clock, so that a minute of the page is one of the administrator's watch.
        match self.minute.take() {
            Some(minute) if minute.unix_secs.div_euclid(60) == unix_secs.div_euclid(60) => {
                self.minute = Some(minute.extended(period));
            }
            before => {
                // A clock that was set back ends the minute as well.
                before.into_iter().for_each(|minute| keep(&mut self.minutes, minute, HISTORY_MINUTES));
                self.minute = Some(period);
            }
        }
    }

    /// Seconds that ended after `since`, oldest first.
    pub fn seconds(&self, since: i64) -> impl Iterator<Item = &Period> {
        self.seconds.iter().filter(move |period| period.unix_secs > since)
    }

    /// Whole minutes that ended after `since`, oldest first.
    pub fn minutes(&self, since: i64) -> impl Iterator<Item = &Period> {
        // Not by its last second: a minute is kept when the first second of the next one is there, and who has seen that last second asks
        // only for what came after it.
        let end = |period: &Period| (period.unix_secs.div_euclid(60) + 1) * 60;
        self.minutes.iter().filter(move |period| end(period) > since)
    }
}

// A ring of a fixed size: a day takes the same memory whatever happens in it.
fn keep(periods: &mut VecDeque<Period>, period: Period, most: usize) {
    if periods.len() == most {
        periods.pop_front();
    }
    periods.push_back(period);
}

/// Cells are read one after the other while threads count: a sum can be behind one that was read before it, never for long.
fn difference(now: Sums, then: Sums) -> Sums {
    let mut sums = now;
    sums.classes.iter_mut().zip(then.classes).for_each(|(now, then)| *now = now.saturating_sub(then));
    sums.buckets.iter_mut().zip(then.buckets).for_each(|(now, then)| *now = now.saturating_sub(then));
    sums.sent_bytes = now.sent_bytes.saturating_sub(then.sent_bytes);
    sums.received_bytes = now.received_bytes.saturating_sub(then.received_bytes);
    sums.accepted = now.accepted.saturating_sub(then.accepted);
    sums.cpu_us = now.cpu_us.saturating_sub(then.cpu_us);
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(requests: u64) -> Sums {
        let mut sums = Sums { sent_bytes: requests * 10, connections: requests, ..Sums::default() };
        sums.classes[1] = requests;
        sums.buckets[2] = requests;
        sums
    }

    #[test]
    fn differences_are_kept_and_the_oldest_goes() {
        let mut history = History::default();
        for second in 0..=HISTORY_SECONDS as u64 + 5 {
            history.take(second as i64, second * 1000, sums(second * 3));
        }
        let seconds: Vec<_> = history.seconds(i64::MIN).collect();
        assert_eq!(seconds.len(), HISTORY_SECONDS);
        assert_eq!(seconds[0].unix_secs, 6);
        assert!(seconds.iter().all(|second| second.requests() == 3 && second.length_ms == 1000));
        assert_eq!(history.seconds(HISTORY_SECONDS as i64 + 4).count(), 1);
    }

    #[test]
    fn a_minute_is_the_sum_of_its_seconds_and_the_most_that_was_held() {
        let mut history = History::default();
        for second in 59..=121u64 {
            history.take(second as i64, second * 1000, sums(second));
        }
        let minutes: Vec<_> = history.minutes(0).collect();
        assert_eq!(minutes.len(), 1);
        let minute = minutes[0];
        assert_eq!((minute.unix_secs, minute.length_ms, minute.requests()), (119, 60_000, 60));
        assert_eq!((minute.sums.sent_bytes, minute.sums.connections), (600, 119));
    }

    /// Asks as the page does, for what came after the last second that it has.
    fn seen(history: &History, seconds: &mut Vec<Period>, minutes: &mut Vec<Period>) {
        let since = seconds.last().map_or(i64::MIN, |last| last.unix_secs);
        seconds.extend(history.seconds(since));
        minutes.extend(history.minutes(since));
    }

    /// Found by reading: a page that stays open got no minute, and missed a second with each reload.
    #[test]
    fn a_page_that_asks_for_what_is_new_gets_each_period_once() {
        let (mut seconds, mut minutes) = (Vec::new(), Vec::new());
        let mut history = History::default();
        for ms in (58_500..=302_000u64).step_by(1000) {
            // A late one now and then, and one of a reload.
            let (late, is_last_of_minute) = (ms % 17_000 == 500, ms == 179_500);
            if !late && !is_last_of_minute {
                history.take((ms / 1000) as i64, ms, sums(ms));
            }
            if ms % 29_000 == 500 {
                history.take((ms / 1000) as i64, ms + 300, sums(ms + 300));
            }
            seen(&history, &mut seconds, &mut minutes);
        }
        assert_eq!(seconds, history.seconds(i64::MIN).copied().collect::<Vec<_>>());
        assert_eq!(minutes, history.minutes(i64::MIN).copied().collect::<Vec<_>>());
        let minutes: Vec<_> = minutes.iter().map(|minute| minute.unix_secs.div_euclid(60)).collect();
        assert_eq!(minutes, [0, 1, 2, 3, 4]);
        assert!(seconds.is_sorted_by(|a, b| a.unix_secs < b.unix_secs));
        let all: u64 = seconds.iter().map(Period::requests).sum();
        assert_eq!(all, 301_500 - 58_500, "nothing is left out");
    }

    #[test]
    fn a_pause_makes_one_long_period_and_sums_never_fall() {
        let mut history = History::default();
        history.take(10, 10_000, sums(100));
        history.take(10, 10_000, sums(100));
        history.take(15, 15_000, sums(90));
        let periods: Vec<_> = history.seconds(0).collect();
        assert_eq!(periods.len(), 1);
        assert_eq!((periods[0].length_ms, periods[0].requests()), (5000, 0));
    }

    #[test]
    fn quantiles_lie_within_their_bucket() {
        let mut period = Period::default();
        assert_eq!(period.quantile_us(0.5), None);
        period.sums.buckets[0] = 50;
        period.sums.buckets[3] = 50;
        assert_eq!(period.quantile_us(0.25), Some(50));
        assert_eq!(period.quantile_us(0.5), Some(100));
        assert_eq!(period.quantile_us(0.75), Some(750));
        period.sums.buckets[BUCKETS - 1] = 1000;
        assert_eq!(period.quantile_us(0.99), Some(10_000_000));
    }
}
