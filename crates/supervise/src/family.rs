//! The processes of one kind that stand for each other, each with its state, and the decisions about them. No system call, no
//! clock: times are passed in.

use std::time::{Duration, Instant};

/// A process number, as the kernel has it.
pub type Pid = i32;

/// What holds for all processes of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// A process that has not said in this time that it is ready is given up.
    pub start_time_max: Duration,
    /// A process that ends sooner than this after its start counts as one that failed to start.
    pub healthy_after: Duration,
    /// The pause after the first such failure. It doubles with each further one.
    pub pause_min: Duration,
    /// The longest pause.
    pub pause_max: Duration,
    /// Whether a process is started only when none before it is left, as what listens by itself needs it.
    pub is_alone: bool,
}

/// Where a process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Started; has not said that it is ready.
    Starting {
        /// When it was started.
        since: Instant,
        /// When it is late.
        until: Instant,
    },
    /// Does its work.
    Ready {
        /// When it was ready.
        since: Instant,
    },
    /// Has not answered in time. Another one is started in its place; until that is ready this one may still work.
    Stuck,
    /// Was told to end. Without a time it may take as long as it needs.
    Draining {
        /// When it is killed; `None`: it may take its time.
        kill_at: Option<Instant>,
    },
    /// Was sent SIGKILL.
    Killed,
}

impl State {
    /// Whether it fills the family's place: no other one is to be started.
    fn is_active(self) -> bool {
        matches!(self, State::Starting { .. } | State::Ready { .. })
    }
}

/// A process. `link` is what its caller keeps for it.
#[derive(Debug)]
pub struct Member<L> {
    /// Its process id.
    pub pid: Pid,
    /// How far it is.
    pub state: State,
    /// What the caller keeps for it.
    pub link: L,
}

/// A process that has ended.
#[derive(Debug)]
pub struct Gone<L> {
    /// What the caller has kept for it.
    pub link: L,
    /// The state in which it ended.
    pub state: State,
}

/// Something to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// A process is missing: start one.
    Start,
    /// This one did not become ready in time: kill it.
    StartOverdue(Pid),
    /// This one was told to end and has not: kill it.
    EndOverdue(Pid),
}

/// Pauses between starts that fail one after the other.
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    failures: u32,
    not_before: Option<Instant>,
}

impl Backoff {
    /// A process has ended, or could not be started, without being told to. `lived`: for how long it ran.
    pub fn failed(&mut self, policy: &Policy, lived: Duration, now: Instant) {
        if lived >= policy.healthy_after {
            *self = Backoff::default();
            return;
        }
        let factor = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        let pause = policy.pause_min.saturating_mul(factor).min(policy.pause_max);
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + pause);
    }

    /// The earliest time of the next start; `None`: at once.
    pub fn not_before(&self) -> Option<Instant> {
        self.not_before
    }
}

/// The processes of one kind that stand for each other: at most one is wanted at a time, others start or end beside it.
#[derive(Debug)]
pub struct Family<L> {
    policy: Policy,
    members: Vec<Member<L>>,
    backoff: Backoff,
    is_wanted: bool,
}

impl<L> Family<L> {
    /// A family without processes that wants none yet.
    pub fn new(policy: Policy) -> Family<L> {
        Family { policy, members: Vec::new(), backoff: Backoff::default(), is_wanted: false }
    }

    /// Other times hold from now on.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// Whether one process is to run from now on. Those that run are not touched; pauses are forgotten.
    pub fn want(&mut self, is_wanted: bool) {
        self.is_wanted = is_wanted;
        self.backoff = Backoff::default();
    }

    /// A process was started.
    pub fn started(&mut self, pid: Pid, link: L, now: Instant) {
        let state = State::Starting { since: now, until: now + self.policy.start_time_max };
        self.members.push(Member { pid, state, link });
    }

    /// A process could not even be started.
    pub fn start_failed(&mut self, now: Instant) {
        self.backoff.failed(&self.policy, Duration::ZERO, now);
    }

    /// A process that works does so no more, and is about to be told to end. The next one waits for its pause, unless this one was well for long
    /// enough.
    pub fn failed(&mut self, pid: Pid, now: Instant) {
        if let Some(State::Ready { since }) = self.get(pid).map(|member| member.state) {
            self.backoff.failed(&self.policy, now.saturating_duration_since(since), now);
        }
    }

    /// Takes in a process that another supervisor started. It was replaced there and will be told to end.
    pub fn adopted(&mut self, pid: Pid, link: L) {
        self.members.push(Member { pid, state: State::Stuck, link });
    }

    /// A process says that it is ready. False if it was not starting.
    pub fn ready(&mut self, pid: Pid) -> bool {
        match self.get_mut(pid).map(|member| &mut member.state) {
            Some(state @ State::Starting { .. }) => {
                let State::Starting { since, .. } = *state else { return false };
                *state = State::Ready { since };
                true
            }
            _ => false,
        }
    }

    /// A process that works has not answered in time: from now on another one is missing.
    pub fn stuck(&mut self, pid: Pid) {
        if let Some(member) = self.get_mut(pid)
            && member.state.is_active()
        {
            member.state = State::Stuck;
        }
    }

    /// A process was told to end; at `kill_at` it is killed. A second call can only bring that nearer.
    pub fn draining(&mut self, pid: Pid, kill_at: Option<Instant>) {
        let Some(member) = self.get_mut(pid) else { return };
        member.state = match member.state {
            State::Killed => State::Killed,
            State::Draining { kill_at: before } => {
                State::Draining { kill_at: before.into_iter().chain(kill_at).min() }
            }
            _ => State::Draining { kill_at },
        };
    }

    /// A process was sent SIGKILL.
    pub fn killed(&mut self, pid: Pid) {
        if let Some(member) = self.get_mut(pid) {
            member.state = State::Killed;
        }
    }

    /// A start is given up: the process is killed, and the next one waits for its pause.
    pub fn gave_up_start(&mut self, pid: Pid, now: Instant) {
        self.killed(pid);
        self.start_failed(now);
    }

    /// A process has ended; gives what was kept for it. `None` if it is not of this family.
    pub fn gone(&mut self, pid: Pid, now: Instant) -> Option<Gone<L>> {
        let at = self.members.iter().position(|member| member.pid == pid)?;
        let Member { state, link, .. } = self.members.remove(at);
        if let State::Starting { since, .. } | State::Ready { since } = state {
            self.backoff.failed(&self.policy, now.saturating_duration_since(since), now);
        }
        Some(Gone { link, state })
    }

    /// The first thing to be done at this time.
    pub fn due(&self, now: Instant) -> Option<Due> {
        let overdue = self.members.iter().find_map(|member| match member.state {
            State::Starting { until, .. } if until <= now => Some(Due::StartOverdue(member.pid)),
            State::Draining { kill_at: Some(at) } if at <= now => Some(Due::EndOverdue(member.pid)),
            _ => None,
        });
        let may_start = || self.backoff.not_before.is_none_or(|at| at <= now);
        overdue.or_else(|| (self.is_missing() && may_start()).then_some(Due::Start))
    }

    /// When [`Family::due`] is to be asked again, if nothing happens before; a time that has passed means now.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        let ends = self.members.iter().filter_map(|member| match member.state {
            State::Starting { until, .. } => Some(until),
            State::Draining { kill_at } => kill_at,
            _ => None,
        });
        let start = self.is_missing().then(|| self.backoff.not_before.unwrap_or(now));
        ends.chain(start).min()
    }

    fn is_missing(&self) -> bool {
        let is_alone = self.policy.is_alone;
        self.is_wanted && !self.members.iter().any(|member| is_alone || member.state.is_active())
    }

    /// The process that does the family's work: the newest that is ready.
    pub fn serving(&self) -> Option<&Member<L>> {
        self.members.iter().rev().find(|member| matches!(member.state, State::Ready { .. }))
    }

    /// The process with this number.
    pub fn get(&self, pid: Pid) -> Option<&Member<L>> {
        self.members.iter().find(|member| member.pid == pid)
    }

    /// The process with this number.
    pub fn get_mut(&mut self, pid: Pid) -> Option<&mut Member<L>> {
        self.members.iter_mut().find(|member| member.pid == pid)
    }

    /// All processes, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Member<L>> {
        self.members.iter()
    }

    /// All processes, the oldest first.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Member<L>> {
        self.members.iter_mut()
    }

    /// The numbers of all processes, the oldest first.
    pub fn pids(&self) -> Vec<Pid> {
        self.members.iter().map(|member| member.pid).collect()
    }

    /// Whether no process is left.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Forgets all processes, as a child does after `fork`.
    pub fn clear(&mut self) {
        self.members.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: Policy = Policy {
        start_time_max: Duration::from_mins(1),
        healthy_after: Duration::from_secs(1),
        pause_min: Duration::from_millis(200),
        pause_max: Duration::from_secs(5),
        is_alone: false,
    };

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn family() -> (Family<&'static str>, Instant) {
        let mut family = Family::new(POLICY);
        family.want(true);
        (family, Instant::now())
    }

    #[test]
    fn one_process_is_started_and_started_again_when_it_dies() {
        let (mut family, begin) = family();
        assert_eq!(family.due(begin), Some(Due::Start));
        family.started(10, "a", begin);
        assert_eq!((family.due(begin), family.serving().is_none()), (None, true));
        assert!(family.ready(10) && !family.ready(10));
        assert_eq!(family.serving().map(|member| member.link), Some("a"));
        // It lived long enough: the next one is started at once.
        let now = begin + ms(1000);
        let gone = family.gone(10, now).unwrap();
        assert_eq!((gone.link, gone.state), ("a", State::Ready { since: begin }));
        assert_eq!(family.due(now), Some(Due::Start));
        assert!(family.gone(10, now).is_none());
        // Where none is wanted none is started.
        family.want(false);
        assert_eq!((family.due(now), family.next(now)), (None, None));
    }

    #[test]
    fn one_that_is_alone_is_started_when_the_one_before_has_ended() {
        let (mut family, begin) = family();
        family.policy.is_alone = true;
        family.started(10, "a", begin);
        family.ready(10);
        family.draining(10, Some(begin + ms(500)));
        assert_eq!((family.due(begin), family.next(begin)), (None, Some(begin + ms(500))));
        assert_eq!(family.due(begin + ms(500)), Some(Due::EndOverdue(10)));
        family.killed(10);
        assert_eq!((family.due(begin + ms(501)), family.next(begin + ms(501))), (None, None));
        family.gone(10, begin + ms(502));
        assert_eq!(family.due(begin + ms(502)), Some(Due::Start));
    }

    #[test]
    fn pauses_double_to_their_maximum_and_end_with_health() {
        let (mut family, mut now) = family();
        for (pid, pause) in [200, 400, 800, 1600, 3200, 5000, 5000].into_iter().enumerate() {
            let pid = pid as Pid + 1;
            family.started(pid, "", now);
            family.ready(pid);
            now += ms(999);
            family.gone(pid, now);
            assert_eq!(family.due(now + ms(pause - 1)), None, "{pause}");
            assert_eq!(family.next(now), Some(now + ms(pause)));
            now += ms(pause);
            assert_eq!(family.due(now), Some(Due::Start));
        }
        family.started(99, "", now);
        family.ready(99);
        now += ms(1000);
        family.gone(99, now);
        assert_eq!(family.due(now), Some(Due::Start), "no pause after a healthy one");
        family.start_failed(now);
        assert_eq!(family.next(now), Some(now + ms(200)), "and the first pause again");
    }

    /// One that was well for long begins the pauses anew, however it fails.
    #[test]
    fn one_that_is_ended_for_being_unwell_counts_as_one_that_ends() {
        let (mut family, mut now) = family();
        family.policy.is_alone = true;
        for (pid, well, pause) in [(1, 10, 200), (2, 999, 400), (3, 1000, 0), (4, 500, 200)] {
            family.started(pid, "", now);
            family.ready(pid);
            now += ms(well);
            family.failed(pid, now);
            family.draining(pid, Some(now + ms(50)));
            // It says nothing more of a process that is ending already.
            family.failed(pid, now);
            family.gone(pid, now);
            assert_eq!(family.next(now), Some(now + ms(pause)), "{pid}");
            now += ms(pause);
            assert_eq!(family.due(now), Some(Due::Start));
        }
    }

    #[test]
    fn very_many_failures_overflow_nothing() {
        let mut backoff = Backoff { failures: u32::MAX - 1, not_before: None };
        let now = Instant::now();
        (0..3).for_each(|_| backoff.failed(&POLICY, Duration::ZERO, now));
        assert_eq!(backoff.not_before(), Some(now + POLICY.pause_max));
    }

    #[test]
    fn a_start_that_takes_too_long_is_given_up() {
        let (mut family, begin) = family();
        family.started(1, "", begin);
        assert_eq!(family.due(begin + ms(59_999)), None);
        let now = begin + POLICY.start_time_max;
        assert_eq!((family.next(begin), family.due(now)), (Some(now), Some(Due::StartOverdue(1))));
        family.gave_up_start(1, now);
        // Its end is no second failure.
        assert_eq!(family.gone(1, now + ms(5)).map(|gone| gone.state), Some(State::Killed));
        assert_eq!(family.next(now), Some(now + ms(200)));
    }

    /// One that does not answer is replaced before it is told to end.
    #[test]
    fn a_stuck_process_is_replaced_then_told_to_end_then_killed() {
        let (mut family, begin) = family();
        family.started(1, "old", begin);
        family.ready(1);
        family.stuck(1);
        assert_eq!(family.due(begin), Some(Due::Start));
        family.started(2, "new", begin);
        assert_eq!((family.due(begin), family.serving().is_none()), (None, true));
        family.ready(2);
        assert_eq!(family.serving().map(|member| member.pid), Some(2));
        let kill_at = begin + ms(50);
        family.draining(1, Some(kill_at));
        // A later time does not prolong it, a missing one neither.
        family.draining(1, Some(kill_at + ms(1)));
        family.draining(1, None);
        assert_eq!((family.due(begin + ms(49)), family.due(kill_at)), (None, Some(Due::EndOverdue(1))));
        family.killed(1);
        family.stuck(1);
        family.draining(1, None);
        assert_eq!(family.get(1).map(|member| member.state), Some(State::Killed));
        family.gone(1, kill_at);
        assert_eq!((family.due(kill_at), family.pids()), (None, vec![2]));
    }

    /// A replacement that cannot start leaves the stuck one, and is tried again after a pause.
    #[test]
    fn a_replacement_that_fails_is_tried_again() {
        let (mut family, begin) = family();
        family.started(1, "", begin);
        family.ready(1);
        family.stuck(1);
        family.started(2, "", begin);
        family.gone(2, begin);
        assert_eq!((family.due(begin), family.next(begin)), (None, Some(begin + ms(200))));
        assert_eq!(family.due(begin + ms(200)), Some(Due::Start));
    }

    #[test]
    fn what_was_told_to_end_is_not_replaced_for_that() {
        let (mut family, now) = family();
        family.started(1, "old", now);
        family.ready(1);
        family.started(2, "new", now);
        family.ready(2);
        family.draining(1, None);
        assert!(family.gone(1, now).is_some());
        assert_eq!((family.due(now), family.next(now)), (None, None));
        // An adopted one does not fill the place either.
        family.adopted(3, "other");
        family.gone(2, now + ms(5000));
        assert_eq!(family.due(now + ms(5000)), Some(Due::Start));
    }
}
