//! A location that passes requests on: the engine with a module's [`Protocol`] in it.

use crate::backend::{Backend, Transient};
use crate::head::BackendHead;
use crate::origin::{Ask, FailKind, Failed, FetchFuture, Origin};
use crate::protocol::{Peers, Protocol};
use crate::state::State;
use crate::{fetch, respond};
use brisk_balance::Endpoint;
use brisk_server::core::LogLevel;
use brisk_server::flow::Flow;
use brisk_server::log::Witness;
use brisk_server::request::Request;
use brisk_server::response::Body;
use brisk_server::rlog;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Numbers of locations.
static IDS: AtomicUsize = AtomicUsize::new(1);

/// See the module's head.
pub struct Engine<P> {
    pub protocol: P,
    /// For connections that belong to one location.
    pub(crate) id: usize,
}

impl<P: Protocol> Engine<P> {
    pub fn new(protocol: P) -> Engine<P> {
        Engine { protocol, id: IDS.fetch_add(1, Ordering::Relaxed) }
    }

    /// The content handler of a location without a cache.
    pub fn handle(self: &Arc<Self>) -> Flow {
        let engine = self.clone();
        Flow::Wait(Box::new(move |r| Box::pin(async move { engine.serve(r).await })))
    }

    async fn serve(&self, r: &mut Request) -> Flow {
        match fetch::fetch(self, r, &Ask::default()).await {
            Ok(fetched) => {
                let stored = crate::store::wrap(self.protocol.settings(), r, fetched);
                r.resp.tunnel = stored.tunnel;
                r.resp.is_judged = true;
                respond::respond(&self.protocol, r, &stored.head, stored.length, stored.body)
            }
            Err(failed) => failed.flow(),
        }
    }

    /// The servers that are asked.
    pub(crate) async fn group(
        &self,
        r: &mut Request,
        peers: Peers,
        state: &State,
    ) -> Result<Arc<dyn Backend>, Failed> {
        let (host, port) = match peers {
            Peers::Group(group) => return Ok(group),
            Peers::Host { host, port } => (host, port),
        };
        if let Some(path) = host.strip_prefix("unix:") {
            return Ok(Arc::new(Transient::new(&host, vec![Endpoint::Unix(path.into())])));
        }
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&host);
        if let Ok(ip) = bare.parse::<IpAddr>() {
            let endpoint = Endpoint::Ip(SocketAddr::new(ip, port));
            return Ok(Arc::new(Transient::new(&host, vec![endpoint])));
        }
        let fail = || Failed { status: 502, kind: FailKind::Error };
        let (resolver, limit) = (r.core().resolver.clone(), r.core().resolver_timeout);
        let unknown = |state: &State| {
            state.attempt(host.as_str().into());
            state.note(|attempt| {
                attempt.status = 502;
                attempt.response_ms = Some(0);
            });
        };
        let Some(resolver) = resolver else {
            rlog!(r, Error, "no resolver defined to resolve {host}");
            unknown(state);
            return Err(fail());
        };
        let witness = Witness::of(r);
        let log: brisk_resolver::Log = Rc::new(move |text| witness.log(LogLevel::Error, text));
        match resolver.lookup(&host, limit, &log).await {
            Ok(found) => {
                let endpoint = |ip: &IpAddr| Endpoint::Ip(SocketAddr::new(*ip, port));
                let endpoints = found.addresses.iter().map(endpoint).collect();
                Ok(Arc::new(Transient::new(&host, endpoints)))
            }
            Err(error) => {
                rlog!(r, Error, "{host} {error}");
                unknown(state);
                Err(fail())
            }
        }
    }
}

impl Failed {
    /// What a handler returns for it.
    pub fn flow(self) -> Flow {
        match self.kind {
            FailKind::Close => Flow::Close,
            _ => Flow::Status(self.status),
        }
    }
}

impl<P: Protocol> Origin for Engine<P>
where
    P: Send + Sync,
{
    fn fetch<'a>(&'a self, r: &'a mut Request, ask: &'a Ask) -> FetchFuture<'a> {
        Box::pin(fetch::fetch(self, r, ask))
    }

    fn respond(&self, r: &mut Request, head: &Arc<BackendHead>, length: Option<u64>, body: Body) -> Flow {
        respond::respond(&self.protocol, r, head, length, body)
    }

    fn ignored(&self) -> u32 {
        self.protocol.settings().ignore_headers
    }

    fn default_key(&self, r: &Request, out: &mut Vec<u8>) {
        self.protocol.default_key(r, out);
    }
}
