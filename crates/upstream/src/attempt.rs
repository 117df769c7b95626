//! One attempt: a peer is chosen, a connection to it found or made, the request sent and the response's head awaited.
//!
//! An attempt is polled: by the driver of a client's connection, which parks the request meanwhile, or by a task. It
//! decides nothing about other attempts, see [`fetch`](crate::fetch).

use crate::backend::Backend;
use crate::connect::{self, Dialed, Dialing};
use crate::exchange::{Exchange, Got};
use crate::head::BackendHead;
use crate::lend;
use crate::link::{Key, Link, Process};
use crate::occupancy::{Connected, Occupancy, Patience, Wait};
use crate::peer::ChosenPeer;
use crate::pool;
use crate::protocol::Protocol;
use crate::request::UpstreamRequest;
use crate::retry;
use brisk_balance::Selection;
use brisk_http::HeaderId;
use brisk_net::{Activity, Cause, Failure, Retry, Scope, clock};
use brisk_server::dlog;
use brisk_server::extended;
use brisk_server::request::{Request, Waits};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A future that needs no request.
type Job<T> = Pin<Box<dyn Future<Output = T>>>;

/// How far an attempt is.
pub(crate) enum Attempt {
    /// The name of the peers is being looked up.
    Resolving(Job<Result<Arc<dyn Backend>, Failure>>),
    /// A peer is to be chosen, once one has a place.
    Choosing(Arc<dyn Backend>, Selection),
    /// Another thread was asked for a connection that it keeps. The job takes milliseconds at most, so it is not given up when the client goes.
    Borrowing(Box<ChosenPeer>, Key, Job<Option<Box<Link>>>),
    /// A new connection is being made. Its place in the queue of a server's processes begins with the dialing, since
    /// that is when the kernel queues the connection.
    Dialing(Box<ChosenPeer>, Dialing, Queued),
    /// The request is on its way, and the response's head is awaited.
    Exchanging(Box<Exchange>, Awaited),
    /// It has ended. Also left in place while the next state is made, since a step takes the attempt by value.
    Over,
}

/// How an attempt has ended.
pub(crate) enum Ended {
    /// A response's head has come.
    Answered(Box<Exchange>, BackendHead),
    /// There is none. The peer is missing if none was chosen; `is_reused`: on a connection that had served others.
    Failed { peer: Option<Box<ChosenPeer>>, is_reused: bool, failure: Failure },
}

/// What polling an attempt has come to.
pub(crate) enum Step {
    /// It is in another state, and can go on at once.
    On(Attempt),
    /// It must wait in this state.
    Wait(Attempt),
    Ended(Ended),
}

/// A new connection's place among those that wait for a process of their server.
#[derive(Default)]
pub(crate) struct Queued {
    occupancy: Option<Arc<Occupancy>>,
    wait: Option<Wait>,
}

impl Queued {
    fn begin<P: Protocol>(request: &UpstreamRequest<P>, key: &Key, peer: &ChosenPeer) -> Queued {
        // Only protocols whose servers give each connection a process (`occupies`): for others an idle connection
        // costs nothing.
        let occupancy = request.engine.protocol.occupies().then(|| Occupancy::of(&key.endpoint));
        if let (Some(occupancy), Some(pool)) = (&occupancy, peer.group.processes()) {
            occupancy.has_processes(pool.count());
        }
        let wait = occupancy.as_ref().map(|occupancy| Wait::begin(occupancy, clock::mono_ms()));
        Queued { occupancy, wait }
    }

    /// From now on the place is the connection's.
    fn join(self, mut link: Box<Link>, peer: &ChosenPeer) -> Box<Link> {
        if peer.group.processes().is_some() {
            link.process = peer.lease().map(|lease| Process { seat: lease.seat(), is_busy: false });
        }
        if let Some(occupancy) = self.occupancy {
            link.occupancy = Some(Connected::begin(occupancy));
            link.wait = self.wait;
        }
        link
    }
}

/// What is kept while a response's head is awaited.
#[derive(Default)]
pub(crate) struct Awaited {
    /// Bytes of the early hints so far.
    hints_bytes: u64,
    /// Until idle connections are closed for this one.
    patience: Option<Patience>,
}

impl Step {
    fn failed(peer: Option<Box<ChosenPeer>>, failure: Failure) -> Step {
        Step::Ended(Ended::Failed { peer, is_reused: false, failure })
    }

    fn exchange_failed(exchange: Box<Exchange>, failure: Failure) -> Step {
        let (peer, is_reused) = exchange.give_up();
        Step::Ended(Ended::Failed { peer: Some(peer), is_reused, failure })
    }
}

impl Attempt {
    /// The first attempt at a group of peers.
    pub fn choosing<P: Protocol>(
        request: &UpstreamRequest<P>,
        r: &Request,
        group: Arc<dyn Backend>,
    ) -> Attempt {
        let mut selection = group.selection(r);
        // Tries are counted over all peers of the request; 0: as many as there are peers (nginx:
        // `proxy_next_upstream_tries`).
        let tries = request.settings().next_upstream_tries;
        if tries > 0 {
            selection.limit_tries(tries.min(u64::from(u32::MAX)) as u32);
        }
        Attempt::Choosing(group, selection)
    }

    /// What the request waits for in this state.
    pub fn waits(&self) -> Waits {
        match self {
            Attempt::Resolving(_) => Waits::Resolver,
            Attempt::Choosing(..) => Waits::Queue,
            Attempt::Borrowing(..) | Attempt::Dialing(..) => Waits::Connecting,
            Attempt::Exchanging(..) | Attempt::Over => Waits::Answer,
        }
    }

    /// Goes on as far as it can in its state.
    /// By value: what a step does not put into the next state is dropped, with its lease and its connection.
    /// No early return can leave a half-made state behind.
    pub fn step<P: Protocol>(
        self,
        request: &mut UpstreamRequest<P>,
        r: &mut Request,
        cx: &mut Context<'_>,
    ) -> Step {
        match self {
            // The look-up is bounded by `resolver_timeout`, so the client's end is not looked for meanwhile.
            Attempt::Resolving(mut job) => match job.as_mut().poll(cx) {
                Poll::Ready(Ok(group)) => Step::On(Attempt::choosing(request, r, group)),
                Poll::Ready(Err(failure)) => Step::failed(None, failure),
                Poll::Pending => Step::Wait(Attempt::Resolving(job)),
            },
            Attempt::Choosing(group, selection) => choose(request, r, group, selection, cx),
            Attempt::Borrowing(peer, key, mut job) => match job.as_mut().poll(cx) {
                Poll::Ready(Some(link)) => {
                    dlog!(r, "get keepalive peer: using another thread's connection");
                    send(request, r, peer, link, cx)
                }
                // It was worth asking, and somebody else was faster.
                Poll::Ready(None) => dial(request, r, peer, key, cx),
                Poll::Pending => Step::Wait(Attempt::Borrowing(peer, key, job)),
            },
            Attempt::Dialing(peer, mut dialing, queued) => match dialing.poll(cx) {
                Poll::Ready(Ok(link)) => {
                    let link = queued.join(link, &peer);
                    send(request, r, peer, link, cx)
                }
                Poll::Ready(Err(failure)) => Step::failed(Some(peer), failure),
                // While the connection is being made nothing else looks at the client.
                Poll::Pending if request.watches_client() && r.client.poll_gone(cx).is_ready() => {
                    Step::failed(Some(peer), client_gone(Activity::Connecting))
                }
                Poll::Pending => Step::Wait(Attempt::Dialing(peer, dialing, queued)),
            },
            Attempt::Exchanging(mut exchange, mut awaited) => {
                match poll_head(request, r, &mut exchange, &mut awaited, cx) {
                    Poll::Ready(Ok(head)) => head_received(r, exchange, head),
                    Poll::Ready(Err(failure)) => Step::exchange_failed(exchange, failure),
                    Poll::Pending => Step::Wait(Attempt::Exchanging(exchange, awaited)),
                }
            }
            Attempt::Over => Step::Wait(Attempt::Over),
        }
    }
}

/// The client has closed its side while nothing was sent to it. It may still read.
fn client_gone(activity: Activity) -> Failure {
    Failure::client(activity, Cause::Closed).scope_is(Scope::Stream)
}

/// Chooses a peer, or waits until one has a place, if that is configured.
fn choose<P: Protocol>(
    request: &mut UpstreamRequest<P>,
    r: &mut Request,
    group: Arc<dyn Backend>,
    mut selection: Selection,
    cx: &mut Context<'_>,
) -> Step {
    let state = &request.state;
    // `may_choose` first: a pool answers requests in the order in which they came. A lease that was taken
    // before the question would have to be given back.
    if group.may_choose(r)
        && let Some(lease) = selection.next(clock::mono_ms())
    {
        state.choose(&lease.peer);
        dlog!(r, "get peer {}, try: {}", state.peer(), selection.tries());
        // Before the request is made: a sticky group writes its cookie by it, whatever comes of the attempt.
        group.chosen(r, &lease);
        let peer = ChosenPeer::new(selection, lease, group, state.clone());
        return connect(request, r, Box::new(peer), cx);
    }
    match group.poll_place(r, cx) {
        // The client has gone: the place is for the requests that wait behind this one.
        Poll::Pending if request.watches_client() && r.client.poll_gone(cx).is_ready() => {
            Step::failed(None, client_gone(Activity::Connecting))
        }
        Poll::Pending => Step::Wait(Attempt::Choosing(group, selection)),
        Poll::Ready(true) => {
            // A place has become free somewhere: all peers may be asked again, those of earlier rounds included.
            selection.restart();
            Step::On(Attempt::Choosing(group, selection))
        }
        Poll::Ready(false) => {
            // A pool of our own says more than "no live upstreams": why it is full, and when to come again.
            if let Some(pool) = group.processes() {
                let status = pool.refuse(r);
                state.unasked(group.name(), status);
                return Step::failed(None, retry::refused(status));
            }
            state.unasked(group.name(), 502);
            // nginx's words; 502, and never a retry, since no peer is left.
            let cause = Cause::Unavailable("no live upstreams".into());
            let failure = Failure::upstream(Activity::Connecting, cause);
            Step::failed(None, failure.retry_is(Retry::Never))
        }
    }
}

/// Takes a connection that is kept for the chosen peer, or begins to make one.
fn connect<P: Protocol>(
    request: &mut UpstreamRequest<P>,
    r: &mut Request,
    peer: Box<ChosenPeer>,
    cx: &mut Context<'_>,
) -> Step {
    // Made once per attempt, for the pool, for other threads and for a new connection alike: all three must mean the same.
    let key = request.key(r, &peer);
    // The connection of this thread that was used last: its peer most likely still has it open, and its buffers are
    // warm.
    if let Some(link) = pool::take_if_kept(&key, &peer.keepalive) {
        dlog!(r, "get keepalive peer: using connection");
        return send(request, r, peer, link, cx);
    }
    // Before a new connection: passing a descriptor on costs the back end nothing.
    if lend::may_have(&key, &peer.group, &peer.keepalive) {
        let job = lend::take(key.clone());
        return Step::On(Attempt::Borrowing(peer, key, Box::pin(job)));
    }
    dial(request, r, peer, key, cx)
}

/// Begins to make a connection.
fn dial<P: Protocol>(
    request: &mut UpstreamRequest<P>,
    r: &mut Request,
    peer: Box<ChosenPeer>,
    key: Key,
    cx: &mut Context<'_>,
) -> Step {
    let name = peer.state.peer();
    dlog!(r, "connect to {name}");
    // Before the call: the kernel may queue the connection in it.
    let queued = Queued::begin(request, &key, &peer);
    match connect::dial(request.settings(), key, request.tls.as_ref(), &name) {
        Ok(Dialed::Made(link)) => {
            let link = queued.join(link, &peer);
            send(request, r, peer, link, cx)
        }
        Ok(Dialed::Begun(dialing)) => Step::On(Attempt::Dialing(peer, dialing, queued)),
        Err(failure) => Step::failed(Some(peer), failure),
    }
}

/// Sends the request, or as much of it as can be sent now.
fn send<P: Protocol>(
    request: &mut UpstreamRequest<P>,
    r: &mut Request,
    peer: Box<ChosenPeer>,
    link: Box<Link>,
    cx: &mut Context<'_>,
) -> Step {
    // Asked before the link moves into the exchange.
    let patience = link.patience();
    let mut exchange = match request.exchange(r, peer, link) {
        Ok(exchange) => exchange,
        Err((peer, failure)) => return Step::failed(Some(peer), failure),
    };
    // Written at once: most requests fit into the socket's buffer, and no event has to be waited for.
    if let Poll::Ready(Err(failure)) = exchange.poll_send(cx) {
        return Step::exchange_failed(exchange, failure);
    }
    Step::On(Attempt::Exchanging(exchange, Awaited { hints_bytes: 0, patience }))
}

/// Waits for the final head. What the back end says comes before the rest of the request, since it may bear on that.
fn poll_head<P: Protocol>(
    request: &UpstreamRequest<P>,
    r: &mut Request,
    exchange: &mut Exchange,
    awaited: &mut Awaited,
    cx: &mut Context<'_>,
) -> Poll<Result<BackendHead, Failure>> {
    while let Poll::Ready(got) = exchange.poll_event(cx) {
        match got? {
            Got::Head(head) => return Poll::Ready(Ok(head)),
            Got::Interim(head) => request.pass_hints(r, &head, &mut awaited.hints_bytes),
            Got::Log(level, text) => {
                if r.logs(level) {
                    let text = String::from_utf8_lossy(&text);
                    r.log(level, format_args!("{text} while reading response header from upstream"));
                }
            }
            // A codec gives neither before a head.
            Got::Data(_) | Got::Trailers(_) => {}
            Got::End => {
                // An end without a head: on a connection that was used before the server may have closed it while the request was on its way, which
                // `fetch` tells apart by `is_reused`.
                return Poll::Ready(Err(Failure::upstream(Activity::ReadingHead, Cause::Closed)));
            }
        }
    }
    if let Poll::Ready(Err(failure)) = exchange.poll_send(cx) {
        return Poll::Ready(Err(failure));
    }
    // While a body is passed on, reading it tells of the client's end.
    if request.watches_client() && !exchange.reads_client() && r.client.poll_gone(cx).is_ready() {
        return Poll::Ready(Err(client_gone(Activity::ReadingHead)));
    }
    // Idle connections are closed once for this one; closing them again would not free another process.
    if awaited.patience.as_mut().is_some_and(|patience| patience.poll_over(cx)) {
        awaited.patience = None;
    }
    Poll::Pending
}

/// A final head has come.
fn head_received(r: &mut Request, mut exchange: Box<Exchange>, head: BackendHead) -> Step {
    // Judged before the head is told to variables and the peer counts as one that has answered.
    if head.status == 101
        && let Err(failure) = check_switch(r, &exchange, &head)
    {
        // `$upstream_status` shows what was said, though it is refused.
        exchange.peer.state.note(|attempt| attempt.status = head.status);
        return Step::exchange_failed(exchange, failure);
    }
    // A back end may answer before it has all of the body: what follows is not counted here.
    dlog!(r, "http upstream bytes sent: {}", exchange.peer.state.sent());
    dlog!(r, "http upstream status {}", head.status);
    for field in head.fields().filter(|_| brisk_server::log::may_debug()) {
        let text = String::from_utf8_lossy;
        dlog!(r, "http upstream header: \"{}: {}\"", text(field.name), text(field.value));
    }
    exchange.peer.head_received(head.status);
    Step::Ended(Ended::Answered(exchange, head))
}

/// Whether a 101 is a switch that a tunnel may be made of.
fn check_switch(r: &Request, exchange: &Exchange, head: &BackendHead) -> Result<(), Failure> {
    let wrong = |text: String| Failure::protocol(text).retry_is(Retry::Never);
    // A connection of HTTP/2 that the client would speak past this server's rules.
    if head.all(HeaderId::Upgrade).any(extended::names_h2c) {
        return Err(wrong("upstream switched to HTTP/2".into()));
    }
    if let Some(asked) = &r.head.extended {
        asked
            .check(head.all(HeaderId::Upgrade), head.named(b"Sec-WebSocket-Accept"))
            .map_err(|field| wrong(format!("upstream sent invalid \"{field}\" with 101")))?;
    }
    // Neither an answer nor a tunnel: nothing that is said to the client would make sense of it.
    if !exchange.codec.is_tunnel() || r.route.depth > 0 {
        return Err(Failure::upstream(Activity::ReadingHead, Cause::UnaskedUpgrade));
    }
    Ok(())
}
