//! Who may get a coded response: `gzip_vary`, `gzip_proxied`, `gzip_http_version`, `gzip_disable`. They hold for all
//! codings.

use brisk_conf::{Arity, Context, Diag, Directive, value};
use brisk_http::negotiate::Preference;
use brisk_http::{HeaderId, Version, date};
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::module::Row;
use brisk_server::plan::Dependencies;
use brisk_server::regex::Regex;
use brisk_server::request::Request;
use brisk_server::response::Response;
use brisk_server::text::Text;
use std::sync::Arc;

/// The words of `gzip_http_version`.
const HTTP_VERSIONS: [(&str, Version); 2] = [("1.0", Version::Http10), ("1.1", Version::Http11)];

/// The rows, made part of the module `gzip`.
pub const DISABLE: Row = directive("gzip_disable")
    .doc("Regular expressions, without regard to case: clients whose User-Agent matches get no coded responses. msie6 stands for Internet Explorer 4 to 6.")
    .in_(Context::HSL)
    .arity(Arity::SOME)
    .takes("REGEX ...")
    .many()
    .example("gzip_disable msie6;")
    .set(disable);
pub const HTTP_VERSION: Row = directive("gzip_http_version")
    .doc("The lowest version of a request that may get a coded response: 1.0 or 1.1.")
    .in_(Context::HSL)
    .takes_one_of(&HTTP_VERSIONS)
    .default("1.1")
    .example("gzip_http_version 1.0;")
    .set(|cx, d| {
        cx.conf::<super::gzip::Conf>().rules.version = value::choice(d.arg(0), &HTTP_VERSIONS)?;
        Ok(())
    });
pub const PROXIED: Row = directive("gzip_proxied")
    .doc("Which responses to proxies (requests with Via) may be coded: off, any, or those with Expires in the past (expired), Cache-Control of no-cache, no-store or private, without Last-Modified (no_last_modified) or ETag (no_etag), or to requests with Authorization (auth).")
    .in_(Context::HSL)
    .arity(Arity::SOME)
    .takes("off | any | expired | no-cache | no-store | private | no_last_modified | no_etag | auth ...")
    .default("off")
    .many()
    .example("gzip_proxied any;")
    .set(proxied);
pub const VARY: Row = directive("gzip_vary")
    .doc("Adds Vary: Accept-Encoding to all responses that are coded for clients that accept it. Turn it on wherever caches are between server and clients.")
    .in_(Context::HSL)
    .takes_flag()
    .default("off")
    .example("gzip_vary on;")
    .sets(|cx, on| cx.conf::<super::gzip::Conf>().rules.vary = on);

/// What the rows come to in one block.
#[derive(Clone)]
pub struct Rules {
    vary: bool,
    version: Version,
    proxied: Proxied,
    disabled: Arc<[Arc<Regex>]>,
    disabled_msie6: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            vary: false,
            version: Version::Http11,
            proxied: Proxied::default(),
            disabled: Arc::new([]),
            disabled_msie6: false,
        }
    }
}

/// `gzip_proxied`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Proxied(u32);

impl Proxied {
    const ANY: u32 = 1;
    const EXPIRED: u32 = 1 << 1;
    const NO_CACHE: u32 = 1 << 2;
    const NO_STORE: u32 = 1 << 3;
    const PRIVATE: u32 = 1 << 4;
    const NO_LAST_MODIFIED: u32 = 1 << 5;
    const NO_ETAG: u32 = 1 << 6;
    const AUTH: u32 = 1 << 7;
    /// Nothing for proxies, whatever else is named.
    const OFF: u32 = 1 << 8;

    fn has(self, bit: u32) -> bool {
        self.0 & bit != 0
    }
}

fn proxied(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let words = [
        ("off", Proxied::OFF),
        ("any", Proxied::ANY),
        ("expired", Proxied::EXPIRED),
        ("no-cache", Proxied::NO_CACHE),
        ("no-store", Proxied::NO_STORE),
        ("private", Proxied::PRIVATE),
        ("no_last_modified", Proxied::NO_LAST_MODIFIED),
        ("no_etag", Proxied::NO_ETAG),
        ("auth", Proxied::AUTH),
    ];
    let before = cx.conf::<super::gzip::Conf>().rules.proxied.0;
    let set = cx.bits(d, &words, before)?;
    cx.conf::<super::gzip::Conf>().rules.proxied = Proxied(set);
    Ok(())
}

fn disable(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    if cx.first {
        let rules = &mut cx.conf::<super::gzip::Conf>().rules;
        rules.disabled = Arc::new([]);
        rules.disabled_msie6 = false;
    }
    for token in &d.args {
        if token.bytes() == b"msie6" {
            cx.conf::<super::gzip::Conf>().rules.disabled_msie6 = true;
            continue;
        }
        let regex = Arc::new(cx.regex(token, token.bytes(), true)?);
        let rules = &mut cx.conf::<super::gzip::Conf>().rules;
        rules.disabled = rules.disabled.iter().cloned().chain([regex]).collect();
    }
    Ok(())
}

impl Rules {
    /// Whether responses say `Vary`.
    pub fn vary(&self) -> bool {
        self.vary
    }

    /// Says `Vary: Accept-Encoding`, if so configured: the response could have been another one.
    pub fn set_vary(&self, resp: &mut Response) {
        let is_said = resp.vary.as_deref().is_some_and(|vary| *vary == *crate::dictionary::VARY.as_bytes());
        if self.vary && !is_said {
            resp.vary = Some(Text::from("Accept-Encoding"));
        }
    }

    /// Which codings the response may have.
    pub fn preference(&self, r: &mut Request) -> Preference {
        let none = Preference::default();
        let accepted = r.accepted_codings();
        if accepted == none || !self.permits(r) { none } else { accepted }
    }

    /// Whether the response may have any coding, whatever the client accepts.
    pub fn permits(&self, r: &mut Request) -> bool {
        // What a subrequest gives becomes part of another response.
        r.depth == 0
            && r.version() >= self.version
            && (!r.is_proxied() || self.allows_proxy(r))
            && !self.is_disabled(r)
    }

    /// `gzip_proxied`, in nginx's order: `Expires` decides before `Cache-Control`, that before the validators.
    fn allows_proxy(&self, r: &mut Request) -> bool {
        let allowed = self.proxied;
        if allowed.has(Proxied::OFF) || allowed == Proxied::default() {
            return false;
        }
        if allowed.has(Proxied::ANY) || (allowed.has(Proxied::AUTH) && r.is_proxied_with_credentials()) {
            return true;
        }
        if let Some(expires) = r.resp.header(b"Expires") {
            let expires = date::parse_http_date(expires);
            let date = match &r.resp.date {
                Some(date) => date::parse_http_date(date),
                None => Some(r.now().unix_secs),
            };
            r.depends_on(Dependencies::TIME);
            return allowed.has(Proxied::EXPIRED)
                && matches!((expires, date), (Some(expires), Some(date)) if expires < date);
        }
        let mut controls =
            r.resp.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"Cache-Control"));
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
