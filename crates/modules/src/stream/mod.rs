//! `ngx_stream_core_module`, `ngx_stream_proxy_module` and their kin: the directives of `stream`. What a session does is in
//! `brisk_stream`, which does not depend on HTTP.

mod listen;
mod metrics;
pub mod part;
mod peer_tls;
mod rows;
mod sockets;
mod split;
#[cfg(test)]
mod tests;

use crate::computed::{taken, variable_name};
use crate::ssl::peer;
use crate::upstream::Upstream;
use brisk_conf::{Context, Diag, Directive};
use brisk_server::conf::{Cx, invalid_parameter};
use brisk_server::core::CoreConf;
use brisk_server::core::server_names;
use brisk_server::metrics::Scrape;
use brisk_server::module::{Beside, Module, ModuleConf};
use brisk_server::server_name::Name;
use brisk_server::vars::{Template, VarId};
use brisk_stream::conf::{Action, Bind, Pass, PeerTls, Preread, Proxy, Server};
use brisk_stream::stats::Stats;
use brisk_upstream::connect::local_address;
use part::part;
use peer_tls::OfSessions;
use sockets::Named;
use split::Splitting;
use std::sync::Arc;
use std::time::Duration;

/// `stream`, its servers and its proxy.
pub static MODULE: Module = Module {
    name: "stream",
    rows: rows::ROWS,
    conf: || Arc::new(Conf::default()),
    metrics: Some(numbers),
    beside: Some(&Beside { part: part::begin, install: brisk_stream::install }),
    ..Module::EMPTY
};

fn numbers(to: &mut Scrape) {
    metrics::metrics(to);
    crate::db::status::metrics(to);
}

#[derive(Clone)]
struct Conf {
    proxy: Proxy,
    proxy_protocol_timeout: Duration,
    preread: Preread,
    ssl_preread: bool,
    proxy_ssl: bool,
    splitting: Splitting,
    /// Of this server alone.
    action: Option<Arc<Action>>,
    /// What it passes to, if that is known now.
    group: Option<Arc<Upstream>>,
    /// The same: its names, and the first one as `$server_name` shows it.
    names: Vec<Name>,
    name: Box<[u8]>,
    sets: Vec<(VarId, Template)>,
}

impl Default for Conf {
    fn default() -> Conf {
        let limit = Duration::from_secs(30);
        Conf {
            proxy: Proxy::default(),
            proxy_protocol_timeout: limit,
            preread: Preread { buffer_bytes: 16 << 10, timeout: limit },
            ssl_preread: false,
            proxy_ssl: false,
            splitting: Splitting::default(),
            action: None,
            group: None,
            names: Vec::new(),
            name: Box::default(),
            sets: Vec::new(),
        }
    }
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

/// `stream { … }`.
fn stream(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    cx.inner(d, Context::STREAM, |_| Ok(()))
}

/// `server { … }`.
fn server(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    cx.inner(d, Context::STREAM_SERVER, |cx| {
        let conf = cx.conf::<Conf>().clone();
        let core = cx.shared::<CoreConf>();
        let logs = crate::log::of_sessions(cx);
        if !part(cx).has_listen() {
            return Err(Diag::emerg(d.span, "no \"listen\" is defined for server in stream")
                .help("say where it listens: listen 127.0.0.1:5432;"));
        }
        // Asked when the block is complete, so that directives may stand in any order.
        let action = conf.action.unwrap_or_else(|| {
            cx.warn(
                Diag::warn(d.span, "no handler for server in stream: it closes its connections")
                    .help("say what it does: proxy_pass ADDRESS:PORT;, return TEXT; or pass ADDRESS:PORT;"),
            );
            Arc::new(Action::Return(Template::default()))
        });
        let action = if conf.splitting.is_on {
            split::action(cx, d, conf.splitting, conf.group.as_ref(), &conf.proxy)?
        } else {
            action
        };
        let error_log = core.error_log.clone();
        let tls = crate::ssl::build::rules(cx)?.map(Arc::new);
        let mut proxy = conf.proxy;
        let peer_tls = conf.proxy_ssl.then(|| peer::build::<{ peer::PROXY }>(cx, false)).transpose()?;
        crate::upstream::complete_check(cx, conf.group.as_ref(), proxy.connect_timeout, peer_tls.as_ref())?;
        proxy.tls = peer_tls.map(|tls| -> Arc<dyn PeerTls> { Arc::new(OfSessions(tls)) });
        // Before access, as in nginx: a client that is refused has been counted.
        let checks = [crate::limit_conn::of_sessions(cx), crate::access::of_sessions(cx)];
        let listen = part(cx).first_listen();
        let stats = Stats::of(&listen, &String::from_utf8_lossy(&conf.name));
        let server = Server {
            stats,
            name: conf.name,
            real_ip: crate::realip::of_sessions(cx),
            sets: conf.sets,
            checks: checks.into_iter().flatten().collect(),
            proxy_protocol_timeout: conf.proxy_protocol_timeout,
            tls,
            preread: conf.ssl_preread.then_some(conf.preread),
            action,
            error_log,
            logs,
            resolver: core.resolver.clone(),
            resolver_timeout: core.resolver_timeout,
            tcp_nodelay: core.tcp_nodelay,
            proxy,
        };
        part(cx).servers.push(Named { server: Arc::new(server), names: conf.names });
        Ok(())
    })
}

/// `proxy_pass`.
fn proxy_pass(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let token = d.arg(0);
    // A text with variables becomes a group or an address at run time; a fixed one is looked up now, so that mistakes are reported now.
    if token.bytes().contains(&b'$') {
        let text = cx.template(token)?;
        return handler(cx, d, Action::Pass(Pass::Text(text)));
    }
    let group = crate::upstream::for_stream(cx, token)?;
    handler(cx, d, Action::Pass(Pass::Group(group.clone())))?;
    cx.conf::<Conf>().group = Some(group);
    Ok(())
}

/// `return`.
fn return_(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let text = cx.template(d.arg(0))?;
    handler(cx, d, Action::Return(text))
}

/// `pass`.
fn pass(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let address = cx.template(d.arg(0))?;
    handler(cx, d, Action::HandOver(address))
}

/// `server_name`.
fn server_name(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    for token in &d.args {
        let found = server_names::names(cx, token)?;
        let first = server_names::first_name(&cx.global.env.hostname, token);
        let conf = cx.conf::<Conf>();
        if conf.names.is_empty() {
            conf.name = first;
        }
        conf.names.extend(found);
    }
    Ok(())
}

/// `set $VARIABLE VALUE`.
fn set(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let token = d.arg(0);
    let name = variable_name(token)?;
    let variable = part(cx).vars.define_assigned(name).ok_or_else(|| taken(token, name))?;
    let value = cx.template(d.arg(1))?;
    part(cx).vars.note_assigned(variable, &value);
    cx.conf::<Conf>().sets.push((variable, value));
    Ok(())
}

/// `proxy_bind ADDRESS [transparent] | off`.
fn proxy_bind(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let transparent = match d.args.get(1) {
        None => false,
        Some(token) if token.bytes() == b"transparent" => true,
        Some(token) => return Err(invalid_parameter(token)),
    };
    if transparent {
        // Workers keep CAP_NET_RAW when they give up root: without it IP_TRANSPARENT is refused.
        cx.uses_raw_sockets();
    }
    let token = d.arg(0);
    let bind = if token.bytes() == b"off" && d.args.len() == 1 {
        None
    } else {
        let address = cx.template(token)?;
        if address.is_literal() && local_address(token.bytes()).is_none() {
            return Err(Diag::emerg(token.span, format!("invalid address \"{}\"", token.text()))
                .help("write an address with or without a port; names are not resolved here"));
        }
        Some(Bind { address, transparent })
    };
    cx.conf::<Conf>().proxy.bind = bind;
    Ok(())
}

/// A server does one thing.
fn handler(cx: &mut Cx<'_, '_>, d: &Directive, action: Action) -> Result<(), Diag> {
    if cx.conf::<Conf>().action.is_some() {
        return Err(Diag::emerg(d.span, format!("\"{}\" directive is duplicate", d.name()))
            .help("a server has one proxy_pass, one return or one pass"));
    }
    cx.conf::<Conf>().action = Some(Arc::new(action));
    Ok(())
}
