//! Who may see a dashboard, and change something by it.

use crate::own_page::{is_local_name, is_own_origin, is_passed_on};
use brisk_http::HeaderId;
use brisk_server::request::Request;
use std::net::IpAddr;

/// Whether a request without any rule comes from this machine and means it; the error says what speaks against it.
///
/// A proxy on this machine connects from here for everybody: it says so by a field of its own. A page of another site can
/// have a name of its own resolved to 127.0.0.1 and read what it gets (DNS rebinding): the name that was asked for tells.
pub(super) fn is_of_this_machine(r: &Request) -> Result<(), &'static str> {
    // (A Unix socket has no address: only this machine can connect to it.)
    if r.client_addr().ip().is_some_and(|ip| !is_loopback(ip)) {
        return Err("its location has no access rule for the client, which is not on this machine");
    }
    if is_passed_on(r) {
        return Err(
            "its location has no access rule for the client, and a proxy on this machine has passed the request on",
        );
    }
    if !is_local_name(&r.head.host) {
        return Err(
            "its location has no access rule for the client, and the request is for a name that is not localhost",
        );
    }
    Ok(())
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
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
