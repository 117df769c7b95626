//! What a tier says of itself: pools of workers, databases. Pages and answers are data; [`Asker`] is the one place that asks.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use serde_json::Value;

use super::mysql::{Database, Session};
use crate::limits::{ASK_TIME_MAX, STATUS_BYTES_MAX};
use crate::plan::{Endpoint, Url};

/// Where a tier tells of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// PHP-FPM's status page.
    Fpm(Url),
    /// Apache's `server-status?auto`.
    Apache(Url),
    /// Brisk's API (`/api/9`).
    Brisk(Url),
    /// MySQL or MariaDB.
    Database(Database),
}

/// A pool of workers at one moment, each of which serves one request at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Workers {
    /// At work.
    pub busy: u32,
    /// There are so many, or at most may be.
    pub total: u32,
    /// Requests that wait for one.
    pub queued: u32,
    /// How often the pool would have started another one and was not allowed to, since it was started.
    pub limit_hits: u64,
}

/// A database at one moment. Counters are since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Queries {
    /// Threads that carry something out, the one that asks not counted.
    pub running: u32,
    /// Connections.
    pub connected: u32,
    /// Connections that were refused because there were too many.
    pub refused: u64,
    /// Connections that it allows.
    pub connected_max: u32,
    /// Transactions that wait for a row's lock.
    pub locked: u32,
    /// Waits for rows' locks.
    pub lock_waits: u64,
    /// How long they were, together, in milliseconds.
    pub lock_ms: u64,
    /// Pages read into the buffer pool from the disk, because they were not there.
    pub disk_reads: u64,
    /// Pages that were wanted.
    pub page_requests: u64,
    /// Reads and writes that the disk has not answered yet.
    pub disk_pending: u32,
    /// Queries that took longer than `long_query_time`.
    pub slow: u64,
}

/// What a tier said at one look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Inside {
    /// It has nobody to ask.
    #[default]
    Unknown,
    /// It did not answer in time, or not as it should.
    Silent,
    /// A pool.
    Workers(Workers),
    /// A database.
    Queries(Queries),
}

/// The figures of PHP-FPM's status page, as JSON or as text. The request for it has a worker of its own, which is not counted.
fn fpm(text: &str) -> Option<(Workers, String)> {
    let json: Option<Value> = serde_json::from_str(text).ok();
    let field = |name: &str| match &json {
        Some(all) => {
            all.get(name).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        }
        None => text.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            (found == name).then(|| value.trim().to_owned())
        }),
    };
    let number = |name: &str| field(name)?.parse::<u64>().ok();
    let workers = Workers {
        busy: (number("active processes")? as u32).saturating_sub(1),
        total: number("total processes")? as u32,
        queued: number("listen queue").unwrap_or(0) as u32,
        limit_hits: number("max children reached").unwrap_or(0),
    };
    Some((workers, field("pool")?))
}

/// Apache's scoreboard: a letter per worker, `_` idle, `.` a slot without one. The one that answers is not counted.
fn apache(text: &str) -> Option<Workers> {
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let board = value("Scoreboard")?;
    let count = |what: char| board.chars().filter(|&slot| slot == what).count() as u32;
    let total = board.chars().count() as u32;
    // Event's processes put connections aside that only wait.
    let busy = (total - count('_') - count('.')).saturating_sub(1);
    Some(Workers { busy, total, ..Workers::default() })
}

/// Brisk's groups of back ends: places that `max_conns` gives, and requests that wait for one. `None`: this is not its API.
fn brisk(text: &str) -> Option<Workers> {
    let groups: BTreeMap<String, Value> = serde_json::from_str(text).ok()?;
    let mut sum = Workers::default();
    for group in groups.values() {
        for peer in group.get("peers")?.as_array()? {
            let number = |name: &str| peer.get(name).and_then(Value::as_u64);
            if let Some(max) = number("max_conns") {
                sum.total += max as u32;
                sum.busy += number("active")? as u32;
            }
        }
        let queue = |name: &str| group.pointer(name).and_then(Value::as_u64).unwrap_or(0);
        sum.queued += queue("/queue/size") as u32;
    }
    Some(sum)
}

/// `SHOW GLOBAL STATUS` and the variable `max_connections`.
fn queries(status: &BTreeMap<String, String>, connected_max: u32) -> Option<Queries> {
    let number = |name: &str| status.get(name)?.parse::<u64>().ok();
    let or_zero = |name: &str| number(name).unwrap_or(0);
    Some(Queries {
        running: (number("Threads_running")? as u32).saturating_sub(1),
        connected: number("Threads_connected")? as u32,
        refused: or_zero("Connection_errors_max_connections"),
        connected_max,
        locked: or_zero("Innodb_row_lock_current_waits") as u32,
        lock_waits: or_zero("Innodb_row_lock_waits") + or_zero("Table_locks_waited"),
        lock_ms: or_zero("Innodb_row_lock_time"),
        disk_reads: or_zero("Innodb_buffer_pool_reads"),
        page_requests: or_zero("Innodb_buffer_pool_read_requests"),
        disk_pending: (or_zero("Innodb_data_pending_reads")
            + or_zero("Innodb_data_pending_writes")
            + or_zero("Innodb_data_pending_fsyncs")) as u32,
        slow: or_zero("Slow_queries"),
    })
}

/// Asks one source, again and again.
#[derive(Debug)]
pub struct Asker {
    source: Source,
    session: Option<(Session, u32)>,
}

fn bad(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_string())
}

impl Asker {
    /// Of this source.
    pub fn new(source: Source) -> Self {
        Self { source, session: None }
    }

    /// Asks. The error says what came instead.
    pub fn ask(&mut self) -> io::Result<Inside> {
        let not = |what: &str, url: &Url| bad(format_args!("{url} is not {what}"));
        match &self.source {
            Source::Fpm(url) => {
                let found =
                    fpm(&page(url)?).ok_or_else(|| not("PHP-FPM's status page (pm.status_path)", url))?;
                Ok(Inside::Workers(found.0))
            }
            Source::Apache(url) => {
                let query = if url.path.contains('?') { "" } else { "?auto" };
                let found = apache(&page(&Url { path: format!("{}{query}", url.path), ..url.clone() })?);
                found.map(Inside::Workers).ok_or_else(|| not("Apache's server-status?auto", url))
            }
            Source::Brisk(url) => {
                let path = format!("{}/http/upstreams", url.path.trim_end_matches('/'));
                let found = brisk(&page(&Url { path, ..url.clone() })?);
                found.map(Inside::Workers).ok_or_else(|| not("Brisk's API (write e.g. http://…/api/9)", url))
            }
            Source::Database(database) => {
                let database = database.clone();
                let asked = self.ask_database(&database);
                if asked.is_err() {
                    self.session = None;
                }
                asked
            }
        }
    }

    fn ask_database(&mut self, database: &Database) -> io::Result<Inside> {
        if self.session.is_none() {
            let mut session = Session::open(database)?;
            let variables = session.pairs("SHOW GLOBAL VARIABLES LIKE 'max_connections'")?;
            let max = variables.get("max_connections").and_then(|text| text.parse().ok()).unwrap_or(0);
            self.session = Some((session, max));
        }
        let Some((session, max)) = &mut self.session else { return Ok(Inside::Unknown) };
        let status = session.pairs("SHOW GLOBAL STATUS")?;
        queries(&status, *max).map(Inside::Queries).ok_or_else(|| bad("the database's status has no threads"))
    }

    /// The pool that PHP-FPM's page is about: its processes are found by that name.
    pub fn pool(&self) -> io::Result<Option<String>> {
        let Source::Fpm(url) = &self.source else { return Ok(None) };
        let found = fpm(&page(url)?);
        found
            .map(|(_, name)| Some(name))
            .ok_or_else(|| bad(format_args!("{url} is not PHP-FPM's status page")))
    }
}

/// The body of a page: one request on a connection of its own, by HTTP/1.0, so that the body ends with the connection.
fn page(url: &Url) -> io::Result<String> {
    if url.origin.secure {
        return Err(bad(format_args!("{url}: status pages are asked by http, on the machine itself")));
    }
    let request = format!("GET {} HTTP/1.0\r\nHost: {}\r\n\r\n", url.path, url.origin.authority());
    match url.endpoint().map_err(bad)? {
        Endpoint::Tcp(address) => {
            let stream = TcpStream::connect_timeout(&address, ASK_TIME_MAX)?;
            stream.set_read_timeout(Some(ASK_TIME_MAX))?;
            exchange(stream, &request, url)
        }
        Endpoint::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(ASK_TIME_MAX))?;
            exchange(stream, &request, url)
        }
    }
}

fn exchange(mut stream: impl io::Read + Write, request: &str, url: &Url) -> io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut bytes = Vec::new();
    stream.take(STATUS_BYTES_MAX as u64).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| bad(format_args!("{url}: no answer")))?;
    match head.split_whitespace().nth(1) {
        Some("200") => Ok(body.to_owned()),
        status => Err(bad(format_args!("{url}: status {}", status.unwrap_or("none")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_php_fpm() {
        let text = "pool:                 www\nprocess manager:      static\nlisten queue:         14\n\
            max listen queue:     20\nlisten queue len:     511\nidle processes:       0\nactive processes:     6\n\
            total processes:      6\nmax children reached: 3\nslow requests:        0\n";
        let want = Workers { busy: 5, total: 6, queued: 14, limit_hits: 3 };
        assert_eq!(fpm(text), Some((want, "www".to_owned())));
        let json = r#"{"pool":"www","listen queue":14,"active processes":6,"total processes":6,"max children reached":3}"#;
        assert_eq!(fpm(json), Some((want, "www".to_owned())));
        assert_eq!((fpm("hello"), fpm("{}")), (None, None));
    }

    #[test]
    fn scoreboards() {
        let text = "BusyWorkers: 3\nIdleWorkers: 2\nScoreboard: W_WK_...\n";
        assert_eq!(apache(text), Some(Workers { busy: 2, total: 8, ..Workers::default() }));
        assert_eq!(apache("<html>"), None);
    }

    #[test]
    fn groups_of_brisk() {
        let text = r#"{"php":{"peers":[{"active":4,"max_conns":6},{"active":9}],"queue":{"size":3,"max_size":10}},"x":{"peers":[]}}"#;
        let want = Workers { busy: 4, total: 6, queued: 3, limit_hits: 0 };
        assert_eq!((brisk(text), brisk("[]"), brisk(r#"{"a":1}"#)), (Some(want), None, None));
    }

    #[test]
    fn a_database_s_status() {
        let rows = [
            ("Threads_running", "9"),
            ("Threads_connected", "20"),
            ("Innodb_row_lock_current_waits", "7"),
            ("Innodb_row_lock_time", "12000"),
            ("Innodb_row_lock_waits", "5"),
            ("Innodb_data_pending_reads", "2"),
        ];
        let status = rows.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let found = queries(&status, 151).unwrap();
        assert_eq!((found.running, found.connected, found.connected_max, found.locked), (8, 20, 151, 7));
        assert_eq!((found.lock_ms, found.lock_waits, found.disk_pending, found.slow), (12_000, 5, 2, 0));
        assert_eq!(queries(&BTreeMap::new(), 1), None);
    }
}
