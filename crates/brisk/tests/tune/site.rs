//! A site for the tuner's tests.

use brisk_testkit::ports::{self, Port};
use brisk_testkit::server::text;
use brisk_testkit::{TempDir, process, wait};
use rustix::process::Signal;
use serde_json::Value;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

pub const PARAMS: &str = include_str!("../../../../packaging/fastcgi.conf");

/// A site of nginx and PHP-FPM in a folder of its own. Only some tests start it.
pub struct Site {
    pub dir: TempDir,
    pub port: Port,
}

/// Its programs at work; they end with it.
pub struct Running(pub [Child; 2]);

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            process::signal(child.id(), Signal::TERM);
            let _ = child.wait();
        }
    }
}

impl Site {
    /// With this pool, and this page.
    pub fn new(pool: &str, script: &str) -> Site {
        Site::within(TempDir::new(), pool, script)
    }

    /// The same in a folder that is there.
    pub fn within(dir: TempDir, pool: &str, script: &str) -> Site {
        // The pool's processes are nobody's.
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let at = dir.path().display().to_string();
        let port = ports::claim();
        let number = port.number;
        dir.write(
            "site.conf",
            format!(
                "pid {at}/nginx.pid;\nerror_log {at}/error.log;\nevents {{ }}\nhttp {{\n    access_log off;\n    server {{\n        \
                 listen 127.0.0.1:{number};\n        root {at};\n        location ~ \\.php$ {{\n            {PARAMS}\n            \
                 fastcgi_pass unix:{at}/php.sock;\n        }}\n    }}\n}}\n"
            ),
        );
        dir.write(
            "pool.conf",
            format!(
                "[shop{number}]\nuser = nobody\ngroup = nogroup\nlisten = {at}/php.sock\nlisten.mode = 0666\n{pool}\n"
            ),
        );
        dir.write("php.ini", "memory_limit = 64M\n");
        let path = dir.write("page.php", script);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
        Site { dir, port }
    }

    pub fn at(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    pub fn command(&self, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_brisk"));
        command.args(["tune", &self.url(), "--site", &self.at("site.conf")]);
        command.args(["--fpm", &self.at("pool.conf"), "--php-ini", &self.at("php.ini"), "-q"]).args(more);
        command.env("COLUMNS", "100");
        command
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/page.php", self.port.number)
    }

    /// Starts it outside, as its owner would.
    pub fn start(&self) -> Running {
        std::fs::create_dir_all(self.at("others")).unwrap();
        let main = self.dir.write(
            "fpm.conf",
            format!(
                "[global]\nerror_log = {}\ninclude = {}\ninclude = {}\n",
                self.at("fpm.log"),
                self.at("pool.conf"),
                self.at("others/*.conf")
            ),
        );
        let quiet = |command: &mut Command| {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        let php = quiet(Command::new(php_fpm()).args(["-F", "-c", &self.at("php.ini"), "-y"]).arg(main));
        wait::holds("PHP-FPM", || UnixStream::connect(self.at("php.sock")).is_ok());
        let nginx = quiet(Command::new("nginx").args(["-c", &self.at("site.conf"), "-g", "daemon off;"]));
        wait::holds("nginx", || TcpStream::connect(("127.0.0.1", self.port.number)).is_ok());
        Running([nginx, php])
    }

    /// What is written by people.
    pub fn configuration(&self) -> Vec<Vec<u8>> {
        ["site.conf", "pool.conf", "php.ini"]
            .iter()
            .map(|name| std::fs::read(self.at(name)).unwrap())
            .collect()
    }

    pub fn tune(&self, more: &[&str]) -> Output {
        self.command(more).output().unwrap()
    }

    /// All files with their bytes.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut all: Vec<_> = std::fs::read_dir(self.dir.path())
            .unwrap()
            .flatten()
            .map(|entry| {
                (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).unwrap())
            })
            .collect();
        all.sort();
        all
    }
}

pub fn php_fpm() -> PathBuf {
    let all = std::fs::read_dir("/usr/sbin").unwrap().flatten().map(|entry| entry.path());
    let is_it =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("php-fpm"));
    all.filter(is_it).max().expect("php-fpm is not installed: scripts/setup.sh does that")
}

pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", text(&output.stdout), text(&output.stderr)))
}

pub fn of_site(site: &Site) -> Vec<u32> {
    let marks = [site.at("site.conf"), format!("php-fpm: pool shop{}", site.port.number)];
    let is_s = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        marks.iter().any(|mark| line.contains(mark))
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_s).collect()
}

/// Where a page waits, so that more processes are a gain that no noise hides.
pub const WAITING: &str = "<?php usleep(20000); echo 'ok';";

pub fn undo(state: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_brisk")).args(["tune", "undo", "--state", state]).output().unwrap()
}
