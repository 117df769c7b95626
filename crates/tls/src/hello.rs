//! The client's first message, read only as far as the choice of a configuration needs it (RFC 8446 §4.1.2).
//!
//! The session reads it again. What is refused here is what would not even be understood there, and what the library does not
//! look at or has no alert of its own for.

use crate::limits::{HELLO_BYTES_MAX, RECORD_PLAIN_MAX};
use crate::suites::Versions;
use rustls::AlertDescription;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const TLS12: u16 = 0x0303;
const TLS13: u16 = 0x0304;
/// RFC 7507: the client has tried a higher version before.
const FALLBACK: u16 = 0x5600;
const SERVER_NAME: u16 = 0;
const GROUPS: u16 = 10;
const SCHEMES: u16 = 13;
const ALPN: u16 = 16;
const SESSIONS: u16 = 41;
const EARLY_DATA: u16 = 42;
const VERSIONS: u16 = 43;
const KEY_SHARE: u16 = 51;

/// What a client offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// The version that it is written in, 1.2 for 1.3.
    pub version: u16,
    /// The name it wants to reach (RFC 6066 §3), as sent.
    pub server_name: Option<Box<str>>,
    /// Cipher suites, in the client's order.
    pub ciphers: Box<[u16]>,
    /// Groups, in the client's order; empty without the extension.
    pub groups: Box<[u16]>,
    /// Signature schemes, in the client's order; empty without the extension.
    pub schemes: Box<[u16]>,
    /// Protocol versions; empty: only what the legacy field says (1.2 or older).
    pub versions: Box<[u16]>,
    /// Protocols (RFC 7301), in the client's order.
    pub alpn: Vec<Box<[u8]>>,
    /// Groups that it has sent keys of; nothing without the extension.
    pub shares: Option<Box<[u16]>>,
    /// What else it brings along.
    pub offered: Offered,
}

/// What a client brings along.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offered {
    /// A session of TLS 1.3 to go on with (RFC 8446 §4.2.11).
    pub session: bool,
    /// Data behind its ClientHello (RFC 8446 §4.2.10).
    pub early_data: bool,
}

/// What the bytes so far are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// More must come.
    Partial,
    /// A whole ClientHello.
    Complete(Box<Hello>),
}

/// The bytes are no ClientHello, or none that may be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoHello {
    /// RFC 8446 §6.
    pub alert: u8,
    /// As OpenSSL says it.
    pub reason: &'static str,
}

/// RFC 8446 §6.2: bytes that cannot be read.
const UNREADABLE: NoHello = no(AlertDescription::DecodeError, "length mismatch");
const UNEXPECTED: NoHello = no(AlertDescription::UnexpectedMessage, "unexpected message");
const WRONG_VERSION: NoHello = no(AlertDescription::ProtocolVersion, "wrong version number");

const fn no(alert: AlertDescription, reason: &'static str) -> NoHello {
    let alert = match alert {
        AlertDescription::UnexpectedMessage => 10,
        AlertDescription::RecordOverflow => 22,
        AlertDescription::IllegalParameter => 47,
        AlertDescription::DecodeError => 50,
        AlertDescription::ProtocolVersion => 70,
        AlertDescription::InappropriateFallback => 86,
        AlertDescription::MissingExtension => 109,
        AlertDescription::NoApplicationProtocol => 120,
        _ => 80,
    };
    NoHello { alert, reason }
}

impl NoHello {
    /// The alert as a record that is not protected.
    pub fn record(&self) -> [u8; 7] {
        [21, 3, 3, 0, 2, 2, self.alert]
    }
}

impl Hello {
    /// Reads the records at the start of a connection.
    pub fn parse(bytes: &[u8]) -> Result<Parsed, NoHello> {
        if Hello::is_incomplete(bytes)? {
            return Ok(Parsed::Partial);
        }
        let Some(message) = message(bytes)? else { return Ok(Parsed::Partial) };
        let hello = Hello::read(&mut Reader(&message)).ok_or(UNREADABLE)?;
        Ok(Parsed::Complete(Box::new(hello)))
    }

    /// Reads the records at the start of a connection that is only looked at: extensions with wrong lengths, and what is behind them, tell
    /// nothing, which is for whoever answers the message to refuse.
    pub fn glance(bytes: &[u8]) -> Result<Parsed, NoHello> {
        if Hello::is_incomplete(bytes)? {
            return Ok(Parsed::Partial);
        }
        let Some(message) = message(bytes)? else { return Ok(Parsed::Partial) };
        let reader = &mut Reader(&message);
        let mut hello = Hello::fixed(reader).ok_or(UNREADABLE)?;
        let rest = reader.vector16_or_rest().unwrap_or(Reader(&[]));
        hello.extensions(rest, Reader::vector16_or_rest);
        Ok(Parsed::Complete(Box::new(hello)))
    }

    /// Reads the handshake message by itself, as it comes in CRYPTO frames (RFC 9001 §4).
    pub fn parse_message(bytes: &[u8]) -> Result<Parsed, NoHello> {
        let Some((&kind, rest)) = bytes.split_first() else { return Ok(Parsed::Partial) };
        if kind != CLIENT_HELLO {
            return Err(UNEXPECTED);
        }
        let Some((len, body)) = rest.split_first_chunk::<3>() else { return Ok(Parsed::Partial) };
        let len = u32::from_be_bytes([0, len[0], len[1], len[2]]) as usize;
        if len > HELLO_BYTES_MAX {
            return Err(UNREADABLE);
        }
        match body.get(..len) {
            None => Ok(Parsed::Partial),
            Some(body) => Ok(Parsed::Complete(Box::new(Hello::read(&mut Reader(body)).ok_or(UNREADABLE)?))),
        }
    }

    /// Whether more must come, as far as that is known at once: a ClientHello that comes byte by byte must not be looked through each
    /// time.
    fn is_incomplete(bytes: &[u8]) -> Result<bool, NoHello> {
        if let Some(&[HANDSHAKE, 3, _, _, _, CLIENT_HELLO, a, b, c]) = bytes.first_chunk::<9>() {
            let need = u32::from_be_bytes([0, a, b, c]) as usize;
            if need <= HELLO_BYTES_MAX && bytes.len() < 9 + need {
                return records_are_sound(bytes).map(|()| true);
            }
        }
        Ok(false)
    }

    /// What stands before the extensions.
    fn fixed(r: &mut Reader<'_>) -> Option<Hello> {
        let mut hello = Hello { version: r.u16()?, ..Hello::default() };
        // random, legacy_session_id
        r.take(32)?;
        r.vector8()?;
        // None is for `check` to refuse: who only looks at a ClientHello needs none.
        hello.ciphers = r.vector16()?.pairs()?;
        r.vector8()?;
        Some(hello)
    }

    fn read(r: &mut Reader<'_>) -> Option<Hello> {
        let mut hello = Hello::fixed(r)?;
        if r.0.is_empty() {
            return Some(hello);
        }
        let extensions = r.vector16()?;
        hello.extensions(extensions, Reader::vector16)?;
        r.0.is_empty().then_some(hello)
    }

    /// Reads extensions, with bodies as `body_of` takes them, up to one that is not understood.
    fn extensions<'a>(
        &mut self,
        mut extensions: Reader<'a>,
        body_of: fn(&mut Reader<'a>) -> Option<Reader<'a>>,
    ) -> Option<()> {
        while !extensions.0.is_empty() {
            let kind = extensions.u16()?;
            self.extension(kind, body_of(&mut extensions)?)?;
        }
        Some(())
    }

    fn extension(&mut self, kind: u16, mut body: Reader<'_>) -> Option<()> {
        match kind {
            SERVER_NAME => self.server_name = server_name(&mut body.vector16()?)?,
            GROUPS => self.groups = body.vector16()?.numbers()?,
            SCHEMES => self.schemes = body.vector16()?.numbers()?,
            VERSIONS => self.versions = body.vector8()?.numbers()?,
            KEY_SHARE => self.shares = Some(shares(&mut body.vector16()?)?),
            SESSIONS => self.offered.session = true,
            EARLY_DATA => self.offered.early_data = true,
            ALPN => {
                let mut list = body.vector16()?;
                while !list.0.is_empty() || self.alpn.is_empty() {
                    let name = list.vector8().filter(|name| !name.0.is_empty())?;
                    self.alpn.push(name.0.into());
                }
            }
            _ => {}
        }
        Some(())
    }
}

impl Hello {
    /// Whether a server that has these versions and protocols may answer it: what the library does not look at, or does not
    /// tell clients as RFC 8446 names it.
    pub fn check(&self, versions: Versions, alpn: &[&[u8]]) -> Result<(), NoHello> {
        // RFC 8446 appendix D.5: SSL 3.0 and what was before it, whatever else is offered.
        if self.version <= 0x0300 {
            return Err(no(AlertDescription::ProtocolVersion, "unsupported protocol"));
        }
        // RFC 8446 §4.1.2: two bytes at least.
        if self.ciphers.is_empty() {
            return Err(UNREADABLE);
        }
        let has_13 = versions.tls13 && self.versions.contains(&TLS13);
        if versions.tls13 && !has_13 && self.has_12() && self.ciphers.contains(&FALLBACK) {
            return Err(no(AlertDescription::InappropriateFallback, "inappropriate fallback"));
        }
        if has_13 {
            self.check_13()?;
        }
        let is_known = |name: &[u8]| alpn.contains(&name);
        if !self.alpn.is_empty() && !alpn.is_empty() && !self.alpn.iter().any(|name| is_known(name)) {
            return Err(no(AlertDescription::NoApplicationProtocol, "no application protocol"));
        }
        Ok(())
    }

    fn has_12(&self) -> bool {
        if self.versions.is_empty() { self.version >= TLS12 } else { self.versions.contains(&TLS12) }
    }

    /// RFC 8446 §9.2: what has to be there, and §4.2.8: keys are of groups that were offered.
    fn check_13(&self) -> Result<(), NoHello> {
        let missing = |is_missing: bool, reason| {
            if is_missing { Err(no(AlertDescription::MissingExtension, reason)) } else { Ok(()) }
        };
        missing(self.schemes.is_empty() && !self.offered.session, "missing sigalgs extension")?;
        missing(
            self.groups.is_empty() && (self.shares.is_some() || !self.offered.session),
            "missing groups",
        )?;
        missing(self.shares.is_none() && !self.groups.is_empty(), "no suitable key share")?;
        let shares = self.shares.as_deref().unwrap_or_default();
        if shares.iter().any(|group| !self.groups.contains(group)) {
            return Err(no(AlertDescription::IllegalParameter, "bad key share"));
        }
        Ok(())
    }
}

/// Whether all record heads that are there are those of handshake records. Looks at heads only.
fn records_are_sound(bytes: &[u8]) -> Result<(), NoHello> {
    let mut rest = bytes;
    while let Some(head) = rest.first_chunk::<5>() {
        let len = record_len(*head)?;
        rest = rest.get(5 + len..).unwrap_or_default();
    }
    if rest.first().is_none_or(|&kind| kind == HANDSHAKE) { Ok(()) } else { Err(UNEXPECTED) }
}

/// RFC 8446 §5.1: no record without content, none too large; any 3.x is let through.
fn record_len([kind, major, _, a, b]: [u8; 5]) -> Result<usize, NoHello> {
    match usize::from(u16::from_be_bytes([a, b])) {
        _ if kind != HANDSHAKE => Err(UNEXPECTED),
        _ if major != 3 => Err(WRONG_VERSION),
        0 => Err(UNEXPECTED),
        len if len > RECORD_PLAIN_MAX => Err(no(AlertDescription::RecordOverflow, "packet length too long")),
        len => Ok(len),
    }
}

/// The handshake message in the records, without its head; `None` if it is not all there.
fn message(bytes: &[u8]) -> Result<Option<Vec<u8>>, NoHello> {
    let mut rest = bytes;
    let mut message = Vec::new();
    loop {
        if let Some((&kind, tail)) = message.split_first() {
            if kind != CLIENT_HELLO {
                return Err(UNEXPECTED);
            }
            if let Some((len, body)) = tail.split_first_chunk::<3>() {
                let len = u32::from_be_bytes([0, len[0], len[1], len[2]]) as usize;
                if len > HELLO_BYTES_MAX {
                    return Err(UNREADABLE);
                }
                if body.len() >= len {
                    return Ok(Some(body[..len].to_vec()));
                }
            }
        }
        match rest.first() {
            Some(&HANDSHAKE) | None => {}
            // SSL 2.0 begins with a length.
            Some(&first) if first & 0x80 != 0 && rest.len() == bytes.len() => return Err(WRONG_VERSION),
            Some(_) => return Err(UNEXPECTED),
        }
        let Some((head, tail)) = rest.split_first_chunk::<5>() else { return Ok(None) };
        let len = record_len(*head)?;
        let part = &tail[..len.min(tail.len())];
        // Even before the record is whole its first byte says what it is.
        if message.is_empty() && part.first().is_some_and(|&kind| kind != CLIENT_HELLO) {
            return Err(UNEXPECTED);
        }
        if part.len() < len {
            return Ok(None);
        }
        message.extend_from_slice(part);
        rest = &tail[len..];
    }
}

/// The groups of a list of keys.
fn shares(list: &mut Reader<'_>) -> Option<Box<[u16]>> {
    let mut groups = Vec::new();
    while !list.0.is_empty() {
        groups.push(list.u16()?);
        list.vector16()?;
    }
    Some(groups.into())
}

/// The first host name of a server_name extension; `None` for bytes that are none.
#[allow(clippy::option_option)]
fn server_name(list: &mut Reader<'_>) -> Option<Option<Box<str>>> {
    let mut name = None;
    while !list.0.is_empty() {
        let kind = list.take(1)?[0];
        let text = list.vector16()?;
        if kind == 0 && name.is_none() {
            name = Some(std::str::from_utf8(text.0).ok()?.into());
        }
    }
    Some(name)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count)?;
        self.0 = tail;
        Some(head)
    }

    fn u16(&mut self) -> Option<u16> {
        let (head, tail) = self.0.split_first_chunk::<2>()?;
        self.0 = tail;
        Some(u16::from_be_bytes(*head))
    }

    fn vector8(&mut self) -> Option<Reader<'a>> {
        let len = usize::from(self.take(1)?[0]);
        self.take(len).map(Reader)
    }

    fn vector16(&mut self) -> Option<Reader<'a>> {
        let len = usize::from(self.u16()?);
        self.take(len).map(Reader)
    }

    /// As much as there is of what a length of two bytes says.
    fn vector16_or_rest(&mut self) -> Option<Reader<'a>> {
        let len = usize::from(self.u16()?).min(self.0.len());
        self.take(len).map(Reader)
    }

    fn pairs(self) -> Option<Box<[u16]>> {
        let (pairs, rest) = self.0.as_chunks::<2>();
        rest.is_empty().then(|| pairs.iter().map(|pair| u16::from_be_bytes(*pair)).collect())
    }

    /// One at least.
    fn numbers(self) -> Option<Box<[u16]>> {
        self.pairs().filter(|numbers| !numbers.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector16(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as u16).to_be_bytes(), bytes].concat()
    }

    fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &vector16(body)].concat()
    }

    fn hello() -> Vec<u8> {
        let name = [&[0][..], &vector16(b"example.com")].concat();
        let extensions = [
            extension(SERVER_NAME, &vector16(&name)),
            extension(GROUPS, &vector16(&[0x11, 0xec, 0, 0x1d])),
            extension(ALPN, &vector16(b"\x02h2\x08http/1.1")),
            extension(VERSIONS, &[4, 3, 4, 3, 3]),
            extension(0xff01, &[0]),
        ]
        .concat();
        let body =
            [&[3, 3][..], &[7; 32], &[0], &vector16(&[0x13, 1, 0xc0, 0x2f]), &[1, 0], &vector16(&extensions)]
                .concat();
        [&[CLIENT_HELLO][..], &(body.len() as u32).to_be_bytes()[1..], &body].concat()
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        message.chunks(size).flat_map(|part| [&[HANDSHAKE, 3, 1][..], &vector16(part)].concat()).collect()
    }

    #[test]
    fn a_hello_in_any_pieces_is_read() {
        for size in [1, 3, 50, 4096] {
            let bytes = records(&hello(), size);
            for end in 0..bytes.len() {
                assert_eq!(Hello::parse(&bytes[..end]), Ok(Parsed::Partial), "{end} of records of {size}");
            }
            let Ok(Parsed::Complete(hello)) = Hello::parse(&bytes) else { panic!("records of {size}") };
            assert_eq!(hello.server_name.as_deref(), Some("example.com"));
            assert_eq!((&*hello.ciphers, &*hello.groups), (&[0x1301, 0xc02f][..], &[0x11ec, 0x1d][..]));
            assert_eq!(&*hello.versions, &[0x0304, 0x0303]);
            assert_eq!(hello.alpn.iter().map(|p| &**p).collect::<Vec<_>>(), [&b"h2"[..], b"http/1.1"]);
        }
    }

    /// As nginx's `stream_ssl_preread_protocol.t` sends it: the length of the extension is more than there is.
    #[test]
    fn a_hello_with_wrong_lengths_tells_what_can_be_read() {
        let with = |extensions: &[u8]| {
            let body = [&[3, 3][..], &[7; 32], &[0], &vector16(&[]), &[0], &vector16(extensions)].concat();
            let message = [&[CLIENT_HELLO][..], &(body.len() as u32).to_be_bytes()[1..], &body].concat();
            records(&message, 4096)
        };
        let glance = |extensions: &[u8]| {
            let bytes = with(extensions);
            (0..bytes.len()).for_each(|end| assert_eq!(Hello::glance(&bytes[..end]), Ok(Parsed::Partial)));
            assert!(extensions.len() < 7 || Hello::parse(&bytes).is_err());
            let Ok(Parsed::Complete(hello)) = Hello::glance(&bytes) else { panic!("{extensions:?}") };
            hello
        };
        assert_eq!(&*glance(&[0, 0x2b, 0, 7, 2, 3, 4]).versions, &[TLS13]);
        let name = [&[0][..], &vector16(b"a.test")].concat();
        let named = [extension(SERVER_NAME, &vector16(&name)), vec![0, 10, 0, 9, 0, 9, 1]].concat();
        let hello = glance(&named);
        assert_eq!((hello.server_name.as_deref(), hello.groups.len()), (Some("a.test"), 0));
        assert_eq!(glance(&[]).server_name, None);
        // A name that is cut off is none.
        assert_eq!(glance(&[0, 0, 0, 9, 0, 7, 0, 0, 4, b'a']).server_name, None);
    }

    #[test]
    fn what_is_no_hello_is_refused() {
        let whole = records(&hello(), 4096);
        let changed = |at: usize, to: u8| {
            let mut bytes = whole.clone();
            bytes[at] = to;
            bytes
        };
        let cases: &[&[u8]] = &[
            b"GET / HTTP/1.1\r\n",
            &[HANDSHAKE, 3, 1, 0, 0],
            &[HANDSHAKE, 3, 1, 0xff, 0xff],
            &[HANDSHAKE, 3, 1, 0, 4, 2],
            &[HANDSHAKE, 3, 1, 0, 4, 1, 0xff, 0, 0],
            &changed(0, 23),
            &changed(1, 2),
            // The session's id is longer than what is left.
            &changed(5 + 4 + 34, 0xff),
        ];
        for bytes in cases {
            assert!(Hello::parse(bytes).is_err(), "{bytes:x?}");
        }
        // No change of a byte is a panic.
        for at in 0..whole.len() {
            for to in [0, 1, 0x7f, 0xff] {
                let _ = Hello::parse(&changed(at, to));
            }
        }
    }
}
