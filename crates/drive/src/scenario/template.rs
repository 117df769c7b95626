//! Texts with places for values: `Bearer {{token}}`.

use std::borrow::Cow;
use std::fmt::Write as _;

/// How values are put into a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// As they are.
    None,
    /// For a JSON string.
    Json,
}

/// A text cut at its places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Value(String),
}

impl Template {
    /// Reads a text. The error says which place is broken.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find("{{") {
            if at > 0 {
                parts.push(Part::Text(rest[..at].to_owned()));
            }
            let end = rest[at..]
                .find("}}")
                .ok_or_else(|| format!("\"{}\" is not closed with }}}}", &rest[at..]))?;
            let name = rest[at + 2..at + end].trim();
            if name.is_empty() || !name.chars().all(|c| c.is_alphanumeric() || "._-".contains(c)) {
                return Err(format!("\"{name}\" is not a name of a value"));
            }
            parts.push(Part::Value(name.to_owned()));
            rest = &rest[at + end + 2..];
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self(parts))
    }

    /// A text without places.
    pub fn plain(text: &str) -> Self {
        Self(vec![Part::Text(text.to_owned())])
    }

    /// Whether its beginning is not known before there are values.
    pub fn begins_with_value(&self) -> bool {
        matches!(self.0.first(), Some(Part::Value(_)))
    }

    /// The names of its values.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Value(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// The text with values; the name of the first that is missing is the error.
    pub fn fill(&self, escape: Escape, value: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
        let mut out = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Value(name) => {
                    let value = value(name).ok_or_else(|| name.clone())?;
                    out.push_str(&escaped(&value, escape));
                }
            }
        }
        Ok(out)
    }
}

fn escaped(value: &str, escape: Escape) -> Cow<'_, str> {
    match escape {
        Escape::None => Cow::Borrowed(value),
        Escape::Json => {
            let quoted = serde_json::Value::from(value).to_string();
            Cow::Owned(quoted[1..quoted.len() - 1].to_owned())
        }
    }
}

/// `application/x-www-form-urlencoded`.
pub fn form(value: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        match byte {
            b' ' => out.push('+'),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'*' | b'-' | b'.' | b'_' => out.push(char::from(byte)),
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_go_into_their_places() {
        let value = |name: &str| (name == "a.b").then(|| "x \"y\"&é".to_owned());
        let check = |text: &str, escape| Template::parse(text).unwrap().fill(escape, &value);
        assert_eq!(check("<{{ a.b }}>", Escape::None), Ok("<x \"y\"&é>".into()));
        assert_eq!(check("\"{{a.b}}\"", Escape::Json), Ok("\"x \\\"y\\\"&é\"".into()));
        assert_eq!(form("x \"y\"&é"), "x+%22y%22%26%C3%A9");
        assert_eq!(check("{{c}}", Escape::None), Err("c".into()));
        assert_eq!(Template::parse("{{a}}{{b}}").unwrap().names().collect::<Vec<_>>(), ["a", "b"]);
        for bad in ["{{a", "{{}}", "{{a b}}", "{{a\"}}"] {
            assert!(Template::parse(bad).is_err(), "{bad}");
        }
    }
}
