//! siege's command line and its resource file.

use crate::limits::SIEGE_USERS_MAX;
use crate::old::options::{self, flag, number, option};
use brisk_cli::getopt::{self, Given, Long};
use clap::{Command, ValueHint};
use std::time::Duration;

/// What a command line comes to.
pub enum Parsed {
    /// A run.
    Run(Box<Options>),
    /// Something to print.
    Text(String),
    /// The usage.
    Usage,
}

/// See [`definition`].
#[derive(Debug, Clone)]
pub struct Options {
    pub users: usize,
    pub repetitions: Option<u64>,
    pub time: Option<Duration>,
    /// The longest pause before a request, in seconds.
    pub delay: f64,
    pub benchmark: bool,
    pub random: bool,
    pub file: Option<String>,
    pub url: Option<String>,
    pub verbose: bool,
    pub quiet: bool,
    pub json: bool,
    pub log: Option<String>,
    pub mark: Option<String>,
    pub headers: Vec<(String, String)>,
    pub agent: String,
    pub content_type: String,
    pub encoding: String,
    pub keep_alive: bool,
    pub parser: bool,
    pub follow: bool,
    pub cookies: bool,
    pub timeout: Duration,
    /// Failures after which it is given up.
    pub failures_max: u64,
}

/// siege's options.
pub fn definition() -> Command {
    let file = ValueHint::FilePath;
    options::definition(
        "siege's flags and report, with the load of brisk bench",
        "siege [options]\n       siege [options] URL",
        vec![
            flag("version", "VERSION, prints the version number").short('V'),
            flag("help", "HELP, prints this section").short('h'),
            flag("config", "CONFIGURATION, show the current config").short('C'),
            flag("verbose", "VERBOSE, prints notification to screen").short('v'),
            flag("quiet", "QUIET turns verbose off and suppresses output").short('q'),
            option("concurrent", "NUM", "CONCURRENT users, default is 25").short('c'),
            option("reps", "NUM", "REPS, number of times to run the test").short('r'),
            option(
                "time",
                "NUMm",
                "TIMED testing where \"m\" is modifier S, M, or H; ex: --time=1H, one hour test",
            )
            .short('t'),
            option(
                "delay",
                "NUM",
                "Time DELAY, random delay before each request between .001 and NUM. (NOT COUNTED IN STATS)",
            )
            .short('d'),
            flag("benchmark", "BENCHMARK: no delays between requests").short('b'),
            flag("internet", "INTERNET user simulation, hits URLs randomly").short('i'),
            option("file", "FILE", "FILE, select a specific URLS FILE").short('f').value_hint(file),
            option("rc", "FILE", "RC, specify an siegerc file").short('R').value_hint(file),
            option(
                "log",
                "FILE",
                "LOG to FILE. If FILE is not specified, the default is used: /var/log/siege.log",
            )
            .short('l')
            .num_args(0..=1)
            .require_equals(true)
            .value_hint(file),
            option("mark", "text", "MARK, mark the log file with a string").short('m'),
            option("header", "text", "Add a header to request (can be many)").short('H'),
            option("user-agent", "text", "Sets User-Agent in request").short('A'),
            option("content-type", "text", "Sets Content-Type in request").short('T'),
            flag("json-output", "JSON OUTPUT, print final stats to stdout as JSON").short('j'),
            flag("no-parser", "NO PARSER, turn off the HTML page parser"),
            flag("no-follow", "NO FOLLOW, do not follow HTTP redirects"),
            flag("get", "Not supported: brisk get URL shows an exchange").short('g').hide(true),
            flag("print", "Not supported: brisk get URL shows an exchange").short('p').hide(true),
        ],
    )
}

const LOG_FILE: &str = "/var/log/siege.log";

fn defaults() -> Options {
    Options {
        users: 25,
        repetitions: None,
        time: None,
        delay: 0.0,
        benchmark: false,
        random: false,
        file: None,
        url: None,
        verbose: false,
        quiet: false,
        json: false,
        log: None,
        mark: None,
        headers: Vec::new(),
        agent: format!("Mozilla/5.0 (compatible) Brisk/{} (as Siege/4)", env!("CARGO_PKG_VERSION")),
        content_type: "application/x-www-form-urlencoded".to_owned(),
        encoding: "gzip, deflate".to_owned(),
        keep_alive: false,
        parser: true,
        follow: true,
        cookies: true,
        timeout: Duration::from_secs(30),
        failures_max: 1024,
    }
}

/// Reads the command line. A resource file comes first, wherever it is named.
pub fn parse(args: &[String]) -> Result<Parsed, String> {
    let mut options = defaults();
    let given = getopt::read(&definition(), args, Long::Whole).map_err(|fault| fault.to_string())?;
    let rc = given.iter().find_map(|given| match given {
        Given::Option(name, path) if name == "rc" => Some(path),
        _ => None,
    });
    if let Some(path) = rc {
        options.read_file(path)?;
    }
    let mut url = None;
    for given in &given {
        match given {
            Given::Option(name, text) => match name.as_str() {
                "help" => return Ok(Parsed::Usage),
                "version" => {
                    return Ok(Parsed::Text(format!("SIEGE, by brisk {}\n", env!("CARGO_PKG_VERSION"))));
                }
                "config" => {
                    return Ok(Parsed::Text(format!("CURRENT SIEGE CONFIGURATION\n{options:#?}\n")));
                }
                name => options.set(name, text)?,
            },
            Given::Word(word) => {
                if url.replace(word.clone()).is_some() {
                    return Err(format!("more than one URL: {word}"));
                }
            }
        }
    }
    options.url = url.or(options.url);
    if options.url.is_none() && options.file.is_none() {
        return Err("no URL given, and no file of URLs (-f)".to_owned());
    }
    Ok(Parsed::Run(Box::new(options)))
}

impl Options {
    pub fn has_banner(&self) -> bool {
        !self.quiet && !self.json
    }

    fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
        match name {
            "verbose" => self.verbose = true,
            "quiet" => (self.quiet, self.verbose) = (true, false),
            "concurrent" => self.users = number(text, "-c", 1, SIEGE_USERS_MAX)? as usize,
            "reps" => self.repetitions = Some(number(text, "-r", 1, 1_000_000_000)?),
            "time" => self.time = Some(time(text)?),
            "delay" => self.delay = seconds(text, "-d")?,
            "benchmark" => self.benchmark = true,
            "internet" => self.random = true,
            "file" => self.file = Some(text.to_owned()),
            "log" => self.log = Some(if text.is_empty() { LOG_FILE } else { text }.to_owned()),
            "mark" => self.mark = Some(text.to_owned()),
            "header" => self.headers.push(header(text)?),
            "user-agent" => text.clone_into(&mut self.agent),
            "content-type" => text.clone_into(&mut self.content_type),
            "json-output" => self.json = true,
            "no-parser" => self.parser = false,
            "no-follow" => self.follow = false,
            "get" | "print" => {
                return Err(format!("--{name} is not supported: \"brisk get URL\" shows an exchange"));
            }
            // The resource file was read before.
            _ => {}
        }
        Ok(())
    }

    /// Settings that concern siege's looks or what is always so here are read and have no effect; others are refused.
    fn read_file(&mut self, path: &str) -> Result<(), String> {
        const NO_EFFECT: [&str; 16] = [
            "color",
            "show-logfile",
            "gmethod",
            "limit",
            "chunked",
            "cache",
            "unique",
            "url-escaping",
            "csv",
            "fullurl",
            "display-id",
            "timestamp",
            "spinner",
            "expire-session",
            "nofollow",
            "protocol",
        ];
        let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            let Some((key, text)) = line.split_once('=').map(|(key, text)| (key.trim(), text.trim())) else {
                if line.is_empty() {
                    continue;
                }
                return Err(format!("{path}:{}: \"{line}\" is not \"key = value\"", at + 1));
            };
            let on = matches!(text.to_ascii_lowercase().as_str(), "true" | "yes" | "on" | "1");
            let here = |error: String| format!("{path}:{}: {error}", at + 1);
            match key {
                "verbose" => self.verbose = on,
                "quiet" => self.quiet = on,
                "json_output" => self.json = on,
                "logging" => self.log = on.then(|| self.log.clone().unwrap_or(LOG_FILE.to_owned())),
                "logfile" => self.log = self.log.as_ref().map(|_| text.to_owned()),
                "concurrent" => self.set("concurrent", text).map_err(here)?,
                "reps" => self.set("reps", text).map_err(here)?,
                "time" => self.set("time", text).map_err(here)?,
                "delay" => self.set("delay", text).map_err(here)?,
                "file" => self.file = Some(text.to_owned()),
                "url" => self.url = Some(text.to_owned()),
                "internet" => self.random = on,
                "benchmark" => self.benchmark = on,
                "parser" => self.parser = on,
                "follow-location" => self.follow = on,
                "cookies" => self.cookies = on,
                "user-agent" => text.clone_into(&mut self.agent),
                "accept-encoding" => text.clone_into(&mut self.encoding),
                "connection" => self.keep_alive = text.eq_ignore_ascii_case("keep-alive"),
                "timeout" | "socket-timeout" => {
                    self.timeout = Duration::from_secs(number(text, key, 1, 3600).map_err(here)?);
                }
                "failures" => self.failures_max = number(text, key, 1, u64::MAX).map_err(here)?,
                "header" => self.headers.push(header(text).map_err(here)?),
                _ if NO_EFFECT.contains(&key) => {}
                _ => return Err(here(format!("\"{key}\" is not supported"))),
            }
        }
        Ok(())
    }
}

/// A number with S, M or H; minutes without, as in siege.
fn time(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let (digits, unit) = match text.chars().last() {
        Some('s' | 'S') => (&text[..text.len() - 1], 1),
        Some('m' | 'M') => (&text[..text.len() - 1], 60),
        Some('h' | 'H') => (&text[..text.len() - 1], 3600),
        _ => (text, 60),
    };
    Ok(Duration::from_secs(number(digits, "-t", 1, 604_800 / unit)? * unit))
}

fn seconds(text: &str, option: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err(format!("{option}: \"{text}\" is not a number of seconds")),
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once(':').ok_or(format!("-H: \"{text}\" is not a header line: write \"Name: value\""))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> Result<Options, String> {
        parse(&crate::old::words(line)).map(|parsed| match parsed {
            Parsed::Run(options) => *options,
            Parsed::Text(_) | Parsed::Usage => panic!("{line}"),
        })
    }

    #[test]
    fn the_commands_of_the_article() {
        let options = check("-c 50 -t120s http://localhost:8888/index.html").unwrap();
        assert_eq!((options.users, options.time, options.delay), (50, Some(Duration::from_mins(2)), 0.0));
        let options = check("-c 50 -d 10 -t60s -i -f urls.txt").unwrap();
        assert!(options.random && (options.delay - 10.0).abs() < 1e-9);
        assert_eq!(options.file.as_deref(), Some("urls.txt"));
        assert_eq!(check("-t5 http://a/").unwrap().time, Some(Duration::from_mins(5)));
        assert_eq!(check("--time=1H -l --log=x http://a/").unwrap().log.as_deref(), Some("x"));
        assert_eq!(check("-bvj -lfile -H a:b http://a/").unwrap().log.as_deref(), Some("file"));
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        for (line, part) in [
            ("-Z http://a/", "'Z'"),
            ("--nonsense http://a/", "--nonsense"),
            ("-c 0 http://a/", "-c"),
            ("-t0s http://a/", "-t"),
            ("-tx http://a/", "-t"),
            ("-d -1 http://a/", "-d"),
            ("-g http://a/", "brisk get"),
            ("-c 5", "no URL"),
            ("http://a/ http://b/", "more than one"),
            ("-R /nonexistent/rc http://a/", "/nonexistent/rc"),
        ] {
            let error = check(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
