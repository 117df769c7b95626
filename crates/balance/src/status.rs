//! What can be told of a group, and changed in it, while it is in use.

use crate::checks::{Check, CheckId, Health};
use crate::group::{Group, Server};
use crate::peer::{Admin, Clock, Peer, PeerId, PeerInfo, SCALE, ServerSpec, Stats};
use std::sync::Arc;

/// Whether a peer can be asked, in nginx Plus's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// It gets requests.
    Up,
    /// It gets only requests of sessions that are bound to it.
    Draining,
    /// The administrator has put it out of service.
    Down,
    /// Out of service for its failures.
    Unavail,
    /// Its first mandatory check has not passed yet.
    Checking,
    /// It has failed its checks.
    Unhealthy,
}

impl PeerState {
    /// All of them.
    pub const ALL: [PeerState; 6] = [
        PeerState::Up,
        PeerState::Draining,
        PeerState::Down,
        PeerState::Unavail,
        PeerState::Checking,
        PeerState::Unhealthy,
    ];

    /// As nginx Plus's API has it.
    pub fn as_str(self) -> &'static str {
        match self {
            PeerState::Up => "up",
            PeerState::Draining => "draining",
            PeerState::Down => "down",
            PeerState::Unavail => "unavail",
            PeerState::Checking => "checking",
            PeerState::Unhealthy => "unhealthy",
        }
    }
}

/// A peer as it is now.
#[derive(Clone, Debug)]
pub struct PeerStatus {
    /// What does not change of it, and what it has done.
    pub info: Arc<PeerInfo>,
    /// The server that it comes from.
    pub parent: PeerId,
    /// Whether it can be asked.
    pub state: PeerState,
    /// Its share of requests.
    pub weight: u32,
    /// Connections that are in use.
    pub active: u32,
    /// The most connections at a time; 0: any number.
    pub max_conns: u32,
    /// Averages; `None`: not known.
    pub header_ms: Option<u64>,
    /// Until the end of responses.
    pub response_ms: Option<u64>,
    /// For how long it has been out of service, all times together.
    pub downtime_ms: u64,
    /// Monotonic.
    pub down_since_ms: Option<u64>,
    /// When it was chosen last; monotonic.
    pub selected_ms: Option<u64>,
    /// The result of the last active check; `None`: there was none.
    pub last_check_passed: Option<bool>,
}

/// A server as configured or added.
#[derive(Clone, Debug)]
pub struct ServerStatus {
    /// Its number in the group.
    pub id: PeerId,
    /// Its parameters.
    pub spec: ServerSpec,
    /// The server that this one's address was looked up for.
    pub parent: Option<PeerId>,
}

/// Parameters of a server to be changed; `None`: as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// `weight=`.
    pub weight: Option<u32>,
    /// `max_conns=`.
    pub max_conns: Option<u32>,
    /// `max_fails=`.
    pub max_fails: Option<u32>,
    /// `fail_timeout=`.
    pub fail_timeout_secs: Option<u64>,
    /// `slow_start=`.
    pub slow_start_ms: Option<u64>,
    /// `down`.
    pub down: Option<bool>,
    /// `drain`.
    pub drain: Option<bool>,
    /// `route=`; the inner `None` removes it.
    pub route: Option<Option<Arc<str>>>,
}

/// There is no server of that number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchServer;

impl Change {
    /// Changes a server's parameters.
    pub fn apply(&self, spec: &mut ServerSpec) {
        fn set<T: Clone>(to: &mut T, from: Option<&T>) {
            if let Some(from) = from {
                to.clone_from(from);
            }
        }
        set(&mut spec.weight, self.weight.as_ref());
        set(&mut spec.max_conns, self.max_conns.as_ref());
        set(&mut spec.max_fails, self.max_fails.as_ref());
        set(&mut spec.fail_timeout_secs, self.fail_timeout_secs.as_ref());
        set(&mut spec.slow_start_ms, self.slow_start_ms.as_ref());
        set(&mut spec.down, self.down.as_ref());
        set(&mut spec.drain, self.drain.as_ref());
        set(&mut spec.route, self.route.as_ref());
    }
}

impl Group {
    /// All peers, those that are backups last.
    pub fn peers(&self, now_ms: u64) -> Vec<PeerStatus> {
        let now = Clock::at(now_ms);
        let mut state = self.lock();
        let peers = state.sets.iter_mut().flat_map(|set| &mut set.peers);
        let mut all: Vec<PeerStatus> = peers.map(|peer| status(peer, now)).collect();
        all.sort_by_key(|peer| peer.info.id);
        all
    }

    /// The servers as configured, and those whose addresses were looked up for them.
    pub fn servers(&self) -> Vec<ServerStatus> {
        let state = self.lock();
        let mut all = Vec::new();
        for Server { id, spec, .. } in &state.servers {
            all.push(ServerStatus { id: *id, spec: spec.clone(), parent: None });
            for peer in state.peers().filter(|peer| peer.parent == *id && peer.info.id != *id) {
                let mut own = spec.clone();
                own.server = peer.info.name.clone();
                own.weight = (peer.weight / SCALE) as u32;
                all.push(ServerStatus { id: peer.info.id, spec: own, parent: Some(*id) });
            }
        }
        all.sort_by_key(|server| server.id);
        all
    }

    /// The parameters of the servers, to be kept in a file.
    pub fn specs(&self) -> Vec<ServerSpec> {
        self.lock().servers.iter().map(|server| server.spec.clone()).collect()
    }

    /// Adds a server; returns its number.
    pub fn add(&self, spec: ServerSpec) -> PeerId {
        self.lock().add(spec)
    }

    /// Changes a server and its peers.
    pub fn change(&self, id: PeerId, change: &Change, now_ms: u64) -> Result<(), NoSuchServer> {
        let mut state = self.lock();
        let at = state.servers.iter().position(|server| server.id == id).ok_or(NoSuchServer)?;
        change.apply(&mut state.servers[at].spec);
        state.reconfigure(at, Clock::at(now_ms));
        Ok(())
    }

    /// Takes a server away. Requests that it is answering are not disturbed.
    pub fn remove(&self, id: PeerId) -> Result<(), NoSuchServer> {
        let mut state = self.lock();
        let at = state.servers.iter().position(|server| server.id == id).ok_or(NoSuchServer)?;
        state.remove(at);
        Ok(())
    }

    /// All counts begin anew.
    pub fn reset_stats(&self) {
        let mut state = self.lock();
        for peer in state.sets.iter_mut().flat_map(|set| &mut set.peers) {
            peer.info.stats.reset();
            (peer.downtime_ms, peer.selected_ms) = (0, None);
        }
    }

    /// The checks of another configuration take the place of those that there were. Peers go on from what is known of them; see
    /// [`Check`]. Without checks all are good: what was once said must not keep one out of service for ever.
    pub fn begin_checks(&self, checks: &[Check]) {
        let mut state = self.lock();
        let state = &mut *state;
        let before = std::mem::replace(&mut state.checks, checks.to_vec());
        for peer in state.sets.iter_mut().flat_map(|set| &mut set.peers) {
            let was_checked = peer.last_check_passed.is_some();
            peer.verdicts = peer.verdicts.carried_over(&before, checks, was_checked);
            if checks.is_empty() {
                peer.last_check_passed = None;
            }
        }
        state.wake_one();
    }

    /// What a check says of a peer; `None` if there is no such peer, or the check belongs to a configuration that has ended.
    pub fn verdict(&self, id: PeerId, check: CheckId) -> Option<Health> {
        let mut state = self.lock();
        let at = state.checks.iter().position(|have| have.id == check)?;
        state.peer_mut(id).map(|peer| peer.verdicts.of_check(at))
    }

    /// What an active check has found, and what it says of the peer from now on. Returns whether that has changed the peer's state,
    /// which is the worst of what all checks say.
    pub fn checked(&self, id: PeerId, check: CheckId, passed: bool, health: Health, now_ms: u64) -> bool {
        let now = Clock::at(now_ms);
        let mut state = self.lock();
        // An answer that comes after its configuration has ended says nothing.
        let Some(at) = state.checks.iter().position(|have| have.id == check) else { return false };
        let Some(peer) = state.peer_mut(id) else { return false };
        Stats::add(&peer.info.stats.checks, 1);
        Stats::add(&peer.info.stats.check_fails, u64::from(!passed));
        peer.last_check_passed = Some(passed);
        let before = peer.health();
        peer.verdicts.set(at, health);
        let health = peer.health();
        if before != health {
            match health {
                Health::Bad => Stats::add(&peer.info.stats.unhealthy, 1),
                Health::Good => {
                    // A peer that was only waiting for its first check was not away: it needs no slow start.
                    if before == Health::Bad {
                        peer.comes_back(now);
                    }
                    peer.fails = 0;
                }
                Health::Checking => {}
            }
        }
        peer.note_downtime(now);
        let changed = before != health;
        if changed {
            state.wake_one();
        }
        changed
    }
}

fn status(peer: &mut Peer, now: Clock) -> PeerStatus {
    peer.note_downtime(now);
    let state = match (peer.admin, peer.health()) {
        (Admin::Down, _) => PeerState::Down,
        (_, Health::Bad) => PeerState::Unhealthy,
        (_, Health::Checking) => PeerState::Checking,
        (Admin::Drain, Health::Good) => PeerState::Draining,
        _ if peer.has_failed_lately(now) => PeerState::Unavail,
        _ => PeerState::Up,
    };
    let known = |time: u64| (time > 0).then_some(time);
    PeerStatus {
        info: peer.info.clone(),
        parent: peer.parent,
        state,
        weight: (peer.weight / SCALE) as u32,
        active: peer.conns,
        max_conns: peer.max_conns,
        header_ms: known(peer.header_time),
        response_ms: known(peer.response_time),
        downtime_ms: peer.downtime_ms + peer.down_since_ms.map_or(0, |since| now.ms.saturating_sub(since)),
        down_since_ms: peer.down_since_ms,
        selected_ms: peer.selected_ms,
        last_check_passed: peer.last_check_passed,
    }
}
