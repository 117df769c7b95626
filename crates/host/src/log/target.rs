//! Which logs there are, where they go and what they want.

use super::{Format, Gate, Syslog};
use std::sync::Arc;

/// Index of a log in its snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogId(pub u32);

/// Where log lines go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogTarget {
    /// An absolute path, opened for appending by the master.
    File(String),
    Stderr,
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

/// `error_log` levels, most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Emerg = 1,
    Alert,
    Crit,
    Error,
    Warn,
    Notice,
    Info,
    Debug,
}

impl LogLevel {
    pub const NAMES: [&'static str; 8] =
        ["emerg", "alert", "crit", "error", "warn", "notice", "info", "debug"];

    pub const fn as_str(self) -> &'static str {
        Self::NAMES[self as usize - 1]
    }

    pub fn parse(text: &str) -> Option<LogLevel> {
        use LogLevel::{Alert, Crit, Debug, Emerg, Error, Info, Notice, Warn};
        let all = [Emerg, Alert, Crit, Error, Warn, Notice, Info, Debug];
        all.into_iter().find(|l| l.as_str() == text)
    }
}

/// One `error_log`.
#[derive(Clone, Debug)]
pub struct LogTo {
    pub log: LogId,
    pub level: LogLevel,
    pub format: Format,
    /// `filter=` and `rate=`.
    pub gate: Option<Arc<Gate>>,
}
