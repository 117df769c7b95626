//! `listen`: addresses, socket options, and which server answers where.
//!
//! Addresses are collected while servers are read and become sockets when all are known: options may stand in
//! any of the `listen`s of an address, and a wildcard covers addresses that are named elsewhere.

use crate::conf::cx::{Cx, Global, invalid_parameter};
use crate::conf::ids::ServerId;
use crate::conf::listen_spec::ListenSpec;
use crate::conf::snapshot::{Listen, LocalListen, Prefix};
use crate::server_name::NameTable;
use brisk_conf::{Diag, Directive, Span, Token, value};
use brisk_host::snapshot::Socket;
use brisk_net::listen::{Address, KeepAlive, Options};
use brisk_quic::limits::THREADS_MAX;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// The setter.
/// Nothing is bound here: a `-t` must not need the ports.
pub fn set(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let token = d.arg(0);
    let addresses = addresses(cx, token)?;
    // The present one: its block is being read (`location_rows::server`).
    let server = ServerId(cx.global.servers.len() as u32 - 1);
    let mut spec = ListenSpec {
        server,
        address: addresses[0].clone(),
        options: Options::default(),
        explicit: false,
        bind: false,
        default_server: false,
        prefix: Prefix::default(),
        span: d.span,
    };
    for token in &d.args[1..] {
        parameter(cx, &mut spec, token)?;
    }
    // One place for all contradictions, since any of the words may come first.
    check_quic(&spec, d)?;
    for address in addresses {
        // QUIC is another socket at the same address and port: UDP has ports of its own.
        let address = match address {
            Address::Ip(ip) if spec.prefix.quic => Address::Quic(ip, 0),
            address => address,
        };
        // The present server's stand last.
        if cx.global.listens.iter().rev().take_while(|l| l.server == server).any(|l| l.address == address) {
            return Err(Diag::emerg(d.span, format!("a duplicate listen {}", shown(&address)))
                .help("this server already listens there"));
        }
        cx.global.listens.push(ListenSpec { address, options: spec.options.clone(), ..spec });
    }
    Ok(())
}

/// `quic` with what it cannot be together with, in nginx's words.
/// Each would be ignored in silence otherwise, and the administrator would think that it holds.
fn check_quic(spec: &ListenSpec, d: &Directive) -> Result<(), Diag> {
    let Prefix { quic, tls, http2, proxy_protocol } = spec.prefix;
    let refused = |what: &str, help: &str| Err(Diag::emerg(d.span, what).help(help));
    match (&spec.address, quic) {
        (_, false) => Ok(()),
        (Address::Unix(_), true) => refused(
            "\"quic\" parameter is incompatible with a unix socket",
            "QUIC needs an address and a port",
        ),
        _ if proxy_protocol => refused(
            "\"proxy_protocol\" parameter is incompatible with \"quic\"",
            "there is no such header in datagrams: remove it",
        ),
        _ if tls => refused(
            "\"ssl\" parameter is incompatible with \"quic\"",
            "QUIC has TLS in itself: write two listens, one with \"ssl\" and one with \"quic\"",
        ),
        _ if http2 => refused(
            "\"http2\" parameter is incompatible with \"quic\"",
            "write two listens: HTTP/2 is spoken over TCP",
        ),
        _ if spec.options.deferred
            || spec.options.fastopen.is_some()
            || spec.options.keepalive.is_some()
            || spec.options.multipath =>
        {
            refused(
                "a parameter of TCP is incompatible with \"quic\"",
                "deferred, fastopen, so_keepalive and multipath are TCP's",
            )
        }
        _ => Ok(()),
    }
}

/// What a server without `listen` gets: port 80, or 8000 without root's rights.
/// Only for servers that say nothing; `listen` without a port is always 80.
pub fn default(cx: &mut Cx<'_, '_>, server: ServerId, span: Span) {
    // As nginx: ports below 1024 need root's rights.
    let port = if rustix::process::geteuid().is_root() { 80 } else { 8000 };
    cx.global.listens.push(ListenSpec {
        server,
        address: Address::Ip((Ipv4Addr::UNSPECIFIED, port).into()),
        options: Options::default(),
        explicit: false,
        bind: false,
        default_server: false,
        prefix: Prefix::default(),
        span,
    });
}

fn shown(address: &Address) -> String {
    address.to_string()
}

fn parameter(cx: &mut Cx<'_, '_>, spec: &mut ListenSpec, token: &Token) -> Result<(), Diag> {
    match token.str() {
        // nginx's word before 0.8.21, which old configurations have.
        "default_server" | "default" => spec.default_server = true,
        "proxy_protocol" => spec.prefix.proxy_protocol = true,
        "ssl" => spec.prefix.tls = true,
        "http2" => {
            let text =
                "the \"listen ... http2\" directive is deprecated, use the \"http2\" directive instead";
            cx.warn(Diag::warn(token.span, text));
            spec.prefix.http2 = true;
        }
        "quic" => spec.prefix.quic = true,
        text if text.starts_with("setfib=") || text.starts_with("accept_filter=") => {
            let key = text.split('=').next().unwrap_or_default();
            let text = format!("the \"{key}\" parameter has no effect here: Linux does not have it");
            cx.warn(Diag::notice(token.span, text));
        }
        _ if socket_parameter(&spec.address, &mut spec.options, token)? => {
            // For nginx's warning about contradictions below, which counts only what was written.
            spec.explicit = true;
            // Options of a socket need one of its own: a wildcard's socket cannot have them for one address
            // alone.
            spec.bind = true;
        }
        // A common mistake: two ports in one `listen`.
        port if port.parse::<u16>().is_ok() => return Err(second_port(token)),
        _ => return Err(invalid_parameter(token)),
    }
    Ok(())
}

/// Takes a parameter that concerns the socket; false if it is about something else.
/// Shared with `stream`, whose sockets take the same words.
pub fn socket_parameter(address: &Address, options: &mut Options, token: &Token) -> Result<bool, Diag> {
    let text = token.str();
    let (key, value) = text.split_once('=').map_or((text, None), |(k, v)| (k, Some(v)));
    let bad = || invalid_parameter(token);
    let sized = |value: Option<&str>| {
        // Through the same parser as directives, so that `k` and `m` mean the same.
        let token = Token { value: value.unwrap_or_default().as_bytes().into(), ..token.clone() };
        value::size(&token).map_err(|_| bad())
    };
    match (key, value) {
        // Nothing to be set: that it was said gives the address a socket of its own.
        ("bind", None) => {}
        ("backlog", Some(n)) => options.backlog = n.parse().ok().filter(|&n| n != 0).ok_or_else(bad)?,
        ("rcvbuf", value) => options.rcvbuf = Some(sized(value)? as usize),
        ("sndbuf", value) => options.sndbuf = Some(sized(value)? as usize),
        ("deferred", None) => options.deferred = true,
        ("reuseport", None) => options.reuseport = true,
        ("fastopen", Some(n)) => options.fastopen = Some(n.parse().map_err(|_| bad())?),
        ("ipv6only", Some(value)) => {
            if !matches!(address, Address::Ip(SocketAddr::V6(_))) {
                return Err(Diag::emerg(
                    token.span,
                    format!("ipv6only is not supported on addr \"{}\"", shown(address)),
                ));
            }
            // On by default, so that `[::]:80` and `*:80` are two sockets whatever the system's setting (net.ipv6.bindv6only).
            options.ipv6only = match value {
                "on" => true,
                "off" => false,
                _ => return Err(Diag::emerg(token.span, format!("invalid ipv6only flags \"{value}\""))),
            };
        }
        ("so_keepalive", Some(value)) => options.keepalive = Some(keepalive(value).ok_or_else(bad)?),
        ("multipath", None) => options.multipath = true,
        _ => return Ok(false),
    }
    Ok(true)
}

/// `listen 80 443`.
fn second_port(token: &Token) -> Diag {
    let help = format!("a listen names one address: write \"listen {};\" beside it", token.text());
    invalid_parameter(token).help(help)
}

/// `on`, `off` or `idle:interval:count`, each part optional.
/// Each part may be left out: the kernel's value is kept then.
fn keepalive(text: &str) -> Option<KeepAlive> {
    match text {
        "on" => return Some(KeepAlive::On { idle: None, interval: None, count: None }),
        "off" => return Some(KeepAlive::Off),
        _ => {}
    }
    let parts: Vec<&str> = text.split(':').collect();
    let [idle, interval, count] = parts.as_slice() else { return None };
    let time = |text: &str| match text {
        "" => Some(None),
        text => {
            value::parse_time(text.as_bytes(), true).filter(|&n| n > 0).map(|n| Some(Duration::from_secs(n)))
        }
    };
    let count = if count.is_empty() { None } else { Some(count.parse().ok().filter(|&n| n > 0)?) };
    let (idle, interval) = (time(idle)?, time(interval)?);
    // `::` says nothing; nginx refuses it, too.
    if idle.is_none() && interval.is_none() && count.is_none() {
        return None;
    }
    Some(KeepAlive::On { idle, interval, count })
}

/// All addresses that the first parameter means: a port range is several, a name may have several.
pub fn addresses(cx: &Cx<'_, '_>, token: &Token) -> Result<Vec<Address>, Diag> {
    let text = token.str();
    let fail = |why: &str| {
        Err(Diag::emerg(token.span, format!("{why} in \"{text}\" of the \"listen\" directive"))
            .help("write PORT, ADDRESS:PORT, [IPV6]:PORT or unix:/PATH"))
    };
    if let Some(path) = text.strip_prefix("unix:") {
        // sockaddr_un holds 108 bytes with the NUL.
        if path.is_empty() || path.len() > 107 {
            return fail(if path.is_empty() { "no path" } else { "too long path" });
        }
        return Ok(vec![Address::Unix(PathBuf::from(path))]);
    }
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let Some((host, tail)) = rest.split_once(']') else { return fail("invalid host") };
        (Some(host), tail.strip_prefix(':'))
    } else if let Some((host, port)) = text.rsplit_once(':') {
        (Some(host), Some(port))
    // Digits alone are a port, or a range of them: an address has a dot, a colon or letters.
    } else if text.bytes().all(|b| b.is_ascii_digit() || b == b'-') && !text.is_empty() {
        (None, Some(text))
    } else {
        (Some(text), None)
    };
    let ports = match port {
        // Also without root's rights: only a server that names no address gets another port.
        None => 80..=80,
        Some(port) => match port_range(port) {
            Some(range) => range,
            None => return fail("invalid port"),
        },
    };
    let ips: Vec<IpAddr> = match host {
        None | Some("*") => vec![Ipv4Addr::UNSPECIFIED.into()],
        Some("") => return fail("no host"),
        Some(host) => match host.parse::<IpAddr>() {
            Ok(ip) => vec![ip],
            Err(_) if text.starts_with('[') => match host.parse::<Ipv6Addr>() {
                Ok(ip) => vec![ip.into()],
                Err(_) => return fail("invalid host"),
            },
            // Looked up once: a socket cannot follow a name.
            // At the start, in the process that reads the configuration: a slow name server delays nobody's
            // request.
            Err(_) => match cx.global.loader.addresses(host) {
                Ok(found) => found,
                Err(_) => return fail("host not found"),
            },
        },
    };
    let mut out = Vec::new();
    for ip in ips {
        out.extend(ports.clone().map(|port| Address::Ip((ip, port).into())));
    }
    // A name may have the same address twice.
    out.dedup();
    Ok(out)
}

fn port_range(text: &str) -> Option<std::ops::RangeInclusive<u16>> {
    let one = |text: &str| text.parse::<u16>().ok().filter(|&p| p > 0);
    match text.split_once('-') {
        None => one(text).map(|p| p..=p),
        Some((from, to)) => {
            let (from, to) = (one(from)?, one(to)?);
            (from <= to).then_some(from..=to)
        }
    }
}

/// One address with all who share it, while it is put together.
/// Its servers share one socket, so they must agree on the socket's options and on what comes first on it.
struct Group {
    specs: Vec<usize>,
    bind: bool,
}

/// Turns all `listen`s into sockets: one per address, except that a wildcard covers the addresses of its port.
/// QUIC has a socket for each of so many `threads`.
pub fn resolve(global: &mut Global<'_>, threads: usize) -> (Vec<Socket>, Vec<Listen>) {
    // Ordered: sockets have the same order in master and worker, which match them with descriptors by it.
    let mut groups: BTreeMap<Address, Group> = BTreeMap::new();
    for (index, spec) in global.listens.iter().enumerate() {
        let group =
            groups.entry(spec.address.clone()).or_insert_with(|| Group { specs: Vec::new(), bind: false });
        group.specs.push(index);
        // One `listen` with options is enough: the address needs a socket of its own.
        group.bind |= spec.bind;
    }
    if global.listens.iter().any(|listen| listen.prefix.quic) {
        // Before a thread runs: the secret of tokens and resets must be one for all.
        crate::quic::prepare();
    }
    let (mut sockets, mut out) = (Vec::new(), Vec::new());
    let addresses: Vec<Address> = groups.keys().cloned().collect();
    for address in &addresses {
        let group = &groups[address];
        if covered(address, group, &groups) {
            // One socket fewer: the kernel tells at accept which address the client meant.
            continue;
        }
        let (socket, mut listen) = listen_of(global, address, &group.specs);
        for other in &addresses {
            let inner = &groups[other];
            if other != address && address.covers(other) && !inner.bind {
                let (_, made) = listen_of(global, other, &inner.specs);
                let Listen { address, prefix, names, default_server, .. } = made;
                // Chosen after accept by the connection's own address: the servers of the narrow address, as if it had a socket.
                listen.by_local.push(LocalListen { address, prefix, names, default_server });
            }
        }
        match socket.address {
            Address::Quic(ip, _) => {
                let places = 0..=(threads.clamp(1, THREADS_MAX) - 1) as u8;
                // A thread reads its own socket, so packets need no lock. The kernel chooses by the
                // connection ID, which names the thread.
                sockets.extend(
                    places.map(|place| Socket { address: Address::Quic(ip, place), ..socket.clone() }),
                );
            }
            _ => sockets.push(socket),
        }
        out.push(listen);
    }
    (sockets, out)
}

/// Not where options were given: they would be those of the wildcard's socket.
fn covered(address: &Address, group: &Group, groups: &BTreeMap<Address, Group>) -> bool {
    !group.bind && groups.keys().any(|wide| wide != address && wide.covers(address))
}

/// Follows the protocols that the `listen`s of one address name, for nginx's warning about contradictions: they may
/// be named in one of them, or in all.
/// Kept to nginx's rules to the letter: a warning that nginx does not give would make a file look broken that
/// is not.
#[derive(Default)]
struct Protocols {
    /// What the ones so far name together; `None` before the first.
    all: Option<Prefix>,
    /// Socket options were given in one of them.
    explicit: bool,
    /// What the next one is expected to name.
    expected: Option<Prefix>,
    changed: bool,
}

impl Protocols {
    /// Takes the next `listen`; true if it contradicts the ones before.
    fn add(&mut self, prefix: Prefix, explicit: bool) -> bool {
        self.explicit |= explicit;
        let Some(before) = self.all else {
            self.all = Some(prefix);
            return false;
        };
        let all = before.or(prefix);
        self.all = Some(all);
        let is_unexpected = self.expected.is_some_and(|expected| expected != prefix);
        if all != before {
            let warn = (self.explicit && !explicit) || self.changed || all != prefix;
            self.expected = Some(before);
            self.changed = true;
            return warn;
        }
        self.expected = Some(prefix);
        if all != prefix {
            self.changed = true;
            return explicit || is_unexpected;
        }
        (explicit && self.changed) || is_unexpected
    }
}

/// Every server of a TLS address that a handshake can lead to needs a certificate, as nginx has it: the default one, which
/// stands in for the others — unless it only refuses.
/// Found at the start and not by the first visitor, whose handshake would fail.
fn check_certificates(global: &mut Global<'_>, specs: &[usize], default: ServerId) {
    let rules = |server: ServerId| global.servers[server.0 as usize].tls.as_deref();
    let has_own = |server| rules(server).is_some_and(|rules| rules.context.is_some());
    let rejects = |server| rules(server).is_some_and(|rules| rules.reject);
    let lacks = |index: &&usize| {
        let server = global.listens[**index].server;
        // Its certificate was refused already; one error is enough.
        if global.failed_tls.contains(&server) {
            return false;
        }
        // A default server that rejects handshakes stands in for nobody, so each of the others needs its own.
        match (server == default, rejects(default)) {
            (true, rejects) => !rejects && !has_own(default),
            (false, true) => !has_own(server) && !rejects(server),
            (false, false) => false,
        }
    };
    if let Some(&index) = specs.iter().find(lacks) {
        let what = if global.listens[index].prefix.quic { "quic" } else { "ssl" };
        let text = format!("no \"ssl_certificate\" is defined for the \"listen ... {what}\" directive");
        let diag = Diag::emerg(global.listens[index].span, text)
            .help("add ssl_certificate and ssl_certificate_key to the server");
        global.diags.push(diag);
    }
}

fn listen_of(global: &mut Global<'_>, address: &Address, specs: &[usize]) -> (Socket, Listen) {
    let mut names = NameTable::default();
    let mut default_server = None;
    let mut options: Option<Options> = None;
    let mut protocols = Protocols::default();
    for &index in specs {
        let spec = &global.listens[index];
        if protocols.add(spec.prefix, spec.explicit) {
            let text = format!("protocol options redefined for {}", shown(address));
            global.diags.push(Diag::warn(spec.span, text).help("name them in all listens of an address"));
        }
        if spec.explicit {
            if options.is_some() {
                global.diags.push(
                    Diag::emerg(spec.span, format!("duplicate listen options for {}", shown(address)))
                        .help("give socket options in one listen of an address only"),
                );
            }
            options = Some(spec.options.clone());
        }
        if spec.default_server && default_server.replace(spec.server).is_some() {
            // Two defaults are a contradiction that only the author can resolve: which one answers decides
            // where cookies go.
            global.diags.push(
                Diag::emerg(spec.span, format!("a duplicate default server for {}", shown(address)))
                    .help("one server is the default of an address"),
            );
        }
        for name in &global.names[spec.server.0 as usize] {
            // No error, as in nginx: the first server keeps the name, and the other one answers for its further names.
            if !names.add(name, spec.server) {
                global.diags.push(
                    Diag::warn(
                        spec.span,
                        format!("conflicting server name \"{}\" on {}, ignored", name, shown(address)),
                    )
                    .bare(),
                );
            }
        }
    }
    // The first one of the file, as in nginx.
    let default_server = default_server.unwrap_or(global.listens[specs[0]].server);
    if protocols.all.is_some_and(|prefix| prefix.tls || prefix.quic) {
        check_certificates(global, specs, default_server);
    }
    let socket = Socket {
        address: address.clone(),
        options: options.unwrap_or_default(),
        span: global.listens[specs[0]].span,
    };
    let listen = Listen {
        address: address.clone(),
        prefix: protocols.all.unwrap_or_default(),
        names,
        default_server,
        by_local: Vec::new(),
    };
    (socket, listen)
}
