//! What the command line asks for.

use crate::limits::{IDLE_TIME_MAX, RAW_RECORDS_MAX};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use brisk_tls::{ClientContext, ClientOptions};
use clap::Parser;

use super::args::{
    self, Numbers, connections, count, depth, duration, numbers, rate, report_file, size, some_time, think,
};
use super::request::{RequestArgs, read_file};
use crate::arrivals::{Distribution, Rate};
use crate::jar::Jar;
use crate::plan::{ClientSettings, Order, Plan, RequestOptions, Stop, Think, Tls, Url, Version, sites};
use crate::sweep::slo::Slo;
use crate::system;
use crate::watch::{self, Tier};

/// Sends load over HTTP/1.1, HTTP/2 or HTTP/3 and says what came of it.
#[derive(Debug, Parser)]
#[command(
    after_help = "Certificates are not verified. Ctrl-C ends a run with the report so far.\n\n\
        Exit code: 1 wrong usage, or it could not be done; 2 nothing was answered, or the run is INVALID; 3 a promise is broken.",
    subcommand_value_name = "COMMAND",
    args_conflicts_with_subcommands = true
)]
pub struct Args {
    /// [http[s]://]host[:port]/path or http[s]://unix:/socket:/path; several are asked in turn
    #[arg(value_name = "URL")]
    urls: Vec<String>,
    #[command(flatten)]
    much: Much,
    #[command(flatten)]
    what: What,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    outputs: Outputs,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "How much")]
struct Much {
    /// Connections: in a closed loop, users; 1k is 1000
    #[arg(short, long, value_name = "N", default_value = "64", value_parser = connections)]
    connections: usize,
    /// How long, e.g. 500ms, 5s, 1m30s [default: 5s]
    #[arg(short, long, value_name = "TIME", value_parser = some_time)]
    duration: Option<Duration>,
    /// Number of requests instead; with -d, whichever comes first
    #[arg(short = 'n', long, value_name = "N", value_parser = requests)]
    requests: Option<u64>,
    /// Warm-up before counting starts; auto: the unsteady part is cut off
    #[arg(short, long, value_name = "TIME", default_value = "0s", value_parser = warmup)]
    warmup: Warmup,
    /// Open loop: requests per second, e.g. 500; 10..1000/60s is a ramp, 10..1000 one over the whole run
    #[arg(short, long, value_name = "RATE", value_parser = rate)]
    rate: Option<Rate>,
    /// How requests of an open loop come: constant, at the same distance, or poisson, independently of each other [default: constant]
    #[arg(long, value_name = "HOW", value_parser = args::distribution)]
    arrivals: Option<Distribution>,
    /// A sweep: a run for each number of users (10..200 doubles them), -d each, warm-up cut off, fitted
    #[arg(long, value_name = "N,N,...", value_parser = users, conflicts_with_all = ["find_max", "idle"])]
    users: Option<Numbers>,
    /// The highest rate that keeps --slo, in trials of -d each
    #[arg(long, conflicts_with = "idle")]
    find_max: bool,
    /// Promises, e.g. p99<200ms,errors<0.1%,rate>50; the exit code is 3 if one is broken
    #[arg(long, value_name = "PROMISES", value_parser = Slo::parse)]
    slo: Option<Slo>,
    /// Pause of a user between two requests: 1s, 1s..3s, or exp:2s
    #[arg(long, value_name = "TIME", value_parser = think)]
    think: Option<Think>,
    /// Connections are opened at this rate, not at once
    #[arg(long, value_name = "RATE", value_parser = rate)]
    ramp: Option<Rate>,
    /// Longest wait for a connection or response
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = some_time)]
    timeout: Duration,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "What")]
struct What {
    #[command(flatten)]
    request: RequestArgs,
    /// Cookies that answers set are sent back; each connection is a user with cookies of its own
    #[arg(long)]
    jar: bool,
    /// Targets in random order, not in turn
    #[arg(long)]
    random: bool,
    /// A file with further URLs, one per line
    #[arg(short = 'f', long = "urls", value_name = "FILE")]
    files: Vec<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "How")]
struct How {
    /// Threads [default: half of the CPUs]
    #[arg(short, long, value_name = "N", value_parser = args::threads)]
    threads: Option<usize>,
    /// HTTP/2: by ALPN with https, by prior knowledge with http
    #[arg(short = '2', long)]
    http2: bool,
    /// HTTP/3, over QUIC
    #[arg(short = '3', long, conflicts_with_all = ["http2", "pipeline"])]
    http3: bool,
    /// With -3: where a session allows it, requests go before the handshake is complete
    #[arg(long = "0rtt", requires = "http3")]
    early: bool,
    /// With -3: each connection moves to another port after each such time
    #[arg(long, value_name = "TIME", requires = "http3", value_parser = some_time)]
    migrate: Option<Duration>,
    /// Requests at a time per connection over HTTP/2 (implies it) or HTTP/3
    #[arg(short = 'm', long, value_name = "N", value_parser = depth, conflicts_with = "pipeline")]
    streams: Option<usize>,
    /// Requests in flight per connection over HTTP/1.1 [default: 1]
    #[arg(short, long, value_name = "N", value_parser = depth)]
    pipeline: Option<usize>,
    /// A new connection for each request
    #[arg(long)]
    no_keepalive: bool,
    /// No TLS session is resumed
    #[arg(long)]
    no_resumption: bool,
    /// Pin threads to these CPUs
    #[arg(long, value_name = "N,N,...", value_parser = numbers)]
    cpu: Option<Numbers>,
    /// Send buffer of the sockets, e.g. 64k
    #[arg(long, value_name = "SIZE", value_parser = size)]
    send_buffer: Option<usize>,
    /// Receive buffer of the sockets
    #[arg(long, value_name = "SIZE", value_parser = size)]
    recv_buffer: Option<usize>,
    /// Ask once per connection, then keep all open until Enter, end of input, or -d [default: 1h]
    #[arg(long)]
    idle: bool,
}

/// Where results go, and what is watched meanwhile.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "What comes of it")]
#[allow(missing_docs, reason = "their docs are the help text")]
pub struct Outputs {
    /// Resources beside the load: server=PID,php=pool:www,x=port:443,y=cgroup:/path,z=COMMAND, and tiers that tell of themselves: php=fpm:URL,web=apache:URL,edge=brisk:URL,db=mysql:SOCKET
    #[arg(long, value_name = "WHAT", value_parser = watch::parse)]
    pub watch: Vec<Tiers>,
    /// Print JSON, or write it to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, value_parser = json_file)]
    pub json: Option<Option<PathBuf>>,
    /// A report in one file
    #[arg(long, value_name = "FILE", value_parser = report_file)]
    pub html: Option<PathBuf>,
    /// The course of the run
    #[arg(long, value_name = "FILE", value_parser = report_file)]
    pub csv: Option<PathBuf>,
    /// The figures in Prometheus' text format
    #[arg(long, value_name = "FILE", value_parser = report_file)]
    pub prometheus: Option<PathBuf>,
    /// A line for each request, or step
    #[arg(long, value_name = "FILE", value_parser = report_file)]
    pub raw: Option<PathBuf>,
    /// The run in a browser while it lasts [default: 127.0.0.1:8484]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:8484")]
    pub web: Option<String>,
    /// Print nothing but the result
    #[arg(short, long)]
    pub quiet: bool,
}

/// What one `--watch` names. The name keeps clap from taking each tier for a value of its own.
type Tiers = Vec<Tier>;

impl Outputs {
    /// Whether JSON is printed.
    pub fn prints_json(&self) -> bool {
        self.json == Some(None)
    }

    /// The file that JSON goes to.
    pub fn json_file(&self) -> Option<&Path> {
        self.json.as_ref()?.as_deref()
    }

    /// What is watched.
    pub fn tiers(&self) -> Vec<Tier> {
        self.watch.concat()
    }
}

/// What is cut off at the start.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Warmup {
    /// What was not steady.
    Auto,
    /// So much.
    Time(Duration),
}

/// What kind of run.
#[derive(Debug, Clone, PartialEq)]
pub enum Mode {
    /// One.
    Single,
    /// One that keeps connections open, for so long at most.
    Idle(Duration),
    /// One per number of users.
    Users(Vec<usize>),
    /// A search for the highest rate.
    FindMax,
}

/// Why nothing is done.
#[derive(Debug, PartialEq)]
pub enum Wrong {
    /// The command line is wrong.
    Usage(String),
    /// It is sound, but cannot be begun.
    Impossible(String),
}

impl From<String> for Wrong {
    fn from(text: String) -> Self {
        Self::Usage(text)
    }
}

impl From<&str> for Wrong {
    fn from(text: &str) -> Self {
        Self::Usage(text.to_owned())
    }
}

/// All of it.
#[derive(Debug)]
pub struct Options {
    /// What each run does.
    pub plan: Plan,
    /// What kind.
    pub mode: Mode,
    /// The warm-up is what was not steady.
    pub auto_warmup: bool,
    /// What is promised.
    pub slo: Option<Slo>,
    /// What is watched.
    pub watch: Vec<Tier>,
    /// The URLs, for reports.
    pub targets: Vec<String>,
    /// Where results go.
    pub outputs: Outputs,
}

fn warmup(text: &str) -> Result<Warmup, String> {
    if text == "auto" { Ok(Warmup::Auto) } else { duration(text).map(Warmup::Time) }
}

fn requests(text: &str) -> Result<u64, String> {
    match args::thousands(text)? {
        0 => Err("0 asks for nothing: write at least 1, or leave -n out".to_owned()),
        requests => Ok(requests),
    }
}

/// `1,10,100`, or `10..200`: doubled from the first to the last.
fn users(text: &str) -> Result<Numbers, String> {
    let one = |text: &str| count(text.trim(), args::CONNECTIONS_MAX);
    let mut found = Vec::new();
    for part in text.split(',') {
        let Some((from, to)) = part.split_once("..") else {
            found.push(one(part)?);
            continue;
        };
        let (from, to) = (one(from)?, one(to)?);
        if from >= to {
            return Err(format!("\"{part}\": the first is not less than the last"));
        }
        found.extend(
            std::iter::successors(Some(from), |users| users.checked_mul(2)).take_while(|users| *users < to),
        );
        found.push(to);
    }
    Ok(found)
}

fn json_file(text: &str) -> Result<PathBuf, String> {
    if text == "-" { Err("--json alone prints it".to_owned()) } else { report_file(text) }
}

impl Args {
    /// What is to be done. The error says what is wrong with the command line.
    pub fn options(mut self) -> Result<Options, Wrong> {
        for file in &self.what.files {
            self.urls.extend(lines_of(file)?);
        }
        if self.urls.is_empty() {
            return Err("no URL given; --help shows the usage".into());
        }
        self.check()?;
        let mut plan = self.plan();
        let request = self.request(plan.version)?;
        let urls: Vec<Url> = self
            .urls
            .iter()
            .map(|url| Url::given(url))
            .collect::<Result<_, _>>()
            .map_err(|e| e.to_string())?;
        plan.tls = tls(&urls, plan.version, self.how.no_resumption)?;
        plan.quic = quic(&plan, self.how.early)?;
        plan.sites = sites(&urls, &request).map_err(|error| Wrong::Impossible(error.to_string()))?;
        plan.jar = self.what.jar.then(|| jar(&urls, self.what.request.cookies()));
        let mode = self.mode();
        if matches!(mode, Mode::Idle(_)) {
            let base = Plan::idle(Vec::new(), plan.connections);
            plan = Plan { stop: base.stop, hold: base.hold, ..plan };
        }
        if let Some(why) = plan.fault() {
            return Err(why.into());
        }
        Ok(Options {
            plan,
            mode,
            auto_warmup: self.much.warmup == Warmup::Auto,
            slo: self.much.slo,
            watch: self.outputs.tiers(),
            targets: self.urls,
            outputs: self.outputs,
        })
    }

    /// What does not go together.
    fn check(&self) -> Result<(), String> {
        let much = &self.much;
        let is_timed = much.requests.is_none();
        let is_many = much.find_max || much.users.is_some();
        let faults = [
            (
                much.find_max && much.slo.is_none(),
                "--find-max needs --slo, e.g. --slo 'p99<200ms,errors<0.1%'",
            ),
            (much.find_max && much.rate.is_some(), "--find-max chooses the rate itself: leave --rate out"),
            (is_many && !is_timed, "sweeps and searches run for a time: -d, not -n"),
            (
                much.users.is_some() && much.rate.is_some(),
                "--users is a closed loop, --rate an open one: choose",
            ),
            (
                much.arrivals.is_some() && much.rate.is_none() && !much.find_max,
                "--arrivals says how requests of an open loop come: give it a rate with --rate",
            ),
            (
                !is_timed
                    && much.duration.is_none()
                    && [much.rate, much.ramp].into_iter().flatten().any(|rate| rate.is_endless()),
                "10..1000 is a ramp over the whole run, which needs a time: -d, or write 10..1000/60s",
            ),
            (
                is_many && self.outputs.raw.is_some(),
                "--raw holds the requests of one run, sweeps and searches have many: make that run by itself, with -c or --rate",
            ),
            (
                self.how.idle && !self.outputs.watch.is_empty(),
                "--watch looks at loads, and --idle is none: leave one of them out",
            ),
            (
                self.how.idle && much.slo.is_some(),
                "--slo judges loads, and --idle is none: leave one of them out",
            ),
            (much.warmup == Warmup::Auto && !is_timed, "--warmup auto needs a run for a time: -d, not -n"),
        ];
        match faults.into_iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, why)) => Err(why.to_owned()),
            None => Ok(()),
        }
    }

    fn mode(&self) -> Mode {
        match &self.much.users {
            Some(users) => Mode::Users(users.clone()),
            None if self.much.find_max => Mode::FindMax,
            None if self.how.idle => Mode::Idle(self.much.duration.unwrap_or(IDLE_TIME_MAX)),
            None => Mode::Single,
        }
    }

    /// What each run does, without its targets.
    fn plan(&self) -> Plan {
        let (much, how) = (&self.much, &self.how);
        let stop = match (much.requests, much.duration) {
            (None, None) => Stop::After(Duration::from_secs(5)),
            (None, Some(time)) => Stop::After(time),
            (Some(count), None) => Stop::Requests(count),
            (Some(count), Some(time)) => Stop::RequestsWithin(count, time),
        };
        let mut plan = Plan::new(Vec::new(), much.connections, stop);
        if let Warmup::Time(time) = much.warmup {
            plan.warmup = time;
        }
        plan.version = Version::asked(how.http2, how.http3, how.streams.is_some());
        plan.migrate = how.migrate;
        if self.what.random {
            plan.order = Order::Random;
        }
        let length = plan.stop.time().map(|time| plan.warmup + time);
        plan.rate = much.rate.map(|rate| rate.within(length));
        plan.distribution = much.arrivals.unwrap_or_default();
        plan.think = much.think;
        plan.dial_rate = much.ramp.map(|rate| rate.within(length));
        plan.timeout = much.timeout;
        plan.threads = how.threads.unwrap_or_else(system::half_of_the_cpus);
        plan.pipeline = how.streams.or(how.pipeline).unwrap_or(1);
        plan.cpus = how.cpu.clone().unwrap_or_default();
        plan.send_buffer = how.send_buffer;
        plan.recv_buffer = how.recv_buffer;
        plan.per_connection = how.no_keepalive.then_some(1);
        plan.series = Some(Duration::from_millis(100));
        plan.record = self.outputs.raw.is_some().then_some(RAW_RECORDS_MAX);
        plan
    }

    /// What is asked at each target.
    fn request(&self, version: Version) -> Result<RequestOptions, String> {
        let mut request = self.what.request.options()?;
        if !self.what.jar {
            request.headers.extend(self.what.request.cookie_line());
        }
        request.close = self.how.no_keepalive;
        request.tunnels = version == Version::H2;
        request.check().map_err(|error| error.to_string())?;
        Ok(request)
    }
}

/// The lines of a file that are neither empty nor comments.
fn lines_of(path: &Path) -> Result<Vec<String>, String> {
    let name = path.display().to_string();
    let text = String::from_utf8(read_file(&name)?).map_err(|_| format!("{name} is not text"))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}

/// What users have before the first answer.
fn jar(urls: &[Url], cookies: &[String]) -> Jar {
    let mut jar = Jar::default();
    for url in urls {
        for pair in cookies.iter().flat_map(|text| text.split(';')) {
            jar.set(url, &format!("{}; Path=/", pair.trim()));
        }
    }
    jar
}

/// What handshakes are made with; `None`: no URL is https.
pub fn tls(urls: &[Url], version: Version, no_resumption: bool) -> Result<Option<Tls>, String> {
    let Some(first) = urls.iter().find(|url| url.origin.secure) else { return Ok(None) };
    let name = first.origin.host();
    if urls.iter().any(|url| !url.origin.secure || url.origin.host() != name) {
        return Err("with https all URLs of a run must be https, and of one host name".to_owned());
    }
    let alpn = vec![version.alpn().to_vec()];
    let options = ClientOptions { alpn, no_resumption, ..ClientOptions::unverified() };
    let context = ClientContext::new(&options).map_err(|error| format!("TLS: {error}"))?;
    Ok(Some(Tls { context: Arc::new(context), name: name.to_owned() }))
}

/// What HTTP/3 needs besides; `None`: it is not spoken, or no URL is https. `early`: requests may go before the handshake.
pub fn quic(plan: &Plan, early: bool) -> Result<Option<ClientSettings>, String> {
    match &plan.tls {
        Some(tls) if plan.version == Version::H3 => ClientSettings::new(&tls.context, early).map(Some),
        _ => Ok(None),
    }
}
