//! ab's command line and the request that it asks for.

use crate::limits::{CONCURRENCY_MAX, REQUESTS_MAX};
use crate::old::options::{self, flag, number, option};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use brisk_cli::getopt::{self, Given, Long};
use brisk_tls::Versions;
use clap::{Arg, ArgAction, Command, ValueHint};
use std::fmt::Write as _;
use std::fs::File;
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
    pub requests: u64,
    pub concurrency: usize,
    pub time_limit: Option<Duration>,
    pub timeout: Duration,
    pub window: Option<usize>,
    pub method: String,
    pub body: Vec<u8>,
    pub sends_body: bool,
    pub content_type: String,
    pub verbosity: u64,
    pub html: bool,
    pub table: String,
    pub tr: String,
    pub td: String,
    pub keep_alive: bool,
    pub percentiles: bool,
    pub confidence: bool,
    pub quiet: bool,
    pub any_length: bool,
    pub go_on: bool,
    pub no_sni: bool,
    pub gnuplot: Option<String>,
    pub csv: Option<String>,
    pub proxy: Option<(String, u16)>,
    pub versions: Versions,
    pub secure: bool,
    pub host: String,
    pub port: u16,
    pub path: String,
    cookies: Vec<String>,
    headers: Vec<String>,
    auth: String,
}

/// ab's options.
pub fn definition() -> Command {
    options::definition(
        "ApacheBench's flags and report, with the load of brisk bench",
        "ab [options] [http[s]://]hostname[:port]/path",
        vec![
            option("n", "requests", "Number of requests to perform"),
            option("c", "concurrency", "Number of multiple requests to make at a time"),
            option("t", "timelimit", "Seconds to max. to spend on benchmarking; this implies -n 50000"),
            option("s", "timeout", "Seconds to max. wait for each response; default is 30 seconds"),
            option("b", "windowsize", "Size of TCP send/receive buffer, in bytes"),
            option("p", "postfile", "File containing data to POST. Remember also to set -T")
                .value_hint(ValueHint::FilePath),
            option("u", "putfile", "File containing data to PUT. Remember also to set -T")
                .value_hint(ValueHint::FilePath),
            option(
                "T",
                "content-type",
                "Content-type header to use for POST/PUT data, eg. 'application/x-www-form-urlencoded'; default is 'text/plain'",
            ),
            option("v", "verbosity", "How much troubleshooting info to print"),
            flag("w", "Print out results in HTML tables"),
            flag("i", "Use HEAD instead of GET"),
            option("x", "attributes", "String to insert as table attributes"),
            option("y", "attributes", "String to insert as tr attributes"),
            option("z", "attributes", "String to insert as td or th attributes"),
            option("C", "attribute", "Add cookie, eg. 'Apache=1234'. (repeatable)"),
            option(
                "H",
                "attribute",
                "Add arbitrary header line, eg. 'Accept-Encoding: gzip'; inserted after all normal header lines. (repeatable)",
            ),
            option(
                "A",
                "attribute",
                "Add Basic WWW Authentication, the attributes are a colon separated username and password",
            ),
            option(
                "P",
                "attribute",
                "Add Basic Proxy Authentication, the attributes are a colon separated username and password",
            ),
            option("X", "proxy:port", "Proxyserver and port number to use"),
            flag("V", "Print version number and exit"),
            flag("k", "Use HTTP KeepAlive feature"),
            flag("d", "Do not show percentiles served table"),
            flag("S", "Do not show confidence estimators and warnings"),
            flag("q", "Do not show progress when doing more than 150 requests"),
            flag("l", "Accept variable document length (use this for dynamic pages)"),
            option("g", "filename", "Output collected data to gnuplot format file")
                .value_hint(ValueHint::FilePath),
            option("e", "filename", "Output CSV file with percentages served")
                .value_hint(ValueHint::FilePath),
            flag("r", "Don't exit on socket receive errors"),
            option("m", "method", "Method name"),
            Arg::new("h")
                .short('h')
                .long("help")
                .action(ArgAction::SetTrue)
                .help("Display usage information (this message)"),
            flag("I", "Disable TLS Server Name Indication (SNI) extension"),
            option("f", "protocol", "Specify SSL/TLS protocol (TLS1.2, TLS1.3 or ALL)"),
            option("B", "address", "Not supported: the address to bind to").hide(true),
            option("E", "file", "Not supported: a client certificate").hide(true),
            option("Z", "ciphersuite", "Not supported: cipher suites").hide(true),
        ],
    )
}

/// What `-t` implies.
const REQUESTS_OF_A_TIMED_RUN: u64 = 50_000;

/// The three lines before a report.
pub fn banner() -> String {
    format!(
        "This is Brisk {}, as ApacheBench, Version 2.3\n\
         The report and the files are ApacheBench's; load comes from brisk bench\n\
         https://httpd.apache.org/docs/2.4/programs/ab.html describes them\n\n",
        env!("CARGO_PKG_VERSION")
    )
}

fn defaults() -> Options {
    Options {
        requests: 1,
        concurrency: 1,
        time_limit: None,
        timeout: Duration::from_secs(30),
        window: None,
        method: "GET".to_owned(),
        body: Vec::new(),
        sends_body: false,
        content_type: "text/plain".to_owned(),
        verbosity: 0,
        html: false,
        table: String::new(),
        tr: String::new(),
        td: "bgcolor=white".to_owned(),
        keep_alive: false,
        percentiles: true,
        confidence: true,
        quiet: false,
        any_length: false,
        go_on: false,
        no_sni: false,
        gnuplot: None,
        csv: None,
        proxy: None,
        versions: Versions::default(),
        secure: false,
        host: String::new(),
        port: 80,
        path: String::new(),
        cookies: Vec::new(),
        headers: Vec::new(),
        auth: String::new(),
    }
}

/// Reads the command line.
pub fn parse(args: &[String]) -> Result<Parsed, String> {
    let mut options = defaults();
    let mut url: Option<String> = None;
    for given in getopt::read(&definition(), args, Long::Whole).map_err(|fault| fault.to_string())? {
        match given {
            Given::Option(letter, _) if letter == "h" => return Ok(Parsed::Usage),
            Given::Option(letter, _) if letter == "V" => return Ok(Parsed::Text(banner())),
            Given::Option(letter, text) => options.set(&letter, &text)?,
            Given::Word(word) => {
                if let Some(url) = url.replace(word) {
                    return Err(format!("wrong number of arguments: \"{url}\" is not the only URL"));
                }
            }
        }
    }
    let url = url.as_deref();
    options.set_url(url.ok_or("wrong number of arguments: no URL given")?)?;
    if options.concurrency as u64 > options.requests {
        return Err("Cannot use concurrency level greater than total number of requests".to_owned());
    }
    Ok(Parsed::Run(Box::new(options)))
}

impl Options {
    fn set(&mut self, letter: &str, text: &str) -> Result<(), String> {
        match letter {
            "k" => self.keep_alive = true,
            "i" => "HEAD".clone_into(&mut self.method),
            "w" => self.html = true,
            "d" => self.percentiles = false,
            "S" => self.confidence = false,
            "q" => self.quiet = true,
            "l" => self.any_length = true,
            "r" => self.go_on = true,
            "I" => self.no_sni = true,
            "n" => self.requests = number(text, "-n", 1, REQUESTS_MAX)?,
            "c" => self.concurrency = number(text, "-c", 1, CONCURRENCY_MAX)? as usize,
            "t" => {
                self.time_limit = Some(Duration::from_secs(number(text, "-t", 1, 86_400)?));
                self.requests = REQUESTS_OF_A_TIMED_RUN;
            }
            "s" => self.timeout = Duration::from_secs(number(text, "-s", 1, 86_400)?),
            "b" => self.window = Some(number(text, "-b", 1, 1 << 30)? as usize),
            "p" => self.send_file("POST", text)?,
            "u" => self.send_file("PUT", text)?,
            "T" => self.content_type = sound(text, "-T")?,
            "v" => self.verbosity = number(text, "-v", 0, 9)?,
            "x" => (self.table, self.html) = (text.to_owned(), true),
            "y" => (self.tr, self.html) = (text.to_owned(), true),
            "z" => (self.td, self.html) = (text.to_owned(), true),
            "C" => self.cookies.push(sound(text, "-C")?),
            "H" => self.headers.push(header(text)?),
            "A" => drop(write!(self.auth, "Authorization: Basic {}\r\n", BASE64_STANDARD.encode(text))),
            "P" => drop(write!(self.auth, "Proxy-Authorization: Basic {}\r\n", BASE64_STANDARD.encode(text))),
            "X" => {
                let (host, port) = text.split_once(':').unwrap_or((text, "80"));
                self.proxy = Some((host.to_owned(), number(port, "-X", 1, 65_535)? as u16));
            }
            "g" => self.gnuplot = Some(text.to_owned()),
            "e" => self.csv = Some(text.to_owned()),
            "m" => self.method = method(text)?,
            "f" => self.versions = versions(text)?,
            "B" => return Err("-B (an address to bind to) is not supported".to_owned()),
            "Z" => return Err("-Z (cipher suites) is not supported: the usual ones are offered".to_owned()),
            _ => return Err("-E (client certificates) is not supported".to_owned()),
        }
        Ok(())
    }

    fn send_file(&mut self, method: &str, path: &str) -> Result<(), String> {
        self.body = std::fs::read(path)
            .map_err(|error| format!("could not open POST data file ({path}): {error}"))?;
        method.clone_into(&mut self.method);
        self.sends_body = true;
        Ok(())
    }

    fn set_url(&mut self, url: &str) -> Result<(), String> {
        let rest = match url.split_once("://") {
            Some(("http", rest)) => rest,
            Some(("https", rest)) => {
                (self.secure, self.port) = (true, 443);
                rest
            }
            Some((scheme, _)) => {
                return Err(format!("{scheme}: invalid URL: only http and https are spoken"));
            }
            None => url,
        };
        // As ab has it: without a path there is no request line.
        let (authority, _) = rest
            .split_once('/')
            .ok_or_else(|| format!("{url}: invalid URL: a path is missing, if only \"/\""))?;
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        if host.is_empty() || host.contains('@') || url.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(format!("{url}: invalid URL"));
        }
        if let Some(port) = port {
            self.port = number(port, "the URL's port", 1, 65_535)? as u16;
        }
        host.trim_start_matches('[').trim_end_matches(']').clone_into(&mut self.host);
        rest[authority.len()..].split('#').next().unwrap_or("/").clone_into(&mut self.path);
        if self.secure && self.proxy.is_some() {
            return Err("-X with https is not supported".to_owned());
        }
        Ok(())
    }

    /// How many requests between two lines of progress; 0: none.
    pub fn progress_every(&self) -> u64 {
        if self.quiet || self.requests <= 150 { 0 } else { (self.requests / 10).max(100) }
    }

    /// The request's head.
    pub fn request_text(&self) -> String {
        let usual = if self.secure { 443 } else { 80 };
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let authority = if self.port == usual { host } else { format!("{host}:{}", self.port) };
        let path = match &self.proxy {
            Some(_) => format!("http://{authority}{}", self.path),
            None => self.path.clone(),
        };
        let mut head = format!("{} {path} HTTP/1.0\r\n", self.method);
        if self.keep_alive {
            head += "Connection: Keep-Alive\r\n";
        }
        if self.sends_body {
            let _ = write!(
                head,
                "Content-length: {}\r\nContent-type: {}\r\n",
                self.body.len(),
                self.content_type
            );
        }
        let given = |name: &str| {
            self.headers
                .iter()
                .any(|line| line.split_once(':').is_some_and(|(have, _)| have.eq_ignore_ascii_case(name)))
        };
        for (name, value) in
            [("Host", authority.as_str()), ("User-Agent", "ApacheBench/2.3"), ("Accept", "*/*")]
        {
            if !given(name) {
                let _ = write!(head, "{name}: {value}\r\n");
            }
        }
        if !self.cookies.is_empty() {
            let _ = write!(head, "Cookie: {}\r\n", self.cookies.join("; "));
        }
        head += &self.auth;
        for line in &self.headers {
            head += line;
            head += "\r\n";
        }
        head + "\r\n"
    }

    /// The whole request.
    pub fn request(&self) -> Vec<u8> {
        let mut bytes = self.request_text().into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// The files that the run is to fill: CSV and gnuplot's.
    pub fn open_files(&self) -> Result<(Option<File>, Option<File>), String> {
        let open = |path: &Option<String>, what| match path {
            None => Ok(None),
            Some(path) => File::create(path)
                .map(Some)
                .map_err(|error| format!("Cannot open {what} output file {path}: {error}")),
        };
        Ok((open(&self.csv, "CSV")?, open(&self.gnuplot, "gnuplot")?))
    }
}

fn sound(text: &str, option: &str) -> Result<String, String> {
    if text.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
        return Err(format!("{option}: line ends would break the request apart"));
    }
    Ok(text.to_owned())
}

fn header(text: &str) -> Result<String, String> {
    match text.split_once(':') {
        Some((name, _)) if !name.is_empty() && !name.contains(' ') => sound(text, "-H"),
        _ => Err(format!("-H: \"{text}\" is not a header line: write \"Name: value\"")),
    }
}

fn method(text: &str) -> Result<String, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Ok(text.to_owned());
    }
    Err(format!("-m: \"{text}\" is not a method"))
}

fn versions(text: &str) -> Result<Versions, String> {
    match text.to_ascii_uppercase().as_str() {
        "ALL" => Ok(Versions::default()),
        "TLS1.2" => Ok(Versions { tls12: true, tls13: false }),
        "TLS1.3" => Ok(Versions { tls12: false, tls13: true }),
        _ => Err(format!("-f: {text} is not supported: TLS1.2, TLS1.3 or ALL")),
    }
}
