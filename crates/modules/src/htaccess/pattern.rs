//! Regular expressions for `.htaccess` files: the server's own engine, with its limits.

use crate::limits::{
    HTACCESS_LARGE_PATTERN_BYTES, HTACCESS_PATTERN_BYTES_MAX, HTACCESS_SITE_PATTERN_BYTES_MAX,
    HTACCESS_WORK_BYTES_PER_US,
};
use brisk_apache::{Pattern, Patterns, Stop};
use brisk_net::clock;
use brisk_server::regex::{Adhoc, Dialect};
use std::cell::Cell;
use std::ops::Range;

/// Groups that Apache's language remembers: `$0` to `$9`.
const GROUPS: usize = 10;

thread_local! {
    /// What slow matches of the evaluation that runs on this thread are to be charged with.
    static OWED: Cell<usize> = const { Cell::new(0) };
}

/// What slow matches have cost since the last call, in bytes of rules' work ([`brisk_apache::Work`]): no single match may meet the engine's
/// limits, and a file may still have thousands that come close to them.
pub fn take_owed() -> usize {
    OWED.take()
}

/// Compiles patterns, as many as there is room for.
pub struct Pcre {
    bytes_max: usize,
    bytes: Cell<usize>,
}

impl Default for Pcre {
    fn default() -> Pcre {
        Pcre { bytes_max: HTACCESS_PATTERN_BYTES_MAX, bytes: Cell::new(0) }
    }
}

impl Pcre {
    /// For the configuration itself, whose writer is trusted: 100,000 rules have room.
    pub fn of_site() -> Pcre {
        Pcre { bytes_max: HTACCESS_SITE_PATTERN_BYTES_MAX, bytes: Cell::new(0) }
    }

    /// Bytes of all patterns that were compiled.
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }
}

/// A compiled pattern.
pub struct Compiled {
    adhoc: Adhoc,
    /// Its matches may be slow.
    is_metered: bool,
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Compiled")
    }
}

impl Patterns for Pcre {
    type Pattern = Compiled;

    fn compile(&self, pattern: &[u8], ignores_case: bool) -> Result<Compiled, String> {
        let text = std::str::from_utf8(pattern).map_err(|_| "it is no UTF-8".to_string())?;
        let compiled = Adhoc::with_case(text, ignores_case, Dialect::Apache)?;
        self.bytes.set(self.bytes.get().saturating_add(compiled.bytes()));
        if self.bytes.get() > self.bytes_max {
            return Err(format!(
                "the patterns of the files that lead to this folder take more than {} MB",
                self.bytes_max >> 20
            ));
        }
        let is_metered = !compiled.is_linear() || compiled.bytes() > HTACCESS_LARGE_PATTERN_BYTES;
        Ok(Compiled { adhoc: compiled, is_metered })
    }
}

impl Pattern for Compiled {
    fn groups(&self) -> usize {
        self.adhoc.names().len().max(1) - 1
    }

    fn named(&self) -> Vec<(usize, &str)> {
        let names = self.adhoc.names().iter().enumerate().take(GROUPS);
        names.filter_map(|(group, name)| Some((group, name.as_deref()?))).collect()
    }

    fn find(&self, subject: &[u8]) -> Result<Option<[Option<Range<usize>>; GROUPS]>, Stop> {
        let before_us = if self.is_metered { clock::thread_cpu_us() } else { 0 };
        let spans = self.adhoc.spans(subject);
        if self.is_metered {
            let took_us = usize::try_from(clock::thread_cpu_us().saturating_sub(before_us));
            let more = took_us.unwrap_or(usize::MAX).saturating_mul(HTACCESS_WORK_BYTES_PER_US);
            OWED.set(OWED.get().saturating_add(more));
        }
        let spans = spans.map_err(|_| {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_counted_and_bounded() {
        let usual = Pcre::default();
        usual.compile(b"^index\\.php$", false).unwrap();
        assert!((500..8_000).contains(&usual.bytes()), "{}", usual.bytes());
        for pattern in ["\\w{100}\\d{100}", "(?:[a-z]{1,50}){1,50}", "(a)\\1{200}(?=b)"] {
            let few = Pcre { bytes_max: 4 << 20, bytes: Cell::new(0) };
            let fits = (0..1000).take_while(|_| few.compile(pattern.as_bytes(), false).is_ok()).count();
            assert!(fits < 300, "{pattern}: {fits}");
            let said = few.compile(b"a", false).err().unwrap_or_default();
            assert!(said.contains("take more than 4 MB"), "{said}");
        }
    }
}
