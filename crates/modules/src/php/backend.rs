//! A pool as requests see it: one address, as many places as there may be workers, and a line in which requests wait for one.

use super::PoolSpec;
use super::watch::State;
use brisk_balance::{Ask, Endpoint, Group, Lease, Method, Selection, ServerSpec};
use brisk_http::Method as HttpMethod;
use brisk_net::{Sleep, clock, sleep_until};
use brisk_php::limits::QUEUE_TARGET;
use brisk_php::{From, Line, Pace, Room, Verdict};
use brisk_server::request::Request;
use brisk_upstream::backend::{Backend, Keepalive, ProcessPool};
use std::future::Future as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

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

/// Requests that wait for a worker. It stands in the group's queue as the only one there, so it is woken when a place is free.
struct Waiting {
    line: Mutex<Line<Waker>>,
    /// How many wait, for those who need not lock the line to learn that none does.
    count: AtomicUsize,
}

impl Waiting {
    fn new() -> Waiting {
        Waiting { line: Mutex::new(Line::new(QUEUE_TARGET)), count: AtomicUsize::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, Line<Waker>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For a free worker, which one that was called may be about to take.
    fn call_if_nobody_is(self: &Arc<Self>) {
        if !self.lock().is_calling() {
            self.wake_by_ref();
        }
    }

    /// Gives a locked line back in which somebody has come or gone.
    fn changed(&self, line: MutexGuard<'_, Line<Waker>>) {
        self.count.store(line.len(), Ordering::Relaxed);
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    /// Called with the group locked: the line never calls the group while it is locked itself.
    fn wake_by_ref(self: &Arc<Self>) {
        let called = self.lock().call(this_thread(), clock::mono_ms()).cloned();
        if let Some(waker) = called {
            waker.wake();
        }
    }
}

/// A number of this thread's own.
fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static OWN: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    OWN.with(|own| *own)
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

/// A request's place in the line; dropping it gives the place up.
struct Place {
    waiting: Arc<Waiting>,
    group: Arc<Group>,
    ticket: u64,
    deadline_ms: u64,
    /// Until it is to look again: at the target, and at the deadline.
    sleep: Sleep,
}

impl Drop for Place {
    fn drop(&mut self) {
        let now_ms = clock::mono_ms();
        let mut line = self.waiting.lock();
        line.leave(self.ticket, now_ms);
        self.waiting.changed(line);
        // It may have been called for a worker that it does not take.
        if self.group.has_place(now_ms) {
            self.waiting.wake_by_ref();
        }
    }
}

impl Pool {
    /// The pool of a configuration.
    pub(super) fn new(spec: Arc<PoolSpec>) -> Pool {
        let state = State::of(&spec);
        let places = state.places();
        let group = Arc::new(Group::new(&spec.settings.pool, Method::RoundRobin, &[server(&spec, places)]));
        let waiting = Arc::new(Waiting::new());
        group.enqueue(usize::MAX, &Waker::from(waiting.clone()));
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
            self.waiting.wake_by_ref();
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
        Room::new(settings.queue(), self.places(), settings.children_max() as usize, pace)
    }

    /// Begins to wait in the line. `None`: there is no place in it.
    fn join(&self, host: u32, waker: &Waker) -> Option<Place> {
        let now_ms = clock::mono_ms();
        let mut line = self.waiting.lock();
        let room = self.room(&line, now_ms);
        let shed = line.make_room(room, host, now_ms).cloned();
        let ticket = line.join(room, From { host, thread: this_thread() }, now_ms, waker.clone());
        self.waiting.changed(line);
        if let Some(waker) = shed {
            waker.wake();
        }
        let deadline_ms = now_ms + self.spec.settings.queue().timeout.as_millis() as u64;
        let first = deadline_ms.min(now_ms + QUEUE_TARGET.as_millis() as u64 + 1);
        let (waiting, group) = (self.waiting.clone(), self.group.clone());
        Some(Place { waiting, group, ticket: ticket?, deadline_ms, sleep: sleep_until(first) })
    }

    /// What a request in the line is to do now.
    fn ask(&self, ticket: u64, waker: &Waker) -> Verdict {
        let now_ms = clock::mono_ms();
        let mut line = self.waiting.lock();
        // A line of the usual length is left to its order and its time-out, also while pm auto has fewer places than it may.
        let usual = self.room(&line, now_ms).usual;
        let late: Vec<Waker> = line.shed_late(usual, now_ms).into_iter().cloned().collect();
        let verdict = line.ask(ticket, |have| have.clone_from(waker));
        self.waiting.changed(line);
        late.into_iter().for_each(Waker::wake);
        verdict
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

fn leave(r: &mut Request) {
    r.state.visit.get_mut::<Option<Place>>().take();
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
        if let Some(place) = r.state.visit.get_mut::<Option<Place>>() {
            self.waiting.lock().served(place.ticket);
        }
        leave(r);
        self.rate.note();
    }

    /// Where others wait, one that comes gets behind them, and one in the line waits for its turn.
    fn may_choose(&self, r: &mut Request) -> bool {
        if self.waiting.count.load(Ordering::Relaxed) == 0 {
            return true;
        }
        let place = r.state.visit.get_mut::<Option<Place>>();
        place.as_ref().is_some_and(|place| self.waiting.lock().is_next(place.ticket))
    }

    fn poll_place(&self, r: &mut Request, cx: &mut Context<'_>) -> Poll<bool> {
        let now_ms = clock::mono_ms();
        if r.state.visit.get_mut::<Option<Place>>().is_none() {
            let Some(place) = self.join(r.route.server.0, cx.waker()) else { return Poll::Ready(false) };
            *r.state.visit.get_mut::<Option<Place>>() = Some(place);
        }
        let Some(place) = r.state.visit.get_mut::<Option<Place>>() else { return Poll::Ready(false) };
        let is_over = now_ms >= place.deadline_ms;
        match self.ask(place.ticket, cx.waker()) {
            Verdict::Shed => {
                leave(r);
                return Poll::Ready(false);
            }
            _ if is_over => {
                leave(r);
                return Poll::Ready(false);
            }
            Verdict::First if self.group.has_place(now_ms) => return Poll::Ready(true),
            // One that has come since may be of a host whose turn is first: the one that was woken for the free place is not who takes it.
            Verdict::Waits if self.group.has_place(now_ms) => self.waiting.call_if_nobody_is(),
            Verdict::First => self.waiting.lock().recall(place.ticket),
            Verdict::Waits => {}
        }
        while Pin::new(&mut place.sleep).poll(cx).is_ready() {
            if clock::mono_ms() >= place.deadline_ms {
                return Poll::Ready(true);
            }
            place.sleep = sleep_until(place.deadline_ms);
        }
        Poll::Pending
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
        let waiting = self.waiting.lock().len();
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
}
