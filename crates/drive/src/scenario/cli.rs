//! `brisk bench run` and `brisk bench schema`.

use super::course::Course;
use super::import::{self, jmx};
use super::model::{Arrivals, Scenario, Stage, User};
use super::report::{Beginning, Report};
use super::{keys, read, replay, run};
use crate::client::{Network, Url};
use crate::limits::ARRIVED_USERS_MAX;
use brisk_cli::Entry;
use brisk_load::arrivals::{Distribution, Rate, Schedule};
use brisk_load::cli::{Files, Outputs, Texts, WRONG_USAGE, args};
use brisk_load::live::{Live, Screen, View, Web, progress_bar};
use brisk_load::output;
use brisk_load::plan::Resolve;
use brisk_load::proxy::Proxy;
use brisk_load::report::fragment;
use brisk_load::system;
use clap::{CommandFactory as _, Parser};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// `brisk bench run`.
pub const RUN: Entry = Entry {
    name: "run",
    define: CommandLine::command,
    run: |call| {
        let line: CommandLine = match call.parse() {
            Ok(line) => line,
            Err(code) => return code,
        };
        match line.args(call.line()) {
            Ok(args) if args.check => check(&args),
            Ok(args) => call.carry_out(carry_out(args)),
            // What is wrong with a file names the file, line and column first.
            Err(error) => {
                output::note(error);
                WRONG_USAGE
            }
        }
    },
    inner: &[],
    usage_code: WRONG_USAGE,
};

/// `brisk bench schema`.
pub const SCHEMA: Entry = Entry {
    name: "schema",
    define: Schema::command,
    run: |call| match call.parse::<Schema>() {
        Ok(_) => {
            output::line(format_args!("{:#}", keys::schema()));
            0
        }
        Err(code) => code,
    },
    inner: &[],
    usage_code: WRONG_USAGE,
};

/// Prints the JSON Schema of scenario files.
#[derive(Debug, Parser)]
struct Schema {}

/// Runs a scenario: users of several kinds who take steps, think, and are checked.
#[derive(Debug, Parser)]
#[command(after_help = "docs/scenarios.md describes the file.\n\n\
    Exit code: 0 all thresholds hold, 1 wrong usage or file, or it could not be run, 2 the figures mean nothing (nothing was \
    answered, or they are INVALID), 3 a threshold does not hold.")]
struct CommandLine {
    /// The scenario, or a test plan of JMeter (.jmx)
    #[arg(value_name = "SCENARIO.toml", required = true)]
    file: String,
    /// In place of the file's target
    #[arg(long, value_name = "URL", value_parser = crate::cli::url)]
    target: Option<Url>,
    /// In place of its users, without its stages
    #[arg(short, long, value_name = "N", value_parser = users)]
    users: Option<usize>,
    /// In place of its duration, without its stages
    #[arg(short, long, value_name = "TIME", value_parser = args::duration)]
    duration: Option<Duration>,
    /// In place of its users: they arrive, so many per second, e.g. 40, or 10..100/60s for a ramp
    #[arg(short, long, value_name = "RATE", value_parser = args::rate, conflicts_with = "users")]
    rate: Option<Rate>,
    /// How they arrive: constant, at the same distance, or poisson, independently of each other
    #[arg(long, value_name = "HOW", value_parser = args::distribution)]
    arrivals: Option<Distribution>,
    /// Speed of a replay: 2 is twice as fast
    #[arg(long, value_name = "N", value_parser = args::number::<f64>)]
    speed: Option<f64>,
    /// Threads [default: half of the CPUs; one for a replay]
    #[arg(short, long, value_name = "N", value_parser = threads)]
    threads: Option<usize>,
    /// Take any certificate
    #[arg(short = 'k', long)]
    insecure: bool,
    /// This name and port are at this address
    #[arg(long, value_name = "HOST:PORT:ADDRESS", value_parser = args::resolve)]
    resolve: Vec<Resolve>,
    /// Ask through this HTTP proxy: https and HTTP/2 by CONNECT
    #[arg(short = 'x', long, value_name = "[NAME:PASSWORD@]HOST:PORT", value_parser = Proxy::parse)]
    proxy: Option<Proxy>,
    /// Each user's access to the network: a rate, a round trip, or both, e.g. 10mbit,40ms
    #[arg(long, value_name = "RATE,TIME", value_parser = Network::parse)]
    network: Option<Network>,
    /// Only steps with one of these tags
    #[arg(long, value_name = "TAG,TAG...", value_delimiter = ',')]
    tags: Vec<String>,
    /// No steps with one of these tags
    #[arg(long, value_name = "TAG,TAG...", value_delimiter = ',')]
    exclude_tags: Vec<String>,
    /// A property of JMeter's plan: ${__P(NAME)} is VALUE
    #[arg(short = 'J', long = "property", value_name = "NAME=VALUE", value_parser = import::property)]
    properties: Vec<(String, String)>,
    /// Read the file, say what is wrong with it, and do nothing
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    outputs: Outputs,
}

impl CommandLine {
    /// The file's scenario; a test plan is made one first, and what it does otherwise is told.
    fn scenario(&self) -> Result<Scenario, String> {
        let path = Path::new(&self.file);
        if path.extension().is_none_or(|kind| kind != "jmx") {
            if !self.properties.is_empty() {
                return Err("brisk bench run: -J is for test plans of JMeter (.jmx)".to_owned());
            }
            return read::file(&self.file);
        }
        let source =
            std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", self.file))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let target = self.target.as_ref().map(ToString::to_string);
        let made = jmx::convert(&source, folder, target.as_deref(), &self.properties);
        let made = made.map_err(|error| format!("{}:{error}", self.file))?;
        made.notes.iter().for_each(|note| output::note(format_args!("{}:{note}", self.file)));
        read::text(&made.text, folder).map_err(|faults| read::show(&self.file, &made.text, &faults))
    }

    /// What is to be done. The error says what is wrong with the command line, or with the file.
    fn args(self, command: String) -> Result<Args, String> {
        let mut scenario = self.scenario()?;
        let instead = Instead {
            target: self.target,
            users: self.users,
            rate: self.rate,
            arrivals: self.arrivals,
            duration: self.duration,
            speed: self.speed,
            insecure: self.insecure,
            resolve: self.resolve,
            proxy: self.proxy,
            network: self.network,
        };
        instead.put(&mut scenario)?;
        scenario.choose(&self.tags, &self.exclude_tags)?;
        needs_target(&scenario)?;
        let threads = self.threads.unwrap_or_else(system::half_of_the_cpus);
        Ok(Args { command, scenario, threads, outputs: self.outputs, check: self.check })
    }
}

fn users(text: &str) -> Result<usize, String> {
    args::count(text, 20_000)
}

fn threads(text: &str) -> Result<usize, String> {
    args::count(text, 256)
}

fn check(args: &Args) -> i32 {
    output::line(format_args!(
        "the scenario is sound: {} kinds of users, {} s",
        args.scenario.users.len(),
        args.scenario.length().as_secs()
    ));
    0
}

struct Args {
    /// As it was given.
    command: String,
    scenario: Scenario,
    threads: usize,
    outputs: Outputs,
    check: bool,
}

/// What stands on the command line in place of what stands in the file.
#[derive(Default)]
struct Instead {
    target: Option<Url>,
    users: Option<usize>,
    rate: Option<Rate>,
    arrivals: Option<Distribution>,
    duration: Option<Duration>,
    speed: Option<f64>,
    insecure: bool,
    resolve: Vec<Resolve>,
    proxy: Option<Proxy>,
    network: Option<Network>,
}

impl Instead {
    fn put(self, scenario: &mut Scenario) -> Result<(), String> {
        if self.target.is_some() {
            scenario.target.clone_from(&self.target);
        }
        scenario.insecure |= self.insecure;
        scenario.resolve.clone_from(&self.resolve);
        if self.proxy.is_some() {
            scenario.proxy.clone_from(&self.proxy);
        }
        scenario.network = self.network;
        if self.duration.is_some_and(|duration| duration.is_zero()) {
            return Err("--duration is above 0".to_owned());
        }
        let is_replay = scenario.replay.is_some();
        let has_users = self.users.is_some() || self.rate.is_some() || self.arrivals.is_some();
        if is_replay && (has_users || self.duration.is_some()) || !is_replay && self.speed.is_some() {
            return Err("--users, --rate, --arrivals and --duration are for users, --speed is for a replay"
                .to_owned());
        }
        self.put_load(scenario)?;
        if let (Some(speed), Some(replay)) = (self.speed, &mut scenario.replay) {
            if !(speed > 0.0 && speed <= 1e6) {
                return Err("--speed is above 0".to_owned());
            }
            replay.speed = speed;
        }
        Ok(())
    }
}

impl Instead {
    /// Who is there or arrives, and for how long.
    fn put_load(&self, scenario: &mut Scenario) -> Result<(), String> {
        let length = self.duration.unwrap_or(scenario.length());
        if self.rate.is_some()
            || self.users.is_some()
            || self.duration.is_some() && scenario.arrivals.is_none()
        {
            let users = scenario.users_max();
            scenario.forget_own_stages();
            if scenario.stages.is_empty() && scenario.arrivals.is_none() {
                scenario.stages = vec![Stage { users, over: Duration::ZERO, hold: length }];
            }
        }
        if let Some(rate) = self.rate {
            let usual = Arrivals {
                distribution: Distribution::Constant,
                schedule: Schedule::new([]),
                users_max: ARRIVED_USERS_MAX as usize,
            };
            let old = scenario.arrivals.take().unwrap_or(usual);
            scenario.arrivals =
                Some(Arrivals { schedule: Schedule::new([(rate.within(Some(length)), length)]), ..old });
            scenario.stages = Vec::new();
        } else if self.users.is_some() {
            scenario.arrivals = None;
            let users = self.users.unwrap_or(1);
            scenario.stages = vec![Stage { users, over: Duration::ZERO, hold: length }];
        } else if self.duration.is_some() && scenario.arrivals.is_some() {
            return Err("--duration needs --rate where users arrive: the file's rates have their own times"
                .to_owned());
        } else if self.duration.is_some() {
            let users = scenario.users_max();
            scenario.stages = vec![Stage { users, over: Duration::ZERO, hold: length }];
        }
        match (self.arrivals, &mut scenario.arrivals) {
            (Some(distribution), Some(arrivals)) => arrivals.distribution = distribution,
            (Some(_), None) => {
                return Err("--arrivals says how users arrive: give them a rate with --rate".to_owned());
            }
            (None, _) => {}
        }
        Ok(())
    }
}

/// Paths mean nothing without a target.
fn needs_target(scenario: &Scenario) -> Result<(), String> {
    let none = |_: &str| Some(String::new());
    let mut steps = scenario.users.iter().flat_map(User::all_steps);
    let path = steps.find(|step| {
        step.url
            .fill(super::template::Escape::None, &none)
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
    let Args { command, scenario, threads, outputs, .. } = args;
    let files = Files::open(&outputs)?;
    let scenario = Arc::new(scenario);
    let web = outputs.web.as_deref().map(Web::start).transpose().map_err(|error| error.to_string())?;
    if let Some(web) = &web {
        output::note(format_args!("watch it at http://{}/", web.address()));
    }
    let live = Live { is_quiet: outputs.quiet, web };
    let course = Arc::new(Course::new(&scenario, outputs.raw.is_some()));
    let beside = Beginning::watch(&outputs.tiers())?;
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
    if outputs.prints_json() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_load_has_the_same_kinds_of_users() {
        let kind = |users: usize| {
            format!(
                "[[user]]\nname = \"{users}\"\n[[user.stage]]\nusers = {users}\nhold = \"1m\"\n\
                 [[user.step]]\nrequest = \"GET /\"\n"
            )
        };
        let text = format!("target = \"http://h\"\n{}{}", kind(20), kind(5));
        let (time, rate) = (Duration::from_secs(10), args::rate("7").unwrap());
        for (instead, users) in [
            (Instead { duration: Some(time), ..Instead::default() }, 25),
            (Instead { users: Some(50), ..Instead::default() }, 50),
            (Instead { rate: Some(rate), duration: Some(time), ..Instead::default() }, 0),
        ] {
            let mut scenario = read::text(&text, Path::new("")).unwrap();
            instead.put(&mut scenario).unwrap();
            let weights: Vec<u32> = scenario.users.iter().map(|user| user.weight).collect();
            assert_eq!((weights, scenario.present_max()), (vec![20, 5], users));
        }
    }
}
