//! Scenario files: what is sent and what must come back, one small case after another.
//!
//! ```text
//! == a name that says what is proven
//! >> GET /a.txt HTTP/1.0
//! >>
//! << 200
//! << Connection: close
//! << !Transfer-Encoding
//! << ~ ^hello$
//! << closed
//! ```
//!
//! - `>>` is a line to send, with CRLF behind it; a `\` at its end leaves that out. What stands together is sent in
//!   one go. `\r \n \t \0 \\ \xHH` are bytes,
//!   `\{N*TEXT}` is TEXT N times.
//! - `>|` ends the client's side of the connection.
//! - `<< STATUS` reads one response; the lines behind it are about that response: `Name: REGEX` (the whole value),
//!   `!Name` (not there), `~ REGEX` (in the body), `= TEXT` (is the body), `interim STATUS`.
//! - `<< closed` — the server closes without another byte; `<< open` — it answers another GET on the connection;
//!   `<< log REGEX` — a line of the error log matches.
//!
//! Each case has a connection of its own. A name that ends with `(HTTP/1.1)` is that of a case for this version alone. Lines that begin with `#`, and empty ones, are comments.

use crate::client::{Client, Ending};
use crate::response::Response;
use crate::server::Server;
use crate::versions::{Connected, OWN_FIELDS, Request, Version, requests};
use crate::wait;
use regex::Regex;
use std::fmt::Write as _;

struct Case<'t> {
    name: &'t str,
    lines: Vec<&'t str>,
}

/// Runs all cases of a file and reports every failure.
///
/// # Panics
/// If a case fails.
pub fn run(server: &Server, text: &str) {
    let mut failures = String::new();
    let cases = parse(text);
    assert!(!cases.is_empty(), "no cases");
    for case in &cases {
        let mut player =
            Player { server, client: server.client(), method: None, response: None, output: Vec::new() };
        if let Err(why) = case.lines.iter().try_for_each(|line| player.step(line)) {
            let _ = writeln!(failures, "== {}\n   {}", case.name, why.replace('\n', "\n   "));
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}

/// Plays the cases over other versions of HTTP, those that these can carry (see [`versions`](crate::versions)); gives the number
/// of cases that were played over each.
///
/// # Panics
/// If a case fails.
pub fn run_over(server: &Server, text: &str, versions: &[Version]) -> usize {
    let cases = parse(text);
    let carried: Vec<_> = cases.iter().filter_map(|case| Some((case, carried(case)?))).collect();
    let mut failures = String::new();
    for version in versions {
        for (case, asked) in &carried {
            let connection = Connected::new(server, version);
            let mut listener = Listener { server, connection, asked: asked.iter(), response: None };
            let mut lines = case.lines.iter().filter_map(|line| line.strip_prefix("<< "));
            if let Err(why) = lines.try_for_each(|line| listener.expect(&version.expectation(line))) {
                let seen = listener.response.map_or(String::new(), |r| format!("\n{}{}", r.head, r.text()));
                let why = format!("{why}{seen}").replace('\n', "\n   ");
                let _ = writeln!(failures, "== {} ({})\n   {why}", case.name, version.name());
            }
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
    carried.len()
}

/// The requests of a case, if all of it holds for any version.
fn carried(case: &Case<'_>) -> Option<Vec<Request>> {
    if case.name.ends_with("(HTTP/1.1)") {
        return None;
    }
    let mut bytes = Vec::new();
    let mut answers = 0;
    for line in &case.lines {
        match line.strip_prefix("<< ") {
            Some("closed") => return None,
            Some(text) => answers += usize::from(is_status(text)),
            None => bytes.extend(said(line.strip_prefix(">>")?)),
        }
    }
    requests(&bytes).filter(|all| all.len() == answers)
}

fn is_status(text: &str) -> bool {
    text.len() == 3 && text.parse::<u16>().is_ok()
}

/// The bytes of a line that is sent, what follows its `>>`.
fn said(text: &str) -> Vec<u8> {
    let text = text.strip_prefix(' ').unwrap_or(text);
    match text.strip_suffix('\\') {
        Some(text) => unescape(text),
        None => [unescape(text), b"\r\n".to_vec()].concat(),
    }
}

/// Asks over another version, and compares what comes with what a case expects.
struct Listener<'s> {
    server: &'s Server,
    connection: Connected,
    asked: std::slice::Iter<'s, Request>,
    response: Option<Response>,
}

impl Listener<'_> {
    fn expect(&mut self, text: &str) -> Result<(), String> {
        if is_status(text) {
            let request = self.asked.next().expect("counted before");
            let response = self.connection.ask(request).map_err(|why| format!("wanted {text}: {why}"))?;
            let got = response.status.to_string();
            self.response = Some(response);
            return want(got == text, || format!("wanted {text}, not {got}"));
        }
        if text == "open" {
            let again = self.connection.ask(&Request::get("/"))?;
            return want(again.status < 500, || format!("on the open connection:\n{}", again.head));
        }
        if let Some(pattern) = text.strip_prefix("log ") {
            return expect_log(self.server, pattern);
        }
        let name = text.trim_start_matches('!').split(':').next().unwrap_or_default();
        if OWN_FIELDS.contains(&&*name.to_ascii_lowercase()) {
            return Ok(());
        }
        let response =
            self.response.as_ref().unwrap_or_else(|| panic!("{text:?} stands before any response"));
        check(response, text)
    }
}

fn expect_log(server: &Server, pattern: &str) -> Result<(), String> {
    let regex = Regex::new(pattern).map_err(|e| e.to_string())?;
    let found =
        wait::within(wait::DEADLINE, || server.error_log().lines().any(|l| regex.is_match(l)).then_some(()));
    want(found.is_some(), || format!("no log line like {pattern}"))
}

fn parse(text: &str) -> Vec<Case<'_>> {
    let mut cases: Vec<Case<'_>> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("== ") {
            cases.push(Case { name, lines: Vec::new() });
        } else if !line.is_empty() && !line.starts_with('#') {
            let case = cases.last_mut().unwrap_or_else(|| panic!("{line:?} stands before the first case"));
            case.lines.push(line);
        }
    }
    cases
}

struct Player<'s> {
    server: &'s Server,
    client: Client,
    /// Of the request that was sent last.
    method: Option<String>,
    response: Option<Response>,
    /// Not sent yet.
    output: Vec<u8>,
}

impl Player<'_> {
    fn step(&mut self, line: &str) -> Result<(), String> {
        if let Some(text) = line.strip_prefix(">>") {
            self.say(text);
            return Ok(());
        }
        // A server may refuse before all is sent; what it says is what counts.
        let _ = self.client.try_send(std::mem::take(&mut self.output));
        if line == ">|" {
            self.client.half_close();
            return Ok(());
        }
        let text = line.strip_prefix("<< ").unwrap_or_else(|| panic!("no such line: {line:?}"));
        self.expect(text).map_err(|why| match &self.response {
            Some(r) => format!("{why}\n{}{}", r.head, r.text()),
            None => why,
        })
    }

    fn say(&mut self, text: &str) {
        let bytes = said(text);
        if self.method.is_none() {
            let end = bytes.iter().position(|&b| b == b' ').unwrap_or(bytes.len());
            self.method = Some(String::from_utf8_lossy(&bytes[..end]).into_owned());
        }
        self.output.extend_from_slice(&bytes);
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        if is_status(text)
            && let Ok(status) = text.parse::<u16>()
        {
            let method = self.method.take().unwrap_or_else(|| "GET".into());
            self.response = None;
            let response =
                self.client.try_response(&method).map_err(|failure| format!("wanted {status}: {failure}"))?;
            let got = response.status;
            self.response = Some(response);
            return want(got == status, || format!("wanted {status}, not {got}"));
        }
        if let Some(pattern) = text.strip_prefix("log ") {
            return expect_log(self.server, pattern);
        }
        match text {
            "closed" => {
                let ending = self.client.ending(wait::DEADLINE);
                want(ending == Ending::Closed, || {
                    format!("wanted the end, not {ending:?}: {:?}", self.client.some(200))
                })
            }
            "open" => {
                let again =
                    self.client.try_get("/").map_err(|f| format!("the connection should be open: {f}"))?;
                want(again.status < 500, || format!("on the open connection:\n{}", again.head))
            }
            _ => {
                let response =
                    self.response.as_ref().unwrap_or_else(|| panic!("{text:?} stands before any response"));
                check(response, text)
            }
        }
    }
}

fn check(r: &Response, text: &str) -> Result<(), String> {
    let regex = |pattern: &str| Regex::new(pattern).map_err(|e| e.to_string());
    if let Some(name) = text.strip_prefix('!') {
        return want(r.all(name).next().is_none(), || format!("there should be no {name}"));
    }
    if let Some(pattern) = text.strip_prefix("~ ") {
        return want(regex(pattern)?.is_match(&r.text()), || format!("the body should match {pattern}"));
    }
    if let Some(body) = text.strip_prefix('=') {
        let body = unescape(body.trim_start());
        return want(r.body == body, || format!("the body should be {:?}", String::from_utf8_lossy(&body)));
    }
    if let Some(status) = text.strip_prefix("interim ") {
        let found = r.interim.iter().any(|s| s.to_string() == status);
        return want(found, || format!("no {status} came before, but {:?}", r.interim));
    }
    let (name, pattern) = text.split_once(": ").unwrap_or_else(|| panic!("no such expectation: {text:?}"));
    let pattern = regex(&format!("^(?:{pattern})$"))?;
    let values: Vec<&str> = r.all(name).collect();
    want(values.iter().any(|value| pattern.is_match(value)), || {
        format!("{name} should be {pattern}, not {values:?}")
    })
}

fn want(condition: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(otherwise()) }
}

/// The bytes that a line stands for.
fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at + 1..];
        let mut take = |count: usize| {
            let (taken, tail) = rest.split_at(count);
            rest = tail;
            taken
        };
        match take(1) {
            "r" => out.push(b'\r'),
            "n" => out.push(b'\n'),
            "t" => out.push(b'\t'),
            "0" => out.push(0),
            "\\" => out.push(b'\\'),
            "x" => out.push(u8::from_str_radix(take(2), 16).expect("two hexadecimal digits")),
            "{" => {
                let end = rest.find('}').expect("a closing brace");
                let (count, what) = rest[..end].split_once('*').expect("\\{N*TEXT}");
                out.extend(unescape(what).repeat(count.parse().expect("a number")));
                rest = &rest[end + 1..];
            }
            other => panic!("no such escape: \\{other}"),
        }
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_bytes() {
        assert_eq!(unescape(r"a\r\n\x41\{3*ab}\\"), b"a\r\nAababab\\");
        assert_eq!(unescape(r"\{2*a\n}"), b"a\na\n");
    }

    #[test]
    fn cases_are_split() {
        let cases = parse("# about\n== one\n>> GET\n\n<< 200\n== two\n");
        let names: Vec<_> = cases.iter().map(|c| (c.name, c.lines.len())).collect();
        assert_eq!(names, [("one", 2), ("two", 0)]);
    }
}
