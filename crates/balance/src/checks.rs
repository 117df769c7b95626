//! What active checks say of a peer: each `health_check` of the group for itself, and what follows of all together.

use std::sync::Arc;

/// Names one check among those of all configurations.
pub type CheckId = u64;

/// One `health_check` of a group's configuration.
#[derive(Clone, Debug)]
pub struct Check {
    /// Its number; what comes under another one belongs to a configuration that has ended.
    pub id: CheckId,
    /// What it says, as text: a check of the next configuration that says the same goes on from what this one has found.
    pub key: Arc<str>,
    /// No peer is used before it has passed.
    pub is_mandatory: bool,
    /// With `mandatory`: peers that were checked and good before a reload stay in use.
    pub is_persistent: bool,
}

/// What active checks say of a peer. The worse is the greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// Not checked, or checked and well.
    #[default]
    Good,
    /// `mandatory`: not to be used before its first check has passed.
    Checking,
    /// It has failed its checks, and gets no requests.
    Bad,
}

/// What each check of the group says of one peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdicts {
    /// In the order of the group's checks.
    each: Vec<Health>,
    /// Looked at for each request.
    worst: Health,
}

impl Verdicts {
    fn of(each: Vec<Health>) -> Verdicts {
        let worst = each.iter().copied().max().unwrap_or_default();
        Verdicts { each, worst }
    }

    /// Of a peer that none of the checks has seen.
    pub fn of_new_peer(checks: &[Check]) -> Verdicts {
        Verdicts::default().carried_over(&[], checks, false)
    }

    /// One that fails takes the peer out of service, whatever the others say.
    pub fn worst(&self) -> Health {
        self.worst
    }

    /// What the check in this place says; good, if there is none.
    pub fn of_check(&self, at: usize) -> Health {
        self.each.get(at).copied().unwrap_or_default()
    }

    /// A check has changed its mind.
    pub fn set(&mut self, at: usize, health: Health) {
        if let Some(own) = self.each.get_mut(at) {
            *own = health;
        }
        *self = Verdicts::of(std::mem::take(&mut self.each));
    }

    /// The same for the checks of another configuration. `was_checked`: some check has had an answer of the peer.
    pub fn carried_over(&self, before: &[Check], checks: &[Check], was_checked: bool) -> Verdicts {
        let one = |check: &Check| {
            let same = before.iter().zip(&self.each).filter(|(old, _)| old.key == check.key);
            // A check that nobody knows may be one that was edited: it begins with what is known, until it has asked.
            let known = same.map(|(_, health)| *health).max().unwrap_or(self.worst);
            let is_kept = check.is_persistent && was_checked;
            if known == Health::Good && check.is_mandatory && !is_kept { Health::Checking } else { known }
        };
        Verdicts::of(checks.iter().map(one).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Health::*;

    fn check(id: CheckId, key: &str, is_mandatory: bool, is_persistent: bool) -> Check {
        Check { id, key: key.into(), is_mandatory, is_persistent }
    }

    #[test]
    fn the_worst_counts() {
        let checks = [check(1, "tcp", false, false), check(2, "udp", false, false)];
        let mut verdicts = Verdicts::of_new_peer(&checks);
        assert_eq!(verdicts.worst(), Good);
        verdicts.set(0, Bad);
        verdicts.set(1, Good);
        assert_eq!((verdicts.worst(), verdicts.of_check(0), verdicts.of_check(1)), (Bad, Bad, Good));
        verdicts.set(0, Checking);
        assert_eq!(verdicts.worst(), Checking);
        verdicts.set(7, Bad);
        verdicts.set(0, Good);
        assert_eq!((verdicts.worst(), verdicts.of_check(7)), (Good, Good));
    }

    #[test]
    fn another_configuration_goes_on_from_what_is_known() {
        let before = [check(1, "tcp", false, false), check(2, "udp", false, false)];
        let mut verdicts = Verdicts::of_new_peer(&before);
        verdicts.set(0, Bad);
        let then =
            |checks: &[Check], was_checked: bool| verdicts.carried_over(&before, checks, was_checked).each;
        assert_eq!(then(&[check(3, "udp", false, false), check(4, "tcp", false, false)], true), [Good, Bad]);
        // The one that has failed is gone, and with it what it said; one that is new may be that one.
        assert_eq!(then(&[check(3, "udp", false, false)], true), [Good]);
        assert_eq!(then(&[check(3, "edited", false, false)], true), [Bad]);
        assert!(then(&[], true).is_empty());
        // A mandatory check begins anew, a persistent one only with peers that nobody has asked yet.
        assert_eq!(
            then(&[check(3, "udp", true, false), check(4, "tcp", true, false)], true),
            [Checking, Bad]
        );
        assert_eq!(then(&[check(3, "udp", true, true), check(4, "tcp", true, true)], true), [Good, Bad]);
        assert_eq!(then(&[check(3, "udp", true, true)], false), [Checking]);
    }
}
