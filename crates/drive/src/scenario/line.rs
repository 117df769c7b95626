//! The figures of what is counted together.

use crate::limits::KINDS_MAX;
use brisk_load::histogram::Histogram;
use std::collections::BTreeMap;

/// Figures of one step, one group, or everything.
#[derive(Debug, Clone, Default)]
pub struct Line {
    /// Of good answers, in nanoseconds.
    pub latency: Histogram,
    /// By kind: what failed on the wire, statuses, checks.
    pub failures: BTreeMap<String, u64>,
    /// What was never answered: it took longer than all that was.
    pub never: u64,
    /// Of bodies.
    pub bytes: u64,
}

impl Line {
    /// Failures of every kind.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Good and bad.
    pub fn requests(&self) -> u64 {
        self.latency.count() + self.failed()
    }

    /// The share of bad ones.
    pub fn error_share(&self) -> f64 {
        self.failed() as f64 / self.requests().max(1) as f64
    }

    /// Adds what another thread, or another step of the same sum, has counted.
    pub fn merge(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.never += other.never;
        self.bytes += other.bytes;
        other.failures.iter().for_each(|(kind, more)| count(&mut self.failures, kind, *more));
    }
}

/// Counts failures of this kind. Beyond [`KINDS_MAX`] kinds they are `others`: texts of failures come from outside.
pub fn count(failures: &mut BTreeMap<String, u64>, kind: &str, more: u64) {
    let kind = if failures.len() < KINDS_MAX || failures.contains_key(kind) { kind } else { "others" };
    match failures.get_mut(kind) {
        Some(count) => *count += more,
        None => drop(failures.insert(kind.to_owned(), more)),
    }
}
