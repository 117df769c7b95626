//! What must hold in the end: `p99 < 500ms`, `login: errors < 1%`. The language is that of loads ([`brisk_load::sweep::slo`]), with the name of
//! a step or group in front.

use super::line::Line;
use brisk_load::sweep::slo::{Promise, Seen};
use std::fmt;
use std::time::Duration;

/// See the module's head.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    text: String,
    /// A step or group; none: all of them.
    pub of: Option<String>,
    promise: Promise,
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Threshold {
    /// Reads one.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (of, rest) = match text.rsplit_once(": ") {
            Some((of, rest)) => (Some(of.trim().to_owned()), rest.trim()),
            None => (None, text),
        };
        Ok(Self { text: text.to_owned(), of, promise: Promise::parse(rest)? })
    }

    /// The time that is its limit; `None`: it is about something else.
    pub fn time(&self) -> Option<Duration> {
        self.promise.time()
    }

    /// What was measured, for people, and whether it is good enough. Nothing measured is not good enough. `lost`: the share of
    /// their time that users waited in vain, which errors are judged by as well.
    pub fn judge(&self, line: Option<&Line>, seconds: f64, lost: f64) -> (String, bool) {
        let nothing = Line::default();
        let line = line.unwrap_or(&nothing);
        let judged = self.promise.judge(&Seen {
            latency: &line.latency,
            never: line.never,
            requests: line.requests(),
            error_share: line.error_share(),
            lost_share: lost,
            seconds,
            in_time: line.latency.count(),
        });
        (judged.seen, judged.holds)
    }
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
            ("count >= 99", true),
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
        assert!(Threshold::parse("").is_err() && Threshold::parse("login: p99").is_err());
    }
}
