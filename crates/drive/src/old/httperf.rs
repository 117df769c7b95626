//! `httperf`: its options and report, for one URI and a number of connections; sessions are refused by name.

mod report;

use super::options::{self, flag, number, option};
use super::run;
use crate::limits::CALLS_MAX;
use brisk_cli::getopt::{self, Given, Long};
use brisk_cli::{Call, Entry};
use brisk_load::arrivals::Rate;
use brisk_load::engine::Progress;
use brisk_load::output;
use brisk_load::plan::{Endpoint, Plan, Site, Stop, Target};
use brisk_tls::Versions;
use clap::Command;
use std::fmt::Write as _;
use std::net::ToSocketAddrs as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// `httperf`.
pub const HTTPERF: Entry =
    Entry { name: "httperf", define: definition, run: main, inner: &[], usage_code: 1 };

/// httperf's options.
fn definition() -> Command {
    let options = vec![
        option("add-header", "S", "Add header lines to each request, ended by \\n"),
        option("burst-length", "N", "Calls of a burst"),
        option("client", "I/N", "Which of several clients this is: only 0/1, one client, is supported"),
        flag("help", "Print this").short('h'),
        flag("hog", "Use as many ports as needed"),
        option("http-version", "S", "1.0 or 1.1"),
        option("method", "S", "Method of the requests"),
        flag("no-host-hdr", "Send no Host header"),
        option("num-calls", "N", "Calls on each connection"),
        option("num-conns", "N", "Connections in all"),
        option("period", "[d]T1", "Seconds between connections, in place of --rate"),
        option("port", "N", "The server's port"),
        option("rate", "X", "Connections per second; 0: one after another"),
        option("recv-buffer", "N", "Bytes of the sockets' receive buffer"),
        option("send-buffer", "N", "Bytes of the sockets' send buffer"),
        option("server", "S", "The server's name"),
        option("server-name", "S", "The name in the Host header"),
        flag("ssl", "Use TLS"),
        flag("ssl-no-reuse", "Resume no TLS sessions"),
        option("think-timeout", "X", "Seconds that the server may take for an answer, besides --timeout"),
        option("timeout", "X", "Seconds to wait for the server"),
        option("uri", "S", "What is asked for"),
        flag("verbose", "Has no effect").short('v'),
        flag("version", "Print version details").short('V'),
    ];
    let refused = REFUSED.iter().map(|name| {
        option(name, "X", "Not supported: brisk bench run has scenarios with sessions")
            .num_args(0..=1)
            .hide(true)
    });
    options::definition(
        "httperf's options and report, with the load of brisk bench",
        "httperf [options]",
        options.into_iter().chain(refused).collect(),
    )
}

/// What httperf can do and we cannot.
const REFUSED: [&str; 17] = [
    "close-with-reset",
    "failure-status",
    "max-connections",
    "max-piped-calls",
    "print-reply",
    "print-request",
    "retry-on-failure",
    "session-cookies",
    "session-cookie",
    "ssl-ciphers",
    "wlog",
    "wsess",
    "wsesslog",
    "wsesspage",
    "wset",
    "debug",
    "runtime-parameters",
];

/// See [`definition`].
#[derive(Debug, Clone)]
struct Options {
    hog: bool,
    server: String,
    server_name: Option<String>,
    port: Option<u16>,
    uri: String,
    method: String,
    version: String,
    headers: String,
    no_host: bool,
    connections: u64,
    calls: u64,
    burst: u64,
    /// Connections per second; none: one after another.
    rate: f64,
    timeout: Option<Duration>,
    think: Duration,
    send_buffer: usize,
    recv_buffer: usize,
    ssl: bool,
    resume: bool,
}

fn main(call: &Call<'_>) -> i32 {
    let options = match parse(call.args) {
        Ok(Parsed::Run(options)) => options,
        Ok(Parsed::Usage) => return call.show_help(),
        Ok(Parsed::Version) => {
            output::line(format_args!("httperf, by brisk {}", env!("CARGO_PKG_VERSION")));
            return 0;
        }
        Err(error) => {
            output::note(format_args!("httperf: {error}"));
            call.hint_help();
            return 1;
        }
    };
    match carry_out(&options) {
        Ok(report) => {
            output::print(report);
            0
        }
        Err(error) => {
            output::note(format_args!("httperf: {error}"));
            1
        }
    }
}

/// What a command line comes to.
enum Parsed {
    Run(Box<Options>),
    Usage,
    Version,
}

fn parse(args: &[String]) -> Result<Parsed, String> {
    let mut options = Options {
        hog: false,
        server: "localhost".to_owned(),
        server_name: None,
        port: None,
        uri: "/".to_owned(),
        method: "GET".to_owned(),
        version: "1.1".to_owned(),
        headers: String::new(),
        no_host: false,
        connections: 1,
        calls: 1,
        burst: 1,
        rate: 0.0,
        timeout: None,
        think: Duration::ZERO,
        send_buffer: 4096,
        recv_buffer: 16_384,
        ssl: false,
        resume: true,
    };
    for given in getopt::read(&definition(), args, Long::Short).map_err(|fault| fault.to_string())? {
        match given {
            Given::Option(name, text) => match name.as_str() {
                "help" => return Ok(Parsed::Usage),
                "version" => return Ok(Parsed::Version),
                name => options.set(name, &text)?,
            },
            Given::Word(word) => return Err(format!("unexpected argument \"{word}\"")),
        }
    }
    if options.connections.saturating_mul(options.calls) > CALLS_MAX {
        return Err(format!("--num-conns times --num-calls is more than {CALLS_MAX}"));
    }
    Ok(Parsed::Run(Box::new(options)))
}

impl Options {
    fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
        let option = format!("--{name}");
        let count = |most| number(text, &option, 1, most);
        match name {
            "hog" => self.hog = true,
            "no-host-hdr" => self.no_host = true,
            "ssl" => self.ssl = true,
            "ssl-no-reuse" => self.resume = false,
            "verbose" => {}
            "server" => text.clone_into(&mut self.server),
            "server-name" => self.server_name = Some(text.to_owned()),
            "port" => self.port = Some(count(65_535)? as u16),
            "uri" => self.uri = sound(text, &option)?,
            "method" => self.method = sound(text, &option)?,
            "http-version" if matches!(text, "1.0" | "1.1") => text.clone_into(&mut self.version),
            "http-version" => return Err(format!("--http-version: {text} is not 1.0 or 1.1")),
            "add-header" => self.headers += &unescaped(text),
            "num-conns" => self.connections = count(10_000_000)?,
            "num-calls" => self.calls = count(10_000_000)?,
            "burst-length" => self.burst = count(1000)?,
            "rate" => self.rate = positive(text, &option)?,
            "period" => self.rate = period(text)?,
            "timeout" => self.timeout = Some(Duration::from_secs_f64(positive(text, &option)?)),
            "think-timeout" => self.think = Duration::from_secs_f64(positive(text, &option)?),
            "send-buffer" => self.send_buffer = count(1 << 30)? as usize,
            "recv-buffer" => self.recv_buffer = count(1 << 30)? as usize,
            // Which of several clients this is: there is one.
            "client" if matches!(text, "0/1") => {}
            "client" => return Err("--client: only 0/1, one client, is supported".to_owned()),
            _ => {
                return Err(format!(
                    "--{name} is not supported; brisk bench run has scenarios with sessions"
                ));
            }
        }
        Ok(())
    }

    fn port(&self) -> u16 {
        self.port.unwrap_or(if self.ssl { 443 } else { 80 })
    }

    /// The request; httperf says no more than it must.
    fn request(&self) -> Vec<u8> {
        let mut head =
            format!("{} {} HTTP/{}\r\nUser-Agent: httperf/0.9.0\r\n", self.method, self.uri, self.version);
        if !self.no_host {
            let _ = write!(head, "Host: {}\r\n", self.server_name.as_ref().unwrap_or(&self.server));
        }
        head += &self.headers;
        head += "\r\n";
        head.into_bytes()
    }

    /// The first line of the report: the command, completed.
    fn command(&self) -> String {
        let mut line = String::from("httperf");
        if self.hog {
            line += " --hog";
        }
        if let Some(timeout) = self.timeout {
            let _ = write!(line, " --timeout={}", timeout.as_secs_f64());
        }
        let _ =
            write!(line, " --client=0/1 --server={} --port={} --uri={}", self.server, self.port(), self.uri);
        if self.rate > 0.0 {
            let _ = write!(line, " --rate={}", self.rate);
        }
        let _ = write!(line, " --send-buffer={} --recv-buffer={}", self.send_buffer, self.recv_buffer);
        if self.method != "GET" {
            let _ = write!(line, " --method={}", self.method);
        }
        if self.ssl {
            line += " --ssl";
        }
        let _ = write!(line, " --num-conns={} --num-calls={}", self.connections, self.calls);
        if self.burst != 1 {
            let _ = write!(line, " --burst-length={}", self.burst);
        }
        line
    }
}

fn sound(text: &str, option: &str) -> Result<String, String> {
    if text.is_empty() || text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(format!("{option}: \"{text}\" cannot stand in a request line"));
    }
    Ok(text.to_owned())
}

/// httperf's `\n` and the like.
fn unescaped(text: &str) -> String {
    let text = text.replace("\\r", "\r").replace("\\n", "\n").replace("\r\n", "\n");
    text.lines().filter(|line| !line.is_empty()).fold(String::new(), |out, line| out + line + "\r\n")
}

fn positive(text: &str, option: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (0.0..=1e6).contains(&number) => Ok(number),
        _ => Err(format!("{option}: \"{text}\" is not a number between 0 and a million")),
    }
}

/// Seconds between connections, as a rate; only even spacing.
fn period(text: &str) -> Result<f64, String> {
    let seconds = text.strip_prefix('d').unwrap_or(text);
    if seconds.starts_with(['u', 'e', 'v']) {
        return Err("--period: only even spacing (d) is supported".to_owned());
    }
    let seconds = positive(seconds, "--period")?;
    Ok(if seconds > 0.0 { 1.0 / seconds } else { 0.0 })
}

fn carry_out(options: &Options) -> Result<String, String> {
    let address = (options.server.as_str(), options.port()).to_socket_addrs();
    let address = address.map_err(|error| format!("{}: {error}", options.server))?.next();
    let address = address.ok_or_else(|| format!("{} has no address", options.server))?;
    let request = options.request();
    let request_bytes = request.len();
    let target = Target {
        request: request.into(),
        section: Box::default(),
        block: Box::default(),
        body: Arc::new([]),
        url: None,
        is_head: options.method == "HEAD",
    };
    let site = Site { endpoint: Endpoint::Tcp(address), tunnel: None, targets: vec![target] };
    let total = options.connections * options.calls;
    let mut plan = if options.rate > 0.0 {
        // Each connection has a place of its own, opened when it is due.
        let mut plan =
            Plan::new(vec![site], options.connections as usize, Stop::RequestsPerConnection(options.calls));
        plan.dial_rate = Some(Rate::constant(options.rate));
        plan.opening_max = options.connections as usize;
        plan
    } else {
        // One connection after another.
        Plan::new(vec![site], 1, Stop::Requests(total))
    };
    plan.per_connection = Some(options.calls);
    plan.pipeline = options.burst.min(options.calls) as usize;
    plan.record = Some(total as usize);
    // Nothing runs without an end.
    plan.timeout = options.timeout.unwrap_or(Duration::from_mins(5)) + options.think;
    plan.send_buffer = Some(options.send_buffer);
    plan.recv_buffer = Some(options.recv_buffer);
    if options.ssl {
        let name = options.server_name.as_ref().unwrap_or(&options.server);
        plan.tls = Some(run::tls(name, Versions::default(), options.resume)?);
    }
    output::line(options.command());
    let before = report::cpu_times();
    let begun = Instant::now();
    let mut is_hopeless = false;
    let look = |progress: &Progress| {
        is_hopeless = progress.is_hopeless(begun.elapsed());
        !is_hopeless
    };
    let (outcome, _) = run::run(plan, None, look).map_err(|error| error.to_string())?;
    if is_hopeless {
        output::note("httperf: nothing but errors came: given up");
    }
    let cpu = report::cpu_times();
    Ok(report::text(&outcome, request_bytes, [cpu[0] - before[0], cpu[1] - before[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> Result<Options, String> {
        parse(&super::super::words(line)).map(|parsed| match parsed {
            Parsed::Run(options) => *options,
            _ => panic!("{line}"),
        })
    }

    /// As it stands on the page, cut short and with dashes, and as it was meant.
    #[test]
    fn the_commands_of_the_article() {
        let short = check("–hog –server=seravo.fi –num-conn 30000 –uri /css/style-print.css").unwrap();
        let whole = check(
            "--hog --client=0/1 --server=seravo.fi --port=80 --uri=/css/style-print.css --send-buffer=4096 \
             --recv-buffer=16384 --num-conns=30000 --num-calls=1",
        )
        .unwrap();
        assert_eq!(short.command(), whole.command());
        assert_eq!(
            whole.command(),
            "httperf --hog --client=0/1 --server=seravo.fi --port=80 --uri=/css/style-print.css --send-buffer=4096 \
             --recv-buffer=16384 --num-conns=30000 --num-calls=1"
        );
        let request =
            "GET /css/style-print.css HTTP/1.1\r\nUser-Agent: httperf/0.9.0\r\nHost: seravo.fi\r\n\r\n";
        assert_eq!(whole.request(), request.as_bytes());
    }

    /// 30,000 connections, one after another, to a port that refuses each: nobody waits ten minutes for them.
    #[test]
    fn nothing_but_refusals_ends_a_run() {
        let begun = Instant::now();
        let options = check("--server=127.0.0.1 --port=1 --num-conns=30000").unwrap();
        let report = carry_out(&options).unwrap();
        assert!(begun.elapsed() < Duration::from_mins(1), "{:?}", begun.elapsed());
        assert!(report.contains("connrefused"), "{report}");
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        for (line, part) in [
            ("--wsess=10,5,1", "--wsess"),
            ("--num=1", "ambiguous"),
            ("--nonsense", "--nonsense"),
            ("--num-conns=0", "--num-conns"),
            ("--rate=x", "--rate"),
            ("--period=e1", "--period"),
            ("--uri=/a b", "--uri"),
            ("--num-conns=9999999 --num-calls=9999999", "more than"),
            ("stray", "stray"),
            ("--server", "requires an argument"),
        ] {
            let error = parse(
                &line
                    .split_once(' ')
                    .filter(|_| !line.contains("/a b"))
                    .map_or_else(|| vec![line.to_owned()], |(a, b)| vec![a.to_owned(), b.to_owned()]),
            )
            .err()
            .unwrap();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
