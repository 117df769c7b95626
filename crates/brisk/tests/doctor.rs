//! `brisk doctor` over files of a site.

use brisk_testkit::server::text;
use brisk_testkit::{Builder, PhpFpm, TempDir};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

fn doctor(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_brisk")).arg("doctor").args(args).env("COLUMNS", "100").output().unwrap()
}

fn site() -> TempDir {
    let dir = TempDir::new();
    dir.write(
        "nginx.conf",
        "events { worker_connections 4096; }\nhttp { include sites/*.conf; sendfile on; }\n",
    );
    dir.write(
        "sites/a.conf",
        "server {\n  listen 80; server_name a.test; root /srv; gzip on;\n  keepalive_timeout 0;\n}\n",
    );
    dir.write("php.ini", "[PHP]\nopcache.enable = 0 ; not yet\n");
    dir.write("www.conf", "[www]\npm = dynamic\npm.max_children = 200\nlisten = 127.0.0.1:9000\n");
    dir.write(
        "my.cnf",
        "!includedir DIR/conf.d\n".replace("DIR", &dir.path().display().to_string()).as_str(),
    );
    dir.write("conf.d/server.cnf", "[mysqld]\nmax_connections = 50\nquery-cache-type = ON\n");
    dir
}

fn at(dir: &TempDir, name: &str) -> String {
    dir.path().join(name).display().to_string()
}

#[test]
fn a_site_is_read_as_a_whole() {
    let dir = site();
    let [conf, ini, pool, cnf] = ["nginx.conf", "php.ini", "www.conf", "my.cnf"].map(|name| at(&dir, name));
    let args = ["--site", &conf, "--php-ini", &ini, "--fpm", &pool, "--mysql", &cnf];
    let out = doctor(&[&args[..], &["--json"]].concat());
    assert!(out.status.success(), "{}", text(&out.stderr));
    let found: Value = serde_json::from_slice(&out.stdout).unwrap();
    let audit = found["audit"].as_array().unwrap();
    let seen = |slug: &str| {
        let finding = audit.iter().find(|finding| finding["slug"] == slug);
        let seen = &finding.unwrap_or_else(|| panic!("{slug} is not in {audit:#?}"))["seen"][0];
        (seen["file"].as_str().unwrap_or("").to_string(), seen["line"].as_u64().unwrap_or(0))
    };
    assert_eq!(seen("keepalive-off"), (at(&dir, "sites/a.conf"), 3));
    assert_eq!(seen("opcache-off"), (ini.clone(), 2));
    assert_eq!(seen("pool-over-tcp"), (pool.clone(), 4));
    assert_eq!(seen("database-query-cache"), (at(&dir, "conf.d/server.cnf"), 3));
    // What two files come to together.
    assert_eq!(seen("database-connections-few"), (at(&dir, "conf.d/server.cnf"), 2));
    assert_eq!(seen("database-pool-small"), (String::new(), 0));
    let weights: Vec<&str> = audit.iter().filter_map(|finding| finding["weight"].as_str()).collect();
    let order = ["danger", "large", "small", "sight"];
    assert!(weights.is_sorted_by_key(|weight| order.iter().position(|have| have == weight)), "{weights:?}");
    // The same for people.
    let out = doctor(&args);
    let said = text(&out.stdout);
    assert!(said.contains(&format!("{}:3: keepalive_timeout 0\n", at(&dir, "sites/a.conf"))), "{said}");
    assert!(said.contains("    Write: keepalive_timeout 65s;\n"), "{said}");
    assert!(said.lines().all(|line| line.len() <= 200), "{said}");
}

/// PHP-FPM's pools of the machine are not those of a server that runs its own, whose php.ini it names.
#[test]
fn a_server_with_pools_of_its_own_is_not_judged_by_others() {
    let dir = site();
    let conf = format!(
        "events {{ }} http {{ php_pool app {{ php_ini {}; }} server {{ location / {{ php_pass app; }} }} }}",
        at(&dir, "php.ini")
    );
    dir.write("brisk.conf", conf.as_str());
    let out = doctor(&["--site", &at(&dir, "brisk.conf"), "--mysql", &at(&dir, "my.cnf"), "--json"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let found: Value = serde_json::from_slice(&out.stdout).unwrap();
    let files: Vec<&str> = found["files"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let folder = dir.path().display().to_string();
    assert!(files.iter().all(|file| file.starts_with(&folder)), "{files:?}");
    assert!(files.contains(&&*at(&dir, "php.ini")), "{files:?}");
}

#[test]
fn what_cannot_be_read_is_said() {
    let dir = site();
    let missing = at(&dir, "none.conf");
    let out = doctor(&["--site", &missing]);
    assert_eq!(out.status.code(), Some(1));
    assert!(
        text(&out.stderr).contains(&format!("open() \"{missing}\" failed (2: No such file")),
        "{}",
        text(&out.stderr)
    );
    let broken = dir.write("broken.conf", "http {\n  server {\n");
    let out = doctor(&["--site", &broken.display().to_string()]);
    assert!(
        out.status.code() == Some(1) && text(&out.stderr).contains("broken.conf:"),
        "{}",
        text(&out.stderr)
    );
    let circle = dir.write("circle.cnf", "x");
    std::fs::write(&circle, format!("!include {}\n", circle.display())).unwrap();
    let out = doctor(&["--mysql", &circle.display().to_string()]);
    assert!(
        out.status.code() == Some(1) && text(&out.stderr).contains("levels deep"),
        "{}",
        text(&out.stderr)
    );
}

#[test]
fn what_is_looked_for_is_listed() {
    let out = doctor(&["--checks", "--json"]);
    let checks: Value = serde_json::from_slice(&out.stdout).unwrap();
    let checks = checks.as_array().unwrap();
    assert!(checks.len() >= 60 && checks.iter().any(|check| check["slug"] == "cache-leaks"));
    let said = text(&doctor(&["--checks"]).stdout);
    assert!(checks.iter().all(|check| said.contains(check["slug"].as_str().unwrap())));
}

/// A server before PHP processes that wait for somebody else all the time, with a log of what it was asked.
fn waiting(php: &PhpFpm, dir: &TempDir) -> brisk_testkit::Server {
    php.script("wait.php", "<?php usleep(50000); echo 'ok';");
    let params = include_str!("../../../packaging/fastcgi.conf");
    dir.write("pool.conf", format!("[{}]\npm = static\npm.max_children = 3\n", php.pool()).as_str());
    Builder::new(env!("CARGO_BIN_EXE_brisk"))
        .http(&format!(
            "access_log {}; server {{ listen 127.0.0.1:{{{{PORT}}}}; root {}; location / {{ {params} fastcgi_pass {}; }} }}",
            at(dir, "access.log"),
            php.dir().display(),
            php.address()
        ))
        .start()
}

/// Three of them, and twelve users.
#[test]
fn a_pool_that_is_too_small_is_named_with_its_evidence() {
    let (php, dir) = (PhpFpm::unix(3), TempDir::new());
    let server = waiting(&php, &dir);
    let url = format!("http://127.0.0.1:{}/wait.php", server.port());
    let pool = at(&dir, "pool.conf");
    let args = ["--users", "12", "--duration", "3s", "--fpm", &pool, "--json"];
    let out = doctor(&[&[&*url], &args[..]].concat());
    assert!(out.status.success(), "{}", text(&out.stderr));
    let found: Value = serde_json::from_slice(&out.stdout).unwrap();
    let limit = &found["limit"];
    assert_eq!(
        (limit["tier"].as_str(), limit["cause"].as_str()),
        (Some("php"), Some("pool-too-small")),
        "{found:#}"
    );
    let sentence = limit["sentence"].as_str().unwrap();
    assert!(sentence.contains("of 3 processes busy") && sentence.contains("requests wait"), "{sentence}");
    let parts = &found["budget"];
    assert!(parts["queue_us"].as_f64() > parts["cpu_us"].as_f64(), "{parts}");
    assert!(found["audit"].is_array());
}

/// Behind a proxy, whether it makes a connection for each request or keeps them: the slow back end is named.
#[test]
fn a_slow_back_end_is_named() {
    let (php, dir) = (PhpFpm::unix(3), TempDir::new());
    let back = waiting(&php, &dir);
    for keeps in ["", "keepalive 16;"] {
        let front = Builder::new(env!("CARGO_BIN_EXE_brisk"))
            .http(&format!(
                "upstream app {{ server 127.0.0.1:{}; {keeps} }} server {{ listen 127.0.0.1:{{{{PORT}}}}; location / {{ proxy_pass http://app; \
                 proxy_http_version 1.1; proxy_set_header Connection \"{}\"; }} }}",
                back.port(),
                if keeps.is_empty() { "close" } else { "" }
            ))
            .start();
        let url = format!("http://127.0.0.1:{}/wait.php", front.port());
        let out = doctor(&[&url, "--users", "12", "--duration", "3s", "--json"]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        let found: Value = serde_json::from_slice(&out.stdout).unwrap();
        let said = (&found["limit"]["cause"], found["limit"]["sentence"].as_str().unwrap());
        assert_eq!(said.0, "service-slow", "{keeps}: {found:#}");
        assert!(said.1.contains(&format!("127.0.0.1:{}", back.port())), "{keeps}: {}", said.1);
    }
}

/// A few requests a second leave the network idle, and everything else.
#[test]
fn a_site_that_is_asked_now_and_then_is_not_limited_by_the_network() {
    let (php, dir) = (PhpFpm::unix(3), TempDir::new());
    let server = waiting(&php, &dir);
    php.script("quick.php", "<?php echo 'ok';");
    // It waits for longer than other programs can keep a request from a CPU.
    php.script("long.php", "<?php usleep(600000); echo 'ok';");
    let pool = at(&dir, "pool.conf");
    let found = |page: &str, rate: &str| {
        let url = format!("http://127.0.0.1:{}/{page}", server.port());
        let out = doctor(&[&url, "--rate", rate, "--duration", "4s", "--fpm", &pool, "--json"]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        serde_json::from_slice::<Value>(&out.stdout).unwrap()
    };
    // Nothing limits. Where other programs have the CPUs, a request may be as late as one of a user far away: only then may the network be named.
    let quick = found("quick.php", "5");
    let is_far = quick["budget"]["network_us"].as_f64() >= Some(25e3);
    assert!(quick["limit"]["tier"] != "network" || is_far, "{quick:#}");
    let waiting = found("long.php", "2");
    assert_eq!(waiting["limit"]["cause"], "application-waits", "{waiting:#}");
}

#[test]
fn a_page_that_does_not_answer_is_said() {
    let out = doctor(&["http://127.0.0.1:1/", "--duration", "1s"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(
        text(&out.stderr).contains("nothing was answered at http://127.0.0.1:1/"),
        "{}",
        text(&out.stderr)
    );
}

/// Twelve visitors, who are not the doctor's: it says the same, and the server has answered nobody else.
#[test]
fn visitors_are_looked_at_without_a_request() {
    let (php, dir) = (PhpFpm::unix(3), TempDir::new());
    let server = waiting(&php, &dir);
    let (port, stop) = (server.port(), AtomicBool::new(false));
    let visit = || {
        let mut count = 0;
        while !stop.load(Ordering::Relaxed) {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.write_all(b"GET /wait.php HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            count += 1;
        }
        count
    };
    let pool = at(&dir, "pool.conf");
    let url = format!("http://127.0.0.1:{port}/");
    let (out, visits) = std::thread::scope(|scope| {
        let visitors: Vec<_> = (0..12).map(|_| scope.spawn(visit)).collect();
        let out = doctor(&[&url, "--attach", "--duration", "3s", "--fpm", &pool, "--json"]);
        stop.store(true, Ordering::Relaxed);
        (out, visitors.into_iter().map(|visitor| visitor.join().unwrap()).sum::<usize>())
    });
    assert!(out.status.success(), "{}", text(&out.stderr));
    let found: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(found["limit"]["cause"], "pool-too-small", "{found:#}");
    assert!(found["load"]["attached"] == true && found["load"]["rate"].as_f64() > Some(0.0), "{found:#}");
    drop(server);
    let log = std::fs::read_to_string(at(&dir, "access.log")).unwrap();
    assert_eq!(log.lines().count(), visits);
}

#[test]
fn a_scenario_stands_for_the_page_and_a_report_is_written() {
    let (php, dir) = (PhpFpm::unix(3), TempDir::new());
    let server = waiting(&php, &dir);
    let (pool, page) = (at(&dir, "pool.conf"), at(&dir, "report.html"));
    let scenario = format!(
        "target = \"http://127.0.0.1:{}\"\nusers = 12\nduration = \"3s\"\n[[user]]\nname = \"a\"\n[[user.step]]\nrequest = \"GET /wait.php\"\n",
        server.port()
    );
    let scenario = dir.write("shop.toml", scenario.as_str()).display().to_string();
    let out = doctor(&[&scenario, "--duration", "3s", "--fpm", &pool, "--html", &page, "--json"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let found: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(found["limit"]["cause"], "pool-too-small", "{found:#}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("The PHP pool is too small") && !page.contains("<script src"), "{page}");
    // Others' traffic is not a scenario's.
    let out = doctor(&[&scenario, "--attach"]);
    assert!(
        out.status.code() == Some(1) && text(&out.stderr).contains("site's URL"),
        "{}",
        text(&out.stderr)
    );
}
