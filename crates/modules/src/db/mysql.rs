//! What MySQL and MariaDB are asked.

use super::check::Check;
use super::link::{receive, secure, send};
use brisk_db::position::Malformed;
use brisk_db::{Accounts, Galera, Position, Replication, Report, Writes};
use brisk_mysql::capability::Capabilities;
use brisk_mysql::client::{Account, Answer, Connecting, Query, Rows, Step};
use brisk_net::Stream;

/// A connection that has logged in.
pub(super) struct Link {
    stream: Stream,
    capabilities: Capabilities,
    is_mariadb: bool,
}

const MARIADB: &str = "SELECT @@global.read_only, @@global.gtid_slave_pos, @@global.gtid_binlog_pos";
const MYSQL: &str = "SELECT @@global.read_only OR @@global.super_read_only, @@global.gtid_executed, ''";
const GALERA_SETTINGS: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('wsrep_on', 'wsrep_gtid_mode')";
const GALERA_STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN \
     ('wsrep_cluster_state_uuid', 'wsrep_local_state', 'wsrep_ready', 'wsrep_cluster_status')";
/// Before MariaDB 10.4 hashes stand in another column. Roles are no accounts, although they look like some without a password.
const MARIADB_ACCOUNTS: &str = "SELECT User, Host, plugin, IF(authentication_string = '', Password, authentication_string) \
     FROM mysql.user WHERE is_role = 'N'";
const MYSQL_ACCOUNTS: &str =
    "SELECT User, Host, plugin, authentication_string, account_locked <> 'N' FROM mysql.user";
/// Since MariaDB 10.4, and only where the account may read it: else each question would be an error in the server's logs.
const HAS_LOCKS: &str = "SELECT TABLE_NAME FROM information_schema.TABLES \
     WHERE TABLE_SCHEMA = 'mysql' AND TABLE_NAME = 'global_priv'";
const LOCKS: &str =
    "SELECT User, Host FROM mysql.global_priv WHERE JSON_VALUE(Priv, '$.account_locked') IN ('1', 'true')";

impl Link {
    pub async fn open(stream: Stream, check: &Check, name: &str) -> Result<Link, String> {
        let mut account = Account::new(check.user.as_bytes(), check.password.as_bytes());
        account.wants_tls = check.tls.is_some();
        let mut connecting = Connecting::new(account);
        let (mut out, mut piece) = (Vec::new(), vec![0; 4096]);
        loop {
            send(&stream, &mut out).await?;
            let mut input = receive(&stream, &mut piece).await?;
            while !input.is_empty() {
                match connecting.next(&mut input, &mut out).map_err(|error| error.to_string())? {
                    Step::More => {}
                    Step::BeginTls => {
                        send(&stream, &mut out).await?;
                        let tls = check.tls.as_ref().ok_or("TLS was not asked for")?;
                        secure(&stream, tls, name).await?;
                        connecting.tls_begun(tls.is_verified, &mut out).map_err(|error| error.to_string())?;
                    }
                    Step::Open(opened) => {
                        let is_mariadb = opened.greeting.is_mariadb();
                        return Ok(Link { stream, capabilities: opened.capabilities, is_mariadb });
                    }
                }
            }
        }
    }

    /// What a statement is answered; the inner error is the server's own.
    async fn query(&mut self, statement: &str) -> Result<Result<Rows, String>, String> {
        let (mut out, mut piece) = (Vec::new(), vec![0; 4096]);
        let mut query = Query::new(statement.as_bytes(), self.capabilities, &mut out);
        send(&self.stream, &mut out).await?;
        loop {
            let mut input = receive(&self.stream, &mut piece).await?;
            match query.next(&mut input).map_err(|error| error.to_string())? {
                None => {}
                Some(Answer::Rows(rows)) => return Ok(Ok(rows)),
                Some(Answer::Ok(_)) => return Ok(Ok(Rows::default())),
                Some(Answer::Err(error)) => return Ok(Err(error.to_string())),
            }
        }
    }

    async fn rows(&mut self, statement: &str) -> Result<Rows, String> {
        self.query(statement).await?
    }

    pub async fn ask(&mut self) -> Result<Report, String> {
        let own = self.rows(if self.is_mariadb { MARIADB } else { MYSQL }).await?;
        let sources = self.sources().await?;
        let settings = self.rows(GALERA_SETTINGS).await?;
        let is_node = is_on(named(&settings, "wsrep_on"));
        let status = if is_node { Some(self.rows(GALERA_STATUS).await?) } else { None };
        Answers { is_mariadb: self.is_mariadb, own, sources, settings, status }.report()
    }

    async fn sources(&mut self) -> Result<Rows, String> {
        if self.is_mariadb {
            return self.rows("SHOW ALL SLAVES STATUS").await;
        }
        match self.query("SHOW REPLICA STATUS").await? {
            Ok(rows) => Ok(rows),
            // Before 8.0.22.
            Err(_) => self.rows("SHOW SLAVE STATUS").await,
        }
    }

    pub async fn accounts(&mut self) -> Result<Accounts, String> {
        let rows = self.rows(if self.is_mariadb { MARIADB_ACCOUNTS } else { MYSQL_ACCOUNTS }).await?;
        let mut accounts = accounts(&rows)?;
        if self.is_mariadb && !self.rows(HAS_LOCKS).await?.rows.is_empty() {
            // It may not be read although it is seen.
            let locks = self.query(LOCKS).await?.unwrap_or_default();
            locks.rows.iter().for_each(|row| accounts.lock(&text(row, 0), &text(row, 1)));
        }
        Ok(accounts)
    }
}

/// A column of a row.
fn text(row: &[Option<Vec<u8>>], at: usize) -> String {
    String::from_utf8_lossy(row.get(at).and_then(Option::as_deref).unwrap_or_default()).into_owned()
}

/// Name, host, plugin, secret, and of MySQL whether it is locked.
fn accounts(rows: &Rows) -> Result<Accounts, String> {
    let mut accounts = Accounts::default();
    for row in &rows.rows {
        let (name, host) = (text(row, 0), text(row, 1));
        if !accounts.add(&name, &host, &text(row, 2), &text(row, 3)) {
            return Err("the server has too many accounts".into());
        }
        if row.len() > 4 && text(row, 4) != "0" {
            accounts.lock(&name, &host);
        }
    }
    Ok(accounts)
}

/// What a server has answered.
struct Answers {
    is_mariadb: bool,
    /// Whether it is read-only, what it has applied, what it has written.
    own: Rows,
    /// A row for each server that it follows.
    sources: Rows,
    /// Galera's.
    settings: Rows,
    /// Of a node of a Galera cluster.
    status: Option<Rows>,
}

impl Answers {
    fn report(&self) -> Result<Report, String> {
        let [Some(read_only), applied, written] = values(&self.own) else {
            return Err("the server's answer is not what was asked for".into());
        };
        let replication = replication(&self.sources);
        let applied = applied.as_deref().unwrap_or_default();
        let position = if self.is_mariadb {
            mariadb_position(&replication, applied, written.as_deref().unwrap_or_default())
        } else {
            Position::mysql(applied)
        };
        let position = position.map_err(|error| error.to_string())?;
        Ok(Report {
            writes: if is_off(&read_only) { Writes::Taken } else { Writes::Refused },
            replication,
            position: self.is_comparable().then_some(position),
            galera: self.status.as_ref().map(galera),
        })
    }

    /// Without its setting each MariaDB of a Galera cluster numbers transactions by itself: numbers of two nodes say nothing of each other.
    fn is_comparable(&self) -> bool {
        self.status.is_none() || !self.is_mariadb || is_on(named(&self.settings, "wsrep_gtid_mode"))
    }
}

/// The values of a single row.
fn values<const N: usize>(rows: &Rows) -> [Option<String>; N] {
    let row = rows.rows.first();
    std::array::from_fn(|at| Some(String::from_utf8_lossy(row?.get(at)?.as_deref()?).into_owned()))
}

/// A value by the name that stands before it.
fn named<'r>(rows: &'r Rows, name: &str) -> Option<&'r [u8]> {
    let has_name = |row: &&Vec<Option<Vec<u8>>>| {
        row.first().and_then(Option::as_deref).is_some_and(|have| have.eq_ignore_ascii_case(name.as_bytes()))
    };
    rows.rows.iter().find(has_name)?.get(1)?.as_deref()
}

fn is_on(value: Option<&[u8]>) -> bool {
    value.is_some_and(|value| value.eq_ignore_ascii_case(b"ON") || value == b"1")
}

/// Anything else than a clear no means that the server does not take writes from everybody.
fn is_off(value: &str) -> bool {
    value == "0" || value.eq_ignore_ascii_case("OFF")
}

/// How a server follows others. One source that stands still is enough for it to be stopped.
fn replication(rows: &Rows) -> Replication {
    if rows.rows.is_empty() {
        return Replication::None;
    }
    let mut behind_ms = Some(0);
    for row in 0..rows.rows.len() {
        let value = |old: &str, new: &str| rows.get(row, old).or_else(|| rows.get(row, new));
        let runs = |value: Option<&[u8]>| value.is_some_and(|value| value == b"Yes");
        if !runs(value("Slave_IO_Running", "Replica_IO_Running"))
            || !runs(value("Slave_SQL_Running", "Replica_SQL_Running"))
        {
            return Replication::Stopped;
        }
        let seconds = value("Seconds_Behind_Master", "Seconds_Behind_Source");
        let seconds = seconds.and_then(|text| std::str::from_utf8(text).ok()?.parse::<u64>().ok());
        behind_ms = behind_ms.zip(seconds).map(|(most, seconds)| seconds.saturating_mul(1000).max(most));
    }
    Replication::Running { behind_ms }
}

/// What a MariaDB has. Of a replica what it has applied: what it has written by itself is not the primary's.
fn mariadb_position(replication: &Replication, applied: &str, written: &str) -> Result<Position, Malformed> {
    let written = if *replication == Replication::None { written } else { "" };
    match (Position::mariadb(applied)?, Position::mariadb(written)?) {
        (Position::MariaDb(applied), Position::MariaDb(written)) => {
            Ok(Position::MariaDb(applied.and(written)))
        }
        _ => Err(Malformed),
    }
}

fn galera(status: &Rows) -> Galera {
    let text = |name: &str| String::from_utf8_lossy(named(status, name).unwrap_or_default()).into_owned();
    Galera {
        cluster: text("wsrep_cluster_state_uuid").into(),
        state: text("wsrep_local_state").parse().unwrap_or(0),
        is_ready: is_on(named(status, "wsrep_ready")),
        is_in_majority: text("wsrep_cluster_status") == "Primary",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(columns: &[&str], rows: &[&[&str]]) -> Rows {
        let value = |text: &&str| (*text != "NULL").then(|| text.as_bytes().to_vec());
        Rows {
            columns: columns.iter().map(|name| name.as_bytes().to_vec()).collect(),
            rows: rows.iter().map(|row| row.iter().map(value).collect()).collect(),
        }
    }

    fn mariadb(own: [&str; 3], sources: Rows) -> Answers {
        Answers {
            is_mariadb: true,
            own: rows(&["a", "b", "c"], &[&own]),
            sources,
            settings: rows(&["Variable_name", "Value"], &[&["wsrep_on", "OFF"]]),
            status: None,
        }
    }

    fn sources(old: bool, all: &[&[&str; 3]]) -> Rows {
        let columns = if old {
            ["Slave_IO_Running", "Slave_SQL_Running", "Seconds_Behind_Master"]
        } else {
            ["Replica_IO_Running", "Replica_SQL_Running", "Seconds_Behind_Source"]
        };
        rows(&columns, &all.iter().map(|row| &row[..]).collect::<Vec<_>>())
    }

    #[test]
    fn a_primary_and_a_replica() {
        let report = mariadb(["0", "0-1-5", "0-2-7,1-1-3"], Rows::default()).report().unwrap();
        assert_eq!((report.writes, report.replication), (Writes::Taken, Replication::None));
        assert_eq!(report.position.unwrap().to_string(), "0-2-7,1-1-3");
        // What a replica has written by itself, nobody else has.
        let follows = sources(true, &[&["Yes", "Yes", "3"]]);
        let report = mariadb(["1", "0-1-5", "0-9-9"], follows).report().unwrap();
        let running = Replication::Running { behind_ms: Some(3000) };
        assert_eq!((report.writes, report.replication), (Writes::Refused, running));
        assert_eq!(report.position.unwrap().to_string(), "0-1-5");
        for own in [["NULL", "", ""], ["0", "x", ""], ["0", "", "0-1"]] {
            assert!(mariadb(own, Rows::default()).report().is_err(), "{own:?}");
        }
        let mut empty = mariadb(["0", "", ""], Rows::default());
        empty.own.rows.clear();
        assert!(empty.report().is_err());
    }

    #[test]
    fn accounts_that_are_locked_are_accounts() {
        let columns = ["User", "Host", "plugin", "authentication_string", "account_locked <> 'N'"];
        let row = |host, locked| ["app", host, "mysql_native_password", "", locked];
        let all = [row("%", "0"), row("10.0.0.%", "1"), row("10.0.0.7", "NULL")];
        let read = accounts(&rows(&columns, &all.each_ref().map(|row| &row[..]))).unwrap();
        let locked: Vec<bool> = read.named("app").iter().map(|account| account.is_locked).collect();
        assert_eq!(locked, [false, true, true]);
        let old = accounts(&rows(&columns[..4], &[&row("%", "")[..4]])).unwrap();
        assert!(!old.named("app")[0].is_locked);
    }

    /// Only a clear no of `read_only` makes a server that is written to.
    #[test]
    fn read_only_has_many_names() {
        let writes = |text| mariadb([text, "", ""], Rows::default()).report().unwrap().writes;
        assert_eq!([writes("0"), writes("OFF")], [Writes::Taken; 2]);
        for text in ["1", "ON", "NO_LOCK", "NO_LOCK_NO_ADMIN", "", "2"] {
            assert_eq!(writes(text), Writes::Refused, "{text}");
        }
    }

    #[test]
    fn a_source_that_stands_still_is_enough() {
        let of = |old, all: &[&[&str; 3]]| replication(&sources(old, all));
        let running = |behind_ms| Replication::Running { behind_ms };
        assert_eq!(of(false, &[&["Yes", "Yes", "0"]]), running(Some(0)));
        assert_eq!(of(true, &[&["Yes", "Yes", "1"], &["Yes", "Yes", "7"]]), running(Some(7000)));
        assert_eq!(of(true, &[&["Yes", "Yes", "1"], &["Yes", "Yes", "NULL"]]), running(None));
        for (io, sql) in [("No", "Yes"), ("Yes", "No"), ("Connecting", "Yes"), ("Yes", "NULL")] {
            assert_eq!(
                of(true, &[&["Yes", "Yes", "0"], &[io, sql, "0"]]),
                Replication::Stopped,
                "{io} {sql}"
            );
        }
        // Columns of other names than those that are known.
        assert_eq!(replication(&rows(&["IO"], &[&["Yes"]])), Replication::Stopped);
    }

    #[test]
    fn a_node_of_a_galera_cluster() {
        let mut answers = mariadb(["0", "", "0-1-5"], Rows::default());
        answers.status = Some(rows(
            &["Variable_name", "Value"],
            &[
                &["wsrep_cluster_state_uuid", "8a1"],
                &["wsrep_local_state", "4"],
                &["wsrep_ready", "ON"],
                &["wsrep_cluster_status", "Primary"],
            ],
        ));
        let report = answers.report().unwrap();
        let galera = report.galera.unwrap();
        assert!(galera.is_synchronous() && &*galera.cluster == "8a1");
        assert_eq!(report.position, None);
        answers.settings = rows(&["Variable_name", "Value"], &[&["wsrep_gtid_mode", "ON"]]);
        assert!(answers.report().unwrap().position.is_some());
        answers.status = Some(Rows::default());
        assert!(!answers.report().unwrap().galera.unwrap().is_synchronous());
    }
}
