//! The main error logs of the configuration that a thread serves: a log that cannot be written is reported there.

use super::entry::Entry;
use super::file::LogFile;
use super::target::{LogTarget, LogTo};
use std::cell::RefCell;
use std::sync::Arc;

/// What the configuration says of error logs, and the open logs that it means.
type Present = (Arc<[LogTo]>, Arc<Vec<Arc<LogFile>>>);

thread_local! {
    static PRESENT: RefCell<Option<Present>> = const { RefCell::new(None) };
}

/// From now on these are this thread's.
pub fn set(list: Arc<[LogTo]>, logs: Arc<Vec<Arc<LogFile>>>) {
    PRESENT.set(Some((list, logs)));
}

/// The log of a target, as this thread has it open now.
pub fn open(target: &LogTarget) -> Option<Arc<LogFile>> {
    PRESENT.with_borrow(|present| present.as_ref()?.1.iter().find(|log| log.target == *target).cloned())
}

/// Writes a message to all of them that want its level and that `takes` it, whatever their filters and rates say. Nothing is
/// written on a thread that serves no configuration.
pub fn tell(entry: &Entry<'_>, takes: impl Fn(&LogFile) -> bool) {
    let Some((list, logs)) = PRESENT.with_borrow(Clone::clone) else { return };
    for to in list.iter().filter(|to| to.level >= entry.level) {
        let log = &logs[to.log.0 as usize];
        if takes(log) {
            log.message(entry, to.format);
        }
    }
}
