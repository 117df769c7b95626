//! The copy of a site's database.

use super::site::{Site, json, of_site};
use brisk_testkit::mariadb::MariaDb;
use brisk_testkit::server::text;
use brisk_testkit::{process, wait};
use rustix::process::Signal;
use std::path::Path;
use std::process::Stdio;

/// A shop whose page reads what people have written and writes itself.
fn shop() -> (Site, MariaDb) {
    let db = MariaDb::with_options("innodb_buffer_pool_size = 8M\n");
    let mut root = db.connect();
    for query in [
        "CREATE DATABASE shop",
        "CREATE TABLE shop.goods (name VARCHAR(20)) ENGINE=InnoDB",
        "CREATE TABLE shop.hits (n INT) ENGINE=InnoDB",
        "INSERT INTO shop.goods VALUES ('tea'), ('cup')",
    ] {
        root.run(query);
    }
    let site = Site::new(
        "pm = static\npm.max_children = 2",
        &format!(
            "<?php $db = new mysqli('localhost', 'root', '', 'shop', 0, '{}');\n$db->query('INSERT INTO hits VALUES (1)');\n\
             if ($db->query('SELECT COUNT(*) FROM goods')->fetch_row()[0] != 2) http_response_code(500);\necho 'ok';",
            db.socket().display()
        ),
    );
    site.dir.write("php.ini", "memory_limit = 64M\nextension = mysqlnd\nextension = mysqli\n");
    (site, db)
}

/// Copies of the database that are left.
fn copies(db: &MariaDb) -> usize {
    let names = std::fs::read_dir(db.folder()).unwrap().flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().starts_with("brisk-tune-")).count()
}

#[test]
fn the_copy_writes_into_a_copy_of_the_database() {
    let (site, db) = shop();
    let options = db.options().display().to_string();
    let output = site.tune(&[
        "--mysql",
        &options,
        "--users",
        "2",
        "--knobs",
        "innodb_buffer_pool_size",
        "--budget",
        "20s",
        "--json",
    ]);
    let found = json(&output);
    assert!(found["before"]["rate"].as_f64().is_some_and(|rate| rate > 1.0), "{found:#}");
    assert_eq!(found["before"]["errors"].as_f64(), Some(0.0), "{found:#}");
    let step = &found["steps"][0];
    assert_eq!(
        (&step["knob"], &step["from"]),
        (&"innodb_buffer_pool_size".into(), &"8M".into()),
        "{found:#}"
    );
    // The page has written thousands of lines, none of them here.
    let count = db.connect().value("SELECT COUNT(*) FROM shop.hits");
    assert_eq!((count.as_str(), copies(&db)), ("0", 0), "{}", text(&output.stderr));
}

#[test]
fn nothing_is_left_of_a_database_s_copy_when_the_tuner_is_killed() {
    let (site, db) = shop();
    let options = db.options().display().to_string();
    let mut command = site.command(&["--mysql", &options, "--knobs", "pm.max_children", "--budget", "10m"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait::holds("the copy's processes", || of_site(&site).len() > 4);
    assert_eq!(copies(&db), 1);
    process::signal(child.id(), Signal::KILL);
    child.wait().unwrap();
    wait::holds("the end of all of them", || of_site(&site).is_empty() && copies(&db) == 0);
}

#[test]
fn a_database_that_is_not_there_is_said() {
    let site = Site::new("pm = static\npm.max_children = 2", "<?php echo 'ok';");
    site.dir.write("my.cnf", "[mysqld]\n");
    let options = site.at("my.cnf");
    let output = site.tune(&["--mysql", &options]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no MariaDB runs here that has read"), "{}", text(&output.stderr));
    assert!(Path::new(&options).exists());
}
