//! One attempt's place in its group: from the choice of a server to the end of its answer.

use crate::backend::{Backend, Keepalive};
use crate::exchange::Exchange;
use crate::pool;
use crate::state::State;
use brisk_balance::{Lease, Outcome, Selection, Stats, Times};
use brisk_net::clock;
use std::rc::Rc;
use std::sync::Arc;

/// See the module's head. Dropping it ends the attempt as one that the server is not to blame for.
pub struct Turn {
    pub selection: Option<Selection>,
    pub lease: Option<Lease>,
    pub group: Arc<dyn Backend>,
    pub keepalive: Keepalive,
    pub state: Rc<State>,
    pub started_ms: u64,
    pub header_ms: Option<u64>,
}

impl Turn {
    /// Milliseconds since the attempt began.
    pub fn elapsed_ms(&self) -> u64 {
        clock::mono_ms().saturating_sub(self.started_ms)
    }

    /// Ends the attempt. True if the server is out of service for its failures now.
    pub fn finish(&mut self, outcome: Outcome) -> bool {
        let elapsed = self.elapsed_ms();
        self.state.note(|attempt| {
            attempt.response_ms.get_or_insert(elapsed);
        });
        let Some(lease) = self.lease.take() else { return false };
        let stats = &lease.peer.stats;
        self.state.note(|attempt| {
            Stats::add(&stats.sent_bytes, attempt.sent);
            Stats::add(&stats.received_bytes, attempt.received);
        });
        let times = Times { header_ms: self.header_ms, response_ms: elapsed };
        match &mut self.selection {
            Some(selection) => selection.finish(lease, outcome, times, clock::mono_ms()),
            None => false,
        }
    }

    /// The answer is complete: the connection is kept, if it may be.
    pub fn complete(mut self: Box<Self>, exchange: Box<Exchange>) {
        self.finish(Outcome::Ok);
        if let Some(link) = exchange.into_link() {
            pool::put(link, &self.group, &self.keepalive);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.lease.is_some() {
            self.finish(Outcome::Ok);
        }
    }
}
