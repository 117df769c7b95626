//! The command line: nginx's options, exit codes and words; what `-t` says; `brisk directives`.

use brisk_testkit::server::{Prepared, check, text};
use brisk_testkit::{Builder, TempDir, process};
use regex::Regex;
use std::process::{Command, Output, Stdio};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

const SITE: &str = "server { listen 127.0.0.1:{{PORT}}; }";

fn brisk(args: &[&str]) -> Output {
    Command::new(BIN).args(args).stdin(Stdio::null()).output().unwrap()
}

fn site() -> Prepared {
    Builder::new(BIN).http(SITE).prepare()
}

/// `-t` on a whole configuration.
fn tested(conf: &str) -> (Prepared, Output) {
    let prepared = Builder::new(BIN).conf(conf).prepare();
    let output = prepared.run(&["-t"]);
    (prepared, output)
}

#[test]
fn options_are_refused_in_nginx_words() {
    check(&brisk(&["-x"]), 1, &["^brisk: invalid option: \"x\"$"]);
    check(&brisk(&["start"]), 1, &["^brisk: invalid option: \"start\"$"]);
    check(&brisk(&["-s"]), 1, &["^brisk: option \"-s\" requires parameter$"]);
    check(&brisk(&["-s", "start"]), 1, &["^brisk: invalid option: \"-s start\"$"]);
    // Letters are joined, values are glued, and what follows an option is its value.
    check(&brisk(&["-stop"]), 1, &["^brisk: invalid option: \"-s top\"$"]);
    check(&brisk(&["-t", "--"]), 1, &["^brisk: invalid option: \"-\"$"]);
    check(&brisk(&["-tq", "-c=/x"]), 1, &["open\\(\\) \"/etc/brisk/=/x\" failed"]);
    check(&brisk(&["-c", "-q", "-t"]), 1, &["open\\(\\) \"/etc/brisk/-q\" failed"]);
    check(&brisk(&["-c"]), 1, &["^brisk: option \"-c\" requires file name$"]);
    check(&brisk(&["-e"]), 1, &["^brisk: option \"-e\" requires file name$"]);
    check(&brisk(&["-p"]), 1, &["^brisk: option \"-p\" requires directory name$"]);
    check(&brisk(&["-g"]), 1, &["^brisk: option \"-g\" requires global directives$"]);
}

#[test]
fn help_and_versions() {
    for flag in ["-h", "--help", "help"] {
        let help = brisk(&[flag]);
        check(&help, 0, &["^Usage: brisk ", "-s <SIGNAL> +Send a signal", "^  serve ", "^  directives "]);
        assert!(help.stderr.is_empty(), "{flag}: {help:?}");
    }
    // As nginx: to the standard error.
    let usage = brisk(&["-?"]);
    check(&usage, 0, &["^nginx version: nginx/1\\.31", "^Usage: brisk "]);
    assert!(usage.stdout.is_empty(), "{usage:?}");
    check(
        &brisk(&["-v"]),
        0,
        &["^brisk version: brisk/\\d", "^nginx version: nginx/1\\.31\\.\\d", "!configure"],
    );
    let version = brisk(&["--version"]);
    assert_eq!((version.stderr.len(), version.stdout), (0, brisk(&["-v"]).stderr));
    // What nginx's own test suite looks for.
    check(
        &brisk(&["-V"]),
        0,
        &[
            "^nginx version: nginx/1\\.31\\.\\d",
            "^built with AWS-LC \\(rustls\\), settings and messages as with OpenSSL 3.0.0$",
            "^TLS SNI support enabled$",
            "^configure arguments: .*--with",
        ],
    );
}

#[test]
fn a_version_does_not_keep_a_test_from_running() {
    let site = site();
    check(&site.run(&["-vt"]), 0, &["^brisk version", "test is successful$"]);
    check(&site.run(&["-v"]), 0, &["^brisk version", "!successful"]);
}

#[test]
fn a_good_configuration() {
    let site = site();
    let file = site.dir().join("brisk.conf");
    let lines = [
        format!("^brisk: the configuration file {} syntax is ok$", file.display()),
        format!("^brisk: configuration file {} test is successful$", file.display()),
    ];
    check(&site.run(&["-t"]), 0, &[&lines[0], &lines[1], "!emerg"]);
    let quiet = site.run(&["-tq"]);
    check(&quiet, 0, &[]);
    assert!(quiet.stdout.is_empty() && quiet.stderr.is_empty(), "{quiet:?}");
}

#[test]
fn notices_are_kept_from_quiet_tests_and_errors_are_not() {
    let noisy = "daemon off; events { use epoll; } http { }";
    let (prepared, output) = tested(noisy);
    check(&output, 0, &["\\[notice\\].*\"use\" directive has no effect"]);
    check(&prepared.run(&["-tq"]), 0, &["!notice"]);
    let (prepared, _) = tested("events { } http { nonsense; }");
    check(&prepared.run(&["-tq"]), 1, &["unknown directive \"nonsense\"", "test failed$"]);
}

#[test]
fn a_dump_has_every_file_once() {
    let prepared = Builder::new(BIN)
        .conf("events { } http { include sites/*.conf; include sites/b.conf; }")
        .file("sites/a.conf", "# first\n")
        .file("sites/b.conf", "# second\n")
        .file("sites/.hidden.conf", "nonsense;\n")
        .prepare();
    let output = prepared.run(&["-T"]);
    check(&output, 0, &["test is successful$"]);
    let dump = text(&output.stdout);
    let dir = prepared.dir().display();
    for (file, content) in
        [("brisk.conf", "include sites"), ("sites/a.conf", "# first"), ("sites/b.conf", "# second")]
    {
        let head = format!("# configuration file {dir}/{file}:\n");
        assert_eq!(dump.matches(&head).count(), 1, "{dump}");
        let rest = dump.split(&head).nth(1).unwrap();
        assert!(rest.contains(content), "{rest}");
    }
    assert!(!dump.contains("hidden"), "{dump}");
}

/// Each error: nginx's first line, then place, line, caret and remedy; all of them in one run.
#[test]
fn every_error_is_reported_at_once_with_its_place() {
    let (prepared, output) = tested(
        "daemon off;\n\
         events { worker_connectionz 10; }\n\
         http {\n\
         \x20   server {\n\
         \x20       worker_processes 2;\n\
         \x20       root;\n\
         \x20       sendfile maybe;\n\
         \x20       listen 127.0.0.1:99999;\n\
         \x20       location ~ ^/(a { }\n\
         \x20       return 200 $nosuch;\n\
         \x20       index a; keepalive_timeout 1x;\n\
         \x20       root a; root b;\n\
         \x20   }\n\
         }\n",
    );
    let file = regex::escape(&prepared.dir().join("brisk.conf").display().to_string());
    let at = |line: u32, column: u32| format!("^ +--> {file}:{line}:{column}$");
    check(
        &output,
        1,
        &[
            &format!("^brisk: \\[emerg\\] unknown directive \"worker_connectionz\" in {file}:2$"),
            &at(2, 10),
            "^ 2 \\| events \\{ worker_connectionz 10; \\}$",
            "^   \\|          \\^{18}$",
            "did you mean \"worker_connections\"\\?",
            &format!("^brisk: \\[emerg\\] \"worker_processes\" directive is not allowed here in {file}:5$"),
            "belongs in main",
            &format!("^brisk: \\[emerg\\] invalid number of arguments in \"root\" directive in {file}:6$"),
            &format!(
                "^brisk: \\[emerg\\] invalid value \"maybe\" in \"sendfile\" directive, it must be \"on\" or \"off\" in {file}:7$"
            ),
            &at(7, 18),
            &format!(
                "^brisk: \\[emerg\\] invalid port in \"127.0.0.1:99999\" of the \"listen\" directive in {file}:8$"
            ),
            "^brisk: \\[emerg\\] pcre2_compile\\(\\) failed: .*brisk.conf:9$",
            "^brisk: \\[emerg\\] unknown \"nosuch\" variable",
            &format!("^brisk: \\[emerg\\] \"keepalive_timeout\" directive invalid value in {file}:11$"),
            &format!("^brisk: \\[emerg\\] \"root\" directive is duplicate in {file}:12$"),
            &format!("^brisk: configuration file {file} test failed$"),
        ],
    );
}

#[test]
fn an_error_in_an_included_file_names_that_file() {
    let prepared = Builder::new(BIN)
        .conf("events { }\nhttp { include inc.conf; }")
        .file("inc.conf", "\n\nserver { lisen 80; }\n")
        .prepare();
    check(
        &prepared.run(&["-t"]),
        1,
        &["unknown directive \"lisen\" in .*/inc.conf:3$", "did you mean \"listen\""],
    );
}

#[test]
fn broken_syntax() {
    let rows = [
        ("events { } http {", "unexpected end of file, expecting \"\\}\" in .*brisk.conf:1$"),
        ("events { } http { } }", "unexpected \"\\}\" in .*brisk.conf:1$"),
        ("events { } http { root html }", "unexpected \"\\}\" in .*brisk.conf:1$"),
        ("events { } http { root \"html; }", "unexpected end of file, expecting \";\" or \"\\}\" in"),
        ("events { } http { ; }", "unexpected \";\" in"),
        ("http { }", "no \"events\" section in configuration"),
        ("events { } events { } http { }", "\"events\" directive is duplicate in"),
        (
            "events { } http { include /nowhere/*.conf; include /nowhere/x.conf; }",
            "open\\(\\) \"/nowhere/x.conf\" failed \\(2: No such file or directory\\) in .*brisk.conf:1$",
        ),
    ];
    for (conf, pattern) in rows {
        check(&tested(conf).1, 1, &[pattern, "test failed$"]);
    }
}

#[test]
fn what_only_the_system_can_tell_fails_the_test_too() {
    check(
        &tested("error_log /nowhere/error.log; events { } http { }").1,
        1,
        &["\\[emerg\\] open\\(\\) \"/nowhere/error.log\" failed \\(2: No such file or directory\\)"],
    );
    check(
        &tested("events { } http { access_log off; server { listen 192.0.2.1:8080; } }").1,
        1,
        &["\\[emerg\\] bind\\(\\) to 192.0.2.1:8080 failed \\(99: Cannot assign requested address\\)"],
    );
    if process::is_root() {
        let nobody = "user no-such-user; events { } http { }";
        check(&tested(nobody).1, 1, &["\\[emerg\\] getpwnam\\(\"no-such-user\"\\) failed"]);
    }
}

/// What the system refuses is told with the place that asks for it and with what can be done, all of it at once.
#[test]
fn what_the_system_refuses_has_its_place_and_its_remedy() {
    let (prepared, output) = tested(
        "error_log /nowhere/error.log;\n\
         events { }\n\
         http {\n\
         \x20   access_log /nowhere/access.log;\n\
         \x20   server { listen 192.0.2.1:8080; }\n\
         }\n",
    );
    let file = regex::escape(&prepared.dir().join("brisk.conf").display().to_string());
    check(
        &output,
        1,
        &[
            "^brisk: \\[emerg\\] open\\(\\) \"/nowhere/error.log\" failed \\(2: No such file or directory\\)$",
            &format!("^ +--> {file}:1:1$"),
            "= help: the folder is not there: mkdir -p /nowhere$",
            "^brisk: \\[emerg\\] open\\(\\) \"/nowhere/access.log\" failed",
            &format!("^ +--> {file}:4:16$"),
            "^brisk: \\[emerg\\] bind\\(\\) to 192.0.2.1:8080 failed",
            &format!("^ +--> {file}:5:14$"),
            "= help: no interface of this machine has this address; it has .*127.0.0.1",
        ],
    );
    let default = Builder::new(BIN)
        .conf("daemon off;\nevents { }\nhttp { server { listen 127.0.0.1:{{PORT}}; } }")
        .prepare();
    std::fs::remove_dir_all(default.dir().join("logs")).ok();
    check(
        &default.run(&[]),
        1,
        &[
            "^brisk: \\[emerg\\] open\\(\\) \".*/logs/access.log\" failed",
            "= help: it is the default, as no directive names a log; the folder is not there: mkdir -p .*/logs$",
            "!-->",
        ],
    );
    if process::is_root() {
        let (_, output) = tested("# accounts\nuser no-such-user; events { } http { access_log off; }");
        check(
            &output,
            1,
            &[
                "^brisk: \\[emerg\\] getpwnam\\(\"no-such-user\"\\) failed$",
                "^ +--> .*brisk.conf:2:1$",
                "= help: this machine has no user \"no-such-user\": write \"user [a-z-]+;\", or make it",
            ],
        );
        let (_, output) = tested("user nobody no-such-group; events { } http { access_log off; }");
        check(&output, 1, &["getgrnam\\(\"no-such-group\"\\) failed$", "no group \"no-such-group\""]);
    }
}

#[test]
fn a_pid_file_that_cannot_be_written_says_so() {
    let prepared = Builder::new(BIN)
        .conf("daemon off; pid /nowhere/brisk.pid; events { } http { access_log off; server { listen 127.0.0.1:{{PORT}}; } }")
        .prepare();
    check(
        &prepared.run(&[]),
        1,
        &["open\\(\\) \"/nowhere/brisk.pid\" failed", "\"pid\" names the file.*mkdir -p /nowhere$"],
    );
}

/// A configuration from somebody else does nothing to the terminal, whichever way its text gets there.
#[test]
fn a_terminal_obeys_no_configuration() {
    let conf = "events { } http { ro\x1b[2Jot /x; include /no\x07where; server { ssl_certificate \"/x\x1b[31m\"; } }";
    for args in [&["-t"][..], &[]] {
        let output = Builder::new(BIN).conf(conf).prepare().run(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(!said.chars().any(|c| c.is_control() && c != '\n'), "{said:?}");
        assert!(said.contains("ro\\x1b[2Jot") && said.contains("/no\\x07where"), "{said}");
    }
}

#[test]
fn a_missing_file_says_where_it_was_looked_for() {
    let dir = TempDir::new();
    let prefix = dir.path().display().to_string();
    let output = brisk(&["-p", &prefix, "-t"]);
    check(
        &output,
        1,
        &[&format!("open\\(\\) \"{prefix}/nginx.conf\" failed \\(2: No such file or directory\\)")],
    );
    check(
        &brisk(&["-p", &prefix, "-c", "sub/x.conf", "-t"]),
        1,
        &[&format!("open\\(\\) \"{prefix}/sub/x.conf\" failed")],
    );
}

/// Relative paths: of the configuration from the prefix, of `include` from the configuration's folder, of all else
/// from the prefix (nginx's rules).
#[test]
fn relative_paths() {
    let dir = TempDir::new();
    dir.write(
        "conf/x.conf",
        "error_log logs/e.log; pid run/p; events { } http { include more.conf; access_log logs/a.log; }",
    );
    dir.write("conf/more.conf", "# found\n");
    dir.write("logs/.keep", "");
    let prefix = dir.path().display().to_string();
    check(&brisk(&["-p", &prefix, "-c", "conf/x.conf", "-T"]), 0, &["# found", "test is successful"]);
    assert!(dir.path().join("logs/e.log").exists() && dir.path().join("logs/a.log").exists());
    // With or without its slash.
    check(
        &brisk(&["-p", &format!("{prefix}/"), "-c", "conf/x.conf", "-t"]),
        0,
        &[&format!("file {prefix}/conf/x.conf syntax")],
    );
}

#[test]
fn own_name_comes_before_the_compatible_one() {
    let dir = TempDir::new();
    dir.write("nginx.conf", "events { } http { }");
    let prefix = dir.path().display().to_string();
    check(&brisk(&["-p", &prefix, "-t"]), 0, &["nginx.conf test is successful"]);
    dir.write("brisk.conf", "events { } http { }");
    check(&brisk(&["-p", &prefix, "-t"]), 0, &["brisk.conf test is successful"]);
}

#[test]
fn global_directives() {
    let site = site();
    check(&site.run(&["-t", "-g", "worker_priority 1;"]), 0, &["successful"]);
    check(&site.run(&["-t", "-g", "worker_priority 1"]), 0, &["successful"]);
    check(
        &site.run(&["-t", "-g", "daemon on;"]),
        1,
        &["\"daemon\" directive is duplicate in .*brisk.conf:1$"],
    );
    check(&site.run(&["-t", "-g", "bogus 1;"]), 1, &["unknown directive \"bogus\" in command line:1$"]);
}

#[test]
fn signals_without_a_server() {
    let site = site();
    let pid = site.dir().join("brisk.pid");
    for signal in ["stop", "quit", "reload", "reopen"] {
        let missing =
            format!("\\[error\\] open\\(\\) \"{}\" failed \\(2: No such file or directory\\)", pid.display());
        check(&site.run(&["-s", signal]), 1, &[&missing]);
    }
    site.write("brisk.pid", "nonsense\n");
    check(&site.run(&["-s", "stop"]), 1, &["\\[error\\] invalid PID number \"nonsense\" in"]);
    // Greater than any process's number can be: that of one that has ended may be somebody else's already.
    site.write("brisk.pid", "4194305\n");
    check(&site.run(&["-s", "stop"]), 1, &["\\[alert\\] kill\\(\\d+, 15\\) failed \\(3: No such process\\)"]);
}

#[test]
fn errors_at_start_go_to_the_error_log_too() {
    let prepared = Builder::new(BIN).conf("daemon off; events { }\nhttp { bogus; }").prepare();
    check(&prepared.run(&["-e", "early.log"]), 1, &["unknown directive \"bogus\""]);
    let log = std::fs::read_to_string(prepared.dir().join("early.log")).unwrap();
    let line = Regex::new(
        r#"(?m)^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[emerg\] \d+#\d+: unknown directive "bogus" in .*:2$"#,
    )
    .unwrap();
    assert!(line.is_match(&log), "{log}");
    check(&prepared.run(&["-e", "/nowhere/early.log"]), 1, &["unknown directive"]);
}

#[test]
fn an_error_log_that_cannot_be_opened_ends_the_start() {
    let site = site();
    check(
        &site.run(&["-e", "/nowhere/e.log"]),
        1,
        &["\\[emerg\\] open\\(\\) \"/nowhere/e.log\" failed \\(2:"],
    );
}

#[test]
fn the_reference_is_in_the_terminal() {
    check(&brisk(&["directives"]), 0, &["^worker_processes +Number of ", "^listen +"]);
    check(
        &brisk(&["directives", "sendfile"]),
        0,
        &["^sendfile$", "default: +sendfile off;", "context: +http, server"],
    );
    check(
        &brisk(&["directives", "sednfile"]),
        1,
        &["no directive \"sednfile\"; did you mean \"sendfile\"\\?"],
    );
    check(
        &brisk(&["directives", "gzip_comp_level"]),
        0,
        &["^  unit: +level$", "^  range: +1 to 9$", "^  change: +reload$", "^  risk: +safe$"],
    );
    check(
        &brisk(&["directives", "worker_processes"]),
        0,
        &["^  change: +new worker$", "^  risk: +resource$"],
    );
}

#[test]
fn words_are_looked_for_in_the_reference() {
    check(
        &brisk(&["directives", "cookie", "FLAGS"]),
        0,
        &["^proxy_cookie_flags +Sets or removes", "^userid_flags ", "!^root "],
    );
    // Names come before texts.
    let found = brisk(&["directives", "stale"]);
    check(&found, 0, &["^proxy_cache_use_stale ", "^proxy_cache_background_update "]);
    assert!(text(&found.stdout).lines().next().unwrap().contains("use_stale"), "{found:?}");
    check(
        &brisk(&["directives", "proxy_cache_valid"]),
        0,
        &[
            "^  syntax: +proxy_cache_valid \\[CODE \\.\\.\\.\\] TIME;$",
            "^  example: +proxy_cache_valid 200 301 10m;$",
        ],
    );
    // Both of that name.
    check(&brisk(&["directives", "server"]), 0, &["^  syntax: +server \\{ … \\}$", "^  module: +upstream$"]);
    check(&brisk(&["variables", "$args"]), 0, &["^\\$args$", "^  set: +yes$"]);
    check(&brisk(&["variables", "cipher"]), 0, &["^\\$ssl_cipher ", "^\\$ssl_ciphers "]);
    check(&brisk(&["variables", "argz"]), 1, &["no variable \"argz\"; did you mean \"args\"\\?"]);
}

#[test]
fn programs_are_told_in_json() {
    let json = |output: &Output| -> serde_json::Value {
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    };
    let entry = json(&brisk(&["directives", "--json", "sendfile"]));
    assert_eq!((&entry[0]["name"], &entry[0]["example"]), (&"sendfile".into(), &"sendfile on;".into()));
    assert_eq!(entry[0]["contexts"][3], "if in location");
    assert_eq!((&entry[0]["type"], &entry[0]["risk"]), (&"flag".into(), &"safe".into()));
    let level = json(&brisk(&["directives", "--json", "gzip_comp_level"]));
    assert_eq!(level[0]["range"], serde_json::json!({ "min": 1, "max": 9 }));
    let streams = json(&brisk(&["directives", "--json", "http2_chunk_size"]));
    assert_eq!(streams[0]["range"], serde_json::json!({ "min": 1, "max": null }));
    assert_eq!((&streams[0]["unit"], &streams[0]["change"]), (&"bytes".into(), &"reload".into()));
    assert!(json(&brisk(&["directives", "--json"])).as_array().unwrap().len() > 500);
    assert_eq!(json(&brisk(&["variables", "--json", "args"]))[0]["set"], true);
    let coverage = json(&brisk(&["coverage", "--json"]));
    assert!(
        coverage
            .as_array()
            .unwrap()
            .iter()
            .any(|entry| entry["name"] == "sendfile" && entry["state"] == "works")
    );

    let good = site().run(&["-t", "--json"]);
    check(&good, 0, &[]);
    let told = json(&good);
    assert!(
        told["ok"] == true && told["messages"] == serde_json::json!([]) && good.stderr.is_empty(),
        "{told}"
    );
    let (prepared, _) = tested("events { use epoll; }\nhttp {\n    sendfil on; }");
    let bad = prepared.run(&["-tq", "--json"]);
    check(&bad, 1, &["!test failed"]);
    let told = json(&bad);
    let (notice, error) = (&told["messages"][0], &told["messages"][1]);
    assert!(told["ok"] == false && notice["level"] == "notice" && notice["line"] == 1, "{told}");
    assert!(
        told["file"].as_str().unwrap().ends_with("/brisk.conf") && error["file"] == told["file"],
        "{told}"
    );
    assert_eq!((&error["line"], &error["column"], &error["level"]), (&3.into(), &5.into(), &"emerg".into()));
    assert_eq!(error["message"], "unknown directive \"sendfil\"");
    assert_eq!(error["help"], "did you mean \"sendfile\"?");
    let dump = json(&site().run(&["-T", "--json"]));
    assert!(dump["files"][0]["text"].as_str().unwrap().contains("listen"), "{dump}");
    let (_, unbound) = tested("events { } http { access_log off; server { listen 192.0.2.1:8080; } }");
    assert!(!unbound.status.success());
}
