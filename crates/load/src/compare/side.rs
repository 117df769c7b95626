//! One side of a pair: what it cost, and whether it was left in peace.

pub use crate::limits::{ERROR_SHARE_MAX, TAKEN_SHARE_MAX};
use std::fmt;

/// CPU time during a run, in nanoseconds: who wanted it, and who got it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTime {
    /// What the threads of server and generator used.
    pub own_ns: u64,
    /// How long they were ready to run and did not, in sum.
    pub waited_ns: u64,
    /// What all threads of the machine used.
    pub machine_ns: u64,
    /// What went by on the clock.
    pub elapsed_ns: u64,
}

impl CpuTime {
    /// Of the CPU time that server and generator wanted, the share that others took; where they wanted less than one CPU, of
    /// its time: a server that sleeps has lost little if it wakes a little late.
    ///
    /// Waiting alone does not show it: of ten PHP processes on two CPUs eight wait for their own kin at any time, which is
    /// what their users see, and the same on a machine of their own. Nor do others alone, who may have CPUs that nobody
    /// else wanted. What was taken is time in which others ran while somebody waited: at most either of the two.
    pub fn taken_share(&self) -> f64 {
        let others_ns = self.machine_ns.saturating_sub(self.own_ns);
        let taken = self.waited_ns.min(others_ns) as f64;
        let wanted = (self.own_ns as f64 + taken).max(self.elapsed_ns as f64);
        if taken > 0.0 { taken / wanted } else { 0.0 }
    }
}

/// One side of a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Side {
    /// The cost per response, in any unit.
    pub cost: f64,
    /// See [`CpuTime::taken_share`].
    pub taken_share: f64,
    /// The share of requests that failed.
    pub error_share: f64,
    /// Whether the generator was late with its requests.
    pub is_late: bool,
}

/// Why a side is not taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Spoilt {
    /// Others had the CPU for this share of the time.
    Disturbed(f64),
    /// The generator was late.
    Late,
    /// This share of the requests failed.
    Failed(f64),
    /// Nothing was measured.
    Empty,
}

impl Side {
    /// Why it is not taken, whatever its cost. `taken_share_max` is usually [`TAKEN_SHARE_MAX`].
    pub fn spoilt(&self, taken_share_max: f64) -> Option<Spoilt> {
        if self.error_share > ERROR_SHARE_MAX {
            return Some(Spoilt::Failed(self.error_share));
        }
        if !(self.cost.is_finite() && self.cost > 0.0) {
            return Some(Spoilt::Empty);
        }
        if self.taken_share > taken_share_max {
            return Some(Spoilt::Disturbed(self.taken_share));
        }
        self.is_late.then_some(Spoilt::Late)
    }
}

impl Spoilt {
    /// Whether a quieter machine would have helped.
    pub fn blames_the_machine(self) -> bool {
        matches!(self, Self::Disturbed(_) | Self::Late)
    }
}

impl fmt::Display for Spoilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disturbed(share) => {
                write!(f, "lost {:.0} % of its CPU time to others on the machine", share * 100.0)
            }
            Self::Late => f.write_str("was asked late: the generator could not keep up"),
            Self::Failed(share) => write!(f, "failed {:.2} % of the requests", share * 100.0),
            Self::Empty => f.write_str("gave nothing to measure"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Two seconds on two CPUs: what own threads used, how long they waited, what others used; whether that is too much.
    fn check(own: f64, waited: f64, others: f64, is_spoilt: bool) {
        let ns = |seconds: f64| (seconds * SECOND as f64) as u64;
        let time = CpuTime {
            own_ns: ns(own),
            waited_ns: ns(waited),
            machine_ns: ns(own + others),
            elapsed_ns: 2 * SECOND,
        };
        let share = time.taken_share();
        assert!((0.0..1.0).contains(&share), "{time:?}: {share}");
        assert_eq!(share > TAKEN_SHARE_MAX, is_spoilt, "{time:?}: {share}");
    }

    #[test]
    fn waiting_for_one_s_own_kin_is_no_disturbance() {
        // One thread and a generator, each on its CPU.
        check(3.6, 0.02, 0.05, false);
        // Ten processes on two CPUs, alone: eight wait at any time.
        check(3.95, 16.0, 0.05, false);
        // Hundreds of them.
        check(3.95, 400.0, 0.1, false);
        // The same beside a compiler: its time was wanted.
        check(3.0, 16.0, 1.0, true);
        // One thread beside it: it waits for others.
        check(2.0, 0.9, 1.9, true);
        // A server that sleeps, beside two compilers: it wakes late, seldom or often.
        check(0.05, 0.08, 3.9, false);
        check(0.05, 0.2, 3.9, true);
        // Others use a CPU that nobody else wants.
        check(1.0, 0.01, 1.8, false);
        // Nothing ran, or the clocks of the two accounts differ by a tick.
        check(0.0, 0.0, 0.0, false);
        check(0.0, 0.0, 1.0, false);
        let behind =
            CpuTime { own_ns: 2 * SECOND, waited_ns: SECOND, machine_ns: SECOND, elapsed_ns: SECOND };
        assert!(behind.taken_share().abs() < 1e-9);
    }

    #[test]
    fn what_spoils_a_side() {
        let well = Side { cost: 1.0, taken_share: 0.01, error_share: 0.0005, is_late: false };
        let spoilt = |side: Side| side.spoilt(TAKEN_SHARE_MAX);
        assert_eq!(spoilt(well), None);
        assert_eq!(spoilt(Side { taken_share: 0.06, ..well }), Some(Spoilt::Disturbed(0.06)));
        assert_eq!(Side { taken_share: 0.06, ..well }.spoilt(0.1), None);
        assert_eq!(spoilt(Side { error_share: 0.5, taken_share: 0.5, ..well }), Some(Spoilt::Failed(0.5)));
        assert_eq!(spoilt(Side { is_late: true, ..well }), Some(Spoilt::Late));
        for cost in [0.0, f64::NAN, f64::INFINITY] {
            assert_eq!(spoilt(Side { cost, ..well }), Some(Spoilt::Empty));
        }
    }
}
