//! Cells in which threads count requests by server, location and class of status.
//!
//! Each thread counts in its own [`Place`]s, found once per location and configuration. They outlive a configuration: a
//! location that is there again after a reload goes on counting.

use crate::conf::ids::{LocationId, ServerId};
use crate::counters::Count;
use brisk_net::clock;
use hashbrown::HashMap;
use std::cell::RefCell;
use std::sync::{Arc, Mutex, OnceLock};

/// Upper bounds of the buckets, in microseconds.
/// From a tenth of a millisecond to ten seconds, about three per decade: enough for percentiles, few enough
/// for thousands of locations.
pub(super) const BOUNDS_US: [u32; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000,
];

pub(super) const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Names of a server and a location.
/// By name and not by number: numbers change with a reload, and a counter must not.
pub(super) type Key = (Box<[u8]>, Box<[u8]>);

/// One thread's places, as other threads read them.
pub type PlacesOfThread = Mutex<HashMap<Key, Arc<Place>>>;

/// What one thread has counted in one location.
#[derive(Default)]
pub struct Place {
    /// Made with the first request of the class: most locations answer with one or two.
    pub(super) classes: [OnceLock<Box<Class>>; 5],
}

/// Requests of one class of status.
#[derive(Default)]
pub(super) struct Class {
    pub buckets: [Count; BOUNDS_US.len() + 1],
    pub total_us: Count,
    pub sent_bytes: Count,
    pub received_bytes: Count,
}

/// One thread's view of the places of one configuration.
#[derive(Default)]
pub struct Places(RefCell<Vec<Option<Arc<Place>>>>);

/// What is known of a request when it ends.
#[derive(Clone, Copy)]
pub(crate) struct Ended {
    pub server: ServerId,
    pub location: LocationId,
    pub status: u16,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// Monotonic.
    pub started_us: u64,
}

impl Places {
    /// For a [reduced](crate::conf::Snapshot::reduced) configuration, where the location has the number 0.
    pub(crate) fn reduced(&self, at: usize) -> Places {
        // The location may not have been counted yet; then its cell is found with its first request.
        let place = self.0.borrow().get(at).cloned().flatten();
        Places(RefCell::new(vec![place]))
    }

    /// Counts a request at place `at`, and says how long it took, in microseconds; `find` gives the place of its location, if
    /// it is the first one there.
    #[inline]
    pub(super) fn record(&self, at: usize, ended: Ended, find: impl FnOnce() -> Arc<Place>) -> u64 {
        // The clock of the loop stands still within a turn: answers from memory would all take 0.
        let took_us = clock::precise_us().saturating_sub(ended.started_us);
        let mut places = self.0.borrow_mut();
        match places.get(at) {
            Some(Some(place)) => place.record(ended, took_us),
            // The first request of this location in this configuration and thread.
            _ => {
                let place = find();
                place.record(ended, took_us);
                let len = places.len().max(at + 1);
                places.resize(len, None);
                places[at] = Some(place);
            }
        }
        took_us
    }
}

impl Place {
    fn record(&self, ended: Ended, took_us: u64) {
        // Statuses outside, such as 009 for HTTP/0.9, count to the nearest class.
        let class = usize::from(ended.status / 100).clamp(1, CLASSES.len()) - 1;
        let class = self.classes[class].get_or_init(Box::default);
        let bucket =
            BOUNDS_US.iter().position(|&bound| took_us <= u64::from(bound)).unwrap_or(BOUNDS_US.len());
        class.buckets[bucket].up();
        class.total_us.add(took_us);
        class.sent_bytes.add(ended.sent_bytes);
        class.received_bytes.add(ended.received_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_counted_in_its_class_and_bucket() {
        let check = |status, took_us, class: usize, bucket: usize| {
            let place = Place::default();
            let ended = Ended {
                server: ServerId(0),
                location: LocationId(0),
                status,
                sent_bytes: 10,
                received_bytes: 20,
                started_us: 0,
            };
            place.record(ended, took_us);
            assert_eq!(place.classes.iter().position(|class| class.get().is_some()), Some(class), "{status}");
            let class = place.classes[class].get().unwrap();
            assert_eq!(class.buckets.iter().position(|count| count.get() == 1), Some(bucket), "{took_us}");
            assert_eq!((class.total_us.get(), class.sent_bytes.get()), (took_us, 10));
        };
        check(200, 0, 1, 0);
        check(204, 100, 1, 0);
        check(304, 101, 2, 1);
        check(499, 10_000_000, 3, 15);
        check(503, 10_000_001, 4, 16);
        check(101, u64::MAX, 0, 16);
        check(0, 1, 0, 0);
        check(999, 1, 4, 0);
    }
}
