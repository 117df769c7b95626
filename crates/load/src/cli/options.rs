//! What the command line asks for.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use brisk_tls::{ClientContext, ClientOptions};
use lexopt::prelude::*;

use super::args::{count, duration, list, number, rate, size, text, think};
use crate::jar::Jar;
use crate::plan::{Order, Plan, RequestOptions, Stop, Tls, Url, Version, sites};
use crate::request::{FormField, multipart};
use crate::sweep::slo::Slo;
use crate::system;
use crate::watch::{self, Tier};

/// Connections that a run may have.
const CONNECTIONS_MAX: usize = 1_000_000;
/// Files that are sent are kept in memory.
const BODY_BYTES_MAX: u64 = 1 << 30;
/// Idle connections are not kept for longer, unless `-d` says so: no run is without an end.
const IDLE_MAX: Duration = Duration::from_hours(1);
/// Requests that the raw log keeps: 100 bytes of memory each.
const RAW_MAX: usize = 50_000_000;

/// After the usage line, which names the program.
const HELP: &str = "\
  URL                http[s]://host[:port]/path or http[s]://unix:/socket:/path; several are asked in turn

How much
  -c, --connections N    connections: in a closed loop, users [64]
  -d, --duration TIME    how long, e.g. 500ms, 5s, 1m [5s]
  -n, --requests N       so many requests instead; with -d, whichever comes first
  -w, --warmup TIME      part before the count starts [0s]; auto: cut off what was not steady
  -r, --rate RATE        open loop: requests per second, e.g. 500, or 10..1000/60s for a ramp
      --users N,N,...    a sweep: a run for each number of users, -d each, warm-up cut off, fitted
      --find-max         the highest rate that keeps --slo, in trials of -d each
      --slo PROMISES     e.g. p99<200ms,errors<0.1%; without --find-max the exit code is 2 if it is broken
      --think TIME       pause of a user between two requests: 1s, 1s..3s, or exp:2s
      --ramp RATE        connections are opened at this rate, not at once
      --timeout TIME     longest wait for a connection or response [10s]

What
  -X, --method NAME      method [GET; POST with a body]
  -H, --header LINE      further header line
  -b, --cookie TEXT      the Cookie header, e.g. a=1; b=2
      --jar              cookies that answers set are sent back; each connection is a user with cookies of its own
      --body TEXT        request body; @FILE takes it from a file
  -T, --upload FILE      PUT this file
  -F, --form NAME=VALUE  a form field; NAME=@FILE uploads a file
      --random           targets in random order, not in turn
      --urls FILE        further URLs, one per line

How
  -t, --threads N        threads [half of the CPUs]
  -2, --http2            HTTP/2: by ALPN with https, by prior knowledge with http
  -m, --streams N        requests at a time per connection over HTTP/2 (implies it)
  -p, --pipeline N       requests in flight per connection over HTTP/1.1 [1]
      --no-keepalive     a new connection for each request
      --no-resumption    no TLS session is resumed
      --cpu N[,N...]     pin threads to these CPUs
      --send-buffer SIZE, --recv-buffer SIZE   of the sockets
      --idle             ask once per connection, then keep all open until Enter, end of input, or -d [1h]

What comes of it
      --watch WHAT       resources beside the load: server=PID,php=pool:www,db=mariadbd,x=port:443,y=cgroup:/path
      --json [FILE]      print JSON, or write it (--json=FILE)
      --html FILE        a report in one file
      --csv FILE         the course of the run
      --prometheus FILE  the figures in Prometheus' text format
      --raw FILE         a line for each request
      --web[=ADDRESS]    the run in a browser while it lasts [127.0.0.1:8484]
  -q, --quiet            nothing but the result
  -h, --help             this text

Also, each with a --help of its own:
  compare A B            which of two is faster
  diff A.json B.json     stored runs beside each other
  run SCENARIO.toml      users who take steps, think, and are checked
  import FILE            a scenario of a HAR file, an access log or a locustfile
  schema                 the JSON Schema of scenarios
  page URL               a page with all that it is made of, as a browser fetches it

Certificates are not verified. Ctrl-C ends a run with the report so far. Exit code: 1 it could not be done; 2 wrong usage, nothing
was answered, a promise is broken, or the run is INVALID.
";

/// What to do.
#[derive(Debug)]
pub enum Command {
    /// Print this.
    Help(String),
    /// This is sound, but cannot be begun: an error.
    Impossible(String),
    /// Load.
    Run(Box<Options>),
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

/// Where results go.
#[derive(Debug, Clone, Default)]
pub struct Outputs {
    /// JSON is printed.
    pub json: bool,
    /// Files by kind.
    pub json_file: Option<PathBuf>,
    /// See the help text.
    pub html: Option<PathBuf>,
    /// See the help text.
    pub csv: Option<PathBuf>,
    /// See the help text.
    pub prometheus: Option<PathBuf>,
    /// See the help text.
    pub raw: Option<PathBuf>,
    /// The address of the live view.
    pub web: Option<String>,
    /// No progress is shown.
    pub quiet: bool,
}

impl Outputs {
    /// Takes an option of this name (without its dashes), and its value, if it is one of these.
    pub fn take(&mut self, name: &str, parser: &mut lexopt::Parser) -> Result<bool, String> {
        let optional = |parser: &mut lexopt::Parser| {
            parser.optional_value().map(|value| value.string().map_err(|error| error.to_string())).transpose()
        };
        match name {
            "json" => match optional(parser)? {
                Some(file) => self.json_file = Some(file_name("--json", file)?),
                None => self.json = true,
            },
            "html" => self.html = Some(file_name("--html", text(parser)?)?),
            "csv" => self.csv = Some(file_name("--csv", text(parser)?)?),
            "prometheus" => self.prometheus = Some(file_name("--prometheus", text(parser)?)?),
            "raw" => self.raw = Some(file_name("--raw", text(parser)?)?),
            "web" => self.web = Some(optional(parser)?.unwrap_or_else(|| "127.0.0.1:8484".to_owned())),
            "q" | "quiet" => self.quiet = true,
            _ => return Ok(false),
        }
        Ok(true)
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

/// What is collected before it can be put together.
struct Raw {
    plan: Plan,
    request: RequestOptions,
    method: Option<String>,
    form: Vec<FormField>,
    /// The options that make a body.
    bodies: Vec<&'static str>,
    cookies: Vec<String>,
    has_jar: bool,
    urls: Vec<String>,
    mode: Mode,
    /// What `-d` says.
    length: Option<Duration>,
    /// What `-n` says.
    requests: Option<u64>,
    auto_warmup: bool,
    no_keepalive: bool,
    no_resumption: bool,
    slo: Option<Slo>,
    watch: Vec<Tier>,
    outputs: Outputs,
}

/// Reads the arguments.
pub fn parse(program: &str, args: &[String]) -> Result<Command, String> {
    let mut raw = Raw {
        plan: Plan::new(Vec::new(), 64, Stop::After(Duration::from_secs(5))),
        request: RequestOptions::default(),
        method: None,
        form: Vec::new(),
        bodies: Vec::new(),
        cookies: Vec::new(),
        has_jar: false,
        urls: Vec::new(),
        mode: Mode::Single,
        length: None,
        requests: None,
        auto_warmup: false,
        no_keepalive: false,
        no_resumption: false,
        slo: None,
        watch: Vec::new(),
        outputs: Outputs::default(),
    };
    raw.plan.threads = system::half_of_the_cpus();
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
        if matches!(arg, Short('h') | Long("help")) {
            return Ok(Command::Help(format!("usage: {program} [options] URL...\n\n{HELP}")));
        }
        if let Value(url) = arg {
            raw.urls.push(url.string().map_err(|error| error.to_string())?);
            continue;
        }
        // Owned: the parser is needed for the value.
        let name = match arg {
            Short(letter) => letter.to_string(),
            Long(name) => name.to_owned(),
            Value(_) => continue,
        };
        let known = raw.how_much(&name, &mut parser)?
            || raw.what(&name, &mut parser)?
            || raw.how(&name, &mut parser)?
            || raw.results(&name, &mut parser)?;
        if !known {
            let dashes = if name.chars().count() == 1 { "-" } else { "--" };
            return Err(format!("unknown option {dashes}{name}; --help shows all"));
        }
    }
    raw.whole()
}

fn read_file(path: &str) -> Result<Vec<u8>, String> {
    let length = fs::metadata(path).map_err(|error| format!("cannot read {path}: {error}"))?.len();
    if length > BODY_BYTES_MAX {
        return Err(format!("{path} is larger than {BODY_BYTES_MAX} bytes"));
    }
    fs::read(path).map_err(|error| format!("cannot read {path}: {error}"))
}

/// A time that is not zero.
fn some_time(option: &str, text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err(format!("{option} {text} is no time at all: write e.g. {option} 500ms")),
        time => Ok(time),
    }
}

/// Where to write: not "-", which is a file here, and the terminal elsewhere.
fn file_name(option: &str, text: String) -> Result<PathBuf, String> {
    match (option, text.as_str()) {
        ("--json", "-") => Err("--json=- is not known: --json alone prints it".to_owned()),
        (_, "-") => Err(format!(
            "{option} -: the report is printed there; write to a file, or to /dev/stdout with -q"
        )),
        (_, "") => Err(format!("{option} wants a file's name")),
        _ => Ok(text.into()),
    }
}

fn form_field(text: &str) -> Result<FormField, String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("\"{text}\" is not NAME=VALUE"))?;
    let name = name.to_owned();
    Ok(match value.strip_prefix('@') {
        None => FormField { name, file_name: None, value: value.as_bytes().to_vec() },
        Some(path) => {
            let file_name = path.rsplit('/').next().map(str::to_owned);
            FormField { name, file_name, value: read_file(path)? }
        }
    })
}

impl Raw {
    fn how_much(&mut self, name: &str, parser: &mut lexopt::Parser) -> Result<bool, String> {
        let plan = &mut self.plan;
        match name {
            "c" | "connections" => plan.connections = count(&text(parser)?, CONNECTIONS_MAX)?,
            "d" | "duration" => self.length = Some(some_time("-d", &text(parser)?)?),
            "n" | "requests" => {
                let requests = number(&text(parser)?)?;
                if requests == 0 {
                    return Err("-n 0 asks for nothing: write at least 1, or leave -n out".to_owned());
                }
                self.requests = Some(requests);
            }
            "w" | "warmup" => match text(parser)?.as_str() {
                "auto" => self.auto_warmup = true,
                time => plan.warmup = duration(time)?,
            },
            "r" | "rate" => plan.rate = Some(rate(&text(parser)?)?),
            "users" => {
                let users: Vec<usize> = list(&text(parser)?)?;
                if users.iter().any(|users| !(1..=CONNECTIONS_MAX).contains(users)) {
                    return Err("--users wants numbers above zero".to_owned());
                }
                self.mode = Mode::Users(users);
            }
            "find-max" => self.mode = Mode::FindMax,
            "slo" => self.slo = Some(Slo::parse(&text(parser)?)?),
            "think" => plan.think = Some(think(&text(parser)?)?),
            "ramp" => plan.dial_rate = Some(rate(&text(parser)?)?),
            "timeout" => plan.timeout = some_time("--timeout", &text(parser)?)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn what(&mut self, name: &str, parser: &mut lexopt::Parser) -> Result<bool, String> {
        match name {
            "X" | "method" => self.method = Some(text(parser)?),
            "H" | "header" => self.request.headers.push(text(parser)?),
            "b" | "cookie" => self.cookies.push(text(parser)?),
            "jar" => self.has_jar = true,
            "body" => {
                self.bodies.push("--body");
                let body = text(parser)?;
                self.request.body = match body.strip_prefix('@') {
                    Some(path) => read_file(path)?.into(),
                    None => body.into_bytes().into(),
                };
                "POST".clone_into(&mut self.request.method);
            }
            "T" | "upload" => {
                self.bodies.push("-T");
                self.request.body = read_file(&text(parser)?)?.into();
                "PUT".clone_into(&mut self.request.method);
            }
            "F" | "form" => {
                self.bodies.push("-F");
                self.form.push(form_field(&text(parser)?)?);
            }
            "random" => self.plan.order = Order::Random,
            "urls" => {
                let path = text(parser)?;
                let lines =
                    String::from_utf8(read_file(&path)?).map_err(|_| format!("{path} is not text"))?;
                let urls =
                    lines.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
                self.urls.extend(urls.map(str::to_owned));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn how(&mut self, name: &str, parser: &mut lexopt::Parser) -> Result<bool, String> {
        let plan = &mut self.plan;
        match name {
            "t" | "threads" => plan.threads = count(&text(parser)?, 1024)?,
            "2" | "http2" => plan.version = Version::H2,
            "m" | "streams" => {
                plan.version = Version::H2;
                plan.pipeline = count(&text(parser)?, 100_000)?;
            }
            "p" | "pipeline" => plan.pipeline = count(&text(parser)?, 100_000)?,
            "no-keepalive" => self.no_keepalive = true,
            "no-resumption" => self.no_resumption = true,
            "cpu" => plan.cpus = list(&text(parser)?)?,
            "send-buffer" => plan.send_buffer = Some(size(&text(parser)?)?),
            "recv-buffer" => plan.recv_buffer = Some(size(&text(parser)?)?),
            "idle" => self.mode = Mode::Idle(IDLE_MAX),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn results(&mut self, name: &str, parser: &mut lexopt::Parser) -> Result<bool, String> {
        if name == "watch" {
            self.watch.extend(watch::parse(&text(parser)?)?);
            return Ok(true);
        }
        self.outputs.take(name, parser)
    }

    fn whole(mut self) -> Result<Command, String> {
        if self.urls.is_empty() {
            return Err("no URL given; --help shows the usage".to_owned());
        }
        self.check()?;
        self.plan.stop = match (self.requests, self.length) {
            (None, None) => self.plan.stop,
            (None, Some(time)) => Stop::After(time),
            (Some(count), None) => Stop::Requests(count),
            (Some(count), Some(time)) => Stop::RequestsWithin(count, time),
        };
        if !self.form.is_empty() {
            let (kind, body) = multipart(&self.form);
            self.request.headers.push(format!("Content-Type: {kind}"));
            self.request.body = body.into();
            "POST".clone_into(&mut self.request.method);
        }
        if let Some(method) = self.method.take() {
            self.request.method = method;
        }
        if !self.has_jar && !self.cookies.is_empty() {
            self.request.headers.push(format!("Cookie: {}", self.cookies.join("; ")));
        }
        self.request.close = self.no_keepalive;
        self.request.check().map_err(|error| error.to_string())?;
        let mut plan = self.plan;
        if self.no_keepalive {
            plan.per_connection = Some(1);
        }
        let urls: Vec<Url> = self
            .urls
            .iter()
            .map(|url| Url::parse(url))
            .collect::<Result<_, _>>()
            .map_err(|e| e.to_string())?;
        plan.tls = tls(&urls, plan.version, self.no_resumption)?;
        plan.sites = match sites(&urls, &self.request) {
            Ok(sites) => sites,
            Err(error) => return Ok(Command::Impossible(error.to_string())),
        };
        plan.jar = self.has_jar.then(|| jar(&urls, &self.cookies));
        plan.series = Some(Duration::from_millis(100));
        if self.outputs.raw.is_some() {
            plan.record = Some(RAW_MAX);
        }
        if let Mode::Idle(length) = &mut self.mode {
            *length = self.length.unwrap_or(*length);
            let base = Plan::idle(Vec::new(), plan.connections);
            plan = Plan { stop: base.stop, hold: base.hold, ..plan };
        }
        if let Some(why) = plan.fault() {
            return Err(why.to_owned());
        }
        Ok(Command::Run(Box::new(Options {
            plan,
            mode: self.mode,
            auto_warmup: self.auto_warmup,
            slo: self.slo,
            watch: self.watch,
            targets: self.urls,
            outputs: self.outputs,
        })))
    }

    /// What does not go together.
    fn check(&self) -> Result<(), String> {
        let is_timed = self.requests.is_none();
        // Many fields are one form.
        if let [first, .., last] = self.bodies[..]
            && (first != "-F" || self.bodies.iter().any(|name| *name != first))
        {
            let other = self.bodies.iter().find(|name| **name != first).unwrap_or(&last);
            return Err(format!("{first} and {other} both make a body: choose one of them"));
        }
        match self.mode {
            Mode::FindMax if self.slo.is_none() => {
                Err("--find-max needs --slo, e.g. --slo 'p99<200ms,errors<0.1%'".to_owned())
            }
            Mode::FindMax if self.plan.rate.is_some() => {
                Err("--find-max chooses the rate itself: leave --rate out".to_owned())
            }
            Mode::FindMax | Mode::Users(_) if !is_timed => {
                Err("sweeps and searches run for a time: -d, not -n".to_owned())
            }
            Mode::Users(_) if self.plan.rate.is_some() => {
                Err("--users is a closed loop, --rate an open one: choose".to_owned())
            }
            Mode::FindMax | Mode::Users(_) if self.outputs.raw.is_some() => Err(
                "--raw holds the requests of one run, sweeps and searches have many: make that run by itself, with -c or --rate"
                    .to_owned(),
            ),
            Mode::Idle(_) if !self.watch.is_empty() => {
                Err("--watch looks at loads, and --idle is none: leave one of them out".to_owned())
            }
            _ if self.auto_warmup && !is_timed => {
                Err("--warmup auto needs a run for a time: -d, not -n".to_owned())
            }
            _ => Ok(()),
        }
    }
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
    let alpn = if version == Version::H2 { b"h2".to_vec() } else { b"http/1.1".to_vec() };
    let options = ClientOptions { alpn: vec![alpn], no_resumption, ..ClientOptions::default() };
    let context = ClientContext::new(&options).map_err(|error| format!("TLS: {error}"))?;
    Ok(Some(Tls { context: Arc::new(context), name: name.to_owned() }))
}
