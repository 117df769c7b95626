//! JSON (RFC 8259), as far as the API speaks it: values are built and written, small documents of strangers are read.

use std::fmt::Write as _;

/// Values within values that are read.
const DEPTH_MAX: usize = 16;

/// A value. Objects keep their order.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(i64),
    /// A number with a fraction or an exponent, as written.
    Odd(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl From<bool> for Json {
    fn from(value: bool) -> Json {
        Json::Bool(value)
    }
}

impl From<u64> for Json {
    fn from(value: u64) -> Json {
        Json::Number(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Json {
    fn from(value: u32) -> Json {
        Json::Number(value.into())
    }
}

impl From<&str> for Json {
    fn from(value: &str) -> Json {
        Json::Text(value.to_string())
    }
}

impl From<String> for Json {
    fn from(value: String) -> Json {
        Json::Text(value)
    }
}

/// An object from pairs.
#[macro_export]
macro_rules! json_object {
    ($($name:literal: $value:expr),* $(,)?) => {
        $crate::api::json::Json::Object(vec![$(($name.to_string(), $crate::api::json::Json::from($value))),*])
    };
}

impl Json {
    /// The members of an object.
    pub fn members(&self) -> Option<&[(String, Json)]> {
        if let Json::Object(members) = self { Some(members) } else { None }
    }

    /// A member of an object.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.members()?.iter().find(|(have, _)| have == name).map(|(_, value)| value)
    }

    /// As text, without white space.
    pub fn render(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Number(value) => {
                // Writing to a string cannot fail.
                let _ = write!(out, "{value}");
            }
            Json::Odd(text) => out.push_str(text),
            Json::Text(text) => quote(text, out),
            Json::List(values) => {
                out.push('[');
                for (at, value) in values.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    value.write(out);
                }
                out.push(']');
            }
            Json::Object(members) => {
                out.push('{');
                for (at, (name, value)) in members.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    quote(name, out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// Reads a document; `None` if it is none.
    pub fn parse(text: &[u8]) -> Option<Json> {
        let text = std::str::from_utf8(text).ok()?;
        let mut reader = Reader { rest: text };
        let value = reader.value(0)?;
        reader.space();
        reader.rest.is_empty().then_some(value)
    }
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

struct Reader<'t> {
    rest: &'t str,
}

impl Reader<'_> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
    }

    fn take(&mut self, text: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        self.space();
        if depth > DEPTH_MAX {
            return None;
        }
        match self.rest.as_bytes().first()? {
            b'n' => self.take("null").map(|()| Json::Null),
            b't' => self.take("true").map(|()| Json::Bool(true)),
            b'f' => self.take("false").map(|()| Json::Bool(false)),
            b'"' => self.text().map(Json::Text),
            b'[' => self.list(depth),
            b'{' => self.object(depth),
            _ => self.number(),
        }
    }

    fn list(&mut self, depth: usize) -> Option<Json> {
        self.take("[")?;
        let mut values = Vec::new();
        self.space();
        if self.take("]").is_some() {
            return Some(Json::List(values));
        }
        loop {
            values.push(self.value(depth + 1)?);
            self.space();
            if self.take("]").is_some() {
                return Some(Json::List(values));
            }
            self.take(",")?;
        }
    }

    fn object(&mut self, depth: usize) -> Option<Json> {
        self.take("{")?;
        let mut members = Vec::new();
        self.space();
        if self.take("}").is_some() {
            return Some(Json::Object(members));
        }
        loop {
            self.space();
            let name = self.text()?;
            self.space();
            self.take(":")?;
            members.push((name, self.value(depth + 1)?));
            self.space();
            if self.take("}").is_some() {
                return Some(Json::Object(members));
            }
            self.take(",")?;
        }
    }

    fn number(&mut self) -> Option<Json> {
        let end = self.rest.find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'));
        let (text, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        // RFC 8259 §6: no leading zeros.
        if !digits.starts_with(|c: char| c.is_ascii_digit())
            || is_plain && digits.len() > 1 && digits.starts_with('0')
        {
            return None;
        }
        let value = match text.parse::<i64>() {
            Ok(value) if is_plain => Json::Number(value),
            _ => text.parse::<f64>().ok().map(|_| Json::Odd(text.to_string()))?,
        };
        self.rest = rest;
        Some(value)
    }

    fn text(&mut self) -> Option<String> {
        self.take("\"")?;
        let mut out = String::new();
        let mut chars = self.rest.char_indices();
        loop {
            let (at, c) = chars.next()?;
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Some(out);
                }
                '\\' => match chars.next()?.1 {
                    c @ ('"' | '\\' | '/') => out.push(c),
                    'b' => out.push('\u{8}'),
                    'f' => out.push('\u{c}'),
                    'n' => out.push('\n'),
                    'r' => out.push('\r'),
                    't' => out.push('\t'),
                    'u' => {
                        let mut unit =
                            || (0..4).try_fold(0, |sum, _| Some(sum * 16 + chars.next()?.1.to_digit(16)?));
                        let first = unit()?;
                        let code = if (0xd800..0xdc00).contains(&first) {
                            let (backslash, u) = (chars.next()?.1, chars.next()?.1);
                            let mut unit = || {
                                (0..4).try_fold(0, |sum, _| Some(sum * 16 + chars.next()?.1.to_digit(16)?))
                            };
                            let second = unit().filter(|low| (0xdc00..0xe000).contains(low))?;
                            if (backslash, u) != ('\\', 'u') {
                                return None;
                            }
                            0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00)
                        } else {
                            first
                        };
                        out.push(char::from_u32(code)?);
                    }
                    _ => return None,
                },
                c if c < ' ' => return None,
                c => out.push(c),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_read_and_written() {
        let check = |text: &str, want: &str| {
            assert_eq!(
                Json::parse(text.as_bytes()).map(|json| json.render()).as_deref(),
                Some(want),
                "{text}"
            );
        };
        check(" { \"a\" : [ 1 , -2 , true , null ] } ", "{\"a\":[1,-2,true,null]}");
        check("\"\\u00e9\\ud83d\\ude00\\\"\\n\\u0001\"", "\"é😀\\\"\\n\\u0001\"");
        check("[]", "[]");
        check("{}", "{}");
        check("1.5e3", "1.5e3");
    }

    #[test]
    fn what_is_no_document_is_refused() {
        for text in [
            "",
            "{",
            "[1,]",
            "{\"a\"}",
            "{\"a\":1,}",
            "01",
            "-",
            "\"\\x\"",
            "\"\n\"",
            "1 2",
            "tru",
            "\"\\ud800\"",
            "+1",
            ".5",
            "nul",
            "[1 2]",
            "\"a",
        ] {
            assert_eq!(Json::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Json::parse(&[b'['; 1000]), None);
        assert_eq!(Json::parse(b"\"\xff\""), None);
    }
}
