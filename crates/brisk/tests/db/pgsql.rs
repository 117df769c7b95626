//! PostgreSQL: a primary and a standby.

use super::{expect, start, status};
use brisk_testkit::postgres::{Node, OWNER, PROBE_MD5, psql};
use brisk_testkit::{Postgres, Server, wait};

/// What is answered through the server's port of this number: whether it is a standby.
fn is_standby(server: &Server, port: usize) -> Result<bool, String> {
    psql("127.0.0.1", server.port_of(port), OWNER, "SELECT pg_is_in_recovery()").map(|answer| answer == "t")
}

#[test]
fn sessions_go_to_the_server_that_they_want() {
    let mut db = Postgres::start();
    let addresses: Vec<_> = db.nodes.iter().map(Node::address).collect();
    let check = "pgsql_check user=probe_md5 lag=10m timeout=30s interval=100ms";
    let server = start(&addresses, check, PROBE_MD5.1);
    expect(&server, "primary* replica*");
    assert_eq!((is_standby(&server, 1), is_standby(&server, 2)), (Ok(false), Ok(true)));
    assert_eq!(status(&server)["primary"], addresses[0].to_string());
    db.nodes[0].kill();
    expect(&server, "unknown replica*");
    assert!(is_standby(&server, 1).is_err());
    assert_eq!(is_standby(&server, 2), Ok(true));
    db.nodes[1].promote();
    expect(&server, "unknown primary*");
    wait::holds("a promoted server", || is_standby(&server, 1) == Ok(false));
    assert!(is_standby(&server, 2).is_err());
    // The old one comes back and knows of nothing.
    db.nodes[0].begin();
    db.nodes[0].wait();
    expect(&server, "contender contender");
    assert!(is_standby(&server, 1).is_err());
    db.nodes[0].kill();
    expect(&server, "unknown primary*");
}

#[test]
fn an_account_is_proved_by_scram() {
    let db = Postgres::start();
    let addresses: Vec<_> = db.nodes.iter().map(Node::address).collect();
    let server = start(&addresses, "pgsql_check user=brisk lag=10m timeout=30s interval=100ms", OWNER.1);
    expect(&server, "primary* replica*");
    let server = start(&addresses, "pgsql_check user=brisk lag=10m timeout=30s interval=100ms", "wrong");
    server.wait_for_log("is lost: the server answers: password authentication failed");
    assert!(is_standby(&server, 1).is_err());
}
