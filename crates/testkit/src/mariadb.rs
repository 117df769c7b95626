//! A real MariaDB for a test, with a folder and a socket of its own, and clients that hold locks.

mod packed;
mod prepared;

pub use prepared::{How, Prepared};

use crate::process;
use crate::temp::TempDir;
use crate::wait;
use rustix::process::Signal;
use sha1::{Digest as _, Sha1};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
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
    stream: Box<dyn Carrier>,
    /// As the greeting has it.
    version: String,
    /// The types of the last execution's columns.
    columns: Vec<u8>,
}

/// What carries a connection.
trait Carrier: Read + Write + Send {}

impl<T: Read + Write + Send> Carrier for T {}

/// In a client's capabilities.
const SESSION_TRACK: u32 = 0x80_0000;

/// One row: `None` is NULL.
pub type Row = Vec<Option<String>>;

/// An answer that is an error: its number, and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// As MariaDB numbers them; 0: the connection is gone.
    pub code: u16,
    /// What it says.
    pub text: String,
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        Refused { code: 0, text: error.to_string() }
    }
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
        Connection::local(&self.socket()).expect("root is let in")
    }
}

impl Connection {
    /// As root without a password, over a unix socket.
    pub fn local(socket: &Path) -> Result<Connection, Refused> {
        let stream = UnixStream::connect(socket)?;
        Connection::log_in(Box::new(stream), "root", "", "", 0)
    }

    /// Over TCP, by `mysql_native_password`; an empty database is none.
    pub fn open(to: SocketAddr, user: &str, password: &str, database: &str) -> Result<Connection, Refused> {
        Connection::asking(to, user, password, database, 0)
    }

    /// The same for a client that wants to be told of changes to its session (`CLIENT_SESSION_TRACK`).
    pub fn tracking(
        to: SocketAddr,
        user: &str,
        password: &str,
        database: &str,
    ) -> Result<Connection, Refused> {
        Connection::asking(to, user, password, database, SESSION_TRACK)
    }

    /// The same for a client that asks for more capabilities than it needs.
    pub fn asking(
        to: SocketAddr,
        user: &str,
        password: &str,
        database: &str,
        more: u32,
    ) -> Result<Connection, Refused> {
        let stream = TcpStream::connect_timeout(&to, wait::DEADLINE)?;
        // Only a server that is stuck takes so long.
        stream.set_read_timeout(Some(wait::DEADLINE))?;
        stream.set_nodelay(true)?;
        Connection::log_in(Box::new(stream), user, password, database, more)
    }

    fn log_in(
        stream: Box<dyn Carrier>,
        user: &str,
        password: &str,
        database: &str,
        more: u32,
    ) -> Result<Connection, Refused> {
        let mut connection = Connection { stream, version: String::new(), columns: Vec::new() };
        let (_, greeting) = connection.packet()?;
        if greeting.first() == Some(&0xff) {
            return Err(refused(&greeting));
        }
        let Greeted { version, nonce, capabilities } = greeting_of(&greeting);
        connection.version = version;
        if more & packed::COMPRESS & !u32::from(capabilities) != 0 {
            return Err(Refused { code: 0, text: "compression is not offered".to_string() });
        }
        // Protocol 4.1, transactions and mysql_native_password; packets of 16 MB, utf8.
        let with_database = u32::from(!database.is_empty()) << 3;
        let mut login = (0x8_a201 | with_database | more).to_le_bytes().to_vec();
        login.extend([0, 0, 0, 1, 33]);
        login.extend([0; 23]);
        login.extend([user.as_bytes(), b"\0"].concat());
        let proof = native(password, &nonce);
        login.push(proof.len() as u8);
        login.extend(proof);
        if with_database > 0 {
            login.extend([database.as_bytes(), b"\0"].concat());
        }
        login.extend(b"mysql_native_password\0");
        connection.send(1, &login)?;
        loop {
            let (number, answer) = connection.packet()?;
            match answer.first() {
                Some(0) => return Ok(connection),
                // Another nonce for the same plugin.
                Some(0xfe) => {
                    let rest = answer.split(|byte| *byte == 0).nth(1).unwrap_or_default();
                    connection.send(number.wrapping_add(1), &native(password, rest))?;
                }
                _ => return Err(refused(&answer)),
            }
        }
    }

    /// What the server calls itself.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Sends a packet with this number.
    pub fn send(&mut self, number: u8, payload: &[u8]) -> io::Result<()> {
        let mut packet = (payload.len() as u32).to_le_bytes().to_vec();
        packet[3] = number;
        packet.extend(payload);
        self.stream.write_all(&packet)
    }

    /// Sends the beginning of a packet that is to have so many bytes.
    pub fn send_beginning(&mut self, length: u32, payload: &[u8]) -> io::Result<()> {
        self.stream.write_all(&length.to_le_bytes()[..3])?;
        self.stream.write_all(&[0])?;
        self.stream.write_all(payload)
    }

    /// A packet with its number.
    fn packet(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 4];
        self.stream.read_exact(&mut head)?;
        let mut payload = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
        self.stream.read_exact(&mut payload)?;
        Ok((head[3], payload))
    }

    /// Waits for a packet; one with an error is an error.
    pub fn receive(&mut self) -> Result<Vec<u8>, Refused> {
        let (_, payload) = self.packet()?;
        if payload.first() == Some(&0xff) { Err(refused(&payload)) } else { Ok(payload) }
    }

    /// Begins a query that changes something or holds locks, and does not wait for its end.
    pub fn begin(&mut self, query: &str) {
        self.send(0, &[b"\x03", query.as_bytes()].concat()).expect("it reads");
    }

    /// Carries out a query that has no rows.
    ///
    /// # Panics
    /// If it fails.
    pub fn run(&mut self, query: &str) {
        let done = self.try_run(query);
        assert!(done.is_ok(), "{query}: {done:?}");
    }

    /// Carries out a query; rows that it has are dropped.
    pub fn try_run(&mut self, query: &str) -> Result<(), Refused> {
        self.rows(query).map(drop)
    }

    /// The rows of a query; none if it is no question.
    pub fn rows(&mut self, query: &str) -> Result<Vec<Row>, Refused> {
        self.named_rows(query).map(|(_, rows)| rows)
    }

    /// The names of a query's columns, and its rows.
    pub fn named_rows(&mut self, query: &str) -> Result<(Vec<String>, Vec<Row>), Refused> {
        self.send(0, &[b"\x03", query.as_bytes()].concat())?;
        let head = self.receive()?;
        if head.first() == Some(&0) {
            return Ok((Vec::new(), Vec::new()));
        }
        let columns = number(&mut &*head).unwrap_or(0);
        let mut names = Vec::new();
        for _ in 0..columns {
            let column = self.receive()?;
            // Catalogue, schema, table, original table, name.
            names.push(texts(&column).nth(4).flatten().unwrap_or_default());
        }
        self.receive()?;
        let mut rows = Vec::new();
        loop {
            let row = self.receive()?;
            if row.first() == Some(&0xfe) && row.len() < 9 {
                return Ok((names, rows));
            }
            rows.push(texts(&row).collect());
        }
    }

    /// The first value of the first row, as its text.
    pub fn try_value(&mut self, query: &str) -> Result<Option<String>, Refused> {
        let rows = self.rows(query)?;
        Ok(rows.into_iter().next().and_then(|row| row.into_iter().next()).flatten())
    }

    /// Asks for one value, as its text.
    ///
    /// # Panics
    /// If there is no such value.
    pub fn value(&mut self, query: &str) -> String {
        let value = self.try_value(query);
        value.unwrap_or_else(|why| panic!("{query}: {why:?}")).unwrap_or_else(|| panic!("{query}: no value"))
    }
}

/// What is used of a greeting.
struct Greeted {
    version: String,
    /// The 20 bytes that a password is proved with.
    nonce: Vec<u8>,
    /// The lower half of what the server offers.
    capabilities: u16,
}

fn greeting_of(greeting: &[u8]) -> Greeted {
    let end = greeting.iter().skip(1).position(|byte| *byte == 0).map_or(greeting.len(), |at| at + 1);
    let version = String::from_utf8_lossy(&greeting[1.min(end)..end]).into_owned();
    // Behind the number of the connection 8 bytes; behind capabilities and what is reserved 12 more.
    let at = |from: usize, count: usize| greeting.get(from..from + count).unwrap_or_default();
    let nonce = [at(end + 5, 8), at(end + 5 + 8 + 19, 12)].concat();
    let capabilities = at(end + 5 + 9, 2).try_into().map_or(0, u16::from_le_bytes);
    Greeted { version, nonce, capabilities }
}

/// What proves a password by `mysql_native_password`.
pub fn native(password: &str, nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha1::digest(password.as_bytes());
    let twice = Sha1::digest(once);
    let mask = Sha1::digest([&nonce[..nonce.len().min(20)], &twice].concat());
    once.iter().zip(mask).map(|(once, mask)| once ^ mask).collect()
}

fn refused(packet: &[u8]) -> Refused {
    let code = packet.get(1..3).map_or(0, |code| u16::from_le_bytes([code[0], code[1]]));
    Refused { code, text: String::from_utf8_lossy(packet.get(3..).unwrap_or_default()).into_owned() }
}

/// A number of the protocol; `None` is NULL, or that there is no more.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let (first, rest) = bytes.split_first()?;
    let count = match first {
        0xfb => 0,
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        small => {
            *bytes = rest;
            return Some(u64::from(*small));
        }
    };
    let (number, rest) = rest.split_at_checked(count)?;
    *bytes = rest;
    let value = number.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
    (count > 0).then_some(value)
}

/// Texts that stand one behind the other.
fn texts(bytes: &[u8]) -> impl Iterator<Item = Option<String>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let length = number(&mut rest);
        Some(length.map(|length| {
            let (text, after) = rest.split_at(rest.len().min(length as usize));
            rest = after;
            String::from_utf8_lossy(text).into_owned()
        }))
    })
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        process::signal(self.child.id(), Signal::KILL);
        let _ = self.child.wait();
    }
}
