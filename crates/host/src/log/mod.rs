//! Log files, and the lines of the error log.
//!
//! Access log lines are collected per thread and file and written when the loop goes to sleep: one write for all that a
//! wake-up has brought, whole lines only, each file opened for appending. Error lines are written at once.

mod buffers;
pub(crate) mod entry;
pub(crate) mod errors;
pub(crate) mod file;
mod gate;
pub(crate) mod level;
mod memory;
mod named;
pub(crate) mod present;
mod stamp;
mod syslog;
pub(crate) mod target;
pub(crate) mod time;

pub use buffers::{Buffering, LogBuffers, Pack};
pub use entry::{About, Entry, Format};
pub use errors::{ErrorLogs, write, write_all};
pub use file::{LogFile, retire};
pub use gate::{Filter, Gate, Limit};
pub use level::LogLevel;
pub use memory::NAME as MEMORY_LOG;
pub use named::{NamedCache, NamedLine};
pub use stamp::stamp;
pub use syslog::Syslog;
pub use target::{LogId, LogTarget, LogTo};

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether some request of the live configuration may be logged at level debug. While none may, that costs one branch at
/// each place that has something to say.
static DEBUGS: AtomicBool = AtomicBool::new(false);

/// A configuration goes live.
pub fn set_debugs(debugs: bool) {
    DEBUGS.store(debugs, Ordering::Relaxed);
}

/// Whether that is so. Whether a request or session is logged so is for its protocol to say.
#[inline]
pub fn may_debug() -> bool {
    DEBUGS.load(Ordering::Relaxed)
}
