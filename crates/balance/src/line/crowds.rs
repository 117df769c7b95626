//! How many requests of each host wait.

use std::collections::{BTreeSet, HashMap};

/// See the module's head. Requests are known by their tickets.
#[derive(Debug, Default)]
pub(super) struct Crowds {
    /// Host and ticket.
    tickets: BTreeSet<(u32, u64)>,
    /// Hosts of which any waits.
    counts: HashMap<u32, usize>,
    /// The same the other way round: count and host.
    sizes: BTreeSet<(usize, u32)>,
}

impl Crowds {
    pub fn add(&mut self, host: u32, ticket: u64) {
        if self.tickets.insert((host, ticket)) {
            self.resize(host, self.count(host) + 1);
        }
    }

    pub fn remove(&mut self, host: u32, ticket: u64) {
        if self.tickets.remove(&(host, ticket)) {
            self.resize(host, self.count(host) - 1);
        }
    }

    fn resize(&mut self, host: u32, count: usize) {
        let before = self.count(host);
        self.sizes.remove(&(before, host));
        if count == 0 {
            self.counts.remove(&host);
            return;
        }
        self.counts.insert(host, count);
        self.sizes.insert((count, host));
    }

    /// How many of this host wait.
    pub fn count(&self, host: u32) -> usize {
        self.counts.get(&host).copied().unwrap_or(0)
    }

    /// Of how many hosts any waits.
    pub fn hosts(&self) -> usize {
        self.counts.len()
    }

    /// The most of one host, and which it is.
    pub fn largest(&self) -> Option<(usize, u32)> {
        self.sizes.last().copied()
    }

    /// The last one of a host that has come.
    pub fn newest(&self, host: u32) -> Option<u64> {
        self.tickets.range((host, 0)..=(host, u64::MAX)).next_back().map(|(_, ticket)| *ticket)
    }
}
