//! Upstreams by the name that a `*_pass` directive gives.

use super::NAME;
use super::group::{Parts, Upstream};
use super::server::{self, Place, Server};
use brisk_balance::{Endpoint, Method, ServerSpec};
use brisk_conf::{Diag, Token};
use brisk_server::conf::Cx;
use brisk_upstream::backend::{Backend, Keepalive};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The `upstream` block of this name.
pub fn find(cx: &Cx<'_, '_>, name: &str) -> Option<Arc<dyn Backend>> {
    block(cx, name).map(|upstream| upstream as Arc<dyn Backend>)
}

fn block(cx: &Cx<'_, '_>, name: &str) -> Option<Arc<Upstream>> {
    let found = cx.global.named.get(&(NAME, name.to_ascii_lowercase()))?;
    found.downcast_ref::<Arc<Upstream>>().cloned()
}

/// The group of what stands after the scheme in a `*_pass`: `HOST[:PORT]`, `unix:PATH` (without what follows), or the name
/// of an `upstream` block. All who name the same place share one group.
pub fn implicit(
    cx: &mut Cx<'_, '_>,
    token: &Token,
    address: &str,
    default_port: u16,
) -> Result<Arc<dyn Backend>, Diag> {
    let fail = |message: String| Err(Diag::emerg(token.span, message));
    let place = match server::place(address) {
        Ok(place) => place,
        Err(why) => return fail(format!("{why} in upstream \"{}\"", token.text())),
    };
    if let Place::Name(host, port) = &place
        && let Some(upstream) = block(cx, host)
    {
        return match port {
            None => Ok(upstream),
            Some(port) => fail(format!("upstream \"{host}\" may not have port {port}")),
        };
    }
    let (spec, mut unknown, port) = match place {
        Place::Unix(path) => (ServerSpec::new(address, vec![Endpoint::Unix(path)]), None, 0),
        Place::Ip(ip, port) => {
            let port = port.unwrap_or(default_port);
            let endpoint = Endpoint::Ip(SocketAddr::new(ip, port));
            (ServerSpec::new(address, vec![endpoint]), None, port)
        }
        Place::Name(host, port) => {
            (ServerSpec::new(address, Vec::new()), Some(host), port.unwrap_or(default_port))
        }
    };
    let key = (NAME, format!("{} {port}", address.to_ascii_lowercase()));
    if let Some(have) = cx.global.named.get(&key).and_then(|have| have.downcast_ref::<Arc<Upstream>>()) {
        return Ok(have.clone());
    }
    let mut spec = spec;
    if let Some(host) = &unknown
        && let Some(endpoints) = server::look_up(cx, token, host, port)
    {
        spec.endpoints = endpoints;
        unknown = None;
    }
    let is_unknown = unknown.is_some();
    let upstream = Arc::new(Upstream::new(Parts {
        name: address.to_string(),
        method: Method::RoundRobin,
        servers: vec![Server { spec, unknown, port }],
        key: None,
        sticky: None,
        keepalive: Keepalive::NONE,
        zone: None,
        queue: None,
        resolver: None,
        resolver_timeout: Duration::ZERO,
        state: None,
    }));
    if is_unknown {
        cx.global.services.push(upstream.clone());
    }
    cx.global.named.insert(key, Box::new(upstream.clone()));
    Ok(upstream)
}
