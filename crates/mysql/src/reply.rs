//! The short answers of a server: OK, ERR and EOF packets, and what OK packets tell of the session.

use crate::capability::Capabilities;
use crate::error::ProtocolError;
use crate::limits::GTID_BYTES_MAX;
use crate::wire::{Reader, put_number};

/// Bits of a server's status.
pub mod status {
    /// A transaction is open.
    pub const IN_TRANSACTION: u16 = 1;
    /// Each statement is a transaction of its own.
    pub const AUTOCOMMIT: u16 = 2;
    /// Another result follows.
    pub const MORE_RESULTS: u16 = 8;
    /// A cursor is open: rows come when they are fetched.
    pub const CURSOR_EXISTS: u16 = 0x40;
    /// The cursor has no more rows, and is closed.
    pub const LAST_ROW_SENT: u16 = 0x80;
    /// A backslash in a text is a character as others.
    pub const NO_BACKSLASH_ESCAPES: u16 = 0x200;
    /// An OK packet tells of changes to the session.
    pub const SESSION_CHANGED: u16 = 0x4000;
}

/// The first byte of an OK packet.
pub const OK: u8 = 0;
/// The first byte of an EOF packet, and of an OK packet in its place.
pub const EOF: u8 = 0xfe;
/// The first byte of an ERR packet.
pub const ERR: u8 = 0xff;

/// What a server tells of the transactions that it has written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Tracked {
    /// Nothing was written.
    #[default]
    Nothing,
    /// It ended with this one: MariaDB's `domain-server-number`, or a list of such.
    MariaDb(String),
    /// MySQL's set: `uuid:numbers`.
    MySql(String),
    /// Something that cannot be read.
    Unknown,
}

impl Tracked {
    /// What MariaDB has in `@@last_gtid`: empty, or a transaction.
    pub fn last_gtid(value: &[u8]) -> Tracked {
        if value.is_empty() { Tracked::Nothing } else { checked(value, Tracked::MariaDb) }
    }

    /// A set of MySQL's.
    pub fn gtids(value: &[u8]) -> Tracked {
        if value.is_empty() { Tracked::Nothing } else { checked(value, Tracked::MySql) }
    }
}

/// An OK packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OkPacket {
    /// Rows that were changed.
    pub affected: u64,
    /// The last number of an AUTO_INCREMENT column.
    pub insert_id: u64,
    /// See [`status`].
    pub status: u16,
    /// Warnings.
    pub warnings: u16,
    /// What was written.
    pub written: Tracked,
}

impl OkPacket {
    /// Reads one, whichever its first byte is, as these capabilities have it.
    pub fn parse(message: &[u8], capabilities: Capabilities) -> Result<OkPacket, ProtocolError> {
        OkPacket::fields(message, capabilities).ok_or(ProtocolError::Malformed("OK packet"))
    }

    fn fields(message: &[u8], capabilities: Capabilities) -> Option<OkPacket> {
        let mut from = Reader::new(message);
        from.u8()?;
        let (affected, insert_id) = (from.number()?, from.number()?);
        let (status, warnings) = (from.u16()?, from.u16()?);
        let mut written = Tracked::Nothing;
        if capabilities.has(Capabilities::SESSION_TRACK) && status & status::SESSION_CHANGED != 0 {
            from.text()?;
            written = tracked(Reader::new(from.text()?)).unwrap_or(Tracked::Unknown);
        }
        Some(OkPacket { affected, insert_id, status, warnings, written })
    }

    /// Writes one that tracks nothing.
    pub fn write(&self) -> Vec<u8> {
        let mut out = vec![OK];
        put_number(&mut out, self.affected);
        put_number(&mut out, self.insert_id);
        out.extend_from_slice(&(self.status & !status::SESSION_CHANGED).to_le_bytes());
        out.extend_from_slice(&self.warnings.to_le_bytes());
        out
    }
}

/// Entries of changes: a type, a text whose form the type says. Those that are not known are passed over.
fn tracked(mut from: Reader<'_>) -> Option<Tracked> {
    let mut found = Tracked::Nothing;
    while !from.is_empty() {
        let (kind, mut data) = (from.u8()?, Reader::new(from.text()?));
        match kind {
            // System variables: names and values.
            0 => {
                while !data.is_empty() {
                    let (name, value) = (data.text()?, data.text()?);
                    if name == b"last_gtid" && !value.is_empty() {
                        found = checked(value, Tracked::MariaDb);
                    }
                }
            }
            // GTIDs, in an encoding of which there is one.
            3 => {
                data.u8()?;
                let value = data.text()?;
                if !value.is_empty() {
                    found = checked(value, Tracked::MySql);
                }
            }
            _ => {}
        }
    }
    Some(found)
}

/// GTIDs are written into statements: nothing else may be in them than what they are made of.
fn checked(value: &[u8], kind: fn(String) -> Tracked) -> Tracked {
    let is_good = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b',' | b':');
    // MySQL writes line breaks between the sets of several servers.
    let bare: Vec<u8> = value.iter().copied().filter(|byte| !matches!(byte, b'\n' | b' ')).collect();
    match String::from_utf8(bare) {
        Ok(text) if text.len() <= GTID_BYTES_MAX && text.bytes().all(|byte| is_good(&byte)) => kind(text),
        _ => Tracked::Unknown,
    }
}

/// An ERR packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrPacket {
    /// The error's number.
    pub code: u16,
    /// SQLSTATE.
    pub state: [u8; 5],
    /// The text.
    pub message: Vec<u8>,
}

impl ErrPacket {
    /// One of our own.
    pub fn new(code: u16, state: &[u8; 5], message: &str) -> ErrPacket {
        ErrPacket { code, state: *state, message: message.as_bytes().to_vec() }
    }

    /// Reads one. A server that refuses a connection before the login writes no SQLSTATE.
    pub fn parse(message: &[u8]) -> Result<ErrPacket, ProtocolError> {
        let fields = || {
            let mut from = Reader::new(message);
            (from.u8()? == ERR).then_some(())?;
            let code = from.u16()?;
            let rest = from.rest();
            let (state, text) = match rest.split_first_chunk::<6>() {
                Some(([b'#', state @ ..], text)) => (*state, text),
                _ => (*b"HY000", rest),
            };
            Some(ErrPacket { code, state, message: text.to_vec() })
        };
        fields().ok_or(ProtocolError::Malformed("ERR packet"))
    }

    /// Writes it.
    pub fn write(&self) -> Vec<u8> {
        let mut out = vec![ERR];
        out.extend_from_slice(&self.code.to_le_bytes());
        out.push(b'#');
        out.extend_from_slice(&self.state);
        out.extend_from_slice(&self.message);
        out
    }
}

/// Why a server refuses a read that another one may carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It ends, or has ended the session, or is a node without its cluster.
    Leaving,
    /// Something that the statement calls would write.
    ReadOnly,
}

impl Unfit {
    /// By an error's number.
    pub fn of(code: u16) -> Option<Unfit> {
        match code {
            // Galera: "WSREP has not yet prepared node for application use".
            1047 => Some(Unfit::Leaving),
            // In the course of a shutdown, or after it.
            1053 | 1077 | 1079 => Some(Unfit::Leaving),
            // Killed: MariaDB's number, and MySQL's.
            1927 | 3169 => Some(Unfit::Leaving),
            // "The server is running with the --read-only option", InnoDB's own such mode, and a transaction that may not write.
            1290 | 1836 | 1792 => Some(Unfit::ReadOnly),
            _ => None,
        }
    }
}

impl std::fmt::Display for ErrPacket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "error {}: {}", self.code, self.message.escape_ascii())
    }
}

/// What an EOF packet says: warnings and status.
pub fn parse_eof(message: &[u8]) -> Result<(u16, u16), ProtocolError> {
    let fields = || {
        let mut from = Reader::new(message);
        (from.u8()? == EOF && message.len() < 9).then_some(())?;
        Some((from.u16()?, from.u16()?))
    };
    fields().ok_or(ProtocolError::Malformed("EOF packet"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::put_text;

    fn ok_with(kind: u8, entries: &[&[u8]]) -> Vec<u8> {
        let mut data = Vec::new();
        if kind == 3 {
            data.push(0);
        }
        entries.iter().for_each(|entry| put_text(&mut data, entry));
        let mut changes = vec![kind];
        put_text(&mut changes, &data);
        let mut out = OkPacket { affected: 300, insert_id: 7, status: 2, ..OkPacket::default() }.write();
        let at = out.len() - 4;
        out[at + 1] |= 0x40;
        put_text(&mut out, b"info");
        put_text(&mut out, &changes);
        out
    }

    fn written(message: &[u8]) -> Tracked {
        let ok = OkPacket::parse(message, Capabilities::SESSION_TRACK).unwrap();
        assert_eq!((ok.affected, ok.insert_id), (300, 7));
        ok.written
    }

    #[test]
    fn writes_are_tracked() {
        assert_eq!(
            written(&ok_with(0, &[b"a", b"b", b"last_gtid", b"0-1-23"])),
            Tracked::MariaDb("0-1-23".into())
        );
        assert_eq!(written(&ok_with(0, &[b"autocommit", b"ON"])), Tracked::Nothing);
        assert_eq!(written(&ok_with(3, &[b"u-1:1-5,\nv:7"])), Tracked::MySql("u-1:1-5,v:7".into()));
        assert_eq!(written(&ok_with(7, &[b"whatever"])), Tracked::Nothing);
        assert_eq!(Tracked::last_gtid(b"0-1-23"), Tracked::MariaDb("0-1-23".into()));
        assert_eq!(Tracked::gtids(b"u-1:1-5,\nv:7"), Tracked::MySql("u-1:1-5,v:7".into()));
        assert_eq!((Tracked::last_gtid(b""), Tracked::last_gtid(b"'")), (Tracked::Nothing, Tracked::Unknown));
        // A server that lies: what is no GTID never comes into a statement.
        assert_eq!(written(&ok_with(0, &[b"last_gtid", b"0-1-1') OR SLEEP(9"])), Tracked::Unknown);
        assert_eq!(written(&ok_with(0, &[b"last_gtid", &[b'1'; 5000]])), Tracked::Unknown);
    }

    #[test]
    fn what_is_cut_off_is_malformed() {
        let whole = ok_with(0, &[b"last_gtid", b"0-1-23"]);
        for length in 0..whole.len() {
            assert!(OkPacket::parse(&whole[..length], Capabilities::SESSION_TRACK).is_err(), "{length}");
        }
        assert!(ErrPacket::parse(b"\xff\x01").is_err() && ErrPacket::parse(b"\x00").is_err());
        assert!(parse_eof(b"\xfe\0\0").is_err() && parse_eof(b"\xfe\0\0\x22\0\0\0\0\0\0").is_err());
        assert_eq!(parse_eof(b"\xfe\x01\0\x22\0"), Ok((1, 0x22)));
    }

    #[test]
    fn errors_are_read_with_and_without_their_state() {
        let error = ErrPacket::new(1053, b"08S01", "Server shutdown in progress");
        assert_eq!(ErrPacket::parse(&error.write()), Ok(error));
        let early = ErrPacket::parse(b"\xff\x10\x04Too many connections").unwrap();
        assert_eq!(
            (early.code, early.state, &early.message[..]),
            (1040, *b"HY000", &b"Too many connections"[..])
        );
    }
}
