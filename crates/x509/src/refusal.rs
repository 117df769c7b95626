//! Why a certificate is refused, in OpenSSL's numbers and words.

use std::fmt;

/// OpenSSL's number and text of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// OpenSSL's `X509_V_ERR_…`.
    pub code: u8,
    /// What `X509_verify_cert_error_string` says of it.
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
            $(#[doc = $text] pub const $name: Refusal = Refusal { code: $code, text: $text };)*
        }

        const ALL: &[Refusal] = &[$(Refusal::$name),*];
    };
}

// The numbers and texts of OpenSSL 3.
refusals! {
    MALFORMED = 1 "unspecified certificate verification error";
    NO_ISSUER = 2 "unable to get issuer certificate";
    NO_CRL = 3 "unable to get certificate CRL";
    ISSUER_KEY = 6 "unable to decode issuer public key";
    SIGNATURE = 7 "certificate signature failure";
    CRL_SIGNATURE = 8 "CRL signature failure";
    NOT_YET_VALID = 9 "certificate is not yet valid";
    EXPIRED = 10 "certificate has expired";
    CRL_NOT_YET_VALID = 11 "CRL is not yet valid";
    CRL_EXPIRED = 12 "CRL has expired";
    NOT_BEFORE = 13 "format error in certificate's notBefore field";
    NOT_AFTER = 14 "format error in certificate's notAfter field";
    CRL_LAST_UPDATE = 15 "format error in CRL's lastUpdate field";
    CRL_NEXT_UPDATE = 16 "format error in CRL's nextUpdate field";
    MEMORY = 17 "out of memory";
    SELF_SIGNED = 18 "self-signed certificate";
    SELF_SIGNED_IN_CHAIN = 19 "self-signed certificate in certificate chain";
    NO_LOCAL_ISSUER = 20 "unable to get local issuer certificate";
    UNVERIFIED_LEAF = 21 "unable to verify the first certificate";
    TOO_LONG = 22 "certificate chain too long";
    REVOKED = 23 "certificate revoked";
    PATH_LENGTH = 25 "path length constraint exceeded";
    PURPOSE = 26 "unsuitable certificate purpose";
    UNTRUSTED = 27 "certificate not trusted";
    REJECTED = 28 "certificate rejected";
    NO_CRL_ISSUER = 33 "unable to get CRL issuer certificate";
    UNKNOWN_CRITICAL = 34 "unhandled critical extension";
    NO_CRL_SIGN = 35 "key usage does not include CRL signing";
    UNKNOWN_CRITICAL_CRL = 36 "unhandled critical CRL extension";
    EXTENSION = 41 "invalid or inconsistent certificate extension";
    CRL_SCOPE = 44 "different CRL scope";
    NOT_PERMITTED = 47 "permitted subtree violation";
    EXCLUDED = 48 "excluded subtree violation";
    SUBTREE_LIMITS = 49 "name constraints minimum and maximum not supported";
    CONSTRAINT_TYPE = 51 "unsupported name constraint type";
    CONSTRAINT_SYNTAX = 52 "unsupported or invalid name constraint syntax";
    NAME_SYNTAX = 53 "unsupported or invalid name syntax";
    HOST = 62 "hostname mismatch";
    WEAK_KEY = 66 "EE certificate key too weak";
    WEAK_AUTHORITY_KEY = 67 "CA certificate key too weak";
    WEAK_DIGEST = 68 "CA signature digest algorithm too weak";
    LOOKUP = 70 "issuer certificate lookup error";
    INVALID_CA = 79 "invalid CA certificate";
    EXPLICIT_CURVE = 94 "Certificate public key has explicit ECC parameters";
}

impl Refusal {
    /// The verdict of AWS-LC's number: its numbers are OpenSSL 1.1's, up to those that OpenSSL 3 has given to others.
    pub(crate) fn of_code(code: i32) -> Refusal {
        match code {
            24 => Refusal::INVALID_CA,
            66 => Refusal::LOOKUP,
            72 => Refusal::EXPLICIT_CURVE,
            // Numbers above these are AWS-LC's own, and of what is not asked for here.
            63.. => Refusal::MALFORMED,
            _ => {
                ALL.iter().find(|known| i32::from(known.code) == code).copied().unwrap_or(Refusal::MALFORMED)
            }
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_to_verdicts() {
        let of = |code| Refusal::of_code(code).code;
        assert_eq!([of(10), of(20), of(24), of(62), of(66), of(72)], [10, 20, 79, 62, 70, 94]);
        // None is taken for no error, and what is not known is still a refusal.
        for code in [-1, 0, 4, 55, 63, 67, 71, 79, 1000] {
            assert_eq!(Refusal::of_code(code), Refusal::MALFORMED, "{code}");
        }
    }
}
