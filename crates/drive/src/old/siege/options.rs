//! siege's command line and its resource file.

use super::super::{number, value};
use std::time::Duration;

pub enum Parsed {
    Run(Box<Options>),
    Text(String),
}

/// See [`USAGE`].
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

pub const USAGE: &str = "\
Usage: siege [options]
       siege [options] URL
Options:
  -V, --version             VERSION, prints the version number.
  -h, --help                HELP, prints this section.
  -C, --config              CONFIGURATION, show the current config.
  -v, --verbose             VERBOSE, prints notification to screen.
  -q, --quiet               QUIET turns verbose off and suppresses output.
  -c, --concurrent=NUM      CONCURRENT users, default is 25
  -r, --reps=NUM            REPS, number of times to run the test.
  -t, --time=NUMm           TIMED testing where \"m\" is modifier S, M, or H
                            ex: --time=1H, one hour test.
  -d, --delay=NUM           Time DELAY, random delay before each request
                            between .001 and NUM. (NOT COUNTED IN STATS)
  -b, --benchmark           BENCHMARK: no delays between requests.
  -i, --internet            INTERNET user simulation, hits URLs randomly.
  -f, --file=FILE           FILE, select a specific URLS FILE.
  -R, --rc=FILE             RC, specify an siegerc file
  -l, --log[=FILE]          LOG to FILE. If FILE is not specified, the
                            default is used: /var/log/siege.log
  -m, --mark=\"text\"         MARK, mark the log file with a string.
  -H, --header=\"text\"       Add a header to request (can be many)
  -A, --user-agent=\"text\"   Sets User-Agent in request
  -T, --content-type=\"text\" Sets Content-Type in request
  -j, --json-output         JSON OUTPUT, print final stats to stdout as JSON
      --no-parser           NO PARSER, turn off the HTML page parser
      --no-follow           NO FOLLOW, do not follow HTTP redirects
";

/// Long options and their letters; `.` and `,` stand for those that have none.
const LONG: [(&str, char); 22] = [
    ("version", 'V'),
    ("help", 'h'),
    ("config", 'C'),
    ("verbose", 'v'),
    ("quiet", 'q'),
    ("get", 'g'),
    ("print", 'p'),
    ("concurrent", 'c'),
    ("reps", 'r'),
    ("time", 't'),
    ("delay", 'd'),
    ("benchmark", 'b'),
    ("internet", 'i'),
    ("file", 'f'),
    ("rc", 'R'),
    ("log", 'l'),
    ("mark", 'm'),
    ("header", 'H'),
    ("user-agent", 'A'),
    ("content-type", 'T'),
    ("json-output", 'j'),
    ("no-parser", '.'),
];

const LOG_FILE: &str = "/var/log/siege.log";
const USERS_MAX: u64 = 10_000;

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
    let mut given: Vec<(char, String)> = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if let Some(long) = arg.strip_prefix("--") {
            let (name, glued) = long.split_once('=').unwrap_or((long, ""));
            let letter = match name {
                "no-follow" => ',',
                _ => {
                    LONG.iter()
                        .find(|(known, _)| *known == name)
                        .ok_or(format!("unrecognized option '{arg}'"))?
                        .1
                }
            };
            let text = if wants_value(letter) { value(glued, &mut args, name)? } else { glued };
            given.push((letter, text.to_owned()));
            continue;
        }
        let Some(letters) = arg.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            if options.url.replace(arg.clone()).is_some() {
                return Err(format!("more than one URL: {arg}"));
            }
            continue;
        };
        let mut rest = letters;
        while let Some(letter) = rest.chars().next() {
            rest = &rest[letter.len_utf8()..];
            if !LONG.iter().any(|(_, known)| *known == letter) || letter == '.' {
                return Err(format!("invalid option -- '{letter}'"));
            }
            let text = if wants_value(letter) {
                value(std::mem::take(&mut rest), &mut args, &letter.to_string())?
            } else if letter == 'l' {
                std::mem::take(&mut rest).trim_start_matches('=')
            } else {
                ""
            };
            given.push((letter, text.to_owned()));
        }
    }
    if let Some((_, path)) = given.iter().find(|(letter, _)| *letter == 'R') {
        options.read_file(path)?;
    }
    for (letter, text) in &given {
        match letter {
            'h' => return Ok(Parsed::Text(USAGE.to_owned())),
            'V' => return Ok(Parsed::Text(format!("SIEGE, by brisk {}\n", env!("CARGO_PKG_VERSION")))),
            'C' => return Ok(Parsed::Text(format!("CURRENT SIEGE CONFIGURATION\n{options:#?}\n"))),
            _ => options.set(*letter, text)?,
        }
    }
    if options.url.is_none() && options.file.is_none() {
        return Err("no URL given, and no file of URLs (-f)".to_owned());
    }
    Ok(Parsed::Run(Box::new(options)))
}

fn wants_value(letter: char) -> bool {
    "crtdfRmHAT".contains(letter)
}

impl Options {
    pub fn has_banner(&self) -> bool {
        !self.quiet && !self.json
    }

    fn set(&mut self, letter: char, text: &str) -> Result<(), String> {
        match letter {
            'v' => self.verbose = true,
            'q' => (self.quiet, self.verbose) = (true, false),
            'c' => self.users = number(text, "-c", 1, USERS_MAX)? as usize,
            'r' => self.repetitions = Some(number(text, "-r", 1, 1_000_000_000)?),
            't' => self.time = Some(time(text)?),
            'd' => self.delay = seconds(text, "-d")?,
            'b' => self.benchmark = true,
            'i' => self.random = true,
            'f' => self.file = Some(text.to_owned()),
            'l' => self.log = Some(if text.is_empty() { LOG_FILE } else { text }.to_owned()),
            'm' => self.mark = Some(text.to_owned()),
            'H' => self.headers.push(header(text)?),
            'A' => text.clone_into(&mut self.agent),
            'T' => text.clone_into(&mut self.content_type),
            'j' => self.json = true,
            '.' => self.parser = false,
            ',' => self.follow = false,
            'g' | 'p' => {
                return Err(format!("-{letter} is not supported: \"brisk get URL\" shows an exchange"));
            }
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
                "concurrent" => self.set('c', text).map_err(here)?,
                "reps" => self.set('r', text).map_err(here)?,
                "time" => self.set('t', text).map_err(here)?,
                "delay" => self.set('d', text).map_err(here)?,
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
            Parsed::Text(text) => panic!("{text}"),
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
