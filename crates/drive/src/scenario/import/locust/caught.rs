//! `with self.client.get(…, catch_response=True) as response:` and the block below it: what makes an answer a failure or a success.

use crate::scenario::import::written::{status_check, toml_text};
use std::collections::BTreeSet;

/// What a condition asks of an answer.
#[derive(Debug, Clone, PartialEq)]
enum Asks {
    /// The status is this.
    Status(u16),
    /// The status is below 400.
    Good,
    /// The body holds this.
    Holds(String),
    /// It took longer than so many seconds.
    Longer(f64),
    /// Nothing: it always holds.
    Always,
}

/// A condition and whether it is meant the other way round.
#[derive(Debug, Clone, PartialEq)]
struct Test {
    asks: Asks,
    is_not: bool,
}

/// The block of one call.
#[derive(Debug)]
pub struct Caught {
    indent: usize,
    /// What the answer is called.
    name: String,
    /// The branch that the lines belong to, and its indent.
    branch: Option<(usize, Test)>,
    /// A test that an `else` turns round.
    last: Option<Test>,
    /// A branch before this one ends in a success: what follows holds for other answers alone.
    has_succeeded: bool,
    statuses: Option<BTreeSet<u16>>,
    contains: Vec<String>,
    lacks: Vec<String>,
    within: Option<f64>,
}

impl Caught {
    /// A block below a line with this indent.
    pub fn new(indent: usize, name: &str) -> Self {
        let name = name.to_owned();
        Self {
            indent,
            name,
            branch: None,
            last: None,
            has_succeeded: false,
            statuses: None,
            contains: Vec::new(),
            lacks: Vec::new(),
            within: None,
        }
    }

    /// Whether a line with this indent is in it.
    pub fn holds(&self, indent: usize) -> bool {
        indent > self.indent
    }

    /// Takes a line; `None`: it is not understood.
    pub fn line(&mut self, indent: usize, text: &str) -> Option<()> {
        if self.branch.as_ref().is_some_and(|(of, _)| indent <= *of) {
            self.branch = None;
        }
        let condition = |keyword: &str| text.strip_prefix(keyword)?.strip_suffix(':');
        if text == "else:" {
            let last = self.last.clone()?;
            self.branch = Some((indent, Test { is_not: !last.is_not, ..last }));
            return Some(());
        }
        if let Some(condition) = condition("if ").or_else(|| condition("elif ")) {
            if text.starts_with("elif ") && self.has_succeeded {
                return None;
            }
            self.has_succeeded = false;
            let test = self.test(condition.trim())?;
            self.last = Some(test.clone());
            self.branch = Some((indent, test));
            return Some(());
        }
        let is_call = |verb: &str| {
            text.strip_prefix(self.name.as_str()).is_some_and(|rest| rest.starts_with(&format!(".{verb}(")))
        };
        let test =
            self.branch.as_ref().map_or(Test { asks: Asks::Always, is_not: false }, |(_, test)| test.clone());
        match () {
            () if is_call("failure") => self.fails(test),
            () if is_call("success") => {
                self.has_succeeded = true;
                self.succeeds(test)
            }
            () if text == "pass" => Some(()),
            () => None,
        }
    }

    fn test(&self, condition: &str) -> Option<Test> {
        let (condition, outer_not) =
            condition.strip_prefix("not ").map_or((condition, false), |rest| (rest.trim(), true));
        let of = |rest: &str| -> Option<String> {
            condition.strip_prefix(&format!("{}{rest}", self.name)).map(str::trim).map(str::to_owned)
        };
        let test = |asks, is_not: bool| Some(Test { asks, is_not: is_not != outer_not });
        if let Some(rest) = of(".status_code") {
            let (is_not, number) = match rest.split_at_checked(2)? {
                ("==", number) => (false, number),
                ("!=", number) => (true, number),
                (">=", number) if number.trim() == "400" => return test(Asks::Good, true),
                _ => return None,
            };
            return test(Asks::Status(number.trim().parse().ok()?), is_not);
        }
        if of(".ok").is_some_and(|rest| rest.is_empty()) {
            return test(Asks::Good, false);
        }
        if let Some(rest) = of(".elapsed.total_seconds()") {
            return test(
                Asks::Longer(rest.strip_prefix('>')?.trim_start_matches('=').trim().parse().ok()?),
                false,
            );
        }
        let (needle, place) = condition.split_once(" in ")?;
        let (needle, is_not) = needle.strip_suffix(" not").map_or((needle, false), |needle| (needle, true));
        let place = place.trim().strip_prefix(self.name.as_str())?;
        let text = super::text_of(needle.trim().strip_prefix('b').unwrap_or(needle.trim()))?;
        matches!(place, ".text" | ".content").then_some(())?;
        test(Asks::Holds(text), is_not)
    }

    /// Only these statuses are good, of those that were.
    fn only(&mut self, good: impl Fn(u16) -> bool) {
        let known = self.statuses.take().unwrap_or_else(|| (200..400).collect());
        self.statuses = Some(known.into_iter().filter(|&status| good(status)).collect());
    }

    fn fails(&mut self, Test { asks, is_not }: Test) -> Option<()> {
        match (asks, is_not) {
            (Asks::Status(status), true) => {
                let known = self.statuses.get_or_insert_with(|| (200..400).collect());
                // A status may be asked for that is no success elsewhere.
                known.insert(status);
                known.retain(|&have| have == status);
            }
            (Asks::Status(status), false) => self.only(|have| have != status),
            (Asks::Good, true) => {}
            (Asks::Holds(text), true) => self.contains.push(text),
            (Asks::Holds(text), false) => self.lacks.push(text),
            (Asks::Longer(seconds), false) => {
                self.within = Some(self.within.map_or(seconds, |have| have.min(seconds)));
            }
            (Asks::Good, false) | (Asks::Longer(_), true) | (Asks::Always, _) => return None,
        }
        Some(())
    }

    fn succeeds(&mut self, Test { asks, is_not }: Test) -> Option<()> {
        match (asks, is_not) {
            (Asks::Status(status), false) => {
                self.statuses.get_or_insert_with(|| (200..400).collect()).insert(status);
            }
            // What is a success beside what fails says nothing more.
            (Asks::Always | Asks::Good, _) | (Asks::Holds(_) | Asks::Longer(_), _) => {}
            (Asks::Status(_), true) => return None,
        }
        Some(())
    }

    /// As the value of `check`; `None`: nothing is asked of answers.
    pub fn check(&self) -> Option<String> {
        let mut checks = Vec::new();
        if let Some(statuses) = &self.statuses {
            checks.push(status_check(&statuses.iter().copied().collect::<Vec<u16>>(), true));
        }
        for (name, texts) in [("contains", &self.contains), ("lacks", &self.lacks)] {
            if !texts.is_empty() {
                let texts: Vec<String> = texts.iter().map(|text| toml_text(text)).collect();
                checks.push(format!("{name} = [{}]", texts.join(", ")));
            }
        }
        checks.extend(self.within.map(|seconds| format!("within = \"{seconds}s\"")));
        (!checks.is_empty()).then(|| format!("{{ {} }}", checks.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check, or that the block is not understood.
    fn check(block: &str) -> Result<Option<String>, &'static str> {
        let mut caught = Caught::new(8, "r");
        for line in block.lines() {
            let text = line.trim_start();
            caught.line(12 + line.len() - text.len(), text).ok_or("not understood")?;
        }
        Ok(caught.check())
    }

    #[test]
    fn blocks_say_what_fails() {
        for (block, want) in [
            ("if r.status_code != 200:\n    r.failure(\"no\")", Some("{ status = [200] }")),
            (
                "if r.status_code == 404:\n    r.failure('x')\nelif \"Hi\" not in r.text:\n    r.failure('y')\nelse:\n    r.success()",
                None,
            ),
            (
                "if b\"sad\" in r.content:\n    r.failure('x')\nelif r.elapsed.total_seconds() > 0.5:\n    r.failure('slow')",
                Some("{ lacks = [\"sad\"], within = \"0.5s\" }"),
            ),
            (
                "if \"ok\" in r.text:\n    r.success()\nelse:\n    r.failure(f\"x {r.text}\")",
                Some("{ contains = [\"ok\"] }"),
            ),
            (
                "if r.status_code == 200:\n    r.success()\nelse:\n    r.failure('x')",
                Some("{ status = [200] }"),
            ),
            ("if not r.ok:\n    r.failure('x')", Some("")),
            ("r.success()", Some("")),
        ] {
            let found = check(block).unwrap();
            match want {
                Some("") => assert_eq!(found, None, "{block}"),
                Some(want) => assert_eq!(found.as_deref(), Some(want), "{block}"),
                None => assert!(
                    found
                        .is_some_and(|found| !found.contains("404") && found.contains("contains = [\"Hi\"]")),
                    "{block}"
                ),
            }
        }
        let too = check("if r.status_code == 404:\n    r.success()").unwrap().unwrap();
        // Redirects are followed, here as there.
        assert!(too.contains(", 399, 404]") && too.contains("[200, ") && too.contains("300, 304"), "{too}");
        let asked = check("if r.status_code != 302:\n    r.failure('x')").unwrap();
        assert_eq!(asked.as_deref(), Some("{ status = [302] }"));
        for block in [
            "if r.json()['a'] == 1:\n    r.failure('x')",
            "print(r.text)",
            "r.failure('always')",
            "else:\n    r.success()",
            "if r.status_code == 404:\n    r.success()\nelif \"x\" not in r.text:\n    r.failure('x')",
        ] {
            assert!(check(block).is_err(), "{block}");
        }
    }
}
