//! `httperf`: its options and report, for one URI and a number of connections; sessions are refused by name.

mod report;

use super::{number, run, value};
use brisk_load::arrivals::Rate;
use brisk_load::output;
use brisk_load::plan::{Endpoint, Plan, Site, Stop, Target};
use brisk_tls::Versions;
use std::fmt::Write as _;
use std::net::ToSocketAddrs as _;
use std::sync::Arc;
use std::time::Duration;

const USAGE: &str = "\
Usage: httperf [-hvV] [--add-header S] [--burst-length N]
\t[--help] [--hog] [--http-version S]
\t[--method S] [--no-host-hdr]
\t[--num-calls N] [--num-conns N] [--period [d|u|e]T1[,T2]]
\t[--port N] [--rate X] [--recv-buffer N] [--send-buffer N]
\t[--server S] [--server-name S] [--ssl] [--ssl-no-reuse]
\t[--think-timeout X] [--timeout X] [--uri S] [--verbose] [--version]
";

/// Each request is kept for the report.
const CALLS_MAX: u64 = 20_000_000;

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

/// See [`USAGE`].
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

/// Runs `httperf ARGS`; gives the exit code.
pub fn main(args: &[String]) -> i32 {
    let options = match parse(args) {
        Ok(Some(options)) => options,
        Ok(None) => return 0,
        Err(error) => {
            output::note(format_args!("httperf: {error}"));
            output::hint(USAGE);
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

fn parse(args: &[String]) -> Result<Option<Options>, String> {
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
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        // Web pages turn the two hyphens into a dash.
        let long =
            arg.strip_prefix("--").or_else(|| arg.strip_prefix(['–', '—'])).or_else(|| arg.strip_prefix('-'));
        let Some(long) = long else { return Err(format!("unexpected argument \"{arg}\"")) };
        let (name, glued) = long.split_once('=').unwrap_or((long, ""));
        let name = whole_name(name)?;
        match name {
            "hog" => options.hog = true,
            "no-host-hdr" => options.no_host = true,
            "ssl" => options.ssl = true,
            "ssl-no-reuse" => options.resume = false,
            "verbose" => {}
            "help" => {
                output::print(USAGE);
                return Ok(None);
            }
            "version" => {
                output::line(format_args!("httperf, by brisk {}", env!("CARGO_PKG_VERSION")));
                return Ok(None);
            }
            _ => options.set(name, value(glued, &mut args, name)?)?,
        }
    }
    if options.connections.saturating_mul(options.calls) > CALLS_MAX {
        return Err(format!("--num-conns times --num-calls is more than {CALLS_MAX}"));
    }
    Ok(Some(options))
}

/// Options may be cut short as long as they are unique, as getopt has it.
fn whole_name(name: &str) -> Result<&'static str, String> {
    const KNOWN: [&str; 26] = [
        "hog",
        "no-host-hdr",
        "ssl",
        "ssl-no-reuse",
        "verbose",
        "help",
        "version",
        "add-header",
        "burst-length",
        "client",
        "http-version",
        "method",
        "num-calls",
        "num-conns",
        "period",
        "port",
        "rate",
        "recv-buffer",
        "send-buffer",
        "server",
        "server-name",
        "think-timeout",
        "timeout",
        "uri",
        "session-cookies",
        "debug",
    ];
    if let "h" | "v" | "V" = name {
        return Ok(if name == "h" {
            "help"
        } else if name == "v" {
            "verbose"
        } else {
            "version"
        });
    }
    if REFUSED.contains(&name) {
        return Err(format!("--{name} is not supported; brisk bench run has scenarios with sessions"));
    }
    if let Some(exact) = KNOWN.iter().find(|known| **known == name) {
        return Ok(exact);
    }
    let mut begins = KNOWN.iter().filter(|known| !name.is_empty() && known.starts_with(name));
    match (begins.next(), begins.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => Err(format!("option '--{name}' is ambiguous")),
        _ => Err(format!("unrecognized option '--{name}'")),
    }
}

impl Options {
    fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
        let option = format!("--{name}");
        let count = |most| number(text, &option, 1, most);
        match name {
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
            _ => return Err(format!("--{name} is not supported")),
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
        block: Box::default(),
        body: Arc::new([]),
        url: None,
        is_head: options.method == "HEAD",
    };
    let site = Site { endpoint: Endpoint::Tcp(address), targets: vec![target] };
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
    let (outcome, _) = run::run(plan, None, |_| true).map_err(|error| error.to_string())?;
    let cpu = report::cpu_times();
    Ok(report::text(&outcome, request_bytes, [cpu[0] - before[0], cpu[1] - before[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> Result<Options, String> {
        parse(&super::super::words(line)).map(|options| options.unwrap())
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
