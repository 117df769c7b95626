//! Requests that wait for a worker.

use crate::site::Site;
use brisk_testkit::wait;
use serde_json::Value;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A script that waits until it is told to go on, and notes that it was run.
fn gated(pool: &str) -> Site {
    let text = "log_format tried \"$uri $status $upstream_status\"; access_log {{DIR}}/tried.log tried; "
        .to_string()
        + &crate::site::conf(pool, "directory_overrides on;")
            .replace("location / ", "location = /metrics { metrics; } location / ");
    let site = Site::of(crate::site::builder().http(&text));
    let notes = site.notes().display().to_string();
    site.script(
        "gate.php",
        &format!("<?php touch('{notes}/ran-' . $_GET['n']); while (!file_exists('{notes}/go')) {{ usleep(1000); clearstatcache(); }} echo 'done';"),
    );
    site
}

fn ran(site: &Site, name: &str) -> bool {
    site.notes().join(format!("ran-{name}")).exists()
}

#[test]
fn who_finds_no_place_in_the_line_is_refused_at_once() {
    let site = gated("pm static; max_children 1; queue 1 timeout=30s;");
    site.server.write("html/page/.htaccess", "ErrorDocument 503 /none.html\n");
    site.script("page/gate.php", "<?php echo 'not this one';");
    let mut first = site.server.client();
    first.send("GET /gate.php?n=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    wait::holds("the first request in PHP", || ran(&site, "1"));
    let mut second = site.server.client();
    second.send("GET /gate.php?n=2 HTTP/1.1\r\nHost: a\r\n\r\n");
    wait::holds("the second one in the line", || {
        site.get("/metrics").text().contains("\nbrisk_php_queue{pool=\"www\"} 1\n")
    });
    let began = Instant::now();
    let refused = site.get("/gate.php?n=3");
    assert_eq!(refused.status, 503);
    assert!(refused.header("Retry-After").is_some());
    // A folder's page of errors that is not there takes nothing from the error.
    let refused = site.get("/page/gate.php");
    assert_eq!((refused.status, refused.header("Retry-After").is_some()), (503, true));
    site.server.wait_for_line("tried.log", "^/gate.php 503 503$");
    assert!(began.elapsed() < Duration::from_secs(10));
    site.server.wait_for_log("PHP pool \"www\" is overloaded");
    std::fs::write(site.notes().join("go"), "").unwrap();
    assert_eq!(first.response().text(), "done");
    assert_eq!(second.response().text(), "done");
}

#[test]
fn who_waits_too_long_is_refused() {
    let site = gated("pm static; max_children 1; queue 5 timeout=300ms;");
    let mut first = site.server.client();
    first.send("GET /gate.php?n=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    wait::holds("the first request in PHP", || ran(&site, "1"));
    let refused = site.get("/gate.php?n=2");
    assert_eq!(refused.status, 503);
    assert!(!ran(&site, "2"));
    std::fs::write(site.notes().join("go"), "").unwrap();
    assert_eq!(first.response().text(), "done");
}

/// As many as PHP-FPM's sockets hold may wait where nobody has said otherwise: a crowd on a page of a few milliseconds is no overload.
#[test]
fn a_crowd_that_comes_at_once_waits() {
    let site = gated("pm static; max_children 2;");
    let mut clients: Vec<_> = (0..64).map(|_| site.server.client()).collect();
    for (at, client) in (0..).zip(&mut clients) {
        client.send(format!("GET /gate.php?n={at} HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
    wait::holds("all but two in the line", || {
        site.get("/metrics").text().contains("\nbrisk_php_queue{pool=\"www\"} 62\n")
    });
    std::fs::write(site.notes().join("go"), "").unwrap();
    for client in &mut clients {
        let answer = client.response();
        assert_eq!((answer.status, answer.text()), (200, "done".to_string()), "{}", site.server.error_log());
    }
}

#[test]
fn in_an_overload_who_is_refused_is_refused_at_once_and_who_is_not_is_served_soon() {
    let site = Site::new("pm static; max_children 2; queue 8 timeout=6s;", "");
    site.script("work.php", "<?php usleep(30000); echo 'ok';");
    let (served, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..24 {
            scope.spawn(|| {
                while refused.load(Ordering::Relaxed) < 600 || served.load(Ordering::Relaxed) < 300 {
                    let began = Instant::now();
                    let status = site.get("/work.php").status;
                    // Half of its time in the line.
                    assert!(began.elapsed() < Duration::from_secs(3), "{status} after {:?}", began.elapsed());
                    match status {
                        200 => served.fetch_add(1, Ordering::Relaxed),
                        503 => {
                            thread::sleep(Duration::from_millis(10));
                            refused.fetch_add(1, Ordering::Relaxed)
                        }
                        status => panic!("{status}\n{}", site.server.error_log()),
                    };
                }
            });
        }
    });
    // It is over: nobody is refused any more.
    wait::holds("an end of the overload", || (0..20).all(|_| site.get("/work.php").status == 200));
}

#[test]
fn a_client_that_has_gone_never_reaches_php() {
    let site = gated("pm static; max_children 1; queue 5 timeout=30s;");
    let mut first = site.server.client();
    first.send("GET /gate.php?n=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    wait::holds("the first request in PHP", || ran(&site, "1"));
    let mut second = site.server.client();
    second.send("GET /gate.php?n=2 HTTP/1.1\r\nHost: a\r\n\r\n");
    drop(second);
    // Its line is written when it was given up.
    wait::holds("the end of the second request", || site.server.access_log().contains("n=2"));
    std::fs::write(site.notes().join("go"), "").unwrap();
    assert_eq!(first.response().text(), "done");
    assert_eq!(site.get("/gate.php?n=3").text(), "done");
    assert!(ran(&site, "3") && !ran(&site, "2"));
}

/// A pool of one worker with a queue of length 0: a request that finds no free worker is refused.
fn busy(rest: &str) -> Site {
    let site = Site::new("pm static; max_children 1; queue 0;", rest);
    site.script("ok.php", "<?php echo 'ok';");
    site
}

fn gate(site: &Site) -> String {
    let notes = site.notes().display().to_string();
    format!(
        "touch('{notes}/ran'); while (!file_exists('{notes}/go')) {{ usleep(1000); clearstatcache(); }} touch('{notes}/done');"
    )
}

/// Nothing more reaches the worker until it is free, and then something does.
fn keeps_its_place(site: &Site) {
    for _ in 0..3 {
        assert_eq!(site.get("/ok.php").status, 503, "{}", site.server.error_log());
    }
    assert!(!site.notes().join("done").exists());
    std::fs::write(site.notes().join("go"), "").unwrap();
    wait::holds("the worker's next answer", || site.get("/ok.php").status == 200);
    assert!(site.notes().join("done").exists());
}

#[test]
fn a_worker_that_goes_on_after_its_answer_keeps_its_place() {
    let site = busy("");
    site.script("finish.php", &format!("<?php echo 'early'; fastcgi_finish_request(); {}", gate(&site)));
    assert_eq!(site.get("/finish.php").text(), "early");
    wait::holds("the rest of the script", || site.notes().join("ran").exists());
    keeps_its_place(&site);
}

#[test]
fn a_worker_whose_client_has_gone_keeps_its_place() {
    let site = busy("");
    site.script("slow.php", &format!("<?php {} echo 'late';", gate(&site)));
    let mut client = site.server.client();
    client.send("GET /slow.php HTTP/1.1\r\nHost: a\r\n\r\n");
    wait::holds("the request in PHP", || site.notes().join("ran").exists());
    drop(client);
    wait::holds("the end of the request", || site.server.access_log().contains("GET /slow.php"));
    keeps_its_place(&site);
}

#[test]
fn a_worker_whose_answer_took_too_long_keeps_its_place() {
    let site = busy("fastcgi_read_timeout 200ms;");
    site.script("slow.php", &format!("<?php {} echo 'late';", gate(&site)));
    let answer = site.post("/slow.php", b"a=1");
    assert_eq!(answer.status, 504);
    keeps_its_place(&site);
}

/// The connection stays open until the worker closes it, and yet the script hears that its client has gone.
#[test]
fn a_script_hears_that_its_client_has_gone() {
    let site = busy("fastcgi_buffering off;");
    let notes = site.notes().display().to_string();
    site.script(
        "stream.php",
        &format!("<?php ignore_user_abort(true); while (!connection_aborted()) {{ echo 'x'; ob_get_level() && ob_flush(); flush(); usleep(1000); }} touch('{notes}/heard');"),
    );
    site.script("endless.php", &format!("<?php register_shutdown_function(function () {{ touch('{notes}/ended'); }}); for (;;) {{ echo str_repeat('x', 10000); usleep(1000); }}"));
    for (script, sign) in [("stream", "heard"), ("endless", "ended")] {
        let mut client = site.server.client();
        client.send(format!("GET /{script}.php HTTP/1.1\r\nHost: a\r\n\r\n"));
        client.wait_for("xxx");
        drop(client);
        wait::holds("the script's end", || site.notes().join(sign).exists());
        wait::holds("the worker's next answer", || site.get("/ok.php").status == 200);
    }
}

/// One host's rush does not take the line from another host of the same pool.
#[test]
fn hosts_of_one_pool_take_turns() {
    let one = |name: &str| {
        format!(
            "server {{ listen 127.0.0.1:{{{{PORT}}}}; server_name {name}; root {{{{DIR}}}}/html; location = /metrics {{ metrics; }} location ~ \\.php$ {{ php_pass www; }} }} "
        )
    };
    let pool = "php_pool www { pm static; max_children 1; queue 2 timeout=30s; } ";
    let site = Site::of(crate::site::builder().http(&[pool, &one("a"), &one("b")].concat()));
    let notes = site.notes().display().to_string();
    site.script(
        "gate.php",
        &format!("<?php file_put_contents('{notes}/order', $_GET['n'], FILE_APPEND); while (!file_exists('{notes}/go')) {{ usleep(1000); clearstatcache(); }} echo 'done';"),
    );
    let order = || std::fs::read_to_string(site.notes().join("order")).unwrap_or_default();
    let ask = |host: &str, n: u32| {
        let mut client = site.server.client();
        client.send(format!("GET /gate.php?n={n} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        client
    };
    let waits = |count: usize| {
        wait::holds("requests in the line", || {
            site.get("/metrics").text().contains(&format!("\nbrisk_php_queue{{pool=\"www\"}} {count}\n"))
        });
    };
    let mut first = ask("a", 1);
    wait::holds("the first request in PHP", || order() == "1");
    let mut second = ask("a", 2);
    waits(1);
    let mut third = ask("a", 3);
    waits(2);
    // The line is full: one of the same host is refused, and one of another host takes the newest's place.
    assert_eq!(ask("a", 9).response().status, 503);
    let mut other = ask("b", 4);
    assert_eq!(third.response().status, 503);
    std::fs::write(site.notes().join("go"), "").unwrap();
    assert_eq!(first.response().text(), "done");
    assert_eq!(other.response().text(), "done");
    assert_eq!(second.response().text(), "done");
    assert_eq!(order().len(), 3, "{}", order());
}

/// The pool has no process before its first request, which is the scenario's: the doctor looks at processes that are there by then, whatever program
/// they are of.
#[test]
fn the_line_is_what_the_doctor_names_where_a_scenario_starts_the_pool() {
    for program in ["", "libphp", "php-fpm", "php-cgi"] {
        let builder = crate::site::builder().env("BRISK_PHP", program).allow_alerts("PHP pool \"www\"");
        let site = Site::of(builder.http(&crate::site::conf("php_cgi on; pm static; max_children 2;", "")));
        site.script("wait.php", "<?php usleep(20000); echo 'ok';");
        let scenario = format!(
            "target = \"http://127.0.0.1:{}\"\nusers = 12\nduration = \"2s\"\n[[user]]\nname = \"a\"\n[[user.step]]\nrequest = \"GET /wait.php\"\n",
            site.server.port()
        );
        let scenario = site.server.write("wait.toml", &scenario);
        let mut doctor = Command::new(env!("CARGO_BIN_EXE_brisk"));
        let out = doctor.arg("doctor").arg(&scenario).args(["--duration", "2s", "--json"]).output().unwrap();
        assert!(out.status.success(), "{program}: {}", String::from_utf8_lossy(&out.stderr));
        let found: Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(found["limit"]["cause"], "pool-too-small", "{program}: {found:#}");
    }
}
