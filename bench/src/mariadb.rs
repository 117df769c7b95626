//! MariaDBs of our own: a primary with two replicas, and the table that sysbench asks.
//!
//! They have the generator's core: what stands between the two has its own, and waits for both alike.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use brisk_mysql::client::Account;

use crate::lab::{LOAD_CPU, Lab};
use crate::mysql::Session;
use crate::process::{self, ThreadCpu};
use crate::server::{end, free_port, present};

/// Debian's program.
pub const MARIADBD: &str = "/usr/sbin/mariadbd";
/// The same.
pub const SYSBENCH: &str = "/usr/bin/sysbench";
/// The primary and its replicas.
const SERVERS: usize = 3;
const START_MAX: Duration = Duration::from_mins(1);
/// How long replicas may take to have all that the primary has.
const CATCH_UP_SECONDS_MAX: u32 = 60;

/// The account of the load, which is also its password and its database.
pub const LOAD: &str = "bench";
/// Who asks servers what they are, and the password.
pub const PROBE: &str = "probe";
const ADMIN: &str = "admin";

const ACCOUNTS: &str = "SET sql_log_bin = 0;
CREATE DATABASE bench;
CREATE USER bench@'%' IDENTIFIED BY 'bench';
GRANT ALL ON bench.* TO bench@'%';
CREATE USER probe@'%' IDENTIFIED BY 'probe';
GRANT BINLOG MONITOR, SLAVE MONITOR, SELECT ON *.* TO probe@'%';
CREATE USER copies@'%' IDENTIFIED BY 'copies';
GRANT REPLICATION SLAVE ON *.* TO copies@'%';
CREATE USER admin@'%' IDENTIFIED BY 'admin';
GRANT ALL ON *.* TO admin@'%';
";

const OPTIONS: &str = "[mysqld]
bind-address = 127.0.0.1
skip-name-resolve
max_connections = 300
# Each start of a server under test is asked for an answer by HTTP.
max_connect_errors = 1000000
innodb_log_file_size = 4M
innodb_buffer_pool_size = 64M
innodb_doublewrite = OFF
innodb_flush_log_at_trx_commit = 2
sync_binlog = 0
performance_schema = OFF
log_bin = binlog
relay_log = relay
gtid_strict_mode = ON
";

/// The primary and its replicas; they end when this is dropped.
#[derive(Debug)]
pub struct Databases {
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    child: Child,
    port: u16,
}

/// The account of the load.
pub fn account() -> Account {
    Account { database: LOAD.as_bytes().to_vec(), ..Account::new(LOAD.as_bytes(), LOAD.as_bytes()) }
}

impl Databases {
    /// Starts them. They have accounts, and an empty database.
    pub fn start(lab: &Lab) -> io::Result<Databases> {
        let program = present(Path::new(MARIADBD))?;
        let folder = lab.server_dir("mariadb")?;
        fs::write(folder.join("accounts.sql"), ACCOUNTS)?;
        install(&folder)?;
        let mut nodes = Vec::new();
        for number in 1..=SERVERS {
            nodes.push(Node::start(&program, &folder, number)?);
        }
        let databases = Databases { nodes };
        for replica in &databases.nodes[1..] {
            replica.admin()?.ask(&format!(
                "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = 'copies', \
                 MASTER_PASSWORD = 'copies', MASTER_USE_GTID = slave_pos",
                databases.primary()
            ))?;
            replica.admin()?.ask("START SLAVE")?;
        }
        Ok(databases)
    }

    /// Where the primary listens.
    pub fn primary(&self) -> u16 {
        self.nodes[0].port
    }

    /// Where all of them listen, the primary first.
    pub fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(|node| node.port).collect()
    }

    /// CPU by thread of all of them.
    pub fn thread_cpu(&self) -> ThreadCpu {
        self.nodes.iter().flat_map(|node| process::thread_cpu(node.child.id())).collect()
    }

    /// Waits until the replicas have what the primary has.
    pub fn catch_up(&self) -> io::Result<()> {
        let place = self.nodes[0].admin()?.value("SELECT @@gtid_binlog_pos")?;
        let wait = format!("SELECT MASTER_GTID_WAIT('{place}', {CATCH_UP_SECONDS_MAX})");
        for replica in &self.nodes[1..] {
            if replica.admin()?.value(&wait)? != "0" {
                return Err(io::Error::other(format!("a replica does not come to {place}")));
            }
        }
        Ok(())
    }
}

/// Makes the tables that every server begins with.
fn install(folder: &Path) -> io::Result<()> {
    let mut command = Command::new("mariadb-install-db");
    command.arg("--no-defaults").arg(format!("--datadir={}", folder.join("pristine").display()));
    command.args(["--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-log-file-size=4M"]);
    if rustix::process::geteuid().is_root() {
        command.arg("--user=root");
    }
    let made = command.env("TMPDIR", folder).stdin(Stdio::null()).output()?;
    if made.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&made.stderr);
    Err(io::Error::other(format!("mariadb-install-db: {text}")))
}

impl Node {
    /// The first one takes writes.
    fn start(program: &Path, all: &Path, number: usize) -> io::Result<Node> {
        let folder = all.join(format!("node{number}"));
        fs::create_dir(&folder)?;
        let copied =
            Command::new("cp").arg("-a").arg(all.join("pristine")).arg(folder.join("data")).status()?;
        if !copied.success() {
            return Err(io::Error::other("the tables cannot be copied"));
        }
        let port = free_port()?;
        let options = configure(all, &folder, number, port)?;
        let mut command = Command::new("/proc/self/exe");
        command.args(["exec", &std::process::id().to_string(), &LOAD_CPU.to_string()]);
        command.arg(program).arg(format!("--defaults-file={}", options.display()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut node = Node { child: command.spawn()?, port };
        let limit = Instant::now() + START_MAX;
        while let Err(error) = node.admin() {
            if node.child.try_wait()?.is_some() || Instant::now() > limit {
                let log = fs::read_to_string(folder.join("db.log")).unwrap_or_default();
                return Err(io::Error::other(format!("MariaDB does not come up: {error}\n{log}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(node)
    }

    fn admin(&self) -> io::Result<Session> {
        Session::open(self.port, &Account::new(ADMIN.as_bytes(), ADMIN.as_bytes()))
    }
}

fn configure(all: &Path, folder: &Path, number: usize, port: u16) -> io::Result<PathBuf> {
    let at = folder.display();
    let user = if rustix::process::geteuid().is_root() { "user = root\n" } else { "" };
    let text = format!(
        "{OPTIONS}{user}datadir = {at}/data\nsocket = {at}/db.sock\npid-file = {at}/db.pid\ntmpdir = {at}\n\
         log-error = {at}/db.log\ninit-file = {}\nport = {port}\nserver_id = {number}\nread_only = {}\n",
        all.join("accounts.sql").display(),
        u8::from(number > 1),
    );
    let path = folder.join("my.cnf");
    fs::write(&path, text)?;
    Ok(path)
}

impl Drop for Node {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}
