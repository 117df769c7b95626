//! What is too small in a pool's caches, by what its processes tell of them (`brisk php check`).

/// How one cache stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    /// In bytes, or entries.
    pub used: u64,
    /// The same; 0: there is no such cache.
    pub size: u64,
}

impl Fill {
    /// In percent; 0 without a cache.
    pub fn percent(self) -> u64 {
        (self.used.saturating_mul(100)).checked_div(self.size).unwrap_or(0)
    }
}

/// What a pool tells of its caches. `Default` is a pool without any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caches {
    /// OPcache is on.
    pub has_opcache: bool,
    /// Its memory, with what is wasted; bytes.
    pub memory: Fill,
    /// Bytes of it that old versions of scripts take.
    pub wasted: u64,
    /// Scripts by their names.
    pub keys: Fill,
    /// Memory for strings that scripts share; bytes.
    pub strings: Fill,
    /// How often it was emptied because it was full, or its table of names was.
    pub restarts: u64,
    /// Scripts that were found, and those that were not.
    pub hits: u64,
    /// See [`Caches::hits`].
    pub misses: u64,
    /// Of one worker; bytes.
    pub realpath: Fill,
    /// Bytes.
    pub apcu: Fill,
    /// `open_basedir` is set: PHP does without its cache of paths.
    pub has_open_basedir: bool,
}

/// Something that is too small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was seen, with figures.
    pub seen: String,
    /// A line for the pool that mends it.
    pub line: String,
}

/// From here on a cache counts as full.
const FULL_PERCENT: u64 = 90;
/// OPcache restarts by itself when more than this is wasted.
const WASTED_PERCENT: u64 = 5;

/// Bytes in words.
pub fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1_048_576.0)
}

/// Twice as much, in whole megabytes.
fn doubled_mb(bytes: u64) -> u64 {
    (bytes / 524_288).max(2)
}

impl Caches {
    /// What is too small, the costliest first.
    pub fn findings(&self) -> Vec<Finding> {
        if !self.has_opcache {
            return vec![Finding {
                seen: "OPcache is off: every request compiles all of its scripts".into(),
                line: "php_admin_flag[opcache.enable] on;".into(),
            }];
        }
        self.about_opcache().into_iter().chain(self.about_paths_and_apcu()).flatten().collect()
    }

    fn about_opcache(&self) -> [Option<Finding>; 4] {
        let (memory, keys, strings) = (self.memory, self.keys, self.strings);
        let wasted = Fill { used: self.wasted, size: memory.size };
        [
            finding(
                memory.percent() >= FULL_PERCENT || self.restarts > 0,
                format!(
                    "OPcache's memory: {} of {} ({} %), {} restarts for want of room: scripts that find none are compiled for each request",
                    megabytes(memory.used),
                    megabytes(memory.size),
                    memory.percent(),
                    self.restarts
                ),
                format!("php_admin_value[opcache.memory_consumption] {};", doubled_mb(memory.size)),
            ),
            finding(
                keys.percent() >= FULL_PERCENT,
                format!("OPcache's names: {} of {} ({} %)", keys.used, keys.size, keys.percent()),
                format!("php_admin_value[opcache.max_accelerated_files] {};", keys.size * 2),
            ),
            finding(
                strings.percent() >= FULL_PERCENT,
                format!(
                    "OPcache's strings: {} of {} ({} %): each worker keeps the rest for itself",
                    megabytes(strings.used),
                    megabytes(strings.size),
                    strings.percent()
                ),
                format!("php_admin_value[opcache.interned_strings_buffer] {};", doubled_mb(strings.size)),
            ),
            finding(
                wasted.percent() >= WASTED_PERCENT,
                format!(
                    "{} of OPcache's memory hold old versions of scripts ({} %)",
                    megabytes(self.wasted),
                    wasted.percent()
                ),
                "# after a deploy: brisk php reload POOL".into(),
            ),
        ]
    }

    fn about_paths_and_apcu(&self) -> [Option<Finding>; 3] {
        [
            finding(
                !self.has_open_basedir && self.realpath.percent() >= FULL_PERCENT,
                format!(
                    "the cache of paths: {} of {} ({} %): paths that find no room are looked up on the disk",
                    megabytes(self.realpath.used),
                    megabytes(self.realpath.size),
                    self.realpath.percent()
                ),
                format!("php_admin_value[realpath_cache_size] {}M;", doubled_mb(self.realpath.size)),
            ),
            finding(
                self.has_open_basedir,
                "open_basedir is set: PHP looks every path up on the disk, for each request".into(),
                "# a user of its own for this pool keeps sites apart, too, and costs nothing".into(),
            ),
            finding(
                self.apcu.percent() >= FULL_PERCENT,
                format!(
                    "APCu: {} of {} ({} %)",
                    megabytes(self.apcu.used),
                    megabytes(self.apcu.size),
                    self.apcu.percent()
                ),
                format!("php_admin_value[apc.shm_size] {}M;", doubled_mb(self.apcu.size)),
            ),
        ]
    }
}

fn finding(is_so: bool, seen: String, line: String) -> Option<Finding> {
    is_so.then_some(Finding { seen, line })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn good() -> Caches {
        Caches {
            has_opcache: true,
            memory: Fill { used: 40 * MB, size: 128 * MB },
            wasted: MB,
            keys: Fill { used: 900, size: 16229 },
            strings: Fill { used: 4 * MB, size: 8 * MB },
            hits: 1000,
            misses: 10,
            realpath: Fill { used: 100_000, size: 4 * MB },
            ..Caches::default()
        }
    }

    #[track_caller]
    fn check(change: impl Fn(&mut Caches), seen: &str, line: &str) {
        let mut caches = good();
        change(&mut caches);
        let found = caches.findings();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].seen.contains(seen) && found[0].line == line, "{found:?}");
    }

    #[test]
    fn what_is_too_small_is_told_with_figures() {
        assert_eq!(good().findings(), []);
        let memory = "php_admin_value[opcache.memory_consumption] 256;";
        check(|it| it.memory.used = 120 * MB, "120.0 MB of 128.0 MB (93 %), 0 restarts", memory);
        check(|it| it.restarts = 3, "3 restarts", memory);
        check(
            |it| it.keys.used = 16000,
            "16000 of 16229",
            "php_admin_value[opcache.max_accelerated_files] 32458;",
        );
        check(
            |it| it.strings.used = 8 * MB,
            "(100 %)",
            "php_admin_value[opcache.interned_strings_buffer] 16;",
        );
        check(|it| it.wasted = 20 * MB, "20.0 MB", "# after a deploy: brisk php reload POOL");
        check(
            |it| it.realpath.used = 4 * MB,
            "the cache of paths",
            "php_admin_value[realpath_cache_size] 8M;",
        );
        check(
            |it| it.apcu = Fill { used: 32 * MB, size: 32 * MB },
            "APCu",
            "php_admin_value[apc.shm_size] 64M;",
        );
        check(|it| it.has_opcache = false, "OPcache is off", "php_admin_flag[opcache.enable] on;");
        check(
            |it| it.has_open_basedir = true,
            "open_basedir",
            "# a user of its own for this pool keeps sites apart, too, and costs nothing",
        );
    }

    #[test]
    fn a_cache_that_is_not_there_is_not_full() {
        assert_eq!(Fill::default().percent(), 0);
    }
}
