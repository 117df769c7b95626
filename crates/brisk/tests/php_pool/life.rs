//! Workers, pool masters and the server: what happens when one of them ends.

use crate::site::{Site, builder, conf, title};
use brisk_testkit::{Client, ports, process, wait};
use rustix::process::Signal;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const CRASH: &str = "<?php file_put_contents('NOTES/tries', 'x', FILE_APPEND);
    if (strlen(file_get_contents('NOTES/tries')) <= ($_GET['times'] ?? 1)) posix_kill(getmypid(), 11);
    echo 'alive';";

fn crashing(pool: &str) -> Site {
    let site = Site::new(pool, "");
    let notes = site.notes();
    site.script("crash.php", &CRASH.replace("NOTES", &notes.display().to_string()));
    site.script("ok.php", "<?php echo 'ok';");
    site
}

fn tries(site: &Site) -> usize {
    let path = site.notes().join("tries");
    let count = std::fs::read(&path).unwrap_or_default().len();
    let _ = std::fs::remove_file(path);
    count
}

#[test]
fn a_crash_is_one_requests_and_a_get_is_tried_once_more() {
    let site = crashing("pm static; max_children 3;");
    assert_eq!(site.get("/crash.php").text(), "alive");
    assert_eq!(tries(&site), 2);
    // Once, whatever comes of it.
    assert_eq!(site.get("/crash.php?times=9").status, 502);
    assert_eq!(tries(&site), 2);
    // What might be done twice is not.
    assert_eq!(site.post("/crash.php", b"a=1").status, 502);
    assert_eq!(tries(&site), 1);
    site.server.wait_for_log("exited on signal 11 while it answered \"POST /crash.php\", script ");
    site.wait_for_workers(3);
    assert_eq!(site.get("/ok.php").text(), "ok");
    // The same on a connection that has served others, of which the server has several.
    for _ in 0..5 {
        site.get("/ok.php");
    }
    assert_eq!(site.get("/crash.php?times=9").status, 502);
    assert_eq!(tries(&site), 2);
}

#[test]
fn a_retry_can_be_turned_off() {
    let site = crashing("pm static; max_children 3; php_retry off;");
    assert_eq!(site.get("/crash.php").status, 502);
    assert_eq!(tries(&site), 1);
}

#[test]
fn a_request_that_takes_too_long_is_ended_with_what_it_has_started() {
    let site = Site::new("pm static; max_children 2; request_terminate_timeout 1s;", "");
    let notes = site.notes();
    let sleeper = format!(
        "<?php file_put_contents('{0}/tries', 'x', FILE_APPEND); exec('sleep 300 & echo $!', $out);
        file_put_contents('{0}/sleeper', $out[0]); sleep(300);",
        notes.display()
    );
    // exec() waits for the end of the output: what is left in the background keeps none of it.
    site.script("slow.php", &sleeper.replace("300 &", "300 >/dev/null 2>&1 &"));
    site.script("ok.php", "<?php echo 'ok';");
    // A pool that has answered nothing yet has one worker.
    site.get("/ok.php");
    let began = Instant::now();
    assert_eq!(site.get("/slow.php").status, 502);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(tries(&site), 1, "it would take as long again");
    let sleeper: u32 = std::fs::read_to_string(notes.join("sleeper")).unwrap().trim().parse().unwrap();
    process::wait_gone(sleeper);
    site.server.wait_for_log("its request took .* s \\(request_terminate_timeout\\), \"GET /slow.php\"");
    site.wait_for_workers(2);
    assert_eq!(site.get("/ok.php").text(), "ok");
}

/// Ends the load, also when a condition does not hold.
pub struct Ends<'a>(pub &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Clients that ask without pause until `change` is done: each request must be answered.
pub fn under_load(site: &Site, change: impl FnOnce()) -> usize {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..6)
            .map(|at| {
                let is_over = &is_over;
                scope.spawn(move || {
                    let mut count = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        let answer =
                            if at % 2 == 0 { site.get("/pid.php") } else { site.post("/pid.php", b"a=1") };
                        assert_eq!(answer.status, 200, "{}\n{}", answer.text(), site.server.error_log());
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        let ends = Ends(&is_over);
        change();
        drop(ends);
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    })
}

#[test]
fn workers_that_have_answered_enough_lose_no_request() {
    let site = Site::new("pm static; max_children 3; max_requests 7; queue 100 timeout=60s;", "");
    site.script("pid.php", "<?php echo getmypid();");
    under_load(&site, || (0..100).for_each(|_| assert_eq!(site.get("/pid.php").status, 200)));
}

#[test]
fn a_reload_of_changed_settings_loses_no_request() {
    let mut site = Site::new("pm static; max_children 3; env[V] 1; queue 100 timeout=60s;", "");
    site.script("pid.php", "<?php usleep(2000); echo getenv('V'), ' ', $_POST['a'] ?? '';");
    assert_eq!(site.get("/pid.php").text(), "1 ");
    let first = site.master();
    for round in 2..5 {
        site.server.configure_http(
            "",
            &conf(&format!("pm static; max_children 3; env[V] {round}; queue 100 timeout=60s;"), ""),
        );
        under_load(&site, || {
            site.server.reload();
            wait::holds("the new settings", || site.get("/pid.php").text() == format!("{round} "));
        });
    }
    process::wait_gone(first);
    let last = site.master();
    // What has not changed goes on.
    site.server.reload();
    assert_eq!(site.master(), last);
}

#[test]
fn a_pool_master_that_is_killed_comes_back() {
    let site = Site::of(
        builder()
            .http(&conf("pm static; max_children 2;", ""))
            .allow_alerts("PHP pool \"www\" exited on signal 9"),
    );
    site.script("pid.php", "<?php echo getmypid();");
    site.get("/pid.php");
    let (master, workers) = (site.master(), site.wait_for_workers(2));
    process::signal(master, Signal::KILL);
    // Connections wait for the next one.
    wait::holds("an answer of another worker", || {
        let answer = site.get("/pid.php");
        answer.status == 200 && !workers.contains(&answer.text().parse().unwrap())
    });
    workers.into_iter().for_each(process::wait_gone);
    assert_ne!(site.master(), master);
}

/// Nobody else would end it: its place in the pool and a processor would be gone for good.
#[test]
fn an_endless_request_ends_in_time_though_its_pool_master_was_killed() {
    let site = Site::of(
        builder()
            .http(&conf("pm static; max_children 2; request_terminate_timeout 3s;", ""))
            .allow_alerts("PHP pool \"www\" exited on signal 9"),
    );
    let note = site.notes().join("pid");
    let path = note.display();
    site.script(
        "loop.php",
        &format!("<?php set_time_limit(0); file_put_contents('{path}.new', getmypid()); rename('{path}.new', '{path}'); for (;;) {{}}"),
    );
    site.script("pid.php", "<?php echo getmypid();");
    let mut client = site.server.client();
    client.send("POST /loop.php HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    let worker: u32 = wait::until("the script's begin", || std::fs::read_to_string(&note).ok()?.parse().ok());
    process::signal(site.master(), Signal::KILL);
    process::wait_gone(worker);
    assert_eq!(client.response().status, 502);
    wait::holds("an answer of another worker", || site.get("/pid.php").status == 200);
}

#[test]
fn a_pool_ends_with_its_server_and_not_with_the_master_alone() {
    let conf = conf("pm static; max_children 2;", "");
    let mut site = Site::of(builder().http(&conf).allow_alerts("the master process .* has ended"));
    site.script("pid.php", "<?php echo getmypid();");
    site.get("/pid.php");
    site.wait_for_workers(2);
    let (pools, worker) = (site.pools(), site.server.worker_of_server());
    site.server.kill_master();
    let answer = site.get("/pid.php");
    assert_eq!(answer.status, 200);
    assert!(pools.contains(&answer.text().parse().unwrap()));
    process::signal(worker, Signal::KILL);
    pools.into_iter().for_each(process::wait_gone);
}

trait Worker {
    /// The server's worker: pool masters are children of the master process, too.
    fn worker_of_server(&self) -> u32;
}

impl Worker for brisk_testkit::Server {
    fn worker_of_server(&self) -> u32 {
        let children = process::children(self.child_pid());
        *children.iter().find(|pid| title(**pid) == "brisk: worker").expect("a worker")
    }
}

#[test]
fn nothing_is_left_when_the_server_ends() {
    for signal in [Signal::QUIT, Signal::TERM] {
        let mut site = Site::new("pm static; max_children 2;", "");
        site.script("pid.php", "<?php echo getmypid();");
        site.get("/pid.php");
        site.wait_for_workers(2);
        let pools = site.pools();
        assert!(site.server.end(signal).success());
        pools.into_iter().for_each(process::wait_gone);
        let folder = site.server.dir().join("logs/brisk-php");
        let left = std::fs::read_dir(folder).map(Iterator::count).unwrap_or_default();
        assert_eq!(left, 0, "sockets are left behind");
    }
}

/// Ends with its test.
struct Second(Child);

impl Drop for Second {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|status| status.is_none()) {
            process::signal(self.0.id(), Signal::TERM);
            let _ = self.0.wait();
        }
    }
}

/// The second one's pool took the socket's name once: its processes answered for the first one's, until it ended and none did.
#[test]
fn servers_of_one_folder_with_pools_of_one_name_have_their_own_processes() {
    // Each request comes on a new connection to the pool.
    let pool = |limit: &str| {
        format!("pm static; max_children 1; max_requests 1; php_admin_value[memory_limit] {limit};")
    };
    let site = Site::new(&pool("71M"), "");
    site.script("limit.php", "<?php echo ini_get('memory_limit');");
    assert_eq!(site.get("/limit.php").text(), "71M");
    let (dir, port) = (site.server.dir(), ports::claim());
    let second = conf(&pool("72M"), "")
        .replace("{{PORT}}", &port.number.to_string())
        .replace("{{DIR}}", &dir.display().to_string());
    let text = format!(
        "daemon off;\npid second.pid;\nerror_log second.log;\nevents {{ }}\nhttp {{ access_log off; {second} }}\n"
    );
    site.server.write("second.conf", text);
    let mut server = Command::new(env!("CARGO_BIN_EXE_brisk"));
    let mut server = Second(server.arg("-p").arg(dir).args(["-c", "second.conf"]).spawn().unwrap());
    wait::holds("the second server", || Client::try_connect(port.number).is_ok());
    for _ in 0..2 {
        assert_eq!(Client::connect(port.number).get("/limit.php").text(), "72M");
        assert_eq!(site.get("/limit.php").text(), "71M");
    }
    process::signal(server.0.id(), Signal::QUIT);
    assert!(server.0.wait().unwrap().success());
    assert_eq!(site.get("/limit.php").text(), "71M");
}

#[test]
fn the_command_replaces_a_pools_processes_and_shows_how_they_stand() {
    let site = Site::new("pm static; max_children 2; queue 100 timeout=60s;", "");
    site.script("pid.php", "<?php usleep(2000); echo getmypid();");
    site.get("/pid.php");
    let before = site.master();
    under_load(&site, || {
        let output = site.php(&["reload", "www"]);
        brisk_testkit::server::check(&output, 0, &["pool www: process \\d+ serves"]);
    });
    process::wait_gone(before);
    site.wait_for_workers(2);
    let status = site.php(&["status"]);
    brisk_testkit::server::check(
        &status,
        0,
        &["pool www \\(static, PHP 8\\.\\d+\\.\\d+, process \\d+\\): 2 of 2 workers", " /pid.php "],
    );
    let json = site.php(&["status", "www", "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(value["www"]["max children"], 2);
    let unknown = site.php(&["reload", "other"]);
    brisk_testkit::server::check(&unknown, 1, &["there is no php_pool \"other\"; there is www"]);
}
