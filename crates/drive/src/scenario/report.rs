//! What came of a scenario, as text, JSON and a page, with what was watched beside it.

use super::course::Course;
use super::model::Scenario;
use super::run::{Done, Effort};
use super::tally::HEAD;
use crate::limits::BUSY_SHARE_MAX;
use brisk_load::cli::exit_code;
use brisk_load::engine::Outcome;
use brisk_load::histogram::Histogram;
use brisk_load::report::{self, Beside, Body, Environment, Resources, RunReport, Section};
use brisk_load::sweep::slo::Judged;
use brisk_load::system;
use brisk_load::watch::{self, Generator, Tier, Watch};
use serde_json::Value;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// The moment before the first request.
pub struct Beginning {
    watch: Option<Watch>,
    /// On the watch's time axis.
    at: Duration,
}

/// What was watched, and what makes figures of it.
pub struct Watched {
    beside: Beside,
    responses: u64,
    generator: Generator,
}

impl Beginning {
    /// Begins to look at the tiers, if there are any.
    pub fn watch(tiers: &[Tier]) -> Result<Beginning, String> {
        let start = || Watch::start(tiers, watch::EVERY).map_err(|error| error.to_string());
        let watch = if tiers.is_empty() { None } else { Some(start()?) };
        let at = watch.as_ref().map_or(Duration::ZERO, |watch| watch.so_far().origin.elapsed());
        Ok(Beginning { watch, at })
    }

    /// The run is over, and there were so many responses.
    pub fn end(self, done: &Done, responses: u64) -> Option<Watched> {
        let watched = self.watch?.finish();
        let (cpu_s, threads) = (done.effort.cpu_ns as f64 / 1e9, done.effort.threads.max(1));
        let share = cpu_s / done.elapsed.as_secs_f64().max(1e-9) / threads as f64;
        let beside = Beside { watched, begun: self.at, from: self.at, to: self.at + done.elapsed };
        Some(Watched { beside, responses, generator: Generator { share, threads } })
    }
}

/// See the module's head.
pub struct Report {
    /// The command.
    pub command: String,
    pub scenario: Arc<Scenario>,
    pub done: Done,
    /// As a plain load's: what reports of loads are made of.
    pub outcome: Outcome,
    /// Thresholds, and whether they hold.
    pub judged: Vec<Judged>,
    pub resources: Option<Watched>,
}

impl Report {
    /// Of what was seen.
    pub fn new(
        command: String,
        scenario: &Arc<Scenario>,
        done: Done,
        course: &Course,
        resources: Option<Watched>,
    ) -> Self {
        course.used_cpu(done.effort.cpu_ns);
        let outcome = course.end(done.planned, done.elapsed);
        let judged = done.tally.judge(&scenario.thresholds, outcome.elapsed.as_secs_f64());
        Self { command, scenario: Arc::clone(scenario), done, outcome, judged, resources }
    }

    fn seconds(&self) -> f64 {
        self.outcome.elapsed.as_secs_f64()
    }

    fn resources(&self) -> Option<Resources<'_>> {
        let Watched { beside, responses, generator } = self.resources.as_ref()?;
        Some(Resources { beside, responses: *responses, generator: *generator })
    }

    /// The run as if it were a plain load. What was watched is apart: its figures are per response, not per step.
    fn run(&self) -> RunReport {
        let replay = self.scenario.replay.as_ref();
        RunReport {
            label: String::new(),
            users: replay.map_or(self.scenario.users_max(), |replay| replay.connections),
            depth: 0,
            threads: self.done.effort.threads,
            rate: None,
            outcome: self.outcome.clone(),
            steady: None,
            watched: None,
        }
    }

    fn load(&self, run: RunReport) -> report::Report {
        report::Report {
            command: self.command.clone(),
            targets: self.scenario.target.iter().map(ToString::to_string).collect(),
            environment: Environment::here(),
            runs: vec![run],
            sweep: None,
            search: None,
            promises: self.judged.clone(),
            is_judged: !self.judged.is_empty(),
            is_cut_short: system::interrupted(),
        }
    }

    /// Why the figures do not say what users would see.
    pub fn invalid(&self) -> Option<String> {
        self.run().invalid().map(|why| why.to_string())
    }

    /// 2: the figures mean nothing; 3: a threshold does not hold; else 0.
    pub fn exit_code(&self) -> i32 {
        exit_code(self.load(self.run()).verdict())
    }

    /// The share of its time in which the generator was on a CPU, or waited for one.
    fn busy_share(&self) -> f64 {
        let Effort { threads, cpu_ns, waited_ns } = self.done.effort;
        let seconds = self.done.elapsed.as_secs_f64().max(1e-9) * threads.max(1) as f64;
        (cpu_ns + waited_ns) as f64 / 1e9 / seconds
    }

    fn warnings(&self) -> Vec<String> {
        let mut found = self.run().warnings();
        let (busy, waited) = (self.busy_share(), self.done.effort.waited_ns as f64 / 1e9);
        if busy > BUSY_SHARE_MAX && found.is_empty() {
            found.push(format!(
                "the generator was busy for {:.0} % of the time ({waited:.1} s of it waiting for a CPU): part of what users \
                 waited may be its own; use more threads (-t), or fewer users",
                busy * 100.0
            ));
        }
        found
    }

    /// How it ended, and what the figures do not say.
    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> =
            self.invalid().map(|why| format!("INVALID: {why}")).into_iter().collect();
        notes.extend(self.warnings().into_iter().map(|note| format!("note: {note}")));
        let said = |holds: bool| if holds { "holds:" } else { "DOES NOT HOLD:" };
        notes.extend(self.judged.iter().map(|judged| format!("{} {judged}", said(judged.holds))));
        notes
    }

    /// A replay's service time and lateness.
    fn open_loop(&self) -> Vec<String> {
        let stats = &self.outcome.stats;
        if stats.lateness.count() == 0 {
            return Vec::new();
        }
        let line = |name: &str, histogram: &Histogram| {
            let mut line = format!("{name} ms: mean {:.3}", histogram.mean() / 1e6);
            for (name, share) in report::QUANTILES {
                let _ = write!(line, ", {name} {:.3}", histogram.quantile(share) as f64 / 1e6);
            }
            line
        };
        vec![
            line("latency, since it was due, ", &stats.latency),
            line("service, since it was sent,", &stats.service),
            line("lateness of the generator,  ", &stats.lateness),
            format!("could not be sent: {}", stats.unsent),
        ]
    }

    fn length(&self) -> String {
        format!("{:.1} s{}", self.seconds(), if system::interrupted() { ", ended by hand" } else { "" })
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n{}", self.length(), self.done.tally.text(self.seconds()));
        for line in self.open_loop() {
            let _ = writeln!(out, "{line}");
        }
        if let Some(resources) = self.resources() {
            out.push_str(&resources.text());
        }
        let headroom = self.resources().and_then(|resources| resources.headroom());
        let _ = writeln!(out, "{}", report::days(self.run().goodput(), headroom));
        for note in self.notes() {
            let _ = writeln!(out, "{note}");
        }
        out
    }

    /// For programs: what plain loads say, and what scenarios say beside it.
    pub fn json(&self) -> Value {
        let mut all = report::json(&self.load(self.run()));
        let stats = &self.outcome.stats;
        all["unsent"] = stats.unsent.into();
        all["late_ms"] = (stats.lateness.max() as f64 / 1e6).into();
        all["warnings"] = self.warnings().into();
        all["generator_busy_share"] = self.busy_share().into();
        if let Value::Object(own) = self.done.tally.json(self.seconds(), &self.judged) {
            own.into_iter().for_each(|(name, value)| all[name] = value);
        }
        if let Some(resources) = self.resources() {
            resources.put(&mut all);
        }
        all
    }

    /// The course, with what each tier did then.
    pub fn csv(&self) -> String {
        let watched = self.resources.as_ref().map(|watched| watched.beside.clone());
        report::csv(&self.load(RunReport { watched, ..self.run() }))
    }

    /// The figures in Prometheus' text format, those of steps behind those of all.
    pub fn prometheus(&self) -> String {
        let mut out = report::prometheus(&self.load(self.run()));
        self.done.tally.prometheus(&mut out);
        out
    }

    /// A page that needs nothing else.
    pub fn html(&self) -> String {
        let target = self.scenario.target.as_ref().map(ToString::to_string);
        report::page(&format!("Scenario on {}", target.unwrap_or_default()), &self.sections())
    }

    /// Its parts.
    pub fn sections(&self) -> Vec<Section> {
        let tally = &self.done.tally;
        let rows = tally.rows(self.seconds()).into_iter().map(Vec::from).collect();
        let headroom = self.resources().and_then(|resources| resources.headroom());
        let failures = tally.all().failures;
        let failures = failures.iter().map(|(kind, count)| format!("failed, {kind}: {count}"));
        let beside = tally.beside_failures().into_iter().chain(self.open_loop()).chain(self.notes());
        let days = report::days(self.run().goodput(), headroom);
        let lines: Vec<String> = failures.chain(beside).chain([days]).collect();
        let mut sections = vec![
            Section {
                title: "Steps".to_owned(),
                text: self.length(),
                body: Body::Table(HEAD.map(str::to_owned).to_vec(), rows),
            },
            Section {
                title: "Failures and thresholds".to_owned(),
                text: String::new(),
                body: Body::Pre(lines.join("\n")),
            },
        ];
        let mut rest = report::sections(&self.load(self.run()));
        let last = rest.pop();
        let has_tiles = rest.first().is_some_and(|first| matches!(first.body, Body::Tiles(_)));
        sections.splice(0..0, has_tiles.then(|| rest.remove(0)));
        sections.append(&mut rest);
        sections.extend(self.resources().iter().flat_map(Resources::sections));
        let configuration = self.scenario.rows().into_iter().map(|(name, value)| vec![name, value]).collect();
        sections.push(Section {
            title: "Scenario".to_owned(),
            text: String::new(),
            body: Body::Table(Vec::new(), configuration),
        });
        sections.extend(last);
        sections
    }
}
