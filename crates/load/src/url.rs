//! URLs, as far as a load generator needs them (RFC 3986; no user names).

use std::fmt;
use std::net::ToSocketAddrs as _;
use std::path::PathBuf;

use crate::plan::Endpoint;

/// Where a URL's server is, before names are looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A host name or address (without brackets), and the port.
    Name { host: String, port: u16 },
    /// A unix socket.
    Unix(PathBuf),
}

/// A URL split into what a client needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// `https`.
    pub secure: bool,
    /// Where to connect.
    pub place: Place,
    /// The value of `Host`.
    pub host: String,
    /// The server's name for TLS: the host without port and brackets.
    pub name: String,
    /// Path and query, starting with `/`.
    pub path: String,
}

/// Why a URL was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlError {
    url: String,
    why: String,
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot use URL \"{}\": {}", self.url, self.why)
    }
}

impl std::error::Error for UrlError {}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        match &self.place {
            Place::Name { .. } => write!(f, "{scheme}://{}{}", self.host, self.path),
            Place::Unix(socket) => write!(f, "{scheme}://unix:{}:{}", socket.display(), self.path),
        }
    }
}

impl Url {
    /// Reads `http[s]://host[:port][/path]` or, as nginx writes it, `http[s]://unix:/socket:[/path]`. Nothing is looked up.
    pub fn parse(url: &str) -> Result<Self, UrlError> {
        let refuse = |why: &str| UrlError { url: url.to_owned(), why: why.to_owned() };
        let (secure, rest) = match url.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some(_) => return Err(refuse("only http:// and https:// are supported")),
            None => return Err(refuse("it must begin with http:// or https://")),
        };
        if url.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(refuse("spaces and control characters must be escaped"));
        }
        let rest = rest.split('#').next().unwrap_or(rest);
        if let Some(rest) = rest.strip_prefix("unix:") {
            let (socket, path) = rest.split_once(':').unwrap_or((rest, ""));
            if socket.is_empty() {
                return Err(refuse("the socket's path is empty"));
            }
            let place = Place::Unix(PathBuf::from(socket));
            let name = "localhost".to_owned();
            return Ok(Self { secure, place, host: name.clone(), name, path: origin_form(path) });
        }
        let cut = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(cut);
        if authority.is_empty() || authority.contains('@') {
            return Err(refuse("it needs a host, and no user name"));
        }
        let default_port = if secure { 443 } else { 80 };
        let (host, port) = match authority.rfind(':').filter(|&colon| Some(colon) > authority.rfind(']')) {
            None => (authority, default_port),
            Some(colon) if authority[colon + 1..].is_empty() => (&authority[..colon], default_port),
            Some(colon) => {
                let port = authority[colon + 1..].parse().ok().filter(|&port| port > 0);
                (&authority[..colon], port.ok_or_else(|| refuse("the port must be a number up to 65535"))?)
            }
        };
        let name = match host.strip_prefix('[') {
            Some(inner) => inner.strip_suffix(']').ok_or_else(|| refuse("the address lacks its \"]\""))?,
            None => host,
        };
        if name.is_empty() || (host.len() == name.len() && name.contains(':')) {
            return Err(refuse("it needs a host; IPv6 addresses stand in brackets"));
        }
        Ok(Self {
            secure,
            place: Place::Name { host: name.to_owned(), port },
            host: authority.trim_end_matches(':').to_owned(),
            name: name.to_owned(),
            path: origin_form(path),
        })
    }

    /// Looks the host's name up, if it is one, and takes its first address.
    pub fn endpoint(&self) -> Result<Endpoint, UrlError> {
        let (host, port) = match &self.place {
            Place::Unix(path) => return Ok(Endpoint::Unix(path.clone())),
            Place::Name { host, port } => (host.as_str(), *port),
        };
        let refuse = |why: String| UrlError { url: self.to_string(), why };
        let mut addresses = (host, port)
            .to_socket_addrs()
            .map_err(|error| refuse(format!("no address for {host}: {error}")))?;
        // As most servers listen on IPv4 alone, an address of that kind goes first.
        let first = addresses.next().ok_or_else(|| refuse(format!("no address for {host}")))?;
        let address = std::iter::once(first).chain(addresses).min_by_key(std::net::SocketAddr::is_ipv6);
        Ok(Endpoint::Tcp(address.unwrap_or(first)))
    }
}

/// The request target of RFC 9112 §3.2.1: never empty, always from the root.
fn origin_form(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let tcp = |host: &str, port: u16, header: &str, path: &str| {
            Ok((Place::Name { host: host.to_owned(), port }, header.to_owned(), path.to_owned()))
        };
        let unix = |socket: &str, path: &str| {
            Ok((Place::Unix(socket.into()), "localhost".to_owned(), path.to_owned()))
        };
        let check = |url: &str, want: Result<(Place, String, String), ()>| {
            let read = Url::parse(url).map(|url| (url.place, url.host, url.path)).map_err(|_| ());
            assert_eq!(read, want, "{url}");
        };
        check("http://127.0.0.1:8080/a?b#c", tcp("127.0.0.1", 8080, "127.0.0.1:8080", "/a?b"));
        check("http://example.org", tcp("example.org", 80, "example.org", "/"));
        check("HTTPS://example.org", tcp("example.org", 443, "example.org", "/"));
        check("http://127.0.0.1?x", tcp("127.0.0.1", 80, "127.0.0.1", "/?x"));
        check("http://h:/", tcp("h", 80, "h", "/"));
        check("http://[::1]:81/", tcp("::1", 81, "[::1]:81", "/"));
        check("https://[::1]/", tcp("::1", 443, "[::1]", "/"));
        check("http://unix:/tmp/s.sock:/x", unix("/tmp/s.sock", "/x"));
        check("http://unix:/tmp/s.sock", unix("/tmp/s.sock", "/"));
        for bad in [
            "ftp://h/",
            "127.0.0.1",
            "http:///x",
            "http://u@h/",
            "http://h/a b",
            "http://h:99999/",
            "http://h:0/",
            "http://[::1/",
            "http://::1/",
            "http://:80/",
            "http://unix:",
        ] {
            check(bad, Err(()));
        }
    }

    #[test]
    fn a_url_prints_as_it_was_read() {
        for url in ["http://a.b:81/x?y", "https://[::1]/", "http://unix:/s:/p"] {
            assert_eq!(Url::parse(url).unwrap().to_string(), url);
        }
    }
}
