//! The secrets that all threads of all workers have in common, so that any of them understands what another one gave out.

use aws_lc_rs::{hkdf, hmac};
use quinn_proto::BloomTokenLog;
use std::sync::Arc;

/// Keys for stateless resets (RFC 9000 §10.3), tokens (§8.1) and connection IDs, all made of one secret. Cheap to clone; clones
/// share the list of tokens that were used.
#[derive(Clone)]
pub struct Keys {
    pub(crate) reset: Arc<hmac::Key>,
    pub(crate) token: Arc<hkdf::Prk>,
    pub(crate) cid: [u8; 16],
    /// Tokens of NEW_TOKEN frames are good for one connection each.
    pub(crate) used: Arc<BloomTokenLog>,
}

impl Keys {
    /// `secret`: `quic_host_key`, or what the master has drawn.
    pub fn new(secret: &[u8]) -> Keys {
        let root = hkdf::Salt::new(hkdf::HKDF_SHA256, b"brisk quic").extract(secret);
        let part = |label: &[u8]| -> [u8; 32] {
            let mut out = [0; 32];
            let info = [label];
            // 32 bytes are one block of the function.
            let expanded = root.expand(&info, hkdf::HKDF_SHA256).and_then(|okm| okm.fill(&mut out));
            expanded.expect("one block can be had");
            out
        };
        let cid = part(b"connection id");
        Keys {
            reset: Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &part(b"stateless reset"))),
            token: Arc::new(hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &part(b"token"))),
            cid: std::array::from_fn(|at| cid[at]),
            used: Arc::new(BloomTokenLog::default()),
        }
    }

    /// For [`route`](crate::route).
    pub fn cid(&self) -> &[u8; 16] {
        &self.cid
    }
}
