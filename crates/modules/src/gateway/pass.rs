//! Where a `*_pass` leads.

use super::params::{self, Param};
use crate::upstream;
use brisk_conf::{Diag, Directive};
use brisk_server::conf::Cx;
use brisk_server::flow::Flow;
use brisk_server::request::Request;
use brisk_server::vars::Template;
use brisk_upstream::backend::Backend;
use brisk_upstream::protocol::{Peers, Target};
use std::rc::Rc;
use std::sync::Arc;

/// One `*_pass`.
#[derive(Clone)]
pub struct Pass {
    to: To,
    /// `HTTP_HOST`, if no `*_param` sets it.
    pub host: Arc<Param>,
}

#[derive(Clone)]
enum To {
    Group(Arc<dyn Backend>),
    /// Known only when a request is there.
    Text(Arc<Template>),
}

impl Pass {
    /// Reads the directive; `scheme` may stand before the address.
    pub fn parse(cx: &mut Cx<'_, '_>, d: &Directive, scheme: &str) -> Result<Pass, Diag> {
        let token = d.arg(0);
        let host = params::host(cx, d)?;
        let template = cx.template(token)?;
        if !template.is_literal() {
            return Ok(Pass { to: To::Text(Arc::new(template)), host });
        }
        if token.text().to_ascii_lowercase().starts_with("suwsgi://") && scheme == "uwsgi://" {
            return Err(Diag::emerg(token.span, "suwsgi protocol requires SSL support"));
        }
        let address = without_scheme(token.str(), scheme);
        if port_of(address).is_none() && upstream::find(cx, address).is_none() {
            let text = format!("no port in upstream \"{address}\"");
            return Err(Diag::emerg(token.span, text)
                .help("write host:port, unix:/path, or the name of an upstream block"));
        }
        let group = upstream::implicit(cx, token, address, 0)?;
        Ok(Pass { to: To::Group(group), host })
    }

    /// The servers for a request.
    pub fn target(&self, r: &Request, scheme: &'static str) -> Result<Target<()>, Flow> {
        let peers = match &self.to {
            To::Group(group) => Peers::Group(group.clone()),
            To::Text(template) => {
                let text = template.eval(r);
                let text = String::from_utf8_lossy(&text);
                peers(r, without_scheme(&text, scheme))?
            }
        };
        Ok(Target { peers, tls: None, scheme, uri: Rc::default(), way: () })
    }
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
    if let Some(path) = address.strip_prefix("unix:") {
        return match path {
            "" => refuse("no path in the unix domain socket"),
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
    if host.bytes().any(|b| b <= b' ' || b"/\\\"<>".contains(&b)) {
        return refuse("invalid host");
    }
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
    }
}
