//! Medians with bootstrap confidence intervals, and ratios of paired rounds.

use brisk_load::rng::Rng;
pub use brisk_load::sample::median;

/// Bootstrap resamples: the interval's own error is then far below that of any benchmark.
const RESAMPLES: usize = 4000;
/// What an interval leaves out on each side.
const TAIL: f64 = 0.025;

/// A median and its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The median of the samples.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// How many samples.
    pub count: usize,
}

impl Summary {
    /// Sums up samples; there must be at least one.
    pub fn of(samples: &[f64]) -> Self {
        let mut rng = Rng::new(0x6272_6973_6b00);
        let mut resample = vec![0.0; samples.len()];
        let mut medians: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                resample.fill_with(|| samples[rng.below(samples.len())]);
                median(&resample)
            })
            .collect();
        medians.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| medians[((RESAMPLES - 1) as f64 * share).round() as usize];
        Self { median: median(samples), low: at(TAIL), high: at(1.0 - TAIL), count: samples.len() }
    }

    /// The ratio of `numerator` to `denominator`, round by round: what disturbs a round disturbs
    /// both, so the pairs vary less than the sides do.
    pub fn of_ratio(numerator: &[f64], denominator: &[f64]) -> Self {
        assert_eq!(numerator.len(), denominator.len(), "rounds come in pairs");
        let ratios: Vec<f64> =
            numerator.iter().zip(denominator).map(|(above, below)| above / below).collect();
        Self::of(&ratios)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A normal deviate, nearly: the sum of twelve uniform ones.
    fn noise(rng: &mut Rng) -> f64 {
        (0..12).map(|_| rng.next_u64() as f64 / u64::MAX as f64).sum::<f64>() - 6.0
    }

    #[test]
    fn intervals_cover_the_truth_about_as_often_as_they_say() {
        let mut rng = Rng::new(1);
        let covered = (0..200)
            .filter(|_| {
                let samples: Vec<f64> = (0..15).map(|_| 10.0 + noise(&mut rng)).collect();
                let summary = Summary::of(&samples);
                assert!(summary.low <= summary.median && summary.median <= summary.high);
                summary.low <= 10.0 && 10.0 <= summary.high
            })
            .count();
        assert!((176..=200).contains(&covered), "covered {covered} of 200");
    }

    #[test]
    fn pairing_takes_out_what_rounds_have_in_common() {
        let mut rng = Rng::new(2);
        let weather: Vec<f64> = (0..9).map(|_| 1.0 + 0.2 * noise(&mut rng).abs()).collect();
        let ours: Vec<f64> = weather.iter().map(|w| 4.0 * w * (1.0 + 0.002 * noise(&mut rng))).collect();
        let theirs: Vec<f64> = weather.iter().map(|w| 6.0 * w * (1.0 + 0.002 * noise(&mut rng))).collect();
        let ratio = Summary::of_ratio(&theirs, &ours);
        assert!((ratio.median - 1.5).abs() < 0.01, "{ratio:?}");
        assert!(ratio.high - ratio.low < 0.02, "{ratio:?}");
        let alone = Summary::of(&ours);
        assert!((alone.high - alone.low) / alone.median > 5.0 * (ratio.high - ratio.low), "{alone:?}");
    }

    #[test]
    fn equal_samples_leave_no_doubt() {
        let summary = Summary::of(&[2.0; 5]);
        assert_eq!((summary.low, summary.median, summary.high, summary.count), (2.0, 2.0, 2.0, 5));
    }
}
