//! An upstream of a configuration: what requests need of it, and the group of servers whose state it uses.
//!
//! A configuration's `Upstream` is made anew by each reload; a `Group` in a zone is not. What a reload changes
//! is applied to the group, so that requests that run with the old configuration see it, too.

use super::health::pace::Pace;
use super::queue;
use super::server::Server;
use super::state::Kept;
use super::sticky::Sticky;
use crate::db;
use crate::waiting::Waiting;
use brisk_balance::{Ask, Check, CheckId, Group, Lease, Method, PeerId, Selection, ServerSpec};
use brisk_db::Cluster;
use brisk_net::clock;
use brisk_resolver::Resolver;
use brisk_server::request::Request;
use brisk_server::trace;
use brisk_server::vars::Template;
use brisk_server::zone::Zone;
use brisk_upstream::backend::{Backend, Keepalive};
use brisk_upstream::head::BackendHead;
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// What a configuration says of an upstream.
pub(super) struct Parts {
    pub name: String,
    /// It stands in `stream`: HTTP may have a group of the same name, in the same zone.
    pub is_of_stream: bool,
    pub method: Method,
    pub servers: Vec<Server>,
    pub key: Option<Arc<Template>>,
    /// With the zone of its learned sessions.
    pub sticky: Option<(Sticky, Option<Arc<Zone>>)>,
    pub keepalive: Keepalive,
    pub zone: Option<Arc<Zone>>,
    /// Requests that may wait, and how long.
    pub queue: Option<(usize, Duration)>,
    pub resolver: Option<Arc<Resolver>>,
    pub resolver_timeout: Duration,
    /// The file that the servers are kept in.
    pub state: Option<Kept>,
    /// The servers are databases, which are asked for their roles.
    pub database: Option<Arc<db::Check>>,
}

/// An `upstream` block, or the group that a name in `proxy_pass` stands for.
pub struct Upstream {
    pub(super) parts: Parts,
    id: u64,
    idle: AtomicUsize,
    /// The `health_check`s that ask its servers.
    checks: Mutex<Vec<Check>>,
    /// Draws differ from request to request.
    drawn: AtomicU64,
    /// Told when a server was added whose name may have to be looked up.
    pub(super) names: Notice,
    /// Taken from the zone, or made, at its first use: by then the configuration is live.
    group: OnceLock<Queued>,
    /// The same of what is known of databases' roles.
    cluster: OnceLock<Arc<Cluster>>,
}

/// A zone's state: its groups by name. They outlive the configuration.
#[derive(Default)]
pub(super) struct Groups {
    /// By whether they are of `stream`, and their names.
    groups: Mutex<HashMap<(bool, String), Shared>>,
    clusters: Mutex<HashMap<(String, db::Kind), Arc<Cluster>>>,
}

/// A group, and the requests that wait for one of its servers.
#[derive(Clone)]
struct Queued {
    group: Arc<Group>,
    waiting: Arc<Waiting>,
}

impl Queued {
    fn new(group: Group) -> Queued {
        Queued { group: Arc::new(group), waiting: Waiting::new(queue::NO_TARGET) }
    }
}

/// A group in a zone.
struct Shared {
    group: Queued,
    /// The file that its servers are kept in.
    state: Option<String>,
}

static IDS: AtomicU64 = AtomicU64::new(1);

/// A number for a group, which no other one has ([`Backend::id`]).
pub fn new_id() -> u64 {
    IDS.fetch_add(1, Ordering::Relaxed)
}

impl Upstream {
    pub(super) fn new(parts: Parts) -> Upstream {
        Upstream {
            parts,
            id: new_id(),
            idle: AtomicUsize::new(0),
            checks: Mutex::default(),
            drawn: AtomicU64::new(clock::now().unix_secs as u64),
            names: Notice::default(),
            group: OnceLock::new(),
            cluster: OnceLock::new(),
        }
    }

    /// Another number each time.
    pub(super) fn draw(&self) -> u64 {
        // The golden ratio in 64 bits (Weyl's sequence): all numbers come before any comes again, without a
        // lock.
        self.drawn.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
    }

    /// The servers with all that is known of them.
    pub fn group(&self) -> &Arc<Group> {
        &self.queued().group
    }

    /// Requests that wait for a server.
    pub fn waiting(&self) -> usize {
        self.queued().waiting.len()
    }

    fn queued(&self) -> &Queued {
        self.group.get_or_init(|| {
            let checks = self.checks();
            let queued = match &self.parts.zone {
                None => Queued::new(self.parts.new_group(&checks)),
                Some(zone) => zone.state::<Groups>().get(&self.parts, &checks),
            };
            // Where none may wait there is nobody to be called.
            if self.parts.queue.is_some() {
                queued.group.ring(queued.waiting.clone().into());
            }
            queued
        })
    }

    /// What is known of the servers' roles, if they are databases that are asked.
    pub(super) fn roles(&self) -> Option<&Arc<Cluster>> {
        let check = self.parts.database.as_ref()?;
        Some(self.cluster.get_or_init(|| {
            let new = || Arc::new(Cluster::new(check.terms));
            match &self.parts.zone {
                None => new(),
                Some(zone) => zone.state::<Groups>().cluster(&self.parts.name, check.kind, new),
            }
        }))
    }

    /// A `health_check` that is to ask the servers, told while the configuration is built; returns its number.
    pub(super) fn will_be_checked(&self, pace: &Pace) -> CheckId {
        // Where a request is only traced (`brisk why`), nobody asks the servers.
        let is_mandatory = pace.mandatory && !trace::is_on();
        let is_persistent = pace.persistent;
        let id = new_id();
        self.checks().push(Check { id, key: pace.text.clone(), is_mandatory, is_persistent });
        id
    }

    fn checks(&self) -> MutexGuard<'_, Vec<Check>> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The zone that the upstream is in.
    pub fn zone_name(&self) -> Option<&str> {
        self.parts.zone.as_ref().map(|zone| &*zone.name)
    }

    /// Requests that may wait for a server, if any may.
    pub fn queue_max(&self) -> Option<usize> {
        self.parts.queue.map(|(max, _)| max)
    }

    /// The balancing method.
    pub fn method(&self) -> Method {
        self.parts.method
    }

    /// Whether names can be looked up at run time.
    pub fn has_resolver(&self) -> bool {
        self.parts.resolver.is_some()
    }

    /// Adds a server at run time.
    pub fn add_server(&self, mut spec: ServerSpec) -> PeerId {
        self.parts.trust_the_check(&mut spec);
        let id = self.group().add(spec);
        // After the server is in the group: the task that is woken looks there.
        self.names.tell();
        id
    }

    /// Whether changes are kept in a file.
    pub fn has_state(&self) -> bool {
        self.parts.state.is_some()
    }

    /// Writes the servers into the `state` file, if there is one. May wait for a disk.
    pub fn save(&self) -> io::Result<()> {
        let Some(state) = &self.parts.state else { return Ok(()) };
        let group = self.group();
        state.write(|| group.specs())
    }
}

impl Parts {
    /// A group that nothing is known of.
    fn new_group(&self, checks: &[Check]) -> Group {
        let group = Group::new(&self.name, self.method, &self.specs());
        group.begin_checks(checks);
        group
    }

    fn specs(&self) -> Vec<ServerSpec> {
        let mut specs = match &self.state {
            Some(state) => state.read(),
            None => self.servers.iter().map(|server| server.spec.clone()).collect(),
        };
        specs.iter_mut().for_each(|spec| self.trust_the_check(spec));
        specs
    }

    /// Databases that are asked for their roles are lost when the checks say so. One that is back must not wait for the end of
    /// `fail_timeout`: while the primary does, nobody is written to.
    fn trust_the_check(&self, spec: &mut ServerSpec) {
        if self.database.is_some() {
            spec.max_fails = 0;
        }
    }
}

/// Tells one task, on any thread, that something has changed.
#[derive(Default)]
pub(super) struct Notice(Mutex<(bool, Option<Waker>)>);

impl Notice {
    fn tell(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = true;
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    }

    /// Waits for the next change since the last.
    pub async fn changed(&self) {
        poll_fn(|cx| {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // A change that came before anybody waited is not lost.
            if std::mem::take(&mut state.0) {
                return Poll::Ready(());
            }
            state.1 = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Groups {
    fn get(&self, parts: &Parts, checks: &[Check]) -> Queued {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let state = parts.state.as_ref().map(|state| state.path.clone());
        let key = (parts.is_of_stream, parts.name.clone());
        let Some(shared) = groups.get_mut(&key) else {
            let group = Queued::new(parts.new_group(checks));
            groups.insert(key, Shared { group: group.clone(), state });
            return group;
        };
        // Before the servers, so that those which are new have passed no check.
        shared.group.group.begin_checks(checks);
        if state.is_some() && state == shared.state {
            // The group is what the file was written from, or should have been: it knows more.
            shared.group.group.keep_servers(parts.method);
        } else {
            // Servers that are still there keep their counters and connections.
            shared.group.group.apply(parts.method, &parts.specs());
        }
        shared.state = state;
        shared.group.clone()
    }
}

impl Groups {
    fn cluster(&self, name: &str, kind: db::Kind, new: impl FnOnce() -> Arc<Cluster>) -> Arc<Cluster> {
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        clusters.entry((name.to_string(), kind)).or_insert_with(new).clone()
    }
}

impl Backend for Upstream {
    fn id(&self) -> u64 {
        self.id
    }

    fn name(&self) -> &str {
        &self.parts.name
    }

    fn keepalive(&self) -> Keepalive {
        self.parts.keepalive
    }

    fn idle(&self) -> &AtomicUsize {
        &self.idle
    }

    fn selection(&self, r: &Request) -> Selection {
        let ask = Ask {
            key: self.parts.key.as_ref().map(|key| key.eval(r)).unwrap_or_default(),
            client: r.client_addr().ip(),
            own: self.parts.sticky.as_ref().and_then(|(sticky, zone)| sticky.own(zone.as_ref(), r)),
            seed: self.draw(),
        };
        Selection::new(self.group().clone(), ask, clock::mono_ms())
    }

    fn chosen(&self, r: &mut Request, lease: &Lease) {
        if self.parts.queue.is_some() {
            // Its place is given up when it has a server, not when it was first in line: between the two
            // another request may take the place.
            queue::leave(r);
        }
        if let Some((sticky, _)) = &self.parts.sticky {
            sticky.chosen(r, lease);
        }
    }

    fn answered(&self, r: &mut Request, lease: &Lease, _: &BackendHead) {
        if let Some((sticky, zone)) = &self.parts.sticky {
            sticky.answered(zone.as_ref(), r, lease);
        }
    }

    /// Nobody passes those that wait.
    fn may_choose(&self, r: &mut Request) -> bool {
        self.parts.queue.is_none() || self.queued().waiting.may_choose(r)
    }

    fn poll_place(&self, r: &mut Request, cx: &mut Context<'_>) -> Poll<bool> {
        let Some(queue) = self.parts.queue else { return Poll::Ready(false) };
        let Queued { group, waiting } = self.queued();
        queue::poll_place(waiting, group, queue, r, cx)
    }
}
