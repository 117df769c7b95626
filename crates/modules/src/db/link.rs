//! A connection to a server that is asked: kept from one round to the next.

use super::check::{Check, Kind, Tls};
use super::{mysql, pgsql};
use brisk_balance::Endpoint;
use brisk_db::{Accounts, Report};
use brisk_net::connect::{ConnectError, Destination, Options, finish, start};
use brisk_net::{Stream, clock};

/// A connection that has logged in.
pub(super) enum Link {
    MySql(mysql::Link),
    PgSql(pgsql::Link),
}

impl Link {
    /// Connects and logs in. The caller limits the time; errors are for the log.
    pub async fn open(check: &Check, endpoint: &Endpoint, name: &str) -> Result<Link, String> {
        let stream = connect(endpoint).await?;
        Ok(match check.kind {
            Kind::MySql => Link::MySql(mysql::Link::open(stream, check, name).await?),
            Kind::PgSql => Link::PgSql(pgsql::Link::open(stream, check, name).await?),
        })
    }

    /// Asks for everything.
    pub async fn ask(&mut self) -> Result<Report, String> {
        match self {
            Link::MySql(link) => link.ask().await,
            Link::PgSql(link) => link.ask().await,
        }
    }

    /// The accounts of the server.
    pub async fn accounts(&mut self) -> Result<Accounts, String> {
        match self {
            Link::MySql(link) => link.accounts().await,
            // They could not be used: what SCRAM proves opens no other server.
            Link::PgSql(_) => Ok(Accounts::default()),
        }
    }
}

async fn connect(endpoint: &Endpoint) -> Result<Stream, String> {
    let to = match endpoint {
        Endpoint::Ip(address) => Destination::Ip(*address),
        Endpoint::Unix(path) => Destination::Unix(path),
    };
    let failed =
        |error: ConnectError| format!("{}() failed ({})", error.call, brisk_conf::os_text(&error.error));
    let io = start(to, &Options::default()).map_err(failed)?;
    io.writable().await;
    finish(&io).map_err(failed)?;
    Ok(Stream::from(io))
}

/// Begins TLS on a connection. `name`: the server as it is written.
pub(super) async fn secure(stream: &Stream, tls: &Tls, name: &str) -> Result<(), String> {
    // Without its port, which certificates do not have.
    let host = name.rsplit_once(':').map_or(name, |(host, _)| host).trim_matches(['[', ']']);
    let session = tls.context.session(host, true).map_err(|error| error.to_string())?;
    stream.start_tls(session, Vec::new());
    stream.shake_hands().await.map_err(|error| error.to_string())?;
    let now = clock::now().unix_secs;
    let checked =
        stream.tls().map(|session| session.session(|session| tls.context.check(session, host, now)));
    checked.unwrap_or(Ok(())).map_err(|distrust| distrust.to_string())
}

/// Writes all of it.
pub(super) async fn send(stream: &Stream, out: &mut Vec<u8>) -> Result<(), String> {
    let done = stream.write_all(out).await;
    out.clear();
    done.map_err(|error| format!("send() failed ({})", brisk_conf::os_text(&error)))
}

/// More of what the server sends; at least one byte.
pub(super) async fn receive<'b>(stream: &Stream, buf: &'b mut [u8]) -> Result<&'b [u8], String> {
    match stream.read(buf).await {
        Ok(0) => Err("the server has closed the connection".into()),
        Ok(count) => Ok(&buf[..count]),
        Err(error) => Err(format!("recv() failed ({})", brisk_conf::os_text(&error))),
    }
}
