//! Which logs there are, where they go and what they want.

use super::entry::Format;
use super::gate::Gate;
use super::level::LogLevel;
use super::syslog::Syslog;
use std::sync::Arc;

/// Index of a log in its snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogId(pub u32);

/// Where log lines go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogTarget {
    /// An absolute path, opened for appending by the master.
    File(String),
    /// The process's standard error.
    Stderr,
    /// A syslog server.
    Syslog(Syslog),
    /// The newest messages of that many bytes, in memory; one log per size.
    Memory(u64),
}

impl std::fmt::Display for LogTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LogTarget::File(path) => f.write_str(path),
            LogTarget::Stderr => f.write_str("stderr"),
            LogTarget::Syslog(syslog) => syslog.fmt(f),
            LogTarget::Memory(bytes) => write!(f, "memory:{bytes}"),
        }
    }
}

/// One `error_log`.
#[derive(Clone, Debug)]
pub struct LogTo {
    /// Which log.
    pub log: LogId,
    /// Messages at least this urgent.
    pub level: LogLevel,
    /// How its lines look.
    pub format: Format,
    /// `filter=` and `rate=`.
    pub gate: Option<Arc<Gate>>,
}
