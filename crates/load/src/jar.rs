//! A user's cookies (RFC 6265), as far as one user at a few servers needs them.

use crate::limits::COOKIES_MAX;
use std::time::SystemTime;

use crate::url::Url;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Cookie {
    host: String,
    /// Hosts below it, too.
    below: bool,
    path: String,
    secure: bool,
    name: String,
    value: String,
}

/// See the module's head.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Jar(Vec<Cookie>);

impl Jar {
    /// Takes the value of a `Set-Cookie` that came with the answer of this URL.
    pub fn set(&mut self, url: &Url, text: &str) {
        // It would break the request apart that it is sent with.
        if text.chars().any(|c| c.is_control() && c != '\t') {
            return;
        }
        let mut parts = text.split(';');
        let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else { return };
        let folder = url
            .path
            .split('?')
            .next()
            .and_then(|path| path.rsplit_once('/'))
            .map_or("", |(folder, _)| folder);
        let mut cookie = Cookie {
            host: url.origin.host().to_owned(),
            below: false,
            path: if folder.is_empty() { "/".to_owned() } else { folder.to_owned() },
            secure: false,
            name: name.trim().to_owned(),
            value: value.trim().to_owned(),
        };
        let mut gone = false;
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let value = value.trim();
            match key.trim().to_ascii_lowercase().as_str() {
                "path" if value.starts_with('/') => value.clone_into(&mut cookie.path),
                "domain" => {
                    let domain = value.trim_start_matches('.').to_ascii_lowercase();
                    // A server speaks for itself and those below it, and for no other (§5.3).
                    if !is_below(&cookie.host, &domain) {
                        return;
                    }
                    (cookie.host, cookie.below) = (domain, true);
                }
                "secure" => cookie.secure = true,
                "max-age" => gone = value.parse::<i64>().is_ok_and(|age| age <= 0),
                "expires" => {
                    let at = brisk_http::date::parse_http_date(value.replace('-', " ").as_bytes());
                    gone |= at.is_some_and(|at| at <= now())
                        || value.starts_with("Thu, 01 Jan 1970")
                        || value.starts_with("Thu, 01-Jan-1970");
                }
                _ => {}
            }
        }
        self.0
            .retain(|have| have.name != cookie.name || have.host != cookie.host || have.path != cookie.path);
        if !gone && !cookie.name.is_empty() && self.0.len() < COOKIES_MAX {
            self.0.push(cookie);
        }
    }

    /// The value of `Cookie` for a request; the longer paths first (§5.4).
    pub fn header(&self, url: &Url) -> Option<String> {
        let path = url.path.split('?').next().unwrap_or("/");
        let mut fit: Vec<&Cookie> = self.0.iter().filter(|cookie| cookie.fits(url, path)).collect();
        fit.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        let pairs: Vec<String> =
            fit.iter().map(|cookie| format!("{}={}", cookie.name, cookie.value)).collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |time| time.as_secs() as i64)
}

impl Cookie {
    fn fits(&self, url: &Url, path: &str) -> bool {
        let host = url.origin.host();
        let host_fits = host == self.host || (self.below && is_below(host, &self.host));
        let rest = path.strip_prefix(self.path.as_str());
        let path_fits =
            rest.is_some_and(|rest| self.path.ends_with('/') || rest.is_empty() || rest.starts_with('/'));
        host_fits && path_fits && (url.origin.secure || !self.secure)
    }
}

fn is_below(host: &str, domain: &str) -> bool {
    host == domain
        || (domain.contains('.') && host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_go_where_they_belong() {
        let url = |text| Url::parse(text).unwrap();
        let mut jar = Jar::default();
        let login = url("http://shop.example/account/login");
        for text in [
            "a=1; Path=/",
            "b=2",
            "c=3; Path=/; Secure",
            "d=4; Domain=example; Path=/",
            "e=5; Domain=shop.example; Path=/",
            "f",
        ] {
            jar.set(&login, text);
        }
        assert_eq!(jar.header(&url("http://shop.example/account/x?y")).as_deref(), Some("b=2; a=1; e=5"));
        assert_eq!(jar.header(&url("http://shop.example/accounting")).as_deref(), Some("a=1; e=5"));
        assert_eq!(jar.header(&url("https://shop.example/")).as_deref(), Some("a=1; c=3; e=5"));
        assert_eq!(jar.header(&url("http://www.shop.example/")).as_deref(), Some("e=5"));
        assert_eq!(jar.header(&url("http://evilshop.example/")), None);
        jar.set(&login, "a=; Max-Age=0; Path=/");
        jar.set(&login, "e=x; expires=Thu, 01-Jan-1970 00:00:01 GMT; Domain=shop.example; path=/");
        assert_eq!(jar.header(&url("http://shop.example/")), None);
        jar.set(&login, "g=1; Path=/; Expires=Sun, 06 Nov 1994 08:49:37 GMT");
        jar.set(&login, "h=2; Path=/; Expires=Sun, 06 Nov 2094 08:49:37 GMT");
        assert_eq!(jar.header(&url("http://shop.example/")).as_deref(), Some("h=2"));
    }
}
