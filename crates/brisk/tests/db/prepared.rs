//! Prepared statements behind `mysql_split`: where they run, and that they are the same wherever that is.

use super::split::{WHO, count, open, place, split};
use super::status;
use brisk_testkit::mariadb::{Connection, How, Prepared, Refused};
use brisk_testkit::mariadb_cluster::APP;
use brisk_testkit::{Replicated, Server, process, wait};
use rustix::process::Signal;
use std::process::Command;

/// Tells who answers, and how parameters are read.
const WHO_PLUS: &str = "SELECT id + ? FROM who";

/// Waits until a statement is executed at a replica: who has just written may have to wait for that.
fn at_replica(session: &mut Connection, of: &Prepared, values: &[i64], how: How) {
    let shift: i64 = values.iter().sum();
    wait::holds("an execution at a replica", || {
        let answer = session.executed_value(of, values, how).parse::<i64>().expect("a number");
        assert!((0..3).contains(&(answer - shift)), "{answer} for {values:?}");
        answer > shift
    });
}

#[test]
fn prepared_reads_run_at_replicas_and_everything_else_at_the_primary() {
    let (_db, server) = split("");
    let mut session = open(&server);
    let who = session.prepare(WHO_PLUS).unwrap();
    assert_eq!(who.parameters, 1);
    at_replica(&mut session, &who, &[10], How::Typed);
    at_replica(&mut session, &who, &[20], How::AsBefore);
    // The primary has neither seen the statement nor the types.
    session.run("BEGIN");
    assert_eq!(session.executed_value(&who, &[30], How::AsBefore), "30");
    assert_eq!(session.executed_value(&who, &[40], How::Typed), "40");
    session.run("COMMIT");
    at_replica(&mut session, &who, &[50], How::AsBefore);
    let hinted = session.prepare("/* brisk:primary */ SELECT id FROM who").unwrap();
    assert_eq!(session.executed_value(&hinted, &[], How::Typed), "0");
    let locking = session.prepare("SELECT id FROM who FOR UPDATE").unwrap();
    assert_eq!(session.executed_value(&locking, &[], How::Typed), "0");
    let insert = session.prepare("INSERT INTO t VALUES (?)").unwrap();
    let found = session.prepare("SELECT COUNT(*) FROM t WHERE a = ?").unwrap();
    for key in 0..50 {
        let how = if key == 0 { How::Typed } else { How::AsBefore };
        session.execute(&insert, &[key], how).unwrap();
        assert_eq!(session.executed_value(&found, &[key], how), "1", "{key}");
    }
    assert_eq!(count(&server, "statements", "prepared"), 5);
    assert!(count(&server, "statements", "prepared_again") >= 1);
    // What keeps the session at the primary keeps prepared statements there.
    session.run("SET @a = 1");
    assert_eq!(session.executed_value(&who, &[60], How::AsBefore), "60");
}

#[test]
fn a_statement_that_is_closed_or_unknown_is_executed_nowhere() {
    let (db, server) = split("");
    let mut session = open(&server);
    let who = session.prepare(WHO).unwrap();
    let other = session.prepare(WHO_PLUS).unwrap();
    session.run("BEGIN");
    session.execute(&who, &[], How::Typed).unwrap();
    session.run("COMMIT");
    session.close(&who).unwrap();
    let unknown = |result: Result<_, Refused>| {
        let error = result.map(drop).unwrap_err();
        assert_eq!(error.code, 1243, "{error:?}");
    };
    unknown(session.execute(&who, &[], How::Typed));
    unknown(session.reset(&who).map(|()| Vec::new()));
    unknown(session.fetch(&who, 1));
    // What nobody answers is passed over.
    session.close(&who).unwrap();
    session.send_part(&who, 0, b"part").unwrap();
    // Without types, which were never told, and with less than its types.
    assert_eq!(session.execute(&other, &[1], How::AsBefore).unwrap_err().code, 1210);
    session.send(0, &Connection::execution(other.id, &[], How::Typed)).unwrap();
    assert_eq!(session.receive().unwrap_err().code, 1210);
    assert_eq!(session.prepare("SELECT nothing FROM nowhere").unwrap_err().code, 1146);
    assert_eq!(session.prepare("SELECT 1 +").unwrap_err().code, 1064);
    // Both at once, as MariaDB's clients send them: the last one is meant, and there is none behind one that was refused.
    let mut both = |text: &[u8]| {
        session.send(0, &[b"\x16", text].concat()).unwrap();
        session.send(0, &Connection::execution(u32::MAX, &[], How::Typed)).unwrap();
        let prepared = session.prepared();
        (prepared.map(|prepared| prepared.id), session.executed(false))
    };
    let (id, rows) = both(WHO.as_bytes());
    assert!(id.is_ok_and(|id| id != who.id && id != other.id));
    assert_eq!(rows.unwrap().len(), 1);
    let (id, rows) = both(b"SELECT nothing FROM nowhere");
    assert_eq!((id.unwrap_err().code, rows.unwrap_err().code), (1146, 1243));
    session.send(0, b"\x1f").unwrap();
    session.receive().unwrap();
    unknown(session.execute(&other, &[1], How::Typed));
    drop(session);
    wait::holds("no statement at any server", || {
        db.nodes.iter().all(|node| statements(&mut node.root()) == 0)
    });
}

/// Those that all sessions of a server have prepared.
fn statements(root: &mut Connection) -> u64 {
    let rows = root.rows("SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'").unwrap();
    rows[0][1].as_ref().unwrap().parse().unwrap()
}

/// A table that one server has, another database, another mode.
#[test]
fn a_statement_means_the_same_wherever_it_runs() {
    let (db, server) = split("");
    for (at, node) in db.nodes.iter().enumerate() {
        let mut root = node.root();
        root.run("SET sql_log_bin = 0");
        root.run("CREATE DATABASE other");
        root.run("CREATE TABLE other.who (id INT)");
        root.run(&format!("INSERT INTO other.who VALUES ({at} + 10)"));
        if at == 0 {
            root.run("CREATE TABLE test.alone (id INT)");
            root.run("INSERT INTO test.alone VALUES (7)");
        }
    }
    let mut session = open(&server);
    // A replica that cannot prepare it is none that may answer.
    let alone = session.prepare("SELECT id FROM alone").unwrap();
    assert_eq!(session.executed_value(&alone, &[], How::Typed), "7");
    let who = session.prepare(WHO).unwrap();
    let quoted = session.prepare("SELECT \"id\" FROM who").unwrap();
    session.run("USE other");
    session.run("SET sql_mode = 'ANSI_QUOTES'");
    let id: i64 = session.executed_value(&who, &[], How::Typed).parse().unwrap();
    assert!((0..3).contains(&id), "{id} is in the other database");
    assert_eq!(session.executed_value(&quoted, &[], How::Typed), "id");
    session.run("BEGIN");
    // Not 10: it was prepared before.
    assert_eq!(session.executed_value(&who, &[], How::Typed), "0");
    assert_eq!(session.executed_value(&quoted, &[], How::Typed), "id");
    session.run("COMMIT");
    let who = session.prepare("SELECT id - 10 FROM who").unwrap();
    let quoted = session.prepare("SELECT \"id\" - 10 FROM who").unwrap();
    at_replica(&mut session, &who, &[], How::Typed);
    at_replica(&mut session, &quoted, &[], How::Typed);
    session.run("BEGIN");
    assert_eq!(session.executed_value(&who, &[], How::Typed), "0");
    assert_eq!(session.executed_value(&quoted, &[], How::Typed), "0");
}

#[test]
fn what_a_statement_leaves_is_asked_where_it_ran() {
    let (_db, server) = split("");
    let mut session = open(&server);
    let warns = session.prepare("SELECT id + CAST('x' AS SIGNED) FROM who").unwrap();
    let insert = session.prepare("INSERT INTO t VALUES (?), (?)").unwrap();
    let found = session.prepare("SELECT FOUND_ROWS()").unwrap();
    let limited = "SELECT SQL_CALC_FOUND_ROWS a.id FROM who a, who b, (SELECT 1 UNION SELECT 2) c LIMIT 1";
    let limited = session.prepare(limited).unwrap();
    at_replica(&mut session, &warns, &[], How::Typed);
    assert_eq!(session.rows("SHOW WARNINGS").unwrap().len(), 1);
    assert_eq!(session.execute(&limited, &[], How::Typed).unwrap().len(), 1);
    assert_eq!(session.executed_value(&found, &[], How::Typed), "2");
    assert_eq!(session.execute(&limited, &[], How::Typed).unwrap().len(), 1);
    session.close(&limited).unwrap();
    assert_eq!(session.value("SELECT FOUND_ROWS()"), "2");
    // It is prepared where the last statement ran: not where the next one runs.
    let changed = session.prepare("SELECT ROW_COUNT()").unwrap();
    session.execute(&insert, &[1, 2], How::Typed).unwrap();
    assert_eq!(session.executed_value(&changed, &[], How::Typed), "2");
    // The primary has not told what this client has written, and is not asked before the statement is executed.
    let mut session = Connection::open(place(&server), APP.0, APP.1, "test").unwrap();
    let who = session.prepare(WHO_PLUS).unwrap();
    session.run("INSERT INTO t VALUES (3), (4), (5)");
    let more = session.prepare("SELECT id + ? FROM who WHERE id < 10").unwrap();
    assert_eq!(session.value("SELECT ROW_COUNT()"), "3");
    at_replica(&mut session, &who, &[10], How::Typed);
    at_replica(&mut session, &more, &[10], How::Typed);
}

#[test]
fn rows_are_fetched_from_the_server_that_has_them() {
    let (mut db, server) = split("");
    let mut session = open(&server);
    let many = "SELECT n.id, n.id + w.id FROM who w, (SELECT 100 id UNION SELECT 101 UNION SELECT 102) n";
    let many = session.prepare(many).unwrap();
    let who = session.prepare(WHO).unwrap();
    let execute = |session: &mut Connection| {
        session.execute(&many, &[], How::Cursor).unwrap();
        let rows = session.fetch(&many, 2).unwrap();
        assert_eq!((rows.len(), rows[0][0].as_deref()), (2, Some("100")));
        rows[0][1].as_ref().unwrap().parse::<usize>().unwrap() - 100
    };
    let replica = execute(&mut session);
    assert_ne!(replica, 0);
    // Others are carried out in between, wherever.
    session.run("INSERT INTO t VALUES (1)");
    session.execute(&who, &[], How::Typed).unwrap();
    let rest = session.fetch(&many, 2).unwrap();
    assert_eq!((rest.len(), rest[0][0].as_deref()), (1, Some("102")));
    assert_eq!(session.fetch(&many, 2).unwrap_err().code, 1421);
    // At the primary, too, beyond the end of the transaction if it likes.
    session.run("BEGIN");
    assert_eq!(execute(&mut session), 0);
    assert_eq!(session.fetch(&many, 1).unwrap().len(), 1);
    session.reset(&many).unwrap();
    assert_eq!(session.fetch(&many, 1).unwrap_err().code, 1421);
    session.run("COMMIT");
    let mut fresh = open(&server);
    let again = fresh.prepare("SELECT id, id FROM who UNION SELECT 100, 1 UNION SELECT 101, 2").unwrap();
    fresh.execute(&again, &[], How::Cursor).unwrap();
    let rows = fresh.fetch(&again, 1).unwrap();
    let replica: usize = rows[0][0].as_ref().unwrap().parse().unwrap();
    db.nodes[replica].kill();
    assert_eq!(fresh.fetch(&again, 1).unwrap_err().code, 1421, "they are gone with the replica");
    let who = fresh.prepare(WHO).unwrap();
    assert_ne!(fresh.executed_value(&who, &[], How::Typed), replica.to_string());
}

/// Parts of parameters, and commands that are too long to be looked at.
#[test]
fn long_parameters_reach_the_server_that_uses_them() {
    let (_db, server) = split("");
    let mut session = open(&server);
    session.run("CREATE TABLE long_one (number BIGINT, data LONGTEXT)");
    let insert = session.prepare("INSERT INTO long_one VALUES (?, ?)").unwrap();
    let length = session.prepare("SELECT id, LENGTH(?) FROM who").unwrap();
    // Types: a number and a text; the text was sent ahead.
    let execute = |session: &mut Connection, of: &Prepared, types: &[u8], values: &[u8]| {
        let mut message = Connection::execution(of.id, &[], How::Typed);
        message.extend([0, 1]);
        message.extend(types);
        message.extend(values);
        session.send(0, &message).unwrap();
        session.executed(false).unwrap()
    };
    let part = vec![b'x'; 1_500_000];
    for part in [&part[..], b"short", &part] {
        session.send_part(&insert, 1, part).unwrap();
    }
    execute(&mut session, &insert, &[8, 0, 252, 0], &5i64.to_le_bytes());
    assert_eq!(session.value("SELECT LENGTH(data) FROM long_one WHERE number = 5"), "3000005");
    // A read that has a part at the primary is executed there, and only that once.
    session.send_part(&length, 0, b"four").unwrap();
    let rows = execute(&mut session, &length, &[252, 0], b"");
    assert_eq!(rows, [[Some("0".to_string()), Some("4".to_string())]]);
    wait::holds("an execution at a replica", || {
        let rows = execute(&mut session, &length, &[253, 0], b"\x03abc");
        assert_eq!(rows[0][1].as_deref(), Some("3"));
        rows[0][0].as_deref() != Some("0")
    });
    session.send_part(&length, 0, b"forgotten").unwrap();
    session.reset(&length).unwrap();
    assert_eq!(execute(&mut session, &length, &[253, 0], b"\x02ab")[0][1].as_deref(), Some("2"));
    // 2 MB in one message.
    let mut values = 6i64.to_le_bytes().to_vec();
    values.push(0xfd);
    values.extend(&2_000_000u32.to_le_bytes()[..3]);
    values.resize(values.len() + 2_000_000, b'y');
    execute(&mut session, &insert, &[8, 0, 253, 0], &values);
    assert_eq!(session.value("SELECT LENGTH(data) FROM long_one WHERE number = 6"), "2000000");
    let text = format!("SELECT LENGTH('{}'), id FROM who", "x".repeat(2_000_000));
    let long = session.prepare(&text).unwrap();
    let rows = session.execute(&long, &[], How::Typed).unwrap();
    assert_eq!(rows, [[Some("2000000".to_string()), Some("0".to_string())]]);
}

#[test]
fn statements_outlive_the_servers_that_they_were_prepared_at() {
    let (mut db, server) = split("");
    db.nodes[0].root().run("CREATE DATABASE elsewhere");
    db.catch_up(0);
    let mut session = open(&server);
    let who = session.prepare(WHO_PLUS).unwrap();
    let insert = session.prepare("INSERT INTO t VALUES (?)").unwrap();
    session.execute(&insert, &[1], How::Typed).unwrap();
    // New connections are told of it after what was prepared before: it is `test` that is written to and read.
    session.run("USE elsewhere");
    at_replica(&mut session, &who, &[10], How::Typed);
    let mut busy = open(&server);
    let theirs = busy.prepare("INSERT INTO t VALUES (?)").unwrap();
    busy.run("BEGIN");
    busy.execute(&theirs, &[2], How::Typed).unwrap();
    let found = session.executed_value(&who, &[0], How::AsBefore).parse::<usize>().unwrap();
    // The replica that it reads from: nobody notices.
    let one = if found == 0 { 1 } else { found };
    db.nodes[one].kill();
    for value in 0..20 {
        assert_ne!(
            session.executed_value(&who, &[value * 10], How::AsBefore),
            (value * 10 + one as i64).to_string()
        );
    }
    let other = 3 - one;
    db.catch_up(0);
    db.nodes[0].kill();
    let error = busy.execute(&theirs, &[3], How::AsBefore).unwrap_err();
    assert!([2006, 2013].contains(&error.code), "{error:?}");
    let error = session.execute(&insert, &[4], How::AsBefore).unwrap_err();
    assert_eq!(error.code, 1290, "nothing of it is gone with the primary: {error:?}");
    db.promote(other);
    wait::holds("writes at the promoted server", || match session.execute(&insert, &[4], How::AsBefore) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.code, 1290, "{error:?}");
            false
        }
    });
    assert_eq!(session.value("SELECT COUNT(*) FROM test.t WHERE a = 4"), "1");
    assert_eq!(session.value("SELECT DATABASE()"), "elsewhere");
    assert_eq!(session.executed_value(&who, &[70], How::AsBefore), (70 + other).to_string());
}

/// One replica executes nothing: what a session has written is read all the same. `BRISK_SPLIT_WRITES`: of each session.
#[test]
fn prepared_reads_read_what_the_session_has_written() {
    let times = std::env::var("BRISK_SPLIT_WRITES").ok().and_then(|text| text.parse().ok()).unwrap_or(50i64);
    let (db, server) = split("");
    let mut behind = db.nodes[1].root();
    behind.run("LOCK TABLES test.t READ");
    let to = place(&server);
    std::thread::scope(|scope| {
        for thread in 0..4i64 {
            scope.spawn(move || {
                let open = if thread % 2 == 0 { Connection::tracking } else { Connection::open };
                let mut session = open(to, APP.0, APP.1, "test").unwrap();
                let insert = session.prepare("INSERT INTO t VALUES (?)").unwrap();
                let found = session.prepare("SELECT COUNT(*) FROM t WHERE a = ?").unwrap();
                for number in 0..times {
                    let key = (thread << 32) + number;
                    session.execute(&insert, &[key], How::Typed).unwrap();
                    assert_eq!(session.executed_value(&found, &[key], How::Typed), "1", "{key}");
                }
            });
        }
    });
    behind.run("UNLOCK TABLES");
    let reads = ["replica_reads", "primary_reads"].map(|name| count(&server, "statements", name));
    assert_eq!(reads[0] + reads[1], 4 * times as u64, "{reads:?}");
    println!("{}", status(&server)["statements"]);
}

#[test]
fn connections_that_are_kept_have_no_statements() {
    let (db, server) = split("mysql_pool 8;");
    let session = || {
        let mut session = open(&server);
        let who = session.prepare(WHO_PLUS).unwrap();
        assert_ne!(session.executed_value(&who, &[0], How::Typed), "0");
        session.prepare("INSERT INTO t VALUES (?)").unwrap();
        session.send(0, b"\x01").unwrap();
    };
    wait::holds("connections of an earlier session", || {
        session();
        count(&server, "pool", "reused") >= 4
    });
    wait::holds("no statement at any server", || {
        db.nodes.iter().all(|node| statements(&mut node.root()) == 0)
    });
}

/// It takes what it is sent, and answers nothing.
#[test]
fn a_replica_that_stalls_keeps_no_statement_waiting() {
    let (db, server) = split("");
    let mut session = open(&server);
    let (known, closed) = (session.prepare(WHO).unwrap(), session.prepare(WHO).unwrap());
    let one: usize = session.executed_value(&known, &[], How::Typed).parse().unwrap();
    assert_ne!(one, 0);
    process::stop(db.nodes[one].pid());
    session.close(&closed).unwrap();
    let answers = [session.executed_value(&known, &[], How::Typed), {
        let new = session.prepare(WHO).unwrap();
        session.executed_value(&new, &[], How::Typed)
    }];
    process::signal(db.nodes[one].pid(), Signal::CONT);
    assert!(!answers.contains(&one.to_string()), "{answers:?}");
}

/// PHP's two ways to the database, neither of which pretends to prepare.
#[test]
fn php_reads_at_replicas() {
    let (_db, server): (Replicated, Server) = split("");
    let script = r#"
        [$port, $user, $password] = array_slice($argv, 1);
        $db = new mysqli('127.0.0.1', $user, $password, 'test', (int)$port);
        $who = $db->prepare('SELECT id, ? AS number, ? AS text FROM who');
        $number = 1; $text = 'a';
        $who->bind_param('is', $number, $text);
        for (; $number < 4; $number++) { $who->execute(); echo implode(' ', $who->get_result()->fetch_row()), "\n"; }
        $insert = $db->prepare('INSERT INTO t VALUES (?)');
        $insert->bind_param('i', $number); $insert->execute();
        $found = $db->prepare('SELECT COUNT(*) FROM t WHERE a = ?');
        $found->bind_param('i', $number); $found->execute(); echo $found->get_result()->fetch_row()[0], "\n";
        $db->close();
        $pdo = new PDO("mysql:host=127.0.0.1;port=$port;dbname=test", $user, $password, [PDO::ATTR_EMULATE_PREPARES => false]);
        $who = $pdo->prepare('SELECT id, :text FROM who');
        foreach (['x', 'y'] as $text) { $who->execute(['text' => $text]); echo implode(' ', $who->fetch(PDO::FETCH_NUM)), "\n"; }
        $pdo->beginTransaction();
        $who->execute(['text' => 'z']); echo implode(' ', $who->fetch(PDO::FETCH_NUM)), "\n";
        $pdo->prepare('INSERT INTO t VALUES (?)')->execute([77]);
        $pdo->commit();
        $found = $pdo->prepare('SELECT COUNT(*) FROM t'); $found->execute(); echo $found->fetchColumn(), "\n";
    "#;
    let mut command = Command::new("php");
    command.args(["-r", script, "--", &server.port_of(1).to_string(), APP.0, APP.1]);
    let output = command.output().expect("PHP is installed: scripts/setup.sh does that");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = shown.lines().collect();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(lines.len(), 8, "{shown}{error}");
    for (line, rest) in [(0, " 1 a"), (1, " 2 a"), (2, " 3 a"), (4, " x"), (5, " y")] {
        assert!(["1", "2"].iter().any(|id| lines[line] == format!("{id}{rest}")), "{shown}");
    }
    assert_eq!((lines[3], lines[6], lines[7]), ("1", "0 z", "2"), "{shown}");
}
