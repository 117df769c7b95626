//! Sleeping a little before answers are looked for, where there are many to come.
//!
//! Servers answer the streams of a connection one by one. A thread that wakes up for each answer, and sends what follows
//! it at once, spends its time with reads and writes of a few bytes, and makes the server do so too. One that lets a few
//! come in reads them at once, and what follows them leaves in one piece.

use rustix::event::Timespec;
use rustix::thread::nanosleep;

use super::context::Ns;
use crate::plan::Plan;

/// How often its length is measured anew.
const TICK: Ns = 10_000_000;
/// What a latency may seem longer by. Reports promise 0.2 ms (`tests/truth.rs`).
const MAX: Ns = 100_000;
/// Less does not pay: falling asleep and waking up cost a few microseconds.
const MIN: Ns = 20_000;
/// And it is at most this part of the mean latency.
const PART: Ns = 32;

/// See the module's head.
#[derive(Debug)]
pub struct Nap {
    /// Whether requests come in many streams, as soon as there is room for them.
    is_possible: bool,
    length: Ns,
    measured_at: Ns,
    /// Responses up to then.
    responses: u64,
}

impl Nap {
    /// None, until latencies are known. In an open loop there will be none: what is due must leave at once.
    pub fn new(plan: &Plan) -> Self {
        let is_possible = plan.version.has_streams() && plan.pipeline > 1 && plan.rate.is_none();
        Self { is_possible, length: 0, measured_at: 0, responses: 0 }
    }

    /// Whether [`Self::measure`] is to be told how things stand.
    #[inline]
    pub fn is_due(&self, now: Ns) -> bool {
        self.is_possible && now >= self.measured_at + TICK
    }

    /// There have been so many responses, and so many requests are in flight: by Little's law that says how long one takes.
    pub fn measure(&mut self, now: Ns, responses: u64, in_flight: u64) {
        let latency = (in_flight * (now - self.measured_at)).checked_div(responses - self.responses);
        let length = latency.map_or(0, |latency| (latency / PART).min(MAX));
        (self.length, self.measured_at, self.responses) =
            (if length < MIN { 0 } else { length }, now, responses);
    }

    /// Sleeps, if the thread would otherwise wait for so long.
    #[inline]
    pub fn take(&self, wait: Ns) {
        if self.length > 0 && wait > self.length {
            // One that a signal ends is a shorter one.
            let _ = nanosleep(&timespec(self.length));
        }
    }
}

/// As the kernel takes it.
pub fn timespec(duration: Ns) -> Timespec {
    Timespec { tv_sec: (duration / 1_000_000_000) as i64, tv_nsec: (duration % 1_000_000_000) as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After one measurement of `TICK`.
    fn length(responses: u64, in_flight: u64) -> Ns {
        let mut nap = Nap { is_possible: true, length: 0, measured_at: 0, responses: 0 };
        assert!(!nap.is_due(TICK - 1) && nap.is_due(TICK));
        nap.measure(TICK, responses, in_flight);
        assert!(!nap.is_due(TICK + 1));
        nap.length
    }

    #[test]
    fn it_is_short_beside_the_latency() {
        // 600 in 10 ms with 256 under way take 4.27 ms each, with 128 half of that.
        assert_eq!(length(600, 256), MAX);
        assert_eq!(length(600, 128), 66_666);
        // 0.27 ms are too few.
        assert_eq!(length(600, 16), 0);
        assert_eq!(length(0, 16), 0);
        assert_eq!(length(1, 256), MAX);
    }
}
