//! The error logs of a location, of a session or of the process, and which of them want a message.

use super::entry::Entry;
use super::file::LogFile;
use super::gate::Passage;
use super::level::LogLevel;
use super::target::LogTo;
use brisk_net::clock;
use std::fmt;
use std::sync::Arc;

/// Writes a message to those of the logs that want it.
pub fn write_all(list: &[LogTo], logs: &[Arc<LogFile>], entry: &Entry<'_>) {
    write(list, logs, entry, false);
}

/// Writes a message that is urgent enough, unless a filter or the rate keeps it back.
fn write_to(to: &LogTo, log: &LogFile, entry: &Entry<'_>) {
    match to.gate.as_ref().map_or(Passage::Write, |gate| gate.passage(entry)) {
        Passage::Write => log.message(entry, to.format),
        Passage::Announce => {
            let text = format_args!("too many log messages, limiting");
            log.message(&Entry::new(entry.level, None, text), to.format);
        }
        Passage::Drop => {}
    }
}

/// Writes a message to those of the logs that want it, or to all of them.
pub fn write(list: &[LogTo], logs: &[Arc<LogFile>], entry: &Entry<'_>, to_all: bool) {
    for to in list.iter().filter(|to| to_all || to.level >= entry.level) {
        write_to(to, &logs[to.log.0 as usize], entry);
    }
}

/// A location's error logs, for what happens on another thread when the request may be gone.
pub struct ErrorLogs(Vec<(LogTo, Arc<LogFile>)>);

impl ErrorLogs {
    /// Those of a list, of which `logs` are the open ones.
    pub fn new(list: &[LogTo], logs: &[Arc<LogFile>]) -> ErrorLogs {
        ErrorLogs(list.iter().map(|to| (to.clone(), logs[to.log.0 as usize].clone())).collect())
    }

    /// Whether a message of this level is written to one of them.
    pub fn want(&self, level: LogLevel) -> bool {
        self.0.iter().any(|(to, _)| to.level >= level)
    }

    /// Writes a message to those that want it, or to all, whatever their filters say.
    pub fn write_whole(&self, entry: &Entry<'_>, to_all: bool) {
        for (to, log) in self.0.iter().filter(|(to, _)| to_all || to.level >= entry.level) {
            log.message(entry, to.format);
        }
    }

    /// Writes a message to those that want it, with the present time.
    pub fn write(&self, level: LogLevel, message: fmt::Arguments<'_>) {
        clock::refresh();
        self.write_entry(&Entry::new(level, None, message));
    }

    fn write_entry(&self, entry: &Entry<'_>) {
        for (to, log) in self.0.iter().filter(|(to, _)| to.level >= entry.level) {
            write_to(to, log, entry);
        }
    }
}
