//! How many requests may wait for a worker of a pool.

use crate::limits::{QUEUE_DEFAULT_REQUESTS_MAX, QUEUE_REQUESTS_PER_WORKER, QUEUE_SOON_MS, QUEUE_USUAL_MS};
use crate::settings::Queue;
use brisk_balance::Room;

/// How fast a pool serves.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Requests that got a worker in the last full second; at least 1.
    pub per_second: u64,
    /// That is all that the pool can do: somebody has waited for the whole of that second. Else nobody knows how much it could.
    pub is_capacity: bool,
}

/// The room of a pool with `workers` now and `workers_max` at most.
///
/// What decides is how long a request would wait, not how many are before it: a hundred before a script of 100 µs wait for less than two
/// before one of 10 ms. Four per worker may always wait, since one that takes seconds serves too few to count.
pub fn room(queue: Queue, workers: usize, workers_max: usize, pace: Pace) -> Room {
    let served_in = |ms: u64| (u128::from(pace.per_second) * u128::from(ms) / 1000) as usize;
    let least = workers_max.saturating_mul(QUEUE_REQUESTS_PER_WORKER as usize);
    let usual = if pace.is_capacity { served_in(QUEUE_USUAL_MS) } else { QUEUE_DEFAULT_REQUESTS_MAX };
    let soon = served_in(QUEUE_SOON_MS).max(workers);
    let timeout_ms = queue.timeout.as_millis().min(u128::from(u64::MAX)) as u64;
    Room {
        most: queue.max.unwrap_or(usual.min(QUEUE_DEFAULT_REQUESTS_MAX).max(least)),
        // None that would not be served before its time in the line is over.
        soon: soon.min(served_in(timeout_ms)).max(1),
        usual: usual.max(least),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn of_pool(queue: Option<usize>, per_second: u64, is_capacity: bool) -> (usize, usize, usize) {
        let queue = Queue { max: queue, timeout: Duration::from_secs(5) };
        let room = super::room(queue, 3, 5, Pace { per_second, is_capacity });
        (room.most, room.soon, room.usual)
    }

    #[test]
    fn as_many_may_wait_as_are_served_in_a_second() {
        assert_eq!(of_pool(None, 1, false), (511, 3, 511), "nobody knows yet what it can do");
        assert_eq!(of_pool(None, 100, true), (100, 5, 100));
        assert_eq!(of_pool(None, 2, true), (20, 3, 20), "four per worker");
        assert_eq!(of_pool(None, 20_000, true), (511, 1000, 20_000));
        assert_eq!(of_pool(Some(7), 20_000, true), (7, 1000, 20_000));
        assert_eq!(of_pool(Some(0), 1, false), (0, 3, 511));
    }
}
