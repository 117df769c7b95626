//! The test of one candidate against the best so far, in pairs that were not chosen by.

use super::{Search, Step, Stop, Verdict, middle};

/// What all tests together may err.
const ERROR: f64 = 0.05;
/// After so many pairs it is looked; with each look, the share of the standard error that the mean must be below 0 for going on.
const LOOKS: [(usize, f64); 5] = [(3, 0.3), (5, 0.6), (8, 1.0), (12, 1.5), (16, f64::INFINITY)];
/// The same where there is time, for gains of a few per cent.
pub(super) const LONG: [(usize, f64); 5] = [(8, 0.3), (16, 1.0), (24, 1.5), (36, 2.0), (48, f64::INFINITY)];

/// What a test came to.
pub(super) struct Tested {
    pub(super) verdict: Verdict,
    /// The mean of the logarithms.
    pub(super) log: f64,
    /// How far it may be off.
    pub(super) reach: f64,
    pub(super) pairs: usize,
}

impl Search<'_> {
    /// The part of the error budget of the next test, for one of its looks.
    pub(super) fn error(&self) -> f64 {
        let number = self.tests.max(1) as f64;
        ERROR * 6.0 / (std::f64::consts::PI * number).powi(2) / LOOKS.len() as f64
    }

    /// Tests a candidate; fresh pairs only.
    pub(super) fn test(&mut self, candidate: &[usize]) -> Result<Tested, Stop> {
        self.test_in(candidate, &LOOKS)
    }

    pub(super) fn test_in(
        &mut self,
        candidate: &[usize],
        looks: &[(usize, f64); LOOKS.len()],
    ) -> Result<Tested, Stop> {
        self.tests += 1;
        let error = self.error();
        let mut logs = Vec::new();
        for (pairs, least) in *looks {
            while logs.len() < pairs {
                match self.measure(self.best.clone(), candidate.to_vec(), false)? {
                    Some(log) => logs.push(log),
                    None => return Ok(Tested::impossible(logs.len())),
                }
            }
            let (log, reach) = (middle(&logs, self.noise.deviation()), self.noise.reach(pairs, error));
            let standard = self.noise.deviation() / (pairs as f64).sqrt();
            let verdict = match () {
                () if log + reach < 0.0 => Verdict::Kept,
                () if log > -least * standard && least.is_finite() => Verdict::NoGain,
                () if least.is_infinite() => Verdict::Undecided,
                () => continue,
            };
            self.noise.of_same(&logs);
            return Ok(Tested { verdict, log, reach, pairs });
        }
        // The last look always ends it.
        Ok(Tested::impossible(logs.len()))
    }

    /// The step of a knob whose candidate was tested.
    pub(super) fn tested(&mut self, index: usize, level: usize) -> Result<Step, Stop> {
        self.tested_in(index, level, &LOOKS)
    }

    /// The same, looked at after other numbers of pairs.
    pub(super) fn tested_in(
        &mut self,
        index: usize,
        level: usize,
        looks: &[(usize, f64); LOOKS.len()],
    ) -> Result<Step, Stop> {
        let candidate = self.with(index, level);
        let Tested { verdict, log, reach, pairs } = self.test_in(&candidate, looks)?;
        Ok(self.step(index, level, verdict, (log, reach), pairs))
    }

    /// A step; `reach` may be infinite where nothing is known.
    pub(super) fn step(
        &self,
        index: usize,
        to: usize,
        verdict: Verdict,
        (log, reach): (f64, f64),
        pairs: usize,
    ) -> Step {
        // What is missed in one of five cases (the normal distribution's quantile).
        const POWER: f64 = 0.84;
        let missed = POWER * self.noise.deviation() / (pairs.max(1) as f64).sqrt();
        Step {
            dimension: index,
            from: self.best[index],
            to,
            verdict,
            ratio: log.exp(),
            low: (log - reach).exp(),
            high: (log + reach).exp(),
            detectable: 1.0 - (-(reach + missed)).exp(),
            pairs,
            with: Vec::new(),
        }
    }
}

impl Tested {
    fn impossible(pairs: usize) -> Tested {
        Tested { verdict: Verdict::Dropped, log: 0.0, reach: f64::INFINITY, pairs }
    }
}
