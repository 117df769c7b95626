//! Log files, and the lines of the error log.
//!
//! Access log lines are collected per thread and file and written when the loop goes to sleep: one write for all that a
//! wake-up has brought, whole lines only, each file opened for appending. Error lines are written at once.

mod buffers;
mod entry;
mod file;
mod gate;
mod memory;
mod named;
mod syslog;
mod target;

pub use buffers::{Buffering, LogBuffers, Pack};
pub use entry::{About, Entry, Format};
pub use file::LogFile;
pub use gate::{Filter, Gate, Limit};
pub use memory::NAME as MEMORY_LOG;
pub use named::NamedCache;
pub use syslog::Syslog;
pub(crate) use syslog::month_name;
pub use target::{LogId, LogLevel, LogTarget, LogTo};

use crate::thread::Live;
use brisk_net::{clock, sys};
use gate::Passage;
use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    static STAMP: RefCell<(i64, String)> = const { RefCell::new((0, String::new())) };
}

/// `2026/11/20 22:46:01`.
pub fn stamp(secs: i64) -> String {
    STAMP.with_borrow_mut(|(at, text)| {
        if *at != secs {
            *at = secs;
            let t = sys::local_time(secs);
            text.clear();
            let _ = write!(
                text,
                "{:04}/{:02}/{:02} {:02}:{:02}:{:02}",
                t.year, t.month, t.day, t.hour, t.minute, t.second
            );
        }
        text.clone()
    })
}

/// Whether some request of the live configuration may be logged at level debug. While none may, that costs one branch at
/// each place that has something to say.
static DEBUGS: AtomicBool = AtomicBool::new(false);

/// A configuration goes live.
pub fn set_debugs(debugs: bool) {
    DEBUGS.store(debugs, Ordering::Relaxed);
}

/// Whether that is so. Whether a request or session is logged so is for its protocol to say.
#[inline]
pub fn may_debug() -> bool {
    DEBUGS.load(Ordering::Relaxed)
}

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

    /// The main level's, for what belongs to no request.
    pub fn main(live: &Live) -> ErrorLogs {
        ErrorLogs::new(&live.snap.error_log, &live.logs)
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

/// Writes a message that belongs to no request or session to the main error logs.
pub fn log_error(live: &Live, level: LogLevel, message: fmt::Arguments<'_>) {
    write_all(&live.snap.error_log, &live.logs, &Entry::new(level, None, message));
}
