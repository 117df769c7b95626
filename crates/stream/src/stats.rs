//! What the servers of `stream` have done, for reports. Reloads keep it: a server is known by where it listens and what it is called.

use crate::proxy::Status;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What one server has done. Any thread adds to it.
#[derive(Debug, Default)]
pub struct Stats {
    /// Where it listens first.
    pub listen: Box<str>,
    /// Its first name; empty: it has none.
    pub name: Box<str>,
    begun: AtomicU64,
    running: AtomicU64,
    ended: [AtomicU64; 3],
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
}

/// The classes that sessions end with.
pub const CLASSES: [&str; 3] = ["2xx", "4xx", "5xx"];

/// The numbers of a server at one time. They may be some sessions apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Sessions that came.
    pub begun: u64,
    /// Those that go on.
    pub running: u64,
    /// Those that have ended, by [`CLASSES`].
    pub ended: [u64; 3],
    /// Bytes from clients.
    pub received_bytes: u64,
    /// Bytes to clients.
    pub sent_bytes: u64,
}

static KNOWN: Mutex<Vec<Weak<Stats>>> = Mutex::new(Vec::new());

impl Stats {
    /// Those of a server: of the configuration that is live as of the one that is being built.
    pub fn of(listen: &str, name: &str) -> Arc<Stats> {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|stats| stats.strong_count() > 0);
        let is_it = |stats: &Arc<Stats>| *stats.listen == *listen && *stats.name == *name;
        known.iter().filter_map(Weak::upgrade).find(is_it).unwrap_or_else(|| {
            let stats = Arc::new(Stats { listen: listen.into(), name: name.into(), ..Stats::default() });
            known.push(Arc::downgrade(&stats));
            stats
        })
    }

    /// What is counted by now.
    pub fn numbers(&self) -> Numbers {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Numbers {
            begun: of(&self.begun),
            running: of(&self.running),
            ended: self.ended.each_ref().map(of),
            received_bytes: of(&self.received_bytes),
            sent_bytes: of(&self.sent_bytes),
        }
    }

    pub(crate) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    /// A name has led a session to this server, from another one of its address.
    pub(crate) fn take_over(&self, from: &Stats) {
        for (counter, other) in [(&self.begun, &from.begun), (&self.running, &from.running)] {
            counter.fetch_add(1, Ordering::Relaxed);
            other.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A session ends; without a status another server has it.
    pub(crate) fn end(&self, status: Option<Status>) {
        self.running.fetch_sub(1, Ordering::Relaxed);
        let class = match status {
            None => return,
            Some(..400) => 0,
            Some(400..500) => 1,
            Some(_) => 2,
        };
        self.ended[class].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn moved(&self, received: u64, sent: u64) {
        for (counter, bytes) in [(&self.received_bytes, received), (&self.sent_bytes, sent)] {
            if bytes > 0 {
                counter.fetch_add(bytes, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_while_somebody_has_it() {
        let (one, other) = (Stats::of("a:1", "x"), Stats::of("a:1", "y"));
        one.begin();
        one.moved(3, 4);
        other.take_over(&one);
        other.end(Some(503));
        assert_eq!(
            Stats::of("a:1", "x").numbers(),
            Numbers { received_bytes: 3, sent_bytes: 4, ..Numbers::default() }
        );
        let ended = Numbers { begun: 1, ended: [0, 0, 1], ..Numbers::default() };
        assert_eq!(Stats::of("a:1", "y").numbers(), ended);
        drop(other);
        assert_eq!(Stats::of("a:1", "y").numbers(), Numbers::default());
    }
}
