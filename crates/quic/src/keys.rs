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

/// A secret for one purpose, made of a common one (RFC 5869).
pub fn derive(secret: &[u8], purpose: &[u8]) -> [u8; 32] {
    let root = hkdf::Salt::new(hkdf::HKDF_SHA256, b"brisk quic").extract(secret);
    let mut out = [0; 32];
    let info = [purpose];
    // 32 bytes are one block of the function.
    let expanded = root.expand(&info, hkdf::HKDF_SHA256).and_then(|okm| okm.fill(&mut out));
    expanded.expect("one block can be had");
    out
}

/// Marks messages between processes that have one secret.
pub struct Seal(hmac::Key);

/// Bytes of a mark: HMAC-SHA256, of which half is enough (RFC 2104 §5).
pub const MARK_BYTES: usize = 16;

impl Seal {
    /// For messages of one purpose.
    pub fn new(secret: &[u8], purpose: &[u8]) -> Seal {
        Seal(hmac::Key::new(hmac::HMAC_SHA256, &derive(secret, purpose)))
    }

    /// The mark of a message.
    pub fn mark(&self, message: &[u8]) -> [u8; MARK_BYTES] {
        let whole = hmac::sign(&self.0, message);
        let mut mark = [0; MARK_BYTES];
        mark.copy_from_slice(&whole.as_ref()[..MARK_BYTES]);
        mark
    }

    /// Whether a message has the mark that this seal gives, in a time that does not depend on where they differ.
    pub fn fits(&self, message: &[u8], mark: &[u8]) -> bool {
        aws_lc_rs::constant_time::verify_slices_are_equal(&self.mark(message), mark).is_ok()
    }
}

impl Keys {
    /// `secret`: `quic_host_key`, or what the master has drawn.
    pub fn new(secret: &[u8]) -> Keys {
        let part = |label: &[u8]| derive(secret, label);
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
