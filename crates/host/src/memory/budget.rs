//! How much memory the process may hold, and whether it holds too much (`memory_limit`).
//!
//! What counts is what the kernel says: anonymous memory that is resident. It is looked at from time to time while the server
//! works, and at once when what connections hold has grown by much.

use super::account::{Account, grown};
use crate::limits::{
    MEMORY_FULL_HELD_BYTES, MEMORY_FULL_PERCENT, MEMORY_LOOK_MS, MEMORY_RESUME_PERCENT,
    MEMORY_SHARE_BYTES_MIN, MEMORY_SHARE_PERCENT, MEMORY_STEP_BYTES_MAX, MEMORY_STEP_BYTES_MIN,
};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// How the process stands with its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Level {
    /// There is enough.
    Fine,
    /// Nothing is accepted, and connections that hold much are closed.
    Full,
    /// There is as little left, but connections hold next to nothing of it: closing them would not help.
    FullElsewhere,
}

impl Level {
    fn from_number(number: u8) -> Level {
        match number {
            0 => Level::Fine,
            1 => Level::Full,
            _ => Level::FullElsewhere,
        }
    }

    /// The level when `used` bytes of `limit` are in use.
    fn next(self, used: u64, limit: u64) -> Level {
        let is_fine = match self {
            Level::Fine => used < percent(limit, MEMORY_FULL_PERCENT),
            _ => used < percent(limit, MEMORY_RESUME_PERCENT),
        };
        match self {
            _ if is_fine => Level::Fine,
            Level::FullElsewhere => Level::FullElsewhere,
            _ => Level::Full,
        }
    }
}

/// `part` per cent of `limit`.
fn percent(limit: u64, part: u64) -> u64 {
    limit / 100 * part
}

/// What came of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Bytes in use.
    pub used: u64,
    /// What follows from that.
    pub level: Level,
    /// How much less should be in use.
    pub excess: u64,
}

/// See the module's head. All threads of a worker share one.
pub struct Budget {
    /// `u64::MAX`: none.
    limit: AtomicU64,
    level: AtomicU8,
    /// When (monotonic) the memory is to be looked at again.
    next_look_ms: AtomicU64,
    /// When the connections were surveyed the last time, and when that was logged.
    surveyed_ms: AtomicU64,
    logged_ms: AtomicU64,
    is_told: AtomicBool,
    /// `None`: there is no `/proc`; the allocator is asked then.
    statm: Option<File>,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget {
            limit: AtomicU64::new(u64::MAX),
            level: AtomicU8::new(Level::Fine as u8),
            next_look_ms: AtomicU64::new(0),
            surveyed_ms: AtomicU64::new(0),
            logged_ms: AtomicU64::new(0),
            is_told: AtomicBool::new(false),
            statm: File::open("/proc/self/statm").ok(),
        }
    }
}

impl Budget {
    /// Sets the limit; `None`: there is none.
    pub fn set_limit(&self, limit: Option<u64>) {
        self.limit.store(limit.unwrap_or(u64::MAX), Ordering::Relaxed);
        if limit.is_none() {
            self.level.store(Level::Fine as u8, Ordering::Relaxed);
        }
    }

    /// The limit in bytes; `None`: there is none.
    pub fn limit(&self) -> Option<u64> {
        let limit = self.limit.load(Ordering::Relaxed);
        (limit != u64::MAX).then_some(limit)
    }

    /// Whether nothing is to be accepted.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.level.load(Ordering::Relaxed) == Level::Full as u8
    }

    /// How much more the heads of a connection may occupy, of which `received` bytes have come. While memory is short, all that
    /// the connection holds counts.
    #[inline]
    pub fn head_room(&self, account: &Account, received: u64) -> usize {
        let room = account.head_room(received);
        if self.is_full() { room.min(MEMORY_FULL_HELD_BYTES.saturating_sub(account.bytes())) } else { room }
    }

    /// Whether this thread's connections have grown so much that the memory is to be looked at before the next one is served.
    #[inline]
    pub fn has_grown(&self) -> bool {
        grown() >= MEMORY_STEP_BYTES_MIN && grown() as u64 >= self.step()
    }

    fn step(&self) -> u64 {
        let limit = self.limit.load(Ordering::Relaxed);
        (limit / 64).clamp(MEMORY_STEP_BYTES_MIN as u64, MEMORY_STEP_BYTES_MAX)
    }

    /// Whether it is time for a look.
    #[inline]
    pub fn is_due(&self, now_ms: u64) -> bool {
        now_ms >= self.next_look_ms.load(Ordering::Relaxed) || self.has_grown()
    }

    /// Looks at the memory; `None` without a limit.
    pub fn look(&self, now_ms: u64) -> Option<Look> {
        self.next_look_ms.store(now_ms + MEMORY_LOOK_MS, Ordering::Relaxed);
        let (used, limit) = (self.limit().map(|_| self.used())?, self.limit()?);
        let before = Level::from_number(self.level.load(Ordering::Relaxed));
        let level = before.next(used, limit);
        self.level.store(level as u8, Ordering::Relaxed);
        let excess = used.saturating_sub(percent(limit, MEMORY_RESUME_PERCENT));
        Some(Look { used, level, excess })
    }

    /// Connections hold so many bytes: gives whether that is what fills the memory.
    pub fn held(&self, bytes: u64) -> bool {
        let are_to_blame = bytes >= self.share();
        let (from, to) = if are_to_blame {
            (Level::FullElsewhere, Level::Full)
        } else {
            (Level::Full, Level::FullElsewhere)
        };
        // Where it has become fine meanwhile it stays so.
        let _ = self.level.compare_exchange(from as u8, to as u8, Ordering::Relaxed, Ordering::Relaxed);
        are_to_blame
    }

    /// What connections may hold together whatever else is in the memory.
    pub fn share(&self) -> u64 {
        percent(self.limit.load(Ordering::Relaxed), MEMORY_SHARE_PERCENT).max(MEMORY_SHARE_BYTES_MIN)
    }

    /// True for the first call in each `pause_ms`.
    pub fn may_survey(&self, now_ms: u64, pause_ms: u64) -> bool {
        once_in(&self.surveyed_ms, now_ms, pause_ms)
    }

    /// The same for the message that the memory is full.
    pub fn may_log(&self, now_ms: u64, pause_ms: u64) -> bool {
        let may = once_in(&self.logged_ms, now_ms, pause_ms);
        self.is_told.fetch_or(may, Ordering::Relaxed);
        may
    }

    /// Whether that message is to be followed by one that all is well: once.
    pub fn take_told(&self) -> bool {
        self.is_told.swap(false, Ordering::Relaxed)
    }

    /// Anonymous memory that is resident, in bytes.
    pub fn used(&self) -> u64 {
        let mut text = [0; 128];
        let read = self.statm.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        let pages = read.and_then(|count| anonymous_pages(&text[..count]));
        match pages {
            Some(pages) => pages * rustix::param::page_size() as u64,
            None => brisk_net::sys::committed_memory(),
        }
    }
}

/// `/proc/self/statm`: what is resident without what it shares with files.
fn anonymous_pages(statm: &[u8]) -> Option<u64> {
    let mut numbers = std::str::from_utf8(statm).ok()?.split_ascii_whitespace().skip(1);
    let mut number = || numbers.next()?.parse::<u64>().ok();
    let (resident, shared) = (number()?, number()?);
    Some(resident.saturating_sub(shared))
}

fn once_in(last: &AtomicU64, now_ms: u64, pause_ms: u64) -> bool {
    let before = last.load(Ordering::Relaxed);
    if before != 0 && now_ms < before + pause_ms {
        return false;
    }
    last.compare_exchange(before, now_ms.max(1), Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_follow_what_is_used() {
        let check = |before: Level, used: u64, want: Level| {
            assert_eq!(before.next(used, 1000), want, "{before:?} with {used} of 1000");
        };
        check(Level::Fine, 899, Level::Fine);
        check(Level::Fine, 900, Level::Full);
        check(Level::Full, 899, Level::Full);
        check(Level::Full, 850, Level::Full);
        check(Level::Full, 849, Level::Fine);
        check(Level::FullElsewhere, 2000, Level::FullElsewhere);
        check(Level::FullElsewhere, 100, Level::Fine);
    }

    #[test]
    fn memory_that_no_connection_holds_does_not_stop_accepting() {
        let budget = Budget::default();
        budget.set_limit(Some(1000));
        let look = budget.look(1).unwrap();
        assert_eq!(look.level, Level::Full);
        assert!(budget.is_full() && look.used > 1000 && look.excess == look.used - 850);
        assert!(!budget.held(MEMORY_SHARE_BYTES_MIN - 1) && !budget.is_full());
        assert_eq!(budget.look(2).unwrap().level, Level::FullElsewhere);
        assert!(budget.held(MEMORY_SHARE_BYTES_MIN) && budget.is_full());
        budget.set_limit(Some(u64::MAX / 2));
        assert_eq!(budget.look(3).unwrap().level, Level::Fine);
        budget.set_limit(None);
        assert_eq!((budget.look(4), budget.limit()), (None, None));
    }

    #[test]
    fn statm_is_read() {
        assert_eq!(anonymous_pages(b"27450 6120 1020 3 0 9 0\n"), Some(5100));
        assert_eq!(anonymous_pages(b""), None);
        assert!(Budget::default().used() > 100_000);
    }

    #[test]
    fn things_happen_once_in_their_time() {
        let budget = Budget::default();
        let asked = [0, 5, 10, 11].map(|now_ms| budget.may_survey(now_ms, 10));
        assert_eq!(asked, [true, false, false, true]);
    }
}
