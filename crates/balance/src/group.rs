//! The servers of one upstream and their peers, shared by all threads.

use crate::budget::Budget;
use crate::checks::{Check, Verdicts};
use crate::hash::Points;
use crate::method::Method;
use crate::peer::{Clock, Endpoint, Peer, PeerId, PeerInfo, ServerSpec, address_id};
use crate::set::Set;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// An upstream's servers with all that is known about them.
pub struct Group {
    /// Its name in the configuration.
    pub name: Box<str>,
    /// Requests that are choosing or being answered.
    pub(crate) requests: AtomicU32,
    state: Mutex<State>,
}

/// An address that a server's name was found to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The address, with its port.
    pub endpoint: Endpoint,
    /// Of an SRV record: the target's name, its weight and priority.
    pub service: Option<(Arc<str>, u32, u16)>,
}

pub(crate) struct Server {
    pub id: PeerId,
    pub spec: ServerSpec,
    /// A peer has had its number, which no other one may have: leases, checks and requests that have tried it know it by that.
    pub has_named: bool,
}

pub(crate) struct State {
    pub method: Method,
    pub servers: Vec<Server>,
    /// The active checks of the configuration that is live.
    pub checks: Vec<Check>,
    /// Those that are asked, and those that are asked when no other can be.
    pub sets: [Set; 2],
    /// Counts changes of the sets.
    pub generation: u64,
    next_id: PeerId,
    pub budget: Budget,
    /// Rung when a peer may have become free.
    pub bell: Option<Waker>,
    pub points: Option<(u64, Arc<Points>)>,
}

impl State {
    /// Exactly one peer: it is never given up for failures.
    pub fn is_single(&self) -> bool {
        self.sets[0].peers.len() == 1 && self.sets[1].peers.is_empty()
    }

    /// A peer of either set, to be changed.
    pub fn peer_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.sets.iter_mut().flat_map(|set| &mut set.peers).find(|peer| peer.info.id == id)
    }

    /// The peers of both sets.
    pub fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.sets.iter().flat_map(|set| &set.peers)
    }

    /// Attempts that a request may make: as many as servers are not down.
    pub fn tries(&self) -> u32 {
        let up = |peer: &&Peer| peer.admin == crate::peer::Admin::Up;
        self.peers().filter(up).count() as u32
    }

    /// A number that no server and no peer has had.
    pub fn new_id(&mut self) -> PeerId {
        self.next_id += 1;
        self.next_id - 1
    }

    /// To be called when peers have come or gone.
    pub fn changed(&mut self) {
        self.generation += 1;
        for set in &mut self.sets {
            set.total_weight = set.peers.iter().map(|peer| (peer.weight / crate::peer::SCALE) as u64).sum();
        }
    }

    /// A peer may have become free: one who waits is to look again.
    pub fn wake_one(&self) {
        if let Some(bell) = &self.bell {
            bell.wake_by_ref();
        }
    }

    /// The new peer of a server.
    fn make(&mut self, server: usize, endpoint: &Endpoint, name: Option<Arc<str>>, weight: u32) -> Peer {
        // A server's first peer has its number.
        let is_taken = std::mem::replace(&mut self.servers[server].has_named, true);
        let id = if is_taken { self.new_id() } else { self.servers[server].id };
        let Server { id: parent, spec, .. } = &self.servers[server];
        let info = info(id, spec, endpoint, name);
        // A mandatory check holds for whoever comes later, too.
        Peer::new(Arc::new(info), *parent, spec, weight, Verdicts::of_new_peer(&self.checks))
    }
}

fn info(id: PeerId, spec: &ServerSpec, endpoint: &Endpoint, server: Option<Arc<str>>) -> PeerInfo {
    let name: Arc<str> = endpoint.to_string().into();
    PeerInfo {
        id,
        sid: spec.route.clone().unwrap_or_else(|| address_id(&name)),
        name,
        endpoint: endpoint.clone(),
        server: server.unwrap_or_else(|| spec.server.clone()),
        backup: spec.backup,
        stats: crate::peer::Stats::default(),
    }
}

impl Group {
    /// A group of these servers, with the addresses that they have from the start.
    pub fn new(name: &str, method: Method, servers: &[ServerSpec]) -> Group {
        let group = Group {
            name: name.into(),
            requests: AtomicU32::new(0),
            state: Mutex::new(State {
                method,
                servers: Vec::new(),
                checks: Vec::new(),
                sets: Default::default(),
                generation: 0,
                next_id: 0,
                budget: Budget::default(),
                bell: None,
                points: None,
            }),
        };
        group.apply(method, servers);
        group
    }

    /// A group for one request, of addresses that a name has just been found to have.
    pub fn of_addresses(name: &str, endpoints: Vec<Endpoint>) -> Group {
        Group::new(name, Method::RoundRobin, &[ServerSpec::new(name, endpoints)])
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic half-way runs under it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the servers of another configuration. Those that were there before keep their state and number.
    pub fn apply(&self, method: Method, specs: &[ServerSpec]) {
        let mut state = self.lock();
        let state = &mut *state;
        state.method = method;
        let mut before = std::mem::take(&mut state.servers);
        let mut had = std::mem::take(&mut state.sets);
        let known = Known::new(&before, &had);
        for spec in specs {
            let same = |server: &Server| {
                let have = &server.spec;
                (&have.server, have.backup, &have.host, &have.service)
                    == (&spec.server, spec.backup, &spec.host, &spec.service)
            };
            let have = before.iter().position(same).map(|at| before.remove(at));
            let is_new = have.is_none();
            let (id, has_named) = match have {
                Some(server) => (server.id, server.has_named),
                None => (state.new_id(), false),
            };
            state.servers.push(Server { id, spec: spec.clone(), has_named });
            let at = state.servers.len() - 1;
            state.populate(&mut had, at);
            if is_new && spec.host.is_some() {
                state.place(at, &known.of(spec));
            }
        }
        state.changed();
        state.wake_one();
    }

    /// Takes another configuration that leaves the servers to those who have changed them: they all stay.
    pub fn keep_servers(&self, method: Method) {
        let mut state = self.lock();
        state.method = method;
        state.changed();
    }

    /// Puts the addresses of a server's name into the place of those it had. Peers that stay keep their state. Returns
    /// whether anything has changed.
    pub fn resolved(&self, server: PeerId, found: &[Resolved]) -> bool {
        let mut state = self.lock();
        let state = &mut *state;
        let Some(at) = state.servers.iter().position(|have| have.id == server) else { return false };
        let changed = state.place(at, found);
        if changed {
            state.changed();
            state.wake_one();
        }
        changed
    }

    /// Servers whose names are to be looked up: number, name and service.
    pub fn to_resolve(&self) -> Vec<(PeerId, Arc<str>, Option<Arc<str>>)> {
        let state = self.lock();
        let named = |server: &Server| {
            let host = server.spec.host.clone()?;
            Some((server.id, host, server.spec.service.clone()))
        };
        state.servers.iter().filter_map(named).collect()
    }

    /// Counts a retry; false if too many are made by too many requests (see [`Budget`]). A request that is alone is
    /// never refused one.
    pub fn may_retry(&self, now_ms: u64) -> bool {
        let mut state = self.lock();
        state.budget.retry(now_ms) || self.requests.load(Ordering::Relaxed) <= 1
    }

    /// Has `bell` woken whenever a peer may have become free, in the thread that has freed it. The group is locked meanwhile: what is
    /// woken must not come back to it at once.
    pub fn ring(&self, bell: Waker) {
        self.lock().bell = Some(bell);
    }

    /// Whether a peer could take a request now.
    pub fn has_place(&self, now_ms: u64) -> bool {
        let state = self.lock();
        let is_single = state.is_single();
        state.peers().any(|peer| {
            let can_be_asked = is_single && peer.is_in_service() && !peer.is_full();
            can_be_asked || peer.is_available(Clock::at(now_ms))
        })
    }
}

/// What names were found to mean before the configuration was loaded again.
struct Known(Vec<(Arc<str>, Option<Arc<str>>, Resolved)>);

impl Known {
    fn new(servers: &[Server], sets: &[Set; 2]) -> Known {
        let mut known = Vec::new();
        for Server { id, spec, .. } in servers {
            let Some(host) = &spec.host else { continue };
            for (rank, set) in sets.iter().enumerate() {
                for peer in set.peers.iter().filter(|peer| peer.parent == *id) {
                    let weight = (peer.weight / crate::peer::SCALE) as u32;
                    let service =
                        spec.service.as_ref().map(|_| (peer.info.server.clone(), weight, rank as u16));
                    let endpoint = peer.info.endpoint.clone();
                    known.push((host.clone(), spec.service.clone(), Resolved { endpoint, service }));
                }
            }
        }
        Known(known)
    }

    /// The addresses of a server's name, with its own port.
    fn of(&self, spec: &ServerSpec) -> Vec<Resolved> {
        let same = self
            .0
            .iter()
            .filter(|(host, service, _)| Some(host) == spec.host.as_ref() && *service == spec.service);
        let mut found: Vec<Resolved> = Vec::new();
        for (_, _, resolved) in same {
            let mut resolved = resolved.clone();
            if let (Endpoint::Ip(address), None) = (&mut resolved.endpoint, &resolved.service) {
                address.set_port(spec.port());
            }
            if !found.contains(&resolved) {
                found.push(resolved);
            }
        }
        found
    }
}

impl State {
    /// Puts what was found of a server's name into its sets.
    fn place(&mut self, at: usize, found: &[Resolved]) -> bool {
        let first = usize::from(self.servers[at].spec.backup);
        let best = found.iter().filter_map(|f| f.service.as_ref()).map(|s| s.2).min().unwrap_or(0);
        let mut changed = false;
        let last = if self.method.knows_backup() { 1 } else { first };
        for set in first..=last {
            // Records of a lower priority are backups, unless their server is one itself.
            let rank = set - first;
            let fits = |f: &&Resolved| usize::from(f.service.as_ref().is_some_and(|s| s.2 != best)) == rank;
            changed |= self.update(at, set, &found.iter().filter(fits).collect::<Vec<_>>());
        }
        changed
    }

    /// Gives a server its peers: as configured, and those that `had` knows of it.
    fn populate(&mut self, had: &mut [Set; 2], at: usize) {
        let Server { id, spec, .. } = &self.servers[at];
        let (id, spec) = (*id, spec.clone());
        let set = usize::from(spec.backup);
        if spec.host.is_some() {
            for (rank, old) in had.iter_mut().enumerate() {
                for mut peer in old.peers.extract_if(.., |peer| peer.parent == id) {
                    let weight = (peer.weight / crate::peer::SCALE) as u32;
                    peer.configure(&spec, if spec.service.is_some() { weight } else { spec.weight });
                    self.sets[rank].peers.push(self.renamed(peer, &spec));
                }
            }
            return;
        }
        for endpoint in &spec.endpoints {
            let old = &mut had[set].peers;
            let same = |peer: &Peer| peer.parent == id && peer.info.endpoint == *endpoint;
            let peer = match old.iter().position(same) {
                Some(at) => {
                    let mut peer = old.remove(at);
                    peer.configure(&spec, spec.weight);
                    self.renamed(peer, &spec)
                }
                None => self.make(at, endpoint, None, spec.weight),
            };
            self.sets[set].peers.push(peer);
        }
    }

    /// The peer under its server's present `route`.
    fn renamed(&self, mut peer: Peer, spec: &ServerSpec) -> Peer {
        let sid = spec.route.clone().unwrap_or_else(|| address_id(&peer.info.name));
        if sid != peer.info.sid {
            let server = spec.service.is_some().then(|| peer.info.server.clone());
            peer.info = Arc::new(info(peer.info.id, spec, &peer.info.endpoint, server));
        }
        peer
    }

    /// Makes the peers of one server in one set those that were found.
    fn update(&mut self, at: usize, set: usize, found: &[&Resolved]) -> bool {
        let Server { id, spec, .. } = &self.servers[at];
        let (id, spec) = (*id, spec.clone());
        let weight_of = |found: &Resolved| match &found.service {
            Some((_, weight, _)) if spec.weight == 1 => *weight,
            _ => spec.weight,
        };
        let mut is_there = vec![false; found.len()];
        let before = self.sets[set].peers.len();
        self.sets[set].peers.retain(|peer| {
            if peer.parent != id {
                return true;
            }
            let same = |(at, found): (usize, &&Resolved)| {
                let name = found.service.as_ref().map_or(&spec.server, |service| &service.0);
                !is_there[at]
                    && peer.info.endpoint == found.endpoint
                    && peer.info.server == *name
                    && peer.weight == i64::from(weight_of(found)) * crate::peer::SCALE
            };
            let place = found.iter().enumerate().position(|(at, found)| same((at, found)));
            if let Some(place) = place {
                is_there[place] = true;
            }
            place.is_some()
        });
        let mut changed = self.sets[set].peers.len() != before;
        for (found, _) in found.iter().zip(is_there).filter(|(_, is_there)| !is_there) {
            let name = found.service.as_ref().map(|service| service.0.clone());
            let peer = self.make(at, &found.endpoint, name, weight_of(found));
            self.sets[set].peers.push(peer);
            changed = true;
        }
        changed
    }

    /// Adds a server at run time.
    pub fn add(&mut self, spec: ServerSpec) -> PeerId {
        let id = self.new_id();
        self.servers.push(Server { id, spec, has_named: false });
        self.populate(&mut Default::default(), self.servers.len() - 1);
        self.changed();
        self.wake_one();
        id
    }

    /// Applies a server's changed parameters to its peers.
    pub fn reconfigure(&mut self, at: usize, now: Clock) {
        let Server { id, spec, .. } = &self.servers[at];
        let (id, spec) = (*id, spec.clone());
        for set in 0..2 {
            for place in 0..self.sets[set].peers.len() {
                let peer = &mut self.sets[set].peers[place];
                if peer.parent != id {
                    continue;
                }
                let was_up = peer.is_in_service();
                let weight = (peer.weight / crate::peer::SCALE) as u32;
                let own = spec.service.is_some() && spec.weight == 1;
                peer.configure(&spec, if own { weight } else { spec.weight });
                if !was_up && peer.is_in_service() {
                    peer.comes_back(now);
                }
                peer.note_downtime(now);
                let renamed = self.sets[set].peers[place].clone();
                self.sets[set].peers[place] = self.renamed(renamed, &spec);
            }
        }
        self.changed();
        self.wake_one();
    }

    /// Removes a server, by its place in the list, and its peers.
    pub fn remove(&mut self, at: usize) {
        let id = self.servers.remove(at).id;
        self.sets.iter_mut().for_each(|set| set.peers.retain(|peer| peer.parent != id));
        self.changed();
    }
}
