//! The caches of `proxy_pass`, `fastcgi_pass`, `scgi_pass` and `uwsgi_pass`: one implementation under four prefixes.
//!
//! The cache stands before the back end's engine: a `*_pass` module hands its requests to [`Caching::handle`] together with
//! its [`Origin`](brisk_upstream::origin::Origin), and is asked for an answer only if there is none that may be given out.

mod answer;
mod background;
mod caching;
mod conf;
mod fetch;
mod forward;
mod handle;
mod join;
mod key;
mod lookup;
mod metrics;
mod note;
mod path;
mod prefix;
mod purge;
mod purging;
mod rows;
#[cfg(test)]
mod tests;
mod variables;

pub use caching::Caching;
pub use conf::Conf;
pub use purge::by_order;

use brisk_conf::Diag;
use brisk_server::conf::Cx;
use brisk_server::module::Module;
use brisk_server::plan::{Declared, Plan};
use prefix::{FASTCGI, PROXY, SCGI, UWSGI};
use std::sync::Arc;

/// `proxy_cache` and its kin.
pub static PROXY_MODULE: Module = Module {
    name: "proxy_cache",
    rows: rows::PROXY_ROWS,
    variables: variables::VARIABLES,
    conf: || Arc::new(Conf::<PROXY>::default()),
    finish: Some(conf::finish::<PROXY>),
    install: Some(install::<PROXY>),
    // Of all caches, whatever prefix declared them.
    metrics: Some(metrics::metrics),
    idle_by_default: true,
    ..Module::EMPTY
};

/// `fastcgi_cache` and its kin.
pub static FASTCGI_MODULE: Module = Module {
    name: "fastcgi_cache",
    rows: rows::FASTCGI_ROWS,
    conf: || Arc::new(Conf::<FASTCGI>::default()),
    finish: Some(conf::finish::<FASTCGI>),
    install: Some(install::<FASTCGI>),
    idle_by_default: true,
    ..Module::EMPTY
};

/// `scgi_cache` and its kin.
pub static SCGI_MODULE: Module = Module {
    name: "scgi_cache",
    rows: rows::SCGI_ROWS,
    conf: || Arc::new(Conf::<SCGI>::default()),
    finish: Some(conf::finish::<SCGI>),
    install: Some(install::<SCGI>),
    idle_by_default: true,
    ..Module::EMPTY
};

/// `uwsgi_cache` and its kin.
pub static UWSGI_MODULE: Module = Module {
    name: "uwsgi_cache",
    rows: rows::UWSGI_ROWS,
    conf: || Arc::new(Conf::<UWSGI>::default()),
    finish: Some(conf::finish::<UWSGI>),
    install: Some(install::<UWSGI>),
    idle_by_default: true,
    ..Module::EMPTY
};

/// A location that only purges.
fn install<const P: usize>(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let purge = &cx.conf_of::<Conf<P>>().rules.purge;
    // The other forms of `*_cache_purge` are about requests that are passed on.
    if let Some(key) = &purge.key
        && let Some(zone) = path::find(cx, key.zone.str())
    {
        purge::install(key, zone, plan);
    }
}

/// What a handler with a cache declares: what is stored and fresh follows from its key, whose parts record what they read, and
/// from what [`answer`] notes of it. Whatever is asked for is awaited, and noted by that.
pub const DECLARES: Declared = Declared::RECORDED;

/// The cache of a `*_pass` in the block that is being installed.
pub fn caching(cx: &Cx<'_, '_>, prefix: &str) -> Option<Arc<Caching>> {
    match prefix {
        "proxy" => caching_of::<PROXY>(cx),
        "fastcgi" => caching_of::<FASTCGI>(cx),
        "scgi" => caching_of::<SCGI>(cx),
        "uwsgi" => caching_of::<UWSGI>(cx),
        // Other handlers have no cache; they ask nevertheless, so that there is one way for all.
        _ => None,
    }
}

fn caching_of<const P: usize>(cx: &Cx<'_, '_>) -> Option<Arc<Caching>> {
    let rules = &cx.conf_of::<Conf<P>>().rules;
    let zones = rules.zone.resolve(cx)?;
    Some(Arc::new(Caching::new(rules.clone(), zones, P == PROXY)))
}

/// For the `finish` of a `*_pass` module: warns of what concerns both. `passes`: the block passes its requests on.
pub fn check(cx: &mut Cx<'_, '_>, prefix: &str, passes: bool) -> Result<(), Diag> {
    match prefix {
        "proxy" => conf::check::<PROXY>(cx, passes),
        "fastcgi" => conf::check::<FASTCGI>(cx, passes),
        "scgi" => conf::check::<SCGI>(cx, passes),
        "uwsgi" => conf::check::<UWSGI>(cx, passes),
        _ => Ok(()),
    }
}
