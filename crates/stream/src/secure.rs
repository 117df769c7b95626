//! What is known of a client from its TLS handshake.

use brisk_host::tls::{Rules, Verdict};
use brisk_net::{Stream, Tls};
use brisk_tls::{Hello, Session};
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// See the module's head.
pub struct Secure {
    /// The connection; `None` once another server has it.
    stream: RefCell<Option<Rc<Stream>>>,
    /// The rules that the handshake has followed.
    pub rules: Arc<Rules>,
    /// What the client has offered, if a variable shows it.
    pub hello: Option<Box<Hello>>,
    /// What is wrong with the client's certificate according to its authority's OCSP answer.
    pub revocation: OnceCell<&'static str>,
    verdict: OnceCell<Verdict>,
}

impl Secure {
    /// A session that has begun.
    pub(crate) fn new(stream: Rc<Stream>, rules: Arc<Rules>, hello: Option<Box<Hello>>) -> Secure {
        Secure {
            stream: RefCell::new(Some(stream)),
            rules,
            hello,
            revocation: OnceCell::new(),
            verdict: OnceCell::new(),
        }
    }

    /// Whether the client's certificate is trusted.
    pub fn verdict(&self) -> &Verdict {
        self.verdict.get_or_init(|| {
            let stream = self.stream.borrow();
            stream.as_ref().and_then(|stream| stream.tls()).map_or(Verdict::None, |tls| self.rules.judge(tls))
        })
    }

    /// Looks at the session; there is one from the ClientHello on.
    pub fn session<T>(&self, look: impl FnOnce(&Session) -> T) -> Option<T> {
        self.stream.borrow().as_ref()?.tls().map(|tls: &Tls| tls.session(look))
    }

    /// Another server has the connection from now on.
    pub(crate) fn give_up(&self) {
        self.stream.take();
    }
}
