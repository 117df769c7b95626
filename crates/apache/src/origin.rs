//! Which line of which file something was made of: `brisk why` prints it.

use std::fmt;
use std::sync::Arc;

/// A line of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The file's name; empty: it is not known.
    pub file: Arc<str>,
    /// From 1.
    pub line: u32,
}

impl Origin {
    /// Of lines that stand in no file.
    pub fn unknown(_: u32) -> Origin {
        Origin::default()
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}
