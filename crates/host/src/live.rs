//! A configuration as a thread serves it: with its open logs.

use crate::log::entry::Entry;
use crate::log::errors::{ErrorLogs, write_all};
use crate::log::file::LogFile;
use crate::log::level::LogLevel;
use crate::snapshot::Snapshot;
use std::fmt;
use std::sync::Arc;

/// A thread's view of one configuration.
#[derive(Clone)]
pub struct Live {
    /// What it says.
    pub snap: Arc<Snapshot>,
    /// Open logs, by [`LogId`](crate::log::LogId).
    pub logs: Arc<Vec<Arc<LogFile>>>,
    /// Counts reloads, from 1.
    pub generation: u64,
}

impl ErrorLogs {
    /// The main level's, for what belongs to no request.
    pub fn main(live: &Live) -> ErrorLogs {
        ErrorLogs::new(&live.snap.error_log, &live.logs)
    }
}

/// Writes a message that belongs to no request or session to the main error logs.
pub fn log_error(live: &Live, level: LogLevel, message: fmt::Arguments<'_>) {
    write_all(&live.snap.error_log, &live.logs, &Entry::new(level, None, message));
}
