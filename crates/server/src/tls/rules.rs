//! What a `server` block says about TLS.

use super::answers::Asking;
use super::context::Context;
use brisk_tls::Trust;
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
