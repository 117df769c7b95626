//! Applications behind FastCGI, SCGI and uwsgi: what the three modules share.

pub mod fastcgi;
mod params;
mod plain;
mod records;
pub mod scgi;
#[cfg(test)]
mod tests;
pub mod uwsgi;

use crate::address::{Address, Schemes};
use crate::cache;
use crate::ssl::peer::PeerTls;
use brisk_conf::{Context, Diag, Directive};
use brisk_server::conf::Cx;
use brisk_server::core::CoreConf;
use brisk_server::flow::Flow;
use brisk_server::module::ModuleConf;
use brisk_server::plan::{Declaring, Plan};
use brisk_server::request::Request;
use brisk_upstream::conf::{PassConf, Settings};
use brisk_upstream::engine::Engine;
use brisk_upstream::protocol::{Protocol, Target};
use params::{List, Param};
use std::rc::Rc;
use std::sync::Arc;

/// Fields of answers that are for the server, not for clients.
/// nginx's list: each is an order to the server.
const HIDDEN: &[&str] = &[
    "Status",
    "X-Accel-Expires",
    "X-Accel-Redirect",
    "X-Accel-Limit-Rate",
    "X-Accel-Buffering",
    "X-Accel-Charset",
];

/// What one of the modules has beside the common settings.
pub trait Own: Clone + Send + Sync + Sized + 'static {
    /// `fastcgi`, `scgi`, `uwsgi`.
    const PREFIX: &'static str;
    /// Where temporary files go by default.
    const TEMP: &'static str;
    /// How messages name it, and what may stand before an address.
    const SCHEMES: Schemes;

    fn new() -> Self;

    /// The application is a pool of this server's: its connections are kept.
    fn keep(&mut self) {}

    /// How back ends are spoken to over TLS, in the present block; for modules that can.
    fn tls(cx: &mut Cx<'_, '_>) -> Result<Option<Arc<PeerTls>>, Diag> {
        let _ = cx;
        Ok(None)
    }
}

/// One `*_pass`.
#[derive(Clone)]
struct Pass {
    address: Address,
    /// `HTTP_HOST`, if no `*_param` sets it.
    host: Arc<Param>,
    /// Of a PHP pool: what is sent if no `*_param` is written.
    pool: Option<Arc<Vec<Arc<Param>>>>,
}

/// One module's configuration in one block.
type Conf<O> = PassConf<Pass, Gateway<O>>;

/// The directives that the modules have in common beside the settings, and each module's own.
#[derive(Clone)]
struct Gateway<O> {
    params: Arc<Vec<Arc<Param>>>,
    /// Made when the block is complete.
    tls: Option<Arc<PeerTls>>,
    own: O,
}

/// Before any directive.
fn initial<O: Own>() -> Arc<dyn ModuleConf> {
    let module = Gateway { params: Arc::default(), tls: None, own: O::new() };
    Arc::new(Conf::new(Settings::new(HIDDEN, O::TEMP), module))
}

/// `*_pass`.
fn pass<O: Own>(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    // The host by its name as it is written, before it is looked up.
    let pass = Pass { host: params::host(cx, d)?, address: Address::parse(cx, d, &O::SCHEMES)?, pool: None };
    cx.conf::<Conf<O>>().pass = Some(pass);
    Ok(())
}

/// `*_param`.
fn param<O: Own>(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let param = params::parse(cx, d)?;
    let is_first = cx.first;
    // Shared until it is changed: most blocks inherit the list.
    let params = Arc::make_mut(&mut cx.conf::<Conf<O>>().module.params);
    if is_first {
        params.clear();
    }
    params.push(param);
    Ok(())
}

/// Checks what several directives say together.
fn finish<O: Own>(cx: &mut Cx<'_, '_>) -> Result<(), Diag> {
    // Nothing passes anything on there.
    if cx.block == Context::MAIN {
        return Ok(());
    }
    let conf = cx.conf_of::<Conf<O>>();
    conf.settings.check(O::PREFIX)?;
    let passes = conf.pass.is_some();
    if conf.pass.as_ref().is_some_and(|pass| pass.address.may_be_tls(&O::SCHEMES)) {
        // Made where it is used: its files are read once.
        let tls = O::tls(cx)?;
        cx.conf::<Conf<O>>().module.tls = tls;
    }
    let conf = cx.conf_of::<Conf<O>>();
    if passes {
        // Made before workers start, for their user.
        let state = cx.places().state.clone();
        let folder = conf.settings.temp_path(&state);
        cx.keeps_temporary(folder.path.as_ref());
        cx.reads_bodies();
    }
    cache::check(cx, O::PREFIX, passes)?;
    Ok(())
}

/// A `*_pass` location.
struct Location<O> {
    settings: Settings,
    params: List,
    address: Address,
    tls: Option<Arc<PeerTls>>,
    own: O,
}

impl<O: Own> Location<O> {
    fn target(&self, r: &Request) -> Result<Target<()>, Flow> {
        let found = self.address.find(r, &O::SCHEMES)?;
        let tls = self.tls.as_ref().filter(|_| found.is_tls);
        let tls = tls.map(|tls| tls.of(r, &found.host, &r.snap().allowed));
        Ok(Target { peers: found.peers, tls, scheme: found.scheme, uri: Rc::default(), way: () })
    }
}

fn install<O: Own>(cx: &Cx<'_, '_>, plan: &mut Plan)
where
    Location<O>: Protocol,
{
    let conf = cx.conf_of::<Conf<O>>();
    let Some(pass) = &conf.pass else { return };
    // One `*_param` replaces all that a pool is sent, as it replaces all that is inherited.
    let own_params = match &pass.pool {
        Some(usual) if conf.module.params.is_empty() => usual,
        _ => &conf.module.params,
    };
    let params = List::new(own_params, &pass.host, conf.settings.pass_request_headers, pass.pool.is_some());
    let mut own = conf.module.own.clone();
    if pass.pool.is_some() {
        own.keep();
    }
    let location = Location {
        settings: conf.settings.clone(),
        params,
        address: pass.address.clone(),
        tls: conf.module.tls.clone(),
        own,
    };
    let engine = Arc::new(Engine::new(location));
    let core = cx.conf_of::<CoreConf>();
    // As with `proxy_pass`: `/app` leads to `/app/`.
    plan.auto_redirect |= core.location_text.ends_with(b"/") && !core.location_is_regex;
    plan.content = Some(match cache::caching(cx, O::PREFIX) {
        Some(cache) => {
            Arc::new(Declaring(cache::DECLARES, move |r: &mut Request| cache.handle(r, engine.clone())))
        }
        None => Arc::new(move |r: &mut Request| engine.handle(r)),
    });
}
