//! What servers have told, until it expires. Time is passed in; names are in lower case.

use crate::limits::ENTRIES_MAX;
use crate::message::Srv;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// What is asked for: addresses of a name, or a service's places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// Its addresses.
    Addresses,
    /// Its SRV records.
    Services,
}

/// What is known of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// Its addresses, in the order of the answer.
    Addresses(Arc<[IpAddr]>),
    /// Its SRV records.
    Services(Arc<[Srv]>),
    /// It stands for another name.
    Alias(Arc<str>),
}

/// Facts by name.
#[derive(Debug, Default)]
pub struct Cache {
    facts: HashMap<(Wanted, Box<str>), (Fact, u64)>,
}

impl Cache {
    /// A fact that still holds, and until when (in seconds).
    pub fn get(&self, wanted: Wanted, name: &str, now_secs: u64) -> Option<(Fact, u64)> {
        let (fact, valid) = self.facts.get(&(wanted, name.into()))?;
        (*valid >= now_secs).then(|| (fact.clone(), *valid))
    }

    /// Keeps a fact up to and including the second `valid`.
    pub fn put(&mut self, wanted: Wanted, name: &str, fact: Fact, valid: u64, now_secs: u64) {
        if self.facts.len() >= ENTRIES_MAX {
            self.facts.retain(|_, (_, valid)| *valid >= now_secs);
        }
        if self.facts.len() >= ENTRIES_MAX
            && let Some(any) = self.facts.keys().next().cloned()
        {
            self.facts.remove(&any);
        }
        self.facts.insert((wanted, name.into()), (fact, valid));
    }

    /// Facts that are known.
    pub fn len(&self) -> usize {
        self.facts.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(last: u8) -> Fact {
        Fact::Addresses(Arc::new([IpAddr::from([10, 0, 0, last])]))
    }

    #[test]
    fn facts_hold_until_they_expire() {
        let mut cache = Cache::default();
        cache.put(Wanted::Addresses, "a", fact(1), 100, 90);
        assert_eq!(cache.get(Wanted::Addresses, "a", 100), Some((fact(1), 100)));
        assert_eq!(cache.get(Wanted::Addresses, "a", 101), None);
        assert_eq!(cache.get(Wanted::Services, "a", 90), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut cache = Cache::default();
        for n in 0..3 * ENTRIES_MAX {
            cache.put(Wanted::Addresses, &n.to_string(), fact(1), 100, 90);
        }
        assert_eq!(cache.len(), ENTRIES_MAX);
        cache.put(Wanted::Addresses, "new", fact(1), 200, 150);
        assert_eq!(cache.len(), 1);
    }
}
