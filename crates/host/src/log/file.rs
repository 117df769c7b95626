//! An open log: a file, a pipe, a terminal, a socket.
//!
//! A slow reader of a log must not hold a thread of the server up. What the kernel would not take at once of a pipe, a
//! terminal or a socket is kept up to a limit, and lines beyond it are dropped, counted and told about.

use super::entry::{Entry, Format};
use super::level::LogLevel;
use super::memory;
use super::present;
use super::target::LogTarget;
use crate::limits::LOG_UNREAD_BYTES_MAX;
use brisk_net::{Loop, sleep, sys};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often it is tried to write what a slow reader has left.
const RETRY: Duration = Duration::from_millis(50);
/// How many tries pass between two complaints.
const RETRIES_PER_COMPLAINT: u32 = 20;
/// What a pipe takes as a whole or not at all, if it has room.
const PIPE_ATOMIC_BYTES: usize = 4096;

/// How a descriptor must be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A disk's file: it waits for the disk, as everywhere.
    File,
    /// A pipe or a terminal that says when it has no room.
    NonBlocking,
    /// One that is shared with processes that expect it to wait.
    Blocking,
    Socket,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::File, Kind::NonBlocking, Kind::Blocking, Kind::Socket];

    fn of(fd: &OwnedFd) -> Kind {
        let Ok(stat) = rustix::fs::fstat(fd) else { return Kind::File };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Socket => Kind::Socket,
            FileType::Fifo => Kind::by_flags(fd),
            FileType::CharacterDevice if rustix::termios::isatty(fd) => Kind::by_flags(fd),
            _ => Kind::File,
        }
    }

    fn by_flags(fd: &OwnedFd) -> Kind {
        let flags = rustix::fs::fcntl_getfl(fd).unwrap_or(OFlags::empty());
        if flags.contains(OFlags::NONBLOCK) { Kind::NonBlocking } else { Kind::Blocking }
    }
}

/// An open log, shared by all threads and by all configurations that name it.
pub struct LogFile {
    /// What it writes to.
    pub target: LogTarget,
    open: Arc<Open>,
    /// The present configuration does not name it: only requests that go on under an earlier one write to it.
    is_retired: AtomicBool,
}

/// Marks the logs that only an earlier configuration names.
pub fn retire(before: &[Arc<LogFile>], present: &[Arc<LogFile>]) {
    before.iter().for_each(|log| log.is_retired.store(true, Ordering::Relaxed));
    present.iter().for_each(|log| log.is_retired.store(false, Ordering::Relaxed));
}

struct Open {
    name: String,
    fd: OwnedFd,
    /// Index of [`Kind::ALL`].
    kind: AtomicU8,
    /// What a slow reader has not taken. Never locked for a disk's file.
    unread: Mutex<Vec<u8>>,
    /// Lines that could not be written.
    lost: AtomicU64,
    /// Those among them that were not reported yet.
    untold: AtomicU64,
    /// A task tries to write, and tells.
    attended: AtomicBool,
    /// Of a log in memory.
    bound: Option<memory::Bound>,
}

impl LogFile {
    /// Writes to `fd`, which the master has opened for `target`.
    pub fn new(target: LogTarget, fd: OwnedFd) -> LogFile {
        let open = Open {
            name: target.to_string(),
            kind: AtomicU8::new(Kind::of(&fd) as u8),
            fd,
            unread: Mutex::default(),
            lost: AtomicU64::new(0),
            untold: AtomicU64::new(0),
            attended: AtomicBool::new(false),
            bound: match target {
                LogTarget::Memory(bytes) => Some(memory::Bound::new(bytes)),
                _ => None,
            },
        };
        LogFile { target, open: Arc::new(open), is_retired: AtomicBool::new(false) }
    }

    /// Whether only requests that go on under an earlier configuration write to it.
    pub fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Relaxed)
    }

    /// Gives a slow reader until `until` to take what it has left: nobody goes on with that when the process has ended.
    pub fn settle(&self, until: Instant) {
        if self.open.kind() == Kind::File {
            return;
        }
        loop {
            let (lost, is_done) = {
                let mut unread = self.open.unread();
                (self.open.drain(&mut unread), unread.is_empty())
            };
            self.open.lost.fetch_add(lost, Ordering::Relaxed);
            let left = until.saturating_duration_since(Instant::now());
            if is_done || left.is_zero() {
                return;
            }
            let mut fds = [PollFd::new(&self.open.fd, PollFlags::OUT)];
            let wait = Timespec { tv_sec: 0, tv_nsec: left.min(RETRY).as_nanos() as _ };
            let _ = poll(&mut fds, Some(&wait));
        }
    }

    /// Opens a log for appending. It never waits for a reader.
    pub fn open(target: &LogTarget) -> io::Result<OwnedFd> {
        let std_fd = |error: bool| {
            let fd = if error { rustix::stdio::stderr() } else { rustix::stdio::stdout() };
            Ok(rustix::io::fcntl_dupfd_cloexec(fd, 3)?)
        };
        match target {
            LogTarget::Stderr => {
                let fd = std_fd(true)?;
                Ok(own_description(&fd).unwrap_or(fd))
            }
            LogTarget::Syslog(syslog) => syslog.socket(),
            LogTarget::Memory(bytes) => memory::open(*bytes),
            LogTarget::File(path) => match open_path(path, OFlags::WRONLY) {
                // /dev/stdout may be a socket (systemd, a supervisor), which cannot be opened by name.
                Err(Errno::NXIO) if matches!(path.as_str(), "/dev/stdout" | "/proc/self/fd/1") => {
                    std_fd(false)
                }
                Err(Errno::NXIO) if matches!(path.as_str(), "/dev/stderr" | "/proc/self/fd/2") => {
                    std_fd(true)
                }
                // A named pipe without a reader so far.
                Err(Errno::NXIO) => Ok(open_path(path, OFlags::RDWR)?),
                done => Ok(done?),
            },
        }
    }

    /// From now on all threads write to `fd`.
    pub fn replace(&self, fd: &OwnedFd) -> io::Result<()> {
        sys::replace_fd(fd.as_fd(), self.open.fd.as_fd())?;
        self.open.kind.store(Kind::of(&self.open.fd) as u8, Ordering::Relaxed);
        Ok(())
    }

    /// What is written to.
    pub fn fd(&self) -> &OwnedFd {
        &self.open.fd
    }

    /// How many lines could not be written: a full disk, a reader that is too slow.
    pub fn lost(&self) -> u64 {
        self.open.lost.load(Ordering::Relaxed)
    }

    /// Writes a message to an error log.
    pub fn message(&self, entry: &Entry<'_>, format: Format) {
        let line = entry.line(format);
        match &self.target {
            LogTarget::Syslog(syslog) => {
                let line = line.trim_end_matches('\n').as_bytes();
                self.count(syslog.send(&self.open.fd, Some(entry.level as u8 - 1), line), 1);
            }
            _ => self.write(line.as_bytes()),
        }
    }

    fn count(&self, done: io::Result<()>, lines: u64) {
        if done.is_err() {
            self.open.lose(lines);
        }
    }

    /// Writes whole lines. What cannot be written is counted and given up: a full disk stops nothing.
    pub fn write(&self, lines: &[u8]) {
        if let LogTarget::Syslog(syslog) = &self.target {
            let line = lines.strip_suffix(b"\n").unwrap_or(lines);
            self.count(syslog.send(&self.open.fd, None, line), 1);
            return;
        }
        match self.open.kind() {
            Kind::File => self.open.write_file(lines),
            _ => self.open.write_slow(lines),
        }
    }
}

fn open_path(path: &str, access: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags =
        access | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))
}

/// The pipe or terminal behind a descriptor, opened anew: whether writing waits is then our own affair.
fn own_description(fd: &OwnedFd) -> Option<OwnedFd> {
    use std::os::fd::AsRawFd as _;
    if Kind::of(fd) != Kind::Blocking {
        return None;
    }
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    rustix::fs::open(format!("/proc/self/fd/{}", fd.as_raw_fd()), flags, Mode::empty()).ok()
}

fn lines_in(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&b| b == b'\n').count() as u64
}

impl Open {
    fn kind(&self) -> Kind {
        Kind::ALL[usize::from(self.kind.load(Ordering::Relaxed))]
    }

    fn write_file(self: &Arc<Self>, mut lines: &[u8]) {
        let count = lines.len();
        while !lines.is_empty() {
            match rustix::io::write(&self.fd, lines) {
                Ok(count) => lines = &lines[count..],
                Err(Errno::INTR) => {}
                Err(_) => return self.lose(lines_in(lines)),
            }
        }
        if let Some(bound) = &self.bound {
            bound.wrote(&self.fd, count);
        }
    }

    fn unread(&self) -> MutexGuard<'_, Vec<u8>> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_slow(self: &Arc<Self>, lines: &[u8]) {
        let mut unread = self.unread();
        let mut lost = self.drain(&mut unread);
        let written = if unread.is_empty() { self.take(lines) } else { Ok(0) };
        match written {
            Ok(count) => {
                // A line that was begun is finished whatever it takes.
                let mut is_begun = count > 0 && lines[count - 1] != b'\n';
                for line in lines[count..].split_inclusive(|&b| b == b'\n') {
                    if std::mem::take(&mut is_begun) || unread.len() + line.len() <= LOG_UNREAD_BYTES_MAX {
                        unread.extend_from_slice(line);
                    } else {
                        lost += 1;
                    }
                }
            }
            Err(_) => lost += lines_in(lines),
        }
        let waits = !unread.is_empty();
        drop(unread);
        if lost > 0 {
            self.lose(lost);
        } else if waits {
            self.attend();
        }
    }

    /// Writes what was left; gives the number of lines that are lost because no reader is left.
    fn drain(&self, unread: &mut Vec<u8>) -> u64 {
        if unread.is_empty() {
            return 0;
        }
        match self.take(unread) {
            Ok(count) => {
                unread.drain(..count);
                0
            }
            Err(_) => lines_in(&std::mem::take(unread)),
        }
    }

    /// Writes as much as there is room for at once.
    fn take(&self, bytes: &[u8]) -> rustix::io::Result<usize> {
        let kind = self.kind();
        let mut written = 0;
        while written < bytes.len() {
            let rest = &bytes[written..];
            let done = match kind {
                Kind::Socket => rustix::net::send(&self.fd, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
                Kind::Blocking if !self.has_room() => Err(Errno::AGAIN),
                Kind::Blocking => rustix::io::write(&self.fd, &rest[..rest.len().min(PIPE_ATOMIC_BYTES)]),
                Kind::File | Kind::NonBlocking => rustix::io::write(&self.fd, rest),
            };
            match done {
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) if written > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }

    fn has_room(&self) -> bool {
        let mut fds = [PollFd::new(&self.fd, PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut fds, Some(&now)), Ok(1)) && fds[0].revents().contains(PollFlags::OUT)
    }

    fn lose(self: &Arc<Self>, lines: u64) {
        self.lost.fetch_add(lines, Ordering::Relaxed);
        self.untold.fetch_add(lines, Ordering::Relaxed);
        self.attend();
    }

    /// Sees to it that what waits is written and what was lost is told, if this thread has a loop.
    fn attend(self: &Arc<Self>) {
        if Loop::try_current().is_none() || self.attended.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = self.clone();
        brisk_net::spawn(async move {
            let mut tries = 0;
            loop {
                sleep(RETRY).await;
                let (lost, is_done) = {
                    let mut unread = this.unread();
                    (this.drain(&mut unread), unread.is_empty())
                };
                this.lost.fetch_add(lost, Ordering::Relaxed);
                this.untold.fetch_add(lost, Ordering::Relaxed);
                if tries % RETRIES_PER_COMPLAINT == 0 || is_done {
                    this.tell();
                }
                tries += 1;
                // Under the lock: a line that is kept in between must find a task that attends to it.
                let unread = this.unread();
                if unread.is_empty() {
                    this.attended.store(false, Ordering::Release);
                    return;
                }
            }
        });
    }

    fn tell(&self) {
        let lines = self.untold.swap(0, Ordering::Relaxed);
        if lines == 0 {
            return;
        }
        let message =
            format_args!("{lines} lines for the log \"{}\" could not be written and are lost", self.name);
        let entry = Entry::new(LogLevel::Warn, None, message);
        // A log that cannot take lines is not told so: that would never end.
        present::tell(&entry, |log| log.open.name != self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    fn fifo(name: &str) -> String {
        let path = std::env::temp_dir().join(format!("brisk-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        path.to_str().unwrap().to_string()
    }

    #[test]
    fn a_pipe_that_nobody_reads_holds_nobody_up() {
        let path = fifo("unread");
        let target = LogTarget::File(path.clone());
        let log = LogFile::new(target.clone(), LogFile::open(&target).unwrap());
        let mut line = vec![b'x'; 999];
        line.push(b'\n');
        let lines = 4 * LOG_UNREAD_BYTES_MAX / line.len();
        (0..lines).for_each(|_| log.write(&line));
        let lost = log.lost();
        assert!(lost > 0 && (lost as usize) < lines);
        assert!(log.open.unread().len() <= LOG_UNREAD_BYTES_MAX);

        let mut reader = std::fs::OpenOptions::new().read(true).open(&path).unwrap();
        let mut got = Vec::new();
        let mut buf = vec![0; 64 << 10];
        while got.len() < (lines - lost as usize) * line.len() {
            let count = reader.read(&mut buf).unwrap();
            got.extend_from_slice(&buf[..count]);
            log.write(b"");
        }
        assert!(got.split_inclusive(|&b| b == b'\n').all(|have| have == line), "no line was cut");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn who_shares_a_pipe_with_us_still_waits() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        assert_eq!(Kind::of(&writer), Kind::Blocking);
        let own = own_description(&writer).unwrap();
        assert_eq!((Kind::of(&own), Kind::of(&writer)), (Kind::NonBlocking, Kind::Blocking));
        // Where it cannot be opened anew it is still not waited for.
        let log = LogFile::new(LogTarget::File("pipe".into()), writer);
        (0..1000).for_each(|_| log.write(&[&[b'y'; 1999][..], b"\n"].concat()));
        assert!(log.lost() > 0);
        drop(reader);
    }
}
