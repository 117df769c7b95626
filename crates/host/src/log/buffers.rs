//! One thread's unwritten lines.

use super::file::LogFile;
use super::named::NamedLogs;
use super::target::LogTarget;
use crate::limits::{LOG_BUFFER_BYTES, LOG_PACKS_WAITING_MAX, LOGS_KEPT_MAX};
use brisk_net::blocking::Serial;
use brisk_net::{clock, sleep_until};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

/// Changes a buffer's bytes before they are written: compression.
pub type Pack = dyn Fn(&[u8]) -> Vec<u8> + Send + Sync;

/// How long lines are kept back: `access_log … buffer= flush= gzip=`.
pub struct Buffering {
    /// Lines are written when there are so many bytes.
    pub bytes: usize,
    /// Zero: until the buffer is full.
    pub flush: Duration,
    /// `gzip=`.
    pub pack: Option<Box<Pack>>,
}

struct Buffer {
    log: Arc<LogFile>,
    lines: Vec<u8>,
    how: Option<Arc<Buffering>>,
    /// When the lines are written at the latest; 0: when the thread goes to sleep.
    due_ms: u64,
    /// When a task looks for lines that are due; 0: none is under way.
    timer_ms: u64,
    /// Where lines are packed.
    packing: Serial,
}

impl Buffer {
    fn write(&mut self) {
        match &self.how {
            _ if self.lines.is_empty() => {}
            Some(how) if how.pack.is_some() => self.pack(how.clone()),
            _ => {
                self.log.write(&self.lines);
                self.lines.clear();
            }
        }
    }

    /// Compresses on the pool, unless that does not keep up.
    fn pack(&mut self, how: Arc<Buffering>) {
        let (log, lines) = (self.log.clone(), Arc::<[u8]>::from(std::mem::take(&mut self.lines)));
        let write = move |log: &LogFile, lines: &[u8]| {
            if let Some(pack) = &how.pack {
                log.write(&pack(lines));
            }
        };
        if self.packing.waiting() < LOG_PACKS_WAITING_MAX {
            let (write, log, lines) = (write.clone(), log.clone(), lines.clone());
            if self.packing.run(move || write(&log, &lines)).is_ok() {
                return;
            }
        }
        write(&log, &lines);
    }

    /// Has a task look when the lines are due: one for a buffer, however often it is filled until then.
    fn watch(&mut self, due: fn()) {
        // Another configuration may keep lines for less long than the one that began.
        let is_watched = self.timer_ms != 0 && self.timer_ms <= self.due_ms;
        if is_watched || matches!(self.due_ms, 0 | u64::MAX) {
            return;
        }
        let at_ms = self.due_ms;
        self.timer_ms = at_ms;
        brisk_net::spawn(async move {
            sleep_until(at_ms).await;
            due();
        });
    }

    /// Nothing waits to be written.
    fn is_idle(&self) -> bool {
        self.lines.is_empty() && self.packing.waiting() == 0
    }
}

/// See [the module's](super) head.
pub struct LogBuffers {
    buffers: RefCell<Vec<Buffer>>,
    /// Called on this thread when lines are due that were kept back: calls [`LogBuffers::flush_due`] of these buffers.
    due: fn(),
    /// Those whose names depend on requests.
    pub named: NamedLogs,
}

impl LogBuffers {
    /// Without lines. `due` calls [`LogBuffers::flush_due`] of the buffers that the present thread keeps.
    pub fn new(due: fn()) -> LogBuffers {
        LogBuffers { buffers: RefCell::default(), due, named: NamedLogs::default() }
    }

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
                buffers.push(Buffer {
                    log: log.clone(),
                    lines: Vec::new(),
                    how: None,
                    due_ms: 0,
                    timer_ms: 0,
                    packing: Serial::default(),
                });
                buffers.len() - 1
            }
        };
        let buffer = &mut buffers[at];
        if buffer.lines.is_empty() {
            begin(buffer, how);
            buffer.watch(self.due);
        }
        write(&mut buffer.lines);
        if buffer.lines.len() >= buffer.how.as_ref().map_or(LOG_BUFFER_BYTES, |how| how.bytes) {
            buffer.write();
        }
    }

    /// Whether [`LogBuffers::flush_due`] has something to do that no timer brings about: lines that are not buffered, logs to close.
    pub fn is_due(&self) -> bool {
        let buffers = self.buffers.borrow();
        let is_due =
            |buffer: &Buffer| (buffer.due_ms == 0 && !buffer.lines.is_empty()) || buffer.log.is_retired();
        buffers.len() > LOGS_KEPT_MAX || buffers.iter().any(is_due)
    }

    /// Writes what need not wait.
    pub fn flush_due(&self) {
        let mut buffers = self.buffers.borrow_mut();
        let now = if buffers.iter().any(|buffer| buffer.due_ms != 0) { clock::mono_ms() } else { 0 };
        let (are_many, mut has_retired) = (buffers.len() > LOGS_KEPT_MAX, false);
        for buffer in buffers.iter_mut() {
            let is_retired = buffer.log.is_retired();
            has_retired |= is_retired;
            if buffer.due_ms <= now || is_retired {
                buffer.write();
            }
            if buffer.timer_ms != 0 && buffer.timer_ms <= now {
                buffer.timer_ms = 0;
                if !buffer.lines.is_empty() {
                    buffer.watch(self.due);
                }
            }
        }
        if are_many || has_retired {
            // A log that no configuration names is closed.
            buffers.retain(|buffer| !(buffer.is_idle() && (are_many || buffer.log.is_retired())));
        }
    }

    /// Writes everything and closes what requests have opened.
    pub fn flush(&self) {
        self.buffers.borrow_mut().iter_mut().for_each(Buffer::write);
        self.named.clear();
    }
}

/// The first line of an empty buffer is about to come.
fn begin(buffer: &mut Buffer, how: Option<&Arc<Buffering>>) {
    buffer.how = how.cloned();
    buffer.due_ms = match how {
        None => 0,
        Some(how) if how.flush.is_zero() => u64::MAX,
        Some(how) => clock::mono_ms() + how.flush.as_millis() as u64,
    };
}
