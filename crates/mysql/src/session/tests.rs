//! Sessions as rows of commands.

use super::*;
use crate::follow;
use crate::limits::SETTINGS_MAX;

const AUTOCOMMIT: u16 = status::AUTOCOMMIT;
const READ: Route = Route::Replica { after_own_writes: true };
const WRITE: Route = Route::Primary(Why::Writes);
const UTF8MB4: u16 = 45;
const GBK: u16 = 28;

fn login() -> Session {
    Session::new(AUTOCOMMIT, UTF8MB4, b"shop")
}

fn query(text: &str) -> Vec<u8> {
    [&[command::QUERY], text.as_bytes()].concat()
}

fn ok(status: u16) -> Outcome {
    Outcome { status: Some(status), is_tracked: true, ..Outcome::default() }
}

/// What other connections are told of, as texts.
fn settings(session: &Session) -> Vec<&str> {
    session.settings().after(0).map(|setting| str::from_utf8(&setting.message).unwrap()).collect()
}

/// Takes a statement that is answered well, without a change of state.
fn step(session: &mut Session, text: &str) -> Route {
    let route = session.route(&query(text), true);
    let by = if let Route::Replica { .. } = route { Role::Replica } else { Role::Primary };
    session.answered(by, &ok(session.status), &mut Places::default());
    route
}

#[test]
fn reads_are_split_from_writes() {
    let mut session = login();
    assert_eq!(step(&mut session, "SELECT a FROM t"), READ);
    assert_eq!(session.last(), Role::Replica);
    assert_eq!(step(&mut session, "SHOW WARNINGS"), Route::Last);
    // Its connection was made for the read.
    session.route(&query("SELECT a FROM t"), true);
    session.replica_lost();
    session.answered(Role::Replica, &ok(AUTOCOMMIT), &mut Places::default());
    assert_eq!(session.last(), Role::Replica);
    assert_eq!(step(&mut session, "UPDATE t SET a = 1"), WRITE);
    assert_eq!(session.last(), Role::Primary);
    assert_eq!(step(&mut session, "SELECT @@hostname"), Route::Primary(Why::Asks));
    assert_eq!(step(&mut session, "/* brisk:primary */ SELECT 1"), Route::Primary(Why::Hinted));
    assert_eq!(step(&mut session, "SELECT 1"), READ);
    assert_eq!(session.route(b"\x12binlog", true), Route::Refused(Refusal::Command));
    assert_eq!(session.route(&query("SELECT 1"), false), Route::Primary(Why::Pinned(Pin::Unclear)));
}

#[test]
fn a_transaction_stays_where_it_began() {
    let mut session = login();
    session.route(&query("BEGIN"), true);
    session.answered(Role::Primary, &ok(AUTOCOMMIT | status::IN_TRANSACTION), &mut Places::default());
    assert_eq!(step(&mut session, "SELECT 1"), Route::Primary(Why::Transaction));
    // An error tells no status: the transaction may go on.
    session.route(&query("UPDATE t SET a = 1"), true);
    session.answered(
        Role::Primary,
        &Outcome { error: Some(1213), ..Outcome::default() },
        &mut Places::default(),
    );
    assert_eq!(step(&mut session, "SELECT 1"), Route::Primary(Why::Transaction));
    session.route(&query("COMMIT"), true);
    session.answered(Role::Primary, &ok(AUTOCOMMIT), &mut Places::default());
    // What the failed statement has written is not known.
    assert_eq!(step(&mut session, "SELECT 1"), Route::Primary(Why::OwnWrites));
    let mut session = Session::new(0, UTF8MB4, b"");
    assert_eq!(step(&mut session, "SELECT 1"), Route::Primary(Why::Transaction));
}

#[test]
fn own_writes_are_read() {
    let mut session = login();
    let write = Outcome { written: vec![Tracked::MariaDb("0-1-7".into())], ..ok(AUTOCOMMIT) };
    session.route(&query("INSERT INTO t VALUES (1)"), true);
    session.answered(Role::Primary, &write, &mut Places::default());
    assert_eq!((session.writes(), session.written().question().is_some()), (1, true));
    assert_eq!(step(&mut session, "SELECT 1"), READ);
    assert_eq!(
        step(&mut session, "SELECT 1 /* brisk:replica */"),
        Route::Replica { after_own_writes: false }
    );
    session.route(&query("INSERT INTO t VALUES (1)"), true);
    session.answered(Role::Primary, &Outcome { is_tracked: false, ..ok(AUTOCOMMIT) }, &mut Places::default());
    assert_eq!(step(&mut session, "SELECT 1"), Route::Primary(Why::OwnWrites));
}

#[test]
fn what_is_in_the_connection_keeps_it_until_it_is_reset() {
    let mut session = login();
    session.route(&query("SET @a = f("), true);
    session.answered(
        Role::Primary,
        &Outcome { error: Some(1064), ..Outcome::default() },
        &mut Places::default(),
    );
    assert_eq!(step(&mut session, "SELECT 1"), Route::Primary(Why::Pinned(Pin::UserVariable)));
    session.route(b"\x1f", true);
    session.answered(Role::Primary, &ok(AUTOCOMMIT), &mut Places::default());
    assert_eq!(session.pin(), None);
    let mut session = Session::new(AUTOCOMMIT, GBK, b"");
    assert_eq!(step(&mut session, "SELECT 1"), Route::Primary(Why::Pinned(Pin::Charset)));
}

/// Servers keep the role of a connection over a reset.
#[test]
fn a_role_keeps_the_connection_beyond_a_reset() {
    let reset = |session: &mut Session| {
        session.route(b"\x1f", true);
        session.answered(Role::Primary, &ok(AUTOCOMMIT), &mut Places::default());
        session.told_database(b"shop", b"shop");
        (session.pin(), session.may_be_followed())
    };
    for (text, wanted) in [
        ("SET @a = 1", (None, true)),
        ("SET sql_log_bin = 0", (None, true)),
        ("GRANT reader TO role", (None, true)),
        ("SELECT role FROM t", (None, true)),
        ("CALL p()", (None, false)),
        ("EXECUTE s", (None, false)),
        ("CALL p(); XA BEGIN 'x'", (None, false)),
        ("SET ROLE reader; CREATE TEMPORARY TABLE a (b INT)", (Some(Pin::Set), false)),
        ("SET ROLE reader", (Some(Pin::Set), false)),
        ("/*!50000 set role none */", (Some(Pin::Set), false)),
        ("SET SESSION AUTHORIZATION other@'%'", (Some(Pin::Set), false)),
    ] {
        let mut session = login();
        step(&mut session, text);
        assert_eq!(reset(&mut session), wanted, "{text}");
        // Nor does a second one undo it.
        assert_eq!(reset(&mut session), wanted, "{text}");
        session.changed_user(AUTOCOMMIT, UTF8MB4, b"shop");
        assert_eq!((session.pin(), session.may_be_followed()), (None, true), "{text}");
    }
    let (mut session, mut both) = (login(), Both::default());
    let (_, id) = both.prepare(&mut session, "SET ROLE reader", 7);
    both.execute(&mut session, id, 0);
    assert_eq!(reset(&mut session), (Some(Pin::Set), false));
    let mut session = login();
    session.route(&query("SELECT 1"), false);
    session.answered(Role::Primary, &ok(AUTOCOMMIT), &mut Places::default());
    assert_eq!(reset(&mut session), (None, false));
}

#[test]
fn settings_are_kept_for_replicas() {
    let mut session = login();
    step(&mut session, "SET NAMES utf8mb4");
    session.route(b"\x02shop", true);
    session.answered(Role::Primary, &ok(AUTOCOMMIT), &mut Places::default());
    session.route(b"\x02nowhere", true);
    session.answered(
        Role::Primary,
        &Outcome { error: Some(1049), ..Outcome::default() },
        &mut Places::default(),
    );
    assert_eq!(settings(&session), ["\u{3}SET NAMES utf8mb4", "\u{2}shop"]);
    assert_eq!(step(&mut session, "SELECT 1"), READ);
    for _ in 0..SETTINGS_MAX {
        step(&mut session, "USE a");
    }
    assert_eq!((session.pin(), settings(&session)), (None, vec!["\u{3}SET NAMES utf8mb4", "\u{2}a"]));
    for number in 0..SETTINGS_MAX {
        step(&mut session, &format!("SET time_zone = '+00:{number:02}'"));
    }
    assert_eq!(session.pin(), Some(Pin::ManySettings));
}

/// The two connections of a session.
#[derive(Default)]
struct Both {
    primary: Places,
    replica: Places,
}

impl Both {
    fn at(&mut self, role: Role) -> &mut Places {
        if role == Role::Primary { &mut self.primary } else { &mut self.replica }
    }

    /// Has a statement prepared, with this number at the server. Gives where it went, and the client's number.
    fn prepare(&mut self, session: &mut Session, text: &str, there: u32) -> (Route, u32) {
        let route = session.route(&[&[command::PREPARE], text.as_bytes()].concat(), true);
        let id = session.statement().unwrap();
        let parameters = text.matches('?').count() as u16;
        let prepared = Some(follow::Prepared { id: there, parameters });
        let by = if let Route::Replica { .. } = route { Role::Replica } else { Role::Primary };
        session.answered(by, &Outcome { prepared, ..ok(session.status) }, self.at(by));
        (route, id)
    }

    /// Executes a statement without parameters; `status`: what the answer has besides.
    fn execute(&mut self, session: &mut Session, id: u32, status: u16) -> Route {
        let route = session.route(&execution(id), true);
        let by = if let Route::Replica { .. } = route { Role::Replica } else { Role::Primary };
        session.answered(by, &Outcome { is_tracked: false, ..ok(session.status | status) }, self.at(by));
        route
    }
}

fn execution(id: u32) -> Vec<u8> {
    [&command::naming(command::EXECUTE, id)[..], &[0, 1, 0, 0, 0]].concat()
}

#[test]
fn prepared_statements_go_where_their_text_would_go() {
    let (mut session, mut both) = (login(), Both::default());
    let (route, read) = both.prepare(&mut session, "SELECT a FROM t", 70);
    assert_eq!((route, both.replica.has(read), both.primary.has(read)), (READ, true, false));
    assert_eq!(both.execute(&mut session, read, 0), READ);
    session.route(&execution(read), true);
    assert_eq!(session.message_for(&execution(read), &both.replica).unwrap(), execution(70));
    assert_eq!(session.message_for(&execution(read), &both.primary), None);
    assert_eq!((session.needed(), session.source(read)), (Some(read), Some((&b"SELECT a FROM t"[..], 0))));
    let asks = Route::Primary(Why::Asks);
    assert_eq!(both.prepare(&mut session, "SELECT @@hostname", 1).0, asks);
    assert_eq!(both.prepare(&mut session, r"SELECT a FROM t WHERE b LIKE '\_'", 2).0, asks);
    assert_eq!(
        both.prepare(&mut session, "/* brisk:primary */ SELECT a FROM t", 3).0,
        Route::Primary(Why::Hinted)
    );
    let (route, write) = both.prepare(&mut session, "UPDATE t SET a = 1", 4);
    assert_eq!((route, session.written()), (WRITE, &Written::Nothing));
    session.route(&query("BEGIN"), true);
    session.answered(Role::Primary, &ok(AUTOCOMMIT | status::IN_TRANSACTION), &mut both.primary);
    assert_eq!(both.execute(&mut session, read, 0), Route::Primary(Why::Transaction));
    session.route(&query("COMMIT"), true);
    session.answered(Role::Primary, &ok(AUTOCOMMIT), &mut both.primary);
    assert_eq!(both.execute(&mut session, read, 0), READ);
    assert_eq!(both.execute(&mut session, write, 0), WRITE);
    assert_eq!(session.written(), &Written::Unknown);
    assert_eq!(both.execute(&mut session, read, 0), Route::Primary(Why::OwnWrites));
}

#[test]
fn a_number_that_names_no_statement_goes_nowhere() {
    let mut session = login();
    for command in [command::EXECUTE, command::FETCH, command::RESET_STATEMENT, command::CLOSE_STATEMENT] {
        let message = [&command::naming(command, 9)[..], &[0, 1, 0, 0, 0]].concat();
        assert_eq!(session.route(&message, true), Route::Refused(Refusal::Statement(9)));
        session.refused();
    }
    assert_eq!(session.pin(), None);
    let mut both = Both::default();
    let (_, id) = both.prepare(&mut session, "SELECT a FROM t WHERE b = ?", 1);
    assert_eq!(session.route(&execution(id), true), Route::Refused(Refusal::Arguments));
    let untold = [&execution(id)[..], &[0, 0]].concat();
    assert_eq!(session.route(&untold, true), Route::Refused(Refusal::Arguments));
    assert_eq!(session.route(&[&untold[..11], &[1, 3]].concat(), true), Route::Refused(Refusal::Arguments));
    assert_eq!(session.route(&[&untold[..11], &[1, 3, 0, 7]].concat(), true), READ);
    session.refused();
    assert_eq!(
        session.route(&command::naming(command::FETCH, id), true),
        Route::Refused(Refusal::Cursor(id))
    );
}

/// The client sends both before it has the answer to the first.
#[test]
fn the_last_statement_is_executed_by_a_number_of_its_own() {
    let (mut session, mut both) = (login(), Both::default());
    let (_, id) = both.prepare(&mut session, "SELECT a FROM t", 7);
    let last = execution(command::LAST_STATEMENT);
    assert_eq!((session.route(&last, true), session.statement()), (READ, Some(id)));
    assert_eq!(session.message_for(&last, &both.replica).unwrap(), execution(7));
    session.route(&[&[command::PREPARE], &b"SELECT b FROM t"[..]].concat(), true);
    let failed = Outcome { error: Some(1054), ..Outcome::default() };
    session.answered(Role::Replica, &failed, &mut both.replica);
    assert_eq!(session.route(&last, true), Route::Refused(Refusal::Statement(command::LAST_STATEMENT)));
}

#[test]
fn rows_are_fetched_where_they_wait() {
    let (mut session, mut both) = (login(), Both::default());
    let (_, id) = both.prepare(&mut session, "SELECT a FROM t", 7);
    let fetch = command::naming(command::FETCH, id);
    both.execute(&mut session, id, status::CURSOR_EXISTS);
    assert_eq!((session.route(&fetch, true), session.may_move()), (Route::Cursor, true));
    assert!(session.has_cursor_at(Role::Replica) && session.is_reset_at(Role::Replica));
    assert!(!session.is_reset_at(Role::Primary));
    session.replica_lost();
    assert_eq!(session.route(&fetch, true), Route::Refused(Refusal::Cursor(id)));
    session.route(&query("BEGIN"), true);
    session.answered(Role::Primary, &ok(AUTOCOMMIT | status::IN_TRANSACTION), &mut both.primary);
    both.execute(&mut session, id, status::CURSOR_EXISTS);
    session.route(&query("COMMIT"), true);
    session.answered(Role::Primary, &ok(AUTOCOMMIT), &mut both.primary);
    assert_eq!((session.route(&fetch, true), session.may_move()), (Route::Primary(Why::Prepared), false));
    session.answered(Role::Primary, &ok(AUTOCOMMIT | status::LAST_ROW_SENT), &mut both.primary);
    assert_eq!(session.route(&fetch, true), Route::Refused(Refusal::Cursor(id)));
    assert!(session.may_move());
}

#[test]
fn parts_of_parameters_go_where_they_are_used() {
    let (mut session, mut both) = (login(), Both::default());
    let (_, id) = both.prepare(&mut session, "SELECT a FROM t", 7);
    let data = [&command::naming(command::SEND_LONG_DATA, id)[..], b"\0\0part"].concat();
    let prepared = Route::Primary(Why::Prepared);
    assert_eq!((session.route(&data, true), session.needed()), (prepared, Some(id)));
    session.answered(Role::Primary, &Outcome::default(), &mut both.primary);
    session.route(&command::naming(command::RESET_STATEMENT, id), true);
    assert!(!session.may_move() && session.is_reset_at(Role::Primary));
    assert_eq!(both.execute(&mut session, id, 0), prepared);
    assert_eq!(both.execute(&mut session, id, 0), READ);
    // No server has got them: nobody executes it without.
    session.route(&data, true);
    session.refused();
    assert_eq!(session.route(&execution(id), true), Route::Refused(Refusal::Data));
    session.refused();
    assert_eq!(both.execute(&mut session, id, 0), READ);
}

/// After that its text would be read otherwise.
#[test]
fn statements_are_prepared_at_the_primary_before_settings_change() {
    let (mut session, mut both) = (login(), Both::default());
    let (_, id) = both.prepare(&mut session, "SELECT a FROM t", 7);
    session.route(&query("UPDATE t SET a = 1"), true);
    assert!(session.to_prepare_before(&both.primary).is_empty());
    for command in [&b"\x02shop"[..], b"\x03SET sql_mode = ''"] {
        session.route(command, true);
        assert_eq!(session.to_prepare_before(&both.primary), [id], "{command:?}");
    }
    both.primary.put(id, 9);
    assert!(session.to_prepare_before(&both.primary).is_empty());
    session.route(b"\x02shop", true);
    session.answered(Role::Primary, &ok(AUTOCOMMIT), &mut both.primary);
    // A new connection is told of both in their order.
    assert_eq!((session.source(id), session.may_move()), (None, true));
    let new = Places::default();
    assert_eq!(session.to_prepare_between(&(0..1), Role::Replica, &new), [id]);
    assert_eq!(session.source_between(id, &(0..1)), Some((&b"SELECT a FROM t"[..], 0)));
    assert!(session.to_prepare_between(&(1..2), Role::Primary, &new).is_empty());
    assert!(session.source_between(id, &(1..2)).is_none());
    // What has failed, or is not told, may hold nevertheless.
    let (_, later) = both.prepare(&mut session, "UPDATE t SET a = 1", 11);
    assert!(session.to_prepare_between(&(1..2), Role::Replica, &new).is_empty());
    assert_eq!(session.to_prepare_between(&(1..2), Role::Primary, &new), [later]);
    session.route(b"\x02nowhere", true);
    let failed = Outcome { error: Some(1049), ..Outcome::default() };
    session.answered(Role::Primary, &failed, &mut both.primary);
    assert_eq!((session.source(later), session.may_move()), (None, false));
    session.route(&execution(id), true);
    assert_eq!(session.message_for(&execution(id), &both.primary).unwrap(), execution(9));
    session.route(b"\x1f", true);
    session.answered(Role::Primary, &ok(AUTOCOMMIT), &mut both.primary);
    assert!(both.primary.is_empty());
    assert_eq!(session.route(&execution(id), true), Route::Refused(Refusal::Statement(id)));
    let (_, id) = both.prepare(&mut session, "SELECT a FROM t", 12);
    session.route(b"\x03SET sql_mode = CONCAT('a')", true);
    assert_eq!(session.to_prepare_before(&both.primary), [id]);
}

#[test]
fn a_statement_that_is_only_prepared_or_closed_leaves_no_warnings() {
    let (mut session, mut both) = (login(), Both::default());
    step(&mut session, "SELECT a FROM t");
    let (_, write) = both.prepare(&mut session, "UPDATE t SET a = 1", 1);
    assert_eq!(session.route(&command::naming(command::CLOSE_STATEMENT, write), true), Route::Everywhere);
    session.answered_everywhere();
    assert_eq!((session.route(&query("SHOW WARNINGS"), true), session.last()), (Route::Last, Role::Replica));
    let (route, _) = both.prepare(&mut session, "SELECT FOUND_ROWS()", 2);
    assert_eq!((route, session.last()), (Route::Last, Role::Replica));
}

#[test]
fn backslashes_mean_what_the_servers_say() {
    const PLAIN: u16 = AUTOCOMMIT | status::NO_BACKSLASH_ESCAPES;
    const IT: &str = r"SELECT 'it\'s' FROM t";
    const PATH: &str = r"SELECT 'C:\' FROM t";
    let asks = Route::Primary(Why::Asks);
    let unclear = Route::Primary(Why::Pinned(Pin::Unclear));
    // Nothing is told before the first answer: what is unclear keeps the connection.
    let mut session = login();
    assert_eq!(step(&mut session, IT), unclear);
    let mut session = login();
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
    session.answered(Role::Primary, &ok(PLAIN), &mut Places::default());
    assert_eq!((step(&mut session, PATH), session.pin()), (asks, None));
    session.replica_told(PLAIN);
    assert_eq!(step(&mut session, PATH), READ);
    assert_eq!(step(&mut session, IT), unclear);
}

#[test]
fn a_mode_that_nobody_has_set_is_not_believed() {
    const PLAIN: u16 = AUTOCOMMIT | status::NO_BACKSLASH_ESCAPES;
    let text = r"SELECT 'a\', '; DELETE FROM t; -- '";
    let mut session = login();
    step(&mut session, "SELECT 1 FROM t FOR UPDATE");
    // Its trigger has set it: the server tells so, and reads as before.
    session.route(&query("INSERT INTO t VALUES (1)"), true);
    session.answered(Role::Primary, &ok(PLAIN), &mut Places::default());
    session.replica_told(PLAIN);
    step(&mut session, "SET NAMES utf8mb4");
    assert_eq!(step(&mut session, text), WRITE);
    session.route(b"\x1f", true);
    session.answered(Role::Primary, &ok(PLAIN), &mut Places::default());
    assert_eq!((step(&mut session, text), session.pin()), (Route::Primary(Why::Asks), None));
}

#[test]
fn settings_that_failed_may_hold_in_part() {
    let mut session = login();
    step(&mut session, "UPDATE t SET a = 1");
    session.route(&query("SET sql_mode='', time_zone='x'"), true);
    session.answered(
        Role::Primary,
        &Outcome { error: Some(1298), ..Outcome::default() },
        &mut Places::default(),
    );
    assert_eq!(step(&mut session, r"SELECT 'it\'s'"), Route::Primary(Why::Pinned(Pin::Unclear)));
}

#[test]
fn replicas_are_told_only_of_what_they_read_alike() {
    let mut session = login();
    step(&mut session, "UPDATE t SET a = 1");
    step(&mut session, r"SET time_zone = '+00:00' /* \ */");
    assert_eq!((settings(&session).len(), session.pin()), (1, None));
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
        session.answered(Role::Primary, &untracked, &mut Places::default());
    };
    let mut session = login();
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
    session.answered(Role::Primary, &untracked, &mut Places::default());
    assert!(!session.is_untold(), "a reset writes nothing");
    // The connection that knew it is gone.
    write(&mut session);
    session.primary_told(AUTOCOMMIT);
    assert_eq!(step(&mut session, "SELECT 1"), Route::Primary(Why::OwnWrites));
    session.changed_user(AUTOCOMMIT, UTF8MB4, b"");
    assert_eq!(step(&mut session, "SELECT 1"), Route::Primary(Why::OwnWrites));
    let mut session = login();
    session.may_ask_for_writes();
    write(&mut session);
    session.changed_user(AUTOCOMMIT, UTF8MB4, b"");
    assert_eq!(step(&mut session, "SELECT 1"), Route::Primary(Why::OwnWrites));
}

#[test]
fn another_account_begins_anew() {
    let mut session = login();
    step(&mut session, "SET NAMES utf8mb4");
    step(&mut session, "SELECT @a := 1");
    assert_eq!(session.pin(), Some(Pin::UserVariable));
    session.changed_user(AUTOCOMMIT, UTF8MB4, b"");
    assert_eq!((session.pin(), settings(&session).len()), (None, 0));
    assert_eq!(step(&mut session, "SELECT 1"), READ);
    session.changed_user(AUTOCOMMIT, GBK, b"");
    assert_eq!(session.pin(), Some(Pin::Charset));
}

fn failed(session: &mut Session, by: Role) {
    session.answered(by, &Outcome { error: Some(1064), ..Outcome::default() }, &mut Places::default());
}

fn reset(session: &mut Session) {
    session.route(b"\x1f", true);
    session.answered(Role::Primary, &ok(AUTOCOMMIT), &mut Places::default());
}

/// The server keeps them: other connections must have them, too.
#[test]
fn a_reset_keeps_the_default_database_and_the_option() {
    let mut session = login();
    step(&mut session, "SET NAMES latin1");
    step(&mut session, "use `Other`;");
    session.route(b"\x1b\0\0", true);
    session.answered(Role::Primary, &ok(AUTOCOMMIT), &mut Places::default());
    step(&mut session, "SET sql_mode = ''");
    assert!(session.may_move() && !session.may_be_followed());
    reset(&mut session);
    assert_eq!(settings(&session), ["\u{1b}\0\0", "\u{2}Other"]);
    assert_eq!((session.pin(), session.must_ask_database()), (None, false));
    assert!(session.settings().position() > 4, "no connection takes them for what it was told before");
    reset(&mut session);
    assert_eq!(settings(&session), ["\u{1b}\0\0", "\u{2}Other"]);
    session.changed_user(AUTOCOMMIT, UTF8MB4, b"");
    assert_eq!(settings(&session), ["\u{1b}\0\0"]);
    assert!(session.may_move() && !session.may_be_followed());
}

/// Whatever may have chosen another one: the server is asked after a reset.
#[test]
fn a_default_database_that_is_not_known_is_asked_for_after_a_reset() {
    for text in
        ["USE other; SELECT 1", "/*! USE other */", "EXECUTE s", "DROP DATABASE shop", "USE sys", "USE `ü`"]
    {
        let mut session = login();
        step(&mut session, text);
        reset(&mut session);
        assert!(session.must_ask_database() && session.pin() == Some(Pin::OwnDatabase), "{text}");
        session.told_database(b"other", b"shop");
        assert_eq!((session.pin(), settings(&session)), (None, vec!["\u{2}other"]), "{text}");
        reset(&mut session);
        assert!(!session.must_ask_database());
        assert_eq!(settings(&session), ["\u{2}other"]);
    }
    let told = |name: &[u8], of_login: &[u8]| {
        let mut session = Session::new(AUTOCOMMIT, UTF8MB4, of_login);
        step(&mut session, "FROBNICATE");
        reset(&mut session);
        session.told_database(name, of_login);
        (session.pin(), settings(&session).len())
    };
    assert_eq!(told(b"shop", b"shop"), (None, 0));
    assert_eq!(told(b"", b""), (None, 0));
    assert_eq!(told(b"", b"shop"), (Some(Pin::OwnDatabase), 0));
    assert_eq!(told(b"MySQL", b""), (Some(Pin::OwnDatabase), 0));
    let mut session = login();
    session.route(b"\x06shop", true);
    session.answered(Role::Primary, &ok(AUTOCOMMIT), &mut Places::default());
    assert_eq!(session.pin(), Some(Pin::OwnDatabase));
}

#[test]
fn a_login_in_a_servers_own_database_stays_at_the_primary() {
    for name in ["information_schema", "MySQL", "sys", "performance_schema"] {
        let mut session = Session::new(AUTOCOMMIT, UTF8MB4, name.as_bytes());
        assert_eq!(step(&mut session, "SELECT 1"), Route::Primary(Why::Pinned(Pin::OwnDatabase)), "{name}");
        reset(&mut session);
        assert_eq!(step(&mut session, "SELECT 1"), Route::Primary(Why::Pinned(Pin::OwnDatabase)), "{name}");
        step(&mut session, "USE shop");
        reset(&mut session);
        assert_eq!((step(&mut session, "SELECT 1"), settings(&session)), (READ, vec!["\u{2}shop"]));
        session.changed_user(AUTOCOMMIT, UTF8MB4, name.as_bytes());
        assert_eq!(session.pin(), Some(Pin::OwnDatabase));
    }
}

/// A command that finds its connection closed has left nothing there yet.
#[test]
fn a_command_keeps_no_connection_before_it_is_carried_out() {
    let mut session = login();
    for text in ["SET @a = 1", "CALL p()", "FROBNICATE"] {
        assert!(matches!(session.route(&query(text), true), Route::Primary(Why::Pinned(_))), "{text}");
        assert_eq!((session.pin(), session.may_move()), (None, true), "{text}");
        session.refused();
    }
    assert_eq!(step(&mut session, "SELECT 1"), READ);
}

/// `primary`: whether the connection to the primary is lost, or that to the replica. What is asked of it afterwards is answered by no other one.
#[test]
fn what_only_a_lost_connection_knew_is_asked_of_no_other_one() {
    let insert = |session: &mut Session| {
        session.route(&query("INSERT INTO t VALUES (1)"), true);
        let outcome = Outcome { has_insert_id: true, ..ok(AUTOCOMMIT) };
        session.answered(Role::Primary, &outcome, &mut Places::default());
    };
    let asks = |session: &mut Session, text: &str, is_new: bool| {
        session.route(&query(text), true);
        let asks = session.asks_what_is_lost(is_new);
        session.refused();
        asks
    };
    const LAST: [&str; 5] = [
        "SELECT ROW_COUNT()",
        "SHOW WARNINGS",
        "SELECT FOUND_ROWS()",
        "SELECT @@session.warning_count",
        "UPDATE t SET a = ROW_COUNT()",
    ];
    const ID: [&str; 5] = [
        "SELECT LAST_INSERT_ID()",
        "INSERT INTO u VALUES (LAST_INSERT_ID())",
        "SELECT @@identity",
        "SELECT @@SESSION.last_insert_id",
        "SELECT 1; SELECT LAST_INSERT_ID()",
    ];
    for text in LAST.iter().chain(&ID) {
        let mut session = login();
        assert!(!asks(&mut session, text, true), "{text}: nothing was done before");
        insert(&mut session);
        assert!(!asks(&mut session, text, false) && asks(&mut session, text, true), "{text}");
        session.primary_told(AUTOCOMMIT);
        assert!(asks(&mut session, text, false), "{text}");
        assert!(!asks(&mut session, "UPDATE t SET a = 1", true));
        // The new connection knows what is carried out there.
        step(&mut session, "UPDATE t SET a = 1");
        assert_eq!(asks(&mut session, text, false), ID.contains(text), "{text}");
        insert(&mut session);
        assert!(!asks(&mut session, text, false), "{text}");
        session.primary_told(AUTOCOMMIT);
        reset(&mut session);
        assert!(!asks(&mut session, text, false), "{text}");
    }
    let mut session = login();
    insert(&mut session);
    session.primary_told(AUTOCOMMIT);
    for text in ["INSERT INTO t VALUES (1); SELECT LAST_INSERT_ID()", "SELECT 1; SHOW WARNINGS", "SELECT 1"] {
        assert!(!asks(&mut session, text, false), "{text}");
    }
    session.primary_told(AUTOCOMMIT);
    session.route(&[&[command::PREPARE], &b"SELECT LAST_INSERT_ID()"[..]].concat(), true);
    assert!(!session.asks_what_is_lost(false), "it is only prepared");
}

#[test]
fn another_server_does_not_tell_of_a_statement_of_its_own() {
    let forgotten = Route::Refused(Refusal::Forgotten);
    let mut session = login();
    step(&mut session, "SELECT a FROM t");
    for text in [
        "INSERT INTO u VALUES (FOUND_ROWS())",
        "SELECT @a := FOUND_ROWS()",
        "SELECT FOUND_ROWS(), @@hostname",
    ] {
        assert_eq!(session.route(&query(text), true), forgotten, "{text}");
        session.refused();
    }
    assert_eq!((session.pin(), session.route(&query("SELECT FOUND_ROWS()"), true)), (None, Route::Last));
    session.refused();
    session.replica_lost();
    for _ in 0..2 {
        assert_eq!(session.route(&query("SHOW WARNINGS"), true), forgotten);
        session.refused();
    }
    // A ping tells nothing of statements.
    session.route(b"\x0e", true);
    session.answered(Role::Primary, &ok(AUTOCOMMIT), &mut Places::default());
    assert_eq!(session.route(&query("SHOW WARNINGS"), true), forgotten);
    session.refused();
    step(&mut session, "UPDATE t SET a = 1");
    assert_eq!((session.route(&query("SHOW WARNINGS"), true), session.last()), (Route::Last, Role::Primary));
    // A statement that failed has warnings, too.
    step(&mut session, "SELECT a FROM t");
    session.route(&query("SELECT b FROM t"), true);
    failed(&mut session, Role::Replica);
    assert_eq!((session.route(&query("SHOW WARNINGS"), true), session.last()), (Route::Last, Role::Replica));
}

#[test]
fn a_read_that_a_replica_refused_to_write_is_a_write() {
    let untracked = Outcome { status: Some(AUTOCOMMIT), ..Outcome::default() };
    let mut session = login();
    session.may_ask_for_writes();
    session.route(&query("SELECT a FROM view_with_function"), true);
    session.writes_after_all();
    session.route_again(&query("SELECT a FROM view_with_function"), true);
    session.answered(Role::Primary, &untracked, &mut Places::default());
    assert!(session.is_untold());
    assert_eq!(session.pin(), None);
}
