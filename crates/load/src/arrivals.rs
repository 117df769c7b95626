//! When requests of an open loop are due: pure arithmetic.

use std::time::Duration;

/// Arrivals per second, the same all the time or on a straight line from one rate to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// At the start.
    pub from: f64,
    /// At the end of `over`, and from then on.
    pub to: f64,
    /// How long the way from one to the other takes; zero for a constant rate.
    pub over: Duration,
}

impl Rate {
    /// The same rate all the time.
    pub fn constant(per_second: f64) -> Self {
        Self { from: per_second, to: per_second, over: Duration::ZERO }
    }

    /// Whether it asks for anything that can be done: positive, finite, below a billion per second.
    pub fn is_sound(&self) -> bool {
        let sound = |rate: f64| rate.is_finite() && (0.0..1e9).contains(&rate);
        sound(self.from) && sound(self.to) && self.to > 0.0
    }

    /// Seconds from the start until arrival `number` (the first is 0).
    ///
    /// On the ramp n(t) = a·t + (b − a)·t² / 2T arrivals have come by t; this is its inverse.
    fn due(&self, number: u64) -> f64 {
        let (a, b, t) = (self.from, self.to, self.over.as_secs_f64());
        let n = number as f64;
        let on_ramp = f64::midpoint(a, b) * t;
        if n >= on_ramp {
            return t + (n - on_ramp) / b;
        }
        let slope = (b - a) / t;
        // The smaller root of slope/2·t² + a·t − n = 0, in the form that does not lose digits where the slope is small.
        let root = (a * a + 2.0 * slope * n).max(0.0).sqrt();
        if a + root > 0.0 { 2.0 * n / (a + root) } else { 0.0 }
    }

    /// How many arrivals are due in the first `elapsed`.
    pub fn by(&self, elapsed: Duration) -> u64 {
        let (a, b, t) = (self.from, self.to, self.over.as_secs_f64());
        let now = elapsed.as_secs_f64();
        let ramp = now.min(t);
        let on_ramp = if t > 0.0 { a * ramp + (b - a) * ramp * ramp / (2.0 * t) } else { 0.0 };
        // The first is due at once.
        (on_ramp + (now - ramp) * b).ceil() as u64
    }
}

/// One thread's arrivals: every `of`-th of the run's.
#[derive(Debug, Clone)]
pub struct Arrivals {
    rate: Rate,
    number: u64,
    of: u64,
}

impl Arrivals {
    /// The arrivals of thread `index` of `of`.
    pub fn new(rate: Rate, index: usize, of: usize) -> Self {
        Self { rate, number: index as u64, of: of as u64 }
    }

    /// When the next one is due, from the start of the run.
    pub fn next_due(&self) -> Duration {
        // A ramp that begins at nothing may put its first arrival very far away, but never beyond its end.
        Duration::try_from_secs_f64(self.rate.due(self.number)).unwrap_or(Duration::MAX)
    }

    /// When the one before it was due; `None`: it is the first.
    pub fn last_due(&self) -> Option<Duration> {
        let last = self.number.checked_sub(self.of)?;
        Some(Duration::try_from_secs_f64(self.rate.due(last)).unwrap_or(Duration::MAX))
    }

    /// The next one has been taken care of.
    pub fn advance(&mut self) {
        self.number += self.of;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(rate: Rate, threads: usize, until: f64) -> Vec<f64> {
        let mut due = Vec::new();
        for index in 0..threads {
            let mut arrivals = Arrivals::new(rate, index, threads);
            while arrivals.next_due().as_secs_f64() < until {
                due.push(arrivals.next_due().as_secs_f64());
                arrivals.advance();
            }
        }
        due.sort_by(f64::total_cmp);
        due
    }

    #[test]
    fn a_constant_rate_is_evenly_spaced_over_all_threads() {
        let due = all(Rate::constant(100.0), 3, 10.0);
        assert_eq!(due.len(), 1000);
        assert!(due.windows(2).all(|pair| (pair[1] - pair[0] - 0.01).abs() < 1e-6));
    }

    #[test]
    fn a_ramp_has_the_area_under_its_line() {
        for (from, to) in [(10.0, 1000.0), (0.0, 500.0), (800.0, 20.0)] {
            let rate = Rate { from, to, over: Duration::from_mins(1) };
            let due = all(rate, 2, 60.0);
            let area = f64::midpoint(from, to) * 60.0;
            assert!((due.len() as f64 - area).abs() <= 1.0, "{from}..{to}: {} of {area}", due.len());
            assert!(due.is_sorted());
            // In the second half of the ramp the rate around a moment is what the line says.
            let around = due.iter().filter(|at| (44.0..46.0).contains(*at)).count() as f64 / 2.0;
            let line = from + (to - from) * 0.75;
            assert!(
                (around - line).abs() <= 1.0 + line * 0.01,
                "{from}..{to}: {around} where {line} was meant"
            );
            for seconds in [0.5, 10.0, 59.0, 60.0] {
                let counted = due.iter().filter(|&&at| at < seconds).count() as u64;
                assert!(rate.by(Duration::from_secs_f64(seconds)).abs_diff(counted) <= 1);
            }
        }
    }

    #[test]
    fn after_the_ramp_the_rate_stays() {
        let rate = Rate { from: 10.0, to: 200.0, over: Duration::from_secs(5) };
        let due = all(rate, 1, 8.0);
        assert_eq!(due.iter().filter(|at| (6.0..7.0).contains(*at)).count(), 200);
    }

    #[test]
    fn what_cannot_be_done_is_seen() {
        assert!(Rate::constant(0.5).is_sound());
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e10] {
            assert!(!Rate::constant(bad).is_sound(), "{bad}");
        }
    }
}
