//! PHP pools as data: what a pool's settings mean, FPM's pool files, and how many of a pool's requests wait. No I/O and no clock.
//!
//! A pool is a master process that embeds PHP and forks workers. Its program is in the folder `php` of the repository; the server's
//! master process starts one per pool and hands it [`Settings::encode`]d settings.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod check;
mod layout;
pub mod limits;
mod load;
mod memory;
mod pool_file;
mod reporting;
mod room;
mod settings;
mod sizer;
mod table;

pub use check::{Caches, Fill, Finding, megabytes};
pub use layout::{CLOSED, Layout};
pub use load::Load;
pub use memory::{MemoryGroup, memory_groups, pressure_percent};
pub use pool_file::{Entry, FileError, section};
pub use room::{Pace, room};
pub use settings::{Manager, Problem, Queue, Settings};
pub use sizer::{Bounds, Memory, Sample, Sizer, Why};
