//! What must hold in the end: `p99 < 500ms`, `login: errors < 1%`.

use super::tally::Line;
use brisk_load::cli::args;
use std::fmt;

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Metric {
    /// A share of all times, in milliseconds.
    Quantile(f64),
    Mean,
    Max,
    /// Share of failures.
    Errors,
    /// Good answers per second.
    Rate,
    /// Good answers.
    Count,
}

/// See the module's head.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    text: String,
    /// A step or group; none: all of them.
    pub of: Option<String>,
    metric: Metric,
    below: bool,
    limit: f64,
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Threshold {
    /// Reads one.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "\"{text}\" is not a threshold: write \"p99 < 500ms\", \"errors < 1%\", \"login: p95 < 1s\" or \"rate > 50\""
            )
        };
        let (of, rest) = match text.rsplit_once(": ") {
            Some((of, rest)) => (Some(of.trim().to_owned()), rest),
            None => (None, text),
        };
        let (name, below, limit) = match (rest.split_once('<'), rest.split_once('>')) {
            (Some((name, limit)), None) => (name.trim(), true, limit.trim()),
            (None, Some((name, limit))) => (name.trim(), false, limit.trim()),
            _ => return Err(bad()),
        };
        let metric = match name {
            "mean" => Metric::Mean,
            "max" => Metric::Max,
            "errors" => Metric::Errors,
            "rate" => Metric::Rate,
            "count" => Metric::Count,
            _ => {
                let share: f64 =
                    name.strip_prefix('p').and_then(|share| share.parse().ok()).ok_or_else(bad)?;
                if !(0.0..=100.0).contains(&share) {
                    return Err(bad());
                }
                Metric::Quantile(share / 100.0)
            }
        };
        let limit = match metric {
            Metric::Errors => {
                let share = limit
                    .strip_suffix('%')
                    .map_or_else(|| limit.parse(), |share| share.trim().parse::<f64>().map(|s| s / 100.0));
                share.map_err(|_| bad())?
            }
            Metric::Rate | Metric::Count => limit.parse().map_err(|_| bad())?,
            _ => args::duration(limit).map_err(|_| bad())?.as_secs_f64() * 1e3,
        };
        if !limit.is_finite() {
            return Err(bad());
        }
        Ok(Self { text: text.to_owned(), of, metric, below, limit })
    }

    /// What was measured, for people, and whether it is good enough. Nothing measured is not good enough. `lost`: the share of
    /// their time that users waited in vain, which errors are judged by as well.
    pub fn judge(&self, line: Option<&Line>, seconds: f64, lost: f64) -> (String, bool) {
        let Some(line) = line.filter(|line| line.requests() > 0) else {
            return ("nothing was measured".to_owned(), false);
        };
        let has_times = line.latency.count() > 0;
        let (value, text) = match self.metric {
            Metric::Errors if lost > line.error_share() => {
                let requests = 100.0 * line.error_share();
                (lost, format!("{requests:.2} % of the requests, {:.2} % of the users' time", 100.0 * lost))
            }
            Metric::Errors => (line.error_share(), format!("{:.2} %", 100.0 * line.error_share())),
            Metric::Rate => {
                let rate = line.latency.count() as f64 / seconds.max(1e-9);
                (rate, format!("{rate:.2}/s"))
            }
            Metric::Count => (line.latency.count() as f64, line.latency.count().to_string()),
            _ if !has_times => return ("no good answer".to_owned(), false),
            Metric::Quantile(share) => millis(line.latency.quantile(share) as f64),
            Metric::Mean => millis(line.latency.mean()),
            Metric::Max => millis(line.latency.max() as f64),
        };
        (text, if self.below { value < self.limit } else { value > self.limit })
    }
}

fn millis(ns: f64) -> (f64, String) {
    (ns / 1e6, format!("{:.2} ms", ns / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_read_and_judged() {
        let mut line = Line::default();
        for ms in 1..=99u64 {
            line.latency.record(ms * 1_000_000);
        }
        line.failures.insert("check".into(), 1);
        for (text, good) in [
            ("p50 < 51ms", true),
            ("p50 < 49ms", false),
            ("errors < 1%", false),
            ("errors < 1.1%", true),
            ("errors < 0.02", true),
            ("rate > 40", true),
            ("count > 99", false),
            ("login: max < 1s", true),
            ("mean < 50ms", false),
        ] {
            let threshold = Threshold::parse(text).unwrap();
            assert_eq!(threshold.judge(Some(&line), 2.0, 0.0).1, good, "{text}");
        }
        assert!(
            !Threshold::parse("errors < 50%").unwrap().judge(None, 1.0, 0.0).1,
            "nothing measured is not good"
        );
        let few = Threshold::parse("errors < 2%").unwrap();
        assert!(few.judge(Some(&line), 1.0, 0.019).1 && !few.judge(Some(&line), 1.0, 0.3).1);
        assert_eq!(Threshold::parse("a: b: p1 < 1s").unwrap().of.as_deref(), Some("a: b"));
        for bad in [
            "",
            "p99",
            "p101 < 1s",
            "px < 1s",
            "p99 < x",
            "errors < x%",
            "foo < 1",
            "p9 < 1s < 2s",
            "rate > inf",
        ] {
            assert!(Threshold::parse(bad).is_err(), "{bad}");
        }
    }
}
