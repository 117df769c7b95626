//! Memory: what each connection holds, how much the process may hold, and what is done when it holds more.

pub(crate) mod relief;

use brisk_host::metrics::Counter;

pub(crate) use brisk_host::memory::ACCEPT_PAUSES;
pub use brisk_host::memory::{Account, Budget, Charge, limit};

/// Connections that were closed for want of memory.
pub(crate) static CLOSED: Counter = Counter::new();
/// Heads that were refused because others of their connection held too much.
pub(crate) static HEADS_REFUSED: Counter = Counter::new();
