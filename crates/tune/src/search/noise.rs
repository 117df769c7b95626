//! How far pairs scatter, from all that was measured more than once.

use brisk_statistics::sample::{mean, student_quantile};

/// What is believed before anything was measured: pairs scatter by 8 %, and two values' worth of it.
const BELIEVED: (f64, f64) = (0.08, 2.0);
/// A deviation beyond so many times the noise counts as this: single accidents must not hide what others tell.
const CLIPPED: f64 = 3.0;

/// The pooled variance of pairs' logarithms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noise {
    squares: f64,
    freedom: f64,
}

impl Default for Noise {
    fn default() -> Noise {
        Noise { squares: BELIEVED.0 * BELIEVED.0 * BELIEVED.1, freedom: BELIEVED.1 }
    }
}

impl Noise {
    /// The standard deviation of one pair's logarithm.
    pub(super) fn deviation(&self) -> f64 {
        (self.squares / self.freedom).sqrt()
    }

    /// Takes the logarithm of a pair of equals: its mean is known.
    pub(super) fn of_equals(&mut self, log: f64) {
        self.add(log, 1.0);
    }

    /// Takes pairs of the same two configurations.
    pub(super) fn of_same(&mut self, logs: &[f64]) {
        if logs.len() < 2 {
            return;
        }
        let middle = mean(logs);
        let freedom = (logs.len() - 1) as f64 / logs.len() as f64;
        for log in logs {
            self.add((log - middle) / freedom.sqrt(), freedom);
        }
    }

    fn add(&mut self, deviation: f64, freedom: f64) {
        // The first few may show that it is much noisier than was believed.
        let most = if self.freedom < 8.0 { f64::INFINITY } else { CLIPPED * self.deviation() };
        let deviation = deviation.abs().min(most);
        self.squares += deviation * deviation * freedom;
        self.freedom += freedom;
    }

    /// How far the mean of so many pairs is from the truth at most, but for this share of cases on one side.
    pub(super) fn reach(&self, pairs: usize, error: f64) -> f64 {
        student_quantile(1.0 - error, self.freedom) * self.deviation() / (pairs.max(1) as f64).sqrt()
    }
}
