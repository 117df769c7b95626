//! Which requests get coded responses: `gzip_vary`, `gzip_proxied`, `gzip_http_version`, `gzip_disable`. They hold for all
//! codings.

use brisk_http::negotiate::Preference;
use brisk_http::{HeaderId, Version, date};
use brisk_server::plan::Dependencies;
use brisk_server::regex::Regex;
use brisk_server::request::Request;
use brisk_server::response::Response;
use brisk_server::text::Text;
use std::sync::Arc;

/// `Vary` of a response that may be compressed with a dictionary (RFC 9842 §6.2), too.
pub const DICTIONARY_VARY: &str = "Accept-Encoding, Available-Dictionary";

/// What the rows, which are the module `gzip`'s, come to in one block.
#[derive(Clone, Default)]
pub struct Rules {
    /// `gzip_vary`.
    pub(super) vary: bool,
    /// `gzip_http_version`.
    pub(super) version: Version,
    /// `gzip_proxied`.
    pub(super) proxied: Proxied,
    /// `gzip_disable`.
    pub(super) disabled: Arc<[Arc<Regex>]>,
    /// `gzip_disable msie6`.
    pub(super) disabled_msie6: bool,
}

/// `gzip_proxied`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Proxied(pub u32);

impl Proxied {
    pub const ANY: u32 = 1;
    pub const EXPIRED: u32 = 1 << 1;
    pub const NO_CACHE: u32 = 1 << 2;
    /// As in nginx the words add up.
    pub const NO_STORE: u32 = 1 << 3;
    pub const PRIVATE: u32 = 1 << 4;
    pub const NO_LAST_MODIFIED: u32 = 1 << 5;
    pub const NO_ETAG: u32 = 1 << 6;
    pub const AUTH: u32 = 1 << 7;
    /// Nothing for proxies, whatever else is named.
    pub const OFF: u32 = 1 << 8;

    fn has(self, bit: u32) -> bool {
        self.0 & bit != 0
    }
}

impl Rules {
    /// Whether responses say `Vary`.
    pub fn vary(&self) -> bool {
        self.vary
    }

    /// Says `Vary: Accept-Encoding`, if so configured: the response could have been another one.
    pub fn set_vary(&self, resp: &mut Response) {
        // (The filter for dictionaries comes first and has said more.)
        let is_said = resp.vary.as_deref().is_some_and(|vary| *vary == *DICTIONARY_VARY.as_bytes());
        if self.vary && !is_said {
            resp.vary = Some(Text::from("Accept-Encoding"));
        }
    }

    /// Which codings the response may have.
    pub fn preference(&self, r: &mut Request) -> Preference {
        let none = Preference::default();
        // Read through the accessor that records, also if it comes to nothing: the answer depends on the field.
        let accepted = r.accepted_codings();
        if accepted == none || !self.permits(r) { none } else { accepted }
    }

    /// Whether the response may have any coding, whatever the client accepts.
    pub fn permits(&self, r: &mut Request) -> bool {
        // What a subrequest gives becomes part of another response.
        r.route.depth == 0
            // HTTP/1.0 has no `Vary`: a cache of that time would give the coded answer to all its clients.
            && r.version() >= self.version
            && (!r.is_proxied() || self.allows_proxy(r))
            && !self.is_disabled(r)
    }

    /// `gzip_proxied`, in nginx's order: `Expires` decides before `Cache-Control`, that before the validators.
    fn allows_proxy(&self, r: &mut Request) -> bool {
        let allowed = self.proxied;
        // `off` is the default: a proxy that ignores `Vary` would give the coded answer to all its clients.
        if allowed.has(Proxied::OFF) || allowed == Proxied::default() {
            return false;
        }
        if allowed.has(Proxied::ANY) || (allowed.has(Proxied::AUTH) && r.is_proxied_with_credentials()) {
            return true;
        }
        // Only the first of several, as in nginx.
        if let Some(expires) = r.resp.header(b"Expires") {
            let expires = date::parse_http_date(expires);
            let date = match &r.resp.date {
                Some(date) => date::parse_http_date(date),
                None => Some(r.now().unix_secs),
            };
            r.depends_on(Dependencies::TIME);
            // What has expired is not given to another client.
            return allowed.has(Proxied::EXPIRED)
                && matches!((expires, date), (Some(expires), Some(date)) if expires < date);
        }
        let mut controls =
            r.resp.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"Cache-Control"));
        // With a `Cache-Control` its words decide, also if none of them is among those that are allowed.
        if controls.clone().next().is_some() {
            return controls.any(|(_, value)| {
                value.split(|&b| b == b',').map(<[u8]>::trim_ascii).any(|control| {
                    let is = |bit, name: &[u8]| allowed.has(bit) && control.eq_ignore_ascii_case(name);
                    is(Proxied::NO_CACHE, b"no-cache")
                        || is(Proxied::NO_STORE, b"no-store")
                        || is(Proxied::PRIVATE, b"private")
                })
            });
        }
        // Each word asks for an absence: what has the field all the same is refused, as in nginx.
        let refused = (allowed.has(Proxied::NO_LAST_MODIFIED) && r.resp.last_modified.is_some())
            || (allowed.has(Proxied::NO_ETAG) && r.resp.etag.is_some());
        !refused
    }

    fn is_disabled(&self, r: &mut Request) -> bool {
        if self.disabled.is_empty() && !self.disabled_msie6 {
            return false;
        }
        let Some(agent) = r.header(HeaderId::UserAgent) else { return false };
        // An agent that may be one of those gets no coding, as in nginx.
        let matches = |regex: &Arc<Regex>| {
            regex.is_match(agent).unwrap_or_else(|error| {
                brisk_server::rlog!(r, Alert, "{error}");
                true
            })
        };
        (self.disabled_msie6 && is_msie6(agent)) || self.disabled.iter().any(matches)
    }
}

/// Internet Explorer 4, 5, and 6 before Windows XP's second service pack.
fn is_msie6(agent: &[u8]) -> bool {
    // Plain bytes: an expression would be run for every request of such a location.
    let Some(at) = memchr::memmem::find(agent, b"MSIE ") else { return false };
    let old = match agent.get(at + 5..at + 7) {
        Some(b"4." | b"5.") => true,
        Some(b"6.") => memchr::memmem::find(&agent[at + 7..], b"SV1").is_none(),
        _ => false,
    };
    old && memchr::memmem::find(agent, b"Opera").is_none()
}

/// The same tag no longer means the same bytes (RFC 9110 §8.8.1). What is no entity tag is dropped, as in nginx.
pub fn weaken_etag(resp: &mut Response) {
    resp.etag = match resp.etag.take() {
        Some(etag) if etag.starts_with(b"W/") => Some(etag),
        Some(etag) if etag.starts_with(b"\"") => Some([b"W/", &*etag].concat().into()),
        _ => None,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::messages_in_location;

    #[test]
    fn parameters_are_checked() {
        messages_in_location("gzip_disable msie6 'MSIE [1-3]\\.'; gzip_disable a; gzip_vary on;", &[]);
        messages_in_location("gzip_proxied expired no-cache no-store private; gzip_http_version 1.0;", &[]);
        messages_in_location("gzip_proxied all;", &["invalid value \"all\""]);
        messages_in_location("gzip_http_version 2;", &["invalid value \"2\""]);
        messages_in_location(
            "gzip_vary maybe;",
            &["invalid value \"maybe\" in \"gzip_vary\" directive, it must be \"on\" or \"off\""],
        );
    }

    #[test]
    fn old_browsers() {
        let check = |agent: &str, want| assert_eq!(is_msie6(agent.as_bytes()), want, "{agent}");
        check("Mozilla/4.0 (compatible; MSIE 6.0; Windows 98)", true);
        check("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)", false);
        check("Mozilla/4.0 (compatible; MSIE 5.5; Windows NT 5.0)", true);
        check("Mozilla/4.0 (compatible; MSIE 7.0)", false);
        check("Mozilla/4.0 (compatible; MSIE 6.0) Opera 8", false);
        check("MSIE 6", false);
        check("", false);
    }

    #[test]
    fn tags_become_weak() {
        let check = |tag: &'static str, want: Option<&str>| {
            let mut resp = Response { etag: Some(tag.into()), ..Response::default() };
            weaken_etag(&mut resp);
            assert_eq!(resp.etag.as_deref(), want.map(str::as_bytes));
        };
        check("\"a\"", Some("W/\"a\""));
        check("W/\"a\"", Some("W/\"a\""));
        check("a", None);
        check("", None);
    }
}
