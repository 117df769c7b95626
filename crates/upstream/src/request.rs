//! What is asked of back ends, for all attempts of one request: its protocol, its body, and what a connection for it is like.
//!
//! It is the same for all attempts: what differs between them (peer, connection, codec) is made from it for each.

use crate::conf::{Settings, Store};
use crate::connect;
use crate::engine::Engine;
use crate::exchange::{Exchange, Limits};
use crate::head::{BackendHead, is_hop_by_hop};
use crate::link::{Key, Link};
use crate::origin::Ask;
use crate::payload::Payload;
use crate::peer::ChosenPeer;
use crate::protocol::{BodyShape, Peers, Protocol, Target};
use crate::scratch::READ_BYTES;
use crate::state::State;
use crate::tls::Tls;
use brisk_balance::Endpoint;
use brisk_http::HeaderId;
use brisk_net::{Failure, Scope, clock};
use brisk_server::flow::Flow;
use brisk_server::request::Request;
use brisk_server::text::Text;
use brisk_server::{dlog, rlog};
use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// What is asked, for all attempts.
pub(crate) struct UpstreamRequest<P: Protocol> {
    pub engine: Arc<Engine<P>>,
    pub tls: Option<Tls>,
    pub state: Rc<State>,
    pub payload: Payload,
    /// Of the first attempt, in milliseconds of [`clock::mono_ms`].
    pub started_ms: u64,
    /// A process ended over it, and another one was asked ([`ProcessPool`](crate::backend::ProcessPool)).
    pub was_retried: Cell<bool>,
    ask: Ask,
    way: P::Way,
    shape: BodyShape,
}

/// What a module's decision means for a request that was to be asked. The module has logged its reason.
/// Any other flow has no status to be told: the connection is closed, which nginx logs as 499.
fn decided(flow: Flow) -> Failure {
    match flow {
        Flow::Status(status) => Failure::decided(status),
        _ => Failure::decided(499).scope_is(Scope::Connection),
    }
}

impl<P: Protocol> UpstreamRequest<P> {
    /// The request, and the peers that the module has found for it; `payload` is its body. The error has been logged.
    pub fn new(
        engine: Arc<Engine<P>>,
        r: &mut Request,
        ask: Ask,
        mut payload: Payload,
    ) -> Result<(UpstreamRequest<P>, Peers), Failure> {
        // Before the body is lent out: afterwards its length is not told.
        let shape = payload.shape(r);
        if let Payload::Client(body, _) = &mut payload {
            *body = Some(r.lend_body());
        }
        let Target { peers, tls, way, scheme, uri } = engine.protocol.target(r, &ask).map_err(decided)?;
        let state = State::begin(r, scheme, uri);
        let started_ms = clock::mono_ms();
        // One for all attempts: a request that makes its process end must not go through the whole pool.
        let was_retried = Cell::new(false);
        let request =
            UpstreamRequest { engine, tls, state, payload, started_ms, was_retried, ask, way, shape };
        Ok((request, peers))
    }

    /// The location's settings.
    pub fn settings(&self) -> &Settings {
        self.engine.protocol.settings()
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
        // Made anew for each attempt: a codec is used up by its exchange.
        let codec = match self.engine.protocol.codec(r, &self.way, &self.ask, self.shape) {
            // A value in it could not be found out.
            Ok(_) if r.state.shared.vars.have_failed() => return Err((peer, Failure::decided(500))),
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
        // Charged to the client's connection: many large requests of one client are one sum.
        r.client.also_holds(exchange.unsent());
        Ok(Box::new(exchange))
    }

    /// What a connection must be like.
    pub fn key(&self, r: &Request, peer: &ChosenPeer) -> Key {
        let endpoint = peer.info().map(|peer| peer.endpoint.clone());
        Key {
            // Besides the address: two groups may name one server and keep its connections by other rules.
            // An id is unique in the process and new with each configuration, so a connection of an earlier
            // one never fits.
            group: peer.group.id(),
            // An attempt has a place at its peer until it ends.
            endpoint: endpoint.unwrap_or_else(|| Endpoint::Unix(PathBuf::new())),
            location: if peer.keepalive.local { self.engine.id } else { 0 },
            bind: connect::bind_of(self.settings(), r),
            // A connection that was verified for one name is not used for another.
            tls: self.tls.as_ref().map(|tls| tls.identity.clone()),
            // Two modules may pass to one group: what is HTTP/1.1 to one connection is no frame to another.
            dialect: self.engine.protocol.dialect(),
        }
    }

    /// Whether the request ends when the client goes: nobody else wants its response.
    pub fn watches_client(&self) -> bool {
        // A cache, or a file, gets the answer to its end even if this client has gone.
        !self.ask.cacheable
            && !self.settings().ignore_client_abort
            && matches!(self.settings().store, Store::Off)
    }

    /// Passes a `103` on; other interim answers are between the back end and us.
    pub fn pass_hints(&self, r: &mut Request, head: &BackendHead, bytes: &mut u64) {
        // 100 is between the two hops; 102 and others would be news to clients that did not ask for them.
        if head.status != 103 {
            return;
        }
        *bytes += head.len() as u64;
        // The sum is bounded as a head is.
        if *bytes > self.settings().buffer_size {
            // Hints only: the answer behind them is good, so the request goes on, as in nginx.
            rlog!(r, Info, "upstream sent too big early hints while reading response header from upstream");
            return;
        }
        // Fields about the connection to the back end say nothing of the client's (RFC 9110 §7.6.1).
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
