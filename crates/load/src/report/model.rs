//! What one command has found, and what its figures come to. How it is written down is in the files beside this one.

use std::time::Duration;

use super::environment::Environment;
use super::resources::{Beside, Resources};
use super::truth::{Invalid, Moved, starved};
use crate::arrivals::Rate;
use crate::engine::Outcome;
use crate::limits::GENERATOR_SHARE_MAX;
use crate::stats::ErrorKind;
use crate::sweep::slo::{Judged, Seen};
use crate::sweep::{Found, Search, Sweep};
use crate::watch::{Generator, MachineSummary, TierSummary};

/// The quantiles that reports show.
pub const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)];

/// The share of the users' time that went into what never came. A user who is not answered asks seldom: one failure stands
/// beside a thousand answers of others, so failures are weighed by time, not counted. 0 to 1.
pub fn lost_share(lost_secs: f64, users_secs: f64) -> f64 {
    (lost_secs / users_secs.max(1e-9)).min(1.0)
}

/// One run.
#[derive(Debug, Clone)]
pub struct RunReport {
    /// What distinguishes it from others of the same report: `100 users`. Empty for a single one.
    pub label: String,
    /// Connections: in a closed loop, users.
    pub users: usize,
    /// Requests at a time on each; 0: users pause between requests.
    pub depth: usize,
    /// Threads of the generator.
    pub threads: usize,
    /// The rate of an open loop.
    pub rate: Option<Rate>,
    /// What came of it.
    pub outcome: Outcome,
    /// What was cut off as warm-up, and whether the rest was steady; `None`: nobody looked.
    pub steady: Option<(Duration, bool)>,
    /// What was watched beside it.
    pub watched: Option<Beside>,
}

/// Everything that one command has found.
#[derive(Debug, Clone)]
pub struct Report {
    /// The command.
    pub command: String,
    /// What was asked for.
    pub targets: Vec<String>,
    /// Where.
    pub environment: Environment,
    /// In the order in which they ran.
    pub runs: Vec<RunReport>,
    /// What the runs say together, if they are a sweep.
    pub sweep: Option<Sweep>,
    /// What a search for the highest rate has found.
    pub search: Option<Search>,
    /// What was promised of the runs, and what came of it; empty: nothing was. Those of a sweep have their run in front.
    pub promises: Vec<Judged>,
    /// Whether runs are to be judged by promises. Of one that is INVALID nothing is.
    pub is_judged: bool,
    /// Whether the user ended it early.
    pub is_cut_short: bool,
}

/// What a command's figures come to: its exit code, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// All promises were kept, or nothing was promised.
    Holds,
    /// A promise was broken.
    Broken,
    /// The figures of a single run are INVALID, or of one of a sweep that promises were to be judged by.
    Invalid,
    /// Nothing was answered with success, or nothing could be decided.
    NoResult,
}

impl Verdict {
    /// Its name in JSON, pages and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Broken => "broken",
            Self::Invalid => "invalid",
            Self::NoResult => "no result",
        }
    }
}

impl Report {
    /// What it comes to. Figures that mean nothing keep no promise and break none.
    pub fn verdict(&self) -> Verdict {
        match self.search.as_ref().map(Search::found) {
            Some(Found::Never) => return Verdict::Broken,
            Some(Found::CannotJudge | Found::CutShort) => return Verdict::NoResult,
            Some(Found::Holds) | None => {}
        }
        let is_broken = self.promises.iter().any(|judged| !judged.holds);
        match &self.runs[..] {
            [run] if self.search.is_none() && run.invalid().is_some() => Verdict::Invalid,
            [run] if self.search.is_none() && run.is_unreached() => Verdict::NoResult,
            _ if is_broken => Verdict::Broken,
            runs if runs.iter().all(|run| run.outcome.stats.latency.count() == 0) => Verdict::NoResult,
            runs if self.is_judged && runs.iter().any(|run| run.invalid().is_some()) => Verdict::Invalid,
            _ => Verdict::Holds,
        }
    }
}

impl RunReport {
    /// Seconds of the counted part.
    pub fn seconds(&self) -> f64 {
        self.outcome.elapsed.as_secs_f64().max(1e-9)
    }

    /// Responses per second, of those that came in time.
    pub fn throughput(&self) -> f64 {
        self.outcome.stats.responses_in_time() as f64 / self.seconds()
    }

    /// Responses per second that were not refusals (4xx, 5xx).
    pub fn goodput(&self) -> f64 {
        self.outcome.stats.good_in_time() as f64 / self.seconds()
    }

    /// CPU that the generator needed per response, in microseconds.
    pub fn generator_cpu_us(&self) -> f64 {
        self.outcome.stats.generator_cpu_ns as f64 / 1e3 / self.outcome.stats.responses().max(1) as f64
    }

    /// The share of its time that a thread of the generator was on a CPU, in the mean.
    pub fn generator_share(&self) -> f64 {
        self.outcome.stats.generator_cpu_ns as f64 / 1e9 / self.seconds() / self.threads.max(1) as f64
    }

    /// What the generator needed.
    pub fn generator(&self) -> Generator {
        Generator { share: self.generator_share(), threads: self.threads }
    }

    /// What promises are judged by.
    pub fn seen(&self) -> Seen<'_> {
        Seen::of(&self.outcome.stats, self.lost_share(), self.seconds())
    }

    /// Why the figures do not say what a user of this server would see.
    pub fn invalid(&self) -> Option<Invalid> {
        let Outcome { stats, elapsed, users, is_local, .. } = &self.outcome;
        Invalid::of(stats, elapsed.is_zero(), *users, *is_local)
    }

    /// Whether nobody ever had a connection: that says nothing of a server.
    fn is_unreached(&self) -> bool {
        use ErrorKind::{Connect, ConnectTimeout, Dns, Refused, Tls};
        let stats = &self.outcome.stats;
        let missed = [Dns, Connect, Refused, ConnectTimeout, Tls].map(|kind| stats.errors_of(kind));
        stats.responses() == 0 && stats.errors() > 0 && missed.iter().sum::<u64>() == stats.errors()
    }

    /// The share of its time that a thread of the generator waited for a CPU, in the mean.
    pub fn generator_waited_share(&self) -> f64 {
        self.outcome.stats.generator_waited_ns as f64 / 1e9 / self.seconds() / self.threads.max(1) as f64
    }

    /// What should be known before the figures are believed, though they may be right.
    pub fn warnings(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.generator_share() > GENERATOR_SHARE_MAX {
            let share = self.generator_share() * 100.0;
            found.push(format!(
                "the generator used {share:.0} % of a core per thread: it may be what was measured; use more threads"
            ));
        }
        if let Some(Moved { ms, without_ms, .. }) = starved(&self.outcome.stats)
            && self.outcome.is_local
        {
            found.push(format!(
                "the generator waited {:.3} ms for a CPU before it noticed a response, in the mean, and p50 is {ms:.3} ms: the server or \
                 others on this machine had the CPUs; put the load on another machine, or leave it a CPU of its own",
                ms - without_ms
            ));
        }
        if let Some((_, false)) = self.steady {
            found.push("the rate still rose or fell at the end: run it for longer".to_owned());
        }
        if self.outcome.records_dropped > 0 {
            found.push(format!("{} requests found no room in the raw log", self.outcome.records_dropped));
        }
        if self.outcome.stats.tail.left > 0 {
            found.push(format!(
                "{} requests were under way when it was stopped, and are in none of the figures",
                self.outcome.stats.tail.left
            ));
        }
        if let Some(little) = self.little()
            && !(0.9..=1.1).contains(&little)
        {
            found.push(format!(
                "rate × latency comes to {little:.2} times the users (Little's law): {}",
                self.why_not_little(little)
            ));
        }
        found
    }

    /// In a closed loop without errors, rate × mean latency is the number of users (Little's law): their ratio. What
    /// differs from 1 was spent on other things: [`Self::warnings`] say on which.
    pub fn little(&self) -> Option<f64> {
        let stats = &self.outcome.stats;
        let is_closed = self.rate.is_none() && self.depth > 0 && stats.responses_in_time() >= 100;
        let waited = stats.latency.sum() + stats.refused.sum() - stats.tail.latency_ns;
        is_closed.then(|| self.share_of_users_time(waited))
    }

    /// The share of the users' time that went into requests without a usable answer; 0 in an open loop, which has no users.
    pub fn lost_share(&self) -> f64 {
        if self.rate.is_some() {
            return 0.0;
        }
        lost_share(self.outcome.stats.failed_ns as f64 / 1e9, self.users_secs())
    }

    /// All the time that the users of a closed loop had, in seconds.
    fn users_secs(&self) -> f64 {
        self.seconds() * (self.users * self.depth.max(1)).max(1) as f64
    }

    /// These nanoseconds, as a share of all the time that the users of a closed loop had.
    fn share_of_users_time(&self, ns: u128) -> f64 {
        ns as f64 / 1e9 / self.users_secs()
    }

    /// What the users did when they did not wait for an answer that came in time: what took most of it.
    fn why_not_little(&self, little: f64) -> String {
        let stats = &self.outcome.stats;
        if little > 1.0 {
            return "many answers had been waited for since before the count began: run it for longer"
                .to_owned();
        }
        let kinds: Vec<String> =
            stats.errors.seen().map(|(kind, count)| format!("{} {count}", kind.name())).collect();
        let reasons = [
            (u128::from(stats.failed_ns), format!("requests without an answer ({})", kinds.join(", "))),
            (
                u128::from(stats.tail.waited_ns.saturating_sub(stats.failed_ns)),
                format!("the {} requests that were under way at the end", stats.tail.under_way),
            ),
            (stats.connect.sum() + stats.handshake.sum(), "connecting".to_owned()),
        ];
        let reasons = reasons.map(|(ns, what)| (self.share_of_users_time(ns), what));
        match reasons.into_iter().max_by(|one, other| one.0.total_cmp(&other.0)) {
            Some((share, what)) if share >= (1.0 - little) / 2.0 => {
                format!("{what} took {:.0} % of their time", share * 100.0)
            }
            _ if kinds.is_empty() => {
                "the generator, or the machine that it shares with others, was busy with something else"
                    .to_owned()
            }
            _ => format!("errors took the rest of their time ({})", kinds.join(", ")),
        }
    }

    /// The first and the last second that its charts show, counted from its start.
    pub fn span(&self) -> (f64, f64) {
        let (low, high) = self.watched.as_ref().map_or((0.0, 0.0), Beside::span);
        let last = self.outcome.series.last().map_or(Duration::ZERO, |slice| slice.at + slice.width);
        (low, high.max(last.as_secs_f64()))
    }

    /// What was watched, if anything was.
    pub fn resources(&self) -> Option<Resources<'_>> {
        let beside = self.watched.as_ref()?;
        let responses = self.outcome.stats.responses_in_time();
        Some(Resources { beside, responses, generator: self.generator() })
    }

    /// How many times the rate there is room for, as far as that was watched and can be told.
    pub fn headroom(&self) -> Option<f64> {
        self.resources()?.headroom()
    }

    /// What the tiers and the machine did during the counted part.
    pub fn tiers(&self) -> Option<(Vec<TierSummary>, MachineSummary)> {
        self.resources().map(|resources| resources.tiers())
    }
}
