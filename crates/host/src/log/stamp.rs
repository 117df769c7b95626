//! The time of a message, as nginx's error log has it.

use brisk_net::sys;
use std::cell::RefCell;
use std::fmt::Write as _;

thread_local! {
    /// The last second that was written out.
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
