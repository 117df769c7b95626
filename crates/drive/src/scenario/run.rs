//! Users at work. Each is a task with connections and cookies of its own; threads share nothing but counters.

mod ask;

use super::course::{Course, Taken, UnderWay, Wrong};
use super::model::{Act, Arrivals, Scenario, Step, Terms, User};
use super::tally::{Sessions, Tally};
use super::template::Escape;
use crate::client::{Client, Common, Options, block_on};
use crate::limits::BODY_BYTES_MAX;
use brisk_load::jar::Jar;
use brisk_load::plan::Think;
use brisk_load::rng::Rng;
use brisk_load::system;
use brisk_net::{sleep, spawn};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// After a failure on the wire a user waits this long: a server that is gone is not asked as fast as the machine can.
const AFTER_FAILURE: Duration = Duration::from_millis(100);
/// A loop of more turns than this in which nothing is done rests between them.
const MANY: u64 = 1000;
/// How often the end is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// What came of a run.
#[derive(Debug)]
pub struct Done {
    /// Per step, per group, and in all.
    pub tally: Tally,
    /// When it was over, from its beginning: what was under way at its end was waited for.
    pub elapsed: Duration,
    /// When it was to end.
    pub planned: Duration,
    /// What its threads needed.
    pub effort: Effort,
}

/// What the generator needed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Effort {
    /// Threads that worked.
    pub threads: usize,
    /// CPU of these, in nanoseconds.
    pub cpu_ns: u64,
    /// How long they were ready and waited for a CPU, in nanoseconds.
    pub waited_ns: u64,
}

impl Effort {
    /// Of the calling thread, which has done nothing else.
    pub fn of_this_thread() -> Self {
        Self { threads: 1, cpu_ns: system::thread_cpu_ns(), waited_ns: system::thread_waited().0 }
    }

    fn add(&mut self, other: Self) {
        self.threads += other.threads;
        self.cpu_ns += other.cpu_ns;
        self.waited_ns += other.waited_ns;
    }
}

/// What the threads share.
struct Shared {
    scenario: Arc<Scenario>,
    course: Arc<Course>,
    /// The next row of each data file.
    rows: Vec<AtomicUsize>,
    /// The kind of each user who is there. Who arrives is of the next kind.
    kinds: Vec<usize>,
    /// Users who have arrived, and are there.
    arrived: AtomicUsize,
}

/// Runs a scenario on so many threads.
pub fn run(scenario: &Arc<Scenario>, threads: usize, course: &Arc<Course>) -> Result<Done, String> {
    let users = scenario.users_max();
    system::raise_open_files(users as u64 * 4 + 256).map_err(|error| error.to_string())?;
    let shared = Arc::new(Shared {
        scenario: Arc::clone(scenario),
        course: Arc::clone(course),
        rows: scenario.data.iter().map(|_| AtomicUsize::new(0)).collect(),
        kinds: kinds_of(scenario),
        arrived: AtomicUsize::new(0),
    });
    course.begin();
    let threads: Vec<_> = (0..threads.min(users).max(1))
        .map(|index| {
            let shared = Arc::clone(&shared);
            let of = threads.min(users).max(1);
            std::thread::spawn(move || thread(&shared, index, of))
        })
        .collect();
    let (mut tally, mut effort) = (Tally::default(), Effort::default());
    for thread in threads {
        let (more, needed) = thread.join().map_err(|_| "a thread of the run panicked".to_owned())??;
        tally.merge(&more);
        effort.add(needed);
    }
    Ok(Done { tally, elapsed: course.elapsed(), planned: scenario.length(), effort })
}

/// Which kind each user is of who is there.
fn kinds_of(scenario: &Scenario) -> Vec<usize> {
    let count = scenario.present_max();
    if scenario.has_own_stages() {
        return (0..count).filter_map(|number| Some(scenario.own_place(number)?.0)).collect();
    }
    kinds(&scenario.users, count)
}

/// Which kind each user is of, so that any first part of them is mixed as the weights say.
fn kinds(users: &[User], count: usize) -> Vec<usize> {
    let mut given = vec![0u64; users.len()];
    (0..count).map(|_| next_kind(users, &mut given)).collect()
}

/// The kind of which there are fewest, by its weight; `given` counts them.
fn next_kind(users: &[User], given: &mut [u64]) -> usize {
    let share = |at: usize| (given[at] + 1) as f64 / f64::from(users[at].weight);
    let next = (0..users.len()).min_by(|&a, &b| share(a).total_cmp(&share(b))).unwrap_or(0);
    if let Some(given) = given.get_mut(next) {
        *given += 1;
    }
    next
}

fn thread(shared: &Arc<Shared>, index: usize, of: usize) -> Result<(Tally, Effort), String> {
    let scenario = &shared.scenario;
    let common = Common::new(Options {
        version: scenario.version,
        insecure: scenario.insecure,
        timeout: scenario.timeout,
        body_max: BODY_BYTES_MAX,
        keep_alive: true,
        resume: true,
        early: false,
        resolve: scenario.resolve.clone(),
        proxy: scenario.proxy.clone(),
        network: scenario.network,
    })?;
    let here = Rc::new(Here {
        shared: Arc::clone(shared),
        common,
        tally: RefCell::default(),
        active: Cell::new(0),
        arrived: RefCell::default(),
        under_way: RefCell::default(),
        came: RefCell::default(),
    });
    let work = Rc::clone(&here);
    block_on(async move { work.work(index, of).await }).map_err(|error| error.to_string())?;
    let tally = here.tally.take();
    Ok((tally, Effort::of_this_thread()))
}

/// What the users of one thread share.
struct Here {
    shared: Arc<Shared>,
    common: Rc<Common>,
    tally: RefCell<Tally>,
    /// Users that have not come to their end.
    active: Cell<usize>,
    /// Of these, those who have arrived.
    arrived: RefCell<BTreeMap<usize, Session>>,
    /// What each user waits for: the kind of user, the step's place among all of its steps, and since when.
    under_way: RefCell<BTreeMap<usize, (Place, Duration)>>,
    /// Since when the users are there who are.
    came: RefCell<BTreeMap<usize, Duration>>,
}

/// The session of a user who has arrived.
struct Session {
    /// When it was due.
    due: Duration,
    /// Why its first step failed that did.
    wrong: Option<Wrong>,
}

/// A step: of which kind of user, whether it is one of those at the start, and which.
type Place = (usize, bool, usize);

impl Here {
    async fn work(self: Rc<Self>, index: usize, of: usize) {
        let Shared { scenario, course, .. } = &*self.shared;
        for number in (index..self.shared.kinds.len()).step_by(of) {
            let kind = self.shared.kinds[number];
            self.come(Visitor { here: Rc::clone(&self), number, kind, arrived: None });
        }
        if let Some(arrivals) = &scenario.arrivals {
            self.arrive(arrivals, index, of).await;
        }
        let length = self.end();
        while self.active.get() > 0 && course.elapsed() < length && !system::interrupted() {
            sleep(LOOK.min(length.saturating_sub(course.elapsed()) + Duration::from_millis(1))).await;
        }
        // Whoever has asked before the end gets the time for an answer that everyone had.
        let latest = length + scenario.timeout + LOOK;
        let waits = || !self.under_way.borrow().is_empty();
        while waits() && course.elapsed() < latest && !system::interrupted() {
            sleep(LOOK / 4).await;
        }
        self.came.take().into_values().for_each(|came| self.stayed_since(came));
        let left = self.under_way.take();
        let is_interrupted = system::interrupted();
        if let Some(sessions) = &mut self.tally.borrow_mut().sessions {
            for (user, Session { due, wrong }) in self.arrived.take() {
                // It had its time for the answer that it waits for.
                let is_late = left.contains_key(&user) && !is_interrupted;
                match wrong.or_else(|| is_late.then(Wrong::timeout)) {
                    Some(wrong) => wrong.count_in(&mut sessions.line),
                    None => sessions.cut_off.push(course.elapsed().saturating_sub(due)),
                }
            }
        }
        if is_interrupted {
            self.tally.borrow_mut().unfinished += left.len() as u64;
            return;
        }
        for (user, (place, sent)) in left {
            let wrong = Some(Wrong::timeout());
            let taken = Taken { done: course.elapsed(), wrong, ..Taken::begun(user, sent, sent) };
            self.count(self.step(place), &taken);
        }
    }

    fn come(&self, visitor: Visitor) {
        self.active.set(self.active.get() + 1);
        if let Some(Arrived { due, .. }) = visitor.arrived {
            self.arrived.borrow_mut().insert(visitor.number, Session { due, wrong: None });
        }
        spawn(async move {
            visitor.visits().await;
            let here = &visitor.here;
            here.active.set(here.active.get() - 1);
            let arrived = here.arrived.borrow_mut().remove(&visitor.number);
            here.shared.arrived.fetch_sub(usize::from(arrived.is_some()), Ordering::Relaxed);
        });
    }

    /// Lets users come when they are due, whatever becomes of those before.
    async fn arrive(self: &Rc<Self>, arrivals: &Arrivals, index: usize, of: usize) {
        let Shared { scenario, course, .. } = &*self.shared;
        self.tally.borrow_mut().sessions = Some(Sessions::default());
        let mut given = vec![0; scenario.users.len()];
        // Those who are there have the first numbers.
        let mut number = self.shared.kinds.len() + index;
        for due in arrivals.schedule.of_thread(arrivals.distribution, index, of) {
            // The loop's clock counts milliseconds.
            while let Some(left) = due.checked_sub(course.elapsed()).filter(|left| !left.is_zero()) {
                if system::interrupted() {
                    return;
                }
                sleep(left.min(Duration::from_millis(200)).max(Duration::from_millis(1))).await;
            }
            if system::interrupted() {
                return;
            }
            let late = course.elapsed().saturating_sub(due);
            course.noticed(late);
            let kind = next_kind(&scenario.users, &mut given);
            // All threads have one number of places: the slow users may be those of one of them.
            let one_more = |there: usize| (there < arrivals.users_max).then_some(there + 1);
            let places = &self.shared.arrived;
            if places.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok() {
                let arrived = Some(Arrived { due, late });
                self.come(Visitor { here: Rc::clone(self), number, kind, arrived });
            } else {
                course.unsent(1);
            }
            number += of;
        }
    }

    /// When no more steps are begun: who has arrived gets as long for the rest of the session as for an answer.
    fn end(&self) -> Duration {
        let scenario = &self.shared.scenario;
        let grace = if scenario.arrivals.is_some() { scenario.timeout } else { Duration::ZERO };
        scenario.length() + grace
    }

    fn step(&self, (kind, is_start, at): Place) -> &Step {
        let user = &self.shared.scenario.users[kind];
        if is_start { &user.start[at] } else { &user.steps[at] }
    }

    /// What is within the time of the run.
    fn within(&self, time: Duration) -> Duration {
        time.min(self.shared.scenario.length())
    }

    /// A user waited in vain, or could do nothing else. Those who arrive come whatever becomes of others: their failures are counted.
    fn lost(&self, user: usize, from: Duration, to: Duration) {
        if user >= self.shared.kinds.len() {
            return;
        }
        self.tally.borrow_mut().lost += self.within(to).saturating_sub(from);
    }

    fn stayed_since(&self, came: Duration) {
        let now = self.within(self.shared.course.elapsed());
        self.tally.borrow_mut().stayed += now.saturating_sub(came);
    }

    fn count(&self, step: &Step, taken: &Taken) {
        if taken.wrong.as_ref().is_some_and(Wrong::is_lost) {
            self.lost(taken.user, taken.sent, taken.done);
        }
        self.tally.borrow_mut().add(step, taken);
        self.shared.course.record(&step.name, taken);
    }

    /// No more steps are begun.
    fn is_over(&self) -> bool {
        self.shared.course.elapsed() >= self.end() || system::interrupted()
    }
}

/// A user.
struct Visitor {
    here: Rc<Here>,
    number: usize,
    kind: usize,
    /// `None`: it is one of those who are there.
    arrived: Option<Arrived>,
}

/// When a user was due, and how much later the generator noticed that.
#[derive(Debug, Clone, Copy)]
struct Arrived {
    due: Duration,
    late: Duration,
}

/// What a user knows and has.
struct Mind {
    client: Client,
    jar: Jar,
    values: HashMap<String, String>,
    rows: Vec<usize>,
    round: u64,
    /// Steps that were taken.
    taken: u64,
    rng: Rng,
    /// Of a user who arrives, until its first step is taken.
    arrived: Option<Arrived>,
}

/// What a user goes through: the steps at the start, or a round.
#[derive(Clone, Copy)]
struct Walk<'a> {
    user: &'a User,
    is_start: bool,
    /// When the user must go.
    until: Duration,
}

impl Walk<'_> {
    fn terms<'s>(&'s self, act: &'s Act) -> &'s Terms {
        match act {
            Act::Block(block) => &block.terms,
            Act::Step(at) if self.is_start => &self.user.start[*at].terms,
            Act::Step(at) => &self.user.steps[*at].terms,
        }
    }
}

/// An answer that was good, or what was wrong with it.
type Judged = Result<(), Wrong>;

impl Visitor {
    fn scenario(&self) -> &Scenario {
        &self.here.shared.scenario
    }

    fn elapsed(&self) -> Duration {
        self.here.shared.course.elapsed()
    }

    /// Comes and goes as the stages say.
    async fn visits(&self) {
        if let Some(arrived) = self.arrived {
            return self.session(arrived).await;
        }
        for (from, to) in self.scenario().presence(self.number) {
            sleep(from.saturating_sub(self.elapsed())).await;
            let users = &self.here.shared.course.users;
            users.fetch_add(1, Ordering::Relaxed);
            self.here.came.borrow_mut().insert(self.number, self.elapsed());
            let done = self.visit(to).await;
            let came = self.here.came.borrow_mut().remove(&self.number);
            self.here.stayed_since(came.unwrap_or_default());
            users.fetch_sub(1, Ordering::Relaxed);
            if done {
                return;
            }
        }
    }

    /// The one session of a user who arrives: its latency counts from when it was due.
    async fn session(&self, arrived: Arrived) {
        let users = &self.here.shared.course.users;
        users.fetch_add(1, Ordering::Relaxed);
        let done = self.visit(Duration::MAX).await;
        users.fetch_sub(1, Ordering::Relaxed);
        let wrong =
            self.here.arrived.borrow_mut().get_mut(&self.number).and_then(|session| session.wrong.take());
        let taken = self.elapsed().saturating_sub(arrived.due);
        let mut tally = self.here.tally.borrow_mut();
        let sessions = tally.sessions.get_or_insert_default();
        match wrong {
            Some(wrong) => wrong.count_in(&mut sessions.line),
            None if done => sessions.line.latency.record(taken.as_nanos() as u64),
            None => sessions.cut_off.push(taken),
        }
    }

    /// Steps that are not begun any more take no time: who went on to take them would never come to an end.
    fn must_go(&self, until: Duration) -> bool {
        self.elapsed() >= until || self.here.is_over()
    }

    /// One stay: whether all rounds are done.
    async fn visit(&self, until: Duration) -> bool {
        let scenario = self.scenario();
        let Some(user) = scenario.users.get(self.kind) else { return true };
        let mut mind = Mind {
            client: Client::new(&self.here.common),
            jar: Jar::default(),
            values: scenario.variables.iter().cloned().collect(),
            rows: vec![0; scenario.data.len()],
            round: 0,
            taken: 0,
            rng: Rng::new(Rng::from_clock().next_u64() ^ (self.number as u64) << 20),
            arrived: self.arrived,
        };
        self.rounds(user, until, &mut mind).await
    }

    /// The steps at the start, and the rounds; true when all are done.
    async fn rounds(&self, user: &User, until: Duration, mind: &mut Mind) -> bool {
        // Who arrives does what it came for, and goes.
        let usual = if self.arrived.is_some() { 1 } else { u64::MAX };
        let rounds = user.iterations.or(self.scenario().iterations).unwrap_or(usual);
        self.draw_rows(mind);
        let start = Walk { user, is_start: true, until };
        self.all(&start, &user.start_acts, mind).await;
        let round = Walk { is_start: false, ..start };
        while mind.round < rounds {
            let taken = mind.taken;
            if mind.round > 0 {
                self.draw_rows(mind);
            }
            let goes_on = if user.random {
                self.one(&round, &user.acts, mind).await
            } else {
                self.all(&round, &user.acts, mind).await
            };
            if !goes_on {
                return false;
            }
            if mind.taken == taken {
                // Nothing was to be done: a round that takes no time would have no end.
                sleep(AFTER_FAILURE).await;
            }
            mind.round += 1;
            if self.must_go(until) {
                return false;
            }
        }
        true
    }

    /// All acts in their order; false: the user must go.
    async fn all(&self, course: &Walk<'_>, acts: &[Act], mind: &mut Mind) -> bool {
        for act in acts {
            if self.must_go(course.until) || !self.act(course, act, mind).await {
                return false;
            }
        }
        true
    }

    /// One of the acts, drawn by their weights; false: the user must go.
    async fn one(&self, course: &Walk<'_>, acts: &[Act], mind: &mut Mind) -> bool {
        let weight = |act: &Act| course.terms(act).weight as usize;
        let mut left = mind.rng.below(acts.iter().map(weight).sum::<usize>().max(1));
        for act in acts {
            match left.checked_sub(weight(act)) {
                Some(rest) => left = rest,
                None => return self.act(course, act, mind).await,
            }
        }
        true
    }

    /// An act as often as it is to be done, if it is; false: the user must go.
    async fn act(&self, course: &Walk<'_>, act: &Act, mind: &mut Mind) -> bool {
        let terms = course.terms(act);
        for _ in 0..terms.repeat {
            let taken = mind.taken;
            if self.applies(terms, mind) {
                match act {
                    Act::Step(at) => self.take(course, *at, mind).await,
                    // Blocks may hold blocks: only those need memory of their own.
                    Act::Block(block) => {
                        let inner: Pin<Box<dyn Future<Output = bool> + '_>> = if block.random {
                            Box::pin(self.one(course, &block.acts, mind))
                        } else {
                            Box::pin(self.all(course, &block.acts, mind))
                        };
                        if !inner.await {
                            return false;
                        }
                    }
                }
            } else if terms.chance >= 1.0 {
                // Nothing changes before something is done.
                return true;
            }
            if self.must_go(course.until) {
                return false;
            }
            if mind.taken == taken && terms.repeat > MANY {
                sleep(Duration::from_millis(1)).await;
            }
        }
        true
    }

    fn draw_rows(&self, mind: &mut Mind) {
        for (at, data) in self.scenario().data.iter().enumerate() {
            mind.rows[at] = if data.random {
                mind.rng.below(data.table.rows.len())
            } else {
                self.here.shared.rows[at].fetch_add(1, Ordering::Relaxed) % data.table.rows.len()
            };
        }
    }

    /// Whether something is to be done now: by its chance, and by what the user knows.
    fn applies(&self, terms: &Terms, mind: &mut Mind) -> bool {
        if terms.chance < 1.0 && mind.rng.unit() >= terms.chance {
            return false;
        }
        let has = |(name, want): &(String, super::template::Template)| {
            let want = want.fill(Escape::None, &|name| self.value(mind, name)).unwrap_or_default();
            self.value(mind, name).unwrap_or_default() == want
        };
        terms.when.iter().all(has) && (terms.unless.is_empty() || !terms.unless.iter().all(has))
    }

    /// One step, and the pause after it.
    async fn take(&self, course: &Walk<'_>, at: usize, mind: &mut Mind) {
        if self.here.is_over() {
            return;
        }
        let (place, user) = ((self.kind, course.is_start, at), course.user);
        let step = self.here.step(place);
        mind.taken += 1;
        let sent = self.elapsed();
        let mut taken = Taken::begun(self.number, sent, sent);
        if let Some(Arrived { due, late }) = mind.arrived.take() {
            (taken.due, taken.late) = (due, late);
        }
        self.here.under_way.borrow_mut().insert(self.number, (place, sent));
        let waiting = UnderWay::of(&self.here.shared.course);
        let judged = self.ask(step, mind, &mut taken).await;
        drop(waiting);
        self.here.under_way.borrow_mut().remove(&self.number);
        taken.done = self.elapsed();
        taken.wrong = judged.err();
        if let Some(session) = self.here.arrived.borrow_mut().get_mut(&self.number)
            && session.wrong.is_none()
        {
            session.wrong.clone_from(&taken.wrong);
        }
        self.here.count(step, &taken);
        let think =
            step.think.or(user.think).map_or(Duration::ZERO, |think: Think| think.draw(&mut mind.rng));
        // Nothing came, or nothing could be sent.
        let is_lost = taken.status == 0;
        let pause = if is_lost { think.max(AFTER_FAILURE) } else { think };
        self.here.lost(self.number, taken.done + think, taken.done + pause);
        if !pause.is_zero() {
            sleep(pause).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_first_part_of_the_users_is_mixed() {
        let user = |weight| User {
            name: String::new(),
            weight,
            think: None,
            random: false,
            start: Vec::new(),
            start_acts: Vec::new(),
            steps: Vec::new(),
            acts: Vec::new(),
            stages: Vec::new(),
            iterations: None,
        };
        let kinds = kinds(&[user(3), user(1)], 8);
        assert_eq!(kinds.iter().filter(|&&kind| kind == 0).count(), 6);
        assert_eq!(kinds[..4].iter().filter(|&&kind| kind == 1).count(), 1);
    }
}
