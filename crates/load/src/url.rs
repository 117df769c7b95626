//! URLs: of what a client asks for, and references that pages and redirects hold (RFC 3986 §5).

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// A name or address, and a port.
    Name(String, u16),
    /// A unix socket, written as nginx does: `http://unix:/socket:/path`.
    Unix(PathBuf),
}

/// A server's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// TCP, for `http://host[:port]/…`.
    Tcp(SocketAddr),
    /// A unix socket, for `http://unix:/path:/…`.
    Unix(PathBuf),
}

/// Where a name and a port are, in place of what a look-up would say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolve {
    /// The name.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The address.
    pub address: IpAddr,
}

impl Resolve {
    /// Whether it is about this place.
    pub fn is_of(&self, place: &Place) -> bool {
        matches!(place, Place::Name(host, port) if host.eq_ignore_ascii_case(&self.host) && *port == self.port)
    }
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
    why: String,
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
    /// Reads a URL as people write it on a command line: without a scheme it is http.
    pub fn given(text: &str) -> Result<Self, UrlError> {
        // A scheme that is not known is no host.
        let has_scheme =
            text.split(['/', '?']).next().is_some_and(|first| first.ends_with(':') && first != "unix:");
        if text.contains("://") || has_scheme || text.starts_with('/') || text.is_empty() {
            Self::parse(text)
        } else {
            Self::parse(&format!("http://{text}"))
        }
    }

    /// Reads an absolute URL. Names and passwords in it are refused: they end up in logs.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let refuse = |why: &str| UrlError { url: text.to_owned(), why: why.to_owned() };
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
        let (host, port) = split_port(authority).map_err(refuse)?;
        if host.is_empty() {
            return Err(refuse("it needs a host"));
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

    /// What a path or URL means that was written for this server. Other than a reference of a page, a path that begins with `//` is one
    /// of this server and names no other.
    pub fn at(&self, text: &str) -> Option<Self> {
        // As the URL Standard writes such a path where it could be taken for a host.
        if text.starts_with('/') { self.join(&format!("/.{text}")) } else { self.join(text) }
    }

    /// Looks the host's name up, if it is one, and takes its first address.
    pub fn endpoint(&self) -> Result<Endpoint, UrlError> {
        let (host, port) = match &self.origin.place {
            Place::Unix(path) => return Ok(Endpoint::Unix(path.clone())),
            Place::Name(host, port) => (host.as_str(), *port),
        };
        let refuse = |why: String| self.refuse(why);
        let mut addresses = (host, port)
            .to_socket_addrs()
            .map_err(|error| refuse(format!("no address for {host}: {error}")))?;
        // As most servers listen on IPv4 alone, an address of that kind goes first.
        let first = addresses.next().ok_or_else(|| refuse(format!("no address for {host}")))?;
        let address = std::iter::once(first).chain(addresses).min_by_key(SocketAddr::is_ipv6);
        Ok(Endpoint::Tcp(address.unwrap_or(first)))
    }

    /// Why it cannot be used.
    pub(crate) fn refuse(&self, why: String) -> UrlError {
        UrlError { url: self.to_string(), why }
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

/// `host`, `host:port`, `[v6]`, `[v6]:port`; or why it is none of these.
fn split_port(authority: &str) -> Result<(&str, Option<u16>), &'static str> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or("the address lacks its \"]\"")?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    if authority.starts_with('[') && host.parse::<Ipv6Addr>().is_err() {
        return Err("what stands in brackets is no IPv6 address");
    }
    if host.contains(['[', ']', '"', '<', '>', '\\', '^', '`', '{', '|', '}']) {
        return Err("the host holds characters that no name has");
    }
    let Some(port) = rest.strip_prefix(':') else {
        return if rest.is_empty() { Ok((host, None)) } else { Err("the port is not one") };
    };
    if port.contains(':') {
        return Err("IPv6 addresses stand in brackets");
    }
    if port.is_empty() {
        return Ok((host, None));
    }
    let port = port.parse().ok().filter(|&port| port > 0);
    Ok((host, Some(port.ok_or("the port must be a number up to 65535")?)))
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

    #[test]
    fn people_leave_the_scheme_out() {
        for (text, want) in [
            ("localhost", "http://localhost/"),
            ("localhost:8080/a?b", "http://localhost:8080/a?b"),
            ("[::1]:80/", "http://[::1]/"),
            ("unix:/run/a.sock:/x", "http://unix:/run/a.sock:/x"),
            ("https://h", "https://h/"),
        ] {
            assert_eq!(Url::given(text).unwrap().to_string(), want);
        }
        for bad in ["", "/a", "ftp://h/", "ftp:/h", "a b"] {
            assert!(Url::given(bad).is_err(), "{bad}");
        }
    }

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
    fn a_path_stays_on_its_server() {
        let base = Url::parse("http://a/b/c?q").unwrap();
        for (text, want) in [
            ("/g", "http://a/g"),
            ("//g/h?i//j#k", "http://a//g/h?i//j"),
            ("///g", "http://a///g"),
            ("/../g/./h/", "http://a/g/h/"),
            ("/\t/g", "http://a//g"),
            ("/a b", "http://a/a%20b"),
            ("https://h/x", "https://h/x"),
        ] {
            assert_eq!(base.at(text).map(|url| url.to_string()).as_deref(), Some(want), "{text}");
        }
    }

    #[test]
    fn urls_are_taken_apart() {
        let check = |url: &str, place: Place, authority: &str, path: &str| {
            let read = Url::parse(url).unwrap();
            assert_eq!((&read.origin.place, read.origin.authority().as_str()), (&place, authority), "{url}");
            assert_eq!(read.path, path, "{url}");
            assert_eq!(Url::parse(&read.to_string()), Ok(read), "{url}");
        };
        let name = |host: &str, port| Place::Name(host.to_owned(), port);
        check("http://127.0.0.1:8080/a?b#c", name("127.0.0.1", 8080), "127.0.0.1:8080", "/a?b");
        check("http://Example.org:80", name("example.org", 80), "example.org", "/");
        check("HTTPS://example.org", name("example.org", 443), "example.org", "/");
        check("http://127.0.0.1?x", name("127.0.0.1", 80), "127.0.0.1", "/?x");
        check("http://h:/", name("h", 80), "h", "/");
        check("http://[::1]:81/", name("::1", 81), "[::1]:81", "/");
        check("https://[::1]", name("::1", 443), "[::1]", "/");
        check("http://unix:/tmp/s.sock:/x", Place::Unix("/tmp/s.sock".into()), "localhost", "/x");
        check("http://unix:/tmp/s.sock", Place::Unix("/tmp/s.sock".into()), "localhost", "/");
        for bad in [
            "x",
            "ftp://h/",
            "127.0.0.1",
            "http://",
            "http:///x",
            "http://u@h/",
            "http://h/a b",
            "http://h:99999/",
            "http://h:0/",
            "http://a:x/",
            "http://[::1/",
            "http://[::1]x/",
            "http://[[1]:80/",
            "http://[h]/",
            "http://a\"b/",
            "http://::1/",
            "http://:80/",
            "http://unix:",
            "http://unix:x:/",
        ] {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_url_prints_as_it_was_read() {
        for url in ["http://a.b:81/x?y", "https://[::1]/", "http://unix:/s:/p"] {
            assert_eq!(Url::parse(url).unwrap().to_string(), url);
        }
    }
}
