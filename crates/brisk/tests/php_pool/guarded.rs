//! What a site's own files and a client's path may not do, and what may not last for ever.

use crate::site::{Site, builder, conf};
use brisk_testkit::wait;

/// `php_value` of a `.htaccess` counts as in a folder's file: PHP asks open_basedir about paths, and the configuration's settings stay.
#[test]
fn a_sites_settings_stay_within_open_basedir() {
    let base = builder();
    let root = base.dir().display().to_string();
    let http = conf(
        "pm static; max_children 1; php_value[session.save_path] none;",
        "fastcgi_param PHP_VALUE \"open_basedir=__/html:/var/tmp\nuser_agent=configured\";",
    )
    .replace("__", &root)
    .replacen("root ", "directory_overrides on; root ", 1);
    // One `fastcgi_param` replaces what a pool is sent by itself.
    let params = "fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_param REQUEST_METHOD $request_method;
        fastcgi_param DOCUMENT_ROOT $document_root; fastcgi_param PHP_VALUE";
    let site = Site::of(base.http(&http.replace("fastcgi_param PHP_VALUE", params)));
    let notes = site.notes().display().to_string();
    let names = "'error_log', 'session.save_path', 'user_agent', 'memory_limit', 'mail.force_extra_parameters', 'open_basedir'";
    site.script(
        "look.php",
        &format!("<?php echo json_encode(array_map('ini_get', [{names}]), JSON_UNESCAPED_SLASHES);"),
    );
    let basedir = format!("{root}/html:/var/tmp");
    let look = |lines: &str, want: [&str; 5]| {
        site.script(".htaccess", lines);
        let [log, sessions, agent, memory, mail] = want;
        let want = format!("[\"{log}\",\"{sessions}\",\"{agent}\",\"{memory}\",\"{mail}\",\"{basedir}\"]");
        let mut got = String::new();
        let is_told = wait::within(std::time::Duration::from_secs(10), || {
            got = site.get("/look.php").text();
            (got == want).then_some(())
        });
        assert!(is_told.is_some(), "{lines}{got}\n{want}");
    };
    let usual = site.get("/look.php").text();
    let outside = format!(
        "php_value error_log {notes}/x.php\nphp_value session.save_path {notes}\nphp_value memory_limit 99M\n"
    );
    assert!(usual.contains("configured"), "{usual}");
    look(&outside, ["", "none", "configured", "99M", ""]);
    site.server.wait_for_log("\"error_log\" cannot be set");
    look(
        "php_value error_log /var/tmp/site.log\nphp_value session.save_path /var/tmp\nphp_value user_agent site\nphp_value mail.force_extra_parameters -X/tmp/x\n",
        ["/var/tmp/site.log", "/var/tmp", "configured", "128M", ""],
    );
    // Operators of php.ini's grammar.
    for value in ["a(b", "a)b", "!", "a&b|c", "^~"] {
        look(
            &format!("php_value error_log {value}\nphp_value memory_limit 98M\n"),
            ["", "none", "configured", "98M", ""],
        );
    }
}

/// The time limit holds until the answer is complete.
#[test]
fn what_runs_behind_a_script_has_its_time_limit() {
    let site = Site::new("pm static; max_children 1; request_terminate_timeout 1s;", "");
    site.script("late.php", "<?php register_shutdown_function(function () { sleep(600); }); echo 'x';");
    site.script("ok.php", "<?php echo 'ok';");
    assert!(matches!(site.get("/late.php").status, 502 | 504));
    site.server.wait_for_log("request_terminate_timeout");
    wait::holds("the place is free", || site.get("/ok.php").text() == "ok");
}

/// A script of worker mode that never comes to its first request.
#[test]
fn a_worker_that_never_begins_is_ended() {
    let base = builder().file("html/worker.php", "<?php sleep(600);");
    let script = base.dir().join("html/worker.php").display().to_string();
    let pool = format!("pm static; max_children 1; request_terminate_timeout 1s; worker {script};");
    let site = Site::of(base.http(&conf(&pool, "")).allow_alerts("exited on signal"));
    site.server.wait_for_log("has not come to its first request");
}

/// PATH_INFO is the client's: a name that PHP makes of it opens no page that the server's rules protect by its name.
#[test]
fn the_status_page_has_one_name() {
    let base = builder();
    let http = "php_pool www { pm static; max_children 1; pm.status_path /fpm-status; ping.path /fpm-ping; }
        server { listen 127.0.0.1:{{PORT}}; root {{DIR}}/html;
          location = /fpm-status { php_pass www; }
          location ~ \\.php(/|$) { fastcgi_split_path_info ^(.+\\.php)(/.*)$; php_pass www;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param SCRIPT_NAME $fastcgi_script_name; fastcgi_param PATH_INFO $fastcgi_path_info; fastcgi_param QUERY_STRING $args; } }";
    let site = Site::of(base.http(http));
    site.script("index.php", "<?php echo 'script';");
    for target in ["/index.php/a.php/fpm-status/bcdef?full", "/index.php/a.php/fpm-ping/bcdef"] {
        assert_eq!(site.get(target).text(), "script", "{target}");
    }
    assert!(site.get("/fpm-status").text().contains("pool:"));
}

/// PHP throws PATH_INFO away where it finds REDIRECT_URL, which tells of a rewritten request.
#[test]
fn a_rule_may_lead_to_a_path_behind_a_script() {
    let params = "fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_param REQUEST_METHOD $request_method;
        fastcgi_param SCRIPT_NAME $fastcgi_script_name; fastcgi_param PATH_INFO $fastcgi_path_info;
        fastcgi_param DOCUMENT_ROOT $document_root;";
    let http =
        conf("pm static; max_children 1;", params).replacen("root ", "directory_overrides on; root ", 1);
    let site = Site::of(builder().http(&http));
    site.script(
        "index.php",
        "<?php echo ($_SERVER['PATH_INFO'] ?? '') ?: '-', ' ', $_SERVER['SCRIPT_NAME'];",
    );
    site.script(".htaccess", "RewriteEngine on\nRewriteRule ^app/(.*)$ index.php/$1 [L]\n");
    for _ in 0..2 {
        assert_eq!(site.get("/app/a/b").text(), "/a/b /index.php");
        assert_eq!(site.get("/index.php/c").text(), "/c /index.php");
        assert_eq!(site.get("/index.php").text(), "- /index.php");
    }
}
