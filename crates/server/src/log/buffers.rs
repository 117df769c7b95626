//! One thread's unwritten lines, and its open logs with names that depend on requests.

use super::LogFile;
use crate::conf::LogTarget;
use crate::limits::LOG_BUFFER_BYTES;
use crate::thread::Thread;
use brisk_net::{clock, sleep};
use std::cell::RefCell;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

/// Changes a buffer's bytes before they are written: compression.
pub type Pack = dyn Fn(&[u8]) -> Vec<u8> + Send + Sync;

/// How long lines are kept back: `access_log … buffer= flush= gzip=`.
pub struct Buffering {
    pub bytes: usize,
    /// Zero: until the buffer is full.
    pub flush: Duration,
    pub pack: Option<Box<Pack>>,
}

struct Buffer {
    log: Arc<LogFile>,
    lines: Vec<u8>,
    how: Option<Arc<Buffering>>,
    /// When the lines are written at the latest; 0: when the thread goes to sleep.
    due_ms: u64,
}

impl Buffer {
    fn write(&mut self) {
        match self.how.as_deref() {
            _ if self.lines.is_empty() => return,
            Some(Buffering { pack: Some(pack), .. }) => self.log.write(&pack(&self.lines)),
            _ => self.log.write(&self.lines),
        }
        self.lines.clear();
    }
}

/// See the module's head.
#[derive(Default)]
pub struct LogBuffers {
    buffers: RefCell<Vec<Buffer>>,
    named: RefCell<Vec<Named>>,
}

impl LogBuffers {
    /// Appends a line; `write` must end it with a newline.
    #[inline]
    pub fn append(&self, log: &Arc<LogFile>, how: Option<&Arc<Buffering>>, write: impl FnOnce(&mut Vec<u8>)) {
        if let LogTarget::Syslog(_) = log.target {
            let mut line = Vec::new();
            write(&mut line);
            log.write(&line);
            return;
        }
        let mut buffers = self.buffers.borrow_mut();
        let at = match buffers.iter().position(|have| Arc::ptr_eq(&have.log, log)) {
            Some(at) => at,
            None => {
                buffers.push(Buffer { log: log.clone(), lines: Vec::new(), how: None, due_ms: 0 });
                buffers.len() - 1
            }
        };
        let buffer = &mut buffers[at];
        if buffer.lines.is_empty() {
            begin(buffer, how);
        }
        write(&mut buffer.lines);
        if buffer.lines.len() >= buffer.how.as_ref().map_or(LOG_BUFFER_BYTES, |how| how.bytes) {
            buffer.write();
        }
    }

    /// Writes what need not wait.
    pub fn flush_due(&self) {
        let mut buffers = self.buffers.borrow_mut();
        let now = if buffers.iter().any(|buffer| buffer.due_ms != 0) { clock::mono_ms() } else { 0 };
        buffers.iter_mut().filter(|buffer| buffer.due_ms <= now).for_each(Buffer::write);
        // With thousands of logs (one per host) only those in use are kept.
        if buffers.len() > 64 {
            buffers.retain(|buffer| !buffer.lines.is_empty());
        }
    }

    /// Writes everything and closes what requests have opened.
    pub fn flush(&self) {
        self.buffers.borrow_mut().iter_mut().for_each(Buffer::write);
        self.named.borrow_mut().clear();
    }

    /// Writes a line to a log whose name depends on the request. Without a cache it is opened for this line only.
    pub fn write_named(&self, path: &str, cache: Option<&NamedCache>, line: &[u8]) -> io::Result<()> {
        let now_ms = clock::mono_ms();
        let Some(cache) = cache else {
            open(path)?.write(line);
            return Ok(());
        };
        let mut named = self.named.borrow_mut();
        named.retain(|have| now_ms - have.used_ms <= cache.inactive.as_millis() as u64);
        let at = named.iter().position(|have| *have.path == *path);
        let mut entry = match at {
            Some(at) => named.remove(at),
            None => Named { path: path.into(), log: None, uses: 0, used_ms: now_ms, checked_ms: now_ms },
        };
        entry.uses += 1;
        entry.used_ms = now_ms;
        if now_ms - entry.checked_ms > cache.valid.as_millis() as u64 {
            entry.checked_ms = now_ms;
            entry.log = entry.log.filter(|log| is_still(path, log));
        }
        let log = match entry.log.take() {
            Some(log) => log,
            None => open(path)?,
        };
        log.write(line);
        entry.log = (entry.uses >= cache.min_uses).then_some(log);
        // The most recently used are last.
        if named.len() >= cache.max {
            named.remove(0);
        }
        named.push(entry);
        Ok(())
    }
}

/// The first line of an empty buffer is about to come.
fn begin(buffer: &mut Buffer, how: Option<&Arc<Buffering>>) {
    buffer.how = how.cloned();
    buffer.due_ms = match how {
        None => 0,
        Some(how) if how.flush.is_zero() => u64::MAX,
        Some(how) => {
            let flush = how.flush;
            brisk_net::spawn(async move {
                sleep(flush).await;
                if let Some(thread) = Thread::current() {
                    thread.logs.flush_due();
                }
            });
            clock::mono_ms() + flush.as_millis() as u64
        }
    };
}

/// `open_log_file_cache`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCache {
    pub max: usize,
    pub inactive: Duration,
    /// How long it is believed that an open log is the file of its name.
    pub valid: Duration,
    pub min_uses: u64,
}

struct Named {
    path: Box<str>,
    log: Option<LogFile>,
    uses: u64,
    used_ms: u64,
    checked_ms: u64,
}

fn open(path: &str) -> io::Result<LogFile> {
    let target = LogTarget::File(path.into());
    let fd = LogFile::open(&target)?;
    Ok(LogFile::new(target, fd))
}

/// Whether the log is the file that its name stands for now.
fn is_still(path: &str, log: &LogFile) -> bool {
    match (rustix::fs::stat(path), rustix::fs::fstat(log.fd().as_fd())) {
        (Ok(there), Ok(here)) => (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino),
        _ => false,
    }
}
