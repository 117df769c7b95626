//! Stored runs beside each other. That proves little: they were measured at different times.

use std::fmt::Write as _;

use serde_json::Value;

/// A run that `--json` has stored.
#[derive(Debug, Clone)]
pub struct Stored {
    name: String,
    value: Value,
}

/// Figures that are shown: their path in the JSON, and how people call them.
const FIGURES: [(&str, &str); 8] = [
    ("/responses_per_second", "rate, per second"),
    ("/latency_us/mean", "latency, mean, µs"),
    ("/latency_us/p50", "latency, p50, µs"),
    ("/latency_us/p95", "latency, p95, µs"),
    ("/latency_us/p99", "latency, p99, µs"),
    ("/latency_us/max", "latency, max, µs"),
    ("/error_share", "share of errors"),
    ("/bytes", "bytes"),
];

impl Stored {
    /// Reads what `--json` wrote.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| {
            format!("{name}:{}:{}: this is not JSON: {error}", error.line(), error.column())
        })?;
        if value.get("responses").is_none() && value.get("runs").is_none() {
            return Err(format!("{name}: this is not what brisk bench --json writes"));
        }
        Ok(Self { name: name.to_owned(), value })
    }

    /// Its runs, by label.
    fn runs(&self) -> Vec<(&str, &Value)> {
        let runs: Vec<&Value> = match self.value.get("runs").and_then(Value::as_array) {
            Some(runs) => runs.iter().collect(),
            None => vec![&self.value],
        };
        runs.into_iter().map(|run| (run.get("label").and_then(Value::as_str).unwrap_or(""), run)).collect()
    }

    fn text(&self, path: &str) -> &str {
        self.value.pointer(path).and_then(Value::as_str).unwrap_or("")
    }
}

/// Both sides' figures, and why they prove little.
pub fn diff(a: &Stored, b: &Stored) -> String {
    let mut out = String::new();
    for (label, left) in a.runs() {
        let Some((_, right)) = b.runs().into_iter().find(|(have, _)| *have == label) else {
            let _ = writeln!(out, "{label}: only in {}", a.name);
            continue;
        };
        if !label.is_empty() {
            let _ = writeln!(out, "{label}");
        }
        for (path, name) in FIGURES {
            row(name, left.pointer(path), right.pointer(path), &mut out);
        }
        if let Some(tiers) = left.get("tiers").and_then(Value::as_object) {
            for (tier, figures) in tiers {
                let other = right.pointer(&format!("/tiers/{tier}/cpu_us_per_response"));
                row(
                    &format!("{tier}, CPU µs per response"),
                    figures.get("cpu_us_per_response"),
                    other,
                    &mut out,
                );
            }
        }
    }
    let _ = writeln!(
        out,
        "\nThis proves little: these are single runs of different times, and the same server differs from itself by 15 %\n\
         in CPU per request and by up to 40 % in rate from one run to the next. brisk bench compare A B decides it."
    );
    for what in ["machine", "kernel", "processor", "brisk"] {
        let path = format!("/environment/{what}");
        if a.text(&path) != b.text(&path) {
            let _ = writeln!(out, "Not the same {what}: {} and {}.", a.text(&path), b.text(&path));
        }
    }
    let (left, right) = (a.text("/command"), b.text("/command"));
    if without_outputs(left) != without_outputs(right) {
        let _ = writeln!(out, "Not the same command:\n  {left}\n  {right}");
    }
    out
}

/// A command's words without those that say where its results go: they change nothing of what was measured.
fn without_outputs(command: &str) -> Vec<&str> {
    const WITH_VALUE: [&str; 4] = ["--html", "--csv", "--prometheus", "--raw"];
    const ALONE: [&str; 4] = ["--json", "--web", "-q", "--quiet"];
    let mut words = command.split(' ');
    let mut left = Vec::new();
    while let Some(word) = words.next() {
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        if WITH_VALUE.contains(&name) {
            if name == word {
                words.next();
            }
        } else if !ALONE.contains(&name) {
            left.push(word);
        }
    }
    left
}

fn row(name: &str, left: Option<&Value>, right: Option<&Value>, out: &mut String) {
    let (Some(left), Some(right)) = (left.and_then(Value::as_f64), right.and_then(Value::as_f64)) else {
        return;
    };
    let change =
        if left > 0.0 { format!("{:+.1} %", (right / left - 1.0) * 100.0) } else { "–".to_owned() };
    let _ = writeln!(out, "  {name:<32} {left:>14.3} {right:>14.3} {change:>9}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(name: &str, rate: f64, host: &str) -> Stored {
        let text = format!(
            "{{\"label\":\"\",\"responses\":5,\"responses_per_second\":{rate},\"latency_us\":{{\"p50\":100}},\
             \"tiers\":{{\"php\":{{\"cpu_us_per_response\":90}}}},\"environment\":{{\"machine\":\"{host}\"}}}}"
        );
        Stored::parse(name, &text).unwrap()
    }

    #[test]
    fn figures_side_by_side_with_a_warning() {
        let text = diff(&stored("a", 100.0, "x"), &stored("b", 110.0, "y"));
        assert!(
            text.contains("+10.0 %") && text.contains("php, CPU") && text.contains("proves little"),
            "{text}"
        );
        assert!(text.contains("Not the same machine: x and y"), "{text}");
        assert!(!diff(&stored("a", 1.0, "x"), &stored("b", 1.0, "x")).contains("Not the same"));
    }

    #[test]
    fn where_results_go_is_no_difference_of_commands() {
        let same = without_outputs("brisk bench -c 5 URL");
        for other in [
            "brisk bench -c 5 --json=b.json URL",
            "brisk bench -q -c 5 URL --html b.html --csv=b.csv",
            "brisk bench --raw x -c 5 --web URL --prometheus p",
        ] {
            assert_eq!(without_outputs(other), same, "{other}");
        }
        assert_ne!(without_outputs("brisk bench -c 6 URL"), same);
    }

    #[test]
    fn what_is_no_result_is_refused() {
        let error = Stored::parse("x.json", "{\n \"a\": }").unwrap_err();
        assert!(error.starts_with("x.json:2:"), "{error}");
        assert!(Stored::parse("x.json", "{\"a\":1}").is_err());
    }
}
