//! Which of two is faster, decided from pairs of runs by a rule that is fixed beforehand.
//!
//! Each pair measures both, one right after the other, in random order: what lasts longer than a pair disturbs both. The
//! logarithms of the pairs' ratios are looked at after 6 pairs and every second one from there; each look may err in an
//! equal part of [`ERROR`], so that looking often does not make a difference out of nothing (Bonferroni).
//!
//! On a machine that others keep busy no pair is left in peace. There CPU per response can still be compared: disturbed pairs count
//! from then on, those that came before included, there are more and shorter ones, and their ratios are judged by their ranks,
//! since single ones are far off. The price is a wider interval.

mod files;
mod side;

pub use files::{Stored, diff};
pub use side::{CpuTime, ERROR_SHARE_MAX, Side, Spoilt, TAKEN_SHARE_MAX};

use std::fmt;

use crate::limits::DISTURBED_PAIRS_MIN;
use crate::sample::{Interval, mean, mean_interval, median_interval};

/// How often a comparison of two that are the same may say that one is faster: over all looks together.
pub const ERROR: f64 = 0.03;
/// Differences below this are of no interest.
pub const EQUAL: f64 = 0.03;
/// The first look.
const FIRST_LOOK: usize = 6;
/// Pairs between looks.
const LOOK_EVERY: usize = 2;
/// The first look on a busy machine: ranks of fewer pairs cannot say anything with certainty enough.
const FIRST_BUSY_LOOK: usize = 10;
/// So many times more pairs are made on a busy machine, each of so many times shorter runs.
pub const BUSY_PAIRS: usize = 2;

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

/// What came of a promise that B costs less than so much more than A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// It costs less than that.
    Holds,
    /// It costs that much more.
    Broken,
    /// The pairs do not say.
    Undecided,
}

impl Promise {
    /// Its name in JSON and pages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Broken => "broken",
            Self::Undecided => "undecided",
        }
    }
}

/// What holds for pairs that others on the machine have disturbed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// Pairs count in which others took up to this share of the CPU time.
    pub taken_share_max: f64,
    /// Where most pairs are disturbed more than that, they count nevertheless. Only CPU per response survives that.
    pub widens: bool,
}

/// What the machine is like, as the pairs show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// Most pairs are left in peace; others do not count.
    Quiet,
    /// Most pairs are disturbed, and all of them count.
    Busy,
    /// Most pairs are disturbed, and disturbed ones may not count: nothing can be found out here.
    Hopeless,
}

/// The pairs of a comparison, and what they say.
#[derive(Debug, Clone)]
pub struct Comparison {
    pairs_max: usize,
    tolerance: Tolerance,
    ground: Ground,
    /// Pairs that count.
    costs: Vec<(f64, f64)>,
    /// Pairs that the machine has spoilt.
    disturbed: Vec<(f64, f64)>,
    /// Pairs that the targets have spoilt.
    failed: usize,
    /// What others took of the CPU time, of each side of pairs that the targets have not spoilt.
    taken: Vec<f64>,
    /// What is left of [`ERROR`].
    error: f64,
    /// By which share B must not cost more than A, if that is promised.
    promised: Option<f64>,
    verdict: Verdict,
    interval: Interval,
}

impl Comparison {
    /// One of at most `pairs_max` pairs that count, or [`BUSY_PAIRS`] times as many on a busy machine.
    pub fn new(pairs_max: usize, tolerance: Tolerance) -> Self {
        Self {
            pairs_max: pairs_max.max(FIRST_LOOK),
            tolerance,
            ground: Ground::Quiet,
            costs: Vec::new(),
            disturbed: Vec::new(),
            failed: 0,
            taken: Vec::new(),
            error: ERROR,
            promised: None,
            verdict: Verdict::Undecided,
            interval: Interval { low: f64::NEG_INFINITY, middle: 0.0, high: f64::INFINITY },
        }
    }

    /// With a promise that B costs less than so much more, as a share: pairs go on until it is decided, too.
    #[must_use]
    pub fn with_promise(self, share: Option<f64>) -> Self {
        Self { promised: share, ..self }
    }

    /// What came of the promise, if there is one.
    pub fn promise(&self) -> Option<Promise> {
        let limit = (1.0 + self.promised?).ln();
        let Interval { low, high, .. } = self.interval;
        Some(match () {
            () if high < limit => Promise::Holds,
            () if low >= limit => Promise::Broken,
            () => Promise::Undecided,
        })
    }

    /// Takes a pair; gives why it does not count, if it does not.
    pub fn add(&mut self, a: &Side, b: &Side) -> Option<String> {
        let spoilt = |name, side: &Side| Some((name, side.spoilt(self.tolerance.taken_share_max)?));
        let found = [spoilt("A", a), spoilt("B", b)];
        let failed = found.iter().flatten().find(|(_, why)| !why.blames_the_machine());
        if let Some((name, why)) = failed {
            self.failed += 1;
            return Some(format!("{name} {why}"));
        }
        self.taken.extend([a.taken_share, b.taken_share]);
        let disturbed = found.into_iter().flatten().next().filter(|_| self.ground != Ground::Busy);
        if let Some((name, why)) = disturbed {
            self.disturbed.push((a.cost, b.cost));
            if self.disturbed.len() >= DISTURBED_PAIRS_MIN && self.disturbed.len() > self.costs.len() {
                self.give_up_quiet();
            }
            return (self.ground != Ground::Busy).then(|| format!("{name} {why}"));
        }
        self.costs.push((a.cost, b.cost));
        self.look();
        None
    }

    /// Most pairs are disturbed: either they count, or there is no end.
    fn give_up_quiet(&mut self) {
        if !self.tolerance.widens {
            self.ground = Ground::Hopeless;
            return;
        }
        self.ground = Ground::Busy;
        self.pairs_max *= BUSY_PAIRS;
        self.costs.append(&mut self.disturbed);
        self.look();
    }

    /// How many looks there are in all, and whether one is due after so many pairs.
    fn looks(&self) -> (usize, bool) {
        let mut due = match self.ground {
            Ground::Busy => FIRST_BUSY_LOOK.min(self.pairs_max),
            _ => FIRST_LOOK,
        };
        let (mut count, mut is_due) = (0, false);
        loop {
            count += 1;
            is_due |= due == self.costs.len();
            if due >= self.pairs_max {
                return (count, is_due);
            }
            let more = if self.ground == Ground::Busy { due / 4 } else { LOOK_EVERY };
            due = (due + more).min(self.pairs_max);
        }
    }

    fn look(&mut self) {
        let (looks, is_due) = self.looks();
        if !is_due {
            return;
        }
        let logs: Vec<f64> = self.costs.iter().map(|(a, b)| (b / a).ln()).collect();
        self.interval = match self.ground {
            // What looks at a quiet machine may have used of the error is not used again.
            Ground::Busy => median_interval(&logs, self.error / looks as f64),
            _ => {
                self.error -= ERROR / looks as f64;
                mean_interval(&logs, ERROR / looks as f64)
            }
        };
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
        (self.verdict != Verdict::Undecided && self.promise() != Some(Promise::Undecided))
            || self.ground == Ground::Hopeless
            || self.costs.len() >= self.pairs_max
            // Targets that fail in every second pair give nothing to compare.
            || self.failed + self.disturbed.len() > self.pairs_max
    }

    /// What the pairs say up to now.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// What the machine is like.
    pub fn ground(&self) -> Ground {
        self.ground
    }

    /// What others took of the CPU time that server and generator wanted, in the mean of the pairs.
    pub fn taken_share(&self) -> f64 {
        mean(&self.taken)
    }

    /// B's cost over A's, with its interval at the last look.
    pub fn ratio(&self) -> Interval {
        let Interval { low, middle, high } = self.interval;
        Interval { low: low.exp(), middle: middle.exp(), high: high.exp() }
    }

    /// Pairs that count.
    pub fn pairs(&self) -> usize {
        self.costs.len()
    }

    /// The costs of both sides, pair by pair.
    pub fn costs(&self) -> &[(f64, f64)] {
        &self.costs
    }

    /// Pairs that do not.
    pub fn spoilt(&self) -> usize {
        self.failed + self.disturbed.len()
    }

    /// Of these, those that the rest of the machine has spoilt.
    pub fn disturbed(&self) -> usize {
        self.disturbed.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const STRICT: Tolerance = Tolerance { taken_share_max: TAKEN_SHARE_MAX, widens: false };
    const WIDENS: Tolerance = Tolerance { widens: true, ..STRICT };

    #[test]
    fn a_promise_is_kept_or_broken_or_undecided() {
        let run = |ratio: f64, share: f64, pairs_max: usize| {
            let mut comparison = Comparison::new(pairs_max, STRICT).with_promise(Some(share));
            let mut rng = Rng::new(7);
            while !comparison.is_over() {
                let noise = 1.0 + 0.01 * (rng.unit() - 0.5);
                assert_eq!(comparison.add(&side(100.0), &side(100.0 * ratio * noise)), None);
            }
            (comparison.promise().unwrap(), comparison.pairs())
        };
        assert_eq!(run(1.0, 0.05, 20), (Promise::Holds, 6));
        assert_eq!(run(1.2, 0.05, 20), (Promise::Broken, 6));
        // Slower is clear at once; whether by 5 % takes all pairs, and stays open.
        assert_eq!(run(1.05, 0.05, 12), (Promise::Undecided, 12));
        assert_eq!(Comparison::new(6, STRICT).promise(), None);
    }

    fn side(cost: f64) -> Side {
        Side { cost, taken_share: 0.0, error_share: 0.0, is_late: false }
    }

    /// Pairs of a machine whose level drifts and whose single runs scatter, now and then by much.
    fn simulate(rng: &mut Rng, ratio: f64, noise: f64, pairs_max: usize) -> Comparison {
        let mut comparison = Comparison::new(pairs_max, STRICT);
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
                let mut comparison = Comparison::new(20, STRICT);
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
        let mut comparison = Comparison::new(8, STRICT);
        let disturbed = Side { taken_share: 0.2, ..side(1.0) };
        assert!(comparison.add(&side(1.0), &disturbed).unwrap().starts_with("B lost 20 %"));
        let failing = Side { error_share: 0.5, ..side(1.0) };
        assert!(comparison.add(&failing, &disturbed).unwrap().starts_with("A failed 50"));
        assert!(comparison.add(&side(f64::NAN), &side(1.0)).is_some());
        assert_eq!((comparison.pairs(), comparison.spoilt(), comparison.disturbed()), (0, 3, 1));
        // A few disturbed pairs are enough to know the machine.
        for _ in 0..3 {
            assert!(!comparison.is_over());
            comparison.add(&side(1.0), &disturbed);
        }
        assert!(comparison.is_over() && comparison.ground() == Ground::Hopeless);
        assert_eq!((comparison.verdict(), comparison.pairs()), (Verdict::Undecided, 0));
        assert!((comparison.taken_share() - 0.1).abs() < 1e-9);
        // Failing targets end it, too.
        let mut comparison = Comparison::new(8, WIDENS);
        for _ in 0..9 {
            comparison.add(&failing, &side(1.0));
        }
        assert!(comparison.is_over() && comparison.ground() == Ground::Quiet);
    }

    /// Some disturbed pairs among others are left out, on a machine that is quiet most of the time.
    #[test]
    fn a_machine_that_is_busy_now_and_then_is_quiet() {
        let mut rng = Rng::new(64);
        let mut comparison = Comparison::new(20, WIDENS);
        for index in 0..40 {
            let noise = 1.0 + 0.05 * rng.normal();
            let b = Side { taken_share: if index % 3 == 2 { 0.3 } else { 0.0 }, ..side(noise) };
            if !comparison.is_over() {
                assert_eq!(comparison.add(&side(1.0), &b).is_some(), index % 3 == 2);
            }
        }
        assert!(comparison.is_over() && comparison.ground() == Ground::Quiet && comparison.disturbed() > 3);
    }

    /// Logarithms of ratios of one server with itself, from a machine with two CPUs at loads from 6 to 11.
    const RECORDED: [f64; 60] = [
        0.0, 0.06, 0.04, 0.07, 0.07, -0.21, 0.04, 0.09, 0.24, 0.01, 0.05, -0.02, -0.04, 0.16, -0.05, 0.11,
        -0.03, -0.08, -0.15, 0.09, 0.09, 0.04, 0.16, 0.01, -0.07, 0.01, 0.01, -0.07, -0.03, 0.02, 0.0, 0.01,
        0.05, 0.0, 0.16, 0.3, -0.05, 0.01, 0.09, -0.02, 0.05, -0.19, 0.2, 0.04, -0.04, -0.01, 0.22, 0.07,
        0.43, 0.22, -0.15, 0.03, 0.06, -0.02, -0.03, 0.01, 0.05, 0.01, 0.15, -0.02,
    ];

    /// Pairs of a busy machine. Which of the two comes first is an accident, and so is the sign of what disturbs.
    fn busy(rng: &mut Rng, ratio: f64, noise: impl Fn(&mut Rng) -> f64) -> Comparison {
        let mut comparison = Comparison::new(20, WIDENS);
        while !comparison.is_over() {
            let log = if rng.unit() < 0.5 { noise(rng) } else { -noise(rng) };
            let taken = |rng: &mut Rng, cost| Side { taken_share: 0.1 + 0.5 * rng.unit(), ..side(cost) };
            let (a, b) = (taken(rng, 2.4), taken(rng, 2.4 * ratio * log.exp()));
            comparison.add(&a, &b);
        }
        comparison
    }

    /// As load 3 has it, in three ways: recorded; normal with outliers; two levels between which the machine changes at any time.
    #[test]
    fn a_busy_machine_tells_a_tenth_and_makes_none_up() {
        let noises: [fn(&mut Rng) -> f64; 3] = [
            |rng| RECORDED[rng.below(RECORDED.len())],
            |rng| 0.08 * rng.normal() * if rng.unit() < 0.1 { 4.0 } else { 1.0 },
            |rng| 0.05 * rng.normal() + if rng.unit() < 0.1 { 0.6 } else { 0.0 },
        ];
        let mut rng = Rng::new(65);
        for (index, noise) in noises.into_iter().enumerate() {
            let alarms = (0..400)
                .filter(|_| {
                    let verdict = busy(&mut rng, 1.0, noise).verdict();
                    matches!(verdict, Verdict::Faster | Verdict::Slower)
                })
                .count();
            assert!(alarms <= 20, "{index}: {alarms} of 400");
            for (ratio, want) in [(0.9, Verdict::Faster), (1.1, Verdict::Slower)] {
                let found = (0..100).filter(|_| busy(&mut rng, ratio, noise).verdict() == want).count();
                assert!(found >= 80, "{index} {ratio}: {found} of 100");
            }
        }
    }

    #[test]
    fn a_busy_machine_is_noticed_after_a_few_pairs() {
        let mut comparison = Comparison::new(20, WIDENS);
        let disturbed = Side { taken_share: 0.4, is_late: true, ..side(1.0) };
        for count in 1..=3 {
            assert!(comparison.add(&disturbed, &side(1.0)).unwrap().starts_with("A lost 40 %"));
            assert_eq!((comparison.pairs(), comparison.disturbed()), (0, count));
        }
        assert_eq!(comparison.add(&disturbed, &side(1.0)), None);
        // What came before counts, too, and so does what comes.
        assert_eq!((comparison.ground(), comparison.pairs(), comparison.spoilt()), (Ground::Busy, 4, 0));
        assert_eq!(comparison.add(&disturbed, &side(1.0)), None);
        assert!((comparison.taken_share() - 0.2).abs() < 1e-9 && comparison.pairs() == 5);
        let failing = Side { error_share: 0.5, ..disturbed };
        assert!(comparison.add(&disturbed, &failing).unwrap().starts_with("B failed"));
    }
}
