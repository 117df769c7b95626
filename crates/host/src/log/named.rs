//! One thread's logs whose names depend on requests: `access_log /logs/$host.log`.
//!
//! Opening a file may wait for the disk, so it is done on the pool, with the lines that need it; so is the look whether
//! an open file is still the one of its name. A line for a log that is open and believed, or that the kernel knows
//! where to find, goes straight there.

use super::errors::ErrorLogs;
use super::file::LogFile;
use super::level::LogLevel;
use super::target::LogTarget;
use crate::limits::LOG_UNREAD_BYTES_MAX;
use brisk_net::blocking::Serial;
use brisk_net::{clock, file};
use std::cell::RefCell;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// `open_log_file_cache`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCache {
    /// Logs that may stay open, per thread.
    pub max: usize,
    /// A log that was not used for so long is closed.
    pub inactive: Duration,
    /// How long it is believed that an open log is the file of its name.
    pub valid: Duration,
    /// A log stays open once it was used so often within `inactive`.
    pub min_uses: u64,
}

/// A line, and where it goes.
pub struct NamedLine<'l> {
    /// The log's name.
    pub path: &'l str,
    /// With its line feed.
    pub text: &'l [u8],
    /// A folder without which it is not written; looked for on the pool.
    pub needs: Option<PathBuf>,
}

/// See the module's head.
#[derive(Default)]
pub struct NamedLogs(RefCell<Vec<Named>>);

struct Named {
    slot: Arc<Slot>,
    /// What is to be done on the pool, in the order of lines.
    jobs: Serial,
    uses: u64,
    used_ms: u64,
    checked_ms: u64,
}

/// What the pool knows of a log.
struct Slot {
    path: Box<str>,
    log: Mutex<Option<Arc<LogFile>>>,
    /// Bytes of lines that wait for the pool.
    waiting_bytes: AtomicUsize,
    /// It could be opened.
    is_good: AtomicBool,
}

impl Slot {
    fn log(&self) -> MutexGuard<'_, Option<Arc<LogFile>>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// On the pool: opens the log if need be and writes a line.
    fn write(&self, line: &[u8], check: bool, keep: bool) -> io::Result<()> {
        let have = self.log().take().filter(|log| !check || is_still(&self.path, log));
        let log = match have {
            Some(log) => log,
            None => Arc::new(open(&self.path)?),
        };
        log.write(line);
        self.is_good.store(true, Ordering::Relaxed);
        *self.log() = keep.then_some(log);
        Ok(())
    }
}

impl Named {
    fn new(path: &str, now_ms: u64) -> Named {
        let slot = Slot {
            path: path.into(),
            log: Mutex::default(),
            waiting_bytes: AtomicUsize::new(0),
            is_good: AtomicBool::new(false),
        };
        Named { slot: Arc::new(slot), jobs: Serial::default(), uses: 0, used_ms: now_ms, checked_ms: now_ms }
    }

    fn is_idle(&self) -> bool {
        self.jobs.waiting() == 0
    }

    fn is_good(&self) -> bool {
        self.slot.is_good.load(Ordering::Relaxed)
    }

    /// The log, if it is open or can be opened without waiting for the disk.
    fn at_hand(&self, keep: bool) -> Option<Arc<LogFile>> {
        let open = self.slot.log().clone().filter(|_| keep);
        open.or_else(|| {
            let fd = file::append_warm(Path::new(&*self.slot.path)).ok()?;
            Some(Arc::new(LogFile::new(LogTarget::File((*self.slot.path).into()), fd)))
        })
    }

    /// Has the pool write a line, if the folder `needs` is there; false if it is lost because the pool does not keep up.
    fn send(&self, line: &[u8], check: bool, keep: bool, needs: Option<PathBuf>, errors: ErrorLogs) -> bool {
        let waiting_bytes = &self.slot.waiting_bytes;
        if waiting_bytes.load(Ordering::Relaxed) + line.len() > LOG_UNREAD_BYTES_MAX {
            return false;
        }
        waiting_bytes.fetch_add(line.len(), Ordering::Relaxed);
        let (slot, line) = (self.slot.clone(), line.to_vec());
        let job = move || {
            if let Some(needs) = &needs
                && let Err(error) = is_folder(needs)
            {
                let why = brisk_conf::os_text(&error);
                errors.write(
                    LogLevel::Error,
                    format_args!("testing \"{}\" existence failed ({why})", needs.display()),
                );
            } else if let Err(error) = slot.write(&line, check, keep) {
                let why = brisk_conf::os_text(&error);
                errors.write(LogLevel::Crit, format_args!("open() \"{}\" failed ({why})", slot.path));
            }
            slot.waiting_bytes.fetch_sub(line.len(), Ordering::Relaxed);
        };
        self.jobs.run(job).is_ok()
    }
}

impl NamedLogs {
    /// Writes a line. Without a cache the log is opened for this line only. `errors` are told if it cannot be opened; false: the line is lost.
    pub fn write(
        &self,
        line: NamedLine<'_>,
        cache: Option<&NamedCache>,
        errors: impl FnOnce() -> ErrorLogs,
    ) -> bool {
        let NamedLine { path, text, needs } = line;
        let now_ms = clock::mono_ms();
        let mut list = self.0.borrow_mut();
        tidy_up(&mut list, cache, now_ms);
        let at = list.iter().position(|have| *have.slot.path == *path);
        let mut entry = at.map_or_else(|| Named::new(path, now_ms), |at| list.remove(at));
        entry.uses += 1;
        entry.used_ms = now_ms;
        let valid_ms = cache.map_or(0, |cache| cache.valid.as_millis() as u64);
        let check = now_ms.saturating_sub(entry.checked_ms) > valid_ms;
        let keep = cache.is_some_and(|cache| entry.uses >= cache.min_uses);
        let have = if entry.is_idle() && !check && needs.is_none() { entry.at_hand(keep) } else { None };
        let is_written = match have {
            Some(log) => {
                log.write(text);
                entry.slot.is_good.store(true, Ordering::Relaxed);
                *entry.slot.log() = keep.then_some(log);
                true
            }
            None => {
                if check {
                    entry.checked_ms = now_ms;
                }
                entry.send(text, check, keep, needs, errors())
            }
        };
        // The most recently used are last.
        list.push(entry);
        is_written
    }

    /// Whether no line waits for the pool.
    pub fn is_idle(&self) -> bool {
        self.0.borrow().iter().all(Named::is_idle)
    }

    /// Closes what is open, when the lines that wait have been written.
    pub fn clear(&self) {
        self.0.borrow_mut().clear();
    }
}

/// Drops what was not used for long, what could not be opened, and the oldest of what is too much.
fn tidy_up(list: &mut Vec<Named>, cache: Option<&NamedCache>, now_ms: u64) {
    let inactive_ms = cache.map_or(0, |cache| cache.inactive.as_millis() as u64);
    let is_fresh = |have: &Named| now_ms.saturating_sub(have.used_ms) <= inactive_ms;
    list.retain(|have| !have.is_idle() || (cache.is_some() && have.is_good() && is_fresh(have)));
    let Some(cache) = cache else { return };
    let mut surplus = list.iter().filter(|have| have.is_good()).count().saturating_sub(cache.max);
    list.retain(|have| {
        let goes = surplus > 0 && have.is_good() && have.is_idle();
        surplus -= usize::from(goes);
        !goes
    });
}

fn open(path: &str) -> io::Result<LogFile> {
    file::before_cold(Path::new(path));
    let target = LogTarget::File(path.into());
    let fd = LogFile::open(&target)?;
    Ok(LogFile::new(target, fd))
}

fn is_folder(path: &Path) -> io::Result<()> {
    let is_there = std::fs::metadata(path)?.is_dir();
    if is_there { Ok(()) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

/// Whether the log is the file that its name stands for now.
fn is_still(path: &str, log: &LogFile) -> bool {
    match (rustix::fs::stat(path), rustix::fs::fstat(log.fd().as_fd())) {
        (Ok(there), Ok(here)) => (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino),
        _ => false,
    }
}
