//! `brisk bench compare A B` and `brisk bench diff`.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lexopt::prelude::*;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;

use super::args::{count, duration, text};
use super::options::tls;
use crate::compare::{Comparison, Side, Stored, Verdict, diff as show_diff};
use crate::engine;
use crate::output;
use crate::plan::{Endpoint, Place, Plan, RequestOptions, Stop, Url, Version, sites};
use crate::rng::Rng;
use crate::system;
use crate::watch::{Tier, Watch, Who, proc};

/// How long a command may take until its server answers.
const START_MAX: Duration = Duration::from_secs(20);
/// How long it may take to end.
const END_MAX: Duration = Duration::from_secs(10);

const HELP: &str = "\
Runs both in interleaved, shuffled rounds until it is clear which is faster, or that they are equal within 3 %.

  A, B               URLs; or commands (run by sh) that bring a server up in the foreground, asked at --url
      --url URL          what is asked of commands; --url-b URL if B's is another one
      --pairs N          at most so many pairs of runs [20]
  -d, --duration TIME    of each run [2s]
  -w, --warmup TIME      before each run [500ms]
  -c, --connections N    [64]
  -H, --header LINE      further header line
  -2, --http2            HTTP/2; -m N: so many requests at a time per connection
      --by WHAT          cpu (of the server, per response), latency (median) or rate [cpu where it can be seen]
      --watch-a WHO, --watch-b WHO   whose CPU it is: a PID, a command name, pool:, cgroup:, port: [who listens on the URL's port]
      --cpu N            pin the generator to this CPU
      --json             print JSON
  -h, --help             this text

Spoilt pairs (server or generator waited for a CPU for more than 5 % of the time, or 0.1 % of the requests failed) do not count.
";

/// What decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Cpu,
    Latency,
    Rate,
}

/// One of the two.
#[derive(Debug, Clone)]
struct Target {
    /// Brings it up; `None`: it is up.
    command: Option<String>,
    url: Url,
    watch: Option<Who>,
}

struct Options {
    targets: [Target; 2],
    plan: Plan,
    request: RequestOptions,
    pairs: usize,
    by: Option<By>,
    json: bool,
    /// Of each run.
    length: Duration,
}

/// Runs `program ARGS` and gives its exit code.
pub fn main(program: &str, args: &[String]) -> Result<i32, String> {
    let Some(options) = parse(program, args)? else { return Ok(0) };
    system::catch_interrupts().map_err(|error| error.to_string())?;
    let by = match options.by {
        Some(by) => by,
        None if options.targets.iter().all(Target::can_be_watched) => By::Cpu,
        None => By::Latency,
    };
    let mut comparison = Comparison::new(options.pairs);
    let mut rng = Rng::from_clock();
    while !comparison.is_over() && !system::interrupted() {
        let mut order = [0, 1];
        rng.shuffle(&mut order);
        let mut sides = [None; 2];
        for index in order {
            let side = measure(&options, &options.targets[index], by);
            if system::interrupted() {
                // What was cut short says less than its counterpart.
                break;
            }
            sides[index] = Some(side?);
        }
        let [Some(a), Some(b)] = sides else { break };
        match comparison.add(&a, &b) {
            Some(why) => output::note(format_args!("a pair does not count: {why}")),
            None => output::note(format_args!(
                "pair {}: A {:.3}, B {:.3} ({:+.1} %)",
                comparison.pairs(),
                a.cost,
                b.cost,
                (b.cost / a.cost - 1.0) * 100.0
            )),
        }
    }
    if system::interrupted() {
        output::note("ended early");
    }
    show(&comparison, by, options.json);
    Ok(0)
}

fn show(comparison: &Comparison, by: By, as_json: bool) {
    let ratio = comparison.ratio();
    let unit = match by {
        By::Cpu => "server CPU per response",
        By::Latency => "median latency",
        By::Rate => "time per response",
    };
    if as_json {
        let verdict = match comparison.verdict() {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Equal => "equal",
            Verdict::Undecided => "undecided",
        };
        let known = ratio.low > 0.0 && ratio.high.is_finite();
        let figures = json!({
            "verdict": verdict, "by": unit, "pairs": comparison.pairs(), "spoilt_pairs": comparison.spoilt(),
            "ratio": known.then_some(ratio.middle), "low": known.then_some(ratio.low), "high": known.then_some(ratio.high),
            "costs": comparison.costs(),
        });
        return output::line(figures);
    }
    if comparison.costs().is_empty() || !ratio.high.is_finite() {
        let (pairs, spoilt) = (comparison.pairs(), comparison.spoilt());
        output::line(format_args!(
            "{pairs} pairs counted, {spoilt} were spoilt: too few for a verdict; the machine must be quieter"
        ));
        return output::line(comparison.verdict());
    }
    output::line(format_args!(
        "{unit}, B over A: {:.3} (between {:.3} and {:.3}; {} pairs, {} spoilt)",
        ratio.middle,
        ratio.low,
        ratio.high,
        comparison.pairs(),
        comparison.spoilt()
    ));
    output::line(comparison.verdict());
}

impl Target {
    fn can_be_watched(&self) -> bool {
        self.command.is_some()
            || self.watch.is_some()
            || self.listener().is_some_and(|who| !who.processes().is_empty())
    }

    /// Who listens where the URL points, if that is this machine.
    fn listener(&self) -> Option<Who> {
        let Place::Name(_, port) = self.url.origin.place else { return None };
        match self.url.endpoint() {
            Ok(Endpoint::Tcp(address)) if address.ip().is_loopback() => Some(Who::Port(port)),
            _ => None,
        }
    }
}

/// A command's server. Dropping it ends the command and all that it has started.
struct Server(Child);

impl Server {
    fn start(command: &str, url: &Url) -> Result<Self, String> {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        brisk_net::sys::unblock_signals_in(&mut shell);
        let child = shell.spawn().map_err(|error| format!("cannot run \"{command}\": {error}"))?;
        let mut server = Self(child);
        let begun = Instant::now();
        loop {
            if let Ok(Some(status)) = server.0.try_wait() {
                return Err(format!("\"{command}\" ended with {status}; it must stay in the foreground"));
            }
            if answers(url)? {
                return Ok(server);
            }
            if begun.elapsed() > START_MAX || system::interrupted() {
                return Err(format!("\"{command}\" does not answer at {url}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(group) = Pid::from_raw(self.0.id() as i32) else { return };
        let _ = kill_process_group(group, Signal::TERM);
        let begun = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) {
            if begun.elapsed() > END_MAX {
                let _ = kill_process_group(group, Signal::KILL);
                let _ = self.0.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// One request, answered.
fn answers(url: &Url) -> Result<bool, String> {
    let sites =
        sites(std::slice::from_ref(url), &RequestOptions::default()).map_err(|error| error.to_string())?;
    let tls = tls(std::slice::from_ref(url), Version::H1, true)?;
    let plan = Plan { tls, timeout: Duration::from_secs(2), ..Plan::new(sites, 1, Stop::Requests(1)) };
    Ok(engine::run(plan).map_err(|error| error.to_string())?.stats.responses() == 1)
}

fn measure(options: &Options, target: &Target, by: By) -> Result<Side, String> {
    let server = target.command.as_ref().map(|command| Server::start(command, &target.url)).transpose()?;
    let text = |error: std::io::Error| error.to_string();
    let urls = std::slice::from_ref(&target.url);
    let plan = Plan {
        sites: sites(urls, &options.request).map_err(|error| error.to_string())?,
        tls: tls(urls, options.plan.version, false)?,
        ..options.plan.clone()
    };
    let who = match (&server, &target.watch) {
        (_, Some(who)) => Some(who.clone()),
        (Some(server), None) => Some(Who::Tree(server.0.id())),
        (None, None) => target.listener(),
    };
    let tier = who.filter(|_| by == By::Cpu).map(|who| Tier { name: "server".to_owned(), who });
    let (warmup, threads) = (plan.warmup, plan.threads);
    let run = engine::start(plan).map_err(text)?;
    std::thread::sleep(warmup);
    let mut own = proc::Account::default();
    own.look(&[std::process::id()], false);
    let watch = tier.map(|tier| Watch::start(&[tier], options.length * 2)).transpose().map_err(text)?;
    let (before, begun) = (run.progress(), Instant::now());
    while begun.elapsed() < options.length && !system::interrupted() {
        std::thread::sleep(Duration::from_millis(5).min(options.length));
    }
    let (watched, after) = (watch.map(Watch::finish), run.progress());
    let elapsed = begun.elapsed();
    let own = own.look(&[std::process::id()], false);
    run.stop();
    let stats = run.join().map_err(text)?.stats;
    drop(server);
    let responses = (after.responses - before.responses) as f64;
    let mut waited_ns = own.waited_ns;
    let cost = match (by, watched) {
        (By::Latency, _) => stats.latency.quantile(0.5) as f64 / 1e6,
        (By::Rate, _) => elapsed.as_secs_f64() * 1e6 / responses,
        (By::Cpu, Some(watched)) if watched.samples.len() >= 2 => {
            let (first, last) =
                (&watched.samples[0].tiers[0], &watched.samples[watched.samples.len() - 1].tiers[0]);
            waited_ns = waited_ns.max(last.waited_ns - first.waited_ns);
            (last.cpu_ns - first.cpu_ns) as f64 / 1e3 / responses
        }
        (By::Cpu, _) => {
            return Err(format!(
                "nobody was seen to listen for {}; --watch-a, --watch-b or --by latency",
                target.url
            ));
        }
    };
    // With more threads than CPUs some wait by design.
    let waited_share = waited_ns as f64 / 1e9 / elapsed.as_secs_f64() / threads.max(1) as f64;
    Ok(Side { cost, waited_share, error_share: stats.error_share() })
}

fn who(text: &str) -> Result<Who, String> {
    let mut tiers = crate::watch::parse(&format!("server={text}"))?;
    tiers.pop().map(|tier| tier.who).ok_or_else(|| format!("\"{text}\" names nobody"))
}

fn parse(program: &str, args: &[String]) -> Result<Option<Options>, String> {
    let mut plan = Plan::new(Vec::new(), 64, Stop::Told);
    plan.warmup = Duration::from_millis(500);
    let mut request = RequestOptions::default();
    let (mut named, mut urls, mut watches) = (Vec::new(), [None, None], [None, None]);
    let (mut pairs, mut by, mut as_json, mut length) = (20, None, false, Duration::from_secs(2));
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
        match arg {
            Long("url") => urls[0] = Some(text(&mut parser)?),
            Long("url-b") => urls[1] = Some(text(&mut parser)?),
            Long("watch-a") => watches[0] = Some(who(&text(&mut parser)?)?),
            Long("watch-b") => watches[1] = Some(who(&text(&mut parser)?)?),
            Long("pairs") => pairs = count(&text(&mut parser)?, 1000)?,
            Short('d') | Long("duration") => length = duration(&text(&mut parser)?)?,
            Short('w') | Long("warmup") => plan.warmup = duration(&text(&mut parser)?)?,
            Short('c') | Long("connections") => plan.connections = count(&text(&mut parser)?, 1_000_000)?,
            Short('H') | Long("header") => request.headers.push(text(&mut parser)?),
            Short('2') | Long("http2") => plan.version = Version::H2,
            Short('m') | Long("streams") => {
                plan.version = Version::H2;
                plan.pipeline = count(&text(&mut parser)?, 100_000)?;
            }
            Long("by") => {
                by = Some(match text(&mut parser)?.as_str() {
                    "cpu" => By::Cpu,
                    "latency" => By::Latency,
                    "rate" => By::Rate,
                    other => return Err(format!("--by {other}: cpu, latency or rate")),
                });
            }
            Long("cpu") => plan.cpus = super::args::list(&text(&mut parser)?)?,
            Long("json") => as_json = true,
            Short('h') | Long("help") => {
                output::print(format_args!("usage: {program} [options] A B\n\n{HELP}"));
                return Ok(None);
            }
            Value(value) => named.push(value.string().map_err(|error| error.to_string())?),
            other => return Err(other.unexpected().to_string()),
        }
    }
    request.check().map_err(|error| error.to_string())?;
    let [a, b] =
        <[String; 2]>::try_from(named).map_err(|_| "two targets are needed, A and B; --help".to_owned())?;
    let [url_a, url_b] = urls;
    let [watch_a, watch_b] = watches;
    let targets =
        [target(a, url_a.as_deref(), watch_a)?, target(b, url_b.as_deref().or(url_a.as_deref()), watch_b)?];
    Ok(Some(Options { targets, plan, request, pairs, by, json: as_json, length }))
}

fn target(text: String, url: Option<&str>, watch: Option<Who>) -> Result<Target, String> {
    let is_url = text.starts_with("http://") || text.starts_with("https://");
    let (command, url) = match (is_url, url) {
        (true, _) => (None, text),
        (false, Some(url)) => (Some(text), url.to_owned()),
        (false, None) => return Err(format!("\"{text}\" is a command: --url says what to ask of it")),
    };
    Ok(Target { command, url: Url::parse(&url).map_err(|error| error.to_string())?, watch })
}

/// `brisk bench diff A.json B.json`.
pub fn diff(program: &str, args: &[String]) -> Result<i32, String> {
    let [a, b] = args else {
        return Err(format!("usage: {program} A.json B.json, written by --json=FILE"));
    };
    let read = |path: &String| {
        let text = fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
        Stored::parse(path, &text)
    };
    output::print(show_diff(&read(a)?, &read(b)?));
    Ok(0)
}
