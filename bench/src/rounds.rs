//! Interleaved rounds: every case once per round, in random order.
//!
//! Machines drift: a neighbour, a clock, a cache. Whatever lasts longer than a round hits all
//! cases alike, and ratios are taken within rounds. Each measurement has a server of its own: where
//! a process happens to lie in memory makes two runs of the same program differ by 10 % for as
//! long as they live, and only new processes average that out.

use std::io;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use brisk_load::engine::{self, Run};
use brisk_load::output;
use brisk_load::plan::{self, ClientSettings, Endpoint, Plan, RequestOptions, Site, Stop, Target, Version};
use brisk_load::rng::Rng;
use brisk_tls::{ClientContext, ClientOptions, Groups};

use crate::lab::{LOAD_CPU, Lab};
use crate::process::{between, tasks_of};
use crate::server::{Prepared, Server};

/// A measurement in which server or generator waited longer for a core, relative to its length, is
/// disturbed.
pub const WAITED_SHARE_MAX: f64 = 0.05;
/// Fewer responses make no figure, however short a measurement was asked for.
const RESPONSES_MIN: usize = 20;
/// How long is waited for responses that are missing.
const ANSWERS_WAIT_MAX: Duration = Duration::from_secs(20);
/// How often a disturbed measurement is repeated.
const REPEATS_MAX: usize = 2;

/// One thing to measure in every round.
#[derive(Debug)]
pub struct Case<'a> {
    /// The server, started for each measurement.
    pub server: &'a Prepared,
    /// What is asked of it, in turn.
    pub requests: Vec<Request>,
    /// Keep-alive connections.
    pub connections: usize,
    /// Bytes by which a response is counted, when it is so large that parts of one matter.
    pub unit_bytes: Option<usize>,
    /// How the connections are secured.
    pub tls: Tls,
    /// Requests at a time on each connection, over HTTP/2 and by h2load; `None`: HTTP/1.1 by our own generator.
    pub streams: Option<usize>,
}

/// TLS of a case's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// Plain connections.
    Off,
    /// Plain connections, another one for each request.
    OffEach,
    /// One handshake per connection, which is then kept.
    KeepAlive,
    /// A full handshake for each request.
    Full,
    /// A handshake that resumes a session for each request.
    Resumed,
    /// This version of HTTP, with so many requests at a time on each connection, by our own generator.
    Streams(Version, usize),
    /// HTTP/3 with a full handshake for each request.
    Quic,
}

impl Tls {
    /// Changes a plan accordingly.
    pub fn apply(self, plan: Plan) -> io::Result<Plan> {
        if matches!(self, Self::Off | Self::OffEach) {
            return Ok(plan);
        }
        let mut options =
            ClientOptions { no_resumption: self != Self::Resumed, ..ClientOptions::unverified() };
        // What browsers put first, of what all servers have: the same work for each of them.
        let (groups, _) = Groups::from_list("X25519:prime256v1").map_err(|_| io::Error::other("no group"))?;
        options.groups = groups;
        let suites = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384";
        options.suites.set_tls13_list(suites).map_err(|_| io::Error::other("no suite"))?;
        let (version, pipeline) = match self {
            Self::Streams(version, streams) => (version, streams),
            Self::Quic => (Version::H3, 1),
            _ => (plan.version, plan.pipeline),
        };
        if version.has_streams() {
            options.alpn = vec![version.alpn().to_vec()];
        }
        let context = Arc::new(ClientContext::new(&options).map_err(io::Error::other)?);
        let quic = match version {
            Version::H3 => Some(ClientSettings::new(&context, false).map_err(io::Error::other)?),
            Version::H1 | Version::H2 => None,
        };
        let tls = Some(plan::Tls { context, name: "localhost".to_owned() });
        Ok(Plan { tls, quic, version, pipeline, per_connection: self.closes().then_some(1), ..plan })
    }

    /// Whether each request has a connection of its own.
    fn closes(self) -> bool {
        matches!(self, Self::OffEach | Self::Full | Self::Resumed | Self::Quic)
    }
}

/// A request for a file.
#[derive(Debug, Clone)]
pub struct Request {
    /// The value of `Host`.
    pub host: String,
    /// The path.
    pub path: String,
    /// The value of `Accept-Encoding`; empty: none.
    pub accept_encoding: &'static str,
}

impl Request {
    /// To the server's default name.
    pub fn path(path: &str) -> Self {
        Self { host: "localhost".to_owned(), path: path.to_owned(), accept_encoding: "" }
    }

    /// The same from a client that accepts these codings.
    #[must_use]
    pub fn accepting(self, accept_encoding: &'static str) -> Self {
        Self { accept_encoding, ..self }
    }

    fn target(&self, options: &RequestOptions) -> Target {
        let mut options = options.clone();
        if !self.accept_encoding.is_empty() {
            options.headers.push(format!("Accept-Encoding: {}", self.accept_encoding));
        }
        options.target(&self.host, &self.path)
    }
}

/// What one measurement found.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Server CPU per response, in microseconds.
    pub cpu_us: f64,
    /// How much of that is of what works beside the server.
    pub beside_us: f64,
    /// Responses per second.
    pub rate: f64,
    /// The server's share of its core.
    pub server_share: f64,
    /// How long others kept the server or the generator from its core, relative to the time.
    pub waited_share: f64,
}

/// The samples of one case, round by round.
pub type Samples = Vec<Sample>;

/// Server CPU per response of each round.
pub fn cpu(samples: &[Sample]) -> Vec<f64> {
    samples.iter().map(|sample| sample.cpu_us).collect()
}

/// Responses per second of each round.
pub fn rates(samples: &[Sample]) -> Vec<f64> {
    samples.iter().map(|sample| sample.rate).collect()
}

/// Measures all cases in `rounds` rounds; the result is in the order of the cases.
pub fn interleave(lab: &Lab, cases: &[Case<'_>]) -> io::Result<Vec<Samples>> {
    interleave_with(lab, cases.len(), |index| cases[index].measure(lab))
}

/// The same of so many cases that are measured in another way, each by its number.
pub fn interleave_with(
    lab: &Lab,
    count: usize,
    measure: impl Fn(usize) -> io::Result<Sample>,
) -> io::Result<Vec<Samples>> {
    let mut rng = Rng::from_clock();
    let mut order: Vec<usize> = (0..count).collect();
    let mut samples: Vec<Samples> = vec![Vec::new(); count];
    for round in 1..=lab.options.rounds {
        rng.shuffle(&mut order);
        output::note(format_args!("  round {round} of {}: {count} cases", lab.options.rounds));
        for &index in &order {
            samples[index].push(measure_calmly(|| measure(index))?);
        }
    }
    Ok(samples)
}

/// Measures; if others got in the way, again, and takes the calmest.
fn measure_calmly(measure: impl Fn() -> io::Result<Sample>) -> io::Result<Sample> {
    let mut calmest = measure()?;
    for _ in 0..REPEATS_MAX {
        if calmest.waited_share <= WAITED_SHARE_MAX {
            break;
        }
        let again = measure()?;
        if again.waited_share < calmest.waited_share {
            calmest = again;
        }
    }
    Ok(calmest)
}

impl Case<'_> {
    fn measure(&self, lab: &Lab) -> io::Result<Sample> {
        if let Some(streams) = self.streams {
            return self.measure_http2(lab, streams);
        }
        let server = self.server.start()?;
        let headers = if self.tls.closes() { vec!["Connection: close".to_owned()] } else { Vec::new() };
        let secure = !matches!(self.tls, Tls::Off | Tls::OffEach);
        let options = RequestOptions { headers, secure, ..RequestOptions::default() };
        let base = plan_with(&options, &server, &self.requests, self.connections, Stop::Told);
        let base = self.tls.apply(base)?;
        let run = engine::start(Plan { cpus: vec![LOAD_CPU], warmup: lab.options.warmup, ..base })?;
        while !run.wait_started(lab.options.warmup) && !run.is_over() {}
        // The first answers may take longer than a warm-up: an application is compiled for them.
        wait_for_answers(&run, 0, self.connections);
        std::thread::sleep(lab.options.warmup);
        let own = std::process::id();
        let (own_before, cpu_before) = (tasks_of(own), server.thread_cpu());
        let beside_before = server.thread_cpu_beside();
        let (before, start) = (run.progress(), Instant::now());
        std::thread::sleep(lab.options.measure);
        wait_for_answers(&run, before.responses, RESPONSES_MIN);
        let (cpu_after, after, elapsed) = (server.thread_cpu(), run.progress(), start.elapsed());
        let beside = between(&beside_before, &server.thread_cpu_beside());
        let generator = between(&own_before, &tasks_of(own));
        run.stop();
        let stats = run.join()?.stats;
        if stats.errors() > 0 || stats.non_2xx() > 0 || after.responses == before.responses {
            return Err(io::Error::other(format!(
                "{}: {} responses, {} of them not 2xx, {} errors: not a measurement",
                self.server.name,
                stats.responses(),
                stats.non_2xx(),
                stats.errors(),
            )));
        }
        server.check_log()?;
        let responses = match self.unit_bytes {
            Some(unit) => (after.bytes - before.bytes) as f64 / unit as f64,
            None => (after.responses - before.responses) as f64,
        };
        let account = between(&cpu_before, &cpu_after);
        let seconds = elapsed.as_secs_f64();
        Ok(Sample {
            cpu_us: (account.ran_ns + beside.ran_ns) as f64 / 1e3 / responses,
            beside_us: beside.ran_ns as f64 / 1e3 / responses,
            rate: responses / seconds,
            server_share: account.ran_ns as f64 / 1e9 / seconds,
            waited_share: account.waited_ns.max(generator.waited_ns) as f64 / 1e9 / seconds,
        })
    }
}

/// Waits for so many responses more. A server that gives none is found out by its measurement.
fn wait_for_answers(run: &Run, before: u64, count: usize) {
    let end = Instant::now() + ANSWERS_WAIT_MAX;
    while run.progress().responses < before + count as u64 && !run.is_over() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Case<'_> {
    /// A first run of h2load tells how many requests make up the time of a measurement.
    fn measure_http2(&self, lab: &Lab, streams: usize) -> io::Result<Sample> {
        let server = self.server.start()?;
        let (first, seconds) = self.h2load(&server, streams, H2LOAD_FIRST)?;
        let count = (first as f64 / seconds * lab.options.measure.as_secs_f64()) as usize;
        let (before, start) = (server.thread_cpu(), Instant::now());
        let (responses, _) = self.h2load(&server, streams, count.max(H2LOAD_FIRST))?;
        let (account, elapsed) = (between(&before, &server.thread_cpu()), start.elapsed());
        let seconds = elapsed.as_secs_f64();
        Ok(Sample {
            cpu_us: account.ran_ns as f64 / 1e3 / responses as f64,
            beside_us: 0.0,
            rate: responses as f64 / seconds,
            server_share: account.ran_ns as f64 / 1e9 / seconds,
            waited_share: account.waited_ns as f64 / 1e9 / seconds,
        })
    }

    /// Gives the number of responses, all of them good, and the seconds that they took.
    fn h2load(&self, server: &Server, streams: usize, count: usize) -> io::Result<(usize, f64)> {
        let url = format!("http://{}{}", server.address, self.requests[0].path);
        let output = Command::new("/proc/self/exe")
            .args(["exec", &std::process::id().to_string(), &LOAD_CPU.to_string(), "h2load", "-t1"])
            .args(["-n", &count.to_string(), "-c", &self.connections.to_string()])
            .args(["-m", &streams.to_string(), &url])
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        parse_h2load(&text)
            .filter(|&(done, _)| done == count)
            .ok_or_else(|| io::Error::other(format!("{}: h2load says {text}", self.server.name)))
    }
}

/// Responses that are good, and the seconds they took, as h2load prints them.
fn parse_h2load(text: &str) -> Option<(usize, f64)> {
    let done =
        text.lines().find_map(|line| line.strip_prefix("status codes: ")?.split(' ').next()?.parse().ok());
    let time = text.lines().find_map(|line| line.strip_prefix("finished in ")?.split(',').next());
    let time = time?;
    let scale = |unit: &str, scale: f64| {
        time.strip_suffix(unit).and_then(|number| number.parse::<f64>().ok()).map(|number| number * scale)
    };
    let seconds = scale("us", 1e-6).or_else(|| scale("ms", 1e-3)).or_else(|| scale("s", 1.0))?;
    Some((done?, seconds))
}

/// Requests of h2load's first run.
const H2LOAD_FIRST: usize = 20_000;

/// A load on one server.
pub fn plan(server: &Server, requests: &[Request], connections: usize, stop: Stop) -> Plan {
    plan_with(&RequestOptions::default(), server, requests, connections, stop)
}

fn plan_with(
    options: &RequestOptions,
    server: &Server,
    requests: &[Request],
    connections: usize,
    stop: Stop,
) -> Plan {
    let targets = requests.iter().map(|request| request.target(options)).collect();
    let site = Site { endpoint: Endpoint::Tcp(server.address), tunnel: None, targets };
    Plan::new(vec![site], connections, stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_h2load_prints() {
        let text = "finished in 1.25s, 16000.00 req/s, 2.10MB/s\n\
                    requests: 20000 total, 20000 started, 20000 done, 20000 succeeded, 0 failed\n\
                    status codes: 20000 2xx, 0 3xx, 0 4xx, 0 5xx\n";
        assert_eq!(parse_h2load(text), Some((20_000, 1.25)));
        assert_eq!(parse_h2load(&text.replace("1.25s", "250.00ms")), Some((20_000, 0.25)));
        assert_eq!(parse_h2load("connection refused"), None);
    }
}
