//! When which connection wants to be called: one time for each.

use crate::event::Key;
use std::collections::BTreeSet;
use std::time::Instant;

#[derive(Default)]
pub(crate) struct Timers(BTreeSet<(Instant, Key)>);

impl Timers {
    /// Replaces a connection's time.
    pub fn set(&mut self, key: Key, old: Option<Instant>, new: Option<Instant>) {
        if old == new {
            return;
        }
        if let Some(old) = old {
            self.0.remove(&(old, key));
        }
        if let Some(new) = new {
            self.0.insert((new, key));
        }
    }

    pub fn next(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    /// A connection whose time has come; it has none afterwards.
    pub fn take_due(&mut self, now: Instant) -> Option<Key> {
        let (at, key) = *self.0.first()?;
        (at <= now).then(|| {
            self.0.pop_first();
            key
        })
    }
}
