//! `error_log memory:SIZE`: the newest messages, in memory that outlives the worker.
//!
//! It is a file without a name (memfd) to which lines are appended as to any other log. What is older than the newest
//! SIZE bytes is given back to the kernel from the front, so that the file has a hole there. The master holds it: a
//! worker that dies takes nothing with it, and who may look into the master's descriptors can read it (`brisk log`).

use rustix::fs::{FallocateFlags, MemfdFlags, OFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What it is called among a process's descriptors: `/memfd:NAME (deleted)`.
pub const NAME: &str = "brisk-error-log";

/// By size. Whoever opens one gets the one that is there, so that neither a reload nor reopening loses lines.
static OPEN: Mutex<Vec<(u64, OwnedFd)>> = Mutex::new(Vec::new());

/// Opens the log of this size.
pub fn open(bytes: u64) -> io::Result<OwnedFd> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if !open.iter().any(|(have, _)| *have == bytes) {
        let fd = rustix::fs::memfd_create(NAME, MemfdFlags::CLOEXEC)?;
        rustix::fs::fcntl_setfl(&fd, OFlags::APPEND)?;
        open.push((bytes, fd));
    }
    let found = open.iter().find(|(have, _)| *have == bytes);
    let (_, fd) = found.ok_or(io::ErrorKind::NotFound)?;
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, 3)?)
}

/// Bounds what the log holds: at most an eighth more than its size per process that writes.
pub struct Bound {
    bytes: u64,
    /// Written since the front was last given back.
    since: AtomicU64,
}

impl Bound {
    /// The newest `bytes` bytes stay.
    pub fn new(bytes: u64) -> Bound {
        Bound { bytes, since: AtomicU64::new(0) }
    }

    /// After `count` bytes have been written.
    pub fn wrote(&self, fd: &OwnedFd, count: usize) {
        let since = self.since.fetch_add(count as u64, Ordering::Relaxed) + count as u64;
        if since < self.bytes / 8 {
            return;
        }
        self.since.store(0, Ordering::Relaxed);
        let size = rustix::fs::fstat(fd).map_or(0, |stat| stat.st_size as u64);
        if size > self.bytes {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // If it fails, the next call gives back more.
            let _ = rustix::fs::fallocate(fd, hole, 0, size - self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{SeekFrom, fstat, seek};

    #[test]
    fn the_newest_lines_are_kept() {
        let bytes = 64 * 1024;
        let fd = open(bytes).unwrap();
        let bound = Bound::new(bytes);
        for number in 0..20_000 {
            let line = format!("{number:08} a line of the log\n");
            assert_eq!(rustix::io::write(&fd, line.as_bytes()), Ok(line.len()));
            bound.wrote(&fd, line.len());
        }
        let stat = fstat(&fd).unwrap();
        assert!(stat.st_size > 500_000, "{}", stat.st_size);
        assert!((stat.st_blocks as u64) * 512 <= bytes + bytes / 8 + 4096, "{}", stat.st_blocks);
        let again = open(bytes).unwrap();
        assert_eq!(fstat(&again).unwrap().st_ino, stat.st_ino);
        assert!(seek(&again, SeekFrom::Data(0)).unwrap() + bytes + bytes / 8 + 4096 > stat.st_size as u64);
        assert_ne!(fstat(open(2 * bytes).unwrap()).unwrap().st_ino, stat.st_ino);
    }
}
