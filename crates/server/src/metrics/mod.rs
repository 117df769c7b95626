//! Numbers about what goes on, for whoever watches: Prometheus' text and the same as JSON.
//!
//! Whatever counts does so without a lock, each thread in cells of its own; they are added up when somebody reads them.
//! Each area declares what it has in one function: [`Module::metrics`](crate::module::Module::metrics), or a line in
//! `core.rs` for what belongs to no module. Names follow Prometheus' conventions: `brisk_area_what_unit`.

pub(crate) mod core;
pub mod history;
mod master;
pub mod places;
mod quic;
pub(crate) mod requests;
pub mod sampler;
mod scrape;
pub mod tops;

pub use brisk_host::metrics::{Counter, Families, Histogram};
pub use scrape::Scrape;

impl Scrape {
    /// Asks everyone for their numbers.
    /// In a fixed order, so that two readings can be compared line by line.
    #[must_use]
    pub fn filled(mut self) -> Scrape {
        core::metrics(&mut self);
        master::metrics(&mut self);
        requests::metrics(&mut self);
        for module in self.snap.modules {
            if let Some(metrics) = module.metrics {
                metrics(&mut self);
            }
        }
        self
    }
}
