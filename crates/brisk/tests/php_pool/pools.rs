//! Settings of pools: numbers of workers, logs, the status page, FPM's files.

use crate::site::{Site, builder, conf};
use brisk_testkit::{process, wait};
use rustix::process::Signal;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn fpms_own_pool_file_is_read_as_it_is() {
    let file = "[global]\nerror_log = /x\n[www]\nuser = nobody\ngroup = nogroup\nlisten = /run/php/php8.2-fpm.sock\n\
                listen.owner = www-data\npm = dynamic\npm.max_children = 5\npm.start_servers = 2\npm.min_spare_servers = 1\n\
                pm.max_spare_servers = 3\nenv[A] = \"from file\"\nphp_admin_value[memory_limit] = 64M\n";
    let site_conf =
        conf("", "").replace("php_pool www {  }", "php_pool www from={{DIR}}/www.conf { env[B] block; }");
    let site = Site::of(builder().file("www.conf", file).http(&site_conf));
    site.script("a.php", "<?php echo getenv('A'), ' ', getenv('B'), ' ', ini_get('memory_limit'), ' ', fpm_get_status()['process-manager'];");
    assert_eq!(site.get("/a.php").text(), "from file block 64M dynamic");
    // Debian's is taken, too; what has no effect is told by name.
    let test = site.server.run(&["-t"]);
    let text = String::from_utf8_lossy(&test.stderr).into_owned();
    assert!(text.contains("\"listen.owner\" of pool \"www\" has no effect"), "{text}");
}

#[test]
fn a_status_page_and_logs_as_fpm_has_them() {
    let pool = "pm static; max_children 1; status_path /fpm-status; ping.path /fpm-ping; access.log {{DIR}}/php-access.log;
        access.format '%m %r%Q%q %s %{milliseconds}d'; access.suppress_path[] /fpm-ping; slowlog {{DIR}}/slow.log; request_slowlog_timeout 1s;";
    let mut text = conf(pool, "");
    text = text.replace("location / ", "location ~ ^/fpm- { php_pass www; } location / ");
    let site = Site::of(builder().http(&text));
    site.script("slow.php", "<?php function waits() { while (!file_exists('NOTES/go')) { usleep(1000); clearstatcache(); } echo 'x'; } waits();"
        .replace("NOTES", &site.notes().display().to_string()).as_str());
    let ping = site.get("/fpm-ping");
    assert_eq!((ping.status, ping.text().as_str()), (200, "pong"));
    let page = site.get("/fpm-status?full");
    assert!(
        page.text().starts_with("pool:                 www\nprocess manager:      static\n"),
        "{}",
        page.text()
    );
    assert!(page.text().contains("max children reached: 0\n"), "{}", page.text());
    let json: serde_json::Value = serde_json::from_str(&site.get("/fpm-status?json&full").text()).unwrap();
    assert_eq!(
        (json["total processes"].as_u64(), json["processes"][0]["state"].as_str()),
        (Some(1), Some("Running"))
    );
    for (query, kind) in
        [("html", "text/html"), ("xml", "text/xml"), ("openmetrics", "application/openmetrics-text")]
    {
        let page = site.get(&format!("/fpm-status?{query}"));
        assert!(page.header("Content-Type").is_some_and(|have| have.starts_with(kind)), "{query}");
    }
    let mut client = site.server.client();
    client.send("GET /slow.php HTTP/1.1\r\nHost: a\r\n\r\n");
    wait::holds("the slow log", || {
        let log = std::fs::read_to_string(site.server.dir().join("slow.log")).unwrap_or_default();
        log.contains("waits() ") && log.contains("slow.php:1")
    });
    std::fs::write(site.notes().join("go"), "").unwrap();
    assert_eq!(client.response().text(), "x");
    // A worker writes its line when the answer has left.
    site.server.wait_for_line("php-access.log", "^GET /slow.php 200 ");
    let log = site.server.read("php-access.log");
    assert!(log.starts_with("GET /fpm-status?full 200 ") && !log.contains("ping"), "{log}");
}

/// A request's URI may have any byte, and is cut where it is long.
#[test]
fn bytes_that_are_no_text_do_not_hide_how_a_pool_stands() {
    let site = Site::new("pm static; max_children 1;", "");
    site.script("a.php", "<?php echo 'ok';");
    let long = format!("/a.php?x{}", "\u{e4}".repeat(200));
    for (uri, want) in [
        (&b"/a.php?\xff\xc3\xa4\xed\xa0\x80\xe2\x82"[..], "/a.php??\u{e4}?????".to_string()),
        (long.as_bytes(), format!("/a.php?x{}?", "\u{e4}".repeat(123))),
    ] {
        let request = [b"GET ", uri, b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
        assert_eq!(site.server.request(request).text(), "ok");
        let status = site.php(&["status", "www", "--json"]);
        let status: serde_json::Value = serde_json::from_slice(&status.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&status.stderr)));
        assert_eq!(status["www"]["processes"][0]["request uri"], want.as_str());
    }
}

#[test]
fn an_environment_variable_may_be_taken_from_the_servers() {
    let pool = "pm static; max_children 1; env[A] $FROM_SERVER; env[B] $NOT_THERE; env[C] a$b;";
    let site = Site::of(builder().env("FROM_SERVER", "kept").http(&conf(pool, "")));
    site.script("env.php", "<?php echo json_encode(array_map('getenv', ['A', 'B', 'C', 'FROM_SERVER']));");
    assert_eq!(site.get("/env.php").text(), r#"["kept","","a$b",false]"#);
}

#[test]
fn users_and_groups_that_are_unknown_are_told_by_a_test_of_the_configuration() {
    let prepared = builder().http(&conf("user nobody_here; group no_such_group;", "")).prepare();
    let told = [
        "there is no user \"nobody_here\", whom PHP pool \"www\" names",
        "there is no group \"no_such_group\", which PHP pool \"www\" names",
    ];
    brisk_testkit::server::check(&prepared.run(&["-t"]), 1, &told);
    brisk_testkit::server::check(&prepared.run(&[]), 1, &told[..1]);
}

/// Each worker's lines are its own, and are ended by its request at the latest.
#[test]
fn what_workers_print_is_logged_line_by_line() {
    let site = Site::new("pm static; max_children 3; catch_workers_output yes;", "");
    site.script(
        "print.php",
        "<?php $to = fopen($_GET['to'], 'w'); foreach (['be', 'fo', 're ', $_GET['n']] as $part) { fwrite($to, $part); usleep(2000); }
         if (isset($_GET['more'])) fwrite($to, \"\\nlong \" . str_repeat('x', 9000)); echo getmypid();",
    );
    let pids: Vec<String> = std::thread::scope(|scope| {
        let one = |n| format!("/print.php?to=php://stderr&n={n}");
        let all: Vec<_> = (0..3)
            .map(|n| {
                scope.spawn({
                    let site = &site;
                    move || site.get(&one(n)).text()
                })
            })
            .collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for (n, pid) in pids.iter().enumerate() {
        site.server.wait_for_log(&format!(
            "worker process {pid} of pool www wrote to its standard error: before {n}"
        ));
    }
    let pid = site.get("/print.php?to=php://stdout&n=9&more").text();
    site.server
        .wait_for_log(&format!("worker process {pid} of pool www wrote to its standard output: before 9"));
    // A long line comes in pieces.
    site.server.wait_for_log("wrote to its standard output: long x{7995}$");
    site.server.wait_for_log("wrote to its standard output: x{1005}$");
    let plain =
        Site::new("pm static; max_children 1; catch_workers_output yes; decorate_workers_output no;", "");
    plain.script("a.php", "<?php file_put_contents('php://stderr', \"[warn] the master 1\\n\");");
    assert_eq!(plain.get("/a.php").status, 200);
    plain.server.wait_for_log("\\[error\\] .*PHP: \\[warn\\] the master 1");
}

#[test]
fn names_of_errors_are_numbers_and_relative_logs_are_below_the_prefix() {
    let pool = "pm static; max_children 1; php_admin_value[error_reporting] E_ALL & ~E_DEPRECATED; access.log php-access.log;
        access.suppress_path /quiet.php; access.format '%m %r %s';";
    let site = Site::new(pool, "");
    site.script("a.php", "<?php echo ini_get('error_reporting');");
    site.script("quiet.php", "<?php if (isset($_GET['bad'])) http_response_code(500);");
    assert_eq!(site.get("/a.php").text(), "24575");
    // Only what is plain and goes well is left out.
    assert_eq!(site.get("/quiet.php").status, 200);
    assert_eq!(site.get("/quiet.php?bad").status, 500);
    assert_eq!(site.post("/quiet.php", b"a=b").status, 200);
    let want = "GET /a.php 200\nGET /quiet.php 500\nPOST /quiet.php 200\n";
    wait::holds("the log", || site.server.read("php-access.log") == want);
}

/// Of the request itself, not of the one before it.
#[test]
fn the_access_log_has_a_requests_cpu_time() {
    let site = Site::new("pm static; max_children 1; access.log {{DIR}}/cpu.log; access.format '%r %C';", "");
    site.script("runs.php", "<?php $until = hrtime(true) + 100000000; while (hrtime(true) < $until);");
    site.script("waits.php", "<?php usleep(300000);");
    for script in ["/runs.php", "/waits.php"] {
        assert_eq!(site.get(script).status, 200);
    }
    let line = |pattern: &str| site.server.wait_for_line("cpu.log", pattern);
    line("^/runs.php [1-9]");
    line("^/waits.php \\d\\.");
}

#[test]
fn workers_come_on_demand_and_go_when_idle() {
    let site = Site::new("pm ondemand; max_children 3; process_idle_timeout 1s;", "");
    let notes = site.notes().display().to_string();
    site.script(
        "gate.php",
        &format!(
            "<?php while (!file_exists('{notes}/go')) {{ usleep(1000); clearstatcache(); }} echo 'done';"
        ),
    );
    site.wait_for_workers(0);
    let mut clients: Vec<_> = (0..3).map(|_| site.server.client()).collect();
    clients.iter_mut().for_each(|client| client.send("GET /gate.php HTTP/1.1\r\nHost: a\r\n\r\n"));
    site.wait_for_workers(3);
    std::fs::write(site.notes().join("go"), "").unwrap();
    clients.iter_mut().for_each(|client| assert_eq!(client.response().text(), "done"));
    site.wait_for_workers(0);
    assert_eq!(site.get("/gate.php").text(), "done");
}

#[test]
fn pm_auto_forks_while_connections_wait() {
    let site = Site::new("max_children 6;", "");
    let notes = site.notes().display().to_string();
    site.script(
        "gate.php",
        &format!(
            "<?php while (!file_exists('{notes}/go')) {{ usleep(1000); clearstatcache(); }} echo 'done';"
        ),
    );
    let mut clients: Vec<_> = (0..6).map(|_| site.server.client()).collect();
    clients.iter_mut().for_each(|client| client.send("GET /gate.php HTTP/1.1\r\nHost: a\r\n\r\n"));
    site.wait_for_workers(6);
    std::fs::write(site.notes().join("go"), "").unwrap();
    clients.iter_mut().for_each(|client| assert_eq!(client.response().text(), "done"));
}

#[test]
fn a_server_without_the_program_says_what_to_do() {
    let prepared = builder().http(&conf("php 7.0;", "")).prepare();
    let output = prepared.run(&[]);
    brisk_testkit::server::check(
        &output,
        1,
        &[
            "php_pool \"www\" needs the program brisk-php7.0, php-fpm or php-cgi, and none is installed",
            "make php",
        ],
    );
}

/// What stands in for the program takes no orders: those who ask are told so at once, and its logs are opened again its own way.
#[test]
fn php_fpm_stands_in_for_a_pool_master() {
    let pool = "pm static; max_children 2; access.log {{DIR}}/access-php.log; access.format '%m %r';";
    let site = Site::of(builder().env("BRISK_PHP", "php-fpm").http(&conf(pool, "")));
    site.script("a.php", "<?php echo PHP_SAPI;");
    assert_eq!(site.get("/a.php").text(), "fpm-fcgi");
    let began = std::time::Instant::now();
    let output = site.command(&["status"]).env("BRISK_PHP", "php-fpm").output().unwrap();
    brisk_testkit::server::check(&output, 1, &["is run by .*php-fpm", "pm.status_path"]);
    assert!(began.elapsed() < std::time::Duration::from_secs(4), "it waited for an answer");
    let log = site.server.dir().join("access-php.log");
    wait::holds("a line", || log.metadata().is_ok_and(|file| file.len() > 0));
    std::fs::rename(&log, log.with_extension("old")).unwrap();
    process::signal(site.server.child_pid(), Signal::USR1);
    // PHP-FPM's old children write to the old file until they have ended.
    wait::holds("a line in the new file", || {
        assert_eq!(site.get("/a.php").text(), "fpm-fcgi");
        std::fs::read_to_string(&log).is_ok_and(|text| text.contains("GET /a.php"))
    });
}

#[test]
fn logs_are_opened_again_where_the_pools_user_may_not() {
    let pool =
        "pm static; max_children 2; user nobody; access.log {{DIR}}/closed/access.log; access.format '%m %r';
        slowlog {{DIR}}/closed/slow.log; request_slowlog_timeout 1s;";
    let builder = builder();
    let folder = builder.dir().join("closed");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
    let site = Site::of(builder.http(&conf(pool, "")));
    site.script("a.php", "<?php echo 'a';");
    site.script("b.php", "<?php echo 'b';");
    assert_eq!(site.get("/a.php").text(), "a");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    assert_eq!(read("access.log"), "GET /a.php\n");
    let before = site.wait_for_workers(2);
    for name in ["access.log", "slow.log"] {
        std::fs::rename(folder.join(name), folder.join(format!("{name}.1"))).unwrap();
    }
    process::signal(site.server.child_pid(), Signal::USR1);
    before.into_iter().for_each(process::wait_gone);
    assert_eq!(site.get("/b.php").text(), "b");
    assert_eq!(
        (read("access.log").as_str(), read("access.log.1").as_str()),
        ("GET /b.php\n", "GET /a.php\n")
    );
    assert!(folder.join("slow.log").exists());
}

#[test]
fn caches_are_checked_and_filled_beforehand() {
    let site = Site::new(
        "pm static; max_children 1; php_admin_flag[display_errors] on; php_admin_value[opcache.file_update_protection] 0;",
        "",
    );
    site.script("lib/one.php", "<?php function one() { return 1; }");
    site.script("lib/.hidden/no.php", "<?php syntax error");
    site.script(
        "scripts.php",
        "<?php echo json_encode(array_map('basename', array_keys(opcache_get_status()['scripts'])));",
    );
    let folder = site.server.dir().join("html/lib").display().to_string();
    let good = site.php(&["precompile", &folder]);
    brisk_testkit::server::check(&good, 0, &["pool www: 1 of 1 scripts are compiled"]);
    assert!(site.get("/scripts.php").text().contains("one.php"));
    site.script("lib/two.php", "<?php this is no PHP");
    let bad = site.php(&["precompile", &folder, "--pool", "www"]);
    brisk_testkit::server::check(
        &bad,
        1,
        &["lib/two.php: .*syntax error", "pool www: 1 of 2 scripts are compiled"],
    );
    let check = site.php(&["check"]);
    brisk_testkit::server::check(
        &check,
        0,
        &["OPcache +[\\d.]+ MB of 128.0 MB", "paths +", "nothing is too small"],
    );
    let other = site.php(&["check", "other"]);
    brisk_testkit::server::check(&other, 1, &["declares no php_pool \"other\""]);
    // No client can ask: its fields have other names.
    let answer = site
        .server
        .request("GET /scripts.php HTTP/1.1\r\nHost: a\r\nBRISK_ASKS: state\r\nBRISK-ASKS: state\r\n\r\n");
    assert!(!answer.text().contains("realpath_used"), "{}", answer.text());
}

#[test]
fn a_cache_that_is_too_small_is_told() {
    let site = Site::new("pm static; max_children 1; php_admin_value[open_basedir] /;", "");
    let check = site.php(&["check", "www"]);
    brisk_testkit::server::check(&check, 1, &["open_basedir is set"]);
}
