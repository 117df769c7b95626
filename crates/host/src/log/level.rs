//! The levels of error logs. A file of its own, since everything that may log names them.

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
