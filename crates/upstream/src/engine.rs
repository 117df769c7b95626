//! A location that passes requests on: the engine with a module's [`Protocol`] in it.

use crate::fetch::{self, Fetch};
use crate::head::BackendHead;
use crate::origin::{Ask, FetchFuture, Fetched, Origin};
use crate::payload::Payload;
use crate::protocol::Protocol;
use crate::respond;
use brisk_net::{Cause, Failure};
use brisk_server::failure;
use brisk_server::flow::Flow;
use brisk_server::request::Request;
use brisk_server::response::Body;
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

    /// The content handler of a location without a cache. A request whose body need not be read first needs no future.
    pub fn handle(self: &Arc<Self>, r: &mut Request) -> Flow {
        let engine = self.clone();
        let Some(payload) = Payload::at_hand(self, r) else {
            return Flow::Wait(Box::new(move |r| {
                Box::pin(async move {
                    let result = fetch::fetch(engine.clone(), r, Ask::default()).await;
                    engine.conclude(r, result)
                })
            }));
        };
        match Fetch::begin(engine, r, Ask::default(), payload) {
            Ok(fetch) => Flow::Pending(fetch),
            Err(failure) => failure::flow(&failure, r),
        }
    }

    /// The back end's answer, or what became of it, is the response's.
    pub(crate) fn conclude(&self, r: &mut Request, result: Result<Fetched, Failure>) -> Flow {
        match result {
            Ok(fetched) => {
                let stored = crate::store::wrap(self.protocol.settings(), r, fetched);
                r.resp.tunnel = stored.tunnel;
                r.resp.is_judged = true;
                respond::respond(&self.protocol, r, &stored.head, stored.length, stored.body)
            }
            Err(failure) => failed(r, &failure),
        }
    }
}

/// What a handler returns if there is no response.
fn failed(r: &mut Request, failure: &Failure) -> Flow {
    let status = failure::status(failure);
    let is_intercepted = r.core().error_pages.iter().any(|page| page.codes.contains(&status));
    if !matches!(failure.cause(), Cause::UnaskedUpgrade) || is_intercepted {
        return failure::flow(failure, r);
    }
    // nginx closes the connection, and its tests (proxy_upgrade.t) count the bytes of a body: there are none.
    r.resp.status = status;
    r.resp.content_length = Some(0);
    Flow::Done
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
