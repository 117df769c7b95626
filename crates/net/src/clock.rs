//! Time, read once per wake-up of the loop.

use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;

/// A reading of both clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Now {
    /// Monotonic milliseconds; only differences mean something.
    pub mono_ms: u64,
    /// The same in microseconds.
    pub mono_us: u64,
    /// Seconds since 1970.
    pub unix_secs: i64,
    /// Milliseconds within the second, 0–999.
    pub unix_millis: u32,
}

thread_local! {
    static NOW: Cell<Now> = const { Cell::new(Now { mono_ms: 0, mono_us: 0, unix_secs: 0, unix_millis: 0 }) };
}

/// The time as of this thread's last wake-up.
#[inline]
pub fn now() -> Now {
    let now = NOW.get();
    if now.unix_secs == 0 { refresh() } else { now }
}

/// Reads the clocks and makes the result this thread's [`now`].
pub fn refresh() -> Now {
    let mono = clock_gettime(ClockId::Monotonic);
    let real = clock_gettime(ClockId::Realtime);
    let now = Now {
        mono_ms: mono.tv_sec as u64 * 1000 + mono.tv_nsec as u64 / 1_000_000,
        mono_us: mono.tv_sec as u64 * 1_000_000 + mono.tv_nsec as u64 / 1000,
        unix_secs: real.tv_sec,
        unix_millis: (real.tv_nsec / 1_000_000) as u32,
    };
    NOW.set(now);
    now
}

/// Monotonic milliseconds of this thread's last wake-up.
#[inline]
pub fn mono_ms() -> u64 {
    now().mono_ms
}

/// Microseconds of processor time that this thread has had: what others have meanwhile does not count. A system call.
pub fn thread_cpu_us() -> u64 {
    let cpu = clock_gettime(ClockId::ThreadCPUTime);
    cpu.tv_sec as u64 * 1_000_000 + cpu.tv_nsec as u64 / 1000
}

/// Monotonic microseconds at this moment, on the scale of [`Now::mono_us`].
pub fn precise_us() -> u64 {
    let mono = clock_gettime(ClockId::Monotonic);
    mono.tv_sec as u64 * 1_000_000 + mono.tv_nsec as u64 / 1000
}
