//! The way into a location that was compiled after the start.

use super::ids::LocationId;
use super::snapshot::Snapshot;
use brisk_net::watch::{Flag, Watch};
use std::sync::Arc;

/// A location that was compiled late, for requests to go on in. Those that have entered it keep it, whatever takes its place.
pub struct Entrance {
    /// The configuration with this location in it.
    pub snap: Arc<Snapshot>,
    /// Up until another one takes its place: answers that were prepared with it hold the flag.
    flag: Arc<Flag>,
}

impl Entrance {
    /// Into the location that a snapshot has beside those of the start.
    pub fn new(snap: Arc<Snapshot>) -> Entrance {
        Entrance { snap, flag: Flag::raised() }
    }

    /// The location's number; `None` if the snapshot has none that was compiled late.
    pub fn location(&self) -> Option<LocationId> {
        Some(self.snap.late.as_ref()?.first)
    }

    /// What prepared answers depend on.
    pub fn watch(&self) -> Watch {
        // Two flags of one: a prepared answer watches a file's folder and its entry, and here both are the
        // one flag.
        Watch { directory: self.flag.clone(), entry: self.flag.clone() }
    }

    /// Another one takes its place: no answer that was prepared with it is given any more.
    pub fn retire(&self) {
        self.flag.lower();
    }
}

impl Drop for Entrance {
    // However it goes: with the last request, with the store, or because another one has taken its place.
    fn drop(&mut self) {
        self.retire();
    }
}
