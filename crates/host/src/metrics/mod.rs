//! Numbers about what goes on, for monitoring: Prometheus' text and the same as JSON.
//!
//! What counts does so without a lock; the numbers are added up when they are read. Names follow Prometheus' conventions:
//! `brisk_area_what_unit`.

mod render;

use std::cell::Cell as ThreadCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Cells of a [`Counter`]: threads that have one each do not disturb each other.
const CELLS: usize = 16;

#[repr(align(64))]
struct Cell(AtomicU64);

/// A number that only rises and that any thread may raise. It can be a static.
pub struct Counter {
    cells: [Cell; CELLS],
}

impl Default for Counter {
    fn default() -> Counter {
        Counter::new()
    }
}

impl Counter {
    /// At 0.
    pub const fn new() -> Counter {
        Counter { cells: [const { Cell(AtomicU64::new(0)) }; CELLS] }
    }

    /// Counts so many up, in this thread's cell.
    #[inline]
    pub fn add(&self, count: u64) {
        self.cells[own_cell()].0.fetch_add(count, Ordering::Relaxed);
    }

    /// The sum of all threads' cells.
    pub fn get(&self) -> u64 {
        self.cells.iter().map(|cell| cell.0.load(Ordering::Relaxed)).sum()
    }
}

/// The cell of this thread.
#[inline]
fn own_cell() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: ThreadCell<usize> = const { ThreadCell::new(usize::MAX) };
    }
    let own = OWN.get();
    if own != usize::MAX {
        return own;
    }
    let own = NEXT.fetch_add(1, Ordering::Relaxed) % CELLS;
    OWN.set(own);
    own
}

/// What kind of number a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// How observations are spread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// Upper bounds, rising, and how many observations are above the bound before and not above this one.
    pub buckets: Vec<(f64, u64)>,
    /// How many are above the last bound.
    pub above: u64,
    /// The sum of all observations.
    pub sum: f64,
}

#[derive(Debug)]
pub(crate) enum Value {
    Count(u64),
    Gauge(f64),
    Histogram(Histogram),
}

/// One number with its labels.
#[derive(Debug)]
pub(crate) struct Sample {
    pub labels: Vec<(&'static str, String)>,
    pub value: Value,
}

/// All numbers of one name.
#[derive(Debug)]
pub(crate) struct Family {
    pub name: &'static str,
    pub help: &'static str,
    pub kind: Kind,
    pub samples: Vec<Sample>,
}

/// All numbers that are given out together.
#[derive(Debug, Default)]
pub struct Families(Vec<Family>);

impl Families {
    /// A number that only rises.
    pub fn counter(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        value: u64,
    ) {
        self.add(name, help, Kind::Counter, labels, Value::Count(value));
    }

    /// A number of seconds that only rises.
    pub fn seconds(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        value: f64,
    ) {
        self.add(name, help, Kind::Counter, labels, Value::Gauge(value));
    }

    /// A number that may fall.
    pub fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        value: f64,
    ) {
        self.add(name, help, Kind::Gauge, labels, Value::Gauge(value));
    }

    /// Adds a histogram of the family `name`.
    pub fn histogram(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        value: Histogram,
    ) {
        self.add(name, help, Kind::Histogram, labels, Value::Histogram(value));
    }

    fn add(
        &mut self,
        name: &'static str,
        help: &'static str,
        kind: Kind,
        labels: &[(&'static str, &str)],
        value: Value,
    ) {
        let labels = labels.iter().map(|(name, value)| (*name, (*value).to_string())).collect();
        let sample = Sample { labels, value };
        // What comes together is asked for together.
        let at = match self.0.iter().rposition(|family| family.name == name) {
            Some(at) => at,
            None => {
                self.0.push(Family { name, help, kind, samples: Vec::new() });
                self.0.len() - 1
            }
        };
        self.0[at].samples.push(sample);
    }

    /// Prometheus' text format, version 0.0.4.
    pub fn text(&self) -> String {
        render::text(&self.0)
    }

    /// An object with a member per name.
    pub fn json(&self) -> String {
        render::json(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_count_adds_up() {
        static COUNTER: Counter = Counter::new();
        std::thread::scope(|scope| {
            for _ in 0..40 {
                scope.spawn(|| (0..1000).for_each(|_| COUNTER.add(2)));
            }
        });
        assert_eq!(COUNTER.get(), 80_000);
    }
}
