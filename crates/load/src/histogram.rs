//! A log-linear histogram of durations, in the manner of HdrHistogram.
//!
//! Each power of two is cut into [`STEPS`] equal buckets, so a value is known to within 1/128 of
//! itself whatever its size, and recording is a shift and an increment.

/// Buckets per power of two, as a power of two.
const STEP_BITS: u32 = 7;
/// Buckets per power of two; the relative error of a value is at most `1 / STEPS`.
pub const STEPS: u64 = 1 << STEP_BITS;
/// Buckets in all: exact ones below [`STEPS`], then [`STEPS`] for each higher power of two.
const BUCKETS: usize = ((64 - STEP_BITS + 1) as usize) << STEP_BITS;

/// Counts of `u64` values (nanoseconds, here) with a bounded relative error.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Box<[u64]>,
    total: u64,
    sum: u128,
    max: u64,
    min: u64,
}

/// A histogram's counts without its empty buckets: for keeping many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sparse {
    counts: Vec<(u16, u64)>,
    sum: u128,
    max: u64,
    min: u64,
}

impl Default for Sparse {
    fn default() -> Self {
        Self { counts: Vec::new(), sum: 0, max: 0, min: u64::MAX }
    }
}

impl Sparse {
    /// As a histogram.
    pub fn whole(&self) -> Histogram {
        let mut all = Histogram::default();
        all.merge_sparse(self);
        all
    }

    /// How many values were recorded.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|&(_, count)| count).sum()
    }

    /// The sum of all values, exactly.
    pub fn sum(&self) -> u128 {
        self.sum
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS].into(), total: 0, sum: 0, max: 0, min: u64::MAX }
    }
}

impl Histogram {
    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.counts[bucket_of(value)] += 1;
        self.total += 1;
        self.sum += u128::from(value);
        self.max = self.max.max(value);
        self.min = self.min.min(value);
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Self) {
        if other.total == 0 {
            return;
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
        self.min = self.min.min(other.min);
    }

    /// Forgets all values.
    pub fn clear(&mut self) {
        if self.total > 0 {
            self.counts.fill(0);
            (self.total, self.sum, self.max, self.min) = (0, 0, 0, u64::MAX);
        }
    }

    /// The same counts in as little room as they need.
    pub fn sparse(&self) -> Sparse {
        if self.total == 0 {
            return Sparse::default();
        }
        let held = self.counts.iter().enumerate().filter(|&(_, &count)| count > 0);
        Sparse {
            counts: held.map(|(bucket, &count)| (bucket as u16, count)).collect(),
            sum: self.sum,
            max: self.max,
            min: self.min,
        }
    }

    /// Adds what [`Histogram::sparse`] gave.
    pub fn merge_sparse(&mut self, other: &Sparse) {
        for &(bucket, count) in &other.counts {
            self.counts[usize::from(bucket)] += count;
            self.total += count;
        }
        self.sum += other.sum;
        self.max = self.max.max(other.max);
        self.min = self.min.min(other.min);
    }

    /// The share (0 to 1) of values that are not above `value`, to within a bucket; 1 when empty.
    pub fn share_up_to(&self, value: u64) -> f64 {
        if self.total == 0 || value >= self.max {
            return 1.0;
        }
        let below: u64 = self.counts[..=bucket_of(value)].iter().sum();
        below as f64 / self.total as f64
    }

    /// The values that were recorded, each bucket's middle with its count, in their order.
    pub fn values(&self) -> impl Iterator<Item = (u64, u64)> {
        let held = self.counts.iter().enumerate().filter(|&(_, &count)| count > 0);
        held.map(|(bucket, &count)| (middle_of(bucket).clamp(self.min(), self.max), count))
    }

    /// The standard deviation, to within the buckets' width; 0 when empty.
    pub fn deviation(&self) -> f64 {
        if self.total == 0 {
            return 0.0;
        }
        let mean = self.mean();
        let squares: f64 =
            self.values().map(|(value, count)| (value as f64 - mean).powi(2) * count as f64).sum();
        (squares / self.total as f64).sqrt()
    }

    /// Mean, p50, p95 and p99 of nanoseconds as tables have them, in milliseconds; a dash where nothing was recorded.
    pub fn in_short(&self) -> [String; 4] {
        let ns =
            [self.mean(), self.quantile(0.5) as f64, self.quantile(0.95) as f64, self.quantile(0.99) as f64];
        ns.map(|ns| if self.total == 0 { "–".to_owned() } else { format!("{:.2}", ns / 1e6) })
    }

    /// How many values were recorded.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The largest value, exactly; 0 when empty.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The smallest value, exactly; 0 when empty.
    pub fn min(&self) -> u64 {
        if self.total == 0 { 0 } else { self.min }
    }

    /// The sum of all values, exactly.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The mean, exactly; 0 when empty.
    pub fn mean(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.sum as f64 / self.total as f64 }
    }

    /// The value below or at which `share` (0 to 1) of all values lie; 0 when empty.
    pub fn quantile(&self, share: f64) -> u64 {
        if share >= 1.0 {
            return self.max;
        }
        let rank = ((share.clamp(0.0, 1.0) * self.total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return middle_of(bucket).clamp(self.min(), self.max);
            }
        }
        self.max
    }
}

/// The bucket that counts `value`.
#[inline]
fn bucket_of(value: u64) -> usize {
    if value < STEPS {
        return value as usize;
    }
    let shift = value.ilog2() - STEP_BITS;
    // `value >> shift` lies in STEPS..2·STEPS, so consecutive powers of two tile the index space.
    (u64::from(shift) * STEPS + (value >> shift)) as usize
}

/// The middle of a bucket's range.
fn middle_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * STEPS {
        return bucket;
    }
    let shift = bucket / STEPS - 1;
    let low = (bucket % STEPS + STEPS) << shift;
    low + ((1u64 << shift) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn every_value_is_within_the_relative_error() {
        let mut rng = Rng::new(11);
        let edges = (0..64).flat_map(|bit| {
            let power = 1u64 << bit;
            [power - 1, power, power + 1]
        });
        let random = (0..20_000).map(|_| rng.next_u64() >> (rng.next_u64() % 64));
        for value in edges.chain(random).chain([0, u64::MAX]) {
            let back = middle_of(bucket_of(value));
            let error = back.abs_diff(value) as f64;
            assert!(error <= value as f64 / STEPS as f64, "{value} is read as {back}");
        }
    }

    #[test]
    fn buckets_grow_with_values() {
        let mut values: Vec<u64> = (0..10_000).chain((0..64).map(|bit| 1u64 << bit)).collect();
        values.sort_unstable();
        let buckets: Vec<usize> = values.iter().map(|&value| bucket_of(value)).collect();
        assert!(buckets.is_sorted());
        assert!(bucket_of(u64::MAX) == BUCKETS - 1);
    }

    #[test]
    fn quantiles_follow_sorted_order() {
        let mut rng = Rng::new(5);
        let mut values: Vec<u64> = (0..9_999).map(|_| 1_000 + rng.next_u64() % 1_000_000).collect();
        let mut histogram = Histogram::default();
        for &value in &values {
            histogram.record(value);
        }
        values.sort_unstable();
        // The largest is known exactly.
        assert_eq!(histogram.quantile(1.0), values[values.len() - 1]);
        for share in [0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let rank = ((share * values.len() as f64).ceil() as usize).max(1);
            let exact = values[rank - 1] as f64;
            let read = histogram.quantile(share) as f64;
            assert!((read - exact).abs() <= exact / STEPS as f64, "{share}: {read} for {exact}");
        }
        assert_eq!(histogram.max(), values[values.len() - 1]);
        assert_eq!(histogram.min(), values[0]);
    }

    #[test]
    fn merging_equals_recording_together() {
        let (mut left, mut right, mut both) =
            (Histogram::default(), Histogram::default(), Histogram::default());
        for value in 0..2000u64 {
            let value = value * value;
            if value % 3 == 0 {
                left.record(value);
            } else {
                right.record(value);
            }
            both.record(value);
        }
        left.merge(&right);
        assert_eq!(left.count(), both.count());
        assert_eq!(left.quantile(0.7), both.quantile(0.7));
        assert!((left.mean() - both.mean()).abs() < 1e-9);
    }

    #[test]
    fn a_sparse_copy_says_the_same() {
        let mut rng = Rng::new(8);
        let (mut all, mut parts) = (Histogram::default(), Histogram::default());
        for _ in 0..5 {
            let mut part = Histogram::default();
            for _ in 0..500 {
                let value = rng.next_u64() >> (20 + rng.below(40));
                part.record(value);
                all.record(value);
            }
            parts.merge_sparse(&part.sparse());
            part.clear();
            assert_eq!((part.count(), part.max(), part.sparse()), (0, 0, Sparse::default()));
        }
        assert_eq!(parts.sparse(), all.sparse());
        assert_eq!(parts.quantile(0.93), all.quantile(0.93));
        let median = all.quantile(0.5);
        assert!((all.share_up_to(median) - 0.5).abs() < 0.05);
        assert!((all.share_up_to(u64::MAX) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn an_empty_histogram_reads_zero() {
        let empty = Histogram::default();
        assert_eq!((empty.quantile(0.5), empty.min(), empty.max()), (0, 0, 0));
    }
}
