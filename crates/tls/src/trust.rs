//! Whom to trust, from PEM files as configurations name them.

use crate::certificate::Certificate;
use crate::der::Reader;
use crate::pem::{self, Block};
use brisk_x509::{Chain, Purpose, Refusal};

/// Trusted certificates, and lists of what they have revoked. The default trusts nobody.
#[derive(Debug, Default)]
pub struct Trust(brisk_x509::Trust);

impl Trust {
    /// Trusts these certificates (DER); what is none is left out.
    pub fn of(anchors: &[impl AsRef<[u8]>]) -> Trust {
        let mut trust = Trust::default();
        for der in anchors {
            let _ = trust.0.add(der.as_ref());
        }
        trust
    }

    /// Adds the certificates of a PEM file. The error is in OpenSSL's words.
    pub fn add(&mut self, text: &[u8]) -> Result<(), String> {
        for block in blocks(text)? {
            let added = if block.label == TRUSTED {
                self.0.add_for_purposes(&block.der)
            } else {
                self.0.add(&block.der)
            };
            added.map_err(|_| BAD_ENCODING)?;
        }
        Ok(())
    }

    /// Adds the revocation lists of a PEM file; from now on every certificate of a chain needs one.
    pub fn add_crls(&mut self, text: &[u8]) -> Result<(), String> {
        let mut count = 0;
        for block in pem::blocks(text)?.into_iter().filter(|block| block.label == "X509 CRL") {
            self.0.add_crl(&block.der).map_err(|_| "bad CRL")?;
            count += 1;
        }
        if count == 0 { Err("no CRL found".to_string()) } else { Ok(()) }
    }

    /// Looks for a chain from `leaf` (DER) to a trusted certificate: [`brisk_x509::Trust::verify`].
    pub fn verify(
        &self,
        leaf: &[u8],
        extra: &[impl AsRef<[u8]>],
        purpose: Purpose,
        depth: u32,
        now: i64,
    ) -> Result<Chain, Refusal> {
        self.0.verify(leaf, extra, purpose, depth, now)
    }
}

const TRUSTED: &str = "TRUSTED CERTIFICATE";
const BAD_ENCODING: &str = "bad ASN.1 encoding";

/// The certificates of a PEM file. The error is in OpenSSL's words.
fn blocks(text: &[u8]) -> Result<Vec<Block>, String> {
    const LABELS: [&str; 3] = ["CERTIFICATE", "X509 CERTIFICATE", TRUSTED];
    let mut found = pem::blocks(text)?;
    found.retain(|block| LABELS.contains(&block.label.as_str()));
    if found.is_empty() {
        return Err("PEM routines::no start line:Expecting: CERTIFICATE".to_string());
    }
    Ok(found)
}

/// Reads the certificates of a PEM file as DER, the first of which is the server's own. What OpenSSL appends to those that
/// it calls trusted is left out.
pub fn chain(text: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let read = |block: Block| {
        let first = Reader(&block.der).any().ok_or(BAD_ENCODING)?;
        Certificate::parse(first.whole).map_err(|_| BAD_ENCODING)?;
        Ok(first.whole.to_vec())
    };
    blocks(text)?.into_iter().map(read).collect()
}
