//! Certificate revocation lists (RFC 5280 §5).

use crate::certificate::{CRL_SIGN, Certificate};
use crate::der::{self, Reader};
use crate::verify::{Refusal, signature};
use std::ops::Range;

/// CRL number and authority key: they may be critical, and change nothing here.
const HARMLESS: [&[u8]; 2] = [&[0x55, 0x1d, 0x14], &[0x55, 0x1d, 0x23]];

/// One list.
#[derive(Debug)]
pub struct Crl {
    der: Vec<u8>,
    signed: Range<usize>,
    signature_algorithm: Range<usize>,
    signature: Range<usize>,
    issuer: Range<usize>,
    this_update: i64,
    next_update: Option<i64>,
    /// Serial numbers, sorted.
    revoked: Vec<Box<[u8]>>,
    has_unknown_critical: bool,
}

impl Crl {
    pub fn parse(bytes: Vec<u8>) -> Option<Crl> {
        let base = bytes.as_ptr() as usize;
        let place = |part: &[u8]| part.as_ptr() as usize - base..part.as_ptr() as usize - base + part.len();
        let mut whole = Reader(&bytes).sequence()?;
        let signed = whole.take(der::SEQUENCE)?;
        let signature_algorithm = whole.take(der::SEQUENCE)?.body;
        let signature = whole.bits()?;
        let mut r = signed.inner();
        r.optional(der::INTEGER)?;
        if r.take(der::SEQUENCE)?.body != signature_algorithm {
            return None;
        }
        let issuer = r.take(der::SEQUENCE)?.whole;
        let this_update = r.time()?;
        let next_update = match r.peek() {
            Some(der::UTC_TIME | der::GENERALIZED_TIME) => Some(r.time()?),
            _ => None,
        };
        let mut revoked = Vec::new();
        let mut has_unknown_critical = false;
        if let Some(list) = r.optional(der::SEQUENCE)? {
            let mut list = list.inner();
            while !list.is_empty() {
                let mut entry = list.sequence()?;
                revoked.push(entry.take(der::INTEGER)?.body.into());
                entry.time()?;
                if let Some(extensions) = entry.optional(der::SEQUENCE)? {
                    has_unknown_critical |= unknown_critical(extensions.inner())?;
                }
            }
        }
        if let Some(extensions) = r.optional(der::context(0))? {
            has_unknown_critical |= unknown_critical(extensions.inner().sequence()?)?;
        }
        revoked.sort();
        let (signed, signature_algorithm) = (place(signed.whole), place(signature_algorithm));
        let (signature, issuer) = (place(signature), place(issuer));
        Some(Crl {
            signed,
            signature_algorithm,
            signature,
            issuer,
            this_update,
            next_update,
            revoked,
            has_unknown_critical,
            der: bytes,
        })
    }

    /// The issuer's name as DER.
    pub fn issuer(&self) -> &[u8] {
        &self.der[self.issuer.clone()]
    }

    /// Whether the list is good and does not name `cert`, which `issuer` has issued.
    pub fn check(&self, cert: &Certificate<'_>, issuer: &Certificate<'_>, now: i64) -> Result<(), Refusal> {
        if !issuer.key_may(CRL_SIGN) {
            return Err(Refusal::NO_CRL_SIGN);
        }
        let part = |range: &Range<usize>| &self.der[range.clone()];
        signature(part(&self.signature_algorithm), issuer, part(&self.signed), part(&self.signature))
            .map_err(|_| Refusal::CRL_SIGNATURE)?;
        if now < self.this_update {
            return Err(Refusal::CRL_NOT_YET_VALID);
        }
        if self.next_update.is_some_and(|next| now > next) {
            return Err(Refusal::CRL_EXPIRED);
        }
        if self.has_unknown_critical {
            return Err(Refusal::UNKNOWN_CRITICAL_CRL);
        }
        match self.revoked.binary_search_by(|serial| (**serial).cmp(cert.serial)) {
            Ok(_) => Err(Refusal::REVOKED),
            Err(_) => Ok(()),
        }
    }
}

/// Whether one of the extensions is critical and says what is not understood here.
fn unknown_critical(mut list: Reader<'_>) -> Option<bool> {
    let mut found = false;
    while !list.is_empty() {
        let mut one = list.sequence()?;
        let oid = one.take(der::OID)?.body;
        let critical = one.flag()?;
        one.take(der::OCTET_STRING)?;
        found |= critical && !HARMLESS.contains(&oid);
    }
    Some(found)
}
