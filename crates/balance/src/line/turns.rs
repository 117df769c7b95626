//! Whose turn it is among requests that wait: the oldest of the host that was served longest ago.

use super::Origin;
use std::collections::{BTreeSet, HashMap};

/// See the module's head. Requests are known by their tickets.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Host and ticket.
    waiting: BTreeSet<(u32, u64)>,
    /// The same of one thread each.
    near: BTreeSet<(Origin, u64)>,
    /// The turn in which each host was served last.
    served: HashMap<u32, u64>,
    /// That turn, the oldest ticket, and the host, of each host of which any waits.
    hosts: BTreeSet<(u64, u64, u32)>,
    turn: u64,
}

impl Turns {
    /// The next one.
    pub fn next(&self) -> Option<u64> {
        self.hosts.first().map(|(_, ticket, _)| *ticket)
    }

    /// The oldest one of a host in a thread.
    pub fn first_of(&self, origin: Origin) -> Option<u64> {
        self.near.range((origin, 0)..=(origin, u64::MAX)).next().map(|(_, ticket)| *ticket)
    }

    pub fn add(&mut self, origin: Origin, ticket: u64) {
        self.near.insert((origin, ticket));
        self.change(origin.host, |turns| {
            turns.waiting.insert((origin.host, ticket));
        });
    }

    pub fn remove(&mut self, origin: Origin, ticket: u64) {
        self.near.remove(&(origin, ticket));
        self.change(origin.host, |turns| {
            turns.waiting.remove(&(origin.host, ticket));
        });
    }

    /// A host has had its turn.
    pub fn served(&mut self, host: u32) {
        self.turn += 1;
        self.change(host, |turns| {
            turns.served.insert(host, turns.turn);
        });
    }

    /// Changes what is known of a host, which then gets its place among hosts.
    fn change(&mut self, host: u32, change: impl FnOnce(&mut Turns)) {
        if let Some(before) = self.place(host) {
            self.hosts.remove(&before);
        }
        change(self);
        if let Some(after) = self.place(host) {
            self.hosts.insert(after);
        }
    }

    fn place(&self, host: u32) -> Option<(u64, u64, u32)> {
        let (_, oldest) = self.waiting.range((host, 0)..=(host, u64::MAX)).next()?;
        Some((self.served.get(&host).copied().unwrap_or(0), *oldest, host))
    }
}
