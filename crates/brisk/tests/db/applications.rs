//! Applications as they are, on several databases behind `mysql_split`: the bank and WordPress, on a primary with replicas and on a Galera
//! cluster. They are installed through it and used through it. That takes minutes:
//! `BRISK_APPLICATIONS=1 cargo test -p brisk --test db -- --nocapture applications`.

use super::split::start;
use super::{BIN, expect, status};
use brisk_testkit::example::json_text;
use brisk_testkit::mariadb_cluster::Node;
use brisk_testkit::{Example, Galera, Replicated, Server, Visitor, wait};
use std::fs;
use std::process::Command;

const DATABASE_PASSWORD: &str = "database-secret";
const PASSWORD: &str = "correct horse battery staple";
/// Customers of the bank who move money, and posts.
const TIMES: usize = 10;
/// What all accounts of the bank hold, however often it is moved.
const ALL_CENTS: &str = "100000000";

/// The example, installed through a server that splits its sessions.
fn up(name: &'static str, nodes: &[Node], more: &[(&'static str, &str)]) -> (Server, Example) {
    let mut root = nodes[0].root();
    root.run(&format!("CREATE DATABASE {name} CHARACTER SET utf8mb4"));
    root.run(&format!("CREATE USER {name}@'%' IDENTIFIED BY '{DATABASE_PASSWORD}'"));
    root.run(&format!("GRANT ALL ON {name}.* TO {name}@'%'"));
    let account = format!("SELECT COUNT(*) FROM mysql.global_priv WHERE user = '{name}'");
    nodes.iter().for_each(|node| wait::holds("the account", || node.root().value(&account) == "1"));
    let server = start(&nodes.iter().map(Node::address).collect::<Vec<_>>(), "");
    expect(&server, "primary* replica* replica*");
    wait::holds("accounts", || status(&server)["accounts"].as_u64() > Some(0));
    let place = format!("127.0.0.1:{}", server.port_of(1));
    let place = [("EXAMPLE_DATABASE", &*place), ("EXAMPLE_PASSWORD", DATABASE_PASSWORD)];
    let example = Example::up(BIN, name, &[&place[..], more].concat());
    (server, example)
}

/// What `brisk db status` says in the end, and how many reads replicas have answered.
fn tell(what: &str, server: &Server) -> u64 {
    let api = format!("http://127.0.0.1:{}/api", server.port_of(3));
    let output = Command::new(BIN).args(["db", "status", "--api", &api]).output().unwrap();
    println!("{what}:\n{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let status = status(server);
    assert_eq!(status["sessions"]["failed"], 0, "{status:#}");
    status["statements"]["replica_reads"].as_u64().unwrap()
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before}: {text}"));
    rest.split_once(after).unwrap_or_else(|| panic!("no {after}: {text}")).0
}

/// Customers log in, move money from one of their accounts to the other, and see it. Each page is another session with the databases: it
/// may be made before its replica has what the one before has written.
fn bank(nodes: &[Node]) -> Server {
    let (server, site) = up("bank", nodes, &[]);
    let people = fs::read_to_string(site.folder().join("people.csv")).unwrap();
    for (number, person) in people.lines().skip(1).take(TIMES).enumerate() {
        let (login, password) = person.split_once(',').unwrap();
        let mut customer = wait::until("a login", || {
            let mut customer = site.visitor();
            let answer = customer.post("/login", &[("login", login), ("password", password)]);
            (answer.header("Location") == Some("/account")).then_some(customer)
        });
        let mut page = String::new();
        wait::holds("the page of the accounts", || {
            page = customer.get("/account").text();
            page.contains("<option value=")
        });
        let own: Vec<&str> =
            page.split("<option value=\"").skip(1).map(|rest| between(rest, "", "\"")).collect();
        let reason = format!("Read-back-{number}");
        let form = between(&page, "name=\"form\" value=\"", "\"");
        let fields =
            [("form", form), ("from", own[0]), ("to", own[1]), ("amount", "1.25"), ("reason", &reason)];
        let moved = customer.post("/transfer", &fields);
        assert_eq!(moved.header("Location"), Some("/account"), "{}", moved.text());
        wait::holds("the transfer", || customer.get("/account").text().contains(&reason));
    }
    for node in nodes {
        wait::holds("all that was moved", || {
            let mut root = node.root();
            let count = "SELECT COUNT(*) FROM bank.transfers WHERE reason LIKE 'Read-back-%'";
            root.value(count) == TIMES.to_string()
                && root.value("SELECT SUM(cents) FROM bank.accounts") == ALL_CENTS
        });
    }
    site.stop_and_remove();
    server
}

fn install(site: &Example) {
    let fields = [
        ("weblog_title", "The test"),
        ("user_name", "admin"),
        ("admin_password", PASSWORD),
        ("admin_password2", PASSWORD),
        ("admin_email", "admin%40example.com"),
        ("blog_public", "0"),
        ("Submit", "Install"),
    ];
    let done = site.visitor().post("/wp-admin/install.php?step=2", &fields);
    assert!(done.text().contains("Success!"), "{}", done.text());
}

fn log_in(site: &Example) -> Visitor {
    wait::until("a dashboard", || {
        let mut admin = site.visitor();
        admin.get("/wp-login.php");
        let answer = admin.post("/wp-login.php", &[("log", "admin"), ("pwd", PASSWORD), ("testcookie", "1")]);
        let is_in = answer.status == 302 && admin.get("/wp-admin/").text().contains("Dashboard");
        is_in.then_some(admin)
    })
}

/// Installed in a browser's way, then somebody logs in, posts, and everybody reads it.
fn wordpress(nodes: &[Node]) -> Server {
    let (server, site) = up("wordpress", nodes, &[("WORDPRESS_BARE", "1")]);
    install(&site);
    let mut admin = log_in(&site);
    for number in 0..TIMES {
        let json =
            format!(r#"{{"title":"Post No. {number}","content":"Served by several.","status":"publish"}}"#);
        let made = wait::until("a post", || {
            let nonce = admin.get("/wp-admin/admin-ajax.php?action=rest-nonce").text();
            let fields = format!("X-WP-Nonce: {nonce}\r\nContent-Type: application/json\r\n");
            let made = admin.ask("POST", "/index.php?rest_route=/wp/v2/posts", &fields, json.as_bytes());
            (made.status == 201).then_some(made)
        });
        let link = json_text(&made.text(), "link");
        let path = link.strip_prefix(&site.url()).unwrap_or(&link).to_string();
        let shows = |target: &str, text: &str| {
            wait::holds(text, || {
                let page = site.visitor().get(target);
                page.status == 200 && page.text().contains(text)
            });
        };
        shows(&path, "Served by several.");
        shows("/", &format!("Post No. {number}"));
        assert!(admin.get("/wp-admin/edit.php").status == 200);
    }
    let log = site.log();
    assert!(!log.contains("[alert]") && !log.contains("[emerg]"), "{log}");
    site.stop_and_remove();
    server
}

/// They take minutes.
fn is_wanted() -> bool {
    std::env::var_os("BRISK_APPLICATIONS").is_some()
}

#[test]
fn the_bank_on_replicas() {
    if !is_wanted() {
        return;
    }
    let db = Replicated::start();
    tell("the bank on a primary and two replicas", &bank(&db.nodes));
}

#[test]
fn the_bank_on_galera() {
    if !is_wanted() {
        return;
    }
    let db = Galera::start();
    tell("the bank on a Galera cluster of three", &bank(&db.nodes));
}

#[test]
fn wordpress_on_replicas() {
    if !is_wanted() {
        return;
    }
    let db = Replicated::start();
    assert!(tell("WordPress on a primary and two replicas", &wordpress(&db.nodes)) > 0);
}

#[test]
fn wordpress_on_galera() {
    if !is_wanted() {
        return;
    }
    let db = Galera::start();
    assert!(tell("WordPress on a Galera cluster of three", &wordpress(&db.nodes)) > 0);
}
