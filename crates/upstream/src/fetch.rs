//! One request to back ends: peers are asked until one gives its response, or no other is to be asked.
//!
//! [`Fetch`] polls one [`Attempt`] after the other; what follows from an attempt is decided in [`retry`].
//!
//! It is the one place where attempts follow each other; neither the driver nor the cache asks a peer by itself.

use crate::answer;
use crate::attempt::{Attempt, Ended, Step};
use crate::backend::Backend;
use crate::conf::next;
use crate::engine::Engine;
use crate::exchange::Exchange;
use crate::origin::{Ask, Fetched};
use crate::payload::Payload;
use crate::peer::{ChosenPeer, Ended as EndedPeer};
use crate::protocol::{Peers, Protocol};
use crate::request::UpstreamRequest;
use crate::resolve;
use crate::respond;
use crate::retry::{self, Case};
use brisk_balance::{Outcome, Selection};
use brisk_net::{Failure, Retry, clock};
use brisk_server::flow::{Flow, Pending};
use brisk_server::request::Request;
use brisk_server::{dlog, failure, rlog};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

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
        payload: Payload,
    ) -> Result<Box<Fetch<P>>, Failure> {
        let (request, peers) = UpstreamRequest::new(engine, r, ask, payload)?;
        let attempt = match peers {
            Peers::Group(group) => Attempt::choosing(&request, r, group),
            Peers::Host { host, port } => resolve::begin(&request, r, &host, port),
        };
        Ok(Box::new(Fetch { request, attempt }))
    }

    /// Goes on until there is a response, or the reason why there is none, which was logged then.
    pub fn poll(&mut self, r: &mut Request, cx: &mut Context<'_>) -> Poll<Result<Fetched, Failure>> {
        loop {
            // Taken out, since a step consumes it. A future that is dropped here has its lease and connection dropped
            // with it.
            let attempt = std::mem::replace(&mut self.attempt, Attempt::Over);
            let ended = match attempt.step(&mut self.request, r, cx) {
                Step::On(next) => {
                    self.attempt = next;
                    continue;
                }
                Step::Wait(same) => {
                    r.flight.waits_for(same.waits());
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
/// The same machine as in [`fetch()`]: a request that waits for nothing but a back end needs no task, one
/// that must read a body first has one.
impl<P: Protocol> Pending for Fetch<P> {
    fn poll(&mut self, r: &mut Request, cx: &mut Context<'_>) -> Poll<Flow> {
        let result = ready!(Fetch::poll(self, r, cx));
        Poll::Ready(respond::conclude(&self.request.engine.protocol, r, result))
    }
}

/// Reads the request's body as far as that must be done first, then asks. The error has been logged.
pub(crate) async fn fetch<P: Protocol>(
    engine: Arc<Engine<P>>,
    r: &mut Request,
    ask: Ask,
) -> Result<Fetched, Failure> {
    // First: no place at a peer is held while a client sends its body.
    let payload = Payload::of(&engine, r).await?;
    let mut fetch = Fetch::begin(engine, r, ask, payload)?;
    poll_fn(|cx| fetch.poll(r, cx)).await
}

impl<P: Protocol> UpstreamRequest<P> {
    /// What becomes of the request after an attempt.
    fn judge(&self, r: &mut Request, ended: Ended) -> Verdict {
        match ended {
            Ended::Answered(mut exchange, head) => {
                let head = Arc::new(head);
                // Before the decision: `$upstream_http_…` and messages of this attempt show its own head.
                self.state.set_head(head.clone());
                if let Some((group, selection)) = self.next_for_status(r, &mut exchange, head.status) {
                    return Verdict::Again(Attempt::Choosing(group, selection));
                }
                // Only for the answer that is passed on: sticky sessions learn from it.
                if let Some(lease) = exchange.peer.lease() {
                    exchange.peer.group.answered(r, lease, &head);
                }
                Verdict::Done(Ok(answer::of(self, r, exchange, head)))
            }
            Ended::Failed { peer, is_reused, failure } => {
                if let Some(refused) = self.out_of_reach(r, peer.as_deref(), &failure) {
                    return Verdict::Done(Err(refused));
                }
                // Each attempt is logged, also if the next one succeeds, as in nginx.
                failure::report(&failure, r);
                match peer.and_then(|peer| self.next_for_failure(r, peer, is_reused, &failure)) {
                    Some((group, selection)) => Verdict::Again(Attempt::Choosing(group, selection)),
                    None => Verdict::Done(Err(failure)),
                }
            }
        }
    }

    /// What becomes of a request to a pool of processes that cannot be reached: it would find the same again and again, as often as it is
    /// tried, for no attempt at a pool counts that no process has seen.
    fn out_of_reach(&self, r: &mut Request, peer: Option<&ChosenPeer>, failure: &Failure) -> Option<Failure> {
        let pool = peer?.group.processes().filter(|_| retry::condition(failure) == Some(next::ERROR))?;
        let status = pool.out_of_reach(r, failure)?;
        self.state.note(|attempt| attempt.status = status);
        Some(retry::refused(status))
    }

    /// Where the next attempt goes on after one without a response, if there is to be one.
    /// What counts as a new attempt, and what as the same one on another connection, is decided here:
    /// `add_try` gives the try back.
    fn next_for_failure(
        &self,
        r: &Request,
        mut peer: Box<ChosenPeer>,
        is_reused: bool,
        failure: &Failure,
    ) -> Option<(Arc<dyn Backend>, Selection)> {
        // What the client or the configuration has done wrong no other peer would mend.
        let condition = retry::condition(failure).filter(|_| failure.retry() != Retry::Never)?;
        // What the client would get if this were the last attempt, as nginx shows it.
        self.state.note(|attempt| attempt.status = failure::status(failure));
        // Before the next peer is chosen: this failure bears on that choice, in which the same peer may come up again.
        let EndedPeer { mut selection, is_disabled } = peer.finish(Outcome::Failed)?;
        if is_disabled {
            rlog!(r, Warn, "upstream server temporarily disabled while connecting to upstream");
        }
        match peer.group.processes() {
            // Nothing has looked at the request: the process ended between two requests.
            Some(_) if failure.retry() == Retry::Safe => selection.add_try(),
            // Of pools that this server runs itself: whether the request may have been the reason is theirs to
            // say, and one retry is all there is.
            Some(pool) => {
                let may = condition == next::ERROR && !self.was_retried.replace(true);
                if may && pool.retries(r, peer.elapsed_ms()) {
                    selection.add_try();
                }
            }
            // A kept connection may be closed by the peer at any time (RFC 9112 §9.3.1): trying a new one is not
            // another peer's attempt. nginx does the same (`u->peer.cached`).
            None if is_reused && condition == next::ERROR => selection.add_try(),
            None => {}
        }
        let tries = selection.tries();
        let goes_on = self.may_retry(r, &selection, tries, condition, failure.retry());
        goes_on.then(|| {
            dlog!(r, "http next upstream, {}", next::word(condition));
            (peer.group.clone(), selection)
        })
    }

    /// The same after a response, if its status sends the request to another peer.
    /// The response is thrown away with its exchange, and the connection with it: reading its body would cost more
    /// than a new one.
    fn next_for_status(
        &self,
        r: &Request,
        exchange: &mut Exchange,
        status: u16,
    ) -> Option<(Arc<dyn Backend>, Selection)> {
        // Any other status is an answer, whatever the configuration says.
        let condition = next::of_status(status)?;
        let selection = exchange.peer.selection()?;
        // The present attempt is still one of those that are left.
        let tries = selection.tries().saturating_sub(1);
        if !self.may_retry(r, selection, tries, condition, Retry::IfIdempotent) {
            return None;
        }
        // Its place is given back before the next is taken, so that a group with `max_conns` does not wait for
        // itself.
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
            // The method as the client sent it, not the one that an error page or a cache's question has made
            // of it: what may have been done twice is what the client asked for.
            is_idempotent: retry::is_idempotent(r.sent_method(), r.sent_method_name()),
            is_body_spent: self.payload.is_spent(),
            tries,
            elapsed_ms: now_ms.saturating_sub(self.started_ms),
        };
        // The budget is asked last, since asking takes from it.
        retry::is_allowed(self.settings(), &case) && selection.group().may_retry(now_ms)
    }
}
