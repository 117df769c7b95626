//! A location that passes requests on: the engine with a module's [`Protocol`] in it.

use crate::backend::{Backend, Transient};
use crate::exchange::Exchange;
use crate::fetch::{Begun, Journey, Judged, Next};
use crate::head::BackendHead;
use crate::heading::Heading;
use crate::origin::{Ask, FailKind, Failed, FetchFuture, Fetched, Origin};
use crate::protocol::{Peers, Protocol};
use crate::state::State;
use crate::turn::Turn;
use crate::{fetch, respond};
use brisk_balance::Endpoint;
use brisk_server::core::LogLevel;
use brisk_server::flow::{Flow, Pending};
use brisk_server::log::Witness;
use brisk_server::request::Request;
use brisk_server::response::Body;
use brisk_server::rlog;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

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

    /// The content handler of a location without a cache. A connection that was kept is asked at once, without a future.
    pub fn handle(self: &Arc<Self>, r: &mut Request) -> Flow {
        let begun = match fetch::begin(self, r) {
            Ok(begun) => begun,
            Err(failed) => return failed.flow(),
        };
        let engine = self.clone();
        match begun {
            Begun::Asked(journey, exchange, turn) => {
                let heading = Heading::of(&exchange);
                Flow::Pending(Box::new(Asked { at: Some((journey, exchange, turn)), heading }))
            }
            Begun::Chosen(journey, next) => go_on(journey, next),
            Begun::Named(plan) => Flow::Wait(Box::new(move |r| {
                Box::pin(async move {
                    let result = plan.fetch(r).await;
                    engine.conclude(r, result)
                })
            })),
            Begun::Not => Flow::Wait(Box::new(move |r| {
                Box::pin(async move {
                    let result = fetch::fetch(engine.clone(), r, Ask::default()).await;
                    engine.conclude(r, result)
                })
            })),
        }
    }

    /// The back end's answer, or what became of it, is the response's.
    fn conclude(&self, r: &mut Request, result: Result<Fetched, Failed>) -> Flow {
        match result {
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

/// A request on its way, the exchange that it has got to, and what is told of the server when that is over.
type Underway<P> = (Box<Journey<P>>, Box<Exchange>, Box<Turn>);

/// A server that is being asked, on a connection that was kept.
struct Asked<P: Protocol> {
    at: Option<Underway<P>>,
    heading: Heading,
}

impl<P: Protocol> Pending for Asked<P> {
    fn poll(&mut self, r: &mut Request, cx: &mut Context<'_>) -> Poll<Flow> {
        let Some((journey, exchange, _)) = &mut self.at else { return Poll::Pending };
        let result = ready!(journey.poll_head(r, exchange, &mut self.heading, cx));
        let Some((journey, exchange, turn)) = self.at.take() else { return Poll::Pending };
        let attempted = journey.headed(r, exchange, turn, result);
        Poll::Ready(match journey.judge(r, attempted) {
            Judged::Answer(exchange, turn, head) => {
                let engine = journey.engine.clone();
                let fetched = journey.answer(r, exchange, turn, head);
                engine.conclude(r, Ok(fetched))
            }
            Judged::Again(selection) => go_on(journey, Next::Choose(selection)),
            Judged::Failed(failed) => failed.flow(),
        })
    }
}

/// The rest of a journey needs a future.
fn go_on<P: Protocol>(journey: Box<Journey<P>>, next: Next) -> Flow {
    Flow::Wait(Box::new(move |r| {
        Box::pin(async move {
            let engine = journey.engine.clone();
            let result = journey.run(r, next).await;
            engine.conclude(r, result)
        })
    }))
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
    fn fetch(self: Arc<Self>, r: &mut Request, ask: Ask) -> FetchFuture<'_> {
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
