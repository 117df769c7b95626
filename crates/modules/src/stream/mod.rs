//! `ngx_stream_core_module`, `ngx_stream_proxy_module` and their kin: the directives of `stream`. What a session does is in
//! `brisk_stream`, which knows no HTTP.

mod listen;
pub mod part;
mod rows;
mod sockets;
#[cfg(test)]
mod tests;

use brisk_conf::{Context, Diag, Directive};
use brisk_server::conf::Cx;
use brisk_server::core::CoreConf;
use brisk_server::module::{Beside, Module, ModuleConf};
use brisk_stream::conf::{Action, Pass, Proxy, Server};
use part::part;
use std::sync::Arc;

/// `stream`, its servers and its proxy.
pub static MODULE: Module = Module {
    name: "stream",
    rows: rows::ROWS,
    conf: || Arc::new(Conf::default()),
    beside: Some(&Beside { part: part::begin, install: brisk_stream::install }),
    ..Module::EMPTY
};

#[derive(Clone, Default)]
struct Conf {
    proxy: Proxy,
    /// Of this server alone.
    action: Option<Arc<Action>>,
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
        let Some(action) = conf.action else {
            return Err(Diag::emerg(d.span, "no handler for server in stream")
                .help("say what it does: proxy_pass ADDRESS:PORT; or return TEXT;"));
        };
        let error_log = core.error_log.clone();
        part(cx).servers.push(Arc::new(Server {
            action,
            error_log,
            logs,
            tcp_nodelay: core.tcp_nodelay,
            proxy: conf.proxy,
        }));
        Ok(())
    })
}

/// `proxy_pass`.
fn proxy_pass(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let token = d.arg(0);
    let pass = if token.bytes().contains(&b'$') {
        Pass::Text(cx.template(token)?)
    } else {
        Pass::Group(crate::upstream::for_stream(cx, token)?)
    };
    handler(cx, d, Action::Pass(pass))
}

/// `return`.
fn return_(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let text = cx.template(d.arg(0))?;
    handler(cx, d, Action::Return(text))
}

/// A server does one thing.
fn handler(cx: &mut Cx<'_, '_>, d: &Directive, action: Action) -> Result<(), Diag> {
    if cx.conf::<Conf>().action.is_some() {
        return Err(Diag::emerg(d.span, format!("\"{}\" directive is duplicate", d.name()))
            .help("a server has one proxy_pass or one return"));
    }
    cx.conf::<Conf>().action = Some(Arc::new(action));
    Ok(())
}
