//! What a session's connections behind `mysql_split` have of it, and what becomes of that when one is lost, reset or left to others.

use super::split::{WHO, count, open, place, split, start, start_with};
use super::{expect, status};
use brisk_testkit::mariadb::{Connection, Refused};
use brisk_testkit::mariadb_cluster::{APP, Node};
use brisk_testkit::{Galera, Replicated, wait};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

/// Ends all connections of applications to a server; gives how many there were.
fn end_sessions(node: &Node) -> usize {
    let mut root = node.root();
    let ids = "SELECT id FROM information_schema.processlist WHERE user = 'app'";
    let rows = root.rows(ids).unwrap();
    for row in &rows {
        // It may have ended by itself.
        let _ = root.try_run(&format!("KILL {}", row[0].as_ref().unwrap()));
    }
    wait::holds("the end of its sessions", || root.rows(ids).unwrap().is_empty());
    rows.len()
}

fn reset(session: &mut Connection) {
    session.send(0, b"\x1f").unwrap();
    session.receive().unwrap();
}

/// COM_SET_OPTION: several statements in one command.
fn allow_several(session: &mut Connection) {
    session.send(0, b"\x1b\0\0").unwrap();
    session.receive().unwrap();
}

/// On each server, without replication.
fn everywhere(db: &Replicated, statements: impl Fn(usize) -> Vec<String>) {
    for (at, node) in db.nodes.iter().enumerate() {
        let mut root = node.root();
        root.run("SET sql_log_bin = 0");
        statements(at).iter().for_each(|statement| root.run(statement));
    }
}

/// The server keeps its default database, and COM_SET_OPTION: replicas have both, too.
#[test]
fn a_reset_leaves_both_servers_with_one_default_database() {
    let (db, server) = split("");
    everywhere(&db, |at| {
        vec![
            "CREATE DATABASE other".into(),
            "CREATE TABLE other.who (id INT)".into(),
            format!("INSERT INTO other.who VALUES ({at} + 10)"),
        ]
    });
    let at_replica = |session: &mut Connection, wanted: [&str; 2]| {
        wait::holds("a read at a replica", || {
            let who = session.value(WHO);
            assert!(who.len() == wanted[0].len(), "{who} is of another database");
            wanted.contains(&&*who)
        });
    };
    let mut session = open(&server);
    at_replica(&mut session, ["1", "2"]);
    session.run("USE other");
    session.run("SET sql_mode = 'ANSI_QUOTES'");
    at_replica(&mut session, ["11", "12"]);
    allow_several(&mut session);
    for _ in 0..2 {
        reset(&mut session);
        at_replica(&mut session, ["11", "12"]);
        assert_eq!(
            (session.value("SELECT DATABASE()"), session.value("SELECT id FROM who FOR UPDATE")),
            ("other".into(), "10".into())
        );
    }
    // Another connection to the primary, which was asked before whether a read of a table there has written.
    at_replica(&mut session, ["11", "12"]);
    assert!(end_sessions(&db.nodes[0]) > 0);
    assert_eq!(session.value("SELECT id FROM who FOR UPDATE"), "10");
    // Chosen where nobody sees it.
    session.run("/*! USE test */");
    reset(&mut session);
    at_replica(&mut session, ["1", "2"]);
    session.run("/*! USE information_schema */");
    reset(&mut session);
    assert_eq!(session.value("SELECT id FROM test.who"), "0", "its tables tell of the server");
    session.run("USE other");
    reset(&mut session);
    at_replica(&mut session, ["11", "12"]);
    let rows = |session: &mut Connection| session.rows("SELECT 7; SELECT id FROM who").map(|rows| rows.len());
    assert_eq!(rows(&mut session), Ok(1), "several statements in one command");
    assert_eq!(rows(&mut open(&server)).unwrap_err().code, 1064);
}

/// A login there, too.
#[test]
fn a_session_in_a_servers_own_database_stays_at_the_primary() {
    let (_db, server) = split("");
    let mut session = Connection::tracking(place(&server), APP.0, APP.1, "information_schema").unwrap();
    for _ in 0..2 {
        assert_eq!(session.value("SELECT id FROM test.who"), "0");
        reset(&mut session);
    }
    assert!(count(&server, "pinned", "own_database") >= 1);
    session.run("USE test");
    reset(&mut session);
    wait::holds("a read at a replica", || session.value(WHO) != "0");
}

/// Whatever they are set to: a transaction that is open there would go on reading what was there when it began.
#[test]
fn replicas_without_autocommit_read_what_is_there() {
    let (db, server) = split("");
    for node in &db.nodes[1..] {
        node.root().run("SET GLOBAL autocommit = 0");
    }
    for open in [Connection::tracking, Connection::open] {
        let mut session = open(place(&server), APP.0, APP.1, "test").unwrap();
        session.run("SET autocommit = 1");
        wait::holds("a read at a replica", || session.value(WHO) != "0");
        let first: u64 = session.value("SELECT COUNT(*) FROM t").parse().unwrap();
        let before = count(&server, "statements", "replica_reads");
        for key in first..first + 30 {
            session.run(&format!("INSERT INTO t VALUES ({key})"));
            assert_eq!(session.value(&format!("SELECT COUNT(*) FROM t WHERE a = {key}")), "1", "{key}");
        }
        wait::holds("reads at a replica", || {
            assert_eq!(session.value("SELECT COUNT(*) FROM t"), (first + 30).to_string());
            count(&server, "statements", "replica_reads") > before
        });
    }
}

/// Its nodes number transactions each by itself, or not at all: no answer tells what was written.
#[test]
fn own_writes_of_a_galera_cluster_are_read_at_the_node_that_has_them() {
    let db = Galera::start();
    let addresses: Vec<SocketAddr> = db.nodes.iter().map(Node::address).collect();
    let server = start(&addresses, "");
    expect(&server, "primary* replica* replica*");
    wait::holds("accounts", || status(&server)["accounts"].as_u64() > Some(0));
    db.nodes[0].root().run("CREATE TABLE test.t (a BIGINT PRIMARY KEY)");
    for open in [Connection::tracking, Connection::open] {
        let mut session = open(place(&server), APP.0, APP.1, "test").unwrap();
        let before = count(&server, "statements", "replica_reads");
        wait::holds("a read at a replica", || {
            session.value("SELECT COUNT(*) FROM t");
            count(&server, "statements", "replica_reads") > before
        });
        let before = count(&server, "statements", "replica_reads");
        for _ in 0..5 {
            session.run("INSERT INTO t SELECT 1 + COUNT(*) FROM t");
            session.value("SELECT COUNT(*) FROM t");
        }
        assert_eq!(count(&server, "statements", "replica_reads"), before);
    }
}

/// A view may call what nobody sees in the statement.
#[test]
fn a_read_that_writes_is_carried_out_by_the_primary() {
    let (db, server) = split("");
    for node in &db.nodes {
        node.root().run("SET GLOBAL log_bin_trust_function_creators = 1");
    }
    let mut root = db.nodes[0].root();
    for statement in [
        "CREATE TABLE test.noted (a INT AUTO_INCREMENT PRIMARY KEY)",
        "CREATE FUNCTION test.note() RETURNS INT BEGIN INSERT INTO test.noted VALUES (); RETURN 5; END",
        "CREATE VIEW test.notes AS SELECT test.note() AS a",
    ] {
        root.run(statement);
    }
    db.catch_up(0);
    // Nothing but what is asked for there keeps a replica from it.
    for node in &db.nodes[1..] {
        node.root().run("SET GLOBAL read_only = OFF");
    }
    for (number, open) in [Connection::tracking, Connection::open].into_iter().enumerate() {
        let mut session = open(place(&server), APP.0, APP.1, "test").unwrap();
        assert_ne!(session.value(WHO), "");
        assert_eq!(session.value("SELECT a FROM notes"), "5");
        assert_eq!(
            session.value("SELECT COUNT(*) FROM noted"),
            (2 * number + 1).to_string(),
            "it is an own write"
        );
        let notes = session.prepare("SELECT a + ? FROM notes").unwrap();
        assert_eq!(session.executed_value(&notes, &[2], brisk_testkit::mariadb::How::Typed), "7");
        assert_eq!(session.value("SELECT COUNT(*) FROM noted"), (2 * number + 2).to_string());
    }
    db.catch_up(0);
    for node in &db.nodes {
        assert_eq!(node.root().value("SELECT COUNT(*) FROM test.noted"), "4");
    }
    // Replicas that do not get what is written so: it is an own write all the same.
    let mut behind: Vec<_> = db.nodes[1..].iter().map(Node::root).collect();
    behind.iter_mut().for_each(|replica| replica.run("LOCK TABLES test.noted READ"));
    let mut session = Connection::open(place(&server), APP.0, APP.1, "test").unwrap();
    for (read, count) in [
        ("SELECT a, @@server_id FROM notes", "5"),
        ("/* brisk:primary */ SELECT a FROM notes", "6"),
        ("SELECT a FROM notes FOR UPDATE", "7"),
    ] {
        assert_eq!(session.value(read), "5");
        assert_eq!(session.value("SELECT COUNT(*) FROM noted"), count, "{read}");
    }
}

/// It says so in place of an answer.
#[test]
fn a_replica_that_shuts_down_is_left() {
    let (mut db, server) = split("");
    let mut session = open(&server);
    let sleeping = "SELECT id FROM who WHERE SLEEP(2) = 0";
    let one: usize = session.value(WHO).parse().unwrap();
    std::thread::scope(|scope| {
        let answer = scope.spawn(|| session.try_value(sleeping));
        let node = &db.nodes[one];
        wait::holds("the statement", || {
            let found = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'app' AND info LIKE '%SLEEP%'";
            node.root().value(found) == "1"
        });
        end_sessions(node);
        assert_eq!(answer.join().unwrap(), Ok(Some("0".into())));
    });
    let mut session = open(&server);
    let one: usize = session.value(WHO).parse().unwrap();
    std::thread::scope(|scope| {
        let answer = scope.spawn(|| session.try_value(sleeping));
        let found =
            "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'app' AND info LIKE '%SLEEP%'";
        wait::holds("the statement", || db.nodes[one].root().value(found) == "1");
        db.nodes[one].stop();
        assert_eq!(answer.join().unwrap(), Ok(Some("0".into())));
    });
}

/// Passes connections on to a server. While the number is not 0, statements that read `who` are answered in its place: with that error.
fn refuser(to: SocketAddr) -> (SocketAddr, Arc<AtomicU16>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, code) = (listener.local_addr().unwrap(), Arc::new(AtomicU16::new(0)));
    let asked = code.clone();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) = (client, TcpStream::connect(to)) else { return };
            let (mut up, mut down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let (mut to_server, mut to_client) = (server, client);
            std::thread::spawn({
                let mut to_client = to_client.try_clone().unwrap();
                move || std::io::copy(&mut down, &mut to_client)
            });
            let asked = asked.clone();
            std::thread::spawn(move || {
                let mut piece = [0; 16 << 10];
                while let Ok(count @ 1..) = up.read(&mut piece) {
                    let code = asked.load(Ordering::Relaxed);
                    let is_read = piece[..count].windows(8).any(|window| window == b"FROM who");
                    let done = if code > 0 && is_read {
                        let error = [&b"\xff"[..], &code.to_le_bytes(), b"#HY000no"].concat();
                        to_client.write_all(&[&[error.len() as u8, 0, 0, 1], &error[..]].concat())
                    } else {
                        to_server.write_all(&piece[..count])
                    };
                    if done.is_err() {
                        break;
                    }
                }
                let _ = to_server.shutdown(Shutdown::Both);
            });
        }
    });
    (address, code)
}

#[test]
fn a_replica_that_is_unfit_to_answer_is_left() {
    let db = Replicated::of(2);
    everywhere(&db, |at| {
        vec!["CREATE TABLE test.who (id INT)".into(), format!("INSERT INTO test.who VALUES ({at})")]
    });
    let (address, code) = refuser(db.nodes[1].address());
    let server = start(&[db.nodes[0].address(), address], "mysql_accounts {{DIR}}/accounts;");
    expect(&server, "primary* replica*");
    let mut session = open(&server);
    // It shuts down, has ended the session, has lost its cluster, may not write.
    for number in [1053, 1077, 1079, 1927, 1047, 1290, 1792] {
        wait::holds("a read at the replica", || session.value(WHO) == "1");
        code.store(number, Ordering::Relaxed);
        assert_eq!(session.value(WHO), "0", "{number}");
        code.store(0, Ordering::Relaxed);
    }
    // What a statement of its own has come to is the answer.
    wait::holds("a read at the replica", || session.value(WHO) == "1");
    code.store(1317, Ordering::Relaxed);
    assert_eq!(session.try_run(WHO).unwrap_err().code, 1317);
}

/// Its connection was closed while nothing was on the way: another one does not know these.
#[test]
fn what_only_a_lost_connection_knew_is_not_made_up() {
    let (db, server) = split("");
    db.nodes[0].root().run("CREATE TABLE test.counted (a INT AUTO_INCREMENT PRIMARY KEY)");
    let lost = |text: &str, wanted: Result<(), u16>| {
        let mut session = open(&server);
        session.run("INSERT INTO counted VALUES ()");
        assert_ne!(session.value("SELECT LAST_INSERT_ID()"), "0");
        session.run("UPDATE counted SET a = a WHERE a = 0");
        assert!(end_sessions(&db.nodes[0]) > 0);
        let answer = session.try_run(text).map_err(|error: Refused| error.code);
        assert_eq!(answer, wanted, "{text}");
        let goes_on = session.try_run("SELECT id FROM who FOR UPDATE").is_ok();
        assert_eq!(goes_on, wanted.is_ok(), "{text}");
    };
    for text in [
        "SELECT LAST_INSERT_ID()",
        "INSERT INTO t VALUES (LAST_INSERT_ID())",
        "SELECT ROW_COUNT()",
        "SHOW WARNINGS",
        "SELECT @@identity",
    ] {
        lost(text, Err(2006));
    }
    // What leaves something there itself has left nothing yet.
    for text in
        ["SET @a = 1", "INSERT INTO t VALUES (1)", "SELECT @@version", "CREATE TEMPORARY TABLE x (a INT)"]
    {
        lost(text, Ok(()));
    }
    // The replica that knew it.
    let mut session = open(&server);
    wait::holds("a read at a replica", || session.value(WHO) != "0");
    session.value("SELECT id + 'x' FROM who");
    assert_eq!(session.rows("SHOW WARNINGS").unwrap().len(), 1);
    assert!(db.nodes[1..].iter().map(end_sessions).sum::<usize>() > 0);
    assert_eq!(session.try_run("SHOW WARNINGS").unwrap_err().code, 1105);
    assert_eq!(session.try_run("SELECT FOUND_ROWS()").unwrap_err().code, 1105);
    session.value(WHO);
    session.run("SHOW WARNINGS");
}

#[test]
fn a_connection_that_takes_several_statements_is_not_left_to_others() {
    let (_db, server) = split("mysql_pool 8;");
    let ended = || wait::holds("no session", || count(&server, "sessions", "open") == 0);
    let mut session = open(&server);
    session.value(WHO);
    allow_several(&mut session);
    session.value(WHO);
    session.send(0, b"\x01").unwrap();
    drop(session);
    ended();
    assert_eq!(count(&server, "pool", "idle"), 0);
    for _ in 0..4 {
        let mut session = open(&server);
        assert_eq!(session.try_run("DO 1; DO 2").unwrap_err().code, 1064);
        assert_eq!(session.try_run("SELECT 1; SELECT 2").unwrap_err().code, 1064);
        session.send(0, b"\x01").unwrap();
        drop(session);
        ended();
    }
    wait::holds("connections of an earlier session", || count(&server, "pool", "reused") > 0);
}

/// A reset leaves the role, so the connection stays with its session.
#[test]
fn a_role_is_not_left_to_others() {
    let (db, server) = split("mysql_pool 8;");
    let ended = || wait::holds("no session", || count(&server, "sessions", "open") == 0);
    let mut root = db.nodes[0].root();
    root.run("CREATE ROLE reader");
    root.run("GRANT reader TO app@'%'");
    for _ in 0..4 {
        let mut session = open(&server);
        assert_eq!(session.value("SELECT COALESCE(CURRENT_ROLE(), 'none')"), "none");
        session.run("SET ROLE reader");
        reset(&mut session);
        assert_eq!(session.value("SELECT CURRENT_ROLE()"), "reader");
        assert_eq!(session.value(WHO), "0");
        session.send(0, b"\x01").unwrap();
        drop(session);
        ended();
    }
    assert_eq!(count(&server, "pool", "idle"), 0);
}

/// The primary would take our address for the client's.
#[test]
fn an_account_of_another_host_is_refused_here() {
    let (db, server) = split("proxy_bind 127.0.0.2;");
    let mut root = db.nodes[0].root();
    root.run("CREATE USER inside@'127.0.0.2' IDENTIFIED BY 'secret'");
    root.run("GRANT ALL ON test.* TO inside@'127.0.0.2'");
    root.run("CREATE USER locked@'127.0.0.1' IDENTIFIED BY 'secret' ACCOUNT LOCK");
    root.run("CREATE USER locked@'%' IDENTIFIED BY 'secret'");
    let before = status(&server)["accounts"].as_u64();
    wait::holds("the new accounts", || status(&server)["accounts"].as_u64() > before);
    // Servers take the quotes off.
    for name in ["inside", "'inside'", "locked"] {
        let refused = Connection::open(place(&server), name, "secret", "").err().unwrap();
        assert_eq!(refused.code, 1045, "{name}");
    }
    // Not seen yet: the session is passed on as it is, and may have the same account again, but not that one.
    root.run("CREATE USER fresh@'%' IDENTIFIED BY 'secret'");
    root.run("GRANT ALL ON test.* TO fresh@'%'");
    let mut session = Connection::open(place(&server), "fresh", "secret", "test").unwrap();
    server.wait_for_log("is not known: its session is not split");
    session.send(0, b"\x11fresh\0\0test\0\x21\0mysql_native_password\0").unwrap();
    let switch = session.receive().unwrap();
    let answer = brisk_testkit::mariadb::native("secret", &switch[b"\xfemysql_native_password\0".len()..]);
    session.send(2, &answer).unwrap();
    assert_eq!(session.receive().unwrap()[0], 0);
    assert_eq!(session.value("SELECT USER()"), "fresh@127.0.0.2");
    session.send(0, b"\x11'inside'\0\0test\0\x21\0mysql_native_password\0").unwrap();
    assert_eq!(session.receive().unwrap_err().code, 1045);
    assert_eq!(session.receive().unwrap_err().code, 0);
    assert_eq!(open(&server).value("SELECT 1"), "1");
}

#[test]
fn another_account_may_have_any_collation() {
    let (_db, server) = split("mysql_accounts {{DIR}}/accounts; mysql_pool 4;");
    let change = |session: &mut Connection, collation: &[u8; 2]| {
        session
            .send(0, &[b"\x11app\0\0test\0", &collation[..], b"mysql_native_password\0"].concat())
            .unwrap();
        let switch = session.receive().unwrap();
        let answer = brisk_testkit::mariadb::native(APP.1, &switch[b"\xfemysql_native_password\0".len()..]);
        session.send(2, &answer).unwrap();
        session.receive()
    };
    let mut session = open(&server);
    // utf8mb4_general_nopad_ci.
    assert_eq!(change(&mut session, &1069u16.to_le_bytes()).unwrap()[0], 0);
    assert_eq!(session.value("SELECT @@collation_connection"), "utf8mb4_general_nopad_ci");
    wait::holds("a read at a replica", || session.value(WHO) != "0");
    // gbk_chinese_nopad_ci, in which a quote may be a part of a letter.
    assert_eq!(change(&mut session, &1052u16.to_le_bytes()).unwrap()[0], 0);
    assert_eq!(session.value(WHO), "0");
    // ucs2_general_ci.
    assert_eq!(change(&mut session, &35u16.to_le_bytes()).unwrap_err().code, 1115);
}

/// Commands that do not end: who holds most is closed, and nobody else.
#[test]
fn sessions_that_hold_much_are_closed_when_memory_is_short() {
    const LENGTH: u32 = 1 << 20;
    let db = Replicated::of(1);
    let server = start_with(&[db.nodes[0].address()], "memory_limit 120m;", "");
    expect(&server, "primary*");
    wait::holds("accounts", || status(&server)["accounts"].as_u64() > Some(0));
    let mut good = open(&server);
    let beginning = [&b"\x03SELECT '"[..], &vec![b'x'; LENGTH as usize - 100]].concat();
    let mut held = Vec::new();
    while count(&server, "sessions", "open") > held.len() as u64 && held.len() < 200 {
        let mut session = open(&server);
        // It may be closed in the middle of it.
        let _ = session.send_beginning(LENGTH, &beginning);
        held.push(session);
    }
    server.wait_for_log("session is closed for want of memory: it holds [12]\\d{6} bytes");
    assert_eq!(good.value("SELECT 1"), "1");
    drop(held);
    wait::holds("a new session", || Connection::tracking(place(&server), APP.0, APP.1, "test").is_ok());
}

/// What a connection to a server came to: bytes that it was sent, and the first byte of the last message that it has sent.
type Seen = Arc<Mutex<Vec<(usize, u8)>>>;

/// Passes connections on to a server, and tells of each.
fn recorder(to: SocketAddr) -> (SocketAddr, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Seen::default());
    let told = seen.clone();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) = (client, TcpStream::connect(to)) else { return };
            let (mut up, mut down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let (mut to_server, mut to_client) = (server, client);
            let told = told.clone();
            std::thread::spawn(move || {
                let sent = std::thread::spawn(move || {
                    let sent = std::io::copy(&mut up, &mut to_server).unwrap_or(0);
                    let _ = to_server.shutdown(Shutdown::Write);
                    sent as usize
                });
                let (mut piece, mut last) = ([0; 16 << 10], 0);
                while let Ok(count @ 1..) = down.read(&mut piece) {
                    last = piece[..count].get(4).copied().unwrap_or(last);
                    let _ = to_client.write_all(&piece[..count]);
                }
                let _ = to_client.shutdown(Shutdown::Both);
                told.lock().unwrap().push((sent.join().unwrap(), last));
            });
        }
    });
    (address, seen)
}

/// Servers count handshakes that are broken off, against our address, and let nobody in from there in the end.
#[test]
fn strangers_cannot_have_a_server_refuse_us() {
    let db = Replicated::of(1);
    let (address, seen) = recorder(db.nodes[0].address());
    let server = start(&[address], "");
    expect(&server, "primary*");
    wait::holds("accounts", || status(&server)["accounts"].as_u64() > Some(0));
    let login = |name: &str, collation: u8| {
        let mut login = vec![1, 0xa2, 8, 0, 0, 0, 0, 1, collation];
        login.extend([0; 23]);
        login.extend([name.as_bytes(), b"\0\0mysql_native_password\0"].concat());
        [&[login.len() as u8, 0, 0, 1], &login[..]].concat()
    };
    let stranger = |messages: &[Vec<u8>]| {
        let mut client = TcpStream::connect(place(&server)).unwrap();
        client.set_read_timeout(Some(wait::DEADLINE)).unwrap();
        for message in messages {
            let _ = client.read(&mut [0; 1024]).unwrap();
            client.write_all(message).unwrap();
        }
        // The answer to the last one, and the end.
        let _ = client.read(&mut [0; 1024]).unwrap();
    };
    stranger(&[]);
    for name in ["nobody", "a", "b", "c", "d"] {
        stranger(&[login(name, 33)]);
        stranger(&[login(name, 33), b"\x03\0\0\x03abc".to_vec()]);
        stranger(&[login(name, 35)]);
    }
    assert_eq!(open(&server).value("SELECT 1"), "1");
    wait::holds("no session", || count(&server, "sessions", "open") == 0);
    let all = wait::until("the end of connections", || {
        let all = seen.lock().unwrap().clone();
        (all.len() >= 11).then_some(all)
    });
    for (sent, last) in &all {
        // The good one has ended with a command.
        assert!(*sent > 40 && [0xff, 0, 1].contains(last), "{all:?}");
    }
    assert!(all.iter().filter(|(_, last)| *last == 0xff).count() >= 10, "{all:?}");
}
