//! Whether a chain of certificates leads to one that is trusted (RFC 5280 §6), with OpenSSL's verdicts: `$ssl_client_verify`
//! shows them, and configurations and log readers know them.
//!
//! As OpenSSL does by default, trusted issuers are preferred to those that the peer sent, and a chain ends at a certificate
//! that issues itself and is trusted.

use crate::certificate::{self, Certificate};
use crate::constraints;
use crate::crl::Crl;
use crate::pem;
use crate::server::provider;
use rustls::pki_types::SignatureVerificationAlgorithm;
use std::fmt;

/// Signatures that are checked while one chain is looked for: bounds what a peer's certificates can cost.
const SIGNATURES_MAX: u32 = 64;
/// Certificates of a peer that are looked at.
const EXTRA_MAX: usize = 32;

/// OpenSSL's number and text of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: u8,
    pub text: &'static str,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}:{})", self.code, self.text)
    }
}

macro_rules! refusals {
    ($($name:ident = $code:literal $text:literal;)*) => {
        impl Refusal {
            $(pub const $name: Refusal = Refusal { code: $code, text: $text };)*
        }
    };
}

refusals! {
    NO_ISSUER = 2 "unable to get issuer certificate";
    NO_CRL = 3 "unable to get certificate CRL";
    SIGNATURE = 7 "certificate signature failure";
    CRL_SIGNATURE = 8 "CRL signature failure";
    NOT_YET_VALID = 9 "certificate is not yet valid";
    EXPIRED = 10 "certificate has expired";
    CRL_NOT_YET_VALID = 11 "CRL is not yet valid";
    CRL_EXPIRED = 12 "CRL has expired";
    SELF_SIGNED = 18 "self-signed certificate";
    SELF_SIGNED_IN_CHAIN = 19 "self-signed certificate in certificate chain";
    NO_LOCAL_ISSUER = 20 "unable to get local issuer certificate";
    UNVERIFIED_LEAF = 21 "unable to verify the first certificate";
    TOO_LONG = 22 "certificate chain too long";
    REVOKED = 23 "certificate revoked";
    PATH_LENGTH = 25 "path length constraint exceeded";
    PURPOSE = 26 "unsuitable certificate purpose";
    UNTRUSTED = 27 "certificate not trusted";
    UNKNOWN_CRITICAL = 34 "unhandled critical extension";
    NO_CRL_SIGN = 35 "key usage does not include CRL signing";
    UNKNOWN_CRITICAL_CRL = 36 "unhandled critical CRL extension";
    NOT_PERMITTED = 47 "permitted subtree violation";
    EXCLUDED = 48 "excluded subtree violation";
    SUBTREE_LIMITS = 49 "name constraints minimum and maximum not supported";
    CONSTRAINT_TYPE = 51 "unsupported name constraint type";
    HOST = 62 "hostname mismatch";
    WEAK_DIGEST = 68 "CA signature digest algorithm too weak";
    INVALID_CA = 79 "invalid CA certificate";
    MALFORMED = 1 "unspecified certificate verification error";
}

impl Refusal {
    /// What `ssl_verify_client optional_no_ca` lets pass: a certificate whose authority is not known here.
    pub fn is_unknown_authority(self) -> bool {
        [
            Refusal::SELF_SIGNED,
            Refusal::SELF_SIGNED_IN_CHAIN,
            Refusal::NO_LOCAL_ISSUER,
            Refusal::UNTRUSTED,
            Refusal::UNVERIFIED_LEAF,
        ]
        .contains(&self)
    }
}

/// Who presents the certificate (RFC 5280 §4.2.1.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Server,
    Client,
}

/// Whom to trust: certificates, and lists of what they have revoked.
#[derive(Debug, Default)]
pub struct Trust {
    anchors: Vec<Vec<u8>>,
    /// `None`: revocation is not looked at.
    crls: Option<Vec<Crl>>,
}

impl Trust {
    /// Trusts these certificates (DER).
    pub fn of(anchors: Vec<Vec<u8>>) -> Trust {
        Trust { anchors, crls: None }
    }

    /// Adds the certificates of a PEM file. The error is in OpenSSL's words.
    pub fn add(&mut self, text: &[u8]) -> Result<(), String> {
        let found = certificates(text)?;
        for der in found {
            if !self.anchors.contains(&der) {
                self.anchors.push(der);
            }
        }
        Ok(())
    }

    /// Adds the revocation lists of a PEM file; from now on every certificate of a chain needs one.
    pub fn add_crls(&mut self, text: &[u8]) -> Result<(), String> {
        let mut lists = Vec::new();
        for block in pem::blocks(text)?.into_iter().filter(|block| block.label == "X509 CRL") {
            lists.push(Crl::parse(block.der).ok_or("bad CRL")?);
        }
        if lists.is_empty() {
            return Err("no CRL found".to_string());
        }
        self.crls.get_or_insert_default().extend(lists);
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.anchors.is_empty()
    }

    /// The trusted certificates.
    pub fn anchors(&self) -> impl Iterator<Item = &[u8]> {
        self.anchors.iter().map(|der| &der[..])
    }

    /// Looks for a chain from `leaf` to a trusted certificate. `depth`: intermediate certificates, at most.
    pub fn verify<'a>(
        &'a self,
        leaf: &'a [u8],
        extra: &'a [impl AsRef<[u8]>],
        purpose: Purpose,
        depth: u32,
        now: i64,
    ) -> Result<Chain<'a>, Refusal> {
        let parse = |der: &'a [u8]| Certificate::parse(der).ok();
        let leaf = parse(leaf).ok_or(Refusal::MALFORMED)?;
        let sent: Vec<_> = extra.iter().take(EXTRA_MAX).filter_map(|der| parse(der.as_ref())).collect();
        let trusted: Vec<_> = self.anchors().filter_map(parse).collect();
        let chain = match build(leaf.clone(), &sent, &trusted, depth as usize, now) {
            // Who lets unknown authorities pass does not mean certificates that are out of date.
            Err(refusal) if refusal.is_unknown_authority() => {
                return Err(in_time(&leaf, now).err().unwrap_or(refusal));
            }
            built => built?,
        };
        check(&chain, purpose, now)?;
        if let Some(crls) = &self.crls {
            revocation(&chain, crls, now)?;
        }
        Ok(Chain(chain))
    }
}

/// A verified chain, the leaf first.
#[derive(Debug)]
pub struct Chain<'a>(pub Vec<Certificate<'a>>);

/// The certificates of a PEM file as DER. What OpenSSL appends to those that it calls trusted is left out.
pub fn certificates(text: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    const LABELS: [&str; 3] = ["CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"];
    let mut out = Vec::new();
    for block in pem::blocks(text)?.into_iter().filter(|block| LABELS.contains(&block.label.as_str())) {
        let first = crate::der::Reader(&block.der).any().ok_or("bad ASN.1 encoding")?;
        Certificate::parse(first.whole).map_err(|_| "bad ASN.1 encoding")?;
        out.push(first.whole.to_vec());
    }
    if out.is_empty() {
        return Err("PEM routines::no start line:Expecting: CERTIFICATE".to_string());
    }
    Ok(out)
}

/// OpenSSL's `build_chain`: trusted issuers first, then what the peer sent.
fn build<'a>(
    leaf: Certificate<'a>,
    sent: &[Certificate<'a>],
    trusted: &[Certificate<'a>],
    depth: usize,
    now: i64,
) -> Result<Vec<Certificate<'a>>, Refusal> {
    let mut left = SIGNATURES_MAX;
    let mut chain = vec![leaf];
    let mut is_trusted = trusted.iter().any(|anchor| anchor.der == chain[0].der);
    loop {
        let last = chain.last().expect("it begins with the leaf").clone();
        if last.is_self_issued() && (is_trusted || signed_by(&last, &last, &mut left).is_ok()) {
            return match (is_trusted, chain.len()) {
                (true, len) if len > depth + 2 => Err(Refusal::TOO_LONG),
                (true, _) => Ok(chain),
                (false, 1) => Err(Refusal::SELF_SIGNED),
                (false, _) => Err(Refusal::SELF_SIGNED_IN_CHAIN),
            };
        }
        if chain.len() > depth + 2 {
            return Err(Refusal::TOO_LONG);
        }
        let is_new = |next: &&Certificate<'a>| chain.iter().all(|have| have.der != next.der);
        let mut problem = None;
        let mut find = |among: &[Certificate<'a>], is_new: &dyn Fn(&&Certificate<'a>) -> bool| {
            let named = || among.iter().filter(|next| next.subject == last.issuer).filter(is_new);
            // An authority that was renewed has two certificates with one key: the one that holds now comes first.
            let holds = |next: &&Certificate<'a>| in_time(next, now).is_ok();
            for next in named().filter(holds).chain(named().filter(|next| !holds(next))) {
                match signed_by(&last, next, &mut left) {
                    Ok(()) => return Some(next.clone()),
                    Err(refusal) => problem = Some(refusal),
                }
            }
            None
        };
        let next = match find(trusted, &is_new) {
            Some(next) => {
                is_trusted = true;
                next
            }
            // Behind a trusted certificate there are only trusted ones.
            None if is_trusted => return Err(problem.unwrap_or(Refusal::NO_ISSUER)),
            None => match find(sent, &is_new) {
                Some(next) => next,
                None => return Err(problem.unwrap_or(Refusal::NO_LOCAL_ISSUER)),
            },
        };
        chain.push(next);
    }
}

/// Whether the key of `issuer` has signed `subject`.
fn signed_by(subject: &Certificate<'_>, issuer: &Certificate<'_>, left: &mut u32) -> Result<(), Refusal> {
    *left = left.checked_sub(1).ok_or(Refusal::TOO_LONG)?;
    signature(subject.signature_algorithm, issuer, subject.signed, subject.signature)
        .map_err(|is_known| if is_known { Refusal::SIGNATURE } else { Refusal::WEAK_DIGEST })
}

/// Whether `issuer` has signed `cert`.
pub(crate) fn is_issued(cert: &Certificate<'_>, issuer: &Certificate<'_>) -> bool {
    signature(cert.signature_algorithm, issuer, cert.signed, cert.signature).is_ok()
}

/// Whether one certificate (DER) was issued by another.
pub fn is_issuer(cert: &[u8], issuer: &[u8]) -> bool {
    match (Certificate::parse(cert), Certificate::parse(issuer)) {
        (Ok(cert), Ok(issuer)) => cert.issuer == issuer.subject && is_issued(&cert, &issuer),
        _ => false,
    }
}

/// Checks a signature; the error is whether the algorithm is known.
pub(crate) fn signature(
    algorithm: &[u8],
    by: &Certificate<'_>,
    message: &[u8],
    signature: &[u8],
) -> Result<(), bool> {
    let mut all = provider().signature_verification_algorithms.all.iter();
    let fits = |a: &&&dyn SignatureVerificationAlgorithm| {
        a.signature_alg_id().as_ref() == algorithm && a.public_key_alg_id().as_ref() == by.key_algorithm
    };
    let found = all.find(fits).ok_or(false)?;
    found.verify_signature(by.key, message, signature).map_err(|_| true)
}

/// What must hold for each certificate of the chain (RFC 5280 §6.1.3, §6.1.4).
fn check(chain: &[Certificate<'_>], purpose: Purpose, now: i64) -> Result<(), Refusal> {
    let mut below = 0;
    for (index, cert) in chain.iter().enumerate() {
        if cert.has_unknown_critical() {
            return Err(Refusal::UNKNOWN_CRITICAL);
        }
        if index > 0 {
            let depth = cert.authority().ok_or(Refusal::INVALID_CA)?;
            if cert.has_extensions() && !cert.key_may(certificate::KEY_CERT_SIGN) {
                return Err(Refusal::INVALID_CA);
            }
            if depth.is_some_and(|depth| below > depth) {
                return Err(Refusal::PATH_LENGTH);
            }
            constraints::check(cert, &chain[..index])?;
        } else if !may_present(cert, purpose) {
            return Err(Refusal::PURPOSE);
        }
        let number = if purpose == Purpose::Server { 1 } else { 2 };
        if !cert.serves(number) {
            return Err(Refusal::PURPOSE);
        }
        // §6.1.4 l: certificates that issue themselves do not count.
        if index > 0 && !cert.is_self_issued() {
            below += 1;
        }
    }
    for cert in chain.iter().rev() {
        in_time(cert, now)?;
    }
    Ok(())
}

fn in_time(cert: &Certificate<'_>, now: i64) -> Result<(), Refusal> {
    if now < cert.not_before {
        return Err(Refusal::NOT_YET_VALID);
    }
    if now > cert.not_after { Err(Refusal::EXPIRED) } else { Ok(()) }
}

/// Whether its key may be used for the handshake.
fn may_present(leaf: &Certificate<'_>, purpose: Purpose) -> bool {
    const KEY_ENCIPHERMENT: u8 = 2;
    const KEY_AGREEMENT: u8 = 4;
    leaf.key_may(certificate::DIGITAL_SIGNATURE)
        || leaf.key_may(KEY_AGREEMENT)
        || (purpose == Purpose::Server && leaf.key_may(KEY_ENCIPHERMENT))
}

/// Every certificate, the root included, needs a list of its issuer that does not name it (RFC 5280 §6.3).
fn revocation(chain: &[Certificate<'_>], crls: &[Crl], now: i64) -> Result<(), Refusal> {
    // The verdict is the last one, as nginx has it by letting OpenSSL go on.
    let mut last = Ok(());
    for (index, cert) in chain.iter().enumerate() {
        let issuer = chain.get(index + 1).unwrap_or(cert);
        let mut refusal = Refusal::NO_CRL;
        let mut is_good = false;
        for crl in crls.iter().filter(|crl| crl.issuer() == cert.issuer) {
            match crl.check(cert, issuer, now) {
                Ok(()) => is_good = true,
                Err(other) => {
                    refusal = other;
                    is_good &= other != Refusal::REVOKED;
                    if other == Refusal::REVOKED {
                        break;
                    }
                }
            }
        }
        if !is_good {
            last = Err(refusal);
        }
    }
    last
}

/// Whether a certificate is for this host, as OpenSSL's `X509_check_host` sees it: the common name counts only where
/// there are no alternative host names.
pub fn is_for_host(der: &[u8], host: &str) -> bool {
    const DNS_NAME: u8 = 2;
    const ADDRESS: u8 = 7;
    let Ok(cert) = Certificate::parse(der) else { return false };
    let names = cert.alternative_names();
    if let Ok(ip) = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>() {
        let is_it = |bytes: &[u8]| match ip {
            std::net::IpAddr::V4(ip) => bytes == ip.octets(),
            std::net::IpAddr::V6(ip) => bytes == ip.octets(),
        };
        if names.iter().any(|&(tag, name)| tag == ADDRESS && is_it(name)) {
            return true;
        }
    }
    let mut hosts = names.iter().filter(|(tag, _)| *tag == DNS_NAME).map(|(_, name)| *name).peekable();
    if hosts.peek().is_some() {
        return hosts.any(|name| is_like(name, host.as_bytes()));
    }
    cert.common_name().is_some_and(|name| is_like(name, host.as_bytes()))
}

/// Compares without case; a `*` stands for the first label, or for a part of it (RFC 6125 §6.4.3).
fn is_like(pattern: &[u8], host: &[u8]) -> bool {
    if pattern.eq_ignore_ascii_case(host) {
        return !pattern.contains(&0);
    }
    let Some(star) = pattern.iter().position(|&b| b == b'*') else { return false };
    let (before, after) = (&pattern[..star], &pattern[star + 1..]);
    let label_end = after.iter().position(|&b| b == b'.').unwrap_or(after.len());
    // Not in a later label, not twice, not above a top-level domain, not in an encoded label.
    let is_sound = !before.contains(&b'.')
        && !after.contains(&b'*')
        && after[label_end..].iter().filter(|&&b| b == b'.').count() >= 2
        && !pattern.get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b"xn--"));
    let Some(middle) = host.len().checked_sub(before.len() + after.len()) else { return false };
    let starred = &host[before.len()..before.len() + middle];
    is_sound
        && middle > 0
        && host[..before.len()].eq_ignore_ascii_case(before)
        && host[host.len() - after.len()..].eq_ignore_ascii_case(after)
        && starred.iter().all(|&b| b.is_ascii_alphanumeric() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_certificates() {
        let cases: &[(&str, &str, bool)] = &[
            ("example.com", "EXAMPLE.com", true),
            ("example.com", "www.example.com", false),
            ("*.example.com", "www.example.com", true),
            ("w*.example.com", "www.example.com", true),
            ("*.example.com", "example.com", false),
            ("*.example.com", "a.b.example.com", false),
            ("*.com", "example.com", false),
            ("*", "localhost", false),
            ("www.*.com", "www.example.com", false),
            ("*.*.com", "a.example.com", false),
            ("xn--*.example.com", "xn--a.example.com", false),
            ("*.example.com", ".example.com", false),
        ];
        for (pattern, host, matches) in cases {
            assert_eq!(is_like(pattern.as_bytes(), host.as_bytes()), *matches, "{pattern} {host}");
        }
    }
}
