//! What scripts may not call: `disable_functions` and `disable_classes` of php.ini, of the pool and of a request.

use crate::site::{Site, builder, conf};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn what_php_ini_disables_stays_disabled() {
    let names = "['passthru', 'exec', 'system', 'shell_exec', 'popen']";
    let look =
        format!("<?php echo json_encode(array_map('function_exists', {names})), ini_get('user_agent');");
    let pool =
        "php_admin_value[disable_functions] exec; php_admin_value[disable_functions] 'system, shell_exec';
        php_value[user_agent] '${sendmail_from}a$b';";
    let own = builder().file("php.ini", "disable_functions=passthru\nsendmail_from=other\n");
    let site = Site::of(
        own.http(&conf(&format!("pm static; max_children 1; php_ini {{{{DIR}}}}/php.ini; {pool}"), "")),
    );
    site.script("look.php", &look);
    // A value is what it is: no other setting's name in it.
    assert_eq!(site.get("/look.php").text(), "[false,false,false,false,true]${sendmail_from}a$b");
    // php-cgi stands in for it.
    let own = builder().env("BRISK_PHP", "php-cgi").file("php.ini", "disable_functions=passthru\n");
    let pool = format!("php_cgi on; max_children 1; php_ini {{{{DIR}}}}/php.ini; {pool}");
    let site = Site::of(own.http(&conf(&pool, "")));
    site.script("look.php", &look);
    assert_eq!(site.get("/look.php").text(), "[false,false,false,false,true]${sendmail_from}a$b");
}

/// A location for one script, with more parameters.
fn location(name: &str, script: &str, params: &str) -> String {
    format!(
        "location = /{name}.php {{ fastcgi_param SCRIPT_FILENAME $document_root/{script}; fastcgi_param REQUEST_METHOD GET; {params} php_pass www; }} "
    )
}

fn with_locations(pool: &str, locations: &[String]) -> String {
    conf(pool, "").replacen("location / ", &format!("{} location / ", locations.concat()), 1)
}

/// The script is compiled, and in OPcache, by requests that may call all of it.
#[test]
fn what_a_request_disables_is_disabled_for_it() {
    let locations = [
        location(
            "locked",
            "look.php",
            "fastcgi_param PHP_ADMIN_VALUE \"disable_functions=exec,system\nmemory_limit=55M\ndisable_functions=Passthru\";",
        ),
        location("value", "look.php", "fastcgi_param PHP_VALUE \"disable_functions=exec\";"),
        location(
            "classes",
            "look.php",
            "fastcgi_param PHP_ADMIN_VALUE \"disable_classes=SplObjectStorage\";",
        ),
    ];
    let pool = "pm static; max_children 1; php_admin_value[disable_functions] popen;";
    let site = Site::of(builder().http(&with_locations(pool, &locations)));
    site.script(
        "look.php",
        "<?php $run = function (callable $one) { try { return $one(); } catch (Error $e) { return $e->getMessage(); } };
         echo json_encode([$run(fn () => exec('echo run')), $run(fn () => call_user_func('passthru', 'true')), $run(fn () => popen('true', 'r')),
             method_exists('SplObjectStorage', 'attach'), trim(ini_get('disable_functions'), ','), ini_get('memory_limit')]), getmypid();",
    );
    let look = |name: &str| site.get(&format!("/{name}.php")).text();
    let plain = r#"["run",null,"Call to undefined function popen()",true,"popen","128M"]"#;
    let first = look("look");
    let pid = first.strip_prefix(plain).unwrap_or_else(|| panic!("{first}"));
    for _ in 0..2 {
        let locked = r#"["Call to undefined function exec()","Call to undefined function passthru()","Call to undefined function popen()",true,"popen,exec,system,Passthru","55M"]"#;
        assert_eq!(look("locked"), format!("{locked}{pid}"));
        let value = plain
            .replace("\"run\"", "\"Call to undefined function exec()\"")
            .replace("\"popen\"", "\"popen,exec\"");
        assert_eq!(look("value"), format!("{value}{pid}"));
        assert_eq!(look("look"), first, "it was one request's");
    }
    // A class does not come back: the worker ends after its answer.
    assert_eq!(look("classes"), format!("{}{pid}", plain.replace("true", "false")));
    let next = look("look");
    assert!(next.starts_with(plain) && next != first, "{next}");
}

/// Its code calls functions without looking whether they may be called.
#[test]
fn with_the_jit_a_request_that_disables_functions_is_refused() {
    let locked = "fastcgi_param PHP_ADMIN_VALUE \"disable_functions=exec\";";
    // What is compiled stays, whatever a request says of it.
    let off = format!("{locked} fastcgi_param PHP_VALUE \"opcache.jit=off\";");
    let locations = [location("locked", "look.php", locked), location("off", "look.php", &off)];
    let pool = "pm static; max_children 1; php_admin_value[opcache.jit_buffer_size] 8M; php_admin_value[opcache.jit] tracing;";
    let site = Site::of(builder().http(&with_locations(pool, &locations)));
    site.script("look.php", "<?php echo exec('echo run');");
    assert_eq!(site.get("/look.php").text(), "run");
    let refused = site.get("/locked.php");
    assert_eq!((refused.status, refused.text().as_str()), (500, "Internal Server Error\n"));
    assert_eq!(site.get("/off.php").status, 500);
    site.server.wait_for_log("\"disable_functions\" cannot hold for one request with opcache.jit");
    assert_eq!(site.get("/look.php").text(), "run");
}

#[test]
fn in_worker_mode_a_request_that_disables_something_is_refused() {
    let script = "<?php $calls = function () { try { return exec('echo run'); } catch (Error $e) { return 'none'; } };
        $between = '-'; while (frankenphp_handle_request(function () use ($calls, &$between) { echo $between, ' ', $calls(); })) $between = $calls();";
    let builder = builder().file("html/worker.php", script);
    for name in ["html", "html/worker.php"] {
        std::fs::set_permissions(builder.dir().join(name), Permissions::from_mode(0o755)).unwrap();
    }
    let locked =
        location("locked", "worker.php", "fastcgi_param PHP_ADMIN_VALUE \"disable_functions=exec\";");
    let classes =
        location("classes", "worker.php", "fastcgi_param PHP_ADMIN_VALUE \"disable_classes=ArrayObject\";");
    let pool = "pm static; max_children 1; worker {{DIR}}/html/worker.php;";
    let text = with_locations(pool, &[locked, classes]);
    let site = Site::of(builder.http(&text));
    assert_eq!(site.get("/worker.php").text(), "- run");
    for _ in 0..2 {
        // What the script has made before, closures and objects, would still call it.
        assert_eq!(site.get("/locked.php").status, 500);
        assert_eq!(site.get("/classes.php").status, 500);
        assert_eq!(site.get("/worker.php").text(), "run run");
    }
    site.server.wait_for_log("\"disable_functions\" cannot hold for one request in worker mode");
}
