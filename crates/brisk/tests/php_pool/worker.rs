//! Worker mode: a script stays in memory, and nothing of a request reaches the next one.

use crate::site::{Site, builder, conf};
use brisk_testkit::wait;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

/// A pool of one process with this script.
fn of_script(script: &str, pool: &str) -> Site {
    let pool = format!("pm static; max_children 1; worker {{{{DIR}}}}/html/worker.php; {pool}");
    let builder = builder().file("html/worker.php", script);
    let open = Permissions::from_mode(0o755);
    for name in ["html", "html/worker.php"] {
        std::fs::set_permissions(builder.dir().join(name), open.clone()).unwrap();
    }
    let text = conf(&pool, "")
        .replace("location / { try_files $uri $uri/ =404; }", "early_hints 1; location / { php_pass www; }");
    Site::of(builder.http(&text))
}

/// A pool of one process whose script calls `handle` for each request; `before` stands before the loop.
fn site(before: &str, handle: &str, pool: &str) -> Site {
    let script = format!(
        "<?php $n = 0; {before} $handle = function () use (&$n) {{ $n++; {handle} }}; while (frankenphp_handle_request($handle)); echo 'over';"
    );
    of_script(&script, pool)
}

#[test]
fn a_script_stays_in_memory() {
    let site = site(
        "$big = range(1, 1000);",
        "echo $n, ' ', count($GLOBALS['big']), ' ', $_GET['a'] ?? '-', ' ', $_POST['b'] ?? '-', ' ', $_SERVER['REQUEST_URI'], ' ',
         strlen(file_get_contents('php://input'));",
        "",
    );
    assert_eq!(site.get("/x?a=1").text(), "1 1000 1 - /x?a=1 0");
    assert_eq!(site.post("/y", b"b=2").text(), "2 1000 - 2 /y 3");
    assert_eq!(site.get("/z").text(), "3 1000 - - /z 0");
}

/// The script is the pool's: a location that names its own parameters need not name one.
#[test]
fn a_request_without_a_script_of_its_own_has_all_else() {
    let params = "fastcgi_param REQUEST_METHOD $request_method; fastcgi_param QUERY_STRING $query_string; fastcgi_param CONTENT_TYPE $content_type;
        fastcgi_param CONTENT_LENGTH $content_length; fastcgi_param SCRIPT_NAME $uri;";
    let builder = builder().file(
        "html/worker.php",
        "<?php while (frankenphp_handle_request(function () { echo json_encode([$_GET, $_POST, $_SERVER['PHP_AUTH_USER'] ?? '', $_SERVER['PHP_SELF'],
            file_get_contents('php://input')]); }));",
    );
    let pool = "pm static; max_children 1; worker {{DIR}}/html/worker.php; status_path /fpm-status;";
    let text = conf(pool, "").replace(
        "location / { try_files $uri $uri/ =404; }",
        &format!("location / {{ {params} php_pass www; }}"),
    );
    let site = Site::of(builder.http(&text));
    let answer = site.server.request(
        "POST /x?a=1 HTTP/1.1\r\nHost: a\r\nAuthorization: Basic dTpw\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n\r\nb=2",
    );
    assert_eq!(answer.text(), r#"[{"a":"1"},{"b":"2"},"u","\/x","b=2"]"#);
    assert_eq!(site.get("/y").text(), r#"[[],[],"","\/y",""]"#);
    let status = site.get("/fpm-status?json&full").text();
    assert!(status.contains("\"processes\":["), "{status}");
}

/// By these applications load themselves, and know that they stay in memory. They are the script's, not its requests'.
#[test]
fn the_script_is_told_where_it_lies() {
    let site = site(
        "$was = $_SERVER;",
        "global $was; echo $was['FRANKENPHP_WORKER'], ' ', $was['SCRIPT_FILENAME'] === __FILE__ ? 'here' : 'elsewhere', ' ',
         isset($_SERVER['FRANKENPHP_WORKER']) ? 'left' : 'gone', ' ', isset($was['REQUEST_URI']) ? 'early' : 'none';",
        "",
    );
    assert_eq!(
        (site.get("/a").text(), site.get("/b").text()),
        ("1 here gone none".into(), "1 here gone none".into())
    );
}

/// What the script has set before its first request counts for all of them, and one may change it only for itself.
#[test]
fn what_the_script_has_set_stays() {
    let site = site(
        "class Handler implements SessionHandlerInterface {
             public static $kept = [];
             function open($p, $n): bool { return true; } function close(): bool { return true; }
             function read($id): string { return self::$kept[$id] ?? ''; } function write($id, $d): bool { self::$kept[$id] = $d; return true; }
             function destroy($id): bool { unset(self::$kept[$id]); return true; } function gc($t): int { return 0; } }
         class Other extends Handler { function read($id): string { return 'n|s:5:\"other\";'; } }
         session_set_save_handler(new Handler, true); ini_set('session.gc_maxlifetime', '77'); $_ENV['FROM_FILE'] = 'file';
         $input = fopen('php://input', 'r');",
        "if (isset($_GET['change'])) {
             session_set_save_handler(new Other, true); ini_set('session.gc_maxlifetime', '88'); $_ENV['FROM_FILE'] = 'request';
             session_id('changed'); session_start(); $_SESSION['m'] = 1; session_write_close(); echo $_SESSION['n'];
             flush(); return;
         }
         session_id('kept'); session_start(); $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; session_write_close();
         global $input;
         echo $_SESSION['n'], ' ', ini_get('session.save_handler'), ' ', ini_get('session.gc_maxlifetime'), ' ', $_ENV['FROM_FILE'], ' ',
             strlen(fread($input, 10)), ' ', count(Handler::$kept);",
        "php_admin_value[variables_order] EGPCS;",
    );
    assert_eq!(site.get("/").text(), "1 user 77 file 0 1");
    assert_eq!(site.post("/", b"a=1").text(), "2 user 77 file 0 1");
    for times in 3..6 {
        assert_eq!(site.get("/?change=1").text(), "other");
        assert_eq!(site.get("/").text(), format!("{times} user 77 file 0 2"), "{}", site.server.error_log());
    }
}

/// The work after an answer may look at the request that it was for.
#[test]
fn the_script_sees_its_request_until_the_next_one_comes() {
    let site = of_script(
        "<?php $seen = '-'; while (frankenphp_handle_request(function () use (&$seen) { echo $seen; }))
             $seen = $_SERVER['REQUEST_URI'] . ' ' . $_GET['a'] . ' ' . $_COOKIE['c'];",
        "",
    );
    let ask = |target: &str| {
        site.server.request(format!("GET {target} HTTP/1.1\r\nHost: a\r\nCookie: c=d\r\n\r\n")).text()
    };
    assert_eq!(
        (ask("/x?a=1"), ask("/y?a=2"), ask("/z")),
        ("-".into(), "/x?a=1 1 d".into(), "/y?a=2 2 d".into())
    );
}

#[test]
fn functions_of_frankenphp_that_scripts_call() {
    let site = of_script(
        "<?php while (frankenphp_handle_request(function () {
            switch ($_GET['do']) {
                case 'hints':
                    header('Link: </a.css>; rel=preload'); $sent = headers_send(103);
                    header_remove('Link'); header('X-Final: 1'); http_response_code(201); echo $sent === 1 ? 'sent ' : 'failed ';
                    break;
                case 'head':
                    header('X-A:b'); echo headers_send(202), headers_send(103), headers_sent() ? 'yes' : 'no', frankenphp_response_headers()['X-A'];
                    break;
                case 'finish':
                    echo 'early'; frankenphp_finish_request(); echo 'late'; flush(); error_log('after the end');
                    return;
                case 'log':
                    frankenphp_log('plain'); frankenphp_log('loud', FRANKENPHP_LOG_LEVEL_WARN, ['key' => ['a', 1]]);
            }
            echo frankenphp_request_headers()['X-Name'] ?? '-';
        }));",
        "php_admin_value[output_buffering] 0;",
    );
    let hints = site.get("/?do=hints");
    assert_eq!((hints.status, hints.interim.as_slice(), hints.header("Link")), (201, &[103][..], None));
    assert!(hints.interim_heads[0].contains("Link: </a.css>; rel=preload"), "{hints:?}");
    assert_eq!((hints.text().as_str(), hints.header("X-Final")), ("sent -", Some("1")));
    let head = site.get("/?do=head");
    // The first number is SAPI_HEADER_SENT_SUCCESSFULLY or what PHP says of it; after the head nothing goes before it any more.
    assert_eq!((head.status, head.text().ends_with("yesb-")), (202, true), "{}", head.text());
    assert_eq!(site.get("/?do=finish").text(), "early");
    site.server.wait_for_log("after the end");
    let named = site.server.request("GET /?do=log HTTP/1.1\r\nHost: a\r\nX-Name: n\r\n\r\n");
    assert_eq!(named.text(), "n");
    site.server.wait_for_log("PHP message: info: plain; PHP message: warn: loud ");
    assert!(site.server.error_log().contains(r#"["a",1]"#), "{}", site.server.error_log());
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

/// What a request's parameters lock, or a request takes back, is the script's again for the next one.
#[test]
fn settings_of_the_script_outlive_locks_and_restores() {
    let params = "fastcgi_param SCRIPT_FILENAME $document_root$uri; fastcgi_param REQUEST_METHOD $request_method; fastcgi_param QUERY_STRING $args;";
    let builder = builder().file(
        "html/worker.php",
        "<?php ini_set('precision', '5'); while (frankenphp_handle_request(function () {
             if (isset($_GET['restore'])) ini_restore('precision');
             echo ini_get('precision'), ' ', json_encode(ini_set('precision', '7')), ' ', ini_get('precision');
         }));",
    );
    let pool = "pm static; max_children 1; worker {{DIR}}/html/worker.php;";
    let text = conf(pool, "").replace(
        "location / { try_files $uri $uri/ =404; }",
        &format!("location / {{ php_pass www; }} location /locked {{ {params} fastcgi_param PHP_ADMIN_VALUE precision=3; php_pass www; }}"),
    );
    let site = Site::of(builder.http(&text));
    for _ in 0..2 {
        assert_eq!(site.get("/").text(), "5 \"5\" 7");
        assert_eq!(site.get("/locked").text(), "3 false 3");
        assert_eq!(site.get("/").text(), "5 \"5\" 7", "it is no more locked");
        assert_eq!(site.get("/?restore=1").text(), "14 \"14\" 7");
    }
}

/// A body that the memory does not suffice for spoils its own request only.
#[test]
fn a_body_that_does_not_fit_is_answered() {
    let site = site(
        "$big = str_repeat('x', 20 << 20);",
        "echo strlen($_POST['a'] ?? ''), ' ', $n;",
        "php_admin_value[memory_limit] 32M; php_admin_value[post_max_size] 64M; php_admin_flag[display_errors] off;",
    );
    assert_eq!(site.get("/").text(), "0 1");
    let body = [b"a=".as_slice(), &vec![b'x'; 12 << 20]].concat();
    for _ in 0..2 {
        assert_eq!(site.post("/", &body).status, 500);
        // The script was begun anew.
        assert_eq!((site.get("/").text(), site.get("/").text()), ("0 1".into(), "0 2".into()));
    }
}

#[test]
fn scripts_beside_the_workers_are_compiled_beforehand() {
    let site = site(
        "",
        "echo 'ok';",
        "php_admin_value[opcache.file_update_protection] 0; php_admin_flag[display_errors] on;",
    );
    site.script("lib/one.php", "<?php function one() { return 1; }");
    site.script("lib/two.php", "<?php this is no PHP");
    let folder = site.server.dir().join("html/lib").display().to_string();
    let compiled = site.php(&["precompile", &folder]);
    let want = ["lib/two.php: .*syntax error", "pool www: 1 of 2 scripts are compiled"];
    brisk_testkit::server::check(&compiled, 1, &want);
    assert_eq!(site.get("/").text(), "ok");
}
