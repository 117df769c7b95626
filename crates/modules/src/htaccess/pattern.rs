//! Regular expressions for `.htaccess` files: the server's own engine, with its limits.

use brisk_apache::{Pattern, Patterns, Stop};
use brisk_server::regex::{Adhoc, Dialect};
use std::ops::Range;

/// Groups that Apache's language remembers: `$0` to `$9`.
const GROUPS: usize = 10;

/// Compiles patterns.
#[derive(Clone, Copy)]
pub struct Pcre;

/// A compiled pattern.
pub struct Compiled(Adhoc);

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Compiled")
    }
}

impl Patterns for Pcre {
    type Pattern = Compiled;

    fn compile(&self, pattern: &[u8], ignores_case: bool) -> Result<Compiled, String> {
        let text = std::str::from_utf8(pattern).map_err(|_| "it is no UTF-8".to_string())?;
        Adhoc::with_case(text, ignores_case, Dialect::Apache).map(Compiled)
    }
}

impl Pattern for Compiled {
    fn groups(&self) -> usize {
        self.0.names().len().max(1) - 1
    }

    fn find(&self, subject: &[u8]) -> Result<Option<[Option<Range<usize>>; GROUPS]>, Stop> {
        let spans = self.0.spans(subject).map_err(|_| {
            Stop::Failed("a regular expression met the engine's limits on a part of the request".into())
        })?;
        let Some(spans) = spans else { return Ok(None) };
        let mut found = [const { None }; GROUPS];
        for (to, (start, end)) in found.iter_mut().zip(spans) {
            *to = (start <= end).then_some(start..end);
        }
        Ok(Some(found))
    }
}
