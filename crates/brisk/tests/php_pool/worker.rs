//! Worker mode: a script stays in memory, and nothing of a request reaches the next one.

use crate::site::{Site, builder, conf};
use brisk_testkit::wait;

/// A pool of one process whose script calls `handle` for each request; `before` stands before the loop.
fn site(before: &str, handle: &str, pool: &str) -> Site {
    let script = format!(
        "<?php $n = 0; {before} $handle = function () use (&$n) {{ $n++; {handle} }}; while (frankenphp_handle_request($handle)); echo 'over';"
    );
    let pool = format!("pm static; max_children 1; worker {{{{DIR}}}}/html/worker.php; {pool}");
    let builder = builder().file("html/worker.php", &script);
    use std::os::unix::fs::PermissionsExt as _;
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(builder.dir().join("html"), open.clone()).unwrap();
    std::fs::set_permissions(builder.dir().join("html/worker.php"), open).unwrap();
    let text =
        conf(&pool, "").replace("location / { try_files $uri $uri/ =404; }", "location / { php_pass www; }");
    Site::of(builder.http(&text))
}

#[test]
fn a_script_stays_in_memory() {
    let site = site(
        "$big = range(1, 1000);",
        "echo $n, ' ', count($GLOBALS['big']), ' ', $_GET['a'] ?? '-', ' ', $_POST['b'] ?? '-', ' ', $_SERVER['REQUEST_URI'], ' ',
         $_SERVER['FRANKENPHP_WORKER'], ' ', strlen(file_get_contents('php://input'));",
        "",
    );
    assert_eq!(site.get("/x?a=1").text(), "1 1000 1 - /x?a=1 1 0");
    assert_eq!(site.post("/y", b"b=2").text(), "2 1000 - 2 /y 1 3");
    assert_eq!(site.get("/z").text(), "3 1000 - - /z 1 0");
}

#[test]
fn nothing_of_a_request_reaches_the_next_one() {
    let site = site(
        "ini_set('precision', '5'); ini_set('user_agent', 'script');",
        "if (isset($_GET['set'])) {
             session_id('of-the-first'); session_start(); $_SESSION['secret'] = 'mine';
             $_SERVER['LEFT'] = $_GET['LEFT'] = $_POST['LEFT'] = $_COOKIE['LEFT'] = $_REQUEST['LEFT'] = $_ENV['LEFT'] = 'left';
             ini_set('precision', '3'); ini_set('memory_limit', '99M'); ini_set('user_agent', 'request');
             header('X-Left: 1'); setcookie('left', '1'); http_response_code(418);
             header_register_callback(function () { header('X-Callback: 1'); });
             @trigger_error('left'); ob_start(); ob_start(); echo 'buffered ';
             set_time_limit(77);
             return;
         }
         echo json_encode([isset($_SESSION), session_status(), session_id(), isset($_SERVER['LEFT']), isset($_GET['LEFT']), isset($_POST['LEFT']),
             isset($_COOKIE['LEFT']), isset($_REQUEST['LEFT']), isset($_ENV['LEFT']), ini_get('precision'), ini_get('memory_limit'), ini_get('user_agent'),
             headers_list() === [] || !preg_grep('/left|callback/i', headers_list()), http_response_code(), error_get_last(), ob_get_level()]);",
        "php_value[session.save_path] {{DIR}}/notes; php_value[output_buffering] 0;",
    );
    site.notes();
    let want = r#"[false,1,"",false,false,false,false,false,false,"5","128M","script",true,200,null,0]"#;
    let before = site.get("/look");
    assert_eq!(before.text(), want);
    for _ in 0..3 {
        let set = site.get("/?set=1");
        assert_eq!(
            (set.status, set.text().as_str(), set.header("X-Left"), set.header("X-Callback")),
            (418, "buffered ", Some("1"), Some("1"))
        );
        let look = site.get("/look");
        assert_eq!((look.status, look.text().as_str()), (200, want));
        assert_eq!(
            (look.header("X-Left"), look.header("X-Callback"), look.all("Set-Cookie").count()),
            (None, None, 0)
        );
    }
}

#[test]
fn exit_exceptions_and_crashes_end_one_request() {
    let site = site(
        "",
        "if (isset($_GET['exit'])) { echo 'before '; exit('exit'); }
         if (isset($_GET['throw'])) throw new Exception('thrown');
         if (isset($_GET['fatal'])) nothing_like_this();
         if (isset($_GET['memory'])) { ini_set('memory_limit', '8M'); str_repeat('x', 50 << 20); }
         if (isset($_GET['crash'])) posix_kill(getmypid(), 11);
         if (isset($_GET['finish'])) { echo 'early'; fastcgi_finish_request(); usleep(1000); echo 'late'; return; }
         echo $n;",
        "php_admin_flag[display_errors] off; php_admin_flag[log_errors] on;",
    );
    assert_eq!((site.get("/").text(), site.get("/").text()), ("1".into(), "2".into()));
    assert_eq!(site.get("/?exit=1").text(), "before exit");
    // The script was begun anew.
    assert_eq!((site.get("/").text(), site.get("/").text()), ("1".into(), "2".into()));
    assert_eq!(site.get("/?throw=1").status, 500);
    assert_eq!(site.get("/").status, 200);
    site.server.wait_for_log("thrown");
    assert_eq!(site.get("/?fatal=1").status, 500);
    assert_eq!(site.get("/?memory=1").status, 500);
    assert_eq!(site.get("/").status, 200);
    assert_eq!(site.get("/?finish=1").text(), "early");
    assert_eq!(site.get("/").status, 200);
    assert_eq!(site.post("/?crash=1", b"").status, 502);
    wait::holds("another worker", || site.get("/").text() == "1");
}

#[test]
fn a_worker_ends_after_its_requests_and_a_reload_loses_none() {
    let site = site("", "echo getmypid(), ' ', $n;", "max_requests 3; queue 50 timeout=30s;");
    let first = site.get("/").text();
    let pid = first.split(' ').next().unwrap().to_string();
    assert_eq!((site.get("/").text(), site.get("/").text()), (format!("{pid} 2"), format!("{pid} 3")));
    let next = site.get("/").text();
    assert!(next.ends_with(" 1") && !next.starts_with(&pid), "{next}");
    let before = site.master();
    brisk_testkit::server::check(&site.php(&["reload", "www"]), 0, &["pool www: process \\d+ serves"]);
    assert_eq!(site.get("/").status, 200);
    brisk_testkit::process::wait_gone(before);
}

#[test]
fn outside_of_worker_mode_the_function_says_so() {
    let site = Site::new("pm static; max_children 1;", "");
    site.script("a.php", "<?php try { frankenphp_handle_request(function () {}); } catch (RuntimeException $e) { echo $e->getMessage(); }");
    assert_eq!(
        site.get("/a.php").text(),
        "frankenphp_handle_request() is for the script of a pool's worker setting"
    );
}

/// What is made for a request is freed with it, though PHP believes all requests to be one.
#[test]
fn memory_does_not_grow_with_requests() {
    let site = site(
        "",
        "session_start(); $_SESSION['n'] = $n; ini_set('precision', '7'); header('X-A: 1'); file_get_contents('php://input'); ob_start();
         $_SERVER['BIG'] = str_repeat('x', 10000); echo memory_get_usage();",
        "php_value[session.save_path] {{DIR}}/notes;",
    );
    site.notes();
    let mut client = site.server.client();
    let mut ask = || {
        client.send(
            "POST /?q=1 HTTP/1.1\r\nHost: a\r\nCookie: PHPSESSID=one\r\nContent-Length: 5\r\n\r\na=111",
        );
        client.response().text().parse::<u64>().unwrap()
    };
    for _ in 0..50 {
        ask();
    }
    let before = ask();
    for _ in 0..500 {
        ask();
    }
    let after = ask();
    assert!(after < before + 20_000, "{before} {after}");
}

/// What one request has narrowed is as wide again for the next one as the script has set it.
#[test]
fn a_narrowed_open_basedir_ends_with_its_request() {
    let site = site(
        "ini_set('open_basedir', '/');",
        "if (isset($_GET['set'])) ini_set('open_basedir', __DIR__); echo ini_get('open_basedir') === '/' ? 'wide' : 'narrow';",
        "",
    );
    for _ in 0..2 {
        assert_eq!(site.get("/").text(), "wide");
        assert_eq!(site.get("/?set=1").text(), "narrow");
    }
}

/// Every request is answered, by the old code or the new.
#[test]
fn a_change_of_watched_code_brings_new_processes() {
    let site = site(
        "$version = @include __DIR__ . '/code.php';",
        "echo (int) $GLOBALS['version'];",
        "watch {{DIR}}/html; queue 50 timeout=30s;",
    );
    assert_eq!(site.get("/").text(), "0");
    for number in 2..4 {
        let before = site.master();
        site.script("code.php", &format!("<?php return {number};"));
        wait::holds("the new code", || {
            let answer = site.get("/");
            assert_eq!(answer.status, 200, "{}", answer.text());
            answer.text() == number.to_string()
        });
        brisk_testkit::process::wait_gone(before);
    }
    site.server.wait_for_log("code of PHP pool \"www\" has changed");
}
