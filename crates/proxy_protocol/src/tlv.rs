//! Type-length-value fields of version 2 (§2.2.4 ff.), by the names that nginx's variables have.

use super::ProxyHeader;
use std::borrow::Cow;
use std::fmt;

/// Fields by name.
const FIELDS: &[(&str, u8)] =
    &[("alpn", 0x01), ("authority", 0x02), ("unique_id", 0x05), ("ssl", SSL), ("netns", 0x30)];
/// Fields inside of `ssl`, behind `ssl_`.
const SSL_FIELDS: &[(&str, u8)] =
    &[("version", 0x21), ("cn", 0x22), ("cipher", 0x23), ("sig_alg", 0x24), ("key_alg", 0x25)];
const SSL: u8 = 0x20;

/// Why a field cannot be had, other than that it was not sent. `Display` is what nginx logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlvError {
    /// The fields do not fit into their header.
    Broken,
    /// Behind `0x` there is no hexadecimal number.
    InvalidNumber(Box<str>),
    /// There is no type of this name.
    UnknownName(Box<str>),
}

impl fmt::Display for TlvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlvError::Broken => f.write_str("broken PROXY protocol TLV"),
            TlvError::InvalidNumber(name) => write!(f, "invalid PROXY protocol TLV \"{name}\""),
            TlvError::UnknownName(name) => write!(f, "unknown PROXY protocol TLV \"{name}\""),
        }
    }
}

impl std::error::Error for TlvError {}

impl ProxyHeader {
    /// The field `name`: one of nginx's names, `0x` with a type in hexadecimal, or either behind `ssl_` for a field
    /// inside of `ssl`. `ssl_verify` is the result of the verification as a number. Of several the first counts.
    pub fn tlv(&self, name: &str) -> Result<Option<Cow<'_, [u8]>>, TlvError> {
        let Some(inner) = name.strip_prefix("ssl_") else {
            return Ok(named(&self.tlvs, FIELDS, name, name)?.map(Cow::Borrowed));
        };
        let Some(ssl) = find(&self.tlvs, SSL)? else { return Ok(None) };
        // §2.2.6: one byte of flags, then the result of the verification.
        let ([_, verify @ ..], fields) = ssl.split_first_chunk::<5>().ok_or(TlvError::Broken)?;
        if inner == "verify" {
            return Ok(Some(Cow::Owned(u32::from_be_bytes(*verify).to_string().into_bytes())));
        }
        Ok(named(fields, SSL_FIELDS, inner, name)?.map(Cow::Borrowed))
    }
}

fn named<'a>(
    tlvs: &'a [u8],
    fields: &[(&str, u8)],
    name: &str,
    full_name: &str,
) -> Result<Option<&'a [u8]>, TlvError> {
    if let Some(digits) = name.strip_prefix("0x") {
        let is_hex = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let number = if is_hex { u64::from_str_radix(digits, 16).ok() } else { None };
        return match number.map(u8::try_from) {
            None => Err(TlvError::InvalidNumber(full_name.into())),
            Some(Err(_)) => Ok(None),
            Some(Ok(kind)) => find(tlvs, kind),
        };
    }
    match fields.iter().find(|(have, _)| *have == name) {
        Some(&(_, kind)) => find(tlvs, kind),
        None => Err(TlvError::UnknownName(full_name.into())),
    }
}

/// The value of the first field of type `kind`.
fn find(mut tlvs: &[u8], kind: u8) -> Result<Option<&[u8]>, TlvError> {
    while let Some((&have, rest)) = tlvs.split_first() {
        let (len, rest) = rest.split_first_chunk::<2>().ok_or(TlvError::Broken)?;
        let (value, rest) =
            rest.split_at_checked(usize::from(u16::from_be_bytes(*len))).ok_or(TlvError::Broken)?;
        if have == kind {
            return Ok(Some(value));
        }
        tlvs = rest;
    }
    Ok(None)
}
