//! The retry budget: a back end that dies must not be asked twice by everybody at once.

/// Half of the time that is looked back on, in milliseconds.
const HALF_MS: u64 = 5_000;
/// Retries within that time that are always allowed.
const FREE_RETRIES: u64 = 100;
/// Beyond them, a retry for this many requests.
const REQUESTS_PER_RETRY: u64 = 5;

/// Requests and retries of the last five to ten seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    since_ms: u64,
    now: Counts,
    before: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    requests: u64,
    retries: u64,
}

impl Budget {
    /// Counts a request's first attempt.
    pub fn request(&mut self, now_ms: u64) {
        self.turn(now_ms);
        self.now.requests += 1;
    }

    /// Counts a retry and tells whether it may be made.
    pub fn retry(&mut self, now_ms: u64) -> bool {
        self.turn(now_ms);
        let requests = self.now.requests + self.before.requests;
        let retries = self.now.retries + self.before.retries;
        let allowed = retries < FREE_RETRIES + requests / REQUESTS_PER_RETRY;
        self.now.retries += u64::from(allowed);
        allowed
    }

    fn turn(&mut self, now_ms: u64) {
        let passed = now_ms.saturating_sub(self.since_ms);
        if passed >= HALF_MS {
            self.before = if passed < 2 * HALF_MS { self.now } else { Counts::default() };
            self.now = Counts::default();
            self.since_ms = now_ms;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_a_fifth_of_requests_beyond_a_hundred() {
        let mut budget = Budget::default();
        (0..1000).for_each(|_| budget.request(20_000));
        assert_eq!((0..1000).filter(|_| budget.retry(20_001)).count(), 300);
        // Half a window later what was spent still counts, a whole one later it is forgotten.
        assert!(!budget.retry(26_000));
        assert!(budget.retry(40_000));
    }
}
