//! What areas tell their numbers to.

use crate::conf::snapshot::Snapshot;
use crate::live::Live;
use crate::shared::Shared;
use crate::table::Thread;
use brisk_host::log::LogFile;
use brisk_host::metrics::Families;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// What somebody who reads the numbers gets. It is filled and rendered away from the event loops.
/// It owns all it reads, by `Arc`: the job that renders it runs on the pool while the thread serves on.
pub struct Scrape {
    pub(super) snap: Arc<Snapshot>,
    pub(super) shared: Arc<Shared>,
    pub(super) logs: Arc<Vec<Arc<LogFile>>>,
    pub(super) generation: u64,
    pub(super) families: Families,
}

impl Scrape {
    /// Of the worker that `thread` belongs to.
    pub fn new(live: &Live, thread: &Thread) -> Scrape {
        Scrape {
            snap: live.snap.clone(),
            shared: thread.shared.clone(),
            logs: live.logs.clone(),
            generation: live.generation,
            families: Families::default(),
        }
    }

    /// The configuration that is in force.
    pub fn snap(&self) -> Arc<Snapshot> {
        self.snap.clone()
    }

    /// What the threads share.
    /// Nothing of it is locked for longer than a list is walked.
    pub fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }
}

impl Deref for Scrape {
    type Target = Families;

    fn deref(&self) -> &Families {
        &self.families
    }
}

impl DerefMut for Scrape {
    fn deref_mut(&mut self) -> &mut Families {
        &mut self.families
    }
}
