//! What PostgreSQL is asked.

use super::check::Check;
use super::link::{receive, secure, send};
use brisk_db::{Position, Replication, Report, Writes};
use brisk_net::Stream;
use brisk_pgsql::{ANSWER_TLS, Client, Event, Login, TLS_REQUEST};

/// Whether it is a standby, whether sessions begin as read-only ones, where it is, and how old the last transaction is that it has replayed.
/// A standby that has replayed all that it has received is not behind as far as it knows.
const QUESTION: &str = "SELECT pg_is_in_recovery(), current_setting('default_transaction_read_only'), \
     CASE WHEN pg_is_in_recovery() THEN coalesce(pg_last_wal_replay_lsn(), pg_last_wal_receive_lsn()) ELSE pg_current_wal_lsn() END, \
     CASE WHEN NOT pg_is_in_recovery() THEN NULL WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0 \
     WHEN pg_last_xact_replay_timestamp() IS NULL THEN NULL \
     ELSE greatest(0, floor(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) * 1000)::bigint) END";

/// A connection that has logged in.
pub(super) struct Link {
    stream: Stream,
    client: Client,
}

impl Link {
    pub async fn open(stream: Stream, check: &Check, name: &str) -> Result<Link, String> {
        let mut out = Vec::new();
        if let Some(tls) = &check.tls {
            out.extend_from_slice(&TLS_REQUEST);
            send(&stream, &mut out).await?;
            // One byte and no more: what follows belongs to the handshake.
            let mut answer = [0];
            if receive(&stream, &mut answer).await? != [ANSWER_TLS] {
                return Err("the server has no TLS".into());
            }
            secure(&stream, tls, name).await?;
        }
        let login = Login {
            user: check.user.clone(),
            password: check.password.clone(),
            database: check.database.clone(),
            is_proved: check.tls.as_ref().is_some_and(|tls| tls.is_verified),
        };
        let client = Client::new(login, random()?, &mut out);
        let mut link = Link { stream, client };
        match link.next(&mut out).await? {
            Event::LoggedIn => Ok(link),
            Event::Rows(_) => Err("the server sends what is not expected".into()),
        }
    }

    async fn next(&mut self, out: &mut Vec<u8>) -> Result<Event, String> {
        let mut piece = vec![0; 4096];
        loop {
            send(&self.stream, out).await?;
            let bytes = receive(&self.stream, &mut piece).await?;
            // What leads to an error is sent before it: a proof that the server then refuses to answer.
            if let Some(event) = self.client.handle(bytes, out).map_err(|error| error.to_string())? {
                return Ok(event);
            }
        }
    }

    pub async fn ask(&mut self) -> Result<Report, String> {
        if !self.client.is_usable() {
            return Err("the connection is of no use any more".into());
        }
        let mut out = Vec::new();
        self.client.ask(QUESTION, &mut out);
        match self.next(&mut out).await? {
            Event::Rows(rows) => {
                report(&rows).ok_or_else(|| "the server's answer is not what was asked for".into())
            }
            Event::LoggedIn => Err("the server sends what is not expected".into()),
        }
    }
}

fn report(rows: &[Vec<Option<String>>]) -> Option<Report> {
    let [row] = rows else { return None };
    let [Some(is_standby), Some(read_only), at, behind] = row.as_slice() else { return None };
    let is_standby = match is_standby.as_str() {
        "t" => true,
        "f" => false,
        _ => return None,
    };
    let writes = match (is_standby, read_only.as_str()) {
        (true, _) => Writes::Refused,
        (false, "off") => Writes::Taken,
        (false, _) => Writes::NotByDefault,
    };
    let behind_ms = behind.as_ref().and_then(|text| text.parse().ok());
    let replication = if is_standby { Replication::Running { behind_ms } } else { Replication::None };
    let position = at.as_ref().and_then(|text| Position::wal(text).ok());
    Some(Report { writes, replication, position, galera: None })
}

fn random() -> Result<[u8; 18], String> {
    let mut bytes = [0; 18];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(18) => Ok(bytes),
        _ => Err("getrandom() failed".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let check = |row: [&str; 4], want: Option<(Writes, Replication)>| {
            let value = |text: &&str| Some((*text).to_string()).filter(|text| text != "NULL");
            let rows = vec![row.iter().map(value).collect::<Vec<_>>()];
            assert_eq!(report(&rows).map(|report| (report.writes, report.replication)), want, "{row:?}");
        };
        let running = |behind_ms| Replication::Running { behind_ms };
        check(["f", "off", "0/1", "NULL"], Some((Writes::Taken, Replication::None)));
        check(["f", "on", "0/1", "NULL"], Some((Writes::NotByDefault, Replication::None)));
        check(["t", "off", "0/1", "17"], Some((Writes::Refused, running(Some(17)))));
        check(["t", "off", "NULL", "NULL"], Some((Writes::Refused, running(None))));
        check(["maybe", "off", "0/1", "0"], None);
        check(["NULL", "off", "0/1", "0"], None);
        assert_eq!(report(&[]), None);
    }
}
