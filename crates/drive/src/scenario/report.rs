//! What came of a scenario, as text, JSON and a page, with what was watched beside it.

use super::tally::{HEAD, Tally};
use brisk_load::report::{self, Beside, Body, Resources, Section};
use brisk_load::system;
use brisk_load::watch::{self, Tier, Watch};
use serde_json::Value;
use std::fmt::Write as _;
use std::time::Duration;

/// The moment before the first request.
pub struct Beginning {
    watch: Option<Watch>,
    /// On the watch's time axis.
    at: Duration,
    threads: usize,
    cpu_ns: u64,
}

/// What was watched, and what makes figures of it.
pub struct Watched {
    beside: Beside,
    responses: u64,
    generator_share: f64,
}

impl Beginning {
    /// Begins to look at the tiers, if there are any, beside a run of so many threads.
    pub fn watch(tiers: &[Tier], threads: usize) -> Result<Beginning, String> {
        let start = || Watch::start(tiers, watch::EVERY).map_err(|error| error.to_string());
        let watch = if tiers.is_empty() { None } else { Some(start()?) };
        let at = watch.as_ref().map_or(Duration::ZERO, |watch| watch.so_far().origin.elapsed());
        Ok(Beginning { watch, at, threads, cpu_ns: system::process_cpu_ns() })
    }

    /// The run is over: it took `elapsed`, and there were so many responses.
    pub fn end(self, elapsed: Duration, responses: u64) -> Option<Watched> {
        let watched = self.watch?.finish();
        let cpu_s = (system::process_cpu_ns() - self.cpu_ns) as f64 / 1e9;
        let generator_share = cpu_s / elapsed.as_secs_f64().max(1e-9) / self.threads.max(1) as f64;
        let beside = Beside { watched, begun: self.at, from: self.at, to: self.at + elapsed };
        Some(Watched { beside, responses, generator_share })
    }
}

/// See the module's head.
pub struct Report {
    pub tally: Tally,
    pub seconds: f64,
    /// Thresholds, and whether they hold.
    pub judged: Vec<(String, bool)>,
    pub resources: Option<Watched>,
    pub is_replay: bool,
}

impl Report {
    fn resources(&self) -> Option<Resources<'_>> {
        let Watched { beside, responses, generator_share } = self.resources.as_ref()?;
        Some(Resources { beside, responses: *responses, generator_share: *generator_share })
    }

    /// How it ended, and what the figures do not say.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.is_replay {
            let late = self.tally.late.as_secs_f64() * 1e3;
            notes.push(format!("sent at most {late:.1} ms later than it was due"));
        }
        let said = |holds: bool| if holds { "holds:" } else { "DOES NOT HOLD:" };
        notes.extend(self.judged.iter().map(|(text, holds)| format!("{} {text}", said(*holds))));
        notes
    }

    fn length(&self) -> String {
        format!("{:.1} s{}", self.seconds, if system::interrupted() { ", ended by hand" } else { "" })
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n{}", self.length(), self.tally.text(self.seconds));
        if let Some(resources) = self.resources() {
            out.push_str(&resources.text());
        }
        for note in self.notes() {
            let _ = writeln!(out, "{note}");
        }
        out
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let mut all = self.tally.json(self.seconds, &self.judged);
        if let Some(resources) = self.resources() {
            resources.put(&mut all);
        }
        all
    }

    /// A page that needs nothing else.
    pub fn html(&self, target: &str) -> String {
        let rows = self.tally.rows(self.seconds).into_iter().map(Vec::from).collect();
        let failures = self.tally.all().failures;
        let failures = failures.iter().map(|(kind, count)| format!("failed, {kind}: {count}"));
        let lines: Vec<String> = failures.chain(self.notes()).collect();
        let mut sections = vec![
            Section {
                title: "steps".to_owned(),
                text: self.length(),
                body: Body::Table(HEAD.map(str::to_owned).to_vec(), rows),
            },
            Section {
                title: "failures and thresholds".to_owned(),
                text: String::new(),
                body: Body::Pre(lines.join("\n")),
            },
        ];
        sections.extend(self.resources().iter().flat_map(Resources::sections));
        report::page(&format!("Scenario on {target}"), &sections)
    }
}
