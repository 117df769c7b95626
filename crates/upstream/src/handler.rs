//! A location that passes requests on, as the phases call it, and as a cache calls it.

use crate::engine::Engine;
use crate::fetch::{self, Fetch};
use crate::head::BackendHead;
use crate::origin::{Ask, FetchFuture, Origin};
use crate::payload::Payload;
use crate::protocol::Protocol;
use crate::respond;
use brisk_server::failure;
use brisk_server::flow::Flow;
use brisk_server::request::Request;
use brisk_server::response::Body;
use std::sync::Arc;

impl<P: Protocol> Engine<P> {
    /// The content handler of a location without a cache. A request whose body need not be read first needs no future.
    pub fn handle(self: &Arc<Self>, r: &mut Request) -> Flow {
        let engine = self.clone();
        // A body must be read, which takes a future: the request then leaves its connection's table entry for a task.
        let Some(payload) = Payload::at_hand(self, r) else {
            return Flow::Wait(Box::new(move |r| {
                Box::pin(async move {
                    let result = fetch::fetch(engine.clone(), r, Ask::default()).await;
                    respond::conclude(&engine.protocol, r, result)
                })
            }));
        };
        match Fetch::begin(engine, r, Ask::default(), payload) {
            // Polled by the driver of the client's connection: no task, no allocation but this one.
            Ok(fetch) => Flow::Pending(fetch),
            // It failed before a peer was chosen (a variable, the configuration): there is nothing to be retried.
            Err(failure) => failure::flow(&failure, r),
        }
    }
}

// A cache names no protocol: it has this trait object, and asks only when no stored answer may be given out.
impl<P: Protocol> Origin for Engine<P>
where
    P: Send + Sync,
{
    // A cache waits for the answer in any case, so a boxed future costs it nothing more.
    fn fetch(self: Arc<Self>, r: &mut Request, ask: Ask) -> FetchFuture<'_> {
        Box::pin(fetch::fetch(self, r, ask))
    }

    fn reads_body_first(&self, r: &Request) -> bool {
        // A cache asks before it waits behind others: the client's body must be taken before its time-out.
        !Payload::can_stream(self, r)
    }

    // An answer out of the cache has no exchange: head, length and body are all that a response is made of.
    fn respond(&self, r: &mut Request, head: &Arc<BackendHead>, length: Option<u64>, body: Body) -> Flow {
        respond::respond(&self.protocol, r, head, length, body)
    }

    // The cache judges by the same fields: what the engine is told to ignore must not make an answer stored, or expire.
    fn ignored(&self) -> u32 {
        self.protocol.settings().ignore_headers
    }

    fn default_key(&self, r: &Request, out: &mut Vec<u8>) {
        self.protocol.default_key(r, out);
    }
}
