//! Carries out what the options ask for.

use crate::limits::SETTLED_TIME_MAX;
use std::io;
use std::time::{Duration, Instant};

use super::exit_code;
use super::files::{Files, Texts};
use super::options::{Mode, Options};
use crate::arrivals::Rate;
use crate::chart::short;
use crate::engine;
use crate::live::{Ended, Live, Web};
use crate::output;
use crate::plan::{Plan, Stop};
use crate::report::{self, Beside, Environment, Report, RunReport, Verdict, counted};
use crate::sweep::slo::{Judged, Slo};
use crate::sweep::{self, Point, Sweep, Trial};
use crate::system;
use crate::watch::{self, Tier, Watch};

/// Runs, and gives the exit code.
pub fn execute(command: String, options: Options) -> Result<i32, String> {
    let files = Files::open(&options.outputs)?;
    let web =
        options.outputs.web.as_deref().map(Web::start).transpose().map_err(|error| error.to_string())?;
    if let Some(web) = &web {
        output::note(format_args!("watch it at http://{}/", web.address()));
    }
    let mut load = Load {
        live: Live { is_quiet: options.outputs.quiet, web },
        tiers: options.watch.clone(),
        report: Report {
            command,
            targets: options.targets.clone(),
            environment: Environment::here(),
            runs: Vec::new(),
            sweep: None,
            search: None,
            promises: Vec::new(),
            is_judged: options.slo.is_some() && matches!(options.mode, Mode::Single | Mode::Users(_)),
            is_cut_short: false,
        },
    };
    match &options.mode {
        Mode::Idle(length) => load.idle(options.plan.clone(), *length)?,
        Mode::Single => {
            load.one(options.plan.clone(), String::new(), options.auto_warmup)?;
        }
        Mode::Users(users) => load.users(&options.plan, users)?,
        Mode::FindMax => load.find_max(&options)?,
    }
    load.finish(&options, files)
}

struct Load {
    live: Live,
    tiers: Vec<Tier>,
    report: Report,
}

impl Load {
    /// One run, which is added to the report.
    fn one(&mut self, plan: Plan, label: String, cut: bool) -> Result<Ended, String> {
        let text = |error: io::Error| error.to_string();
        let watch = if self.tiers.is_empty() {
            None
        } else {
            Some(Watch::start(&self.tiers, watch::EVERY).map_err(text)?)
        };
        let run = engine::start(plan.clone()).map_err(text)?;
        let ended = self.live.follow(&run, &plan, &label);
        let begun = watch.as_ref().map(|watch| watch.so_far().origin.elapsed().saturating_sub(run.elapsed()));
        let mut outcome = run.join().map_err(text)?;
        let steady = cut.then(|| sweep::trim(&mut outcome));
        let watched = watch.zip(begun).map(|(watch, begun)| {
            let watched = watch.finish();
            let from = begun + plan.warmup + steady.map_or(Duration::ZERO, |(at, _)| at);
            let to = from + outcome.elapsed;
            Beside { watched, begun, from, to }
        });
        let threads = plan.threads.min(plan.connections);
        let is_empty = outcome.stats.responses() == 0;
        let (users, rate) = (plan.connections, plan.rate);
        let depth = if plan.think.is_some() { 0 } else { plan.pipeline };
        self.report.runs.push(RunReport { label, users, depth, threads, rate, outcome, steady, watched });
        self.report.is_cut_short |= ended == Ended::Interrupted;
        if ended == Ended::Hopeless && is_empty {
            output::note("nothing but errors came: given up");
        }
        Ok(ended)
    }

    fn users(&mut self, plan: &Plan, users: &[usize]) -> Result<(), String> {
        for &users in users {
            let plan = Plan { connections: users, ..plan.clone() };
            let ended = self.one(plan, counted(users), true)?;
            if let Some(run) = self.report.runs.last().filter(|_| !self.live.is_quiet) {
                let (rate, latency) = (run.goodput(), run.outcome.stats.latency.mean() / 1e6);
                let errors = run.outcome.stats.error_share() * 100.0;
                output::note(format_args!(
                    "{}: {rate:.1} good responses/s, mean {latency:.2} ms, errors {errors:.2} %",
                    run.label
                ));
            }
            if ended != Ended::Planned {
                break;
            }
        }
        let points =
            self.report.runs.iter().filter(|run| run.outcome.stats.good_in_time() > 0).map(|run| Point {
                users: run.users,
                rate: run.goodput(),
                uncertainty: sweep::uncertainty(&run.outcome),
                latency: run.outcome.stats.latency.mean() / 1e9,
                errors: run.outcome.stats.error_share(),
            });
        self.report.sweep = Some(Sweep::of(points.collect()));
        Ok(())
    }

    fn find_max(&mut self, options: &Options) -> Result<(), String> {
        let Some(slo) = &options.slo else { return Ok(()) };
        // A short closed loop says about where to look.
        let first = Plan { stop: Stop::After(Duration::from_secs(2)), think: None, ..options.plan.clone() };
        if self.one(first, "closed loop".to_owned(), false)? == Ended::Interrupted {
            return Ok(());
        }
        let start = self.report.runs.pop().map_or(0.0, |run| run.goodput()) / 2.0;
        if start <= 0.0 {
            return Err("no rate to begin with: nothing was answered".to_owned());
        }
        let mut failure = None;
        let found = sweep::search(&slo.to_string(), start, |rate| {
            let plan = Plan { rate: Some(Rate::constant(rate)), pipeline: 1, ..options.plan.clone() };
            let pipeline = if options.plan.version.has_streams() { options.plan.pipeline } else { 1 };
            let ended = match self.one(Plan { pipeline, ..plan }, format!("{}/s", short(rate)), false) {
                Ok(Ended::Interrupted) => return None,
                Ok(ended) => ended,
                Err(error) => {
                    failure = Some(error);
                    return None;
                }
            };
            let run = self.report.runs.last()?;
            let mut trial = trial(slo, rate, run);
            if ended == Ended::Hopeless && trial.broken.is_empty() {
                trial.broken.push("nothing but errors came".to_owned());
            }
            if !self.live.is_quiet {
                output::note(format_args!("{} requests/s: {trial}", short(rate)));
            }
            Some(trial)
        });
        if let Some(error) = failure {
            return Err(error);
        }
        self.report.search = Some(found);
        Ok(())
    }

    fn idle(&mut self, plan: Plan, length: Duration) -> Result<(), String> {
        let connections = plan.connections;
        let threads = plan.threads.min(connections);
        let run = engine::start(plan).map_err(|error| error.to_string())?;
        let begun = Instant::now();
        let mut all = false;
        while !all && begun.elapsed() < SETTLED_TIME_MAX && !run.is_over() && !system::interrupted() {
            all = run.wait_settled(Duration::from_millis(50));
        }
        let progress = run.progress();
        output::note(format_args!(
            "{} of {connections} connections {}; press Enter to close them",
            progress.responses,
            if all { "open" } else { "open, others failed" }
        ));
        system::wait_for_input(length).map_err(|error| error.to_string())?;
        self.report.is_cut_short = system::interrupted();
        run.stop();
        let outcome = run.join().map_err(|error| error.to_string())?;
        let (label, users) = (String::new(), connections);
        self.report.runs.push(RunReport {
            label,
            users,
            depth: 0,
            threads,
            rate: None,
            outcome,
            steady: None,
            watched: None,
        });
        Ok(())
    }

    /// Writes what was asked for.
    fn finish(mut self, options: &Options, files: Files) -> Result<i32, String> {
        // A search has judged its trials itself.
        if let (Some(slo), Mode::Single | Mode::Users(_)) = (&options.slo, &options.mode) {
            self.report.promises = self.report.runs.iter().flat_map(|run| judged(slo, run)).collect();
        }
        let report = &self.report;
        let outputs = &options.outputs;
        if outputs.prints_json() {
            output::line(report::json(report));
        } else {
            output::line(report::text(report));
        }
        files.write(&Texts {
            json: &|| format!("{:#}\n", report::json(report)),
            html: &|| report::html(report),
            csv: &|| report::csv(report),
            prometheus: &|| report::prometheus(report),
            raw: &|file| report.runs.last().map_or(Ok(()), |run| report::raw(run, file)),
        })?;
        if let Some(web) = &self.live.web {
            web.put(report::fragment(&report::sections(report)));
            // The page asks once per second: it is to see the end.
            std::thread::sleep(Duration::from_secs(2));
        }
        let is_open = matches!(options.mode, Mode::Idle(_))
            && report.runs.iter().any(|run| run.outcome.stats.responses() > 0);
        Ok(match report.verdict() {
            // Idle connections are what it was about, whatever they were answered.
            Verdict::NoResult if is_open => 0,
            verdict => exit_code(verdict),
        })
    }
}

/// What came of the promises in one run. One of several stands in front of them, and says nothing of them if it is INVALID.
fn judged(slo: &Slo, run: &RunReport) -> Vec<Judged> {
    if run.label.is_empty() {
        return slo.judge(&run.seen());
    }
    let name = |judged: Judged| Judged { promise: format!("{}: {}", run.label, judged.promise), ..judged };
    let seen = run.invalid().is_none().then(|| slo.judge(&run.seen()));
    seen.into_iter().flatten().map(name).collect()
}

/// What a run at a rate says of the promises. What was not measured, or not sent, holds nothing; what is late holds what it holds.
fn trial(slo: &Slo, rate: f64, run: &RunReport) -> Trial {
    let mut broken = slo.broken(&run.seen());
    let invalid = run.invalid();
    let is_late = invalid.is_some_and(|why| why.is_lateness());
    broken.extend(invalid.filter(|why| !why.is_lateness()).map(|why| why.to_string()));
    Trial { rate, broken, is_late }
}
