//! Where a `*_pass` leads that takes no URL: `[SCHEME://]HOST:PORT`, `unix:PATH`, the name of an upstream, or variables that
//! come to one of these.

use crate::upstream;
use brisk_conf::{Diag, Directive};
use brisk_server::conf::Cx;
use brisk_server::flow::Flow;
use brisk_server::request::Request;
use brisk_server::vars::Template;
use brisk_upstream::backend::Backend;
use brisk_upstream::protocol::Peers;
use std::sync::Arc;

/// What may stand before an address.
/// The scheme counts only with what follows it, so `http` as the name of a group is no scheme.
pub struct Schemes {
    /// What is meant without one, too.
    pub plain: &'static str,
    pub tls: Option<&'static str>,
}

impl Schemes {
    /// The scheme, whether it is the one of TLS, and what stands behind it.
    fn split<'a>(&self, text: &'a str) -> (&'static str, bool, &'a str) {
        if let Some(tls) = self.tls {
            let rest = without_scheme(text, tls);
            if rest.len() < text.len() {
                return (tls, true, rest);
            }
        }
        (self.plain, false, without_scheme(text, self.plain))
    }
}

/// What was written.
#[derive(Clone)]
pub enum Address {
    Fixed(Fixed),
    /// Known only when a request is there.
    Text(Arc<Template>),
}

/// An address without variables.
#[derive(Clone)]
pub struct Fixed {
    pub group: Arc<dyn Backend>,
    pub scheme: &'static str,
    pub is_tls: bool,
    /// Host and port as written; `localhost` for unix sockets.
    pub host: Arc<str>,
}

/// What a request is to do with it.
pub struct Found {
    pub peers: Peers,
    pub scheme: &'static str,
    pub is_tls: bool,
    pub host: Arc<str>,
}

impl Address {
    /// Reads the directive.
    pub fn parse(cx: &mut Cx<'_, '_>, d: &Directive, schemes: &Schemes) -> Result<Address, Diag> {
        let token = d.arg(0);
        let template = cx.template(token)?;
        if !template.is_literal() {
            return Ok(Address::Text(Arc::new(template)));
        }
        let (scheme, is_tls, address) = schemes.split(token.str());
        // Without a port only a group of this name can be meant.
        if port_of(address).is_none() && upstream::find(cx, address).is_none() {
            let text = format!("no port in upstream \"{address}\"");
            return Err(Diag::emerg(token.span, text)
                .help("write host:port, unix:/path, or the name of an upstream block"));
        }
        let group = upstream::implicit(cx, token, address, 0)?;
        Ok(Address::Fixed(Fixed { group, scheme, is_tls, host: host_of(address) }))
    }

    /// Whether back ends are, or may be, spoken to over TLS.
    pub fn may_be_tls(&self, schemes: &Schemes) -> bool {
        match self {
            Address::Fixed(fixed) => fixed.is_tls,
            Address::Text(_) => schemes.tls.is_some(),
        }
    }

    /// The servers for a request.
    pub fn find(&self, r: &Request, schemes: &Schemes) -> Result<Found, Flow> {
        match self {
            Address::Fixed(Fixed { group, scheme, is_tls, host }) => {
                let peers = Peers::Group(group.clone());
                Ok(Found { peers, scheme, is_tls: *is_tls, host: host.clone() })
            }
            Address::Text(template) => {
                let text = template.eval(r);
                // What a client has sent may be no UTF-8; such a host has no server.
                let text = String::from_utf8_lossy(&text);
                let (scheme, is_tls, address) = schemes.split(&text);
                Ok(Found { peers: peers(r, address)?, scheme, is_tls, host: host_of(address) })
            }
        }
    }
}

fn host_of(address: &str) -> Arc<str> {
    if address.starts_with("unix:") { "localhost".into() } else { address.into() }
}

fn without_scheme<'a>(text: &'a str, scheme: &str) -> &'a str {
    match text.get(..scheme.len()) {
        Some(start) if start.eq_ignore_ascii_case(scheme) => &text[scheme.len()..],
        _ => text,
    }
}

/// The port of `host:port`; 0 for a unix socket, which needs none.
fn port_of(address: &str) -> Option<u16> {
    if address.starts_with("unix:") {
        return Some(0);
    }
    let (host, port) = address.rsplit_once(':')?;
    // Colons of an IPv6 address stand in brackets.
    if host.contains(':') && !host.ends_with(']') {
        return None;
    }
    port.parse().ok().filter(|&port| port > 0)
}

/// What an address means that variables have made.
fn peers(r: &Request, address: &str) -> Result<Peers, Flow> {
    let refuse = |why: &str| {
        brisk_server::rlog!(r, Error, "{why} in upstream \"{address}\"");
        Err(Flow::Status(500))
    };
    // A path that a client has chosen could lead to any socket of the machine, so the configuration must have
    // named it.
    if let Some(path) = address.strip_prefix("unix:") {
        return match path {
            "" => refuse("no path in the unix domain socket"),
            _ if !upstream::may_reach_socket(r, path) => Err(Flow::Status(500)),
            _ => Ok(Peers::Host { host: address.to_string(), port: 0 }),
        };
    }
    let port = port_of(address);
    let host = match port {
        Some(_) => address.rsplit_once(':').map_or(address, |(host, _)| host),
        None => address,
    };
    if host.is_empty() {
        return refuse("no host");
    }
    // None of these can be part of a name: they come from values that were put together wrongly, or on
    // purpose.
    if host.bytes().any(|b| b <= b' ' || b"/\\\"<>".contains(&b)) {
        return refuse("invalid host");
    }
    // A group is meant before a name is looked up, as nginx has it.
    if let Some(group) = upstream::at_run_time(r, host, port, port.unwrap_or(0)) {
        return Ok(Peers::Group(group));
    }
    match port {
        Some(port) => Ok(Peers::Host { host: host.to_string(), port }),
        None => refuse("no port"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_schemes() {
        assert_eq!(port_of("127.0.0.1:9000"), Some(9000));
        assert_eq!(port_of("[::1]:9000"), Some(9000));
        assert_eq!(port_of("unix:/run/php.sock"), Some(0));
        for none in ["php", "::1", "[::1]", "php:", "php:x", "php:0", "php:65536", "a:b:80"] {
            assert_eq!(port_of(none), None, "{none}");
        }
        assert_eq!(without_scheme("UWSGI://a:1", "uwsgi://"), "a:1");
        assert_eq!(without_scheme("a:1", "uwsgi://"), "a:1");
        let schemes = Schemes { plain: "grpc://", tls: Some("grpcs://") };
        assert_eq!(schemes.split("grpc://a:1"), ("grpc://", false, "a:1"));
        assert_eq!(schemes.split("GRPCS://a:1"), ("grpcs://", true, "a:1"));
        assert_eq!(schemes.split("a"), ("grpc://", false, "a"));
    }
}
