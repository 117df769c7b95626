//! OCSP (RFC 6960): asking an authority whether a certificate of its is still good, and reading what it answers.

use crate::limits::OCSP_SLACK_SECS;
use crate::sys::{self, OcspDigest, OcspResponse, X509};

/// What an authority says of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is not revoked.
    Good,
    /// It is revoked.
    Revoked,
    /// The responder does not know it.
    Unknown,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What it says.
    pub status: Status,
    /// Until when it holds, if it says so; seconds since 1970.
    pub until: Option<i64>,
}

/// A request about one certificate; `None` if one of them is none.
pub fn request(cert: &[u8], issuer: &[u8]) -> Option<Vec<u8>> {
    sys::ocsp_request(&X509::parse(cert)?, &X509::parse(issuer)?)
}

/// Reads a response about `cert`. With `verify` it must be signed by the issuer, or by a certificate that the issuer has
/// issued for that (RFC 6960 §4.2.2.2). Errors are in nginx's words.
pub fn check(response: &[u8], cert: &[u8], issuer: &[u8], verify: bool, now: i64) -> Result<Answer, String> {
    let parse = |der| X509::parse(der).ok_or_else(|| "malformed certificate".to_string());
    let (cert, issuer) = (parse(cert)?, parse(issuer)?);
    let response = OcspResponse::parse(response).ok_or("d2i_OCSP_RESPONSE() failed")?;
    let status = response.status();
    if status != 0 {
        return Err(format!("OCSP response not successful ({status}: {})", status_text(status)));
    }
    let basic = response.basic().ok_or("OCSP_response_get1_basic() failed")?;
    if verify && !basic.is_signed(&issuer, now) {
        return Err("OCSP_basic_verify() failed".to_string());
    }
    // Requests name certificates by SHA-1; files of `ssl_stapling_file` and some responders use the other.
    let said = [OcspDigest::Sha1, OcspDigest::Sha256]
        .into_iter()
        .find_map(|digest| basic.status_of(&cert, &issuer, digest))
        .ok_or("certificate status not found in the OCSP response")?;
    let is_late = said.until.is_some_and(|until| now - OCSP_SLACK_SECS > until || until < said.from);
    if now + OCSP_SLACK_SECS < said.from || is_late {
        return Err("OCSP_check_validity() failed".to_string());
    }
    let status = match said.status {
        0 => Status::Good,
        1 => Status::Revoked,
        _ => Status::Unknown,
    };
    Ok(Answer { status, until: said.until })
}

fn status_text(status: i32) -> &'static str {
    match status {
        1 => "malformedrequest",
        2 => "internalerror",
        3 => "trylater",
        5 => "sigrequired",
        6 => "unauthorized",
        _ => "unknown",
    }
}
