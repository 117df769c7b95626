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
        let Some(payload) = Payload::at_hand(self, r) else {
            return Flow::Wait(Box::new(move |r| {
                Box::pin(async move {
                    let result = fetch::fetch(engine.clone(), r, Ask::default()).await;
                    respond::conclude(&engine.protocol, r, result)
                })
            }));
        };
        match Fetch::begin(engine, r, Ask::default(), payload) {
            Ok(fetch) => Flow::Pending(fetch),
            Err(failure) => failure::flow(&failure, r),
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
