//! A location that passes requests on: the engine with a module's [`Protocol`] in it.

use crate::backend::{Backend, Transient};
use crate::connect::Dialing;
use crate::exchange::Exchange;
use crate::fetch::{Attempted, Begun, Journey, Judged, Next, Queued, Reached};
use crate::head::BackendHead;
use crate::heading::Heading;
use crate::origin::{Ask, FailKind, Failed, FetchFuture, Fetched, Origin};
use crate::payload::Payload;
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

    /// The content handler of a location without a cache. What needs no more than a plain connection needs no future.
    pub fn handle(self: &Arc<Self>, r: &mut Request) -> Flow {
        let begun = match fetch::begin(self, r) {
            Ok(begun) => begun,
            Err(failed) => return failed.flow(),
        };
        let engine = self.clone();
        match begun {
            Begun::Chosen(journey, Next::Ask(turn)) => {
                Flow::Pending(Box::new(Asked(Some(Stage::Chosen(journey, turn)))))
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
            Err(failed) => failed.respond(r),
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

/// How far a request is that has a server.
enum Stage<P: Protocol> {
    /// Nothing has been done. In its first turn a connection is taken, or made in one go with sending: who is woken by the
    /// one has not gone to sleep again before the other.
    Chosen(Box<Journey<P>>, Box<Turn>),
    Dialing(Box<Journey<P>>, Box<Turn>, Dialing, Queued),
    Underway(Box<Journey<P>>, Box<Exchange>, Box<Turn>, Heading),
}

/// A server that is being asked, without a future.
struct Asked<P: Protocol>(Option<Stage<P>>);

impl<P: Protocol> Pending for Asked<P> {
    fn poll(&mut self, r: &mut Request, cx: &mut Context<'_>) -> Poll<Flow> {
        loop {
            match &mut self.0 {
                None => return Poll::Pending,
                Some(Stage::Underway(journey, exchange, _, heading)) => {
                    let result = ready!(journey.poll_head(r, exchange, heading, cx));
                    let Some(Stage::Underway(journey, exchange, turn, _)) = self.0.take() else { continue };
                    let attempted = journey.headed(r, exchange, turn, result);
                    return Poll::Ready(conclude(journey, r, attempted));
                }
                Some(Stage::Dialing(journey, _, dialing, _)) => {
                    let made = ready!(journey.poll_dialing(r, dialing, cx));
                    let Some(Stage::Dialing(journey, turn, _, queued)) = self.0.take() else { continue };
                    let reached = match made {
                        Ok(link) => Reached::Made(link, queued),
                        Err(none) => Reached::Not(none),
                    };
                    match go(journey, turn, r, reached) {
                        Ok(stage) => self.0 = Some(stage),
                        Err(flow) => return Poll::Ready(flow),
                    }
                }
                Some(Stage::Chosen(..)) => {
                    let Some(Stage::Chosen(journey, turn)) = self.0.take() else { continue };
                    let reached = journey.reach(r, &turn);
                    match go(journey, turn, r, reached) {
                        Ok(stage) => self.0 = Some(stage),
                        Err(flow) => return Poll::Ready(flow),
                    }
                }
            }
        }
    }
}

/// The next stage; the error is what the request ends with.
fn go<P: Protocol>(
    mut journey: Box<Journey<P>>,
    turn: Box<Turn>,
    r: &mut Request,
    reached: Reached,
) -> Result<Stage<P>, Flow> {
    let attempted = match reached {
        Reached::Made(link, queued) => match journey.exchange(r, queued.join(link), &turn) {
            Ok(exchange) => {
                let heading = Heading::of(&exchange);
                return Ok(Stage::Underway(journey, exchange, turn, heading));
            }
            Err(flow) => Attempted::Over(fetch::failed(flow)),
        },
        Reached::Begun(dialing, queued) => return Ok(Stage::Dialing(journey, turn, dialing, queued)),
        Reached::More => return Err(go_on(journey, Next::Ask(turn))),
        Reached::Not(none) => none.of(turn),
    };
    Err(conclude(journey, r, attempted))
}

/// What becomes of a request after an attempt.
fn conclude<P: Protocol>(journey: Box<Journey<P>>, r: &mut Request, attempted: Attempted) -> Flow {
    match journey.judge(r, attempted) {
        Judged::Answer(exchange, turn, head) => {
            let fetched = journey.answer(r, exchange, turn, head);
            journey.engine.conclude(r, Ok(fetched))
        }
        Judged::Again(selection) => go_on(journey, Next::Choose(selection)),
        Judged::Failed(failed) => failed.respond(r),
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

    /// The same for a location without a cache.
    fn respond(self, r: &mut Request) -> Flow {
        let is_intercepted = r.core().error_pages.iter().any(|page| page.codes.contains(&self.status));
        if self.kind != FailKind::UnaskedUpgrade || is_intercepted {
            return self.flow();
        }
        // nginx closes the connection, and its tests (proxy_upgrade.t) count the bytes of a body: there are none.
        r.resp.status = self.status;
        r.resp.content_length = Some(0);
        Flow::Done
    }
}

impl<P: Protocol> Origin for Engine<P>
where
    P: Send + Sync,
{
    fn fetch(self: Arc<Self>, r: &mut Request, ask: Ask) -> FetchFuture<'_> {
        Box::pin(fetch::fetch(self, r, ask))
    }

    fn reads_body_first(&self, r: &Request) -> bool {
        !Payload::can_stream(self, r)
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
