//! The requests that wait, over all threads, for whoever looks at a dashboard.
//!
//! Nothing is collected while nobody looks: each thread is asked by its mailbox, and finds those that a task has by the
//! [`Flight`]s of its requests, those without a task in its table of connections.

use crate::connection::{Connection, Stage};
use crate::limits::{FLIGHTS_TOLD_MAX, FLIGHTS_WAIT_MS};
use crate::request::Request;
use crate::request::flight::{Flight, Names, Waits};
use crate::shared::Shared;
use crate::table::{Slot, State, Thread};
use brisk_net::{clock, timeout};
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A request that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Since its first byte came, in microseconds.
    pub age_us: u64,
    /// What for.
    pub waits: Waits,
    /// Empty while the head is being read, as are host and path.
    pub method: String,
    /// Without port.
    pub host: String,
    /// As sent, without arguments.
    pub path: String,
    /// The address.
    pub client: String,
    /// The back end that is or was asked, as messages name it, without arguments; empty if there is none.
    pub upstream: String,
}

/// What threads have told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flights {
    /// How many wait.
    pub total: usize,
    /// The oldest of them, that one first; those that have become tunnels come last.
    pub oldest: Vec<Waiting>,
    /// Threads that have not told in time.
    pub silent: Vec<usize>,
}

impl Flights {
    fn add(&mut self, total: usize, told: Vec<Waiting>) {
        self.total += total;
        self.oldest.extend(told);
        self.oldest.sort_by_key(|one| (one.waits == Waits::Tunnel, u64::MAX - one.age_us));
        self.oldest.truncate(FLIGHTS_TOLD_MAX);
    }
}

/// A look at all threads.
#[derive(Default)]
struct Survey {
    state: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    found: Flights,
    waker: Option<Waker>,
}

impl Survey {
    fn lock(&self) -> MutexGuard<'_, Told> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, thread: usize, total: usize, told: Vec<Waiting>) {
        let mut state = self.lock();
        state.found.add(total, told);
        state.found.silent.retain(|silent| *silent != thread);
        if state.found.silent.is_empty()
            && let Some(waker) = state.waker.take()
        {
            waker.wake();
        }
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.found.silent.is_empty() {
            return Poll::Ready(());
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// Asks all threads. One that does not answer in time is named: what it does takes long, and waits for nothing.
pub async fn survey(shared: Arc<Shared>) -> Flights {
    let asked = shared.mailboxes.iter().enumerate().filter_map(|(at, mailbox)| Some((at, mailbox.get()?)));
    let survey = Arc::new(Survey::default());
    survey.lock().found.silent = asked.clone().map(|(at, _)| at).collect();
    for (at, mailbox) in asked {
        let survey = survey.clone();
        mailbox.call(move || {
            if let Some(thread) = Thread::current() {
                let (total, told) = thread.flights();
                survey.tell(at, total, told);
            }
        });
    }
    // Whoever is late is left out, and told as silent.
    let _ = timeout(Duration::from_millis(FLIGHTS_WAIT_MS), poll_fn(|cx| survey.poll(cx))).await;
    survey.lock().found.clone()
}

/// Where a request that waits is found.
enum Place {
    Task(Rc<Flight>),
    /// In the table of connections.
    Slot(usize),
}

impl Thread {
    /// Has a request's [`Flight`] looked at.
    pub(crate) fn list_flight(&self, flight: &Rc<Flight>) {
        let mut list = self.flights.borrow_mut();
        // Those that are gone leave their places before the list grows: it is never longer than twice what there is.
        if list.len() == list.capacity() {
            list.retain(|flight| flight.strong_count() > 0);
            let more = list.len().max(8);
            list.reserve(more);
        }
        list.push(Rc::downgrade(flight));
    }

    /// How many requests of this thread wait, and the oldest of them.
    fn flights(&self) -> (usize, Vec<Waiting>) {
        let now_us = clock::precise_us();
        let listed = self.flights.borrow();
        let tasks = listed.iter().filter_map(Weak::upgrade).filter_map(|flight| {
            let since_us = flight.told_since_us()?;
            Some((flight.waits() == Waits::Tunnel, since_us, Place::Task(flight)))
        });
        let slots = self.slots.borrow();
        let others = slots.iter().enumerate().filter_map(|(index, (_, slot))| {
            let since_us = waits_since_us(slot.as_ref()?)?;
            Some((false, since_us, Place::Slot(index)))
        });
        let mut all: Vec<(bool, u64, Place)> = tasks.chain(others).collect();
        let total = all.len();
        // Only those that are told of are made into texts.
        all.sort_unstable_by_key(|(is_tunnel, since_us, _)| (*is_tunnel, *since_us));
        all.truncate(FLIGHTS_TOLD_MAX);
        let told = all.into_iter().filter_map(|(_, since_us, place)| {
            let age_us = now_us.saturating_sub(since_us);
            match place {
                Place::Task(flight) => Some(flight.with_names(|names| of(age_us, &flight, names))),
                Place::Slot(index) => in_slot(age_us, slots[index].1.as_ref()?),
            }
        });
        (total, told.collect())
    }
}

/// Since when a request of a connection waits without a task, in microseconds.
fn waits_since_us(slot: &Slot) -> Option<u64> {
    match &slot.state {
        State::Parked(Some(parked)) => Some(parked.request().progress.started.mono_us),
        State::Idle => match &*slot.conn.stage.borrow() {
            Stage::Head(partial) => Some(partial.since_us),
            _ => None,
        },
        _ => None,
    }
}

fn in_slot(age_us: u64, slot: &Slot) -> Option<Waiting> {
    match &slot.state {
        State::Parked(Some(parked)) => {
            let r = parked.request();
            Some(names_of(r, |names| of(age_us, &r.flight, names)))
        }
        State::Idle => Some(reading(age_us, &slot.conn)),
        State::Parked(None) | State::Busy(_) => None,
    }
}

/// A connection of which a part of a head has come.
fn reading(age_us: u64, conn: &Connection) -> Waiting {
    Waiting {
        age_us,
        waits: Waits::Head,
        method: String::new(),
        host: String::new(),
        path: String::new(),
        client: text(conn.peer_text()),
        upstream: String::new(),
    }
}

fn of(age_us: u64, flight: &Flight, names: Names<'_>) -> Waiting {
    let mut upstream = flight.upstream().unwrap_or_default();
    upstream.truncate(upstream.find('?').unwrap_or(upstream.len()));
    Waiting {
        age_us,
        waits: flight.waits(),
        method: text(names.method),
        host: text(names.host),
        path: text(names.path),
        client: text(names.client),
        upstream,
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What is read here is for whoever looks at the server, and no part of an answer: it is not recorded.
fn names_of<T>(r: &Request, look: impl FnOnce(Names<'_>) -> T) -> T {
    let target = r.unparsed_uri();
    let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
    let sender = r.state.shared.sender.get().map(|sender| &*sender.text);
    let client = sender.or_else(|| r.client.connection().map(|conn| conn.peer_text())).unwrap_or_default();
    look(Names { method: r.sent_method_name(), host: &r.head.host, path, client })
}

impl Request {
    /// A task is about to have the request.
    pub(crate) fn enters_task(&self) {
        names_of(self, |names| self.flight.enters_task(self.progress.started.mono_us, names));
    }

    /// What is to be done whenever the request is about to wait in its present phase.
    pub(crate) fn before_waiting(&mut self) {
        self.flight.waits_for(Waits::Phase(self.route.cursor.phase));
        self.hint_before_waiting();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::route::Phase;

    fn waiting(age_us: u64, waits: Waits) -> Waiting {
        let empty = String::new;
        Waiting {
            age_us,
            waits,
            method: empty(),
            host: empty(),
            path: empty(),
            client: empty(),
            upstream: empty(),
        }
    }

    #[test]
    fn the_oldest_come_first_and_tunnels_last() {
        let mut flights = Flights::default();
        flights.add(2, vec![waiting(5, Waits::Answer), waiting(900, Waits::Tunnel)]);
        flights.add(2, vec![waiting(7, Waits::Disk), waiting(1, Waits::Phase(Phase::Access))]);
        let ages: Vec<u64> = flights.oldest.iter().map(|one| one.age_us).collect();
        assert_eq!((flights.total, ages), (4, vec![7, 5, 1, 900]));
        flights.add(1000, (0..1000).map(|age| waiting(age, Waits::Sending)).collect());
        assert_eq!((flights.total, flights.oldest.len()), (1004, FLIGHTS_TOLD_MAX));
        assert_eq!(flights.oldest[0].age_us, 999);
    }

    #[test]
    fn a_survey_is_over_when_all_have_told() {
        let survey = Survey::default();
        survey.lock().found.silent = vec![0, 1];
        let mut cx = Context::from_waker(Waker::noop());
        assert!(survey.poll(&mut cx).is_pending());
        survey.tell(1, 3, vec![waiting(1, Waits::Queue)]);
        assert!(survey.poll(&mut cx).is_pending());
        assert_eq!(survey.lock().found.silent, [0]);
        survey.tell(0, 0, Vec::new());
        assert!(survey.poll(&mut cx).is_ready());
    }
}
