//! Faults while a pool is at work: each costs the request that it hits, and nothing else. `BRISK_FAULTS` says how often each is
//! planted (20 times if it does not).

use crate::life::{Ends, under_load};
use crate::site::{Site, builder, conf};
use brisk_testkit::{process, wait};
use rustix::process::Signal;
use std::io::Write as _;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How often each fault is planted.
fn times() -> usize {
    std::env::var("BRISK_FAULTS").ok().and_then(|text| text.parse().ok()).unwrap_or(20)
}

fn faulty(pool: &str) -> Site {
    let site = Site::of(
        builder()
            .http(&conf(&format!("pm static; max_children 6; queue 200 timeout=60s; {pool}"), ""))
            .allow_alerts("PHP pool \"www\" exited on signal 9"),
    );
    site.script("pid.php", "<?php usleep(1000); echo getmypid();");
    site.script("segfault.php", "<?php posix_kill(getmypid(), 11); sleep(5);");
    site.script(
        "destructor.php",
        "<?php class D { function __destruct() { posix_kill(getmypid(), 11); } } $d = new D; echo 'x';",
    );
    site.script(
        "memory.php",
        "<?php ini_set('memory_limit', '8M'); echo 'x'; $a = str_repeat('x', 50 << 20);",
    );
    site.script("loop.php", "<?php set_time_limit(0); for (;;) {}");
    site.script("wait.php", "<?php sleep(100);");
    // The loop is in C: PHP does not come to look at its own time limit.
    site.script(
        "native.php",
        "<?php set_time_limit(1); iterator_count(new InfiniteIterator(new ArrayIterator([1])));",
    );
    site
}

/// All workers can be busy at once: no place was lost, and none is given out twice.
fn has_all_places(site: &Site, count: usize) {
    let notes = site.notes();
    let text = format!(
        "<?php $f = '{}/at-once'; file_put_contents($f, 'x', FILE_APPEND | LOCK_EX); $until = microtime(true) + 30;
         while (strlen(file_get_contents($f)) < {count} && microtime(true) < $until) usleep(1000);
         echo strlen(file_get_contents($f)) >= {count} ? 'all' : 'some';",
        notes.display()
    );
    site.script("at-once.php", &text);
    thread::scope(|scope| {
        let all: Vec<_> = (0..count).map(|_| scope.spawn(|| site.get("/at-once.php").text())).collect();
        for one in all {
            assert_eq!(one.join().unwrap(), "all", "{}", site.server.error_log());
        }
    });
    std::fs::remove_file(notes.join("at-once")).unwrap();
}

#[test]
fn crashes_of_scripts() {
    let site = faulty("");
    let count = under_load(&site, || {
        for at in 0..times() {
            let script = if at % 2 == 0 { "/segfault.php" } else { "/destructor.php" };
            assert_eq!(site.post(script, b"a=1").status, 502, "{script}");
        }
    });
    assert!(count > times(), "{count}");
    has_all_places(&site, 6);
}

#[test]
fn scripts_without_memory() {
    let site = faulty("php_admin_flag[display_errors] off;");
    under_load(&site, || {
        for _ in 0..times() {
            assert!(matches!(site.get("/memory.php").status, 200 | 500));
        }
    });
    has_all_places(&site, 6);
}

/// Whether they run, in PHP or in C, or wait: the pool master looks once per second.
#[test]
fn scripts_without_end() {
    let site = faulty("request_terminate_timeout 1s;");
    under_load(&site, || {
        for at in 0..times().div_ceil(4) {
            let script = ["/loop.php", "/wait.php", "/native.php"][at % 3];
            thread::scope(|scope| {
                let all: Vec<_> = (0..4).map(|_| scope.spawn(|| site.get(script).status)).collect();
                assert!(all.into_iter().all(|one| one.join().unwrap() == 502), "{script}");
            });
        }
    });
    has_all_places(&site, 6);
}

#[test]
fn pool_masters_that_are_killed() {
    // A death in the first second makes the server wait longer and longer before the next start: few by default, and many in several servers at once.
    let times = if times() > 20 { times() } else { 5 };
    let servers = times.div_ceil(125);
    thread::scope(|scope| {
        for _ in 0..servers {
            scope.spawn(|| {
                let site = faulty("");
                site.get("/pid.php");
                under_load(&site, || {
                    for _ in 0..times.div_ceil(servers) {
                        let master = site.master();
                        site.wait_for_workers(6);
                        process::signal(master, Signal::KILL);
                        wait::holds("another pool master", || site.master() != master);
                    }
                });
                has_all_places(&site, 6);
            });
        }
    });
}

/// The one that is started for the one that was killed is what the reload replaces, and it may serve already.
#[test]
fn pool_masters_that_are_killed_before_a_reload() {
    let site = faulty("");
    site.get("/pid.php");
    under_load(&site, || {
        for _ in 0..times().div_ceil(5) {
            let master = site.master();
            site.wait_for_workers(6);
            process::signal(master, Signal::KILL);
            let reload = site.php(&["reload", "www"]);
            brisk_testkit::server::check(&reload, 0, &["pool www: process \\d+ serves"]);
        }
    });
    has_all_places(&site, 6);
}

/// A database that takes connections and says nothing while it is silent.
struct Database {
    port: u16,
    state: Arc<(Mutex<bool>, Condvar)>,
}

impl Database {
    fn start() -> Database {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new((Mutex::new(false), Condvar::new()));
        let shared = state.clone();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let state = shared.clone();
                thread::spawn(move || {
                    let (is_silent, changed) = &*state;
                    drop(changed.wait_while(is_silent.lock().unwrap(), |is_silent| *is_silent).unwrap());
                    let _ = stream.write_all(b"row\n");
                });
            }
        });
        Database { port, state }
    }

    fn be_silent(&self, is_silent: bool) {
        *self.state.0.lock().unwrap() = is_silent;
        self.state.1.notify_all();
    }
}

/// Requests that it keeps waiting are refused in time, what needs no database is answered meanwhile, and afterwards all is as before.
#[test]
fn a_database_that_is_gone_for_five_seconds() {
    let database = Database::start();
    let text = conf("pm static; max_children 4; queue 8 timeout=1s;", "")
        .replace("php_pool www", "php_pool other { pm static; max_children 1; } php_pool www")
        .replace("location / ", "location = /other.php { php_pass other; } location / ");
    let site = Site::of(builder().http(&text));
    site.script("row.php", &format!("<?php $d = fsockopen('127.0.0.1', {}); echo fgets($d);", database.port));
    site.script("other.php", "<?php echo 'other';");
    assert_eq!(
        (site.get("/row.php").text(), site.get("/other.php").text()),
        ("row\n".into(), "other".into())
    );
    let (is_over, refused) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let ends = Ends(&is_over);
        for _ in 0..24 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    match site.get("/row.php").status {
                        200 => {}
                        // At once, or after the queue's time, and not when the database is back.
                        503 if began.elapsed() < Duration::from_secs(4) => {
                            refused.fetch_add(1, Ordering::Relaxed);
                            thread::sleep(Duration::from_millis(20));
                        }
                        status => panic!("{status} after {:?}\n{}", began.elapsed(), site.server.error_log()),
                    }
                }
            });
        }
        // As often as it takes for so many requests to have met it.
        while refused.load(Ordering::Relaxed) < times() {
            database.be_silent(true);
            let until = Instant::now() + Duration::from_secs(5);
            while Instant::now() < until {
                let began = Instant::now();
                assert_eq!(site.get("/other.php").text(), "other");
                assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
            }
            database.be_silent(false);
        }
        drop(ends);
    });
    for _ in 0..20 {
        assert_eq!(site.get("/row.php").text(), "row\n");
    }
    has_all_places(&site, 4);
}

/// Three of ten clients give up while their request waits or runs.
#[test]
fn clients_that_give_up() {
    let site = faulty("");
    site.script("slow.php", "<?php usleep(20000); echo str_repeat('x', 50000);");
    let next = AtomicUsize::new(0);
    let all = times() * 20;
    under_load(&site, || {
        thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= all {
                            break;
                        }
                        if number % 10 >= 3 {
                            let answer = site.get("/slow.php");
                            assert_eq!(
                                (answer.status, answer.text().len()),
                                (200, 50000),
                                "{}",
                                site.server.error_log()
                            );
                            continue;
                        }
                        let mut client = site.server.client();
                        client.send("GET /slow.php HTTP/1.1\r\nHost: a\r\n\r\n");
                        thread::sleep(Duration::from_millis(number as u64 % 40));
                    }
                });
            }
        });
    });
    has_all_places(&site, 6);
}
