//! TLS to back ends, as the engine sees it.

use brisk_server::tls::{Cache, Pair};
use brisk_tls::ClientContext;
use std::borrow::Cow;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

/// How one request speaks TLS to its back end.
#[derive(Clone)]
pub struct Tls {
    /// What its handshakes are made of.
    pub context: ClientContext,
    /// The name that the certificate must have.
    pub name: String,
    /// Whether the name is sent.
    pub send_name: bool,
    /// Connections may be shared by requests with the same number.
    pub id: u64,
    /// What is presented to the server, if it is known only now.
    named: Option<Arc<Named>>,
}

/// A certificate whose place has variables in it.
struct Named {
    pair: Pair,
    passwords: Arc<Vec<Vec<u8>>>,
    cache: Option<Arc<Cache>>,
}

impl Tls {
    /// `owner` is the number of the context: what is offered, shown and trusted.
    pub fn new(context: ClientContext, name: &str, send_name: bool, owner: u64) -> Tls {
        let mut hasher = DefaultHasher::new();
        (owner, name, send_name).hash(&mut hasher);
        // 0 is a plain connection.
        let id = hasher.finish() | 1;
        Tls { context, name: name.to_string(), send_name, id, named: None }
    }

    /// Presents a certificate that is read when a connection is made.
    #[must_use]
    pub fn presenting(mut self, pair: Pair, passwords: Arc<Vec<Vec<u8>>>, cache: Option<Arc<Cache>>) -> Tls {
        let mut hasher = DefaultHasher::new();
        (self.id, &pair).hash(&mut hasher);
        self.id = hasher.finish() | 1;
        self.named = Some(Arc::new(Named { pair, passwords, cache }));
        self
    }

    /// What a new session is made with. The error is for the log.
    pub(crate) async fn ready(&self) -> Result<Cow<'_, ClientContext>, String> {
        let Some(named) = &self.named else { return Ok(Cow::Borrowed(&self.context)) };
        let certified = named.pair.load(&named.passwords, named.cache.as_deref()).await?;
        Ok(Cow::Owned(self.context.presenting(&certified)))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.name).finish()
    }
}
