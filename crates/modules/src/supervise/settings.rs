//! The settings of one `supervise` block.

use crate::limits::{
    HEALTH_FAILS_DEFAULT, HEALTH_INTERVAL_DEFAULT, HEALTH_TIMEOUT_DEFAULT, PROGRAM_START_TIME_DEFAULT,
    PROGRAM_STOP_TIME_DEFAULT, PROGRAM_TIME_MAX, UNIX_PATH_BYTES_MAX,
};
use brisk_conf::{Diag, Directive, Token, value};
use brisk_server::conf::{Cx, invalid_parameter};
use brisk_server::core::LogLevel;
use rustix::process::Signal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What is known of a program from the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramSpec {
    /// Its name in messages and numbers.
    pub name: String,
    /// The program and its arguments; one at least.
    pub command: Vec<String>,
    /// Whom it runs as; `None`: the worker's user.
    pub user: Option<String>,
    /// Its group; `None`: the user's.
    pub group: Option<String>,
    /// Where it is started; `None`: in the root folder.
    pub directory: Option<String>,
    /// Variables of its environment besides those that all programs have.
    pub environment: Vec<(String, String)>,
    /// When it is started again.
    pub restart: Restart,
    /// How it is known to be ready and well; `None`: it is while it runs.
    pub health: Option<Health>,
    /// It is ready by then, or is given up.
    pub start_timeout: Duration,
    /// How it is told to end.
    pub stop_signal: Signal,
    /// After this it is killed.
    pub stop_timeout: Duration,
    /// Resource limits, both soft and hard.
    pub limits: Vec<(Limit, u64)>,
    /// What becomes of what it writes.
    pub output: Output,
}

/// Which ends are followed by another start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restart {
    /// All.
    #[default]
    Always,
    /// Those by a signal or with another code than 0.
    OnFailure,
    /// None.
    Never,
}

/// Where the lines go that a program writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// To the error log, at this level.
    At(LogLevel),
    /// Nowhere.
    Off,
}

/// A resource limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Open files.
    Files,
    /// Address space in bytes.
    Memory,
    /// Processes of its user.
    Processes,
    /// Bytes of a core file.
    Core,
    /// CPU time in seconds.
    Cpu,
}

/// `health`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// What is asked.
    pub check: Check,
    /// Between two questions to a program that is ready.
    pub interval: Duration,
    /// An answer that comes later is none.
    pub timeout: Duration,
    /// After so many failures in a row the program is started again.
    pub fails: u32,
}

/// How a program is asked whether it is well. Names are not looked up: the master waits for no name server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// Whether it accepts a connection.
    Tcp(SocketAddr),
    /// The same, over a Unix socket.
    Unix(PathBuf),
    /// Whether it answers with a status from 200 to 399.
    Http {
        /// Where.
        address: SocketAddr,
        /// `Host` of the request.
        host: String,
        /// Path and query.
        target: String,
    },
}

/// Reads the directive.
pub(super) fn read(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<ProgramSpec, Diag> {
    let mut spec = ProgramSpec {
        name: name(d.arg(0))?,
        command: Vec::new(),
        user: None,
        group: None,
        directory: None,
        environment: Vec::new(),
        restart: Restart::default(),
        health: None,
        start_timeout: PROGRAM_START_TIME_DEFAULT,
        stop_signal: Signal::TERM,
        stop_timeout: PROGRAM_STOP_TIME_DEFAULT,
        limits: Vec::new(),
        output: Output::At(LogLevel::Error),
    };
    let mut seen: Vec<&str> = Vec::new();
    for line in d.block.as_deref().unwrap_or_default() {
        if line.block.is_some() {
            return Err(Diag::emerg(line.span, "unexpected \"{\"").help("a \";\" is expected here"));
        }
        if seen.contains(&line.name()) && !matches!(line.name(), "env" | "limit") {
            let text = format!("\"{}\" directive is duplicate", line.name());
            return Err(Diag::emerg(line.span, text).help("keep one of them"));
        }
        seen.push(line.name());
        set(cx, line, &mut spec)?;
    }
    if spec.command.is_empty() {
        return Err(Diag::emerg(d.span, format!("supervise \"{}\" has no command", spec.name))
            .help("write: command /path/of/program argument;"));
    }
    if spec.user.as_deref() == Some("root") {
        return Err(Diag::emerg(d.span, format!("supervise \"{}\" would run as root", spec.name)).help(
            "give it a user of its own; what needs root's rights is for the system's service manager",
        ));
    }
    Ok(spec)
}

/// A program's name stands in numbers and log lines.
fn name(token: &Token) -> Result<String, Diag> {
    let name = token.str();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !name.is_empty() && name.len() <= 64 && name.bytes().all(is_name) {
        return Ok(name.to_string());
    }
    Err(Diag::emerg(token.span, format!("invalid name \"{}\" of a program", token.text()))
        .help("it has letters, digits, \"-\", \"_\" and \".\", 64 at most"))
}

/// Names, with the least and the largest number of values.
const SETTINGS: [(&str, usize, usize); 11] = [
    ("command", 1, usize::MAX),
    ("user", 1, 2),
    ("directory", 1, 1),
    ("env", 1, 1),
    ("restart", 1, 1),
    ("health", 1, 4),
    ("start_timeout", 1, 1),
    ("stop_signal", 1, 1),
    ("stop_timeout", 1, 1),
    ("limit", 1, 5),
    ("output", 1, 1),
];

fn set(cx: &mut Cx<'_, '_>, line: &Directive, spec: &mut ProgramSpec) -> Result<(), Diag> {
    let known = SETTINGS.iter().find(|(name, ..)| *name == line.name());
    let Some((_, least, most)) = known else {
        let names: Vec<&str> = SETTINGS.iter().map(|(name, ..)| *name).collect();
        return Err(Diag::emerg(line.span, format!("unknown setting \"{}\" of supervise", line.name()))
            .help(format!("it is one of {}", names.join(", "))));
    };
    if !(*least..=*most).contains(&line.args.len()) {
        let text = format!("invalid number of arguments in \"{}\"", line.name());
        return Err(Diag::emerg(line.span, text).help("docs/running.md has an example of each setting"));
    }
    let first = line.arg(0);
    match line.name() {
        "command" => spec.command = line.args.iter().map(|token| token.str().to_string()).collect(),
        "user" => {
            spec.user = Some(first.str().to_string());
            spec.group = line.args.get(1).map(|token| token.str().to_string());
        }
        "directory" => spec.directory = Some(cx.full_path(first.str())),
        "env" => spec.environment.push(variable(first)?),
        "restart" => {
            const WORDS: [(&str, Restart); 3] =
                [("always", Restart::Always), ("on_failure", Restart::OnFailure), ("never", Restart::Never)];
            spec.restart = value::choice(first, &WORDS)?;
        }
        "health" => spec.health = Some(health(line)?),
        "start_timeout" => spec.start_timeout = time(line.name(), first)?,
        "stop_signal" => spec.stop_signal = value::choice(first, &SIGNALS)?,
        "stop_timeout" => spec.stop_timeout = time(line.name(), first)?,
        "limit" => {
            for token in &line.args {
                spec.limits.push(limit(token)?);
            }
        }
        _ => spec.output = value::choice(first, &OUTPUTS)?,
    }
    Ok(())
}

/// Signals that a program can end by itself at. What stops or kills it is none of them.
const SIGNALS: [(&str, Signal); 6] = [
    ("TERM", Signal::TERM),
    ("QUIT", Signal::QUIT),
    ("INT", Signal::INT),
    ("HUP", Signal::HUP),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
];

const OUTPUTS: [(&str, Output); 5] = [
    ("error", Output::At(LogLevel::Error)),
    ("warn", Output::At(LogLevel::Warn)),
    ("notice", Output::At(LogLevel::Notice)),
    ("info", Output::At(LogLevel::Info)),
    ("off", Output::Off),
];

fn variable(token: &Token) -> Result<(String, String), Diag> {
    match token.str().split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_string(), value.to_string())),
        _ => Err(invalid("env", token).help("it is env NAME=VALUE")),
    }
}

fn invalid(name: &str, token: &Token) -> Diag {
    Diag::emerg(token.span, format!("invalid value \"{}\" of \"{name}\"", token.text()))
}

fn time(name: &str, token: &Token) -> Result<Duration, Diag> {
    let time = value::msec(token)?;
    if time.is_zero() || time > PROGRAM_TIME_MAX {
        return Err(invalid(name, token).help("it is more than nothing and no more than a day"));
    }
    Ok(time)
}

fn health(line: &Directive) -> Result<Health, Diag> {
    let token = line.arg(0);
    let wrong = || {
        invalid("health", token)
            .help("it is tcp://ADDRESS:PORT, http://ADDRESS[:PORT]/PATH or unix:/PATH; an address is an IP address or localhost")
    };
    let mut health = Health {
        check: check(token.str()).ok_or_else(wrong)?,
        interval: HEALTH_INTERVAL_DEFAULT,
        timeout: HEALTH_TIMEOUT_DEFAULT,
        fails: HEALTH_FAILS_DEFAULT,
    };
    for token in &line.args[1..] {
        let wrong = || invalid_parameter(token).help("it is interval=TIME, timeout=TIME or fails=NUMBER");
        let (name, text) = token.str().split_once('=').ok_or_else(wrong)?;
        let time = value::parse_time(text.as_bytes(), false).map(Duration::from_millis);
        let time = time.filter(|time| !time.is_zero() && *time <= PROGRAM_TIME_MAX);
        match name {
            "interval" => health.interval = time.ok_or_else(wrong)?,
            "timeout" => health.timeout = time.ok_or_else(wrong)?,
            "fails" => {
                health.fails = text.parse().ok().filter(|count| *count > 0).ok_or_else(wrong)?;
            }
            _ => return Err(wrong()),
        }
    }
    Ok(health)
}

fn check(text: &str) -> Option<Check> {
    if let Some(path) = text.strip_prefix("unix:") {
        let fits = path.starts_with('/') && path.len() <= UNIX_PATH_BYTES_MAX;
        return fits.then(|| Check::Unix(PathBuf::from(path)));
    }
    if let Some(host) = text.strip_prefix("tcp://") {
        return address(host, None).map(Check::Tcp);
    }
    let rest = text.strip_prefix("http://")?;
    let (host, target) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    let is_target = target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    let address = address(host, Some(80)).filter(|_| is_target)?;
    Some(Check::Http { address, host: host.to_string(), target: target.to_string() })
}

fn address(text: &str, default_port: Option<u16>) -> Option<SocketAddr> {
    let local = match text.strip_prefix("localhost") {
        Some(rest) => format!("127.0.0.1{rest}"),
        None => text.to_string(),
    };
    let with_port = default_port.map(|port| format!("{local}:{port}"));
    local.parse().ok().or_else(|| with_port?.parse().ok())
}

fn limit(token: &Token) -> Result<(Limit, u64), Diag> {
    let wrong = || {
        invalid_parameter(token)
            .help("it is nofile=NUMBER, memory=SIZE, processes=NUMBER, core=SIZE or cpu=SECONDS")
    };
    let (name, text) = token.str().split_once('=').ok_or_else(wrong)?;
    let which = match name {
        "nofile" => Limit::Files,
        "memory" => Limit::Memory,
        "processes" => Limit::Processes,
        "core" => Limit::Core,
        "cpu" => Limit::Cpu,
        _ => return Err(wrong()),
    };
    let number = match which {
        Limit::Memory | Limit::Core => value::parse_size(text.as_bytes(), true),
        Limit::Files | Limit::Processes | Limit::Cpu => text.parse().ok(),
    };
    Ok((which, number.ok_or_else(wrong)?))
}
