//! Log files, and the lines of the error log.
//!
//! Access log lines are collected per thread and file and written when the loop goes to sleep: one write for all
//! requests of a wake-up, whole lines only, each file opened for appending. Error lines are written at once.

mod buffers;
mod file;
mod named;

pub use brisk_host::log::{
    About, Entry, Filter, Format, Gate, Limit, LogId, LogLevel, LogTarget, LogTo, MEMORY_LOG, Passage,
    Syslog, memory, stamp,
};
pub use buffers::{Buffering, LogBuffers, Pack};
pub use file::LogFile;
pub use named::NamedCache;

use crate::connection::Connection;
use crate::request::Request;
use crate::thread::Live;
use brisk_net::clock;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether some request of the live configuration may be logged at level debug. While none may, that costs one branch at
/// each place that has something to say.
static DEBUGS: AtomicBool = AtomicBool::new(false);

/// A configuration goes live.
pub(crate) fn set_debugs(debugs: bool) {
    DEBUGS.store(debugs, Ordering::Relaxed);
}

/// For [`dlog!`](crate::dlog) alone; whether this request is logged so is for [`Request::logs`] to say.
#[inline]
pub fn may_debug() -> bool {
    DEBUGS.load(Ordering::Relaxed)
}

/// Looks whether everything about a new connection is to be logged.
pub(crate) fn accepted(live: &Live, conn: &Connection) {
    if !may_debug() {
        return;
    }
    conn.debug.set(live.snap.main.debugs(&conn.peer));
    connection(live, conn, LogLevel::Debug, format_args!("accept: {}", conn.peer));
}

/// Writes a message to those of the logs that want it.
pub fn write_all(list: &[LogTo], logs: &[Arc<LogFile>], entry: &Entry<'_>) {
    write(list, logs, entry, false);
}

/// Writes a message that is urgent enough, unless a filter or the rate keeps it back.
fn write_to(to: &LogTo, log: &LogFile, entry: &Entry<'_>) {
    match to.gate.as_ref().map_or(Passage::Write, |gate| gate.passage(entry)) {
        Passage::Write => log.message(entry, to.format),
        Passage::Announce => {
            let text = format_args!("too many log messages, limiting");
            log.message(&Entry::new(entry.level, None, text), to.format);
        }
        Passage::Drop => {}
    }
}

/// A location's error logs, for what happens on another thread when the request may be gone.
pub struct ErrorLogs(Vec<(LogTo, Arc<LogFile>)>);

impl ErrorLogs {
    pub fn of(r: &Request) -> ErrorLogs {
        let logs = r.core().error_log.iter();
        ErrorLogs(logs.map(|to| (to.clone(), r.live.logs[to.log.0 as usize].clone())).collect())
    }

    /// The main level's, for what belongs to no request.
    pub fn main(live: &Live) -> ErrorLogs {
        let logs = live.snap.core.error_log.iter();
        ErrorLogs(logs.map(|to| (to.clone(), live.logs[to.log.0 as usize].clone())).collect())
    }

    pub fn write(&self, level: LogLevel, message: fmt::Arguments<'_>) {
        clock::refresh();
        self.write_entry(&Entry::new(level, None, message));
    }

    fn write_entry(&self, entry: &Entry<'_>) {
        for (to, log) in self.0.iter().filter(|(to, _)| to.level >= entry.level) {
            write_to(to, log, entry);
        }
    }
}

/// Writes a message about a connection without a request, to the error logs of its socket's default server.
pub fn connection(live: &Live, conn: &Connection, level: LogLevel, message: fmt::Arguments<'_>) {
    let core = match conn.listener.id.get() {
        Some(id) => &live.snap.location(live.snap.server(live.snap.listen(id).default_server).root).core,
        None => &live.snap.core,
    };
    if !conn.debug.get() && !core.logs(level) {
        return;
    }
    let mut entry = Entry::new(level, Some(conn.id), message);
    // As nginx: a debug line says no more than itself.
    if level != LogLevel::Debug {
        entry.about("client", &conn.peer_text, false);
        entry.about("server", conn.listener.address.to_string().as_bytes(), false);
    }
    write(&core.error_log, &live.logs, &entry, conn.debug.get());
}

/// Writes a message to those of the logs that want it, or to all of them.
fn write(list: &[LogTo], logs: &[Arc<LogFile>], entry: &Entry<'_>, to_all: bool) {
    for to in list.iter().filter(|to| to_all || to.level >= entry.level) {
        write_to(to, &logs[to.log.0 as usize], entry);
    }
}

/// Writes a message about a request, with the client and the request line behind it.
pub fn request(r: &Request, level: LogLevel, message: fmt::Arguments<'_>) {
    if !r.logs(level) {
        return;
    }
    let mut entry = Entry::new(level, r.conn.as_ref().map(|c| c.id), message);
    if level != LogLevel::Debug {
        entry.all_about(about(r));
    }
    write(&r.core().error_log, &r.live.logs, &entry, r.conn.as_ref().is_some_and(|conn| conn.debug.get()));
}

/// What stands behind a message about a request.
fn about(r: &Request) -> Vec<About> {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let mut about = Vec::new();
    if r.conn.is_some() {
        about.push(("client", text(r.client_text()), false));
    }
    about.push(("server", text(&r.snap().server(r.server).name), false));
    let request_line = r.head.request_line.of(&r.buf);
    if !request_line.is_empty() {
        about.push(("request", text(request_line), true));
    }
    if let Some(upstream) = &r.upstream {
        about.push(("upstream", upstream.to_string(), true));
    }
    if let Some(host) = r.header(brisk_http::HeaderId::Host) {
        about.push(("host", text(host), true));
    }
    if let Some(referer) = r.header(brisk_http::HeaderId::Referer) {
        about.push(("referrer", text(referer), true));
    }
    about
}

/// The error logs of a request and what is said of it there, for what goes on when the request is not at hand. It keeps
/// no configuration alive.
pub struct Witness {
    logs: ErrorLogs,
    /// `debug_connection`.
    debug: bool,
    connection: Option<u64>,
    about: Vec<About>,
}

impl Witness {
    pub fn of(r: &Request) -> Witness {
        let conn = r.conn.as_ref();
        Witness {
            logs: ErrorLogs::of(r),
            debug: conn.is_some_and(|conn| conn.debug.get()),
            connection: conn.map(|conn| conn.id),
            about: about(r),
        }
    }

    pub fn log(&self, level: LogLevel, message: fmt::Arguments<'_>) {
        if !self.debug && !self.logs.0.iter().any(|(to, _)| to.level >= level) {
            return;
        }
        let mut entry = Entry::new(level, self.connection, message);
        entry.all_about(self.about.clone());
        for (to, log) in self.logs.0.iter().filter(|(to, _)| self.debug || to.level >= level) {
            log.message(&entry, to.format);
        }
    }
}
