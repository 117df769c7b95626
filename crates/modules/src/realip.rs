//! `ngx_http_realip_module`: the client's address, as trusted proxies tell it.
//!
//! Anyone can send the fields: they are believed of listed proxies alone, and the check is of the connection's
//! own address.

use crate::forwarded::{Trust, followed};
use brisk_conf::cidr::{Cidr, Parsed};
use brisk_conf::{Context, Diag, Directive, Risk, Token};
use brisk_http::HeaderId;
use brisk_http::range::write_number;
use brisk_server::conf::{Cx, invalid_parameter};
use brisk_server::connection::Peer;
use brisk_server::directive::directive;
use brisk_server::flow::Flow;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::plan::{Handler, Plan};
use brisk_server::request::{Request, Sender};
use brisk_server::vars::{Variable, VariableGet};
use brisk_stream::conf::RealIp;

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "realip",
    rows: ROWS,
    variables: VARIABLES,
    conf: || Arc::new(Conf::default()),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

static ROWS: &[Row] = &[
    // A security matter: clients of a network that is too wide choose their address, and with it what access rules and limits see.
    directive("set_real_ip_from")
        .doc("A proxy, by address, network or host name (looked up when the configuration is read), or unix:, whose word about the client's address is believed; in stream that of its PROXY header. public: before an address, network or name says that the proxy is not in the own network, and is not believed that a client has a private, loopback or link-local address (RemoteIPTrustedProxy of Apache); of several that match, the first counts. It cannot be said in stream.")
        .in_(Context::HSL.or(crate::stream::part::BLOCKS))
        .takes("ADDRESS | CIDR | NAME | unix: | public:ADDRESS")
        .many()
        .risk(Risk::Security)
        .example("set_real_ip_from 192.0.2.0/24;")
        .set(set_real_ip_from),
    directive("real_ip_header")
        .doc("The header field in which proxies tell the client's address, or proxy_protocol.")
        .in_(Context::HSL)
        .takes("FIELD | X-Real-IP | X-Forwarded-For | proxy_protocol")
        .default("X-Real-IP")
        .risk(Risk::Security)
        .example("real_ip_header X-Forwarded-For;")
        .set(real_ip_header),
    // Off: the last address is what the nearest proxy has added; those before it may be the client's own words.
    directive("real_ip_recursive")
        .doc("Whether addresses of trusted proxies in the field are passed over: the last other one is the client's. Otherwise it is the last.")
        .in_(Context::HSL)
        .takes_flag()
        .default("off")
        .risk(Risk::Security)
        .example("real_ip_recursive on;")
        .sets(|cx, on| cx.conf::<Conf>().recursive = on),
];

static VARIABLES: &[Variable] = &[
    Variable {
        name: "realip_remote_addr",
        get: VariableGet::Fixed(|r, out| {
            out.extend_from_slice(r.peer_text());
            true
        }),
        doc: "The address that the connection comes from, whatever set_real_ip_from makes of it.",
        ..Variable::SILENT
    },
    Variable {
        name: "realip_remote_port",
        get: VariableGet::Fixed(|r, out| {
            if let Peer::Ip(addr) = r.peer() {
                write_number(u64::from(addr.port()), out);
            }
            true
        }),
        doc: "The port that the connection comes from.",
        ..Variable::SILENT
    },
];

/// Where proxies tell the address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Told {
    #[default]
    XRealIp,
    XForwardedFor,
    Field(Arc<[u8]>),
    ProxyProtocol,
}

#[derive(Clone, Default)]
struct Conf {
    /// With what is believed of each; the first that matches counts.
    proxies: Vec<(Cidr, Trust)>,
    trusts_unix: bool,
    told: Told,
    recursive: bool,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

fn set_real_ip_from(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let token = d.arg(0);
    let (trust, address) = trust(cx, token)?;
    let mut found = Vec::new();
    if address != "unix:" {
        match Cidr::parse(address.as_bytes()) {
            Some(Parsed { cidr, is_rough }) => {
                if is_rough {
                    let text = format!("low address bits of {} are meaningless", token.text());
                    cx.warn(Diag::warn(token.span, text));
                }
                found.push(cidr);
            }
            // Looked up once, when the configuration is read: who is trusted must not change with a name
            // server's answers.
            None => found.extend(resolve(cx, address).ok_or_else(|| {
                Diag::emerg(token.span, format!("host not found in set_real_ip_from \"{}\"", token.text()))
                    .help("write an address, a network such as 10.0.0.0/8, a host name or unix:")
            })?),
        }
    }
    let is_first = cx.first;
    let conf = cx.conf::<Conf>();
    if is_first {
        // A block with proxies of its own trusts these alone.
        (conf.proxies, conf.trusts_unix) = (Vec::new(), false);
    }
    // `unix:` finds no address; names and networks always do, or were refused.
    conf.trusts_unix |= found.is_empty();
    conf.proxies.extend(found.into_iter().map(|proxy| (proxy, trust)));
    Ok(())
}

/// What is believed of the proxy of a line, and its address.
fn trust<'t>(cx: &Cx<'_, '_>, token: &'t Token) -> Result<(Trust, &'t str), Diag> {
    let Some(address) = token.str().strip_prefix("public:") else { return Ok((Trust::Any, token.str())) };
    // Whoever connects to a Unix socket is within.
    if address == "unix:" {
        return Err(invalid_parameter(token));
    }
    // Sessions of `stream` have one proxy, whose word is taken for its connection.
    if crate::stream::part::BLOCKS.has(cx.block) {
        return Err(invalid_parameter(token).help("public: is for http only"));
    }
    Ok((Trust::Public, address))
}

/// The addresses of a host; `None` if there are none.
fn resolve(cx: &Cx<'_, '_>, host: &str) -> Option<Vec<Cidr>> {
    let addresses = cx.global.loader.addresses(host).ok()?;
    Some(addresses.into_iter().map(Cidr::one).collect()).filter(|found: &Vec<Cidr>| !found.is_empty())
}

fn real_ip_header(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    cx.conf::<Conf>().told = match d.arg(0).bytes() {
        // As written, as in nginx: in another case it is a field like any other, found by its name all the
        // same.
        b"X-Real-IP" => Told::XRealIp,
        b"X-Forwarded-For" => Told::XForwardedFor,
        b"proxy_protocol" => Told::ProxyProtocol,
        name => Told::Field(name.into()),
    };
    Ok(())
}

/// Whom the present block of `stream` believes.
pub fn of_sessions(cx: &Cx<'_, '_>) -> Option<RealIp> {
    let conf = cx.conf_of::<Conf>();
    let trusts_any = !conf.proxies.is_empty() || conf.trusts_unix;
    let proxies = || conf.proxies.iter().map(|(proxy, _)| *proxy).collect();
    trusts_any.then(|| RealIp { proxies: proxies(), trusts_unix: conf.trusts_unix })
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf = cx.conf_of::<Conf>();
    if conf.proxies.is_empty() && !conf.trusts_unix {
        return;
    }
    // Not declared: a prepared answer would be logged with the proxy's address.
    let handler = Arc::new(Believes { conf: cx.shared() });
    plan.post_read.push(handler.clone());
    // Again in the location, whose own rules count if those of the server have found nothing.
    plan.preaccess.push(handler);
}

struct Believes {
    conf: Arc<Conf>,
}

/// The address was found, by the server's rules or the location's.
#[derive(Default)]
struct Found(Cell<bool>);

impl Handler for Believes {
    fn handle(&self, r: &mut Request) -> Flow {
        // Once: a header must not be believed because an earlier one has named a trusted address.
        let found = r.state.shared.values.get_or(Found::default);
        if !found.0.get()
            && let Some(addr) = self.client(r)
        {
            found.0.set(true);
            r.set_sender(Sender::new(Peer::Ip(addr)));
        }
        Flow::Next
    }
}

impl Believes {
    fn client(&self, r: &Request) -> Option<SocketAddr> {
        // Of the connection, not of what was told before: only a proxy that is connected may tell of others.
        let trusted = self.trusts(r.peer());
        let trust = |ip| self.trust(ip);
        // RFC 9110 §5.3: several fields are one list; proxies append, so its end is nearest to us. (nginx looks at the first one of X-Real-IP and
        // of other names, which may be the client's.)
        let last = |fields: Vec<&[u8]>| followed(trusted, fields.into_iter(), &trust, self.conf.recursive);
        match &self.conf.told {
            Told::XRealIp => last(r.headers(HeaderId::XRealIp).collect()),
            Told::XForwardedFor => last(r.headers(HeaderId::XForwardedFor).collect()),
            Told::Field(name) => last(r.headers_named(name).map(|value| value as &[u8]).collect()),
            // The header was read before TLS and HTTP, so no request can have written it.
            Told::ProxyProtocol => told_by_proxy_protocol(r)
                .filter(|addr| trusted.is_some_and(|trust| trust.believes(addr.ip()))),
        }
    }

    fn trusts(&self, peer: Peer) -> Option<Trust> {
        match peer {
            Peer::Ip(addr) => self.trust(addr.ip()),
            Peer::Unix => self.conf.trusts_unix.then_some(Trust::Any),
        }
    }

    /// What is believed of a proxy; `None`: it is none.
    fn trust(&self, ip: IpAddr) -> Option<Trust> {
        let found = self.conf.proxies.iter().find(|(proxy, _)| proxy.contains_unmapped(ip));
        found.map(|(_, trust)| *trust)
    }
}

/// The source that the connection's PROXY header names, if it has one.
fn told_by_proxy_protocol(r: &Request) -> Option<SocketAddr> {
    r.proxy_header().map(|header| header.source)
}

#[cfg(test)]
mod tests {
    use crate::check::{accepted, http, messages};

    #[test]
    fn parameters_are_checked() {
        messages("set_real_ip_from 10.0.0.1/8;", &["low address bits of 10.0.0.1/8 are meaningless"]);
        messages("set_real_ip_from public:unix:;", &["invalid parameter \"public:unix:\""]);
        messages("set_real_ip_from public:;", &["host not found in set_real_ip_from \"public:\""]);
        messages("set_real_ip_from a..b;", &["host not found in set_real_ip_from \"a..b\""]);
        accepted(&[
            "set_real_ip_from public:192.0.2.0/24; set_real_ip_from public:2001:db8::1; set_real_ip_from 10.0.0.0/8; set_real_ip_from ::1; set_real_ip_from unix:; real_ip_header X-A; real_ip_recursive on;",
        ]);
    }

    #[test]
    fn only_where_somebody_is_trusted() {
        let text = "real_ip_header X-A; server { location /a { } location /b { set_real_ip_from ::1; } }";
        let counts: Vec<_> = http(text).unwrap().locations.iter().map(|l| l.plan.preaccess.len()).collect();
        assert_eq!(counts, [0, 0, 1]);
    }
}
