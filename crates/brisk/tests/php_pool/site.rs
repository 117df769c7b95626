//! A server with a pool and a folder of scripts.

use brisk_testkit::{Builder, Response, Server, process, wait};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Once;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// Builds the pool master, where the server looks for it: beside its own folder.
pub fn build() {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/php.sh");
        let folder = Path::new(BIN).parent().expect("a folder").join("../php");
        let built = Command::new(script).arg(folder).output().expect("a shell");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    });
}

pub struct Site {
    pub server: Server,
}

/// The configuration of a pool "www" for all scripts; `rest` stands in their location.
pub fn conf(pool: &str, rest: &str) -> String {
    format!(
        "php_pool www {{ {pool} }}
         server {{ listen 127.0.0.1:{{{{PORT}}}}; root {{{{DIR}}}}/html; index index.php; client_max_body_size 200m;
           location / {{ try_files $uri $uri/ =404; }}
           location ~ [^/]\\.php(/|$) {{ fastcgi_split_path_info ^(.+?\\.php)(/.*)$; php_pass www; {rest} }} }}"
    )
}

/// A builder whose folder other users may enter.
pub fn builder() -> Builder {
    build();
    let builder = Builder::new(BIN);
    fs::set_permissions(builder.dir(), Permissions::from_mode(0o755)).expect("a folder of our own");
    builder
}

impl Site {
    pub fn new(pool: &str, rest: &str) -> Site {
        Site::of(builder().http(&conf(pool, rest)))
    }

    pub fn of(builder: Builder) -> Site {
        Site { server: builder.start() }
    }

    /// Writes a script, in one step: others may be reading it.
    pub fn script(&self, name: &str, text: &str) {
        let fresh = self.server.write(&format!("html/{name}.new"), text);
        fs::set_permissions(&fresh, Permissions::from_mode(0o644)).expect("a file of our own");
        fs::rename(&fresh, fresh.with_extension("")).expect("a file of our own");
    }

    /// A folder that PHP may write to.
    pub fn notes(&self) -> std::path::PathBuf {
        let folder = self.server.dir().join("notes");
        fs::create_dir_all(&folder).expect("a folder of our own");
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).expect("a folder of our own");
        folder
    }

    pub fn get(&self, target: &str) -> Response {
        self.server.get(target)
    }

    pub fn post(&self, target: &str, body: &[u8]) -> Response {
        let kind = "application/x-www-form-urlencoded";
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.server.request([head.as_bytes(), body].concat())
    }

    /// `brisk php …` about this server.
    pub fn php(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the program starts")
    }

    /// The same, not started yet.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BIN);
        command.arg("php").args(args).arg("-p").arg(self.server.dir()).args(["-c", "brisk.conf"]);
        command
    }

    /// The masters of pools, and their workers.
    pub fn pools(&self) -> Vec<u32> {
        let is_pool = |pid: &u32| title(*pid).starts_with("brisk: php pool");
        process::tree(self.server.child_pid()).into_iter().filter(is_pool).collect()
    }

    /// The pool master that was started last.
    pub fn master(&self) -> u32 {
        let is_pool = |pid: &u32| title(*pid).starts_with("brisk: php pool");
        // It has its title when PHP has started.
        wait::until("a pool master", || {
            process::children(self.server.child_pid()).into_iter().filter(is_pool).max()
        })
    }

    /// Waits until the pool has so many workers.
    pub fn wait_for_workers(&self, count: usize) -> Vec<u32> {
        wait::until("the pool's workers", || {
            let workers = process::children(self.master());
            (workers.len() == count).then_some(workers)
        })
    }
}

/// A process as ps shows it; empty for one that has ended.
pub fn title(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_string()
}
