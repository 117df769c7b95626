//! Whether a chain of certificates leads to one that is trusted (RFC 5280 §6): AWS-LC's verdict, and what OpenSSL checks
//! besides.

use crate::limits::{
    CHAIN_BYTES_MAX, COMPARISONS_MAX, DEPTH_MAX, EXTRA_MAX, RSA_BITS_MAX, SECURITY_BITS_MIN,
};
use crate::refusal::Refusal;
use crate::sys::{Ask, Crl, Key, Outcome, Store, X509};
use std::fmt;

/// Who presents the certificate (RFC 5280 §4.2.1.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A server.
    Server,
    /// A client.
    Client,
}

/// Whom to trust: certificates, and lists of what they have revoked. Both are parsed once, when they are added. The default
/// trusts nobody.
pub struct Trust(Store);

impl Default for Trust {
    fn default() -> Trust {
        Trust(Store::new())
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust")
    }
}

/// What was to be added is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl Trust {
    /// Trusts a certificate (DER).
    pub fn add(&mut self, der: &[u8]) -> Result<(), Malformed> {
        self.trust(X509::parse(der))
    }

    /// Trusts a certificate for the purposes that OpenSSL's `TRUSTED CERTIFICATE` names behind it.
    pub fn add_for_purposes(&mut self, der: &[u8]) -> Result<(), Malformed> {
        self.trust(X509::parse_trusted(der))
    }

    fn trust(&mut self, cert: Option<X509>) -> Result<(), Malformed> {
        cert.filter(|cert| self.0.add(cert)).map(drop).ok_or(Malformed)
    }

    /// Adds a revocation list (DER); from now on every certificate of a chain needs one.
    pub fn add_crl(&mut self, der: &[u8]) -> Result<(), Malformed> {
        Crl::parse(der).filter(|crl| self.0.add_crl(crl)).map(drop).ok_or(Malformed)
    }

    /// Looks for a chain from `leaf` (DER) to a trusted certificate.
    ///
    /// `extra`: certificates that came with it. `depth`: intermediate certificates, at most. `now`: seconds since 1970.
    pub fn verify(
        &self,
        leaf: &[u8],
        extra: &[impl AsRef<[u8]>],
        purpose: Purpose,
        depth: u32,
        now: i64,
    ) -> Result<Chain, Refusal> {
        let leaf = X509::parse(leaf).ok_or(Refusal::MALFORMED)?;
        let extra = usable(extra);
        if comparisons(&leaf, &extra) > COMPARISONS_MAX {
            return Err(Refusal::MALFORMED);
        }
        let ask = Ask { is_client: purpose == Purpose::Client, depth: depth.min(DEPTH_MAX), now };
        let outcome = self.0.verify(&leaf, &extra, &ask);
        match refusal(&outcome, &ask) {
            None => Ok(Chain(outcome.chain)),
            Some(refusal) => Err(refusal),
        }
    }
}

/// A verified chain, the leaf first.
pub struct Chain(Vec<X509>);

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chain of {}", self.0.len())
    }
}

impl Chain {
    /// The number of its certificates.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The certificates as DER.
    pub fn certificates(&self) -> Vec<Vec<u8>> {
        self.0.iter().filter_map(X509::der).collect()
    }
}

/// The certificates of a peer that are looked at: those that can be read, and have keys that something may be signed by.
fn usable(extra: &[impl AsRef<[u8]>]) -> Vec<X509> {
    let mut left = CHAIN_BYTES_MAX;
    let mut out = Vec::new();
    for der in extra.iter().map(AsRef::as_ref).take(EXTRA_MAX) {
        let Some(rest) = left.checked_sub(der.len()) else { break };
        left = rest;
        let has_usable_key = |cert: &X509| match cert.key() {
            Key::Rsa(bits) => bits <= RSA_BITS_MAX,
            Key::Ec(_) | Key::Ed25519 => true,
            Key::Other => false,
        };
        out.extend(X509::parse(der).filter(has_usable_key));
    }
    out
}

/// At most so many names of the peer are compared with name constraints of the peer.
fn comparisons(leaf: &X509, extra: &[X509]) -> usize {
    let constraints: usize = extra.iter().map(X509::constraint_count).sum();
    if constraints == 0 {
        return 0;
    }
    let names: usize = extra.iter().chain([leaf]).map(X509::name_count).sum();
    constraints.saturating_mul(names)
}

/// OpenSSL's verdict: AWS-LC's, unless that is none, or one that says only that the authority is not known here and there
/// is something else to say. What comes last in OpenSSL's order is what it shows, and what nginx lets pass with
/// `optional_no_ca`.
fn refusal(outcome: &Outcome, ask: &Ask) -> Option<Refusal> {
    let chain = &outcome.chain;
    let found = match outcome.code {
        0 if chain.is_empty() => Some(Refusal::MALFORMED),
        0 => None,
        code => Some(Refusal::of_code(code)),
    };
    // The library stops looking where the chain may not become longer, and says what it did not find.
    let unfinished = [Refusal::NO_ISSUER, Refusal::NO_LOCAL_ISSUER, Refusal::SELF_SIGNED_IN_CHAIN];
    if found.is_some_and(|found| unfinished.contains(&found))
        && chain.len() as u64 >= u64::from(ask.depth) + 2
    {
        return Some(Refusal::TOO_LONG);
    }
    match found {
        None => path_length(chain).or_else(|| weakness(chain)),
        Some(found) if found.is_unknown_authority() => {
            let others = path_length(chain).or_else(|| weakness(chain));
            chain.first().and_then(|leaf| out_of_time(leaf, ask.now)).or(others).or(Some(found))
        }
        found => found,
    }
}

/// Path lengths (RFC 5280 §4.2.1.9) as OpenSSL checks them: AWS-LC leaves out authorities that issue themselves, trusted
/// ones among them.
fn path_length(chain: &[X509]) -> Option<Refusal> {
    let mut below = 0;
    for cert in chain.iter().skip(1) {
        if cert.path_len().is_some_and(|most| below > most) {
            return Some(Refusal::PATH_LENGTH);
        }
        // §6.1.4 l: those that issue themselves do not count.
        if !cert.is_self_issued() {
            below += 1;
        }
    }
    None
}

/// Keys and digests below OpenSSL's security level 2. The trusted certificate's own signature does not count.
fn weakness(chain: &[X509]) -> Option<Refusal> {
    let is_weak = |cert: &X509| strength(cert.key()) < SECURITY_BITS_MIN;
    if chain.first().is_some_and(is_weak) {
        return Some(Refusal::WEAK_KEY);
    }
    if chain.iter().skip(1).any(is_weak) {
        return Some(Refusal::WEAK_AUTHORITY_KEY);
    }
    let (_, signed) = chain.split_last()?;
    signed.iter().any(|cert| digest_strength(cert) < SECURITY_BITS_MIN).then_some(Refusal::WEAK_DIGEST)
}

/// The strength of a key as that of a symmetric one (NIST SP 800-57 part 1, table 2).
fn strength(key: Key) -> u32 {
    match key {
        Key::Rsa(bits) => match bits {
            0..1024 => 0,
            1024..2048 => 80,
            2048..3072 => 112,
            _ => 128,
        },
        Key::Ec(bits) => bits / 2,
        Key::Ed25519 => 128,
        Key::Other => 0,
    }
}

/// The strength of the digest that a certificate is signed over.
fn digest_strength(cert: &X509) -> u32 {
    if let Some(bits) = cert.digest_bits() {
        return bits;
    }
    let algorithm = cert.signature_algorithm().unwrap_or_default();
    match &algorithm[..] {
        [0x30, _, 6, 3, 0x2b, 0x65, 0x70] => 128,
        // RSASSA-PSS (RFC 4055 §3.1): its parameters begin with the digest, unless that is SHA-1.
        [
            0x30,
            _,
            6,
            9,
            0x2a,
            0x86,
            0x48,
            0x86,
            0xf7,
            0x0d,
            1,
            1,
            10,
            0x30,
            _,
            0xa0,
            _,
            0x30,
            _,
            6,
            9,
            0x60,
            0x86,
            0x48,
            1,
            0x65,
            3,
            4,
            2,
            digest,
            ..,
        ] => match digest {
            1 => 128,
            2 => 192,
            3 => 256,
            4 => 112,
            _ => 0,
        },
        _ => 0,
    }
}

fn out_of_time(cert: &X509, now: i64) -> Option<Refusal> {
    match cert.validity() {
        Some((from, _)) if now < from => Some(Refusal::NOT_YET_VALID),
        Some((_, until)) if now > until => Some(Refusal::EXPIRED),
        Some(_) => None,
        None => Some(Refusal::NOT_AFTER),
    }
}

/// Whether one certificate (DER) was issued by another.
pub fn is_issuer(cert: &[u8], issuer: &[u8]) -> bool {
    match (X509::parse(cert), X509::parse(issuer)) {
        (Some(cert), Some(issuer)) => cert.is_issued_by(&issuer),
        _ => false,
    }
}

/// Whether a certificate (DER) is for this host or address, as OpenSSL sees it: the common name counts only where there are
/// no alternative host names.
pub fn is_for_host(der: &[u8], host: &str) -> bool {
    let Some(cert) = X509::parse(der) else { return false };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_address = bare.parse::<std::net::IpAddr>().is_ok();
    is_address && cert.is_for_address(bare) || cert.is_for_host(host)
}
