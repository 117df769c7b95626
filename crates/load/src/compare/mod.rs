//! Which of two is faster, decided from pairs of runs by a rule that is fixed beforehand.
//!
//! Each pair measures both, one right after the other, in random order: what lasts longer than a pair disturbs both. The
//! logarithms of the pairs' ratios are looked at after 6 pairs and every second one from there; each look may err in an
//! equal part of [`ERROR`], so that looking often does not make a difference out of nothing (Bonferroni).

mod files;
mod side;

pub use files::{Stored, diff};
pub use side::{CpuTime, ERROR_SHARE_MAX, Side, Spoilt, TAKEN_SHARE_MAX};

use std::fmt;

use crate::sample::{Interval, mean_interval};

/// How often a comparison of two that are the same may say that one is faster: over all looks together.
pub const ERROR: f64 = 0.03;
/// Differences below this are of no interest.
pub const EQUAL: f64 = 0.03;
/// The first look.
const FIRST_LOOK: usize = 6;
/// Pairs between looks.
const LOOK_EVERY: usize = 2;

/// What a comparison comes to. The figure is a cost (CPU or time): less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// B costs less than A.
    Faster,
    /// B costs more.
    Slower,
    /// The difference is below 3 %.
    Equal,
    /// The pairs do not say.
    Undecided,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Faster => "B is faster",
            Self::Slower => "B is slower",
            Self::Equal => "equal within 3 %",
            Self::Undecided => "undecided",
        })
    }
}

/// The pairs of a comparison, and what they say.
#[derive(Debug, Clone)]
pub struct Comparison {
    pairs_max: usize,
    taken_share_max: f64,
    /// Logarithms of B's cost over A's, of the pairs that count.
    logs: Vec<f64>,
    costs: Vec<(f64, f64)>,
    /// Pairs that do not count: because of the machine, and because of the targets.
    spoilt: [usize; 2],
    verdict: Verdict,
    interval: Interval,
}

impl Comparison {
    /// One of at most `pairs_max` pairs that count.
    pub fn new(pairs_max: usize) -> Self {
        let interval = Interval { low: f64::NEG_INFINITY, middle: 0.0, high: f64::INFINITY };
        Self {
            pairs_max: pairs_max.max(FIRST_LOOK),
            taken_share_max: TAKEN_SHARE_MAX,
            logs: Vec::new(),
            costs: Vec::new(),
            spoilt: [0; 2],
            verdict: Verdict::Undecided,
            interval,
        }
    }

    /// Pairs count in which others took up to this share of the CPU time.
    pub fn tolerate(&mut self, taken_share_max: f64) {
        self.taken_share_max = taken_share_max;
    }

    /// Takes a pair; gives why it does not count, if it does not.
    pub fn add(&mut self, a: &Side, b: &Side) -> Option<String> {
        let of = |name, side: &Side| side.spoilt(self.taken_share_max).map(|why| (name, why));
        if let Some((name, why)) = of("A", a).or_else(|| of("B", b)) {
            self.spoilt[usize::from(!why.blames_the_machine())] += 1;
            return Some(format!("{name} {why}"));
        }
        self.logs.push((b.cost / a.cost).ln());
        self.costs.push((a.cost, b.cost));
        if self.is_look() {
            self.look();
        }
        None
    }

    fn is_look(&self) -> bool {
        let count = self.logs.len();
        count >= FIRST_LOOK && ((count - FIRST_LOOK).is_multiple_of(LOOK_EVERY) || count == self.pairs_max)
    }

    fn look(&mut self) {
        let looks = 1 + (self.pairs_max - FIRST_LOOK).div_ceil(LOOK_EVERY);
        self.interval = mean_interval(&self.logs, ERROR / looks as f64);
        let Interval { low, high, .. } = self.interval;
        let margin = (1.0 + EQUAL).ln();
        self.verdict = if low > -margin && high < margin {
            Verdict::Equal
        } else if high < 0.0 {
            Verdict::Faster
        } else if low > 0.0 {
            Verdict::Slower
        } else {
            Verdict::Undecided
        };
    }

    /// Whether there is nothing more to find out.
    pub fn is_over(&self) -> bool {
        let decided = self.verdict != Verdict::Undecided;
        // A machine on which every second pair is spoilt is no place to measure.
        decided || self.logs.len() >= self.pairs_max || self.spoilt() > self.pairs_max
    }

    /// What the pairs say up to now.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// B's cost over A's, with its interval at the last look.
    pub fn ratio(&self) -> Interval {
        let Interval { low, middle, high } = self.interval;
        Interval { low: low.exp(), middle: middle.exp(), high: high.exp() }
    }

    /// Pairs that count.
    pub fn pairs(&self) -> usize {
        self.logs.len()
    }

    /// The costs of both sides, pair by pair.
    pub fn costs(&self) -> &[(f64, f64)] {
        &self.costs
    }

    /// Pairs that do not.
    pub fn spoilt(&self) -> usize {
        self.spoilt.iter().sum()
    }

    /// Of these, those that the rest of the machine has spoilt.
    pub fn disturbed(&self) -> usize {
        self.spoilt[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn side(cost: f64) -> Side {
        Side { cost, taken_share: 0.0, error_share: 0.0, is_late: false }
    }

    /// Pairs of a machine whose level drifts and whose single runs scatter, now and then by much.
    fn simulate(rng: &mut Rng, ratio: f64, noise: f64, pairs_max: usize) -> Comparison {
        let mut comparison = Comparison::new(pairs_max);
        let mut level = 1.0f64;
        while !comparison.is_over() {
            level *= 1.0 + 0.1 * rng.normal();
            let level = level.abs().clamp(0.2, 5.0);
            let run = |rng: &mut Rng, cost: f64| {
                let jump = if rng.unit() < 0.03 { 1.0 + 0.3 * rng.unit() } else { 1.0 };
                side(cost * level * jump * (1.0 + noise * rng.normal()).max(0.1))
            };
            let (a, b) = (run(rng, 10.0), run(rng, 10.0 * ratio));
            comparison.add(&a, &b);
        }
        comparison
    }

    #[test]
    fn two_that_are_the_same_are_not_told_apart() {
        let mut rng = Rng::new(61);
        for noise in [0.005, 0.02, 0.05, 0.15] {
            for _ in 0..10 {
                let same = (0..100)
                    .filter(|_| {
                        let verdict = simulate(&mut rng, 1.0, noise, 20).verdict();
                        matches!(verdict, Verdict::Equal | Verdict::Undecided)
                    })
                    .count();
                assert!(same >= 93, "noise {noise}: {same} of 100");
            }
            let all = (0..2000).filter(|_| {
                let verdict = simulate(&mut rng, 1.0, noise, 20).verdict();
                matches!(verdict, Verdict::Equal | Verdict::Undecided)
            });
            assert!(all.count() >= 1900, "noise {noise}");
        }
    }

    #[test]
    fn a_real_difference_is_found_in_time() {
        let mut rng = Rng::new(62);
        for (ratio, want) in [(0.9, Verdict::Faster), (1.1, Verdict::Slower)] {
            let right = (0..200).filter(|_| simulate(&mut rng, ratio, 0.04, 20).verdict() == want).count();
            assert!(right >= 180, "{ratio}: {right} of 200");
        }
    }

    #[test]
    fn quiet_machines_find_equality() {
        let mut rng = Rng::new(63);
        let equal = (0..200)
            .filter(|_| {
                let mut comparison = Comparison::new(20);
                while !comparison.is_over() {
                    let run = |rng: &mut Rng| side(10.0 * (1.0 + 0.01 * rng.normal()));
                    let (a, b) = (run(&mut rng), run(&mut rng));
                    comparison.add(&a, &b);
                }
                comparison.verdict() == Verdict::Equal && comparison.pairs() <= 14
            })
            .count();
        assert!(equal >= 190, "{equal} of 200");
    }

    #[test]
    fn spoilt_pairs_do_not_count_and_do_not_go_on_for_ever() {
        let mut comparison = Comparison::new(8);
        let disturbed = Side { taken_share: 0.2, ..side(1.0) };
        assert!(comparison.add(&side(1.0), &disturbed).unwrap().starts_with("B lost 20 %"));
        assert!(
            comparison
                .add(&Side { error_share: 0.5, ..side(1.0) }, &side(1.0))
                .unwrap()
                .starts_with("A failed 50")
        );
        assert!(comparison.add(&side(f64::NAN), &side(1.0)).is_some());
        assert_eq!((comparison.pairs(), comparison.spoilt(), comparison.disturbed()), (0, 3, 1));
        for _ in 0..20 {
            comparison.add(&side(1.0), &disturbed);
        }
        assert!(comparison.is_over() && comparison.verdict() == Verdict::Undecided);
    }
}
