//! A location of a running server that a command asks: where it is, by the configuration, and what it answers.

use crate::bundle::DiskLoader;
use crate::config::{self, Paths};
use brisk_conf::Directive;
use brisk_http::response::{ResponseHead, parse_response};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use serde_json::Value;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A server that does not answer must not hold the caller up.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the location is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Unix { socket: String, location: String },
    Tcp { host: String, location: String },
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix { socket, location } => write!(f, "unix:{socket}:{location}"),
            Address::Tcp { host, location } => write!(f, "http://{host}{location}"),
        }
    }
}

impl Address {
    /// Reads `unix:/path/of/socket[:/location]` or `http://host[:port][/location]`.
    pub fn parse(text: &str, default_location: &str) -> Option<Address> {
        if let Some(rest) = text.strip_prefix("unix:") {
            let (socket, location) = rest.split_once(':').unwrap_or((rest, default_location));
            return Some(Address::Unix {
                socket: socket.into(),
                location: location.trim_end_matches('/').into(),
            });
        }
        let rest = text.strip_prefix("http://")?;
        let (host, location) = rest.find('/').map_or((rest, default_location), |at| rest.split_at(at));
        let host = if host.contains(':') { host.to_string() } else { format!("{host}:80") };
        Some(Address::Tcp { host, location: location.trim_end_matches('/').into() })
    }

    /// Asks for what is below the location. The error is its own words.
    pub fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        self.call_with(method, path, &[], body)
    }

    /// The same, with fields of the request's head, as `Name: value`.
    pub fn call_with(
        &self,
        method: &str,
        path: &str,
        fields: &[String],
        body: &Value,
    ) -> Result<Value, String> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (host, location) = match self {
            Address::Unix { location, .. } => ("localhost", location),
            Address::Tcp { host, location } => (host.as_str(), location),
        };
        let fields: String = fields.iter().flat_map(|field| [field.as_str(), "\r\n"]).collect();
        let request = format!(
            "{method} {location}{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {}\r\n{fields}\r\n{body}",
            body.len()
        );
        let mut answer = Vec::new();
        let done = match self {
            Address::Unix { socket, .. } => {
                connect_unix(socket, CALL_TIMEOUT).and_then(|stream| ask(stream, &request, &mut answer))
            }
            Address::Tcp { host, .. } => {
                connect_tcp(host, CALL_TIMEOUT).and_then(|stream| ask(stream, &request, &mut answer))
            }
        };
        done.map_err(|error| {
            format!("no answer from {self} ({}): does the server run?", brisk_conf::os_text(&error))
        })?;
        read_answer(&answer).map_err(|why| format!("{self} answers: {why}"))
    }
}

/// A server that hangs takes no connection, either, once as many wait as it listens for.
fn connect_unix(path: &str, limit: Duration) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(limit))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_read_timeout(Some(limit))?;
    Ok(stream)
}

fn connect_tcp(host: &str, limit: Duration) -> io::Result<TcpStream> {
    let mut last = io::ErrorKind::NotFound.into();
    for address in host.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => {
                stream.set_read_timeout(Some(limit))?;
                stream.set_write_timeout(Some(limit))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn ask(mut stream: impl Read + Write, request: &str, answer: &mut Vec<u8>) -> io::Result<()> {
    stream.write_all(request.as_bytes())?;
    stream.read_to_end(answer).map(drop)
}

fn read_answer(bytes: &[u8]) -> Result<Value, String> {
    let mut head = ResponseHead::default();
    let broken = || "what is no HTTP".to_string();
    parse_response(bytes, &mut head).map_err(|_| broken())?;
    let body = bytes.get(head.len..).filter(|_| head.len > 0).ok_or_else(broken)?;
    let value: Value = serde_json::from_slice(body)
        .map_err(|_| format!("status {} without JSON: is this the location that is meant?", head.status))?;
    match value["error"]["text"].as_str() {
        Some(text) => Err(text.to_string()),
        None if head.status >= 400 => Err(format!("status {}", head.status)),
        None => Ok(value),
    }
}

/// The value of `--api`: an address, whose location is `/api` if it names none.
pub fn api_address(text: &str) -> Result<Address, String> {
    Address::parse(text, "/api").ok_or_else(|| format!("invalid address \"{text}\""))
}

/// Where the configuration has locations with a directive; those on a Unix socket first, none that only TLS leads to.
pub fn configured(paths: &Paths, is_wanted: &dyn Fn(&Directive) -> bool) -> Vec<Address> {
    let (tree, ..) = config::parse(paths, &DiskLoader::new(&paths.env.conf_prefix));
    let mut found = Vec::new();
    for server in blocks(&tree, "http").iter().flat_map(|http| blocks(inner(http), "server")) {
        let Some(location) = location_with(inner(server), is_wanted) else { continue };
        let listens = blocks(inner(server), "listen");
        let is_plain =
            |listen: &&Directive| !listen.args.iter().any(|arg| matches!(arg.str(), "ssl" | "quic"));
        let plain = listens.iter().copied().filter(is_plain);
        found.extend(plain.filter_map(|listen| address(paths, listen.args.first()?.str(), &location)));
        if listens.is_empty() {
            found.extend(address(paths, "80", &location));
        }
    }
    found.sort_by_key(|address| matches!(address, Address::Tcp { .. }));
    found
}

fn blocks<'d>(tree: &'d [Directive], name: &str) -> Vec<&'d Directive> {
    tree.iter().filter(|directive| directive.name() == name).collect()
}

fn inner(directive: &Directive) -> &[Directive] {
    directive.block.as_deref().unwrap_or_default()
}

/// The prefix of a location with the directive. What matches by a pattern has none.
fn location_with(block: &[Directive], is_wanted: &dyn Fn(&Directive) -> bool) -> Option<String> {
    for location in blocks(block, "location") {
        let is_pattern = location.args.first().is_some_and(|arg| arg.str().starts_with('~'));
        if !is_pattern && inner(location).iter().any(is_wanted) {
            return Some(location.args.last()?.str().trim_end_matches('/').to_string());
        }
        if let Some(found) = location_with(inner(location), is_wanted) {
            return Some(found);
        }
    }
    None
}

fn address(paths: &Paths, listen: &str, location: &str) -> Option<Address> {
    if let Some(socket) = listen.strip_prefix("unix:") {
        return Some(Address::Unix { socket: paths.env.full(socket), location: location.into() });
    }
    let host = match listen.rsplit_once(':') {
        Some(("*" | "0.0.0.0" | "[::]", port)) => format!("127.0.0.1:{port}"),
        Some(_) => listen.to_string(),
        None if listen.bytes().all(|b| b.is_ascii_digit()) => format!("127.0.0.1:{listen}"),
        None => format!("{listen}:80"),
    };
    Some(Address::Tcp { host, location: location.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};

    /// The time limit of an answer begins when the connection is there; a server that hangs takes none.
    #[test]
    fn connecting_has_a_limit() {
        let limit = Duration::from_millis(50);
        let folder = std::env::temp_dir().join(format!("brisk-endpoint-{}", std::process::id()));
        let path = folder.to_str().unwrap();
        let unix = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&unix, &SocketAddrUnix::new(path).unwrap()).unwrap();
        rustix::net::listen(&unix, 0).unwrap();
        let tcp = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&tcp, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        rustix::net::listen(&tcp, 0).unwrap();
        let port = TcpListener::from(tcp.try_clone().unwrap()).local_addr().unwrap().port();
        // As many as find room, which are kept.
        let mut kept = Vec::new();
        let refused = |kept: &mut Vec<UnixStream>| {
            (0..20).find_map(|_| connect_unix(path, limit).map(|stream| kept.push(stream)).err())
        };
        assert_eq!(refused(&mut kept).map(|error| error.kind()), Some(io::ErrorKind::WouldBlock));
        let mut kept = Vec::new();
        let host = format!("127.0.0.1:{port}");
        let refused = |kept: &mut Vec<TcpStream>| {
            (0..20).find_map(|_| connect_tcp(&host, limit).map(|stream| kept.push(stream)).err())
        };
        assert_eq!(refused(&mut kept).map(|error| error.kind()), Some(io::ErrorKind::TimedOut));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn addresses_are_read() {
        let unix =
            |socket: &str, location: &str| Address::Unix { socket: socket.into(), location: location.into() };
        let tcp = |host: &str, location: &str| Address::Tcp { host: host.into(), location: location.into() };
        assert_eq!(Address::parse("unix:/run/x", "/api"), Some(unix("/run/x", "/api")));
        assert_eq!(Address::parse("unix:/run/x:/y/", "/api"), Some(unix("/run/x", "/y")));
        assert_eq!(Address::parse("http://a", "/api"), Some(tcp("a:80", "/api")));
        assert_eq!(Address::parse("http://a:81/b/", "/api"), Some(tcp("a:81", "/b")));
        assert_eq!(Address::parse("a:81", "/api"), None);
    }
}
