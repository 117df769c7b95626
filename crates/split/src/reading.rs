//! Replicas of a split session: connections to them, and whether one has what the session has set and written.

use crate::backend::{Backend, Purpose, Unready, greet};
use crate::placing::tell;
use crate::split::Split;
use brisk_balance::Lease;
use brisk_db::{Cluster, Tally};
use brisk_mysql::client::{Account, Answer};
use brisk_mysql::session::{Role, Session as Course};
use brisk_stream::Session;
use brisk_stream::conf::Proxy;
use std::sync::Arc;

/// A connection to a replica that has said how it reads statements.
pub async fn open_replica(
    split: &Split,
    session: &Session,
    proxy: &Proxy,
    cluster: &Arc<Cluster>,
    lease: Lease,
    account: &Account,
) -> Result<(Backend, u16), Unready> {
    match split.again(session, proxy, cluster, lease, account, Purpose::Reads).await {
        Ok(begun) => Ok(begun),
        Err(lease) => {
            let greeted = greet(session, proxy, lease).await?;
            let mut replica = split.log_in(session, proxy, cluster, greeted, account).await?;
            let status = replica.begin(Purpose::Reads).await?;
            Ok((replica, status))
        }
    }
}

/// Tells a replica of settings, and asks it for the session's writes. Gives whether it may answer, and its status after settings.
pub async fn prepare(
    replica: &mut Backend,
    course: &Course,
    after_own_writes: bool,
    has_position: bool,
    tally: &Tally,
) -> Result<(bool, Option<u16>), Unready> {
    let status = tell(replica, course, Role::Replica, tally).await?;
    if !after_own_writes || replica.confirmed == course.writes() {
        return Ok((true, status));
    }
    let Some(question) = course.written().question() else {
        return Ok((course.written().is_there(None), status));
    };
    if !has_position {
        return Ok((false, status));
    }
    let is_there = match replica.ask(question.as_bytes()).await? {
        Answer::Rows(rows) => {
            let value = rows.rows.first().and_then(|row| row.first()).and_then(Option::as_deref);
            course.written().is_there(value)
        }
        Answer::Ok(_) | Answer::Err(_) => false,
    };
    if is_there {
        replica.confirmed = course.writes();
    }
    Ok((is_there, status))
}
