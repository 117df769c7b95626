//! MariaDB: a primary with two replicas, a Galera cluster.

use super::{expect, primary_and_readers, roles, start, status};
use brisk_testkit::mariadb::Connection;
use brisk_testkit::mariadb_cluster::{APP, Node, PROBE};
use brisk_testkit::tls::issue;
use brisk_testkit::{Backend, Galera, Replicated, Server, TempDir, process, wait};
use rustix::process::Signal;
use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CHECK: &str = "mysql_check user=probe lag=2s interval=100ms timeout=30s";

/// A session through the server's port of this number; `None`: it is not let through.
fn through(server: &Server, port: usize) -> Option<Connection> {
    Connection::open(address(server, port), APP.0, APP.1, "test").ok()
}

fn address(server: &Server, port: usize) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, server.port_of(port)))
}

/// The number of the server that answers there.
fn who(server: &Server, port: usize) -> Option<usize> {
    let id = through(server, port)?.try_value("SELECT @@server_id").ok()??;
    id.parse::<usize>().ok().map(|id| id - 1)
}

/// Waits until sessions that read have been given to all of these, and to nobody else on the way.
fn read_from(server: &Server, wanted: &[usize]) {
    let mut seen = HashSet::new();
    wait::holds("sessions at all that may be read from", || {
        if let Some(at) = who(server, 2) {
            assert!(wanted.contains(&at), "a session at {at}, not at one of {wanted:?}: {}", roles(server));
            seen.insert(at);
        }
        seen.len() == wanted.len()
    });
}

fn replicated(db: &Replicated) -> Server {
    let addresses: Vec<SocketAddr> = db.nodes.iter().map(Node::address).collect();
    start(&addresses, CHECK, PROBE.1)
}

#[test]
fn sessions_go_to_the_primary_and_to_replicas_within_their_lag() {
    let db = Replicated::start();
    let server = replicated(&db);
    expect(&server, "primary* replica* replica*");
    assert_eq!(who(&server, 1), Some(0));
    read_from(&server, &[1, 2]);
    // Behind: what is written is not executed there.
    let mut slow = db.nodes[1].root();
    slow.run("STOP SLAVE SQL_THREAD");
    expect(&server, "primary* replica replica*");
    assert_eq!(status(&server)["servers"][1]["why"], "replication is stopped");
    read_from(&server, &[2]);
    slow.run("START SLAVE SQL_THREAD");
    expect(&server, "primary* replica* replica*");
    // A replica that delays what it has says so by its position.
    let mut later = db.nodes[2].root();
    later.run("STOP SLAVE");
    later.run("CHANGE MASTER TO MASTER_DELAY = 3600");
    later.run("START SLAVE");
    let mut app = through(&server, 1).unwrap();
    app.run("CREATE TABLE t (a INT)");
    wait::holds("a replica that lags", || {
        app.run("INSERT INTO t VALUES (1)");
        status(&server)["servers"][2]["why"] == "too far behind"
    });
    assert!(status(&server)["servers"][2]["lag_ms"].as_u64().unwrap() > 2000);
    read_from(&server, &[1]);
}

/// Both say that they take writes: nobody is written to, and it is an alarm.
#[test]
fn nobody_is_written_to_while_two_servers_take_writes() {
    let db = Replicated::start();
    let server = replicated(&db);
    expect(&server, "primary* replica* replica*");
    let mut before = through(&server, 1).unwrap();
    let mut other = db.nodes[1].root();
    other.run("STOP SLAVE");
    other.run("RESET SLAVE ALL");
    other.run("SET GLOBAL read_only = OFF");
    expect(&server, "contender contender replica");
    server.wait_for_log("\\[alert\\].*several servers take writes: .*: nobody is written to");
    wait::holds("the end of a session that was there before", || {
        before.try_run("INSERT INTO nothing VALUES (1)").is_err_and(|why| why.code == 0)
    });
    assert!(through(&server, 1).is_none() && through(&server, 2).is_none());
    db.follow(1, 0);
    expect(&server, "primary* replica* replica*");
    assert_eq!(who(&server, 1), Some(0));
}

/// A writer's acknowledged numbers. It connects again whenever its session ends.
fn write(to: SocketAddr, first: u64, stop: &AtomicBool) -> Vec<u64> {
    let (mut done, mut next) = (Vec::new(), first);
    while !stop.load(Ordering::Relaxed) {
        let open = || Connection::open(to, APP.0, APP.1, "test").ok();
        let session = wait::within(Duration::from_secs(1), open);
        let Some(mut session) = session else { continue };
        while !stop.load(Ordering::Relaxed) {
            // What was not acknowledged is never written again: whether it is there is not known.
            next += 1;
            if session.try_run(&format!("INSERT INTO written VALUES ({next})")).is_err() {
                break;
            }
            done.push(next);
        }
    }
    done
}

/// The primary is killed while sessions write, and a replica promoted: what was acknowledged is there, and writes go on.
fn fail_over(db: &mut Replicated, server: &Server, primary: usize) -> (usize, Duration) {
    let (stop, to) = (AtomicBool::new(false), address(server, 1));
    let mut root = db.nodes[primary].root();
    root.run("CREATE OR REPLACE TABLE test.written (n BIGINT PRIMARY KEY)");
    db.catch_up(primary);
    let (acknowledged, chosen, took) = std::thread::scope(|scope| {
        let stop = &stop;
        let writers: Vec<_> =
            (0..4u64).map(|writer| scope.spawn(move || write(to, writer << 32, stop))).collect();
        wait::holds("writes", || root.value("SELECT COUNT(*) > 50 FROM test.written") == "1");
        db.nodes[primary].kill();
        let chosen = db.most_advanced();
        let mut new = db.nodes[chosen].root();
        db.promote(chosen);
        let promoted = Instant::now();
        let before = new.value("SELECT COUNT(*) FROM test.written");
        wait::holds("writes at the promoted server", || {
            new.value("SELECT COUNT(*) FROM test.written") != before
        });
        let took = promoted.elapsed();
        stop.store(true, Ordering::Relaxed);
        let acknowledged: Vec<u64> = writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
        (acknowledged, chosen, took)
    });
    let rows = db.nodes[chosen].root().rows("SELECT n FROM test.written").unwrap();
    let there: HashSet<u64> = rows.into_iter().filter_map(|row| row[0].as_ref()?.parse().ok()).collect();
    let missing: Vec<u64> = acknowledged.iter().copied().filter(|n| !there.contains(n)).collect();
    assert!(missing.is_empty(), "acknowledged and lost: {missing:?} of {}", acknowledged.len());
    (chosen, took)
}

/// `scripts/db_failover.py` does it more often, and with a limit to how long it takes.
#[test]
fn no_acknowledged_write_is_lost_when_the_primary_is_killed() {
    let mut db = Replicated::start();
    let server = replicated(&db);
    expect(&server, "primary* replica* replica*");
    let mut primary = 0;
    for time in 0..2 {
        let (chosen, took) = fail_over(&mut db, &server, primary);
        println!("failover {time}: server {chosen}, writes after {} ms", took.as_millis());
        db.rejoin(primary, chosen);
        primary = chosen;
        wait::holds("all servers", || primary_and_readers(&server) == (Some(primary), 2));
        assert_eq!(who(&server, 1), Some(primary));
    }
}

#[test]
fn one_node_of_a_galera_cluster_takes_the_writes() {
    let mut db = Galera::start();
    let addresses: Vec<SocketAddr> = db.nodes.iter().map(Node::address).collect();
    let server = start(&addresses, CHECK, PROBE.1);
    expect(&server, "primary* replica* replica*");
    assert_eq!(who(&server, 1), Some(0));
    read_from(&server, &[1, 2]);
    through(&server, 1).unwrap().run("CREATE TABLE t (a INT PRIMARY KEY)");
    db.nodes[0].kill();
    expect(&server, "unknown primary* replica*");
    wait::holds("a node that takes writes", || {
        through(&server, 1).is_some_and(|mut session| session.try_run("REPLACE INTO t VALUES (1)").is_ok())
    });
    db.nodes[0].start_again();
    db.nodes[0].wait();
    db.settle();
    // It does not take the writes back.
    expect(&server, "replica* primary* replica*");
    assert_eq!(who(&server, 1), Some(1));
    db.nodes[2].root().run("SET GLOBAL wsrep_desync = ON");
    expect(&server, "replica* primary* idle");
    assert_eq!(status(&server)["servers"][2]["why"], "not synchronous");
}

/// Of nodes that are equal the one with `role=primary` is written to first.
#[test]
fn a_node_of_a_galera_cluster_is_named_for_the_writes() {
    let db = Galera::start();
    let addresses: Vec<SocketAddr> = db.nodes.iter().map(Node::address).collect();
    let servers =
        [addresses[0].to_string(), format!("{} role=primary", addresses[1]), addresses[2].to_string()];
    let server = super::start_with(&servers, CHECK, PROBE.1);
    expect(&server, "replica* primary* replica*");
    assert_eq!(who(&server, 1), Some(1));
}

/// A server that asks for what it must not be told, or is not let in by, is lost.
#[test]
fn an_account_that_may_not_ask() {
    let db = Replicated::of(1);
    db.nodes[0].root().run("REVOKE ALL PRIVILEGES, GRANT OPTION FROM probe@'%'");
    let addresses = [db.nodes[0].address()];
    let server = start(&addresses, CHECK, PROBE.1);
    expect(&server, "unknown");
    server.wait_for_log("is lost: error 1227: Access denied");
    assert!(through(&server, 1).is_none());
    let server = start(&addresses, CHECK, "wrong");
    server.wait_for_log("is lost: the server refused the login: error 1045: Access denied");
    // It has TLS for nobody.
    let server = start(&addresses, &format!("{CHECK} ssl"), PROBE.1);
    server.wait_for_log("is lost: the server has no TLS");
}

/// A replica that stands still is lost, and so are the sessions that it has: they would wait for as long as it does.
#[test]
fn a_replica_that_stands_still() {
    let db = Replicated::start();
    let addresses: Vec<SocketAddr> = db.nodes.iter().map(Node::address).collect();
    let server = start(&addresses, "mysql_check user=probe lag=1h interval=100ms timeout=1s", PROBE.1);
    expect(&server, "primary* replica* replica*");
    let mut session = wait::until("a session at the second server", || {
        let mut session = through(&server, 2)?;
        let id = session.try_value("SELECT @@server_id").ok()??;
        (id == "2").then_some(session)
    });
    process::signal(db.nodes[1].pid(), Signal::STOP);
    // The signal takes effect a little later.
    wait::holds("the end of its session", || session.try_run("SELECT 1").is_err_and(|why| why.code == 0));
    expect(&server, "primary* unknown replica*");
    assert_eq!(status(&server)["servers"][1]["trouble"], "it does not answer in time");
    read_from(&server, &[2]);
    process::signal(db.nodes[1].pid(), Signal::CONT);
    expect(&server, "primary* replica* replica*");
}

/// `ssl` asks over TLS, `ssl=FILE` only those that are who they should be.
#[test]
fn a_check_over_tls() {
    let authority = issue("an authority", true, None);
    let db = Replicated::with_tls(&issue("127.0.0.1", false, Some(&authority)));
    db.nodes[0].root().run("ALTER USER probe@'%' REQUIRE SSL");
    let dir = TempDir::new();
    let known = dir.write("known.crt", authority.certificate_pem());
    let strange = dir.write("strange.crt", issue("another authority", true, None).certificate_pem());
    let addresses = [db.nodes[0].address()];
    for ssl in ["ssl".to_string(), format!("ssl={}", known.display())] {
        expect(&start(&addresses, &format!("{CHECK} {ssl}"), PROBE.1), "primary*");
    }
    let server = start(&addresses, &format!("{CHECK} ssl={}", strange.display()), PROBE.1);
    server.wait_for_log("is lost: upstream SSL certificate verify error");
    assert!(through(&server, 1).is_none());
    let server = start(&addresses, CHECK, PROBE.1);
    server.wait_for_log("is lost: the server refused the login: error 1045: Access denied");
}

/// A server that does not keep to the protocol is lost, and nobody comes to it.
#[test]
fn a_server_that_lies() {
    let lost = |sends: &'static [u8], check: &str, why: &str| {
        let liar = Backend::start(move |mut peer| {
            peer.send(sends);
            peer.drain();
        });
        let server = start(&[SocketAddr::from((Ipv4Addr::LOCALHOST, liar.port()))], check, "secret");
        server.wait_for_log(&format!("is lost: {why}"));
        assert!(through(&server, 1).is_none(), "{why}");
    };
    lost(b"\xff\xff\xff\0", CHECK, "the server sent a message of more than 131072 bytes");
    lost(b"\x05\0\0\x03", CHECK, "the server sent a packet with the sequence number 3 in place of 0");
    lost(b"\x05\0\0\0\x0aabcd", CHECK, "the server sent a malformed greeting");
    lost(b"\x17\0\0\0\xff\x10\x04Too many connections", CHECK, "the server refused the login: error 1040");
    lost(b"", &CHECK.replace("30s", "100ms"), "it does not answer in time");
}

/// What a configuration test says of a block with these servers and this check.
fn tested(servers: &str, check: &str) -> std::process::Output {
    let mut builder = brisk_testkit::Builder::new(super::BIN);
    for (name, text, mode) in [("pw", "secret\n", 0o600), ("none", "\n", 0o600), ("open", "secret\n", 0o644)]
    {
        builder = builder.file(name, text);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(builder.dir().join(name), mode).unwrap();
    }
    let conf = builder.fill(&format!(
        "daemon off; pid {{{{DIR}}}}/brisk.pid; events {{ }} stream {{ upstream db {{ {servers} {check} }} \
         server {{ listen 127.0.0.1:{{{{PORT}}}}; proxy_pass db; }} }}"
    ));
    builder.conf(&conf).prepare().run(&["-t"])
}

#[test]
fn what_a_check_refuses() {
    use brisk_testkit::server::check;
    let one = "server 127.0.0.1:1;";
    let refuses = |servers: &str, text: &str, patterns: &[&str]| check(&tested(servers, text), 1, patterns);
    check(&tested(one, "mysql_check user=probe password_file={{DIR}}/pw;"), 0, &[]);
    check(
        &tested("server 127.0.0.1:1 role=primary;", "mysql_check user=a password_file={{DIR}}/pw;"),
        0,
        &[],
    );
    // A password that others may read.
    let open = ["open\" failed \\(its mode is 0644, others than its owner may read it\\)", "chmod 600"];
    refuses(one, "mysql_check user=probe password_file={{DIR}}/open;", &open);
    refuses(one, "mysql_check user=probe password_file={{DIR}}/none;", &["no password in"]);
    refuses(one, "mysql_check user=probe lag=2s;", &["no user and password in \"mysql_check\""]);
    refuses(
        one,
        "mysql_check user=a password_file={{DIR}}/pw database=b;",
        &["invalid parameter \"database=b\""],
    );
    refuses(
        one,
        "mysql_check user=a password_file={{DIR}}/pw; pgsql_check user=a password_file={{DIR}}/pw;",
        &["the servers of an upstream are of one kind", "keep one of mysql_check and pgsql_check"],
    );
    let named = "server 127.0.0.1:1 role=primary;";
    refuses(named, "", &["role=primary. says nothing without .mysql_check. in upstream .db."]);
    refuses(named, "pgsql_check user=a password_file={{DIR}}/pw;", &["says nothing without"]);
    refuses(
        "server 127.0.0.1:1 role=replica;",
        "mysql_check user=a password_file={{DIR}}/pw;",
        &["invalid parameter \"role=replica\""],
    );
}
