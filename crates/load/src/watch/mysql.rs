//! What a MySQL or MariaDB server says of itself: `SHOW GLOBAL STATUS` over its client protocol.
//!
//! Packets are data ([`Packet`], the functions below); [`Session`] is the one place that reads and writes.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use sha1::{Digest as _, Sha1};
use sha2::Sha256;

use crate::limits::{ASK_TIME_MAX, STATUS_BYTES_MAX};

/// Where a database listens, and who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Database {
    /// Its address.
    pub place: DatabasePlace,
    /// Who asks; nobody needs any right to see the status.
    pub user: String,
    /// Empty: none.
    pub password: String,
}

/// Where a database listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabasePlace {
    /// At a unix socket.
    Unix(PathBuf),
    /// At `host:port`.
    Tcp(String, u16),
}

impl Database {
    /// Reads `[USER[:PASSWORD]@]/run/mysqld/mysqld.sock` or `[USER[:PASSWORD]@]HOST[:PORT]`. Without a user it is root.
    pub fn parse(text: &str) -> Option<Self> {
        let (login, place) = text.rsplit_once('@').unwrap_or(("root", text));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let place = if place.starts_with('/') {
            DatabasePlace::Unix(place.into())
        } else {
            let (host, port) = place.rsplit_once(':').unwrap_or((place, "3306"));
            DatabasePlace::Tcp((!host.is_empty()).then(|| host.to_owned())?, port.parse().ok()?)
        };
        Some(Self { place, user: user.to_owned(), password: password.to_owned() })
    }
}

// Capabilities (include/mysql_com.h of either server).
const LONG_PASSWORD: u32 = 1;
const PROTOCOL_41: u32 = 0x200;
const SECURE_CONNECTION: u32 = 0x8000;
const PLUGIN_AUTH: u32 = 0x8_0000;
const QUERY: u8 = 3;

/// What a server greets with.
#[derive(Debug, PartialEq, Eq)]
struct Greeting {
    nonce: Vec<u8>,
    plugin: String,
}

/// A text that ends with a zero byte, and what stands behind it.
fn text_of(bytes: &[u8]) -> (String, &[u8]) {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    (String::from_utf8_lossy(&bytes[..end]).into_owned(), bytes.get(end + 1..).unwrap_or_default())
}

fn greeting(packet: &[u8]) -> Option<Greeting> {
    let rest = packet.strip_prefix(&[10])?;
    let (_, rest) = text_of(rest);
    // Thread id, eight bytes of the nonce, a zero; capabilities, charset, status, capabilities, a length, ten bytes of nothing.
    let (first, rest) = (rest.get(4..12)?, rest.get(13..)?);
    let (second, plugin) = rest.get(18..)?.split_at_checked(13)?;
    let (plugin, _) = text_of(plugin);
    Some(Greeting { nonce: [first, &second[..12]].concat(), plugin })
}

/// What a password comes to for one greeting; `None`: a plugin that is not known.
fn proof(plugin: &str, password: &str, nonce: &[u8]) -> Option<Vec<u8>> {
    if password.is_empty() {
        return Some(Vec::new());
    }
    let xor = |left: &[u8], right: &[u8]| left.iter().zip(right).map(|(a, b)| a ^ b).collect();
    let password = password.as_bytes();
    match plugin {
        "mysql_native_password" => {
            let once = Sha1::digest(password);
            let salted = Sha1::new().chain_update(nonce).chain_update(Sha1::digest(once)).finalize();
            Some(xor(&once, &salted))
        }
        "caching_sha2_password" => {
            let once = Sha256::digest(password);
            let salted =
                Sha256::new().chain_update(Sha256::digest(Sha256::digest(password))).chain_update(nonce);
            Some(xor(&once, &salted.finalize()))
        }
        _ => None,
    }
}

fn login(user: &str, proof: &[u8], plugin: &str) -> Vec<u8> {
    let mut packet = (LONG_PASSWORD | PROTOCOL_41 | SECURE_CONNECTION | PLUGIN_AUTH).to_le_bytes().to_vec();
    packet.extend(0x0100_0000u32.to_le_bytes());
    // utf8, and nothing of 23 bytes.
    packet.push(33);
    packet.extend([0; 23]);
    packet.extend(user.as_bytes());
    packet.extend([0, proof.len() as u8]);
    packet.extend(proof);
    packet.extend(plugin.as_bytes());
    packet.push(0);
    packet
}

/// What a server answers to a login.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    In,
    Refused(String),
    /// It wants another proof, by this plugin, for this nonce.
    Again(String, Vec<u8>),
    /// The proof was right.
    Wait,
    /// The password itself is wanted.
    Password,
    Strange,
}

fn answer(packet: &[u8]) -> Answer {
    match packet {
        [0, ..] => Answer::In,
        // A code, and a state of six bytes.
        [0xff, rest @ ..] => {
            Answer::Refused(String::from_utf8_lossy(rest.get(8..).unwrap_or(rest)).into_owned())
        }
        [0xfe, rest @ ..] => {
            let (plugin, nonce) = text_of(rest);
            Answer::Again(plugin, nonce.strip_suffix(&[0]).unwrap_or(nonce).to_owned())
        }
        [1, 3] => Answer::Wait,
        [1, 4] => Answer::Password,
        _ => Answer::Strange,
    }
}

/// A length-encoded string, and what stands behind it. NULL is empty.
fn field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let width = match first {
        0xfb => return Some((&[], rest)),
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        _ => return rest.split_at_checked(usize::from(first)),
    };
    let (length, rest) = rest.split_at_checked(width)?;
    let length = length.iter().rev().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte));
    rest.split_at_checked(usize::try_from(length).ok()?)
}

/// All of a row.
fn fields(mut row: &[u8]) -> Option<Vec<String>> {
    let mut found = Vec::new();
    while !row.is_empty() {
        let (value, rest) = field(row)?;
        found.push(String::from_utf8_lossy(value).into_owned());
        row = rest;
    }
    Some(found)
}

fn is_end(packet: &[u8]) -> bool {
    packet.first() == Some(&0xfe) && packet.len() < 9
}

/// What can be read and written.
trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A connection that has logged in.
pub struct Session {
    stream: Box<dyn Stream>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Session")
    }
}

fn strange(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

impl Session {
    /// Connects and logs in. Times and lengths are bounded.
    pub fn open(database: &Database) -> io::Result<Self> {
        let stream: Box<dyn Stream> = match &database.place {
            DatabasePlace::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(ASK_TIME_MAX))?;
                stream.set_write_timeout(Some(ASK_TIME_MAX))?;
                Box::new(stream)
            }
            DatabasePlace::Tcp(host, port) => {
                let address = (host.as_str(), *port).to_socket_addrs()?.next();
                let address = address.ok_or_else(|| strange("the database's name has no address"))?;
                let stream = TcpStream::connect_timeout(&address, ASK_TIME_MAX)?;
                stream.set_read_timeout(Some(ASK_TIME_MAX))?;
                stream.set_write_timeout(Some(ASK_TIME_MAX))?;
                Box::new(stream)
            }
        };
        let mut session = Self { stream };
        let is_local = matches!(database.place, DatabasePlace::Unix(_));
        session.log_in(database, is_local)?;
        Ok(session)
    }

    fn log_in(&mut self, database: &Database, is_local: bool) -> io::Result<()> {
        let (packet, _) = self.receive()?;
        let Greeting { nonce, plugin } = greeting(&packet).ok_or_else(|| match answer(&packet) {
            Answer::Refused(why) => strange(&why),
            _ => strange("this is no MySQL server"),
        })?;
        let known = proof(&plugin, &database.password, &nonce).map(|proof| (proof, plugin));
        let (first, plugin) = known.unwrap_or_else(|| (Vec::new(), "mysql_native_password".to_owned()));
        self.send(1, &login(&database.user, &first, &plugin))?;
        // Each answer brings the login further, or ends it.
        for _ in 0..4 {
            let (packet, number) = self.receive()?;
            match answer(&packet) {
                Answer::In => return Ok(()),
                Answer::Wait => {}
                Answer::Again(plugin, nonce) => {
                    let proof = proof(&plugin, &database.password, &nonce).unwrap_or_default();
                    self.send(number + 1, &proof)?;
                }
                // It stays on this machine: elsewhere it would be readable for others on its way.
                Answer::Password if is_local => {
                    self.send(number + 1, format!("{}\0", database.password).as_bytes())?;
                }
                Answer::Password => {
                    return Err(strange(
                        "the database wants the password in the clear: name its unix socket instead",
                    ));
                }
                Answer::Refused(why) => return Err(strange(&why)),
                Answer::Strange => break,
            }
        }
        Err(strange("the database's answer to the login is not understood"))
    }

    /// Two columns of a query, as names and values.
    pub fn pairs(&mut self, query: &str) -> io::Result<BTreeMap<String, String>> {
        let two = |row: Vec<String>| {
            let mut row = row.into_iter();
            Some((row.next()?, row.next()?))
        };
        let rows = self.rows(query)?.into_iter();
        rows.map(|row| two(row).ok_or_else(|| strange("a row of the database is not understood"))).collect()
    }

    /// All rows of a query. What is NULL is empty.
    pub fn rows(&mut self, query: &str) -> io::Result<Vec<Vec<String>>> {
        self.send(0, &[&[QUERY], query.as_bytes()].concat())?;
        let (first, _) = self.receive()?;
        match answer(&first) {
            Answer::Refused(why) => return Err(strange(&why)),
            // A statement without rows.
            Answer::In => return Ok(Vec::new()),
            _ => {}
        }
        // Columns, an end, rows, an end.
        while !is_end(&self.receive()?.0) {}
        let mut found = Vec::new();
        let mut bytes = 0;
        loop {
            let (row, _) = self.receive()?;
            bytes += row.len();
            if is_end(&row) {
                return Ok(found);
            }
            if let Answer::Refused(why) = answer(&row) {
                return Err(strange(&why));
            }
            if bytes > STATUS_BYTES_MAX {
                return Err(strange("the database's status is too long"));
            }
            found.push(fields(&row).ok_or_else(|| strange("a row of the database is not understood"))?);
        }
    }

    fn send(&mut self, number: u8, payload: &[u8]) -> io::Result<()> {
        let mut packet = (payload.len() as u32).to_le_bytes();
        packet[3] = number;
        self.stream.write_all(&[&packet, payload].concat())
    }

    fn receive(&mut self) -> io::Result<(Vec<u8>, u8)> {
        let mut head = [0; 4];
        self.stream.read_exact(&mut head)?;
        let length = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
        if length > STATUS_BYTES_MAX {
            return Err(strange("a packet of the database is too long"));
        }
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload)?;
        Ok((payload, head[3]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_databases_are() {
        let read = |text| Database::parse(text).map(|found| (found.user, found.password, found.place));
        let own = |text: &str| text.to_owned();
        let socket = DatabasePlace::Unix("/run/m.sock".into());
        assert_eq!(read("/run/m.sock"), Some((own("root"), String::new(), socket.clone())));
        assert_eq!(read("me:a:b@/run/m.sock"), Some((own("me"), own("a:b"), socket)));
        assert_eq!(
            read("me@db.local"),
            Some((own("me"), String::new(), DatabasePlace::Tcp(own("db.local"), 3306)))
        );
        assert_eq!((read("db:x"), read(":3306"), read("")), (None, None, None));
    }

    /// A greeting of MariaDB 10.11, and what passwords come to (from the servers' own documentation of their plugins).
    #[test]
    fn packets() {
        let mut packet = b"\x0a5.5.5-10.11\0\x07\0\0\0abcdefgh\0".to_vec();
        packet.extend([0xfe, 0xf7, 33, 2, 0, 0xff, 0x81, 21]);
        packet.extend([0; 10]);
        packet.extend(b"ijklmnopqrst\0mysql_native_password\0");
        let found = greeting(&packet).unwrap();
        assert_eq!(
            (&found.nonce[..], found.plugin.as_str()),
            (&b"abcdefghijklmnopqrst"[..], "mysql_native_password")
        );
        for length in 0..packet.len() - 22 {
            assert_eq!(greeting(&packet[..length.min(40)]), None);
        }
        assert_eq!(proof("mysql_native_password", "", b"x"), Some(Vec::new()));
        assert_eq!(proof("mysql_native_password", "secret", &found.nonce).map(|proof| proof.len()), Some(20));
        assert_eq!(proof("caching_sha2_password", "secret", &found.nonce).map(|proof| proof.len()), Some(32));
        assert_eq!(proof("ed25519", "secret", &found.nonce), None);
        assert_eq!(answer(b"\xff\x15\x04#28000Access denied"), Answer::Refused("Access denied".to_owned()));
        assert_eq!(answer(b"\xfep\0nonce\0"), Answer::Again("p".to_owned(), b"nonce".to_vec()));
        assert_eq!(
            (answer(&[0, 1]), answer(&[1, 4]), answer(&[])),
            (Answer::In, Answer::Password, Answer::Strange)
        );
        assert_eq!(field(b"\x02abc"), Some((&b"ab"[..], &b"c"[..])));
        assert_eq!(field(b"\xfc\x01\0ab"), Some((&b"a"[..], &b"b"[..])));
        assert_eq!(
            (field(b"\xfb"), field(b"\x05ab"), field(b"\xfe\x01")),
            (Some((&[][..], &[][..])), None, None)
        );
    }

    /// The proof undone as the server does it: it knows the hash of the hash alone.
    #[test]
    fn proofs_are_what_servers_check() {
        let nonce = b"abcdefghijklmnopqrst";
        let stored = Sha1::digest(Sha1::digest(b"secret"));
        let salted = Sha1::new().chain_update(nonce).chain_update(stored).finalize();
        let sent = proof("mysql_native_password", "secret", nonce).unwrap();
        let once: Vec<u8> = sent.iter().zip(salted).map(|(a, b)| a ^ b).collect();
        assert_eq!(Sha1::digest(&once), stored);
    }
}
