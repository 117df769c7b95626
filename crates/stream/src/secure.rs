//! What is known of a client from its TLS handshake.

use brisk_host::tls::{Rules, Verdict};
use brisk_net::{Stream, Tls};
use brisk_tls::Hello;
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

/// See the module's head.
pub struct Secure {
    /// The connection.
    pub stream: Rc<Stream>,
    /// The rules that the handshake has followed.
    pub rules: Arc<Rules>,
    /// What the client has offered, if a variable shows it.
    pub hello: Option<Box<Hello>>,
    verdict: OnceCell<Verdict>,
}

impl Secure {
    /// A session that has begun.
    pub(crate) fn new(stream: Rc<Stream>, rules: Arc<Rules>, hello: Option<Box<Hello>>) -> Secure {
        Secure { stream, rules, hello, verdict: OnceCell::new() }
    }

    /// Whether the client's certificate is trusted.
    pub fn verdict(&self) -> &Verdict {
        self.verdict.get_or_init(|| self.stream.tls().map_or(Verdict::None, |tls| self.rules.judge(tls)))
    }

    /// The session; there is one from the ClientHello on.
    pub fn tls(&self) -> Option<&Tls> {
        self.stream.tls()
    }
}
