//! Regular expressions, which the program that uses this crate compiles and runs.

use crate::{Facts, Stop};
use std::ops::Range;

/// Groups that a match remembers: `$0` to `$9`.
pub const GROUPS: usize = 10;

/// Compiles patterns.
pub trait Patterns {
    /// What a pattern is compiled to.
    type Pattern: Pattern;

    /// Compiles `pattern`, which has the meaning that PCRE2 gives it.
    ///
    /// # Errors
    /// Why it is no pattern.
    fn compile(&self, pattern: &[u8], ignores_case: bool) -> Result<Self::Pattern, String>;
}

/// A compiled pattern.
pub trait Pattern {
    /// How many groups it captures.
    fn groups(&self) -> usize;

    /// The groups that have names, of those that a match remembers.
    fn named(&self) -> Vec<(usize, &str)> {
        Vec::new()
    }

    /// Looks for a match in `subject`: where the whole and its groups are, or `None`.
    ///
    /// # Errors
    /// A limit of the engine was met. The request is answered with 500: a rule behind it must not be skipped.
    fn find(&self, subject: &[u8]) -> Result<Option<Spans>, Stop>;
}

/// Where a match and its groups are.
pub type Spans = [Option<Range<usize>>; GROUPS];

/// The text that a match was found in, and where.
#[derive(Clone, Debug, Default)]
pub struct Captures {
    found: Option<(Vec<u8>, Spans)>,
}

impl Captures {
    /// Whether a match is remembered.
    pub fn is_set(&self) -> bool {
        self.found.is_some()
    }

    /// Nothing is captured.
    pub fn clear(&mut self) {
        self.found = None;
    }

    /// Remembers a match in `subject`.
    pub fn set(&mut self, subject: &[u8], spans: Spans) {
        self.found = Some((subject.to_vec(), spans));
    }

    /// The text of a group; empty where it took no part.
    pub fn get(&self, group: usize) -> &[u8] {
        match &self.found {
            Some((subject, spans)) => match spans.get(group) {
                Some(Some(span)) => subject.get(span.clone()).unwrap_or_default(),
                _ => &[],
            },
            None => &[],
        }
    }

    /// A text with `$1` by what was captured. A backslash stands before a `$`, a `&` or a backslash that is itself.
    ///
    /// # Errors
    /// Those of [`Facts::spend`].
    pub fn substituted(&self, text: &[u8], facts: &dyn Facts) -> Result<Vec<u8>, Stop> {
        facts.spend(text.len())?;
        let mut out = Vec::new();
        let mut rest = text;
        loop {
            rest = match rest {
                [] => return Ok(out),
                [b'$', digit @ b'0'..=b'9', rest @ ..] => {
                    let group = self.get(usize::from(digit - b'0'));
                    facts.spend(group.len())?;
                    out.extend_from_slice(group);
                    rest
                }
                [b'\\', escaped @ (b'$' | b'\\' | b'&'), rest @ ..] => {
                    out.push(*escaped);
                    rest
                }
                [byte, rest @ ..] => {
                    out.push(*byte);
                    rest
                }
            };
        }
    }
}
