//! Upstreams by the name that a `*_pass` directive gives.

use super::group::{Parts, Upstream};
use super::server::{self, Place, Server};
use brisk_balance::{Endpoint, Method, ServerSpec};
use brisk_conf::{Diag, Token};
use brisk_server::conf::Cx;
use brisk_server::request::Request;
use brisk_upstream::backend::{Backend, Keepalive};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

/// All upstreams of a configuration. It belongs to the snapshot: names may be put together at run time.
#[derive(Default)]
pub struct Registry(RwLock<Entries>);

#[derive(Default)]
struct Entries {
    /// By name in lower case and port; no port: an `upstream` block.
    by_name: HashMap<(String, Option<u16>), Arc<Upstream>>,
    by_id: HashMap<u64, Arc<Upstream>>,
    /// In the order of the configuration.
    blocks: Vec<Arc<Upstream>>,
}

impl Registry {
    fn read(&self) -> RwLockReadGuard<'_, Entries> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, name: &str, port: Option<u16>) -> Option<Arc<Upstream>> {
        self.read().by_name.get(&(name.to_ascii_lowercase(), port)).cloned()
    }

    pub(super) fn add(&self, name: &str, port: Option<u16>, upstream: Arc<Upstream>) {
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if port.is_none() {
            entries.blocks.push(upstream.clone());
        }
        entries.by_id.insert(upstream.id(), upstream.clone());
        entries.by_name.insert((name.to_ascii_lowercase(), port), upstream);
    }

    /// The group with this [`Backend::id`].
    pub(super) fn by_id(&self, id: u64) -> Option<Arc<Upstream>> {
        self.read().by_id.get(&id).cloned()
    }

    /// The `upstream` blocks, in their order.
    pub fn blocks(&self) -> Vec<Arc<Upstream>> {
        self.read().blocks.clone()
    }
}

/// The upstreams of `stream`: those that its `upstream` blocks make.
#[derive(Default)]
pub struct OfStream(pub Registry);

/// The registry of the configuration that is being built.
pub(super) fn registry(cx: &mut Cx<'_, '_>) -> Arc<Registry> {
    kept(cx)
}

/// The same for `stream`.
pub(super) fn registry_of_stream(cx: &mut Cx<'_, '_>) -> Arc<OfStream> {
    kept(cx)
}

fn kept<T: Default + Send + Sync + 'static>(cx: &mut Cx<'_, '_>) -> Arc<T> {
    let have = cx.global.data.iter().find_map(|data| data.clone().downcast::<T>().ok());
    have.unwrap_or_else(|| {
        let new = Arc::<T>::default();
        cx.global.data.push(new.clone());
        new
    })
}

/// The group that a name means which is known only now: an `upstream` block if no port is given, or a place that the
/// configuration names elsewhere. `port` is the one that is meant, given or not.
pub fn at_run_time(r: &Request, host: &str, given: Option<u16>, port: u16) -> Option<Arc<dyn Backend>> {
    let registry = r.snap().data::<Registry>()?;
    let block = if given.is_none() { registry.find(host, None) } else { None };
    block.or_else(|| registry.find(host, Some(port))).map(|upstream| upstream as Arc<dyn Backend>)
}

/// Whether an address that variables have made may be this unix socket: only if the configuration spells it out. A refusal is
/// logged.
pub fn may_reach_socket(r: &Request, path: &str) -> bool {
    let is_spelled = r.snap().vars.has_socket(path.as_bytes());
    if !is_spelled {
        brisk_server::rlog!(
            r,
            Error,
            "variables lead to the unix domain socket \"{path}\", which the configuration does not name"
        );
    }
    is_spelled
}

/// The `upstream` block of this name.
pub fn find(cx: &Cx<'_, '_>, name: &str) -> Option<Arc<dyn Backend>> {
    block(cx, name).map(|upstream| upstream as Arc<dyn Backend>)
}

fn block(cx: &Cx<'_, '_>, name: &str) -> Option<Arc<Upstream>> {
    cx.global.data.iter().find_map(|data| data.downcast_ref::<Registry>())?.find(name, None)
}

/// The group of what stands after the scheme in a `*_pass`: `HOST[:PORT]`, `unix:PATH` (without what follows), or the name
/// of an `upstream` block. All directives that name the same place share one group.
pub fn implicit(
    cx: &mut Cx<'_, '_>,
    token: &Token,
    address: &str,
    default_port: u16,
) -> Result<Arc<dyn Backend>, Diag> {
    let fail = |message: String| Err(Diag::emerg(token.span, message));
    let place = match server::place(address) {
        Ok(place) => place,
        Err(why) => {
            return fail(format!("{why} in upstream \"{}\"", token.text()))
                .map_err(|diag| diag.help("write HOST, HOST:PORT, unix:/PATH or the name of an upstream"));
        }
    };
    if let Place::Name(host, port) = &place
        && let Some(upstream) = block(cx, host)
    {
        return match port {
            None => Ok(upstream),
            Some(port) => fail(format!("upstream \"{host}\" may not have port {port}")).map_err(|diag| {
                diag.help("its servers have ports of their own: leave this one out, or use a host that is no upstream")
            }),
        };
    }
    let (mut spec, mut unknown, port, name) = match place {
        Place::Unix(path) => {
            (ServerSpec::new(address, vec![Endpoint::Unix(path)]), None, 0, address.to_string())
        }
        Place::Ip(ip, port) => {
            let port = port.unwrap_or(default_port);
            let endpoint = Endpoint::Ip(SocketAddr::new(ip, port));
            (ServerSpec::new(address, vec![endpoint]), None, port, ip.to_string())
        }
        Place::Name(host, port) => {
            (ServerSpec::new(address, Vec::new()), Some(host.clone()), port.unwrap_or(default_port), host)
        }
    };
    let registry = registry(cx);
    if let Some(have) = registry.find(&name, Some(port)) {
        return Ok(have);
    }
    cx.global.only_at_start(token, "a group of back ends")?;
    if let Some(host) = &unknown
        && let Some(endpoints) = server::look_up(cx, token, host, port)
    {
        spec.endpoints = endpoints;
        unknown = None;
    }
    let is_unknown = unknown.is_some();
    let upstream = unnamed(address, Server { spec, unknown, port, is_primary: false });
    if is_unknown {
        cx.global.services.push(upstream.clone());
    }
    registry.add(&name, Some(port), upstream.clone());
    Ok(upstream)
}

/// A group of one server that no `upstream` block describes.
pub(super) fn unnamed(address: &str, server: Server) -> Arc<Upstream> {
    Arc::new(Upstream::new(Parts {
        name: address.to_string(),
        // In no zone: no other group can be mistaken for it.
        is_of_stream: false,
        method: Method::RoundRobin,
        servers: vec![server],
        key: None,
        sticky: None,
        keepalive: Keepalive::NONE,
        zone: None,
        queue: None,
        resolver: None,
        resolver_timeout: Duration::ZERO,
        state: None,
        database: None,
    }))
}
