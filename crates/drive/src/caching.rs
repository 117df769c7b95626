//! What caches may do with a response, in words (RFC 9111 §3, §4).

use crate::client::Fields;
use brisk_http::date::parse_http_date;

/// What a response's head says to caches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// How long a browser may use it without asking, in seconds; `None`: it may not store it.
    pub browser: Option<u64>,
    /// The same for a shared cache.
    pub shared: Option<u64>,
    /// Without an explicit lifetime caches guess one (RFC 9111 §4.2.2).
    pub is_guess: bool,
    /// A stored response can be confirmed without being sent again.
    pub validator: Option<&'static str>,
    /// Why.
    pub why: Vec<String>,
}

/// Directives of `Cache-Control` with their arguments, names in lower case.
fn directives(fields: &Fields) -> Vec<(String, Option<String>)> {
    let parts = fields.all("cache-control").flat_map(|value| value.split(','));
    parts
        .map(|part| match part.split_once('=') {
            Some((name, value)) => {
                (name.trim().to_ascii_lowercase(), Some(value.trim().trim_matches('"').to_owned()))
            }
            None => (part.trim().to_ascii_lowercase(), None),
        })
        .filter(|(name, _)| !name.is_empty())
        .collect()
}

/// Statuses that may be stored without being told so (RFC 9110 §15.1).
fn is_cacheable_by_default(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// Judges a response to a GET.
pub fn judge(status: u16, fields: &Fields) -> Verdict {
    let control = directives(fields);
    let has = |name: &str| control.iter().any(|(have, _)| have == name);
    let seconds = |name: &str| {
        control
            .iter()
            .find(|(have, _)| have == name)
            .and_then(|(_, value)| value.as_ref()?.parse::<u64>().ok())
    };
    let date = |name: &str| fields.get(name).and_then(|value| parse_http_date(value.as_bytes()));
    let validator = match (fields.get("etag"), fields.get("last-modified")) {
        (Some(_), _) => Some("ETag"),
        (None, Some(_)) => Some("Last-Modified"),
        (None, None) => None,
    };
    let mut why: Vec<String> =
        fields.all("cache-control").map(|value| format!("Cache-Control: {value}")).collect();
    let refused = |why: Vec<String>| Verdict { browser: None, shared: None, is_guess: false, validator, why };
    if has("no-store") {
        return refused(why);
    }
    let expires = fields.get("expires").map(|_| {
        let now = date("date").unwrap_or(0);
        date("expires").map_or(0, |at| at.saturating_sub(now).max(0) as u64)
    });
    let own = seconds("max-age").or(expires);
    if seconds("max-age").is_none() && expires.is_some() {
        why.push(format!("Expires: {}", fields.get("expires").unwrap_or_default()));
    }
    if own.is_none() && !is_cacheable_by_default(status) && !has("public") {
        why.push(format!("status {status} is stored only if a lifetime is given"));
        return refused(why);
    }
    if fields.all("vary").any(|value| value.trim() == "*") {
        why.push("Vary: *".to_owned());
        return refused(why);
    }
    let age = fields.get("age").and_then(|age| age.parse::<u64>().ok()).unwrap_or(0);
    let guess = match (date("last-modified"), date("date")) {
        (Some(modified), Some(now)) if now > modified => (now - modified) as u64 / 10,
        _ => 0,
    };
    let is_guess = own.is_none();
    let lifetime = if has("no-cache") { 0 } else { own.unwrap_or(guess) };
    let shared = seconds("s-maxage").filter(|_| !has("no-cache")).unwrap_or(lifetime);
    let mut shared = Some(shared.saturating_sub(age));
    if has("private") {
        shared = None;
    }
    if fields.get("set-cookie").is_some() {
        why.push("Set-Cookie: most shared caches, nginx's and Brisk's too, do not store it".to_owned());
        shared = None;
    }
    if let Some(vary) = fields.get("vary") {
        why.push(format!("Vary: {vary}"));
    }
    Verdict { browser: Some(lifetime.saturating_sub(age)), shared, is_guess, validator, why }
}

impl Verdict {
    /// For people.
    pub fn text(&self) -> String {
        let lifetime = |name: &str, seconds: Option<u64>| match seconds {
            None => format!("{name}: not stored"),
            Some(0) => format!("{name}: stored, asked for again each time"),
            Some(seconds) if self.is_guess => {
                format!("{name}: no lifetime given, about {} by guess", span(seconds))
            }
            Some(seconds) => format!("{name}: fresh for {}", span(seconds)),
        };
        let validator = match self.validator {
            _ if self.browser.is_none() => String::new(),
            Some(name) => format!("; confirmed by {name}"),
            None => "; no ETag, no Last-Modified: sent as a whole again".to_owned(),
        };
        format!(
            "{}; {}{validator}",
            lifetime("browser", self.browser),
            lifetime("shared caches", self.shared)
        )
    }
}

/// A time in its largest fitting unit.
fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// What caches on the way have said of this very response, in their usual fields.
pub fn reported(fields: &Fields) -> Option<String> {
    const NAMES: [&str; 6] =
        ["x-cache-status", "x-cache", "cache-status", "cf-cache-status", "x-proxy-cache", "x-varnish-cache"];
    NAMES.iter().find_map(|name| fields.get(name).map(|value| format!("{name}: {value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: u16, fields: &[(&str, &str)], browser: Option<u64>, shared: Option<u64>) {
        let list = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let verdict = judge(status, &Fields(list));
        assert_eq!(
            (verdict.browser, verdict.shared),
            (browser, shared),
            "{status} {fields:?}: {}",
            verdict.text()
        );
    }

    /// RFC 9111 §3, §4.2, §5.2.2.
    #[test]
    fn lifetimes() {
        const DATE: (&str, &str) = ("Date", "Sun, 06 Nov 1994 08:49:37 GMT");
        check(200, &[("Cache-Control", "max-age=60")], Some(60), Some(60));
        check(200, &[("Cache-Control", "max-age=60, s-maxage=10"), ("Age", "4")], Some(56), Some(6));
        check(200, &[("Cache-Control", "private, max-age=60")], Some(60), None);
        check(200, &[("cache-control", "no-store, max-age=60")], None, None);
        check(200, &[("Cache-Control", "max-age=60, no-cache")], Some(0), Some(0));
        check(200, &[DATE, ("Expires", "Sun, 06 Nov 1994 08:50:37 GMT")], Some(60), Some(60));
        check(200, &[DATE, ("Expires", "0")], Some(0), Some(0));
        check(200, &[DATE, ("Last-Modified", "Sun, 06 Nov 1994 08:48:37 GMT")], Some(6), Some(6));
        check(200, &[("Vary", "*"), ("Cache-Control", "max-age=9")], None, None);
        check(200, &[("Set-Cookie", "a=b"), ("Cache-Control", "max-age=9")], Some(9), None);
        check(500, &[], None, None);
        check(500, &[("Cache-Control", "max-age=9")], Some(9), Some(9));
        check(200, &[], Some(0), Some(0));
    }
}
