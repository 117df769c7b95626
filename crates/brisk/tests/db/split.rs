//! `mysql_split`: real MariaDBs behind one port.

use super::{BIN, expect, status};
use brisk_testkit::mariadb::{Connection, How, native};
use brisk_testkit::mariadb_cluster::{APP, Node, PROBE};
use brisk_testkit::server::check;
use brisk_testkit::{Builder, Replicated, Server, process, wait};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A server that splits sessions at {{PORT}}, with TLS at {{PORT2}}; the API is at {{PORT3}}.
pub(super) fn start(addresses: &[SocketAddr], more: &str) -> Server {
    start_with(addresses, "", more)
}

/// The same with directives outside of all blocks.
pub(super) fn start_with(addresses: &[SocketAddr], main: &str, more: &str) -> Server {
    // As long as a primary that was killed is not known to be lost, a promoted one is a second one.
    let mut builder = Builder::new(BIN)
        .allow_alerts("several servers take writes|of memory are in use")
        .certificate("localhost")
        .file("probe.pw", PROBE.1)
        .file("accounts", format!("# of the shop\n{}:{}\n", APP.0, APP.1));
    for file in ["probe.pw", "accounts"] {
        let path = builder.dir().join(file);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let servers: Vec<_> = addresses.iter().map(|address| format!("server {address};")).collect();
    let servers = servers.join(" ");
    let conf = builder.fill(&format!(
        "daemon off; pid {{{{DIR}}}}/brisk.pid; error_log {{{{DIR}}}}/error.log info; worker_processes 2; {main}\n\
         events {{ }}\n\
         http {{ access_log off; server {{ listen 127.0.0.1:{{{{PORT3}}}}; location /api {{ api; }} }} }}\n\
         stream {{\n\
           upstream db {{ zone db 64k; {servers} mysql_check user=probe password_file={{{{DIR}}}}/probe.pw lag=30s interval=100ms; }}\n\
           mysql_split on; {more}\n\
           server {{ listen 127.0.0.1:{{{{PORT}}}}; proxy_pass db; }}\n\
           server {{ listen 127.0.0.1:{{{{PORT2}}}} ssl; proxy_pass db; ssl_certificate {{{{DIR}}}}/a.crt; \
         ssl_certificate_key {{{{DIR}}}}/a.key; }}\n\
         }}"
    ));
    builder.conf(&conf).start()
}

/// Each server has a table that is not replicated: what is read there tells who has answered. `t` is replicated.
pub(super) fn mark(db: &Replicated) {
    db.nodes[0].root().run("CREATE TABLE test.t (a BIGINT PRIMARY KEY)");
    db.catch_up(0);
    for (at, node) in db.nodes.iter().enumerate() {
        let mut root = node.root();
        root.run("SET sql_log_bin = 0");
        root.run("CREATE TABLE test.who (id INT)");
        root.run(&format!("INSERT INTO test.who VALUES ({at})"));
    }
}

/// A primary with two replicas behind a server that knows their accounts.
pub(super) fn split(more: &str) -> (Replicated, Server) {
    let db = Replicated::start();
    mark(&db);
    let addresses: Vec<SocketAddr> = db.nodes.iter().map(Node::address).collect();
    let server = start(&addresses, more);
    expect(&server, "primary* replica* replica*");
    if !more.contains("mysql_accounts") {
        wait::holds("accounts", || status(&server)["accounts"].as_u64() > Some(0));
    }
    (db, server)
}

pub(super) fn place(server: &Server) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, server.port_of(1)))
}

pub(super) fn open(server: &Server) -> Connection {
    Connection::tracking(place(server), APP.0, APP.1, "test").expect("the client is let in")
}

pub(super) const WHO: &str = "SELECT id FROM who";

pub(super) fn count(server: &Server, part: &str, name: &str) -> u64 {
    status(server)[part][name].as_u64().expect("it is counted")
}

#[test]
fn reads_go_to_replicas_and_everything_else_to_the_primary() {
    let (_db, server) = split("");
    let mut session = open(&server);
    assert_ne!(session.value(WHO), "0");
    session.value("SELECT id + 'x' FROM who");
    assert_eq!(session.rows("SHOW WARNINGS").unwrap().len(), 1, "who has answered is asked");
    assert_eq!(session.value("/* brisk:primary */ SELECT id FROM who"), "0");
    assert_eq!(session.value("SELECT @@server_id"), "1");
    assert_eq!(session.value("SELECT id FROM who FOR UPDATE"), "0");
    session.run("INSERT INTO t VALUES (1)");
    assert_eq!(session.value("SELECT COUNT(*) FROM t"), "1");
    session.run("BEGIN");
    assert_eq!(session.value(WHO), "0");
    session.run("COMMIT");
    wait::holds("a read at a replica", || session.value(WHO) != "0");
    // What it sets holds at both.
    session.run("SET sql_mode = 'ANSI_QUOTES'");
    wait::holds("a read at a replica", || ["1", "2"].contains(&&*session.value("SELECT \"id\" FROM who")));
    // A statement that is prepared goes where its text would go.
    session.send(0, b"\x16INSERT INTO t VALUES (7)").unwrap();
    let id = session.receive().unwrap()[1..5].to_vec();
    session.send(0, &[b"\x17", &id[..], b"\0\x01\0\0\0"].concat()).unwrap();
    session.receive().unwrap();
    assert_eq!(session.value("SELECT COUNT(*) FROM t WHERE a = 7"), "1");
    session.send(0, &[b"\x19", &id[..]].concat()).unwrap();
    // What stays in the connection keeps the session there, until it is reset.
    session.run("SET @a = 1");
    assert_eq!((session.value("SELECT @a"), session.value(WHO)), ("1".to_string(), "0".to_string()));
    assert_eq!(count(&server, "pinned", "user_variable"), 1);
    session.send(0, b"\x1f").unwrap();
    session.receive().unwrap();
    wait::holds("a read at a replica", || session.value(WHO) != "0");
    assert!(session.try_value("SELECT @a").unwrap().is_none());
    assert!(count(&server, "statements", "replica_reads") >= 4);
    assert!(count(&server, "statements", "writes") >= 3);
    assert!(count(&server, "pinned", "transaction") >= 1);
    drop(session);
    wait::holds("no session", || count(&server, "sessions", "open") == 0);
}

/// With and without a client to whom writes are told; then one replica executes nothing at all. `BRISK_SPLIT_WRITES`: of each session.
#[test]
fn a_session_reads_what_it_has_written() {
    let times = std::env::var("BRISK_SPLIT_WRITES").ok().and_then(|text| text.parse().ok()).unwrap_or(50u64);
    let (db, server) = split("");
    let mut behind = db.nodes[1].root();
    let to = place(&server);
    let sessions = |first: u64| {
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                scope.spawn(move || {
                    let open = if thread % 2 == 0 { Connection::tracking } else { Connection::open };
                    let mut session = open(to, APP.0, APP.1, "test").unwrap();
                    for number in 0..times {
                        let key = first + (thread << 32) + number;
                        session.run(&format!("INSERT INTO t VALUES ({key})"));
                        let found = session.value(&format!("SELECT COUNT(*) FROM t WHERE a = {key}"));
                        assert_eq!(found, "1", "{key}");
                    }
                });
            }
        });
    };
    sessions(0);
    // Stopped within its lag: the check sees it sooner or later, the sessions must not wait for that.
    behind.run("LOCK TABLES test.t READ");
    sessions(1 << 40);
    behind.run("UNLOCK TABLES");
    // A read at a replica is counted behind its answer.
    wait::holds("all reads to be counted", || {
        let statements = status(&server)["statements"].clone();
        let reads = ["replica_reads", "primary_reads"].map(|name| statements[name].as_u64().unwrap());
        reads[0] + reads[1] == 8 * times
    });
    let statements = status(&server)["statements"].clone();
    assert_eq!(statements["writes"], 8 * times, "{statements}");
    println!("{statements}");
}

#[test]
fn a_session_outlives_its_servers_unless_they_have_something_of_it() {
    let (mut db, server) = split("");
    let (mut idle, mut busy) = (open(&server), open(&server));
    assert_ne!(idle.value(WHO), "0");
    // Replicas: nobody notices.
    let one: usize = idle.value(WHO).parse().unwrap();
    db.nodes[one].kill();
    for _ in 0..20 {
        assert_ne!(idle.value(WHO), one.to_string());
    }
    let other = 3 - one;
    busy.run("BEGIN");
    busy.run("INSERT INTO t VALUES (1)");
    db.nodes[0].kill();
    let error = busy.try_run("INSERT INTO t VALUES (2)").unwrap_err();
    assert!([2006, 2013].contains(&error.code), "{error:?}");
    assert_eq!(busy.try_run("INSERT INTO t VALUES (3)").unwrap_err().code, 0, "it has ended");
    let error = idle.try_run("INSERT INTO t VALUES (4)").unwrap_err();
    assert_eq!(error.code, 1290, "{error:?}");
    db.promote(other);
    wait::holds("writes at the promoted server", || match idle.try_run("INSERT INTO t VALUES (4)") {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.code, 1290, "{error:?}");
            false
        }
    });
    assert_eq!(idle.value("SELECT COUNT(*) FROM t"), "1");
    assert_eq!(idle.value("SELECT @@server_id"), (other + 1).to_string());
    assert!(count(&server, "sessions", "moved") >= 1);
}

/// It keeps its connections open and answers nothing: who reads there is answered by the primary.
#[test]
fn a_replica_that_stalls_is_left() {
    let (db, server) = split("");
    let mut session = open(&server);
    let one: usize = session.value(WHO).parse().unwrap();
    process::stop(db.nodes[one].pid());
    let answer = session.value(WHO);
    process::signal(db.nodes[one].pid(), rustix::process::Signal::CONT);
    assert_ne!(answer, one.to_string());
}

#[test]
fn accounts_that_are_not_known_are_passed_to_the_primary() {
    let db = Replicated::start();
    mark(&db);
    db.nodes[0].root().run("REVOKE SELECT ON mysql.* FROM probe@'%'");
    db.catch_up(0);
    let addresses: Vec<SocketAddr> = db.nodes.iter().map(Node::address).collect();
    let server = start(&addresses, "");
    expect(&server, "primary* replica* replica*");
    server.wait_for_log("the accounts of its servers cannot be read");
    let mut session = open(&server);
    assert_eq!((session.value(WHO), session.value("SELECT @@server_id")), ("0".into(), "1".into()));
    server.wait_for_log("is not known: its session is not split");
    assert_eq!(count(&server, "statements", "replica_reads"), 0);
    let refused = Connection::open(place(&server), APP.0, "wrong", "test").err().unwrap();
    assert_eq!(refused.code, 1045);
    // A file that names it.
    let server = start(&addresses, "mysql_accounts {{DIR}}/accounts;");
    expect(&server, "primary* replica* replica*");
    assert_ne!(open(&server).value(WHO), "0");
    let refused = Connection::open(place(&server), APP.0, "wrong", "test").err().unwrap();
    assert_eq!(refused.code, 1045);
    let refused = Connection::open(place(&server), APP.0, APP.1, "nowhere").err().unwrap();
    assert_eq!(refused.code, 1049);
}

/// What MariaDB's own client shows at one of the server's ports, and its errors.
pub(super) fn mariadb(server: &Server, port: usize, more: &[&str], text: &str) -> (String, String) {
    let mut command = Command::new("mariadb");
    command.args(["--no-defaults", "--protocol=tcp", "-h127.0.0.1", "-N", "-B", "--local-infile=1"]);
    command.args([format!("-P{}", server.port_of(port)), format!("-u{}", APP.0), format!("-p{}", APP.1)]);
    let output = command.args(more).args(["test", "-e", text]).output().expect("the client is installed");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    (String::from_utf8_lossy(&output.stdout).into_owned(), error)
}

/// MariaDB's own client: tracking, several statements in one command, a file, TLS.
#[test]
fn a_real_client_sees_no_difference() {
    let (_db, server) = split("");
    let file = server.write("rows", "100\n101\n102\n");
    let mariadb = |port: usize, more: &[&str], text: &str| mariadb(&server, port, more, text);
    let load = format!("LOAD DATA LOCAL INFILE '{}' INTO TABLE t; SELECT COUNT(*) FROM t", file.display());
    assert_eq!(mariadb(1, &["--skip-ssl"], &load).0, "3\n");
    let several = "INSERT INTO t VALUES (1); SELECT a FROM t WHERE a < 9; SELECT 2 //";
    assert_eq!(mariadb(1, &["--skip-ssl", "--delimiter=//"], several).0, "1\n2\n");
    let long = format!("SELECT LENGTH('{}'), id FROM who", "x".repeat(3 << 20));
    let path = server.write("long.sql", &long);
    let sourced =
        mariadb(1, &["--skip-ssl", "--max-allowed-packet=32M"], &format!("source {}", path.display()));
    assert_eq!(sourced.0, format!("{}\t0\n", 3 << 20), "{}", sourced.1);
    let tls = ["--ssl", "--skip-ssl-verify-server-cert"];
    let (shown, error) = mariadb(2, &tls, WHO);
    assert!(["1\n", "2\n"].contains(&&*shown), "{shown} {error}");
    // TLS that is asked for is not given up.
    assert!(mariadb(2, &["--skip-ssl"], WHO).1.contains("insecure transport"));
}

/// What no client sends.
#[test]
fn hostile_clients_hurt_only_themselves() {
    let (_db, server) = split("");
    let mut good = open(&server);
    let fixed = [0; 23];
    for bytes in [
        &b"\xff\xff\xff\x01"[..],
        b"\x00\x00\x00\x01",
        b"\x01\x00\x00\x07x",
        b"GET / HTTP/1.1\r\n\r\n",
        // A request for TLS where there is none; a login whose answer is longer than the message.
        &[&b"\x20\0\0\x01\x85\xae\x08\0\0\0\0\x01\x2d"[..], &fixed].concat()[..],
        &[&b"\x30\0\0\x01\x85\xa2\x08\0\0\0\0\x01\x2d"[..], &fixed, b"app\0\xff12345678901"].concat()[..],
    ] {
        let mut client = TcpStream::connect(place(&server)).unwrap();
        client.set_read_timeout(Some(wait::DEADLINE)).unwrap();
        // It may have closed before all of it has come.
        let _ = client.write_all(bytes).and_then(|()| client.shutdown(Shutdown::Write));
        // The greeting, perhaps an error, and the end.
        let _ = client.read_to_end(&mut Vec::new());
        assert_eq!(good.value("SELECT 1"), "1");
    }
    let mut session = open(&server);
    session.send(0, b"\x12binlog").unwrap();
    assert_eq!(session.receive().unwrap_err().code, 1047);
    assert_eq!(session.value("SELECT 1"), "1", "it goes on");
    for (number, payload, code) in [(5, &b"\x0e"[..], 1156), (0, b"", 1835), (0, b"\x11app", 1835)] {
        let mut session = open(&server);
        session.send(number, payload).unwrap();
        assert_eq!(session.receive().unwrap_err().code, code);
        assert_eq!(session.receive().unwrap_err().code, 0);
    }
    drop(session);
    wait::holds("no other session", || count(&server, "sessions", "open") == 1);
}

#[test]
fn another_account_takes_the_place_of_the_first() {
    let (db, server) = split("");
    db.nodes[0].root().run("CREATE USER other@'%' IDENTIFIED BY 'o'");
    db.nodes[0].root().run("GRANT SELECT ON test.* TO other@'%'");
    db.catch_up(0);
    let mut session = open(&server);
    session.run("SET @a = 1");
    // The answer is to be given to another nonce: what is sent now cannot be right.
    session.send(0, b"\x11app\0\0test\0\x21\0mysql_native_password\0").unwrap();
    let switch = session.receive().unwrap();
    assert_eq!(switch[0], 0xfe);
    session.send(2, &native(APP.1, &switch[b"\xfemysql_native_password\0".len()..])).unwrap();
    assert_eq!(session.receive().unwrap()[0], 0);
    assert!(session.try_value("SELECT @a").unwrap().is_none());
    let mut session = open(&server);
    session.send(0, b"\x11app\0\0test\0\x21\0mysql_native_password\0").unwrap();
    session.receive().unwrap();
    session.send(2, b"wrong").unwrap();
    assert_eq!(session.receive().unwrap_err().code, 1045);
    assert_eq!(session.receive().unwrap_err().code, 0);
}

/// Passes bytes on to a server, and changes the numbers of its packets from a moment on.
fn liar(to: SocketAddr) -> (SocketAddr, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, lies) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
    let does_lie = lies.clone();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) = (client, TcpStream::connect(to)) else { return };
            let (mut up, mut down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let (mut to_server, mut to_client) = (server, client);
            std::thread::spawn(move || std::io::copy(&mut up, &mut to_server));
            let does_lie = does_lie.clone();
            std::thread::spawn(move || {
                let mut piece = [0; 16 << 10];
                while let Ok(count @ 1..) = down.read(&mut piece) {
                    if does_lie.load(Ordering::Relaxed) && count > 4 {
                        piece[3] ^= 0x55;
                    }
                    if to_client.write_all(&piece[..count]).is_err() {
                        break;
                    }
                }
                let _ = to_client.shutdown(Shutdown::Both);
            });
        }
    });
    (address, lies)
}

#[test]
fn a_replica_that_breaks_the_protocol_is_left() {
    let db = Replicated::start();
    mark(&db);
    let (address, lies) = liar(db.nodes[1].address());
    let server = start(&[db.nodes[0].address(), address], "mysql_accounts {{DIR}}/accounts;");
    expect(&server, "primary* replica*");
    let mut session = open(&server);
    assert_eq!(session.value(WHO), "1");
    lies.store(true, Ordering::Relaxed);
    for _ in 0..5 {
        assert_eq!(session.value(WHO), "0");
    }
    server.wait_for_log("sequence number");
    lies.store(false, Ordering::Relaxed);
    wait::holds("a replica that is believed again", || session.value(WHO) == "1");
    // What it says of a statement that it prepares is not believed either.
    lies.store(true, Ordering::Relaxed);
    let who = session.prepare(WHO).unwrap();
    assert_eq!(session.executed_value(&who, &[], How::Typed), "0");
    lies.store(false, Ordering::Relaxed);
    let executed = || session.executed_value(&who, &[], How::Typed) == "1";
    wait::holds("a replica that is believed again", executed);
}

#[test]
fn what_cannot_be_split_is_refused() {
    let refuse = |stream: &str, patterns: &[&str]| {
        let conf = format!(
            "daemon off; pid {{{{DIR}}}}/brisk.pid; events {{ }} stream {{ mysql_split on; {stream} }}"
        );
        let builder = Builder::new(BIN).file("pw", "secret\n").file("accounts", "shop\n");
        for file in ["pw", "accounts"] {
            let path = builder.dir().join(file);
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        check(&builder.conf(&conf).prepare().run(&["-t"]), 1, patterns);
    };
    let server = "server { listen 127.0.0.1:{{PORT}}; proxy_pass db; }";
    let checked = "mysql_check user=probe password_file={{DIR}}/pw;";
    refuse(
        "server { listen 127.0.0.1:{{PORT}}; proxy_pass 127.0.0.1:1; }",
        &["\"mysql_split\" needs \"mysql_check\""],
    );
    refuse(
        "server { listen 127.0.0.1:{{PORT}}; return x; }",
        &["\"mysql_split\" has no servers to split sessions between"],
    );
    refuse(
        &format!("upstream db {{ server 127.0.0.1:1; {checked} }} {server}"),
        &["\"mysql_split\" needs \"zone\" in upstream \"db\""],
    );
    refuse(
        &format!(
            "mysql_accounts {{{{DIR}}}}/accounts; upstream db {{ zone db 64k; server 127.0.0.1:1; {checked} }} {server}"
        ),
        &["no account in line 1 of"],
    );
    refuse(
        &format!(
            "mysql_pool 4; proxy_protocol on; upstream db {{ zone db 64k; server 127.0.0.1:1; {checked} }} {server}"
        ),
        &["cannot keep connections that servers know by their client"],
    );
}
