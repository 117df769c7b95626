//! Clients of `mysql_split` that compress.

use super::expect;
use super::split::{WHO, count, mariadb, mark, open, place, split, start};
use brisk_testkit::mariadb::{Connection, How, native};
use brisk_testkit::mariadb_cluster::{APP, Node};
use brisk_testkit::{Replicated, Server, process, wait};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Has a line with the bytes that were sent written for each session.
const COUNTED: &str = "log_format sent '$bytes_sent'; access_log {{DIR}}/sent.log sent;";

fn open_packed(server: &Server, cut_bytes: usize) -> Connection {
    Connection::packed(place(server), APP.0, APP.1, "test", cut_bytes).expect("the client is let in")
}

/// Asks until a replica has answered.
fn at_replica(session: &mut Connection, question: &str) -> String {
    wait::holds("a read at a replica", || session.value(WHO) != "0");
    session.value(question)
}

#[test]
fn a_client_that_compresses_sees_no_difference() {
    let (_db, server) = split("");
    for (session, cut_bytes) in [1, 100, 1 << 20].into_iter().enumerate() {
        let first = 1000 * session as i64;
        let mut session = open_packed(&server, cut_bytes);
        assert_ne!(session.value(WHO), "0");
        session.value("SELECT id + 'x' FROM who");
        assert_eq!(session.rows("SHOW WARNINGS").unwrap().len(), 1);
        for key in first..first + 10 {
            session.run(&format!("INSERT INTO t VALUES ({key})"));
            assert_eq!(session.value(&format!("SELECT COUNT(*) FROM t WHERE a = {key}")), "1");
        }
        let error = session.try_run("SELECT nothing FROM nowhere").unwrap_err();
        assert_eq!(error.code, 1146);
        // Prepared at both, and a command that nobody answers with the next one behind it.
        let who = session.prepare("SELECT id + ? FROM who").unwrap();
        let closed = session.prepare(WHO).unwrap();
        wait::holds("an execution at a replica", || session.executed_value(&who, &[10], How::Typed) != "10");
        session.run("BEGIN");
        session.close(&closed).unwrap();
        assert_eq!(session.executed_value(&who, &[20], How::AsBefore), "20");
        session.run("COMMIT");
        let insert = session.prepare("INSERT INTO t VALUES (?)").unwrap();
        session.execute(&insert, &[first + 100], How::Typed).unwrap();
        let long = session.prepare("SELECT LENGTH(?)").unwrap();
        for _ in 0..3 {
            session.send_part(&long, 0, &vec![b'x'; 20_000]).unwrap();
        }
        let mut message = Connection::execution(long.id, &[], How::Typed);
        message.extend([0, 1, 252, 0]);
        session.send(0, &message).unwrap();
        assert_eq!(session.executed(false).unwrap(), [[Some("60000".to_string())]]);
        // Longer than what is looked at.
        if cut_bytes > 1 {
            let long = format!("SELECT LENGTH('{}'), id FROM who", "x".repeat(3 << 20));
            assert_eq!(session.value(&long), (3 << 20).to_string());
        }
        let rows = session.rows("SELECT a, REPEAT(a, 1000) FROM t WHERE a < 10000").unwrap();
        assert!(rows.iter().all(|row| row[1].as_ref().unwrap().len() % 1000 == 0), "{}", rows.len());
        // Another account, by an answer to another nonce.
        session.run("SET @a = 1");
        session.send(0, b"\x11app\0\0test\0\x21\0mysql_native_password\0").unwrap();
        let switch = session.receive().unwrap();
        session.send(2, &native(APP.1, &switch[b"\xfemysql_native_password\0".len()..])).unwrap();
        assert_eq!(session.receive().unwrap()[0], 0);
        assert!(session.try_value("SELECT @a").unwrap().is_none());
        session.send(0, b"\x1f").unwrap();
        session.receive().unwrap();
        assert_ne!(at_replica(&mut session, WHO), "0");
    }
    assert!(count(&server, "statements", "replica_reads") >= 6);
    wait::holds("no session", || count(&server, "sessions", "open") == 0);
}

/// Its servers do not learn of it, so that connections that are kept serve clients of both kinds.
#[test]
fn servers_are_not_asked_to_compress() {
    let (_db, server) = split("mysql_pool 8;");
    let mut is_packed = false;
    wait::holds("connections of an earlier session", || {
        is_packed = !is_packed;
        let mut session = if is_packed { open_packed(&server, 1000) } else { open(&server) };
        assert_eq!(
            session.rows("SHOW SESSION STATUS LIKE 'Compression'").unwrap()[0][1].as_deref(),
            Some("OFF")
        );
        assert_ne!(session.value(WHO), "0");
        session.send(0, b"\x01").unwrap();
        count(&server, "pool", "reused") >= 8
    });
}

#[test]
fn a_session_that_compresses_outlives_its_servers() {
    let (mut db, server) = split("");
    let mut session = open_packed(&server, 1000);
    let one: usize = session.value(WHO).parse().unwrap();
    process::stop(db.nodes[one].pid());
    assert_ne!(session.value(WHO), one.to_string());
    db.nodes[one].kill();
    db.nodes[0].kill();
    let other = 3 - one;
    assert_eq!(session.try_run("INSERT INTO t VALUES (4)").unwrap_err().code, 1290);
    db.promote(other);
    wait::holds("writes at the promoted server", || session.try_run("INSERT INTO t VALUES (4)").is_ok());
    assert_eq!(session.value("SELECT COUNT(*) FROM t"), "1");
}

/// Has all servers take statements and give values of more than 16 MB.
fn enlarge(db: &Replicated) {
    for node in &db.nodes {
        node.root().run("SET GLOBAL max_allowed_packet = 64 << 20");
    }
}

/// A file of numbers from 100 on.
fn keys(end: u64) -> String {
    (100..end).map(|key| key.to_string() + "\n").collect()
}

/// MariaDB's own client: results and statements of more than one frame, a file, several statements in one command, TLS.
#[test]
fn mariadbs_client_compresses() {
    let (db, server) = split(COUNTED);
    enlarge(&db);
    let show = |port: usize, more: &[&str], text: &str| {
        let tls: &[&str] =
            if port == 1 { &["--skip-ssl"] } else { &["--ssl", "--skip-ssl-verify-server-cert"] };
        let more = [tls, &["--compress", "--max-allowed-packet=64M"], more].concat();
        let (shown, error) = mariadb(&server, port, &more, text);
        assert_eq!(error, "", "{text:.100}");
        shown
    };
    let file = server.write("rows", keys(40_000));
    let load = format!("LOAD DATA LOCAL INFILE '{}' INTO TABLE t", file.display());
    let long = server.write("long.sql", format!("SELECT LENGTH('{}'), id FROM who;\n", "x".repeat(20 << 20)));
    let number = |text: String| text.trim_end().parse::<u64>().expect("a number");
    for port in [1, 2] {
        assert!(["1\n", "2\n"].contains(&&*show(port, &[], WHO)));
        let sum = show(port, &[], &format!("TRUNCATE t; {load}; SELECT SUM(a) FROM t"));
        assert_eq!(number(sum), (100..40_000).sum::<u64>());
        // The file comes behind rows, which the client numbers by packets and the server by frames.
        let several =
            format!("SELECT a FROM t ORDER BY a LIMIT 5000; TRUNCATE t; {load}; SELECT COUNT(*) FROM t //");
        let shown = show(port, &["--delimiter=//"], &several);
        assert_eq!(shown.lines().count(), 5001);
        assert!(shown.ends_with("5099\n39900\n"), "{}", &shown[shown.len() - 100..]);
        // 20 MB in one value, and in many.
        let shown = show(port, &[], "SELECT REPEAT('x', 20 << 20)");
        assert!(shown.len() == (20 << 20) + 1 && shown.bytes().all(|byte| byte == b'x' || byte == b'\n'));
        let shown = show(port, &[], "SELECT a, REPEAT(a, 110) FROM t");
        assert_eq!(shown.lines().count(), 39_900);
        assert!(shown.len() > 20_000_000, "{}", shown.len());
        for line in shown.lines() {
            let (key, repeated) = line.split_once('\t').unwrap();
            assert_eq!(repeated, key.repeat(110));
        }
        // Two frames, whose packets the client cuts in between.
        assert_eq!(show(port, &[], &format!("source {}", long.display())), format!("{}\t0\n", 20 << 20));
    }
    let sent = wait::within(wait::DEADLINE, || {
        let sent: Vec<u64> = server.read("sent.log").lines().map(|line| line.parse().unwrap()).collect();
        (sent.len() == 12).then_some(sent)
    });
    let sent = sent.expect("a line for each session");
    println!("bytes sent: {sent:?}");
    assert!(sent[4] < 5_000_000, "less than a quarter of it: {sent:?}");
}

/// PHP's library, which counts packets and frames itself.
#[test]
fn php_compresses() {
    let (db, server) = split(COUNTED);
    enlarge(&db);
    let file = server.write("rows", keys(20_000));
    let script = r#"
        [$port, $user, $password, $file] = array_slice($argv, 1);
        mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
        $db = mysqli_init();
        $db->options(MYSQLI_OPT_LOCAL_INFILE, true);
        $db->real_connect('127.0.0.1', $user, $password, 'test', (int)$port, null, MYSQLI_CLIENT_COMPRESS);
        $who = $db->prepare('SELECT id, ? AS number, ? AS text FROM who');
        $number = 1; $text = str_repeat('a', 100);
        $who->bind_param('is', $number, $text);
        $who->execute(); echo strlen(implode(' ', $who->get_result()->fetch_row())), "\n";
        $db->query("LOAD DATA LOCAL INFILE '$file' INTO TABLE t");
        echo $db->query('SELECT COUNT(*) FROM t')->fetch_row()[0], "\n";
        echo strlen($db->query("SELECT REPEAT('y', 20 << 20)")->fetch_row()[0]), "\n";
        echo $db->query("SELECT LENGTH('" . str_repeat('x', 10 << 20) . "')")->fetch_row()[0], "\n";
        $sum = 0;
        foreach ($db->query('SELECT a, REPEAT(a, 100) FROM t', MYSQLI_USE_RESULT) as $row) $sum += $row['a'];
        echo $sum, "\n";
        $db->multi_query('TRUNCATE t; SELECT a, REPEAT(a, 1000) FROM t; SELECT COUNT(*) FROM t');
        do { $result = $db->store_result(); } while ($db->more_results() && $db->next_result());
        echo $result->fetch_row()[0], "\n";
        $db->change_user($user, $password, 'test');
        echo $db->query('SELECT COUNT(*) FROM t')->fetch_row()[0], "\n";
        try { $db->query('SELECT nothing FROM nowhere'); } catch (mysqli_sql_exception $error) { echo $error->getCode(), "\n"; }
        $db->close();
        $pdo = new PDO("mysql:host=127.0.0.1;port=$port;dbname=test", $user, $password,
            [PDO::ATTR_EMULATE_PREPARES => false, PDO::MYSQL_ATTR_COMPRESS => true]);
        $who = $pdo->prepare('SELECT REPEAT(:text, 100000) FROM who');
        foreach (['x', 'y'] as $text) { $who->execute(['text' => $text]); echo strlen($who->fetchColumn()), "\n"; }
        echo $pdo->query("SHOW SESSION STATUS LIKE 'Compression'")->fetchColumn(1), "\n";
    "#;
    let mut command = Command::new("php");
    command.args(["-d", "mysqli.allow_local_infile=1", "-d", "memory_limit=256M", "-r", script, "--"]);
    command.args([&server.port_of(1).to_string(), APP.0, APP.1, &file.display().to_string()]);
    let output = command.output().expect("PHP is installed: scripts/setup.sh does that");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = shown.lines().collect();
    let sum = (100..20_000).sum::<u64>().to_string();
    let want = ["104", "19900", "20971520", "10485760", &*sum, "0", "0", "1146", "100000", "100000", "OFF"];
    assert_eq!(lines, want, "{}", String::from_utf8_lossy(&output.stderr));
    let sent = wait::within(wait::DEADLINE, || {
        let sent: u64 = server.read("sent.log").lines().map(|line| line.parse::<u64>().unwrap()).sum();
        (sent > 0).then_some(sent)
    });
    assert!(sent.expect("a line for a session") < 25_000_000, "of 31 MB, of which 20 are a row: {sent:?}");
}

/// A connection that is to compress from now on, after its login.
fn logged_in(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(place(server)).unwrap();
    stream.set_read_timeout(Some(wait::DEADLINE)).unwrap();
    let raw = stream.try_clone().unwrap();
    drop(Connection::packed_over(stream, APP.0, APP.1, "test", 1000).unwrap());
    raw
}

/// The server's compressed packet: its number, and what it carries.
fn receive(raw: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut header = [0; 7];
    raw.read_exact(&mut header).unwrap();
    let mut content = vec![0; u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize];
    raw.read_exact(&mut content).unwrap();
    if header[4..] != [0, 0, 0] {
        let mut plain = Vec::new();
        flate2::read::ZlibDecoder::new(&*content).read_to_end(&mut plain).unwrap();
        content = plain;
    }
    (header[3], content)
}

#[test]
fn hostile_clients_that_compress_hurt_only_themselves() {
    let (_db, server) = split("");
    let worker = server.worker();
    let mut good = open_packed(&server, 1000);
    let bomb = {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&vec![0; 16 << 20]).unwrap();
        encoder.finish().unwrap()
    };
    let length = (bomb.len() as u32).to_le_bytes();
    for (bytes, told_code, logged) in [
        (
            &b"\x05\0\0\x03\0\0\0\x01\0\0\0\x0e"[..],
            1156,
            "a compressed packet with the sequence number 3 in place of 0",
        ),
        // Not compressed at all: a ping, whose bytes are another header.
        (b"\x01\0\0\0\x0e\0\0x", 1157, "a compressed packet that zlib cannot read"),
        (b"\x08\0\0\0\x08\0\0nothing!", 1157, "a compressed packet that zlib cannot read"),
        (
            &[&length[..3], &[0, 100, 0, 0], &bomb].concat(),
            1157,
            "has other than the 100 bytes that it announces",
        ),
        (&[&length[..3], &[0, 255, 255, 255], &bomb].concat(), 1835, "a malformed command"),
        (b"\x04\0\0\0\0\0\0\0\0\0\0", 1835, "a malformed command"),
    ] {
        let mut raw = logged_in(&server);
        raw.write_all(bytes).unwrap();
        let (number, content) = receive(&mut raw);
        // Its number follows that of what was wrong.
        assert_eq!(number, 1);
        assert_eq!((content[4], u16::from_le_bytes([content[5], content[6]])), (0xff, told_code), "{logged}");
        assert!(matches!(raw.read(&mut [0]), Ok(0) | Err(_)), "it has ended");
        server.wait_for_log(&format!("the client sent .*{logged}"));
        assert_eq!(good.value("SELECT 1"), "1");
    }
    // Two commands at once, the second one in a packet whose end does not come.
    let mut raw = logged_in(&server);
    let ping = b"\0\0\0\0\x01\0\0\0\x0e";
    raw.write_all(&[b"\x05\0\0", &ping[..], b"\x07\0\0", ping].concat()).unwrap();
    for _ in 0..2 {
        let (number, content) = receive(&mut raw);
        assert_eq!((number, content[4]), (1, 0));
    }
    raw.shutdown(Shutdown::Write).unwrap();
    assert!(matches!(raw.read(&mut [0]), Ok(0) | Err(_)));
    assert_eq!((good.value("SELECT 1"), server.worker()), ("1".to_string(), worker));
    wait::holds("no other session", || count(&server, "sessions", "open") == 1);
}

/// Passes bytes on to a server, and takes compression out of its greeting while the switch is on.
fn without_compression(to: SocketAddr) -> (SocketAddr, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, takes) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(true)));
    let does_take = takes.clone();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(mut client), Ok(mut server)) = (client, TcpStream::connect(to)) else { return };
            let does_take = does_take.clone();
            std::thread::spawn(move || {
                let mut head = [0; 4];
                server.read_exact(&mut head)?;
                let mut greeting = vec![0; usize::from(head[0])];
                server.read_exact(&mut greeting)?;
                let version_end = greeting.iter().skip(1).position(|byte| *byte == 0).unwrap() + 1;
                if does_take.load(Ordering::Relaxed) {
                    greeting[version_end + 14] &= !0x20;
                }
                client.write_all(&[&head[..], &greeting].concat())?;
                let (mut up, mut to_server) = (client.try_clone()?, server.try_clone()?);
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut up, &mut to_server);
                    to_server.shutdown(Shutdown::Both)
                });
                std::io::copy(&mut server, &mut client)?;
                client.shutdown(Shutdown::Both)
            });
        }
    });
    (address, takes)
}

/// What is agreed on between a client and the primary holds from end to end where the session is passed on as it is.
#[test]
fn an_account_that_is_not_known_compresses_with_the_primary() {
    let db = Replicated::start();
    mark(&db);
    enlarge(&db);
    db.nodes[0].root().run("REVOKE SELECT ON mysql.* FROM probe@'%'");
    db.catch_up(0);
    let (address, takes) = without_compression(db.nodes[0].address());
    let others = db.nodes[1..].iter().map(Node::address);
    let server = start(&[address].into_iter().chain(others).collect::<Vec<_>>(), "");
    expect(&server, "primary* replica* replica*");
    server.wait_for_log("the accounts of its servers cannot be read");
    let show =
        |text: &str| mariadb(&server, 1, &["--skip-ssl", "--compress", "--max-allowed-packet=64M"], text);
    let is_on = "SHOW SESSION STATUS LIKE 'Compression'";
    let refused = Connection::packed(place(&server), APP.0, APP.1, "test", 1000).err().unwrap();
    assert_eq!(refused.text, "compression is not offered");
    assert_eq!(show(is_on).0, "Compression\tOFF\n", "the primary has none");
    // Another one has, and is greeted like the one before until somebody has connected to it.
    takes.store(false, Ordering::Relaxed);
    assert_eq!(show(is_on).0, "Compression\tOFF\n");
    let (shown, error) = show(is_on);
    assert_eq!(shown, "Compression\tON\n", "{error}");
    assert_eq!(
        show("SELECT LENGTH(REPEAT('x', 20 << 20)), REPEAT('x', 20 << 20)").0.len(),
        20 * (1 << 20) + 10
    );
    let mut session = open_packed(&server, 1000);
    assert_eq!(session.value("SELECT @@server_id"), "1");
    // And back.
    takes.store(true, Ordering::Relaxed);
    let error = Connection::packed(place(&server), APP.0, APP.1, "test", 1000).err().unwrap();
    assert!(error.code == 2013 && error.text.contains("connect again"), "{error:?}");
    assert_eq!(show(is_on).0, "Compression\tOFF\n");
    // Sessions that are split do not need the primary for it.
    let server = start(&[address], "mysql_accounts {{DIR}}/accounts;");
    expect(&server, "primary*");
    takes.store(false, Ordering::Relaxed);
    drop(open(&server));
    takes.store(true, Ordering::Relaxed);
    assert_eq!(open_packed(&server, 1000).value("SELECT 1"), "1");
}
