//! The highest rate at which a server keeps its promises.
//!
//! Doubling until it breaks them, halving the gap until it is small, then asking again at the best rate: it counts only if
//! the promises hold there every time. What decides is left to the caller's trials, so that the search is tested without a
//! server.

use crate::limits::{RATE_MAX, TRIALS_MAX};
use serde_json::{Value, json};
use std::fmt;

use crate::chart::short;
use crate::days::days;

/// The gap between what holds and what does not, relative to the rate, at which a search ends.
const GAP: f64 = 0.05;
/// Trials at the best rate: if the promises held there only every second time, five in a row would be a 3 % chance.
const CONFIRMATIONS: usize = 5;

/// One trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Requests per second.
    pub rate: f64,
    /// The promises that were broken, in words; none: they held.
    pub broken: Vec<String>,
    /// The generator was late, by so much that it moved a percentile. Latency contains that: a promise that held, held. One that was
    /// broken may have been the generator's.
    pub is_late: bool,
}

/// What a search comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The promises held at a rate, again and again.
    Holds,
    /// They held at none.
    Never,
    /// They held at none, and the generator was late each time: it may be what broke them.
    CannotJudge,
    /// It was ended before it was sure.
    CutShort,
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let late = if self.is_late { " (the generator was late)" } else { "" };
        let said = if self.broken.is_empty() {
            "holds".to_owned()
        } else {
            format!("broken: {}", self.broken.join(", "))
        };
        write!(f, "{said}{late}")
    }
}

/// What a search has found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Search {
    /// What was promised.
    pub slo: String,
    /// All trials, in their order.
    pub trials: Vec<Trial>,
    /// The highest rate at which all trials held, five of them or more; `None`: there was none.
    pub holds: Option<f64>,
    /// The lowest rate at which a trial did not.
    pub breaks: Option<f64>,
    /// It was ended before it was sure.
    pub is_cut_short: bool,
}

/// Searches from `start` requests per second. `trial` tries a rate; `None` ends the search.
pub fn search(slo: &str, start: f64, mut trial: impl FnMut(f64) -> Option<Trial>) -> Search {
    let mut search = Search { slo: slo.to_owned(), ..Search::default() };
    if search.run(start, &mut trial).is_none() {
        search.is_cut_short = true;
    }
    search
}

impl Search {
    fn run(&mut self, start: f64, trial: &mut impl FnMut(f64) -> Option<Trial>) -> Option<()> {
        let (mut low, mut high) = (0.0, f64::INFINITY);
        let mut rate = start.clamp(1.0, RATE_MAX);
        while high > low * (1.0 + GAP) && high - low >= 1.0 && low < RATE_MAX {
            if self.ask(rate, trial)? {
                low = rate;
            } else {
                high = rate;
            }
            rate = match (low, high) {
                (low, f64::INFINITY) => low * 2.0,
                // Nothing has held yet: down by large steps.
                (0.0, high) if high <= 1.0 => return Some(()),
                (0.0, high) => (high / 4.0).max(1.0),
                (low, high) => (low * high).sqrt(),
            };
        }
        // It held once there; now it has to hold again and again.
        while low >= 1.0 {
            let held = self.trials.iter().filter(|trial| trial.rate.total_cmp(&low).is_eq()).count();
            if held >= CONFIRMATIONS {
                self.holds = Some(low);
                return Some(());
            }
            if !self.ask(low, trial)? {
                low *= 1.0 - GAP;
            }
        }
        Some(())
    }

    fn ask(&mut self, rate: f64, trial: &mut impl FnMut(f64) -> Option<Trial>) -> Option<bool> {
        if self.trials.len() >= TRIALS_MAX {
            return None;
        }
        let trial = Trial { rate, ..trial(rate)? };
        let holds = trial.broken.is_empty();
        if !holds {
            self.breaks = Some(self.breaks.map_or(rate, |least: f64| least.min(rate)));
        }
        self.trials.push(trial);
        Some(holds)
    }

    /// What it comes to.
    pub fn found(&self) -> Found {
        match self.holds {
            Some(_) => Found::Holds,
            None if self.is_cut_short => Found::CutShort,
            None if !self.trials.is_empty() && self.trials.iter().all(|trial| trial.is_late) => {
                Found::CannotJudge
            }
            None => Found::Never,
        }
    }

    /// Each trial's rate and what came of it; those in a row at one rate that came to the same are one.
    pub fn rows(&self) -> Vec<(String, String)> {
        let mut rows: Vec<(String, String, usize)> = Vec::new();
        for trial in &self.trials {
            let (rate, said) = (short(trial.rate), trial.to_string());
            match rows.last_mut().filter(|last| last.0 == rate && last.1 == said) {
                Some((_, _, times)) => *times += 1,
                None => rows.push((rate, said, 1)),
            }
        }
        let told = |said: String, times| if times > 1 { format!("{said}, {times} times") } else { said };
        rows.into_iter().map(|(rate, said, times)| (rate, told(said, times))).collect()
    }

    /// What it comes to, in words.
    pub fn finding(&self) -> String {
        let times =
            |rate: f64| self.trials.iter().filter(|trial| trial.rate.total_cmp(&rate).is_eq()).count();
        match (self.holds, self.breaks) {
            (Some(holds), Some(breaks)) => format!(
                "{} holds at {} requests/s ({} of {} trials), and not always at {}",
                self.slo,
                short(holds),
                times(holds),
                times(holds),
                short(breaks)
            ),
            (Some(holds), None) => {
                format!("{} holds at {} requests/s, the highest that was tried", self.slo, short(holds))
            }
            (None, _) => match self.found() {
                Found::CutShort => format!("{}: ended before it was sure", self.slo),
                Found::CannotJudge => format!(
                    "{} cannot be judged: the generator itself was late in each trial; it needs a quieter machine, or one of its own",
                    self.slo
                ),
                Found::Holds | Found::Never => format!("{} does not hold at any rate", self.slo),
            },
        }
    }

    /// In words, with all trials.
    pub fn lines(&self) -> Vec<String> {
        let trials = self.rows().into_iter().map(|(rate, said)| format!("{rate:>10} /s: {said}"));
        let days = self.holds.map(|rate| days(rate, None));
        trials.chain([self.finding()]).chain(days).collect()
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        let trial =
            |trial: &Trial| json!({ "rate": trial.rate, "broken": trial.broken, "late": trial.is_late });
        let found = match self.found() {
            Found::Holds => "holds",
            Found::Never => "does not hold",
            Found::CannotJudge => "cannot judge",
            Found::CutShort => "ended early",
        };
        json!({
            "slo": self.slo,
            "verdict": found,
            "holds_at": self.holds,
            "breaks_at": self.breaks,
            "ended_early": self.is_cut_short,
            "trials": self.trials.iter().map(trial).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn broken(is_broken: bool) -> Option<Trial> {
        let broken = if is_broken { vec!["p99 is 300 ms".to_owned()] } else { Vec::new() };
        Some(Trial { rate: 0.0, broken, is_late: false })
    }

    /// "holds at 1 request/s" where 380/s held: what the generator adds is in the latencies that held.
    #[test]
    fn a_late_generator_breaks_no_promise_that_held() {
        let late = |is_broken: bool| broken(is_broken).map(|trial| Trial { is_late: true, ..trial });
        let found = search("p99<200ms", 100.0, |rate| late(rate > 380.0));
        assert!(found.holds.is_some_and(|holds| (340.0..=380.0).contains(&holds)), "{found:?}");
        assert_eq!(found.found(), Found::Holds);
        // Broken each time, and late each time: who has broken it is not known.
        let all = search("p99<200ms", 100.0, |_| late(true));
        assert_eq!((all.found(), &all.to_json()["verdict"]), (Found::CannotJudge, &json!("cannot judge")));
        assert!(all.lines().pop().unwrap().contains("cannot be judged"), "{all:?}");
        // In peace once: then it is known.
        let mut trials = 0;
        let once = search("p99<200ms", 100.0, |_| {
            trials += 1;
            if trials == 2 { broken(true) } else { late(true) }
        });
        assert_eq!(once.found(), Found::Never);
    }

    #[test]
    fn the_limit_is_found_from_any_start() {
        for limit in [3.0, 47.0, 1200.0, 250_000.0] {
            for start in [1.0, 100.0, 1e6] {
                let found = search("p99<200ms", start, |rate| broken(rate > limit));
                let holds = found.holds.unwrap();
                assert!(holds <= limit && holds >= limit * 0.9 - 1.0, "{limit} from {start}: {holds}");
                assert!(found.breaks.unwrap() > limit && !found.is_cut_short);
            }
        }
    }

    #[test]
    fn trials_that_came_to_the_same_have_one_line() {
        let lines = search("p99<200ms", 64.0, |rate| broken(rate > 100.0)).lines();
        let mut once = lines.clone();
        once.dedup();
        assert_eq!(once, lines, "said twice");
        assert!(lines.iter().any(|line| line.ends_with("/s: holds, 4 times")), "{lines:#?}");
        assert!(lines.iter().any(|line| line.ends_with("broken: p99 is 300 ms")), "{lines:#?}");
    }

    /// Near the limit it is a matter of luck: what is reported then holds nearly always.
    #[test]
    fn luck_is_not_taken_for_a_limit() {
        let mut rng = Rng::new(51);
        for _ in 0..100 {
            let chance = |rate: f64| ((rate - 900.0) / 200.0).clamp(0.0, 1.0);
            let found = search("p99<200ms", 100.0, |rate| broken(rng.unit() < chance(rate)));
            let Some(holds) = found.holds else { continue };
            assert!(chance(holds) < 0.6 && holds > 600.0, "{holds}");
        }
    }

    #[test]
    fn a_search_ends() {
        assert_eq!(search("x", 10.0, |_| broken(true)).holds, None);
        let endless = search("x", 10.0, |_| broken(false));
        assert!(endless.holds.unwrap() >= RATE_MAX && endless.trials.len() < TRIALS_MAX);
        let stopped = search("x", 10.0, |rate| if rate > 50.0 { None } else { broken(false) });
        assert!(stopped.is_cut_short && stopped.lines().last().unwrap().contains("before"));
    }
}
