//! The cache's own thread: it learns what is on disk, and removes what is too old, too much or purged.

use crate::cache::Cache;
use crate::disk::{self, Seen, Want};
use crate::limits::RULES_MAX;
use crate::purge::{Pattern, Rule};
use brisk_net::replace::replace;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How much is done at a time: `loader_files`, `loader_sleep`, `loader_threshold` and the like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// So many files at a time.
    pub files: usize,
    /// The pause between two such times.
    pub sleep: Duration,
    /// The most time that one takes.
    pub threshold: Duration,
}

/// The longest time between two looks.
const PAUSE: Duration = Duration::from_secs(10);
/// Temporary files older than this were left behind by a process that is gone.
const TEMP_AGE_S: i64 = 600;

/// Wakes the thread.
#[derive(Default)]
pub struct Bell {
    rung: Mutex<bool>,
    heard: Condvar,
}

impl Bell {
    /// Wakes the task that waits for it.
    pub fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.heard.notify_one();
    }

    fn wait(&self, limit: Duration) {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.heard.wait_timeout_while(rung, limit, |rung| !*rung);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}

/// The thread's life: as long as the cache is held elsewhere.
pub fn run(cache: &Weak<Cache>, bell: &Bell) {
    if let Some(cache) = cache.upgrade() {
        cache.learn();
    }
    loop {
        let pause = match cache.upgrade() {
            Some(cache) => cache.keep_house(),
            None => return,
        };
        bell.wait(pause);
    }
}

/// Sleeps between batches.
struct Paced {
    pace: Option<Pace>,
    count: usize,
    began: Instant,
}

impl Paced {
    fn new(pace: Option<Pace>) -> Paced {
        Paced { pace, count: 0, began: Instant::now() }
    }

    fn step(&mut self) {
        let Some(pace) = self.pace else { return };
        self.count += 1;
        if self.count >= pace.files || self.began.elapsed() >= pace.threshold {
            std::thread::sleep(pace.sleep);
            (self.count, self.began) = (0, Instant::now());
        }
    }
}

impl Cache {
    /// Fills the index from the disk.
    pub(crate) fn learn(self: &Arc<Cache>) {
        let settings = self.settings();
        let used = disk::unix_now();
        let weak = Arc::downgrade(self);
        // Otherwise only this thread holds it any more.
        let is_wanted = || weak.strong_count() > 1;
        let (levels, sizes) = (self.levels.len(), Want::Sizes { temp_age_s: TEMP_AGE_S });
        let done = if settings.loader.is_some() {
            let mut paced = Paced::new(settings.loader);
            disk::scan(&self.folder, levels, sizes, &mut |seen| {
                paced.step();
                self.index.learn(&mut [seen], used);
                is_wanted()
            })
        } else {
            // Requests need names, to know what is not there; sizes are needed by limits only.
            let named = disk::scan_quickly(&self.folder, levels, Want::Names, &|found| {
                self.index.learn(found, used);
                is_wanted()
            });
            self.set_warm();
            let measure = |found: &mut [Seen]| {
                self.index.measure(found);
                is_wanted()
            };
            named.and_then(|()| disk::scan_quickly(&self.folder, levels, sizes, &measure))
        };
        if let Err(error) = done {
            self.report(&format!("cache loader: reading \"{}\" failed ({error})", self.folder.display()));
        }
        self.set_warm();
    }

    /// Removes what has to go; gives the time until the next look.
    fn keep_house(&self) -> Duration {
        let settings = self.settings();
        let mut paced = Paced::new(settings.manager);
        let now = disk::unix_now();
        let inactive = settings.inactive.as_secs() as i64;
        loop {
            let gone = self.index.expire(now - inactive, 100);
            if gone.is_empty() {
                break;
            }
            for digest in gone {
                self.unlink(digest);
                paced.step();
            }
        }
        while self.is_full(0) && self.evict_oldest() {
            paced.step();
        }
        let is_short = || {
            settings.min_free > 0 && disk::free_bytes(&self.folder).is_ok_and(|free| free < settings.min_free)
        };
        while is_short() && self.evict_oldest() {
            paced.step();
        }
        self.enforce_rules(now);
        let next = self.index.oldest().map(|entry| i64::from(entry.used) + inactive + 1 - disk::unix_now());
        next.map_or(PAUSE, |seconds| Duration::from_secs(seconds.max(1) as u64).min(PAUSE))
    }

    fn enforce_rules(&self, now: i64) {
        let settings = self.settings();
        if self.rules.count() == 0 {
            return;
        }
        // What is on disk and matches was last used before the purge: it has gone by then.
        let old_ms = (now - settings.inactive.as_secs() as i64 - 1).max(0) as u64 * 1000;
        let mut has_dropped = self.rules.drop_if(|rule| rule.time_ms() < old_ms);
        if settings.purger.is_some() || self.rules.count() > RULES_MAX || self.has_small_disk() {
            let rules = self.rules.all();
            self.sweep(settings.purger.flatten());
            // Fills that began before may still be under way: the rule stays for them, but for no longer than this.
            let fills_ms = disk::unix_now_ms().saturating_sub(600_000);
            has_dropped |= self.rules.drop_if(|rule| rule.time_ms() < fills_ms && rules.contains(rule));
        }
        if has_dropped {
            self.save_rules();
        }
    }

    /// Few enough entries for all of them to be looked at without being asked to.
    fn has_small_disk(&self) -> bool {
        self.index.count() < 10_000
    }

    /// Removes from the disk whatever a rule hides.
    fn sweep(&self, pace: Option<Pace>) {
        let mut paced = Paced::new(pace);
        for digest in self.index.files() {
            let hidden = match disk::read_header(&self.path(digest)) {
                Ok(Some(header)) => self.rules.hides(&header.meta),
                _ => false,
            };
            if hidden {
                self.index.remove(digest);
                self.unlink(digest);
            }
            paced.step();
        }
    }

    fn rules_path(&self) -> std::path::PathBuf {
        self.folder.join(".purges")
    }

    /// Before any file is: a purge that another process took note of holds from the first request on.
    pub(crate) fn load_rules(&self) {
        let text = match std::fs::read_to_string(self.rules_path()) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.distrust(&error.to_string()),
        };
        for line in text.lines() {
            match Rule::parse(line) {
                Some(rule) => self.rules.add(rule),
                None => self.distrust("a line is no purge"),
            }
        }
    }

    /// What was purged by another process is not known, so all of it is.
    fn distrust(&self, why: &str) {
        self.rules.add(Rule { pattern: Pattern::All, stamp: self.purge_stamp() });
        self.report(&format!(
            "purges kept in \"{}\" could not be read ({why}): nothing is used that was stored before",
            self.folder.display()
        ));
    }

    /// Keeps the rules for the next process; without rules there is no file. Several threads may call it: the list is read when the
    /// file is written, so that an older one never takes the place of a newer one.
    pub(crate) fn save_rules(&self) {
        let path = self.rules_path();
        let _one = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let rules = self.rules.all();
        if rules.is_empty() {
            let _ = std::fs::remove_file(path);
            return;
        }
        let text: String = rules.iter().map(Rule::line).collect();
        let written = replace(&path, text.as_bytes(), 0o600);
        if let Err(error) = written {
            self.report(&format!("keeping purges in \"{}\" failed ({error})", self.folder.display()));
        }
    }
}
