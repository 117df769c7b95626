//! The PROXY protocol, versions 1 and 2: what a load balancer sends ahead of a connection to say who the client is
//! (HAProxy, `doc/proxy-protocol.txt`; sections below are its).
//!
//! Who may send a header is for the caller to know; here it is only read. Commands, transports and address families
//! that nginx does not know are skipped with their addresses, as nginx does, although §2.2 would drop the connection.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod fuzz;
pub mod limits;
#[cfg(test)]
mod tests;
mod tlv;

pub use tlv::TlvError;

use limits::{PROXY_TEXT_BYTES_MAX, PROXY_V1_BYTES_MAX, PROXY_V2_BYTES_MAX};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const V1_START: &[u8] = b"PROXY ";
/// §2.2: chosen so that no other protocol begins like that.
const V2_SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family and transport, length.
const V2_FIXED_BYTES: usize = 16;

/// What a header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// The client.
    pub source: SocketAddr,
    /// What the client connected to.
    pub destination: SocketAddr,
    /// Version 2: the bytes behind the addresses, not looked at yet.
    tlvs: Box<[u8]>,
}

/// How far [`parse`] came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Call again with more bytes.
    Partial,
    /// The header is whole.
    Complete {
        /// Its bytes.
        len: usize,
        /// What it says; `None` without addresses (`UNKNOWN`, `LOCAL`): the connection is the sender's own.
        header: Option<ProxyHeader>,
    },
}

/// Why a connection does not begin with a header. `Display` is what nginx logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyError {
    /// No header, or a malformed one. Holds its first line, escaped.
    Broken(Box<str>),
    /// Version 2's signature with another version.
    UnknownVersion(u8),
    /// Longer than [`PROXY_V2_BYTES_MAX`].
    TooLarge,
    /// Version 2: shorter than its addresses.
    TooShort,
}

impl ProxyError {
    /// `buf` is no header, or its end came too early.
    #[cold]
    pub fn broken(buf: &[u8]) -> ProxyError {
        let buf = &buf[..buf.len().min(PROXY_TEXT_BYTES_MAX)];
        let end = memchr::memchr2(b'\r', b'\n', buf).unwrap_or(buf.len());
        ProxyError::Broken(buf[..end].escape_ascii().to_string().into())
    }
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProxyError::Broken(line) => write!(f, "broken header: \"{line}\""),
            ProxyError::UnknownVersion(version) => write!(f, "unknown PROXY protocol version: {version}"),
            ProxyError::TooLarge => f.write_str("header is too large"),
            ProxyError::TooShort => f.write_str("header is too short for its addresses"),
        }
    }
}

impl std::error::Error for ProxyError {}

/// The header of version 1 that tells a server about a client and what it has connected to (§2.1); `None`: the connection is of
/// a unix socket, or its ends are of different families, as where one is not known.
pub fn write(ends: Option<(SocketAddr, SocketAddr)>) -> String {
    match ends {
        Some((source, destination)) if source.is_ipv4() == destination.is_ipv4() => {
            let family = if source.is_ipv4() { 4 } else { 6 };
            let (from, to) = (source.ip(), destination.ip());
            format!("PROXY TCP{family} {from} {to} {} {}\r\n", source.port(), destination.port())
        }
        _ => "PROXY UNKNOWN\r\n".to_string(),
    }
}

/// Reads the header that a connection's bytes begin with.
pub fn parse(buf: &[u8]) -> Result<Progress, ProxyError> {
    if begins(buf, V2_SIGNATURE) {
        v2(buf)
    } else if begins(buf, V1_START) {
        v1(buf)
    } else {
        Err(ProxyError::broken(buf))
    }
}

/// Whether `buf` begins with `start`, as far as it goes.
fn begins(buf: &[u8], start: &[u8]) -> bool {
    let len = buf.len().min(start.len());
    buf[..len] == start[..len]
}

/// §2.1: one line of text.
fn v1(buf: &[u8]) -> Result<Progress, ProxyError> {
    let window = &buf[..buf.len().min(PROXY_V1_BYTES_MAX)];
    let partial =
        || if buf.len() < PROXY_V1_BYTES_MAX { Ok(Progress::Partial) } else { Err(ProxyError::broken(buf)) };
    // Nothing that follows makes another word of it.
    let begun = &window[V1_START.len().min(window.len())..];
    if ![&b"TCP4 "[..], b"TCP6 ", b"UNKNOWN"].iter().any(|word| begins(begun, word)) {
        return Err(ProxyError::broken(buf));
    }
    let Some(end) = memchr::memchr2(b'\r', b'\n', window) else { return partial() };
    match window[end..] {
        [b'\r', b'\n', ..] => {}
        [b'\r'] => return partial(),
        _ => return Err(ProxyError::broken(buf)),
    }
    let line = window.get(V1_START.len()..end).unwrap_or_default();
    let header = match line.strip_prefix(b"UNKNOWN") {
        // "The receiver must ignore anything presented before the CRLF."
        Some(rest) if rest.is_empty() || rest[0] == b' ' => None,
        _ => Some(v1_addresses(line).ok_or_else(|| ProxyError::broken(buf))?),
    };
    Ok(Progress::Complete { len: end + 2, header })
}

/// `TCP4 SOURCE DESTINATION PORT PORT`. As in nginx either family may stand behind either word.
fn v1_addresses(line: &[u8]) -> Option<ProxyHeader> {
    let line = line.strip_prefix(b"TCP4 ").or(line.strip_prefix(b"TCP6 "))?;
    let mut parts = std::str::from_utf8(line).ok()?.split(' ');
    let mut part = || parts.next();
    let (source, destination): (IpAddr, IpAddr) = (part()?.parse().ok()?, part()?.parse().ok()?);
    let (source_port, destination_port) = (port(part()?)?, port(part()?)?);
    part().is_none().then(|| ProxyHeader {
        source: (source, source_port).into(),
        destination: (destination, destination_port).into(),
        tlvs: Box::default(),
    })
}

fn port(text: &str) -> Option<u16> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

/// §2.2: binary.
fn v2(buf: &[u8]) -> Result<Progress, ProxyError> {
    if let Some(&byte) = buf.get(V2_SIGNATURE.len())
        && byte >> 4 != 2
    {
        return Err(ProxyError::UnknownVersion(byte >> 4));
    }
    let Some(fixed) = buf.get(V2_SIGNATURE.len()..V2_FIXED_BYTES) else { return Ok(Progress::Partial) };
    let (command, family, transport) = (fixed[0] & 0x0f, fixed[1] >> 4, fixed[1] & 0x0f);
    let len = V2_FIXED_BYTES + usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    if len > PROXY_V2_BYTES_MAX {
        return Err(ProxyError::TooLarge);
    }
    let Some(body) = buf.get(V2_FIXED_BYTES..len) else { return Ok(Progress::Partial) };
    const PROXY: u8 = 1;
    const STREAM: u8 = 1;
    let header = match family {
        _ if command != PROXY || transport != STREAM => None,
        1 => Some(v2_addresses(body, |octets: [u8; 4]| Ipv4Addr::from(octets).into())?),
        2 => Some(v2_addresses(body, |octets: [u8; 16]| Ipv6Addr::from(octets).into())?),
        _ => None,
    };
    Ok(Progress::Complete { len, header })
}

/// Both addresses of `N` bytes, both ports, then TLVs.
fn v2_addresses<const N: usize>(body: &[u8], ip: fn([u8; N]) -> IpAddr) -> Result<ProxyHeader, ProxyError> {
    let short = ProxyError::TooShort;
    let (source, rest) = body.split_first_chunk().ok_or(short.clone())?;
    let (destination, rest) = rest.split_first_chunk().ok_or(short.clone())?;
    let (ports, tlvs) = rest.split_first_chunk::<4>().ok_or(short)?;
    Ok(ProxyHeader {
        source: (ip(*source), u16::from_be_bytes([ports[0], ports[1]])).into(),
        destination: (ip(*destination), u16::from_be_bytes([ports[2], ports[3]])).into(),
        tlvs: tlvs.into(),
    })
}
