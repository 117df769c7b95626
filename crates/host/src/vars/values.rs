//! Values that variables of every protocol have.

use crate::log::time::{iso_seconds, month_name, offset};
use brisk_net::{clock, sys};
use std::io::Write as _;

type Out = Vec<u8>;

thread_local! {
    /// `$time_local` and `$time_iso8601`, formatted once per second: they are in every log line.
    static TIMES: std::cell::RefCell<(i64, String, String)> =
        const { std::cell::RefCell::new((0, String::new(), String::new())) };
}

fn with_times(out: &mut Out, pick: impl FnOnce(&(i64, String, String)) -> &str) -> bool {
    TIMES.with_borrow_mut(|times| {
        let secs = clock::now().unix_secs;
        if times.0 != secs {
            let t = sys::local_time(secs);
            let local = format!(
                "{:02}/{}/{:04}:{:02}:{:02}:{:02} {}",
                t.day,
                month_name(t.month),
                t.year,
                t.hour,
                t.minute,
                t.second,
                offset(&t, "")
            );
            let iso = iso_seconds(&t) + &offset(&t, ":");
            *times = (secs, local, iso);
        }
        out.extend_from_slice(pick(times).as_bytes());
        true
    })
}

/// Milliseconds as seconds with three decimals.
pub fn seconds(out: &mut Out, ms: u64) -> bool {
    // Writing to memory does not fail.
    let _ = write!(out, "{}", ms / 1000);
    let rest = ms % 1000;
    out.extend_from_slice(&[
        b'.',
        b'0' + (rest / 100) as u8,
        b'0' + (rest / 10 % 10) as u8,
        b'0' + (rest % 10) as u8,
    ]);
    true
}

/// `$msec`: the present time in seconds with milliseconds.
pub fn msec(out: &mut Out) -> bool {
    let now = clock::now();
    seconds(out, now.unix_secs as u64 * 1000 + u64::from(now.unix_millis))
}

/// `$pid`.
pub fn pid(out: &mut Out) -> bool {
    let _ = write!(out, "{}", rustix::process::getpid().as_raw_nonzero());
    true
}

/// `$time_local`: 20/Nov/2026:22:46:01 +0000.
pub fn time_local(out: &mut Out) -> bool {
    with_times(out, |times| &times.1)
}

/// `$time_iso8601`: 2026-11-20T22:46:01+00:00.
pub fn time_iso8601(out: &mut Out) -> bool {
    with_times(out, |times| &times.2)
}
