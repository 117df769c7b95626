//! `${name}` and `${__function(…)}`: places for values in a scenario, or what they are where that is known beforehand.

use super::tree::Element;
use crate::limits::DEPTH_MAX;
use std::collections::BTreeMap;

/// What is known of values.
#[derive(Debug, Default)]
pub struct Values {
    /// User defined variables, and their texts.
    pub variables: BTreeMap<String, String>,
    /// Columns of CSV files: what a scenario calls them.
    pub columns: BTreeMap<String, String>,
    /// Properties of the command line (`-J`).
    pub properties: BTreeMap<String, String>,
}

/// A name of a value, in letters that scenarios take.
pub fn name_of(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' };
    name.trim().chars().map(plain).collect()
}

/// The parts of `${…}` in a text: what stands before it, what stands in it, and the rest.
fn cut(text: &str) -> Option<(&str, &str, &str)> {
    let at = text.find("${")?;
    let mut depth = 0;
    for (offset, c) in text[at..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if offset > 0 && depth == 0 && c == '}' {
            return Some((&text[..at], &text[at + 2..at + offset], &text[at + offset + 1..]));
        }
    }
    None
}

impl Values {
    /// A text with places as a scenario has them. The error says what is not understood.
    pub fn places(&self, text: &str) -> Result<String, String> {
        if text.contains("{{") {
            return Err(format!(
                "\"{}\" holds \"{{{{\", which begins a place for a value in scenarios",
                short(text)
            ));
        }
        let (mut out, mut rest) = (String::new(), text);
        while let Some((before, inner, after)) = cut(rest) {
            out.push_str(before);
            out.push_str(&self.place(inner)?);
            rest = after;
        }
        Ok(out + rest)
    }

    fn place(&self, inner: &str) -> Result<String, String> {
        if let Some(function) = inner.strip_prefix("__") {
            return self.function(function);
        }
        let name = inner.trim();
        Ok(match self.columns.get(name) {
            Some(column) => format!("{{{{{column}}}}}"),
            None => format!("{{{{{}}}}}", name_of(name)),
        })
    }

    fn function(&self, text: &str) -> Result<String, String> {
        let (name, arguments) = text.split_once('(').unwrap_or((text, ")"));
        let arguments: Vec<&str> =
            arguments.trim_end().strip_suffix(')').unwrap_or(arguments).split(',').map(str::trim).collect();
        let argument = |at: usize| arguments.get(at).copied().filter(|text| !text.is_empty());
        let value = |name: &str| Ok(format!("{{{{{name}}}}}"));
        match name.trim() {
            "P" | "property" => {
                let name = argument(0).unwrap_or_default();
                let default = if name.is_empty() { None } else { argument(1).or(Some("1")) };
                let found = self.properties.get(name).map(String::as_str).or(default);
                found
                    .map(str::to_owned)
                    .ok_or_else(|| format!("the property {name} has no value: give -J {name}=…"))
            }
            "threadNum" => value("user.number"),
            "UUID" => value("uuid"),
            "time" if argument(0).is_none() => value("time"),
            "counter" => value("user.round"),
            "Random" => match (argument(0), argument(1)) {
                (Some(low), Some(high)) if [low, high].iter().all(|text| text.parse::<i64>().is_ok()) => {
                    value(&format!("random.{low}.{high}"))
                }
                _ => Err(format!("\"${{__{text}}}\" is understood with two whole numbers only")),
            },
            _ => Err(format!(
                "the function \"${{__{text}}}\" is not supported: __P, __threadNum, __counter, __Random, __time and __UUID are"
            )),
        }
    }

    /// A text whose values are known before the run. The error says which are not.
    pub fn literal(&self, text: &str) -> Result<String, String> {
        self.literal_in(text, DEPTH_MAX)
    }

    fn literal_in(&self, text: &str, depth: usize) -> Result<String, String> {
        let (mut out, mut rest) = (String::new(), text);
        while let Some((before, inner, after)) = cut(rest) {
            out.push_str(before);
            let value = match inner.strip_prefix("__") {
                Some(function) => self.function(function)?,
                None => match self.variables.get(inner.trim()) {
                    Some(value) if depth > 0 => self.literal_in(value, depth - 1)?,
                    _ => return Err(format!("the value of ${{{inner}}} is not known before the run")),
                },
            };
            out.push_str(&value);
            rest = after;
        }
        out.push_str(rest);
        if out.contains("{{") { Err(format!("\"{text}\" is not known before the run")) } else { Ok(out) }
    }

    /// A property that is a number; 0 if it is not there. The error begins with the element's line.
    pub fn number(&self, element: &Element<'_>, name: &str) -> Result<f64, String> {
        self.literal_number(element, name, element.text(name))
    }

    /// A text that is a number. The error begins with the element's line.
    pub fn literal_number(&self, element: &Element<'_>, name: &str, text: &str) -> Result<f64, String> {
        let plain = self.literal(text).map_err(|why| element.fault(why))?;
        if plain.trim().is_empty() {
            return Ok(0.0);
        }
        let number = plain.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| element.fault(format!("{name} is \"{plain}\", which is not a number")))
    }
}

fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_places_or_what_they_are() {
        let mut values = Values::default();
        values.variables.insert("host".to_owned(), "${__P(host,shop.test)}".to_owned());
        values.columns.insert("user name".to_owned(), "csv1.user_name".to_owned());
        let places = |text: &str| values.places(text);
        assert_eq!(places("/a/${id}?u=${user name}").unwrap(), "/a/{{id}}?u={{csv1.user_name}}");
        assert_eq!(
            places("${__Random(1,6)} ${__UUID} ${__time()} ${__P(n,7)}").unwrap(),
            "{{random.1.6}} {{uuid}} {{time}} 7"
        );
        assert_eq!(
            (values.literal("http://${host}/").as_deref(), values.literal("${id}").is_err()),
            (Ok("http://shop.test/"), true)
        );
        for bad in ["${__groovy(1+1)}", "${__time(yyyy)}", "${__Random(a,b)}", "a {{b}}"] {
            assert!(places(bad).is_err(), "{bad}");
        }
        assert_eq!(places("price: 5$ {a}").unwrap(), "price: 5$ {a}");
        values.properties.insert("host".to_owned(), "other".to_owned());
        assert_eq!(values.literal("${host}").unwrap(), "other");
        // One that is made of itself has no end.
        values.variables.insert("x".to_owned(), "${x}".to_owned());
        assert!(values.literal("${x}").is_err());
    }
}
