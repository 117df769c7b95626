//! Values taken from answers: JSON path, regular expression, header, cookie, status.

use crate::client::Exchange;
use regex::bytes::Regex;
use serde_json::Value;

/// Where a value is.
#[derive(Debug, Clone)]
pub enum Source {
    /// `json:$.a.b[0]`.
    Json(Vec<Hop>),
    /// `regex:name="([^"]*)"`: the first group, or the whole match without one.
    Regex(Regex),
    /// `header:Location`.
    Header(String),
    /// `cookie:session`.
    Cookie(String),
    /// `status`.
    Status,
    /// `body`.
    Body,
}

/// One step of a JSON path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hop {
    /// A member.
    Key(String),
    /// An element; negative ones count from the end.
    Index(i64),
}

impl Source {
    /// Reads `json:…`, `regex:…`, `header:…`, `cookie:…`, `status` or `body`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "status" {
            return Ok(Self::Status);
        }
        if text == "body" {
            return Ok(Self::Body);
        }
        let (kind, rest) = text.split_once(':').unwrap_or(("", text));
        match kind {
            "json" => path(rest).map(Self::Json),
            "regex" => Regex::new(rest).map(Self::Regex).map_err(|error| error.to_string()),
            "header" if !rest.trim().is_empty() => Ok(Self::Header(rest.trim().to_owned())),
            "cookie" if !rest.trim().is_empty() => Ok(Self::Cookie(rest.trim().to_owned())),
            _ => Err(format!("\"{text}\" does not say where the value is")),
        }
    }

    /// Whether it is in the body.
    pub fn is_in_body(&self) -> bool {
        match self {
            Self::Json(_) | Self::Regex(_) | Self::Body => true,
            Self::Header(_) | Self::Cookie(_) | Self::Status => false,
        }
    }

    /// The value, if the answer has it. `body`: with its codings undone.
    pub fn find(&self, exchange: &Exchange, body: &[u8]) -> Option<String> {
        match self {
            Self::Json(path) => {
                let json: Value = serde_json::from_slice(body).ok()?;
                walk(&json, path).map(text_of)
            }
            Self::Regex(regex) => {
                let captures = regex.captures(body)?;
                let found = captures.get(1).or_else(|| captures.get(0))?;
                Some(String::from_utf8_lossy(found.as_bytes()).into_owned())
            }
            Self::Header(name) => exchange.fields.get(name).map(str::to_owned),
            Self::Cookie(name) => exchange.fields.all("set-cookie").find_map(|cookie| {
                let (have, value) = cookie.split(';').next()?.split_once('=')?;
                (have.trim() == name).then(|| value.trim().to_owned())
            }),
            Self::Status => Some(exchange.status.to_string()),
            Self::Body => Some(String::from_utf8_lossy(body).into_owned()),
        }
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Reads `$.a.b[0]["c d"]`; the `$` may be left out.
pub fn path(text: &str) -> Result<Vec<Hop>, String> {
    let bad = || format!("\"{text}\" is not a JSON path like $.items[0].id");
    let mut hops = Vec::new();
    let mut rest = text.trim().strip_prefix('$').unwrap_or(text.trim());
    if rest.is_empty() {
        return Ok(hops);
    }
    if !rest.starts_with(['.', '[']) {
        hops.push(Hop::Key(take_key(&mut rest).ok_or_else(bad)?));
    }
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            rest = after;
            hops.push(Hop::Key(take_key(&mut rest).ok_or_else(bad)?));
        } else if let Some(after) = rest.strip_prefix('[') {
            let end = after.find(']').ok_or_else(bad)?;
            let inner = after[..end].trim();
            let quoted = ['"', '\''].iter().find_map(|&quote| inner.strip_prefix(quote)?.strip_suffix(quote));
            hops.push(match quoted {
                Some(key) => Hop::Key(key.to_owned()),
                None => Hop::Index(inner.parse().map_err(|_| bad())?),
            });
            rest = &after[end + 1..];
        } else {
            return Err(bad());
        }
    }
    Ok(hops)
}

fn take_key(rest: &mut &str) -> Option<String> {
    let end = rest.find(['.', '[']).unwrap_or(rest.len());
    let (key, after) = rest.split_at(end);
    *rest = after;
    (!key.is_empty()).then(|| key.to_owned())
}

fn walk<'a>(json: &'a Value, path: &[Hop]) -> Option<&'a Value> {
    path.iter().try_fold(json, |value, hop| match hop {
        Hop::Key(key) => value.get(key),
        Hop::Index(at) => {
            let list = value.as_array()?;
            let at = if *at < 0 { list.len() as i64 + at } else { *at };
            list.get(usize::try_from(at).ok()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_paths() {
        let json: Value = serde_json::from_str(r#"{"a":{"b":[1,{"c d":"x"}]},"t":true,"n":null}"#).unwrap();
        for (text, want) in [
            ("$.a.b[0]", Some("1")),
            ("a.b[-1]['c d']", Some("x")),
            ("$.t", Some("true")),
            ("$.a.b[9]", None),
            ("$.a.b[-9]", None),
            ("$.x.y", None),
            ("$.t.y", None),
        ] {
            let found = walk(&json, &path(text).unwrap()).map(text_of);
            assert_eq!(found.as_deref(), want, "{text}");
        }
        for bad in ["$.", "$..a", "$[", "$[x]", "$a", "a[0]b"] {
            assert!(path(bad).is_err() || bad == "$a", "{bad}");
        }
    }

    #[test]
    fn sources_are_told_apart() {
        for good in ["json:$.a", "regex:a(b)", "header:X", "cookie:s", "status", "body"] {
            assert!(Source::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "x", "regex:(", "header:", "xpath://a", "json:$["] {
            assert!(Source::parse(bad).is_err(), "{bad}");
        }
    }
}
