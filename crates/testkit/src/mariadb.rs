//! A real MariaDB for a test, with a folder and a socket of its own, and clients that hold locks.

use crate::{TempDir, process, wait};
use rustix::process::Signal;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running MariaDB, to which everybody is root; it ends with the test.
pub struct MariaDb {
    child: Child,
    dir: TempDir,
}

/// A connection that has logged in.
pub struct Connection {
    stream: UnixStream,
}

impl MariaDb {
    /// Starts one, without any database.
    ///
    /// # Panics
    /// If it is not installed, or does not start.
    pub fn start() -> MariaDb {
        let dir = TempDir::new();
        let data = dir.path().join("data");
        fs::create_dir(&data).expect("a folder of our own");
        let option = |name: &str, path: &Path| format!("--{name}={}", path.display());
        let mut command = Command::new("/usr/sbin/mariadbd");
        command.args(["--no-defaults", "--skip-networking", "--skip-log-bin", "--skip-grant-tables"]);
        command.args(["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=4M"]);
        command.args([option("datadir", &data), option("tmpdir", dir.path())]);
        command.args([
            option("socket", &dir.path().join("db.sock")),
            option("pid-file", &dir.path().join("db.pid")),
        ]);
        if rustix::process::getuid().is_root() {
            command.arg("--user=root");
        }
        let log = fs::File::create(dir.path().join("db.log")).expect("a file of our own");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().expect("MariaDB is not installed: scripts/setup.sh does that");
        let db = MariaDb { child, dir };
        wait::holds("MariaDB's socket", || UnixStream::connect(db.socket()).is_ok());
        db
    }

    /// Starts one as people have it: with the tables of its users, of which root has no password, and an option file.
    ///
    /// # Panics
    /// If it is not installed, or does not start.
    pub fn with_options(options: &str) -> MariaDb {
        let dir = TempDir::new();
        // Others' programs connect to its socket.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("a folder of our own");
        let at = dir.path().display().to_string();
        let user = if rustix::process::getuid().is_root() { "user = root\n" } else { "" };
        let file = dir.write(
            "my.cnf",
            format!(
                "[mysqld]\n{user}datadir = {at}/data\nsocket = {at}/db.sock\npid-file = {at}/db.pid\ntmpdir = {at}\n\
                 log-error = {at}/db.log\nskip-networking\ninnodb_log_file_size = 4M\n{options}"
            ),
        );
        let named = format!("--defaults-file={}", file.display());
        let quiet = |command: &mut Command| {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
        };
        let mut install = Command::new("mariadb-install-db");
        install.args([&named, "--auth-root-authentication-method=normal", "--skip-test-db"]);
        let status = quiet(&mut install).and_then(|mut child| child.wait());
        assert!(status.is_ok_and(|status| status.success()), "MariaDB's tables cannot be made");
        let child = quiet(Command::new("/usr/sbin/mariadbd").arg(&named));
        let db = MariaDb { child: child.expect("MariaDB is not installed: scripts/setup.sh does that"), dir };
        wait::holds("MariaDB's socket", || UnixStream::connect(db.socket()).is_ok());
        db
    }

    /// The option file of [`MariaDb::with_options`].
    pub fn options(&self) -> PathBuf {
        self.dir.path().join("my.cnf")
    }

    /// Where everything of it is.
    pub fn folder(&self) -> &Path {
        self.dir.path()
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("db.sock")
    }

    /// Connects and logs in.
    ///
    /// # Panics
    /// If it does not let us in.
    pub fn connect(&self) -> Connection {
        let stream = UnixStream::connect(self.socket()).expect("it listens");
        let mut connection = Connection { stream };
        connection.receive();
        // Protocol 4.1 with its own way of logging in; packets of 16 MB, utf8, root without a password.
        let mut login = vec![1, 0x82, 0, 0, 0, 0, 0, 1, 33];
        login.extend([0; 23]);
        login.extend(b"root\0\0");
        connection.send(1, &login);
        assert_eq!(connection.receive().first(), Some(&0), "root is let in");
        connection
    }
}

impl Connection {
    fn send(&mut self, number: u8, payload: &[u8]) {
        let mut packet = (payload.len() as u32).to_le_bytes().to_vec();
        packet[3] = number;
        packet.extend(payload);
        self.stream.write_all(&packet).expect("it reads");
    }

    fn receive(&mut self) -> Vec<u8> {
        let mut head = [0; 4];
        self.stream.read_exact(&mut head).expect("it answers");
        let mut payload = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
        self.stream.read_exact(&mut payload).expect("it answers");
        payload
    }

    /// Begins a query that changes something or holds locks, and does not wait for its end.
    pub fn begin(&mut self, query: &str) {
        self.send(0, &[b"\x03", query.as_bytes()].concat());
    }

    /// Carries out a query that has no rows.
    ///
    /// # Panics
    /// If it fails.
    pub fn run(&mut self, query: &str) {
        self.begin(query);
        let answer = self.receive();
        assert_eq!(answer.first(), Some(&0), "{query}: {}", String::from_utf8_lossy(&answer));
    }
}

impl Connection {
    /// Asks for one value, as its text.
    ///
    /// # Panics
    /// If there is no such value.
    pub fn value(&mut self, query: &str) -> String {
        self.begin(query);
        // The number of columns, the column, the end of columns, a row, the end of rows.
        assert_eq!(self.receive(), [1], "{query}: one column");
        let (_, _, row) = (self.receive(), self.receive(), self.receive());
        self.receive();
        let (length, text) = row.split_first().expect("a row");
        String::from_utf8_lossy(&text[..usize::from(*length)]).into_owned()
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        process::signal(self.child.id(), Signal::KILL);
        let _ = self.child.wait();
    }
}
