//! TLS to back ends, as the engine sees it.

use brisk_tls::ClientContext;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// How one request speaks TLS to its back end.
#[derive(Clone)]
pub struct Tls {
    pub context: ClientContext,
    /// The name that the certificate must have.
    pub name: String,
    /// Whether the name is sent.
    pub send_name: bool,
    /// Connections may be shared by requests with the same number.
    pub id: u64,
}

impl Tls {
    /// `owner` is the number of the context: what is offered, shown and trusted.
    pub fn new(context: ClientContext, name: &str, send_name: bool, owner: u64) -> Tls {
        let mut hasher = DefaultHasher::new();
        (owner, name, send_name).hash(&mut hasher);
        // 0 is a plain connection.
        let id = hasher.finish() | 1;
        Tls { context, name: name.to_string(), send_name, id }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.name).finish()
    }
}
