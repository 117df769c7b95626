//! Waiting for a condition instead of for a time.

use std::time::{Duration, Instant};

/// After this a server is taken for broken. Generous: tests share two cores with others.
pub const DEADLINE: Duration = Duration::from_mins(1);

const PAUSE: Duration = Duration::from_millis(3);

/// Asks until there is an answer.
///
/// # Panics
/// When the deadline is over; `what` says what was waited for.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    within(DEADLINE, &mut ask).unwrap_or_else(|| panic!("waited {DEADLINE:?} in vain for: {what}"))
}

/// Asks until the condition holds.
pub fn holds(what: &str, mut condition: impl FnMut() -> bool) {
    until(what, || condition().then_some(()));
}

/// Asks for at most `time`.
pub fn within<T>(time: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + time;
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if Instant::now() >= end {
            return None;
        }
        std::thread::sleep(PAUSE);
    }
}
