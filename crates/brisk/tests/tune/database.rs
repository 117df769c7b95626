//! The copy of a site's database.

use super::site::{Site, json, of_site, undo};
use brisk_testkit::mariadb::MariaDb;
use brisk_testkit::server::text;
use brisk_testkit::{process, wait};
use brisk_tune::journal::Journal;
use brisk_tune::patch;
use rustix::process::Signal;
use serde_json::json as value;
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
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

/// A site whose page has a connection of its database for a while, and few connections for many.
fn crowded() -> (Site, MariaDb) {
    let db = MariaDb::with_options("max_connections = 10\n");
    let site = Site::new(
        "pm = static\npm.max_children = 30",
        &format!(
            "<?php mysqli_report(MYSQLI_REPORT_OFF);\nwhile (!($db = @mysqli_connect('localhost', 'root', '', '', 0, '{}'))) usleep(25000);\n\
             usleep(50000);\necho 'ok';",
            db.socket().display()
        ),
    );
    site.dir.write("php.ini", "memory_limit = 64M\nextension = mysqlnd\nextension = mysqli\n");
    (site, db)
}

/// Asks how many connections there may be, on one that is made before the load, which takes all others.
fn counted(db: &MariaDb) -> impl FnMut() -> String {
    let mut root = db.connect();
    move || root.value("SELECT @@GLOBAL.max_connections")
}

/// What a search would have found of an option file, as `--json` prints it.
fn found(site: &Site, db: &MariaDb, knob: &str, from: &str, to: &str) -> String {
    let name = db.options().display().to_string();
    let before = fs::read_to_string(&name).unwrap();
    let after = if from.is_empty() {
        format!("{before}{knob} = {to}\n")
    } else {
        before.replace(&format!("{knob} = {from}\n"), &format!("{knob} = {to}\n"))
    };
    let found = value!({
        "steps": [], "final": { "outcome": "kept", "settings": [{ "knob": knob, "from": from, "to": to }] },
        "patches": [{ "file": name, "patch": patch::unified(&name, before.as_bytes(), after.as_bytes()) }],
    });
    site.dir.write("found.json", found.to_string()).display().to_string()
}

/// It is set while the database runs, written for its next start, proved, and undone; or all is back.
#[test]
fn what_is_applied_to_mariadb_is_proved_and_undone() {
    let (site, db) = crowded();
    let _running = site.start();
    let options = db.options().display().to_string();
    let before = fs::read(&options).unwrap();
    let mut connections = counted(&db);
    let (found, state) = (found(&site, &db, "max_connections", "10", "50"), site.at("state"));
    site.dir.write("login.cnf", "[client]\nuser = root\n");
    let mut command = site.command(&[
        "--mysql",
        &options,
        "--mysql-login",
        "login.cnf",
        "--users",
        "24",
        "--budget",
        "50s",
        "--json",
        "--apply",
        "--found",
        &found,
        "--state",
        &state,
        "--observe",
        "2s",
    ]);
    // It is undone from another folder.
    let output = command.current_dir(site.dir.path()).output().unwrap();
    let said = json(&output);
    if !output.status.success() {
        // Where others want the machine, slices of a quarter of a second may show no gain, or no answer at all.
        let why = said["not_applied"].as_str().unwrap_or_default();
        assert!(why.contains("taken back"), "{said:#}");
        assert_eq!((fs::read(&options).unwrap(), &*connections()), (before, "10"));
        return;
    }
    assert!(said["applied"]["high"].as_f64().is_some_and(|high| high < 0.9), "{said:#}");
    let written = fs::read_to_string(&options).unwrap();
    assert!(
        written.contains("# brisk tune: what follows") && written.contains("\nmax_connections = 50\n"),
        "{written}"
    );
    assert_eq!(connections(), "50");
    let output = undo(&state);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    assert_eq!((fs::read(&options).unwrap(), &*connections()), (before, "10"));
}

/// What MariaDB has not taken back can be taken back later.
#[test]
fn what_mariadb_has_not_taken_back_is_not_forgotten() {
    let (site, db) = crowded();
    let options = fs::canonicalize(db.options()).unwrap();
    let before = fs::read(&options).unwrap();
    let after = [&before[..], b"max_connections = 50\n"].concat();
    let (state, login) = (site.at("state"), site.at("login.cnf"));
    let socket = db.socket().display().to_string();
    let words = ["database", &socket, &login, "max_connections", "10"];
    let commands = vec![words.iter().map(|word| word.as_bytes().to_vec()).collect()];
    let mut journal = Journal { commands, ..Journal::default() };
    journal.note(options.as_os_str().as_bytes(), 0o644, Some(&before), &after).unwrap();
    site.dir.write("state/journal", journal.to_bytes());
    fs::write(&options, &after).unwrap();
    let mut root = db.connect();
    root.run("SET GLOBAL max_connections = 50");
    // The account's file is gone.
    let output = undo(&state);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("login.cnf"), "{said}");
    assert_eq!(
        (fs::read(&options).unwrap(), &*root.value("SELECT @@GLOBAL.max_connections")),
        (before, "50")
    );
    site.dir.write("login.cnf", "[client]\nuser = root\n");
    let output = undo(&state);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(root.value("SELECT @@GLOBAL.max_connections"), "10");
    assert_eq!(text(&undo(&state).stdout), "There is nothing to undo.\n");
}

/// The running database has the original again, too.
#[test]
fn a_tuner_that_is_killed_leaves_mariadb_as_it_was() {
    let (site, db) = crowded();
    let _running = site.start();
    let options = db.options().display().to_string();
    let before = fs::read(&options).unwrap();
    let mut connections = counted(&db);
    let (found, state) = (found(&site, &db, "max_connections", "10", "50"), site.at("state"));
    let mut command = site.command(&["--mysql", &options, "--users", "12", "--budget", "50s", "--apply"]);
    command.args(["--found", &found, "--state", &state, "--observe", "0s"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait::holds("the change", || {
        if child.try_wait().unwrap().is_some() {
            let mut said = String::new();
            child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("the tuner has ended: {said}");
        }
        connections() == "50"
    });
    process::signal(child.id(), Signal::KILL);
    child.wait().unwrap();
    wait::holds("the end of the watchdog", || !Path::new(&state).join("journal").exists());
    assert_eq!((fs::read(&options).unwrap(), &*connections()), (before, "10"));
}

#[test]
fn what_needs_a_restart_of_mariadb_is_not_applied() {
    let (site, db) = crowded();
    let _running = site.start();
    let options = db.options().display().to_string();
    let before = fs::read(&options).unwrap();
    let found = found(&site, &db, "innodb_flush_method", "", "fsync");
    let state = site.at("state");
    let more = ["--mysql", &options, "--json", "--apply", "--found", &found, "--state", &state];
    let output = site.tune(&more);
    let said = json(&output);
    let why = said["not_applied"].as_str().unwrap_or_default();
    assert!(why.contains("innodb_flush_method counts after a restart of MariaDB"), "{said:#}");
    assert_eq!((output.status.code(), fs::read(&options).unwrap()), (Some(2), before));
    assert!(!Path::new(&state).join("journal").exists());
}
