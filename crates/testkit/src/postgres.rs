//! A real PostgreSQL with a standby that streams from it.

use crate::mariadb_cluster::copy;
use crate::ports::{self, Port};
use crate::process;
use crate::temp::TempDir;
use crate::wait;
use rustix::process::Signal;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Whom PostgreSQL runs as where tests are root, which it refuses to run as.
const NOBODY: u32 = 65_534;

/// What both need at most.
const BYTES_MAX: u64 = 600 << 20;

/// The account of the owner, and its password, which is proved by SCRAM-SHA-256.
pub const OWNER: (&str, &str) = ("brisk", "owner-secret");

/// An account whose password is proved by MD5.
pub const PROBE_MD5: (&str, &str) = ("probe_md5", "probe-secret");

/// A primary and its standby.
pub struct Postgres {
    /// The first one is the primary in the beginning.
    pub nodes: Vec<Node>,
    _dir: TempDir,
}

/// One server.
pub struct Node {
    child: Option<Child>,
    port: Port,
    folder: PathBuf,
}

/// A program of PostgreSQL: Debian keeps them where no path leads to.
fn program(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions.map(|version| version.path().join("bin").join(name)).collect();
    found.retain(|path| path.exists());
    found.sort();
    found.pop().expect("PostgreSQL is not installed: scripts/setup.sh does that")
}

/// A command as the user who may run it.
fn command(name: &str) -> Command {
    let mut command = Command::new(program(name));
    if process::is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.stdin(Stdio::null()).current_dir("/");
    command
}

fn give(path: &Path) {
    if process::is_root() {
        chown(path, Some(NOBODY), Some(NOBODY)).expect("a folder of our own");
    }
}

impl Postgres {
    /// Starts both, and waits until the standby streams.
    ///
    /// # Panics
    /// If it is not installed, or does not start.
    pub fn start() -> Postgres {
        let dir = TempDir::in_memory(BYTES_MAX);
        give(dir.path());
        let nodes: Vec<Node> = ["a", "b"].map(|name| Node::new(dir.path().join(name))).into();
        let first = &nodes[0].folder;
        let secret = dir.write("secret", OWNER.1);
        give(&secret);
        let made = command("initdb")
            .args(["--no-sync", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"])
            .arg(format!("--username={}", OWNER.0))
            .arg(format!("--pwfile={}", secret.display()))
            .arg(format!("--pgdata={}", first.display()))
            .output()
            .expect("a program that starts");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let rules = "local all all trust\nhost all probe_md5 127.0.0.1/32 md5\n\
                     host all all 127.0.0.1/32 scram-sha-256\nhost replication all 127.0.0.1/32 scram-sha-256\n";
        fs::write(first.join("pg_hba.conf"), rules).expect("a file of our own");
        copy(first, &nodes[1].folder);
        let mut both = Postgres { nodes, _dir: dir };
        both.nodes[0].begin();
        both.nodes[0].wait();
        let (md5, password) = PROBE_MD5;
        both.nodes[0]
            .sql(&format!("SET password_encryption = 'md5'; CREATE ROLE {md5} LOGIN PASSWORD '{password}'"));
        both.follow(1, 0);
        both.nodes[1].begin();
        both.nodes[1].wait();
        wait::holds("a standby that streams", || {
            both.nodes[0].sql("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == "1"
        });
        both
    }

    /// Writes what makes a server the standby of another one at its next start.
    pub fn follow(&self, standby: usize, primary: usize) {
        let at = &self.nodes[standby].folder;
        let (user, password) = OWNER;
        let port = self.nodes[primary].port.number;
        let text =
            format!("primary_conninfo = 'host=127.0.0.1 port={port} user={user} password={password}'\n");
        for (name, text) in [("postgresql.auto.conf", text.as_str()), ("standby.signal", "")] {
            let path = at.join(name);
            fs::write(&path, text).expect("a file of our own");
            give(&path);
        }
    }
}

impl Node {
    fn new(folder: PathBuf) -> Node {
        Node { child: None, port: ports::claim(), folder }
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port.number))
    }

    /// Starts it; [`Node::wait`] says when it is there.
    ///
    /// # Panics
    /// If there is no PostgreSQL.
    pub fn begin(&mut self) {
        fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o700)).expect("a folder of our own");
        let log = fs::File::create(self.folder.with_extension("log")).expect("a file of our own");
        let mut command = command("postgres");
        command.arg("-D").arg(&self.folder);
        let socket = self.folder.parent().unwrap_or(Path::new("/")).display().to_string();
        for setting in [
            "listen_addresses=127.0.0.1".to_string(),
            format!("port={}", self.port.number),
            format!("unix_socket_directories={socket}"),
            "fsync=off".into(),
            "shared_buffers=16MB".into(),
            "wal_level=replica".into(),
            "wal_keep_size=256MB".into(),
            "hot_standby=on".into(),
        ] {
            command.arg("-c").arg(setting);
        }
        command.stdout(Stdio::null()).stderr(log);
        self.child = Some(command.spawn().expect("a program that starts"));
    }

    /// Waits until it answers.
    ///
    /// # Panics
    /// If it ends instead.
    pub fn wait(&mut self) {
        wait::holds("a PostgreSQL that answers", || {
            let ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            let log = || fs::read_to_string(self.folder.with_extension("log")).unwrap_or_default();
            // What a server that was killed has left is held by its children until they have noticed.
            if ended.is_some() && log().contains("is still in use") {
                self.begin();
                return false;
            }
            assert!(ended.is_none(), "PostgreSQL ended: {ended:?}\n{}", log());
            self.try_sql("SELECT 1").is_ok()
        });
    }

    /// What the owner is answered, over the unix socket: values without decoration.
    ///
    /// # Panics
    /// If it fails.
    pub fn sql(&self, text: &str) -> String {
        self.try_sql(text).unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    /// As [`Node::sql`].
    pub fn try_sql(&self, text: &str) -> Result<String, String> {
        let folder = self.folder.parent().unwrap_or(Path::new("/"));
        psql(&folder.display().to_string(), self.port.number, OWNER, text)
    }

    /// Makes a standby the primary.
    pub fn promote(&self) {
        self.sql("SELECT pg_promote()");
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Its children end by themselves when they notice; [`Node::wait`] waits for them.
            process::signal(child.id(), Signal::KILL);
            let _ = child.wait();
        }
    }
}

/// What psql is answered by a server, or by what stands before it.
pub fn psql(host: &str, port: u16, (user, password): (&str, &str), text: &str) -> Result<String, String> {
    let place = format!("host={host} port={port} user={user} dbname=postgres connect_timeout=60");
    let mut command = Command::new(program("psql"));
    command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", &place, "-c", text]);
    let done = command
        .env("PGPASSWORD", password)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
    if done.status.success() { Ok(shown(&done.stdout)) } else { Err(shown(&done.stderr)) }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Immediate shutdown, which its children learn of, and without traces in memory.
        if let Some(mut child) = self.child.take() {
            process::signal(child.id(), Signal::QUIT);
            let _ = child.wait();
        }
    }
}
