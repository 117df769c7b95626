//! `ngx_http_upstream_module` and the modules of its balancing methods: groups of back ends.
//!
//! An `upstream` block is read into a [`Draft`](draft::Draft) when `http` comes to it; when all of `http`'s own directives are known,
//! drafts become [`Upstream`]s, before any `server` block can name one. State that requests change lives in a
//! [`brisk_balance::Group`].

mod conf;
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

pub use group::{Upstream, new_id};
pub use health::session::complete as complete_check;
pub use implicit::{OfStream, Registry, at_run_time, find, implicit, may_reach_socket};
pub use state::{is_word, place};
pub use stream::for_stream;

use brisk_conf::{Context, Diag};
use brisk_server::conf::Cx;
use brisk_server::module::Module;
use conf::Conf;
use std::sync::Arc;

/// `upstream` blocks and `health_check`.
pub static MODULE: Module = Module {
    name: draft::NAME,
    rows: rows::ROWS,
    variables: brisk_upstream::vars::VARIABLES,
    conf: || Arc::new(Conf::default()),
    finish: Some(finish),
    install: Some(|cx, plan| health::install(cx, plan)),
    metrics: Some(metrics::metrics),
    idle_by_default: true,
    ..Module::EMPTY
};

/// When all of `http` or `stream` is known, its upstreams are made.
fn finish(cx: &mut Cx<'_, '_>) -> Result<(), Diag> {
    if !Context::HTTP.or(Context::STREAM).has(cx.block) || cx.conf_of::<Conf>().drafts.is_empty() {
        return Ok(());
    }
    for draft in std::mem::take(&mut cx.conf::<Conf>().drafts) {
        let name = draft.name.clone();
        match draft.build(cx) {
            Ok(upstream) => {
                cx.global.services.push(upstream.clone());
                if let Some(check) = &upstream.parts.database {
                    let hints = upstream.parts.servers.iter().filter(|server| server.is_primary);
                    let hints = hints.map(|server| server.spec.server.clone()).collect();
                    let group = upstream.clone();
                    cx.global.services.push(Arc::new(crate::db::Rounds {
                        check: check.clone(),
                        group,
                        hints,
                    }));
                }
                if cx.block == Context::STREAM {
                    implicit::registry_of_stream(cx).0.add(&name, None, upstream.clone());
                    crate::stream::part::add_upstream(cx, &name, upstream);
                } else {
                    implicit::registry(cx).add(&name, None, upstream);
                }
            }
            Err(diag) => cx.global.diags.push(diag),
        }
    }
    Ok(())
}
