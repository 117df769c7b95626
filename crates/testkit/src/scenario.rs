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
//! Each case has a connection of its own. Lines that begin with `#`, and empty ones, are comments.

use crate::client::{Client, Ending};
use crate::response::Response;
use crate::server::Server;
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
            self.say(text.strip_prefix(' ').unwrap_or(text));
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
        let (text, end) = match text.strip_suffix('\\') {
            Some(text) => (text, ""),
            None => (text, "\r\n"),
        };
        let bytes = unescape(text);
        if self.method.is_none() {
            let end = bytes.iter().position(|&b| b == b' ').unwrap_or(bytes.len());
            self.method = Some(String::from_utf8_lossy(&bytes[..end]).into_owned());
        }
        self.output.extend_from_slice(&bytes);
        self.output.extend_from_slice(end.as_bytes());
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        if text.len() == 3
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
            let regex = Regex::new(pattern).map_err(|e| e.to_string())?;
            let found = wait::within(wait::DEADLINE, || {
                self.server.error_log().lines().any(|l| regex.is_match(l)).then_some(())
            });
            return want(found.is_some(), || format!("no log line like {pattern}"));
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
            _ => self.check(text),
        }
    }

    fn check(&self, text: &str) -> Result<(), String> {
        let r = self.response.as_ref().unwrap_or_else(|| panic!("{text:?} stands before any response"));
        let regex = |pattern: &str| Regex::new(pattern).map_err(|e| e.to_string());
        if let Some(name) = text.strip_prefix('!') {
            return want(r.all(name).next().is_none(), || format!("there should be no {name}"));
        }
        if let Some(pattern) = text.strip_prefix("~ ") {
            return want(regex(pattern)?.is_match(&r.text()), || format!("the body should match {pattern}"));
        }
        if let Some(body) = text.strip_prefix('=') {
            let body = unescape(body.trim_start());
            return want(r.body == body, || {
                format!("the body should be {:?}", String::from_utf8_lossy(&body))
            });
        }
        if let Some(status) = text.strip_prefix("interim ") {
            let found = r.interim.iter().any(|s| s.to_string() == status);
            return want(found, || format!("no {status} came before, but {:?}", r.interim));
        }
        let (name, pattern) =
            text.split_once(": ").unwrap_or_else(|| panic!("no such expectation: {text:?}"));
        let pattern = regex(&format!("^(?:{pattern})$"))?;
        let values: Vec<&str> = r.all(name).collect();
        want(values.iter().any(|value| pattern.is_match(value)), || {
            format!("{name} should be {pattern}, not {values:?}")
        })
    }
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
