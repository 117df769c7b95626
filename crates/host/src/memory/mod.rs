//! Memory: what each connection holds, and how much the process may hold.

mod account;
mod budget;
pub mod limit;

use crate::metrics::Counter;

pub use account::{Account, Charge, Holding, take_grown};
pub use budget::{Budget, Level, Look};

/// How often threads have stopped accepting for want of memory.
pub static ACCEPT_PAUSES: Counter = Counter::new();
