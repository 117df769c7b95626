//! urls.txt: variables, comments, URLs, and what is posted to them.

use super::options::Options;
use crate::client::{Fields, Request, Url};
use crate::limits::URLS_LINES_MAX;
use std::collections::HashMap;

/// The requests that the command line is about.
pub fn targets(options: &Options) -> Result<Vec<Request>, String> {
    let mut targets = Vec::new();
    if let Some(url) = &options.url {
        targets.push(target(url, options)?);
    } else if let Some(path) = &options.file {
        let text =
            std::fs::read_to_string(path).map_err(|error| format!("could not open file {path}: {error}"))?;
        targets = read(&text, options).map_err(|error| format!("{path}:{error}"))?;
    }
    if targets.is_empty() {
        return Err("the file of URLs is empty".to_owned());
    }
    Ok(targets)
}

/// A list's requests. The error begins with the line's number.
pub fn read(text: &str, options: &Options) -> Result<Vec<Request>, String> {
    let mut variables: HashMap<&str, String> = HashMap::new();
    let mut targets = Vec::new();
    for (at, line) in text.lines().enumerate().take(URLS_LINES_MAX) {
        // A comment begins a line or stands behind a space: URLs may hold the character.
        let line = line.split(" #").next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let here = |error: String| format!("{}: {error}", at + 1);
        if let Some((name, value)) = line.split_once('=')
            && is_name(name.trim())
        {
            variables.insert(name.trim(), fill(value.trim(), &variables).map_err(here)?);
            continue;
        }
        targets.push(target(&fill(line, &variables).map_err(here)?, options).map_err(here)?);
    }
    Ok(targets)
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Puts values in the places of `$(NAME)` and `${NAME}`.
fn fill(text: &str, variables: &HashMap<&str, String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let close = match rest.as_bytes().get(at + 1) {
            Some(b'(') => ')',
            Some(b'{') => '}',
            _ => {
                out.push_str(&rest[..=at]);
                rest = &rest[at + 1..];
                continue;
            }
        };
        out.push_str(&rest[..at]);
        let end = rest[at..].find(close).ok_or_else(|| format!("\"{}\" is not closed", &rest[at..]))? + at;
        let name = &rest[at + 2..end];
        let value = variables.get(name).cloned().or_else(|| std::env::var(name).ok());
        out += &value.ok_or_else(|| format!("the variable {name} has no value"))?;
        rest = &rest[end + 1..];
    }
    Ok(out + rest)
}

/// `URL`, `URL POST data`, `URL POST <file`.
fn target(line: &str, options: &Options) -> Result<Request, String> {
    let mut parts = line.splitn(3, char::is_whitespace);
    let url = parts.next().unwrap_or_default();
    let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let url = Url::parse(&url).map_err(|error| error.to_string())?;
    let mut fields = Fields(options.headers.clone());
    for (name, value) in
        [("Accept", "*/*"), ("Accept-Encoding", &options.encoding), ("User-Agent", &options.agent)]
    {
        if fields.get(name).is_none() {
            fields.push(name, value);
        }
    }
    let method = parts.next().unwrap_or("GET").trim();
    let mut request = Request { method: method.to_owned(), url, fields, body: Vec::new() };
    match method {
        "GET" | "HEAD" | "DELETE" | "OPTIONS" => {}
        "POST" | "PUT" | "PATCH" => {
            let data = parts.next().unwrap_or_default().trim();
            request.body = match data.strip_prefix('<') {
                Some(path) => std::fs::read(path.trim())
                    .map_err(|error| format!("cannot read {}: {error}", path.trim()))?,
                None => data.as_bytes().to_vec(),
            };
            if request.fields.get("content-type").is_none() {
                request.fields.push("Content-Type", options.content_type.clone());
            }
        }
        other => return Err(format!("\"{other}\" is not a method that is known here")),
    }
    match request.fault() {
        Some(fault) => Err(fault),
        None => Ok(request),
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::{Parsed, parse};
    use super::*;

    fn options() -> Options {
        match parse(&["http://a/".to_owned()]) {
            Ok(Parsed::Run(options)) => *options,
            _ => panic!("these are options"),
        }
    }

    #[test]
    fn variables_comments_and_bodies() {
        let text = "# the shop\nHOST = shop.example\nBASE=http://$(HOST):8080\n\n$(BASE)/a?x=1 # why\n${BASE}/login POST user=a&pass=b\nshop.example/c\n";
        let targets = read(text, &options()).unwrap();
        let seen: Vec<String> =
            targets.iter().map(|t| format!("{} {} {}", t.method, t.url, t.body.len())).collect();
        assert_eq!(
            seen,
            [
                "GET http://shop.example:8080/a?x=1 0",
                "POST http://shop.example:8080/login 13",
                "GET http://shop.example/c 0"
            ]
        );
    }

    #[test]
    fn mistakes_have_their_line() {
        for (text, want) in [
            ("http://a/\n$(NOBODY_SETS_THIS)/", "2: the variable NOBODY_SETS_THIS has no value"),
            ("\n\nhttp://$(X", "3: \"$(X\" is not closed"),
            ("http://a/ FETCH x", "1: \"FETCH\" is not a method"),
            ("http://a/ POST </nonexistent/x", "1: cannot read /nonexistent/x"),
            ("http://a:b/", "1: cannot use URL"),
        ] {
            let error = read(text, &options()).unwrap_err();
            assert!(error.starts_with(want), "{text}: {error}");
        }
    }
}
