//! Sessions as rows of commands.

use super::*;
use crate::follow::Prepared;

const AUTOCOMMIT: u16 = status::AUTOCOMMIT;
const READ: Route = Route::Replica { after_own_writes: true };
const WRITE: Route = Route::Primary(Why::Writes);

fn query(text: &str) -> Vec<u8> {
    [&[command::QUERY], text.as_bytes()].concat()
}

fn ok(status: u16) -> Outcome {
    Outcome { status: Some(status), is_tracked: true, ..Outcome::default() }
}

/// Takes a statement that is answered well, without a change of state.
fn step(session: &mut Session, text: &str) -> Route {
    let route = session.route(&query(text), true);
    let by = if let Route::Replica { .. } = route { Role::Replica } else { Role::Primary };
    session.answered(by, &ok(session.status));
    route
}

#[test]
fn reads_are_split_from_writes() {
    let mut session = Session::new(AUTOCOMMIT, true);
    assert_eq!(step(&mut session, "SELECT a FROM t"), READ);
    assert_eq!(session.last(), Role::Replica);
    assert_eq!(step(&mut session, "SHOW WARNINGS"), Route::Last);
    // Its connection was made for the read.
    session.route(&query("SELECT a FROM t"), true);
    session.replica_lost();
    session.answered(Role::Replica, &ok(AUTOCOMMIT));
    assert_eq!(session.last(), Role::Replica);
    assert_eq!(step(&mut session, "UPDATE t SET a = 1"), WRITE);
    assert_eq!(session.last(), Role::Primary);
    assert_eq!(step(&mut session, "SELECT @@hostname"), Route::Primary(Why::Asks));
    assert_eq!(step(&mut session, "/* brisk:primary */ SELECT 1"), Route::Primary(Why::Hinted));
    assert_eq!(step(&mut session, "SELECT 1"), READ);
    assert_eq!(session.route(b"\x12binlog", true), Route::Refused);
    assert_eq!(session.route(&query("SELECT 1"), false), Route::Primary(Why::Pinned(Pin::Unclear)));
}

#[test]
fn a_transaction_stays_where_it_began() {
    let mut session = Session::new(AUTOCOMMIT, true);
    session.route(&query("BEGIN"), true);
    session.answered(Role::Primary, &ok(AUTOCOMMIT | status::IN_TRANSACTION));
    assert_eq!(step(&mut session, "SELECT 1"), Route::Primary(Why::Transaction));
    // An error tells no status: the transaction may go on.
    session.route(&query("UPDATE t SET a = 1"), true);
    session.answered(Role::Primary, &Outcome { error: Some(1213), ..Outcome::default() });
    assert_eq!(step(&mut session, "SELECT 1"), Route::Primary(Why::Transaction));
    session.route(&query("COMMIT"), true);
    session.answered(Role::Primary, &ok(AUTOCOMMIT));
    // What the failed statement has written is not known.
    assert_eq!(step(&mut session, "SELECT 1"), Route::Primary(Why::OwnWrites));
    let mut session = Session::new(0, true);
    assert_eq!(step(&mut session, "SELECT 1"), Route::Primary(Why::Transaction));
}

#[test]
fn own_writes_are_read() {
    let mut session = Session::new(AUTOCOMMIT, true);
    let write = Outcome { written: vec![Tracked::MariaDb("0-1-7".into())], ..ok(AUTOCOMMIT) };
    session.route(&query("INSERT INTO t VALUES (1)"), true);
    session.answered(Role::Primary, &write);
    assert_eq!((session.writes(), session.written().question().is_some()), (1, true));
    assert_eq!(step(&mut session, "SELECT 1"), READ);
    assert_eq!(
        step(&mut session, "SELECT 1 /* brisk:replica */"),
        Route::Replica { after_own_writes: false }
    );
    session.route(&query("INSERT INTO t VALUES (1)"), true);
    session.answered(Role::Primary, &Outcome { is_tracked: false, ..ok(AUTOCOMMIT) });
    assert_eq!(step(&mut session, "SELECT 1"), Route::Primary(Why::OwnWrites));
}

#[test]
fn what_is_in_the_connection_keeps_it_until_it_is_reset() {
    let mut session = Session::new(AUTOCOMMIT, true);
    session.route(&query("SET @a = f("), true);
    session.answered(Role::Primary, &Outcome { error: Some(1064), ..Outcome::default() });
    assert_eq!(step(&mut session, "SELECT 1"), Route::Primary(Why::Pinned(Pin::UserVariable)));
    session.route(b"\x1f", true);
    session.answered(Role::Primary, &ok(AUTOCOMMIT));
    assert_eq!(session.pin(), None);
    let mut session = Session::new(AUTOCOMMIT, false);
    assert_eq!(step(&mut session, "SELECT 1"), Route::Primary(Why::Pinned(Pin::Charset)));
}

#[test]
fn settings_are_kept_for_replicas() {
    let mut session = Session::new(AUTOCOMMIT, true);
    step(&mut session, "SET NAMES utf8mb4");
    session.route(b"\x02shop", true);
    session.answered(Role::Primary, &ok(AUTOCOMMIT));
    session.route(b"\x02nowhere", true);
    session.answered(Role::Primary, &Outcome { error: Some(1049), ..Outcome::default() });
    assert_eq!(session.settings(), [query("SET NAMES utf8mb4"), b"\x02shop".to_vec()]);
    assert_eq!(step(&mut session, "SELECT 1"), READ);
    for _ in 0..SETTINGS_MAX {
        step(&mut session, "USE a");
    }
    assert_eq!(session.pin(), Some(Pin::ManySettings));
}

#[test]
fn prepared_statements_are_known_by_what_they_do() {
    let mut session = Session::new(AUTOCOMMIT, true);
    let prepare = |session: &mut Session, id: u32, text: &str| {
        let route = session.route(&[&[command::PREPARE], text.as_bytes()].concat(), true);
        let prepared = Some(Prepared { id, parameters: 0 });
        session.answered(Role::Primary, &Outcome { prepared, ..ok(AUTOCOMMIT) });
        route
    };
    let execute = |session: &mut Session, id: u32| {
        let route = session.route(&[&[0x17], &id.to_le_bytes()[..], &[0, 1, 0, 0, 0]].concat(), true);
        session.answered(Role::Primary, &Outcome { is_tracked: false, ..ok(AUTOCOMMIT) });
        route
    };
    assert_eq!(prepare(&mut session, 1, "SELECT a FROM t WHERE b = ?"), Route::Primary(Why::Asks));
    assert_eq!(prepare(&mut session, 2, "UPDATE t SET a = ?"), WRITE);
    assert_eq!(execute(&mut session, 1), Route::Primary(Why::Asks));
    assert_eq!(session.written(), &Written::Nothing);
    assert_eq!(execute(&mut session, 2), WRITE);
    assert_eq!(session.written(), &Written::Unknown);
    assert!(!session.may_move());
    assert_eq!(execute(&mut session, 9), Route::Primary(Why::Pinned(Pin::Unclear)));
}

#[test]
fn backslashes_mean_what_the_servers_say() {
    const PLAIN: u16 = AUTOCOMMIT | status::NO_BACKSLASH_ESCAPES;
    const IT: &str = r"SELECT 'it\'s' FROM t";
    const PATH: &str = r"SELECT 'C:\' FROM t";
    let asks = Route::Primary(Why::Asks);
    let unclear = Route::Primary(Why::Pinned(Pin::Unclear));
    // Nothing is told before the first answer: what is unclear keeps the connection.
    let mut session = Session::new(AUTOCOMMIT, true);
    assert_eq!(step(&mut session, IT), unclear);
    let mut session = Session::new(AUTOCOMMIT, true);
    step(&mut session, "UPDATE t SET a = 1");
    assert_eq!((step(&mut session, IT), session.pin()), (asks, None));
    session.replica_told(AUTOCOMMIT);
    assert_eq!(step(&mut session, IT), READ);
    session.replica_told(PLAIN);
    assert_eq!(step(&mut session, IT), asks);
    session.replica_told(AUTOCOMMIT);
    session.replica_lost();
    assert_eq!(step(&mut session, IT), asks);
    // The primary changes, and the replica has not said that it did.
    session.replica_told(AUTOCOMMIT);
    session.route(&query("SET sql_mode='NO_BACKSLASH_ESCAPES'"), true);
    session.answered(Role::Primary, &ok(PLAIN));
    assert_eq!((step(&mut session, PATH), session.pin()), (asks, None));
    session.replica_told(PLAIN);
    assert_eq!(step(&mut session, PATH), READ);
    assert_eq!(step(&mut session, IT), unclear);
}

#[test]
fn a_mode_that_nobody_has_set_is_not_believed() {
    const PLAIN: u16 = AUTOCOMMIT | status::NO_BACKSLASH_ESCAPES;
    let text = r"SELECT 'a\', '; DELETE FROM t; -- '";
    let mut session = Session::new(AUTOCOMMIT, true);
    step(&mut session, "SELECT 1 FROM t FOR UPDATE");
    // Its trigger has set it: the server tells so, and reads as before.
    session.route(&query("INSERT INTO t VALUES (1)"), true);
    session.answered(Role::Primary, &ok(PLAIN));
    session.replica_told(PLAIN);
    step(&mut session, "SET NAMES utf8mb4");
    assert_eq!(step(&mut session, text), WRITE);
    session.route(b"\x1f", true);
    session.answered(Role::Primary, &ok(PLAIN));
    assert_eq!((step(&mut session, text), session.pin()), (Route::Primary(Why::Asks), None));
}

#[test]
fn settings_that_failed_may_hold_in_part() {
    let mut session = Session::new(AUTOCOMMIT, true);
    step(&mut session, "UPDATE t SET a = 1");
    session.route(&query("SET sql_mode='', time_zone='x'"), true);
    session.answered(Role::Primary, &Outcome { error: Some(1298), ..Outcome::default() });
    assert_eq!(step(&mut session, r"SELECT 'it\'s'"), Route::Primary(Why::Pinned(Pin::Unclear)));
}

#[test]
fn replicas_are_told_only_of_what_they_read_alike() {
    let mut session = Session::new(AUTOCOMMIT, true);
    step(&mut session, "UPDATE t SET a = 1");
    step(&mut session, r"SET time_zone = '+00:00' /* \ */");
    assert_eq!((session.settings().len(), session.pin()), (1, None));
    step(
        &mut session,
        r"SET NAMES utf8 -- '\'
, GLOBAL x = 1",
    );
    assert!(session.pin().is_some());
}

/// A client without session tracking: the primary is asked when it matters.
#[test]
fn a_write_that_was_not_told_is_asked_for() {
    let untracked = Outcome { status: Some(AUTOCOMMIT), ..Outcome::default() };
    let write = |session: &mut Session| {
        session.route(&query("UPDATE t SET a = 1"), true);
        session.answered(Role::Primary, &untracked);
    };
    let mut session = Session::new(AUTOCOMMIT, true);
    session.may_ask_for_writes();
    write(&mut session);
    assert_eq!((step(&mut session, "SELECT 1"), session.is_untold()), (READ, true));
    session.told(&Tracked::MariaDb("0-1-7".into()));
    assert_eq!((session.is_untold(), session.writes()), (false, 1));
    assert_eq!(session.written().question().unwrap(), "SELECT MASTER_GTID_WAIT('0-1-7', 0)");
    // Nothing else was written.
    write(&mut session);
    session.told(&Tracked::MariaDb("0-1-7".into()));
    assert_eq!((session.is_untold(), session.writes()), (false, 1));
    session.route(b"\x1f", true);
    session.answered(Role::Primary, &untracked);
    assert!(!session.is_untold(), "a reset writes nothing");
    // The connection that knew it is gone.
    write(&mut session);
    session.primary_told(AUTOCOMMIT);
    assert_eq!(step(&mut session, "SELECT 1"), Route::Primary(Why::OwnWrites));
    session.changed_user(AUTOCOMMIT, true);
    assert_eq!(step(&mut session, "SELECT 1"), Route::Primary(Why::OwnWrites));
    let mut session = Session::new(AUTOCOMMIT, true);
    session.may_ask_for_writes();
    write(&mut session);
    session.changed_user(AUTOCOMMIT, true);
    assert_eq!(step(&mut session, "SELECT 1"), Route::Primary(Why::OwnWrites));
}

#[test]
fn another_account_begins_anew() {
    let mut session = Session::new(AUTOCOMMIT, true);
    step(&mut session, "SET NAMES utf8mb4");
    step(&mut session, "SELECT @a := 1");
    assert_eq!(session.pin(), Some(Pin::UserVariable));
    session.changed_user(AUTOCOMMIT, true);
    assert_eq!((session.pin(), session.settings().len()), (None, 0));
    assert_eq!(step(&mut session, "SELECT 1"), READ);
    session.changed_user(AUTOCOMMIT, false);
    assert_eq!(session.pin(), Some(Pin::Charset));
}
