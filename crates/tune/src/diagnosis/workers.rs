//! PHP's processes together: what they are at, and what waits for them.

use super::figures::WaitFigures;
use super::{Measured, Role, TierFigures};

/// Who wants a CPU for this share of the time has nothing left to give.
pub(super) const HUNGRY: f64 = 0.85;

/// A worker of quick pages has nothing to do while the server hands it the next request: a pool that is taken for this share of the time has no
/// room, if requests wait.
pub(super) const TAKEN: f64 = 0.7;

/// What a worker is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    Running,
    Database,
    File,
    Memory,
    Lock,
    Others,
    Sleep,
    Client,
    Other,
}

/// Workers of PHP together.
pub(super) struct Workers<'a> {
    pub tiers: Vec<(&'a TierFigures, &'a WaitFigures)>,
}

impl<'a> Workers<'a> {
    pub fn of(m: &'a Measured) -> Self {
        let php = m.tiers.iter().filter(|tier| tier.role == Role::Php);
        Self { tiers: php.filter_map(|tier| Some((tier, tier.waits.as_ref()?))).collect() }
    }

    pub fn sum(&self, what: impl Fn(&WaitFigures) -> f64) -> f64 {
        self.tiers.iter().map(|(_, waits)| what(waits)).sum()
    }

    pub fn at(&self) -> [(At, f64); 9] {
        [
            (At::Running, self.sum(|waits| waits.running)),
            (At::Database, self.sum(WaitFigures::database)),
            (At::File, self.sum(|waits| waits.file)),
            (At::Memory, self.sum(|waits| waits.memory)),
            (At::Lock, self.sum(|waits| waits.lock)),
            (At::Others, self.sum(WaitFigures::others)),
            (At::Sleep, self.sum(|waits| waits.sleep)),
            (At::Client, self.sum(|waits| waits.client)),
            (At::Other, self.sum(|waits| waits.other)),
        ]
    }

    /// Requests that the server has, where its connections tell, and how many requests wait for one of the workers. `seen`: what the looks at the first tier found.
    pub fn asked(&self, m: &Measured, seen: &WaitFigures) -> (Option<f64>, f64) {
        let quiet = if m.around.is_closed_loop { seen.quiet } else { 0.0 };
        let requests = seen.requests.map(|requests| requests + quiet);
        (requests, self.queue(requests, seen.busiest))
    }

    /// Requests that wait for one of them, of those that the server has. A server whose busiest thread wants a CPU all the time may be what
    /// they wait for.
    fn queue(&self, requests: Option<f64>, server_busiest: f64) -> f64 {
        let pools: Vec<f64> = self.tiers.iter().filter_map(|(tier, _)| Some(tier.pool?.queued)).collect();
        if !pools.is_empty() {
            return pools.iter().sum();
        }
        // A pool whose queue cannot be looked into: what the server has and no worker works on, if none is free.
        let is_taken = |waits: &WaitFigures| {
            waits.full_share >= HUNGRY || server_busiest < HUNGRY && waits.taken_share() >= TAKEN
        };
        let is_full = !self.tiers.is_empty() && self.tiers.iter().all(|(_, waits)| is_taken(waits));
        let busy = self.sum(WaitFigures::busy);
        requests.filter(|_| is_full).map_or(0.0, |requests| (requests - busy).max(0.0))
    }

    /// The busiest of the tiers.
    pub fn main(&self) -> Option<(&'a TierFigures, &'a WaitFigures)> {
        self.tiers.iter().copied().max_by(|left, right| left.1.busy().total_cmp(&right.1.busy()))
    }
}
