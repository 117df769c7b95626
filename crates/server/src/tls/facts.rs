//! What is known of a client from its handshake.

use super::rules::{Rules, Verify};
use crate::conf::ids::ServerId;
use brisk_net::{Stream, clock};
use brisk_tls::{Hello, Purpose, Refusal};
use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;

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

/// See the module's head.
pub struct Facts {
    /// The name that the client asked for, as it wrote it.
    pub name: Option<Box<str>>,
    /// The same as a host, if there is a server of this name.
    pub accepted: Option<Box<[u8]>>,
    /// The server that the name has led to, and the configuration (by its count of reloads) where it has this number.
    pub server: ServerId,
    /// Of the configuration that has decided.
    pub generation: u64,
    /// The rules that the handshake has followed.
    pub rules: Arc<Rules>,
    /// What the client has offered.
    pub hello: Option<Box<Hello>>,
    /// What is wrong with the client's certificate by what its authority answers now.
    pub revocation: RefCell<Option<String>>,
    /// The authorities have been asked about it.
    pub(super) is_asked: Cell<bool>,
    pub(super) verdict: OnceCell<Verdict>,
}

impl Facts {
    /// Whether the client's certificate is trusted.
    pub fn verdict(&self, io: &Stream) -> &Verdict {
        self.verdict.get_or_init(|| {
            let Some(tls) = io.tls().filter(|_| self.rules.verify != Verify::Off) else {
                return Verdict::None;
            };
            tls.session(|session| {
                let chain = session.peer_certificates();
                let Some((leaf, extra)) = chain.split_first() else { return Verdict::None };
                let empty = brisk_tls::Trust::default();
                let trust = self.rules.trust.as_deref().unwrap_or(&empty);
                let now = clock::now().unix_secs;
                match trust.verify(leaf, extra, Purpose::Client, self.rules.depth, now) {
                    Ok(_) => Verdict::Good,
                    Err(refusal) => Verdict::Bad(refusal),
                }
            })
        })
    }
}
