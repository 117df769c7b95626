//! Who may see a dashboard, and change something by it.

use crate::api::is_own_origin;
use brisk_http::HeaderId;
use brisk_server::core::Satisfy;
use brisk_server::request::Request;
use std::net::IpAddr;

/// What guards a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// Nothing.
    None,
    /// Rules that do not ask who somebody is: addresses.
    Rules,
    /// Every client has said, and proven, who it is.
    Identity,
}

/// What has let this request in.
pub(super) fn guard(r: &Request) -> Guard {
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

/// Whether a request without any rule comes from this machine and means it; the error says what speaks against it.
///
/// A proxy on this machine connects from here for everybody: it says so by a field of its own. A page of another site can
/// have a name of its own resolved to 127.0.0.1 and read what it gets (DNS rebinding): the name that was asked for tells.
pub(super) fn is_of_this_machine(r: &Request) -> Result<(), &'static str> {
    // (A Unix socket has no address: only this machine can connect to it.)
    if r.client_addr().ip().is_some_and(|ip| !is_loopback(ip)) {
        return Err("its location has no access rules, and the client is not on this machine");
    }
    if [&b"Forwarded"[..], b"X-Forwarded-For", b"X-Real-IP", b"Via"]
        // Whatever they say: a browser sends none of them.
        .iter()
        .any(|name| r.header_named(name).is_some())
    {
        return Err(
            "its location has no access rules, and a proxy on this machine has passed the request on",
        );
    }
    if !is_local_name(&r.head.host) {
        return Err("its location has no access rules, and the request is for a name that is not localhost");
    }
    Ok(())
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// `localhost`, or an address: a name that somebody else's name servers cannot lead elsewhere.
fn is_local_name(host: &[u8]) -> bool {
    // With brackets as in a URL.
    let bare = host.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")).unwrap_or(host);
    let is_address = std::str::from_utf8(bare).is_ok_and(|text| text.parse::<IpAddr>().is_ok());
    host.is_empty() || is_address || host.eq_ignore_ascii_case(b"localhost")
}

/// Whether a change was asked for by a page of this server: browsers say where a page comes from (RFC 6454 §7), and a page of
/// another origin cannot send JSON without being allowed to.
pub(super) fn is_own_page(r: &Request) -> bool {
    let has_host = r.header_named(b"Host").is_some_and(|host| !host.is_empty());
    // A form of another site can send neither this type nor PATCH without being asked first (CORS).
    let is_json = r.header(HeaderId::ContentType).is_some_and(|value| value == b"application/json");
    has_host && is_json && is_own_origin(r) == Some(true)
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

    #[test]
    fn loopback_addresses_of_both_families() {
        for (ip, want) in [
            ("127.0.0.1", true),
            ("127.8.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("10.0.0.1", false),
        ] {
            assert_eq!(is_loopback(ip.parse().unwrap()), want, "{ip}");
        }
    }
}
