//! Statistics of small samples: means and their intervals, by Student's distribution; and intervals that need no distribution.

/// The mean; 0 of nothing.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// The standard deviation of what the values are a sample of; 0 of fewer than two.
pub fn deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt()
}

/// The median; 0 of nothing.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

fn median_of_sorted(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[count / 2],
        count => f64::midpoint(sorted[count / 2 - 1], sorted[count / 2]),
    }
}

/// An interval around a mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// The mean.
    pub middle: f64,
    /// Its upper end.
    pub high: f64,
}

/// The interval that covers the true mean in all but a share of `error` of cases, if the values are normal. Of fewer
/// than two values nothing is known.
pub fn mean_interval(values: &[f64], error: f64) -> Interval {
    let middle = mean(values);
    if values.len() < 2 {
        return Interval { low: f64::NEG_INFINITY, middle, high: f64::INFINITY };
    }
    let reach = student_quantile(1.0 - error / 2.0, (values.len() - 1) as f64) * deviation(values)
        / (values.len() as f64).sqrt();
    Interval { low: middle - reach, middle, high: middle + reach }
}

/// The pseudo-median (Hodges and Lehmann's) and the interval that covers it in all but a share of `error` of cases, from Wilcoxon's
/// signed-rank test. It asks for no distribution but one that is symmetric, so single values that are far off cost it little.
/// Where there are too few values for so small an error nothing is known.
pub fn median_interval(values: &[f64], error: f64) -> Interval {
    let count = values.len();
    let mut means: Vec<f64> = Vec::with_capacity(count * (count + 1) / 2);
    for (index, left) in values.iter().enumerate() {
        means.extend(values[index..].iter().map(|right| f64::midpoint(*left, *right)));
    }
    means.sort_unstable_by(f64::total_cmp);
    let middle = median_of_sorted(&means);
    match signed_rank_quantile(count, error / 2.0) {
        Some(cut) => Interval { low: means[cut], middle, high: means[means.len() - 1 - cut] },
        None => Interval { low: f64::NEG_INFINITY, middle, high: f64::INFINITY },
    }
}

/// The greatest sum of positive ranks that is not exceeded with more than this probability, where signs are accidents.
fn signed_rank_quantile(count: usize, share: f64) -> Option<usize> {
    // Beyond it the normal distribution does as well.
    const EXACT_MAX: usize = 60;
    let sums = count * (count + 1) / 2;
    if count > EXACT_MAX {
        let deviation = (sums as f64 * (2 * count + 1) as f64 / 12.0).sqrt();
        let reach = student_quantile(1.0 - share, 1e6) * deviation;
        return Some((sums as f64 / 2.0 - reach - 0.5).max(0.0) as usize);
    }
    // How probable each sum is: every rank is part of it or not.
    let mut probable = vec![0.0; sums + 1];
    probable[0] = 1.0;
    for rank in 1..=count {
        for sum in (0..=sums).rev() {
            let with = if sum >= rank { probable[sum - rank] } else { 0.0 };
            probable[sum] = 0.5 * (probable[sum] + with);
        }
    }
    let mut below = 0.0;
    let sound = probable.iter().take_while(|probability| {
        below += **probability;
        below <= share
    });
    sound.count().checked_sub(1)
}

/// The value below which Student's distribution with `freedom` degrees has this share. `share`: above 0, below 1.
pub fn student_quantile(share: f64, freedom: f64) -> f64 {
    if share < 0.5 {
        return -student_quantile(1.0 - share, freedom);
    }
    let (mut low, mut high) = (0.0, 1.0);
    while student_share(high, freedom) < share && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if student_share(middle, freedom) < share { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// The share of Student's distribution that lies below `t`, which is not negative.
fn student_share(t: f64, freedom: f64) -> f64 {
    1.0 - 0.5 * incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// The regularised incomplete beta function, by its continued fraction (Lentz's method). The names are mathematics'.
#[expect(clippy::many_single_char_names)]
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges fast on one side of the mean only.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    const TINY: f64 = 1e-300;
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp() / a;
    let away = |value: f64| if value.abs() < TINY { TINY } else { value };
    let (mut c, mut d) = (1.0, 1.0 / away(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for step in 1..300 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / away(1.0 + even * d);
        c = away(1.0 + even / c);
        fraction *= c * d;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away(1.0 + odd * d);
        c = away(1.0 + odd / c);
        fraction *= c * d;
        if (c * d - 1.0).abs() < 1e-14 {
            break;
        }
    }
    front * fraction
}

/// The logarithm of the gamma function, for positive numbers (Stirling's series, after shifting to where it is exact).
fn ln_gamma(mut x: f64) -> f64 {
    let mut shift = 0.0;
    while x < 15.0 {
        shift -= x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0)));
    shift + (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// From printed tables.
    #[test]
    fn student_s_quantiles() {
        for (share, freedom, want) in [
            (0.975, 1.0, 12.706),
            (0.975, 5.0, 2.571),
            (0.95, 10.0, 1.812),
            (0.995, 19.0, 2.861),
            (0.9995, 30.0, 3.646),
            (0.975, 1000.0, 1.962),
            (0.025, 5.0, -2.571),
        ] {
            let have = student_quantile(share, freedom);
            assert!(
                (have - want).abs() < 6e-4 * want.abs().max(1.0),
                "{share} {freedom}: {have}, not {want}"
            );
        }
    }

    #[test]
    fn intervals_cover_the_truth_as_often_as_they_say() {
        let mut rng = Rng::new(21);
        for (count, error) in [(3, 0.1), (8, 0.05), (20, 0.01)] {
            let missed = (0..4000)
                .filter(|_| {
                    let values: Vec<f64> = (0..count).map(|_| 5.0 + 2.0 * rng.normal()).collect();
                    let interval = mean_interval(&values, error);
                    interval.low > 5.0 || interval.high < 5.0
                })
                .count() as f64
                / 4000.0;
            assert!((missed - error).abs() < 0.25 * error + 0.003, "{count} {error}: {missed}");
        }
    }

    /// From printed tables of the signed-rank test: the greatest sum that is significant.
    #[test]
    fn signed_ranks() {
        for (count, share, want) in [
            (5, 0.025, None),
            (6, 0.025, Some(0)),
            (8, 0.025, Some(3)),
            (10, 0.025, Some(8)),
            (10, 0.005, Some(3)),
            (20, 0.025, Some(52)),
            (30, 0.005, Some(109)),
            (50, 0.025, Some(434)),
        ] {
            assert_eq!(signed_rank_quantile(count, share), want, "{count} {share}");
        }
        let near = signed_rank_quantile(61, 0.025).unwrap() as f64;
        let exact = signed_rank_quantile(60, 0.025).unwrap() as f64;
        assert!((15.0..45.0).contains(&(near - exact)), "{exact} {near}");
    }

    /// Values of which one in ten is far off, on either side.
    #[test]
    fn medians_are_covered_whatever_the_distribution() {
        let mut rng = Rng::new(22);
        let wild = |rng: &mut Rng| if rng.unit() < 0.1 { 10.0 } else { 1.0 } * rng.normal();
        for (count, error) in [(12, 0.05), (30, 0.01)] {
            let (mut missed, mut narrower) = (0, 0);
            for _ in 0..2000 {
                let values: Vec<f64> = (0..count).map(|_| 5.0 + wild(&mut rng)).collect();
                let (found, usual) = (median_interval(&values, error), mean_interval(&values, error));
                missed += u32::from(found.low > 5.0 || found.high < 5.0);
                narrower += u32::from(found.high - found.low < usual.high - usual.low);
            }
            assert!(f64::from(missed) / 2000.0 < error * 1.3, "{count}: {missed} of 2000");
            assert!(narrower > 1000, "{count}: {narrower} of 2000");
        }
        assert!(median_interval(&[1.0, 2.0], 0.05).high.is_infinite());
    }

    #[test]
    fn small_samples() {
        assert!((median(&[3.0, 1.0, 2.0, 10.0]) - 2.5).abs() < 1e-12);
        assert!((median(&[]) - mean(&[])).abs() < 1e-12);
        assert!((deviation(&[1.0, 3.0]) - 2f64.sqrt()).abs() < 1e-12);
        assert!(mean_interval(&[1.0], 0.05).high.is_infinite());
    }
}
