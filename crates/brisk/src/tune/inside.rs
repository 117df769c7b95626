//! The tuner's work within the enclosure: look what limits, search, confirm, look again. What comes of it is JSON.

use super::bench::{Measurer, Restart, Runs as _, Times};
use super::database::Database;
use super::enclosure::{self, Shared};
use super::files::{Choice, Dials, Files, Steps};
use super::goal::Goal;
use super::relay;
use super::site;
use super::stack::{Plan, Refused, Stack};
use super::traffic::{Kind, Traffic};
use super::wishes::Wishes;
use crate::doctor;
use crate::doctor::files::Read;
use crate::doctor::measure::{self, Looks};
use crate::limits::{
    TUNE_DIALS_MAX, TUNE_LOOK_TIME_MAX, TUNE_LOOK_TIME_MIN, TUNE_SLICE_TIME_MAX, TUNE_SLICE_TIME_MIN,
};
use brisk_load::output;
use brisk_load::report::RunReport;
use brisk_load::rng::Rng;
use brisk_load::system::{self, interrupted};
use brisk_load::watch::TierSummary;
use brisk_tune::diagnosis::{Diagnosis, diagnose};
use brisk_tune::knob;
use brisk_tune::patch;
use brisk_tune::search::{self, Ask, Bench, Confirmation, Found, Next, Outcome, Point, Step, Stop, Told};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// Users who ask for a page where their number is not given.
const USERS: usize = 10;
/// The counted part of a slice, of the budget: about 150 slices fit into it with their starts.
const SLICE_SHARE: f64 = 0.004;
/// So long a time is enough for a slice with enough answers: more pairs say more then. Pairs of a page of 1,600/s scattered by 5.4 % with slices of
/// 1 s, by 4.3 % with 2 s and by 3.7 % with 4 s.
const SLICE_TIME_ENOUGH: Duration = Duration::from_secs(1);
/// Points of the curves, as parts of the number of users.
const CURVE: &[f64] = &[0.25, 0.5, 1.0, 2.0];
/// Bytes of one.
const MEBIBYTE: f64 = 1_048_576.0;
/// Causes of which it is of no use to go on: what is measured is not the site.
const SENSELESS: &[&str] = &["generator-full", "errors"];

/// Works; gives the result. The error says why nothing could be measured.
pub fn work(wishes: &Wishes, outer: u32, address: Option<IpAddr>) -> Result<Value, String> {
    let begun = Instant::now();
    system::catch_interrupts().map_err(|error| error.to_string())?;
    let read = site::read(wishes)?;
    // By then neither its path nor the working folder could be found out.
    let own = std::env::current_exe().map_err(|error| format!("the own program is not found: {error}"))?;
    let folder = std::env::current_dir().map_err(|error| format!("there is no working folder: {error}"))?;
    let database = wishes.mysql.as_ref().map(|file| Database::find(file, &read)).transpose()?;
    let shared = Shared { database: wishes.share_database, folder: wishes.database_copy.clone() };
    let external = wishes.external_address.iter().map(SocketAddr::ip);
    enclosure::enclose(outer, &shared, &addresses(&read, address.into_iter().chain(external)))?;
    relay::wait(&wishes.allow_external, &wishes.external_address)?;
    std::env::set_current_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let files = Files::of(&read)?;
    let mut stack = Stack::plan(&Plan {
        read: &read,
        files: &files,
        own: &own,
        named: wishes.program.as_deref(),
        database: database.as_ref().zip(wishes.database_copy.as_deref()),
    })?;
    let traffic = traffic(wishes, address)?;
    let site = Site { read: &read, files: &files, traffic: &traffic, wishes, begun };
    stack
        .restart(&files, &traffic, Restart::All)
        .map_err(|Refused(why)| format!("the copy of the site does not run: {why}"))?;
    let before = site.look()?;
    output::note(&before.limit.sentence);
    let mut result = json!({
        "site": read.first(), "goal": wishes.goal.text(), "unit": wishes.goal.unit(), "limit": doctor::limit(&before.limit),
        "before": before.figures(), "steps": [], "patches": [], "final": Value::Null, "files": files.sums(),
    });
    let cause = before.limit.cause;
    // A pool of Brisk's that is too small turns requests away: whoever names the setting knows what the errors are.
    if SENSELESS.contains(&cause) && wishes.knobs.is_empty() {
        result["stopped"] = json!(knob::why_none(cause).unwrap_or("nothing can be measured"));
        return Ok(result);
    }
    let choice = Choice {
        cause,
        allowed: &wishes.allow,
        only: &wishes.knobs,
        pool: wishes.pool.as_deref(),
        steps: Steps::Wide,
    };
    let dials = Dials::choose(&read, &files, &choice)?;
    result["notes"] = json!(dials.notes());
    result["steps"] = dials.proposed().collect();
    if dials.all.is_empty() {
        let why = knob::why_none(cause).unwrap_or("no setting of this site is known to mend it");
        result["stopped"] = json!(format!("nothing to try: {why}"));
    } else {
        let rate = before.run.goodput();
        site.search(&mut stack, dials, &choice, rate, &mut result)?;
    }
    result["seconds"] = json!(begun.elapsed().as_secs_f64());
    Ok(result)
}

/// The result of a tuner that was ended before it had one.
pub fn nothing() -> Value {
    json!({ "steps": [], "patches": [], "final": Value::Null, "stopped": told(&Stop::Interrupted) })
}

/// What is looked at as a whole.
struct Site<'a> {
    read: &'a Read,
    files: &'a Files,
    traffic: &'a Traffic,
    wishes: &'a Wishes,
    begun: Instant,
}

/// What a look has seen.
struct Look<'a> {
    run: RunReport,
    limit: Diagnosis,
    goal: &'a Goal,
}

impl Look<'_> {
    fn tiers(&self) -> Value {
        let (tiers, _) = self.run.tiers().unwrap_or_default();
        let tier = |tier: &TierSummary| {
            json!({
                "name": tier.name, "cores": tier.cores, "cpu_us": tier.cpu_us_per_response,
                "memory_mib": tier.pss_max as f64 / MEBIBYTE,
            })
        };
        tiers.iter().map(tier).collect()
    }

    fn figures(&self) -> Value {
        let latency = self.run.seen().latency;
        json!({
            "rate": self.run.goodput(),
            "p50_ms": latency.quantile(0.5) as f64 / 1e6,
            "p95_ms": latency.quantile(0.95) as f64 / 1e6,
            "errors": self.run.seen().error_share,
            "cost": self.goal.cost(&self.run),
            "shown": self.goal.cost(&self.run).map(|cost| self.goal.shown(cost)),
            "broken": self.goal.broken(&self.run),
            "tiers": self.tiers(),
        })
    }
}

impl Site<'_> {
    /// Searches, and looks again with what was found. `rate`: answers per second of the site as it is.
    fn search(
        &self,
        stack: &mut Stack,
        dials: Dials,
        choice: &Choice<'_>,
        rate: f64,
        result: &mut Value,
    ) -> Result<(), String> {
        let Wishes { goal, quiet, .. } = self.wishes;
        let times = self.times(stack, rate)?;
        let watched = measure::tiers(self.traffic.place(), self.read).into_iter().map(|(tier, _)| tier);
        let measurer = Measurer {
            stack: &mut *stack,
            files: self.files,
            dials,
            traffic: self.traffic,
            goal,
            tiers: watched.filter(|_| goal.asks_tiers()).collect(),
            times,
            rng: Rng::from_clock(),
            is_quiet: *quiet,
            pairs: 0,
        };
        let slices = measurer.times.slices();
        let (seed, dimensions) = (Rng::from_clock().next_u64(), measurer.dials.dimensions());
        let mut guided = Guided { measurer, site: self, choice, limits: Vec::new() };
        let found = search::search(&dimensions, &mut guided, slices, seed);
        let Guided { measurer: Measurer { dials, .. }, limits, .. } = guided;
        let dials = &dials;
        let told = told_of(&found, dials, self.files)?;
        for name in ["steps", "final", "slices", "stopped", "patches"] {
            result[name] = told[name].clone();
        }
        result["limits"] = Value::Array(limits);
        result["notes"] = json!(dials.notes());
        if !interrupted() && !matches!(found.stopped, Some(Stop::Failed(_))) {
            result["after"] = self.look_again(stack, dials, &found.best)?;
            if self.wishes.html.is_some() && found.best != dials.original() {
                result["curves"] = self.curves(stack, dials, &found.best)?;
            }
        }
        Ok(())
    }

    /// How long a slice takes: programs end and start as slowly here as they will. `rate`: answers per second.
    fn times(&self, stack: &mut Stack, rate: f64) -> Result<Times, String> {
        let slice = self.slice(rate);
        let load = Times::load(slice);
        let mut timed = |restart: Restart| -> Result<Duration, String> {
            let started = Instant::now();
            stack.restart(self.files, self.traffic, restart).map_err(|Refused(why)| why)?;
            Ok(load + started.elapsed())
        };
        let whole = timed(Restart::All)?;
        // A database of the copy's own goes on running in most slices.
        let cycle = if self.wishes.mysql.is_some() { timed(Restart::Changed)? } else { whole };
        Ok(Times { begun: self.begun, budget: self.wishes.budget, slice, cycle, whole })
    }

    /// How long the counted part of a slice is at this rate.
    fn slice(&self, rate: f64) -> Duration {
        let are_whole = matches!(self.traffic.kind, Kind::Scenario { .. });
        let enough = Duration::from_secs_f64(self.wishes.goal.answers_enough(are_whole) / rate.max(1.0));
        slice(self.wishes.budget).min(enough.max(SLICE_TIME_ENOUGH))
    }

    /// Both over numbers of users around the one that was searched at.
    fn curves(&self, stack: &mut Stack, dials: &Dials, best: &Point) -> Result<Value, String> {
        let users = self.traffic.users()?;
        let mut all: Vec<usize> = CURVE.iter().map(|part| ((users as f64 * part) as usize).max(1)).collect();
        all.dedup();
        let time = slice(self.wishes.budget) * 2;
        let mut figures = |point: &Point, users: usize| -> Result<Value, String> {
            let files = dials.files_at(self.files, point)?;
            stack.restart(&files, self.traffic, Restart::Changed).map_err(|Refused(why)| why)?;
            let run = self.traffic.of_users(users).run(time / 4, time, &[])?;
            Ok(json!({ "rate": run.goodput(), "p95_ms": run.seen().latency.quantile(0.95) as f64 / 1e6 }))
        };
        let mut points = Vec::new();
        for users in all {
            if interrupted() {
                break;
            }
            let (before, after) = (figures(&dials.original(), users)?, figures(best, users)?);
            points.push(json!({ "users": users, "before": before, "after": after }));
        }
        Ok(Value::Array(points))
    }

    /// The load with all tiers watched, and what limited.
    fn look(&self) -> Result<Look<'_>, String> {
        let time = (self.wishes.budget / 60).clamp(TUNE_LOOK_TIME_MIN, TUNE_LOOK_TIME_MAX);
        let warmup = Traffic::usual_warmup().min(time);
        self.traffic.wake(warmup)?;
        let looks = |login| Looks::start(self.traffic.place(), self.read, login);
        // Without that account the database's processes are looked at.
        let looks = looks(self.wishes.mysql_login.as_deref()).or_else(|_| looks(None))?;
        let has_pauses = self.traffic.has_pauses();
        let (run, found) = looks.beside(has_pauses, |tiers| self.traffic.run_awake(warmup, time, tiers))?;
        if run.outcome.stats.responses() == 0 {
            return Err("the copy of the site answers nothing".to_owned());
        }
        let limit = diagnose(&found);
        Ok(Look { run, limit, goal: &self.wishes.goal })
    }

    /// The same with what was found.
    fn look_again(&self, stack: &mut Stack, dials: &Dials, best: &Point) -> Result<Value, String> {
        let files = dials.files_at(self.files, best)?;
        stack.restart(&files, self.traffic, Restart::All).map_err(|Refused(why)| why)?;
        let look = self.look()?;
        let mut value = look.figures();
        value["limit"] = doctor::limit(&look.limit);
        Ok(value)
    }
}

/// Pairs, and looks at what limits with what was found so far.
struct Guided<'a> {
    measurer: Measurer<'a>,
    site: &'a Site<'a>,
    choice: &'a Choice<'a>,
    /// What was seen, with the settings then.
    limits: Vec<Value>,
}

impl Bench for Guided<'_> {
    fn pair(&mut self, ask: &Ask) -> Result<Told, Stop> {
        self.measurer.pair(ask)
    }

    fn next(&mut self, best: &Point) -> Result<Next, Stop> {
        if interrupted() {
            return Err(Stop::Interrupted);
        }
        // Settings that are named are tried in their order, whatever limits.
        if !self.choice.only.is_empty() {
            return Ok(Next::default());
        }
        let looked = self.measurer.bring(best, Restart::Changed).map_err(|Refused(why)| why);
        let (limit, rate) = match looked.and_then(|()| self.site.look()) {
            Ok(look) => (look.limit, look.run.goodput()),
            // The search goes on in its order; what does not run at all ends the next pair.
            Err(why) => {
                output::note(why);
                return Ok(Next::default());
            }
        };
        output::note(&limit.sentence);
        self.measurer.times.shorten(self.site.slice(rate));
        let slices = Some(self.measurer.times.slices());
        let dials = &mut self.measurer.dials;
        let mut seen = doctor::limit(&limit);
        seen["with"] = settings(dials, best);
        self.limits.push(seen);
        let known = dials.all.len();
        if !SENSELESS.contains(&limit.cause) {
            dials.add_for(limit.cause, self.site.read, self.site.files, self.choice);
        }
        let is_for = |index: &usize| dials.all[*index].knob.causes.contains(&limit.cause);
        let first = (0..dials.all.len()).filter(is_for).collect();
        Ok(Next { added: dials.dimensions().split_off(known), first, slices })
    }
}

/// How long the counted part of a slice is.
pub fn slice(budget: Duration) -> Duration {
    budget.mul_f64(SLICE_SHARE).clamp(TUNE_SLICE_TIME_MIN, TUNE_SLICE_TIME_MAX)
}

/// The load that is wished for.
pub fn traffic(wishes: &Wishes, address: Option<IpAddr>) -> Result<Traffic, String> {
    let kind = match &wishes.scenario {
        Some(file) => Kind::Scenario { file: file.clone(), users: wishes.users },
        None => Kind::Page { users: wishes.users.unwrap_or(USERS), rate: wishes.rate },
    };
    Ok(Traffic { kind, url: wishes.target()?, address })
}

/// Where the site listens, where it is asked, and where services of the outside are.
fn addresses(read: &Read, others: impl Iterator<Item = IpAddr>) -> BTreeSet<IpAddr> {
    let listens = read.site.server.iter().flat_map(|site| site.found("listen"));
    let address = |args: &[String]| {
        let first = args.first()?;
        let host = first.rsplit_once(':').map_or(&**first, |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']').parse().ok()
    };
    listens.filter_map(address).chain(others).collect()
}

fn told(stop: &Stop) -> String {
    match stop {
        Stop::Budget => "the time was over: --budget gives more".to_owned(),
        Stop::Interrupted => "ended early".to_owned(),
        Stop::Failed(why) => why.clone(),
    }
}

/// What a search has found, as it is printed.
pub fn told_of(found: &Found, dials: &Dials, files: &Files) -> Result<Value, String> {
    let step = |step: &Step| {
        let mut told = as_json(step, dials);
        // The search ends by itself when it has tried as many as it may.
        if step.pairs == 0 && step.from == step.to && found.stopped.is_none() {
            told["why"] = json!(format!("{TUNE_DIALS_MAX} others came first"));
        }
        told
    };
    let steps: Value = found.steps.iter().map(step).chain(dials.proposed()).collect();
    Ok(json!({
        "steps": steps, "final": final_of(found, dials), "slices": found.slices,
        "stopped": found.stopped.as_ref().map(told), "patches": patches(dials, files, &found.best)?,
    }))
}

/// A number, or nothing where nothing is known.
fn known(number: f64) -> Value {
    if number.is_finite() { json!(number) } else { Value::Null }
}

fn as_json(step: &Step, dials: &Dials) -> Value {
    json!({
        "knob": dials.all[step.dimension].knob.name,
        "from": dials.text(step.dimension, step.from),
        "to": dials.text(step.dimension, step.to),
        "verdict": step.verdict.name(),
        "ratio": known(step.ratio),
        "low": known(step.low),
        "high": known(step.high),
        "detectable": known(step.detectable),
        "pairs": step.pairs,
        "together": step.with.iter().map(|index| dials.all[*index].knob.name).collect::<Vec<_>>(),
        "source": dials.all[step.dimension].knob.source,
    })
}

/// What differs from the original.
fn settings(dials: &Dials, point: &Point) -> Value {
    let all = dials.original().into_iter().zip(point).enumerate();
    let changed = all.filter(|(_, (from, to))| from != *to);
    let setting = |(index, (from, to)): (usize, (usize, &usize))| json!({ "knob": dials.all[index].knob.name, "from": dials.text(index, from), "to": dials.text(index, *to) });
    changed.map(setting).collect()
}

fn final_of(found: &Found, dials: &Dials) -> Value {
    let settings = settings(dials, &found.best);
    let Some(confirmation) = &found.confirmation else {
        let says_nothing = matches!(found.stopped, Some(Stop::Interrupted | Stop::Failed(_)));
        return if says_nothing {
            Value::Null
        } else {
            json!({ "outcome": "no gain", "settings": settings })
        };
    };
    let Confirmation { outcome, ratio, low, high, variance_ratio, pairs, .. } = confirmation;
    let why = why_not(confirmation);
    let outcome = match outcome {
        Outcome::Kept => "kept",
        Outcome::Undecided => "undecided",
        Outcome::Worse | Outcome::Unstable => "dropped",
    };
    json!({
        "outcome": outcome, "why": why, "settings": settings, "ratio": known(*ratio), "low": known(*low), "high": known(*high),
        "variance_ratio": known(*variance_ratio), "pairs": pairs,
    })
}

/// Why a winner is not kept, if it is not.
pub fn why_not(confirmation: &Confirmation) -> Option<String> {
    let Confirmation { outcome, high, variance_ratio, impossible, .. } = confirmation;
    let why = match (outcome, impossible) {
        (Outcome::Kept, _) => return None,
        (Outcome::Undecided, _) if confirmation.is_cut_off() => {
            "there was no time to confirm it: --budget gives more".to_owned()
        }
        (Outcome::Undecided, _) => "the pairs do not say".to_owned(),
        (Outcome::Worse, Some(why)) => format!("it does not run: {why}"),
        (Outcome::Worse, None) if *high < 1.0 => "it breaks what is promised in most pairs".to_owned(),
        (Outcome::Worse, None) => "it is worse".to_owned(),
        (Outcome::Unstable, _) => format!(
            "its figures vary {variance_ratio:.1} times as much as is explained, and its worst slices are no better than the original \
             or break what is promised"
        ),
    };
    Some(why)
}

fn patches(dials: &Dials, files: &Files, best: &Point) -> Result<Value, String> {
    let after = dials.files_at(files, best)?;
    let patch = |(old, new): (&brisk_tune::edit::File, &brisk_tune::edit::File)| json!({ "file": old.name, "patch": patch::unified(&old.name, &old.text, &new.text) });
    Ok(files.differing(&after).map(patch).collect())
}
