//! What is looked at second by second while a change is on a site: whether it is still as good as when it was proved. No I/O, no clock.

use crate::limits::{
    GUARD_ERRORS_MAX, GUARD_FACTOR_MAX, GUARD_MEMORY_BYTES_MAX, GUARD_SECONDS, GUARD_SWAP_BYTES_MAX,
};
use std::fmt;

/// What one second has shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Second {
    /// 99 % of the good answers took less, in milliseconds; infinite where there was none.
    pub p99_ms: f64,
    /// The share of requests without a good answer.
    pub errors: f64,
    /// Swap in use, in bytes.
    pub swap: u64,
    /// Memory of the server, in bytes; 0: not known.
    pub memory: u64,
}

/// Why a change is taken back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Breach {
    /// Requests wait too long; milliseconds now and at most.
    Waiting(f64, f64),
    /// Nothing is answered.
    Silent,
    /// Too many errors, as a share.
    Errors(f64),
    /// The server takes more memory; bytes that were added.
    Memory(u64),
    /// The machine swaps; bytes that were added.
    Swap(u64),
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting(now, most) => {
                write!(f, "1 % of the requests waited {now:.1} ms or more, and {most:.1} ms is the limit")
            }
            Self::Silent => f.write_str("nothing was answered"),
            Self::Errors(share) => write!(f, "{:.1} % of the requests failed", share * 100.0),
            Self::Memory(bytes) => write!(f, "the server took {} MiB more", bytes >> 20),
            Self::Swap(bytes) => write!(f, "the machine swapped {} MiB", bytes >> 20),
        }
    }
}

/// The limits of a site, made of its first seconds with the change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Guard {
    usual: Vec<Second>,
    /// Seconds one after another that were beyond a limit.
    beyond: usize,
}

impl Guard {
    /// Takes the next second. The first few make the limits; then a breach is one of which [`GUARD_SECONDS`] seconds one after
    /// another tell: one alone may be an accident.
    pub fn look(&mut self, second: Second) -> Option<Breach> {
        if self.usual.len() < USUAL {
            self.usual.push(second);
            // What fails from the start is no measure of anything.
            return match () {
                () if second.p99_ms.is_infinite() => Some(Breach::Silent),
                () if second.errors > GUARD_ERRORS_MAX => Some(Breach::Errors(second.errors)),
                () => None,
            };
        }
        let breach = self.breach(second);
        self.beyond = if breach.is_some() { self.beyond + 1 } else { 0 };
        breach.filter(|_| self.beyond >= GUARD_SECONDS)
    }

    /// What 99 % of requests may wait, in milliseconds; `None`: the first seconds are not over.
    pub fn limit(&self) -> Option<f64> {
        let usual = self.usual.iter().map(|second| second.p99_ms).fold(0.0, f64::max);
        (self.usual.len() == USUAL).then_some(usual * GUARD_FACTOR_MAX)
    }

    fn breach(&self, second: Second) -> Option<Breach> {
        let most = |figure: fn(&Second) -> f64| self.usual.iter().map(figure).fold(0.0, f64::max);
        let limit = self.limit().unwrap_or(f64::INFINITY);
        let bytes = |figure: fn(&Second) -> u64| self.usual.iter().map(figure).max().unwrap_or(0);
        let (swap, memory) = (bytes(|second| second.swap), bytes(|second| second.memory));
        match () {
            () if second.p99_ms.is_infinite() => Some(Breach::Silent),
            () if second.errors > most(|second| second.errors) + GUARD_ERRORS_MAX => {
                Some(Breach::Errors(second.errors))
            }
            () if second.p99_ms > limit => Some(Breach::Waiting(second.p99_ms, limit)),
            () if second.swap > swap + GUARD_SWAP_BYTES_MAX => Some(Breach::Swap(second.swap - swap)),
            () if second.memory > memory + memory / 2 + GUARD_MEMORY_BYTES_MAX => {
                Some(Breach::Memory(second.memory - memory))
            }
            () => None,
        }
    }

    /// After a breach has been answered: the seconds of it are none of what comes.
    pub fn forget(&mut self) {
        self.beyond = 0;
    }
}

/// So many seconds make the limits.
const USUAL: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Second = Second { p99_ms: 20.0, errors: 0.0, swap: 0, memory: 100 << 20 };

    fn usual() -> Guard {
        let mut guard = Guard::default();
        for _ in 0..USUAL {
            assert_eq!((guard.limit(), guard.look(CALM)), (None, None));
        }
        assert_eq!(guard.limit(), Some(30.0));
        guard
    }

    #[test]
    fn a_breach_is_one_that_lasts() {
        let slow = Second { p99_ms: 40.0, ..CALM };
        let mut guard = usual();
        // Single accidents, however many.
        for _ in 0..10 {
            assert_eq!(guard.look(slow), None);
            assert_eq!(guard.look(CALM), None);
        }
        assert_eq!(guard.look(slow), None);
        assert_eq!(guard.look(slow), Some(Breach::Waiting(40.0, 30.0)));
        // Nothing was answered any more.
        let mut guard = usual();
        let dead = Second { p99_ms: f64::INFINITY, ..CALM };
        assert_eq!((guard.look(dead), guard.look(dead)), (None, Some(Breach::Silent)));
    }

    #[test]
    fn errors_and_swap() {
        let mut guard = usual();
        let failing = Second { errors: 0.02, ..CALM };
        assert_eq!((guard.look(failing), guard.look(failing)), (None, Some(Breach::Errors(0.02))));
        let mut guard = usual();
        let swapping = Second { swap: 128 << 20, ..CALM };
        assert_eq!((guard.look(swapping), guard.look(swapping)), (None, Some(Breach::Swap(128 << 20))));
        let mut guard = usual();
        let large = Second { memory: 300 << 20, ..CALM };
        assert_eq!((guard.look(large), guard.look(large)), (None, Some(Breach::Memory(200 << 20))));
        assert_eq!(Breach::Swap(128 << 20).to_string(), "the machine swapped 128 MiB");
        // A site that fails from the start is not watched at all.
        assert_eq!(Guard::default().look(failing), Some(Breach::Errors(0.02)));
    }
}
