//! `--live`: Brisk's own settings, changed in small steps under the traffic that there is.
//!
//! Nothing is asked of the site: its dashboard says what each second was like. Sides of a pair are stretches of some seconds, one after
//! the other. Each second is held against limits that were made of the first ones; a breach brings the better configuration back at once. All
//! files are under the journal and the watchdog, as with `--apply`.

use super::bench::difference;
use super::files::{Choice, Dials, Files, Steps};
use super::goal::{Goal, Stretch};
use super::live::Live;
use super::tier::Tier;
use super::undo::Watchdog;
use super::wishes::Wishes;
use super::{apply, inside, site};
use crate::doctor::files::{Read, machine};
use crate::endpoint::Address;
use crate::limits::{
    TUNE_LIVE_DRIFT_MAX, TUNE_LIVE_SLICE_SECS_MAX, TUNE_LIVE_SLICE_SECS_MIN, TUNE_LIVE_TRIES_MAX,
    TUNE_RELOAD_TIME_MAX,
};
use brisk_load::output;
use brisk_load::rng::Rng;
use brisk_load::system::interrupted;
use brisk_tune::guard::{Breach, Guard, Second};
use brisk_tune::search::{self, Ask, Bench, Point, Slice, Stop, Told};
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Between two looks at the dashboard.
const LOOK: Duration = Duration::from_millis(200);

/// What a dashboard says, second by second.
struct Feed<'a> {
    address: &'a Address,
    /// The last second that was taken.
    since: i64,
}

impl Feed<'_> {
    fn ask(&self) -> Result<Value, String> {
        let answer = self.address.call("GET", &format!("?data&since={}", self.since), &Value::Null)?;
        if answer["own"]["now_ms"].is_i64() {
            return Ok(answer["own"].clone());
        }
        Err(format!("{} is no dashboard: write \"location /dashboard {{ dashboard; }}\"", self.address))
    }

    /// Seconds that are over and were not taken before.
    fn next(&mut self) -> Result<Vec<Stretch>, String> {
        let mut own = self.ask()?;
        let history = own["history"]["seconds"].take();
        let column = |name: &str| history[name].as_array().cloned().unwrap_or_default();
        let number = |value: Option<&Value>| value.and_then(Value::as_f64);
        let (classes, cpu, memory) = (column("classes"), column("cpu_us"), column("memory_bytes"));
        let (p50, p95, p99) = (column("p50_us"), column("p95_us"), column("p99_us"));
        let mut all = Vec::new();
        for (index, at) in column("unix_secs").iter().enumerate() {
            let counts = classes.get(index).and_then(Value::as_array).into_iter().flatten();
            let counts: Vec<f64> = counts.filter_map(Value::as_f64).collect();
            self.since = self.since.max(at.as_i64().unwrap_or(self.since));
            all.push(Stretch {
                requests: counts.iter().sum(),
                failed: counts.last().copied().unwrap_or(0.0),
                quantiles_us: [p50.get(index), p95.get(index), p99.get(index)].map(number),
                cpu_us: number(cpu.get(index)).unwrap_or(0.0),
                memory: number(memory.get(index)).unwrap_or(0.0),
            });
        }
        Ok(all)
    }

    /// Everything until now is of no interest.
    fn skip(&mut self) -> Result<(), String> {
        self.next().map(drop)
    }
}

/// The guard's view of a second; one without requests says nothing.
fn second(stretch: &Stretch) -> Option<Second> {
    (stretch.requests > 0.0).then(|| Second {
        p99_ms: stretch.quantiles_us[2].unwrap_or(0.0) / 1e3,
        errors: stretch.failed / stretch.requests,
        swap: machine().swap_used,
        memory: stretch.memory as u64,
    })
}

/// Why a side was not measured.
enum Ended {
    Breach(Breach),
    Stop(Stop),
}

/// What became of a pair.
enum Pair {
    Measured(Stretch, Stretch),
    /// The new configuration was beyond a limit.
    Impossible(String),
    /// Requests waited too long with the better configuration too: it was the traffic or the machine.
    Disturbed(String),
}

impl From<String> for Ended {
    fn from(why: String) -> Ended {
        Ended::Stop(Stop::Failed(why))
    }
}

/// Who measures under real traffic.
struct Real<'a> {
    live: Live<'a>,
    feed: Feed<'a>,
    files: &'a Files,
    dials: &'a Dials,
    goal: &'a Goal,
    guard: Guard,
    /// Seconds of a side.
    slice: usize,
    begun: Instant,
    budget: Duration,
    rng: Rng,
    /// The rate of the last side with the better configuration, and which one that was.
    usual: Option<(Point, f64)>,
    is_quiet: bool,
    pairs: usize,
}

impl Real<'_> {
    /// Changes the configuration, and waits until the server has it.
    fn bring(&mut self, point: &Point) -> Result<(), String> {
        let files = self.dials.files_at(self.files, point)?;
        let before = self.feed.ask()?["generation"].clone();
        if !self.live.put(&files)? {
            return Ok(());
        }
        let begun = Instant::now();
        while self.feed.ask().is_ok_and(|own| own["generation"] == before) {
            if begun.elapsed() > TUNE_RELOAD_TIME_MAX {
                return Err(
                    "the server has not taken the new configuration: its error log says why".to_owned()
                );
            }
            sleep(LOOK);
        }
        Ok(())
    }

    /// So many seconds of traffic, each held against the limits.
    fn watch(&mut self) -> Result<Stretch, Ended> {
        self.feed.skip()?;
        let mut sum = Vec::new();
        while sum.len() < self.slice {
            sleep(LOOK);
            if interrupted() {
                return Err(Ended::Stop(Stop::Interrupted));
            }
            for stretch in self.feed.next()? {
                if let Some(breach) = second(&stretch).and_then(|second| self.guard.look(second)) {
                    return Err(Ended::Breach(breach));
                }
                sum.push(stretch);
            }
        }
        // The second in which the configuration was changed belongs to neither.
        Ok(Stretch::of(&sum[1..]))
    }

    fn side(&mut self, point: &Point) -> Result<Stretch, Ended> {
        self.bring(point)?;
        self.watch()
    }

    /// Both sides in this order; the first one is A unless they are swapped.
    fn both(&mut self, ask: &Ask, is_swapped: bool) -> Result<Pair, Stop> {
        let mut sides = Vec::new();
        for is_b in [is_swapped, !is_swapped] {
            let found = self.side(if is_b { &ask.b } else { &ask.a });
            match found {
                Ok(stretch) => sides.push(stretch),
                Err(Ended::Stop(stop)) => return Err(stop),
                Err(Ended::Breach(breach)) => {
                    // First of all the other one is back.
                    let back = self.bring(&ask.a);
                    self.guard.forget();
                    back.map_err(Stop::Failed)?;
                    let why = breach.to_string();
                    if is_b && ask.a != ask.b {
                        return Ok(Pair::Impossible(why));
                    }
                    let why = format!("{why}, with the configuration as it is");
                    // Failures and lack of memory are no moment to try anything.
                    return match breach {
                        Breach::Waiting(..) => Ok(Pair::Disturbed(why)),
                        _ => Err(Stop::Failed(why)),
                    };
                }
            }
        }
        if is_swapped {
            sides.reverse();
        }
        let mut sides = sides.into_iter();
        match (sides.next(), sides.next()) {
            (Some(a), Some(b)) => Ok(Pair::Measured(a, b)),
            _ => Err(Stop::Failed("a side was not measured".to_owned())),
        }
    }

    /// Whether the load is what it was at the last pair with the same configuration.
    fn is_stationary(&mut self, point: &Point, rate: f64) -> bool {
        let before = self.usual.replace((point.clone(), rate));
        match before {
            Some((same, before)) if same == *point => (rate / before).ln().abs() <= TUNE_LIVE_DRIFT_MAX,
            _ => true,
        }
    }

    fn slice_of(&self, stretch: &Stretch) -> Option<Slice> {
        let cost = self.goal.cost_of(stretch)?;
        Some(Slice { cost, holds: true, error: 1.0 / stretch.requests.max(1.0).sqrt() })
    }

    fn say(&self, ask: &Ask, told: &Told) {
        if !self.is_quiet {
            difference(self.dials, ask, told, self.pairs);
        }
    }
}

impl Bench for Real<'_> {
    fn pair(&mut self, ask: &Ask) -> Result<Told, Stop> {
        for _ in 0..TUNE_LIVE_TRIES_MAX {
            if self.begun.elapsed() > self.budget {
                return Err(Stop::Budget);
            }
            let is_swapped = self.rng.below(2) == 1;
            let told = match self.both(ask, is_swapped)? {
                Pair::Impossible(why) => Told::Impossible(why),
                Pair::Disturbed(why) => {
                    output::note(format_args!("{why}: this pair does not count"));
                    continue;
                }
                Pair::Measured(a, b) => {
                    if !self.is_stationary(&ask.a, a.requests) {
                        output::note("the traffic is changing: this pair does not count");
                        continue;
                    }
                    match (self.slice_of(&a), self.slice_of(&b)) {
                        (Some(a), Some(b)) => Told::Pair(a, b),
                        _ => continue,
                    }
                }
            };
            self.pairs += 1;
            self.say(ask, &told);
            return Ok(told);
        }
        Err(Stop::Failed("the traffic changes too much: nothing can be told from it".to_owned()))
    }
}

/// The port at which the server that reads these files listens.
fn port(read: &Read) -> Result<u16, String> {
    let site = read.site.server.as_ref().ok_or("--live is for Brisk: --site names its configuration")?;
    let listens = site.found("listen").into_iter().filter_map(|args| {
        let first = args.first()?;
        first.rsplit_once(':').map_or(&**first, |(_, port)| port).parse::<u16>().ok()
    });
    let running = listens.into_iter().find(|port| Tier::Server(*port).master().is_ok());
    running.ok_or_else(|| "no server listens at a port of this configuration: is it running?".to_owned())
}

/// Tunes under real traffic; gives the result.
pub fn tune(wishes: &Wishes, address: &Address) -> Result<Value, String> {
    let begun = Instant::now();
    wishes.goal.must_be_seen_from_outside()?;
    let read = site::read(wishes)?;
    let files = Files::of(&read)?;
    let choice = Choice {
        cause: "",
        allowed: &wishes.allow,
        only: &wishes.knobs,
        pool: wishes.pool.as_deref(),
        steps: Steps::Small,
    };
    let dials = Dials::choose(&read, &files, &choice)?;
    if dials.all.is_empty() {
        return Err(format!(
            "--live: there is nothing to try: name settings with --knobs; {}",
            dials.notes().join("; ")
        ));
    }
    let mut store = apply::open(&wishes.state)?;
    let tiers = vec![Tier::Server(port(&read)?)];
    let watchdog = Watchdog::start(&wishes.state)?;
    store.begin(tiers.iter().map(Tier::words).collect())?;
    let searched = Live::new(&mut store, &files, tiers).and_then(|live| {
        let slice = (wishes.budget.as_secs() / 200) as usize;
        let mut real = Real {
            live,
            feed: Feed { address, since: 0 },
            files: &files,
            dials: &dials,
            goal: &wishes.goal,
            guard: Guard::default(),
            slice: slice.clamp(TUNE_LIVE_SLICE_SECS_MIN, TUNE_LIVE_SLICE_SECS_MAX),
            begun,
            budget: wishes.budget,
            rng: Rng::from_clock(),
            usual: None,
            is_quiet: wishes.quiet,
            pairs: 0,
        };
        search_with(&mut real, &dials)
    });
    let is_kept = searched.as_ref().is_ok_and(|result| result["final"]["outcome"] == "kept");
    let settled = if is_kept {
        apply::settle(&mut store, searched)
    } else {
        // A search that has kept nothing leaves the originals, as an error does.
        apply::must_be_taken_back(&mut store).and(searched)
    };
    watchdog.end(&store);
    let mut result = settled?;
    result["site"] = json!(read.first());
    Ok(result)
}

fn search_with(real: &mut Real<'_>, dials: &Dials) -> Result<Value, String> {
    real.feed.skip()?;
    // The first seconds make the limits.
    for _ in 0..TUNE_LIVE_TRIES_MAX {
        if real.guard.limit().is_some() {
            break;
        }
        match real.watch() {
            Ok(_) => {}
            Err(Ended::Breach(breach)) => return Err(format!("{breach}, before anything was changed")),
            Err(Ended::Stop(Stop::Failed(why))) => return Err(why),
            Err(Ended::Stop(_)) => return Err("ended early".to_owned()),
        }
    }
    if real.guard.limit().is_none() {
        return Err(
            "there is no traffic to learn from: --live is for a server that is asked all the time".to_owned()
        );
    }
    let left = real.budget.saturating_sub(real.begun.elapsed()).as_secs_f64();
    let slices = left / (real.slice as f64 + 1.0);
    let seed = Rng::from_clock().next_u64();
    let found = search::search(&dials.dimensions(), real, slices, seed);
    let is_kept = found.best != dials.original();
    if is_kept {
        real.bring(&found.best)?;
    }
    let mut result = inside::told_of(&found, dials, real.files)?;
    result["goal"] = json!(real.goal.text());
    result["unit"] = json!(real.goal.unit());
    result["notes"] = json!(dials.notes());
    Ok(result)
}
