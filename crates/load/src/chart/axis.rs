//! Axes: where a value lies, and where the ticks are.

use super::short;

/// How values are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// By their logarithm; they must be positive.
    Log,
}

/// One direction of a chart.
#[derive(Debug, Clone)]
pub struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    /// Where `low` and `high` lie, in the chart's units.
    from: f64,
    to: f64,
}

impl Axis {
    /// An axis that has room for all `values`, from `from` to `to`. A linear one begins at zero where that is not far.
    pub fn new(scale: Scale, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let sound = values.filter(|value| value.is_finite() && (scale == Scale::Linear || *value > 0.0));
        let (mut low, mut high) = sound
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            (low, high) = (if scale == Scale::Log { 1.0 } else { 0.0 }, 1.0);
        }
        if scale == Scale::Linear {
            if low > 0.0 && low < high * 0.6 {
                low = 0.0;
            }
            if high <= low {
                (low, high) = (low.min(0.0), if high > 0.0 { high * 1.1 } else { low + 1.0 });
            }
        } else if high <= low * 1.01 {
            (low, high) = (low / 2.0, high * 2.0);
        }
        Self { scale, low, high, from, to }
    }

    /// Where a value lies.
    pub fn at(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value.max(self.low).ln() - self.low.ln()) / (self.high.ln() - self.low.ln()),
        };
        self.from + part.clamp(-0.02, 1.02) * (self.to - self.from)
    }

    /// Values that get a tick, with what stands there: about `count` of them.
    pub fn ticks(&self, count: usize) -> Vec<(f64, String)> {
        match self.scale {
            Scale::Linear => {
                let step = nice((self.high - self.low) / count.max(1) as f64);
                let first = (self.low / step).ceil() as i64;
                let last = (self.high / step).floor() as i64;
                let values = (first..=last).take(50).map(|index| index as f64 * step);
                let mut ticks: Vec<(f64, String)> = values.map(|value| (value, short(value))).collect();
                // Values that lie close to each other take more digits.
                if ticks.windows(2).any(|pair| pair[0].1 == pair[1].1) {
                    let digits = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
                    for (value, text) in &mut ticks {
                        *text = format!("{value:.digits$}");
                    }
                }
                ticks
            }
            Scale::Log => {
                let decades = (self.high / self.low).log10();
                let multiples: &[f64] = if decades > 2.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
                let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
                (first..=last)
                    .flat_map(|power| multiples.iter().map(move |multiple| multiple * 10f64.powi(power)))
                    .filter(|value| *value >= self.low * 0.999 && *value <= self.high * 1.001)
                    .map(|value| (value, short(value)))
                    .collect()
            }
        }
    }
}

/// 1, 2 or 5 times a power of ten, not below `step`.
fn nice(step: f64) -> f64 {
    if !(step.is_finite() && step > 0.0) {
        return 1.0;
    }
    let power = 10f64.powf(step.log10().floor());
    let multiple = [1.0, 2.0, 5.0, 10.0].into_iter().find(|multiple| multiple * power >= step * 0.999);
    multiple.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers() {
        let axis = Axis::new(Scale::Linear, [0.0, 940.0].into_iter(), 0.0, 100.0);
        let ticks: Vec<String> = axis.ticks(5).into_iter().map(|tick| tick.1).collect();
        assert_eq!(ticks, ["0", "200", "400", "600", "800"]);
        let axis = Axis::new(Scale::Log, [0.3, 4000.0].into_iter(), 0.0, 100.0);
        let ticks: Vec<String> = axis.ticks(5).into_iter().map(|tick| tick.1).collect();
        assert_eq!(ticks, ["1", "10", "100", "1000"]);
    }

    #[test]
    fn ticks_differ_however_close_their_values_are() {
        for (low, high, want) in [(21.71, 21.79, "21.72"), (1_000_010.0, 1_000_090.0, "1000020")] {
            let axis = Axis::new(Scale::Linear, [low, high].into_iter(), 0.0, 100.0);
            let ticks: Vec<String> = axis.ticks(5).into_iter().map(|tick| tick.1).collect();
            let mut once = ticks.clone();
            once.dedup();
            assert!(ticks.len() > 3 && once == ticks && ticks[0] == want, "{ticks:?}");
        }
    }

    #[test]
    fn values_lie_where_they_should_and_nothing_breaks_it() {
        let axis = Axis::new(Scale::Log, [1.0, 100.0].into_iter(), 0.0, 10.0);
        assert!((axis.at(10.0) - 5.0).abs() < 1e-9);
        for values in [vec![], vec![f64::NAN], vec![5.0], vec![0.0], vec![-3.0, -3.0]] {
            for scale in [Scale::Linear, Scale::Log] {
                let axis = Axis::new(scale, values.iter().copied(), 0.0, 10.0);
                assert!(axis.at(7.0).is_finite() && axis.ticks(5).len() <= 51);
            }
        }
    }
}
