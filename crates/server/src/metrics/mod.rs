//! Numbers about what goes on, for whoever watches: Prometheus' text and the same as JSON.
//!
//! Whatever counts does so without a lock, each thread in cells of its own; they are added up when somebody reads them.
//! Each area declares what it has in one function: [`Module::metrics`](crate::module::Module::metrics), or a line in
//! `core.rs` for what belongs to no module. Names follow Prometheus' conventions: `brisk_area_what_unit`.

pub(crate) mod core;
pub mod history;
pub mod places;
pub(crate) mod requests;
pub mod sampler;
pub mod tops;

pub use brisk_host::metrics::{Counter, Families, Histogram};

use crate::conf::snapshot::Snapshot;
use crate::live::Live;
use crate::shared::Shared;
use crate::table::Thread;
use brisk_host::log::LogFile;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// What somebody who reads the numbers gets. It is filled and rendered away from the event loops.
pub struct Scrape {
    snap: Arc<Snapshot>,
    shared: Arc<Shared>,
    logs: Arc<Vec<Arc<LogFile>>>,
    generation: u64,
    families: Families,
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

    /// Asks everyone for their numbers.
    #[must_use]
    pub fn filled(mut self) -> Scrape {
        core::metrics(&mut self);
        requests::metrics(&mut self);
        for module in self.snap.modules {
            if let Some(metrics) = module.metrics {
                metrics(&mut self);
            }
        }
        self
    }

    /// The configuration that is in force.
    pub fn snap(&self) -> Arc<Snapshot> {
        self.snap.clone()
    }

    /// What the threads share.
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
