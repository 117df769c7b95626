//! Whether a replica of a split session has what the session has set and written.

use crate::backend::{Backend, Unready};
use crate::placing::tell;
use brisk_db::Tally;
use brisk_mysql::client::Answer;
use brisk_mysql::session::{Role, Session as Course};

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
