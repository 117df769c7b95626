//! X.509 certificates as data (RFC 5280 §4): what verification and the `$ssl_client_…` variables need.

use crate::der::{self, Element, Reader};
use aws_lc_rs::digest;
use std::fmt::Write as _;

pub(crate) const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
pub(crate) const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
pub(crate) const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
pub(crate) const NAME_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x1e];
pub(crate) const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const POLICIES: &[u8] = &[0x55, 0x1d, 0x20];
const POLICY_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x24];
const POLICY_MAPPINGS: &[u8] = &[0x55, 0x1d, 0x21];
const INHIBIT_ANY_POLICY: &[u8] = &[0x55, 0x1d, 0x36];
const AUTHORITY_INFO: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 1, 1];
const OCSP: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 48, 1];

/// What an extension that is marked critical may be: others make the certificate unusable (RFC 5280 §4.2).
const KNOWN: &[&[u8]] = &[
    BASIC_CONSTRAINTS,
    KEY_USAGE,
    EXTENDED_KEY_USAGE,
    NAME_CONSTRAINTS,
    SUBJECT_ALT_NAME,
    POLICIES,
    POLICY_CONSTRAINTS,
    POLICY_MAPPINGS,
    INHIBIT_ANY_POLICY,
];

/// `keyUsage` bits, from the left.
pub(crate) const DIGITAL_SIGNATURE: u8 = 0;
pub(crate) const KEY_CERT_SIGN: u8 = 5;
pub(crate) const CRL_SIGN: u8 = 6;

/// A parsed certificate; it borrows the bytes.
#[derive(Clone, Debug)]
pub struct Certificate<'a> {
    pub der: &'a [u8],
    /// What the signature is over.
    pub(crate) signed: &'a [u8],
    pub(crate) signature_algorithm: &'a [u8],
    pub(crate) signature: &'a [u8],
    pub(crate) serial: &'a [u8],
    /// The names as DER.
    pub issuer: &'a [u8],
    pub subject: &'a [u8],
    pub not_before: i64,
    pub not_after: i64,
    /// `SubjectPublicKeyInfo` as DER, and what is in it.
    pub spki: &'a [u8],
    pub(crate) key_algorithm: &'a [u8],
    pub(crate) key: &'a [u8],
    extensions: Vec<Extension<'a>>,
    version: u64,
}

#[derive(Clone, Copy, Debug)]
struct Extension<'a> {
    oid: &'a [u8],
    critical: bool,
    value: &'a [u8],
}

/// The bytes are no certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl<'a> Certificate<'a> {
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
        let signature = whole.bits()?;
        if !whole.is_empty() {
            return None;
        }
        let mut r = signed.inner();
        let version = match r.optional(der::context(0))? {
            Some(version) => version.inner().number()?,
            None => 0,
        };
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
        let names = extensions.iter().find(|extension| extension.oid == SUBJECT_ALT_NAME);
        if names.is_some_and(|names| general_names(names.value).is_none()) {
            return None;
        }
        r.is_empty().then_some(Certificate {
            der,
            signed: signed.whole,
            signature_algorithm,
            signature,
            serial,
            issuer,
            subject,
            not_before,
            not_after,
            spki: spki.whole,
            key_algorithm,
            key,
            extensions,
            version,
        })
    }

    pub(crate) fn extension(&self, oid: &[u8]) -> Option<&'a [u8]> {
        self.extensions.iter().find(|extension| extension.oid == oid).map(|extension| extension.value)
    }

    pub(crate) fn has_unknown_critical(&self) -> bool {
        self.extensions.iter().any(|extension| extension.critical && !KNOWN.contains(&extension.oid))
    }

    pub(crate) fn has_extensions(&self) -> bool {
        !self.extensions.is_empty()
    }

    /// Issued by whom it names as its subject.
    pub fn is_self_issued(&self) -> bool {
        self.issuer == self.subject
    }

    /// Whether it may issue others, and the most certificates between those and the end.
    ///
    /// As OpenSSL: certificates of version 1 that issue themselves are old roots; version 3 without the extension is
    /// no authority (RFC 5280 §6.1.4 k).
    #[allow(clippy::option_option)]
    pub(crate) fn authority(&self) -> Option<Option<u64>> {
        let Some(value) = self.extension(BASIC_CONSTRAINTS) else {
            return (self.version == 0 && self.is_self_issued()).then_some(None);
        };
        let mut r = Reader(value).sequence()?;
        let is_authority = r.flag()?;
        let depth = if r.is_empty() { None } else { Some(r.number()?) };
        is_authority.then_some(depth)
    }

    /// Whether the key may be used so; without the extension for everything.
    pub(crate) fn key_may(&self, bit: u8) -> bool {
        let Some(value) = self.extension(KEY_USAGE) else { return true };
        let Some(element) = Reader(value).take(der::BIT_STRING) else { return false };
        let byte = element.body.get(1 + usize::from(bit / 8)).copied().unwrap_or(0);
        byte & (0x80 >> (bit % 8)) != 0
    }

    /// Whether its extended purposes allow `purpose` (the last part of id-kp); without the extension all are.
    pub(crate) fn serves(&self, purpose: u8) -> bool {
        let Some(value) = self.extension(EXTENDED_KEY_USAGE) else { return true };
        let Some(mut list) = Reader(value).sequence() else { return false };
        while let Some(oid) = list.take(der::OID) {
            if oid.body == [0x2b, 6, 1, 5, 5, 7, 3, purpose] || oid.body == [0x55, 0x1d, 0x25, 0] {
                return true;
            }
        }
        false
    }

    /// Whether it is expressly for this purpose.
    pub(crate) fn has_purpose(&self, purpose: u8) -> bool {
        self.extension(EXTENDED_KEY_USAGE).is_some() && self.serves(purpose)
    }

    /// The names of subjectAltName, by tag: 2 is a host name, 7 an address.
    pub(crate) fn alternative_names(&self) -> Vec<(u8, &'a [u8])> {
        self.extension(SUBJECT_ALT_NAME).and_then(general_names).unwrap_or_default()
    }

    /// The common name of the subject, the last one as OpenSSL takes it.
    pub(crate) fn common_name(&self) -> Option<&'a [u8]> {
        let is_name = |(oid, _): &(&[u8], Element<'a>)| *oid == [0x55, 4, 3];
        attributes(self.subject).into_iter().rev().flatten().find(is_name).map(|(_, value)| value.body)
    }

    /// Where its authority answers about revocation (RFC 5280 §4.2.2.1).
    pub fn ocsp_url(&self) -> Option<&'a str> {
        let mut list = Reader(self.extension(AUTHORITY_INFO)?).sequence()?;
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

/// Names with their kinds (RFC 5280 §4.2.1.6). `None` if there is anything else among them: a name that is passed over
/// here could be seen by others, and names that an authority may not certify would go unseen.
fn general_names(value: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let mut whole = Reader(value);
    let mut list = whole.sequence()?;
    let mut out = Vec::new();
    while !list.is_empty() {
        let name = list.any()?;
        if name.tag & 0xc0 != 0x80 {
            return None;
        }
        out.push((name.tag & 0x1f, name.body));
    }
    whole.is_empty().then_some(out)
}

fn extensions(list: Element<'_>) -> Option<Vec<Extension<'_>>> {
    let mut r = list.inner().sequence()?;
    let mut out: Vec<Extension<'_>> = Vec::new();
    while !r.is_empty() {
        let mut one = r.sequence()?;
        let oid = one.take(der::OID)?.body;
        let critical = one.flag()?;
        let value = one.take(der::OCTET_STRING)?.body;
        // RFC 5280 §4.2: each once.
        if !one.is_empty() || out.iter().any(|have| have.oid == oid) {
            return None;
        }
        out.push(Extension { oid, critical, value });
    }
    Some(out)
}

/// The parts of a name in their order; a part of several values is one entry.
pub(crate) fn attributes(name: &[u8]) -> Vec<Vec<(&[u8], Element<'_>)>> {
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

/// A part of a name: types and values.
type Part = Vec<(Vec<u8>, Vec<u8>)>;

/// The parts of a name, to be compared: strings alike whatever their kind, their case and the blanks in them (RFC 5280
/// §7.1). `None`: it is no name.
pub(crate) fn comparable(name: &[u8]) -> Option<Vec<Part>> {
    let value = |value: &Element<'_>| match value.tag {
        // UTF8String, PrintableString, TeletexString, IA5String, VisibleString, BMPString
        0x0c | 0x13 | 0x14 | 0x16 | 0x1a | 0x1e => {
            let lower = String::from_utf8_lossy(&text(value)).to_lowercase();
            lower.split_whitespace().collect::<Vec<_>>().join(" ").into_bytes()
        }
        _ => value.whole.to_vec(),
    };
    let mut parts = Reader(name).sequence()?;
    let mut out = Vec::new();
    while !parts.is_empty() {
        let mut part = parts.take(der::SET)?.inner();
        let mut values = Vec::new();
        while !part.is_empty() {
            let mut pair = part.sequence()?;
            values.push((pair.take(der::OID)?.body.to_vec(), value(&pair.any()?)));
        }
        values.sort();
        out.push(values);
    }
    Some(out)
}

/// A name as `$ssl_client_s_dn` shows it (RFC 2253): the last part first, everything that is not ASCII escaped.
pub fn rfc2253(name: &[u8]) -> String {
    let mut out = String::new();
    for (index, part) in attributes(name).iter().rev().enumerate() {
        if index > 0 {
            out.push(',');
        }
        for (index, (oid, value)) in part.iter().enumerate() {
            if index > 0 {
                out.push('+');
            }
            out.push_str(&attribute_name(oid));
            out.push('=');
            if ATTRIBUTES.iter().any(|(have, _)| have == oid) {
                escape(&text(value), &mut out);
            } else {
                // RFC 2253 §2.4: of a type without a name, the value as it is encoded.
                out.push('#');
                out.push_str(&hex(value.whole).to_uppercase());
            }
        }
    }
    out
}

fn escape(text: &[u8], out: &mut String) {
    for (index, &byte) in text.iter().enumerate() {
        let is_first = index == 0;
        let is_last = index + 1 == text.len();
        match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b'#' if is_first => out.push_str("\\#"),
            b' ' if is_first || is_last => out.push_str("\\ "),
            0x20..0x7f => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\{byte:02X}");
            }
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
