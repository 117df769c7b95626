//! What a `server` block says about TLS.

use super::answers::Asking;
use super::context::Context;
use brisk_net::{Tls, clock};
use brisk_tls::{Purpose, Refusal, Trust};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// `ssl_verify_client`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// No certificate is asked for.
    #[default]
    Off,
    /// A good certificate is required.
    On,
    /// A certificate is asked for, and must be good if it comes.
    Optional,
    /// Certificates of authorities that are not known here pass.
    OptionalNoCa,
}

/// The rules of one server. Also a server without a certificate has some: it may be reached over another one's handshake.
pub struct Rules {
    /// Whether and how certificates are asked for.
    pub verify: Verify,
    /// Equal where clients' certificates are judged alike, by the same authorities; none where they are not judged.
    pub clients: Option<[u8; 32]>,
    /// Whom to trust.
    pub trust: Option<Arc<Trust>>,
    /// `ssl_verify_depth`.
    pub depth: u32,
    /// `ssl_ocsp`.
    pub ocsp: Option<Asking>,
    /// `ssl_reject_handshake`.
    pub reject: bool,
    /// `ssl_handshake_timeout`; none: `client_header_timeout`.
    pub handshake_timeout: Option<Duration>,
    /// What handshakes need; nothing without certificates.
    pub context: Option<Arc<Context>>,
}

/// What verification has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The client has shown no certificate.
    None,
    /// It is good.
    Good,
    /// It is refused.
    Bad(Refusal),
}

/// Why a client is not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// Its certificate is refused.
    Bad(Refusal),
    /// It has shown none.
    Missing,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejected::Bad(refusal) => write!(f, "client SSL certificate verify error: {refusal}"),
            Rejected::Missing => f.write_str("client sent no required SSL certificate"),
        }
    }
}

impl Rules {
    /// Whether a client with this verdict is let in. The error is nginx's line.
    pub fn admit(&self, verdict: &Verdict) -> Result<(), Rejected> {
        match verdict {
            // `optional_no_ca` forgives that no trusted authority has signed it, nothing else: out of date or forged stays out.
            Verdict::Bad(refusal)
                if self.verify != Verify::OptionalNoCa || !refusal.is_unknown_authority() =>
            {
                Err(Rejected::Bad(*refusal))
            }
            Verdict::None if self.verify == Verify::On => Err(Rejected::Missing),
            _ => Ok(()),
        }
    }

    /// Whether the certificate that a client has shown is trusted by these rules. It is computed at each call.
    pub fn judge(&self, tls: &Tls) -> Verdict {
        if self.verify == Verify::Off {
            return Verdict::None;
        }
        tls.session(|session| {
            let chain = session.peer_certificates();
            let Some((leaf, extra)) = chain.split_first() else { return Verdict::None };
            let empty = Trust::default();
            let trust = self.trust.as_deref().unwrap_or(&empty);
            match trust.verify(leaf, extra, Purpose::Client, self.depth, clock::now().unix_secs) {
                Ok(_) => Verdict::Good,
                Err(refusal) => Verdict::Bad(refusal),
            }
        })
    }
}
