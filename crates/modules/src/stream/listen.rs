//! `listen` in `stream`.

use super::part;
use brisk_conf::{Diag, Directive, Span, Token};
use brisk_net::listen::{Address, Options};
use brisk_server::conf::{Cx, Socket, invalid_parameter};
use brisk_server::core::listen::{addresses, socket_parameter};
use brisk_stream::conf::{Listen, Server};
use std::net::SocketAddr;
use std::sync::Arc;

/// One `listen` as written.
pub struct Spec {
    /// The number of its server.
    pub server: usize,
    pub address: Address,
    pub options: Options,
    /// A socket of its own even if a wildcard covers it.
    pub bind: bool,
    pub span: Span,
}

/// The setter.
pub fn listen(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let token = d.arg(0);
    if !has_port(token.str()) {
        return Err(Diag::emerg(
            token.span,
            format!("no port in \"{}\" of the \"listen\" directive", token.text()),
        )
        .help("there is no usual port in stream: write ADDRESS:PORT, PORT or unix:/PATH"));
    }
    let found = addresses(cx, token)?;
    let mut options = Options::default();
    let (mut is_udp, mut bind) = (false, false);
    for token in &d.args[1..] {
        match token.str() {
            "udp" => is_udp = true,
            "ssl" | "proxy_protocol" => return Err(unsupported(token)),
            _ if socket_parameter(&found[0], &mut options, token)? => bind = true,
            _ => return Err(invalid_parameter(token)),
        }
    }
    let server = part(cx).servers.len();
    for address in found {
        let address = match (address, is_udp) {
            (Address::Ip(ip), true) => Address::Udp(ip),
            (Address::Unix(_), true) => {
                return Err(Diag::emerg(token.span, "a unix socket takes no \"udp\" parameter"));
            }
            (address, _) => address,
        };
        if part(cx).listens.iter().any(|spec| spec.address == address) {
            let text = format!("duplicate \"{}\" address and port pair", token.text());
            return Err(Diag::emerg(d.span, text).help("each server of stream has its own addresses"));
        }
        part(cx).listens.push(Spec { server, address, options: options.clone(), bind, span: d.span });
    }
    Ok(())
}

fn unsupported(token: &Token) -> Diag {
    let text = token.text();
    let help = match &*text {
        "ssl" => "pass TLS on as it is, or end it in http",
        _ => "remove it: the client's address is that of its connection",
    };
    Diag::emerg(token.span, format!("the \"{text}\" parameter is not supported in stream yet")).help(help)
}

fn has_port(text: &str) -> bool {
    let rest = text.rsplit_once(']').map_or(text, |(_, rest)| rest);
    text.starts_with("unix:")
        || rest.contains(':')
        || !text.starts_with('[') && text.bytes().all(|b| b.is_ascii_digit() || b == b'-')
}

/// Turns all `listen`s into sockets: one per address, except that a wildcard covers the addresses of its port.
pub fn resolve(specs: &[Spec], servers: &[Arc<Server>], diags: &mut Vec<Diag>) -> (Vec<Socket>, Vec<Listen>) {
    let (mut sockets, mut listens) = (Vec::new(), Vec::new());
    let is_covered = |spec: &Spec| {
        !spec.bind
            && specs.iter().any(|wide| wide.address != spec.address && covers(&wide.address, &spec.address))
    };
    for spec in specs {
        if is_covered(spec) {
            if let Address::Udp(_) = spec.address {
                let text = format!("{} is covered by the wildcard of its port", spec.address);
                diags.push(Diag::emerg(spec.span, text).help("add the parameter \"bind\", or remove it"));
            }
            continue;
        }
        let covered = specs.iter().filter(|other| is_covered(other) && covers(&spec.address, &other.address));
        let by_local = covered.filter_map(|other| Some((ip(&other.address)?, servers[other.server].clone())));
        sockets.push(Socket {
            address: spec.address.clone(),
            options: spec.options.clone(),
            span: spec.span,
        });
        listens.push(Listen {
            address: spec.address.clone(),
            server: servers[spec.server].clone(),
            by_local: by_local.collect(),
        });
    }
    (sockets, listens)
}

fn ip(address: &Address) -> Option<SocketAddr> {
    match address {
        Address::Ip(ip) | Address::Udp(ip) => Some(*ip),
        Address::Unix(_) => None,
    }
}

/// Whether `wide` is the wildcard of `narrow`'s port, family and protocol.
fn covers(wide: &Address, narrow: &Address) -> bool {
    let is_same_kind =
        matches!((wide, narrow), (Address::Ip(_), Address::Ip(_)) | (Address::Udp(_), Address::Udp(_)));
    match (ip(wide), ip(narrow)) {
        (Some(wide), Some(narrow)) => {
            is_same_kind
                && wide.ip().is_unspecified()
                && wide.port() == narrow.port()
                && wide.is_ipv4() == narrow.is_ipv4()
        }
        _ => false,
    }
}
