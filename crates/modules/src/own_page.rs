//! Whether a request may be of another site's page, whose browser stands where only trusted clients should be.
//!
//! Addresses do not tell: the browser is on a machine that is let in. It says whose page has sent a change (`Origin`), but a
//! page can have its own name resolved to this server (DNS rebinding), and then is of the same origin as what it asks for.
//! So the name that was asked for must be one that nobody else's name servers can lead here.

use brisk_server::core::Satisfy;
use brisk_server::request::Request;
use std::net::IpAddr;

/// What guards a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// Nothing.
    None,
    /// Rules that do not ask who somebody is: addresses.
    Rules,
    /// Every client has said, and proven, who it is.
    /// (A browser gives a password to the origin that it was typed for, so a page with another name has none.)
    Identity,
}

/// What has let this request in.
pub(crate) fn guard(r: &Request) -> Guard {
    // The location's own plan: what was inherited is in it.
    let access = &r.snap().location(r.route.loc).plan.access;
    // With `satisfy any` an address may have been enough.
    let is_identified = r.core().satisfy == Satisfy::All && access.iter().any(|handler| handler.identifies());
    match access.is_empty() {
        true => Guard::None,
        false if is_identified => Guard::Identity,
        false => Guard::Rules,
    }
}

/// Whether the name that was asked for is this server's: an address, `localhost`, or in a `server_name`.
pub(crate) fn has_own_name(r: &Request) -> bool {
    is_local_name(&r.head.host) || is_of_unix_socket(r) || r.is_for_written_name()
}

/// Whether a page asks for this under a name that is not this server's, while the server knows its clients by their addresses at
/// best. For what programs ask for under any name, too: a browser alone says whose page has sent a change.
pub(crate) fn is_rebound(r: &Request) -> bool {
    is_own_origin(r).is_some() && guard(r) != Guard::Identity && !has_own_name(r)
}

/// Whether a page of another site asks for this, as far as that can be told.
pub(crate) fn is_foreign(r: &Request) -> bool {
    is_own_origin(r) == Some(false) || is_rebound(r)
}

/// No browser connects to a Unix socket. A proxy may for one, which says so.
fn is_of_unix_socket(r: &Request) -> bool {
    r.client_addr().ip().is_none() && !is_passed_on(r)
}

/// Whether a proxy has passed the request on.
pub(crate) fn is_passed_on(r: &Request) -> bool {
    [&b"Forwarded"[..], b"X-Forwarded-For", b"X-Real-IP", b"Via"]
        // Whatever they say: a browser sends none of them.
        .iter()
        .any(|name| r.header_named(name).is_some())
}

/// `localhost`, or an address: a name that somebody else's name servers cannot lead elsewhere.
pub(crate) fn is_local_name(host: &[u8]) -> bool {
    // With brackets as in a URL.
    let bare = host.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")).unwrap_or(host);
    let is_address = std::str::from_utf8(bare).is_ok_and(|text| text.parse::<IpAddr>().is_ok());
    host.is_empty() || is_address || host.eq_ignore_ascii_case(b"localhost")
}

/// Whether the page that had a browser send this is of this server (RFC 6454 §7); `None` if no page is named.
pub(crate) fn is_own_origin(r: &Request) -> Option<bool> {
    let origin = r.header_named(b"Origin")?;
    let host = r.header_named(b"Host").unwrap_or_default();
    Some([&b"http://"[..], b"https://"].iter().any(|scheme| origin.strip_prefix(*scheme) == Some(host)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_local_names() {
        for (host, want) in [
            (&b"localhost"[..], true),
            (b"LocalHost", true),
            (b"127.0.0.1", true),
            (b"[::1]", true),
            (b"", true),
            (b"rebound.example", false),
            (b"localhost.example", false),
            (b"127.0.0.1.example", false),
        ] {
            assert_eq!(is_local_name(host), want, "{}", String::from_utf8_lossy(host));
        }
    }
}
