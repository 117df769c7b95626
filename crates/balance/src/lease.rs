//! One attempt at a peer, from its choice to its end.

use crate::group::Group;
use crate::least;
use crate::method::Until;
use crate::peer::{Clock, Peer, PeerId, PeerInfo, Stats};
use std::any::Any;
use std::cell::OnceCell;
use std::sync::Arc;

/// A place at a peer: counts as one of its connections until it is given back or dropped.
pub struct Lease {
    /// The peer.
    pub peer: Arc<PeerInfo>,
    group: Arc<Group>,
    /// Counted among the requests that wait for this peer's answer (`least_time … inflight`).
    pub(crate) inflight: bool,
    is_open: bool,
    rider: OnceCell<Box<dyn Any + Send>>,
}

/// A peer that was leased, for one more place without a choice.
#[derive(Clone)]
pub struct Seat {
    peer: Arc<PeerInfo>,
    group: Arc<Group>,
}

impl Seat {
    /// One more place at the peer, whatever its limit says: something occupies it that no request asks for.
    pub fn occupy(&self) -> Lease {
        if let Some(peer) = self.group.lock().peer_mut(self.peer.id) {
            peer.conns += 1;
        }
        Lease::new(self.peer.clone(), self.group.clone(), false)
    }
}

impl Group {
    /// A place at this peer, for whoever knows which one it must be; `None`: it is gone, taken out of service, or full. That it has
    /// failed lately turns nobody away: there is no other one in its place.
    pub fn lease(self: &Arc<Group>, id: PeerId) -> Option<Lease> {
        let mut state = self.lock();
        let peer = state.peer_mut(id).filter(|peer| peer.is_in_service() && !peer.is_full())?;
        peer.conns += 1;
        Stats::add(&peer.info.stats.requests, 1);
        Some(Lease::new(peer.info.clone(), self.clone(), false))
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The peer has answered, or the client is gone.
    Ok,
    /// The answer is not wanted, but the peer is well (403, 404).
    Next,
    /// There is no answer, or one that counts as a failure.
    Failed,
}

/// How long an attempt took, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Until the connection was there; `None`: it is not known.
    pub connect_ms: Option<u64>,
    /// Until the header, or the first byte, was there; `None`: it never was.
    pub header_ms: Option<u64>,
    /// Until the end of the response.
    pub response_ms: u64,
}

impl Lease {
    pub(crate) fn new(peer: Arc<PeerInfo>, group: Arc<Group>, inflight: bool) -> Lease {
        Lease { peer, group, inflight, is_open: true, rider: OnceCell::new() }
    }

    /// Keeps a thing that is to be dropped when the attempt ends: before the client has the whole answer. Only the first
    /// one is kept so; others are dropped at once.
    pub fn carry(&self, rider: Box<dyn Any + Send>) {
        let _ = self.rider.set(rider);
    }

    /// The peer, for a further place.
    pub fn seat(&self) -> Seat {
        Seat { peer: self.peer.clone(), group: self.group.clone() }
    }

    /// The peer has not taken the connection, or has failed within it.
    pub fn failed(self, now_ms: u64) {
        self.finish(Outcome::Failed, Times::default(), Clock::at(now_ms));
    }

    /// The group that it is of.
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// The peer has taken the connection: where that alone is what is asked of it (streams), it is well again, and others may
    /// be sent to it before this attempt ends.
    pub fn connected(&self, now_ms: u64) {
        if let Some(peer) = self.group.lock().peer_mut(self.peer.id) {
            settle(peer, Outcome::Ok, Clock::at(now_ms));
        }
    }

    /// The response's header is there, `header_ms` after the attempt began. Only `least_time header` looks at it now.
    pub fn header_received(&mut self, header_ms: u64, now_ms: u64) {
        self.reached(Until::FirstByte, header_ms, now_ms);
    }

    /// The attempt has come so far, `took_ms` after it began.
    pub fn reached(&mut self, place: Until, took_ms: u64, now_ms: u64) {
        if !self.inflight {
            return;
        }
        let mut state = self.group.lock();
        if state.method.times().is_none_or(|times| times.until != place || place == Until::LastByte) {
            return;
        }
        if let Some(peer) = state.peer_mut(self.peer.id) {
            least::average(&mut peer.header_time, took_ms);
            least::inflight_done(peer, took_ms, Clock::at(now_ms));
        }
        drop(state);
        self.inflight = false;
    }

    /// Gives the place back.
    pub(crate) fn finish(mut self, outcome: Outcome, times: Times, now: Clock) -> Ended {
        self.is_open = false;
        let mut state = self.group.lock();
        let (method, is_single) = (state.method, state.is_single());
        state.wake_one();
        let inflight = self.inflight;
        let mut ended = Ended { was_only_one: is_single, is_disabled: false };
        let Some(peer) = state.peer_mut(self.peer.id) else { return ended };
        peer.conns = peer.conns.saturating_sub(1);
        if outcome == Outcome::Failed {
            Stats::add(&peer.info.stats.fails, 1);
        }
        if let Some(which) = method.times() {
            if inflight {
                least::inflight_done(peer, times.response_ms, now);
            }
            let header_ms = if which.until == Until::Connected { times.connect_ms } else { times.header_ms };
            if let (Outcome::Ok, Some(header_ms)) = (outcome, header_ms) {
                least::average(&mut peer.response_time, times.response_ms);
                if !which.inflight || which.until == Until::LastByte {
                    least::average(&mut peer.header_time, header_ms);
                }
            }
        }
        if is_single {
            peer.fails = 0;
            return ended;
        }
        ended.is_disabled = settle(peer, outcome, now);
        peer.note_downtime(now);
        ended
    }
}

/// What an attempt's end means for the next.
pub(crate) struct Ended {
    /// No other peer can be asked.
    pub was_only_one: bool,
    /// The peer is out of service for its failures now.
    pub is_disabled: bool,
}

/// Counts a failure, or forgives those that were.
fn settle(peer: &mut Peer, outcome: Outcome, now: Clock) -> bool {
    if outcome != Outcome::Failed {
        // The peer was tried again after its pause, and has answered.
        if peer.accessed < peer.checked {
            if peer.max_fails > 0 && peer.fails >= peer.max_fails {
                peer.comes_back(now);
            }
            peer.fails = 0;
        }
        return false;
    }
    let was_disabled = peer.max_fails > 0 && peer.fails >= peer.max_fails;
    peer.fails = peer.fails.saturating_add(1);
    (peer.accessed, peer.checked) = (now.secs, now.secs);
    if peer.max_fails == 0 {
        return false;
    }
    let loss = peer.weight / crate::peer::SCALE / i64::from(peer.max_fails) * crate::peer::SCALE;
    peer.effective = (peer.effective - loss).max(0);
    let is_disabled = peer.fails >= peer.max_fails;
    if is_disabled && !was_disabled {
        Stats::add(&peer.info.stats.unavail, 1);
    }
    is_disabled
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        let mut state = self.group.lock();
        if let Some(peer) = state.peer_mut(self.peer.id) {
            peer.conns = peer.conns.saturating_sub(1);
            if self.inflight {
                peer.inflight = peer.inflight.saturating_sub(1);
                if peer.inflight == 0 {
                    peer.inflight_last = 0;
                }
            }
        }
        state.wake_one();
    }
}
