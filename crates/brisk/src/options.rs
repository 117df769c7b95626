//! The options of nginx's command line, as they were given.

use std::time::Duration;

/// The options of one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub prefix: Option<String>,
    pub conf: Option<String>,
    pub error_log: Option<String>,
    pub globals: String,
    pub test: bool,
    pub dump: bool,
    pub quiet: bool,
    pub signal: Option<String>,
    pub json: bool,
    /// For `-s reload` and `-s reopen`.
    pub timeout: Option<Duration>,
    pub topic: Option<Topic>,
}

/// What is told about the program itself; of several, the last of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    Version,
    LongVersion,
    Configuration,
    /// Help, on the standard error.
    Usage,
    Help,
}
