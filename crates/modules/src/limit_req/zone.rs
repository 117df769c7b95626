//! The counters of a zone: one per key, the least recently used of which give way when the memory is used up.
//!
//! It knows no requests and reads no clock: times are passed in, so the bucket is tested as data.

use crate::limiting::{Outcomes, Parts};
use hashbrown::HashTable;

/// What a counter takes besides its key, allocator and table included.
const COUNTER_BYTES: usize = 80;
/// A counter at zero that nobody has looked at for this long is dropped when another is made.
const STALE_MS: u64 = 60_000;
/// No counter.
const NONE: u32 = u32::MAX;

/// Requests per second times 1000: the unit of rates, bursts and excesses.
pub type Millirequests = u64;

/// What a counter says to one more request. The number is by how much it is ahead of the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Within(Millirequests),
    Over(Millirequests),
    /// The key is larger than the zone.
    TooLarge,
}

/// A zone's state.
pub struct Counters {
    parts: Parts<Part>,
    pub outcomes: Outcomes,
}

impl Counters {
    pub fn new(bytes: u64) -> Counters {
        Counters { parts: Parts::new(bytes, Part::new), outcomes: Outcomes::default() }
    }

    /// Asks whether a request is within the burst, and counts it if so and if `account`.
    pub fn ask(
        &self,
        key: &[u8],
        rate: Millirequests,
        burst: Millirequests,
        now_ms: u64,
        account: bool,
    ) -> Verdict {
        let (mut part, hash) = self.parts.of(key);
        part.ask(hash, key, rate, burst, now_ms, account)
    }
}

struct Counter {
    hash: u64,
    key: Box<[u8]>,
    excess: Millirequests,
    last_ms: u64,
    /// Neighbours in the order of use.
    /// Indices instead of pointers: the list needs no `unsafe`, and NONE ends it.
    newer: u32,
    older: u32,
}

impl Counter {
    /// The excess that one more request would make.
    fn with_one_more(&self, rate: Millirequests, now_ms: u64) -> Millirequests {
        (self.excess + 1000).saturating_sub(leaked(rate, now_ms.saturating_sub(self.last_ms)))
    }
}

fn leaked(rate: Millirequests, ms: u64) -> Millirequests {
    rate.saturating_mul(ms) / 1000
}

struct Part {
    /// Of indices, so that a key is stored once.
    table: HashTable<u32>,
    counters: Vec<Counter>,
    /// Places of counters that were dropped.
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    bytes: usize,
    bytes_max: usize,
}

impl Part {
    fn new(bytes_max: usize) -> Part {
        Part {
            table: HashTable::new(),
            counters: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            bytes: 0,
            bytes_max,
        }
    }

    fn ask(
        &mut self,
        hash: u64,
        key: &[u8],
        rate: Millirequests,
        burst: Millirequests,
        now_ms: u64,
        account: bool,
    ) -> Verdict {
        let found = self.table.find(hash, |&at| *self.counters[at as usize].key == *key).copied();
        // A key that is not there has no excess; it is made only when it is counted.
        let Some(at) = found else {
            return if account { self.add(hash, key, rate, now_ms) } else { Verdict::Within(0) };
        };
        // As in nginx asking is a use: a key that is refused each time is not forgotten for that.
        self.unlink(at);
        self.link_newest(at);
        let counter = &mut self.counters[at as usize];
        let excess = counter.with_one_more(rate, now_ms);
        // A refused request leaves the excess as it was, so that a client that hammers is let in at the rate all the
        // same.
        if excess > burst {
            return Verdict::Over(excess);
        }
        if account {
            counter.excess = excess;
            // Clocks of threads differ by a wake-up: time does not go back.
            counter.last_ms = counter.last_ms.max(now_ms);
        }
        Verdict::Within(excess)
    }

    fn add(&mut self, hash: u64, key: &[u8], rate: Millirequests, now_ms: u64) -> Verdict {
        let bytes = cost(key);
        if bytes > self.bytes_max {
            return Verdict::TooLarge;
        }
        // Two for one that comes, as nginx does: the work of one request is bounded, and stale ones disappear.
        self.drop_stale(rate, now_ms);
        while self.bytes + bytes > self.bytes_max {
            self.drop_oldest();
        }
        let counter = Counter { hash, key: key.into(), excess: 0, last_ms: now_ms, newer: NONE, older: NONE };
        let at = match self.free.pop() {
            Some(at) => {
                self.counters[at as usize] = counter;
                at
            }
            None => {
                self.counters.push(counter);
                self.counters.len() as u32 - 1
            }
        };
        self.bytes += bytes;
        self.link_newest(at);
        let counters = &self.counters;
        self.table.insert_unique(hash, at, |&at| counters[at as usize].hash);
        Verdict::Within(0)
    }

    /// Drops up to two that have nothing to tell any more.
    fn drop_stale(&mut self, rate: Millirequests, now_ms: u64) {
        for _ in 0..2 {
            let Some(oldest) = self.counters.get(self.oldest as usize) else { return };
            let idle_ms = now_ms.saturating_sub(oldest.last_ms);
            if idle_ms < STALE_MS || oldest.excess > leaked(rate, idle_ms) {
                return;
            }
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let at = self.oldest;
        self.unlink(at);
        let counter = &mut self.counters[at as usize];
        self.bytes -= cost(&counter.key);
        // The place stays in the vector until another key takes it; the key's memory is freed now.
        counter.key = Box::default();
        let hash = counter.hash;
        if let Ok(entry) = self.table.find_entry(hash, |&have| have == at) {
            entry.remove();
        }
        self.free.push(at);
    }

    fn unlink(&mut self, at: u32) {
        let (newer, older) = (self.counters[at as usize].newer, self.counters[at as usize].older);
        match self.counters.get_mut(newer as usize) {
            Some(counter) => counter.older = older,
            None => self.newest = older,
        }
        match self.counters.get_mut(older as usize) {
            Some(counter) => counter.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn link_newest(&mut self, at: u32) {
        let before = std::mem::replace(&mut self.newest, at);
        let counter = &mut self.counters[at as usize];
        (counter.newer, counter.older) = (NONE, before);
        match self.counters.get_mut(before as usize) {
            Some(counter) => counter.newer = at,
            None => self.oldest = at,
        }
    }
}

/// As nginx's allocator: powers of two.
fn cost(key: &[u8]) -> usize {
    (COUNTER_BYTES + key.len()).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_leaks_at_the_rate() {
        let counters = Counters::new(1 << 20);
        let ask = |now, burst| counters.ask(b"key", 2000, burst, now, true);
        assert_eq!(ask(0, 1000), Verdict::Within(0));
        assert_eq!(ask(0, 1000), Verdict::Within(1000));
        assert_eq!(ask(0, 1000), Verdict::Over(2000));
        assert_eq!(ask(500, 1000), Verdict::Within(1000));
        assert_eq!(ask(400, 1000), Verdict::Over(2000), "a clock that is behind takes nothing back");
        assert_eq!(ask(60_000, 0), Verdict::Within(0), "an excess is never negative");
        assert_eq!(ask(60_250, 500), Verdict::Within(500));
    }

    #[test]
    fn asking_does_not_count() {
        let counters = Counters::new(1 << 20);
        assert_eq!(counters.ask(b"key", 1000, 0, 0, false), Verdict::Within(0));
        assert_eq!(counters.ask(b"key", 1000, 0, 0, true), Verdict::Within(0));
        assert_eq!(counters.ask(b"key", 1000, 1000, 0, false), Verdict::Within(1000));
        assert_eq!(counters.ask(b"key", 1000, 1000, 0, true), Verdict::Within(1000));
    }

    #[test]
    fn memory_is_bounded_and_the_least_recently_used_give_way() {
        let mut part = Part::new(32 << 10);
        let key = |n: u32| n.to_be_bytes();
        let mut ask = |n: u32| part.ask(u64::from(n), &key(n), 1, 0, 0, true);
        for n in 0..256 {
            assert_eq!(ask(n), Verdict::Within(0));
        }
        assert_eq!(ask(0), Verdict::Over(1000));
        for n in 256..511 {
            assert_eq!(ask(n), Verdict::Within(0));
        }
        assert_eq!(ask(0), Verdict::Over(1000), "it was used last");
        assert_eq!(ask(1), Verdict::Within(0), "it was not");
        assert_eq!(part.counters.len(), 256);
        assert!(part.bytes <= part.bytes_max);
        assert_eq!(part.ask(1, &vec![0; 40_000], 1, 0, 0, true), Verdict::TooLarge);
    }

    #[test]
    fn what_is_stale_goes_when_others_come() {
        let mut part = Part::new(32 << 10);
        for n in 0..4u8 {
            part.ask(u64::from(n), &[n], 1000, 0, 0, true);
        }
        part.ask(9, &[9], 1000, 0, 59_999, true);
        assert_eq!(part.table.len(), 5);
        part.ask(10, &[10], 1000, 0, 60_000, true);
        assert_eq!(part.table.len(), 4);
    }
}
