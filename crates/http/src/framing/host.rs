//! The value of `Host`, the authority of a target and `:authority` (RFC 9110 §7.2, RFC 3986 §3.2.2).

use std::borrow::Cow;
use std::fmt;

use crate::uri::is_literal_byte;

/// A checked host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host<'a> {
    /// Lower case, without port and without one trailing dot; an IP literal keeps its brackets.
    pub name: Cow<'a, [u8]>,
    /// The port, if there was one other than 0.
    pub port: Option<u16>,
}

/// A malformed host: always a 400. `Display` is nginx's message for the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostError;

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("client sent invalid host header")
    }
}

impl std::error::Error for HostError {}

/// Takes `host[:port]` apart as nginx's `ngx_http_validate_host` does.
pub fn validate_host(value: &[u8]) -> Result<Host<'_>, HostError> {
    let (name, rest) = if value.first() == Some(&b'[') {
        let close = memchr::memchr(b']', value).ok_or(HostError)?;
        if !value[1..close].iter().all(|&b| is_literal_byte(b)) {
            return Err(HostError);
        }
        value.split_at(close + 1)
    } else {
        let end = memchr::memchr(b':', value).unwrap_or(value.len());
        if !value[..end].iter().all(|&b| is_name_byte(b)) {
            return Err(HostError);
        }
        value.split_at(end)
    };
    // One pass for both questions: every request has a host.
    let (mut before, mut has_dots, mut has_upper) = (0, false, false);
    for &b in name {
        has_dots |= b == b'.' && before == b'.';
        has_upper |= b.is_ascii_uppercase();
        before = b;
    }
    if has_dots {
        return Err(HostError);
    }
    let port = match rest {
        [] => None,
        [b':', digits @ ..] => parse_port(digits)?,
        _ => return Err(HostError),
    };
    let name = name.strip_suffix(b".").unwrap_or(name);
    if name.is_empty() {
        return Err(HostError);
    }
    let name = if has_upper { Cow::Owned(name.to_ascii_lowercase()) } else { Cow::Borrowed(name) };
    Ok(Host { name, port })
}

/// reg-name of RFC 3986: unreserved, sub-delims and percent-encoding.
fn is_name_byte(b: u8) -> bool {
    b == b'%' || (b != b':' && is_literal_byte(b))
}

/// Digits, perhaps none; above 65535 is an error, 0 counts as none.
fn parse_port(digits: &[u8]) -> Result<Option<u16>, HostError> {
    let mut port: u16 = 0;
    for &b in digits {
        let digit = char::from(b).to_digit(10).ok_or(HostError)? as u16;
        port = port.checked_mul(10).and_then(|p| p.checked_add(digit)).ok_or(HostError)?;
    }
    Ok((port != 0).then_some(port))
}
