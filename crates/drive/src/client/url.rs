//! URLs: of what a client asks for, and references that pages and redirects hold (RFC 3986 §5).

use std::fmt;
use std::path::PathBuf;

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// A name or address, and a port.
    Name(String, u16),
    /// A unix socket, written as nginx does: `http://unix:/socket:/path`.
    Unix(PathBuf),
}

/// A server together with the protocol: connections are shared by URLs of one origin.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    /// https.
    pub secure: bool,
    /// Where it is.
    pub place: Place,
}

/// An absolute http or https URL, without its fragment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Url {
    /// Scheme, host and port.
    pub origin: Origin,
    /// Path and query, beginning with `/`.
    pub path: String,
}

/// Why a URL was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlError {
    url: String,
    why: &'static str,
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot use URL \"{}\": {}", self.url, self.why)
    }
}

impl std::error::Error for UrlError {}

impl Origin {
    /// The usual port of the scheme.
    fn default_port(secure: bool) -> u16 {
        if secure { 443 } else { 80 }
    }

    /// The value of `Host` and `:authority`.
    pub fn authority(&self) -> String {
        match &self.place {
            Place::Unix(_) => "localhost".to_owned(),
            Place::Name(host, port) => {
                let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
                if *port == Self::default_port(self.secure) { host } else { format!("{host}:{port}") }
            }
        }
    }

    /// The server's name without the port: what certificates are for.
    pub fn host(&self) -> &str {
        match &self.place {
            Place::Name(host, _) => host,
            Place::Unix(_) => "localhost",
        }
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin.place {
            Place::Unix(path) => {
                write!(f, "{}://unix:{}:{}", self.origin.scheme(), path.display(), self.path)
            }
            Place::Name(..) => {
                write!(f, "{}://{}{}", self.origin.scheme(), self.origin.authority(), self.path)
            }
        }
    }
}

impl Url {
    /// Reads an absolute URL. Names and passwords in it are refused: they end up in logs.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let refuse = |why| UrlError { url: text.to_owned(), why };
        if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(refuse("spaces and control characters must be escaped"));
        }
        let (scheme, rest) =
            text.split_once("://").ok_or_else(|| refuse("it must begin with http:// or https://"))?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err(refuse("only http:// and https:// are supported")),
        };
        let rest = rest.split('#').next().unwrap_or(rest);
        if let Some(rest) = rest.strip_prefix("unix:") {
            let (socket, path) = rest.split_once(':').unwrap_or((rest, ""));
            if !socket.starts_with('/') {
                return Err(refuse("the socket's path must be absolute"));
            }
            let place = Place::Unix(PathBuf::from(socket));
            return Ok(Self { origin: Origin { secure, place }, path: rooted(path) });
        }
        let cut = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(cut);
        if authority.contains('@') {
            return Err(refuse("user names do not belong into URLs: send an Authorization header"));
        }
        let (host, port) = split_port(authority).ok_or_else(|| refuse("the port is not one"))?;
        if host.is_empty() {
            return Err(refuse("the host is empty"));
        }
        let port = port.unwrap_or_else(|| Origin::default_port(secure));
        let place = Place::Name(host.to_ascii_lowercase(), port);
        Ok(Self { origin: Origin { secure, place }, path: rooted(path) })
    }

    /// What a reference on this page means (RFC 3986 §5.2). `None`: it is not of http (`data:`, `mailto:` …) or broken.
    pub fn join(&self, reference: &str) -> Option<Self> {
        let reference: String = reference.trim().chars().filter(|c| !c.is_ascii_control()).collect();
        let reference = reference.replace(' ', "%20");
        let reference = reference.split('#').next().unwrap_or_default();
        if let Some(at) = reference.find(':')
            && !reference[..at].contains(['/', '?'])
            && reference.starts_with(|c: char| c.is_ascii_alphabetic())
        {
            return Self::parse(reference).ok();
        }
        if reference.starts_with("//") {
            return Self::parse(&format!("{}:{reference}", self.origin.scheme())).ok();
        }
        let own_path = self.path.split('?').next().unwrap_or("/");
        let path = if reference.is_empty() {
            self.path.clone()
        } else if reference.starts_with('/') {
            without_dots(reference)
        } else if reference.starts_with('?') {
            format!("{own_path}{reference}")
        } else {
            let folder = own_path.rfind('/').map_or("/", |at| &own_path[..=at]);
            without_dots(&format!("{folder}{reference}"))
        };
        Some(Self { origin: self.origin.clone(), path })
    }

    /// The last part of the path, for people.
    pub fn file_name(&self) -> &str {
        let path = self.path.split('?').next().unwrap_or("/");
        path.rsplit('/').find(|part| !part.is_empty()).unwrap_or("/")
    }
}

fn rooted(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

/// `host`, `host:port`, `[v6]`, `[v6]:port`; `None` if the port is not one.
fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        return match rest.strip_prefix(':') {
            None if rest.is_empty() => Some((host, None)),
            None => None,
            Some(port) => Some((host, Some(port.parse().ok()?))),
        };
    }
    match authority.split_once(':') {
        None => Some((authority, None)),
        Some((host, "")) => Some((host, None)),
        Some((host, port)) => Some((host, Some(port.parse().ok()?))),
    }
}

/// Takes `.` and `..` out of a path (RFC 3986 §5.2.4); a query is left as it is.
fn without_dots(path: &str) -> String {
    let (path, query) = match path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path, None),
    };
    let mut parts: Vec<&str> = Vec::new();
    let mut open_end = false;
    for part in path.split('/').skip(1) {
        open_end = matches!(part, "." | "..");
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            other => parts.push(other),
        }
    }
    let mut out = String::from("/");
    out.push_str(&parts.join("/"));
    if open_end && !out.ends_with('/') {
        out.push('/');
    }
    if let Some(query) = query {
        out.push('?');
        out.push_str(query);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3986 §5.4, as far as it concerns http.
    #[test]
    fn references_mean_what_the_rfc_says() {
        let base = Url::parse("http://a/b/c/d;p?q").unwrap();
        for (reference, want) in [
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g/"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("#s", "http://a/b/c/d;p?q"),
            ("g#s", "http://a/b/c/g"),
            (";x", "http://a/b/c/;x"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../../../g", "http://a/g"),
            ("g?y/./x", "http://a/b/c/g?y/./x"),
            ("https://h:8443/x", "https://h:8443/x"),
            ("a b", "http://a/b/c/a%20b"),
        ] {
            assert_eq!(base.join(reference).map(|url| url.to_string()).as_deref(), Some(want), "{reference}");
        }
        for other in ["data:image/png;base64,AAAA", "mailto:a@b", "javascript:void(0)", "http://u:p@h/"] {
            assert_eq!(base.join(other), None, "{other}");
        }
    }

    #[test]
    fn urls_are_taken_apart() {
        let url = Url::parse("HTTPS://[::1]:8443?x").unwrap();
        assert_eq!((url.origin.authority().as_str(), url.path.as_str()), ("[::1]:8443", "/?x"));
        assert_eq!(Url::parse("http://Ex.com:80/a#b").unwrap().to_string(), "http://ex.com/a");
        assert_eq!(
            Url::parse("http://unix:/run/x.sock:/p").unwrap().to_string(),
            "http://unix:/run/x.sock:/p"
        );
        for bad in
            ["x", "ftp://h/", "http://", "http://a:x/", "http://a b/", "http://u@h/", "http://unix:x:/"]
        {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }
}
