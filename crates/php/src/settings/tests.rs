//! Tests of settings, one by one and together.

use super::*;

fn pool(list: &[(&str, &str)]) -> Result<Settings, Problem> {
    let mut settings = Settings::new("www");
    list.iter().try_for_each(|(name, value)| settings.set(name, value))?;
    settings.finish("/base/").map(|()| settings)
}

#[track_caller]
fn refused(list: &[(&str, &str)], want: &str) {
    match pool(list) {
        Err(Problem::Error { message, help }) => {
            assert!(message.contains(want), "{message}");
            assert!(!help.is_empty());
        }
        other => panic!("{list:?}: {other:?}"),
    }
}

#[test]
fn what_the_pool_master_is_told() {
    let settings = pool(&[
        ("pm", "static"),
        ("max_children", "3"),
        ("pm.max_requests", "500"),
        ("request_terminate_timeout", "2m"),
        ("access.log", "/log/$pool.access"),
        ("php_admin_flag[log_errors]", "on"),
        ("php_value[memory_limit]", "32M"),
        ("php_value[memory_limit]", "64M"),
        ("env[A]", "b c"),
        ("clear_env", "no"),
    ]);
    let text = settings.unwrap().encode(Some("nobody"), (Some("/php.ini"), None), 2);
    let want = "pool\twww\npm\tstatic\nuser\tnobody\naccess.log\t/log/www.access\nclear_env\tno\npm.max_children\t3\n\
                pm.max_requests\t500\nrequest_terminate_timeout\t120000\nphp_ini\t/php.ini\n\
                security.limit_extensions\t.php\nsecurity.limit_extensions\t.phar\nenv[A]\tb c\n\
                php_value[memory_limit]\t64M\nphp_admin_value[log_errors]\t1\n";
    assert_eq!(text, want);
}

/// What is disabled adds up: with each line, and for php-cgi with php.ini's list.
#[test]
fn lists_of_what_is_disabled_add_up() {
    let settings = pool(&[
        ("php_admin_value[disable_functions]", "exec"),
        ("php_admin_value[disable_functions]", "system,$x"),
        ("php_value[zend_extension]", "a"),
        ("php_value[zend_extension]", "b"),
    ])
    .unwrap();
    let told = settings.encode(None, (None, None), 1);
    assert!(told.ends_with("php_value[zend_extension]\ta\nphp_value[zend_extension]\tb\nphp_admin_value[disable_functions]\texec\nphp_admin_value[disable_functions]\tsystem,$x\n"), "{told}");
    let told = settings.fpm_file(None, "/s.sock");
    assert!(
        told.contains("[disable_functions] = 'exec'\nphp_admin_value[disable_functions] = 'system,$x'\n"),
        "{told}"
    );
    let arguments = settings.php_arguments();
    for want in [
        "disable_functions=\"${disable_functions},exec\"",
        "disable_functions=\"${disable_functions},system,\\$x\"",
    ] {
        assert!(arguments.iter().any(|have| have == want), "{arguments:?}");
    }
}

#[test]
fn what_fpm_is_told() {
    let settings = pool(&[
        ("max_children", "3"),
        ("request_terminate_timeout", "1500ms"),
        ("env[A]", "b; $c"),
        ("php_value[memory_limit]", "it's \"64M\""),
    ]);
    let text = settings.unwrap().fpm_file(Some("nobody"), "/s.sock");
    let want = "[global]\nerror_log = /proc/self/fd/2\ndaemonize = no\n[www]\nlisten = /s.sock\npm = ondemand\nuser = nobody\n\
                pm.max_children = '3'\nrequest_terminate_timeout = 2\nenv[A] = 'b; $c'\nphp_value[memory_limit] = \"it's \\\"64M\\\"\"\n";
    assert_eq!(text, want);
}

#[test]
fn defaults() {
    let settings = pool(&[]).unwrap();
    assert_eq!((settings.manager(), settings.children_max()), (Manager::Auto, 32));
    assert_eq!(settings.queue(), Queue { max: None, timeout: Duration::from_secs(5) });
    assert_eq!(settings.terminate_timeout(), Duration::from_mins(5));
    let none = pool(&[("request_terminate_timeout", "0")]).unwrap();
    assert!(none.terminate_timeout().is_zero());
    let dynamic =
        [("pm", "dynamic"), ("max_children", "9"), ("min_spare_servers", "2"), ("max_spare_servers", "6")];
    assert!(pool(&dynamic).unwrap().encode(None, (None, None), 1).contains("pm.start_servers\t4\n"));
}

#[test]
fn relative_logs_begin_somewhere() {
    let logs = |list: &[(&str, &str)]| {
        let settings = pool(list).unwrap();
        settings.logs().map(|(name, path)| format!("{name} {path}")).collect::<Vec<_>>()
    };
    let relative = [("access.log", "a.log"), ("slowlog", "$prefix/$pool/s.log")];
    assert_eq!(logs(&relative), ["access /base/a.log", "slow /base/www/s.log"]);
    let with_prefix = [relative[0], relative[1], ("prefix", "/srv")];
    assert_eq!(logs(&with_prefix), ["access /srv/a.log", "slow /srv/www/s.log"]);
    assert_eq!(logs(&[("access.log", "/proc/self/fd/2"), ("slowlog", "/s")]), ["slow /s"]);
}

#[test]
fn queues() {
    let queue = |value| pool(&[("queue", value)]).unwrap().queue();
    assert_eq!(queue("200 timeout=500ms"), Queue { max: Some(200), timeout: Duration::from_millis(500) });
    assert_eq!(queue("0"), Queue { max: Some(0), timeout: QUEUE_TIMEOUT_DEFAULT });
    refused(&[("queue", "a")], "invalid value \"a\" of \"queue\"");
    refused(&[("queue", "1 time=2")], "invalid parameter \"time=2\"");
    refused(&[("queue", "1 timeout=2x")], "invalid value \"2x\"");
}

#[test]
fn what_is_wrong_is_refused() {
    refused(&[("pm", "many")], "invalid value \"many\" of \"pm\"");
    refused(&[("max_children", "0")], "invalid value \"0\" of \"pm.max_children\"");
    refused(&[("max_children", "4097")], "invalid value \"4097\"");
    refused(&[("no_such", "1")], "unknown setting \"no_such\"");
    refused(&[("env[]", "1")], "has no name in its brackets");
    refused(&[("env[a=b]", "1")], "has no name in its brackets");
    refused(&[("other[a]", "1")], "unknown setting \"other[a]\"");
    refused(&[("php_flag[x]", "maybe")], "invalid value \"maybe\"");
    refused(&[("php_value[x]", "a\nextension=evil")], "control character");
    refused(&[("env[x]", "a\0b")], "control character");
    refused(&[("php", "8")], "invalid value \"8\" of \"php\"");
    refused(&[("php", "../8.2")], "invalid value");
    refused(&[("status_path", "status")], "must begin with \"/\"");
    refused(&[("request_slowlog_timeout", "5")], "needs \"slowlog\"");
    refused(&[("request_terminate_timeout", "5y")], "invalid value \"5y\"");
    refused(&[("apparmor_hat", "x")], "is not supported");
    refused(&[("worker", "worker.php")], "is no full path");
    refused(&[("access.suppress_path[]", "ping")], "\"access.suppress_path\" must begin with \"/\"");
    refused(&[("access.suppress_path[ping]", "/ping")], "has a name in its brackets");
    refused(&[("php_value[error_reporting]", "E_ALL &")], "invalid value \"E_ALL &\"");
    refused(&[("watch", "/srv/a src")], "\"src\" of \"watch\" is no full path");
    refused(&[("pm", "dynamic")], "needs \"pm.min_spare_servers\"");
    let spare = |min, max, start| {
        [
            ("pm", "dynamic"),
            ("max_children", "5"),
            ("min_spare_servers", min),
            ("max_spare_servers", max),
            ("start_servers", start),
        ]
    };
    refused(&spare("3", "2", "2"), "do not fit");
    refused(&spare("1", "6", "2"), "do not fit");
    refused(&spare("1", "3", "4"), "is not between");
}

#[test]
fn what_has_no_effect_is_told() {
    let Err(Problem::Notice(text)) = Settings::new("www").set("listen", "/run/php/php8.2-fpm.sock") else {
        panic!()
    };
    assert!(text.starts_with("\"listen\" of pool \"www\" has no effect: "), "{text}");
}

/// FPM's own values on Debian 12.
#[test]
fn debians_pool_is_taken_as_it_is() {
    let file = "[www]\nuser = www-data\ngroup = www-data\nlisten = /run/php/php8.2-fpm.sock\nlisten.owner = www-data\n\
                listen.group = www-data\npm = dynamic\npm.max_children = 5\npm.start_servers = 2\n\
                pm.min_spare_servers = 1\npm.max_spare_servers = 3\n";
    let mut settings = Settings::new("www");
    let mut notices = 0;
    for entry in crate::section(file, "www").unwrap() {
        match settings.set(&entry.name, &entry.value) {
            Ok(()) => {}
            Err(Problem::Notice(_)) => notices += 1,
            Err(problem) => panic!("{problem:?}"),
        }
    }
    settings.finish("/").unwrap();
    assert_eq!((notices, settings.user(), settings.children_max()), (3, Some("www-data"), 5));
}
