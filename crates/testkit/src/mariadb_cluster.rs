//! Several MariaDBs that belong together: a primary with replicas, or the nodes of a Galera cluster.
//!
//! Everything of a node is in a folder of its own, in memory where there is room. The tables of users are made once and
//! copied, nodes start in parallel and write nothing through, so that a cluster is there within seconds.

use crate::mariadb::{Connection, Refused};
use crate::ports::{self, Port};
use crate::process;
use crate::temp::TempDir;
use crate::wait;
use brisk_tls::issue::Issued;
use rustix::process::Signal;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What a node needs at most.
const NODE_BYTES_MAX: u64 = 400 << 20;

/// An account with all rights, and its password. Its passwords are those of `mysql_native_password`.
pub const APP: (&str, &str) = ("app", "app-secret");

/// An account that may ask how replication is and read accounts' hashes, and its password.
pub const PROBE: (&str, &str) = ("probe", "probe-secret");

const REPLICATION: (&str, &str) = ("repl", "repl-secret");

/// One MariaDB.
pub struct Node {
    child: Option<Child>,
    port: Port,
    /// Ports of its own beside that of clients.
    more: [Port; 3],
    folder: PathBuf,
    options: String,
    /// Where programs are looked for that it starts.
    programs: String,
}

impl Node {
    fn new(at: &Path, number: usize) -> Node {
        let folder = at.join(format!("node{number}"));
        let (port, more) = (ports::claim(), [(); 3].map(|()| ports::claim()));
        let programs = std::env::var("PATH").unwrap_or_default();
        Node { child: None, port, more, folder, options: String::new(), programs }
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port.number))
    }

    /// Where it listens for clients of this machine.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("db.sock")
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("db.log")).unwrap_or_default()
    }

    /// Root's connection.
    ///
    /// # Panics
    /// If it does not let us in.
    pub fn root(&self) -> Connection {
        Connection::local(&self.socket())
            .unwrap_or_else(|why| panic!("root is let in: {why:?}\n{}", self.log()))
    }

    /// A connection of [`APP`].
    pub fn app(&self, database: &str) -> Result<Connection, Refused> {
        Connection::open(self.address(), APP.0, APP.1, database)
    }

    /// The number of its process.
    ///
    /// # Panics
    /// If it does not run.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// Ends it at once, as a machine does that loses its power.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            process::signal(child.id(), Signal::KILL);
            let _ = child.wait();
        }
    }

    /// Ends it in order.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            process::signal(child.id(), Signal::TERM);
            let _ = child.wait();
        }
    }

    /// Starts it; [`Node::wait`] says when it is there.
    ///
    /// # Panics
    /// If there is no MariaDB.
    pub fn start(&mut self) {
        self.start_with(&[]);
    }

    fn start_with(&mut self, more: &[&str]) {
        let child = self.command().args(more).spawn();
        self.child = Some(child.expect("MariaDB is not installed: scripts/setup.sh does that"));
    }

    fn command(&self) -> Command {
        let mut command = Command::new("/usr/sbin/mariadbd");
        command.arg(format!("--defaults-file={}", self.folder.join("my.cnf").display()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.env("PATH", &self.programs);
        command
    }

    /// Starts a node of a Galera cluster that was killed. It is told up to where its tables go, which `galera_recovery` does elsewhere:
    /// without that it would ask for all of another one's.
    ///
    /// # Panics
    /// If it does not say that.
    pub fn start_again(&mut self) {
        let log = self.folder.join("recovery.log");
        let _ = fs::remove_file(&log);
        let recovery = [format!("--log-error={}", log.display()), "--wsrep-recover".to_string()];
        let done = self.command().args(recovery).status();
        let text = fs::read_to_string(&log).unwrap_or_default();
        let place = text.rsplit_once("WSREP: Recovered position:").and_then(|(_, rest)| rest.lines().next());
        let place = place.unwrap_or_else(|| panic!("no position: {done:?}\n{text}")).trim();
        self.start_with(&[&format!("--wsrep-start-position={place}")]);
    }

    /// Waits until it answers.
    ///
    /// # Panics
    /// If it ends instead.
    pub fn wait(&mut self) {
        let socket = self.socket();
        wait::holds("a MariaDB that answers", || {
            let ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            assert!(ended.is_none(), "MariaDB ended: {ended:?}\n{}", self.log());
            Connection::local(&socket).is_ok_and(|mut root| root.try_run("SELECT 1").is_ok())
        });
    }

    fn configure(&self) {
        let at = self.folder.display();
        let user = if rustix::process::getuid().is_root() { "user = root\n" } else { "" };
        let text = format!(
            "[mysqld]\n{user}datadir = {at}/data\nsocket = {at}/db.sock\npid-file = {at}/db.pid\ntmpdir = {at}\n\
             log-error = {at}/db.log\nbind-address = 127.0.0.1\nport = {}\nskip-name-resolve\nskip-ssl\nmax_connections = 300\n\
             innodb_log_file_size = 4M\ninnodb_buffer_pool_size = 16M\ninnodb_doublewrite = OFF\n\
             innodb_flush_log_at_trx_commit = 2\ninnodb_fast_shutdown = 2\nsync_binlog = 0\nperformance_schema = OFF\n{}",
            self.port.number, self.options
        );
        fs::write(self.folder.join("my.cnf"), text).expect("a file of our own");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Nodes of which the first one has tables, none of them started.
fn nodes(dir: &TempDir, count: usize, options: impl Fn(&[Node], usize) -> String) -> Vec<Node> {
    let mut nodes: Vec<Node> = (0..count).map(|number| Node::new(dir.path(), number)).collect();
    for node in &nodes {
        fs::create_dir(&node.folder).expect("a folder of our own");
    }
    for number in 0..count {
        nodes[number].options = options(&nodes, number);
        nodes[number].configure();
    }
    let first = nodes[0].folder.join("data");
    let mut install = Command::new("mariadb-install-db");
    install.arg("--no-defaults").arg(format!("--datadir={}", first.display()));
    // A server that starts removes all temporary tables of its folder, which would be /tmp, and another one's with them.
    install.arg(format!("--tmpdir={}", nodes[0].folder.display()));
    install.args(["--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-log-file-size=4M"]);
    if rustix::process::getuid().is_root() {
        install.arg("--user=root");
    }
    // Its temporary tables have numbers of which others that start at the same time have the same.
    install.env("TMPDIR", &nodes[0].folder).stdin(Stdio::null());
    let made = install.output().expect("MariaDB is not installed: scripts/setup.sh does that");
    let shown = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "MariaDB's tables cannot be made: {shown}");
    nodes
}

/// Gives all nodes what the first one has, which must not run.
fn spread(nodes: &[Node]) {
    for node in &nodes[1..] {
        copy(&nodes[0].folder.join("data"), &node.folder.join("data"));
    }
}

/// Copies a folder with all that is in it.
pub(crate) fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(done.is_ok_and(|status| status.success()), "{} cannot be copied", from.display());
}

fn accounts(root: &mut Connection) {
    for (name, password) in [APP, PROBE, REPLICATION] {
        root.run(&format!("CREATE USER {name}@'%' IDENTIFIED BY '{password}'"));
    }
    root.run("GRANT ALL PRIVILEGES ON *.* TO app@'%'");
    // Who has it may write although read_only is on, which no application should.
    root.run("REVOKE SUPER, READ_ONLY ADMIN ON *.* FROM app@'%'");
    root.run("GRANT REPLICATION SLAVE ON *.* TO repl@'%'");
    root.run("GRANT BINLOG MONITOR, SLAVE MONITOR ON *.* TO probe@'%'");
    root.run("GRANT SELECT ON mysql.* TO probe@'%'");
    root.run("CREATE DATABASE test");
}

/// A primary with two replicas, by GTID and semi-synchronous: what is acknowledged is in the relay log of a replica.
pub struct Replicated {
    /// The first one is the primary in the beginning.
    pub nodes: Vec<Node>,
    /// The tables with which all began.
    pristine: PathBuf,
    _dir: TempDir,
}

impl Replicated {
    /// Starts them, and waits until both replicas have what the primary has.
    pub fn start() -> Replicated {
        Replicated::of(3)
    }

    /// As [`Replicated::start`], with this number of servers.
    pub fn of(count: usize) -> Replicated {
        Replicated::below(TempDir::in_memory(count as u64 * NODE_BYTES_MAX), count, "")
    }

    /// A server alone, which has TLS.
    pub fn with_tls(own: &Issued) -> Replicated {
        let dir = TempDir::in_memory(NODE_BYTES_MAX);
        let certificate = dir.write("server.crt", own.certificate_pem());
        let key = dir.write("server.key", own.key_pem());
        let more = format!("ssl-cert = {}\nssl-key = {}\n", certificate.display(), key.display());
        Replicated::below(dir, 1, &more)
    }

    fn below(dir: TempDir, count: usize, more: &str) -> Replicated {
        let mut nodes = nodes(&dir, count, |_, number| {
            format!(
                "server_id = {}\nlog_bin = binlog\nlog_slave_updates = ON\nbinlog_format = ROW\ngtid_strict_mode = ON\n\
                 relay_log = relay\nslave_net_timeout = 10\nrpl_semi_sync_slave_enabled = ON\n\
                 rpl_semi_sync_master_timeout = 60000\nrpl_semi_sync_master_wait_point = AFTER_SYNC\n{more}",
                number + 1
            )
        });
        spread(&nodes);
        let pristine = dir.path().join("pristine");
        copy(&nodes[0].folder.join("data"), &pristine);
        nodes.iter_mut().for_each(Node::start);
        nodes.iter_mut().for_each(Node::wait);
        let cluster = Replicated { nodes, pristine, _dir: dir };
        accounts(&mut cluster.nodes[0].root());
        for replica in 1..count {
            cluster.follow(replica, 0);
        }
        cluster.settle(0);
        cluster
    }

    /// Waits for the replicas of a primary, and has its writes wait for one of them from then on.
    pub fn settle(&self, primary: usize) {
        let mut root = self.nodes[primary].root();
        let followers = self.followers(primary).len();
        wait::holds("semi-synchronous replicas", || {
            root.rows("SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'")
                .is_ok_and(|rows| rows[0][1].as_deref() == Some(&followers.to_string()))
        });
        if followers > 0 {
            root.run("SET GLOBAL rpl_semi_sync_master_enabled = ON");
        }
        self.catch_up(primary);
    }

    /// Waits until all that follow a server have what it has.
    pub fn catch_up(&self, primary: usize) {
        let position = self.nodes[primary].root().value("SELECT @@gtid_binlog_pos");
        for follower in self.followers(primary) {
            let mut root = self.nodes[follower].root();
            let done = root.value(&format!("SELECT MASTER_GTID_WAIT('{position}', 60)"));
            assert_eq!(done, "0", "a replica has {position}");
        }
    }

    /// Those that run and replicate from this server.
    pub fn followers(&self, primary: usize) -> Vec<usize> {
        let port = self.nodes[primary].port.number.to_string();
        let follows = |node: &Node| {
            node.child.is_some()
                && replication(&mut node.root(), "Master_Port").is_some_and(|have| have == port)
        };
        (0..self.nodes.len()).filter(|at| follows(&self.nodes[*at])).collect()
    }

    /// Makes a server the replica of another one, from where it stands; it takes no writes then.
    pub fn follow(&self, replica: usize, primary: usize) {
        let mut root = self.nodes[replica].root();
        root.run("SET GLOBAL read_only = ON");
        root.run("STOP SLAVE");
        let (user, password) = REPLICATION;
        root.run(&format!(
            "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = '{user}', \
             MASTER_PASSWORD = '{password}', MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1",
            self.nodes[primary].port.number
        ));
        root.run("START SLAVE");
    }

    /// The running server that has received the most, which is the one to promote when the primary is lost.
    pub fn most_advanced(&self) -> usize {
        // What the lost one had sent is read to its end: nobody gets more after that.
        for node in self.nodes.iter().filter(|node| node.child.is_some()) {
            let mut root = node.root();
            wait::holds("the end of what was sent", || {
                replication(&mut root, "Slave_IO_Running").is_none_or(|runs| runs != "Yes")
            });
        }
        let place = |at: usize| {
            let mut root = self.nodes[at].root();
            let text = replication(&mut root, "Gtid_IO_Pos").unwrap_or_default();
            text.rsplit('-').next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0)
        };
        let running = (0..self.nodes.len()).filter(|at| self.nodes[*at].child.is_some());
        running.max_by_key(|at| place(*at)).expect("a server runs")
    }

    /// What a tool for failover does: `chosen` executes what it has received and becomes the primary, the other ones that run follow it.
    pub fn promote(&self, chosen: usize) {
        let mut root = self.nodes[chosen].root();
        root.run("STOP SLAVE IO_THREAD");
        wait::holds("all that was received to be executed", || {
            let received = replication(&mut root, "Gtid_IO_Pos").unwrap_or_default();
            received.is_empty() || root.value("SELECT @@gtid_slave_pos") == received
        });
        root.run("STOP SLAVE");
        root.run("RESET SLAVE ALL");
        for other in (0..self.nodes.len()).filter(|at| *at != chosen && self.nodes[*at].child.is_some()) {
            self.follow(other, chosen);
        }
        root.run("SET GLOBAL read_only = OFF");
    }
}

impl Replicated {
    /// Makes a server that was killed a replica of `primary`, with its tables: what it had that nobody else has is lost with it.
    pub fn rejoin(&mut self, killed: usize, primary: usize) {
        let data = self.nodes[killed].folder.join("data");
        fs::remove_dir_all(&data).expect("a folder of our own");
        copy(&self.pristine, &data);
        // It must not come back as a server that takes writes.
        self.nodes[killed].start_with(&["--read-only"]);
        self.nodes[killed].wait();
        // It has nothing: all that was ever written comes to it.
        self.follow(killed, primary);
        self.settle(primary);
    }
}

/// A value of `SHOW SLAVE STATUS`; `None` if the server is no replica.
pub fn replication(root: &mut Connection, name: &str) -> Option<String> {
    let (names, rows) = root.named_rows("SHOW SLAVE STATUS").ok()?;
    let at = names.iter().position(|have| have == name)?;
    rows.into_iter().next()?.into_iter().nth(at)?
}

/// A cluster of three nodes, each of which takes writes.
pub struct Galera {
    /// In the order in which they were started.
    pub nodes: Vec<Node>,
    _dir: TempDir,
}

impl Galera {
    /// Starts three nodes, and waits until all are synchronous.
    pub fn start() -> Galera {
        const COUNT: usize = 3;
        let dir = TempDir::in_memory(COUNT as u64 * NODE_BYTES_MAX);
        let mut nodes = nodes(&dir, COUNT, |nodes, number| {
            let peer = |node: &Node| format!("127.0.0.1:{}", node.more[0].number);
            let all: Vec<String> = nodes.iter().map(peer).collect();
            let [own, transfer, receive] = [0, 1, 2].map(|at| nodes[number].more[at].number);
            format!(
                "server_id = {}\nbinlog_format = ROW\ndefault_storage_engine = InnoDB\ninnodb_autoinc_lock_mode = 2\n\
                 wsrep_on = ON\nwsrep_provider = /usr/lib/galera/libgalera_smm.so\nwsrep_cluster_name = brisk{}\n\
                 wsrep_cluster_address = gcomm://{}\nwsrep_node_address = 127.0.0.1\nwsrep_node_name = node{number}\n\
                 wsrep_sst_method = same\nwsrep_sst_receive_address = 127.0.0.1:{receive}\nwsrep_provider_options = \"gmcast.listen_addr=tcp://127.0.0.1:{own};\
                 ist.recv_addr=127.0.0.1:{transfer};gcache.size=16M\"\n",
                number + 1,
                nodes[0].more[0].number,
                all.join(",")
            )
        });
        let script = dir.write("bin/wsrep_sst_same", TRANSFER);
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("a file of our own");
        for node in &mut nodes {
            node.programs = format!("{}:{}", dir.path().join("bin").display(), node.programs);
        }
        nodes[0].start_with(&["--wsrep-new-cluster"]);
        nodes[0].wait();
        accounts(&mut nodes[0].root());
        nodes[0].stop();
        // All have the same tables and know up to where: what comes then is passed from node to node.
        spread(&nodes);
        nodes[0].start_with(&["--wsrep-new-cluster"]);
        for (at, node) in nodes.iter_mut().enumerate() {
            // One after the other: those that come at once wait for each other.
            if at > 0 {
                node.start();
            }
            node.wait();
            is_synchronous(node, at + 1);
        }
        Galera { nodes, _dir: dir }
    }

    /// Waits until all that run are synchronous and know of each other.
    pub fn settle(&self) {
        let running: Vec<&Node> = self.nodes.iter().filter(|node| node.child.is_some()).collect();
        running.iter().for_each(|node| is_synchronous(node, running.len()));
    }
}

/// Waits until a node is synchronous in a cluster of this size.
fn is_synchronous(node: &Node, size: usize) {
    let size = size.to_string();
    wait::holds("a synchronous node", || {
        let Ok(mut root) = Connection::local(&node.socket()) else { return false };
        let mut has = |name: &str, wanted: &str| {
            root.rows(&format!("SHOW STATUS LIKE '{name}'"))
                .is_ok_and(|rows| rows.first().is_some_and(|row| row[1].as_deref() == Some(wanted)))
        };
        has("wsrep_local_state", "4") && has("wsrep_ready", "ON") && has("wsrep_cluster_size", &size)
    });
}

/// A transfer of state between nodes that have the same: the donor says where the joiner stands, in a file that the address names. What is
/// younger follows by Galera's own means.
const TRANSFER: &str = r#"#!/bin/sh
role= address= gtid= data=
while [ $# -gt 0 ]; do
    case $1 in
    --role) role=$2; shift ;;
    --address) address=$2; shift ;;
    --gtid) gtid=$2; shift ;;
    --datadir) data=$2; shift ;;
    esac
    shift
done
place=$(dirname "$(dirname "$data/x")")/../$(printf %s "$address" | tr -c 0-9. _)
case $role in
joiner) rm -f "$place"; echo "ready $address"; until [ -s "$place" ]; do sleep 0.05; done; cat "$place" ;;
donor) echo "$gtid" > "$place.new"; mv "$place.new" "$place"; echo "done $gtid" ;;
esac
"#;
