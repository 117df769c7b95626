//! What is left to do while there is time: numbers once more, and gains too small for a few pairs.

use super::fresh::{LONG, Tested};
use super::{Search, Step, Stop, Verdict, middle};
use crate::limits::FINE;

/// Pairs with and without one of those that were kept together.
const ALONE: usize = 8;

impl Search<'_> {
    /// As long as there is time: numbers once more, whose place may have moved with what was kept after them, then what the pairs left open, all of it
    /// together, and then one by one, the largest gain first, with as many pairs as small gains need.
    pub(super) fn insist(&mut self) -> Result<(), Stop> {
        let mut open = self.climb_again()?;
        open.extend(self.steps.iter().cloned());
        open.retain(|step| self.best[step.dimension] == step.from && is_open(step));
        open.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
        self.together(&open)?;
        for Step { dimension, from, to, .. } in open {
            if self.best[dimension] == from {
                let step = self.tested_in(dimension, to, &LONG)?;
                self.take(step);
            }
        }
        Ok(())
    }

    /// Tests at once what looks better: gains add up, and pairs that do not show 3 % show 6 %.
    fn together(&mut self, open: &[Step]) -> Result<(), Stop> {
        let mut hopeful: Vec<&Step> = Vec::new();
        for step in open {
            if step.ratio < 1.0 && hopeful.iter().all(|other| other.dimension != step.dimension) {
                hopeful.push(step);
            }
        }
        if hopeful.len() < 2 {
            return Ok(());
        }
        let mut candidate = self.best.clone();
        for step in &hopeful {
            candidate[step.dimension] = step.to;
        }
        let Tested { verdict, log, reach, pairs } = self.test_in(&candidate, &LONG)?;
        if verdict != Verdict::Kept {
            return Ok(());
        }
        for Step { dimension, to, .. } in &hopeful {
            let others = hopeful.iter().map(|step| step.dimension);
            let with = others.filter(|other| other != dimension).collect();
            let step = self.step(*dimension, *to, verdict, (log, reach), pairs);
            self.take(Step { with, ..step });
        }
        // The strongest stays; the weakest goes first.
        hopeful.sort_by(|a, b| self.errors_below(a).total_cmp(&self.errors_below(b)));
        hopeful.pop();
        for step in hopeful {
            self.without(step)?;
        }
        Ok(())
    }

    /// How many of its own standard errors a step is better.
    fn errors_below(&self, step: &Step) -> f64 {
        -step.ratio.ln() * (step.pairs as f64).sqrt() / self.noise.deviation()
    }

    /// Takes back what was kept with others, unless all pairs that tell of it alone say that it is better: a setting that does nothing is not to be
    /// changed. `step`: what was known before.
    fn without(&mut self, step: &Step) -> Result<(), Stop> {
        let mut logs = Vec::new();
        for _ in 0..ALONE {
            let Some(log) = self.measure(self.with(step.dimension, step.from), self.best.clone(), false)?
            else {
                return Ok(());
            };
            logs.push(log);
        }
        let own = step.pairs as f64;
        let all = own + logs.len() as f64;
        let log = (step.ratio.ln() * own + middle(&logs, self.noise.deviation()) * logs.len() as f64) / all;
        if log > -self.noise.deviation() / all.sqrt() {
            self.best[step.dimension] = step.from;
            self.take(step.clone());
        }
        Ok(())
    }

    /// Puts a step in the place of what was known of its knob from there, and what is kept into the best configuration.
    fn take(&mut self, step: Step) {
        let is_kept = step.verdict == Verdict::Kept;
        if is_kept {
            self.best[step.dimension] = step.to;
        }
        let is_same = |known: &&mut Step| (known.dimension, known.from) == (step.dimension, step.from);
        match self.steps.iter_mut().find(is_same) {
            Some(known) => *known = step,
            None if is_kept => self.steps.push(step),
            None => {}
        }
    }

    /// Climbs from where numbers are that others were kept after. What is better is kept, as a step of its own; gives the others.
    fn climb_again(&mut self) -> Result<Vec<Step>, Stop> {
        let kept = self.steps.iter().filter(|step| step.verdict == Verdict::Kept).map(|step| step.dimension);
        let mut kept: Vec<usize> = kept.collect();
        // Nothing was kept after the last one.
        kept.pop();
        kept.retain(|index| self.dimensions[*index].is_ordered);
        let mut open = Vec::new();
        for index in kept {
            let step = self.climb(index)?;
            if step.verdict == Verdict::Kept {
                self.take(step);
            } else {
                open.push(step);
            }
        }
        Ok(open)
    }
}

/// Whether it looks better and more pairs could show it.
fn is_open(step: &Step) -> bool {
    match step.verdict {
        Verdict::Undecided => step.pairs > 0,
        Verdict::NoGain => step.ratio < 1.0 && step.detectable > FINE,
        Verdict::Kept | Verdict::Dropped => false,
    }
}
