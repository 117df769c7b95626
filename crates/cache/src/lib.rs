//! A cache of answers: an index in memory, a memory tier for what is in use, one file per entry on disk.
//!
//! It knows no request and no configuration file: keys, heads and bodies are bytes, and what may be stored is
//! [`brisk_cachepolicy`]'s business. Disk work runs on the pool (`brisk_net::blocking`) or on the cache's own
//! housekeeping thread, never on an event loop.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cache;
pub mod digest;
pub mod disk;
pub mod fill;
pub mod format;
pub mod fuzz;
mod housekeeping;
mod index;
mod limits;
mod list;
mod memory;
mod object;
mod order;
pub mod purge;
mod shard;

pub use cache::{Cache, Found, Settings, Stats, Updating};
pub use digest::Digest;
pub use fill::{Fill, Reader};
pub use format::Meta;
pub use housekeeping::Pace;
pub use object::{Body, Object};
pub use purge::{Pattern, Purge};
