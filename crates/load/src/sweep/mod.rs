//! Several runs that say more together: over numbers of users, and in search of the highest rate.

mod search;
mod shape;
pub mod slo;
pub mod steady;
pub mod usl;

pub use search::{Found, Search, Trial, search};
pub use shape::Shape;

use std::time::Duration;

use serde_json::{Value, json};

use crate::chart::short;
use crate::engine::Outcome;
use crate::stats::{Part, Slice, Stats};
use usl::Usl;

/// One point of a sweep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Users.
    pub users: usize,
    /// Responses per second that were not refusals.
    pub rate: f64,
    /// The relative half-width of the rate's 95 % interval.
    pub uncertainty: f64,
    /// Mean latency, in seconds.
    pub latency: f64,
    /// The share of requests that failed.
    pub errors: f64,
}

/// What a sweep over users has found.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// In the order of users.
    pub points: Vec<Point>,
    /// The law that comes nearest to them, if there are enough of them; [`Self::law`] says whether they follow it.
    pub fit: Option<Usl>,
    /// What they say.
    pub shape: Shape,
}

impl Sweep {
    /// Fits the points.
    pub fn of(mut points: Vec<Point>) -> Self {
        points.sort_by_key(|point| point.users);
        let pairs: Vec<(f64, f64)> = points.iter().map(|point| (point.users as f64, point.rate)).collect();
        let fit = Usl::fit(&pairs);
        let shape = Shape::of(&points, fit.as_ref());
        Self { points, fit, shape }
    }

    /// In words.
    pub fn lines(&self) -> Vec<String> {
        let best = self.points.iter().max_by(|left, right| left.rate.total_cmp(&right.rate));
        let Some(best) = best else {
            return vec!["nothing was answered with success, whatever the number of users".to_owned()];
        };
        let (most, users) = (short(best.rate), best.users);
        let mut lines = vec![format!("highest rate measured: {most} good responses/s with {users} users")];
        lines.push(match &self.shape {
            Shape::Saturated { capacity, users } => {
                let first = self.points.first().is_some_and(|point| point.users == *users);
                let or_fewer = if first { ", the fewest that were measured," } else { "" };
                format!(
                    "saturated: {} /s from {users} users{or_fewer} on; more users wait longer and get no more",
                    short(*capacity)
                )
            }
            // The law's peak may lie above what any run has shown.
            Shape::Knee(knee) => {
                let peak = self.fit.and_then(|fit| fit.peak()).unwrap_or(best.rate).min(best.rate);
                format!("knee: {knee:.0} users, {} /s; beyond it more users get less", short(peak))
            }
            Shape::Growing => {
                let last = self.points.last().map_or(0, |point| point.users);
                format!("no knee up to {last} users, the most that were measured: the rate still grew")
            }
            Shape::Unclear(why) => format!("no knee and no capacity can be told: {why}"),
        });
        if let Some(law) = self.law() {
            lines.push(format!(
                "scalability law: {} /s for one user, contention {} %, coherence {} %, R² {:.3}",
                with_reach(law.lambda, law.reach[0]),
                with_reach(law.sigma * 100.0, law.reach[1] * 100.0),
                with_reach(law.kappa * 100.0, law.reach[2] * 100.0),
                law.r2
            ));
        }
        lines
    }

    /// The law, where the rates follow it.
    pub fn law(&self) -> Option<&Usl> {
        self.fit.as_ref().filter(|_| matches!(self.shape, Shape::Knee(_) | Shape::Growing))
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        let points: Vec<Value> = self
            .points
            .iter()
            .map(|point| {
                json!({ "users": point.users, "good_responses_per_second": point.rate, "uncertainty": point.uncertainty,
                        "latency_seconds": point.latency, "error_share": point.errors })
            })
            .collect();
        let knee = if let Shape::Knee(users) = self.shape { Some(users) } else { None };
        let fit = self.fit.map(|fit| {
            // Infinite ones are `null`.
            let [lambda, sigma, kappa] = fit.reach;
            json!({ "lambda": fit.lambda, "sigma": fit.sigma, "kappa": fit.kappa, "r2": fit.r2,
                    "reach": { "lambda": lambda, "sigma": sigma, "kappa": kappa },
                    "knee_users": knee, "peak_per_second": self.law().and_then(Usl::peak) })
        });
        let (shape, capacity, users, why) = match &self.shape {
            Shape::Saturated { capacity, users } => ("saturated", Some(*capacity), Some(*users), None),
            Shape::Knee(_) => ("knee", None, None, None),
            Shape::Growing => ("growing", None, None, None),
            Shape::Unclear(why) => ("unclear", None, None, Some(why)),
        };
        json!({ "points": points, "usl": fit, "shape": shape, "capacity_per_second": capacity,
                "saturated_from_users": users, "why_unclear": why })
    }
}

/// A value with half of the width of its interval, to two digits of that.
fn with_reach(value: f64, reach: f64) -> String {
    if !reach.is_finite() {
        return format!("{value:.3} ± ?");
    }
    let digits = if reach > 0.0 { (1.0 - reach.log10().floor()).clamp(0.0, 8.0) as usize } else { 3 };
    if reach > 0.0 { format!("{value:.digits$} ± {reach:.digits$}") } else { format!("{value:.digits$}") }
}

/// Cuts the warm-up off a run that has a series: what is left of its figures is that of the slices behind it. Gives how much of
/// the counted part that was, and whether the rest was steady.
pub fn trim(outcome: &mut Outcome) -> (Duration, bool) {
    let rates: Vec<f64> = outcome.whole_slices().map(Slice::good_rate).collect();
    let steady = steady::cut(&rates);
    if steady.from == 0 {
        return (Duration::ZERO, steady.is_steady);
    }
    let mut cut = Duration::ZERO;
    let counted = outcome.series.iter_mut().filter(|slice| slice.part == Part::Counted);
    for slice in counted.take(steady.from) {
        slice.part = Part::Warmup;
        cut += slice.width;
    }
    let whole = std::mem::take(&mut outcome.stats);
    let mut stats = Stats {
        tls_failure: whole.tls_failure,
        proxy_failure: whole.proxy_failure,
        quic_failure: whole.quic_failure,
        tail: whole.tail,
        ..Stats::default()
    };
    let left = || outcome.series.iter().filter(|slice| slice.part != Part::Warmup);
    left().for_each(|slice| stats.add(slice));
    let from = left().next().map_or(0, |slice| slice.at.as_nanos() as u64);
    outcome.records.retain(|record| record.done_ns >= from);
    outcome.stats = stats;
    outcome.elapsed = outcome.elapsed.saturating_sub(cut);
    (cut, steady.is_steady)
}

/// The relative half-width of the 95 % interval of a run's rate of successful responses, from the slices that it is made of.
/// Infinite where there are fewer than two, or no successful response.
pub fn uncertainty(outcome: &Outcome) -> f64 {
    let rates: Vec<f64> = outcome.whole_slices().map(Slice::good_rate).collect();
    steady::uncertainty(&rates)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;
    use crate::stats::ErrorKind;
    use std::time::SystemTime;

    #[test]
    fn what_is_trimmed_is_what_the_slices_say() {
        let slice = |index: u64| {
            let mut stats = Stats::default();
            // What is left out from the beginning would be taken for steady.
            let count = if (10..30).contains(&index) { (index - 10) * 5 } else { 100 };
            (0..count).for_each(|_| {
                stats.response(200, 1_000_000 * (1 + index));
            });
            // Each once in a slice: what is cut off is in none of the figures.
            stats.response(404, 7);
            for histogram in
                [&mut stats.lateness, &mut stats.first_byte, &mut stats.connect, &mut stats.handshake]
            {
                histogram.record(7);
            }
            stats.error(ErrorKind::Tls, 1);
            (stats.unsent, stats.closes, stats.asked_again, stats.resumed) = (1, 1, 1, 1);
            stats.quic.sent = 1;
            let part = match index {
                ..10 => Part::Warmup,
                10..100 => Part::Counted,
                100.. => Part::Tail,
            };
            Slice {
                part,
                ..Slice::of(&stats, Duration::from_millis(100 * index), Duration::from_millis(100))
            }
        };
        let series: Vec<Slice> = (0..110).map(slice).collect();
        let mut whole = Stats { tls_failure: Some("why".to_owned()), ..Stats::default() };
        series.iter().filter(|slice| slice.part != Part::Warmup).for_each(|slice| whole.add(slice));
        let mut outcome = Outcome {
            stats: whole,
            elapsed: Duration::from_secs(9),
            started_at: SystemTime::now(),
            series,
            records: Vec::new(),
            records_dropped: 0,
            heads: Vec::new(),
            users: None,
            is_local: true,
        };
        let (cut, is_steady) = trim(&mut outcome);
        let from = cut.as_millis() as u64 / 100;
        assert!((20..=25).contains(&from) && is_steady, "{cut:?}");
        let slices = 90 - from;
        // Nine rows of what comes after the end, and a short one.
        let stats = &outcome.stats;
        assert_eq!((stats.latency.count(), stats.by_class[2]), ((slices + 10) * 100, (slices + 10) * 100));
        let once = [stats.by_class[4], stats.by_status[&404], stats.unsent, stats.closes, stats.asked_again];
        assert_eq!(once, [slices + 10; 5]);
        let once = [&stats.refused, &stats.lateness, &stats.first_byte, &stats.connect, &stats.handshake];
        assert_eq!(once.map(Histogram::count), [slices + 10; 5]);
        assert_eq!([stats.resumed, stats.quic.sent, stats.errors()], [slices + 10; 3]);
        assert_eq!(stats.reason(ErrorKind::Tls), Some("why"));
        assert_eq!(outcome.elapsed, Duration::from_millis(100 * slices));
        let least = (11 + from) * 1_000_000;
        assert_eq!(outcome.stats.latency.min(), least);
        assert_eq!(outcome.whole_slices().count() as u64, slices);
    }

    /// What is cut off, what comes after the end, and a last slice that is too short to have a rate say nothing of it.
    #[test]
    fn a_steady_rate_is_known_well() {
        let slice = |(index, (part, width, count)): (usize, (Part, u64, u64))| {
            let mut stats = Stats::default();
            (0..count).for_each(|_| {
                stats.response(200, 1_000_000);
            });
            let width = Duration::from_millis(width);
            Slice { part, ..Slice::of(&stats, Duration::from_millis(100 * index as u64), width) }
        };
        let steady = [(Part::Counted, 100, 100), (Part::Counted, 100, 101)];
        let course = [
            &[(Part::Warmup, 100, 5)][..],
            &steady,
            &steady,
            &[(Part::Counted, 1, 20), (Part::Tail, 100, 1)],
        ];
        let outcome = Outcome {
            stats: Stats::default(),
            elapsed: Duration::from_millis(401),
            started_at: SystemTime::now(),
            series: course.concat().into_iter().enumerate().map(slice).collect(),
            records: Vec::new(),
            records_dropped: 0,
            heads: Vec::new(),
            users: None,
            is_local: true,
        };
        assert!(uncertainty(&outcome) < 0.02, "{}", uncertainty(&outcome));
    }

    #[test]
    fn a_sweep_names_its_knee() {
        let truth = Usl { lambda: 40.0, sigma: 0.03, kappa: 1.5e-4, r2: 1.0, reach: [0.0; 3] };
        let point = |users: usize| Point {
            users,
            rate: truth.throughput(users as f64),
            uncertainty: 0.01,
            latency: 0.1,
            errors: 0.0,
        };
        let text = Sweep::of([10, 20, 50, 100, 150, 200].map(point).to_vec()).lines().join("\n");
        assert!(text.contains("knee: 80 users"), "{text}");
        // What lies beyond the last point is no finding.
        let sweep = Sweep::of([5, 10, 20, 30, 40].map(point).to_vec());
        let text = sweep.lines().join("\n");
        assert!(
            text.contains("no knee up to 40 users") && sweep.to_json()["usl"]["knee_users"].is_null(),
            "{text}"
        );
        // A peak above all that was measured is none.
        let sweep = Sweep::of([10, 20, 50, 150, 200].map(point).to_vec());
        let best = sweep.points.iter().map(|point| point.rate).fold(0.0, f64::max);
        assert!(sweep.lines()[1].contains(&format!("{} /s", short(best))), "{:?}", sweep.lines());
        assert!(Sweep::of(vec![point(5)]).lines().join("").contains("three"));
    }
}
