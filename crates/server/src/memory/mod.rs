//! Memory: what each connection holds, how much the process may hold, and what is done when it holds more.

mod account;
mod budget;
pub mod limit;
mod relief;

use crate::metrics::Counter;

pub use account::{Account, Charge};
pub(crate) use account::{grown, take_grown};
pub use budget::Budget;

/// Connections that were closed for want of memory.
pub(crate) static CLOSED: Counter = Counter::new();
/// How often threads have stopped accepting for want of memory.
pub(crate) static ACCEPT_PAUSES: Counter = Counter::new();
/// Heads that were refused because others of their connection held too much.
pub(crate) static HEADS_REFUSED: Counter = Counter::new();
