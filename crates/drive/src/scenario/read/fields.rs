//! Single values of a file, by their kinds.

use super::super::keys::{self, Kind, Scope};
use super::super::template::Template;
use super::{Node, Reader, find};
use brisk_load::cli::args;
use brisk_load::plan::Think;
use std::ops::Range;
use std::time::Duration;
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

    pub(super) fn bool(&mut self, node: Node<'_>, name: &str) -> Option<bool> {
        let value = find(node, name)?;
        let bool = value.get_ref().as_bool();
        if bool.is_none() {
            self.fault(value.span(), format!("\"{name}\" is true or false"), "without quotes");
        }
        bool
    }

    pub(super) fn count(&mut self, node: Node<'_>, name: &str, most: u64) -> Option<u64> {
        let value = find(node, name)?;
        let number = value
            .get_ref()
            .as_integer()
            .and_then(|number| number.as_str().replace('_', "").parse::<u64>().ok());
        let number = number.filter(|number| (1..=most).contains(number));
        if number.is_none() {
            let help =
                if most == u64::MAX { "at least 1".to_owned() } else { format!("between 1 and {most}") };
            self.fault(value.span(), format!("\"{name}\" is a whole number"), help);
        }
        number
    }

    pub(super) fn number(&mut self, node: Node<'_>, name: &str) -> Option<f64> {
        let value = find(node, name)?;
        let number = plain(value.get_ref()).and_then(|text| text.parse::<f64>().ok());
        let number = number.filter(|number| *number > 0.0 && *number <= 1e6);
        if number.is_none() {
            self.fault(
                value.span(),
                format!("\"{name}\" is a number above 0"),
                format!("write {name} = 2.0"),
            );
        }
        number
    }

    pub(super) fn time(&mut self, node: Node<'_>, name: &str) -> Option<Duration> {
        let value = find(node, name)?;
        let time = plain(value.get_ref()).map(|text| args::duration(&text));
        match time {
            Some(Ok(time)) => Some(time),
            _ => {
                self.fault(
                    value.span(),
                    format!("\"{name}\" is a time"),
                    format!("write {name} = \"500ms\", \"10s\" or \"2m\""),
                );
                None
            }
        }
    }

    pub(super) fn think(&mut self, node: Node<'_>, name: &str) -> Option<Think> {
        let value = find(node, name)?;
        match plain(value.get_ref()).map(|text| args::think(&text)) {
            Some(Ok(think)) => Some(think),
            _ => {
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
                    self.fault(value.span(), format!("\"{}\" is a text", key.get_ref()), "put it in quotes")
                }
            }
        }
        pairs
    }

    pub(super) fn templates(&mut self, node: Node<'_>, name: &str) -> Vec<(String, Template)> {
        let pairs = self.pairs(node, name);
        pairs.into_iter().filter_map(|(span, name, text)| Some((name, self.place(span, &text)?))).collect()
    }

    /// Tables of a list, with their places.
    pub(super) fn tables<'n>(&mut self, node: Node<'n>, name: &str) -> Vec<(Range<usize>, Node<'n>)> {
        let Some(value) = find(node, name) else { return Vec::new() };
        let list = value.get_ref().as_array();
        let tables: Option<Vec<_>> = list.and_then(|list| {
            list.iter().map(|item| Some((item.span(), item.get_ref().as_table()?))).collect()
        });
        tables.unwrap_or_else(|| {
            self.fault(
                value.span(),
                format!("\"{name}\" is a list of tables"),
                format!("write [[{name}]] with two brackets"),
            );
            Vec::new()
        })
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
