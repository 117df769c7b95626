//! What is known of a client from its handshake.

use crate::conf::ids::ServerId;
use brisk_host::tls::{Rules, Verdict};
use brisk_net::Stream;
use brisk_tls::Hello;
use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;

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
    /// Those of a handshake that another server of the process has answered. Its client was let in there.
    pub(crate) fn passed(
        name: Option<Box<str>>,
        rules: Arc<Rules>,
        hello: Option<Box<Hello>>,
        server: ServerId,
        generation: u64,
    ) -> Facts {
        Facts {
            name,
            // No server of HTTP has accepted it: whoever judges clients by other rules refuses this one.
            accepted: None,
            server,
            generation,
            rules,
            hello,
            revocation: RefCell::default(),
            is_asked: Cell::new(true),
            verdict: OnceCell::new(),
        }
    }

    /// Whether the client's certificate is trusted.
    pub fn verdict(&self, io: &Stream) -> &Verdict {
        self.verdict.get_or_init(|| io.tls().map_or(Verdict::None, |tls| self.rules.judge(tls)))
    }
}
