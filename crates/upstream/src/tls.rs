//! TLS to back ends, as the engine sees it.
//!
//! What a session was verified for is its [`Identity`]: a kept connection serves only requests with the very same one.

use brisk_server::tls::{Cache, Pair, Rule};
use brisk_tls::ClientContext;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// How one request speaks TLS to its back end.
#[derive(Clone)]
pub struct Tls {
    /// What its handshakes are made of.
    pub context: ClientContext,
    /// Connections may be shared by requests that have the same.
    pub identity: Identity,
    /// What is presented to the server, if it is known only now.
    named: Option<Named>,
}

/// All that decides on a session with a back end. It is compared as a whole: a hash of it could be met by another name, which a client
/// may have chosen (`proxy_ssl_name $host`), and that request would go over a connection that was verified for somebody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The number of the context: versions, suites, what is trusted, the fixed certificate. No two contexts of a process have the same.
    pub owner: u64,
    /// The name that the certificate must have. Shared: it goes from the request to the connection that is kept.
    pub name: Arc<str>,
    /// Whether the name is sent.
    pub send_name: bool,
    /// The certificate that is presented, where its place has variables in it.
    /// Compared by its paths, not by what the files hold: a renewed certificate is used by new connections.
    pub pair: Option<Arc<Pair>>,
}

/// How a certificate whose place has variables in it is read.
#[derive(Clone)]
struct Named {
    /// What its place, and that of its key, can be: a variable may hold what a client has sent.
    rules: [Rule; 2],
    passwords: Arc<Vec<Vec<u8>>>,
    cache: Option<Arc<Cache>>,
}

impl Tls {
    /// `owner` is the number of the context, which no other context has.
    pub fn new(context: ClientContext, name: &str, send_name: bool, owner: u64) -> Tls {
        Tls { context, identity: Identity { owner, name: name.into(), send_name, pair: None }, named: None }
    }

    /// Presents a certificate that is read when a connection is made. Where it, or its key, is not what the rules say, there is no connection.
    #[must_use]
    pub fn presenting(
        mut self,
        pair: Pair,
        rules: [Rule; 2],
        passwords: Arc<Vec<Vec<u8>>>,
        cache: Option<Arc<Cache>>,
    ) -> Tls {
        self.named = Some(Named { rules, passwords, cache });
        self.identity.pair = Some(Arc::new(pair));
        self
    }

    /// What a new session is made with. The error is for the log.
    // The file may be on a slow disk and readable by root only: it is read on the pool, or asked of the
    // master.
    pub async fn ready(&self) -> Result<Cow<'_, ClientContext>, String> {
        let (Some(named), Some(pair)) = (&self.named, &self.identity.pair) else {
            return Ok(Cow::Borrowed(&self.context));
        };
        for (rule, path) in named.rules.iter().zip([&pair.certificate, &pair.key]) {
            rule.check(path)?;
        }
        let certified = pair.load(&named.passwords, named.cache.as_deref()).await?;
        Ok(Cow::Owned(self.context.presenting(&certified)))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.identity.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_server::tls::Allowed;
    use brisk_server::vars::Template;
    use brisk_tls::ClientOptions;

    fn identity(owner: u64, name: &str, send_name: bool, certificate: Option<&str>) -> Identity {
        let context = ClientContext::new(&ClientOptions::unverified()).unwrap();
        let tls = Tls::new(context, name, send_name, owner);
        let Some(certificate) = certificate else { return tls.identity };
        let pair = Pair { certificate: certificate.into(), key: "key.pem".into() };
        let rule = Allowed::default().rule(&Template::default());
        tls.presenting(pair, [rule.clone(), rule], Arc::default(), None).identity
    }

    #[test]
    fn connections_are_shared_by_requests_that_agree_in_everything() {
        let one = || identity(1, "a.example", true, Some("a.pem"));
        assert_eq!(one(), one());
        for other in [
            identity(2, "a.example", true, Some("a.pem")),
            identity(1, "b.example", true, Some("a.pem")),
            identity(1, "a.example", false, Some("a.pem")),
            identity(1, "a.example", true, Some("b.pem")),
            identity(1, "a.example", true, None),
        ] {
            assert_ne!(one(), other);
        }
    }
}
