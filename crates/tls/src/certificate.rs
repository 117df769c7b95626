//! X.509 certificates as data (RFC 5280 §4): what handshakes and the `$ssl_client_…` variables need.

use crate::der::{self, Element, Reader};
use aws_lc_rs::digest;
use std::fmt::Write as _;

const AUTHORITY_INFO: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 1, 1];
const OCSP: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 48, 1];

/// A parsed certificate; it borrows the bytes.
#[derive(Clone, Debug)]
pub struct Certificate<'a> {
    /// All of it, as DER.
    pub der: &'a [u8],
    signature_algorithm: &'a [u8],
    serial: &'a [u8],
    /// The names as DER.
    pub issuer: &'a [u8],
    /// The subject's name as DER.
    pub subject: &'a [u8],
    /// The first second of its validity, since 1970.
    pub not_before: i64,
    /// The last second of its validity, since 1970.
    pub not_after: i64,
    /// `SubjectPublicKeyInfo` as DER, and what is in it.
    pub spki: &'a [u8],
    pub(crate) key_algorithm: &'a [u8],
    pub(crate) key: &'a [u8],
    /// What each is, and its value.
    extensions: Vec<(&'a [u8], &'a [u8])>,
}

/// The bytes are no certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl<'a> Certificate<'a> {
    /// Reads a certificate; nothing of it is verified.
    pub fn parse(der: &'a [u8]) -> Result<Certificate<'a>, Malformed> {
        Certificate::read(der).ok_or(Malformed)
    }

    fn read(der: &'a [u8]) -> Option<Certificate<'a>> {
        let mut outer = Reader(der);
        let mut whole = outer.sequence()?;
        if !outer.is_empty() {
            return None;
        }
        let signed = whole.take(der::SEQUENCE)?;
        let signature_algorithm = whole.take(der::SEQUENCE)?.body;
        whole.bits()?;
        if !whole.is_empty() {
            return None;
        }
        let mut r = signed.inner();
        r.optional(der::context(0))?;
        let serial = r.take(der::INTEGER)?.body;
        // RFC 5280 §4.1.1.2: the same as outside.
        if r.take(der::SEQUENCE)?.body != signature_algorithm {
            return None;
        }
        let issuer = r.take(der::SEQUENCE)?.whole;
        let mut validity = r.sequence()?;
        let (not_before, not_after) = (validity.time()?, validity.time()?);
        let subject = r.take(der::SEQUENCE)?.whole;
        let spki = r.take(der::SEQUENCE)?;
        let mut key = spki.inner();
        let (key_algorithm, key) = (key.take(der::SEQUENCE)?.body, key.bits()?);
        r.optional(der::implicit(1))?;
        r.optional(der::implicit(2))?;
        let extensions = match r.optional(der::context(3))? {
            Some(list) => extensions(list)?,
            None => Vec::new(),
        };
        r.is_empty().then_some(Certificate {
            der,
            signature_algorithm,
            serial,
            issuer,
            subject,
            not_before,
            not_after,
            spki: spki.whole,
            key_algorithm,
            key,
            extensions,
        })
    }

    /// Where its authority answers about revocation (RFC 5280 §4.2.2.1).
    pub fn ocsp_url(&self) -> Option<&'a str> {
        let (_, value) = self.extensions.iter().find(|(oid, _)| *oid == AUTHORITY_INFO)?;
        let mut list = Reader(value).sequence()?;
        while let Some(mut access) = list.sequence() {
            let (method, place) = (access.take(der::OID)?, access.any()?);
            if method.body == OCSP && place.tag == der::implicit(6) {
                return std::str::from_utf8(place.body).ok();
            }
        }
        None
    }

    /// `$ssl_client_serial`: upper-case hexadecimal.
    pub fn serial_text(&self) -> String {
        let mut bytes = self.serial;
        while let [0, rest @ ..] = bytes
            && !rest.is_empty()
        {
            bytes = rest;
        }
        hex(bytes).to_uppercase()
    }

    /// `$ssl_client_fingerprint`: SHA-1 over the certificate, in hexadecimal.
    pub fn fingerprint(&self) -> String {
        hex(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, self.der).as_ref())
    }

    /// OpenSSL's name of the algorithm that it is signed by, as far as certificates have one.
    pub fn signature_name(&self) -> Option<&'static str> {
        let oid = Reader(self.signature_algorithm).take(der::OID)?.body;
        const NAMES: &[(&[u8], &str)] = &[
            (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 5], "sha1WithRSAEncryption"),
            (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 10], "rsassaPss"),
            (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 11], "sha256WithRSAEncryption"),
            (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 12], "sha384WithRSAEncryption"),
            (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 13], "sha512WithRSAEncryption"),
            (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2], "ecdsa-with-SHA256"),
            (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3], "ecdsa-with-SHA384"),
            (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 4], "ecdsa-with-SHA512"),
            (&[0x2b, 0x65, 0x70], "ED25519"),
        ];
        NAMES.iter().find(|(have, _)| *have == oid).map(|(_, name)| *name)
    }
}

fn extensions(list: Element<'_>) -> Option<Vec<(&[u8], &[u8])>> {
    let mut r = list.inner().sequence()?;
    let mut out: Vec<(&[u8], &[u8])> = Vec::new();
    while !r.is_empty() {
        let mut one = r.sequence()?;
        let oid = one.take(der::OID)?.body;
        one.flag()?;
        let value = one.take(der::OCTET_STRING)?.body;
        // RFC 5280 §4.2: each once.
        if !one.is_empty() || out.iter().any(|(have, _)| *have == oid) {
            return None;
        }
        out.push((oid, value));
    }
    Some(out)
}

/// The parts of a name in their order; a part of several values is one entry.
fn attributes(name: &[u8]) -> Vec<Vec<(&[u8], Element<'_>)>> {
    let mut out = Vec::new();
    let Some(mut parts) = Reader(name).sequence() else { return out };
    while let Some(part) = parts.take(der::SET) {
        let mut values = Vec::new();
        let mut r = part.inner();
        while let Some(mut pair) = r.sequence() {
            if let (Some(oid), Some(value)) = (pair.take(der::OID), pair.any()) {
                values.push((oid.body, value));
            }
        }
        out.push(values);
    }
    out
}

/// Short names of attributes.
const ATTRIBUTES: &[(&[u8], &str)] = &[
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 4], "SN"),
    (&[0x55, 4, 5], "serialNumber"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "street"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x55, 4, 12], "title"),
    (&[0x55, 4, 13], "description"),
    (&[0x55, 4, 15], "businessCategory"),
    (&[0x55, 4, 17], "postalCode"),
    (&[0x55, 4, 42], "GN"),
    (&[0x55, 4, 43], "initials"),
    (&[0x55, 4, 46], "dnQualifier"),
    (&[0x55, 4, 97], "organizationIdentifier"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1], "emailAddress"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1], "UID"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC"),
];

fn attribute_name(oid: &[u8]) -> String {
    match ATTRIBUTES.iter().find(|(have, _)| *have == oid) {
        Some((_, name)) => (*name).to_string(),
        None => dotted(oid),
    }
}

fn dotted(oid: &[u8]) -> String {
    let mut out = String::new();
    let mut number = 0u64;
    for &byte in oid {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            if out.is_empty() {
                // X.690 §8.19.4: the first two are one.
                let first = (number / 40).min(2);
                let _ = write!(out, "{first}.{}", number - first * 40);
            } else {
                let _ = write!(out, ".{number}");
            }
            number = 0;
        }
    }
    out
}

/// The bytes of a string value in UTF-8.
fn text(value: &Element<'_>) -> Vec<u8> {
    match value.tag {
        // BMPString
        0x1e => {
            let (pairs, _) = value.body.as_chunks::<2>();
            let units = pairs.iter().map(|pair| u16::from_be_bytes(*pair));
            char::decode_utf16(units).map(|c| c.unwrap_or('\u{fffd}')).collect::<String>().into_bytes()
        }
        // TeletexString, as Latin-1
        0x14 => value.body.iter().map(|&byte| char::from(byte)).collect::<String>().into_bytes(),
        _ => value.body.to_vec(),
    }
}

/// A name as `$ssl_client_s_dn` shows it (RFC 2253): the last part first, everything that is not ASCII escaped.
pub fn rfc2253(name: &[u8]) -> String {
    written(name, true)
}

/// The same with everything that is text in UTF-8 as it is.
pub fn rfc2253_in_utf8(name: &[u8]) -> String {
    written(name, false)
}

/// The attribute of a type with this number among its like, from 0 on, in the order of the name. Control characters are escaped. `kind`: as OpenSSL
/// calls the type (`emailAddress`).
pub fn attribute(name: &[u8], kind: &str, number: usize) -> Option<String> {
    let (oid, _) = ATTRIBUTES.iter().find(|(_, known)| *known == kind)?;
    let all = attributes(name);
    let (_, value) = all.iter().flatten().filter(|(have, _)| have == oid).nth(number)?;
    let mut out = String::new();
    for c in String::from_utf8_lossy(&text(value)).chars() {
        if c.is_ascii_control() {
            let _ = write!(out, "\\{:02X}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    Some(out)
}

fn written(name: &[u8], is_ascii: bool) -> String {
    let mut out = Vec::new();
    for (index, part) in attributes(name).iter().rev().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        for (index, (oid, value)) in part.iter().enumerate() {
            if index > 0 {
                out.push(b'+');
            }
            out.extend(attribute_name(oid).bytes());
            out.push(b'=');
            if ATTRIBUTES.iter().any(|(have, _)| have == oid) {
                escape(&text(value), is_ascii, &mut out);
            } else {
                // RFC 2253 §2.4: of a type without a name, the value as it is encoded.
                out.push(b'#');
                out.extend(hex(value.whole).to_uppercase().bytes());
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn escape(text: &[u8], is_ascii: bool, out: &mut Vec<u8>) {
    for (index, &byte) in text.iter().enumerate() {
        let is_first = index == 0;
        let is_last = index + 1 == text.len();
        match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => out.extend([b'\\', byte]),
            b'#' if is_first => out.extend(b"\\#"),
            b' ' if is_first || is_last => out.extend(b"\\ "),
            0x20..=0x7e => out.push(byte),
            _ if !byte.is_ascii() && !is_ascii => out.push(byte),
            _ => out.extend(format!("\\{byte:02X}").bytes()),
        }
    }
}

/// A name as `$ssl_client_s_dn_legacy` shows it: `/C=…/CN=…`.
pub fn oneline(name: &[u8]) -> String {
    let mut out = String::new();
    for (oid, value) in attributes(name).iter().flatten() {
        let _ = write!(out, "/{}=", attribute_name(oid));
        for &byte in value.body {
            match byte {
                0x20..0x7f => out.push(char::from(byte)),
                _ => {
                    let _ = write!(out, "\\x{byte:02X}");
                }
            }
        }
    }
    out
}

/// A time as OpenSSL prints it: `Nov 21 02:00:00 2026 GMT`.
pub fn time_text(unix_secs: i64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, secs) = (unix_secs.div_euclid(86_400), unix_secs.rem_euclid(86_400));
    let (year, month, day) = der::date(days);
    let month = MONTHS[(month - 1) as usize];
    format!("{month} {day:2} {:02}:{:02}:{:02} {year} GMT", secs / 3600, secs / 60 % 60, secs % 60)
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}
