//! Results, as they are kept in `docs/benchmarks.json`: one entry per part, the last run of each.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::machine::Environment;
use crate::stats::Summary;

/// A figure's lower or upper bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
}

/// What became of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval is on the right side.
    Met,
    /// The median is, the interval is not wholly.
    MetWithinNoise,
    /// The median is on the wrong side, the interval not wholly.
    MissedWithinNoise,
    /// The whole interval is on the wrong side.
    Missed,
}

impl Target {
    /// Holds a figure against the target.
    pub fn judge(self, figure: Summary) -> Verdict {
        let (worst, best) = match self {
            Self::AtMost(_) => (figure.high, figure.low),
            Self::AtLeast(_) => (figure.low, figure.high),
        };
        match (self.allows(figure.median), self.allows(worst), self.allows(best)) {
            (true, true, _) => Verdict::Met,
            (true, false, _) => Verdict::MetWithinNoise,
            (false, _, true) => Verdict::MissedWithinNoise,
            (false, _, false) => Verdict::Missed,
        }
    }

    fn allows(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }

    /// As people write it.
    pub fn text(self) -> String {
        match self {
            Self::AtMost(limit) => format!("≤ {limit}"),
            Self::AtLeast(limit) => format!("≥ {limit}"),
        }
    }
}

impl Verdict {
    /// As people write it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::MetWithinNoise => "met (interval crosses)",
            Self::MissedWithinNoise => "missed (interval crosses)",
            Self::Missed => "**missed**",
        }
    }
}

/// One measured figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What was done.
    pub case: String,
    /// To whom.
    pub server: String,
    /// The figure.
    pub figure: Summary,
    /// Its unit.
    pub unit: String,
    /// Requests per second beside it.
    pub rate: Option<f64>,
}

/// One figure held against a target.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// What was done, and which ratio this is.
    pub what: String,
    /// Our figure's median.
    pub ours: f64,
    /// The peer's, if there is one.
    pub peer: Option<f64>,
    /// The unit of both.
    pub unit: String,
    /// The ratio, or our figure where the target is absolute.
    pub figure: Summary,
    /// What it should be.
    pub target: Target,
}

/// The last run of one part.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The part's name on the command line.
    pub name: String,
    /// One sentence on what it does.
    pub about: String,
    /// The command that repeats it.
    pub command: String,
    /// Where and when it ran.
    pub environment: Environment,
    /// Figures against targets.
    pub checks: Vec<Check>,
    /// All figures.
    pub rows: Vec<Row>,
}

impl Part {
    fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "about": self.about,
            "command": self.command,
            "environment": self.environment.to_json(),
            "checks": self.checks.iter().map(Check::to_json).collect::<Vec<_>>(),
            "rows": self.rows.iter().map(Row::to_json).collect::<Vec<_>>(),
        })
    }

    fn from_json(value: &Value) -> Option<Self> {
        Some(Self {
            name: text(value, "name")?,
            about: text(value, "about")?,
            command: text(value, "command")?,
            environment: Environment::from_json(value.get("environment")?)?,
            checks: list(value, "checks", Check::from_json)?,
            rows: list(value, "rows", Row::from_json)?,
        })
    }
}

impl Check {
    fn to_json(&self) -> Value {
        let (bound, limit) = match self.target {
            Target::AtMost(limit) => ("at_most", limit),
            Target::AtLeast(limit) => ("at_least", limit),
        };
        json!({
            "what": self.what,
            "ours": self.ours,
            "peer": self.peer,
            "unit": self.unit,
            "figure": summary_to_json(self.figure),
            "target": { bound: limit },
            "verdict": self.target.judge(self.figure).text().trim_matches('*'),
        })
    }

    fn from_json(value: &Value) -> Option<Self> {
        let target = value.get("target")?;
        let at_most = target.get("at_most").and_then(Value::as_f64).map(Target::AtMost);
        let at_least = target.get("at_least").and_then(Value::as_f64).map(Target::AtLeast);
        Some(Self {
            what: text(value, "what")?,
            ours: number(value, "ours")?,
            peer: number(value, "peer"),
            unit: text(value, "unit")?,
            figure: summary_from_json(value.get("figure")?)?,
            target: at_most.or(at_least)?,
        })
    }
}

impl Row {
    fn to_json(&self) -> Value {
        json!({
            "case": self.case,
            "server": self.server,
            "figure": summary_to_json(self.figure),
            "unit": self.unit,
            "rate": self.rate,
        })
    }

    fn from_json(value: &Value) -> Option<Self> {
        Some(Self {
            case: text(value, "case")?,
            server: text(value, "server")?,
            figure: summary_from_json(value.get("figure")?)?,
            unit: text(value, "unit")?,
            rate: number(value, "rate"),
        })
    }
}

fn summary_to_json(summary: Summary) -> Value {
    json!({ "median": summary.median, "low": summary.low, "high": summary.high, "rounds": summary.count })
}

fn summary_from_json(value: &Value) -> Option<Summary> {
    Some(Summary {
        median: number(value, "median")?,
        low: number(value, "low")?,
        high: number(value, "high")?,
        count: number(value, "rounds")? as usize,
    })
}

/// A member that is text.
pub fn text(value: &Value, name: &str) -> Option<String> {
    value.get(name)?.as_str().map(str::to_owned)
}

fn number(value: &Value, name: &str) -> Option<f64> {
    value.get(name)?.as_f64()
}

fn list<T>(value: &Value, name: &str, read: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    value.get(name)?.as_array()?.iter().map(read).collect()
}

/// Reads the parts of an earlier run; none when there was no run.
pub fn load(path: &Path) -> io::Result<Vec<Part>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        result => result?,
    };
    parse(&text)
        .ok_or_else(|| io::Error::other(format!("{} is not of our making: move it away", path.display())))
}

fn parse(text: &str) -> Option<Vec<Part>> {
    let value: Value = serde_json::from_str(text).ok()?;
    value.get("parts")?.as_object()?.values().map(Part::from_json).collect()
}

/// The text of the JSON file.
pub fn render(parts: &[Part]) -> String {
    let parts: Map<String, Value> = parts.iter().map(|part| (part.name.clone(), part.to_json())).collect();
    let mut text = serde_json::to_string_pretty(&json!({ "parts": parts })).unwrap_or_default();
    text.push('\n');
    text
}

/// Puts a part in the place of its last run, in the order of `names`.
pub fn merge(parts: &mut Vec<Part>, part: Part, names: &[&str]) {
    parts.retain(|other| other.name != part.name);
    parts.push(part);
    parts.sort_by_key(|part| names.iter().position(|name| *name == part.name));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(low: f64, median: f64, high: f64) -> Summary {
        Summary { median, low, high, count: 9 }
    }

    fn part(name: &str) -> Part {
        Part {
            name: name.to_owned(),
            about: "about".to_owned(),
            command: "command".to_owned(),
            environment: Environment::example(),
            checks: vec![
                Check {
                    what: "a".to_owned(),
                    ours: 1.0,
                    peer: Some(2.0),
                    unit: "µs".to_owned(),
                    figure: summary(1.9, 2.0, 2.1),
                    target: Target::AtLeast(1.5),
                },
                Check {
                    what: "b".to_owned(),
                    ours: 1.0,
                    peer: None,
                    unit: "MiB".to_owned(),
                    figure: summary(0.9, 1.0, 1.25),
                    target: Target::AtMost(1.0),
                },
            ],
            rows: vec![Row {
                case: "c".to_owned(),
                server: "s".to_owned(),
                figure: summary(1.0, 1.5, 2.0),
                unit: "µs".to_owned(),
                rate: None,
            }],
        }
    }

    #[test]
    fn parts_survive_the_file() {
        let parts = vec![part("small"), part("idle")];
        let mut read = parse(&render(&parts)).unwrap();
        read.sort_by_key(|part| part.name != "small");
        assert_eq!(read, parts);
    }

    #[test]
    fn a_new_run_replaces_its_part_only() {
        let names = ["small", "large", "idle"];
        let mut parts = vec![part("small"), part("idle")];
        merge(&mut parts, part("large"), &names);
        let newer = Part { about: "newer".to_owned(), ..part("small") };
        merge(&mut parts, newer, &names);
        let found: Vec<_> = parts.iter().map(|part| (&*part.name, &*part.about)).collect();
        assert_eq!(found, [("small", "newer"), ("large", "about"), ("idle", "about")]);
    }

    #[test]
    fn verdicts() {
        let check = |target: Target, low, median, high, want| {
            assert_eq!(target.judge(summary(low, median, high)), want, "{target:?} {low} {median} {high}");
        };
        check(Target::AtMost(1.0), 0.8, 0.9, 1.0, Verdict::Met);
        check(Target::AtMost(1.0), 0.8, 0.9, 1.1, Verdict::MetWithinNoise);
        check(Target::AtMost(1.0), 0.9, 1.1, 1.2, Verdict::MissedWithinNoise);
        check(Target::AtMost(1.0), 1.1, 1.2, 1.3, Verdict::Missed);
        check(Target::AtLeast(1.0), 1.0, 1.2, 1.3, Verdict::Met);
        check(Target::AtLeast(1.0), 0.9, 1.2, 1.3, Verdict::MetWithinNoise);
        check(Target::AtLeast(1.0), 0.8, 0.9, 1.3, Verdict::MissedWithinNoise);
        check(Target::AtLeast(1.0), 0.7, 0.8, 0.9, Verdict::Missed);
    }
}
