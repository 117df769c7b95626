//! The last word: the winner against the original after a restart, in pairs that nothing was chosen by.

use super::{Ask, Search, Stop, Told, log_ratio};
use crate::limits::{CONFIRM_PAIRS, VARIANCE_RATIO_MAX};
use brisk_statistics::sample::{Interval, mean, median, median_interval};

/// What each look may err, both sides together.
const ERRORS: [f64; 3] = [0.03, 0.01, 0.01];

/// What a confirmation came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The winner is better.
    Kept,
    /// The pairs do not say, or the gain is not there.
    Undecided,
    /// It is better in the mean, and its variance has doubled.
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
    /// The variance of the winner's cost over that of the original's.
    pub variance_ratio: f64,
    /// The costs, original and winner, pair by pair.
    pub pairs: Vec<(f64, f64)>,
}

impl Search<'_> {
    /// Confirms the best configuration. Where 20 pairs do not say, 20 more are asked for; and 20 more again
    /// where only its variance speaks against the winner, since variances of few pairs differ by accident.
    pub(super) fn confirm(&mut self, original: &[usize]) -> Result<Confirmation, Stop> {
        let ask = Ask { a: original.to_vec(), b: self.best.clone(), is_short: false, restarts: true };
        let (mut pairs, mut logs, mut broken) = (Vec::new(), Vec::new(), 0);
        let mut found = None;
        for (look, error) in ERRORS.into_iter().enumerate() {
            if look > 0 && self.slices + (2 * CONFIRM_PAIRS) as f64 > self.slices_max {
                break;
            }
            while logs.len() < CONFIRM_PAIRS * (look + 1) {
                match self.ask(&ask)? {
                    Told::Pair(a, b) => {
                        logs.push(log_ratio(a, b));
                        pairs.push((a.cost, b.cost));
                        broken += usize::from(a.holds && !b.holds);
                    }
                    Told::Impossible(_) => return Ok(Confirmation::impossible(pairs)),
                }
            }
            let judged = judge(&logs, &pairs, broken, error);
            let is_clear = match judged.outcome {
                Outcome::Kept | Outcome::Worse => true,
                Outcome::Undecided => look > 0,
                Outcome::Unstable => false,
            };
            found = Some(judged);
            if is_clear {
                break;
            }
        }
        Ok(found.unwrap_or_else(|| Confirmation::impossible(pairs)))
    }
}

fn judge(logs: &[f64], pairs: &[(f64, f64)], broken: usize, error: f64) -> Confirmation {
    let Interval { low, middle, high } = median_interval(logs, error);
    let spread = |side: fn(&(f64, f64)) -> f64| -> f64 {
        let values: Vec<f64> = pairs.iter().map(|pair| side(pair).ln()).collect();
        variance(&values)
    };
    let variance_ratio = spread(|pair| pair.1) / spread(|pair| pair.0).max(f64::MIN_POSITIVE);
    let outcome = match () {
        () if low > 0.0 || broken * 2 > logs.len() => Outcome::Worse,
        () if high >= 0.0 => Outcome::Undecided,
        () if variance_ratio > VARIANCE_RATIO_MAX => Outcome::Unstable,
        () => Outcome::Kept,
    };
    let (ratio, low, high) = (middle.exp(), low.exp(), high.exp());
    Confirmation { outcome, ratio, low, high, variance_ratio, pairs: pairs.to_vec() }
}

/// The variance of values one after another, each against its neighbours: the machine's drift is none of theirs. What is far off counts
/// as three deviations: single accidents happen to either side.
fn variance(values: &[f64]) -> f64 {
    // The median of absolute deviations of normal values, as a part of their deviation.
    const MEDIAN_SHARE: f64 = 0.6745;
    let off = |index: usize| -> f64 {
        let around = index.saturating_sub(2)..(index + 3).min(values.len());
        let others: Vec<f64> = around.filter(|other| *other != index).map(|other| values[other]).collect();
        let count = others.len() as f64;
        (values[index] - mean(&others)).abs() * (count / (count + 1.0)).sqrt()
    };
    let offs: Vec<f64> = (0..values.len()).map(off).collect();
    let most = 3.0 * median(&offs) / MEDIAN_SHARE;
    mean(&offs.iter().map(|off| off.min(most).powi(2)).collect::<Vec<f64>>())
}

impl Confirmation {
    fn impossible(pairs: Vec<(f64, f64)>) -> Confirmation {
        Confirmation {
            outcome: Outcome::Worse,
            ratio: 1.0,
            low: 0.0,
            high: f64::INFINITY,
            variance_ratio: 1.0,
            pairs,
        }
    }
}
