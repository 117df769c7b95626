//! Connections for checks.

use brisk_balance::Endpoint;
use brisk_net::connect::{ConnectError, Destination, Options, finish, start};
use brisk_net::{Stream, timeout};
use brisk_upstream::tls::Tls;
use std::time::Duration;

/// Connects, with TLS if that is wanted; each of the two may take as long as `limit`. The error is for the log.
pub(super) async fn dial(endpoint: &Endpoint, tls: Option<&Tls>, limit: Duration) -> Result<Stream, String> {
    let to = match endpoint {
        Endpoint::Ip(address) => Destination::Ip(*address),
        Endpoint::Unix(path) => Destination::Unix(path),
    };
    // Without `*_bind` and other options of requests: they may depend on variables, and here is no request.
    let io = start(to, &Options::default()).map_err(failed)?;
    timeout(limit, io.writable()).await.map_err(|_| "connect timed out".to_string())?;
    finish(&io).map_err(failed)?;
    let Some(tls) = tls else { return Ok(Stream::from(io)) };
    let session = Stream::connect_tls(io, &tls.context, &tls.identity.name, tls.identity.send_name);
    let made = timeout(limit, session).await;
    made.map_err(|_| "the TLS handshake timed out".to_string())?.map_err(|error| error.to_string())
}

/// What a call has said, for the log.
pub(super) fn failed(error: ConnectError) -> String {
    format!("{}() failed ({})", error.call, brisk_conf::os_text(&error.error))
}
