//! `brisk bench run` and `brisk bench schema`.

use super::course::Course;
use super::model::{Scenario, Stage};
use super::report::{Beginning, Report};
use super::{keys, read, replay, run};
use crate::client::Url;
use brisk_load::cli::args::{self, text};
use brisk_load::cli::{Files, Outputs, Texts};
use brisk_load::live::{Live, Screen, View, Web, progress_bar};
use brisk_load::output;
use brisk_load::report::fragment;
use brisk_load::system;
use brisk_load::watch::{self, Tier};
use lexopt::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const HELP: &str = "\
Runs a scenario: users of several kinds who take steps, think, and are checked. docs/scenarios.md describes the file.

      --target URL       in place of the file's target
  -u, --users N          in place of its users, without its stages
  -d, --duration TIME    in place of its duration, without its stages
      --speed N          of a replay
  -t, --threads N        threads [half of the CPUs; one for a replay]
  -k, --insecure         take any certificate
      --watch WHAT       resources beside the load: server=PID,php=pool:www,db=mariadbd,x=port:443,y=cgroup:/path
      --json [FILE]      print JSON, or write it (--json=FILE)
      --html FILE        a report in one file
      --csv FILE         the course of the run
      --prometheus FILE  the figures in Prometheus' text format
      --raw FILE         a line for each step
      --web[=ADDRESS]    the run in a browser while it lasts [127.0.0.1:8484]
  -q, --quiet            nothing but the result
      --check            read the file, say what is wrong with it, and do nothing
  -h, --help             this text

Exit code: 0 all thresholds hold, 1 it could not be run, 2 wrong usage or file, or the figures mean nothing (nothing was
answered, or they are INVALID), 3 a threshold does not hold.
";

/// Prints the JSON Schema of scenario files.
pub fn schema() -> i32 {
    output::line(format_args!("{:#}", keys::schema()));
    0
}

struct Args {
    /// As it was given.
    command: String,
    scenario: Scenario,
    threads: usize,
    outputs: Outputs,
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
    carry_out(args).unwrap_or_else(|error| {
        output::note(format_args!("brisk bench run: {error}"));
        1
    })
}

/// What stands on the command line in place of what stands in the file.
#[derive(Default)]
struct Instead {
    target: Option<Url>,
    users: Option<usize>,
    duration: Option<Duration>,
    speed: Option<f64>,
    insecure: bool,
}

impl Instead {
    fn put(self, scenario: &mut Scenario) -> Result<(), String> {
        if self.target.is_some() {
            scenario.target = self.target;
        }
        scenario.insecure |= self.insecure;
        if self.duration.is_some_and(|duration| duration.is_zero()) {
            return Err("--duration is above 0".to_owned());
        }
        let is_replay = scenario.replay.is_some();
        if is_replay && (self.users.is_some() || self.duration.is_some())
            || !is_replay && self.speed.is_some()
        {
            return Err("--users and --duration are for users, --speed is for a replay".to_owned());
        }
        if self.users.is_some() || self.duration.is_some() {
            let users = self.users.unwrap_or(scenario.users_max());
            let hold = self.duration.unwrap_or(scenario.length());
            scenario.stages = vec![Stage { users, over: Duration::ZERO, hold }];
        }
        if let (Some(speed), Some(replay)) = (self.speed, &mut scenario.replay) {
            if !(speed > 0.0 && speed <= 1e6) {
                return Err("--speed is above 0".to_owned());
            }
            replay.speed = speed;
        }
        Ok(())
    }
}

fn parse(args: &[String]) -> Result<Option<Args>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let (mut file, mut instead, mut outputs) = (None, Instead::default(), Outputs::default());
    let (mut threads, mut check, mut watch) = (system::half_of_the_cpus(), false, Vec::new());
    while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
        // Owned: the parser is needed for the value.
        let name = match arg {
            Short(letter) => letter.to_string(),
            Long(name) => name.to_owned(),
            Value(value) if file.is_none() => {
                file = Some(value.string().map_err(|error| error.to_string())?);
                continue;
            }
            other @ Value(_) => return Err(other.unexpected().to_string()),
        };
        match name.as_str() {
            "target" => {
                instead.target = Some(Url::parse(&text(&mut parser)?).map_err(|error| error.to_string())?);
            }
            "u" | "users" => instead.users = Some(args::count(&text(&mut parser)?, 20_000)?),
            "d" | "duration" => instead.duration = Some(args::duration(&text(&mut parser)?)?),
            "speed" => instead.speed = Some(args::number::<f64>(&text(&mut parser)?)?),
            "k" | "insecure" => instead.insecure = true,
            "t" | "threads" => threads = args::count(&text(&mut parser)?, 256)?,
            "watch" => watch.extend(watch::parse(&text(&mut parser)?)?),
            "check" => check = true,
            "h" | "help" => {
                output::print(format_args!("usage: brisk bench run [options] SCENARIO.toml\n\n{HELP}"));
                return Ok(None);
            }
            other if outputs.take(other, &mut parser)? => {}
            other => {
                let dashes = if other.chars().count() == 1 { "-" } else { "--" };
                return Err(format!("unknown option {dashes}{other}; --help shows all"));
            }
        }
    }
    let file = file.ok_or("no scenario given; --help shows the usage")?;
    let mut scenario = read::file(&file)?;
    instead.put(&mut scenario)?;
    needs_target(&scenario)?;
    let command = std::iter::once("brisk bench run").chain(args.iter().map(String::as_str));
    let command = command.collect::<Vec<_>>().join(" ");
    Ok(Some(Args { command, scenario, threads, outputs, watch, check }))
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

fn carry_out(args: Args) -> Result<i32, String> {
    system::catch_interrupts().map_err(|error| error.to_string())?;
    let Args { command, scenario, threads, outputs, watch, .. } = args;
    let files = Files::open(&outputs)?;
    let scenario = Arc::new(scenario);
    let web = outputs.web.as_deref().map(Web::start).transpose().map_err(|error| error.to_string())?;
    if let Some(web) = &web {
        output::note(format_args!("watch it at http://{}/", web.address()));
    }
    let live = Live { is_quiet: outputs.quiet, web };
    let course = Arc::new(Course::new(&scenario, outputs.raw.is_some()));
    let beside = Beginning::watch(&watch)?;
    let over = AtomicBool::new(false);
    let done = std::thread::scope(|scope| {
        let shower = scope.spawn(|| show(&live, &scenario, &course, &over));
        let done = match &scenario.replay {
            Some(replay) => replay::run(&scenario, replay, &course),
            None => run::run(&scenario, threads, &course),
        };
        over.store(true, Ordering::Relaxed);
        drop(shower.join());
        done
    })?;
    let resources = beside.end(&done, course.responses.load(Ordering::Relaxed));
    let report = Report::new(command, &scenario, done, &course, resources);
    if outputs.json {
        output::line(format_args!("{:#}", report.json()));
    } else {
        output::print(report.text());
    }
    files.write(&Texts {
        json: &|| format!("{:#}\n", report.json()),
        html: &|| report.html(),
        csv: &|| report.csv(),
        prometheus: &|| report.prometheus(),
        raw: &|file| course.raw(file),
    })?;
    if let Some(web) = &live.web {
        web.put(fragment(&report.sections()));
        // The page asks once per second: it is to see the end.
        std::thread::sleep(Duration::from_secs(2));
    }
    Ok(report.exit_code())
}

/// Shows the run until it is over.
fn show(live: &Live, scenario: &Scenario, course: &Course, over: &AtomicBool) {
    let mut screen = Screen::new(live);
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(20));
        let elapsed = course.elapsed();
        if !screen.is_due(elapsed) {
            continue;
        }
        let (slices, failures) = course.so_far();
        let (users, waiting) =
            (course.users.load(Ordering::Relaxed), course.under_way.load(Ordering::Relaxed));
        let label = match scenario.replay {
            Some(_) => format!("{waiting} under way"),
            None => format!("{users} users"),
        };
        let length = scenario.length();
        let bar = match scenario.replay {
            Some(_) => format!("{:.0} s", elapsed.as_secs_f64()),
            None if elapsed >= length => format!("waiting for {waiting} answers"),
            None => {
                let share = elapsed.as_secs_f64() / length.as_secs_f64().max(1e-9);
                progress_bar(share, length.saturating_sub(elapsed))
            }
        };
        let kinds: Vec<String> = failures.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let errors = if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") };
        screen.show(&View { label: &label, elapsed, bar, errors, slices: &slices });
    }
    screen.clear();
}
