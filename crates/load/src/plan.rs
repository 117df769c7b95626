//! What a run does: targets and their request bytes, connections, limits. Pure data.

use crate::arrivals::Rate;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use brisk_tls::ClientContext;

/// A server's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// TCP, for `http://host[:port]/…`.
    Tcp(SocketAddr),
    /// A unix socket, for `http://unix:/path:/…`.
    Unix(PathBuf),
}

/// One request, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The whole request.
    pub request: Box<[u8]>,
    /// Whether the method is HEAD, whose response has no body (RFC 9112 §6.3).
    pub is_head: bool,
}

/// The targets of one server; a connection stays with its endpoint.
#[derive(Debug, Clone)]
pub struct Site {
    /// Where to connect.
    pub endpoint: Endpoint,
    /// What to ask for there; never empty.
    pub targets: Vec<Target>,
}

/// In which order a site's targets are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// One after another, over all connections of a thread.
    #[default]
    RoundRobin,
    /// Independently at random.
    Random,
}

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// After this time, not counting the warm-up.
    After(Duration),
    /// After this many requests in all.
    Requests(u64),
    /// After this many requests on each connection.
    RequestsPerConnection(u64),
    /// When the caller says so.
    Told,
}

/// TLS to all sites.
#[derive(Debug, Clone)]
pub struct Tls {
    /// What handshakes are made with; it keeps the sessions, if they are to be resumed.
    pub context: Arc<ClientContext>,
    /// The server's name.
    pub name: String,
}

/// Everything the engine needs to know.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Servers and their targets; connections are dealt out over them in turn.
    pub sites: Vec<Site>,
    /// TLS, or plain connections.
    pub tls: Option<Tls>,
    /// Connections in all.
    pub connections: usize,
    /// Threads, each with its own loop and its share of the connections.
    pub threads: usize,
    /// The CPUs that threads are pinned to, in turn; empty leaves it to the scheduler.
    pub cpus: Vec<usize>,
    /// Requests in flight per connection; 1 waits for each response.
    pub pipeline: usize,
    /// An open loop: requests are due at this rate whatever becomes of those before them, and wait for a connection if
    /// all are busy. `None` is a closed loop, in which every connection asks again when it was answered.
    pub rate: Option<Rate>,
    /// Order of the targets.
    pub order: Order,
    /// End of the run.
    pub stop: Stop,
    /// Whether finished connections are kept open until the caller stops the run.
    pub hold: bool,
    /// Responses in this first part are not counted in the statistics.
    pub warmup: Duration,
    /// A response that takes longer is an error and costs the connection.
    pub timeout: Duration,
    /// At most this many connections of a thread are between connect and first response.
    pub opening_max: usize,
}

impl Plan {
    /// A closed loop over the given sites with everything else at its default.
    pub fn new(sites: Vec<Site>, connections: usize, stop: Stop) -> Self {
        Self {
            sites,
            tls: None,
            connections,
            threads: 1,
            cpus: Vec::new(),
            pipeline: 1,
            rate: None,
            order: Order::RoundRobin,
            stop,
            hold: false,
            warmup: Duration::ZERO,
            timeout: Duration::from_secs(10),
            opening_max: 128,
        }
    }

    /// Opens `connections`, asks once on each, and keeps them open until told.
    pub fn idle(sites: Vec<Site>, connections: usize) -> Self {
        Self { hold: true, ..Self::new(sites, connections, Stop::RequestsPerConnection(1)) }
    }
}

/// The parts of a request that are the same for all targets of a command line.
#[derive(Debug, Clone)]
pub struct RequestOptions {
    /// The method.
    pub method: String,
    /// Further header lines, `Name: value`; a `Host` here replaces the derived one.
    pub headers: Vec<String>,
    /// The body; empty sends none.
    pub body: Vec<u8>,
}

impl Default for RequestOptions {
    fn default() -> Self {
        Self { method: "GET".to_owned(), headers: Vec::new(), body: Vec::new() }
    }
}

impl RequestOptions {
    /// Serialises one request.
    pub fn target(&self, host: &str, path: &str) -> Target {
        let mut head = format!("{} {path} HTTP/1.1\r\n", self.method);
        let has_host = self
            .headers
            .iter()
            .any(|line| line.split_once(':').is_some_and(|(name, _)| name.eq_ignore_ascii_case("host")));
        if !has_host {
            head.extend(["Host: ", host, "\r\n"]);
        }
        for line in &self.headers {
            head.extend([line, "\r\n"]);
        }
        if !self.body.is_empty() {
            head.extend(["Content-Length: ", &self.body.len().to_string(), "\r\n"]);
        }
        head.push_str("\r\n");
        let mut request = head.into_bytes();
        request.extend_from_slice(&self.body);
        Target { request: request.into(), is_head: self.method == "HEAD" }
    }
}

/// A URL split into what the engine needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Where to connect.
    pub endpoint: Endpoint,
    /// The value of `Host`.
    pub host: String,
    /// Path and query, starting with `/`.
    pub path: String,
}

/// Why a URL was refused.
#[derive(Debug, PartialEq, Eq)]
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

impl Url {
    /// Reads `http://host[:port][/path]` or, as nginx writes it, `http://unix:/socket:[/path]`.
    pub fn parse(url: &str) -> Result<Self, UrlError> {
        let refuse = |why: &str| UrlError { url: url.to_owned(), why: why.to_owned() };
        let rest = url.strip_prefix("http://").ok_or_else(|| refuse("only http:// is supported"))?;
        if url.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(refuse("spaces and control characters must be escaped"));
        }
        let rest = rest.split('#').next().unwrap_or(rest);
        if let Some(rest) = rest.strip_prefix("unix:") {
            let (socket, path) = rest.split_once(':').unwrap_or((rest, ""));
            if socket.is_empty() {
                return Err(refuse("the socket's path is empty"));
            }
            let endpoint = Endpoint::Unix(PathBuf::from(socket));
            return Ok(Self { endpoint, host: "localhost".to_owned(), path: origin_form(path) });
        }
        let cut = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(cut);
        if authority.is_empty() || authority.contains('@') {
            return Err(refuse("it needs a host, and no user name"));
        }
        let has_port = authority.rfind(':') > authority.rfind(']');
        let with_port = if has_port { authority.to_owned() } else { format!("{authority}:80") };
        let mut addresses =
            with_port.to_socket_addrs().map_err(|error| refuse(&format!("no address: {error}")))?;
        let address = addresses.next().ok_or_else(|| refuse("no address"))?;
        Ok(Self { endpoint: Endpoint::Tcp(address), host: authority.to_owned(), path: origin_form(path) })
    }
}

/// The request target of RFC 9112 §3.2.1: never empty, always from the root.
fn origin_form(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

/// Groups URLs by endpoint, in the order in which endpoints first appear.
pub fn sites(urls: &[Url], options: &RequestOptions) -> Vec<Site> {
    let mut sites: Vec<Site> = Vec::new();
    for url in urls {
        let target = options.target(&url.host, &url.path);
        match sites.iter_mut().find(|site| site.endpoint == url.endpoint) {
            Some(site) => site.targets.push(target),
            None => sites.push(Site { endpoint: url.endpoint.clone(), targets: vec![target] }),
        }
    }
    sites
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let tcp = |address: &str, host: &str, path: &str| {
            Ok((Endpoint::Tcp(address.parse().unwrap()), host.to_owned(), path.to_owned()))
        };
        let unix = |socket: &str, path: &str| {
            Ok((Endpoint::Unix(socket.into()), "localhost".to_owned(), path.to_owned()))
        };
        let check = |url: &str, want: Result<(Endpoint, String, String), ()>| {
            let read = Url::parse(url).map(|url| (url.endpoint, url.host, url.path)).map_err(|_| ());
            assert_eq!(read, want, "{url}");
        };
        check("http://127.0.0.1:8080/a?b#c", tcp("127.0.0.1:8080", "127.0.0.1:8080", "/a?b"));
        check("http://127.0.0.1", tcp("127.0.0.1:80", "127.0.0.1", "/"));
        check("http://127.0.0.1?x", tcp("127.0.0.1:80", "127.0.0.1", "/?x"));
        check("http://[::1]:81/", tcp("[::1]:81", "[::1]:81", "/"));
        check("http://[::1]/", tcp("[::1]:80", "[::1]", "/"));
        check("http://unix:/tmp/s.sock:/x", unix("/tmp/s.sock", "/x"));
        check("http://unix:/tmp/s.sock", unix("/tmp/s.sock", "/"));
        check("https://127.0.0.1/", Err(()));
        check("http:///x", Err(()));
        check("http://u@127.0.0.1/", Err(()));
        check("http://127.0.0.1/a b", Err(()));
    }

    #[test]
    fn requests() {
        let plain = RequestOptions::default().target("h:1", "/x");
        assert_eq!(&*plain.request, b"GET /x HTTP/1.1\r\nHost: h:1\r\n\r\n");
        let options = RequestOptions {
            method: "HEAD".to_owned(),
            headers: vec!["hOst: other".to_owned()],
            body: b"abc".to_vec(),
        };
        let target = options.target("h", "/");
        assert!(target.is_head);
        assert_eq!(&*target.request, b"HEAD / HTTP/1.1\r\nhOst: other\r\nContent-Length: 3\r\n\r\nabc");
    }

    #[test]
    fn urls_of_one_server_share_a_site() {
        let urls: Vec<Url> = ["http://127.0.0.1:1/a", "http://127.0.0.1:2/b", "http://127.0.0.1:1/c"]
            .iter()
            .map(|url| Url::parse(url).unwrap())
            .collect();
        let sites = sites(&urls, &RequestOptions::default());
        assert_eq!(sites.iter().map(|site| site.targets.len()).collect::<Vec<_>>(), [2, 1]);
    }
}
