//! One request to back ends: peers are asked until one gives its response, or no other is to be asked.
//!
//! [`Fetch`] polls one [`Attempt`] after the other; what follows from an attempt is decided in [`retry`].

use crate::answer;
use crate::attempt::{Attempt, Ended, Step};
use crate::backend::Backend;
use crate::conf::{Settings, next};
use crate::connect;
use crate::engine::Engine;
use crate::exchange::{Exchange, Limits, READ_BYTES};
use crate::head::BackendHead;
use crate::link::Link;
use crate::origin::{Ask, Fetched};
use crate::payload::Payload;
use crate::peer::{ChosenPeer, Ended as EndedPeer};
use crate::pool::Key;
use crate::protocol::{BodyShape, Peers, Protocol, Target};
use crate::resolve;
use crate::retry::{self, Case};
use crate::state::State;
use crate::tls::Tls;
use brisk_balance::{Endpoint, Outcome, Selection};
use brisk_http::HeaderId;
use brisk_net::{Failure, Retry, Scope, clock};
use brisk_server::flow::{Flow, Pending};
use brisk_server::request::Request;
use brisk_server::text::Text;
use brisk_server::{dlog, failure, rlog};
use std::future::poll_fn;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// What is asked, for all attempts.
pub(crate) struct UpstreamRequest<P: Protocol> {
    pub engine: Arc<Engine<P>>,
    pub tls: Option<Tls>,
    pub state: Rc<State>,
    ask: Ask,
    way: P::Way,
    payload: Payload,
    shape: BodyShape,
    started_ms: u64,
}

/// A request with its present attempt.
pub(crate) struct Fetch<P: Protocol> {
    request: UpstreamRequest<P>,
    attempt: Attempt,
}

/// What an attempt means for the request.
enum Verdict {
    /// Another one begins.
    Again(Attempt),
    Done(Result<Fetched, Failure>),
}

impl<P: Protocol> Fetch<P> {
    /// Begins; `payload` is the request's body. The error has been logged.
    pub fn begin(
        engine: Arc<Engine<P>>,
        r: &mut Request,
        ask: Ask,
        mut payload: Payload,
    ) -> Result<Box<Fetch<P>>, Failure> {
        let shape = payload.shape(r);
        if let Payload::Client(body, _) = &mut payload {
            *body = Some(r.lend_body());
        }
        let Target { peers, tls, way, scheme, uri } = engine.protocol.target(r, &ask).map_err(decided)?;
        let state = State::begin(r, scheme, uri);
        let started_ms = clock::mono_ms();
        let request = UpstreamRequest { engine, tls, state, ask, way, payload, shape, started_ms };
        let attempt = match peers {
            Peers::Group(group) => request.choosing(r, group),
            Peers::Host { host, port } => resolve::begin(&request, r, &host, port),
        };
        Ok(Box::new(Fetch { request, attempt }))
    }

    /// Goes on until there is a response, or the reason why there is none, which was logged then.
    pub fn poll(&mut self, r: &mut Request, cx: &mut Context<'_>) -> Poll<Result<Fetched, Failure>> {
        loop {
            let attempt = std::mem::replace(&mut self.attempt, Attempt::Over);
            let ended = match attempt.step(&mut self.request, r, cx) {
                Step::On(next) => {
                    self.attempt = next;
                    continue;
                }
                Step::Wait(same) => {
                    self.attempt = same;
                    return Poll::Pending;
                }
                Step::Ended(ended) => ended,
            };
            match self.request.judge(r, ended) {
                Verdict::Again(attempt) => self.attempt = attempt,
                Verdict::Done(result) => return Poll::Ready(result),
            }
        }
    }
}

/// For the driver of a client's connection.
impl<P: Protocol> Pending for Fetch<P> {
    fn poll(&mut self, r: &mut Request, cx: &mut Context<'_>) -> Poll<Flow> {
        let result = ready!(Fetch::poll(self, r, cx));
        Poll::Ready(self.request.engine.conclude(r, result))
    }
}

/// Reads the request's body as far as that must be done first, then asks. The error has been logged.
pub(crate) async fn fetch<P: Protocol>(
    engine: Arc<Engine<P>>,
    r: &mut Request,
    ask: Ask,
) -> Result<Fetched, Failure> {
    let payload = Payload::of(&engine, r).await?;
    let mut fetch = Fetch::begin(engine, r, ask, payload)?;
    poll_fn(|cx| fetch.poll(r, cx)).await
}

/// What a module's decision means for a request that was to be asked. The module has logged its reason.
fn decided(flow: Flow) -> Failure {
    match flow {
        Flow::Status(status) => Failure::decided(status),
        _ => Failure::decided(499).scope_is(Scope::Connection),
    }
}

impl<P: Protocol> UpstreamRequest<P> {
    pub fn settings(&self) -> &Settings {
        self.engine.protocol.settings()
    }

    /// The first attempt at a group of peers.
    pub fn choosing(&self, r: &Request, group: Arc<dyn Backend>) -> Attempt {
        let mut selection = group.selection(r);
        let tries = self.settings().next_upstream_tries;
        if tries > 0 {
            selection.limit_tries(tries.min(u64::from(u32::MAX)) as u32);
        }
        Attempt::Choosing(group, selection)
    }

    /// What becomes of the request after an attempt.
    fn judge(&self, r: &mut Request, ended: Ended) -> Verdict {
        match ended {
            Ended::Answered(mut exchange, head) => {
                let head = Arc::new(head);
                self.state.set_head(head.clone());
                if let Some((group, selection)) = self.next_for_status(r, &mut exchange, head.status) {
                    return Verdict::Again(Attempt::Choosing(group, selection));
                }
                if let Some(lease) = exchange.peer.lease() {
                    exchange.peer.group.answered(r, lease, &head);
                }
                Verdict::Done(Ok(answer::of(self, r, exchange, head)))
            }
            Ended::Failed { peer, is_reused, failure } => {
                failure::report(&failure, r);
                match peer.and_then(|peer| self.next_for_failure(r, peer, is_reused, &failure)) {
                    Some((group, selection)) => Verdict::Again(Attempt::Choosing(group, selection)),
                    None => Verdict::Done(Err(failure)),
                }
            }
        }
    }

    /// Where the next attempt goes on after one without a response, if there is to be one.
    fn next_for_failure(
        &self,
        r: &Request,
        mut peer: Box<ChosenPeer>,
        is_reused: bool,
        failure: &Failure,
    ) -> Option<(Arc<dyn Backend>, Selection)> {
        let condition = retry::condition(failure).filter(|_| failure.retry() != Retry::Never)?;
        self.state.note(|attempt| attempt.status = failure::status(failure));
        let EndedPeer { mut selection, is_disabled } = peer.finish(Outcome::Failed)?;
        if is_disabled {
            rlog!(r, Warn, "upstream server temporarily disabled while connecting to upstream");
        }
        if is_reused && condition == next::ERROR {
            selection.add_try();
        }
        let tries = selection.tries();
        let goes_on = self.may_retry(r, &selection, tries, condition, failure.retry());
        goes_on.then(|| {
            dlog!(r, "http next upstream, {}", next::word(condition));
            (peer.group.clone(), selection)
        })
    }

    /// The same after a response, if its status sends the request to another peer.
    fn next_for_status(
        &self,
        r: &Request,
        exchange: &mut Exchange,
        status: u16,
    ) -> Option<(Arc<dyn Backend>, Selection)> {
        let condition = next::of_status(status)?;
        let selection = exchange.peer.selection()?;
        // The present attempt is still one of those that are left.
        let tries = selection.tries().saturating_sub(1);
        if !self.may_retry(r, selection, tries, condition, Retry::IfIdempotent) {
            return None;
        }
        let ended = exchange.peer.finish(retry::outcome_of_status(status))?;
        if ended.is_disabled {
            rlog!(
                r,
                Warn,
                "upstream server temporarily disabled while reading response header from upstream"
            );
        }
        dlog!(r, "http next upstream, {}", next::word(condition));
        Some((exchange.peer.group.clone(), ended.selection))
    }

    /// Whether another peer may be asked; `tries` are left. Takes from the group's budget for retries.
    fn may_retry(
        &self,
        r: &Request,
        selection: &Selection,
        tries: u32,
        condition: u32,
        retry: Retry,
    ) -> bool {
        let now_ms = clock::mono_ms();
        let case = Case {
            condition,
            retry,
            is_idempotent: retry::is_idempotent(r.sent_method(), r.sent_method_name()),
            is_body_spent: self.payload.is_spent(),
            tries,
            elapsed_ms: now_ms.saturating_sub(self.started_ms),
        };
        retry::is_allowed(self.settings(), &case) && selection.group().may_retry(now_ms)
    }

    /// Makes the request for a connection. The peer comes back with a failure.
    pub fn exchange(
        &mut self,
        r: &Request,
        peer: Box<ChosenPeer>,
        link: Box<Link>,
    ) -> Result<Box<Exchange>, (Box<ChosenPeer>, Failure)> {
        let elapsed = peer.elapsed_ms();
        self.state.note(|attempt| attempt.connect_ms = Some(elapsed));
        dlog!(r, "http upstream send request");
        let codec = match self.engine.protocol.codec(r, &self.way, &self.ask, self.shape) {
            // A value in it could not be found out.
            Ok(_) if r.vars.have_failed() => return Err((peer, Failure::decided(500))),
            Ok(codec) => codec,
            Err(flow) => return Err((peer, decided(flow))),
        };
        let settings = self.settings();
        let head_bytes_max = settings.buffer_size as usize;
        let limits = Limits {
            head_bytes_max,
            // A rate may follow from the head, and counts from there on.
            read_bytes_max: if settings.limit_rate.is_none() { READ_BYTES } else { head_bytes_max },
            read_timeout: settings.read_timeout,
            send_timeout: settings.send_timeout,
        };
        let exchange = Exchange::new(peer, link, codec, self.payload.source(), limits);
        r.also_holds(exchange.unsent());
        Ok(Box::new(exchange))
    }

    /// What a connection must be like.
    pub fn key(&self, r: &Request, peer: &ChosenPeer) -> Key {
        let endpoint = peer.info().map(|peer| peer.endpoint.clone());
        Key {
            group: peer.group.id(),
            // An attempt has a place at its peer until it ends.
            endpoint: endpoint.unwrap_or_else(|| Endpoint::Unix(PathBuf::new())),
            location: if peer.keepalive.local { self.engine.id } else { 0 },
            bind: connect::bind_of(self.settings(), r),
            tls: self.tls.as_ref().map_or(0, |tls| tls.id),
            dialect: self.engine.protocol.dialect(),
        }
    }

    /// Whether the request ends when the client goes: nobody else wants its response.
    pub fn watches_client(&self) -> bool {
        !self.ask.cacheable
            && !self.settings().ignore_client_abort
            && matches!(self.settings().store, crate::conf::Store::Off)
    }

    /// Whether the request's body is passed on as the client sends it.
    pub fn is_body_streamed(&self) -> bool {
        self.payload.is_unbuffered()
    }

    /// Passes a `103` on; other interim answers are between the back end and us.
    pub fn pass_hints(&self, r: &mut Request, head: &BackendHead, bytes: &mut u64) {
        if head.status != 103 {
            return;
        }
        *bytes += head.len() as u64;
        if *bytes > self.settings().buffer_size {
            rlog!(r, Info, "upstream sent too big early hints while reading response header from upstream");
            return;
        }
        let passes = |name: &[u8]| {
            !self.settings().hides(name)
                && !is_hop_by_hop(HeaderId::from_name(name))
                && !head.is_for_next_hop(name)
        };
        let fields: Vec<(Text, Text)> = head
            .fields()
            .filter(|field| passes(field.name))
            .map(|field| (field.name.to_vec().into(), field.value.to_vec().into()))
            .collect();
        r.send_early_hints(&fields);
    }
}

/// Fields about a single connection (RFC 9110 §7.6.1).
pub(crate) fn is_hop_by_hop(id: HeaderId) -> bool {
    matches!(
        id,
        HeaderId::Connection
            | HeaderId::KeepAlive
            | HeaderId::TransferEncoding
            | HeaderId::Upgrade
            | HeaderId::Te
            | HeaderId::Trailer
            | HeaderId::ProxyConnection
            | HeaderId::ContentLength
    )
}
