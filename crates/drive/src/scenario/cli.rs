//! `brisk bench run` and `brisk bench schema`.

use super::model::Scenario;
use super::report::{Beginning, Report};
use super::run::Progress;
use super::{keys, read, replay, run};
use crate::client::Url;
use brisk_load::cli::args::{self, text};
use brisk_load::output::{self, OutFile};
use brisk_load::system;
use brisk_load::watch::{self, Tier};
use lexopt::prelude::*;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const HELP: &str = "\
Runs a scenario: users of several kinds who take steps, think, and are checked. docs/scenarios.md describes the file.

      --target URL       in place of the file's target
  -u, --users N          in place of its users, without its stages
  -d, --duration TIME    in place of its duration, without its stages
      --speed N          of a replay
  -t, --threads N        threads [1]
      --json             print JSON
      --html FILE        write a page
      --watch WHAT       resources beside the load: server=PID,php=pool:www,db=mariadbd,x=port:443,y=cgroup:/path
      --check            read the file, say what is wrong with it, and do nothing
  -h, --help             this text

Exit code: 0 all thresholds hold, 1 it could not be run, 2 wrong usage or file, 3 a threshold does not hold.
";

/// Prints the JSON Schema of scenario files.
pub fn schema() -> i32 {
    output::line(format_args!("{:#}", keys::schema()));
    0
}

struct Args {
    scenario: Scenario,
    threads: usize,
    json: bool,
    html: Option<PathBuf>,
    watch: Vec<Tier>,
    check: bool,
}

/// Runs `brisk bench run ARGS`; gives the exit code.
pub fn main(args: &[String]) -> i32 {
    let args = match parse(args) {
        Ok(Some(args)) => args,
        Ok(None) => return 0,
        Err(error) => {
            output::note(error);
            return 2;
        }
    };
    if args.check {
        output::line(format_args!(
            "the scenario is sound: {} kinds of users, {} s",
            args.scenario.users.len(),
            args.scenario.length().as_secs()
        ));
        return 0;
    }
    match carry_out(args) {
        Ok(true) => 0,
        Ok(false) => 3,
        Err(error) => {
            output::note(format_args!("brisk bench run: {error}"));
            1
        }
    }
}

fn parse(args: &[String]) -> Result<Option<Args>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let (mut file, mut target, mut users, mut duration, mut speed) = (None, None, None, None, None);
    let (mut threads, mut json, mut check) = (1, false, false);
    let (mut html, mut watch) = (None, Vec::new());
    while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
        match arg {
            Long("target") => {
                target = Some(Url::parse(&text(&mut parser)?).map_err(|error| error.to_string())?);
            }
            Short('u') | Long("users") => users = Some(args::count(&text(&mut parser)?, 20_000)?),
            Short('d') | Long("duration") => duration = Some(args::duration(&text(&mut parser)?)?),
            Long("speed") => speed = Some(args::number::<f64>(&text(&mut parser)?)?),
            Short('t') | Long("threads") => threads = args::count(&text(&mut parser)?, 256)?,
            Long("json") => json = true,
            Long("html") => html = Some(text(&mut parser)?.into()),
            Long("watch") => watch.extend(watch::parse(&text(&mut parser)?)?),
            Long("check") => check = true,
            Short('h') | Long("help") => {
                output::print(format_args!("usage: brisk bench run [options] SCENARIO.toml\n\n{HELP}"));
                return Ok(None);
            }
            Value(value) if file.is_none() => file = Some(value.string().map_err(|error| error.to_string())?),
            other => return Err(other.unexpected().to_string()),
        }
    }
    let file = file.ok_or("no scenario given; --help shows the usage")?;
    let mut scenario = read::file(&file)?;
    if target.is_some() {
        scenario.target = target;
    }
    if users.is_some() || duration.is_some() {
        let users = users.unwrap_or(scenario.users_max());
        let hold = duration.unwrap_or(scenario.length());
        scenario.stages = vec![super::model::Stage { users, over: Duration::ZERO, hold }];
    }
    if let (Some(speed), Some(replay)) = (speed, &mut scenario.replay) {
        if !(speed > 0.0 && speed <= 1e6) {
            return Err("--speed is above 0".to_owned());
        }
        replay.speed = speed;
    }
    needs_target(&scenario)?;
    Ok(Some(Args { scenario, threads, json, html, watch, check }))
}

/// Paths mean nothing without a target.
fn needs_target(scenario: &Scenario) -> Result<(), String> {
    let none = |_: &str| Some(String::new());
    let mut steps = scenario.users.iter().flat_map(|user| user.start.iter().chain(&user.steps));
    let path = steps.find(|step| {
        step.url
            .fill(super::model::Escape::None, &none)
            .is_ok_and(|url| url.starts_with('/') && scenario.target.is_none())
    });
    match path {
        Some(step) => Err(format!(
            "step \"{}\" has a path, and there is no target: write target = \"http://host:port\" or give --target",
            step.name
        )),
        None => Ok(()),
    }
}

fn carry_out(args: Args) -> Result<bool, String> {
    system::catch_interrupts().map_err(|error| error.to_string())?;
    let html = args.html.as_deref().map(OutFile::open).transpose()?;
    let scenario = Arc::new(args.scenario);
    let progress = Arc::new(Progress::default());
    let over = Arc::new(AtomicBool::new(false));
    let threads = if scenario.replay.is_some() { 1 } else { args.threads };
    let beside = Beginning::watch(&args.watch, threads)?;
    let shower = show_progress(&scenario, &progress, &over);
    let done = match &scenario.replay {
        Some(replay) => replay::run(&scenario, replay, &progress),
        None => run::run(&scenario, threads, &progress),
    };
    over.store(true, Ordering::Relaxed);
    drop(shower.join());
    let (tally, elapsed) = done?;
    let seconds = elapsed.as_secs_f64();
    let judged = tally.judge(&scenario.thresholds, seconds);
    let resources = beside.end(elapsed, progress.responses.load(Ordering::Relaxed));
    let is_replay = scenario.replay.is_some();
    let holds = judged.iter().all(|(_, holds)| *holds);
    let report = Report { tally, seconds, judged, resources, is_replay };
    if args.json {
        output::line(format_args!("{:#}", report.json()));
    } else {
        output::print(report.text());
    }
    if let Some(html) = html {
        let target = scenario.target.as_ref().map(ToString::to_string);
        html.put(&report.html(&target.unwrap_or_default()))?;
    }
    Ok(holds)
}

/// A line that is written anew each second; on what is no terminal, a new line every ten.
fn show_progress(
    scenario: &Arc<Scenario>,
    progress: &Arc<Progress>,
    over: &Arc<AtomicBool>,
) -> std::thread::JoinHandle<()> {
    let (scenario, progress, over) = (Arc::clone(scenario), Arc::clone(progress), Arc::clone(over));
    std::thread::spawn(move || {
        let terminal = std::io::stderr().is_terminal();
        let every = Duration::from_secs(if terminal { 1 } else { 10 });
        let began = Instant::now();
        let (mut next, mut before) = (every, 0);
        while !over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
            if began.elapsed() < next {
                continue;
            }
            next += every;
            let (good, bad) = (progress.good.load(Ordering::Relaxed), progress.bad.load(Ordering::Relaxed));
            let rate = (good - before) as f64 / every.as_secs_f64();
            before = good;
            let line = format!(
                "{:>5.0} s of {:.0}: {} users, {good} good, {bad} bad, {rate:.1}/s",
                began.elapsed().as_secs_f64(),
                scenario.length().as_secs_f64(),
                progress.users.load(Ordering::Relaxed)
            );
            if terminal {
                output::hint(format_args!("\r{line}\x1b[K"));
                drop(std::io::stderr().flush());
            } else {
                output::note(line);
            }
        }
        if terminal {
            output::hint(format_args!("\r\x1b[K"));
        }
    })
}
