//! A pool as requests see it: one address, as many places as there may be workers, and a line in which requests wait for one.

use super::PoolSpec;
use super::watch::State;
use crate::waiting::{Waiting, place};
use brisk_balance::{Ask, Endpoint, Group, Lease, Line, Method, Room, Selection, ServerSpec};
use brisk_http::Method as HttpMethod;
use brisk_net::{Activity, Failure, clock};
use brisk_php::Pace;
use brisk_php::limits::{QUEUE_TARGET, START_PAUSE_MAX};
use brisk_server::request::Request;
use brisk_upstream::backend::{Backend, Keepalive, ProcessPool};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

/// See the module's head.
pub(crate) struct Pool {
    spec: Arc<PoolSpec>,
    id: u64,
    idle: AtomicUsize,
    group: Arc<Group>,
    waiting: Arc<Waiting>,
    rate: Rate,
    /// Requests that found no place in the line, or waited in it for too long.
    refused: AtomicU64,
    /// The places that the group has.
    applied: AtomicU32,
    state: Arc<State>,
}

/// Requests that got a worker in the last full second.
#[derive(Default)]
struct Rate {
    second: AtomicU64,
    count: AtomicU64,
    last: AtomicU64,
}

impl Rate {
    fn note(&self) {
        let now = clock::mono_ms() / 1000;
        if self.second.swap(now, Ordering::Relaxed) != now {
            self.last.store(self.count.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// At least one.
    fn per_second(&self) -> u64 {
        let second = clock::mono_ms() / 1000;
        // Where none got a worker for a whole second, the numbers are of a time before that.
        let is_fresh = self.second.load(Ordering::Relaxed) + 1 >= second;
        let most = self.last.load(Ordering::Relaxed).max(self.count.load(Ordering::Relaxed));
        if is_fresh { most.max(1) } else { 1 }
    }
}

impl Pool {
    /// The pool of a configuration.
    pub(super) fn new(spec: Arc<PoolSpec>) -> Pool {
        let state = State::of(&spec);
        let places = state.places();
        let group = Arc::new(Group::new(&spec.settings.pool, Method::RoundRobin, &[server(&spec, places)]));
        let waiting = Waiting::new(QUEUE_TARGET);
        group.ring(waiting.clone().into());
        let id = crate::upstream::new_id();
        let (rate, refused) = (Rate::default(), AtomicU64::new(0));
        Pool {
            spec,
            id,
            idle: AtomicUsize::new(0),
            group,
            waiting,
            rate,
            refused,
            applied: AtomicU32::new(places),
            state,
        }
    }

    /// What is declared of it.
    pub(super) fn spec(&self) -> &Arc<PoolSpec> {
        &self.spec
    }

    /// What is known of its processes.
    pub(super) fn state(&self) -> &State {
        &self.state
    }

    /// How many requests it may have at once.
    pub(super) fn places(&self) -> usize {
        self.state.places() as usize
    }

    /// It may have another number of requests at once from now on.
    pub(super) fn resize(&self, places: u32) {
        self.state.set_places(places);
        if self.applied.swap(places, Ordering::Relaxed) != places {
            self.group.apply(Method::RoundRobin, &[server(&self.spec, places)]);
        }
    }

    /// Requests that wait, how long somebody has waited so far, and how many were refused.
    pub(super) fn line(&self) -> LineNumbers {
        let line = self.waiting.lock();
        LineNumbers {
            waiting: line.len(),
            waited_ms: line.waited_ms(clock::mono_ms()),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// How many requests may wait in this line.
    fn room(&self, line: &Line<Waker>, now_ms: u64) -> Room {
        let settings = &self.spec.settings;
        let pace = Pace { per_second: self.rate.per_second(), is_capacity: line.is_busy(now_ms) };
        brisk_php::room(settings.queue(), self.places(), settings.children_max() as usize, pace)
    }
}

/// How its line stands.
pub(super) struct LineNumbers {
    pub waiting: usize,
    /// In milliseconds, since the pool was configured.
    pub waited_ms: u64,
    pub refused: u64,
}

/// The pool as the one server of a group.
fn server(spec: &PoolSpec, places: u32) -> ServerSpec {
    ServerSpec {
        max_conns: places,
        // Its processes are replaced one by one: it is never given up as a whole.
        max_fails: 0,
        ..ServerSpec::new(&spec.settings.pool, vec![Endpoint::Unix(spec.socket.clone())])
    }
}

impl Backend for Pool {
    fn id(&self) -> u64 {
        self.id
    }

    fn name(&self) -> &str {
        &self.spec.settings.pool
    }

    /// A connection belongs to a worker for as long as both live: the worker ends it when it has answered enough.
    fn keepalive(&self) -> Keepalive {
        Keepalive {
            idle_max: self.spec.settings.children_max() as usize,
            requests_max: u64::MAX,
            time_ms: u64::MAX,
            ..Keepalive::NONE
        }
    }

    fn idle(&self) -> &AtomicUsize {
        &self.idle
    }

    fn selection(&self, r: &Request) -> Selection {
        let ask = Ask { client: r.client_addr().ip(), ..Ask::default() };
        Selection::new(self.group.clone(), ask, clock::mono_ms())
    }

    fn chosen(&self, r: &mut Request, _: &Lease) {
        if let Some(place) = place(r).take() {
            place.served();
        }
        self.rate.note();
    }

    fn may_choose(&self, r: &mut Request) -> bool {
        self.waiting.may_choose(r)
    }

    fn poll_place(&self, r: &mut Request, cx: &mut Context<'_>) -> Poll<bool> {
        if place(r).is_none() {
            let (host, limit) = (r.route.server.0, self.spec.settings.queue().timeout);
            let room = |line: &Line<Waker>, now_ms| self.room(line, now_ms);
            let Some(joined) = self.waiting.join(&self.group, host, limit, room, cx.waker()) else {
                return Poll::Ready(false);
            };
            *place(r) = Some(joined);
        }
        let Some(place) = place(r) else { return Poll::Ready(false) };
        // A line of the usual length is left to its order and its time-out, also while pm auto has fewer places than it may.
        let polled = place.poll(cx, |line, now_ms| self.room(line, now_ms).usual);
        if polled == Poll::Ready(false) {
            *crate::waiting::place(r) = None;
        }
        polled
    }

    fn processes(&self) -> Option<&dyn ProcessPool> {
        Some(self)
    }
}

impl ProcessPool for Pool {
    fn count(&self) -> usize {
        self.places()
    }

    fn retries(&self, r: &Request, elapsed_ms: u64) -> bool {
        let limit_ms = self.spec.settings.terminate_timeout().as_millis() as u64;
        // A request that took so long was ended for that, and would take as long again.
        let was_ended = limit_ms > 0 && elapsed_ms >= limit_ms;
        let is_safe = matches!(r.sent_method(), HttpMethod::Get | HttpMethod::Head | HttpMethod::Options);
        self.spec.settings.retries && is_safe && !was_ended
    }

    fn refuse(&self, r: &mut Request) -> u16 {
        let waiting = self.waiting.len();
        self.refused.fetch_add(1, Ordering::Relaxed);
        let seconds = 1 + waiting as u64 / self.rate.per_second();
        r.resp.set("Retry-After", seconds.to_string());
        brisk_server::rlog!(
            r,
            Warn,
            "PHP pool \"{}\" is overloaded: {waiting} requests wait, this one is refused",
            self.name()
        );
        503
    }

    fn out_of_reach(&self, r: &mut Request, failure: &Failure) -> Option<u16> {
        // While a pool's processes cannot be started, the master process lets nobody reach its socket.
        let is_closed = rustix::fs::stat(self.spec.socket.as_path()).is_err();
        let (name, socket) = (self.name(), self.spec.socket.display());
        match (is_closed, failure.activity()) {
            (true, _) => brisk_server::rlog!(
                r,
                Error,
                "PHP pool \"{name}\" does not run: its processes cannot be started, the error log says above why and what helps (if it does not, \"{socket}\" was removed); it is tried again within seconds, and at once by \"brisk php reload {name}\""
            ),
            (false, Activity::Connecting) => {
                brisk_server::failure::report(failure, r);
                brisk_server::rlog!(
                    r,
                    Error,
                    "PHP pool \"{name}\" takes no connection now: too many wait for its processes, or it has lost the server's master process"
                );
            }
            // A process has ended over it.
            (false, _) => return None,
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        r.resp.set("Retry-After", START_PAUSE_MAX.as_secs().to_string());
        Some(503)
    }
}
