//! What a database is asked while a site is under load: which queries run, what they wait for, and afterwards how it carries them out.
//!
//! Nothing is changed: what is asked are lists of the server's own, and `EXPLAIN` of queries that only read, in a transaction that may not write.

use crate::limits::{DOCTOR_QUERIES_MAX, DOCTOR_QUERY_BYTES_MAX};
use brisk_load::watch::{Database, DatabasePlace, Listener, Session, Source, listeners_of, proc};
use brisk_tune::diagnosis::figures::{Plan, SlowQuery};
use brisk_tune::ini::{Comments, Ini};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often it is asked which queries run.
const EVERY: Duration = Duration::from_millis(100);
/// Sections of an option file that clients read.
const SECTIONS: &[&str] = &["client", "client-server", "client-mariadb", "mysql", "mariadb-client"];
/// Names of the server's programs.
const PROGRAMS: &[&str] = &["mariadbd", "mysqld"];
/// Not `information_schema`, which makes a temporary table on a disk for each look.
const RUNNING: &str = "SHOW FULL PROCESSLIST";
/// What is asked from here.
const OWN: &[&str] = &[RUNNING, "SHOW GLOBAL STATUS"];
const DISK_TABLES: &str = "SHOW GLOBAL STATUS LIKE 'Created_tmp_disk_tables'";

/// A client's options: of this file, else of `~/.my.cnf`, where there is one.
fn options(file: Option<&str>) -> Result<Ini, String> {
    let mut ini = Ini::default();
    let usual = std::env::var_os("HOME")
        .map(|home| PathBuf::from(home).join(".my.cnf"))
        .filter(|path| path.is_file());
    let path = file.map(PathBuf::from).or(usual);
    if let Some(path) = &path {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        ini.read(&path.to_string_lossy(), &text, Comments::Hashes);
    }
    Ok(ini)
}

fn option(ini: &Ini, name: &str) -> Option<String> {
    ini.get_in(SECTIONS, name).map(|entry| entry.value.trim_matches(['"', '\'']).to_owned())
}

/// The account that these options name, at this place.
fn account_at(place: DatabasePlace, ini: &Ini) -> Database {
    let user = option(ini, "user").unwrap_or_else(|| "root".to_owned());
    Database { place, user, password: option(ini, "password").unwrap_or_default() }
}

/// The account for the server at this socket: that of the option file, else root.
pub fn account(file: Option<&str>, socket: &str) -> Result<Database, String> {
    Ok(account_at(DatabasePlace::Unix(socket.into()), &options(file)?))
}

/// The account and place of the option file, else root at the socket of the server that runs here.
pub fn login(file: Option<&str>) -> Result<Source, String> {
    let ini = options(file)?;
    let option = |name: &str| option(&ini, name);
    let place = match (option("socket"), option("host")) {
        (Some(socket), _) => DatabasePlace::Unix(socket.into()),
        (None, Some(host)) if host != "localhost" => {
            let port = option("port").and_then(|port| port.parse().ok()).unwrap_or(3306);
            DatabasePlace::Tcp(host, port)
        }
        _ => {
            DatabasePlace::Unix(socket().ok_or("it is not one MariaDB or MySQL alone that runs here")?.into())
        }
    };
    let database = account_at(place, &ini);
    Session::open(&database).map_err(|error| error.to_string())?;
    Ok(Source::Database(database))
}

/// Servers that run here.
pub fn processes() -> Vec<(&'static str, u32)> {
    PROGRAMS
        .iter()
        .flat_map(|name| proc::with_command(name).into_iter().map(move |pid| (*name, pid)))
        .collect()
}

/// The processes of the one that is asked.
pub fn pids(source: &Source) -> Vec<u32> {
    let Source::Database(database) = source else { return Vec::new() };
    match &database.place {
        DatabasePlace::Unix(path) => proc::listening_at(path),
        DatabasePlace::Tcp(_, port) => proc::listening_on(*port),
    }
}

/// Where the server that runs here listens. Of several nobody knows which one is the site's.
fn socket() -> Option<String> {
    let all = processes();
    let [(_, pid)] = all[..] else { return None };
    listeners_of(&[pid]).into_iter().find_map(|listener| match listener {
        Listener::Unix { path, .. } => Some(path),
        Listener::Tcp { .. } => None,
    })
}

/// What was found running.
#[derive(Default)]
struct Heard {
    looks: usize,
    /// By text without values: how often, and one of them with its database.
    queries: BTreeMap<String, (usize, String, String)>,
    /// Queries that waited for a lock.
    locked: usize,
}

/// What came of it.
#[derive(Default)]
pub struct Asked {
    /// Queries that waited for locks at a time.
    pub locked: f64,
    pub slow: Vec<SlowQuery>,
    /// Temporary tables that were made on a disk.
    pub disk_tables: u64,
}

/// Asks until it is finished. Dropping it ends it.
pub struct Asker {
    database: Database,
    stop: Arc<AtomicBool>,
    heard: Arc<Mutex<Heard>>,
    disk_tables: u64,
    thread: Option<JoinHandle<()>>,
}

impl Asker {
    pub fn start(source: &Source) -> Option<Asker> {
        let Source::Database(database) = source else { return None };
        let mut session = Session::open(database).ok()?;
        let disk_tables = count_of(&mut session);
        let (stop, heard) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Heard::default())));
        let (ends, kept) = (Arc::clone(&stop), Arc::clone(&heard));
        let work = move || {
            while !ends.load(Ordering::Relaxed) {
                let Ok(rows) = session.rows(RUNNING) else { return };
                kept.lock().unwrap_or_else(PoisonError::into_inner).hear(rows);
                std::thread::park_timeout(EVERY);
            }
        };
        let thread = std::thread::Builder::new().name("queries".to_owned()).spawn(work).ok()?;
        Some(Asker { database: database.clone(), stop, heard, disk_tables, thread: Some(thread) })
    }

    pub fn finish(mut self) -> Asked {
        self.end();
        let heard = std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner));
        let Ok(mut session) = Session::open(&self.database) else { return Asked::default() };
        let disk_tables = count_of(&mut session).saturating_sub(self.disk_tables);
        let all: usize = heard.queries.values().map(|(count, ..)| count).sum();
        let mut queries: Vec<_> = heard.queries.into_iter().collect();
        queries.sort_by_key(|(_, (count, ..))| std::cmp::Reverse(*count));
        let slow =
            queries.into_iter().take(DOCTOR_QUERIES_MAX).map(|(text, (count, query, schema))| SlowQuery {
                text,
                share: count as f64 / all.max(1) as f64,
                plan: explain(&mut session, &query, &schema),
            });
        let slow = slow.collect();
        Asked { locked: heard.locked as f64 / heard.looks.max(1) as f64, slow, disk_tables }
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            drop(thread.join());
        }
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.end();
    }
}

impl Heard {
    fn hear(&mut self, rows: Vec<Vec<String>>) {
        self.looks += 1;
        for row in rows {
            // Id, User, Host, db, Command, Time, State, Info, and MariaDB's Progress.
            let [_, _, _, schema, command, _, state, query, ..] = &row[..] else { continue };
            if !matches!(command.as_str(), "Query" | "Execute")
                || query.is_empty()
                || OWN.contains(&query.as_str())
            {
                continue;
            }
            self.locked += usize::from(is_lock(state));
            let found =
                self.queries.entry(masked(query)).or_insert_with(|| (0, query.clone(), schema.clone()));
            found.0 += 1;
        }
    }
}

fn count_of(session: &mut Session) -> u64 {
    let pairs = session.pairs(DISK_TABLES).unwrap_or_default();
    pairs.values().find_map(|value| value.parse().ok()).unwrap_or(0)
}

/// Whether a thread in this state waits for a lock of a table, of its definition, or of a name.
fn is_lock(state: &str) -> bool {
    let state = state.to_ascii_lowercase();
    state == "locked" || state == "user lock" || state.starts_with("waiting for") && state.ends_with("lock")
}

/// A query without what users have written into it, and cut to a length.
fn masked(query: &str) -> String {
    let mut out = String::new();
    let mut chars = query.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' => {
                while let Some(inner) = chars.next() {
                    // What is escaped, by either way.
                    if inner == '\\' || inner == c && chars.peek() == Some(&c) {
                        chars.next();
                    } else if inner == c {
                        break;
                    }
                }
                out.push('?');
            }
            '0'..='9'
                if !out.ends_with(|last: char| last.is_alphanumeric() || matches!(last, '_' | '$' | '`')) =>
            {
                while chars.peek().is_some_and(|next| next.is_ascii_alphanumeric() || *next == '.') {
                    chars.next();
                }
                out.push('?');
            }
            c if c.is_whitespace() || c.is_control() => {
                if !out.ends_with(' ') {
                    out.push(' ');
                }
            }
            c => out.push(c),
        }
    }
    let end = out.char_indices().map(|(at, _)| at).find(|at| *at >= DOCTOR_QUERY_BYTES_MAX);
    out.truncate(end.unwrap_or(out.len()));
    out.trim().to_owned()
}

/// Whether a query is one that only reads, whatever it calls.
fn only_reads(query: &str) -> bool {
    let words = query.to_ascii_uppercase();
    let is_written = [" INTO ", "SLEEP(", "GET_LOCK", "BENCHMARK(", "FOR UPDATE", ";"]
        .iter()
        .any(|part| words.contains(part));
    words.trim_start().starts_with("SELECT") && !is_written
}

/// How the database would carry out a query; nothing where it cannot be asked without a doubt.
fn explain(session: &mut Session, query: &str, schema: &str) -> Option<Plan> {
    if !only_reads(query) || schema.contains('`') {
        return None;
    }
    if !schema.is_empty() {
        session.rows(&format!("USE `{schema}`")).ok()?;
    }
    // A plan may need a subquery's rows: no longer than this. MySQL has another name for it.
    drop(session.rows("SET SESSION max_statement_time = 1"));
    session.rows("START TRANSACTION READ ONLY").ok()?;
    let rows = session.rows(&format!("EXPLAIN {query}"));
    session.rows("ROLLBACK").ok()?;
    plan(&rows.ok()?)
}

/// What its rows say: MariaDB has ten columns, MySQL has twelve.
fn plan(rows: &[Vec<String>]) -> Option<Plan> {
    let mut found = Plan::default();
    for row in rows {
        let (table, how, key, rows, extra) = match row.len() {
            10 => (&row[2], &row[3], &row[5], &row[8], &row[9]),
            12 => (&row[2], &row[4], &row[6], &row[9], &row[11]),
            _ => return None,
        };
        found.has_temporary |= extra.contains("Using temporary");
        found.has_sort |= extra.contains("Using filesort");
        let count: u64 = rows.parse().unwrap_or(0);
        if count > found.rows {
            let chooses =
                ["Using where", "Using filesort", "join buffer"].iter().any(|what| extra.contains(what));
            found.is_scan = how == "ALL" && key.is_empty() && chooses;
            (found.rows, found.table) = (count, table.clone());
        }
    }
    (found.rows > 0).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_wrote_is_left_out() {
        for (query, wanted) in [
            (
                "SELECT * FROM t1 WHERE a = 'x''y' AND b=\"z\\\"\" LIMIT 10",
                "SELECT * FROM t1 WHERE a = ? AND b=? LIMIT ?",
            ),
            ("SELECT\n  1,-2.5, 0xFF", "SELECT ?,-?, ?"),
            ("SELECT `c2`, c3 FROM db4.t5 WHERE x IN (7,8)", "SELECT `c2`, c3 FROM db4.t5 WHERE x IN (?,?)"),
            ("SELECT 'never closed", "SELECT ?"),
        ] {
            assert_eq!(masked(query), wanted);
        }
        assert!(masked(&"é".repeat(5000)).len() <= DOCTOR_QUERY_BYTES_MAX + 2);
    }

    #[test]
    fn only_what_reads_is_explained() {
        assert!(only_reads(" select a from t where b = 1"));
        for query in [
            "UPDATE t SET a = 1",
            "SELECT 1 INTO OUTFILE 'x'",
            "SELECT 1; DROP TABLE t",
            "SELECT sleep(9)",
            "CALL p()",
        ] {
            assert!(!only_reads(query), "{query}");
        }
    }

    #[test]
    fn plans_of_both_servers() {
        let row = |text: &str| text.split('|').map(str::to_owned).collect::<Vec<_>>();
        let found = plan(&[row("1|SIMPLE|t|ALL||||| 9|Using where")]);
        assert_eq!(found, None, "a number is wanted");
        let found = plan(&[row("1|SIMPLE|t|ALL|||||90000|Using where; Using filesort")]).unwrap();
        assert!(found.is_scan && found.has_sort && found.rows == 90_000 && found.table == "t", "{found:?}");
        let found = plan(&[row("1|SIMPLE|t||ref|k|k|8|const|12|100.0|")]).unwrap();
        assert!(!found.is_scan && found.rows == 12);
        // All rows are wanted: no index helps.
        assert!(!plan(&[row("1|SIMPLE|t|ALL|||||90000|")]).unwrap().is_scan);
    }

    #[test]
    fn states_of_locks() {
        for state in
            ["Waiting for table metadata lock", "Waiting for table level lock", "Locked", "User lock"]
        {
            assert!(is_lock(state), "{state}");
        }
        assert!(!is_lock("Sending data") && !is_lock("System lock") && !is_lock("Unlocking tables"));
    }
}
