//! JSON as tokens and key sets have it: names that are given twice, and nesting without end, are refused.
//!
//! Of two members with one name each reader may believe another (RFC 8259 §4, RFC 7515 §4): whoever checks a token and
//! whoever uses it must see the same.

use crate::limits::JSON_DEPTH_MAX;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true`, `false`.
    Bool(bool),
    /// A negative integer.
    Integer(i64),
    /// Another integer that fits.
    Natural(u64),
    /// Another number.
    Float(f64),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object; of equal names the last counts.
    Object(BTreeMap<String, Json>),
}

/// Recursion is bounded by [`JSON_DEPTH_MAX`], since a stranger's token decides how deep it goes.
impl Json {
    /// Reads one value that is all of `text`.
    pub fn parse(text: &[u8]) -> Result<Json, serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_slice(text);
        let value = Depth(JSON_DEPTH_MAX).deserialize(&mut reader)?;
        // Something behind the value would be read by one reader and not by another.
        reader.end()?;
        Ok(value)
    }

    /// A member of an object.
    pub fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.get(name),
            _ => None,
        }
    }

    /// The text, if it is a string.
    pub fn text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Json::Integer(value) => Some(*value as f64),
            Json::Natural(value) => Some(*value as f64),
            Json::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// As the value of a variable: text as it is, the elements of a list with commas between them, objects as JSON.
    pub fn append(&self, out: &mut Vec<u8>) {
        // As nginx Plus shows them, so that `map` and `if` can compare.
        match self {
            Json::Text(text) => out.extend_from_slice(text.as_bytes()),
            Json::List(list) => {
                for (at, value) in list.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    value.append(out);
                }
            }
            other => out.extend_from_slice(other.to_string().as_bytes()),
        }
    }
}

fn quoted(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut escaped = Vec::with_capacity(text.len());
    brisk_server::text::escape_json(text.as_bytes(), &mut escaped);
    write!(f, "\"{}\"", String::from_utf8_lossy(&escaped))
}

/// Compact JSON.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(value) => value.fmt(f),
            Json::Integer(value) => value.fmt(f),
            Json::Natural(value) => value.fmt(f),
            Json::Float(value) => value.fmt(f),
            Json::Text(text) => quoted(text, f),
            Json::List(list) => {
                f.write_str("[")?;
                for (at, value) in list.iter().enumerate() {
                    write!(f, "{}{value}", if at > 0 { "," } else { "" })?;
                }
                f.write_str("]")
            }
            Json::Object(members) => {
                f.write_str("{")?;
                for (at, (name, value)) in members.iter().enumerate() {
                    f.write_str(if at > 0 { "," } else { "" })?;
                    quoted(name, f)?;
                    write!(f, ":{value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

/// Reads a value that may have so many levels.
#[derive(Clone, Copy)]
struct Depth(u8);

impl<'de> DeserializeSeed<'de> for Depth {
    type Value = Json;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Json, D::Error> {
        reader.deserialize_any(self)
    }
}

impl Depth {
    fn inner<E: serde::de::Error>(self) -> Result<Depth, E> {
        self.0.checked_sub(1).map(Depth).ok_or_else(|| E::custom("too many levels"))
    }
}

impl<'de> Visitor<'de> for Depth {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Natural(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let inner = self.inner()?;
        let mut list = Vec::new();
        while let Some(value) = items.next_element_seed(inner)? {
            list.push(value);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let inner = self.inner()?;
        let mut members = BTreeMap::new();
        while let Some(name) = items.next_key::<String>()? {
            let value = items.next_value_seed(inner)?;
            // The last one would win here, the first one elsewhere.
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom("a name is given twice"));
            }
        }
        Ok(Json::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_strictly() {
        let check = |text: &str, want: Option<&str>| {
            let got = Json::parse(text.as_bytes()).ok().map(|value| value.to_string());
            assert_eq!(got.as_deref(), want, "{text}");
        };
        check("{}", Some("{}"));
        check(
            r#" {"b":[1,-2,1.5,true,null,"x\"\n"],"a":{}} "#,
            Some(r#"{"a":{},"b":[1,-2,1.5,true,null,"x\"\n"]}"#),
        );
        check("18446744073709551615", Some("18446744073709551615"));
        check(r#"{"a":1,"a":1}"#, None);
        check(r#"{"x":{"a":1,"\u0061":2}}"#, None);
        check("{} {}", None);
        check("{", None);
        check("", None);
        check("1e999", None);
        check("\"\u{0}\"", None);
        check(&("[".repeat(16) + &"]".repeat(16)), Some(&("[".repeat(16) + &"]".repeat(16))));
        check(&("[".repeat(17) + &"]".repeat(17)), None);
        check(&"[".repeat(1_000_000), None);
        assert!(Json::parse(b"\"\xff\"").is_err());
    }

    #[test]
    fn values_of_variables() {
        let check = |text: &str, want: &str| {
            let mut out = Vec::new();
            Json::parse(text.as_bytes()).unwrap().append(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), want);
        };
        check(r#""a \"b\"""#, "a \"b\"");
        check(r#"["a",1,["b",false]]"#, "a,1,b,false");
        check(r#"{"a":"b"}"#, r#"{"a":"b"}"#);
        check("1700000000", "1700000000");
    }
}
