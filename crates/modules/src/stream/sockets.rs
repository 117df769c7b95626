//! The sockets that the servers of `stream` need together.

use brisk_conf::{Diag, Span};
use brisk_net::listen::{Address, Options};
use brisk_server::conf::Socket;
use brisk_server::server_name::{Name, NameTable};
use brisk_stream::conf::{Listen, Place, Server};
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
    /// `proxy_protocol`.
    pub proxy_protocol: bool,
    /// `ssl`.
    pub tls: bool,
    /// `default_server`.
    pub is_default: bool,
    /// Where it is written.
    pub span: Span,
}

/// Turns all `listen`s into sockets: one per address, except that a wildcard covers the addresses of its port.
pub fn resolve(specs: &[Spec], servers: &[Named], diags: &mut Vec<Diag>) -> (Vec<Socket>, Vec<Listen>) {
    let (mut sockets, mut listens) = (Vec::new(), Vec::new());
    let mut addresses: Vec<Vec<&Spec>> = Vec::new();
    for spec in specs {
        match addresses.iter_mut().find(|have| have[0].address == spec.address) {
            Some(have) => have.push(spec),
            None => addresses.push(vec![spec]),
        }
    }
    let bind = |specs: &[&Spec]| specs.iter().any(|spec| spec.bind);
    let is_covered = |specs: &[&Spec]| {
        let address = &specs[0].address;
        let is_wider = |wide: &Vec<&Spec>| wide[0].address != *address && wide[0].address.covers(address);
        !bind(specs) && addresses.iter().any(is_wider)
    };
    for of_address in &addresses {
        let spec = of_address.iter().find(|spec| spec.bind).unwrap_or(&of_address[0]);
        if is_covered(of_address) {
            continue;
        }
        let covered =
            addresses.iter().filter(|other| is_covered(other) && spec.address.covers(&other[0].address));
        let by_local: Vec<_> = covered
            .filter_map(|other| Some((ip(&other[0].address)?, Arc::new(place(other, servers, diags)))))
            .collect();
        sockets.push(Socket {
            address: spec.address.clone(),
            options: spec.options.clone(),
            span: spec.span,
        });
        listens.push(Listen {
            address: spec.address.clone(),
            place: Arc::new(place(of_address, servers, diags)),
            by_local,
        });
    }
    (sockets, listens)
}

/// A server with the names that it is found by.
pub struct Named {
    /// What it does.
    pub server: Arc<Server>,
    /// `server_name`.
    pub names: Vec<Name>,
}

/// The servers of one address.
fn place(specs: &[&Spec], servers: &[Named], diags: &mut Vec<Diag>) -> Place {
    let address = &specs[0].address;
    let mut names = NameTable::default();
    let mut default = None;
    for (number, spec) in (0..).zip(specs) {
        let named = &servers[spec.server];
        if spec.is_default && default.replace(number).is_some() {
            let text = format!("a duplicate default server for {address}");
            diags.push(Diag::emerg(spec.span, text).help("one server is the default of an address"));
        }
        if specs[..number as usize].iter().any(|other| other.bind && spec.bind) {
            let text = format!("duplicate listen options for {address}");
            diags.push(
                Diag::emerg(spec.span, text).help("give socket options in one listen of an address only"),
            );
        }
        // One without a name is found by none, and two such are one too many.
        let is_nameless = |spec: &&&Spec| servers[spec.server].names.is_empty();
        if named.names.is_empty() && specs[..number as usize].iter().any(|other| is_nameless(&other)) {
            let text = format!("duplicate \"{address}\" address and port pair");
            diags
                .push(Diag::emerg(spec.span, text).help("give the servers of an address names: server_name"));
        }
        for name in &named.names {
            if !names.add(name, number) {
                let text = format!("conflicting server name \"{name}\" on {address}, ignored");
                diags.push(Diag::warn(spec.span, text).bare());
            }
        }
    }
    check_certificates(specs, servers, default.unwrap_or(0) as usize, diags);
    let servers: Vec<_> = specs.iter().map(|spec| servers[spec.server].server.clone()).collect();
    Place {
        proxy_protocol: specs.iter().any(|spec| spec.proxy_protocol),
        tls: specs.iter().any(|spec| spec.tls),
        server: servers[default.unwrap_or(0) as usize].clone(),
        names,
        servers,
    }
}

/// A server of a TLS address that a handshake can lead to needs a certificate, as nginx has it: the default one, which stands in for
/// the others — unless it only refuses.
fn check_certificates(specs: &[&Spec], servers: &[Named], default: usize, diags: &mut Vec<Diag>) {
    if !specs.iter().any(|spec| spec.tls) {
        return;
    }
    let rules = |number: usize| servers[specs[number].server].server.tls.as_deref();
    let rejects = |number| rules(number).is_some_and(|rules| rules.reject);
    let can = |number| rules(number).is_some_and(|rules| rules.context.is_some()) || rejects(number);
    let lacks = |number: &usize| !can(*number) && (*number == default || rejects(default));
    if let Some(number) = (0..specs.len()).find(lacks) {
        let text = "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive";
        diags.push(
            Diag::emerg(specs[number].span, text)
                .help("add ssl_certificate and ssl_certificate_key to the server"),
        );
    }
}

fn ip(address: &Address) -> Option<SocketAddr> {
    match address {
        Address::Ip(ip) | Address::Udp(ip) | Address::Quic(ip, _) => Some(*ip),
        Address::Unix(_) => None,
    }
}
