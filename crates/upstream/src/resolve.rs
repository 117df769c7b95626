//! Peers that are known only by name, or by an address in the request.

use crate::attempt::Attempt;
use crate::backend::{Backend, Transient};
use crate::protocol::Protocol;
use crate::request::UpstreamRequest;
use brisk_balance::Endpoint;
use brisk_net::{Activity, Cause, Failure, Origin, Retry};
use brisk_server::core::LogLevel;
use brisk_server::log::Witness;
use brisk_server::request::Request;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

/// The first attempt at `host`: an address, the path of a socket, or a name that is looked up.
pub(crate) fn begin<P: Protocol>(
    request: &UpstreamRequest<P>,
    r: &Request,
    host: &str,
    port: u16,
) -> Attempt {
    // Not from a named group: its peers have no counters that would outlive the request.
    // A request that chooses its peer itself (`proxy_pass http://$host`) has no peers to balance between.
    let known = |endpoint| Attempt::choosing(request, r, Arc::new(Transient::new(host, vec![endpoint])));
    if let Some(path) = host.strip_prefix("unix:") {
        return known(Endpoint::Unix(path.into()));
    }
    // RFC 3986 §3.2.2: an IPv6 address in a URL has brackets, which are no part of it.
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return known(Endpoint::Ip(SocketAddr::new(ip, port)));
    }
    // All that the look-up needs is taken out of the request: the future must not borrow it, as the driver may poll without it.
    let (resolver, limit) = (r.core().resolver.clone(), r.core().resolver_timeout);
    let (host, state) = (host.to_string(), request.state.clone());
    let witness = Witness::of(r);
    let log: brisk_resolver::Log = Rc::new(move |text| witness.log(LogLevel::Error, text));
    // Awaited by the attempt: no place at a peer is held meanwhile.
    Attempt::Resolving(Box::pin(async move {
        let unknown = |origin, text: String| {
            // For `$upstream_addr`: the log shows whom the request was meant for, although no peer was asked.
            state.unasked(&host, 502);
            let cause = Cause::Unavailable(text.into());
            // There is no other peer: what the name stands for is not known.
            Failure::new(origin, Activity::Resolving, cause).retry_is(Retry::Never)
        };
        let Some(resolver) = resolver else {
            // The system's resolver would block the thread, so it is no way out.
            let text = format!("no resolver defined to resolve {host}");
            return Err(unknown(Origin::Configuration, text));
        };
        match resolver.lookup(&host, limit, &log).await {
            Ok(found) => {
                let endpoint = |ip: &IpAddr| Endpoint::Ip(SocketAddr::new(*ip, port));
                // All of them: when one fails the next is tried, as with a named group.
                let endpoints = found.addresses.iter().map(endpoint).collect();
                Ok(Arc::new(Transient::new(&host, endpoints)) as Arc<dyn Backend>)
            }
            Err(error) => Err(unknown(Origin::Upstream, format!("{host} {error}"))),
        }
    }))
}
