//! What the logs say of connections and requests.
//!
//! How lines are written and where logs are is `brisk_host`'s. Here is what of a request they show, in
//! nginx's order.

pub use brisk_host::live::log_error;
pub use brisk_host::log::{
    About, Buffering, Entry, ErrorLogs, Filter, Format, Gate, Limit, LogBuffers, LogFile, LogId, LogLevel,
    LogTarget, LogTo, MEMORY_LOG, NamedCache, NamedLine, Pack, Syslog, may_debug, set_debugs, stamp, write,
    write_all,
};

use crate::connection::Connection;
use crate::live::Live;
use crate::purity::Effects;
use crate::request::Request;
use crate::trace::{self, Kind, Note};
use std::fmt;

/// Looks whether everything about a new connection is to be logged.
pub(crate) fn accepted(live: &Live, conn: &Connection) {
    // One load per connection where nobody debugs.
    if !may_debug() {
        return;
    }
    conn.debug.set(live.snap.main.debugs(&conn.peer()));
    connection(live, conn, LogLevel::Debug, format_args!("accept: {}", conn.peer()));
}

/// Writes a message about a connection without a request, to the error logs of its socket's default server.
pub fn connection(live: &Live, conn: &Connection, level: LogLevel, message: fmt::Arguments<'_>) {
    let core = match conn.listener.id.get() {
        // Before a request there is no other configuration that could be asked.
        Some(id) => &live.snap.location(live.snap.server(live.snap.listen(id).default_server).root).core,
        // Its socket is not in the configuration any more: the outermost logs take what is said of it.
        None => &live.snap.core,
    };
    // Before the line is made: most messages are not wanted.
    if !conn.debug.get() && !core.logs(level) {
        return;
    }
    let mut entry = Entry::new(level, Some(conn.id), message);
    // As nginx: a debug line says no more than itself.
    if level != LogLevel::Debug {
        entry.about("client", conn.peer_text(), false);
        entry.about("server", conn.listener.address.to_string().as_bytes(), false);
    }
    write(&core.error_log, &live.logs, &entry, conn.debug.get());
}

/// Writes a message about a request, with the client and the request line behind it.
pub fn request(r: &Request, level: LogLevel, message: fmt::Arguments<'_>) {
    if !r.logs(level) {
        return;
    }
    // A request that got the same answer would have to say it, too.
    // An answer with a message is not prepared: the next one would be missing its line.
    r.does(Effects::TELLS);
    if may_debug() && trace::is_on() {
        trace::keep(Note::new(&r.route, Kind::Message(level), message.to_string()));
    }
    let mut entry = Entry::new(level, r.client.connection().map(|c| c.id), message);
    // A debug line would be ten times as long with what stands behind it.
    if level != LogLevel::Debug {
        entry.all_about(about(r));
    }
    write(
        &r.core().error_log,
        &r.live.logs,
        &entry,
        r.client.connection().is_some_and(|conn| conn.debug.get()),
    );
}

/// The error logs of a request's location.
pub fn logs_of(r: &Request) -> ErrorLogs {
    ErrorLogs::new(&r.core().error_log, &r.live.logs)
}

/// What stands behind a message about a request.
fn about(r: &Request) -> Vec<About> {
    // What clients send may be no UTF-8; a log is text.
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let mut about = Vec::new();
    // Subrequests of our own have no client.
    if r.client.connection().is_some() {
        about.push(("client", text(r.client_text()), false));
    }
    about.push(("server", text(&r.snap().server(r.route.server).name), false));
    let request_line = r.head.parsed.request_line.of(&r.head.buf);
    if !request_line.is_empty() {
        about.push(("request", text(request_line), true));
    }
    // It is filled by the engine for back ends; this crate knows only that it can be shown.
    if let Some(upstream) = r.flight.upstream() {
        about.push(("upstream", upstream, true));
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
    /// For the request that `r` is.
    pub fn of(r: &Request) -> Witness {
        let conn = r.client.connection();
        // All texts are made now, since the request may be gone when something is said.
        Witness {
            logs: logs_of(r),
            debug: conn.is_some_and(|conn| conn.debug.get()),
            connection: conn.map(|conn| conn.id),
            about: about(r),
        }
    }

    /// Writes to the request's error logs, as if it were still there.
    pub fn log(&self, level: LogLevel, message: fmt::Arguments<'_>) {
        // As for a request: the line is made only if it is wanted.
        if !self.debug && !self.logs.want(level) {
            return;
        }
        let mut entry = Entry::new(level, self.connection, message);
        entry.all_about(self.about.clone());
        self.logs.write_whole(&entry, self.debug);
    }
}

impl Request {
    /// Whether messages of this level are wanted.
    pub fn logs(&self, level: LogLevel) -> bool {
        self.core().logs(level) || self.client.connection().is_some_and(|conn| conn.debug.get())
    }

    /// Writes a message to the error logs of the location. Use [`rlog!`](crate::rlog).
    pub fn log(&self, level: LogLevel, message: fmt::Arguments<'_>) {
        request(self, level, message);
    }
}

/// `dlog!(r, "using configuration \"{}\"", name)`: a step of the request's way, for `error_log … debug` and
/// `debug_connection`. Where neither is configured it costs one branch.
#[macro_export]
macro_rules! dlog {
    ($r:expr, $($arg:tt)*) => {
        if $crate::log::may_debug() {
            $crate::rlog!($r, Debug, $($arg)*);
        }
    };
}

/// `rlog!(r, Error, "open() \"{}\" failed", path)`: to the error logs, if the level is wanted.
#[macro_export]
macro_rules! rlog {
    ($r:expr, $level:ident, $($arg:tt)*) => {
        if $r.logs($crate::log::LogLevel::$level) {
            $r.log($crate::log::LogLevel::$level, format_args!($($arg)*));
        }
    };
}
