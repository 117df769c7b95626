//! Apache in nginx's place.

use super::site::{Running, Site, WAITING, json, php_fpm, undo};
use brisk_testkit::server::text;
use brisk_testkit::wait;
use brisk_tune::patch;
use serde_json::json as value;
use std::fs;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

/// A site before PHP-FPM with a file that it includes.
fn site(pool: &str, page: &str, keep: &str) -> Site {
    let site = Site::new(pool, page);
    let at = site.dir.path().display().to_string();
    let modules = ["mpm_event", "authz_core", "proxy", "proxy_fcgi"]
        .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"));
    let number = site.port.number;
    site.dir.write(
        "httpd.conf",
        format!(
            "ServerRoot {at}\nServerName localhost\nPidFile {at}/apache.pid\nErrorLog {at}/error.log\n{}Listen 127.0.0.1:{number}\n\
             User nobody\nGroup nogroup\nDocumentRoot {at}\nInclude {at}/keep.conf\n<Directory {at}>\n    Require all granted\n</Directory>\n\
             <FilesMatch \\.php$>\n    SetHandler \"proxy:unix:{at}/php.sock|fcgi://localhost\"\n</FilesMatch>\n",
            modules.concat()
        ),
    );
    site.dir.write("keep.conf", keep);
    site
}

fn tune(site: &Site) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_brisk"));
    command.args(["tune", &site.url(), "--apache", &site.at("httpd.conf"), "--fpm", &site.at("pool.conf")]);
    command.args(["--php-ini", &site.at("php.ini"), "--users", "12", "-q", "--json"]);
    command
}

#[test]
fn apache_s_settings_are_tried_too() {
    let site = site("pm = static\npm.max_children = 2", WAITING, "KeepAlive Off\n");
    let output =
        tune(&site).args(["--budget", "2m", "--knobs", "pm.max_children,KeepAlive"]).output().unwrap();
    let found = json(&output);
    assert_eq!(found["final"]["outcome"], "kept", "{found:#} {}", text(&output.stderr));
    let steps = found["steps"].as_array().unwrap();
    assert_eq!(steps[0]["knob"], "pm.max_children", "{found:#}");
    let second = ["knob", "from", "to"].map(|name| steps[1][name].as_str().unwrap());
    assert_eq!(second, ["KeepAlive", "Off", "On"], "{found:#}");
    assert_eq!(fs::read_to_string(site.at("keep.conf")).unwrap(), "KeepAlive Off\n");
}

/// The site itself, as its owner has started it.
fn start(site: &Site) -> Running {
    let main = site.dir.write(
        "fpm.conf",
        format!("[global]\nerror_log = {}\ninclude = {}\n", site.at("fpm.log"), site.at("pool.conf")),
    );
    let quiet = |command: &mut Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let php = quiet(Command::new(php_fpm()).args(["-F", "-c", &site.at("php.ini"), "-y"]).arg(main));
    wait::holds("PHP-FPM", || UnixStream::connect(site.at("php.sock")).is_ok());
    let apache = quiet(Command::new("apache2").args(["-D", "FOREGROUND", "-f", &site.at("httpd.conf")]));
    wait::holds("Apache", || TcpStream::connect(("127.0.0.1", site.port.number)).is_ok());
    Running([apache, php])
}

/// A connection for each request costs more than the page. What a search would have found is applied, proved and undone.
#[test]
fn what_is_applied_to_apache_is_proved_and_undone() {
    let (before, after) = ("KeepAlive Off\n", "KeepAlive On\n");
    let site = site("pm = static\npm.max_children = 4", "<?php echo 'ok';", before);
    let _running = start(&site);
    let name = site.at("keep.conf");
    let found = value!({
        "steps": [], "final": { "outcome": "kept", "settings": [{ "knob": "KeepAlive", "from": "Off", "to": "On" }] },
        "patches": [{ "file": name, "patch": patch::unified(&name, before.as_bytes(), after.as_bytes()) }],
    });
    let found = site.dir.write("found.json", found.to_string()).display().to_string();
    let state = site.at("state");
    let more = ["--budget", "50s", "--apply", "--found", &found, "--state", &state, "--observe", "2s"];
    let output = tune(&site).args(more).output().unwrap();
    let said = json(&output);
    let written = fs::read_to_string(&name).unwrap();
    if !output.status.success() {
        // The gain was seen; where others want the machine, what varies so is taken back.
        let why = said["not_applied"].as_str().unwrap_or_default();
        assert!(why.contains("its figures vary") && why.contains("(cost -"), "{said:#}");
        assert_eq!(written, before);
        return;
    }
    assert!(said["applied"]["high"].as_f64().is_some_and(|high| high < 1.0), "{said:#}");
    assert!(
        written.starts_with("# brisk tune: what follows") && written.contains(&format!("\n{after}")),
        "{written}"
    );
    let output = undo(&state);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(fs::read_to_string(&name).unwrap(), before);
}
