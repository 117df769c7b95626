//! Where a run's warm-up ends, seen from its own series; and whether it was steady from there on.

use crate::sample::{deviation, mean};

/// Points that are taken together before anything is looked for: single ones are noise.
const BATCH: usize = 5;
/// Steps of Kendall's statistic that are no accident.
const TREND_SIGMA: f64 = 3.0;
/// A trend smaller than this, over the whole rest, relative to its mean, is of no interest.
const TREND_SHARE: f64 = 0.1;

/// What a series has to say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steady {
    /// Points before this one belong to the warm-up.
    pub from: usize,
    /// Whether there is no trend behind it.
    pub is_steady: bool,
}

/// Cuts the warm-up off by the marginal standard error rule (White, 1997): where the mean of what is left is known best.
/// At most the first half is cut off.
pub fn cut(points: &[f64]) -> Steady {
    let batches: Vec<f64> = points.chunks_exact(BATCH).map(mean).collect();
    if batches.len() < 4 {
        return Steady { from: 0, is_steady: true };
    }
    let error_from = |from: usize| {
        let rest = &batches[from..];
        let middle = mean(rest);
        let squares: f64 = rest.iter().map(|value| (value - middle).powi(2)).sum();
        squares / (rest.len() as f64).powi(2)
    };
    let from = (0..=batches.len() / 2).min_by(|&a, &b| error_from(a).total_cmp(&error_from(b))).unwrap_or(0);
    Steady { from: from * BATCH, is_steady: !has_trend(&batches[from..]) }
}

/// Whether values rise or fall: Kendall's test says that it is no accident, and the difference matters.
fn has_trend(values: &[f64]) -> bool {
    let count = values.len();
    if count < 6 {
        return false;
    }
    let mut sum = 0i64;
    for (index, earlier) in values.iter().enumerate() {
        for later in &values[index + 1..] {
            sum += i64::from(later > earlier) - i64::from(later < earlier);
        }
    }
    let n = count as f64;
    let sigma = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    let (first, second) = values.split_at(count / 2);
    // The means of the halves are half the way apart that the ends are.
    let way = 2.0 * (mean(second) - mean(first)).abs();
    sum.unsigned_abs() as f64 / sigma > TREND_SIGMA && way > TREND_SHARE * mean(values).abs()
}

/// The relative half-width of the mean's 95 % interval, from means of batches, which see what neighbours have in common.
pub fn uncertainty(points: &[f64]) -> f64 {
    let batches: Vec<f64> = points.chunks_exact((points.len() / 10).max(1)).map(mean).collect();
    let middle = mean(&batches);
    if batches.len() < 2 || middle == 0.0 {
        return f64::INFINITY;
    }
    let reach = crate::sample::student_quantile(0.975, (batches.len() - 1) as f64);
    reach * deviation(&batches) / (batches.len() as f64).sqrt() / middle.abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn noise(rng: &mut Rng, count: usize, mean: impl Fn(usize) -> f64, sd: f64) -> Vec<f64> {
        (0..count).map(|at| mean(at) * (1.0 + sd * rng.normal())).collect()
    }

    #[test]
    fn a_warm_up_is_cut_off_and_little_else() {
        let mut rng = Rng::new(31);
        for length in [10usize, 20, 40] {
            let mut cuts = Vec::new();
            for _ in 0..200 {
                let rise = |at: usize| 1000.0 * (1.0 - (-(at as f64) / length as f64 * 3.0).exp());
                let steady = cut(&noise(&mut rng, 150, rise, 0.03));
                assert!(steady.from <= 75);
                cuts.push(steady.from as f64);
            }
            // After 3 time constants 5 % are missing; what is left then does not move the mean by 1 %.
            assert!(crate::sample::median(&cuts) >= length as f64 * 0.6, "{length}: {cuts:?}");
            assert!(crate::sample::median(&cuts) <= length as f64 * 1.8 + 5.0, "{length}: {cuts:?}");
        }
    }

    #[test]
    fn a_steady_run_is_steady_and_a_drift_is_not() {
        let mut rng = Rng::new(32);
        let steady = (0..200).filter(|_| cut(&noise(&mut rng, 100, |_| 500.0, 0.05)).is_steady).count();
        assert!(steady >= 195, "{steady}");
        let drifting = |at: usize| 1000.0 - 5.0 * at as f64;
        let seen = (0..200).filter(|_| !cut(&noise(&mut rng, 100, drifting, 0.03)).is_steady).count();
        assert!(seen >= 190, "{seen}");
    }

    #[test]
    fn short_series_are_left_alone() {
        assert_eq!(cut(&[1.0; 7]), Steady { from: 0, is_steady: true });
        assert_eq!(cut(&[]), Steady { from: 0, is_steady: true });
    }

    #[test]
    fn uncertainty_shrinks_with_noise() {
        let mut rng = Rng::new(33);
        let quiet = uncertainty(&noise(&mut rng, 100, |_| 10.0, 0.01));
        let loud = uncertainty(&noise(&mut rng, 100, |_| 10.0, 0.2));
        assert!(quiet < 0.01 && loud > 0.01 && loud < 0.2, "{quiet} {loud}");
    }
}
