//! Databases behind `stream`: roles by `mysql_check` and `pgsql_check`, with real servers.

#[path = "db/applications.rs"]
mod applications;
#[path = "db/compressed.rs"]
mod compressed;
#[path = "db/mysql.rs"]
mod mysql;
#[path = "db/pgsql.rs"]
mod pgsql;
#[path = "db/pooled.rs"]
mod pooled;
#[path = "db/prepared.rs"]
mod prepared;
#[path = "db/split.rs"]
mod split;
#[path = "db/state.rs"]
mod state;

use brisk_testkit::{Builder, Client, Server, wait};
use serde_json::Value;
use std::net::SocketAddr;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// A server that passes sessions to an upstream `db` of these servers: at {{PORT}} those that write, at {{PORT2}} those that read; the API is
/// at {{PORT3}}. `check` is the block's check without its account.
fn start(addresses: &[SocketAddr], check: &str, password: &str) -> Server {
    start_with(&addresses.iter().map(ToString::to_string).collect::<Vec<_>>(), check, password)
}

/// As [`start`], with parameters behind addresses.
fn start_with(servers: &[String], check: &str, password: &str) -> Server {
    let mut builder =
        Builder::new(BIN).file("probe.pw", password).allow_alerts("several servers take writes");
    let path = builder.dir().join("probe.pw");
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let servers: Vec<_> = servers.iter().map(|server| format!("server {server};")).collect();
    let servers = servers.join(" ");
    let conf = builder.fill(&format!(
        "daemon off; pid {{{{DIR}}}}/brisk.pid; error_log {{{{DIR}}}}/error.log info; worker_processes 2;\n\
         events {{ }}\n\
         http {{ access_log off; server {{ listen 127.0.0.1:{{{{PORT3}}}}; location /api {{ api; }} location /metrics {{ metrics; }} }} }}\n\
         stream {{\n\
           upstream db {{ zone db 64k; {servers} {check} password_file={{{{DIR}}}}/probe.pw; }}\n\
           server {{ listen 127.0.0.1:{{{{PORT}}}}; proxy_pass db; }}\n\
           server {{ listen 127.0.0.1:{{{{PORT2}}}}; proxy_pass db; target_session_attrs standby; }}\n\
         }}"
    ));
    builder.conf(&conf).start()
}

/// What the API says of the cluster.
fn status(server: &Server) -> Value {
    let answer = Client::connect(server.port_of(3)).get("/api/9/databases");
    assert_eq!(answer.status, 200);
    serde_json::from_slice::<Value>(&answer.body).unwrap()["db"].clone()
}

/// The roles of all servers, in their order, with a star for those that are read from.
fn roles(server: &Server) -> String {
    let status = status(server);
    let servers = status["servers"].as_array().cloned().unwrap_or_default();
    let role = |server: &Value| {
        let star = if server["reads"] == true { "*" } else { "" };
        format!("{}{star}", server["role"].as_str().unwrap_or_default())
    };
    servers.iter().map(role).collect::<Vec<_>>().join(" ")
}

/// The place of the primary, and how many replicas are read from.
fn primary_and_readers(server: &Server) -> (Option<usize>, usize) {
    let roles = roles(server);
    let words: Vec<&str> = roles.split(' ').collect();
    let primary = words.iter().position(|word| *word == "primary*");
    (primary, words.iter().filter(|word| **word == "replica*").count())
}

/// Waits until the servers have these roles.
fn expect(server: &Server, wanted: &str) {
    let is_so = wait::within(wait::DEADLINE, || (roles(server) == wanted).then_some(()));
    assert!(is_so.is_some(), "waited for {wanted}: {:#}", status(server));
}
