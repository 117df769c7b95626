//! Whether a run's figures are the server's: what the generator itself added to them, and what was not measured at all.

use std::fmt;

use crate::engine::Users;
use crate::limits::{MOVED_NS_MAX, MOVED_SHARE_MAX, RESPONSES_ABOVE_MIN};
use crate::stats::Stats;

/// The percentiles that are judged, if there are responses enough. Nothing is concluded from a maximum: it is one request.
const JUDGED: [(&str, f64); 5] = [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)];

/// A percentile that the generator itself has moved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moved {
    /// Its name.
    pub name: &'static str,
    /// What it is, in milliseconds.
    pub ms: f64,
    /// What it is without the generator's part, in milliseconds.
    pub without_ms: f64,
}

/// Why a run's figures do not say what users of the server would see.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Invalid {
    /// The run was over within its warm-up.
    Nothing,
    /// There were fewer users than were asked for.
    Users(Users),
    /// An open loop's generator noticed late that requests were due.
    Late(Moved),
    /// So many requests found no connection until the end.
    Unsent(u64),
    /// A closed loop's generator waited for a CPU before it noticed responses, on a machine where no server is.
    Starved(Moved),
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str(
                "nothing was counted: the run was over within its warm-up; ask for more requests, or leave --warmup out",
            ),
            Self::Users(Users { wanted, there }) => write!(
                f,
                "{there} of {wanted} users had a connection when the clock started, or when their ramp was over: fewer were \
                 measured than were asked for"
            ),
            Self::Late(Moved { name, ms, without_ms }) => write!(
                f,
                "the generator itself was late: {name} is {ms:.3} ms, and {without_ms:.3} ms without its own lateness"
            ),
            Self::Unsent(count) => write!(
                f,
                "{count} requests were due and found no free connection until the end: use more connections"
            ),
            Self::Starved(Moved { name, ms, without_ms }) => write!(
                f,
                "the generator itself was late: {name} is {ms:.3} ms, of which it waited {:.3} ms for a CPU before it noticed a \
                 response",
                ms - without_ms
            ),
        }
    }
}

impl Invalid {
    /// Of a run's figures; `is_local`: a server shares the CPUs with the generator.
    pub fn of(stats: &Stats, is_empty: bool, users: Option<Users>, is_local: bool) -> Option<Self> {
        let missing = users.filter(|users| users.there < users.wanted);
        if is_empty {
            return Some(Self::Nothing);
        }
        if let Some(users) = missing {
            return Some(Self::Users(users));
        }
        if let Some(moved) = late(stats) {
            return Some(Self::Late(moved));
        }
        if stats.unsent > 0 {
            return Some(Self::Unsent(stats.unsent));
        }
        starved(stats).filter(|_| !is_local).map(Self::Starved)
    }

    /// Whether it is the generator's lateness alone: latency contains that, so that a promise that was kept is kept.
    pub fn is_lateness(&self) -> bool {
        matches!(self, Self::Late(_) | Self::Starved(_))
    }
}

/// Whether the generator has added more to a percentile than it may.
fn is_moved(ns: f64, without_ns: f64) -> bool {
    ns - without_ns > (ns * MOVED_SHARE_MAX).max(MOVED_NS_MAX)
}

/// The percentile of an open loop that the generator's lateness has moved most, if one was moved by too much.
pub fn late(stats: &Stats) -> Option<Moved> {
    if stats.lateness.count() == 0 {
        return None;
    }
    let moved = JUDGED.iter().filter_map(|&(name, share)| {
        let above = stats.latency.count() as f64 * (1.0 - share);
        if above < RESPONSES_ABOVE_MIN && share > 0.5 {
            return None;
        }
        let ns = stats.latency.quantile(share) as f64;
        let without = stats.punctual.quantile(share) as f64;
        is_moved(ns, without).then_some(Moved { name, ms: ns / 1e6, without_ms: without / 1e6 })
    });
    moved.max_by(|left, right| (left.ms / left.without_ms).total_cmp(&(right.ms / right.without_ms)))
}

/// The median of a closed loop, if what its generator waited for a CPU in the mean, before each of its turns, has moved that by
/// too much. The others are moved by at least as much, but by how much is not known.
pub fn starved(stats: &Stats) -> Option<Moved> {
    if stats.lateness.count() > 0 || stats.latency.count() == 0 || stats.generator_turns == 0 {
        return None;
    }
    let ns = stats.latency.quantile(0.5) as f64;
    let waited = (stats.generator_waited_ns as f64 / stats.generator_turns as f64).min(ns);
    let (ms, without_ms) = (ns / 1e6, (ns - waited) / 1e6);
    is_moved(ns, ns - waited).then_some(Moved { name: "p50", ms, without_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// An open loop of a thousand requests: what the server took, and how late the generator was.
    fn open(of: impl Fn(u64) -> (u64, u64)) -> Stats {
        let mut stats = Stats::default();
        for number in 0..1000 {
            let (took, late) = of(number);
            stats.lateness.record(late);
            stats.open_response(200, took + late, took, late);
        }
        stats
    }

    fn invalid(stats: &Stats) -> Option<Invalid> {
        Invalid::of(stats, false, None, true)
    }

    /// 16 ms beside a true p99 of 908 ms say nothing, 4.7 ms beside a p50 of 6 ms all.
    #[test]
    fn lateness_counts_relative_to_what_it_moves() {
        let slow = open(|number| {
            (if number < 980 { 400 * MS } else { 908 * MS }, if number % 50 == 0 { 16 * MS } else { 0 })
        });
        assert_eq!(invalid(&slow), None);
        let quick =
            open(|number| (6 * MS - (number % 3) * MS / 2, if number % 3 > 0 { 4_700_000 } else { 0 }));
        let Some(Invalid::Late(moved)) = invalid(&quick) else { panic!("{:?}", invalid(&quick)) };
        assert!(moved.ms - moved.without_ms > 3.0, "{moved:?}");
        assert!(
            invalid(&quick).unwrap().to_string().contains("was late")
                && invalid(&quick).unwrap().is_lateness()
        );
    }

    /// It matters with which requests the generator was late: those that were quick anyway move no percentile.
    #[test]
    fn each_request_is_judged_with_its_own_lateness() {
        let quick_ones = open(|number| {
            if number % 5 == 0 { (100 * MS, 0) } else { (MS, if number % 100 == 1 { 30 * MS } else { 0 }) }
        });
        assert_eq!(invalid(&quick_ones), None);
        // A tenth of a millisecond is less than any report promises, and a late maximum is one request.
        assert_eq!(invalid(&open(|_| (MS / 10, MS / 10))), None);
        assert_eq!(invalid(&open(|number| (MS, if number == 7 { 50 * MS } else { 0 }))), None);
    }

    fn closed(took: u64, waited: u64, turns: u64) -> Stats {
        let mut stats = Stats::default();
        (stats.generator_waited_ns, stats.generator_turns) = (waited, turns);
        (0..1000).for_each(|_| {
            stats.response(200, took);
        });
        stats
    }

    /// Four CPU hogs beside it: a p50 of 14 ms, of which 1 or 2 are the server's.
    #[test]
    fn a_closed_loop_checks_its_generator() {
        let beside_hogs = closed(14 * MS, 12_000 * MS, 1000);
        let moved = starved(&beside_hogs).unwrap();
        assert!((moved.without_ms - 2.0).abs() < 0.2 && moved.name == "p50", "{moved:?}");
        // Where the server is, it may be the server that takes the CPU: that is told as a note.
        assert_eq!(invalid(&beside_hogs), None);
        let elsewhere = Invalid::of(&beside_hogs, false, None, false);
        assert!(matches!(elsewhere, Some(Invalid::Starved(_))), "{elsewhere:?}");
        // In peace; beside a slow server; and where the kernel does not count.
        for calm in [closed(2 * MS, 10 * MS, 1000), closed(900 * MS, 12_000 * MS, 1000), closed(MS, 0, 0)] {
            assert_eq!((starved(&calm), Invalid::of(&calm, false, None, false)), (None, None));
        }
    }

    #[test]
    fn what_was_not_measured_is_named_first() {
        let mut stats = open(|_| (MS, 5 * MS));
        stats.unsent = 3;
        let users = Users { wanted: 5000, there: 929 };
        assert_eq!(Invalid::of(&stats, true, Some(users), true), Some(Invalid::Nothing));
        let missing = Invalid::of(&stats, false, Some(users), true).unwrap();
        assert!(missing.to_string().starts_with("929 of 5000 users"), "{missing}");
        assert!(matches!(invalid(&stats), Some(Invalid::Late(_))));
        let mut unsent = open(|_| (MS, 0));
        unsent.unsent = 3;
        assert_eq!(invalid(&unsent), Some(Invalid::Unsent(3)));
    }
}
