//! `brisk tune` on copies of real sites. Needs root, as it does itself.

#[path = "tune/apache.rs"]
mod apache;
#[path = "tune/database.rs"]
mod database;
#[path = "tune/live.rs"]
mod live;
#[path = "tune/sabotage.rs"]
mod sabotage;
#[path = "tune/site.rs"]
mod site;

use brisk_testkit::server::text;
use brisk_testkit::{TempDir, process, wait};
use rustix::process::Signal;
use site::{PARAMS, Site, WAITING, json, of_site, undo};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Two processes that wait most of the time, and twelve users: more processes are the gain. The page tries what a copy must not be able to
/// do: to write beside itself, and to reach a server of the machine.
#[test]
fn a_pool_that_is_too_small_grows_and_nothing_leaves_the_copy() {
    let outside = TcpListener::bind("127.0.0.1:0").unwrap();
    outside.set_nonblocking(true).unwrap();
    let port = outside.local_addr().unwrap().port();
    let site = Site::new(
        "pm = static\npm.max_children = 2",
        &format!(
            "<?php file_put_contents(__DIR__ . '/written', 'x');\n@fsockopen('127.0.0.1', {port}, $e, $s, 0.2);\nusleep(20000); echo 'ok';"
        ),
    );
    let before = site.files();
    let patches = TempDir::new();
    let folder = patches.path().display().to_string();
    let output = site.tune(&[
        "--users",
        "12",
        "--knobs",
        "pm.max_children",
        "--budget",
        "100s",
        "--json",
        "--patches",
        &folder,
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found = json(&output);
    assert_eq!(found["limit"]["cause"], "pool-too-small", "{found:#}");
    let step = &found["steps"][0];
    assert_eq!((&step["knob"], &step["from"]), (&"pm.max_children".into(), &"2".into()), "{found:#}");
    assert_eq!((&step["verdict"], &found["final"]["outcome"]), (&"kept".into(), &"kept".into()), "{found:#}");
    assert!(
        step["high"].as_f64().unwrap() < 0.7 && found["final"]["high"].as_f64().unwrap() < 0.7,
        "{found:#}"
    );
    assert!(found["final"]["pairs"].as_array().unwrap().len() >= 20);
    let to: u32 = step["to"].as_str().unwrap().parse().unwrap();
    assert!(to >= 6, "{found:#}");
    let patch = found["patches"][0]["patch"].as_str().unwrap();
    assert!(patch.contains("-pm.max_children = 2\n+pm.max_children = "), "{patch}");
    let written: Vec<_> = std::fs::read_dir(patches.path()).unwrap().flatten().collect();
    assert_eq!(written.len(), 1);
    assert_eq!(std::fs::read_to_string(written[0].path()).unwrap(), patch);
    // Nothing of all this is to be seen outside.
    assert_eq!(site.files(), before);
    // As docs/tuning.md has it applied by hand.
    let file = std::fs::File::open(written[0].path()).unwrap();
    let patched = Command::new("patch").args(["-s", "-d", "/", "-p1"]).stdin(file).status().unwrap();
    assert!(patched.success());
    let pool = std::fs::read_to_string(site.at("pool.conf")).unwrap();
    assert!(pool.contains(&format!("pm.max_children = {to}\n")), "{pool}");
    assert!(outside.accept().is_err(), "the copy reached a server of the machine");
}

/// Without `--knobs`: what limits behind the first change is said, and tried.
#[test]
fn the_limit_is_looked_at_again_after_a_change() {
    let site = Site::new("pm = static\npm.max_children = 2", WAITING);
    let output = site.tune(&["--users", "12", "--budget", "40s", "--json"]);
    let found = json(&output);
    let seen = &found["limits"][0];
    assert_eq!(found["limit"]["cause"], "pool-too-small", "{found:#}");
    assert_eq!(
        (&seen["with"][0]["knob"], &seen["with"][0]["from"]),
        (&"pm.max_children".into(), &"2".into()),
        "{found:#}"
    );
    assert!(seen["cause"].is_string() && seen["sentence"].is_string(), "{found:#}");
}

/// Pages are kept for a second where old ones are allowed, and none of a visitor with a cookie.
#[test]
fn pages_are_kept_where_old_ones_are_allowed() {
    let site = Site::new("pm = static\npm.max_children = 3", "<?php usleep(20000); echo hrtime(true);");
    let found = json(&site.tune(&["--users", "12", "--budget", "8s", "--json"]));
    let steps = found["steps"].as_array().unwrap();
    let verdict = |knob: &str| steps.iter().find(|step| step["knob"] == knob).map(|step| &step["verdict"]);
    assert_eq!(verdict("fastcgi_cache"), Some(&"proposal".into()), "{found:#}");
    // Without a cache there is nothing that a time is for; without a proxy nothing that it could keep.
    assert_eq!((verdict("fastcgi_cache_valid"), verdict("proxy_cache")), (None, None), "{found:#}");
    let allowed = ["--allow", "correctness", "--knobs", "fastcgi_cache", "--budget", "80s", "--json"];
    let output = site.tune(&[&["--users", "12"], &allowed[..]].concat());
    let found = json(&output);
    assert_eq!(found["final"]["outcome"], "kept", "{found:#} {}", text(&output.stderr));
    assert!(found["final"]["high"].as_f64().unwrap() < 0.5, "{found:#}");
    let patch = site.dir.write("patch", found["patches"][0]["patch"].as_str().unwrap());
    let file = std::fs::File::open(patch).unwrap();
    let patched = Command::new("patch").args(["-s", "-d", "/", "-p1"]).stdin(file).status().unwrap();
    assert!(patched.success());
    // Its folder is a test's own.
    let conf = std::fs::read_to_string(site.at("site.conf")).unwrap();
    site.dir.write("site.conf", conf.replace("/var/cache/brisk_pages", &site.at("pages")));
    let _running = site.start();
    let page = |cookie: Option<&str>| {
        let mut curl = Command::new("curl");
        curl.args(["-s", "--max-time", "10", &site.url()]);
        curl.args(cookie.iter().flat_map(|cookie| ["-b", cookie]));
        text(&curl.output().unwrap().stdout)
    };
    wait::holds("a page that is kept", || {
        let first = page(None);
        !first.is_empty() && first == page(None)
    });
    let personal = page(Some("session=a"));
    assert_ne!(personal, page(Some("session=a")));
    assert_ne!(personal, page(None));
}

/// Files that are not named are those that the running programs have read, in the copy as well.
#[test]
fn a_running_site_is_found_by_its_url() {
    let site = Site::new("pm = static\npm.max_children = 2", WAITING);
    let _running = site.start();
    let mut command = Command::new(env!("CARGO_BIN_EXE_brisk"));
    command.args(["tune", &site.url(), "--knobs", "pm.max_children", "--budget", "8s", "-q", "--json"]);
    let output = command.output().unwrap();
    let found = json(&output);
    assert_eq!(found["site"], site.at("site.conf"), "{found:#} {}", text(&output.stderr));
    let step = ["knob", "from"].map(|name| &found["steps"][0][name]);
    assert_eq!(step, ["pm.max_children", "2"], "{found:#}");
    let files = found["files"].as_object().unwrap();
    assert!(
        ["site.conf", "pool.conf", "php.ini"].iter().all(|name| files.contains_key(&site.at(name))),
        "{found:#}"
    );
}

/// Visitors of one session wait for each other: more processes would wait as well.
#[test]
fn a_session_that_all_wait_for_is_named() {
    let site = Site::new(
        "pm = static\npm.max_children = 4",
        "<?php session_id('shared'); session_start(); usleep(20000); echo 'ok';",
    );
    site.dir
        .write("php.ini", format!("memory_limit = 64M\nsession.save_path = {}\n", site.dir.path().display()));
    let output = site.tune(&["--users", "12", "--knobs", "pm.max_children", "--budget", "8s", "--json"]);
    let found = json(&output);
    assert_eq!(found["limit"]["cause"], "session-lock", "{found:#} {}", text(&output.stderr));
}

/// Whatever ends it, and however: nothing runs on, and every file is as it was.
#[test]
fn nothing_is_left_of_a_tuner_that_is_killed_or_interrupted() {
    for (signal, code) in [(Signal::KILL, None), (Signal::INT, Some(2)), (Signal::TERM, Some(2))] {
        let site = Site::new("pm = static\npm.max_children = 2", "<?php usleep(2000); echo 'ok';");
        let before = site.files();
        let mut child = site
            .command(&["--knobs", "pm.max_children", "--budget", "10m", "--json"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait::holds("the copy's processes", || of_site(&site).len() > 4);
        process::signal(child.id(), signal);
        assert_eq!(child.wait().unwrap().code(), code, "{signal:?}");
        wait::holds("the end of all of them", || of_site(&site).is_empty());
        assert_eq!(site.files(), before, "{signal:?}");
    }
}

#[test]
fn what_cannot_be_done_is_said() {
    let site = Site::new("pm = static\npm.max_children = 2", "<?php echo 'ok';");
    let check = |args: &[&str], wanted: &str| {
        let output = site.tune(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", text(&output.stdout));
        assert!(text(&output.stderr).contains(wanted), "{args:?}: {}", text(&output.stderr));
    };
    check(&["--goal", "max speed"], "is no goal");
    check(&["--allow", "fire"], "is no risk");
    check(&["--knobs", "pm.children"], "there is no setting \"pm.children\"");
    check(&["--pool", "other"], "there is no pool \"other\"; there are: shop");
    check(&["--share-database", "--program", "/no/such/server"], "--share-database: no database listens");
    check(&["--program", "/no/such/server"], "/no/such/server cannot be started");
    site.dir.write(
        "pool.conf",
        "[shop]\nuser = nobody\nlisten = 127.0.0.1:9\npm = static\npm.max_children = 2\n",
    );
    check(&[], "leads to none of the known pools (127.0.0.1:9)");
    site.dir.write("site.conf", "events { }\nhttp { server { listen 127.0.0.1:8093; nonsense on; } }\n");
    check(&[], "the copy of the site does not run: server ended with");
    assert!(Path::new(&site.at("pool.conf")).exists());
}

/// Brisk in nginx's place, on a page that no setting of its makes faster: nothing is changed, and the reason is given.
#[test]
fn a_page_that_computes_is_left_alone() {
    let site = Site::new(
        "pm = static\npm.max_children = 4",
        "<?php for ($i = 0, $x = 1; $i < 200000; $i++) { $x = ($x * 31 + 7) % 65521; } echo $x;",
    );
    let output = site.tune(&["--users", "1", "--budget", "20s", "--program", "brisk", "--json"]);
    let found = json(&output);
    assert_eq!(output.status.code(), Some(0), "{found:#}");
    assert_eq!(found["patches"].as_array().map(Vec::len), Some(0), "{found:#}");
}

#[test]
fn with_nothing_to_undo_it_says_so() {
    let dir = TempDir::new();
    let state = dir.path().join("none").display().to_string();
    let output = undo(&state);
    assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(0), "There is nothing to undo.\n"));
}

/// The whole way on a running site: searched on the copy, applied, proved, taken back.
#[test]
fn what_is_applied_is_proved_and_undone() {
    let site = Site::new("pm = static\npm.max_children = 2", WAITING);
    let running = site.start();
    let before = site.configuration();
    let state = site.at("state");
    let more = ["--users", "12", "--knobs", "pm.max_children", "--budget", "80s", "--json", "--apply"];
    let mut tries = 1..=3;
    let found = loop {
        let output = site.command(&more).args(["--state", &state, "--observe", "5s"]).output().unwrap();
        let found = json(&output);
        if output.status.success() {
            break found;
        }
        // Where others want the machine, the site can be too slow while it is watched: then all is as it was.
        let why = found["not_applied"].as_str().unwrap_or_default();
        let is_disturbed = why.contains("of the requests waited");
        assert!(is_disturbed && tries.next().is_some(), "{found:#} {}", text(&output.stderr));
        assert_eq!(site.configuration(), before);
    };
    assert!(found["applied"]["high"].as_f64().is_some_and(|high| high < 0.8), "{found:#}");
    assert_eq!(found["applied"]["pairs"].as_array().map(Vec::len), Some(20), "{found:#}");
    let to = found["final"]["settings"][0]["to"].as_str().unwrap();
    let pool = std::fs::read_to_string(site.at("pool.conf")).unwrap();
    assert!(
        pool.contains("; brisk tune: what follows")
            && pool.contains(&format!("\npm.max_children = {to}\n; ")),
        "{pool}"
    );
    let children = || process::children(running.0[1].id()).len().to_string();
    wait::holds("the pool's processes", || children() == to);
    let output = undo(&state);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(site.configuration(), before);
    wait::holds("the two processes of before", || children() == "2");
    assert_eq!(text(&undo(&state).stdout), "There is nothing to undo.\n");
}

/// The tuner dies while the site is under change.
#[test]
fn a_tuner_that_is_killed_leaves_the_original() {
    let site = Site::new("pm = static\npm.max_children = 2", WAITING);
    let _running = site.start();
    let before = site.configuration();
    let state = site.at("state");
    let mut child = site
        .command(&[
            "--users",
            "12",
            "--knobs",
            "pm.max_children",
            "--budget",
            "80s",
            "--apply",
            "--state",
            &state,
        ])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let is_over = |child: &mut Child| child.try_wait().unwrap().is_some();
    let changed = wait::within(Duration::from_mins(4), || {
        assert!(!is_over(&mut child), "it ended before it changed anything");
        (site.configuration() != before).then_some(())
    });
    assert!(changed.is_some(), "nothing was changed");
    process::signal(child.id(), Signal::KILL);
    child.wait().unwrap();
    // Within five seconds, where nobody else wants the machine.
    wait::holds("the original", || site.configuration() == before);
    wait::holds("the end of the watchdog", || !Path::new(&state).join("journal").exists());
}

/// Somebody edits a file while its copy is measured, far from what is changed.
#[test]
fn an_edit_in_between_is_a_refusal() {
    let site = Site::new("pm = static\npm.max_children = 2", WAITING);
    let _running = site.start();
    let state = site.at("state");
    let child = site
        .command(&[
            "--users",
            "12",
            "--knobs",
            "pm.max_children",
            "--budget",
            "70s",
            "--json",
            "--apply",
            "--state",
            &state,
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait::holds("the copy's processes", || of_site(&site).len() > 8);
    let mut edited = std::fs::read_to_string(site.at("site.conf")).unwrap();
    edited.push_str("# mine\n");
    site.dir.write("site.conf", &edited);
    let output = child.wait_with_output().unwrap();
    let found = json(&output);
    assert_eq!(output.status.code(), Some(2), "{found:#}");
    assert!(
        found["not_applied"].as_str().is_some_and(|why| why.contains("were changed while it was tuned")),
        "{found:#}"
    );
    assert_eq!(std::fs::read_to_string(site.at("site.conf")).unwrap(), edited);
}

/// Brisk with a pool of its own, whose settings stand in its configuration. A pool that is too small turns requests away.
#[test]
fn a_pool_of_brisk_s_own_grows() {
    let site = Site::new("pm = static\npm.max_children = 2", WAITING);
    let at = site.dir.path().display().to_string();
    let number = site.port.number;
    site.dir.write(
        "site.conf",
        format!(
            "pid {at}/brisk.pid;\nerror_log {at}/error.log;\nevents {{ }}\nhttp {{\n    access_log off;\n    php_pool shop {{\n        \
             user nobody;\n        pm static;\n        pm.max_children 2;\n    }}\n    server {{\n        listen 127.0.0.1:{number};\n        \
             root {at};\n        location ~ \\.php$ {{\n            {PARAMS}\n            php_pass shop;\n        }}\n    }}\n}}\n"
        ),
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_brisk"));
    command.args([
        "tune",
        &site.url(),
        "--site",
        &site.at("site.conf"),
        "--users",
        "12",
        "--budget",
        "80s",
        "-q",
        "--json",
    ]);
    let output = command.args(["--knobs", "pm.max_children"]).output().unwrap();
    let found = json(&output);
    assert_eq!(found["final"]["outcome"], "kept", "{found:#} {}", text(&output.stderr));
    let patch = found["patches"][0]["patch"].as_str().unwrap();
    assert!(patch.contains("-        pm.max_children 2;\n+        pm.max_children "), "{patch}");
}

/// A page that asks a service of the machine gets it where it is allowed, and its name leads there.
#[test]
fn a_service_that_is_allowed_is_reached() {
    let outside = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = outside.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in outside.incoming().flatten() {
            let _ = std::io::Write::write_all(&mut stream, b"hello");
        }
    });
    let site = Site::new(
        "pm = static\npm.max_children = 2",
        &format!(
            "<?php $s = @fsockopen('127.0.0.1', {port}, $e, $t, 1);\nif (!$s || fread($s, 5) !== 'hello') http_response_code(500);\necho 'ok';"
        ),
    );
    let errors = |more: &[&str]| {
        let args =
            [&["--users", "1", "--knobs", "pm.max_children", "--budget", "8s", "--json"], more].concat();
        let output = site.tune(&args);
        output.status.success().then(|| json(&output)["before"]["errors"].as_f64().unwrap())
    };
    assert!(errors(&[]).is_none_or(|share| share > 0.99), "the copy reached a service that was not allowed");
    assert_eq!(errors(&["--allow-external", &format!("127.0.0.1:{port}")]), Some(0.0));
}
