//! What is done with an answer: extractors become values to save, assertions checks.

use super::tree::Element;
use super::values::{Values, name_of};
use crate::scenario::extract;
use crate::scenario::import::written::{status_check, toml_text};
use regex::Regex;
use std::ops::Range;

/// What a step does with its answer.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// Names, with where their values are.
    save: Vec<(String, String)>,
    /// What these are where an answer has none.
    otherwise: Vec<(String, String)>,
    /// Those that assertions let pass.
    statuses: Option<Vec<u16>>,
    /// An assertion ignores the status.
    ignores_status: bool,
    contains: Vec<String>,
    lacks: Vec<String>,
    matches: Vec<String>,
    equal: Vec<(String, String)>,
    within_ms: Option<f64>,
}

/// Bits of an assertion's type: it is turned round; one of its texts is enough.
const NOT: u32 = 4;
const ANY: u32 = 32;

/// Statuses that end an exchange.
const KNOWN: Range<u16> = 200..600;

/// Whether an element works on answers.
pub fn is_of_answers(kind: &str) -> bool {
    matches!(
        kind,
        "RegexExtractor"
            | "JSONPostProcessor"
            | "BoundaryExtractor"
            | "JMESPathExtractor"
            | "ResponseAssertion"
            | "DurationAssertion"
            | "JSONPathAssertion"
    )
}

impl Answer {
    /// Adds an extractor or assertion; what is not meant as JMeter does goes into `notes`. The error begins with its line.
    pub fn add(
        &mut self,
        element: &Element<'_>,
        values: &Values,
        notes: &mut Vec<String>,
    ) -> Result<(), String> {
        match element.text("Sample.scope") {
            "" | "parent" => {}
            "all" => notes
                .push(element.fault("it looks at the request's own answer, not at what the page refers to")),
            _ => {
                return Err(element.fault(
                    "it looks at the request's own answer, which is what is supported: not at a variable, nor at what the page refers to",
                ));
            }
        }
        match element.kind() {
            "RegexExtractor" => self.regex(element, values, notes),
            "BoundaryExtractor" => self.boundary(element, values, notes),
            "JSONPostProcessor" => self.json(element, values, notes),
            "JMESPathExtractor" => {
                let path = format!("$.{}", element.text("JMESExtractor.jmesPathExpr"));
                let (name, default) =
                    (element.text("JMESExtractor.referenceName"), element.text("JMESExtractor.defaultValue"));
                self.json_path(element, &path, name, default, values)
            }
            "ResponseAssertion" => self.response(element, values),
            "JSONPathAssertion" => self.json_assertion(element, values),
            _ => {
                self.within_ms = Some(values.number(element, "DurationAssertion.duration")?);
                Ok(())
            }
        }
    }

    fn keep(
        &mut self,
        element: &Element<'_>,
        name: &str,
        source: String,
        default: &str,
        values: &Values,
    ) -> Result<(), String> {
        let default = values.literal(default).map_err(|why| element.fault(why))?;
        let name = name_of(name);
        if name.is_empty() {
            return Err(element.fault("it names no variable"));
        }
        self.otherwise.push((name.clone(), default));
        self.save.push((name, source));
        Ok(())
    }

    fn regex(
        &mut self,
        element: &Element<'_>,
        values: &Values,
        notes: &mut Vec<String>,
    ) -> Result<(), String> {
        let text = |name: &str| element.text(&format!("RegexExtractor.{name}"));
        which(element, text("match_number"), notes)?;
        let pattern = values.literal(text("regex")).map_err(|why| element.fault(why))?;
        let template = text("template");
        let group = template.trim_matches('$').parse::<usize>().ok().filter(|_| template.len() >= 3);
        let group = group.or(template.is_empty().then_some(1));
        let group = group.ok_or_else(|| element.fault("a template is one group, as $1$"))?;
        let pattern = nth_group(&pattern, group);
        sound(element, &pattern)?;
        let source = match text("useHeaders") {
            "" | "false" | "unescaped" | "as_document" => format!("regex:{pattern}"),
            "true" => header(&pattern).ok_or_else(|| element.fault("of headers, a pattern is Name: (.+)"))?,
            "code" => "status".to_owned(),
            _ => {
                return Err(
                    element.fault("it is understood of the body, of headers and of the response code")
                );
            }
        };
        self.keep(element, text("refname"), source, text("default"), values)
    }

    fn boundary(
        &mut self,
        element: &Element<'_>,
        values: &Values,
        notes: &mut Vec<String>,
    ) -> Result<(), String> {
        let text = |name: &str| element.text(&format!("BoundaryExtractor.{name}"));
        which(element, text("match_number"), notes)?;
        let edge = |name: &str| {
            values.literal(text(name)).map(|edge| regex::escape(&edge)).map_err(|why| element.fault(why))
        };
        let pattern = format!("(?s){}(.*?){}", edge("lboundary")?, edge("rboundary")?);
        self.keep(element, text("refname"), format!("regex:{pattern}"), text("default"), values)
    }

    fn json(
        &mut self,
        element: &Element<'_>,
        values: &Values,
        notes: &mut Vec<String>,
    ) -> Result<(), String> {
        let list = |name: &str| -> Vec<&str> {
            element.text(&format!("JSONPostProcessor.{name}")).split(';').map(str::trim).collect()
        };
        let (names, paths, defaults) = (list("referenceNames"), list("jsonPathExprs"), list("defaultValues"));
        for number in list("match_numbers") {
            which(element, number, notes)?;
        }
        if names.len() != paths.len() {
            return Err(element.fault("it has as many paths as names"));
        }
        for (at, (name, path)) in names.iter().zip(&paths).enumerate() {
            self.json_path(element, path, name, defaults.get(at).copied().unwrap_or_default(), values)?;
        }
        Ok(())
    }

    fn json_path(
        &mut self,
        element: &Element<'_>,
        path: &str,
        name: &str,
        default: &str,
        values: &Values,
    ) -> Result<(), String> {
        let path = json_path(element, path, values)?;
        self.keep(element, name, format!("json:{path}"), default, values)
    }

    fn json_assertion(&mut self, element: &Element<'_>, values: &Values) -> Result<(), String> {
        if ["INVERT", "ISREGEX", "EXPECT_NULL"].iter().any(|name| element.is(name))
            && !is_plain_default(element)
        {
            return Err(element.fault(
                "inverted, null and regular expressions are not supported: a path with its value is",
            ));
        }
        let path = json_path(element, element.text("JSON_PATH"), values)?;
        if element.is("JSONVALIDATION") {
            let want = values.places(element.text("EXPECTED_VALUE")).map_err(|why| element.fault(why))?;
            self.equal.push((format!("json:{path}"), want));
        } else {
            // A value that cannot be saved fails its step.
            self.save.push((format!("_found_{}", self.save.len() + 1), format!("json:{path}")));
        }
        Ok(())
    }

    fn response(&mut self, element: &Element<'_>, values: &Values) -> Result<(), String> {
        self.ignores_status |= element.is("Assertion.assume_success");
        let kind = element.text("Assertion.test_type").parse::<u32>().unwrap_or(2);
        let (is_not, is_any) = (kind & NOT != 0, kind & ANY != 0);
        // JMeter writes the name so.
        let mut texts: Vec<&str> =
            element.list("Asserion.test_strings").iter().map(Element::own_text).collect();
        texts.extend(element.list("Assertion.test_strings").iter().map(Element::own_text));
        let field = element.text("Assertion.test_field");
        match field.strip_prefix("Assertion.").unwrap_or(field) {
            "response_code" => self.statuses(element, &texts, kind, values),
            "response_data" | "response_data_as_document" => {
                let texts: Result<Vec<String>, String> =
                    texts.iter().map(|text| values.places(text).map_err(|why| element.fault(why))).collect();
                self.body(element, &texts?, kind & !(NOT | ANY), is_not, is_any)
            }
            _ => Err(element.fault("it is understood of the response code and of the body")),
        }
    }

    fn body(
        &mut self,
        element: &Element<'_>,
        texts: &[String],
        kind: u32,
        is_not: bool,
        is_any: bool,
    ) -> Result<(), String> {
        let pattern = |text: &str| match kind {
            1 => format!(r"(?s)\A(?:{text})\z"),
            2 => format!("(?s){text}"),
            8 => format!(r"\A{}\z", regex::escape(text)),
            _ => regex::escape(text),
        };
        match (kind, is_not, is_any) {
            (16, true, false) => self.lacks.extend(texts.iter().cloned()),
            (_, true, _) => return Err(element.fault("\"not\" is understood of substrings alone")),
            (16, false, false) => self.contains.extend(texts.iter().cloned()),
            (8, false, false) => {
                self.equal.extend(texts.iter().map(|text| ("body".to_owned(), text.clone())));
            }
            _ => {
                if texts.iter().any(|text| text.contains("{{")) {
                    return Err(element.fault("a pattern holds no values: use a substring"));
                }
                let patterns: Vec<String> = texts.iter().map(|text| pattern(text)).collect();
                let patterns = if is_any { vec![format!("(?:{})", patterns.join("|"))] } else { patterns };
                for pattern in &patterns {
                    sound(element, pattern)?;
                }
                self.matches.extend(patterns);
            }
        }
        Ok(())
    }

    /// All statuses that an assertion lets pass.
    fn statuses(
        &mut self,
        element: &Element<'_>,
        texts: &[&str],
        kind: u32,
        values: &Values,
    ) -> Result<(), String> {
        let mut tests = Vec::new();
        for text in texts {
            let text = values.literal(text).map_err(|why| element.fault(why))?;
            let pattern = match kind & !(NOT | ANY) {
                1 => format!("^(?:{text})$"),
                2 => text,
                8 => format!("^{}$", regex::escape(&text)),
                _ => regex::escape(&text),
            };
            tests.push(Regex::new(&pattern).map_err(|error| element.fault(error))?);
        }
        let passes = |status: &u16| {
            let text = status.to_string();
            let has = |test: &Regex| test.is_match(&text) != (kind & NOT != 0);
            if kind & ANY != 0 { tests.iter().any(has) } else { tests.iter().all(has) }
        };
        let known = self.statuses.take().unwrap_or_else(|| KNOWN.collect());
        self.statuses = Some(known.into_iter().filter(passes).collect());
        Ok(())
    }

    /// What no assertion fails; `None`: none asks. JMeter fails 4xx and 5xx by itself, unless an assertion says that it is to ignore the status.
    fn good_statuses(&self) -> Option<Vec<u16>> {
        let asked = self.statuses.clone().or_else(|| self.ignores_status.then(|| KNOWN.collect()))?;
        Some(asked.into_iter().filter(|&status| self.ignores_status || status < 400).collect())
    }

    /// Whether every answer to this sampler would be a failure, and why. The error begins with its line.
    pub fn check(&self, sampler: &Element<'_>) -> Result<(), String> {
        if self.good_statuses().is_some_and(|good| good.is_empty()) {
            return Err(sampler.fault(
                "no status passes its assertions: 4xx and 5xx do only where one of them ignores the status",
            ));
        }
        Ok(())
    }

    /// As lines of a step.
    pub fn lines(&self, follows_redirects: bool) -> Vec<String> {
        let table = |pairs: &[(String, String)]| {
            let mut seen = std::collections::BTreeSet::new();
            // The last of one name is the one that counts.
            let mut kept: Vec<String> = pairs
                .iter()
                .rev()
                .filter(|(name, _)| seen.insert(name.clone()))
                .map(|(name, value)| format!("{} = {}", toml_text(name), toml_text(value)))
                .collect();
            kept.reverse();
            format!("{{ {} }}", kept.join(", "))
        };
        let list = |texts: &[String]| {
            let texts: Vec<String> = texts.iter().map(|text| toml_text(text)).collect();
            format!("[{}]", texts.join(", "))
        };
        let mut checks = Vec::new();
        // A redirect that is asked for is not followed.
        let redirects_too = || (!follows_redirects).then(|| (200..400).collect());
        let good = self.good_statuses().or_else(redirects_too);
        checks.extend(good.map(|good| status_check(&good, follows_redirects)));
        for (name, texts) in
            [("contains", &self.contains), ("lacks", &self.lacks), ("matches", &self.matches)]
        {
            if !texts.is_empty() {
                checks.push(format!("{name} = {}", list(texts)));
            }
        }
        if !self.equal.is_empty() {
            checks.push(format!("equal = {}", table(&self.equal)));
        }
        checks.extend(self.within_ms.map(|ms| format!("within = \"{ms}ms\"")));
        let mut lines = Vec::new();
        if !self.save.is_empty() {
            lines.push(format!("save = {}", table(&self.save)));
        }
        if !self.otherwise.is_empty() {
            lines.push(format!("otherwise = {}", table(&self.otherwise)));
        }
        if !checks.is_empty() {
            lines.push(format!("check = {{ {} }}", checks.join(", ")));
        }
        lines
    }
}

/// JMeter writes ISREGEX as true where nothing was chosen, and it holds for expected values alone.
fn is_plain_default(element: &Element<'_>) -> bool {
    let value = element.text("EXPECTED_VALUE");
    let is_text = !value.contains(['\\', '.', '*', '+', '?', '(', ')', '[', ']', '{', '}', '|', '^', '$']);
    !element.is("INVERT") && !element.is("EXPECT_NULL") && (is_text || !element.is("JSONVALIDATION"))
}

/// The number of the match that is wanted: the first is understood.
fn which(element: &Element<'_>, number: &str, notes: &mut Vec<String>) -> Result<(), String> {
    match number {
        "" | "1" => Ok(()),
        "0" => {
            notes.push(element.fault("the first match is taken, not a random one"));
            Ok(())
        }
        _ => Err(element.fault(format!("match {number} is not supported: the first is (1)"))),
    }
}

fn json_path(element: &Element<'_>, path: &str, values: &Values) -> Result<String, String> {
    let path = values.literal(path).map_err(|why| element.fault(why))?;
    extract::path(&path).map_err(|why| element.fault(why))?;
    Ok(path)
}

fn sound(element: &Element<'_>, pattern: &str) -> Result<(), String> {
    regex::bytes::Regex::new(pattern).map(drop).map_err(|error| element.fault(error))
}

/// The pattern with this group as its first: 0 is the whole match.
fn nth_group(pattern: &str, group: usize) -> String {
    if group == 0 {
        return format!("({pattern})");
    }
    let (mut out, mut seen, mut chars, mut in_class) = (String::new(), 0, pattern.chars().peekable(), false);
    while let Some(c) = chars.next() {
        out.push(c);
        match c {
            '\\' => out.extend(chars.next()),
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class && chars.peek() != Some(&'?') => {
                seen += 1;
                if seen < group {
                    out.push_str("?:");
                }
            }
            _ => {}
        }
    }
    out
}

/// `header:Name` of a pattern like `Name: (.+)`.
fn header(pattern: &str) -> Option<String> {
    let (name, rest) = pattern.split_once(':')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let rest = rest.trim_start_matches([' ', '\\', 's', '*', '+']);
    (is_name
        && ["(.+)", "(.*)", "(.+?)", "([^\\r\\n]+)"].contains(&rest.trim_end_matches(['\\', 'r', 'n', '$'])))
    .then(|| format!("header:{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_headers_of_patterns() {
        assert_eq!(nth_group("a(b)(c)", 2), "a(?:b)(c)");
        assert_eq!((nth_group("a(b)", 1), nth_group("a(b)", 0)), ("a(b)".to_owned(), "(a(b))".to_owned()));
        assert_eq!(nth_group(r"\((?:x)[(](y)(z)", 2), r"\((?:x)[(](?:y)(z)");
        assert_eq!(header(r"Location: (.+)").as_deref(), Some("header:Location"));
        assert_eq!(header(r"Set-Cookie:\s*id=(\d+)"), None);
    }
}
