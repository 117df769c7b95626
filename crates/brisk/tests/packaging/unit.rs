//! The unit as it is installed: what it starts has the rights that it needs, and makes the folders that it writes to.

use super::make_for;
use brisk_testkit::application::{Application, Speaks};
use brisk_testkit::{Client, TempDir, Unit, wait};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Larger than what the sockets and the buffers between a back end and a client hold.
const LARGE: usize = 24 << 20;

const SITE: &str = "
proxy_cache_path /var/cache/brisk/site/pages keys_zone=pages:1m;
fastcgi_cache_path /var/cache/brisk/answers levels=1:2 keys_zone=answers:1m;
php_pool www { max_children 2; }
upstream group { zone group 64k; state /var/lib/brisk/state/group.conf; }
server {
    listen unix:/run/brisk/back.sock;
    root /var/www/site;
}
server {
    listen 80;
    listen unix:/run/brisk/site.sock;
    client_max_body_size 0;
    root /var/www/site;
    error_log /var/log/brisk/site.log info;
    location /static/ { compress_static auto; }
    location /proxied/ { proxy_pass http://unix:/run/brisk/back.sock:/; }
    location /cached/ {
        proxy_pass http://unix:/run/brisk/back.sock:/;
        proxy_cache pages; proxy_cache_valid 1h;
        add_header X-Cache $upstream_cache_status;
    }
    location /application {
        include fastcgi_params;
        fastcgi_pass unix:/run/brisk/application.sock;
        fastcgi_cache answers; fastcgi_cache_valid 1h; fastcgi_cache_key $request_uri;
        add_header X-Cache $upstream_cache_status;
    }
    location /upload { proxy_pass http://unix:/run/brisk/back.sock:/; }
    location /group { proxy_pass http://group; }
    location /api { api write=on; }
    location ~ \\.php$ { php_pass www; }
}";

/// `make install` into a folder, with the site of these tests beside the default one.
struct Installed {
    root: TempDir,
    _application: Application,
}

impl Installed {
    fn new() -> Installed {
        let root = TempDir::new();
        make_for("www-data", "install", root.path(), &[]);
        let etc = root.path().join("etc/brisk");
        fs::write(etc.join("conf.d/site.conf"), SITE).unwrap();
        root.write("var/www/site/index.html", "hello");
        root.write("var/www/site/large", vec![b'x'; LARGE]);
        root.write(
            "var/www/site/visits.php",
            "<?php session_start(); echo $_SESSION['visits'] = 1 + ($_SESSION['visits'] ?? 0);",
        );
        // As Debian's php-common has it.
        let sessions = root.path().join("var/lib/php/sessions");
        fs::create_dir_all(&sessions).unwrap();
        fs::set_permissions(&sessions, fs::Permissions::from_mode(0o1733)).unwrap();
        root.write("var/www/site/static/page.html", "<p>text</p>\n".repeat(1000));
        fs::create_dir_all(root.path().join("run/brisk")).unwrap();
        let socket = root.path().join("run/brisk/application.sock");
        let answer = |exchange: &mut brisk_testkit::application::Exchange<'_>| {
            let length = exchange.asked.body.len();
            exchange.stdout(format!("Content-Type: text/plain\r\n\r\n{length}"));
        };
        Installed { _application: Application::start_unix(Speaks::FastCgi, &socket, answer), root }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn client(&self) -> Client {
        Client::connect_unix(&self.path("run/brisk/site.sock")).expect("it listens")
    }

    fn wait_for_log(&self, text: &str) {
        let log = self.path("var/log/brisk/site.log");
        wait::holds(text, || fs::read_to_string(&log).unwrap_or_default().contains(text));
    }

    /// Whether a folder has a file in it, at any depth.
    fn has_files(&self, folder: &str) -> bool {
        fn look(folder: &Path) -> bool {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.into_iter().any(|entry| entry.path().is_file() || look(&entry.path()))
        }
        look(&self.path(folder))
    }

    /// Everything that needs a folder of the server's own.
    fn try_everything(&self) {
        assert_eq!(self.client().get("/").text(), "hello");
        // An answer that its client does not take goes into a temporary file.
        let mut slow = self.client();
        slow.send("GET /proxied/large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert!(slow.some(1000).unwrap().starts_with(b"HTTP/1.1 200 "));
        self.wait_for_log("an upstream response is buffered to a temporary file /var/lib/brisk/proxy_temp/");
        drop(slow);
        for (target, folder) in [
            ("/cached/index.html", "var/cache/brisk/site/pages"),
            ("/application", "var/cache/brisk/answers"),
        ] {
            wait::holds("an answer from the cache", || {
                let answer = self.client().get(target);
                assert_eq!(answer.status, 200, "{target}: {}", answer.head);
                answer.header("X-Cache") == Some("HIT")
            });
            // It is answered from memory before the file has its name.
            wait::holds(folder, || self.has_files(folder));
        }
        let body = "x".repeat(1 << 20);
        for target in ["/application?post", "/upload"] {
            let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
            let answer = self.client().request(format!("{head}{body}"));
            assert_ne!(answer.status / 100, 5, "{target}: {}", answer.head);
        }
        self.wait_for_log(
            "client request body is buffered to a temporary file /var/lib/brisk/client_body_temp/",
        );
        self.client().request("GET /static/page.html HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\n\r\n");
        wait::holds("a compressed variant", || self.has_files("var/cache/brisk/compress_static"));
        let server = r#"{"server":"unix:/run/brisk/back.sock"}"#;
        let length = server.len();
        let added = self.client().request(format!(
            "POST /api/9/http/upstreams/group/servers HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{server}"
        ));
        // What was added before a restart is still there.
        assert!([201, 409].contains(&added.status), "{}", added.text());
        assert!(self.has_files("var/lib/brisk/state"));
        let first = self.client().get("/visits.php");
        assert_eq!((first.status, first.text().as_str()), (200, "1"), "{}", first.head);
        let cookie =
            first.header("Set-Cookie").and_then(|cookie| cookie.split(';').next()).expect("a session");
        let again =
            self.client().request(format!("GET /visits.php HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n"));
        assert_eq!(again.text(), "2", "PHP's sessions are stored");
        assert_eq!(self.client().get("/group").status, 404);
    }
}

fn unit_of(root: &Path, drop_ins: &[&str]) -> Unit {
    let unit = root.join("usr/lib/systemd/system/brisk.service");
    let drop_ins: Vec<PathBuf> = drop_ins.iter().map(|name| root.join(name)).collect();
    let files: Vec<&Path> = std::iter::once(&*unit).chain(drop_ins.iter().map(PathBuf::as_path)).collect();
    Unit::read(&files)
}

#[test]
fn the_units_sandbox_has_room_for_everything() {
    let installed = Installed::new();
    let unit = unit_of(installed.root.path(), &[]);
    let mut service = unit.start(installed.root.path());
    installed.try_everything();
    service.stop(Signal::QUIT);
    // What is there already is used again.
    let mut service = unit.start(installed.root.path());
    assert_eq!(installed.client().get("/cached/index.html").header("X-Cache"), Some("HIT"));
    installed.try_everything();
    service.stop(Signal::TERM);
    let journal = service.journal();
    assert!(!journal.contains("warn"), "{journal}");
}

/// SIGKILL to the main process: the worker serves until the next main process has taken it over.
#[test]
fn a_killed_main_process_loses_no_request() {
    let installed = Installed::new();
    let unit = unit_of(installed.root.path(), &[]);
    let service = unit.start(installed.root.path());
    let done = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    let mut service = std::thread::scope(|scope| {
        let mut service = service;
        let load = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(installed.client().get("/").text(), "hello");
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
        let more = || {
            let goal = done.load(Ordering::Relaxed) + 100;
            wait::holds("load", || load.is_finished() || done.load(Ordering::Relaxed) >= goal);
        };
        let mut mains = vec![service.pid()];
        for _ in 0..2 {
            more();
            service = unit.restart_killed(service);
            assert!(!mains.contains(&service.pid()));
            mains.push(service.pid());
            more();
        }
        is_over.store(true, Ordering::Relaxed);
        load.join().expect("no request is lost");
        service
    });
    installed.try_everything();
    service.stop(Signal::QUIT);
}

/// What systemd gives to root when the unit's user changes back is said, not found out by the first upload.
#[test]
fn folders_of_another_user_are_named() {
    let installed = Installed::new();
    let folder = installed.path("var/lib/brisk/proxy_temp");
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    let mut service = unit_of(installed.root.path(), &[]).start(installed.root.path());
    let journal = service.journal();
    let said = "brisk: [warn] the user \"www-data\" may not write to \"/var/lib/brisk/proxy_temp\" (13: Permission denied); \
                chown www-data /var/lib/brisk/proxy_temp\n";
    assert_eq!(journal, said);
    service.stop(Signal::QUIT);
}

#[test]
fn the_unit_without_root_has_room_for_everything() {
    let installed = Installed::new();
    let conf = installed.path("etc/brisk/brisk.conf");
    let text = fs::read_to_string(&conf).unwrap();
    fs::write(&conf, text.replace("user www-data;", "")).unwrap();
    let unit = unit_of(installed.root.path(), &["usr/share/doc/brisk/examples/unprivileged.conf"]);
    let mut service = unit.start(installed.root.path());
    installed.try_everything();
    service.stop(Signal::QUIT);
    let journal = service.journal();
    assert!(!journal.contains("warn"), "{journal}");
}

/// Everything elsewhere: the unit names it, and the program finds its configuration by itself.
#[test]
fn another_prefix_and_sysconfdir_work() {
    let root = TempDir::new();
    let places = ["PREFIX=/opt/brisk", "SYSCONFDIR=/opt/etc", "UNITDIR=/usr/lib/systemd/system"];
    make_for("www-data", "install", root.path(), &places);
    let unit = fs::read_to_string(root.path().join("usr/lib/systemd/system/brisk.service")).unwrap();
    assert!(unit.contains("\nExecStart=/opt/brisk/bin/brisk -c /opt/etc/brisk/brisk.conf "), "{unit}");
    let site = "server { listen unix:/run/brisk/site.sock; location / { return 200 elsewhere; } }";
    root.write("opt/etc/brisk/conf.d/site.conf", site);
    let mut service = unit_of(root.path(), &[]).start(root.path());
    let mut client = Client::connect_unix(&root.path().join("run/brisk/site.sock")).unwrap();
    assert_eq!(client.get("/").text(), "elsewhere");
    service.stop(Signal::QUIT);
    let output = std::process::Command::new(root.path().join("opt/brisk/bin/brisk")).arg("-V").output();
    let said = String::from_utf8_lossy(&output.unwrap().stderr).into_owned();
    assert!(said.contains("--conf-path=/opt/etc/brisk/brisk.conf"), "{said}");
}
