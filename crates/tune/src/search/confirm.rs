//! The last word: the winner against the original after a restart, in pairs that nothing was chosen by.

use super::{Ask, Bench, CONFIRMATION_SLICES, Point, Search, Slice, Stop, Told, log_ratio};
use crate::limits::{CONFIRM_PAIRS, CONFIRM_PAIRS_MIN, VARIANCE_RATIO_MAX};
use brisk_statistics::sample::{Interval, mean, median, median_interval};

/// What each look may err, both sides together.
const ERRORS: [f64; 3] = [0.03, 0.01, 0.01];

/// The worst slices are so many deviations from the middle: one of forty, where they are normal.
const WORST: f64 = 2.0;
/// A promise that one of so many slices breaks, and the original does not, is broken.
const BREAKS_OF: usize = 10;

/// What a confirmation came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The winner is better.
    Kept,
    /// The pairs do not say, or the gain is not there.
    Undecided,
    /// It is better in the mean and varies more than the original and chance explain, so much that its worst slices are no better than
    /// the original or break what was promised.
    Unstable,
    /// It is worse than the original, does not run, or breaks what was promised.
    Worse,
}

/// The winner against the original.
#[derive(Clone, Debug, PartialEq)]
pub struct Confirmation {
    /// What it came to.
    pub outcome: Outcome,
    /// The winner's cost over the original's.
    pub ratio: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The variance of the winner's cost over what explains it: the original's, or what chance alone makes of slices of so many
    /// responses, whichever is more.
    pub variance_ratio: f64,
    /// The costs, original and winner, pair by pair.
    pub pairs: Vec<(f64, f64)>,
    /// Why the winner does not run, if it does not.
    pub impossible: Option<String>,
}

/// What was measured for a confirmation.
#[derive(Default)]
struct Gathered {
    pairs: Vec<(f64, f64)>,
    logs: Vec<f64>,
    /// The variance of each of B's slices by chance.
    chance: Vec<f64>,
    /// Pairs in which only B breaks what was promised.
    broken: usize,
    /// Pairs in which only A does.
    mended: usize,
    /// Logarithms of pairs of the original with itself.
    equals: Vec<f64>,
}

impl Gathered {
    fn add(&mut self, a: Slice, b: Slice) {
        self.logs.push(log_ratio(a, b));
        self.pairs.push((a.cost, b.cost));
        self.chance.push(b.error.powi(2));
        self.broken += usize::from(a.holds && !b.holds);
        self.mended += usize::from(b.holds && !a.holds);
    }

    fn judged(&self, error: f64) -> Confirmation {
        let Interval { low, middle, high } = median_interval(&self.logs, error);
        let logs = |side: fn(&(f64, f64)) -> f64| {
            self.pairs.iter().map(|pair| side(pair).ln()).collect::<Vec<f64>>()
        };
        // A pair of equals differs by two slices' worth.
        let equals = self.equals.iter().map(|log| log.abs() / std::f64::consts::SQRT_2);
        let original = variance(&logs(|pair| pair.0), equals);
        let winner = variance(&logs(|pair| pair.1), std::iter::empty());
        let variance_ratio = winner / original.max(mean(&self.chance)).max(f64::MIN_POSITIVE);
        let outcome = match () {
            () if low > 0.0 || self.broken * 2 > self.logs.len() => Outcome::Worse,
            () if high >= 0.0 => Outcome::Undecided,
            () if variance_ratio > VARIANCE_RATIO_MAX && self.matters(middle, winner) => Outcome::Unstable,
            () => Outcome::Kept,
        };
        let (ratio, low, high) = (middle.exp(), low.exp(), high.exp());
        Confirmation {
            outcome,
            ratio,
            low,
            high,
            variance_ratio,
            pairs: self.pairs.clone(),
            impossible: None,
        }
    }

    /// The same where there was no time for more pairs. Few of them say nothing.
    fn cut_off(&self, error: f64) -> Confirmation {
        if self.logs.len() >= CONFIRM_PAIRS_MIN {
            let judged = self.judged(error);
            // Variances of few pairs differ by accident.
            let is_early = judged.outcome == Outcome::Unstable && self.logs.len() < CONFIRM_PAIRS;
            return if is_early { Confirmation { outcome: Outcome::Undecided, ..judged } } else { judged };
        }
        Confirmation {
            outcome: Outcome::Undecided,
            ratio: f64::NAN,
            low: 0.0,
            high: f64::INFINITY,
            variance_ratio: f64::NAN,
            pairs: self.pairs.clone(),
            impossible: None,
        }
    }

    /// Whether this variance of the winner takes its gain away in its worst slices, or breaks what was promised. A configuration that
    /// is three times as fast and varies by 5 % is a gain, however little the original varied: a pool that is full varies by nothing.
    fn matters(&self, log: f64, variance: f64) -> bool {
        // So few pairs may make a deviation look smaller than it is: it counts with its own standard error.
        let known = 1.0 + 1.0 / (2.0 * self.logs.len() as f64).sqrt();
        let eats = log + WORST * variance.sqrt() * known > 0.0;
        let breaks = self.broken > self.mended && self.broken * BREAKS_OF >= self.logs.len();
        eats || breaks
    }
}

/// Compares two configurations in as many pairs as a confirmation has, after restarts, and judges once.
///
/// # Errors
/// There are no more measurements.
pub fn compare(bench: &mut dyn Bench, a: &Point, b: &Point) -> Result<Confirmation, Stop> {
    let ask = Ask { a: a.clone(), b: b.clone(), is_short: false, restarts: true };
    let mut gathered = Gathered::default();
    while gathered.logs.len() < CONFIRM_PAIRS {
        match bench.pair(&ask)? {
            Told::Pair(a, b) => gathered.add(a, b),
            Told::Impossible(why) => return Ok(Confirmation::impossible(gathered.pairs, why)),
        }
    }
    Ok(gathered.judged(ERRORS[0]))
}

impl Search<'_> {
    /// Confirms the best configuration. Where 20 pairs do not say, 20 more are asked for; and 20 more again
    /// where only its variance speaks against the winner, since variances of few pairs differ by accident. Where the time ends it, what was
    /// measured by then is judged, and the second part says so.
    pub(super) fn confirm(&mut self, original: &[usize]) -> Result<(Confirmation, Option<Stop>), Stop> {
        let ask = Ask { a: original.to_vec(), b: self.best.clone(), is_short: false, restarts: true };
        let mut gathered = Gathered { equals: self.equals.clone(), ..Gathered::default() };
        let mut look = 0;
        loop {
            while gathered.logs.len() < CONFIRM_PAIRS * (look + 1) {
                match self.ask(&ask) {
                    Ok(Told::Pair(a, b)) => gathered.add(a, b),
                    Ok(Told::Impossible(why)) => {
                        return Ok((Confirmation::impossible(gathered.pairs, why), None));
                    }
                    // The clock has ended it, and not what the pairs say: they are judged as they would have been.
                    Err(Stop::Budget) => return Ok((gathered.cut_off(ERRORS[look]), Some(Stop::Budget))),
                    Err(stop) => return Err(stop),
                }
            }
            let judged = gathered.judged(ERRORS[look]);
            let is_clear = match judged.outcome {
                Outcome::Kept | Outcome::Worse => true,
                Outcome::Undecided => look > 0,
                Outcome::Unstable => false,
            };
            look += 1;
            let has_time = self.slices + CONFIRMATION_SLICES as f64 <= self.slices_max;
            if is_clear || look == ERRORS.len() || !has_time {
                return Ok((judged, None));
            }
        }
    }
}

/// The variance of values one after another, each against its neighbours: the machine's drift is none of theirs. What is far off counts
/// as three deviations: single accidents happen to either side. `known`: deviations that are known besides.
fn variance(values: &[f64], known: impl Iterator<Item = f64>) -> f64 {
    // The median of absolute deviations of normal values, as a part of their deviation.
    const MEDIAN_SHARE: f64 = 0.6745;
    let off = |index: usize| -> f64 {
        let around = index.saturating_sub(2)..(index + 3).min(values.len());
        let others: Vec<f64> = around.filter(|other| *other != index).map(|other| values[other]).collect();
        let count = others.len() as f64;
        (values[index] - mean(&others)).abs() * (count / (count + 1.0)).sqrt()
    };
    let offs: Vec<f64> = (0..values.len()).map(off).chain(known).collect();
    let most = 3.0 * median(&offs) / MEDIAN_SHARE;
    mean(&offs.iter().map(|off| off.min(most).powi(2)).collect::<Vec<f64>>())
}

impl Confirmation {
    /// Whether the time has ended it before there were as many pairs as it should have.
    pub fn is_cut_off(&self) -> bool {
        self.pairs.len() < CONFIRM_PAIRS && self.impossible.is_none()
    }

    fn impossible(pairs: Vec<(f64, f64)>, why: String) -> Confirmation {
        Confirmation {
            outcome: Outcome::Worse,
            ratio: 1.0,
            low: 0.0,
            high: f64::INFINITY,
            variance_ratio: 1.0,
            pairs,
            impossible: Some(why),
        }
    }
}
