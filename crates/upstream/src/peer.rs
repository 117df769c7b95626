//! The peer that an attempt has been given: its place there, from the choice to the end of the response.

use crate::backend::{Backend, Keepalive};
use crate::state::State;
use brisk_balance::{Lease, Outcome, PeerInfo, Selection, Stats, Times};
use brisk_net::clock;
use std::rc::Rc;
use std::sync::Arc;

/// See the module's head. Dropping it ends the attempt as one that the peer is not to blame for.
pub struct ChosenPeer {
    /// The place at the peer, and where the next attempt goes on; `None` once the attempt has ended.
    place: Option<(Selection, Lease)>,
    /// The group that the peer belongs to.
    pub group: Arc<dyn Backend>,
    /// How its connections are kept.
    pub keepalive: Keepalive,
    /// What variables tell of the attempt.
    pub state: Rc<State>,
    started_ms: u64,
    header_ms: Option<u64>,
}

/// What is left when an attempt has ended.
pub(crate) struct Ended {
    /// For the next attempt.
    pub selection: Selection,
    /// The peer is out of service now, for its failures.
    pub is_disabled: bool,
}

impl ChosenPeer {
    /// A peer that `selection` has just given.
    pub fn new(selection: Selection, lease: Lease, group: Arc<dyn Backend>, state: Rc<State>) -> ChosenPeer {
        // Read once: the rules by which a connection was taken are those by which it is put back.
        let (keepalive, started_ms) = (group.keepalive(), clock::mono_ms());
        ChosenPeer { place: Some((selection, lease)), group, keepalive, state, started_ms, header_ms: None }
    }

    /// The place at the peer, until the attempt ends.
    pub fn lease(&self) -> Option<&Lease> {
        self.place.as_ref().map(|(_, lease)| lease)
    }

    /// The peer, until the attempt ends.
    pub fn info(&self) -> Option<&Arc<PeerInfo>> {
        self.lease().map(|lease| &lease.peer)
    }

    /// Where the next attempt would go on.
    pub fn selection(&self) -> Option<&Selection> {
        self.place.as_ref().map(|(selection, _)| selection)
    }

    /// Milliseconds since the attempt began.
    pub fn elapsed_ms(&self) -> u64 {
        clock::mono_ms().saturating_sub(self.started_ms)
    }

    /// The response's head has come.
    pub fn head_received(&mut self, status: u16) {
        let elapsed = self.elapsed_ms();
        self.header_ms = Some(elapsed);
        // Any status: a peer that answers 500 has answered. Whether that counts as a failure is decided when
        // the attempt ends.
        if let Some((_, lease)) = &mut self.place {
            lease.peer.stats.answered(status);
            // For `least_time header`, which goes by this one and not by the end of the body.
            lease.header_received(elapsed, clock::mono_ms());
        }
        self.state.note(|attempt| {
            attempt.header_ms = Some(elapsed);
            attempt.status = status;
        });
    }

    /// Ends the attempt; `None` if it had ended before.
    pub(crate) fn finish(&mut self, outcome: Outcome) -> Option<Ended> {
        let elapsed = self.elapsed_ms();
        // Taken: an attempt ends once, however many ways lead here.
        let (mut selection, lease) = self.place.take()?;
        let stats = &lease.peer.stats;
        self.state.note(|attempt| {
            // The first end counts: a tunnel or a body that was given up may be finished again by its drop.
            attempt.response_ms.get_or_insert(elapsed);
            Stats::add(&stats.sent_bytes, attempt.sent);
            Stats::add(&stats.received_bytes, attempt.received);
        });
        let times = Times { header_ms: self.header_ms, response_ms: elapsed, ..Times::default() };
        // Gives the place back to the peer and judges it (`max_fails`) in one step, so that counters cannot drift.
        let is_disabled = selection.finish(lease, outcome, times, clock::mono_ms());
        Some(Ended { selection, is_disabled })
    }
}

impl Drop for ChosenPeer {
    fn drop(&mut self) {
        // A client that goes, or a configuration that ends, says nothing about the peer.
        // A second call finds no place, and does nothing.
        self.finish(Outcome::Ok);
    }
}
