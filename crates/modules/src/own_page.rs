//! Whether a request may be of another site's page, whose browser stands where only trusted clients should be.
//!
//! Addresses do not tell: the browser is on a machine that is let in. It says whose page has sent a change (`Origin`), but a
//! page can have its own name resolved to this server (DNS rebinding), and then is of the same origin as what it asks for.
//! So the name that was asked for must be one that nobody else's name servers can lead here. Nor do browsers say `Origin` with what a
//! page merely shows, such as a picture: what has an effect by GET is judged by more.

use brisk_http::Method;
use brisk_server::core::Satisfy;
use brisk_server::flow::Flow;
use brisk_server::request::Request;
use brisk_server::rlog;
use std::net::IpAddr;

/// What guards a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// Nothing that has decided about this request. A list of clients that are shut out, which may be that of the whole server, has let nobody
    /// in.
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
    match access.iter().any(|handler| handler.decides(r)) {
        false => Guard::None,
        true if is_identified => Guard::Identity,
        true => Guard::Rules,
    }
}

/// Whether the name that was asked for is this server's: an address, `localhost`, or in a `server_name`.
pub(crate) fn has_own_name(r: &Request) -> bool {
    is_local_name(&r.head.host) || is_of_unix_socket(r) || r.is_for_written_name()
}

/// Whether a page asks for this under a name that is not this server's, while the server knows its clients by their addresses at
/// best. For what programs ask for under any name, too: a browser alone says whose page has sent a change.
pub(crate) fn is_rebound(r: &Request) -> bool {
    is_own_origin(r).is_some() && has_foreign_name(r)
}

/// Whether a page of another site asks for this, as far as that can be told. For what has an effect whatever the method is.
pub(crate) fn is_foreign(r: &Request) -> bool {
    let may_be_shown = matches!(r.route.method, Method::Get | Method::Head);
    is_own_origin(r) == Some(false) || is_rebound(r) || may_be_shown && is_shown_elsewhere(r)
}

/// Whether a page of another site may show this: a picture or a link has a browser ask for it without `Origin`. (Passwords are sent
/// along, so they speak for nobody here.)
fn is_shown_elsewhere(r: &Request) -> bool {
    let is_of_site = r.header_named(b"Sec-Fetch-Site").is_none_or(is_own_site);
    let host = r.header_named(b"Host").unwrap_or_default();
    let is_of_page = r.header_named(b"Referer").is_none_or(|page| page.is_empty() || is_page_of(page, host));
    !is_of_site || !is_of_page || has_foreign_name(r)
}

/// What browsers say of pages of the same origin, and of what a person has typed (Fetch Metadata, W3C §2.3).
fn is_own_site(site: &[u8]) -> bool {
    matches!(site, b"same-origin" | b"none")
}

/// Whether a page has this host and port.
fn is_page_of(page: &[u8], host: &[u8]) -> bool {
    let Some(rest) = page.strip_prefix(b"http://").or_else(|| page.strip_prefix(b"https://")) else {
        return false;
    };
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    !host.is_empty() && rest[..end].eq_ignore_ascii_case(host)
}

/// Whether this is asked for under a name that is not this server's, of a location that does not ask who its clients are.
pub(crate) fn has_foreign_name(r: &Request) -> bool {
    guard(r) != Guard::Identity && !has_own_name(r)
}

/// The refusal of a look at what the server says of itself, under a name that is not its own: a page whose name somebody has led here
/// could read it. `what`: what was asked for, for the log.
pub(crate) fn refuses_name(r: &Request, what: &str) -> Option<Flow> {
    if !has_foreign_name(r) {
        return None;
    }
    rlog!(
        r,
        Error,
        "{what} was refused: the request is for a name that no server_name has; add the name there, or ask for an address or localhost"
    );
    Some(Flow::Status(403))
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
    fn a_page_is_of_the_host_that_is_asked() {
        for (page, host, want) in [
            (&b"http://a.example/x?y"[..], &b"a.example"[..], true),
            (b"https://A.example", b"a.example", true),
            (b"http://a.example:81/", b"a.example:81", true),
            (b"http://a.example:81/", b"a.example", false),
            (b"http://a.example.evil/", b"a.example", false),
            (b"http://a.example@evil/", b"a.example", false),
            (b"http://evil/?http://a.example/", b"a.example", false),
            (b"http://a.example#", b"a.example", true),
            (b"http:///", b"", false),
            (b"about:blank", b"a.example", false),
        ] {
            assert_eq!(is_page_of(page, host), want, "{}", String::from_utf8_lossy(page));
        }
        assert!(is_own_site(b"none") && is_own_site(b"same-origin") && !is_own_site(b"same-site"));
    }

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
