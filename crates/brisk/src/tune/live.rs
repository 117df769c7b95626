//! The site itself, for `--apply` and `undo`: its files under the journal, and its programs reloaded.

use super::bench::{Restart, Runs};
use super::files::Files;
use super::mark::marked;
use super::process::must_run;
use super::stack::Refused;
use super::store::Store;
use super::tier::Tier;
use super::traffic::Traffic;
use crate::limits::TUNE_ERRORS_TIME_MAX;
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// The site under change.
pub struct Live<'a> {
    pub store: &'a mut Store,
    /// What stood there before all changes.
    pub originals: &'a Files,
    /// The tiers whose files change.
    pub tiers: Vec<Tier>,
    /// Their master processes.
    masters: Vec<u32>,
}

impl<'a> Live<'a> {
    /// The site as it runs now. The error says what of it does not run.
    pub fn new(store: &'a mut Store, originals: &'a Files, tiers: Vec<Tier>) -> Result<Live<'a>, String> {
        let masters = tiers.iter().map(Tier::master).collect::<Result<_, _>>()?;
        Ok(Live { store, originals, tiers, masters })
    }
}

impl Live<'_> {
    /// Writes these files, marked where they differ from the originals; says whether one of them was changed.
    fn write(&mut self, files: &Files) -> Result<bool, String> {
        let mut is_changed = false;
        for (old, new) in self.originals.all().zip(files.all()) {
            let text = marked(&new.name, &old.text, &new.text);
            if old.text == new.text && !self.is_ours(&new.name) {
                continue;
            }
            is_changed |= std::fs::read(&new.name).is_ok_and(|present| present != text);
            self.store.put(&new.name, &old.text, &text)?;
        }
        Ok(is_changed)
    }

    /// Whether the tuner has changed this file before.
    fn is_ours(&self, name: &str) -> bool {
        std::fs::canonicalize(name).is_ok_and(|path| self.store.has_changed(&path))
    }
}

impl Live<'_> {
    /// Writes these files and has a web server alone read them again, without waiting for it; says whether they were others.
    pub fn put(&mut self, files: &Files) -> Result<bool, String> {
        self.check().map_err(|Refused(why)| why)?;
        let is_changed = self.write(files)?;
        for (tier, master) in self.tiers.iter().zip(&self.masters).filter(|_| is_changed) {
            tier.check(*master)?;
            tier.tell(*master)?;
        }
        Ok(is_changed)
    }
}

impl Runs for Live<'_> {
    fn restart(&mut self, files: &Files, traffic: &Traffic, _: Restart) -> Result<(), Refused> {
        self.check()?;
        self.write(files).map_err(Refused)?;
        for tier in &self.tiers {
            tier.take(&files.database).map_err(Refused)?;
        }
        let begun = Instant::now();
        while !traffic.is_answered().map_err(Refused)? {
            self.check()?;
            if begun.elapsed() > TUNE_ERRORS_TIME_MAX {
                return Err(Refused("the site does not answer after a reload".to_owned()));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), Refused> {
        self.masters.iter().try_for_each(|master| must_run(*master)).map_err(Refused)
    }
}
