//! `--apply`: what was proved on the copy is written into the site, proved there again, and taken back if the gain is not there.

use super::bench::{Measurer, Restart, Times};
use super::database::Database;
use super::files::{Choice, Dials, Files, Steps};
use super::live::Live;
use super::store::Store;
use super::tier::{Tier, address_of};
use super::traffic::Traffic;
use super::undo::{Watchdog, take_back};
use super::variables::Variables;
use super::wishes::Wishes;
use super::{inside, site};
use crate::doctor::files::{Read, machine};
use crate::doctor::measure;
use brisk_load::output;
use brisk_load::plan::Place;
use brisk_load::rng::Rng;
use brisk_load::system::interrupted;
use brisk_tune::edit::Language;
use brisk_tune::guard::{Guard, Second};
use brisk_tune::knob::Risk;
use brisk_tune::patch;
use brisk_tune::search::{self, Point, Stop};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// A look at the site with the change.
const SECOND: Duration = Duration::from_secs(1);

/// Every risk was allowed that the search has tried.
const ALL_RISKS: &[Risk] = &[Risk::Durability, Risk::Security, Risk::Correctness];

/// Applies the settings of a result; says in JSON what came of it. The error says why nothing was changed, or that all is as it was.
pub fn apply(wishes: &Wishes, result: &Value) -> Result<Value, String> {
    let read = site::read(wishes)?;
    let files = Files::of(&read)?;
    let settings = settings(result);
    let names: Vec<String> = settings.iter().map(|(name, _)| name.clone()).collect();
    let choice = Choice {
        cause: "",
        allowed: ALL_RISKS,
        only: &names,
        pool: wishes.pool.as_deref(),
        steps: Steps::Wide,
    };
    let dials = Dials::choose(&read, &files, &choice)?;
    let best = dials.point_of(&settings).ok_or(CHANGED)?;
    let after = dials.files_at(&files, &best)?;
    must_be_the_same(result, &files, &after)?;
    let mut store = open(&wishes.state)?;
    let mut tiers = tiers(wishes, &read, &dials, &files, &after)?;
    if files.database != after.database {
        tiers.insert(0, Tier::Database(variables(wishes, &read, &dials)?));
    }
    let watchdog = Watchdog::start(&wishes.state)?;
    store.begin(tiers.iter().map(Tier::words).collect())?;
    let proved = Live::new(&mut store, &files, tiers)
        .and_then(|live| prove(wishes, &read, live, &files, &dials, &best));
    let applied = settle(&mut store, proved);
    watchdog.end(&store);
    applied
}

/// The journal, for this process alone: one tuner at a time changes a site.
pub fn open(folder: &Path) -> Result<Store, String> {
    let mut store = Store::open(folder)?;
    if store.lock()? {
        return Ok(store);
    }
    let who = match store.journal.owner {
        0 => "another process".to_owned(),
        owner => format!("process {owner}"),
    };
    Err(format!("{who} is tuning this site: wait for its end"))
}

/// Why a result is not applied any more.
const CHANGED: &str = "the site's files were changed while it was tuned: nothing was applied; tune again";

/// Names and values of the settings that were found.
fn settings(result: &Value) -> Vec<(String, String)> {
    let all = result["final"]["settings"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    all.filter_map(|setting| Some((text(&setting["knob"])?, text(&setting["to"])?))).collect()
}

/// What is to be written must be what the copy has shown, and every file what was copied. Results of older versions have no sums of the files.
fn must_be_the_same(result: &Value, files: &Files, after: &Files) -> Result<(), String> {
    if !result["files"].is_null() && result["files"] != files.sums() {
        return Err(CHANGED.to_owned());
    }
    let patches: BTreeSet<String> =
        files.differing(after).map(|(old, new)| patch::unified(&old.name, &old.text, &new.text)).collect();
    let shown = result["patches"].as_array().into_iter().flatten();
    let shown: BTreeSet<String> = shown.filter_map(|one| one["patch"].as_str().map(str::to_owned)).collect();
    if patches == shown { Ok(()) } else { Err(CHANGED.to_owned()) }
}

/// Where a pool listens.
fn listens(read: &Read, pool: &str) -> Result<String, String> {
    let entry = read.site.pools.get_in(&[pool], "listen");
    entry.map(|entry| address_of(&entry.value)).ok_or_else(|| format!("the pool \"{pool}\" listens nowhere"))
}

/// The database's settings that change.
fn variables(wishes: &Wishes, read: &Read, dials: &Dials) -> Result<Variables, String> {
    let file =
        wishes.mysql.as_deref().ok_or("--apply finds the database by its option file: give --mysql")?;
    let all = dials.all.iter().map(|dial| dial.knob);
    let names = all.filter(|knob| knob.language == Language::Database).map(|knob| knob.name);
    Variables::find(Database::find(file, read)?.socket(), wishes.mysql_login.as_deref(), names)
}

/// Which programs' files change, but for the database's.
fn tiers(
    wishes: &Wishes,
    read: &Read,
    dials: &Dials,
    files: &Files,
    after: &Files,
) -> Result<Vec<Tier>, String> {
    let mut tiers = Vec::new();
    // PHP runs within the web server, or is started by it.
    let has_own_php = !site::asks_fpm(read);
    let is_php_changed = files.php != after.php || files.pools != after.pools;
    if is_php_changed && !has_own_php {
        tiers.push(Tier::Php(listens(read, &dials.pool)?));
    }
    let is_changed = files.server != after.server || files.apache != after.apache;
    if is_changed || is_php_changed && has_own_php {
        let Place::Name(_, port) = wishes.target()?.origin.place else {
            return Err("--apply finds the web server by its port: give a URL with one".to_owned());
        };
        tiers.push(if read.apache.is_empty() { Tier::Server(port) } else { Tier::Apache(port) });
    }
    Ok(tiers)
}

/// Twenty pairs of the site with the change and without it.
fn prove(
    wishes: &Wishes,
    read: &Read,
    mut live: Live<'_>,
    files: &Files,
    dials: &Dials,
    best: &Point,
) -> Result<Value, String> {
    let traffic = inside::traffic(wishes, None)?;
    let watched = measure::tiers(traffic.place(), read).into_iter().map(|(tier, _)| tier);
    let watched = watched.filter(|_| wishes.goal.asks_tiers()).collect();
    let slice = inside::slice(wishes.budget);
    let mut measurer = Measurer {
        stack: &mut live,
        files,
        dials: dials.clone(),
        traffic: &traffic,
        goal: &wishes.goal,
        tiers: watched,
        times: Times { begun: Instant::now(), budget: Duration::MAX, slice, cycle: slice, whole: slice },
        rng: Rng::from_clock(),
        is_quiet: wishes.quiet,
        pairs: 0,
    };
    let found = search::compare(&mut measurer, &dials.original(), best);
    let found = found.map_err(|stop| match stop {
        Stop::Failed(why) => why,
        Stop::Interrupted | Stop::Budget => "ended early".to_owned(),
    })?;
    if let Some(why) = inside::why_not(&found) {
        if found.impossible.is_some() {
            return Err(format!("on the site itself {why}"));
        }
        return Err(format!(
            "the gain is not there on the site itself: {why} (cost {:+.1} %, {:+.1} % to {:+.1} %)",
            (found.ratio - 1.0) * 100.0,
            (found.low - 1.0) * 100.0,
            (found.high - 1.0) * 100.0
        ));
    }
    measurer.bring(best, Restart::All).map_err(|refused| refused.0)?;
    watch(wishes, &traffic)?;
    Ok(json!({ "ratio": found.ratio, "low": found.low, "high": found.high, "pairs": found.pairs }))
}

/// Looks at the site with the change second by second, under the same load: what is better at first may not stay so.
fn watch(wishes: &Wishes, traffic: &Traffic) -> Result<(), String> {
    let time = wishes.observe;
    if time.is_zero() {
        return Ok(());
    }
    let (begun, mut guard) = (Instant::now(), Guard::default());
    output::note("proved on the site");
    while begun.elapsed() < time {
        let run = traffic.run(Duration::ZERO, SECOND, &[])?;
        if interrupted() {
            return Err("ended early".to_owned());
        }
        let seen = run.seen();
        let is_answered = seen.latency.count() > 0;
        let second = Second {
            p99_ms: if is_answered { seen.latency.quantile(0.99) as f64 / 1e6 } else { f64::INFINITY },
            errors: seen.error_share,
            swap: machine().swap_used,
            memory: 0,
        };
        let had_limit = guard.limit().is_some();
        if let Some(breach) = guard.look(second) {
            return Err(format!("{} s after the proof {breach}", begun.elapsed().as_secs()));
        }
        if let Some(limit) = guard.limit().filter(|_| !had_limit) {
            let time = time.as_secs();
            output::note(format_args!(
                "it is watched for {time} s: 99 % must be answered within {limit:.1} ms"
            ));
        }
    }
    Ok(())
}

/// Keeps the change, or takes it back.
pub fn settle(store: &mut Store, proved: Result<Value, String>) -> Result<Value, String> {
    let kept = proved.and_then(|value| store.keep().map(|aside| (value, aside)));
    match kept {
        Ok((value, aside)) => {
            for one in &aside {
                output::note(format_args!(
                    "{} was changed by somebody else since it was tuned before: \"brisk tune undo\" brings it back as it was before this run; what \
                     stood there before the first one is in {}",
                    one.path.display(),
                    one.original.display()
                ));
            }
            Ok(value)
        }
        // Also where the journal cannot be written: without it the change could not be undone later.
        Err(why) => {
            must_be_taken_back(store).map_err(|error| format!("{error}; before that: {why}"))?;
            Err(format!("taken back: {why}"))
        }
    }
}

/// Brings the originals back. The error says what of them is not there.
pub fn must_be_taken_back(store: &mut Store) -> Result<(), String> {
    let back = take_back(store);
    if back.errors.is_empty() {
        return Ok(());
    }
    Err(format!("NOT all is taken back: {}: mend that, and then \"brisk tune undo\"", back.errors.join("; ")))
}
