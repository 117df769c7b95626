//! `Cache-Control` of requests and responses (RFC 9111 §5.2), and `Surrogate-Control`.

use crate::fields::{Fields, members, unquoted};
pub use crate::limits::SECONDS_MAX;

/// A number of seconds: digits and nothing else. More than can be told apart counts as [`SECONDS_MAX`].
pub fn delta_seconds(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some(text.iter().fold(0, add).min(SECONDS_MAX))
}

/// A directive of a list: its name in lower case, its argument without quotes.
struct Directive {
    name: Vec<u8>,
    /// `Some(Err(()))`: an argument that is broken.
    argument: Option<Result<Vec<u8>, ()>>,
}

/// White space around `=` makes another name or argument: such directives are unknown ones.
fn split(member: &[u8]) -> Directive {
    let at = memchr::memchr(b'=', member);
    let name = member[..at.unwrap_or(member.len())].to_ascii_lowercase();
    let argument = at.map(|at| unquoted(&member[at + 1..]).ok_or(()));
    Directive { name, argument }
}

impl Directive {
    /// Seconds; an argument that is no number counts as 0: invalid freshness is no freshness (RFC 9111 §4.2.1).
    fn seconds(&self) -> u64 {
        match &self.argument {
            Some(Ok(text)) => delta_seconds(text).unwrap_or(0),
            _ => 0,
        }
    }

    /// The fields that a qualified `no-cache` or `private` names; none if it is about the whole response.
    fn names(&self) -> Vec<Box<[u8]>> {
        match &self.argument {
            Some(Ok(list)) => members(list).map(|name| name.to_ascii_lowercase().into()).collect(),
            _ => Vec::new(),
        }
    }
}

/// What a response's `Cache-Control` says, all lines together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// `max-age`, in seconds.
    pub max_age: Option<u64>,
    /// `s-maxage`, in seconds: for shared caches, before `max-age`.
    pub s_maxage: Option<u64>,
    /// `no-store`.
    pub no_store: bool,
    /// Unqualified: ask before every reuse.
    pub no_cache: bool,
    /// Unqualified: not for shared caches.
    pub private: bool,
    /// `public`.
    pub public: bool,
    /// `must-revalidate`.
    pub must_revalidate: bool,
    /// `proxy-revalidate`.
    pub proxy_revalidate: bool,
    /// `must-understand`.
    pub must_understand: bool,
    /// `no-transform`.
    pub no_transform: bool,
    /// RFC 8246.
    pub immutable: bool,
    /// RFC 5861.
    pub stale_while_revalidate: Option<u64>,
    /// RFC 5861.
    pub stale_if_error: Option<u64>,
    /// Fields that qualified `no-cache` and `private` name: they are not kept.
    pub unkept: Vec<Box<[u8]>>,
}

/// Of two values the smaller one counts (RFC 9111 §4.2.1: the first, or treat as stale).
fn least(slot: &mut Option<u64>, value: u64) {
    *slot = Some(slot.map_or(value, |have| have.min(value)));
}

impl Response {
    /// Reads all lines of `Cache-Control`.
    pub fn of(fields: Fields<'_>) -> Response {
        let mut out = Response::default();
        for line in fields.all("Cache-Control") {
            out.add(line);
        }
        out
    }

    /// Reads one line.
    pub fn add(&mut self, line: &[u8]) {
        for member in members(line) {
            let directive = split(member);
            match &*directive.name {
                b"max-age" => least(&mut self.max_age, directive.seconds()),
                b"s-maxage" => least(&mut self.s_maxage, directive.seconds()),
                b"no-store" => self.no_store = true,
                b"public" => self.public = true,
                b"must-revalidate" => self.must_revalidate = true,
                b"proxy-revalidate" => self.proxy_revalidate = true,
                b"must-understand" => self.must_understand = true,
                b"no-transform" => self.no_transform = true,
                b"immutable" => self.immutable = true,
                b"stale-while-revalidate" => least(&mut self.stale_while_revalidate, directive.seconds()),
                b"stale-if-error" => least(&mut self.stale_if_error, directive.seconds()),
                b"no-cache" | b"private" => {
                    let names = directive.names();
                    match (&*directive.name, names.is_empty()) {
                        (b"no-cache", true) => self.no_cache = true,
                        (_, true) => self.private = true,
                        _ => self.unkept.extend(names),
                    }
                }
                _ => {}
            }
        }
    }

    /// `Surrogate-Control`: `no-store`, and `max-age=N` or `max-age=N+M`, where M more seconds may be bridged with what
    /// is stale. A target in parentheses (`max-age=60;abc`) is for other caches.
    pub fn surrogate(fields: Fields<'_>) -> Option<Response> {
        let mut out = Response::default();
        let mut is_there = false;
        for member in fields.all("Surrogate-Control").flat_map(members) {
            if memchr::memchr(b';', member).is_some() {
                continue;
            }
            let directive = split(member);
            match (&*directive.name, &directive.argument) {
                (b"no-store" | b"no-store-remote", None) => out.no_store = true,
                (b"max-age", Some(Ok(text))) => {
                    let (fresh, more) = match memchr::memchr(b'+', text) {
                        Some(at) => (&text[..at], Some(&text[at + 1..])),
                        None => (&text[..], None),
                    };
                    least(&mut out.max_age, delta_seconds(fresh).unwrap_or(0));
                    if let Some(more) = more.and_then(delta_seconds) {
                        out.stale_while_revalidate = Some(more);
                        out.stale_if_error = Some(more);
                    }
                }
                // `content="ESI/1.0"` is about processing.
                _ => continue,
            }
            is_there = true;
        }
        is_there.then_some(out)
    }
}

/// What a request's `Cache-Control` says, and its `Pragma` if there is no such field (RFC 9111 §5.2.1, §5.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// `max-age`, in seconds: answers may be that old.
    pub max_age: Option<u64>,
    /// `Some(u64::MAX)`: however stale.
    pub max_stale: Option<u64>,
    /// `min-fresh`, in seconds: answers must stay fresh that long.
    pub min_fresh: Option<u64>,
    /// `no-cache`.
    pub no_cache: bool,
    /// `no-store`.
    pub no_store: bool,
    /// `only-if-cached`.
    pub only_if_cached: bool,
    /// `stale-if-error`, in seconds (RFC 5861).
    pub stale_if_error: Option<u64>,
}

impl Request {
    /// Reads a request's fields.
    pub fn of(fields: Fields<'_>) -> Request {
        let mut out = Request::default();
        let mut has_cache_control = false;
        for member in fields.all("Cache-Control").flat_map(members) {
            has_cache_control = true;
            let directive = split(member);
            match &*directive.name {
                b"max-age" => least(&mut out.max_age, directive.seconds()),
                b"max-stale" if directive.argument.is_none() => out.max_stale = Some(u64::MAX),
                b"max-stale" => out.max_stale = Some(directive.seconds()),
                b"min-fresh" => out.min_fresh = Some(directive.seconds()),
                b"no-cache" => out.no_cache = true,
                b"no-store" => out.no_store = true,
                b"only-if-cached" => out.only_if_cached = true,
                b"stale-if-error" => out.stale_if_error = Some(directive.seconds()),
                _ => {}
            }
        }
        let pragma = || fields.all("Pragma").flat_map(members).any(|p| p.eq_ignore_ascii_case(b"no-cache"));
        out.no_cache |= !has_cache_control && pragma();
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(lines: &[&str]) -> Response {
        let fields: Vec<_> = lines.iter().map(|l| (&b"cache-control"[..], l.as_bytes())).collect();
        Response::of(Fields(&fields))
    }

    fn request(fields: &[(&str, &str)]) -> Request {
        let fields: Vec<_> = fields.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
        Request::of(Fields(&fields))
    }

    #[test]
    fn seconds() {
        let check = |text: &str, want| assert_eq!(delta_seconds(text.as_bytes()), want, "{text}");
        check("0", Some(0));
        check("003600", Some(3600));
        check("2147483647", Some(2_147_483_647));
        check("99999999999999999999999999", Some(SECONDS_MAX));
        for bad in ["", "-1", "1.0", "a1", "1a", " 1", "'1'"] {
            check(bad, None);
        }
    }

    #[test]
    fn response_directives() {
        let max_age = |line: &str| response(&[line]).max_age;
        assert_eq!(max_age("max-age=5"), Some(5));
        assert_eq!(max_age("MaX-AgE=5, foobar"), Some(5));
        assert_eq!(max_age("max-age=\"5\""), Some(5));
        // What is invalid is not fresh (RFC 9111 §4.2.1).
        for bad in ["max-age=-1", "max-age='5'", "max-age=5.0", "max-age", "max-age=", "max-age= 5"] {
            assert_eq!(max_age(bad), Some(0), "{bad}");
        }
        assert_eq!(max_age("max-age =5"), None);
        assert_eq!(max_age("ext=\"max-age=9, max-age=8\", max-age=5"), Some(5));
        assert_eq!(max_age("max-age=9, max-age=5"), Some(5));
        assert_eq!(response(&["max-age=5", "s-maxage=9"]).s_maxage, Some(9));
        let all =
            response(&["no-store, no-cache,private , public", "must-revalidate,proxy-revalidate, immutable"]);
        assert!(all.no_store && all.no_cache && all.private && all.public && all.immutable);
        assert!(all.must_revalidate && all.proxy_revalidate && !all.must_understand);
        let qualified = response(&["no-cache=\"A, b\", private=\"c\""]);
        assert!(!qualified.no_cache && !qualified.private);
        assert_eq!(qualified.unkept, [b"a"[..].into(), b"b"[..].into(), b"c"[..].into()]);
        let stale = response(&["stale-while-revalidate=3, stale-if-error=4"]);
        assert_eq!((stale.stale_while_revalidate, stale.stale_if_error), (Some(3), Some(4)));
    }

    #[test]
    fn request_directives() {
        let cc = |value: &str| request(&[("Cache-Control", value)]);
        assert_eq!(cc("max-age=0").max_age, Some(0));
        assert_eq!((cc("max-stale").max_stale, cc("max-stale=4").max_stale), (Some(u64::MAX), Some(4)));
        assert_eq!(cc("min-fresh=4").min_fresh, Some(4));
        assert!(cc("no-cache").no_cache && cc("no-store").no_store && cc("only-if-cached").only_if_cached);
        assert!(request(&[("Pragma", "no-cache")]).no_cache);
        assert!(!request(&[("Pragma", "no-cache"), ("Cache-Control", "max-stale")]).no_cache);
        assert!(!request(&[("Pragma", "foo")]).no_cache);
    }

    #[test]
    fn surrogate_control() {
        let of = |value: &str| Response::surrogate(Fields(&[(b"Surrogate-Control", value.as_bytes())]));
        assert_eq!(of("max-age=5").unwrap().max_age, Some(5));
        let both = of("content=\"ESI/1.0\", max-age=5+7").unwrap();
        assert_eq!((both.max_age, both.stale_if_error), (Some(5), Some(7)));
        assert!(of("no-store").unwrap().no_store);
        assert_eq!((of("max-age=5;other"), of("content=\"x\"")), (None, None));
    }
}
