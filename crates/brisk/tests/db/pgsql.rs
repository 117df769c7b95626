//! PostgreSQL: a primary and a standby.

use super::{expect, start, status};
use brisk_testkit::postgres::{Node, OWNER, PROBE_MD5, psql};
use brisk_testkit::{Postgres, Server, wait};
use std::io::{Read, Write};
use std::net::TcpStream;

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

/// A session of PostgreSQL that has asked for TLS (SSLRequest), and waits.
fn session(server: &Server) -> TcpStream {
    let mut session = TcpStream::connect(("127.0.0.1", server.port_of(1))).unwrap();
    session.set_read_timeout(Some(wait::DEADLINE)).unwrap();
    session.write_all(b"\0\0\0\x08\x04\xd2\x16\x2f").unwrap();
    session.read_exact(&mut [0]).unwrap();
    session
}

/// Sessions outlive configurations: what is asked for them goes on until the last one has ended.
#[test]
fn sessions_of_another_configuration_learn_of_other_roles() {
    let db = Postgres::start();
    let addresses: Vec<_> = db.nodes.iter().map(Node::address).collect();
    let check = "pgsql_check user=probe_md5 lag=10m timeout=30s interval=100ms";
    let mut server = start(&addresses, check, PROBE_MD5.1);
    expect(&server, "primary* replica*");
    let mut session = session(&server);
    server.configure(
        "daemon off; pid {{DIR}}/brisk.pid; error_log {{DIR}}/error.log info; worker_processes 2;\n\
         events { } stream { server { listen 127.0.0.1:{{PORT2}}; return gone; } }",
    );
    server.reload();
    wait::holds("the other configuration", || {
        let mut text = String::new();
        let asked = TcpStream::connect(("127.0.0.1", server.port_of(2)));
        asked.is_ok_and(|mut stream| stream.read_to_string(&mut text).is_ok() && text == "gone")
    });
    db.nodes[1].promote();
    server.wait_for_log("several servers take writes");
    let ended = session.read(&mut [0]);
    assert!(
        matches!(&ended, Ok(0))
            || ended.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset),
        "{ended:?}"
    );
}
