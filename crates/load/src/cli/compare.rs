//! `brisk bench compare A B` and `brisk bench diff`.

mod report;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};

use super::args::{
    Numbers, connections, count, depth, duration, number, numbers, rate, report_file, think, threads,
};
use super::options::{quic, tls};
use super::request::RequestArgs;
use super::server::{Server, must_be_free};
use super::{BROKEN_PROMISE, NO_RESULT};
use crate::arrivals::Rate;
use crate::compare::{
    BUSY_PAIRS, Comparison, CpuTime, Ground, Promise, Side, Stored, TAKEN_SHARE_MAX, Tolerance,
    diff as show_diff,
};
use crate::engine;
use crate::output::{self, OutFile};
use crate::plan::{Endpoint, Place, Plan, RequestOptions, Stop, Think, Url, Version, sites};
use crate::report::late;
use crate::rng::Rng;
use crate::stats::Stats;
use crate::system;
use crate::watch::{Door, Look, Others, Which, Who, proc};

/// Finds out which of two is faster.
#[derive(Debug, Parser)]
#[command(
    override_usage = "brisk bench compare [OPTIONS] A B",
    after_help = "Both are run in interleaved, shuffled rounds until it is clear, or until they are equal within 3 %.\n\n\
        Spoilt pairs do not count: others took CPU time for which server or generator waited, the generator was late, or \
        0.1 % of the requests failed. Where others disturb most pairs, CPU per response is compared nevertheless, by more and shorter \
        pairs, at the price of a wider interval; --others says how much is tolerated instead.\n\n\
        Exit code: 0, whatever the verdict; 1 wrong usage, or it could not be done; 2 no pair counted, a target gave nothing but \
        errors, or a promise (--slo) stayed undecided; 3 the promise is broken."
)]
pub struct Args {
    /// A and B: URLs; or commands (run by sh) that start a server in the foreground, asked at --url
    #[arg(value_name = "A B")]
    named: Vec<String>,
    /// URL at which servers of commands are asked
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// URL for B, if it is another one
    #[arg(long, value_name = "URL")]
    url_b: Option<String>,
    /// Pairs of runs, at most
    #[arg(long, value_name = "N", default_value = "20", value_parser = pairs)]
    pairs: usize,
    /// How long each run is
    #[arg(short, long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    duration: Duration,
    /// Time before each run that does not count
    #[arg(short, long, value_name = "TIME", default_value = "500ms", value_parser = duration)]
    warmup: Duration,
    /// Connections: in a closed loop, users
    #[arg(short, long, value_name = "N", default_value = "64", value_parser = connections)]
    connections: usize,
    /// Threads of the generator
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = threads)]
    threads: usize,
    /// Open loop: requests per second; without it each connection asks again after each answer
    #[arg(short, long, value_name = "RATE", value_parser = rate, conflicts_with = "think")]
    rate: Option<Rate>,
    /// Pause of a user between two requests: 1s, 1s..3s, or exp:2s
    #[arg(long, value_name = "TIME", value_parser = think)]
    think: Option<Think>,
    #[command(flatten)]
    request: RequestArgs,
    /// HTTP/2: by ALPN with https, by prior knowledge with http
    #[arg(short = '2', long)]
    http2: bool,
    /// HTTP/3, over QUIC
    #[arg(short = '3', long, conflicts_with = "http2")]
    http3: bool,
    /// Requests at a time per connection over HTTP/2 (implies it) or HTTP/3
    #[arg(short = 'm', long, value_name = "N", value_parser = depth)]
    streams: Option<usize>,
    /// What is compared: cpu (of the server, per response), latency (median) or rate [default: cpu where it can be seen]
    #[arg(long, value_name = "WHAT", value_enum, hide_possible_values = true)]
    by: Option<By>,
    /// Processes whose CPU is A's: PID, command name, pool:, cgroup:, port: [default: what listens on the URL's port; a command's processes]
    #[arg(long, value_name = "WHO,WHO...", value_parser = whom)]
    watch_a: Vec<Whom>,
    /// The same for B
    #[arg(long, value_name = "WHO,WHO...", value_parser = whom)]
    watch_b: Vec<Whom>,
    /// Pairs count in which others on the machine took at most so much of the CPU time [default: 5, or all of it if --by cpu finds a busy machine]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    others: Option<f64>,
    /// Pin the generator to these CPUs
    #[arg(long, value_name = "N,N,...", value_parser = numbers)]
    cpu: Option<Numbers>,
    /// A promise, e.g. slower<5%: B costs not that much more than A; the exit code is 3 if it does, 2 if that stays undecided
    #[arg(long, value_name = "PROMISES", value_parser = promise)]
    slo: Option<f64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// A report in one file
    #[arg(long, value_name = "FILE", value_parser = report_file)]
    html: Option<PathBuf>,
}

/// What one option names. The name keeps clap from taking each for a value of its own.
type Whom = Vec<Who>;

/// What decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
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
    /// Whose CPU it is; empty: who listens, or the command's processes.
    watch: Vec<Who>,
}

pub struct Options {
    targets: [Target; 2],
    plan: Plan,
    request: RequestOptions,
    pairs: usize,
    by: Option<By>,
    json: bool,
    html: Option<PathBuf>,
    /// As it was given, for reports.
    command: String,
    /// So much more, as a share, B may cost.
    slo: Option<f64>,
    /// As it was asked for.
    others: Option<f64>,
    /// Of each run.
    length: Duration,
}

impl Args {
    /// What is to be done. The error says what is wrong with the command line.
    pub fn options(self, command: String) -> Result<Options, String> {
        let mut plan = Plan::new(Vec::new(), self.connections, Stop::Told);
        plan.warmup = self.warmup;
        plan.threads = self.threads;
        plan.rate = self.rate.map(|rate| rate.within(Some(self.warmup + self.duration)));
        plan.think = self.think;
        plan.cpus = self.cpu.unwrap_or_default();
        plan.version = Version::asked(self.http2, self.http3, self.streams.is_some());
        plan.pipeline = self.streams.unwrap_or(plan.pipeline);
        let mut request = self.request.options()?;
        request.headers.extend(self.request.cookie_line());
        request.check().map_err(|error| error.to_string())?;
        request.tunnels = plan.version == Version::H2;
        if plan.rate.is_some() && self.by == Some(By::Rate) {
            return Err("--rate says when requests are sent: it does not go with --by rate".to_owned());
        }
        let [a, b] = <[String; 2]>::try_from(self.named)
            .map_err(|_| "two targets are needed, A and B; --help shows the usage".to_owned())?;
        let url_b = self.url_b.or_else(|| self.url.clone());
        let targets = [
            target(a, self.url.as_deref(), self.watch_a.concat())?,
            target(b, url_b.as_deref(), self.watch_b.concat())?,
        ];
        Ok(Options {
            targets,
            plan,
            request,
            pairs: self.pairs,
            by: self.by,
            json: self.json,
            html: self.html,
            command,
            slo: self.slo,
            others: self.others,
            length: self.duration,
        })
    }
}

/// `slower<5%`, as a share.
fn promise(text: &str) -> Result<f64, String> {
    let bad = || format!("\"{text}\" is no promise of a comparison: write slower<5%");
    let rest = text.trim().strip_prefix("slower").ok_or_else(bad)?.trim_start();
    let share = rest.strip_prefix('<').ok_or_else(bad)?.trim().strip_suffix('%').ok_or_else(bad)?;
    let share: f64 = share.trim().parse().map_err(|_| bad())?;
    if (0.0..=1000.0).contains(&share) { Ok(share / 100.0) } else { Err(bad()) }
}

fn pairs(text: &str) -> Result<usize, String> {
    count(text, 1000)
}

fn target(text: String, url: Option<&str>, watch: Vec<Who>) -> Result<Target, String> {
    let is_url = text.starts_with("http://") || text.starts_with("https://");
    let (command, url) = match (is_url, url) {
        (true, _) => (None, text),
        (false, Some(url)) => (Some(text), url.to_owned()),
        (false, None) => return Err(format!("\"{text}\" is a command: --url says what to ask of it")),
    };
    Ok(Target { command, url: Url::parse(&url).map_err(|error| error.to_string())?, watch })
}

fn whom(text: &str) -> Result<Vec<Who>, String> {
    let who = |part: &str| {
        let tiers = crate::watch::parse(&format!("server={}", part.trim()))?;
        let found: Option<Vec<Who>> = tiers.into_iter().map(|tier| tier.who).collect();
        found.ok_or_else(|| {
            format!("\"{part}\" names no processes: write a PID, COMMAND, pool:, cgroup: or port:")
        })
    };
    let all: Vec<_> = text.split(',').map(who).collect::<Result<_, _>>()?;
    Ok(all.concat())
}

/// A share, from a number of percent.
fn percent(text: &str) -> Result<f64, String> {
    let value: f64 = number(text.trim_end_matches('%'))?;
    if (0.0..=100.0).contains(&value) {
        Ok(value / 100.0)
    } else {
        Err(format!("\"{text}\" is not between 0 and 100 %"))
    }
}

impl By {
    /// What it measures.
    fn unit(self) -> &'static str {
        match self {
            Self::Cpu => "server CPU per response",
            Self::Latency => "median latency",
            Self::Rate => "time per response",
        }
    }
}

/// What a run has shown.
enum Measured {
    Side(Side),
    /// Nothing but errors: what they were.
    Useless(String),
}

/// A comparison under way.
struct Contest<'a> {
    options: &'a Options,
    by: By,
    comparison: Comparison,
    /// Who disturbs.
    others: Others,
}

/// Compares, and gives the exit code.
pub fn execute(options: &Options) -> Result<i32, String> {
    let can_be_watched = options.targets.iter().all(Target::can_be_watched);
    let by = options.by.unwrap_or(if can_be_watched { By::Cpu } else { By::Latency });
    for target in &options.targets {
        if let Some(command) = &target.command {
            must_be_free(command, &target.url)?;
        }
    }
    let tolerance = Tolerance {
        taken_share_max: options.others.unwrap_or(TAKEN_SHARE_MAX),
        widens: options.others.is_none() && by == By::Cpu,
    };
    let file = options.html.as_deref().map(OutFile::open).transpose()?;
    let comparison = Comparison::new(options.pairs, tolerance).with_promise(options.slo);
    let mut contest = Contest { options, by, comparison, others: Others::default() };
    let mut rng = Rng::from_clock();
    while !contest.comparison.is_over() && !system::interrupted() {
        let mut order = [0, 1];
        rng.shuffle(&mut order);
        match contest.pair(order)? {
            Ok(true) => {}
            Ok(false) => break,
            Err(why) => {
                output::note(why);
                return Ok(NO_RESULT);
            }
        }
    }
    if system::interrupted() {
        output::note("ended early");
    }
    if contest.comparison.ground() == Ground::Hopeless {
        output::note(contest.way_out(can_be_watched));
    }
    if options.json {
        output::line(contest.json());
    } else {
        output::print(contest.report());
    }
    file.map_or(Ok(()), |file| file.put(&contest.html()))?;
    Ok(match contest.comparison.promise() {
        Some(Promise::Broken) => BROKEN_PROMISE,
        Some(Promise::Undecided) => NO_RESULT,
        _ if contest.comparison.pairs() == 0 && !system::interrupted() => NO_RESULT,
        _ => 0,
    })
}

impl Contest<'_> {
    /// One pair; false: the user wants the end. The inner error says that there is nothing to compare.
    fn pair(&mut self, order: [usize; 2]) -> Result<Result<bool, String>, String> {
        let mut sides = [None; 2];
        for index in order {
            let target = &self.options.targets[index];
            let measured = self.measure(target);
            if system::interrupted() {
                // What was cut short says less than its counterpart.
                return Ok(Ok(false));
            }
            match measured? {
                Measured::Side(side) => sides[index] = Some(side),
                Measured::Useless(what) => {
                    let (name, url) = (["A", "B"][index], &target.url);
                    return Ok(Err(format!(
                        "nothing to compare: {name} ({url}) gives nothing but errors: {what}"
                    )));
                }
            }
        }
        let [Some(a), Some(b)] = sides else { return Ok(Ok(false)) };
        self.take(&a, &b);
        Ok(Ok(true))
    }

    /// Adds a pair, and says what came of it.
    fn take(&mut self, a: &Side, b: &Side) {
        let before = self.comparison.ground();
        if let Some(why) = self.comparison.add(a, b) {
            // One line says who; the report counts them.
            if self.comparison.spoilt() == 1 {
                output::note(format_args!("a pair does not count, and others like it will not: {why}"));
            }
        } else {
            output::note(format_args!(
                "pair {}: A {:.3}, B {:.3} ({:+.1} %)",
                self.comparison.pairs(),
                a.cost,
                b.cost,
                (b.cost / a.cost - 1.0) * 100.0
            ));
        }
        if before == Ground::Quiet && self.comparison.ground() == Ground::Busy {
            output::note(format_args!(
                "{}: disturbed pairs count from now on, {BUSY_PAIRS} times as many and shorter; the price is a wider interval",
                self.disturbance()
            ));
        }
    }

    fn measure(&mut self, target: &Target) -> Result<Measured, String> {
        let (options, by, length) = (self.options, self.by, self.length());
        let (look, looked) = (Look::now(), Instant::now());
        let mut server =
            target.command.as_ref().map(|command| Server::start(command, &target.url)).transpose()?;
        if let (By::Cpu, Some(server), true) = (by, &server, target.watch.is_empty()) {
            target.must_be_below(server)?;
        }
        let text = |error: std::io::Error| error.to_string();
        let urls = std::slice::from_ref(&target.url);
        let plan = Plan {
            sites: sites(urls, &options.request).map_err(|error| error.to_string())?,
            tls: tls(urls, options.plan.version, false)?,
            ..options.plan.clone()
        };
        let plan = Plan { quic: quic(&plan, false)?, ..plan };
        let warmup = plan.warmup;
        let run = engine::start(plan).map_err(text)?;
        while !run.wait_started(Duration::from_millis(50)) && !run.is_over() && !system::interrupted() {}
        std::thread::sleep(warmup);
        let clock = Clock::start(target.who(server.as_ref()));
        let (before, begun) = (run.progress(), Instant::now());
        while begun.elapsed() < length && !system::interrupted() {
            std::thread::sleep(Duration::from_millis(5).min(length));
        }
        let processes = clock.processes();
        let (after, elapsed) = (run.progress(), begun.elapsed());
        let (used_ns, time) = clock.stop(&processes);
        let own: Vec<u32> = processes.iter().copied().chain([std::process::id()]).collect();
        self.others.add(&look, &Look::now(), &own, looked.elapsed().as_secs_f64());
        run.stop();
        let stats = run.join().map_err(text)?.stats;
        if let Some(server) = &mut server {
            server.check()?;
        }
        if stats.responses() == stats.refusals() && stats.errors() + stats.refusals() > 0 {
            return Ok(Measured::Useless(errors_of(&stats)));
        }
        let responses = (after.responses - before.responses) as f64;
        let cost = match by {
            By::Latency => stats.latency.quantile(0.5) as f64 / 1e6,
            By::Rate => elapsed.as_secs_f64() * 1e6 / responses,
            By::Cpu if processes.is_empty() => {
                return Err(format!(
                    "nobody was seen to listen for {}; --watch-a, --watch-b or --by latency",
                    target.url
                ));
            }
            By::Cpu => used_ns as f64 / 1e3 / responses,
        };
        let is_late = late(&stats).is_some();
        let side = Side { cost, taken_share: time.taken_share(), error_share: stats.error_share(), is_late };
        Ok(Measured::Side(side))
    }

    /// What can be done on a machine on which this cannot be.
    fn way_out(&self, can_be_watched: bool) -> String {
        let remedy = match self.by {
            By::Cpu => "leave --others out, so that disturbed pairs count, or end what disturbs",
            _ if can_be_watched => {
                "--by cpu works here, at the price of a wider interval; times do not: they need a quieter machine"
            }
            _ => {
                "times cannot be compared here; --by cpu can, if --watch-a and --watch-b say whose CPU it is; or end what disturbs"
            }
        };
        format!("{}; {remedy}", self.disturbance())
    }

    /// Of each run: on a busy machine there are more of them.
    fn length(&self) -> Duration {
        match self.comparison.ground() {
            Ground::Busy => self.options.length / BUSY_PAIRS as u32,
            _ => self.options.length,
        }
    }
}

impl Target {
    fn can_be_watched(&self) -> bool {
        self.command.is_some()
            || !self.watch.is_empty()
            || self.listener().is_some_and(|who| !who.processes().is_empty())
    }

    /// Whose CPU time is looked at.
    fn who(&self, server: Option<&Server>) -> Vec<Who> {
        match server {
            _ if !self.watch.is_empty() => self.watch.clone(),
            Some(server) => vec![Who::Tree(server.pid())],
            None => self.listener().into_iter().collect(),
        }
    }

    /// A container's server, or one that another program starts, is none of the command's processes: theirs is not its CPU.
    fn must_be_below(&self, server: &Server) -> Result<(), String> {
        let listeners = self.listener().map_or_else(Vec::new, |who| who.processes());
        let own = Who::Tree(server.pid()).processes();
        if listeners.is_empty() || listeners.iter().any(|pid| own.contains(pid)) {
            return Ok(());
        }
        Err(format!(
            "who listens at {} is no process of \"{}\": --watch-a and --watch-b say whose CPU it is, or --by latency",
            self.url,
            self.command.as_deref().unwrap_or_default()
        ))
    }

    /// Who listens where the URL points, if that is this machine.
    fn listener(&self) -> Option<Who> {
        let Place::Name(_, port) = self.url.origin.place else { return None };
        match self.url.endpoint() {
            Ok(Endpoint::Tcp(address)) if address.ip().is_loopback() => {
                Some(Who::Listening(Door::Port(port), Which::All))
            }
            _ => None,
        }
    }
}

/// Threads' CPU time since it was first asked: the watched processes', and this one's.
struct Clock {
    who: Vec<Who>,
    watched: proc::Account,
    own: proc::Account,
    begun_at: Instant,
    begun: (proc::Usage, proc::Usage, proc::Machine),
}

impl Clock {
    fn start(who: Vec<Who>) -> Self {
        let mut clock = Self {
            who,
            watched: proc::Account::default(),
            own: proc::Account::default(),
            begun_at: Instant::now(),
            begun: Default::default(),
        };
        clock.begun = clock.look(&clock.processes());
        clock
    }

    /// Finding them takes longer than looking at them.
    fn processes(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.who.iter().flat_map(Who::processes).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn look(&mut self, processes: &[u32]) -> (proc::Usage, proc::Usage, proc::Machine) {
        (self.watched.look(processes, false), self.own.look(&[std::process::id()], false), proc::machine())
    }

    /// What the watched have used, and all of it; the former is 0 if nobody was seen.
    fn stop(mut self, processes: &[u32]) -> (u64, CpuTime) {
        let (watched, own, machine) = self.look(processes);
        let used = watched.cpu_ns - self.begun.0.cpu_ns;
        let ticks = machine.thread_ticks.saturating_sub(self.begun.2.thread_ticks);
        let time = CpuTime {
            own_ns: used + own.cpu_ns - self.begun.1.cpu_ns,
            waited_ns: watched.waited_ns - self.begun.0.waited_ns + own.waited_ns - self.begun.1.waited_ns,
            machine_ns: ticks * 10_000_000,
            elapsed_ns: self.begun_at.elapsed().as_nanos() as u64,
        };
        (used, time)
    }
}

/// What came in place of good answers.
fn errors_of(stats: &Stats) -> String {
    let statuses = stats.by_status.iter().filter(|(status, _)| !(100..400).contains(*status));
    let statuses = statuses.map(|(status, count)| format!("status {status} {count} times"));
    let errors = stats.errors.seen().map(|(kind, count)| {
        let why = stats.reason(kind).map_or_else(String::new, |why| format!(", because {why}"));
        format!("{} {count} times{why}", kind.name())
    });
    let all: Vec<String> = errors.chain(statuses).collect();
    all.join(", ")
}

/// Shows stored runs beside each other, and how little that proves.
#[derive(Debug, Parser)]
#[command(override_usage = "brisk bench diff A.json B.json")]
pub struct DiffArgs {
    /// What brisk bench --json=FILE has written
    #[arg(value_name = "A.json B.json")]
    files: Vec<PathBuf>,
}

impl DiffArgs {
    /// Reads what is to be shown.
    pub fn stored(&self) -> Result<[Stored; 2], String> {
        let [a, b] = &self.files[..] else {
            return Err("two files are needed, written by --json=FILE; --help shows the usage".to_owned());
        };
        let read = |path: &PathBuf| {
            let name = path.display().to_string();
            let text = fs::read_to_string(path).map_err(|error| format!("cannot read {name}: {error}"))?;
            Stored::parse(&name, &text)
        };
        Ok([read(a)?, read(b)?])
    }
}

/// Shows them; gives the exit code.
pub fn diff([a, b]: &[Stored; 2]) -> i32 {
    output::print(show_diff(a, b));
    0
}
