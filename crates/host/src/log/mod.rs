//! What logs are: their targets, levels, filters, and the forms of a message.

mod entry;
mod gate;
pub mod memory;
mod syslog;
mod target;

pub use entry::{About, Entry, Format};
pub use gate::{Filter, Gate, Limit, Passage};
pub use memory::NAME as MEMORY_LOG;
pub use syslog::Syslog;
pub use target::{LogId, LogLevel, LogTarget, LogTo};

use brisk_net::sys;
use std::cell::RefCell;
use std::fmt::Write as _;

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
