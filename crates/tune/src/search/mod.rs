//! The search for a better configuration: an engine that asks for pairs of measurements and is told what they gave. No I/O, no clock.
//!
//! 1. The present configuration against itself, for the noise of a pair.
//! 2. Knob by knob, from the best so far: numbers by hill climbing and a parabola, choices one by one. What looks better must
//!    show it in fresh pairs. Each test may err in its part of the budget only, `0.05 · 6/π²k²` for the k-th, so that trying many
//!    knobs does not make a gain out of nothing. A knob that is kept moves the limit: the bench says which knobs go next.
//! 3. Interactions: points of a Latin hypercube around the best, on short slices, and a tournament of the best four.
//! 4. As long as there is time: numbers that others were kept after, once more, and what the pairs left open, first all together and then one
//!    by one, with many pairs.
//! 5. Confirmation against the original after a restart of all tiers, in pairs that nothing was chosen by.
//!
//! Figures are logarithms of cost ratios, B over A: less is better.

mod climb;
mod confirm;
mod fresh;
mod insist;
mod interact;
mod noise;

pub use confirm::{Confirmation, Outcome, compare};

use crate::limits::{CONFIRM_PAIRS, DIMENSIONS_MAX, NOISE_PAIRS};
use brisk_statistics::rng::Rng;
use brisk_statistics::sample::{mean, median};
use noise::Noise;
use std::collections::VecDeque;
use std::fmt;

/// So many slices are kept back for a confirmation.
pub const CONFIRMATION_SLICES: usize = 2 * CONFIRM_PAIRS;

/// The level of each knob, in the order of the dimensions.
pub type Point = Vec<usize>;

/// A knob as the search sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Dimension {
    /// Its name, for reports.
    pub name: String,
    /// Where each level lies, from 0 to 1 (see [`crate::knob::Levels::places`]).
    pub places: Vec<f64>,
    /// The present level.
    pub original: usize,
    /// Whether neighbours are alike.
    pub is_ordered: bool,
    /// A level that is good for many: it is looked at first.
    pub usual: Option<usize>,
}

/// A pair that is to be measured, both sides one right after the other in random order.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// The one that is compared with.
    pub a: Point,
    /// The other one.
    pub b: Point,
    /// Slices of half the length do.
    pub is_short: bool,
    /// All tiers are restarted before each side.
    pub restarts: bool,
}

/// What one side of a pair gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    /// The primary figure as a cost, in any unit; above 0.
    pub cost: f64,
    /// Whether what was promised held.
    pub holds: bool,
    /// How far the cost of a slice of so many responses is off by chance at least, as a share of it (its standard error); 0: not known.
    pub error: f64,
}

/// What came of an [`Ask`].
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// Both sides were measured.
    Pair(Slice, Slice),
    /// B does not run: its configuration is refused, or it breached a guard-rail. The reason.
    Impossible(String),
}

/// Why there are no more measurements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The time is over.
    Budget,
    /// The user has ended it.
    Interrupted,
    /// Nothing can be measured; the reason.
    Failed(String),
}

/// Who measures.
pub trait Bench {
    /// Measures a pair.
    ///
    /// # Errors
    /// There will be no more.
    fn pair(&mut self, ask: &Ask) -> Result<Told, Stop>;

    /// What is worth trying from here on. Asked after each knob that was kept: the limit may be another one then.
    ///
    /// # Errors
    /// There will be no more measurements.
    fn next(&mut self, best: &Point) -> Result<Next, Stop> {
        let _ = best;
        Ok(Next::default())
    }
}

/// What a new look at the limit changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Next {
    /// Knobs that were not among the dimensions: they are appended, and points become longer.
    pub added: Vec<Dimension>,
    /// So many slices there is time for from here on, those of a confirmation included, if that has changed.
    pub slices: Option<f64>,
    /// Indices of dimensions that go first, in this order; those that were tried are left out.
    pub first: Vec<usize>,
}

/// What came of a knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is better, shown in pairs and confirmed with all others.
    Kept,
    /// Nothing better was found, see [`Step::detectable`].
    NoGain,
    /// The pairs do not say.
    Undecided,
    /// It looked better and was given up: not confirmed, unstable or impossible.
    Dropped,
}

impl Verdict {
    /// Its name in JSON and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::NoGain => "no gain",
            Self::Undecided => "undecided",
            Self::Dropped => "dropped",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One knob's way.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The knob's index.
    pub dimension: usize,
    /// Its level before.
    pub from: usize,
    /// The best of the others.
    pub to: usize,
    /// What came of it.
    pub verdict: Verdict,
    /// The cost with `to` over that with `from`: the middle and the ends of its interval.
    pub ratio: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// A gain of more than this share of the cost would have been seen in four of five cases.
    pub detectable: f64,
    /// Pairs that it took.
    pub pairs: usize,
    /// Other dimensions that were changed in the same pairs: the figures are of all together.
    pub with: Vec<usize>,
}

/// What came of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Knob by knob, in the order in which they were tried.
    pub steps: Vec<Step>,
    /// The best configuration; the original one where nothing was confirmed.
    pub best: Point,
    /// The confirmation; `None`: there was nothing to confirm, or something else than the time has ended it.
    pub confirmation: Option<Confirmation>,
    /// Slices that were measured; short ones count half.
    pub slices: f64,
    /// Why it ended early, if it did.
    pub stopped: Option<Stop>,
}

/// Searches. `slices_max`: so many slices there is time for; what the confirmation needs is kept back. `seed`: the same one asks the
/// same questions again.
pub fn search(dimensions: &[Dimension], bench: &mut dyn Bench, slices_max: f64, seed: u64) -> Found {
    let mut search = Search {
        dimensions: dimensions.to_vec(),
        bench,
        best: dimensions.iter().map(|dimension| dimension.original).collect(),
        noise: Noise::default(),
        equals: Vec::new(),
        tests: 0,
        slices: 0.0,
        slices_max,
        rng: Rng::new(seed),
        steps: Vec::new(),
    };
    let mut stopped = search.explore().err();
    search.pass_over();
    let original = search.original();
    let mut confirmation = None;
    // What was found when the time was over is confirmed nevertheless: slices were kept back for it.
    let may_confirm = matches!(stopped, None | Some(Stop::Budget));
    if search.best != original && may_confirm {
        match search.confirm(&original) {
            Ok((found, ended)) => {
                confirmation = Some(found);
                stopped = ended.or(stopped);
            }
            Err(stop) => stopped = Some(stop),
        }
    }
    let is_kept = confirmation.as_ref().is_some_and(|found| found.outcome == Outcome::Kept);
    let Search { steps, best, slices, .. } = search;
    let settled = |mut step: Step| {
        if step.verdict == Verdict::Kept && !is_kept {
            let is_out = confirmation.as_ref().is_some_and(|found| found.outcome != Outcome::Undecided);
            step.verdict = if is_out { Verdict::Dropped } else { Verdict::Undecided };
        }
        step
    };
    Found {
        steps: steps.into_iter().map(settled).collect(),
        best: if is_kept { best } else { original },
        confirmation,
        slices,
        stopped,
    }
}

/// A search under way.
struct Search<'a> {
    dimensions: Vec<Dimension>,
    bench: &'a mut dyn Bench,
    /// The best configuration so far.
    best: Point,
    noise: Noise,
    /// Logarithms of pairs of the original with itself.
    equals: Vec<f64>,
    /// Tests that have used a part of the error budget.
    tests: usize,
    slices: f64,
    slices_max: f64,
    rng: Rng,
    steps: Vec<Step>,
}

impl Search<'_> {
    fn original(&self) -> Point {
        self.dimensions.iter().map(|dimension| dimension.original).collect()
    }

    fn explore(&mut self) -> Result<(), Stop> {
        let original = self.original();
        for _ in 0..NOISE_PAIRS {
            if let Some(log) = self.measure(original.clone(), original.clone(), false)? {
                self.noise.of_equals(log);
                self.equals.push(log);
            }
        }
        let mut ahead: VecDeque<usize> = (0..self.dimensions.len()).collect();
        while self.steps.len() < DIMENSIONS_MAX
            && let Some(index) = ahead.pop_front()
        {
            let step =
                if self.dimensions[index].is_ordered { self.climb(index) } else { self.choose(index) }?;
            let is_kept = step.verdict == Verdict::Kept;
            if is_kept {
                self.best[index] = step.to;
            }
            self.steps.push(step);
            if is_kept {
                self.look_again(&mut ahead)?;
            }
        }
        self.interact()?;
        self.insist()
    }

    /// Asks what limits with what was found, and puts the knobs for that first.
    fn look_again(&mut self, ahead: &mut VecDeque<usize>) -> Result<(), Stop> {
        let Next { added, slices, first } = self.bench.next(&self.best)?;
        if let Some(slices) = slices {
            self.slices_max = self.slices + slices;
        }
        let known = self.dimensions.len();
        self.best.extend(added.iter().map(|dimension| dimension.original));
        self.dimensions.extend(added);
        ahead.extend(known..self.dimensions.len());
        for index in first.into_iter().rev() {
            if let Some(at) = ahead.iter().position(|one| *one == index) {
                ahead.remove(at);
                ahead.push_front(index);
            }
        }
        Ok(())
    }

    /// Knobs that there was no time for: nothing is known of them.
    fn pass_over(&mut self) {
        for index in 0..self.dimensions.len() {
            if !self.steps.iter().any(|step| step.dimension == index) {
                let step = self.step(index, self.best[index], Verdict::Undecided, (0.0, f64::INFINITY), 0);
                self.steps.push(step);
            }
        }
    }

    /// Slices that are left for the search.
    fn left(&self) -> f64 {
        self.slices_max - self.slices - CONFIRMATION_SLICES as f64
    }

    /// One pair's logarithm; `None`: B is impossible.
    fn measure(&mut self, a: Point, b: Point, is_short: bool) -> Result<Option<f64>, Stop> {
        if self.left() < 2.0 {
            return Err(Stop::Budget);
        }
        let told = self.ask(&Ask { a, b, is_short, restarts: false })?;
        Ok(match told {
            Told::Pair(a, b) => Some(log_ratio(a, b)),
            Told::Impossible(_) => None,
        })
    }

    fn ask(&mut self, ask: &Ask) -> Result<Told, Stop> {
        let told = self.bench.pair(ask)?;
        self.slices += if ask.is_short { 1.0 } else { 2.0 };
        Ok(told)
    }

    /// The best so far with another level of one knob.
    fn with(&self, index: usize, level: usize) -> Point {
        let mut point = self.best.clone();
        point[index] = level;
        point
    }
}

/// What is further from the median than so many deviations is an accident, and counts as so far.
const CLIPPED: f64 = 3.0;

/// The mean without the weight of accidents.
fn middle(logs: &[f64], deviation: f64) -> f64 {
    let around = median(logs);
    let reach = CLIPPED * deviation;
    let near: Vec<f64> = logs.iter().map(|log| log.clamp(around - reach, around + reach)).collect();
    mean(&near)
}

/// What a broken promise costs at least: as much as twice the cost. It must not pay.
const BROKEN: f64 = std::f64::consts::LN_2;

/// B's cost over A's. Ratios beyond e² either way are accidents or all the same.
fn log_ratio(a: Slice, b: Slice) -> f64 {
    let log = (b.cost / a.cost).ln();
    let log = if log.is_finite() { log.clamp(-2.0, 2.0) } else { 2.0 };
    match (a.holds, b.holds) {
        (true, false) => log.max(BROKEN),
        (false, true) => log.min(-BROKEN),
        _ => log,
    }
}

#[cfg(test)]
mod tests;
