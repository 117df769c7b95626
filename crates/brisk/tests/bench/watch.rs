//! `--watch` looks into tiers: pools whose workers are all busy, and databases.

use brisk_testkit::{Builder, MariaDb, PhpFpm, Server};
use serde_json::Value;

use super::{BIN, bench, figures};

fn before(php: &PhpFpm) -> Server {
    let params = include_str!("../../../../packaging/fastcgi.conf");
    let pass = format!("{params} fastcgi_pass {};", php.address());
    let status = format!(
        "fastcgi_param SCRIPT_NAME /fpm-status; fastcgi_param SCRIPT_FILENAME /fpm-status; fastcgi_param REQUEST_METHOD GET; fastcgi_pass {};",
        php.address()
    );
    Builder::new(BIN)
        .http(&format!(
            "server {{ listen 127.0.0.1:{{{{PORT}}}}; root {}; location = /fpm-status {{ {status} }} location / {{ {pass} }} }}",
            php.dir().display(),
        ))
        .start()
}

/// Three children that wait all the time for somebody else, and twelve users: the pool is the limit, however idle the CPUs are.
fn check_full(php: &PhpFpm) {
    php.script("wait.php", "<?php usleep(50000); echo 'ok';");
    let server = before(php);
    let url = format!("http://127.0.0.1:{}/wait.php", server.port());
    let status = format!("http://127.0.0.1:{}/fpm-status", server.port());
    for how in [format!("php=pool:{}", php.pool()), format!("php=fpm:{status}")] {
        let watch = format!("server={},{how}", server.pid());
        let all = figures(&["-c", "12", "-d", "3s", "--watch", &watch, &url]);
        let workers = &all["tiers"]["php"]["workers"];
        assert_eq!(workers["total"], 3, "{how}: {workers}");
        // On a machine that is busy with other tests a child with work may wait for a CPU before it takes it.
        assert!(workers["busy"].as_f64() > Some(0.5), "{how}: {workers}");
        assert!(workers["full_share"].as_f64() >= Some(0.8), "{how}: {workers}");
        assert!(workers["queued_max"].as_u64() >= Some(5), "{how}: {workers}");
        assert!(workers["blocked_share"].as_f64() > Some(0.0), "{how}: {workers}");
        let limit = &all["limit"];
        let full = limit["full"].as_str().unwrap_or_default();
        let also = limit["also_full"].to_string();
        // On a machine that is busy with other tests the CPUs may be full, too.
        let named = |text: &str| text.contains("php: ") && text.contains(" of 3 workers busy");
        assert!(named(full) || named(&also), "{how}: {limit}");
        assert!((limit["headroom"].as_f64().unwrap() - 1.0).abs() < 1e-9, "{limit}");
        assert!(workers["limit_hits"].is_number(), "{workers}");
    }
}

#[test]
fn a_pool_with_all_children_busy_is_named() {
    check_full(&PhpFpm::unix(3));
}

#[test]
fn a_pool_behind_a_port_is_named_too() {
    check_full(&PhpFpm::tcp(3));
}

/// Two transactions wait for a row that a third one has: the database says so.
#[test]
fn a_database_whose_queries_wait_for_locks_is_named() {
    let (db, server) = (MariaDb::start(), super::server());
    let mut holder = db.connect();
    for query in [
        "CREATE DATABASE shop",
        "CREATE TABLE shop.stock (id INT PRIMARY KEY, n INT) ENGINE=InnoDB",
        "INSERT INTO shop.stock VALUES (1, 5)",
        "BEGIN",
        "UPDATE shop.stock SET n = n - 1 WHERE id = 1",
    ] {
        holder.run(query);
    }
    let mut waiting = [db.connect(), db.connect()];
    for connection in &mut waiting {
        connection.begin("UPDATE shop.stock SET n = n - 1 WHERE id = 1");
    }
    let url = format!("http://127.0.0.1:{}/a.txt", server.port());
    let watch = format!("server={},db=mysql:{}", server.pid(), db.socket().display());
    let all = figures(&["--rate", "20", "-d", "3s", "--watch", &watch, &url]);
    let found = &all["tiers"]["db"]["database"];
    assert!(found["locked"].as_f64() > Some(1.5) && found["running"].as_f64() > Some(1.5), "{found}");
    assert!(
        found["connected_max"].as_u64() >= Some(3) && found["connections"].as_u64() > Some(100),
        "{found}"
    );
    assert!((0.0..=1.0).contains(&found["buffer_hits"].as_f64().unwrap()), "{found}");
    assert!(
        all["tiers"]["db"]["pss_bytes"].as_f64() > Some(1e7),
        "its processes are found by its socket: {all}"
    );
    let limit = &all["limit"];
    assert!(limit.to_string().contains("running queries waited for rows' locks"), "{limit}");
}

/// Who does not tell what it should ends the run before it begins.
#[test]
fn what_cannot_be_watched_is_said() {
    let server = super::server();
    let url = format!("http://127.0.0.1:{}/a.txt", server.port());
    for (what, want) in [
        (format!("php=fpm:{url}"), "is not PHP-FPM's status page"),
        (format!("web=apache:{url}"), "is not Apache's server-status?auto"),
        (format!("edge=brisk:{url}"), "status 404"),
        ("db=mysql:/no/such.sock".to_owned(), "cannot watch \"db\""),
        (format!("db=mysql:127.0.0.1:{}", server.port()), "cannot watch \"db\""),
    ] {
        let output = bench(&["-d", "1s", "--watch", &what, &url]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && text.contains(want), "{what}: {output:?}");
    }
}

/// Brisk's own groups: as many places as `max_conns` gives, all of them taken.
#[test]
fn a_group_without_a_free_place_is_named() {
    let server = Builder::new(BIN)
        .http(
            "upstream few { zone few 64k; server 127.0.0.1:{{PORT2}} max_conns=2; queue 50 timeout=30s; }
             server { listen 127.0.0.1:{{PORT}}; location /api { api; } location / { proxy_pass http://few; } }
             server { listen 127.0.0.1:{{PORT2}}; location / { limit_rate 200; try_files /k.txt =404; } }",
        )
        .file("html/k.txt", "k".repeat(300))
        .start();
    let url = format!("http://127.0.0.1:{}/", server.port());
    let watch = format!("edge=brisk:{url}api/9");
    let all: Value = figures(&["-c", "10", "-d", "6s", "--watch", &watch, &url]);
    let workers = &all["tiers"]["edge"]["workers"];
    assert_eq!(workers["total"], 2, "{workers}");
    assert!(workers["queued_max"].as_u64() >= Some(4), "{workers}");
    assert!(all["limit"].to_string().contains("of 2 workers busy"), "{}", all["limit"]);
}
