//! OCSP (RFC 6960): asking an authority whether a certificate of its is still good, and reading what it answers.

use crate::certificate::Certificate;
use crate::der::{self, Element, Reader, element, sequence};
use crate::verify;
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

const SHA1: &[u8] = &[0x2b, 0x0e, 3, 2, 0x1a];
const BASIC: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 48, 1, 1];
/// id-kp-OCSPSigning
const OCSP_SIGNING: u8 = 9;
/// Clocks differ: nginx allows for five minutes.
const SLACK_SECS: i64 = 300;

const ENUMERATED: u8 = 0x0a;

/// What an authority says of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Good,
    Revoked,
    Unknown,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: Status,
    /// Until when it holds, if it says so; seconds since 1970.
    pub until: Option<i64>,
}

/// A request about one certificate; `None` if one of them is none.
pub fn request(cert: &[u8], issuer: &[u8]) -> Option<Vec<u8>> {
    let (cert, issuer) = (Certificate::parse(cert).ok()?, Certificate::parse(issuer).ok()?);
    let sha1 = |bytes: &[u8]| digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref().to_vec();
    let id = sequence(&[
        &sequence(&[&element(der::OID, SHA1), &[5, 0]]),
        &element(der::OCTET_STRING, &sha1(issuer.subject)),
        &element(der::OCTET_STRING, &sha1(issuer.key)),
        &element(der::INTEGER, cert.serial),
    ]);
    Some(sequence(&[&sequence(&[&sequence(&[&sequence(&[&id])])])]))
}

/// Reads a response about `cert`. With `verify` it must be signed by the issuer, or by whom that has allowed to.
pub fn check(response: &[u8], cert: &[u8], issuer: &[u8], verify: bool, now: i64) -> Result<Answer, String> {
    let parse = |der| Certificate::parse(der).map_err(|_| "malformed certificate".to_string());
    let (cert, issuer) = (parse(cert)?, parse(issuer)?);
    let malformed = || "d2i_OCSP_RESPONSE() failed".to_string();
    let mut outer = Reader(response).sequence().ok_or_else(malformed)?;
    let status = outer.take(ENUMERATED).ok_or_else(malformed)?.body;
    if status != [0] {
        return Err(format!("OCSP response not successful ({}: {})", number(status), status_text(status)));
    }
    let basic = basic(outer).ok_or_else(malformed)?;
    let parts = Parts::read(basic).ok_or_else(malformed)?;
    if verify && !parts.is_signed(&issuer, now) {
        return Err("OCSP_basic_verify() failed".to_string());
    }
    let answer = parts.find(&cert, &issuer).ok_or("certificate status not found in the OCSP response")?;
    if now + SLACK_SECS < answer.from || answer.until.is_some_and(|until| now - SLACK_SECS > until) {
        return Err("OCSP_check_validity() failed".to_string());
    }
    Ok(Answer { status: answer.status, until: answer.until })
}

fn number(bytes: &[u8]) -> u8 {
    bytes.last().copied().unwrap_or(0)
}

fn status_text(status: &[u8]) -> &'static str {
    match number(status) {
        1 => "malformedrequest",
        2 => "internalerror",
        3 => "trylater",
        5 => "sigrequired",
        6 => "unauthorized",
        _ => "unknown",
    }
}

fn basic(mut outer: Reader<'_>) -> Option<&[u8]> {
    let mut bytes = outer.take(der::context(0))?.inner().sequence()?;
    if bytes.take(der::OID)?.body != BASIC {
        return None;
    }
    Some(bytes.take(der::OCTET_STRING)?.body)
}

struct Parts<'a> {
    signed: Element<'a>,
    algorithm: &'a [u8],
    signature: &'a [u8],
    certificates: Vec<&'a [u8]>,
    responses: Reader<'a>,
}

struct Single {
    status: Status,
    from: i64,
    until: Option<i64>,
}

impl<'a> Parts<'a> {
    fn read(basic: &'a [u8]) -> Option<Parts<'a>> {
        let mut r = Reader(basic).sequence()?;
        let signed = r.take(der::SEQUENCE)?;
        let algorithm = r.take(der::SEQUENCE)?.body;
        let signature = r.bits()?;
        let mut certificates = Vec::new();
        if let Some(list) = r.optional(der::context(0))? {
            let mut list = list.inner().sequence()?;
            while !list.is_empty() {
                certificates.push(list.take(der::SEQUENCE)?.whole);
            }
        }
        let mut data = signed.inner();
        data.optional(der::context(0))?;
        // The responder's name or key, and when it has answered.
        data.any()?;
        data.time()?;
        let responses = data.sequence()?;
        Some(Parts { signed, algorithm, signature, certificates, responses })
    }

    /// RFC 6960 §4.2.2.2: by the authority itself, or by a certificate that it has issued for this purpose.
    fn is_signed(&self, issuer: &Certificate<'_>, now: i64) -> bool {
        let by = |signer: &Certificate<'_>| {
            verify::signature(self.algorithm, signer, self.signed.whole, self.signature).is_ok()
        };
        let is_delegate = |delegate: &Certificate<'_>| {
            delegate.issuer == issuer.subject
                && delegate.has_purpose(OCSP_SIGNING)
                && (delegate.not_before..=delegate.not_after).contains(&now)
                && verify::is_issued(delegate, issuer)
        };
        let mut delegates = self.certificates.iter().take(4).filter_map(|der| Certificate::parse(der).ok());
        by(issuer) || delegates.any(|delegate| is_delegate(&delegate) && by(&delegate))
    }

    fn find(&self, cert: &Certificate<'_>, issuer: &Certificate<'_>) -> Option<Single> {
        let mut responses = self.responses;
        while let Some(mut single) = responses.sequence() {
            let mut id = single.sequence()?;
            let hash = id.sequence()?.take(der::OID)?.body;
            let (name, key) = (id.take(der::OCTET_STRING)?.body, id.take(der::OCTET_STRING)?.body);
            let serial = id.take(der::INTEGER)?.body;
            let status = match single.any()?.tag & 0x1f {
                0 => Status::Good,
                1 => Status::Revoked,
                _ => Status::Unknown,
            };
            let from = single.time()?;
            let until = match single.optional(der::context(0))? {
                Some(time) => Some(time.inner().time()?),
                None => None,
            };
            let is_hash = |bytes: &[u8], hashed: &[u8]| match hash {
                SHA1 => digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref() == hashed,
                [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1] => {
                    digest(&aws_lc_rs::digest::SHA256, bytes).as_ref() == hashed
                }
                _ => false,
            };
            if serial == cert.serial && is_hash(issuer.subject, name) && is_hash(issuer.key, key) {
                return Some(Single { status, from, until });
            }
        }
        None
    }
}
