//! The levels of error logs. A file of its own, since everything that may log names them.

/// `error_log` levels, most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// The server cannot go on.
    Emerg = 1,
    /// Action must be taken at once.
    Alert,
    /// Something important has failed.
    Crit,
    /// A request could not be answered as it should.
    Error,
    /// Something is odd.
    Warn,
    /// Something normal that is worth knowing.
    Notice,
    /// What clients do wrong, and how requests end.
    Info,
    /// Every step.
    Debug,
}

impl LogLevel {
    /// The names in directives, by level.
    pub const NAMES: [&'static str; 8] =
        ["emerg", "alert", "crit", "error", "warn", "notice", "info", "debug"];

    /// Its name in directives and messages.
    pub const fn as_str(self) -> &'static str {
        Self::NAMES[self as usize - 1]
    }

    /// The level of this name.
    pub fn parse(text: &str) -> Option<LogLevel> {
        use LogLevel::{Alert, Crit, Debug, Emerg, Error, Info, Notice, Warn};
        let all = [Emerg, Alert, Crit, Error, Warn, Notice, Info, Debug];
        all.into_iter().find(|l| l.as_str() == text)
    }
}
