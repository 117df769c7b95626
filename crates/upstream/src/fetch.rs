//! One request's way to an answer: servers are tried until one gives its response head, or nobody is left.

use crate::backend::Backend;
use crate::body::{Begin, Incoming, Rate};
use crate::conf::{Settings, next};
use crate::connect;
use crate::engine::Engine;
use crate::exchange::{Exchange, Fault, Got, Limits, READ_BYTES};
use crate::head::BackendHead;
use crate::heading::Heading;
use crate::link::Link;
use crate::origin::{Ask, FailKind, Failed, Fetched};
use crate::payload::{Payload, body_failed};
use crate::pool::Key;
use crate::protocol::{BodyShape, Peers, Protocol, Target};
use crate::spool::SpoolLimits;
use crate::state::State;
use crate::tls::Tls;
use crate::tunnel::Tunnel;
use crate::turn::Turn;
use brisk_balance::{Endpoint, Outcome, Selection};
use brisk_http::{HeaderId, Method};
use brisk_net::clock;
use brisk_server::extended;
use brisk_server::flow::Flow;
use brisk_server::log::Witness;
use brisk_server::request::Request;
use brisk_server::response::Body;
use brisk_server::text::Text;
use brisk_server::{dlog, rlog};
use std::future::poll_fn;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

mod reach;

pub(crate) use reach::{Queued, Reached};

/// What went wrong with one attempt.
pub(crate) struct Miss {
    /// A bit of [`next`].
    bit: u32,
    status: u16,
    kind: FailKind,
    /// A byte may have reached the server.
    sent: bool,
    /// On a connection that had served others before.
    reused: bool,
}

/// What an attempt gave.
pub(crate) enum Attempted {
    Answer(Box<Exchange>, Box<Turn>, Arc<BackendHead>),
    Missed(Box<Turn>, Miss),
    /// Nobody else is to be asked either.
    Over(Failed),
}

/// A request whose target is known, but not its servers.
struct Plan<P: Protocol> {
    engine: Arc<Engine<P>>,
    ask: Ask,
    way: P::Way,
    tls: Option<Tls>,
    state: Rc<State>,
    payload: Payload,
    shape: BodyShape,
}

/// A request on its way.
pub(crate) struct Journey<P: Protocol> {
    pub engine: Arc<Engine<P>>,
    ask: Ask,
    way: P::Way,
    tls: Option<Tls>,
    group: Arc<dyn Backend>,
    state: Rc<State>,
    payload: Payload,
    shape: BodyShape,
    started_ms: u64,
}

/// Where a journey goes on.
pub(crate) enum Next {
    /// With the choice of a server.
    Choose(Selection),
    /// With the server that was chosen.
    Ask(Box<Turn>),
}

/// What an attempt means for the request.
pub(crate) enum Judged {
    Answer(Box<Exchange>, Box<Turn>, Arc<BackendHead>),
    /// The next server is to be asked.
    Again(Selection),
    Failed(Failed),
}

/// How far a request gets without waiting.
pub(crate) enum Begun<P: Protocol> {
    /// Its servers are known, and mostly which one is to be asked.
    Chosen(Box<Journey<P>>, Next),
    /// The servers' name must be looked up.
    Named(NoServers<P>),
    /// The body must be read first.
    Not,
}

/// See [`Begun::Named`].
pub(crate) struct NoServers<P: Protocol>(Plan<P>, Peers);

/// See [`Origin::fetch`](crate::origin::Origin::fetch).
pub(crate) async fn fetch<P: Protocol>(
    engine: Arc<Engine<P>>,
    r: &mut Request,
    ask: Ask,
) -> Result<Fetched, Failed> {
    let payload = Payload::of(&engine, r).await?;
    let (plan, peers) = plan(engine, r, ask, payload)?;
    NoServers(plan, peers).fetch(r).await
}

/// Does what can be done at once.
pub(crate) fn begin<P: Protocol>(engine: &Arc<Engine<P>>, r: &mut Request) -> Result<Begun<P>, Failed> {
    let Some(payload) = Payload::at_hand(engine, r) else { return Ok(Begun::Not) };
    let (plan, peers) = plan(engine.clone(), r, Ask::default(), payload)?;
    let Peers::Group(group) = peers else { return Ok(Begun::Named(NoServers(plan, peers))) };
    let journey = plan.to(group);
    let next = match journey.choose(r, journey.selection(r)) {
        Ok(turn) => Next::Ask(turn),
        Err(selection) => Next::Choose(*selection),
    };
    Ok(Begun::Chosen(journey, next))
}

fn plan<P: Protocol>(
    engine: Arc<Engine<P>>,
    r: &mut Request,
    ask: Ask,
    mut payload: Payload,
) -> Result<(Plan<P>, Peers), Failed> {
    let shape = payload.shape(r);
    if let Payload::Client(body, _) = &mut payload {
        *body = Some(r.lend_body());
    }
    let Target { peers, tls, way, scheme, uri } = engine.protocol.target(r, &ask).map_err(failed)?;
    let state = State::begin(r, scheme, uri);
    Ok((Plan { engine, ask, way, tls, state, payload, shape }, peers))
}

impl<P: Protocol> Plan<P> {
    fn to(self, group: Arc<dyn Backend>) -> Box<Journey<P>> {
        let Plan { engine, ask, way, tls, state, payload, shape } = self;
        let started_ms = clock::mono_ms();
        Box::new(Journey { engine, ask, way, tls, group, state, payload, shape, started_ms })
    }
}

impl<P: Protocol> NoServers<P> {
    pub async fn fetch(self, r: &mut Request) -> Result<Fetched, Failed> {
        let NoServers(plan, peers) = self;
        let group = plan.engine.group(r, peers, &plan.state).await?;
        let journey = plan.to(group);
        let selection = journey.selection(r);
        journey.run(r, Next::Choose(selection)).await
    }
}

/// What a handler's decision means for a request that was to be asked.
pub(crate) fn failed(flow: Flow) -> Failed {
    match flow {
        Flow::Status(status) => Failed { status, kind: FailKind::Local },
        _ => Failed { status: 499, kind: FailKind::Close },
    }
}

impl<P: Protocol> Journey<P> {
    fn settings(&self) -> &Settings {
        self.engine.protocol.settings()
    }

    fn selection(&self, r: &Request) -> Selection {
        let mut selection = self.group.selection(r);
        let tries = self.settings().next_upstream_tries;
        if tries > 0 {
            selection.limit_tries(tries.min(u64::from(u32::MAX)) as u32);
        }
        selection
    }

    /// Asks servers until one gives its head or nobody is left.
    pub async fn run(mut self: Box<Self>, r: &mut Request, mut next: Next) -> Result<Fetched, Failed> {
        loop {
            let turn = match next {
                Next::Choose(selection) => self.begin_turn(r, selection).await?,
                Next::Ask(turn) => turn,
            };
            let attempted = self.attempt(r, turn).await;
            match self.judge(r, attempted) {
                Judged::Failed(failed) => return Err(failed),
                Judged::Answer(exchange, turn, head) => return Ok(self.answer(r, exchange, turn, head)),
                Judged::Again(selection) => next = Next::Choose(selection),
            }
        }
    }

    /// What becomes of the request after an attempt.
    pub fn judge(&self, r: &mut Request, attempted: Attempted) -> Judged {
        match attempted {
            Attempted::Over(failed) => Judged::Failed(failed),
            Attempted::Answer(exchange, turn, head) => match self.wrong_status(r, &head, exchange, turn) {
                Err(again) => Judged::Again(*again),
                Ok((exchange, mut turn)) => {
                    if let Some(lease) = turn.lease.take() {
                        self.group.answered(r, &lease, &head);
                        turn.lease = Some(lease);
                    }
                    Judged::Answer(exchange, turn, head)
                }
            },
            Attempted::Missed(turn, miss) => match self.missed(r, turn, &miss) {
                Some(again) => Judged::Again(again),
                None => Judged::Failed(Failed { status: miss.status, kind: miss.kind }),
            },
        }
    }

    /// Chooses a server; the error is the selection that has none now.
    fn choose(&self, r: &mut Request, mut selection: Selection) -> Result<Box<Turn>, Box<Selection>> {
        let Some(lease) = selection.next(clock::mono_ms()) else { return Err(Box::new(selection)) };
        self.state.choose(&lease.peer);
        dlog!(r, "get peer {}, try: {}", self.state.peer(), selection.tries());
        self.group.chosen(r, &lease);
        Ok(Box::new(Turn {
            selection: Some(selection),
            lease: Some(lease),
            group: self.group.clone(),
            keepalive: self.group.keepalive(),
            state: self.state.clone(),
            started_ms: clock::mono_ms(),
            header_ms: None,
        }))
    }

    /// Chooses a server, waiting for one if that is configured.
    async fn begin_turn(&self, r: &mut Request, mut selection: Selection) -> Result<Box<Turn>, Failed> {
        loop {
            selection = match self.choose(r, selection) {
                Ok(turn) => return Ok(turn),
                Err(selection) => *selection,
            };
            let Some(wait) = self.group.wait_for_place(r) else { break };
            wait.await;
            selection.restart();
        }
        self.state.attempt(self.group.name().into());
        self.state.note(|attempt| {
            attempt.status = 502;
            attempt.response_ms = Some(0);
        });
        rlog!(r, Error, "no live upstreams while connecting to upstream");
        Err(Failed { status: 502, kind: FailKind::Error })
    }

    /// Asks one server.
    async fn attempt(&mut self, r: &mut Request, turn: Box<Turn>) -> Attempted {
        let link = match self.link(r, &turn).await {
            Ok(link) => link,
            Err(none) => return none.of(turn),
        };
        let mut exchange = match self.exchange(r, link, &turn) {
            Ok(exchange) => exchange,
            Err(flow) => return Attempted::Over(failed(flow)),
        };
        let mut heading = Heading::of(&exchange);
        let result = poll_fn(|cx| self.poll_head(r, &mut exchange, &mut heading, cx)).await;
        self.headed(r, exchange, turn, result)
    }

    /// Makes the request for a connection.
    pub fn exchange(&mut self, r: &Request, link: Box<Link>, turn: &Turn) -> Result<Box<Exchange>, Flow> {
        let elapsed = turn.elapsed_ms();
        self.state.note(|attempt| attempt.connect_ms = Some(elapsed));
        dlog!(r, "http upstream send request");
        let codec = self.engine.protocol.codec(r, &self.way, &self.ask, self.shape)?;
        if r.vars.have_failed() {
            // A value in it could not be found out.
            return Err(Flow::Status(500));
        }
        let settings = self.settings();
        let head_bytes_max = settings.buffer_size as usize;
        let limits = Limits {
            head_bytes_max,
            // A rate may follow from the head, and counts from there on.
            read_bytes_max: if settings.limit_rate.is_none() { READ_BYTES } else { head_bytes_max },
            read_timeout: settings.read_timeout,
            send_timeout: settings.send_timeout,
        };
        let source = self.payload.source();
        let exchange = Exchange::new(link, codec, source, limits, self.state.clone());
        r.also_holds(exchange.unsent());
        Ok(Box::new(exchange))
    }

    /// What a response head, or its failing to come, makes of an attempt.
    pub fn headed(
        &self,
        r: &mut Request,
        exchange: Box<Exchange>,
        mut turn: Box<Turn>,
        result: Result<BackendHead, Option<Fault>>,
    ) -> Attempted {
        let reused = exchange.link.is_reused;
        match result {
            Ok(head) if head.status == 101 && self.is_wrong_switch(r, &head) => {
                self.state.note(|attempt| attempt.status = head.status);
                Attempted::Over(Failed { status: 502, kind: FailKind::InvalidHeader })
            }
            // Neither an answer nor a tunnel: nothing that is said to the client would make sense of it.
            Ok(head) if head.status == 101 && (!exchange.codec.is_tunnel() || r.depth > 0) => {
                rlog!(r, Error, "upstream sent unexpected 101 while reading response header from upstream");
                self.state.note(|attempt| attempt.status = head.status);
                let kind = FailKind::UnaskedUpgrade;
                Attempted::Missed(
                    turn,
                    Miss { bit: next::INVALID_HEADER, status: 502, kind, sent: true, reused },
                )
            }
            Ok(head) => {
                dlog!(r, "http upstream status {}", head.status);
                for field in head.fields().filter(|_| brisk_server::log::may_debug()) {
                    let text = String::from_utf8_lossy;
                    dlog!(r, "http upstream header: \"{}: {}\"", text(field.name), text(field.value));
                }
                let elapsed = turn.elapsed_ms();
                turn.header_ms = Some(elapsed);
                if let Some(lease) = &mut turn.lease {
                    lease.peer.stats.answered(head.status);
                    lease.header_received(elapsed, clock::mono_ms());
                }
                self.state.note(|attempt| {
                    attempt.header_ms = Some(elapsed);
                    attempt.status = head.status;
                });
                let head = Arc::new(head);
                self.state.set_head(head.clone());
                Attempted::Answer(exchange, turn, head)
            }
            Err(None) => {
                rlog!(
                    r,
                    Info,
                    "epoll_wait() reported that client prematurely closed connection, so upstream connection is closed too while reading response header from upstream"
                );
                Attempted::Over(Failed { status: 499, kind: FailKind::Client })
            }
            Err(Some(Fault::Body(error))) => Attempted::Over(body_failed(r, &error)),
            Err(Some(fault)) => {
                fault.log("reading response header from upstream", |level, text| {
                    if r.logs(level) {
                        r.log(level, text);
                    }
                });
                let unprocessed = exchange.codec.is_unprocessed();
                // A body that was not kept cannot be sent again.
                let sent = !unprocessed || self.payload.is_unbuffered();
                let (bit, status, kind) = meaning(&fault, unprocessed);
                Attempted::Missed(turn, Miss { bit, status, kind, sent, reused })
            }
        }
    }

    /// Whether a 101 is another switch than one that a tunnel may be made of.
    fn is_wrong_switch(&self, r: &Request, head: &BackendHead) -> bool {
        // A connection of HTTP/2 that the client would speak past this server's rules.
        if head.all(HeaderId::Upgrade).any(extended::names_h2c) {
            rlog!(r, Error, "upstream switched to HTTP/2 while reading response header from upstream");
            return true;
        }
        let Some(asked) = &r.extended else { return false };
        match asked.check(head.all(HeaderId::Upgrade), head.named(b"Sec-WebSocket-Accept")) {
            Ok(()) => false,
            Err(field) => {
                rlog!(
                    r,
                    Error,
                    "upstream sent invalid \"{field}\" with 101 while reading response header from upstream"
                );
                true
            }
        }
    }

    /// What a connection must be like.
    fn key(&self, r: &Request, turn: &Turn) -> Key {
        let endpoint = turn.lease.as_ref().map(|lease| lease.peer.endpoint.clone());
        Key {
            group: self.group.id(),
            // An attempt has a lease until it ends.
            endpoint: endpoint.unwrap_or_else(|| Endpoint::Unix(PathBuf::new())),
            location: if turn.keepalive.local { self.engine.id } else { 0 },
            bind: connect::bind_of(self.settings(), r),
            tls: self.tls.as_ref().map_or(0, |tls| tls.id),
            dialect: self.engine.protocol.dialect(),
        }
    }

    fn watches_client(&self) -> bool {
        !self.ask.cacheable
            && !self.settings().ignore_client_abort
            && matches!(self.settings().store, crate::conf::Store::Off)
    }

    /// Sends the request and waits for the final head. `Err(None)`: the client has gone.
    pub fn poll_head(
        &self,
        r: &mut Request,
        exchange: &mut Exchange,
        heading: &mut Heading,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BackendHead, Option<Fault>>> {
        loop {
            // What is sent first is the request; later the back end's word comes first, since it may bear on that.
            let sends_first = std::mem::replace(&mut heading.sends_first, false);
            if sends_first && let Poll::Ready(Err(fault)) = exchange.poll_send(cx) {
                return Poll::Ready(Err(Some(fault)));
            }
            let Poll::Ready(got) = exchange.poll_event(cx) else {
                if !sends_first && let Poll::Ready(Err(fault)) = exchange.poll_send(cx) {
                    return Poll::Ready(Err(Some(fault)));
                }
                break;
            };
            heading.sends_first = true;
            match got.map_err(Some)? {
                Got::Head(head) => return Poll::Ready(Ok(head)),
                Got::Interim(head) => self.pass_hints(r, &head, &mut heading.hints_bytes),
                Got::Log(level, text) => {
                    if r.logs(level) {
                        let text = String::from_utf8_lossy(&text);
                        r.log(level, format_args!("{text} while reading response header from upstream"));
                    }
                }
                Got::Data(_) | Got::Trailers(_) => {}
                Got::End => return Poll::Ready(Err(Some(Fault::Closed))),
            }
        }
        let watches = self.watches_client() && !self.payload.is_unbuffered();
        if watches && r.poll_gone(cx).is_ready() {
            return Poll::Ready(Err(None));
        }
        if heading.patience.as_mut().is_some_and(|patience| patience.poll_over(cx)) {
            heading.patience = None;
        }
        Poll::Pending
    }

    /// Passes a `103` on; other interim answers are between the back end and us.
    fn pass_hints(&self, r: &mut Request, head: &BackendHead, bytes: &mut u64) {
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

    /// An attempt without an answer: the next selection, if there is to be another attempt.
    fn missed(&self, r: &mut Request, mut turn: Box<Turn>, miss: &Miss) -> Option<Selection> {
        self.state.note(|attempt| attempt.status = miss.status);
        if turn.finish(Outcome::Failed) {
            rlog!(r, Warn, "upstream server temporarily disabled while connecting to upstream");
        }
        let mut selection = turn.selection.take()?;
        if miss.reused && miss.bit == next::ERROR {
            selection.add_try();
        }
        let goes_on = self.may_retry(r, &selection, selection.tries(), miss.bit, miss.sent);
        if goes_on {
            dlog!(r, "http next upstream, {}", next::word(miss.bit));
        }
        goes_on.then_some(selection)
    }

    /// An answer whose status sends the request to the next server.
    fn wrong_status(
        &self,
        r: &mut Request,
        head: &BackendHead,
        exchange: Box<Exchange>,
        mut turn: Box<Turn>,
    ) -> Result<(Box<Exchange>, Box<Turn>), Box<Selection>> {
        let Some(bit) = next::of_status(head.status) else { return Ok((exchange, turn)) };
        // The present attempt is still one of those that are left.
        let left = |selection: &Selection| selection.tries().saturating_sub(1);
        let may_retry = |selection: &Selection| self.may_retry(r, selection, left(selection), bit, true);
        if !turn.selection.as_ref().is_some_and(may_retry) {
            return Ok((exchange, turn));
        }
        let outcome = if matches!(head.status, 403 | 404) { Outcome::Next } else { Outcome::Failed };
        if turn.finish(outcome) {
            rlog!(
                r,
                Warn,
                "upstream server temporarily disabled while reading response header from upstream"
            );
        }
        dlog!(r, "http next upstream, {}", next::word(bit));
        match turn.selection.take() {
            Some(selection) => Err(Box::new(selection)),
            None => Ok((exchange, turn)),
        }
    }

    /// Whether another server may be asked: `*_next_upstream` with its limits, `left` attempts among them, and the group's
    /// budget, which this takes from.
    fn may_retry(&self, r: &Request, selection: &Selection, left: u32, bit: u32, sent: bool) -> bool {
        let is_idempotent = match r.head.method {
            Method::Post => false,
            _ => !matches!(r.head.method_name.of(&r.buf), b"LOCK" | b"PATCH"),
        };
        let mut wanted = bit;
        if sent && !is_idempotent {
            wanted |= next::NON_IDEMPOTENT;
        }
        let timeout_ms = self.settings().next_upstream_timeout.as_millis() as u64;
        left > 0
            && self.settings().next_upstream & wanted == wanted
            && !(sent && self.payload.is_unbuffered())
            && (timeout_ms == 0 || clock::mono_ms().saturating_sub(self.started_ms) < timeout_ms)
            && selection.group().may_retry(clock::mono_ms())
    }

    /// The answer, with whatever of its body has come already.
    pub fn answer(
        &self,
        r: &mut Request,
        mut exchange: Box<Exchange>,
        turn: Box<Turn>,
        head: Arc<BackendHead>,
    ) -> Fetched {
        if exchange.codec.is_tunnel() {
            return self.tunnel(r, exchange, turn, head);
        }
        let length = exchange.codec.length();
        let unbuffered = self.is_unbuffered(&head);
        let mut first = Vec::new();
        while let Some(got) = exchange.ready_event() {
            match got {
                Got::Data(bytes) if first.is_empty() => first = bytes,
                Got::Data(bytes) => first.extend_from_slice(&bytes),
                Got::Log(level, text) => {
                    if r.logs(level) {
                        r.log(
                            level,
                            format_args!("{} while reading upstream", String::from_utf8_lossy(&text)),
                        );
                    }
                }
                Got::Trailers(fields) => drop(self.state.trailers.replace(fields)),
                Got::Interim(_) | Got::Head(_) => {}
                Got::End => {
                    turn.complete(exchange);
                    let body = if first.is_empty() { Body::Empty } else { Body::bytes(first) };
                    return Fetched { head, length, body, unbuffered, tunnel: false };
                }
            }
        }
        let watches = self.watches_client();
        let body = Incoming::new(Begin {
            exchange,
            turn,
            first,
            limits: SpoolLimits {
                memory_bytes_max: self.settings().memory_bytes_max(),
                file_bytes_max: self.settings().file_bytes_max(),
                write_bytes: self.settings().file_write_bytes(),
                place: self.settings().temp_path(&r.snap().state_folder),
            },
            ahead: !unbuffered,
            rate: Rate::new(self.settings().rate(r)),
            client: watches.then(|| r.watch_client()),
            witness: Witness::of(r),
            charge: r.conn.as_ref().map(|conn| conn.account.hold(0)),
        });
        Fetched { head, length, body: Body::Stream(Box::new(body)), unbuffered, tunnel: false }
    }

    fn tunnel(
        &self,
        r: &mut Request,
        mut exchange: Box<Exchange>,
        turn: Box<Turn>,
        head: Arc<BackendHead>,
    ) -> Fetched {
        let first = exchange.take_rest();
        let times = (self.settings().read_timeout, self.settings().send_timeout);
        let client = r.lend_connection();
        let tunnel = Tunnel::new(exchange.link, turn, client, first, times, Witness::of(r));
        let body = Body::Stream(Box::new(tunnel));
        Fetched { head, length: None, body, unbuffered: true, tunnel: true }
    }

    /// `*_buffering`, which the back end may overrule.
    fn is_unbuffered(&self, head: &BackendHead) -> bool {
        let bit = crate::origin::ignored::X_ACCEL_BUFFERING;
        match head.get(HeaderId::XAccelBuffering).filter(|_| !self.settings().ignores(bit)) {
            Some(value) if value.eq_ignore_ascii_case(b"no") => true,
            Some(value) if value.eq_ignore_ascii_case(b"yes") => false,
            _ => !self.settings().buffering,
        }
    }
}

/// What a fault before the head is: a bit of [`next`], and what the client is told. `unprocessed`: the back end has not
/// looked at the request.
fn meaning(fault: &Fault, unprocessed: bool) -> (u32, u16, FailKind) {
    match fault {
        Fault::ReadTimeout | Fault::WriteTimeout => (next::TIMEOUT, 504, FailKind::Timeout),
        Fault::Invalid(_) | Fault::HeadTooBig if !unprocessed => {
            (next::INVALID_HEADER, 502, FailKind::InvalidHeader)
        }
        _ => (next::ERROR, 502, FailKind::Error),
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
