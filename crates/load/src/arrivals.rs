//! When requests of an open loop are due: pure arithmetic.

use std::time::Duration;

use crate::rng::Rng;

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

    /// Whether its ramp is as long as the run, however long that is.
    pub fn is_endless(&self) -> bool {
        self.over == Duration::MAX
    }

    /// In a run of this length; `None`: nobody knows it.
    #[must_use]
    pub fn within(self, length: Option<Duration>) -> Self {
        Self { over: if self.is_endless() { length.unwrap_or(self.over) } else { self.over }, ..self }
    }

    /// Seconds from the start until `n` arrivals have come (the first is number 0).
    ///
    /// On the ramp n(t) = a·t + (b − a)·t² / 2T arrivals have come by t; this is its inverse.
    fn due(&self, n: f64) -> f64 {
        let (a, b, t) = (self.from, self.to, self.over.as_secs_f64());
        let on_ramp = f64::midpoint(a, b) * t;
        if n >= on_ramp {
            return t + (n - on_ramp) / b;
        }
        let slope = (b - a) / t;
        // The smaller root of slope/2·t² + a·t − n = 0, in the form that does not lose digits where the slope is small.
        let root = (a * a + 2.0 * slope * n).max(0.0).sqrt();
        if a + root > 0.0 { 2.0 * n / (a + root) } else { 0.0 }
    }

    /// Arrivals in the first `elapsed`.
    fn count(&self, elapsed: Duration) -> f64 {
        let (a, b, t) = (self.from, self.to, self.over.as_secs_f64());
        let now = elapsed.as_secs_f64();
        let ramp = now.min(t);
        let on_ramp = if t > 0.0 { a * ramp + (b - a) * ramp * ramp / (2.0 * t) } else { 0.0 };
        on_ramp + (now - ramp) * b
    }

    /// How many arrivals are due in the first `elapsed`.
    pub fn by(&self, elapsed: Duration) -> u64 {
        // The first is due at once.
        self.count(elapsed).ceil() as u64
    }
}

/// How arrivals lie around the moments that a rate gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Distribution {
    /// At the same distance: a machine asks.
    #[default]
    Constant,
    /// Independent of each other (a Poisson process), as people who know nothing of each other come.
    Poisson,
}

/// How far it is to the next arrival of one thread, counted in arrivals of all threads.
#[derive(Debug, Clone)]
enum Spacing {
    Even,
    Drawn(Rng),
}

/// The places of one thread's arrivals among those of all threads: every `of`-th, or drawn so that all threads' together are a Poisson
/// process.
#[derive(Debug, Clone)]
struct Places {
    next: f64,
    last: Option<f64>,
    of: f64,
    spacing: Spacing,
}

impl Places {
    fn new(distribution: Distribution, index: usize, of: usize) -> Self {
        let of = of as f64;
        let places = Self { next: index as f64, last: None, of, spacing: Spacing::Even };
        match distribution {
            Distribution::Constant => places,
            Distribution::Poisson => {
                // Each thread has a sequence of its own.
                let rng = Rng::new(Rng::from_clock().next_u64() ^ (index as u64) << 40);
                let mut places = Self { next: 0.0, spacing: Spacing::Drawn(rng), ..places };
                places.advance();
                Self { last: None, ..places }
            }
        }
    }

    fn advance(&mut self) {
        self.last = Some(self.next);
        self.next += match &mut self.spacing {
            Spacing::Even => self.of,
            Spacing::Drawn(rng) => -self.of * (1.0 - rng.unit()).ln(),
        };
    }
}

/// One thread's arrivals.
#[derive(Debug, Clone)]
pub struct Arrivals {
    rate: Rate,
    places: Places,
}

impl Arrivals {
    /// The arrivals of thread `index` of `of`, evenly spread.
    pub fn new(rate: Rate, index: usize, of: usize) -> Self {
        Self::spread(rate, Distribution::Constant, index, of)
    }

    /// The arrivals of thread `index` of `of`.
    pub fn spread(rate: Rate, distribution: Distribution, index: usize, of: usize) -> Self {
        Self { rate, places: Places::new(distribution, index, of) }
    }

    /// When the next one is due, from the start of the run.
    pub fn next_due(&self) -> Duration {
        // A ramp that begins at nothing may put its first arrival very far away, but never beyond its end.
        Duration::try_from_secs_f64(self.rate.due(self.places.next)).unwrap_or(Duration::MAX)
    }

    /// When the one before it was due; `None`: it is the first.
    pub fn last_due(&self) -> Option<Duration> {
        let last = self.places.last?;
        Some(Duration::try_from_secs_f64(self.rate.due(last)).unwrap_or(Duration::MAX))
    }

    /// The next one has been taken care of.
    pub fn advance(&mut self) {
        self.places.advance();
    }
}

/// Rates one after another, each for its time.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Arrivals before each piece, when it begins, its rate and its length.
    pieces: Vec<(f64, Duration, Rate, Duration)>,
    arrivals: f64,
    length: Duration,
}

impl Schedule {
    /// Of pieces in their order; a rate's own time begins with its piece.
    pub fn new(pieces: impl IntoIterator<Item = (Rate, Duration)>) -> Self {
        let mut schedule = Self { pieces: Vec::new(), arrivals: 0.0, length: Duration::ZERO };
        for (rate, length) in pieces.into_iter().filter(|(_, length)| !length.is_zero()) {
            schedule.pieces.push((schedule.arrivals, schedule.length, rate, length));
            schedule.arrivals += rate.count(length);
            schedule.length += length;
        }
        schedule
    }

    /// How long it lasts.
    pub fn length(&self) -> Duration {
        self.length
    }

    /// Arrivals in all, in the mean.
    pub fn arrivals(&self) -> f64 {
        self.arrivals
    }

    /// When `n` arrivals have come; `None`: not before the end.
    fn due(&self, n: f64) -> Option<Duration> {
        let at = self.pieces.partition_point(|(before, ..)| *before <= n).checked_sub(1)?;
        // Pieces of no arrivals end where the next one begins.
        let (before, begun, rate, _) = self.pieces.get(at).filter(|_| n < self.arrivals)?;
        let due = Duration::try_from_secs_f64(rate.due(n - before)).ok()?;
        begun.checked_add(due).filter(|due| *due < self.length)
    }

    /// When the arrivals of thread `index` of `of` are due, from the start.
    pub fn of_thread(
        &self,
        distribution: Distribution,
        index: usize,
        of: usize,
    ) -> impl Iterator<Item = Duration> + '_ {
        let mut places = Places::new(distribution, index, of);
        std::iter::from_fn(move || {
            let due = self.due(places.next);
            places.advance();
            due
        })
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

    /// A Poisson process: gaps are exponential (their deviation is their mean), counts of seconds have their mean as variance, and
    /// threads together are one.
    #[test]
    fn people_come_independently_of_each_other() {
        for threads in [1, 4] {
            let mut due = Vec::new();
            for index in 0..threads {
                let mut arrivals =
                    Arrivals::spread(Rate::constant(100.0), Distribution::Poisson, index, threads);
                assert_eq!(arrivals.last_due(), None);
                while arrivals.next_due().as_secs_f64() < 200.0 {
                    let before = arrivals.next_due();
                    due.push(before.as_secs_f64());
                    arrivals.advance();
                    assert!(arrivals.last_due() == Some(before) && arrivals.next_due() >= before);
                }
            }
            due.sort_by(f64::total_cmp);
            // 20,000, with a deviation of 141.
            assert!((due.len() as f64 - 20_000.0).abs() < 850.0, "{}", due.len());
            let gaps: Vec<f64> = due.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let (mean, deviation) = (crate::sample::mean(&gaps), crate::sample::deviation(&gaps));
            assert!((deviation / mean - 1.0).abs() < 0.06, "{threads}: {mean} {deviation}");
            let mut seconds = vec![0.0; 200];
            due.iter().for_each(|at| seconds[*at as usize] += 1.0);
            let spread = crate::sample::deviation(&seconds).powi(2) / crate::sample::mean(&seconds);
            assert!((0.6..1.5).contains(&spread), "{threads}: {spread}");
        }
    }

    #[test]
    fn schedules_are_rates_one_after_another() {
        let secs = Duration::from_secs;
        let ramp = Rate { from: 0.0, to: 40.0, over: secs(10) };
        let schedule = Schedule::new([
            (ramp, secs(10)),
            (Rate::constant(40.0), secs(5)),
            (Rate { from: 0.0, to: 0.0, over: secs(0) }, secs(5)),
            (Rate::constant(10.0), secs(10)),
        ]);
        assert_eq!(schedule.length(), secs(30));
        assert!((schedule.arrivals() - 500.0).abs() < 1e-9);
        for threads in [1, 3] {
            let all = (0..threads).flat_map(|index| {
                schedule.of_thread(Distribution::Constant, index, threads).collect::<Vec<_>>()
            });
            let mut all: Vec<f64> = all.map(|due| due.as_secs_f64()).collect();
            all.sort_by(f64::total_cmp);
            let within = |from: f64, to: f64| all.iter().filter(|at| (from..to).contains(*at)).count();
            assert_eq!((all.len(), within(10.0, 15.0), within(15.0, 20.0)), (500, 200, 0), "{threads}");
            assert!(within(0.0, 5.0).abs_diff(50) <= 1 && within(20.0, 30.0).abs_diff(100) <= 1);
        }
        let drawn = schedule.of_thread(Distribution::Poisson, 0, 1).count();
        assert!((380..620).contains(&drawn), "{drawn}");
        assert_eq!(Schedule::new([]).of_thread(Distribution::Constant, 0, 1).next(), None);
    }

    #[test]
    fn what_cannot_be_done_is_seen() {
        assert!(Rate::constant(0.5).is_sound());
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e10] {
            assert!(!Rate::constant(bad).is_sound(), "{bad}");
        }
    }
}
