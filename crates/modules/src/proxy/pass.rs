//! `proxy_pass`.

use crate::upstream;
use brisk_server::request::Request;
use brisk_server::rlog;
use brisk_server::vars::{Part, Target as _, Template};
use brisk_upstream::backend::Backend;
use brisk_upstream::protocol::Peers;
use std::sync::Arc;

/// Where a location passes its requests.
pub(super) struct Pass {
    pub passed: Passed,
    /// The prefix that a URI in `proxy_pass` takes the place of; empty in locations of regular expressions and the like.
    pub location: Arc<[u8]>,
}

pub(super) enum Passed {
    Fixed(Fixed),
    Template(Variable),
}

/// A URL without variables.
pub(super) struct Fixed {
    pub url: Url,
    pub group: Arc<dyn Backend>,
    /// As written.
    pub text: Box<[u8]>,
}

/// A URL with variables.
pub(super) struct Variable {
    pub template: Template,
}

/// A URL, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    pub tls: bool,
    /// Host and port as written, `unix:/path`.
    pub address: String,
    /// What `Host` says: the port is there if it is not the scheme's.
    pub host_header: String,
    /// `$proxy_port`.
    pub port: String,
    /// From the first `/` or `?` on; empty if there is none.
    pub uri: Vec<u8>,
}

impl Url {
    /// Takes a URL apart. The error is what nginx says.
    pub fn parse(text: &[u8]) -> Result<Url, String> {
        // The scheme in any case (RFC 3986 §3.1).
        let starts =
            |scheme: &[u8]| text.len() >= scheme.len() && text[..scheme.len()].eq_ignore_ascii_case(scheme);
        let (tls, rest) = if starts(b"http://") {
            (false, &text[7..])
        } else if starts(b"https://") {
            (true, &text[8..])
        } else {
            return Err("invalid URL prefix".into());
        };
        let default_port = if tls { "443" } else { "80" };
        let of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        // Before host and port are looked for: a path may have colons and slashes.
        if rest.len() >= 5 && rest[..5].eq_ignore_ascii_case(b"unix:") {
            let path = &rest[5..];
            // What follows a second colon is the URI.
            let end = path.iter().position(|&b| b == b':').unwrap_or(path.len());
            if end == 0 {
                return Err(format!("no path in the unix domain socket in upstream \"{}\"", of(rest)));
            }
            let uri = path.get(end + 1..).unwrap_or_default().to_vec();
            let address = format!("unix:{}", of(&path[..end]));
            // nginx's choice: a path is no host.
            return Ok(Url { tls, address, host_header: "localhost".into(), port: String::new(), uri });
        }
        // RFC 3986 §3.2: these end an authority. What is behind must not be taken for a part of the host.
        let end = rest.iter().position(|b| matches!(b, b'/' | b'?' | b'#')).unwrap_or(rest.len());
        let (authority, uri) = rest.split_at(end);
        let mut uri = uri.to_vec();
        // A URI begins with a slash.
        if uri.starts_with(b"?") {
            uri.insert(0, b'/');
        }
        let address = of(authority);
        let (host, port) = match address.rsplit_once(':') {
            // A colon inside brackets is part of an IPv6 address.
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (address.as_str(), None),
        };
        if host.is_empty() {
            return Err(format!("no host in upstream \"{}\"", of(rest)));
        }
        // Port 0 is no place to connect to.
        if port.is_some_and(|port| !matches!(port.parse::<u16>(), Ok(port) if port > 0)) {
            return Err(format!("invalid port in upstream \"{}\"", of(rest)));
        }
        // RFC 9110 §7.2: the port is left out if it is the scheme's.
        let host_header = match port {
            Some(port) if port != default_port => address.clone(),
            _ => host.to_string(),
        };
        let port = port.unwrap_or(default_port).to_string();
        Ok(Url { tls, address, host_header, port, uri })
    }

    pub fn scheme(&self) -> &'static str {
        if self.tls { "https://" } else { "http://" }
    }

    pub fn default_port(&self) -> u16 {
        if self.tls { 443 } else { 80 }
    }
}

impl Pass {
    /// Whether back ends are, or may be, spoken to over TLS.
    pub fn may_be_tls(&self) -> bool {
        match &self.passed {
            Passed::Fixed(fixed) => fixed.url.tls,
            Passed::Template(variable) => match variable.template.parts().first() {
                // Settings of TLS are read, and their mistakes told, only where they can be needed.
                Some(Part::Text(text)) => !text.to_ascii_lowercase().starts_with(b"http:"),
                _ => true,
            },
        }
    }
}

impl Variable {
    /// The URL for a request. The error is a status.
    pub fn url(&self, r: &Request) -> Result<Url, u16> {
        // Variables are made fit for a URI: decoded text in them must not add a delimiter.
        let text = self.template.eval_target(r);
        Url::parse(&text).map_err(|why| {
            let text = String::from_utf8_lossy(&text);
            if why == "invalid URL prefix" {
                rlog!(r, Error, "{why} in \"{text}\"");
            } else {
                rlog!(r, Error, "{why}");
            }
            500
        })
    }

    /// The servers of a URL: a group of this name, else what the name resolves to. The error is a status.
    pub fn peers(&self, r: &Request, url: &Url) -> Result<Peers, u16> {
        if let Some(path) = url.address.strip_prefix("unix:") {
            // With a variable in it a path could lead a client to any socket of the machine.
            if !upstream::may_reach_socket(r, path) {
                return Err(500);
            }
            return Ok(Peers::Host { host: url.address.clone(), port: 0 });
        }
        let (host, given) = match url.address.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().ok()),
            _ => (&*url.address, None),
        };
        let port = given.unwrap_or(url.default_port());
        Ok(match upstream::at_run_time(r, host, given, port) {
            Some(group) => Peers::Group(group),
            None => Peers::Host { host: host.to_string(), port },
        })
    }
}
