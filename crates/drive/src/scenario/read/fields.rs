//! Single values of a file, by their kinds.

use super::super::keys::{self, Kind, Scope};
use super::super::template::Template;
use super::{Node, Reader, find};
use crate::client::{Fields, Origin, Place, Request, Url};
use brisk_load::cli::args;
use brisk_load::plan::Think;
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;
use toml::de::DeValue;

impl Reader<'_> {
    pub(super) fn text(&mut self, node: Node<'_>, name: &str) -> Option<(Range<usize>, String)> {
        let value = find(node, name)?;
        match value.get_ref().as_str() {
            Some(text) => Some((value.span(), text.to_owned())),
            None => {
                self.fault(value.span(), format!("\"{name}\" is a text"), format!("write {name} = \"…\""));
                None
            }
        }
    }

    /// One text, or several, each with its place.
    pub(super) fn texts(&mut self, node: Node<'_>, name: &str) -> Vec<(Range<usize>, String)> {
        let Some(value) = find(node, name) else { return Vec::new() };
        let one = |value: &Spanned<DeValue<'_>>| Some((value.span(), value.get_ref().as_str()?.to_owned()));
        let found = match value.get_ref().as_array() {
            Some(list) => list.iter().map(one).collect::<Option<Vec<_>>>().filter(|list| !list.is_empty()),
            None => one(value).map(|one| vec![one]),
        };
        found.unwrap_or_else(|| {
            let help = format!("write {name} = \"…\" or {name} = [\"…\", \"…\"]");
            self.fault(value.span(), format!("\"{name}\" is a text, or several"), help);
            Vec::new()
        })
    }

    pub(super) fn bool(&mut self, node: Node<'_>, name: &str) -> Option<bool> {
        let value = find(node, name)?;
        let bool = value.get_ref().as_bool();
        if bool.is_none() {
            self.fault(value.span(), format!("\"{name}\" is true or false"), "without quotes");
        }
        bool
    }

    pub(super) fn count(&mut self, node: Node<'_>, scope: Scope, name: &str) -> Option<u64> {
        let value = find(node, name)?;
        let number = value
            .get_ref()
            .as_integer()
            .and_then(|number| number.as_str().replace('_', "").parse::<u64>().ok());
        let (least, most) = keys::bounds(scope, name);
        let number = number.filter(|number| (least..=most).contains(number));
        if number.is_none() {
            let help = if most > u64::from(u32::MAX) {
                format!("at least {least}")
            } else {
                format!("between {least} and {most}")
            };
            self.fault(value.span(), format!("\"{name}\" is a whole number"), help);
        }
        number
    }

    pub(super) fn number(&mut self, node: Node<'_>, scope: Scope, name: &str) -> Option<f64> {
        let value = find(node, name)?;
        let (_, most) = keys::bounds(scope, name);
        let number = seconds(value.get_ref()).filter(|number| *number > 0.0 && *number <= most as f64);
        if number.is_none() {
            self.fault(
                value.span(),
                format!("\"{name}\" is a number above 0"),
                format!("write {name} = 2.0; {most} at most"),
            );
        }
        number
    }

    /// A number that may be 0.
    pub(super) fn rate(&mut self, node: Node<'_>, scope: Scope, name: &str) -> Option<f64> {
        let value = find(node, name)?;
        let (_, most) = keys::bounds(scope, name);
        let number = seconds(value.get_ref()).filter(|number| (0.0..=most as f64).contains(number));
        if number.is_none() {
            let help = format!("write {name} = 40; {most} at most");
            self.fault(value.span(), format!("\"{name}\" is a number, 0 or more"), help);
        }
        number
    }

    pub(super) fn time(&mut self, node: Node<'_>, name: &str) -> Option<Duration> {
        let value = find(node, name)?;
        if let Some(time) = time_of(value.get_ref()) {
            return Some(time);
        }
        self.fault(
            value.span(),
            format!("\"{name}\" is a time"),
            format!("write {name} = \"500ms\", \"10s\" or \"2m\""),
        );
        None
    }

    /// A time that is not nothing.
    pub(super) fn span(&mut self, node: Node<'_>, name: &str) -> Option<Duration> {
        let time = self.time(node, name)?;
        if time.is_zero() {
            let span = find(node, name).map_or(0..0, Spanned::span);
            self.fault(span, format!("\"{name}\" is above 0"), format!("write {name} = \"10s\""));
            return None;
        }
        Some(time)
    }

    pub(super) fn think(&mut self, node: Node<'_>, name: &str) -> Option<Think> {
        let value = find(node, name)?;
        let think = match value.get_ref() {
            DeValue::String(text) => args::think(text).ok(),
            number => time_of(number).map(Think::Constant),
        };
        match think {
            Some(think) => Some(think),
            None => {
                let help = format!(
                    "write {name} = \"1s\", \"1s..3s\" (anything between) or \"exp:2s\" (exponential)"
                );
                self.fault(value.span(), format!("\"{name}\" is a pause"), help);
                None
            }
        }
    }

    pub(super) fn one_of(&mut self, node: Node<'_>, scope: Scope, name: &str) -> Option<&'static str> {
        let (span, text) = self.text(node, name)?;
        let Some(Kind::One(values)) = keys::of(scope).find(|key| key.name == name).map(|key| key.kind) else {
            return None;
        };
        let value = values.iter().find(|value| **value == text);
        if value.is_none() {
            self.fault(
                span,
                format!("\"{text}\" is not a value of \"{name}\""),
                format!("one of: {}", values.join(", ")),
            );
        }
        value.copied()
    }

    pub(super) fn template(&mut self, node: Node<'_>, name: &str) -> Option<Template> {
        let (span, text) = self.text(node, name)?;
        self.place(span, &text)
    }

    pub(super) fn place(&mut self, span: Range<usize>, text: &str) -> Option<Template> {
        match Template::parse(text) {
            Ok(template) => Some(template),
            Err(error) => {
                self.fault(span, error, "values are written {{name}} or {{data.column}}");
                None
            }
        }
    }

    /// Names with texts; numbers and truth values count as texts.
    pub(super) fn pairs(&mut self, node: Node<'_>, name: &str) -> Vec<(Range<usize>, String, String)> {
        let Some(value) = find(node, name) else { return Vec::new() };
        let Some(table) = value.get_ref().as_table() else {
            self.fault(
                value.span(),
                format!("\"{name}\" is a table"),
                format!("write {name} = {{ a = \"…\", b = \"…\" }}"),
            );
            return Vec::new();
        };
        let mut pairs = Vec::new();
        for (key, value) in table {
            match plain(value.get_ref()) {
                Some(text) => pairs.push((value.span(), key.get_ref().to_string(), text)),
                None => {
                    self.fault(value.span(), format!("\"{}\" is a text", key.get_ref()), "put it in quotes");
                }
            }
        }
        pairs
    }

    /// Header fields.
    pub(super) fn headers(&mut self, node: Node<'_>) -> Vec<(String, Template)> {
        let mut fields = Vec::new();
        for (span, name, text) in self.pairs(node, "headers") {
            // What a value will be is checked when it is there.
            let field = Fields(vec![(name.clone(), text.clone())]);
            let request = Request { fields: field, ..Request::get(example()) };
            if request.fault().is_some() {
                let help = "a name is one word, and a value one line";
                self.fault(span, format!("the header \"{}\" cannot be sent", name.escape_debug()), help);
            } else if let Some(template) = self.place(span, &text) {
                fields.push((name, template));
            }
        }
        fields
    }

    /// Tables of a list, with their places.
    pub(super) fn tables<'n>(&mut self, node: Node<'n>, name: &str) -> Vec<(Range<usize>, Node<'n>)> {
        let Some(value) = find(node, name) else { return Vec::new() };
        let list = value.get_ref().as_array();
        let tables: Option<Vec<_>> = list.and_then(|list| {
            list.iter().map(|item| Some((item.span(), item.get_ref().as_table()?))).collect()
        });
        tables.filter(|tables| !tables.is_empty()).unwrap_or_else(|| {
            self.fault(
                value.span(),
                format!("\"{name}\" is a list of tables"),
                format!("write [[{name}]] with two brackets"),
            );
            Vec::new()
        })
    }
}

/// A URL to try things on.
pub(super) fn example() -> Url {
    let place = Place::Name("localhost".to_owned(), 80);
    Url { origin: Origin { secure: false, place }, path: "/".to_owned() }
}

/// A number of any kind.
fn seconds(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Integer(_) | DeValue::Float(_) => plain(value)?.parse().ok(),
        _ => None,
    }
}

/// A time: a text, or a number of seconds.
fn time_of(value: &DeValue<'_>) -> Option<Duration> {
    match value {
        DeValue::String(text) => args::duration(text).ok(),
        number => {
            let time = Duration::try_from_secs_f64(seconds(number)?).ok()?;
            (time <= Duration::from_secs(keys::LENGTH_SECS_MAX)).then_some(time)
        }
    }
}

/// A text, number or truth value as text.
pub(super) fn plain(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.as_str().replace('_', "")),
        DeValue::Float(number) => Some(number.as_str().replace('_', "")),
        DeValue::Boolean(on) => Some(on.to_string()),
        _ => None,
    }
}

/// As JSON, for bodies.
pub(super) fn json(value: &DeValue<'_>) -> serde_json::Value {
    use serde_json::Value;
    match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Integer(number) => {
            number.as_str().replace('_', "").parse::<i64>().map_or(Value::Null, Value::from)
        }
        DeValue::Float(number) => {
            number.as_str().replace('_', "").parse::<f64>().map_or(Value::Null, Value::from)
        }
        DeValue::Boolean(on) => Value::from(*on),
        DeValue::Datetime(date) => Value::from(date.to_string()),
        DeValue::Array(list) => list.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(table) => Value::Object(
            table.iter().map(|(key, value)| (key.get_ref().to_string(), json(value.get_ref()))).collect(),
        ),
    }
}
