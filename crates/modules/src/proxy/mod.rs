//! `ngx_http_proxy_module`: requests are passed on to HTTP servers.

mod conf;
mod cookie;
pub(crate) mod headers;
mod pass;
mod redirect;
mod request;
mod rows;
#[cfg(test)]
mod tests;
mod vars;

use crate::cache;
use crate::ssl::peer;
use brisk_conf::{Context, Diag};
use brisk_http::Version;
use brisk_server::conf::Cx;
use brisk_server::core::CoreConf;
use brisk_server::module::Module;
use brisk_server::plan::{Declaring, Plan};
use brisk_server::request::Request;
use brisk_upstream::backend::Passes;
use brisk_upstream::engine::Engine;
use conf::Conf;
use headers::Headers;
use pass::Passed;
use redirect::{Redirects, Rewrite};
use request::Http;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "proxy",
    rows: rows::ROWS,
    variables: vars::VARIABLES,
    conf: conf::initial,
    finish: Some(finish),
    install: Some(install),
    metrics: None,
    ..Module::EMPTY
};

fn finish(cx: &mut Cx<'_, '_>) -> Result<(), Diag> {
    // Defaults are set there, outside of any location: there is nothing to be checked together yet.
    if cx.block == Context::MAIN {
        return Ok(());
    }
    let conf = cx.conf_of::<Conf>();
    // In every block and not only where requests are passed on: a mistake in `http` is told once, where it stands.
    conf.settings.check("proxy")?;
    let passes = conf.pass.is_some();
    if conf.pass.as_ref().is_some_and(|pass| pass.may_be_tls()) {
        // Only where back ends may be spoken to over TLS: certificates that are not used need not exist.
        let tls = peer::build::<{ peer::PROXY }>(cx, conf.module.version == Version::Http2)?;
        cx.conf::<Conf>().module.tls = Some(tls);
    }
    if passes {
        let state = cx.places().state.clone();
        let folder = cx.conf_of::<Conf>().settings.temp_path(&state);
        // Made at the start, by the master: workers may not be allowed to make folders.
        cx.keeps_temporary(folder.path.as_ref());
        cx.reads_bodies();
    }
    cache::check(cx, "proxy", passes)?;
    Ok(())
}

/// For health checks, which ask the location's servers on their own.
fn passes(conf: &Conf, fixed: &pass::Fixed) -> Passes {
    Passes {
        group: fixed.group.id(),
        tls: conf.module.tls.as_ref().filter(|_| fixed.url.tls).map(|tls| tls.alone(&fixed.url.host_header)),
        host: fixed.url.host_header.clone().into_bytes(),
        // A check has no request, so only what does not depend on one can be sent.
        headers: conf.module.set_headers.constants(),
        connect_timeout: conf.settings.connect_timeout,
        read_timeout: conf.settings.read_timeout,
        is_http2: conf.module.version == Version::Http2,
    }
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf = cx.shared::<Conf>();
    let Some(pass) = conf.pass.clone() else { return };
    let cache = cache::caching(cx, "proxy");
    let core = cx.conf_of::<CoreConf>();
    // As nginx: `/app` redirects to `/app/` where a back end answers for the latter, since links in its pages are relative to that.
    plan.auto_redirect |= core.location_text.ends_with(b"/") && !core.location_is_regex;
    let redirects = match (&conf.module.redirects, &pass.passed) {
        (Redirects::Off, _) => Arc::default(),
        (Redirects::Rules(rules), _) => rules.clone(),
        (Redirects::Default, Passed::Fixed(url)) => Arc::new(vec![Rewrite::default_of(url, &pass.location)]),
        // What the URL will be is not known, so there is nothing to be replaced by default.
        (Redirects::Default, Passed::Template(_)) => Arc::default(),
    };
    if let Passed::Fixed(fixed) = &pass.passed {
        plan.put(Arc::new(passes(&conf, fixed)));
    }
    // For `$proxy_host` and `$proxy_port`, which look it up in the plan of the present location.
    plan.put(pass.clone());
    let engine = Arc::new(Engine::new(Http {
        headers: Headers::new(&conf.module.set_headers, false),
        // Two sets, compiled once: a request whose answer may be stored must ask for the whole, without the client's conditions.
        cached_headers: Headers::new(&conf.module.set_headers, true),
        redirects,
        pass,
        tls: conf.module.tls.clone(),
        conf,
    }));
    plan.content = Some(match cache {
        Some(cache) => {
            Arc::new(Declaring(cache::DECLARES, move |r: &mut Request| cache.handle(r, engine.clone())))
        }
        None => Arc::new(move |r: &mut Request| engine.handle(r)),
    });
}
