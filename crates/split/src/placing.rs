//! What a connection to a server must have of a session: its prepared statements and its settings, in the order in which they came.

use crate::backend::{Backend, Unready, unless_lost};
use crate::wire::Broken;
use brisk_db::{News, Tally};
use brisk_mysql::reply::ErrPacket;
use brisk_mysql::session::{Role, Session as Course};

/// Carries out what the session has set since the last time, and before each setting prepares what was prepared before that: afterwards it would
/// mean something else. Gives the status, if there was anything.
pub async fn tell(
    server: &mut Backend,
    course: &Course,
    role: Role,
    tally: &Tally,
) -> Result<Option<u16>, Unready> {
    let mut status = None;
    for setting in course.settings().after(server.told()) {
        let between = server.told()..setting.number;
        for statement in course.to_prepare_between(&between, role, &server.places) {
            // What is refused is executed elsewhere, or its execution is refused.
            let _ = prepare(server, statement, course.source_between(statement, &between), tally).await?;
        }
        status = Some(server.set(setting).await?);
    }
    Ok(status)
}

/// Has the server forget a statement, if it has it.
pub async fn close(news: &mut News, server: &mut Backend, statement: u32) -> Result<(), Broken> {
    let Some(message) = server.places.remove(statement) else { return Ok(()) };
    let sent = unless_lost(news, server.id, server.wire.send_message(0, &message)).await;
    sent.unwrap_or(Err(Broken::Lost)).map(drop)
}

/// Has the server prepare the statement that the command needs, if it has not got it. Gives why it cannot.
pub async fn place(
    course: &Course,
    server: &mut Backend,
    tally: &Tally,
) -> Result<Option<ErrPacket>, Broken> {
    match course.needed() {
        Some(statement) if !server.places.has(statement) => {
            prepare(server, statement, course.source(statement), tally).await
        }
        _ => Ok(None),
    }
}

/// Has the server prepare a statement. Gives why it cannot. `source`: the text, and how many parameters the client knows of.
pub async fn prepare(
    server: &mut Backend,
    statement: u32,
    source: Option<(&[u8], u16)>,
    tally: &Tally,
) -> Result<Option<ErrPacket>, Broken> {
    let Some((text, parameters)) = source else { return Ok(Some(prepare_again())) };
    Tally::add(&tally.prepared_again);
    let prepared = match server.prepare(text).await? {
        Ok(prepared) => prepared,
        Err(error) => return Ok(Some(error)),
    };
    server.places.put(statement, prepared.id);
    if prepared.parameters == parameters {
        return Ok(None);
    }
    // What the client sends is not what this server would read.
    if let Some(close) = server.places.remove(statement) {
        server.wire.send_message(0, &close).await?;
    }
    Ok(Some(prepare_again()))
}

/// As servers say it of a statement that has become another one.
pub fn prepare_again() -> ErrPacket {
    ErrPacket::new(1615, b"HY000", "Prepared statement needs to be re-prepared")
}
