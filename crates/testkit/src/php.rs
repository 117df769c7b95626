//! A real PHP-FPM for a test, with a folder, pool and socket of its own.

use crate::ports::{self, Port};
use crate::{TempDir, process, wait};
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A running PHP-FPM; it ends with the test.
pub struct PhpFpm {
    child: Child,
    dir: TempDir,
    port: Option<Port>,
    pool: String,
}

/// The program of whatever version is installed.
fn program() -> PathBuf {
    let folder = fs::read_dir("/usr/sbin").expect("Debian has /usr/sbin");
    let mut found: Vec<PathBuf> = folder
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("php-fpm")))
        .collect();
    found.sort();
    found.pop().expect("php-fpm is not installed: scripts/setup.sh does that")
}

impl PhpFpm {
    /// With `children` processes, behind a port.
    pub fn tcp(children: usize) -> PhpFpm {
        let port = ports::claim();
        let listen = format!("127.0.0.1:{}", port.number);
        PhpFpm::start(children, &listen, Some(port), TempDir::new())
    }

    /// With `children` processes, behind a unix socket.
    pub fn unix(children: usize) -> PhpFpm {
        let dir = TempDir::new();
        let listen = dir.path().join("php.sock").display().to_string();
        PhpFpm::start(children, &listen, None, dir)
    }

    fn start(children: usize, listen: &str, port: Option<Port>, dir: TempDir) -> PhpFpm {
        use std::os::unix::fs::PermissionsExt as _;
        // Processes of root drop their rights: they, and the server, must still reach what lies here.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("a folder of our own");
        let log = dir.path().join("fpm.log");
        // Tests at the same time look at processes by their pools.
        static POOLS: AtomicU32 = AtomicU32::new(0);
        let pool = format!("www{}n{}", std::process::id(), POOLS.fetch_add(1, Ordering::Relaxed));
        let user = if rustix::process::getuid().is_root() { "user = nobody\ngroup = nogroup" } else { "" };
        let conf = format!(
            "[global]\nerror_log = {}\ndaemonize = no\n[{pool}]\npm.status_path = /fpm-status\n{user}\nlisten = {listen}\nlisten.mode = 0666\n\
             listen.backlog = 511\npm = static\npm.max_children = {children}\ncatch_workers_output = yes\n",
            log.display()
        );
        let path = dir.write("fpm.conf", conf);
        let mut command = Command::new(program());
        // No configuration of the machine: its pools are its own.
        command.arg("-n").arg("-y").arg(path).arg("-F");
        if rustix::process::getuid().is_root() {
            command.arg("-R");
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("php-fpm starts");
        let fpm = PhpFpm { child, dir, port, pool };
        wait::holds("PHP-FPM's processes", || process::children(fpm.child.id()).len() == children);
        fpm
    }

    /// Where it listens, as `fastcgi_pass` wants it.
    pub fn address(&self) -> String {
        match &self.port {
            Some(port) => format!("127.0.0.1:{}", port.number),
            None => format!("unix:{}", self.dir.path().join("php.sock").display()),
        }
    }

    /// The name of its pool. Its status page is `/fpm-status`.
    pub fn pool(&self) -> &str {
        &self.pool
    }

    /// Its folder, for scripts.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a script; everybody may read it.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn script(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.dir.write(name, text);
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).expect("a file of our own");
    }

    /// The processes that answer.
    pub fn processes(&self) -> Vec<u32> {
        process::children(self.child.id())
    }
}

impl Drop for PhpFpm {
    fn drop(&mut self) {
        process::signal(self.child.id(), Signal::TERM);
        let _ = self.child.wait();
    }
}
