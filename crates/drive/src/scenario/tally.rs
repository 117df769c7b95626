//! What a scenario has shown: per step, per group, and in all.

use super::course::Taken;
use super::line::Line;
use super::model::Step;
use super::threshold::Threshold;
use brisk_load::report::{QUANTILES, label, lost_share};
use brisk_load::sweep::slo::Judged;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// What the columns of [`Tally::rows`] are.
pub const HEAD: [&str; 9] =
    ["step", "requests", "failed", "mean ms", "p50 ms", "p95 ms", "p99 ms", "max ms", "req/s"];

/// What thresholds call whole sessions of users who arrive.
pub const SESSIONS: &str = "sessions";

/// Sessions of users who arrive.
#[derive(Debug, Clone, Default)]
pub struct Sessions {
    /// Those that came to their end: good ones, and those of which a step failed, by the first failure.
    pub line: Line,
    /// Those that the end of the run has cut off between their steps: how long each had taken by then.
    pub cut_off: Vec<Duration>,
}

impl Sessions {
    /// What a threshold is judged by. A session that was cut off would have taken longer than it had: where that is too long already, it counts
    /// as longer than any that has ended; where it is not, nothing is known of it.
    fn judged_by(&self, threshold: &Threshold) -> Line {
        let mut line = self.line.clone();
        let is_too_long = |taken: &&Duration| threshold.time().is_some_and(|limit| **taken >= limit);
        line.never += self.cut_off.iter().filter(is_too_long).count() as u64;
        line
    }
}

/// See the module's head.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// By the step's name, in the order in which they first came.
    pub steps: Vec<(String, Line)>,
    groups: BTreeMap<String, String>,
    tags: BTreeMap<String, Vec<String>>,
    /// Whole sessions of users who arrive, from when they were due; `None`: users are there.
    pub sessions: Option<Sessions>,
    /// What was under way when the user ended the run: it is not counted.
    pub unfinished: u64,
    /// How long users waited in vain within the time of the run, together.
    pub lost: Duration,
    /// How long users were there, together.
    pub stayed: Duration,
}

impl Tally {
    /// The figures of a step.
    pub fn step(&mut self, name: &str, group: Option<&str>) -> &mut Line {
        if let Some(group) = group
            && !self.groups.contains_key(name)
        {
            self.groups.insert(name.to_owned(), group.to_owned());
        }
        let at = self.steps.iter().position(|(have, _)| have == name).unwrap_or_else(|| {
            self.steps.push((name.to_owned(), Line::default()));
            self.steps.len() - 1
        });
        &mut self.steps[at].1
    }

    /// Adds another thread's.
    pub fn merge(&mut self, other: &Self) {
        for (name, line) in &other.steps {
            self.step(name, other.groups.get(name).map(String::as_str)).merge(line);
        }
        for (name, tags) in &other.tags {
            self.tags.entry(name.clone()).or_insert_with(|| tags.clone());
        }
        if let Some(more) = &other.sessions {
            let sessions = self.sessions.get_or_insert_default();
            sessions.line.merge(&more.line);
            sessions.cut_off.extend(&more.cut_off);
        }
        self.unfinished += other.unfinished;
        self.lost += other.lost;
        self.stayed += other.stayed;
    }

    /// The share of the users' time that they waited for what never came: 0 to 1.
    pub fn lost_share(&self) -> f64 {
        lost_share(self.lost.as_secs_f64(), self.stayed.as_secs_f64())
    }

    /// Counts what became of a step.
    pub fn add(&mut self, step: &Step, taken: &Taken) {
        if !step.tags.is_empty() && !self.tags.contains_key(&step.name) {
            self.tags.insert(step.name.clone(), step.tags.clone());
        }
        self.took(&step.name, step.group.as_deref(), taken);
    }

    /// The same of what is no step of a scenario.
    pub fn took(&mut self, name: &str, group: Option<&str>, taken: &Taken) {
        let line = self.step(name, group);
        line.bytes += taken.bytes;
        match &taken.wrong {
            None => line.latency.record(taken.done.saturating_sub(taken.due).as_nanos() as u64),
            Some(wrong) => wrong.count_in(line),
        }
    }

    /// Everything together.
    pub fn all(&self) -> Line {
        self.steps.iter().fold(Line::default(), |mut sum, (_, line)| {
            sum.merge(line);
            sum
        })
    }

    /// Groups by name.
    fn groups(&self) -> BTreeMap<String, Line> {
        let mut groups: BTreeMap<String, Line> = BTreeMap::new();
        for (name, line) in &self.steps {
            if let Some(group) = self.groups.get(name) {
                groups.entry(group.clone()).or_default().merge(line);
            }
        }
        groups
    }

    /// Tags by name.
    fn tags(&self) -> BTreeMap<String, Line> {
        let mut found: BTreeMap<String, Line> = BTreeMap::new();
        for (name, line) in &self.steps {
            for tag in self.tags.get(name).into_iter().flatten() {
                found.entry(tag.clone()).or_default().merge(line);
            }
        }
        found
    }

    /// The figures of a step, group or tag.
    pub fn find(&self, name: &str) -> Option<Line> {
        let step = self.steps.iter().find(|(have, _)| have == name).map(|(_, line)| line.clone());
        step.or_else(|| self.groups().remove(name)).or_else(|| self.tags().remove(name))
    }

    /// Judges all thresholds: text and whether it holds.
    pub fn judge(&self, thresholds: &[Threshold], seconds: f64) -> Vec<Judged> {
        let judge = |threshold: &Threshold| {
            let line = match &threshold.of {
                None => Some(self.all()),
                Some(name) => self.find(name).or_else(|| {
                    let sessions = self.sessions.as_ref().filter(|_| name == SESSIONS);
                    sessions.map(|sessions| sessions.judged_by(threshold))
                }),
            };
            let lost = if threshold.of.is_none() { self.lost_share() } else { 0.0 };
            let (seen, holds) = threshold.judge(line.as_ref(), seconds, lost);
            Judged { promise: threshold.to_string(), seen, holds }
        };
        thresholds.iter().map(judge).collect()
    }

    /// Steps, groups and all, with the figures that [`HEAD`] names.
    pub fn rows(&self, seconds: f64) -> Vec<[String; 9]> {
        let row = |name: &str, line: &Line| {
            let [mean, p50, p95, p99] = line.latency.in_short();
            let max = line.latency.max() as f64 / 1e6;
            [
                name.to_owned(),
                line.requests().to_string(),
                line.failed().to_string(),
                mean,
                p50,
                p95,
                p99,
                if line.latency.count() > 0 { format!("{max:.2}") } else { "–".to_owned() },
                format!("{:.2}", line.latency.count() as f64 / seconds.max(1e-9)),
            ]
        };
        let steps = self.steps.iter().map(|(name, line)| row(name, line));
        let groups = self.groups().into_iter().map(|(name, line)| row(&format!("[{name}]"), &line));
        let tags = self.tags().into_iter().map(|(name, line)| row(&format!("#{name}"), &line));
        let sessions = self.sessions.iter().map(|sessions| row("(sessions)", &sessions.line));
        steps.chain(groups).chain(tags).chain([row("all", &self.all())]).chain(sessions).collect()
    }

    /// For people.
    pub fn text(&self, seconds: f64) -> String {
        let groups = self.groups();
        let all = self.all();
        let width =
            self.steps.iter().map(|(name, _)| name.chars().count()).chain(groups.keys().map(String::len));
        let width = width.chain(self.sessions.as_ref().map(|_| "(sessions)".len()));
        let width = width.max().unwrap_or(0).clamp(4, 40);
        let mut out = String::new();
        for [name, requests, failed, mean, p50, p95, p99, max, rate] in
            std::iter::once(HEAD.map(str::to_owned)).chain(self.rows(seconds))
        {
            let name: String = name.chars().take(width).collect();
            let _ = writeln!(
                out,
                "{name:<width$} {requests:>9} {failed:>8} {mean:>9} {p50:>9} {p95:>9} {p99:>9} {max:>9} {rate:>10}"
            );
        }
        for (kind, count) in &all.failures {
            let _ = writeln!(out, "failed, {kind}: {count}");
        }
        for line in self.beside_failures() {
            let _ = writeln!(out, "{line}");
        }
        out
    }

    /// What the numbers of failures do not say.
    pub fn beside_failures(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(Sessions { line, cut_off }) = &self.sessions {
            let (good, failed, cut_off) = (line.latency.count(), line.failed(), cut_off.len());
            lines.push(format!(
                "sessions since they were due: {good} good, {failed} with a failure, {cut_off} not at their end"
            ));
        }
        let lost = self.lost_share() * 100.0;
        if lost >= 0.1 {
            lines.push(format!("users waited in vain for {lost:.1} % of their time"));
        }
        if self.unfinished > 0 {
            lines.push(format!("under way when it was ended, and not counted: {}", self.unfinished));
        }
        lines
    }

    /// Figures of each step in Prometheus' text format.
    pub fn prometheus(&self, out: &mut String) {
        let mut metric = |name: &str, help: &str, values: &dyn Fn(&Line) -> Vec<(String, f64)>| {
            let _ =
                writeln!(out, "# HELP brisk_bench_step_{name} {help}\n# TYPE brisk_bench_step_{name} gauge");
            for (step, line) in &self.steps {
                let step = label(step);
                for (more, value) in values(line) {
                    let _ = writeln!(out, "brisk_bench_step_{name}{{step=\"{step}\"{more}}} {value}");
                }
            }
        };
        metric("requests", "Steps taken, good and bad.", &|line| {
            vec![(String::new(), line.requests() as f64)]
        });
        metric("failed", "Of these, bad ones.", &|line| vec![(String::new(), line.failed() as f64)]);
        metric("latency_seconds", "What users waited for good answers.", &|line| {
            let of = |&(_, share): &(&str, f64)| {
                (format!(",quantile=\"{share}\""), line.latency.quantile(share) as f64 / 1e9)
            };
            // A step without a good answer has no times.
            QUANTILES.iter().filter(|_| line.latency.count() > 0).map(of).collect()
        });
    }

    /// For programs.
    pub fn json(&self, seconds: f64, thresholds: &[Judged]) -> Value {
        let line = |line: &Line| {
            let ms = |share| line.latency.quantile(share) as f64 / 1e6;
            json!({
                "requests": line.requests(), "failed": line.failed(), "failures": line.failures, "bytes": line.bytes,
                "rate": line.latency.count() as f64 / seconds.max(1e-9),
                "latency_ms": { "mean": line.latency.mean() / 1e6, "p50": ms(0.5), "p90": ms(0.9), "p95": ms(0.95),
                    "p99": ms(0.99), "p999": ms(0.999), "min": line.latency.min() as f64 / 1e6,
                    "max": line.latency.max() as f64 / 1e6 },
            })
        };
        let steps: Vec<Value> = self
            .steps
            .iter()
            .map(|(name, figures)| json!({ "name": name, "figures": line(figures) }))
            .collect();
        let groups: BTreeMap<String, Value> =
            self.groups().iter().map(|(name, figures)| (name.clone(), line(figures))).collect();
        let tags: BTreeMap<String, Value> =
            self.tags().iter().map(|(name, figures)| (name.clone(), line(figures))).collect();
        let thresholds: Vec<Value> = thresholds
            .iter()
            .map(|judged| json!({ "threshold": judged.to_string(), "holds": judged.holds }))
            .collect();
        let sessions = self.sessions.as_ref().map(|sessions| {
            let mut figures = line(&sessions.line);
            figures["unfinished"] = sessions.cut_off.len().into();
            figures
        });
        json!({ "seconds": seconds, "sessions": sessions, "all": line(&self.all()), "steps": steps, "groups": groups, "tags": tags,
            "unfinished": self.unfinished, "lost_share": self.lost_share(), "thresholds": thresholds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What has taken too long already is too long, however long it would have taken.
    #[test]
    fn sessions_that_were_cut_off_have_taken_some_time() {
        let mut sessions = Sessions { cut_off: vec![Duration::from_secs(2); 10], ..Sessions::default() };
        (0..90).for_each(|_| sessions.line.latency.record(100_000_000));
        let tally = Tally { sessions: Some(sessions), ..Tally::default() };
        for (text, wanted) in [
            ("sessions: p95 < 3s", true),
            ("sessions: p95 < 2s", false),
            ("sessions: p89 < 2s", true),
            ("sessions: p95 > 2s", true),
            ("sessions: p95 > 3s", false),
            ("sessions: mean < 1s", true),
            ("sessions: count >= 90", true),
            ("sessions: errors < 1%", true),
        ] {
            let judged = tally.judge(&[Threshold::parse(text).unwrap()], 1.0);
            assert_eq!(judged[0].holds, wanted, "{}", judged[0]);
        }
        // Where none came to its end, nothing is known.
        let sessions = Sessions { cut_off: vec![Duration::from_secs(2)], ..Sessions::default() };
        let tally = Tally { sessions: Some(sessions), ..Tally::default() };
        assert!(!tally.judge(&[Threshold::parse("sessions: p95 < 3s").unwrap()], 1.0)[0].holds);
    }
}
