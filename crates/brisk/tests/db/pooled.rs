//! `mysql_pool`: connections that serve one session after the other.

use super::split::{WHO, count, mark, open, place, split, start};
use super::{expect, status};
use brisk_testkit::mariadb::Connection;
use brisk_testkit::mariadb_cluster::{APP, Node};
use brisk_testkit::{Replicated, Server, wait};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

#[test]
fn connections_are_used_again_and_nothing_is_left_in_them() {
    let (_db, server) = split("mysql_pool 8;");
    let session = || {
        let mut session = open(&server);
        assert_eq!(session.value("SELECT @@group_concat_max_len, DATABASE()"), "1048576");
        assert_ne!(session.value(WHO), "0");
        session.run("SET group_concat_max_len = 77");
        session.run("USE test");
        session.send(0, b"\x01").unwrap();
    };
    wait::holds("connections of an earlier session", || {
        session();
        count(&server, "pool", "reused") >= 4
    });
    // What is pinned is not kept.
    wait::holds("no session", || count(&server, "sessions", "open") == 0);
    let before = count(&server, "pool", "idle");
    let mut pinned = open(&server);
    pinned.run("SET @a = 1");
    drop(pinned);
    wait::holds("no session", || count(&server, "sessions", "open") == 0);
    assert!(count(&server, "pool", "idle") <= before);
    wait::holds("old ones to be closed", || count(&server, "pool", "idle") == 0);
}

/// A session on a connection that another one has left is as one on a connection of its own, whatever that one did to it.
#[test]
fn a_session_on_a_kept_connection_begins_as_any_other() {
    const SEEN: &str = "SELECT CONCAT_WS('|', DATABASE(), @@collation_connection, @@character_set_client, @@character_set_results, @@sql_mode, \
                        @@autocommit, @@time_zone, @@tx_isolation, @@last_insert_id, @@collation_database, @@session_track_system_variables LIKE '%last_gtid%')";
    for servers in [1, 2] {
        let db = Replicated::of(servers);
        mark(&db);
        // Not the server's collation.
        db.nodes[0].root().run("ALTER DATABASE test COLLATE latin1_german2_ci");
        db.nodes[0].root().run("CREATE DATABASE other");
        db.nodes[0].root().run("GRANT ALL ON other.* TO app@'%'");
        let addresses: Vec<SocketAddr> = db.nodes.iter().map(Node::address).collect();
        let server = start(&addresses, "mysql_pool 8;");
        expect(&server, if servers == 1 { "primary*" } else { "primary* replica*" });
        wait::holds("accounts", || status(&server)["accounts"].as_u64() > Some(0));
        let ended = || wait::holds("no session", || count(&server, "sessions", "open") == 0);
        let leave = |mut session: Connection| {
            session.send(0, b"\x01").unwrap();
            drop(session);
            ended();
        };
        let at_primary = format!("/* brisk:primary */ {SEEN}");
        let mut first = open(&server);
        let fresh = first.value(&at_primary);
        leave(first);
        db.nodes[0].root().run("SET GLOBAL log_output = 'TABLE'");
        db.nodes[0].root().run("SET GLOBAL general_log = ON");
        for text in [
            "SET NAMES latin1",
            "SET sql_mode = 'ANSI_QUOTES', time_zone = '+05:00'",
            "SET autocommit = 0",
            "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "USE other",
            "INSERT INTO t VALUES (LAST_INSERT_ID(77))",
        ] {
            let mut session = open(&server);
            session.run(text);
            if text.contains("autocommit") {
                session.run("COMMIT");
            }
            leave(session);
            let mut next = open(&server);
            assert_eq!(next.value(&at_primary), fresh, "{text}");
            // Its own writes are seen, wherever it reads.
            next.run("INSERT INTO t SELECT COALESCE(MAX(a), 0) + 1 FROM t");
            let most = next.value("SELECT MAX(a) FROM t");
            assert_eq!(next.value("/* brisk:primary */ SELECT MAX(a) FROM t"), most, "{text}");
            leave(next);
        }
        assert!(count(&server, "pool", "reused") > 4, "{}", status(&server)["pool"]);
        // None of them had to log in.
        let changes = "SELECT COUNT(*) FROM mysql.general_log WHERE command_type = 'Change user'";
        assert_eq!(db.nodes[0].root().value(changes), "0");
        // What the login names is not there any more: the client is told so as by a new connection.
        db.nodes[0].root().run("DROP DATABASE other");
        let gone = Connection::tracking(place(&server), APP.0, APP.1, "other").err().unwrap();
        assert_eq!(gone.code, 1049);
    }
}

/// `interactive_timeout` and the mode IGNORE_SPACE come from the login alone: a reset leaves a connection without them.
#[test]
fn a_connection_of_a_login_that_a_reset_does_not_restore_is_not_left_to_others() {
    const IGNORE_SPACE: u32 = 1 << 8;
    const INTERACTIVE: u32 = 1 << 10;
    let (db, server) = split("mysql_pool 8;");
    db.nodes[0].root().run("SET GLOBAL interactive_timeout = 4711");
    for (asked, wanted) in [(0, "00"), (IGNORE_SPACE, "10"), (INTERACTIVE, "01")] {
        for _ in 0..4 {
            let session = Connection::asking(place(&server), APP.0, APP.1, "test", asked);
            let mut session = session.expect("the client is let in");
            let seen =
                session.value("SELECT CONCAT(@@sql_mode LIKE '%IGNORE_SPACE%', @@wait_timeout = 4711)");
            assert_eq!(seen, wanted);
            leave(&server, session);
        }
        assert_eq!(count(&server, "pool", "idle") > 0, asked == 0);
        wait::holds("no connection", || count(&server, "pool", "idle") == 0);
    }
}

/// COM_RESET_CONNECTION and COM_INIT_DB of the login's database in their frames.
const RESET: &[u8] = b"\x01\0\0\0\x1f\x05\0\0\0\x02test";

/// What is done to the answer of a reset that was sent together with a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Meddling {
    #[default]
    None,
    /// An error in its place.
    Refusal,
    /// Another status.
    Status,
}

#[derive(Default)]
struct Relay {
    meddling: Meddling,
    /// Statements that came together with a reset.
    together: Vec<Vec<u8>>,
    /// Resets that came alone.
    alone: usize,
}

/// Passes connections on to a server.
fn relay(to: SocketAddr) -> (SocketAddr, Arc<Mutex<Relay>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, state) = (listener.local_addr().unwrap(), Arc::<Mutex<Relay>>::default());
    let kept = state.clone();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) = (client, TcpStream::connect(to)) else { return };
            let meddles = Arc::new(Mutex::new(Meddling::None));
            let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let (state, now) = (kept.clone(), meddles.clone());
            std::thread::spawn(move || {
                let mut piece = [0; 16 << 10];
                while let Ok(count @ 1..) = from_client.read(&mut piece) {
                    if let Some(rest) = piece[..count].strip_prefix(RESET) {
                        let mut state = state.lock().unwrap();
                        if rest.get(4) == Some(&3) {
                            state.together.push(rest[5..].to_vec());
                            *now.lock().unwrap() = state.meddling;
                        } else {
                            state.alone += 1;
                        }
                    }
                    let _ = to_server.write_all(&piece[..count]);
                }
                let _ = to_server.shutdown(Shutdown::Both);
            });
            let (mut from_server, mut to_client) = (server, client);
            std::thread::spawn(move || {
                let mut piece = [0; 16 << 10];
                while let Ok(count @ 1..) = from_server.read(&mut piece) {
                    let mut answer = piece[..count].to_vec();
                    match std::mem::take(&mut *meddles.lock().unwrap()) {
                        Meddling::None => {}
                        // Of the second answer: header, 0, no rows, no number, the status.
                        Meddling::Status => {
                            let second = 4 + answer[0] as usize;
                            while answer.len() < second + 11 {
                                let Ok(count @ 1..) = from_server.read(&mut piece) else { return };
                                answer.extend_from_slice(&piece[..count]);
                            }
                            answer[second + 7] ^= 2;
                        }
                        Meddling::Refusal => {
                            let error = b"\xff\x17\x04#08S01no";
                            let length = 4 + answer[0] as usize;
                            let framed = [&[error.len() as u8, 0, 0, 1], &error[..]].concat();
                            answer.splice(..length, framed);
                        }
                    }
                    let _ = to_client.write_all(&answer);
                }
                let _ = to_client.shutdown(Shutdown::Both);
            });
        }
    });
    (address, state)
}

/// One server behind a relay, before it a server that keeps connections.
fn relayed() -> (Replicated, Server, Arc<Mutex<Relay>>) {
    let db = Replicated::of(1);
    mark(&db);
    let (address, state) = relay(db.nodes[0].address());
    let server = start(&[address], "mysql_pool 8;");
    expect(&server, "primary*");
    wait::holds("accounts", || status(&server)["accounts"].as_u64() > Some(0));
    (db, server, state)
}

fn leave(server: &Server, mut session: Connection) {
    session.send(0, b"\x01").unwrap();
    drop(session);
    wait::holds("no session", || count(server, "sessions", "open") == 0);
}

/// The third session of a connection on: what resets it needs no answer before the first statement is sent.
#[test]
fn a_reset_leaves_together_with_the_first_statement() {
    let (_db, server, relay) = relayed();
    wait::holds("statements together with a reset", || {
        let mut session = open(&server);
        assert_eq!(session.value("SELECT CONCAT(@@autocommit, DATABASE(), @@time_zone)"), "ONtestSYSTEM");
        session.run("SET NAMES latin1");
        session.run("SET time_zone = '+05:00'");
        leave(&server, session);
        relay.lock().unwrap().together.len() >= 4
    });
    let alone = relay.lock().unwrap().alone;
    assert!(alone > 0);
    // Sessions that ask for nothing leave a connection as it was.
    for _ in 0..4 {
        leave(&server, open(&server));
    }
    let together = relay.lock().unwrap().together.len();
    wait::holds("a statement after them", || {
        let mut session = open(&server);
        assert_eq!(session.value("SELECT @@time_zone"), "SYSTEM");
        leave(&server, session);
        relay.lock().unwrap().together.len() > together
    });
    assert!(relay.lock().unwrap().together.iter().all(|text| text.starts_with(b"SELECT")));
    // After another default database, that of the login is chosen first.
    let mut session = open(&server);
    session.run("USE information_schema");
    leave(&server, session);
    wait::holds("a reset with a database", || {
        let mut session = open(&server);
        assert_eq!(session.value("SELECT DATABASE()"), "test");
        leave(&server, session);
        relay.lock().unwrap().alone > alone
    });
}

/// The statement was carried out with something left of another session, perhaps: the client does not get its answer.
#[test]
fn a_reset_that_is_answered_otherwise_ends_the_session() {
    for (meddling, said) in [
        (Meddling::Refusal, "another answer than OK to a reset"),
        (Meddling::Status, "another status than before after a reset"),
    ] {
        let (_db, server, relay) = relayed();
        let code = wait::until("a session that is ended", || {
            relay.lock().unwrap().meddling = meddling;
            let before = relay.lock().unwrap().together.len();
            let mut session = open(&server);
            let found = session.try_value(WHO);
            let is_together = relay.lock().unwrap().together.len() > before;
            assert_eq!(found.is_err(), is_together, "{meddling:?}");
            if found.is_ok() {
                leave(&server, session);
            }
            found.err().map(|refused| refused.code)
        });
        assert_eq!(code, 2013);
        server.wait_for_log(said);
        relay.lock().unwrap().meddling = Meddling::None;
        for _ in 0..6 {
            let mut session = open(&server);
            assert_eq!(session.value(WHO), "0");
            leave(&server, session);
        }
    }
}

/// Between its login and its first statement the connection that was kept for it is lost: it has another one.
#[test]
fn a_session_that_has_asked_nothing_loses_nothing() {
    let (db, server, relay) = relayed();
    let mut root = db.nodes[0].root();
    let ids = format!("SELECT GROUP_CONCAT(ID) FROM information_schema.PROCESSLIST WHERE USER = '{}'", APP.0);
    wait::holds("a session on a kept connection", || {
        let mut session = open(&server);
        session.value(WHO);
        leave(&server, session);
        let before = relay.lock().unwrap().together.len();
        let mut session = open(&server);
        for id in root.try_value(&ids).unwrap().iter().flat_map(|ids| ids.split(',')) {
            root.run(&format!("KILL {id}"));
        }
        wait::holds("no connection", || root.try_value(&ids).unwrap().is_none());
        assert_eq!(session.value(WHO), "0");
        leave(&server, session);
        assert_eq!(relay.lock().unwrap().together.len(), before);
        count(&server, "sessions", "moved") > 0
    });
}
