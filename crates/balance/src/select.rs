//! One request's way through the peers of a group.

use crate::group::{Group, State};
use crate::hash;
use crate::lease::{Lease, Outcome, Times};
use crate::least;
use crate::limits::ROUNDS_MAX;
use crate::method::{Measure, Method};
use crate::peer::{Clock, Peer, PeerId, Stats};
use crate::random::Random;
use crate::round_robin;
use crate::set::Tried;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a choice may depend on.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// The value of `hash`.
    pub key: Vec<u8>,
    /// For `ip_hash`; `None` for clients of Unix sockets.
    pub client: Option<IpAddr>,
    /// The session's peer, by its sticky number or route.
    pub own: Option<Arc<str>>,
    /// For `random`: anything.
    pub seed: u64,
}

/// A request's choice of peers: one after the other until it is answered.
pub struct Selection {
    group: Arc<Group>,
    method: Method,
    ask: Ask,
    tried: Tried,
    /// The set that is asked: once on backups, always on backups.
    set: usize,
    tries: u32,
    rounds: u32,
    /// `ip_hash`: the value so far; `hash`: the sum.
    hash: u32,
    /// `consistent`: steps on the circle.
    steps: usize,
    random: Random,
}

impl Selection {
    /// Before the first choice for a request; `now_ms` is monotonic.
    pub fn new(group: Arc<Group>, ask: Ask, now_ms: u64) -> Selection {
        group.requests.fetch_add(1, Ordering::Relaxed);
        let (method, tries) = {
            let mut state = group.lock();
            state.budget.request(now_ms);
            (state.method, state.tries())
        };
        let hash = if method == Method::IpHash { 89 } else { 0 };
        let random = Random::new(ask.seed);
        let (tried, set, rounds, steps) = (Tried::default(), 0, 0, 0);
        Selection { group, method, ask, tried, set, tries, rounds, hash, steps, random }
    }

    /// The group that is chosen from.
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// Attempts that are left.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// `proxy_next_upstream_tries`.
    pub fn limit_tries(&mut self, most: u32) {
        self.tries = self.tries.min(most);
    }

    /// Only these peers may be asked: those that have the role that is wanted.
    pub fn restrict(&mut self, only: &[PeerId]) {
        self.tried.restrict(only);
    }

    /// A kept connection was closed by its peer before it could answer: the attempt does not count.
    pub fn add_try(&mut self) {
        self.tries += 1;
    }

    /// After waiting for a free peer: all are asked again.
    pub fn restart(&mut self) {
        self.tried.clear();
        (self.set, self.rounds, self.steps) = (0, 0, 0);
        self.hash = if self.method == Method::IpHash { 89 } else { 0 };
    }

    /// Binds the request to a peer (`sticky`) from now on.
    pub fn belongs_to(&mut self, own: Option<Arc<str>>) {
        self.ask.own = own;
    }

    /// The next peer to ask; `None`: none can be asked now.
    pub fn next(&mut self, now_ms: u64) -> Option<Lease> {
        let now = Clock::at(now_ms);
        let group = self.group.clone();
        let mut state = group.lock();
        loop {
            if let Some(at) = self.choose(&mut state, now) {
                return Some(self.take(&group, &mut state, at, now));
            }
            // Another set has other peers: none of them was tried.
            if self.set == 1 || state.sets[1].peers.is_empty() {
                return None;
            }
            self.set = 1;
            self.tried.clear();
        }
    }

    /// Ends an attempt. True if the peer is taken out of service for its failures.
    pub fn finish(&mut self, lease: Lease, outcome: Outcome, times: Times, now_ms: u64) -> bool {
        let ended = lease.finish(outcome, times, Clock::at(now_ms));
        self.tries = if ended.was_only_one { 0 } else { self.tries.saturating_sub(1) };
        ended.is_disabled
    }

    fn choose(&mut self, state: &mut State, now: Clock) -> Option<usize> {
        let set = self.set;
        let own = self.own(state, now);
        if state.is_single() {
            let peer = &state.sets[0].peers[0];
            let may_be = self.tried.may_be(peer.info.id);
            let is_free = may_be && self.set == 0 && peer.is_in_service() && !peer.is_full();
            return own.or(is_free.then_some(0));
        }
        if let Some(only) = self.tried.only_one() {
            return self.only(&state.sets[set].peers, only);
        }
        if state.sets[set].peers.is_empty() {
            return None;
        }
        if own.is_some() && !matches!(self.method, Method::RoundRobin) {
            return own;
        }
        // Methods with keys and draws know no backups.
        let method = if set == 1 && !self.method.knows_backup() { Method::RoundRobin } else { self.method };
        match method {
            Method::RoundRobin => round_robin::choose(&mut state.sets[set], &self.tried, own, now),
            Method::LeastConn => {
                least::choose(&mut state.sets[set], &self.tried, now, |peer| u64::from(peer.conns))
            }
            Method::LeastTime(which) => {
                let load = |peer: &mut _| least::expected_ms(peer, which, now);
                least::choose(&mut state.sets[set], &self.tried, now, load)
            }
            Method::IpHash | Method::Hash { consistent: false } => self.by_hash(state, now),
            Method::Hash { consistent: true } => self.on_circle(state, now),
            Method::Random { two: None } => self.draw_one(state, now),
            Method::Random { two: Some(measure) } => self.draw_two(state, measure, now),
        }
    }

    /// A peer beside which no other has the wanted role. A check watches it, so that single failures do not keep it out
    /// (`max_fails`), as they do not where it is the group's only one.
    fn only(&self, peers: &[Peer], only: PeerId) -> Option<usize> {
        let at = peers.iter().position(|peer| peer.info.id == only)?;
        let is_free = !self.tried.is_tried(only) && peers[at].is_in_service() && !peers[at].is_full();
        is_free.then_some(at)
    }

    /// The peer that the request belongs to, if it can be asked.
    fn own(&self, state: &State, now: Clock) -> Option<usize> {
        let own = self.ask.own.as_ref()?;
        let peers = &state.sets[self.set].peers;
        let at = peers.iter().position(|peer| peer.info.sid == *own)?;
        let peer = &peers[at];
        let is_free = if state.is_single() {
            peer.admin != crate::Admin::Down && peer.health() == crate::Health::Good && !peer.is_full()
        } else {
            peer.takes_its_own(now)
        };
        (!self.tried.has(peer.info.id) && is_free).then_some(at)
    }

    fn take(&mut self, group: &Arc<Group>, state: &mut State, at: usize, now: Clock) -> Lease {
        let inflight = state.method.times().is_some_and(|times| times.inflight);
        let peer = &mut state.sets[self.set].peers[at];
        self.tried.add(peer.info.id);
        peer.conns += 1;
        peer.selected_ms = Some(now.ms);
        Stats::add(&peer.info.stats.requests, 1);
        if now.secs.saturating_sub(peer.checked) > peer.fail_timeout {
            peer.checked = now.secs;
        }
        if inflight {
            least::inflight_begins(peer, now);
        }
        peer.note_downtime(now);
        Lease::new(peer.info.clone(), group.clone(), inflight)
    }

    fn can_ask(&self, state: &State, at: usize, now: Clock) -> bool {
        let peer = &state.sets[self.set].peers[at];
        !self.tried.has(peer.info.id) && peer.is_available(now)
    }

    fn by_hash(&mut self, state: &mut State, now: Clock) -> Option<usize> {
        let is_ip = self.method == Method::IpHash;
        let mut hash = self.hash;
        let address = hash::address_bytes(self.ask.client);
        let is_alone = state.sets[self.set].peers.len() < 2;
        while self.rounds <= ROUNDS_MAX && !is_alone && (is_ip || !self.ask.key.is_empty()) {
            let number = if is_ip {
                hash = hash::ip_round(hash, &address);
                hash
            } else {
                hash = hash.wrapping_add(hash::key_round(&self.ask.key, self.steps as u32));
                self.steps += 1;
                self.hash = hash;
                hash
            };
            let at = hash::by_weight(&state.sets[self.set], u64::from(number));
            if self.can_ask(state, at, now) {
                self.hash = hash;
                return Some(at);
            }
            self.rounds += 1;
        }
        round_robin::choose(&mut state.sets[self.set], &self.tried, None, now)
    }

    fn on_circle(&mut self, state: &mut State, now: Clock) -> Option<usize> {
        if self.ask.key.is_empty() {
            return round_robin::choose(&mut state.sets[self.set], &self.tried, None, now);
        }
        let points = match &state.points {
            Some((generation, points)) if *generation == state.generation => points.clone(),
            _ => {
                let points = Arc::new(hash::Points::new(&state.sets[0]));
                state.points = Some((state.generation, points.clone()));
                points
            }
        };
        let start = points.place_of(&self.ask.key);
        while self.rounds <= ROUNDS_MAX {
            let server = points.server(start + self.steps)?;
            let found = hash::of_server(&mut state.sets[self.set], server, &self.tried, now);
            if found.is_some() {
                return found;
            }
            self.steps += 1;
            self.rounds += 1;
        }
        round_robin::choose(&mut state.sets[self.set], &self.tried, None, now)
    }

    fn draw_one(&mut self, state: &mut State, now: Clock) -> Option<usize> {
        while self.rounds <= ROUNDS_MAX && state.sets[self.set].peers.len() > 1 {
            let at = hash::by_weight(&state.sets[self.set], self.random.next() >> 1);
            if self.can_ask(state, at, now) {
                return Some(at);
            }
            self.rounds += 1;
        }
        round_robin::choose(&mut state.sets[self.set], &self.tried, None, now)
    }

    fn draw_two(&mut self, state: &mut State, measure: Measure, now: Clock) -> Option<usize> {
        let mut first: Option<usize> = None;
        while self.rounds <= ROUNDS_MAX && state.sets[self.set].peers.len() > 1 {
            let at = hash::by_weight(&state.sets[self.set], self.random.next() >> 1);
            if first != Some(at) && self.can_ask(state, at, now) {
                let Some(before) = first else {
                    first = Some(at);
                    continue;
                };
                let set = &mut state.sets[self.set];
                let load = |at: usize| match measure {
                    Measure::Connections => u64::from(set.peers[at].conns),
                    Measure::Time(which) => least::estimate(&set.peers[at], which, now),
                };
                let weight = |at: usize| set.peers[at].weight as u64;
                let is_worse = load(at) * weight(before) > load(before) * weight(at);
                return Some(if is_worse { before } else { at });
            }
            self.rounds += 1;
        }
        round_robin::choose(&mut state.sets[self.set], &self.tried, None, now)
    }
}

impl Drop for Selection {
    fn drop(&mut self) {
        self.group.requests.fetch_sub(1, Ordering::Relaxed);
    }
}
