//! Pairs of measurements of the copy, for the search.

use super::files::{Dials, Files};
use super::goal::Goal;
use super::stack::Refused;
use super::traffic::Traffic;
use crate::limits::TUNE_WARMUP_TIME_MIN;
use brisk_load::output;
use brisk_load::report::RunReport;
use brisk_load::rng::Rng;
use brisk_load::system::interrupted;
use brisk_load::watch::Tier;
use brisk_tune::search::{Ask, Bench, CONFIRMATION_SLICES, Point, Slice, Stop, Told};
use std::time::{Duration, Instant};

/// A confirmation may go so much beyond the time: it would be a pity for all that was found.
const BEYOND: f64 = 0.25;

/// How long things take, and may take.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// When the whole began.
    pub begun: Instant,
    /// How long it may take.
    pub budget: Duration,
    /// The counted part of a slice.
    pub slice: Duration,
    /// What a slice takes with its start and its warm-up.
    pub cycle: Duration,
    /// The same after a restart of all programs, as a confirmation has it.
    pub whole: Duration,
}

impl Times {
    /// What a slice of this length takes without the start of the programs.
    pub fn load(slice: Duration) -> Duration {
        slice + warmup(slice)
    }

    /// Shorter slices, where shorter ones do: a site that has become faster answers more in the same time.
    pub fn shorten(&mut self, slice: Duration) {
        let saved = Self::load(self.slice).saturating_sub(Self::load(slice));
        self.slice = self.slice.min(slice);
        self.cycle = self.cycle.saturating_sub(saved);
        self.whole = self.whole.saturating_sub(saved);
    }

    /// So many slices there is time for, those of a confirmation included.
    pub fn slices(&self) -> f64 {
        let left = self.budget.as_secs_f64() - self.begun.elapsed().as_secs_f64() - self.reserve();
        left.max(0.0) / self.cycle.as_secs_f64().max(1e-3) + CONFIRMATION_SLICES as f64
    }

    /// What is kept back for the confirmation. Programs that start so slowly that it would take most of the time get half of it.
    fn reserve(&self) -> f64 {
        let wanted = self.whole.as_secs_f64() * CONFIRMATION_SLICES as f64;
        wanted.min(self.budget.as_secs_f64() / 2.0)
    }

    fn is_over(&self, ask: &Ask) -> bool {
        let (reserve, budget) = (self.reserve(), self.budget.as_secs_f64());
        let limit = if ask.restarts { budget * (1.0 + BEYOND) + reserve * BEYOND } else { budget - reserve };
        self.begun.elapsed().as_secs_f64() > limit
    }
}

/// How long a load runs before it counts.
fn warmup(slice: Duration) -> Duration {
    (slice / 4).max(TUNE_WARMUP_TIME_MIN)
}

/// What is restarted for a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// All programs.
    All,
    /// All but a database whose options are the same: it takes long to start, and longer to be warm.
    Changed,
}

/// A site that can be brought to any point of the search: a copy, or the site itself.
pub trait Runs {
    /// Has its programs run on these files, until it answers.
    fn restart(&mut self, files: &Files, traffic: &Traffic, restart: Restart) -> Result<(), Refused>;
    /// An error if one of its programs has ended by itself.
    fn check(&mut self) -> Result<(), Refused>;
}

/// Who measures.
pub struct Measurer<'a> {
    pub stack: &'a mut dyn Runs,
    pub files: &'a Files,
    pub dials: Dials,
    pub traffic: &'a Traffic,
    pub goal: &'a Goal,
    /// What the goal needs to see.
    pub tiers: Vec<Tier>,
    pub times: Times,
    pub rng: Rng,
    /// Nothing is said of single pairs.
    pub is_quiet: bool,
    pub pairs: usize,
}

/// What came of one side.
enum Side {
    Slice(Slice),
    /// It does not run.
    Impossible(String),
}

impl Measurer<'_> {
    /// The programs anew at this point.
    pub fn bring(&mut self, point: &Point, restart: Restart) -> Result<(), Refused> {
        let files = self.dials.files_at(self.files, point).map_err(Refused)?;
        self.stack.restart(&files, self.traffic, restart)
    }

    /// The same, and a load on them.
    fn run(&mut self, point: &Point, time: Duration, restart: Restart) -> Result<RunReport, Refused> {
        self.bring(point, restart)?;
        let run = self.traffic.run(warmup(time), time, &self.tiers).map_err(Refused)?;
        self.stack.check()?;
        Ok(run)
    }

    fn side(&mut self, point: &Point, ask: &Ask) -> Side {
        let time = if ask.is_short { self.times.slice / 2 } else { self.times.slice };
        let restart = if ask.restarts { Restart::All } else { Restart::Changed };
        let run = match self.run(point, time, restart) {
            Ok(run) => run,
            Err(Refused(why)) => return Side::Impossible(why),
        };
        match self.goal.cost(&run) {
            Some(cost) => {
                let holds = self.goal.broken(&run).is_empty();
                Side::Slice(Slice { cost, holds, error: self.goal.error(&run) })
            }
            None => Side::Impossible("nothing was answered with success".to_owned()),
        }
    }

    fn say(&self, ask: &Ask, told: &Told) {
        if !self.is_quiet {
            difference(&self.dials, ask, told, self.pairs);
        }
    }
}

/// Says what a pair has shown; `number`: which one it is.
pub fn difference(dials: &Dials, ask: &Ask, told: &Told, number: usize) {
    let what = dials.difference(&ask.a, &ask.b);
    match told {
        Told::Pair(a, b) => {
            let change = (b.cost / a.cost - 1.0) * 100.0;
            let broken = if b.holds { "" } else { ", and breaks what is promised" };
            output::note(format_args!("pair {number}: {what}: {change:+.1} %{broken}"));
        }
        Told::Impossible(why) => output::note(format_args!("pair {number}: {what}: impossible: {why}")),
    }
}

impl Bench for Measurer<'_> {
    fn pair(&mut self, ask: &Ask) -> Result<Told, Stop> {
        if self.times.is_over(ask) {
            return Err(Stop::Budget);
        }
        let mut order = [&ask.a, &ask.b];
        let is_swapped = self.rng.below(2) == 1;
        if is_swapped {
            order.reverse();
        }
        let mut sides = Vec::with_capacity(2);
        for point in order {
            let side = self.side(point, ask);
            if interrupted() {
                return Err(Stop::Interrupted);
            }
            sides.push(side);
        }
        if is_swapped {
            sides.reverse();
        }
        self.pairs += 1;
        let told = match (sides.pop(), sides.pop()) {
            (Some(Side::Slice(b)), Some(Side::Slice(a))) => Told::Pair(a, b),
            (Some(Side::Impossible(why)), Some(Side::Slice(_))) if ask.a != ask.b => Told::Impossible(why),
            (_, Some(Side::Impossible(why))) | (Some(Side::Impossible(why)), _) => {
                return Err(Stop::Failed(format!("the copy of the site as it is does not run: {why}")));
            }
            _ => return Err(Stop::Failed("a side was not measured".to_owned())),
        };
        self.say(ask, &told);
        Ok(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database's restart belongs to each slice of a confirmation, and to few of the search.
    #[test]
    fn the_time_of_a_confirmation_is_kept_back() {
        let of = |whole: u64| Times {
            begun: Instant::now(),
            budget: Duration::from_mins(10),
            slice: Duration::from_secs(2),
            cycle: Duration::from_secs(3),
            whole: Duration::from_secs(whole),
        };
        for (whole, slices) in [(3, 200.0), (6, 160.0), (60, 140.0)] {
            let found = of(whole).slices();
            assert!((found - slices).abs() < 5.0, "{whole}: {found}");
        }
        // Half of the cycle is the load: 1.25 s less of 3 s each.
        let mut faster = of(3);
        faster.shorten(Duration::from_secs(1));
        assert_eq!((faster.slice.as_secs(), faster.cycle.as_millis()), (1, 1750));
        assert!(faster.slices() > of(3).slices() * 1.6, "{}", faster.slices());
        faster.shorten(Duration::from_secs(9));
        assert_eq!((faster.slice.as_secs(), faster.cycle.as_millis()), (1, 1750));
    }
}
