//! `ngx_http_upstream_module` and the modules of its balancing methods: groups of back ends.
//!
//! An `upstream` block is read into a [`Draft`] when `http` comes to it; when all of `http`'s own directives are known,
//! drafts become [`Upstream`]s, before any `server` block can name one. State that requests change lives in a
//! [`brisk_balance::Group`].

mod draft;
mod group;
mod health;
mod implicit;
mod metrics;
mod queue;
mod resolve;
mod rows;
mod server;
mod state;
mod sticky;
mod stream;
#[cfg(test)]
mod tests;
pub mod vars;

pub use group::Upstream;
pub use implicit::{Registry, at_run_time, find, implicit, may_reach_socket};
pub use state::place;
pub use stream::for_stream;

use brisk_conf::{Context, Diag, Directive};
use brisk_server::conf::Cx;
use brisk_server::module::{Module, ModuleConf};
use draft::Draft;
use std::sync::Arc;

const NAME: &str = "upstream";

pub static MODULE: Module = Module {
    name: NAME,
    rows: rows::ROWS,
    variables: brisk_upstream::vars::VARIABLES,
    conf: || Arc::new(Conf::default()),
    finish: Some(finish),
    install: Some(|cx, plan| health::install(cx, plan)),
    metrics: Some(metrics::metrics),
    ..Module::EMPTY
};

/// The blocks read so far; the last one is the one being read.
#[derive(Clone, Default)]
struct Conf {
    drafts: Vec<Draft>,
    /// Of this location alone.
    check: Option<Arc<health::Check>>,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }

    fn must_enter(&self, into: Context) -> bool {
        Context::SERVER.has(into) && !self.drafts.is_empty() || self.check.is_some()
    }

    fn enter(&mut self, _: Context) -> bool {
        self.drafts.clear();
        self.check = None;
        true
    }
}

/// `upstream NAME { … }`: carried out in its place among the simple directives.
fn upstream(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let name = d.arg(0).str().to_string();
    let same = |draft: &Draft| draft.name.eq_ignore_ascii_case(&name);
    if cx.conf::<Conf>().drafts.iter().any(same) {
        return Err(Diag::emerg(d.arg(0).span, format!("duplicate upstream \"{name}\"")));
    }
    cx.conf::<Conf>().drafts.push(Draft::new(name, d.arg(0).span));
    let inner = if cx.block == Context::STREAM { Context::STREAM_UPSTREAM } else { Context::UPSTREAM };
    let outer = std::mem::replace(&mut cx.block, inner);
    cx.block_here(d);
    cx.block = outer;
    let draft = draft(cx);
    if draft.servers.is_empty() && draft.state.is_none() {
        return Err(Diag::emerg(d.span, "no servers are inside upstream").help("write: server ADDRESS;"));
    }
    Ok(())
}

/// The block that is being read.
fn draft<'c>(cx: &'c mut Cx<'_, '_>) -> &'c mut Draft {
    cx.conf::<Conf>().drafts.last_mut().expect("these directives stand in an upstream block")
}

/// When all of `http` or `stream` is known, its upstreams are made.
fn finish(cx: &mut Cx<'_, '_>) -> Result<(), Diag> {
    if !Context::HTTP.or(Context::STREAM).has(cx.block) {
        return Ok(());
    }
    for draft in std::mem::take(&mut cx.conf::<Conf>().drafts) {
        let name = draft.name.clone();
        match draft.build(cx) {
            Ok(upstream) => {
                cx.global.services.push(upstream.clone());
                if cx.block == Context::STREAM {
                    crate::stream::add_upstream(cx, &name, upstream);
                } else {
                    implicit::registry(cx).add(&name, None, upstream);
                }
            }
            Err(diag) => cx.global.diags.push(diag),
        }
    }
    Ok(())
}
