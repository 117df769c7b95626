//! Faults to order, for tests: a disk that stalls, code that panics. Builds without debug assertions have none of it.
//!
//! `BRISK_FAULTS` holds `KIND=PATH` pairs with `;` between them; a path stands for all that begins with it. With
//! `stall:MS` nothing there is ever in memory, and each access takes that many milliseconds. With `panic` whoever
//! opens something there panics, with `panic-read` whoever reads from an open file, with `panic-pool` whoever
//! accesses it on the pool. With `replaced:TIMES` another file is taken for the one that is there, so many
//! times. With `full` there is no room for what is written there. (The configuration must keep the variable for the worker: `env BRISK_FAULTS;`.)
//!
//! `kill=STEP` and `stop=STEP` send the process SIGKILL or SIGSTOP when it comes to that step ([`step`]), `limit:MS=NAME` gives a
//! time limit another length ([`limit`]).
//!
//! What has no path is ordered by its name alone ([`is_ordered`]): what tests compare with (a server without prepared
//! answers), and modules that lie about what they depend on.

use rustix::fd::{AsFd, AsRawFd as _};
use rustix::process::{Signal, getpid, kill_process};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Stall(Duration),
    Panic,
    PanicRead,
    PanicPool,
    Replaced(u32),
    Full,
    Signal(Signal),
    Limit(Duration),
}

/// Orders without a path.
static NAMES: OnceLock<Vec<String>> = OnceLock::new();

/// Whether this was ordered; never in builds without debug assertions.
#[inline]
pub fn is_ordered(name: &str) -> bool {
    cfg!(debug_assertions) && NAMES.get_or_init(names).iter().any(|have| have == name)
}

fn names() -> Vec<String> {
    let text = std::env::var("BRISK_FAULTS").unwrap_or_default();
    text.split(';').filter(|part| !part.is_empty() && !part.contains('=')).map(str::to_string).collect()
}

static FAULTS: OnceLock<Vec<(Kind, PathBuf)>> = OnceLock::new();

fn parse(text: &str) -> Option<(Kind, PathBuf)> {
    let (kind, path) = text.split_once('=')?;
    let kind = match kind.split_once(':') {
        Some(("stall", ms)) => Kind::Stall(Duration::from_millis(ms.parse().ok()?)),
        Some(("replaced", times)) => Kind::Replaced(times.parse().ok()?),
        Some(("limit", ms)) => Kind::Limit(Duration::from_millis(ms.parse().ok()?)),
        Some(_) => return None,
        None if kind == "panic" => Kind::Panic,
        None if kind == "panic-read" => Kind::PanicRead,
        None if kind == "panic-pool" => Kind::PanicPool,
        None if kind == "full" => Kind::Full,
        None if kind == "kill" => Kind::Signal(Signal::KILL),
        None if kind == "stop" => Kind::Signal(Signal::STOP),
        None => return None,
    };
    Some((kind, path.into()))
}

fn faults() -> &'static [(Kind, PathBuf)] {
    FAULTS.get_or_init(|| {
        std::env::var("BRISK_FAULTS").unwrap_or_default().split(';').filter_map(parse).collect()
    })
}

/// A step of a process: it may be ordered to die or to stop here.
pub fn step(name: &str) {
    if !cfg!(debug_assertions) {
        return;
    }
    for (kind, at) in faults() {
        if let Kind::Signal(signal) = kind
            && at.as_os_str() == name
        {
            let _ = kill_process(getpid(), *signal);
        }
    }
}

/// Before something is written to a path: there may be no room for it.
pub fn room(path: &Path) -> io::Result<()> {
    match cfg!(debug_assertions).then(|| ordered(path)).flatten() {
        Some(Kind::Full) => Err(rustix::io::Errno::NOSPC.into()),
        _ => Ok(()),
    }
}

static REPLACED: AtomicU32 = AtomicU32::new(0);

/// Whether another file is to be taken for the one at a path.
pub fn replaced(path: &Path) -> bool {
    match cfg!(debug_assertions).then(|| ordered(path)).flatten() {
        Some(Kind::Replaced(times)) => REPLACED.fetch_add(1, Ordering::Relaxed) < times,
        _ => false,
    }
}

/// A time limit: the usual one, unless another one is ordered.
pub fn limit(name: &str, usual: Duration) -> Duration {
    if !cfg!(debug_assertions) {
        return usual;
    }
    let ordered = faults().iter().find_map(|(kind, of)| match kind {
        Kind::Limit(time) if of.as_os_str() == name => Some(*time),
        _ => None,
    });
    ordered.unwrap_or(usual)
}

fn ordered(path: &Path) -> Option<Kind> {
    faults()
        .iter()
        .filter(|(kind, _)| !matches!(kind, Kind::Signal(_) | Kind::Limit(_)))
        .find(|(_, prefix)| {
            path.as_os_str().as_encoded_bytes().starts_with(prefix.as_os_str().as_encoded_bytes())
        })
        .map(|(kind, _)| *kind)
}

fn ordered_of(fd: impl AsFd) -> Option<Kind> {
    if FAULTS.get().is_some_and(Vec::is_empty) {
        return None;
    }
    let link = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    ordered(&std::fs::read_link(link).ok()?)
}

/// Before a path is looked at on an event loop.
pub(crate) fn warm_path(path: &Path) -> io::Result<()> {
    match cfg!(debug_assertions).then(|| ordered(path)).flatten() {
        Some(Kind::Stall(_) | Kind::PanicPool) => Err(io::ErrorKind::WouldBlock.into()),
        Some(Kind::Panic) => panic!("{} was to panic", path.display()),
        _ => Ok(()),
    }
}

/// Before a path is looked at on the pool.
pub(crate) fn cold_path(path: &Path) {
    match cfg!(debug_assertions).then(|| ordered(path)).flatten() {
        Some(Kind::Stall(time)) => std::thread::sleep(time),
        Some(Kind::PanicPool) => panic!("{} was to panic on the pool", path.display()),
        _ => {}
    }
}

/// Before a file is read on an event loop.
pub(crate) fn warm_read(fd: impl AsFd) -> io::Result<()> {
    match cfg!(debug_assertions).then(|| ordered_of(fd)).flatten() {
        Some(Kind::Stall(_)) => Err(io::ErrorKind::WouldBlock.into()),
        Some(Kind::PanicRead) => panic!("this read was to panic"),
        _ => Ok(()),
    }
}

/// Before a file is read on the pool.
pub(crate) fn cold_read(fd: impl AsFd) {
    if let Some(Kind::Stall(time)) = cfg!(debug_assertions).then(|| ordered_of(fd)).flatten() {
        std::thread::sleep(time);
    }
}

/// Before a file is written to on the pool.
pub(crate) fn cold_write(fd: impl AsFd) -> io::Result<()> {
    match cfg!(debug_assertions).then(|| ordered_of(fd)).flatten() {
        Some(Kind::Stall(time)) => std::thread::sleep(time),
        Some(Kind::Full) => return Err(rustix::io::Errno::NOSPC.into()),
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read() {
        assert_eq!(parse("stall:2000=/srv/a"), Some((Kind::Stall(Duration::from_secs(2)), "/srv/a".into())));
        assert_eq!(parse("full=/srv"), Some((Kind::Full, "/srv".into())));
        assert_eq!(parse("panic=/srv/b"), Some((Kind::Panic, "/srv/b".into())));
        assert_eq!(parse("replaced:3=/d"), Some((Kind::Replaced(3), "/d".into())));
        assert_eq!(parse("panic-read=/c"), Some((Kind::PanicRead, "/c".into())));
        assert_eq!(parse("kill=worker-ready"), Some((Kind::Signal(Signal::KILL), "worker-ready".into())));
        assert_eq!(parse("stop=worker-ready"), Some((Kind::Signal(Signal::STOP), "worker-ready".into())));
        assert_eq!(parse("limit:50=order"), Some((Kind::Limit(Duration::from_millis(50)), "order".into())));
        for bad in ["", "stall=/a", "stall:x=/a", "melt=/a"] {
            assert_eq!(parse(bad), None);
        }
    }
}
