//! `proxy_ssl`: TLS with the servers that sessions are passed to, by the same code as HTTP's.

use crate::ssl::peer::PeerTls;
use brisk_net::{Io, Stream};
use brisk_stream::Session;
use brisk_stream::conf::PeerTls as Peer;
use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// What a server of `stream` says of it.
pub struct OfSessions(pub Arc<PeerTls>);

impl Peer for OfSessions {
    fn begin<'s>(
        &'s self,
        session: &'s Session,
        io: Io,
        host: &'s str,
    ) -> Pin<Box<dyn Future<Output = Result<Stream, String>> + 's>> {
        Box::pin(async move {
            let tls = self.0.of(session, host, &session.origin.conf.allowed);
            let context = tls.ready().await?;
            let context = match self.0.alpn(session) {
                Some(protocols) => Cow::Owned(context.offering(&protocols)),
                None => context,
            };
            let (name, send_name) = (&tls.identity.name, tls.identity.send_name);
            let made = Stream::connect_tls(io, &context, name, send_name).await;
            made.map_err(|error| format!("{error} while SSL handshaking to upstream"))
        })
    }
}
