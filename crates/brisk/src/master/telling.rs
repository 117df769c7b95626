//! What this process tells its workers of itself ([`News`](brisk_server::news::News)): at once where a state has changed, once a second where
//! only counters have. A program that writes without end changes a counter in every turn, and a worker takes one order at a time.

use super::state::{Link, Master, Purpose};
use crate::limits::NEWS_INTERVAL;
use crate::orders::Order;
use brisk_server::news::Program;
use brisk_supervise::State;
use std::time::Instant;

/// How soon a change is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Haste {
    /// A while after what was told last.
    Soon,
    Now,
}

/// What a worker knows of the news.
#[derive(Debug, Default)]
pub struct Telling {
    /// Something has changed that it was not told.
    wanted: Option<Haste>,
    /// When it was told last.
    last: Option<Instant>,
}

impl Telling {
    fn want(&mut self, haste: Haste) {
        self.wanted = self.wanted.max(Some(haste));
    }

    fn told(&mut self, now: Instant) {
        *self = Telling { wanted: None, last: Some(now) };
    }

    /// When it is to be told; a time that has passed means now.
    fn due(&self, now: Instant) -> Option<Instant> {
        match (self.wanted?, self.last) {
            (Haste::Soon, Some(last)) => Some(last + NEWS_INTERVAL),
            (Haste::Soon, None) | (Haste::Now, _) => Some(now),
        }
    }
}

/// How soon this change of programs is to be told.
pub fn haste(before: &[Program], now: &[Program]) -> Haste {
    let states = |programs: &[Program]| -> Vec<Program> {
        programs.iter().map(|program| Program { lost_lines: 0, ..program.clone() }).collect()
    };
    if states(before) == states(now) { Haste::Soon } else { Haste::Now }
}

/// Whether a worker serves or is about to. One that is about to end needs no news.
pub fn is_serving(state: State) -> bool {
    matches!(state, State::Starting { .. } | State::Ready { .. })
}

/// When a worker is to be told. One that has not answered has not read what it was told last, and gets the newest when it has.
fn due(link: &Link, now: Instant) -> Option<Instant> {
    let has_answered = !link.orders.iter().any(|order| order.purpose == Purpose::News);
    link.telling.due(now).filter(|_| has_answered)
}

impl Master {
    /// The workers are to know what has changed. Those that start afterwards have it from the beginning.
    pub(super) fn tell_news(&mut self, haste: Haste) {
        for worker in self.workers.iter_mut().filter(|worker| is_serving(worker.state)) {
            worker.link.telling.want(haste);
        }
        self.send_news(Instant::now());
    }

    /// Tells those workers whose time has come.
    pub(super) fn send_news(&mut self, now: Instant) {
        for pid in self.workers.pids() {
            let Some(worker) = self.workers.get_mut(pid) else { continue };
            if is_serving(worker.state) && due(&worker.link, now).is_some_and(|at| at <= now) {
                worker.link.telling.told(now);
                let text = self.news.encode();
                // One that has ended needs none.
                let _ = self.order(pid, Order::News { text }, Purpose::News);
            }
        }
    }

    /// When [`Master::send_news`] is to be called.
    pub(super) fn next_news(&self, now: Instant) -> Option<Instant> {
        let serving = self.workers.iter().filter(|worker| is_serving(worker.state));
        serving.filter_map(|worker| due(&worker.link, now)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_server::news::ProgramState;

    #[test]
    fn counters_are_told_once_in_a_while_and_states_at_once() {
        let (mut telling, begin) = (Telling::default(), Instant::now());
        assert_eq!(telling.due(begin), None);
        telling.want(Haste::Soon);
        assert_eq!(telling.due(begin), Some(begin), "the first time");
        telling.told(begin);
        assert_eq!(telling.due(begin), None);
        telling.want(Haste::Soon);
        assert_eq!(telling.due(begin), Some(begin + NEWS_INTERVAL));
        telling.want(Haste::Now);
        telling.want(Haste::Soon);
        assert_eq!(telling.due(begin), Some(begin));
    }

    #[test]
    fn only_lost_lines_can_wait() {
        let program = |state, lost_lines| Program {
            name: "shop".into(),
            state,
            pid: 1,
            since_unix_secs: 1,
            starts: 1,
            failures: 0,
            lost_lines,
        };
        let before = [program(ProgramState::Ready, 1)];
        assert_eq!(haste(&before, &[program(ProgramState::Ready, 2)]), Haste::Soon);
        assert_eq!(haste(&before, &[program(ProgramState::Waiting, 2)]), Haste::Now);
        assert_eq!(haste(&before, &[]), Haste::Now);
    }
}
