//! The sockets that the servers of `stream` need together.

use brisk_conf::{Diag, Span};
use brisk_net::listen::{Address, Options};
use brisk_server::conf::Socket;
use brisk_stream::conf::{Listen, Server};
use std::net::SocketAddr;
use std::sync::Arc;

/// One `listen` as written.
pub struct Spec {
    /// The number of its server.
    pub server: usize,
    /// What is listened on.
    pub address: Address,
    /// How.
    pub options: Options,
    /// A socket of its own even if a wildcard covers it.
    pub bind: bool,
    /// Where it is written.
    pub span: Span,
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
        Address::Ip(ip) | Address::Udp(ip) | Address::Quic(ip, _) => Some(*ip),
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
