//! Pools that cannot be started, and sockets that are gone: requests are refused at once, and served again as soon as that is possible.

use crate::site::{Site, builder, conf, title};
use brisk_testkit::{Response, process, wait};
use rustix::process::Signal;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Long before a start is given up that goes on, and before a request's time is over: a minute each.
const SOON: Duration = Duration::from_secs(30);

/// An answer that comes soon, to a request that might be repeated and to one that may not.
fn both(site: &Site) -> [Response; 2] {
    let began = Instant::now();
    let answers = [site.get("/a.php"), site.post("/a.php", b"a=1")];
    assert!(began.elapsed() < SOON, "{:?}\n{}", began.elapsed(), site.server.error_log());
    answers
}

fn are_refused(site: &Site) {
    for answer in both(site) {
        assert_eq!(answer.status, 503, "{}", site.server.error_log());
        assert_eq!(answer.header("Retry-After"), Some("5"));
    }
}

fn serves(site: &Site) {
    wait::holds("an answer of the pool", || site.get("/a.php").status == 200);
    assert!(both(site).iter().all(|answer| answer.status == 200), "{}", site.server.error_log());
}

#[test]
fn a_pool_that_cannot_start_refuses_at_once_and_serves_when_it_can() {
    let site = Site::of(
        builder()
            .http(&conf("pm static; max_children 2; chdir {{DIR}}/later;", ""))
            .allow_alerts("PHP pool \"www\"|pool www"),
    );
    site.script("a.php", "<?php echo getcwd();");
    are_refused(&site);
    site.server.wait_for_log(
        "\\[alert\\] .*PHP pool \"www\" cannot be started \\(pool www: chdir\\(.*\\): make the folder",
    );
    site.server.wait_for_log("PHP pool \"www\" does not run: .*\"brisk php reload www\"");
    let status = site.php(&["status"]);
    brisk_testkit::server::check(&status, 1, &["pool www does not answer"]);
    // It was told once, and tried again since.
    wait::holds("another try", || site.server.error_log().matches("exited with code 78").count() > 1);
    assert_eq!(site.server.error_log().matches("cannot be started (").count(), 1);
    are_refused(&site);
    fs::create_dir(site.server.dir().join("later")).unwrap();
    serves(&site);
}

/// php-cgi says nothing when it serves, so that no message of it has the master process look.
#[test]
fn php_cgi_serves_as_soon_as_it_can_start() {
    let builder = builder().env("BRISK_PHP", "php-cgi").allow_alerts("PHP pool \"www\"");
    let capabilities = builder.dir().join("browscap.ini");
    let ini = format!("browscap={}\n", capabilities.display());
    let pool = "php_cgi on; max_children 1; php_ini {{DIR}}/php.ini;";
    let site = Site::of(builder.file("php.ini", ini).http(&conf(pool, "")));
    site.script("a.php", "<?php echo 'ok';");
    site.server.wait_for_log("PHP pool \"www\" cannot be started \\(");
    wait::holds("a refusal", || site.get("/a.php").status == 503);
    // What ends at once is not taken to serve before.
    let said = |text: &str| site.server.error_log().matches(text).count();
    wait::holds("tries that fail", || said("start the master") > said("of PHP pool \"www\" serves") + 1);
    fs::write(&capabilities, "").unwrap();
    serves(&site);
    brisk_testkit::server::check(&site.php(&["reload", "www"]), 0, &["pool www: process \\d+ serves"]);
}

/// PHP itself would leave it out silently, with what it forbids.
#[test]
fn a_php_ini_that_the_pools_user_may_not_read_is_no_reason_to_do_without_it() {
    let closed = |path: PathBuf| fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
    let open = |path: PathBuf| fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    let builder = builder()
        .file("php.ini", "user_agent=own")
        .file("conf.d/10-a.ini", "precision=9")
        .file("conf.d/10-b.txt", "")
        .allow_alerts("PHP pool \"www\"|pool www");
    let dir = builder.dir().to_path_buf();
    fs::set_permissions(dir.join("conf.d"), Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("/nothing/here.ini", dir.join("conf.d/20-removed.ini")).unwrap();
    ["php.ini", "conf.d/10-a.ini", "conf.d/10-b.txt"].iter().for_each(|name| closed(dir.join(name)));
    let site = Site::of(builder.http(&conf("pm static; max_children 1; php_ini {{DIR}}/php.ini;", "")));
    site.script("a.php", "<?php echo ini_get('user_agent'), ini_get('precision');");
    are_refused(&site);
    site.server.wait_for_log("cannot be started \\(pool www: its user may not read \".*/php.ini\" \\(.*\\): let the pool's user read it");
    open(dir.join("php.ini"));
    site.server.wait_for_log("its user may not read \".*/conf.d/10-a.ini\"");
    open(dir.join("conf.d/10-a.ini"));
    serves(&site);
    assert_eq!(site.get("/a.php").text(), "own9");
}

#[test]
fn nor_is_one_that_is_outside_of_chroot() {
    let builder =
        builder().file("php.ini", "").file("html/a.php", "").allow_alerts("PHP pool \"www\"|pool www");
    let open = |path: &std::path::Path| fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    open(&builder.dir().join("html"));
    let pool = "pm static; max_children 1; php_ini {{DIR}}/php.ini; chroot {{DIR}}/html;";
    let site = Site::of(builder.http(&conf(pool, "")));
    site.server.wait_for_log("its user may not read \".*/php.ini\" inside of \"chroot\"");
    are_refused(&site);
    let inside = site.server.write(&format!("html{}/php.ini", site.server.dir().display()), "");
    inside.ancestors().take_while(|path| !path.ends_with("html")).for_each(open);
    site.server.wait_for_log("the master \\d+ of PHP pool \"www\" serves");
}

/// OPcache is filled by one worker: several first requests at once crash it (php-src #23637).
#[test]
fn a_pool_begins_with_one_worker() {
    for pool in [
        "pm static; max_children 4;",
        "pm dynamic; max_children 6; min_spare_servers 4; max_spare_servers 4;",
    ] {
        let site = Site::new(&format!("{pool} queue 100 timeout=60s;"), "");
        let notes = site.notes().display().to_string();
        site.script("a.php", &format!("<?php while (!file_exists('{notes}/go')) {{ usleep(1000); clearstatcache(); }} echo getmypid();"));
        site.script("b.php", "<?php echo 'b';");
        site.server.wait_for_log("the master \\d+ of PHP pool \"www\" serves");
        assert_eq!(process::children(site.master()).len(), 1);
        // One that takes long does not keep the others waiting.
        let mut client = site.server.client();
        client.send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(site.get("/b.php").text(), "b");
        fs::write(format!("{notes}/go"), "").unwrap();
        assert_eq!(client.response().status, 200);
        site.wait_for_workers(4);
    }
}

/// A pool of one process, whose script does what the file "go" says, once it is there.
struct Script {
    site: Site,
    notes: PathBuf,
}

impl Script {
    fn start(pool: &str, go: Option<&str>) -> Script {
        let builder = builder();
        let notes = builder.dir().join("notes");
        fs::create_dir(&notes).unwrap();
        fs::set_permissions(&notes, Permissions::from_mode(0o777)).unwrap();
        let text =
            "<?php touch('NOTES/began'); while (!file_exists('NOTES/go')) { usleep(1000); clearstatcache(); }
            if (file_get_contents('NOTES/go') !== 'yes') throw new Exception('it was told so');
            while (frankenphp_handle_request(function () { echo 'ok'; }));";
        let builder = builder.file("html/worker.php", text.replace("NOTES", &notes.display().to_string()));
        for name in ["html", "html/worker.php"] {
            fs::set_permissions(builder.dir().join(name), Permissions::from_mode(0o755)).unwrap();
        }
        tell(&notes, go);
        let pool = format!("pm static; max_children 1; worker {{{{DIR}}}}/html/worker.php; {pool}");
        let builder = builder.http(&conf(&pool, "")).allow_alerts("PHP pool \"www\"|pool www");
        Script { site: Site::of(builder), notes }
    }

    fn tell(&self, go: &str) {
        tell(&self.notes, Some(go));
    }
}

/// In one step: the script may be looking.
fn tell(notes: &std::path::Path, go: Option<&str>) {
    if let Some(go) = go {
        fs::write(notes.join("go.new"), go).unwrap();
        fs::rename(notes.join("go.new"), notes.join("go")).unwrap();
    }
}

/// Requests that come while the first start goes on wait for how it ends.
#[test]
fn who_comes_during_a_start_waits_for_it() {
    for (go, status) in [("yes", 200), ("no", 503)] {
        let script = Script::start("", None);
        let site = &script.site;
        wait::holds("the script's begin", || script.notes.join("began").exists());
        let (mut one, mut other) = (site.server.client(), site.server.client());
        one.send("GET /a.php HTTP/1.1\r\nHost: a\r\n\r\n");
        other.send("POST /a.php HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na=1");
        script.tell(go);
        let began = Instant::now();
        assert_eq!(
            [one.response().status, other.response().status],
            [status; 2],
            "{}",
            site.server.error_log()
        );
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        if go == "no" {
            site.server
                .wait_for_log("PHP pool \"www\" cannot be started \\(.*it was told so.*\\): mend the script");
            are_refused(site);
            script.tell("yes");
        }
        serves(site);
    }
}

/// As for a lack of memory. One may be bad luck, and requests wait for the next start.
#[test]
fn starts_that_are_killed_again_and_again_are_failed_ones() {
    let script = Script::start("", None);
    let (site, began) = (&script.site, script.notes.join("began"));
    let mut client = site.server.client();
    client.send("POST /a.php HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na=1");
    for _ in 0..3 {
        wait::holds("the script's begin", || began.exists());
        fs::remove_file(&began).unwrap();
        process::signal(site.master(), Signal::KILL);
    }
    assert_eq!(client.response().status, 503, "{}", site.server.error_log());
    site.server.wait_for_log("PHP pool \"www\" cannot be started \\(exited on signal 9\\): give it memory");
    are_refused(site);
    script.tell("yes");
    serves(site);
}

/// What was being started began with what was before the reload; it may also hang, and then nobody else would end it.
#[test]
fn a_reload_during_a_start_begins_it_anew() {
    let script = Script::start("", None);
    let (site, began) = (&script.site, script.notes.join("began"));
    wait::holds("the script's begin", || began.exists());
    fs::remove_file(&began).unwrap();
    thread::scope(|scope| {
        let reload = scope.spawn(|| site.php(&["reload", "www"]));
        wait::holds("the begin of another one", || began.exists());
        script.tell("yes");
        brisk_testkit::server::check(&reload.join().unwrap(), 0, &["pool www: process \\d+ serves"]);
    });
    serves(site);
    wait::holds("one pool master alone", || {
        let children = process::children(site.server.child_pid());
        children.into_iter().filter(|pid| title(*pid).contains("php")).count() == 1
    });
}

/// Its worker ends after each request, and the next one finds a script with an error.
#[test]
fn a_pool_that_has_served_and_can_no_more_refuses_at_once() {
    let script = Script::start("max_requests 1;", Some("yes"));
    let site = &script.site;
    serves(site);
    script.tell("no");
    wait::holds("a refusal", || {
        let began = Instant::now();
        let status = site.get("/a.php").status;
        assert!(
            matches!(status, 200 | 503) && began.elapsed() < SOON,
            "{status} after {:?}",
            began.elapsed()
        );
        status == 503
    });
    site.server.wait_for_log("its workers end before they can take a request");
    script.tell("yes");
    serves(site);
}

/// Each request needs a connection of its own, and there is no way to any process. The thread that has it must not try for ever.
#[test]
fn a_socket_that_somebody_has_removed_is_no_endless_loop() {
    let site = Site::new("pm static; max_children 1; max_requests 1;", "");
    site.script("a.php", "<?php echo 'ok';");
    serves(&site);
    let folder = fs::read_dir(site.server.dir().join("logs/brisk-php")).unwrap();
    let sockets = folder.map(|entry| entry.unwrap().path());
    sockets.filter(|path| path.extension().is_some_and(|end| end == "sock")).for_each(|path| {
        fs::remove_file(path).unwrap();
    });
    // A connection may be kept that was made before.
    wait::holds("a refusal", || site.get("/a.php").status == 503);
    are_refused(&site);
    brisk_testkit::server::check(&site.php(&["reload", "www"]), 0, &["pool www: process \\d+ serves"]);
    serves(&site);
}

/// Its user may have no more processes than some of the workers: they serve, though none has come to its first request yet when the next one fails.
#[test]
fn a_pool_starts_with_fewer_workers_than_it_wants() {
    let script = "<?php usleep(300000); while (frankenphp_handle_request(function () { echo 'ok'; }));";
    let pool = "user lp; pm static; max_children 4; worker {{DIR}}/html/a.php;";
    let builder = builder().file("html/a.php", script);
    for name in ["html", "html/a.php"] {
        fs::set_permissions(builder.dir().join(name), Permissions::from_mode(0o755)).unwrap();
    }
    let site = Site::of(builder.http(&conf(pool, "")));
    serves(&site);
    site.wait_for_workers(4);
    // Debian's user 7, whom no other test has. It has five processes, so another master can have one worker.
    let limits = ["--pid", &site.server.pid().to_string(), "--nproc=7:7"];
    assert!(std::process::Command::new("prlimit").args(limits).status().unwrap().success());
    brisk_testkit::server::check(&site.php(&["reload", "www"]), 0, &["pool www: process \\d+ serves"]);
    site.server.wait_for_log("forking a worker of pool www failed");
    serves(&site);
    // As soon as those before have ended there is room for all.
    site.wait_for_workers(4);
}

#[test]
fn php_fpm_that_ends_leaves_the_pools_socket_to_the_next_one() {
    let site = Site::of(builder().env("BRISK_PHP", "php-fpm").http(&conf("pm static; max_children 2;", "")));
    site.script("a.php", "<?php echo 'ok';");
    serves(&site);
    let masters = || {
        let is_master = |pid: &u32| title(*pid).starts_with("php-fpm: master");
        process::children(site.server.child_pid()).into_iter().filter(is_master).collect::<Vec<_>>()
    };
    let before = masters();
    assert_eq!(before.len(), 1);
    brisk_testkit::server::check(&site.php(&["reload", "www"]), 0, &["pool www: process \\d+ serves"]);
    before.into_iter().for_each(process::wait_gone);
    assert!(both(&site).iter().all(|answer| answer.status == 200), "{}", site.server.error_log());
}

/// What a program that a script starts has in its environment of what loads libraries, and the program of the pool master.
fn preloaded_and_program(site: &Site) -> (String, String) {
    site.script(
        "env.php",
        "<?php echo shell_exec('echo \"[$LD_PRELOAD]\"'), var_export(getenv('LD_PRELOAD'), true);",
    );
    let program = fs::read_link(format!("/proc/{}/exe", site.master())).unwrap();
    let answer = site.get("/env.php").text().replace('\n', " ");
    (answer, program.file_name().unwrap().to_str().unwrap().to_string())
}

#[test]
fn the_program_of_php_fpm_runs_pools_and_scripts_do_not_inherit_what_it_loads() {
    // Debian's package has it (`scripts/setup.sh test`).
    let pool = "pm static; max_children 1; clear_env no;";
    let site = Site::new(pool, "");
    let (answer, program) = preloaded_and_program(&site);
    assert!(program.starts_with("php-fpm8."), "{program}");
    assert_eq!(answer, "[] false");
    assert_eq!(title(site.master()).trim_end_matches('\0').trim_end(), "brisk: php pool www");
    // What the server itself was told to load is all that is left.
    let site = Site::of(builder().env("LD_PRELOAD", "libm.so.6").http(&conf(pool, "")));
    assert_eq!(preloaded_and_program(&site).0, "[libm.so.6] 'libm.so.6'");
}

#[test]
fn a_pool_master_that_is_linked_with_the_library_does_the_same() {
    let pool = "pm static; max_children 1; clear_env no;";
    let site = Site::of(builder().env("BRISK_PHP", "libphp").http(&conf(pool, "")));
    let (answer, program) = preloaded_and_program(&site);
    assert!(program.starts_with("brisk-php8."), "{program}");
    assert_eq!(answer, "[] false");
}
