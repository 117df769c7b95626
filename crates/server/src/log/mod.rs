//! Log files, and the lines of the error log.
//!
//! Access log lines are collected per thread and file and written when the loop goes to sleep: one write for all
//! requests of a wake-up, whole lines only, each file opened for appending. Error lines are written at once.

mod buffers;
mod syslog;

pub use buffers::{Buffering, LogBuffers, NamedCache, Pack};
pub use syslog::Syslog;

use crate::conf::LogTarget;
use crate::connection::Connection;
use crate::core::LogLevel;
use crate::request::Request;
use crate::thread::Live;
use brisk_net::{clock, sys};
use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An open log, shared by all threads and by all configurations that name it.
pub struct LogFile {
    pub target: LogTarget,
    fd: OwnedFd,
    /// Lines that could not be written (full disk).
    pub lost: AtomicU64,
}

impl LogFile {
    pub fn new(target: LogTarget, fd: OwnedFd) -> LogFile {
        LogFile { target, fd, lost: AtomicU64::new(0) }
    }

    /// Opens a log for appending.
    pub fn open(target: &LogTarget) -> io::Result<OwnedFd> {
        match target {
            LogTarget::Stderr => Ok(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3)?),
            LogTarget::Syslog(syslog) => syslog.socket(),
            LogTarget::File(path) => {
                use rustix::fs::{Mode, OFlags};
                let flags =
                    OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOCTTY;
                let mode = Mode::from_raw_mode(0o644);
                match rustix::fs::open(path.as_str(), flags, mode) {
                    // /dev/stdout may be a socket (systemd, a supervisor), which cannot be opened by name.
                    Err(rustix::io::Errno::NXIO) => match path.as_str() {
                        "/dev/stdout" | "/proc/self/fd/1" => {
                            Ok(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?)
                        }
                        "/dev/stderr" | "/proc/self/fd/2" => {
                            Ok(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3)?)
                        }
                        _ => Err(rustix::io::Errno::NXIO.into()),
                    },
                    done => Ok(done?),
                }
            }
        }
    }

    /// From now on all threads write to `fd`.
    pub fn replace(&self, fd: &OwnedFd) -> io::Result<()> {
        sys::replace_fd(fd.as_fd(), self.fd.as_fd())
    }

    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Writes a line of an error log.
    pub fn message(&self, level: LogLevel, line: &str) {
        match &self.target {
            LogTarget::Syslog(syslog) => {
                let line = line.trim_end_matches('\n').as_bytes();
                self.count(syslog.send(&self.fd, Some(level as u8 - 1), line), 1);
            }
            _ => self.write(line.as_bytes()),
        }
    }

    fn count(&self, done: io::Result<()>, lines: u64) {
        if done.is_err() {
            self.lost.fetch_add(lines, Ordering::Relaxed);
        }
    }

    /// Writes whole lines. What cannot be written is counted and given up: a full disk stops nothing.
    pub fn write(&self, mut lines: &[u8]) {
        if let LogTarget::Syslog(syslog) = &self.target {
            let line = lines.strip_suffix(b"\n").unwrap_or(lines);
            self.count(syslog.send(&self.fd, None, line), 1);
            return;
        }
        while !lines.is_empty() {
            match rustix::io::write(&self.fd, lines) {
                Ok(count) => lines = &lines[count..],
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => {
                    let lost = lines.iter().filter(|&&b| b == b'\n').count() as u64;
                    self.lost.fetch_add(lost, Ordering::Relaxed);
                    return;
                }
            }
        }
    }
}

thread_local! {
    static STAMP: RefCell<(i64, String)> = const { RefCell::new((0, String::new())) };
}

/// `2026/11/20 22:46:01`.
pub fn stamp(secs: i64) -> String {
    STAMP.with_borrow_mut(|(at, text)| {
        if *at != secs {
            *at = secs;
            let t = sys::local_time(secs);
            text.clear();
            let _ = write!(
                text,
                "{:04}/{:02}/{:02} {:02}:{:02}:{:02}",
                t.year, t.month, t.day, t.hour, t.minute, t.second
            );
        }
        text.clone()
    })
}

/// A line as nginx writes it: time, level, process and thread, connection, message.
pub fn line(level: LogLevel, connection: Option<u64>, message: fmt::Arguments<'_>) -> String {
    let pid = rustix::process::getpid().as_raw_nonzero();
    let mut out = format!("{} [{}] {pid}#{pid}: ", stamp(clock::now().unix_secs), level.as_str());
    if let Some(id) = connection {
        let _ = write!(out, "*{id} ");
    }
    let _ = write!(out, "{message}");
    // A message may quote what a stranger sent: one message stays one line.
    let mut safe = String::with_capacity(out.len() + 1);
    for c in out.chars() {
        if c.is_control() {
            let _ = write!(safe, "\\x{:02X}", c as u32);
        } else {
            safe.push(c);
        }
    }
    safe.push('\n');
    safe
}

/// A location's error logs, for what happens on another thread when the request may be gone.
pub struct ErrorLogs(Vec<(LogLevel, Arc<LogFile>)>);

impl ErrorLogs {
    pub fn of(r: &Request) -> ErrorLogs {
        let logs = r.core().error_log.iter();
        ErrorLogs(logs.map(|to| (to.level, r.live.logs[to.log.0 as usize].clone())).collect())
    }

    pub fn write(&self, level: LogLevel, message: fmt::Arguments<'_>) {
        clock::refresh();
        let line = line(level, None, message);
        for (_, log) in self.0.iter().filter(|(wanted, _)| *wanted >= level) {
            log.message(level, &line);
        }
    }
}

/// Writes a message about a connection without a request, to the error logs of its socket's default server.
pub fn connection(live: &Live, conn: &Connection, level: LogLevel, message: fmt::Arguments<'_>) {
    let core = match conn.listener.id.get() {
        Some(id) => &live.snap.location(live.snap.server(live.snap.listen(id).default_server).root).core,
        None => &live.snap.core,
    };
    if !core.error_log.iter().any(|to| to.level >= level) {
        return;
    }
    let (client, server) = (String::from_utf8_lossy(&conn.peer_text), &conn.listener.address);
    let line = line(level, Some(conn.id), format_args!("{message}, client: {client}, server: {server}"));
    for to in core.error_log.iter().filter(|to| to.level >= level) {
        live.logs[to.log.0 as usize].message(level, &line);
    }
}

/// Writes a message about a request, with the client and the request line behind it.
pub fn request(r: &Request, level: LogLevel, message: fmt::Arguments<'_>) {
    let line = line(level, r.conn.as_ref().map(|c| c.id), format_args!("{message}{}", About(r)));
    for to in r.core().error_log.iter().filter(|to| to.level >= level) {
        r.live.logs[to.log.0 as usize].message(level, &line);
    }
}

/// What stands behind a message about a request.
struct About<'a>(&'a Request);

impl fmt::Display for About<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let r = self.0;
        if r.conn.is_some() {
            write!(f, ", client: {}", String::from_utf8_lossy(r.client_text()))?;
        }
        write!(f, ", server: {}", String::from_utf8_lossy(&r.snap().server(r.server).name))?;
        let request_line = r.head.request_line.of(&r.buf);
        if !request_line.is_empty() {
            write!(f, ", request: \"{}\"", String::from_utf8_lossy(request_line))?;
        }
        if let Some(upstream) = &r.upstream {
            write!(f, ", upstream: \"{upstream}\"")?;
        }
        if let Some(host) = r.header(brisk_http::HeaderId::Host) {
            write!(f, ", host: \"{}\"", String::from_utf8_lossy(host))?;
        }
        if let Some(referer) = r.header(brisk_http::HeaderId::Referer) {
            write!(f, ", referrer: \"{}\"", String::from_utf8_lossy(referer))?;
        }
        Ok(())
    }
}

/// The error logs of a request and what is said of it there, for what goes on when the request is not at hand. It keeps
/// no configuration alive.
pub struct Witness {
    logs: Vec<(LogLevel, Arc<LogFile>)>,
    connection: Option<u64>,
    about: String,
}

impl Witness {
    pub fn of(r: &Request) -> Witness {
        let logs = r.core().error_log.iter();
        Witness {
            logs: logs.map(|to| (to.level, r.live.logs[to.log.0 as usize].clone())).collect(),
            connection: r.conn.as_ref().map(|conn| conn.id),
            about: About(r).to_string(),
        }
    }

    pub fn log(&self, level: LogLevel, message: fmt::Arguments<'_>) {
        if !self.logs.iter().any(|(wanted, _)| *wanted >= level) {
            return;
        }
        let line = line(level, self.connection, format_args!("{message}{}", self.about));
        for (_, log) in self.logs.iter().filter(|(wanted, _)| *wanted >= level) {
            log.message(level, &line);
        }
    }
}
